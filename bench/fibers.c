/* bench/fibers.c: fibers that are made and end, take turns, await, hand over messages, and recurse.
 *
 * Go's side is peers/gotimers/fibers.go and channels.go, with the same counts.
 *
 * Threads: a case runs on the pollers; what fibers of one case share is a channel, a waitgroup or an atomic. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include <weir/fiber.h>
#include <weir/weir.h>

#include "bench.h"
#include "fiber.h"

#define PATIENCE 60 /* seconds for a case */
#define BATCH    100
#define CAPACITY 128
#define FRAME    1024 /* bytes of a frame of the recursion, about */

static char message[] = "a message"; /* one for all: nobody frees it */

struct load {
        size_t count, size; /* size: a batch, or KB of recursion */
        weir_channel *in, *out;
};

static bool
run_root(weir_fiber_fn *root, struct load *load)
{
        return weir_task_run(weir_fiber_new(root, NULL, load)) == 0;
}

/* -- create, run, end -- */

static _Atomic size_t left; /* of the fibers that were started alone */

static int
do_nothing(void *context)
{
        (void)context;
        return 0;
}

/* Starts `count` children, and waits for them, a batch at a time. */
static int
run_children(const struct load *load, weir_fiber_fn *child, void *context)
{
        for (size_t done = 0; done < load->count; done += BATCH) {
                weir_group *group = weir_group_open();
                size_t batch = load->count - done < BATCH ? load->count - done : BATCH;

                for (size_t i = 0; i < batch; i++)
                        weir_group_start(group, weir_fiber_new_as("child", child, NULL, context));
                int failed = weir_group_close(group);
                if (failed)
                        return failed;
        }
        return 0;
}

static int
start_children(void *context)
{
        return run_children(context, do_nothing, NULL);
}

/* The batch is as large as the count. */
static int
start_all_at_once(void *context)
{
        const struct load *load = context;
        weir_group *group = weir_group_open();

        for (size_t i = 0; i < load->count; i++)
                weir_group_start(group, weir_fiber_new(do_nothing, NULL, NULL));
        return weir_group_close(group);
}

/* Without a group: the last one of a batch sends a message. */
static int
count_down(void *context)
{
        struct load *load = context;

        if (atomic_fetch_sub(&left, 1) == 1)
                weir_channel_post(load->in, message);
        return 0;
}

static int
start_alone(void *context)
{
        struct load *load = context;
        void *told;
        int failed = 0;

        load->in = weir_channel_new(1, NULL);
        for (size_t done = 0; done < load->count && !failed; done += BATCH) {
                atomic_store(&left, BATCH);
                for (size_t i = 0; i < BATCH; i++)
                        weir_task_start(weir_fiber_new(count_down, NULL, load));
                failed = weir_fiber_receive(load->in, &told);
        }
        weir_channel_unref(load->in);
        return failed;
}

static int
await_children(void *context)
{
        const struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count && !failed; i++)
                failed = weir_await(weir_fiber_new(do_nothing, NULL, NULL));
        return failed;
}

/* -- turns -- */

static int
yield_often(void *context)
{
        const struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count && !failed; i++)
                failed = weir_fiber_yield();
        return failed;
}

static int
take_turns(void *context)
{
        const struct load *load = context;
        struct load share = {.count = load->count / load->size};
        weir_group *group = weir_group_open();

        for (size_t i = 0; i < load->size; i++)
                weir_group_start(group, weir_fiber_new(yield_often, NULL, &share));
        return weir_group_close(group);
}

static int
await_ready(void *context)
{
        const struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count && !failed; i++)
                failed = weir_await(weir_empty_new(NULL, NULL));
        return failed;
}

/* -- channels -- */

/* Two fibers, with a channel each way, or one. */
static int
run_two(struct load *load, weir_fiber_fn *one, weir_fiber_fn *other, size_t capacity)
{
        struct load mirrored = *load;
        weir_group *group = weir_group_open();

        load->in = mirrored.out = weir_channel_new(capacity, NULL);
        load->out = mirrored.in = weir_channel_new(capacity, NULL);
        weir_group_start(group, weir_fiber_new_as("one", one, NULL, load));
        weir_group_start(group, weir_fiber_new_as("other", other, NULL, &mirrored));
        int failed = weir_group_close(group);
        weir_channel_unref(load->in);
        weir_channel_unref(load->out);
        return failed;
}

