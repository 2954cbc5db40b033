/* net/resolve/settings.c: how names are looked up, as the program wants it.
 *
 * Threads: any.
 * Locks:   none of its own; the resolver's, within its functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/worker/user.h"
#include "net/resolve/look_up.h"

#define MOST_NAMES 1000000
#define MOST_TRIES 100
#define DNS_PORT   53

bool
weir__resolver_settings_drop(struct weir__resolver_settings *settings)
{
        return atomic_fetch_sub_explicit(&settings->references, 1, memory_order_acq_rel) == 1;
}

void
weir__resolver_settings_free(struct weir__resolver_settings *settings)
{
        weir_free_fn *on_free = settings->on_free;
        void *context = settings->context;

        free(settings->servers);
        free(settings);
        if (on_free)
                weir__user_call(on_free, context);
}

/* The servers with their ports, as c-ares reads them: it would take much else as well.  "" if they are invalid; NULL when out of
 * memory. */
static char *
read_servers(const char *text)
{
        size_t room = (strlen(text) + 2) * WEIR__ADDRESS_TEXT, used = 0;
        char *servers = malloc(room);

        for (const char *at = text; servers && at; at = *at ? at + 1 : NULL) {
                size_t size = strcspn(at, ",");
                struct weir__address address;
                const char *reason;
                int failed = weir__address_parse(at, size, &address, &reason);

                if (failed && size)
                        failed = weir__address_set_host(&address, at, size, DNS_PORT, &reason);
                if (failed || address.kind != WEIR__ADDRESS_LITERAL || !address.port) {
                        *servers = '\0';
                        return servers;
                }
                if (used)
                        servers[used++] = ',';
                weir__address_print(&address.name, servers + used, room - used);
                used += strlen(servers + used);
                at += size;
        }
        return servers;
}

/* Copies what the program knows of the config, which may be older.  Result: 0 or -EINVAL. */
static int
read_config(struct weir_resolver_config *known, const struct weir_resolver_config *config)
{
        const char *expected = NULL;

        *known = (struct weir_resolver_config)WEIR_RESOLVER_CONFIG_DEFAULT;
        if (!config)
                return 0;
        if (config->size < sizeof config->size || config->size > sizeof *config)
                return weir__log_refusal("weir_resolver_configure: the size is %zu: expected WEIR_RESOLVER_CONFIG_DEFAULT",
                                         config->size);
        memcpy(known, config, config->size);
        if (known->mode < WEIR_RESOLVER_AUTO || known->mode > WEIR_RESOLVER_SYSTEM)
                expected = "a mode of enum weir_resolver_mode";
        else if (known->tries < 0 || known->tries > MOST_TRIES)
                expected = "0 to 100 tries";
        else if (known->timeout < 0 || known->max_keep < 0 || known->max_negative < 0)
                expected = "durations of 0 or more";
        else if (known->names < -1 || known->names > MOST_NAMES)
                expected = "-1 to 1,000,000 names";
        return expected ? weir__log_refusal("weir_resolver_configure: expected %s", expected) : 0;
}

/* Takes the servers. */
static struct weir__resolver_settings *
settings_new(const struct weir_resolver_config *known, char *servers)
{
        struct weir__resolver_settings *settings = calloc(1, sizeof *settings);

        if (!settings) {
                free(servers);
                return NULL;
        }
        atomic_init(&settings->references, 1);
        settings->mode = known->mode;
        settings->tries = known->tries;
        settings->servers = servers;
        settings->timeout = known->timeout;
        settings->max_keep = known->max_keep ? known->max_keep : WEIR__RESOLVER_KEEP;
        settings->max_negative = known->max_negative ? known->max_negative : WEIR__RESOLVER_NEGATIVE;
        settings->answer = known->answer;
        settings->context = known->context;
        settings->on_free = known->on_free;
        return settings;
}

int
weir_resolver_configure(const struct weir_resolver_config *config)
{
        struct weir_resolver_config known;

        if (weir__phase_is_forked())
                return -ECHILD;
        int failed = read_config(&known, config);
        if (failed)
                return failed;
        char *servers = known.servers ? read_servers(known.servers) : NULL;
        if (known.servers && !servers)
                return -ENOMEM;
        if (servers && !*servers) {
                free(servers);
                return weir__log_refusal("weir_resolver_configure: servers \"%.100s\": expected \"127.0.0.1:53,[::1]:53\"",
                                         known.servers);
        }
        struct weir__resolver_settings *settings = settings_new(&known, servers);
        size_t names = known.names > 0 ? (size_t)known.names : WEIR__RESOLVER_NAMES;
        struct weir__name_cache *cache = known.names < 0 ? NULL : weir__name_cache_new(names);
        if (!settings || (known.names >= 0 && !cache)) {
                if (settings)
                        free(settings->servers);
                free(settings);
                weir__name_cache_free(cache);
                return -ENOMEM;
        }
        weir__resolver_take(settings, cache);
        return 0;
}

void
weir_resolver_flush(void)
{
        if (weir__phase_is_forked())
                return;
        weir__name_files_forget();
        weir__resolver_forget();
}

void
weir_resolver_stats(struct weir_resolver_stats *stats)
{
        *stats = (struct weir_resolver_stats){0};
        if (!weir__phase_is_forked())
                weir__resolver_count(stats);
}
