/* factory/timer/ticker.h: what timer.c and timer_reset.c ask of the timers that come again and again. */
#ifndef WEIR_FACTORY_TICKER_H
#define WEIR_FACTORY_TICKER_H

#include "factory/timer/timer.h"

/* On its worker, when it has begun: runs the callback of a tick, and puts the ticker back into the queue.  Returns false when its
 * last callback is to be run: there is no tick, or none after this. */
bool weir__ticker_tick(struct weir__timer *timer);

/* Gives up what it holds.  No jump of a clock leads to it any more; with no lock held. */
void weir__ticker_free(struct weir__timer *timer);

/* How many ticks have returned; 0 for what is no ticker.  Under the lock of its name, on the chain of which it is. */
uint64_t weir__ticker_returned(struct weir__timer *timer);

/* -- under the poller's lock -- */

/* Notes when the next tick is due, before that is brought onto a grid; and tells. */
void weir__ticker_aim(struct weir__timer *timer, weir_nsec due);
weir_nsec weir__ticker_due(struct weir__timer *timer);

/* When the tick after the one that has just ended is due. */
weir_nsec weir__ticker_next(struct weir__timer *timer, weir_nsec now);

/* Of one with a schedule: when its first tick is due; and when the next one is, now that the clock was set, instead of at
 * `target`. */
weir_nsec weir__ticker_first(struct weir__timer *timer, weir_nsec shown);
weir_nsec weir__ticker_retarget(struct weir__timer *timer, weir_nsec target, weir_nsec shown);

/* No tick comes behind the present one, or the next one if there is none. */
void weir__ticker_end(struct weir__timer *timer);

/* A reset in the middle of a tick.  Returns whether there will be another one. */
bool weir__ticker_change_next(struct weir__timer *timer, const struct weir__timer_change *change);

/* After a reset or an extension that counts. */
void weir__ticker_changed(struct weir__timer *timer, const struct weir__timer_change *change);

#endif
