/* test/interleave_ticker_test.c: operations on tickers at the same time, in thousands of orders that seeds make
 * (interleave.h).
 *
 * Each interleaving must give the same result:
 *
 * - Callbacks of one ticker never overlap.  The last one comes once, behind all ticks, and its status says why.
 * - A cancel that counts ends the ticker with -ECANCELED.  A cancel or a reset after it counts nothing.
 * - Without a reset the ticks keep their phase, and dropped ticks are counted.  The next tick after a reset is due by it.
 * - A thread that waits is woken as soon as the tick that ran has returned, and not before.
 * - Nothing is left over.
 *
 * WEIR_TEST_SEED is the first seed of each scenario. */
#include <errno.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/timer/timer.h"
#include "kernel/worker/worker.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 250 : 2000) /* of a scenario */

#define TICKERS 3
#define ACTIONS 6
#define MOST    12 /* ticks until a ticker stops itself */

enum fate { UNDECIDED, STARTED, REFUSED, DISMISSED, PUSHED };

struct one {
        weir_task *task; /* its owner's: the actor that decides its fate */
        const char *name;
        enum weir_tick_policy policy;
        weir_nsec period;
        uint64_t limit;
        weir_timer_id id;
        _Atomic enum fate fate;
        _Atomic bool inside;              /* its callback runs */
        _Atomic unsigned begun, ended;    /* ticks */
        _Atomic int calls, frees, status; /* the last callback */
        _Atomic bool stopped;
        _Atomic unsigned counted;     /* by cancels that were meant for it alone */
        _Atomic bool closed;          /* a cancel has tried it, and returned: no other one counts it, and no reset */
        _Atomic bool changed;         /* somebody resets it, so nothing is known of its phase */
        _Atomic weir_nsec not_before; /* a reset has counted it: the next tick is due then, or later */
        weir_nsec first;              /* when the first tick was due */
        weir_nsec before;             /* when the one before was */
        unsigned since;               /* ticks since then */
        uint64_t missed;
        unsigned early;
};

struct action {
        void (*operation)(struct one *one);
        struct one *one;
};

static struct {
        struct one tickers[TICKERS];
        struct action actions[ACTIONS];
        unsigned made, acting;
        weir_series *series;
        _Atomic unsigned freed;
        _Atomic size_t counted; /* the sum of the results of cancels */
        _Atomic bool series_cancelled, shut_down;
        bool callbacks_act;
        bool making;                  /* somebody resets a ticker while it is made */
        _Atomic weir_nsec new_period; /* that this has made; 0: it has not returned */
        _Atomic bool waited;          /* see run_wait_for_a_busy_one */
} run;

static void operate(struct one *one);

/* -- tickers -- */

/* Where it ought to be, if nobody has moved it; DELAY has no phase. */
static void
judge_phase(struct one *one, weir_task *task)
{
        weir_nsec scheduled = weir_ticker_scheduled(task);
        uint64_t count = weir_ticker_count(task);

        if (count == 1)
                one->first = scheduled;
        one->missed += weir_ticker_missed(task);
        INTERLEAVE_EXPECT(weir_ticker_actual(task) >= scheduled);
        one->early += one->not_before && scheduled < one->not_before;
        INTERLEAVE_EXPECT(one->early <= 1);     /* it may have been RUNNING when it was reset */
        if (run.new_period && ++one->since > 2) /* in the first it may have been reset, the second came when that said */
                INTERLEAVE_EXPECT(scheduled - one->before == (weir_nsec)(1 + weir_ticker_missed(task)) * run.new_period);
        one->before = scheduled;
        if (!one->changed && one->policy != WEIR_TICK_DELAY)
                INTERLEAVE_EXPECT(scheduled == one->first + (weir_nsec)(count - 1 + one->missed) * one->period);
}

static void
on_tick(struct one *one, weir_task *task)
{
        unsigned begun = ++one->begun;

        INTERLEAVE_EXPECT(one->calls == 0 && weir_ticker_count(task) == begun);
        INTERLEAVE_EXPECT(begun <= MOST && (!one->limit || begun <= one->limit));
        judge_phase(one, task);
        if (run.callbacks_act && interleave_random(3) == 0)
                operate(one);
        if (begun == MOST || interleave_random(8) == 0) {
                INTERLEAVE_EXPECT(weir_ticker_stop(task) == 0);
                one->stopped = true;
                if (run.callbacks_act)
                        INTERLEAVE_EXPECT(weir_timer_reset_id(one->id, 0) == 0);
        }
        one->ended++;
}

