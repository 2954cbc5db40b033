/* test/storm_debug_test.c: threads that look at everything while others start, cancel and end flows of all kinds.
 *
 * Threads: two look, and count what they see; the others start flows; the workers run them. */
#include <errno.h>
#include <stdatomic.h>

#include "factory/inspect/debug.h"
#include "factory/task/live.h"
#include "test/fixture.h"

#define THREADS 3
#define FLOWS   (WEIR_TEST_SANITIZED ? 1500 : 10000) /* of each thread */
#define AT_ONCE 300
#define NAMES   16

static struct {
        _Atomic bool over;
        _Atomic int going;
        _Atomic size_t records;
        weir_channel *channel;
        weir_counter *counter;
        weir_semaphore *semaphore;
} storm;

static void
ended(weir_series *series, void *context)
{
        (void)series, (void)context;
        storm.going--;
}

static void
task_ended(weir_task *task, void *context)
{
        (void)task, (void)context;
        storm.going--;
}

static void
compute(void *context)
{
        (void)context;
}

static weir_task *
make_child(void *context)
{
        (void)context;
        return weir_timer_new(WEIR_USEC(50), NULL, NULL);
}

static void
go_on_in_series(weir_task *task, void *context)
{
        (void)context;
        weir_series_stop_on_failure(weir_series_of(task));
        weir_series_push(weir_series_of(task), weir_timer_new(WEIR_USEC(100), NULL, NULL));
        weir_series_push(weir_series_of(task), weir_empty_new(task_ended, NULL));
}

static weir_nsec
some_time(struct weir_test_random *random)
{
        return (weir_nsec)weir_test_random_below(random, WEIR_MSEC(2));
}

static weir_task *random_task(struct weir_test_random *random, unsigned depth);

static weir_task *
random_parallel(struct weir_test_random *random, unsigned depth)
{
        bool races = weir_test_random_below(random, 2);
        weir_task *task = races ? weir_race_new(NULL, NULL) : weir_parallel_new(NULL, NULL);

        for (unsigned i = (unsigned)weir_test_random_below(random, 6); i > 0; i--) {
                if (races)
                        weir_race_add(task, random_task(random, depth + 1));
                else
                        weir_parallel_add(task, random_task(random, depth + 1));
        }
        return task;
}

static weir_task *
random_graph(struct weir_test_random *random, unsigned depth)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *before = NULL;

        for (unsigned i = (unsigned)weir_test_random_below(random, 5); i > 0; i--) {
                weir_node *node = weir_graph_add(graph, random_task(random, depth + 1), i % 2 ? "node" : NULL);

                if (before && weir_test_random_below(random, 2))
                        weir_graph_precede(before, node);
                before = node;
        }
        return graph;
}

static weir_task *
random_task(struct weir_test_random *random, unsigned depth)
{
        char name[16];

        snprintf(name, sizeof name, "n%u", (unsigned)weir_test_random_below(random, NAMES));
        switch (weir_test_random_below(random, depth < 3 ? 15 : 7)) {
        case 0: return weir_empty_new(NULL, NULL);
        case 1: return weir_timer_new(some_time(random), NULL, NULL);
        case 2: return weir_timer_new_named(name, some_time(random), NULL, NULL);
        case 3: return weir_go_new(weir_test_random_below(random, 2) ? name : NULL, compute, NULL, NULL);
        case 4: return weir_go_new_timed(name, some_time(random), compute, NULL, NULL);
        case 5: return weir_timeout_new(weir_channel_receive_new(storm.channel, NULL, NULL), some_time(random));
        case 6: return weir_timeout_new(weir_counter_wait_new(storm.counter, NULL, NULL), some_time(random));
        case 7:
        case 8:
        case 9: return random_parallel(random, depth);
        case 10:
        case 11: return random_graph(random, depth);
        case 12: return weir_timeout_new(weir_repeater_new(make_child, NULL, NULL), some_time(random));
        case 13: return weir_limited_new(storm.semaphore, 1, random_task(random, depth + 1), NULL, NULL);
        default: return weir_timeout_new(random_task(random, depth + 1), some_time(random));
        }
}

static weir_series *
random_series(struct weir_test_random *random)
{
        weir_series *series = weir_series_new(ended, NULL);
        char name[16];

        snprintf(name, sizeof name, "s%u", (unsigned)weir_test_random_below(random, NAMES));
        if (weir_test_random_below(random, 2))
                weir_series_set_name(series, name);
        if (weir_test_random_below(random, 4) == 0)
                weir_series_set_deadline(series, some_time(random));
        for (unsigned i = (unsigned)weir_test_random_below(random, 5); i > 0; i--)
                weir_series_push(series, random_task(random, 0));
        return series;
}

