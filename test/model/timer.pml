/* timer.pml: the protocol of one named timer (docs/design.md, "The states of a timer"), with all that may touch it.
 *
 *   Owner       starts the series whose only task the timer is, or dismisses it instead; the timer may have been made before
 *               there were pollers
 *   Canceller   two of them: weir_timer_cancel by the timer's name
 *   Series      weir_series_cancel of that series
 *   Resetter    weir_timer_reset (or _extend) by the timer's name
 *   Worker      the poller's thread: expiry, inbox, callback, on_free, free, steps of the series, the drain of shutdown
 *   Shutdown    weir_shutdown
 *   Monitor     not in the code: chooses the processes that come, and judges the outcome when all others have ended
 *
 * States of the word:    NEW --start--> PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING
 *                         |                `----<----worker, when reset----<----'
 *                         `-----start, when a cancel came first-------------> READY
 *
 * Owner, Worker and Shutdown always come.  Every set of the others is tried, but the second Canceller only meets a timer that was
 * made when there were pollers.
 *
 * A step of the model is one access to shared memory, or several whose middle nobody else can see.  Every access to the timer
 * first asserts that it is not freed.  Each process has `held`, the locks it holds, so that the ranks are asserted too.  Where
 * the code uses a plain store because the lock makes it safe, the model does the same (start(), take_node()).  A compare-and-swap
 * that is tried again until it succeeds is one step, for one that fails changes nothing.  Of time, the model has the duration
 * that the timer was made with and the one that the reset gives it.  Other models show details: roots.pml the count of live
 * roots, wakeup.pml the inbox, wait.pml waits for the end, ids.pml timers by id.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The atomic word of the timer. */
#define NEW       0
#define PENDING   1
#define READY     2
#define RUNNING   3
#define STATE     7  /* the mask of the state */
#define CANCELLED 8  /* NEW, PENDING or READY when a cancel by name met it: the callback sees -ECANCELED */
#define EXPIRED   16 /* READY because its deadline came */
#define REARMED   32 /* reset when READY and EXPIRED: the worker puts it back into the queue instead of calling back */
#define QUEUED    64 /* READY by a cancel by name, which has left its node in the queue: the worker takes it out */

/* How the timer ended. */
#define OK        0
#define ECANCELED 1
#define ESHUTDOWN 2
#define NOTHING   3

/* Durations and deadlines. */
#define MADE_WITH false
#define RESET_TO  true

/* Where the shard has it. */
#define NOWHERE 0
#define ALIVE   1 /* the timers of its name, in order of coming */
#define ZOMBIE  2 /* the zombies: a cancel by name has taken them, and they are not freed yet */

/* The other processes that come; one bit each. */
#define CANCEL  1
#define CANCEL2 2
#define SERIES_CANCEL 4
#define RESET   8
#define KNOWN   16 /* that it was decided */

/* The locks; the number is the rank and the bit. */
#define SERIES 1
#define SHARD  2
#define POLLER 4
#define FORMER 8 /* of a poller that has nothing but its lock; of the same rank, and never held together with the other */

byte word = NEW;
byte status = OK;      /* owner of the delivery only */
bool rebound = true;   /* written by its owner under SHARD and FORMER: it belongs to the poller that has a worker */
bool freed;

byte linked = ALIVE;   /* guarded by SHARD: the list that it is on */
bool duration;         /* guarded by HOME: what start adds to the time */
bool deadline;         /* guarded by POLLER: the deadline with which the node was queued, or will be */
bool waiting = true;   /* guarded by SERIES: the timer waits in the queue of its series */
bool current;          /* guarded by SERIES: it is the task the series runs */
bool over;             /* guarded by SERIES: the series has ended, or was dismissed */
bool cause;            /* written under SERIES, read without: the series is cancelled */
bool in_queue;         /* guarded by POLLER: it is in the deadline queue */
bool closing;          /* guarded by POLLER, written by the worker: shutdown drains the queue, or has drained it */
bool stopping;         /* lock-free: the phase of the runtime; shutdown has begun */
byte live;             /* lock-free: roots that were entered and have not ended */
bool inbox;            /* lock-free: the timer is in the poller's inbox */
bool step_asked;       /* the same for the series: a step of it has to be made on the worker */
bool drain_asked;      /* the same for the drain */
bool drained;          /* it was run */
bool exit_asked;       /* the worker has the order to leave */
byte locks;            /* the locks somebody holds */

