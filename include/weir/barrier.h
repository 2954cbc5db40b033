/* weir/barrier.h: tasks wait until a given number of them have arrived.
 *
 * A barrier is used again and again: the first n tasks that arrive go on together, then the next n. */
#ifndef WEIR_BARRIER_H
#define WEIR_BARRIER_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* A barrier.  It lives as long as anybody has a reference. */
typedef struct weir_barrier weir_barrier;

/* Makes a barrier for n tasks at a time.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL when n is 0, or ENOMEM.  Every function that takes a barrier
 *          accepts NULL.
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_new(size_t n);

/* Opens the barrier of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX
 * bytes, none of them NUL.  The barrier exists as long as anybody has a reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name, or n is 0), ENAMETOOLONG, EEXIST (it exists with
 *          another n), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_open(const char *name, size_t n);

/* Takes and drops a reference.  Tasks that are to arrive have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_ref(weir_barrier *barrier);
WEIR_API void weir_barrier_unref(weir_barrier *barrier);

/* Makes a task that arrives when it is started, and ends when n tasks have arrived.  Those n go on
 * together; a later one belongs to the next n.  A task that is cancelled while it waits has not
 * arrived, and another one has to arrive in its place.  Everything before an arrival happens
 * before the callbacks of the n tasks.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL barrier the task's
 *          start, run or push reports -ENOMEM.  The task's status: 0; -ECANCELED, -ETIMEDOUT or
 *          -ESHUTDOWN if its series ended before n had arrived.  Once n have arrived it is 0, even
 *          if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_barrier_arrive_new(weir_barrier *barrier, weir_task_fn *done, void *context);

/* Whether the task was the last of its n to arrive.  That is true for exactly one of them.
 *
 * Result:  false for a task that has not got through, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API bool weir_barrier_is_last(const weir_task *task);

WEIR_END

#endif
