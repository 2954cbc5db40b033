/* shield.pml: a fiber that begins and ends shields between its awaits (docs/decisions/543-limits-and-shields.md;
 * factory/fiber/limit.c; factory/fiber/fiber.c; factory/task/series_end_early.c).
 *
 *   Fiber    the function, and the worker between its stretches, which take turns as in fiber.pml
 *   Fulfil   claims what is pending, at any time
 *   Limit    one for each await: comes at any time once it was set, also when its await is over, and the scope is another one
 *   Cancel   ends the series in which the fiber is, at any time; then the walk hands the cause down
 *   Direct   ends the inner series, by a reference, at any time
 *
 * Before each await the function may begin a shield, or end one.  It awaits a task with a limit, or waits in its own block.  It may
 * end within a shield.  The scope, in which an await runs, is the inner series or that of the shield.  Each has its lock.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define AWAITS 3

#define INNER  0 /* scopes */
#define SHIELD 1

#define NONE      0 /* causes, and how an await ended */
#define CANCELLED 1
#define OF_AWAIT  2 /* what a limit gives, and the fiber takes back */

#define NOTHING 0 /* of `current` */
#define OWN     1 /* the task in the block of the fiber */
#define TASK    2 /* one of the program */

#define NEW     0 /* a word */
#define MARKED  1 /* cancelled before its start */
#define PENDING 2
#define READY   3
#define RUNNING 4

/* The series around the fiber. */
byte outer_cause;
byte descents;

/* The scopes. */
bool locked[2];
byte cause[2];
byte current[2];
bool fed[2];

/* The fiber. */
byte scope = INNER;      /* written under the lock of the inner series */
byte limit;              /* the Limit that is valid; 0: none */
byte word[3];
byte status[3];
byte at;                 /* how many awaits have begun */
bool armed[AWAITS + 1];  /* the limits */
byte set_in[AWAITS + 1]; /* the scopes of which they have a reference */
byte references = 1;     /* to the block of the fiber: its own, and those to the inner series */

/* For judging only. */
bool must;               /* the present await began behind a cancel, and without a shield */
bool cancelled;          /* a cancel has returned */
bool stopped;            /* the inner series has its cause, and nothing is pending there any more */
bool over;
byte on_way;             /* cancels that have not ended */

#define touch() assert(references > 0)

inline lock(which) { atomic { !locked[which] -> locked[which] = true } }

/* -- causes -- */

/* In `seen`: the effective cause of a scope. */
inline look(which)
{
        d_step { descends = descents > 0 };
        d_step {
                if
#ifndef MUTANT_SHIELD_LOOKS_AROUND
                :: which == SHIELD -> seen = cause[SHIELD]
#else
                :: which == SHIELD -> seen = (cause[SHIELD] == NONE && cause[INNER] == CANCELLED -> CANCELLED : cause[SHIELD])
#endif
                :: else -> seen = (cause[INNER] == NONE && descends -> outer_cause : cause[INNER])
                fi;
                descends = false
        }
}

/* Ends what is current in a scope.  Under its lock. */
inline end_current(which, why)
{
        d_step {
                touch();
                if
                :: current[which] != NOTHING && word[current[which]] == NEW -> word[current[which]] = MARKED
                :: current[which] != NOTHING && word[current[which]] == PENDING ->
                        status[current[which]] = why;
                        word[current[which]] = READY
                :: else
                fi
        }
}

inline end_early()
{
        lock(INNER);
        if
        :: fed[INNER] && (cause[INNER] == NONE || cause[INNER] == OF_AWAIT) ->
                cause[INNER] = CANCELLED;
#ifdef MUTANT_CANCEL_OF_THE_SCOPE
                end_current(scope, CANCELLED);
#else
                end_current(INNER, CANCELLED);
#endif
                stopped = true
        :: else
        fi;
        locked[INNER] = false
}

/* -- the fiber -- */

inline clear_own()
{
        if
        :: current[scope] == OWN -> d_step { !locked[scope] -> current[scope] = NOTHING }
        :: else
        fi
}

inline shield(on)
{
#ifndef MUTANT_OWN_LEFT_IN_THE_SCOPE
        clear_own();
#endif
        lock(INNER);
#ifdef MUTANT_SHIELD_STAYS
        scope = SHIELD;
#else
        scope = (on -> SHIELD : INNER);
#endif
        fed[SHIELD] = true;
        shielded = on;
        locked[INNER] = false
}

inline begin_limit()
{
        d_step {
                !locked[scope] ->
                limit = at;
                set_in[at] = scope;
                references = references + (scope == INNER);
                armed[at] = true
        }
}

