/* database/pq/connect.c: where a conninfo leads, and how a link connects.
 *
 * libpq would look names up with getaddrinfo(3), which blocks.  So each host gets its addresses here, and libpq the keyword
 * `hostaddr`, with as many entries as `host` and `port` have.
 *
 *     look-ups of the names, a series --> PQconnectStart --> PQconnectPoll, each time its socket is ready --> READY
 *
 * Threads: any.
 * Locks:   the link's.  The addresses belong to the series until its end. */
#include "database/pq/pq.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <weir/resolve.h>

/* -- conninfos -- */

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

static void
free_hosts(struct weir__pq_host *hosts, unsigned count)
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

static int
hosts_of(const PQconninfoOption *options, struct weir__pq_host **ret_hosts, unsigned *ret_count)
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
                        free_hosts(hosts, count);
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

void
weir__pq_connect_free(struct weir__pq_link *link)
{
        free(link->targets.hosts);
        free(link->targets.addresses);
        free(link->targets.ports);
        free_hosts(link->hosts, link->host_count);
        link->targets = (struct weir__pq_targets){0};
        link->hosts = NULL;
        weir_series_unref(link->resolving);
        link->resolving = NULL;
}

/* -- addresses -- */

static int
extend(char **list, bool is_first, const char *entry)
{
        char *longer = NULL;

        if (asprintf(&longer, "%s%s%s", *list ? *list : "", is_first ? "" : ",", entry) < 0)
                return -ENOMEM;
        free(*list);
        *list = longer;
        return 0;
}

static int
add_target(struct weir__pq_targets *targets, const struct weir__pq_host *host, const char *address)
{
        bool is_first = !targets->hosts;

        targets->has_address |= *address != '\0';
        if (extend(&targets->hosts, is_first, host->name) != 0 || extend(&targets->addresses, is_first, address) != 0 ||
            extend(&targets->ports, is_first, host->port) != 0)
                return -ENOMEM;
        return 0;
}

/* -- libpq's part -- */

#define MAX_KEYWORDS 100

struct keywords {
        const char *names[MAX_KEYWORDS + 1], *values[MAX_KEYWORDS + 1];
        unsigned count;
};

static void
add_keyword(struct keywords *keywords, const char *name, const char *value)
{
        if (!value || !*value || keywords->count == MAX_KEYWORDS)
                return;
        keywords->names[keywords->count] = name;
        keywords->values[keywords->count++] = value;
}

static bool
is_ours(const char *keyword)
{
        return strcmp(keyword, "host") == 0 || strcmp(keyword, "hostaddr") == 0 || strcmp(keyword, "port") == 0;
}

static PGconn *
start(const struct weir__pq_link *link)
{
        const weir_pq *pool = link->pool;
        struct keywords keywords = {.count = 0};
        char timeout[24];

        for (const PQconninfoOption *option = pool->options; option->keyword; option++)
                if (!is_ours(option->keyword))
                        add_keyword(&keywords, option->keyword, option->val);
        add_keyword(&keywords, "host", link->targets.hosts);
        add_keyword(&keywords, "port", link->targets.ports);
        if (link->targets.has_address)
                add_keyword(&keywords, "hostaddr", link->targets.addresses);
        add_keyword(&keywords, "fallback_application_name", program_invocation_short_name);
        if (!weir__pq_conninfo_value(pool->options, "keepalives_idle"))
                add_keyword(&keywords, "keepalives_idle", "30");
        if (!weir__pq_conninfo_value(pool->options, "gssencmode"))
                add_keyword(&keywords, "gssencmode", "disable");
        if (!weir__pq_conninfo_value(pool->options, "tcp_user_timeout") &&
            pool->config.connect_limit < WEIR_SEC(INT32_MAX / 1000)) {
                snprintf(timeout, sizeof timeout, "%lld", (long long)(pool->config.connect_limit / WEIR_MSEC(1)));
                add_keyword(&keywords, "tcp_user_timeout", timeout);
        }
        return PQconnectStartParams(keywords.names, keywords.values, 0);
}

