/* test/http_proxy_test.c: the reverse proxy where all goes well: what goes on, and what comes back. */
#include <malloc.h>
#include <sys/socket.h>

#include "test/proxy_fixture.h"
#include "test/tls_peer.h"

/* -- fields -- */

static void
a_request_goes_on_and_its_response_comes_back(void)
{
        begin();
        const char *request = pass("GET /a/b?c=d%20e&&f HTTP/1.1\r\nHost: front\r\nCookie: a=b\r\nX-One: 1\r\nX-One: 2\r\n\r\n");
        HAS(request, "GET /a/b?c=d%20e&&f HTTP/1.1\r\nHost: 127.0.0.1:");
        HAS(request, "\r\nCookie: a=b\r\nX-One: 1\r\nX-One: 2\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
                     "X-Forwarded-Host: front\r\nVia: 1.1 weir\r\n\r\n");
        HAS_NOT(request, "User-Agent");
        CU_ASSERT_TRUE(come_back("HTTP/1.1 404 Nowhere\r\nServer: other\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
                                 "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\nContent-Length: 4\r\n\r\nword"));
        GETS(404, "word");
        HAS(reply.head, "\r\nServer: other\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nVia: 1.1 weir\r\n");
        HAS_NOT(reply.head, "2001");
        CU_ASSERT_EQUAL(http_field_count(&reply, "Date"), 1);
        end();
}

static void
fields_of_one_connection_stay_behind(void)
{
        static const char *const dropped[] = {
                "X-Mine: ", "X-MINE", "Keep-Alive", "TE:", "Trailer", "Upgrade", "Proxy", "Connection"};

        begin();
        const char *request = pass(
                "GET / HTTP/1.1\r\nHost: front\r\nConnection: keep-alive, X-Mine\r\nConnection: te\r\nX-Mine: 1\r\n"
                "X-MINE: 2\r\nX-Mine2: 3\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\n"
                "Proxy: http://evil/\r\n"
                "Proxy-Authorization: Basic x\r\nProxy_Connection: x\r\nOther: 1\r\n\r\n");
        for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
                HAS_NOT(request, dropped[i]);
        HAS(request, "X-Mine2: 3\r\n");
        HAS(request, "Other: 1\r\n");
        CU_ASSERT_TRUE(
                come_back("HTTP/1.1 200 OK\r\nConnection: X-Mine, close\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n"
                          "Trailer: X\r\nProxy-Authenticate: Basic\r\nOther: 1\r\nContent-Length: 4\r\n\r\nword"));
        GETS(200, "word");
        HAS(reply.head, "Other: 1");
        for (size_t i = 0; i < sizeof dropped / sizeof *dropped - 1; i++)
                HAS_NOT(reply.head, dropped[i]);
        end();
}

#define FORGED                                                                                      \
        "GET / HTTP/1.1\r\nHost: front\r\nX-Forwarded-For: 1.1.1.1\r\nX_Forwarded_For: 2.2.2.2\r\n" \
        "X-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: other\r\nForwarded: for=4.4.4.4\r\n\r\n"

/* One request with these settings; checks what goes on. */
static void
forwards(enum weir_http_forwarding x, enum weir_http_forwarding forwarded, const char *x_for, const char *proto, const char *host,
         const char *line)
{
        char expected[256];

        config.x_forwarded = x;
        config.forwarded = forwarded;
        const char *request = pass(FORGED);
        HAS_NOT(request, "X_For");
        HAS_NOT(request, "2.2.2.2");
        snprintf(expected, sizeof expected, "X-Forwarded-For: %s\r\n", x_for);
        CU_ASSERT_EQUAL(strstr(request, expected) != NULL, x_for[0] != '\0');
        snprintf(expected, sizeof expected, "X-Forwarded-Proto: %s\r\nX-Forwarded-Host: %s\r\n", proto, host);
        CU_ASSERT_EQUAL(strstr(request, expected) != NULL, x_for[0] != '\0');
        CU_ASSERT_EQUAL(strstr(request, "X-Forwarded") != NULL, x_for[0] != '\0');
        snprintf(expected, sizeof expected, "\r\nForwarded: %s\r\n", line);
        CU_ASSERT_EQUAL(strstr(request, expected) != NULL, line[0] != '\0');
        CU_ASSERT_EQUAL(strstr(request, "\r\nForwarded") != NULL, line[0] != '\0');
        CU_ASSERT_TRUE(come_back(OK_WORD));
}

