/* test/server_body_test.c: bodies of requests: collected before the handler, or read by tasks, piece by piece or as a whole.
 *
 * Time passes in steps, for the tests are on the virtual clock with one poller; the last ones have several pollers. */
#include <stdio.h>

#include <weir/http_fields.h>

#include "test/body_fixture.h"

#define HEAD              "HEAD / HTTP/1.1\r\n" HOST
#define CHUNKS            "Transfer-Encoding: chunked\r\n\r\n"
#define FORM              POST "Content-Type: application/x-www-form-urlencoded\r\n"
#define EXPECTING(fields) POST "Expect: 100-continue\r\n" fields "\r\n"

/* -- bodies that are collected before the handler -- */

static void
echo_body(weir_task *exchange, void *context)
{
        size_t size;
        const char *body = weir_http_request_body(exchange, &size);

        weir_task_on_free(exchange, count_free);
        (void)context;
        CU_ASSERT_EQUAL(body[size], '\0');
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, body, size), 0);
        atomic_fetch_add(&at.handled, 1);
}

/* In chunks of `step` bytes, the last one perhaps smaller. */
static void
send_chunks(const char *body, size_t size, size_t step)
{
        char line[32];

        for (size_t sent = 0; sent < size; sent += step) {
                size_t part = size - sent < step ? size - sent : step;

                snprintf(line, sizeof line, "%zx\r\n", part);
                (void)(http_send_text(&at.client, line) && http_send(&at.client, body + sent, part) &&
                       http_send_text(&at.client, "\r\n"));
        }
        (void)http_send_text(&at.client, LAST_CHUNK);
}

static void
a_chunked_body_of_max_body_is_collected_and_a_byte_more_is_413(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        static const size_t steps[] = {1, 7, 999, 1000, 1001};
        char *body = pattern(1001);

        config.max_body = 1000;
        begin_with(&config, echo_body);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, CHUNKED));
                send_chunks(body, 1000, steps[i]);
                assert_receives(200, NULL);
                CU_ASSERT(at.reply.size == 1000 && memcmp(at.reply.body, body, 1000) == 0);
        }
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, CHUNKED));
                send_chunks(body, 1001, steps[i]);
                assert_receives(413, NULL);
                assert_is_over();
                open_again();
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 5);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 5);
        free(body);
}

static void
a_chunked_body_of_10_megabytes_is_collected_where_that_is_allowed(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        char *body = pattern(10 * MIB);

        config.max_body = SIZE_MAX;
        begin_with(&config, echo_body);
        CU_ASSERT_TRUE(http_send_text(&at.client, CHUNKED));
        send_chunks(body, 10 * MIB, 100000);
        assert_receives(200, NULL);
        CU_ASSERT_EQUAL(at.reply.size, 10 * MIB);
        CU_ASSERT(at.reply.size == 10 * MIB && memcmp(at.reply.body, body, 10 * MIB) == 0);
        end();
        free(body);
}

static void
a_chunked_body_that_trickles_is_408_at_its_limit(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.body_timeout = LIMIT;
        begin_with(&config, echo_body);
        CU_ASSERT_TRUE(http_send_text(&at.client, CHUNKED));
        run_ready();
        for (int i = 0; i < 19; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, "1\r\na\r\n"));
                weir_test_pass(WEIR_SEC(1));
        }
        weir_test_pass(WEIR_SEC(1) - 1);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        weir_test_pass(1);
        assert_receives(408, NULL);
        assert_is_over();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

/* The head alone: a body would be taken for the next reply. */
static void
assert_refuses_head(int status)
{
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, true));
        CU_ASSERT_EQUAL(at.reply.status, status);
        CU_ASSERT_PTR_NOT_NULL(http_field(&at.reply, "Content-Length"));
        assert_is_over();
        open_again();
}

static void
a_request_of_head_that_fails_is_answered_without_a_body(void)
{
        static const struct {
                const char *request;
                int status;
        } cases[] = {
                {HEAD "Content-Length: 3\r\n\r\nab", 408},
                {HEAD CHUNKS, 408},
                {HEAD CHUNKS "6\r\nabcdef\r\n" LAST_CHUNK, 413},
                {HEAD CHUNKS "zz\r\n", 400},
                {HEAD "Content-Length: 6\r\n\r\n", 413},
                {HEAD "X:", 408},
                {"\r\nHEAD ", 408},
        };
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.head_timeout = config.body_timeout = LIMIT;
        config.max_body = 5;
        begin_with(&config, echo_body);
        for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
                const char *request = cases[i / 2].request;
                size_t size = strlen(request);

                CU_ASSERT_TRUE(http_send(&at.client, request, i % 2 ? size - 1 : size)); /* the last byte comes later */
                run_ready();
                CU_ASSERT_TRUE(i % 2 ? http_send(&at.client, request + size - 1, 1) : true);
                weir_test_pass(cases[i / 2].status == 408 ? LIMIT : 0);
                assert_refuses_head(cases[i / 2].status);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

static void
where_bodies_are_collected_a_read_is_at_the_end_and_a_collection_has_it(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        size_t size;

        begin_with(&config, keep_exchange);
        ask(CHUNKED "3\r\nabc\r\n" LAST_CHUNK);
        assert_reads_end();
        CU_ASSERT_EQUAL(collect_all(0), 0);
        HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, &size), "abc");
        CU_ASSERT_EQUAL(size, 3);
        let_go();
        assert_receives(200, "");
        end();
}

