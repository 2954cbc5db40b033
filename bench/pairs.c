/* bench/pairs.c: add and cancel, or reset, with N timers pending: weir's part.
 *
 * "hot" cancels the timer that was just added; "any" cancels a random one of the N and arms it anew; "reset" gives a random one
 * of the N a new duration, or adds it anew if it has expired.  A pair is over when the callback of the cancelled timer has run,
 * so the clock stops when all have.  The calls come from a callback (on a worker, SLICE pairs at a time or as many as the case
 * says, so that the callbacks have their turn) or from a thread that is none of the library's.
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

#include "peers/peer.h"
#include "timers.h"

#define SLICE    64
#define BACKLOG  16384 /* callbacks that a foreign thread lets pile up before it gives the workers time */
#define PATIENCE 20    /* seconds for a case, and one more for each PENDING_A_SECOND */

#define PENDING_A_SECOND 100000

static struct {
        const struct bench_weir *weir;
        uint64_t random;
        weir_series **series;
        weir_timer_id *ids;
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

/* "user-0123abc": twelve characters, written faster than any printf would. */
static const char *
name_of(char text[16], size_t number)
{
        memcpy(text, "user-0000000", 13);
        for (int i = 11; i >= 5; i--, number >>= 4)
                text[i] = "0123456789abcdef"[number & 15];
        return text;
}

static weir_nsec
duration(void)
{
        static const int64_t mixed[] = PEER_MIXED;

        switch (run.weir->load.mix) {
        case BENCH_RANDOM: return WEIR_SEC(1) + WEIR_MSEC((weir_nsec)bench_random_below(&run.random, 59000));
        case BENCH_MIXED: return WEIR_SEC(mixed[bench_random_below(&run.random, sizeof mixed / sizeof *mixed)]);
        default: return WEIR_SEC(PEER_FIXED);
        }
}

/* -- one timer: number `index` -- */

static void
add(size_t index)
{
        char text[16];
        weir_task *timer;

        switch (run.weir->kind) {
        case BENCH_NAMED: weir_task_start(weir_timer_new_named(name_of(text, index), duration(), on_end, NULL)); break;
        case BENCH_UNNAMED: weir_task_start(weir_timer_new(duration(), on_end, NULL)); break;
        case BENCH_WITH_ID:
                timer = weir_timer_new(duration(), on_end, NULL);
                run.ids[index] = weir_timer_id_of(timer);
                weir_task_start(timer);
                break;
        case BENCH_IN_SERIES:
                timer = weir_timer_new(duration(), on_end, NULL);
                run.series[index] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(run.series[index], timer);
                weir_series_start(run.series[index]);
                break;
        }
}

static void
cancel(size_t index)
{
        char text[16];

        switch (run.weir->kind) {
        case BENCH_NAMED: weir_timer_cancel(name_of(text, index), WEIR_ALL); break;
        case BENCH_WITH_ID: weir_timer_cancel_id(run.ids[index]); break;
        case BENCH_IN_SERIES:
                weir_series_cancel(run.series[index]);
                weir_series_unref(run.series[index]);
                break;
        case BENCH_UNNAMED: break;
        }
}

static void
reset(size_t index)
{
        char text[16];
        bool named = run.weir->kind == BENCH_NAMED;

        if ((named ? weir_timer_reset(name_of(text, index), duration()) : weir_timer_reset_id(run.ids[index], duration())) == 0)
                add(index);
}

static void
pair(void)
{
        size_t pending = run.weir->load.pending;
        size_t index = run.weir->load.how == BENCH_HOT ? pending : bench_random_below(&run.random, pending);

        switch (run.weir->load.how) {
        case BENCH_HOT: /* the place behind the N */
                add(index);
                cancel(index);
                break;
        case BENCH_ANY:
                cancel(index);
                add(index);
                break;
        case BENCH_RESET: reset(index); break;
        }
        run.done++;
}

static void
populate(void)
{
        for (size_t i = 0; i < run.weir->load.pending; i++)
                add(i);
}

static void
start_clock(void)
{
        run.ended_before = bench_counted();
        run.began = bench_now();
        run.cpu = bench_cpu();
}

/* How many callbacks are still to come.  Each pair has ended one timer, be it that it expired just before; where timers also
 * expire, the workers may even be ahead. */
static size_t
backlog(void)
{
        size_t ended = bench_counted() - run.ended_before;

        return run.weir->load.how == BENCH_RESET || ended >= run.done ? 0 : run.done - ended;
}

static void
throttle(void)
{
        while (run.done % 1024 == 0 && backlog() > BACKLOG)
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

static unsigned
slice_size(void)
{
        return run.weir->slice ? run.weir->slice : SLICE;
}

static void
on_slice(weir_task *task, void *context)
{
        size_t count = run.weir->load.count;

        (void)task;
        for (unsigned i = 0; i < slice_size() && run.done < count; i++)
                pair();
        if (run.done < count || backlog() > 0)
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
        while (run.done < run.weir->load.count) {
                pair();
                throttle();
        }
        while (backlog() > 0)
                bench_sleep(50000);
        stop_clock();
}

/* -- one thread adds, another cancels -- */

static void *
cancel_apart(void *unused)
{
        char text[16];

        (void)unused;
        for (size_t i = 0, published = 0; i < run.weir->load.count; i++) {
                while (i == published) {
                        published = atomic_load_explicit(&run.published, memory_order_acquire);
                        if (i == published)
                                bench_sleep(50000);
                }
                if (weir_timer_cancel(name_of(text, i), 1) != 1)
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
        for (; run.done < run.weir->load.count; run.done++) {
                add(run.done);
                if (run.done % SLICE == SLICE - 1)
                        atomic_store_explicit(&run.published, run.done + 1, memory_order_release);
                throttle();
        }
        atomic_store_explicit(&run.published, run.done, memory_order_release);
        pthread_join(canceller, NULL);
        while (backlog() > 0)
                bench_sleep(50000);
        stop_clock();
}

/* -- a case -- */

static void
prepare(const struct bench_weir *weir)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        size_t count = weir->load.pending + 1;

        config.pollers = weir->pollers;
        run.weir = weir;
        run.random = 1;
        sem_init(&run.finished, 0, 0);
        if (weir->kind == BENCH_IN_SERIES)
                run.series = malloc(count * sizeof *run.series);
        if (weir->kind == BENCH_WITH_ID)
                run.ids = malloc(count * sizeof *run.ids);
        if (weir_init(&config))
                abort();
}

static bool
measure_pairs(const void *argument, double values[BENCH_VALUES])
{
        const struct bench_weir *weir = argument;

        prepare(weir);
        if (weir->place == BENCH_CALLBACK)
                weir_task_start(weir_empty_new(on_populate, NULL));
        else if (weir->place == BENCH_APART)
                make_pairs_apart();
        else
                make_pairs();
        sem_wait(&run.finished);
        values[0] = (double)run.cpu / (double)weir->load.count;
        values[1] = (double)run.began / (double)weir->load.count;
        return true;
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
        const struct bench_weir *weir = argument;

        prepare(weir);
        long before = bench_memory((int)getpid(), "VmRSS:");
        if (weir->place == BENCH_CALLBACK)
                weir_task_start(weir_empty_new(on_add, NULL));
        else
                on_add(NULL, NULL);
        sem_wait(&run.finished);
        values[0] = (double)run.cpu / (double)weir->load.pending;
        values[2] = (double)(bench_memory((int)getpid(), "VmRSS:") - before) * 1024 / (double)weir->load.pending;
        return true;
}

static bool
measure(const char *what, bench_fn *fn, const struct bench_weir *weir, struct bench_reading *reading)
{
        double values[BENCH_VALUES];

        if (!bench_isolated(what, fn, weir, values, PATIENCE + (unsigned)(weir->load.pending / PENDING_A_SECOND)))
                return false;
        *reading = (struct bench_reading){.cpu = values[0], .elapsed = values[1], .bytes = values[2]};
        return true;
}

bool
bench_weir_pairs(const char *what, const struct bench_weir *weir, struct bench_reading *reading)
{
        return measure(what, measure_pairs, weir, reading);
}

bool
bench_weir_memory(const char *what, const struct bench_weir *weir, struct bench_reading *reading)
{
        return measure(what, measure_memory, weir, reading);
}
