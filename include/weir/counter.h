/* weir/counter.h: tasks wait until a count reaches its target.
 *
 * A counter is used once.  When its count has reached the target, all tasks that wait for it go on.
 * A task that comes later does not wait.
 *
 * With a name, one call makes the counter and the task that waits for it.  The counting side needs
 * to know the name only. */
#ifndef WEIR_COUNTER_H
#define WEIR_COUNTER_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A counter.  It lives as long as anybody has a reference. */
typedef struct weir_counter weir_counter;

/* Makes a counter with that target.  With a target of 0 there is nothing to wait for.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a counter accepts NULL.
 * Threads: any. */
WEIR_API weir_counter *weir_counter_new(uint64_t target);

/* Takes and drops a reference.  A counter lives as long as it has one; tasks that are to wait for
 * it have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_counter *weir_counter_ref(weir_counter *counter);
WEIR_API void weir_counter_unref(weir_counter *counter);

/* Adds n to the count.  At the target the waiting tasks go on, in the order in which they came.  A
 * part of n beyond the target is ignored.  Everything before the call happens before the
 * callbacks of those tasks.
 *
 * Result:  how much was counted: less than n if the target needed less; 0 for NULL, and in a forked
 *          child.
 * Threads: any.  Never blocks. */
WEIR_API uint64_t weir_counter_count(weir_counter *counter, uint64_t n);

/* How much is left until the target.  The number is out of date at once while others count.
 *
 * Result:  0 for NULL, and in a forked child.
 * Threads: any. */
WEIR_API uint64_t weir_counter_left(weir_counter *counter);

/* Makes a task that ends when the counter has reached its target.  Several tasks may wait for one
 * counter.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL counter the task's
 *          start, run or push reports -ENOMEM.  The task's status: 0; -ECANCELED, -ETIMEDOUT or
 *          -ESHUTDOWN if its series ended before the target.  Once the target is reached it is 0,
 *          even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_counter_wait_new(weir_counter *counter, weir_task_fn *done, void *context);

/* Makes a counter with a name, and the task that waits for it.  A name has 1 to WEIR_NAME_MAX
 * bytes, none of them NUL, and is copied.  The counter can be found by its name from now on, also
 * before the task is started, until it has reached its target, was cancelled, or the task is gone.
 * Any number may share a name.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For an invalid name the task's
 *          start, run or push reports -EINVAL, for one that is too long -ENAMETOOLONG.  The task's
 *          status: as for weir_counter_wait_new.
 * Threads: any. */
WEIR_API weir_task *weir_counter_new_named(const char *name, uint64_t target, weir_task_fn *done, void *context);

/* Counts n, spread over the counters of that name: the oldest one gets what it needs, then the next
 * one, until n is used up.
 *
 * Result:  how much was counted; 0 for an unknown name.
 * Threads: any.  Never blocks. */
WEIR_API uint64_t weir_counter_count_named(const char *name, uint64_t n);

WEIR_END

#endif
