/* test/server_held_test.c: exchanges that the program holds (weir_http_ref), while their server stops, the library ends, or both.
 *
 * Neither waits for the program.  What is left for it is memory, which it may use and give back at any time.  AddressSanitizer
 * says whether that is so. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "server/exchange/held.h"
#include "test/body_fixture.h"

#define TARGET "/events?of=all"

/* -- the log -- */

static struct {
        pthread_mutex_t mutex;
        char said[8192]; /* guarded by mutex */
        atomic_int waits;
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)context;
        pthread_mutex_lock(&heard.mutex);
        size_t size = strlen(heard.said);
        snprintf(heard.said + size, sizeof heard.said - size, "%s\n", message);
        pthread_mutex_unlock(&heard.mutex);
        if (strncmp(message, "stop waits for ", 15) == 0) {
                atomic_fetch_add(&heard.waits, 1);
        }
}

static void
listen_to_log(void)
{
        pthread_mutex_lock(&heard.mutex);
        heard.said[0] = '\0';
        pthread_mutex_unlock(&heard.mutex);
        atomic_store(&heard.waits, 0);
        weir_log_set(hear, NULL);
}

static bool
was_said(const char *text)
{
        pthread_mutex_lock(&heard.mutex);
        bool was = strstr(heard.said, text);
        pthread_mutex_unlock(&heard.mutex);
        return was;
}

/* -- handlers -- */

static void
keep_and_count(weir_task *exchange, void *context)
{
        weir_task_on_free(exchange, count_free);
        keep_exchange(exchange, context);
}

/* The series of the fixture is not needed. */
static void
begin_held(int pollers)
{
        struct weir_http_server_config config = streaming();

        weir_test_begin_real(pollers);
        listen_to_log();
        serve(&config, keep_and_count);
        ask(GET(TARGET));
        weir_series_unref(atomic_exchange(&at.series, NULL));
}

static void
end_held(void)
{
        weir_log_set(NULL, NULL);
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_test_end();
}

/* All that a holder may call. */
static void
use(int expected)
{
        struct piece piece;
        weir_task *exchange = at.exchange, *more = weir_http_ref(exchange);
        int read_fails = expected == -EPIPE ? -ECONNRESET : expected;

        CU_ASSERT_PTR_EQUAL(more, exchange);
        HTTP_ASSERT_TEXT(weir_http_method(exchange), "GET");
        HTTP_ASSERT_TEXT(weir_http_target(exchange), TARGET);
        HTTP_ASSERT_TEXT(weir_http_query_value(exchange, "of"), "all");
        HTTP_ASSERT_TEXT(weir_http_request_header(exchange, "Host"), "a");
        HTTP_ASSERT_TEXT(weir_http_client_address(exchange), "127.0.0.1");
        CU_ASSERT_EQUAL(weir_http_unsent(exchange), 0);
        CU_ASSERT_EQUAL(weir_http_sse_end(exchange), -EINVAL);
        weir_task_dismiss(weir_http_write_new(exchange, "a", 1, NULL, NULL));
        if (expected == -ESHUTDOWN) {
                CU_ASSERT_EQUAL(weir_task_start(weir_http_write_new(exchange, "a", 1, NULL, NULL)), -ESHUTDOWN);
        } else {
                CU_ASSERT_EQUAL(write_text("a"), expected);
                assert_read_fails(read_fails);
                collect_begin(&piece, 0);
                CU_ASSERT_EQUAL(ended(&piece), read_fails);
        }
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 0);
        weir_http_unref(more);
}

static void
give_up_the_last(void)
{
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
}

/* -- stop and shutdown -- */

static void
a_stop_returns_although_an_exchange_is_held(void)
{
        for (int pollers = 1; pollers <= 3; pollers++) {
                begin_held(pollers);
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                use(-EPIPE);
                weir_http_server_free(at.server);
                use(-EPIPE);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                use(-ESHUTDOWN);
                give_up_the_last();
                end_held();
        }
}