/* The Monitor judges these; nobody acts on them. */
bool entered;          /* its series was counted as a root */
bool accepted;         /* it was started */
bool refused;          /* start returned -ESHUTDOWN */
byte callbacks;
byte saw = NOTHING;    /* the status the callback saw */
byte on_frees;
byte counted;          /* the sum of what the cancels by name returned */
byte counted_in;       /* 1 + the state in which it was counted */
bool reset;            /* the reset counted it */
byte reset_in;         /* 1 + the state in which it did */
bool reset_late;       /* the reset found it RUNNING */
byte coming;           /* KNOWN | the set of those who come besides */
bool late;             /* a cancel by name found it RUNNING */
bool missed;           /* a cancel by name found no such name */
bool by_series;        /* the series' cancel came while its callback had not begun */
bool cancelled;        /* and has returned */
bool dropped;          /* the series ended early, before its start */

/* Each row of docs/contract.md that the model can tell apart must also be possible: check.sh demands that every statement is
 * reached. */
#define row(number, when)                               \
        if                                              \
        :: when -> printf("row %d\n", number)           \
        :: else                                         \
        fi

#define RAN (callbacks == 1)

active proctype Monitor()
{
        atomic { /* the few first: most mutants need no more, and are found out sooner */
                coming = KNOWN;
                if
                :: true
                :: coming = coming | CANCEL
                :: coming = coming | CANCEL | CANCEL2
                fi;
                if
                :: true
                :: coming = coming | RESET
                fi;
                if
                :: true
                :: coming = coming | SERIES_CANCEL
                fi;
                if
                :: true
                :: !(coming & CANCEL2) -> rebound = false
                fi
        };
        _nr_pr == 1 -> /* all others have ended */
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
        row(17, missed && !counted);
        row(18, RAN && saw == OK && reset_in == 1 + PENDING);
        row(19, RAN && saw == OK && reset_late);
        row(20, RAN && saw == OK && reset_in == 1 + READY);
        row(21, RAN && saw == OK && reset_in == 1 + NEW)
}

#define touch() assert(!freed)

/* The lock of its poller. */
#define HOME (rebound -> POLLER : FORMER)

