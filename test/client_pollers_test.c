/* test/client_pollers_test.c: connections and requests of two pollers; the end of the runtime with requests in any stage. */
#include "kernel/worker/worker.h"
#include "test/client_fixture.h"
#include "test/timer_fixture.h"

static struct weir_client_config config;

static void
begin_two(unsigned connections)
{
        config = (struct weir_client_config)WEIR_CLIENT_CONFIG_DEFAULT;
        config.connections = connections;
        weir_test_begin_real(2);
        begin_with(&config);
}

/* The next tasks that this thread starts are on that poller: several come to one before the next one has its turn. */
static void
steer_to(unsigned poller)
{
        while (weir__worker_home_poller() == poller)
                continue;
        while (weir__worker_home_poller() != poller)
                continue;
}

static void
get_on(unsigned poller, const char *path, struct seen *seen)
{
        steer_to(poller);
        get(path, seen);
}

static void
answer(struct http_peer *to)
{
        CU_ASSERT_TRUE(http_peer_send(to, OK_WORD));
}

static void
an_idle_connection_of_another_poller_is_used(void)
{
        begin_two(10);
        for (unsigned i = 0; i < 20; i++) {
                struct seen seen = {0};

                get_on(i % 2, "/", &seen);
                if (i == 0)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                answer(&peer);
                wait_for(&seen);
                SEES(seen, 0, 200, "word");
                WEIR_TEST_EVENTUALLY(stats().idle == 1);
        }
        CU_ASSERT_EQUAL(stats().connections, 1);
        CU_ASSERT_EQUAL(stats().reused, 19);
        end();
}

static void
the_queue_is_in_order_across_pollers(void)
{
        struct seen seen[20] = {{0}};
        char path[16], expected[32];

        begin_two(1);
        get_on(0, "/0", &seen[0]);
        const char *sent = accept_request(); /* from here on it does not wait */
        for (unsigned i = 1; i < 20; i++) {
                snprintf(path, sizeof path, "/%u", i);
                get_on(i % 2, path, &seen[i]);
                WEIR_TEST_EVENTUALLY(stats().waiting == i);
        }
        for (unsigned i = 0; i < 20; i++) {
                snprintf(expected, sizeof expected, "GET /%u HTTP/1.1\r\n", i);
                CU_ASSERT_NSTRING_EQUAL(sent, expected, strlen(expected));
                answer(&peer);
                wait_for(&seen[i]);
                SEES(seen[i], 0, 200, "word");
                if (i < 19)
                        sent = http_peer_request(&peer);
        }
        CU_ASSERT_EQUAL(stats().connections, 1);
        end();
}

/* A place that becomes free on one poller is for the first, who waits on the other. */
static void
a_free_place_is_for_another_poller(void)
{
        struct seen seen[6] = {{0}};

        begin_two(1);
        get_on(0, "/", &seen[0]);
        (void)accept_request();
        for (unsigned i = 1; i < 6; i++) {
                get_on(i % 2, "/", &seen[i]);
                WEIR_TEST_EVENTUALLY(stats().waiting == i);
        }
        for (unsigned i = 0; i < 6; i++) {
                http_peer_send(&peer, OK_CLOSES);
                wait_for(&seen[i]);
                SEES(seen[i], 0, 200, "word");
                http_peer_close(&peer);
                if (i < 5)
                        (void)accept_request();
        }
        WEIR_TEST_EVENTUALLY(stats().connections == 0);
        end();
}

