/* test/model/lock.pml: a lock that is released by a plain write while nobody sleeps for it, and that is handed to a sleeper which
 * has waited for long.
 *
 *   Thread      three, which take a lock and release it, over and over.  The one with the last use frees it afterwards
 *   Processor   the buffers of the writes: one is drained at any time
 *   Kernel      ends one sleep for nothing, at any time or never
 *   Clock       says at any time that the sleepers have waited for long, the oldest first
 *
 * The two locks lead to the same queue.  Where the system refuses membarrier(2), fences are full on both sides.  Each
 * run chooses at the start whether it does.
 *
 * A plain write lies in the buffer of its thread before others see it.  It leaves at any time; before an atomic operation, a full
 * fence or a system call of that thread; or when a heavy fence of another drains all buffers.  A buffer has room for one write:
 * that of FREE, for before the next one its thread takes a lock.  Reads go past it.  That is the order of x86.  Weaker
 * machines change more within a critical section; acquire and release keep that in order, and the model does not show it.
 * Spinning is left out: a thread that takes the lock while it spins might have come later as well.  All that is done under the
 * mutex of the queue is one step: it touches the lock once.
 *
 * Nobody is ever beside another in a lock, or touches one that was freed.  No wake-up is lost: when a thread sleeps on while
 * its lock is free, spin reports an invalid end state.  Once a sleeper has waited for long, one thread at most that came later
 * takes the lock before it.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define THREADS 3
#define LOCKS   2
#define NONE    3 /* no lock, no thread */

#define FREE 0
#define HELD 1

#define ASLEEP 0
#define AWAKE  1

#define MOST_PASSES 1

byte state[LOCKS];     /* the memory of a lock: gone when it is freed */
byte sleepers;         /* the count of the queue that both locks lead to: static memory */
bool asymmetric;       /* constant */

byte buffer[THREADS];  /* the lock into which FREE is written */

/* The queue, under its mutex: the oldest sleeper first, NONE behind the last. */
byte queue[THREADS];
byte wants[THREADS];   /* for which lock it sleeps */
byte mood[THREADS];    /* of a sleeper: ASLEEP, AWAKE; a futex */
bool is_new[THREADS]; /* of a sleeper: it has not waited for long */

bool asleep[THREADS];  /* the kernel's: the thread sleeps on its mood */

byte uses[LOCKS];      /* how many are to come; guarded by the lock, which belongs to who uses it last */

/* For judging only. */
bool inside[LOCKS];
bool freed[LOCKS];
byte passes[THREADS];  /* how often others that came later took the lock since the thread had waited for long */
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

/* -- judging -- */

/* The thread has taken the lock, from outside the queue or from a place in it: those that have waited for long were passed. */
#define is_queued(thread) (queue[0] == thread || queue[1] == thread || queue[2] == thread)
#define is_ahead(thread) \
        (is_queued(thread) && \
         (!is_queued(me) || queue[0] == thread || (queue[1] == thread && queue[2] == me)))
#define note_pass_of(thread) \
        if \
        :: thread != me && is_ahead(thread) && wants[thread] == lock && !is_new[thread] -> \
                passes[thread]++; \
                assert(passes[thread] <= MOST_PASSES) \
        :: else \
        fi
#define note_passes()    \
        note_pass_of(0); \
        note_pass_of(1); \
        note_pass_of(2)

/* -- the queue -- */

inline enqueue(thread)
{
        if
        :: queue[0] == NONE -> queue[0] = thread
        :: else ->
                if
                :: queue[1] == NONE -> queue[1] = thread
                :: else -> queue[2] = thread
                fi
        fi
}

inline dequeue(thread)
{
        if
        :: queue[0] == thread -> queue[0] = queue[1]; queue[1] = queue[2]; queue[2] = NONE
        :: queue[1] == thread -> queue[1] = queue[2]; queue[2] = NONE
        :: queue[2] == thread -> queue[2] = NONE
        fi;
        wants[thread] = 0;
        passes[thread] = 0;
        is_new[thread] = true
}