static void
on_end(struct one *one, weir_task *task)
{
        one->status = weir_task_status(task);
        one->calls++;
        INTERLEAVE_EXPECT(weir_ticker_count(task) == one->begun);
        INTERLEAVE_EXPECT(weir_ticker_stop(task) == -EINVAL);
        INTERLEAVE_EXPECT(weir_timer_cancel_id(one->id) == 0 && weir_timer_reset_id(one->id, 0) == 0);
}

static void
called(weir_task *task, void *context)
{
        struct one *one = context;

        INTERLEAVE_EXPECT(!one->inside);
        one->inside = true;
        if (weir_task_status(task) == -EINPROGRESS)
                on_tick(one, task);
        else
                on_end(one, task);
        one->inside = false;
}

static void
freed(void *context)
{
        struct one *one = context;

        one->frees++;
        run.freed++;
        interleave_wake(&run.freed, 1);
}

static struct one *
make_with(const char *name, enum weir_tick_policy policy, weir_nsec period)
{
        struct one *one = &run.tickers[run.made];

        *one = (struct one){.name = name, .policy = policy, .period = period};
        one->changed = run.making;
        one->limit = interleave_random(2) ? interleave_random(4) : 0;
        one->task = name ? weir_ticker_new_named(name, period, policy, called, one)
                         : weir_ticker_new(period, policy, called, one);
        if (!run.making)
                one->task->poller = (uint8_t)interleave_random(weir__pollers_count()); /* before anybody looks for it */
        weir_task_on_free(one->task, freed);
        if (interleave_random(2))
                weir_ticker_set_first(one->task, interleave_random(2) * 500);
        weir_ticker_set_limit(one->task, one->limit);
        one->id = weir_timer_id_of(one->task);
        INTERLEAVE_EXPECT(one->id != 0);
        run.made++;
        return one;
}

static struct one *
make(const char *name)
{
        static const weir_nsec periods[] = {1, 100, 1000};

        return make_with(name, (enum weir_tick_policy)interleave_random(3), periods[interleave_random(3)]);
}

/* -- operations -- */

static void
start(struct one *one)
{
        one->fate = weir_task_start(one->task) ? REFUSED : STARTED;
}

static void
dismiss(struct one *one)
{
        one->fate = DISMISSED;
        weir_task_dismiss(one->task);
}

static bool
is_called(const struct one *one, const char *name)
{
        return one->name && name && !strcmp(one->name, name);
}

static size_t
open_ones(const char *name)
{
        size_t open = 0;

        for (unsigned i = 0; i < run.made; i++)
                open += is_called(&run.tickers[i], name) && !run.tickers[i].closed;
        return open;
}

static void
close_all(const char *name)
{
        for (unsigned i = 0; i < run.made; i++)
                if (is_called(&run.tickers[i], name))
                        run.tickers[i].closed = true;
}

static void
count(size_t cancelled, size_t max)
{
        INTERLEAVE_EXPECT(cancelled <= max);
        run.counted += cancelled;
}

static void
cancel(struct one *one)
{
        size_t open = open_ones(one->name); /* before the cancel */

        count(weir_timer_cancel(one->name, WEIR_ALL), open);
        close_all(one->name);
}

static void
cancel_prefix(struct one *one)
{
        count(weir_timer_cancel_prefix(one->name ? one->name : "", WEIR_ALL), TICKERS);
        close_all(one->name);
}

static void
cancel_id(struct one *one)
{
        bool closed = one->closed;

        count(weir_timer_cancel_id(one->id), !closed);
        if (one->fate != DISMISSED) /* which has its id for a while */
                one->closed = true;
}

/* The ticks that ran before it was called have returned; with a cancel, all is over. */
static void
cancel_and_wait(struct one *one, size_t max)
{
        unsigned begun[TICKERS];
        bool over[TICKERS];
        size_t open = max ? open_ones(one->name) : 0;

        for (unsigned i = 0; i < run.made; i++) {
                const struct one *other = &run.tickers[i];

                begun[i] = is_called(other, one->name) ? other->begun : 0;
                over[i] = is_called(other, one->name) && other->fate == STARTED && (max || other->calls > 0);
        }
        int64_t counted = weir_timer_cancel_wait(one->name, max);
        if (weir__worker_self()) {
                INTERLEAVE_EXPECT(counted == -EDEADLK);
                return;
        }
        INTERLEAVE_EXPECT(counted >= 0);
        count((size_t)counted, open);
        if (max)
                close_all(one->name);
        for (unsigned i = 0; i < run.made; i++) {
                INTERLEAVE_EXPECT(run.tickers[i].ended >= begun[i]);
                INTERLEAVE_EXPECT(!over[i] || run.tickers[i].frees == 1);
        }
}

