/* timer.pml: the claim protocol of one named timer (docs/design.md, "The protocol"), with everybody who may touch it.
 *
 *   Owner       starts the series that the timer is the only task of, or dismisses it instead
 *   Canceller   two of them: weir_timer_cancel by the timer's name
 *   Series      weir_series_cancel of that series
 *   Worker      the poller's thread: expiry, inbox, callback, on_free, free, steps of the series, the drain of shutdown
 *   Shutdown    weir_shutdown
 *   Monitor     not in the code: judges the outcome when all others have ended
 *
 * States of the word:    NEW --start--> PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING --> freed
 *                         `------start, when a cancel came first------------> READY
 *
 * A step of the model is one access to shared memory, or several of which nobody else can see the middle.  Every access to the
 * timer first asserts that it is not freed.  Each process has `held`, the locks it holds, so that the ranks are asserted too.
 * Where the code uses a plain store because the lock makes it safe, the model does the same (see store()).  roots.pml looks
 * inside the count of what is alive, wakeup.pml inside the inbox.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md tells the interleavings. */

/* The atomic word of the timer. */
#define NEW       0
#define PENDING   1
#define READY     2
#define RUNNING   3
#define STATE     3 /* the mask of the state */
#define CLAIMED   4 /* what start and cancel exchange: who sets it second acts */
#define CANCELLED 8 /* a cancel found the timer READY: the worker puts -ECANCELED in the place of the status */
#define UNNAMED  16 /* READY by a cancel by name, which takes it out of the map before it delivers it */

/* How the timer ended. */
#define OK        0
#define ECANCELED 1
#define ESHUTDOWN 2
#define NOTHING   3

/* The locks; the number is the rank and the bit. */
#define SERIES 1
#define SHARD  2
#define POLLER 4

byte word = NEW;
byte status = OK;      /* owner of the delivery only */
bool freed;

bool linked = true;    /* guarded by SHARD: the timer is in the FIFO of its name */
bool waiting = true;   /* guarded by SERIES: the timer waits in the queue of its series */
bool current;          /* guarded by SERIES: it is the task the series runs */
bool over;             /* guarded by SERIES: the series has ended, or was dismissed */
bool cause;            /* written under SERIES, read without: the series is cancelled */
bool in_queue;         /* guarded by POLLER: it is in the deadline queue */
bool closing;          /* guarded by POLLER, written by the worker: shutdown has drained the queue */
bool stopping;         /* lock-free: the phase of the runtime; shutdown has begun */
byte live;             /* lock-free: roots that were entered and have not ended */
bool inbox;            /* lock-free: the timer is in the poller's inbox */
bool step_asked;       /* the same for the series: a step of it has to be made on the worker */
bool drain_asked;      /* the same for the drain */
bool drained;          /* it was run */
bool exit_asked;       /* the worker is told to leave */
byte locks;            /* the locks somebody holds */

/* What the Monitor judges; nobody acts on these. */
bool entered;          /* its series was counted as a root */
bool accepted;         /* it was started */
bool refused;          /* start returned -ESHUTDOWN */
byte callbacks;
byte saw = NOTHING;    /* the status the callback saw */
byte on_frees;
byte counted;          /* the sum of what the cancels by name returned */
byte counted_in;       /* 1 + the state in which it was counted */
bool late;             /* a cancel by name found it RUNNING */
bool missed;           /* a cancel by name found no such name */
bool by_series;        /* the series' cancel came while its callback had not begun */
bool cancelled;        /* and has returned */
bool dropped;          /* the series ended early, before its start */
byte ended;

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
                locks = locks & (15 - rank);
                held = held & (15 - rank)
        }
}

/* A plain store.  It is safe where it stands: under the poller's lock, with CLAIMED already set, so that another party's fetch_or
 * of CLAIMED changes nothing, and CANCELLED is set under the same lock in the state READY only. */
inline store(state)
{
        d_step {
                touch();
                word = CLAIMED | state
        }
}