/* -- piece by piece -- */

static void
the_handler_runs_at_the_head_and_reads_get_what_has_come(void)
{
        static const char *const heads[] = {POST "Content-Length: 5\r\n\r\n", CHUNKED};

        begin(keep_exchange);
        for (int chunked = 0; chunked < 2; chunked++) {
                size_t size = 1;

                ask(heads[chunked]);
                HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, &size), "");
                CU_ASSERT_EQUAL(size, 0);
                CU_ASSERT_TRUE(http_send_text(&at.client, chunked ? "2;x=y\r\nab\r\n1\r\nc\r\n" : "abc"));
                assert_reads("abc");
                CU_ASSERT_TRUE(http_send_text(&at.client, chunked ? "2\r\nd" : "d"));
                assert_reads("d");
                CU_ASSERT_TRUE(http_send_text(&at.client, chunked ? "e\r\n0\r\nX: y\r\n\r\n" : "e"));
                assert_reads("e");
                assert_reads_end();
                assert_reads_end();
                let_go();
                assert_receives(200, "");
        }
        end();
}

static void
bytes_that_came_with_the_head_are_read_first(void)
{
        begin(keep_exchange);
        ask(POST "Content-Length: 5\r\n\r\nabc");
        assert_reads("abc");
        CU_ASSERT_TRUE(http_send_text(&at.client, "de" GET("/next")));
        assert_reads("de");
        assert_reads_end();
        let_go();
        assert_receives(200, "");
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 2);
        HTTP_ASSERT_TEXT(weir_http_path(at.exchange), "/next");
        assert_reads_end(); /* a request without a body has none */
        let_go();
        assert_receives(200, "");
        end();
}

static void
requests_behind_streamed_bodies_are_served(void)
{
        begin(keep_exchange);
        ask(CHUNKED "3\r\nabc\r\n" LAST_CHUNK CHUNKED "1\r\nd\r\n" LAST_CHUNK GET("/last"));
        assert_reads("abc");
        assert_reads_end();
        let_go();
        assert_receives(200, "");
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 2);
        assert_reads("d");
        assert_reads_end();
        let_go();
        assert_receives(200, "");
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 3);
        HTTP_ASSERT_TEXT(weir_http_path(at.exchange), "/last");
        let_go();
        assert_receives(200, "");
        end();
}

static void
a_read_waits_for_the_client(void)
{
        struct piece piece;

        begin(keep_exchange);
        ask(CHUNKED "1");
        read_begin(&piece);
        CU_ASSERT_TRUE(waits(&piece));
        CU_ASSERT_TRUE(http_send_text(&at.client, "0;x=y\r\n")); /* nothing of the body yet */
        CU_ASSERT_TRUE(waits(&piece));
        CU_ASSERT_TRUE(http_send_text(&at.client, "z"));
        CU_ASSERT_EQUAL(ended(&piece), 0);
        CU_ASSERT_EQUAL(piece.size, 1);
        HTTP_ASSERT_TEXT(piece.data, "z");
        piece_done(&piece);
        let_go();
        assert_receives(200, "");
        assert_is_over(); /* half a body was not read */
        end();
}

static void
only_one_may_read_at_a_time(void)
{
        struct piece one, other;

        begin(keep_exchange);
        ask(POST "Content-Length: 3\r\n\r\n");
        read_begin(&one);
        CU_ASSERT_TRUE(waits(&one));
        read_begin(&other);
        CU_ASSERT_EQUAL(ended(&other), -EBUSY);
        CU_ASSERT_EQUAL(collect_all(0), -EBUSY);
        CU_ASSERT_FALSE(is_ended(&one));
        CU_ASSERT_TRUE(http_send_text(&at.client, "abc"));
        CU_ASSERT_EQUAL(ended(&one), 0);
        HTTP_ASSERT_TEXT(one.data, "abc");
        piece_done(&one);
        let_go();
        assert_receives(200, "");
        end();
}

