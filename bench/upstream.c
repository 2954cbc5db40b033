/* bench/upstream.c: what a pick of a member and its report cost, by policy, members and threads.
 *
 * "atomics" is what a pick without a lock would cost at the least: two random choices in a constant array, with atomic counts of
 * requests in flight, and no breaker.  An upstream has one lock: docs/decisions/524. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cases.h"
#include "net/upstream/upstream.h"

#define ROUNDS      5
#define COUNT       1000000 /* requests of all threads; fewer of many members */
#define PATIENCE    60
#define THREADS_MAX 4
#define CPU_TIME    "CPU ns per request"
#define TIME        "ns per request"

struct shape {
        const char *name;
        enum weir_upstream_policy policy;
        bool is_weighted;
        unsigned members, threads;
};

static const struct shape shapes[] = {
        {"two choices, 10 members, 1 thread", WEIR_UPSTREAM_TWO_CHOICES, false, 10, 1},
        {"two choices, 10 members, 2 threads", WEIR_UPSTREAM_TWO_CHOICES, false, 10, 2},
        {"two choices, 10 members, 4 threads", WEIR_UPSTREAM_TWO_CHOICES, false, 10, 4},
        {"two choices, 10 weights, 1 thread", WEIR_UPSTREAM_TWO_CHOICES, true, 10, 1},
        {"two choices, 1000 members, 1 thread", WEIR_UPSTREAM_TWO_CHOICES, false, 1000, 1},
        {"round robin, 10 members, 1 thread", WEIR_UPSTREAM_ROUND_ROBIN, false, 10, 1},
        {"round robin, 1000 members, 1 thread", WEIR_UPSTREAM_ROUND_ROBIN, false, 1000, 1},
        {"random, 10 weights, 1 thread", WEIR_UPSTREAM_RANDOM, true, 10, 1},
        {"hash, 10 members, 1 thread", WEIR_UPSTREAM_HASH, false, 10, 1},
        {"hash, 10 weights, 1 thread", WEIR_UPSTREAM_HASH, true, 10, 1},
        {"hash, 100 members, 1 thread", WEIR_UPSTREAM_HASH, false, 100, 1},
        {"hash, 1000 members, 1 thread", WEIR_UPSTREAM_HASH, false, 1000, 1},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

struct thread {
        const struct shape *shape;
        uint64_t random;
        unsigned count;
};

/* -- weir -- */

static weir_upstream *upstream;

static void
ask_upstream(struct thread *thread)
{
        for (unsigned i = 0; i < thread->count; i++) {
                uint64_t key = bench_random(&thread->random);
                struct weir__wish wish = {.key = &key, .key_size = sizeof key};
                struct weir__picked picked;

                if (weir__upstream_pick(upstream, &wish, &picked, NULL) == 0)
                        weir__upstream_report(upstream, &picked, WEIR__OUTCOME_SUCCESS, 1000);
        }
}

static void
make_upstream(const struct shape *shape)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct weir_member_config member = WEIR_MEMBER_CONFIG_DEFAULT;
        char address[32];

        config.policy = shape->policy;
        upstream = weir_upstream_new("backend", &config);
        for (unsigned i = 0; i < shape->members; i++) {
                snprintf(address, sizeof address, "10.0.%u.%u:80", i / 250, i % 250);
                member.weight = shape->is_weighted ? i % 5 + 1 : 1;
                weir_upstream_add(upstream, address, &member);
        }
}

/* -- atomics -- */

static struct {
        _Alignas(64) _Atomic unsigned in_flight, requests;
} floor_members[1000];

static void
ask_floor(struct thread *thread)
{
        for (unsigned i = 0; i < thread->count; i++) {
                uint64_t one = bench_random_below(&thread->random, thread->shape->members),
                         two = bench_random_below(&thread->random, thread->shape->members);

                if (atomic_load_explicit(&floor_members[two].in_flight, memory_order_relaxed) <
                    atomic_load_explicit(&floor_members[one].in_flight, memory_order_relaxed))
                        one = two;
                atomic_fetch_add_explicit(&floor_members[one].in_flight, 1, memory_order_relaxed);
                atomic_fetch_add_explicit(&floor_members[one].requests, 1, memory_order_relaxed);
                bench_now(); /* the window of a breaker needs the time */
                atomic_fetch_sub_explicit(&floor_members[one].in_flight, 1, memory_order_relaxed);
        }
}

/* -- both -- */

struct run {
        const struct shape *shape;
        bool is_floor;
};

static void *
run_floor(void *thread)
{
        ask_floor(thread);
        return NULL;
}

static void *
run_upstream(void *thread)
{
        ask_upstream(thread);
        return NULL;
}

static bool
measure_run(const void *argument, double values[BENCH_VALUES])
{
        const struct run *run = argument;
        const struct shape *shape = run->shape;
        unsigned count = COUNT / (shape->members > 100 && shape->policy != WEIR_UPSTREAM_TWO_CHOICES ? 20 : 1);
        struct thread threads[THREADS_MAX];
        pthread_t ids[THREADS_MAX];

        make_upstream(shape);
        int64_t began = bench_now(), cpu = bench_cpu();
        for (unsigned i = 0; i < shape->threads; i++) {
                threads[i] = (struct thread){shape, i, count / shape->threads};
                if (pthread_create(&ids[i], NULL, run->is_floor ? run_floor : run_upstream, &threads[i]))
                        return false;
        }
        for (unsigned i = 0; i < shape->threads; i++)
                pthread_join(ids[i], NULL);
        values[0] = (double)(bench_cpu() - cpu) / count;
        values[1] = (double)(bench_now() - began) / count;
        weir_upstream_unref(upstream);
        return true;
}

static void
measure(const struct bench_size *size, const struct shape *shape, bool is_floor)
{
        double values[BENCH_VALUES];
        struct run run = {shape, is_floor};

        if (!bench_wanted(size, shape->name) || !bench_isolated(shape->name, measure_run, &run, values, PATIENCE))
                return;
        bench_sample(is_floor ? "atomics" : "weir", shape->name, CPU_TIME, values[0]);
        bench_sample(is_floor ? "atomics" : "weir", shape->name, TIME, values[1]);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < SHAPES; i++) {
                        measure(&size, &shapes[i], false);
                        if (shapes[i].policy == WEIR_UPSTREAM_TWO_CHOICES && !shapes[i].is_weighted)
                                measure(&size, &shapes[i], true);
                }
        bench_sample("machine", "upstream", "CPU used by others, percent of one", bench_others());
        bench_print("upstream");
        return bench_interrupted();
}
