/* kernel/watchdog.c: takes pollers away from workers whose callbacks block.
 *
 *     looks at all pollers, sleeps for a while --all are asleep--> parked --a worker wakes up--> looks ...
 *
 * Threads: its own.  Park and unpark: it writes `parked`, runs the heavy fence, and looks at the pollers once more; a worker that
 *          wakes up has written its inbox before it reads `parked`.
 * Locks:   none.  It calls nothing of the program, which might block: what it has to say it leaves as a notice, and a worker says it
 *          (weir__watchdog_speak), or a thread that is made for that when there may be no worker.
 *
 * A callback that lasts shows as a `turn` that is the same, and odd, at two looks.  The look costs its worker nothing; that it is
 * seen up to a period too late is the price.  While a poller is suspect, because a callback has just blocked there, the period and
 * the limit are much shorter: a burst of 64 callbacks that block costs its neighbours milliseconds, not 64 limits.  Not every
 * callback that is longer than the short limit makes it last: one of them at a time is the witness, and only if it turns out to
 * have blocked for the long one does the suspicion begin anew. */
#include "kernel/watchdog.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/clock.h"
#include "kernel/crew.h"
#include "kernel/fence.h"
#include "kernel/log.h"
#include "kernel/runtime.h"
#include "kernel/work.h"
#include "kernel/worker.h"

#define LIMIT         WEIR_MSEC(10)
#define SUSPECT_LIMIT WEIR_USEC(200)
#define SUSPECT_PAUSE WEIR_USEC(100)
#define TRIES         16 /* of one claim, each of which found its worker in a call of the library */
#define FEW           64 /* callbacks between two looks: then others had better take some */

/* What it saw of a poller at the last look. */
struct sight {
        _Atomic uintptr_t owner; /* these three are read by others, too; relaxed */
        _Atomic unsigned turn;
        _Atomic weir_nsec since; /* it has been so */
        bool asleep;
};

/* A worker that lost its poller under the short limit. */
struct witness {
        struct weir__worker *worker; /* NULL: none */
        unsigned turn;
        weir_nsec since;
};

_Atomic unsigned weir__watchdog_parked;

static struct {
        bool runs; /* of who starts and stops it */
        pthread_t thread;
        weir_nsec limit;
        _Atomic bool stops;
        _Atomic bool speaks; /* a thread is at it */
        _Atomic uint64_t claims;

        /* Its own thread's. */
        bool is_suspicious, has_asleep;
        weir_nsec speaks_at; /* before which no thread is made to say something */
        bool is_starved;     /* there was no spare for the last claim: no reason to hurry */
        struct sight sights[WEIR__POLLERS_MAX];
        struct witness witnesses[WEIR__POLLERS_MAX];
} dog;

static long
futex(int operation, unsigned value, weir_nsec timeout)
{
        const struct timespec limit = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};

        return syscall(SYS_futex, (unsigned *)&weir__watchdog_parked, operation | FUTEX_PRIVATE_FLAG, value,
                       timeout == WEIR_FOREVER ? NULL : &limit, NULL, 0);
}

void
weir__watchdog_unpark(void)
{
        unsigned parked = 1; /* and not 2 */

        if (atomic_compare_exchange_strong(&weir__watchdog_parked, &parked, 0))
                futex(FUTEX_WAKE, 1, WEIR_FOREVER);
}

uint64_t
weir__watchdog_claims(void)
{
        return atomic_load_explicit(&dog.claims, memory_order_relaxed);
}

/* The turn is written last, and read first: what comes with it is that old, or newer. */
weir_nsec
weir__watchdog_since(unsigned poller, const struct weir__worker *worker, unsigned turn)
{
        const struct sight *sight = &dog.sights[poller];

        if (atomic_load_explicit(&sight->turn, memory_order_acquire) != turn ||
            atomic_load_explicit(&sight->owner, memory_order_relaxed) != (uintptr_t)worker)
                return 0;
        return atomic_load_explicit(&sight->since, memory_order_relaxed);
}

