/* test/addon/durable_checker_schedules.h: whether the firings of a schedule keep the promises, by its policy:
 *
 *   all     each due time succeeds, in a generation of its own
 *   once    the due time of a delivery is the last one that had passed, and it says how many it stands for
 *   skip    what was late by more than the limit has no first attempt, and what was not late is not left out
 *
 * Schedules of all minutes.  Those of the last two are moved by the nodes, to instants that the moves were told. */
#ifndef WEIR_TEST_DURABLE_CHECKER_SCHEDULES_H
#define WEIR_TEST_DURABLE_CHECKER_SCHEDULES_H

#include <weir/durable.h>

#include "test/addon/durable_judge.h"

/* -- instants -- */

/* An instant of the engine, on the clock of the history. */
static inline int64_t
on_history(const struct judge *judge, int64_t wall)
{
        return wall - judge->history->wall;
}

static inline int64_t
next_minute(int64_t due)
{
        return (due / MINUTE + 1) * MINUTE;
}

/* How many due times a delivery stands for besides its own one; -1: it cannot be theirs. */
static inline int
missed_between(int64_t from, int64_t due)
{
        if (due == from)
                return 0;
        if (due < from || due % MINUTE)
                return -1;
        int64_t missed = 1 + (due - next_minute(from)) / MINUTE;
        return missed < 256 ? (int)missed : 256;
}

/* -- due times of a generation -- */

/* What a generation may have been due at before its first claim. */
struct dues {
        int64_t list[16];
        size_t count;
        bool is_unknown; /* it may have been moved, and nobody was told */
        bool is_moved;
};

/* Whether another move of the generation has begun behind the end of this one. */
static inline bool
is_moved_again(const struct judge *judge, const struct event *told)
{
        for (const struct event *event = judge->first; event < judge->end; event++) {
                const struct event *other = event->what == MOVE_BEGUN && event->at > told->at ? answer(judge, event) : NULL;

                if (other && other->status == 0 && other->generation == told->generation)
                        return true;
        }
        return false;
}

/* Of a generation that has begun between `since` and `until`; `follows`: if nobody has moved it. */
static inline struct dues
dues_of(const struct judge *judge, uint64_t generation, int64_t since, int64_t until, int64_t follows)
{
        struct dues dues = {.count = 0};

        for (const struct event *event = judge->first; event < judge->end; event++) {
                if (event->what != MOVE_BEGUN)
                        continue;
                const struct event *told = answer(judge, event);
                if (!is_known(told))
                        dues.is_unknown = dues.is_unknown || (event->at <= until && effect_end(judge, event, told) >= since);
                else if (told->status == 0 && told->generation == generation && !is_moved_again(judge, told) && dues.count < 16)
                        dues.list[dues.count++] = told->span;
        }
        dues.is_moved = dues.count > 0;
        if (!dues.is_moved)
                dues.list[dues.count++] = follows;
        return dues;
}

static inline bool
has_due(const struct dues *dues, int64_t due)
{
        bool has = dues->is_unknown;

        for (size_t i = 0; i < dues->count && !has; i++)
                has = dues->list[i] == due;
        return has;
}

static inline struct dues
dues_of_handler(const struct judge *judge, const struct handler *handlers, size_t i, int64_t follows)
{
        const struct event *run = handlers[i].begun;

        return dues_of(judge, run->generation, i ? handlers[i - 1].begun->at : INT64_MIN, run->at, follows);
}

/* -- policies -- */

/* Handlers in the order of their generations: due times grow, and each one that is over has succeeded. */
static inline void
check_all(struct judge *judge, const struct handler *handlers, size_t count, const struct event *first, const struct event *last)
{
        size_t i = 0;

        for (int64_t due = first->span; due < last->span; due += MINUTE) {
                size_t begin = i;
                bool has_succeeded = false;

                while (i < count && handlers[i].begun->span == due) {
                        if (handlers[i].begun->generation != handlers[begin].begun->generation)
                                blame(judge, "fires", handlers[i].begun); /* twice */
                        has_succeeded = has_succeeded || (handlers[i].ended && handlers[i].ended->status == 0);
                        i++;
                }
                if (!has_succeeded)
                        blame(judge, "fires", i < count ? handlers[i].begun : last); /* never, or out of order */
                judge->history->firings += has_succeeded;
        }
        if (i < count)
                blame(judge, "fires", handlers[i].begun);
}

