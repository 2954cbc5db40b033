/* test/server_series_test.c: an exchange and its series: replies that are delayed, computed or dropped, and clients that go.
 *
 * The runtime has several pollers and the real clock, but for tests that begin on the virtual one and let time pass in steps. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

#define POLLERS 4 /* so that work passes between them on the smallest machine, too */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;

        atomic_int handled, ended, freed, last_status;
        _Atomic(void *) series; /* with a reference */
} at;

static void
begin_with(weir_task_fn *handler, int ignore_departure)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.ignore_departure = ignore_departure;
        at.server = http_server(&config, handler, &at);
        at.port = weir_http_server_port(at.server);
        at.handled = at.ended = at.freed = at.last_status = 0;
        http_open(&at.client, at.port);
}

static void
begin(weir_task_fn *handler)
{
        begin_with(handler, 0);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        weir_http_server_free(at.server);
}

static void
begin_virtual_with(weir_task_fn *handler, int ignore_departure)
{
        weir_test_end();
        weir_test_begin_virtual();
        begin_with(handler, ignore_departure);
}

static void
begin_virtual(weir_task_fn *handler)
{
        begin_virtual_with(handler, 0);
}

static void
end_virtual(void)
{
        end();
        weir_test_end();
        weir_test_begin_real(POLLERS);
}

static size_t
connections(void)
{
        return atomic_load(&at.server->base.connections);
}

static void
count_free(void *context)
{
        atomic_fetch_add(&((struct fixture *)context)->freed, 1);
}

/* A callback at the end of a wait. */
static void
count_end(weir_task *task, void *context)
{
        struct fixture *fixture = context;

        atomic_store(&fixture->last_status, weir_task_status(task));
        atomic_fetch_add(&fixture->ended, 1);
}

static void
push(weir_task *exchange, weir_task *task)
{
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(exchange), task), 0);
}

/* -- delay -- */

static void
reply_in_50_ms(weir_task *exchange, void *context)
{
        weir_task_on_free(exchange, count_free);
        weir_http_reply_text(exchange, 200, "late\n");
        push(exchange, weir_timer_new(WEIR_MSEC(50), count_end, context));
        atomic_fetch_add(&((struct fixture *)context)->handled, 1);
}

static void
a_timer_delays_the_reply(void)
{
        int64_t began;

        begin(reply_in_50_ms);
        for (int i = 1; i <= 3; i++) {
                began = weir_test_now();
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "late\n");
                CU_ASSERT(weir_test_now() - began >= WEIR_MSEC(50));
                CU_ASSERT(weir_test_now() - began <= WEIR_MSEC(50) + WEIR_TEST_TOLERANCE);
                CU_ASSERT_EQUAL(atomic_load(&at.ended), i);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 3);
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 3);
}

static void
compute_nothing(void *context)
{
        (void)context;
}

static void
reply_from_the_executor(weir_task *function, void *context)
{
        weir_task *exchange = weir_series_context(weir_series_of(function));

        weir_http_reply_text(exchange, 200, "computed\n");
        count_end(function, context);
}

static void
compute_the_reply(weir_task *exchange, void *context)
{
        weir_task_on_free(exchange, count_free);
        weir_series_set_context(weir_series_of(exchange), exchange, NULL);
        push(exchange, weir_go_new("replies", compute_nothing, reply_from_the_executor, context));
}

static void
a_function_on_the_executor_computes_the_reply(void)
{
        begin(compute_the_reply);
        for (int i = 1; i <= 100; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "computed\n");
                CU_ASSERT_EQUAL(atomic_load(&at.ended), i);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 100);
}

static _Atomic weir_nsec began_at, exact_at, in_parallel_at, in_series_at;

static void
note_now(weir_task *timer, void *context)
{
        (void)timer;
        atomic_store((_Atomic weir_nsec *)context, weir_now());
}

static void
start_three_timers_of_10_us(weir_task *exchange, void *context)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        (void)context;
        atomic_store(&began_at, weir_now());
        weir_parallel_add(parallel, weir_timer_new(WEIR_USEC(10), note_now, &in_parallel_at));
        push(exchange, parallel);
        push(exchange, weir_timer_new(WEIR_USEC(10), note_now, &in_series_at));
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_USEC(10), note_now, &exact_at)), 0);
        atomic_fetch_add(&at.handled, 1);
}