/* Sets first: the sleeper whose turn it is, or NONE. */
inline find_first()
{
        first = NONE;
        if
#ifdef MUTANT_NEWEST_FIRST
        :: queue[2] != NONE && wants[queue[2]] == lock -> first = queue[2]
        :: else ->
                if
                :: queue[1] != NONE && wants[queue[1]] == lock -> first = queue[1]
                :: queue[1] == NONE && queue[0] != NONE && wants[queue[0]] == lock -> first = queue[0]
                :: else
                fi
#else
        :: queue[0] != NONE && wants[queue[0]] == lock -> first = queue[0]
        :: else ->
                if
#ifndef MUTANT_FIRST_OF_ANY_LOCK
                :: queue[1] != NONE && wants[queue[1]] == lock -> first = queue[1]
                :: else ->
                        if
                        :: queue[2] != NONE && wants[queue[2]] == lock -> first = queue[2]
                        :: else
                        fi
#else
                :: queue[0] != NONE -> first = queue[0]
                :: else
#endif
                fi
#endif
        fi
}

/* Of one that sleeps; else there is nobody to wake. */
inline rouse()
{
        if
        :: first != NONE && mood[first] == ASLEEP -> mood[first] = AWAKE
        :: else -> first = NONE
        fi
}

/* By the address alone. */
inline futex_wake()
{
        d_step {
                drain(me);
                if
                :: first != NONE -> asleep[first] = false
                :: else
                fi;
                assert(handed == NONE || !asleep[handed] || is_queued(handed)); /* nobody owns a lock in its sleep */
                first = NONE;
                handed = NONE
        }
}

/* -- taking -- */

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
                :: took ->
                        state[lock] = HELD;
                        note_passes()
                :: else
                fi
        }
#endif
}

inline count()
{
        d_step {
                drain(me);
                wants[me] = lock;
                mood[me] = ASLEEP;
                is_new[me] = true;
                passes[me] = 0;
                enqueue(me);
                sleepers++
        }
}

/* Under the mutex of the queue.  Sets took. */
inline try_to_own()
{
#ifdef MUTANT_ASLEEP_LATE
        d_step {
                drain(me);
                touch(lock);
                took = (!is_queued(me) || state[lock] == FREE);
                if
                :: took && is_queued(me) ->
                        state[lock] = HELD;
                        note_passes();
                        dequeue(me);
                        sleepers--
                :: else
                fi
        };
        if
        :: !took -> mood[me] = ASLEEP
        :: else
        fi
#else
        d_step {
                drain(me);
                if
                :: !is_queued(me) ->
                        took = true;
                        mood[me] = ASLEEP
                :: else ->
                        touch(lock);
                        took = (state[lock] == FREE);
                        if
                        :: took ->
                                state[lock] = HELD;
                                note_passes();
                                dequeue(me);
                                sleepers--;
                                mood[me] = ASLEEP
                        :: else ->
#ifndef MUTANT_STAYS_WOKEN
                                mood[me] = ASLEEP;
#endif
                                skip
                        fi
                fi
        }
#endif
}

/* The comparison and the sleep are one step, under the kernel's lock. */
inline futex_wait()
{
        d_step {
                drain(me);
                if
#ifdef MUTANT_WAIT_WITHOUT_COMPARING
                :: true -> asleep[me] = true
#elif defined(MUTANT_STAYS_WOKEN)
                :: is_queued(me) -> asleep[me] = true
                :: else
#else
                :: mood[me] == ASLEEP -> asleep[me] = true
                :: else
#endif
                fi
        };
        !asleep[me]
}