inline fetch_or_claimed()
{
        d_step {
                touch();
                old = word & CLAIMED;
                word = word | CLAIMED
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

/* Only the owner of the delivery pushes; the timer has one link, so it must not be in there already. */
inline push()
{
        d_step {
                touch();
                assert(held == 0 && !inbox);
                inbox = true
        }
}

/* Past the cancels by name that may still look at the timer. */
inline unname()
{
#ifdef MUTANT_FREE_UNLOCKED
        linked = false;
#else
        lock(SHARD);
        d_step {
                touch();
                linked = false
        };
        unlock(SHARD);
#endif
}

inline free()
{
        d_step {
                touch();
                assert(!linked);
                freed = true
        }
}

/* The end of a timer that never started, on whichever thread. */
inline discard()
{
        d_step {
                touch();
                assert(held == 0);
                on_frees++
        };
        unname();
        free()
}

/* The end of one whose callback ran: also past the cancels of its series.  When it was a cancel by name that delivered it, then
 * no other can find it any more, and that one looks at it no more. */
inline finish()
{
        d_step {
                touch();
                assert(held == 0);
                on_frees++
        };
#ifdef MUTANT_FREE_BESIDE_SERIES
        current = false;
#else
        lock(SERIES);
        d_step {
                touch();
                current = false
        };
        unlock(SERIES);
#endif
        if
        :: word & UNNAMED -> skip
        :: else -> unname()
        fi;
        free()
}

/* PENDING -> READY, under the poller's lock: the caller owns the delivery. */
inline take_pending(flags)
{
        take_out();
        set_status(ECANCELED);
        store(READY | flags);
        mine = true
}

/* What a cancel by name does to a timer it found, under the shard's lock, which keeps the timer alive.  `took`: it has cancelled
 * it.  `mine`: it owns the delivery as well, and pushes once it holds no lock. */
inline cancel_one()
{
#ifdef MUTANT_CANCEL_CHECKS_THEN_ACTS
        d_step {
                touch();
                old = word & CLAIMED
        };
        d_step {
                touch();
                word = word | CLAIMED
        };
#else
        fetch_or_claimed();
#endif
        if
        :: !old ->
                took = true; /* start or dismiss completes it */
                found = NEW
        :: else ->
#ifdef MUTANT_SHARD_UNLOCKED_EARLY
                unlock(SHARD);
#endif
                lock(POLLER);
                d_step {
                        touch();
                        found = word & STATE;
                        assert(found != NEW) /* a cancel that came first has taken the name away */
                };
                if
                :: found == PENDING ->
                        took = true;
                        take_pending(UNNAMED)
                :: found == READY ->
                        d_step { /* compare-and-swap, in a loop until the state is no longer READY */
                                touch();
                                if
#ifdef MUTANT_RUNNING_UNCHECKED
                                :: true ->
#else
                                :: (word & STATE) == READY ->
#endif
#ifdef MUTANT_READY_IS_UNNAMED
                                        word = word | CANCELLED | UNNAMED;
#else
                                        word = word | CANCELLED;
#endif
                                        took = true
                                :: else ->
                                        found = RUNNING
                                fi
                        };
#ifdef MUTANT_PUSH_AGAIN
                        mine = took;
#endif
                :: found == RUNNING ->
                        skip
                fi;
                unlock(POLLER);
        fi
}

inline look_at_phase()
{
        d_step {
                refused = stopping;
                entered = !stopping
        }
}

/* Entering a root: counted first, then the phase looked at. */
inline enter()
{
#ifdef MUTANT_PHASE_BEFORE_COUNT
        look_at_phase();
        live++;
#else
        live++;
        look_at_phase();
#endif
        if
        :: refused -> live--
        :: else
        fi
}

/* The start of a timer, by whoever took it out of the queue of its series. */
inline start()
{
#ifdef MUTANT_CLOSING_UNLOCKED
        shut = closing;
#endif
#ifdef MUTANT_CAUSE_UNLOCKED
        called_off = cause;
#endif
        lock(POLLER);
#if defined(MUTANT_INSERT_FIRST)
        old = false;
#elif defined(MUTANT_START_CHECKS_THEN_ACTS)
        d_step {
                touch();
                old = word & CLAIMED
        };
        d_step {
                touch();
                word = word | CLAIMED
        };
#else
        fetch_or_claimed();
#endif
#ifndef MUTANT_CAUSE_UNLOCKED
        called_off = cause;
#endif
#ifndef MUTANT_CLOSING_UNLOCKED
        shut = closing;
#endif
        if
        :: old || called_off ->
                set_status(ECANCELED);
                store(READY);
                unlock(POLLER);
                push()
        :: !old && !called_off && shut ->
                set_status(ESHUTDOWN);
                store(READY);
                unlock(POLLER);
                push()
        :: !old && !called_off && !shut ->
                d_step {
                        assert(!cancelled);
                        in_queue = true
                };
#ifdef MUTANT_INSERT_FIRST
                d_step {
                        touch();
                        word = (word & CLAIMED) | PENDING
                };
                unlock(POLLER);
                fetch_or_claimed();
                if
                :: !old ->
                        skip
                :: else ->
                        lock(POLLER);
                        if
                        :: in_queue ->
                                take_pending(0);
                                unlock(POLLER);
                                push()
                        :: else ->
                                unlock(POLLER)
                        fi
                fi
#else
                store(PENDING);
                unlock(POLLER);
#endif
#ifdef MUTANT_PEEK
                touch(); /* for instance to ask for its poller, in order to wake it */
#endif
        fi
}

/* weir_series_start, or weir_series_dismiss. */
active proctype Owner()
{
        byte held, old;
        bool shut, called_off, mine, dismiss;

        if
        :: dismiss = true
        :: dismiss = false;
           enter();
           dismiss = refused
        fi;
        lock(SERIES);
        if
        :: dismiss ->
                d_step {
                        waiting = false;
                        over = true
                };
                unlock(SERIES);
                discard()
        :: !dismiss && (cause || stopping) ->
                unlock(SERIES);
                step_asked = true
        :: !dismiss && !cause && !stopping ->
                d_step {
                        waiting = false;
                        current = true;
                        accepted = true
                };
                unlock(SERIES);
                start()
        fi;
        ended++
}

/* weir_timer_cancel. */
active [2] proctype Canceller()
{
        byte held, old, found;
        bool took, mine;

        if
        :: true -> goto out /* never comes: what is not cancelled must end as well */
        :: true
        fi;
        lock(SHARD);
        if
        :: !linked ->
                missed = true /* the map has no such name; returns 0 */
        :: else ->
#ifdef MUTANT_UNLINK_UNCOUNTED
                linked = false;
#endif
                cancel_one();
#ifdef MUTANT_SHARD_UNLOCKED_EARLY
                if
                :: held == 0 -> lock(SHARD)
                :: else
                fi;
#endif
                d_step {
                        if
                        :: took ->
                                touch(); /* still before the shard is unlocked: linked means alive */
                                linked = false;
                                counted++;
                                counted_in = 1 + found
                        :: else ->
                                late = true /* keeps its name, passed over */
                        fi
                }
        fi;
        unlock(SHARD);
        if
        :: mine -> push()
        :: else
        fi;
out:
        ended++
}

/* weir_series_cancel. */
active proctype Series()
{
        byte held, found;
        bool mine;

        if
        :: true -> goto out
        :: true
        fi;
        lock(SERIES);
        if
        :: over ->
                skip
        :: else ->
#ifndef MUTANT_CAUSE_AFTER_TAKING
                cause = true;
#endif
                if
                :: current ->
                        lock(POLLER);
                        d_step {
                                touch();
                                found = word & STATE;
                                by_series = (found != RUNNING)
                        };
                        if
#ifdef MUTANT_NEW_IS_PENDING
                        :: found == PENDING || found == NEW -> take_pending(0)
#else
                        :: found == PENDING -> take_pending(0)
#endif
                        :: else /* NEW: start looks at the cause, READY: the worker does */
                        fi;
                        unlock(POLLER)
                :: else
                fi
        fi;
#ifdef MUTANT_CAUSE_AFTER_TAKING
        cause = !over;
#endif
        unlock(SERIES);
        if
        :: mine -> push()
        :: else
        fi;
        d_step {
                cancelled = cause;
                assert(!cancelled || !in_queue)
        };
out:
        ended++
}

/* The worker's delivery of a READY timer, and its end. */
inline deliver()
{
#ifdef MUTANT_RUNNING_STORED
        d_step {
                touch();
                seen = word
        };
        d_step {
                touch();
                word = CLAIMED | (seen & UNNAMED) | RUNNING
        };
#else
        do
        :: d_step {
                touch();
                seen = word;
                assert((seen & STATE) == READY)
           };
           if
           :: d_step {
                word == seen ->
                touch();
                word = (seen & (CLAIMED | CANCELLED | UNNAMED)) | RUNNING
              };
              break
           :: word != seen -> skip /* a CANCELLED came in between */
           fi
        od;
#endif
#ifdef MUTANT_CAUSE_UNSEEN
        called_off = false;
#else
        called_off = cause;
#endif
        if
        :: (seen & CANCELLED) || called_off -> set_status(ECANCELED)
        :: else
        fi;
        d_step {
                touch();
                assert(held == 0);
                callbacks++;
                assert(callbacks == 1);
                saw = status
        };
        /* Inside the callback: maybe the timer cancels its own name, and looks at weir_timer_count. */
        if
        :: lock(SHARD);
           d_step {
                touch();
                assert((word & STATE) == RUNNING);
                assert(linked || counted == 1)
           };
           unlock(SHARD)
        :: true
        fi;
        finish()
}

/* A step of the series on the worker: drops what has not started, or ends the series. */
inline step()
{
        lock(SERIES);
        if
        :: waiting ->
                d_step {
                        assert(cause || stopping);
                        waiting = false;
                        dropped = true
                };
                unlock(SERIES);
                discard();
                lock(SERIES)
        :: else
        fi;
        over = true;
        unlock(SERIES);
        live--
}

/* The worker's part of weir_shutdown. */
inline drain()
{
        lock(POLLER);
        closing = true;
#ifdef MUTANT_LOCK_ORDER
        lock(SHARD);
        linked = false;
        unlock(SHARD);
#endif
        if
        :: in_queue ->
                take_out();
                set_status(ESHUTDOWN);
                store(READY);
                assert(!ready);
                ready = true
#ifdef MUTANT_SHUTDOWN_OVERWRITES
        :: !in_queue && !freed && (word & STATE) == READY ->
                status = ESHUTDOWN
        :: !in_queue && !(!freed && (word & STATE) == READY)
#else
        :: else
#endif
        fi;
        unlock(POLLER);
        drained = true
}

active proctype Worker()
{
        byte held, seen;
        bool ready; /* the worker's own list */
        bool called_off;

        do
        :: d_step {
                inbox ->
                assert(!ready);
                inbox = false;
                ready = true
           }
        :: in_queue && !closing -> /* the deadline has come; but a far one never does when closing.  Asked again under the lock */
                lock(POLLER);
                if
                :: in_queue ->
                        take_out();
#ifdef MUTANT_READY_OUTSIDE
                        unlock(POLLER);
                        store(READY);
#else
                        store(READY);
                        unlock(POLLER);
#endif
                        assert(!ready);
                        ready = true
                :: else ->
                        unlock(POLLER)
                fi
        :: ready ->
                ready = false;
                deliver();
                step_asked = true /* made at once; whether by way of the inbox makes no difference */
        :: d_step {
                step_asked ->
                step_asked = false
           };
           step()
        :: d_step {
                drain_asked ->
                drain_asked = false
           };
           drain()
        :: atomic { exit_asked && !inbox && !ready && !step_asked && !drain_asked -> break }
        od;
        assert(!in_queue && (!entered || over));
        ended++
}

/* weir_shutdown: it may come at any time, also after everything else. */
active proctype Shutdown()
{
        stopping = true;
        drain_asked = true;
#ifdef MUTANT_EXIT_WHEN_EMPTY
        drained ->
#else
        atomic { drained && live == 0 -> skip };
#endif
        exit_asked = true;
        ended++
}

/* Each row of docs/contract.md the model can tell apart must also be possible: check.sh wants every statement reached. */
#define row(number, when)                               \
        if                                              \
        :: when -> printf("row %d\n", number)           \
        :: else                                         \
        fi

#define RAN (callbacks == 1)

active proctype Monitor()
{
        ended == 6 ->
        assert(locks == 0);
        assert(freed && !linked && !waiting && !current && over);
        assert(on_frees == 1);
        assert(callbacks == (accepted -> 1 : 0));
        assert(!(accepted && refused));
        assert(counted <= 1);
        if
        :: !accepted -> assert(saw == NOTHING)
        :: accepted && (counted || by_series) -> assert(saw == ECANCELED)
        :: accepted && !counted && !by_series -> assert(saw == OK || saw == ESHUTDOWN || cause)
        fi;
        row(1, RAN && saw == OK);
        row(2, RAN && counted_in == 1 + NEW);
        row(3, RAN && counted_in == 1 + PENDING);
        row(4, RAN && counted_in == 1 + READY);
        row(5, RAN && saw == OK && late);
        row(7, RAN && counted && missed);
        row(9, !accepted && !refused && !dropped && !counted);
        row(10, !accepted && !refused && counted);
        row(11, dropped && cause);
        row(12, RAN && by_series && !counted);
        row(14, RAN && saw == ESHUTDOWN);
        row(16, refused);
        row(17, missed && !counted)
}