static void
timers_of_an_exchange_end_on_a_grid_and_others_exactly(void)
{
        begin_virtual(start_three_timers_of_10_us);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_EQUAL(exact_at, began_at + WEIR_USEC(10));
        CU_ASSERT_EQUAL(in_parallel_at, began_at / WEIR_MSEC(1) * WEIR_MSEC(1) + WEIR_MSEC(1));
        CU_ASSERT_EQUAL(in_series_at, in_parallel_at + WEIR_MSEC(1));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        end_virtual();
}

static void
reply_when_all_are_there(weir_task *exchange, void *context)
{
        weir_http_reply_text(exchange, 200, "at last\n");
        push(exchange, weir_timer_new_named("all", WEIR_FOREVER, count_end, context));
        atomic_fetch_add(&((struct fixture *)context)->handled, 1);
}

static void
many_wait_at_once(void)
{
        enum { CLIENTS = 200 };
        static struct http_client clients[CLIENTS];

        begin(reply_when_all_are_there);
        for (int i = 0; i < CLIENTS; i++) {
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], GET("/")));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == CLIENTS); /* one after another, it would come no further than to 1 */
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("all", WEIR_ALL), CLIENTS);
        for (int i = 0; i < CLIENTS; i++) {
                CU_ASSERT_TRUE(http_receive(&clients[i], &at.reply, false));
                HTTP_ASSERT_TEXT(at.reply.body, "at last\n");
                http_close(&clients[i]);
        }
        end();
}

/* -- replies of a series -- */

struct sum {
        int one, other;
        weir_task *exchange;
};

static void
set_three(weir_task *task, void *context)
{
        (void)task;
        ((struct sum *)context)->one = 3;
}

static void
set_four(weir_task *task, void *context)
{
        (void)task;
        ((struct sum *)context)->other = 4;
}

static void
reply_sum(weir_task *parallel, void *context)
{
        struct sum *sum = context;
        char text[32];

        CU_ASSERT_EQUAL(weir_task_status(parallel), 0);
        snprintf(text, sizeof text, "%d", sum->one + sum->other);
        CU_ASSERT_EQUAL(weir_http_reply_text(sum->exchange, 200, text), 0);
}

static void
compute(weir_task *exchange, void *context)
{
        struct sum *sum = calloc(1, sizeof *sum);
        weir_task *parallel = weir_parallel_new(reply_sum, sum);

        (void)context;
        sum->exchange = exchange;
        weir_series_set_context(weir_series_of(exchange), sum, free);
        weir_parallel_add(parallel, weir_timer_new(WEIR_MSEC(2), set_three, sum));
        weir_parallel_add(parallel, weir_timer_new(WEIR_MSEC(1), set_four, sum));
        push(exchange, parallel);
}

static void
a_parallel_computes_the_reply(void)
{
        begin(compute);
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "7");
        }
        end();
}

/* Each step says its word and pushes the next. */
static void
say(weir_task *task, void *context)
{
        weir_task *exchange = context;
        size_t size;

        weir_http_request_body(exchange, &size);
        HTTP_ASSERT_TEXT(weir_http_request_header(exchange, "Host"), "a");
        CU_ASSERT_PTR_EQUAL(weir_series_of(task), weir_series_of(exchange));
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, weir_http_path(exchange), strlen(weir_http_path(exchange))), 0);
}

static void
say_and_go_on(weir_task *task, void *context)
{
        say(task, context);
        push(context, weir_timer_new(WEIR_MSEC(1), say, context));
}

static void
say_often(weir_task *exchange, void *context)
{
        (void)context;
        push(exchange, weir_empty_new(say, exchange));
        push(exchange, weir_timer_new(WEIR_MSEC(1), say_and_go_on, exchange));
        CU_ASSERT_EQUAL(weir_series_push_front(weir_series_of(exchange), weir_timer_new(0, say, exchange)), 0);
        weir_http_reply_status(exchange, 201);
}

static void
the_exchange_is_usable_in_every_callback_of_its_series(void)
{
        begin(say_often);
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/ho"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "/ho/ho/ho/ho");
                CU_ASSERT_EQUAL(at.reply.status, 201);
        }
        end();
}

/* Timers made by another thread belong to all pollers in turn, so the series wanders from one to another. */
#define WANDERERS 256
static weir_task *prepared[WANDERERS];
static atomic_uint taken;

static void
wander(weir_task *exchange, void *context)
{
        unsigned first = atomic_fetch_add(&taken, 4);

        (void)context;
        weir_http_reply_text(exchange, 200, "wandered");
        for (unsigned i = 0; i < 4; i++) {
                push(exchange, prepared[(first + i) * 67 % WANDERERS]);
        }
}