inline wait()
{
#ifdef MUTANT_TRY_BEFORE_COUNTING
        heavy_fence();
        take();
        if
        :: !took ->
                count();
                futex_wait()
        :: else -> goto taken
        fi;
#elif defined(MUTANT_FENCE_BEFORE_COUNTING)
        heavy_fence();
        count();
#else
        count();
        heavy_fence();
#endif
        do
        ::
                try_to_own();
                if
                :: took -> break
                :: else -> futex_wait()
                fi
#ifdef MUTANT_WOKEN_WITH_THE_LOCK
                ;
                d_step {
                        if
                        :: is_queued(me) -> dequeue(me); sleepers--
                        :: else
                        fi
                };
                break
#endif
        od;
#ifdef MUTANT_TRY_BEFORE_COUNTING
taken:
#endif
        skip
}

/* -- releasing -- */

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

/* Sleepers are counted.  Under the mutex of the queue. */
inline release()
{
        d_step {
                inside[lock] = false;
                touch(lock);
                find_first();
                if
#ifndef MUTANT_NO_HAND_OFF
                :: first != NONE && !is_new[first] ->
#ifndef MUTANT_OWNER_STAYS_QUEUED
                        dequeue(first);
                        sleepers--;
#endif
#ifdef MUTANT_HANDED_AND_FREE
                        state[lock] = FREE;
#endif
                        handed = first;
#ifdef MUTANT_ROUSED_BY_ANOTHER
                        rouse()
#else
                        mood[first] = AWAKE /* a thread that has roused it before may not have come to the wake-up yet */
#endif
#endif
                :: else ->
                        state[lock] = FREE;
                        rouse()
                fi
        };
#ifdef MUTANT_NO_WAKE_IN_RELEASE
        first = NONE
#else
        futex_wake()
#endif
}

/* Behind the write.  Under the mutex of the queue. */
inline wake()
{
        d_step {
                drain(me);
#ifdef MUTANT_HAND_OFF_BEHIND_THE_WRITE
                find_first();
                if
                :: first != NONE && !is_new[first] ->
                        dequeue(first);
                        sleepers--
                :: else
                fi;
#else
                find_first();
#endif
                rouse()
        };
        futex_wake()
}

inline unlock()
{
        look_for_sleepers();
        if
        :: seen -> release()
        :: else ->
                write_free();
#ifndef MUTANT_ONE_LOOK
                light_fence();
                look_for_sleepers();
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
                :: seen -> wake()
#endif
                :: else
                fi
        fi
}

proctype Thread(byte me, lock, next)
{
        bool took, seen, last;
        byte first = NONE, handed = NONE;

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
        :: d_step { asleep[0] -> asleep[0] = false }
        :: d_step { asleep[1] -> asleep[1] = false }
        :: d_step { asleep[2] -> asleep[2] = false }
        :: true
        fi
}

active proctype Clock()
{
        do
        :: d_step { queue[0] != NONE && is_new[queue[0]] -> is_new[queue[0]] = false }
        :: d_step { queue[1] != NONE && is_new[queue[1]] && !is_new[queue[0]] -> is_new[queue[1]] = false }
        :: d_step { queue[2] != NONE && is_new[queue[2]] && !is_new[queue[0]] && !is_new[queue[1]] -> is_new[queue[2]] = false }
        :: ended == THREADS -> break
        od
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
                queue[0] = NONE;
                queue[1] = NONE;
                queue[2] = NONE;
                is_new[0] = true;
                is_new[1] = true;
                is_new[2] = true;
                if
                :: uses[0] = 5;
                   run Thread(0, 0, 0);
                   run Thread(1, 0, 0);
                   run Thread(2, 0, NONE)
                :: uses[0] = 3;
                   uses[1] = 2;
                   run Thread(0, 0, NONE);
                   run Thread(1, 0, 1);
                   run Thread(2, 1, 0)
                fi
        };
        ended == THREADS;
        assert(uses[0] == 0 && uses[1] == 0 && freed[0]);
        assert(state[0] == FREE && state[1] == FREE && sleepers == 0)
}
