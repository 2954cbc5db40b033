/* weir/semaphore.h: tokens that tasks wait for, and tasks that run while they have some.
 *
 * A semaphore counts tokens.  It does not know who has them.  weir_limited_new gives its tokens
 * back by itself.  After weir_semaphore_acquire_new the program gives them back by
 * weir_semaphore_release. */
#ifndef WEIR_SEMAPHORE_H
#define WEIR_SEMAPHORE_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A semaphore.  It lives as long as anybody has a reference. */
typedef struct weir_semaphore weir_semaphore;

/* Makes a semaphore with that many tokens.  No task may ask for more at once than that.  A
 * semaphore that was made with 0, whose tokens all come by weir_semaphore_release, has no such
 * limit.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a semaphore accepts NULL.
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_new(uint64_t tokens);

/* Opens the semaphore of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX
 * bytes, none of them NUL.  The semaphore exists as long as anybody has a reference.  Without
 * references it is forgotten, also with tokens that were not given back.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name), ENAMETOOLONG, EEXIST (it exists and was made with
 *          another number), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_open(const char *name, uint64_t tokens);

/* Takes and drops a reference.  Tasks of a semaphore have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_ref(weir_semaphore *semaphore);
WEIR_API void weir_semaphore_unref(weir_semaphore *semaphore);

/* Makes a task that takes `tokens` tokens, all at once, behind the tasks that came before.  A task
 * that wants many is not passed by later tasks that want few.  0 tokens are granted at once.
 *
 * Owner:   the caller, until the task is consumed.  If the task's status is 0, the tokens must be
 *          given back by weir_semaphore_release.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL semaphore the task's
 *          start, run or push reports -ENOMEM, for more tokens than it was made with (if that is
 *          not 0) -EINVAL.  The task's status: 0: it has the tokens; -EPIPE: the semaphore is
 *          closed; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once it has
 *          them the status is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_semaphore_acquire_new(weir_semaphore *semaphore, uint64_t tokens, weir_task_fn *done, void *context);

/* Takes the tokens at once or not at all.
 *
 * Result:  0; -EAGAIN when there are too few or a task waits; -EPIPE when the semaphore is closed;
 *          -EINVAL and -ENOMEM as for weir_semaphore_acquire_new; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_semaphore_try_acquire(weir_semaphore *semaphore, uint64_t tokens);

/* Gives tokens back.  It may also add new tokens, which makes the semaphore larger, as with
 * sem_post.  Waiting tasks for which there are enough tokens now go on, in the order in which they
 * came.
 *
 * Result:  0; -EOVERFLOW when there would be more than UINT64_MAX, and nothing has changed; -ENOMEM
 *          for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_semaphore_release(weir_semaphore *semaphore, uint64_t tokens);

/* Closes the semaphore.  Nobody gets tokens any more: tasks that wait, and later ones, end with
 * -EPIPE.  Tokens that were acquired can still be released.
 *
 * Result:  0; -EALREADY when it was closed before; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_semaphore_close(weir_semaphore *semaphore);

/* How many tokens are free.  The number is out of date at once while others acquire and release.
 *
 * Result:  0 for NULL, and in a forked child.
 * Threads: any. */
WEIR_API uint64_t weir_semaphore_available(weir_semaphore *semaphore);

/* Makes a task that runs another one while it has tokens.  It acquires the tokens, runs the other
 * task and everything that this task's callback pushes into its series, and gives the tokens back
 * before its own callback.  They are given back whatever the end is.  If it ends before it has
 * them, the other task is dropped: its callback does not run, its free function runs before this
 * task's callback.
 *
 * Owner:   the caller, until the task is consumed.  It consumes the other task, also on failure.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Its start, run or push reports
 *          -ENOMEM for a NULL task, the error of a task that was made wrongly, and the errors of
 *          weir_semaphore_acquire_new.  The status of this task: that of the other one; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ends early.
 * Threads: any. */
WEIR_API weir_task *weir_limited_new(weir_semaphore *semaphore, uint64_t tokens, weir_task *task, weir_task_fn *done,
                                     void *context);

WEIR_END

#endif
