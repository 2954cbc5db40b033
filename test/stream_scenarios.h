/* test/stream_scenarios.h: what a server of streams does for a client, to be played while something fails.
 *
 * A handler that is out of memory cancels its series, so the client sees the end of the connection and never waits in vain. */
#ifndef WEIR_TEST_STREAM_SCENARIOS_H
#define WEIR_TEST_STREAM_SCENARIOS_H

#include "test/stream_server_fixture.h"
#include "test/tls_peer.h"

#include <netinet/tcp.h>

#define TEN        "0123456789"
#define LARGE_SIZE ((size_t)1 << 20) /* bytes: more than goes out at once */
#define FILE_SIZE  ((size_t)100 * 1024)

struct scenario {
        const char *name;
        weir_stream_fn *handler;
        size_t size; /* of the reply; 0: an echo of TEN */
        bool is_secure, is_limited;
        uint32_t calls; /* which it needs */
};

static char reply[2 * LARGE_SIZE];
static int reply_file; /* with the first bytes of the reply */

static inline void push(weir_series *series, weir_task *task)
{
        if (weir_series_push(series, task))
                weir_series_cancel(series);
}

static void echo_back(weir_task *read, void *stream)
{
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0)
                return;
        push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
        push(series, weir_stream_read_new(stream, 1, 4096, echo_back, stream));
}

static inline void echo_all(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        push(series, weir_stream_read_new(stream, 1, 4096, echo_back, stream));
}

/* Two writes wait at the same time. */
static void write_both(weir_task *read, void *context)
{
        weir_stream *stream = context;
        int little = 128 << 10; /* less than a few segments would wait for late acknowledgements */

        setsockopt(stream->transport.stream.source.fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
        if (weir_task_status(read) != 0)
                return;
        if (weir_task_start(weir_stream_write_lent_new(stream, reply, LARGE_SIZE, NULL, NULL)))
                weir_series_cancel(weir_series_of(read));
        push(weir_series_of(read), weir_stream_write_lent_new(stream, reply + LARGE_SIZE, LARGE_SIZE, NULL, NULL));
}

static inline void reply_large(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        push(series, weir_stream_read_new(stream, 10, 10, write_both, stream));
}

static void write_file(weir_task *read, void *stream)
{
        if (weir_task_status(read) == 0)
                push(weir_series_of(read), weir_stream_write_file_new(stream, reply_file, 0, FILE_SIZE, NULL, NULL));
}

static inline void reply_with_file(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        push(series, weir_stream_read_new(stream, 10, 10, write_file, stream));
}

/* -- clients -- */

/* Whether all of the reply comes, and then the end. */
static inline bool is_whole(int fd, size_t size)
{
        static char room[65536];
        size_t have = 0;
        ssize_t got;

        while ((got = recv(fd, room, sizeof room, 0)) > 0) {
                bool is_equal = have + (size_t)got <= size && memcmp(room, reply + have, (size_t)got) == 0;

                CU_ASSERT_TRUE(is_equal);
                if (!is_equal)
                        return false;
                have += (size_t)got;
        }
        return got == 0 && have == size;
}

static inline bool play_plain(const struct scenario *scenario)
{
        char room[sizeof TEN], byte;
        int fd = dial(), at_once = 1;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
        bool right = send(fd, "01234", 5, MSG_NOSIGNAL) == 5;

        weir_test_sleep(100000); /* the rest is to come later; right either way */
        right = send(fd, "56789", 5, MSG_NOSIGNAL) == 5 && right;
        if (scenario->size) {
                right = is_whole(fd, scenario->size) && right;
        } else {
                right = recv(fd, room, 10, MSG_WAITALL) == 10 && memcmp(room, TEN, 10) == 0 && right;
                shutdown(fd, SHUT_WR);
                right = recv(fd, &byte, 1, 0) == 0 && right;
        }
        close(fd);
        return right;
}

static inline bool play_secure(const struct scenario *scenario)
{
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});
        char room[sizeof TEN];
        size_t have = 0;
        int got = 1;

        (void)scenario;
        if (!client)
                return false;
        bool right = tls_send(client, "01234", 5) && tls_send(client, "56789", 5);
        while (right && have < 10 && (got = SSL_read(client, room + have, (int)(10 - have))) > 0)
                have += (size_t)got;
        right = right && have == 10 && memcmp(room, TEN, 10) == 0 && SSL_shutdown(client) >= 0 && tls_is_over(client);
        tls_hang_up(client);
        return right;
}

static inline bool play(const struct scenario *scenario)
{
        return scenario->is_secure ? play_secure(scenario) : play_plain(scenario);
}

/* -- servers -- */

static inline void ignore_log(enum weir_log_level level, const char *message, void *unused)
{
        (void)level, (void)message, (void)unused;
}

/* Limits that never end are none of the reasons for an end.  Their memory may be refused. */
static inline void begin_scenario_at(const struct scenario *scenario)
{
        prepare();
        at.config.write_timeout = scenario->is_limited ? WEIR_SEC(100000) : WEIR_FOREVER;
        at.config.idle_timeout = scenario->is_limited ? WEIR_SEC(100000) : 0;
        at.config.max_connections_per_address = scenario->is_limited ? 100 : 0;
        at.config.certificate_file = scenario->is_secure ? tls_path("server.pem") : NULL;
        at.config.private_key_file = scenario->is_secure ? tls_path("server.key") : NULL;
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_log_set(ignore_log, NULL), 0);
        start_at("127.0.0.1:0", scenario->handler);
}

static inline void make_replies(void)
{
        for (size_t i = 0; i < sizeof reply; i++)
                reply[i] = (char)('a' + (i * 7 + i / 251) % 26);
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        tls_write_file("reply", reply, FILE_SIZE);
        reply_file = open(tls_path("reply"), O_RDONLY | O_CLOEXEC);
}

#endif
