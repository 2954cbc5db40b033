/* test/server_stream_test.c: replies that are written piece by piece, by their series and from elsewhere, and upgrades.
 *
 * Time passes in steps, for most tests are on the virtual clock with one poller; those with several threads have several. */
#include <stdio.h>

#include "test/body_fixture.h"

#define LARGE          (16 * MIB) /* more than the sockets hold */
#define UPGRADE_FIELDS " /chat HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\nUpgrade: other/2, echo\r\n\r\n"
#define UPGRADE        "GET" UPGRADE_FIELDS

/* -- pieces -- */

static void
written_bytes_go_out_in_chunks_at_once(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 3; i++) { /* and the connection is kept */
                ask(GET("/"));
                CU_ASSERT_EQUAL(weir_http_reply_status(at.exchange, 201), 0);
                CU_ASSERT_EQUAL(weir_http_reply_header(at.exchange, "X", "y"), 0);
                CU_ASSERT_EQUAL(write_text("abc"), 0);
                CU_ASSERT_TRUE(http_has_news(&at.client, WEIR_TEST_PATIENCE));
                CU_ASSERT_EQUAL(write_text(""), 0);
                CU_ASSERT_EQUAL(write_text("0123456789abcdef"), 0);
                CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), 0);
                let_go();
                assert_receives(201, "abc0123456789abcdef");
                CU_ASSERT_EQUAL(at.reply.chunks, 3);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "X"), "y");
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "Connection"));
        }
        end();
}

static void
chunks_are_on_the_wire_as_they_should_be(void)
{
        static const char expected[] = "\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";

        begin(keep_exchange);
        ask("GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        CU_ASSERT_EQUAL(write_text("abc"), 0);
        CU_ASSERT_EQUAL(write_text("0123456789abcdef"), 0);
        let_go();
        CU_ASSERT_TRUE(http_receive_to_end(&at.client, &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Transfer-Encoding"), "chunked");
        HTTP_ASSERT_TEXT(at.reply.body, expected + 4);
        end();
}

static void
a_write_of_nothing_sends_the_head_at_once(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(GET("/"));
                CU_ASSERT_EQUAL(i ? write_text("") : write_all(NULL, 0), 0);
                while (!(at.client.size > 4 && memcmp(at.client.input + at.client.size - 4, "\r\n\r\n", 4) == 0)) {
                        http_read_some(&at.client);
                }
                let_go();
                assert_receives(200, "");
                CU_ASSERT_EQUAL(at.reply.chunks, 1);
        }
        end();
}

static void
appended_bytes_come_first(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 3; i++) {
                ask(GET("/"));
                CU_ASSERT_EQUAL(weir_http_reply_append(at.exchange, "first ", 6), 0);
                CU_ASSERT_EQUAL(i < 2 ? 0 : weir_http_reply_length(at.exchange, 12), 0);
                CU_ASSERT_EQUAL(i ? write_text("second") : write_text(""), 0);
                let_go();
                assert_receives(200, i ? "first second" : "first ");
                CU_ASSERT_EQUAL(http_field_count(&at.reply, "Content-Length"), i == 2);
        }
        end();
}

static void
once_it_has_begun_the_reply_is_changed_no_more(void)
{
        begin(keep_exchange);
        ask(UPGRADE);
        CU_ASSERT_EQUAL(write_text("a"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_status(at.exchange, 404), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_header(at.exchange, "X", "y"), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(at.exchange, "X", "y"), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_append(at.exchange, "b", 1), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 404, "b"), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 1), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), -EALREADY);
        let_go();
        assert_receives(200, "a");
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "X"));
        end();
}

static void
to_http_1_0_it_goes_until_the_connection_ends(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(i ? "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" : "GET / HTTP/1.0\r\n\r\n");
                CU_ASSERT_EQUAL(write_text("abc"), 0);
                CU_ASSERT_EQUAL(write_text("def"), 0);
                let_go();
                CU_ASSERT_TRUE(http_receive_to_end(&at.client, &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "abcdef");
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "Transfer-Encoding"));
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Length"));
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                open_again();
        }
        ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 3), 0);
        CU_ASSERT_EQUAL(write_text("abc"), 0);
        let_go();
        assert_receives(200, "abc");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "keep-alive");
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        end();
}

/* -- with a length -- */

static void
with_a_length_said_so_many_bytes_go_out(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(GET("/"));
                CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 6), 0);
                CU_ASSERT_EQUAL(write_text("abc"), 0);
                CU_ASSERT_EQUAL(write_text("defg"), -EMSGSIZE); /* nothing of it */
                CU_ASSERT_EQUAL(write_text("def"), 0);
                CU_ASSERT_EQUAL(write_text("g"), -EMSGSIZE);
                CU_ASSERT_EQUAL(write_text(""), 0);
                let_go();
                assert_receives(200, "abcdef");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "6");
        }
        end();
}

static void
less_than_was_said_is_cut_so_that_the_client_sees_it(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(GET("/"));
                CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 6), 0);
                CU_ASSERT_EQUAL(write_text(i ? "abc" : ""), 0);
                let_go();
                CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                open_again();
        }
        end();
}

