/* test/cookie_jar_test.c: jars of cookies: what is taken, what is sent, bounds, files, memory, threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/weir.h>

#include "client/cookies/store.h"
#include "protocol/text/cookie_date.h"
#include "test/support.h"

/* -- what fails -- */

static int refused = -1; /* allocations until the refused one */
static int written = -1; /* writes until the refused one */
static int sync_error, rename_error;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

static bool
refuse(int *left)
{
        return *left >= 0 && (*left)-- == 0;
}

void *
__wrap_malloc(size_t size)
{
        return refuse(&refused) ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse(&refused) ? NULL : __real_calloc(count, size);
}

/* Writes a few bytes at a time, to be called again. */
ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
        if (refuse(&written)) {
                errno = ENOSPC;
                return -1;
        }
        return __real_write(fd, data, size < 50 ? size : 50);
}

int
__wrap_fsync(int fd)
{
        errno = sync_error;
        return sync_error ? -1 : __real_fsync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
        errno = rename_error;
        return rename_error ? -1 : __real_rename(from, to);
}

/* -- short calls -- */

static int
set(weir_cookie_jar *jar, const char *url_text, const char *cookie)
{
        weir_url *url = weir_url_parse(url_text, NULL);
        int result = weir_cookie_jar_set(jar, url, cookie);

        weir_url_free(url);
        return result;
}

static bool
sends(weir_cookie_jar *jar, const char *url_text, const char *expected)
{
        char text[1000];
        weir_url *url = weir_url_parse(url_text, NULL);
        size_t size = weir_cookie_jar_header(jar, url, text, sizeof text);
        bool is_so = size == strlen(expected) && strcmp(text, expected) == 0;

        if (!is_so)
                printf("%s: \"%s\", expected \"%s\"\n", url_text, text, expected);
        weir_url_free(url);
        return is_so;
}

/* A jar with one cookie, set at one URL, sends that text at another one. */
static bool
passes(const char *from, const char *cookie, const char *to, const char *expected)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();

        set(jar, from, cookie);
        bool is_so = sends(jar, to, expected);
        weir_cookie_jar_unref(jar);
        return is_so;
}

static int
verdict(const char *from, const char *cookie)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        int result = set(jar, from, cookie);

        CU_ASSERT(result == 0 || weir_cookie_jar_count(jar) == 0);
        weir_cookie_jar_unref(jar);
        return result;
}

/* -- parsing -- */

