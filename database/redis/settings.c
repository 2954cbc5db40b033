/* database/redis/settings.c: an address and a config, read once. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/log.h>
#include <weir/url.h>

#include "database/redis/redis.h"

#define PORT          6379
#define SENTINEL_PORT 26379
#define DATABASES     65536

/* -- life -- */

struct weir__redis_settings *
weir__redis_settings_ref(struct weir__redis_settings *settings)
{
        atomic_fetch_add_explicit(&settings->references, 1, memory_order_relaxed);
        return settings;
}

void
weir__redis_settings_unref(struct weir__redis_settings *settings)
{
        if (!settings || atomic_fetch_sub_explicit(&settings->references, 1, memory_order_acq_rel) != 1)
                return;
        for (size_t i = 0; i < settings->count; i++)
                free(settings->targets[i]);
        free(settings->targets);
        free(settings->user);
        free(settings->password);
        free(settings->name);
        free(settings->master);
        weir_tls_unref(settings->tls);
        free(settings);
}

/* -- an address -- */

/* All of these return 0, -EINVAL or -ENOMEM. */

static int
copy(char **out, const char *text)
{
        if (!text || !*text)
                return 0;
        free(*out);
        *out = strdup(text);
        return *out ? 0 : -ENOMEM;
}

static int
decode(char **out, const char *text, size_t size)
{
        char *decoded;

        if (!size)
                return 0;
        errno = 0;
        decoded = weir_percent_decode(text, size, NULL);
        if (!decoded)
                return errno == ENOMEM ? -ENOMEM : -EINVAL;
        free(*out);
        *out = decoded;
        return 0;
}

static int
add_target(struct weir__redis_settings *settings, char *target)
{
        char **targets = target ? realloc(settings->targets, (settings->count + 1) * sizeof *targets) : NULL;

        if (!targets) {
                free(target);
                return -ENOMEM;
        }
        settings->targets = targets;
        settings->targets[settings->count++] = target;
        return 0;
}

static int
read_userinfo(struct weir__redis_settings *settings, const char *text)
{
        size_t name = text ? strcspn(text, ":") : 0;
        int failed = decode(&settings->user, text, name);

        if (!failed && text && text[name] == ':')
                failed = decode(&settings->password, text + name + 1, strlen(text + name + 1));
        return failed;
}

static int
read_database(struct weir__redis_settings *settings, const char *text)
{
        char *end;

        if (!text || !*text)
                return 0;
        unsigned long value = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || value >= DATABASES)
                return -EINVAL;
        settings->database = (unsigned)value;
        return 0;
}

/* "host:port", with or without the port. */
static int
read_host(struct weir__redis_settings *settings, const char *text, size_t size)
{
        char whole[512], target[512];
        int written = snprintf(whole, sizeof whole, "redis://%.*s", (int)(size < 400 ? size : 400), text);
        weir_url *url = size < 400 && written > 0 ? weir_url_parse(whole, NULL) : NULL;

        if (!url)
                return size < 400 && errno == ENOMEM ? -ENOMEM : -EINVAL;
        const char *host = weir_url_host(url);
        int port = weir_url_port(url);
        port = port > 0 ? port : settings->mode == WEIR__REDIS_SENTINEL ? SENTINEL_PORT : PORT;
        bool is_valid = host && *host && !*weir_url_path(url);
        snprintf(target, sizeof target, host && strchr(host, ':') ? "[%s]:%d" : "%s:%d", host ? host : "", port);
        weir_url_free(url);
        return is_valid ? add_target(settings, strdup(target)) : -EINVAL;
}

static int
read_hosts(struct weir__redis_settings *settings, const char *text, size_t size)
{
        for (;;) {
                const char *comma = memchr(text, ',', size);
                size_t own = comma ? (size_t)(comma - text) : size;
                int failed = read_host(settings, text, own);

                if (failed || !comma)
                        return failed;
                if (settings->mode == WEIR__REDIS_SINGLE)
                        return -EINVAL;
                text += own + 1;
                size -= own + 1;
        }
}

/* What is behind the hosts: the name of a master, and the database. */
static int
read_path(struct weir__redis_settings *settings, const char *path)
{
        int failed;

        if (*path == '/')
                path++;
        if (settings->mode != WEIR__REDIS_SENTINEL)
                return read_database(settings, path);
        size_t name = strcspn(path, "/");
        failed = decode(&settings->master, path, name);
        if (!failed && !settings->master)
                failed = -EINVAL;
        return failed ? failed : read_database(settings, path[name] ? path + name + 1 : NULL);
}

static int
read_socket(struct weir__redis_settings *settings, const char *text)
{
        weir_url *url = weir_url_parse(text, NULL);
        const char *query = url ? weir_url_query(url) : NULL;
        char *path = NULL, *target = NULL;

        if (!url)
                return errno == ENOMEM ? -ENOMEM : -EINVAL;
        int failed = read_userinfo(settings, weir_url_userinfo(url));
        if (!failed)
                failed = *weir_url_path(url) == '/' ? decode(&path, weir_url_path(url), strlen(weir_url_path(url))) : -EINVAL;
        if (!failed && query)
                failed = strncmp(query, "db=", 3) == 0 ? read_database(settings, query + 3) : -EINVAL;
        if (!failed)
                failed = asprintf(&target, "unix:%s", path) < 0 ? -ENOMEM : add_target(settings, target);
        free(path);
        weir_url_free(url);
        return failed;
}