/* Bytes that no task asks for wait in the sockets, and all of them come when one does. */
static void
a_client_is_not_read_ahead_of_the_tasks(void)
{
        size_t size = 32 * MIB, sent, before;
        char *body = pattern(size), *read = malloc(size), head[128];

        begin(keep_exchange);
        snprintf(head, sizeof head, POST "Content-Length: %zu\r\n\r\n", size);
        ask(head);
        before = memory_in_use();
        sent = send_what_is_taken(body, size);
        CU_ASSERT(sent > 0 && sent < size);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() < before + MIB);
        }
        CU_ASSERT_EQUAL(read_up_to(read, sent), sent);
        CU_ASSERT_EQUAL(memcmp(body, read, sent), 0);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() < before + MIB);
        }
        let_go();
        assert_receives(200, "");
        end();
        free(body);
        free(read);
}

/* -- as a whole -- */

static void
a_collection_has_what_was_not_read_before(void)
{
        static const char *const bodies[] = {"abcdef", "3\r\nabc\r\n3\r\ndef\r\n" LAST_CHUNK};
        static const char *const heads[] = {POST "Content-Length: 6\r\n\r\n", CHUNKED};

        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece piece;
                const char *body = bodies[i % 2];
                size_t first = i % 2 ? 5 : 2; /* "ab", or "3", a line's end and "ab" */

                ask(heads[i % 2]);
                if (i < 2) {
                        CU_ASSERT_TRUE(http_send(&at.client, body, first));
                        assert_reads("ab");
                        body += first;
                }
                collect_begin(&piece, 0);
                CU_ASSERT_TRUE(waits(&piece));
                CU_ASSERT_TRUE(http_send_pieces(&at.client, body, strlen(body), 1));
                CU_ASSERT_EQUAL(ended(&piece), 0);
                CU_ASSERT_PTR_NULL(piece.data); /* it is no read */
                HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, NULL), i < 2 ? "cdef" : "abcdef");
                assert_reads_end();
                CU_ASSERT_EQUAL(collect_all(0), 0);
                let_go();
                assert_receives(200, "");
        }
        end();
}

static void
more_than_a_collection_may_have_is_413(void)
{
        static const char *const requests[] = {
                POST "Content-Length: 6\r\n\r\nabcdef",
                POST "Content-Length: 6\r\n\r\n", /* as soon as it is announced */
                CHUNKED "6\r\nabcdef\r\n" LAST_CHUNK,
                CHUNKED "1\r\na\r\n5\r\nbcdef",
        };

        begin(keep_exchange);
        for (int i = 0; i < 8; i++) {
                ask(requests[i / 2]);
                CU_ASSERT_EQUAL(collect_all(5), -EMSGSIZE);
                if (i % 2) { /* a callback may say something else */
                        CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 422, "too much\n"), 0);
                }
                let_go();
                assert_receives(i % 2 ? 422 : 413, i % 2 ? "too much\n" : NULL);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                assert_is_over();
                open_again();
        }
        ask(requests[0]);
        CU_ASSERT_EQUAL(collect_all(6), 0);
        HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, NULL), "abcdef");
        let_go();
        assert_receives(200, "");
        end();
}

static void
a_collection_may_have_max_body_unless_it_says_otherwise(void)
{
        struct weir_http_server_config config = streaming();

        config.max_body = 5;
        begin_with(&config, keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(i ? CHUNKED "6\r\nabcdef\r\n" LAST_CHUNK : POST "Content-Length: 6\r\n\r\nabcdef");
                CU_ASSERT_EQUAL(collect_all(0), -EMSGSIZE);
                let_go();
                assert_receives(413, NULL);
                open_again();
                ask(i ? CHUNKED "6\r\nabcdef\r\n" LAST_CHUNK : POST "Content-Length: 6\r\n\r\nabcdef");
                CU_ASSERT_EQUAL(collect_all(i ? 6 : SIZE_MAX), 0);
                HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, NULL), "abcdef");
                let_go();
                assert_receives(200, "");
        }
        end();
}

/* The bytes of an earlier collection that was given up count for the limit of the next one, which is smaller. */
static void
a_second_collection_with_a_smaller_limit_keeps_to_it(void)
{
        for (int i = 0; i < 2; i++) {
                weir_series *series;
                struct piece one = {.size = 0};

                begin(keep_exchange);
                ask(i ? CHUNKED : POST "Content-Length: 30\r\n\r\n");
                series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series, weir_test_recorded(weir_http_collect_new(at.exchange, 100, take_piece, &one)));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                CU_ASSERT_TRUE(http_send_text(&at.client, i ? "14\r\n01234567890123456789\r\n" : "01234567890123456789"));
                CU_ASSERT_TRUE(waits(&one));
                weir_series_cancel(series);
                weir_series_unref(series);
                CU_ASSERT_EQUAL(ended(&one), -ECANCELED);
                CU_ASSERT_TRUE(http_send_text(&at.client, i ? "5\r\nabcde\r\n" LAST_CHUNK : "0123456789"));
                CU_ASSERT_EQUAL(collect_all(10), -EMSGSIZE);
                let_go();
                assert_receives(413, NULL);
                end();
        }
}

/* -- forms -- */

