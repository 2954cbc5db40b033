/* test/client_redirect_test.c: responses that send a request elsewhere. */
#include "test/client_fixture.h"

#define FOUND(status, to) "HTTP/1.1 " status " Go\r\nLocation: " to "\r\nContent-Length: 0\r\n\r\n"

static struct weir_client_config config;

static void
begin_following(unsigned redirects)
{
        config = (struct weir_client_config)WEIR_CLIENT_CONFIG_DEFAULT;
        config.redirects = redirects;
        begin(&config);
}

static void
answer(const char *reply)
{
        CU_ASSERT_TRUE(http_peer_send(&peer, reply));
}

static void
without_leave_the_redirect_is_the_response(void)
{
        struct seen seen = {.wants = "Location"};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        answer(FOUND("302", "/x"));
        settle();
        SEES(seen, 0, 302, "");
        CU_ASSERT_STRING_EQUAL(seen.field, "/x");
        end();
}

static void
methods_change_as_they_should(void)
{
        static const struct {
                const char *status, *method, *next;
                bool has_body;
        } rows[] = {{"301", "GET", "GET", false},   {"302", "GET", "GET", false},         {"303", "GET", "GET", false},
                    {"307", "GET", "GET", false},   {"308", "GET", "GET", false},         {"301", "POST", "GET", false},
                    {"302", "POST", "GET", false},  {"303", "POST", "GET", false},        {"307", "POST", "POST", true},
                    {"308", "POST", "POST", true},  {"301", "PUT", "PUT", true},          {"302", "PUT", "PUT", true},
                    {"303", "PUT", "GET", false},   {"303", "DELETE", "GET", false},      {"301", "HEAD", "HEAD", false},
                    {"303", "HEAD", "HEAD", false}, {"302", "PROPFIND", "PROPFIND", true}};

        begin_following(3);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct seen seen = {0};
                char reply[256], expected[64];
                bool sends = strcmp(rows[i].method, "GET") != 0 && strcmp(rows[i].method, "HEAD") != 0;
                weir_task *request = request_new(rows[i].method, "/a/b?q", &seen);

                if (sends)
                        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "body", 4, "text/plain"), 0);
                CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Content-Language", "de"), 0);
                start(request);
                if (peer.fd < 0)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                snprintf(reply, sizeof reply, "HTTP/1.1 %s Go\r\nLocation: ../c?d=e#f\r\nContent-Length: 5\r\n\r\n%s",
                         rows[i].status, strcmp(rows[i].method, "HEAD") == 0 ? "" : "moved");
                answer(reply);
                const char *sent = http_peer_request(&peer);
                snprintf(expected, sizeof expected, "%s /c?d=e HTTP/1.1\r\n", rows[i].next);
                CU_ASSERT_NSTRING_EQUAL(sent, expected, strlen(expected));
                CU_ASSERT_EQUAL(strstr(sent, "\r\n\r\nbody") != NULL, rows[i].has_body);
                CU_ASSERT_EQUAL(strstr(sent, "Content-Type") != NULL, rows[i].has_body);
                if (sends)
                        CU_ASSERT_EQUAL(strstr(sent, "Content-Language") != NULL, rows[i].has_body);
                answer(strcmp(rows[i].next, "HEAD") == 0 ? "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" : OK_WORD);
                settle();
                SEES(seen, 0, 200, strcmp(rows[i].next, "HEAD") == 0 ? "" : "word");
                HAS(seen.url, "/c?d=e");
        }
        CU_ASSERT_EQUAL(stats().connections, 1);
        end();
}

static void
too_many_are_told_with_the_last_one(void)
{
        struct seen seen = {.wants = "Location"};

        begin_following(3);
        get("/0", &seen);
        (void)http_peer_accept(&peer, listener, NULL);
        for (int i = 0; i < 4; i++) {
                (void)http_peer_request(&peer);
                answer(FOUND("302", "/loop"));
        }
        settle();
        SEES(seen, -ELOOP, 302, "");
        CU_ASSERT_STRING_EQUAL(seen.field, "/loop");
        HAS(seen.problem, "more redirects than allowed");
        CU_ASSERT_STRING_EQUAL(http_peer_has(&peer), "");
        end();
}

