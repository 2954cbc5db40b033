/* test/storm_flows_test.c: threads that start series and parallels of named timers, and cancel, push into and shut them down
 * while they run and end.
 *
 * Threads: an event is written by its maker, then by the worker that runs or frees its task.  Its counts are not atomic.  They
 *          are read in the callback of the parallel around it, and after the join of all threads.  All that is promised to
 *          happen before must have happened there, and ThreadSanitizer sees whether it did. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "test/support.h"

#define THREADS 4
#define FLOWS   (WEIR_TEST_SANITIZED ? 1000 : 12000) /* of each thread, in one storm */
#define EVENTS  14                                   /* of a flow, at most */
#define NAMES   32
#define PLACES  64
#define MASS    (WEIR_TEST_SANITIZED ? 20000 : 200000)

struct event {
        unsigned char calls, frees, inside; /* inside: how many behind this one are a parallel's children */
        bool pushed_late, refused;
};

/* The events of a series: in a flow, or in a parallel. */
struct flow {
        struct event events[EVENTS], late; /* late: pushed by another thread, into another flow */
        unsigned count;                    /* of events */
        unsigned ends;                     /* of the series' callback */
        bool refused;
        struct flow *late_into;
        _Atomic bool cancelled; /* somebody did, or may have */
};

struct place {
        struct flow *flow;
        weir_series *series;
};

static struct {
        struct flow *flows; /* FLOWS of each thread */
        bool with_shutdown;
        _Atomic size_t early; /* parallels whose callback came before all of their children had gone */
        _Atomic size_t odd;   /* statuses that cannot be */
        _Atomic size_t going; /* flows; relaxed, lest it order what the library has to */

        pthread_mutex_t lock;
        struct place places[PLACES]; /* guarded by lock: flows that were started, one reference each */
} storm = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- callbacks -- */

static bool
is_odd(int status)
{
        return status && status != -ECANCELED && (status != -ESHUTDOWN || !storm.with_shutdown);
}

static void
called(weir_task *task, void *context)
{
        struct event *event = context;

        event->calls++;
        for (unsigned i = 1; i <= event->inside; i++)
                if (event[i].frees != 1)
                        atomic_fetch_add(&storm.early, 1);
        if (is_odd(weir_task_status(task)))
                atomic_fetch_add(&storm.odd, 1);
}

static void
freed(void *context)
{
        ((struct event *)context)->frees++;
}

static void
ended(weir_series *series, void *context)
{
        ((struct flow *)context)->ends++;
        if (is_odd(weir_series_status(series)))
                atomic_fetch_add(&storm.odd, 1);
        atomic_fetch_sub_explicit(&storm.going, 1, memory_order_relaxed);
}

/* -- making flows -- */

static const char *
name_of(uint64_t number, char text[static 24])
{
        snprintf(text, 24, "flow %u", (unsigned)(number % NAMES));
        return text;
}

static weir_nsec
duration(struct weir_test_random *random)
{
        uint64_t kind = weir_test_random_below(random, 8);

        if (storm.with_shutdown && kind == 0)
                return WEIR_FOREVER;
        return kind < 3 ? 0 : (weir_nsec)weir_test_random_below(random, 1000000);
}

static weir_task *
make_leaf(struct weir_test_random *random, struct event *event)
{
        char text[24];
        uint64_t kind = weir_test_random_below(random, 6);
        weir_task *task = kind == 0   ? weir_empty_new(called, event)
                          : kind == 1 ? weir_timer_new(duration(random), called, event)
                                      : weir_timer_new_named(name_of(weir_test_random(random), text), duration(random), called,
                                                             event);

        weir_task_on_free(task, freed);
        return task;
}

/* A leaf, or a parallel of tasks, series and parallels; takes the next events, at most `left` of them. */
static weir_task *
make_task(struct weir_test_random *random, struct flow *flow, unsigned left)
{
        struct event *event = &flow->events[flow->count++];

        left--;
        if (left == 0 || weir_test_random_below(random, 3))
                return make_leaf(random, event);
        weir_task *parallel = weir_parallel_new(called, event);
        weir_task_on_free(parallel, freed);
        unsigned before = flow->count, limit = before + (unsigned)weir_test_random_below(random, left + 1);
        while (flow->count < limit) {
                weir_series *series = weir_test_random_below(random, 2) ? weir_series_new(NULL, NULL) : NULL;

                if (series) {
                        weir_series_push(series, make_task(random, flow, limit - flow->count));
                        if (flow->count < limit)
                                weir_series_push_front(series, make_task(random, flow, limit - flow->count));
                        weir_parallel_add_series(parallel, series);
                } else {
                        weir_parallel_add(parallel, make_task(random, flow, limit - flow->count));
                }
        }
        event->inside = (unsigned char)(flow->count - before);
        return parallel;
}

