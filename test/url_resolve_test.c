/* test/url_resolve_test.c: references of URLs, as RFC 3986 resolves them, and normal forms. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/url.h>

#include "test/support.h"

#define RESOLVES(base, reference, expected) CU_ASSERT_TRUE(resolves((base), (reference), (expected)))
static bool
resolves(const char *base, const char *reference, const char *expected)
{
        struct weir_url_problem problem = {77, "-"};
        weir_url *page = weir_url_parse(base, NULL), *url = weir_url_resolve(page, reference, &problem);
        const char *text = url ? weir_url_text(url) : problem.text;
        bool is_right = url && strcmp(text, expected) == 0 && problem.at == 77;

        if (!is_right)
                fprintf(stderr, "%s on %s: %s, expected %s\n", reference, base, text, expected);
        weir_url_free(url);
        weir_url_free(page);
        return is_right;
}

/* Source: RFC 3986 section 5.4.1. */
static void
normal_examples_of_the_rfc(void)
{
        static const char *const examples[][2] = {
                {"g:h", "g:h"},
                {"g", "http://a/b/c/g"},
                {"./g", "http://a/b/c/g"},
                {"g/", "http://a/b/c/g/"},
                {"/g", "http://a/g"},
                {"//g", "http://g"},
                {"?y", "http://a/b/c/d;p?y"},
                {"g?y", "http://a/b/c/g?y"},
                {"#s", "http://a/b/c/d;p?q#s"},
                {"g#s", "http://a/b/c/g#s"},
                {"g?y#s", "http://a/b/c/g?y#s"},
                {";x", "http://a/b/c/;x"},
                {"g;x", "http://a/b/c/g;x"},
                {"g;x?y#s", "http://a/b/c/g;x?y#s"},
                {"", "http://a/b/c/d;p?q"},
                {".", "http://a/b/c/"},
                {"./", "http://a/b/c/"},
                {"..", "http://a/b/"},
                {"../", "http://a/b/"},
                {"../g", "http://a/b/g"},
                {"../..", "http://a/"},
                {"../../", "http://a/"},
                {"../../g", "http://a/g"},
        };

        for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
                RESOLVES("http://a/b/c/d;p?q", examples[i][0], examples[i][1]);
}

/* Source: RFC 3986 section 5.4.2. */
static void
abnormal_examples_of_the_rfc(void)
{
        static const char *const examples[][2] = {
                {"../../../g", "http://a/g"},
                {"../../../../g", "http://a/g"},
                {"/./g", "http://a/g"},
                {"/../g", "http://a/g"},
                {"g.", "http://a/b/c/g."},
                {".g", "http://a/b/c/.g"},
                {"g..", "http://a/b/c/g.."},
                {"..g", "http://a/b/c/..g"},
                {"./../g", "http://a/b/g"},
                {"./g/.", "http://a/b/c/g/"},
                {"g/./h", "http://a/b/c/g/h"},
                {"g/../h", "http://a/b/c/h"},
                {"g;x=1/./y", "http://a/b/c/g;x=1/y"},
                {"g;x=1/../y", "http://a/b/c/y"},
                {"g?y/./x", "http://a/b/c/g?y/./x"},
                {"g?y/../x", "http://a/b/c/g?y/../x"},
                {"g#s/./x", "http://a/b/c/g#s/./x"},
                {"g#s/../x", "http://a/b/c/g#s/../x"},
        };

        for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
                RESOLVES("http://a/b/c/d;p?q", examples[i][0], examples[i][1]);
        /* "http:g" is "http:g" for strict parsers, which no http URL may be.  Another scheme shows the rule. */
        RESOLVES("s://a/b/c/d;p?q", "s:g", "s:g");
}

