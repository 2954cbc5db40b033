/* test/debug_test.c: the dump shows what is alive, in the right words. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "factory/inspect/debug.h"
#include "factory/task/live.h"
#include "kernel/memory/sanitized.h"
#include "test/fixture.h"
#include "test/http_client.h"

/* -- the allocator: the linker puts these in front of it (test/CMakeLists.txt) -- */

void *__real_malloc(size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *block, size_t size);

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
__wrap_realloc(void *block, size_t size)
{
        return refuse() ? NULL : __real_realloc(block, size);
}

/* -- a dump, as a text -- */

static struct weir__memory_sink sink;

static const char *
dump(void)
{
        free(sink.bytes);
        weir__memory_sink_init(&sink);
        CU_ASSERT_EQUAL(weir__debug_print(&sink.sink), 0);
        return sink.bytes;
}

/* Checks that the dump has the lines, one after another, and the indentation of each as given. */
static void
check_dump(const char *lines)
{
        const char *text = dump();

        if (!strstr(text, lines))
                fprintf(stderr, "expected:\n%s\nfound:\n%s\n", lines, text);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines));
}

static unsigned
count_of(const char *text, const char *part)
{
        unsigned count = 0;

        for (; (text = strstr(text, part)); text += strlen(part))
                count++;
        return count;
}

static void
end(void)
{
        weir_test_end();
        CU_ASSERT_EQUAL(weir__live_count(), 0);
        dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "callbacks that run: none\nseries: none\ntimers in no series: none\n"
                                                  "waited at: none\nfunctions: none\n"));
        weir__memory_sink_done(&sink);
}

static weir_task *
timer(const char *name, weir_nsec after)
{
        return name ? weir_timer_new_named(name, after, NULL, NULL) : weir_timer_new(after, NULL, NULL);
}

static void
before_the_start_there_is_nothing(void)
{
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), ": not started, 0 pollers, 0 workers"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "series: none\n"));
        weir__memory_sink_done(&sink);
}

static void
what_was_made_and_not_started_is_counted(void)
{
        weir_task *tasks[] = {timer("a", WEIR_SEC(60)), timer(NULL, WEIR_SEC(60)), weir_promise_new(NULL, NULL, NULL)};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_task_start(timer("b", WEIR_SEC(60)));
        if (!WEIR__SANITIZED_THREAD) /* nothing knows the blocks there */
                CU_ASSERT_PTR_NOT_NULL(strstr(dump(), " series, 4 made and not started, virtual clock\n"));
        for (unsigned i = 0; i < 3; i++)
                weir_task_dismiss(tasks[i]);
        weir_series_dismiss(series);
        CU_ASSERT_PTR_NULL(strstr(dump(), "not started"));
        weir_test_pass(WEIR_SEC(60));
        end();
}

/* -- series -- */

static void
a_series_has_name_age_deadline_and_tasks_behind(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_set_name(series, "checkout");
        weir_series_set_deadline(series, WEIR_SEC(90));
        weir_series_push(series, timer("pay", WEIR_SEC(60)));
        weir_series_push(series, weir_empty_new(NULL, NULL));
        weir_series_push(series, weir_empty_new(NULL, NULL));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(20));
        check_dump("series:\n"
                   "  series \"checkout\" running, 20.0 s old, deadline in 1 min 10 s: 2 tasks behind\n"
                   "    timer \"pay\" pending: due in 40.0 s\n");
        weir_series_push(series, weir_empty_new(NULL, NULL));
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), ": 3 tasks behind\n"));
        CU_ASSERT_EQUAL(weir__live_count(), 1);
        weir_test_pass(WEIR_SEC(40));
        CU_ASSERT_EQUAL(weir__live_count(), 0);
        end();
}

static void
many_tasks_behind_are_not_counted_to_the_end(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_push(series, timer(NULL, WEIR_SEC(60)));
        for (int i = 0; i < 1000; i++)
                weir_series_push(series, weir_empty_new(NULL, NULL));
        weir_series_start(series);
        check_dump(": 256 or more tasks behind\n");
        end();
}

static void
a_name_of_any_bytes_is_shown_on_one_line_and_cut(void)
{
        char name[1001] = "line\n\x1b[31m\xff";

        weir_test_begin_virtual();
        weir_task_start(timer(name, WEIR_SEC(60)));
        memset(name, 'n', 1000);
        weir_task_start(timer(name, WEIR_SEC(61)));
        check_dump("  timer \"line\\x0a\\x1b[31m\\xff\" pending");
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "nnnnnnnnnnnn...\" pending"));
        CU_ASSERT(strlen(sink.bytes) < 1000);
        end();
}

static weir_series *
start_series_of(weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, task);
        weir_series_ref(series);
        weir_series_start(series);
        return series;
}

/* A task that is not ended by a cancel: its callback waits. */
static struct weir_test_latch inside, release_it;

static void
block(weir_task *task, void *context)
{
        (void)task, (void)context;
        weir_test_latch_count_down(&inside);
        weir_test_latch_wait(&release_it);
}

static void
prepare_to_block(unsigned count)
{
        weir_test_latch_init(&inside, count);
        weir_test_latch_init(&release_it, 1);
}

static void
one_that_is_cancelled_and_goes_on_says_so(void)
{
        weir_test_begin_real(2);
        prepare_to_block(1);
        weir_series *series = start_series_of(weir_timer_new(0, block, NULL));
        weir_test_latch_wait(&inside);
        weir_series_cancel(series);
        dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  series cancelled, "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    timer running\n"));
        weir_test_latch_count_down(&release_it);
        weir_series_unref(series);
        end();
}