static weir_series *
make_flow(struct weir_test_random *random, struct flow *flow)
{
        weir_series *series = weir_series_new(ended, flow);
        unsigned limit = (unsigned)weir_test_random_below(random, EVENTS + 1);

        while (flow->count < limit)
                weir_series_push(series, make_task(random, flow, limit - flow->count));
        return series;
}

/* -- operations of a thread -- */

static struct place
swap(struct weir_test_random *random, struct place mine)
{
        struct place *place = &storm.places[weir_test_random_below(random, PLACES)];

        pthread_mutex_lock(&storm.lock);
        struct place other = *place;
        *place = mine;
        pthread_mutex_unlock(&storm.lock);
        return other;
}

/* Cancels the other's flow, or pushes into it, which may be pending, running, ended or not yet started; gives it up. */
static void
meddle(struct weir_test_random *random, struct flow *flow, struct place other)
{
        uint64_t kind = weir_test_random_below(random, 4);

        if (kind > 1) {
                flow->late.pushed_late = true;
                flow->late_into = other.flow;
                int status = weir_series_push(other.series, make_leaf(random, &flow->late));
                flow->late.refused = status != 0;
                if (status && status != -ESTALE)
                        atomic_fetch_add(&storm.odd, 1);
        }
        if (kind == 0 || kind == 3) {
                atomic_store(&other.flow->cancelled, true);
                weir_series_cancel(other.series);
        }
        weir_series_unref(other.series);
}

static void
one_flow(struct weir_test_random *random, struct flow *flow)
{
        char text[24];
        weir_series *series = make_flow(random, flow);
        bool run = weir_test_random_below(random, 32) == 0, first = weir_test_random_below(random, 2);
        struct place mine = {flow, weir_series_ref(series)}, other = {0};

        if (run || first)
                other = swap(random, mine); /* others may come to it before it is started */
        atomic_fetch_add_explicit(&storm.going, 1, memory_order_relaxed);
        int status = run ? weir_series_run(series) : weir_series_start(series);
        if (is_odd(status) || (!run && status == -ECANCELED))
                atomic_fetch_add(&storm.odd, 1);
        flow->refused = !run && status;
        if (!run && !first)
                other = swap(random, mine);
        if (other.flow)
                meddle(random, flow, other);
        if (weir_test_random_below(random, 2))
                weir_timer_cancel(name_of(weir_test_random(random), text), weir_test_random_below(random, 8));
}

static void *
weather(void *argument)
{
        unsigned number = (unsigned)(uintptr_t)argument;
        struct weir_test_random random = {weir_test_seed() * 31 + number};

        for (unsigned i = 0; i < FLOWS; i++)
                one_flow(&random, &storm.flows[number * FLOWS + i]);
        return NULL;
}

/* -- the expected result -- */

static void
storm_begin(bool with_shutdown)
{
        storm.flows = calloc((size_t)THREADS * FLOWS, sizeof *storm.flows);
        CU_ASSERT_PTR_NOT_NULL_FATAL(storm.flows);
        storm.with_shutdown = with_shutdown;
        memset(storm.places, 0, sizeof storm.places);
        atomic_store(&storm.early, 0);
        atomic_store(&storm.odd, 0);
        atomic_store(&storm.going, 0);
}

static void
start_threads(pthread_t threads[THREADS])
{
        for (unsigned i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, weather, (void *)(uintptr_t)i);
}

static void
join_threads(pthread_t threads[THREADS])
{
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < PLACES; i++)
                weir_series_unref(storm.places[i].series);
}

/* Whether the life of a task is allowed: `full` says that it must have been called. */
static bool
is_sound(const struct event *event, bool may_run, bool full)
{
        return event->frees == 1 && (!full || event->calls == 1) && (may_run ? event->calls <= 1 : event->calls == 0);
}

/* Returns how many tasks were called. */
static size_t
judge(void)
{
        size_t wrong = 0, calls = 0;

        for (size_t i = 0; i < (size_t)THREADS * FLOWS; i++) {
                const struct flow *flow = &storm.flows[i];
                bool full = !storm.with_shutdown && !atomic_load(&flow->cancelled);

                /* A run that was refused says the same as one that shutdown ended. */
                wrong += storm.with_shutdown ? flow->ends > 1 || (flow->refused && flow->ends) : flow->refused || flow->ends != 1;
                for (unsigned j = 0; j < flow->count; j++) {
                        wrong += !is_sound(&flow->events[j], !flow->refused, full);
                        calls += flow->events[j].calls;
                }
                if (flow->late.pushed_late)
                        wrong += !is_sound(&flow->late, !flow->late.refused && !flow->late_into->refused,
                                           !flow->late.refused && !storm.with_shutdown &&
                                                   !atomic_load(&flow->late_into->cancelled));
        }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(atomic_load(&storm.early), 0);
        CU_ASSERT_EQUAL(atomic_load(&storm.odd), 0);
        free(storm.flows);
        return calls;
}

