/* client/cookies/cookie.c: a cookie in a jar, which several may read at once.
 *
 * Threads: any.  A cookie does not change while it is in a store, but for its links.
 * Locks:   none. */
#include "client/cookies/cookie.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/route/url_parts.h"

static const char *
keep(char **out, struct weir__set_cookie_part part)
{
        char *text = *out;

        *out = mempcpy(text, part.text, part.size);
        *(*out)++ = '\0';
        return text;
}

struct weir__cookie *
weir__cookie_new(const struct weir__cookie_parts *parts)
{
        size_t size = parts->domain.size + parts->path.size + parts->name.size + parts->value.size + 4;
        struct weir__cookie *cookie = malloc(sizeof *cookie + size);

        if (!cookie)
                return NULL;
        *cookie = (struct weir__cookie){
                .refs = 1,
                .expires = parts->expires,
                .domain_size = parts->domain.size,
                .path_size = parts->path.size,
                .name_size = parts->name.size,
                .value_size = parts->value.size,
                .same_site = parts->same_site,
                .is_host_only = parts->is_host_only,
                .is_secure = parts->is_secure,
                .is_http_only = parts->is_http_only,
        };
        char *out = cookie->memory;
        cookie->domain = keep(&out, parts->domain);
        weir__url_lower(cookie->memory, parts->domain.size);
        cookie->path = keep(&out, parts->path);
        cookie->name = keep(&out, parts->name);
        cookie->value = keep(&out, parts->value);
        return cookie;
}

void
weir__cookie_unref(struct weir__cookie *cookie)
{
        if (atomic_fetch_sub_explicit(&cookie->refs, 1, memory_order_acq_rel) == 1)
                free(cookie);
}

void
weir__cookie_unref_all(struct weir__list *cookies)
{
        struct weir__link *link;

        while ((link = weir__list_pop(cookies)) != NULL)
                weir__cookie_unref(weir__container_of(link, struct weir__cookie, in_use));
}
