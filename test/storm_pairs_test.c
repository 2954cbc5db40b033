/* test/storm_pairs_test.c: every operation on timers against every other one, on the real clock, for ThreadSanitizer to watch.
 *
 * Two threads do one operation each, over and over, on the timers of a few names; a third makes timers that end within 200 us.
 * Each pair must end with one callback for each timer that was started, one on_free for each that was made, as many
 * callbacks with -ECANCELED as cancels were counted, and nothing left of the names.
 *
 * Threads: the three stay the same; between two pairs, when no timer is left, the main thread judges. */
#include "test/fixture.h"

#include <errno.h>

#define ROUNDS          (WEIR_TEST_SANITIZED ? 1500 : 2000) /* of each of the two, or more, until there is the */
#define SUPPLY          (ROUNDS / 4)                        /* of timers that the third has made */
#define EVENTS          (4 * ROUNDS)                        /* timers that one thread makes in a pair, at most */
#define NAMES           (sizeof names / sizeof *names)
#define IDS             16
#define SOON            200000  /* nanoseconds */
#define SHUTDOWN_WITHIN 4000000 /* nanoseconds */
#define TICKS           8       /* of a ticker, at most */
#define TICKS_SOON      (-1)    /* instead of a duration: a ticker */
#define BACKLOG         128     /* timers of the third that are not freed yet, before it makes more */

static const char *const names[] = {"pair", "pair of", "pair of timers", "other"};

enum fate { STARTED = 1, REFUSED, DISMISSED, PUSHED };

struct event {
        _Atomic unsigned char calls, frees;
        unsigned char fate;  /* enum fate; its maker's */
        signed char outcome; /* 0: ended, 1: cancelled, 2: shut down, 3: anything else */
        weir_timer_id id;
};

/* One of the three threads. */
struct hand {
        pthread_t thread;
        struct weir_test_random random;
        struct event *events;
        unsigned made;
        size_t counted;      /* the sum of the results of its cancels */
        weir_series *series; /* the last that it has started */
        unsigned wrong;      /* results that cannot be */
};

struct operation {
        const char *name;
        void (*run)(struct hand *hand);
};

static struct {
        struct hand hands[3];
        const struct operation *operations[2]; /* NULL: the end */
        pthread_barrier_t barrier;             /* of the three and the main thread: before and after each pair */
        _Atomic unsigned busy;                 /* of the two */
        _Atomic unsigned made, freed;
        _Atomic unsigned supplied, consumed; /* by the third: made, and freed */
        _Atomic weir_timer_id ids[IDS];      /* some that were given out lately */
} storm;

/* -- timers -- */

static void
called(weir_task *task, void *context)
{
        struct event *event = context;
        int status = weir_task_status(task);

        if (status == -EINPROGRESS) {
                if (weir_ticker_count(task) == TICKS)
                        weir_ticker_stop(task);
                return;
        }
        event->outcome = (signed char)(status == 0 ? 0 : status == -ECANCELED ? 1 : status == -ESHUTDOWN ? 2 : 3);
        atomic_fetch_add_explicit(&event->calls, 1, memory_order_relaxed);
}

static void
freed(void *context)
{
        struct event *event = context;

        atomic_fetch_add_explicit(&event->frees, 1, memory_order_relaxed);
        if (event >= storm.hands[2].events && event < storm.hands[2].events + EVENTS)
                atomic_fetch_add(&storm.consumed, 1);
        atomic_fetch_add(&storm.freed, 1);
}

static uint64_t
below(struct hand *hand, uint64_t limit)
{
        return weir_test_random_below(&hand->random, limit);
}

static const char *
any_name(struct hand *hand)
{
        return names[below(hand, NAMES)];
}

static weir_nsec
soon(struct hand *hand)
{
        return (weir_nsec)below(hand, SOON);
}

/* A ticker, whose ticks others may bring forward: it stops itself soon. */
static weir_task *
new_ticker(struct hand *hand, const char *name, struct event *event)
{
        weir_nsec period = 1 + soon(hand) / (weir_nsec)(1 + below(hand, 64));
        enum weir_tick_policy policy = (enum weir_tick_policy)below(hand, 3);
        weir_task *task = name ? weir_ticker_new_named(name, period, policy, called, event)
                               : weir_ticker_new(period, policy, called, event);

        weir_ticker_set_limit(task, below(hand, 2 * TICKS));
        return task;
}

static weir_task *
new_timer(const char *name, weir_nsec after, struct event *event)
{
        return name ? weir_timer_new_named(name, after, called, event) : weir_timer_new(after, called, event);
}

