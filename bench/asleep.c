/* bench/asleep.c: many fibers that sleep at once: what each takes to begin, to wake up, and in memory.
 *
 * "start": from the first one until all sleep.  "wake": from then on until all have ended.  "bytes": by which the resident set
 * has grown when all sleep; the tables of pages, which the kernel counts apart, are told apart.
 *
 * Threads: the fibers run on the pollers; they share two atomic counts.  One that fails, as for want of a stack, ends the process
 *          of the case, and so the case, as failed. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/fiber.h>
#include <weir/weir.h>

#include "bench.h"
#include "fiber.h"

#define PATIENCE 120 /* seconds for a case */
#define SLICE    1000
#define MEMORY   5632 /* bytes that a sleeping one may take: it has a page, and what else there is */
#define START    BENCH_FIBER_CPU ", start"
#define WAKE     BENCH_FIBER_CPU ", wake"
#define BYTES    "bytes of a sleeping one"
#define TABLES   "bytes of a sleeping one, tables of pages"

struct scale {
        const char *name;
        size_t count;
        int64_t sleep; /* from the first start; longer than it takes to start all */
};

static const struct scale scales[] = {
        {"100,000 asleep", 100000, 5 * BENCH_NSEC_PER_SEC},
        {"1,000,000 asleep", 1000000, 30 * BENCH_NSEC_PER_SEC},
};

#define SCALES (sizeof scales / sizeof *scales)

static struct {
        int64_t until; /* the one instant at which all are to wake, so that how fast they began matters to none */
        _Atomic size_t to_sleep, to_end;
        weir_channel *all_sleep, *all_ended;
        bool good; /* what the fibers found */
        double *values;
} run;

static char told[] = "told";

static void
count_down(_Atomic size_t *count, weir_channel *channel)
{
        if (atomic_fetch_sub(count, 1) == 1)
                weir_channel_post(channel, told);
}

static int
sleep_in_fiber(void *context)
{
        (void)context;
        count_down(&run.to_sleep, run.all_sleep);
        int failed = weir_fiber_sleep(run.until - bench_now());
        count_down(&run.to_end, run.all_ended);
        return failed;
}

static int
await_timer(void *context)
{
        (void)context;
        count_down(&run.to_sleep, run.all_sleep);
        int failed = weir_await(weir_timer_new(run.until - bench_now(), NULL, NULL));
        count_down(&run.to_end, run.all_ended);
        return failed;
}

static void
must_be_good(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        if (!status)
                return;
        fprintf(stderr, "bench: a fiber that was to sleep: %s\n", weir_strerror(status));
        _exit(1);
}

/* Go interrupts a goroutine that starts so many; a fiber lets others run. */
static int
start_all(size_t count, weir_fiber_fn *fiber, weir_group *group)
{
        int failed = 0;

        for (size_t i = 0; i < count && !failed; i++) {
                weir_task *task = weir_fiber_new_as("sleeper", fiber, must_be_good, NULL);

                failed = group ? weir_group_start(group, task) : weir_task_start(task);
                if (!failed && i % SLICE == SLICE - 1)
                        failed = weir_fiber_yield();
        }
        return failed;
}

struct way {
        const char *peer;
        weir_fiber_fn *fiber;
        bool in_group;
};

static const struct way ways[] = {
        {"weir", sleep_in_fiber, false},
        {"weir, in a group", sleep_in_fiber, true},
        {"weir, awaits a timer", await_timer, false},
};

#define WAYS (sizeof ways / sizeof *ways)

struct trial {
        const struct scale *scale;
        const struct way *way;
};

static double
kilobytes(const char *line)
{
        return (double)bench_memory(getpid(), line);
}

