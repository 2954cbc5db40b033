/* test/http_peer.c: a server that is played by the test.
 *
 * Threads: a peer belongs to one. */
#include "test/http_peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/tls_peer.h"

static void
must(bool is_well, const char *what)
{
        if (is_well)
                return;
        fprintf(stderr, "http_peer: %s: %s\n", what, strerror(errno));
        abort();
}

static bool
comes(int fd, int64_t patience)
{
        struct pollfd event = {.fd = fd, .events = POLLIN};
        int r;

        while ((r = poll(&event, 1, (int)(patience / 1000000))) < 0 && errno == EINTR)
                continue;
        return r == 1;
}

/* -- connections -- */

int
http_peer_listen(int *port)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        must(bind(listener, (struct sockaddr *)&at, size) == 0, "bind");
        must(listen(listener, 1024) == 0, "listen");
        must(getsockname(listener, (struct sockaddr *)&at, &size) == 0, "getsockname");
        *port = ntohs(at.sin_port);
        return listener;
}

SSL_CTX *
http_peer_tls(const char *certificate)
{
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());
        char path[512];

        snprintf(path, sizeof path, "%s.pem", certificate);
        must(SSL_CTX_use_certificate_chain_file(context, tls_path(path)) == 1, "the certificate");
        snprintf(path, sizeof path, "%s.key", certificate);
        must(SSL_CTX_use_PrivateKey_file(context, tls_path(path), SSL_FILETYPE_PEM) == 1, "the key");
        return context;
}

bool
http_peer_has_caller(int listener)
{
        return comes(listener, 0);
}

bool
http_peer_accept(struct http_peer *peer, int listener, SSL_CTX *tls)
{
        must(comes(listener, WEIR_TEST_PATIENCE), "nobody connects");
        *peer = (struct http_peer){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
        must(peer->fd >= 0, "accept");
        must(setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0, "TCP_NODELAY");
        if (!tls)
                return true;
        peer->tls = SSL_new(tls);
        SSL_set_fd(peer->tls, peer->fd);
        return SSL_accept(peer->tls) == 1;
}

static void
forget(struct http_peer *peer)
{
        if (peer->tls)
                SSL_free(peer->tls);
        free(peer->text);
        free(peer->input);
        *peer = (struct http_peer){.fd = -1};
}

void
http_peer_finish(struct http_peer *peer)
{
        if (peer->tls)
                SSL_shutdown(peer->tls);
        shutdown(peer->fd, SHUT_WR);
}

void
http_peer_cut(struct http_peer *peer)
{
        if (peer->fd >= 0)
                close(peer->fd);
        forget(peer);
}

void
http_peer_close(struct http_peer *peer)
{
        if (peer->tls && peer->fd >= 0)
                SSL_shutdown(peer->tls);
        http_peer_cut(peer);
}

void
http_peer_reset(struct http_peer *peer)
{
        const struct linger at_once = {.l_onoff = 1};

        must(setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0, "SO_LINGER");
        http_peer_cut(peer);
}

/* -- input -- */

/* Takes in what comes next.  Returns false at the end. */
static bool
take_in(struct http_peer *peer)
{
        ssize_t got;

        if (peer->has_ended)
                return false;
        if (peer->room - peer->size < 65536) {
                peer->room = peer->room * 2 + 131072;
                peer->input = realloc(peer->input, peer->room);
                must(peer->input != NULL, "memory");
        }
        must((peer->tls && SSL_pending(peer->tls)) || comes(peer->fd, WEIR_TEST_PATIENCE), "nothing comes");
        if (peer->tls)
                got = SSL_read(peer->tls, peer->input + peer->size, 65536);
        else
                got = recv(peer->fd, peer->input + peer->size, 65536, 0);
        if (got <= 0) {
                peer->has_ended = true;
                peer->was_reset = got < 0 && errno == ECONNRESET;
                return false;
        }
        peer->size += (size_t)got;
        return true;
}

/* Takes `size` bytes off the input as the text. */
static const char *
take(struct http_peer *peer, size_t size)
{
        free(peer->text);
        peer->text = malloc(size + 1);
        must(peer->text != NULL, "memory");
        if (size)
                memcpy(peer->text, peer->input, size);
        peer->text[size] = '\0';
        peer->size -= size;
        if (peer->size)
                memmove(peer->input, peer->input + size, peer->size);
        return peer->text;
}

static const char *
how_it_ended(const struct http_peer *peer)
{
        return peer->was_reset ? "<reset>" : "<end>";
}

/* Bytes up to the end of the first head; 0: the client has closed before. */
static size_t
head_size(struct http_peer *peer)
{
        for (;;) {
                const char *end = peer->size ? memmem(peer->input, peer->size, "\r\n\r\n", 4) : NULL;

                if (end)
                        return (size_t)(end - peer->input) + 4;
                if (!take_in(peer))
                        return 0;
        }
}

static size_t
length_in(const char *head, size_t size)
{
        static const char name[] = "\r\nContent-Length: ";

        for (const char *at = head; at + sizeof name <= head + size; at++)
                if (strncasecmp(at, name, sizeof name - 1) == 0)
                        return strtoul(at + sizeof name - 1, NULL, 10);
        return 0;
}

const char *
http_peer_head(struct http_peer *peer)
{
        size_t size = head_size(peer);

        return size ? take(peer, size) : how_it_ended(peer);
}

const char *
http_peer_request(struct http_peer *peer)
{
        size_t size = head_size(peer), whole = size ? size + length_in(peer->input, size) : 0;

        while (size && peer->size < whole)
                if (!take_in(peer))
                        return how_it_ended(peer);
        return size ? take(peer, whole) : how_it_ended(peer);
}

const char *
http_peer_sees(struct http_peer *peer)
{
        return peer->size || take_in(peer) ? take(peer, peer->size) : how_it_ended(peer);
}

const char *
http_peer_has(struct http_peer *peer)
{
        if (!peer->size && !peer->has_ended && !comes(peer->fd, 0))
                return "";
        return http_peer_sees(peer);
}

const char *
http_peer_ends(struct http_peer *peer)
{
        while (take_in(peer))
                peer->size = 0;
        return how_it_ended(peer);
}

/* -- output -- */

bool
http_peer_send_bytes(struct http_peer *peer, const void *data, size_t size)
{
        const char *at = data;

        while (size) {
                ssize_t sent = peer->tls ? SSL_write(peer->tls, at, (int)(size < 16384 ? size : 16384))
                                         : send(peer->fd, at, size, MSG_NOSIGNAL);

                if (sent <= 0)
                        return false;
                at += sent;
                size -= (size_t)sent;
        }
        return true;
}

bool
http_peer_send(struct http_peer *peer, const char *text)
{
        return http_peer_send_bytes(peer, text, strlen(text));
}
