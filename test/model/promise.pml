/* promise.pml: a task that the program ends (docs/design.md, "Waiting tasks"; factory/channel/promise.c).
 *
 *   Owner      starts the task, or drops it
 *   End        two of them, on threads of their own, each with a reference that it gives up afterwards, or with its last end;
 *              one may end it a second time, both may never end it
 *   Cancel     of the series of the task, at any time, also before the start; it may not come
 *   Shutdown   at any time: ends the task if it waits
 *   Worker     calls the cancel function or not, calls back, gives up the reference of the task
 *
 * A cancel has the lock of the series, which keeps the task from being over: it is one step here, except for the delivery.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define NEW       0 /* the word of the task */
#define CANCELLED 1 /* before its start */
#define PENDING   2
#define READY     3
#define RUNNING   4

#define NONE        0 /* a status */
#define ENDED_EARLY 3 /* 1 and 2: those of the ends */

bool locked;
byte word;
byte status;            /* of the owner of the delivery */
bool ready;             /* delivered */
bool stopping;
bool is_over;           /* the series has left it: no cancel meets it */

/* Guarded by the lock until it is READY, then its worker's. */
bool linked;
bool is_decided;
bool is_given;          /* the task has the reference of the end that has decided */
byte outcome;

byte references = 3;

/* For judging only. */
byte decided;           /* the end that was told so */
bool cancels, calls, drops, ends_early;
bool discarded;         /* the value that an end has left is dropped */

#define touch() assert(references > 0)

/* The lock is that of a part, and outlives the promise. */
inline lock() { atomic { !locked -> locked = true } }
inline unlock() { d_step { locked = false } }

/* Who has all of them frees it by a look and a write. */
inline give_up(count)
{
        if
        :: references == (count) ->
                d_step { assert(references == (count)); references = 0 }
        :: else ->
                d_step { assert(references >= (count)); references = references - (count) }
        fi
}

inline deliver()
{
        d_step { touch(); assert(word == READY && !ready); ready = true }
}

proctype End(byte own)
{
        bool is_first, owns, gives = false, gave = false;
        byte left = 1;

        if
        :: own == 1 -> left = 2
        :: left = 0
        :: true
        fi;
        do
        :: left > 0 ->
                left--;
                is_first = false;
                owns = false;
                if
                :: left == 0 -> gives = true
                :: true
                fi;
#ifndef MUTANT_END_UNLOCKED
                lock();
#endif
                touch();
#ifdef MUTANT_DISCARD_UNSEEN
                if
                :: word == NEW && outcome == NONE -> is_first = true
#else
                if
                :: is_decided
                :: !is_decided && word == NEW -> is_first = true
#endif
                :: else ->
                        if
                        :: linked ->
                                atomic {
                                        if
#ifdef MUTANT_CLAIMED_UNLOOKED
                                        :: true ->
#else
                                        :: word == PENDING ->
#endif
                                                word = READY; owns = true; is_first = true
                                        :: else
                                        fi
                                };
                                if
                                :: is_first -> linked = false
                                :: else /* its worker does that */
                                fi
                        :: else
                        fi
                fi;
                if
                :: is_first ->
                        assert(decided == NONE && !discarded);
                        decided = own;
                        is_decided = true;
                        outcome = own;
#ifndef MUTANT_GIVEN_UNLOCKED
                        d_step { is_given = gives; gave = gives };
#endif
                        if
                        :: owns -> status = own
                        :: else
                        fi
                :: else
                fi;
#ifndef MUTANT_END_UNLOCKED
                unlock();
#endif
                if
                :: owns -> deliver()
                :: else
                fi
#ifdef MUTANT_GIVEN_UNLOCKED
                ;
                if
                :: is_first -> d_step { is_given = gives; gave = gives }
                :: else
                fi
#endif
        :: else -> break
        od;
        if
        :: !gave -> give_up(1)
        :: else
        fi
}

/* NEW becomes that, or it was cancelled; owns its delivery if it is READY then. */
inline enter(state, why)
{
        d_step {
                if
                :: word == NEW -> word = state; status = why; owns = (state == READY)
                :: else ->
                        assert(word == CANCELLED);
                        word = READY;
                        status = ENDED_EARLY;
                        ends_early = true;
                        owns = true
                fi
        }
}

proctype Owner()
{
        bool owns;

        if
        :: true -> /* drops it; the series has ended early, or was never started */
                is_over = true;
#ifndef MUTANT_DISCARD_UNLOCKED
                lock();
#endif
                touch();
                is_decided = true;
                discarded = true;
#ifndef MUTANT_DISCARD_UNLOCKED
                unlock();
#endif
                drops = true;
                give_up(1 + is_given)
        :: true ->
                lock();
                if
#ifdef MUTANT_EARLY_END_LOST
                :: false -> skip
#else
                :: is_decided ->
                        d_step { status = outcome; word = READY; owns = true }
#endif
                :: else ->
                        if
#ifdef MUTANT_STOP_UNLOOKED
                        :: false -> skip
#else
                        :: stopping ->
                                ends_early = true;
                                enter(READY, ENDED_EARLY)
#endif
                        :: else ->
                                linked = true;
                                enter(PENDING, NONE);
                                if
                                :: owns -> linked = false
                                :: else
                                fi
                        fi
                fi;
                unlock();
                if
                :: owns -> deliver()
                :: else
                fi
        fi
}

proctype Cancel()
{
        bool owns;

        d_step {
                if
                :: is_over
                :: !is_over && word == NEW -> word = CANCELLED
                :: !is_over && word == PENDING ->
                        word = READY;
                        status = ENDED_EARLY;
                        ends_early = true;
                        owns = true
#ifdef MUTANT_DECISION_TAKEN_BACK
                :: !is_over && word == READY -> status = ENDED_EARLY
#endif
                :: else
                fi
        };
        if
        :: owns -> deliver()
        :: else
        fi
}

/* What is linked is there: it takes no reference. */
proctype Shutdown()
{
        bool owns;

        stopping = true;
        lock();
        if
        :: linked ->
#ifdef MUTANT_UNLINKED_TOO_EARLY
                linked = false;
#endif
                atomic {
                        touch();
                        if
                        :: word == PENDING -> word = READY; status = ENDED_EARLY; ends_early = true; owns = true
                        :: else
                        fi
                };
                linked = false
        :: else
        fi;
        unlock();
        if
        :: owns -> deliver()
        :: else
        fi
}

proctype Worker()
{
        if
        :: drops -> goto out
        :: ready
        fi;
#ifndef MUTANT_LEFT_LINKED
        if
        :: linked ->
                lock();
                linked = false;
                unlock()
        :: else
        fi;
#endif
        d_step { assert(word == READY); word = RUNNING };
        touch();
        if
#ifdef MUTANT_CANCEL_BY_STATUS
        :: status != NONE -> cancels = true
#else
        :: !is_decided -> cancels = true
#endif
        :: else
        fi;
        calls = true;
        assert(status != NONE);
        assert(cancels == (decided == NONE));
        assert(decided == NONE || status == decided);
        assert(decided != NONE || status == ENDED_EARLY && ends_early);
        is_over = true;
#ifdef MUTANT_MEMORY_GOES_WITH_THE_TASK
        references = 0
#else
        give_up(1 + is_given)
#endif
        ;
out:
        skip
}

init
{
        atomic {
                run Owner();
                run End(1);
                run End(2);
                run Worker();
                if
                :: run Cancel()
                :: true
                fi;
                run Shutdown()
        };
        _nr_pr == 1;
        assert(references == 0 && !locked);
        assert(calls != drops)
}