#define REFUSES(reference, place, word) CU_ASSERT_TRUE(refuses((reference), (place), (word)))
static bool
refuses(const char *reference, size_t place, const char *word)
{
        struct weir_url_problem problem = {77, "-"};
        weir_url *base = weir_url_parse("http://a/b/c/d;p?q", NULL), *url;

        errno = 0;
        url = weir_url_resolve(base, reference, &problem);
        bool is_right = !url && errno == EINVAL && problem.at == place && strstr(problem.text, word);
        if (!is_right)
                fprintf(stderr, "%s: %s at %zu\n", reference, problem.text, problem.at);
        weir_url_free(url);
        weir_url_free(base);
        return is_right;
}

static void
a_reference_is_checked_as_a_url_is(void)
{
        REFUSES("http:g", 5, "needs a host");
        REFUSES("//", 2, "an empty host");
        REFUSES("///a", 2, "an empty host");
        REFUSES("//a@b@c", 5, "a second @");
        REFUSES("//a:b", 4, "in a port");
        REFUSES("//%61/", 2, "in a host");
        REFUSES("//127.1", 2, "four decimal numbers");
        REFUSES(":a", 0, "a colon");
        REFUSES("1a:b", 2, "a colon");
        REFUSES("a_b:c/d", 3, "a colon");
        REFUSES("/a b", 2, "a space");
        REFUSES("/\\evil.example", 1, "a backslash");
        REFUSES("\\\\evil.example", 0, "a backslash");
        REFUSES("/a\nb", 2, "a control character");
        REFUSES("/%", 1, "percent");
        REFUSES("[a]", 0, "a bracket");
        REFUSES("#a#b", 2, "a second number sign");
        REFUSES("javascript:alert('\xe2\x80\xa8')", 18, "above 127");
        RESOLVES("http://a/b", "./1a:b", "http://a/1a:b");
        RESOLVES("http://a/b", "c/d:e", "http://a/c/d:e");
}

static void
the_authority_of_the_base_is_kept_whole(void)
{
        RESOLVES("http://u:p@h:81/a", "b", "http://u:p@h:81/b");
        RESOLVES("http://u:p@h:81/a", "//g:82/b", "http://g:82/b");
        RESOLVES("http://u:p@h/a#f", "", "http://u:p@h/a");
        RESOLVES("http://h", "a", "http://h/a");
        RESOLVES("http://h", "../a", "http://h/a");
        RESOLVES("http://h?q", "?", "http://h?");
        RESOLVES("http://h/a", "https://G/../b", "https://g/b");
        RESOLVES("http://h/a/b", "..//c", "http://h//c");
        RESOLVES("http://h/a//b", "../c", "http://h/a/c");
        RESOLVES("http://h/%2e%2e/a", "b", "http://h/%2e%2e/b");
        RESOLVES("http://h/..;/a", "b", "http://h/..;/b");
}

static void
urls_without_a_host_are_bases_too(void)
{
        RESOLVES("mailto:a@b", "c", "mailto:c");
        RESOLVES("mailto:a@b", "?subject=c", "mailto:a@b?subject=c");
        RESOLVES("urn:a/b:c", "d", "urn:a/d");
        RESOLVES("s:", "a", "s:a");
        RESOLVES("s:/a", "../b", "s:/b");
        RESOLVES("file:///a/b", "../c", "file:///c");
        /* Two slashes at the beginning of a path would be an authority. */
        RESOLVES("s:/a", "..//b", "s:/.//b");
        RESOLVES("s:/a/", "..//b", "s:/.//b");
        RESOLVES("s:a", "..//b", "s:/b");
        RESOLVES("s:/.//a", "b", "s:/.//b");
        RESOLVES("http://h/", "t:/..//b", "t:/.//b");
}

/* -- normal forms -- */

#define NORMAL(text, expected) CU_ASSERT_TRUE(is_normal((text), (expected)))
static bool
is_normal(const char *text, const char *expected)
{
        weir_url *url = weir_url_parse(text, NULL), *again = weir_url_parse(expected, NULL);
        bool is_right = url && again && strcmp(weir_url_normal(url), expected) == 0 &&
                        strcmp(weir_url_normal(again), expected) == 0 && weir_url_equal(url, again);

        if (!is_right)
                fprintf(stderr, "%s: %s, expected %s\n", text, url ? weir_url_normal(url) : "refused", expected);
        weir_url_free(url);
        weir_url_free(again);
        return is_right;
}

