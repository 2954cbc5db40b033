/* bench/stall.c: how long a poller is away from epoll_wait, at worst, while ten million timers are pending.
 *
 *     stall [quick]
 *
 * The linker puts a function of this program in front of epoll_wait (--wrap), which notes for how long its thread was gone: by
 * the clock; by the clock less what the thread was ready to run and had no CPU (the system keeps count of that), for with two
 * pollers and the thread that cancels there are more threads than CPUs on a small machine, and the benchmark is not alone on it;
 * and by the CPU time of the thread, which leaves out what it waited for locks as well.  The other measure is a timer of a
 * millisecond on each poller, which starts itself again: how late it is at worst, callbacks of others before its own included.
 *
 * Threads: a sleeper belongs to one thread, and is read by the main thread when a phase is over (relaxed: it is a measurement).
 *          A heart belongs to the worker on which it beats.  `phase` is written by the main thread between phases. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"

#define ROUNDS    2
#define PATIENCE  60 /* seconds for all phases on one number of pollers */
#define SLEEPERS  64
#define NAME      "everybody"
#define NEIGHBOUR "everyone_" /* no longer, no shorter */
#define BEAT      WEIR_MSEC(1)
#define SETTLING  300                 /* ms between phases */
#define ROOMY     INT64_C(4000000000) /* bytes of memory from which on there are ten million timers */
#define UNTIL_DUE WEIR_SEC(45)        /* after which the timers in the background begin to expire: when all phases are over */
#define TURN      64                  /* timers that the main thread makes on one poller before it turns to the next */

int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int timeout);

/* -- away from epoll_wait -- */

static struct sleeper {
        _Alignas(64) int64_t left_at, left_cpu; /* when its last wake-up ended; 0: there was none */
        int64_t left_queued;
        int schedstat; /* descriptor; -1: this system has no such file */
        unsigned phase;
        _Atomic int64_t away, away_cpu, away_own; /* the longest of this phase */
        _Atomic int64_t wake_ups;
} sleepers[SLEEPERS];

static _Atomic unsigned sleeper_count, phase;
static _Thread_local struct sleeper *sleeper;

static void
raise_to(_Atomic int64_t *greatest, int64_t value)
{
        if (value > atomic_load_explicit(greatest, memory_order_relaxed))
                atomic_store_explicit(greatest, value, memory_order_relaxed);
}

/* For how long, all in all, this thread was ready to run and did not: the second of three numbers. */
static int64_t
queued(void)
{
        char text[96], *behind;
        ssize_t size = pread(sleeper->schedstat, text, sizeof text - 1, 0);

        if (size <= 0)
                return 0;
        text[size] = '\0';
        strtoll(text, &behind, 10);
        return strtoll(behind, NULL, 10);
}

static void
arrive_first(void)
{
        sleeper = &sleepers[atomic_fetch_add(&sleeper_count, 1) % SLEEPERS];
        sleeper->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

static void
arrive(void)
{
        unsigned now = atomic_load(&phase);

        if (!sleeper)
                arrive_first();
        if (sleeper->phase != now) {
                atomic_store(&sleeper->away, 0);
                atomic_store(&sleeper->away_cpu, 0);
                atomic_store(&sleeper->away_own, 0);
                atomic_store(&sleeper->wake_ups, 0);
                sleeper->phase = now;
        } else if (sleeper->left_at) {
                int64_t away = bench_now() - sleeper->left_at;

                raise_to(&sleeper->away, away);
                raise_to(&sleeper->away_cpu, bench_clock(CLOCK_THREAD_CPUTIME_ID) - sleeper->left_cpu);
                if (away > atomic_load_explicit(&sleeper->away_own, memory_order_relaxed)) /* else it cannot be more */
                        raise_to(&sleeper->away_own, away - (queued() - sleeper->left_queued));
                atomic_fetch_add_explicit(&sleeper->wake_ups, 1, memory_order_relaxed);
        }
}

int
__wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int timeout)
{
        arrive();
        int result = __real_epoll_wait(epoll_fd, events, count, timeout);
        sleeper->left_queued = queued();
        sleeper->left_at = bench_now();
        sleeper->left_cpu = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        return result;
}

/* -- hearts: one on each poller -- */

static struct heart {
        _Alignas(64) weir_nsec due;
        unsigned phase;
        _Atomic int64_t late; /* the most of this phase */
} hearts[SLEEPERS];

static _Atomic unsigned heart_count;
static _Thread_local struct heart *heart;

static void
on_beat(weir_task *task, void *context)
{
        struct heart *own = context;
        weir_nsec now = weir_now();

        (void)task;
        if (own->phase != atomic_load(&phase)) {
                own->phase = atomic_load(&phase);
                atomic_store(&own->late, 0);
        } else {
                raise_to(&own->late, now - own->due);
        }
        own->due = now + BEAT;
        weir_task_start(weir_timer_new(BEAT, on_beat, own));
}