static void
assert_role(const char *role)
{
        const char *value = weir_http_form_value(at.exchange, "role");

        if (role) {
                HTTP_ASSERT_TEXT(value, role);
        } else {
                CU_ASSERT_PTR_NULL(value);
                CU_ASSERT_EQUAL(weir_http_form_at(at.exchange, 0, NULL, NULL), -ENOENT);
        }
}

static void
a_form_is_told_once_all_of_it_was_collected(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(i ? FORM CHUNKS "c\r\nrole=adminis\r\n" : FORM "Content-Length: 18\r\n\r\nrole=adminis");
                for (int k = 0; k < 2; k++) {
                        struct piece piece = {.size = 0};
                        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                        weir_series_push(series, weir_test_recorded(weir_http_collect_new(at.exchange, 0, take_piece, &piece)));
                        CU_ASSERT_EQUAL(weir_series_start(series), 0);
                        CU_ASSERT_TRUE(waits(&piece));
                        weir_series_cancel(series);
                        weir_series_unref(series);
                        CU_ASSERT_EQUAL(ended(&piece), -ECANCELED);
                        assert_role(NULL);
                }
                CU_ASSERT_TRUE(http_send_text(&at.client, i ? "6\r\ntrator\r\n" LAST_CHUNK : "trator"));
                CU_ASSERT_EQUAL(collect_all(0), 0);
                assert_role("administrator");
                let_go();
                assert_receives(200, "");
        }
        end();
}

static void
half_a_form_is_none(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                struct piece piece;

                ask(i ? FORM CHUNKS "c\r\nrole=adminis\r\n" : FORM "Content-Length: 18\r\n\r\nrole=adminis");
                collect_begin(&piece, 0);
                CU_ASSERT_TRUE(waits(&piece));
                weir_test_pass(LIMIT);
                CU_ASSERT_EQUAL(ended(&piece), -ETIMEDOUT);
                assert_role(NULL);
                let_go();
                assert_receives(408, NULL);
                open_again();
        }
        ask(FORM CHUNKS "5\r\nrole=\r\n"
                        "zz\r\n");
        CU_ASSERT_EQUAL(collect_all(0), -EBADMSG);
        assert_role(NULL);
        let_go();
        assert_receives(400, NULL);
        end();
}

static void
the_rest_of_a_form_is_no_form(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(i ? FORM CHUNKS "4\r\nuser\r\n" : FORM "Content-Length: 14\r\n\r\nuser");
                assert_reads("user");
                CU_ASSERT_TRUE(http_send_text(&at.client, i ? "a\r\nrole=admin\r\n" LAST_CHUNK : "role=admin"));
                CU_ASSERT_EQUAL(collect_all(0), 0);
                HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, NULL), "role=admin");
                assert_role(NULL);
                let_go();
                assert_receives(200, "");
        }
        end();
}

/* -- Expect: 100-continue -- */

static void
one_hundred_comes_when_the_body_is_asked_for(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece piece;

                ask(i % 2 ? EXPECTING("Transfer-Encoding: chunked\r\n") : EXPECTING("Content-Length: 3\r\n"));
                run_ready();
                CU_ASSERT_FALSE(http_has_news(&at.client, 0));
                if (i < 2) {
                        read_begin(&piece);
                } else {
                        collect_begin(&piece, 0);
                }
                assert_receives(100, NULL);
                CU_ASSERT_TRUE(waits(&piece));
                CU_ASSERT_TRUE(http_send_text(&at.client, i % 2 ? "3\r\nabc\r\n" LAST_CHUNK : "abc"));
                CU_ASSERT_EQUAL(ended(&piece), 0);
                piece_done(&piece);
                assert_reads_end();
                let_go();
                assert_receives(200, ""); /* and no second one */
        }
        end();
}

static void
no_100_comes_when_the_reply_comes_first(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 2; i++) {
                ask(EXPECTING("Content-Length: 3\r\n"));
                CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 403, "no\n"), 0);
                if (i) {
                        CU_ASSERT_EQUAL(write_all(NULL, 0), 0);
                        struct piece piece; /* it may read on, but the client has its answer */
                        read_begin(&piece);
                        CU_ASSERT_TRUE(waits(&piece));
                        CU_ASSERT_TRUE(http_send_text(&at.client, "abc"));
                        CU_ASSERT_EQUAL(ended(&piece), 0);
                        piece_done(&piece);
                }
                let_go();
                assert_receives(403, "no\n");
                if (!i) {
                        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                        assert_is_over();
                        open_again();
                }
        }
        end();
}

static void
no_100_comes_when_the_body_is_there_or_too_large(void)
{
        begin(keep_exchange);
        ask(EXPECTING("Content-Length: 3\r\n") "a");
        assert_reads("a");
        CU_ASSERT_TRUE(http_send_text(&at.client, "bc"));
        assert_reads("bc");
        let_go();
        assert_receives(200, "");
        ask(EXPECTING("Content-Length: 3\r\n"));
        CU_ASSERT_EQUAL(collect_all(2), -EMSGSIZE);
        let_go();
        assert_receives(413, NULL);
        assert_is_over();
        end();
}