/* One who waits on either poller is cancelled, or late; the others are served. */
static void
cancels_and_limits_leave_the_queue_of_two(void)
{
        struct seen seen[13] = {{0}};
        weir_series *series[13] = {NULL};

        begin_two(1);
        get_on(0, "/", &seen[0]);
        (void)http_peer_accept(&peer, listener, NULL);
        WEIR_TEST_EVENTUALLY(stats().requests == 1); /* it waits no longer, and does not count below */
        for (unsigned i = 1; i < 13; i++) {
                weir_task *request = request_new("GET", "/", &seen[i]);

                if (i % 3 == 1)
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_MSEC(1)), 0);
                steer_to(i % 2);
                series[i] = start_in_series(request);
        }
        for (unsigned i = 2; i < 13; i += 3)
                weir_series_cancel(series[i]);
        for (unsigned i = 1; i < 13; i++)
                if (i % 3) {
                        wait_for(&seen[i]);
                        CU_ASSERT_EQUAL(seen[i].status, i % 3 == 1 ? -ETIMEDOUT : -ECANCELED);
                }
        WEIR_TEST_EVENTUALLY(stats().waiting == 4);
        for (unsigned i = 0; i < 5; i++) {
                (void)http_peer_request(&peer);
                answer(&peer);
        }
        for (unsigned i = 0; i < 13; i += 3) {
                wait_for(&seen[i]);
                SEES(seen[i], 0, 200, "word");
        }
        for (unsigned i = 1; i < 13; i++)
                weir_series_unref(series[i]);
        end();
}

/* -- the end of the runtime -- */

/* Two requests for each poller in the queue, of which half have a limit; before them one that is connected so far. */
static void
shut_down_in_stage(int stage, unsigned connections)
{
        struct seen seen[9] = {{0}};
        char url[64];

        begin_two(connections);
        for (unsigned i = 0; i < 9; i++) {
                snprintf(url, sizeof url, "%s://127.0.0.1:%d/", stage == 0 ? "https" : "http", port);
                weir_task *request = weir_client_request_new(client, "GET", url, see, &seen[i]);
                if (i % 4 < 2)
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(1000)), 0);
                steer_to(i % 2);
                start(request);
                if (i == 0)
                        (void)http_peer_accept(&peer, listener, NULL);
        }
        if (stage > 0)
                (void)http_peer_request(&peer);
        if (stage > 1)
                http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
        if (connections == 1)
                WEIR_TEST_EVENTUALLY(stats().waiting == (stage == 0 ? 9 : 8));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        for (unsigned i = 0; i < 9; i++) {
                CU_ASSERT_EQUAL(seen[i].calls, 1);
                CU_ASSERT_EQUAL(seen[i].status, -ESHUTDOWN);
        }
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_EQUAL(stats().waiting, 0);
        http_peer_close(&peer);
        weir_client_unref(client);
        close(listener);
}

static void
the_end_of_the_runtime_ends_requests_in_any_stage(void)
{
        for (int round = 0; round < 5; round++)
                for (int stage = 0; stage < 3; stage++) {
                        shut_down_in_stage(stage, 1);
                        shut_down_in_stage(stage, 100);
                }
}

static void
the_end_of_the_runtime_closes_idle_connections(void)
{
        begin_two(10);
        struct seen seen = {0};
        get("/", &seen);
        (void)accept_request();
        answer(&peer);
        wait_for(&seen);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        CU_ASSERT_EQUAL(stats().connections, 0);
        http_peer_close(&peer);
        /* the same client in the next runtime, which has another number of pollers */
        for (int pollers = 1; pollers < 4; pollers++) {
                struct seen next = {0};

                weir_test_begin_real(pollers);
                get("/", &next);
                (void)accept_request();
                answer(&peer);
                wait_for(&next);
                SEES(next, 0, 200, "word");
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                http_peer_close(&peer);
        }
        CU_ASSERT_EQUAL(stats().connections, 0);
        weir_client_unref(client);
        close(listener);
}

/* Without a runtime there is a client, but no request. */
static void
a_client_lives_without_a_runtime(void)
{
        begin_with(NULL);
        CU_ASSERT_EQUAL(stats().connections, 0);
        weir_client_close_idle(client);
        weir_client_ref(client);
        weir_client_unref(client);
        weir_task_dismiss(request_new("GET", "/", NULL));
        weir_client_unref(client);
        close(listener);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_idle_connection_of_another_poller_is_used),
                WEIR_TEST(the_queue_is_in_order_across_pollers),
                WEIR_TEST(a_free_place_is_for_another_poller),
                WEIR_TEST(cancels_and_limits_leave_the_queue_of_two),
                WEIR_TEST(the_end_of_the_runtime_ends_requests_in_any_stage),
                WEIR_TEST(the_end_of_the_runtime_closes_idle_connections),
                WEIR_TEST(a_client_lives_without_a_runtime),
        };

        return weir_test_main("client_pollers", tests, sizeof tests / sizeof *tests);
}
