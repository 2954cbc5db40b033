/* client/cookies/store.c: the cookies of a jar: found by host and path, bounded.
 *
 * A bucket has all cookies whose domains end with the same two labels.  So all that can go to a host are in one bucket.
 *
 * Threads: any, under the owner's lock.
 * Locks:   the owner's. */
#include "client/cookies/store.h"

#include <string.h>

#include "client/cookies/match.h"

static struct weir__list *
bucket_of(struct weir__cookie_store *store, const char *domain, size_t size)
{
        const char *base = weir__match_base(domain, size);
        uint32_t hash = 2166136261; /* FNV-1a.  Strangers can make a bucket long, but not the store. */

        for (const char *at = base; at < domain + size; at++)
                hash = (hash ^ (unsigned char)*at) * 16777619;
        return &store->buckets[(hash ^ hash >> 16) % WEIR__COOKIE_BUCKETS];
}

static struct weir__cookie *
cookie_of(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__cookie, in_bucket) : NULL;
}

/* Walks a bucket; the cookie may be taken out. */
#define FOR_EACH_IN(bucket, cookie)                                     \
        for (struct weir__link *at_ = weir__list_first(bucket), *next_; \
             ((cookie) = cookie_of(at_)) != NULL && (next_ = weir__list_next((bucket), at_), true); at_ = next_)

static void
drop(struct weir__cookie_store *store, struct weir__cookie *cookie, struct weir__list *dropped)
{
        weir__link_remove(&cookie->in_bucket);
        weir__link_remove(&cookie->in_use);
        weir__list_append(dropped, &cookie->in_use);
        store->count--;
}

static void
use(struct weir__cookie_store *store, struct weir__cookie *cookie)
{
        if (weir__link_is_used(&cookie->in_use))
                weir__link_remove(&cookie->in_use);
        weir__list_append(&store->in_use, &cookie->in_use);
        cookie->used = ++store->used;
}

static bool
is_equal(const char *one, size_t one_size, const char *other, size_t other_size)
{
        return one_size == other_size && memcmp(one, other, one_size) == 0;
}

static bool
has_domain_of(const struct weir__cookie *one, const struct weir__cookie *other)
{
        return is_equal(one->domain, one->domain_size, other->domain, other->domain_size);
}

static bool
has_name_of(const struct weir__cookie *one, const struct weir__cookie *other)
{
        return is_equal(one->name, one->name_size, other->name, other->name_size);
}

static bool
replaces(const struct weir__cookie *one, const struct weir__cookie *other)
{
        return has_name_of(one, other) && has_domain_of(one, other) && one->is_host_only == other->is_host_only &&
               is_equal(one->path, one->path_size, other->path, other->path_size);
}

/* -- bounds -- */

static void
drop_expired(struct weir__cookie_store *store, int64_t now, struct weir__list *dropped)
{
        struct weir__link *link = weir__list_first(&store->in_use);

        store->first_end = INT64_MAX;
        while (link) {
                struct weir__cookie *cookie = weir__container_of(link, struct weir__cookie, in_use);

                link = weir__list_next(&store->in_use, link);
                if (cookie->expires <= now)
                        drop(store, cookie, dropped);
                else if (cookie->expires < store->first_end)
                        store->first_end = cookie->expires;
        }
}

static void
bound_domain(struct weir__cookie_store *store, struct weir__list *bucket, const struct weir__cookie *added, int64_t now,
             struct weir__list *dropped)
{
        struct weir__cookie *cookie, *oldest = NULL;
        size_t count = 0;

        FOR_EACH_IN(bucket, cookie)
        {
                if (!has_domain_of(cookie, added))
                        continue;
                if (cookie->expires <= now) {
                        drop(store, cookie, dropped);
                        continue;
                }
                count++;
                if (!oldest || cookie->used < oldest->used)
                        oldest = cookie;
        }
        if (count > WEIR__COOKIES_OF_DOMAIN)
                drop(store, oldest, dropped);
}

static void
bound_all(struct weir__cookie_store *store, int64_t now, struct weir__list *dropped)
{
        if (store->count > WEIR__COOKIES_MAX && store->first_end <= now)
                drop_expired(store, now, dropped);
        if (store->count > WEIR__COOKIES_MAX)
                drop(store, weir__container_of(weir__list_first(&store->in_use), struct weir__cookie, in_use), dropped);
}

/* -- calls -- */

/* Whether a cookie goes to that domain, or to all names below it. */
static bool
reaches(const struct weir__cookie *cookie, const char *domain, size_t size)
{
        return cookie->is_host_only ? is_equal(domain, size, cookie->domain, cookie->domain_size)
                                    : weir__match_domain(domain, size, cookie->domain, cookie->domain_size);
}