weir_nsec
weir__watchdog_limit(void)
{
        return dog.limit;
}

/* -- a claim -- */

/* Exchanges the ownership word, unless the worker has come back, or does within a call of the library. */
static bool
hand_over(struct weir__poller *poller, struct weir__worker *worker, unsigned turn, struct weir__worker *spare)
{
        for (unsigned i = 0; i < TRIES; i++) {
                uintptr_t own = (uintptr_t)worker, claimed = own | WEIR__CLAIMED;

                if (!atomic_compare_exchange_strong_explicit(&poller->owner, &own, claimed, memory_order_acq_rel,
                                                             memory_order_relaxed))
                        return false;
                weir__fence_heavy();
                unsigned seen = atomic_load_explicit(&worker->turn, memory_order_acquire);
                bool pinned = atomic_load_explicit(&worker->pinned, memory_order_acquire);
                uintptr_t next = seen == turn && !pinned ? (uintptr_t)spare : (uintptr_t)worker;
                bool swapped = atomic_compare_exchange_strong_explicit(&poller->owner, &claimed, next, memory_order_acq_rel,
                                                                       memory_order_relaxed);
                if (seen != turn)
                        return false;
                if (!pinned)
                        return swapped;
                (void)sched_yield(); /* it is in a short call of the library */
        }
        return false;
}

/* -- notices -- */

enum notice { NO_SPARE, TAKEN, NOTICES };

static struct {
        _Atomic(const char *) kind; /* of the callback; NULL: nothing to say */
        _Atomic unsigned poller;
} notices[NOTICES];

_Atomic bool weir__watchdog_has_notice;

static void
leave_notice(enum notice notice, const char *kind, const struct weir__poller *poller)
{
        atomic_store_explicit(&notices[notice].poller, poller->index, memory_order_relaxed);
        atomic_store_explicit(&notices[notice].kind, kind, memory_order_release);
        atomic_store_explicit(&weir__watchdog_has_notice, true, memory_order_release);
}

void
weir__watchdog_speak(void)
{
        static const char *const texts[NOTICES] = {
                [NO_SPARE] =
                        "a callback of %s blocks poller %u, and no spare worker is to be had: what else is ready there waits",
                [TAKEN] = "a callback of %s blocks poller %u, which another worker has now"};
        static const enum weir_log_level levels[NOTICES] = {[NO_SPARE] = WEIR_LOG_WARNING, [TAKEN] = WEIR_LOG_INFO};
        static struct weir__log_limit limits[NOTICES];

        if (!atomic_exchange_explicit(&weir__watchdog_has_notice, false, memory_order_acquire))
                return;
        unsigned before = weir__user_begin(NULL); /* the log function is the program's */
        for (unsigned i = 0; i < NOTICES; i++) {
                const char *kind = atomic_exchange_explicit(&notices[i].kind, NULL, memory_order_acquire);

                if (kind)
                        weir__log_limited(&limits[i], levels[i], texts[i], kind,
                                          atomic_load_explicit(&notices[i].poller, memory_order_relaxed));
        }
        weir__user_end(before);
}

static void *
speak(void *unused)
{
        (void)unused;
        pthread_setname_np(pthread_self(), "weir/message");
        weir__watchdog_speak();
        atomic_store(&dog.speaks, false);
        return NULL;
}

/* When all workers may be blocked: by a thread for that, once in an interval.  If there is none to be had a worker says it later. */
static void
have_it_said(weir_nsec now)
{
        pthread_t thread;

        if (now < dog.speaks_at || atomic_exchange(&dog.speaks, true))
                return; /* the last one is at it still */
        dog.speaks_at = now + WEIR__LOG_INTERVAL;
        if (weir__crew_make_thread(&thread, speak, NULL))
                atomic_store(&dog.speaks, false);
        else
                pthread_detach(thread);
}

