/* handover.pml: a poller changes hands (kernel/worker/: worker.h, blocking.c, worker_pool.c; kernel/sched/: worker_loop.c, watchdog.c).
 *
 *   Worker    three of them: the structs, in which threads are made, end and are made again.  One owns the poller at the start,
 *             the others are made when they are needed.  Runs the loop while it owns.  Of five work items, two are callbacks:
 *             each may last or block until the third has run, may deliver an item (a call of the library, which pins) and may
 *             call weir_blocking_begin.  The last two items are those that the callbacks deliver, inside or after the callback
 *   Watchdog  retakes the poller of a worker that is in a callback, at any time
 *   Main      when all work items have run: stops the watchdog, dismisses the pool, lets the owner leave, joins
 *   Processor the buffers of the writes: the oldest of one is drained at any time
 *
 * At the start it is chosen whether both callbacks may block for ever and call weir_blocking_begin, or one of them, while idle
 * workers may end twice, or while the system has no membarrier(2).  Time is left out: the watchdog may retake a poller as soon
 * as it has begun.  It sees owner and seq in one step, for the exchange of the word and the second look find out changes in
 * between.  When there is nothing to retake or no idle worker, it waits until there is.
 *
 * A worker's writes of `callback_seq` and `is_pinned` lie in its buffer before others see them.  The buffer has room for two.  It is
 * drained before an atomic operation, a full fence or a section under the lock of that thread, and by the heavy fence of the
 * watchdog.  Sections under the lock of the worker pool are one step.
 *
 * A thread that touches the owner's data is named by the word, before and after, and no other touches them.  Each work item is
 * run once.  If nobody runs a poller, a call is not answered or a thread does not end, spin reports an invalid end state.  What the
 * watchdog reads of a callback is there from the first look to the last one.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define WORKERS 3
#define NOBODY  3
#define RETAKING 4 /* in the ownership word */

#define USER   1 /* in seq */
#define COUNT  2
#define PINNED 64 /* `is_pinned` */

#define TRIES 2

/* The work items: two callbacks, one for which they may wait, and those that the two deliver. */
#define FIRST  1
#define SECOND 2
#define THIRD  4
#define LEFT   8 /* times the callback that has delivered it: 8, 16 */
#define ALL    31
#define EXIT   32

/* Calls. */
#define NONE  0
#define OWN   1
#define LEAVE 2

byte owner;             /* the word */
byte seq[WORKERS];     /* and `is_pinned`, as others see them: one thread writes both, so each of its writes leaves a pair */
bool asymmetric;        /* constant */

byte room[WORKERS];     /* buffers: how many writes, the older one, the younger one */
byte older[WORKERS];
byte younger[WORKERS];

byte ready;             /* the owner's alone */
byte inbox;

byte call[WORKERS];     /* futexes */

bool idle[WORKERS];     /* guarded by the lock of the worker pool, down to ended */
bool unused[WORKERS];
bool leaving;
byte ended;

bool runs[WORKERS];     /* the system's: the thread of the struct */
bool stops, dog_is_over;    /* of the watchdog */
byte reading;               /* the lock of that worker, which the watchdog holds; the worker passes it only */

/* For judging only. */
byte inside;
byte callback[WORKERS];  /* the work item whose callback the worker is in, which is freed after that */
byte ran;
byte waits;             /* constant: the callbacks that may block for ever */
byte lingers;           /* how many idle workers may still end */
bool over;

#define is_mine   ((owner & 3) == me)
#define has_idle  (idle[0] || idle[1] || idle[2])
#define has_successor (has_idle || (!leaving && (unused[0] || unused[1] || unused[2])))

/* -- buffers -- */

inline drain(worker)
{
        if
        :: room[worker] == 1 -> seq[worker] = older[worker]
        :: room[worker] == 2 -> seq[worker] = younger[worker]
        :: else
        fi;
        room[worker] = 0;
        older[worker] = 0;
        younger[worker] = 0
}

inline drain_one(worker)
{
        seq[worker] = older[worker];
        older[worker] = younger[worker];
        younger[worker] = 0;
        room[worker]--
}

inline write_seq(value)
{
        d_step {
                room[me] < 2 ->
                mine = value;
                if
                :: room[me] == 0 -> older[me] = mine
                :: else -> younger[me] = mine
                fi;
                room[me]++
        }
}

