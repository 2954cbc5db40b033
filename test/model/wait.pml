/* wait.pml: weir_timer_cancel_wait: waits until the timers of a name have ended, the list of the ending, cursors, graves.
 *
 *   Waiter      two of them, of which the second may not come: weir_timer_cancel_wait with a `max` of 0 or of WEIR_ALL.  The
 *               first one owns a timer of that name, which it never starts, and dismisses when its wait is over
 *   Canceller   another thread's weir_timer_cancel with a `max` of 1; it may not come
 *   Worker      two of them, with a timer of that name each: expiry, callback, on_free, free
 *
 * timer.pml shows how a timer is cancelled and begins: here its word changes in steps that are atomic.  A shard has two lists,
 * the ring of the name and the list of the ending.  A waiter registers a walk over each at the same time, goes to the end of the
 * ring and then to that of the list.  It lets go of the lock at any time, not after 256 entries.  A worker that finds nobody
 * waiting digs a grave, and comes back to it at any time, or not before all waits are over.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The word. */
#define NEW       0
#define PENDING   1
#define READY     2
#define RUNNING   3
#define ENDED     4

/* The timers, in order of coming; the last is the one that is never started. */
#define TIMERS    3
#define UNSTARTED 2
#define NONE      3 /* the end of a list */

/* The lists. */
#define RING    0
#define ENDING  1
#define NOWHERE 2

#define WAITERS 2

byte word[TIMERS];
bool cancelled[TIMERS];  /* a bit of the word */
bool delivered[TIMERS];  /* by a cancel: in the inbox of the worker */
byte awaiting;           /* lock-free: the waits that have begun and are not over */
bool latch[WAITERS];     /* a waiter sleeps until it is open */

/* Guarded by the lock of the shard. */
bool locked;
byte head[2] = NONE;
byte next[TIMERS] = NONE;
byte on[TIMERS] = NOWHERE;
bool walks[WAITERS];           /* that both walks of the waiter are registered */
byte waits[WAITERS] = NOWHERE; /* the walk that sleeps */
byte cursor[4] = NONE;         /* of the walk number WALK: its next entry */
byte behind[4] = NONE;         /* the first entry that came after the walk had begun */

/* The model judges these; nobody acts on them. */
bool freed[TIMERS];
bool on_freed[TIMERS];
byte over;               /* waits that have returned, or never come */

#define BIT(timer) (1 << (timer))
#define WALK(waiter, list) (2 * (waiter) + (list))
#define touch(timer) assert(!freed[timer])

inline lock()
{
        atomic {
                !locked -> locked = true
        }
}

inline unlock()
{
        atomic {
                assert(locked);
                locked = false
        }
}

/* -- the lists; under the lock -- */

inline came_behind(waiter, list, timer)
{
        if
#ifndef MUTANT_APPENDED_UNSEEN
        :: walks[waiter] && behind[WALK(waiter, list)] == NONE -> behind[WALK(waiter, list)] = timer
#endif
        :: else
        fi
}

inline append(list, timer)
{
        touch(timer);
        next[timer] = NONE;
        on[timer] = list;
        if
        :: head[list] == NONE ->
                head[list] = timer
        :: else ->
                last = head[list];
                do
                :: next[last] != NONE ->
                        touch(last);
                        last = next[last]
                :: else -> break
                od;
                touch(last);
                next[last] = timer;
                last = 0
        fi;
        came_behind(0, list, timer);
        came_behind(1, list, timer)
}

/* A cursor lies on its waiter's stack: it is there while walks[waiter] is set. */
inline move_on(waiter, timer)
{
        if
        :: walks[waiter] && cursor[WALK(waiter, on[timer])] == timer ->
#ifndef MUTANT_CURSOR_LEFT
                cursor[WALK(waiter, on[timer])] = next[timer];
#endif
                if
#ifndef MUTANT_LATCH_LEFT
                :: waits[waiter] == on[timer] ->
                        latch[waiter] = true;
                        waits[waiter] = NOWHERE
#endif
                :: else
                fi
        :: else
        fi;
        if
#ifndef MUTANT_END_LEFT
        :: walks[waiter] && behind[WALK(waiter, on[timer])] == timer -> behind[WALK(waiter, on[timer])] = next[timer]
#endif
        :: else
        fi
}

inline unlink(timer)
{
        touch(timer);
        assert(on[timer] != NOWHERE);
        move_on(0, timer);
        move_on(1, timer);
        if
        :: head[on[timer]] == timer ->
                head[on[timer]] = next[timer]
        :: else ->
                last = head[on[timer]];
                do
                :: next[last] != timer -> last = next[last]
                :: else -> break
                od;
                touch(last);
                next[last] = next[timer];
                last = 0
        fi;
        next[timer] = NONE;
        on[timer] = NOWHERE
}

