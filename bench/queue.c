/* bench/queue.c: kernel/queue/timerq beside the deadline queues that were rejected for it.
 *
 *     queue [quick] [part of a case's name, such as N=1e6]
 *
 * Only the data structures: no lock, no callback, and a clock that is simulated.  All nodes are 40 bytes, each on a cache line of
 * its own, and are added in random order, as where timers lie in memory has nothing to do with when they come.
 *
 * "hot" cancels the timer that was just added; "any" cancels a random one of the N and adds it anew.  Time goes on by STEP with
 * each add, and the queue is shown it every millisecond, as a poller does; what expires is added again.  "firing" has all N
 * expire, the clock moving on by a millisecond at a time.
 *
 * No pair begins before the node of the last one has come from memory: a CPU that overlaps the misses of several pairs measures
 * how short their code is, and where a lock is taken for each and a name is looked up it does not.
 *
 * Threads: each case runs in a process of its own, which has one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "candidates/lanes.h"
#include "candidates/naive.h"
#include "kernel/queue/timerq.h"

#define ROUNDS   3
#define PATIENCE 100 /* seconds for a case */
#define BATCH    256 /* nodes that one expire takes at most, of all candidates */

#define STEP    200              /* ns of the simulated clock that an add takes */
#define WAKE_UP INT64_C(1000000) /* ns between two looks at the clock */
#define SECOND  BENCH_NSEC_PER_SEC

#define HUGE_CASE  10000000            /* timers from which on a case runs once */
#define HUGE_BYTES INT64_C(4000000000) /* and only on a machine with so much memory */

union entry {
        _Alignas(64) struct weir__timerq_node timerq;
        struct lanes_node lanes;
        struct naive_node naive;
};

_Static_assert(sizeof(struct lanes_node) == sizeof(struct weir__timerq_node), "nodes of one size");
_Static_assert(sizeof(struct naive_node) == sizeof(struct weir__timerq_node), "nodes of one size");
_Static_assert(WEIR__TIMERQ_BATCH == BATCH && LANES_BATCH == BATCH && NAIVE_BATCH == BATCH, "batches of one size");

/* -- the candidates -- */

struct candidate {
        const char *peer;
        void (*init)(int64_t now);
        void (*add)(union entry *entry, int64_t after, int64_t now);
        void (*remove)(union entry *entry);
        unsigned (*expire)(int64_t now, union entry *expired[BATCH], bool *more);
};

static struct weir__timerq timerq;
static struct lanes lanes;
static struct naive naive;

static void
timerq_init(int64_t now)
{
        weir__timerq_init(&timerq, now);
}

static void
timerq_add(union entry *entry, int64_t after, int64_t now)
{
        weir__timerq_stamp(&timerq, now); /* as each add of a timer does */
        weir__timerq_add(&timerq, &entry->timerq, now + after);
}

static void
timerq_remove(union entry *entry)
{
        weir__timerq_remove(&timerq, &entry->timerq);
}

static unsigned
timerq_expire(int64_t now, union entry *expired[BATCH], bool *more)
{
        struct weir__timerq_node *nodes[BATCH];
        unsigned count = weir__timerq_expire(&timerq, now, nodes, BATCH, more);

        for (unsigned i = 0; i < count; i++)
                expired[i] = (union entry *)nodes[i];
        return count;
}

static void
no_memory(void)
{
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
}

static void
lanes_candidate_init(int64_t now)
{
        (void)now;
        if (!lanes_init(&lanes))
                no_memory();
}

static void
lanes_candidate_add(union entry *entry, int64_t after, int64_t now)
{
        if (!lanes_add(&lanes, &entry->lanes, after, now))
                no_memory();
}

static void
lanes_candidate_remove(union entry *entry)
{
        lanes_remove(&lanes, &entry->lanes);
}

static unsigned
lanes_candidate_expire(int64_t now, union entry *expired[BATCH], bool *more)
{
        struct lanes_node *nodes[BATCH];
        unsigned count = lanes_expire(&lanes, now, nodes, more);

        for (unsigned i = 0; i < count; i++)
                expired[i] = (union entry *)nodes[i];
        return count;
}

static void
naive_candidate_init(int64_t now)
{
        (void)now;
        naive_init(&naive);
}

static void
naive_candidate_add(union entry *entry, int64_t after, int64_t now)
{
        naive_add(&naive, &entry->naive, now + after);
}