/* -- clients that are slow, wrong or gone -- */

static void
a_read_ends_at_the_limit_of_the_body_to_the_nanosecond(void)
{
        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece piece;

                ask(i % 2 ? CHUNKED : POST "Content-Length: 3\r\n\r\n");
                weir_test_pass(3 * LIMIT); /* while nobody reads, nobody waits */
                if (i < 2) {
                        read_begin(&piece);
                } else {
                        collect_begin(&piece, 0);
                }
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_FALSE(is_ended(&piece));
                weir_test_pass(1);
                CU_ASSERT_EQUAL(ended(&piece), -ETIMEDOUT);
                if (i == 3) {
                        CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 503, "slow\n"), 0);
                }
                let_go();
                assert_receives(i == 3 ? 503 : 408, i == 3 ? "slow\n" : NULL);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                assert_is_over();
                open_again();
        }
        end();
}

static void
chunks_that_are_none_are_ebadmsg_and_400(void)
{
        static const char *const wrong[] = {"3\r\nabcd", "x\r\n", "3\nabc", "0\r\nContent-Length: 3\r\n\r\n"};

        begin(keep_exchange);
        for (int i = 0; i < 8; i++) {
                ask(CHUNKED "2\r\nok\r\n");
                assert_reads("ok");
                CU_ASSERT_TRUE(http_send_text(&at.client, wrong[i / 2]));
                if (i % 2) {
                        CU_ASSERT_EQUAL(collect_all(0), -EBADMSG);
                } else {
                        struct piece piece;

                        do { /* what is right of it may come first */
                                read_begin(&piece);
                                ended(&piece);
                                piece_done(&piece);
                        } while (piece.record.status == 0 && piece.size > 0);
                }
                assert_read_fails(-EBADMSG);
                CU_ASSERT_EQUAL(collect_all(0), -EBADMSG);
                let_go();
                assert_receives(400, NULL);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                assert_is_over();
                open_again();
        }
        end();
}

static void
a_pending_read_hears_of_a_wrong_chunk(void)
{
        struct piece piece;

        begin(keep_exchange);
        ask(CHUNKED);
        read_begin(&piece);
        CU_ASSERT_TRUE(waits(&piece));
        CU_ASSERT_TRUE(http_send_text(&at.client, "nonsense\r\n" GET("/smuggled")));
        CU_ASSERT_EQUAL(ended(&piece), -EBADMSG);
        let_go();
        assert_receives(400, NULL);
        assert_is_over();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

/* It is still sending when the reply comes: the reply must not be lost for that. */
static void
a_body_left_unread_ends_the_connection_and_the_reply_can_be_read(void)
{
        char *body = pattern(512 * 1024), head[128];

        begin(keep_exchange);
        for (int i = 0; i < 10; i++) {
                snprintf(head, sizeof head, POST "Content-Length: %d\r\n\r\n", 1024 * 1024);
                ask(i % 2 ? CHUNKED "80000\r\n" : head);
                CU_ASSERT_TRUE(http_send(&at.client, body, 1000));
                CU_ASSERT_EQUAL(weir_http_reply_text(at.exchange, 403, "no\n"), 0);
                let_go();
                CU_ASSERT_TRUE(http_send(&at.client, body, 512 * 1024));
                assert_receives(403, "no\n");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                assert_is_over();
                open_again();
        }
        end();
        free(body);
}

static void
a_client_that_goes_in_the_middle_is_econnreset(void)
{
        static void (*const ways[])(struct http_client *) = {http_abandon, http_close};

        begin(keep_exchange);
        for (int i = 0; i < 4; i++) {
                struct piece piece;

                ask(i < 2 ? CHUNKED "2\r\na" : POST "Content-Length: 3\r\n\r\na");
                assert_reads("a");
                read_begin(&piece);
                CU_ASSERT_TRUE(waits(&piece));
                ways[i % 2](&at.client);
                CU_ASSERT_EQUAL(ended(&piece), -ECONNRESET);
                assert_read_fails(-ECONNRESET);
                CU_ASSERT_EQUAL(collect_all(0), -ECONNRESET);
                CU_ASSERT_EQUAL(write_text("a"), -EPIPE);
                let_go();
                WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
                http_open(&at.client, at.port);
        }
        end();
}

static void
half_a_body_and_the_end_is_econnreset_and_a_whole_one_is_not(void)
{
        begin(keep_exchange);
        ask(CHUNKED "3\r\nabc\r\n" LAST_CHUNK);
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        CU_ASSERT_EQUAL(collect_all(0), 0);
        HTTP_ASSERT_TEXT(weir_http_request_body(at.exchange, NULL), "abc");
        let_go();
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        if (at.reply.status == 100) { /* whether it has gone altogether */
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        }
        CU_ASSERT_EQUAL(at.reply.status, 200);
        open_again();
        ask(CHUNKED "3\r\nab");
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        CU_ASSERT_EQUAL(collect_all(0), -ECONNRESET);
        let_go();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
        end();
}

/* -- in the series of the exchange -- */

static atomic_int piece_status, pieces_read, pieces_size;

static void
read_on(weir_task *read, void *context)
{
        weir_task *exchange = context;
        size_t size = 0;

        weir_http_read_data(read, &size);
        atomic_store(&piece_status, weir_task_status(read));
        atomic_fetch_add(&pieces_size, (int)size);
        atomic_fetch_add(&pieces_read, 1);
        if (weir_task_status(read) == 0 && size > 0) {
                weir_series_push(weir_series_of(read), weir_http_read_new(exchange, read_on, exchange));
        }
}

static void
read_in_series(weir_task *exchange, void *context)
{
        (void)context;
        weir_task_on_free(exchange, count_free);
        atomic_store(&at.series, weir_series_ref(weir_series_of(exchange)));
        atomic_store(&pieces_read, 0);
        atomic_store(&pieces_size, 0);
        weir_http_reply_text(exchange, 200, "read\n");
        weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, read_on, exchange));
        atomic_fetch_add(&at.handled, 1);
}

