/* test/client_time_test.c: the time limits of the client on the virtual clock, each to the nanosecond. */
#include <weir/http_call.h>
#include <weir/resolve.h>

#include "test/client_fixture.h"
#include "test/dns_server.h"
#include "test/timer_fixture.h"

#define LIMIT INT64_C(7000000000)

/* A request, which is late exactly `after` from its start, in that stage. */
#define LATE(seen, began, after, stage_, words)                \
        do {                                                   \
                CU_ASSERT_EQUAL((seen).calls, 1);              \
                CU_ASSERT_EQUAL((seen).status, -ETIMEDOUT);    \
                CU_ASSERT_EQUAL((seen).at, (began) + (after)); \
                CU_ASSERT_EQUAL((seen).stage, (stage_));       \
                HAS((seen).problem, words);                    \
        } while (0)

static weir_nsec began;

static void
begin_time(const struct weir_client_config *config)
{
        begin(config);
        began = weir_now();
}

/* A connection that waits for nobody. */
static void
leave_one_idle(void)
{
        struct seen seen = {0};

        get("/", &seen);
        (void)accept_request();
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().idle, 1);
}

/* -- a connection -- */

/* What ends a request that is being connected: the limit of the stage, that of the whole, the deadline of the series. */
enum { BY_STAGE, BY_WHOLE, BY_DEADLINE, BY_ALL };

/* Returns the series, whose reference is the caller's. */
static weir_series *
start_ended_by(int by, weir_task *request)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        if (by == BY_WHOLE)
                CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, LIMIT), 0);
        if (by == BY_DEADLINE)
                CU_ASSERT_EQUAL(weir_series_set_deadline(series, LIMIT), 0);
        CU_ASSERT_EQUAL(weir_series_push(series, request), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
is_late_by(int by, struct seen *seen, enum weir_http_stage stage, const char *words)
{
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(seen->calls, 0);
        weir_test_pass(1);
        LATE(*seen, began, LIMIT, stage, by == BY_STAGE ? words : "");
        settle();
        CU_ASSERT_EQUAL(stats().connections, 0); /* what nobody waits for is given up */
        CU_ASSERT_EQUAL(stats().waiting, 0);
}

static void
hold_time(void *is_held)
{
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        *(_Atomic bool *)is_held = true;
}

/* Time stands while a name is looked up.  The test lets it pass meanwhile. */
static void
a_name_is_late(void)
{
        for (int by = 0; by < BY_ALL; by++) {
                struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                _Atomic bool is_held = false;

                dns_start();
                names.mode = WEIR_RESOLVER_DNS;
                names.servers = dns.servers;
                names.timeout = WEIR_SEC(100); /* of the system's time */
                CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
                config.resolve_limit = by == BY_STAGE ? LIMIT : 2 * LIMIT;
                begin_time(&config);
                weir_series *series = start_ended_by(by, weir_client_request_new(client, "GET", "http://held.test/", see, &seen));
                WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 2);
                weir_clock_release();
                is_late_by(by, &seen, WEIR_HTTP_RESOLVING, "held.test");
                weir_test_act(0, hold_time, &is_held); /* the look-up gives that up */
                WEIR_TEST_EVENTUALLY(is_held);
                dns_release();
                weir_series_unref(series);
                end();
                CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
                dns_stop();
        }
}

/* A socket whose queue is full: further connections are not answered. */
static int
listen_to_none(int fillers[8])
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(full, (struct sockaddr *)&at, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(full, 0), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(full, (struct sockaddr *)&at, &size), 0);
        for (int i = 0; i < 8; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                (void)connect(fillers[i], (struct sockaddr *)&at, size);
        }
        port = ntohs(at.sin_port);
        return full;
}

static void
a_connect_is_late(void)
{
        for (int by = 0; by < BY_ALL; by++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                int fillers[8];

                config.connect_limit = by == BY_STAGE ? LIMIT : 2 * LIMIT;
                begin_time(&config);
                int full = listen_to_none(fillers);
                weir_series *series = start_ended_by(by, request_new("GET", "/", &seen));
                is_late_by(by, &seen, WEIR_HTTP_CONNECTING, "time limit");
                weir_series_unref(series);
                for (int i = 0; i < 8; i++)
                        close(fillers[i]);
                close(full);
                end();
        }
}