static void
a_stop_within_a_limit_returns_after_it_also_when_the_client_has_gone(void)
{
        for (int i = 0; i < 2; i++) {
                begin_held(1);
                if (i) {
                        http_abandon(&at.client);
                        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
                        http_open(&at.client, at.port);
                }
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_MSEC(20)), 1);
                CU_ASSERT_TRUE(was_said(i ? "stop has cut GET " TARGET : "held by 1 reference (weir_http_ref)"));
                weir_http_server_free(at.server);
                give_up_the_last();
                end_held();
        }
}

static void
a_shutdown_returns_although_an_exchange_is_held(void)
{
        for (int i = 0; i < 8; i++) {
                begin_held(1 + i % 2);
                if (i / 2 == 1) {
                        CU_ASSERT_EQUAL(write_text("begun"), 0);
                } else if (i / 2 == 2) {
                        http_abandon(&at.client);
                        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
                        http_open(&at.client, at.port);
                }
                CU_ASSERT_FALSE(was_said("still held"));
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                CU_ASSERT_TRUE(was_said("1 exchange is still held (weir_http_ref); oldest: GET " TARGET " by 127.0.0.1:"));
                CU_ASSERT_TRUE(was_said(" ms old\n"));
                use(-ESHUTDOWN);
                if (i / 2 == 3) {
                        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0);
                }
                weir_http_server_free(at.server);
                use(-ESHUTDOWN);
                give_up_the_last();
                end_held();
        }
}

static void
it_may_be_used_in_a_later_runtime_with_fewer_pollers(void)
{
        begin_held(4);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_http_server_free(at.server);
        weir_test_begin_real(1);
        use(-EPIPE);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        give_up_the_last();
        end_held();
}

static void
a_task_that_was_not_started_keeps_it_as_a_reference_does(void)
{
        begin_held(1);
        weir_task *write = weir_http_write_new(at.exchange, "a", 1, NULL, NULL);
        weir_task *read = weir_http_read_new(at.exchange, NULL, NULL);
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        weir_http_server_free(at.server);
        CU_ASSERT_EQUAL(weir_task_run(write), -EPIPE);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 0);
        weir_task_dismiss(read);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end_held();
}

/* -- a callback that runs meanwhile -- */

static struct weir_test_latch gate;

static void
keep_and_wait(weir_task *exchange, void *context)
{
        keep_and_count(exchange, context);
        weir_test_latch_wait(&gate);
}

struct stopper {
        struct weir_test_thread thread;
        atomic_bool done;
};

static void
stop_at_once(void *stopper)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        atomic_store(&((struct stopper *)stopper)->done, true);
}

/* The stop waits for the callback, says so, and then for nothing else. */
static void
a_stop_waits_for_a_callback_and_not_for_the_reference_that_it_has_taken(void)
{
        struct weir_http_server_config config = streaming();
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        struct stopper stopper = {.done = false};

        runtime.pollers = 1;
        runtime.blocking_limit = WEIR_MSEC(1); /* another worker takes the poller over */
        CU_ASSERT_EQUAL_FATAL(weir_init(&runtime), 0);
        listen_to_log();
        weir_test_latch_init(&gate, 1);
        serve(&config, keep_and_wait);
        ask(GET(TARGET));
        weir_test_thread_start(&stopper.thread, stop_at_once, &stopper);
        WEIR_TEST_EVENTUALLY(atomic_load(&heard.waits) >= 1);
        CU_ASSERT_TRUE(was_said("stop waits for 1 exchange with a callback that has not returned\n"));
        CU_ASSERT_FALSE(atomic_load(&stopper.done));
        weir_test_latch_count_down(&gate);
        weir_test_thread_join(&stopper.thread);
        weir_http_server_free(at.server);
        weir_series_unref(atomic_exchange(&at.series, NULL));
        use(-EPIPE);
        give_up_the_last();
        end_held();
}

/* -- who holds it -- */

static void
stop_within_an_hour(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(3600)), 0);
}

