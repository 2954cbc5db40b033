/* factory/task/live.h: the registry of roots: series of their own, and the series of lone tasks and exchanges.
 *
 * It serves people and the count; nothing that runs depends on it.  What is in a root is found through the root. */
#ifndef WEIR_FACTORY_LIVE_H
#define WEIR_FACTORY_LIVE_H

#include <stddef.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"

#define WEIR__LIVE_SHARDS_EACH 4 /* of a poller: from 4 times its index on */
#define WEIR__LIVE_SHARDS      (WEIR__LIVE_SHARDS_EACH * WEIR__POLLERS_MAX)

/* Between its start and its end.  Without memory the root is counted, and walks say that they miss one. */
void weir__live_add(struct weir_series *root);
void weir__live_remove(struct weir_series *root);

/* How many roots there are: of all shards, one after another. */
size_t weir__live_count(void);

/* -- since when -- */

#define WEIR__LIVE_UNIT_SHIFT 23 /* 8 ms, in 32 bits: after a year it begins anew */

/* The present time, some milliseconds early. */
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

/* -- walking, with pauses -- */

struct weir__live_walk {
        unsigned shard;
        uint32_t next, end; /* numbers of slots: the next one, and the first that it does not look at */
        bool is_incomplete;  /* it misses a root, for which there was no memory */
};

/* At the first root of a shard.  The walk meets the roots that are there from here to its end, and may meet later ones. */
struct weir__live_walk weir__live_walk_begin(unsigned shard);

/* The next root, with a reference for the caller; NULL: that was all. */
struct weir_series *weir__live_walk_next(struct weir__live_walk *walk);

#endif
