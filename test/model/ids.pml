/* ids.pml: timers by id: the slot and its generation, the memory and its next timer (docs/design.md, "The states of a timer").
 *
 *   Life         two timers, one after the other, in the same memory and with the same slot: their maker, owner and worker.  Each
 *                has a name or none, and is started or dismissed.  The first one may have outlived a shutdown: the poller that it
 *                belongs to has a lock and its slot, but no worker, and its start moves it to another; then there is no second
 *   one CancelId     two of them: weir_timer_cancel_id with the id of the first timer, at any time from then on
 *   ResetId      weir_timer_reset_id with the same id
 *   CancelName   weir_timer_cancel by the name of the first timer, which may be the second one's as well
 *   Series       weir_series_cancel of the series of the first timer
 *
 * Every set of those others is tried in which the second CancelId meets no more than the first one and CancelName, and no timer
 * that has outlived a shutdown.  timer.pml shows how start, expiry, cancel and reset agree, so here they take fewer steps.  There
 * a reset holds the shard's lock, here the poller's alone.  Shutdown does not come.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The word. */
#define NEW       0
#define PENDING   1
#define READY     2
#define RUNNING   3
#define STATE     7
#define CANCELLED 8
#define EXPIRED   16
#define REARMED   32
#define QUEUED    64

/* Where the shard has it. */
#define NOWHERE 0
#define ALIVE   1
#define ZOMBIE  2

/* Names, and the locks of their shards; then the other locks.  The number is the rank and the bit. */
#define SERIES 1
#define A      2
#define B      4
#define POLLER 8
#define FORMER 16 /* of the poller without a worker; of the same rank, and never held together with the other */
#define NONE   0  /* no name */

#define FIRST 1 /* the generation of the first timer's id */

/* The other processes that come; one bit each. */
#define CANCEL        1
#define CANCEL2       2
#define CANCEL_NAME   4
#define SERIES_CANCEL 8
#define RESET         16

#define MADE_WITH false
#define RESET_TO  true

/* The memory. */
byte life;             /* the timer that lies in it: 1 or 2; 0: it is free */
byte name;             /* constant while it lives */
byte word;
byte home = POLLER;    /* the lock of its poller; written by its owner, under its shard's lock and that of the former one */
bool has_slot;         /* guarded by home; the worker's when READY: task.handle is not 0 */
bool in_queue;         /* guarded by POLLER */
bool deadline;         /* guarded by home: the duration until the start */
byte linked;           /* guarded by the lock of its shard */
bool current;          /* guarded by SERIES: the series may still reach the first timer */

/* The slot; guarded by `table`. */
byte table = POLLER;   /* constant: the poller that it belongs to */
bool taken;            /* it leads to the memory */
byte generation = 1;

bool cause;            /* the series is cancelled */
bool inbox;            /* delivered by a cancel */
bool id_given;         /* of the first timer: from now on others have it */
byte coming;           /* the set of the other processes that come */
byte locks;            /* the locks somebody holds */

/* The model judges these; nobody acts on them. */
byte counted[3];       /* the cancels that have counted the timer */
bool reset;            /* the reset has counted the first timer */

#define touch() assert(life != 0)

/* By id: it must be the first one. */
#define touch_first() assert(life == 1)

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
                locks = locks & (31 - rank);
                held = held & (31 - rank)
        }
}

/* -- the slot; under its poller's lock -- */

inline take_slot()
{
        assert(!taken);
        taken = true;
        has_slot = true
}

inline give_up_slot()
{
        if
        :: has_slot ->
                assert(taken); /* the code panics when a slot is given back twice */
                taken = false;
#ifndef MUTANT_GENERATION_KEPT
                generation++;
#endif
#ifndef MUTANT_GIVEN_BACK_TWICE
                has_slot = false
#endif
        :: else
        fi
}

#define FOUND (taken && generation == FIRST)

/* -- cancel -- */

/* Under the lock by which it was found.  One that is NEW was cancelled before. */
inline end()
{
        d_step {
                touch();
                found = word & STATE;
                if
                :: found == PENDING ->
                        word = READY | CANCELLED | QUEUED;
                        took = true;
                        mine = true
                :: found == READY && !(word & CANCELLED) ->
                        word = word | CANCELLED;
                        took = true
                :: else
                fi
        }
}

