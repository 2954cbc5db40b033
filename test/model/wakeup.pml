/* wakeup.pml: the inbox of a poller, its sleep and its end (docs/design.md, "Wake-up and sleep").
 *
 *   Worker    the poller's thread: takes the inbox, expires deadlines, sleeps, drains, leaves
 *   Pusher    two of them: each pushes one READY node (a cancel, or a start which came after a cancel); the second one may
 *             deliver it in bulk instead (a cancel of many)
 *   Starter   starts two timers that are due NEAR, one after the other
 *   Shutdown  comes at any time, or never: pushes the drain, waits until all roots ended, pushes the exit
 *   Clock     reaches NEAR at any time; FAR is beyond the end of the world
 *
 * Nothing may be lost: when a node is READY or due while the Worker sleeps and nobody is on the way to wake it, the sleep has no
 * way out and spin reports an invalid end state.  A step is one access to shared memory; a whole section under the poller's lock
 * is one step (timer.pml has the locks in the open), and so is what the worker does with nodes that are its own.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

/* The values of the head of the inbox, beside a node. */
#define NIL      0
#define SLEEPING 8

/* The nodes: 1 and 2 are the pushers', 3 and 4 the starter's, 5 pends from the beginning, 6 and 7 are shutdown's. */
#define NODES 8
#define LAST  5
#define DRAIN 6
#define EXIT  7

/* Deadlines in their order. */
#define NEAR  1
#define FAR   2
#define NEVER 3

byte head = NIL;           /* lock-free */
byte next[NODES];          /* owner of the node */
byte eventfd;              /* the kernel's counter */
bool open = true;          /* the poller's memory and its eventfd are there */
byte timerfd = NEVER;      /* the kernel's timer; armed by the worker only */

bool queue[NODES];         /* guarded by the lock: the deadline queue */
byte sleep_until = NEVER;  /* guarded by the lock, written by the worker only: the next wake-up by time */
bool closing;              /* guarded by the lock, written by the worker */
bool given;                /* guarded by the lock, looked at without: node 2 is in the list of bulk deliveries */
bool stopping;             /* the phase: starts are refused */
byte live = 2;             /* roots entered and not ended: roots.pml */
bool drained;

bool near_is_past;         /* the clock */

/* For judging only. */
bool got[NODES];
bool credit;               /* the sleep that began last has not been ended by a wake-up yet */
byte ended;                /* foreign threads that are through */

#define FOREIGN 5

#ifdef MUTANT_SHUTDOWN_WITHOUT_WAKE
bool drain_flag;           /* of a mutant: the worker looks at it when it is awake */
#endif

/* The eventfd is written after the exchange of the head, by the thread that took SLEEPING away: once per sleep, maybe much
 * later. */
inline write_eventfd()
{
        d_step {
                assert(open);
                eventfd++
        }
}

/* The push of a chain which the caller owns; the caller holds no lock.  Once it is in, its nodes may be gone. */
inline push(first, last)
{
        do
        :: d_step { /* nobody sees the link before the head is exchanged */
                old = head;
#ifdef MUTANT_NEXT_IS_SLEEPING
                next[last] = old
#else
                next[last] = (old == SLEEPING -> NIL : old)
#endif
           };
           if
           :: d_step {
                head == old ->
                assert(open);
                head = first;
                assert(old != SLEEPING || credit);
                credit = (old == SLEEPING -> false : credit)
              };
              break
           :: head != old -> skip
           fi
        od;
#ifdef MUTANT_PUSH_WITHOUT_WAKE
        skip
#else
        if
        :: old == SLEEPING -> write_eventfd()
        :: else
        fi
#endif
}

/* Wakes the worker if it sleeps, or is about to. */
inline wake()
{
#ifdef MUTANT_WAKE_BY_STORE
        if
        :: head == SLEEPING ->
                head = NIL;
                write_eventfd()
        :: else
        fi
#else
        if
        :: d_step {
                head == SLEEPING ->
                assert(open && credit);
                head = NIL;
                credit = false
           };
           write_eventfd()
        :: head != SLEEPING -> assert(open)
        fi
#endif
}

proctype Pusher(byte node)
{
        byte old;

        if
        :: push(node, node)
        :: node == 2 ->
                given = true; /* under the lock */
#ifndef MUTANT_BULK_WITHOUT_WAKE
                wake()
#endif
        fi;
        d_step {
                old = NIL;
                ended++
        }
}

/* One that comes when the drain was run is not refused any more: it is READY at once, with -ESHUTDOWN, and is pushed. */
proctype Starter()
{
        byte old, node = 3;
        bool earlier, mine;

        do
        :: node <= 4 ->
#ifdef MUTANT_SLEEP_UNTIL_UNLOCKED
                earlier = (NEAR < sleep_until);
#endif
                if
                :: d_step {
                        !stopping ->
                        live++
                   }
                :: stopping -> break /* refused */
                fi;
                d_step { /* under the lock */
                        if
                        :: closing ->
                                earlier = false;
                                mine = true
                        :: else ->
                                queue[node] = true;
#ifndef MUTANT_SLEEP_UNTIL_UNLOCKED
                                earlier = (NEAR < sleep_until);
#endif
                        fi
                };
#ifdef MUTANT_START_WITHOUT_WAKE
                earlier = false;
#endif
                if
                :: mine -> push(node, node)
                :: !mine && earlier -> wake()
                :: !mine && !earlier
                fi;
                d_step {
                        old = NIL;
                        mine = false;
                        earlier = false;
                        node++
                }
        :: else ->
                break
        od;
        ended++
}

