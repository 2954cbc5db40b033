/* executor.pml: how the threads of the executor find jobs, sleep and are woken (kernel/executor).
 *
 *   Submitter   two threads of the program: each submits one job to the inbox.  Or only one of them comes
 *   Sorter      any thread that moves the inbox to the list meanwhile, once: another submitter, or a thread between two jobs
 *   Worker      three threads of the executor.  If only one submitter comes, the first job submits another, to its own deque
 *
 * Jobs are counted, not told apart.  Each waits until both run at once, so a job that lies anywhere while a thread sleeps and
 * nobody is on the way to wake it is a deadlock: spin reports an invalid end state.
 *
 * A thread may take from the list a job to run and one more for its deque.  A lone job of a deque may be left to its owner, whose
 * job may be over in a moment.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define WORKERS 3
#define JOBS    2

bool locked;           /* executor.lock, and what it guards */
byte list;             /* jobs of the list and the queues */
bool asleep[WORKERS];
byte asleep_count;     /* read without the lock */

byte inbox;            /* jobs; any thread adds */
byte deque[WORKERS];   /* jobs; each has a lock of its own, for single steps */
byte searching;

byte running;          /* jobs that run, or have run */
bool has_submitted;    /* the second job */

inline lock()
{
        atomic { !locked -> locked = true }
}

inline unlock()
{
        locked = false
}

/* -- waking -- */

/* Under the lock. */
inline rouse(who)
{
        d_step {
                asleep[who] = false;
                asleep_count--;
                searching++
        }
}

inline rouse_first()
{
        if
        :: asleep[0] -> rouse(0)
        :: else ->
                if
                :: asleep[1] -> rouse(1)
                :: else -> rouse(2)
                fi
        fi
}

inline wake()
{
        if
        :: asleep_count == 0
        :: else ->
                if
                :: searching > 0
                :: else ->
                        lock();
                        if
                        :: asleep_count > 0 && searching == 0 -> rouse_first()
                        :: else
                        fi;
                        unlock()
                fi
        fi
}

/* -- others -- */

proctype Submitter()
{
        inbox++;
#ifndef MUTANT_NOBODY_IS_WOKEN
        wake()
#endif
}

proctype Sorter()
{
        lock();
        d_step { list = list + inbox; inbox = 0 };
        unlock()
}

/* -- a thread of the executor -- */

proctype Worker(byte self)
{
        bool is_searching = false, has_job = false, has_more = false;

next:   skip;
        /* pick */
        d_step {
                has_job = deque[self] > 0;
                deque[self] = (has_job -> deque[self] - 1 : 0)
        };
        if
        :: !has_job ->
                lock();
                d_step {
                        if
                        :: list == 0 -> list = inbox; inbox = 0
                        :: else
                        fi;
                        has_job = list > 0;
                        has_more = list > 1;
                        list = (has_more -> list - 2 : (has_job -> 0 : 0))
                };
                if
                :: has_more -> list++; has_more = false /* its part was one job */
                :: true
                fi;
                unlock();
                if
                :: has_more ->
                        deque[self]++;
                        has_more = false;
#ifndef MUTANT_JOBS_THAT_CHANGE_HANDS_WAKE_NOBODY
                        if
                        :: !is_searching -> wake()
                        :: else
                        fi
#endif
                :: else
                fi
        :: else
        fi;

        /* search */
        if
        :: has_job
        :: else ->
                if
                :: !is_searching -> is_searching = true; searching++
                :: else
                fi;
                if
                :: atomic { deque[(self + 1) % WORKERS] > 0 -> deque[(self + 1) % WORKERS]--; has_job = true }
                :: atomic { deque[(self + 2) % WORKERS] > 0 -> deque[(self + 2) % WORKERS]--; has_job = true }
                :: true /* there is none, or its owner may be about to take it */
                fi
        fi;
        if
        :: has_job -> goto found
        :: else
        fi;

        /* sleep */
        lock();
        if
        :: list + inbox > 0 -> unlock(); goto next
        :: else
        fi;
        d_step { asleep[self] = true; asleep_count++ };
        searching--;
#ifdef MUTANT_SLEEP_LOOKS_WITHOUT_THE_LOCK
        unlock();
        has_more = inbox > 0;
        lock();
        if
        :: has_more && asleep[self] -> rouse(self)
        :: else
        fi;
#else
#ifndef MUTANT_SLEEP_LOOKS_BEFORE_THE_COUNTS
        if
        :: list + inbox > 0 -> rouse(self)
        :: else
        fi;
#endif
#endif
        unlock();
        has_more = false;
#ifndef MUTANT_SLEEP_LOOKS_AT_NO_DEQUE
        if
        :: asleep[self] && deque[(self + 1) % WORKERS] + deque[(self + 2) % WORKERS] > 0 ->
                lock();
                if
                :: asleep[self] -> rouse(self)
                :: else
                fi;
                unlock()
        :: else
        fi;
#endif
end:    !asleep[self];
        goto next;

found:
        if
        :: is_searching ->
                is_searching = false;
                lock();
                searching--;
#ifdef MUTANT_END_OF_SEARCH_LOOKS_WITHOUT_THE_LOCK
                has_more = list > 0;
                unlock();
                has_more = has_more || inbox > 0;
#else
                has_more = list + inbox > 0;
                unlock();
#endif
                has_more = has_more || deque[0] + deque[1] + deque[2] > 0;
#ifndef MUTANT_END_OF_SEARCH_WAKES_NOBODY
                if
                :: has_more -> wake()
                :: else
                fi;
#endif
                has_more = false
        :: else
        fi;

        /* run */
        has_job = false;
        running++;
        if
        :: atomic { !has_submitted -> has_submitted = true };
                deque[self]++;
#ifndef MUTANT_AN_OWN_JOB_WAKES_NOBODY
                wake()
#endif
        :: else
        fi;
        running == JOBS /* they have met: no job is left that a thread could miss */
}

init
{
        atomic {
                run Worker(0);
                run Worker(1);
                run Worker(2);
                run Submitter();
                run Sorter();
                if
                :: has_submitted = true; run Submitter()
                :: true
                fi
        }
}