/* Under the poller's lock as well, under which its start looks. */
inline cancel_new()
{
        d_step {
                touch();
#ifdef MUTANT_CANCELLED_TWICE
                took = ((word & STATE) == NEW)
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

/* Behind those that are alive, under the lock of its shard. */
inline make_zombie()
{
        d_step {
                touch();
                assert(linked == ALIVE);
                linked = ZOMBIE
        }
}

inline count()
{
        if
        :: took ->
                counted[life]++;
                assert(counted[life] == 1)
        :: else
        fi
}

inline deliver()
{
        if
        :: mine ->
                d_step {
                        touch();
                        assert(held == 0 && !inbox);
                        inbox = true
                }
        :: else
        fi
}

/* Of the first timer, under the poller's lock, and under the shard's if it has a name. */
inline cancel_found()
{
        cancel_new();
        atomic { /* only the worker may still change the word beside this, and end() is one step */
                touch_first();
                if
                :: took
                :: else -> end()
                fi;
                count()
        };
        if
        :: took && name != NONE -> make_zombie()
        :: else
        fi
}

proctype CancelId(byte me)
{
        byte held, found, hash;
        bool took, mine;

        if
        :: id_given && (coming & me)
        :: id_given && !(coming & me) -> goto out
        fi;
        lock(table);
        if
        :: FOUND ->
                d_step {
                        touch_first();
                        hash = name
                };
#ifdef MUTANT_NAME_UNLOCKED
                hash = NONE;
#endif
                if
                :: hash == NONE ->
                        cancel_found();
                        unlock(table)
                :: else ->
#ifdef MUTANT_LOCK_ORDER
                        lock(hash);
#else
                        unlock(table);
                        lock(hash);
                        lock(table);
#endif
                        if
#ifdef MUTANT_LOOKED_UP_ONCE
                        :: true ->
#else
                        :: FOUND ->
#endif
                                cancel_found()
                        :: else
                        fi;
                        unlock(table);
                        unlock(hash)
                fi
        :: else ->
                unlock(table)
        fi;
        deliver();
        d_step { /* nobody looks any more: fewer states */
                took = false;
                mine = false;
                found = 0;
                hash = 0
        };
out:
        skip
}

proctype CancelName()
{
        byte held, found, seen;
        bool took, mine;

        if
        :: id_given && (coming & CANCEL_NAME)
        :: id_given && !(coming & CANCEL_NAME) -> goto out
        fi;
        lock(A);
        if
        :: life != 0 && name == A && linked == ALIVE ->
                if
                :: atomic {
                        (word & STATE) == NEW ->
                        seen = home
                   };
                   lock(seen); /* its start may be under way */
                   cancel_new();
                   atomic {
                        unlock(seen);
                        seen = 0
                   }
                :: else
                fi;
                atomic {
                        if
                        :: took
                        :: else ->
                                end();
                                assert(took || found == RUNNING)
                        fi;
                        count()
                };
                if
                :: took -> make_zombie()
                :: else
                fi
        :: else
        fi;
        unlock(A);
        deliver();
        d_step {
                took = false;
                mine = false;
                found = 0
        };
out:
        skip
}

/* Under its own lock. */
proctype Series()
{
        byte held, seen;
        bool mine;

        if
        :: id_given && (coming & SERIES_CANCEL)
        :: id_given && !(coming & SERIES_CANCEL) -> goto out
        fi;
        lock(SERIES);
        cause = true;
        if
        :: current ->
                do /* its start may be moving it to another poller */
                :: seen = home;
                   lock(seen);
                   if
                   :: seen == home -> break
                   :: else -> unlock(seen)
                   fi
                od;
                atomic {
                        touch_first();
                        if
                        :: word == PENDING ->
                                word = READY;
                                assert(in_queue);
                                in_queue = false;
                                mine = true
                        :: (word & STATE) == READY ->
                                word = word & (255 - EXPIRED)
                        :: else
                        fi
                };
                atomic {
                        unlock(seen);
                        seen = 0
                }
        :: else
        fi;
        unlock(SERIES);
        deliver();
        mine = false;
out:
        skip
}

/* -- reset -- */

proctype ResetId()
{
        byte held, found;

        if
        :: id_given && (coming & RESET)
        :: id_given && !(coming & RESET) -> goto out
        fi;
        lock(table);
        if
        :: FOUND ->
                d_step {
                        touch_first();
                        found = word
                };
                if
                :: found == NEW ->
                        d_step {
                                touch_first();
                                deadline = RESET_TO;
                                reset = true
                        }
                :: (found & STATE) == PENDING ->
                        d_step {
                                touch_first();
                                assert(in_queue);
                                in_queue = false
                        };
                        d_step {
                                touch_first();
                                assert(!in_queue);
                                in_queue = true;
                                deadline = RESET_TO;
                                reset = true
                        }
                :: (found & STATE) == READY && (found & EXPIRED) ->
                        d_step {
                                touch_first();
                                deadline = RESET_TO
                        };
                        d_step {
                                touch_first();
                                if
                                :: (word & (STATE | EXPIRED | CANCELLED)) == (READY | EXPIRED) ->
                                        word = word | REARMED;
                                        reset = true
                                :: else
                                fi
                        }
                :: else
                fi
        :: else
        fi;
        atomic {
                unlock(table);
                found = 0
        };
out:
        skip
}

/* -- the life of a timer -- */

/* When the owner has found that there is one. */
inline give_up_slot_locked()
{
        if
#ifdef MUTANT_GIVEN_BACK_UNLOCKED
        :: has_slot -> give_up_slot()
#else
        :: has_slot ->
                lock(home);
                atomic {
                        give_up_slot();
                        unlock(home)
                }
#endif
        :: else
        fi
}

/* Passes the locks of threads that have found it by its name, and frees it. */
inline unlink_and_free()
{
        if
        :: name != NONE ->
                lock(name);
                d_step {
                        linked = NOWHERE;
                        locks = locks & (31 - name);
                        held = held & (31 - name)
                }
        :: else
        fi;
        d_step {
                touch();
                assert(linked == NOWHERE && !in_queue && !inbox && !ready);
                assert(counted[number] == (word & CANCELLED -> 1 : 0));
                life = 0;
                home = POLLER;
                word = NEW;
                name = NONE;
                deadline = MADE_WITH
        }
}

/* The end, after on_free. */
inline finish()
{
        if
        :: current -> /* only this thread writes it */
                lock(SERIES);
                atomic {
                        current = false;
                        unlock(SERIES)
                }
        :: else
        fi;
#ifndef MUTANT_FREE_BEFORE_GIVING_BACK
        give_up_slot_locked();
#endif
        unlink_and_free();
#ifdef MUTANT_FREE_BEFORE_GIVING_BACK
        give_up_slot_locked();
#endif
        seen = 0;
        due = MADE_WITH
}

/* The end of one that never started, after on_free. */
inline dismiss()
{
        give_up_slot_locked();
        unlink_and_free()
}

#define CALLED_OFF (cause && number == 1)

/* Passes the locks of threads that have found it by its name or its id, and act under the lock of its former poller. */
inline rebind()
{
        if
        :: home == FORMER ->
#ifndef MUTANT_REBIND_BESIDE_SHARD
                if
                :: name != NONE -> lock(name)
                :: else
                fi;
#endif
#ifdef MUTANT_REBIND_BESIDE_FORMER
                atomic {
                        give_up_slot();
                        home = POLLER
                };
#else
                lock(FORMER);
                atomic {
                        give_up_slot();
                        home = POLLER;
                        unlock(FORMER)
                };
#endif
#ifndef MUTANT_REBIND_BESIDE_SHARD
                if
                :: name != NONE -> unlock(name)
                :: else
                fi
#endif
        :: else
        fi
}

inline start()
{
        if
        :: number == 1 ->
                lock(SERIES);
                atomic {
                        current = true;
                        unlock(SERIES)
                }
        :: else
        fi;
        rebind();
        lock(POLLER);
        d_step {
                touch();
                seen = word & CANCELLED
        };
        d_step {
                touch();
                if
                :: seen ->
                        word = READY | CANCELLED;
                        ready = true
                :: !seen && CALLED_OFF ->
                        word = READY;
                        ready = true
                :: else ->
                        word = PENDING;
                        in_queue = true
                fi;
                seen = 0
        };
        unlock(POLLER)
}

/* By the poller: the node first, then the word. */
inline expire()
{
        d_step {
                touch();
                in_queue = false;
                due = deadline
        };
        d_step {
                touch();
                if
                :: word == PENDING ->
                        assert(!ready);
                        word = READY | EXPIRED;
                        ready = true
                :: else /* a cancel delivers it */
                fi
        }
}

/* READY -> RUNNING; or, `again`, back to PENDING. */
inline begin()
{
        d_step {
                touch();
                seen = word;
                assert((seen & STATE) == READY)
        };
        if
        :: seen & QUEUED ->
                lock(POLLER);
                atomic {
                        touch();
                        in_queue = false;
                        word = READY | CANCELLED;
                        unlock(POLLER)
                }
        :: else
        fi;
        do
        :: again || (seen & STATE) == RUNNING -> break
        :: !again && (seen & STATE) == READY && (seen & CANCELLED) ->
                d_step {
                        touch();
                        seen = RUNNING | CANCELLED;
                        word = seen
                }
        :: !again && (seen & (STATE | CANCELLED)) == READY ->
                if
                :: seen & REARMED ->
                        lock(POLLER);
                        if
                        :: CALLED_OFF
                        :: else ->
                                in_queue = true;
                                d_step {
                                        touch();
                                        again = (word == seen);
                                        word = (again -> PENDING : word);
                                        in_queue = again
                                }
                        fi;
                        unlock(POLLER)
                :: else
                fi;
                if
                :: again
                :: else ->
                        d_step {
                                touch();
                                if
                                :: word == seen ->
                                        seen = (seen & (255 - STATE)) | RUNNING;
                                        word = seen
                                :: else -> seen = word
                                fi
                        }
                fi
        od
}

/* From the start to the callback. */
inline run_it()
{
        do
        :: d_step {
                inbox ->
                assert(!ready);
                inbox = false;
                ready = true
           }
        :: atomic {
                in_queue && !(locks & POLLER) ->
                lock(POLLER)
           };
           expire();
           unlock(POLLER)
        :: ready ->
                ready = false;
                begin();
                if
                :: again -> again = false
                :: else -> break
                fi
        od;
        assert(held == 0);
        d_step { /* the callback */
                touch();
                callbacks++;
                assert(callbacks == 1);
                assert((seen & CANCELLED) || CALLED_OFF || due == (number == 1 && reset -> RESET_TO : MADE_WITH))
        };
        callbacks = 0
}

proctype Life()
{
        byte held, seen, callbacks;
        byte number = 1;
        bool ready, due, again;

        do
        :: number <= (table == FORMER -> 1 : 2) ->
                atomic {
                        assert(life == 0);
                        life = number;
                        home = table;
                        if
                        :: name = NONE
                        :: name = A
                        :: number == 2 -> name = B
                        fi;
                        linked = (name == NONE -> NOWHERE : ALIVE)
                };
                lock(home);
                d_step {
                        take_slot();
                        id_given = true;
                        locks = locks & (31 - home);
                        held = 0
                };
                if
                :: true ->
                   dismiss()
                :: true ->
                   start();
                   run_it();
                   finish()
                fi;
                number++
        :: else -> break
        od
}

init
{
        atomic { /* the few first: most mutants need no more, and are found out sooner */
                if
                :: true
                :: coming = CANCEL
                :: coming = CANCEL | CANCEL2
                fi;
                if
                :: true
                :: coming = coming | CANCEL_NAME
                fi;
                if
                :: true
                :: !(coming & CANCEL2) -> coming = coming | RESET
                fi;
                if
                :: true
                :: !(coming & CANCEL2) -> coming = coming | SERIES_CANCEL
                fi;
                if
                :: true
                :: !(coming & CANCEL2) -> table = FORMER
                fi;
                run Life();
                run CancelId(CANCEL);
                run CancelId(CANCEL2);
                run ResetId();
                run CancelName();
                run Series()
        };
        _nr_pr == 1;
        assert(!locks && life == 0 && !taken)
}