static void
more_appended_than_was_said_is_emsgsize(void)
{
        begin(keep_exchange);
        ask(GET("/"));
        CU_ASSERT_EQUAL(weir_http_reply_append(at.exchange, "abcdef", 6), 0);
        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 5), 0);
        CU_ASSERT_EQUAL(write_text(""), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 500, "too much\n"), 0); /* it has not begun */
        let_go();
        assert_receives(500, "too much\n");
        end();
}

/* -- where there is no body -- */

static void
no_body_goes_out_where_there_is_none(void)
{
        static const int statuses[] = {200, 204, 304};

        begin(keep_exchange);
        for (int i = 0; i < 12; i++) {
                bool to_head = i % 2, has_length = i >= 6;

                ask(to_head ? "HEAD / HTTP/1.1\r\n" HOST "\r\n" : GET("/"));
                CU_ASSERT_EQUAL(weir_http_reply_status(at.exchange, statuses[i % 3]), 0);
                CU_ASSERT_EQUAL(has_length ? weir_http_reply_length(at.exchange, 6) : 0, 0);
                CU_ASSERT_EQUAL(write_text("abc"), 0);
                CU_ASSERT_EQUAL(write_text("def"), 0);
                CU_ASSERT_EQUAL(has_length ? write_text("g") : -EMSGSIZE, -EMSGSIZE);
                CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), 0);
                let_go();
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, to_head));
                CU_ASSERT_EQUAL(at.reply.status, statuses[i % 3]);
                if (i % 3) {
                        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Transfer-Encoding"));
                        CU_ASSERT(i % 3 == 2 || http_field_count(&at.reply, "Content-Length") == 0);
                } else if (!to_head) {
                        HTTP_ASSERT_TEXT(at.reply.body, "abcdef");
                }
                CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        }
        end();
}

/* -- one after another -- */

static void
requests_behind_a_streamed_reply_wait_for_its_end(void)
{
        begin(keep_exchange);
        ask(GET("/1") GET("/2") GET("/3"));
        for (int i = 1; i <= 3; i++) {
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i);
                CU_ASSERT_EQUAL(write_text(weir_http_path(at.exchange)), 0);
                run_ready();
                CU_ASSERT_EQUAL(atomic_load(&at.handled), i);
                CU_ASSERT_EQUAL(write_text("."), 0);
                let_go();
        }
        assert_receives(200, "/1.");
        assert_receives(200, "/2.");
        assert_receives(200, "/3.");
        end();
}

static atomic_int writes, write_status;

static void
note_write(weir_task *write, void *context)
{
        (void)context;
        atomic_store(&write_status, weir_task_status(write));
        atomic_fetch_add(&writes, 1);
}

static void
write_in_series(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        weir_task_on_free(exchange, count_free);
        weir_http_reply_append(exchange, "a", 1);
        for (int i = 0; i < 3; i++) {
                weir_series_push(series, weir_http_write_new(exchange, &"bcd"[i], 1, note_write, exchange));
                weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        }
        atomic_fetch_add(&at.handled, 1);
}

static void
a_series_writes_between_other_tasks(void)
{
        begin(write_in_series);
        atomic_store(&writes, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/") GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&writes) == 1);
        weir_test_pass(WEIR_MSEC(1500));
        CU_ASSERT_EQUAL(atomic_load(&writes), 2);
        weir_test_pass(WEIR_SEC(5));
        for (int i = 0; i < 2; i++) {
                assert_receives(200, "abcd");
                CU_ASSERT_EQUAL(at.reply.chunks, 5); /* what was appended has one of its own, and the end */
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 2);
        CU_ASSERT_EQUAL(atomic_load(&write_status), 0);
}

/* -- clients that do not read -- */

static void
open_narrow(void)
{
        http_close(&at.client);
        http_open_window(&at.client, at.port, 4096);
}

/* For what is left to come: megabytes through the narrow window take a busy machine long. */
static void
widen(void)
{
        const int window = 4 * MIB;

        CU_ASSERT_EQUAL(setsockopt(at.client.fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window), 0);
}

static void
a_write_ends_when_the_client_has_made_room(void)
{
        char *bytes = pattern(LARGE);
        struct piece one, other;

        begin(keep_exchange);
        open_narrow();
        ask(GET("/"));
        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, LARGE + 3), 0);
        write_begin(&one, bytes, LARGE);
        CU_ASSERT_TRUE(waits(&one));
        CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), LARGE);
        write_begin(&other, "end", 3);
        CU_ASSERT_TRUE(waits(&other));
        CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), LARGE + 3);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false)); /* the last of it may be on its way already */
        CU_ASSERT_EQUAL(ended(&one), 0);
        CU_ASSERT_EQUAL(ended(&other), 0);
        CU_ASSERT_EQUAL(at.reply.size, LARGE + 3);
        CU_ASSERT(at.reply.size == LARGE + 3 && memcmp(at.reply.body, bytes, LARGE) == 0);
        CU_ASSERT(at.reply.size == LARGE + 3 && memcmp(at.reply.body + LARGE, "end", 3) == 0);
        CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), 0);
        let_go();
        end();
        free(bytes);
}

