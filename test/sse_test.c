/* test/sse_test.c: Server-Sent Events: the bytes of events, heartbeats, and the many ways in which a stream ends.
 *
 * But for the last tests the clock is virtual, and one thread lets time pass. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof *(array))
#define GET(target)       "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define OLD_GET(target)   "GET " target " HTTP/1.0\r\n\r\n" /* its reply has no chunks */
#define BEAT              "3\r\n:\n\n\r\n"
#define LAST              "0\r\n\r\n"
#define LARGE             ((size_t)16 << 20) /* more than a socket takes */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;

        weir_nsec heartbeat;
        bool is_large;
        int pushed, sealed, second;    /* what these said */
        _Atomic(weir_task *) exchange; /* NULL once on_free was called */
        _Atomic(weir_series *) series; /* with a reference */
        atomic_int opened, ended, freed, last_status, late_event;
        char last_id[64];
} at;

static struct weir_http_event
data_of(const char *data)
{
        struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;

        event.data = data;
        return event;
}

static void
stream_ended(weir_task *stream, void *context)
{
        struct weir_http_event event = data_of("too late");

        (void)context;
        atomic_store(&at.last_status, weir_task_status(stream));
        atomic_store(&at.late_event, weir_task_start(weir_http_sse_event_new(atomic_load(&at.exchange), &event, NULL, NULL)));
        atomic_fetch_add(&at.ended, 1);
}

static void
stream_freed(void *context)
{
        (void)context;
        atomic_store(&at.exchange, NULL);
        atomic_fetch_add(&at.freed, 1);
}

static void
add_large_field(weir_task *exchange)
{
        char *value = malloc(LARGE);

        memset(value, 'a', LARGE);
        value[LARGE - 1] = '\0';
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Large", value), 0);
        free(value);
}

static void
open_stream(weir_task *exchange)
{
        if (at.is_large) {
                add_large_field(exchange);
        }
        weir_task *stream = weir_http_sse_new(exchange, at.heartbeat, stream_ended, NULL);
        const char *id = weir_http_sse_last_id(exchange);

        snprintf(at.last_id, sizeof at.last_id, "%s", id ? id : "none");
        weir_task_on_free(stream, stream_freed);
        atomic_store(&at.exchange, exchange);
        at.sealed = weir_http_reply_header(exchange, "Late", "yes");
        at.second = weir_task_start(weir_http_sse_new(exchange, 0, NULL, NULL));
        if (strcmp(weir_http_path(exchange), "/ended") == 0) {
                CU_ASSERT_EQUAL(weir_http_sse_end(exchange), 0);
        }
        at.pushed = weir_series_push(weir_series_of(exchange), stream);
        atomic_fetch_add(&at.opened, 1);
}

static void
open_later(weir_task *timer, void *exchange)
{
        if (!weir_task_status(timer)) {
                open_stream(exchange);
        }
}

/* "/events": a stream.  "/later": after a second.  "/ended": that has ended before.  "/dismissed": that does not come to be. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        weir_series_unref(atomic_exchange(&at.series, weir_series_ref(weir_series_of(exchange))));
        if (strcmp(path, "/events") == 0 || strcmp(path, "/ended") == 0) {
                open_stream(exchange);
        } else if (strcmp(path, "/own") == 0) {
                weir_http_reply_header(exchange, "Content-Type", "text/plain");
                weir_http_reply_header(exchange, "Cache-Control", "no-store");
                weir_http_reply_append(exchange, ": hello\n", 8);
                open_stream(exchange);
        } else if (strcmp(path, "/later") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(1), open_later, exchange));
        } else if (strcmp(path, "/dismissed") == 0) {
                weir_task_dismiss(weir_http_sse_new(exchange, 0, NULL, NULL));
        } else {
                weir_http_reply_text(exchange, 200, "word\n");
        }
}

static void
begin_with(weir_nsec heartbeat, int ignore_departure)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.ignore_departure = ignore_departure;
        at.heartbeat = heartbeat;
        at.opened = at.ended = at.freed = at.last_status = at.late_event = 0;
        at.series = NULL;
        weir_test_begin_virtual();
        at.server = http_server(&config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        http_open(&at.client, at.port);
}

static void
begin(void)
{
        begin_with(0, false);
}

static void
stop_server(void)
{
        weir_series_unref(atomic_exchange(&at.series, NULL));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), atomic_load(&at.opened));
        weir_http_server_free(at.server);
        at.server = NULL;
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        if (at.server) {
                stop_server();
        }
        weir_test_end();
}

static void
run_ready(void)
{
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
}

/* Takes what comes next, which is this. */
static void
assert_comes(struct http_client *client, const char *expected)
{
        size_t size = strlen(expected);

        while (client->size < size && !client->ended) {
                http_read_some(client);
        }
        bool is_it = client->size >= size && memcmp(client->input, expected, size) == 0;
        CU_ASSERT_TRUE(is_it);
        if (!is_it) {
                printf("\n  %.*s\n  instead of %s", (int)client->size, client->input, expected);
                return;
        }
        memmove(client->input, client->input + size, client->size - size);
        client->size -= size;
}

