/* partner.pml: a thread that runs stretches for workers, in hop mode and for pinned fibers
 * (docs/decisions/546-stretches-on-another-thread.md; factory/fiber/partner.c, factory/fiber/pin.c, factory/fiber/stretch.c).
 *
 *   Worker    two of them: the one that gets the fiber runs its stretch, itself or by the partner, and waits then.  What the fiber
 *             awaits may end at once, so the other one may run the next stretch
 *   Partner   waits until it is to RUN, runs a stretch, waits again; its memory is freed behind its end
 *
 * The function pins itself, awaits twice, unpins, awaits, pins itself again, and ends.  The word of the state is a futex: who sleeps
 * is woken by a wake, or for no reason.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define IDLE 0 /* the state */
#define RUN  1
#define END  2

#define AWAIT 0 /* what the fiber wants */
#define MOVE  1
#define OVER  2

#define WORKERS 2
#define PARTNER 2 /* the number of its thread */
#define STEPS   7

byte state;
bool asleep[WORKERS + 1];
bool made, gone, freed;

/* The fiber. */
bool ready;              /* delivered */
bool pinned;
byte step, wish;
bool done;

/* For judging only. */
bool on_stack;
byte stretches;

#define touch() assert(!freed)

inline wake()
{
        d_step { touch(); asleep[0] = false; asleep[1] = false; asleep[PARTNER] = false }
}

inline set_state(next)
{
#ifdef MUTANT_WOKEN_FIRST
        wake();
#endif
        touch();
        state = next;
#ifndef MUTANT_WOKEN_FIRST
        wake()
#endif
}

/* Until the word has another value than that. */
inline wait_for_change(me, past)
{
        do
        :: touch();
           if
           :: state != past -> break
           :: else
           fi;
           d_step {
                touch();
                if
#ifdef MUTANT_SLEEPS_UNLOOKED
                :: true -> asleep[me] = true
#else
                :: state == past -> asleep[me] = true
#endif
                :: else
                fi
           };
           !asleep[me]
        od
}

inline deliver()
{
        d_step { assert(!ready); ready = true }
}

/* On the stack of the fiber, on that thread. */
inline stretch(me)
{
        d_step { assert(!on_stack && !done); on_stack = true; stretches++ };
        d_step {
                assert((me == PARTNER) == (step == 1 || step == 2 || step == 3 || step == 6));
                if
                :: step == 0 || step == 5 -> made = true; pinned = true; wish = MOVE
                :: step == 1 || step == 2 || step == 4 -> wish = AWAIT
                :: step == 3 -> pinned = false; wish = MOVE
                :: step == 6 -> wish = OVER
                fi;
                step++
        };
        on_stack = false
}

proctype Partner()
{
        made;
        do
        :: wait_for_change(PARTNER, IDLE);
           if
           :: state == END -> break
           :: state == RUN ->
                stretch(PARTNER);
#ifdef MUTANT_STARTED_BY_THE_PARTNER
                if
                :: wish == AWAIT -> deliver()
                :: else
                fi;
#endif
                set_state(IDLE)
           fi
        od;
        gone = true
}

inline run_stretch(me)
{
        do
        :: if
           :: pinned -> set_state(RUN); wait_for_change(me, RUN); assert(state == IDLE)
           :: !pinned -> stretch(me)
           fi;
           if
           :: wish == MOVE
           :: else -> break
           fi
        od
}

proctype Worker(byte me)
{
        bool was_pinned;

        do
        :: atomic { ready -> ready = false };
           was_pinned = pinned;
           run_stretch(me);
           if
#ifdef MUTANT_STARTED_BY_THE_PARTNER
           :: wish == AWAIT && !was_pinned -> deliver()
           :: wish == AWAIT && was_pinned
#else
           :: wish == AWAIT -> deliver()
#endif
           :: wish == OVER ->
                set_state(END);
#ifndef MUTANT_FREED_UNJOINED
                gone;
#endif
                freed = true;
                done = true
           fi
        :: done -> break
        od
}

/* A sleep may end for no reason. */
proctype Noise()
{
        byte which;

        if
        :: which = 0
        :: which = 1
        :: which = PARTNER
        fi;
        asleep[which] = false
}

init
{
        atomic { ready = true; run Worker(0); run Worker(1); run Partner(); run Noise() };
        done && gone;
        assert(step == STEPS && stretches == STEPS && freed && !ready)
}