static void
one_whose_deadline_is_over_says_so(void)
{
        weir_test_begin_real(2);
        prepare_to_block(1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(0, block, NULL));
        weir_series_ref(series);
        weir_series_start(series);
        weir_test_latch_wait(&inside);
        weir_series_set_deadline(series, 0);
        dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  series timed out, "));
        weir_test_latch_count_down(&release_it);
        weir_series_unref(series);
        end();
}

/* -- tasks that run others -- */

static weir_task *
make_timer(void *context)
{
        return timer(context, WEIR_SEC(10));
}

static void
children_of_a_parallel_are_indented_below_it(void)
{
        weir_series *inner = weir_series_new(NULL, NULL), *outer = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL), *race = weir_race_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_race_add(race, timer("quick", WEIR_SEC(5)));
        weir_race_add(race, timer("slow", WEIR_SEC(50)));
        weir_series_push(inner, race);
        weir_series_push(inner, weir_empty_new(NULL, NULL));
        weir_parallel_add(parallel, weir_empty_new(NULL, NULL));
        weir_parallel_add_series(parallel, inner);
        weir_parallel_add(parallel, timer("beside", WEIR_SEC(7)));
        weir_series_push(outer, parallel);
        weir_series_set_name(outer, "outer");
        weir_series_start(outer);
        weir_test_pass(WEIR_SEC(3));
        check_dump("  series \"outer\" running, 3.0 s old\n"
                   "    parallel pending: 2 of 3 left\n"
                   "      series running, 3.0 s old: 1 task behind\n"
                   "        race pending: 2 of 2 left\n"
                   "          timer \"quick\" pending, 3.0 s old: due in 2.0 s\n"
                   "          timer \"slow\" pending, 3.0 s old: due in 47.0 s\n"
                   "      timer \"beside\" pending, 3.0 s old: due in 4.0 s\n");
        end();
}

static void
a_lone_task_that_runs_others_is_a_root(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_parallel_add(parallel, timer("in it", WEIR_SEC(5)));
        weir_task_start(parallel);
        weir_test_pass(0);
        check_dump("series:\n"
                   "  parallel pending, 1 ms old: 1 of 1 left\n"
                   "    timer \"in it\" pending, 1 ms old: due in 5.0 s\n");
        end();
}

static void
flows_of_flows_say_what_they_are(void)
{
        weir_series *inner = weir_series_new(NULL, NULL);
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        weir_series_push(inner, timer("in module", WEIR_SEC(10)));
        weir_task_start(weir_module_new(inner, NULL, NULL));
        weir_task_start(weir_timeout_new(timer("in timeout", WEIR_SEC(10)), WEIR_SEC(7)));
        weir_task_start(weir_repeater_new(make_timer, NULL, "in repeater"));
        weir_task_start(weir_dynamic_new(make_timer, NULL, "in dynamic"));
        weir_task_start(weir_retry_new(&config, make_timer, NULL, "in retry"));
        weir_test_pass(WEIR_SEC(5));
        check_dump("  module pending, 5.0 s old: 1 of 1 left\n    series running, 5.0 s old\n"
                   "      timer \"in module\" pending: due in 5.0 s\n");
        check_dump("  timeout pending, 5.0 s old: 1 of 1 left\n"
                   "    timer \"in timeout\" pending, 5.0 s old, deadline in 2.0 s: due in 5.0 s\n");
        check_dump("  repeater pending, 5.0 s old: runs number 1\n    timer \"in repeater\" pending, 5.0 s old: due in 5.0 s\n");
        check_dump(
                "  dynamic task pending, 5.0 s old: runs number 1\n    timer \"in dynamic\" pending, 5.0 s old: due in 5.0 s\n");
        check_dump("  retry pending, 5.0 s old: runs number 1\n    timer \"in retry\" pending, 5.0 s old: due in 5.0 s\n");
        weir_test_pass(WEIR_SEC(10));
        check_dump("  repeater pending, 15.0 s old: runs number 2\n    timer \"in repeater\" pending, 5.0 s old: due in 5.0 s\n");
        end();
}

static void
nodes_of_a_graph_that_run_are_shown_by_their_labels(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_node *first = weir_graph_add(graph, timer(NULL, WEIR_SEC(10)), "load");
        weir_node *second = weir_graph_add(graph, timer(NULL, WEIR_SEC(10)), "store");
        weir_node *beside = weir_graph_add(graph, timer("named", WEIR_SEC(30)), NULL);
        weir_graph_precede(first, second);
        (void)beside;
        weir_series *series = start_series_of(graph);
        weir_test_pass(WEIR_SEC(12));
        check_dump("    graph pending: 3 nodes, 1 edges\n"
                   "      timer \"store\" pending, 2.0 s old: due in 8.0 s\n"
                   "      timer \"named\" pending, 12.0 s old: due in 18.0 s\n");
        weir_series_unref(series);
        end();
}

