/* fiber.pml: a fiber: its stretches, what it awaits, early ends, limits, its end (docs/decisions/540-fibers.md,
 * docs/decisions/543-limits-and-shields.md; factory/fiber/fiber.c, factory/fiber/await.c, factory/fiber/limit.c;
 * factory/task/series_end_early.c).
 *
 *   Worker    two of them: run the callbacks of what the fiber awaits, and in them its stretches; start what it wants next; run
 *             the walk that hands down a cause; end the fiber
 *   Fulfil    claims what is pending, or armed, as an object at which a task waits, at any time
 *   Limit     one for each of two awaits: comes at any time once it was set, also when its await is over
 *   Cancel    ends the series in which the fiber is, at any time, also before its start
 *   Direct    ends the inner series, by a reference, at any time
 *
 * The function has two awaits, and decides at each what it awaits: a task with a limit, a wait at a channel in its own block, or
 * a yield.  A second wait behind a first one may be armed on the stack.  An await that finds a cause does not leave the stack.
 * The inner series is the only scope: shield.pml has the other kind.  What a cancel does under the lock of the outer series, and
 * below it, is done in the steps of the code.  The lock of an object is held within one step.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define AWAITS 2

#define NONE      0 /* causes, and how an await ended */
#define CANCELLED 1
#define OF_AWAIT  2 /* what a limit gives, and the fiber takes back */

#define NOTHING 0 /* of `current`, and what is awaited */
#define OWN     1 /* the task in the block of the fiber */
#define TASK    2 /* one of the program */

#define PLAIN 0 /* what the memory of the own task serves for: to begin and to yield, which nothing ends early */
#define WAIT  1

#define NEW     0 /* a word */
#define MARKED  1 /* cancelled before its start */
#define PENDING 2
#define READY   3
#define RUNNING 4
#define GONE    5

#define WISH_YIELD 0
#define WISH_WAIT  1
#define WISH_TASK  2
#define WISH_END   3

/* The series around the fiber. */
bool outer_locked;
byte outer_cause;
bool outer_current;      /* the fiber is its current task */
byte descents;

/* The inner series. */
bool locked;
byte cause;
byte current;
bool fed = true, within; /* within: the outer one is its parent */
byte limit;              /* the Limit that is valid; 0: none */
byte references = 2;     /* until it has ended, and until the task is freed */

/* The fiber. */
byte own;                /* what its memory serves for */
byte word[3];
byte status[3];
bool ready[3];           /* delivered */
bool ending, over;       /* the flags */
bool ending_ready;       /* the walk is delivered */
byte wish;               /* its own on the stack, then the worker's */
byte at;                 /* how many awaits have begun */
bool armed[AWAITS + 1];  /* the limits */
bool is_armed;           /* its wait is linked, and not parked */
bool is_linked;          /* guarded by the lock of the object */
bool has_limits;         /* constant */

/* For judging only. */
bool on_stack;
bool left;               /* an await has left the stack, and has not returned */
bool must;               /* it began behind a cancel */
bool cancelled;          /* a cancel has returned */
bool stopped;            /* the inner series has its cause, and nothing is pending any more */
byte completed;
bool task_freed;

#define touch() assert(references > 0)

inline lock() { atomic { !locked -> locked = true }; touch() }

inline unlock() { d_step { touch(); locked = false } }

inline lock_outer() { atomic { !outer_locked -> outer_locked = true } }

inline unref()
{
        d_step {
                touch();
                references--;
                if
                :: references == 0 -> assert(!locked && !ending_ready && !ready[OWN] && !on_stack && !fed)
                :: else
                fi
        }
}

inline deliver(task)
{
        d_step {
                touch();
                assert(word[task] == READY && !ready[task]);
                ready[task] = true
        }
}

/* -- causes -- */

/* In `seen`: the effective cause of the inner series. */
inline look()
{
        d_step { touch(); descends = descents > 0 };
        d_step {
                touch();
                seen = (cause == NONE && descends && within -> outer_cause : cause);
                descends = false
        }
}