static void
a_reply_comes_back_from_callbacks_on_other_threads(void)
{
        atomic_store(&taken, 0);
        at.ended = 0;
        for (int i = 0; i < WANDERERS; i++) {
                prepared[i] = weir_timer_new(WEIR_USEC((int64_t)i), count_end, &at);
        }
        begin(wander);
        for (int i = 0; i < WANDERERS / 4; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, "wandered");
                CU_ASSERT_EQUAL(atomic_load(&at.ended), i * 4 + 4);
        }
        end();
}

/* -- an end that is none -- */

static void
cancel_itself(weir_task *exchange, void *context)
{
        weir_task_on_free(exchange, count_free);
        weir_http_reply_text(exchange, 200, "must not go out");
        weir_series_cancel(weir_series_of(exchange));
        push(exchange, weir_empty_new(count_end, context));
}

static void
cancel_of_the_series_drops_the_connection(void)
{
        begin(cancel_itself);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        CU_ASSERT_TRUE(http_is_over(&at.client));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 1);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 0);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        end();
}

static void
wait_for_ever(weir_task *exchange, void *context)
{
        struct fixture *fixture = context;

        weir_task_on_free(exchange, count_free);
        push(exchange, weir_timer_new_named("for ever", WEIR_FOREVER, count_end, context));
        push(exchange, weir_timer_new(0, count_end, context));
        weir_series_unref(atomic_exchange(&fixture->series, weir_series_ref(weir_series_of(exchange))));
        atomic_fetch_add(&fixture->handled, 1);
}

static void
another_thread_cancels_the_series(void)
{
        begin(wait_for_ever);
        for (int i = 1; i <= 10; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i);
                weir_series_cancel(at.series);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
                CU_ASSERT_EQUAL(atomic_load(&at.ended), i); /* the second timer was dropped */
                CU_ASSERT_EQUAL(atomic_load(&at.last_status), -ECANCELED);
                CU_ASSERT_EQUAL(weir_series_push(at.series, weir_empty_new(count_end, &at)), -ESTALE);
                http_close(&at.client);
                http_open(&at.client, at.port);
        }
        weir_series_unref(atomic_exchange(&at.series, NULL));
        end();
}

static void
another_thread_ends_the_wait_by_name(void)
{
        begin(wait_for_ever);
        for (int i = 1; i <= 10; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
                WEIR_TEST_EVENTUALLY(weir_timer_count("for ever") == 1);
                CU_ASSERT_FALSE(http_has_news(&at.client, 1000000));
                WEIR_TEST_EVENTUALLY(weir_timer_cancel("for ever", WEIR_ALL) == 1);
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 200);
                CU_ASSERT_EQUAL(atomic_load(&at.ended), 2 * i);
        }
        weir_series_unref(atomic_exchange(&at.series, NULL));
        end();
}

static void
push_nothing(weir_task *exchange, void *context)
{
        weir_task_on_free(exchange, count_free);
        (void)context;
        weir_http_reply_header(exchange, "X-Half", "made");
        weir_http_reply_text(exchange, 200, "must not go out");
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(exchange), NULL), -ENOMEM);
}

static void
a_poisoned_series_is_answered_500(void)
{
        begin(push_nothing);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 500);
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "X-Half"));
                CU_ASSERT_PTR_NULL(strstr(at.reply.body, "must not"));
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 3);
}

static void
push_wrongly(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(exchange), weir_timer_new_named("", 0, NULL, NULL)), -EINVAL);
}

static struct {
        pthread_mutex_t mutex;
        char said[1024]; /* guarded by mutex */
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        pthread_mutex_lock(&heard.mutex);
        size_t size = strlen(heard.said);
        snprintf(heard.said + size, sizeof heard.said - size, "%d %s\n", (int)level, message);
        pthread_mutex_unlock(&heard.mutex);
}

static void
a_wrong_task_is_answered_500_and_in_the_log(void)
{
        heard.said[0] = '\0';
        weir_log_set(hear, NULL);
        begin(push_wrongly);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/wrong"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        end();
        weir_log_set(NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, "0 GET /wrong by 127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, ": a push into its series has failed: an invalid value, or not allowed here; "
                                                  "the reply is a 500"));
}

