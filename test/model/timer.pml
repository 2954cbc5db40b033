/* timer.pml: the claim protocol of one named timer (docs/design.md, "The protocol"), with everybody who may touch it.
 *
 *   Owner       starts the timer (as the next task of its series), or dismisses it instead
 *   Canceller   two of them: weir_timer_cancel by the timer's name
 *   Series      weir_series_cancel of the series the timer belongs to
 *   Worker      the poller's thread: expiry, inbox, callback, on_free, free
 *   Shutdown    weir_shutdown
 *   Monitor     not in the code: judges the outcome when all others have ended
 *
 * States of the word:    NEW --start--> PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING --> freed
 *                         `------start, when a cancel came first------------> READY
 *
 * A step of the model is one access to shared memory, or several of which nobody else can see the middle.  Every access to the
 * timer first asserts that it is not freed.  Each process has `held`, the locks it holds, so that the ranks are asserted too.
 * Where the code uses a plain store because the lock makes it safe, the model does the same (see store()).
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
bool in_queue;         /* guarded by POLLER: it is in the deadline queue */
bool closing;          /* guarded by POLLER */
byte live;             /* incremented under POLLER, decremented by the worker: timers started and not yet freed */
bool inbox;            /* lock-free: the timer is in the poller's inbox (wakeup.pml looks inside) */
byte locks;            /* the locks somebody holds */

/* What the Monitor judges; nobody acts on these. */
bool accepted;         /* start returned 0 */
bool refused;          /* start returned -ESHUTDOWN */
byte callbacks;
byte saw = NOTHING;    /* the status the callback saw */
byte on_frees;
byte counted;          /* the sum of what the cancels by name returned */
byte counted_in;       /* 1 + the state in which it was counted */
bool late;             /* a cancel by name found it RUNNING */
bool missed;           /* a cancel by name found no such name */
bool by_series;        /* the series' cancel took it */
bool dropped;          /* the series' cancel dismissed it before its start */
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

/* The end of a timer, on whichever thread: its on_free, then past everybody who may still look at it. */
inline release()
{
        d_step {
                touch();
                assert(held == 0);
                on_frees++
        };
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
        d_step {
                touch();
                freed = true
        }
}

/* A cancel's half of the exchange.  `took`: it has cancelled the timer.  `mine`: it owns the delivery as well, and pushes once it
 * holds no lock.  The caller's lock (SHARD by name, SERIES by series) keeps the timer alive. */