static void
a_stop_that_waits_says_who_holds_what(void)
{
        struct weir_test_thread thread;

        begin_held(1);
        weir_task *second = weir_http_ref(at.exchange);
        weir_test_thread_start(&thread, stop_within_an_hour, NULL);
        WEIR_TEST_EVENTUALLY(atomic_load(&heard.waits) >= 2); /* each second one */
        CU_ASSERT_TRUE(was_said("stop waits for GET " TARGET ", "));
        CU_ASSERT_TRUE(was_said(" ms old, by 127.0.0.1:"));
        CU_ASSERT_TRUE(was_said(": 2 references are held (weir_http_ref)\n"));
        weir_http_unref(second);
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
        weir_test_thread_join(&thread);
        assert_receives(200, "");
        weir_http_server_free(at.server);
        end_held();
}

/* The whole dump. */
static const char *
dump(void)
{
        static char text[16384];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        close(ends[1]);
        ssize_t size = 0;
        for (ssize_t count; (count = read(ends[0], text + size, sizeof text - 1 - (size_t)size)) > 0;) {
                size += count;
        }
        text[size] = '\0';
        close(ends[0]);
        return text;
}

static const char *
metrics(void)
{
        static char text[65536];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT(fcntl(ends[1], F_SETPIPE_SZ, (int)sizeof text) > 0);
        CU_ASSERT_EQUAL(weir_metrics_write(ends[1]), 0);
        close(ends[1]);
        ssize_t size = 0;
        for (ssize_t count; (count = read(ends[0], text + size, sizeof text - 1 - (size_t)size)) > 0;) {
                size += count;
        }
        text[size] = '\0';
        close(ends[0]);
        return text;
}

static void
assert_is_listed(void)
{
        const char *text = dump(), *line = strstr(text, "exchanges that are held:\n  exchange \"" TARGET "\" held, ");

        CU_ASSERT_PTR_NOT_NULL(line);
        CU_ASSERT_PTR_NOT_NULL(strstr(line ? line : "", " old: GET by 127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(line ? line : "", "; 1 reference\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 1\n"));
        line = strstr(metrics(), "\nweir_http_oldest_held_exchange_seconds ");
        CU_ASSERT_PTR_NOT_NULL(line);
        CU_ASSERT(line && strtod(line + 40, NULL) > 0);
}

static void
dump_and_metrics_list_what_is_held(void)
{
        begin_held(1);
        assert_is_listed();
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        assert_is_listed();
        weir_http_server_free(at.server);
        assert_is_listed();
        give_up_the_last();
        CU_ASSERT_PTR_NULL(strstr(dump(), "held"));
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 0\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_oldest_held_exchange_seconds 0.000000000\n"));
        end_held();
}

static void
the_page_of_flows_lists_what_is_held(void)
{
        begin_held(1);
        weir_http_server *pages = http_server(NULL, weir_http_debug, NULL);
        struct http_client client;
        http_open(&client, weir_http_server_port(pages));
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_ask(&client, "GET /debug/flows HTTP/1.1\r\nHost: localhost\r\n\r\n", &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 200);
                CU_ASSERT_EQUAL(strstr(at.reply.body, "exchanges that are held</a>: 1") != NULL, i == 0);
                CU_ASSERT_EQUAL(strstr(at.reply.body, TARGET) != NULL, i == 0);
                if (i == 0) {
                        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
                        weir_http_server_free(at.server);
                        give_up_the_last();
                }
        }
        http_close(&client);
        weir_http_server_free(pages);
        end_held();
}

/* -- walks -- */

static struct {
        struct weir_test_thread thread;
        struct weir_test_latch is_shown, may_go_on;
        struct weir__held_report report;
        int shown;
} walker;

static bool
block(const struct weir__held_report *report, void *unused)
{
        (void)unused;
        walker.report = *report;
        if (walker.shown++ == 0) {
                weir_test_latch_count_down(&walker.is_shown);
                weir_test_latch_wait(&walker.may_go_on);
        }
        return false;
}

static void
walk_and_block(void *unused)
{
        weir__held_walk(NULL, block, unused);
}

/* Returns when the walk shows its first exchange, as a dump that writes into a full pipe does. */
static void
begin_walk(void)
{
        walker.shown = 0;
        weir_test_latch_init(&walker.is_shown, 1);
        weir_test_latch_init(&walker.may_go_on, 1);
        weir_test_thread_start(&walker.thread, walk_and_block, NULL);
        weir_test_latch_wait(&walker.is_shown);
}

static void
end_walk(void)
{
        weir_test_latch_count_down(&walker.may_go_on);
        weir_test_thread_join(&walker.thread);
}

static void
a_walk_that_blocks_delays_neither_the_reply_nor_the_free(void)
{
        begin_held(1);
        begin_walk();
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
        assert_receives(200, "");
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 1);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(3600)), 0);
        weir_http_server_free(at.server);
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 0\n"));
        end_walk();
        CU_ASSERT_EQUAL(walker.shown, 1);
        CU_ASSERT_STRING_EQUAL(walker.report.target, TARGET);
        end_held();
}

