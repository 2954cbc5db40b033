/* bench/pairs.c: add and cancel, with N timers pending.
 *
 * "hot" cancels the timer that was just added; "any" cancels a random one of the N and arms it anew.  A pair is over when the
 * callback of the cancelled timer has run, so the clock stops when all have.  The calls come from a callback (on a worker, SLICE
 * pairs at a time, so that the callbacks have their turn) or from a thread that is none of the library's.
 *
 * Threads: `run` is touched by the thread that makes the pairs only, and by the main thread before and after. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "peers/wheel.h"
#include "timers.h"

#define SLICE    64
#define BACKLOG  16384 /* callbacks that a foreign thread lets pile up before it gives the workers time */
#define PATIENCE 20    /* seconds for a case */

enum kind {
        NAMED,  /* weir_timer_new_named, weir_timer_cancel */
        SERIES, /* an unnamed timer in a series, weir_series_cancel */
        LONE,   /* an unnamed timer without a series: it can only be added */
        WHEEL,  /* the floor */
};

enum place { CALLBACK, FOREIGN, APART };

struct pairs {
        char name[96];
        enum kind kind;
        enum place place;
        size_t pending, count;
        bool any, random;
};

static struct {
        const struct pairs *pairs;
        uint64_t random;
        weir_series **series;
        struct wheel_timer *wheel;
        size_t done, ended_before;
        int64_t cpu, began;
        sem_t finished;
        _Atomic size_t published; /* APART: timers added, release */
} run;

static void
on_end(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        bench_count();
}

static void
on_wheel_end(void *context)
{
        (void)context;
        bench_count();
}

/* "user-0123abc": twelve characters, written faster than any printf would. */
static const char *
name_of(char text[16], uint32_t number)
{
        memcpy(text, "user-0000000", 13);
        for (int i = 11; i >= 5; i--, number >>= 4)
                text[i] = "0123456789abcdef"[number & 15];
        return text;
}

static weir_nsec
duration(void)
{
        if (!run.pairs->random)
                return WEIR_SEC(60);
        return WEIR_SEC(1) + (weir_nsec)(bench_random_below(&run.random, 59000) * 1000000);
}

/* -- one timer: number `index` -- */

static void
add(size_t index)
{
        char text[16];
        weir_task *timer;

        switch (run.pairs->kind) {
        case NAMED: weir_task_start(weir_timer_new_named(name_of(text, (uint32_t)index), duration(), on_end, NULL)); break;
        case LONE: weir_task_start(weir_timer_new(duration(), on_end, NULL)); break;
        case SERIES:
                timer = weir_timer_new(duration(), on_end, NULL);
                run.series[index] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(run.series[index], timer);
                weir_series_start(run.series[index]);
                break;
        case WHEEL:
                run.wheel[index].done = on_wheel_end;
                wheel_add(&run.wheel[index], duration());
                break;
        }
}

static void
cancel(size_t index)
{
        char text[16];

        switch (run.pairs->kind) {
        case NAMED: weir_timer_cancel(name_of(text, (uint32_t)index), WEIR_ALL); break;
        case SERIES:
                weir_series_cancel(run.series[index]);
                weir_series_unref(run.series[index]);
                break;
        case WHEEL: wheel_cancel(&run.wheel[index]); break;
        case LONE: break;
        }
}

static void
pair(void)
{
        size_t pending = run.pairs->pending;

        if (run.pairs->any) {
                size_t index = bench_random_below(&run.random, pending);

                cancel(index);
                add(index);
        } else {
                add(pending); /* the place behind the N */
                cancel(pending);
        }
        run.done++;
}

static void
populate(void)
{
        for (size_t i = 0; i < run.pairs->pending; i++)
                add(i);
}

static void
start_clock(void)
{
        run.ended_before = bench_counted();
        run.began = bench_now();
        run.cpu = bench_cpu();
}

