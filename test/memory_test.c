/* test/memory_test.c: allocations and descriptors that are refused, one after another.
 *
 * The linker puts the functions below in front of the allocator, for all that is linked into this suite (test/CMakeLists.txt):
 * they count the live blocks, and refuse the allocation that a test has chosen.  What libc allocates for itself does not pass
 * here.
 *
 * A scenario is run again and again, each time with the next allocation refused, until it needs no more of them.  Each time
 * the runtime is new, so that nothing comes out of a cache. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <weir/weir.h>

#include "factory/names/names.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "test/support.h"

#define POLLERS 2

/* -- the allocator -- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

static _Atomic int64_t live;          /* blocks */
static _Atomic int64_t left;          /* allocations until the refused one; below 0: it has been, or none is */
static _Atomic bool armed, for_good;  /* for_good: all that come after it are refused too */
static _Atomic bool refused;          /* one was */
static _Atomic int threads_left = -1; /* that can be created; below 0: no limit */

static bool
refuse(void)
{
        if (!atomic_load(&armed))
                return false;
        int64_t before = atomic_fetch_sub(&left, 1);
        if (before > 0 || (before < 0 && !atomic_load(&for_good)))
                return false;
        atomic_store(&refused, true);
        errno = ENOMEM;
        return true;
}

static void *
counted(void *block)
{
        if (block)
                atomic_fetch_add(&live, 1);
        return block;
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : counted(__real_malloc(size));
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : counted(__real_calloc(count, size));
}

void *
__wrap_realloc(void *block, size_t size)
{
        if (refuse())
                return NULL;
        void *moved = __real_realloc(block, size);
        return block ? moved : counted(moved);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return refuse() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void
__wrap_free(void *block)
{
        if (block)
                atomic_fetch_sub(&live, 1);
        __real_free(block);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
        int may = atomic_load(&threads_left);

        if (may == 0)
                return EAGAIN;
        if (may > 0)
                atomic_store(&threads_left, may - 1);
        return __real_pthread_create(thread, attributes, run, argument);
}

/* Blocks come from malloc one by one, so that each of them can be refused, and is counted. */
void *
__wrap_weir__alloc(size_t size)
{
        return __wrap_malloc(size);
}

void
__wrap_weir__free(void *block, size_t size)
{
        (void)size;
        __wrap_free(block);
}

static void
arm(int64_t nth, bool all_after_it)
{
        atomic_store(&left, nth);
        atomic_store(&for_good, all_after_it);
        atomic_store(&refused, false);
        atomic_store(&armed, true);
}

/* Returns whether an allocation was refused. */
static bool
disarm(void)
{
        atomic_store(&armed, false);
        return atomic_load(&refused);
}

/* -- memory that is never given back: the pollers, and their tables of ids -- */

static int64_t
pollers_made(void)
{
        int64_t made = 0;

        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++)
                made += weir__pollers.at[i] != NULL;
        return made;
}

static int64_t
tables_made(void)
{
        int64_t made = 0;

        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                for (unsigned k = 0; poller && k < WEIR__HANDLES_SEGMENTS; k++)
                        made += poller->handles.segments[k] != NULL;
        }
        return made;
}

/* Blocks that ought to have been freed by now. */
static int64_t
blocks_held(void)
{
        return atomic_load(&live) - pollers_made() - tables_made();
}

static unsigned
descriptors_open(void)
{
        unsigned open = 0;

        for (int fd = 0; fd < 1024; fd++)
                open += fcntl(fd, F_GETFD) >= 0;
        return open;
}

/* Likewise: each poller keeps its eventfd. */
static int64_t
descriptors_held(void)
{
        return (int64_t)descriptors_open() - pollers_made();
}

/* Without a watchdog, which needs memory for another worker when the machine stands still. */
static int
init(int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        config.blocking_limit = WEIR_FOREVER;
        return weir_init(&config);
}

/* -- scenarios -- */

