/* net/resolve/cache.h: names and their answers, until these expire.
 *
 * A pure data structure.  It knows no clock and takes no lock.  An entry is made and freed outside of the caller's lock: what
 * leaves the cache goes to a list of the caller. */
#ifndef WEIR_NET_CACHE_H
#define WEIR_NET_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "net/resolve/answer.h"

/* A question. */
struct weir__host_key {
        const char *name; /* in lower case */
        uint8_t size;
        uint8_t family; /* 0: both */
        uint64_t hash;
};

struct weir__cached {
        struct weir__link chain; /* in its bucket */
        struct weir__link used;  /* in the order of use; or in a list of the caller */
        struct weir__answer *answer; /* a reference */
        weir_nsec expires_at;
        uint64_t hash;
        uint8_t family, size;
        char name[];
};

struct weir__name_cache {
        size_t most, count;
        size_t mask; /* of the buckets */
        struct weir__list used; /* the one that was used last is the last */
        struct weir__list buckets[];
};

/* For `most` names, at least 1.  NULL when out of memory. */
struct weir__name_cache *weir__name_cache_new(size_t most);
void weir__name_cache_free(struct weir__name_cache *cache); /* accepts NULL */

/* The answer of a name, with a reference; NULL: there is none, or it has expired. */
struct weir__answer *weir__name_cache_find(struct weir__name_cache *cache, const struct weir__host_key *key, weir_nsec now,
                                           struct weir__list *left);

/* An entry; it takes a reference of its own to the answer.  NULL when out of memory. */
struct weir__cached *weir__cached_new(const struct weir__host_key *key, struct weir__answer *answer, weir_nsec expires_at);

/* Puts an entry in, in place of an older one of that question.  If the cache is full, the one that was not used for longest
 * leaves. */
void weir__name_cache_put(struct weir__name_cache *cache, struct weir__cached *entry, struct weir__list *left);

/* All leave. */
void weir__name_cache_flush(struct weir__name_cache *cache, struct weir__list *left);

/* Frees what has left. */
void weir__cached_free_all(struct weir__list *left);

#endif
