/* factory/task/live.h: the roots that are alive: series of their own, and the series of lone tasks and exchanges; and those lone
 * tasks that run other series.
 *
 * For people who look, and for the count: nothing that runs depends on it.  What is in a root is found through it. */
#ifndef WEIR_FACTORY_LIVE_H
#define WEIR_FACTORY_LIVE_H

#include <stddef.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"

#define WEIR__LIVE_SHARDS (4 * WEIR__POLLERS_MAX)

/* Between its start and its end.  The poller of a root decides about its shard, which is so mostly that of one thread; there are
 * some for each poller, by the address, since other threads start roots for it as well. */
void weir__live_add(struct weir_series *root);
void weir__live_remove(struct weir_series *root);

/* Embedded in a task that runs other series, for one that is in no series itself. */
struct weir__live_task {
        struct weir__live_task *previous, *next; /* guarded by its shard's lock */
        struct weir_task *task;                  /* NULL: it is not registered; its owner's */
        uint32_t started;                        /* constant */
};

/* Before a lone task that runs other series starts; and at the end of each such task, also of one that was not registered: then
 * those who look on have left it. */
void weir__live_add_task(struct weir__live_task *link, struct weir_task *task);
void weir__live_remove_task(struct weir__live_task *link, struct weir_task *task);

/* How many roots there are that are series: of all shards, one after another. */
size_t weir__live_series(void);

/* -- since when -- */

#define WEIR__LIVE_UNIT_SHIFT 23 /* 8 ms, in 32 bits: after a year it begins anew */

/* The time of now, some milliseconds early. */
static inline uint32_t
weir__live_stamp(void)
{
        weir_nsec now = weir__clock_is_virtual() ? weir__clock_now() : weir__clock_read(CLOCK_MONOTONIC_COARSE);

        return (uint32_t)(now >> WEIR__LIVE_UNIT_SHIFT);
}

/* Never too little, and some milliseconds too much. */
static inline weir_nsec
weir__live_age(uint32_t stamp)
{
        weir_nsec now = weir__clock_now(), unit = INT64_C(1) << WEIR__LIVE_UNIT_SHIFT;

        return (weir_nsec)((uint32_t)(now / unit) - stamp) * unit + now % unit;
}

/* -- walking, with pauses --
 *
 * A walk goes on where it was after the lock was let go: who takes out what it comes to next moves it on.  What is added later
 * it does not meet. */
struct weir__live_walk {
        unsigned shard; /* constant */

        /* Guarded by the shard's lock. */
        struct weir__live_walk *next; /* of the same shard */
        struct weir_series *series;
        struct weir__live_task *task;
};

void weir__live_walk_begin(struct weir__live_walk *walk, unsigned shard);
void weir__live_walk_end(struct weir__live_walk *walk);

/* The next root that is a series, with a reference for the caller; NULL: that was all. */
struct weir_series *weir__live_walk_series(struct weir__live_walk *walk);

/* While the shard is locked a lone task that is registered there does not end.  Locks from SERIES on may be taken meanwhile. */
void weir__live_lock(unsigned shard);
void weir__live_unlock(unsigned shard);

/* The next lone task; NULL: that was all.  Under the shard's lock. */
struct weir__live_task *weir__live_walk_task(struct weir__live_walk *walk);

#endif
