/* weir/debug.h: what is alive in this process, and what it waits for. */
#ifndef WEIR_DEBUG_H
#define WEIR_DEBUG_H

#include <weir/export.h>

WEIR_BEGIN

/* Prints the state of the library as text for people:
 *
 * - callbacks that run now, with their worker and for how long they have run,
 * - each series that has started and not ended: its name, state, age, deadline and the number of
 *   tasks behind the current one; the current task and what it waits for; below it, indented, what
 *   it runs (a parallel, a graph and so on),
 * - timers that are in no series, the objects that tasks wait at, and the queues of functions,
 * - the origins of HTTP clients, with their connections, and how many requests wait.
 *
 * Another task that was started alone is in none of these.  A request, a read or a connect that is
 * to be seen belongs into a series.
 *
 * The layout may change with any release.  Everything goes on meanwhile: what starts or ends during
 * the call may be printed or not.  The call holds no lock for more than some hundred tasks, and
 * none while it writes.  Callbacks that block do not delay it; it is made for that case.
 *
 * Result:  0; what write(2) reports, such as -EBADF or -EPIPE (no SIGPIPE is raised); -EAGAIN when
 *          `fd` is non-blocking and nobody has read for a second; -ENOMEM when something was left
 *          out; -ECHILD in a forked child.  Before the first use and after weir_shutdown it prints
 *          that nothing runs.
 * Threads: any, also inside a callback.  Blocks as writes to `fd` do. */
WEIR_API int weir_debug_dump(int fd);

/* Binds a signal: each `signal` prints such a dump to `fd`.  A thread of the library writes it and
 * may block, so `fd` must stay open.  Signals that arrive during a dump cause one more dump
 * together.
 *
 * A second call changes both.  A `signal` of 0 or a negative `fd` ends the binding: the former
 * handler is installed again, unless the program has installed another one meanwhile.  The thread
 * stays for the next binding, until the process ends.
 *
 * Result:  0; -EINVAL for a signal that cannot be caught; -EAGAIN or -ENOMEM when no thread can be
 *          made, and nothing has changed; -ECHILD in a forked child.
 * Threads: any.  The call does not wait for a dump that is being written. */
WEIR_API int weir_debug_dump_on(int signal, int fd);

WEIR_END

#endif
