/* test/stream_server_peers_test.c: peers that mean harm, or go away, at a server of streams. */
#include "test/stream_scenarios.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

/* Bytes between the two are no deadline, so the clock is asked again and again. */
#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_test_pass(0), (condition)))

static size_t resting; /* users of the server without a connection */

/* -- handlers -- */

static void
take_line(weir_task *read, void *stream)
{
        size_t size;
        const void *line = weir_stream_data(read, &size);

        atomic_store(&at.status, weir_task_status(read));
        atomic_fetch_add(&at.ended, 1);
        if (weir_task_status(read) == 0)
                weir_series_push(weir_series_of(read), weir_stream_write_new(stream, line, size, NULL, NULL));
}

static void
read_line(weir_stream *stream, weir_series *series, void *deadline)
{
        if (deadline != &at)
                weir_series_set_deadline(series, WEIR_SEC(10));
        weir_series_push(series, weir_stream_read_until_new(stream, "\n", 1, 100, take_line, stream));
        atomic_fetch_add(&at.handled, 1);
}

static void
read_line_in_time(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        read_line(stream, series, NULL);
}

static void
note_status(weir_task *task, void *context)
{
        (void)context;
        atomic_store(&at.status, weir_task_status(task));
}

/* It has written more than goes out. */
static void
write_much(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_lent_new(stream, large, sizeof large, note_status, NULL));
        atomic_fetch_add(&at.handled, 1);
}

/* It has finished its side, and waits for the peer. */
static void
finish_and_read(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "bye", 3, NULL, NULL));
        weir_series_push(series, weir_stream_finish_new(stream, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 1, 1, note_status, NULL));
        atomic_fetch_add(&at.handled, 1);
}

/* It has closed the stream, and lingers, because the peer has sent more. */
static void
write_and_go(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_read_new(stream, 1, 1, NULL, NULL));
        weir_series_push(series, weir_stream_write_new(stream, reply, 65536, note_status, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
say_bye(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "bye", 3, NULL, NULL));
        atomic_fetch_add(&at.handled, 1);
}

/* -- begin and end -- */

static void
use_tls(void)
{
        at.config.certificate_file = tls_path("server.pem");
        at.config.private_key_file = tls_path("server.key");
}

static void
begin_here(weir_stream_fn *handler)
{
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_log_set(ignore_log, NULL), 0);
        start_at("127.0.0.1:0", handler);
        resting = atomic_load(&at.server->base.users.count);
}

static void
begin_virtual(weir_stream_fn *handler)
{
        weir_test_begin_virtual();
        start_at("127.0.0.1:0", handler);
}

/* All that were connected have gone, and nothing of them is left. */
static void
rest(void)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        WEIR_TEST_EVENTUALLY(connections() == 0);
}

static void
reset(int fd)
{
        static const struct linger at_once = {.l_onoff = 1};

        CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(fd);
}

/* -- slow ones -- */

static void
a_byte_a_second_is_served_and_is_no_silence(void)
{
        static const char line[] = "0123456789abcdef\n";

        prepare();
        at.config.idle_timeout = WEIR_SEC(3);
        weir_test_begin_virtual();
        start_at_unix(read_line);
        int fd = dial_unix(), left;
        BECOMES(atomic_load(&at.handled) == 1);
        for (const char *byte = line; *byte; byte++) {
                CU_ASSERT_EQUAL(atomic_load(&at.ended), 0);
                CU_ASSERT_EQUAL(send(fd, byte, 1, MSG_NOSIGNAL), 1);
                BECOMES(ioctl(fd, SIOCOUTQ, &left) == 0 && left == 0); /* the server has read it */
                weir_test_pass(WEIR_SEC(1));
        }
        char room[sizeof line] = "";
        CU_ASSERT_EQUAL(recv(fd, room, sizeof line - 1, MSG_WAITALL), sizeof line - 1);
        CU_ASSERT_STRING_EQUAL(room, line);
        close(fd);
        end();
}