static void
names_and_values_are_read_as_they_come(void)
{
        static const struct {
                const char *cookie, *sent;
        } cases[] = {
                {"a=b", "a=b"},
                {"  a\t =\t b c ; Path=/", "a=b c"},
                {"a=b=c=d", "a=b=c=d"},
                {"a=\"b; c\"", "a=\"b"},
                {"a=", "a="},
                {"a=b;", "a=b"},
                {"a=b;;;path=/;", "a=b"},
                {"a=b, c=d", "a=b, c=d"},
                {"a b=c", "a b=c"},
                {"a=\xc3\xa4", "a=\xc3\xa4"},
                {"a=b; secured; httponlyx; nonsense=1", "a=b"},
                {"a=b; path", "a=b"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                CU_ASSERT_TRUE(passes("http://h.example/", cases[i].cookie, "http://h.example/", cases[i].sent));
        static const char *const none[] = {"",        ";",       "a",
                                           "=b",      " = b",    "; a=b",
                                           "a\x01=b", "a=b\x7f", "a=b; path=/\n",
                                           "a=b\tc",  "a\tb=c",  "a=b; path=/a\tb"};
        for (size_t i = 0; i < sizeof none / sizeof *none; i++)
                CU_ASSERT_EQUAL(verdict("http://h.example/", none[i]), -EINVAL);
        weir_cookie_jar *jar = weir_cookie_jar_new();
        CU_ASSERT_EQUAL(weir_cookie_jar_set(jar, NULL, "a=b"), -EINVAL);
        CU_ASSERT_EQUAL(set(NULL, "http://h/", "a=b"), -EINVAL);
        CU_ASSERT_EQUAL(set(jar, "http://h/", NULL), -EINVAL);
        CU_ASSERT_EQUAL(set(jar, "ftp://h/", "a=b"), -EINVAL);
        CU_ASSERT_EQUAL(set(jar, "mailto:a@b", "a=b"), -EINVAL);
        weir_cookie_jar_unref(jar);
}

static void
dates_are_read_in_all_forms(void)
{
        static const struct {
                const char *text;
                int64_t seconds; /* -1: none */
        } cases[] = {
                {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
                {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
                {"Sun Nov  6 08:49:37 1994", 784111777},
                {"1994 nov 6 8:49:37", 784111777},
                {"6 NOVEMBER 1994 8:49:37junk", 784111777},
                {"08:49:37 6 nov 1994", 784111777},
                {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
                {"Mon, 31 Dec 69 23:59:59", 3155759999},
                {"01 Jan 70 00:00:00", 0},
                {"29 Feb 2024 00:00:00", 1709164800},
                {"29 Feb 2023 00:00:00", -1},
                {"31 Apr 2023 00:00:00", -1},
                {"0 Jan 2023 00:00:00", -1},
                {"1 Jan 1600 00:00:00", -1},
                {"1 Jan 1601 00:00:00", -11644473600},
                {"1 Jan 2023 24:00:00", -1},
                {"1 Jan 2023 00:60:00", -1},
                {"1 Jan 2023 00:00:60", -1},
                {"1 Jan 2023 00:00", -1},
                {"1 Jan 2023 00:00:000", -1},
                {"1 Jan 20233 00:00:00", -1},
                {"1 Jan 2023", -1},
                {"Jan 2023 00:00:00", -1},
                {"1 2023 00:00:00", -1},
                {"1 Ja 2023 00:00:00", -1},
                {"", -1},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                int64_t seconds = -1;
                bool is_date = weir__cookie_date_read(cases[i].text, strlen(cases[i].text), &seconds);

                CU_ASSERT_EQUAL(is_date, cases[i].seconds != -1);
                CU_ASSERT_EQUAL(seconds, cases[i].seconds);
        }
}

/* -- domains and paths -- */

static void
a_domain_is_the_host_or_above_it(void)
{
        const char *from = "http://a.b.example.com/";

        CU_ASSERT_TRUE(passes(from, "x=1", from, "x=1"));
        CU_ASSERT_TRUE(passes(from, "x=1", "http://c.a.b.example.com/", ""));
        CU_ASSERT_TRUE(passes(from, "x=1", "http://b.example.com/", ""));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=b.example.com", "http://b.example.com:81/", "x=1"));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=.B.Example.Com", "http://d.b.example.com/", "x=1"));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=example.com", "http://example.com/", "x=1"));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=example.com", "http://notexample.com/", ""));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=", "http://c.a.b.example.com/", ""));
        CU_ASSERT_TRUE(passes(from, "x=1; Domain=example.org; Domain=example.com", "http://example.com/", "x=1"));
        static const char *const other[] = {
                "c.a.b.example.com", "example.org",        "ample.com",     "..b.example.com", "com", ".com",
                "example.com.",      "a.b.example.com:80", "b.example.com/"};
        for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
                char cookie[100];

                snprintf(cookie, sizeof cookie, "x=1; Domain=%s", other[i]);
                CU_ASSERT_EQUAL(verdict(from, cookie), -EPERM);
        }
        CU_ASSERT_TRUE(passes("http://1.2.3.4/", "x=1; Domain=1.2.3.4", "http://1.2.3.4/", "x=1"));
        CU_ASSERT_EQUAL(verdict("http://1.2.3.4/", "x=1; Domain=2.3.4"), -EPERM);
        CU_ASSERT_TRUE(passes("http://[::1]/", "x=1", "http://[::1]:8080/", "x=1"));
        CU_ASSERT_TRUE(passes("http://localhost/", "x=1; Domain=localhost", "http://localhost/", "x=1"));
        CU_ASSERT_TRUE(passes("http://localhost/", "x=1; Domain=localhost", "http://a.localhost/", ""));
        CU_ASSERT_EQUAL(verdict("http://example.com./", "x=1; Domain=com."), -EPERM);
}

static void
a_public_suffix_gets_no_cookies(void)
{
        CU_ASSERT_EQUAL(verdict("http://a.co.uk/", "x=1; Domain=uk"), -EPERM);
        CU_ASSERT_EQUAL(verdict("http://a.co.uk/", "x=1; Domain=co.uk"), WEIR_HAS_PSL ? -EPERM : 0);
        CU_ASSERT_EQUAL(verdict("http://a.co.uk/", "x=1; Domain=a.co.uk"), 0);
        /* The suffix itself is a host, too. */
        CU_ASSERT_TRUE(passes("http://co.uk/", "x=1; Domain=co.uk", "http://co.uk/", "x=1"));
        CU_ASSERT_TRUE(passes("http://co.uk/", "x=1; Domain=co.uk", "http://a.co.uk/", WEIR_HAS_PSL ? "" : "x=1"));
}

static void
a_path_is_that_of_the_cookie_or_below_it(void)
{
        static const struct {
                const char *from, *cookie, *to;
                bool goes;
        } cases[] = {
                {"/", "x=1", "/a/b", true},
                {"/a", "x=1", "/b", true},
                {"/a/", "x=1", "/a", true},
                {"/a/", "x=1", "/a/", true},
                {"/a/b", "x=1", "/a/c/d", true},
                {"/a/b", "x=1", "/ab", false},
                {"/a/b", "x=1", "/", false},
                {"/a/b?c/d", "x=1", "/a/x", true},
                {"", "x=1", "", true},
                {"", "x=1", "/a", true},
                {"/", "x=1; Path=/a", "/a", true},
                {"/", "x=1; Path=/a", "/a/b", true},
                {"/", "x=1; Path=/a", "/ab", false},
                {"/", "x=1; Path=/a/", "/a", false},
                {"/", "x=1; Path=/a/", "/a/b", true},
                {"/a/b", "x=1; Path=c", "/a/d", true},
                {"/a/b", "x=1; Path=", "/a/d", true},
                {"/a/b", "x=1; Path=/; Path=/z", "/", false},
                {"/", "x=1; Path=/A", "/a", false},
                {"/a/b", "x=1; Path=/", "", true},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char from[100], to[100];

                snprintf(from, sizeof from, "http://h.example%s", cases[i].from);
                snprintf(to, sizeof to, "http://h.example%s", cases[i].to);
                CU_ASSERT_TRUE(passes(from, cases[i].cookie, to, cases[i].goes ? "x=1" : ""));
        }
}

static void
longer_paths_and_older_cookies_come_first(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();

        set(jar, "http://h.example/a/b", "a=1; Path=/");
        set(jar, "http://h.example/a/b", "b=1; Path=/a");
        set(jar, "http://h.example/a/b", "c=1; Path=/a/b");
        set(jar, "http://h.example/a/b", "d=1; Path=/");
        set(jar, "http://h.example/a/b", "e=1; Path=/a/b");
        CU_ASSERT_TRUE(sends(jar, "http://h.example/a/b/c", "c=1; e=1; b=1; a=1; d=1"));
        set(jar, "http://h.example/a/b", "c=2; Path=/a/b"); /* keeps its age */
        CU_ASSERT_TRUE(sends(jar, "http://h.example/a/b", "c=2; e=1; b=1; a=1; d=1"));
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 5);
        weir_cookie_jar_unref(jar);
}

static void
the_header_is_written_as_by_snprintf(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        weir_url *url = weir_url_parse("http://h.example/", NULL);
        char text[9];

        set(jar, "http://h.example/", "a=1");
        set(jar, "http://h.example/", "b=2");
        for (size_t room = 0; room <= sizeof text; room++) {
                memset(text, '#', sizeof text);
                CU_ASSERT_EQUAL(weir_cookie_jar_header(jar, url, text, room), 8);
                CU_ASSERT(room == 0 || (text[room - 1] == '\0' && strncmp(text, "a=1; b=2", room - 1) == 0));
                CU_ASSERT(room == sizeof text || text[room] == '#');
        }
        CU_ASSERT_EQUAL(weir_cookie_jar_header(jar, url, NULL, 0), 8);
        CU_ASSERT_EQUAL(weir_cookie_jar_header(NULL, url, text, sizeof text), 0);
        CU_ASSERT_STRING_EQUAL(text, "");
        CU_ASSERT_EQUAL(weir_cookie_jar_header(jar, NULL, text, sizeof text), 0);
        weir_url_free(url);
        weir_cookie_jar_unref(jar);
}

/* -- secure ones and prefixes -- */

static void
secure_cookies_go_over_tls_alone(void)
{
        CU_ASSERT_TRUE(passes("https://h.example/", "x=1; Secure", "https://h.example/", "x=1"));
        CU_ASSERT_TRUE(passes("https://h.example/", "x=1; Secure", "wss://h.example/", "x=1"));
        CU_ASSERT_TRUE(passes("https://h.example/", "x=1; secure=no", "http://h.example/", ""));
        CU_ASSERT_TRUE(passes("https://h.example/", "x=1; HttpOnly; SameSite=Strict", "ws://h.example/", "x=1"));
        CU_ASSERT_EQUAL(verdict("http://h.example/", "x=1; Secure"), -EPERM);
}

static void
plain_http_hides_no_secure_cookie(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();

        set(jar, "https://a.h.example/", "x=1; Secure; Domain=a.h.example; Path=/a");
        CU_ASSERT_EQUAL(set(jar, "http://a.h.example/", "x=2; Path=/a"), -EPERM);
        CU_ASSERT_EQUAL(set(jar, "http://a.h.example/", "x=2; Path=/a/b"), -EPERM);
        CU_ASSERT_EQUAL(set(jar, "http://b.a.h.example/", "x=2; Path=/a/b"), -EPERM);
        CU_ASSERT_EQUAL(set(jar, "http://h.example/", "x=2; Domain=h.example; Path=/a"), -EPERM);
        CU_ASSERT_EQUAL(set(jar, "http://a.h.example/", "x=2; Path=/a; Max-Age=0"), -EPERM);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 1);
        CU_ASSERT_EQUAL(set(jar, "http://h.example/", "x=2; Path=/a"), 0); /* to that host alone */
        CU_ASSERT_EQUAL(set(jar, "http://a.h.example/", "x=2; Path=/"), 0);
        CU_ASSERT_EQUAL(set(jar, "http://a.h.example/", "y=2; Path=/a"), 0);
        CU_ASSERT_EQUAL(set(jar, "http://c.h.example/", "x=2; Path=/a"), 0);
        CU_ASSERT_EQUAL(set(jar, "https://a.h.example/", "x=3; Domain=a.h.example; Path=/a"), 0);
        CU_ASSERT_TRUE(sends(jar, "http://a.h.example/a", "x=3; y=2; x=2"));
        weir_cookie_jar_unref(jar);
}

static void
prefixes_keep_their_promise(void)
{
        const char *from = "https://a.h.example/";

        CU_ASSERT_EQUAL(verdict(from, "__Secure-x=1; Secure"), 0);
        CU_ASSERT_EQUAL(verdict(from, "__Secure-x=1"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__secure-x=1"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__Host-x=1; Secure; Path=/"), 0);
        CU_ASSERT_EQUAL(verdict(from, "__Host-x=1; Path=/"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__HOST-x=1; Secure"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__Host-x=1; Secure; Path=/a"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__Host-x=1; Secure; Path=/; Domain=a.h.example"), -EPERM);
        CU_ASSERT_EQUAL(verdict("http://a.h.example/", "__Host-x=1; Secure; Path=/"), -EPERM);
        CU_ASSERT_EQUAL(verdict(from, "__Hos=1"), 0);
}

/* -- time -- */

static void
start_virtual_clock(void)
{
        const struct weir_config config = {.size = sizeof config, .clock = WEIR_CLOCK_VIRTUAL};

        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static void
cookies_expire_on_the_virtual_clock(void)
{
        const char *from = "http://h.example/";

        start_virtual_clock();
        weir_cookie_jar *jar = weir_cookie_jar_new();
        set(jar, from, "a=1; Max-Age=10");
        set(jar, from, "b=1; Max-Age=20; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        set(jar, from, "c=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=30");
        set(jar, from, "d=1; Max-Age=99999999999999999999");
        set(jar, from, "e=1; Expires=Fri, 01 Jan 2100 00:00:00 GMT");
        set(jar, from, "f=1; Max-Age=+5");
        set(jar, from, "g=1; Max-Age=5x; Expires=nonsense");
        set(jar, from, "h=1; Max-Age=-0");
        set(jar, from, "i=1; Max-Age=0");
        set(jar, from, "j=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        CU_ASSERT_TRUE(sends(jar, from, "a=1; b=1; c=1; d=1; e=1; f=1; g=1"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(9)), 0);
        CU_ASSERT_TRUE(sends(jar, from, "a=1; b=1; c=1; d=1; e=1; f=1; g=1"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_TRUE(sends(jar, from, "b=1; c=1; d=1; e=1; f=1; g=1"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(10)), 0);
        CU_ASSERT_TRUE(sends(jar, from, "c=1; d=1; e=1; f=1; g=1"));
        set(jar, from, "c=2; Max-Age=0");
        CU_ASSERT_TRUE(sends(jar, from, "d=1; e=1; f=1; g=1"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(400 * 24 * 3600 - 21)), 0);
        CU_ASSERT_TRUE(sends(jar, from, "d=1; e=1; f=1; g=1"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0); /* 400 days */
        CU_ASSERT_TRUE(sends(jar, from, "f=1; g=1"));
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 2);
        weir_cookie_jar_unref(jar);
        weir_shutdown();
}

/* -- bounds -- */

static char *
long_cookie(size_t name, size_t value, const char *rest)
{
        char *text = malloc(name + value + strlen(rest) + 2);

        memset(text, 'n', name);
        text[name] = '=';
        memset(text + name + 1, 'v', value);
        strcpy(text + name + 1 + value, rest);
        return text;
}

static void
long_ones_are_refused(void)
{
        char *cookie = long_cookie(96, 4000, "");

        CU_ASSERT_EQUAL(verdict("http://h.example/", cookie), 0);
        free(cookie);
        cookie = long_cookie(97, 4000, "");
        CU_ASSERT_EQUAL(verdict("http://h.example/", cookie), -EMSGSIZE);
        free(cookie);
        for (size_t size = 1024; size <= 1025; size++) {
                char *url = malloc(size + 100), *end = url + sprintf(url, "http://h.example/");

                memset(end, 'p', size - 1);
                strcpy(end + size - 1, "/x");
                CU_ASSERT_EQUAL(verdict(url, "a=b"), size == 1024 ? 0 : -EMSGSIZE);
                CU_ASSERT_EQUAL(verdict(url, "a=b; Path=/"), 0);
                free(url);
                cookie = long_cookie(1, 1, "; Path=/");
                cookie = realloc(cookie, size + 100);
                memset(cookie + strlen("n=v; Path=/"), 'p', size - 1);
                cookie[strlen("n=v; Path=/") + size - 1] = '\0';
                CU_ASSERT_TRUE(passes("http://h.example/", cookie, "http://h.example/", size == 1024 ? "" : "n=v"));
                free(cookie);
        }
}

static void
a_domain_has_fifty(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        char cookie[50];

        for (int i = 0; i < 50; i++) {
                snprintf(cookie, sizeof cookie, "c%d=1; Path=/%d", i, i);
                CU_ASSERT_EQUAL(set(jar, "http://h.example/", cookie), 0);
        }
        CU_ASSERT_EQUAL(set(jar, "http://g.example/", "x=1"), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 51);
        CU_ASSERT_TRUE(sends(jar, "http://h.example/0", "c0=1")); /* is used: the second one is the oldest now */
        CU_ASSERT_EQUAL(set(jar, "http://h.example/", "new=1; Path=/new"), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 51);
        CU_ASSERT_TRUE(sends(jar, "http://h.example/0", "c0=1"));
        CU_ASSERT_TRUE(sends(jar, "http://h.example/1", ""));
        CU_ASSERT_TRUE(sends(jar, "http://h.example/2", "c2=1"));
        CU_ASSERT_TRUE(sends(jar, "http://h.example/new", "new=1"));
        CU_ASSERT_TRUE(sends(jar, "http://g.example/", "x=1"));
        weir_cookie_jar_clear(jar);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 0);
        CU_ASSERT_TRUE(sends(jar, "http://g.example/", ""));
        weir_cookie_jar_unref(jar);
}

static void
expired_ones_go_first(void)
{
        char cookie[60], url[60];

        start_virtual_clock();
        weir_cookie_jar *jar = weir_cookie_jar_new();
        set(jar, "http://h.example/", "old=1; Path=/old");
        for (int i = 1; i < 50; i++) {
                snprintf(cookie, sizeof cookie, "c%d=1; Path=/%d; Max-Age=%d", i, i, i < 25 ? 1 : 100);
                set(jar, "http://h.example/", cookie);
        }
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(2)), 0);
        set(jar, "http://h.example/", "new=1; Path=/new");
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 27);
        CU_ASSERT_TRUE(sends(jar, "http://h.example/old", "old=1"));
        weir_cookie_jar_clear(jar);

        for (int i = 0; i < 3000; i++) {
                snprintf(url, sizeof url, "http://h%d.example/", i);
                set(jar, url, i == 0 ? "old=1" : i % 2 ? "x=1; Max-Age=1" : "y=1; Max-Age=1000");
        }
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 3000);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(2)), 0);
        set(jar, "http://new.example/", "x=1");
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 1501);
        CU_ASSERT_TRUE(sends(jar, "http://h0.example/", "old=1"));
        for (int i = 0; i < 1499; i++) {
                snprintf(url, sizeof url, "http://g%d.example/", i);
                set(jar, url, "z=1");
        }
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 3000);
        set(jar, "http://last.example/", "x=1"); /* the second of the first ones was not used for longest */
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 3000);
        CU_ASSERT_TRUE(sends(jar, "http://h2.example/", ""));
        CU_ASSERT_TRUE(sends(jar, "http://h4.example/", "y=1"));
        CU_ASSERT_TRUE(sends(jar, "http://h0.example/", "old=1"));
        weir_cookie_jar_unref(jar);
        weir_shutdown();
}

