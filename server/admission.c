/* server/admission.c: who is let in: the limit of connections, and requests while the server is late.
 *
 * Threads: the owner of the poller; `connections`, `eviction`, `idle_since`, the count of idle ones and the addresses are shared
 *          by all of them.
 *
 * At the limit the connection that has been idle longest, on whichever poller, makes room for a new one.  One of this poller goes
 * at once, and the new one has its place.  For one of another poller, whose owner is asked to close it, the new one is let in
 * meanwhile, so that for that moment there is one too many; but never are there more too many than are idle on other pollers.
 *
 * Who is asked may find that a request has come meanwhile.  What is too many is then owed, by all:
 *
 *     NONE --asked--> ASKED, the work is on its way --no longer too many--> NONE
 *                      ^  \--nobody is idle, and all others are asked--> OWED --one becomes idle--> ASKED
 *
 * How many are owed is what `connections` has above the limit, and no number of its own: each close repays it.  Who closes an idle
 * one for it takes the place off that number first, so that no two do so for the same one.  An owner who leaves ASKED looks at the
 * number once more, and who lets one in looks at the state after that: sequentially consistent, one of them sees the other.
 *
 * Lateness is measured by a limit that is set for a moment ahead while requests come, and not when there are none: how long after
 * that moment it has its turn is how long everything waits here.  One that is overdue already tells as much without having run. */
#include "kernel/base/clock.h"
#include "server/server.h"

#define LOOK_AHEAD WEIR_MSEC(1)
#define MEMORY     WEIR_MSEC(100) /* how long a measured lateness counts */

/* -- connections -- */

static bool
is_over(const weir_http_server *server)
{
        return atomic_load(&server->connections) > server->config.max_connections;
}

/* Takes a place within the limit, or one of so many beyond it. */
static bool
take_place(weir_http_server *server, size_t beyond)
{
        size_t limit = server->config.max_connections, there = atomic_load(&server->connections);

        do {
                if (there >= limit && there - limit >= beyond)
                        return false;
        } while (!atomic_compare_exchange_weak(&server->connections, &there, there + 1));
        return true;
}

/* Takes off a place beyond the limit, if there is one. */
static bool
take_off_place(weir_http_server *server)
{
        size_t there = atomic_load(&server->connections);

        do {
                if (there <= server->config.max_connections)
                        return false;
        } while (!atomic_compare_exchange_weak(&server->connections, &there, there - 1));
        return true;
}

static void evict_run(struct weir__work *work);

static const struct weir__work_ops evict_ops = {.run = evict_run};

/* By who has made it ASKED. */
static void
deliver(struct weir__shard *shard)
{
        shard->evict.ops = &evict_ops;
        weir__server_opened(shard->server);
        weir__poller_deliver(shard->poller, &shard->evict);
}

/* Returns false when it owes already. */
static bool
ask_to_evict(struct weir__shard *shard)
{
        int state = WEIR__EVICTION_NONE;

        if (atomic_compare_exchange_strong(&shard->eviction, &state, WEIR__EVICTION_ASKED))
                deliver(shard);
        return state != WEIR__EVICTION_OWED;
}

static void
ask_all(weir_http_server *server)
{
        for (unsigned i = 0; i < server->shard_count; i++)
                ask_to_evict(&server->shards[i]);
}

void
weir__admission_repay(struct weir__shard *shard)
{
        atomic_store_explicit(&shard->eviction, WEIR__EVICTION_ASKED, memory_order_relaxed);
        deliver(shard);
}

/* Returns false when nobody is idle here. */
static bool
evict_excess(struct weir__shard *shard)
{
        while (is_over(shard->server)) {
                struct weir__connection *idle = weir__connection_longest_idle(shard);

                if (!idle)
                        return false;
                if (take_off_place(shard->server))
                        weir__connection_evict(idle, false);
        }
        return true;
}

static void
evict_run(struct weir__work *work)
{
        struct weir__shard *shard = (struct weir__shard *)((char *)work - offsetof(struct weir__shard, evict));
        bool is_repaid = evict_excess(shard);

        atomic_store(&shard->eviction, is_repaid ? WEIR__EVICTION_NONE : WEIR__EVICTION_OWED);
        if (!is_repaid)
                ask_all(shard->server);
        else if (is_over(shard->server))
                ask_to_evict(shard);
        weir__server_closed(shard->server);
}

/* How many are idle on other pollers, and where the longest is, if longer than `since`; but not on those whose owner has looked, and
 * found that all of them have a request. */
static size_t
count_idle_elsewhere(const struct weir__shard *own, struct weir__shard **longest, weir_nsec *since)
{
        weir_http_server *server = own->server;
        size_t count = 0;

        for (struct weir__shard *each = server->shards; each < server->shards + server->shard_count; each++) {
                weir_nsec at = atomic_load_explicit(&each->idle_since, memory_order_relaxed);

                if (each == own || at == WEIR_FOREVER || atomic_load(&each->eviction) == WEIR__EVICTION_OWED)
                        continue;
                count += (size_t)atomic_load_explicit(&each->counts.of[WEIR__COUNT_IDLE], memory_order_relaxed);
                if (at < *since)
                        *longest = each;
                *since = at < *since ? at : *since;
        }
        return count;
}

static bool
make_room(struct weir__shard *shard)
{
        struct weir__connection *own = weir__connection_longest_idle(shard);
        weir_nsec since = own ? own->idle_since : WEIR_FOREVER;
        struct weir__shard *other = NULL;
        size_t beyond = count_idle_elsewhere(shard, &other, &since);

        if (other && take_place(shard->server, beyond)) {
                if (!ask_to_evict(other))
                        ask_all(shard->server);
                return true;
        }
        if (own)
                weir__connection_evict(own, false); /* its place is the new one's */
        return own;
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
        if (take_place(server, 0) || make_room(shard))
                return true;
        weir__dismiss_connection(shard, peer, false);
        return false;
}

void
weir__dismiss_connection(struct weir__shard *shard, const struct weir__peer *peer, bool has_place)
{
        if (is_limited(shard->server, peer))
                weir__addresses_leave(shard->server->addresses, peer);
        if (has_place)
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