static void
naive_candidate_remove(union entry *entry)
{
        naive_remove(&naive, &entry->naive);
}

static unsigned
naive_candidate_expire(int64_t now, union entry *expired[BATCH], bool *more)
{
        struct naive_node *nodes[BATCH];
        unsigned count = naive_expire(&naive, now, nodes, more);

        for (unsigned i = 0; i < count; i++)
                expired[i] = (union entry *)nodes[i];
        return count;
}

#define CANDIDATES 3

static const struct candidate candidates[CANDIDATES] = {
        {"timerq", timerq_init, timerq_add, timerq_remove, timerq_expire},
        {"lanes", lanes_candidate_init, lanes_candidate_add, lanes_candidate_remove, lanes_candidate_expire},
        {"naive", naive_candidate_init, naive_candidate_add, naive_candidate_remove, naive_candidate_expire},
};

/* -- the cases -- */

enum kind { HOT, ANY, FIRING };
enum mix { FIXED, MIXED, MILLISECONDS, RANDOM };

struct queue_case {
        char name[96];
        const struct candidate *candidate;
        enum kind kind;
        enum mix mix;
        size_t pending, count; /* timers; pairs */
        int64_t over;          /* FIRING: the time over which they fall due */
};

static struct {
        const struct queue_case *wanted;
        const struct candidate *candidate;
        union entry *entries;
        uint64_t random;
        int64_t now, seen; /* the simulated clock, and what the queue was shown of it last */
} run;

static int64_t
duration(void)
{
        static const int64_t ten[10] = {1, 2, 3, 5, 10, 15, 20, 30, 45, 60};

        switch (run.wanted->mix) {
        case MIXED: return ten[bench_random_below(&run.random, 10)] * SECOND;
        case MILLISECONDS: return SECOND + (int64_t)bench_random_below(&run.random, 59000) * 1000000;
        case RANDOM: return SECOND + (int64_t)(bench_random(&run.random) % (uint64_t)(59 * SECOND));
        default: return 60 * SECOND;
        }
}

/* Shows the queue the time, and adds again what expires. */
static void
wake_up(void)
{
        union entry *expired[BATCH];
        bool more = true;

        run.seen = run.now;
        while (more) {
                unsigned count = run.candidate->expire(run.now, expired, &more);

                for (unsigned i = 0; i < count; i++)
                        run.candidate->add(expired[i], duration(), run.now);
        }
}

static void
pass(void)
{
        run.now += STEP;
        if (run.now - run.seen >= WAKE_UP)
                wake_up();
}

static void
prepare(const struct queue_case *wanted)
{
        size_t size = (wanted->pending + 1) * sizeof *run.entries; /* one for "hot" */

        run.wanted = wanted;
        run.candidate = wanted->candidate;
        run.random = 1;
        run.now = run.seen = SECOND;
        run.entries = aligned_alloc(64, size);
        if (!run.entries)
                no_memory();
        memset(run.entries, 0, size);
        run.candidate->init(run.now);
}

/* The numbers below `count` in random order. */
static uint32_t *
shuffled(size_t count)
{
        uint32_t *order = malloc(count * sizeof *order);

        if (!order)
                no_memory();
        for (size_t i = 0; i < count; i++) {
                size_t j = bench_random_below(&run.random, i + 1);

                order[i] = order[j];
                order[j] = (uint32_t)i;
        }
        return order;
}

/* -- add and cancel -- */

static void
pair(void)
{
        size_t pending = run.wanted->pending;
        union entry *entry = &run.entries[pending]; /* the one behind the N */

        if (run.wanted->kind == HOT) {
                run.candidate->add(entry, duration(), run.now);
                run.candidate->remove(entry);
        } else {
                entry = &run.entries[bench_random_below(&run.random, pending)];
                run.random += entry->timerq.deadline < 0; /* it never is: this ties the next pair to this one's node */
                run.candidate->remove(entry);
                run.candidate->add(entry, duration(), run.now);
        }
        pass();
}

static bool
measure_pairs(const void *argument, double values[BENCH_VALUES])
{
        prepare(argument);
        uint32_t *order = shuffled(run.wanted->pending);
        for (size_t i = 0; i < run.wanted->pending; i++, pass())
                run.candidate->add(&run.entries[order[i]], duration(), run.now);
        free(order);
        int64_t cpu = bench_cpu();
        for (size_t i = 0; i < run.wanted->count; i++)
                pair();
        values[0] = (double)(bench_cpu() - cpu) / (double)run.wanted->count;
        return true;
}

