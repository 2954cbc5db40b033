/* factory/fiber/hop.h: hop mode, for tests: behind each await a fiber is on another thread. */
#ifndef WEIR_FACTORY_HOP_H
#define WEIR_FACTORY_HOP_H

#include <stdbool.h>

/* Whether it is on.  Written once, when the library is loaded. */
extern bool weir__hop_is_on;

/* Runs the function on one of two other threads, and returns when it has returned.  An odd number means another one than an even
 * number.  Without memory it runs here.  A worker, or a thread of the executor. */
void weir__hop(unsigned number, void (*function)(void *argument), void *argument) __attribute__((cold, noinline));

/* When the library is loaded. */
void weir__hop_prepare(void);

#endif