inline light_fence()
{
        if
#ifndef MUTANT_LIGHT_ALONE
        :: !asymmetric ->
                d_step {
                        drain(me)
                }
#endif
        :: else
        fi
}

inline heavy_fence()
{
        d_step {
                if
#ifndef MUTANT_NO_FENCE
                :: asymmetric ->
                        drain(0);
                        drain(1);
                        drain(2)
#endif
                :: else /* the watchdog has written nothing but by atomic operations */
                fi
        }
}

/* -- the worker pool -- */

/* In one step with having found that has_successor.  Sets successor. */
inline take()
{
        if
        :: idle[0] -> successor = 0
        :: idle[1] -> successor = 1
        :: idle[2] -> successor = 2
        :: !has_idle ->
                if
                :: unused[0] -> successor = 0
                :: unused[1] && !unused[0] -> successor = 1
                :: else -> successor = 2
                fi;
                assert(!runs[successor]);
                unused[successor] = false;
                call[successor] = NONE;
                runs[successor] = true
        fi;
        idle[successor] = false
}

inline call_successor(what)
{
        d_step {
                assert(call[successor] == NONE);
                call[successor] = what;
                successor = NOBODY
        }
}

inline put_back()
{
#ifndef MUTANT_SUCCESSOR_FORGOTTEN
        d_step {
#ifndef MUTANT_PUT_BACK_FOR_EVER
                if
                :: leaving ->
                        assert(call[successor] == NONE);
                        call[successor] = LEAVE
                :: else -> idle[successor] = true
                fi;
#else
                idle[successor] = true;
#endif
                successor = NOBODY
        }
#else
        successor = NOBODY
#endif
}

/* -- code of the user, and pins -- */

/* Whether it owns the poller, or takes it back: sets owns and has. */
inline look()
{
        owns = (owner == me);
        if
        :: !owns ->
#ifdef MUTANT_TAKEN_BACK_BY_STORE
                owns = (owner == (me | RETAKING));
                if
                :: owns ->
                        d_step {
                                drain(me);
                                owner = me
                        }
                :: else -> owns = (owner == me)
                fi;
#else
                d_step {
                        drain(me);
                        if
                        :: owner == (me | RETAKING) ->
                                owner = me;
                                owns = true
#ifndef MUTANT_GIVEN_UP_UNSEEN
                        :: owner == me -> owns = true
#endif
                        :: else
                        fi
                };
#endif
                has = owns;
#ifndef MUTANT_READING_UNPASSED
                reading != me
#endif
        :: else
        fi
}

/* Sets owns. */
inline pin()
{
        owns = false;
        if
        :: has ->
                write_seq(mine | PINNED);
#ifdef MUTANT_PIN_UNLOOKED
                owns = true;
#else
                light_fence();
                look();
#endif
                if
                :: !owns -> write_seq(mine & ~PINNED)
                :: else
                fi
        :: else
        fi
}

inline unpin()
{
        write_seq(mine & ~PINNED);
        owns = false
}

inline deliver(works)
{
        pin();
        if
        :: owns ->
                d_step {
                        assert(inside == NOBODY && is_mine);
                        inside = me;
                        ready = ready | (works)
                };
#ifdef MUTANT_PIN_IN_PIN
                write_seq(mine | PINNED);
                write_seq(mine & ~PINNED);
#endif
                d_step {
                        assert(is_mine);
                        inside = NOBODY
                };
                unpin()
        :: else ->
                d_step {
                        drain(me);
                        inbox = inbox | (works)
                }
        fi
}

inline blocking_begin()
{
        if
        :: has ->
                if
                :: atomic {
                        has_successor ->
                        d_step {
                                drain(me)
                        };
                        take()
                   };
#ifdef MUTANT_CALLED_BEFORE_GIVEN
                        d_step {
                                call[successor] = OWN
                        };
#endif
                        has = false;
                        d_step {
                                if
#ifdef MUTANT_RETAKE_UNSEEN
                                :: owner == me ->
#else
                                :: is_mine ->
#endif
                                        owner = successor;
                                        owns = true
                                :: else -> owns = false
                                fi
                        };
#ifndef MUTANT_READING_UNPASSED_BY_GIVER
                        reading != me;
#endif
                        if
#ifdef MUTANT_CALLED_BEFORE_GIVEN
                        :: owns -> successor = NOBODY
#else
                        :: owns -> call_successor(OWN)
#endif
                        :: else -> put_back()
                        fi;
                        owns = false
                :: atomic { /* -EAGAIN: it runs on where it is */
                        !has_successor ->
                        d_step {
                                drain(me)
                        }
                   }
                fi
        :: else
        fi
}

