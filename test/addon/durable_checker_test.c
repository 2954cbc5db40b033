/* The judge of durable_checker.h finds each promise that is broken, and blames nobody else. */
#include "test/addon/durable_checker.h"

#define SEC   INT64_C(1000000000)
#define MSEC  INT64_C(1000000)
#define LEASE SEC

static int
operation_of(enum what what, int operation)
{
        return what == RUN_BEGUN || what == RUN_ENDED ? -operation : operation;
}

static bool draws_early;

/* The engine shows six minutes past at the instant 0. */
static unsigned
verdict(const struct event *events, size_t count)
{
        struct history one = {.lease = LEASE, .wall = 6 * MINUTE - 10 * SEC, .is_silent = true, .draws_early = draws_early};

        history_add(&one, (struct event){.what = STARTED, .process = 1, .name = -1, .status = 0, .attempt = 4});
        history_add(&one, (struct event){.what = STARTED, .process = 2, .name = -1, .status = 1, .attempt = 4});
        for (size_t i = 0; i < count; i++) {
                history_add(&one, events[i]);
                struct event *event = &one.events[one.count - 1];
                event->at = event->at * MSEC + 10 * SEC;
                event->operation = operation_of(event->what, event->operation);
        }
        unsigned violations = history_check(&one);
        history_free(&one);
        return violations;
}

#define VERDICT(...) \
        verdict((const struct event[]){__VA_ARGS__}, sizeof((const struct event[]){__VA_ARGS__}) / sizeof(struct event))

/* `at` in milliseconds. */
static struct event
event(int64_t at, enum what what, int process, int operation, uint64_t generation)
{
        return (struct event){.at = at, .what = what, .process = process, .operation = operation, .generation = generation};
}

static struct event
failed(struct event event, int status)
{
        event.status = status;
        return event;
}

static struct event
far_away(struct event event)
{
        event.span = 3600 * SEC;
        return event;
}

static struct event
handler(int64_t at, enum what what, int process, uint64_t generation, uint64_t token, int attempt)
{
        struct event begun = event(at, what, process, (int)token, generation);

        begun.token = token;
        begun.attempt = attempt;
        return begun;
}

static struct event
killed(int64_t at, int process)
{
        return (struct event){.at = at, .what = KILLED, .process = process, .name = -1, .span = (at + 1) * MSEC + 10 * SEC};
}

static struct event
stopped(int64_t at, int64_t until, int process)
{
        return (struct event){.at = at, .what = STOPPED, .process = process, .name = -1, .span = until * MSEC + 10 * SEC};
}

static struct event
disturbed(int64_t at, int64_t until, int place)
{
        return (struct event){.at = at, .what = DISTURBED, .status = place, .name = -1, .span = until * MSEC + 10 * SEC};
}

/* The generation 5 is set by process 1, and delivered by it, with success. */
#define SET     event(1, SET_BEGUN, 1, 1, 0)
#define IS_SET  event(2, SET_TOLD, 1, 1, 5)
#define FAR_SET far_away(SET)
#define RUN     handler(3, RUN_BEGUN, 1, 5, 6, 1)
#define OVER    handler(4, RUN_ENDED, 1, 5, 6, 1)

static void
a_set_is_not_lost(void)
{
        const struct event cancel = event(5, CANCEL_BEGUN, 2, 1, 0);

        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN) == 1); /* nobody has succeeded */
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failed(OVER, -EIO)) == 1);
        CU_ASSERT(VERDICT(SET, failed(event(2, SET_TOLD, 1, 1, 0), -EIO)) == 0);
        CU_ASSERT(VERDICT(SET) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, cancel) == 0); /* perhaps cancelled */
        CU_ASSERT(VERDICT(SET, IS_SET, cancel, failed(event(6, CANCEL_TOLD, 2, 1, 0), -EIO)) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, cancel, event(6, CANCEL_TOLD, 2, 1, 0)) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, event(5, SET_BEGUN, 2, 1, 0)) == 1);
}

