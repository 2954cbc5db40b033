/* test/tls_limits_test.c: TLS clients for whom there is no room, and those whose handshakes cost too much. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"
#include "test/tls_peer.h"

#define GET     "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define AT_ONCE 16 /* of those for whom there is no room, by poller */

static const struct tls_client_wish anybody = {0};

static struct {
        weir_http_server *server;
        int port;
        atomic_int handled;
        SSL *busy; /* has all the room there is */
} at;

static void
wait_for_the_test(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "waited");
        weir_series_push(weir_series_of(exchange), weir_timer_new_named("waiting", WEIR_SEC(3600), NULL, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
begin(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        config.max_connections = 1;
        weir_test_begin_real(1);
        at.server = http_server(&config, wait_for_the_test, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.handled, 0);
        at.busy = tls_connect(at.port, &anybody);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at.busy);
        CU_ASSERT_TRUE(tls_send(at.busy, GET, sizeof GET - 1));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
}

static void
end(void)
{
        char *reply;

        CU_ASSERT_EQUAL(weir_timer_reset("waiting", 0), 1);
        CU_ASSERT_TRUE(tls_receive(at.busy, &reply, NULL));
        CU_ASSERT_EQUAL(strncmp(reply, "HTTP/1.1 200 ", 13), 0);
        free(reply);
        tls_hang_up(at.busy);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* Whether it gets that reply to any request, and the end as well. */
static bool
is_turned_away(bool asks)
{
        SSL *client = tls_connect(at.port, &anybody);
        char *reply = NULL;

        if (!client)
                return false;
        bool is_told = (!asks || tls_send(client, GET, sizeof GET - 1)) && tls_receive(client, &reply, NULL) &&
                       strncmp(reply, "HTTP/1.1 503 ", 13) == 0 && strstr(reply, "\r\nRetry-After: 1\r\n") &&
                       strstr(reply, "\r\nConnection: close\r\n") && tls_is_over(client);
        free(reply);
        tls_hang_up(client);
        return is_told;
}

static void
one_for_whom_there_is_no_room_is_told_after_the_handshake(void)
{
        begin();
        for (int i = 0; i < 4 * AT_ONCE; i++) {
                CU_ASSERT_TRUE(is_turned_away(i % 2));
        }
        end();
}

/* Many of them cost no more memory than that, nor more handshakes at once. */
static void
of_slow_handshakes_only_some_are_admitted(void)
{
        struct http_client clients[AT_ONCE + 1];

        begin();
        for (int i = 0; i < AT_ONCE; i++) {
                http_open(&clients[i], at.port);
        }
        http_open(&clients[AT_ONCE], at.port);
        CU_ASSERT_TRUE(http_is_over(&clients[AT_ONCE]));
        CU_ASSERT_FALSE(http_has_news(&clients[0], 0));
        for (int i = 0; i <= AT_ONCE; i++) {
                http_close(&clients[i]);
        }
        WEIR_TEST_EVENTUALLY(is_turned_away(true)); /* there is room for those again */
        end();
}

/* -- handshakes that cost much -- */

static void
reply_at_once(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "at once");
}

static weir_http_server *
serve_with_groups(const char *groups, weir_task_fn *handler)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        config.tls_groups = groups;
        weir_test_begin_real(1);
        return http_server(&config, handler, NULL);
}

/* The group that server and client agree on; 0: none. */
static int
group_with(const weir_http_server *server, const char *groups, int version)
{
        const struct tls_client_wish wish = {.groups = groups, .version = version};
        SSL *client = tls_connect(weir_http_server_port(server), &wish);
        int group = 0;

        if (client) {
                group = version == TLS1_3_VERSION ? (int)SSL_get_negotiated_group(client) : (int)SSL_get_shared_group(client, 0);
                group = group ? group : -1;
                tls_hang_up(client);
        }
        return group;
}

static void
a_client_that_offers_large_finite_fields_only_gets_no_handshake(void)
{
        weir_http_server *server = serve_with_groups(NULL, reply_at_once);

        CU_ASSERT_EQUAL(group_with(server, "ffdhe8192", TLS1_3_VERSION), 0);
        CU_ASSERT_EQUAL(group_with(server, "ffdhe2048:ffdhe3072:ffdhe4096:ffdhe6144:ffdhe8192", TLS1_3_VERSION), 0);
        CU_ASSERT_EQUAL(group_with(server, "P-521", TLS1_3_VERSION), 0);
        CU_ASSERT_EQUAL(group_with(server, "ffdhe8192:X25519", TLS1_3_VERSION), NID_X25519);
        CU_ASSERT_EQUAL(group_with(server, "P-256", TLS1_3_VERSION), NID_X9_62_prime256v1);
        CU_ASSERT_EQUAL(group_with(server, "P-384", TLS1_3_VERSION), NID_secp384r1);
        CU_ASSERT_EQUAL(group_with(server, "P-521", TLS1_2_VERSION), 0);
        weir_http_server_free(server);
        weir_test_end();
}

