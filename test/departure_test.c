/* test/departure_test.c: clients that go where no interim response may ask them whether they are there.  On the real clock: it is
 * the system's that asks, every five seconds. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define BEGUN "GET /begun HTTP/1.1\r\nHost: a\r\n\r\n"
#define OLD   "GET /old HTTP/1.0\r\n\r\n"

static struct {
        weir_http_server *server;
        int port;
        atomic_int handled, cancelled;
} at;

static void
note_end(weir_task *timer, void *context)
{
        (void)context;
        atomic_fetch_add(&at.cancelled, weir_task_status(timer) == -ECANCELED);
}

/* "/begun": a piece of the reply first.  Any waits for the test. */
static void
handle(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        if (strcmp(weir_http_path(exchange), "/begun") == 0) {
                weir_series_push(series, weir_http_write_new(exchange, "piece", 5, NULL, NULL));
        } else {
                weir_http_reply_text(exchange, 200, "piece");
        }
        weir_series_push(series, weir_timer_new_named("waiting", WEIR_SEC(3600), note_end, NULL));
        atomic_fetch_add(&at.handled, 1);
}

/* Sends that and waits for the handler, and for what of the reply goes out before the end. */
static void
ask(struct http_client *client, const char *request)
{
        int before = atomic_load(&at.handled);

        http_open(client, at.port);
        CU_ASSERT_TRUE(http_send_text(client, request));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == before + 1);
        if (strcmp(request, BEGUN) == 0) {
                CU_ASSERT_TRUE(http_has_news(client, WEIR_TEST_PATIENCE));
        }
}

/* Takes what has come, so that the close is no reset; and its system remembers it for a second only, not for a minute. */
static void
leave(struct http_client *client)
{
        const int second = 1;
        char bytes[4096];

        (void)recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        CU_ASSERT_EQUAL(setsockopt(client->fd, IPPROTO_TCP, TCP_LINGER2, &second, sizeof second), 0);
        http_close(client);
}

static void
those_that_go_are_noticed_and_those_that_only_send_no_more_are_served(void)
{
        static const char *const requests[] = {BEGUN, OLD};
        struct http_client gone[2], present[2];
        struct http_reply reply = {0};

        weir_test_begin_real(2);
        at.server = http_server(NULL, handle, NULL);
        at.port = weir_http_server_port(at.server);
        for (int i = 0; i < 2; i++) {
                ask(&gone[i], requests[i]);
                ask(&present[i], requests[i]);
                leave(&gone[i]);
                CU_ASSERT_EQUAL(shutdown(present[i].fd, SHUT_WR), 0);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.cancelled) == 2);
        CU_ASSERT_EQUAL(weir_timer_reset("waiting", 0), 2);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_receive(&present[i], &reply, false));
                CU_ASSERT_EQUAL(reply.status, 200);
                HTTP_ASSERT_TEXT(reply.body, "piece");
                http_close(&present[i]);
        }
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 2);
        http_reply_done(&reply);
        weir_http_server_free(at.server);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(those_that_go_are_noticed_and_those_that_only_send_no_more_are_served),
        };

        return weir_test_main("departure", tests, sizeof tests / sizeof *tests);
}