static void
a_client_that_does_not_read_is_epipe_at_the_limit_of_writing(void)
{
        char *bytes = pattern(LARGE);
        struct piece one, other;
        int passed = 0;

        begin(keep_exchange);
        open_narrow();
        ask(GET("/"));
        write_begin(&one, bytes, LARGE);
        CU_ASSERT_TRUE(waits(&one));
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_FALSE(is_ended(&one));
        write_begin(&other, "more", 4);
        /* The bytes that its system takes in at first look like reading. */
        for (; !is_ended(&one) && passed < 5; passed++) {
                weir_test_pass(LIMIT + 1);
        }
        CU_ASSERT(passed < 5);
        CU_ASSERT_EQUAL(ended(&one), -EPIPE);
        CU_ASSERT_EQUAL(ended(&other), -EPIPE);
        CU_ASSERT_EQUAL(write_text("a"), -EPIPE);
        CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), 0);
        let_go();
        run_ready();
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        end();
        free(bytes);
}

static void
a_client_that_goes_is_epipe(void)
{
        char *bytes = pattern(LARGE);

        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece one;

                open_narrow();
                ask(GET("/"));
                CU_ASSERT_EQUAL(write_text("a"), 0);
                if (i < 2) {
                        write_begin(&one, bytes, LARGE);
                        CU_ASSERT_TRUE(waits(&one));
                }
                (i % 2 ? http_abandon : http_close)(&at.client);
                if (i < 2) {
                        CU_ASSERT_EQUAL(ended(&one), -EPIPE);
                }
                WEIR_TEST_EVENTUALLY(write_text("b") == -EPIPE); /* the first one may go out before anybody knows */
                CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), 0);
                let_go();
                WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
                http_open(&at.client, at.port);
        }
        end();
        free(bytes);
}

/* -- writes that are cancelled -- */

static weir_series *
write_in_own_series(struct piece *piece, const void *data, size_t size)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        *piece = (struct piece){.size = 0};
        weir_series_push(series, weir_test_recorded(weir_http_write_new(at.exchange, data, size, take_piece, piece)));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
cancel(weir_series *series)
{
        weir_series_cancel(series);
        weir_series_unref(series);
}

/* One that waits behind another is as if it had never been; where a length was said it is missing then. */
static void
a_write_that_waits_behind_another_is_cancelled(void)
{
        char *bytes = pattern(LARGE);

        begin(keep_exchange);
        for (int i = 0; i < 6; i++) {
                struct piece one, second, third;
                bool has_length = i >= 3;

                open_narrow();
                ask(GET("/"));
                if (has_length) { /* for one of the two that follow, or for both */
                        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, LARGE + (i == 3 ? 3 : 6)), 0);
                }
                write_begin(&one, bytes, LARGE);
                CU_ASSERT_TRUE(waits(&one));
                weir_series *series = write_in_own_series(&second, "two", 3);
                CU_ASSERT_TRUE(waits(&second));
                cancel(series); /* and the third one may have its place */
                CU_ASSERT_EQUAL(ended(&second), -ECANCELED);
                CU_ASSERT_EQUAL(weir_http_unsent(at.exchange), LARGE);
                write_begin(&third, "end", 3);
                let_go();
                widen();
                bool whole = http_receive(&at.client, &at.reply, false);
                CU_ASSERT_EQUAL(ended(&one), 0);
                CU_ASSERT_EQUAL(ended(&third), 0);
                CU_ASSERT_EQUAL(whole, i <= 3);
                if (whole) {
                        CU_ASSERT_EQUAL(at.reply.size, LARGE + 3);
                        CU_ASSERT_STRING_EQUAL(at.reply.body + LARGE, "end");
                }
        }
        end();
        free(bytes);
}

static void
a_write_that_is_half_out_is_cancelled_with_its_connection(void)
{
        char *bytes = pattern(LARGE);

        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece one, other;

                open_narrow();
                ask(GET("/"));
                if (i % 2) {
                        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, LARGE + 3), 0);
                }
                weir_series *series = write_in_own_series(&one, bytes, LARGE);
                CU_ASSERT_TRUE(waits(&one));
                write_begin(&other, "end", 3);
                CU_ASSERT_TRUE(waits(&other));
                cancel(series);
                CU_ASSERT_EQUAL(ended(&one), -ECANCELED);
                CU_ASSERT_EQUAL(ended(&other), -EPIPE);
                CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                let_go();
        }
        end();
        free(bytes);
}