/* Each pair has ended one timer, be it that it expired just before. */
static bool
all_ended(void)
{
        return bench_counted() - run.ended_before >= run.done;
}

/* Lets the workers catch up.  Where timers also expire, they may even be ahead. */
static void
throttle(void)
{
        while (run.done % 1024 == 0 && run.done > bench_counted() - run.ended_before + BACKLOG)
                bench_sleep(50000);
}

static void
stop_clock(void)
{
        run.cpu = bench_cpu() - run.cpu;
        run.began = bench_now() - run.began;
        sem_post(&run.finished);
}

/* -- from a callback -- */

static void
on_slice(weir_task *task, void *context)
{
        (void)task;
        for (int i = 0; i < SLICE && run.done < run.pairs->count; i++)
                pair();
        if (run.done < run.pairs->count || !all_ended())
                weir_task_start(weir_empty_new(on_slice, context));
        else
                stop_clock();
}

static void
on_populate(weir_task *task, void *context)
{
        (void)task;
        populate();
        start_clock();
        weir_task_start(weir_empty_new(on_slice, context));
}

/* -- from another thread -- */

static void
make_pairs(void)
{
        populate();
        start_clock();
        while (run.done < run.pairs->count) {
                pair();
                throttle();
        }
        while (!all_ended())
                bench_sleep(50000);
        stop_clock();
}

/* -- one thread adds, another cancels -- */

static void *
cancel_apart(void *unused)
{
        char text[16];

        (void)unused;
        for (size_t i = 0, published = 0; i < run.pairs->count; i++) {
                while (i == published) {
                        published = atomic_load_explicit(&run.published, memory_order_acquire);
                        if (i == published)
                                bench_sleep(50000);
                }
                if (weir_timer_cancel(name_of(text, (uint32_t)i), 1) != 1)
                        abort();
        }
        return NULL;
}

static void
make_pairs_apart(void)
{
        pthread_t canceller;

        if (pthread_create(&canceller, NULL, cancel_apart, NULL))
                abort();
        start_clock();
        for (; run.done < run.pairs->count; run.done++) {
                add(run.done);
                if (run.done % 64 == 63)
                        atomic_store_explicit(&run.published, run.done + 1, memory_order_release);
                throttle();
        }
        atomic_store_explicit(&run.published, run.done, memory_order_release);
        pthread_join(canceller, NULL);
        while (!all_ended())
                bench_sleep(50000);
        stop_clock();
}

/* -- a case -- */

static void *
second_thread(void *unused)
{
        for (;;)
                bench_sleep(BENCH_NSEC_PER_SEC);
        return unused;
}

static void
prepare(const struct pairs *pairs)
{
        pthread_t thread;

        run.pairs = pairs;
        run.random = 1;
        sem_init(&run.finished, 0, 0);
        if (pairs->kind == SERIES)
                run.series = malloc((pairs->pending + 1) * sizeof *run.series);
        if (pairs->kind == WHEEL) {
                run.wheel = malloc((pairs->pending + 1) * sizeof *run.wheel);
                wheel_init();
                if (pthread_create(&thread, NULL, second_thread, NULL)) /* a mutex is cheaper without */
                        abort();
        } else if (weir_init(NULL)) {
                abort();
        }
}

static bool
measure_pairs(const void *argument, double values[BENCH_VALUES])
{
        const struct pairs *pairs = argument;

        prepare(pairs);
        if (pairs->place == CALLBACK && pairs->kind != WHEEL)
                weir_task_start(weir_empty_new(on_populate, NULL));
        else if (pairs->place == APART)
                make_pairs_apart();
        else
                make_pairs();
        sem_wait(&run.finished);
        values[0] = (double)run.cpu / (double)pairs->count;
        values[1] = (double)run.began / (double)pairs->count;
        return true;
}

static const char *
number_of(size_t pending)
{
        return pending == 1000000 ? "1e6" : pending == 100000 ? "1e5" : pending == 1000 ? "1e3" : "0";
}

