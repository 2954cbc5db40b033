/* test/storm_test.c: threads that start, cancel and let expire named timers on the real clock, all at once.
 *
 * Each order of the operations must end with one callback for each timer that was started, one on_free for each that was made,
 * and as many callbacks with -ECANCELED as the cancels have counted. */
#include "test/fixture.h"

#include <errno.h>

#define THREADS 4
#define TIMERS  (WEIR_TEST_SANITIZED ? 40000 : 400000) /* of all threads */
#define SHARE   (TIMERS / THREADS)
#define NAMES   61
#define BACKLOG 16 /* timers that a thread has made and not yet started */

struct event {
        _Atomic unsigned char calls, frees;
        signed char status;
        bool refused, in_series; /* its maker's */
};

static struct {
        struct event *events;
        _Atomic size_t counted; /* the sum of the results of cancels */
        _Atomic size_t freed;
        _Atomic size_t ended; /* by themselves */
        bool with_shutdown;
        bool in_series;
        pthread_barrier_t barrier;

        /* Series that were started, to be cancelled by the thread that takes one out; guarded by lock. */
        pthread_mutex_t lock;
        weir_series *started[256];
} storm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
called(weir_task *task, void *context)
{
        struct event *event = context;
        int status = weir_task_status(task);

        event->status = (signed char)(status == 0 ? 0 : status == -ECANCELED ? 1 : status == -ESHUTDOWN ? 2 : 3);
        atomic_fetch_add_explicit(&event->calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&storm.ended, status == 0, memory_order_relaxed);
}

static void
freed(void *context)
{
        struct event *event = context;

        atomic_fetch_add_explicit(&event->frees, 1, memory_order_relaxed);
        atomic_fetch_add(&storm.freed, 1);
}

static const char *
name_of(uint64_t number, char *text)
{
        sprintf(text, "storm %llu", (unsigned long long)number % NAMES);
        return text;
}

static void
storm_begin(void)
{
        storm.events = calloc(TIMERS, sizeof *storm.events);
        storm.counted = storm.freed = storm.ended = 0;
        storm.in_series = storm.with_shutdown = false;
        memset(storm.started, 0, sizeof storm.started);
        pthread_barrier_init(&storm.barrier, NULL, THREADS + 1);
}

static void
storm_end(void)
{
        pthread_barrier_destroy(&storm.barrier);
        free(storm.events);
}

/* -- operations of a thread -- */

static weir_task *
make(struct weir_test_random *random, struct event *event)
{
        char text[32];
        uint64_t kind = weir_test_random_below(random, 8);
        weir_nsec after = kind == 0 ? WEIR_FOREVER : kind < 3 ? 0 : (weir_nsec)weir_test_random_below(random, 3000000);
        weir_task *timer = weir_timer_new_named(name_of(weir_test_random(random), text), after, called, event);

        weir_task_on_free(timer, freed);
        return timer;
}

/* Keeps a series that was started, and cancels the one whose place it takes. */
static void
swap_and_cancel(struct weir_test_random *random, weir_series *series)
{
        size_t place = weir_test_random_below(random, 256);
        weir_series *other;

        pthread_mutex_lock(&storm.lock);
        other = storm.started[place];
        storm.started[place] = series;
        pthread_mutex_unlock(&storm.lock);
        weir_series_cancel(other);
        weir_series_unref(other);
}

static void
start(struct weir_test_random *random, struct event *event, weir_task *timer)
{
        if (storm.in_series && weir_test_random_below(random, 2)) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                event->in_series = true;
                weir_series_push(series, timer);
                event->refused = weir_series_start(series) != 0;
                swap_and_cancel(random, series);
        } else {
                event->refused = weir_task_start(timer) != 0;
        }
}

static void
cancel_some(struct weir_test_random *random)
{
        char text[32];
        uint64_t kind = weir_test_random_below(random, 512);
        size_t max = kind == 0 ? WEIR_ALL : weir_test_random_below(random, 4);
        size_t counted = weir_timer_cancel(name_of(weir_test_random(random), text), max);

        CU_ASSERT_FATAL(counted <= max);
        atomic_fetch_add(&storm.counted, counted);
}

