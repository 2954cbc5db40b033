/* kernel/tls/tls_client.c: the context of clients, and the host that a client expects.
 *
 * Threads: a context is made by any thread, is constant afterwards, and is used by all.
 * Locks:   none. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "kernel/tls/tls_internal.h"
#include "kernel/tls/tls_sessions.h"

#define HOST_MAX 255 /* bytes */

/* -- the context -- */

/* Any certificate of the file is trusted, also one that another has signed. */
static int
trust(SSL_CTX *ssl_ctx, const char *file)
{
        X509_STORE *store = SSL_CTX_get_cert_store(ssl_ctx);

        if (!file)
                return weir__tls_read_roots(store);
        if (X509_STORE_load_file(store, file) != 1)
                return weir__tls_complain(WEIR_ETLS_CERTIFICATE, "CA file", file);
        X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
        return 0;
}

/* A callback of OpenSSL: the server asks for a certificate.  Returns 1: go on. */
static int
note_request(SSL *ssl, void *nothing)
{
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));

        (void)nothing;
        tls->is_asked = true;
        return 1;
}

static int
configure(struct weir__tls_context *context, SSL_CTX *ssl_ctx, const struct weir__tls_client_config *config)
{
        int failed = weir__tls_configure(ssl_ctx, config->groups, config->is_1_3);

        SSL_CTX_set_cert_cb(ssl_ctx, note_request, NULL);
        weir__tls_keep_sessions(ssl_ctx);
        context->sessions = failed ? NULL : weir__tls_sessions_new();
        if (!failed && !context->sessions)
                failed = weir__tls_complain(-ENOMEM, "sessions", NULL);
        if (!failed && config->protocols)
                failed = weir__tls_set_protocols(context, config->protocols);
        if (!failed && context->protocols && SSL_CTX_set_alpn_protos(ssl_ctx, context->protocols, context->protocols_size) != 0)
                failed = weir__tls_complain(-ENOMEM, "protocols", config->protocols);
        if (!failed && config->pair)
                failed = weir__tls_read_pair(ssl_ctx, config->pair);
        if (!failed && config->pins)
                failed = weir__tls_set_pins(context, config->pins);
        if (failed)
                return failed;
        context->is_insecure = config->is_insecure;
        if (context->pins)
                weir__tls_check_pins(context, ssl_ctx);
        if (config->is_insecure)
                return 0;
        SSL_CTX_set_verify(ssl_ctx, SSL_VERIFY_PEER, NULL);
        return trust(ssl_ctx, config->ca_file);
}

int
weir__tls_context_new_client(struct weir__tls_context **made, const struct weir__tls_client_config *config)
{
        struct weir__tls_context *context = weir__tls_context_alloc(1, config->ssl_ctx);
        int failed = 0;

        if (!context)
                return -ENOMEM;
        context->is_client = true;
        if (!config->ssl_ctx) {
                ERR_clear_error();
                context->count = 1;
                context->certificates->ssl_ctx = SSL_CTX_new(TLS_client_method());
                failed = context->certificates->ssl_ctx ? configure(context, context->certificates->ssl_ctx, config)
                                                        : weir__tls_complain(-ENOMEM, "context", NULL);
        }
        if (failed) {
                weir__tls_context_unref(context);
                return failed;
        }
        ERR_clear_error(); /* OpenSSL leaves some where it has found another way */
        *made = context;
        return 0;
}

/* -- the host -- */

/* The bytes of a literal address; 0: it is none.  The zone of a link-local address is known to us only. */
static size_t
read_literal(const char *host, unsigned char bytes[16])
{
        char text[HOST_MAX + 1];
        size_t size = strcspn(host, "%");

        memcpy(text, host, size);
        text[size] = '\0';
        if (inet_pton(AF_INET, host, bytes) == 1)
                return 4;
        return inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;
}

/* OpenSSL takes an empty name for no check at all, and a name that begins with a dot for all names that end so. */
int
weir__tls_set_host(SSL *ssl, const char *host)
{
        X509_VERIFY_PARAM *check = SSL_get0_param(ssl);
        char name[HOST_MAX + 1];
        unsigned char bytes[16];
        size_t size = strlen(host);

        if (size == 0 || size > HOST_MAX || *host == '.')
                return -EINVAL;
        size_t literal = read_literal(host, bytes);
        memcpy(name, host, size + 1);
        if (!literal && name[size - 1] == '.')
                name[size - 1] = '\0';     /* it only says that the name is whole.  Source: RFC 6066 section 3 */
        if (!SSL_get_verify_callback(ssl)) /* the program may have its own */
                SSL_set_verify(ssl, SSL_get_verify_mode(ssl), weir__tls_notice);
        X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        bool is_set = literal ? X509_VERIFY_PARAM_set1_ip(check, bytes, literal) == 1
                              : X509_VERIFY_PARAM_set1_host(check, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
        if (!is_set)
                ERR_clear_error();
        return is_set ? 0 : -ENOMEM;
}

void
weir__tls_offer_http(struct weir__tls *tls)
{
        static const unsigned char http[] = "\x08http/1.1";

        if (!tls->context->protocols) /* without memory nothing is offered, and the server assumes it */
                (void)SSL_set_alpn_protos(tls->ssl, http, sizeof http - 1);
}
