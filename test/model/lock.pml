/* lock.pml: the lock of which letting go is a plain write while nobody sleeps (kernel/base/lock.h, kernel/base/lock.c, kernel/base/fence.h).
 *
 *   Thread      three of them, each with two uses of a lock, the same one twice or two different ones: takes it, is alone with it,
 *               lets it go.  Who finds under the lock that its use is the last one, frees it afterwards
 *   Processor   the buffers of the writes: one is drained at any time
 *   Kernel      ends one sleep for nothing, at any time or never
 *
 * The two locks lead to the same entry of the table of sleepers.  Where the system refuses membarrier(2), fences are full on
 * both sides: which it is, is chosen at the start.
 *
 * A plain write lies in the buffer of its thread before others see it.  It leaves at any time; before an atomic operation, a full
 * fence or a system call of that thread; or when a heavy fence of another drains all buffers.  A buffer has room for one write:
 * that of FREE, for before the next one its thread takes a lock.  Reads go past it.  That is the order of x86; what weaker
 * machines do within a critical section is the affair of acquire and release, and not shown.  Spinning is left out: who takes the
 * lock while it spins might have come later as well.
 *
 * Nobody is ever beside another in a lock, or touches one that was freed.  And no wake-up is lost: when a thread sleeps on while
 * its lock is free, spin reports an invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md tells the interleavings. */

#define THREADS 3
#define LOCKS   2
#define NONE    2 /* no lock */

#define FREE   0
#define HELD   1
#define WANTED 2

byte state[LOCKS];     /* the memory of a lock: gone when it is freed */
byte sleepers;         /* the entry of the table that both locks lead to: static memory */
bool asymmetric;       /* constant */

byte buffer[THREADS];  /* the lock into which FREE is written */
byte asleep[THREADS];  /* the kernel's: on the state of which lock a thread sleeps */

byte uses[LOCKS];      /* how many are to come; guarded by the lock, which belongs to who uses it last */

/* For judging only. */
bool inside[LOCKS];
bool freed[LOCKS];
byte ended;

#define touch(which) assert(!freed[which])

inline drain(thread)
{
        if
        :: buffer[thread] != NONE ->
                touch(buffer[thread]);
                state[buffer[thread]] = FREE;
                buffer[thread] = NONE
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
                :: else -> drain(me)
                fi
        }
}

/* Sets took. */
inline take()
{
#ifdef MUTANT_TAKEN_IN_STEPS
        atomic {
                drain(me);
                touch(lock);
                took = (state[lock] == FREE)
        };
        if
        :: took -> state[lock] = HELD
        :: else
        fi
#else
        d_step {
                drain(me);
                touch(lock);
                took = (state[lock] == FREE);
                if
                :: took -> state[lock] = HELD
                :: else
                fi
        }
#endif
}

/* By a sleeper.  Sets took. */
inline exchange()
{
        d_step {
                drain(me);
                touch(lock);
                took = (state[lock] == FREE);
#ifdef MUTANT_HELD_IF_TAKEN
                state[lock] = (took -> HELD : WANTED)
#else
                state[lock] = WANTED
#endif
        }
}

/* The comparison and the sleep are one step, under the kernel's lock. */
inline futex_wait()
{
        d_step {
                drain(me);
                touch(lock);
                if
#ifdef MUTANT_WAIT_WITHOUT_COMPARING
                :: true -> asleep[me] = lock
#elif defined(MUTANT_WAIT_WHILE_HELD)
                :: state[lock] == HELD -> asleep[me] = lock
                :: else
#else
                :: state[lock] == WANTED -> asleep[me] = lock
                :: else
#endif
                fi
        };
        asleep[me] == NONE
}

/* By the address alone, which may be nobody's any more. */
inline futex_wake()
{
        atomic {
#ifndef MUTANT_WAKE_UNFENCED
                d_step {
                        drain(me)
                };
#endif
                if
                :: asleep[0] == lock -> asleep[0] = NONE
                :: asleep[1] == lock -> asleep[1] = NONE
                :: asleep[2] == lock -> asleep[2] = NONE
                :: else
                fi
        }
}

inline count()
{
        d_step {
                drain(me);
#ifdef MUTANT_FLAG
                sleepers = 1
#else
                sleepers++
#endif
        }
}

inline uncount()
{
        d_step {
                drain(me);
#ifdef MUTANT_FLAG
                sleepers = 0
#else
                sleepers--
#endif
        }
}

inline wait()
{
#ifdef MUTANT_EXCHANGE_BEFORE_COUNTING
        heavy_fence();
        exchange();
        if
        :: !took -> count()
        :: else -> goto taken
        fi;
#elif defined(MUTANT_FENCE_BEFORE_COUNTING)
        heavy_fence();
        count();
        exchange();
#else
        count();
        heavy_fence();
        exchange();
#endif
        do
        :: !took ->
                futex_wait();
#ifdef MUTANT_COUNTED_FOR_ONE_SLEEP
                if
                :: counted -> uncount()
                :: else
                fi;
                counted = false;
#endif
#ifdef MUTANT_WOKEN_WITH_THE_LOCK
                took = true
#elif defined(MUTANT_HELD_AFTER_SLEEP)
                take();
                if
                :: !took -> exchange()
                :: else
                fi
#else
                exchange()
#endif
        :: else -> break
        od;
#ifdef MUTANT_COUNTED_FOR_ONE_SLEEP
        if
        :: counted -> uncount()
        :: else
        fi;
        counted = true;
#else
        uncount();
#endif
#ifdef MUTANT_EXCHANGE_BEFORE_COUNTING
taken:
#endif
        skip
}

