/* cancel.pml: how a series ends: its tasks, cancels by reference and by name, its deadline (docs/design.md, "Series and flows";
 * factory/task/series.c, factory/task/series_names.c, factory/task/series_deadline.c).
 *
 *   Worker    two of them: expire timers and the limit, run callbacks, make the steps of the series, run the work of the limit
 *   Cancel    two: one has a reference, one finds the series by its name and takes a reference; at any time, also before the
 *             start.  The first may change its mind
 *   Setter    has a reference: puts the deadline off, or removes it, at any time
 *   Shutdown  drains the poller, at any time.  Of the cancels, the setter and this, two come
 *   Clock     moves on to the two instants that a deadline may be at
 *
 * The series has two tasks.  The second is a timer, which can be cancelled while it runs.  The first is a timer, too, or a task
 * that cannot be cancelled, which is never the current one.  The start of a task relies on the series to pass on a cancel (that
 * of a timer looks at the cause as well).  The name is the last thing that is set before the start; a deadline was set before, or
 * not.
 *
 * A series without a name and without a deadline is plain.  Such a series becomes ENDED under the hold of the lock in which it
 * leaves its last task, if that is a timer whose release is quiet.  The setter can give it a deadline as long as it has not ended.
 * The release of other tasks runs free functions, which may push: the series must not be ENDED then.
 *
 * The series may stop at its first failure, and its first task fails then: the series has a cause from the instant at which it
 * leaves that task, unless it had one before.
 *
 * The series is freed with its last reference: its own, which its end gives up, and those of others.  A task is freed after its
 * callback, when the series has left it.  A poller's lock is held within one step only, so each section under it is a step.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define NO_CAUSE  0
#define CANCELLED 1
#define TIMED_OUT 2
#define SHUT_DOWN 3
#define FAILED    4

#define SOON  1 /* instants */
#define LATER 2
#define NEVER 3

#define NEW     0 /* of a task */
#define PENDING 1
#define READY   2
#define RUNNING 3
#define GONE    4

/* The series. */
bool locked;
bool running, ended;
byte cause;
byte current;           /* 0: none; else a task that can be cancelled */
byte next_task = 1;     /* of those not yet started; 3: none is left */
byte references;
bool freed;
bool first_is_timer;    /* constant */
bool is_quiet;          /* constant; the release of the tasks runs no free function */
bool fails;             /* constant; the first task fails, and the series stops at failures */
bool has_extra;         /* it has, or had, a name or a deadline; written under the lock */

/* Its name. */
bool shard_locked;
bool in_map;

/* Its deadline. */
byte deadline;
bool armed, ends;       /* guarded by the lock of the series */
bool limit_queued;      /* by that of the poller */
bool limit_work;        /* on its way */

byte word[3];           /* of the tasks */
bool queued[3];         /* in the poller's queue of deadlines; no worker has it */
bool ready[3];          /* delivered */
bool marked;            /* the current one was cancelled before its start, which looks at nothing else */
bool step_ready;        /* the series itself is */

byte now;
bool closing;

/* For judging only. */
byte given;             /* by cancels and the limit: how many have given it its cause */
byte ended_by;          /* the cause that the callback saw */
byte callbacks;         /* of the series */
bool stopped;           /* a cancel has returned */

#define touch() assert(!freed)

inline lock() { atomic { !locked -> locked = true }; touch() }

inline unlock() { touch(); locked = false }

inline unref()
{
        d_step {
                touch();
                references--;
                if
                :: references == 0 ->
                        freed = true;
                        assert(!in_map && !limit_queued && !limit_work && !locked)
                :: else
                fi
        }
}

inline deliver(task)
{
        d_step {
                assert(!ready[task] && word[task] == READY);
                ready[task] = true
        }
}

/* -- the deadline -- */

/* Under the lock. */
inline arm()
{
        d_step {
                if
#ifndef MUTANT_ARMED_ON_ITS_WAY
                :: armed && !limit_queued /* it is on its way, and will look */
#endif
                :: else ->
                        armed = (deadline != NEVER && !closing);
                        limit_queued = armed
                fi
        }
}

inline see()
{
#ifdef MUTANT_COUNTED_UNLOCKED
        d_step {
                if
                :: !ended && cause == NO_CAUSE -> given++
                :: else
                fi
        }
#else
        skip
#endif
}

/* Under the lock, with `taken` 0 before: the task that is to be delivered. */
inline stop(a_cause)
{
#ifdef MUTANT_STOPPED_AFTER_THE_END
        if
        :: cause == NO_CAUSE ->
#else
        if
        :: !ended && cause == NO_CAUSE ->
#endif
                cause = a_cause;
#ifndef MUTANT_COUNTED_UNLOCKED
                given++;
#endif
                if
                :: current != 0 ->
                        assert(word[current] != GONE);
                        d_step {
                                if
                                :: word[current] == PENDING ->
                                        word[current] = READY;
                                        queued[current] = false;
                                        taken = current
                                :: word[current] == NEW -> marked = true
                                :: else
                                fi
                        }
                :: else
                fi
        :: else
        fi
}