struct record {
        _Atomic unsigned made, called, freed; /* tasks */
        _Atomic unsigned ended;               /* series */
        _Atomic int status;                   /* of what was asked for last in a callback */
};

static void
count_call(weir_task *task, void *context)
{
        (void)task;
        atomic_fetch_add(&((struct record *)context)->called, 1);
}

static void
count_free(void *context)
{
        atomic_fetch_add(&((struct record *)context)->freed, 1);
}

static void
count_end(weir_series *series, void *context)
{
        (void)series;
        atomic_fetch_add(&((struct record *)context)->ended, 1);
}

/* Every scenario makes its tasks with this: they are counted when they are made, called and freed. */
static weir_task *
counts(struct record *record, weir_task *task)
{
        if (task)
                atomic_fetch_add(&record->made, 1);
        weir_task_on_free(task, count_free);
        return task;
}

static weir_task *
timer(struct record *record, const char *name)
{
        return counts(record, name ? weir_timer_new_named(name, WEIR_USEC(10), count_call, record)
                                   : weir_timer_new(WEIR_USEC(10), count_call, record));
}

/* Only what was refused memory may report that it was, and then it must not have run in part. */
static void
check(struct record *record, int status, unsigned calls)
{
        CU_ASSERT(status == 0 || (status == -ENOMEM && atomic_load(&refused)));
        CU_ASSERT_EQUAL(atomic_load(&record->freed), atomic_load(&record->made));
        CU_ASSERT_EQUAL(atomic_load(&record->called), status ? 0 : calls);
        CU_ASSERT_EQUAL(atomic_load(&record->made), status ? atomic_load(&record->made) : calls);
}

static void
wait_until_freed(struct record *record)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&record->freed) == atomic_load(&record->made));
}

static void
start_unnamed(void)
{
        struct record record = {0};
        int status = weir_task_start(timer(&record, NULL));

        wait_until_freed(&record);
        check(&record, status, 1);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
}

static void
start_named(void)
{
        struct record record = {0};
        int status = weir_task_start(timer(&record, "memory"));

        wait_until_freed(&record);
        check(&record, status, 1);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        WEIR_TEST_EVENTUALLY(weir_timer_count("memory") == 0);
}

/* Its series is asked for in each tick, until there is one. */
static void
count_end_of_ticker(weir_task *task, void *context)
{
        if (weir_task_status(task) != -EINPROGRESS)
                count_call(task, context);
        else if (!weir_series_of(task))
                CU_ASSERT(atomic_load(&refused));
}

static weir_task *
ticker(struct record *record, const char *name)
{
        weir_task *task = counts(record, name ? weir_ticker_new_named(name, 1, WEIR_TICK_SKIP, count_end_of_ticker, record)
                                              : weir_ticker_new(1, WEIR_TICK_SKIP, count_end_of_ticker, record));
        int fault = weir_ticker_set_first(task, 0);

        CU_ASSERT_EQUAL(fault, task ? 0 : -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(task, 3), fault);
        return task;
}

static void
start_ticker(struct record *record, const char *name)
{
        weir_task *task = ticker(record, name);
        bool made = task;
        int status = weir_task_start(task);

        wait_until_freed(record);
        check(record, status, 1);
        CU_ASSERT_EQUAL(status == 0, made);
        WEIR_TEST_EVENTUALLY(weir_timer_count("memory") == 0);
}

static void
start_unnamed_ticker(void)
{
        struct record record = {0};

        start_ticker(&record, NULL);
}

static void
start_named_ticker(void)
{
        struct record record = {0};

        start_ticker(&record, "memory");
}

static void
run_ticker(void)
{
        struct record record = {0};
        int status = weir_task_run(ticker(&record, "memory"));

        check(&record, status, 1);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        CU_ASSERT_EQUAL(weir_timer_count("memory"), 0);
}

static void
run_task(void)
{
        struct record record = {0};
        int status = weir_task_run(timer(&record, "memory"));

        check(&record, status, 1);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        CU_ASSERT_EQUAL(weir_timer_count("memory"), 0);
}

