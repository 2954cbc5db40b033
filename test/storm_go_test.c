/* test/storm_go_test.c: many threads start, cancel, limit and shut down functions on the executor at any moment.  Every task ends
 * exactly once, and nothing runs that must not. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/flow/go.h"
#include "kernel/executor/executor.h"
#include "kernel/worker/worker.h"

#define ROUNDS (WEIR_TEST_SANITIZED ? 3000 : 20000)

static void
begin(int threads)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.compute_threads = threads;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* The results of all tasks of a storm. */
static _Atomic unsigned started, called, freed, ran, cancelled, timed_out, shut, others;
static _Atomic unsigned too_late;

static void
forget(void)
{
        started = called = freed = ran = cancelled = timed_out = shut = others = too_late = 0;
}

/* A queue is there as long as tasks have it. */
static unsigned
queues_left(void)
{
        struct weir__go_queue_walk walk = {.scan = weir__names_scan_begin(0)};
        unsigned count = 0;

        while (weir__go_queue_walk_on(&walk)) {
                count++;
        }
        return count;
}

static void
done(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        atomic_fetch_add(status == -ECANCELED   ? &cancelled
                         : status == -ETIMEDOUT ? &timed_out
                         : status == -ESHUTDOWN ? &shut
                         : status == 0          ? &ran
                                                : &others,
                         1);
        atomic_fetch_add(&called, 1);
}

static void
on_free(void *context)
{
        (void)context;
        atomic_fetch_add(&freed, 1);
}

static int
start(weir_task *task)
{
        weir_task_on_free(task, on_free);
        int failed = weir_task_start(task);

        if (!failed) {
                atomic_fetch_add(&started, 1);
        }
        return failed;
}

/* -- cancel against begin -- */

struct target {
        _Atomic bool cancel_is_over;
        _Atomic unsigned runs, ends;
        int status;
};

static void
be_hit(void *context)
{
        struct target *target = context;

        if (atomic_load(&target->cancel_is_over) && weir_go_cancelled() == 0) {
                atomic_fetch_add(&too_late, 1);
        }
        atomic_fetch_add(&target->runs, 1);
}

static void
was_hit(weir_task *task, void *context)
{
        struct target *target = context;

        target->status = weir_task_status(task);
        atomic_fetch_add(&target->ends, 1);
}

static void
end_of_hit(weir_series *series, void *context)
{
        (void)series;
        weir_test_latch_count_down(context);
}

static weir_task *
target_task(unsigned kind, struct target *target)
{
        const char *queue = kind & 1 ? "targets" : NULL;

        return kind & 2 ? weir_go_new_timed(queue, kind & 4 ? WEIR_USEC(20) : WEIR_SEC(1000), be_hit, was_hit, target)
                        : weir_go_new(queue, be_hit, was_hit, target);
}

static void
a_cancel_meets_the_begin_of_a_function_at_any_moment(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned outcomes[2] = {0};

        forget();
        begin(2);
        for (unsigned i = 0; i < ROUNDS; i++) {
                struct target target = {0};
                struct weir_test_latch over = WEIR_TEST_LATCH(1);
                weir_series *series = weir_series_ref(weir_series_new(end_of_hit, &over));

                weir_series_push(series, target_task(i % 8, &target));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                for (volatile uint64_t pause = weir_test_random_below(&random, 2000); pause > 0; pause--) {
                        continue;
                }
                weir_series_cancel(series);
                atomic_store(&target.cancel_is_over, true);
                weir_test_latch_wait(&over);
                /* The target is on this stack, so wait for a function that still runs after its limit has ended the task. */
                if (target.status == -ETIMEDOUT) {
                        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
                }
                CU_ASSERT_EQUAL(target.ends, 1);
                CU_ASSERT(target.runs <= 1);
                CU_ASSERT(target.status == 0 || target.status == -ECANCELED || target.status == -ETIMEDOUT);
                CU_ASSERT(target.runs == 1 || target.status == -ECANCELED || target.status == -ETIMEDOUT);
                outcomes[target.runs]++;
                weir_series_unref(series);
        }
        CU_ASSERT_EQUAL(too_late, 0);
        CU_ASSERT(outcomes[0] > 0 && outcomes[1] > 0);
        weir_test_end();
        CU_ASSERT_EQUAL(queues_left(), 0);
}

/* -- limits against ends -- */

static void
compute(void *context)
{
        for (volatile uintptr_t left = (uintptr_t)context; left > 0; left--) {
                continue;
        }
}