static void
a_walk_that_blocks_counts_as_no_reference(void)
{
        begin_held(1);
        begin_walk();
        CU_ASSERT_EQUAL(walker.report.references, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), "; 1 reference\n"));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        CU_ASSERT_TRUE(was_said("held by 1 reference (weir_http_ref)"));
        weir_http_server_free(at.server);
        give_up_the_last(); /* on this thread, and not on that of the walk */
        end_walk();
        end_held();
}

static void
drop_one_too_many(void)
{
        weir_http_unref(at.exchange);
        weir_http_unref(at.exchange);
}

static void
drop_a_timer(void)
{
        weir_http_unref(weir_timer_new(0, NULL, NULL));
}

static void
a_task_that_is_no_exchange_has_no_reference_to_drop(void)
{
        weir_http_unref(NULL);
        weir_test_aborts(drop_a_timer, "weir_http_unref: the task is no exchange, or has no reference of weir_http_ref left");
}

static void
a_reference_that_is_dropped_twice_aborts(void)
{
        begin_held(1);
        weir_task *task = weir_http_read_new(at.exchange, NULL, NULL); /* which keeps the exchange */
        weir_test_aborts(drop_one_too_many, "weir_http_unref: GET " TARGET " has no reference of weir_http_ref left");
        begin_walk();
        weir_test_aborts(drop_one_too_many, "weir_http_unref: GET " TARGET " has no reference of weir_http_ref left");
        end_walk();
        weir_task_dismiss(task);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        weir_http_server_free(at.server);
        give_up_the_last();
        end_held();
}

/* -- several -- */

#define HELD 64
#define MANY 150 /* more than a walk looks at under one hold of its lock */

static _Atomic(weir_task *) slots[MANY];
static atomic_int taken;

static void
hold_in_slot(weir_task *exchange, void *context)
{
        (void)context;
        weir_task_on_free(exchange, count_free);
        atomic_store(&slots[atomic_fetch_add(&taken, 1)], weir_http_ref(exchange));
        atomic_fetch_add(&at.handled, 1);
}

static void
drop_slot(int slot)
{
        weir_http_unref(atomic_exchange(&slots[slot], NULL));
}

/* Each has a connection.  They come one after the other, a second apart on the virtual clock. */
static void
hold_several(struct http_client *clients, int count)
{
        char request[64];

        atomic_store(&taken, 0);
        begin(hold_in_slot);
        for (int i = 0; i < count; i++) {
                snprintf(request, sizeof request, "GET /%d HTTP/1.1\r\n" HOST "\r\n", i);
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], request));
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == i + 1);
                weir_test_pass(WEIR_SEC(1));
        }
}

static void
end_several(struct http_client *clients, int count)
{
        for (int i = 0; i < count; i++) {
                drop_slot(i);
                http_close(&clients[i]);
        }
        end();
}

struct shown {
        int count, drop; /* as many at each that is shown, and all but the last one at the first */
        int targets[MANY];
};