/* Ends `taken` early, the current one as it was read.  Under the lock. */
inline end_current(why)
{
        taken = current;
        d_step {
                assert(taken != OWN || own == WAIT);
                if
                :: taken != NOTHING && word[taken] == NEW -> word[taken] = MARKED; taken = NOTHING
                :: taken != NOTHING && word[taken] == PENDING -> word[taken] = READY; status[taken] = why
                :: else -> assert(taken == NOTHING || word[taken] != GONE); taken = NOTHING
                fi
        }
}

inline deliver_taken()
{
        if
        :: taken != NOTHING -> deliver(taken); taken = NOTHING
        :: else
        fi
}

/* Of the inner series, as the walk or Direct does it. */
inline end_early()
{
        lock();
        if
#ifdef MUTANT_CANCEL_MEETS_LIMIT
        :: fed && cause == NONE ->
#else
        :: fed && (cause == NONE || cause == OF_AWAIT) ->
#endif
#ifdef MUTANT_ROOM_BEFORE_CAUSE
                cause = NONE;
#endif
                cause = CANCELLED;
                end_current(CANCELLED);
                stopped = true
        :: else
        fi;
        unlock();
        deliver_taken()
}

/* -- starts; on the worker's stack -- */

/* Behind the choice of the current one: a task that is NEW waits, or was cancelled, or finds what it wants. */
inline start(task)
{
        if
        :: d_step { word[task] == NEW -> word[task] = PENDING }
        :: d_step { word[task] == NEW -> word[task] = READY; status[task] = NONE };
           deliver(task)
        :: word[task] == MARKED ->
                look();
                assert(seen != NONE);
                d_step { word[task] = READY; status[task] = seen; seen = NONE };
                deliver(task)
        fi
}

inline mark_if_ended(task)
{
        if
        :: seen != NONE && word[task] == NEW -> word[task] = MARKED
        :: else
        fi;
        seen = NONE
}

/* The second half of a wait that was armed on the stack. */
inline park()
{
        is_armed = false;
        lock();
        current = OWN;
#ifndef MUTANT_PARKED_UNLOOKED
        look();
#endif
        mark_if_ended(OWN);
        unlock();
        if
        :: d_step { word[OWN] == NEW -> word[OWN] = PENDING }
        :: word[OWN] == READY ->
#ifndef MUTANT_ARMED_DELIVERED
                deliver(OWN)
#else
                skip
#endif
        :: word[OWN] == MARKED ->
                look();
                assert(seen != NONE);
                d_step { word[OWN] = READY; status[OWN] = seen; seen = NONE; is_linked = false };
                deliver(OWN)
        fi
}

inline begin_task(task)
{
#ifdef MUTANT_CAUSE_LOOKED_FOR_FIRST
        look();
#endif
        lock();
        d_step {
                if
                :: task == OWN -> own = WAIT
                :: else
                fi;
                word[task] = NEW;
                status[task] = NONE;
                current = task
        };
#ifndef MUTANT_CAUSE_LOOKED_FOR_FIRST
        look();
#endif
        mark_if_ended(task);
        unlock();
        start(task)
}

inline clear_own()
{
        if
#ifndef MUTANT_OWN_LEFT_CURRENT
        :: current == OWN ->
#ifdef MUTANT_CLEARED_UNLOCKED
                current = NOTHING
#else
                d_step { !locked -> current = NOTHING }
#endif
#endif
        :: else
        fi
}

inline deliver_own()
{
        if
        :: own != PLAIN -> clear_own(); own = PLAIN
        :: else
        fi;
        d_step { word[OWN] = READY; status[OWN] = NONE };
        deliver(OWN)
}

inline feed()
{
        if
        :: wish == WISH_YIELD -> deliver_own()
        :: wish == WISH_WAIT && !is_armed -> begin_task(OWN)
        :: wish == WISH_WAIT && is_armed -> park()
        :: wish == WISH_TASK -> begin_task(TASK)
        :: wish == WISH_END ->
                d_step {
                        !locked ->
                        assert(!left);
                        fed = false;
                        within = false;
                        current = NOTHING;
                        ends = true
                }
        fi
}

/* -- the fiber, on its stack -- */

