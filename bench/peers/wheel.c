/* bench/peers/wheel.c: the floor: the least that adding and cancelling a timer can cost where threads share the timers.
 *
 * A hashed wheel of 1 ms slots in the caller's memory; a timer is on the list of its slot, whatever the turn.  It only adds and
 * cancels; that it could also expire is left out.  A cancel runs the callback: at once, or, when WHEEL_HANDED is 1, on another
 * thread, to which it is handed over through a ring under the mutex that is held anyway, so without any atomic
 * read-modify-write and without a wake-up: the other thread pauses when it finds nothing.
 *
 * Threads: the main thread adds and cancels, as any could; the runner, if there is one, runs the callbacks.
 * Locks:   wheel.mutex, over the lists and the ring's writing end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "peers/peer.h"

#ifndef WHEEL_HANDED
#define WHEEL_HANDED 0
#endif

#define SLOTS 65536
#define RING  8192
#define PAUSE 100000 /* nanoseconds */

struct timer {
        struct timer *previous, *next;
        int64_t deadline;
        void (*done)(void *context);
        void *context;
        uint64_t more[4]; /* 72 bytes, as the timer of a library would need */
};

struct end {
        void (*done)(void *context);
        void *context;
};

static struct {
        pthread_mutex_t mutex;
        struct timer slots[SLOTS]; /* list heads */
} wheel = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct {
        struct end ends[RING];
        _Alignas(64) _Atomic size_t written; /* by who holds the mutex; release */
        _Alignas(64) _Atomic size_t run;     /* by the runner; release */
} ring;

static struct timer *timers;
static bool stopped;
static size_t ended; /* by who runs the callbacks */

/* -- the callbacks -- */

static void
on_end(void *context)
{
        (void)context;
        ended++;
}

static void *
run_callbacks(void *unused)
{
        for (size_t run = 0;;) {
                size_t written = atomic_load_explicit(&ring.written, memory_order_acquire);

                if (run == written)
                        bench_sleep(PAUSE);
                for (; run < written; run++)
                        ring.ends[run % RING].done(ring.ends[run % RING].context);
                atomic_store_explicit(&ring.run, run, memory_order_release);
        }
        return unused;
}

/* Whether the runner is further behind than `limit`. */
static bool
behind(size_t limit)
{
        return atomic_load_explicit(&ring.written, memory_order_relaxed) - atomic_load_explicit(&ring.run, memory_order_acquire) >
               limit;
}

/* The mutex is held. */
static void
hand_over(const struct timer *timer)
{
        size_t written = atomic_load_explicit(&ring.written, memory_order_relaxed);

        ring.ends[written % RING] = (struct end){timer->done, timer->context};
        atomic_store_explicit(&ring.written, written + 1, memory_order_release);
}

/* -- the wheel; the mutex is held -- */

static void
insert(struct timer *timer)
{
        struct timer *head = &wheel.slots[(uint64_t)timer->deadline / 1000000 % SLOTS];

        timer->previous = head->previous;
        timer->next = head;
        head->previous->next = timer;
        head->previous = timer;
}

static void
take_out(struct timer *timer)
{
        timer->previous->next = timer->next;
        timer->next->previous = timer->previous;
}

/* -- what peer.c calls -- */

void
peer_open(size_t count)
{
        pthread_t runner;

        for (unsigned i = 0; i < SLOTS; i++)
                wheel.slots[i].previous = wheel.slots[i].next = &wheel.slots[i];
        timers = malloc(count * sizeof *timers);
        if (!timers || (WHEEL_HANDED && pthread_create(&runner, NULL, run_callbacks, NULL)))
                abort();
}

void
peer_add(size_t index, int64_t after)
{
        struct timer *timer = &timers[index];

        timer->done = on_end;
        timer->context = timer;
        timer->deadline = bench_now() + after;
        pthread_mutex_lock(&wheel.mutex);
        insert(timer);
        pthread_mutex_unlock(&wheel.mutex);
}

void
peer_cancel(size_t index)
{
        struct timer *timer = &timers[index];

        while (WHEEL_HANDED && behind(RING - 1))
                bench_sleep(PAUSE / 10);
        pthread_mutex_lock(&wheel.mutex);
        take_out(timer);
        if (WHEEL_HANDED)
                hand_over(timer);
        pthread_mutex_unlock(&wheel.mutex);
        if (!WHEEL_HANDED)
                timer->done(timer->context);
}

void
peer_reset(size_t index, int64_t after)
{
        struct timer *timer = &timers[index];
        int64_t deadline = bench_now() + after;

        pthread_mutex_lock(&wheel.mutex);
        take_out(timer);
        timer->deadline = deadline;
        insert(timer);
        pthread_mutex_unlock(&wheel.mutex);
}

void
peer_update(void)
{
}

void
peer_run(bool (*slice)(void))
{
        while (slice && !stopped && slice())
                ;
}

void
peer_stop(void)
{
        stopped = true;
}

void
peer_settle(void)
{
        while (WHEEL_HANDED && behind(0))
                bench_sleep(PAUSE / 10);
}
