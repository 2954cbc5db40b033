/* factory/timer/timer_names.h: what timer_walk.c needs of timer_names.c. */
#ifndef WEIR_FACTORY_TIMER_NAMES_H
#define WEIR_FACTORY_TIMER_NAMES_H

#include "factory/timer/timer.h"

/* Releases the lock of the poller *locked and takes that of `poller` instead; NULL is no lock. */
void weir__timers_lock_poller(struct weir__poller **locked, struct weir__poller *poller);

/* A cancel under way. */
struct weir__timers_cancel {
        size_t left, count;
        unsigned credit;              /* for this hold of the locks */
        struct weir__work_list taken; /* to be delivered when the locks have been let go */
};

/* Begin locks the shard for some more timers.  End unlocks it, and delivers the cancelled ones. */
struct weir__names_shard *weir__timers_cancel_begin(struct weir__timers_cancel *cancel, uint32_t hash);
void weir__timers_cancel_end(struct weir__timers_cancel *cancel, struct weir__names_shard *shard);

/* Cancels the timers of a name from its oldest on. Timers whose callback runs keep their name; there are at most as many of
 * them as workers. Returns true if the credit was used up before the end. */
bool weir__timers_cancel_some(struct weir__timers_cancel *cancel, struct weir__names_shard *shard, struct weir__name *name);

#endif
