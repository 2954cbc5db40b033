/* hosted.pml: a fiber that begins in the callback of its host, before it has a series
 * (docs/decisions/545-a-fiber-begins-in-the-callback-of-its-host.md; factory/fiber/fiber.c, factory/task/series.c).
 *
 *   Worker    two of them: one runs the callback of the host, in it the first stretch, and behind it the series of the host, which is
 *             made by then; both run what is delivered: the callback of what the fiber awaits, and the walk that hands a cause down
 *   Fulfil    ends what is awaited by itself, at any time
 *   Cancel    ends the series of the host, at any time once that is there
 *
 * The function has two awaits, or none.  Before the first one it may ask for its series, and so be within that of the host already.
 * The rest of the life of a fiber is in fiber.pml.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define AWAITS 2

#define NONE      0 /* causes, and how an await ended */
#define CANCELLED 1

#define NOBODY 0 /* the current one of the outer series */
#define HOST   1
#define FIBER  2

#define GONE    0 /* the word of what is awaited */
#define NEW     1
#define MARKED  2 /* cancelled before its start */
#define PENDING 3
#define READY   4
#define RUNNING 5

/* The series of the host. */
bool outer_made, outer_locked, queued; /* queued: the fiber is */
byte outer_cause, outer_current = HOST;
byte descents;

/* The inner series. */
bool locked, within;
byte cause;
bool current;            /* what is awaited is */
byte word, status;

/* The fiber. */
bool ready, ending_ready; /* delivered: what is awaited, the walk */
bool ending, over;
byte at;

/* For judging only. */
bool in_callback = true; /* of the host */
bool on_stack, left, must, cancelled, ended;
byte completed;

inline lock() { atomic { !locked -> locked = true } }
inline lock_outer() { atomic { !outer_locked -> outer_locked = true } }

inline deliver()
{
        d_step { assert(word == READY && !ready); ready = true }
}

/* In `seen`: the effective cause of the inner series. */
inline look()
{
        d_step { was_descending = descents > 0 };
        d_step { seen = (cause == NONE && was_descending && within -> outer_cause : cause); was_descending = false }
}

inline enter()
{
        lock();
        d_step {
                within = true;
                if
                :: outer_cause != NONE && cause == NONE -> cause = outer_cause
                :: else
                fi
        };
        locked = false
}

inline begin_task()
{
        lock();
        d_step { word = NEW; status = NONE; current = true };
        look();
        d_step {
                if
                :: seen != NONE -> word = MARKED
                :: else
                fi;
                seen = NONE
        };
        locked = false;
        if
        :: d_step { word == NEW -> word = PENDING }
        :: d_step { word == MARKED -> word = READY; status = CANCELLED };
           deliver()
        fi
}

inline judge()
{
        d_step { assert(!must || seen == CANCELLED); must = false; seen = NONE }
}

/* Until the function leaves its stack, or has returned. */
inline run_function()
{
        do
        :: at < AWAITS && !left ->
                d_step { at++; must = cancelled };
                look();
                if
                :: seen != NONE -> judge()
                :: else -> left = true
                fi
        :: at == AWAITS && !left -> break
        :: left -> break
        od
}

inline complete()
{
        d_step { completed++; assert(completed == 1) };
        d_step { !outer_locked -> outer_current = NOBODY };
        ended = true
}

inline end()
{
        d_step { over = true; completes = !ending };
        if
        :: completes -> completes = false; complete()
        :: else
        fi
}

/* The callback of what was awaited, and what the fiber wants then. */
inline go_on()
{
        d_step { assert(!on_stack && !in_callback && left && word == RUNNING); on_stack = true; left = false; seen = status };
        judge();
        run_function();
        on_stack = false;
        d_step { !locked -> current = false; word = GONE };
        if
        :: left -> begin_task()
        :: else -> end()
        fi
}

inline hand_down()
{
        lock();
        d_step {
                if
                :: cause == NONE -> cause = CANCELLED
                :: else
                fi;
                if
                :: current && word == NEW -> word = MARKED
                :: current && word == PENDING -> word = READY; status = CANCELLED; taken = true
                :: else
                fi
        };
        locked = false;
        if
        :: taken -> taken = false; deliver()
        :: else
        fi;
        descents--;
        d_step { ending = false; completes = over };
        if
        :: completes -> completes = false; complete()
        :: else
        fi
}

/* The callback, and what follows in the series of the host. */
inline run_host()
{
        on_stack = true;
        if
        :: completed++; ended = true /* it never waits: it is freed, and nobody has known it */
        :: outer_made = true; /* it asks for its series, or is about to wait */
           enter();
           run_function();
           queued = true
        fi;
        on_stack = false;
#ifdef MUTANT_STARTED_IN_THE_CALLBACK
        if
        :: left -> begin_task()
        :: else
        fi;
#endif
        in_callback = false;
        d_step { !outer_locked -> outer_current = NOBODY };
        if
        :: queued ->
                lock_outer();
                d_step {
                        queued = false;
                        found = outer_cause;
                        if
                        :: found == NONE -> outer_current = FIBER
                        :: else
                        fi
                };
                outer_locked = false;
                if
#ifdef MUTANT_DROPPED_BY_A_CANCEL
                :: found != NONE -> found = NONE
                :: else ->
#else
                :: true ->
#endif
                        found = NONE;
#ifndef MUTANT_ENTERED_ONCE
                        enter();
#endif
#ifndef MUTANT_STARTED_IN_THE_CALLBACK
                        if
                        :: left -> begin_task()
                        :: else -> end() /* its awaits were refused in the callback */
                        fi
#endif
                fi
        :: else
        fi
}

proctype Worker(bool has_host)
{
        byte seen, found;
        bool was_descending, completes, taken;

        if
        :: has_host -> run_host()
        :: else
        fi;
        do
        :: atomic { ready -> ready = false; assert(word == READY); word = RUNNING };
           go_on()
        :: atomic { ending_ready -> ending_ready = false };
           hand_down()
        :: ended && !ending_ready && !ending -> break
        od
}

proctype Fulfil()
{
        do
        :: d_step { word == PENDING -> word = READY; status = NONE };
           deliver()
        :: ended -> break
        od
}

proctype Cancel()
{
        bool walks;

        if
        :: outer_made
        :: ended -> goto out
        fi;
        lock_outer();
        d_step {
                if
                :: outer_cause == NONE -> outer_cause = CANCELLED
                :: else
                fi
        };
        if
        :: outer_current == FIBER && !ending ->
                descents++;
                d_step { walks = !over; ending = walks };
                if
                :: walks -> ending_ready = true
                :: else -> descents--
                fi
        :: else
        fi;
        outer_locked = false;
        cancelled = true;
out:
        skip
}

init
{
        atomic { run Worker(true); run Worker(false); run Fulfil(); run Cancel() };
        ended;
        assert(completed == 1)
}
