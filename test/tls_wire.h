/* test/tls_wire.h: a stream of the kernel's with TLS, and a client at the other end, on one thread.
 *
 * The client writes into memory; what it has written goes over a socket pair in as many pieces as a test likes. */
#ifndef WEIR_TEST_TLS_WIRE_H
#define WEIR_TEST_TLS_WIRE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/socket/stream.h"
#include "kernel/tls/tls_context.h"
#include "test/support.h"
#include "test/tls_peer.h"

struct tls_wire {
        struct weir__stream stream; /* the server's end */
        int fd;                     /* the client's */
        SSL *client;
};

/* A context of these pairs of files: NAME.pem and NAME.key. */
static inline int tls_make_context(struct weir__tls_context **context, const char *const *names, size_t count,
                                   const struct weir__tls_server_config *more, const struct weir__tls_context *former)
{
        struct weir__tls_pair pairs[4];
        struct weir__tls_server_config config = more ? *more : (struct weir__tls_server_config){0};
        char paths[8][512], file[64];

        for (size_t i = 0; i < count; i++) {
                pairs[i] = (struct weir__tls_pair){paths[2 * i], paths[2 * i + 1]};
                snprintf(file, sizeof file, "%s.pem", names[i]);
                snprintf(paths[2 * i], sizeof paths[0], "%s", tls_path(file));
                snprintf(file, sizeof file, "%s.key", names[i]);
                snprintf(paths[2 * i + 1], sizeof paths[0], "%s", tls_path(file));
        }
        config.pairs = pairs;
        config.pair_count = count;
        config.protocols = config.protocols ? config.protocols : "http/1.1,http/1.0";
        return weir__tls_context_new_server(context, &config, former);
}

static inline void tls_wire_open(struct tls_wire *wire, struct weir__tls_context *context, const struct tls_client_wish *wish)
{
        int fds[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        *wire = (struct tls_wire){.stream.source.fd = fds[0], .fd = fds[1], .client = tls_client(-1, wish)};
        wire->stream.tls = weir__tls_new(context, fds[0]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(wire->stream.tls);
}

static inline void tls_wire_close(struct tls_wire *wire)
{
        if (wire->stream.source.fd >= 0) {
                weir__stream_close(&wire->stream);
        }
        close(wire->fd);
        SSL_free(wire->client);
}

/* Sends the bytes that the client has written so far, except those that the test holds back.  Returns their number. */
static inline size_t tls_wire_send(struct tls_wire *wire, size_t at_most)
{
        char *data;
        size_t size = (size_t)BIO_get_mem_data(SSL_get_wbio(wire->client), &data);
        char piece[65536];

        size = size < at_most ? size : at_most;
        size = size < sizeof piece ? size : sizeof piece;
        if (!size) {
                return 0;
        }
        ssize_t sent = send(wire->fd, data, size, MSG_NOSIGNAL);
        if (sent > 0) {
                BIO_read(SSL_get_wbio(wire->client), piece, (int)sent);
        }
        return sent > 0 ? (size_t)sent : 0;
}

/* Passes the bytes of the server on to the client.  Returns their number. */
static inline size_t tls_wire_receive(struct tls_wire *wire)
{
        char piece[65536];
        ssize_t count = recv(wire->fd, piece, sizeof piece, 0);

        if (count > 0) {
                BIO_write(SSL_get_rbio(wire->client), piece, (int)count);
        }
        return count > 0 ? (size_t)count : 0;
}

/* Has the handshake, the client's side in pieces of that size.  Returns what the server's side says at its end; `*client` (may be
 * NULL) is whether the client is content. */
static inline int tls_wire_shake(struct tls_wire *wire, size_t piece, bool *client)
{
        int server = -EAGAIN, shaken = 0;

        for (unsigned idle = 0; idle < 3; idle++) {
                shaken = SSL_do_handshake(wire->client);
                while (tls_wire_send(wire, piece)) {
                        idle = 0;
                        if (server == -EAGAIN) {
                                server = weir__stream_handshake(&wire->stream);
                        }
                }
                if (tls_wire_receive(wire)) {
                        idle = 0;
                }
        }
        if (client) {
                *client = shaken == 1;
        }
        return server;
}

static inline void tls_wire_connect(struct tls_wire *wire, struct weir__tls_context *context, const struct tls_client_wish *wish)
{
        bool client;

        tls_wire_open(wire, context, wish);
        CU_ASSERT_EQUAL_FATAL(tls_wire_shake(wire, SIZE_MAX, &client), 0);
        CU_ASSERT_TRUE_FATAL(client);
}

/* The client writes that, in one record or several, and all of it goes over. */
static inline void tls_wire_say(struct tls_wire *wire, const void *data, size_t size)
{
        size_t sent;

        CU_ASSERT_EQUAL(SSL_write_ex(wire->client, data, size, &sent), 1);
        while (tls_wire_send(wire, SIZE_MAX)) {
        }
}

/* Reads all that the client can read now. */
static inline size_t tls_wire_hear(struct tls_wire *wire, void *data, size_t size)
{
        size_t have = 0, count;

        for (;;) {
                while (have < size && SSL_read_ex(wire->client, (char *)data + have, size - have, &count) == 1) {
                        have += count;
                }
                if (have == size || !tls_wire_receive(wire)) {
                        return have;
                }
        }
}

#endif