static void
a_million_nodes_are_passed_by_without_showing_those_that_wait(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *first = NULL;

        weir_test_begin_virtual();
        first = weir_graph_add(graph, timer("first", WEIR_SEC(10)), NULL);
        for (int i = 0; i < (WEIR_TEST_SANITIZED ? 10000 : 100000); i++)
                weir_graph_precede(first, weir_graph_add(graph, weir_empty_new(NULL, NULL), NULL));
        weir_node *last = weir_graph_add(graph, timer("last", WEIR_SEC(11)), NULL);
        (void)last;
        weir_task_start(graph);
        weir_test_pass(0);
        dump();
        CU_ASSERT_EQUAL(count_of(sink.bytes, "timer \""), 2);
        weir_test_pass(WEIR_SEC(20));
        end();
}

#define NESTED 300

static void
flows_nested_too_deep_are_left_out_with_a_note(void)
{
        weir_task *task = timer("innermost", WEIR_SEC(10));

        weir_test_begin_virtual();
        for (int i = 0; i < NESTED; i++) {
                weir_task *parallel = weir_parallel_new(NULL, NULL);

                weir_parallel_add(parallel, task);
                task = parallel;
        }
        weir_task_start(task);
        weir_test_pass(0);
        dump();
        CU_ASSERT_EQUAL(count_of(sink.bytes, "parallel pending"), 257);
        CU_ASSERT_EQUAL(count_of(sink.bytes, "; what it runs is not shown"), 1);
        end();
}

static void
children_beyond_any_batch_are_shown_once_each(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_test_begin_virtual();
        for (int i = 0; i < 5000; i++)
                weir_parallel_add(parallel, timer("child", WEIR_SEC(10)));
        weir_task_start(parallel);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(count_of(dump(), "    timer \"child\" pending"), 5000);
        end();
}

/* -- timers -- */

static void
lone_timers_are_shown_in_the_order_of_their_deadlines(void)
{
        weir_test_begin_virtual();
        weir_task_start(timer("third", WEIR_SEC(3000)));
        weir_task_start(timer("first", WEIR_MSEC(1)));
        weir_task_start(timer("never", WEIR_FOREVER));
        weir_task_start(timer(NULL, WEIR_SEC(2)));
        weir_task_start(weir_ticker_new_named("ticks", WEIR_SEC(60), WEIR_TICK_SKIP, NULL, NULL));
        weir_task_start(weir_timer_new_at_named("wall", WEIR_WALL_EPOCH + WEIR_SEC(86400), NULL, NULL));
        check_dump("timers in no series:\n"
                   "  timer \"first\" pending, 0 ns old, due in 1 ms\n"
                   "  timer pending, 0 ns old, due in 2.0 s\n"
                   "  ticker \"ticks\" pending, 0 ns old, due in 1 min\n"
                   "  timer \"third\" pending, 0 ns old, due in 50 min\n"
                   "  timer \"wall\" pending, 0 ns old, due in 1 d: by another clock\n"
                   "  timer \"never\" pending, 0 ns old\n");
        weir_timer_cancel("ticks", WEIR_ALL);
        end();
}

#define MANY (WEIR_TEST_SANITIZED ? 20000 : 100000)

static void
a_hundred_thousand_timers_are_shown_once_each(void)
{
        char name[32];

        weir_test_begin_virtual();
        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof name, "timer %d;", i);
                weir_task_start(timer(name, WEIR_SEC(1) + (weir_nsec)i * WEIR_USEC(777)));
        }
        dump();
        CU_ASSERT_EQUAL(count_of(sink.bytes, "  timer \"timer "), MANY);
        const char *at = sink.bytes;
        unsigned missed = 0;
        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof name, "\"timer %d;\"", i);
                const char *found = strstr(at, name);
                missed += !found;
                at = found ? found : at;
        }
        CU_ASSERT_EQUAL(missed, 0); /* and in order */
        end();
}

/* -- functions -- */

static void
block_function(void *context)
{
        (void)context;
        weir_test_latch_count_down(&inside);
        weir_test_latch_wait(&release_it);
}

static void
functions_are_shown_with_their_queues(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.compute_threads = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        prepare_to_block(1);
        weir_task_start(weir_go_new("db", block_function, NULL, NULL));
        weir_test_latch_wait(&inside);
        weir_test_latch_init(&inside, 4);
        weir_task_start(weir_go_new("db", block_function, NULL, NULL));
        weir_task_start(weir_go_new("db", block_function, NULL, NULL));
        weir_series *series = start_series_of(weir_go_new("mail", block_function, NULL, NULL));
        weir_series *unqueued = start_series_of(weir_go_new(NULL, block_function, NULL, NULL));
        dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  thread \"go0\" running for "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, ": a function, debug_test+0x"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    function pending: in queue \"mail\": 1 queued, the oldest for "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    function pending: in no queue\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  executor: 4 queued, the oldest for "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  queue \"db\": 2 queued, the oldest for "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  queue \"mail\": 1 queued, the oldest for "));
        weir_test_latch_count_down(&release_it);
        weir_series_unref(series);
        weir_series_unref(unqueued);
        weir_test_latch_wait(&inside);
        end();
}

static void
a_series_says_that_it_is_inside_a_function(void)
{
        weir_test_begin_real(1);
        prepare_to_block(1);
        weir_series *series = start_series_of(weir_go_new(NULL, block_function, NULL, NULL));
        weir_test_latch_wait(&inside);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), "    function running: inside its function\n"));
        weir_test_latch_count_down(&release_it);
        weir_series_unref(series);
        end();
}

/* -- callbacks that block -- */