static void
a_request_gets_a_hundred_and_fifty(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        const char *const domains[] = {"a.b.c.h.example", "b.c.h.example", "c.h.example", "h.example"};
        weir_url *url = weir_url_parse("http://a.b.c.h.example/", NULL);
        char cookie[100], text[3000];

        for (int i = 0; i < 200; i++) {
                snprintf(cookie, sizeof cookie, "c%03d=1; Domain=%s; Path=/", i, domains[i / 50]);
                CU_ASSERT_EQUAL(set(jar, "http://a.b.c.h.example/", cookie), 0);
        }
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 200);
        CU_ASSERT_EQUAL(weir_cookie_jar_header(jar, url, text, sizeof text), 150 * 8 - 2);
        CU_ASSERT_EQUAL(strncmp(text, "c000=1; c001=1", 14), 0);
        CU_ASSERT_STRING_EQUAL(text + 149 * 8, "c149=1");
        weir_url_free(url);
        weir_cookie_jar_unref(jar);
}

/* -- all of them, and files -- */

struct seen {
        weir_cookie_jar *jar;
        int count;
        struct weir_cookie last;
};

static void
see(const struct weir_cookie *cookie, void *context)
{
        struct seen *seen = context;

        seen->count++;
        seen->last = *cookie;
        if (strcmp(cookie->name, "x") == 0) {
                CU_ASSERT_STRING_EQUAL(cookie->value, "1");
                CU_ASSERT_STRING_EQUAL(cookie->domain, "h.example");
                CU_ASSERT_STRING_EQUAL(cookie->path, "/a");
                CU_ASSERT_TRUE(cookie->is_secure);
                CU_ASSERT_TRUE(cookie->is_http_only);
                CU_ASSERT_FALSE(cookie->is_host_only);
                CU_ASSERT_EQUAL(cookie->same_site, WEIR_HTTP_SAME_SITE_STRICT);
                CU_ASSERT_EQUAL(cookie->expires, WEIR_FOREVER);
        }
        weir_cookie_jar_clear(seen->jar); /* it may use the jar */
}