static void
run_series(void)
{
        struct record record = {0};
        weir_series *series = weir_series_new(count_end, &record);
        bool faulty = !series;

        bool failed = weir_series_push(series, timer(&record, NULL)) != 0;
        faulty |= failed;
        failed = weir_series_push_front(series, timer(&record, "memory")) != 0;
        faulty |= failed;
        failed = weir_series_push(series, counts(&record, weir_empty_new(count_call, &record))) != 0;
        faulty |= failed;
        int status = weir_series_run(series);
        check(&record, status, 3);
        CU_ASSERT_EQUAL(status != 0, faulty);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        CU_ASSERT_EQUAL(atomic_load(&record.ended), status ? 0 : 1);
        CU_ASSERT_EQUAL(weir_timer_count("memory"), 0);
}

static void
run_parallel(void)
{
        struct record record = {0};
        weir_task *parallel = counts(&record, weir_parallel_new(count_call, &record));
        weir_series *series = weir_series_new(count_end, &record);

        weir_series_push(series, timer(&record, "memory"));
        weir_series_push(series, timer(&record, NULL));
        weir_parallel_add(parallel, timer(&record, "memory"));
        weir_parallel_add_series(parallel, series);
        weir_parallel_add(parallel, counts(&record, weir_empty_new(count_call, &record)));
        int status = weir_task_run(parallel);
        check(&record, status, 5);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        CU_ASSERT_EQUAL(atomic_load(&record.ended), status ? 0 : 1);
        CU_ASSERT_EQUAL(weir_timer_count("memory"), 0);
}

/* A parallel in a parallel in a series, all of it pushed and started by what a callback is. */
static void
build_inside(weir_task *task, void *context)
{
        struct record *record = context;
        weir_task *outer = counts(record, weir_parallel_new(count_call, record));
        weir_task *inner = counts(record, weir_parallel_new(count_call, record));

        atomic_fetch_add(&record->called, 1);
        weir_parallel_add(inner, timer(record, "memory"));
        weir_parallel_add(outer, inner);
        weir_parallel_add(outer, timer(record, NULL));
        atomic_store(&record->status, weir_series_push(weir_series_of(task), outer));
}

static void
push_in_a_callback(void)
{
        struct record record = {0};
        weir_series *series = weir_series_new(count_end, &record);

        weir_series_push(series, counts(&record, weir_empty_new(build_inside, &record)));
        int status = weir_series_run(series);
        CU_ASSERT_EQUAL(status != 0, atomic_load(&refused));
        CU_ASSERT(status == 0 || status == -ENOMEM);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
        if (atomic_load(&record.called) > 0) { /* it was started: then it ends, whatever was poisoned on the way */
                CU_ASSERT_EQUAL(atomic_load(&record.status), status);
                CU_ASSERT_EQUAL(atomic_load(&record.ended), 1);
                CU_ASSERT_EQUAL(atomic_load(&record.called), status ? 1 : 5);
        } else {
                CU_ASSERT_EQUAL(atomic_load(&record.ended), 0);
        }
}

/* A lone task has a series only when it is asked for, in the callback: then its memory may be refused. */
static void
start_lone(weir_task *task, struct record *record)
{
        int status = weir_task_start(counts(record, task));

        wait_until_freed(record);
        int inside = atomic_load(&record->status);
        CU_ASSERT(status == 0 || status == -ENOMEM);
        CU_ASSERT(inside == 0 || inside == -ENOMEM);
        CU_ASSERT_EQUAL(status || inside, atomic_load(&refused));
        CU_ASSERT_EQUAL(atomic_load(&record->called), status ? 0 : inside ? 1 : 5);
}

static void
series_of_an_empty_task(void)
{
        struct record record = {0};

        start_lone(weir_empty_new(build_inside, &record), &record);
}

static void
series_of_a_timer(void)
{
        struct record record = {0};

        start_lone(weir_timer_new_named("lone", WEIR_USEC(10), build_inside, &record), &record);
}

