/* factory/fiber/hop.h: hop mode, for tests: behind each await a fiber is on another thread. */
#ifndef WEIR_FACTORY_HOP_H
#define WEIR_FACTORY_HOP_H

#include <stdatomic.h>
#include <stdbool.h>

/* Whether it is on.  Written once, when the library is loaded. */
extern bool weir__hop_is_on;

/* Whether a stretch may run on another thread than its worker's: hop mode is on, or a fiber was pinned (pin.c).  Relaxed. */
extern _Atomic bool weir__stretches_move;

/* Runs the function on one of two other threads, and returns when it has returned.  An odd number means another one than an even
 * number.  Without memory it runs here.  A worker, or a thread of the executor. */
void weir__hop(unsigned number, void (*function)(void *argument), void *argument) __attribute__((cold, noinline));

/* When the library is loaded. */
void weir__hop_prepare(void);

#endif