static void
nobody_bears_a_name(void)
{
        char text[24];

        for (unsigned i = 0; i < NAMES; i++)
                CU_ASSERT_EQUAL(weir_timer_count(name_of(i, text)), 0);
}

static void
init(int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* -- sentences -- */

static void
flows_that_others_cancel_and_push_into_end_once_and_in_order(void)
{
        pthread_t threads[THREADS];

        storm_begin(false);
        init(3);
        start_threads(threads);
        join_threads(threads);
        WEIR_TEST_EVENTUALLY(atomic_load(&storm.going) == 0); /* by themselves: their timers are short */
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        nobody_bears_a_name();
        CU_ASSERT(judge() > (size_t)THREADS * FLOWS);
}

/* Also with fewer pollers than the round before, and timers that only the shutdown ends. */
static void
flows_that_a_shutdown_meets_anywhere_end_once_or_are_refused(void)
{
        enum { ROUNDS = 6 };
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < ROUNDS; round++) {
                pthread_t threads[THREADS];

                storm_begin(true);
                init(1 + (int)(ROUNDS - round) % 4);
                start_threads(threads);
                weir_test_sleep((int64_t)weir_test_random_below(&random, 10000000) * round / ROUNDS); /* first: at once */
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                join_threads(threads);
                nobody_bears_a_name();
                judge();
        }
}

/* -- timers of no duration, against a thread that cancels them -- */

static struct {
        _Atomic size_t called, cancelled, freed;
        _Atomic bool over;
} rush;

static void
rush_called(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add_explicit(&rush.called, 1, memory_order_relaxed);
        if (weir_task_status(task) == -ECANCELED)
                atomic_fetch_add_explicit(&rush.cancelled, 1, memory_order_relaxed);
}

static void
rush_freed(void *context)
{
        (void)context;
        atomic_fetch_add(&rush.freed, 1);
}

static void *
cancel_at_once(void *argument)
{
        size_t *counted = argument;

        while (!atomic_load(&rush.over))
                *counted += weir_timer_cancel("rush", WEIR_ALL);
        return NULL;
}

static void
timers_of_no_duration_cancelled_at_once_are_called_once_and_counted_right(void)
{
        size_t counted[2] = {0};
        pthread_t threads[2];

        atomic_store(&rush.over, false);
        init(2);
        for (unsigned i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, cancel_at_once, &counted[i]);
        for (unsigned i = 0; i < MASS; i++) {
                weir_task *task = weir_timer_new_named("rush", -(weir_nsec)(i % 2), rush_called, NULL);

                weir_task_on_free(task, rush_freed);
                weir_task_start(task);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&rush.freed) == MASS);
        atomic_store(&rush.over, true);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&rush.called), MASS);
        CU_ASSERT_EQUAL(atomic_load(&rush.cancelled), counted[0] + counted[1]);
        CU_ASSERT_EQUAL(weir_timer_count("rush"), 0);
}

/* -- one call inside a callback, for timers whose callbacks start others -- */

static struct {
        const char *next; /* the name of those others */
        _Atomic size_t first_called, next_called;
        size_t counted;
} mass;

static void
count_next(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add(&mass.next_called, 1);
}

static void
start_next(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_task_start(weir_timer_new_named(mass.next, WEIR_FOREVER, count_next, NULL));
        atomic_fetch_add(&mass.first_called, 1);
}

static void
cancel_mass(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        mass.counted = weir_timer_cancel("mass", WEIR_ALL);
}

static void
cancel_mass_inside(const char *next)
{
        int64_t began = weir_test_now();

        mass.next = next;
        atomic_store(&mass.first_called, 0);
        atomic_store(&mass.next_called, 0);
        init(2);
        for (unsigned i = 0; i < MASS; i++)
                weir_task_start(weir_timer_new_named("mass", WEIR_FOREVER, start_next, NULL));
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(cancel_mass, NULL)), 0);
        CU_ASSERT_EQUAL(mass.counted, MASS);
        WEIR_TEST_EVENTUALLY(atomic_load(&mass.first_called) == MASS);
        CU_ASSERT_EQUAL(weir_timer_count(next), MASS);
        CU_ASSERT_EQUAL(weir_timer_cancel(next, WEIR_ALL), MASS);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&mass.next_called), MASS);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
}

static void
a_mass_cancelled_inside_a_callback_leaves_what_its_callbacks_start(void)
{
        cancel_mass_inside("another name");
        cancel_mass_inside("mass");
}

static const struct weir_test tests[] = {
        WEIR_TEST(flows_that_others_cancel_and_push_into_end_once_and_in_order),
        WEIR_TEST(flows_that_a_shutdown_meets_anywhere_end_once_or_are_refused),
        WEIR_TEST(timers_of_no_duration_cancelled_at_once_are_called_once_and_counted_right),
        WEIR_TEST(a_mass_cancelled_inside_a_callback_leaves_what_its_callbacks_start),
};

int
main(void)
{
        return weir_test_main("storm of flows", tests, sizeof tests / sizeof *tests);
}