static void
write_a_lot_in_series(weir_task *exchange, void *context)
{
        static char bytes[LARGE];
        weir_series *series = weir_series_of(exchange);

        (void)context;
        weir_task_on_free(exchange, count_free);
        atomic_store(&at.series, weir_series_ref(series));
        weir_series_push(series, weir_http_write_new(exchange, bytes, sizeof bytes, note_write, NULL));
        weir_series_push(series, weir_http_write_new(exchange, "end", 3, note_write, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
a_series_is_cancelled_while_it_writes(void)
{
        begin(write_a_lot_in_series);
        for (int i = 1; i <= 5; i++) {
                atomic_store(&writes, 0);
                open_narrow();
                ask(GET("/"));
                run_ready();
                if (i == 5) {
                        http_abandon(&at.client);
                } else {
                        weir_series_cancel(at.series);
                        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                }
                WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
                CU_ASSERT_EQUAL(atomic_load(&writes), 1);
                CU_ASSERT_EQUAL(atomic_load(&write_status), -ECANCELED); /* what the series ends with counts more than -EPIPE */
                CU_ASSERT_EQUAL(weir_series_status(at.series), -ECANCELED);
                weir_series_unref(atomic_exchange(&at.series, NULL));
        }
        http_close(&at.client);
        http_open(&at.client, at.port);
        end();
}

/* -- echo -- */

static _Atomic size_t most_unsent, most_memory;

static void
raise_to(_Atomic size_t *most, size_t value)
{
        if (value > atomic_load(most)) {
                atomic_store(most, value);
        }
}

static void echo_next(weir_task *write, void *context);

static void
echo_piece(weir_task *read, void *context)
{
        size_t size = 0;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read) == 0 && size > 0) {
                weir_series_push(weir_series_of(read), weir_http_write_new(context, data, size, echo_next, context));
        }
}

static void
echo_next(weir_task *write, void *context)
{
        if (weir_task_status(write)) {
                return;
        }
        raise_to(&most_unsent, weir_http_unsent(context));
        raise_to(&most_memory, memory_in_use());
        weir_series_push(weir_series_of(write), weir_http_read_new(context, echo_piece, context));
}

static void
echo(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        weir_task_on_free(exchange, count_free);
        if (weir_http_request_header(exchange, "Upgrade")) {
                CU_ASSERT_EQUAL(weir_http_reply_upgrade(exchange, "echo"), 0);
        }
        weir_series_push(series, weir_http_write_new(exchange, NULL, 0, echo_next, exchange));
        atomic_fetch_add(&at.handled, 1);
}

struct sender {
        struct weir_test_thread thread;
        const char *head, *body;
        size_t size, step;
};

static void
send_all(void *argument)
{
        struct sender *sender = argument;
        struct http_client same = {.fd = at.client.fd};
        char line[32];

        CU_ASSERT_TRUE(http_send_text(&same, sender->head));
        for (size_t sent = 0; sent < sender->size; sent += sender->step) {
                size_t part = sender->size - sent < sender->step ? sender->size - sent : sender->step;

                snprintf(line, sizeof line, "%zx\r\n", part);
                CU_ASSERT_TRUE(http_send_text(&same, line));
                CU_ASSERT_TRUE(http_send(&same, sender->body + sent, part));
                CU_ASSERT_TRUE(http_send_text(&same, "\r\n"));
        }
        CU_ASSERT_TRUE(http_send_text(&same, LAST_CHUNK));
}

/* Of what came in chunks only a count is kept, so that the client's memory is not counted with the server's. */
static size_t
receive_slowly_and_count(const char *expected, size_t size)
{
        static char buffer[10000];
        size_t have = 0;

        while (have < size) {
                ssize_t count = recv(at.client.fd, buffer, size - have < sizeof buffer ? size - have : sizeof buffer, 0);

                if (count <= 0 || memcmp(buffer, expected + have, (size_t)count) != 0) {
                        break;
                }
                have += (size_t)count;
                if (have % 64 == 0) {
                        weir_test_sleep(1000000);
                }
        }
        return have;
}

/* The reply is what was sent, without a head in front and chunks in between. */
static void
echo_raw(weir_task *exchange, void *context)
{
        weir_http_reply_length(exchange, 10 * MIB);
        echo(exchange, context);
}

static void
an_echo_of_10_megabytes_to_a_slow_reader_takes_little_memory(void)
{
        struct weir_http_server_config config = streaming();
        struct sender sender = {.head = CHUNKED, .size = 10 * MIB, .step = 50000};
        size_t before;

        sender.body = pattern(sender.size);
        atomic_store(&most_unsent, 0);
        atomic_store(&most_memory, 0);
        begin_real_with(&config, echo_raw);
        open_narrow();
        before = memory_in_use();
        weir_test_thread_start(&sender.thread, send_all, &sender);
        while (!(at.client.size > 0 && memmem(at.client.input, at.client.size, "\r\n\r\n", 4))) {
                http_read_some(&at.client);
        }
        size_t head = (size_t)((char *)memmem(at.client.input, at.client.size, "\r\n\r\n", 4) - at.client.input) + 4;
        size_t have = at.client.size - head;
        CU_ASSERT_EQUAL(memcmp(at.client.input + head, sender.body, have), 0);
        CU_ASSERT_EQUAL(receive_slowly_and_count(sender.body + have, sender.size - have), sender.size - have);
        weir_test_thread_join(&sender.thread);
        CU_ASSERT(atomic_load(&most_unsent) <= WEIR__SCRATCH_SIZE);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(atomic_load(&most_memory) < before + MIB);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        free((char *)sender.body);
}

/* The server stops reading from a client that sends and does not read.  The sockets fill up, nothing else does. */
static void
a_client_that_sends_for_ever_and_does_not_read_the_echo_is_not_read_any_more(void)
{
        struct weir_http_server_config config = streaming();
        char *bytes = pattern(64 * MIB), head[128];
        size_t before, sent;

        config.write_timeout = WEIR_FOREVER;
        begin_with(&config, echo);
        open_narrow();
        snprintf(head, sizeof head, POST "Content-Length: %zu\r\n\r\n", 64 * MIB);
        ask(head);
        before = memory_in_use();
        sent = send_what_is_taken(bytes, 64 * MIB);
        CU_ASSERT(sent < 64 * MIB);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() < before + MIB);
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
        free(bytes);
}

/* -- from elsewhere -- */

