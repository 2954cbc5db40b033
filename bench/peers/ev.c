/* bench/peers/ev.c: timers of libev.  They count in seconds, as doubles, from the loop's time. */
#include <ev.h>
#include <stdlib.h>

#include "peers/peer.h"

static struct ev_loop *loop;
static ev_timer *timers;
static ev_idle idle; /* keeps the loop turning */
static bool (*next_slice)(void);

static void
on_timer(struct ev_loop *unused, ev_timer *timer, int events)
{
        (void)unused;
        (void)events;
        peer_expired((size_t)(timer - timers));
}

static void
on_idle(struct ev_loop *unused, ev_idle *watcher, int events)
{
        (void)unused;
        (void)events;
        if (!next_slice()) {
                ev_idle_stop(loop, watcher);
                ev_break(loop, EVBREAK_ALL);
        }
}

static double
seconds(int64_t nanoseconds)
{
        return nanoseconds > 0 ? (double)nanoseconds / 1e9 : 0;
}

void
peer_open(size_t count)
{
        loop = ev_default_loop(0);
        timers = malloc(count * sizeof *timers);
        if (!loop || !timers)
                abort();
        for (size_t i = 0; i < count; i++)
                ev_init(&timers[i], on_timer);
        ev_idle_init(&idle, on_idle);
}

void
peer_add(size_t index, int64_t after)
{
        ev_timer_set(&timers[index], seconds(after), 0.);
        ev_timer_start(loop, &timers[index]);
}

void
peer_cancel(size_t index)
{
        ev_timer_stop(loop, &timers[index]);
}

void
peer_reset(size_t index, int64_t after)
{
        timers[index].repeat = seconds(after);
        ev_timer_again(loop, &timers[index]);
}

void
peer_update(void)
{
        ev_now_update(loop);
}

void
peer_run(bool (*slice)(void))
{
        next_slice = slice;
        if (slice)
                ev_idle_start(loop, &idle);
        ev_run(loop, 0);
}

void
peer_stop(void)
{
        ev_break(loop, EVBREAK_ALL);
}

void
peer_settle(void)
{
}
