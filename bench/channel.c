/* bench/channel.c: what a message through a channel costs, sent and received, in weir and in Go.
 *
 *     channel [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, with the runtime as it is by default: on one CPU, or on all.  Callbacks of one
 *          flow touch it one after another. */
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"
#include "peers.h"

#define ROUNDS   9
#define PATIENCE 30 /* seconds for a case */
#define CPU_TIME "CPU ns per message"
#define TIME     "ns per message"
#define CAPACITY 128

static char message[] = "a message"; /* one for all: nobody frees it */

struct flow {
        weir_channel *in, *out;
        size_t left; /* to be received, or sent */
        bool begins; /* so the last one is not sent back */
};

static weir_series *
series_of(weir_task *first)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, first);
        return series;
}

/* Both at once, until both have ended. */
static bool
run_both(weir_series *one, weir_series *other)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add_series(parallel, one);
        weir_parallel_add_series(parallel, other);
        return weir_task_run(parallel) == 0;
}

/* -- ping-pong: what one receives it sends back -- */

static void
on_ball(weir_task *task, void *context)
{
        struct flow *flow = context;
        weir_series *series = weir_series_of(task);

        flow->left--;
        if (flow->left > 0 || !flow->begins)
                weir_series_push(series, weir_channel_send_new(flow->out, weir_channel_take_message(task), NULL, NULL));
        if (flow->left > 0)
                weir_series_push(series, weir_channel_receive_new(flow->in, on_ball, flow));
}

static bool
ping_pong(size_t count)
{
        weir_channel *there = weir_channel_new(0, NULL), *back = weir_channel_new(0, NULL);
        struct flow server = {back, there, count / 2, true}, other = {there, back, count / 2, false};
        weir_series *serves = series_of(weir_channel_send_new(there, message, NULL, NULL));

        weir_series_push(serves, weir_channel_receive_new(back, on_ball, &server));
        bool good = run_both(serves, series_of(weir_channel_receive_new(there, on_ball, &other)));
        weir_channel_unref(there);
        weir_channel_unref(back);
        return good && server.left + other.left == 0;
}

/* -- the same, but each looks out for a second channel as well, which nobody sends to -- */

static weir_channel *never;

static void on_either(weir_task *select, void *context);

static weir_task *
new_select(struct flow *flow)
{
        weir_task *select = weir_select_new(on_either, flow);

        weir_select_receive(select, never);
        weir_select_receive(select, flow->in);
        return select;
}

static void
on_either(weir_task *select, void *context)
{
        struct flow *flow = context;
        weir_series *series = weir_series_of(select);

        flow->left--;
        if (flow->left > 0 || !flow->begins)
                weir_series_push(series, weir_channel_send_new(flow->out, weir_channel_take_message(select), NULL, NULL));
        if (flow->left > 0)
                weir_series_push(series, new_select(flow));
}

static bool
selects(size_t count)
{
        weir_channel *there = weir_channel_new(0, NULL), *back = weir_channel_new(0, NULL);
        struct flow server = {back, there, count / 2, true}, other = {there, back, count / 2, false};
        weir_series *serves = series_of(weir_channel_send_new(there, message, NULL, NULL));

        never = weir_channel_new(0, NULL);
        weir_series_push(serves, new_select(&server));
        bool good = run_both(serves, series_of(new_select(&other)));
        weir_channel_unref(never);
        weir_channel_unref(there);
        weir_channel_unref(back);
        return good && server.left + other.left == 0;
}

/* -- a pipe -- */

static void
on_sent(weir_task *task, void *context)
{
        struct flow *flow = context;

        if (--flow->left > 0)
                weir_series_push(weir_series_of(task), weir_channel_send_new(flow->out, message, on_sent, flow));
        else
                weir_channel_close(flow->out);
}

static void
on_received(weir_task *task, void *context)
{
        struct flow *flow = context;

        if (weir_task_status(task))
                return;
        flow->left--;
        weir_series_push(weir_series_of(task), weir_channel_receive_new(flow->in, on_received, flow));
}

static bool
pipe_of_tasks(size_t count)
{
        weir_channel *channel = weir_channel_new(CAPACITY, NULL);
        struct flow from = {NULL, channel, count, true}, to = {channel, NULL, count, false};
        bool good = run_both(series_of(weir_channel_send_new(channel, message, on_sent, &from)),
                             series_of(weir_channel_receive_new(channel, on_received, &to)));

        weir_channel_unref(channel);
        return good && from.left + to.left == 0;
}

/* The same, in which a task is made only for what has to wait. */
static void
on_place(weir_task *task, void *context)
{
        struct flow *flow = context;

        for (flow->left--; flow->left > 0 && weir_channel_post(flow->out, message) == 0; flow->left--)
                continue;
        if (flow->left > 0)
                weir_series_push(weir_series_of(task), weir_channel_send_new(flow->out, message, on_place, flow));
        else
                weir_channel_close(flow->out);
}

static void
on_some(weir_task *task, void *context)
{
        struct flow *flow = context;
        void *next;

        if (weir_task_status(task))
                return;
        for (flow->left--; weir_channel_poll(flow->in, &next) == 0; flow->left--)
                continue;
        weir_series_push(weir_series_of(task), weir_channel_receive_new(flow->in, on_some, flow));
}

