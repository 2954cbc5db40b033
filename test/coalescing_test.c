/* test/coalescing_test.c: a server whose replies are all late reads requests together (kernel/loop/sleep.c): no reply is early,
 * no request is forgotten, and neither a quick reply nor another thread waits for longer than a window. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel/loop/pollers.h"
#include "kernel/worker/worker.h"
#include "server/base/server.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define CLIENTS 400
#define DELAY   WEIR_MSEC(110) /* longer than any delay that counts as soon */

static struct fixture {
        weir_http_server *server;
        struct http_client clients[CLIENTS];
        weir_nsec asked[CLIENTS];
        struct http_reply reply;
        atomic_uint together; /* requests that were read while the poller had a window */
        atomic_bool has_window;
} at;

/* "/": a word after DELAY.  "/now": at once. */
static void
handle(weir_task *exchange, void *context)
{
        bool has_window = weir__worker_self()->poller->sleep.window > 0;

        (void)context;
        atomic_fetch_add(&at.together, has_window);
        atomic_store(&at.has_window, has_window);
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(weir_http_path(exchange), "/now") != 0)
                weir_series_push(weir_series_of(exchange), weir_timer_new(DELAY, NULL, NULL));
}

static void
ask(unsigned i)
{
        at.asked[i] = weir_now();
        http_send_text(&at.clients[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void
begin_with(weir_nsec window)
{
        atomic_store(&at.together, 0);
        weir_test_begin_real(1);
        at.server = weir_http_server_new(NULL, handle, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_set_coalescing(at.server, window), 0);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
                http_open(&at.clients[i], weir_http_server_port(at.server));
                ask(i);
        }
}

static void
begin(void)
{
        begin_with(WEIR_MSEC(1));
}

/* Each client is answered, not before its time, and asks again. */
static void
go_round(void)
{
        for (unsigned i = 0; i < CLIENTS; i++) {
                CU_ASSERT_FATAL(http_receive(&at.clients[i], &at.reply, false));
                CU_ASSERT(weir_now() - at.asked[i] >= DELAY);
                CU_ASSERT_EQUAL(at.reply.status, 200);
                ask(i);
        }
}

static void
go_on_until_it_coalesces(void)
{
        int64_t began = weir_test_now();

        do {
                go_round();
                weir_test_pause(began, "it coalesces", __FILE__, __LINE__);
        } while (atomic_load(&at.together) < CLIENTS);
}

static void
end(void)
{
        for (unsigned i = 0; i < CLIENTS; i++)
                http_close(&at.clients[i]);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
nobody_is_answered_early(void)
{
        begin();
        go_on_until_it_coalesces();
        go_round();
        end();
}

static void
a_reply_at_once_ends_it(void)
{
        struct http_client hurried;

        begin();
        http_open(&hurried, weir_http_server_port(at.server));
        go_on_until_it_coalesces();
        CU_ASSERT_FATAL(http_ask(&hurried, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        for (int64_t began = weir_test_now();; weir_test_pause(began, "it is attentive", __FILE__, __LINE__)) {
                CU_ASSERT_FATAL(http_ask(&hurried, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
                if (!atomic_load(&at.has_window))
                        break;
        }
        go_round();
        http_close(&hurried);
        end();
}

static void
a_server_whose_window_is_0_has_none(void)
{
        begin_with(0);
        for (unsigned i = 0; i < 3; i++)
                go_round();
        CU_ASSERT_EQUAL(at.together, 0);
        end();
}

static void
a_window_is_checked_and_set_before_the_start(void)
{
        weir_test_begin_real(1);
        weir_http_server *server = weir_http_server_new(NULL, handle, NULL);

        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, -1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, WEIR_MSEC(100) + 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, WEIR_MSEC(100)), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, 0), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(NULL, 0), -ENOMEM);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, 0), -EBUSY);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        weir_http_server_free(server);
        weir_test_end();
}

static void
count(weir_task *task, void *latch)
{
        (void)task;
        weir_test_latch_count_down(latch);
}

static void
other_threads_wake_it(void)
{
        begin();
        go_on_until_it_coalesces();
        for (unsigned i = 0; i < 1000; i++) {
                struct weir_test_latch passed = WEIR_TEST_LATCH(1);

                CU_ASSERT_EQUAL_FATAL(weir_task_start(weir_empty_new(count, &passed)), 0);
                weir_test_latch_wait(&passed);
        }
        go_round();
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(nobody_is_answered_early),
                WEIR_TEST(a_reply_at_once_ends_it),
                WEIR_TEST(a_server_whose_window_is_0_has_none),
                WEIR_TEST(a_window_is_checked_and_set_before_the_start),
                WEIR_TEST(other_threads_wake_it),
        };

        return weir_test_main("coalescing", tests, sizeof tests / sizeof *tests);
}
