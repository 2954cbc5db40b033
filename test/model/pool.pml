/* test/model/pool.pml: who gets a connection of an origin: client/origin/pool.c.
 *
 * Two pollers and three requests, one of which stays on its poller; LIMIT connections.  A connection that was used is put back or
 * ends.  The server may once close an idle one, or refuse one.  One request may be cancelled at any time.  A poller takes its
 * work in any order.
 *
 * Each request must end, and what is counted must be true then. */

#ifndef LIMIT
#define LIMIT 1
#endif
#define REQUESTS 3
#define FIXED    2 /* this one stays on its poller, 1 */
#define HEDGED   1 /* this one may be fixed while it waits: client/request/hedge.c */
#define DIALS    4 /* of a poller at a time, at most */

/* START: its work is on its way to `at`.  PENDING: it waits.  CLAIMED: by an owner.  WITHDRAW: cancelled while it waited. */
mtype = {START, PENDING, CLAIMED, WITHDRAW, USING, OVER};

mtype state[REQUESTS];
bit at[REQUESTS];
bool cancelled[REQUESTS], reserved[REQUESTS], failed[REQUESTS], was_handed[REQUESTS];

/* Under the lock. */
bool queued[REQUESTS], has_dial[REQUESTS], fixed[REQUESTS];
byte ticket[REQUESTS], next_ticket = 1;

/* Atomic. */
byte idle[2], waiting, connections, dials;
bool look_due[2], look_sent[2];

/* Of the owners: tickets of dials; 0: none. */
byte dial[8];
bool dial_cancelled[8];
byte mishaps = 1; /* of the two that the server may cause */
bool may_fix;     /* the one that is hedged becomes fixed, once; in a run without a cancel */

#define IS_OVER (state[0] == OVER && state[1] == OVER && state[2] == OVER)
#define HAS(r) (at[r] == me && (state[r] == START || state[r] == USING || state[r] == WITHDRAW))
#define HAS_DIAL(p) (dial[4 * (p)] + dial[4 * (p) + 1] + dial[4 * (p) + 2] + dial[4 * (p) + 3] > 0)

inline claim(s, did)
{
#ifdef MUTANT_CLAIMED_UNLOOKED
        did = state[s] != OVER;
        state[s] = CLAIMED
#else
        if
        :: state[s] == PENDING -> state[s] = CLAIMED; did = true
        :: else -> did = false
        fi
#endif
}

/* The first in the queue, in `found`; REQUESTS: none.  Of those that are not before `least`. */
inline find_first(found, least)
{
        found = REQUESTS;
        i = 0;
        do
        :: i < REQUESTS ->
                if
                :: queued[i] && ticket[i] >= least && (found == REQUESTS || ticket[i] < ticket[found]) -> found = i
                :: else
                fi;
                i++
        :: else -> break
        od
}

inline leave_queue(s)
{
        if
        :: queued[s] -> queued[s] = false; waiting--
        :: else
        fi
}

inline look(p)
{
        if
        :: atomic { look_due[p] -> skip }
        :: atomic { !look_due[p] -> look_due[p] = true; look_sent[p] = true }
        fi
}

/* -- the owner of `me` -- */

/* Under the lock: `taken`, or REQUESTS; `must_close` for one that stays elsewhere. */
inline take_first()
{
        d_step {
                taken = REQUESTS;
                must_close = false;
                least = 0;
                do
                :: taken == REQUESTS && !must_close ->
                        find_first(first, least);
                        if
                        :: first == REQUESTS -> break
                        :: first < REQUESTS && fixed[first] && at[first] != me ->
                                must_close = !has_dial[first];
                                has_dial[first] = true;
                                other = at[first];
                                least = ticket[first] + 1
                        :: else ->
                                leave_queue(first);
                                claim(first, did);
                                if
                                :: did -> taken = first
                                :: else
                                fi
                        fi
                :: else -> break
                od;
                i = 0; least = 0; first = 0; did = false
        }
}

inline dial_more()
{
        do
        :: waiting > dials ->
                atomic {
                        if
                        :: connections < LIMIT -> connections++
                        :: else -> break
                        fi
                };
                dials++;
                d_step {
                        k = 4 * me;
                        do
                        :: dial[k] -> k++
                        :: else -> break
                        od;
                        assert(k < 4 * me + DIALS);
                        dial[k] = next_ticket;
                        dial_cancelled[k] = false;
                        k = 0
                }
        :: else -> break
        od
}

