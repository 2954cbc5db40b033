/* bench/fd.c: what a wait for a descriptor costs by weir/fd.h, beside the bare calls of epoll.
 *
 *     fd [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, with the runtime as it is by default: on one CPU, or on all.  Each descriptor
 *          has a flow of its own, in callbacks.  The bare calls are made by one thread. */
#include <sched.h>
#include <stdatomic.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS   9
#define PATIENCE 30 /* seconds for a case */
#define COUNT    400000
#define MOST     64 /* descriptors */
#define CPU_TIME "CPU ns per wait"
#define TIME     "ns per wait"

static int descriptors[MOST]; /* eventfds that are always readable */

static bool
open_descriptors(unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                if ((descriptors[i] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
                        return false;
        return true;
}

/* -- weir -- */

struct flow {
        weir_fd *fd;
        int number;  /* of the descriptor */
        bool stays;  /* registered */
        size_t left; /* waits */
        size_t failed;
};

static struct flow flows[MOST];
static _Atomic unsigned running;
static sem_t over;

static void on_readable(weir_task *task, void *context);

static void
wait_once(struct flow *flow)
{
        if (!flow->fd)
                flow->fd = weir_fd_new(flow->number);
        if (weir_task_start(weir_fd_readable_new(flow->fd, on_readable, flow)) && atomic_fetch_sub(&running, 1) == 1)
                sem_post(&over);
}

static void
on_readable(weir_task *task, void *context)
{
        struct flow *flow = context;

        flow->failed += weir_task_status(task) != 0;
        if (!flow->stays || flow->left == 1) {
                weir_fd_forget(flow->fd);
                flow->fd = NULL;
        }
        if (--flow->left > 0)
                wait_once(flow);
        else if (atomic_fetch_sub(&running, 1) == 1)
                sem_post(&over);
}

static bool
wait_by_weir(unsigned count, bool stay, size_t waits)
{
        bool good = true;

        atomic_store(&running, count);
        for (unsigned i = 0; i < count; i++) {
                flows[i] = (struct flow){.number = descriptors[i], .stays = stay, .left = waits / count};
                wait_once(&flows[i]);
        }
        while (sem_wait(&over))
                continue;
        for (unsigned i = 0; i < count; i++)
                good = good && flows[i].left == 0 && flows[i].failed == 0;
        return good;
}

/* -- the bare calls: register, wait for all, forget; or ask anew, and wait for all -- */

static bool
control(int epoll, int operation, unsigned i)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = i};

        return epoll_ctl(epoll, operation, descriptors[i], &event) == 0;
}

static bool
wait_barely(int epoll, unsigned count, int before, int after)
{
        struct epoll_event events[MOST];
        bool good = true;

        for (unsigned i = 0; i < count; i++)
                good &= control(epoll, before, i);
        for (unsigned seen = 0; seen < count && good;) {
                int ready = epoll_wait(epoll, events, MOST, -1);

                for (int i = 0; i < ready && after; i++)
                        good &= control(epoll, after, events[i].data.u32);
                seen += (unsigned)ready;
        }
        return good;
}

static bool
wait_by_epoll(unsigned count, bool stay, size_t waits)
{
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        bool good = epoll >= 0;

        for (unsigned i = 0; stay && i < count; i++)
                good &= control(epoll, EPOLL_CTL_ADD, i);
        for (size_t i = 0; i < waits / count && good; i++)
                good = stay ? wait_barely(epoll, count, EPOLL_CTL_MOD, 0)
                            : wait_barely(epoll, count, EPOLL_CTL_ADD, EPOLL_CTL_DEL);
        close(epoll);
        return good;
}

/* -- the cases -- */

struct shape {
        const char *name;
        unsigned count; /* descriptors */
        bool stays;     /* each is registered once */
        double goal;    /* at most, of the bare calls; 0: none */
};

static const struct shape shapes[] = {
        {"register, wait, forget, 1 at once", 1, false, 1.2},
        {"register, wait, forget, 64 at once", 64, false, 1.2},
        {"wait again, 1 at once", 1, true, 0},
        {"wait again, 64 at once", 64, true, 0},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

typedef bool wait_fn(unsigned count, bool stay, size_t waits);

static const struct way {
        const char *peer;
        wait_fn *run;
} ways[] = {{"weir", wait_by_weir}, {"epoll", wait_by_epoll}};

#define WAYS (sizeof ways / sizeof *ways)

struct run {
        const struct shape *shape;
        const struct way *way;
};

static bool
measure_way(const void *argument, double values[BENCH_VALUES])
{
        const struct run *run = argument;
        const struct shape *shape = run->shape;

        if (weir_init(NULL) || sem_init(&over, 0, 0) || !open_descriptors(shape->count))
                return false;
        if (!run->way->run(shape->count, shape->stays, 1000)) /* its threads have begun */
                return false;
        int64_t began = bench_now(), cpu = bench_cpu();
        if (!run->way->run(shape->count, shape->stays, COUNT))
                return false;
        values[0] = (double)(bench_cpu() - cpu) / COUNT;
        values[1] = (double)(bench_now() - began) / COUNT;
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
        double values[BENCH_VALUES];
        char name[64];

        name_case(name, shape, one_cpu);
        if (!bench_wanted(size, name))
                return;
        for (size_t i = 0; i < WAYS; i++) {
                struct run run = {shape, &ways[i]};

                if (!bench_isolated(name, measure_way, &run, values, PATIENCE))
                        continue;
                bench_sample(run.way->peer, name, CPU_TIME, values[0]);
                bench_sample(run.way->peer, name, TIME, values[1]);
        }
}

static void
tell_ratios(const struct shape *shape, bool one_cpu)
{
        char name[64];

        name_case(name, shape, one_cpu);
        bench_ratio("weir", "epoll", name, CPU_TIME);
        bench_ratio("weir", "epoll", name, TIME);
        if (shape->goal > 0)
                bench_goal("weir", name, "ratio to epoll, " CPU_TIME, shape->goal);
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
        bench_sample("machine", "fd", "CPU used by others, percent of one", bench_others());
        bench_print("fd");
        return bench_interrupted();
}
