/* bench/peers/peer.c: the work of the peers' programs.
 *
 *     peer-NAME pairs how=hot|any|reset pending=N count=N mix=fixed|mixed|random
 *     peer-NAME memory pending=N mix=...
 *     peer-NAME firing count=N arming=NANOSECONDS over=NANOSECONDS
 *     peer-NAME blocking count=N period=NANOSECONDS blockers=N sleep=NANOSECONDS arming=... over=...
 *
 * Prints one value a line, after its name: "cpu 123.4".  ../README.md says what is measured.
 *
 * Threads: the main thread has the loop and does the work; a second one sleeps, for a process with one thread alone gets its
 *          mutexes cheaper than any program with timers of several threads could. */
#include "peers/peer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define SLICE 64 /* pairs in a callback */

static struct {
        const char *how, *mix;
        size_t pending, count, blockers;
        int64_t arming, over, period, sleep;
} work = {.how = "hot", .mix = "fixed", .pending = 1000, .count = 100000};

static uint64_t state = 1;
static size_t done;
static int64_t *due;            /* when each is to expire; firing: then how late it was */
static void (*expired)(size_t); /* NULL: nothing is to be done */

static int64_t
duration(void)
{
        static const int64_t mixed[] = PEER_MIXED;

        switch (work.mix[0]) {
        case 'r': return BENCH_NSEC_PER_SEC + (int64_t)bench_random_below(&state, 59000) * 1000000;
        case 'm': return mixed[bench_random_below(&state, sizeof mixed / sizeof *mixed)] * BENCH_NSEC_PER_SEC;
        default: return PEER_FIXED * BENCH_NSEC_PER_SEC;
        }
}

static void
populate(void)
{
        peer_update();
        for (size_t i = 0; i < work.pending; i++)
                peer_add(i, duration());
}

/* -- add and cancel -- */

static void
pair(void)
{
        size_t index = work.how[0] == 'h' ? work.pending : bench_random_below(&state, work.pending);

        switch (work.how[0]) {
        case 'h':
                peer_add(index, duration());
                peer_cancel(index);
                break;
        case 'a':
                peer_cancel(index);
                peer_add(index, duration());
                break;
        default: peer_reset(index, duration());
        }
}

static bool
make_slice(void)
{
        for (int i = 0; i < SLICE && done < work.count; i++, done++)
                pair();
        return done < work.count;
}

static void
measure_pairs(void)
{
        peer_open(work.pending + 1);
        populate();
        int64_t began = bench_now(), cpu = bench_cpu();
        peer_run(make_slice);
        peer_settle();
        printf("cpu %.6g\n", (double)(bench_cpu() - cpu) / (double)work.count);
        printf("elapsed %.6g\n", (double)(bench_now() - began) / (double)work.count);
}

static void
measure_memory(void)
{
        long before = bench_memory((int)getpid(), "VmRSS:");
        int64_t cpu = bench_cpu();

        peer_open(work.pending);
        populate();
        printf("cpu %.6g\n", (double)(bench_cpu() - cpu) / (double)work.pending);
        printf("bytes %.6g\n", (double)(bench_memory((int)getpid(), "VmRSS:") - before) * 1024 / (double)work.pending);
}

/* -- timers that expire -- */

void
peer_expired(size_t index)
{
        if (expired)
                expired(index);
}

static void
note_firing(size_t index)
{
        due[index] = bench_now() - due[index];
        if (++done == work.count)
                peer_stop();
}

/* All, to expire at even distances over that time; tells when the first one will. */
static int64_t
arm(int64_t over)
{
        int64_t first = bench_now() + work.arming;

        for (size_t i = 0; i < work.count; i++) {
                due[i] = first + (int64_t)((double)over * (double)i / (double)work.count);
                peer_update();
                peer_add(i, due[i] - bench_now());
        }
        if (bench_now() > first)
                fprintf(stderr, "bench: arming took too long\n");
        return first;
}