/* -- the end of a timer -- */

inline unlink_and_free(timer)
{
#ifndef MUTANT_UNLINK_UNLOCKED
        lock();
#endif
#ifdef MUTANT_FREE_BEFORE_UNLINK
        freed[timer] = true;
#endif
        d_step {
                on_freed[timer] = true; /* in the code before the lock was taken; to set it here is stricter */
                unlink(timer);
#ifndef MUTANT_UNLINK_UNLOCKED
                locked = false;
#endif
                freed[timer] = true;
                word[timer] = NEW; /* nobody looks any more: fewer states */
                cancelled[timer] = false;
                delivered[timer] = false
        }
}

inline store_ended()
{
        d_step {
#ifndef MUTANT_ENDED_BEFORE_ON_FREE
                on_freed[timer] = true;
#endif
                touch(timer);
                word[timer] = ENDED
        }
}

/* After the callback of one that a cancel by name has taken. */
inline end_cancelled()
{
#ifdef MUTANT_AWAITING_BEFORE_ENDED
        nobody_waits = (awaiting == 0);
        store_ended();
#else
        store_ended();
        nobody_waits = (awaiting == 0);
#endif
#ifdef MUTANT_ENDED_BEFORE_ON_FREE
        on_freed[timer] = true;
#endif
#ifdef MUTANT_ALWAYS_A_GRAVE
        nobody_waits = true;
#endif
        if
        :: nobody_waits && over < WAITERS -> over == WAITERS /* a grave: it is busy elsewhere */
        :: true /* at once, or a grave to which it comes back soon */
        fi;
        unlink_and_free(timer)
}

/* The worker of one timer. */
proctype Worker(byte timer)
{
        byte last;
        bool nobody_waits, by_cancel;

        if
        :: delivered[timer]
        :: d_step { /* expires */
                word[timer] == PENDING ->
                touch(timer);
                word[timer] = READY
           }
        fi;
        d_step { /* begins */
                touch(timer);
                assert(word[timer] == READY);
                word[timer] = RUNNING;
                by_cancel = cancelled[timer]
        };
        if
        :: by_cancel -> end_cancelled()
        :: else -> unlink_and_free(timer)
        fi
}

/* -- cancel by name -- */

/* Cancels timers of the ring.  Sets the bits of those that it has made READY, and so must deliver. */
inline cancel_one(timer)
{
        touch(timer);
        assert(!cancelled[timer]);
        if
        :: word[timer] == PENDING ->
                word[timer] = READY;
                mine = mine | BIT(timer)
        :: else /* NEW: its start makes it READY; READY: its worker looks */
        fi;
        if
        :: word[timer] != RUNNING ->
                left--;
                cancelled[timer] = true;
                had = had | (word[timer] != NEW -> BIT(timer) : 0);
                unlink(timer);
                append(ENDING, timer)
        :: else
        fi
}

inline deliver_one(timer)
{
        if
        :: mine & BIT(timer) ->
                touch(timer);
                delivered[timer] = true
        :: else
        fi
}

inline deliver()
{
        d_step {
                deliver_one(0);
                deliver_one(1);
                mine = 0
        }
}

inline cancel()
{
        atomic {
                lock();
                entry = head[RING]
        };
        do
        :: d_step {
                entry != NONE && left > 0 ->
                follower = next[entry];
                cancel_one(entry);
                entry = follower
           }
        :: !(entry != NONE && left > 0) -> break
        od;
        atomic {
                unlock();
                entry = 0;
                follower = 0;
                left = 0
        }
}

proctype Canceller()
{
        byte entry, follower, last, mine, had;
        byte left = 1;

        if
        :: true
        :: true -> goto out /* never comes */
        fi;
        cancel();
        deliver();
out:
        skip
}

/* -- wait -- */

#ifdef MUTANT_WAITS_FOR_NEW
#define ON_ITS_WAY(timer) (word[timer] != ENDED)
#elif defined(MUTANT_WAITS_FOR_ENDED)
#define ON_ITS_WAY(timer) (word[timer] != NEW)
#elif defined(MUTANT_READY_PASSED)
#define ON_ITS_WAY(timer) (word[timer] == RUNNING)
#else
#define ON_ITS_WAY(timer) (word[timer] == READY || word[timer] == RUNNING)
#endif

#if defined(MUTANT_LOOK_BEFORE_COUNTING) || defined(MUTANT_LATCH_CLOSED_LATE)
#define SLEEP_IN_STEPS
#endif

#define WAITED_FOR(list, timer) ((list) == ENDING && ON_ITS_WAY(timer) || (list) == RING && word[timer] == RUNNING)