inline begin_limit()
{
        d_step { !locked -> touch(); limit = at; references++ };
        armed[at] = true
}

inline end_limit()
{
#ifdef MUTANT_TAKEN_BACK_UNLOCKED
        limit = NONE;
        if
        :: cause == OF_AWAIT -> cause = NONE
        :: else
        fi;
#else
        d_step {
                !locked ->
                touch();
                limit = NONE;
                if
#ifdef MUTANT_LIMIT_STAYS
#elif defined(MUTANT_CANCEL_TAKEN_BACK)
                :: true -> cause = NONE
#else
                :: cause == OF_AWAIT -> cause = NONE
#endif
                :: else
                fi
        };
#endif
        d_step {
                if
                :: armed[at] -> armed[at] = false; references--
                :: else
                fi
        }
}

/* The present await is over, with `seen`. */
inline judge()
{
        d_step {
                assert(!must || seen == CANCELLED);
                assert(wish == WISH_TASK || seen != OF_AWAIT);
                must = false;
                seen = NONE
        }
}

/* What the callee returns in the next stretch. */
inline return_from_await()
{
        d_step {
                assert(left && word[awaited] == RUNNING);
                left = false;
                seen = status[awaited]
        };
        if
        :: wish == WISH_TASK -> end_limit()
        :: wish == WISH_YIELD -> look()
        :: else
        fi;
        judge()
}

/* Until the fiber wants something for which it must leave.  `seen`: why the present await is over at once. */
inline run_function()
{
        do
        :: at < AWAITS && !left ->
                d_step { at++; must = cancelled };
                if
                :: wish = WISH_YIELD; left = true
                :: wish = WISH_WAIT; look(); left = (seen == NONE);
                        if
                        :: left && current == OWN && own == WAIT ->
                                d_step { word[OWN] = NEW; status[OWN] = NONE; is_linked = true; is_armed = true }
                        :: else
                        fi
                :: has_limits -> wish = WISH_TASK; begin_limit(); look(); left = (seen == NONE)
                fi;
                if
                :: left
                :: else ->
                        if
                        :: wish == WISH_TASK -> end_limit()
                        :: else
                        fi;
                        judge()
                fi
        :: at == AWAITS && !left -> wish = WISH_END; break
        :: left -> break
        od
}

inline stretch()
{
        d_step { touch(); assert(!on_stack); on_stack = true };
        if
        :: at > 0 -> return_from_await()
        :: at == 0 -> /* it begins */
                look();
                if
                :: seen != NONE -> wish = WISH_END; seen = NONE
                :: else
                fi
        fi;
        if
        :: wish != WISH_END -> run_function()
        :: else
        fi;
#ifdef MUTANT_STARTED_ON_THE_STACK
        feed();
#endif
        on_stack = false
}

/* -- the end -- */

/* The callback, and what is behind it. */
inline complete()
{
        d_step { touch(); assert(!task_freed); completed++; assert(completed == 1) };
        d_step { !outer_locked -> outer_current = false };
        task_freed = true;
        unref()
}

inline inner_ended()
{
        d_step {
                touch();
                over = true;
                completes = !ending
        };
#ifdef MUTANT_OVER_UNLOOKED
        completes = true;
#endif
        if
        :: completes -> completes = false; complete()
        :: else
        fi;
        unref()
}

inline hand_down()
{
        touch();
#ifdef MUTANT_DESCENT_ENDS_FIRST
        descents--;
#endif
        end_early();
#if !defined(MUTANT_DESCENT_ENDS_FIRST) && !defined(MUTANT_WALK_UNCOUNTED)
        descents--;
#endif
        d_step {
                touch();
                ending = false;
                completes = over
        };
#ifdef MUTANT_WALK_COMPLETES_NOTHING
        completes = false;
#endif
        if
        :: completes -> completes = false; complete()
        :: else
        fi
}