#define SUBSCRIBERS 100
#define MESSAGES    (WEIR_TEST_SANITIZED ? 20 : 100)

static _Atomic(weir_task *) subscribers[SUBSCRIBERS];

static void
subscribe(weir_task *exchange, void *context)
{
        (void)context;
        weir_task_on_free(exchange, count_free);
        weir_http_reply_header(exchange, "Content-Type", "text/event-stream");
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "begin\n", 6, NULL, NULL));
        atomic_store(&subscribers[atomic_fetch_add(&at.handled, 1)], weir_http_ref(exchange));
}

static void
broadcast(void *argument)
{
        const char *message = argument;

        for (int i = 0; i < MESSAGES; i++) {
                for (int k = 0; k < SUBSCRIBERS; k++) {
                        CU_ASSERT_EQUAL(weir_task_start(weir_http_write_new(subscribers[k], message, 2, note_write, NULL)), 0);
                }
        }
}

static unsigned
count_lines(const struct http_reply *reply, const char *line)
{
        unsigned count = 0;

        for (const char *at_line = reply->body + 6; at_line + 2 <= reply->body + reply->size; at_line += 2) {
                count += memcmp(at_line, line, 2) == 0;
        }
        return count;
}

static void
unsubscribe_all(void *unused)
{
        (void)unused;
        for (int k = 0; k < SUBSCRIBERS; k++) {
                weir_http_unref(atomic_exchange(&subscribers[k], NULL));
        }
}

static void
two_threads_broadcast_to_100_whose_series_have_ended(void)
{
        struct weir_http_server_config config = streaming();
        static struct http_client clients[SUBSCRIBERS];
        struct weir_test_thread threads[2];

        begin_real_with(&config, subscribe);
        atomic_store(&writes, 0);
        for (int k = 0; k < SUBSCRIBERS; k++) {
                http_open(&clients[k], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[k], k % 2 ? GET("/") : CHUNKED "1\r\na\r\n" LAST_CHUNK));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == SUBSCRIBERS);
        weir_test_thread_start(&threads[0], broadcast, "a\n");
        weir_test_thread_start(&threads[1], broadcast, "b\n");
        for (int i = 0; i < 2; i++) {
                weir_test_thread_join(&threads[i]);
        }
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 0);
        weir_test_thread_start(&threads[0], unsubscribe_all, NULL); /* the writes may still be on their way */
        weir_test_thread_join(&threads[0]);
        for (int k = 0; k < SUBSCRIBERS; k++) {
                CU_ASSERT_TRUE(http_receive(&clients[k], &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.size, 6 + 4 * (size_t)MESSAGES);
                CU_ASSERT_EQUAL(count_lines(&at.reply, "a\n"), (unsigned)MESSAGES);
                CU_ASSERT_EQUAL(count_lines(&at.reply, "b\n"), (unsigned)MESSAGES);
                http_close(&clients[k]);
        }
        CU_ASSERT_EQUAL(atomic_load(&writes), 2 * MESSAGES * SUBSCRIBERS);
        CU_ASSERT_EQUAL(atomic_load(&write_status), 0);
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), SUBSCRIBERS);
}

static void
subscribers_that_go_are_epipe_and_disturb_nobody(void)
{
        struct weir_http_server_config config = streaming();
        static struct http_client clients[SUBSCRIBERS];

        begin_real_with(&config, subscribe);
        for (int k = 0; k < SUBSCRIBERS; k++) {
                http_open(&clients[k], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[k], GET("/")));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == SUBSCRIBERS);
        for (int k = 0; k < SUBSCRIBERS; k += 2) {
                (k % 4 ? http_close : http_abandon)(&clients[k]);
        }
        broadcast("a\n");
        unsubscribe_all(NULL);
        for (int k = 1; k < SUBSCRIBERS; k += 2) {
                CU_ASSERT_TRUE(http_receive(&clients[k], &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.size, 6 + 2 * (size_t)MESSAGES);
                http_close(&clients[k]);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), SUBSCRIBERS);
}

static void
a_reference_alone_delays_the_reply(void)
{
        begin(keep_exchange);
        ask(GET("/"));
        weir_task *second = weir_http_ref(at.exchange);
        CU_ASSERT_PTR_EQUAL(second, at.exchange);
        let_go();
        run_ready();
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        weir_http_unref(second);
        assert_receives(200, "");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "0");
        end();
}

/* -- ends from outside -- */

struct stopper {
        struct weir_test_thread thread;
        atomic_bool done;
        int result;
};

static void
stop_at_once(void *argument)
{
        struct stopper *stopper = argument;

        stopper->result = weir_http_server_stop(at.server, 0);
        atomic_store(&stopper->done, true);
}

static void
stop_cuts_what_is_written_and_does_not_wait_for_references(void)
{
        struct weir_http_server_config config = streaming();
        char *bytes = pattern(LARGE);
        struct stopper stopper = {.result = -1};
        struct piece one, other;

        begin_real_with(&config, keep_exchange);
        open_narrow();
        ask(GET("/"));
        write_begin(&one, bytes, LARGE);
        write_begin(&other, "end", 3);
        weir_test_thread_start(&stopper.thread, stop_at_once, &stopper);
        CU_ASSERT_EQUAL(ended(&one), -EPIPE);
        CU_ASSERT_EQUAL(ended(&other), -EPIPE);
        CU_ASSERT_EQUAL(write_text("late"), -EPIPE);
        weir_test_thread_join(&stopper.thread);
        CU_ASSERT_EQUAL(stopper.result, 1);
        CU_ASSERT_EQUAL(write_text("later"), -EPIPE);
        let_go();
        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
        end();
        free(bytes);
}

