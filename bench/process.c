/* bench/process.c: /bin/true, started and waited for, beside posix_spawn and waitid in a loop.
 *
 * Threads: the main thread starts the first programs and waits; a callback starts the next one.  The loop is one thread. */
#include <fcntl.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/process.h>
#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS   7
#define PATIENCE 60 /* seconds for a case */
#define CPU_TIME "CPU us per program"
#define OWN_TIME "CPU us per program, of the caller alone"
#define TIME     "us per program"
#define PROGRAM  "/bin/true"
#define LOOP     "posix_spawn and waitid"
#define MOST     1.1

extern char **environ;

struct trial {
        size_t count;
        unsigned at_once;
        bool has_output; /* it is read */
};

static const struct {
        const char *name;
        struct trial trial;
} cases[] = {
        {"one after the other", {1500, 1, false}},
        {"one after the other, with its output", {1500, 1, true}},
        {"eight at once", {3000, 8, false}},
};

#define CASES (sizeof cases / sizeof *cases)

/* -- what is measured -- */

struct reading {
        int64_t now, own, programs;
};

/* CPU time of programs that were waited for. */
static int64_t
cpu_of_programs(void)
{
        struct rusage usage;

        getrusage(RUSAGE_CHILDREN, &usage);
        return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * BENCH_NSEC_PER_SEC +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static struct reading
read_clocks(void)
{
        return (struct reading){bench_now(), bench_cpu(), cpu_of_programs()};
}

static void
write_values(double values[BENCH_VALUES], const struct reading *began, size_t count)
{
        struct reading ended = read_clocks();

        values[0] = (double)(ended.own - began->own + ended.programs - began->programs) / 1e3 / (double)count;
        values[1] = (double)(ended.own - began->own) / 1e3 / (double)count;
        values[2] = (double)(ended.now - began->now) / 1e3 / (double)count;
}

/* -- weir -- */

static _Atomic size_t to_start, to_end;
static bool has_output; /* written before the first start */
static sem_t over;

static void start_one(void);

static void
ended(weir_task *process, void *context)
{
        (void)context;
        if (weir_task_status(process) != 0)
                _exit(1);
        start_one();
        if (atomic_fetch_sub(&to_end, 1) == 1)
                sem_post(&over);
}

static void
start_one(void)
{
        size_t left = atomic_load(&to_start);

        do
                if (left == 0)
                        return;
        while (!atomic_compare_exchange_weak(&to_start, &left, left - 1));
        weir_task *process = weir_command_new(ended, NULL, PROGRAM, NULL);
        if (!has_output)
                weir_process_set_fd(process, STDOUT_FILENO, WEIR_PROCESS_NOTHING);
        if (weir_task_start(process))
                _exit(1);
}

static bool
measure_weir(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;

        if (weir_init(NULL) || sem_init(&over, 0, 0) || weir_task_run(weir_command_new(NULL, NULL, PROGRAM, NULL)))
                return false;
        has_output = trial->has_output;
        to_start = to_end = trial->count;
        struct reading began = read_clocks();
        for (unsigned i = 0; i < trial->at_once; i++)
                start_one();
        while (sem_wait(&over))
                ;
        write_values(values, &began, trial->count);
        return true;
}

/* -- the loop -- */

static void
spawn(posix_spawn_file_actions_t *actions)
{
        char *argv[] = {(char[]){PROGRAM}, NULL};
        pid_t pid;

        if (posix_spawn(&pid, PROGRAM, actions, NULL, argv, environ))
                _exit(1);
}

/* What weir does: nothing to read, and a pipe or nothing to write to. */
static void
spawn_plain(void)
{
        posix_spawn_file_actions_t actions;

        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        spawn(&actions);
        posix_spawn_file_actions_destroy(&actions);
}

static void
spawn_and_read(void)
{
        posix_spawn_file_actions_t actions;
        char bytes[4096];
        int ends[2];

        if (pipe2(ends, O_CLOEXEC))
                _exit(1);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        spawn(&actions);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        while (read(ends[0], bytes, sizeof bytes) > 0)
                ;
        close(ends[0]);
}

static bool
measure_loop(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;
        size_t started = 0;
        siginfo_t info;
        struct reading began = read_clocks();

        for (size_t done = 0; done < trial->count; done++) {
                for (; started < trial->count && started - done < trial->at_once; started++) {
                        if (trial->has_output)
                                spawn_and_read();
                        else
                                spawn_plain();
                }
                if (waitid(P_ALL, 0, &info, WEXITED))
                        return false;
        }
        write_values(values, &began, trial->count);
        return true;
}

/* -- all -- */

static void
measure(const char *peer, bench_fn *fn, size_t at)
{
        double values[BENCH_VALUES];

        if (!bench_isolated(cases[at].name, fn, &cases[at].trial, values, PATIENCE))
                return;
        bench_sample(peer, cases[at].name, CPU_TIME, values[0]);
        bench_sample(peer, cases[at].name, OWN_TIME, values[1]);
        bench_sample(peer, cases[at].name, TIME, values[2]);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++) {
                for (size_t i = 0; i < CASES; i++) {
                        if (!bench_wanted(&size, cases[i].name))
                                continue;
                        measure(LOOP, measure_loop, i);
                        measure("weir", measure_weir, i);
                }
        }
        for (size_t i = 0; i < CASES; i++) {
                bench_ratio("weir", LOOP, cases[i].name, CPU_TIME);
                bench_ratio("weir", LOOP, cases[i].name, OWN_TIME);
                bench_ratio("weir", LOOP, cases[i].name, TIME);
                bench_goal("weir", cases[i].name, "ratio to " LOOP ", " CPU_TIME, MOST);
                bench_goal("weir", cases[i].name, "ratio to " LOOP ", " TIME, MOST);
        }
        bench_sample("machine", "process", "CPU used by others, percent of one", bench_others());
        bench_print("process");
        return bench_interrupted();
}
