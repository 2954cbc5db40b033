/* test/blocking_test.c: callbacks that block, have lost their poller to the watchdog meanwhile, and end.
 *
 * There is one poller, so all other work goes on on another worker.  A latch holds the callback until the test has seen enough,
 * or the callback waits for the loss of its poller. */
#include "test/blocking_fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "test/http_client.h"

#define BEHIND 200
#define LEFT   5000 /* more than a new owner sorts */
#define BURST  64

/* -- work that goes on meanwhile -- */

static void
timers_completions_and_series_go_on_while_a_callback_blocks(void)
{
        struct weir_test_record timer = {0}, later = {0}, empty = {0}, parts[3] = {{0}}, whole = {0};
        struct weir_test_gate gate;

        weir_test_begin_blocking(0);
        weir_test_gate_hold(&gate, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(0, &timer)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_MSEC(3), &later)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&empty)), 0);
        weir_series *series = weir_series_new(weir_test_series_done, &whole);
        for (unsigned i = 0; i < 3; i++) {
                weir_series_push(series, weir_test_timer(WEIR_USEC(100) * i, &parts[i]));
        }
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        weir_test_wait_freed(&timer);
        weir_test_wait_freed(&later);
        weir_test_wait_freed(&empty);
        WEIR_TEST_CALLED(&timer, 0);
        WEIR_TEST_CALLED(&later, 0);
        WEIR_TEST_CALLED(&empty, 0);
        CU_ASSERT_EQUAL(whole.calls, 1);
        CU_ASSERT_EQUAL(gate.record.calls, 0);
        weir_test_gate_open(&gate);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT(!pthread_equal(gate.record.on, timer.on));
}

struct behind {
        struct weir_test_gate gate; /* first */
        struct weir_test_record ready[LEFT], cancelled[LEFT];
};

/* Leaves work on the ready list and a bulk delivery behind itself. */
static void
leave_much_behind(weir_task *task, void *context)
{
        struct behind *behind = context;

        for (unsigned i = 0; i < LEFT; i++) {
                weir_task_start(weir_test_empty(&behind->ready[i]));
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("many", WEIR_ALL), LEFT);
        weir_test_stop_at_gate(task, context);
}

static void
work_that_was_ready_behind_a_callback_that_blocks_is_run(void)
{
        static struct behind behind;

        memset(&behind, 0, sizeof behind);
        weir_test_begin_blocking(0);
        weir_test_gate_init(&behind.gate);
        for (unsigned i = 0; i < LEFT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("many", WEIR_TEST_FAR, &behind.cancelled[i])), 0);
        }
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_empty_new(leave_much_behind, &behind))), 0);
        for (unsigned i = 0; i < LEFT; i++) {
                weir_test_wait_freed(&behind.ready[i]);
                weir_test_wait_freed(&behind.cancelled[i]);
                WEIR_TEST_CALLED(&behind.ready[i], 0);
                WEIR_TEST_CALLED(&behind.cancelled[i], -ECANCELED);
        }
        CU_ASSERT_EQUAL(behind.gate.record.calls, 0);
        weir_test_gate_open(&behind.gate);
        weir_test_end();
        WEIR_TEST_CALLED(&behind.gate.record, 0);
}

static struct weir_test_latch all_begun;

static void
wait_for_the_others(weir_task *task, void *context)
{
        weir_test_latch_count_down(&all_begun);
        weir_test_latch_wait(&all_begun);
        weir_test_done(task, context);
}

static void
start_a_burst(void *records)
{
        for (unsigned i = 0; i < BURST; i++) {
                weir_task_start(
                        weir_test_recorded(weir_empty_new(wait_for_the_others, &((struct weir_test_record *)records)[i])));
        }
}

/* None of them ends before all have begun, so each needs a worker of its own. */
static void
each_of_a_burst_of_callbacks_that_block_gets_a_worker(void)
{
        struct weir_test_record records[BURST] = {{0}};

        weir_test_begin_blocking(BURST);
        weir_test_latch_init(&all_begun, BURST);
        weir_test_act(0, start_a_burst, records);
        for (unsigned i = 0; i < BURST; i++) {
                weir_test_wait_freed(&records[i]);
                WEIR_TEST_CALLED(&records[i], 0);
        }
        weir_test_end();
}

/* -- a burst of timers, on a poller with a descriptor: they are in the queue when the first one blocks -- */

