/* server/admission.c: who is let in: the limit of connections, and requests while the server is late.
 *
 * Threads: the owner of the poller; `evictions`, `idle_since` and the addresses are shared by all of them.
 *
 * At the limit the connection that has been idle longest, on whichever poller, makes room for a new one.  It may belong to another
 * poller, whose owner is asked to close it; the new one is let in at once, so that for that moment there is one too many.
 *
 * Lateness is measured by a limit that is set for a moment ahead while requests come, and not when there are none: how long after
 * that moment it has its turn is how long everything waits here.  One that is overdue already tells as much without having run. */
#include "kernel/clock.h"
#include "kernel/runtime.h"
#include "server/server.h"

#define LOOK_AHEAD WEIR_MSEC(1)
#define MEMORY     WEIR_MSEC(100) /* how long a measured lateness counts */

/* -- connections -- */

static void
evict_run(struct weir__work *work)
{
        struct weir__shard *shard = (struct weir__shard *)((char *)work - offsetof(struct weir__shard, evict));
        unsigned wanted = atomic_exchange_explicit(&shard->evictions, 0, memory_order_acq_rel);

        while (wanted && weir__connection_evict(shard))
                wanted--;
        weir__server_closed(shard->server);
}

static const struct weir__work_ops evict_ops = {.run = evict_run};

static struct weir__shard *
longest_idle(weir_http_server *server)
{
        struct weir__shard *found = NULL;
        weir_nsec since = WEIR_FOREVER;

        for (unsigned i = 0; i < server->shard_count; i++) {
                weir_nsec at = atomic_load_explicit(&server->shards[i].idle_since, memory_order_relaxed);

                if (at < since) {
                        found = &server->shards[i];
                        since = at;
                }
        }
        return found;
}

static void
ask_to_evict(struct weir__shard *other)
{
        if (atomic_fetch_add_explicit(&other->evictions, 1, memory_order_acq_rel))
                return; /* it is on its way */
        other->evict.ops = &evict_ops;
        weir__server_opened(other->server);
        weir__poller_deliver(other->poller, &other->evict);
}

static bool
make_room(struct weir__shard *shard)
{
        struct weir__shard *other = longest_idle(shard->server);

        if (!other)
                return false;
        if (other == shard && weir__connection_evict(shard))
                return true;
        if (other != shard)
                ask_to_evict(other);
        return other != shard;
}

/* A trusted proxy comes with everybody's connections. */
static bool
is_limited(const weir_http_server *server, const struct weir__peer *peer)
{
        return server->addresses && !weir__proxies_have(server->proxies, peer);
}

/* The address first: who has too many must not take the room of others. */
bool
weir__admit_connection(struct weir__shard *shard, const struct weir__peer *peer)
{
        weir_http_server *server = shard->server;

        if (is_limited(server, peer) &&
            !weir__addresses_enter(server->addresses, peer, server->config.max_connections_per_address))
                return false;
        if (atomic_fetch_add_explicit(&server->connections, 1, memory_order_relaxed) < server->config.max_connections ||
            make_room(shard))
                return true;
        weir__dismiss_connection(shard, peer);
        return false;
}

void
weir__dismiss_connection(struct weir__shard *shard, const struct weir__peer *peer)
{
        if (is_limited(shard->server, peer))
                weir__addresses_leave(shard->server->addresses, peer);
        atomic_fetch_sub_explicit(&shard->server->connections, 1, memory_order_relaxed);
}

/* -- requests -- */

static void
look_run(struct weir__work *work)
{
        struct weir__shard *shard = (struct weir__shard *)((char *)work - offsetof(struct weir__shard, look.work));

        shard->measured_at = weir__clock_now();
        shard->lateness = shard->measured_at - shard->look_due;
        shard->looking = false;
        weir__server_closed(shard->server);
}

static const struct weir__work_ops look_ops = {.run = look_run};

static void
begin_look(struct weir__shard *shard, weir_nsec now)
{
        shard->look_due = now + LOOK_AHEAD;
        shard->look.work.ops = &look_ops;
        if (!weir__limit_set(shard->poller, &shard->look, shard->look_due))
                return;
        shard->looking = true;
        weir__server_opened(shard->server);
}

bool
weir__admit_request(struct weir__shard *shard)
{
        weir_nsec bound = shard->server->config.shed_lateness;

        if (bound == WEIR_FOREVER)
                return true;
        weir_nsec now = weir__clock_now();
        weir_nsec late = shard->looking ? now - shard->look_due : 0;
        if (now - shard->measured_at < MEMORY && shard->lateness > late)
                late = shard->lateness;
        if (!shard->looking)
                begin_look(shard, now);
        return late <= bound;
}

void
weir__admission_close(struct weir__shard *shard)
{
        if (shard->looking && weir__limit_clear(shard->poller, &shard->look)) {
                shard->looking = false;
                weir__server_closed(shard->server);
        }
}
