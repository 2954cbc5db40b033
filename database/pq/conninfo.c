/* database/pq/conninfo.c: where a conninfo leads.
 *
 * libpq would look names up with getaddrinfo(3), which blocks.  So each host gets its addresses here, and libpq the keyword
 * `hostaddr`, with as many entries as `host` and `port` have.
 *
 * Threads: any; nothing here is shared. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *
weir__pq_conninfo_value(const PQconninfoOption *options, const char *keyword)
{
        for (const PQconninfoOption *option = options; option && option->keyword; option++)
                if (strcmp(option->keyword, keyword) == 0)
                        return option->val && *option->val ? option->val : NULL;
        return NULL;
}

/* What the environment says stands behind the conninfo.  PQconndefaults would also read the file of services. */
static int
add_environment(PQconninfoOption *options)
{
        for (PQconninfoOption *option = options; option->keyword; option++) {
                const char *value = !option->val && option->envvar ? getenv(option->envvar) : NULL;

                if (value && *value && !(option->val = strdup(value)))
                        return -ENOMEM;
        }
        return 0;
}

PQconninfoOption *
weir__pq_conninfo_parse(const char *conninfo, char **ret_problem)
{
        char *problem = NULL;
        PQconninfoOption *options = PQconninfoParse(conninfo ? conninfo : "", &problem);

        *ret_problem = NULL;
        if (!options) {
                *ret_problem = problem ? strdup(problem) : NULL;
                PQfreemem(problem);
                return NULL;
        }
        if (add_environment(options) != 0) {
                PQconninfoFree(options);
                return NULL;
        }
        if (weir__pq_conninfo_value(options, "service")) {
                *ret_problem = strdup("it names a service: expected the host itself, because libpq would look its name up");
                PQconninfoFree(options);
                return NULL;
        }
        return options;
}

/* -- lists with commas -- */

static unsigned
count_entries(const char *list)
{
        unsigned count = 1;

        for (const char *at = list; at && (at = strchr(at, ',')); at++)
                count++;
        return count;
}

/* The entry of that number; the last one for more, because one port serves all hosts. */
static char *
entry_of(const char *list, unsigned number)
{
        const char *begin = list ? list : "", *end;

        while (number-- > 0 && (end = strchr(begin, ',')))
                begin = end + 1;
        end = strchrnul(begin, ',');
        return strndup(begin, (size_t)(end - begin));
}

void
weir__pq_conninfo_free_hosts(struct weir__pq_host *hosts, unsigned count)
{
        for (unsigned i = 0; hosts && i < count; i++) {
                free(hosts[i].name);
                free(hosts[i].address);
                free(hosts[i].port);
        }
        free(hosts);
}

/* Paths and abstract sockets need no look-up, nor does the default, which is a socket of the system. */
static bool
should_resolve(const struct weir__pq_host *host)
{
        return !*host->address && *host->name && *host->name != '/' && *host->name != '@';
}

int
weir__pq_conninfo_hosts(const PQconninfoOption *options, struct weir__pq_host **ret_hosts, unsigned *ret_count)
{
        const char *names = weir__pq_conninfo_value(options, "host"), *addresses = weir__pq_conninfo_value(options, "hostaddr");
        const char *ports = weir__pq_conninfo_value(options, "port");
        unsigned count = count_entries(addresses ? addresses : names);
        struct weir__pq_host *hosts = calloc(count, sizeof *hosts);

        for (unsigned i = 0; hosts && i < count; i++) {
                hosts[i].name = entry_of(names, i);
                hosts[i].address = entry_of(addresses, i);
                hosts[i].port = entry_of(ports, i);
                if (!hosts[i].name || !hosts[i].address || !hosts[i].port) {
                        weir__pq_conninfo_free_hosts(hosts, count);
                        return -ENOMEM;
                }
                hosts[i].is_to_be_resolved = should_resolve(&hosts[i]);
        }
        if (!hosts)
                return -ENOMEM;
        *ret_hosts = hosts;
        *ret_count = count;
        return 0;
}