inline write_free()
{
        d_step {
                inside[lock] = false;
                buffer[me] = lock
        }
}

/* Sets seen. */
inline look_for_sleepers()
{
        d_step {
#ifdef MUTANT_COUNT_IN_THE_LOCK
                touch(lock);
#endif
                seen = (sleepers > 0)
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

/* Sets seen: whether somebody wants it.  The buffer is empty: the lock was taken by an atomic operation. */
inline exchange_free()
{
#ifdef MUTANT_RELEASED_IN_STEPS
        d_step {
                touch(lock);
                seen = (state[lock] == WANTED)
        };
        d_step {
                inside[lock] = false;
                state[lock] = FREE
        }
#else
        d_step {
                inside[lock] = false;
                touch(lock);
#ifdef MUTANT_WAKE_IF_HELD
                seen = (state[lock] == HELD);
#else
                seen = (state[lock] == WANTED);
#endif
                state[lock] = FREE
        }
#endif
}

/* Sleepers are counted. */
inline release()
{
        exchange_free();
        if
#ifndef MUTANT_NO_WAKE_IN_RELEASE
        :: seen -> futex_wake()
#endif
        :: else
        fi
}

inline unlock()
{
        look_for_sleepers();
        if
        :: seen -> release()
        :: else ->
#ifdef MUTANT_WAKE_IF_WANTED_BEFORE
                d_step {
                        touch(lock);
                        wanted = (state[lock] == WANTED)
                };
#endif
                write_free();
#ifndef MUTANT_ONE_LOOK
                light_fence();
                look_for_sleepers();
#endif
#ifdef MUTANT_WAKE_IF_WANTED_BEFORE
                seen = seen && wanted;
                wanted = false;
#endif
#ifdef MUTANT_WAKE_IF_FREE
                if /* to save a system call when somebody else has it by now */
                :: seen ->
                        d_step {
                                drain(me);
                                touch(lock);
                                seen = (state[lock] == FREE)
                        }
                :: else
                fi;
#endif
                if
#ifndef MUTANT_NO_WAKE_BEHIND_THE_WRITE
                :: seen -> futex_wake()
#endif
                :: else
                fi
        fi
}

proctype Thread(byte me, lock, next)
{
        bool took, seen, last;
#ifdef MUTANT_COUNTED_FOR_ONE_SLEEP
        bool counted = true;
#endif
#ifdef MUTANT_WAKE_IF_WANTED_BEFORE
        bool wanted;
#endif

        do
        ::
                take();
                if
                :: !took -> wait()
                :: else
                fi;
                d_step {
                        assert(!inside[lock] && !freed[lock]);
                        inside[lock] = true;
                        uses[lock]--;
                        last = (uses[lock] == 0);
                        took = false
                };
                unlock();
                if
                :: last ->
                        d_step { /* what others see of a free comes behind this thread's write */
                                drain(me);
                                touch(lock);
                                freed[lock] = true
                        }
                :: else
                fi;
                d_step {
                        last = false;
                        seen = false;
                        lock = next;
                        next = NONE
                };
                if
                :: lock == NONE -> break
                :: else
                fi
        od;
        ended++
}

active proctype Processor()
{
        do
        :: d_step { buffer[0] != NONE -> drain(0) }
        :: d_step { buffer[1] != NONE -> drain(1) }
        :: d_step { buffer[2] != NONE -> drain(2) }
        :: ended == THREADS -> break
        od
}

active proctype Kernel()
{
        if
        :: d_step { asleep[0] != NONE -> asleep[0] = NONE }
        :: d_step { asleep[1] != NONE -> asleep[1] = NONE }
        :: d_step { asleep[2] != NONE -> asleep[2] = NONE }
        :: true
        fi
}

init
{
        atomic {
                if
                :: asymmetric = true
                :: asymmetric = false
                fi;
                buffer[0] = NONE;
                buffer[1] = NONE;
                buffer[2] = NONE;
                asleep[0] = NONE;
                asleep[1] = NONE;
                asleep[2] = NONE;
                run Thread(0, 0, 0);
                if
                :: uses[0] = 6;
                   run Thread(1, 0, 0);
                   run Thread(2, 0, 0)
                :: uses[0] = 4;
                   uses[1] = 2;
                   run Thread(1, 0, 1);
                   run Thread(2, 1, 0)
                fi
        };
        ended == THREADS;
        assert(uses[0] == 0 && uses[1] == 0 && freed[0]);
        assert(state[0] == FREE && state[1] == FREE && sleepers == 0)
}
