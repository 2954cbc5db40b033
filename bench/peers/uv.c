/* bench/peers/uv.c: timers of libuv.  They count in milliseconds from the loop's time, which is rounded down. */
#include <stdlib.h>
#include <uv.h>

#include "peers/peer.h"

static uv_timer_t *timers;
static uv_idle_t idle; /* keeps the loop turning */
static bool (*next_slice)(void);

static void
on_timer(uv_timer_t *timer)
{
        peer_expired((size_t)(timer - timers));
}

static void
on_idle(uv_idle_t *handle)
{
        if (!next_slice()) {
                uv_idle_stop(handle);
                uv_stop(handle->loop);
        }
}

static uint64_t
milliseconds(int64_t nanoseconds)
{
        return nanoseconds > 0 ? (uint64_t)(nanoseconds + 999999) / 1000000 : 0;
}

void
peer_open(size_t count)
{
        timers = malloc(count * sizeof *timers);
        if (!timers)
                abort();
        for (size_t i = 0; i < count; i++)
                uv_timer_init(uv_default_loop(), &timers[i]);
}

void
peer_add(size_t index, int64_t after)
{
        uv_timer_start(&timers[index], on_timer, milliseconds(after), 0);
}

void
peer_cancel(size_t index)
{
        uv_timer_stop(&timers[index]);
}

/* To start a timer that is pending is to reset it. */
void
peer_reset(size_t index, int64_t after)
{
        uv_timer_start(&timers[index], on_timer, milliseconds(after), 0);
}

void
peer_update(void)
{
        uv_update_time(uv_default_loop());
}

void
peer_run(bool (*slice)(void))
{
        next_slice = slice;
        if (slice) {
                uv_idle_init(uv_default_loop(), &idle);
                uv_idle_start(&idle, on_idle);
        }
        uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

void
peer_stop(void)
{
        uv_stop(uv_default_loop());
}

void
peer_settle(void)
{
}
