/* ticker.pml: a named ticker: a timer that goes from RUNNING back to PENDING, with all that may meet it in a tick.
 *
 *   Worker      the poller's thread: expiry, ticks, putting back, the last callback, free, the drain of shutdown
 *   Former      the worker that has just put the ticker back, and holds the lock of the shard still: it lets walks that wait for the
 *               tick go on.  It may have lost its poller in the tick, to the Worker
 *   Canceller   two of them: weir_timer_cancel by the ticker's name
 *   Series      weir_series_cancel of its series
 *   Resetter    weir_timer_reset by the ticker's name
 *   Waiter      weir_timer_cancel_wait with a `max` of 0
 *   Shutdown    weir_shutdown
 *   Monitor     not in the code: chooses the processes that come, and judges the outcome when all others have ended
 *
 * States of the word after the start; timer.pml shows the start:
 *
 *      PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING and EXPIRED: a tick --> RUNNING: the last callback
 *         ^---------------worker, when reset---'                 |                                |
 *         `------------------------------worker------------------'
 *
 * After TICKS ticks it has reached its limit; it may stop itself before.  Of time, the model knows whether a tick is due by a
 * reset or otherwise.  With `waits_for_wait` the ticker does not tick a second time before the wait is over, so that a lost
 * wake-up shows.  Without it a wait that goes on from tick to tick shows.  Of the walks over names, the model has their effect on
 * one entry: whether they are at it, and whether they sleep there (wait.pml has the lists).
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The atomic word of the ticker. */
#define PENDING   1
#define READY     2
#define RUNNING   3
#define STATE     7  /* the mask of the state */
#define CANCELLED 8  /* by name: the last callback sees -ECANCELED */
#define EXPIRED   16 /* READY because its deadline came; RUNNING in a tick */
#define REARMED   32 /* reset when READY and EXPIRED */
#define QUEUED    64 /* READY by a cancel by name, which has left its node in the queue */

#define TICKING (RUNNING | EXPIRED)
#define is_ticking(word) (((word) & (STATE | EXPIRED | CANCELLED)) == TICKING)

#define TICKS 2

/* How it ended. */
#define OK        0
#define ECANCELED 1
#define ESHUTDOWN 2
#define NOTHING   3

/* Deadlines. */
#define IN_TURN  false
#define BY_RESET true

/* Where the shard has it. */
#define NOWHERE 0
#define ALIVE   1
#define ZOMBIE  2

/* The other processes that come; one bit each. */
#define CANCEL  1
#define CANCEL2 2
#define SERIES_CANCEL 4
#define RESET   8
#define WAIT    16
#define KNOWN   32 /* that it was decided */

/* The locks; the number is the rank and the bit. */
#define SERIES 1
#define SHARD  2
#define POLLER 4

byte word = PENDING;
byte status = OK;     /* owner of the delivery, then the worker */
bool freed;

byte linked = ALIVE;  /* guarded by SHARD */
bool deadline;        /* guarded by POLLER: the deadline with which the node was queued, or will be */
bool asked;           /* guarded by POLLER: a reset in a tick says when the next one is due */
bool in_queue = true; /* guarded by POLLER */
bool closing;         /* guarded by POLLER */
bool current = true;  /* guarded by SERIES */
bool over;            /* guarded by SERIES: the series has ended */
bool cause;           /* written under SERIES, read without */
bool last;            /* written by its callback, and under POLLER: no tick after the present one */
bool inbox;           /* lock-free */
bool drain_asked, drained, exit_asked;
byte locks;           /* the locks somebody holds */
bool pass_asked;      /* the ticker is back in the queue, and the Former is about to pass the walks */
byte count;           /* the worker's: ticks that have begun */

/* The waiter's two walks, one after the other; guarded by SHARD. */
bool at_alive, at_zombie; /* the walk is at the ticker */
bool sleeps;             /* and its waiter sleeps there */
bool latch;

/* The Monitor judges these; nobody acts on them. */
bool waits_for_wait;  /* chosen at the beginning */
bool waited;          /* the wait is over, or never comes */
bool inside;          /* a callback runs */
byte turns;           /* how often it became RUNNING */
byte began, ended;    /* callbacks */
byte lasts;           /* the last callback */
byte saw = NOTHING;
byte on_frees;
byte counted;
bool stopped;
bool owed;            /* a reset has counted it, and no tick has begun since */
bool by_series;       /* the series' cancel came before the last callback was decided on */
bool cancelled;       /* a cancel that ended it, by name or of the series, has returned */
byte coming;