#define OWN_LINE "for=127.0.0.1;host=\"front\";proto=http"

static void
the_client_is_told_of_as_the_settings_say(void)
{
        struct weir_http_server_config settings = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        begin();
        forwards(WEIR_HTTP_FORWARDING_DEFAULT, WEIR_HTTP_FORWARDING_DEFAULT, "127.0.0.1", "http", "front", "");
        forwards(WEIR_HTTP_FORWARDING_TRUSTED, WEIR_HTTP_FORWARDING_TRUSTED, "127.0.0.1", "http", "front", OWN_LINE);
        forwards(WEIR_HTTP_FORWARDING_REPLACE, WEIR_HTTP_FORWARDING_REPLACE, "127.0.0.1", "http", "front", OWN_LINE);
        forwards(WEIR_HTTP_FORWARDING_APPEND, WEIR_HTTP_FORWARDING_APPEND, "1.1.1.1, 3.3.3.3, 127.0.0.1", "https", "other",
                 "for=4.4.4.4, " OWN_LINE);
        forwards(WEIR_HTTP_FORWARDING_PASS, WEIR_HTTP_FORWARDING_PASS, "1.1.1.1\r\nX-Forwarded-For: 3.3.3.3", "https", "other",
                 "for=4.4.4.4");
        forwards(WEIR_HTTP_FORWARDING_REMOVE, WEIR_HTTP_FORWARDING_REMOVE, "", "", "", "");
        end();
        settings.trusted_proxies = "127.0.0.1";
        begin_with(&settings, NULL, forward);
        forwards(WEIR_HTTP_FORWARDING_DEFAULT, WEIR_HTTP_FORWARDING_TRUSTED, "1.1.1.1, 3.3.3.3, 127.0.0.1", "https", "other",
                 "for=4.4.4.4, " OWN_LINE);
        end();
}

static void
the_host_and_the_name_of_the_proxy_are_settings(void)
{
        begin();
        config.keep_host = true;
        config.via = "";
        const char *request = pass("GET / HTTP/1.1\r\nHost: front\r\nVia: 1.0 first\r\n\r\n");
        HAS(request, "\r\nHost: front\r\n");
        HAS(request, "\r\nVia: 1.0 first\r\n");
        HAS_NOT(request, "weir");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS_NOT(reply.head, "Via");
        config.via = "mine";
        HAS(pass("GET / HTTP/1.1\r\nHost: front\r\nVia: 1.0 first\r\n\r\n"), "\r\nVia: 1.0 first\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS(reply.head, "\r\nVia: 1.1 mine\r\n");
        end();
}

/* -- targets and methods -- */

static void
goes_to(const char *path, const char *target, const char *expected)
{
        char request[512], line[512];

        snprintf(base, sizeof base, "http://127.0.0.1:%d%s", backend_port, path);
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: front\r\n\r\n", target);
        snprintf(line, sizeof line, "GET %s HTTP/1.1\r\n", expected);
        HAS(pass(request), line);
        CU_ASSERT_TRUE(come_back(OK_WORD));
}

static void
the_path_goes_behind_that_of_the_url(void)
{
        static const char *const out[] = {"/../x", "/a/../../x", "/%2e%2e/x", "/..%2fx", "/a/..", "/.%2E;x/"};

        begin();
        goes_to("", "/", "/");
        goes_to("/", "/a?b", "/a?b");
        goes_to("/api", "/a?b", "/api/a?b");
        goes_to("/api/", "/a/?", "/api/a/?");
        goes_to("/api", "http://front/a?b", "/api/a?b");
        goes_to("/api", "http://front", "/api/");
        goes_to("", "//evil/a", "//evil/a");
        goes_to("", "/../a%20b", "/../a%20b");
        goes_to("/api", "/a..b/..c/d..", "/api/a..b/..c/d..");
        goes_to("", "/a|b?{c}^\"<>`\\%", "/a%7Cb?%7Bc%7D%5E%22%3C%3E%60%5C%25");
        for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
                char request[128];

                snprintf(base, sizeof base, "http://127.0.0.1:%d/api", backend_port);
                snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: front\r\n\r\n", out[i]);
                CU_ASSERT_TRUE(http_ask(&asker, request, &reply));
                GETS(400, "Bad Request\n");
        }
        end();
}

