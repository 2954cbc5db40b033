/* roots.pml: the count of live roots, and when the workers may leave (docs/design.md, "Start, shutdown, fork";
 * kernel/runtime/runtime.c, kernel/worker/worker_pool.c).
 *
 *   Worker    two of them: enters roots in its loop and in callbacks, ends them or lets them go on elsewhere, runs the drain of
 *             its poller, leaves on order.  Either each has a poller; or there is one, which the first may lose in a callback:
 *             the other worker is made then, and runs it.  The first one finishes without a poller, is idle, and may end before
 *             the others
 *   Executor  a thread that never has a poller: the same in its functions.  If there are two pollers, it is left out
 *   Foreign   a thread of the program: enters roots, or is refused; ends some itself
 *   Watchdog  takes the poller of the first worker away, at any time in a callback
 *   Shutdown  weir_init, weir_shutdown, weir_init, weir_shutdown, at any time
 *
 * A root is a lone task, a series of its own or an exchange.  It is entered on one thread and ends on any.  A worker, which a
 * thread of the executor is as well, counts in a word of its own, which nobody else writes while it runs, by plain writes;
 * other threads count on one atomic.  Such a write lies in the buffer of its thread, which has room for two, before others see
 * it; the buffer is drained before an atomic operation, a full fence or a section under a lock of that thread, and by the heavy
 * fence of another.  Else its writes may come out, the oldest first, at any time: since nobody but shutdown reads them, that is
 * decided when it does.  Shutdown sets the phase, runs the heavy fence, has every poller drained, and waits until the sum of
 * all counts is 0; it reads them one after another.  At the start it is chosen whether there are two pollers, and whether the
 * system has membarrier(2).
 *
 * Each callback belongs to a root that has not ended.  So a worker that has lost its poller without knowing it, and is refused,
 * need not notify; the end of that root will.  handover.pml shows how pollers change hands, wakeup.pml how sleepers are woken.
 * A section under the mutex with which shutdown waits is one step, except for those of shutdown.
 *
 * No root may be left alone: when shutdown lets the workers leave, no root is alive, and none is entered.  And shutdown must end:
 * when it sleeps and nobody is on the way to wake it, spin reports an invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define ROUNDS  2
#define CHANCES 2 /* of workers and the executor, in all: to enter a root, or to have one go on elsewhere */
#define FOREIGN 1 /* roots of the other thread */

#define SECOND   1 /* the second worker, if there is one poller */
#define EXECUTOR 2
#define THREADS  3 /* that count in words of their own */
#define NOBODY   3

#define UP       0
#define STOPPING 1
#define ENDED    2

byte phase = ENDED;
bool asymmetric;            /* constant, as the next one */
byte pollers;
short foreign;              /* atomic, as the phase */

short own[THREADS];         /* as others see them */
byte room[THREADS];         /* buffers: how many writes, the older one, the younger one */
short older[THREADS];
short younger[THREADS];

bool pool_locked;
short ended_live;           /* guarded by it: of workers that have ended */
bool leaving;               /* the same */

bool runs[THREADS];         /* the system's: the threads */
byte owner[2];              /* of each poller */
bool in_callback;           /* the first worker */

byte ready[2];              /* roots that are delivered to each poller, be it to the list or to the inbox */
byte jobs;                  /* roots in the executor */
bool drain_asked[2];
bool exit_asked[2];
bool executor_ends;

bool mutex;                 /* progress.mutex */
byte drained;               /* guarded by mutex */
bool asleep;                /* shutdown waits for the condition */

/* For judging only. */
byte alive;                 /* roots that were entered and have not ended */
byte chances;               /* that were taken */
bool may_leave;             /* shutdown has found that nobody is alive */
bool over;

/* -- buffers -- */

inline drain(thread)
{
        if
        :: room[thread] == 1 -> own[thread] = older[thread]
        :: room[thread] == 2 -> own[thread] = younger[thread]
        :: else
        fi;
        room[thread] = 0;
        older[thread] = 0;
        younger[thread] = 0
}

inline drain_one(thread)
{
        own[thread] = older[thread];
        older[thread] = younger[thread];
        younger[thread] = 0;
        room[thread]--
}

/* By shutdown. */
inline read_own(thread)
{
        atomic {
                do
                :: room[thread] > 0 -> drain_one(thread)
                :: true -> break
                od;
                sum = sum + own[thread]
        }
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
                :: else /* it has written nothing but by atomic operations */
                fi
        }
}

#define poller  (pollers == 2 -> me : 0)
#define is_mine (owner[poller] == me)

/* -- counting on a worker -- */

/* Adds to it, when so many roots end; then comes the light fence. */
inline count_own(change, ends)
{
        d_step {
                if
                :: room[me] == 2 -> drain_one(me)
                :: else
                fi;
                mine = mine + change;
                if
                :: room[me] == 0 -> older[me] = mine
                :: else -> younger[me] = mine
                fi;
                room[me]++;
#ifndef MUTANT_LIGHT_ALONE
                if
                :: !asymmetric -> drain(me)
                :: else
                fi;
#endif
                alive = alive - ends
        }
}

