/* test/file_paths_test.c: the file that a path names, which is never outside of the root, and the replies when there is none.
 *
 * The linker puts the suite's own function in front of syscall, so that it can refuse openat2. */
#include <limits.h>
#include <stdarg.h>

#include <sys/syscall.h>

#include "test/file_fixture.h"

/* -- the kernel -- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static atomic_int refusal;       /* what openat2 reports; 0: what it does */
static atomic_int refusals_left; /* how often */

long
__wrap_syscall(long number, ...)
{
        long arguments[6];
        va_list list;

        va_start(list, number);
        for (unsigned i = 0; i < 6; i++) {
                arguments[i] = va_arg(list, long);
        }
        va_end(list);
        if (number == SYS_openat2 && atomic_load(&refusal) && atomic_fetch_sub(&refusals_left, 1) > 0) {
                errno = atomic_load(&refusal);
                return -1;
        }
        return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

static void
refuse_openat2(int error, int times)
{
        atomic_store(&refusals_left, times);
        atomic_store(&refusal, error);
}

static void
finish(void)
{
        refuse_openat2(0, 0);
        end();
}

/* -- where it is -- */

static void
a_directory_with_a_slash_is_its_index(void)
{
        begin();
        answers("/", 200, 0);
        reply_is(200, "<p>root", NULL);
        field_is("Content-Type", "text/html; charset=utf-8");
        answers("///", 200, 0);
        answers("/sub/", 200, 0);
        reply_is(200, "<p>sub", NULL);
        answers("/sub//?a=b", 200, 0);
        answers("/no%20index/", 404, -ENOENT);
        answers("/odd/", 404, -EISDIR);
        answers("/file.txt/", 404, -ENOENT);
        answers("/nothing/", 404, -ENOENT);
        at.path = "";
        answers("/where", 200, 0);
        reply_is(200, "<p>root", NULL);
        finish();
}

static void
redirects_to(const char *target, const char *location)
{
        answers(target, 301, -EISDIR);
        field_is("Location", location);
}

static void
a_directory_without_one_is_redirected(void)
{
        begin();
        redirects_to("/sub", "./sub/");
        redirects_to("//sub", "./sub/"); /* not to another host */
        redirects_to("/sub?a=b/c&d", "./sub/?a=b/c&d");
        redirects_to("/sub/a%20b%3ac", "./a%20b%3ac/");
        redirects_to("/sub/a%20b:c", "./a%20b:c/"); /* not to another scheme */
        redirects_to("/sub/.", "././");
        redirects_to("http://a/sub", "./sub/");
        at.path = "sub";
        redirects_to("/files/sub", "./sub/");
        answers("/files/other", 404, -EISDIR);
        answers("/files/nosub", 404, -EISDIR);
        at.path = "sub/a b:c";
        redirects_to("/files/sub/a%20b:c", "./a%20b:c/");
        answers("/a%20b:c", 404, -EISDIR);
        finish();
}

static void
a_path_that_is_not_a_file_is_refused(void)
{
        begin();
        answers("/fifo", 403, -EINVAL); /* and not waited for */
        answers("/socket", 403, -EINVAL);
        answers("/fifo/", 404, -ENOENT);
        answers("/nothing", 404, -ENOENT);
        answers("/file.txt/nothing", 404, -ENOENT);
        at.root = path_of("nothing");
        answers("/file.txt", 404, -ENOENT);
        at.root = path_of("secret.txt");
        answers("/file.txt", 404, -ENOENT);
        finish();
}

/* Names that lead out, and what is like them. */
static void
nothing_leaves_the_root(void)
{
        static const char targets[] = /* with a space behind each */
                "/.. /../ /../secret.txt //../secret.txt /./../secret.txt /sub/../../secret.txt /sub/../file.txt "
                "/%2e%2e/secret.txt /.%2e/secret.txt /%2E./secret.txt /..%2fsecret.txt /..%2Fsecret.txt "
                "/%2e%2e%2fsecret.txt /sub/..%2f..%2fsecret.txt /sub/%2e%2e/%2e%2e/secret.txt /..//secret.txt "
                "/../root-too/secret.txt /sub/.. /sub/../.. /../root/file.txt /%2f%2e%2e/secret.txt "
                "/..%5csecret.txt /..\\secret.txt /%252e%252e/secret.txt /%c0%ae%c0%ae/secret.txt "
                "/nothing/../../secret.txt /sub/../../../../../../../../etc/passwd /..;/secret.txt //etc/passwd "
                "/%2fetc/passwd /root-too/secret.txt http://a/../secret.txt /fifo/../../secret.txt /out /out/ "
                "/out-directory/secret.txt /out-directory/root/file.txt /absolute /absolute-directory/secret.txt "
                "/absolute-directory/root/file.txt /absolute-within /sub/up-and-out /in-directory/up-and-out "
                "/magic/etc/passwd /loop /loop/a /nowhere /out-directory/ /absolute-directory/ /magic/ ";
        char target[128];

        for (const char *next = targets; *next; next = strchr(next, ' ') + 1) {
                snprintf(target, sizeof target, "%.*s", (int)strcspn(next, " "), next);
                answers(target, 404, -ENOENT);
        }
        CU_ASSERT_EQUAL(get("/file.txt%00"), 400);
        http_close(&at.client); /* as it is after a 400 */
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
a_path_of_any_length_is_looked_for(void)
{
        char target[5200] = "/";

        memset(target + 1, 'n', 300);
        answers(target, 404, -ENOENT);
        memset(target + 1, 'n', 5000);
        answers(target, 404, -ENOENT);
        for (size_t size = 4080; size < 4100; size++) { /* around PATH_MAX */
                memset(target, '/', sizeof target);
                for (size_t i = 1; i < size; i += 2) {
                        target[i] = '.';
                }
                target[size] = '\0';
                get(target);
                CU_ASSERT(at.reply.status == 200 || at.reply.status == 404 || at.reply.status == 301);
        }
}

static void
files_within_the_root_are_served(void)
{
        answers("/file.txt", 200, 0);
        answers("/..dots", 200, 0);
        answers("/dots..", 200, 0);
        answers("/...", 200, 0);
        answers("/./file.txt", 200, 0);
        answers("//sub//./file.css", 200, 0);
        answers("/sub/", 200, 0);
        answers("/fifo", 403, -EINVAL);
        answers("/sub", 301, -EISDIR);
        answers("/file.txt/", 404, -ENOENT);
        answers("/file.txt/a", 404, -ENOENT);
}

static void
links(int status, int result)
{
        answers("/in", status, result);
        answers("/in-directory/file.css", status, result);
        answers("/in-directory/", status, result);
        answers("/sub/up", status, result);
        answers("/in-directory/up", status, result);
}

static bool
kernel_has_openat2(void)
{
        return __real_syscall(SYS_openat2, -1, NULL, NULL, (size_t)0) < 0 && errno != ENOSYS && errno != EPERM;
}

static void
the_kernel_keeps_what_is_served_beneath_the_root(void)
{
        begin();
        nothing_leaves_the_root();
        a_path_of_any_length_is_looked_for();
        files_within_the_root_are_served();
        if (kernel_has_openat2()) {
                links(200, 0);
        } else {
                printf("\n  links within the root are not tried: this kernel has no openat2 ");
        }
        finish();
}

static void
without_its_help_no_link_is_followed(void)
{
        static const int errors[] = {ENOSYS, EPERM};

        begin();
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                refuse_openat2(errors[i], INT_MAX);
                nothing_leaves_the_root();
                a_path_of_any_length_is_looked_for();
                files_within_the_root_are_served();
                links(404, -ENOENT);
        }
        finish();
}

static void
the_root_may_be_a_link(void)
{
        begin();
        at.root = path_of("root-link");
        answers("/file.txt", 200, 0);
        nothing_leaves_the_root();
        refuse_openat2(ENOSYS, INT_MAX);
        answers("/file.txt", 200, 0);
        nothing_leaves_the_root();
        finish();
}

/* -- errors -- */

static void
a_file_that_may_not_be_read_is_403(void)
{
        begin();
        CU_ASSERT_EQUAL(chmod(path_of("root/file.txt"), 0), 0);
        CU_ASSERT_EQUAL(chmod(path_of("root/sub"), 0), 0);
        /* Root may read all; for the time of the test it is nobody. */
        bool is_root = geteuid() == 0;
        if (is_root && seteuid(65534)) {
                printf("\n  not tried: root may read all, and cannot become nobody here ");
        } else {
                answers("/file.txt", 403, -EACCES);
                answers("/sub/file.css", 403, -EACCES);
                refuse_openat2(ENOSYS, INT_MAX);
                answers("/file.txt", 403, -EACCES);
                answers("/sub/file.css", 403, -EACCES);
        }
        CU_ASSERT_EQUAL(is_root ? seteuid(0) : 0, 0);
        CU_ASSERT_EQUAL(chmod(path_of("root/sub"), 0755), 0);
        finish();
}

static void
errors_of_the_system_have_their_status(void)
{
        static const struct {
                int error, result, status;
        } rows[] = {{ENOENT, -ENOENT, 404}, {ENOTDIR, -ENOENT, 404},      {ELOOP, -ENOENT, 404},
                    {EXDEV, -ENOENT, 404},  {ENAMETOOLONG, -ENOENT, 404}, {EACCES, -EACCES, 403},
                    {ENXIO, -EINVAL, 403},  {ENODEV, -EINVAL, 403},       {EMFILE, -EMFILE, 503},
                    {ENFILE, -ENFILE, 503}, {EAGAIN, -EAGAIN, 503},       {ENOMEM, -ENOMEM, 500},
                    {EIO, -EIO, 500},       {ESTALE, -ESTALE, 500}};

        begin();
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                refuse_openat2(rows[i].error, INT_MAX);
                answers("/file.txt", rows[i].status, rows[i].result);
                field_is("Content-Type", "text/plain; charset=utf-8");
        }
        refuse_openat2(EAGAIN, 10); /* somebody renames something */
        answers("/file.txt", 200, 0);
        refuse_openat2(EINTR, 1);
        answers("/file.txt", 200, 0);
        finish();
}