static int
measure_in_fiber(void *context)
{
        const struct trial *trial = context;
        size_t count = trial->scale->count;
        double resident = kilobytes("VmRSS:"), tables = kilobytes("VmPTE:");
        int64_t began = bench_now(), cpu = bench_cpu();
        weir_group *group = trial->way->in_group ? weir_group_open() : NULL;
        void *word;

        run.until = began + trial->scale->sleep;
        if (start_all(count, trial->way->fiber, group) || weir_fiber_receive(run.all_sleep, &word) ||
            weir_fiber_sleep(WEIR_MSEC(50)))
                return -1;
        run.values[0] = (double)(bench_cpu() - cpu) / (double)count;
        run.values[1] = (double)(bench_now() - began) / (double)count;
        if (bench_now() > run.until) {
                fprintf(stderr, "bench: the first one woke before the last one slept\n");
                return -1;
        }
        run.values[2] = (kilobytes("VmRSS:") - resident) * 1024 / (double)count;
        run.values[3] = (kilobytes("VmPTE:") - tables) * 1024 / (double)count;
        cpu = bench_cpu();
        if (weir_fiber_receive(run.all_ended, &word) || (group && weir_group_close(group)))
                return -1;
        run.values[4] = (double)(bench_cpu() - cpu) / (double)count;
        run.good = true;
        return 0;
}

static bool
measure_crowd(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;

        if (weir_init(NULL))
                return false;
        run.to_sleep = run.to_end = trial->scale->count;
        run.all_sleep = weir_channel_new(1, NULL);
        run.all_ended = weir_channel_new(1, NULL);
        run.values = values;
        return weir_task_run(weir_fiber_new(measure_in_fiber, NULL, (void *)trial)) == 0 && run.good;
}

static void
sample(const char *peer, const char *name, double start, double elapsed, double wake, double bytes)
{
        bench_sample(peer, name, START, start);
        bench_sample(peer, name, BENCH_FIBER_TIME ", start", elapsed);
        bench_sample(peer, name, WAKE, wake);
        bench_sample(peer, name, BYTES, bytes);
}

/* A host may give a virtual machine its memory only when that is touched.  The first process to touch it would pay for that. */
static void
have_memory(size_t size)
{
        pid_t child = fork();

        if (child > 0)
                waitpid(child, NULL, 0);
        if (child)
                return;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1,
                            0);
        _exit(memory == MAP_FAILED);
}

static void
measure(const struct scale *scale, const char *name, size_t way_count)
{
        struct bench_reading reading;
        double values[BENCH_VALUES];

        for (size_t i = 0; i < way_count; i++) {
                struct trial trial = {scale, &ways[i]};

                have_memory(scale->count * MEMORY);
                if (!bench_isolated(name, measure_crowd, &trial, values, PATIENCE))
                        continue;
                sample(ways[i].peer, name, values[0], values[1], values[4], values[2]);
                bench_sample(ways[i].peer, name, TABLES, values[3]);
        }
        have_memory(scale->count * MEMORY);
        if (bench_peer("go", &reading, PATIENCE, "asleep count=%zu sleep=%lld", scale->count, (long long)scale->sleep))
                sample("go", name, reading.cpu, reading.elapsed, reading.wake, reading.bytes);
}

/* A million takes 5 GB. */
static bool
is_roomy(void)
{
        return sysconf(_SC_AVPHYS_PAGES) / 1024 * (sysconf(_SC_PAGESIZE) / 1024) > 6L * 1024;
}

void
bench_asleep(const struct bench_size *size, bool one_cpu, bool is_last)
{
        char name[96];

        for (size_t i = 0; i < SCALES; i++) {
                bool is_large = i > 0;

                bench_fiber_name(name, scales[i].name, one_cpu);
                if (bench_wanted(size, name) && (!is_large || (is_last && !size->quick && is_roomy())))
                        measure(&scales[i], name, is_large ? 1 : WAYS);
        }
}

static void
tell_ratios(const char *name)
{
        static const struct {
                const char *metric;
                double goal;
        } goals[] = {{START, 1.5}, {WAKE, 1.0}, {BYTES, 1.7}};
        char ratio[96];

        for (size_t i = 0; i < sizeof goals / sizeof *goals; i++) {
                for (size_t j = 0; j < WAYS; j++)
                        bench_ratio(ways[j].peer, "go", name, goals[i].metric);
                snprintf(ratio, sizeof ratio, "ratio to go, %s", goals[i].metric);
                bench_goal("weir", name, ratio, goals[i].goal);
        }
}

void
bench_asleep_ratios(bool one_cpu)
{
        char name[96];

        for (size_t i = 0; i < SCALES; i++) {
                bench_fiber_name(name, scales[i].name, one_cpu);
                tell_ratios(name);
        }
}