static bool
note(const struct weir__held_report *report, void *context)
{
        struct shown *shown = context;

        shown->targets[shown->count++] = atoi(report->target + 1);
        for (int i = 0; i < shown->drop; i++) {
                drop_slot(i);
        }
        return false;
}

static void
the_oldest_come_first_whenever_they_were_referred_to(void)
{
        struct http_client clients[3];
        struct shown shown = {.drop = 0};

        hold_several(clients, 3);
        weir_task *read = weir_http_read_new(slots[0], NULL, NULL), *oldest = slots[0]; /* it keeps the exchange */
        drop_slot(0);
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 2\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_oldest_held_exchange_seconds 2.000000000\n"));
        atomic_store(&slots[0], weir_http_ref(oldest));
        weir_task_dismiss(read);
        weir__held_walk(NULL, note, &shown);
        CU_ASSERT_EQUAL(shown.count, 3);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(shown.targets[i], i);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 3\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_oldest_held_exchange_seconds 3.000000000\n"));
        end_several(clients, 3);
}

static void
a_walk_shows_each_exchange_once_and_goes_on_when_that_where_it_was_is_dropped(void)
{
        static struct http_client clients[MANY];

        for (int drop = 0; drop < MANY; drop += MANY - 1) {
                struct shown shown = {.drop = drop};

                hold_several(clients, MANY);
                weir__held_walk(NULL, note, &shown);
                CU_ASSERT_EQUAL(shown.count, drop ? 2 : MANY);
                for (int i = 0; i < shown.count; i++) {
                        CU_ASSERT_EQUAL(shown.targets[i], drop ? i * drop : i);
                }
                end_several(clients, MANY);
        }
}

/* What is held later might keep a walk busy for ever. */
static bool
hold_one_more(const struct weir__held_report *report, void *client)
{
        (void)report;
        CU_ASSERT_EQUAL_FATAL(atomic_load(&taken), 1);
        CU_ASSERT_TRUE(http_send_text(client, GET("/later")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 2);
        return false;
}

static void
a_walk_leaves_out_what_is_held_since_it_began(void)
{
        struct http_client clients[2];

        hold_several(clients, 1);
        http_open(&clients[1], at.port);
        weir__held_walk(NULL, hold_one_more, &clients[1]);
        CU_ASSERT_PTR_NOT_NULL(strstr(metrics(), "\nweir_http_held_exchanges 2\n"));
        end_several(clients, 2);
}

/* -- a storm -- */

static atomic_bool is_storm_over;

static bool
pass_over(const struct weir__held_report *report, void *unused)
{
        (void)unused;
        CU_ASSERT(report->references >= 1 && report->target[0] == '/');
        return false;
}

static void
walk_always(void *unused)
{
        while (!atomic_load(&is_storm_over)) {
                weir__held_walk(NULL, pass_over, unused);
        }
}

/* Some have a series that waits, some have ended, some write. */
static void
hold_some(weir_task *exchange, void *context)
{
        int slot = atomic_fetch_add(&taken, 1);

        (void)context;
        weir_task_on_free(exchange, count_free);
        if (slot % 3 == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(slot % 7), NULL, NULL));
        }
        if (slot < HELD) {
                atomic_store(&slots[slot], weir_http_ref(exchange));
        }
        atomic_fetch_add(&at.handled, 1);
}

static void
drop_at_random(void *seed)
{
        struct weir_test_random random = {*(uint64_t *)seed};
        int left = HELD / 2;

        while (left > 0 || !atomic_load(&is_storm_over)) {
                weir_task *exchange = atomic_exchange(&slots[weir_test_random_below(&random, HELD)], NULL);

                if (!exchange) {
                        left -= atomic_load(&is_storm_over);
                        continue;
                }
                if (weir_test_random_below(&random, 2)) {
                        weir_task_start(weir_http_write_new(exchange, "a", 1, NULL, NULL));
                }
                if (weir_test_random_below(&random, 4) == 0) {
                        weir_http_unref(weir_http_ref(exchange));
                }
                weir_test_spin((int64_t)weir_test_random_below(&random, 200000));
                weir_http_unref(exchange);
        }
}

