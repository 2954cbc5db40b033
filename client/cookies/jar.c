/* client/cookies/jar.c: which cookies a jar takes, and what it sends.
 *
 * Threads: any.
 * Locks:   jar->lock, a leaf, around each call of the store.  Nothing is allocated, written or freed under it. */
#include "client/cookies/jar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>

#include "client/cookies/match.h"
#include "client/cookies/suffix.h"
#include "kernel/worker/user.h"
#include "protocol/route/url_parts.h"

int64_t
weir__cookie_jar_now(void)
{
        return weir_wall_now() / WEIR_SEC(1);
}

weir_cookie_jar *
weir_cookie_jar_new(void)
{
        weir_cookie_jar *jar = calloc(1, sizeof *jar);

        if (!jar)
                return NULL;
        atomic_init(&jar->refs, 1);
        weir__lock_init(&jar->lock, WEIR__RANK_LEAF);
        return jar;
}

weir_cookie_jar *
weir_cookie_jar_ref(weir_cookie_jar *jar)
{
        if (jar)
                atomic_fetch_add_explicit(&jar->refs, 1, memory_order_relaxed);
        return jar;
}

void
weir_cookie_jar_unref(weir_cookie_jar *jar)
{
        if (!jar || atomic_fetch_sub_explicit(&jar->refs, 1, memory_order_acq_rel) > 1)
                return;
        weir_cookie_jar_clear(jar);
        free(jar);
}

/* -- what is taken -- */

/* Whose cookie it is: of the domain that it names, if the host is in that, or of the host alone.  `lower` has room for the
 * domain.
 *
 * Source: RFC 6265 section 5.3, steps 5 and 6. */
static int
take_domain(struct weir__cookie_parts *parts, const struct weir__set_cookie *cookie, const struct weir__cookie_origin *origin,
            char *lower)
{
        size_t size = cookie->domain.size;

        parts->domain = (struct weir__set_cookie_part){origin->host, origin->host_size};
        parts->is_host_only = true;
        if (size == 0)
                return 0;
        *(char *)mempcpy(lower, cookie->domain.text, size) = '\0';
        weir__url_lower(lower, size);
        if (!weir__match_domain(origin->host, origin->host_size, lower, size))
                return -EPERM;
        if (weir__suffix_is_public(lower))
                return size == origin->host_size ? 0 : -EPERM;
        parts->domain = (struct weir__set_cookie_part){lower, size};
        parts->is_host_only = false;
        return 0;
}

static int
take_path(struct weir__cookie_parts *parts, const struct weir__set_cookie *cookie, const struct weir__cookie_origin *origin)
{
        size_t size = weir__match_default_path(origin->path, origin->path_size);

        parts->path = cookie->path;
        if (cookie->path.size > 0)
                return 0;
        parts->path = size > 0 ? (struct weir__set_cookie_part){origin->path, size} : (struct weir__set_cookie_part){"/", 1};
        return size > WEIR__SET_COOKIE_ATTRIBUTE ? -EMSGSIZE : 0;
}

static int
take(struct weir__cookie_parts *parts, const struct weir__set_cookie *cookie, const struct weir__cookie_origin *origin,
     char *lower)
{
        bool is_root = cookie->path.size == 1;
        int failed;

        *parts = (struct weir__cookie_parts){
                .name = cookie->name,
                .value = cookie->value,
                .expires = cookie->expires,
                .same_site = cookie->same_site,
                .is_secure = cookie->is_secure,
                .is_http_only = cookie->is_http_only,
        };
        if (cookie->is_secure && !origin->is_secure)
                return -EPERM;
        if ((failed = take_domain(parts, cookie, origin, lower)) != 0 || (failed = take_path(parts, cookie, origin)) != 0)
                return failed;
        return weir__set_cookie_keeps_prefix(cookie->name.text, cookie->name.size, cookie->is_secure,
                                             parts->is_host_only && cookie->domain.size == 0, is_root)
                       ? 0
                       : -EPERM;
}

static bool
add(weir_cookie_jar *jar, struct weir__cookie *cookie, bool is_secure, int64_t now)
{
        struct weir__list dropped = {0};

        weir__lock(&jar->lock);
        bool is_added = weir__cookie_store_add(&jar->store, cookie, is_secure, now, &dropped);
        weir__unlock(&jar->lock);
        weir__cookie_unref_all(&dropped);
        return is_added;
}

void
weir__cookie_jar_add(weir_cookie_jar *jar, struct weir__cookie *cookie, int64_t now)
{
        add(jar, cookie, true, now);
}

/* Result: as weir_cookie_jar_set. */
static int
store(weir_cookie_jar *jar, const struct weir__cookie_origin *origin, const char *set_cookie, size_t size)
{
        int64_t now = weir__cookie_jar_now();
        struct weir__set_cookie read;
        struct weir__cookie_parts parts;
        char lower[WEIR__SET_COOKIE_ATTRIBUTE + 1];
        int failed = weir__set_cookie_read(set_cookie, size, now, &read);

        failed = failed ? failed : take(&parts, &read, origin, lower);
        if (failed)
                return failed;
        struct weir__cookie *cookie = weir__cookie_new(&parts);
        if (!cookie)
                return -ENOMEM;
        if (add(jar, cookie, origin->is_secure, now))
                return 0;
        weir__cookie_unref(cookie);
        return -EPERM;
}