static void
a_handshake_is_late(void)
{
        for (int by = 0; by < BY_ALL; by++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                char url[64];

                config.handshake_limit = by == BY_STAGE ? LIMIT : 2 * LIMIT;
                begin_time(&config);
                snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
                weir_series *series = start_ended_by(by, weir_client_request_new(client, "GET", url, see, &seen));
                (void)http_peer_accept(&peer, listener, NULL);
                is_late_by(by, &seen, WEIR_HTTP_HANDSHAKE, "time limit");
                weir_series_unref(series);
                end();
        }
}

static void
a_proxy_is_late(void)
{
        for (int by = 0; by < BY_ALL; by++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                char proxy[64];

                begin_time(NULL);
                weir_client_unref(client);
                config.proxy_limit = by == BY_STAGE ? LIMIT : 2 * LIMIT;
                config.proxy = proxy;
                snprintf(proxy, sizeof proxy, "socks5://127.0.0.1:%d", port);
                client = weir_client_new(&config);
                weir_series *series = start_ended_by(
                        by, weir_client_request_new(client, "GET", "http://server.example/", see, &seen));
                (void)http_peer_accept(&peer, listener, NULL);
                HAS(http_peer_sees(&peer), "\005");
                is_late_by(by, &seen, WEIR_HTTP_PROXY, "too late");
                weir_series_unref(series);
                end();
        }
}

/* -- a request on its way -- */

/* Each part that the server takes begins the limit anew. */
static void
a_server_that_takes_nothing_is_late(void)
{
        static char large[64 << 20];
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};
        weir_nsec taken_at = 0;

        config.send_limit = LIMIT;
        begin_time(&config);
        weir_task *request = request_new("POST", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_lend_body(request, large, sizeof large, NULL), 0);
        start(request);
        (void)http_peer_accept(&peer, listener, NULL);
        for (int i = 0; i < 3; i++) {
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_EQUAL(seen.calls, 0);
                for (int j = 0; j < 64; j++)
                        (void)http_peer_sees(&peer);
                taken_at = weir_now();
                settle();
        }
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(seen.calls, 0);
        weir_test_pass(1);
        LATE(seen, taken_at, LIMIT, WEIR_HTTP_SENDING, "nothing more of the request");
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
}

/* Also where the limit of the stage is that of the request. */
static void
a_request_that_is_not_taken_is_late(void)
{
        static char large[64 << 20];

        for (int by = 0; by < BY_ALL; by++) {
                struct seen seen = {0};

                begin_time(NULL);
                weir_task *request = request_new("POST", "/", &seen);
                CU_ASSERT_EQUAL(weir_http_request_lend_body(request, large, sizeof large, NULL), 0);
                CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_SEND, by == BY_STAGE ? LIMIT : 2 * LIMIT),
                                0);
                weir_series *series = start_ended_by(by, request);
                (void)http_peer_accept(&peer, listener, NULL);
                is_late_by(by, &seen, WEIR_HTTP_SENDING, "nothing more of the request");
                weir_series_unref(series);
                end();
        }
}

static void
the_first_byte_is_late(void)
{
        for (int i = 0; i < 4; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};

                config.first_byte_limit = i < 3 ? LIMIT : WEIR_SEC(60);
                begin_time(&config);
                weir_task *request = request_new("GET", "/", &seen);
                if (i == 3)
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_FIRST_BYTE, LIMIT), 0);
                start(request);
                (void)accept_request();
                weir_test_pass(WEIR_SEC(3));
                if (i == 1) /* half a head is none, nor is an interim response */
                        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nX: ");
                if (i == 2)
                        http_peer_send(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
                settle();
                weir_test_pass(LIMIT - WEIR_SEC(3) - 1);
                CU_ASSERT_EQUAL(seen.calls, 0);
                weir_test_pass(1);
                LATE(seen, began, LIMIT, WEIR_HTTP_WAITING, "head of the response");
                (void)http_peer_ends(&peer);
                end();
        }
}

