/* test/reference_url_guide_test.c: the examples of the reference for weir/url.h, and of docs/urls.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- weir/url.h -- */

static void
a_url_is_taken_apart(void)
{
        struct weir_url_problem problem;
        weir_url *url = weir_url_parse("https://ann:pw@Example.com:8443/a%20b?q=1#top", &problem);

        if (!url)
                fprintf(stderr, "byte %zu: %s\n", problem.at, problem.text);
        CU_ASSERT_STRING_EQUAL(weir_url_scheme(url), "https");
        CU_ASSERT_STRING_EQUAL(weir_url_userinfo(url), "ann:pw");
        CU_ASSERT_STRING_EQUAL(weir_url_host(url), "example.com");
        CU_ASSERT_EQUAL(weir_url_port(url), 8443);
        CU_ASSERT_STRING_EQUAL(weir_url_path(url), "/a%20b");
        CU_ASSERT_STRING_EQUAL(weir_url_query(url), "q=1");
        CU_ASSERT_STRING_EQUAL(weir_url_fragment(url), "top");

        CU_ASSERT_STRING_EQUAL(weir_url_text(url), "https://ann:pw@example.com:8443/a%20b?q=1#top");
        CU_ASSERT_STRING_EQUAL(weir_url_redacted(url), "https://example.com:8443/a%20b?q=1#top"); /* for logs */
        weir_url_free(url);
}

static void
a_request_is_made_of_a_url(void)
{
        weir_url *url = weir_url_parse("http://example.com?q=1#top", NULL);
        char head[100];
        const char *target = weir_url_target(url), *host = weir_url_host_field(url);

        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host);
        CU_ASSERT_STRING_EQUAL(head, "GET /?q=1 HTTP/1.1\r\nHost: example.com\r\n\r\n");
        CU_ASSERT_STRING_EQUAL(weir_url_address(url), "example.com:80"); /* for weir_connect_new */
        weir_url_free(url);
}

static void
a_place_is_named(void)
{
        static const char text[] = "http://example.com:80:80/";
        struct weir_url_problem problem;

        weir_url *url = weir_url_parse_bytes(text, strlen(text), &problem);
        CU_ASSERT(!url && errno == EINVAL);
        CU_ASSERT_EQUAL(problem.at, 21);
        CU_ASSERT_STRING_EQUAL(problem.text, "in a port: expected digits, and a slash behind them");
}

static void
a_redirect_is_followed(void)
{
        struct weir_url_problem problem;
        weir_url *page = weir_url_parse("http://example.com/a/b?c", NULL);
        weir_url *next = weir_url_resolve(page, "../d", &problem);

        CU_ASSERT_STRING_EQUAL(weir_url_text(next), "http://example.com/d");
        weir_url_free(page);
        weir_url_free(next);
}

static void
urls_are_compared(void)
{
        weir_url *one = weir_url_parse("http://Example.com:80/%7Eann/./", NULL);
        weir_url *other = weir_url_parse("http://example.com/~ann/", NULL);

        CU_ASSERT_STRING_EQUAL(weir_url_normal(one), "http://example.com/~ann/");
        CU_ASSERT(weir_url_equal(one, other));
        weir_url_free(one);
        weir_url_free(other);
}

static void
a_url_is_built(void)
{
        struct weir_url_problem problem;
        const char *segments[] = {"v1", "a/b.txt", NULL};
        struct weir_form_pair pairs[] = {{"q", "1 + 1"}, {NULL, NULL}};
        weir_url *base = weir_url_new("https", "api.example", 0, &problem);
        weir_url *url = weir_url_extend(base, segments, pairs, &problem);

        CU_ASSERT_STRING_EQUAL(weir_url_text(url), "https://api.example/v1/a%2Fb.txt?q=1+%2B+1");
        weir_url_free(base);
        weir_url_free(url);
}

static void
text_is_encoded(void)
{
        char buffer[16];
        size_t size;
        char *text = weir_percent_encode("50 %", 4), *back = weir_percent_decode(text, strlen(text), &size);

        CU_ASSERT_STRING_EQUAL(text, "50%20%25");
        CU_ASSERT(size == 4 && strcmp(back, "50 %") == 0);
        CU_ASSERT(weir_percent_encode_to(buffer, sizeof buffer, "a/b", 3) < sizeof buffer);
        CU_ASSERT(weir_percent_decode_to(buffer, sizeof buffer, buffer, strlen(buffer)) == 3); /* in place */
        CU_ASSERT_STRING_EQUAL(buffer, "a/b");
        free(text);
        free(back);
}

static void
a_form_is_written_and_read(void)
{
        struct weir_form_pair pairs[] = {{"name", "Ann & Bob"}, {"flag", NULL}, {NULL, NULL}};
        char *text = weir_form_encode(pairs);
        weir_form *form = weir_form_parse(text, strlen(text), 100);
        const char *name, *value;

        CU_ASSERT_STRING_EQUAL(text, "name=Ann+%26+Bob&flag");
        CU_ASSERT_STRING_EQUAL(weir_form_value(form, "name"), "Ann & Bob");
        for (size_t i = 0; weir_form_at(form, i, &name, &value) == 0; i++)
                CU_ASSERT_STRING_EQUAL(name, pairs[i].name);
        weir_form_free(form);
        free(text);
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_url_is_taken_apart),   WEIR_TEST(a_request_is_made_of_a_url), WEIR_TEST(a_place_is_named),
        WEIR_TEST(a_redirect_is_followed), WEIR_TEST(urls_are_compared),          WEIR_TEST(a_url_is_built),
        WEIR_TEST(text_is_encoded),        WEIR_TEST(a_form_is_written_and_read),
};

int
main(void)
{
        return weir_test_main("reference_url_guide", tests, sizeof tests / sizeof *tests);
}
