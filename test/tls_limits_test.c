/* test/tls_limits_test.c: TLS clients for whom there is no room. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_for_whom_there_is_no_room_is_told_after_the_handshake),
                WEIR_TEST(of_slow_handshakes_only_some_are_admitted),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        int failed = weir_test_main("tls_limits", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