static void
bytes_between_are_late(void)
{
        for (int i = 0; i < 2; i++) { /* a limit of the client; of the request */
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};

                config.between_limit = i ? 2 * LIMIT : LIMIT;
                begin_time(&config);
                weir_task *request = request_new("GET", "/", &seen);
                if (i)
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_BETWEEN, LIMIT), 0);
                start(request);
                (void)accept_request();
                weir_test_pass(WEIR_SEC(30));
                http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
                settle();
                for (int j = 0; j < 5; j++) {
                        weir_test_pass(LIMIT - 1);
                        CU_ASSERT_EQUAL(seen.calls, 0);
                        http_peer_send(&peer, "x");
                        settle();
                }
                weir_nsec came_at = weir_now();
                weir_test_pass(LIMIT);
                LATE(seen, came_at, LIMIT, WEIR_HTTP_RECEIVING, "body of the response");
                CU_ASSERT_STRING_EQUAL(seen.body, "xxxxx");
                CU_ASSERT_EQUAL(stats().connections, 0);
                end();
        }
}

/* -- the whole -- */

static void
the_whole_is_late_in_each_stage(void)
{
        for (int i = 0; i < 5; i++) {
                static const enum weir_http_stage stages[] = {WEIR_HTTP_WAITING, WEIR_HTTP_RECEIVING, WEIR_HTTP_QUEUED,
                                                              WEIR_HTTP_QUEUED, WEIR_HTTP_WAITING};
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0}, first = {0};

                config.connections = 1;
                config.limit = i == 4 ? WEIR_SEC(60) : LIMIT;
                config.redirects = 5;
                begin_time(&config);
                if (i == 2 || i == 3) {
                        weir_task *request = request_new("GET", "/first", &first);
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(100)), 0);
                        start(request);
                        (void)accept_request();
                }
                weir_task *request = request_new("GET", "/", &seen);
                if (i == 4)
                        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, LIMIT), 0);
                start(request);
                settle();
                if (i < 2 || i == 4)
                        (void)accept_request();
                weir_test_pass(WEIR_SEC(4));
                if (i == 1)
                        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
                if (i == 4) { /* redirects are within it */
                        http_peer_send(&peer, "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n");
                        HAS(http_peer_request(&peer), "GET /next");
                }
                settle();
                weir_test_pass(WEIR_SEC(3) - 1);
                CU_ASSERT_EQUAL(seen.calls, 0);
                CU_ASSERT_EQUAL(stats().waiting, i == 2 || i == 3);
                weir_test_pass(1);
                LATE(seen, began, LIMIT, stages[i], "too late");
                CU_ASSERT_EQUAL(stats().waiting, 0);
                if (i == 2 || i == 3) {
                        http_peer_send(&peer, OK_WORD);
                        settle();
                        SEES(first, 0, 200, "word");
                        CU_ASSERT_EQUAL(stats().idle, 1);
                }
                end();
        }
}

/* A redirect to a server that is busy: the stage is that of the second request, which waits. */
static void
a_redirect_that_waits_is_in_the_queue(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen first = {0}, seen = {0};
        struct http_peer busy;
        char reply[256];
        int other_port, other = http_peer_listen(&other_port), own_port;

        config.connections = 1;
        config.redirects = 1;
        begin_time(&config);
        own_port = port;
        port = other_port;
        get("/first", &first);
        (void)http_peer_accept(&busy, other, NULL);
        port = own_port;
        weir_task *request = request_new("GET", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, LIMIT), 0);
        start(request);
        (void)accept_request();
        snprintf(reply, sizeof reply, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n",
                 other_port);
        http_peer_send(&peer, reply);
        settle();
        weir_test_pass(LIMIT);
        LATE(seen, began, LIMIT, WEIR_HTTP_QUEUED, "waited for a connection");
        http_peer_send(&busy, OK_WORD);
        settle();
        SEES(first, 0, 200, "word");
        end();
        http_peer_close(&busy);
        close(other);
}