static void
callbacks_that_block_every_poller_are_shown_and_do_not_hold_it_up(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.blocking_limit = WEIR_FOREVER; /* nobody takes their pollers away */
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        prepare_to_block(2);
        for (int i = 0; i < 200; i++) /* so that each poller has some */
                weir_task_start(weir_timer_new(0, i % 100 ? NULL : block, NULL));
        weir_test_latch_wait_for(&inside, WEIR_MSEC(500));
        dump();
        CU_ASSERT(count_of(sink.bytes, " running: a callback of a timer, debug_test+0x") >= 1);
        weir_test_latch_count_down(&release_it);
        end();
}

static void
a_callback_that_has_lost_its_poller_is_shown_with_since_when(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        prepare_to_block(1);
        weir_task_start(weir_timer_new(0, block, NULL));
        weir_test_latch_wait(&inside);
        WEIR_TEST_EVENTUALLY(strstr(dump(), "\" blocked for "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, ", whose poller another worker has\n"));
        weir_test_latch_count_down(&release_it);
        end();
}

/* -- waiting tasks -- */

static void
objects_at_which_tasks_wait_are_shown_with_tasks_in_no_series(void)
{
        weir_channel *channel = weir_channel_open("orders", 1, NULL);
        weir_counter *counter = weir_counter_new(3);
        char counted[64];

        weir_test_begin_virtual();
        weir_series *series = start_series_of(weir_channel_receive_new(channel, NULL, NULL));
        for (int i = 0; i < 200; i++)
                weir_task_start(weir_counter_wait_new(counter, NULL, NULL));
        weir_test_pass(0);
        dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  channel \"orders\": 1 waits\n"));
        snprintf(counted, sizeof counted, "  counter: %p, 200 wait\n", (void *)counter);
        CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(sink.bytes, counted));
        CU_ASSERT_EQUAL(count_of(sink.bytes, " pending: channel \"orders\", at which 1 waits"), 1);
        CU_ASSERT_EQUAL(count_of(strstr(sink.bytes, counted), "\n    counter pending"), 200);
        weir_channel_unref(channel);
        weir_counter_unref(counter);
        weir_series_unref(series);
        end();
}

/* Goes on until the second waiter is shown, then lets all waiters through. */
static bool
pass_in_the_middle(const struct weir__debug_record *record, void *barrier)
{
        static unsigned seen;

        if (record->section != WEIR__DEBUG_WAITS || record->depth != 1)
                return false;
        if (++seen == 2) {
                weir_task_start(weir_barrier_arrive_new(barrier, NULL, NULL));
                weir_test_pass(0);
        }
        return false;
}

/* More than are looked at within one hold of the lock: the look goes on when they are gone. */
static void
a_barrier_may_let_all_through_while_they_are_shown(void)
{
        weir_barrier *barrier = weir_barrier_new(201);
        char counted[64];

        weir_test_begin_virtual();
        for (int i = 0; i < 200; i++)
                weir_task_start(weir_barrier_arrive_new(barrier, NULL, NULL));
        weir_test_pass(0);
        snprintf(counted, sizeof counted, "  barrier: %p, 200 wait\n", (void *)barrier);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), counted));
        CU_ASSERT_EQUAL(count_of(sink.bytes, "\n    arrival pending"), 200);
        CU_ASSERT_EQUAL(weir__debug_walk(pass_in_the_middle, barrier), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), "waited at: none\n"));
        weir_barrier_unref(barrier);
        end();
}

static unsigned shown;

/* Counts the waiters.  At the second one, 150 messages come for the oldest 150 of them. */
static bool
serve_in_the_middle(const struct weir__debug_record *record, void *channel)
{
        static char message;

        if (record->section != WEIR__DEBUG_WAITS || record->depth != 1)
                return false;
        if (++shown == 2)
                for (int i = 0; i < 150; i++)
                        CU_ASSERT_EQUAL(weir_channel_post(channel, &message), 0);
        return false;
}

/* A batch of 64 has been looked at, the next 86 are gone, 50 are left. */
static void
waiters_that_go_while_they_are_shown_are_passed_over(void)
{
        weir_channel *channel = weir_channel_new(0, NULL);

        weir_test_begin_virtual();
        for (int i = 0; i < 200; i++)
                weir_task_start(weir_channel_receive_new(channel, NULL, NULL));
        weir_test_pass(0);
        shown = 0;
        CU_ASSERT_EQUAL(weir__debug_walk(serve_in_the_middle, channel), 0);
        CU_ASSERT_EQUAL(shown, 64 + 50);
        weir_channel_unref(channel);
        end();
}

static void
children_of_limited_tasks_and_conditionals_are_shown(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);
        weir_condition *condition = weir_condition_new();

        weir_test_begin_virtual();
        weir_task_start(weir_limited_new(semaphore, 1, timer("limited", WEIR_SEC(10)), NULL, NULL));
        weir_test_pass(0);
        weir_series *series = start_series_of(weir_limited_new(semaphore, 1, timer(NULL, 0), NULL, NULL));
        weir_task_start(weir_conditional_new(condition, timer("held", WEIR_SEC(10)), NULL, NULL));
        weir_test_pass(0);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), "    timer \"limited\" pending, "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, ", for 1 of which 0 are there\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    condition pending, "));
        CU_ASSERT_PTR_NULL(strstr(sink.bytes, "\"held\""));
        weir_condition_signal(condition);
        weir_test_pass(0);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), "    timer \"held\" pending, "));
        weir_test_pass(WEIR_SEC(20));
        weir_semaphore_unref(semaphore);
        weir_condition_unref(condition);
        weir_series_unref(series);
        end();
}