static void
a_normal_form_means_the_same(void)
{
        NORMAL("http://example.com", "http://example.com/");
        NORMAL("HTTP://EXAMPLE.COM:/", "http://example.com/");
        NORMAL("http://example.com:80/", "http://example.com/");
        NORMAL("http://example.com:0080/", "http://example.com/");
        NORMAL("http://example.com:0443/", "http://example.com:443/");
        NORMAL("http://example.com:000/", "http://example.com:0/");
        NORMAL("https://example.com:443/", "https://example.com/");
        NORMAL("http://h?", "http://h/?");
        NORMAL("http://h/%7Ea%7e%41/%2d%2E%5f", "http://h/~a~A/-._");
        NORMAL("http://h/%2f%3a%c3%a9?%3d#%2b", "http://h/%2F%3A%C3%A9?%3D#%2B");
        NORMAL("http://h/%2541", "http://h/%2541");
        NORMAL("http://h/a/./b/../c", "http://h/a/c");
        NORMAL("http://h/a/%2e%2E/b", "http://h/b");
        NORMAL("http://h/..;/a", "http://h/..;/a");
        NORMAL("http://u%41@h/", "http://uA@h/");
        NORMAL("http://@h/", "http://@h/");
        NORMAL("s://%41%2f/", "s://a%2F/");
        NORMAL("s://h:80", "s://h:80");
        NORMAL("s:a/../b", "s:/b");
        NORMAL("s:/a/..//b", "s:/.//b");
        NORMAL("s:.//b", "s:/b");
        /* Source: RFC 3986 section 6.2.2. */
        NORMAL("eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D");
}

/* Source: RFC 5952. */
static void
an_ipv6_address_has_a_shortest_form(void)
{
        NORMAL("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/");
        NORMAL("http://[2001:0DB8:0:0:1:0:0:1]:8080/", "http://[2001:db8::1:0:0:1]:8080/");
        NORMAL("http://[2001:db8:0:1:1:1:1:1]/", "http://[2001:db8:0:1:1:1:1:1]/");
        NORMAL("http://[::FFFF:0102:0304]/", "http://[::ffff:1.2.3.4]/");
        NORMAL("http://[::ffff:ffff:ffff]", "http://[::ffff:255.255.255.255]/");
        NORMAL("http://[1111:2222:3333:4444:5555:6666:123.123.123.123]/", "http://[1111:2222:3333:4444:5555:6666:7b7b:7b7b]/");
}

static void
urls_differ_by_what_means_something(void)
{
        static const char *const urls[] = {
                "http://h/",  "https://h/",  "http://h:81/", "http://u@h/", "http://@h/", "http://g/",  "http://h/a",
                "http://h/A", "http://h/a/", "http://h//a",  "http://h/?",  "http://h/#", "http://h./", "http://h/%2F",
        };
        size_t count = sizeof urls / sizeof *urls;

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < count; j++) {
                        weir_url *one = weir_url_parse(urls[i], NULL), *other = weir_url_parse(urls[j], NULL);

                        CU_ASSERT_EQUAL(weir_url_equal(one, other), i == j);
                        weir_url_free(one);
                        weir_url_free(other);
                }
}

static const struct weir_test tests[] = {
        WEIR_TEST(normal_examples_of_the_rfc),          WEIR_TEST(abnormal_examples_of_the_rfc),
        WEIR_TEST(a_reference_is_checked_as_a_url_is),  WEIR_TEST(the_authority_of_the_base_is_kept_whole),
        WEIR_TEST(urls_without_a_host_are_bases_too),   WEIR_TEST(a_normal_form_means_the_same),
        WEIR_TEST(an_ipv6_address_has_a_shortest_form), WEIR_TEST(urls_differ_by_what_means_something),
};

int
main(void)
{
        return weir_test_main("url_resolve", tests, sizeof tests / sizeof *tests);
}
