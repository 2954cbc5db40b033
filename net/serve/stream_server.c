/* net/serve/stream_server.c: servers of streams: their configuration and their functions.
 *
 * Threads: those of weir__server_ops; the public functions as their header says. */
#include "net/serve/stream_server.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"
#include "net/serve/serve.h"

#define HANDSHAKE     WEIR_SEC(10)
#define WRITE_TIMEOUT WEIR_SEC(60)
#define STOP_WITHIN   WEIR_SEC(30)

/* -- what streams do for a server -- */

static void
init_branch(struct weir__branch *base)
{
        struct weir__stream_branch *branch = (struct weir__stream_branch *)base;

        weir__handshakes_init(&branch->handshakes, &weir__served_handshakes_ops, base->poller);
}

/* Series may go on: nothing is wrong. */
static void
say_waits(const struct weir__server *server)
{
        (void)server;
}

static void
say_rest(const struct weir__server *server)
{
        size_t count = 0;

        for (unsigned i = 0; i < server->branch_count; i++)
                count += atomic_load_explicit(&((struct weir__stream_branch *)weir__server_branch(server, i))->series,
                                              memory_order_relaxed);
        if (count)
                weir__log(WEIR_LOG_WARNING, "stop waits for %zu connection%s with a callback that has not returned", count,
                          count == 1 ? "" : "s");
}

static void
freed(struct weir__server *server)
{
        free(server);
}

static const struct weir__server_ops ops = {
        .protocol = WEIR__STREAMS,
        .branch_size = sizeof(struct weir__stream_branch),
        .waits_at_limit = true,
        .init_branch = init_branch,
        .say_waits = say_waits,
        .say_rest = say_rest,
        .accepted = weir__served_accept,
        .stop = weir__served_stop,
        .cut = weir__served_cut,
        .freed = freed,
};

/* -- configuration -- */

static int
refuse(const char *expected)
{
        weir__log(WEIR_LOG_ERROR, "weir_stream_server_new: %s", expected);
        return -EINVAL;
}

/* Copies the configuration and fills in the defaults.  Returns 0, or the error that the start reports. */
static int
read_config(struct weir_stream_server_config *to, const struct weir_stream_server_config *from)
{
        *to = (struct weir_stream_server_config)WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return refuse(WEIR__CONFIG_EXPECTED("weir_stream_server_config", "WEIR_STREAM_SERVER_CONFIG_DEFAULT"));
        const struct {
                weir_nsec *field, value;
                const char *expected;
        } times[] = {
                {&to->handshake_timeout, HANDSHAKE, "handshake_timeout: expected 0 or more"},
                {&to->write_timeout, WRITE_TIMEOUT, "write_timeout: expected 0 or more"},
                {&to->idle_timeout, WEIR_FOREVER, "idle_timeout: expected 0 or more"},
                {&to->stop_within, STOP_WITHIN, "stop_within: expected 0 or more"},
        };
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
                *times[i].field = *times[i].field ? *times[i].field : times[i].value;
                if (*times[i].field < 0)
                        failed = refuse(times[i].expected);
        }
        to->max_connections = to->max_connections ? to->max_connections : SIZE_MAX;
        to->max_connections_per_address = to->max_connections_per_address ? to->max_connections_per_address : SIZE_MAX;
        return failed;
}

/* Returns a contradiction in the files of TLS; or NULL. */
static const char *
fault_of(const struct weir_stream_server_config *config)
{
        if (!config->certificate_file != !config->private_key_file)
                return "expected certificate_file and private_key_file together";
        if (config->client_ca_file && !config->certificate_file)
                return "expected a certificate_file beside client_ca_file: a server has a certificate";
        return NULL;
}

/* -- the public face -- */

static struct weir__server *
base_of(weir_stream_server *server)
{
        return server ? &server->base : NULL;
}

weir_stream_server *
weir_stream_server_new(const struct weir_stream_server_config *config, weir_stream_fn *handler, void *context)
{
        weir_stream_server *server = calloc(1, sizeof *server);
        struct weir_stream_server_config own;

        if (!server)
                return NULL;
        int failed = read_config(&own, config);
        if (!handler)
                failed = refuse("the handler is NULL: expected what begins with a connection");
        server->handler = handler;
        server->context = context;
        server->handshake_timeout = own.handshake_timeout;
        server->idle_timeout = own.idle_timeout;
        server->write_timeout = own.write_timeout;
        server->base.max_connections = own.max_connections;
        server->base.max_connections_per_address = own.max_connections_per_address;
        server->base.stop_within = own.stop_within;
        const struct weir__secure_config secure = {
                .fault = failed ? NULL : fault_of(&own),
                .certificate_file = own.certificate_file,
                .private_key_file = own.private_key_file,
                .client_ca_file = own.client_ca_file,
                .check = own.client_ca_file ? WEIR__TLS_CHECK_REQUIRE : WEIR__TLS_CHECK_NONE,
        };
        weir__server_init(&server->base, &ops, &secure, failed);
        return server;
}

int
weir_stream_server_start(weir_stream_server *server, const char *address)
{
        weir__memory_expect(server);
        return weir__server_start(base_of(server), address);
}

int
weir_stream_server_port(const weir_stream_server *server)
{
        weir__memory_expect(server);
        return server ? weir__server_port(&server->base) : -EINVAL;
}

int
weir_stream_server_stop(weir_stream_server *server, weir_nsec within)
{
        weir__memory_expect(server);
        return server ? weir__server_stop(&server->base, within, -1) : -EINVAL;
}

void
weir_stream_server_free(weir_stream_server *server)
{
        weir__memory_expect(server);
        if (!server)
                return;
        weir__server_stop_at_end(&server->base);
        weir__server_done(&server->base);
}

int
weir_stream_server_reload(weir_stream_server *server)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        return server ? weir__secure_reload(&server->base) : -EINVAL;
}

int
weir_stream_server_inherit(weir_stream_server *server, const char *path, char *const arguments[], weir_nsec within)
{
        weir__memory_expect(server);
        return weir__server_inherit(base_of(server), path, arguments, within);
}

int
weir_stream_serve(const char *address, weir_stream_fn *handler, void *context)
{
        return weir_stream_serve_with(NULL, address, handler, context);
}

int
weir_stream_serve_with(const struct weir_stream_server_config *config, const char *address, weir_stream_fn *handler,
                       void *context)
{
        int result = weir__server_may_stop(&ops);

        if (result)
                return result;
        weir_stream_server *server = weir_stream_server_new(config, handler, context);
        result = server ? weir__server_serve(&server->base, address) : -ENOMEM;
        weir_stream_server_free(server);
        return result;
}
