/* protocol/route/url.c: URLs as objects: parsed, resolved and built.
 *
 * A URL is one block: the struct, and behind it all texts that a program can ask for.  A URL that is resolved or built is put
 * together as a text first, and parsed.  So no URL avoids the checks.
 *
 * Threads: any; a URL does not change.  No locks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/route/form.h"
#include "protocol/route/url_parts.h"

/* Constant after creation. */
struct weir_url {
        const char *text, *redacted, *normal;
        const char *scheme, *userinfo, *host, *path, *query, *fragment; /* those that are absent are NULL */
        const char *target, *host_field, *address;
        int port;
        char memory[];
};

static weir_url *
out_of_memory(struct weir_url_problem *problem)
{
        weir__url_refuse(problem, 0, "out of memory", ENOMEM);
        return NULL;
}

static weir_url *
invalid(struct weir_url_problem *problem, size_t at, const char *text)
{
        weir__url_refuse(problem, at, text, EINVAL);
        return NULL;
}

static weir_url *
too_long(struct weir_url_problem *problem)
{
        weir__url_refuse(problem, WEIR_URL_MAX, "too long: expected at most 65535 bytes", EMSGSIZE);
        return NULL;
}

/* -- layout -- */

/* The end of a text that was put together, which gets its NUL.  The next one begins behind it. */
static const char *
end_text(char **out, char *end)
{
        const char *text = *out;

        *end = '\0';
        *out = end + 1;
        return text;
}

static const char *
keep(char **out, struct weir__url_part part)
{
        return part.text ? end_text(out, mempcpy(*out, part.text, part.size)) : NULL;
}

#define PORT_SIZE (sizeof ":65535") /* with its NUL */

static char *
put_port(char *out, int port)
{
        char digits[PORT_SIZE], *first = digits + sizeof digits;

        do
                *--first = (char)('0' + port % 10);
        while ((port /= 10));
        *out++ = ':';
        return mempcpy(out, first, (size_t)(digits + sizeof digits - first));
}

static const char *
keep_host(char **out, struct weir__url_part host, int port)
{
        char *end = mempcpy(*out, host.text, host.size);

        return end_text(out, port >= 0 ? put_port(end, port) : end);
}

/* What a request is made of. */
static void
lay_request(weir_url *url, const struct weir__url_parts *parts, char **out)
{
        int own = weir__url_default_port(&parts->scheme);

        if (!parts->host.text)
                return;
        url->host_field = keep_host(out, parts->host, url->port == own ? -1 : url->port);
        if (parts->host.size > 0 && url->port >= 0)
                url->address = url->port == own ? keep_host(out, parts->host, url->port) : url->host_field;
        char *end = *out;
        if (parts->path.size == 0)
                *end++ = '/';
        end = mempcpy(end, parts->path.text, parts->path.size);
        if (parts->query.text) {
                *end++ = '?';
                end = mempcpy(end, parts->query.text, parts->query.size);
        }
        url->target = end_text(out, end);
}

static void
lay_parts(weir_url *url, const struct weir__url_parts *parts, char **out)
{
        struct weir__url_part host = parts->host;

        if (host.size > 0 && host.text[0] == '[')
                host = (struct weir__url_part){host.text + 1, host.size - 2};
        url->scheme = keep(out, parts->scheme);
        url->userinfo = keep(out, parts->userinfo);
        url->host = keep(out, host);
        url->path = keep(out, parts->path);
        url->query = keep(out, parts->query);
        url->fragment = keep(out, parts->fragment);
        url->port = parts->port.size > 0 ? atoi(parts->port.text) : weir__url_default_port(&parts->scheme);
}

static void
lay_redacted(weir_url *url, const struct weir__url_parts *parts, char **out)
{
        struct weir__url_parts shown = *parts;

        shown.userinfo.text = NULL;
        url->redacted = parts->userinfo.text ? end_text(out, weir__url_compose(*out, &shown)) : url->text;
}

/* The memory behind a URL: its text; the parts; the target; host field and address; without userinfo; the normal form, twice, if
 * it is another text. */
static size_t
memory_of(const struct weir__url_parts *parts, size_t size, bool is_normal)
{
        return (size + 1) + (size + 6) + (size + 3) + 2 * (parts->host.size + PORT_SIZE) + (parts->userinfo.text ? size + 1 : 0) +
               (is_normal ? 0 : 2 * size + WEIR__URL_NORMAL_MORE + 1);
}

