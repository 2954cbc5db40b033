/* client/origin/client.h: a client: its settings, its origins, and what it has counted.
 *
 * Two counts keep it.  `users` are the program's references and those of requests: without them idle connections are closed.
 * `references` keep the memory: all users together have one, and each origin one. */
#ifndef WEIR_CLIENT_CLIENT_H
#define WEIR_CLIENT_CLIENT_H

#include <stdatomic.h>

#include <weir/http_client.h>

#include "client/tunnel/proxies.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"

#define WEIR__ORIGIN_BUCKETS 64 /* at first; a power of two */

/* Counters, relaxed. */
enum weir__client_count {
        WEIR__CLIENT_REQUESTS,
        WEIR__CLIENT_REUSED,
        WEIR__CLIENT_REPLAYED,
        WEIR__CLIENT_FAILED,
        WEIR__CLIENT_COUNTS,
};

struct weir_client {
        _Atomic uint32_t users, references;

        /* Constant. */
        struct weir_client_config config; /* with all defaults in their places; its texts are the client's */
        char *user_agent;                 /* or NULL */
        struct weir__client_proxies proxies;

        uint64_t key[2]; /* of the hash */

        struct weir__lock lock;     /* rank WAITABLE: the table of origins, and the last reference of each */
        struct weir__list *buckets; /* of origins, by hash; NULL before the first; guarded by lock */
        size_t bucket_count, origin_count;

        _Atomic unsigned generation; /* connections of an earlier one take no more requests: weir_client_close_idle */
        unsigned number;             /* in metrics; constant */
        struct weir__link listed;    /* guarded by the lock of metrics.c */
        _Atomic uint64_t counts[WEIR__CLIENT_COUNTS]; /* of origins that are gone */
};

void weir__client_keep(struct weir_client *client);
void weir__client_drop(struct weir_client *client); /* a reference to the memory */

static inline bool
weir__client_is_used(const struct weir_client *client)
{
        return atomic_load_explicit(&client->users, memory_order_relaxed);
}

#endif
