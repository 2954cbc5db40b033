/* test/client_call_test.c: calls, whose bodies stream, on the virtual clock: limits, ends, and programs that leave. */
#include <weir/http_call.h>
#include <weir/upstream.h>

#include "test/client_members.h"

#define LIMIT   WEIR_SEC(7)
#define HEAD_OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED HEAD_OK "Transfer-Encoding: chunked\r\n\r\n"

/* What the callback of a task of a call saw. */
struct heard {
        int calls, status, is_last;
        enum weir_http_stage stage;
        weir_nsec at;
        size_t size;
        char data[64], problem[256];
};

static weir_http_call *call;

static void
note(weir_task *task, void *context)
{
        struct heard *heard = context;
        const char *data = weir_http_call_data(task, &heard->size), *problem = weir_http_call_problem(call);

        heard->status = weir_task_status(task);
        heard->is_last = weir_http_call_is_last(task);
        heard->stage = weir_http_call_stage(call);
        heard->at = weir_now();
        snprintf(heard->data, sizeof heard->data, "%s", data ? data : "");
        snprintf(heard->problem, sizeof heard->problem, "%s", problem ? problem : "");
        heard->calls++;
}

#define ENDS(heard, status_)                                \
        do {                                                \
                CU_ASSERT_EQUAL((heard).calls, 1);          \
                CU_ASSERT_EQUAL((heard).status, (status_)); \
        } while (0)

/* Exactly `after` from `began`. */
#define IS_LATE(heard, began, after, stage_, words)             \
        do {                                                    \
                ENDS(heard, -ETIMEDOUT);                        \
                CU_ASSERT_EQUAL((heard).at, (began) + (after)); \
                CU_ASSERT_EQUAL((heard).stage, (stage_));       \
                HAS((heard).problem, words);                    \
        } while (0)

static void
call_new(const char *method, const char *path)
{
        call = weir_http_call_new(client, method, url_of(path));
        CU_ASSERT_PTR_NOT_NULL_FATAL(call);
}

static void
drop(void)
{
        weir_http_call_unref(call);
        call = NULL;
        settle();
}

static void
head(struct heard *heard)
{
        start(weir_http_call_head_new(call, note, heard));
        settle();
}

static void
read_piece(struct heard *heard)
{
        start(weir_http_call_read_new(call, note, heard));
        settle();
}

static void
write_piece(const void *data, size_t size, struct heard *heard)
{
        start(weir_http_call_write_new(call, data, size, note, heard));
        settle();
}

static void
send_to(const char *text)
{
        CU_ASSERT_TRUE(http_peer_send(&peer, text));
        settle();
}

/* A call whose head has come. */
static void
get_head(const char *reply)
{
        struct heard heard = {0};

        call_new("GET", "/");
        head(&heard);
        (void)accept_request();
        send_to(reply);
        ENDS(heard, 0);
}

/* -- limits -- */

static void
the_first_byte_of_a_call_is_late(void)
{
        struct heard heard = {0};

        begin(NULL);
        call_new("GET", "/");
        CU_ASSERT_EQUAL(weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_FIRST_BYTE, LIMIT), 0);
        weir_nsec began = weir_now();
        head(&heard);
        (void)accept_request();
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(heard.calls, 0);
        weir_test_pass(1);
        IS_LATE(heard, began, LIMIT, WEIR_HTTP_WAITING, "head of the response");
        drop();
        end();
}

/* While the program does not read no limit runs, and while it writes nothing, neither. */
static void
only_the_server_is_late(void)
{
        struct heard pieces[3] = {{0}}, written = {0}, finished = {0}, answered = {0};

        begin(NULL);
        call_new("POST", "/");
        CU_ASSERT_EQUAL(weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_FIRST_BYTE, LIMIT), 0);
        CU_ASSERT_EQUAL(weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_BETWEEN, LIMIT), 0);
        write_piece("word", 4, &written);
        (void)http_peer_accept(&peer, listener, NULL);
        (void)http_peer_head(&peer);
        weir_test_pass(20 * LIMIT);
        ENDS(written, 0);
        start(weir_http_call_finish_new(call, note, &finished));
        settle();
        ENDS(finished, 0);
        weir_test_pass(LIMIT - 1);
        send_to(HEAD_OK "Content-Length: 100\r\n\r\n1");
        head(&answered);
        ENDS(answered, 0);
        weir_test_pass(20 * LIMIT);
        read_piece(&pieces[0]);
        ENDS(pieces[0], 0);
        weir_test_pass(20 * LIMIT);
        weir_nsec began = weir_now();
        read_piece(&pieces[1]);
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(pieces[1].calls, 0);
        weir_test_pass(1);
        IS_LATE(pieces[1], began, LIMIT, WEIR_HTTP_RECEIVING, "body of the response");
        read_piece(&pieces[2]);
        ENDS(pieces[2], -ETIMEDOUT);
        drop();
        end();
}