#define reached(what) if :: what -> skip :: else fi

active proctype Monitor()
{
        atomic {
                if
                :: coming = 0
                :: coming = CANCEL
                :: coming = CANCEL | CANCEL2
                :: coming = RESET
                :: coming = RESET | CANCEL
                :: coming = SERIES_CANCEL
                :: coming = SERIES_CANCEL | CANCEL
                :: coming = SERIES_CANCEL | RESET
                :: coming = WAIT
                :: coming = WAIT | CANCEL
                fi;
                if
                :: coming == WAIT -> waits_for_wait = true
                :: true
                fi;
                waited = !(coming & WAIT);
                coming = coming | KNOWN
        };
        _nr_pr == 1 -> /* all others have ended */
        assert(locks == 0 && !pass_asked);
        assert(freed && !linked && !current && over && on_frees == 1);
        assert(lasts == 1 && !inside && began == ended);
        assert(counted <= 1);
        if
        :: counted || by_series -> assert(saw == ECANCELED)
        :: else -> assert(saw != ECANCELED || cause)
        fi;
        assert(saw != OK || stopped || count == TICKS);
        assert(saw != ESHUTDOWN || !(stopped || count == TICKS));
        assert(!owed || saw != OK || stopped);
        reached(saw == OK && stopped && count == 1);
        reached(saw == OK && !stopped);
        reached(saw == ESHUTDOWN && count == 0);
        reached(saw == ESHUTDOWN && count == 1);
        reached(saw == ECANCELED && counted && count == TICKS);
        reached(saw == ECANCELED && counted && stopped);
        reached(saw == ECANCELED && by_series && !counted && count == 1);
        reached(owed && saw == OK && stopped);
        reached(owed && saw == ESHUTDOWN)
}

#define touch() assert(!freed)

inline lock(rank)
{
        atomic {
                (locks & rank) == 0 ->
                assert(held < rank); /* only upward, and never twice */
                locks = locks | rank;
                held = held | rank
        }
}

inline unlock(rank)
{
        atomic {
                assert(held & rank);
                locks = locks & (7 - rank);
                held = held & (7 - rank)
        }
}

inline insert(when)
{
        d_step {
                touch();
                assert(!in_queue && !drained);
                deadline = when;
                in_queue = true
        }
}

inline take_out()
{
        d_step {
                touch();
                assert(in_queue);
                in_queue = false
        }
}

inline set_status(how)
{
        d_step {
                touch();
                status = how
        }
}

inline make_ready(how, flags, owned)
{
        d_step {
                touch();
                if
                :: word == PENDING ->
                        word = READY | flags;
                        status = how;
                        owned = true
                :: else
                fi
        }
}

inline push()
{
        d_step {
                touch();
                assert(held == 0 && !inbox);
                inbox = true
        }
}

/* -- the walks; under SHARD -- */

/* It is taken out of where it is. */
inline walks_pass()
{
        if
        :: (linked == ALIVE && at_alive) || (linked == ZOMBIE && at_zombie) ->
                at_alive = false;
                at_zombie = false;
                latch = (sleeps -> true : latch);
                sleeps = false
        :: else
        fi
}

/* A tick has returned and the ticker goes on: a walk that sleeps there leaves it. */
inline pass()
{
        atomic {
                touch();
                if
                :: at_alive && sleeps ->
#ifndef MUTANT_TICK_AFTER_TICK
                        at_alive = false;
#endif
                        latch = true;
                        sleeps = false
                :: else
                fi
        }
}

inline unlink_and_free()
{
        lock(SHARD);
        atomic {
                touch();
                assert(linked && !in_queue);
                walks_pass();
                linked = NOWHERE;
                freed = true;
                word = 0; /* nobody looks any more: fewer states */
                status = OK;
                deadline = false;
                unlock(SHARD)
        }
}

/* -- cancels -- */

#define ME (_pid == 1 -> CANCEL : CANCEL2)