static void
references_are_dropped_while_the_server_stops(void)
{
        const int rounds = WEIR_TEST_SANITIZED ? 40 : 120;

        for (int i = 0; i < rounds; i++) {
                struct weir_http_server_config config = streaming();
                struct weir_test_random random = {weir_test_seed() + (uint64_t)i};
                struct weir_test_thread droppers[2], walkers[2];
                uint64_t seeds[2] = {weir_test_random(&random), weir_test_random(&random)};
                struct http_client clients[HELD / 4];

                weir_test_begin_real(2);
                weir_log_set(NULL, NULL);
                atomic_store(&taken, 0);
                atomic_store(&is_storm_over, false);
                serve(&config, hold_some);
                for (int k = 0; k < HELD / 4; k++) {
                        http_open(&clients[k], at.port);
                        CU_ASSERT_TRUE(http_send_text(&clients[k], GET("/") GET("/") GET("/")));
                }
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) >= HELD / 4);
                for (int k = 0; k < 2; k++) {
                        weir_test_thread_start(&droppers[k], drop_at_random, &seeds[k]);
                        weir_test_thread_start(&walkers[k], walk_always, NULL);
                }
                weir_test_spin((int64_t)weir_test_random_below(&random, 2000000));
                for (int k = 0; k < HELD / 4; k += 3) {
                        http_abandon(&clients[k]);
                }
                bool is_shut_down = i % 2;
                if (is_shut_down) {
                        CU_ASSERT_EQUAL(weir_shutdown(), 0);
                } else {
                        CU_ASSERT(weir_http_server_stop(at.server, (weir_nsec)weir_test_random_below(&random, 3000000)) >= 0);
                }
                weir_http_server_free(at.server);
                atomic_store(&is_storm_over, true);
                for (int k = 0; k < 2; k++) {
                        weir_test_thread_join(&droppers[k]);
                        weir_test_thread_join(&walkers[k]);
                }
                for (int k = 0; k < HELD; k++) {
                        weir_http_unref(atomic_exchange(&slots[k], NULL));
                }
                for (int k = 0; k < HELD / 4; k++) {
                        if (k % 3) {
                                http_close(&clients[k]);
                        }
                }
                http_close(&at.client);
                weir_test_end();
                CU_ASSERT_EQUAL(atomic_load(&at.freed), atomic_load(&at.handled));
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_stop_returns_although_an_exchange_is_held),
                WEIR_TEST(a_stop_within_a_limit_returns_after_it_also_when_the_client_has_gone),
                WEIR_TEST(a_shutdown_returns_although_an_exchange_is_held),
                WEIR_TEST(it_may_be_used_in_a_later_runtime_with_fewer_pollers),
                WEIR_TEST(a_task_that_was_not_started_keeps_it_as_a_reference_does),
                WEIR_TEST(a_stop_waits_for_a_callback_and_not_for_the_reference_that_it_has_taken),
                WEIR_TEST(a_stop_that_waits_says_who_holds_what),
                WEIR_TEST(dump_and_metrics_list_what_is_held),
                WEIR_TEST(the_page_of_flows_lists_what_is_held),
                WEIR_TEST(a_walk_that_blocks_delays_neither_the_reply_nor_the_free),
                WEIR_TEST(a_walk_that_blocks_counts_as_no_reference),
                WEIR_TEST(a_task_that_is_no_exchange_has_no_reference_to_drop),
                WEIR_TEST(a_reference_that_is_dropped_twice_aborts),
                WEIR_TEST(the_oldest_come_first_whenever_they_were_referred_to),
                WEIR_TEST(a_walk_shows_each_exchange_once_and_goes_on_when_that_where_it_was_is_dropped),
                WEIR_TEST(a_walk_leaves_out_what_is_held_since_it_began),
                WEIR_TEST(references_are_dropped_while_the_server_stops),
        };

        return weir_test_main("server_held", tests, sizeof tests / sizeof *tests);
}