static const char *
kind_of(const struct weir__worker *worker)
{
        const struct weir__work_ops *ops = atomic_load_explicit(&worker->running, memory_order_relaxed);

        return ops && ops->kind ? ops->kind : "a task";
}

static void
claim(struct weir__poller *poller, struct sight *sight)
{
        struct weir__worker *worker = (struct weir__worker *)sight->owner, *spare = weir__crew_take();
        struct witness *witness = &dog.witnesses[poller->index];
        const char *kind = kind_of(worker);

        dog.is_starved = !spare;
        if (!spare) {
                weir__trace_mark("finds no spare worker", "poller", poller->index);
                leave_notice(NO_SPARE, kind, poller);
                sight->since = weir__clock_monotonic();
                have_it_said(sight->since);
                return;
        }
        weir__function *blocked = atomic_load_explicit(&worker->calls, memory_order_relaxed); /* unless it comes back */
        atomic_store_explicit(&worker->blocks_since, sight->since, memory_order_relaxed);
        spare->lost_at = weir__trace_now(atomic_load_explicit(&worker->track, memory_order_relaxed)); /* while it is in there */
        if (!hand_over(poller, worker, sight->turn, spare)) {
                atomic_store_explicit(&worker->blocks_since, 0, memory_order_relaxed);
                weir__crew_put_back(spare);
                return;
        }
        bool is_suspect = atomic_load_explicit(&poller->is_suspect, memory_order_relaxed);
        atomic_fetch_add_explicit(&dog.claims, 1, memory_order_relaxed);
        if (!is_suspect)
                leave_notice(TAKEN, kind, poller); /* its successor will say it */
        weir__trace_mark("takes a poller away", "poller", poller->index);
        weir__crew_call(spare, poller, is_suspect ? WEIR__CALL_TAKEN_SOON : WEIR__CALL_TAKEN, blocked);
        if (is_suspect && !witness->worker)
                *witness = (struct witness){worker, sight->turn, sight->since};
}

/* -- looking -- */

/* Whether the one that was taken to be blocked under the short limit was. */
static void
hear_witness(struct weir__poller *poller, weir_nsec now)
{
        struct witness *witness = &dog.witnesses[poller->index];

        if (!witness->worker)
                return;
        unsigned turn = atomic_load_explicit(&witness->worker->turn, memory_order_relaxed);
        if (turn == witness->turn && now - witness->since < dog.limit)
                return;
        if (turn == witness->turn)
                atomic_store_explicit(&poller->suspect_until, now + WEIR__SUSPECT, memory_order_relaxed);
        witness->worker = NULL;
}

/* Has an owner whose callbacks are long give some of what is ready to those who sleep. */
static void
ask_to_share(struct weir__poller *poller, const struct sight *sight, unsigned turn)
{
        if (dog.has_asleep && (turn - sight->turn) / WEIR__TURN_COUNT < FEW)
                atomic_store_explicit(&poller->share_wanted, true, memory_order_relaxed);
}

/* One that sleeps has nothing left that is doubtful, and may have fallen asleep as a suspect. */
static bool
suspects(struct weir__poller *poller, bool asleep, weir_nsec now)
{
        return atomic_load_explicit(&poller->is_suspect, memory_order_relaxed) &&
               !(asleep && now >= atomic_load_explicit(&poller->suspect_until, memory_order_relaxed));
}

static void
see(struct sight *sight, uintptr_t owner, unsigned turn, weir_nsec now)
{
        atomic_store_explicit(&sight->owner, owner, memory_order_relaxed);
        atomic_store_explicit(&sight->since, now, memory_order_relaxed);
        atomic_store_explicit(&sight->turn, turn, memory_order_release);
}