struct given {
        weir_semaphore *semaphore;
        weir_guard *guard;
};

/* A task that has got what it waited for is READY when this looks, and its callback has not begun. */
static void
give(weir_task *task, void *context)
{
        const struct given *given = context;

        weir_semaphore_release(given->semaphore, 1);
        weir_guard_release(given->guard, weir_series_of(task));
        dump();
}

static void
a_task_that_has_got_something_does_not_wait_for_it(void)
{
        struct given given = {weir_semaphore_new(1), weir_guard_new()};
        weir_series *holder = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(given.semaphore, 1), 0);
        weir_series_push(holder, weir_guard_acquire_new(given.guard, NULL, NULL));
        weir_series_push(holder, weir_timer_new(WEIR_SEC(1), give, &given));
        weir_series_start(holder);
        weir_test_pass(0);
        weir_series *of_tokens = start_series_of(weir_semaphore_acquire_new(given.semaphore, 1, NULL, NULL));
        weir_series *of_guard = start_series_of(weir_guard_acquire_new(given.guard, NULL, NULL));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    tokens ready\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    acquire ready\n"));
        weir_semaphore_unref(given.semaphore);
        weir_guard_unref(given.guard);
        weir_series_unref(of_tokens);
        weir_series_unref(of_guard);
        end();
}

static void
the_holder_of_a_guard_is_found_from_its_waiter(void)
{
        weir_guard *guard = weir_guard_open("db");
        weir_series *holder = weir_series_new(NULL, NULL), *waiter = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_set_name(holder, "holder");
        weir_series_push(holder, weir_guard_acquire_new(guard, NULL, NULL));
        weir_series_push(holder, timer("backend", WEIR_SEC(100)));
        weir_series_start(holder);
        weir_test_pass(WEIR_SEC(1));
        weir_series_push(waiter, weir_guard_acquire_new(guard, NULL, NULL));
        weir_series_start(waiter);
        weir_test_pass(WEIR_SEC(4));
        check_dump("  series \"holder\" running, 5.0 s old: holds guard \"db\" for 5.0 s\n"
                   "    timer \"backend\" pending: due in 1 min 35 s\n");
        check_dump("  series running, 4.0 s old\n"
                   "    acquire pending: guard \"db\", at which 1 waits, held by series \"holder\" for 5.0 s\n");
        check_dump("  guard \"db\": 1 waits; held by series \"holder\" for 5.0 s\n");
        weir_guard_unref(guard);
        end();
}

static void
a_holder_without_a_name_is_found_by_its_address(void)
{
        weir_guard *guard = weir_guard_open("db");
        weir_series *holder = weir_series_new(NULL, NULL);
        char expected[64];

        weir_test_begin_virtual();
        weir_series_push(holder, weir_guard_acquire_new(guard, NULL, NULL));
        weir_series_push(holder, timer("backend", WEIR_SEC(100)));
        weir_series_start(holder);
        weir_test_pass(0);
        weir_task_start(weir_guard_acquire_new(guard, NULL, NULL));
        weir_test_pass(0);
        snprintf(expected, sizeof expected, ": %p, holds guard \"db\"", (void *)holder);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump(), expected));
        snprintf(expected, sizeof expected, "; held by series %p for ", (void *)holder);
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, expected));
        weir_guard_unref(guard);
        end();
}

static void
however_long_its_name_who_holds_a_guard_is_said(void)
{
        char name[WEIR_NAME_MAX + 1] = "", expected[512];
        weir_series *holder = weir_series_new(NULL, NULL), *waiter = weir_series_new(NULL, NULL);

        memset(name, 'g', WEIR_NAME_MAX);
        memcpy(name + 62, "\xe2\x82\xac", 3);
        weir_test_begin_virtual();
        weir_guard *guard = weir_guard_open(name);
        weir_series_set_name(holder, name);
        weir_series_push(holder, weir_guard_acquire_new(guard, NULL, NULL));
        weir_series_push(holder, timer("backend", WEIR_SEC(100)));
        weir_series_start(holder);
        weir_series_push(waiter, weir_guard_acquire_new(guard, NULL, NULL));
        weir_series_start(waiter);
        weir_test_pass(WEIR_SEC(5));
        snprintf(expected, sizeof expected, ": holds guard \"%.62s...\" for 5.0 s\n", name);
        check_dump(expected);
        snprintf(expected, sizeof expected,
                 "    acquire pending: guard \"%.62s...\", at which 1 waits, held by series \"%.44s...\" for 5.0 s\n", name,
                 name);
        check_dump(expected);
        weir_guard_unref(guard);
        end();
}

/* -- exchanges -- */

static void
wait_a_minute(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), timer("backend", WEIR_SEC(60)));
}

static void
an_exchange_is_shown_with_its_peer_and_what_it_waits_for(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        weir_test_begin_real(1);
        weir_http_server *server = http_server(&config, wait_a_minute, NULL);
        http_open(&client, weir_http_server_port(server));
        http_send_text(&client, "GET /cart?id=7 HTTP/1.1\r\nHost: a\r\n\r\n");
        WEIR_TEST_EVENTUALLY(strstr(dump(), "    timer \"backend\" pending: due in "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "  exchange \"/cart?id=7\" running, "));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, " old: GET by 127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, ", fd "));
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
        end();
}

static void
read_body(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_http_collect_new(exchange, 0, NULL, NULL));
}