static void
take_head(struct http_client *client)
{
        char *end = NULL;

        while (!end && !client->ended) {
                http_read_some(client);
                end = memmem(client->input, client->size, "\r\n\r\n", 4);
        }
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        free(at.reply.head);
        at.reply.head = strndup(client->input, (size_t)(end + 4 - client->input));
        client->size -= (size_t)(end + 4 - client->input);
        memmove(client->input, end + 4, client->size);
}

static void
subscribe(const char *request)
{
        CU_ASSERT_TRUE(http_send_text(&at.client, request));
        run_ready();
        take_head(&at.client);
}

static int
send_event(const struct weir_http_event *event)
{
        int failed = weir_task_start(weir_http_sse_event_new(atomic_load(&at.exchange), event, NULL, NULL));

        run_ready();
        return failed;
}

static void
send_data(const char *data)
{
        struct weir_http_event event = data_of(data);

        CU_ASSERT_EQUAL(send_event(&event), 0);
}

static void
assert_ended(int status)
{
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.last_status), status);
        CU_ASSERT_EQUAL(atomic_load(&at.late_event), -EPIPE);
}

/* -- the head -- */

static void
the_head_comes_at_once_and_says_what_it_is(void)
{
        begin();
        subscribe(GET("/events"));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/event-stream");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Cache-Control"), "no-cache");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X-Accel-Buffering"), "no");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Transfer-Encoding"), "chunked");
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Late"));
        CU_ASSERT_EQUAL(at.client.size, 0);
        CU_ASSERT_EQUAL(at.pushed, 0);
        CU_ASSERT_EQUAL(at.sealed, -EALREADY);
        CU_ASSERT_EQUAL(at.second, -EALREADY);
        CU_ASSERT_STRING_EQUAL(at.last_id, "none");
        end();
}

static void
the_fields_of_the_handler_stay_but_the_type(void)
{
        begin();
        subscribe(OLD_GET("/own"));
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Content-Type"), 1);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/event-stream");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Cache-Control"), "no-store");
        assert_comes(&at.client, ": hello\n");
        end();
}

static void
a_client_that_comes_again_says_what_it_has_seen(void)
{
        begin();
        subscribe("GET /events HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 41\r\n\r\n");
        CU_ASSERT_STRING_EQUAL(at.last_id, "41");
        end();
}

static void
head_gets_the_head_and_the_next_request_its_reply(void)
{
        begin();
        subscribe("HEAD /events HTTP/1.1\r\nHost: a\r\n\r\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/event-stream");
        assert_ended(0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "word\n");
        end();
}

static void
a_stream_that_is_dismissed_leaves_an_empty_reply(void)
{
        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/dismissed"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_EQUAL(at.reply.size, 0);
        end();
}

/* -- events -- */

