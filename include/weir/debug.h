/* weir/debug.h: what is alive in this process, and what it waits for. */
#ifndef WEIR_DEBUG_H
#define WEIR_DEBUG_H

#include <weir/export.h>

WEIR_BEGIN

/* Prints, as text for people: callbacks that run now, with the worker and since when; each series that has started and not
 * ended, with name, state, age, deadline and how many tasks are behind the current one, and that one with what it waits for;
 * below it, by indentation, what it runs (a parallel, a graph, ...).  Then timers that are in no series, the objects that tasks
 * wait at, and the queues of functions.  The layout may change with any release.
 *
 * Everything goes on meanwhile: what starts and ends while this prints may be in it or not.  No lock is held for more than some
 * hundred tasks, and none while it writes.  Callbacks that block do not hold it up: it is meant for when they do.
 *
 * Result:  0; what write(2) reports, such as -EBADF or -EPIPE (no SIGPIPE is raised); -EAGAIN when `fd` does not block and
 *          nobody has read for a second; -ENOMEM when something was left out; -ECHILD in a forked child.  Before the first use
 *          and after weir_shutdown it prints that nothing runs.
 * Threads: any, also inside a callback.  Blocks as writes to `fd` do. */
WEIR_API int weir_debug_dump(int fd);

/* Has each `signal` print that to `fd`, which must stay open, by a thread of the library that may block.  Signals that come
 * while it prints make one more print together.  Called again it changes both.  A signal of 0, or a negative `fd`, ends it: the
 * handler that there was before is installed again, unless another one has taken the place.
 *
 * Result:  0; -EINVAL for a signal that cannot be caught; -EAGAIN or -ENOMEM when there is no thread to be had: all is as before
 *          then; -ECHILD in a forked child.
 * Threads: any.  A print that is under way is not waited for. */
WEIR_API int weir_debug_dump_on(int signal, int fd);

WEIR_END

#endif
