/* test/stream_server_fixture.h: a server of streams for one test, its handlers, and clients that block. */
#ifndef WEIR_TEST_STREAM_SERVER_FIXTURE_H
#define WEIR_TEST_STREAM_SERVER_FIXTURE_H

#include "test/fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/serve/stream_server.h"

static struct fixture {
        weir_stream_server *server;
        int port;
        struct weir_stream_server_config config;
        atomic_int handled, ended, status; /* `status` of the last read that was no success */
        atomic_bool let_go;
        _Atomic(weir_stream *) kept;
        char log[4096];
} at;

/* -- handlers -- */

static inline void write_back(weir_task *read, void *stream)
{
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0) {
                atomic_store(&at.status, weir_task_status(read));
                atomic_fetch_add(&at.ended, 1);
                return;
        }
        weir_series_push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
}

static inline void echo(weir_stream *stream, weir_series *series, void *context)
{
        CU_ASSERT_PTR_EQUAL(context, &at);
        atomic_fetch_add(&at.handled, 1);
        weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
}

static char large[64 << 20]; /* more than two sockets hold */

static inline void write_large(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        atomic_fetch_add(&at.handled, 1);
        weir_series_push(series, weir_stream_write_lent_new(stream, large, sizeof large, NULL, NULL));
}

/* -- begin and end -- */

static inline void note_log(enum weir_log_level level, const char *message, void *unused)
{
        (void)unused, (void)level;
        strncat(at.log, message, sizeof at.log - strlen(at.log) - 1);
}

static inline void start_at(const char *address, weir_stream_fn *handler)
{
        at.server = weir_stream_server_new(&at.config, handler, &at);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(at.server, address), 0);
        at.port = weir_stream_server_port(at.server);
}

static inline void prepare(void)
{
        memset(&at, 0, sizeof at);
        at.config = (struct weir_stream_server_config)WEIR_STREAM_SERVER_CONFIG_DEFAULT;
}

static inline void begin(int pollers, weir_stream_fn *handler)
{
        weir_test_begin_real(pollers);
        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        start_at("127.0.0.1:0", handler);
}

static inline void end(void)
{
        weir_stream_server_free(at.server);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir_test_end();
}

static inline int dial(void)
{
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)at.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        return fd;
}

/* The same at a Unix socket, where nothing is taken but what the other side has read. */
static inline struct sockaddr_un unix_address(socklen_t *size)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "weir-stream-server-%d", getpid());

        *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        return address;
}

static inline void start_at_unix(weir_stream_fn *handler)
{
        char text[128];
        socklen_t size;

        snprintf(text, sizeof text, "unix:@%s", unix_address(&size).sun_path + 1);
        start_at(text, handler);
}

static inline int dial_unix(void)
{
        socklen_t size;
        struct sockaddr_un to = unix_address(&size);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, size), 0);
        return fd;
}

static inline bool is_echoed(int fd, const char *text)
{
        char room[256] = "";
        size_t size = strlen(text);

        return send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size && recv(fd, room, size, MSG_WAITALL) == (ssize_t)size &&
               memcmp(room, text, size) == 0;
}

/* 0 at the end of the stream, else a negative errno, or what came. */
static inline ssize_t receive(int fd, char *room, size_t size)
{
        ssize_t got = recv(fd, room, size, 0);

        return got < 0 ? -errno : got;
}

static inline bool has_nothing(int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};

        return poll(&look, 1, 120) == 0;
}

/* One more for a moment, while a poller looks whether somebody waits: it takes a place first. */
static inline size_t connections(void)
{
        return atomic_load(&at.server->base.connections);
}

#endif
