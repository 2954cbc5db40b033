/* bench/bench.c: what the measuring programs share.
 *
 * Threads: results and cases belong to the main thread of a measuring program, which has no other; clocks and numbers to any. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 16
#define TEXT_SIZE  96

/* -- clocks and numbers -- */

void
bench_sleep(int64_t nanoseconds)
{
        struct timespec time = {.tv_sec = nanoseconds / BENCH_NSEC_PER_SEC, .tv_nsec = nanoseconds % BENCH_NSEC_PER_SEC};

        nanosleep(&time, NULL);
}

static int
compare_integers(const void *one, const void *other)
{
        int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

        return (a > b) - (a < b);
}

int64_t
bench_quantile(int64_t *values, size_t count, double part)
{
        if (count == 0)
                return 0;
        qsort(values, count, sizeof *values, compare_integers);
        size_t index = (size_t)(part * (double)count);
        return values[index < count ? index : count - 1];
}

long
bench_memory(int pid, const char *line)
{
        char path[64], text[256];
        long kilobytes = 0;

        snprintf(path, sizeof path, "/proc/%d/status", pid);
        FILE *file = fopen(path, "re");
        if (!file)
                return 0;
        while (fgets(text, sizeof text, file))
                if (strncmp(text, line, strlen(line)) == 0)
                        kilobytes = strtol(text + strlen(line), NULL, 10);
        fclose(file);
        return kilobytes;
}

/* -- results -- */

static struct result {
        char peer[TEXT_SIZE], name[TEXT_SIZE], metric[TEXT_SIZE];
        double values[ROUNDS_MAX]; /* in the order of the rounds */
        unsigned count;
} * results;

static size_t result_count, printed_count;

static struct result *
find_result(const char *peer, const char *name, const char *metric)
{
        for (size_t i = 0; i < result_count; i++)
                if (strcmp(results[i].peer, peer) == 0 && strcmp(results[i].name, name) == 0 &&
                    strcmp(results[i].metric, metric) == 0)
                        return &results[i];
        return NULL;
}

static struct result *
add_result(const char *peer, const char *name, const char *metric)
{
        struct result *larger = realloc(results, (result_count + 1) * sizeof *results);

        if (!larger) {
                perror("bench");
                exit(1);
        }
        results = larger;
        struct result *result = &results[result_count++];
        memset(result, 0, sizeof *result);
        snprintf(result->peer, sizeof result->peer, "%s", peer);
        snprintf(result->name, sizeof result->name, "%s", name);
        snprintf(result->metric, sizeof result->metric, "%s", metric);
        return result;
}

void
bench_sample(const char *peer, const char *name, const char *metric, double value)
{
        struct result *result = find_result(peer, name, metric);

        if (!result)
                result = add_result(peer, name, metric);
        if (result->count < ROUNDS_MAX)
                result->values[result->count++] = value;
}

void
bench_ratio(const char *peer, const char *other, const char *name, const char *metric)
{
        const struct result *mine = find_result(peer, name, metric), *theirs = find_result(other, name, metric);
        double ratios[ROUNDS_MAX];
        unsigned count = 0;
        char text[TEXT_SIZE];

        for (; mine && theirs && count < mine->count && count < theirs->count; count++)
                ratios[count] = theirs->values[count] > 0 ? mine->values[count] / theirs->values[count] : 0;
        snprintf(text, sizeof text, "ratio to %s, %.60s", other, metric);
        for (unsigned i = 0; i < count; i++)
                bench_sample(peer, name, text, ratios[i]);
}

void
bench_goal(const char *peer, const char *name, const char *metric, double most)
{
        if (find_result(peer, name, metric))
                bench_sample("goal", name, metric, most);
}

static int
compare_values(const void *one, const void *other)
{
        double a = *(const double *)one, b = *(const double *)other;

        return (a > b) - (a < b);
}