/* NULL: it has made as many as it may.  `after` of TICKS_SOON: a ticker. */
static weir_task *
make(struct hand *hand, const char *name, weir_nsec after, struct event **made)
{
        if (hand->made == EVENTS)
                return NULL;
        struct event *event = *made = &hand->events[hand->made++];
        weir_task *task = after == TICKS_SOON ? new_ticker(hand, name, event) : new_timer(name, after, event);

        atomic_fetch_add(&storm.made, 1);
        weir_task_on_free(task, freed);
        if (below(hand, 2) || !name) {
                event->id = weir_timer_id_of(task);
                atomic_store(&storm.ids[below(hand, IDS)], event->id);
        }
        return task;
}

static void
start(struct event *event, weir_task *task)
{
        event->fate = weir_task_start(task) ? REFUSED : STARTED;
}

static void
count(struct hand *hand, size_t cancelled, size_t max)
{
        hand->wrong += cancelled > max;
        hand->counted += cancelled;
}

static weir_timer_id
any_id(struct hand *hand)
{
        return atomic_load(&storm.ids[below(hand, IDS)]);
}

/* -- operations: a new one is one more function and one more row -- */

static void
start_one(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, any_name(hand), soon(hand), &event);

        if (task)
                start(event, task);
}

static void
start_one_that_never_ends(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, any_name(hand), WEIR_FOREVER, &event);

        if (task)
                start(event, task);
}

static void
start_one_that_is_due(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, any_name(hand), 0, &event);

        if (task)
                start(event, task);
}

static void
start_one_without_name(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, NULL, below(hand, 2) ? soon(hand) : WEIR_FOREVER, &event);

        if (task)
                start(event, task);
}

static void
start_ticker(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, below(hand, 4) ? any_name(hand) : NULL, TICKS_SOON, &event);

        if (task)
                start(event, task);
}

/* Only a reset has it tick, and only a cancel ends it. */
static void
start_ticker_that_waits(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, any_name(hand), TICKS_SOON, &event);

        if (!task)
                return;
        weir_ticker_set_first(task, WEIR_FOREVER);
        start(event, task);
}

static void
dismiss_one(struct hand *hand)
{
        struct event *event;
        weir_task *task = make(hand, any_name(hand), soon(hand), &event);

        if (!task)
                return;
        event->fate = DISMISSED;
        weir_task_dismiss(task);
}

static void
cancel_by_name(struct hand *hand)
{
        size_t max = below(hand, 2) ? below(hand, 3) : WEIR_ALL;

        count(hand, weir_timer_cancel(any_name(hand), max), max);
}

static void
cancel_by_prefix(struct hand *hand)
{
        static const char *const prefixes[] = {"", "p", "pair", "pair of t", "o", "none"};
        size_t max = below(hand, 2) ? below(hand, 3) : WEIR_ALL;

        count(hand, weir_timer_cancel_prefix(prefixes[below(hand, 6)], max), max);
}

static void
cancel_by_id(struct hand *hand)
{
        count(hand, weir_timer_cancel_id(any_id(hand)), 1);
}

/* A timer of its own, which is over when the wait is; so is its callback that others have cancelled. */
static void
cancel_and_wait(struct hand *hand)
{
        const char *name = any_name(hand);
        struct event *event;
        weir_task *task = make(hand, name, soon(hand), &event);

        if (task)
                start(event, task);
        int64_t cancelled = weir_timer_cancel_wait(name, WEIR_ALL);
        hand->wrong += cancelled < 0 || (task && event->frees != 1);
        count(hand, cancelled < 0 ? 0 : (size_t)cancelled, EVENTS * 3);
}

static void
only_wait(struct hand *hand)
{
        hand->wrong += weir_timer_cancel_wait(any_name(hand), 0) != 0;
}

static void
reset_by_name(struct hand *hand)
{
        weir_timer_reset(any_name(hand), soon(hand));
}

static void
extend_by_name(struct hand *hand)
{
        weir_timer_extend(any_name(hand), soon(hand) - SOON / 2);
}

static void
reset_by_id(struct hand *hand)
{
        hand->wrong += weir_timer_reset_id(any_id(hand), soon(hand)) > 1;
}

static int
look(const struct weir_timer_info *timer, void *context)
{
        unsigned *wrong = context;

        *wrong += (strncmp(timer->name, "pair", 4) && strcmp(timer->name, "other")) || timer->state > WEIR_TIMER_RUNNING;
        return 0;
}

