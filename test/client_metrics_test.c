/* test/client_metrics_test.c: the metrics of clients: for each client and origin, as long as there is one. */
#include "client/origin/client.h"
#include "test/client_fixture.h"
#include "test/metrics_fixture.h"

/* The value of that metric for an origin at a port; -1: there is none. */
static double
of(const char *name, const weir_client *whose, int at)
{
        char sample[256];

        snprintf(sample, sizeof sample, "weir_client_%s{client=\"%u\",origin=\"http://127.0.0.1:%d\"}", name, whose->number, at);
        return value(sample);
}

static unsigned
lines_of(const char *text)
{
        unsigned count = 0;

        look();
        for (const char *at = metrics_text; (at = strstr(at, text)); at++)
                count++;
        return count;
}

static void
answer(const char *reply)
{
        CU_ASSERT_TRUE(http_peer_send(&peer, reply));
        settle();
}

static void
each_count_is_a_sample_of_its_origin(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen[3] = {{.status = 1}};

        config.connections = 1;
        begin(&config);
        CU_ASSERT_EQUAL(lines_of("weir_client_"), 0); /* a client without origins has none */
        get("/a", &seen[0]);
        (void)accept_request();
        get("/b", &seen[1]);
        settle();
        CU_ASSERT_EQUAL(of("connections", client, port), 1);
        CU_ASSERT_EQUAL(of("idle", client, port), 0);
        CU_ASSERT_EQUAL(of("waiting", client, port), 1);
        CU_ASSERT_EQUAL(of("requests_total", client, port), 1);
        CU_ASSERT_EQUAL(of("reused_total", client, port), 0);
        answer(OK_WORD);
        (void)http_peer_request(&peer);
        answer(OK_WORD);
        SEES(seen[1], 0, 200, "word");
        CU_ASSERT_EQUAL(of("connections", client, port), 1);
        CU_ASSERT_EQUAL(of("idle", client, port), 1);
        CU_ASSERT_EQUAL(of("waiting", client, port), 0);
        CU_ASSERT_EQUAL(of("requests_total", client, port), 2);
        CU_ASSERT_EQUAL(of("reused_total", client, port), 1);
        CU_ASSERT_EQUAL(of("replayed_total", client, port), 0);
        get("/c", &seen[2]);
        (void)http_peer_request(&peer);
        answer("no HTTP\r\n\r\n");
        CU_ASSERT_EQUAL(seen[2].status, -EBADMSG);
        end();
}

/* While a request keeps the origin. */
static void
failures_and_replays_are_counted(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen[3] = {{.status = 1}};

        config.connections = 1;
        begin(&config);
        get("/a", &seen[0]);
        (void)accept_request();
        answer(OK_WORD);
        get("/b", &seen[1]);
        (void)http_peer_request(&peer);
        get("/c", &seen[2]);
        http_peer_close(&peer); /* /b goes out once more */
        settle();
        (void)accept_request();
        CU_ASSERT_EQUAL(of("replayed_total", client, port), 1);
        CU_ASSERT_EQUAL(of("failed_total", client, port), 0);
        http_peer_close(&peer);
        settle();
        CU_ASSERT_EQUAL(of("failed_total", client, port), 1);
        (void)accept_request();
        answer(OK_WORD);
        CU_ASSERT_EQUAL(stats().failed, 1);
        CU_ASSERT_EQUAL(stats().replayed, 1);
        end();
}

/* By a cancel, by the deadline of its series, in the queue and on its connection.  One that has a response does not count. */
static void
requests_that_end_early_have_failed(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen[3] = {{.status = 1}};
        weir_series *series[3];

        config.connections = 1;
        begin(&config);
        series[0] = start_in_series(request_new("GET", "/sent", &seen[0]));
        (void)accept_request();
        series[1] = start_in_series(request_new("GET", "/queued", &seen[1]));
        weir_series_set_deadline(series[1], WEIR_MSEC(1));
        weir_test_pass(WEIR_MSEC(2));
        CU_ASSERT_EQUAL(seen[1].status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(of("failed_total", client, port), 1);
        weir_series_cancel(series[0]);
        settle();
        CU_ASSERT_EQUAL(seen[0].status, -ECANCELED);
        CU_ASSERT_EQUAL(stats().failed, 2);
        http_peer_close(&peer);
        series[2] = start_in_series(request_new("GET", "/begun", &seen[2]));
        (void)accept_request();
        answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
        weir_series_cancel(series[2]);
        settle();
        CU_ASSERT_EQUAL(seen[2].status, -ECANCELED);
        CU_ASSERT_EQUAL(stats().failed, 2);
        for (int i = 0; i < 3; i++)
                weir_series_unref(series[i]);
        end();
}

static void
clients_and_origins_are_told_apart(void)
{
        struct seen seen[3] = {{.status = 1}};
        struct http_peer peers[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
        char url[64];
        int other_port, other_listener = http_peer_listen(&other_port);
        weir_client *other = weir_client_new(NULL);

        begin(NULL);
        CU_ASSERT_NOT_EQUAL(client->number, other->number);
        get("/", &seen[0]);
        (void)http_peer_accept(&peers[0], listener, NULL);
        start(weir_client_request_new(other, "GET", url_of("/"), see, &seen[1]));
        (void)http_peer_accept(&peers[1], listener, NULL);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", other_port);
        start(weir_client_request_new(other, "GET", url, see, &seen[2]));
        (void)http_peer_accept(&peers[2], other_listener, NULL);
        settle();
        CU_ASSERT_EQUAL(of("requests_total", client, port), 1);
        CU_ASSERT_EQUAL(of("requests_total", client, other_port), -1);
        CU_ASSERT_EQUAL(of("requests_total", other, port), 1);
        CU_ASSERT_EQUAL(of("requests_total", other, other_port), 1);
        CU_ASSERT_EQUAL(lines_of("\nweir_client_requests_total{"), 3);
        CU_ASSERT_EQUAL(lines_of("# TYPE weir_client_requests_total counter\n"), 1);
        CU_ASSERT_EQUAL(lines_of("# HELP weir_client_requests_total "), 1);
        CU_ASSERT_EQUAL(lines_of("# TYPE weir_client_"), 7);
        for (unsigned i = 0; i < 3; i++) {
                (void)http_peer_request(&peers[i]);
                CU_ASSERT_TRUE(http_peer_send(&peers[i], OK_CLOSES));
        }
        settle();
        weir_client_unref(other);
        end();
        for (unsigned i = 0; i < 3; i++)
                http_peer_close(&peers[i]);
        close(other_listener);
}

/* What it has counted stays in the sums of the client. */
static void
an_origin_that_is_gone_has_no_samples(void)
{
        struct seen seen = {.status = 1};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        answer(OK_WORD);
        CU_ASSERT_EQUAL(of("idle", client, port), 1);
        weir_client_close_idle(client);
        settle();
        CU_ASSERT_EQUAL(lines_of("weir_client_"), 0);
        CU_ASSERT_EQUAL(stats().requests, 1);
        end();
        CU_ASSERT_EQUAL(lines_of("weir_client_"), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_count_is_a_sample_of_its_origin),  WEIR_TEST(failures_and_replays_are_counted),
                WEIR_TEST(requests_that_end_early_have_failed),   WEIR_TEST(clients_and_origins_are_told_apart),
                WEIR_TEST(an_origin_that_is_gone_has_no_samples),
        };
        int failed = weir_test_main("client_metrics", tests, sizeof tests / sizeof *tests);

        free(metrics_text);
        return failed;
}
