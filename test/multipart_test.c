/* test/multipart_test.c: bodies of multipart/form-data: their text, names, files, pieces, failures. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- what fails -- */

static int refused = -1;    /* allocations until the refused one */
static int read_error = 0;  /* of pread; 0: none */
static int interrupts = 0;  /* of pread, before it works */
static size_t read_most;    /* bytes of one pread; 0: any */
static bool is_predictable; /* the random bytes are 0xff */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
ssize_t __real_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __real_getrandom(void *data, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags);

static bool
refuse(void)
{
        return refused >= 0 && refused-- == 0;
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : __real_calloc(count, size);
}

ssize_t
__wrap_pread(int fd, void *data, size_t size, off_t offset)
{
        errno = interrupts > 0 ? EINTR : read_error;
        if (interrupts > 0 ? interrupts-- > 0 : read_error)
                return -1;
        return __real_pread(fd, data, read_most && size > read_most ? read_most : size, offset);
}

ssize_t
__wrap_getrandom(void *data, size_t size, unsigned flags)
{
        if (!is_predictable)
                return __real_getrandom(data, size, flags);
        memset(data, 0xff, size);
        return (ssize_t)size;
}

/* -- short calls -- */

#define BOUNDARY "weir________________________" /* of 24 bytes 0x3f in the alphabet */

static weir_multipart *
new_form(void)
{
        is_predictable = true;
        weir_multipart *form = weir_multipart_new();
        is_predictable = false;
        return form;
}

/* The body is that, in one piece and in pieces of any size. */
static bool
is_body(weir_multipart *form, const char *expected, size_t expected_size)
{
        size_t size = 0;
        char *body = weir_multipart_encode(form, &size);
        bool is_same = body && size == expected_size && memcmp(body, expected, size) == 0 && body[size] == '\0' &&
                       weir_multipart_size(form) == (int64_t)size;

        if (!is_same)
                printf("%s", body ? body : strerror(errno));
        free(body);
        for (size_t piece = 1; piece <= expected_size + 1 && is_same; piece += piece < 100 ? 1 : 97) {
                char *copy = malloc(expected_size + piece);
                size_t made = 0;
                ssize_t got;

                while ((got = weir_multipart_read(form, copy + made, piece)) > 0) {
                        made += (size_t)got;
                        is_same &= made <= expected_size && (got == (ssize_t)piece || made == expected_size);
                }
                is_same &= got == 0 && made == expected_size && memcmp(copy, expected, made) == 0;
                weir_multipart_rewind(form);
                free(copy);
        }
        return is_same;
}

#define IS_BODY(form, text) is_body((form), (text), sizeof(text) - 1)

static char folder[] = "/tmp/weir-multipart-XXXXXX", file[60];

static void
put_file(const char *text)
{
        FILE *out = fopen(file, "w");

        fputs(text, out);
        fclose(out);
}

/* -- tests -- */

static void
a_form_without_parts_has_its_end(void)
{
        weir_multipart *form = new_form();

        CU_ASSERT_STRING_EQUAL(weir_multipart_type(form), "multipart/form-data; boundary=" BOUNDARY);
        CU_ASSERT_TRUE(IS_BODY(form, "--" BOUNDARY "--\r\n"));
        weir_multipart_free(form);
        weir_multipart_free(NULL);
}

static void
parts_come_in_their_order(void)
{
        weir_multipart *form = new_form();

        CU_ASSERT_EQUAL(weir_multipart_add(form, "a", "1"), 0);
        CU_ASSERT_EQUAL(weir_multipart_add(form, "", ""), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "c", "f.bin", NULL, "x\0y", 3), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "d", NULL, "application/json", "{}", 2), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "e", "", "text/plain; charset=utf-8", NULL, 0), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "f", NULL, NULL, "\r\n--", 4), 0);
        CU_ASSERT_TRUE(IS_BODY(form, "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
                                     "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"\"\r\n\r\n\r\n"
                                     "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"c\"; filename=\"f.bin\"\r\n"
                                     "Content-Type: application/octet-stream\r\n\r\nx\0y\r\n"
                                     "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"d\"\r\n"
                                     "Content-Type: application/json\r\n\r\n{}\r\n"
                                     "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"e\"; filename=\"\"\r\n"
                                     "Content-Type: text/plain; charset=utf-8\r\n\r\n\r\n"
                                     "--" BOUNDARY "\r\n"
                                     "Content-Disposition: form-data; name=\"f\"\r\n\r\n\r\n--\r\n"
                                     "--" BOUNDARY "--\r\n"));
        weir_multipart_free(form);
}

