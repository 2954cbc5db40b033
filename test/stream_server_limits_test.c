/* test/stream_server_limits_test.c: what the time limits of a server of streams count, on the virtual clock.
 *
 * The clients are at a Unix socket: there nothing is taken but what the client has read. */
#include "test/stream_server_fixture.h"
#include "test/tls_peer.h"

#include <weir/protocol.h>
#include <weir/tls.h>

/* Bytes between the two are no deadline, so the clock is asked again and again. */
#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_test_pass(0), (condition)))

#define MUCH ((size_t)1 << 20) /* bytes: more than a Unix socket holds */

static char much[MUCH];
static _Atomic size_t received; /* by the server */
static atomic_int written;      /* 1: not yet; the status of the write */

/* -- handlers -- */

static void
note_written(weir_task *write, void *context)
{
        (void)context;
        atomic_store(&written, weir_task_status(write));
}

static void
read_on(weir_task *read, void *stream)
{
        size_t size;

        (void)weir_stream_data(read, &size);
        if (weir_task_status(read) == 0) {
                atomic_fetch_add(&received, size);
                weir_task_start(weir_stream_read_new(stream, 1, 4096, read_on, stream));
        }
}

/* Reads all the time, beside the series. */
static void
write_and_read(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_task_start(weir_stream_read_new(stream, 1, 4096, read_on, stream));
        weir_series_push(series, weir_stream_write_lent_new(stream, much, sizeof much, note_written, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
write_then_read(weir_stream *stream, weir_series *series, void *context)
{
        write_large(stream, series, context);
        weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
}

static void
keep(weir_stream *stream, weir_series *series, void *context)
{
        (void)series, (void)context;
        atomic_store(&at.kept, weir_stream_ref(stream));
        atomic_fetch_add(&at.handled, 1);
}

/* -- begin -- */

/* Returns a client that is connected, at 0 s. */
static int
begin_with(weir_stream_fn *handler, weir_nsec idle, weir_nsec write)
{
        prepare();
        atomic_store(&received, 0);
        atomic_store(&written, 1);
        at.config.idle_timeout = idle;
        at.config.write_timeout = write;
        weir_test_begin_virtual();
        start_at_unix(handler);
        int fd = dial_unix();
        BECOMES(atomic_load(&at.handled) == 1);
        return fd;
}

static void
end_with(int fd)
{
        close(fd);
        end();
}

/* Sends so much, and waits until the server has it. */
static void
send_much(int fd, size_t size)
{
        size_t before = atomic_load(&received), sent = 0;

        BECOMES(sent == size ||
                (sent += (size_t)send(fd, much, size - sent < 65536 ? size - sent : 65536, MSG_NOSIGNAL)) == size);
        BECOMES(atomic_load(&received) == before + size);
}

static size_t
take(int fd, size_t most)
{
        static char room[65536];
        size_t taken = 0;
        ssize_t got;

        while (taken < most && (got = recv(fd, room, most - taken < sizeof room ? most - taken : sizeof room, MSG_DONTWAIT)) > 0)
                taken += (size_t)got;
        return taken;
}

/* -- tests -- */

static void
bytes_that_come_do_not_renew_the_write_limit(void)
{
        int fd = begin_with(write_and_read, 0, WEIR_SEC(10));

        for (int i = 0; i < 4; i++) {
                send_much(fd, MUCH);
                weir_test_pass(WEIR_SEC(2));
                WEIR_TEST_EVENTUALLY(connections() == 1);
        }
        send_much(fd, MUCH);
        weir_test_pass(WEIR_SEC(2));
        BECOMES(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&written), -ETIMEDOUT);
        end_with(fd);
}

static void
a_short_idle_limit_does_not_shorten_the_write_limit(void)
{
        int fd = begin_with(write_and_read, WEIR_SEC(5), WEIR_SEC(20));

        for (int i = 0; i < 9; i++) {
                weir_test_pass(WEIR_SEC(2));
                WEIR_TEST_EVENTUALLY(connections() == 1);
                send_much(fd, 1);
        }
        weir_test_pass(WEIR_SEC(2));
        BECOMES(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&written), -ETIMEDOUT);
        end_with(fd);
}

static void
silence_ends_a_write_that_waits_as_well(void)
{
        int fd = begin_with(write_and_read, WEIR_SEC(5), WEIR_SEC(20));

        weir_test_pass(WEIR_SEC(3));
        send_much(fd, 1);
        weir_test_pass(WEIR_SEC(4));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(connections() == 0);
        end_with(fd);
}

static void
a_write_that_has_gone_leaves_the_idle_limit_alone(void)
{
        int fd = begin_with(write_then_read, WEIR_SEC(20), WEIR_SEC(5));
        size_t taken = 0;

        weir_test_pass(WEIR_SEC(4));
        BECOMES((taken += take(fd, sizeof large)) == sizeof large);
        weir_test_pass(WEIR_SEC(19));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ETIMEDOUT);
        end_with(fd);
}