static void
a_read_of_a_body_says_from_whom(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        weir_test_begin_real(1);
        config.stream_bodies = 1;
        weir_http_server *server = http_server(&config, read_body, NULL);
        http_open(&client, weir_http_server_port(server));
        http_send_text(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
        WEIR_TEST_EVENTUALLY(strstr(dump(), "    read of a body pending: the whole body from 127.0.0.1:"));
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
        end();
}

/* -- where it goes -- */

static void
a_bad_descriptor_is_reported(void)
{
        CU_ASSERT_EQUAL(weir_debug_dump(-1), -EBADF);
        CU_ASSERT_EQUAL(weir_debug_dump(100000), -EBADF);
}

static void *
dump_into(void *fd)
{
        weir_debug_dump(*(int *)fd);
        return NULL;
}

static bool
is_full(int pipe)
{
        int held = 0;

        return ioctl(pipe, FIONREAD, &held) == 0 && held > 60000;
}

/* A flow may end while the dump of it waits for its reader: the dump holds nothing but a reference. */
static void
a_dump_into_a_full_pipe_holds_nothing_up(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        struct weir_test_record record = {0};
        char bytes[4096];
        pthread_t thread;
        int ends[2];

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        for (int i = 0; i < 5000; i++)
                weir_parallel_add(parallel, timer("in the parallel", WEIR_SEC(100)));
        weir_series *series = weir_series_new(weir_test_series_done, &record);
        weir_series_push(series, parallel);
        weir_series_ref(series);
        weir_series_start(series);
        pthread_create(&thread, NULL, dump_into, &ends[1]);
        WEIR_TEST_EVENTUALLY(is_full(ends[0]));
        weir_test_sleep(WEIR_MSEC(20)); /* it stands in the parallel */
        weir_series_cancel(series);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(record.calls == 1);
        weir_test_end();
        while (read(ends[0], bytes, sizeof bytes) == sizeof bytes)
                continue;
        pthread_join(thread, NULL);
        close(ends[0]);
        close(ends[1]);
}

static bool
have_enough(const struct weir__debug_record *record, void *count)
{
        (void)record;
        return --*(int *)count == 0;
}

static void
a_visitor_that_has_enough_is_called_no_more(void)
{
        weir_test_begin_virtual();
        for (int i = 0; i < 3; i++) {
                weir_task *parallel = weir_parallel_new(NULL, NULL);

                weir_parallel_add(parallel, timer(NULL, WEIR_SEC(1)));
                weir_parallel_add(parallel, timer(NULL, WEIR_SEC(1)));
                weir_task_start(parallel);
        }
        for (int enough = 1; enough < 9; enough++) {
                int count = enough;

                CU_ASSERT_EQUAL(weir__debug_walk(have_enough, &count), 0);
                CU_ASSERT_EQUAL(count, 0);
        }
        end();
}

/* Ends all that waits at the first record of a section that is at least that deep. */
struct ender {
        enum weir__debug_section section;
        unsigned depth, records;
        weir_channel *channel;
        bool is_over;
};

static bool
end_all(const struct weir__debug_record *record, void *context)
{
        struct ender *ender = context;

        ender->records += record->section == ender->section;
        if (!ender->is_over && record->section == ender->section && record->depth >= ender->depth) {
                ender->is_over = true;
                weir_channel_close(ender->channel);
                weir_test_pass(0);
        }
        return false;
}

static void
the_flow_at_which_a_walk_stands_may_end_meanwhile(void)
{
        static const struct ender enders[] = {
                {WEIR__DEBUG_SERIES, 0, 0, NULL, false},
                {WEIR__DEBUG_SERIES, 1, 0, NULL, false},
                {WEIR__DEBUG_WAITS, 1, 0, NULL, false},
        };

        for (size_t i = 0; i < sizeof enders / sizeof enders[0]; i++) {
                struct ender ender = enders[i];

                weir_test_begin_virtual();
                ender.channel = weir_channel_new(1, NULL);
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                for (int j = 0; j < 200; j++) {
                        weir_parallel_add(parallel, weir_channel_receive_new(ender.channel, NULL, NULL));
                        weir_task_start(weir_channel_receive_new(ender.channel, NULL, NULL));
                        weir_series_unref(start_series_of(weir_channel_receive_new(ender.channel, NULL, NULL)));
                }
                weir_task_start(parallel);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(weir__debug_walk(end_all, &ender), 0);
                CU_ASSERT(ender.is_over);
                CU_ASSERT(ender.records < 600); /* not all of them were met */
                weir_channel_unref(ender.channel);
                end();
        }
}

static bool
see_timer(const struct weir__debug_record *record, void *seen)
{
        *(int *)seen += record->section == WEIR__DEBUG_TIMERS || record->section == WEIR__DEBUG_SERIES;
        return false;
}

static void
without_memory_the_rest_is_shown_and_it_says_so(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        int all = 0, refused = 0;

        weir_test_begin_virtual();
        weir_parallel_add(parallel, timer("in the parallel", WEIR_SEC(1)));
        weir_task_start(parallel);
        weir_task_start(timer("lone", WEIR_SEC(1)));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir__debug_walk(see_timer, &all), 0);
        CU_ASSERT_EQUAL(all, 3);
        for (int failed = -ENOMEM; failed == -ENOMEM; refused++) {
                int seen = 0;

                refused_after = refused;
                failed = weir__debug_walk(see_timer, &seen);
                CU_ASSERT(failed == -ENOMEM || refused_after >= 0);
                refused_after = -1;
                CU_ASSERT(failed == 0 || failed == -ENOMEM);
                CU_ASSERT(failed ? seen >= 1 : seen == all);
        }
        CU_ASSERT(refused > 5);
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        refused_after = 0;
        CU_ASSERT_EQUAL(weir_debug_dump(null), -ENOMEM);
        refused_after = -1;
        close(null);
        end();
}

