/* test/client_dump_test.c: what a dump says that requests and calls wait for. */
#include <sys/mman.h>
#include <unistd.h>

#include <weir/debug.h>
#include <weir/http_call.h>

#include "test/client_fixture.h"

static char dump[65536];

static const char *
look(void)
{
        int file = memfd_create("dump", MFD_CLOEXEC);

        settle();
        CU_ASSERT_EQUAL(weir_debug_dump(file), 0);
        ssize_t size = pread(file, dump, sizeof dump - 1, 0);
        dump[size > 0 ? size : 0] = '\0';
        close(file);
        return dump;
}

/* "%d" in the pattern is the port. */
#define SHOWS(pattern)                                          \
        do {                                                    \
                char shown_[256];                               \
                snprintf(shown_, sizeof shown_, pattern, port); \
                HAS(look(), shown_);                            \
                if (!strstr(dump, shown_))                      \
                        fprintf(stderr, "\n%s", dump);          \
        } while (0)

static weir_series *
begin_series(weir_task *task)
{
        weir_series *series = start_in_series(task);

        weir_series_unref(series); /* it lives until its end */
        return series;
}

static void
requests_that_wait_are_counted(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen[4] = {{0}};

        config.connections = 2;
        begin(&config);
        for (int i = 0; i < 3; i++)
                (void)begin_series(request_new("GET", "/path?secret", &seen[i]));
        SHOWS("request pending: a connection to http://127.0.0.1:%d (2 busy, 1 wait)");
        SHOWS("request pending: the first byte of GET http://127.0.0.1:%d");
        weir_series *series = begin_series(request_new("GET", "/path?secret", &seen[3]));
        SHOWS("request pending: a connection to http://127.0.0.1:%d (2 busy, 2 wait)");
        HAS_NOT(dump, "secret");
        weir_series_cancel(series);
        SHOWS("request pending: a connection to http://127.0.0.1:%d (2 busy, 1 wait)");
        end();
}

/* It is in no series: its origin is all that a dump has. */
static void
a_request_alone_is_seen_by_its_origin(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen[3] = {{0}};

        config.connections = 1;
        begin(&config);
        HAS_NOT(look(), "origins of clients");
        for (int i = 0; i < 3; i++)
                get("/", &seen[i]);
        SHOWS("origins of clients:\n  http://127.0.0.1:%d: 1 connections, 0 idle, 2 waiting, 1 requests, 0 failed\n");
        (void)accept_request();
        for (int i = 0; i < 3; i++) {
                http_peer_send(&peer, OK_WORD);
                if (i < 2)
                        (void)http_peer_request(&peer);
        }
        SHOWS("  http://127.0.0.1:%d: 1 connections, 1 idle, 0 waiting, 3 requests, 0 failed\n");
        weir_client_close_idle(client);
        HAS_NOT(look(), "origins of clients");
        end();
}

static void
a_request_is_shown_in_each_stage(void)
{
        static char large[16 << 20];
        struct seen seen[2] = {{0}};

        begin(NULL);
        weir_task *request = request_new("POST", "/", &seen[0]);
        CU_ASSERT_EQUAL(weir_http_request_lend_body(request, large, sizeof large, NULL), 0);
        (void)begin_series(request);
        SHOWS("request pending: a send to POST http://127.0.0.1:%d");
        (void)http_peer_accept(&peer, listener, NULL);
        http_peer_cut(&peer);
        settle();
        (void)begin_series(request_new("GET", "/", &seen[1]));
        (void)accept_request();
        SHOWS("request pending: the first byte of GET http://127.0.0.1:%d");
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwo");
        SHOWS("request pending: the body of GET http://127.0.0.1:%d");
        http_peer_send(&peer, "rd");
        HAS(look(), "series: none");
        SEES(seen[1], 0, 200, "word");
        end();
}

static void
a_call_is_shown_in_each_stage(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};

        config.connections = 1;
        begin(&config);
        get("/", &seen);
        (void)accept_request();
        weir_http_call *call = weir_http_call_new(client, "PUT", url_of("/path?secret"));
        (void)begin_series(weir_http_call_write_new(call, "piece", 5, NULL, NULL));
        SHOWS("a connection to http://127.0.0.1:%d (1 busy, 1 wait)");
        http_peer_send(&peer, OK_WORD);
        (void)http_peer_request(&peer);
        (void)begin_series(weir_http_call_finish_new(call, NULL, NULL));
        (void)begin_series(weir_http_call_head_new(call, NULL, NULL));
        SHOWS("the first byte of PUT http://127.0.0.1:%d");
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
        settle();
        (void)begin_series(weir_http_call_read_new(call, NULL, NULL));
        SHOWS("the body of PUT http://127.0.0.1:%d");
        HAS_NOT(dump, "secret");
        weir_http_call_break(call);
        weir_http_call_unref(call);
        HAS(look(), "series: none");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(requests_that_wait_are_counted),
                WEIR_TEST(a_request_alone_is_seen_by_its_origin),
                WEIR_TEST(a_request_is_shown_in_each_stage),
                WEIR_TEST(a_call_is_shown_in_each_stage),
        };

        return weir_test_main("client_dump", tests, sizeof tests / sizeof *tests);
}
