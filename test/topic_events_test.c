/* test/topic_events_test.c: a topic whose messages are events for browsers; docs/waiting.md shows it. */
#include "test/fixture.h"

#include <errno.h>

#include "test/http_client.h"

static struct {
        weir_http_server *server;
        struct http_client one, two;
        struct http_reply reply;
} at;

static weir_task *next_post(weir_task *exchange);

static void
on_post(weir_task *task, void *exchange)
{
        struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;
        weir_series *series = weir_series_of(task);

        event.data = weir_topic_message(task, NULL);
        if (!event.data)
                return; /* the stream has ended */
        weir_series_push(series, weir_http_sse_event_new(exchange, &event, NULL, NULL));
        weir_series_push(series, next_post(exchange)); /* when the event has left */
}

static weir_task *
next_post(weir_task *exchange)
{
        weir_subscriber *subscriber = weir_series_context(weir_series_of(exchange));

        return weir_topic_receive_new(subscriber, on_post, exchange);
}

static void
leave(void *subscriber)
{
        weir_subscriber_unref(subscriber);
}

/* The stream and the posts end together. */
static void
on_events(weir_task *exchange, void *topic)
{
        weir_series *series = weir_series_of(exchange);
        weir_task *both = weir_race_new(NULL, NULL);

        weir_series_set_context(series, weir_topic_subscribe(topic, 100), leave);
        weir_race_add(both, weir_http_sse_new(exchange, 0, NULL, NULL));
        weir_race_add(both, next_post(exchange));
        weir_series_push(series, both);
}

/* -- */

static void
begin(void)
{
        weir_test_begin_virtual();
        at.server = http_server(NULL, on_events, "room 7");
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        CU_ASSERT_EQUAL(weir_topic_publish("room 7", "x", 1), 0);
        weir_test_end();
        http_reply_done(&at.reply);
}

static void
read_events(struct http_client *client)
{
        http_open(client, weir_http_server_port(at.server));
        CU_ASSERT(http_send_text(client, "GET / HTTP/1.0\r\n\r\n"));
        weir_test_pass(0);
}

static int64_t
publish(const char *text)
{
        int64_t subscribers = weir_topic_publish("room 7", text, strlen(text));

        weir_test_pass(0);
        return subscribers;
}

static void
posts_reach_all_who_read_and_a_stop_ends_the_streams(void)
{
        begin();
        read_events(&at.one);
        CU_ASSERT_EQUAL(publish("a"), 1);
        read_events(&at.two);
        CU_ASSERT_EQUAL(publish("b"), 2);
        CU_ASSERT_EQUAL(publish("c"), 2);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT(http_receive_to_end(&at.one, &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "data: a\n\ndata: b\n\ndata: c\n\n");
        CU_ASSERT(http_receive_to_end(&at.two, &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "data: b\n\ndata: c\n\n");
        http_close(&at.one);
        http_close(&at.two);
        end();
}

static void
a_client_that_has_gone_is_unsubscribed(void)
{
        begin();
        read_events(&at.one);
        read_events(&at.two);
        CU_ASSERT_EQUAL(publish("a"), 2);
        http_abandon(&at.one);
        WEIR_TEST_EVENTUALLY(publish("b") == 1);
        http_abandon(&at.two);
        WEIR_TEST_EVENTUALLY(publish("c") == 0);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(posts_reach_all_who_read_and_a_stop_ends_the_streams),
                WEIR_TEST(a_client_that_has_gone_is_unsubscribed),
        };

        return weir_test_main("topic_events", tests, sizeof tests / sizeof *tests);
}
