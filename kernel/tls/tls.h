/* kernel/tls/tls.h: one connection of TLS by OpenSSL, a server's or a client's.  Owner only.
 *
 * Nothing here blocks.  Nothing raises SIGPIPE but a write with kTLS, which is OpenSSL's.  The owner of a connection has it
 * blocked, as all threads of the library have. */
#ifndef WEIR_KERNEL_TLS_H
#define WEIR_KERNEL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/time.h>

struct weir__tls_context;

struct weir__tls {
        struct ssl_st *ssl; /* SSL of OpenSSL */
        struct weir__tls_context *context;
        struct weir__tls *outer;  /* TLS that this one runs within, and which it owns; NULL: the socket is its own */
        weir_nsec messages_since; /* when the first message of the period came */
        unsigned messages;        /* messages without data, after the handshake, in the last period */
        int error;                /* errno of the socket's last failure; ECONNABORTED at its end */
        int failure;              /* a negative errno or WEIR_ETLS code when it is broken: nothing can be sent or read any more */
        int verify_error;         /* X509_V_ERR_... of OpenSSL: why the peer's certificate was refused; 0: it was not */
        char *problem;            /* of a client: weir__tls_problem; or NULL */
        struct weir__tls_resumption *resumption; /* of a client that may resume sessions; else NULL */
        struct x509_st *peer;     /* the peer's certificate (X509 of OpenSSL), if it is kept; else NULL */
        size_t held;              /* bytes that must be written next: OpenSSL has seen them, and may have encrypted them */
        char *record;             /* a copy of those bytes, if OpenSSL has not copied them; else NULL */
        bool is_drained;          /* the last read has emptied the socket */
        bool is_ended;            /* the peer will write no more */
        bool is_shaken;           /* the handshake is over */
        bool is_asked;            /* the server has asked the client for a certificate */
        bool is_finished;         /* we write no more, or the peer takes no more */
        bool owes_end;            /* and its message to the peer waits for room in the socket */
        bool is_last;             /* the connection ends after this write */
};

/* Makes the server's side of a connection over a non-blocking socket, which it does not close.  Keeps the context, a server's.
 * Returns NULL when out of memory. */
struct weir__tls *weir__tls_new(struct weir__tls_context *context, int fd);

/* The same for the client's side, with a context of clients.  `host` is the name or the literal address, without brackets, that
 * the server's certificate must have.  A name is sent to the server, too (SNI).  Without a host (NULL) only a context that
 * verifies nothing is accepted: so the check cannot be forgotten.
 *
 * Result: 0; -EINVAL for a missing or invalid host, and for a server's context; -ENOMEM. */
int weir__tls_new_client(struct weir__tls **tls, struct weir__tls_context *context, int fd, const char *host);

/* Before the handshake: its bytes go through another connection of TLS, whose handshake is over.  It owns that one. */
void weir__tls_run_within(struct weir__tls *tls, struct weir__tls *outer);

/* Before the handshake of a client: offers HTTP/1.1 as the protocol (ALPN), unless its settings have protocols. */
void weir__tls_offer_http(struct weir__tls *tls);

/* Before the handshake of a client: offers a session of that host and address, if one is kept, and keeps those that the server
 * gives.  The address is any text, such as "host:port".  The server may refuse the session: then the handshake is a full one.
 * Without memory, and with an SSL_CTX of the program, all handshakes are. */
void weir__tls_resume(struct weir__tls *tls, const char *host, const char *address);

/* After the handshake: whether a session was resumed. */
bool weir__tls_is_resumed(const struct weir__tls *tls);

void weir__tls_free(struct weir__tls *tls); /* accepts NULL */

/* Result: 0 when it is over; -EAGAIN while it waits for the peer; -EPROTO when the peer breaks the rules of TLS or accepts none
 *         of our settings; -ECONNABORTED when it went away; another negative errno.
 *         A server: -EPROTOTYPE when the peer speaks HTTP without TLS.
 *         A client: WEIR_ETLS_PLAIN when the peer speaks something else than TLS; WEIR_ETLS_NAME, WEIR_ETLS_EXPIRED,
 *         WEIR_ETLS_SELF_SIGNED, WEIR_ETLS_UNTRUSTED or WEIR_ETLS_PIN when its certificate is refused.  With TLS 1.3 the
 *         handshake may be over before the server refuses ours: then a read fails so.  WEIR_ETLS_REFUSED when the server has
 *         asked for a certificate and refuses ours, or that we have none. */
int weir__tls_handshake(struct weir__tls *tls);

/* What has gone wrong with a client's side, in words and with the names and dates of the certificate that is refused; NULL: no
 * more than the status says.  All of it can be printed.  Valid as long as the connection. */
const char *weir__tls_problem(const struct weir__tls *tls);

/* As the functions of kernel/socket/stream.h.  They do the handshake first, if it is not over. */
ssize_t weir__tls_read(struct weir__tls *tls, void *data, size_t size);
ssize_t weir__tls_peek(struct weir__tls *tls);
ssize_t weir__tls_write(struct weir__tls *tls, const struct iovec *pieces, int count);
bool weir__tls_may_have_more(const struct weir__tls *tls);
bool weir__tls_wants_write(const struct weir__tls *tls); /* the last call waits for room in the socket */

/* Tells the peer that no more will be written, if the handshake is over.
 * Result: 0; -EAGAIN: the socket has no room for that, so call it again; the failure of a broken connection. */
int weir__tls_finish(struct weir__tls *tls);

/* The protocol that both sides have agreed on (ALPN), not terminated; NULL and size 0: none. */
const char *weir__tls_protocol(const struct weir__tls *tls, size_t *size);

/* The subject of the peer's certificate in the notation of RFC 2253; NULL when it has shown none, or when out of memory.
 * Owner: the caller; free. */
char *weir__tls_peer(const struct weir__tls *tls);

/* Keeps that certificate after the handshake, for other threads; does nothing when the peer has shown none. */
void weir__tls_keep_peer(struct weir__tls *tls);

/* Any thread, while the owner does not free the connection: the kept one, with a reference; NULL: there is none. */
struct x509_st *weir__tls_kept_peer(const struct weir__tls *tls);

/* Any thread: its subject, as above; drops the reference. */
char *weir__tls_subject(struct x509_st *certificate);

#endif