static void
say_another_length(weir_task *exchange, void *context)
{
        (void)context;
        if (strcmp(weir_http_path(exchange), "/no-file") == 0) {
                CU_ASSERT_EQUAL(weir_http_reply_file(exchange, NULL, "a"), -EINVAL);
                return;
        }
        weir_http_reply_text(exchange, 200, "eight...");
        weir_http_reply_length(exchange, 10);
}

static void
a_reply_that_is_not_what_was_announced_is_a_500_and_in_the_log(void)
{
        heard.said[0] = '\0';
        weir_log_set(hear, NULL);
        begin(say_another_length);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/length"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/no-file"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        end();
        weir_log_set(NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, "0 GET /length by 127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, ": its body has another length than weir_http_reply_length has said; "
                                                  "the reply is a 500"));
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, "0 weir_http_reply_file: expected a root and a path, and was given NULL"));
}

static void
free_and_reply(weir_task *exchange, void *context)
{
        (void)context;
        weir_task_on_free(exchange, count_free);
        if (strcmp(weir_http_path(exchange), "/with-a-series") == 0) {
                weir_series_of(exchange);
        }
}

static void
on_free_runs_once_for_each_exchange(void)
{
        begin(free_and_reply);
        for (int i = 0; i < 50; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, i % 2 ? GET("/") : GET("/with-a-series"), &at.reply));
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 50);
}

/* -- clients that go -- */

/* The client of the i-th request has gone: what that waits for goes on. */
static void
assert_series_goes_on(int i)
{
        weir_test_pass(WEIR_MSEC(50) - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), i - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), i - 1);
        weir_test_pass(WEIR_MSEC(1)); /* it ends on the grid */
        CU_ASSERT_EQUAL(atomic_load(&at.ended), i);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), i);
        CU_ASSERT_EQUAL(atomic_load(&at.last_status), 0);
}

static void
where_departures_are_ignored_the_series_of_a_client_that_has_reset_goes_on(void)
{
        begin_virtual_with(reply_in_50_ms, 1);
        for (int i = 1; i <= 10; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, i % 2 ? GET("/") : GET("/") GET("/never")));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i);
                http_abandon(&at.client);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                assert_series_goes_on(i);
                http_open(&at.client, at.port);
        }
        end_virtual();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 10);
}

static void
a_reset_gives_the_descriptor_back_while_the_series_goes_on(void)
{
        begin_with(wait_for_ever, 1);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        http_abandon(&at.client);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("for ever", WEIR_ALL), 1);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 1);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 2);
        weir_series_unref(atomic_exchange(&at.series, NULL));
        http_open(&at.client, at.port);
        end();
}

static void
where_departures_are_ignored_the_series_of_a_client_that_has_closed_goes_on(void)
{
        begin_virtual_with(reply_in_50_ms, 1);
        for (int i = 1; i <= 5; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i);
                http_close(&at.client);
                assert_series_goes_on(i);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                http_open(&at.client, at.port);
        }
        end_virtual();
}

/* The client of the i-th request has gone: what that waits for is not waited for, and no time passes. */
static void
assert_series_is_cancelled(int i)
{
        weir_nsec now = weir_now();

        WEIR_TEST_EVENTUALLY(connections() == 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), i); /* the second timer was dropped */
        CU_ASSERT_EQUAL(atomic_load(&at.last_status), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_status(at.series), -ECANCELED);
        CU_ASSERT_EQUAL(weir_now(), now);
}

static void
depart_ten_times(void (*depart)(struct http_client *client))
{
        begin_virtual(wait_for_ever);
        for (int i = 1; i <= 10; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, i % 2 ? GET("/") : GET("/") GET("/never")));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i);
                depart(&at.client);
                assert_series_is_cancelled(i);
                http_open(&at.client, at.port);
        }
        weir_series_unref(atomic_exchange(&at.series, NULL));
        end_virtual();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 10);
}

static void
a_client_that_resets_cancels_the_series(void)
{
        depart_ten_times(http_abandon);
}

static void
a_client_that_closes_cancels_the_series(void)
{
        depart_ten_times(http_close);
}

static void
ask_and_close(struct http_client *client)
{
        http_close(client);
        http_open(client, at.port);
        CU_ASSERT_TRUE(http_send_text(client, GET("/")));
        http_close(client); /* perhaps before the handler has begun: it is called all the same */
}

static void
a_client_that_closes_right_behind_its_request_cancels_the_series(void)
{
        begin(wait_for_ever);
        for (int i = 1; i <= 50; i++) {
                ask_and_close(&at.client);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == i);
                CU_ASSERT_EQUAL(atomic_load(&at.handled), i);
                http_open(&at.client, at.port);
        }
        CU_ASSERT_EQUAL(weir_series_status(at.series), -ECANCELED);
        weir_series_unref(atomic_exchange(&at.series, NULL));
        end();
}

