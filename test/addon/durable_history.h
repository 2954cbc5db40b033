/* test/addon/durable_history.h: what several nodes have done and were told, and whether that keeps the promises of
 * docs/durable.md.
 *
 *   cancelled   a generation whose cancel was told 1 has no handler, before or afterwards
 *   lost        a generation whose set was told 0 is delivered, cancelled or replaced
 *   token       no two deliveries have the same token
 *   overlap     no handler of a generation begins while another one has it under a lease that holds
 *   twice       behind a delivery that has succeeded there is no other one, unless its process has died before it could say so
 *
 * What a process was not told, because it was killed, may have happened or not.  Where processes were stopped, or died, a
 * lease may be over, and the last two are judged for the time without such an event only. */
#ifndef WEIR_TEST_DURABLE_HISTORY_H
#define WEIR_TEST_DURABLE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum what {
        SET_BEGUN = 's',
        SET_TOLD = 'S',
        CANCEL_BEGUN = 'c',
        CANCEL_TOLD = 'C',
        RUN_BEGUN = 'r',
        RUN_ENDED = 'R',
        KILLED = 'K',
        STOPPED = 'T',
};

struct event {
        int64_t at; /* CLOCK_MONOTONIC, which all processes of the machine share */
        enum what what;
        int process; /* each life has its own number */
        int name;
        int operation; /* of its process; 0: none */
        int status;
        uint64_t generation; /* 0: it is not known, or a cancel has cancelled nothing */
        uint64_t token;
};

struct history {
        struct event *events;
        size_t count, room;
        int64_t lease;
        unsigned violations;
        bool is_silent;
        /* Figures. */
        unsigned sets, cancels, runs, kills, stops, unknown;
};

static inline void
history_add(struct history *history, struct event event)
{
        if (history->count == history->room) {
                history->room = history->room ? 2 * history->room : 1024;
                history->events = realloc(history->events, history->room * sizeof *history->events);
                if (!history->events)
                        abort();
        }
        history->events[history->count++] = event;
}

static inline int
history_order(const void *a, const void *b)
{
        const struct event *first = a, *second = b;

        if (first->name != second->name)
                return first->name < second->name ? -1 : 1;
        return first->at < second->at ? -1 : first->at > second->at;
}

static inline void
history_blame(struct history *history, const char *promise, const struct event *event)
{
        history->violations++;
        if (!history->is_silent)
                fprintf(stderr, "%s: name %d, generation %llu, token %llu, process %d, at %lld\n", promise, event->name,
                        (unsigned long long)event->generation, (unsigned long long)event->token, event->process,
                        (long long)event->at);
}

/* When the process was killed; INT64_MAX: never. */
static inline int64_t
history_death(const struct history *history, int process)
{
        for (size_t i = 0; i < history->count; i++)
                if (history->events[i].what == KILLED && history->events[i].process == process)
                        return history->events[i].at;
        return INT64_MAX;
}

/* Whether a process was stopped in that time. */
static inline bool
history_stopped(const struct history *history, int64_t from, int64_t until)
{
        for (size_t i = 0; i < history->count; i++) {
                const struct event *event = &history->events[i];

                if (event->what == STOPPED && event->at < until && event->at + 4 * history->lease > from)
                        return true;
        }
        return false;
}

/* The event that answers another one of the same process; NULL: it was killed before. */
static inline const struct event *
history_answer(const struct event *event, const struct event *end, enum what what)
{
        for (const struct event *other = event + 1; other < end; other++)
                if (other->what == what && other->process == event->process && other->operation == event->operation)
                        return other;
        return NULL;
}

/* Whether something explains that the generation of a set is not there any more. */
static inline bool
history_explained(const struct event *set, const struct event *first, const struct event *end, const struct history *history)
{
        for (const struct event *event = first; event < end; event++) {
                if (event->generation > set->generation)
                        return true; /* it was replaced */
                if (event->generation == set->generation && event->what == RUN_ENDED && event->status == 0)
                        return true;
                if (event->generation == set->generation && event->what == CANCEL_TOLD)
                        return true;
                if (event->what == CANCEL_BEGUN && !history_answer(event, end, CANCEL_TOLD) &&
                    history_death(history, event->process) > set->at)
                        return true; /* it may have cancelled */
        }
        return false;
}

static inline void
history_check_runs(struct history *history, const struct event *run, const struct event *end)
{
        const struct event *over = history_answer(run, end, RUN_ENDED);
        int64_t death = history_death(history, run->process);

        for (const struct event *other = run + 1; other < end; other++) {
                if (other->what != RUN_BEGUN || other->generation != run->generation)
                        continue;
                bool is_calm = !history_stopped(history, run->at, other->at);
                if (other->token == run->token)
                        history_blame(history, "token", other);
                if (is_calm && (!over || over->at > other->at) && other->at < run->at + history->lease / 2)
                        history_blame(history, "overlap", other);
                if (is_calm && over && over->status == 0 && over->at < other->at && death > other->at)
                        history_blame(history, "twice", other);
        }
}

/* The events of one name, in the order of time. */
static inline void
history_check_name(struct history *history, const struct event *first, const struct event *end, bool is_drained)
{
        for (const struct event *event = first; event < end; event++) {
                history->sets += event->what == SET_BEGUN;
                history->cancels += event->what == CANCEL_TOLD && event->generation;
                history->runs += event->what == RUN_BEGUN;
                history->unknown += (event->what == SET_BEGUN && !history_answer(event, end, SET_TOLD)) ||
                                    (event->what == CANCEL_BEGUN && !history_answer(event, end, CANCEL_TOLD));
                if (event->what == CANCEL_TOLD && event->generation)
                        for (const struct event *run = first; run < end; run++)
                                if (run->what == RUN_BEGUN && run->generation == event->generation)
                                        history_blame(history, "cancelled", run);
                if (event->what == SET_TOLD && event->status == 0 && is_drained &&
                    !history_explained(event, first, end, history))
                        history_blame(history, "lost", event);
                if (event->what == RUN_BEGUN)
                        history_check_runs(history, event, end);
        }
}

/* Judges a history.  Behind it all timers were delivered, if it is drained.  Result: how often a promise was broken. */
static inline unsigned
history_check(struct history *history, bool is_drained)
{
        qsort(history->events, history->count, sizeof *history->events, history_order);
        for (size_t i = 0; i < history->count; i++) {
                history->kills += history->events[i].what == KILLED;
                history->stops += history->events[i].what == STOPPED;
        }
        for (size_t i = 0, j; i < history->count; i = j) {
                for (j = i; j < history->count && history->events[j].name == history->events[i].name; j++) {
                }
                if (history->events[i].name >= 0)
                        history_check_name(history, history->events + i, history->events + j, is_drained);
        }
        return history->violations;
}

#endif
