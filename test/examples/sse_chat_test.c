/* test/examples/sse_chat_test.c: what is said reaches everybody who reads, on the virtual clock. */
#include "test/examples/program.h"

#include "examples/sse-chat.c"
#undef main

static struct {
        weir_http_router *router;
        weir_http_server *server;
        struct http_client speaker, one, two;
        struct http_reply reply;
} at;

static void
begin(void)
{
        at.router = weir_http_router_new();
        weir_test_begin_virtual();
        CU_ASSERT(weir_http_router_add(at.router, "GET", "/", on_page, NULL) == 0);
        CU_ASSERT(weir_http_router_add(at.router, "GET", "/events", on_events, NULL) == 0);
        CU_ASSERT(weir_http_router_add(at.router, "POST", "/say", on_say, NULL) == 0);
        at.server = http_server(NULL, weir_http_router_handle, at.router);
        http_open(&at.speaker, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_close(&at.speaker);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(weir_topic_publish("chat", "anybody?", 8), 0);
        weir_http_server_free(at.server);
        weir_test_end();
        weir_http_router_free(at.router);
        http_reply_done(&at.reply);
}

static int
say(const char *form)
{
        char request[256 + 2 * LONGEST];

        snprintf(request, sizeof request,
                 "POST /say HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                 strlen(form), form);
        CU_ASSERT(http_ask(&at.speaker, request, &at.reply));
        return at.reply.status;
}

static void
read_events(struct http_client *client)
{
        http_open(client, weir_http_server_port(at.server));
        CU_ASSERT(http_send_text(client, "GET /events HTTP/1.0\r\n\r\n"));
        weir_test_pass(0);
}

/* All that has come until the stream ended. */
static void
expect_body(struct http_client *client, const char *body)
{
        CU_ASSERT(http_receive_to_end(client, &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, body);
        http_close(client);
}

/* Each of them is asked, too. */
static int64_t
readers_now(void)
{
        int64_t readers = weir_topic_publish("chat", "who is there?", 13);

        weir_test_pass(0);
        return readers;
}

static void
what_is_said_reaches_everybody(void)
{
        begin();
        read_events(&at.one);
        CU_ASSERT_EQUAL(say("text=hello"), 204);
        read_events(&at.two);
        CU_ASSERT_EQUAL(say("text=two+lines%0Aof+text"), 204);
        CU_ASSERT_EQUAL(say("words=none"), 400);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        expect_body(&at.one, "data: hello\n\ndata: two lines\ndata: of text\n\n");
        expect_body(&at.two, "data: two lines\ndata: of text\n\n");
        end();
}

static void
what_is_too_long_is_not_said(void)
{
        char form[5 + LONGEST + 2];

        begin();
        read_events(&at.one);
        snprintf(form, sizeof form, "text=%0*d", LONGEST + 1, 0);
        CU_ASSERT_EQUAL(say(form), 413);
        form[5 + LONGEST] = '\0';
        CU_ASSERT_EQUAL(say(form), 204);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT(http_receive_to_end(&at.one, &at.reply));
        CU_ASSERT_EQUAL(at.reply.size, strlen("data: \n\n") + LONGEST);
        http_close(&at.one);
        end();
}

static void
who_leaves_is_forgotten(void)
{
        begin();
        read_events(&at.one);
        read_events(&at.two);
        CU_ASSERT_EQUAL(readers_now(), 2);
        http_abandon(&at.one);
        WEIR_TEST_EVENTUALLY(readers_now() == 1);
        http_close(&at.two);
        end();
}

/* A reader that is behind may lose words, but not the last ones. */
static void
the_last_words_reach_a_reader(void)
{
        char word[16];

        begin();
        read_events(&at.one);
        for (int i = 0; i < 10 * ROOM; i++) {
                snprintf(word, sizeof word, "word %d", i);
                weir_topic_publish("chat", word, strlen(word));
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT(http_receive_to_end(&at.one, &at.reply));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.body, "data: word 999\n\n"));
        http_close(&at.one);
        end();
}

static void
the_page_is_served(void)
{
        begin();
        CU_ASSERT(http_ask(&at.speaker, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.body, "new EventSource('/events')"));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/html; charset=utf-8");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_is_said_reaches_everybody),
                WEIR_TEST(what_is_too_long_is_not_said),
                WEIR_TEST(who_leaves_is_forgotten),
                WEIR_TEST(the_last_words_reach_a_reader),
                WEIR_TEST(the_page_is_served),
        };

        return weir_test_main("example_sse_chat", tests, sizeof tests / sizeof *tests);
}
