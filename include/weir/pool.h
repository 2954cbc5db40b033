/* weir/pool.h: objects that tasks take turns with, such as connections to a store.
 *
 * The object that was given back last is taken first: it is the warmest, and those that nobody needs stay where they are.  A
 * pool has no size: it has the objects that it was given. */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_pool weir_pool;

/* A pool without objects.  `drop`, which may be NULL, is called for those that it holds when its last reference is gone: on a
 * worker, or on the thread whose call gave that up.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a pool accepts.
 * Threads: any. */
WEIR_API weir_pool *weir_pool_new(weir_free_fn *drop);

/* The pool of that name (bytes other than NUL, 1 to WEIR_NAME_MAX of them), which is made if there is none.  It exists as long
 * as somebody has a reference, objects and all.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (no name), ENAMETOOLONG, EEXIST (there is one with another drop), ENOMEM.
 * Threads: any. */
WEIR_API weir_pool *weir_pool_open(const char *name, weir_free_fn *drop);

/* Another reference, and one less; tasks of a pool have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_pool *weir_pool_ref(weir_pool *pool);
WEIR_API void weir_pool_unref(weir_pool *pool);

/* Gives the pool an object, a new one or one that was taken: who has waited longest has it now.
 *
 * Owner:   the object is given away if the result is 0, else it stays the caller's.
 * Result:  0; -EINVAL for an object that is NULL; -ENOMEM, also for a pool that is NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_pool_put(weir_pool *pool, void *object);

/* A task that takes an object, waiting for one behind those who came before.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a pool that is NULL the task's start, run or push
 *          reports -ENOMEM. The task's status: 0: it has an object; or why its series ended before: -ECANCELED, -ETIMEDOUT;
 *          -ESHUTDOWN.  Once it has an object the status is 0, though the series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_pool_take_new(weir_pool *pool, weir_task_fn *done, void *context);

/* The object that a task has taken.
 *
 * Owner:   of the first: borrowed until the callback returns; then it goes back into the pool by itself, before the series
 *          goes on.  Of the second: yours, until you put it.
 * Result:  NULL when there is none, or it was taken, and for a task of another kind.
 * Threads: inside the task's callback. */
WEIR_API void *weir_pool_object(const weir_task *task);
WEIR_API void *weir_pool_take_object(weir_task *task);

/* Takes an object at once or not at all.
 *
 * Owner:   the object is the caller's.
 * Result:  NULL when there is none, for NULL, and in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API void *weir_pool_try_take(weir_pool *pool);

/* How many objects it holds.  Out of date at once where others put and take; 0 for NULL.
 *
 * Threads: any. */
WEIR_API size_t weir_pool_available(weir_pool *pool);

WEIR_END

#endif