static void
an_unknown_cancel_works_for_a_while_only(void)
{
        const struct event cancel = event(-5000, CANCEL_BEGUN, 2, 1, 0);

        CU_ASSERT(VERDICT(cancel, SET, IS_SET) == 0); /* its process lives */
        CU_ASSERT(VERDICT(cancel, killed(-1000, 2), SET, IS_SET) == 0);
        CU_ASSERT(VERDICT(cancel, killed(-4000, 2), SET, IS_SET) == 1);
        CU_ASSERT(VERDICT(cancel, failed(event(-4000, CANCEL_TOLD, 2, 1, 0), -ECONNRESET), SET, IS_SET) == 1);
        CU_ASSERT(VERDICT(cancel, failed(event(-4000, CANCEL_TOLD, 2, 1, 0), -ETIMEDOUT), SET, IS_SET) == 0);
}

static void
what_was_put_back_is_not_lost(void)
{
        const struct event failure = failed(OVER, -EIO);
        const struct event back = event(10, BACK_BEGUN, 2, 1, 0), is_back = event(11, BACK_TOLD, 2, 1, 0);
        const struct event again = handler(12, RUN_BEGUN, 2, 8, 9, 1), success = handler(13, RUN_ENDED, 2, 8, 9, 1);

        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failure, back, is_back, again, success) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failure, back, is_back, again) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, back, is_back) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, back, failed(is_back, -ENOENT)) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, back, is_back, event(12, FORGET_BEGUN, 2, 2, 0)) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, back, is_back, event(12, CANCEL_BEGUN, 2, 2, 0)) == 0);

        const struct event is_eight = event(11, BACK_TOLD, 2, 1, 8), is_other = event(11, BACK_TOLD, 2, 1, 7);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failure, back, is_eight, again, success) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failure, back, is_eight, again) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, failure, back, is_other, again, success) == 0); /* replaced, by what is not seen */
}

static void
a_cancel_is_decisive(void)
{
        const struct event cancel = event(5, CANCEL_BEGUN, 2, 1, 0), cancelled = event(6, CANCEL_TOLD, 2, 1, 5);
        const struct event run = handler(7, RUN_BEGUN, 1, 5, 7, 1), over = handler(8, RUN_ENDED, 1, 5, 7, 1);

        CU_ASSERT(VERDICT(SET, IS_SET, cancel, cancelled) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, cancel, cancelled) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, cancel, cancelled, run, over) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, cancel, cancelled, event(7, CANCEL_BEGUN, 1, 2, 0), event(8, CANCEL_TOLD, 1, 2, 5)) == 2);
}

static void
what_nobody_could_take_is_there(void)
{
        const struct event cancel = event(5, CANCEL_BEGUN, 2, 1, 0), nothing = event(6, CANCEL_TOLD, 2, 1, 0);
        const struct event look = event(3, GET_BEGUN, 2, 2, 0), none = failed(event(4, GET_TOLD, 2, 2, 0), -ENOENT);
        const struct event end = event(20, CANCEL_BEGUN, 2, 5, 0), is_end = event(21, CANCEL_TOLD, 2, 5, 5);

        CU_ASSERT(VERDICT(FAR_SET, IS_SET, cancel, nothing, end, is_end) == 1);
        CU_ASSERT(VERDICT(FAR_SET, IS_SET, look, none, end, is_end) == 1);
        CU_ASSERT(VERDICT(FAR_SET, IS_SET, look, event(4, GET_TOLD, 2, 2, 5), end, is_end) == 0);
        CU_ASSERT(VERDICT(FAR_SET, IS_SET, look, event(4, GET_TOLD, 2, 2, 4), end, is_end) == 1);
        CU_ASSERT(VERDICT(FAR_SET, IS_SET, event(2, CANCEL_BEGUN, 1, 3, 0), cancel, nothing) == 0); /* the other one, perhaps */
        CU_ASSERT(VERDICT(event(0, MOVE_BEGUN, 1, 3, 0), FAR_SET, IS_SET, cancel, nothing, end, is_end) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, cancel, nothing, end, is_end) == 0); /* a claim, which is not seen */
}

