/* kernel/runtime/runtime.h: the pollers and workers as a whole, from start to shutdown. */
#ifndef WEIR_KERNEL_RUNTIME_H
#define WEIR_KERNEL_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/runtime.h>

#include "kernel/base/phase.h"
#include "kernel/data/work.h"
#include "kernel/loop/pollers.h"

/* Starts the runtime if nothing ever did.  Result: 0 when it is up; -ESHUTDOWN; -ECHILD; what weir_init reports. */
int weir__runtime_use(void);

/* enum weir_files of the last start.  Any thread; relaxed. */
extern _Atomic int weir__runtime_files;

/* A root (a lone task, a series of its own, an exchange) comes to life, or ends; shutdown waits for all of them.
 * Enter fails with -ESHUTDOWN or -ECHILD, or what weir_init reports, and then nothing was counted. */
int weir__runtime_enter(void);
void weir__runtime_leave(void);

/* Between these two a thread waits for a flow.  The virtual clock advances by itself only meanwhile.  The thread that ends the
 * flow calls the second function before it wakes the waiter, so time stands while the waiter wakes up.  `has_given`: the waiter
 * is a worker that has given its poller away (struct weir__worker). */
void weir__runtime_wait_begin(bool has_given);
void weir__runtime_wait_end(bool has_given);
bool weir__runtime_has_waiters(void);

/* Whether this thread may block until a flow ends.
 * Result:  0; -EDEADLK on the watchdog, and on a worker except between weir_blocking_begin and _end; -ECHILD in a forked child.
 *
 * The second function: whether this thread may wait for all callbacks, as a shutdown does.  No callback may. */
int weir__runtime_may_wait(void);
int weir__runtime_may_stop(void);

/* The calling thread runs a function of the program that a task waits for: it may do neither.  Returns what was set before. */
bool weir__runtime_forbid_waits(bool forbid);

#endif
