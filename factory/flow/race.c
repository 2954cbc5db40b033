/* factory/flow/race.c: a task that runs several series at once, of which the first to succeed ends the others.
 *
 * The children are within a series that belongs to the race (`within`, factory/flow/combinator.h).  When one child has won, it
 * gets a cause, and from that instant on all other children, and all that is inside them, are cancelled.  Then the walk of the
 * combinator ends what they have pending. */
#include <weir/race.h>

#include <errno.h>

#include "factory/flow/combinator.h"

struct race {
        struct weir__combinator combinator; /* first */
        struct weir_series within;

        int winner; /* the index of a child; -ENOENT: none yet.  Guarded by the combinator's lock */
};

static bool
child_ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        struct race *race = (struct race *)combinator;

        if (race->winner >= 0)
                return false;
        if (result == 0) {
                race->winner = (int)child->index;
                combinator->task.status = 0;
                return true;
        }
        weir__combinator_note_failure(combinator, child, result);
        return false;
}

static void
start(struct weir_task *task)
{
        if (((struct race *)task)->combinator.added == 0)
                task->status = -ENOENT;
        weir__combinator_start(task);
}

static const struct weir__combinator_ops race_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a race", weir__task_complete, start),
        .ended = child_ended,
};

weir_task *
weir_race_new(weir_task_fn *done, void *context)
{
        struct race *race = weir__combinator_new(&race_ops, sizeof *race, done, context);

        if (!race)
                return NULL;
        weir__series_around_init(&race->within);
        race->combinator.within = &race->within;
        race->winner = -ENOENT;
        return &race->combinator.task;
}

void
weir_race_add(weir_task *race, weir_task *task)
{
        weir__combinator_add_task(race, &race_ops, task, WEIR__ACT_RACE_ADD);
}

void
weir_race_add_series(weir_task *race, weir_series *series)
{
        if (race && series)
                series->result_of = WEIR__RESULT_LAST;
        weir__combinator_add_series(race, &race_ops, series, WEIR__ACT_RACE_ADD_SERIES);
}

int
weir_race_winner(const weir_task *race)
{
        weir__memory_expect(race);
        if (!race)
                return -EINVAL;
        return weir__task_ops(race) == &race_ops.task ? ((const struct race *)race)->winner : -EDOM;
}