static void
the_groups_are_a_setting(void)
{
        weir_http_server *server = serve_with_groups("P-521:P-384", reply_at_once);

        CU_ASSERT_EQUAL(group_with(server, "X25519:P-256", TLS1_3_VERSION), 0);
        CU_ASSERT_EQUAL(group_with(server, "P-521", TLS1_3_VERSION), NID_secp521r1);
        weir_http_server_free(server);
        weir_test_end();
}

static int
start_with_groups(const char *groups, bool has_certificate)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = has_certificate ? tls_path("server.pem") : NULL;
        config.private_key_file = has_certificate ? tls_path("server.key") : NULL;
        config.tls_groups = groups;
        weir_http_server *server = weir_http_server_new(&config, reply_at_once, NULL);
        int failed = weir_http_server_start(server, "127.0.0.1:0");
        weir_http_server_free(server);
        return failed;
}

static void
unknown_groups_and_groups_without_tls_are_einval(void)
{
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(start_with_groups("X25519:P-65537", true), -EINVAL);
        CU_ASSERT_EQUAL(start_with_groups("", true), -EINVAL);
        CU_ASSERT_EQUAL(start_with_groups("X25519", false), -EINVAL);
        CU_ASSERT_EQUAL(start_with_groups("X25519", true), 0);
        weir_test_end();
}

static void
the_cheapest_cipher_comes_first_in_both_versions(void)
{
        weir_http_server *server = serve_with_groups(NULL, reply_at_once);

        for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
                SSL *client = tls_connect(weir_http_server_port(server), &(struct tls_client_wish){.version = version});

                CU_ASSERT_PTR_NOT_NULL_FATAL(client);
                CU_ASSERT_EQUAL(SSL_CIPHER_get_bits(SSL_get_current_cipher(client), NULL), 128);
                tls_hang_up(client);
        }
        weir_http_server_free(server);
        weir_test_end();
}

#define STRANGERS 100
#define BLOCK     "GET /block HTTP/1.1\r\nHost: a\r\n\r\n"
#define COUNT     "GET /count HTTP/1.1\r\nHost: a\r\n\r\n"

static struct http_client strangers[STRANGERS];
static struct weir_test_latch released;
static atomic_bool is_blocked;
static atomic_int answered; /* strangers, when a kept connection was served */

/* "/block" holds the poller until the test releases it.  "/count" looks how many strangers have got an answer. */
static void
block_or_count(weir_task *exchange, void *context)
{
        int count = 0;

        reply_at_once(exchange, context);
        if (strcmp(weir_http_path(exchange), "/block") == 0) {
                atomic_store(&is_blocked, true);
                weir_test_latch_wait(&released);
                return;
        }
        for (int i = 0; i < STRANGERS; i++) {
                struct pollfd wait = {.fd = strangers[i].fd, .events = POLLIN};

                count += poll(&wait, 1, 0) > 0;
        }
        atomic_store(&answered, count);
}

static void
expect_at_once(SSL *client)
{
        char *reply;

        CU_ASSERT_TRUE(tls_receive(client, &reply, NULL));
        CU_ASSERT_EQUAL(strncmp(reply, "HTTP/1.1 200 ", 13), 0);
        free(reply);
}

/* The strangers replay one ClientHello.  All of it is in the server's sockets before the request of the kept connection is. */
static void
handshakes_of_strangers_do_not_stall_a_kept_connection(void)
{
        weir_http_server *server = serve_with_groups(NULL, block_or_count);
        int port = weir_http_server_port(server);
        SSL *one = tls_connect(port, &anybody), *kept = tls_connect(port, &anybody), *source = tls_client(-1, &anybody);
        char *hello;

        CU_ASSERT_PTR_NOT_NULL_FATAL(one);
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
        CU_ASSERT_EQUAL(SSL_do_handshake(source), -1);
        size_t size = (size_t)BIO_get_mem_data(SSL_get_wbio(source), &hello);
        weir_test_latch_init(&released, 1);
        atomic_store(&is_blocked, false);
        for (int i = 0; i < STRANGERS; i++) {
                http_open(&strangers[i], port);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&server->base.connections) == STRANGERS + 2);
        CU_ASSERT_TRUE(tls_send(one, BLOCK, sizeof BLOCK - 1));
        WEIR_TEST_EVENTUALLY(atomic_load(&is_blocked));
        for (int i = 0; i < STRANGERS; i++) {
                CU_ASSERT_TRUE(http_send(&strangers[i], hello, size));
        }
        CU_ASSERT_TRUE(tls_send(kept, COUNT, sizeof COUNT - 1));
        weir_test_latch_count_down(&released);
        expect_at_once(one);
        expect_at_once(kept);
        CU_ASSERT(atomic_load(&answered) <= 3);
        for (int i = 0; i < STRANGERS; i++) {
                http_read_some(&strangers[i]); /* all of them are served */
                CU_ASSERT(strangers[i].size > 0);
                http_close(&strangers[i]);
        }
        SSL_free(source);
        tls_hang_up(one);
        tls_hang_up(kept);
        weir_http_server_free(server);
        weir_test_end();
}