/* -- firing -- */

struct stalls {
        int64_t wake_up, call; /* CPU ns: the most that one instant, and one call of expire, took */
};

/* Takes out all that is due now; with `stalls`, by the clock. */
static size_t
fire(struct stalls *stalls)
{
        union entry *expired[BATCH];
        int64_t began = stalls ? bench_clock(CLOCK_THREAD_CPUTIME_ID) : 0, called = began;
        size_t sum = 0;

        for (bool more = true; more;) {
                sum += run.candidate->expire(run.now, expired, &more);
                if (stalls) {
                        int64_t now = bench_clock(CLOCK_THREAD_CPUTIME_ID);

                        stalls->call = now - called > stalls->call ? now - called : stalls->call;
                        called = now;
                }
        }
        if (stalls && called - began > stalls->wake_up)
                stalls->wake_up = called - began;
        return sum;
}

/* Adds them all, while time goes on, so that the first falls due when the last was added. */
static size_t
add_all(const uint32_t *order)
{
        size_t pending = run.wanted->pending, fired = 0;
        int64_t first = run.now + STEP * (int64_t)pending;

        for (size_t i = 0; i < pending; i++, run.now += STEP) {
                int64_t due = first + (int64_t)(bench_random(&run.random) % (uint64_t)run.wanted->over);

                run.candidate->add(&run.entries[order[i]], due - run.now, run.now);
                if (i % (WAKE_UP / STEP) == 0)
                        fired += fire(NULL);
        }
        return fired;
}

/* One pass; a pass by the clock tells nothing about the sums, for the clock costs as much as a wake-up with nothing to do. */
static bool
add_and_fire(const struct queue_case *wanted, struct stalls *stalls, double values[BENCH_VALUES])
{
        prepare(wanted);
        uint32_t *order = shuffled(wanted->pending);
        int64_t began = bench_cpu();
        size_t fired = add_all(order);
        int64_t added = bench_cpu();
        for (int64_t until = run.now + wanted->over + WAKE_UP; run.now < until; run.now += WAKE_UP)
                fired += fire(stalls);
        values[0] = (double)(bench_cpu() - began) / (double)wanted->pending;
        values[1] = (double)(added - began) / (double)wanted->pending;
        free(order);
        free(run.entries);
        return fired == wanted->pending;
}

static bool
measure_firing(const void *argument, double values[BENCH_VALUES])
{
        struct stalls stalls = {0};

        if (!add_and_fire(argument, &stalls, values) || !add_and_fire(argument, NULL, values))
                return false;
        values[2] = (double)stalls.wake_up / 1000;
        values[3] = (double)stalls.call / 1000;
        return true;
}

/* -- whether they are comparable at all: the same calls, the same order -- */

#define CHECKED 2000

static uint64_t
fingerprint(const struct candidate *candidate)
{
        struct queue_case wanted = {.candidate = candidate, .mix = RANDOM, .pending = CHECKED};
        union entry *expired[BATCH];
        static bool pending[CHECKED];
        uint64_t hash = 0;

        prepare(&wanted);
        memset(pending, 0, sizeof pending);
        for (unsigned i = 0; i < 100 * CHECKED; i++, run.now += (int64_t)bench_random_below(&run.random, 40000000)) {
                size_t index = bench_random_below(&run.random, CHECKED);

                if (pending[index])
                        candidate->remove(&run.entries[index]);
                else
                        candidate->add(&run.entries[index], wanted.mix == FIXED ? 30 * SECOND : duration(), run.now);
                pending[index] = !pending[index];
                wanted.mix = (enum mix)(i % 4);
                for (bool more = true; more;) {
                        unsigned count = candidate->expire(run.now, expired, &more);

                        for (unsigned j = 0; j < count; j++) {
                                size_t which = (size_t)(expired[j] - run.entries);

                                pending[which] = false;
                                hash = (hash ^ (which + 1) ^ (uint64_t)i << 16) * UINT64_C(0x100000001b3);
                        }
                }
        }
        free(run.entries);
        return hash;
}