static void
a_peer_that_takes_slowly_is_kept(void)
{
        int fd = begin_with(write_large, WEIR_SEC(5), WEIR_SEC(5));

        for (int i = 0; i < 10; i++) {
                weir_test_pass(WEIR_SEC(4));
                WEIR_TEST_EVENTUALLY(connections() == 1);
                size_t taken = 0;
                BECOMES((taken += take(fd, 65536 - taken)) == 65536);
                weir_test_pass(0);
        }
        weir_test_pass(WEIR_SEC(10)); /* what it takes may be seen only when the limit ends */
        BECOMES(connections() == 0);
        end_with(fd);
}

static void
a_write_has_its_whole_limit_behind_one_that_was_taken_back(void)
{
        struct weir_test_record first = {0}, back = {0}, second = {0};
        int fd = begin_with(keep, 0, WEIR_SEC(10)), least = 1;
        weir_stream *kept = atomic_load(&at.kept);

        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_stream_write_new(kept, much, 32768, weir_test_done, &first))), 0);
        BECOMES(first.frees);
        CU_ASSERT_EQUAL(setsockopt(kept->transport.stream.source.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_test_recorded(weir_stream_write_new(kept, "x", 1, weir_test_done, &back)));
        weir_series_set_deadline(series, WEIR_SEC(9));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(9));
        BECOMES(back.frees);
        WEIR_TEST_CALLED(&back, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_stream_write_new(kept, "y", 1, weir_test_done, &second))), 0);
        weir_test_pass(WEIR_SEC(9));
        CU_ASSERT_EQUAL(second.calls, 0);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(second.frees);
        WEIR_TEST_CALLED(&second, -ETIMEDOUT);
        weir_stream_unref(kept);
        end_with(fd);
}

/* -- a start of TLS -- */

static weir_tls *settings;

static void
note_secure(weir_task *secure, void *context)
{
        (void)context;
        atomic_store(&written, weir_task_status(secure));
}

static void
secure(weir_task *read, void *stream)
{
        weir_series_push(weir_series_of(read), weir_stream_start_tls_new(stream, settings, NULL, note_secure, NULL));
        atomic_fetch_add(&at.ended, 1);
}

static void
read_and_secure(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_read_new(stream, 1, 1, secure, stream));
        atomic_fetch_add(&at.handled, 1);
}

static void
a_start_of_tls_has_its_whole_limit(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        settings = weir_tls_server_new(&config);
        int fd = begin_with(read_and_secure, WEIR_SEC(10), 0);
        weir_test_pass(WEIR_SEC(9));
        CU_ASSERT_EQUAL(send(fd, "x", 1, MSG_NOSIGNAL), 1);
        BECOMES(atomic_load(&at.ended) == 1);
        weir_test_pass(WEIR_SEC(9));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        CU_ASSERT_EQUAL(atomic_load(&written), 1);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(connections() == 0);
        CU_ASSERT_EQUAL(atomic_load(&written), -ETIMEDOUT);
        end_with(fd);
        weir_tls_unref(settings);
}

/* -- a protocol -- */

static void
take_message(weir_task *message, void *context)
{
        (void)message, (void)context;
        atomic_fetch_add(&at.ended, 1);
}

static void
serve_lines(weir_stream *stream, weir_series *series, void *context)
{
        static const struct weir_protocol lines = {.size = sizeof lines, .delimiter = "\n", .delimiter_size = 1};

        (void)context;
        weir_series_push(series, weir_protocol_serve_new(stream, &lines, take_message, note_written, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1000), NULL, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
a_protocol_has_its_own_limits_while_it_has_the_stream(void)
{
        int fd = begin_with(serve_lines, WEIR_SEC(5), 0);

        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(send(fd, "line\n", 5, MSG_NOSIGNAL), 5);
        BECOMES(atomic_load(&at.ended) == 1);
        weir_test_pass(WEIR_SEC(60));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        shutdown(fd, SHUT_WR);
        BECOMES(atomic_load(&written) == 0); /* the protocol has ended, and its series goes on */
        weir_test_pass(WEIR_SEC(4));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(WEIR_SEC(1));
        BECOMES(connections() == 0);
        end_with(fd);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(bytes_that_come_do_not_renew_the_write_limit),
                WEIR_TEST(a_short_idle_limit_does_not_shorten_the_write_limit),
                WEIR_TEST(silence_ends_a_write_that_waits_as_well),
                WEIR_TEST(a_write_that_has_gone_leaves_the_idle_limit_alone),
                WEIR_TEST(a_peer_that_takes_slowly_is_kept),
                WEIR_TEST(a_write_has_its_whole_limit_behind_one_that_was_taken_back),
                WEIR_TEST(a_start_of_tls_has_its_whole_limit),
                WEIR_TEST(a_protocol_has_its_own_limits_while_it_has_the_stream),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        int result = weir_test_main("stream_server_limits", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