static void
events_go_over_the_wire_as_the_standard_has_them(void)
{
        static const struct {
                const char *data, *event, *id;
                weir_nsec retry;
                const char *expected;
        } table[] = {
                {"a", NULL, NULL, 0, "data: a\n\n"},
                {"", NULL, NULL, 0, "data: \n\n"},
                {" a:b ", NULL, NULL, 0, "data:  a:b \n\n"},
                {"a\nb", NULL, NULL, 0, "data: a\ndata: b\n\n"},
                {"a\rb", NULL, NULL, 0, "data: a\ndata: b\n\n"},
                {"a\r\nb", NULL, NULL, 0, "data: a\ndata: b\n\n"},
                {"a\n\rb", NULL, NULL, 0, "data: a\ndata: \ndata: b\n\n"},
                {"a\n", NULL, NULL, 0, "data: a\ndata: \n\n"},
                {"\r\n\r\n", NULL, NULL, 0, "data: \ndata: \ndata: \n\n"},
                {"x\n\nid: 7", NULL, NULL, 0, "data: x\ndata: \ndata: id: 7\n\n"},
                {"\xc3\xa4", "tick", "7", WEIR_SEC(3), "id: 7\nevent: tick\nretry: 3000\ndata: \xc3\xa4\n\n"},
                {NULL, NULL, "", 0, "id: \n\n"},
                {NULL, "only", NULL, 0, "event: only\n\n"},
                {NULL, NULL, NULL, 1, "retry: 1\n\n"},
                {NULL, NULL, NULL, WEIR_MSEC(2) + 1, "retry: 3\n\n"},
                {NULL, NULL, NULL, WEIR_FOREVER, "retry: 9223372036855\n\n"},
        };

        begin();
        subscribe(OLD_GET("/events"));
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct weir_http_event event = data_of(table[i].data);

                event.event = table[i].event;
                event.id = table[i].id;
                event.retry = table[i].retry;
                CU_ASSERT_EQUAL(send_event(&event), 0);
                assert_comes(&at.client, table[i].expected);
                CU_ASSERT_EQUAL(at.client.size, 0);
        }
        end();
}

static void
an_event_is_one_chunk(void)
{
        begin();
        subscribe(GET("/events"));
        send_data("a\nb");
        assert_comes(&at.client, "11\r\ndata: a\ndata: b\n\n\r\n");
        end();
}

static void
an_invalid_event_is_refused(void)
{
        static const struct weir_http_event wrong[] = {
                {.size = sizeof *wrong},
                {.size = 1, .data = "a"},
                {.size = sizeof *wrong, .data = "a", .id = "1\n2"},
                {.size = sizeof *wrong, .data = "a", .id = "\r"},
                {.size = sizeof *wrong, .data = "a", .event = "a\r\ndata: b"},
                {.size = sizeof *wrong, .data = "a", .retry = -1},
        };
        struct weir_http_event right = data_of("a");

        begin();
        subscribe(GET("/events"));
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                CU_ASSERT_EQUAL(send_event(&wrong[i]), -EINVAL);
        }
        CU_ASSERT_EQUAL(send_event(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_http_sse_event_new(NULL, &right, NULL, NULL)), -EDOM);
        CU_ASSERT_EQUAL(weir_task_start(weir_http_sse_new(NULL, 0, NULL, NULL)), -EDOM);
        CU_ASSERT_EQUAL(weir_http_sse_end(NULL), -EDOM);
        CU_ASSERT_PTR_NULL(weir_http_sse_last_id(NULL));
        send_data("right");
        assert_comes(&at.client, "d\r\ndata: right\n\n\r\n");
        end();
}

static void
try_without_a_stream(weir_task *exchange, void *context)
{
        struct weir_http_event event = data_of("a");

        (void)context;
        CU_ASSERT_EQUAL(weir_task_start(weir_http_sse_event_new(exchange, &event, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_sse_end(exchange), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_http_sse_new(exchange, -1, NULL, NULL)), -EINVAL);
        weir_http_reply_text(exchange, 200, "refused\n");
}

static void
an_exchange_without_a_stream_takes_no_events(void)
{
        begin();
        weir_http_server *server = http_server(NULL, try_without_a_stream, NULL);
        struct http_client client;
        http_open(&client, weir_http_server_port(server));
        CU_ASSERT_TRUE(http_ask(&client, GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "refused\n");
        http_close(&client);
        weir_http_server_free(server);
        end();
}

/* -- heartbeats -- */

static void
silence_is_broken_to_the_nanosecond(weir_nsec heartbeat, weir_nsec expected)
{
        begin_with(heartbeat, false);
        subscribe(GET("/events"));
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_clock_advance(expected - 1), 0);
                CU_ASSERT_FALSE(http_has_news(&at.client, 0));
                CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
                assert_comes(&at.client, BEAT);
        }
        CU_ASSERT_EQUAL(weir_clock_advance(expected - 1), 0);
        send_data("a");
        assert_comes(&at.client, "9\r\ndata: a\n\n\r\n");
        CU_ASSERT_EQUAL(weir_clock_advance(expected - 1), 0); /* the event has broken it */
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        assert_comes(&at.client, BEAT);
        end();
}