/* -- what is sent -- */

struct output {
        char *out;
        size_t room, size;
};

static void
put(struct output *output, const char *text, size_t size)
{
        if (output->size < output->room) {
                size_t left = output->room - output->size;

                memcpy(output->out + output->size, text, size < left ? size : left);
        }
        output->size += size;
}

/* Result: as weir_cookie_jar_header. */
static size_t
write_header(weir_cookie_jar *jar, const struct weir__cookie_origin *origin, char *out, size_t room)
{
        struct weir__cookie *found[WEIR__COOKIES_OF_REQUEST];
        struct weir__list dropped = {0};
        struct output output = {.out = out, .room = room};
        int64_t now = weir__cookie_jar_now();

        weir__lock(&jar->lock);
        size_t count = weir__cookie_store_find(&jar->store, origin, now, found, &dropped);
        weir__unlock(&jar->lock);
        weir__cookie_unref_all(&dropped);
        for (size_t i = 0; i < count; i++) {
                put(&output, "; ", i > 0 ? 2 : 0);
                put(&output, found[i]->name, found[i]->name_size);
                put(&output, "=", 1);
                put(&output, found[i]->value, found[i]->value_size);
                weir__cookie_unref(found[i]);
        }
        if (room > 0)
                out[output.size < room ? output.size : room - 1] = '\0';
        return output.size;
}

/* -- by URL -- */

static bool
is_scheme(const weir_url *url, const char *plain, const char *secure, bool *is_secure)
{
        const char *scheme = weir_url_scheme(url);

        *is_secure = strcmp(scheme, secure) == 0;
        return *is_secure || strcmp(scheme, plain) == 0;
}

static bool
lay_origin(const weir_url *url, struct weir__cookie_origin *origin)
{
        if (!url || (!is_scheme(url, "http", "https", &origin->is_secure) && !is_scheme(url, "ws", "wss", &origin->is_secure)))
                return false;
        origin->host = weir_url_host(url);
        origin->host_size = strlen(origin->host);
        origin->path = weir_url_path(url);
        origin->path_size = strlen(origin->path);
        return true;
}

int
weir_cookie_jar_set(weir_cookie_jar *jar, const weir_url *url, const char *set_cookie)
{
        struct weir__cookie_origin origin;

        if (!jar || !set_cookie || !lay_origin(url, &origin))
                return -EINVAL;
        return store(jar, &origin, set_cookie, strlen(set_cookie));
}

size_t
weir_cookie_jar_header(weir_cookie_jar *jar, const weir_url *url, char *out, size_t room)
{
        struct weir__cookie_origin origin;

        if (jar && lay_origin(url, &origin))
                return write_header(jar, &origin, out, room);
        if (room > 0)
                *out = '\0';
        return 0;
}

/* -- all of them -- */

size_t
weir_cookie_jar_count(weir_cookie_jar *jar)
{
        if (!jar)
                return 0;
        weir__lock(&jar->lock);
        size_t count = jar->store.count;
        weir__unlock(&jar->lock);
        return count;
}

void
weir_cookie_jar_clear(weir_cookie_jar *jar)
{
        struct weir__list dropped = {0};

        if (!jar)
                return;
        weir__lock(&jar->lock);
        weir__cookie_store_clear(&jar->store, &dropped);
        weir__unlock(&jar->lock);
        weir__cookie_unref_all(&dropped);
}

struct weir__cookie **
weir__cookie_jar_all(weir_cookie_jar *jar, size_t *ret_count)
{
        struct weir__cookie **all = calloc(WEIR__COOKIES_MAX + 1, sizeof *all);

        if (!all)
                return NULL;
        int64_t now = weir__cookie_jar_now();
        weir__lock(&jar->lock);
        *ret_count = weir__cookie_store_all(&jar->store, now, all, WEIR__COOKIES_MAX);
        weir__unlock(&jar->lock);
        return all;
}

void
weir__cookie_jar_release(struct weir__cookie **all)
{
        for (struct weir__cookie **at = all; *at; at++)
                weir__cookie_unref(*at);
        free(all);
}

ssize_t
weir_cookie_jar_each(weir_cookie_jar *jar, weir_cookie_fn *fn, void *context)
{
        size_t count;

        if (!jar || !fn)
                return -EINVAL;
        struct weir__cookie **all = weir__cookie_jar_all(jar, &count);
        if (!all)
                return -ENOMEM;
        void *fiber = weir__user_hide_fiber();
        for (size_t i = 0; i < count; i++) {
                struct weir_cookie cookie = {
                        .name = all[i]->name,
                        .value = all[i]->value,
                        .domain = all[i]->domain,
                        .path = all[i]->path,
                        .expires = all[i]->expires == WEIR__SET_COOKIE_SESSION ? WEIR_FOREVER : all[i]->expires * WEIR_SEC(1),
                        .same_site = all[i]->same_site,
                        .is_host_only = all[i]->is_host_only,
                        .is_secure = all[i]->is_secure,
                        .is_http_only = all[i]->is_http_only,
                };

                fn(&cookie, context);
        }
        weir__user_show_fiber(fiber);
        weir__cookie_jar_release(all);
        return (ssize_t)count;
}
