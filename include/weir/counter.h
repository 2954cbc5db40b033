/* weir/counter.h: tasks that wait until something was counted so often.
 *
 * A counter is used up: once its count has come to its target, all who wait for it go on, and so does whoever comes later.
 *
 * With a name, the counter and the task that waits for it are made in one: who counts knows the name only. */
#ifndef WEIR_COUNTER_H
#define WEIR_COUNTER_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_counter weir_counter;

/* A counter with that target; with a target of 0 there is nothing to wait for.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a counter accepts.
 * Threads: any. */
WEIR_API weir_counter *weir_counter_new(uint64_t target);

/* Another reference, and one less: a counter lives as long as there is one; tasks that are to wait for it have theirs.  Both accept
 * NULL.
 *
 * Threads: any. */
WEIR_API weir_counter *weir_counter_ref(weir_counter *counter);
WEIR_API void weir_counter_unref(weir_counter *counter);

/* Counts n.  When that comes to the target, those who wait go on, the first to come first; what is beyond the target is ignored.
 * What happened before it happens before the callbacks of those who go on.
 *
 * Result:  how much was counted: less than n when the target was nearer than that; 0 for NULL, or in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API uint64_t weir_counter_count(weir_counter *counter, uint64_t n);

/* How much is left until the target.  Out of date at once where others count; 0 for NULL, and in a forked child.
 *
 * Threads: any. */
WEIR_API uint64_t weir_counter_left(weir_counter *counter);

/* A task that ends when the counter has come to its target; several may wait for one.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a counter that is NULL the task's start, run or push reports
 *          -ENOMEM.  The task's status: 0; or why its series ended before the target: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  Once the
 *          target was come to it is 0, though the series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_counter_wait_new(weir_counter *counter, weir_task_fn *done, void *context);

/* A counter with a name (bytes other than NUL, 1 to WEIR_NAME_MAX of them; copied), and the task that waits for it.  It is found by
 * its name from now on, before it is started as well, until it has come to its target, was cancelled, or the task is gone.  Any
 * number may share a name.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a name that is none the task's start, run or push reports
 *          -EINVAL, for one that is too long -ENAMETOOLONG.  The task's status: as above.
 * Threads: any. */
WEIR_API weir_task *weir_counter_new_named(const char *name, uint64_t target, weir_task_fn *done, void *context);

/* Counts n, spread over the counters of that name: the one made first gets what it needs, then the next, until n is used up.
 *
 * Result:  how much was counted; 0 for a name that nothing has.
 * Threads: any.  Never blocks. */
WEIR_API uint64_t weir_counter_count_named(const char *name, uint64_t n);

WEIR_END

#endif
