/* weir/pool.h: objects that tasks take in turns, such as connections to a database.
 *
 * The object that was put back last is taken first.  It is most likely still in the caches, and the
 * objects that nobody needs are left alone.  A pool has no size: it has the objects that it was
 * given.
 *
 *     weir_series_push(series, weir_pool_take_new(pool, on_object, NULL));
 *     object = weir_pool_object(task);      inside on_object; it goes back when on_object returns */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* A pool.  It lives as long as anybody has a reference. */
typedef struct weir_pool weir_pool;

/* Makes a pool without objects.  When its last reference is dropped, `drop` (if not NULL) is called
 * for the objects in it: on a worker, or on the thread whose call dropped that reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a pool accepts NULL.
 * Threads: any. */
WEIR_API weir_pool *weir_pool_new(weir_free_fn *drop);

/* Opens the pool of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX bytes,
 * none of them NUL.  The pool exists, with its objects, as long as anybody has a reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name), ENAMETOOLONG, EEXIST (it exists with another
 *          drop), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_pool *weir_pool_open(const char *name, weir_free_fn *drop);

/* Takes and drops a reference.  Tasks of a pool have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_pool *weir_pool_ref(weir_pool *pool);
WEIR_API void weir_pool_unref(weir_pool *pool);

/* Puts an object into the pool, a new one or one that was taken.  The task that has waited longest
 * gets it at once.
 *
 * Owner:   the object is given away if the result is 0; otherwise it stays the caller's.
 * Result:  0; -EINVAL for a NULL object; -ENOMEM, also for a NULL pool; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_pool_put(weir_pool *pool, void *object);

/* Makes a task that takes an object.  It waits for one, behind the tasks that came before.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL pool the task's start,
 *          run or push reports -ENOMEM.  The task's status: 0: it has an object; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once it has an object the status
 *          is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_pool_take_new(weir_pool *pool, weir_task_fn *done, void *context);

/* The object that a task has taken.
 *
 * Owner:   weir_pool_object: borrowed until the callback returns; then the object goes back into
 *          the pool by itself, before the series goes on.  weir_pool_take_object: the object is
 *          yours until you put it back.
 * Result:  NULL when there is none or it was taken, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API void *weir_pool_object(const weir_task *task);
WEIR_API void *weir_pool_take_object(weir_task *task);

/* Takes an object at once or not at all.
 *
 * Owner:   the object is the caller's.
 * Result:  NULL when there is none, for NULL, and in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API void *weir_pool_try_take(weir_pool *pool);

/* How many objects the pool holds.  The number is out of date at once while others put and take.
 *
 * Result:  0 for NULL, and in a forked child.
 * Threads: any. */
WEIR_API size_t weir_pool_available(weir_pool *pool);

WEIR_END

#endif