static void
each_cookie_is_shown(void)
{
        struct seen seen = {.jar = weir_cookie_jar_new()};
        weir_nsec now = weir_wall_now();

        set(seen.jar, "https://h.example/", "x=1; Secure; HttpOnly; Domain=h.example; Path=/a; SameSite=strict");
        set(seen.jar, "https://h.example/", "y=2; Max-Age=100; SameSite=none; SameSite=odd");
        CU_ASSERT_EQUAL(weir_cookie_jar_each(seen.jar, see, &seen), 2);
        CU_ASSERT_EQUAL(seen.count, 2);
        CU_ASSERT_TRUE(seen.last.is_host_only);
        CU_ASSERT_EQUAL(seen.last.same_site, WEIR_HTTP_SAME_SITE_UNSAID);
        CU_ASSERT(seen.last.expires >= now + WEIR_SEC(99) && seen.last.expires <= weir_wall_now() + WEIR_SEC(100));
        CU_ASSERT_EQUAL(weir_cookie_jar_count(seen.jar), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_each(seen.jar, see, &seen), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_each(NULL, see, &seen), -EINVAL);
        CU_ASSERT_EQUAL(weir_cookie_jar_each(seen.jar, NULL, NULL), -EINVAL);
        weir_cookie_jar_unref(seen.jar);
}