static void
a_comment_comes_after_each_heartbeat_of_silence(void)
{
        silence_is_broken_to_the_nanosecond(0, WEIR_SEC(15));
        silence_is_broken_to_the_nanosecond(WEIR_SEC(3600), WEIR_SEC(3600));
        silence_is_broken_to_the_nanosecond(WEIR_MSEC(10), WEIR_MSEC(10));
}

static void
without_chunks_a_heartbeat_is_the_comment_alone(void)
{
        begin();
        subscribe(OLD_GET("/events"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(15)), 0);
        assert_comes(&at.client, ":\n\n");
        end();
}

static void
for_ever_is_no_heartbeat_and_no_limit(void)
{
        begin_with(WEIR_FOREVER, false);
        subscribe(GET("/events"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_TEST_CENTURY), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        send_data("a");
        assert_comes(&at.client, "9\r\ndata: a\n\n\r\n");
        end();
}

/* -- ends -- */

static void
the_end_completes_the_reply_and_the_next_request_is_served(void)
{
        begin();
        subscribe(GET("/events"));
        send_data("a");
        CU_ASSERT_EQUAL(weir_http_sse_end(atomic_load(&at.exchange)), 0);
        run_ready();
        assert_ended(0);
        assert_comes(&at.client, "9\r\ndata: a\n\n\r\n" LAST);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(30)), 0); /* no heartbeat any more */
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "word\n");
        end();
}

static void
a_stream_that_was_ended_before_its_start_has_a_head(void)
{
        begin();
        subscribe(GET("/ended"));
        assert_comes(&at.client, LAST);
        assert_ended(0);
        end();
}

static void
with_a_reference_events_are_refused_after_the_end(void)
{
        struct weir_http_event event = data_of("a");

        begin();
        subscribe(GET("/events"));
        weir_task *exchange = weir_http_ref(atomic_load(&at.exchange));
        CU_ASSERT_EQUAL(weir_http_sse_end(exchange), 0);
        run_ready();
        assert_ended(0);
        CU_ASSERT_EQUAL(weir_http_sse_end(exchange), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_http_sse_event_new(exchange, &event, NULL, NULL)), -EPIPE);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0)); /* the reply is open still */
        weir_http_unref(exchange);
        run_ready();
        assert_comes(&at.client, LAST);
        end();
}

static void
a_cancelled_series_breaks_the_stream_off(void)
{
        begin();
        subscribe(GET("/events"));
        weir_series_cancel(atomic_load(&at.series));
        run_ready();
        assert_ended(-ECANCELED);
        CU_ASSERT_TRUE(http_is_over(&at.client)); /* without a last chunk */
        end();
}

static void
without_chunks_a_stream_that_breaks_off_does_not_look_like_one_that_ends(void)
{
        for (int breaks = 0; breaks < 2; breaks++) {
                begin();
                subscribe(OLD_GET("/events"));
                if (breaks) {
                        weir_series_cancel(atomic_load(&at.series));
                } else {
                        CU_ASSERT_EQUAL(weir_http_sse_end(atomic_load(&at.exchange)), 0);
                }
                run_ready();
                CU_ASSERT_TRUE(http_is_over(&at.client));
                CU_ASSERT_EQUAL(at.client.reset, breaks);
                end();
        }
}

static void
a_client_that_closes_is_found_out_at_once(void)
{
        static const weir_nsec heartbeats[] = {0, WEIR_FOREVER};

        for (size_t i = 0; i < ARRAY_SIZE(heartbeats); i++) {
                begin_with(heartbeats[i], false);
                subscribe(GET("/events"));
                http_close(&at.client);
                for (int n = 0; n < 3; n++) {
                        run_ready(); /* it has finished its side; it is sent a comment; its system resets */
                }
                assert_ended(-ECANCELED);
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
                http_open(&at.client, at.port);
                end();
        }
}