static void
series_of_a_parallel(void)
{
        struct record record = {0};

        start_lone(weir_parallel_new(build_inside, &record), &record);
}

static bool
is_taken(const weir_node *before, void *context)
{
        (void)context;
        return weir_node_state(before) == WEIR_NODE_ENDED;
}

/* With edges that go back, so that cycles are looked for.  A node for which there is no memory when its turn comes is dropped. */
static void
run_graph(void)
{
        struct record record = {0};
        weir_task *graph = counts(&record, weir_graph_new(count_call, &record));
        weir_series *series = weir_series_new(count_end, &record);

        weir_series_push(series, timer(&record, NULL));
        weir_node *last = weir_graph_add_series(graph, series, "last");
        for (unsigned i = 0; i < 3; i++) {
                weir_node *node = weir_graph_add(graph, timer(&record, NULL), "node");

                weir_graph_precede(node, last);
                weir_graph_precede_if(node, last, is_taken, NULL);
        }
        int status = weir_task_run(graph);
        CU_ASSERT_EQUAL(status, atomic_load(&refused) ? -ENOMEM : 0);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
        CU_ASSERT(status || atomic_load(&record.called) == 5);
}

static void
consumers_that_never_start(void)
{
        struct record record = {0};
        weir_series *series = weir_series_new(count_end, &record);
        weir_task *parallel = counts(&record, weir_parallel_new(count_call, &record));

        weir_series_push(series, timer(&record, "memory"));
        weir_parallel_add_series(parallel, series);
        weir_parallel_add(parallel, timer(&record, "memory"));
        weir_task_dismiss(parallel);
        weir_task_dismiss(timer(&record, "memory"));
        weir_series_dismiss(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(atomic_load(&record.called) + atomic_load(&record.ended), 0);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
        CU_ASSERT_EQUAL(weir_timer_count("memory"), 0);
}

/* Tables that cannot grow are slower, and no less right: only the first name of a shard needs memory of its own. */
static void
many_names(void)
{
        enum { COUNT = 2000 };
        struct record record = {0};
        unsigned made = 0, found = 0, cancelled = 0;
        char name[COUNT][8];
        bool is_made[COUNT];

        for (unsigned i = 0; i < COUNT; i++) {
                snprintf(name[i], sizeof name[i], "m%u", i);
                weir_task *task = counts(&record, weir_timer_new_named(name[i], WEIR_FOREVER, count_call, &record));
                is_made[i] = task != NULL;
                made += is_made[i];
                CU_ASSERT_EQUAL(weir_task_start(task), task ? 0 : -ENOMEM);
        }
        CU_ASSERT(made == COUNT || atomic_load(&refused));
        for (unsigned i = 0; i < COUNT; i++)
                found += weir_timer_count(name[i]) == is_made[i];
        CU_ASSERT_EQUAL(found, COUNT);
        for (unsigned i = 0; i < COUNT; i++)
                cancelled += (unsigned)weir_timer_cancel(name[i], WEIR_ALL);
        CU_ASSERT_EQUAL(cancelled, made);
        wait_until_freed(&record);
        check(&record, 0, made);
}

/* Names of one shard, so that its table grows again and again. */
static void
names_of_one_shard(void)
{
        enum { COUNT = 150 };
        static char names[COUNT][16];
        struct record record = {0};
        unsigned made = 0, found = 0;

        for (unsigned i = 0, number = 0; i < COUNT && !*names[COUNT - 1]; number++) {
                snprintf(names[i], sizeof names[i], "shard %u", number);
                if (weir__names_same_shard(weir__name_key(names[i], strlen(names[i])).hash, 0))
                        i++;
                else
                        *names[i] = '\0';
        }
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task *task = counts(&record, weir_timer_new_named(names[i], WEIR_FOREVER, count_call, &record));

                made += task != NULL;
                CU_ASSERT_EQUAL(weir_timer_count(names[i]), task != NULL);
                CU_ASSERT_EQUAL(weir_timer_reset(names[i], WEIR_SEC(1000)), task != NULL);
                CU_ASSERT_EQUAL(weir_task_start(task), task ? 0 : -ENOMEM);
        }
        CU_ASSERT(made == COUNT || atomic_load(&refused));
        for (unsigned i = 0; i < COUNT; i++)
                found += (unsigned)weir_timer_cancel(names[i], WEIR_ALL);
        CU_ASSERT_EQUAL(found, made);
        wait_until_freed(&record);
        check(&record, 0, made);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("shard", WEIR_ALL), 0);
}

