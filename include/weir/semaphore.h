/* weir/semaphore.h: tokens that tasks wait for, and tasks that run while they have some.
 *
 * A semaphore counts tokens; it does not know who has them.  weir_limited_new gives back what it took, however that ends; who
 * acquires by hand releases by hand. */
#ifndef WEIR_SEMAPHORE_H
#define WEIR_SEMAPHORE_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_semaphore weir_semaphore;

/* A semaphore with that many tokens.  No task may want more at once than it was made with; but one made with 0, whose tokens
 * all come by weir_semaphore_release, has no such limit.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a semaphore accepts.
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_new(uint64_t tokens);

/* The semaphore of that name (bytes other than NUL, 1 to WEIR_NAME_MAX of them), which is made if there is none.  It exists as
 * long as somebody has a reference: one that nobody has any more is forgotten with the tokens that were not given back.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (no name), ENAMETOOLONG, EEXIST (there is one that was made with another number), ENOMEM.
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_open(const char *name, uint64_t tokens);

/* Another reference, and one less; tasks of a semaphore have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_semaphore *weir_semaphore_ref(weir_semaphore *semaphore);
WEIR_API void weir_semaphore_unref(weir_semaphore *semaphore);

/* A task that takes so many tokens, all at once, waiting behind those who came before: one that wants many is not passed by
 * those behind it that want few.  0 tokens are there at once.
 *
 * Owner:   the caller, until it is consumed; the tokens are whose task had status 0, to be given back by
 *          weir_semaphore_release.
 * Result:  NULL when out of memory, which every consumer accepts; for a semaphore that is NULL the task's start, run or push
 *          reports -ENOMEM, for more tokens than it was made with (if that is not 0) -EINVAL.  The task's status: 0: it has
 *          them; or why its series ended before: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  Once it has them the status is 0, though
 *          the series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_semaphore_acquire_new(weir_semaphore *semaphore, uint64_t tokens, weir_task_fn *done, void *context);

/* Takes them at once or not at all.
 *
 * Result:  0; -EAGAIN when there are not so many, or somebody waits; -EINVAL, -ENOMEM as above; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_semaphore_try_acquire(weir_semaphore *semaphore, uint64_t tokens);

/* Gives so many tokens: back, or in addition, which makes the semaphore larger, as with sem_post.  Those who wait and have
 * enough now go on, the first to come first.
 *
 * Result:  0; -EOVERFLOW when there would be more than UINT64_MAX, and then nothing has changed; -ENOMEM for NULL; -ECHILD in
 *          a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_semaphore_release(weir_semaphore *semaphore, uint64_t tokens);

/* How many tokens nobody has.  Out of date at once where others acquire and release; 0 for NULL, and
 * in a forked child.
 *
 * Threads: any. */
WEIR_API uint64_t weir_semaphore_available(weir_semaphore *semaphore);

/* A task that runs another one while it has so many tokens: it acquires them, runs that one and what its callback pushes into
 * its series, and gives them back, before its own callback.  They are given back however that ends, and what ends before it
 * has them has the other task dropped: its callback does not run, its free function does.
 *
 * Owner:   the caller, until it is consumed.  It consumes the task, also on failure.
 * Result:  NULL when out of memory, which every consumer accepts; a task that is NULL or was made wrongly, and what
 *          weir_semaphore_acquire_new reports, its start, run or push reports.  The limited task's status: that of the other
 *          one; or why its series ends early: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.
 * Threads: any. */
WEIR_API weir_task *weir_limited_new(weir_semaphore *semaphore, uint64_t tokens, weir_task *task, weir_task_fn *done,
                                     void *context);

WEIR_END

#endif
