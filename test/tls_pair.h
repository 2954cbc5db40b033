/* test/tls_pair.h: both ends of a connection of TLS, on one thread, over a socket pair. */
#ifndef WEIR_TEST_TLS_PAIR_H
#define WEIR_TEST_TLS_PAIR_H

#include "test/tls_wire.h"

static struct weir__stream client, server;
static char buffer[65536];

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static inline int
open_both(struct weir__tls_context *of_client, struct weir__tls_context *of_server, const char *host)
{
        int fds[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        client = (struct weir__stream){.source.fd = fds[0]};
        server = (struct weir__stream){.source.fd = fds[1]};
        server.tls = weir__tls_new(of_server, fds[1]);
        return server.tls ? weir__tls_new_client(&client.tls, of_client, fds[0], host) : -ENOMEM;
}

/* Has the handshake, until neither side goes on.  Returns what the client says; *of_server (may be NULL) is the server's word. */
static inline int
shake(int *of_server)
{
        int ours = -EAGAIN, theirs = -EAGAIN;

        for (unsigned i = 0; i < 6; i++) {
                ours = ours == -EAGAIN ? weir__stream_handshake(&client) : ours;
                theirs = theirs == -EAGAIN ? weir__stream_handshake(&server) : theirs;
        }
        if (of_server)
                *of_server = theirs;
        return ours;
}

static inline void
close_both(void)
{
        if (client.source.fd >= 0)
                weir__stream_close(&client);
        if (server.source.fd >= 0)
                weir__stream_close(&server);
}

/* The whole handshake of a new connection.  It stays open. */
static inline int
connect_to(struct weir__tls_context *of_client, struct weir__tls_context *of_server, const char *host, int *theirs)
{
        int failed = open_both(of_client, of_server, host);

        CU_ASSERT_EQUAL_FATAL(failed, 0);
        return shake(theirs);
}

static inline ssize_t
write_text(struct weir__stream *stream, const char *text)
{
        struct iovec piece = {(char *)text, strlen(text)};

        return weir__stream_write(stream, &piece, 1);
}

static inline void
expect_text(struct weir__stream *from, struct weir__stream *to, const char *text)
{
        CU_ASSERT_EQUAL(write_text(from, text), (ssize_t)strlen(text));
        CU_ASSERT_EQUAL(weir__stream_read(to, buffer, sizeof buffer), (ssize_t)strlen(text));
        CU_ASSERT_EQUAL(memcmp(buffer, text, strlen(text)), 0);
}

#endif