static void
a_piece_that_the_server_does_not_take_is_late(void)
{
        static char large[32 << 20];
        struct heard heard = {0};

        begin(NULL);
        call_new("POST", "/");
        CU_ASSERT_EQUAL(weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_SEND, LIMIT), 0);
        weir_nsec began = weir_now();
        write_piece(large, sizeof large, &heard);
        (void)http_peer_accept(&peer, listener, NULL);
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(heard.calls, 0);
        weir_test_pass(1);
        IS_LATE(heard, began, LIMIT, WEIR_HTTP_SENDING, "nothing more of the request");
        drop();
        end();
}

/* The whole counts from the first task on, whichever task waits. */
static void
the_whole_of_a_call_is_late_in_each_stage(void)
{
        for (int i = 0; i < 4; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen other = {0};
                struct heard heard = {0}, read = {0};

                config.connections = 1;
                begin(&config);
                if (i == 0) {
                        get("/other", &other);
                        (void)accept_request();
                }
                call_new(i == 1 ? "POST" : "GET", "/");
                CU_ASSERT_EQUAL(weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_WHOLE, LIMIT), 0);
                weir_test_pass(WEIR_SEC(3)); /* nothing has begun */
                weir_nsec began = weir_now();
                if (i == 1) {
                        write_piece("w", 1, &read);
                        ENDS(read, 0);
                        read.calls = 0;
                }
                head(&heard);
                if (i > 0) {
                        (void)http_peer_accept(&peer, listener, NULL);
                        (void)http_peer_head(&peer);
                }
                if (i == 3) {
                        send_to(HEAD_OK "Content-Length: 100\r\n\r\n");
                        read_piece(&read);
                }
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_EQUAL(heard.calls, i == 3);
                CU_ASSERT_EQUAL(read.calls, 0);
                weir_test_pass(1);
                if (i == 3)
                        IS_LATE(read, began, LIMIT, WEIR_HTTP_RECEIVING, "late");
                else
                        IS_LATE(heard, began, LIMIT,
                                i == 0   ? WEIR_HTTP_QUEUED
                                : i == 1 ? WEIR_HTTP_SENDING
                                         : WEIR_HTTP_WAITING,
                                "late");
                drop();
                CU_ASSERT_EQUAL(stats().waiting, 0);
                CU_ASSERT_EQUAL(stats().connections, i == 0);
                if (i == 0) {
                        send_to(OK_WORD);
                        SEES(other, 0, 200, "word");
                }
                end();
        }
}

/* -- tasks -- */

/* A task that is cancelled leaves the call as it is. */
static void
a_cancelled_read_loses_nothing(void)
{
        struct heard heard = {0}, next = {0}, last = {0};

        begin(NULL);
        get_head(CHUNKED);
        weir_series *series = start_in_series(weir_http_call_read_new(call, note, &heard));
        settle();
        weir_series_cancel(series);
        weir_series_unref(series);
        settle();
        ENDS(heard, -ECANCELED);
        send_to("4\r\nword\r\n");
        read_piece(&next);
        ENDS(next, 0);
        CU_ASSERT_STRING_EQUAL(next.data, "word");
        CU_ASSERT_EQUAL(next.is_last, 0);
        read_piece(&last);
        send_to("0\r\n\r\n");
        ENDS(last, 0);
        CU_ASSERT_EQUAL(last.size, 0);
        CU_ASSERT_EQUAL(last.is_last, 1);
        CU_ASSERT_EQUAL(stats().idle, 1);
        drop();
        end();
}

static void
one_reads_at_a_time(void)
{
        struct heard first = {0}, second = {0};

        begin(NULL);
        get_head(CHUNKED);
        read_piece(&first);
        read_piece(&second);
        ENDS(second, -EBUSY);
        send_to("4\r\nword\r\n0\r\n\r\n");
        ENDS(first, 0);
        CU_ASSERT_EQUAL(first.is_last, 1);
        drop();
        end();
}