static void
shutdown_ends_what_is_written_and_does_not_wait_for_references(void)
{
        struct weir_http_server_config config = streaming();
        char *bytes = pattern(LARGE);
        struct weir_test_thread thread;
        struct piece one;

        for (int i = 0; i < 4; i++) {
                begin_real_with(&config, keep_exchange);
                open_narrow();
                ask(GET("/"));
                if (i % 2) {
                        write_begin(&one, bytes, LARGE);
                } else {
                        CU_ASSERT_EQUAL(write_text("a"), 0);
                }
                weir_test_shutdown_begin(&thread);
                CU_ASSERT_EQUAL(weir_task_start(weir_http_write_new(at.exchange, "late", 4, NULL, NULL)), -ESHUTDOWN);
                if (i % 2) {
                        CU_ASSERT_EQUAL(ended(&one), -ESHUTDOWN);
                }
                weir_test_thread_join(&thread);
                http_close(&at.client);
                weir_http_server_free(at.server);
                let_go();
        }
        free(bytes);
}

/* -- upgrades -- */

static void
receive_upgrade(void)
{
        assert_receives(101, NULL);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Upgrade"), "echo");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "Upgrade");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Connection"), 1);
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Transfer-Encoding"));
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Length"));
}

/* Compares the raw bytes that the client gets with all that it expects. */
static void
assert_raw(const char *expected)
{
        size_t size = strlen(expected);

        while (at.client.size < size && !at.client.ended) {
                http_read_some(&at.client);
        }
        CU_ASSERT(at.client.size == size && memcmp(at.client.input, expected, size) == 0);
        at.client.size = 0;
}

static void
after_an_upgrade_bytes_go_both_ways_as_they_are(void)
{
        begin(keep_exchange);
        ask(UPGRADE "early");
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_header(at.exchange, "X", "y"), 0);
        CU_ASSERT_EQUAL(write_text("hello"), 0);
        receive_upgrade();
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X"), "y");
        assert_raw("hello");
        assert_reads("early"); /* it came with the head */
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/no-request")));
        assert_reads(GET("/no-request"));
        weir_test_pass(10 * LIMIT); /* no limit of a body */
        struct piece piece;
        read_begin(&piece);
        weir_test_pass(10 * LIMIT);
        CU_ASSERT_FALSE(is_ended(&piece));
        CU_ASSERT_TRUE(http_send_text(&at.client, "x"));
        CU_ASSERT_EQUAL(ended(&piece), 0);
        piece_done(&piece);
        CU_ASSERT_TRUE(http_send_text(&at.client, "last"));
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        assert_reads("last");
        assert_reads_end();
        assert_reads_end();
        CU_ASSERT_EQUAL(write_text("bye"), 0); /* the other way is still open */
        let_go();
        assert_raw("bye");
        assert_is_over();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

static void
after_a_head_that_upgrades_bytes_go_both_ways_too(void)
{
        begin(keep_exchange);
        ask("HEAD" UPGRADE_FIELDS "early");
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), 0);
        CU_ASSERT_EQUAL(write_text("hello"), 0);
        receive_upgrade();
        assert_raw("hello");
        assert_reads("early");
        CU_ASSERT_EQUAL(write_text("bye"), 0);
        let_go();
        assert_raw("bye");
        assert_is_over();
        end();
}

static void
a_pending_read_hears_of_the_end_after_an_upgrade(void)
{
        static void (*const ways[])(struct http_client *) = {http_abandon, http_close};

        begin(keep_exchange);
        for (int i = 0; i < 3; i++) {
                struct piece piece;

                ask(UPGRADE);
                CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), 0);
                CU_ASSERT_EQUAL(write_text(""), 0);
                read_begin(&piece);
                CU_ASSERT_TRUE(waits(&piece));
                receive_upgrade();
                if (i == 2) {
                        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
                } else {
                        ways[i](&at.client);
                }
                CU_ASSERT_EQUAL(ended(&piece), i == 0 ? -ECONNRESET : 0);
                CU_ASSERT_EQUAL(piece.size, 0);
                piece_done(&piece);
                let_go();
                if (i == 2) {
                        assert_is_over();
                        http_close(&at.client);
                }
                WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
                http_open(&at.client, at.port);
        }
        end();
}

static void
an_upgrade_without_a_write_is_101_and_the_end(void)
{
        begin(keep_exchange);
        ask(UPGRADE);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_append(at.exchange, "raw", 3), 0);
        let_go();
        receive_upgrade();
        assert_raw("raw");
        assert_is_over();
        end();
}

