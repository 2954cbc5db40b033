/* park.pml: the watchdog sleeps while all pollers do (kernel/watchdog.c; kernel/poller.c, weir__poller_poll).
 *
 *   Worker    two of them, each with a poller: falls asleep, or nearly so; wakes up; runs what is due and what was pushed, callbacks
 *             that may block until the watchdog has seen it
 *   Somebody  for one poller: a deadline passes, a push, a wake-up for nothing, in any order and at any time; for the other a push
 *   Watchdog  looks at the pollers again and again; when all are asleep, it parks
 *   Main      when all callbacks have run: stops the watchdog, at whatever it is
 *   Processor the buffer of the watchdog's writes of `parked`, which has room for one: drained at any time
 *
 * How a poller is taken away is the affair of handover.pml: here a callback that blocks goes on when the watchdog has looked at
 * it.  How a poller sleeps is that of wakeup.pml.  A pause of the watchdog ends when its time is over, but it is not waited for by
 * who stops it: that pause may be as long as half of the longest time that a callback may take.
 *
 * When a callback blocks for ever because the watchdog is parked, or a stop waits for more than that, spin reports an invalid end
 * state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md tells the interleavings. */

#define POLLERS   2
#define CALLBACKS 3

#define EMPTY    0 /* inbox */
#define WORK     1
#define SLEEPING 2

#define AWAKE  0 /* parked */
#define PARKED 1
#define STOP   2

#define NOTHING 3 /* in the buffer */

byte inbox[POLLERS];
bool due[POLLERS];
bool event[POLLERS];  /* the kernel's: something to wake up for */
byte parked;          /* a futex */
byte buffer = NOTHING;
bool dog_asleep;      /* the kernel's: on that futex */
bool stops;

/* For judging only. */
bool blocked[POLLERS];
bool seen[POLLERS];
bool stop_is_said;
byte ran;
bool over, dog_is_over;

inline drain()
{
        if
        :: buffer != NOTHING -> parked = buffer
        :: else
        fi;
        buffer = NOTHING
}

/* Without a time it ends by a wake-up alone. */
inline futex_wait(value, timed)
{
        d_step {
                drain();
                dog_asleep = (parked == value)
        };
        if
        :: atomic { !dog_asleep }
        :: atomic { timed && dog_asleep && !stop_is_said -> dog_asleep = false }
        fi
}

inline futex_wake()
{
        d_step {
                dog_asleep = false
        }
}

/* -- a worker -- */

inline take_inbox()
{
        d_step {
                pushed = (inbox[me] == WORK);
                inbox[me] = EMPTY
        }
}

inline look_at_watchdog()
{
        if
        :: parked != AWAKE ->
#ifdef MUTANT_UNPARKED_BY_EXCHANGE
                d_step {
                        found = (parked != AWAKE);
                        parked = AWAKE
                };
#else
                d_step {
                        found = (parked == PARKED);
                        if
                        :: found -> parked = AWAKE
                        :: else
                        fi
                };
#endif
                if
#ifndef MUTANT_UNPARKED_UNWOKEN
                :: found -> futex_wake()
#endif
                :: else
                fi;
                found = false
        :: else
        fi
}

inline call_back()
{
        if
        :: d_step { blocked[me] = true; seen[me] = false };
           d_step { seen[me] -> blocked[me] = false }
        :: true
        fi;
        ran++
}

proctype Worker(byte me)
{
        bool sleeps, pushed, found;

        do
        :: atomic { over -> break }
        :: atomic { !over && (inbox[me] == EMPTY || inbox[me] == WORK) };
           if
           :: d_step { inbox[me] == EMPTY -> inbox[me] = SLEEPING };
              sleeps = !due[me]
           :: inbox[me] != EMPTY
           fi;
           if
           :: sleeps ->
                   d_step { (event[me] || over) -> event[me] = false }
           :: else
           fi;
#ifdef MUTANT_LOOK_BEFORE_TAKING
           look_at_watchdog();
           take_inbox();
#elif defined(MUTANT_LOOK_AFTER_A_SLEEP)
           take_inbox();
           if
           :: sleeps -> look_at_watchdog()
           :: else
           fi;
#else
           take_inbox();
           look_at_watchdog();
#endif
           sleeps = false;
           if
           :: due[me] -> due[me] = false; call_back()
           :: else
           fi;
           if
           :: pushed -> pushed = false; call_back()
           :: else
           fi
        od
}

proctype Somebody(byte me; bool deadline, push, wake) /* which have been */
{

        do
        :: !deadline ->
                d_step { /* the timerfd was armed, or the owner looks at the clock before it sleeps */
                        due[me] = true;
                        event[me] = true;
                        deadline = true
                }
        :: !push ->
                d_step {
                        event[me] = event[me] || inbox[me] == SLEEPING;
                        inbox[me] = WORK;
                        push = true
                }
        :: !wake ->
                d_step {
                        if
                        :: inbox[me] == SLEEPING ->
                                inbox[me] = EMPTY;
                                event[me] = true
                        :: else
                        fi;
                        wake = true
                }
        :: deadline && push && (wake || over) -> break
        od
}

/* -- the watchdog -- */

inline look_around()
{
        d_step {
                awake = (inbox[0] != SLEEPING);
                seen[0] = seen[0] || blocked[0]
        };
        d_step {
                awake = awake || inbox[1] != SLEEPING;
                seen[1] = seen[1] || blocked[1]
        }
}

inline park()
{
#ifdef MUTANT_FENCE_BEFORE_PARKED
        d_step { drain() };
        buffer == NOTHING -> buffer = PARKED;
#else
        buffer == NOTHING -> buffer = PARKED;
#ifndef MUTANT_NO_FENCE
        d_step { drain() };
#endif
#endif
#ifndef MUTANT_PARKED_UNLOOKED
        d_step { awake = (inbox[0] != SLEEPING) };
        d_step { awake = awake || inbox[1] != SLEEPING };
#endif
        do
        :: awake || stops -> break
        :: !awake && !stops ->
                if
                :: (buffer == NOTHING -> parked : buffer) == AWAKE -> break
                :: else -> futex_wait(PARKED, false)
                fi
        od;
        buffer == NOTHING -> buffer = AWAKE;
#ifndef MUTANT_AWAKE_BY_STORE
        d_step { drain() }
#endif
}

proctype Watchdog()
{
        bool awake;

        do
        :: stops -> break
        :: !stops ->
                futex_wait(AWAKE, true);
                look_around();
                if
                :: !awake -> park()
                :: else
                fi;
                awake = false
        od;
        buffer == NOTHING;
        dog_is_over = true
}

/* -- the rest -- */

proctype Processor()
{
        do
        :: d_step { buffer != NOTHING -> drain() }
        :: over -> break
        od
}

init
{
        atomic {
                run Processor();
                run Worker(0);
                run Worker(1);
                run Somebody(0, false, false, false);
                run Somebody(1, true, false, true);
                run Watchdog()
        };
        atomic {
                ran == CALLBACKS ->
                stops = true
        };
        d_step {
#ifndef MUTANT_STOP_UNSAID
                parked = STOP
#else
                skip
#endif
        };
        d_step {
                futex_wake();
                stop_is_said = true
        };
        dog_is_over;
        d_step {
                parked = AWAKE;
                over = true
        };
        _nr_pr == 1;
        assert(buffer == NOTHING && !blocked[0] && !blocked[1])
}