#define INNOCENTS 40

static struct {
        struct weir__source source;
        _Atomic unsigned begun, ended, innocents, in_time; /* the last: those that ran when one had begun */
} expired;

static void
ignore_event(struct weir__source *source, uint32_t events)
{
        (void)source;
        (void)events;
}

static void
ignore(struct weir__source *source)
{
        (void)source;
}

static const struct weir__source_ops idle_ops = {ignore_event, ignore, ignore};

static void
expire_and_block(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add(&expired.begun, 1);
        weir_test_lose_poller();
        atomic_fetch_add(&expired.ended, 1);
}

static void
expire_innocently(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add(&expired.in_time, atomic_load(&expired.begun) == 1);
        atomic_fetch_add(&expired.innocents, 1);
}

static void
start_timers_behind_a_source(void *unused)
{
        weir_nsec at = weir_now() + WEIR_MSEC(20);

        (void)unused;
        expired.source.ops = &idle_ops;
        expired.source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        CU_ASSERT_EQUAL(weir__source_add(weir__poller_at(0), &expired.source, EPOLLIN | EPOLLET), 0);
        for (unsigned i = 0; i < BURST; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(at - weir_now(), expire_and_block, NULL)), 0);
        for (unsigned i = 0; i < INNOCENTS; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(at - weir_now(), expire_innocently, NULL)), 0);
}

/* Callbacks of its kind are deferred, though most were not ready yet, so the others have their turn first.  All have about one
 * deadline: on a busy machine some may be due a little later. */
static void
a_burst_of_timers_that_block_is_deferred_as_a_whole(void)
{
        expired.begun = expired.ended = expired.innocents = expired.in_time = 0;
        weir_test_begin_blocking(BURST);
        weir_test_act(0, start_timers_behind_a_source, NULL);
        WEIR_TEST_EVENTUALLY(expired.ended == BURST && expired.innocents == INNOCENTS);
        CU_ASSERT(expired.in_time > INNOCENTS / 2);
        weir_test_end();
        close(expired.source.fd);
}

/* -- exchanges -- */

static struct weir_test_latch handler_begun, handler_opened;
static _Atomic unsigned exchanges_freed;

static void
count_exchange(void *unused)
{
        (void)unused;
        atomic_fetch_add(&exchanges_freed, 1);
}

#define NUMBERS (LEFT + 1000)

/* The callback of the writes is the one that gives its poller away, too.  Theirs have no exchange. */
static void
write_numbers(weir_task *write, void *exchange)
{
        char text[16];

        (void)write;
        for (int i = 0; exchange && i < NUMBERS; i++) {
                if (i == LEFT) {
                        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
                }
                int size = snprintf(text, sizeof text, "%d\n", i);
                weir_task_start(weir_http_write_new(exchange, text, (size_t)size, i % 2 ? write_numbers : NULL, NULL));
        }
}

static void
handle(weir_task *exchange, void *unused)
{
        const char *target = weir_http_target(exchange);

        (void)unused;
        weir_task_on_free(exchange, count_exchange);
        if (strcmp(target, "/numbers") == 0) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, write_numbers, exchange));
                return;
        }
        if (strcmp(target, "/wait") == 0 || strcmp(target, "/wait-for-long") == 0) {
                weir_test_latch_count_down(&handler_begun);
                weir_test_latch_wait(&handler_opened);
                if (target[5]) {
                        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_TEST_FAR, NULL, NULL));
                }
        } else if (strcmp(target, "/lose") == 0) {
                weir_test_lose_poller();
        } else if (strcmp(target, "/later") == 0) {
                weir_test_lose_poller();
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(1), NULL, NULL));
        } else if (strcmp(target, "/drop") == 0) {
                weir_test_lose_poller();
                weir_series_cancel(weir_series_of(exchange));
        }
        weir_http_reply_text(exchange, 200, target);
}

#define REQUEST(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static void
expect_reply(struct http_client *client, const char *body)
{
        struct http_reply reply = {0};

        CU_ASSERT_TRUE(http_receive(client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 200);
        HTTP_ASSERT_TEXT(reply.body, body);
        http_reply_done(&reply);
}

static weir_http_server *
serve(struct http_client *client)
{
        weir_test_latch_init(&handler_begun, 1);
        weir_test_latch_init(&handler_opened, 1);
        exchanges_freed = 0;
        weir_http_server *server = http_server(NULL, handle, NULL);
        http_open(client, weir_http_server_port(server));
        return server;
}

static weir_http_server *
begin_serving(struct http_client *client)
{
        weir_test_begin_blocking(0);
        return serve(client);
}

static void
end_serving(weir_http_server *server)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_TEST_PATIENCE), 0);
        weir_http_server_free(server);
        weir_test_end();
}