inline dial_for_first()
{
        if
#ifdef MUTANT_PLACE_UNLOOKED
        :: false ->
#else
        :: waiting ->
#endif
                d_step {
                        find_first(first, 0);
                        other = (first < REQUESTS -> at[first] : me);
                        first = 0;
                        i = 0
                };
                if
                :: other == me -> dial_more()
                :: else -> look(other)
                fi;
                other = 0
        :: else
        fi
}

inline gone()
{
        connections--;
        dial_for_first()
}

inline serve()
{
        do
        :: waiting && idle[me] ->
                take_first();
                if
                :: must_close ->
                        idle[me]--;
                        connections--;
                        to = other;
                        other = 0;
                        dial_for_first();
                        look(to);
                        to = 0
                :: else ->
                        other = 0;
                        if
                        :: taken == REQUESTS -> break
                        :: else ->
                                idle[me]--;
                                assert(state[taken] == CLAIMED && !reserved[taken]);
                                reserved[taken] = true;
                                at[taken] = me;
                                state[taken] = START
                        fi
                fi
        :: else -> break
        od;
        taken = 0;
        must_close = false
}

inline put()
{
#ifdef MUTANT_LOOKED_BEFORE_PUBLISHED
        if
        :: waiting -> idle[me]++; serve()
        :: else -> idle[me]++
        fi
#else
        idle[me]++;
        serve()
#endif
}

inline note_dials_of(r)
{
#ifndef MUTANT_HAS_DIAL_STAYS
        if
        :: at[r] == me && queued[r] -> has_dial[r] = HAS_DIAL(me)
        :: else
        fi
#else
        if
        :: at[r] == me && queued[r] && HAS_DIAL(me) -> has_dial[r] = true
        :: else
        fi
#endif
}

inline note_dials()
{
        note_dials_of(HEDGED);
        note_dials_of(FIXED)
}

inline dial_ended()
{
        d_step {
                note_dials()
        };
        dials--
}

inline end_dial()
{
        d_step {
                k = 4 * me;
                do
                :: !dial[k] -> k++
                :: else -> break
                od;
                from = dial[k];
                was_cancelled = dial_cancelled[k];
                dial[k] = 0;
                k = 0
        };
        if
        :: !was_cancelled -> dial_ended(); must_put = true
        :: was_cancelled || mishaps ->
                d_step {
                        mishaps = (was_cancelled -> mishaps : mishaps - 1);
                        taken = REQUESTS;
                        do
                        :: taken == REQUESTS ->
                                find_first(first, 0);
                                if
#ifdef MUTANT_FAILS_ANYBODY
                                :: first == REQUESTS -> break
#else
                                :: first == REQUESTS || ticket[first] >= from -> break
#endif
                                :: else ->
                                        leave_queue(first);
                                        claim(first, did);
                                        if
                                        :: did -> taken = first
                                        :: else
                                        fi
                                fi
                        :: else -> break
                        od;
                        i = 0; first = 0; did = false
                };
                if
                :: taken < REQUESTS ->
                        assert(!was_cancelled); /* its cancel was for nobody */
                        failed[taken] = true;
                        state[taken] = START
                :: else
                fi;
                taken = 0;
                dial_ended();
#ifdef MUTANT_FAILURE_UNLOOKED
                connections--
#else
                must_go = true
#endif
        fi;
        from = 0;
        was_cancelled = false
}

inline wait()
{
        is_away = false;
        if
        :: !fixed[s] && !was_handed[s] && !waiting ->
                if
                :: idle[1 - me] ->
                        d_step { claim(s, did) };
                        is_away = true;
                        if
                        :: did ->
                                did = false;
                                was_handed[s] = true;
                                at[s] = 1 - me;
                                state[s] = START
                        :: else
                        fi
                :: else
                fi
        :: else
        fi;
        if
        :: is_away
        :: else ->
#ifdef MUTANT_LOOKED_BEFORE_QUEUED
                looked = idle[1 - me] > 0;
#endif
                d_step {
                        ticket[s] = next_ticket;
                        next_ticket++;
                        queued[s] = true;
#ifdef MUTANT_DIAL_HOPED_FOR
                        has_dial[s] = s >= HEDGED && connections < LIMIT;
#else
                        has_dial[s] = s >= HEDGED && HAS_DIAL(me); /* as was noted last */
#endif
                        waiting++
                };
                serve();
                dial_more();
#ifndef MUTANT_DIAL_HOPED_FOR
                atomic { note_dials() };
#endif
#ifdef MUTANT_LOOKED_BEFORE_QUEUED
                if
                :: looked -> look(1 - me)
                :: else
                fi;
                looked = false
#else
#ifndef MUTANT_IDLE_UNLOOKED
                if
                :: waiting && idle[1 - me] -> look(1 - me)
                :: else
                fi
#endif
#endif
        fi;
        is_away = false
}