#define THERE(timer, list) (BIT(timer) << 4 * (list))

inline is_there(timer)
{
        if
        :: on[timer] != NOWHERE -> there = there | THERE(timer, on[timer])
        :: else
        fi
}

inline register(list)
{
        cursor[WALK(who, list)] = head[list];
        behind[WALK(who, list)] = NONE
}

inline register_both()
{
        d_step {
                register(RING);
                register(ENDING);
                walks[who] = true;
                is_there(0);
                is_there(1);
                is_there(UNSTARTED)
        }
}

#define AT cursor[WALK(who, list)]
#define AT_END (AT == NONE || AT == behind[WALK(who, list)])

/* Under the lock, which is let go when there is somebody to wait for. */
inline walk(list)
{
        do
        :: AT_END -> break
        :: d_step {
                !AT_END ->
                entry = AT;
                touch(entry);
                assert(there & THERE(entry, list));
                assert(behind[WALK(who, list)] == NONE || !freed[behind[WALK(who, list)]]);
                found = WAITED_FOR(list, entry);
                if
#ifdef SLEEP_IN_STEPS
                :: found ->
                        waits[who] = list
#else
                :: found -> /* under the lock still: from here on the latch may be opened */
                        waits[who] = list;
                        latch[who] = false;
                        locked = false
#endif
                :: else ->
                        AT = next[entry]
                fi
           };
           if
           :: found ->
#ifdef MUTANT_LOOK_BEFORE_COUNTING
                awaiting++;
                latch[who] = false;
                unlock();
#endif
#ifdef MUTANT_LATCH_CLOSED_LATE
                unlock();
                latch[who] = false;
#endif
                atomic {
                        latch[who] && !locked -> locked = true
                }
#ifdef MUTANT_LOOK_BEFORE_COUNTING
                awaiting--
#endif
           :: !found
           :: !found ->
                unlock(); /* so many at once */
                lock()
           fi
        od;
        entry = 0
}

inline unregister_both()
{
        d_step {
                walks[who] = false;
                cursor[WALK(who, RING)] = NONE;
                cursor[WALK(who, ENDING)] = NONE;
                behind[WALK(who, RING)] = NONE;
                behind[WALK(who, ENDING)] = NONE;
                latch[who] = false;
                there = 0;
                found = false
        }
}

inline must_wait_for(timer)
{
        if
        :: on[timer] == ENDING && (word[timer] == READY || word[timer] == RUNNING) -> had = had | BIT(timer)
        :: on[timer] == RING && word[timer] == RUNNING -> had = had | BIT(timer)
        :: else
        fi
}

inline is_over(timer)
{
        assert(!(had & BIT(timer)) || on_freed[timer])
}

proctype Waiter(byte who)
{
        byte entry, follower, last, mine, left, there;
        byte had; /* what it must have waited for; not in the code */
        bool found;

        if
        :: left = 0
        :: left = TIMERS
        :: who == 1 -> goto out /* never comes */
        fi;
        d_step {
                must_wait_for(0);
                must_wait_for(1)
        };
        if
        :: left > 0 ->
                cancel()
        :: else
        fi;
#ifndef MUTANT_DELIVERED_LATE
        deliver();
#endif
        atomic { /* to count itself any earlier only makes graves fewer; and to take itself back any later */
                lock();
#ifndef MUTANT_LOOK_BEFORE_COUNTING
                awaiting++
#endif
        };
        register_both();
#ifndef MUTANT_RING_UNWALKED
        walk(RING);
#endif
#ifdef MUTANT_REGISTERED_IN_TURN
        d_step {
                register(ENDING)
        };
#endif
#ifndef MUTANT_ENDING_UNWALKED
        walk(ENDING);
#endif
        unregister_both();
#ifndef MUTANT_LOOK_BEFORE_COUNTING
        awaiting--;
#endif
        unlock();
#ifdef MUTANT_DELIVERED_LATE
        deliver();
#endif
        d_step {
                is_over(0);
                is_over(1);
                had = 0
        };
        if
        :: who == 0 -> unlink_and_free(UNSTARTED) /* dismisses it */
        :: else
        fi;
out:
        over++
}

init
{
        byte last;

        d_step {
                append(RING, 0);
                append(RING, 1);
                append(RING, UNSTARTED);
                word[0] = PENDING;
                word[1] = PENDING
        };
        atomic {
                run Worker(0);
                run Worker(1);
                run Canceller();
                run Waiter(0);
                run Waiter(1)
        };
        _nr_pr == 1;
        assert(!locked && awaiting == 0 && head[RING] == NONE && head[ENDING] == NONE);
        assert(freed[0] && freed[1] && freed[UNSTARTED]);
        assert(on_freed[0] && on_freed[1])
}