static char folder[] = "/tmp/weir-cookies-XXXXXX", file[60];

static void
put_file(const char *text, size_t size)
{
        FILE *out = fopen(file, "w");

        fwrite(text, 1, size, out);
        fclose(out);
}

static bool
file_is(const char *expected)
{
        char text[4000];
        FILE *in = fopen(file, "r");
        size_t size = fread(text, 1, sizeof text - 1, in);

        fclose(in);
        text[size] = '\0';
        if (strcmp(text, expected) != 0)
                printf("%s", text);
        return strcmp(text, expected) == 0;
}

static bool
folder_has_one_file(void)
{
        char command[200];

        snprintf(command, sizeof command, "[ \"$(ls %s | wc -l)\" = 1 ]", folder);
        return system(command) == 0;
}

#define HEAD "# Netscape HTTP Cookie File\n# Written by weir.\n\n"

static void
a_jar_comes_back_from_its_file(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new(), *other = weir_cookie_jar_new();
        struct stat status;

        set(jar, "https://h.example/", "x=1; Secure; HttpOnly; Domain=h.example; Path=/a");
        set(jar, "http://h.example/", "y=");
        set(jar, "http://[::1]/", "z=a b\"c");
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), 3);
        CU_ASSERT_TRUE(file_is(HEAD "#HttpOnly_.h.example\tTRUE\t/a\tTRUE\t0\tx\t1\n"
                                    "h.example\tFALSE\t/\tFALSE\t0\ty\t\n"
                                    "::1\tFALSE\t/\tFALSE\t0\tz\ta b\"c\n"));
        CU_ASSERT_EQUAL(stat(file, &status), 0);
        CU_ASSERT_EQUAL(status.st_mode & 0777, 0600);
        CU_ASSERT_TRUE(folder_has_one_file());
        CU_ASSERT_EQUAL(weir_cookie_jar_load(other, file), 3);
        CU_ASSERT_TRUE(sends(other, "https://c.h.example/a", "x=1"));
        CU_ASSERT_TRUE(sends(other, "http://h.example/a", "y="));
        CU_ASSERT_TRUE(sends(other, "http://[::1]/", "z=a b\"c"));
        weir_cookie_jar_clear(jar);
        set(jar, "http://h.example/", "e=1; Max-Age=1000");
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), 1);
        weir_cookie_jar_clear(other);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(other, file), 1);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(other), 1);
        weir_cookie_jar_unref(jar);
        weir_cookie_jar_unref(other);
}