/* Those that wait for their turn are freed with the server. */
static void
handshakes_that_wait_end_with_the_server(void)
{
        for (int by_shutdown = 0; by_shutdown < 2; by_shutdown++) {
                weir_http_server *server = serve_with_groups(NULL, block_or_count);
                int port = weir_http_server_port(server);
                SSL *one = tls_connect(port, &anybody), *source = tls_client(-1, &anybody);
                char *hello;

                CU_ASSERT_PTR_NOT_NULL_FATAL(one);
                CU_ASSERT_EQUAL(SSL_do_handshake(source), -1);
                size_t size = (size_t)BIO_get_mem_data(SSL_get_wbio(source), &hello);
                for (int i = 0; i < STRANGERS; i++) {
                        http_open(&strangers[i], port);
                        CU_ASSERT_TRUE(http_send(&strangers[i], hello, size));
                }
                if (by_shutdown) {
                        CU_ASSERT_EQUAL(weir_shutdown(), 0);
                }
                weir_http_server_free(server);
                for (int i = 0; i < STRANGERS; i++) {
                        http_close(&strangers[i]);
                }
                SSL_free(source);
                tls_hang_up(one);
                weir_test_end();
        }
}

/* -- slow readers -- */

#define READERS    10
#define FILE_SIZE  (16 << 20) /* more than the system keeps of a connection */
#define RECORD_MAX 20000      /* bytes of a record of TLS, with what belongs to it */

static char file[] = "/tmp/weir-file-XXXXXX";

static void
reply_with_file(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_file(exchange, "/tmp", strrchr(file, '/')), 0);
        atomic_fetch_add(&at.handled, 1);
}

static size_t
memory_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* Clients that ask for a file and read nothing cost a record each at most, and that is given back. */
static void
slow_readers_of_a_file_cost_a_record_each(void)
{
        SSL *readers[READERS];
        int fd = mkstemp(file);

        CU_ASSERT_FATAL(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);
        close(fd);
        atomic_store(&at.handled, 0);
        at.server = serve_with_groups(NULL, reply_with_file);
        at.port = weir_http_server_port(at.server);
        for (int i = 0; i < READERS; i++)
                CU_ASSERT_PTR_NOT_NULL_FATAL(readers[i] = tls_connect(at.port, &anybody));
        size_t before = memory_in_use();
        for (int i = 0; i < READERS; i++)
                CU_ASSERT_TRUE(tls_send(readers[i], GET, sizeof GET - 1));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == READERS);
        size_t most = memory_in_use();
        CU_ASSERT(WEIR_TEST_SANITIZED || most < before + READERS * RECORD_MAX);
        for (int i = 0; i < READERS; i++)
                tls_hang_up(readers[i]);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
        CU_ASSERT(WEIR_TEST_SANITIZED || memory_in_use() < before);
        weir_http_server_free(at.server);
        weir_test_end();
        unlink(file);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_for_whom_there_is_no_room_is_told_after_the_handshake),
                WEIR_TEST(of_slow_handshakes_only_some_are_admitted),
                WEIR_TEST(a_client_that_offers_large_finite_fields_only_gets_no_handshake),
                WEIR_TEST(the_groups_are_a_setting),
                WEIR_TEST(unknown_groups_and_groups_without_tls_are_einval),
                WEIR_TEST(the_cheapest_cipher_comes_first_in_both_versions),
                WEIR_TEST(handshakes_of_strangers_do_not_stall_a_kept_connection),
                WEIR_TEST(handshakes_that_wait_end_with_the_server),
                WEIR_TEST(slow_readers_of_a_file_cost_a_record_each),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        int failed = weir_test_main("tls_limits", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
