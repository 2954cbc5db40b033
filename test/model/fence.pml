/* fence.pml: the fence in two halves where the worker writes ENDED (kernel/base/fence.h; factory/timer/timer.c, end_cancelled).
 *
 *   Ender     two of them: each has run on_free of a cancelled timer; it writes ENDED and looks whether anybody waits.  If not,
 *             its timer is a grave, to which it comes back at any time, or not before all waits are over
 *   Waiter    two of them: weir_timer_cancel_wait: counts itself, looks at the words of both timers, and waits for those that
 *             have not ENDED until they are off the list
 *   Processor the buffers of the writes: one is drained at any time
 *
 * wait.pml shows the rest of waits, walks and lists; buffers and fences are those of lock.pml.  A section under the lock of the
 * shard is one step, and drains the buffer of its thread as it begins.
 *
 * Either the waiter sees ENDED, or the ender sees the waiter: when a wait has no way out, spin reports an invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define ENDERS  2
#define WAITERS 2

bool is_ended[ENDERS]; /* of the word */
byte waits;
bool asymmetric;       /* constant */

bool buffer[ENDERS];   /* the write of ENDED is in it; the buffer of a waiter does not matter */

bool listed[ENDERS];   /* guarded by the lock of the shard */

/* For judging only. */
byte over;

inline drain(ender)
{
        is_ended[ender] = is_ended[ender] || buffer[ender];
        buffer[ender] = false
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
                        drain(1)
#endif
                :: else /* its own writes are out: the count is an atomic operation */
                fi
        }
}

proctype Ender(byte me)
{
        bool nobody_waits;

#ifdef MUTANT_LOOK_BEFORE_ENDED
        nobody_waits = (waits == 0);
        buffer[me] = true;
#else
        buffer[me] = true;
        light_fence();
        nobody_waits = (waits == 0);
#endif
        if
        :: nobody_waits && over < WAITERS -> over == WAITERS /* a grave: it is busy elsewhere */
        :: true /* at once, or a grave to which it comes back soon */
        fi;
        d_step { /* under the lock: unlinks it, and wakes its waiters */
                drain(me);
                listed[me] = false
        }
}

proctype Waiter()
{
        byte timer;

#ifdef MUTANT_FENCE_BEFORE_COUNTING
        heavy_fence();
        waits++;
#elif !defined(MUTANT_COUNTED_WHEN_IT_SLEEPS)
        waits++;
        heavy_fence();
#else
        heavy_fence();
#endif
        do
        :: timer < ENDERS ->
                if
                :: !listed[timer] || is_ended[timer]
                :: listed[timer] && !is_ended[timer] ->
#ifdef MUTANT_COUNTED_WHEN_IT_SLEEPS
                        waits++;
#endif
                        !listed[timer];
#ifdef MUTANT_COUNTED_WHEN_IT_SLEEPS
                        waits--
#endif
                fi;
                timer++
        :: else -> break
        od;
        timer = 0;
        d_step {
#ifndef MUTANT_COUNTED_WHEN_IT_SLEEPS
                waits--;
#endif
                over++
        }
}

proctype Processor()
{
        do
        :: d_step { buffer[0] -> drain(0) }
        :: d_step { buffer[1] -> drain(1) }
        :: over == WAITERS && !buffer[0] && !buffer[1] -> break
        od
}

init
{
        atomic {
                if
                :: asymmetric = true
                :: asymmetric = false
                fi;
                listed[0] = true;
                listed[1] = true;
                run Processor();
                run Ender(0);
                run Ender(1);
                run Waiter();
                run Waiter()
        };
        _nr_pr == 1;
        assert(waits == 0 && !listed[0] && !listed[1]);
        assert(is_ended[0] && is_ended[1])
}