static void
no_handler_is_early(void)
{
        struct event set = SET, move = event(20, MOVE_BEGUN, 2, 1, 0), moved = event(21, MOVE_TOLD, 2, 1, 5);
        const struct event run = handler(50, RUN_BEGUN, 1, 5, 6, 1), over = handler(51, RUN_ENDED, 1, 5, 6, 1);

        set.span = 40 * MSEC;
        CU_ASSERT(VERDICT(set, IS_SET, run, over) == 0);
        CU_ASSERT(VERDICT(set, IS_SET, RUN, OVER) == 1);
        move.span = -30 * MSEC;
        set.span = 70 * MSEC;
        CU_ASSERT(VERDICT(set, IS_SET, move, moved, run, over) == 0);
        CU_ASSERT(VERDICT(set, IS_SET, move, failed(event(21, MOVE_TOLD, 2, 1, 0), -ENOENT), run, over) == 1);
        CU_ASSERT(VERDICT(set, IS_SET, move, run, over) == 0); /* it may have been moved */
        move.attempt = 1;
        move.span = 20 * MSEC;
        CU_ASSERT(VERDICT(set, IS_SET, move, moved, run, over) == 0);
        move.span = 40 * MSEC;
        CU_ASSERT(VERDICT(set, IS_SET, move, moved, run, over) == 1);
}

static void
a_claim_decides_against_a_move(void)
{
        const struct event move = event(20, MOVE_BEGUN, 2, 1, 0), moved = event(21, MOVE_TOLD, 2, 1, 5);

        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, move, moved) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, move, failed(event(21, MOVE_TOLD, 2, 1, 0), -ENOENT)) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, move) == 0);
}

static void
what_was_replaced_is_not_claimed(void)
{
        const struct event set = event(5, SET_BEGUN, 2, 1, 0), is_set = event(6, SET_TOLD, 2, 1, 8);
        const struct event run = handler(10, RUN_BEGUN, 2, 8, 9, 1), over = handler(11, RUN_ENDED, 2, 8, 9, 1);
        const struct event late = handler(600, RUN_BEGUN, 1, 5, 7, 1), soon = handler(60, RUN_BEGUN, 1, 5, 7, 1);

        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over, soon) == 0); /* its claim was before */
        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over, late) == 1);
        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over, stopped(100, 599, 1), late) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over, disturbed(100, 599, 0), late) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, set, is_set, run, over, disturbed(100, 599, 1), late) == 1);
}

static void
generations_and_tokens_grow(void)
{
        const struct event set = event(5, SET_BEGUN, 2, 1, 0), run = handler(10, RUN_BEGUN, 2, 8, 9, 1);
        const struct event over = handler(11, RUN_ENDED, 2, 8, 9, 1);

        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, set, event(6, SET_TOLD, 2, 1, 8), run, over) == 0);
        CU_ASSERT(VERDICT(SET, IS_SET, RUN, OVER, set, event(6, SET_TOLD, 2, 1, 4)) == 1);
        CU_ASSERT(VERDICT(handler(3, RUN_BEGUN, 1, 5, 9, 1), handler(10, RUN_BEGUN, 2, 7, 8, 1)) == 1);
        CU_ASSERT(VERDICT(handler(3, RUN_BEGUN, 1, 5, 4, 1)) == 1);
        CU_ASSERT(VERDICT(RUN, failed(OVER, -EIO), handler(2000, RUN_BEGUN, 2, 5, 6, 2)) == 2); /* a name, and all */
        struct event elsewhere = handler(2000, RUN_BEGUN, 2, 4, 6, 1);
        elsewhere.name = 1;
        CU_ASSERT(VERDICT(RUN, OVER, elsewhere) == 1);
}