static void
a_byte_a_second_does_not_outlive_the_deadline_of_the_series(void)
{
        prepare();
        begin_virtual(read_line_in_time);
        int fd = dial();
        BECOMES(atomic_load(&at.handled) == 1);
        for (int i = 0; i < 9; i++) {
                CU_ASSERT_EQUAL(send(fd, "x", 1, MSG_NOSIGNAL), 1);
                weir_test_pass(WEIR_SEC(1));
        }
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 0);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(atomic_load(&at.ended) == 1);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ETIMEDOUT);
        BECOMES((weir_test_pass(WEIR_SEC(5)), connections() == 0));
        close(fd);
        end();
}

/* The first message of a client, whose size is returned. */
static int
client_hello(char room[4096])
{
        SSL *client = tls_client(-1, &(struct tls_client_wish){0});

        CU_ASSERT(SSL_do_handshake(client) < 0);
        int size = BIO_read(SSL_get_wbio(client), room, 4096);
        SSL_free(client);
        CU_ASSERT(size > 100);
        return size;
}

static void
a_byte_a_second_does_not_outlive_the_limit_of_the_handshake(void)
{
        char hello[4096];

        prepare();
        use_tls();
        begin_virtual(read_line);
        int fd = dial(), size = client_hello(hello), i = 0;
        BECOMES(connections() == 1);
        for (; i < 9; i++) {
                CU_ASSERT_EQUAL(send(fd, hello + i % size, 1, MSG_NOSIGNAL), 1);
                weir_test_pass(WEIR_SEC(1));
        }
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
        close(fd);
        end();
}

/* -- those that never read -- */

static void
an_echo_takes_no_more_from_a_peer_that_never_reads(void)
{
        static char bytes[65536];
        size_t taken = 0;

        prepare();
        weir_test_begin_real(1);
        start_at_unix(echo);
        int fd = dial_unix();
        CU_ASSERT_EQUAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        for (ssize_t sent; poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 200) > 0;)
                taken += (sent = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0 ? (size_t)sent : 0;
        CU_ASSERT(taken < 4 << 20); /* what sockets hold: the server has one piece in memory */
        WEIR_TEST_EVENTUALLY(connections() == 1);
        close(fd);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        end();
}

/* -- those that reset -- */

#define PEERS 20

struct state {
        weir_stream_fn *handler;
        const char *sends;
        size_t waits_for; /* bytes, before the reset */
        int status;       /* of the task that waits; 0: none does.  A reset may be seen as -EPIPE by a write */
};

static void
a_reset_in_any_state_leaves_nothing(void)
{
        static const struct state states[] = {
                {read_line, "", 0, -ECONNRESET},
                {read_line, "half a line", 0, -ECONNRESET},
                {write_much, "", 0, -ECONNRESET},
                {write_much, "", 100000, -ECONNRESET},
                {finish_and_read, "", 3, -ECONNRESET},
                {write_and_go, "and much more than it reads", 100, 0},
                {say_bye, "", 0, 0},
        };

        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
                static char room[100000];
                int fds[PEERS];

                prepare();
                begin_here(states[i].handler);
                unsigned descriptors = weir_test_entries_of("/proc/self/fd");
                for (int j = 0; j < PEERS; j++) {
                        fds[j] = dial();
                        size_t size = strlen(states[i].sends);
                        CU_ASSERT_EQUAL(send(fds[j], states[i].sends, size, MSG_NOSIGNAL), (ssize_t)size);
                        size = states[i].waits_for;
                        CU_ASSERT(!size || recv(fds[j], room, size, MSG_WAITALL) == (ssize_t)size);
                }
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == PEERS);
                for (int j = 0; j < PEERS; j++)
                        reset(fds[j]);
                rest();
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                int status = atomic_load(&at.status);
                CU_ASSERT(!states[i].status || status == states[i].status ||
                          (states[i].handler == write_much && status == -EPIPE));
                end();
        }
}

