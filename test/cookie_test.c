/* test/cookie_test.c: cookies as browsers send them, and Set-Cookie that says one thing only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/field/cookie.h"
#include "test/support.h"

#define MAX 1000

/* -- as they come -- */

/* The cookies of up to three Cookie lines, between fields of other names. */
static struct weir__pairs *
parse(const char *const lines[3], size_t max)
{
        struct weir__field fields[7] = {{"Cookies", "no=1"}};
        struct weir__request request = {.fields = fields, .field_count = 1};
        struct weir__pairs *pairs = NULL;

        for (unsigned i = 0; i < 3 && lines[i]; i++) {
                fields[request.field_count++] = (struct weir__field){i % 2 ? "cookie" : "Cookie", lines[i]};
                fields[request.field_count++] = (struct weir__field){"Cook", "no=2"};
        }
        CU_ASSERT_EQUAL_FATAL(weir__cookies_parse(&request, max, &pairs), 0);
        return pairs;
}

/* Each as <name|value>. */
#define READS(expected, ...) CU_ASSERT_TRUE(reads((const char *const[3]){__VA_ARGS__}, (expected)))
static bool
reads(const char *const lines[3], const char *expected)
{
        struct weir__pairs *pairs = parse(lines, MAX);
        char shown[1000] = "";

        for (size_t i = 0; i < pairs->count; i++) {
                sprintf(shown + strlen(shown), "<%s|%s>", pairs->pairs[i].name, pairs->pairs[i].value);
        }
        free(pairs);
        return strcmp(shown, expected) == 0;
}

static void
cookies_stand_between_semicolons(void)
{
        READS("", NULL);
        READS("", "");
        READS("<a|1>", "a=1");
        READS("<a|1><b|2>", "a=1; b=2");
        READS("<a|1><b|2>", "a=1;b=2");
        READS("<a|1><b|2>", " ;; a = 1 ;\tb\t=\t2\t; ");
        READS("<a|1,b=2>", "a=1,b=2");
        READS("<a|b c>", "a=b c");
        READS("<a|\xc3\xa4>", "a=\xc3\xa4");
        READS("<a|%20+>", "a=%20+");
}

static void
the_first_equals_sign_ends_the_name_of_a_cookie(void)
{
        READS("<a|b=c=>", "a=b=c=");
        READS("<a|>", "a=");
        READS("<a|>", "a= ; ");
}

static void
a_cookie_without_a_name_is_skipped(void)
{
        READS("", "a");
        READS("", "=a");
        READS("", " = a; b;=");
        READS("<c|1>", "a; =b; c=1; __Host-d");
}

static void
quotes_around_a_value_are_taken_off(void)
{
        READS("<a|b>", "a=\"b\"");
        READS("<a|>", "a=\"\"");
        READS("<a|\">", "a=\"");
        READS("<a|\"b>", "a=\"b");
        READS("<a|b\">", "a=b\"");
        READS("<a|\"b\">", "a=\"\"b\"\"");
        READS("<a|\"b><c\"|d>", "a=\"b;c\"=d"); /* they do not hide a semicolon */
}

static void
several_cookie_lines_are_one_list(void)
{
        READS("<a|1><b|2><c|3>", "a=1", "b=2; ", "c=3");
        READS("<a|1><b|2>", "a=1", "", "b=2");
        READS("<a|1><b|2>", "", "nothing", "a=1;b=2");
}

static void
the_first_of_a_name_counts(void)
{
        struct weir__pairs *pairs = parse((const char *const[3]){"a=1; A=2", "a=3"}, MAX);

        CU_ASSERT_STRING_EQUAL(weir__pairs_value(pairs, "a"), "1");
        CU_ASSERT_STRING_EQUAL(weir__pairs_value(pairs, "A"), "2");
        CU_ASSERT_PTR_NULL(weir__pairs_value(pairs, "no"));
        free(pairs);
}