static bool
are_alike(void)
{
        uint64_t first = fingerprint(&candidates[0]);

        for (unsigned i = 1; i < CANDIDATES; i++) {
                if (fingerprint(&candidates[i]) == first)
                        continue;
                fprintf(stderr, "bench: %s and %s expire in different orders\n", candidates[0].peer, candidates[i].peer);
                return false;
        }
        return true;
}

/* -- running -- */

#define PAIR "CPU ns per pair"
#define BOTH "CPU ns per timer added and fired"

static struct {
        bool quick;
        const char *only;
        int round;
} plan;

static const char *
power_of(size_t number)
{
        return number == 10000000 ? "1e7" : number == 1000000 ? "1e6" : number == 100000 ? "1e5" : "1e3";
}

static bool
is_wanted(const struct queue_case *wanted)
{
        if (bench_interrupted() || (plan.only && !strstr(wanted->name, plan.only)))
                return false;
        if (wanted->pending < HUGE_CASE)
                return true;
        return plan.round == ROUNDS - 1 && sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE) >= HUGE_BYTES;
}

static void
sample(const struct queue_case *wanted, const double values[BENCH_VALUES])
{
        const char *peer = wanted->candidate->peer;

        if (wanted->kind != FIRING) {
                bench_sample(peer, wanted->name, PAIR, values[0]);
                return;
        }
        bench_sample(peer, wanted->name, BOTH, values[0]);
        bench_sample(peer, wanted->name, "CPU ns per timer added", values[1]);
        bench_sample(peer, wanted->name, "longest wake-up, CPU us", values[2]);
        bench_sample(peer, wanted->name, "longest call, CPU us", values[3]);
}

/* All candidates, one after another. */
static void
measure(struct queue_case wanted)
{
        double values[BENCH_VALUES];

        if (!is_wanted(&wanted))
                return;
        for (unsigned i = 0; i < CANDIDATES; i++) {
                wanted.candidate = &candidates[i];
                if (bench_isolated(wanted.name, wanted.kind == FIRING ? measure_firing : measure_pairs, &wanted, values,
                                   PATIENCE))
                        sample(&wanted, values);
        }
        if (plan.round < ROUNDS - 1)
                return;
        for (unsigned i = 1; i < CANDIDATES; i++)
                bench_ratio(candidates[0].peer, candidates[i].peer, wanted.name, wanted.kind == FIRING ? BOTH : PAIR);
}

static void
measure_all_pairs(enum kind kind, size_t pending)
{
        static const char *const mixes[] = {"60 s", "ten durations", "1-60 s in ms", "1-60 s"};

        for (enum mix mix = FIXED; mix <= RANDOM; mix++) {
                struct queue_case wanted = {.kind = kind, .mix = mix, .pending = pending};

                wanted.count = plan.quick ? 200000 : pending == HUGE_CASE ? 500000 : 1000000;
                snprintf(wanted.name, sizeof wanted.name, "%s, N=%s, %s", kind == HOT ? "hot" : "any", power_of(pending),
                         mixes[mix]);
                if (mix != MILLISECONDS || pending == 1000000)
                        measure(wanted);
        }
}

static void
measure_all_firing(size_t pending)
{
        for (int64_t seconds = 1; seconds <= 60; seconds += 59) {
                struct queue_case wanted = {.kind = FIRING, .pending = pending, .over = seconds * SECOND};

                snprintf(wanted.name, sizeof wanted.name, "firing, N=%s, within %d s", power_of(pending), (int)seconds);
                measure(wanted);
        }
}

int
main(int argc, char *argv[])
{
        static const size_t sizes[] = {1000, 100000, 1000000, 10000000};

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "quick") == 0)
                        plan.quick = true;
                else
                        plan.only = argv[i];
        }
        bench_begin();
        if (!are_alike())
                return 1;
        for (plan.round = plan.quick ? ROUNDS - 1 : 0; plan.round < ROUNDS; plan.round++) {
                measure_all_pairs(HOT, 1000);
                for (unsigned i = 0; i < (plan.quick ? 2 : 4); i++)
                        measure_all_pairs(ANY, sizes[i]);
                measure_all_firing(plan.quick ? 100000 : 1000000);
        }
        bench_sample("machine", "queue", "CPU used by others, percent of one", bench_others());
        bench_print("queue");
        return bench_interrupted();
}