static void
lines_that_are_no_cookies_are_skipped(void)
{
        static const char good[] = "# comment\n"
                                   "\n"
                                   "h.example\tFALSE\t/\tFALSE\t0\ta\t1\r\n"
                                   "H.example\tTRUE\t/\tfalse\t9999999999\tb\t2\n"
                                   "h.example\tFALSE\t/\tFALSE\t0\tc\n"
                                   "h.example\tFALSE\t/\tFALSE\t99999999999999999999999\td\t4";
        static const char *const bad[] = {
                "h.example\tFALSE\t/\tFALSE\t1\ta\t1\n", /* has expired */
                "h.example\tFALSE\t/\tFALSE\t-1\ta\t1\n",
                "h.example\tFALSE\t/\tFALSE\tx\ta\t1\n",
                "h.example\tFALSE\t/\tFALSE\t\ta\t1\n",
                "h.example\tFALSE\t/\tFALSE\t0\t\t1\n",
                "h.example\tFALSE\t/\tFALSE\t0\ta\tb\tc\n",
                "h.example\tFALSE\t/\tFALSE\t0\n",
                "h.example\tFALSE\ta\tFALSE\t0\ta\t1\n",
                "h.example\tFALSE\t\tFALSE\t0\ta\t1\n",
                "\tFALSE\t/\tFALSE\t0\ta\t1\n",
                "h%eXample\tFALSE\t/\tFALSE\t0\ta\t1\n",
                "h example\tFALSE\t/\tFALSE\t0\ta\t1\n",
                "example\tTRUE\t/\tFALSE\t0\ta\t1\n",
                ".example.\tTRUE\t/\tFALSE\t0\ta\t1\n",
                "h.example\tFALSE\t/\tFALSE\t0\ta;b\t1\n",
                "h.example\tFALSE\t/\tFALSE\t0\ta\tb;c\n",
                "h.example\tFALSE\t/\tFALSE\t0\ta=b\tc\n",
                "h.example\tFALSE\t/\tFALSE\t0\ta\t\x01\n",
                "h.example\tFALSE\t/\tFALSE\t0\t__Host-a\t1\n",
                "h.example\tTRUE\t/\tTRUE\t0\t__Host-a\t1\n",
                "h.example\tFALSE\t/\tFALSE\t0\t__Secure-a\t1\n",
        };
        weir_cookie_jar *jar = weir_cookie_jar_new();

        put_file(good, sizeof good - 1);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, file), 4);
        CU_ASSERT_TRUE(sends(jar, "http://h.example/", "a=1; b=2; c=; d=4"));
        CU_ASSERT_TRUE(sends(jar, "http://g.h.example/", "b=2"));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                put_file(bad[i], strlen(bad[i]));
                CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, file), 0);
        }
        /* A long line, whose end looks like a cookie. */
        char *longer = malloc(20000);
        memset(longer, 'x', 20000);
        strcpy(longer + 8191, "h.example\tFALSE\t/\tFALSE\t0\ta\t5\nh.example\tFALSE\t/\tFALSE\t0\te\t5\n");
        put_file(longer, strlen(longer));
        CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, file), 1);
        CU_ASSERT_TRUE(sends(jar, "http://h.example/", "a=1; b=2; c=; d=4; e=5"));
        free(longer);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, "/nowhere/at/all"), -ENOENT);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, "/tmp"), -EINVAL);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(jar, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_cookie_jar_load(NULL, file), -EINVAL);
        weir_cookie_jar_unref(jar);
}