static void
places_that_cannot_be_are_told(void)
{
        static const char *const replies[] = {"HTTP/1.1 302 Go\r\nContent-Length: 0\r\n\r\n",
                                              FOUND("302", "ftp://127.0.0.1/"),
                                              FOUND("302", "http://"),
                                              FOUND("302", "http://127.0.0.1:99999/"),
                                              FOUND("302", "http://127.0.0.1:0/"),
                                              FOUND("302", "javascript:alert(1)"),
                                              FOUND("302", "/a b"),
                                              FOUND("302", "http://\xff.example/")};

        begin_following(3);
        for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
                struct seen seen = {0};

                get("/", &seen);
                if (peer.fd < 0)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                answer(replies[i]);
                settle();
                SEES(seen, -ENOLINK, 302, "");
                HAS(seen.problem, "Location");
        }
        end();
}

/* What was for the first server is neither for another one, nor for the first one when the request comes back to it. */
static void
secrets_stay_with_their_origin(void)
{
        struct seen seen = {0};
        struct http_peer foreign;
        int foreign_port, stranger = http_peer_listen(&foreign_port);
        char reply[256];

        begin_following(5);
        weir_task *request = request_new("GET", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Authorization", "Bearer secret"), 0);
        CU_ASSERT_EQUAL(weir_http_request_add_header(request, "Cookie", "a=secret"), 0);
        CU_ASSERT_EQUAL(weir_http_request_add_header(request, "cookie", "b=secret"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Proxy-Authorization", "secret"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Host", "inner.example"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "X-Kept", "kept"), 0);
        start(request);
        HAS(accept_request(), "Bearer secret");
        answer(FOUND("302", "/same"));
        const char *sent = http_peer_request(&peer);
        HAS(sent, "Bearer secret");
        HAS(sent, "inner.example");
        snprintf(reply, sizeof reply, "HTTP/1.1 302 Go\r\nLocation: http://u:p@127.0.0.1:%d/x\r\nContent-Length: 0\r\n\r\n",
                 foreign_port);
        answer(reply);
        (void)http_peer_accept(&foreign, stranger, NULL);
        sent = http_peer_request(&foreign);
        HAS(sent, "GET /x HTTP/1.1\r\n");
        HAS_NOT(sent, "secret");
        HAS_NOT(sent, "inner.example");
        HAS(sent, "X-Kept: kept");
        snprintf(reply, sizeof reply, "HTTP/1.1 302 Go\r\nLocation: //127.0.0.1:%d/back\r\nContent-Length: 0\r\n\r\n", port);
        http_peer_send(&foreign, reply);
        sent = http_peer_request(&peer);
        HAS(sent, "GET /back HTTP/1.1\r\n");
        HAS_NOT(sent, "secret");
        HAS_NOT(sent, "inner.example");
        answer(OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        HAS_NOT(seen.url, "u:p");
        end();
        http_peer_close(&foreign);
        close(stranger);
}

static void
the_password_of_a_url_stays_with_its_origin(void)
{
        struct seen seen = {0};
        char url[128], reply[256];

        begin_following(5);
        snprintf(url, sizeof url, "http://me:mine@127.0.0.1:%d/", port);
        start(weir_client_request_new(client, "GET", url, see, &seen));
        HAS(accept_request(), "Authorization: Basic ");
        answer(FOUND("307", "next"));
        HAS(http_peer_request(&peer), "Authorization: Basic ");
        snprintf(reply, sizeof reply, "HTTP/1.1 302 Go\r\nLocation: http://localhost:%d/\r\nContent-Length: 0\r\n\r\n", port);
        answer(reply);
        http_peer_close(&peer);
        HAS_NOT(accept_request(), "Authorization");
        answer(OK_WORD);
        WEIR_TEST_EVENTUALLY((settle(), seen.calls));
        SEES(seen, 0, 200, "word");
        end();
}

static void
https_does_not_become_http(void)
{
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        struct seen seen = {0};
        char url[64], reply[256];

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1"});
        trust.ca_file = tls_path("server.pem");
        SSL_CTX *context = http_peer_tls("server");
        weir_test_begin_real(1);
        config = (struct weir_client_config)WEIR_CLIENT_CONFIG_DEFAULT;
        config.redirects = 5;
        config.tls = weir_tls_client_new(&trust);
        begin_with(&config);
        weir_tls_unref(config.tls);
        snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
        start(weir_client_request_new(client, "GET", url, see, &seen));
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, context));
        (void)http_peer_request(&peer);
        snprintf(reply, sizeof reply, "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n", port);
        answer(reply);
        wait_for(&seen);
        SEES(seen, -EACCES, 302, "");
        HAS(seen.problem, "from https to http");
        end();
        SSL_CTX_free(context);
        tls_files_end();
}

