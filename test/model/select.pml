/* select.pml: tasks that wait at several objects (docs/design.md, "Waiting tasks"; factory/sync/wait.c,
 * factory/channel/select.c).
 *
 *   Start     one for each of three tasks, on threads of their own: two selects that meet at two channels in opposite directions,
 *             and a task that sends to, or receives from, one of the channels alone, or does not come
 *   Worker    one for each: unlinks what is still linked, calls back, frees
 *   Cancel    of the series of the first select, at any time, also before its start; it may not come
 *   Shutdown  at any time: ends the tasks that wait, one channel after the other
 *
 * Channels have no room: a message goes from one task to another, or stays.  A queue is a set: a pop takes any of the linked
 * tasks, so orders that a queue would not allow are explored as well.
 *
 * A cancel has the lock of the series, which keeps the task from being freed: it is one step here, except for the delivery.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define NEW       0 /* the word of a task */
#define CANCELLED 1 /* before its start */
#define PENDING   2
#define READY     3
#define RUNNING   4
#define GONE      5

#define WELL 0 /* how it ended */
#define ENDED_EARLY 1

#define TASKS 3
#define CASES 6 /* 2 * task, and that plus 1 */
#define NONE 2  /* no channel */

#define OTHER(one) (1 - (one) % 2) /* even ones send, the others receive */
#define TASK(one) ((one) / 2)

byte channel[CASES];     /* constant: 0, 1, NONE */
bool linked[CASES];      /* written under the lock of the channel */
bool locked[2];

byte word[TASKS];
byte status[TASKS];      /* of the owner of the delivery */
bool ready[TASKS];       /* delivered */
bool stopping;

/* For judging only. */
byte deals[TASKS];       /* messages that it has sent or received */

#define touch(task) assert(word[task] != GONE)

inline lock(which) { atomic { !locked[which] -> locked[which] = true } }

inline deliver(task)
{
        d_step {
                assert(word[task] == READY && !ready[task]);
                ready[task] = true
        }
}

/* Under the lock: takes off any case at the channel of `one` on its other side until one is claimed, in `found`; CASES: there is
 * none. */
inline pop(one)
{
        found = CASES;
        do
        :: found == CASES ->
                if
                :: linked[OTHER(one)] && channel[OTHER(one)] == channel[one] -> met = OTHER(one)
                :: linked[2 + OTHER(one)] && channel[2 + OTHER(one)] == channel[one] -> met = 2 + OTHER(one)
                :: linked[4 + OTHER(one)] && channel[4 + OTHER(one)] == channel[one] -> met = 4 + OTHER(one)
                :: else -> break
                fi;
#ifdef MUTANT_UNLINKED_BEFORE_CLAIMED
                linked[met] = false;
#endif
                d_step {
                        touch(TASK(met));
                        if
#ifdef MUTANT_CLAIMED_UNLOOKED
                        :: true ->
#else
                        :: word[TASK(met)] == PENDING ->
#endif
                                word[TASK(met)] = READY;
                                found = met
                        :: else
                        fi
                };
#ifndef MUTANT_UNLINKED_BEFORE_CLAIMED
                d_step { touch(TASK(met)); linked[met] = false }
#endif
        :: else -> break
        od;
        skip
}

/* Under the lock: completes the operation if that is possible there. */
inline try(one)
{
        if
        :: channel[one] != NONE && mate == CASES && word[self] == NEW ->
                pop(one);
                d_step {
                        if
                        :: found != CASES ->
                                mate = found;
                                deals[self]++;
                                deals[TASK(mate)]++
                        :: else
                        fi;
                        found = CASES
                }
        :: else
        fi
}

inline link(one)
{
        d_step {
                touch(self);
                if
                :: channel[one] != NONE -> linked[one] = true
                :: else
                fi
        }
}

/* NEW becomes that, or it was cancelled; owns its delivery if it is READY then. */
inline enter(state, why)
{
        d_step {
                touch(self);
                if
                :: word[self] == NEW -> word[self] = state; status[self] = why; owns = (state == READY)
                :: else ->
                        assert(word[self] == CANCELLED);
                        word[self] = READY;
                        status[self] = ENDED_EARLY;
                        owns = true
                fi
        }
}

inline lock_both()
{
#ifdef MUTANT_LOCKED_IN_ORDER_OF_CASES
        if
        :: channel[2 * self] != NONE -> lock(channel[2 * self])
        :: else
        fi;
        if
        :: channel[2 * self + 1] != NONE -> lock(channel[2 * self + 1])
        :: else
        fi
#else
        if
        :: channel[2 * self] == 0 || channel[2 * self + 1] == 0 -> lock(0)
        :: else
        fi;
        if
        :: channel[2 * self] == 1 || channel[2 * self + 1] == 1 -> lock(1)
        :: else
        fi
#endif
}

inline unlock_both()
{
        if
        :: channel[2 * self] == 1 || channel[2 * self + 1] == 1 -> locked[1] = false
        :: else
        fi;
        if
        :: channel[2 * self] == 0 || channel[2 * self + 1] == 0 -> locked[0] = false
        :: else
        fi
}

