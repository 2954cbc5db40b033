/* test/body_fixture.h: the common part of the suites about streaming bodies: a server whose handler lets the test have the
 * exchange, and tasks that read and write it, whose ends are recorded.
 *
 * The handler keeps a reference, and the test's thread does the rest, step by step, as other flows may.  The clock is virtual:
 * time passes only when the test advances it. */
#ifndef WEIR_TEST_BODY_FIXTURE_H
#define WEIR_TEST_BODY_FIXTURE_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define HOST        "Host: a\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"
#define POST        "POST / HTTP/1.1\r\n" HOST
#define CHUNKED     POST "Transfer-Encoding: chunked\r\n\r\n"
#define LAST_CHUNK  "0\r\n\r\n"
#define LIMIT       WEIR_SEC(20) /* none of the defaults */
#define MIB         ((size_t)1024 * 1024)

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        _Atomic(weir_task *) exchange; /* with a reference */
        _Atomic(weir_series *) series; /* of it, with a reference */
        atomic_int handled, freed;
        int last_status; /* of a reply that `finish` gives */
} at;

static inline void count_free(void *context)
{
        atomic_fetch_add((atomic_int *)context, 1);
}

/* The handler: the test has the exchange from now on. */
static inline void keep_exchange(weir_task *exchange, void *context)
{
        (void)context;
        atomic_store(&at.series, weir_series_ref(weir_series_of(exchange)));
        atomic_store(&at.exchange, weir_http_ref(exchange));
        atomic_fetch_add(&at.handled, 1);
}

static inline struct weir_http_server_config streaming(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = 1;
        config.body_timeout = config.write_timeout = LIMIT;
        return config;
}

static inline void serve(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        at.handled = at.freed = 0;
        at.server = http_server(config, handler, &at.freed);
        at.port = weir_http_server_port(at.server);
        http_open(&at.client, at.port);
}

static inline void begin_real_with(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        weir_test_begin_real(2);
        serve(config, handler);
}

static inline void begin_with(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        weir_test_begin_virtual();
        serve(config, handler);
}

static inline void begin(weir_task_fn *handler)
{
        struct weir_http_server_config config = streaming();

        begin_with(&config, handler);
}

static inline void end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* The test has done with the exchange: the reply may end. */
static inline void let_go(void)
{
        weir_series_unref(atomic_exchange(&at.series, NULL));
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
}

/* Sends it, and returns when the handler has let the test have the exchange. */
static inline void ask_size(const char *request, size_t size)
{
        int before = atomic_load(&at.handled);

        CU_ASSERT_TRUE(http_send(&at.client, request, size));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == before + 1);
}

static inline void ask(const char *request)
{
        ask_size(request, strlen(request));
}

/* -- a task and its end -- */

struct piece {
        struct weir_test_record record; /* first */
        char *data;
        size_t size;
};

static inline void take_piece(weir_task *task, void *context)
{
        struct piece *piece = context;
        const void *data = weir_http_read_data(task, &piece->size);

        if (data && weir_task_status(task) == 0) {
                piece->data = malloc(piece->size + 1);
                memcpy(piece->data, data, piece->size);
                piece->data[piece->size] = '\0';
        }
        weir_test_done(task, context);
}

static inline void start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(task)), 0);
}

static inline void read_begin(struct piece *piece)
{
        *piece = (struct piece){.size = 0};
        start(weir_http_read_new(at.exchange, take_piece, piece));
}

static inline void collect_begin(struct piece *piece, size_t max)
{
        *piece = (struct piece){.size = 0};
        start(weir_http_collect_new(at.exchange, max, take_piece, piece));
}

static inline void write_begin(struct piece *piece, const void *data, size_t size)
{
        *piece = (struct piece){.size = 0};
        start(weir_http_write_new(at.exchange, data, size, take_piece, piece));
}

static inline bool is_ended(const struct piece *piece)
{
        return piece->record.frees > 0;
}

/* Its status, when it has ended. */
static inline int ended(struct piece *piece)
{
        weir_test_wait_freed(&piece->record);
        CU_ASSERT_EQUAL(piece->record.calls, 1);
        return piece->record.status;
}

static inline void piece_done(struct piece *piece)
{
        free(piece->data);
        *piece = (struct piece){.size = 0};
}

/* Returns when all that the test has started, and the client sent, has had its turn. */
static inline void run_ready(void)
{
        weir_test_pass(0);
}

/* Whether the task waits. */
static inline bool waits(const struct piece *piece)
{
        run_ready();
        return !is_ended(piece);
}

static inline int write_all(const void *data, size_t size)
{
        struct piece piece;

        write_begin(&piece, data, size);
        return ended(&piece);
}

static inline int write_text(const char *text)
{
        return write_all(text, strlen(text));
}

static inline int collect_all(size_t max)
{
        struct piece piece;

        collect_begin(&piece, max);
        return ended(&piece);
}

/* Reads up to `size` bytes with as many reads as are needed, each of which ends at once.  Stops at a read of no bytes. */
static inline size_t read_up_to(char *buffer, size_t size)
{
        size_t have = 0;

        while (have < size) {
                struct piece piece;

                read_begin(&piece);
                CU_ASSERT_EQUAL(ended(&piece), 0);
                CU_ASSERT(piece.size <= size - have);
                if (piece.size == 0 || piece.size > size - have) {
                        piece_done(&piece);
                        break;
                }
                memcpy(buffer + have, piece.data, piece.size);
                have += piece.size;
                piece_done(&piece);
        }
        return have;
}

static inline void assert_reads(const char *text)
{
        char buffer[256];
        size_t size = read_up_to(buffer, strlen(text));

        buffer[size] = '\0';
        CU_ASSERT_STRING_EQUAL(buffer, text);
}

/* The body has ended, or after an upgrade what comes in. */
static inline void assert_reads_end(void)
{
        struct piece piece;

        read_begin(&piece);
        CU_ASSERT_EQUAL(ended(&piece), 0);
        CU_ASSERT_EQUAL(piece.size, 0);
        piece_done(&piece);
}

static inline void assert_read_fails(int status)
{
        struct piece piece;

        read_begin(&piece);
        CU_ASSERT_EQUAL(ended(&piece), status);
        CU_ASSERT_PTR_NULL(piece.data);
}

static inline void assert_receives(int status, const char *body)
{
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, status);
        if (body) {
                HTTP_ASSERT_TEXT(at.reply.body, body);
        }
}

/* Nothing comes after it, and nothing of it was lost. */
static inline void assert_is_over(void)
{
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
}

static inline void open_again(void)
{
        http_close(&at.client);
        http_open(&at.client, at.port);
}

/* Memory that the process has from malloc, small and large. */
static inline size_t memory_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* Sends until nothing is taken any more.  Returns how much was. */
static inline size_t send_what_is_taken(const void *data, size_t size)
{
        size_t sent = 0;

        for (int quiet = 0; sent < size && quiet < 20;) {
                ssize_t count = send(at.client.fd, (const char *)data + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (count < 0) {
                        run_ready();
                        weir_test_sleep(1000000);
                        quiet++;
                } else {
                        sent += (size_t)count;
                        quiet = 0;
                }
        }
        return sent;
}

static inline char *pattern(size_t size)
{
        struct weir_test_random random = {weir_test_seed()};
        char *bytes = malloc(size + 1);

        for (size_t i = 0; i < size; i++) {
                bytes[i] = (char)('a' + weir_test_random_below(&random, 26));
        }
        bytes[size] = '\0';
        return bytes;
}

#endif