/* Its body is thrown away; a long one with its connection. */
static void
the_body_of_a_redirect_is_thrown_away(void)
{
        static char long_body[200000];

        memset(long_body, 'x', sizeof long_body - 1);
        for (int i = 0; i < 4; i++) {
                struct seen seen = {0};
                char head[256];
                size_t size = i % 2 ? sizeof long_body - 1 : 1000;

                begin_following(1);
                get("/", &seen);
                (void)accept_request();
                if (i < 2)
                        snprintf(head, sizeof head, "HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Length: %zu\r\n\r\n", size);
                else
                        snprintf(head, sizeof head,
                                 "HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Encoding: gzip\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                                 size);
                answer(head);
                (void)http_peer_send_bytes(&peer, long_body, size);
                if (i >= 2)
                        (void)http_peer_send(&peer, "\r\n0\r\n\r\n");
                if (i % 2) {
                        (void)http_peer_ends(&peer);
                        http_peer_cut(&peer);
                        (void)http_peer_accept(&peer, listener, NULL);
                }
                HAS(http_peer_request(&peer), "GET /next");
                answer(OK_WORD);
                settle();
                SEES(seen, 0, 200, "word");
                end();
        }
}

/* Half a redirect is not followed. */
static void
a_redirect_that_breaks_off_is_told(void)
{
        struct seen seen = {0};

        begin_following(1);
        get("/", &seen);
        (void)accept_request();
        answer("HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Length: 100\r\n\r\nx");
        settle();
        http_peer_close(&peer);
        settle();
        SEES(seen, -ECONNABORTED, 302, "");
        CU_ASSERT_FALSE(http_peer_has_caller(listener));
        end();
}

/* The connection of the first was closed: the second request is replayed for itself. */
static void
bodies_and_redirects_of_one_request_have_room(void)
{
        struct seen seen = {0};

        begin_following(10);
        get("/", &seen);
        (void)http_peer_accept(&peer, listener, NULL);
        for (int i = 0; i < 10; i++) {
                (void)http_peer_request(&peer);
                if (i % 3 == 2) {
                        http_peer_send(&peer,
                                       "HTTP/1.1 302 Go\r\nLocation: /x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
                        http_peer_close(&peer);
                        (void)http_peer_accept(&peer, listener, NULL);
                } else {
                        answer("HTTP/1.1 302 Go\r\nLocation: /x\r\nContent-Length: 3\r\n\r\nabc");
                }
        }
        (void)http_peer_request(&peer);
        answer(OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(without_leave_the_redirect_is_the_response),
                WEIR_TEST(methods_change_as_they_should),
                WEIR_TEST(too_many_are_told_with_the_last_one),
                WEIR_TEST(places_that_cannot_be_are_told),
                WEIR_TEST(secrets_stay_with_their_origin),
                WEIR_TEST(the_password_of_a_url_stays_with_its_origin),
                WEIR_TEST(https_does_not_become_http),
                WEIR_TEST(the_body_of_a_redirect_is_thrown_away),
                WEIR_TEST(a_redirect_that_breaks_off_is_told),
                WEIR_TEST(bodies_and_redirects_of_one_request_have_room),
        };

        return weir_test_main("client_redirect", tests, sizeof tests / sizeof *tests);
}