active [2] proctype Canceller()
{
        byte held;
        bool took, mine;

        if
        :: coming & ME
        :: coming && !(coming & ME) -> goto out
        fi;
        lock(SHARD);
        if
        :: linked != ALIVE ->
                skip
        :: else ->
                d_step { /* a compare-and-swap of what was loaded, in a loop */
                        touch();
                        assert(!(word & CANCELLED));
                        if
                        :: word == PENDING ->
                                word = READY | CANCELLED | QUEUED;
                                mine = true;
                                took = true
#ifdef MUTANT_CANCEL_OF_THE_LAST
                        :: (word & STATE) == READY || (word & STATE) == RUNNING ->
#else
                        :: (word & STATE) == READY || is_ticking(word) ->
#endif
                                word = word | CANCELLED;
                                took = true
                        :: else
                        fi
                };
                d_step {
                        if
                        :: took -> /* it leaves its name */
                                touch();
                                walks_pass();
                                linked = ZOMBIE;
                                counted++
                        :: else -> assert((word & STATE) == RUNNING)
                        fi
                }
        fi;
        unlock(SHARD);
        if
        :: mine -> push()
        :: else
        fi;
        cancelled = (took -> true : cancelled);
out:
        atomic { took = false; mine = false }
}

active proctype Series()
{
        byte held;
        bool mine;

        if
        :: coming & SERIES_CANCEL
        :: coming && !(coming & SERIES_CANCEL) -> goto out
        fi;
        lock(SERIES);
        if
        :: over ->
                skip
        :: else ->
                cause = true;
                if
                :: current ->
                        lock(POLLER);
                        d_step {
                                touch();
                                by_series = ((word & STATE) != RUNNING || is_ticking(word))
                        };
                        make_ready(ECANCELED, 0, mine);
                        if
                        :: mine -> take_out()
                        :: else ->
                                d_step {
                                        touch();
                                        if
                                        :: (word & STATE) == READY -> word = word & (127 - EXPIRED) /* cannot be reset any more */
                                        :: else
                                        fi
                                };
#ifndef MUTANT_RESET_UNFORBIDDEN
                                last = true
#endif
                        fi;
                        unlock(POLLER)
                :: else
                fi
        fi;
        unlock(SERIES);
        if
        :: mine -> push()
        :: else
        fi;
        cancelled = (by_series -> true : cancelled);
out:
        mine = false
}

/* -- reset -- */

#define counts_reset() assert(!cancelled && !stopped_before); owed = true

active proctype Resetter()
{
        byte held, found;
        bool stopped_before; /* the tick had stopped it before the reset came to it */

        if
        :: coming & RESET
        :: coming && !(coming & RESET) -> goto out
        fi;
        lock(SHARD);
        if
        :: linked != ALIVE ->
                skip
        :: else ->
                lock(POLLER);
                d_step {
                        touch();
                        found = word;
                        stopped_before = stopped
                };
                if
                :: !closing && (found & STATE) == PENDING ->
                        take_out();
                        insert(BY_RESET);
                        d_step {
                                counts_reset()
                        }
                :: !closing && (found & (STATE | EXPIRED)) == (READY | EXPIRED) ->
                        d_step { /* the deadline, and a compare-and-swap; when it fails the deadline is as it was */
                                touch();
                                if
                                :: (word & (STATE | EXPIRED)) == (READY | EXPIRED) ->
                                        deadline = BY_RESET;
                                        word = word | REARMED;
                                        counts_reset();
                                        found = 0
                                :: else -> found = word
                                fi
                        }
                :: else
                fi;
                if /* in a tick, also when it has begun just now */
                :: !closing && is_ticking(found) ->
                        d_step {
                                touch();
#ifdef MUTANT_RESET_IN_THE_LAST_TICK
                                if
                                :: true ->
#else
                                if
                                :: !last ->
#endif
                                        counts_reset();
                                        asked = true
                                :: else
                                fi
                        }
                :: else
                fi;
                unlock(POLLER)
        fi;
        unlock(SHARD);
out:
        skip
}

/* -- wait -- */

#define ON_ITS_WAY ((word & STATE) == RUNNING || (word & STATE) == READY)

/* The zombies of the name. */
inline walk_zombies()
{
        at_zombie = (linked == ZOMBIE);
        do
        :: !at_zombie -> break
        :: at_zombie ->
                atomic {
                        touch();
                        assert(ON_ITS_WAY);
                        latch = false;
                        sleeps = true;
                        unlock(SHARD)
                };
                latch;
                lock(SHARD)
        od
}

