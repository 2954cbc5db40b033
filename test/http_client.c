/* test/http_client.c: the other end of the wire for the suites of the server.
 *
 * Threads: a client belongs to one thread; no state is shared.  No locks. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "test/http_client.h"

#define STEP ((size_t)64 * 1024)

weir_http_server *
http_server(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        weir_http_server *server = weir_http_server_new(config, handler, context);
        int failed = weir_http_server_start(server, "127.0.0.1:0");

        if (failed) {
                fprintf(stderr, "no server: %s\n", weir_strerror(failed));
                abort();
        }
        return server;
}

static void
give_up(const char *what)
{
        fprintf(stderr, "http_client: %s: %s\n", what, strerror(errno));
        abort();
}

/* -- connections -- */

void
http_open_window(struct http_client *client, int port, int window)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        const int on = 1;

        *client = (struct http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        if (client->fd < 0) {
                give_up("socket");
        }
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (window > 0) {
                setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
        }
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0) {
                give_up("connect");
        }
}

void
http_open(struct http_client *client, int port)
{
        http_open_window(client, port, 0);
}

void
http_close(struct http_client *client)
{
        close(client->fd);
        free(client->input);
        *client = (struct http_client){.fd = -1};
}

void
http_abandon(struct http_client *client)
{
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        http_close(client);
}

/* -- bytes -- */

static void
wait_until(struct http_client *client, short events)
{
        struct pollfd fd = {.fd = client->fd, .events = events};
        int count = poll(&fd, 1, (int)(WEIR_TEST_PATIENCE / 1000000));

        if (count == 0) {
                errno = ETIMEDOUT;
        }
        if (count == 0 || (count < 0 && errno != EINTR)) {
                give_up(events & POLLIN ? "nothing comes" : "nothing is taken");
        }
}

bool
http_send(struct http_client *client, const void *data, size_t size)
{
        const char *at = data;

        while (size > 0) {
                ssize_t sent = send(client->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
                        return false;
                }
                if (sent < 0 && errno != EAGAIN && errno != EINTR) {
                        give_up("send");
                }
                if (sent < 0) {
                        wait_until(client, POLLOUT);
                } else {
                        at += sent;
                        size -= (size_t)sent;
                }
        }
        return true;
}

bool
http_send_text(struct http_client *client, const char *text)
{
        return http_send(client, text, strlen(text));
}

/* Packets that follow at once are read as one on a busy machine: now and then the server is let come to them. */
bool
http_send_pieces(struct http_client *client, const void *data, size_t size, size_t piece)
{
        for (size_t at = 0, sent = 0; at < size; at += piece, sent++) {
                if (!http_send(client, (const char *)data + at, piece < size - at ? piece : size - at)) {
                        return false;
                }
                if (sent % 8 == 7) {
                        weir_test_sleep(50000);
                }
        }
        return true;
}

void
http_read_some(struct http_client *client)
{
        ssize_t count;

        if (client->room - client->size < STEP) {
                client->room = client->room * 2 + STEP + 1;
                client->input = realloc(client->input, client->room);
                if (!client->input) {
                        give_up("realloc");
                }
        }
        wait_until(client, POLLIN);
        count = recv(client->fd, client->input + client->size, STEP, 0);
        if (count > 0) {
                client->size += (size_t)count;
        } else if (count == 0 || errno == ECONNRESET) {
                client->ended = true;
                client->reset = count < 0;
        } else if (errno != EINTR) {
                give_up("recv");
        }
}

static void
take(struct http_client *client, size_t size)
{
        client->size -= size;
        memmove(client->input, client->input + size, client->size);
}

bool
http_is_over(struct http_client *client)
{
        while (!client->ended && client->size == 0) {
                http_read_some(client);
        }
        return client->size == 0;
}

bool
http_has_news(struct http_client *client, int64_t nanoseconds)
{
        struct pollfd fd = {.fd = client->fd, .events = POLLIN};

        return client->size > 0 || client->ended || poll(&fd, 1, (int)(nanoseconds / 1000000)) > 0;
}

/* -- replies -- */

void
http_reply_done(struct http_reply *reply)
{
        free(reply->head);
        free(reply->body);
        *reply = (struct http_reply){.status = 0};
}

/* The value of the next field of that name in a line behind `at`, not terminated.  (No strstr: sanitizers measure the whole
 * string each time.) */
static const char *
find_field(const char *at, const char *name)
{
        size_t size = strlen(name);

        while ((at = strchrnul(at, '\n')) && *at) {
                at++;
                if (strncasecmp(at, name, size) == 0 && at[size] == ':') {
                        return at + size + 1;
                }
        }
        return NULL;
}

const char *
http_field(struct http_reply *reply, const char *name)
{
        const char *value = reply->head ? find_field(reply->head, name) : NULL;
        size_t size;

        if (!value) {
                return NULL;
        }
        value += strspn(value, " \t");
        size = strcspn(value, "\r");
        size = size < sizeof reply->value ? size : sizeof reply->value - 1;
        memcpy(reply->value, value, size);
        reply->value[size] = '\0';
        return reply->value;
}

unsigned
http_field_count(const struct http_reply *reply, const char *name)
{
        unsigned count = 0;

        for (const char *value = reply->head; value && (value = find_field(value, name));) {
                count++;
        }
        return count;
}