/* Reset, extend, the wait and all else that is done to a timer that is there: the timer is refused, or its start, or nothing. */
static void
all_that_is_done_to_a_timer(void)
{
        struct record record = {0};
        weir_task *task = counts(&record, weir_timer_new_named("memory", WEIR_FOREVER, count_call, &record));
        size_t there = task != NULL;

        CU_ASSERT_EQUAL(weir_timer_reset("memory", WEIR_SEC(1000)), there);
        CU_ASSERT_EQUAL(weir_timer_extend("memory", WEIR_SEC(1000)), there);
        there = weir_task_start(task) == 0;
        CU_ASSERT_EQUAL(weir_timer_reset("memory", WEIR_SEC(2000)), there);
        CU_ASSERT_EQUAL(weir_timer_extend("memory", WEIR_SEC(2000)), there);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("memory", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("mem", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_count("memory"), there);
        CU_ASSERT_EQUAL((size_t)weir_timer_cancel_wait("memory", WEIR_ALL), there);
        CU_ASSERT_EQUAL(atomic_load(&record.called), there);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
        CU_ASSERT_EQUAL(there, !atomic_load(&refused));
}

/* Without an id the timer is as good as with one. */
static void
timer_with_an_id(void)
{
        struct record record = {0};
        weir_task *task = counts(&record, weir_timer_new_named("memory", WEIR_FOREVER, count_call, &record));
        weir_timer_id id = weir_timer_id_of(task);

        CU_ASSERT(id != 0 || atomic_load(&refused));
        CU_ASSERT_EQUAL(weir_timer_reset_id(id, WEIR_SEC(1000)), id != 0);
        size_t there = weir_task_start(task) == 0;
        CU_ASSERT_EQUAL(there, task != NULL);
        CU_ASSERT_EQUAL(weir_timer_count("memory"), there);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), id != 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("memory", WEIR_ALL), there && !id);
        wait_until_freed(&record);
        check(&record, there ? 0 : -ENOMEM, 1);
}

static int
count_shown(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        ++*(int64_t *)context;
        return 0;
}

static void
list_of_timers(void)
{
        enum { COUNT = 20 };
        struct record record = {0};
        weir_task *tasks[COUNT];
        int64_t made = 0, shown = 0;
        char name[16];

        for (unsigned i = 0; i < COUNT; i++) {
                snprintf(name, sizeof name, "list %u", i);
                tasks[i] = counts(&record, weir_timer_new_named(name, WEIR_FOREVER, count_call, &record));
                made += tasks[i] != NULL;
        }
        int64_t listed = weir_timer_list("list", count_shown, &shown);
        CU_ASSERT(listed == made || (listed == -ENOMEM && atomic_load(&refused)));
        CU_ASSERT_EQUAL(shown, listed < 0 ? 0 : made);
        for (unsigned i = 0; i < COUNT; i++)
                weir_task_dismiss(tasks[i]);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("list", WEIR_ALL), 0);
}

static void
nothing(void *context)
{
        (void)context;
}

static void
start_function(const char *queue)
{
        struct record record = {0};
        int status = weir_task_start(counts(&record, weir_go_new(queue, nothing, count_call, &record)));

        wait_until_freed(&record);
        check(&record, status, 1);
}

