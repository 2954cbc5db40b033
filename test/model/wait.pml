/* wait.pml: weir_timer_cancel_wait: waits until the timers of a name have ended; zombies, walks and their cursors.
 *
 *   Waiter      two of them, of which the second comes only if the third timer is kept, or not at all: weir_timer_cancel_wait with a
 *               `max` of 0 or of WEIR_ALL
 *   Canceller   another thread's weir_timer_cancel with a `max` of 1; it may not come
 *   Worker      two of them, with a timer of that name each: expiry, callback, on_free, free
 *   Maker       makes a third timer of that name at any time and never starts it; dismisses it at any time, or keeps it until all
 *               waits are over
 *
 * timer.pml shows how a timer is cancelled and begins: here its word changes in steps that are atomic.  The chain of the name has two
 * parts: the timers that are alive, oldest first, and the zombies, newest first.  A waiter walks over the first part, then over the
 * second.  It lets go of the lock at any time, not after 256 entries.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The word. */
#define NEW       0
#define PENDING   1
#define READY     2
#define RUNNING   3

/* The timers, in order of their making; the last is the one that is never started. */
#define TIMERS    3
#define UNSTARTED 2
#define NONE      3 /* the end of a part */

/* The parts of the chain. */
#define ALIVE   0
#define ZOMBIES 1
#define NOWHERE 2

#define WAITERS 2

byte word[TIMERS];
bool cancelled[TIMERS];  /* a bit of the word */
bool delivered[TIMERS];  /* by a cancel: in the inbox of the worker */
bool latch[WAITERS];     /* a waiter sleeps until it is open */

/* Guarded by the lock of the shard. */
bool locked;
byte head[2] = NONE;
byte next[TIMERS] = NONE;
byte on[TIMERS] = NOWHERE;
byte walks[WAITERS] = NOWHERE; /* the part that the waiter walks over */
bool sleeps[WAITERS];
byte cursor[WAITERS] = NONE;   /* the next entry */
byte end[WAITERS] = NONE;      /* the first entry that was added after the walk had begun */

/* The model judges these; nobody acts on them. */
bool freed[TIMERS];
bool on_freed[TIMERS];
byte over;               /* waits that have returned, or never come */
bool is_kept;            /* constant: the third timer is dismissed after all waits */

#define BIT(timer) (1 << (timer))
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

/* -- the chain; under the lock -- */

inline was_added(waiter, timer)
{
        if
#ifndef MUTANT_ADDED_UNSEEN
        :: walks[waiter] == ALIVE && end[waiter] == NONE -> end[waiter] = timer
#endif
        :: else
        fi
}

inline add(timer)
{
        touch(timer);
        next[timer] = NONE;
        on[timer] = ALIVE;
        if
        :: head[ALIVE] == NONE ->
                head[ALIVE] = timer
        :: else ->
                last = head[ALIVE];
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
        was_added(0, timer);
        was_added(1, timer)
}