static char *
copy_of(const char *data, size_t size)
{
        char *copy = malloc(size + 1);

        if (!copy) {
                give_up("malloc");
        }
        if (size > 0) {
                memcpy(copy, data, size);
        }
        copy[size] = '\0';
        return copy;
}

/* Takes the head, whose end is in the input; every reply has to begin like one. */
static void
take_head(struct http_client *client, struct http_reply *reply, size_t size)
{
        reply->head = copy_of(client->input, size - 2);
        take(client, size);
        CU_ASSERT_EQUAL(strncmp(reply->head, "HTTP/1.1 ", 9), 0);
        reply->status = atoi(reply->head + 9);
        CU_ASSERT(reply->status >= 100 && reply->status <= 599);
        CU_ASSERT(reply->head[12] == ' ');
}

static bool
has_body(const struct http_reply *reply, bool to_head)
{
        return !to_head && reply->status >= 200 && reply->status != 204 && reply->status != 304;
}

/* Appends so many bytes of the input to the body.  Returns false when the connection ends before. */
static bool
take_body(struct http_client *client, struct http_reply *reply, size_t size)
{
        while (client->size < size && !client->ended) {
                http_read_some(client);
        }
        if (client->size < size) {
                return false;
        }
        reply->body = realloc(reply->body, reply->size + size + 1);
        if (!reply->body) {
                give_up("realloc");
        }
        if (size > 0) {
                memcpy(reply->body + reply->size, client->input, size);
        }
        reply->size += size;
        reply->body[reply->size] = '\0';
        take(client, size);
        return true;
}

/* Takes a line that must be no more than digits of a chunk's size. */
static bool
take_chunk_size(struct http_client *client, size_t *size)
{
        char *end = NULL, *after;

        while (!(end = client->size > 0 ? memmem(client->input, client->size, "\r\n", 2) : NULL)) {
                if (client->ended) {
                        return false;
                }
                http_read_some(client);
        }
        *size = strtoul(client->input, &after, 16);
        CU_ASSERT(after == end && after > client->input);
        take(client, (size_t)(end - client->input) + 2);
        return true;
}

/* A server of ours sends neither extensions nor trailers. */
static bool
take_chunks(struct http_client *client, struct http_reply *reply)
{
        size_t size;

        reply->size = 0;
        reply->chunks = 0;
        do {
                if (!take_chunk_size(client, &size) || !take_body(client, reply, size + 2)) {
                        return false;
                }
                CU_ASSERT_EQUAL(memcmp(reply->body + reply->size - 2, "\r\n", 2), 0);
                reply->size -= 2;
                reply->body[reply->size] = '\0';
                reply->chunks++;
        } while (size > 0);
        return true;
}

static bool
is_chunked(struct http_reply *reply)
{
        const char *coding = http_field(reply, "Transfer-Encoding");

        if (!coding) {
                return false;
        }
        CU_ASSERT_STRING_EQUAL(coding, "chunked");
        CU_ASSERT_EQUAL(http_field_count(reply, "Content-Length"), 0);
        return true;
}

bool
http_receive_to_end(struct http_client *client, struct http_reply *reply)
{
        http_reply_done(reply);
        for (char *end = NULL; !end;) {
                end = client->size > 0 ? memmem(client->input, client->size, "\r\n\r\n", 4) : NULL;
                if (!end && client->ended) {
                        return false;
                }
                if (end) {
                        take_head(client, reply, (size_t)(end - client->input) + 4);
                } else {
                        http_read_some(client);
                }
        }
        while (!client->ended) {
                http_read_some(client);
        }
        return take_body(client, reply, client->size) && !client->reset;
}

bool
http_receive(struct http_client *client, struct http_reply *reply, bool to_head)
{
        const char *end = NULL;
        const char *length;

        http_reply_done(reply);
        for (;;) {
                end = client->size > 0 ? memmem(client->input, client->size, "\r\n\r\n", 4) : NULL;
                if (end) {
                        break;
                }
                if (client->ended) {
                        return false;
                }
                http_read_some(client);
        }
        take_head(client, reply, (size_t)(end - client->input) + 4);
        if (has_body(reply, to_head) && is_chunked(reply)) {
                if (take_chunks(client, reply)) {
                        return true;
                }
                http_reply_done(reply);
                return false;
        }
        length = http_field(reply, "Content-Length");
        if (has_body(reply, to_head)) {
                CU_ASSERT_PTR_NOT_NULL(length);
                CU_ASSERT_EQUAL(http_field_count(reply, "Content-Length"), 1);
                reply->size = length ? strtoul(length, NULL, 10) : 0;
        }
        while (client->size < reply->size && !client->ended) {
                http_read_some(client);
        }
        if (client->size < reply->size) {
                http_reply_done(reply);
                return false;
        }
        reply->body = copy_of(client->input, reply->size);
        take(client, reply->size);
        return true;
}

bool
http_ask(struct http_client *client, const char *request, struct http_reply *reply)
{
        return http_send_text(client, request) && http_receive(client, reply, strncmp(request, "HEAD ", 5) == 0);
}

unsigned
http_open_descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        unsigned count = 0;

        if (!directory) {
                give_up("/proc/self/fd");
        }
        while (readdir(directory)) {
                count++;
        }
        closedir(directory);
        return count - 3; /* ".", ".." and its own */
}