static void
methods_go_on_and_responses_without_a_body_come_back(void)
{
        static const char *const methods[] = {"GET", "DELETE", "OPTIONS", "PROPFIND"};

        begin();
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
                char request[64];

                snprintf(request, sizeof request, "%s /x HTTP/1.1\r\nHost: front\r\n\r\n", methods[i]);
                CU_ASSERT_NSTRING_EQUAL(pass(request), request, strlen(methods[i]) + 4);
                CU_ASSERT_TRUE(come_back(OK_WORD));
        }
        HAS(pass("HEAD / HTTP/1.1\r\nHost: front\r\n\r\n"), "HEAD / ");
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Length"), "1234");
        (void)pass("HEAD / HTTP/1.1\r\nHost: front\r\n\r\n");
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        CU_ASSERT_PTR_NULL(http_field(&reply, "Content-Length"));
        (void)pass("HEAD / HTTP/1.1\r\nHost: front\r\n\r\n");
        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Length"), "0");
        HAS_NOT(pass(GET("/")), "Content-Length"); /* nor has a request without a body */
        CU_ASSERT_TRUE(come_back("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"));
        GETS(304, "");
        CU_ASSERT_PTR_NULL(http_field(&reply, "Content-Length"));
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back("HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"));
        GETS(204, "");
        CU_ASSERT_PTR_NULL(http_field(&reply, "Content-Length"));
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 77\r\n\r\n"));
        GETS(304, "");
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Length"), "77");
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        GETS(200, "");
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"));
        GETS(200, "abc");
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Length"), "3");
        (void)pass(GET("/"));
        http_peer_send(&peer, "HTTP/1.0 200 OK\r\n\r\nall of it");
        http_peer_close(&peer);
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(200, "all of it");
        CU_ASSERT_TRUE(http_ask(&asker, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", &reply));
        CU_ASSERT_TRUE(reply.status == 501 || reply.status == 400);
        end();
}

/* -- bodies -- */

static void
bodies_of_requests_go_on(void)
{
        for (int streams = 0; streams < 2; streams++) {
                if (streams)
                        begin_streaming();
                else
                        begin();
                const char *request = pass("POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 3\r\n\r\nabc");
                HAS(request, "\r\nContent-Length: 3\r\n\r\nabc");
                CU_ASSERT_TRUE(come_back(OK_WORD));
                HAS(pass("POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 0\r\n\r\n"), "\r\nContent-Length: 0\r\n");
                CU_ASSERT_TRUE(come_back(OK_WORD));
                HAS(pass("DELETE / HTTP/1.1\r\nHost: front\r\nContent-Length: 0\r\n\r\n"), "\r\nContent-Length: 0\r\n");
                CU_ASSERT_TRUE(come_back(OK_WORD));
                request = pass(
                        "POST / HTTP/1.1\r\nHost: front\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
                HAS(request, streams ? "Transfer-Encoding: chunked\r\n" : "Content-Length: 3\r\n\r\nabc");
                while (streams && !strstr(http_peer_sees(&peer), "0\r\n\r\n"))
                        continue;
                CU_ASSERT_TRUE(come_back(OK_WORD));
                GETS(200, "word");
                end();
        }
}

#define MANY ((size_t)1 << 20)

static void
echo(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        if (strcmp(weir_http_path(exchange), "/many") == 0)
                weir_http_reply_append(exchange, context, MANY);
        else
                weir_http_reply_append(exchange, body, size);
}

static void
large_bodies_pass_both_ways(void)
{
        struct weir_http_server_config settings = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        char *bytes = malloc(MANY), head[128];

        for (size_t i = 0; i < MANY; i++)
                bytes[i] = (char)(i * 2654435761u >> 13);
        for (settings.stream_bodies = 0; settings.stream_bodies < 2; settings.stream_bodies++) {
                begin_with(&settings, NULL, forward);
                weir_http_server *other = http_server(NULL, echo, bytes);
                snprintf(base, sizeof base, "http://127.0.0.1:%d", weir_http_server_port(other));
                for (int i = 0; i < 3; i++) {
                        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: front\r\nContent-Length: %zu\r\n\r\n", MANY);
                        CU_ASSERT_TRUE(http_send_text(&asker, head) && http_send(&asker, bytes, MANY));
                        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
                        CU_ASSERT_EQUAL(reply.status, 200);
                        CU_ASSERT_TRUE(reply.size == MANY && memcmp(reply.body, bytes, MANY) == 0);
                }
                CU_ASSERT_EQUAL(weir_http_server_stop(other, WEIR_SEC(30)), 0);
                weir_http_server_free(other);
                end();
        }
        free(bytes);
}

#define PAIRS 8

/* Returns what was taken. */
static size_t
send_until_full(int fd, const char *bytes, size_t size)
{
        size_t sent = 0;

        for (int idle = 0; idle < 50 && sent < size;) {
                ssize_t count = send(fd, bytes, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                idle = count > 0 ? 0 : idle + 1;
                sent += count > 0 ? (size_t)count : 0;
                if (count <= 0)
                        weir_test_sleep(1000000);
        }
        return sent;
}

/* Each client reads nothing, and its server sends all that is taken. */
static void
a_slow_reader_costs_256_kib_at_most(void)
{
        struct http_client readers[PAIRS];
        struct http_peer peers[PAIRS];
        char *bytes = calloc(1, 64 * MANY);

        begin();
        size_t before = mallinfo2().uordblks;
        for (int i = 0; i < PAIRS; i++) {
                http_open_window(&readers[i], proxy_port, 4096);
                CU_ASSERT_TRUE(http_send_text(&readers[i], GET("/")));
                peers[i] = (struct http_peer){.fd = -1};
                (void)http_peer_accept(&peers[i], listener, NULL);
                (void)http_peer_request(&peers[i]);
                CU_ASSERT_TRUE(http_peer_send(&peers[i], "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"));
                CU_ASSERT_TRUE(send_until_full(peers[i].fd, bytes, 64 * MANY) < 64 * MANY);
        }
        size_t held = mallinfo2().uordblks - before;
        CU_ASSERT_TRUE(held / PAIRS <= 256 * 1024 || held > SIZE_MAX / 2);
        for (int i = 0; i < PAIRS; i++) {
                http_close(&readers[i]);
                CU_ASSERT_STRING_EQUAL(http_peer_ends(&peers[i]), "<reset>");
                http_peer_close(&peers[i]);
        }
        free(bytes);
        end();
}

/* -- pieces that change hands -- */

static _Atomic int wrong[3], is_moved;
static _Atomic size_t left_behind = 1;

static void
take_first(weir_task *first, void *exchange)
{
        size_t size;
        const void *data = weir_http_call_data(first, &size);
        weir_task *write = weir_http_write_from_new(exchange, first, NULL, NULL);

        is_moved = size == 4 && memcmp(data, "word", 4) == 0;
        (void)weir_http_call_data(first, &size);
        left_behind = size;
        weir_series_push(weir_series_of(first), write);
}

static void
move(weir_task *exchange, void *context)
{
        weir_http_call *call = weir_http_call_new(client, "GET", base);

        (void)context;
        wrong[0] = weir_task_start(weir_http_write_from_new(exchange, exchange, NULL, NULL));
        wrong[1] = weir_task_start(weir_http_write_from_new(exchange, NULL, NULL, NULL));
        wrong[2] = weir_task_start(weir_http_call_write_from_new(call, NULL, NULL, NULL));
        weir_series_push(weir_series_of(exchange), weir_http_call_first_new(call, take_first, exchange));
        weir_http_call_unref(call);
}

static void
a_piece_is_handed_over(void)
{
        begin_with(NULL, NULL, move);
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        CU_ASSERT_TRUE(is_moved);
        CU_ASSERT_EQUAL(left_behind, 0);
        for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(wrong[i], -EINVAL);
        end();
}

/* Each client sends all that is taken, and its server reads nothing. */
static void
a_slow_server_costs_256_kib_at_most(void)
{
        struct http_client senders[PAIRS];
        struct http_peer peers[PAIRS];
        char *bytes = calloc(1, 64 * MANY);

        begin_streaming();
        size_t before = mallinfo2().uordblks;
        for (int i = 0; i < PAIRS; i++) {
                http_open(&senders[i], proxy_port);
                CU_ASSERT_TRUE(http_send_text(&senders[i], "POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 67108864\r\n\r\n"));
                peers[i] = (struct http_peer){.fd = -1};
                (void)http_peer_accept(&peers[i], listener, NULL);
                (void)http_peer_head(&peers[i]);
                CU_ASSERT_TRUE(send_until_full(senders[i].fd, bytes, 64 * MANY) < 64 * MANY);
        }
        size_t held = mallinfo2().uordblks - before;
        CU_ASSERT_TRUE(held / PAIRS <= 256 * 1024 || held > SIZE_MAX / 2);
        for (int i = 0; i < PAIRS; i++) {
                http_abandon(&senders[i]);
                CU_ASSERT_STRING_EQUAL(http_peer_ends(&peers[i]), "<reset>");
                http_peer_close(&peers[i]);
        }
        free(bytes);
        end();
}

static void
events_pass_at_once(void)
{
        begin();
        HAS(pass(GET("/")), "GET / ");
        CU_ASSERT_TRUE(http_peer_send(&peer, SSE));
        http_read_some(&asker); /* the head, before any event */
        CU_ASSERT_PTR_NOT_NULL(memmem(asker.input, asker.size, "text/event-stream\r\n", 19));
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_peer_send(&peer, "9\r\ndata: x\n\n\r\n"));
                size_t before = asker.size;
                while (asker.size < before + 14)
                        http_read_some(&asker);
        }
        CU_ASSERT_TRUE(http_peer_send(&peer, "0\r\n\r\n"));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(200, "data: x\n\ndata: x\n\ndata: x\n\n");
        end();
}

/* -- the program's functions -- */

static int
change_request(weir_task *exchange, weir_http_call *call, void *context)
{
        if (strcmp(weir_http_path(exchange), "/no") == 0) {
                weir_http_reply_text(exchange, 403, "no\n");
                return 1;
        }
        return weir_http_call_set_header(call, "X-Added", context);
}

static int
change_response(weir_task *exchange, weir_http_call *call, void *context)
{
        (void)context;
        if (weir_http_call_header(call, "X-Hidden")) {
                weir_http_reply_text(exchange, 410, "gone\n");
                return 1;
        }
        return weir_http_reply_set_header(exchange, "Server", "mine");
}

static void
functions_of_the_program_change_both(void)
{
        begin();
        config.on_request = change_request;
        config.on_response = change_response;
        config.context = "yes";
        CU_ASSERT_TRUE(http_ask(&asker, GET("/no"), &reply));
        GETS(403, "no\n");
        HAS(pass(GET("/")), "\r\nX-Added: yes\r\n");
        CU_ASSERT_TRUE(come_back("HTTP/1.1 200 OK\r\nServer: other\r\nContent-Length: 1\r\n\r\na"));
        GETS(200, "a");
        HTTP_ASSERT_TEXT(http_field(&reply, "Server"), "mine");
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(come_back("HTTP/1.1 200 OK\r\nX-Hidden: 1\r\nContent-Length: 100000\r\n\r\na"));
        GETS(410, "gone\n");
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
        end();
}

/* -- upgrades -- */

#define ASKS_UPGRADE \
        "GET /chat HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"

static void
switched(void)
{
        HAS(pass(ASKS_UPGRADE), "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                                             "Sec-WebSocket-Accept: a\r\n\r\nfirst"));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        CU_ASSERT_EQUAL(reply.status, 101);
        HTTP_ASSERT_TEXT(http_field(&reply, "Upgrade"), "websocket");
        HTTP_ASSERT_TEXT(http_field(&reply, "Sec-WebSocket-Accept"), "a");
        while (asker.size < 5)
                http_read_some(&asker);
        CU_ASSERT_NSTRING_EQUAL(asker.input, "first", 5);
        CU_ASSERT_TRUE(http_send_text(&asker, "question"));
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "question");
}

static void
an_upgrade_passes_bytes_both_ways_until_the_ends(void)
{
        begin();
        switched();
        CU_ASSERT_EQUAL(shutdown(asker.fd, SHUT_WR), 0);
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "<end>");
        CU_ASSERT_TRUE(http_peer_send(&peer, "last"));
        hang_up();
        while (!asker.ended)
                http_read_some(&asker);
        CU_ASSERT_FALSE(asker.reset);
        CU_ASSERT_NSTRING_EQUAL(asker.input, "firstlast", 9);
        http_close(&asker);

        http_open(&asker, proxy_port);
        switched();
        CU_ASSERT_TRUE(http_peer_send(&peer, "farewell"));
        http_peer_finish(&peer); /* the other server is the first */
        while (!asker.ended)
                http_read_some(&asker);
        CU_ASSERT_FALSE(asker.reset);
        CU_ASSERT_NSTRING_EQUAL(asker.input, "firstfarewell", 13);
        CU_ASSERT_TRUE(http_send_text(&asker, "more"));
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "more");
        CU_ASSERT_EQUAL(shutdown(asker.fd, SHUT_WR), 0);
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "<end>");
        hang_up();
        end();
}