static int
read_servers(struct weir__redis_settings *settings, const char *text)
{
        size_t whole = strcspn(text, "/?#"), user = 0;
        char *userinfo = NULL;
        int failed = 0;

        for (size_t i = 0; i < whole; i++)
                if (text[i] == '@')
                        user = i + 1;
        if (user) {
                userinfo = strndup(text, user - 1);
                failed = userinfo ? read_userinfo(settings, userinfo) : -ENOMEM;
                free(userinfo);
        }
        if (!failed)
                failed = read_hosts(settings, text + user, whole - user);
        return failed ? failed : read_path(settings, text + whole);
}

static int
read_address(struct weir__redis_settings *settings, const char *text, bool *is_secure)
{
        static const struct {
                const char *scheme;
                enum weir__redis_mode mode;
                bool is_secure;
        } schemes[] = {
                {"redis://", WEIR__REDIS_SINGLE, false},
                {"rediss://", WEIR__REDIS_SINGLE, true},
                {"redis+cluster://", WEIR__REDIS_CLUSTER, false},
                {"rediss+cluster://", WEIR__REDIS_CLUSTER, true},
                {"redis+sentinel://", WEIR__REDIS_SENTINEL, false},
                {"rediss+sentinel://", WEIR__REDIS_SENTINEL, true},
        };

        *is_secure = false;
        if (!text)
                return -EINVAL;
        if (strncmp(text, "unix://", 7) == 0)
                return read_socket(settings, text);
        for (unsigned i = 0; i < sizeof schemes / sizeof *schemes; i++) {
                size_t size = strlen(schemes[i].scheme);

                if (strncmp(text, schemes[i].scheme, size) != 0)
                        continue;
                settings->mode = schemes[i].mode;
                *is_secure = schemes[i].is_secure;
                return read_servers(settings, text + size);
        }
        return -EINVAL;
}

/* -- a config -- */

static int
read_config(struct weir__redis_settings *settings, const struct weir_redis_config *given, bool is_secure, const char **why)
{
        struct weir_redis_config *config = &settings->config;
        int failed;

        *why = "the config has another size or a wrong value, or a user has no password";
        if (given && given->size != sizeof *given)
                return -EINVAL;
        *config = given ? *given : (struct weir_redis_config)WEIR_REDIS_CONFIG_DEFAULT;
        failed = copy(&settings->user, config->user);
        failed = failed ? failed : copy(&settings->password, config->password);
        failed = failed ? failed : copy(&settings->name, config->name);
        if (!failed && settings->user && !settings->password) /* the server would take it for the default user */
                failed = -EINVAL;
        if (failed)
                return failed;
        if (config->tls && !is_secure) {
                *why = "the config has tls, and the address is not that of a server with TLS: nothing would be encrypted";
                return -EINVAL;
        }
        if (is_secure) {
                settings->tls = config->tls ? weir_tls_ref(config->tls) : weir_tls_client_new(NULL);
                if (!settings->tls)
                        return -ENOMEM;
        }
        if (config->version == 1 || config->version > 3 || config->depth > UINT16_MAX || config->connections > UINT16_MAX ||
            config->own > UINT16_MAX || config->max_reply > (size_t)1 << 30 || config->connect_limit < 0 ||
            config->command_limit < 0)
                return -EINVAL;
        if (settings->database && settings->mode == WEIR__REDIS_CLUSTER)
                return -EINVAL;
        config->user = config->password = config->name = NULL;
        config->tls = NULL;
        config->connections = config->connections ? config->connections : 1;
        config->depth = config->depth ? config->depth : 1024;
        config->own = config->own ? config->own : 64;
        config->retries = config->retries == UINT_MAX ? 0 : config->retries ? config->retries : 4;
        config->max_reply = config->max_reply ? config->max_reply : (size_t)64 << 20;
        config->connect_limit = config->connect_limit ? config->connect_limit : WEIR_SEC(10);
        config->command_limit = config->command_limit ? config->command_limit : WEIR_SEC(30);
        return 0;
}

struct weir__redis_settings *
weir__redis_settings_new(const char *address, const struct weir_redis_config *config)
{
        struct weir__redis_settings *settings = calloc(1, sizeof *settings);
        const char *why = "this is no address of a server of Redis";
        bool is_secure;

        if (!settings) {
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&settings->references, 1);
        int failed = read_address(settings, address, &is_secure);
        failed = failed ? failed : read_config(settings, config, is_secure, &why);
        if (!failed)
                return settings;
        if (failed == -EINVAL)
                weir_log_write(WEIR_LOG_ERROR, "weir_redis_new: %s", why);
        weir__redis_settings_unref(settings);
        errno = -failed;
        return NULL;
}