inline user_end()
{
#ifdef MUTANT_LOOK_BEFORE_SEQ
        if
        :: has -> look()
        :: else
        fi;
        write_seq(mine & ~USER);
#else
        write_seq(mine & ~USER);
        if
        :: has ->
                light_fence();
#ifndef MUTANT_END_UNLOOKED
                look()
#endif
        :: else
        fi;
#endif
        owns = false
}

/* -- a worker -- */

proctype Worker(byte me)
{
        byte mine; /* its callback_seq, as it knows it */
        byte work;
        byte successor = NOBODY, before = NOBODY;
        bool has, owns, called, delivered;

made:
        if
        :: atomic { over -> goto end }
        :: atomic {
                runs[me] ->
#ifdef MUTANT_NEW_IS_IDLE
                called = true
#else
                called = false
#endif
           }
        fi;
home:
        atomic {
                d_step {
                        drain(me)
                };
                if
                :: called && call[me] == NONE ->
                        if
#ifndef MUTANT_NEVER_DISMISSED
                        :: leaving -> goto gone
#endif
                        :: else -> idle[me] = true
                        fi
                :: else
                fi
        };
        if
        :: atomic { call[me] == LEAVE -> call[me] = NONE; goto gone }
        :: atomic { call[me] == OWN -> call[me] = NONE; called = true; has = true }
        :: atomic { /* nobody has called for long */
#ifdef MUTANT_ENDS_THOUGH_TAKEN
                lingers > 0 && call[me] == NONE && !leaving ->
#else
                lingers > 0 && call[me] == NONE && !leaving && idle[me] ->
#endif
                lingers--;
                idle[me] = false;
                before = ended;
                ended = me
           };
           if
           :: before != NOBODY ->
                   atomic {
#ifndef MUTANT_REUSED_UNJOINED
                        !runs[before];
#endif
                        unused[before] = true;
                        before = NOBODY
                   }
           :: else
           fi;
           goto gone
        fi;
        do
        ::
                d_step {
                        (ready | inbox) != 0 ->
                        assert(inside == NOBODY && is_mine);
                        inside = me;
                        if
                        :: inbox != 0 ->
                                drain(me);
                                ready = ready | inbox;
                                inbox = 0
                        :: else
                        fi;
                        work = ready & -ready;
                        ready = ready & ~work
                };
                d_step {
                        assert(is_mine && !(ran & work));
                        inside = NOBODY;
                        ran = ran | work;
                        callback[me] = work
                };
                if
                :: work == EXIT ->
                        d_step {
                                assert(is_mine && (ready | inbox) == 0 && inside == NOBODY);
                                drain(me);
                                owner = NOBODY;
                                has = false
                        }
                :: work >= LEFT && work < EXIT -> /* no callback, but what it calls may be called in one as well */
                        pin();
                        assert(owns);
                        unpin();
                        d_step {
                                assert(inside == NOBODY && is_mine);
                                inside = me
                        };
                        d_step {
                                assert(is_mine);
                                inside = NOBODY
                        }
                :: work == THIRD ->
                        write_seq((mine + COUNT) | USER);
                        user_end();
                        d_step {
                                callback[me] = 0
                        }
                :: else ->
                        write_seq((mine + COUNT) | USER);
                        if
                        :: deliver(work * LEFT);
                           delivered = true
                        :: true
                        fi;
                        if
                        :: work == FIRST || waits == 2 -> blocking_begin()
                        :: true
                        fi;
                        if
                        :: !delivered ->
                                deliver(work * LEFT);
                                delivered = true
                        :: true
                        fi;
                        if
                        :: work <= waits -> (ran & THIRD) != 0
                        :: true
                        fi;
                        user_end();
                        d_step {
                                callback[me] = 0
                        };
                        if
                        :: !delivered -> deliver(work * LEFT)
                        :: else -> delivered = false
                        fi
                fi;
                work = 0;
                if
                :: !has -> break
                :: else
                fi
        od;
        goto home;
gone:
        atomic {
                d_step {
                        drain(me)
                };
                runs[me] = false;
                goto made
        };
end:
        skip
}

/* -- the watchdog -- */

