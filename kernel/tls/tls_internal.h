/* kernel/tls/tls_internal.h: the context of TLS connections, for the files of this room. */
#ifndef WEIR_KERNEL_TLS_INTERNAL_H
#define WEIR_KERNEL_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "kernel/tls/tls.h"
#include "kernel/tls/tls_context.h"

#define WEIR__TLS_PIN 32 /* bytes: SHA-256 of a SubjectPublicKeyInfo */

/* A certificate with its key, and the names of hosts in it. */
struct weir__tls_certificate {
        SSL_CTX *ssl_ctx;
        char **names; /* in lower case; "*.example.org" stands for all names with one more label */
        size_t name_count;
        unsigned char *staple; /* DER, in memory of OpenSSL; NULL: none */
        size_t staple_size;
};

/* Constant but for `references`. */
struct weir__tls_context {
        _Atomic unsigned references; /* acq_rel */
        bool is_client;              /* it knows whom to trust; a server's does not */
        bool is_insecure;            /* a client that checks no certificate, but perhaps its key */
        struct weir__tls_sessions *sessions; /* of a client; NULL: none are kept */
        unsigned char (*pins)[WEIR__TLS_PIN]; /* of a client; NULL: any key will do */
        size_t pin_count;
        unsigned char *protocols;    /* in the form of ALPN; NULL: none */
        unsigned protocols_size;
        size_t count;
        struct weir__tls_certificate certificates[]; /* the first is the default, and the one that tickets belong to */
};

/* Makes a context with one reference and room for so many certificates; `ssl_ctx` (may be NULL) is the first.  Returns NULL when
 * out of memory. */
struct weir__tls_context *weir__tls_context_alloc(size_t count, SSL_CTX *ssl_ctx);

/* The following return 0, or a code after a line in the log. */

/* Sets what is the same for both sides: versions, cipher suites, groups (NULL: the default). */
int weir__tls_configure(SSL_CTX *ssl_ctx, const char *groups, bool is_1_3);

/* Keeps names of protocols, which commas separate, in the form of ALPN. */
int weir__tls_set_protocols(struct weir__tls_context *context, const char *names);

/* Reads a certificate and its key.  A key with a passphrase is refused. */
int weir__tls_read_pair(SSL_CTX *ssl_ctx, const struct weir__tls_pair *pair);

/* Reads the system's roots into a store. */
int weir__tls_read_roots(X509_STORE *store);

/* Logs OpenSSL's reason, and clears it.  Returns the code; the errno when the system was the reason, as for a missing file. */
int weir__tls_complain(int code, const char *what, const char *file);

/* Reads pins; and has the connections of clients check them. */
int weir__tls_set_pins(struct weir__tls_context *context, const char *text);
void weir__tls_check_pins(struct weir__tls_context *context, SSL_CTX *ssl_ctx);

/* Makes the pin of a certificate's key.  Returns false when out of memory. */
bool weir__tls_pin_of(X509 *x509, unsigned char pin[WEIR__TLS_PIN]);

/* Has the connections of clients keep the sessions that they get, in weir__tls_context.sessions. */
void weir__tls_keep_sessions(SSL_CTX *ssl_ctx);

/* -- of one connection -- */

/* It ends: its session is kept only if nothing was wrong. */
void weir__tls_leave_session(struct weir__tls *tls);

/* Has the server's certificate checked for that host, and sends the name of it.  Result: 0, -EINVAL, -ENOMEM. */
int weir__tls_set_host(SSL *ssl, const char *host);

/* The callback of OpenSSL for each certificate that a client with a host verifies: keeps the fault that it finds. */
int weir__tls_notice(int is_good, X509_STORE_CTX *store);

/* No certificate that was verified has a pinned key: keeps that as the fault. */
void weir__tls_notice_pin(X509_STORE_CTX *store);

/* The status for an X509_V_ERR_... */
int weir__tls_status_of(int verify_error);

#endif