static void
start_functions(void)
{
        struct record record = {0};

        start_function(NULL);
        start_function("memory");
        int status = weir_task_start(counts(&record, weir_go_new_timed("memory", WEIR_SEC(1000), nothing, count_call, &record)));
        wait_until_freed(&record);
        check(&record, status, 1);
}

/* -- refusing one after another -- */

/* The scenario with the nth allocation refused, then once more with none.  Returns whether it came to the nth. */
static bool
once_refused(void (*scenario)(void), int64_t nth, bool all_after_it)
{
        CU_ASSERT_EQUAL_FATAL(init(POLLERS), 0);
        arm(nth, all_after_it);
        scenario();
        bool reached = disarm();
        atomic_store(&refused, false);
        scenario();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        return reached;
}

/* Returns how many allocations the scenario needs. */
static int64_t
each_refused(void (*scenario)(void), int64_t step)
{
        int64_t nth = 0, held, descriptors;

        CU_ASSERT_EQUAL_FATAL(init(POLLERS), 0); /* the pollers are there from now on */
        weir_shutdown();
        held = blocks_held();
        descriptors = descriptors_held();
        for (bool reached = true; reached; nth += step) {
                reached = once_refused(scenario, nth, false);
                CU_ASSERT_EQUAL(blocks_held(), held);
                once_refused(scenario, nth, true);
                CU_ASSERT_EQUAL(blocks_held(), held);
        }
        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
        return nth - step;
}

/* -- sentences -- */

/* First, for it needs a process that never had a runtime. */
static void
a_first_start_without_memory_is_refused_and_the_next_one_works(void)
{
        int64_t held = blocks_held(), descriptors = descriptors_held();
        int status = -ENOMEM, attempts = 0;
        struct record record = {0};

        if (atomic_load(&weir__phase) != WEIR__PHASE_DOWN)
                return; /* run by itself, in another order */
        for (; status == -ENOMEM; attempts++) {
                weir_task *task = timer(&record, "first");
                CU_ASSERT_PTR_NOT_NULL_FATAL(task);
                arm(attempts, false);
                status = weir_task_start(task);
                CU_ASSERT_EQUAL(status != 0, disarm());
                if (status) {
                        CU_ASSERT_EQUAL(weir_timer_count("first"), 0);
                        CU_ASSERT_EQUAL(atomic_load(&record.freed), atomic_load(&record.made));
                        CU_ASSERT_EQUAL(blocks_held(), held);
                        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
                }
        }
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT(attempts > 2); /* a poller, and its buffer, at least */
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&record.called), 1);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), (unsigned)attempts);
        CU_ASSERT_EQUAL(blocks_held(), held);
        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
}

/* Each time with more pollers than there ever were. */
static void
an_init_without_memory_reports_enomem_and_leaves_nothing(void)
{
        int64_t held = blocks_held(), descriptors = descriptors_held();
        int status = -ENOMEM;

        for (int attempts = 0; status == -ENOMEM; attempts++) {
                arm(attempts, false);
                status = init(8);
                CU_ASSERT_EQUAL(status != 0, disarm());
                if (status == 0)
                        break;
                CU_ASSERT_EQUAL(status, -ENOMEM);
                CU_ASSERT_EQUAL(blocks_held(), held);
                CU_ASSERT_EQUAL(descriptors_held(), descriptors);
        }
        CU_ASSERT_EQUAL(status, 0);
        start_named();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(blocks_held(), held);
        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
}

static void
an_init_without_descriptors_reports_emfile_and_leaves_none_open(void)
{
        int64_t held = blocks_held(), descriptors = descriptors_held();
        struct rlimit before, limit;
        int status = -EMFILE, failures = 0;

        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit = before;
        for (limit.rlim_cur = 3; status == -EMFILE && limit.rlim_cur < before.rlim_cur; limit.rlim_cur++) {
                setrlimit(RLIMIT_NOFILE, &limit);
                status = init(12);
                setrlimit(RLIMIT_NOFILE, &before);
                if (status == 0)
                        break;
                CU_ASSERT_EQUAL(status, -EMFILE);
                CU_ASSERT_EQUAL(descriptors_held(), descriptors);
                CU_ASSERT_EQUAL(blocks_held(), held);
                failures++;
        }
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT(failures > 12 * 2); /* each poller needs two of its own, at least */
        start_named();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
        CU_ASSERT_EQUAL(blocks_held(), held);
}