static void
no_descriptor_is_left_open(void)
{
        static const char *const requests[] = {GET("/file.txt"),
                                               GET("/nothing"),
                                               GET("/sub"),
                                               GET("/fifo"),
                                               GET("/sub/"),
                                               GET("/out-directory/secret.txt"),
                                               GET("/no%20index/"),
                                               GET("/odd/"),
                                               WITH("Range: bytes=20-"),
                                               WITH("Range: bytes=2-3"),
                                               WITH("If-Modified-Since: " DATE),
                                               WITH("If-Match: \"x\""),
                                               "HEAD /file.txt HTTP/1.1\r\nHost: a\r\n\r\n",
                                               GET("/sub/../.."),
                                               GET("/sub/file.css/a/b"),
                                               GET("/file.txt")};

        begin();
        get("/nothing");
        unsigned before = http_open_descriptors();
        for (int i = 0; i < 20; i++) {
                refuse_openat2(i % 2 ? ENOSYS : 0, INT_MAX);
                for (size_t j = 0; j < sizeof requests / sizeof *requests; j++) {
                        ask(requests[j]);
                }
        }
        CU_ASSERT_EQUAL(get("/nothing"), 404); /* the reply before it is done with */
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
        finish();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_directory_with_a_slash_is_its_index),
                WEIR_TEST(a_directory_without_one_is_redirected),
                WEIR_TEST(a_path_that_is_not_a_file_is_refused),
                WEIR_TEST(the_kernel_keeps_what_is_served_beneath_the_root),
                WEIR_TEST(without_its_help_no_link_is_followed),
                WEIR_TEST(the_root_may_be_a_link),
                WEIR_TEST(a_file_that_may_not_be_read_is_403),
                WEIR_TEST(errors_of_the_system_have_their_status),
                WEIR_TEST(no_descriptor_is_left_open),
        };

        return weir_test_main("file_paths", tests, sizeof tests / sizeof *tests);
}