/* A cursor lies on its waiter's stack: it is there while the waiter walks. */
inline move_on(waiter, timer)
{
        if
        :: walks[waiter] == on[timer] && cursor[waiter] == timer ->
#ifndef MUTANT_CURSOR_LEFT
                cursor[waiter] = next[timer];
#endif
                if
#ifndef MUTANT_LATCH_LEFT
                :: sleeps[waiter] ->
                        latch[waiter] = true;
                        sleeps[waiter] = false
#endif
                :: else
                fi
        :: else
        fi;
        if
#ifndef MUTANT_END_LEFT
        :: walks[waiter] == on[timer] && end[waiter] == timer -> end[waiter] = next[timer]
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

inline become_zombie(timer)
{
        unlink(timer);
        next[timer] = head[ZOMBIES];
        head[ZOMBIES] = timer;
        on[timer] = ZOMBIES
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

/* The worker of one timer. */
proctype Worker(byte timer)
{
        byte last;

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
                word[timer] = RUNNING
        };
#ifdef MUTANT_UNLINK_BEFORE_ON_FREE
        unlink_and_free(timer);
        on_freed[timer] = true
#else
        on_freed[timer] = true;
        unlink_and_free(timer)
#endif
}

proctype Maker()
{
        byte last;

        atomic {
                lock();
                add(UNSTARTED);
                unlock()
        };
        if
        :: is_kept -> over == WAITERS
        :: !is_kept
        fi;
        unlink_and_free(UNSTARTED) /* dismisses it */
}

/* -- cancel by name -- */

/* Cancels timers that are alive.  Sets the bits of those that it has made READY, and so must deliver. */
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
                become_zombie(timer)
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
                entry = head[ALIVE]
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
#define ON_ITS_WAY(timer) true
#elif defined(MUTANT_READY_PASSED)
#define ON_ITS_WAY(timer) (word[timer] == RUNNING)
#else
#define ON_ITS_WAY(timer) (word[timer] == READY || word[timer] == RUNNING)
#endif

#define WAITED_FOR(part, timer) ((part) == ZOMBIES && ON_ITS_WAY(timer) || (part) == ALIVE && word[timer] == RUNNING)

inline is_there(part, timer)
{
        if
        :: on[timer] == part -> there = there | BIT(timer)
        :: else
        fi
}

inline walk_begin(part)
{
        d_step {
                walks[who] = part;
                cursor[who] = head[part];
                end[who] = NONE;
                there = 0;
                is_there(part, 0);
                is_there(part, 1);
                is_there(part, UNSTARTED)
        }
}

inline walk_end()
{
        d_step {
                walks[who] = NOWHERE;
                cursor[who] = NONE;
                end[who] = NONE;
                latch[who] = false;
                there = 0;
                found = false
        }
}

#define AT cursor[who]
#define AT_END (AT == NONE || AT == end[who])

/* Under the lock, which is let go when there is somebody to wait for. */
inline walk(part)
{
        walk_begin(part);
        do
        :: AT_END -> break
        :: d_step {
                !AT_END ->
                entry = AT;
                touch(entry);
                assert(there & BIT(entry)); /* it visits nothing that came after its beginning */
                assert(end[who] == NONE || !freed[end[who]]);
                found = WAITED_FOR(part, entry);
                if
#ifdef MUTANT_LATCH_CLOSED_LATE
                :: found ->
                        sleeps[who] = true
#else
                :: found -> /* under the lock still: from here on the latch may be opened */
                        sleeps[who] = true;
                        latch[who] = false;
                        locked = false
#endif
                :: else ->
                        AT = next[entry]
                fi
           };
           if
           :: found ->
#ifdef MUTANT_LATCH_CLOSED_LATE
                unlock();
                latch[who] = false;
#endif
                atomic {
                        latch[who] && !locked -> locked = true
                }
           :: !found
           :: !found ->
                unlock(); /* so many at once */
                lock()
           fi
        od;
        entry = 0;
        walk_end()
}

inline must_wait_for(timer)
{
        if
        :: on[timer] == ZOMBIES && (word[timer] == READY || word[timer] == RUNNING) -> had = had | BIT(timer)
        :: on[timer] == ALIVE && word[timer] == RUNNING -> had = had | BIT(timer)
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
        :: who == 0 || is_kept -> left = 0
        :: who == 0 || is_kept -> left = TIMERS
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
        lock();
#ifndef MUTANT_ALIVE_UNWALKED
        walk(ALIVE);
#endif
#ifndef MUTANT_ZOMBIES_UNWALKED
        walk(ZOMBIES);
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
out:
        over++
}

init
{
        byte last;

        if
        :: is_kept = true
        :: is_kept = false
        fi;
        d_step {
                add(0);
                add(1);
                word[0] = PENDING;
                word[1] = PENDING
        };
        atomic {
                run Worker(0);
                run Worker(1);
                run Maker();
                run Canceller();
                run Waiter(0);
                run Waiter(1)
        };
        _nr_pr == 1;
        assert(!locked && head[ALIVE] == NONE && head[ZOMBIES] == NONE);
        assert(freed[0] && freed[1] && freed[UNSTARTED]);
        assert(on_freed[0] && on_freed[1])
}