active proctype Waiter()
{
        byte held, begun, slept;
        bool is_zombie, paused;

        if
        :: coming & WAIT
        :: coming && !(coming & WAIT) -> goto out
        fi;
        d_step {
                begun = began;
                is_zombie = (linked == ZOMBIE)
        };
        lock(SHARD);
#ifdef MUTANT_ZOMBIES_FIRST
        walk_zombies();
#endif
        at_alive = (linked == ALIVE);
        do
        :: !at_alive -> break
        :: at_alive && !paused -> /* after 256 others, or asleep at one that comes before */
                atomic {
                        paused = true;
                        unlock(SHARD)
                };
                lock(SHARD)
        :: at_alive ->
                touch();
                if
                :: (word & STATE) == RUNNING ->
                        atomic {
#ifndef MUTANT_LATCH_CLOSED_LATE
                                latch = false;
#endif
                                assert(slept == 0 || slept == turns || !inside); /* not from tick to tick */
                                slept = (inside -> turns : slept);
                                sleeps = true;
                                unlock(SHARD)
                        };
#ifdef MUTANT_LATCH_CLOSED_LATE
                        latch = false;
#endif
                        latch;
                        lock(SHARD)
                :: else -> at_alive = false
                fi
        od;
#ifndef MUTANT_ZOMBIES_FIRST
        walk_zombies();
#endif
        unlock(SHARD);
        d_step {
                assert(ended >= begun);
                assert(!is_zombie || on_frees == 1);
                waited = true;
                begun = 0; /* nobody looks any more: fewer states */
                slept = 0;
                is_zombie = false;
                paused = false;
                latch = false
        };
out:
        skip
}

/* -- on the worker -- */

inline call_begins()
{
        d_step {
                touch();
                assert(held == 0 && !inside);
                inside = true;
                began++
        }
}

inline call_ends()
{
        d_step {
                touch();
                inside = false;
                ended++
        }
}

/* Back into the queue: REARMED, or at the end of a tick.  The word is `seen`. */
inline rearm(when)
{
        lock(POLLER);
        called_off = cause;
#ifdef MUTANT_REARM_UNCAUSED
        called_off = false;
#endif
        if
        :: called_off || closing ->
                set_status((called_off -> ECANCELED : ESHUTDOWN))
        :: else ->
                insert(when);
                d_step {
                        asked = false;
#ifndef MUTANT_LIMIT_UNSEEN
                        last = (is_ticking(seen) && count + 1 == TICKS -> true : last);
#endif
                        touch();
                        if
#ifdef MUTANT_REARM_STORES
                        :: true ->
#else
                        :: word == seen ->
#endif
                                word = PENDING;
                                again = true;
                                assert(!cancelled)
                        :: else -> in_queue = false /* it has just been cancelled */
                        fi
                }
        fi;
        unlock(POLLER)
}

inline take_node()
{
        lock(POLLER);
        atomic {
                touch();
                in_queue = false; /* it may have expired since */
                word = READY | CANCELLED;
                unlock(POLLER)
        }
}

/* Of a READY one: RUNNING, or PENDING once more: `again`. */
inline begin()
{
        d_step {
                touch();
                seen = word;
                assert((seen & STATE) == READY)
        };
        if
        :: seen & QUEUED -> take_node(); seen = READY | CANCELLED
        :: else
        fi;
        do
        :: again || (seen & STATE) == RUNNING -> break
        :: !again && (seen & STATE) == READY && (seen & CANCELLED) ->
                d_step {
                        touch();
                        seen = CANCELLED | RUNNING;
                        word = seen;
                        turns++
                }
        :: !again && (seen & (STATE | CANCELLED)) == READY ->
                if
                :: seen & REARMED -> rearm(deadline)
                :: else
                fi;
                if
                :: again
                :: else ->
                        d_step {
                                touch();
                                if
                                :: word == seen ->
                                        seen = (seen & (127 - STATE)) | RUNNING;
                                        word = seen;
                                        turns++;
                                        assert(!owed || deadline == BY_RESET || status != OK);
                                        owed = (status == OK && (seen & EXPIRED) -> false : owed)
                                :: else -> seen = word
                                fi
                        }
                fi
        od;
        if
        :: again
        :: else ->
                called_off = cause;
                if
                :: (seen & CANCELLED) || called_off -> set_status(ECANCELED)
                :: else
                fi
        fi
}

