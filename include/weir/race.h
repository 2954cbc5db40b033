/* weir/race.h: a task that runs several series at once, of which the first to succeed ends the others. */
#ifndef WEIR_RACE_H
#define WEIR_RACE_H

#include <weir/series.h>

WEIR_BEGIN

/* A race without children.  They run at once.  The first that ends with 0 wins; from then on the others are cancelled: what is
 * pending in them ends with -ECANCELED, so do callbacks that have not begun, and what was not started is dropped.  The callback
 * runs once all have ended and were freed, so that a loser never outlives the race.
 *
 * Several may succeed before the first of them is seen to: one wins, and the status that callbacks of the others saw stays.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  The task's status: 0 if a child won, else the first non-zero
 *          one in order of adding; -ENOENT when it has no children; why its series ends early, also when a child had won
 *          already.  After a child has won, shutdown changes nothing.
 * Threads: any. */
WEIR_API weir_task *weir_race_new(weir_task_fn *done, void *context);

/* Adds a child: a task, or a series, that was not started.  A task has succeeded when its status is 0; a series when nothing
 * has ended it early and the status of its last task is 0.  NULL, or one that was made wrongly, poisons the race: its start,
 * run or push reports that.
 *
 * Owner:   consumes the child.
 * Threads: where the race is yours: before it is started.  Later, or on a task of another kind, it aborts with the reason. */
WEIR_API void weir_race_add(weir_task *race, weir_task *task);
WEIR_API void weir_race_add_series(weir_task *race, weir_series *series);

/* Which child won: 0 for the one added first, and so on.
 *
 * Result:  as said; -ENOENT when none has, -EINVAL for NULL, -EDOM for what is no race.
 * Threads: where the race is yours, and inside its callback. */
WEIR_API int weir_race_winner(const weir_task *race);

WEIR_END

#endif