static void
a_series_reads_to_the_end_and_replies(void)
{
        struct weir_http_server_config config = streaming();
        char *body = pattern(MIB);

        for (int real = 0; real < 2; real++) {
                if (real) {
                        begin_real_with(&config, read_in_series);
                } else {
                        begin(read_in_series);
                }
                for (int i = 0; i < 10; i++) {
                        CU_ASSERT_TRUE(http_send_text(&at.client, CHUNKED));
                        send_chunks(body, MIB, 10000 + (size_t)i * 9999);
                        assert_receives(200, "read\n");
                        CU_ASSERT_EQUAL(atomic_load(&pieces_size), (int)MIB);
                        CU_ASSERT(atomic_load(&pieces_read) >= (int)(MIB / WEIR__SCRATCH_SIZE));
                        weir_series_unref(atomic_exchange(&at.series, NULL));
                }
                end();
                CU_ASSERT_EQUAL(atomic_load(&at.freed), 10);
        }
        free(body);
}

static void
a_client_that_goes_ends_the_read_and_cancels_the_series(void)
{
        begin(read_in_series);
        for (int i = 1; i <= 6; i++) {
                ask(POST "Content-Length: 10\r\n\r\nab");
                WEIR_TEST_EVENTUALLY(atomic_load(&pieces_read) == 1);
                (i % 2 ? http_abandon : http_close)(&at.client);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
                CU_ASSERT(atomic_load(&pieces_read) <= 2);
                if (atomic_load(&pieces_read) == 2) {
                        int status = atomic_load(&piece_status);

                        CU_ASSERT(status == -ECONNRESET || status == -ECANCELED);
                }
                CU_ASSERT_EQUAL(weir_series_status(at.series), -ECANCELED);
                weir_series_unref(atomic_exchange(&at.series, NULL));
                http_open(&at.client, at.port);
        }
        end();
}

static void
a_series_is_cancelled_while_it_reads(void)
{
        begin(read_in_series);
        for (int i = 1; i <= 6; i++) {
                ask(i % 2 ? CHUNKED "2\r\nab" : POST "Content-Length: 10\r\n\r\nab");
                WEIR_TEST_EVENTUALLY(atomic_load(&pieces_read) == 1);
                if (i < 4) {
                        run_ready(); /* it waits */
                }
                weir_series_cancel(at.series);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
                CU_ASSERT(i >= 4 || atomic_load(&pieces_read) == 2);
                CU_ASSERT(i >= 4 || atomic_load(&piece_status) == -ECANCELED);
                weir_series_unref(atomic_exchange(&at.series, NULL));
                open_again();
        }
        end();
}

/* A read that is cancelled takes nothing with it. */
static void
a_read_in_another_flow_is_cancelled_and_the_next_one_gets_the_piece(void)
{
        begin(keep_exchange);
        ask(POST "Content-Length: 3\r\n\r\n");
        for (int i = 0; i < 10; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                struct piece piece = {.size = 0};

                weir_series_push(series, weir_test_recorded(weir_http_read_new(at.exchange, take_piece, &piece)));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                if (i % 2) {
                        CU_ASSERT_TRUE(waits(&piece));
                }
                weir_series_cancel(series);
                weir_series_unref(series);
                WEIR_TEST_EVENTUALLY(is_ended(&piece));
                CU_ASSERT(piece.record.calls == 0 || piece.record.status == -ECANCELED);
        }
        CU_ASSERT_TRUE(http_send_text(&at.client, "abc"));
        assert_reads("abc");
        let_go();
        assert_receives(200, "");
        end();
}

