/* weir/guard.h: a mutex for series: tasks wait for it, no thread does.
 *
 * Who has acquired a guard is the series of the task that did, until it releases it, or until it ends, whichever comes first:
 * with its last callback, by a cancel, by its deadline, by shutdown.  So a guard is never left behind.  A task that was
 * started alone has a series of its own, which ends behind its callback and what that has pushed.
 *
 * Two series that each hold what the other one waits for wait for ever, or until one of them is cancelled or its deadline
 * comes.  That is not detected; acquire guards in one order everywhere. */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <stdbool.h>

#include <weir/series.h>

WEIR_BEGIN

typedef struct weir_guard weir_guard;

/* A guard, held by nobody.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a guard accepts.
 * Threads: any. */
WEIR_API weir_guard *weir_guard_new(void);

/* The guard of that name (bytes other than NUL, 1 to WEIR_NAME_MAX of them), which is made if there is none.  It exists as
 * long as somebody has a reference, or holds it.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (no name), ENAMETOOLONG, ENOMEM.
 * Threads: any. */
WEIR_API weir_guard *weir_guard_open(const char *name);

/* Another reference, and one less; who holds or waits for a guard has one.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_guard *weir_guard_ref(weir_guard *guard);
WEIR_API void weir_guard_unref(weir_guard *guard);

/* A task that acquires the guard, waiting behind those who came before; the second for the guard of that name, which is made
 * if there is none.  Its series holds the guard from the callback on.  Note which series that is: that of a child, such as the
 * task of a timeout or of a parallel, is the child's own, and ends with it.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a guard that is NULL the task's start, run or push
 *          reports -ENOMEM, for a name that is none -EINVAL or -ENAMETOOLONG.  The task's status: 0: the series holds the
 *          guard; -EDEADLK: it held it before, or one that it is within does; -ENOMEM; or why it ended before: -ECANCELED,
 *          -ETIMEDOUT; -ESHUTDOWN.  Once the guard is acquired the status is 0, though the series may be cancelled before the
 *          callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_guard_acquire_new(weir_guard *guard, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_guard_acquire_new_named(const char *name, weir_task_fn *done, void *context);

/* Ends that the series holds the guard, or the one of that name: the first of those who wait has it now.
 *
 * Result:  0; -EPERM when the series does not hold it, and for a name that is too long, as nobody can hold a guard of that name;
 *          -ENOMEM for a guard that is NULL; -EINVAL for a series that is NULL, or no name; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference to the series.  Never blocks. */
WEIR_API int weir_guard_release(weir_guard *guard, weir_series *series);
WEIR_API int weir_guard_release_named(const char *name, weir_series *series);

/* Whether the series holds the guard: certain inside its callbacks.  With a series of NULL: whether anybody does; out of date
 * at once.
 *
 * Result:  false also for a guard that is NULL, and in a forked child.
 * Threads: any that owns, borrows or has a reference to the series. */
WEIR_API bool weir_guard_is_held(weir_guard *guard, const weir_series *series);

WEIR_END

#endif