inline claim()
{
        took = false;
        mine = false;
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
                if
                :: held & SHARD -> unlock(SHARD)
                :: else
                fi;
#endif
                lock(POLLER);
                d_step {
                        touch();
                        found = word & STATE
                };
#ifdef MUTANT_NEW_IS_PENDING
                if
                :: found == NEW -> found = PENDING
                :: else
                fi;
#endif
                if
                :: found == NEW ->
                        took = true /* it was another cancel that claimed; the start is still to come */
                :: found == PENDING ->
                        take_out();
                        set_status(ECANCELED);
                        store(READY);
                        took = true;
                        mine = true
                :: found == READY ->
                        d_step { /* compare-and-swap, in a loop until the state is no longer READY */
                                touch();
                                if
#ifdef MUTANT_RUNNING_UNCHECKED
                                :: true ->
#else
                                :: (word & STATE) == READY ->
#endif
                                        word = word | CANCELLED;
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

/* weir_timer_start. */
inline start()
{
#ifdef MUTANT_CLOSING_UNLOCKED
        shut = closing;
        lock(POLLER);
#else
        lock(POLLER);
        shut = closing;
#endif
        if
        :: shut ->
                refused = true;
                unlock(POLLER);
                release()
        :: else ->
                d_step {
                        accepted = true;
                        live++
                };
#if defined(MUTANT_INSERT_FIRST)
                in_queue = true;
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
                                take_out();
                                set_status(ECANCELED);
                                store(READY);
                                unlock(POLLER);
                                push()
                        :: else ->
                                unlock(POLLER)
                        fi
                fi
#else
#ifdef MUTANT_START_CHECKS_THEN_ACTS
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
                        in_queue = true;
                        store(PENDING);
                        unlock(POLLER);
#ifdef MUTANT_PEEK
                        touch(); /* for instance to ask for its poller, in order to wake it */
#endif
                :: else ->
                        set_status(ECANCELED);
                        store(READY);
                        unlock(POLLER);
                        push()
                fi
#endif
        fi
}

/* The timer is the next task of a series: whoever takes it out of the series' queue owns it. */
active proctype Owner()
{
        byte held, old;
        bool shut, dismiss;

        if
        :: dismiss = true
        :: dismiss = false
        fi;
        lock(SERIES);
        if
        :: !waiting ->
                unlock(SERIES) /* the series was cancelled before */
        :: waiting && dismiss ->
                waiting = false;
                unlock(SERIES);
                release()
        :: waiting && !dismiss ->
                waiting = false;
                current = true;
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

        lock(SHARD);
        if
        :: !linked ->
                missed = true /* the map has no such name; returns 0 */
        :: else ->
                d_step {
                        touch();
                        found = word & STATE
                };
                if
                :: found == RUNNING ->
                        skip /* stays in the FIFO, passed over */
                :: else ->
#ifdef MUTANT_UNLINK_UNCOUNTED
                        linked = false;
#endif
                        claim()
                fi;
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
                                late = true
                        fi
                }
        fi;
        unlock(SHARD);
        if
        :: mine -> push()
        :: else
        fi;
        ended++
}

/* weir_series_cancel. */
active proctype Series()
{
        byte held, old, found;
        bool took, mine;

        lock(SERIES);
        if
        :: waiting ->
                waiting = false;
                dropped = true;
                unlock(SERIES);
                release()
        :: !waiting && current ->
                claim(); /* the name stays in the map: this side has no shard lock */
                by_series = took;
                unlock(SERIES);
                if
                :: mine -> push()
                :: else
                fi
        :: !waiting && !current ->
                unlock(SERIES)
        fi;
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
                word = CLAIMED | RUNNING
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
                word = (seen & (CLAIMED | CANCELLED)) | RUNNING
              };
              break
           :: word != seen -> skip /* a CANCELLED came in between */
           fi
        od;
#endif
        if
        :: seen & CANCELLED -> set_status(ECANCELED)
        :: else
        fi;
        d_step {
                touch();
                assert(held == 0);
                callbacks++;
                assert(callbacks == 1);
                saw = status
        };
        /* Inside the callback: the timer cancels its own name, and looks at weir_timer_count. */
        lock(SHARD);
        d_step {
                touch();
                assert((word & STATE) == RUNNING);
                assert(linked || counted == 1)
        };
        unlock(SHARD);
        release();
        live--
}

active proctype Worker()
{
        byte held, seen;
        bool ready; /* the worker's own list */

        do
        :: d_step {
                inbox ->
                assert(!ready);
                inbox = false;
                ready = true
           }
        :: in_queue && !closing -> /* the deadline has come; asked again under the lock */
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
                deliver()
#ifdef MUTANT_EXIT_WHEN_EMPTY
        :: atomic { closing && !inbox && !in_queue && !ready -> break }
#else
        :: atomic { closing && live == 0 -> break } /* read under the poller's lock */
#endif
        od;
        assert(!inbox && !in_queue && !ready);
        ended++
}

/* weir_shutdown: it may come at any time, also after everything else. */
active proctype Shutdown()
{
        byte held;
        bool mine;

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
                mine = true
#ifdef MUTANT_SHUTDOWN_OVERWRITES
        :: !in_queue && live > 0 && (word & STATE) == READY ->
                status = ESHUTDOWN
        :: !in_queue && !(live > 0 && (word & STATE) == READY)
#else
        :: else
#endif
        fi;
        unlock(POLLER);
        if
        :: mine -> push()
        :: else
        fi;
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
        assert(freed && !linked && !waiting && !current);
        assert(on_frees == 1);
        assert(callbacks == (accepted -> 1 : 0));
        assert(!(accepted && refused));
        assert(counted <= 1);
        if
        :: !accepted -> assert(saw == NOTHING)
        :: accepted && (counted || by_series) -> assert(saw == ECANCELED)
        :: accepted && !counted && !by_series -> assert(saw == OK || saw == ESHUTDOWN)
        fi;
        row(1, RAN && saw == OK);
        row(2, RAN && counted_in == 1 + NEW);
        row(3, RAN && counted_in == 1 + PENDING);
        row(4, RAN && counted_in == 1 + READY);
        row(5, RAN && saw == OK && late);
        row(7, RAN && counted && missed);
        row(9, !accepted && !refused && !dropped && !counted);
        row(10, !accepted && !refused && counted);
        row(11, dropped);
        row(12, RAN && by_series && !counted);
        row(14, RAN && saw == ESHUTDOWN);
        row(16, refused);
        row(17, missed && !counted)
}
