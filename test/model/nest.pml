/* nest.pml: how an early end goes down through what a series runs (docs/design.md, "Series and flows";
 * factory/task/series_end_early.c, factory/flow/combinator.c, factory/graph/graph.c).
 *
 *   Cancel    ends the outermost series, at any time
 *   Worker    two of them: walk over children, launch them, run callbacks, end them
 *   Observer  sees the cause of the outermost series, at any time
 *
 * Series 0 runs the task X.  Its child is series 1, which runs the task Y.  The children of Y are the series 2 and 3, one after the
 * other: each is made when nothing is pending any more.  A callback looks whether its series, or one around it, has a cause.  It
 * looks at those around only while a descent is on its way.  When the cancel has returned, or its cause was seen, each look that
 * begins must find it.
 *
 * The walk that starts the child of X may come before or behind the walk that ends it early.  Locks of series are taken before
 * those of tasks, and both within one step where nothing else happens under them.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define SERIES 4

bool cause[SERIES];
bool launched[SERIES];
bool over[SERIES];
bool locked[SERIES];
byte descents;

/* The tasks: X is 0, Y is 1.  Guarded by the lock of the task. */
byte child[2] = 9;      /* the one in the list that has not ended; 9: none */
bool is_ending[2];
bool walk[2];           /* on its way */
bool starts;            /* the walk that launches series 1 is on its way */
bool goes_on;           /* nothing of Y is pending: its next child is to be made */
byte next_child = 2;
bool is_y_over;
bool busy;              /* a callback runs, or ends: one thread does that */

/* For judging only. */
bool is_certain;        /* the cancel has returned, or its cause was seen */

#define parent(series) (series == 1 -> 0 : 1)

/* The look of a callback, step by step. */
inline look(series, found)
{
        above = series;
#ifdef MUTANT_CAUSE_READ_FIRST
        found = cause[series];
        may_be_above = (descents > 0);
#else
        may_be_above = (descents > 0);
        found = cause[series];
#endif
        do
        :: may_be_above && !found && above != 0 ->
                above = parent(above);
                found = cause[above]
        :: else -> break
        od
}

/* Under the lock of the series that runs the task.  One step: the lock of the task. */
inline end_task_early(task)
{
        d_step {
                if
                :: child[task] != 9 && !is_ending[task] ->
                        is_ending[task] = true;
#ifndef MUTANT_WALK_UNCOUNTED
                        descents++;
#endif
                        walk[task] = true
                :: else
                fi
        }
}

/* Under the lock of the series, which nobody else wants: it changes by this alone, and by its launch. */
inline end_early(series, task)
{
#ifdef MUTANT_DESCENT_AFTER_CAUSE
        cause[series] = true;
        descents++;
#else
        descents++;
        cause[series] = true;
#endif
        end_task_early(task);
        descents--
}

proctype Cancel()
{
        end_early(0, 0);
        is_certain = true
}

proctype Observer()
{
        if
        :: cause[0] -> is_certain = true
        :: true
        fi
}

inline lock(series) { atomic { !locked[series] -> locked[series] = true } }

/* Of series 1, within the outermost one. */
inline launch_first()
{
        lock(1);
        cause[1] = cause[1] || cause[0];
        launched[1] = true;
        locked[1] = false
}

inline launch(series)
{
        lock(series);
#ifndef MUTANT_LAUNCHED_UNLOOKED
        look(1, inherited);
        cause[series] = cause[series] || inherited;
#endif
        launched[series] = true;
        locked[series] = false
}

inline end_first_early()
{
        lock(1);
        if
        :: !over[1] && !cause[1] && launched[1] -> end_early(1, 1)
        :: !over[1] && !cause[1] && !launched[1] -> cause[1] = true
        :: else
        fi;
        locked[1] = false
}

inline end_child_early(series)
{
        lock(series);
        cause[series] = cause[series] || !over[series];
        locked[series] = false
}

proctype Worker()
{
        bool may_be_above, found, inherited, was_certain;
        byte above, taken, made;

        do
        /* The walk that launches the child of X. */
        :: d_step { starts -> starts = false };
           launch_first();
           goes_on = true

        /* The walks that end children early. */
        :: d_step { walk[0] -> walk[0] = false };
#ifdef MUTANT_OVER_BEFORE_MARKED
           descents--;
#endif
           end_first_early();
#if !defined(MUTANT_OVER_BEFORE_MARKED) && !defined(MUTANT_WALK_UNCOUNTED)
           descents--
#else
           skip
#endif
        :: d_step { walk[1] -> walk[1] = false; taken = child[1] };
           if
           :: taken != 9 -> end_child_early(taken)
           :: else
           fi;
           taken = 0;
#ifndef MUTANT_WALK_UNCOUNTED
           descents--
#else
           skip
#endif

        /* Y makes its next child, unless series 1 has a cause. */
        :: d_step { goes_on -> goes_on = false };
           look(1, found);
           if
           :: found || next_child == SERIES -> is_y_over = true
           :: else ->
                made = next_child;
#ifndef MUTANT_LISTED_LATE
                child[1] = made;
#endif
                launch(made);
#ifdef MUTANT_LISTED_LATE
                child[1] = made
#endif
           fi;
           d_step { found = false; made = 0; inherited = false; above = 0; may_be_above = false }

        /* A callback of a series below, and its end. */
        :: d_step {
                child[1] != 9 && launched[child[1]] && !busy ->
                busy = true;
                taken = child[1];
                was_certain = is_certain
           };
           look(taken, found);
           assert(!was_certain || found);
           d_step {
                over[taken] = true;
                child[1] = 9;
                next_child++;
                busy = false;
                goes_on = true;
                taken = 0; found = false; was_certain = false; above = 0; may_be_above = false
           }

        /* A callback of series 1 itself. */
        :: d_step {
                !over[1] && is_y_over && !busy ->
                busy = true;
                was_certain = is_certain
           };
           look(1, found);
           assert(!was_certain || found);
           d_step {
                over[1] = true;
                child[0] = 9;
                busy = false;
                found = false; was_certain = false; above = 0; may_be_above = false
           }

        :: d_step { over[1] && !walk[0] && !walk[1] && !goes_on && !starts -> skip } -> break
        od
}

init
{
        atomic {
                child[0] = 1;
                child[1] = 9;
                starts = true;
                run Cancel();
                run Observer();
                run Worker();
                run Worker()
        };
        _nr_pr == 1;
        assert(descents == 0)
}
