/* roots.pml: who is counted, and when the workers may leave (docs/design.md, "Shutdown"; kernel/runtime.c).
 *
 *   Worker     two of them, each with its poller: enters roots, ends any root, runs the drain of its poller, leaves when told
 *   Foreign    a thread that owns no poller: it enters a root, or is refused
 *   Shutdown   weir_shutdown, weir_init, weir_shutdown
 *
 * A root is a lone task, a series of its own or an exchange.  It is entered on one thread and ends on any worker.  A worker
 * counts on its poller, which nobody else writes, without an atomic read-modify-write; other threads count on one atomic.
 * Shutdown sets the phase, has every worker run its drain, and then waits until the sum of all counts is 0; it reads them one
 * after another.
 *
 * Nobody may be left alone: when the workers have left, no root that was entered is alive.  And shutdown must end: when it sleeps
 * and nobody is on the way to wake it, spin reports an invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md tells the interleavings. */

#define WORKERS 2
#define ROUNDS  2
#define ENTRIES 2 /* roots that workers enter, in all */

#define UP       0
#define STOPPING 1
#define ENDED    2

byte phase = UP;            /* sequentially consistent */
short foreign;              /* the same */
short own[WORKERS];         /* written by its worker, and by shutdown when no worker runs */

bool drain_asked[WORKERS];
bool exit_asked[WORKERS];
bool gone[WORKERS];         /* joined */

bool mutex;                 /* progress.mutex */
byte drained;               /* guarded by mutex */
bool asleep;                /* shutdown waits for the condition */

/* For judging only. */
byte alive;                 /* roots that were entered and have not ended */
byte entries;

inline notify()
{
        atomic { !mutex -> mutex = true };
        asleep = false;
        mutex = false
}

active proctype Foreign()
{
        byte seen;

#ifdef MUTANT_PHASE_BEFORE_COUNT
        seen = phase;
        foreign++;
        alive = alive + (seen == UP -> 1 : 0);
#else
        foreign++;
        d_step {
                seen = phase;
                alive = alive + (seen == UP -> 1 : 0)
        };
#endif
        if
        :: seen == UP -> skip
        :: else ->
                foreign--;
#ifndef MUTANT_REFUSED_IN_SILENCE
                if
                :: phase == STOPPING -> notify()
                :: else
                fi
#endif
        fi
}

proctype Worker(byte me)
{
        byte seen;

        do
        :: entries < ENTRIES -> /* as for a connection that came, or inside a callback */
                d_step {
                        entries++;
                        seen = phase
                };
                d_step {
                        if
                        :: seen == UP ->
                                own[me] = own[me] + 1;
                                alive++
                        :: else /* refused */
                        fi;
                        seen = UP
                }
        :: d_step {
                alive > 0 ->
                alive--
           };
           own[me] = own[me] - 1;
#ifndef MUTANT_END_IN_SILENCE
           if
           :: phase == STOPPING -> notify() /* before it sleeps */
           :: else
           fi
#endif
        :: drain_asked[me] ->
                drain_asked[me] = false;
                atomic { !mutex -> mutex = true };
                drained++;
                asleep = false;
                mutex = false
        :: exit_asked[me] ->
                exit_asked[me] = false;
                break
        od;
        gone[me] = true
}

active proctype Shutdown()
{
        byte round;
        short sum;

        do
        :: round < ROUNDS ->
                atomic {
                        gone[0] = false;
                        gone[1] = false;
                        run Worker(0);
                        run Worker(1)
                };
                phase = UP;
                phase = STOPPING;
                drain_asked[0] = true;
                drain_asked[1] = true;
                atomic { !mutex -> mutex = true };
                do
                :: true ->
#ifdef MUTANT_COUNT_BEFORE_DRAIN
                        sum = foreign;
#else
                        sum = foreign + (drained < WORKERS -> 100 : 0);
#endif
                        sum = sum + own[0];
                        sum = sum + own[1];
                        if
                        :: sum == 0 -> break
                        :: else
                        fi;
                        d_step {
                                sum = 0;
                                asleep = true;
                                mutex = false
                        };
                        atomic { !asleep && !mutex -> mutex = true }
                od;
                mutex = false;
                exit_asked[0] = true;
                exit_asked[1] = true;
                gone[0];
                gone[1];
                assert(alive == 0);
#ifndef MUTANT_COUNTS_FORGOTTEN
                foreign = foreign + own[0];
                foreign = foreign + own[1];
#endif
                d_step {
                        own[0] = 0;
                        own[1] = 0;
                        drained = 0;
                        drain_asked[0] = false;
                        drain_asked[1] = false;
                        round++
                };
                phase = ENDED
        :: else ->
                break
        od
}