static void
list(struct hand *hand)
{
        hand->wrong += weir_timer_list(below(hand, 2) ? "pair" : "", look, &hand->wrong) < 0;
}

static void
count_by_name(struct hand *hand)
{
        hand->wrong += weir_timer_count(any_name(hand)) > 3 * EVENTS;
}

static void
end_series(struct hand *hand)
{
        weir_series_cancel(hand->series);
        weir_series_unref(hand->series);
        hand->series = NULL;
}

/* Two timers, one after the other, in a series that the next call cancels. */
static void
start_series(struct hand *hand)
{
        struct event *events[2] = {NULL, NULL};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        for (unsigned i = 0; i < 2; i++) {
                weir_task *task = make(hand, any_name(hand), below(hand, 4) ? soon(hand) : TICKS_SOON, &events[i]);

                if (!task)
                        break;
                events[i]->fate = PUSHED;
                weir_series_push(series, task);
        }
        weir_series_start(series);
        end_series(hand);
        hand->series = series;
}

static const struct operation operations[] = {
        {"start", start_one},
        {"start for ever", start_one_that_never_ends},
        {"start of what is due", start_one_that_is_due},
        {"start without a name", start_one_without_name},
        {"start of a ticker", start_ticker},
        {"start of a ticker that never ticks", start_ticker_that_waits},
        {"dismiss", dismiss_one},
        {"cancel by name", cancel_by_name},
        {"cancel by prefix", cancel_by_prefix},
        {"cancel by id", cancel_by_id},
        {"cancel and wait", cancel_and_wait},
        {"wait", only_wait},
        {"reset by name", reset_by_name},
        {"extend by name", extend_by_name},
        {"reset by id", reset_by_id},
        {"list", list},
        {"count", count_by_name},
        {"series", start_series},
};

#define OPERATIONS (sizeof operations / sizeof *operations)

/* -- the three threads -- */

static void *
operate(void *argument)
{
        struct hand *hand = argument;

        for (;;) {
                pthread_barrier_wait(&storm.barrier);
                const struct operation *operation = storm.operations[hand - storm.hands];
                if (!operation)
                        return NULL;
                for (unsigned i = 0; i < ROUNDS || storm.supplied < SUPPLY; i++)
                        operation->run(hand);
                end_series(hand);
                atomic_fetch_sub(&storm.busy, 1);
                pthread_barrier_wait(&storm.barrier);
        }
}

static void *
supply(void *argument)
{
        struct hand *hand = argument;

        for (;;) {
                pthread_barrier_wait(&storm.barrier);
                if (!storm.operations[0])
                        return NULL;
                while (storm.busy > 0) {
                        if (hand->made == EVENTS || hand->made - storm.consumed > BACKLOG) {
                                sched_yield();
                        } else {
                                start_one(hand);
                                storm.supplied = hand->made;
                        }
                }
                pthread_barrier_wait(&storm.barrier);
        }
}

static void
begin(void)
{
        static void *(*const mains[3])(void *) = {operate, operate, supply};

        memset(&storm, 0, sizeof storm);
        pthread_barrier_init(&storm.barrier, NULL, 4);
        for (unsigned i = 0; i < 3; i++) {
                storm.hands[i].random.state = weir_test_seed() + i;
                storm.hands[i].events = calloc(EVENTS, sizeof *storm.hands[i].events);
                pthread_create(&storm.hands[i].thread, NULL, mains[i], &storm.hands[i]);
        }
}

static void
end(void)
{
        storm.operations[0] = storm.operations[1] = NULL;
        pthread_barrier_wait(&storm.barrier);
        for (unsigned i = 0; i < 3; i++) {
                pthread_join(storm.hands[i].thread, NULL);
                free(storm.hands[i].events);
        }
        pthread_barrier_destroy(&storm.barrier);
}

/* -- one pair -- */

static void
release(const struct operation *one, const struct operation *other)
{
        for (unsigned i = 0; i < 3; i++) {
                struct hand *hand = &storm.hands[i];

                memset(hand->events, 0, hand->made * sizeof *hand->events);
                hand->made = hand->wrong = 0;
                hand->counted = 0;
        }
        storm.made = storm.freed = storm.supplied = storm.consumed = 0;
        storm.operations[0] = one;
        storm.operations[1] = other;
        storm.busy = 2;
        pthread_barrier_wait(&storm.barrier);
}