static void
names_cannot_break_out(void)
{
        static const struct {
                const char *text, *as_name, *as_filename;
        } cases[] = {
                {"a\"b", "a%22b", "a%22b"},
                {"a\r\nb", "a%0D%0Ab", "a%0D%0Ab"},
                {"a\nb", "a%0D%0Ab", "a%0Ab"},
                {"a\rb", "a%0D%0Ab", "a%0Db"},
                {"\n\r", "%0D%0A%0D%0A", "%0A%0D"},
                {"\r\r\n\n", "%0D%0A%0D%0A%0D%0A", "%0D%0D%0A%0A"},
                {"a\\\"%22;=", "a\\%22%22;=", "a\\%22%22;="},
                {"\xc3\xa4 \xe2\x82\xac", "\xc3\xa4 \xe2\x82\xac", "\xc3\xa4 \xe2\x82\xac"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                weir_multipart *form = new_form();
                char expected[500];

                CU_ASSERT_EQUAL(weir_multipart_add_data(form, cases[i].text, cases[i].text, "a/b", "", 0), 0);
                int size = snprintf(expected, sizeof expected,
                                    "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\n"
                                    "Content-Type: a/b\r\n\r\n\r\n--" BOUNDARY "--\r\n",
                                    cases[i].as_name, cases[i].as_filename);
                CU_ASSERT_TRUE(is_body(form, expected, (size_t)size));
                weir_multipart_free(form);
        }
}

static void
files_are_read_when_the_body_is(void)
{
        weir_multipart *form = new_form();

        put_file("some text");
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", file, NULL, NULL), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "b", file, "other.bin", "x/y"), 0);
        int fd = open(file, O_RDONLY);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "c", "part", NULL, fd, 5, 3), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "d", NULL, NULL, fd, 0, 0), 0);
        static const char expected[] = "--" BOUNDARY "\r\n"
                                       "Content-Disposition: form-data; name=\"a\"; filename=\"file.html\"\r\n"
                                       "Content-Type: text/html; charset=utf-8\r\n\r\nSOME text\r\n"
                                       "--" BOUNDARY "\r\n"
                                       "Content-Disposition: form-data; name=\"b\"; filename=\"other.bin\"\r\n"
                                       "Content-Type: x/y\r\n\r\nSOME text\r\n"
                                       "--" BOUNDARY "\r\n"
                                       "Content-Disposition: form-data; name=\"c\"; filename=\"part\"\r\n"
                                       "Content-Type: application/octet-stream\r\n\r\ntex\r\n"
                                       "--" BOUNDARY "\r\n"
                                       "Content-Disposition: form-data; name=\"d\"\r\n\r\n\r\n"
                                       "--" BOUNDARY "--\r\n";
        put_file("SOME text, and more"); /* which does not count */
        CU_ASSERT_TRUE(IS_BODY(form, expected));
        read_most = 2;
        interrupts = 3;
        CU_ASSERT_TRUE(IS_BODY(form, expected));
        read_most = 0;
        CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
        close(fd);
        weir_multipart_free(form);
}

static void
what_cannot_be_read_is_said(void)
{
        weir_multipart *form = new_form();
        char text[1000];
        size_t size = 1;

        put_file("some text");
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", file, NULL, NULL), 0);
        read_error = EIO;
        ssize_t head = weir_multipart_read(form, text, sizeof text);
        CU_ASSERT(head > 50 && memcmp(text + head - 4, "\r\n\r\n", 4) == 0);
        CU_ASSERT_EQUAL(weir_multipart_read(form, text, sizeof text), -EIO);
        CU_ASSERT_PTR_NULL(weir_multipart_encode(form, &size));
        CU_ASSERT_EQUAL(errno, EIO);
        CU_ASSERT_EQUAL(size, 1);
        read_error = 0;
        CU_ASSERT_EQUAL(weir_multipart_read(form, text, 4), 4);
        CU_ASSERT_EQUAL(memcmp(text, "some", 4), 0);
        CU_ASSERT_EQUAL(truncate(file, 4), 0);
        CU_ASSERT_EQUAL(weir_multipart_read(form, text, sizeof text), -ENODATA);
        CU_ASSERT_EQUAL(weir_multipart_read(form, text, 0), 0);
        put_file("some text");
        CU_ASSERT(weir_multipart_read(form, text, sizeof text) > 5);
        CU_ASSERT_EQUAL(memcmp(text, " text\r\n", 7), 0);
        CU_ASSERT_EQUAL(weir_multipart_read(form, text, sizeof text), 0);
        weir_multipart_free(form);
}

