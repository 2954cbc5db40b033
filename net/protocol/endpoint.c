/* net/protocol/endpoint.c: the life of an endpoint.
 *
 * Threads: made and given up on any thread.  The rest belongs to the owner of its poller.
 * Locks:   the endpoint's, a leaf: which poller it is on. */
#include "net/protocol/endpoint.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/base/panic.h"
#include "kernel/memory/watched.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"

/* -- life -- */

void
weir__endpoint_keep(struct weir_endpoint *endpoint)
{
        atomic_fetch_add_explicit(&endpoint->references, 1, memory_order_relaxed);
}

void
weir__endpoint_drop(struct weir_endpoint *endpoint)
{
        if (atomic_fetch_sub_explicit(&endpoint->references, 1, memory_order_acq_rel) != 1)
                return;
        weir_tls_unref(endpoint->tls);
        free(endpoint->address);
        free(endpoint->name);
        if (endpoint->on_free)
                weir__user_call(endpoint->on_free, endpoint->free_context);
        free(endpoint);
}

bool
weir__endpoint_is_used(const struct weir_endpoint *endpoint)
{
        return atomic_load_explicit(&endpoint->users, memory_order_relaxed);
}

void
weir__endpoint_count(struct weir_endpoint *endpoint, int change)
{
        weir__endpoint_change(&endpoint->connections, change);
}

/* Under the lock.  Gives it another poller if it was made before the start, or in an earlier runtime. */
static void
ensure_poller(struct weir_endpoint *endpoint)
{
        if (atomic_load_explicit(&endpoint->poller, memory_order_relaxed) >= weir__pollers_count())
                atomic_store_explicit(&endpoint->poller, (uint8_t)weir__worker_home_poller(), memory_order_relaxed);
}

unsigned
weir__endpoint_poller(struct weir_endpoint *endpoint)
{
        unsigned poller = atomic_load_explicit(&endpoint->poller, memory_order_relaxed);

        if (__builtin_expect(poller < weir__pollers_count(), 1))
                return poller;
        weir__lock(&endpoint->lock);
        ensure_poller(endpoint);
        weir__unlock(&endpoint->lock);
        return atomic_load_explicit(&endpoint->poller, memory_order_relaxed);
}

/* -- the last user -- */

static void
run_closing(struct weir__work *work)
{
        struct weir_endpoint *endpoint = weir__container_of(work, struct weir_endpoint, closing);

        endpoint->go_on(endpoint);
        weir__endpoint_drop(endpoint);
        weir__runtime_leave();
}

static const struct weir__work_ops closing_ops = {.run = run_closing};

struct weir_endpoint *
weir__endpoint_new(void)
{
        struct weir_endpoint *endpoint = calloc(1, sizeof *endpoint);

        if (!endpoint)
                return NULL;
        endpoint->closing.ops = &closing_ops;
        atomic_init(&endpoint->poller, (uint8_t)weir__worker_home_poller());
        weir__lock_init(&endpoint->lock, WEIR__RANK_LEAF);
        atomic_init(&endpoint->users, 1);
        atomic_init(&endpoint->references, 1);
        return endpoint;
}

/* -- the public face -- */

weir_endpoint *
weir_endpoint_ref(weir_endpoint *endpoint)
{
        weir__memory_expect(endpoint);
        if (endpoint)
                atomic_fetch_add_explicit(&endpoint->users, 1, memory_order_relaxed);
        return endpoint;
}

/* The owner closes what is open.  If the runtime ends, or has ended, that does. */
static void
leave(struct weir_endpoint *endpoint)
{
        if (!atomic_load_explicit(&endpoint->connections, memory_order_relaxed) || weir__runtime_enter() != 0) {
                weir__endpoint_drop(endpoint);
                return;
        }
        weir__deliver(weir__poller_at(endpoint->poller), &endpoint->closing);
}

void
weir_endpoint_unref(weir_endpoint *endpoint)
{
        if (!endpoint)
                return;
        weir__memory_expect(endpoint);
        uint32_t users = atomic_fetch_sub_explicit(&endpoint->users, 1, memory_order_acq_rel);
        if (users == 0)
                weir__panic("weir_endpoint_unref: no reference is left: it was called once too often");
        if (users == 1)
                leave(endpoint);
}

void
weir_endpoint_on_free(weir_endpoint *endpoint, weir_free_fn *fn, void *context)
{
        if (endpoint) {
                endpoint->on_free = fn;
                endpoint->free_context = context;
        } else if (fn) {
                fn(context);
        }
}

unsigned
weir_endpoint_connections(const weir_endpoint *endpoint)
{
        return endpoint ? atomic_load_explicit(&endpoint->connections, memory_order_relaxed) : 0;
}

unsigned
weir_endpoint_requests(const weir_endpoint *endpoint)
{
        return endpoint ? atomic_load_explicit(&endpoint->requests, memory_order_relaxed) : 0;
}

int
weir_endpoint_stats(const weir_endpoint *endpoint, struct weir_endpoint_stats *stats)
{
        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!endpoint)
                return -ENOMEM;
        *stats = (struct weir_endpoint_stats){
                .size = sizeof *stats,
                .connections = atomic_load_explicit(&endpoint->connections, memory_order_relaxed),
                .connecting = atomic_load_explicit(&endpoint->connecting, memory_order_relaxed),
                .requests = atomic_load_explicit(&endpoint->requests, memory_order_relaxed),
                .asked = atomic_load_explicit(&endpoint->asked, memory_order_relaxed),
                .connects = atomic_load_explicit(&endpoint->connects, memory_order_relaxed),
                .refused = atomic_load_explicit(&endpoint->refused, memory_order_relaxed),
                .lost = atomic_load_explicit(&endpoint->lost, memory_order_relaxed),
        };
        return 0;
}