static void
the_deadline_of_a_series_ends_a_request_in_any_stage(void)
{
        for (int i = 0; i < 3; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen first = {0}, seen = {0};

                config.connections = 1;
                begin_time(&config);
                if (i == 2) {
                        get("/first", &first);
                        (void)accept_request();
                }
                weir_series *series = weir_series_new(NULL, NULL);
                CU_ASSERT_EQUAL(weir_series_set_deadline(series, LIMIT), 0);
                CU_ASSERT_EQUAL(weir_series_push(series, request_new("GET", "/", &seen)), 0);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                if (i < 2)
                        (void)accept_request();
                if (i == 1)
                        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
                settle();
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_EQUAL(seen.calls, 0);
                weir_test_pass(1);
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, -ETIMEDOUT);
                CU_ASSERT_EQUAL(seen.at, began + LIMIT);
                settle();
                CU_ASSERT_EQUAL(stats().connections, i == 2);
                if (i == 2) {
                        http_peer_send(&peer, OK_WORD);
                        settle();
                        SEES(first, 0, 200, "word");
                }
                end();
        }
}

/* -- idle connections -- */

static void
an_idle_connection_is_closed_at_its_limit(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.idle_limit = LIMIT;
        begin_time(&config);
        leave_one_idle();
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(stats().idle, 1);
        struct seen seen = {0};
        get("/", &seen); /* begins the limit anew */
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().reused, 1);
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(stats().idle, 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        end();
}

/* A server that says when it closes the connection: a second before. */
static void
an_idle_connection_is_closed_before_its_server_does(void)
{
        static const struct {
                const char *fields;
                int seconds; /* that it is kept; 0: not at all */
        } rows[] = {
                {"Keep-Alive: timeout=5, max=100\r\n", 4},
                {"keep-alive: max=0 , Timeout=2\r\nConnection: keep-alive\r\n", 1},
                {"Keep-Alive: timeout=51\r\n", 50},
                {"Keep-Alive: timeout=52\r\n", 50},
                {"Keep-Alive: timeout=99999999999999999999999\r\n", 50},
                {"Keep-Alive: timeout=1\r\n", 0},
                {"Keep-Alive: timeout=0\r\n", 0},
                {"Keep-Alive: timeout=\r\n", 50},
                {"Keep-Alive: timeout\r\n", 50},
                {"Keep-Alive: timeout=-1\r\n", 50},
                {"Keep-Alive: timeout=5s\r\n", 50},
                {"Keep-Alive: timeout=\"5\"\r\n", 50},
                {"Keep-Alive: 5\r\n", 50},
                {"Keep-Alive:\r\n", 50},
                {"Keep-Alivf: timeout=5\r\n", 50},
                {"Keep-Alive: timeout=x, timeout=7\r\n", 6},
        };

        for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
                const char *fields = rows[i / 2].fields;
                weir_nsec kept = WEIR_SEC(rows[i / 2].seconds);
                struct seen seen = {0};
                char reply[256];

                begin_time(NULL);
                get("/", &seen);
                (void)accept_request();
                snprintf(reply, sizeof reply, "HTTP/1.%zu 200 OK\r\nContent-Length: 4\r\n%s%s\r\nword", i % 2,
                         i % 2 || strstr(fields, "Connection") ? "" : "Connection: keep-alive\r\n", fields);
                http_peer_send(&peer, reply);
                settle();
                SEES(seen, 0, 200, "word");
                if (kept) {
                        weir_test_pass(kept - 1);
                        CU_ASSERT_EQUAL(stats().idle, 1);
                        weir_test_pass(1);
                }
                CU_ASSERT_EQUAL(stats().connections, 0);
                CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
                end();
        }
}

/* It holds until the server says otherwise. */
static void
what_a_server_has_said_holds_for_the_connection(void)
{
        struct seen first = {0}, second = {0};

        begin_time(NULL);
        get("/", &first);
        (void)accept_request();
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nKeep-Alive: timeout=5\r\n\r\nword");
        settle();
        weir_test_pass(WEIR_SEC(3));
        get("/", &second);
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(second, 0, 200, "word");
        weir_test_pass(WEIR_SEC(4) - 1);
        CU_ASSERT_EQUAL(stats().idle, 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
}

static void
no_request_goes_to_a_connection_above_its_age(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};

        config.age_limit = WEIR_SEC(60);
        config.idle_limit = WEIR_SEC(40);
        begin_time(&config);
        leave_one_idle();
        weir_test_pass(WEIR_SEC(30));
        get("/", &seen);
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        weir_test_pass(WEIR_SEC(30) - 1);
        CU_ASSERT_EQUAL(stats().idle, 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        end();
}

/* A response that comes behind that age is fine; the connection is closed behind it. */
static void
a_request_may_last_longer_than_the_age(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};

        config.age_limit = WEIR_SEC(10);
        begin_time(&config);
        get("/", &seen);
        (void)accept_request();
        weir_test_pass(WEIR_SEC(11));
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
}