static void
a_full_disk_leaves_the_old_file(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        int at = 0;

        for (;; at++) {
                put_file("old", 3);
                weir_cookie_jar_clear(jar);
                set(jar, "http://h.example/", "a=1; Path=/a");
                set(jar, "http://h.example/", "b=1; Path=/a/long/path/so/that/it/takes/some/writes");
                written = at;
                if (weir_cookie_jar_save(jar, file) == 2)
                        break;
                CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, "/nowhere/at/all"), -ENOENT);
                CU_ASSERT_TRUE(file_is("old"));
                CU_ASSERT_TRUE(folder_has_one_file());
        }
        written = -1;
        CU_ASSERT(at >= 3);
        put_file("old", 3);
        sync_error = EIO;
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), -EIO);
        sync_error = 0;
        rename_error = EXDEV;
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), -EXDEV);
        rename_error = 0;
        CU_ASSERT_TRUE(file_is("old"));
        CU_ASSERT_TRUE(folder_has_one_file());
        CU_ASSERT_EQUAL(weir_cookie_jar_save(NULL, file), -EINVAL);
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, NULL), -EINVAL);
        weir_cookie_jar_unref(jar);
}

/* -- memory and threads -- */

static void
memory_is_refused_at_each_point(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        weir_url *url = weir_url_parse("http://h.example/", NULL);
        struct seen seen = {.jar = jar};
        ssize_t result = -ENOMEM;

        refused = 0;
        CU_ASSERT_PTR_NULL(weir_cookie_jar_new());
        refused = 0;
        CU_ASSERT_EQUAL(weir_cookie_jar_set(jar, url, "a=1"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_cookie_jar_count(jar), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_set(jar, url, "a=1"), 0);
        refused = 0;
        CU_ASSERT_EQUAL(weir_cookie_jar_each(jar, see, &seen), -ENOMEM);
        put_file("old", 3);
        for (int at = 0; at < 3; at++) {
                refused = at;
                CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), -ENOMEM);
                CU_ASSERT_TRUE(file_is("old"));
        }
        refused = -1;
        CU_ASSERT_EQUAL(weir_cookie_jar_save(jar, file), 1);
        for (int at = 0; result == -ENOMEM; at++) {
                refused = at;
                result = weir_cookie_jar_load(jar, file);
                refused = -1;
        }
        CU_ASSERT_EQUAL(result, 1);
        weir_url_free(url);
        weir_cookie_jar_unref(jar);
        weir_cookie_jar_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_cookie_jar_ref(NULL));
}