/* Whether a cookie from plain HTTP would go beside a secure one of its name in some request.
 *
 * Source: draft-ietf-httpbis-rfc6265bis section 5.7, "leave secure cookies alone".  It also refuses a cookie for a host alone,
 *         above the domain of the secure one.  No request has both, and they may be in two buckets. */
static bool
hides_secure(struct weir__list *bucket, const struct weir__cookie *added, int64_t now)
{
        struct weir__cookie *other;

        FOR_EACH_IN(bucket, other)
        if (other->is_secure && other->expires > now && has_name_of(other, added) &&
            (reaches(other, added->domain, added->domain_size) || reaches(added, other->domain, other->domain_size)) &&
            weir__match_path(added->path, added->path_size, other->path, other->path_size))
                return true;
        return false;
}

bool
weir__cookie_store_add(struct weir__cookie_store *store, struct weir__cookie *cookie, bool is_secure, int64_t now,
                       struct weir__list *dropped)
{
        struct weir__list *bucket = bucket_of(store, cookie->domain, cookie->domain_size);
        struct weir__cookie *other;

        if (!is_secure && hides_secure(bucket, cookie, now))
                return false;
        cookie->made = ++store->made;
        FOR_EACH_IN(bucket, other)
        if (replaces(cookie, other)) {
                cookie->made = other->made;
                drop(store, other, dropped);
        }
        if (cookie->expires <= now) {
                weir__list_append(dropped, &cookie->in_use);
                return true;
        }
        weir__list_append(bucket, &cookie->in_bucket);
        use(store, cookie);
        store->count++;
        if (cookie->expires < store->first_end)
                store->first_end = cookie->expires;
        bound_domain(store, bucket, cookie, now, dropped);
        bound_all(store, now, dropped);
        return true;
}

static bool
goes_to(const struct weir__cookie *cookie, const struct weir__cookie_origin *origin)
{
        if (cookie->is_secure && !origin->is_secure)
                return false;
        if (cookie->is_host_only ? !is_equal(cookie->domain, cookie->domain_size, origin->host, origin->host_size)
                                 : !weir__match_domain(origin->host, origin->host_size, cookie->domain, cookie->domain_size))
                return false;
        if (origin->path_size == 0)
                return weir__match_path("/", 1, cookie->path, cookie->path_size);
        return weir__match_path(origin->path, origin->path_size, cookie->path, cookie->path_size);
}

static bool
comes_before(const struct weir__cookie *one, const struct weir__cookie *other)
{
        return one->path_size != other->path_size ? one->path_size > other->path_size : one->made < other->made;
}

size_t
weir__cookie_store_find(struct weir__cookie_store *store, const struct weir__cookie_origin *origin, int64_t now,
                        struct weir__cookie *found[WEIR__COOKIES_OF_REQUEST], struct weir__list *dropped)
{
        struct weir__list *bucket = bucket_of(store, origin->host, origin->host_size);
        struct weir__cookie *cookie;
        size_t count = 0;

        FOR_EACH_IN(bucket, cookie)
        {
                if (cookie->expires <= now) {
                        drop(store, cookie, dropped);
                        continue;
                }
                if (!goes_to(cookie, origin))
                        continue;
                size_t at = count;
                while (at > 0 && comes_before(cookie, found[at - 1]))
                        at--;
                if (at == WEIR__COOKIES_OF_REQUEST)
                        continue;
                count += count < WEIR__COOKIES_OF_REQUEST;
                memmove(&found[at + 1], &found[at], (count - 1 - at) * sizeof *found);
                found[at] = cookie;
        }
        for (size_t i = 0; i < count; i++) {
                use(store, found[i]);
                weir__cookie_ref(found[i]);
        }
        return count;
}

size_t
weir__cookie_store_all(struct weir__cookie_store *store, int64_t now, struct weir__cookie **all, size_t room)
{
        size_t count = 0;

        for (struct weir__link *link = weir__list_first(&store->in_use); link && count < room;
             link = weir__list_next(&store->in_use, link)) {
                struct weir__cookie *cookie = weir__container_of(link, struct weir__cookie, in_use);

                if (cookie->expires > now)
                        all[count++] = weir__cookie_ref(cookie);
        }
        return count;
}

void
weir__cookie_store_clear(struct weir__cookie_store *store, struct weir__list *dropped)
{
        struct weir__link *link;

        while ((link = weir__list_first(&store->in_use)) != NULL)
                drop(store, weir__container_of(link, struct weir__cookie, in_use), dropped);
}