inline lock(rank)
{
        atomic {
                (locks & rank) == 0 ->
                assert(held < (rank == FORMER -> POLLER : rank)); /* only upward, and never twice */
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

inline insert(when)
{
        d_step {
                touch();
                assert(!in_queue && !drained && !cancelled);
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

/* PENDING -> READY by compare-and-swap, under the poller's lock: the thread that succeeds owns the delivery. */
inline make_ready(how, flags, owned)
{
        d_step {
                touch();
                if
#ifdef MUTANT_READY_STORED
                :: true ->
#else
                :: word == PENDING ->
#endif
                        word = READY | flags;
                        status = how;
                        owned = true
                :: else
                fi
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

/* Past the cancels and resets by name that may still look at the timer; then free.  Nobody else can see what lies between. */
inline unlink_and_free()
{
#ifndef MUTANT_FREE_UNLOCKED
        lock(SHARD);
#endif
#ifdef MUTANT_FREE_BEFORE_UNLINK
        freed = true;
#endif
        atomic {
                touch();
                assert(linked && !in_queue);
                linked = NOWHERE;
#ifndef MUTANT_FREE_UNLOCKED
                unlock(SHARD);
#endif
                freed = true;
                word = 0; /* nobody looks any more: fewer states */
                status = OK;
                duration = MADE_WITH;
                deadline = MADE_WITH;
                rebound = true
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
        unlink_and_free()
}

/* The end of one whose callback ran: also past the cancels of its series. */
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
        atomic {
                touch();
                current = false;
                unlock(SERIES)
        };
#endif
        unlink_and_free()
}

/* One that is not started, under the lock of its poller, under which its start looks: start or dismiss completes it. */
inline cancel_new()
{
        d_step {
                touch();
#ifdef MUTANT_NEW_UNCHECKED
                took = true
#else
                took = (word == NEW)
#endif
        };
        if
        :: took ->
                d_step {
                        touch();
                        word = NEW | CANCELLED
                }
        :: else
        fi
}

/* A compare-and-swap of what was loaded, in a loop until one succeeds or the callback has begun. */
inline end()
{
#ifdef MUTANT_SWAPS_IN_TURN
        d_step {
                touch();
                if
                :: word == PENDING ->
                        word = READY | CANCELLED | QUEUED;
                        found = PENDING;
                        took = true;
                        mine = true
                :: else
                fi
        };
        d_step {
                touch();
                if
                :: !took && (word & STATE) == READY ->
                        word = word | CANCELLED;
                        found = READY;
                        took = true
                :: !took && (word & STATE) != READY ->
                        found = RUNNING
                :: took
                fi
        }
#else
        d_step {
                touch();
                found = word & STATE;
                if
                :: found == PENDING ->
                        word = READY | CANCELLED | QUEUED;
                        took = true;
                        mine = true
#ifdef MUTANT_RUNNING_UNCHECKED
                :: found == READY || found == RUNNING ->
#else
                :: found == READY ->
#endif
                        word = word | CANCELLED;
#ifdef MUTANT_PUSH_AGAIN
                        mine = true;
#endif
                        took = true
                :: else
                fi
        }
#endif
}

/* A cancel by name acts on a timer it found, under the shard's lock, which keeps the timer alive.  `took`: it has cancelled
 * it.  `mine`: it owns the delivery as well, and pushes once it holds no lock. */
inline cancel_one()
{
        d_step {
                touch();
                found = word & STATE;
                home = HOME;
                assert(word != (NEW | CANCELLED)) /* such a one is a zombie */
        };
        if
        :: found == NEW ->
#ifdef MUTANT_CANCEL_BY_SWAP
                d_step {
                        touch();
                        if
                        :: word == NEW ->
                                word = NEW | CANCELLED;
                                took = true
                        :: else
                        fi
                }
#elif defined(MUTANT_CANCEL_UNLOCKED)
                cancel_new()
#elif defined(MUTANT_START_UNAWAITED)
                atomic {
                        if
                        :: !(locks & home) -> lock(home)
                        :: else
                        fi
                };
                if
                :: held & home ->
                        cancel_new();
                        unlock(home)
                :: else
                fi
#else
                lock(home); /* its start may be under way */
                cancel_new();
                unlock(home)
#endif
        :: else
#ifdef MUTANT_SHARD_UNLOCKED_EARLY
                -> unlock(SHARD)
#endif
        fi;
        home = 0;
        if
        :: took
#ifdef MUTANT_STARTED_MEANWHILE
        :: !took && found == NEW
        :: !took && found != NEW -> end()
#else
        :: else -> end()
#endif
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

/* The timer was made before there were pollers, or has outlived a shutdown.  A thread that has found it acts under the lock of
 * its former poller, so the owner takes that lock as well.  A thread that finds it from now on acts under the lock of the other.
 * */
inline rebind()
{
        if
        :: rebound
        :: else ->
#ifndef MUTANT_REBIND_BESIDE_SHARD
                lock(SHARD);
#endif
                lock(FORMER);
                atomic {
                        touch();
                        rebound = true;
                        unlock(FORMER);
#ifndef MUTANT_REBIND_BESIDE_SHARD
                        unlock(SHARD)
#endif
                }
        fi
}

/* The start of a timer, by the thread that took it out of the queue of its series. */
inline start()
{
        rebind();
#ifdef MUTANT_CLOSING_UNLOCKED
        shut = closing;
#endif
#ifdef MUTANT_CAUSE_UNLOCKED
        called_off = cause;
#endif
#ifdef MUTANT_DURATION_UNLOCKED
        wanted = duration;
#endif
#ifdef MUTANT_CANCELLED_UNLOCKED
        marked = word & CANCELLED;
#endif
        lock(POLLER);
#ifdef MUTANT_INSERT_FIRST
        if
        :: !closing && !cause -> insert(duration)
        :: else
        fi;
        unlock(POLLER);
        lock(POLLER);
#endif
#ifndef MUTANT_CANCELLED_UNLOCKED
        d_step {
                touch();
                marked = word & CANCELLED
        };
#endif
#ifndef MUTANT_CAUSE_UNLOCKED
        called_off = cause;
#endif
#ifndef MUTANT_CLOSING_UNLOCKED
        shut = closing;
#endif
        if
        :: marked || called_off || shut ->
                d_step {
                        touch();
                        status = (marked -> OK : (called_off -> ECANCELED : ESHUTDOWN)); /* CANCELLED says enough */
                        word = READY | (marked -> CANCELLED : 0)
                };
                unlock(POLLER);
                push()
        :: else ->
#ifdef MUTANT_DURATION_UNLOCKED
                insert(wanted);
#elif !defined(MUTANT_INSERT_FIRST)
                insert(duration);
#endif
#ifdef MUTANT_PENDING_UNLOCKED
                unlock(POLLER);
#endif
                d_step {
                        touch();
                        word = PENDING
                };
#ifndef MUTANT_PENDING_UNLOCKED
                unlock(POLLER);
#endif
#ifdef MUTANT_PEEK
                touch(); /* for instance to ask for its poller, in order to wake it */
#endif
                skip
        fi
}

/* weir_series_start, or weir_series_dismiss. */
active proctype Owner()
{
        byte held, marked;
        bool shut, called_off, dismiss, wanted;

        coming;
        if
        :: enter();
           dismiss = refused
        :: dismiss = true
        fi;
        lock(SERIES);
        if
        :: dismiss ->
                atomic {
                        waiting = false;
                        over = true;
                        unlock(SERIES)
                };
                discard()
        :: !dismiss && (cause || stopping) ->
                atomic {
                        unlock(SERIES);
                        step_asked = true
                }
        :: !dismiss && !cause && !stopping ->
                atomic {
                        waiting = false;
                        current = true;
                        accepted = true;
                        unlock(SERIES)
                };
                start()
        fi
}

#define ME (_pid == 2 -> CANCEL : CANCEL2)

/* weir_timer_cancel. */
active [2] proctype Canceller()
{
        byte held, found, home;
        bool took, mine;

        if
        :: coming & ME
        :: coming && !(coming & ME) -> goto out
        fi;
        lock(SHARD);
        if
        :: linked != ALIVE ->
                missed = true /* the map has no such name; returns 0 */
        :: else ->
#ifdef MUTANT_UNLINK_UNCOUNTED
                linked = ZOMBIE;
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
                                linked = ZOMBIE;
                                counted++;
                                counted_in = 1 + found
                        :: else ->
                                assert((word & STATE) == RUNNING); /* decisive until then */
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
        skip
}

/* The lock of the poller that the timer belongs to; its start may be moving it to another. */
inline lock_present_home()
{
        do
        :: home = HOME;
           lock(home);
           if
           :: home == HOME -> break
           :: else -> unlock(home)
           fi
        od
}

/* weir_series_cancel. */
active proctype Series()
{
        byte held, home;
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
#ifndef MUTANT_CAUSE_AFTER_TAKING
                cause = true;
#endif
                if
                :: current ->
                        lock_present_home();
                        atomic {
                                touch();
                                by_series = ((word & STATE) != RUNNING)
                        };
                        make_ready(ECANCELED, 0, mine);
                        if
                        :: mine -> take_out()
                        :: else -> /* NEW: start looks at the cause, READY: the worker does */
                                d_step {
                                        touch();
                                        if
#ifndef MUTANT_RESET_UNFORBIDDEN
                                        :: (word & STATE) == READY -> word = word & (255 - EXPIRED) /* cannot be reset any more */
#endif
                                        :: else
                                        fi
                                }
                        fi;
                        unlock(home)
                :: else
                fi
        fi;
        home = 0;
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
                assert(!cancelled || word != PENDING)
        };
out:
        skip
}

/* A reset by name acts on a timer it found, under the locks of shard and poller. */
inline reset_one()
{
        d_step {
                touch();
                found = word & STATE;
                assert(word != (NEW | CANCELLED)) /* such a one is a zombie */
        };
        if
        :: found == NEW ->
                d_step {
                        touch();
                        duration = RESET_TO;
                        reset = true
                }
        :: found == PENDING && !closing ->
                take_out();
                insert(RESET_TO);
                reset = true
#ifdef MUTANT_RESET_TAKES_READY
        :: found == READY && !closing ->
                insert(RESET_TO);
                d_step {
                        touch();
                        word = PENDING
                };
                reset = true
#else
        :: found == READY && !closing && (word & EXPIRED) ->
                deadline = RESET_TO;
                d_step { /* compare-and-swap, in a loop while it may still succeed */
                        touch();
                        if
#ifdef MUTANT_RESET_RUNNING
                        :: word & EXPIRED ->
#else
                        :: (word & STATE) == READY && (word & EXPIRED) ->
#endif
                                word = word | REARMED;
                                reset = true;
                                assert(!cancelled)
                        :: else ->
                                found = word & STATE /* begun meanwhile, or it ends for another reason */
                        fi
                }
#endif
        :: found == PENDING && closing
        :: found == READY && (closing || !(word & EXPIRED))
        :: found == RUNNING
        fi
}

/* weir_timer_reset. */
active proctype Resetter()
{
        byte held, found, home;

        if
        :: coming & RESET
        :: coming && !(coming & RESET) -> goto out
        fi;
        lock(SHARD);
        if
        :: linked != ALIVE ->
                skip
        :: else ->
                d_step {
                        touch();
                        home = HOME
                };
#ifdef MUTANT_RESET_NEW_UNLOCKED
                d_step {
                        touch();
                        found = word & STATE
                };
                if
                :: found == NEW ->
                        d_step {
                                touch();
                                duration = RESET_TO;
                                reset = true
                        }
                :: else ->
                        lock(home);
                        reset_one();
                        unlock(home)
                fi;
#else
                lock(home);
                reset_one();
                unlock(home);
#endif
                d_step {
                        home = 0;
                        if
                        :: reset -> reset_in = 1 + found
                        :: else -> reset_late = (found == RUNNING)
                        fi
                }
        fi;
        unlock(SHARD);
out:
        skip
}

/* The callback and the end. */
inline call()
{
        d_step {
                touch();
                assert(held == 0);
                callbacks++;
                assert(callbacks == 1);
                saw = status;
                if
                :: saw == ESHUTDOWN -> assert((seen & (EXPIRED | REARMED)) != EXPIRED)
                :: saw == OK -> assert(due == (reset -> RESET_TO : MADE_WITH))
                :: else
                fi
        };
        /* Inside the callback: maybe the timer cancels its own name, and looks at weir_timer_count. */
        if
        :: atomic {
                lock(SHARD);
                touch();
                assert((word & STATE) == RUNNING);
                assert(linked == (counted -> ZOMBIE : ALIVE));
                unlock(SHARD)
           }
        :: true
        fi;
        finish()
}

#define TO_RUNNING(word) ((word & (255 - STATE)) | RUNNING)

/* It was reset when its deadline had come: back into the queue, unless it has to end for another reason. */
inline rearm()
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
                insert(deadline);
                d_step {
                        touch();
                        if
#ifdef MUTANT_REARM_STORES
                        :: true ->
#else
                        :: word == seen ->
#endif
                                word = PENDING;
                                again = true
                        :: else -> in_queue = false /* it has just been cancelled */
                        fi
                }
        fi;
        unlock(POLLER)
}

/* The node of a timer that a cancel by name has left in the queue.  Nobody else changes its word any more. */
inline take_node()
{
        lock(POLLER);
        atomic {
                touch();
#ifndef MUTANT_LEFT_IN_QUEUE
                in_queue = false; /* it may have expired since */
#endif
                word = READY | CANCELLED;
                unlock(POLLER)
        }
}

/* Of a READY timer: RUNNING, with the status that the callback is to see; or PENDING once more, `again`. */
inline begin()
{
        d_step {
                touch();
                seen = word;
                assert((seen & STATE) == READY)
        };
        if
        :: seen & QUEUED -> take_node()
        :: else
        fi;
        do
        :: again || (seen & STATE) == RUNNING -> break
        :: !again && (seen & STATE) == READY && (seen & CANCELLED) -> /* nobody else changes it any more */
                d_step {
                        touch();
                        seen = CANCELLED | RUNNING;
                        word = seen
                }
        :: !again && (seen & (STATE | CANCELLED)) == READY ->
                if
                :: seen & REARMED -> rearm()
                :: else
                fi;
                if
                :: again
                :: else ->
                        d_step {
                                touch();
                                if
#ifdef MUTANT_RUNNING_STORED
                                :: true ->
#else
                                :: word == seen ->
#endif
                                        seen = TO_RUNNING(seen);
                                        word = seen
                                :: else -> seen = word
                                fi
                        }
                fi
        od;
        if
        :: again -> again = false; seen = 0
        :: else ->
#ifndef MUTANT_CAUSE_UNSEEN
              called_off = cause;
#endif
              if
              :: (seen & CANCELLED) || called_off -> set_status(ECANCELED)
              :: else
              fi;
              call();
              step_asked = true
        fi
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
        atomic {
                over = true;
                unlock(SERIES)
        };
        live--
}

/* The worker's part of weir_shutdown; in batches, between which the lock is let go. */
inline drain()
{
        atomic {
                lock(POLLER);
                closing = true;
                unlock(POLLER)
        };
        lock(POLLER);
#ifdef MUTANT_LOCK_ORDER
        lock(SHARD);
        linked = NOWHERE;
        unlock(SHARD);
#endif
        if
        :: in_queue ->
                take_out();
                make_ready(ESHUTDOWN, 0, ready)
#ifdef MUTANT_SHUTDOWN_OVERWRITES
        :: !in_queue && !freed && (word & STATE) == READY ->
                status = ESHUTDOWN
        :: !in_queue && !(!freed && (word & STATE) == READY)
#else
        :: else
#endif
        fi;
        atomic {
                unlock(POLLER);
                drained = true
        }
}

active proctype Worker()
{
        byte held, seen;
        bool ready;
        bool due; /* the deadline that it expired for last */
        bool again, called_off;

        coming;
        do
        :: d_step {
                inbox ->
                assert(!ready);
                inbox = false;
                ready = true
           }
        :: atomic { /* the deadline has come; but a far one never does when closing */
                in_queue && !closing && !(locks & POLLER) ->
                lock(POLLER);
                take_out();
                due = deadline
           };
           atomic {
                assert(!ready || word & QUEUED || word & CANCELLED);
                make_ready(OK, EXPIRED, ready); /* else a cancel by name was before, and has delivered it */
                unlock(POLLER)
           }
        :: ready ->
                ready = false;
                begin()
        :: ready && (word & QUEUED) -> take_node() /* together with that of another timer, before it on the list */
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
        assert(!in_queue && (!entered || over))
}

/* weir_shutdown: it may come at any time, also after everything else. */
active proctype Shutdown()
{
        coming;
        atomic {
                stopping = true;
                drain_asked = true
        };
#ifdef MUTANT_EXIT_WHEN_EMPTY
        drained ->
#else
        atomic { drained && live == 0 -> skip };
#endif
        exit_asked = true
}