static void
a_client_that_resets_is_found_out_at_once(void)
{
        begin();
        subscribe(GET("/events"));
        http_abandon(&at.client);
        run_ready();
        assert_ended(-ECANCELED);
        http_open(&at.client, at.port);
        end();
}

static void
the_stream_of_who_has_gone_ends_also_when_departure_is_ignored(void)
{
        begin_with(0, true);
        subscribe(GET("/events"));
        http_abandon(&at.client);
        run_ready();
        assert_ended(-EPIPE);
        http_open(&at.client, at.port);
        end();
}

static void
a_client_that_has_only_finished_its_side_is_served_on(void)
{
        begin();
        subscribe(GET("/events"));
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        run_ready();
        assert_comes(&at.client, BEAT); /* the question whether it is there */
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(15) - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        send_data("a");
        assert_comes(&at.client, "9\r\ndata: a\n\n\r\n");
        CU_ASSERT_EQUAL(weir_http_sse_end(atomic_load(&at.exchange)), 0);
        run_ready();
        assert_comes(&at.client, LAST);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

static void
a_client_that_takes_nothing_is_given_up(void)
{
        char *large = malloc(4000001);

        memset(large, 'a', 4000000);
        large[4000000] = '\0';
        begin();
        subscribe(GET("/events"));
        send_data("first");
        for (int i = 0; i < 3; i++) {
                send_data(large);
        }
        CU_ASSERT(weir_http_unsent(atomic_load(&at.exchange)) > 4000000);
        /* The system may still have moved bytes to the client's side in the first of these limits. */
        for (int i = 0; i < 3 && !atomic_load(&at.ended); i++) {
                CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(60)), 0);
                run_ready();
        }
        assert_ended(-ECANCELED);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        end();
        free(large);
}

static void
events_sent_before_the_end_still_reach_a_slow_reader(void)
{
        size_t size = 3000000;
        char *large = malloc(size + 1), *expected = malloc(size + 64);

        memset(large, 'a', size);
        large[size] = '\0';
        begin();
        subscribe(OLD_GET("/events"));
        send_data(large);
        send_data("b");
        CU_ASSERT_EQUAL(weir_http_sse_end(atomic_load(&at.exchange)), 0);
        run_ready();
        assert_ended(0); /* nobody has to remember it any more */
        sprintf(expected, "data: %s\n\ndata: b\n\n", large);

        while (at.client.size < size + 10 + 9 && !at.client.ended) {
                if (http_has_news(&at.client, WEIR_MSEC(1))) {
                        http_read_some(&at.client);
                }
        }
        assert_comes(&at.client, expected);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
        free(large);
        free(expected);
}

/* The head waits for the client when the stream ends: the end must come behind it, not instead of it. */
static void
a_large_head_still_reaches_who_reads_slowly_when_the_stream_ends(void)
{
        size_t end_size = strlen("\r\n\r\n" LAST);

        begin();
        at.is_large = true;
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/events")));
        run_ready();
        CU_ASSERT_EQUAL(weir_http_sse_end(atomic_load(&at.exchange)), 0);
        run_ready();
        assert_ended(0);
        CU_ASSERT_EQUAL(at.client.size, 0);
        while (at.client.size <= LARGE && !at.client.ended) {
                if (http_has_news(&at.client, WEIR_SEC(1))) {
                        http_read_some(&at.client);
                } else {
                        break;
                }
        }
        CU_ASSERT_FATAL(at.client.size > LARGE);
        CU_ASSERT_EQUAL(memcmp(at.client.input + at.client.size - end_size, "\r\n\r\n" LAST, end_size), 0);
        at.client.size = 0;
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        at.is_large = false;
        end();
}

/* -- the server's and the runtime's end -- */

static void
a_stop_ends_streams_at_once(void)
{
        begin();
        subscribe(GET("/events"));
        send_data("a");
        weir_series_unref(atomic_exchange(&at.series, NULL));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0);
        assert_ended(0);
        assert_comes(&at.client, "9\r\ndata: a\n\n\r\n" LAST);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

