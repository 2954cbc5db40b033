/* kernel/socket/tls.h: TLS by OpenSSL: what a server's connections share, and one connection.
 *
 * Nothing here blocks but the reading of files, and nothing raises SIGPIPE. */
#ifndef WEIR_KERNEL_TLS_H
#define WEIR_KERNEL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/runtime.h>

/* -- what connections share: certificates, keys, and how they are used -- */

enum weir__tls_client {
        WEIR__TLS_CLIENT_NONE = 0,
        WEIR__TLS_CLIENT_REQUEST, /* one that is shown must be good */
        WEIR__TLS_CLIENT_REQUIRE,
};

/* Two files in PEM. */
struct weir__tls_pair {
        char *certificate_file, *private_key_file;
};

struct weir__tls_config {
        void *ssl_ctx; /* the caller's SSL_CTX, used as it is; nothing else is set then */
        const struct weir__tls_pair *pairs;
        size_t pair_count;    /* the first is for names that none is for */
        const char *ocsp_file; /* of the first; may be NULL */
        const char *client_ca_file;
        enum weir__tls_client client;
};

struct weir__tls_context;

/* Reads the files.  Sessions that began with `former` (may be NULL) are resumed with the new one.
 *
 * Result:  0, and a reference to the new one; else a negative errno or WEIR_ETLS code, and what was wrong is in the log.
 * Threads: any; reads files. */
int weir__tls_context_new(struct weir__tls_context **context, const struct weir__tls_config *config,
                          const struct weir__tls_context *former);

/* Any thread. */
struct weir__tls_context *weir__tls_context_ref(struct weir__tls_context *context);
void weir__tls_context_unref(struct weir__tls_context *context); /* accepts NULL */

/* -- one connection; owner only -- */

struct weir__tls;

/* The server's side of a connection over a non-blocking socket, which it does not close.  Keeps the context.  NULL when out of
 * memory. */
struct weir__tls *weir__tls_new(struct weir__tls_context *context, int fd);
void weir__tls_free(struct weir__tls *tls); /* accepts NULL */

/* 0 once it is over; -EAGAIN while it waits for the peer; -EPROTOTYPE when the peer speaks HTTP without TLS; -EPROTO when it
 * breaks TLS's rules or accepts none of what we do; -ECONNABORTED when it went away; another negative errno. */
int weir__tls_handshake(struct weir__tls *tls);

/* As weir__stream_read and so on, kernel/socket/stream.h; with the handshake before, if it is not over. */
ssize_t weir__tls_read(struct weir__tls *tls, void *data, size_t size);
ssize_t weir__tls_peek(struct weir__tls *tls);
ssize_t weir__tls_write(struct weir__tls *tls, const struct iovec *pieces, int count);
size_t weir__tls_held(const struct weir__tls *tls); /* bytes, as weir__stream_held */
void weir__tls_hold_back(struct weir__tls *tls);
bool weir__tls_may_have_more(const struct weir__tls *tls);
bool weir__tls_wants_write(const struct weir__tls *tls); /* the last call could go on if there were room in the socket */

/* Tells the peer that no more will be written, if it can be told. */
void weir__tls_finish(struct weir__tls *tls);

/* The subject of the peer's certificate as RFC 2253 writes it; NULL when it has shown none, or when out of memory.  For the
 * caller to free. */
char *weir__tls_peer(const struct weir__tls *tls);

#endif