weir_url *
weir_url_parse_bytes(const char *text, size_t size, struct weir_url_problem *problem)
{
        struct weir__url_parts parts;

        if (!text)
                return invalid(problem, 0, "NULL: expected a text");
        if (!weir__url_read(&parts, text, size, NULL, problem))
                return NULL;
        bool is_normal = weir__url_is_normal(&parts, text, size);
        weir_url *url = malloc(sizeof *url + memory_of(&parts, size, is_normal));
        if (!url)
                return out_of_memory(problem);
        *url = (weir_url){.text = NULL};
        char *out = url->memory, *own = out;
        url->text = end_text(&out, mempcpy(out, text, size));
        weir__url_move(&parts, text, own);
        weir__url_lower(own, parts.scheme.size);
        if (parts.host.text)
                weir__url_lower(own + (parts.host.text - own), parts.host.size);
        lay_parts(url, &parts, &out);
        lay_request(url, &parts, &out);
        lay_redacted(url, &parts, &out);
        url->normal = url->text;
        if (!is_normal)
                url->normal = end_text(&out, weir__url_normalize(out, out + size + WEIR__URL_NORMAL_MORE + 1, own, size));
        return url;
}

weir_url *
weir_url_parse(const char *text, struct weir_url_problem *problem)
{
        /* A text that is far too long need not be read to its end. */
        return weir_url_parse_bytes(text, text ? strnlen(text, WEIR_URL_MAX + 1) : 0, problem);
}

void
weir_url_free(weir_url *url)
{
        free(url);
}

/* -- resolving -- */

/* The base's path up to its last slash, and that of the reference behind it.  Source: RFC 3986 section 5.2.3. */
static struct weir__url_part
merge(char *out, const struct weir__url_parts *base, struct weir__url_part path)
{
        const char *slash = memrchr(base->path.text, '/', base->path.size);
        char *end = out;

        if (base->host.text && base->path.size == 0)
                *end++ = '/';
        else if (slash)
                end = mempcpy(end, base->path.text, (size_t)(slash + 1 - base->path.text));
        end = mempcpy(end, path.text, path.size);
        return (struct weir__url_part){out, (size_t)(end - out)};
}

/* Makes the reference's parts those of the result.  `path` has room for both paths.  Source: RFC 3986 section 5.2.2. */
static void
transform(struct weir__url_parts *parts, const struct weir__url_parts *base, char *path)
{
        bool is_local = !parts->scheme.text && !parts->host.text;

        if (!parts->scheme.text)
                parts->scheme = base->scheme;
        if (is_local) {
                parts->userinfo = base->userinfo;
                parts->host = base->host;
                parts->port = base->port;
        }
        if (is_local && parts->path.size == 0) {
                parts->path = base->path;
                parts->query = parts->query.text ? parts->query : base->query;
                return;
        }
        if (is_local && parts->path.text[0] != '/')
                parts->path = merge(path, base, parts->path);
        else
                memcpy(path, parts->path.text, parts->path.size);
        parts->path = (struct weir__url_part){path, weir__url_remove_dots(path, parts->path.size)};
}

/* Parses what the parts make together. */
static weir_url *
compose(char *out, const struct weir__url_parts *parts, struct weir_url_problem *problem)
{
        return weir_url_parse_bytes(out, (size_t)(weir__url_compose(out, parts) - out), problem);
}

weir_url *
weir_url_resolve(const weir_url *base, const char *reference, struct weir_url_problem *problem)
{
        struct weir__url_parts own, parts;

        if (!base || !reference)
                return invalid(problem, 0, base ? "NULL: expected a reference" : "no base: expected a URL");
        size_t size = strnlen(reference, WEIR_URL_MAX + 1), base_size = strlen(base->text);
        weir__url_split(&own, base->text, base_size);
        if (!weir__url_read(&parts, reference, size, &own.scheme, problem))
                return NULL;
        size_t path = own.path.size + parts.path.size + 1;
        char *memory = malloc(path + weir__url_room(&own) + weir__url_room(&parts));
        if (!memory)
                return out_of_memory(problem);
        transform(&parts, &own, memory);
        weir_url *url = compose(memory + path, &parts, problem);
        free(memory);
        return url;
}

/* -- building -- */

/* Puts brackets around an IPv6 address that has none. */
static struct weir__url_part
in_brackets(char *out, struct weir__url_part host)
{
        char *end = out;

        *end++ = '[';
        end = mempcpy(end, host.text, host.size);
        *end++ = ']';
        return (struct weir__url_part){out, (size_t)(end - out)};
}

/* Checks the host, and makes the URL.  Places are counted in the host that the program has given. */
static weir_url *
build(char *memory, struct weir__url_parts *parts, struct weir_url_problem *problem)
{
        bool is_bare = parts->host.text[0] != '[' && memchr(parts->host.text, ':', parts->host.size);
        size_t taken = parts->host.size + 2;
        struct weir_url_problem ignored;

        if (is_bare)
                parts->host = in_brackets(memory, parts->host);
        problem = problem ? problem : &ignored;
        if (weir__url_check_host(&parts->host, &parts->scheme, problem))
                return compose(memory + taken, parts, problem);
        problem->at -= is_bare && problem->at > 0;
        return NULL;
}

