/* weir/signal.h: tasks that wait for a signal of the process.
 *
 *     weir_task_start(weir_signal_new(SIGHUP, reload, NULL));
 *
 *     static void
 *     reload(weir_task *signal, void *context)
 *     {
 *             if (weir_task_status(signal) != 0)
 *                     return;
 *             weir_task_start(weir_signal_new(SIGHUP, reload, context));      the next one, first
 *             read_configuration();
 *     }
 *
 * From the making of a task until its end the library handles the signal.  Without such a task the
 * signal has the action that it had before. */
#ifndef WEIR_SIGNAL_H
#define WEIR_SIGNAL_H

#include <weir/task.h>

WEIR_BEGIN

/* Makes a task that ends when the process gets the signal `signo`.
 *
 * - All tasks that wait for a signal end when it comes.
 * - A task counts signals from its making.  A signal that comes before its start ends the task as
 *   soon as it is started.  So no signal is missed by a callback that makes the next task first.
 * - Several signals may end a task together, as the system itself merges pending signals.
 * - weir_http_serve and weir_debug_dump_on may use the same signal: each gets it.
 * - Threads of the library block all signals.  A signal that all other threads block does not come.
 * - A signal that was ignored is taken, too, and is ignored again when no task waits.
 * - A program that installs a handler of its own while a task waits takes the signal away from it.
 * - On the virtual clock a signal is seen before time goes on.  Time does not wait for a signal of
 *   another process: hold the clock meanwhile (weir_clock_hold).
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EINVAL for a number that is no signal, for SIGKILL and SIGSTOP, and for those
 *          that a thread causes itself: SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP.
 *          It reports -EBUSY if the program has a handler for the signal; -ECHILD in a forked child.
 *          The task's status: 0: the signal has come; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its
 *          series ended before; -EMFILE, -ENFILE or another error of eventfd, if the first signal
 *          task of the process gets no descriptor.
 * Threads: any. */
WEIR_API weir_task *weir_signal_new(int signo, weir_task_fn *done, void *context);

WEIR_END

#endif
