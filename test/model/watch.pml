/* watch.pml: the watchdog is woken by a timer that its poller keeps setting off (kernel/sched/watchdog.c; kernel/loop/poller.c,
 * weir__poll).
 *
 *   Worker    falls asleep, or nearly so, and may disarm the timer; wakes up, maybe as a new owner; sets the timer, unless it has
 *             most of a pause left; runs due and pushed callbacks, which may block until the watchdog has looked three times
 *   Somebody  a deadline passes, a push, a wake-up for nothing, in any order and at any time
 *   Clock     time goes on, and the timer fires
 *   Watchdog  sleeps until the timer fires, or, while the poller is overdue, for a pause; looks whether it is asleep
 *   Main      when all callbacks have run: stops the watchdog, in any of its states
 *
 * Pollers do not affect each other here, so there is one.  handover.pml shows how it is taken away: here a callback that blocks
 * goes on when the watchdog has looked at it.  wakeup.pml shows how a poller sleeps.
 *
 * When a callback blocks for ever because the watchdog sleeps, or a stop waits for more than its own event, spin reports an
 * invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define CALLBACKS 2
#define PAUSE     4
#define LOOKS     3

#define EMPTY    0 /* inbox */
#define WORK     1
#define SLEEPING 2

byte inbox;
bool due;
bool event;      /* the kernel's: something to wake up for */
byte left;       /* until the timer fires */
byte until;      /* watch.until, counted from now; 0: it has passed, or says nothing */
bool fired;      /* the kernel's: the timer has fired, and nobody has seen it yet */
bool stop_event; /* the same, of the stop */
bool stops;

/* For judging only. */
bool blocked;
byte looks;
byte ran;
bool over, dog_is_over;

/* -- the worker -- */

inline take_inbox()
{
        d_step {
                pushed = (inbox == WORK);
                inbox = EMPTY
        }
}

inline read_clock()
{
        d_step { renews = (until <= PAUSE / 4 * 3) }
}

inline set_timer(time)
{
        d_step {
                left = time;
                fired = false /* the kernel takes back an event that nobody has seen */
        }
}

inline renew_watch()
{
        if
        :: renews ->
                set_timer(PAUSE);
                d_step { until = left } /* an instant: meanwhile time may have passed */
        :: else
        fi
}

inline disarm()
{
        set_timer(0);
        until = 0
}

inline call_back()
{
        if
        :: d_step { blocked = true; looks = 0 };
           d_step { looks == LOOKS -> blocked = false }
        :: true
        fi;
        ran++
}

inline call_all()
{
        if
        :: due -> due = false; call_back()
        :: else
        fi;
        if
        :: pushed -> pushed = false; call_back()
        :: else
        fi
}

proctype Worker()
{
        bool sleeps, pushed, renews;

        do
        :: atomic { over -> break }
        :: atomic { !over && (inbox == EMPTY || inbox == WORK) };
           if
           :: d_step { inbox == EMPTY -> inbox = SLEEPING };
              sleeps = !due
           :: inbox != EMPTY
           fi;
           if
           :: sleeps -> disarm()
           :: true
           fi;
           if
           :: sleeps ->
                   d_step { (event || over) -> event = false }
           :: else
           fi;
           if
           :: until = 0 /* it is a new owner */
           :: true
           fi;
#ifdef MUTANT_CLOCK_BEFORE_TAKING
           read_clock();
           take_inbox();
#else
           take_inbox();
           read_clock();
#endif
#ifdef MUTANT_RENEWED_AFTER_A_SLEEP
           renews = renews && sleeps;
#endif
           sleeps = false;
#ifdef MUTANT_RENEWED_AFTER_CALLBACKS
           call_all();
           renew_watch()
#else
           renew_watch();
           call_all()
#endif
        od
}

proctype Somebody()
{
        bool deadline, push, wake; /* have been */

        do
        :: !deadline ->
                d_step { /* the timerfd was armed, or the owner looks at the clock before it sleeps */
                        due = true;
                        event = true;
                        deadline = true
                }
        :: !push ->
                d_step {
                        event = event || inbox == SLEEPING;
                        inbox = WORK;
                        push = true
                }
        :: !wake ->
                d_step {
                        if
                        :: inbox == SLEEPING ->
                                inbox = EMPTY;
                                event = true
                        :: else
                        fi;
                        wake = true
                }
        :: deadline && push && (wake || over) -> break
        od
}

proctype Clock()
{
        do
        :: d_step {
                left > 0 || until > 0 ->
                fired = fired || left == 1;
                left = (left > 0 -> left - 1 : 0);
                until = (until > 0 -> until - 1 : 0)
           }
        :: over -> break
        od
}

/* -- the watchdog -- */

inline look()
{
        asleep = (inbox == SLEEPING);
        d_step {
                if
                :: blocked && looks < LOOKS -> looks++
                :: else
                fi
        };
#ifdef MUTANT_LOOKED_ONCE
        attends = false;
#else
        attends = !asleep && until == 0;
#endif
        asleep = false
}

proctype Watchdog()
{
        bool attends, asleep;

        do
        :: stops -> break
        :: !stops ->
                if
                :: d_step { fired -> fired = false; attends = true }
                :: d_step { stop_event -> stop_event = false }
                :: attends /* its pause is over */
                fi;
                if
                :: attends -> look()
                :: else
                fi
        od;
        dog_is_over = true
}

init
{
        atomic {
                run Worker();
                run Somebody();
                run Clock();
                run Watchdog()
        };
        ran == CALLBACKS;
        stops = true;
#ifndef MUTANT_STOP_UNSAID
        stop_event = true;
#endif
        dog_is_over;
        over = true;
        _nr_pr == 1;
        assert(!blocked)
}
