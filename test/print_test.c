/* test/print_test.c: bodies that are printed, and texts that are escaped for them.
 *
 * The linker puts malloc and calloc below in front of the system's (test/CMakeLists.txt), so that a test can refuse memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test/fixture.h"
#include "test/http_client.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local int refused_after = -1; /* allocations; below 0: none is refused */

static bool
refuse(void)
{
        return refused_after >= 0 && refused_after-- == 0;
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

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
} at;

static void
ask(weir_task_fn *handler, void *context)
{
        at.server = http_server(NULL, handler, context);
        http_open(&at.client, weir_http_server_port(at.server));
        CU_ASSERT_TRUE(http_ask(&at.client, "GET /?name=%3Cscript%3E%22%26%27 HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        http_close(&at.client);
        weir_http_server_free(at.server);
}

static void
end(void)
{
        http_reply_done(&at.reply);
}

/* -- escaping -- */

static const struct escape_case {
        const char *text, *html, *json;
} cases[] = {
        {"", "", ""},
        {"plain text, 123", "plain text, 123", "plain text, 123"},
        {"<a href=\"x\" id='y'>&amp;</a>", "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;",
         "\\u003ca href=\\\"x\\\" id='y'\\u003e\\u0026amp;\\u003c/a\\u003e"},
        {"back\\slash", "back\\slash", "back\\\\slash"},
        {"\n\r\t\b\f\1\x1f\x7f", "\n\r\t\b\f\1\x1f\x7f", "\\n\\u000d\\u0009\\u0008\\u000c\\u0001\\u001f\x7f"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xb3", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xb3", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xb3"},
        {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", "\\u2028\\u2029\xe2\x80\xaa"},
        {"a\xff\xc0\xaf\xe2\x82", "a\xff\xc0\xaf\xe2\x82", "a\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xed\xa0\x80\xf4\x90\x80\x80", "\xed\xa0\x80\xf4\x90\x80\x80",
         "\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd"},
};

static void
escape_all(weir_task *exchange, void *context)
{
        (void)context;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                HTTP_ASSERT_TEXT(weir_http_escape_html(exchange, cases[i].text), cases[i].html);
                HTTP_ASSERT_TEXT(weir_http_escape_json(exchange, cases[i].text), cases[i].json);
        }
        HTTP_ASSERT_TEXT(weir_http_escape_html(exchange, NULL), "");
        HTTP_ASSERT_TEXT(weir_http_escape_json(exchange, NULL), "");
        HTTP_ASSERT_TEXT(weir_http_escape_html(NULL, "a"), "");
}

static void
each_character_is_escaped_for_html_and_json(void)
{
        ask(escape_all, NULL);
        CU_ASSERT_EQUAL(at.reply.status, 200);
        end();
}

/* Every byte, so that each takes its most: six bytes. */
static void
escape_every_byte(weir_task *exchange, void *context)
{
        char text[256 * 40 + 1];

        (void)context;
        for (size_t i = 0; i < sizeof text - 1; i++) {
                text[i] = (char)(i / 40 ? i / 40 : 1);
        }
        text[sizeof text - 1] = '\0';
        const char *html = weir_http_escape_html(exchange, text), *json = weir_http_escape_json(exchange, text);
        CU_ASSERT_EQUAL(strlen(html), sizeof text - 1 + 40 * (4 + 3 + 3 + 5 + 4));
        CU_ASSERT_EQUAL(strcspn(html, "<>\"'"), strlen(html));
        CU_ASSERT_EQUAL(strcspn(json, "<>&\n\t\1"), strlen(json));
        CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, "%zu", strlen(json)), 0);
}

static void
long_texts_of_any_bytes_are_escaped(void)
{
        ask(escape_every_byte, NULL);
        CU_ASSERT_EQUAL(at.reply.status, 200);
        end();
}

/* -- printing -- */

static void
greet(weir_task *exchange, void *context)
{
        const char *name = weir_http_query_value(exchange, "name");

        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, "<p title=\"%s\">%d ", weir_http_escape_html(exchange, name), 42), 0);
        CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, "{\"name\": \"%s\"}%%", weir_http_escape_json(exchange, name)), 0);
}

static void
printed_pieces_are_the_body(void)
{
        ask(greet, NULL);
        HTTP_ASSERT_TEXT(at.reply.body, "<p title=\"&lt;script&gt;&quot;&amp;&#39;\">42 "
                                        "{\"name\": \"\\u003cscript\\u003e\\\"\\u0026'\"}%");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/html; charset=utf-8");
        end();
}

static void
print_long(weir_task *exchange, void *context)
{
        (void)context;
        for (int size = 1020; size < 1030; size++) {
                CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, "%0*d", size, 7), 0);
        }
        CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, "%0100000d", 8), 0);
}

static void
what_is_printed_may_have_any_length(void)
{
        ask(print_long, NULL);
        CU_ASSERT_EQUAL(at.reply.size, 10245 + 100000);
        for (size_t i = 0, end_of_one = 0; i < 10; i++) {
                end_of_one += 1020 + i;
                CU_ASSERT_EQUAL(at.reply.body[end_of_one - 1], '7');
                CU_ASSERT_EQUAL(at.reply.body[end_of_one], '0');
        }
        CU_ASSERT_EQUAL(at.reply.body[at.reply.size - 1], '8');
        end();
}

static void
print_wrongly(weir_task *exchange, void *context)
{
        const char *none = NULL;
        weir_task *other = weir_empty_new(NULL, NULL);

        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_printf(exchange, none, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_printf(other, "a"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_printf(NULL, "a"), -EDOM);
        HTTP_ASSERT_TEXT(weir_http_escape_json(other, "a"), "");
        weir_task_dismiss(other);
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "begun", 5, NULL, NULL));
}

static void
wrong_calls_are_refused(void)
{
        ask(print_wrongly, NULL);
        HTTP_ASSERT_TEXT(at.reply.body, "begun");
        end();
}

/* -- without memory: the first allocation, the second and so on, until there is no further one -- */

static bool was_refused;

static void
print_without_memory(weir_task *exchange, void *context)
{
        refused_after = *(int *)context;
        const char *text = weir_http_escape_html(exchange, "<>");
        int failed = weir_http_reply_printf(exchange, "%02000d %s", 1, text);
        was_refused = refused_after < 0;
        refused_after = -1;
        CU_ASSERT(failed == 0 || failed == -ENOMEM);
        HTTP_ASSERT_TEXT(text, *text ? "&lt;&gt;" : "");
}

static void
without_memory_the_reply_is_a_500(void)
{
        int after = 0;

        do {
                ask(print_without_memory, &after);
                CU_ASSERT_EQUAL(at.reply.status, was_refused ? 500 : 200);
                end();
        } while (was_refused && ++after < 20);
        CU_ASSERT(after >= 3);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_character_is_escaped_for_html_and_json),
                WEIR_TEST(long_texts_of_any_bytes_are_escaped),
                WEIR_TEST(printed_pieces_are_the_body),
                WEIR_TEST(what_is_printed_may_have_any_length),
                WEIR_TEST(wrong_calls_are_refused),
                WEIR_TEST(without_memory_the_reply_is_a_500),
        };

        return weir_test_main("print", tests, sizeof tests / sizeof *tests);
}
