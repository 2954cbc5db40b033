/* client/tunnel/proxy.c: the text of a proxy.
 *
 * Threads: any. */
#include "client/tunnel/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weir/url.h>

#include "protocol/text/bytes.h"

struct scheme {
        const char *name;
        enum weir__proxy_kind kind;
        bool is_secure;
        int port;
};

static const struct scheme schemes[] = {{"http", WEIR__PROXY_HTTP, false, 80},
                                        {"https", WEIR__PROXY_HTTP, true, 443},
                                        {"socks5", WEIR__PROXY_SOCKS5, false, 1080},
                                        {"socks5h", WEIR__PROXY_SOCKS5, false, 1080}};

static int
fail(struct weir__proxy_fault *fault, size_t at, const char *text)
{
        *fault = (struct weir__proxy_fault){at, text};
        return -EINVAL;
}

/* Returns NULL for an unknown one.  *rest: what follows it. */
static const struct scheme *
find_scheme(const char *text, const char **rest)
{
        const char *end = strstr(text, "://");

        *rest = end ? end + strlen("://") : text;
        if (!end)
                return &schemes[0];
        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
                if (strlen(schemes[i].name) == (size_t)(end - text) &&
                    strncasecmp(schemes[i].name, text, (size_t)(end - text)) == 0)
                        return &schemes[i];
        return NULL;
}

/* Whether a port is written behind the host. */
static bool
has_port(const char *rest)
{
        const char *user = strrchr(rest, '@'), *host = user ? user + 1 : rest, *v6 = strchr(host, ']'),
                   *colon = strchr(v6 ? v6 : host, ':');

        return colon && weir__byte_is(colon[1], WEIR__BYTE_DIGIT);
}

/* Decodes a part of the userinfo.  Result: 0; -EINVAL: it is too long, or has a NUL; -ENOMEM. */
static int
decode(const char *text, size_t size, char **out)
{
        size_t length;

        *out = weir_percent_decode(text, size, &length);
        if (!*out)
                return -errno;
        return length > WEIR__PROXY_SECRET || strlen(*out) < length ? -EINVAL : 0;
}

static int
authorize(struct weir__proxy *proxy)
{
        static const char scheme[] = "Basic ";
        char *plain;

        if (strchr(proxy->user, ':'))
                return -EINVAL;
        int size = asprintf(&plain, "%s:%s", proxy->user, proxy->password);
        if (size < 0)
                return -ENOMEM;
        proxy->authorization = malloc(sizeof scheme + WEIR__BASE64_SIZE((size_t)size));
        if (proxy->authorization) {
                memcpy(proxy->authorization, scheme, sizeof scheme);
                weir__bytes_base64(proxy->authorization + sizeof scheme - 1, plain, (size_t)size);
        }
        explicit_bzero(plain, (size_t)size);
        free(plain);
        return proxy->authorization ? 0 : -ENOMEM;
}

/* Source: RFC 7617, RFC 1929. */
static int
set_user(struct weir__proxy *proxy, const char *userinfo)
{
        const char *colon = strchrnul(userinfo, ':'), *password = *colon ? colon + 1 : colon;
        int failed = decode(userinfo, (size_t)(colon - userinfo), &proxy->user);

        failed = failed ? failed : decode(password, strlen(password), &proxy->password);
        if (failed)
                return failed;
        if (proxy->kind == WEIR__PROXY_SOCKS5)
                return proxy->user[0] && proxy->password[0] ? 0 : -EINVAL;
        return authorize(proxy);
}

static int
set_address(struct weir__proxy *proxy, const struct scheme *scheme, const weir_url *url, int port)
{
        const char *host = weir_url_host(url);
        bool is_v6 = strchr(host, ':');

        if (asprintf(&proxy->address, is_v6 ? "[%s]:%d" : "%s:%d", host, port) < 0)
                proxy->address = NULL;
        else if (asprintf(&proxy->name, "%s://%s", scheme->name, proxy->address) < 0)
                proxy->name = NULL;
        return proxy->name ? 0 : -ENOMEM;
}

static const char *
excess_of(const weir_url *url)
{
        const char *path = weir_url_path(url);

        if ((path[0] && strcmp(path, "/") != 0) || weir_url_query(url) || weir_url_fragment(url))
                return "there is more behind the host: expected nothing, or a port";
        return NULL;
}

/* `rest` is what stands behind the scheme, at byte `at`. */
static int
fill(struct weir__proxy *proxy, const struct scheme *scheme, const weir_url *url, const char *rest, size_t at,
     struct weir__proxy_fault *fault)
{
        int port = has_port(rest) ? weir_url_port(url) : scheme->port;
        const char *userinfo = weir_url_userinfo(url);

        if (excess_of(url))
                return fail(fault, at + strcspn(rest, "/?#"), excess_of(url));
        if (port == 0)
                return fail(fault, at, "the port is 0: expected 1 to 65535");
        proxy->kind = scheme->kind;
        proxy->is_secure = scheme->is_secure;
        int failed = userinfo ? set_user(proxy, userinfo) : 0;
        if (failed == -EINVAL)
                return fail(fault, at,
                            proxy->kind == WEIR__PROXY_SOCKS5
                                    ? "the user: expected a name and a password of 1 to 255 bytes each, and no NUL"
                                    : "the user: expected a name without a colon and a password, at most 255 bytes each, no NUL");
        return failed ? failed : set_address(proxy, scheme, url, port);
}

/* The parser of URLs checks hosts of http strictly, so the rest is read as one of http. */
static int
read_rest(const char *rest, weir_url **url, struct weir_url_problem *problem)
{
        static const char prefix[] = "http://";
        char *text;
        int size = asprintf(&text, "%s%s", prefix, rest);

        if (size < 0)
                return -ENOMEM;
        *url = weir_url_parse(text, problem);
        int failed = *url ? 0 : errno == ENOMEM ? -ENOMEM : -EINVAL;
        problem->at = problem->at < sizeof prefix - 1 ? 0 : problem->at - (sizeof prefix - 1);
        explicit_bzero(text, (size_t)size);
        free(text);
        return failed;
}

int
weir__proxy_parse(const char *text, struct weir__proxy **made, struct weir__proxy_fault *fault)
{
        const char *rest;
        const struct scheme *scheme = find_scheme(text, &rest);
        struct weir_url_problem problem = {0, ""};
        size_t at = (size_t)(rest - text);
        weir_url *url = NULL;

        if (!scheme)
                return fail(fault, 0, "the scheme is unknown: expected http, https or socks5");
        int failed = read_rest(rest, &url, &problem);
        if (failed)
                return failed == -EINVAL ? fail(fault, at + problem.at, problem.text) : failed;
        struct weir__proxy *proxy = calloc(1, sizeof *proxy);
        failed = proxy ? fill(proxy, scheme, url, rest, at, fault) : -ENOMEM;
        weir_url_free(url);
        if (failed)
                weir__proxy_free(proxy);
        else
                *made = proxy;
        return failed;
}

void
weir__proxy_free(struct weir__proxy *proxy)
{
        if (!proxy)
                return;
        free(proxy->address);
        free(proxy->name);
        free(proxy->authorization);
        free(proxy->user);
        free(proxy->password);
        free(proxy);
}