static void
exchanges_go_on_while_a_callback_blocks(void)
{
        struct weir_test_gate gate;
        struct http_client client;
        weir_http_server *server = begin_serving(&client);

        weir_test_gate_hold(&gate, NULL);
        http_send_text(&client, REQUEST("/one") REQUEST("/two"));
        expect_reply(&client, "/one");
        expect_reply(&client, "/two");
        CU_ASSERT_EQUAL(gate.record.calls, 0);
        weir_test_gate_open(&gate);
        http_close(&client);
        end_serving(server);
        WEIR_TEST_CALLED(&gate.record, 0);
}

static void
exchanges_go_on_while_a_handler_blocks(void)
{
        struct http_client slow, quick;
        weir_http_server *server = begin_serving(&slow);

        http_open(&quick, weir_http_server_port(server));
        http_send_text(&slow, REQUEST("/wait") REQUEST("/behind"));
        weir_test_latch_wait(&handler_begun);
        http_send_text(&quick, REQUEST("/quick"));
        expect_reply(&quick, "/quick");
        weir_test_latch_count_down(&handler_opened);
        expect_reply(&slow, "/wait");
        expect_reply(&slow, "/behind");
        http_close(&slow);
        http_close(&quick);
        end_serving(server);
        CU_ASSERT_EQUAL(exchanges_freed, 3);
}

static void
replies_of_handlers_that_have_lost_their_poller_come_in_order(void)
{
        struct http_client client;
        weir_http_server *server = begin_serving(&client);

        http_send_text(&client, REQUEST("/lose") REQUEST("/later") REQUEST("/at-once") REQUEST("/lose"));
        expect_reply(&client, "/lose");
        expect_reply(&client, "/later");
        expect_reply(&client, "/at-once");
        expect_reply(&client, "/lose");
        http_send_text(&client, REQUEST("/drop"));
        CU_ASSERT_TRUE(http_is_over(&client));
        http_close(&client);
        end_serving(server);
        CU_ASSERT_EQUAL(exchanges_freed, 5);
}

static void
writes_of_a_callback_that_gives_its_poller_away_go_out_in_order(void)
{
        struct http_client client;
        struct http_reply reply = {0};

        weir_test_begin_unwatched(0);
        weir_http_server *server = serve(&client);

        http_send_text(&client, REQUEST("/numbers"));
        CU_ASSERT_TRUE_FATAL(http_receive(&client, &reply, false));
        char *at = reply.body;
        for (int i = 0; i < NUMBERS; i++) {
                CU_ASSERT_EQUAL_FATAL(strtol(at, &at, 10), i);
        }
        CU_ASSERT_STRING_EQUAL(at, "\n");
        http_reply_done(&reply);
        http_close(&client);
        end_serving(server);
}

static void
exchange_of_a_client_that_has_gone_while_its_handler_blocks_is_freed(void)
{
        struct http_client client, other;
        weir_http_server *server = begin_serving(&client);

        http_send_text(&client, REQUEST("/wait"));
        weir_test_latch_wait(&handler_begun);
        http_abandon(&client);
        http_open(&other, weir_http_server_port(server));
        http_send_text(&other, REQUEST("/"));
        expect_reply(&other, "/"); /* so that the other end has been heard of */
        http_close(&other);
        weir_test_latch_count_down(&handler_opened);
        end_serving(server);
        CU_ASSERT_EQUAL(exchanges_freed, 2);
}

static void
stop_of_a_server(void *server)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(server, 0), 1);
}

static void
exchange_that_is_cut_while_its_handler_blocks_is_freed_and_what_it_pushes_is_dropped(void)
{
        struct weir_test_thread stopper;
        struct http_client client;
        weir_http_server *server = begin_serving(&client);

        http_send_text(&client, REQUEST("/wait-for-long"));
        weir_test_latch_wait(&handler_begun);
        weir_test_thread_start(&stopper, stop_of_a_server, server);
        CU_ASSERT_TRUE(http_is_over(&client)); /* that was cut, and the stop waits for the handler */
        CU_ASSERT_EQUAL(exchanges_freed, 0);
        weir_test_latch_count_down(&handler_opened);
        weir_test_thread_join(&stopper);
        CU_ASSERT_EQUAL(exchanges_freed, 1);
        http_close(&client);
        weir_http_server_free(server);
        weir_test_end();
}

