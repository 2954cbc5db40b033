/* weir/conditional.h: tasks that are started when somebody says so.
 *
 * A conditional holds another task back until its condition is signalled, which may be before the conditional itself is started.
 * A condition is signalled once, for all who wait for it and all who come later.
 *
 * With a name, the condition and its conditional are made in one: who signals knows the name only. */
#ifndef WEIR_CONDITIONAL_H
#define WEIR_CONDITIONAL_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_condition weir_condition;

/* Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a condition accepts.
 * Threads: any. */
WEIR_API weir_condition *weir_condition_new(void);

/* Another reference, and one less; conditionals have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_condition *weir_condition_ref(weir_condition *condition);
WEIR_API void weir_condition_unref(weir_condition *condition);

/* The tasks that are held back are started, the first to come first.  What happened before it happens before their callbacks.
 *
 * Result:  0; -EALREADY when it was signalled before; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_condition_signal(weir_condition *condition);

/* A task that waits for the signal and then runs the other, in a series of its own.
 *
 * Owner:   the caller, until it is consumed.  `task` is consumed, also when this fails.
 * Result:  NULL when out of memory, which every consumer accepts; for a condition or a task that is NULL the conditional's start,
 *          run or push reports -ENOMEM, for a task that was made wrong what its own would have.
 *          The conditional's status: that of the task; or why its series ended before: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  A
 *          task that was not started by then is dropped: its on_free runs before the conditional's callback, its own callback
 *          does not.
 * Threads: any. */
WEIR_API weir_task *weir_conditional_new(weir_condition *condition, weir_task *task, weir_task_fn *done, void *context);

/* The same with a condition of its own that has a name (bytes other than NUL, 1 to WEIR_NAME_MAX of them; copied).  It is found
 * by its name from now on, before it is started as well, until it was signalled or cancelled, or is gone.  Any number may share a
 * name.
 *
 * Owner:   as above.
 * Result:  as above; for a name that is none the conditional's start, run or push reports -EINVAL, for one that is too long
 *          -ENAMETOOLONG.
 * Threads: any. */
WEIR_API weir_task *weir_conditional_new_named(const char *name, weir_task *task, weir_task_fn *done, void *context);

/* Signals at most `max` conditionals of that name, oldest first; WEIR_ALL is no limit.
 *
 * Result:  how many were signalled; 0 for a name that nothing has.  One that was signalled before its start, and then is
 *          dismissed, was counted.
 * Threads: any.  Never blocks. */
WEIR_API size_t weir_condition_signal_named(const char *name, size_t max);

WEIR_END

#endif