/* -- calls -- */

/* A call whose head is there, and which nobody uses any more.  Its body has ten bytes. */
static void
leave_a_call(const char *url)
{
        weir_http_call *call = weir_http_call_new(client, "GET", url);

        start(weir_http_call_head_new(call, NULL, NULL));
        settle();
        (void)accept_request();
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        settle();
        CU_ASSERT_EQUAL(weir_http_call_status(call), 200);
        weir_http_call_unref(call);
        settle();
        CU_ASSERT_EQUAL(stats().connections, 1);
}

/* A byte from time to time keeps it no longer. */
static void
the_rest_of_a_response_is_thrown_away_for_a_second(void)
{
        begin_time(NULL);
        leave_a_call(url_of("/"));
        http_peer_send(&peer, "0");
        settle();
        weir_test_pass(WEIR_MSEC(900));
        http_peer_send(&peer, "1");
        settle();
        weir_test_pass(WEIR_MSEC(100) - 1);
        CU_ASSERT_EQUAL(stats().connections, 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_STRING_NOT_EQUAL(http_peer_ends(&peer), "");
        end();
}

static void
a_rest_that_comes_within_a_second_keeps_the_connection(void)
{
        struct seen seen = {0};

        begin_time(NULL);
        leave_a_call(url_of("/"));
        weir_test_pass(WEIR_MSEC(900));
        http_peer_send(&peer, "0123456789");
        settle();
        CU_ASSERT_EQUAL(stats().idle, 1);
        weir_test_pass(WEIR_SEC(1));
        get("/", &seen);
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().reused, 1);
        end();
}

/* -- client and server in one process -- */

static void
answer_later(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "word");
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(20), NULL, NULL));
}

static void
a_server_of_the_same_process_is_waited_for(void)
{
        for (int i = 0; i < 2; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};

                config.first_byte_limit = i ? WEIR_SEC(20) - 1 : WEIR_SEC(20) + 1;
                begin_time(&config);
                weir_http_server *server = weir_http_server_new(NULL, answer_later, NULL);
                CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
                port = weir_http_server_port(server);
                CU_ASSERT_EQUAL(weir_task_run(request_new("GET", "/", &seen)), i ? -ETIMEDOUT : 0);
                CU_ASSERT_EQUAL(seen.at, began + WEIR_SEC(20) - i);
                CU_ASSERT_EQUAL(seen.code, i ? 0 : 200);
                CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(60)), 0);
                weir_http_server_free(server);
                end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_name_is_late),
                WEIR_TEST(a_connect_is_late),
                WEIR_TEST(a_handshake_is_late),
                WEIR_TEST(a_proxy_is_late),
                WEIR_TEST(a_server_that_takes_nothing_is_late),
                WEIR_TEST(a_request_that_is_not_taken_is_late),
                WEIR_TEST(the_first_byte_is_late),
                WEIR_TEST(bytes_between_are_late),
                WEIR_TEST(the_whole_is_late_in_each_stage),
                WEIR_TEST(a_redirect_that_waits_is_in_the_queue),
                WEIR_TEST(the_deadline_of_a_series_ends_a_request_in_any_stage),
                WEIR_TEST(an_idle_connection_is_closed_at_its_limit),
                WEIR_TEST(an_idle_connection_is_closed_before_its_server_does),
                WEIR_TEST(what_a_server_has_said_holds_for_the_connection),
                WEIR_TEST(no_request_goes_to_a_connection_above_its_age),
                WEIR_TEST(a_request_may_last_longer_than_the_age),
                WEIR_TEST(the_rest_of_a_response_is_thrown_away_for_a_second),
                WEIR_TEST(a_rest_that_comes_within_a_second_keeps_the_connection),
                WEIR_TEST(a_server_of_the_same_process_is_waited_for),
        };

        return weir_test_main("client_time", tests, sizeof tests / sizeof *tests);
}