/* Phase and notification in one step: while it is STOPPING, shutdown may wait, and it stays so. */
inline notify_if(stopping)
{
        atomic {
                !(stopping) || !mutex ->
                if
                :: stopping ->
                        drain(me);
                        asleep = false
                :: else
                fi
        }
}

inline notify_without_poller()
{
#ifdef MUTANT_END_IN_SILENCE
        skip
#else
        notify_if(!has && phase == STOPPING) /* else the loop does */
#endif
}

inline leave(ends)
{
#ifdef MUTANT_NOTIFY_BEFORE_COUNT
        notify_without_poller();
        count_own(-1, ends)
#elif defined(MUTANT_PHASE_BEFORE_END)
        seen = phase;
        count_own(-1, ends);
        notify_if(!has && seen == STOPPING);
        seen = 0
#else
        count_own(-1, ends);
        notify_without_poller()
#endif
}

inline see_phase()
{
        d_step {
                seen = phase;
                if
                :: seen == UP ->
                        assert(!may_leave);
                        alive++
                :: else
                fi
        }
}

/* A root that is alive is delivered somewhere: to the own poller without an atomic operation. */
inline hand_on()
{
        if
        :: d_step { true -> drain(me); ready[0]++ }
        :: d_step { pollers == 1 -> drain(me); jobs++ }
        :: d_step { pollers == 2 -> drain(me); ready[1]++ }
        :: d_step { me != EXECUTOR && has && is_mine -> ready[poller]++ }
        fi
}

inline enter()
{
#ifdef MUTANT_PHASE_BEFORE_COUNT
        see_phase();
        count_own(1, 0);
#else
        count_own(1, 0);
        see_phase();
#endif
        if
        :: seen == UP -> hand_on()
        :: else /* refused */
        fi
}

/* The actions of a callback, or of a function. */
inline call()
{
        if
        :: atomic { chances < CHANCES -> chances++ };
           enter();
           if
           :: seen == UP
           :: else -> seen = 0; leave(0)
           fi
        :: true
        fi
}

/* The root of the callback ends, or goes on, as a series does. */
inline go_on()
{
        if
        :: d_step { chances < CHANCES -> chances++ };
           hand_on()
        :: leave(1)
        fi
}

/* -- a worker -- */

proctype Worker(byte me)
{
        short mine;
        byte seen;
        bool has;

made:
        if
        :: atomic { over -> goto end }
        :: atomic { runs[me] -> has = true }
        fi;
        do
        :: atomic {
                ready[poller] > 0 ->
                ready[poller]--;
                in_callback = (me == 0 -> true : in_callback)
           };
           if
           :: d_step { !is_mine -> has = false } /* it calls something that pins, or weir_blocking_begin */
           :: true
           fi;
           call();
           d_step {
                in_callback = (me == 0 -> false : in_callback);
#ifndef MUTANT_POLLER_UNLOOKED
                has = is_mine
#endif
           };
#ifdef MUTANT_LEFT_BEFORE_ON_FREE
           go_on();
           in_callback = (me == 0 -> true : in_callback);
           call();
           in_callback = (me == 0 -> false : in_callback);
#else
           go_on();
#endif
           d_step {
                has = is_mine
           };
           if
           :: !has -> break
           :: else
           fi
        :: d_step {
                drain_asked[poller] && !mutex ->
                drain(me);
                drain_asked[poller] = false;
                drained++;
                asleep = false
           }
        :: atomic { chances < CHANCES -> chances++ }; /* a request that came */
           enter();
           if
           :: seen == UP
           :: else -> seen = 0; count_own(-1, 0) /* the loop notifies */
           fi
        :: atomic { ready[poller] == 0 && !drain_asked[poller] && exit_asked[poller] -> break }
        :: atomic {
                ready[poller] == 0 && !drain_asked[poller] && !exit_asked[poller] && (phase != STOPPING || !mutex) ->
#ifndef MUTANT_LOOP_IN_SILENCE
                notify_if(phase == STOPPING)
#endif
           };
           if
           :: ready[poller] > 0
           :: drain_asked[poller]
           :: exit_asked[poller]
           :: atomic { chances < CHANCES -> skip }
           fi
        od;
        if
        :: has
        :: else -> /* an idle worker that nobody calls: it has the order to leave, or has been idle for long enough */
                if
                :: leaving
                :: d_step {
                        !leaving && !pool_locked ->
                        drain(me);
#ifndef MUTANT_FOLD_MISSED
                        ended_live = ended_live + own[me];
#endif
                        own[me] = 0
                   }
                fi
        fi;
        d_step {
                drain(me);
                mine = 0;
                has = false;
                runs[me] = false
        };
        goto made;
end:
        skip
}