static void
on_first_beat(weir_task *task, void *context)
{
        (void)context;
        if (heart)
                return;
        heart = &hearts[atomic_fetch_add(&heart_count, 1) % SLEEPERS];
        on_beat(task, heart);
}

/* Timers belong to the pollers by turns, and what a callback starts to the poller on which it runs. */
static bool
start_hearts(unsigned pollers)
{
        for (unsigned i = 0; i < 2 * TURN * pollers; i++)
                weir_task_start(weir_timer_new(0, on_first_beat, NULL));
        for (int i = 0; i < 1000 && atomic_load(&heart_count) < pollers; i++)
                bench_sleep(1000000);
        if (atomic_load(&heart_count) == pollers)
                return true;
        fprintf(stderr, "bench: %u hearts on %u pollers\n", atomic_load(&heart_count), pollers);
        return false;
}

/* -- a phase -- */

enum event { NOTHING, CALLBACK, FOREIGN, EVENTS };

struct outcome {
        double away_cpu, away_own, away, late; /* ms */
        double call, over;                     /* seconds: of the call that cancels; to the last callback */
        bool good;
};

#define PHASES (2 * EVENTS) /* each event without and with timers that fire */

struct stall {
        unsigned pollers;
        size_t background, many;  /* pending all the time; cancelled or firing at once */
        int64_t watched;          /* how long a phase lasts at least, in which nothing fires */
        struct outcome *outcomes; /* PHASES of them, shared with the parent */
};

static _Atomic size_t ended, fired;

static void
on_cancelled(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
}

static void
on_fired(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add_explicit(&fired, 1, memory_order_relaxed);
}

static void
on_cancel(weir_task *task, void *context)
{
        struct outcome *outcome = context;
        int64_t began = bench_now();

        (void)task;
        weir_timer_cancel(NAME, WEIR_ALL);
        outcome->call = (double)(bench_now() - began) / 1e9;
}

/* At random instants of the time `over` that begins at `from`. */
static void
arm(size_t count, weir_nsec from, weir_nsec over, weir_task_fn *done)
{
        uint64_t random = count;

        for (size_t i = 0; i < count; i++) {
                weir_nsec due = from + (weir_nsec)(bench_random(&random) % (uint64_t)over);

                weir_task_start(weir_timer_new(due - weir_now(), done, NULL));
        }
}

/* Leaves holes all over the memory, in random order, which the timers of the name will fill: as in a program that has run for a
 * while.  Timers that lie in the order of their making are cancelled much faster. */
static bool
scatter(size_t holes)
{
        weir_task **timers = malloc(2 * holes * sizeof *timers);
        uint64_t random = 1;

        if (!timers)
                return false;
        for (size_t i = 0; i < 2 * holes; i++)
                timers[i] = weir_timer_new_named(NEIGHBOUR, WEIR_FOREVER, NULL, NULL);
        for (size_t i = 0; i < 2 * holes; i++) {
                size_t j = i + bench_random_below(&random, 2 * holes - i);
                weir_task *other = timers[j];

                timers[j] = timers[i];
                if (i < holes)
                        weir_task_dismiss(other);
                else
                        weir_task_start(other);
        }
        free(timers);
        return true;
}

static void
settle(void)
{
        atomic_fetch_add(&phase, 1);
        bench_sleep(WEIR_MSEC(SETTLING));
}

/* The worst of all pollers in the phase that ends. */
static void
collect(struct outcome *outcome)
{
        for (unsigned i = 0; i < SLEEPERS; i++) {
                double away = (double)atomic_load(&sleepers[i].away) / 1e6;
                double away_cpu = (double)atomic_load(&sleepers[i].away_cpu) / 1e6;
                double away_own = (double)atomic_load(&sleepers[i].away_own) / 1e6;
                double late = (double)atomic_load(&hearts[i].late) / 1e6;

                outcome->away = away > outcome->away ? away : outcome->away;
                outcome->away_cpu = away_cpu > outcome->away_cpu ? away_cpu : outcome->away_cpu;
                outcome->away_own = away_own > outcome->away_own ? away_own : outcome->away_own;
                outcome->late = late > outcome->late ? late : outcome->late;
        }
}

static bool
wait_for(const _Atomic size_t *counter, size_t count)
{
        for (int i = 0; i < 20000 && atomic_load(counter) < count; i++)
                bench_sleep(1000000);
        return atomic_load(counter) >= count;
}