static void
more_cookies_than_the_limit_are_said_and_not_read(void)
{
        struct weir__pairs *pairs = parse((const char *const[3]){"a=1", "b=2; x; =y", "c=3"}, 3);

        CU_ASSERT_EQUAL(pairs->count, 3);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 3, NULL, NULL), -ENOENT);
        free(pairs);
        pairs = parse((const char *const[3]){"a=1", "b=2; x; =y", "c=3"}, 2);
        CU_ASSERT_EQUAL(pairs->count, 2);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 2, NULL, NULL), -E2BIG);
        free(pairs);
}

/* -- as they are set -- */

static struct weir_http_cookie
cookie_of(const char *name, const char *value)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;

        cookie.name = name;
        cookie.value = value;
        return cookie;
}

static const char *
written(const struct weir_http_cookie *cookie)
{
        static char text[WEIR__COOKIE_ROOM];

        strcpy(text, "failed");
        CU_ASSERT_EQUAL(weir__cookie_write(cookie, text), 0);
        return text;
}

#define ASSERT_WRITTEN(cookie, expected) CU_ASSERT_STRING_EQUAL(written(cookie), (expected))

static int
result(struct weir_http_cookie cookie)
{
        char text[WEIR__COOKIE_ROOM];

        return weir__cookie_write(&cookie, text);
}

static void
a_cookie_says_what_was_set(void)
{
        struct weir_http_cookie cookie = cookie_of("a", "b");

        ASSERT_WRITTEN(&cookie, "a=b; Path=/; SameSite=Lax");
        cookie.value = NULL;
        ASSERT_WRITTEN(&cookie, "a=; Path=/; SameSite=Lax");
        cookie = cookie_of("session", "x=1&y=[2]/!#~");
        cookie.path = "";
        cookie.same_site = WEIR_HTTP_SAME_SITE_UNSAID;
        ASSERT_WRITTEN(&cookie, "session=x=1&y=[2]/!#~");
        cookie.path = "/shop/%20?x=,";
        cookie.domain = "Shop-1.example.org";
        cookie.same_site = WEIR_HTTP_SAME_SITE_STRICT;
        cookie.secure = cookie.http_only = 1;
        cookie.max_age = WEIR_SEC(90);
        ASSERT_WRITTEN(&cookie, "session=x=1&y=[2]/!#~; Path=/shop/%20?x=,; Domain=Shop-1.example.org; Max-Age=90; "
                                "SameSite=Strict; Secure; HttpOnly");
        cookie = cookie_of("a", "b");
        cookie.domain = "";
        cookie.secure = 1;
        cookie.same_site = WEIR_HTTP_SAME_SITE_NONE;
        ASSERT_WRITTEN(&cookie, "a=b; Path=/; SameSite=None; Secure");
}