proctype Worker()
{
        byte awaited, seen, taken;
        bool descends, ends, completes;

        do
        :: d_step {
                ready[OWN] || ready[TASK] ->
                awaited = (ready[OWN] -> OWN : TASK);
                ready[awaited] = false;
                assert(word[awaited] == READY);
                word[awaited] = RUNNING
           };
           stretch();
           if
           :: awaited == TASK -> /* the series leaves it, and it is freed */
#ifndef MUTANT_STARTED_ON_THE_STACK
                d_step { !locked -> touch(); current = NOTHING };
                word[TASK] = GONE
#endif
           :: else
           fi;
           awaited = NOTHING;
#ifndef MUTANT_STARTED_ON_THE_STACK
           feed()
#endif
        :: d_step { ending_ready -> ending_ready = false };
           hand_down()
        :: ends -> ends = false; inner_ended()
        :: completed && !ends && !ending_ready -> break
        od
}

/* -- other threads -- */

proctype Fulfil()
{
        byte task;

        do
        :: d_step { word[OWN] == PENDING && own == WAIT -> task = OWN; word[OWN] = READY; status[OWN] = NONE; is_linked = false; assert(!stopped) };
           deliver(task)
        :: d_step { word[OWN] == NEW && is_linked -> word[OWN] = READY; is_linked = false }
#ifdef MUTANT_ARMED_DELIVERED
                ; deliver(OWN)
#endif
        :: d_step { word[TASK] == PENDING -> task = TASK; word[TASK] = READY; status[TASK] = NONE; assert(!stopped) };
           deliver(task)
        :: completed -> break
        od
}

proctype Limit(byte number)
{
        byte taken, seen;
        bool descends;

        if
        :: d_step { armed[number] -> armed[number] = false };
           lock();
#ifdef MUTANT_LATE_LIMIT
           if
           :: fed ->
#else
           if
           :: fed && limit == number ->
#endif
                limit = NONE;
#ifndef MUTANT_LIMIT_UNLOOKED
                look();
#endif
                if
                :: seen == NONE && cause == NONE ->
                        cause = OF_AWAIT;
                        end_current(OF_AWAIT)
                :: else
                fi;
                seen = NONE
           :: else
           fi;
           unlock();
           deliver_taken();
           unref()
        :: completed
        fi
}

/* Of the fiber, as the current task of the outer series, whose lock is held. */
inline end_fiber_early()
{
        touch();
        if
        :: ending || over
        :: else ->
#ifndef MUTANT_WALK_UNCOUNTED
                descents++;
#endif
                d_step {
                        touch();
                        ending = true;
                        sends = !over
                };
#ifdef MUTANT_ENDING_UNLOOKED
                sends = true;
#endif
                if
                :: sends -> d_step { assert(!ending_ready); ending_ready = true; sends = false }
                :: else -> descents--
                fi
        fi
}

proctype Cancel()
{
        bool sends;

        lock_outer();
        if
        :: outer_current || !completed ->
                descents++;
                outer_cause = CANCELLED;
                if
                :: outer_current -> end_fiber_early()
                :: else
                fi;
                descents--;
                cancelled = true
        :: else
        fi;
        outer_locked = false
}

proctype Direct()
{
        byte taken;

        end_early();
        cancelled = true;
        unref()
}

init
{
        byte seen;
        bool descends;

        atomic {
                word[TASK] = GONE;
                run Worker();
                run Worker();
                run Fulfil();
                if /* not all at a time, so that the states can be counted */
                :: has_limits = true; run Cancel()
                :: has_limits = true; run Direct(); references = 3
                :: has_limits = false; run Cancel(); run Direct(); references = 3
                fi;
                if
                :: has_limits -> run Limit(1); run Limit(2)
                :: else
                fi
        };
        d_step { !outer_locked -> outer_current = (outer_cause == NONE) };
        if
        :: outer_current
        :: else -> /* it is not started */
                d_step { completed = 1; fed = false; references = references - 2 };
                goto out
        fi;
        lock();
        within = true;
        d_step {
                seen = (descents > 0 -> outer_cause : NONE);
                if
                :: seen != NONE && cause == NONE -> cause = seen
                :: else
                fi;
                seen = NONE
        };
        unlock();
        d_step { word[OWN] = READY; ready[OWN] = true };
out:
        _nr_pr == 1;
        assert(references == 0 && completed == 1 && !left);
        assert(descents == 0 && limit == NONE)
}