/* -- bodies that break -- */

/* A client that gets the last chunk, or the end of a reply of HTTP/1.0, takes it for a complete reply. */
static void
a_reply_that_has_begun_is_cut_when_the_body_breaks(void)
{
        for (int i = 0; i < 4; i++) {
                bool is_slow = i / 2;

                begin(keep_exchange);
                ask(CHUNKED "1\r\na\r\n");
                assert_reads("a");
                CU_ASSERT_EQUAL(write_text("A"), 0);
                if (is_slow) {
                        struct piece piece;

                        read_begin(&piece);
                        CU_ASSERT_TRUE(waits(&piece));
                        weir_test_pass(LIMIT);
                        CU_ASSERT_EQUAL(ended(&piece), -ETIMEDOUT);
                } else {
                        CU_ASSERT_TRUE(http_send_text(&at.client, "zz\r\n"));
                        run_ready();
                        assert_read_fails(-EBADMSG);
                }
                if (i % 2) { /* it says why, and ends the reply as if all were well */
                        CU_ASSERT_EQUAL(write_text("broken"), 0);
                }
                let_go();
                CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                end();
        }
}

static void
a_whole_reply_of_known_length_stays_whole_when_the_body_breaks(void)
{
        begin(keep_exchange);
        ask(CHUNKED "1\r\na\r\n");
        assert_reads("a");
        CU_ASSERT_EQUAL(weir_http_reply_length(at.exchange, 1), 0);
        CU_ASSERT_EQUAL(write_text("A"), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "zz\r\n"));
        run_ready();
        assert_read_fails(-EBADMSG);
        let_go();
        assert_receives(200, "A");
        assert_is_over();
        end();
}

static void
cancel_its_series(weir_task *collect, void *exchange)
{
        atomic_store(&piece_status, weir_task_status(collect));
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 200, "all is well\n"), 0);
        weir_series_cancel(weir_series_of(exchange));
}

static void
collect_and_cancel(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_http_collect_new(exchange, 5, cancel_its_series, exchange));
        atomic_fetch_add(&at.handled, 1);
}

static void
a_cancel_leaves_the_reply_to_a_broken_body_to_the_server(void)
{
        static const struct {
                const char *request;
                int failed, status;
        } cases[] = {
                {CHUNKED "zz\r\n", -EBADMSG, 400},
                {POST "Content-Length: 6\r\n\r\nabcdef", -EMSGSIZE, 413},
                {CHUNKED "6\r\nabcdef\r\n" LAST_CHUNK, -EMSGSIZE, 413},
                {CHUNKED "5\r\nabcde\r\n" LAST_CHUNK, 0, 0},
        };

        begin(collect_and_cancel);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                ask(cases[i].request);
                run_ready();
                CU_ASSERT_EQUAL(atomic_load(&piece_status), cases[i].failed);
                if (cases[i].status) {
                        assert_receives(cases[i].status, NULL);
                }
                assert_is_over();
                open_again();
        }
        end();
}

/* -- ends from outside -- */

static void
stop_cuts_a_pending_read(void)
{
        struct weir_http_server_config config = streaming();

        for (int i = 0; i < 10; i++) {
                begin_real_with(&config, read_in_series);
                ask(POST "Content-Length: 10\r\n\r\nab");
                WEIR_TEST_EVENTUALLY(atomic_load(&pieces_read) == 1);
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, i % 2 ? WEIR_MSEC(10) : 0), 1);
                CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
                CU_ASSERT(atomic_load(&pieces_read) <= 2);
                weir_series_unref(atomic_exchange(&at.series, NULL));
                end();
        }
}

static void
shutdown_ends_a_pending_read(void)
{
        struct weir_http_server_config config = streaming();
        struct weir_test_thread thread;
        int64_t began = weir_test_now();

        begin_real_with(&config, read_in_series);
        ask(POST "Content-Length: 3\r\n\r\na");
        WEIR_TEST_EVENTUALLY(atomic_load(&pieces_read) == 1);
        weir_test_shutdown_begin(&thread);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        CU_ASSERT(atomic_load(&piece_status) == -ESHUTDOWN || atomic_load(&pieces_read) == 1);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        weir_series_unref(atomic_exchange(&at.series, NULL));
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
}

/* -- tasks that are not exchanges -- */