static void
a_body_is_as_long_as_it_was_said(void)
{
        struct heard first = {0}, second = {0}, answered = {0};

        begin(NULL);
        call_new("POST", "/");
        CU_ASSERT_EQUAL(weir_http_call_set_length(call, 6), 0);
        write_piece("1234", 4, &first);
        (void)http_peer_accept(&peer, listener, NULL);
        write_piece("567", 3, &second);
        ENDS(first, 0);
        ENDS(second, -EMSGSIZE);
        head(&answered);
        memset(&second, 0, sizeof second);
        start(weir_http_call_finish_new(call, note, &second));
        settle();
        ENDS(second, -ENODATA);
        ENDS(answered, -ECONNABORTED);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>"); /* and not an end, which could be one of the body */
        CU_ASSERT_EQUAL(stats().connections, 0);
        drop();
        end();
}

static void
an_early_answer_ends_the_writing(void)
{
        struct heard first = {0}, second = {0}, answered = {0}, read = {0};

        begin(NULL);
        call_new("POST", "/");
        write_piece("1234", 4, &first);
        (void)http_peer_accept(&peer, listener, NULL);
        (void)http_peer_head(&peer);
        send_to("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch");
        head(&answered);
        ENDS(answered, 0);
        CU_ASSERT_EQUAL(weir_http_call_status(call), 413);
        read_piece(&read);
        ENDS(read, 0);
        CU_ASSERT_STRING_EQUAL(read.data, "much");
        write_piece("5678", 4, &second);
        ENDS(second, -EPIPE);
        CU_ASSERT_EQUAL(stats().connections, 0);
        drop();
        end();
}

static void
a_break_ends_all_tasks(void)
{
        struct heard ends[3] = {{0}}, after = {0};

        begin(NULL);
        get_head(CHUNKED);
        read_piece(&ends[0]);
        weir_http_call_break(call);
        weir_http_call_break(call);
        settle();
        ENDS(ends[0], -ECONNABORTED);
        head(&ends[1]);
        ENDS(ends[1], 0); /* it has come */
        read_piece(&after);
        ENDS(after, -ECONNABORTED);
        CU_ASSERT_EQUAL(stats().connections, 0);
        drop();
        (void)http_peer_ends(&peer);
        call_new("GET", "/");
        weir_http_call_break(call); /* before it has begun */
        settle();
        head(&ends[2]);
        ENDS(ends[2], -ECONNABORTED);
        drop();
        end();
}

/* -- other protocols -- */

static void
see_bytes(weir_task *read, void *context)
{
        struct heard *heard = context;
        const char *data = weir_stream_data(read, &heard->size);

        heard->status = weir_task_status(read);
        snprintf(heard->data, sizeof heard->data, "%.*s", (int)heard->size, data);
        heard->calls++;
}

/* The head has been asked for; the server switches, all at once or byte by byte, and says something. */
static void
switch_protocol(bool slowly)
{
        static const char reply[] = "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello";
        struct heard heard = {0};

        call_new("GET", "/");
        CU_ASSERT_EQUAL(weir_http_call_set_upgrade(call, "x"), 0);
        head(&heard);
        HAS(accept_request(), "Upgrade: x");
        if (slowly)
                send_slowly(reply);
        else
                send_to(reply);
        ENDS(heard, 0);
        CU_ASSERT_EQUAL(weir_http_call_status(call), 101);
        CU_ASSERT_EQUAL(stats().connections, 0);
}

static void
bytes_behind_a_101_are_those_of_the_stream(void)
{
        for (int i = 0; i < 2; i++) {
                struct heard heard = {0};

                begin(NULL);
                switch_protocol(i);
                weir_stream *stream = weir_http_call_take_stream(call);
                CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
                CU_ASSERT_PTR_NULL(weir_http_call_take_stream(call));
                drop();
                start(weir_stream_read_new(stream, 5, 5, see_bytes, &heard));
                settle();
                ENDS(heard, 0);
                CU_ASSERT_STRING_EQUAL(heard.data, "hello");
                weir_test_pass(WEIR_SEC(1000)); /* no limit of HTTP holds for it */
                http_peer_finish(&peer);
                memset(&heard, 0, sizeof heard);
                start(weir_stream_read_new(stream, 1, 5, see_bytes, &heard));
                settle();
                ENDS(heard, -EPIPE);
                CU_ASSERT_EQUAL(heard.size, 0);
                weir_stream_unref(stream);
                settle();
                end();
        }
}

static void
a_stream_that_nobody_takes_is_closed(void)
{
        begin(NULL);
        switch_protocol(false);
        drop();
        CU_ASSERT(http_peer_ends(&peer)[0] == '<');
        end();
}

/* -- programs that leave -- */