static void *
weather(void *argument)
{
        unsigned number = (unsigned)(uintptr_t)argument;
        struct weir_test_random random = {weir_test_seed() + number};
        struct event *events = &storm.events[number * SHARE], *waiting[BACKLOG] = {0};
        weir_task *backlog[BACKLOG] = {0};

        pthread_barrier_wait(&storm.barrier);
        for (unsigned i = 0; i < SHARE; i++) {
                unsigned place = (unsigned)weir_test_random_below(&random, BACKLOG);
                weir_task *timer = make(&random, &events[i]);

                if (backlog[place]) {
                        start(&random, waiting[place], backlog[place]);
                }
                backlog[place] = timer;
                waiting[place] = &events[i];
                if (weir_test_random_below(&random, 4) == 0) {
                        cancel_some(&random);
                }
        }
        for (unsigned place = 0; place < BACKLOG; place++) {
                if (backlog[place]) {
                        start(&random, waiting[place], backlog[place]);
                }
        }
        return NULL;
}

/* -- the expected result -- */

struct outcome {
        size_t ended, cancelled, shut_down, refused, dropped;
};

static struct outcome
judge(void)
{
        struct outcome outcome = {0};
        size_t wrong = 0;

        for (unsigned i = 0; i < TIMERS; i++) {
                const struct event *event = &storm.events[i];

                /* A series that shutdown finds before its first task was started drops it. */
                bool dropped = storm.with_shutdown && event->in_series && !event->refused && event->calls == 0;

                wrong += event->frees != 1 || event->calls != !(event->refused || dropped) || event->status > 2;
                outcome.dropped += dropped;
                outcome.refused += event->refused;
                outcome.ended += event->calls && event->status == 0;
                outcome.cancelled += event->calls && event->status == 1;
                outcome.shut_down += event->calls && event->status == 2;
        }
        CU_ASSERT_EQUAL(wrong, 0);
        return outcome;
}

static void
start_threads(pthread_t threads[THREADS])
{
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_create(&threads[i], NULL, weather, (void *)(uintptr_t)i);
        }
        pthread_barrier_wait(&storm.barrier);
}

static void
join_threads(pthread_t threads[THREADS])
{
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
        for (unsigned i = 0; i < 256; i++) {
                weir_series_cancel(storm.started[i]);
                weir_series_unref(storm.started[i]);
        }
}

/* Ends those that would be pending for ever, and all others that are left. */
static void
cancel_the_rest(void)
{
        char text[32];

        for (unsigned i = 0; i < NAMES; i++) {
                atomic_fetch_add(&storm.counted, weir_timer_cancel(name_of(i, text), WEIR_ALL));
        }
        WEIR_TEST_EVENTUALLY(storm.freed == TIMERS);
        for (unsigned i = 0; i < NAMES; i++) {
                CU_ASSERT_EQUAL(weir_timer_count(name_of(i, text)), 0);
        }
}

static void
each_timer_has_one_callback_and_each_cancel_counts_what_it_cancelled(void)
{
        pthread_t threads[THREADS];
        struct outcome outcome;

        storm_begin();
        weir_test_begin_real(0);
        start_threads(threads);
        join_threads(threads);
        WEIR_TEST_EVENTUALLY(storm.ended > TIMERS / 100); /* the threads cancel less than half; it was a storm */
        cancel_the_rest();
        weir_test_end();
        outcome = judge();
        CU_ASSERT_EQUAL(outcome.cancelled, storm.counted);
        CU_ASSERT_EQUAL(outcome.refused + outcome.shut_down, 0);
        CU_ASSERT(outcome.cancelled > TIMERS / 100);
        storm_end();
}

static void
with_series_cancelled_too_no_cancel_by_name_counts_what_it_did_not_cancel(void)
{
        pthread_t threads[THREADS];
        struct outcome outcome;

        storm_begin();
        storm.in_series = true;
        weir_test_begin_real(0);
        start_threads(threads);
        join_threads(threads);
        cancel_the_rest();
        weir_test_end();
        outcome = judge();
        CU_ASSERT(outcome.cancelled > storm.counted);
        CU_ASSERT_EQUAL(outcome.refused + outcome.shut_down, 0);
        storm_end();
}

/* Shutdown comes once in the very beginning, once in the very end, and in between. */
static void
with_shutdown_at_any_moment_each_started_one_is_called_back_once(void)
{
        enum { ROUNDS = 6 };
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < ROUNDS; round++) {
                pthread_t threads[THREADS];
                struct outcome outcome;

                storm_begin();
                storm.in_series = round % 2;
                storm.with_shutdown = true;
                weir_test_begin_real((int)(round % 3));
                start_threads(threads);
                weir_test_sleep((int64_t)weir_test_random_below(&random, 30000000) * round / 2);
                weir_test_end();
                join_threads(threads);
                CU_ASSERT_EQUAL(storm.freed, TIMERS);
                outcome = judge();
                /* A timer may be counted before its start, and then be refused. */
                CU_ASSERT(storm.counted <= outcome.cancelled + outcome.refused || storm.in_series);
                CU_ASSERT_EQUAL(outcome.ended + outcome.cancelled + outcome.shut_down + outcome.refused + outcome.dropped,
                                TIMERS);
                storm_end();
        }
}

