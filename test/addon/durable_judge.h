/* test/addon/durable_judge.h: what the judge of a history (durable_checker.h) knows of its processes and operations. */
#ifndef WEIR_TEST_DURABLE_JUDGE_H
#define WEIR_TEST_DURABLE_JUDGE_H

#include <errno.h>

#include "test/addon/durable_history.h"

#define LATE      INT64_C(2000000000) /* how long the engine may take for what has reached it */
#define RECOVERY  INT64_C(2000000000) /* how long a node may take to connect again */
#define TOLERANCE INT64_C(5000000)    /* of clocks that differ in their resolution */
#define FAR       INT64_C(60000000000)
#define NEVER     INT64_MAX
#define MINUTE    INT64_C(60000000000)

struct life {
        int place, limit;
        int64_t started, killed, gone;
};

struct span {
        int who; /* a process, or a place; -1: all */
        int64_t from, until;
};

struct spans {
        struct span *list;
        size_t count;
};

struct judge {
        struct history *history;
        struct life *lives; /* by process */
        int life_count;
        struct spans stops, disturbances;
        const struct event *first, *end; /* of the name that is judged, in the order of time */
        int64_t slack;                   /* for what a process does at once */
        unsigned printed;
};

/* A handler: its begin, and its end or NULL. */
struct handler {
        const struct event *begun, *ended;
};

static inline int
order_by_name(const void *a, const void *b)
{
        const struct event *first = a, *second = b;

        if (first->name != second->name)
                return first->name < second->name ? -1 : 1;
        return first->at < second->at ? -1 : first->at > second->at;
}

static inline int
order_by_token(const void *a, const void *b)
{
        const struct event *first = ((const struct handler *)a)->begun, *second = ((const struct handler *)b)->begun;

        if (first->generation != second->generation)
                return first->generation < second->generation ? -1 : 1;
        if (first->token != second->token)
                return first->token < second->token ? -1 : 1;
        return first->at < second->at ? -1 : first->at > second->at;
}

static inline int
order_numbers(const void *a, const void *b)
{
        uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

        return first < second ? -1 : first > second;
}

static inline void
blame(struct judge *judge, const char *promise, const struct event *event)
{
        struct history *history = judge->history;

        history->violations++;
        if (history->is_silent || judge->printed++ >= 10)
                return;
        fprintf(stderr, "%s:\n", promise);
        history_print(event);
        fprintf(stderr, " in\n");
        for (const struct event *other = judge->first; other < judge->end; other++)
                if (other->name < SCHEDULES || (other->at < event->at + FAR / 60 && event->at < other->at + FAR / 60))
                        history_print(other);
}

/* -- processes -- */

static inline void
add_span(struct spans *spans, int who, int64_t from, int64_t until)
{
        spans->list = realloc(spans->list, (spans->count + 1) * sizeof *spans->list);
        if (!spans->list)
                abort();
        spans->list[spans->count++] = (struct span){who, from, until};
}

static inline bool
has_span(const struct spans *spans, int who, int64_t from, int64_t until)
{
        for (size_t i = 0; i < spans->count; i++) {
                const struct span *span = &spans->list[i];

                if ((span->who == who || span->who < 0) && span->from <= until && from <= span->until)
                        return true;
        }
        return false;
}

static inline struct life
life_of(const struct judge *judge, int process)
{
        return process < judge->life_count ? judge->lives[process] : (struct life){-2, 0, NEVER, NEVER, NEVER};
}

static inline void
note_life(struct judge *judge, const struct event *event)
{
        while (judge->life_count <= event->process) {
                judge->lives = realloc(judge->lives, ((size_t)judge->life_count + 1) * sizeof *judge->lives);
                if (!judge->lives)
                        abort();
                judge->lives[judge->life_count++] = (struct life){-2, 0, NEVER, NEVER, NEVER};
        }
        struct life *life = &judge->lives[event->process];
        if (event->what == STARTED) {
                life->place = event->status;
                life->limit = event->attempt;
                life->started = event->at;
        } else if (event->what == KILLED) {
                life->killed = event->at;
                life->gone = event->span;
        }
}

/* The process ran all that time. */
static inline bool
is_calm(const struct judge *judge, int process, int64_t from, int64_t until)
{
        return !has_span(&judge->stops, process, from, until) && life_of(judge, process).killed > until;
}

/* It reached the engine as well. */
static inline bool
is_connected(const struct judge *judge, int process, int64_t from, int64_t until)
{
        bool is_alone = judge->history->stops_disturb;

        for (size_t i = 0; is_alone && i < judge->stops.count; i++)
                if (judge->stops.list[i].from <= until && from <= judge->stops.list[i].until + RECOVERY)
                        return false;
        return is_calm(judge, process, from, until) &&
               !has_span(&judge->disturbances, life_of(judge, process).place, from - RECOVERY, until);
}

/* -- operations -- */

/* The event that answers another one of the same process; NULL: it did not live to see it. */
static inline const struct event *
answer(const struct judge *judge, const struct event *event)
{
        enum what what = (enum what)(event->what - 'a' + 'A');

        for (const struct event *other = event + 1; other < judge->end; other++)
                if (other->what == what && other->process == event->process && other->operation == event->operation)
                        return other;
        return NULL;
}

static inline bool
is_known(const struct event *told)
{
        return told && (told->status == 0 || told->status == -ENOENT);
}

/* Until when an operation may have happened. */
static inline int64_t
effect_end(const struct judge *judge, const struct event *begun, const struct event *told)
{
        if (is_known(told))
                return told->at;
        bool is_over = told && told->status != -ETIMEDOUT && told->status != -ECANCELED && told->status != -ESHUTDOWN;
        int64_t end = is_over ? told->at : life_of(judge, begun->process).gone;
        return end < NEVER - LATE ? end + LATE : NEVER;
}

/* Whether the operation may have changed the row. */
static inline bool
may_have_changed(const struct event *begun, const struct event *told)
{
        switch (begun->what) {
        case SET_BEGUN:
        case MOVE_BEGUN:
        case BACK_BEGUN:
        case FORGET_BEGUN: return !told || told->status != -ENOENT;
        case CANCEL_BEGUN: return !is_known(told) || told->generation;
        default: return false;
        }
}

#endif