static void
measure_firing(void)
{
        size_t early = 0;

        due = malloc(work.count * sizeof *due);
        if (!due)
                abort();
        expired = note_firing;
        peer_open(work.count);
        arm(work.over);
        int64_t cpu = bench_cpu();
        peer_run(NULL);
        printf("cpu %.6g\n", (double)(bench_cpu() - cpu) / (double)work.count);
        for (size_t i = 0; i < work.count; i++)
                early += due[i] < 0;
        printf("p50 %.6g\n", (double)bench_quantile(due, work.count, 0.5) / 1000);
        printf("p99 %.6g\n", (double)bench_quantile(due, work.count, 0.99) / 1000);
        printf("early %zu\n", early);
}

/* -- periodic timers, while callbacks of others sleep -- */

static struct {
        int64_t blocked_from, end;
        int64_t worst[2]; /* before, and from then on */
} ticks;

static void
note_tick(size_t index)
{
        int64_t now = bench_now(), late = now - due[index];

        if (index >= work.count) {
                bench_sleep(work.sleep);
                return;
        }
        if (late > ticks.worst[now >= ticks.blocked_from])
                ticks.worst[now >= ticks.blocked_from] = late;
        if (now >= ticks.end)
                peer_stop();
        due[index] += work.period * (1 + late / work.period);
        peer_update();
        peer_add(index, due[index] - now);
}

static void
measure_blocking(void)
{
        int64_t window = work.sleep + work.over;

        due = calloc(work.count + work.blockers, sizeof *due);
        if (!due)
                abort();
        expired = note_tick;
        peer_open(work.count + work.blockers);
        ticks.blocked_from = arm(work.period) + window;
        ticks.end = ticks.blocked_from + window;
        for (size_t i = 0; i < work.blockers; i++)
                peer_add(work.count + i, ticks.blocked_from + 1000000 - bench_now());
        peer_run(NULL);
        printf("calm %.6g\n", (double)ticks.worst[0] / 1000);
        printf("blocked %.6g\n", (double)ticks.worst[1] / 1000);
}

/* -- main -- */

static void *
second_thread(void *unused)
{
        for (;;)
                bench_sleep(BENCH_NSEC_PER_SEC);
        return unused;
}

static void
set(const char *option)
{
        const char *value = strchr(option, '=');

        if (!value++)
                return;
        if (strncmp(option, "how=", 4) == 0)
                work.how = value;
        else if (strncmp(option, "mix=", 4) == 0)
                work.mix = value;
        else if (strncmp(option, "pending=", 8) == 0)
                work.pending = strtoul(value, NULL, 10);
        else if (strncmp(option, "count=", 6) == 0)
                work.count = strtoul(value, NULL, 10);
        else if (strncmp(option, "arming=", 7) == 0)
                work.arming = strtol(value, NULL, 10);
        else if (strncmp(option, "period=", 7) == 0)
                work.period = strtol(value, NULL, 10);
        else if (strncmp(option, "blockers=", 9) == 0)
                work.blockers = strtoul(value, NULL, 10);
        else if (strncmp(option, "sleep=", 6) == 0)
                work.sleep = strtol(value, NULL, 10);
        else if (strncmp(option, "over=", 5) == 0)
                work.over = strtol(value, NULL, 10);
}

int
main(int argc, char *argv[])
{
        pthread_t thread;

        for (int i = 2; i < argc; i++)
                set(argv[i]);
        if (pthread_create(&thread, NULL, second_thread, NULL))
                abort();
        if (argc > 1 && strcmp(argv[1], "pairs") == 0)
                measure_pairs();
        else if (argc > 1 && strcmp(argv[1], "memory") == 0)
                measure_memory();
        else if (argc > 1 && strcmp(argv[1], "firing") == 0)
                measure_firing();
        else if (argc > 1 && strcmp(argv[1], "blocking") == 0)
                measure_blocking();
        else
                return fprintf(stderr, "usage: %s pairs|memory|firing|blocking KEY=VALUE...\n", argv[0]), 2;
        fflush(stdout);
        _exit(0); /* what is still pending is not the measurement's business */
}