static inline void
check_once(struct judge *judge, const struct handler *handlers, size_t count, const struct event *first, const struct event *last)
{
        int64_t lease = judge->history->lease, follows = first->span;
        struct dues dues = {.is_unknown = true};
        bool has_succeeded = true;

        for (size_t i = 0; i < count; i++) {
                const struct event *run = handlers[i].begun;

                if (!i || run->generation != handlers[i - 1].begun->generation) {
                        if (!has_succeeded)
                                blame(judge, "fires", run); /* the one before has not */
                        dues = dues_of_handler(judge, handlers, i, follows);
                        has_succeeded = false;
                }
                bool is_right = dues.is_unknown;
                for (size_t j = 0; j < dues.count && !is_right; j++)
                        is_right = missed_between(dues.list[j], run->span) == run->status;
                if (!is_right)
                        blame(judge, "fires", run);
                if (on_history(judge, next_minute(run->span)) + TOLERANCE < run->at - lease &&
                    is_calm(judge, run->process, run->at - lease, run->at))
                        blame(judge, "fires", run); /* there was a later one */
                bool is_over = handlers[i].ended && handlers[i].ended->status == 0;
                judge->history->firings += is_over && !has_succeeded;
                has_succeeded = has_succeeded || is_over;
                follows = next_minute(run->span);
        }
        int64_t since = count ? handlers[count - 1].begun->at : INT64_MIN;
        dues = dues_of(judge, last->generation, since, last->at, follows);
        if (!has_due(&dues, last->span))
                blame(judge, "fires", last);
}

/* A node was there for the due time that a move was told, and nothing else has happened to it. */
static inline bool
is_awaited(const struct judge *judge, const struct event *begun, const struct event *told)
{
        int64_t due = on_history(judge, told->span), until = due + MISSED;
        struct dues dues = dues_of(judge, told->generation, begun->at, until, 0);

        if (due < told->at || dues.is_unknown || is_moved_again(judge, told) || dues.count > 1)
                return false;
        for (int process = 1; process < judge->life_count; process++)
                if (judge->lives[process].place >= 0 && judge->lives[process].started + RECOVERY < begun->at &&
                    is_connected(judge, process, begun->at, until + TOLERANCE))
                        return true;
        return false;
}

#define MANY_MOVES 5 /* of so many to soon, one was delivered */

static inline void
check_left_out(struct judge *judge, const struct handler *handlers, size_t count)
{
        const struct event *last = NULL;
        int moves = 0, deliveries = 0;

        for (const struct event *event = judge->first; event < judge->end; event++) {
                const struct event *told = event->what == MOVE_BEGUN ? answer(judge, event) : NULL;
                bool has_begun = false;

                if (!told || told->status)
                        continue;
                for (size_t i = 0; i < count && !has_begun; i++)
                        has_begun = handlers[i].begun->generation == told->generation;
                if (!has_begun && is_awaited(judge, event, told))
                        blame(judge, "fires", told);
                if (on_history(judge, told->span) > told->at) {
                        moves++;
                        deliveries += has_begun;
                        last = told;
                }
        }
        if (moves >= MANY_MOVES && !deliveries)
                blame(judge, "fires", last);
}

/* A generation between two handlers was moved, perhaps into the past: then its due times pass once more.  It may have no handler,
 * because it was late. */
static inline bool
is_returned(const struct judge *judge, const struct event *before, const struct event *run)
{
        for (const struct event *event = judge->first; event < judge->end; event++)
                if (event->what == MOVE_TOLD && event->status == 0 && event->generation > before->generation &&
                    event->generation < run->generation)
                        return true;
        return false;
}

static inline void
check_skip(struct judge *judge, const struct handler *handlers, size_t count)
{
        int64_t lease = judge->history->lease;
        struct dues dues = {.is_unknown = true};

        for (size_t i = 0; i < count; i++) {
                const struct event *run = handlers[i].begun;
                bool is_new = !i || run->generation != handlers[i - 1].begun->generation;

                if (is_new)
                        dues = dues_of_handler(judge, handlers, i, run->span - run->span % MINUTE);
                if (!has_due(&dues, run->span))
                        blame(judge, "fires", run);
                if (i && !dues.is_unknown && !dues.is_moved && !is_returned(judge, handlers[i - 1].begun, run) &&
                    is_new != (run->span > handlers[i - 1].begun->span))
                        blame(judge, "fires", run);
                if (run->attempt == 1 && on_history(judge, run->span) + MISSED + TOLERANCE < run->at - lease &&
                    is_calm(judge, run->process, run->at - lease, run->at))
                        blame(judge, "fires", run); /* it was late */
                judge->history->firings += handlers[i].ended && handlers[i].ended->status == 0;
        }
        check_left_out(judge, handlers, count);
}

/* Handlers in the order of their generations. */
static inline void
check_schedule(struct judge *judge, const struct handler *handlers, size_t count)
{
        const struct event *first = NULL, *last = NULL;

        for (const struct event *event = judge->first; event < judge->end; event++) {
                first = event->what == SCHEDULED ? event : first;
                last = event->what == NEXT_DUE ? event : last;
        }
        if (!first || !last)
                return;
        for (size_t i = 0; i < count; i++)
                if (handlers[i].begun->at + TOLERANCE < on_history(judge, handlers[i].begun->span))
                        blame(judge, "early", handlers[i].begun);
        if (first->attempt == WEIR_DURABLE_ALL)
                check_all(judge, handlers, count, first, last);
        else if (first->attempt == WEIR_DURABLE_ONCE)
                check_once(judge, handlers, count, first, last);
        else
                check_skip(judge, handlers, count);
}

#endif