/* -- the end of a callback that has lost its poller -- */

static weir_task *
losing(struct weir_test_record *record)
{
        return weir_test_recorded(weir_timer_new(0, weir_test_lose_and_note, record));
}

static void
task_ends_where_its_callback_has_lost_the_poller(void)
{
        struct weir_test_record record = {0}, empty = {0}, shut = {0};

        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_task_run(losing(&record)), 0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT(pthread_equal(record.on, record.freed_on));
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_empty_new(weir_test_lose_and_note, &empty))), 0);
        WEIR_TEST_CALLED(&empty, 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_FOREVER, weir_test_lose_and_note, &shut))), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&shut, -ESHUTDOWN);
}

static void
series_goes_on_when_its_callbacks_have_lost_the_poller(void)
{
        struct weir_test_record parts[4] = {{0}}, whole = {0};
        _Atomic unsigned order = 0;
        weir_series *series = weir_series_new(weir_test_lose_and_note_series, &whole);

        weir_test_begin_blocking(0);
        weir_series_set_context(series, &whole, weir_test_lose_and_note_free);
        for (unsigned i = 0; i < 4; i++) {
                weir_task *task = i % 2 ? losing(&parts[i]) : weir_empty_new(weir_test_lose_and_note, &parts[i]);

                parts[i].counter = &order;
                weir_task_on_free(task, weir_test_lose_and_note_free);
                weir_series_push(series, task);
        }
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&parts[i], 0);
                CU_ASSERT_EQUAL(parts[i].order, i);
        }
        WEIR_TEST_CALLED(&whole, 0);
        weir_test_end();
}

static void
parallel_ends_when_its_children_have_lost_the_poller(void)
{
        struct weir_test_record children[5] = {{0}}, whole = {0};
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_lose_and_note, &whole));

        weir_test_begin_blocking(0);
        for (unsigned i = 0; i < 5; i++) {
                weir_parallel_add(parallel, losing(&children[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&children[i], 0);
        }
        WEIR_TEST_CALLED(&whole, 0);
        weir_test_end();
}

static void
name_is_reaped_when_the_callback_has_lost_the_poller(void)
{
        struct weir_test_record cancelled = {0};
        struct weir_test_gate gate;
        struct weir_test_record behind = {0};

        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(
                                weir_timer_new_named("reaped", WEIR_TEST_FAR, weir_test_lose_and_note, &cancelled))),
                        0);
        CU_ASSERT_EQUAL(weir_timer_cancel("reaped", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("reaped", 0), 0);
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        weir_test_gate_hold(&gate, "reaped");
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&behind)), 0); /* so that the poller is lost */
        CU_ASSERT_EQUAL(weir_timer_count("reaped"), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("reaped", WEIR_ALL), 0);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("reaped", 0), 0);
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT_EQUAL(weir_timer_count("reaped"), 0);
        weir_test_end();
}

struct ticks {
        struct weir_test_record record; /* first */
        unsigned count, cancel_at;
};

static void
tick(weir_task *task, void *context)
{
        struct ticks *ticks = context;

        weir_test_lose_poller();
        if (weir_task_status(task) != -EINPROGRESS) {
                weir_test_done(task, context);
        } else if (++ticks->count == ticks->cancel_at) {
                CU_ASSERT_EQUAL(weir_timer_cancel("ticks", WEIR_ALL), 1);
        }
}

static void
ticker_goes_on_when_its_ticks_have_lost_the_poller(void)
{
        for (enum weir_tick_policy policy = WEIR_TICK_SKIP; policy <= WEIR_TICK_DELAY; policy++) {
                struct ticks ticks = {0}, cancelled = {.cancel_at = 2};

                weir_test_begin_blocking(0);
                weir_task *ticker = weir_test_recorded(weir_ticker_new(WEIR_USEC(100), policy, tick, &ticks));
                weir_ticker_set_limit(ticker, 4);
                CU_ASSERT_EQUAL(weir_task_run(ticker), 0);
                CU_ASSERT_EQUAL(ticks.count, 4);
                WEIR_TEST_CALLED(&ticks.record, 0);
                ticker = weir_test_recorded(weir_ticker_new_named("ticks", WEIR_USEC(100), policy, tick, &cancelled));
                CU_ASSERT_EQUAL(weir_task_run(ticker), -ECANCELED);
                CU_ASSERT_EQUAL(cancelled.count, 2);
                WEIR_TEST_CALLED(&cancelled.record, -ECANCELED);
                CU_ASSERT_EQUAL(weir_timer_count("ticks"), 0);
                weir_test_end();
        }
}

