/* weir/race.h: a task that runs several series at once; the first success ends the others. */
#ifndef WEIR_RACE_H
#define WEIR_RACE_H

#include <weir/series.h>

WEIR_BEGIN

/* Makes a race without children.  The children run at once.  The first one that ends with 0 wins.
 * From then on the others are cancelled: what is pending in them ends with -ECANCELED, and so do
 * callbacks that have not begun; tasks that were not started are dropped.  The callback of the race
 * runs once all children have ended and were freed, so no loser outlives the race.
 *
 * Several children may succeed before the first success is seen.  Then one of them wins, and the
 * callbacks of the others keep the status that they saw.
 *
 * Owner:   the caller, until the race is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0 if a child
 *          won; otherwise the first non-zero status in the order of adding; -ENOENT without
 *          children; or why its series ends early, even if a child had already won.  After a child
 *          has won, a shutdown changes nothing.
 * Threads: any. */
WEIR_API weir_task *weir_race_new(weir_task_fn *done, void *context);

/* Adds a child: a task or a series that was not started.  A task succeeds if its status is 0.  A
 * series succeeds if nothing ended it early and the status of its last task is 0.  NULL, or a child
 * that was made wrongly, poisons the race: its start, run or push reports the error.
 *
 * Owner:   consumes the child.
 * Threads: where the race is yours, before its start.  Later, or on another kind of task, it aborts
 *          with the reason. */
WEIR_API void weir_race_add(weir_task *race, weir_task *task);
WEIR_API void weir_race_add_series(weir_task *race, weir_series *series);

/* Which child won: 0 for the one that was added first, and so on.
 *
 * Result:  the number; -ENOENT when none has won; -EINVAL for NULL; -EDOM for a task that is no
 *          race.
 * Threads: where the race is yours, and inside its callback. */
WEIR_API int weir_race_winner(const weir_task *race);

WEIR_END

#endif
