/* fd.pml: a task that waits for a descriptor of the program (io/base/io_task.c, io/base/fd.c).
 *
 *   Starter   starts the task, which delivers its work to the poller
 *   Cancel    cancels the task at any time, or not
 *   Program   when the task is on its way: forgets the descriptor, closes it and opens another file with its number; or wakes the
 *             task first.  Or it does nothing, and a shutdown comes
 *   Peer      makes the descriptor readable at any time, or never
 *   Owner     the poller: works in the order of their delivery, events, the end of its sources
 *
 * An event is taken from epoll first and handled later, as the poller does with a batch of them.  The number of the file belongs
 * to another file once it was closed: `number` counts the files.
 *
 * When the task waits for ever, spin reports an invalid end state.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define NEW       0 /* the task's word */
#define READY     1
#define PENDING   2
#define RUNNING   3
#define CANCELLED 4 /* a flag */

#define TASK  1 /* works */
#define ORDER 2
#define DRAIN 3

#define NONE   0 /* statuses */
#define ZERO   1
#define CAUSE  2
#define EBADF  3
#define EINTR  4
#define ESHUTDOWN 5

byte word;
bool is_cancelled; /* the series */
byte status;
bool is_tried, is_linked; /* the owner's */

bool locked; /* the descriptor's lock, and what it guards */
bool is_over, is_registered, wants_forget, wants_wake;

byte number;       /* the file that the descriptor's number belongs to */
bool armed;        /* epoll: asked for one event of file `registration` */
byte registration; /* the file that epoll watches; 255: none */
bool readable;     /* file 0 */

bool stopping;
chan works = [4] of { byte };

/* For judging only. */
byte deliveries; /* of the task that have not run */
bool is_forgotten, called, started, done_with;

inline lock()
{
        atomic { !locked -> locked = true }
}

inline unlock()
{
        locked = false
}

inline deliver_task()
{
        d_step {
                deliveries++;
                assert(deliveries == 1);
                works!TASK
        }
}

proctype Starter()
{
        d_step { word = word + READY };
        deliver_task();
        started = true
}

proctype Cancel()
{
        byte before;

        if
        :: true
        :: d_step {
                is_cancelled = true;
                before = word;
                word = (before < CANCELLED && before != RUNNING -> before + CANCELLED : before)
           };
           if
#ifdef MUTANT_CANCEL_DELIVERS_WHAT_IS_READY
           :: before == PENDING || before == READY -> deliver_task()
#else
           :: before == PENDING -> deliver_task()
#endif
           :: else
           fi
        fi
}

/* -- the program -- */

inline give_order(which)
{
        if
        :: !(wants_forget || wants_wake) && !stopping -> which = true; works!ORDER
        :: (wants_forget || wants_wake) -> which = true
        :: else /* the shutdown ends what waits */
        fi
}

inline forget()
{
#ifndef MUTANT_FORGET_UNLOCKED
        lock();
#endif
        d_step {
                if
                :: is_registered && !is_over && registration == number -> registration = 255; armed = false
                :: else
                fi
        };
        is_over = true;
        if
        :: is_registered -> give_order(wants_forget)
        :: else
        fi;
#ifndef MUTANT_FORGET_UNLOCKED
        unlock();
#endif
        is_forgotten = true;
        d_step { /* close, and open */
                number++;
                if
                :: registration == 0 -> registration = 255; armed = false /* epoll forgets a file that is closed */
                :: else
                fi
        }
}

inline wake()
{
        lock();
#ifdef MUTANT_WAKE_OF_THE_REGISTERED
        if
        :: is_registered -> give_order(wants_wake)
        :: else
        fi;
#else
        give_order(wants_wake);
#endif
        unlock()
}

proctype Program()
{
        byte wakes;

        started;
        do
        :: wakes < 2 -> wake(); wakes++
        :: break
        od;
        if
        :: forget(); called
        :: wakes > 0 || is_cancelled -> called /* that alone has to end it */
        :: true
        fi;
        stopping = true;
        works!DRAIN
}

proctype Peer()
{
        if
        :: readable = true
        :: true
        fi
}

/* -- the owner -- */

inline complete(with)
{
        if
        :: is_linked ->
                is_linked = false;
                status = with;
#ifdef MUTANT_COMPLETE_UNLOOKED
                d_step { word = READY + (word & CANCELLED) };
                deliver_task()
#else
                if
                :: d_step { word == PENDING -> word = READY };
                   deliver_task()
                :: word != PENDING /* a cancel has delivered it */
                fi
#endif
        :: else
        fi
}

/* Asks epoll, and links the task, or sets its status. */
inline try_task()
{
        if
        :: word >= CANCELLED -> status = CAUSE
        :: else ->
                if
                :: stopping -> status = ESHUTDOWN
                :: else ->
                        lock();
                        if
                        :: is_over -> status = EBADF
                        :: else ->
                                registration = number;
                                armed = true;
                                is_registered = true;
                                is_linked = true
                        fi;
                        unlock()
                fi
        fi
}

inline call_back()
{
        if
        :: is_linked -> is_linked = false; status = CAUSE /* withdraw */
        :: else
        fi;
        d_step {
                word = RUNNING;
                status = (is_cancelled -> CAUSE : status);
                assert(!called && status != NONE);
                called = true
        }
}

inline run_task()
{
        deliveries--;
        if
        :: !is_tried ->
                is_tried = true;
                try_task();
                if
                :: !is_linked -> deliver_task() /* it runs once more for its callback */
                :: else ->
#ifdef MUTANT_WAITS_BY_A_STORE
                        word = PENDING
#else
                        if
                        :: d_step { word == READY -> word = PENDING }
                        :: word != READY -> deliver_task()
                        fi
#endif
                fi
        :: else -> call_back()
        fi
}

inline leave_poller(with)
{
        complete(with);
        lock();
        is_registered = false;
        unlock()
}

inline carry_out()
{
        bool forgets, wakes;

        lock();
        d_step {
                forgets = wants_forget;
                wakes = wants_wake;
                wants_forget = false;
                wants_wake = false
        };
        unlock();
        if
        :: wakes -> complete(EINTR)
        :: else
        fi;
        if
        :: forgets -> leave_poller(EBADF)
        :: else
        fi
}

inline handle_event()
{
#ifndef MUTANT_EVENT_OF_A_FORGOTTEN_ONE
        lock();
        over = is_over;
        unlock();
#endif
        if
        :: over
        :: else ->
                assert(!is_forgotten_before || !is_linked);
                complete(ZERO)
        fi
}

proctype Owner()
{
        byte work;
        bool event, over, drained, is_forgotten_before;

        do
        :: d_step { !event && armed && registration == 0 && readable -> event = true; armed = false }
        :: d_step { event -> event = false; is_forgotten_before = is_forgotten };
           handle_event()
        :: works?work;
           if
           :: work == TASK -> run_task()
           :: work == ORDER -> carry_out()
           :: work == DRAIN -> leave_poller(ESHUTDOWN); drained = true
           fi
        :: atomic { drained && called && empty(works) && !event && deliveries == 0 -> break }
        od;
        done_with = true
}

init
{
        registration = 255;
        atomic {
                run Starter();
                run Cancel();
                run Program();
                run Peer();
                run Owner()
        };
        _nr_pr == 1;
        assert(called && registration != 1)
}
