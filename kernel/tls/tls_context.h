/* kernel/tls/tls_context.h: what the connections of a server, or of a client, share: certificates, keys and settings. */
#ifndef WEIR_KERNEL_TLS_CONTEXT_H
#define WEIR_KERNEL_TLS_CONTEXT_H

#include <stddef.h>

#include <weir/runtime.h>

/* Two files in PEM. */
struct weir__tls_pair {
        char *certificate_file, *private_key_file;
};

struct weir__tls_context;

/* Threads: any. */
struct weir__tls_context *weir__tls_context_ref(struct weir__tls_context *context);
void weir__tls_context_unref(struct weir__tls_context *context); /* accepts NULL */

/* -- of a server -- */

enum weir__tls_client_check {
        WEIR__TLS_CHECK_NONE = 0,
        WEIR__TLS_CHECK_REQUEST, /* a client may show a certificate, which must be valid */
        WEIR__TLS_CHECK_REQUIRE,
};

struct weir__tls_server_config {
        void *ssl_ctx; /* an SSL_CTX of the program, used as it is; nothing else is set then */
        const struct weir__tls_pair *pairs;
        size_t pair_count;          /* the first also serves names that no certificate has */
        const char *ocsp_file;      /* of the first pair; may be NULL */
        const char *client_ca_file; /* not NULL where clients are checked */
        const char *groups;         /* for the exchange of keys, separated by colons; NULL: the default */
        const char *protocols;      /* for ALPN, the best first, separated by commas: "http/1.1,http/1.0"; NULL: none */
        enum weir__tls_client_check check;
};

/* Reads the files.  Sessions that began with `former` (may be NULL) are resumed with the new context.
 *
 * Result:  0 and a reference to the new context; else a negative errno or WEIR_ETLS code, and the reason is in the log.
 * Threads: any; reads files. */
int weir__tls_context_new_server(struct weir__tls_context **context, const struct weir__tls_server_config *config,
                                 const struct weir__tls_context *former);

#endif
