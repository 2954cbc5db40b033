/* test/interleave_test.c: operations on timers at the same time, in thousands of orders that seeds make (interleave.h).
 *
 * The library's sources are compiled into this program with the steps of a scheduler in them: start, expiry, cancel by name, by
 * prefix, by id and by series, reset, wait, dismissal and shutdown meet at each of their steps.  Each order must end with
 * one callback for each timer that was started, one on_free for each that was made, as many callbacks with -ECANCELED as
 * cancels were counted, nothing early, nothing left over, and an end.
 *
 * WEIR_TEST_SEED is the first seed of each scenario. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/timer/timer.h"
#include "kernel/worker/worker.h"
#include "test/queue_check.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 250 : 2000) /* of a scenario */

#define TIMERS  6
#define ACTIONS 6

enum fate { UNDECIDED, STARTED, REFUSED, DISMISSED, PUSHED };

struct one {
        weir_task *task; /* its owner's: the actor that decides its fate */
        const char *name;
        weir_nsec after;
        weir_timer_id id;
        _Atomic enum fate fate;
        _Atomic int calls, frees, status;
        _Atomic bool cancelled; /* a cancel by its id was counted */
        _Atomic bool closed; /* a cancel has tried it, and returned: it was cancelled or had begun, and no other one counts it */
        _Atomic bool is_past_reset; /* nor does a reset */
        _Atomic weir_nsec at;       /* when it was called back */
        _Atomic weir_nsec not_before;
};

/* The operation of one thread. */
struct action {
        void (*operation)(struct one *one);
        struct one *one;
};

static struct {
        struct one timers[TIMERS];
        struct action actions[ACTIONS];
        unsigned made, acting;
        weir_series *series;
        _Atomic unsigned freed;
        _Atomic size_t counted;                            /* the sum of the results of cancels */
        _Atomic bool series_cancelled, shut_down, changed; /* `not_before` says nothing any more */
        bool callbacks_act;
        struct one *resets, *to_reset; /* whose callback resets whom */
        struct one *waits_for_wait;    /* its callback goes on when `waited` is set */
        _Atomic bool waited;
        bool moved; /* to another poller: the id is lost, and a cancel by it says nothing */
} run;

/* -- timers -- */

static void operate(struct one *one);
static void reset_later(struct one *one);

static void
called(weir_task *task, void *context)
{
        struct one *one = context;

        one->calls++;
        one->at = weir_now();
        one->status = weir_task_status(task);
        INTERLEAVE_EXPECT(one->status || run.moved || weir_timer_id_of(task) == one->id);
        if (one == run.resets)
                reset_later(run.to_reset);
        while (one == run.waits_for_wait && !run.waited)
                interleave_sleep(&run.waited);
        if (run.callbacks_act && interleave_random(2))
                operate(one);
}

static void
freed(void *context)
{
        struct one *one = context;

        one->frees++;
        run.freed++;
        interleave_wake(&run.freed, 1);
}

/* The seed chooses its poller, before anybody looks for it. */
static struct one *
make(const char *name, weir_nsec after)
{
        struct one *one = &run.timers[run.made++];

        *one = (struct one){.name = name, .after = after};
        one->task = name ? weir_timer_new_named(name, after, called, one) : weir_timer_new(after, called, one);
        one->task->poller = (uint16_t)interleave_random(weir__pollers_count());
        weir_task_on_free(one->task, freed);
        return one;
}

static struct one *
make_with_id(const char *name, weir_nsec after)
{
        struct one *one = make(name, after);

        one->id = weir_timer_id_of(one->task);
        INTERLEAVE_EXPECT(one->id != 0);
        return one;
}

/* Nothing, soon, or never. */
static weir_nsec
any_duration(void)
{
        switch (interleave_random(4)) {
        case 0: return 0;
        case 1: return WEIR_FOREVER;
        default: return 1 + interleave_random(3000);
        }
}

/* -- operations -- */

static void
start(struct one *one)
{
        weir_nsec earliest = weir_now() + (one->after == WEIR_FOREVER ? 0 : one->after);

        if (one->not_before < earliest)
                one->not_before = earliest;
        one->fate = weir_task_start(one->task) ? REFUSED : STARTED;
}