static void
an_upgrade_that_was_not_asked_for_is_einval(void)
{
        static const char *const requests[] = {
                GET("/"),
                "GET / HTTP/1.1\r\n" HOST "Upgrade: echo\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echoes, an-echo\r\n\r\n",
                "GET / HTTP/1.0\r\n" HOST "Connection: upgrade, keep-alive\r\nUpgrade: echo\r\n\r\n",
                POST "Connection: upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n\r\na",
                POST "Connection: upgrade\r\nUpgrade: echo\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        };

        begin(keep_exchange);
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
                ask(requests[i]);
                CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo"), -EINVAL);
                CU_ASSERT_EQUAL(collect_all(0), 0);
                let_go();
                assert_receives(200, "");
        }
        ask(UPGRADE);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, ""), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "echo\r\nX: y"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(at.exchange, "ECHO"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 426, "changed my mind\n"), 0); /* which takes it back */
        let_go();
        assert_receives(426, "changed my mind\n");
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        end();
}

static void
an_upgraded_echo_of_10_megabytes(void)
{
        struct weir_http_server_config config = streaming();
        struct sender sender = {.head = UPGRADE, .size = 10 * MIB, .step = 10 * MIB};
        char frame[32];

        sender.body = pattern(sender.size);
        begin_real_with(&config, echo);
        weir_test_thread_start(&sender.thread, send_all, &sender);
        receive_upgrade();
        snprintf(frame, sizeof frame, "%zx\r\n", sender.size); /* what it sends looks like a chunk and is none */
        size_t before = strlen(frame), all = before + sender.size + 2 + sizeof LAST_CHUNK - 1;
        while (at.client.size < all && !at.client.ended) {
                http_read_some(&at.client);
        }
        weir_test_thread_join(&sender.thread);
        CU_ASSERT_EQUAL(at.client.size, all);
        CU_ASSERT(at.client.size == all && memcmp(at.client.input + before, sender.body, sender.size) == 0);
        at.client.size = 0;
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        assert_is_over();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        free((char *)sender.body);
}

/* -- all at once -- */

#define SLOTS 8

static _Atomic(weir_task *) slots[SLOTS];
static _Atomic(weir_series *) slot_series[SLOTS];
static atomic_bool storm_is_over;

static void
storm_handler(weir_task *exchange, void *context)
{
        unsigned slot = (unsigned)atomic_load(&at.handled) % SLOTS;

        weir_http_unref(atomic_exchange(&slots[slot], weir_http_ref(exchange)));
        weir_series_unref(atomic_exchange(&slot_series[slot], weir_series_ref(weir_series_of(exchange))));
        echo(exchange, context);
}

/* Reads, writes and cancels what is another flow's. */
static void
meddle(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};

        while (!atomic_load(&storm_is_over)) {
                unsigned slot = (unsigned)weir_test_random_below(&random, SLOTS);
                weir_task *exchange = atomic_exchange(&slots[slot], NULL);
                weir_series *series = weir_series_new(NULL, NULL), *own = weir_series_ref(series);

                switch (exchange ? weir_test_random_below(&random, 5) : 5) {
                case 0: weir_series_push(series, weir_http_write_new(exchange, "meddled", 7, NULL, NULL)); break;
                case 1: weir_series_push(series, weir_http_read_new(exchange, NULL, NULL)); break;
                case 2: weir_series_push(series, weir_http_collect_new(exchange, 0, NULL, NULL)); break;
                case 3: weir_series_push(series, weir_http_write_new(exchange, NULL, 0, NULL, NULL)); break;
                default: weir_series_push(series, weir_timer_new(WEIR_USEC(50), NULL, NULL)); break;
                }
                weir_series_start(series);
                weir_test_spin((int64_t)weir_test_random_below(&random, 20000));
                weir_series_cancel(own);
                weir_series_unref(own);
                weir_http_unref(exchange);
                if (weir_test_random_below(&random, 4) == 0) {
                        weir_series *theirs = atomic_exchange(&slot_series[slot], NULL);

                        weir_series_cancel(theirs);
                        weir_series_unref(theirs);
                }
        }
}

static void
come_and_go(void *argument)
{
        enum { ROUNDS = WEIR_TEST_SANITIZED ? 100 : 400 };
        static const char *const parts[] = {CHUNKED,
                                            "3\r\nabc\r\n",
                                            LAST_CHUNK,
                                            GET("/"),
                                            UPGRADE,
                                            "zz",
                                            POST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
                                            "abcde"};
        struct weir_test_random random = {weir_test_seed() + 7 * (uintptr_t)argument};
        char sink[4096];

        for (int i = 0; i < ROUNDS; i++) {
                struct http_client client;

                http_open(&client, at.port);
                for (uint64_t steps = 1 + weir_test_random_below(&random, 8); steps > 0; steps--) {
                        const char *part = parts[weir_test_random_below(&random, sizeof parts / sizeof *parts)];

                        (void)!send(client.fd, part, strlen(part), MSG_NOSIGNAL | MSG_DONTWAIT);
                        (void)!recv(client.fd, sink, sizeof sink, MSG_DONTWAIT);
                        weir_test_spin((int64_t)weir_test_random_below(&random, 50000));
                }
                switch (weir_test_random_below(&random, 3)) {
                case 0: http_abandon(&client); break;
                case 1:
                        shutdown(client.fd, SHUT_WR);
                        weir_test_spin(50000);
                        http_close(&client);
                        break;
                default: http_close(&client);
                }
        }
}

static void
stop_soon(void *argument)
{
        struct stopper *stopper = argument;

        stopper->result = weir_http_server_stop(at.server, WEIR_SEC(10));
        atomic_store(&stopper->done, true);
}

