/* bench/peers/wheel.c: the least that adding and cancelling a timer can cost where threads share the timers.
 *
 * A hashed wheel of 1 ms slots; a timer is on the list of its slot, whatever the turn.
 *
 * Threads: any.
 * Locks:   one, over everything but the callback. */
#include "peers/wheel.h"

#include <pthread.h>

#include "bench.h"

#define SLOTS 65536

static struct {
        pthread_mutex_t mutex;
        struct wheel_timer slots[SLOTS]; /* list heads */
} wheel = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void
wheel_init(void)
{
        for (unsigned i = 0; i < SLOTS; i++)
                wheel.slots[i].previous = wheel.slots[i].next = &wheel.slots[i];
}

void
wheel_add(struct wheel_timer *timer, int64_t after)
{
        timer->deadline = bench_now() + after;
        struct wheel_timer *head = &wheel.slots[(uint64_t)timer->deadline / 1000000 % SLOTS];
        pthread_mutex_lock(&wheel.mutex);
        timer->previous = head->previous;
        timer->next = head;
        head->previous->next = timer;
        head->previous = timer;
        pthread_mutex_unlock(&wheel.mutex);
}

void
wheel_cancel(struct wheel_timer *timer)
{
        pthread_mutex_lock(&wheel.mutex);
        timer->previous->next = timer->next;
        timer->next->previous = timer->previous;
        pthread_mutex_unlock(&wheel.mutex);
        timer->done(timer->context);
}