#define CROWD 8

static void
open_many(struct http_client clients[CROWD])
{
        int before = atomic_load(&at.handled);

        for (int i = 0; i < CROWD; i++) {
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], GET("/") GET("/")));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == before + CROWD);
}

static void
abandon_many(struct http_client clients[CROWD])
{
        for (int i = 0; i < CROWD; i++) {
                http_abandon(&clients[i]);
        }
        WEIR_TEST_EVENTUALLY(connections() == 1); /* the one of the fixture */
}

/* Lets the instant come at which the replies go out, which is within the next two milliseconds. */
static void
pass_the_reply(void *unused)
{
        (void)unused;
        weir_test_pass(WEIR_MSEC(2));
}

/* Resets at every moment around the reply: before; while it is written, by chance; after, when the second request waits. */
static void
reset_around_the_reply(int ignore_departure)
{
        enum { ROUNDS = WEIR_TEST_SANITIZED ? 60 : 300 };
        struct weir_test_random random = {weir_test_seed()};
        struct weir_test_thread thread;
        struct http_client clients[CROWD];
        unsigned before;

        begin_virtual_with(reply_in_50_ms, ignore_departure);
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(0); /* the clock has its descriptor now */
        before = http_open_descriptors();
        for (int i = 0; i < ROUNDS; i++) {
                int handled = atomic_load(&at.handled);

                open_many(clients);
                weir_test_pass(WEIR_MSEC(49));
                CU_ASSERT_EQUAL(atomic_load(&at.handled), handled + CROWD);
                if (i % 4 == 0) {
                        abandon_many(clients);
                } else if (i % 4 == 1) {
                        pass_the_reply(NULL);
                        CU_ASSERT_EQUAL(atomic_load(&at.handled), handled + 2 * CROWD);
                        abandon_many(clients);
                } else {
                        weir_test_thread_start(&thread, pass_the_reply, NULL);
                        weir_test_spin((int64_t)weir_test_random_below(&random, WEIR_USEC(400)));
                        abandon_many(clients);
                        weir_test_thread_join(&thread);
                }
        }
        http_close(&at.client);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        CU_ASSERT_EQUAL(http_open_descriptors(), before - 2); /* both ends of the first one */
        http_open(&at.client, at.port);
        end_virtual();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), atomic_load(&at.handled));
        CU_ASSERT_EQUAL(atomic_load(&at.ended), atomic_load(&at.handled));
}

static void
resets_around_the_reply_leave_nothing_behind(void)
{
        reset_around_the_reply(0);
}

static void
resets_around_the_reply_that_are_ignored_leave_nothing_behind(void)
{
        reset_around_the_reply(1);
}

/* Returns how many interim responses came before the reply. */
static int
receive_behind_interim(void)
{
        int count = 0;

        while (http_receive(&at.client, &at.reply, false) && at.reply.status == 100) {
                count++;
        }
        return count;
}

/* Whether it has gone altogether is tried out. */
static void
a_client_that_has_finished_sending_is_probed_and_served(void)
{
        begin_virtual(reply_in_50_ms);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/") GET("/")));
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        weir_test_pass(WEIR_MSEC(102));
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL(receive_behind_interim(), 1); /* once for each exchange */
                HTTP_ASSERT_TEXT(at.reply.body, "late\n");
        }
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end_virtual();
        CU_ASSERT_EQUAL(atomic_load(&at.last_status), 0);
}

static void
a_client_that_finishes_while_the_reply_is_delayed_is_probed_and_served(void)
{
        begin_virtual(reply_in_50_ms);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 100);
        weir_test_pass(WEIR_MSEC(51));
        CU_ASSERT_EQUAL(receive_behind_interim(), 0);
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end_virtual();
}

/* It would not know what to make of it. */
static void
a_client_of_http_1_0_that_has_finished_sending_is_served_unprobed(void)
{
        begin_virtual(reply_in_50_ms);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET / HTTP/1.0\r\n\r\n"));
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        weir_test_pass(WEIR_MSEC(51));
        CU_ASSERT_EQUAL(receive_behind_interim(), 0);
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end_virtual();
}

