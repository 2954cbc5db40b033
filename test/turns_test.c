/* test/turns_test.c: a connection that always has more to do leaves others their turn, such as one with the smallest records of
 * TLS. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/worker/worker.h"
#include "server/connection/connection.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"
#include "test/tls_peer.h"
#include "kernel/worker/deliver.h"

#define GET  "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define HOLD "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n"
#define BODY 4000 /* records of one byte: more than are read in three turns, less than the socket takes */

static const struct tls_client_wish anybody = {0};

static struct {
        weir_http_server *server;
        int port;
        struct weir_test_latch held, released;
        int64_t before, read; /* bytes: when the worker was held, and when somebody else had a turn */
        size_t body;          /* bytes of it that the handler has seen */
        bool reads;           /* it reads them piece by piece */
        SSL *holder, *sender, *neighbour;
} at;

/* Bytes, of all connections.  On the worker. */
static int64_t
received(void)
{
        struct weir__http_branch *branch = weir__http_branch_at(at.server, 0);
        int64_t size = atomic_load_explicit(&branch->counts.of[WEIR__COUNT_RECEIVED], memory_order_relaxed);

        const struct weir__list *all = &branch->connections;
        for (struct weir__link *link = weir__list_first(all); link; link = weir__list_next(all, link)) {
                const struct weir__connection *each = weir__container_of(link, struct weir__connection, link);

                if (each->state == WEIR__LINGERING)
                        size += (int64_t)each->transport.input.size;
        }
        return size;
}

static size_t
body_size(weir_task *exchange)
{
        size_t size = 0;

        weir_http_request_body(exchange, &size);
        return size;
}

static void
note_body(weir_task *collect, void *exchange)
{
        CU_ASSERT_EQUAL(weir_task_status(collect), 0);
        at.body = body_size(exchange);
}

/* Reads the body piece by piece. */
static void
read_on(weir_task *read, void *exchange)
{
        size_t size = 0;

        if (read) {
                CU_ASSERT_EQUAL(weir_task_status(read), 0);
                weir_http_read_data(read, &size);
        }
        at.body += size;
        if (!read || size)
                weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, read_on, exchange));
}

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(path, "/hold") == 0) {
                weir_test_latch_count_down(&at.held);
                weir_test_latch_wait(&at.released);
                at.before = received();
        } else if (strcmp(path, "/") == 0) {
                at.read = received() - at.before;
        } else if (at.reads) {
                read_on(NULL, exchange);
        } else if (at.server->config.stream_bodies) {
                weir_series_push(weir_series_of(exchange), weir_http_collect_new(exchange, 0, note_body, exchange));
        } else {
                at.body = body_size(exchange);
        }
}

static void
begin(struct weir_http_server_config *config)
{
        config->certificate_file = tls_path("server.pem");
        config->private_key_file = tls_path("server.key");
        weir_test_begin_real(1); /* one poller, which nobody takes away */
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        at.body = 0;
        at.read = -1;
        at.reads = false;
        weir_test_latch_init(&at.held, 1);
        weir_test_latch_init(&at.released, 1);
        at.holder = tls_connect(at.port, &anybody);
        at.sender = tls_connect(at.port, &anybody);
        at.neighbour = tls_connect(at.port, &anybody);
        CU_ASSERT_FATAL(at.holder && at.sender && at.neighbour);
}

/* The head, and a record for each byte of the body, with one call of the system. */
static void
send_in_tiny_records(SSL *client)
{
        BIO *memory = BIO_new(BIO_s_mem());
        char *data;

        CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
        SSL_set0_wbio(client, memory);
        CU_ASSERT_TRUE_FATAL(tls_send(client, POST, sizeof POST - 1));
        for (unsigned i = 0; i < BODY; i++)
                CU_ASSERT_TRUE_FATAL(tls_send(client, "x", 1));
        long size = BIO_get_mem_data(memory, &data);
        CU_ASSERT_EQUAL_FATAL(send(SSL_get_rfd(client), data, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT), size);
        SSL_set0_wbio(client, BIO_new_socket(SSL_get_rfd(client), BIO_NOCLOSE));
}

