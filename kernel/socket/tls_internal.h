/* kernel/socket/tls_internal.h: what tls.c and tls_context.c know of each other. */
#ifndef WEIR_KERNEL_TLS_INTERNAL_H
#define WEIR_KERNEL_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "kernel/socket/tls.h"

/* A certificate with its key, and the names that it is for. */
struct weir__tls_certificate {
        SSL_CTX *ssl_ctx;
        char **names; /* in lower case; "*.example.org" for all with one more label */
        size_t name_count;
        unsigned char *staple; /* DER; NULL: none */
        size_t staple_size;
};

/* Constant but for `references`. */
struct weir__tls_context {
        _Atomic unsigned references; /* acq_rel */
        size_t count;
        struct weir__tls_certificate certificates[]; /* the first is the default, and the one that tickets belong to */
};

/* `size` bytes as a string on the heap; NULL when out of memory. */
char *weir__tls_string(const void *data, size_t size);

#endif
