/* weir/barrier.h: tasks that wait until so many of them are there.
 *
 * A barrier is used again and again: the first n to arrive go on together, then the next n. */
#ifndef WEIR_BARRIER_H
#define WEIR_BARRIER_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_barrier weir_barrier;

/* A barrier for n tasks at a time.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL when n is 0, ENOMEM; all that takes a barrier accepts NULL.
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_new(size_t n);

/* The barrier of that name (bytes other than NUL, 1 to WEIR_NAME_MAX of them), which is made if there is none.  It exists as long
 * as somebody has a reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (no name, or n is 0), ENAMETOOLONG, EEXIST (there is one with another n), ENOMEM.
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_open(const char *name, size_t n);

/* Another reference, and one less; tasks that are to arrive have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_barrier *weir_barrier_ref(weir_barrier *barrier);
WEIR_API void weir_barrier_unref(weir_barrier *barrier);

/* A task that arrives when it is started, and ends when n have arrived.  Those n go on together; who comes later is one of the next
 * n.  One that is cancelled while it waits has not arrived: another has to.  What happened before an arrival happens before the
 * callbacks of those it goes on with.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a barrier that is NULL the task's start, run or push
 *          reports -ENOMEM.  The task's status: 0; or why its series ended before n had arrived: -ECANCELED, -ETIMEDOUT;
 *          -ESHUTDOWN.  Once they have it is 0, though the series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_barrier_arrive_new(weir_barrier *barrier, weir_task_fn *done, void *context);

/* Whether the task was the last of its n to arrive, which exactly one of them was.
 *
 * Result:  false for a task that has not got through, and of another kind.
 * Threads: inside the task's callback. */
WEIR_API bool weir_barrier_is_last(const weir_task *task);

WEIR_END

#endif