weir_url *
weir_url_new(const char *scheme, const char *host, int port, struct weir_url_problem *problem)
{
        struct weir__url_parts parts = {.path = {"/", 1}};
        char digits[PORT_SIZE];

        if (!scheme || !host)
                return invalid(problem, 0, scheme ? "no host: expected one" : "no scheme: expected one");
        parts.scheme = (struct weir__url_part){scheme, strnlen(scheme, WEIR_URL_MAX)};
        parts.host = (struct weir__url_part){host, strnlen(host, WEIR_URL_MAX)};
        if (parts.scheme.size + parts.host.size >= WEIR_URL_MAX)
                return too_long(problem);
        if (!weir__url_check_scheme(&parts.scheme, problem))
                return NULL;
        if (port < 0 || port > UINT16_MAX)
                return invalid(problem, 0, "a port: expected 0 to 65535");
        if (port > 0)
                parts.port = (struct weir__url_part){digits, (size_t)snprintf(digits, sizeof digits, "%hu", (uint16_t)port)};
        char *memory = malloc(2 * (parts.host.size + 2) + weir__url_room(&parts));
        if (!memory)
                return out_of_memory(problem);
        weir_url *url = build(memory, &parts, problem);
        free(memory);
        return url;
}

/* The bytes that segments add to a path. */
static size_t
segments_size(const char *const *segments)
{
        size_t size = 0;

        for (size_t i = 0; segments && segments[i] && size <= WEIR_URL_MAX; i++)
                size += 1 + weir_percent_encode_to(NULL, 0, segments[i], strnlen(segments[i], WEIR_URL_MAX));
        return size;
}

static struct weir__url_part
extend_path(char *out, struct weir__url_part path, const char *const *segments)
{
        char *end = mempcpy(out, path.text, path.size);

        if (path.size > 0 && segments && segments[0] && end[-1] == '/')
                end--;
        for (size_t i = 0; segments && segments[i]; i++) {
                *end++ = '/';
                end += weir_percent_encode_to(end, SIZE_MAX, segments[i], strlen(segments[i]));
        }
        return (struct weir__url_part){out, (size_t)(end - out)};
}

static struct weir__url_part
extend_query(char *out, struct weir__url_part query, const struct weir_form_pair *pairs)
{
        char *end = out;

        if (!pairs || !pairs[0].name)
                return query;
        if (query.size > 0) {
                end = mempcpy(end, query.text, query.size);
                *end++ = '&';
        }
        end += weir__form_write(end, pairs);
        return (struct weir__url_part){out, (size_t)(end - out)};
}

static bool
is_dots(const char *segment)
{
        return strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0;
}

weir_url *
weir_url_extend(const weir_url *base, const char *const *segments, const struct weir_form_pair *pairs,
                struct weir_url_problem *problem)
{
        struct weir__url_parts parts;

        if (!base)
                return invalid(problem, 0, "no base: expected a URL");
        for (size_t i = 0; segments && segments[i]; i++)
                if (is_dots(segments[i]))
                        return invalid(problem, i, "a segment of dots: expected none that leads to another directory");
        size_t path = segments_size(segments), query = pairs ? weir__form_write(NULL, pairs) : 0;
        if (path > WEIR_URL_MAX || query > WEIR_URL_MAX)
                return too_long(problem);
        weir__url_split(&parts, base->text, strlen(base->text));
        path += parts.path.size + 1;
        query += parts.query.size + 2;
        char *memory = malloc(2 * path + 2 * query + weir__url_room(&parts));
        if (!memory)
                return out_of_memory(problem);
        parts.path = extend_path(memory, parts.path, segments);
        parts.query = extend_query(memory + path, parts.query, pairs);
        parts.fragment = (struct weir__url_part){NULL, 0};
        weir_url *url = compose(memory + path + query, &parts, problem);
        free(memory);
        return url;
}

/* -- what it has -- */

bool
weir_url_equal(const weir_url *one, const weir_url *other)
{
        return one && other && strcmp(one->normal, other->normal) == 0;
}

int
weir_url_port(const weir_url *url)
{
        return url ? url->port : -1;
}

const char *
weir_url_text(const weir_url *url)
{
        return url ? url->text : NULL;
}

const char *
weir_url_redacted(const weir_url *url)
{
        return url ? url->redacted : NULL;
}

const char *
weir_url_normal(const weir_url *url)
{
        return url ? url->normal : NULL;
}

const char *
weir_url_scheme(const weir_url *url)
{
        return url ? url->scheme : NULL;
}

const char *
weir_url_userinfo(const weir_url *url)
{
        return url ? url->userinfo : NULL;
}

const char *
weir_url_host(const weir_url *url)
{
        return url ? url->host : NULL;
}

const char *
weir_url_path(const weir_url *url)
{
        return url ? url->path : NULL;
}

const char *
weir_url_query(const weir_url *url)
{
        return url ? url->query : NULL;
}

const char *
weir_url_fragment(const weir_url *url)
{
        return url ? url->fragment : NULL;
}

const char *
weir_url_target(const weir_url *url)
{
        return url ? url->target : NULL;
}

const char *
weir_url_host_field(const weir_url *url)
{
        return url ? url->host_field : NULL;
}

const char *
weir_url_address(const weir_url *url)
{
        return url ? url->address : NULL;
}
