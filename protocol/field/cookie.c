/* protocol/field/cookie.c: cookies, as they come and as they are set.
 *
 * Cookies are read leniently, whatever bytes they hold, because browsers write them so.  Cookies that are set must follow the
 * grammar, so that every client reads them alike.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/field/cookie.h"

#define DOMAIN_MAX 253
#define LABEL_MAX  63

/* -- as they come -- */

struct found {
        const char *name, *value;
        size_t name_size, value_size;
};

static void
take_quotes_off(struct found *found)
{
        if (found->value_size >= 2 && found->value[0] == '"' && found->value[found->value_size - 1] == '"') {
                found->value++;
                found->value_size -= 2;
        }
}

/* Reads the text between two semicolons.  Returns false when it is no cookie. */
static bool
read_part(const char *part, size_t size, struct found *found)
{
        const char *equals = memchr(part, '=', size);

        if (!equals)
                return false;
        *found = (struct found){part, equals + 1, (size_t)(equals - part), size - (size_t)(equals - part) - 1};
        weir__bytes_trim(&found->name, &found->name_size);
        weir__bytes_trim(&found->value, &found->value_size);
        take_quotes_off(found);
        return found->name_size > 0;
}

static char *
put_text(char *out, const char *text, size_t size)
{
        memcpy(out, text, size);
        out[size] = '\0';
        return out + size + 1;
}

/* Adds the cookies of a field, at most `max` in all, and their text at `out`.  Returns the end of that. */
static char *
add_cookies(struct weir__pairs *pairs, size_t max, const char *value, char *out)
{
        size_t left = strlen(value), size;
        struct found found;
        const char *part;

        while (!pairs->has_more && weir__bytes_next_part(&value, &left, ';', &part, &size)) {
                if (!read_part(part, size, &found))
                        continue;
                pairs->has_more = pairs->count == max;
                if (pairs->has_more)
                        break;
                struct weir__pair *pair = &pairs->pairs[pairs->count++];
                pair->name = out;
                pair->value = out = put_text(out, found.name, found.name_size);
                out = put_text(out, found.value, found.value_size);
        }
        return out;
}

/* A name and a value take no more memory, with a NUL each, than the part that they are in, with '=' and ';'. */
int
weir__cookies_parse(const struct weir__request *request, size_t max, struct weir__pairs **ret_pairs)
{
        size_t room = 0, size = 0;
        const char *value;
        char *out;

        for (uint32_t at = 0; (value = weir__request_next(request, "cookie", &at)); room++) {
                size += strlen(value) + 1;
                while ((value = strchr(value, ';'))) {
                        value++;
                        room++;
                }
        }
        struct weir__pairs *pairs = weir__pairs_new(room < max ? room : max, size, &out);
        if (!pairs)
                return -ENOMEM;
        for (uint32_t at = 0; (value = weir__request_next(request, "cookie", &at));)
                out = add_cookies(pairs, max, value, out);
        *ret_pairs = pairs;
        return 0;
}

/* -- as they are set -- */

/* Whether all bytes are visible ASCII and none of `but`. */
static bool
is_visible_but(const char *text, const char *but)
{
        for (; *text; text++)
                if (*text <= ' ' || *text > '~' || strchr(but, *text))
                        return false;
        return true;
}

/* Labels of letters, digits and inner hyphens between dots.  Source: RFC 1034 section 3.5, RFC 1123 section 2.1. */
static bool
is_domain(const char *domain)
{
        size_t label;

        if (strlen(domain) > DOMAIN_MAX)
                return false;
        for (;; domain += label + 1) {
                label = strcspn(domain, ".");
                if (label == 0 || label > LABEL_MAX || domain[0] == '-' || domain[label - 1] == '-' ||
                    strspn(domain, "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") < label)
                        return false;
                if (domain[label] == '\0')
                        return true;
        }
}

/* A shorter name differs at its NUL at the latest. */
static bool
begins_with(const char *name, const char *prefix)
{
        return weir__bytes_equal(name, prefix, strlen(prefix));
}

/* Whether a browser would store it.  Source: draft-ietf-httpbis-rfc6265bis, sections 4.1.3 and 5.7. */
static bool
keeps_promises(const struct weir_http_cookie *cookie)
{
        bool is_host = begins_with(cookie->name, "__Host-");
        bool needs_secure = is_host || begins_with(cookie->name, "__Secure-") || cookie->same_site == WEIR_HTTP_SAME_SITE_NONE;

        return (!needs_secure || cookie->secure) && (!is_host || (!*cookie->domain && strcmp(cookie->path, "/") == 0));
}

static int
check(const struct weir_http_cookie *cookie)
{
        size_t name_size = strlen(cookie->name);

        if (name_size == 0 || weir__bytes_span(cookie->name, name_size, WEIR__BYTE_TOKEN) < name_size ||
            !is_visible_but(cookie->value, "\",;\\") || !is_visible_but(cookie->path, ";") ||
            (*cookie->path && *cookie->path != '/') || (*cookie->domain && !is_domain(cookie->domain)) ||
            (unsigned)cookie->same_site > WEIR_HTTP_SAME_SITE_UNSAID || !keeps_promises(cookie))
                return -EINVAL;
        return name_size + strlen(cookie->value) > WEIR__COOKIE_MAX || strlen(cookie->path) > WEIR__COOKIE_PATH_MAX ? -E2BIG : 0;
}

static char *
put_attribute(char *out, const char *name, const char *value)
{
        return *value ? stpcpy(stpcpy(out, name), value) : out;
}

static char *
put_age(char *out, weir_nsec age)
{
        if (age < 0) { /* the grammar has no Max-Age of 0 */
                return stpcpy(out, "; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        }
        return age > 0 ? out + sprintf(out, "; Max-Age=%" PRId64, (int64_t)((age - 1) / 1000000000 + 1)) : out;
}

int
weir__cookie_write(const struct weir_http_cookie *cookie, char out[WEIR__COOKIE_ROOM])
{
        static const char *const same_site[] = {"Lax", "Strict", "None", ""};
        struct weir_http_cookie filled = *cookie;
        int failed;

        filled.name = cookie->name ? cookie->name : "";
        filled.value = cookie->value ? cookie->value : "";
        filled.path = cookie->path ? cookie->path : "/";
        filled.domain = cookie->domain ? cookie->domain : "";
        failed = check(&filled);
        if (failed)
                return failed;
        out = stpcpy(stpcpy(stpcpy(out, filled.name), "="), filled.value);
        out = put_attribute(out, "; Path=", filled.path);
        out = put_attribute(out, "; Domain=", filled.domain);
        out = put_age(out, filled.max_age);
        out = put_attribute(out, "; SameSite=", same_site[filled.same_site]);
        out = stpcpy(out, filled.secure ? "; Secure" : "");
        stpcpy(out, filled.http_only ? "; HttpOnly" : "");
        return 0;
}
