/* test/http_peer.h: a server that is played by the test: plain sockets, TLS, and nothing of the library's protocol code.
 *
 * A peer belongs to one thread.  What must come and does not within WEIR_TEST_PATIENCE aborts with the reason. */
#ifndef WEIR_TEST_HTTP_PEER_H
#define WEIR_TEST_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#include "test/support.h"

struct http_peer {
        int fd;      /* -1: it is closed */
        SSL *tls;    /* or NULL */
        char *text;  /* what the functions below have returned last */
        char *input; /* what has come and was not taken */
        size_t size, room;
        bool has_ended, was_reset; /* the client has finished its side; or by a reset */
};

/* A socket that listens at 127.0.0.1 and a free port. */
int http_peer_listen(int *port);

/* The next client.  `tls` (may be NULL) shakes hands; returns false when that fails. */
bool http_peer_accept(struct http_peer *peer, int listener, SSL_CTX *tls);
bool http_peer_has_caller(int listener); /* without waiting */

/* A server's side of TLS with the certificate of that name (test/tls_peer.h). */
SSL_CTX *http_peer_tls(const char *certificate);

/* The next request up to the end of its head, or with as many bytes as its Content-Length says.  "<end>" and "<reset>" when the
 * client has closed before.  Valid until the next call. */
const char *http_peer_head(struct http_peer *peer);
const char *http_peer_request(struct http_peer *peer);

/* The next bytes, or the end; the second function, what there is by now: "" for nothing. */
const char *http_peer_sees(struct http_peer *peer);
const char *http_peer_has(struct http_peer *peer);

/* Reads and forgets all up to the end: "<end>" or "<reset>". */
const char *http_peer_ends(struct http_peer *peer);

/* Sends all.  Returns false when the client does not take it. */
bool http_peer_send(struct http_peer *peer, const char *text);
bool http_peer_send_bytes(struct http_peer *peer, const void *data, size_t size);

void http_peer_finish(struct http_peer *peer); /* its side; TLS says so */
void http_peer_cut(struct http_peer *peer);    /* closes without a word of TLS */
void http_peer_close(struct http_peer *peer);
void http_peer_reset(struct http_peer *peer);

#endif
