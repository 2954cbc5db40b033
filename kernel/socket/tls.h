/* kernel/socket/tls.h: TLS by OpenSSL: the context that the connections of a server share, and one connection.
 *
 * Nothing here blocks except reading files.  Nothing raises SIGPIPE but a write with kTLS, which is OpenSSL's.  The owner of a
 * connection has it blocked, as all threads of the library have. */
#ifndef WEIR_KERNEL_TLS_H
#define WEIR_KERNEL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/runtime.h>
#include <weir/time.h>

/* -- the context: certificates, keys and settings -- */

enum weir__tls_client {
        WEIR__TLS_CLIENT_NONE = 0,
        WEIR__TLS_CLIENT_REQUEST, /* a client may show a certificate, which must be valid */
        WEIR__TLS_CLIENT_REQUIRE,
};

/* Two files in PEM. */
struct weir__tls_pair {
        char *certificate_file, *private_key_file;
};

struct weir__tls_config {
        void *ssl_ctx; /* an SSL_CTX of the program, used as it is; nothing else is set then */
        const struct weir__tls_pair *pairs;
        size_t pair_count;    /* the first also serves names that no certificate has */
        const char *ocsp_file; /* of the first pair; may be NULL */
        const char *client_ca_file; /* not NULL where clients are checked */
        const char *groups;         /* for the exchange of keys, separated by colons; NULL: the default */
        enum weir__tls_client client;
};

struct weir__tls_context;

/* Reads the files.  Sessions that began with `former` (may be NULL) are resumed with the new context.
 *
 * Result:  0 and a reference to the new context; else a negative errno or WEIR_ETLS code, and the reason is in the log.
 * Threads: any; reads files. */
int weir__tls_context_new(struct weir__tls_context **context, const struct weir__tls_config *config,
                          const struct weir__tls_context *former);

/* Threads: any. */
struct weir__tls_context *weir__tls_context_ref(struct weir__tls_context *context);
void weir__tls_context_unref(struct weir__tls_context *context); /* accepts NULL */

/* -- one connection; owner only -- */

struct weir__tls {
        struct ssl_st *ssl; /* SSL of OpenSSL */
        struct weir__tls_context *context;
        weir_nsec messages_since; /* when the first message of the period came */
        unsigned messages;        /* messages without data, after the handshake, in the last period */
        int error;                /* errno of the socket's last failure; ECONNABORTED at its end */
        int failure;              /* a negative errno when the connection is broken: nothing can be sent any more */
        size_t held;              /* bytes that must be written next: OpenSSL has seen them, and may have encrypted them */
        char *record;             /* a copy of those bytes, if OpenSSL has not copied them; else NULL */
        bool is_drained;          /* the last read has emptied the socket */
        bool is_ended;            /* the peer will write no more */
        bool is_shaken;           /* the handshake is over */
        bool is_finished;         /* we write no more */
        bool is_last;             /* the connection ends after this write */
};

/* Makes the server's side of a connection over a non-blocking socket, which it does not close.  Keeps the context.  Returns NULL
 * when out of memory. */
struct weir__tls *weir__tls_new(struct weir__tls_context *context, int fd);
void weir__tls_free(struct weir__tls *tls); /* accepts NULL */

/* Result: 0 when it is over; -EAGAIN while it waits for the peer; -EPROTOTYPE when the peer speaks HTTP without TLS; -EPROTO when
 *         the peer breaks the rules of TLS or accepts none of our settings; -ECONNABORTED when it went away; another negative
 *         errno. */
int weir__tls_handshake(struct weir__tls *tls);

/* As the functions of kernel/socket/stream.h.  They do the handshake first, if it is not over. */
ssize_t weir__tls_read(struct weir__tls *tls, void *data, size_t size);
ssize_t weir__tls_peek(struct weir__tls *tls);
ssize_t weir__tls_write(struct weir__tls *tls, const struct iovec *pieces, int count);
bool weir__tls_may_have_more(const struct weir__tls *tls);
bool weir__tls_wants_write(const struct weir__tls *tls); /* the last call waits for room in the socket */

/* Tells the peer that no more will be written, if the connection is still able to. */
void weir__tls_finish(struct weir__tls *tls);

/* The subject of the peer's certificate in the notation of RFC 2253; NULL when it has shown none, or when out of memory.
 * Owner: the caller; free. */
char *weir__tls_peer(const struct weir__tls *tls);

#endif