/* -- calls that it may still make -- */

struct calls {
        struct weir_test_record cancelled, reset, by_id, started, pushed, dismissed, series, many[BEHIND];
        weir_timer_id id;
};

static void
call_this_and_that(weir_task *task, void *context)
{
        struct calls *calls = context;
        weir_series *series = weir_series_new(weir_test_series_done, &calls->series);

        weir_test_lose_poller();
        CU_ASSERT_PTR_NULL(weir__pin()); /* what belongs to an owner is not touched */
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("reset", 0), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(calls->id), 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_USEC(1), &calls->started)), 0);
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), weir_test_timer(0, &calls->pushed)), 0);
        weir_task_dismiss(weir_test_timer(0, &calls->dismissed));
        for (unsigned i = 0; i < BEHIND; i++) {
                weir_series_push(series, weir_test_empty(&calls->many[i]));
        }
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
}

static void
calls_of_a_callback_that_has_lost_its_poller_work(void)
{
        static struct calls calls;

        memset(&calls, 0, sizeof calls);
        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("cancelled", WEIR_TEST_FAR, &calls.cancelled)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("reset", WEIR_TEST_FAR, &calls.reset)), 0);
        weir_task *timer = weir_test_timer(WEIR_TEST_FAR, &calls.by_id);
        calls.id = weir_timer_id_of(timer);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, call_this_and_that, &calls)), 0);
        WEIR_TEST_CALLED(&calls.pushed, 0);
        WEIR_TEST_NOT_CALLED(&calls.dismissed);
        weir_test_wait_freed(&calls.started);
        weir_test_wait_freed(&calls.reset);
        WEIR_TEST_EVENTUALLY(calls.series.calls == 1);
        weir_test_end();
        WEIR_TEST_CALLED(&calls.cancelled, -ECANCELED);
        WEIR_TEST_CALLED(&calls.by_id, -ECANCELED);
        WEIR_TEST_CALLED(&calls.reset, 0);
        WEIR_TEST_CALLED(&calls.started, 0);
        for (unsigned i = 0; i < BEHIND; i++) {
                WEIR_TEST_CALLED(&calls.many[i], 0);
        }
}

/* -- free functions -- */

static void
free_at_gate(void *context)
{
        struct weir_test_gate *gate = context;

        weir_test_latch_count_down(&gate->begun);
        weir_test_latch_wait(&gate->opened);
        weir_test_freed(context);
}

static void
end_at_gate(weir_series *series, void *context)
{
        struct weir_test_gate *gate = context;

        weir_test_latch_count_down(&gate->begun);
        weir_test_latch_wait(&gate->opened);
        weir_test_series_done(series, context);
}

static void
expect_that_others_run(struct weir_test_gate *gate)
{
        struct weir_test_record other = {0};

        weir_test_latch_wait(&gate->begun);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(0, &other)), 0);
        WEIR_TEST_CALLED(&other, 0);
        CU_ASSERT_EQUAL(gate->record.frees, 0);
        weir_test_gate_open(gate);
}

static void
free_functions_and_callbacks_of_series_that_block_hold_up_nobody(void)
{
        struct weir_test_gate task, series, context;

        weir_test_begin_blocking(0);
        weir_test_gate_init(&task);
        weir_task *timer = weir_timer_new(0, weir_test_done, &task);
        weir_task_on_free(timer, free_at_gate);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        expect_that_others_run(&task);
        weir_test_gate_init(&series);
        CU_ASSERT_EQUAL(weir_series_start(weir_series_new(end_at_gate, &series)), 0);
        expect_that_others_run(&series);
        weir_test_gate_init(&context);
        weir_series *freed = weir_series_new(NULL, NULL);
        weir_series_set_context(freed, &context, free_at_gate);
        CU_ASSERT_EQUAL(weir_series_start(freed), 0);
        expect_that_others_run(&context);
        weir_test_end();
        WEIR_TEST_CALLED(&task.record, 0);
        CU_ASSERT_EQUAL(series.record.calls, 1);
        CU_ASSERT_EQUAL(context.record.frees, 1);
}