static void
an_init_without_threads_reports_eagain_and_leaves_none_running(void)
{
        int64_t held = blocks_held(), descriptors = descriptors_held();

        for (int threads = 0; threads < 6; threads++) {
                atomic_store(&threads_left, threads);
                CU_ASSERT_EQUAL(init(6), -EAGAIN);
                CU_ASSERT_EQUAL(atomic_load(&threads_left), 0);
                CU_ASSERT_EQUAL(descriptors_held(), descriptors);
                CU_ASSERT_EQUAL(blocks_held(), held);
        }
        atomic_store(&threads_left, 6);
        CU_ASSERT_EQUAL(init(6), 0);
        atomic_store(&threads_left, -1);
        start_named();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(descriptors_held(), descriptors);
        CU_ASSERT_EQUAL(blocks_held(), held);
}

static void
a_timer_without_memory_is_refused_by_its_start(void)
{
        CU_ASSERT_EQUAL(each_refused(start_unnamed, 1), 1);
        CU_ASSERT_EQUAL(each_refused(start_named, 1), 1); /* itself: the smallest table of a shard is there */
}

static void
a_ticker_without_memory_is_refused_by_its_start(void)
{
        CU_ASSERT_EQUAL(each_refused(start_unnamed_ticker, 1), 2); /* itself, its series */
        CU_ASSERT_EQUAL(each_refused(start_named_ticker, 1), 2);
        CU_ASSERT_EQUAL(each_refused(run_ticker, 1), 2);
}

static void
a_run_of_a_task_without_memory_reports_enomem(void)
{
        CU_ASSERT_EQUAL(each_refused(run_task, 1), 2);
}

static void
a_series_without_memory_reports_enomem_and_runs_nothing(void)
{
        CU_ASSERT_EQUAL(each_refused(run_series, 1), 4);
}

static void
a_parallel_without_memory_reports_enomem_and_runs_nothing(void)
{
        CU_ASSERT(each_refused(run_parallel, 1) >= 9);
}

static void
a_graph_without_memory_reports_enomem(void)
{
        CU_ASSERT(each_refused(run_graph, 1) >= 15);
}

static void
a_push_in_a_callback_reports_enomem_and_the_series_ends(void)
{
        CU_ASSERT(each_refused(push_in_a_callback, 1) >= 8);
}

static void
a_lone_task_without_memory_for_its_series_still_ends(void)
{
        CU_ASSERT(each_refused(series_of_an_empty_task, 1) >= 8);
        CU_ASSERT(each_refused(series_of_a_timer, 1) >= 8);
        CU_ASSERT(each_refused(series_of_a_parallel, 1) >= 8);
}

static void
a_dismissed_task_gives_all_back_whatever_was_refused(void)
{
        CU_ASSERT(each_refused(consumers_that_never_start, 1) >= 6);
}

static void
names_are_found_when_their_tables_cannot_grow(void)
{
        CU_ASSERT(each_refused(many_names, WEIR_TEST_SANITIZED ? 499 : 97) >= 2000);
}

static void
names_of_one_shard_are_found_when_its_table_cannot_grow(void)
{
        CU_ASSERT(each_refused(names_of_one_shard, 1) >= 150 + 3); /* the timers, and larger tables */
}

static void
nothing_done_to_a_timer_that_is_there_needs_memory(void)
{
        CU_ASSERT_EQUAL(each_refused(all_that_is_done_to_a_timer, 1), 1); /* itself */
}

