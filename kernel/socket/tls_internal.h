/* kernel/socket/tls_internal.h: the context of TLS connections, for tls.c and tls_context.c. */
#ifndef WEIR_KERNEL_TLS_INTERNAL_H
#define WEIR_KERNEL_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "kernel/socket/tls.h"

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
        size_t count;
        struct weir__tls_certificate certificates[]; /* the first is the default, and the one that tickets belong to */
};

#endif
