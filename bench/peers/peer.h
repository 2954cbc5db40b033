/* bench/peers/peer.h: what a library with an event loop does for peer.c, so that all do the same work.
 *
 * One loop, in the main thread, and timers in memory of the caller's, told apart by their number.  Times are in nanoseconds; a
 * library that counts in greater units rounds up. */
#ifndef WEIR_BENCH_PEER_H
#define WEIR_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The durations of the mix "mixed", in seconds: a library may want to know them beforehand. */
#define PEER_MIXED {1, 2, 5, 10, 15, 30, 60, 120, 180, 300}
#define PEER_FIXED 60

/* -- of the library -- */

/* Makes the loop and `count` timers that are not pending.  Their callback is to call peer_expired. */
void peer_open(size_t count);

void peer_add(size_t index, int64_t after);
void peer_cancel(size_t index);              /* pending, or just expired */
void peer_reset(size_t index, int64_t after); /* the same */

/* Has the loop look at the clock: it does so once a turn by itself. */
void peer_update(void);

/* Runs the loop; in each turn it calls slice() from a callback, unless that is NULL, until slice() returns false or peer_stop was
 * called. */
void peer_run(bool (*slice)(void));
void peer_stop(void);

/* Returns when every callback that is due has run, on whatever thread. */
void peer_settle(void);

/* -- of peer.c -- */

void peer_expired(size_t index);

#endif