proctype Clock()
{
        d_step {
                near_is_past = true;
                ended++
        }
}

proctype Shutdown()
{
        byte old;

        if
        :: true -> goto through
        :: true
        fi;
        stopping = true;
#ifdef MUTANT_SHUTDOWN_WITHOUT_WAKE
        drain_flag = true;
#else
        push(DRAIN, DRAIN);
#endif
        old = NIL;
        atomic { drained && live == 0 -> skip };
        push(EXIT, EXIT);
        old = NIL;
through:
        ended++
}

#define deliver(which)                  \
        assert(!got[which]);            \
        got[which] = true;              \
        live = (which <= LAST -> live - 1 : live)

/* The next deadline of the worker, in one look under the lock. */
#define look_at_queue()                                                                                \
        earliest = (queue[3] || queue[4] -> NEAR : (queue[LAST] -> FAR : NEVER));                      \
        sleep_until = earliest

proctype Worker()
{
        byte batch, after, earliest, armed = NEVER;
        bool now, drain;

        do
        ::
                atomic {
                        d_step { /* Take the inbox whole, deliver it.  SLEEPING is still there after a wake-up by time. */
                                batch = head;
                                head = NIL;
                                credit = false;
                                batch = (batch == SLEEPING -> NIL : batch);
                                do
                                :: batch != NIL ->
                                        assert(batch != SLEEPING);
                                        deliver(batch);
                                        drain = drain || batch == DRAIN;
                                        after = next[batch];
                                        next[batch] = NIL;
                                        batch = after
                                :: else ->
                                        break
                                od;
                                after = NIL;
#ifdef MUTANT_SHUTDOWN_WITHOUT_WAKE
                                drain = drain_flag && !drained;
#endif
                                now = near_is_past; /* the clock */
                                if
                                :: given ->
                                        given = false;
                                        deliver(2)
                                :: else
                                fi
                        };
                        if
                        :: timerfd == NEAR && near_is_past -> timerfd = NEVER /* a poll that did not sleep has taken its event */
                        :: true
                        fi
                };
                d_step { /* under the lock: expire, or drain */
                        closing = closing || drain;
                        batch = 3;
                        do
                        :: batch <= LAST ->
                                if
                                :: queue[batch] && (drain || (now && batch < LAST)) ->
                                        queue[batch] = false;
                                        deliver(batch)
                                :: else
                                fi;
                                batch++
                        :: else ->
                                break
                        od;
                        drained = drained || drain;
                        batch = NIL;
                        drain = false;
                        now = false
                };
                if
                :: got[EXIT] -> break
                :: else
                fi;
                /* Say that it sleeps; then look; then sleep. */
#ifdef MUTANT_DEADLINE_BEFORE_SLEEPING
                d_step {
                        look_at_queue()
                };
#endif
#ifdef MUTANT_SLEEP_BY_STORE
                if
                :: head != NIL -> goto again
                :: head == NIL
                fi;
                d_step {
                        head = SLEEPING;
                        credit = true
                };
#else
                if
                :: d_step { /* compare-and-swap */
                        head == NIL ->
                        head = SLEEPING;
                        credit = true
                   }
                :: head != NIL -> goto again
                fi;
#endif
                d_step { /* under the lock; then without it: the clock, timerfd and armed are the worker's own */
#ifndef MUTANT_DEADLINE_BEFORE_SLEEPING
                        look_at_queue();
#endif
#ifndef MUTANT_STALE_ARMED
                        now = (earliest == NEAR && near_is_past);
#endif
#ifndef MUTANT_BULK_UNSEEN
                        now = now || given;
#endif
                        if
                        :: !now && earliest != armed ->
                                timerfd = earliest;
                                armed = earliest
                        :: else
                        fi;
                        earliest = 0
                };
                if /* epoll_wait */
                :: d_step {
                        now -> /* does not sleep */
                        now = false
                   }
                :: d_step {
                        !now && eventfd > 0 ->
                        eventfd = 0
                   }
                :: d_step {
                        !now && timerfd == NEAR && near_is_past ->
                        timerfd = NEVER; /* a timer fires once */
#ifndef MUTANT_STALE_ARMED
                        armed = NEVER
#endif
                   }
                :: !now && ended == FOREIGN && !stopping && live == (queue[LAST] -> 1 : 0) && eventfd == 0 ->
                        goto quiet /* it sleeps for ever, and rightly so */
                fi;
again:
                skip
        od;
        assert(live == 0 && !queue[3] && !queue[4] && !queue[LAST]);
#ifdef MUTANT_POLLER_FREED
        open = false; /* joined, and the poller freed, while a foreign thread is still about to write the eventfd */
#endif
quiet:
        skip
}

init
{
        atomic {
                if /* a timer far away may be pending */
                :: queue[LAST] = true;
                   live++
                :: skip
                fi;
                run Pusher(1);
                run Pusher(2);
                run Starter();
                run Clock();
                run Shutdown();
                run Worker()
        }
}
