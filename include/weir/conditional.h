/* weir/conditional.h: tasks that are started by a signal.
 *
 * A conditional holds back another task until its condition is signalled.  The signal may come
 * before the conditional is started.  A condition is signalled once, for all tasks that wait and
 * for all that come later.
 *
 * With a name, one call makes the condition and its conditional.  The signaller needs to know the
 * name only. */
#ifndef WEIR_CONDITIONAL_H
#define WEIR_CONDITIONAL_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* A condition.  It lives as long as anybody has a reference. */
typedef struct weir_condition weir_condition;

/* Makes a condition that is not signalled.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a condition accepts NULL.
 * Threads: any. */
WEIR_API weir_condition *weir_condition_new(void);

/* Takes and drops a reference.  Conditionals have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_condition *weir_condition_ref(weir_condition *condition);
WEIR_API void weir_condition_unref(weir_condition *condition);

/* Signals the condition.  The tasks that are held back are started in the order in which they came.
 * Everything before the signal happens before their callbacks.
 *
 * Result:  0; -EALREADY when it was signalled before; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_condition_signal(weir_condition *condition);

/* Makes a task that waits for the signal and then runs `task` in a series of its own.
 *
 * Owner:   the caller, until the conditional is consumed.  `task` is consumed, also on failure.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL condition or task the
 *          conditional's start, run or push reports -ENOMEM.  If the task was made wrongly, it
 *          reports the error of that.  The conditional's status: that of the task; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.  A task that was not started by
 *          then is dropped: its free function runs before the conditional's callback, its own
 *          callback does not run.
 * Threads: any. */
WEIR_API weir_task *weir_conditional_new(weir_condition *condition, weir_task *task, weir_task_fn *done, void *context);

/* Makes a conditional with a condition of its own that has a name.  A name has 1 to WEIR_NAME_MAX
 * bytes, none of them NUL, and is copied.  It can be found by its name from now on, also before it
 * is started, until it is signalled, cancelled or gone.  Any number may share a name.
 *
 * Owner:   as for weir_conditional_new.
 * Result:  as for weir_conditional_new.  For an invalid name the start, run or push reports
 *          -EINVAL, for one that is too long -ENAMETOOLONG.
 * Threads: any. */
WEIR_API weir_task *weir_conditional_new_named(const char *name, weir_task *task, weir_task_fn *done, void *context);

/* Signals at most `max` conditionals of that name, oldest first; WEIR_ALL is no limit.
 *
 * Result:  how many were signalled; 0 for an unknown name.  A conditional that was signalled before
 *          its start and is then dismissed was counted.
 * Threads: any.  Never blocks. */
WEIR_API size_t weir_condition_signal_named(const char *name, size_t max);

WEIR_END

#endif