static void
run_phase(const struct stall *stall, enum event event, bool firing)
{
        struct outcome *outcome = &stall->outcomes[event + (firing ? EVENTS : 0)];
        size_t cancelled = event == NOTHING ? 0 : stall->many, due = firing ? stall->many : 0;

        atomic_store(&ended, 0);
        atomic_store(&fired, 0);
        for (size_t i = 0; i < cancelled; i++)
                weir_task_start(weir_timer_new_named(NAME, WEIR_SEC(1000), on_cancelled, NULL));
        weir_nsec from = weir_now() + WEIR_MSEC(SETTLING) + WEIR_USEC(2) * (weir_nsec)due;
        arm(due, from, WEIR_SEC(1), on_fired);
        if (due && weir_now() > from - WEIR_MSEC(SETTLING))
                fprintf(stderr, "bench: arming took too long\n");
        while (weir_now() < from - WEIR_MSEC(SETTLING))
                bench_sleep(WEIR_MSEC(1));
        settle();
        int64_t began = bench_now();
        if (event == FOREIGN)
                on_cancel(NULL, outcome);
        if (event == CALLBACK)
                weir_task_start(weir_empty_new(on_cancel, outcome));
        outcome->good = wait_for(&ended, cancelled);
        outcome->over = (double)(bench_now() - began) / 1e9;
        int64_t left = began + (firing ? BENCH_NSEC_PER_SEC : stall->watched) - bench_now();
        if (left > 0)
                bench_sleep(left);
        outcome->good &= wait_for(&fired, due);
        bench_sleep(WEIR_MSEC(50)); /* who was away for long comes back before it is asked */
        collect(outcome);
}

static bool
measure_stall(const void *argument, double values[BENCH_VALUES])
{
        const struct stall *stall = argument;
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        (void)values;
        config.pollers = (int)stall->pollers;
        if (weir_init(&config))
                return false;
        arm(stall->background, weir_now() + UNTIL_DUE, WEIR_SEC(60), on_fired);
        int64_t armed = bench_now();
        if (!scatter(stall->many) || !start_hearts(stall->pollers))
                return false;
        for (unsigned i = 0; i < PHASES; i++)
                run_phase(stall, (enum event)(i % EVENTS), i >= EVENTS);
        if (bench_now() - armed > UNTIL_DUE - WEIR_SEC(20))
                fprintf(stderr, "bench: the phases took %d s\n", (int)((bench_now() - armed) / BENCH_NSEC_PER_SEC));
        return true;
}

/* -- running -- */

static const char *
power_of(size_t number)
{
        return number == 10000000 ? "1e7" : number == 1000000 ? "1e6" : "1e5";
}

static void
sample(const struct stall *stall, unsigned index)
{
        static const char *const events[] = {"", ", mass cancel from a callback", ", mass cancel from a foreign thread"};
        const struct outcome *outcome = &stall->outcomes[index];
        char name[96];

        snprintf(name, sizeof name, "N=%s, %u poller%s%s%s", power_of(stall->background), stall->pollers,
                 stall->pollers == 1 ? "" : "s", index >= EVENTS ? ", firing" : "", events[index % EVENTS]);
        if (!outcome->good) {
                fprintf(stderr, "bench: \"%s\": callbacks are missing\n", name);
                return;
        }
        bench_sample("weir", name, "CPU ms away, worst", outcome->away_cpu);
        bench_sample("weir", name, "ms away with a CPU, worst", outcome->away_own);
        bench_sample("weir", name, "ms away, worst", outcome->away);
        bench_sample("weir", name, "ms a 1 ms timer was late, at most", outcome->late);
        if (index % EVENTS == NOTHING)
                return;
        bench_sample("weir", name, "seconds of the call", outcome->call);
        bench_sample("weir", name, "seconds to the last callback", outcome->over);
}

static void
measure(struct stall *stall)
{
        double values[BENCH_VALUES];
        char what[32];

        memset(stall->outcomes, 0, PHASES * sizeof *stall->outcomes);
        snprintf(what, sizeof what, "%u pollers", stall->pollers);
        if (!bench_isolated(what, measure_stall, stall, values, PATIENCE))
                return;
        for (unsigned i = 0; i < PHASES; i++)
                sample(stall, i);
}

int
main(int argc, char *argv[])
{
        bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
        bool roomy = sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE) >= ROOMY;
        struct stall stall = {.background = quick || !roomy ? 1000000 : 10000000};
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);

        stall.many = stall.background / 10;
        stall.watched = quick ? WEIR_MSEC(300) : WEIR_SEC(1);
        stall.outcomes = mmap(NULL, PHASES * sizeof *stall.outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (stall.outcomes == MAP_FAILED)
                return 1;
        bench_begin();
        for (int round = quick ? ROUNDS - 1 : 0; round < ROUNDS && !bench_interrupted(); round++) {
                stall.pollers = 1;
                measure(&stall);
                stall.pollers = cpus > SLEEPERS ? SLEEPERS : (unsigned)cpus;
                if (stall.pollers > 1)
                        measure(&stall);
        }
        bench_sample("machine", "stall", "CPU used by others, percent of one", bench_others());
        bench_print("stall");
        return bench_interrupted();
}