inline deliver_taken()
{
        if
        :: taken != 0 -> deliver(taken)
        :: else
        fi;
        taken = 0
}

/* -- steps of the series -- */

inline end()
{
        d_step {
                touch();
                assert(ended);
                callbacks++;
                ended_by = cause;
                assert(callbacks == 1)
        };
        unref();
#ifdef MUTANT_NAME_LEFT_LAST
        in_map = false
#endif
}

#ifdef MUTANT_STARTED_UNLOOKED
#define may_wait true
#else
#define may_wait (!marked)
#endif

/* Under the lock of the poller. */
inline start()
{
        d_step {
                assert(word[chosen] == NEW);
                if
                :: (chosen == 2 || first_is_timer) && !closing && may_wait ->
                        word[chosen] = PENDING;
                        queued[chosen] = true;
                        assert(!stopped && cause != FAILED)
                :: else ->
                        word[chosen] = READY;
                        ready[chosen] = true
                fi
        }
}

/* Under the lock: the next task, unless the series has to end early.  A task that cannot be cancelled does not become current. */
inline choose()
{
        chosen = 0;
        if
        :: next_task < 3 && cause == NO_CAUSE && !closing ->
                chosen = next_task;
                next_task++;
#ifndef MUTANT_CHOSEN_UNLOCKED
                current = (chosen == 2 || first_is_timer -> chosen : 0)
#endif
        :: else
        fi
}

/* After that, and after unlocking. */
inline start_chosen()
{
#ifdef MUTANT_CHOSEN_UNLOCKED
        current = (chosen == 2 || first_is_timer -> chosen : 0);
#endif
        start()
}

/* Under the lock: nobody can find the series any more.  Sets `ends` if the work of the limit goes on with the end. */
inline become_ended()
{
        d_step { /* tasks that were not started are dropped */
                assert(!ended);
                cause = (cause == NO_CAUSE && closing -> SHUT_DOWN : cause);
                assert(cause != NO_CAUSE || next_task == 3);
                do
                :: next_task < 3 -> word[next_task] = GONE; next_task++
                :: else -> break
                od;
                ended = true
        };
#ifndef MUTANT_NAME_LEFT_LAST
        d_step { !shard_locked -> in_map = false };
#endif
        d_step {
#ifndef MUTANT_LIMIT_LEFT
                armed = armed && !limit_queued;
                limit_queued = false;
#endif
#ifndef MUTANT_END_UNWAITED
                ends = armed
#endif
        }
}

/* The thread that left the last task may have chosen already, or may have ended the series. */
inline go_on()
{
        if
        :: current != 0 ->
                chosen = current;
                next_task = current + 1;
                start()
#ifndef MUTANT_END_UNSEEN
        :: current == 0 && ended -> is_over = true
#endif
        :: else ->
                lock();
                choose();
                if
                :: chosen != 0 ->
                        unlock();
                        start_chosen()
                :: else ->
                        become_ended();
                        is_over = !ends;
                        assert(!limit_queued); /* it does not wait for its deadline */
                        unlock()
                fi
        fi;
        chosen = 0
}

#ifdef MUTANT_ENDED_WITH_A_DEADLINE
#define is_plain true
#else
#define is_plain (!has_extra)
#endif

#ifdef MUTANT_ENDED_BEFORE_A_FREE_FUNCTION
#define may_be_ended true
#else
#define may_be_ended is_quiet
#endif

#ifdef MUTANT_FAILURE_OVERRIDES
#define may_fail true
#else
#define may_fail (cause == NO_CAUSE)
#endif

/* Under the lock, between two tasks. */
inline note_failure()
{
        if
        :: fails && task == 1 && may_fail && !closing -> cause = FAILED
        :: else
        fi
}

/* Its callback has returned.  The next one is a timer, if there is one. */
inline leave()
{
#ifdef MUTANT_PLAIN_LOOKED_FOR_UNLOCKED
        was_plain = is_plain;
#undef is_plain
#define is_plain was_plain
#endif
#ifdef MUTANT_FREED_BEFORE_LEFT
        word[task] = GONE;
#endif
        if
        :: current != 0 || fails ->
                lock();
#ifndef MUTANT_FAILURE_NOTED_LATE
                note_failure();
#endif
                current = (next_task == 2 && cause == NO_CAUSE && !closing -> 2 : 0);
#ifdef MUTANT_FAILURE_NOTED_LATE
                note_failure();
#endif
                if
                :: next_task == 3 && is_plain && may_be_ended -> become_ended()
                :: else
                fi;
                unlock()
        :: else
        fi;
        assert(is_quiet || !ended); /* a free function pushes */
        word[task] = GONE
}