/* Nothing was possible. */
inline wait()
{
#ifdef MUTANT_STOP_UNLOOKED
        if
        :: false -> skip
#else
        if
        :: stopping -> enter(READY, ENDED_EARLY)
#endif
        :: else ->
#ifdef MUTANT_PENDING_BEFORE_LINKED
                enter(PENDING, WELL);
                link(2 * self);
                link(2 * self + 1)
#else
                link(2 * self);
                link(2 * self + 1);
                enter(PENDING, WELL);
                if
                :: owns -> linked[2 * self] = false; linked[2 * self + 1] = false
                :: else
                fi
#endif
        fi
}

proctype Start(byte self)
{
        byte mate = CASES, found = CASES, met;
        bool owns;

#ifdef MUTANT_ONE_AFTER_THE_OTHER
        if
        :: channel[2 * self] != NONE ->
                lock(channel[2 * self]); try(2 * self);
                if
                :: mate == CASES -> link(2 * self)
                :: else
                fi;
                locked[channel[2 * self]] = false
        :: else
        fi;
        if
        :: mate == CASES && channel[2 * self + 1] != NONE ->
                lock(channel[2 * self + 1]); try(2 * self + 1);
                if
                :: mate == CASES -> link(2 * self + 1)
                :: else
                fi;
                locked[channel[2 * self + 1]] = false
        :: else
        fi;
        if
        :: mate != CASES -> word[self] = READY; owns = true
        :: else -> enter(PENDING, WELL)
        fi;
#else
        lock_both();
        try(2 * self);
        try(2 * self + 1);
        if
        :: mate != CASES -> d_step { word[self] = READY; owns = true } /* a cancel that comes just now comes after that */
        :: else -> wait()
        fi;
        unlock_both();
#endif
        if
        :: mate != CASES -> deliver(TASK(mate))
        :: else
        fi;
        if
        :: owns -> deliver(self)
        :: else
        fi
}

/* It is linked until the holder of the lock has unlinked it. */
inline leave(one)
{
        if
#ifndef MUTANT_LEFT_LINKED
        :: linked[one] ->
#ifdef MUTANT_UNLINKED_WITHOUT_LOCK
                linked[one] = false
#else
                lock(channel[one]);
                linked[one] = false;
                locked[channel[one]] = false
#endif
        :: else
#else
        :: true
#endif
        fi
}

proctype Worker(byte self)
{
        ready[self];
        leave(2 * self);
        leave(2 * self + 1);
        d_step {
                assert(word[self] == READY);
                assert(deals[self] == (status[self] == WELL));
                word[self] = RUNNING
        };
        word[self] = GONE
}

proctype Cancel()
{
        bool owns;

        d_step {
                if
                :: word[0] == NEW -> word[0] = CANCELLED
                :: word[0] == PENDING ->
                        word[0] = READY;
                        status[0] = ENDED_EARLY;
                        owns = true
#ifdef MUTANT_GRANTED_TAKEN_BACK
                :: word[0] == READY -> status[0] = ENDED_EARLY
#endif
                :: else
                fi
        };
        if
        :: owns -> deliver(0)
        :: else
        fi
}

/* Two that want to deal with each other do not both wait. */
#define meet(one, other) (linked[one] && linked[other] && channel[one] == channel[other] && \
        word[TASK(one)] == PENDING && word[TASK(other)] == PENDING && TASK(one) != TASK(other))

proctype Shutdown()
{
        byte which, one;

        d_step {
                !locked[0] && !locked[1] ->
                assert(!meet(0, 3) && !meet(0, 5) && !meet(2, 1) && !meet(2, 5) && !meet(4, 1) && !meet(4, 3));
                stopping = true
        };
        do
        :: which < 2 ->
                lock(which);
                one = 0;
                do
                :: one < CASES ->
                        if
                        :: linked[one] && channel[one] == which ->
                                d_step {
                                        touch(TASK(one));
                                        if
                                        :: word[TASK(one)] == PENDING ->
                                                word[TASK(one)] = READY;
                                                status[TASK(one)] = ENDED_EARLY;
                                                linked[one] = false;
                                                ready[TASK(one)] = true
                                        :: else -> linked[one] = false
                                        fi
                                }
                        :: else
                        fi;
                        one++
                :: else -> break
                od;
                locked[which] = false;
                which++
        :: else -> break
        od
}

init
{
        atomic {
                channel[0] = 0; channel[1] = 1; /* sends to the first, receives from the second */
                channel[2] = 1; channel[3] = 0; /* the other way round */
                if
                :: channel[4] = NONE; channel[5] = 0
                :: channel[4] = 0; channel[5] = NONE
                :: channel[4] = NONE; channel[5] = NONE; word[2] = GONE
                fi;
                run Start(0);
                run Worker(0);
                run Start(1);
                run Worker(1);
                if
                :: word[2] == NEW -> run Start(2); run Worker(2)
                :: else
                fi;
                if
                :: run Cancel()
                :: true
                fi;
                run Shutdown()
        };
        _nr_pr == 1;
        assert(word[0] == GONE && word[1] == GONE && word[2] == GONE);
        assert((deals[0] + deals[1] + deals[2]) % 2 == 0)
}