/* Ends all timers that would be pending for ever.  Returns the number that it cancelled. */
static size_t
cancel_the_rest(void)
{
        size_t counted = weir_timer_cancel_prefix("", WEIR_ALL);

        for (unsigned i = 0; i < 3; i++)
                for (unsigned n = 0; n < storm.hands[i].made; n++)
                        counted += weir_timer_cancel_id(storm.hands[i].events[n].id);
        return counted;
}

/* Waits until all that was made is freed, and has left its name, which it does a little later. */
static void
await_end(void)
{
        WEIR_TEST_EVENTUALLY(storm.freed == storm.made);
        for (unsigned i = 0; i < NAMES; i++)
                CU_ASSERT_EQUAL(weir_timer_cancel_wait(names[i], 0), 0);
}

struct outcome {
        size_t counted, ended, cancelled, uncalled, pushed, shut_down, wrong;
};

static void
add_event(struct outcome *outcome, const struct event *event)
{
        bool must_call = event->fate == STARTED, may_call = must_call || event->fate == PUSHED;

        outcome->wrong += event->frees != 1 || event->calls > may_call || event->calls < must_call || event->outcome == 3;
        outcome->ended += event->calls && event->outcome == 0;
        outcome->cancelled += event->calls && event->outcome == 1;
        outcome->shut_down += event->calls && event->outcome == 2;
        outcome->uncalled += event->calls == 0;
        outcome->pushed += event->fate == PUSHED;
}

static struct outcome
judge(const struct operation *one, const struct operation *other, size_t counted, bool with_shutdown)
{
        struct outcome outcome = {.counted = counted};

        for (unsigned i = 0; i < 3; i++) {
                outcome.counted += storm.hands[i].counted;
                outcome.wrong += storm.hands[i].wrong;
                for (unsigned n = 0; n < storm.hands[i].made; n++)
                        add_event(&outcome, &storm.hands[i].events[n]);
        }
        /* A timer that was counted before its start may be dismissed, refused or dropped; a series cancels without counting. */
        bool sound = outcome.wrong == 0 && outcome.counted <= outcome.cancelled + outcome.uncalled &&
                     (outcome.counted >= outcome.cancelled || outcome.pushed > 0) && (with_shutdown || outcome.shut_down == 0) &&
                     weir_timer_count("pair") == 0 && weir_timer_list("", look, &outcome.wrong) == 0;
        CU_ASSERT(sound);
        if (!sound)
                fprintf(stderr, "%s against %s: %zu wrong, %zu counted, %zu cancelled, %zu not called, %zu shut down\n",
                        one->name, other->name, outcome.wrong, outcome.counted, outcome.cancelled, outcome.uncalled,
                        outcome.shut_down);
        return outcome;
}

static void
every_operation_against_every_other_one(void)
{
        size_t pairs = OPERATIONS * (OPERATIONS + 1) / 2, ended = 0, cancelled = 0;

        weir_test_begin_real(2);
        begin();
        for (unsigned i = 0; i < OPERATIONS; i++)
                for (unsigned k = i; k < OPERATIONS; k++) {
                        release(&operations[i], &operations[k]);
                        pthread_barrier_wait(&storm.barrier);
                        size_t counted = cancel_the_rest();
                        await_end();
                        struct outcome outcome = judge(&operations[i], &operations[k], counted, false);
                        ended += outcome.ended;
                        cancelled += outcome.cancelled;
                }
        end();
        weir_test_end();
        CU_ASSERT(ended > pairs * SUPPLY / 8 && cancelled > pairs * SUPPLY / 8); /* it was a storm */
}

/* Shutdown comes anywhere between the first and the last of the two operations; a start after it is refused. */
static void
every_operation_against_shutdown(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned cut = 0;

        begin();
        for (unsigned i = 0; i < 2 * OPERATIONS || cut <= OPERATIONS / 2; i++) { /* not always before or behind it all */
                const struct operation *one = &operations[i % OPERATIONS];
                const struct operation *other = &operations[weir_test_random_below(&random, OPERATIONS)];

                weir_test_begin_real((int)(1 + i % 2));
                release(one, other);
                weir_test_sleep((int64_t)weir_test_random_below(&random, SHUTDOWN_WITHIN));
                weir_test_end();
                pthread_barrier_wait(&storm.barrier);
                await_end();
                struct outcome outcome = judge(one, other, 0, true);
                cut += outcome.shut_down + outcome.uncalled > 0;
        }
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(every_operation_against_every_other_one),
                WEIR_TEST(every_operation_against_shutdown),
        };

        return weir_test_main("storm of pairs", tests, sizeof tests / sizeof *tests);
}