static void
a_description_names_the_child_that_runs_behind_hundreds_that_have_ended(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        char text[300];

        weir_test_begin_virtual();
        for (int i = 0; i < 400; i++)
                weir_parallel_add(parallel, weir_empty_new(NULL, NULL));
        weir_parallel_add(parallel, timer("the one", WEIR_SEC(5)));
        weir_series *series = start_series_of(parallel);
        weir_test_pass(0);
        weir__series_describe(series, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, "a parallel (1 of 401 left), in it a timer \"the one\" (due in 5.0 s)");
        weir_series_cancel(series);
        weir_series_unref(series);
        end();
}

/* Each shard of the registry has room for 64 without memory of its own. */
static void
roots_for_which_there_was_no_memory_are_said_to_be_missing(void)
{
        enum { ROOTS = 600 };
        static weir_series *roots[ROOTS];
        int seen = 0;

        weir_test_begin_virtual();
        for (int i = 0; i < ROOTS; i++) {
                roots[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(roots[i], weir_timer_new(WEIR_SEC(1), NULL, NULL));
                refused_after = 0;
                CU_ASSERT_EQUAL(weir_series_start(roots[i]), 0);
                refused_after = -1;
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir__debug_walk(see_timer, &seen), -ENOMEM);
        CU_ASSERT(seen > 0 && seen < 2 * ROOTS);
        for (int i = 0; i < ROOTS; i++) {
                weir_series_cancel(roots[i]);
                weir_series_unref(roots[i]);
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir__debug_walk(see_timer, &seen), 0);
        end();
}

static void
it_may_be_called_inside_a_callback_and_while_the_runtime_ends(void)
{
        weir_test_begin_real(1);
        prepare_to_block(1);
        weir_series *series = start_series_of(weir_timer_new(0, block, NULL));
        weir_test_latch_wait(&inside);
        pthread_t thread;
        pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))weir_shutdown, NULL);
        WEIR_TEST_EVENTUALLY(strstr(dump(), ": shutting down"));
        CU_ASSERT_PTR_NOT_NULL(strstr(sink.bytes, "    timer running\n"));
        weir_test_latch_count_down(&release_it);
        pthread_join(thread, NULL);
        weir_series_unref(series);
        end();
}

static void
in_a_forked_child_it_is_refused(void)
{
        int status = 0;

        weir_test_begin_real(1);
        pid_t child = fork();
        if (child == 0)
                _exit(weir_debug_dump(STDOUT_FILENO) == -ECHILD && weir_debug_dump_on(SIGUSR2, 1) == -ECHILD ? 0 : 1);
        waitpid(child, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
        end();
}

/* -- by a signal -- */

static size_t
read_dump(int fd, char *text, size_t room)
{
        size_t size = 0;

        do {
                ssize_t count = read(fd, text + size, room - 1 - size);

                CU_ASSERT_FATAL(count > 0);
                size += (size_t)count;
                text[size] = '\0';
        } while (!strstr(text, "functions: none\n"));
        return size;
}

static void
a_signal_prints_a_dump(void)
{
        char text[8192];
        int ends[2];

        weir_test_begin_real(1);
        weir_task_start(timer("seen by a signal", WEIR_SEC(100)));
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, ends[1]), 0);
        raise(SIGUSR2);
        read_dump(ends[0], text, sizeof text);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "  timer \"seen by a signal\" pending"));
        raise(SIGUSR2);
        read_dump(ends[0], text, sizeof text);
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, -1), 0);
        close(ends[0]);
        close(ends[1]);
        end();
}

static _Atomic int handled;

static void
own_handler(int signal)
{
        (void)signal;
        handled++;
}

static void
the_former_handler_of_a_signal_is_back_when_it_is_unbound(void)
{
        struct sigaction own = {.sa_handler = own_handler}, found;
        char text[8192];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        sigaction(SIGUSR2, &own, NULL);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, ends[1]), 0);
        raise(SIGUSR2);
        read_dump(ends[0], text, sizeof text);
        CU_ASSERT_EQUAL(handled, 0);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR1, ends[1]), 0);
        raise(SIGUSR2);
        CU_ASSERT_EQUAL(handled, 1);
        raise(SIGUSR1);
        read_dump(ends[0], text, sizeof text);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR1, -1), 0);
        sigaction(SIGUSR1, NULL, &found);
        CU_ASSERT(found.sa_handler == SIG_DFL);
        sigaction(SIGUSR2, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        close(ends[0]);
        close(ends[1]);
}

