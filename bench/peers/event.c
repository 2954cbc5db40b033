/* bench/peers/event.c: timers of libevent.  As its documentation recommends, durations that many timers share ("fixed", "mixed")
 * are common timeouts, which have a queue each. */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#include "peers/peer.h"

#define MICROSECONDS 1000000

static const int64_t shared[] = PEER_MIXED; /* PEER_FIXED is among them */
#define SHARED (sizeof shared / sizeof *shared)

static struct event_base *base;
static struct event *timers, turn;
static const struct timeval *common[SHARED];
static bool (*next_slice)(void);
static bool more;

static void
on_timer(evutil_socket_t none, short what, void *context)
{
        (void)none;
        (void)what;
        peer_expired((size_t)((struct event *)context - timers));
}

static void
on_turn(evutil_socket_t none, short what, void *unused)
{
        (void)none;
        (void)what;
        (void)unused;
        more = next_slice();
}

void
peer_open(size_t count)
{
        base = event_base_new();
        timers = malloc(count * sizeof *timers);
        if (!base || !timers)
                abort();
        for (size_t i = 0; i < SHARED; i++)
                common[i] = event_base_init_common_timeout(base, &(struct timeval){.tv_sec = shared[i]});
        for (size_t i = 0; i < count; i++)
                event_assign(&timers[i], base, -1, 0, on_timer, &timers[i]);
        event_assign(&turn, base, -1, 0, on_turn, NULL);
}

static const struct timeval *
common_timeout(int64_t seconds)
{
        for (size_t i = 0; i < SHARED; i++)
                if (shared[i] == seconds)
                        return common[i];
        return NULL;
}

void
peer_add(size_t index, int64_t after)
{
        int64_t microseconds = after > 0 ? (after + 999) / 1000 : 0;
        struct timeval time = {.tv_sec = microseconds / MICROSECONDS, .tv_usec = microseconds % MICROSECONDS};
        const struct timeval *same = time.tv_usec ? NULL : common_timeout(time.tv_sec);

        event_add(&timers[index], same ? same : &time);
}

void
peer_cancel(size_t index)
{
        event_del(&timers[index]);
}

/* To add an event that is pending is to give it a new time. */
void
peer_reset(size_t index, int64_t after)
{
        peer_add(index, after);
}

void
peer_update(void)
{
        event_base_update_cache_time(base);
}

void
peer_run(bool (*slice)(void))
{
        if (!slice) {
                event_base_loop(base, 0);
                return;
        }
        next_slice = slice;
        for (more = true; more;) {
                event_active(&turn, 0, 0);
                event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        }
}

void
peer_stop(void)
{
        event_base_loopbreak(base);
}

void
peer_settle(void)
{
}