proctype Executor(byte me)
{
        short mine;
        byte seen;
        bool has; /* never */

made:
        if
        :: atomic { over -> goto end }
        :: atomic { runs[me] -> skip }
        fi;
        do
        :: atomic { jobs > 0 -> jobs-- };
           call();
           go_on()
        :: atomic { jobs == 0 && executor_ends -> break }
        od;
        atomic {
                drain(me);
                mine = 0;
                runs[me] = false
        };
        goto made;
end:
        skip
}

/* In a callback only, and with a fence of its own. */
proctype Watchdog()
{
        do
        :: d_step {
                in_callback && owner[0] == 0 && pollers == 1 ->
                drain(0);
                owner[0] = SECOND;
                runs[SECOND] = true
           }
        :: over -> break
        od
}

/* -- other threads -- */

inline foreign_leave(ends)
{
        d_step {
                foreign--;
                alive = alive - ends
        };
#ifndef MUTANT_FOREIGN_IN_SILENCE
        atomic {
                phase != STOPPING || !mutex ->
                asleep = (phase == STOPPING -> false : asleep)
        }
#endif
}

proctype Foreign()
{
        byte seen, tries;

        do
        :: atomic { tries < FOREIGN && phase == UP -> tries++ };
#ifdef MUTANT_FOREIGN_PHASE_FIRST
           see_phase();
           foreign++;
#else
           foreign++;
           see_phase();
#endif
           if
           :: seen == UP ->
                   if
                   :: ready[0]++
                   :: d_step { pollers == 1 -> jobs++ }
                   :: foreign_leave(1) /* a wait, or an order to a server */
                   fi
           :: else -> seen = 0; foreign_leave(0)
           fi
        :: over -> break
        od
}

/* -- start and end -- */

inline weir_init()
{
        d_step {
                owner[0] = 0;
                owner[1] = (pollers == 2 -> 1 : NOBODY);
                leaving = false;
                executor_ends = (pollers == 2);
                drained = 0;
                may_leave = false;
                runs[0] = true;
                runs[1] = (pollers == 2);
                runs[EXECUTOR] = (pollers == 1);
                phase = UP
        }
}

inline stop()
{
#ifdef MUTANT_FENCE_BEFORE_PHASE
        heavy_fence();
        phase = STOPPING
#else
        phase = STOPPING;
        heavy_fence()
#endif
}

inline pool_live()
{
#ifdef MUTANT_ENDED_UNLOCKED
        sum = sum + ended_live;
        pool_locked = true;
#else
        pool_locked = true;
        sum = sum + ended_live;
#endif
        read_own(0);
        read_own(1);
        pool_locked = false
}

inline wait_for_end()
{
#ifndef MUTANT_COUNT_UNLOCKED
        mutex = true;
#endif
        do
        ::
                sum = foreign;
                pool_live();
                read_own(EXECUTOR);
#ifdef MUTANT_COUNT_UNLOCKED
                mutex = true;
#endif
                if
                :: sum == 0 && drained == pollers -> break
                :: else
                fi;
                d_step {
                        sum = 0;
                        asleep = true;
                        mutex = false
                };
#ifdef MUTANT_COUNT_UNLOCKED
                !asleep
#else
                atomic { !asleep -> mutex = true }
#endif
        od;
        atomic {
                assert(alive == 0);
                may_leave = true
        };
        mutex = false
}

inline stop_executor()
{
        executor_ends = true;
        d_step {
                !runs[EXECUTOR] ->
#ifndef MUTANT_EXECUTOR_FORGOTTEN
                foreign = foreign + own[EXECUTOR];
#endif
                own[EXECUTOR] = 0
        }
}

inline end_workers()
{
        d_step {
                leaving = true;
                exit_asked[0] = true;
                exit_asked[1] = (pollers == 2)
        };
        d_step {
                !runs[0] && !runs[1] ->
#ifndef MUTANT_COUNTS_FORGOTTEN
                foreign = foreign + ended_live + own[0] + own[1];
#endif
                ended_live = 0;
                own[0] = 0;
                own[1] = 0;
                exit_asked[0] = false;
                exit_asked[1] = false
        }
}

init
{
        byte round;
        short sum;

        atomic {
                if
                :: pollers = 1;
                   asymmetric = false
                :: pollers = 1;
                   asymmetric = true
                :: pollers = 2;
                   asymmetric = true
                fi;
                run Worker(0);
                run Worker(1);
                run Executor(EXECUTOR);
                run Watchdog();
                run Foreign()
        };
        do
        :: round < ROUNDS ->
                round++;
                weir_init();
                stop();
                d_step {
                        drain_asked[0] = true;
                        drain_asked[1] = (pollers == 2)
                };
                do /* the executor's queues */
                :: d_step { jobs > 0 -> jobs--; ready[0]++ }
                :: else -> break
                od;
                wait_for_end();
                stop_executor();
                end_workers();
                phase = ENDED
        :: else -> break
        od;
        over = true;
        _nr_pr == 1;
        assert(alive == 0 && foreign == 0 && ready[0] == 0 && ready[1] == 0 && jobs == 0)
}
