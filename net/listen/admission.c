/* net/listen/admission.c: the limit on connections.
 *
 * Threads: the owner of the poller.  All owners share the server's `connections`, and the `eviction`, `idle_since` and count of
 *          idle connections of each branch.
 *
 * Each connection has a permit, of which there are as many as the limit says.
 *
 * At the limit the connection that has been idle longest, on whichever poller, makes room for a new one.  If it belongs to this
 * poller, it is closed at once, and the new one gets its permit.  Otherwise the owner of its poller is asked to close it, and the
 * new one is let in beyond the limit.  There are never more beyond the limit than are idle on other pollers.
 *
 * The owner that is asked may find that a request has come meanwhile.  Then there is a deficit: it asks all others.  If no
 * connection is idle there, the next one that becomes idle on any poller is closed.  The deficit is `connections` less the limit,
 * so any end of a connection reduces it.
 *
 *     NONE --a new connection--> FIRST --the owner looks, and asks the others if none is idle here--> NONE
 *       \----another branch, or, in a deficit, a connection that becomes idle--> OTHER --the owner looks--> NONE
 *
 * An owner reduces `connections` before it closes an idle connection, so no two owners close one for the same new connection.  It
 * leaves FIRST or OTHER before it looks, so no order is lost. */
#include "net/listen/admission.h"

#include "kernel/worker/deliver.h"
#include "net/listen/server.h"

enum weir__eviction { NONE = 0, OTHER, FIRST };

static bool
is_over(const struct weir__server *server)
{
        return atomic_load(&server->connections) > server->max_connections;
}

/* Takes a permit within the limit, or one of `beyond` permits above it. */
static bool
take_permit(struct weir__server *server, size_t beyond)
{
        size_t limit = server->max_connections, there = atomic_load(&server->connections);

        while (there < limit || there - limit < beyond)
                if (atomic_compare_exchange_weak(&server->connections, &there, there + 1))
                        return true;
        return false;
}

/* Gives back a permit beyond the limit, if one is taken. */
static bool
give_permit_back(struct weir__server *server)
{
        size_t there = atomic_load(&server->connections);

        while (there > server->max_connections)
                if (atomic_compare_exchange_weak(&server->connections, &there, there - 1))
                        return true;
        return false;
}

void *
weir__admission_longest_idle(struct weir__branch *branch, weir_nsec *since)
{
        const struct weir__server_ops *ops = branch->server->ops;

        return ops->longest_idle ? ops->longest_idle(branch, since) : NULL;
}

static void ask(struct weir__branch *branch, int order);

static void
evict_run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, evict);
        struct weir__server *server = branch->server;
        int order = atomic_exchange(&branch->eviction, NONE);
        weir_nsec since;
        void *idle;

        while (is_over(server) && (idle = weir__admission_longest_idle(branch, &since)))
                if (give_permit_back(server))
                        server->ops->evict(idle, false);
        bool was_over = is_over(server);
        atomic_store(&server->has_deficit, was_over);
        if (is_over(server) &&
            (order == FIRST || !was_over)) { /* not was_over: the store may have overwritten the deficit of another owner */
                atomic_store(&server->has_deficit, true);
                for (unsigned i = 0; i < server->branch_count; i++)
                        ask(weir__server_branch(server, i), OTHER);
        }
        weir__users_remove(&server->users);
}

static const struct weir__work_ops evict_ops = {.run = evict_run};

/* Any thread. */
static void
ask(struct weir__branch *branch, int order)
{
        int before = atomic_load(&branch->eviction);

        while (before < order && !atomic_compare_exchange_weak(&branch->eviction, &before, order))
                ;
        if (before != NONE)
                return;
        branch->evict.ops = &evict_ops;
        weir__users_add(&branch->server->users);
        weir__deliver(branch->poller, &branch->evict);
}

void
weir__admission_evict(struct weir__branch *branch)
{
        ask(branch, OTHER);
}

/* Returns how many connections are idle on other pollers.  *longest is the branch of the one that has been idle longest, if that
 * is longer than since `since`. */
static size_t
count_idle_elsewhere(const struct weir__branch *own, struct weir__branch **longest, weir_nsec since)
{
        struct weir__server *server = own->server;
        size_t count = 0;

        for (unsigned i = 0; i < server->branch_count; i++) {
                struct weir__branch *each = weir__server_branch(server, i);
                weir_nsec at = atomic_load_explicit(&each->idle_since, memory_order_relaxed);

                if (each == own || at == WEIR_FOREVER)
                        continue;
                count += server->ops->count_idle(each);
                if (at < since) {
                        *longest = each;
                        since = at;
                }
        }
        return count;
}

static bool
make_room(struct weir__branch *branch)
{
        struct weir__branch *other = NULL;
        weir_nsec since = WEIR_FOREVER;
        void *own = weir__admission_longest_idle(branch, &since);
        size_t beyond = count_idle_elsewhere(branch, &other, since);

        if (other && take_permit(branch->server, beyond)) {
                ask(other, FIRST);
                return true;
        }
        if (own)
                branch->server->ops->evict(own, false); /* the new connection takes its permit */
        return own;
}

static bool
is_limited(const struct weir__server *server, const struct weir__peer *peer)
{
        return server->max_connections_per_address != SIZE_MAX &&
               !(server->ops->is_exempt && server->ops->is_exempt(server, peer));
}

bool
weir__admission_take_permit(struct weir__server *server)
{
        return take_permit(server, 0);
}

void
weir__admission_give_permit_back(struct weir__server *server)
{
        atomic_fetch_sub_explicit(&server->connections, 1, memory_order_relaxed);
}

bool
weir__admission_enter_with_permit(struct weir__branch *branch, const struct weir__peer *peer)
{
        struct weir__server *server = branch->server;

        bool may_enter = !is_limited(server, peer) ||
                         weir__addresses_enter(&server->addresses, peer, server->max_connections_per_address);

        if (!may_enter)
                weir__admission_give_permit_back(server);
        return may_enter;
}

/* Looks at the address first: one with too many connections must not take the room of others. */
bool
weir__admission_enter(struct weir__branch *branch, const struct weir__peer *peer)
{
        struct weir__server *server = branch->server;

        if (is_limited(server, peer) && !weir__addresses_enter(&server->addresses, peer, server->max_connections_per_address))
                return false;
        if (take_permit(server, 0) || make_room(branch))
                return true;
        weir__admission_leave(branch, peer, false);
        return false;
}

void
weir__admission_leave(struct weir__branch *branch, const struct weir__peer *peer, bool has_permit)
{
        if (is_limited(branch->server, peer))
                weir__addresses_leave(&branch->server->addresses, peer);
        if (has_permit)
                weir__admission_give_permit_back(branch->server);
}
