/* group.pml: a group of a fiber: its children, its early end, its join (docs/decisions/544-groups-of-fibers.md;
 * factory/fiber/group.c).
 *
 *   Fiber     opens the group, starts two children, one after the other, and closes it: it goes on when no child is left and no
 *             walk is on its way, and frees it
 *   Child     of each: ends by itself at any time, well or not, or is ended early.  If only the group knows one that is a fiber,
 *             it is gone when that leaves it
 *   Walker    runs the walk, a slot at a time
 *   Cancel    an early end of the fiber, which finds the group among those that are open, at any time
 *
 * The group may stop at its first failure.  A slot is used once.  One that no child comes to is kept until the fiber closes the
 * group.  What is under the lock of the fiber is one step.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define CHILDREN 2
#define ALL      7 /* a bit for each child, and for the slot that is kept */

/* The group. */
bool is_open;            /* the fiber has it in its list */
byte bits;               /* the slots that are taken */
bool is_walked;          /* somebody may have a reference to a child */
byte count;              /* children that have come */
bool is_busy;            /* the slots are open, or a child is there */
bool is_closing;
bool stops_on_failure;   /* constant */
bool is_ending, is_walking, is_joined;
bool has_cause;          /* of the series around the children */
byte walked;
bool walk_ready;         /* delivered */
bool freed;

/* The children. */
byte references[CHILDREN];
bool launched[CHILDREN], ended_early[CHILDREN];
bool refused[CHILDREN];
bool is_fiber[CHILDREN]; /* constant */

/* The fiber. */
bool own_ready;          /* its next stretch is delivered */
bool on_stack = true;

/* For judging only. */
bool delivered;          /* it was, once */
bool walk_over;
bool is_over;            /* the fiber is */

#define touch() assert(!freed)

inline unref(number)
{
        d_step { assert(references[number] > 0); references[number]-- }
}

inline deliver_own()
{
        d_step {
                assert(!delivered && !on_stack);
                own_ready = true;
                delivered = true
        };
        goes_on = false
}

inline deliver_walk()
{
        d_step {
                touch();
                assert(!walk_ready);
                walk_ready = true
        };
        walks = false
}

#ifdef MUTANT_WALK_UNLOOKED
#define IS_OVER (is_joined && !is_busy)
#elif defined(MUTANT_CHILDREN_UNLOOKED)
#define IS_OVER (is_joined && !is_walking)
#else
#define IS_OVER (is_joined && !is_busy && !is_walking)
#endif

/* Sets `goes_on`.  Under the lock. */
inline look_whether_over()
{
        goes_on = IS_OVER;
        is_joined = is_joined && !goes_on
}

/* Bits are cleared, under the lock. */
inline give_up(given)
{
        bits = bits & (ALL - (given));
        is_busy = (bits != 0)
}

/* The slots to which no child came are given back.  Under the lock. */
inline begin_to_close()
{
#ifndef MUTANT_KEPT_SLOTS
        if
        :: !is_closing && is_busy -> give_up(ALL & (ALL << count))
        :: else
        fi;
#endif
        is_closing = true
}

/* Sets `walks`.  Under the lock. */
inline begin_to_end()
{
        if
#ifdef MUTANT_TWO_WALKS
        :: true ->
#else
        :: !is_ending ->
#endif
                is_ending = true;
                begin_to_close();
                has_cause = true;
#ifdef MUTANT_WALK_OF_NOTHING
                walks = true;
#else
                walks = is_busy;
                is_walking = walks;
#endif
                walk_over = !walks
        :: else
        fi
}

/* Under the lock. */
inline leave_child()
{
        give_up(1 << number);
        if
        :: fails && stops_on_failure -> begin_to_end()
        :: else
        fi;
        look_whether_over()
}

inline send()
{
        if
        :: walks -> deliver_walk()
        :: !walks && goes_on -> deliver_own()
        :: else
        fi
}

/* Sets `is_gone`, unless the child has to take the lock. */
inline leave_unlocked()
{
        d_step { touch(); seen = bits; was_walked = is_walked };
        if
        :: references[number] == 1 || !is_private ->
                do
                :: was_walked || seen == 1 << number || fails -> break
                :: !was_walked && seen != 1 << number && !fails ->
                        d_step {
                                touch();
                                if
#ifdef MUTANT_WALKED_UNSEEN
                                :: bits == seen ->
#else
                                :: bits == seen && !is_walked ->
#endif
                                        bits = bits & (ALL - (1 << number));
                                        is_gone = true
                                :: else -> seen = bits; was_walked = is_walked
                                fi
                        };
                        if
                        :: is_gone -> break
                        :: !is_gone
                        fi
                od
        :: else
        fi
}

inline leave_locked()
{
        d_step {
                touch();
                if
#ifdef MUTANT_PRIVATE_UNCOUNTED
                :: true ->
#else
                :: !is_private || references[number] == 1 ->
#endif
#ifdef MUTANT_LAST_UNLOCKED
                        is_busy = (bits != 0);
                        if
                        :: fails && stops_on_failure -> begin_to_end()
                        :: else
                        fi;
                        look_whether_over();
#else
                        leave_child();
#endif
                        is_gone = true
                :: else
                fi
        }
}