/* What most work comes to. */
inline put_or_go()
{
        if
        :: must_put -> must_put = false; put()
        :: must_go -> must_go = false; gone()
        :: else
        fi
}

inline try()
{
        if
        :: cancelled[s] ->
                state[s] = OVER;
                if
                :: reserved[s] ->
                        reserved[s] = false;
#ifndef MUTANT_GRANT_LOST
                        must_put = true
#endif
                :: else
                fi
        :: else ->
                if
                :: failed[s] -> state[s] = OVER
                :: reserved[s] -> reserved[s] = false; state[s] = USING
                :: !failed[s] && !reserved[s] ->
                        if
                        :: idle[me] && !waiting -> idle[me]--; state[s] = USING
                        :: else ->
                                atomic {
                                        if
                                        :: cancelled[s] -> state[s] = OVER
                                        :: else -> state[s] = PENDING
                                        fi
                                };
                                if
                                :: state[s] == OVER
                                :: else -> wait()
                                fi
                        fi
                fi
        fi
}

inline use()
{
        d_step { state[s] = OVER; ticket[s] = 0 };
        if
        :: must_put = true
        :: must_go = true
        fi
}

inline withdraw()
{
        d_step { leave_queue(s); state[s] = OVER };
        if
        :: dials && !waiting -> look(0); look(1)
        :: else
        fi
}

inline run_look()
{
        look_sent[me] = false;
#ifndef MUTANT_FLAG_CLEARED_LATE
        look_due[me] = false;
#endif
        serve();
        dial_more();
        atomic { note_dials() };
#ifndef MUTANT_LOOK_NOT_PASSED_ON
        if
        :: !idle[me] && waiting && idle[1 - me] -> look(1 - me)
        :: else
        fi;
#endif
        if
        :: !waiting ->
                d_step {
                        k = 4 * me;
                        do
                        :: k < 4 * me + 4 -> dial_cancelled[k] = dial[k] > 0; k++
                        :: else -> break
                        od;
                        k = 0
                }
        :: else
        fi;
#ifdef MUTANT_FLAG_CLEARED_LATE
        look_due[me] = false
#endif
}

proctype Owner(bit me)
{
        byte s, taken, first, least, i, k, from, other, to;
        bool must_close, did, was_cancelled, is_away, looked, must_put, must_go;

        do
        :: must_put || must_go -> put_or_go()
        :: atomic {
                   !must_put && !must_go && (HAS(0) || HAS(1) || HAS(2));
                   if
                   :: HAS(0) -> s = 0
                   :: HAS(1) -> s = 1
                   :: HAS(2) -> s = 2
                   fi
           };
           if
           :: state[s] == START -> try()
           :: state[s] == USING -> use()
           :: state[s] == WITHDRAW -> withdraw()
           fi;
           s = 0
        :: !must_put && !must_go && look_sent[me] -> run_look()
        :: atomic { queued[HEDGED] && at[HEDGED] == me && may_fix && !must_put && !must_go ->
                   may_fix = false;
                   fixed[HEDGED] = true
           }
        :: !must_put && !must_go && HAS_DIAL(me) -> end_dial()
        :: atomic { !must_put && !must_go && idle[me] && mishaps -> mishaps--; idle[me]--; must_go = true } /* closed */
        :: timeout -> break
        od
}

proctype Cancel(byte s)
{
        if
        :: atomic {
                   cancelled[s] = true;
                   if
                   :: state[s] == PENDING -> state[s] = WITHDRAW
                   :: else
                   fi
           }
        :: skip
        fi
}

init
{
        atomic {
                state[0] = START;
                state[1] = START;
                state[2] = START;
                at[1] = 1;
                at[FIXED] = 1;
                fixed[FIXED] = true;
                run Owner(0);
                run Owner(1);
                if
                :: run Cancel(0)
                :: run Cancel(FIXED)
                :: may_fix = true
                fi
        };
        _nr_pr == 1;
        assert(IS_OVER);
        assert(waiting == 0 && dials == 0);
        assert(connections == idle[0] + idle[1] && connections <= LIMIT);
        assert(!reserved[0] && !reserved[1] && !reserved[2])
}