/* Requests may still be on their way, and their exchanges into the slots: the stop ends with the last reference. */
static void
stop_and_clear_slots(void)
{
        struct stopper stopper = {.result = -1};

        weir_test_thread_start(&stopper.thread, stop_soon, &stopper);
        do {
                for (int k = 0; k < SLOTS; k++) {
                        weir_http_unref(atomic_exchange(&slots[k], NULL));
                        weir_series_unref(atomic_exchange(&slot_series[k], NULL));
                }
                weir_test_sleep(100000);
        } while (!atomic_load(&stopper.done));
        weir_test_thread_join(&stopper.thread);
        CU_ASSERT_EQUAL(stopper.result, 0);
}

static void
whatever_happens_at_once_nothing_is_left_behind(void)
{
        for (int i = 0; i < 2; i++) {
                struct weir_http_server_config config = streaming();
                struct weir_test_thread clients[3], meddlers[2];

                config.ignore_departure = i;
                config.body_timeout = config.write_timeout = WEIR_MSEC(20);
                atomic_store(&storm_is_over, false);
                begin_real_with(&config, storm_handler);
                for (uintptr_t k = 0; k < 3; k++) {
                        weir_test_thread_start(&clients[k], come_and_go, (void *)(k + 1));
                }
                for (uintptr_t k = 0; k < 2; k++) {
                        weir_test_thread_start(&meddlers[k], meddle, (void *)(k + 1));
                }
                for (int k = 0; k < 3; k++) {
                        weir_test_thread_join(&clients[k]);
                }
                atomic_store(&storm_is_over, true);
                for (int k = 0; k < 2; k++) {
                        weir_test_thread_join(&meddlers[k]);
                }
                stop_and_clear_slots();
                end();
                CU_ASSERT(atomic_load(&at.handled) > 0);
                CU_ASSERT_EQUAL(atomic_load(&at.freed), atomic_load(&at.handled));
        }
}

static void
a_write_after_a_wrong_status_is_refused_and_the_reply_is_a_500(void)
{
        begin(keep_exchange);
        ask(GET("/"));
        CU_ASSERT_EQUAL(weir_http_reply_status(at.exchange, 999), -EINVAL);
        CU_ASSERT_EQUAL(write_text("must not go out"), -EINVAL);
        let_go();
        assert_receives(500, "500 Internal Server Error\n");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(written_bytes_go_out_in_chunks_at_once),
                WEIR_TEST(chunks_are_on_the_wire_as_they_should_be),
                WEIR_TEST(a_write_of_nothing_sends_the_head_at_once),
                WEIR_TEST(appended_bytes_come_first),
                WEIR_TEST(once_it_has_begun_the_reply_is_changed_no_more),
                WEIR_TEST(to_http_1_0_it_goes_until_the_connection_ends),
                WEIR_TEST(with_a_length_said_so_many_bytes_go_out),
                WEIR_TEST(less_than_was_said_is_cut_so_that_the_client_sees_it),
                WEIR_TEST(more_appended_than_was_said_is_emsgsize),
                WEIR_TEST(no_body_goes_out_where_there_is_none),
                WEIR_TEST(requests_behind_a_streamed_reply_wait_for_its_end),
                WEIR_TEST(a_series_writes_between_other_tasks),
                WEIR_TEST(a_write_ends_when_the_client_has_made_room),
                WEIR_TEST(a_client_that_does_not_read_is_epipe_at_the_limit_of_writing),
                WEIR_TEST(a_client_that_goes_is_epipe),
                WEIR_TEST(a_write_that_waits_behind_another_is_cancelled),
                WEIR_TEST(a_write_that_is_half_out_is_cancelled_with_its_connection),
                WEIR_TEST(a_series_is_cancelled_while_it_writes),
                WEIR_TEST(an_echo_of_10_megabytes_to_a_slow_reader_takes_little_memory),
                WEIR_TEST(a_client_that_sends_for_ever_and_does_not_read_the_echo_is_not_read_any_more),
                WEIR_TEST(two_threads_broadcast_to_100_whose_series_have_ended),
                WEIR_TEST(subscribers_that_go_are_epipe_and_disturb_nobody),
                WEIR_TEST(a_reference_alone_delays_the_reply),
                WEIR_TEST(stop_cuts_what_is_written_and_does_not_wait_for_references),
                WEIR_TEST(shutdown_ends_what_is_written_and_does_not_wait_for_references),
                WEIR_TEST(after_an_upgrade_bytes_go_both_ways_as_they_are),
                WEIR_TEST(after_a_head_that_upgrades_bytes_go_both_ways_too),
                WEIR_TEST(a_pending_read_hears_of_the_end_after_an_upgrade),
                WEIR_TEST(an_upgrade_without_a_write_is_101_and_the_end),
                WEIR_TEST(an_upgrade_that_was_not_asked_for_is_einval),
                WEIR_TEST(an_upgraded_echo_of_10_megabytes),
                WEIR_TEST(whatever_happens_at_once_nothing_is_left_behind),
                WEIR_TEST(a_write_after_a_wrong_status_is_refused_and_the_reply_is_a_500),
        };

        return weir_test_main("server_stream", tests, sizeof tests / sizeof *tests);
}