static void
what_is_no_part_is_refused(void)
{
        weir_multipart *form = new_form();
        static const char *const types[] = {"", "a/b\r\nX: y", "a/b\n", "a\tb", "a\x01", "a\x7f"};

        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
                CU_ASSERT_EQUAL(weir_multipart_add_data(form, "a", NULL, types[i], "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add(form, NULL, "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add(form, "a", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add(NULL, "a", "b"), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "a", NULL, NULL, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_data(form, "a", NULL, NULL, "", (size_t)INT64_MAX + 1), -EFBIG);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "a", NULL, NULL, -1, 0, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "a", NULL, NULL, 0, -1, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "a", NULL, NULL, 0, 0, -1), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "a", NULL, NULL, 0, INT64_MAX, 1), -EFBIG);
        CU_ASSERT_EQUAL(weir_multipart_add_fd(form, "a", NULL, NULL, 0, 0, INT64_MAX), -EFBIG);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", "/nowhere/at/all", NULL, NULL), -ENOENT);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", folder, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", "/dev/null", NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", NULL, NULL, NULL), -EINVAL);
        CU_ASSERT_TRUE(IS_BODY(form, "--" BOUNDARY "--\r\n"));
        char byte;
        CU_ASSERT_EQUAL(weir_multipart_read(form, &byte, 1), 1);
        CU_ASSERT_EQUAL(weir_multipart_add(form, "a", "b"), -EBUSY);
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", file, NULL, NULL), -EBUSY);
        weir_multipart_rewind(form);
        CU_ASSERT_EQUAL(weir_multipart_add(form, "a", "b"), 0);
        CU_ASSERT_PTR_NULL(weir_multipart_type(NULL));
        CU_ASSERT_EQUAL(weir_multipart_size(NULL), 0);
        CU_ASSERT_EQUAL(weir_multipart_read(NULL, &byte, 1), -EINVAL);
        weir_multipart_rewind(NULL);
        size_t size;
        CU_ASSERT_PTR_NULL(weir_multipart_encode(NULL, &size));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_multipart_free(form);
}

/* A file with a hole: nothing of it is in memory. */
static void
a_large_file_has_its_size(void)
{
        const int64_t size = (int64_t)5 << 40;
        int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
        weir_multipart *form = new_form();

        if (ftruncate(fd, size) == 0) {
                CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", file, "f", NULL), 0);
                CU_ASSERT(weir_multipart_size(form) > size);
                refused = 0;
                size_t got = 1;
                CU_ASSERT_PTR_NULL(weir_multipart_encode(form, &got));
                CU_ASSERT_EQUAL(errno, ENOMEM);
                refused = -1;
        }
        close(fd);
        put_file("");
        weir_multipart_free(form);
}

static void
boundaries_differ(void)
{
        weir_multipart *one = weir_multipart_new(), *other = weir_multipart_new();

        CU_ASSERT_STRING_NOT_EQUAL(weir_multipart_type(one), weir_multipart_type(other));
        const char *boundary = strchr(weir_multipart_type(one), '=') + 1;
        CU_ASSERT_EQUAL(strlen(boundary), 28);
        CU_ASSERT_EQUAL(strspn(boundary, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 28);
        weir_multipart_free(one);
        weir_multipart_free(other);
}

static void
memory_is_refused_at_each_point(void)
{
        int before = dup(0);

        close(before);
        refused = 0;
        CU_ASSERT_PTR_NULL(weir_multipart_new());
        weir_multipart *form = new_form();
        size_t size;

        put_file("x");
        refused = 0;
        CU_ASSERT_EQUAL(weir_multipart_add(form, "a", "b"), -ENOMEM);
        refused = 0;
        CU_ASSERT_EQUAL(weir_multipart_add_file(form, "a", file, NULL, NULL), -ENOMEM);
        refused = 0;
        CU_ASSERT_PTR_NULL(weir_multipart_encode(form, &size));
        CU_ASSERT_EQUAL(errno, ENOMEM);
        refused = -1;
        CU_ASSERT_TRUE(IS_BODY(form, "--" BOUNDARY "--\r\n"));
        weir_multipart_free(form);
        int after = dup(0); /* no descriptor is left open */
        CU_ASSERT_EQUAL(after, before);
        close(after);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_form_without_parts_has_its_end), WEIR_TEST(parts_come_in_their_order),
                WEIR_TEST(names_cannot_break_out),           WEIR_TEST(files_are_read_when_the_body_is),
                WEIR_TEST(what_cannot_be_read_is_said),      WEIR_TEST(what_is_no_part_is_refused),
                WEIR_TEST(a_large_file_has_its_size),        WEIR_TEST(boundaries_differ),
                WEIR_TEST(memory_is_refused_at_each_point),
        };

        if (!mkdtemp(folder))
                return 1;
        snprintf(file, sizeof file, "%s/file.html", folder);
        put_file("");
        int result = weir_test_main("multipart", tests, sizeof tests / sizeof *tests);
        unlink(file);
        rmdir(folder);
        return result;
}