/* All that is on its way arrives before the end, also if it is much and the client is slow. */
static void
the_end_of_a_tunnel_comes_behind_its_last_byte(void)
{
        char *bytes = calloc(1, MANY);
        size_t seen = 0;

        begin();
        http_close(&asker);
        http_open_window(&asker, proxy_port, 4096);
        switched();
        CU_ASSERT_TRUE(http_peer_send_bytes(&peer, bytes, MANY));
        hang_up();
        for (asker.size = 0; !asker.ended; asker.size = 0) {
                http_read_some(&asker);
                seen += asker.size;
        }
        CU_ASSERT_FALSE(asker.reset);
        CU_ASSERT_EQUAL(seen, MANY);
        free(bytes);
        end();
}

/* -- the end of the writing -- */

static _Atomic int ends[3];

static void
note_end(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static void
end_writing(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        ends[0] = ends[1] = ends[2] = 1;
        (void)weir_http_reply_upgrade(exchange, "websocket");
        weir_series_push(series, weir_http_finish_new(exchange, note_end, &ends[0]));
        weir_series_push(series, weir_http_write_new(exchange, "a", 1, note_end, &ends[1]));
        weir_series_push(series, weir_http_read_new(exchange, note_end, &ends[2]));
}

static void
an_upgraded_exchange_ends_its_writing_alone(void)
{
        begin_with(NULL, NULL, end_writing);
        CU_ASSERT_TRUE(http_send_text(&asker, ASKS_UPGRADE));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        CU_ASSERT_EQUAL(reply.status, 101);
        while (!asker.ended)
                http_read_some(&asker);
        CU_ASSERT_TRUE(http_send_text(&asker, "b"));
        WEIR_TEST_EVENTUALLY(ends[2] != 1);
        CU_ASSERT_EQUAL(ends[0], 0);
        CU_ASSERT_EQUAL(ends[1], -EPIPE);
        CU_ASSERT_EQUAL(ends[2], 0);
        http_close(&asker);
        http_open(&asker, proxy_port);
        CU_ASSERT_TRUE(http_ask(&asker, GET("/"), &reply));
        WEIR_TEST_EVENTUALLY(ends[2] != 1);
        CU_ASSERT_EQUAL(ends[0], -EINVAL);
        end();
}

static void
other_upgrades_are_plain_requests(void)
{
        begin();
        HAS_NOT(pass("GET / HTTP/1.1\r\nHost: front\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                     "HTTP2-Settings: x\r\n\r\n"),
                "pgrade");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS(pass(ASKS_UPGRADE), "Upgrade: websocket");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        config.upgrades = "";
        HAS_NOT(pass(ASKS_UPGRADE), "Upgrade");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        end();
}

/* -- many, and TLS -- */

#define CLIENTS 1000

static void
a_thousand_at_once(void)
{
        static struct http_client askers[CLIENTS];
        struct rlimit limit;

        CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        begin();
        weir_http_server *other = http_server(NULL, echo, NULL);
        snprintf(base, sizeof base, "http://127.0.0.1:%d", weir_http_server_port(other));
        for (int i = 0; i < CLIENTS; i++) {
                http_open(&askers[i], proxy_port);
                CU_ASSERT_TRUE(http_send_text(&askers[i], "POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 5\r\n\r\nhello"));
        }
        for (int i = 0; i < CLIENTS; i++) {
                CU_ASSERT_TRUE(http_receive(&askers[i], &reply, false));
                GETS(200, "hello");
                http_close(&askers[i]);
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(other, WEIR_SEC(30)), 0);
        weir_http_server_free(other);
        end();
}

static void
tls_on_both_sides(void)
{
        struct weir_http_server_config settings = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct weir_client_config limits = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        const struct tls_client_wish wish = {.server_name = "localhost"};
        char text[4096];
        int size = 0, got;

        tls_files_begin();
        tls_make_certificate("a", &(struct tls_wish){.alternative_names = "DNS:localhost,IP:127.0.0.1"});
        settings.certificate_file = tls_path("a.pem");
        settings.private_key_file = tls_path("a.key");
        trust.ca_file = tls_path("a.pem");
        limits.tls = weir_tls_client_new(&trust);
        begin_with(&settings, &limits, forward);
        weir_tls_unref(limits.tls);
        SSL_CTX *context = http_peer_tls("a");
        snprintf(base, sizeof base, "https://127.0.0.1:%d", backend_port);
        SSL *tls = tls_connect(proxy_port, &wish);
        CU_ASSERT_PTR_NOT_NULL_FATAL(tls);
        CU_ASSERT_TRUE(SSL_write(tls, GET("/"), sizeof GET("/") - 1) > 0);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, context));
        HAS(http_peer_request(&peer), "\r\nX-Forwarded-Proto: https\r\n");
        CU_ASSERT_TRUE(http_peer_send(&peer, OK_WORD));
        while (!(size >= 4 && memcmp(text + size - 4, "word", 4) == 0) &&
               (got = SSL_read(tls, text + size, (int)sizeof text - size)) > 0)
                size += got;
        CU_ASSERT_TRUE(size > 4 && memcmp(text + size - 4, "word", 4) == 0);
        tls_hang_up(tls);
        end();
        SSL_CTX_free(context);
        tls_files_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_request_goes_on_and_its_response_comes_back),
                WEIR_TEST(fields_of_one_connection_stay_behind),
                WEIR_TEST(the_client_is_told_of_as_the_settings_say),
                WEIR_TEST(the_host_and_the_name_of_the_proxy_are_settings),
                WEIR_TEST(the_path_goes_behind_that_of_the_url),
                WEIR_TEST(methods_go_on_and_responses_without_a_body_come_back),
                WEIR_TEST(bodies_of_requests_go_on),
                WEIR_TEST(large_bodies_pass_both_ways),
                WEIR_TEST(a_slow_reader_costs_256_kib_at_most),
                WEIR_TEST(a_slow_server_costs_256_kib_at_most),
                WEIR_TEST(a_piece_is_handed_over),
                WEIR_TEST(events_pass_at_once),
                WEIR_TEST(functions_of_the_program_change_both),
                WEIR_TEST(an_upgrade_passes_bytes_both_ways_until_the_ends),
                WEIR_TEST(the_end_of_a_tunnel_comes_behind_its_last_byte),
                WEIR_TEST(an_upgraded_exchange_ends_its_writing_alone),
                WEIR_TEST(other_upgrades_are_plain_requests),
                WEIR_TEST(a_thousand_at_once),
                WEIR_TEST(tls_on_both_sides),
        };

        return weir_test_main("http_proxy", tests, sizeof tests / sizeof *tests);
}