/* The first set has its number, and the second one is made, delivered and over before the first one has its row. */
static void
a_set_that_was_overtaken_may_have_a_smaller_generation(void)
{
        const struct event first = event(1, SET_BEGUN, 1, 1, 0), is_first = event(300, SET_TOLD, 1, 1, 5);
        const struct event second = event(2, SET_BEGUN, 2, 1, 0), is_second = event(5, SET_TOLD, 2, 1, 6);
        const struct event run = handler(10, RUN_BEGUN, 2, 6, 7, 1), over = handler(11, RUN_ENDED, 2, 6, 7, 1);
        const struct event late = handler(400, RUN_BEGUN, 1, 5, 8, 1), end = handler(401, RUN_ENDED, 1, 5, 8, 1);

        CU_ASSERT(VERDICT(first, second, is_second, run, over, is_first, late, end) == 2); /* also as replaced */
        draws_early = true;
        CU_ASSERT(VERDICT(first, second, is_second, run, over, is_first, late, end) == 0);
        CU_ASSERT(VERDICT(first, second, is_second, run, over, late, end) == 0); /* it was not told */
        CU_ASSERT(VERDICT(first, event(3, SET_TOLD, 1, 1, 5), second, is_second, run, over, late, end) == 2);
        CU_ASSERT(VERDICT(second, is_second, run, over, event(20, SET_BEGUN, 1, 1, 0), is_first, late, end) == 3);
        draws_early = false;
}

static void
attempts_grow_up_to_the_limit(void)
{
        const struct event failure = failed(OVER, -EIO);
        struct event seen = event(20, DEAD_SEEN, 2, 0, 5), firing = handler(20, RUN_BEGUN, 2, 5, 7, 5);

        CU_ASSERT(VERDICT(RUN, failure, handler(20, RUN_BEGUN, 2, 5, 7, 2)) == 0);
        CU_ASSERT(VERDICT(RUN, failure, handler(20, RUN_BEGUN, 2, 5, 7, 1)) == 1);
        CU_ASSERT(VERDICT(RUN, failure, handler(20, RUN_BEGUN, 2, 5, 7, 4)) == 0);
        CU_ASSERT(VERDICT(RUN, failure, handler(20, RUN_BEGUN, 2, 5, 7, 5)) == 1);
        firing.name = SCHEDULES;
        CU_ASSERT(VERDICT(firing) == 0);
        seen.attempt = 4;
        CU_ASSERT(VERDICT(seen) == 0);
        seen.attempt = 3;
        CU_ASSERT(VERDICT(seen) == 1);
}

static void
handlers_do_not_overlap(void)
{
        const struct event run = handler(100, RUN_BEGUN, 2, 5, 7, 2), old = handler(600, RUN_BEGUN, 1, 5, 6, 1);
        const struct event late = handler(600, RUN_ENDED, 1, 5, 6, 1), soon = handler(300, RUN_ENDED, 1, 5, 6, 1);

        CU_ASSERT(VERDICT(RUN, run) == 1);
        CU_ASSERT(VERDICT(RUN, run, late) == 1);
        CU_ASSERT(VERDICT(RUN, run, soon) == 0); /* as close as that it may just have been late to say so */
        CU_ASSERT(VERDICT(RUN, run, killed(50, 1)) == 0);
        CU_ASSERT(VERDICT(RUN, run, stopped(50, 600, 1)) == 0);
        CU_ASSERT(VERDICT(RUN, run, stopped(50, 600, 2)) == 1);
        CU_ASSERT(VERDICT(RUN, run, disturbed(50, 600, 0)) == 1); /* a handler ends when its lease cannot be renewed */
        CU_ASSERT(VERDICT(run, old) == 1);
        CU_ASSERT(VERDICT(run, old, stopped(50, 590, 1)) == 0);
}

