/* durable.pml: a durable timer (docs/decisions/901-durable-timers.md; durable/).
 *
 *   Setter     sets the timer, and may set it once more
 *   Canceller  cancels it up to two times, at any time
 *   Node       two of them: claim, begin the handler or give the claim back, renew the lease, end: acknowledge, retry or mark
 *              dead.  A node may die between any two steps, and begins anew
 *   Clock      a lease is over
 *
 * The row is that of the engine, and each operation is one step, as a transaction is.  A node that was stopped is one that does
 * nothing while its lease ends.  A handler is live from its begin to its end; the lease of its node holds until the clock says
 * otherwise.  All timers are due.
 *
 * A MUTANT_* breaks one rule.  Each of them must be found guilty: README.md explains the interleavings. */

#define NONE    0 /* states of the row */
#define PENDING 1
#define LEASED  2
#define DEAD    3

#define ATTEMPTS 2

/* The row, and the sequence. */
byte state, generation, attempt, token;
bool is_over; /* the lease */
byte sequence;

/* The nodes: the token and the generation that each has claimed; what the clock says of its lease. */
byte own_token[2], own[2], own_attempt[2];
bool holds[2];

bool is_set, is_quiet; /* the first set is done; there will be no further one */
byte deaths = 1, overs = 2, cancels = 2, backs = 1;

/* For judging only.  Generations are counted from 1, as they were set. */
byte sets;
byte number[3];    /* the number that a generation has in the row */
byte live[2];      /* the generation whose handler runs at a node; 0: none */
byte last_token;   /* of the claims */
bool begun[3], cancelled[3], is_ended[3];

#define index(g)   (g == number[1] -> 1 : 2)
#define is_free    (state == NONE || state == DEAD)
#define is_pending (state == PENDING && attempt == 0)

inline set()
{
        d_step {
                sets++;
                sequence++;
                number[sets] = sequence;
#ifdef MUTANT_SET_KEEPS_GENERATION
                generation = number[1];
#else
                generation = sequence;
#endif
#ifdef MUTANT_SET_KEEPS_LEASE
                if
                :: state != LEASED -> state = PENDING; attempt = 0; token = 0
                :: else
                fi
#else
                state = PENDING;
                attempt = 0;
                token = 0
#endif
                ;
                is_over = false;
                is_set = true
        }
}

proctype Setter()
{
        set();
        if
        :: set()
        :: true
        fi;
        is_quiet = true
}

inline report_cancelled(g)
{
        assert(!begun[index(g)]);
        cancelled[index(g)] = true;
        state = NONE
}

proctype Canceller()
{
        byte seen;

        is_set;
        do
        :: cancels > 0 ->
#ifdef MUTANT_CANCEL_IN_TWO_STEPS
                d_step {
                        cancels--;
                        seen = 0;
                        if
                        :: is_pending -> seen = generation
                        :: else
                        fi
                };
                d_step {
                        if
                        :: seen != 0 && seen == generation && state != NONE -> report_cancelled(seen)
                        :: else
                        fi;
                        seen = 0
                }
#else
                d_step {
                        cancels--;
                        if
#ifdef MUTANT_CANCEL_OF_LEASED
                        :: is_pending || state == LEASED ->
#else
#ifdef MUTANT_CANCEL_OF_RETRY
                        :: state == PENDING ->
#else
                        :: is_pending ->
#endif
#endif
                                report_cancelled(generation)
                        :: else
                        fi
                }
#endif
        :: true -> break
        od
}

#ifdef MUTANT_CLAIM_OF_LEASED
#define can_claim (state == PENDING || state == LEASED && (is_over || sequence < 6))
#else
#define can_claim (state == PENDING || state == LEASED && is_over)
#endif

inline claim()
{
#ifdef MUTANT_LEASE_OVER_IS_PENDING
        if
        :: state == LEASED -> attempt = 0
        :: else
        fi;
#endif
        attempt++;
#ifdef MUTANT_CLAIM_KEEPS_TOKEN
        if
        :: token == 0 -> sequence++; token = sequence
        :: else
        fi;
#else
        sequence++;
        token = sequence;
#endif
        assert(token > last_token);
        last_token = token;
        state = LEASED;
        is_over = false;
        own_token[me] = token;
        own[me] = generation;
        own_attempt[me] = attempt;
        holds[me] = true
}