static void
expect(SSL *client, const char *beginning)
{
        char *reply;

        CU_ASSERT_TRUE_FATAL(tls_receive(client, &reply, NULL));
        CU_ASSERT_EQUAL(strncmp(reply, beginning, strlen(beginning)), 0);
        free(reply);
}

/* Both have sent all when the worker looks. */
static void
both_send(void)
{
        CU_ASSERT_TRUE(tls_send(at.holder, HOLD, sizeof HOLD - 1));
        weir_test_latch_wait(&at.held);
        send_in_tiny_records(at.sender);
        CU_ASSERT_TRUE(tls_send(at.neighbour, GET, sizeof GET - 1));
        weir_test_latch_count_down(&at.released);
        expect(at.neighbour, "HTTP/1.1 200 ");
        CU_ASSERT(at.read >= 0 && at.read < BODY);
}

static void
end(void)
{
        tls_hang_up(at.holder);
        tls_hang_up(at.sender);
        tls_hang_up(at.neighbour);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
both_are_answered(bool streams, bool reads)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = streams;
        begin(&config);
        at.reads = reads;
        both_send();
        expect(at.sender, "HTTP/1.1 200 ");
        CU_ASSERT_EQUAL(at.body, BODY);
        end();
}

static void
a_body_that_is_collected_takes_turns(void)
{
        both_are_answered(false, false);
}

static void
a_body_collected_in_turns_is_whole(void)
{
        both_are_answered(true, false);
}

static void
a_body_read_in_pieces_and_turns_is_whole(void)
{
        both_are_answered(true, true);
}

static void
discarding_a_body_takes_turns(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_body = BODY - 1;
        begin(&config);
        both_send();
        expect(at.sender, "HTTP/1.1 413 ");
        end();
}

/* -- tasks that go on -- */

#define TURNS 100

/* Goes on again and again.  All on the worker, but for `over`. */
static struct {
        struct weir__work work;
        struct weir__source source; /* ready from the first turn on */
        struct weir__poller *poller;
        unsigned turns, turns_before_event;
        struct weir_test_latch over;
} hog;

static void
event_came(struct weir__source *source, uint32_t events)
{
        (void)source;
        if (events & EPOLLIN)
                hog.turns_before_event = hog.turns;
}

static void
take_turn(struct weir__work *work)
{
        if (hog.turns++ == 0) {
                CU_ASSERT_EQUAL(eventfd_write(hog.source.fd, 1), 0);
        }
        if (hog.turns < TURNS) {
                weir__deliver_requeued(hog.poller, work);
                return;
        }
        weir__source_remove(hog.poller, &hog.source);
        weir_test_latch_count_down(&hog.over);
}

static void
ignore(struct weir__source *source)
{
        (void)source;
}

static void
begin_turns(weir_task *task, void *context)
{
        static const struct weir__work_ops work_ops = {.run = take_turn};
        static const struct weir__source_ops source_ops = {event_came, ignore, ignore};

        (void)task;
        (void)context;
        hog.poller = weir__worker_self()->poller;
        hog.work.ops = &work_ops;
        hog.source = (struct weir__source){.ops = &source_ops, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
        hog.turns = hog.turns_before_event = 0;
        CU_ASSERT_EQUAL_FATAL(weir__source_add(hog.poller, &hog.source, EPOLLIN), 0);
        weir__deliver_requeued(hog.poller, &hog.work);
}

/* Though nothing else is ready when it is delivered. */
static void
an_event_of_a_descriptor_comes_before_a_task_that_goes_on(void)
{
        weir_test_begin_real(1);
        weir_test_latch_init(&hog.over, 1);
        CU_ASSERT_EQUAL_FATAL(weir_task_start(weir_empty_new(begin_turns, NULL)), 0);
        weir_test_latch_wait(&hog.over);
        CU_ASSERT_EQUAL(hog.turns_before_event, 1);
        close(hog.source.fd);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_body_that_is_collected_takes_turns),
                WEIR_TEST(a_body_collected_in_turns_is_whole),
                WEIR_TEST(a_body_read_in_pieces_and_turns_is_whole),
                WEIR_TEST(discarding_a_body_takes_turns),
                WEIR_TEST(an_event_of_a_descriptor_comes_before_a_task_that_goes_on),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        int failed = weir_test_main("turns", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