static void
limits_come_while_functions_end(void)
{
        struct weir_test_random random = {weir_test_seed()};

        forget();
        begin(2);
        for (unsigned i = 0; i < ROUNDS; i++) {
                void *length = (void *)(uintptr_t)weir_test_random_below(&random, 10000);
                weir_nsec limit = (weir_nsec)weir_test_random_below(&random, WEIR_USEC(100));

                CU_ASSERT_EQUAL(start(weir_go_new_timed(i % 3 ? NULL : "queue", limit, compute, done, length)), 0);
        }
        WEIR_TEST_EVENTUALLY(freed == ROUNDS);
        weir_test_end();
        CU_ASSERT_EQUAL(called, ROUNDS);
        CU_ASSERT_EQUAL(ran + timed_out, ROUNDS);
        CU_ASSERT(timed_out > 0);
        CU_ASSERT_EQUAL(queues_left(), 0);
}

/* -- everything, and a shutdown -- */

struct tree {
        unsigned depth, seed;
};

static _Atomic unsigned trees;

static void
free_tree(void *tree)
{
        atomic_fetch_sub(&trees, 1);
        free(tree);
        atomic_fetch_add(&freed, 1);
}

static weir_task *tree_task(unsigned depth, unsigned seed);

static void
grow(void *context)
{
        struct tree *tree = context;
        bool blocks = tree->seed % 13 == 0 && weir__executor_blocking_begin() == 0;

        for (unsigned i = 0; i < 2 && tree->depth > 0; i++) {
                if (weir_task_start(tree_task(tree->depth - 1, tree->seed * 7 + i)) == 0) {
                        atomic_fetch_add(&started, 1);
                }
        }
        if (blocks) {
                sched_yield();
                weir__executor_blocking_end();
        }
}

static weir_task *
tree_task(unsigned depth, unsigned seed)
{
        static const char *const names[] = {NULL, NULL, "some", "others"};
        struct tree *tree = malloc(sizeof *tree);

        *tree = (struct tree){.depth = depth, .seed = seed};
        atomic_fetch_add(&trees, 1);
        const char *queue = names[seed % 4];
        weir_task *task = seed % 5 ? weir_go_new(queue, grow, done, tree)
                                   : weir_go_new_timed(queue, WEIR_USEC(seed % 500), grow, done, tree);
        weir_task_on_free(task, free_tree);
        return task;
}

static _Atomic bool stop;

static void *
plant(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;

        while (!stop) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                seed = seed * 1664525 + 1013904223;
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                for (unsigned i = 0; i < 4; i++) {
                        weir_parallel_add(parallel, tree_task(seed / 65536 % 6, seed / 1024 + i));
                }
                weir_series_push(series, parallel);
                if (weir_series_start(series) == -ESHUTDOWN) {
                        weir_series_unref(series);
                        break;
                }
                if (seed & 256) {
                        weir_series_cancel(series);
                }
                while (!stop && weir__executor_is_busy() && trees > 3000) {
                        sched_yield();
                }
                weir_series_unref(series);
        }
        return NULL;
}

static void
a_shutdown_comes_at_any_moment(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 20 : 60); round++) {
                pthread_t threads[3];

                forget();
                stop = false;
                begin((int)(1 + round % 4));
                for (uintptr_t i = 0; i < 3; i++) {
                        pthread_create(&threads[i], NULL, plant, (void *)(i + round));
                }
                weir_test_sleep((int64_t)weir_test_random_below(&random, 20000000));
                weir_test_end();
                CU_ASSERT_EQUAL(others, 0);
                stop = true;
                for (unsigned i = 0; i < 3; i++) {
                        pthread_join(threads[i], NULL);
                }
                CU_ASSERT_EQUAL(trees, 0);
                CU_ASSERT_EQUAL(queues_left(), 0);
        }
}

/* -- blocking and stealing -- */

static void
trees_grow_while_functions_block(void)
{
        forget();
        begin(2);
        for (unsigned i = 0; i < ROUNDS / 100; i++) {
                if (weir_task_start(tree_task(6, i * 31)) == 0) {
                        atomic_fetch_add(&started, 1);
                }
        }
        WEIR_TEST_EVENTUALLY(trees == 0 && !weir__executor_is_busy());
        CU_ASSERT_EQUAL(called, started);
        CU_ASSERT_EQUAL(freed, started);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_cancel_meets_the_begin_of_a_function_at_any_moment),
        WEIR_TEST(limits_come_while_functions_end),
        WEIR_TEST(trees_grow_while_functions_block),
        WEIR_TEST(a_shutdown_comes_at_any_moment),
};

int
main(void)
{
        return weir_test_main("storm_go", tests, sizeof tests / sizeof *tests);
}