/* The SQLSTATE in a verbose message, such as "FATAL:  28P01: password ..."; NULL: there is none. */
static const char *
find_sqlstate(const char *message)
{
        for (const char *at = strstr(message, ":  "); at; at = strstr(at + 1, ":  ")) {
                unsigned size = 0;

                while (isupper((unsigned char)at[3 + size]) || isdigit((unsigned char)at[3 + size]))
                        size++;
                if (size == 5 && at[8] == ':')
                        return at + 3;
        }
        return NULL;
}

/* Whether the peer has closed the connection.  libpq has closed its descriptor, but not ours. */
static bool
has_ended(int fd)
{
        char byte;
        ssize_t size = fd >= 0 ? recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;

        return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

static void
was_refused(struct weir__pq_link *link, struct weir__pq_after *after)
{
        char *problem = strdup(PQerrorMessage(link->connection));

        if (!problem) {
                weir__pq_link_fail(link, -ENOMEM, NULL, after);
                return;
        }
        char *end = strstr(problem, "\nLOCATION:");
        if (end)
                *end = '\0';
        for (size_t size = strlen(problem); size > 0 && problem[size - 1] == '\n';)
                problem[--size] = '\0';
        const char *sqlstate = find_sqlstate(problem);
        int status = sqlstate ? weir__pq_status(sqlstate) : weir__pq_connect_status(problem);
        weir__pq_link_fail(link, status == -EPROTO && has_ended(link->watched) ? -ECONNRESET : status, problem, after);
        free(problem);
}

/* The server's notices, under the link's lock.  Its name for what they are may be translated. */
static void
on_notice(void *context, const PGresult *result)
{
        struct weir__pq_link *link = context;
        const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

        if (link->after)
                weir__sql_after_say(&link->after->base, "%s: pool %s: %s", severity ? severity : "NOTICE", link->pool->base.name,
                                    message ? message : PQresultErrorMessage(result));
}

static void
is_connected(struct weir__pq_link *link, struct weir__pq_after *after)
{
        PQsetErrorVerbosity(link->connection, PQERRORS_DEFAULT);
        int failed = PQsetnonblocking(link->connection, 1) != 0 ? -ECONNRESET : weir__pq_link_watch(link);
        if (failed) {
                weir__pq_link_fail(link, failed, PQerrorMessage(link->connection), after);
                return;
        }
        weir__pq_connect_free(link);
        link->state = WEIR__PQ_READY;
        weir__pq_link_is_ready(link);
        if (link->is_extra)
                weir__pq_after_make_links(after, link->pool);
        weir__pq_link_rest(link, after);
        weir__pq_link_wait(link, after);
}

/* libpq may have another socket after each poll, so it is watched anew. */
void
weir__pq_connect_step(struct weir__pq_link *link, struct weir__pq_after *after)
{
        weir_fd_forget(link->fd);
        link->fd = NULL;
        PostgresPollingStatusType outcome = PQconnectPoll(link->connection);
        if (outcome == PGRES_POLLING_OK) {
                is_connected(link, after);
                return;
        }
        if (outcome == PGRES_POLLING_FAILED) {
                was_refused(link, after);
                return;
        }
        int failed = weir__pq_link_watch(link);
        if (failed)
                weir__pq_link_fail(link, failed, NULL, after);
        else
                weir__pq_link_await(link, outcome == PGRES_POLLING_READING, outcome != PGRES_POLLING_READING, after);
}

/* Under the lock.  What PQconnectStart wants is to be polled when its socket is writable. */
static void
begin(struct weir__pq_link *link, struct weir__pq_after *after)
{
        link->connection = start(link);
        if (!link->connection) {
                weir__pq_link_fail(link, -ENOMEM, NULL, after);
                return;
        }
        PQsetNoticeReceiver(link->connection, on_notice, link);
        PQsetErrorVerbosity(link->connection, PQERRORS_VERBOSE);
        if (PQstatus(link->connection) == CONNECTION_BAD) {
                was_refused(link, after);
                return;
        }
        int failed = weir__pq_link_watch(link);
        if (failed)
                weir__pq_link_fail(link, failed, NULL, after);
        else
                weir__pq_link_await(link, false, true, after);
}

/* -- names -- */

struct lookup {
        struct weir__pq_link *link; /* a reference */
        int status;                 /* of the last name without an address */
        char *problem;
        unsigned at; /* the host that is looked up */
};

static void
free_lookup(void *context)
{
        struct lookup *lookup = context;

        weir__pq_link_unref(lookup->link);
        free(lookup->problem);
        free(lookup);
}

/* Adds hosts that need no look-up.  Returns the next one that does; NULL: there is none. */
static struct weir__pq_host *
skip(struct lookup *lookup)
{
        struct weir__pq_link *link = lookup->link;

        for (; lookup->at < link->host_count; lookup->at++) {
                struct weir__pq_host *host = &link->hosts[lookup->at];

                if (host->is_to_be_resolved)
                        return host;
                if (add_target(&link->targets, host, host->address) != 0)
                        lookup->status = -ENOMEM;
        }
        return NULL;
}

static void on_resolved(weir_task *resolve, void *context);

static void
resolve_next(weir_series *series, struct lookup *lookup)
{
        const struct weir__pq_host *host = skip(lookup);

        if (host)
                weir_series_push(series, weir_resolve_new(host->name, 0, on_resolved, lookup));
}

static void
on_resolved(weir_task *resolve, void *context)
{
        struct lookup *lookup = context;
        struct weir__pq_link *link = lookup->link;
        char address[WEIR_RESOLVE_TEXT];

        for (unsigned i = 0; weir_resolve_write(resolve, i, address, sizeof address) > 0; i++)
                if (add_target(&link->targets, &link->hosts[lookup->at], address) != 0)
                        lookup->status = -ENOMEM;
        if (weir_task_status(resolve) != 0) {
                lookup->status = weir_task_status(resolve);
                free(lookup->problem);
                const char *problem = weir_resolve_problem(resolve);
                lookup->problem = problem ? strdup(problem) : NULL;
        }
        lookup->at++;
        resolve_next(weir_series_of(resolve), lookup);
}

/* All names have their addresses. */
static void
on_all_resolved(weir_series *series, void *context)
{
        struct lookup *lookup = context;
        struct weir__pq_link *link = lookup->link;
        struct weir__pq_after after = {0};
        int ended = weir_series_status(series);

        weir__pq_link_lock(link, &after);
        if (link->state == WEIR__PQ_CONNECTING && (ended || !link->targets.hosts))
                weir__pq_link_fail(link, ended ? ended : lookup->status, lookup->problem, &after);
        else if (link->state == WEIR__PQ_CONNECTING)
                begin(link, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}

/* Under the lock. */
static int
resolve(struct weir__pq_link *link, struct lookup *lookup)
{
        weir_series *series = weir_series_new(on_all_resolved, lookup);

        weir_series_set_context(series, lookup, free_lookup);
        link->resolving = weir_series_ref(series);
        if (series)
                resolve_next(series, lookup);
        return weir_series_start(series);
}

void
weir__pq_connect(struct weir__pq_link *link)
{
        struct weir__pq_after after = {0};
        struct lookup *lookup = calloc(1, sizeof *lookup);

        weir__pq_link_lock(link, &after);
        int failed = lookup ? hosts_of(link->pool->options, &link->hosts, &link->host_count) : -ENOMEM;
        if (lookup)
                lookup->link = weir__pq_link_ref(link);
        if (!failed && link->state == WEIR__PQ_CONNECTING && skip(lookup)) {
                failed = resolve(link, lookup);
                lookup = NULL;
        } else if (!failed && link->state == WEIR__PQ_CONNECTING) {
                begin(link, &after);
        }
        if (failed)
                weir__pq_link_fail(link, failed, NULL, &after);
        weir__pq_link_unlock(link);
        if (lookup)
                free_lookup(lookup);
        weir__pq_after(&after);
}