static void
a_task_that_is_not_an_exchange_is_edom(void)
{
        weir_task *other = weir_empty_new(NULL, NULL);
        struct piece piece = {.size = 0};
        size_t size = 7;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_http_read_new(other, take_piece, &piece))), -EDOM);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_http_collect_new(NULL, 0, take_piece, &piece))), -EDOM);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_http_write_new(other, "a", 1, take_piece, &piece))), -EDOM);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_http_write_new(NULL, NULL, 1, take_piece, &piece))), -EDOM);
        CU_ASSERT_EQUAL(piece.record.frees, 4);
        CU_ASSERT_EQUAL(piece.record.calls, 0);
        weir_task_dismiss(weir_http_read_new(other, NULL, NULL));
        CU_ASSERT_PTR_NULL(weir_http_read_data(other, &size));
        CU_ASSERT_PTR_NULL(weir_http_read_data(NULL, &size));
        CU_ASSERT_EQUAL(size, 7);
        CU_ASSERT_EQUAL(weir_http_reply_length(other, 1), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_upgrade(other, "x"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_unsent(other), 0);
        CU_ASSERT_EQUAL(weir_http_unsent(NULL), 0);
        CU_ASSERT_PTR_NULL(weir_http_ref(other));
        CU_ASSERT_PTR_NULL(weir_http_ref(NULL));
        weir_http_unref(NULL);
        weir_task_dismiss(other);
        weir_test_end();
}

static void
a_task_that_is_dismissed_lets_the_exchange_go(void)
{
        begin(keep_exchange);
        ask(GET("/"));
        weir_task *read = weir_http_read_new(at.exchange, NULL, NULL),
                  *write = weir_http_write_new(at.exchange, "a", 1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_http_write_new(at.exchange, NULL, 1, NULL, NULL)), -EINVAL);
        let_go();
        run_ready();
        CU_ASSERT_FALSE(http_has_news(&at.client, 0)); /* the tasks keep it */
        weir_task_dismiss(read);
        weir_task_dismiss(write);
        assert_receives(200, "");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_chunked_body_of_max_body_is_collected_and_a_byte_more_is_413),
                WEIR_TEST(a_chunked_body_of_10_megabytes_is_collected_where_that_is_allowed),
                WEIR_TEST(a_chunked_body_that_trickles_is_408_at_its_limit),
                WEIR_TEST(a_request_of_head_that_fails_is_answered_without_a_body),
                WEIR_TEST(where_bodies_are_collected_a_read_is_at_the_end_and_a_collection_has_it),
                WEIR_TEST(the_handler_runs_at_the_head_and_reads_get_what_has_come),
                WEIR_TEST(bytes_that_came_with_the_head_are_read_first),
                WEIR_TEST(requests_behind_streamed_bodies_are_served),
                WEIR_TEST(a_read_waits_for_the_client),
                WEIR_TEST(only_one_may_read_at_a_time),
                WEIR_TEST(a_client_is_not_read_ahead_of_the_tasks),
                WEIR_TEST(a_collection_has_what_was_not_read_before),
                WEIR_TEST(more_than_a_collection_may_have_is_413),
                WEIR_TEST(a_reply_that_has_begun_is_cut_when_the_body_breaks),
                WEIR_TEST(a_whole_reply_of_known_length_stays_whole_when_the_body_breaks),
                WEIR_TEST(a_cancel_leaves_the_reply_to_a_broken_body_to_the_server),
                WEIR_TEST(a_collection_may_have_max_body_unless_it_says_otherwise),
                WEIR_TEST(a_second_collection_with_a_smaller_limit_keeps_to_it),
                WEIR_TEST(a_form_is_told_once_all_of_it_was_collected),
                WEIR_TEST(half_a_form_is_none),
                WEIR_TEST(the_rest_of_a_form_is_no_form),
                WEIR_TEST(one_hundred_comes_when_the_body_is_asked_for),
                WEIR_TEST(no_100_comes_when_the_reply_comes_first),
                WEIR_TEST(no_100_comes_when_the_body_is_there_or_too_large),
                WEIR_TEST(a_read_ends_at_the_limit_of_the_body_to_the_nanosecond),
                WEIR_TEST(chunks_that_are_none_are_ebadmsg_and_400),
                WEIR_TEST(a_pending_read_hears_of_a_wrong_chunk),
                WEIR_TEST(a_body_left_unread_ends_the_connection_and_the_reply_can_be_read),
                WEIR_TEST(a_client_that_goes_in_the_middle_is_econnreset),
                WEIR_TEST(half_a_body_and_the_end_is_econnreset_and_a_whole_one_is_not),
                WEIR_TEST(a_series_reads_to_the_end_and_replies),
                WEIR_TEST(a_client_that_goes_ends_the_read_and_cancels_the_series),
                WEIR_TEST(a_series_is_cancelled_while_it_reads),
                WEIR_TEST(a_read_in_another_flow_is_cancelled_and_the_next_one_gets_the_piece),
                WEIR_TEST(stop_cuts_a_pending_read),
                WEIR_TEST(shutdown_ends_a_pending_read),
                WEIR_TEST(a_task_that_is_not_an_exchange_is_edom),
                WEIR_TEST(a_task_that_is_dismissed_lets_the_exchange_go),
        };

        return weir_test_main("server_body", tests, sizeof tests / sizeof *tests);
}