static void
a_short_rest_is_thrown_away(void)
{
        static char rest[70001];

        memset(rest, 'x', sizeof rest - 1);
        for (int i = 0; i < 2; i++) {
                struct heard heard = {0};

                begin(NULL);
                if (i) { /* of a long body what is left is short */
                        get_head(HEAD_OK "Content-Length: 70004\r\n\r\n");
                        for (size_t got = 0; got < 70000; got += heard.size) {
                                memset(&heard, 0, sizeof heard);
                                read_piece(&heard);
                                if (!heard.calls)
                                        send_to(rest);
                                ENDS(heard, 0);
                        }
                } else {
                        get_head(CHUNKED "4\r\nword\r\n");
                }
                drop();
                CU_ASSERT_EQUAL(stats().connections, 1);
                CU_ASSERT_EQUAL(stats().idle, 0);
                weir_test_pass(WEIR_MSEC(500));
                send_to(i ? "word" : "4\r\nword\r\n0\r\n\r\n");
                CU_ASSERT_EQUAL(stats().idle, 1);
                weir_test_pass(WEIR_SEC(10));
                CU_ASSERT_EQUAL(stats().idle, 1);
                end();
        }
}

/* Nor is a slow one: events come for ever, a few bytes at a time. */
static void
a_long_rest_is_not_waited_for(void)
{
        static const char *const heads[] = {HEAD_OK "Content-Length: 1000000\r\n\r\n", HEAD_OK "\r\n", CHUNKED,
                                            HEAD_OK "Connection: close\r\nContent-Length: 100\r\n\r\n"};

        for (int i = 0; i < 4; i++) {
                begin(NULL);
                get_head(heads[i]);
                drop();
                if (i == 2) {
                        for (int j = 0; j < 9; j++) {
                                weir_test_pass(WEIR_MSEC(100));
                                send_to("6\r\nevent\n\r\n");
                        }
                        CU_ASSERT_EQUAL(stats().connections, 1);
                        weir_test_pass(WEIR_MSEC(100));
                }
                CU_ASSERT_EQUAL(stats().connections, 0);
                CU_ASSERT(http_peer_ends(&peer)[0] == '<');
                end();
        }
}

static void
begin_member(struct heard *heard)
{
        call = weir_http_call_new(client, "GET", "http://backend/");
        CU_ASSERT_PTR_NOT_NULL_FATAL(call);
        head(heard);
        CU_ASSERT_EQUAL(take_request(), 0);
}

/* It would be ejected, although it has done nothing wrong. */
static void
a_program_that_leaves_says_nothing_of_the_member(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        settings.failures_in_row = 1;
        begin_members(NULL, &settings, 1);
        for (int i = 0; i < 4; i++) {
                struct heard heard = {0};

                begin_member(&heard);
                if (i > 1) {
                        reply(0, i == 2 ? CHUNKED : HEAD_OK "Content-Length: 1000000\r\n\r\n");
                        ENDS(heard, 0);
                }
                if (i % 2) {
                        weir_http_call_break(call);
                        settle();
                        ENDS(heard, i > 1 ? 0 : -ECONNABORTED);
                }
                drop();
                weir_test_pass(WEIR_SEC(2));
                if (i == 0) { /* a task that waits uses the call */
                        reply(0, OK_WORD);
                        ENDS(heard, 0);
                }
                CU_ASSERT_EQUAL(info_of(0).in_flight, 0);
                CU_ASSERT_EQUAL(info_of(0).failures, 0);
                CU_ASSERT_EQUAL(info_of(0).state, WEIR_MEMBER_CLOSED);
                weir_client_close_idle(client);
                settle();
        }
        struct heard heard = {0};
        begin_member(&heard);
        http_peer_close(&peers[0]);
        settle();
        ENDS(heard, -ECONNRESET);
        CU_ASSERT_EQUAL(info_of(0).failures, 1);
        drop();
        end_members();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_first_byte_of_a_call_is_late),
                WEIR_TEST(only_the_server_is_late),
                WEIR_TEST(a_piece_that_the_server_does_not_take_is_late),
                WEIR_TEST(the_whole_of_a_call_is_late_in_each_stage),
                WEIR_TEST(a_cancelled_read_loses_nothing),
                WEIR_TEST(one_reads_at_a_time),
                WEIR_TEST(a_body_is_as_long_as_it_was_said),
                WEIR_TEST(an_early_answer_ends_the_writing),
                WEIR_TEST(a_break_ends_all_tasks),
                WEIR_TEST(bytes_behind_a_101_are_those_of_the_stream),
                WEIR_TEST(a_stream_that_nobody_takes_is_closed),
                WEIR_TEST(a_short_rest_is_thrown_away),
                WEIR_TEST(a_long_rest_is_not_waited_for),
                WEIR_TEST(a_program_that_leaves_says_nothing_of_the_member),
        };

        return weir_test_main("client_call", tests, sizeof tests / sizeof *tests);
}