static void
a_handler_that_was_installed_over_it_stays(void)
{
        struct sigaction own = {.sa_handler = own_handler}, found;

        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, STDERR_FILENO), 0);
        sigaction(SIGUSR2, &own, NULL);
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, 0), 0);
        sigaction(SIGUSR2, NULL, &found);
        CU_ASSERT(found.sa_handler == own_handler);
        sigaction(SIGUSR2, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void
bad_signals_are_refused_and_leave_all_as_it_was(void)
{
        char text[8192];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, ends[1]), 0);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGKILL, ends[1]), -EINVAL);
        CU_ASSERT_EQUAL(weir_debug_dump_on(-1, ends[1]), -EINVAL);
        CU_ASSERT_EQUAL(weir_debug_dump_on(10000, ends[1]), -EINVAL);
        raise(SIGUSR2);
        read_dump(ends[0], text, sizeof text);
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, -1), 0);
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, -1), 0);
        close(ends[0]);
        close(ends[1]);
}

static void
one_that_is_stuck_in_a_full_pipe_does_not_keep_another_from_printing(void)
{
        char text[8192], bytes[65536] = {0};
        unsigned printers;
        int full[2], ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe(full), 0);
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        CU_ASSERT_EQUAL(write(full[1], bytes, sizeof bytes), sizeof bytes);
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, full[1]), 0);
        weir_test_sleep(WEIR_MSEC(20)); /* it waits for a signal */
        unsigned long sleeps = weir_test_sleeps("weir/debug", &printers);
        raise(SIGUSR2);
        WEIR_TEST_EVENTUALLY(weir_test_sleeps("weir/debug", &printers) > sleeps); /* now for a reader */
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR2, ends[1]), 0);
        raise(SIGUSR2);
        read_dump(ends[0], text, sizeof text);
        close(full[0]);                                                                   /* the one that is stuck goes */
        WEIR_TEST_EVENTUALLY((weir_test_sleeps("weir/debug", &printers), printers == 1)); /* so both have written */
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, -1), 0);
        close(full[1]);
        close(ends[0]);
        close(ends[1]);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(before_the_start_there_is_nothing),
                WEIR_TEST(what_was_made_and_not_started_is_counted),
                WEIR_TEST(a_series_has_name_age_deadline_and_tasks_behind),
                WEIR_TEST(many_tasks_behind_are_not_counted_to_the_end),
                WEIR_TEST(a_name_of_any_bytes_is_shown_on_one_line_and_cut),
                WEIR_TEST(one_that_is_cancelled_and_goes_on_says_so),
                WEIR_TEST(one_whose_deadline_is_over_says_so),
                WEIR_TEST(children_of_a_parallel_are_indented_below_it),
                WEIR_TEST(a_lone_task_that_runs_others_is_a_root),
                WEIR_TEST(flows_of_flows_say_what_they_are),
                WEIR_TEST(nodes_of_a_graph_that_run_are_shown_by_their_labels),
                WEIR_TEST(a_million_nodes_are_passed_by_without_showing_those_that_wait),
                WEIR_TEST(flows_nested_too_deep_are_left_out_with_a_note),
                WEIR_TEST(children_beyond_any_batch_are_shown_once_each),
                WEIR_TEST(lone_timers_are_shown_in_the_order_of_their_deadlines),
                WEIR_TEST(a_hundred_thousand_timers_are_shown_once_each),
                WEIR_TEST(functions_are_shown_with_their_queues),
                WEIR_TEST(a_series_says_that_it_is_inside_a_function),
                WEIR_TEST(callbacks_that_block_every_poller_are_shown_and_do_not_hold_it_up),
                WEIR_TEST(a_callback_that_has_lost_its_poller_is_shown_with_since_when),
                WEIR_TEST(objects_at_which_tasks_wait_are_shown_with_tasks_in_no_series),
                WEIR_TEST(a_barrier_may_let_all_through_while_they_are_shown),
                WEIR_TEST(waiters_that_go_while_they_are_shown_are_passed_over),
                WEIR_TEST(children_of_limited_tasks_and_conditionals_are_shown),
                WEIR_TEST(a_task_that_has_got_something_does_not_wait_for_it),
                WEIR_TEST(the_holder_of_a_guard_is_found_from_its_waiter),
                WEIR_TEST(a_holder_without_a_name_is_found_by_its_address),
                WEIR_TEST(however_long_its_name_who_holds_a_guard_is_said),
                WEIR_TEST(an_exchange_is_shown_with_its_peer_and_what_it_waits_for),
                WEIR_TEST(a_read_of_a_body_says_from_whom),
                WEIR_TEST(a_bad_descriptor_is_reported),
                WEIR_TEST(a_dump_into_a_full_pipe_holds_nothing_up),
                WEIR_TEST(a_visitor_that_has_enough_is_called_no_more),
                WEIR_TEST(the_flow_at_which_a_walk_stands_may_end_meanwhile),
                WEIR_TEST(without_memory_the_rest_is_shown_and_it_says_so),
                WEIR_TEST(a_description_names_the_child_that_runs_behind_hundreds_that_have_ended),
                WEIR_TEST(roots_for_which_there_was_no_memory_are_said_to_be_missing),
                WEIR_TEST(it_may_be_called_inside_a_callback_and_while_the_runtime_ends),
                WEIR_TEST(in_a_forked_child_it_is_refused),
                WEIR_TEST(a_signal_prints_a_dump),
                WEIR_TEST(the_former_handler_of_a_signal_is_back_when_it_is_unbound),
                WEIR_TEST(a_handler_that_was_installed_over_it_stays),
                WEIR_TEST(bad_signals_are_refused_and_leave_all_as_it_was),
                WEIR_TEST(one_that_is_stuck_in_a_full_pipe_does_not_keep_another_from_printing),
        };

        return weir_test_main("debug", tests, sizeof tests / sizeof tests[0]);
}