static int
serve(void *context)
{
        struct load *load = context;
        void *ball;
        int failed = 0;

        for (size_t i = 0; i < load->count / 2 && !failed; i++) {
                failed = weir_fiber_send(load->out, message);
                failed = failed ? failed : weir_fiber_receive(load->in, &ball);
        }
        return failed;
}

static int
play_back(void *context)
{
        struct load *load = context;
        void *ball;
        int failed = 0;

        for (size_t i = 0; i < load->count / 2 && !failed; i++) {
                failed = weir_fiber_receive(load->in, &ball);
                failed = failed ? failed : weir_fiber_send(load->out, ball);
        }
        return failed;
}

static int
ping_pong(void *context)
{
        return run_two(context, serve, play_back, 0);
}

static weir_channel *never; /* nobody sends to it */

static int
receive_either(struct load *load)
{
        weir_task *select = weir_select_new(NULL, NULL);

        weir_select_receive(select, never);
        weir_select_receive(select, load->in);
        return weir_await(select);
}

static int
serve_and_select(void *context)
{
        struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count / 2 && !failed; i++) {
                failed = weir_fiber_send(load->out, message);
                failed = failed ? failed : receive_either(load);
        }
        return failed;
}

static int
select_and_play_back(void *context)
{
        struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count / 2 && !failed; i++) {
                failed = receive_either(load);
                failed = failed ? failed : weir_fiber_send(load->out, message);
        }
        return failed;
}

static int
selects(void *context)
{
        never = weir_channel_new(0, NULL);
        int failed = run_two(context, serve_and_select, select_and_play_back, 0);
        weir_channel_unref(never);
        return failed;
}

static int
send_all(void *context)
{
        struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count && !failed; i++)
                failed = weir_fiber_send(load->out, message);
        weir_channel_close(load->out);
        return failed;
}

static int
receive_all(void *context)
{
        struct load *load = context;
        void *next;
        int failed;

        while (!(failed = weir_fiber_receive(load->in, &next)))
                continue;
        return failed == -EPIPE ? 0 : failed;
}

static int
pipe_of_messages(void *context)
{
        return run_two(context, send_all, receive_all, CAPACITY);
}

/* -- recursion -- */

/* Uses a frame of about FRAME bytes, of which a few are written: not a tail call. */
static __attribute__((noinline)) unsigned
recurse(unsigned depth)
{
        volatile unsigned char frame[FRAME - 64];

        frame[0] = (unsigned char)depth;
        return depth > 1 ? recurse(depth - 1) + frame[0] : frame[0];
}

static int
recurse_once(void *context)
{
        const struct load *load = context;

        return recurse((unsigned)(load->size * 1024 / FRAME)) == 0; /* it never is */
}

static int
recurse_in_children(void *context)
{
        return run_children(context, recurse_once, context);
}

static int
recurse_in_one(void *context)
{
        const struct load *load = context;
        int failed = 0;

        for (size_t i = 0; i < load->count && !failed; i++)
                failed = recurse_once(context);
        return failed;
}

/* -- the cases -- */

struct way {
        const char *peer;
        weir_fiber_fn *root;
        const char *go; /* how the same is done in Go: NULL: not */
};

struct fiber_case {
        const char *name, *measure; /* what Go is told */
        size_t count, size;
        double goal;
        struct way ways[3]; /* the goal is for the first */
};

