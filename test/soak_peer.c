/* test/soak_peer.c: a connection of a client's of the soak, plain or TLS, and the reading of replies.
 *
 * Threads: a peer belongs to one.  No locks.
 *
 * Sockets are blocking ones with a limit: a server that does not move for so long is at fault. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zlib.h>

#include "test/soak.h"
#include "test/tls_peer.h"

#define STEP ((size_t)65536)

atomic_size_t soak_excused, soak_packed;

/* -- from the beginning to the end -- */

static int
connect_unix(const struct soak_server *server)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(address.sun_path, server->path);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
                close(fd);
                return -1;
        }
        return fd;
}

/* From any address of this machine: one alone would run out of ports. */
static int
connect_loopback(const struct soak_server *server, struct weir_test_random *random, int window)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)},
                           from = {.sin_family = AF_INET};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        if (fd < 0)
                soak_fail("socket: %s", strerror(errno));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256 + (uint32_t)weir_test_random_below(random, 60000));
        if (window)
                setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) || connect(fd, (struct sockaddr *)&to, sizeof to)) {
                int error = errno;

                close(fd);
                if (!server->is_unreliable)
                        soak_fail("no connection to the server \"%s\": %s", server->name, strerror(error));
                return -1;
        }
        return fd;
}

bool
soak_peer_connect(struct soak_peer *peer, const struct soak_server *server, struct weir_test_random *random, int window)
{
        const struct timeval patience = {.tv_sec = SOAK_PATIENT};

        *peer = (struct soak_peer){.server = server, .doing = peer->doing, .began = weir_test_now()};
        peer->fd = *server->path ? connect_unix(server) : connect_loopback(server, random, window);
        if (peer->fd < 0)
                return false;
        setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(peer->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        return true;
}

bool
soak_peer_open(struct soak_peer *peer, const struct soak_server *server, struct weir_test_random *random, int window)
{
        struct tls_client_wish wish = {.server_name = "soak"};

        if (!soak_peer_connect(peer, server, random, window))
                return false;
        if (!server->is_secure)
                return true;
        wish.version = weir_test_random_below(random, 4) ? 0 : TLS1_2_VERSION;
        peer->tls = tls_client(peer->fd, &wish);
        if (SSL_connect(peer->tls) == 1)
                return true;
        soak_peer_lost(peer, "in the handshake");
        soak_peer_end(peer, SOAK_CLOSE);
        return false;
}

void
soak_peer_end(struct soak_peer *peer, enum soak_end how)
{
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

        if (peer->fd < 0)
                return;
        if (how == SOAK_RESET)
                setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(peer->fd);
        SSL_free(peer->tls);
        free(peer->input);
        *peer = (struct soak_peer){.fd = -1, .doing = peer->doing};
}

void
soak_peer_finish(struct soak_peer *peer)
{
        if (peer->tls)
                SSL_shutdown(peer->tls);
        shutdown(peer->fd, SHUT_WR);
}

bool
soak_peer_lost(const struct soak_peer *peer, const char *what)
{
        int64_t took = weir_test_now() - peer->began;

        if (!peer->server->is_unreliable && took < SOAK_EXCUSE)
                soak_fail("%s, server \"%s\": lost after %lld ms, %s, behind \"%s\" (%d bytes: \"%.*s\")", peer->doing,
                          peer->server->name, (long long)(took / 1000000), what, peer->answered, (int)peer->size,
                          peer->size < 300 ? (int)peer->size : 300, peer->size ? peer->input : "");
        if (!peer->server->is_unreliable)
                atomic_fetch_add(&soak_excused, 1);
        return false;
}

/* -- bytes -- */

static bool
send_secretly(struct soak_peer *peer, const char *data, size_t size)
{
        ERR_clear_error();
        int sent = size ? SSL_write(peer->tls, data, (int)size) : 1;

        if (sent <= 0 && SSL_get_error(peer->tls, sent) == SSL_ERROR_WANT_WRITE)
                soak_fail("%s, server \"%s\": nothing is taken for %d s", peer->doing, peer->server->name, SOAK_PATIENT);
        return sent > 0;
}

bool
soak_peer_send(struct soak_peer *peer, const char *data, size_t size)
{
        if (peer->tls)
                return send_secretly(peer, data, size);
        while (size > 0) {
                ssize_t sent = send(peer->fd, data, size, MSG_NOSIGNAL);

                if (sent < 0 && errno == EAGAIN)
                        soak_fail("%s, server \"%s\": nothing is taken for %d s", peer->doing, peer->server->name, SOAK_PATIENT);
                if (sent < 0 && errno != EINTR)
                        return false;
                data += sent > 0 ? sent : 0;
                size -= sent > 0 ? (size_t)sent : 0;
        }
        return true;
}

static ssize_t
receive_secretly(struct soak_peer *peer, char *data, size_t size)
{
        ERR_clear_error();
        int count = SSL_read(peer->tls, data, (int)size);

        if (count <= 0 && SSL_get_error(peer->tls, count) == SSL_ERROR_WANT_READ)
                errno = EAGAIN;
        else if (count <= 0)
                return 0;
        return count;
}

void
soak_peer_receive(struct soak_peer *peer)
{
        if (peer->room - peer->size < STEP) {
                peer->room = peer->size + 2 * STEP;
                peer->input = realloc(peer->input, peer->room);
                if (!peer->input)
                        soak_fail("out of memory");
        }
        ssize_t count = peer->tls ? receive_secretly(peer, peer->input + peer->size, STEP)
                                  : recv(peer->fd, peer->input + peer->size, STEP, 0);
        if (count > 0)
                peer->size += (size_t)count;
        else if (count < 0 && errno == EAGAIN)
                soak_fail("%s, server \"%s\": nothing comes for %d s", peer->doing, peer->server->name, SOAK_PATIENT);
        else if (count == 0 || errno != EINTR)
                peer->ended = true;
}

void
soak_peer_take(struct soak_peer *peer, size_t size)
{
        peer->size -= size;
        memmove(peer->input, peer->input + size, peer->size);
}

void
soak_peer_drain(struct soak_peer *peer)
{
        const int window = 1 << 20;

        /* A window below one segment is filled only when a timer of the other system runs out, five times a second: megabytes
         * would take minutes. */
        setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
        while (!peer->ended) {
                peer->size = 0;
                soak_peer_receive(peer);
        }
}

/* -- replies -- */

static bool
receive_until(struct soak_peer *peer, size_t size)
{
        while (peer->size < size && !peer->ended)
                soak_peer_receive(peer);
        return peer->size >= size;
}

size_t
soak_peer_head(struct soak_peer *peer, int *status, bool interim)
{
        for (;;) {
                char *end = peer->size ? memmem(peer->input, peer->size, "\r\n\r\n", 4) : NULL;

                if (!end && peer->ended)
                        return 0;
                if (!end) {
                        soak_peer_receive(peer);
                        continue;
                }
                size_t size = (size_t)(end - peer->input) + 4;
                end[3] = '\0';
                if (sscanf(peer->input, "HTTP/1.1 %3d ", status) != 1)
                        soak_fail("%s, server \"%s\": this is no reply: \"%.200s\"", peer->doing, peer->server->name,
                                  peer->input);
                if (*status != 100 || interim)
                        return size;
                soak_peer_take(peer, size);
        }
}

static const char *
field(const char *head, const char *name)
{
        size_t size = strlen(name);

        for (const char *at = strchr(head, '\n'); at; at = strchr(at, '\n'))
                if (strncasecmp(++at, name, size) == 0 && at[size] == ':')
                        return at + size + 1 + strspn(at + size + 1, " ");
        return NULL;
}

/* Takes `size` bytes of the body, as they come. */
static bool
match(struct soak_peer *peer, const struct soak_request *request, size_t *at, size_t size)
{
        if (size > request->body_size - *at)
                soak_fail("%s, server \"%s\": a body of more than %zu bytes for %.60s", peer->doing, peer->server->name,
                          request->body_size, request->bytes);
        while (size > 0) {
                if (!peer->size && !receive_until(peer, 1))
                        return soak_peer_lost(peer, "in a body");
                size_t part = size < peer->size ? size : peer->size;
                if (memcmp(peer->input, request->body + *at, part))
                        soak_fail("%s, server \"%s\": wrong bytes behind %zu of %zu for %.60s", peer->doing, peer->server->name,
                                  *at, request->body_size, request->bytes);
                *at += part;
                size -= part;
                soak_peer_take(peer, part);
        }
        return true;
}

static bool
match_chunks(struct soak_peer *peer, const struct soak_request *request, size_t *at)
{
        size_t size;

        do {
                char *end;

                while (!(end = peer->size ? memchr(peer->input, '\n', peer->size) : NULL))
                        if (!receive_until(peer, peer->size + 1))
                                return soak_peer_lost(peer, "in a chunk's size");
                size = strtoul(peer->input, NULL, 16);
                soak_peer_take(peer, (size_t)(end - peer->input) + 1);
                if (!match(peer, request, at, size))
                        return false;
                if (!receive_until(peer, 2))
                        return soak_peer_lost(peer, "at a chunk's end");
                if (memcmp(peer->input, "\r\n", 2))
                        soak_fail("%s, server \"%s\": a chunk has no end", peer->doing, peer->server->name);
                soak_peer_take(peer, 2);
        } while (size);
        return true;
}

/* A compressed body: `size` bytes, checked when all are there. */
static bool
match_packed(struct soak_peer *peer, const struct soak_request *request, size_t size)
{
        if (!receive_until(peer, size))
                return soak_peer_lost(peer, "in a compressed body");
        char *data = malloc(request->body_size + 1);
        z_stream stream = {.next_in = (Bytef *)peer->input,
                           .avail_in = (uInt)size,
                           .next_out = (Bytef *)data,
                           .avail_out = (uInt)request->body_size + 1};
        bool is_good = data && inflateInit2(&stream, 15 + 16) == Z_OK && inflate(&stream, Z_FINISH) == Z_STREAM_END;
        if (!is_good || stream.avail_in || stream.total_out != request->body_size ||
            memcmp(data, request->body, stream.total_out))
                soak_fail("%s, server \"%s\": a compressed body is wrong for %.60s", peer->doing, peer->server->name,
                          request->bytes);
        inflateEnd(&stream);
        free(data);
        soak_peer_take(peer, size);
        atomic_fetch_add(&soak_packed, 1);
        return true;
}

static bool
match_body(struct soak_peer *peer, const struct soak_request *request, const char *length, bool chunked)
{
        size_t at = 0;
        bool whole;

        if (request->is_head || request->status == 204)
                return true;
        if (chunked)
                whole = match_chunks(peer, request, &at);
        else if (length)
                whole = match(peer, request, &at, strtoul(length, NULL, 10));
        else
                while ((whole = receive_until(peer, 1)) && match(peer, request, &at, peer->size))
                        ;
        if ((chunked || length) && !whole)
                return false;
        if (at < request->body_size && !chunked && !length)
                return soak_peer_lost(peer, "in a body that ends with the connection");
        if (at < request->body_size)
                soak_fail("%s, server \"%s\": %zu bytes for %.60s, not %zu", peer->doing, peer->server->name, at, request->bytes,
                          request->body_size);
        return true;
}

static bool
is_dropped(struct soak_peer *peer)
{
        if (receive_until(peer, 1) && strncmp(peer->input, "HTTP/1.1 503 ", 13) && strncmp(peer->input, "HTTP/1.1 408 ", 13) &&
            strncmp(peer->input, "HTTP/1.1 100 ", 13))
                soak_fail("%s, server \"%s\": a reply to what is dropped: \"%.*s\"", peer->doing, peer->server->name,
                          (int)peer->size, peer->input);
        return false;
}

bool
soak_peer_expect(struct soak_peer *peer, const struct soak_request *request)
{
        int status;

        if (!request->status)
                return is_dropped(peer);
        size_t size = soak_peer_head(peer, &status, false);
        if (!size)
                return soak_peer_lost(peer, "without a reply");
        if (status != request->status && (status == 408 || status == 503))
                return soak_peer_lost(peer, "refused");
        if (status != request->status)
                soak_fail("%s, server \"%s\": %.60s for %.60s", peer->doing, peer->server->name, peer->input, request->bytes);
        const char *length = field(peer->input, "Content-Length"), *coding = field(peer->input, "Transfer-Encoding");
        bool chunked = coding && !strncmp(coding, "chunked", 7), closes = field(peer->input, "Connection") != NULL,
             packed = field(peer->input, "Content-Encoding") != NULL && !request->is_head;
        char number[32] = "";
        if (length)
                snprintf(number, sizeof number, "%.*s", (int)strspn(length, "0123456789"), length);
        soak_peer_take(peer, size);
        if (!(packed ? match_packed(peer, request, strtoul(number, NULL, 10))
                     : match_body(peer, request, length ? number : NULL, chunked)))
                return false;
        snprintf(peer->answered, sizeof peer->answered, "%.*s", (int)strcspn(request->bytes, "\r"), request->bytes);
        if (request->is_last && receive_until(peer, 1))
                soak_fail("%s, server \"%s\": bytes behind the last reply: \"%.*s\"", peer->doing, peer->server->name,
                          peer->size < 100 ? (int)peer->size : 100, peer->input);
        return !closes && !request->is_last;
}