static void
measure(const struct bench_size *size, struct pairs pairs, const char *peer)
{
        static const char *const kinds[] = {"named", "unnamed in a series", "unnamed", "unnamed"};
        static const char *const places[] = {"callback", "foreign thread", "one adds, one cancels"};
        double values[BENCH_VALUES];

        snprintf(pairs.name, sizeof pairs.name, "%s, %s, N=%s, %s, %s", kinds[pairs.kind], pairs.any ? "any" : "hot",
                 number_of(pairs.pending), pairs.random ? "1-60 s" : "60 s", places[pairs.place]);
        if (!bench_wanted(size, pairs.name) || !bench_isolated(pairs.name, measure_pairs, &pairs, values, PATIENCE))
                return;
        bench_sample(peer, pairs.name, "CPU ns per pair", values[0]);
        if (pairs.place == APART)
                bench_sample(peer, pairs.name, "million pairs per second", 1000 / values[1]);
}

/* -- memory, and what adding alone costs -- */

static void
on_add(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        start_clock();
        populate();
        stop_clock();
}

static bool
measure_memory(const void *argument, double values[BENCH_VALUES])
{
        const struct pairs *pairs = argument;

        prepare(pairs);
        long before = bench_memory((int)getpid(), "VmRSS:");
        if (pairs->place == CALLBACK)
                weir_task_start(weir_empty_new(on_add, NULL));
        else
                on_add(NULL, NULL);
        sem_wait(&run.finished);
        values[0] = (double)(bench_memory((int)getpid(), "VmRSS:") - before) * 1024 / (double)pairs->pending;
        values[1] = (double)run.cpu / (double)pairs->pending;
        return true;
}

static void
measure_adding(const struct bench_size *size, enum kind kind, enum place place)
{
        struct pairs pairs = {.kind = kind, .place = place, .pending = size->quick ? 100000 : 1000000, .random = true};
        double values[BENCH_VALUES];

        snprintf(pairs.name, sizeof pairs.name, "%s, add only, N=%s, 1-60 s, %s",
                 kind == NAMED  ? "named"
                 : kind == LONE ? "unnamed"
                                : "unnamed in a series",
                 number_of(pairs.pending), place == CALLBACK ? "callback" : "foreign thread");
        if (!bench_wanted(size, pairs.name) || !bench_isolated(pairs.name, measure_memory, &pairs, values, PATIENCE))
                return;
        bench_sample("weir", pairs.name, "bytes per pending timer", values[0]);
        bench_sample("weir", pairs.name, "CPU ns per timer", values[1]);
}

void
bench_pairs(const struct bench_size *size)
{
        static const struct {
                enum kind kind;
                enum place place;
        } ways[] = {{WHEEL, FOREIGN}, {NAMED, CALLBACK}, {NAMED, FOREIGN}, {SERIES, CALLBACK}, {SERIES, FOREIGN}};
        static const struct {
                size_t pending;
                bool any, random;
        } loads[] = {{1000, false, false},    {1000, true, false},    {100000, true, false},
                     {1000000, false, false}, {1000000, true, false}, {1000000, true, true}};
        size_t count = size->quick ? 100000 : 500000;

        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                for (size_t j = 0; j < sizeof loads / sizeof *loads; j++) {
                        struct pairs pairs = {.kind = ways[i].kind, .place = ways[i].place, .count = count};

                        pairs.pending = loads[j].pending;
                        pairs.any = loads[j].any;
                        pairs.random = loads[j].random;
                        if (!size->quick || pairs.pending < 1000000)
                                measure(size, pairs, pairs.kind == WHEEL ? "floor" : "weir");
                }
        }
        measure(size, (struct pairs){.kind = NAMED, .place = APART, .count = 2 * count}, "weir");
        measure_adding(size, LONE, CALLBACK);
        measure_adding(size, LONE, FOREIGN);
        measure_adding(size, NAMED, CALLBACK);
        measure_adding(size, SERIES, CALLBACK);
}
