/* factory/timer/timer_names.h: what walks over names (timer_walk.c) take from timer_names.c. */
#ifndef WEIR_FACTORY_TIMER_NAMES_H
#define WEIR_FACTORY_TIMER_NAMES_H

#include "factory/timer/timer.h"

/* Holds the lock of that poller instead of the one held before; NULL: none. */
void weir__timers_lock_poller(struct weir__poller **locked, struct weir__poller *poller);

/* A cancel under way. */
struct weir__timers_cancel {
        size_t left, count;
        unsigned credit;              /* for this hold of the locks */
        struct weir__work_list taken; /* to be delivered when the locks have been let go */
};

/* Takes the lock of the shard for some more timers; lets it go, and delivers what was taken. */
struct weir__names_shard *weir__timers_cancel_begin(struct weir__timers_cancel *cancel, uint32_t hash);
void weir__timers_cancel_end(struct weir__timers_cancel *cancel, struct weir__names_shard *shard);

/* Cancels the timers of a name from its oldest on.  Those whose callback runs (of which there are at most as many as workers) are
 * passed over and keep their name.  Returns whether it stopped because its credit was used up. */
bool weir__timers_cancel_some(struct weir__timers_cancel *cancel, struct weir__names_shard *shard, struct weir__name *name);

#endif