static void
cancel_wait(struct one *one)
{
        cancel_and_wait(one, WEIR_ALL);
}

static void
only_wait(struct one *one)
{
        cancel_and_wait(one, 0);
}

static void
reset(struct one *one)
{
        size_t open = open_ones(one->name);

        for (unsigned i = 0; i < run.made; i++)
                run.tickers[i].changed = true;
        INTERLEAVE_EXPECT(weir_timer_reset(one->name, interleave_random(2000)) <= open);
}

static void
extend(struct one *one)
{
        size_t open = open_ones(one->name);

        for (unsigned i = 0; i < run.made; i++)
                run.tickers[i].changed = true;
        INTERLEAVE_EXPECT(weir_timer_extend(one->name, (weir_nsec)interleave_random(4000) - 2000) <= open);
}

static void
reset_id(struct one *one)
{
        bool closed = one->closed;

        one->changed = true;
        INTERLEAVE_EXPECT(weir_timer_reset_id(one->id, interleave_random(2000)) <= !closed);
}

/* The only one that resets it. */
static void
reset_later(struct one *one)
{
        weir_nsec by = 5000, deadline = weir_now() + by;

        one->changed = true;
        if (interleave_random(2) ? weir_timer_reset(one->name, by) : weir_timer_reset_id(one->id, by))
                one->not_before = deadline;
}

static void
extend_later(struct one *one)
{
        weir_nsec due = weir_now();

        one->changed = true;
        if (weir_timer_extend(one->name, WEIR_SEC(1)))
                one->not_before = due + WEIR_SEC(1) - 100000; /* it may be late, but not by as much */
}

static int
look(const struct weir_timer_info *timer, void *context)
{
        INTERLEAVE_EXPECT(timer->name[0] == 'a' && timer->state <= WEIR_TIMER_RUNNING);
        ++*(unsigned *)context;
        return 0;
}

static void
list(struct one *one)
{
        unsigned shown = 0;

        INTERLEAVE_EXPECT(weir_timer_list("", look, &shown) == shown && shown <= run.made);
        INTERLEAVE_EXPECT(weir_timer_count(one->name) <= run.made);
}

static void
cancel_series(struct one *one)
{
        run.series_cancelled = true;
        weir_series_cancel(run.series);
        if (one == &run.tickers[0]) /* the other one may not be started */
                INTERLEAVE_EXPECT(weir_timer_reset_id(one->id, 0) == 0);
}