static void
push(struct one *one)
{
        one->fate = PUSHED;
        weir_series_push(run.series, one->task);
}

static void
dismiss(struct one *one)
{
        one->fate = DISMISSED;
        weir_task_dismiss(one->task);
}

static bool
is_named(const struct one *one, const char *name)
{
        return one->name && name && !strcmp(one->name, name);
}

static bool
begins_with(const struct one *one, const char *prefix)
{
        return one->name && !strncmp(one->name, prefix, strlen(prefix));
}

/* How many timers of that name, or whose name begins so, some cancel may still count. */
static size_t
open_ones(const char *name, bool (*is_meant)(const struct one *one, const char *name))
{
        size_t open = 0;

        for (unsigned i = 0; i < run.made; i++)
                open += is_meant(&run.timers[i], name) && !run.timers[i].closed;
        return open;
}

/* The same for a reset. */
static size_t
resettable_ones(const char *name)
{
        size_t resettable = 0;

        for (unsigned i = 0; i < run.made; i++)
                resettable += is_named(&run.timers[i], name) && !run.timers[i].is_past_reset;
        return resettable;
}

static void
close_all(const char *name, bool (*is_meant)(const struct one *one, const char *name))
{
        for (unsigned i = 0; i < run.made; i++)
                if (is_meant(&run.timers[i], name))
                        run.timers[i].closed = run.timers[i].is_past_reset = true;
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
        size_t max = interleave_random(2) ? 1 : WEIR_ALL, open = open_ones(one->name, is_named);

        count(weir_timer_cancel(one->name, max), max < open ? max : open);
        if (max > 1)
                close_all(one->name, is_named);
}

static void
cancel_all_of(const char *prefix)
{
        size_t open = open_ones(prefix, begins_with);

        count(weir_timer_cancel_prefix(prefix, WEIR_ALL), open);
        close_all(prefix, begins_with);
}

static void
cancel_prefix(struct one *one)
{
        char prefix[2] = {one->name ? one->name[0] : '\0'};

        cancel_all_of(prefix);
}

static void
cancel_id(struct one *one)
{
        bool closed = one->closed, cancelled = weir_timer_cancel_id(one->id);

        count(cancelled, !closed);
        if (cancelled)
                one->cancelled = true;
        if (one->id && !run.moved && one->fate != DISMISSED) /* which goes on having its name for a while */
                one->closed = one->is_past_reset = true;
}

/* When it returns, each timer that was started before it is over if this or an earlier cancel has ended it, or if its callback
 * had begun. */