static void
a_timer_with_an_id_without_memory_is_refused_by_its_start(void)
{
        CU_ASSERT(each_refused(timer_with_an_id, 1) >= 1);
}

/* A table grows when as many ids are alive at once as never before: so more and more are. */
static void
an_id_without_memory_is_0_and_its_timer_lives(void)
{
        enum { GROWN = POLLERS * 3 }; /* times */
        int64_t held = blocks_held();
        struct record record = {0};
        unsigned hits = 0, count = 0, wrong = 0;

        CU_ASSERT_EQUAL_FATAL(init(POLLERS), 0);
        for (; hits < GROWN && count < 1000000; count++) {
                bool named = count % 2;
                weir_task *task = counts(&record, named ? weir_timer_new_named("id", WEIR_FOREVER, count_call, &record)
                                                        : weir_timer_new(WEIR_FOREVER, count_call, &record));
                int64_t before = blocks_held();

                arm(0, true);
                weir_timer_id id = weir_timer_id_of(task);
                if (disarm()) {
                        hits++;
                        wrong += id != 0 || weir_timer_cancel_id(id) || weir_timer_reset_id(id, 0) || blocks_held() != before;
                        wrong += weir_timer_count("id") != (count + 1) / 2;
                        if (hits % 2) {
                                id = weir_timer_id_of(task);
                                wrong += id == 0 || weir_timer_reset_id(id, WEIR_SEC(1000)) != 1;
                        }
                } else {
                        wrong += id == 0;
                }
                CU_ASSERT_EQUAL(weir_task_start(task), 0);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(hits, GROWN);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("id", WEIR_ALL), count / 2);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&record.called), count);
        CU_ASSERT_EQUAL(atomic_load(&record.freed), count);
        CU_ASSERT_EQUAL(blocks_held(), held);
}

static void
a_function_without_memory_is_refused_by_its_start(void)
{
        CU_ASSERT(each_refused(start_functions, 1) >= 6); /* at least one thread, two queues, and themselves */
}

static void
a_list_without_memory_reports_enomem_and_shows_nothing(void)
{
        CU_ASSERT_EQUAL(each_refused(list_of_timers, 1) > 20, true);
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_first_start_without_memory_is_refused_and_the_next_one_works),
        WEIR_TEST(an_init_without_memory_reports_enomem_and_leaves_nothing),
        WEIR_TEST(an_init_without_descriptors_reports_emfile_and_leaves_none_open),
        WEIR_TEST(an_init_without_threads_reports_eagain_and_leaves_none_running),
        WEIR_TEST(a_timer_without_memory_is_refused_by_its_start),
        WEIR_TEST(a_ticker_without_memory_is_refused_by_its_start),
        WEIR_TEST(a_run_of_a_task_without_memory_reports_enomem),
        WEIR_TEST(a_series_without_memory_reports_enomem_and_runs_nothing),
        WEIR_TEST(a_parallel_without_memory_reports_enomem_and_runs_nothing),
        WEIR_TEST(a_graph_without_memory_reports_enomem),
        WEIR_TEST(a_push_in_a_callback_reports_enomem_and_the_series_ends),
        WEIR_TEST(a_lone_task_without_memory_for_its_series_still_ends),
        WEIR_TEST(a_dismissed_task_gives_all_back_whatever_was_refused),
        WEIR_TEST(names_are_found_when_their_tables_cannot_grow),
        WEIR_TEST(names_of_one_shard_are_found_when_its_table_cannot_grow),
        WEIR_TEST(nothing_done_to_a_timer_that_is_there_needs_memory),
        WEIR_TEST(a_timer_with_an_id_without_memory_is_refused_by_its_start),
        WEIR_TEST(an_id_without_memory_is_0_and_its_timer_lives),
        WEIR_TEST(a_function_without_memory_is_refused_by_its_start),
        WEIR_TEST(a_list_without_memory_reports_enomem_and_shows_nothing),
};

int
main(void)
{
        return weir_test_main("memory", tests, sizeof tests / sizeof *tests);
}
