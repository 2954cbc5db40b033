/* weir/guard.h: a mutex for series, which several series may share.  Tasks wait for it; threads do
 * not.
 *
 * The series of the task that acquires a guard holds it.  It holds the guard until it releases it
 * or until it ends: with its last callback, by a cancel, by its deadline, or by shutdown.  So a
 * guard is never left locked.  A task that was started alone has a series of its own, which ends
 * after its callback and after everything that the callback has pushed.
 *
 * A task may acquire the guard shared: with others that share it, and not with one that holds it
 * alone.  Tasks get the guard in the order in which they came, whether they share it or not.  So
 * neither side starves.  Those that share and stand right behind each other get it together.
 *
 * If two series each wait for a guard that the other one holds, they wait until one is cancelled or
 * its deadline comes.  A dump begins with such a deadlock, and the log warns of it once.  Acquire
 * guards in the same order everywhere.
 *
 *     weir_series_push(series, weir_guard_acquire_new(guard, on_acquired, NULL));
 *     weir_series_push(series, work);      runs while the series holds the guard
 *                                          the end of the series releases it */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <stdbool.h>

#include <weir/series.h>

WEIR_BEGIN

/* A guard.  It lives as long as anybody has a reference. */
typedef struct weir_guard weir_guard;

/* Makes a guard that nobody holds.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a guard accepts NULL.
 * Threads: any. */
WEIR_API weir_guard *weir_guard_new(void);

/* Opens the guard of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX bytes,
 * none of them NUL.  The guard exists as long as anybody holds it or has a reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name), ENAMETOOLONG, ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_guard *weir_guard_open(const char *name);

/* Takes and drops a reference.  A series that holds the guard and a task that waits for it have
 * their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_guard *weir_guard_ref(weir_guard *guard);
WEIR_API void weir_guard_unref(weir_guard *guard);

/* Makes a task that acquires the guard, behind the tasks that came before.  With a name it acquires
 * the guard of that name, which is made if there is none.  Its series holds the guard from the
 * callback on.  Note which series that is: a child, such as the task of a timeout or of a parallel,
 * has a series of its own, which ends with the child.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL. For a NULL guard the task's start,
 *          run or push reports -ENOMEM, for an invalid name -EINVAL or -ENAMETOOLONG.  The task's
 *          status: 0: the series holds the guard; -EDEADLK: it, or a series that contains it,
 *          already held the guard; -ENOMEM; -ECHILD in a forked child; -ECANCELED, -ETIMEDOUT or
 *          -ESHUTDOWN if it ended before.  Once the guard is acquired the status is 0, even if the series is cancelled
 *          before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_guard_acquire_new(weir_guard *guard, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_guard_acquire_new_named(const char *name, weir_task_fn *done, void *context);

/* The same, shared with other series that share the guard.  A series cannot share a guard that it,
 * or a series that contains it, already holds or shares: -EDEADLK.
 *
 * Owner, Result, Threads: as for weir_guard_acquire_new. */
WEIR_API weir_task *weir_guard_acquire_shared_new(weir_guard *guard, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_guard_acquire_shared_new_named(const char *name, weir_task_fn *done, void *context);

/* Acquires the guard for the series at once or not at all.  With 0 the series holds it, or shares
 * it, as after a task that acquires.
 *
 * Result:  0; -EAGAIN when another series has it, or a task waits for it; -EDEADLK when the series
 *          has it already; -ESTALE when the series was not started or has ended; -EINVAL for a NULL
 *          series; -ENOMEM, also for a NULL guard; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference to the series.  Never blocks. */
WEIR_API int weir_guard_try_acquire(weir_guard *guard, weir_series *series);
WEIR_API int weir_guard_try_acquire_shared(weir_guard *guard, weir_series *series);

/* Releases the guard, or the guard of that name, held or shared.  The task that has waited longest
 * acquires it at once, unless others still share it.
 *
 * Result:  0; -EPERM when the series does not hold it, also for a name that is too long; -ENOMEM
 *          for a NULL guard; -EINVAL for a NULL series and for a NULL or empty name; -ECHILD in a
 *          forked child.
 * Threads: any that owns, borrows or has a reference to the series.  Never blocks. */
WEIR_API int weir_guard_release(weir_guard *guard, weir_series *series);
WEIR_API int weir_guard_release_named(const char *name, weir_series *series);

/* Whether the series holds or shares the guard; this is certain inside its callbacks.  With a NULL
 * series: whether anybody does; this is out of date at once.
 *
 * Result:  false also for a NULL guard, and in a forked child.
 * Threads: any that owns, borrows or has a reference to the series. */
WEIR_API bool weir_guard_is_held(weir_guard *guard, const weir_series *series);

WEIR_END

#endif