static void
cancel_and_wait(struct one *one, size_t max)
{
        size_t open = max > 0 ? open_ones(one->name, is_named) : 0;
        bool awaited[TIMERS];

        for (unsigned i = 0; i < run.made; i++) {
                struct one *other = &run.timers[i];

                awaited[i] = one->name && other->name && !strcmp(one->name, other->name) && other->fate == STARTED &&
                             (max > 0 || other->cancelled || other->calls > 0);
        }
        int64_t counted = weir_timer_cancel_wait(one->name, max);
        if (weir__worker_self()) {
                INTERLEAVE_EXPECT(counted == -EDEADLK);
                return;
        }
        INTERLEAVE_EXPECT(counted >= 0);
        count((size_t)counted, open);
        if (max > 0)
                close_all(one->name, is_named);
        for (unsigned i = 0; i < run.made; i++)
                INTERLEAVE_EXPECT(!awaited[i] || run.timers[i].frees == 1);
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
reset_to(struct one *one, weir_nsec after)
{
        size_t resettable = resettable_ones(one->name);

        run.changed = true;
        INTERLEAVE_EXPECT(weir_timer_reset(one->name, after) <= resettable);
}

static void
reset(struct one *one)
{
        reset_to(one, any_duration());
}

static void
reset_for_ever(struct one *one)
{
        reset_to(one, WEIR_FOREVER);
}

/* The only one that changes the deadline, of the only timer of its name. */
static void
reset_later(struct one *one)
{
        weir_nsec by = 5000, deadline = weir_now() + by;

        if (weir_timer_reset(one->name, by))
                one->not_before = deadline;
}

static void
reset_id_later(struct one *one)
{
        weir_nsec by = 5000, deadline = weir_now() + by;

        if (weir_timer_reset_id(one->id, by))
                one->not_before = deadline;
}

static void
extend(struct one *one)
{
        size_t resettable = resettable_ones(one->name);

        run.changed = true;
        INTERLEAVE_EXPECT(weir_timer_extend(one->name, (weir_nsec)interleave_random(4000) - 2000) <= resettable);
}

static void
reset_id(struct one *one)
{
        bool is_past_reset = one->is_past_reset;

        run.changed = true;
        if (weir_timer_reset_id(one->id, any_duration()))
                INTERLEAVE_EXPECT(!is_past_reset);
        else if (one->id && !run.moved && one->fate != DISMISSED)
                one->is_past_reset = true;
}

static int
look(const struct weir_timer_info *timer, void *context)
{
        INTERLEAVE_EXPECT(timer->name[0] == 'a' || timer->name[0] == 'b');
        INTERLEAVE_EXPECT(timer->state <= WEIR_TIMER_RUNNING);
        ++*(unsigned *)context;
        return 0;
}

static void
list(struct one *one)
{
        unsigned shown = 0;

        (void)one;
        INTERLEAVE_EXPECT(weir_timer_list("", look, &shown) == shown);
        INTERLEAVE_EXPECT(shown <= run.made);
}

static void
count_named(struct one *one)
{
        INTERLEAVE_EXPECT(weir_timer_count(one->name) <= run.made);
}

/* Its first timer was started, the others may never be. */
static void
cancel_series(struct one *one)
{
        run.series_cancelled = true;
        weir_series_cancel(run.series);
        one->is_past_reset = true;
}

/* All that is started and was not refused has ended then. */
static void
shut_down(struct one *one)
{
        (void)one;
        run.shut_down = true;
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

/* Any of those that need not own the timer. */
static void
operate(struct one *one)
{
        static void (*const operations[])(struct one *) = {
                cancel, cancel, cancel_prefix, cancel_id, cancel_id, cancel_wait, only_wait,
                reset,  reset,  extend,        reset_id,  reset_id,  list,        count_named,
        };

        operations[interleave_random(sizeof operations / sizeof *operations)](one);
}

static void
operate_twice(struct one *one)
{
        operate(one);
        operate(&run.timers[interleave_random(run.made)]);
}

/* -- a run -- */

static void
begin_with(unsigned pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = (int)pollers;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
}

static void
begin(void)
{
        memset(&run, 0, sizeof run);
        begin_with(1 + interleave_random(2));
}

static void
begin_with_one_poller(void)
{
        memset(&run, 0, sizeof run);
        begin_with(1);
}

/* Timers that end before those that matter, so that these are READY for a while. */
static void
keep_busy(void)
{
        for (unsigned i = interleave_random(3); i > 0; i--)
                start(make(NULL, 0));
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

/* All that was made is freed, and all that is left of it. */
static void
clean_up(void)
{
        for (unsigned i = 0; i < run.made; i++)
                if (run.timers[i].fate == UNDECIDED)
                        dismiss(&run.timers[i]);
        cancel_all_of("");
        for (unsigned i = 0; i < run.made; i++)
                cancel_id(&run.timers[i]);
        if (run.moved)
                shut_down(NULL); /* a timer that has lost its id may be pending for ever */
        await_end();
        interleave_explore(false);
        weir_series_unref(run.series);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

static void
judge_remains(void)
{
        for (unsigned i = 0; i < run.made; i++) {
                INTERLEAVE_EXPECT(weir_timer_count(run.timers[i].name) == 0);
                INTERLEAVE_EXPECT(weir_timer_cancel_id(run.timers[i].id) == 0);
                INTERLEAVE_EXPECT(weir_timer_reset_id(run.timers[i].id, 0) == 0);
        }
        INTERLEAVE_EXPECT(weir_timer_list("", look, NULL) == 0);
        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                timerq_check(&weir__pollers.at[i]->deadlines.queue);
                INTERLEAVE_EXPECT(weir__pollers.at[i]->deadlines.queue.count == 0);
        }
}

static void
judge(void)
{
        size_t cancelled = 0, uncalled = 0;

        for (unsigned i = 0; i < run.made; i++) {
                const struct one *one = &run.timers[i];
                bool dropped = one->fate == PUSHED && (run.series_cancelled || run.shut_down) && one->calls == 0;

                INTERLEAVE_EXPECT(one->frees == 1);
                INTERLEAVE_EXPECT(one->calls == (one->fate == STARTED || (one->fate == PUSHED && !dropped)));
                INTERLEAVE_EXPECT(one->status == 0 || one->status == -ECANCELED || (one->status == -ESHUTDOWN && run.shut_down));
                INTERLEAVE_EXPECT(one->calls == 0 || one->status || run.changed || one->at >= one->not_before);
                cancelled += one->status == -ECANCELED;
                uncalled += one->calls == 0;
        }
        INTERLEAVE_EXPECT(run.counted <= cancelled + uncalled);
        INTERLEAVE_EXPECT(run.counted >= cancelled || run.series_cancelled);
}

/* Has the actors act, and looks at what came out. */
static void
play(void)
{
        interleave_join_actors();
        clean_up();
        judge_remains();
        judge();
}

/* -- scenarios -- */

static void
run_start_expiry_and_two_cancels(void)
{
        begin();
        keep_busy();
        struct one *one = make_with_id("a", any_duration()), *other = make("a", any_duration());
        start(other);
        act(start, one);
        act(cancel, one);
        act(interleave_random(2) ? cancel : cancel_id, one);
        play();
}

static void
run_cancel_start_and_dismiss(void)
{
        begin();
        struct one *started = make_with_id("a", any_duration()), *dismissed = make_with_id("a", any_duration());
        act(start, started);
        act(dismiss, dismissed);
        act(cancel, started);
        act(cancel_id, interleave_random(2) ? started : dismissed);
        play();
}

static void
run_reset_expiry_and_cancel(void)
{
        begin();
        keep_busy();
        struct one *one = make_with_id("a", interleave_random(2) * 1000);
        start(one);
        act(interleave_random(2) ? reset_later : reset_id_later, one);
        if (interleave_random(4))
                act(interleave_random(2) ? cancel : cancel_id, one);
        play();
}

/* A timer that has expired is reset in the callback before its own, so that the worker has to take it back.  Another operation
 * follows. */
static void
run_whatever_meets_a_rearmed_one(void)
{
        static void (*const operations[])(struct one *) = {cancel, cancel_id, cancel_wait, shut_down, list, reset, reset_id};

        begin_with_one_poller();
        run.resets = make(NULL, 0);
        struct one *one = run.to_reset = make_with_id("a", 0);
        start(run.resets);
        start(one);
        for (unsigned i = 0; i < 2; i++)
                act(operations[interleave_random(sizeof operations / sizeof *operations)], one);
        play();
}

static void
run_reset_of_a_new_one_and_start(void)
{
        begin();
        struct one *one = make_with_id("a", any_duration());
        act(start, one);
        act(reset_id, one);
        act(reset, one);
        act(extend, one);
        play();
}

/* Makes another timer with an id, and another, while the first one's slot may be given back; nobody has any of theirs. */
static void
make_more(struct one *one)
{
        (void)one;
        for (unsigned i = 0; i < 2; i++) {
                struct one *more = make_with_id(i ? "b" : NULL, WEIR_FOREVER);

                start(more);
        }
}

static void
run_an_old_id_and_the_next_timer_of_its_slot(void)
{
        begin();
        struct one *one = make_with_id(interleave_random(2) ? "a" : NULL, 0);
        act(start, one);
        act(make_more, one);
        act(cancel_id, one);
        act(reset_id, one);
        interleave_join_actors();
        for (unsigned i = 1; i < run.made; i++) {
                INTERLEAVE_EXPECT(run.timers[i].calls == 0 && run.timers[i].id != one->id);
                INTERLEAVE_EXPECT(weir_timer_reset_id(run.timers[i].id, WEIR_FOREVER) == 1);
                cancel_id(&run.timers[i]);
                INTERLEAVE_EXPECT(run.timers[i].cancelled);
        }
        play();
}

static void
run_cancel_by_id_and_by_name(void)
{
        begin();
        struct one *one = make_with_id("a", any_duration()), *other = make_with_id("a", any_duration());
        start(other);
        act(start, one);
        act(cancel_id, one);
        act(cancel, one);
        act(interleave_random(2) ? reset : cancel_prefix, other);
        play();
}

static void
run_wait_running_and_anothers_cancel(void)
{
        begin();
        keep_busy();
        struct one *one = make_with_id("a", any_duration()), *other = make_with_id("a", any_duration());
        start(one);
        start(other);
        act(cancel_wait, one);
        act(interleave_random(2) ? only_wait : cancel_wait, one);
        act(cancel_id, one);
        act(interleave_random(2) ? cancel : reset, one);
        play();
}

static void
cancel_series_and_reset(struct one *one)
{
        cancel_series(one);
        reset(one);
}

/* Nobody else has to end what the cancel of the series ends. */
static void
run_series_cancel_and_reset(void)
{
        begin();
        keep_busy();
        run.series = weir_series_ref(weir_series_new(NULL, NULL));
        struct one *one = make_with_id("a", interleave_random(2) ? 0 : any_duration());
        push(one);
        if (interleave_random(2))
                push(make_with_id("b", any_duration()));
        INTERLEAVE_EXPECT(weir_series_start(run.series) == 0); /* consumes the first reference */
        act(reset_for_ever, one);
        act(reset_id, one);
        act(cancel_series_and_reset, one);
        if (interleave_random(2))
                act(cancel, one);
        interleave_join_actors();
        await_end();
        play();
}

static void
run_shutdown_reset_start_and_cancel(void)
{
        begin();
        keep_busy();
        struct one *one = make_with_id("a", any_duration()), *other = make_with_id("a", any_duration());
        start(one);
        act(start, other);
        act(shut_down, one);
        act(reset, one);
        act(interleave_random(2) ? cancel : interleave_random(2) ? cancel_wait : cancel_id, one);
        play();
        INTERLEAVE_EXPECT(run.shut_down);
}

/* A timer that was rearmed must not pend on a poller that was drained. */
static void
run_shutdown_expiry_and_reset(void)
{
        begin_with_one_poller();
        keep_busy();
        struct one *one = make("a", interleave_random(2) * 1000);
        start(one);
        act(reset_for_ever, one);
        act(shut_down, one);
        play();
}

static void
wait_and_note(struct one *one)
{
        only_wait(one);
        run.waited = true;
        interleave_wake(&run.waited, 1);
}

/* The callback of another name, right behind, waits for who waits: as long as that one has no reason to wait for it, both end. */
static void
run_wait_while_another_callback_waits_for_that(void)
{
        begin_with_one_poller();
        struct one *one = make_with_id("a", WEIR_FOREVER), *waiter = make("b", WEIR_FOREVER);
        run.waits_for_wait = waiter;
        start(one);
        start(waiter);
        cancel_id(one);
        cancel(waiter);
        act(wait_and_note, one);
        play();
}

/* A timer that has outlived the runtime in which it was made, and its poller. */
static void
run_start_in_a_later_runtime_with_fewer_pollers(void)
{
        memset(&run, 0, sizeof run);
        begin_with(2);
        struct one *one = make_with_id(interleave_random(2) ? "a" : NULL, any_duration());
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        begin_with(1);
        run.moved = one->task->poller > 0;
        act(start, one);
        act(interleave_random(2) ? reset : cancel, one);
        act(interleave_random(2) ? cancel_id : reset_id, one);
        play();
}

/* The checks of `play` judge the result. */
static void
run_anything(void)
{
        static const char *const names[] = {"a", "ab", "b"};

        begin();
        run.callbacks_act = true;
        unsigned timers = 1 + interleave_random(3);
        for (unsigned i = 0; i < timers; i++)
                (interleave_random(2) ? make_with_id : make)(names[interleave_random(3)], any_duration());
        for (unsigned i = 0; i < timers; i++) {
                if (interleave_random(2))
                        start(&run.timers[i]);
                else
                        act(interleave_random(8) ? start : dismiss, &run.timers[i]);
        }
        for (unsigned i = 0; i < 3; i++)
                act(operate_twice, &run.timers[interleave_random(timers)]);
        play();
}

/* -- the suite -- */

static void
start_expiry_and_two_cancels_end_a_timer_once(void)
{
        interleave_try(__func__, run_start_expiry_and_two_cancels, SEEDS);
}

static void
cancel_start_and_dismissal_free_a_timer_once(void)
{
        interleave_try(__func__, run_cancel_start_and_dismiss, SEEDS);
}

static void
of_reset_expiry_and_cancel_exactly_what_was_counted_happens(void)
{
        interleave_try(__func__, run_reset_expiry_and_cancel, SEEDS);
}

static void
a_worker_takes_a_rearmed_timer_back_whatever_it_meets(void)
{
        interleave_try(__func__, run_whatever_meets_a_rearmed_one, SEEDS);
}

static void
a_timer_is_reset_while_it_is_started(void)
{
        interleave_try(__func__, run_reset_of_a_new_one_and_start, SEEDS);
}

static void
an_old_id_never_finds_the_next_timer_of_its_slot(void)
{
        interleave_try(__func__, run_an_old_id_and_the_next_timer_of_its_slot, SEEDS);
}

static void
cancels_by_id_and_by_name_count_a_timer_once(void)
{
        interleave_try(__func__, run_cancel_by_id_and_by_name, SEEDS);
}

static void
cancel_wait_returns_when_all_has_returned(void)
{
        interleave_try(__func__, run_wait_running_and_anothers_cancel, SEEDS);
}

static void
cancel_of_the_series_and_reset_meet(void)
{
        interleave_try(__func__, run_series_cancel_and_reset, SEEDS);
}

static void
shutdown_drains_what_is_being_reset_started_and_cancelled(void)
{
        interleave_try(__func__, run_shutdown_reset_start_and_cancel, SEEDS);
}

static void
shutdown_ends_what_was_rearmed(void)
{
        interleave_try(__func__, run_shutdown_expiry_and_reset, SEEDS);
}

static void
a_wait_does_not_depend_on_the_callbacks_of_other_names(void)
{
        interleave_try(__func__, run_wait_while_another_callback_waits_for_that, SEEDS);
}

static void
a_timer_from_a_former_runtime_moves_while_others_find_it(void)
{
        interleave_try(__func__, run_start_in_a_later_runtime_with_fewer_pollers, SEEDS);
}

static void
anything_may_meet_anything(void)
{
        interleave_try(__func__, run_anything, 3 * SEEDS);
}

static void
a_seed_goes_the_same_way_every_time(void)
{
        for (unsigned i = 0; i < 20; i++) {
                uint64_t seed = weir_test_seed() + i;

                interleave_run(__func__, seed, run_anything);
                uint64_t trace = interleave_trace();
                interleave_run(__func__, seed + 1000, run_shutdown_reset_start_and_cancel);
                interleave_run(__func__, seed, run_anything);
                CU_ASSERT_EQUAL(interleave_trace(), trace);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(start_expiry_and_two_cancels_end_a_timer_once),
                WEIR_TEST(cancel_start_and_dismissal_free_a_timer_once),
                WEIR_TEST(of_reset_expiry_and_cancel_exactly_what_was_counted_happens),
                WEIR_TEST(a_worker_takes_a_rearmed_timer_back_whatever_it_meets),
                WEIR_TEST(a_timer_is_reset_while_it_is_started),
                WEIR_TEST(an_old_id_never_finds_the_next_timer_of_its_slot),
                WEIR_TEST(cancels_by_id_and_by_name_count_a_timer_once),
                WEIR_TEST(cancel_wait_returns_when_all_has_returned),
                WEIR_TEST(cancel_of_the_series_and_reset_meet),
                WEIR_TEST(shutdown_drains_what_is_being_reset_started_and_cancelled),
                WEIR_TEST(shutdown_ends_what_was_rearmed),
                WEIR_TEST(a_wait_does_not_depend_on_the_callbacks_of_other_names),
                WEIR_TEST(a_timer_from_a_former_runtime_moves_while_others_find_it),
                WEIR_TEST(anything_may_meet_anything),
                WEIR_TEST(a_seed_goes_the_same_way_every_time),
        };

        return weir_test_main("interleave", tests, sizeof tests / sizeof *tests);
}
