/* kernel/tls/tls_context.h: what the connections of a server, or of a client, share: certificates, keys and settings. */
#ifndef WEIR_KERNEL_TLS_CONTEXT_H
#define WEIR_KERNEL_TLS_CONTEXT_H

#include <stdbool.h>
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
        bool is_1_3;                /* TLS 1.2 is refused */
        const char *protocols;      /* for ALPN, the best first, separated by commas: "http/1.1,http/1.0"; NULL: none */
        enum weir__tls_client_check check;
};

/* Reads the files.  Sessions that began with `former` (may be NULL) are resumed with the new context.
 *
 * Result:  0 and a reference to the new context; else a negative errno or WEIR_ETLS code, and the reason is in the log.
 * Threads: any; reads files. */
int weir__tls_context_new_server(struct weir__tls_context **context, const struct weir__tls_server_config *config,
                                 const struct weir__tls_context *former);

/* -- of clients -- */

struct weir__tls_client_config {
        void *ssl_ctx; /* an SSL_CTX of the program, used as it is; nothing else is set then */
        const struct weir__tls_pair *pair; /* shown to a server that asks for it; NULL: none */
        const char *ca_file;               /* PEM: the only certificates that are trusted; NULL: the system's roots */
        const char *pins;                  /* "sha256/BASE64,...": one of these keys is expected, too; NULL: any */
        const char *groups;                /* as for a server */
        bool is_1_3;                       /* the same */
        const char *protocols;             /* to offer, for ALPN: as for a server */
        bool is_insecure;                  /* any certificate of any server is accepted; no roots are read */
};

/* Reads the files.  All that is trusted is in memory afterwards: a handshake reads no file.
 *
 * The system's roots are those of OpenSSL: the file that SSL_CERT_FILE names, or OpenSSL's own, and the directories that
 * SSL_CERT_DIR names, or OpenSSL's own.  In a directory all files with names of hashes are read ("c_rehash"), as OpenSSL would
 * read them one by one during handshakes.  For the roots of Debian that takes 100 ms of CPU and 1 MB: so one context is for many
 * connections.  Roots that are installed later need a new context.
 *
 * Result:  0 and a reference to the new context; else a negative errno or WEIR_ETLS code, and the reason is in the log.
 *          WEIR_ETLS_CERTIFICATE also where the system has no roots.
 * Threads: any but the owner of a poller; reads files. */
int weir__tls_context_new_client(struct weir__tls_context **context, const struct weir__tls_client_config *config);

#endif
