/* net/listen/certificates.c: the files of TLS of a server, and the context made of them.
 *
 * Threads: any.
 * Locks:   the server's, for the names of files, until a start was tried.
 *          secure->lock, a leaf, for the context of new connections.  Files are read and errors logged with no lock held.  So
 *          several threads may read at once, and the reading that has begun last wins. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/observe/log.h"
#include "net/listen/server.h"

/* Copies a name, if there is one.  Returns false when out of memory. */
static bool
copy(char **to, const char *from)
{
        *to = from ? strdup(from) : NULL;
        return *to || !from;
}

static int
add_pair(struct weir__secure *secure, const char *certificate_file, const char *private_key_file)
{
        struct weir__tls_pair *pairs = realloc(secure->pairs, (secure->pair_count + 1) * sizeof *pairs);

        if (!pairs)
                return -ENOMEM;
        secure->pairs = pairs;
        struct weir__tls_pair *pair = &pairs[secure->pair_count];
        *pair = (struct weir__tls_pair){0};
        if (!copy(&pair->certificate_file, certificate_file) || !copy(&pair->private_key_file, private_key_file)) {
                free(pair->certificate_file);
                return -ENOMEM;
        }
        secure->pair_count++;
        return 0;
}

int
weir__secure_init(struct weir__secure *secure, const struct weir__secure_config *config)
{
        secure->fault = config->fault;
        weir__lock_init(&secure->lock, WEIR__RANK_LEAF);
        if (secure->fault)
                return -EINVAL;
        secure->protocols = config->protocols;
        secure->check = config->check;
        secure->is_on = secure->has_ssl_ctx = config->ssl_ctx;
        if (config->ssl_ctx)
                return weir__tls_context_new_server(&secure->context,
                                                    &(struct weir__tls_server_config){.ssl_ctx = config->ssl_ctx}, NULL);
        if (!copy(&secure->ocsp_file, config->ocsp_file) || !copy(&secure->client_ca_file, config->client_ca_file) ||
            !copy(&secure->groups, config->groups))
                return -ENOMEM;
        return config->certificate_file ? add_pair(secure, config->certificate_file, config->private_key_file) : 0;
}

void
weir__secure_done(struct weir__secure *secure)
{
        weir__tls_context_unref(secure->context);
        for (size_t i = 0; i < secure->pair_count; i++) {
                free(secure->pairs[i].certificate_file);
                free(secure->pairs[i].private_key_file);
        }
        free(secure->pairs);
        free(secure->ocsp_file);
        free(secure->client_ca_file);
        free(secure->groups);
}

/* A reference to the context of new connections; or NULL. */
static struct weir__tls_context *
current(struct weir__secure *secure)
{
        weir__lock(&secure->lock);
        struct weir__tls_context *context = secure->context ? weir__tls_context_ref(secure->context) : NULL;
        weir__unlock(&secure->lock);
        return context;
}

/* Makes it the context of new connections, unless a later reading has ended before.  Consumes it. */
static void
install(struct weir__secure *secure, struct weir__tls_context *context, unsigned reading)
{
        struct weir__tls_context *former = context;

        weir__lock(&secure->lock);
        if (reading > secure->installed) {
                former = secure->context;
                secure->context = context;
                secure->installed = reading;
        }
        weir__unlock(&secure->lock);
        weir__tls_context_unref(former);
}

/* A start was tried, so the names of the files are constant. */
static int
read_files(struct weir__server *server)
{
        struct weir__secure *secure = &server->secure;
        const struct weir__tls_server_config config = {
                .pairs = secure->pairs,
                .pair_count = secure->pair_count,
                .ocsp_file = secure->ocsp_file,
                .client_ca_file = secure->client_ca_file,
                .groups = secure->groups,
                .protocols = secure->protocols,
                .check = secure->check,
        };
        unsigned reading = atomic_fetch_add_explicit(&secure->readings, 1, memory_order_relaxed) + 1;
        struct weir__tls_context *made = NULL, *former = current(secure);
        int failed = weir__tls_context_new_server(&made, &config, former);

        weir__tls_context_unref(former);
        if (!failed)
                install(secure, made, reading);
        return failed;
}

int
weir__secure_start(struct weir__server *server)
{
        struct weir__secure *secure = &server->secure;

        secure->is_on |= secure->pair_count > 0;
        /* The certificate may come by weir__secure_add, so the config alone does not tell. */
        bool is_incomplete = !secure->is_on && (secure->ocsp_file || secure->client_ca_file || secure->groups);
        if (is_incomplete)
                weir__log(WEIR_LOG_ERROR,
                          "TLS: expected a certificate beside %s (certificate_file, or weir_%s_server_add_certificate)",
                          secure->ocsp_file        ? "ocsp_file"
                          : secure->client_ca_file ? "client_ca_file"
                                                   : "tls_groups",
                          server->ops->protocol);
        return is_incomplete ? -EINVAL : secure->pair_count ? read_files(server) : 0;
}

struct weir__tls *
weir__secure_accept(struct weir__server *server, int fd)
{
        struct weir__tls_context *context = current(&server->secure);
        struct weir__tls *tls = weir__tls_new(context, fd);

        weir__tls_context_unref(context);
        return tls;
}

int
weir__secure_add(struct weir__server *server, const char *certificate_file, const char *private_key_file)
{
        weir__lock(&server->lock);
        bool is_late = server->state != WEIR__SERVER_NEW || server->secure.is_start_tried;
        int failed = is_late ? -EALREADY : add_pair(&server->secure, certificate_file, private_key_file);
        weir__unlock(&server->lock);
        return failed;
}

int
weir__secure_reload(struct weir__server *server)
{
        weir__lock(&server->lock);
        bool has_files = server->secure.is_start_tried && server->secure.pair_count;
        weir__unlock(&server->lock);
        return has_files ? read_files(server) : -EDOM;
}