static void
start_one(struct weir_test_random *random)
{
        weir_series *series;
        char name[16];

        switch (weir_test_random_below(random, 10)) {
        case 8: weir_task_start(weir_channel_receive_new(storm.channel, task_ended, NULL)); break;
        case 0: weir_task_start(weir_timer_new(some_time(random), task_ended, NULL)); break;
        case 1: weir_task_start(weir_timer_new(some_time(random), go_on_in_series, NULL)); break;
        case 2: {
                weir_task *parallel = weir_parallel_new(task_ended, NULL);

                for (unsigned i = 0; i < 3; i++)
                        weir_parallel_add(parallel, random_task(random, 1));
                weir_task_start(parallel);
                break;
        }
        default:
                series = random_series(random);
                weir_series_ref(series);
                weir_series_start(series);
                if (weir_test_random_below(random, 3) == 0)
                        weir_series_push(series, random_task(random, 1));
                if (weir_test_random_below(random, 3) == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
                snprintf(name, sizeof name, "s%u", (unsigned)weir_test_random_below(random, NAMES));
                if (weir_test_random_below(random, 20) == 0)
                        weir_series_cancel_named(name, WEIR_ALL);
        }
}

static void *
start_flows(void *seed)
{
        struct weir_test_random random = {weir_test_seed() + *(const unsigned *)seed};

        for (int i = 0; i < FLOWS; i++) {
                while (storm.going > AT_ONCE) {
                        weir_channel_post(storm.channel, &storm); /* some of them wait for that */
                        weir_test_sleep(WEIR_USEC(100));
                }
                storm.going++;
                start_one(&random);
                if (i % 64 == 0)
                        weir_channel_post(storm.channel, &storm);
        }
        return NULL;
}

static bool
count(const struct weir__debug_record *record, void *left)
{
        storm.records += record->kind && record->text;
        return left && --*(int *)left == 0;
}

static void *
look(void *stops_early)
{
        for (int round = 0; !storm.over; round++) {
                int left = 1 + round % 500;
                struct weir__memory_sink sink;

                if (stops_early) {
                        CU_ASSERT_EQUAL(weir__debug_walk(count, round % 3 ? &left : NULL), 0);
                        continue;
                }
                weir__memory_sink_init(&sink);
                CU_ASSERT_EQUAL(weir__debug_print(&sink.sink), 0);
                storm.records += sink.size > 0;
                weir__memory_sink_done(&sink);
        }
        return NULL;
}

/* Returns when the last flow has started. */
static void
run_storm(pthread_t lookers[2])
{
        static const unsigned seeds[THREADS] = {1, 2, 3};
        pthread_t starters[THREADS];
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        storm.over = false;
        storm.going = 0;
        storm.channel = weir_channel_open("orders", 4, NULL);
        storm.counter = weir_counter_new(UINT64_MAX);
        storm.semaphore = weir_semaphore_new(100);
        for (int i = 0; i < 2; i++)
                pthread_create(&lookers[i], NULL, look, i ? &storm : NULL);
        for (int i = 0; i < THREADS; i++)
                pthread_create(&starters[i], NULL, start_flows, (void *)&seeds[i]);
        for (int i = 0; i < THREADS; i++)
                pthread_join(starters[i], NULL);
}

static void
stop_looking(pthread_t lookers[2])
{
        storm.over = true;
        for (int i = 0; i < 2; i++)
                pthread_join(lookers[i], NULL);
}

static void
flows_of_all_kinds_are_looked_at_while_they_run(void)
{
        pthread_t lookers[2];

        run_storm(lookers);
        weir_channel_close(storm.channel);
        WEIR_TEST_EVENTUALLY(storm.going == 0);
        stop_looking(lookers);
        CU_ASSERT(storm.records > 0);
        weir_test_end();
        CU_ASSERT_EQUAL(weir__live_count(), 0);
        weir_channel_unref(storm.channel);
        weir_counter_unref(storm.counter);
        weir_semaphore_unref(storm.semaphore);
}

static void
flows_are_looked_at_while_the_runtime_ends_and_starts_again(void)
{
        pthread_t lookers[2];

        for (int round = 0; round < 3; round++) {
                run_storm(lookers);
                weir_test_end();
                CU_ASSERT_EQUAL(weir__live_count(), 0);
                stop_looking(lookers);
                weir_channel_unref(storm.channel);
                weir_counter_unref(storm.counter);
                weir_semaphore_unref(storm.semaphore);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(flows_of_all_kinds_are_looked_at_while_they_run),
                WEIR_TEST(flows_are_looked_at_while_the_runtime_ends_and_starts_again),
        };

        return weir_test_main("storm_debug", tests, sizeof tests / sizeof tests[0]);
}