inline end_limit()
{
        d_step {
                !locked[scope] ->
                limit = NONE;
                if
                :: cause[scope] == OF_AWAIT -> cause[scope] = NONE
                :: else
                fi;
                if
                :: armed[at] -> armed[at] = false; references = references - (set_in[at] == INNER)
                :: else
                fi
        }
}

/* Behind the switch: what the fiber wants is the current task of the scope, and starts. */
inline run_task()
{
        lock(scope);
        d_step { word[task] = NEW; status[task] = NONE; current[scope] = task };
        look(scope);
        d_step {
                if
                :: seen != NONE && word[task] == NEW -> word[task] = MARKED
                :: else
                fi;
                seen = NONE;
                locked[scope] = false
        };
        if
        :: d_step { word[task] == NEW -> word[task] = PENDING }
        :: word[task] == MARKED ->
                look(scope);
                assert(seen != NONE);
                d_step { status[task] = seen; word[task] = READY }
        fi;
        d_step { word[task] == READY -> word[task] = RUNNING; seen = status[task] };
        if
        :: task == TASK -> d_step { !locked[scope] -> current[scope] = NOTHING }
        :: else /* it stays, until another one takes its place */
        fi
}

inline await()
{
        d_step { at++; must = cancelled && !shielded };
        if
        :: task == TASK -> begin_limit()
        :: else
        fi;
        look(scope);
        if
        :: seen == NONE -> run_task()
        :: else
        fi;
        if
        :: task == TASK -> end_limit()
        :: else
        fi;
        d_step {
                assert(!must || seen == CANCELLED);
                assert(!shielded || seen != CANCELLED);
                assert(task == TASK || seen != OF_AWAIT);
                must = false;
                seen = NONE
        }
}

inline end_shield()
{
#ifndef MUTANT_SHIELD_OUTLIVES
        d_step { !locked[SHIELD] -> fed[SHIELD] = false };
#endif
        skip
}

proctype Fiber()
{
        byte seen, task;
        bool shielded, descends;

        do
        :: at < AWAITS ->
                if
                :: shield(!shielded)
                :: true
                fi;
                if
                :: task = OWN
                :: task = TASK
                fi;
                await()
        :: at == AWAITS -> break
        od;
        end_shield();
        d_step { !locked[INNER] -> fed[INNER] = false; current[INNER] = NOTHING; current[SHIELD] = NOTHING };
        d_step { on_way == 0 -> over = true; references-- } /* the walk completes the fiber if it comes later than this */
}

/* -- other threads -- */

proctype Fulfil()
{
        do
        :: d_step {
                word[OWN] == PENDING && !over ->
                assert(!stopped || current[INNER] != OWN);
                word[OWN] = READY
           }
        :: d_step {
                word[TASK] == PENDING && !over ->
                assert(!stopped || current[INNER] != TASK);
                word[TASK] = READY
           }
        :: over -> break
        od
}

/* With a reference to the scope in which it was set: of the shield, that has memory of its own, and leads to the fiber while it is
 * FED. */
proctype Limit(byte number)
{
        byte seen;
        bool descends;

        if
        :: d_step { armed[number] -> armed[number] = false };
           lock(set_in[number]);
           if
           :: fed[set_in[number]] ->
                touch();
                if
#ifdef MUTANT_LIMIT_UNCOMPARED
                :: true ->
#else
                :: limit == number ->
#endif
                        limit = NONE;
                        look(set_in[number]);
                        if
                        :: seen == NONE && cause[set_in[number]] == NONE ->
                                cause[set_in[number]] = OF_AWAIT;
                                end_current(set_in[number], OF_AWAIT)
                        :: else
                        fi;
                        seen = NONE
                :: else
                fi
           :: else
           fi;
           locked[set_in[number]] = false;
           d_step { references = references - (set_in[number] == INNER) }
        :: over && !armed[number]
        fi
}

proctype Cancel()
{
        if
        :: d_step { fed[INNER] -> on_way++; descents++; outer_cause = CANCELLED; cancelled = true };
           end_early();
           d_step { descents--; on_way-- }
        :: over
        fi
}

proctype Direct()
{
        if
        :: d_step { fed[INNER] -> on_way++ };
           end_early();
           d_step { cancelled = true; on_way-- }
        :: over
        fi
}

init
{
        atomic {
                fed[INNER] = true;
                run Fiber();
                run Fulfil();
                run Limit(1);
                run Limit(2);
                run Limit(3);
                if
                :: run Cancel()
                :: run Direct()
                fi
        };
        _nr_pr == 1;
        assert(references == 0 && over && limit == NONE);
        assert(cause[SHIELD] == NONE && cause[INNER] != OF_AWAIT)
}