inline clear()
{
        own[me] = 0;
        own_token[me] = 0;
        own_attempt[me] = 0;
        live[me] = 0;
        holds[me] = false
}

/* The other node has a handler of this generation, and its lease holds. */
#define is_shared (live[1 - me] == own[me] && holds[1 - me])

inline begin_handler()
{
        assert(!cancelled[index(own[me])]);
        assert(!is_shared);
        begun[index(own[me])] = true;
        live[me] = own[me]
}

#ifdef MUTANT_END_WITHOUT_TOKEN
#define is_own (state == LEASED)
#else
#ifdef MUTANT_END_BY_GENERATION
#define is_own (state == LEASED && generation == own[me])
#else
#define is_own (state == LEASED && token == own_token[me])
#endif
#endif

inline judge_end()
{
        assert(generation == own[me] && token == own_token[me])
}

inline retry_or_mark_dead()
{
        d_step {
                if
                :: is_own ->
                        judge_end();
                        is_over = false;
                        if
                        :: own_attempt[me] < ATTEMPTS ->
                                state = PENDING;
#ifdef MUTANT_RETRY_IS_NEW
                                attempt = (sequence < 6 -> 0 : attempt)
#endif
                        :: else ->
                                state = DEAD;
                                is_ended[index(own[me])] = true
                        fi
                :: else
                fi;
                clear()
        }
}

inline give_back()
{
        d_step {
                backs > 0 || !holds[me] ->
                if
                :: backs > 0 -> backs--
                :: else
                fi;
                if
                :: is_own ->
                        judge_end();
                        state = PENDING;
                        attempt--;
                        is_over = false
                :: else
                fi;
                clear()
        }
}

inline acknowledge()
{
        d_step {
                if
                :: is_own ->
                        judge_end();
                        state = NONE;
                        is_ended[index(own[me])] = true
                :: else
                fi;
                clear()
        }
}

inline renew()
{
        d_step {
                if
#ifdef MUTANT_RENEWAL_WITHOUT_TOKEN
                :: state == LEASED ->
#else
                :: is_own ->
#endif
                        is_over = false;
                        holds[me] = true;
                        assert(!is_shared)
                :: else -> live[me] = 0 /* the flow ends early */
                fi
        }
}

inline die()
{
        d_step { deaths > 0 -> deaths--; clear() }
}

proctype Node(byte me)
{
        do
        :: is_quiet && is_free -> break
#ifdef MUTANT_CLAIM_IN_TWO_STEPS
        :: can_claim ->
                d_step {
                        if
                        :: !is_free -> claim()
                        :: else -> skip
                        fi
                };
                if
                :: own[me] == 0 -> goto next
                :: else
                fi;
#else
        :: d_step { can_claim -> claim() };
#endif
                if
                :: die(); goto next
                :: own_attempt[me] > ATTEMPTS -> /* the nodes before have died */
                        retry_or_mark_dead();
                        goto next
                :: give_back();
                        goto next
#ifdef MUTANT_BEGUN_UNLOOKED
                :: d_step { own_attempt[me] <= ATTEMPTS -> begin_handler() }
#else
                :: d_step { own_attempt[me] <= ATTEMPTS && holds[me] -> begin_handler() }
#endif
                fi;
                do
                :: die(); goto next
                :: live[me] && overs < 2 -> renew()
                :: live[me] -> /* it succeeds */
                        live[me] = 0;
                        if
                        :: die()
                        :: acknowledge()
                        fi;
                        break
                :: true -> /* it fails, or has ended early */
                        live[me] = 0;
                        retry_or_mark_dead();
                        break
                od;
next:
                skip
        od
}

/* A lease whose node lives is over a few times only.  That of a dead node is over in the end. */
proctype Clock()
{
        do
        :: is_quiet && is_free -> break
        :: d_step {
                state == LEASED && !is_over && (overs > 0 || own_token[0] != token && own_token[1] != token) ->
                is_over = true;
                if
                :: overs > 0 -> overs--
                :: else
                fi;
                if
                :: own_token[0] == token -> holds[0] = false
                :: else
                fi;
                if
                :: own_token[1] == token -> holds[1] = false
                :: else
                fi
           }
        od
}

init
{
        atomic {
                run Node(0);
                run Node(1);
                run Setter();
                run Canceller();
                run Clock()
        };
        _nr_pr == 1;
        assert(is_free);
        assert(cancelled[sets] || is_ended[sets])
}