static void
an_age_is_rounded_up_to_seconds(void)
{
        static const struct {
                weir_nsec age;
                const char *text;
        } rows[] = {
                {1, "a=b; Max-Age=1"},
                {WEIR_SEC(1), "a=b; Max-Age=1"},
                {WEIR_SEC(1) + 1, "a=b; Max-Age=2"},
                {WEIR_FOREVER, "a=b; Max-Age=9223372037"},
                {0, "a=b"},
                {-1, "a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
                {INT64_MIN, "a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct weir_http_cookie cookie = cookie_of("a", "b");

                cookie.path = "";
                cookie.same_site = WEIR_HTTP_SAME_SITE_UNSAID;
                cookie.max_age = rows[i].age;
                ASSERT_WRITTEN(&cookie, rows[i].text);
        }
}

/* Each byte in each place: none may end a field, or begin an attribute. */
static void
no_byte_slips_in(void)
{
        static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

        for (unsigned byte = 1; byte < 256; byte++) {
                char text[] = {'a', (char)byte, 'b', '\0'}, path[] = {'/', (char)byte, 'b', '\0'};
                bool is_visible = byte > ' ' && byte < 0x7f;
                struct weir_http_cookie named = cookie_of(text, ""), valued = cookie_of("a", text), at = valued, of = valued;

                at.value = of.value = "";
                at.path = path;
                of.domain = text;
                CU_ASSERT_EQUAL(result(named), strchr(token, (int)byte) ? 0 : -EINVAL);
                CU_ASSERT_EQUAL(result(valued), is_visible && !strchr("\",;\\", (int)byte) ? 0 : -EINVAL);
                CU_ASSERT_EQUAL(result(at), is_visible && byte != ';' ? 0 : -EINVAL);
                CU_ASSERT_EQUAL(result(of), strchr(token + 15, (int)byte) || byte == '-' || byte == '.' ? 0 : -EINVAL);
        }
        CU_ASSERT_EQUAL(result(cookie_of("", "a")), -EINVAL);
        CU_ASSERT_EQUAL(result(cookie_of(NULL, "a")), -EINVAL);
}

static void
a_path_begins_with_a_slash(void)
{
        struct weir_http_cookie cookie = cookie_of("a", "b");

        cookie.path = "a/b";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.path = "/a/b";
        CU_ASSERT_EQUAL(result(cookie), 0);
}

static void
a_domain_is_made_of_labels(void)
{
        static const char *const good[] = {"a", "example.org", "a-b.c1", "192.0.2.1", "xn--bcher-kva.example"};
        static const char *const bad[] = {".example.org", "example.org.", "a..b",  "-a.b", "a-.b", "a.-b",
                                          "a.b-",         "a_b",          "[::1]", "a:80", "."};
        struct weir_http_cookie cookie = cookie_of("a", "b");
        char longest[300];

        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
                cookie.domain = good[i];
                CU_ASSERT_EQUAL(result(cookie), 0);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                cookie.domain = bad[i];
                CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        }
        cookie.domain = longest;
        memset(longest, 'a', sizeof longest);
        longest[63] = '\0';
        CU_ASSERT_EQUAL(result(cookie), 0);
        longest[63] = 'a';
        longest[64] = '\0';
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        for (size_t i = 0; i < sizeof longest; i++) {
                longest[i] = i % 2 ? '.' : 'a';
        }
        longest[253] = '\0';
        CU_ASSERT_EQUAL(result(cookie), 0);
        longest[253] = '.';
        longest[255] = '\0';
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
}

static void
a_name_keeps_its_promise(void)
{
        struct weir_http_cookie cookie = cookie_of("__Secure-a", "b");

        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.name = "__sEcure-a";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.secure = 1;
        CU_ASSERT_EQUAL(result(cookie), 0);
        cookie.domain = "example.org";
        cookie.path = "/a";
        CU_ASSERT_EQUAL(result(cookie), 0);
        cookie.name = "__Host-a";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.domain = NULL;
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.path = "";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.path = NULL;
        CU_ASSERT_EQUAL(result(cookie), 0);
        cookie.domain = "example.org";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.domain = NULL;
        cookie.secure = 0;
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.max_age = -1; /* also to delete it: a browser would not */
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.name = "__HOST-a";
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.name = "__Host";
        CU_ASSERT_EQUAL(result(cookie), 0);
        cookie.name = "a__Host-";
        CU_ASSERT_EQUAL(result(cookie), 0);
}

static void
same_site_none_is_for_secure_cookies(void)
{
        struct weir_http_cookie cookie = cookie_of("a", "b");

        cookie.same_site = WEIR_HTTP_SAME_SITE_NONE;
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.secure = 1;
        CU_ASSERT_EQUAL(result(cookie), 0);
        cookie.same_site = (enum weir_http_same_site)4;
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
        cookie.same_site = (enum weir_http_same_site) - 1;
        CU_ASSERT_EQUAL(result(cookie), -EINVAL);
}

static void
the_largest_cookie_has_room(void)
{
        static char name[2001], value[3000], path[1100], domain[254];
        struct weir_http_cookie cookie = cookie_of(name, value);

        memset(name, 'n', sizeof name - 1);
        memset(value, 'v', sizeof value - 1);
        memset(path, '/', sizeof path - 1);
        for (size_t i = 0; i < 253; i++) {
                domain[i] = i % 2 ? '.' : 'd';
        }
        cookie.path = path;
        cookie.domain = domain;
        cookie.max_age = -1;
        cookie.secure = cookie.http_only = 1;
        cookie.same_site = WEIR_HTTP_SAME_SITE_STRICT;
        value[2097] = '\0';
        path[1024] = '\0';
        CU_ASSERT_EQUAL(result(cookie), -E2BIG);
        value[2096] = '\0';
        CU_ASSERT_EQUAL(strlen(written(&cookie)), 1 + 4096 + 7 + 1024 + 9 + 253 + 39 + 17 + 8 + 10);
        path[1024] = '/';
        path[1025] = '\0';
        CU_ASSERT_EQUAL(result(cookie), -E2BIG);
}

/* A cookie comes back as it was set, with every byte that it may contain. */
static void
a_cookie_comes_back_as_it_was_set(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned set = 0;

        for (unsigned turn = 0; turn < 20000; turn++) {
                char name[6] = "", value[8] = "", text[WEIR__COOKIE_ROOM];
                struct weir_http_cookie cookie = cookie_of(name, value);

                for (size_t i = weir_test_random_below(&random, sizeof name); i > 0; i--) {
                        name[i - 1] = (char)(weir_test_random_below(&random, 96) + 32);
                }
                for (size_t i = weir_test_random_below(&random, sizeof value); i > 0; i--) {
                        value[i - 1] = (char)(weir_test_random_below(&random, 96) + 32);
                }
                if (weir__cookie_write(&cookie, text) == 0) {
                        set++;
                        text[strcspn(text, ";")] = '\0';
                        struct weir__pairs *pairs = parse((const char *const[3]){"first=1", text, "last=1"}, MAX);
                        CU_ASSERT_EQUAL_FATAL(pairs->count, 3);
                        CU_ASSERT_STRING_EQUAL_FATAL(pairs->pairs[1].name, name);
                        CU_ASSERT_STRING_EQUAL_FATAL(pairs->pairs[1].value, value);
                        free(pairs);
                }
        }
        CU_ASSERT_TRUE(set > 1000);
}

static void
any_cookie_line_is_read_without_harm(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned turn = 0; turn < 20000; turn++) {
                char *line = calloc(1, 1 + weir_test_random_below(&random, 30));
                size_t max = weir_test_random_below(&random, 6), at = 0;

                for (; weir_test_random_below(&random, 20) && at < 29; at++) {
                        line = realloc(line, at + 2);
                        line[at] = ";;;==\"\"ab \t"[weir_test_random_below(&random, 11)];
                        line[at + 1] = '\0';
                }
                struct weir__pairs *pairs = parse((const char *const[3]){line, line}, max);
                CU_ASSERT_TRUE(pairs->count <= max);
                for (size_t i = 0; i < pairs->count; i++) {
                        CU_ASSERT_TRUE(*pairs->pairs[i].name && !strchr(pairs->pairs[i].value, ';'));
                }
                free(pairs);
                free(line);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(cookies_stand_between_semicolons),
                WEIR_TEST(the_first_equals_sign_ends_the_name_of_a_cookie),
                WEIR_TEST(a_cookie_without_a_name_is_skipped),
                WEIR_TEST(quotes_around_a_value_are_taken_off),
                WEIR_TEST(several_cookie_lines_are_one_list),
                WEIR_TEST(the_first_of_a_name_counts),
                WEIR_TEST(more_cookies_than_the_limit_are_said_and_not_read),
                WEIR_TEST(a_cookie_says_what_was_set),
                WEIR_TEST(an_age_is_rounded_up_to_seconds),
                WEIR_TEST(no_byte_slips_in),
                WEIR_TEST(a_path_begins_with_a_slash),
                WEIR_TEST(a_domain_is_made_of_labels),
                WEIR_TEST(a_name_keeps_its_promise),
                WEIR_TEST(same_site_none_is_for_secure_cookies),
                WEIR_TEST(the_largest_cookie_has_room),
                WEIR_TEST(a_cookie_comes_back_as_it_was_set),
                WEIR_TEST(any_cookie_line_is_read_without_harm),
        };

        return weir_test_main("cookie", tests, sizeof tests / sizeof *tests);
}
