/* test/stream_metrics_test.c: what servers of streams count. */
#include "test/metrics_fixture.h"
#include "test/stream_server_fixture.h"
#include "test/tls_peer.h"

/* The value of a sample of the server; `detail` goes behind its name. */
static double
counted(const char *name, const char *detail)
{
        char sample[256];

        snprintf(sample, sizeof sample, "weir_stream_%s{server=\"127.0.0.1:%d\"%s}", name, at.port, detail);
        return value(sample);
}

static void
echo_after_many(weir_stream *stream, weir_series *series, void *context)
{
        stream->received = UINT32_MAX - 2;
        echo(stream, series, context);
}

static void
more_bytes_of_one_connection_than_32_bits_hold_are_counted(void)
{
        prepare();
        begin(1, echo_after_many);
        int fd = dial();
        CU_ASSERT(is_echoed(fd, "hello"));
        close(fd);
        WEIR_TEST_EVENTUALLY(counted("received_bytes_total", "") == UINT32_MAX + 3.0);
        end();
}

static void
connections_and_bytes_are_counted(void)
{
        prepare();
        begin(2, echo);
        CU_ASSERT_EQUAL(counted("accepted_connections_total", ""), 0);
        int one = dial(), two = dial();
        CU_ASSERT(is_echoed(one, "hello") && is_echoed(two, "world!"));
        WEIR_TEST_EVENTUALLY(counted("connections", "") == 2);
        CU_ASSERT_EQUAL(counted("accepted_connections_total", ""), 2);
        CU_ASSERT_EQUAL(counted("received_bytes_total", ""), 0); /* when they close */
        close(one);
        WEIR_TEST_EVENTUALLY(counted("connections", "") == 1);
        WEIR_TEST_EVENTUALLY(counted("received_bytes_total", "") == 5);
        WEIR_TEST_EVENTUALLY(counted("sent_bytes_total", "") == 5);
        close(two);
        WEIR_TEST_EVENTUALLY(counted("received_bytes_total", "") == 11);
        WEIR_TEST_EVENTUALLY(counted("sent_bytes_total", "") == 11);
        WEIR_TEST_EVENTUALLY(counted("connections", "") == 0);
        CU_ASSERT_EQUAL(counted("accepted_connections_total", ""), 2);
        CU_ASSERT_EQUAL(counted("refused_connections_total", ",reason=\"address\""), 0);
        CU_ASSERT_EQUAL(counted("tls_handshakes_total", ",result=\"done\""), 0);
        CU_ASSERT_EQUAL(counted("tls_handshakes_total", ",result=\"failed\""), 0);
        end();
}

static void
refusals_are_counted_by_their_reason(void)
{
        char byte;

        prepare();
        at.config.max_connections_per_address = 1;
        begin(1, echo);
        int one = dial();
        CU_ASSERT(is_echoed(one, "1"));
        int two = dial();
        (void)receive(two, &byte, 1);
        CU_ASSERT_EQUAL(counted("refused_connections_total", ",reason=\"address\""), 1);
        CU_ASSERT_EQUAL(counted("refused_connections_total", ",reason=\"shortage\""), 0);
        CU_ASSERT_EQUAL(counted("accepted_connections_total", ""), 2);
        WEIR_TEST_EVENTUALLY(counted("connections", "") == 1);
        close(one);
        close(two);
        end();
}

/* Bytes between the two are no deadline, so the clock is asked again and again. */
#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_test_pass(0), (condition)))

static void
time_limits_are_counted_by_their_kind(void)
{
        static weir_stream_fn *const handlers[] = {echo, write_large};
        static const char *const limits[] = {",limit=\"idle\"", ",limit=\"write\""};

        for (int i = 0; i < 2; i++) {
                prepare();
                at.config.idle_timeout = i ? 0 : WEIR_SEC(5);
                at.config.write_timeout = WEIR_SEC(5);
                weir_test_begin_virtual();
                start_at("127.0.0.1:0", handlers[i]);
                int fd = dial();
                BECOMES(atomic_load(&at.handled) == 1);
                /* The system of the peer may take more in the beginning: then the limit of the write begins anew. */
                BECOMES((weir_test_pass(WEIR_SEC(5)), connections() == 0));
                BECOMES(counted("late_connections_total", limits[i]) == 1);
                CU_ASSERT_EQUAL(counted("late_connections_total", limits[!i]), 0);
                CU_ASSERT_EQUAL(counted("late_connections_total", ",limit=\"handshake\""), 0);
                close(fd);
                end();
        }
}

static void
begin_secure(weir_nsec handshake_timeout)
{
        prepare();
        at.config.certificate_file = tls_path("server.pem");
        at.config.private_key_file = tls_path("server.key");
        at.config.handshake_timeout = handshake_timeout;
        begin(1, echo);
}

static void
handshakes_are_counted(void)
{
        char byte;

        begin_secure(WEIR_FOREVER);
        for (int i = 0; i < 3; i++) {
                SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});

                CU_ASSERT(tls_send(client, "hello", 5));
                CU_ASSERT_EQUAL(SSL_read(client, &byte, 1), 1);
                tls_hang_up(client);
        }
        CU_ASSERT_EQUAL(counted("tls_handshakes_total", ",result=\"done\""), 3);
        CU_ASSERT_EQUAL(counted("tls_handshakes_total", ",result=\"failed\""), 0);
        int plain = dial(), gone = dial();
        CU_ASSERT_EQUAL(send(plain, "hello\n", 6, MSG_NOSIGNAL), 6);
        close(gone);
        WEIR_TEST_EVENTUALLY(counted("tls_handshakes_total", ",result=\"failed\"") == 2);
        CU_ASSERT_EQUAL(counted("tls_handshakes_total", ",result=\"done\""), 3);
        WEIR_TEST_EVENTUALLY(counted("received_bytes_total", "") == 15);
        close(plain);
        end();
        begin_secure(WEIR_MSEC(20));
        int silent = dial();
        WEIR_TEST_EVENTUALLY(counted("tls_handshakes_total", ",result=\"failed\"") == 1);
        CU_ASSERT_EQUAL(counted("late_connections_total", ",limit=\"handshake\""), 1);
        close(silent);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(connections_and_bytes_are_counted),
                WEIR_TEST(more_bytes_of_one_connection_than_32_bits_hold_are_counted),
                WEIR_TEST(refusals_are_counted_by_their_reason),
                WEIR_TEST(time_limits_are_counted_by_their_kind),
                WEIR_TEST(handshakes_are_counted),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        int result = weir_test_main("stream_metrics", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        free(metrics_text);
        return result;
}