/* Returns whether its owner is awake, or was since the last look. */
static bool
look_at(struct weir__poller *poller, weir_nsec now)
{
        struct sight *sight = &dog.sights[poller->index];
        uintptr_t owner = atomic_load_explicit(&poller->owner, memory_order_acquire);
        bool asleep = weir__poller_is_asleep(poller), is_suspect = suspects(poller, asleep, now);

        dog.is_suspicious |= is_suspect;
        hear_witness(poller, now);
        if (!owner)
                return false;
        unsigned turn = atomic_load_explicit(&((struct weir__worker *)owner)->turn, memory_order_acquire);
        bool same = owner == sight->owner && turn == sight->turn;
        if (!asleep && !sight->asleep && owner == sight->owner)
                ask_to_share(poller, sight, turn);
        sight->asleep = asleep;
        if (!same || !(turn & WEIR__TURN_USER)) {
                see(sight, owner, turn, now);
        } else if (now - sight->since >= (is_suspect && !dog.is_starved ? SUSPECT_LIMIT : dog.limit)) {
                dog.is_suspicious = true;
                claim(poller, sight);
        }
        return !asleep || !same;
}

static bool
has_asleep(void)
{
        for (unsigned i = 0; i < weir__runtime_pollers(); i++)
                if (weir__poller_is_asleep(weir__runtime.pollers[i]))
                        return true;
        return false;
}

/* Returns whether anyone is awake, or was since the last time. */
static bool
look_around(void)
{
        weir_nsec now = weir__clock_monotonic();
        bool awake = false;

        dog.is_suspicious = false;
        dog.has_asleep = has_asleep();
        for (unsigned i = 0; i < weir__runtime_pollers(); i++)
                awake |= look_at(weir__runtime.pollers[i], now);
        return awake;
}

/* Sleeps until a worker wakes up. */
static void
park(void)
{
        bool awake = false;

        atomic_store_explicit(&weir__watchdog_parked, 1, memory_order_relaxed);
        weir__fence_heavy();
        for (unsigned i = 0; i < weir__runtime_pollers(); i++)
                awake |= !weir__poller_is_asleep(weir__runtime.pollers[i]);
        while (!awake && atomic_load_explicit(&weir__watchdog_parked, memory_order_relaxed) && !atomic_load(&dog.stops))
                futex(FUTEX_WAIT, 1, WEIR_FOREVER);
        atomic_store(&weir__watchdog_parked, 0); /* and then looks whether it is to stop */
}

/* Between two looks; also for a limit of next to nothing it sleeps. */
static weir_nsec
interval(void)
{
        return (dog.is_suspicious && !dog.is_starved) || dog.limit / 2 < SUSPECT_PAUSE ? SUSPECT_PAUSE : dog.limit / 2;
}

static void *
watch(void *unused)
{
        (void)unused;
        pthread_setname_np(pthread_self(), "weir/watchdog");
        while (!atomic_load(&dog.stops)) {
                futex(FUTEX_WAIT, 0, interval());
                if (!look_around())
                        park();
        }
        weir__trace_leave();
        return NULL;
}

/* -- start and stop -- */

int
weir__watchdog_start(weir_nsec limit)
{
        dog.limit = limit ? limit : LIMIT;
        atomic_store(&dog.stops, false);
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++) {
                see(&dog.sights[i], 0, 0, 0);
                dog.sights[i].asleep = false;
                dog.witnesses[i] = (struct witness){0};
        }
        int failed = weir__crew_make_thread(&dog.thread, watch, NULL);
        dog.runs = !failed;
        return failed;
}

void
weir__watchdog_stop(void)
{
        if (!dog.runs)
                return;
        atomic_store(&dog.stops, true);
        atomic_store(&weir__watchdog_parked, 2); /* it is just about to sleep, or does: neither 0 nor 1 lets it */
        futex(FUTEX_WAKE, 1, WEIR_FOREVER);
        pthread_join(dog.thread, NULL);
        atomic_store(&weir__watchdog_parked, 0);
        dog.runs = false;
}