/* If there is one, and back into the queue: `again`. */
inline tick()
{
        d_step {
                touch();
                seen = word;
                ticks = (status == OK && is_ticking(seen))
        };
        if
        :: ticks ->
                d_step {
                        touch();
                        count++;
                        assert(count <= TICKS && lasts == 0)
                };
                call_begins();
                if
                :: atomic { /* weir_ticker_stop */
                        !(coming & WAIT) ->
                        stopped = true;
                        last = true
                   }
                :: true
                fi;
                call_ends();
#ifdef MUTANT_LAST_UNSEEN
                if
                :: count < TICKS ->
#else
                if
                :: !last ->
#endif
                        lock(SHARD);
#ifdef MUTANT_PASS_BEFORE_REARM
                        pass();
#endif
#if defined(MUTANT_PASS_BEFORE_REARM) || defined(MUTANT_PASS_BEHIND_REARM)
                        unlock(SHARD);
#endif
#ifdef MUTANT_RESET_LOST
                        rearm(IN_TURN);
#else
                        rearm(asked);
#endif
#ifdef MUTANT_PASS_BEHIND_REARM
                        pass_asked = (coming & WAIT -> again : false)
#elif !defined(MUTANT_PASS_BEFORE_REARM)
                        if
                        :: again && (coming & WAIT) -> /* the Former goes on with the lock */
                                atomic {
                                        held = held & (7 - SHARD);
                                        pass_asked = true
                                }
                        :: else -> unlock(SHARD)
                        fi
#endif
                :: else
                fi
        :: else
        fi
}

/* EXPIRED goes, unless a cancel came before; and the series is looked at. */
inline end_ticking()
{
        d_step {
                touch();
                if
#ifndef MUTANT_EXPIRED_LEFT
                :: is_ticking(word) -> word = word & (127 - EXPIRED)
#endif
                :: else
                fi;
                seen = word
        };
#ifndef MUTANT_CAUSE_UNSEEN
        called_off = cause;
#endif
        if
        :: (seen & CANCELLED) || called_off -> set_status(ECANCELED)
        :: else
        fi
}

inline end()
{
        end_ticking();
        call_begins();
        d_step {
                lasts++;
                saw = status
        };
        call_ends();
        on_frees++;
        lock(SERIES);
        atomic {
                touch();
                current = false;
                unlock(SERIES)
        };
        unlink_and_free();
        lock(SERIES);
        atomic {
                over = true;
                unlock(SERIES)
        }
}

active proctype Worker()
{
        byte held, seen;
        bool ready, again, called_off, ticks;

        coming;
        do
        :: d_step {
                inbox ->
                assert(!ready);
                inbox = false;
                ready = true
           }
        :: atomic { /* the deadline has come */
                in_queue && !closing && !(locks & POLLER) && (!waits_for_wait || count == 0 || waited) ->
                lock(POLLER);
                take_out();
                make_ready(OK, EXPIRED, ready); /* else a cancel by name was before, and has delivered it */
                unlock(POLLER)
           }
        :: ready ->
                ready = false;
                begin();
                if
                :: again -> again = false
                :: else ->
                        tick();
                        if
                        :: again -> again = false
                        :: else -> end()
                        fi
                fi;
                seen = 0;
                called_off = false;
                ticks = false
        :: ready && (word & QUEUED) -> take_node()
        :: d_step {
                drain_asked ->
                drain_asked = false
           };
           lock(POLLER);
           closing = true;
           if
           :: in_queue ->
                take_out();
                make_ready(ESHUTDOWN, 0, ready)
           :: else
           fi;
           atomic {
                drained = true;
                unlock(POLLER)
           }
        :: atomic { exit_asked && !inbox && !ready && !drain_asked -> break }
        od;
        assert(!in_queue && over)
}

active proctype Former()
{
        byte held;

        do
        :: pass_asked ->
#ifdef MUTANT_PASS_BEHIND_REARM
                lock(SHARD);
#else
                held = held | SHARD;
#endif
#ifndef MUTANT_NOT_PASSED
                pass();
#endif
                pass_asked = false;
                unlock(SHARD)
        :: atomic { exit_asked && freed && !pass_asked -> break }
        od
}

active proctype Shutdown()
{
        coming && waited; /* a wait and shutdown have nothing to do with each other */
        drain_asked = true;
        atomic { drained && over -> exit_asked = true }
}