static void
count_it(const struct weir_cookie *cookie, void *context)
{
        *(size_t *)context += strlen(cookie->name) > 0;
}

static void *
work(void *context)
{
        weir_cookie_jar *jar = context;
        static _Atomic unsigned numbers;
        struct weir_test_random random = {weir_test_seed() + atomic_fetch_add(&numbers, 1)};
        char url[60], cookie[60];

        for (int i = 0; i < 2000; i++) {
                snprintf(url, sizeof url, "http://h%d.example/", (int)weir_test_random_below(&random, 100));
                snprintf(cookie, sizeof cookie, "c%d=1; Max-Age=%d", (int)weir_test_random_below(&random, 60),
                         (int)weir_test_random_below(&random, 10));
                weir_url *parsed = weir_url_parse(url, NULL);
                CU_ASSERT_EQUAL(weir_cookie_jar_set(jar, parsed, cookie), 0);
                CU_ASSERT(weir_cookie_jar_header(jar, parsed, cookie, sizeof cookie) < 1000);
                weir_url_free(parsed);
                if (i % 500 == 0) {
                        size_t count = 0;

                        CU_ASSERT(weir_cookie_jar_each(jar, count_it, &count) == (ssize_t)count);
                }
                if (i == 1000)
                        weir_cookie_jar_clear(jar);
        }
        weir_cookie_jar_unref(jar);
        return NULL;
}

static void
threads_share_a_jar(void)
{
        enum { THREADS = 4 };
        weir_cookie_jar *jar = weir_cookie_jar_new();
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, work, weir_cookie_jar_ref(jar));
        weir_cookie_jar_unref(jar);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(names_and_values_are_read_as_they_come),
                WEIR_TEST(dates_are_read_in_all_forms),
                WEIR_TEST(a_domain_is_the_host_or_above_it),
                WEIR_TEST(a_public_suffix_gets_no_cookies),
                WEIR_TEST(a_path_is_that_of_the_cookie_or_below_it),
                WEIR_TEST(longer_paths_and_older_cookies_come_first),
                WEIR_TEST(the_header_is_written_as_by_snprintf),
                WEIR_TEST(secure_cookies_go_over_tls_alone),
                WEIR_TEST(plain_http_hides_no_secure_cookie),
                WEIR_TEST(prefixes_keep_their_promise),
                WEIR_TEST(cookies_expire_on_the_virtual_clock),
                WEIR_TEST(long_ones_are_refused),
                WEIR_TEST(a_domain_has_fifty),
                WEIR_TEST(expired_ones_go_first),
                WEIR_TEST(a_request_gets_a_hundred_and_fifty),
                WEIR_TEST(each_cookie_is_shown),
                WEIR_TEST(a_jar_comes_back_from_its_file),
                WEIR_TEST(lines_that_are_no_cookies_are_skipped),
                WEIR_TEST(a_full_disk_leaves_the_old_file),
                WEIR_TEST(memory_is_refused_at_each_point),
                WEIR_TEST(threads_share_a_jar),
        };

        if (!mkdtemp(folder))
                return 1;
        snprintf(file, sizeof file, "%s/cookies", folder);
        int result = weir_test_main("cookie_jar", tests, sizeof tests / sizeof *tests);
        unlink(file);
        rmdir(folder);
        return result;
}