proctype Watchdog()
{
        byte worker, snapshot, seen, tries, subject;
        byte successor = NOBODY;
        bool swapped, pinned;

        do
        :: atomic { stops -> break }
        :: atomic {
                !stops && owner < NOBODY && (seq[owner] & USER) && has_successor ->
                worker = owner;
                snapshot = seq[worker] & ~PINNED;
                take()
           };
#ifdef MUTANT_CALLED_BEFORE_TAKEN
           d_step {
                call[successor] = OWN
           };
#endif
           do
           ::
#ifdef MUTANT_FENCE_BEFORE_RETAKE
                   heavy_fence();
#endif
                   d_step {
                        swapped = (owner == worker);
                        if
                        :: swapped ->
                                reading = worker;
                                owner = worker | RETAKING
                        :: else
                        fi
                   };
                   if
                   :: !swapped -> break
                   :: else
                   fi;
#ifndef MUTANT_FENCE_BEFORE_RETAKE
                   heavy_fence();
#endif
#ifdef MUTANT_SEQ_UNREAD
                   seen = snapshot;
#else
                   seen = seq[worker] & ~PINNED;
#endif
#ifdef MUTANT_PINNED_UNREAD
                   pinned = false;
#else
                   pinned = (seq[worker] & PINNED) != 0;
#endif
                   if
#ifdef MUTANT_READ_UNSEEN
                   :: true ->
#else
                   :: seen == snapshot ->
#endif
                        d_step {
                                subject = callback[worker];
                                assert(subject != 0)
                        };
                        d_step {
                                assert(callback[worker] == subject);
                                subject = 0
                        }
                   :: else
                   fi;
                   if
                   :: seen == snapshot && !pinned ->
                        d_step {
                                reading = NOBODY;
                                swapped = (owner == (worker | RETAKING));
#ifdef MUTANT_TAKEN_BY_STORE
                                swapped = true;
#endif
                                if
                                :: swapped -> owner = successor
                                :: else
                                fi
                        };
                        break
                   :: else ->
                        d_step {
                                reading = NOBODY;
                                if
#ifdef MUTANT_GIVEN_UP_BY_STORE
                                :: true -> owner = worker
#elif !defined(MUTANT_RETAKE_LEFT)
                                :: owner == (worker | RETAKING) -> owner = worker
#endif
                                :: else
                                fi;
                                swapped = false
                        }
                   fi;
                   tries++;
                   if
                   :: seen != snapshot || tries == TRIES -> break
                   :: else
                   fi
           od;
           if
#ifdef MUTANT_CALLED_BEFORE_TAKEN
           :: swapped -> successor = NOBODY
#else
           :: swapped -> call_successor(OWN)
#endif
           :: else -> put_back()
           fi;
           d_step {
                worker = 0;
                snapshot = 0;
                seen = 0;
                tries = 0;
                pinned = false;
                swapped = false
           }
        od;
        dog_is_over = true
}

/* -- the rest -- */

proctype Processor()
{
        do
        :: d_step { room[0] > 0 -> drain_one(0) }
        :: d_step { room[1] > 0 -> drain_one(1) }
        :: d_step { room[2] > 0 -> drain_one(2) }
        :: over -> break
        od
}

init
{
        atomic {
                if
                :: waits = 2;
                   asymmetric = true
                :: waits = 1;
                   asymmetric = false
                :: waits = 1;
                   lingers = 2;
                   asymmetric = true
                fi;
                inside = NOBODY;
                reading = NOBODY;
                ended = NOBODY;
                inbox = FIRST | SECOND | THIRD;
                unused[1] = true;
                unused[2] = true;
                runs[0] = true;
                call[0] = OWN;
                run Processor();
                run Worker(0);
                run Worker(1);
                run Worker(2);
                run Watchdog()
        };
        d_step {
                ran == ALL ->
                stops = true
        };
        dog_is_over;
        inbox = inbox | EXIT;
        atomic {
                leaving = true;
                if
                :: idle[0] -> idle[0] = false; call[0] = LEAVE
                :: else
                fi;
                if
                :: idle[1] -> idle[1] = false; call[1] = LEAVE
                :: else
                fi;
                if
                :: idle[2] -> idle[2] = false; call[2] = LEAVE
                :: else
                fi
        };
        atomic {
                !runs[0] && !runs[1] && !runs[2] ->
                over = true
        };
        _nr_pr == 1;
        assert(owner == NOBODY && ready == 0 && inbox == 0 && ran == (ALL | EXIT) && !has_idle);
        assert(call[0] == NONE && call[1] == NONE && call[2] == NONE)
}