static void
nothing_is_delivered_behind_a_success(void)
{
        const struct event again = handler(2000, RUN_BEGUN, 2, 5, 7, 2);

        CU_ASSERT(VERDICT(RUN, OVER, again) == 1);
        CU_ASSERT(VERDICT(RUN, OVER, killed(100, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, killed(500, 1), again) == 0); /* within the lease: its end may not have come to the engine */
        CU_ASSERT(VERDICT(RUN, OVER, killed(1100, 1), again) == 1);
        CU_ASSERT(VERDICT(RUN, OVER, stopped(100, 500, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, disturbed(100, 500, 0), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, disturbed(100, 500, -1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, disturbed(100, 500, 1), again) == 1);
        /* The engine was slow, as a look shows that it did not live to see. */
        CU_ASSERT(VERDICT(RUN, OVER, event(5, GET_BEGUN, 1, 9, 0), killed(1000, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, event(1000, GET_BEGUN, 1, 9, 0), killed(1100, 1), again) == 1);
}

/* Also of a process that was killed before it could be sure that its success has come to the engine. */
static void
what_a_look_has_found_gone_is_not_delivered(void)
{
        const struct event look = event(20, GET_BEGUN, 1, 9, 0), gone = failed(event(21, GET_TOLD, 1, 9, 0), -ENOENT);
        const struct event again = handler(2000, RUN_BEGUN, 2, 5, 7, 2);

        CU_ASSERT(VERDICT(RUN, OVER, look, gone, killed(500, 1), again) == 1);
        CU_ASSERT(VERDICT(RUN, OVER, look, gone, killed(22, 1), again) == 1);
        CU_ASSERT(VERDICT(RUN, OVER, look, killed(22, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, look, event(21, GET_TOLD, 1, 9, 5), killed(22, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, look, failed(event(21, GET_TOLD, 1, 9, 0), -ECONNRESET), killed(22, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, look, event(21, GET_TOLD, 1, 9, 8), killed(22, 1), again) == 1); /* replaced */
        CU_ASSERT(VERDICT(event(1, GET_BEGUN, 1, 9, 0), failed(event(2, GET_TOLD, 1, 9, 0), -ENOENT), RUN, OVER) == 0);
        CU_ASSERT(VERDICT(RUN, killed(10, 1), look, gone, again) == 1); /* whoever looks, and whatever was told before */
        /* The other one may have claimed it before the look. */
        CU_ASSERT(VERDICT(RUN, OVER, look, gone, killed(22, 1), stopped(15, 1900, 2), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, look, gone, killed(22, 1), disturbed(15, 1900, 1), again) == 0);
        CU_ASSERT(VERDICT(RUN, OVER, look, gone, killed(22, 1), handler(260, RUN_BEGUN, 2, 5, 7, 2)) == 0);
}

static struct event
fired(int64_t at, enum what what, uint64_t generation, uint64_t token, int64_t minute)
{
        struct event begun = handler(at, what, 1, generation, token, 1);

        begun.name = SCHEDULES;
        begun.span = minute * MINUTE;
        return begun;
}

static struct event
scheduled(enum weir_durable_missed_policy policy)
{
        return (struct event){.what = SCHEDULED, .name = SCHEDULES, .span = 3 * MINUTE, .attempt = (int)policy};
}

static struct event
next_due(uint64_t generation, int64_t minute)
{
        return (struct event){.what = NEXT_DUE, .name = SCHEDULES, .span = minute * MINUTE, .at = 5000, .generation = generation};
}

static struct event
of_schedule(struct event event, int64_t span)
{
        event.name = SCHEDULES;
        event.span = span;
        return event;
}

static void
each_due_time_of_a_schedule_fires_once(void)
{
        const struct event first = scheduled(WEIR_DURABLE_ALL);
        const struct event last = {.what = NEXT_DUE, .name = SCHEDULES, .span = 5 * MINUTE, .at = 900};
        const struct event run = fired(3, RUN_BEGUN, 5, 6, 3), over = fired(4, RUN_ENDED, 5, 6, 3);
        const struct event next = fired(5, RUN_BEGUN, 7, 8, 4), end = fired(6, RUN_ENDED, 7, 8, 4);
        const struct event other = fired(7, RUN_BEGUN, 9, 10, 4), is_other = fired(8, RUN_ENDED, 9, 10, 4);

        CU_ASSERT(VERDICT(first, run, over, next, end, last) == 0);
        CU_ASSERT(VERDICT(first, run, over, last) == 1);
        CU_ASSERT(VERDICT(first, next, end, last) == 1);
        CU_ASSERT(VERDICT(first, run, over, next, failed(end, -EIO), last) == 1);
        CU_ASSERT(VERDICT(first, run, over, next, end, other, is_other, last) == 1);
        CU_ASSERT(VERDICT(first, run, over, next, end, fired(9, RUN_BEGUN, 11, 12, 5), last) == 1); /* it is still to come */
}

static void
missed_ones_are_merged_into_the_last(void)
{
        const struct event first = scheduled(WEIR_DURABLE_ONCE), last = next_due(7, 7);
        const struct event run = failed(fired(3, RUN_BEGUN, 5, 6, 6), 3), over = fired(4, RUN_ENDED, 5, 6, 6);
        const struct event late = failed(fired(1500, RUN_BEGUN, 5, 6, 5), 2), is_late = fired(1501, RUN_ENDED, 5, 6, 5);
        const struct event move = of_schedule(event(10, MOVE_BEGUN, 2, 1, 0), -4 * MINUTE);
        const struct event moved = of_schedule(event(11, MOVE_TOLD, 2, 1, 7), 2 * MINUTE);
        const struct event next = failed(fired(12, RUN_BEGUN, 7, 8, 6), 4), end = fired(13, RUN_ENDED, 7, 8, 6);

        CU_ASSERT(VERDICT(first, run, over, last) == 0);
        CU_ASSERT(VERDICT(first, failed(run, 2), over, last) == 1);
        CU_ASSERT(VERDICT(first, run, over, next_due(7, 8)) == 1);
        CU_ASSERT(VERDICT(first, late, is_late, next_due(7, 6)) == 1); /* there was a later one */
        CU_ASSERT(VERDICT(first, stopped(100, 1490, 1), late, is_late, next_due(7, 6)) == 0);
        CU_ASSERT(VERDICT(first, failed(fired(3, RUN_BEGUN, 5, 6, 7), 4), fired(4, RUN_ENDED, 5, 6, 7), next_due(7, 8)) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, moved, next, end, next_due(9, 7)) == 0);
        CU_ASSERT(VERDICT(first, run, failed(over, -EIO), move, moved, next, end, next_due(9, 7)) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, moved, failed(next, 3), end, next_due(9, 7)) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, failed(next, 3), end, next_due(9, 7)) == 0); /* it may have been moved */
        CU_ASSERT(VERDICT(first, run, over, next, end, next_due(9, 7)) == 1);
}

static void
only_what_is_late_is_skipped(void)
{
        const struct event first = scheduled(WEIR_DURABLE_SKIP), last = next_due(11, 7);
        const struct event run = fired(3, RUN_BEGUN, 5, 6, 6), over = fired(4, RUN_ENDED, 5, 6, 6);
        struct event late = fired(3, RUN_BEGUN, 5, 6, 5);
        const struct event move = of_schedule(event(10, MOVE_BEGUN, 2, 1, 0), 90 * MSEC);
        const struct event moved = of_schedule(event(11, MOVE_TOLD, 2, 1, 7), 6 * MINUTE + 100 * MSEC);
        const struct event next = of_schedule(handler(101, RUN_BEGUN, 1, 7, 8, 1), 6 * MINUTE + 100 * MSEC);
        const struct event end = of_schedule(handler(102, RUN_ENDED, 1, 7, 8, 1), 6 * MINUTE + 100 * MSEC);
        const struct event wrong = of_schedule(handler(101, RUN_BEGUN, 1, 7, 8, 1), 6 * MINUTE);

        CU_ASSERT(VERDICT(first, run, over, last) == 0);
        CU_ASSERT(VERDICT(first, last) == 0);
        CU_ASSERT(VERDICT(first, late, over, last) == 1);
        CU_ASSERT(VERDICT(first, stopped(1, 2, 1), late, over, last) == 0);
        late.attempt = 2;
        CU_ASSERT(VERDICT(first, late, over, last) == 0); /* its first attempt was in time */
        CU_ASSERT(VERDICT(first, run, over, fired(10, RUN_BEGUN, 7, 8, 6), last) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, moved, next, end, last) == 0);
        CU_ASSERT(VERDICT(first, run, over, move, moved, wrong, end, last) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, moved, last) == 1); /* it is left out */
        CU_ASSERT(VERDICT(first, run, over, move, moved, disturbed(500, 600, -1), last) == 0);
        CU_ASSERT(VERDICT(first, run, over, move, moved, disturbed(500, 600, 0), last) == 1); /* there is another node */
        CU_ASSERT(VERDICT(first, run, over, move, last) == 0);

        const struct event past = of_schedule(event(11, MOVE_TOLD, 2, 1, 7), 2 * MINUTE);
        const struct event again = fired(101, RUN_BEGUN, 9, 10, 6), is_again = fired(102, RUN_ENDED, 9, 10, 6);
        CU_ASSERT(VERDICT(first, run, over, move, past, again, is_again, last) == 0); /* it has come back */
        CU_ASSERT(VERDICT(first, run, over, again, is_again, last) == 1);
        CU_ASSERT(VERDICT(first, run, over, move, past, fired(101, RUN_BEGUN, 5, 7, 7), last) >= 1);

        struct event many[16] = {first, run, over, last, disturbed(0, 5000, -1)};
        for (int i = 0; i < 5; i++) {
                many[5 + 2 * i] = of_schedule(event(100 * i + 10, MOVE_BEGUN, 2, 10 + i, 0), 90 * MSEC);
                many[6 + 2 * i] = of_schedule(event(100 * i + 11, MOVE_TOLD, 2, 10 + i, (uint64_t)(7 + 2 * i)),
                                              6 * MINUTE + (100 * i + 100) * MSEC);
        }
        CU_ASSERT(verdict(many, 15) == 1); /* each one may have an excuse, but not all */
        many[15] = of_schedule(handler(401, RUN_BEGUN, 1, 13, 14, 1), 6 * MINUTE + 400 * MSEC);
        CU_ASSERT(verdict(many, 16) == 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_set_is_not_lost),
                WEIR_TEST(an_unknown_cancel_works_for_a_while_only),
                WEIR_TEST(what_was_put_back_is_not_lost),
                WEIR_TEST(a_cancel_is_decisive),
                WEIR_TEST(what_nobody_could_take_is_there),
                WEIR_TEST(no_handler_is_early),
                WEIR_TEST(a_claim_decides_against_a_move),
                WEIR_TEST(what_was_replaced_is_not_claimed),
                WEIR_TEST(generations_and_tokens_grow),
                WEIR_TEST(a_set_that_was_overtaken_may_have_a_smaller_generation),
                WEIR_TEST(attempts_grow_up_to_the_limit),
                WEIR_TEST(handlers_do_not_overlap),
                WEIR_TEST(nothing_is_delivered_behind_a_success),
                WEIR_TEST(what_a_look_has_found_gone_is_not_delivered),
                WEIR_TEST(each_due_time_of_a_schedule_fires_once),
                WEIR_TEST(missed_ones_are_merged_into_the_last),
                WEIR_TEST(only_what_is_late_is_skipped),
        };

        return weir_test_main("the judge of durable timers", tests, sizeof tests / sizeof *tests);
}