static void
a_stream_that_is_opened_during_a_stop_ends_at_once(void)
{
        begin();
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        run_ready();
        weir_series_unref(atomic_exchange(&at.series, NULL));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0); /* time goes by itself meanwhile */
        assert_ended(0);
        take_head(&at.client);
        assert_comes(&at.client, LAST);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

static void
stop_within_for_ever(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0);
}

static void
a_stop_waits_for_who_has_a_reference(void)
{
        struct weir_test_thread stopper;

        begin_with(WEIR_MSEC(1), false);
        subscribe(GET("/events"));
        weir_series_unref(atomic_exchange(&at.series, NULL));
        weir_task *exchange = weir_http_ref(atomic_load(&at.exchange));
        weir_test_thread_start(&stopper, stop_within_for_ever, NULL);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 1);
        assert_ended(0);
        weir_http_unref(exchange);
        weir_test_thread_join(&stopper);
        assert_comes(&at.client, LAST);
        end();
}

static void
a_stop_within_no_time_leaves_nothing(void)
{
        begin();
        subscribe(GET("/events"));
        weir_series_unref(atomic_exchange(&at.series, NULL));
        CU_ASSERT(weir_http_server_stop(at.server, 0) <= 1);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
}

static void
shutdown_ends_streams_at_once(void)
{
        begin_with(WEIR_MSEC(1), false);
        subscribe(GET("/events"));
        weir_series_unref(atomic_exchange(&at.series, NULL));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        CU_ASSERT(atomic_load(&at.last_status) == -ESHUTDOWN || atomic_load(&at.last_status) == -ECANCELED);
        weir_http_server_free(at.server);
        at.server = NULL;
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* -- many -- */

#define CLIENTS 4
#define ROUNDS  (WEIR_TEST_SANITIZED ? 20 : 60)

struct subscriber {
        weir_task *exchange;
        struct subscriber *next, **link;
};

static struct {
        pthread_mutex_t lock;
        struct subscriber *first;
        atomic_uint came, went, events;
        _Atomic bool over;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
leave(void *context)
{
        struct subscriber *subscriber = context;

        pthread_mutex_lock(&all.lock);
        *subscriber->link = subscriber->next;
        if (subscriber->next) {
                subscriber->next->link = subscriber->link;
        }
        pthread_mutex_unlock(&all.lock);
        free(subscriber);
        atomic_fetch_add(&all.went, 1);
}

static void
join_all(weir_task *exchange, void *context)
{
        struct subscriber *subscriber = malloc(sizeof *subscriber);
        weir_task *stream = weir_http_sse_new(exchange, WEIR_MSEC(1), NULL, subscriber);

        (void)context;
        weir_task_on_free(stream, leave);
        pthread_mutex_lock(&all.lock);
        *subscriber = (struct subscriber){exchange, all.first, &all.first};
        if (all.first) {
                all.first->link = &subscriber->next;
        }
        all.first = subscriber;
        pthread_mutex_unlock(&all.lock);
        atomic_fetch_add(&all.came, 1);
        weir_series_push(weir_series_of(exchange), stream);
}

static void
broadcast(void *ends)
{
        struct weir_test_random random = {weir_test_seed() + (ends != NULL)};
        struct weir_http_event event = data_of("to all");

        while (!atomic_load(&all.over)) {
                pthread_mutex_lock(&all.lock);
                for (struct subscriber *each = all.first; each; each = each->next) {
                        if (ends && weir_test_random_below(&random, 8) == 0) {
                                weir_http_sse_end(each->exchange);
                        } else if (weir_http_unsent(each->exchange) < 10000) {
                                weir_task_start(weir_http_sse_event_new(each->exchange, &event, NULL, NULL));
                                atomic_fetch_add(&all.events, 1);
                        }
                }
                pthread_mutex_unlock(&all.lock);
                weir_test_sleep(100000);
        }
}

static void
come_and_go(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uint64_t)(uintptr_t)argument};

        for (int i = 0; i < ROUNDS; i++) {
                struct http_client client;

                http_open(&client, at.port);
                http_send_text(&client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                for (uint64_t reads = weir_test_random_below(&random, 4); reads && !client.ended; reads--) {
                        http_read_some(&client);
                }
                if (weir_test_random_below(&random, 2)) {
                        http_close(&client);
                } else {
                        http_abandon(&client);
                }
        }
}

static void
storm(bool by_shutdown)
{
        struct weir_test_thread broadcasters[2], clients[CLIENTS];
        struct http_client last;

        weir_test_begin_real(3);
        all.came = all.went = all.events = 0;
        all.over = false;
        at.server = http_server(NULL, join_all, NULL);
        at.port = weir_http_server_port(at.server);
        for (size_t i = 0; i < 2; i++) {
                weir_test_thread_start(&broadcasters[i], broadcast, i ? &all : NULL);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
                weir_test_thread_start(&clients[i], come_and_go, &clients[i]);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
                weir_test_thread_join(&clients[i]);
        }
        http_open(&last, at.port);
        http_send_text(&last, GET("/"));
        if (by_shutdown) {
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        } else {
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        }
        atomic_store(&all.over, true);
        for (size_t i = 0; i < 2; i++) {
                weir_test_thread_join(&broadcasters[i]);
        }
        http_close(&last);
        weir_http_server_free(at.server);
        at.server = NULL;
        if (!by_shutdown) {
                weir_test_end();
        }
        CU_ASSERT_PTR_NULL(all.first);
        CU_ASSERT_EQUAL(atomic_load(&all.came), atomic_load(&all.went));
        CU_ASSERT(atomic_load(&all.came) > 0 && atomic_load(&all.events) > 0);
}

static void
subscribers_come_and_go_while_others_broadcast(void)
{
        storm(false);
}

static void
shutdown_comes_while_others_broadcast(void)
{
        storm(true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_head_comes_at_once_and_says_what_it_is),
                WEIR_TEST(the_fields_of_the_handler_stay_but_the_type),
                WEIR_TEST(a_client_that_comes_again_says_what_it_has_seen),
                WEIR_TEST(head_gets_the_head_and_the_next_request_its_reply),
                WEIR_TEST(a_stream_that_is_dismissed_leaves_an_empty_reply),
                WEIR_TEST(events_go_over_the_wire_as_the_standard_has_them),
                WEIR_TEST(an_event_is_one_chunk),
                WEIR_TEST(an_invalid_event_is_refused),
                WEIR_TEST(an_exchange_without_a_stream_takes_no_events),
                WEIR_TEST(a_comment_comes_after_each_heartbeat_of_silence),
                WEIR_TEST(without_chunks_a_heartbeat_is_the_comment_alone),
                WEIR_TEST(for_ever_is_no_heartbeat_and_no_limit),
                WEIR_TEST(the_end_completes_the_reply_and_the_next_request_is_served),
                WEIR_TEST(a_stream_that_was_ended_before_its_start_has_a_head),
                WEIR_TEST(with_a_reference_events_are_refused_after_the_end),
                WEIR_TEST(a_cancelled_series_breaks_the_stream_off),
                WEIR_TEST(without_chunks_a_stream_that_breaks_off_does_not_look_like_one_that_ends),
                WEIR_TEST(a_client_that_closes_is_found_out_at_once),
                WEIR_TEST(a_client_that_resets_is_found_out_at_once),
                WEIR_TEST(the_stream_of_who_has_gone_ends_also_when_departure_is_ignored),
                WEIR_TEST(a_client_that_has_only_finished_its_side_is_served_on),
                WEIR_TEST(a_client_that_takes_nothing_is_given_up),
                WEIR_TEST(events_sent_before_the_end_still_reach_a_slow_reader),
                WEIR_TEST(a_large_head_still_reaches_who_reads_slowly_when_the_stream_ends),
                WEIR_TEST(a_stop_ends_streams_at_once),
                WEIR_TEST(a_stream_that_is_opened_during_a_stop_ends_at_once),
                WEIR_TEST(a_stop_waits_for_who_has_a_reference),
                WEIR_TEST(a_stop_within_no_time_leaves_nothing),
                WEIR_TEST(shutdown_ends_streams_at_once),
                WEIR_TEST(subscribers_come_and_go_while_others_broadcast),
                WEIR_TEST(shutdown_comes_while_others_broadcast),
        };

        return weir_test_main("sse", tests, sizeof tests / sizeof *tests);
}