/* -- the cost when nothing blocks -- */

#define LIMIT  WEIR_MSEC(40)
#define WINDOW WEIR_MSEC(200) /* in which it could look ten times */

static _Atomic bool rounds_end;

static void
go_round(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        if (!atomic_load(&rounds_end)) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_USEC(200), go_round, NULL)), 0);
        }
}

/* On a machine that is busy otherwise workers come round late, but not all the time. */
static bool
the_watchdog_sleeps_for_a_while(void)
{
        unsigned threads;
        unsigned long before = weir_test_sleeps("weir/watchdog", &threads);

        weir_test_sleep(WINDOW);
        return weir_test_sleeps("weir/watchdog", &threads) - before < 3;
}

static void
worker_that_goes_round_does_not_wake_the_watchdog(void)
{
        struct weir_config config = weir_test_blocking_config(1, 0);
        unsigned threads;

        config.blocking_limit = LIMIT;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        atomic_store(&rounds_end, false);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, go_round, NULL)), 0);
        WEIR_TEST_EVENTUALLY(weir_test_sleeps("weir/watchdog", &threads) > 0 && threads == 1);
        WEIR_TEST_EVENTUALLY(the_watchdog_sleeps_for_a_while());
        atomic_store(&rounds_end, true);
        weir_test_end();
}

/* -- shutdown -- */

static void
shutdown_waits_for_callbacks_that_block(void)
{
        struct weir_test_record pending = {0};
        struct weir_test_thread shutdown;
        struct weir_test_gate gates[3];

        weir_test_begin_blocking(0);
        for (unsigned i = 0; i < 3; i++) {
                weir_test_gate_hold(&gates[i], NULL);
        }
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_FOREVER, &pending)), 0);
        weir_test_shutdown_begin(&shutdown);
        weir_test_wait_freed(&pending); /* although callbacks block */
        WEIR_TEST_CALLED(&pending, -ESHUTDOWN);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(NULL, NULL)), -ESHUTDOWN);
                weir_test_gate_open(&gates[i]);
                weir_test_wait_freed(&gates[i].record);
        }
        weir_test_thread_join(&shutdown);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&gates[i].record, 0);
        }
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/", NULL), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(timers_completions_and_series_go_on_while_a_callback_blocks),
                WEIR_TEST(work_that_was_ready_behind_a_callback_that_blocks_is_run),
                WEIR_TEST(each_of_a_burst_of_callbacks_that_block_gets_a_worker),
                WEIR_TEST(a_burst_of_timers_that_block_is_deferred_as_a_whole),
                WEIR_TEST(exchanges_go_on_while_a_callback_blocks),
                WEIR_TEST(exchanges_go_on_while_a_handler_blocks),
                WEIR_TEST(replies_of_handlers_that_have_lost_their_poller_come_in_order),
                WEIR_TEST(writes_of_a_callback_that_gives_its_poller_away_go_out_in_order),
                WEIR_TEST(exchange_of_a_client_that_has_gone_while_its_handler_blocks_is_freed),
                WEIR_TEST(exchange_that_is_cut_while_its_handler_blocks_is_freed_and_what_it_pushes_is_dropped),
                WEIR_TEST(task_ends_where_its_callback_has_lost_the_poller),
                WEIR_TEST(series_goes_on_when_its_callbacks_have_lost_the_poller),
                WEIR_TEST(parallel_ends_when_its_children_have_lost_the_poller),
                WEIR_TEST(name_is_reaped_when_the_callback_has_lost_the_poller),
                WEIR_TEST(ticker_goes_on_when_its_ticks_have_lost_the_poller),
                WEIR_TEST(calls_of_a_callback_that_has_lost_its_poller_work),
                WEIR_TEST(free_functions_and_callbacks_of_series_that_block_hold_up_nobody),
                WEIR_TEST(worker_that_goes_round_does_not_wake_the_watchdog),
                WEIR_TEST(shutdown_waits_for_callbacks_that_block),
        };

        return weir_test_main("blocking", tests, sizeof tests / sizeof *tests);
}