inline leave()
{
        leave_unlocked();
        if
        :: is_gone
        :: !is_gone ->
#ifdef MUTANT_LAST_UNLOCKED
                d_step { touch(); bits = bits & (ALL - (1 << number)) };
#endif
                leave_locked();
                send()
        fi
}

proctype Child(byte number)
{
        bool walks, goes_on, fails, is_gone, is_private, was_walked;
        byte seen;

        if
        :: launched[number]
        :: refused[number] -> goto out
        fi;
        assert(references[number] > 0);
        if
        :: ended_early[number]
        :: d_step { !ended_early[number] -> assert(!walk_over); fails = true } /* else it would be left pending */
        :: d_step { !ended_early[number] -> assert(!walk_over) }
        fi;
        is_private = is_fiber[number] && !ended_early[number];
        if
        :: is_private -> leave()
        :: else
        fi;
        if
        :: is_gone ->
                d_step { assert(references[number] == 1); references[number] = 0 };
                goto out
        :: else
        fi;
        is_private = false;
        leave();
        unref(number);
out:
        skip
}

/* The slot that the walk is at. */
inline take_child()
{
        d_step {
                touch();
                taken = CHILDREN;
                if
                :: walked < CHILDREN ->
                        is_walked = true;
                        if
                        :: bits & (1 << walked) && walked < count ->
                                taken = walked;
                                assert(references[taken] > 0);
#ifndef MUTANT_CHILD_UNREFERENCED
                                references[taken]++
#endif
                        :: else
                        fi;
                        walked++
                :: else
                fi;
                more = (walked < CHILDREN)
        }
}

proctype Walker()
{
        byte taken;
        bool more, goes_on;

        do
        :: d_step { walk_ready -> walk_ready = false; more = true };
           do
           :: more ->
                take_child();
                if
                :: taken < CHILDREN ->
                        d_step { assert(references[taken] > 0); ended_early[taken] = true };
#ifndef MUTANT_CHILD_UNREFERENCED
                        unref(taken)
#endif
                :: else
                fi
           :: else -> break
           od;
           taken = 0;
           d_step {
                touch();
                is_walking = false;
                walk_over = true;
#ifdef MUTANT_WALK_GOES_ON_NEVER
                skip
#else
                look_whether_over()
#endif
           };
           if
           :: goes_on -> deliver_own()
           :: else
           fi
        :: is_over && !walk_ready -> break
        od
}

proctype Cancel()
{
        bool walks;

        d_step {
                if
                :: is_open -> touch(); begin_to_end()
                :: else
                fi
        };
        if
        :: walks -> deliver_walk()
        :: else
        fi
}

inline launch()
{
        launched[number] = true
}

/* Under the lock the group is asked whether it has a cause, so that its walk finds all that have come before. */
inline look()
{
        refused[number] = has_cause
}

inline add()
{
#ifdef MUTANT_LOOKED_UNLOCKED
        look();
#endif
        d_step {
                touch();
#ifndef MUTANT_LOOKED_UNLOCKED
                look();
#endif
                if
                :: !refused[number] ->
                        references[number] = 1;
                        if
                        :: count == 0 -> bits = ALL; is_busy = true /* they are opened */
                        :: else
                        fi;
                        if
                        :: is_closing -> bits = bits & (ALL >> (CHILDREN - number)) | (1 << number); is_busy = true
                        :: else
                        fi;
                        count++
                :: else
                fi
        }
}

inline start_children()
{
        do
        :: number < CHILDREN ->
#ifdef MUTANT_LAUNCHED_FIRST
                references[number] = 1;
                launch();
                add();
#else
                add();
                if
                :: !refused[number] -> launch()
                :: else
                fi;
#endif
                number++
        :: else -> break
        od;
        number = 0
}

/* Behind the switch, on the worker's stack. */
inline join()
{
#ifdef MUTANT_JOINED_UNLOCKED
        d_step { touch(); goes_on = (!is_busy && !is_walking) };
        is_joined = !goes_on;
#else
        d_step { touch(); is_joined = true; look_whether_over() };
#endif
        if
        :: goes_on -> deliver_own()
        :: else
        fi
}

proctype Fiber()
{
        byte number;
        bool goes_on, has_to_wait;

        is_open = true;
        start_children();
        d_step { touch(); begin_to_close(); has_to_wait = (is_busy || is_walking) };
        if
        :: has_to_wait ->
#ifdef MUTANT_JOINED_ON_THE_STACK
                join();
                on_stack = false;
#else
                on_stack = false;
                join();
#endif
                d_step { own_ready -> own_ready = false; on_stack = true }
        :: else
        fi;
        d_step {
                is_open = false;
                assert(!is_walking && !walk_ready && bits == 0);
                assert(!is_ending || walk_over);
                freed = true
        };
        is_over = true
}

init
{
        atomic {
                if
                :: stops_on_failure = true
                :: stops_on_failure = false
                fi;
                if
                :: is_fiber[0] = true
                :: is_fiber[1] = true
                :: true
                fi;
                run Fiber();
                run Child(0);
                run Child(1);
                run Walker();
                run Cancel()
        };
        _nr_pr == 1;
        assert(freed && references[0] == 0 && references[1] == 0)
}