static void
print_line(const char *bench, const struct result *result, const char *suffix, double value)
{
        printf("{\"bench\": \"%s\", \"peer\": \"%s\", \"case\": \"%s\", \"metric\": \"%s%s\", \"value\": %.6g}\n", bench,
               result->peer, result->name, result->metric, suffix, value);
}

void
bench_print(const char *bench)
{
        for (; printed_count < result_count; printed_count++) {
                struct result *result = &results[printed_count];
                unsigned count = result->count;
                double sorted[ROUNDS_MAX];

                memcpy(sorted, result->values, sizeof sorted);
                qsort(sorted, count, sizeof *sorted, compare_values);
                double median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
                print_line(bench, result, "", median);
                if (count > 1) {
                        print_line(bench, result, " (min)", sorted[0]);
                        print_line(bench, result, " (max)", sorted[count - 1]);
                }
        }
        fflush(stdout);
}

/* -- running -- */

static volatile sig_atomic_t interrupted;

static struct {
        int64_t at, busy;
} begun;

static void
on_signal(int number)
{
        (void)number;
        interrupted = 1;
}

bool
bench_interrupted(void)
{
        return interrupted;
}

bool
bench_is_alone(void)
{
        const char *value = getenv("BENCH_ALONE");

        return value && strcmp(value, "yes") == 0;
}

int64_t
bench_machine_busy(void)
{
        enum { IDLE = 3, WAITING = 4, FIELDS = 8 };
        long long ticks, sum = 0;
        FILE *file = fopen("/proc/stat", "re");

        if (!file)
                return 0;
        bool good = fscanf(file, "cpu") == 0;
        for (int i = 0; good && i < FIELDS && fscanf(file, "%lld", &ticks) == 1; i++)
                if (i != IDLE && i != WAITING)
                        sum += ticks;
        fclose(file);
        return sum * (BENCH_NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

static int64_t
usage_of(int who)
{
        struct rusage usage;

        getrusage(who, &usage);
        return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * BENCH_NSEC_PER_SEC +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

void
bench_begin(void)
{
        struct sigaction action = {.sa_handler = on_signal};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        begun.at = bench_now();
        begun.busy = bench_machine_busy();
}

double
bench_others(void)
{
        int64_t others = bench_machine_busy() - begun.busy - usage_of(RUSAGE_SELF) - usage_of(RUSAGE_CHILDREN);
        int64_t elapsed = bench_now() - begun.at;

        return others > 0 && elapsed > 0 ? 100.0 * (double)others / (double)elapsed : 0;
}

void
bench_follow_parent(int parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
}

static void
run_child(int parent, bench_fn *fn, const void *argument, int out, unsigned seconds)
{
        double values[BENCH_VALUES] = {0};

        bench_follow_parent(parent);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        alarm(seconds);
        bool good = fn(argument, values) && write(out, values, sizeof values) == (ssize_t)sizeof values;
        _exit(good ? 0 : 1); /* what is still pending is not the measurement's business */
}

/* Waits for the child, which its own alarm ends when it hangs. */
static bool
collect(pid_t pid, int in, double values[BENCH_VALUES])
{
        ssize_t size = read(in, values, sizeof(double) * BENCH_VALUES);
        int status = 0;

        do {
                if (interrupted)
                        kill(pid, SIGKILL);
        } while (waitpid(pid, &status, 0) < 0 && errno == EINTR);
        return size == (ssize_t)sizeof(double) * BENCH_VALUES && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool
bench_isolated(const char *what, bench_fn *fn, const void *argument, double values[BENCH_VALUES], unsigned seconds)
{
        int ends[2], parent = getpid();

        if (interrupted || pipe(ends) < 0)
                return false;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                close(ends[0]);
                run_child(parent, fn, argument, ends[1], seconds);
        }
        close(ends[1]);
        bool good = pid > 0 && collect(pid, ends[0], values);
        close(ends[0]);
        if (!good && !interrupted)
                fprintf(stderr, "bench: \"%s\" failed\n", what);
        return good;
}