static void
shut_down(struct one *one)
{
        (void)one;
        run.shut_down = true;
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

/* Any of those that need not own the ticker. */
static void
operate(struct one *one)
{
        static void (*const operations[])(struct one *) = {cancel, cancel_prefix, cancel_id, cancel_wait, only_wait, only_wait,
                                                           reset,  extend,        reset_id,  reset,       list};

        operations[interleave_random(sizeof operations / sizeof *operations)](one);
}

/* -- a run -- */

static void
begin(unsigned pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        memset(&run, 0, sizeof run);
        config.pollers = (int)pollers;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
}

static void
perform(void *argument)
{
        const struct action *action = argument;

        action->operation(action->one);
}

static void
act(void (*operation)(struct one *one), struct one *one)
{
        struct action *action = &run.actions[run.acting++];

        *action = (struct action){operation, one};
        interleave_act(perform, action);
}

static void
await_end(void)
{
        while (run.freed < run.made)
                interleave_sleep(&run.freed);
}

/* They end by themselves, at the MOST-th tick at the latest, unless somebody ends them. */
static void
judge(const struct one *one, size_t *cancelled)
{
        bool done = one->stopped || (one->limit && one->begun == one->limit);

        INTERLEAVE_EXPECT(one->frees == 1 && !one->inside && one->begun == one->ended);
        INTERLEAVE_EXPECT(one->fate == STARTED ? one->calls == 1 : one->fate == PUSHED ? one->calls <= 1 : one->calls == 0);
        INTERLEAVE_EXPECT(one->calls || one->begun == 0);
        *cancelled += one->calls ? one->status == -ECANCELED : 1;
        if (!one->calls)
                return;
        INTERLEAVE_EXPECT(one->status != 0 || done);
        INTERLEAVE_EXPECT(one->status != -ESHUTDOWN || (run.shut_down && !done));
        INTERLEAVE_EXPECT(one->status != -ECANCELED || run.counted > 0 || run.series_cancelled);
        INTERLEAVE_EXPECT(one->status == 0 || one->status == -ECANCELED || one->status == -ESHUTDOWN);
}

static void
play(void)
{
        size_t cancelled = 0;

        interleave_join_actors();
        for (unsigned i = 0; i < run.made; i++)
                if (run.tickers[i].fate == UNDECIDED)
                        dismiss(&run.tickers[i]);
        await_end();
        interleave_explore(false);
        weir_series_unref(run.series);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        for (unsigned i = 0; i < run.made; i++) {
                INTERLEAVE_EXPECT(weir_timer_count(run.tickers[i].name) == 0);
                INTERLEAVE_EXPECT(weir_timer_cancel_id(run.tickers[i].id) == 0);
                judge(&run.tickers[i], &cancelled);
        }
        INTERLEAVE_EXPECT(run.counted <= cancelled);
        for (unsigned i = 0; i < weir__pollers_count(); i++)
                INTERLEAVE_EXPECT(weir__pollers.at[i]->deadlines.queue.count == 0);
}

/* -- scenarios -- */

static void
run_ticks_and_cancels(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make(interleave_random(4) ? "a" : NULL);
        act(start, one);
        act(cancel_id, one);
        act(one->name ? cancel : cancel_id, one);
        if (interleave_random(2))
                act(cancel_prefix, one);
        play();
        INTERLEAVE_EXPECT(run.counted <= 1);
        INTERLEAVE_EXPECT(!run.counted || one->status == -ECANCELED);
        INTERLEAVE_EXPECT(run.counted || one->status == 0);
}

/* Nobody disturbs them but by looking. */
static void
run_ticks_alone(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make("a"), *other = make("a");
        start(one);
        act(start, other);
        act(list, one);
        act(only_wait, one);
        play();
        INTERLEAVE_EXPECT(one->status == 0 && other->status == 0);
}

static void
run_ticks_and_a_reset(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make("a");
        start(one);
        act(interleave_random(3) ? reset_later : extend_later, one);
        if (interleave_random(2))
                act(interleave_random(2) ? cancel : cancel_id, one);
        if (interleave_random(2))
                act(list, one);
        play();
}

static void
run_resets_at_each_point(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make("a");
        run.callbacks_act = true;
        act(start, one);
        act(reset, one);
        act(extend, one);
        act(reset_id, one);
        if (interleave_random(2))
                act(cancel, one);
        play();
}

static void
run_ticks_and_the_series(void)
{
        begin(1 + interleave_random(2));
        run.series = weir_series_ref(weir_series_new(NULL, NULL));
        struct one *one = make("a"), *behind = make("a");
        for (unsigned i = 0; i < 2; i++) {
                run.tickers[i].fate = PUSHED;
                weir_series_push(run.series, run.tickers[i].task);
        }
        INTERLEAVE_EXPECT(weir_series_start(run.series) == 0); /* consumes the first reference */
        act(cancel_series, interleave_random(4) ? one : behind);
        act(interleave_random(2) ? reset : only_wait, one);
        if (interleave_random(2))
                act(cancel, one);
        play();
        INTERLEAVE_EXPECT(one->calls == 1 || run.series_cancelled);
}

static void
run_ticks_waits_and_a_cancel(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make("a"), *other = make("a");
        start(one);
        start(other);
        act(only_wait, one);
        act(interleave_random(2) ? only_wait : cancel_wait, one);
        act(interleave_random(2) ? cancel : cancel_id, one);
        if (interleave_random(2))
                act(cancel_id, other);
        play();
}

static void
run_ticks_and_shutdown(void)
{
        begin(1 + interleave_random(2));
        struct one *one = make("a"), *other = make("a");
        start(one);
        act(start, other);
        act(shut_down, one);
        act(interleave_random(2) ? reset : extend, one);
        act(interleave_random(2) ? cancel : interleave_random(2) ? cancel_wait : cancel_id, one);
        play();
}

/* Somebody may find it by its name before its maker has it. */
static void
make_and_start(struct one *one)
{
        (void)one;
        start(make_with("a", WEIR_TICK_SKIP, 1000));
}

static void
reset_until_found(struct one *one)
{
        (void)one;
        for (unsigned i = 0; i < 5 && !run.new_period; i++)
                if (weir_timer_reset("a", 300))
                        run.new_period = 300;
}

static void
run_making_and_a_reset(void)
{
        begin(1);
        run.making = true;
        act(make_and_start, NULL);
        act(reset_until_found, NULL);
        play();
}

static void
wait_and_note(struct one *one)
{
        only_wait(one);
        run.waited = true;
}

static void
tick_until_waited(weir_task *task, void *context)
{
        struct one *one = context;

        if (weir_task_status(task) != -EINPROGRESS) {
                one->calls++;
                return;
        }
        if (!run.waited)
                return;
        one->stopped = true;
        weir_ticker_stop(task);
}

/* Its ticks come one right after the other, until the wait for one of them has returned. */
static void
run_wait_for_a_busy_one(void)
{
        begin(1);
        struct one *one = &run.tickers[run.made++];
        *one = (struct one){.name = "a", .task = weir_ticker_new_named("a", 1, WEIR_TICK_DELAY, tick_until_waited, one)};
        weir_task_on_free(one->task, freed);
        weir_ticker_set_first(one->task, 0);
        one->id = weir_timer_id_of(one->task);
        start(one);
        act(wait_and_note, one);
        play();
}

/* The checks of `play` judge the result. */
static void
run_anything(void)
{
        static const char *const names[] = {"a", "ab", NULL};

        begin(1 + interleave_random(2));
        run.callbacks_act = true;
        unsigned tickers = 1 + interleave_random(3);
        for (unsigned i = 0; i < tickers; i++)
                make(names[interleave_random(3)]);
        for (unsigned i = 0; i < tickers; i++)
                act(interleave_random(8) ? start : dismiss, &run.tickers[i]);
        for (unsigned i = 0; i < 3; i++)
                act(operate, &run.tickers[interleave_random(tickers)]);
        play();
}

/* -- the suite -- */

static void
cancels_count_a_ticker_once_and_end_it(void)
{
        interleave_try(__func__, run_ticks_and_cancels, SEEDS);
}

static void
tickers_keep_their_phase_and_count_what_they_drop(void)
{
        interleave_try(__func__, run_ticks_alone, SEEDS);
}

static void
a_ticker_that_a_reset_counts_is_due_by_it(void)
{
        interleave_try(__func__, run_ticks_and_a_reset, SEEDS);
}

static void
resets_meet_ticks_wherever_they_are(void)
{
        interleave_try(__func__, run_resets_at_each_point, SEEDS);
}

static void
cancel_of_the_series_ends_a_ticker_and_what_is_behind_it(void)
{
        interleave_try(__func__, run_ticks_and_the_series, SEEDS);
}

static void
a_waiter_is_woken_when_the_tick_has_returned(void)
{
        interleave_try(__func__, run_ticks_waits_and_a_cancel, 2 * SEEDS);
}

static void
shutdown_ends_tickers(void)
{
        interleave_try(__func__, run_ticks_and_shutdown, SEEDS);
}

static void
a_ticker_is_reset_while_it_is_made(void)
{
        interleave_try(__func__, run_making_and_a_reset, SEEDS);
}

static void
a_wait_does_not_wait_for_tick_after_tick(void)
{
        interleave_try(__func__, run_wait_for_a_busy_one, SEEDS / 10);
}

static void
anything_may_meet_tickers(void)
{
        interleave_try(__func__, run_anything, 2 * SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(cancels_count_a_ticker_once_and_end_it),
                WEIR_TEST(tickers_keep_their_phase_and_count_what_they_drop),
                WEIR_TEST(a_ticker_that_a_reset_counts_is_due_by_it),
                WEIR_TEST(resets_meet_ticks_wherever_they_are),
                WEIR_TEST(cancel_of_the_series_ends_a_ticker_and_what_is_behind_it),
                WEIR_TEST(a_waiter_is_woken_when_the_tick_has_returned),
                WEIR_TEST(shutdown_ends_tickers),
                WEIR_TEST(a_ticker_is_reset_while_it_is_made),
                WEIR_TEST(a_wait_does_not_wait_for_tick_after_tick),
                WEIR_TEST(anything_may_meet_tickers),
        };

        return weir_test_main("interleave tickers", tests, sizeof tests / sizeof *tests);
}