inline run_limit()
{
        see();
        lock();
        armed = false;
        if
        :: ends ->
                is_over = true
#ifndef MUTANT_LIMIT_UNLOOKED
        :: !ends && now < deadline ->
                arm()
        :: !ends && now >= deadline ->
#else
        :: else ->
#endif
                assert(now >= deadline);
                stop(TIMED_OUT)
        fi;
        unlock();
        deliver_taken()
}

proctype Worker()
{
        byte chosen, taken, task;
        bool is_over, goes_on;
#ifdef MUTANT_PLAIN_LOOKED_FOR_UNLOCKED
        bool was_plain;
#endif

        do
        :: d_step {
                ready[1] || ready[2] ->
                task = (ready[1] -> 1 : 2);
                ready[task] = false;
                assert(word[task] == READY && !queued[task]);
                word[task] = RUNNING
           };
           leave();
           goes_on = true;
           task = 0
        :: d_step { step_ready -> step_ready = false; goes_on = true }
        :: d_step { limit_work -> limit_work = false };
           run_limit()
        :: goes_on ->
                goes_on = false;
                go_on()
        :: is_over ->
                is_over = false;
                end()
        :: d_step { /* it is due; one at a time is in the queue */
                queued[1] || queued[2] ->
                task = (queued[1] -> 1 : 2);
                queued[task] = false;
                word[task] = READY;
                ready[task] = true;
                task = 0
           }
        :: d_step {
                limit_queued && now >= deadline ->
                limit_queued = false;
                assert(!limit_work);
                limit_work = true
           }
        :: d_step { callbacks == 1 && !goes_on && !is_over -> skip } -> break
        od
}

/* -- other threads -- */

inline cancel()
{
        see();
        lock();
        stop(CANCELLED);
        unlock();
        stopped = true;
        deliver_taken();
        unref()
}

proctype Cancel()
{
        byte taken;

        if
        :: cancel()
        :: unref()
        fi
}

proctype CancelNamed()
{
        byte taken;
        bool found;

        atomic { !shard_locked -> shard_locked = true };
        d_step {
                found = in_map;
#ifndef MUTANT_REFERENCE_LATE
                if
                :: found -> touch(); references++
                :: else
                fi
#endif
        };
        shard_locked = false;
        if
        :: found ->
#ifdef MUTANT_REFERENCE_LATE
                d_step { touch(); references++ };
#endif
                cancel()
        :: else
        fi
}

proctype Setter()
{
        byte chosen;

        if
        :: chosen = LATER;
           lock();
           has_extra = true;
           unlock()
        :: has_extra -> chosen = NEVER
        :: true
        fi;
        if
        :: chosen != 0 ->
                lock();
                if
                :: !ended ->
                        deadline = chosen;
                        if
                        :: running -> arm()
                        :: else
                        fi
                :: else
                fi;
                unlock()
        :: else
        fi;
        unref()
}

proctype Shutdown()
{
        byte task;

        d_step {
                closing = true;
                task = (queued[1] -> 1 : (queued[2] -> 2 : 0));
                if
                :: task != 0 -> queued[task] = false; word[task] = READY; ready[task] = true
                :: else
                fi;
                limit_work = limit_work || limit_queued;
                limit_queued = false
        }
}

proctype Clock()
{
        do
        :: now < LATER -> now++
        :: else -> break
        od
}

inline launch()
{
        lock();
        running = true;
        if
        :: deadline == NEVER
        :: deadline != NEVER && now < deadline -> arm()
        :: deadline != NEVER && now >= deadline ->
                d_step {
                        if
                        :: cause == NO_CAUSE -> cause = TIMED_OUT; given++
                        :: else
                        fi
                }
        fi;
        choose();
        unlock();
        if
        :: chosen != 0 -> start_chosen()
        :: else -> step_ready = true
        fi
}

init
{
        byte chosen;

        atomic {
                if
                :: first_is_timer = true
                :: first_is_timer = false
                fi;
                if
                :: is_quiet = true
                :: is_quiet = false
                fi;
                if
                :: deadline = SOON
                :: deadline = NEVER
                fi;
                if
                :: deadline == NEVER
                :: in_map = true
                fi;
                has_extra = (in_map || deadline != NEVER);
                if /* not in all cases, so that the states can be counted */
                :: is_quiet && !in_map -> fails = true
                :: fails = false
                fi;
                run Worker();
                run Worker();
                if /* two of them at a time */
                :: in_map -> run Cancel(); run CancelNamed(); references = 2
                :: run Cancel(); run Setter(); references = 3
                :: in_map -> run CancelNamed(); run Setter(); references = 2
                :: run Cancel(); run Shutdown(); references = 2
                :: in_map -> run CancelNamed(); run Shutdown(); references = 1
                :: run Setter(); run Shutdown(); references = 2
                fi;
                run Clock()
        };
        launch();
        _nr_pr == 1;
        assert(freed && callbacks == 1 && cause == ended_by);
        assert(given == (cause == CANCELLED || cause == TIMED_OUT -> 1 : 0));
        assert(word[1] == GONE && word[2] == GONE)
}
