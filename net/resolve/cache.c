/* net/resolve/cache.c: names and their answers, until these expire.
 *
 * Threads: answers are any thread's; the cache is the caller's.
 * Locks:   none. */
#include "net/resolve/cache.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- answers -- */

/* Its own reference is never dropped. */
static struct weir__answer no_memory = {.references = 1, .status = -ENOMEM, .problem = "out of memory"};

struct weir__answer *
weir__answer_new(unsigned count)
{
        struct weir__answer *answer = calloc(1, sizeof *answer + count * sizeof *answer->at);

        if (!answer)
                return NULL;
        atomic_init(&answer->references, 1);
        answer->count = count;
        return answer;
}

struct weir__answer *
weir__answer_problem(int status, const char *format, ...)
{
        char text[WEIR__HOST_BYTES + 256];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        size_t size = strlen(text) + 1;
        struct weir__answer *answer = status == -ENOMEM ? NULL : malloc(sizeof *answer + size);
        if (!answer)
                return weir__answer_ref(&no_memory);
        memset(answer, 0, sizeof *answer);
        atomic_init(&answer->references, 1);
        answer->status = status;
        answer->problem = memcpy(answer->at, text, size);
        return answer;
}

void
weir__answer_unref(struct weir__answer *answer)
{
        if (answer && atomic_fetch_sub_explicit(&answer->references, 1, memory_order_acq_rel) == 1)
                free(answer);
}

/* -- the cache -- */

struct weir__name_cache *
weir__name_cache_new(size_t most)
{
        size_t buckets = 16;

        while (buckets < most)
                buckets *= 2;
        struct weir__name_cache *cache = calloc(1, sizeof *cache + buckets * sizeof *cache->buckets);
        if (!cache)
                return NULL;
        cache->most = most;
        cache->mask = buckets - 1;
        return cache;
}

void
weir__name_cache_free(struct weir__name_cache *cache)
{
        struct weir__list left = {0};

        if (!cache)
                return;
        weir__name_cache_flush(cache, &left);
        weir__cached_free_all(&left);
        free(cache);
}

static struct weir__list *
bucket_of(struct weir__name_cache *cache, uint64_t hash)
{
        return &cache->buckets[hash & cache->mask];
}

static bool
is_of(const struct weir__cached *entry, const struct weir__host_key *key)
{
        return entry->hash == key->hash && entry->family == key->family && entry->size == key->size &&
               memcmp(entry->name, key->name, key->size) == 0;
}

static struct weir__cached *
find(struct weir__name_cache *cache, const struct weir__host_key *key)
{
        struct weir__list *bucket = bucket_of(cache, key->hash);

        for (struct weir__link *link = weir__list_first(bucket); link; link = weir__list_next(bucket, link)) {
                struct weir__cached *entry = weir__container_of(link, struct weir__cached, chain);

                if (is_of(entry, key))
                        return entry;
        }
        return NULL;
}

static void
leave(struct weir__name_cache *cache, struct weir__cached *entry, struct weir__list *left)
{
        weir__link_remove(&entry->chain);
        weir__link_remove(&entry->used);
        weir__list_append(left, &entry->used);
        cache->count--;
}

struct weir__answer *
weir__name_cache_find(struct weir__name_cache *cache, const struct weir__host_key *key, weir_nsec now, struct weir__list *left)
{
        struct weir__cached *entry = find(cache, key);

        if (!entry)
                return NULL;
        if (now >= entry->expires_at) {
                leave(cache, entry, left);
                return NULL;
        }
        weir__link_remove(&entry->used);
        weir__list_append(&cache->used, &entry->used);
        return weir__answer_ref(entry->answer);
}

struct weir__cached *
weir__cached_new(const struct weir__host_key *key, struct weir__answer *answer, weir_nsec expires_at)
{
        struct weir__cached *entry = calloc(1, sizeof *entry + key->size);

        if (!entry)
                return NULL;
        entry->answer = weir__answer_ref(answer);
        entry->expires_at = expires_at;
        entry->hash = key->hash;
        entry->family = key->family;
        entry->size = key->size;
        memcpy(entry->name, key->name, key->size);
        return entry;
}

void
weir__name_cache_put(struct weir__name_cache *cache, struct weir__cached *entry, struct weir__list *left)
{
        const struct weir__host_key key = {entry->name, entry->size, entry->family, entry->hash};
        struct weir__cached *before = find(cache, &key);

        if (before)
                leave(cache, before, left);
        else if (cache->count == cache->most)
                leave(cache, weir__container_of(weir__list_first(&cache->used), struct weir__cached, used), left);
        weir__list_append(bucket_of(cache, entry->hash), &entry->chain);
        weir__list_append(&cache->used, &entry->used);
        cache->count++;
}

void
weir__name_cache_flush(struct weir__name_cache *cache, struct weir__list *left)
{
        struct weir__link *link;

        while ((link = weir__list_first(&cache->used)))
                leave(cache, weir__container_of(link, struct weir__cached, used), left);
}

void
weir__cached_free_all(struct weir__list *left)
{
        struct weir__link *link;

        while ((link = weir__list_pop(left))) {
                struct weir__cached *entry = weir__container_of(link, struct weir__cached, used);

                weir__answer_unref(entry->answer);
                free(entry);
        }
}