static const struct fiber_case cases[] = {
        {"create, run, end",
         "fibers",
         1000000,
         BATCH,
         0.5,
         {{"weir", start_children, "batches"}, {"weir, alone", start_alone, NULL}}},
        {"create, run, end, 100,000 at once", "fibers", 100000, 100000, 0.5, {{"weir", start_all_at_once, "batches"}}},
        {"a child that is awaited", "fibers", 1000000, 1, 0, {{"weir", await_children, "awaited"}}},
        {"yield, alone", "fibers", 2000000, 1, 1.1, {{"weir", take_turns, "yield"}}},
        {"yield, ten take turns", "fibers", 2000000, 10, 1.1, {{"weir", take_turns, "yield"}}},
        {"await of a ready task", "fibers", 2000000, 1, 2.0, {{"weir", await_ready, "yield"}}},
        {"ping-pong, a message", "channels", 1000000, 0, 0.7, {{"weir", ping_pong, "pingpong"}}},
        {"ping-pong with selects of two", "channels", 1000000, 0, 0, {{"weir", selects, "selects"}}},
        {"channel of 128, a message", "channels", 2000000, CAPACITY, 0.75, {{"weir", pipe_of_messages, "pipe"}}},
        {"recursion of 8 KB",
         "fibers",
         100000,
         8,
         0.1,
         {{"weir", recurse_in_children, "recursion"}, {"weir, one fiber", recurse_in_one, "deep"}}},
        {"recursion of 64 KB",
         "fibers",
         50000,
         64,
         0.1,
         {{"weir", recurse_in_children, "recursion"}, {"weir, one fiber", recurse_in_one, "deep"}}},
        {"recursion of 150 KB",
         "fibers",
         20000,
         150,
         0.1,
         {{"weir", recurse_in_children, "recursion"}, {"weir, one fiber", recurse_in_one, "deep"}}},
};

#define CASES (sizeof cases / sizeof *cases)
#define WAYS  3

struct trial {
        const struct fiber_case *of;
        const struct way *way;
};

/* A first run has the threads begun, and the stacks made. */
static bool
measure_way(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;
        size_t warm = trial->of->size > 1000 ? trial->of->size : 1000;
        struct load first = {.count = warm, .size = trial->of->size};
        struct load load = {.count = trial->of->count, .size = trial->of->size};

        if (weir_init(NULL) || !run_root(trial->way->root, &first))
                return false;
        int64_t began = bench_now(), cpu = bench_cpu();
        if (!run_root(trial->way->root, &load))
                return false;
        values[0] = (double)(bench_cpu() - cpu) / (double)trial->of->count;
        values[1] = (double)(bench_now() - began) / (double)trial->of->count;
        return true;
}

static void
sample(const char *peer, const char *name, double cpu, double elapsed)
{
        bench_sample(peer, name, BENCH_FIBER_CPU, cpu);
        bench_sample(peer, name, BENCH_FIBER_TIME, elapsed);
}

/* "go" for "weir", "go, one fiber" for "weir, one fiber". */
static const char *
go_peer(const struct way *way)
{
        static const char *const one = "go, one fiber";

        return strcmp(way->peer, "weir") == 0 ? "go" : one;
}

static void
measure(const struct fiber_case *of, const char *name)
{
        for (size_t i = 0; i < WAYS && of->ways[i].root; i++) {
                struct trial trial = {of, &of->ways[i]};
                struct bench_reading reading;
                double values[BENCH_VALUES];

                if (bench_isolated(name, measure_way, &trial, values, PATIENCE))
                        sample(trial.way->peer, name, values[0], values[1]);
                if (trial.way->go && bench_peer("go", &reading, PATIENCE, "%s how=%s count=%zu pending=%zu", of->measure,
                                                trial.way->go, of->count, of->size))
                        sample(go_peer(trial.way), name, reading.cpu, reading.elapsed);
        }
}

void
bench_fibers(const struct bench_size *size, bool one_cpu)
{
        char name[96];

        for (size_t i = 0; i < CASES; i++) {
                bench_fiber_name(name, cases[i].name, one_cpu);
                if (bench_wanted(size, name))
                        measure(&cases[i], name);
        }
}

void
bench_fibers_ratios(bool one_cpu)
{
        char name[96];

        for (size_t i = 0; i < CASES; i++) {
                bench_fiber_name(name, cases[i].name, one_cpu);
                bench_fiber_ratios("weir", name, cases[i].goal);
                if (cases[i].ways[1].root == start_alone)
                        bench_fiber_ratios("weir, alone", name, 0);
        }
}