/* -- a mass cancel whose callbacks start new timers, while another thread cancels those: where one of our ancestors hangs -- */

#define MASS (WEIR_TEST_SANITIZED ? 20000 : 200000)

static struct {
        _Atomic unsigned called, next_cancelled, next_ended;
        const char *next;
        _Atomic bool over;
} mass;

static void
next_called(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(weir_task_status(task) == -ECANCELED ? &mass.next_cancelled : &mass.next_ended, 1);
}

static void
start_next(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_FATAL(weir_task_status(task) == -ECANCELED);
        CU_ASSERT_FATAL(weir_task_start(weir_timer_new_named(mass.next, WEIR_FOREVER, next_called, NULL)) == 0);
        atomic_fetch_add(&mass.called, 1);
}

static void *
cancel_next(void *argument)
{
        size_t *counted = argument;

        while (!mass.over) {
                *counted += weir_timer_cancel(mass.next, WEIR_ALL);
        }
        return NULL;
}

static size_t
cancel_mass(const char *next, bool with_thread)
{
        size_t counted = 0;
        pthread_t thread;

        mass.called = mass.next_cancelled = mass.next_ended = 0;
        mass.over = false;
        mass.next = next;
        for (unsigned i = 0; i < MASS; i++) {
                weir_task_start(weir_timer_new_named("mass", WEIR_FOREVER, start_next, NULL));
        }
        int64_t began = weir_test_now();
        if (with_thread) {
                pthread_create(&thread, NULL, cancel_next, &counted);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("mass", WEIR_ALL), MASS);
        WEIR_TEST_EVENTUALLY(mass.called == MASS);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        mass.over = true;
        if (with_thread) {
                pthread_join(thread, NULL);
        }
        return counted;
}

static void
mass_cancel_whose_callbacks_start_named_timers_ends_while_others_cancel_those(void)
{
        weir_test_begin_real(0);
        size_t counted = cancel_mass("next", true);
        counted += weir_timer_cancel("next", WEIR_ALL);
        CU_ASSERT_EQUAL(counted, MASS);
        weir_test_end();
        CU_ASSERT_EQUAL(mass.next_cancelled, MASS);
        CU_ASSERT_EQUAL(mass.next_ended, 0);
}

/* The new ones bear the very name that is being cancelled: the cancel must not chase them for ever. */
static _Atomic unsigned chased;

static void
start_again(weir_task *task, void *context)
{
        atomic_fetch_add(&chased, 1);
        if (weir_task_status(task) == -ECANCELED) {
                weir_task_start(weir_timer_new_named("again", WEIR_FOREVER, start_again, context));
        }
}

static void
cancel_does_not_chase_the_timers_that_its_callbacks_start_under_the_same_name(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 5000 : 100000, CANCELS = 5 };

        weir_test_begin_real(0);
        chased = 0;
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task_start(weir_timer_new_named("again", WEIR_FOREVER, start_again, NULL));
        }
        size_t counted = 0;
        for (unsigned i = 0; i < CANCELS; i++) {
                size_t now = weir_timer_cancel("again", WEIR_ALL);

                CU_ASSERT(now <= COUNT + 64); /* a callback that runs counts itself beside the one that it started */
                counted += now;
        }
        WEIR_TEST_EVENTUALLY(chased == counted);
        CU_ASSERT(counted >= COUNT);
        weir_test_end();
        CU_ASSERT_EQUAL(chased, counted + COUNT);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_timer_has_one_callback_and_each_cancel_counts_what_it_cancelled),
                WEIR_TEST(with_series_cancelled_too_no_cancel_by_name_counts_what_it_did_not_cancel),
                WEIR_TEST(with_shutdown_at_any_moment_each_started_one_is_called_back_once),
                WEIR_TEST(mass_cancel_whose_callbacks_start_named_timers_ends_while_others_cancel_those),
                WEIR_TEST(cancel_does_not_chase_the_timers_that_its_callbacks_start_under_the_same_name),
        };

        return weir_test_main("storm", tests, sizeof tests / sizeof *tests);
}