static bool
pipe_with_polls(size_t count)
{
        weir_channel *channel = weir_channel_new(CAPACITY, NULL);
        struct flow from = {NULL, channel, count, true}, to = {channel, NULL, count, false};
        bool good = run_both(series_of(weir_channel_send_new(channel, message, on_place, &from)),
                             series_of(weir_channel_receive_new(channel, on_some, &to)));

        weir_channel_unref(channel);
        return good && from.left + to.left == 0;
}

/* -- a thread of the program posts -- */

static sem_t over;

static void
on_end(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        sem_post(&over);
}

static bool
posts(size_t count, weir_task_fn *received)
{
        weir_channel *channel = weir_channel_new(count, NULL);
        struct flow to = {channel, NULL, count, false};
        weir_series *series = weir_series_new(on_end, NULL);

        weir_series_push(series, weir_channel_receive_new(channel, received, &to));
        if (sem_init(&over, 0, 0) || weir_series_start(series))
                return false;
        for (size_t i = 0; i < count; i++)
                if (weir_channel_post(channel, message))
                        return false;
        weir_channel_close(channel);
        while (sem_wait(&over))
                continue;
        weir_channel_unref(channel);
        return to.left == 0;
}

static bool
posts_to_tasks(size_t count)
{
        return posts(count, on_received);
}

static bool
posts_to_polls(size_t count)
{
        return posts(count, on_some);
}

/* -- the cases -- */

struct way {
        const char *peer;
        bool (*run)(size_t count);
};

struct shape {
        const char *name, *how; /* what Go is told */
        size_t count, capacity; /* of Go's channel */
        struct way ways[2];
};

static const struct shape shapes[] = {
        {"ping-pong", "pingpong", 1000000, 0, {{"weir", ping_pong}}},
        {"ping-pong with selects", "selects", 1000000, 0, {{"weir", selects}}},
        {"pipe of 128", "pipe", 1000000, CAPACITY, {{"weir", pipe_of_tasks}, {"weir, with post and poll", pipe_with_polls}}},
        {"posts of a thread",
         "foreign",
         1000000,
         1000000,
         {{"weir", posts_to_tasks}, {"weir, with post and poll", posts_to_polls}}},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

struct run {
        const struct shape *shape;
        const struct way *way;
};

static bool
measure_way(const void *argument, double values[BENCH_VALUES])
{
        const struct run *run = argument;

        if (weir_init(NULL) || !run->way->run(1000)) /* its threads have begun */
                return false;
        int64_t began = bench_now(), cpu = bench_cpu();
        if (!run->way->run(run->shape->count))
                return false;
        values[0] = (double)(bench_cpu() - cpu) / (double)run->shape->count;
        values[1] = (double)(bench_now() - began) / (double)run->shape->count;
        return true;
}

static void
name_case(char name[64], const struct shape *shape, bool one_cpu)
{
        snprintf(name, 64, "%s, %s", shape->name, one_cpu ? "one CPU" : "all CPUs");
}

static void
measure(const struct bench_size *size, const struct shape *shape, bool one_cpu)
{
        struct bench_reading reading;
        double values[BENCH_VALUES];
        char name[64];

        name_case(name, shape, one_cpu);
        if (!bench_wanted(size, name))
                return;
        for (size_t i = 0; i < 2 && shape->ways[i].run; i++) {
                struct run run = {shape, &shape->ways[i]};

                if (!bench_isolated(name, measure_way, &run, values, PATIENCE))
                        continue;
                bench_sample(run.way->peer, name, CPU_TIME, values[0]);
                bench_sample(run.way->peer, name, TIME, values[1]);
        }
        if (bench_peer("go", &reading, PATIENCE, "channels how=%s count=%zu pending=%zu", shape->how, shape->count,
                       shape->capacity)) {
                bench_sample("go", name, CPU_TIME, reading.cpu);
                bench_sample("go", name, TIME, reading.elapsed);
        }
}

static void
tell_ratios(const struct shape *shape, bool one_cpu)
{
        char name[64];

        name_case(name, shape, one_cpu);
        for (size_t i = 0; i < 2 && shape->ways[i].run; i++) {
                bench_ratio(shape->ways[i].peer, "go", name, CPU_TIME);
                bench_ratio(shape->ways[i].peer, "go", name, TIME);
        }
        /* A pair of calls that need not wait is no match for two tasks. */
        bench_goal(shape->ways[shape->ways[1].run ? 1 : 0].peer, name, "ratio to go, " CPU_TIME, 1);
}

/* A round on the first of the CPUs, and one on all: what is run now inherits that. */
static void
measure_all(const struct bench_size *size, const cpu_set_t *all, bool one_cpu)
{
        cpu_set_t one;
        int first = 0;

        while (!CPU_ISSET(first, all))
                first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        sched_setaffinity(0, sizeof *all, one_cpu ? &one : all);
        for (size_t i = 0; i < SHAPES; i++)
                measure(size, &shapes[i], one_cpu);
        sched_setaffinity(0, sizeof *all, all);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);
        cpu_set_t all;

        bench_begin();
        if (sched_getaffinity(0, sizeof all, &all))
                return 1;
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++) {
                measure_all(&size, &all, true);
                measure_all(&size, &all, false);
        }
        for (size_t i = 0; i < SHAPES; i++) {
                tell_ratios(&shapes[i], true);
                tell_ratios(&shapes[i], false);
        }
        bench_peers_missing();
        bench_sample("machine", "channel", "CPU used by others, percent of one", bench_others());
        bench_print("channel");
        return bench_interrupted();
}