static void
a_reply_at_once_needs_no_probe(void)
{
        begin_virtual(free_and_reply);
        for (int i = 0; i < 50; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, i % 2 ? GET("/") : GET("/with-a-series") GET("/")));
                CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
                CU_ASSERT_EQUAL(receive_behind_interim(), 0);
                CU_ASSERT_EQUAL(at.reply.status, 200);
                CU_ASSERT(i % 2 || receive_behind_interim() == 0);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                CU_ASSERT_FALSE(at.client.reset);
                http_close(&at.client);
                http_open(&at.client, at.port);
        }
        end_virtual();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 75);
}

static void
where_departures_are_ignored_a_client_that_has_finished_sending_gets_its_replies(void)
{
        begin_virtual_with(reply_in_50_ms, 1);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/") GET("/")));
                CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 2 * i + 1);
                weir_test_pass(WEIR_MSEC(102)); /* one after the other, each on the grid */
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
                HTTP_ASSERT_TEXT(at.reply.body, "late\n");
                CU_ASSERT_TRUE(http_is_over(&at.client));
                CU_ASSERT_FALSE(at.client.reset);
                http_close(&at.client);
                http_open(&at.client, at.port);
        }
        end_virtual();
}

static void
where_departures_are_ignored_a_client_that_finishes_while_the_reply_is_delayed_gets_it(void)
{
        begin_virtual_with(reply_in_50_ms, 1);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
        weir_test_pass(WEIR_MSEC(51));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end_virtual();
}

static void
half_a_request_is_not_answered(void)
{
        static const char *const halves[] = {"", "G", "GET / HTTP/1.1\r\nHost: a\r\n",
                                             "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbod"};

        begin(reply_in_50_ms);
        for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, halves[i]));
                CU_ASSERT_EQUAL(shutdown(at.client.fd, SHUT_WR), 0);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                http_close(&at.client);
                http_open(&at.client, at.port);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_timer_delays_the_reply),
                WEIR_TEST(a_function_on_the_executor_computes_the_reply),
                WEIR_TEST(timers_of_an_exchange_end_on_a_grid_and_others_exactly),
                WEIR_TEST(many_wait_at_once),
                WEIR_TEST(a_parallel_computes_the_reply),
                WEIR_TEST(the_exchange_is_usable_in_every_callback_of_its_series),
                WEIR_TEST(a_reply_comes_back_from_callbacks_on_other_threads),
                WEIR_TEST(cancel_of_the_series_drops_the_connection),
                WEIR_TEST(another_thread_cancels_the_series),
                WEIR_TEST(another_thread_ends_the_wait_by_name),
                WEIR_TEST(a_wrong_task_is_answered_500_and_in_the_log),                    /* first, because the log is limited */
                WEIR_TEST(a_reply_that_is_not_what_was_announced_is_a_500_and_in_the_log), /* the same */
                WEIR_TEST(a_poisoned_series_is_answered_500),
                WEIR_TEST(on_free_runs_once_for_each_exchange),
                WEIR_TEST(where_departures_are_ignored_the_series_of_a_client_that_has_reset_goes_on),
                WEIR_TEST(a_reset_gives_the_descriptor_back_while_the_series_goes_on),
                WEIR_TEST(where_departures_are_ignored_the_series_of_a_client_that_has_closed_goes_on),
                WEIR_TEST(a_client_that_resets_cancels_the_series),
                WEIR_TEST(a_client_that_closes_cancels_the_series),
                WEIR_TEST(a_client_that_closes_right_behind_its_request_cancels_the_series),
                WEIR_TEST(resets_around_the_reply_leave_nothing_behind),
                WEIR_TEST(resets_around_the_reply_that_are_ignored_leave_nothing_behind),
                WEIR_TEST(a_client_that_has_finished_sending_is_probed_and_served),
                WEIR_TEST(a_client_that_finishes_while_the_reply_is_delayed_is_probed_and_served),
                WEIR_TEST(a_client_of_http_1_0_that_has_finished_sending_is_served_unprobed),
                WEIR_TEST(a_reply_at_once_needs_no_probe),
                WEIR_TEST(where_departures_are_ignored_a_client_that_has_finished_sending_gets_its_replies),
                WEIR_TEST(where_departures_are_ignored_a_client_that_finishes_while_the_reply_is_delayed_gets_it),
                WEIR_TEST(half_a_request_is_not_answered),
        };
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = POLLERS;
        if (weir_init(&config)) {
                return EXIT_FAILURE;
        }
        return weir_test_main("server_series", tests, sizeof tests / sizeof *tests);
}