static void
a_reset_during_the_handshake_leaves_nothing(void)
{
        char hello[4096];
        int size = client_hello(hello);
        const int sizes[] = {0, 1, 5, size / 2, size};

        prepare();
        use_tls();
        begin_here(say_bye);
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                for (int answer = 0; answer < 2; answer++) {
                        int fd = dial();
                        char byte;

                        CU_ASSERT_EQUAL(send(fd, hello, (size_t)sizes[i], MSG_NOSIGNAL), sizes[i]);
                        if (answer && sizes[i] == size)
                                CU_ASSERT_EQUAL(recv(fd, &byte, 1, 0), 1); /* the server waits for the rest of the handshake */
                        reset(fd);
                }
        }
        rest();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});
        char room[4] = "";
        CU_ASSERT_EQUAL(SSL_read(client, room, 3), 3);
        CU_ASSERT_STRING_EQUAL(room, "bye");
        tls_hang_up(client);
        end();
}

static void
a_reset_behind_the_handshake_leaves_nothing(void)
{
        static weir_stream_fn *const handlers[] = {read_line, write_much, finish_and_read, say_bye};

        for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
                prepare();
                use_tls();
                begin_here(handlers[i]);
                for (int j = 0; j < 5; j++) {
                        SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});
                        static const struct linger at_once = {.l_onoff = 1};

                        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
                        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == j + 1);
                        setsockopt(SSL_get_fd(client), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
                        tls_hang_up(client);
                }
                rest();
                end();
        }
}

/* -- those that finish at once -- */

static void
a_half_close_at_once_still_gets_the_reply(void)
{
        char room[4] = "";

        prepare();
        begin_here(say_bye);
        for (int i = 0; i < PEERS; i++) {
                int fd = dial();
                shutdown(fd, SHUT_WR);
                CU_ASSERT_EQUAL(recv(fd, room, 3, MSG_WAITALL), 3);
                CU_ASSERT_EQUAL(receive(fd, room, 1), 0);
                close(fd);
        }
        rest();
        end();
        prepare();
        begin_here(read_line);
        int fd = dial();
        shutdown(fd, SHUT_WR);
        CU_ASSERT_EQUAL(receive(fd, room, 1), 0);
        close(fd);
        rest();
        CU_ASSERT_EQUAL(atomic_load(&at.status), -EPIPE);
        end();
}

static void
a_half_close_at_once_in_tls(void)
{
        char room[4] = "";

        prepare();
        use_tls();
        begin_here(say_bye);
        int fd = dial(); /* it never begins a handshake */
        shutdown(fd, SHUT_WR);
        ssize_t got = receive(fd, room, 1);
        CU_ASSERT(got == 0 || got == -ECONNRESET);
        close(fd);
        for (int i = 0; i < 5; i++) {
                SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});

                CU_ASSERT(SSL_shutdown(client) >= 0);
                shutdown(SSL_get_fd(client), SHUT_WR);
                CU_ASSERT_EQUAL(SSL_read(client, room, 3), 3);
                CU_ASSERT_STRING_EQUAL(room, "bye");
                CU_ASSERT(tls_is_over(client));
                tls_hang_up(client);
        }
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 5);
        rest();
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_byte_a_second_is_served_and_is_no_silence),
                WEIR_TEST(a_byte_a_second_does_not_outlive_the_deadline_of_the_series),
                WEIR_TEST(a_byte_a_second_does_not_outlive_the_limit_of_the_handshake),
                WEIR_TEST(an_echo_takes_no_more_from_a_peer_that_never_reads),
                WEIR_TEST(a_reset_in_any_state_leaves_nothing),
                WEIR_TEST(a_reset_during_the_handshake_leaves_nothing),
                WEIR_TEST(a_reset_behind_the_handshake_leaves_nothing),
                WEIR_TEST(a_half_close_at_once_still_gets_the_reply),
                WEIR_TEST(a_half_close_at_once_in_tls),
        };

        make_replies();
        int result = weir_test_main("stream_server_peers", tests, sizeof tests / sizeof *tests);
        close(reply_file);
        tls_files_end();
        return result;
}
