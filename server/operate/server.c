/* server/operate/server.c: HTTP servers: what HTTP does for a server (net/serve), and their functions.
 *
 * Threads: those of weir__server_ops; the public functions on any thread that may wait. */
#include "server/operate/operate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/inherit.h"
#include "net/serve/serve.h"
#include "server/base/error_pages.h"
#include "server/connection/connection.h"
#include "server/observe/access.h"
#include "server/observe/outlet.h"

/* -- what HTTP does for a server -- */

static int
begin(struct weir__server *server, unsigned branches)
{
        return weir__access_start(weir__http_server_of(server)->access, branches);
}

static void
init_branch(struct weir__branch *base)
{
        struct weir__http_branch *branch = weir__http_branch_of(base);

        branch->server = weir__http_server_of(base->server);
        branch->exchange_ops = &weir__http1_ops;
        branch->date_second = -1;
        branch->access = branch->server->access;
        weir__handshakes_init(&branch->handshakes, &weir__http1_handshakes_ops, base->poller);
}

static void
end(struct weir__server *server)
{
        weir__access_stop(weir__http_server_of(server)->access);
}

/* A connection that is closed stays in the list: GONE. */
static void
each_connection(struct weir__http_branch *branch, void (*act)(struct weir__connection *connection))
{
        for (struct weir__link *each = weir__list_first(&branch->connections), *next; each; each = next) {
                next = weir__list_next(&branch->connections, each); /* it may detach its exchange, and be gone */
                act(weir__container_of(each, struct weir__connection, link));
        }
}

static void
stop(struct weir__branch *base)
{
        struct weir__http_branch *branch = weir__http_branch_of(base);

        weir__shed_close(branch);
        each_connection(branch, weir__http1_stop);
}

static void
cut(struct weir__branch *base)
{
        each_connection(weir__http_branch_of(base), weir__cut_connection);
}

static void
disown_exchange(struct weir__connection *connection)
{
        if (connection->exchange && connection->state != WEIR__READING_BODY)
                weir__exchange_disown(connection->exchange);
}

static void
disown(struct weir__branch *base)
{
        each_connection(weir__http_branch_of(base), disown_exchange);
}

/* SIGHUP. */
static void
reload(struct weir__server *server)
{
        int failed = weir_http_server_reopen_log(weir__http_server_of(server));

        if (failed && failed != -EDOM)
                weir__log(WEIR_LOG_ERROR, "SIGHUP: the access log is not opened again: %s; the old file stays in use",
                          weir_strerror(failed));
}

static void
freed(struct weir__server *base)
{
        weir_http_server *server = weir__http_server_of(base);

        free(server->proxies);
        free(server);
}

static const struct weir__server_ops ops = {
        .protocol = WEIR__HTTP,
        .branch_size = sizeof(struct weir__http_branch),
        .begin = begin,
        .init_branch = init_branch,
        .end = end,
        .say_waits = weir__stop_name_holders,
        .say_rest = weir__stop_count_callbacks,
        .accepted = weir__http_accepted,
        .stop = stop,
        .cut = cut,
        .longest_idle = weir__http_longest_idle,
        .evict = weir__http_evict,
        .count_idle = weir__http_count_idle,
        .is_exempt = weir__http_is_exempt,
        .is_own_thread = weir__outlet_is_own_thread,
        .disown = disown,
        .reload = reload,
        .freed = freed,
};

/* -- the public face -- */

static struct weir__server *
base_of(weir_http_server *server)
{
        return server ? &server->base : NULL;
}

weir_http_server *
weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        weir_http_server *server = calloc(1, sizeof *server);

        if (!server)
                return NULL;
        struct weir_http_server_config *own = &server->config;
        int failed = weir__server_config_read(own, config);
        server->base.has_files = own->access_log && strcmp(own->access_log, "-") != 0;
        const struct weir__secure_config secure = weir__http_config_secure(own);
        if (!handler)
                weir__log(WEIR_LOG_ERROR, "weir_http_server_new: the handler is NULL: expected what answers requests");
        failed = !handler ? -EINVAL : failed ? failed : secure.fault ? -EINVAL : 0;
        failed = failed ? failed : weir__server_config_proxies(own, &server->proxies);
        failed = failed ? failed : weir__access_new(own, &server->access);
        own->trusted_proxies = own->forwarded_field = own->access_log = NULL; /* memory of the caller, which may go now */
        server->gate_limits = (struct weir__gate_limits){
                .max_line = server->config.max_line,
                .max_head = server->config.max_head,
                .max_fields = server->config.max_fields,
        };
        server->coalescing = WEIR__COALESCING;
        server->handler = handler;
        server->context = context;
        server->base.max_connections = server->config.max_connections;
        server->base.max_connections_per_address = server->config.max_connections_per_address;
        server->base.stop_within = server->config.stop_within;
        weir__server_init(&server->base, &ops, &secure, failed);
        return server;
}

int
weir_http_server_start(weir_http_server *server, const char *address)
{
        weir__memory_expect(server);
        return weir__server_start(base_of(server), address);
}

int
weir_http_server_port(const weir_http_server *server)
{
        weir__memory_expect(server);
        return server ? weir__server_port(&server->base) : -EINVAL;
}

int
weir_http_server_stop(weir_http_server *server, weir_nsec within)
{
        weir__memory_expect(server);
        return server ? weir__server_stop(&server->base, within, -1) : -EINVAL;
}

void
weir_http_server_free(weir_http_server *server)
{
        weir__memory_expect(server);
        if (!server)
                return;
        weir__server_stop_at_end(&server->base);
        weir__error_pages_free(server);
        weir__access_free(server->access);
        weir__server_done(&server->base);
}

int
weir_http_serve(const char *address, weir_task_fn *handler, void *context)
{
        return weir_http_serve_with(NULL, address, handler, context);
}

int
weir_http_serve_with(const struct weir_http_server_config *config, const char *address, weir_task_fn *handler, void *context)
{
        int result = weir__server_may_stop(&ops);

        if (result)
                return result;
        weir_http_server *server = weir_http_server_new(config, handler, context);
        result = server ? weir__server_serve(&server->base, address) : -ENOMEM;
        weir_http_server_free(server);
        return result;
}

/* -- sockets for another process -- */

int
weir_http_server_fds(weir_http_server *server, int *fds, size_t room)
{
        weir__memory_expect(server);
        return weir__server_fds(base_of(server), fds, room);
}

int
weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within)
{
        weir__memory_expect(server);
        return weir__server_inherit(base_of(server), path, arguments, within);
}

int
weir_http_server_ready(void)
{
        int failed = weir__runtime_may_stop();

        failed = failed ? failed : weir__inherit();
        return failed ? failed : (int)weir__inherit_ready();
}

/* -- certificates -- */

int
weir_http_server_add_certificate(weir_http_server *server, const char *certificate_file, const char *private_key_file)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!server)
                return -EINVAL;
        if (!certificate_file || !private_key_file)
                return weir__log_refusal("weir_http_server_add_certificate: a file is NULL: expected a certificate and its key");
        if (server->config.ssl_ctx)
                return weir__log_refusal("weir_http_server_add_certificate: the config has ssl_ctx: expected files instead");
        return weir__secure_add(&server->base, certificate_file, private_key_file);
}

int
weir_http_server_reload(weir_http_server *server)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        return server ? weir__secure_reload(&server->base) : -EINVAL;
}
