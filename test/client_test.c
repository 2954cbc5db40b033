/* test/client_test.c: the client of HTTP where all goes well: what goes out, and what is made of the response. */
#include <zlib.h>

#include "test/client_fixture.h"

/* Has one request, answers it, and closes the connection. */
static void
ask(weir_task *request, struct seen *seen, const char *reply, char *out)
{
        start(request);
        snprintf(out, 4096, "%s", accept_request());
        CU_ASSERT_TRUE(http_peer_send(&peer, reply));
        http_peer_close(&peer);
        settle();
        CU_ASSERT_EQUAL(seen->calls, 1);
}

/* -- requests -- */

static void
a_get_is_a_line_and_few_fields(void)
{
        struct seen seen = {0};
        char sent[4096], expected[512];

        begin(NULL);
        ask(request_new("GET", "/a/b?c=d", &seen), &seen, OK_WORD, sent);
        snprintf(expected, sizeof expected, "GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: weir/", port);
        CU_ASSERT_NSTRING_EQUAL(sent, expected, strlen(expected));
        HAS(sent, "\r\nAccept-Encoding: gzip");
        HAS_NOT(sent, "Content-Length");
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_COMPLETE);
        CU_ASSERT_STRING_EQUAL(seen.problem, "");
        CU_ASSERT_STRING_EQUAL(seen.url, url_of("/a/b?c=d"));
        end();
}

static void
methods_go_out_as_they_are(void)
{
        static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"};

        begin(NULL);
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
                struct seen seen = {0};
                char sent[4096], expected[64];
                bool is_said = i >= 1 && i <= 3;

                ask(request_new(methods[i], "/", &seen), &seen, OK_WORD, sent);
                snprintf(expected, sizeof expected, "%s / HTTP/1.1\r\n", methods[i]);
                CU_ASSERT_NSTRING_EQUAL(sent, expected, strlen(expected));
                CU_ASSERT_EQUAL(strstr(sent, "\r\nContent-Length: 0\r\n") != NULL, is_said);
                SEES(seen, 0, 200, "word");
        }
        end();
}

static void
fields_are_set_and_added(void)
{
        struct seen seen = {0};
        char sent[4096];

        begin(NULL);
        weir_task *request = request_new("GET", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "X-One", "1"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "x-one", "2"), 0);
        CU_ASSERT_EQUAL(weir_http_request_add_header(request, "X-Two", "a"), 0);
        CU_ASSERT_EQUAL(weir_http_request_add_header(request, "X-Two", "b"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Host", "other.example"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "User-Agent", "mine"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "X-Empty", ""), 0);
        ask(request, &seen, OK_WORD, sent);
        HAS_NOT(sent, ": 1\r\n");
        HAS(sent, "-one: 2\r\n");
        HAS(sent, "X-Two: a\r\nX-Two: b\r\n");
        HAS(sent, "Host: other.example\r\n");
        HAS_NOT(sent, "127.0.0.1");
        HAS(sent, "User-Agent: mine\r\n");
        HAS_NOT(sent, "weir/");
        HAS(sent, "X-Empty:");
        end();
}

static void
a_program_may_choose_the_codings(void)
{
        struct seen seen = {0};
        char sent[4096];

        begin(NULL);
        weir_task *request = request_new("GET", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Accept-Encoding", "identity"), 0);
        ask(request, &seen, OK_WORD, sent);
        HAS(sent, "Accept-Encoding: identity\r\n");
        HAS_NOT(sent, "gzip");
        SEES(seen, 0, 200, "word");
        end();
}

/* A part of a body in gzip cannot be decoded. */
static void
a_range_is_asked_for_without_coding(void)
{
        struct seen seen = {0};
        char sent[4096];

        begin(NULL);
        weir_task *request = request_new("GET", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "range", "bytes=2-5"), 0);
        ask(request, &seen, "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n\r\nword", sent);
        HAS(sent, "range: bytes=2-5\r\n");
        HAS_NOT(sent, "Accept-Encoding");
        SEES(seen, 0, 206, "word");
        end();
}

static void
userinfo_becomes_a_field_and_is_shown_nowhere(void)
{
        struct seen seen = {0};
        char url[128], sent[4096];

        begin(NULL);
        snprintf(url, sizeof url, "http://Aladdin:open%%20sesame@127.0.0.1:%d/x?secret", port);
        ask(weir_client_request_new(client, "GET", url, see, &seen), &seen, "HTTP/1.1 2", sent);
        HAS(sent, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
        HAS_NOT(sent, "Aladdin");
        HAS_NOT(seen.problem, "Aladdin");
        HAS_NOT(seen.problem, "secret");
        HAS(seen.problem, "/x: ");
        HAS_NOT(seen.url, "Aladdin");
        end();
}

static void
settings_of_a_client_choose_fields(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};
        char sent[4096];

        config.user_agent = "";
        config.keep_coding = true;
        begin(&config);
        ask(request_new("GET", "/", &seen), &seen, OK_WORD, sent);
        HAS_NOT(sent, "User-Agent");
        HAS_NOT(sent, "Accept-Encoding");
        end();
}

/* -- bodies of requests -- */

static void
bodies_are_copied_lent_and_of_files(void)
{
        char sent[4096], path[] = "/tmp/weir_client_XXXXXX", bytes[] = "0123456789";
        int file = mkstemp(path);

        CU_ASSERT_EQUAL(write(file, bytes, 10), 10);
        unlink(path);
        begin(NULL);
        for (int i = 0; i < 5; i++) {
                static const char *const expected[] = {"\r\n\r\n0123456789", "\r\n\r\n0123456789", "\r\n\r\n23456789",
                                                       "\r\n\r\n234", "\r\n\r\n"};
                struct seen seen = {0};
                weir_task *request = request_new("POST", "/", &seen);
                char copy[] = "0123456789";
                int r = i == 0   ? weir_http_request_set_body(request, copy, 10, "text/plain")
                        : i == 1 ? weir_http_request_lend_body(request, bytes, 10, "text/plain")
                        : i == 2 ? weir_http_request_set_body_file(request, file, 2, UINT64_MAX, "text/plain")
                        : i == 3 ? weir_http_request_set_body_file(request, file, 2, 3, "text/plain")
                                 : weir_http_request_set_body_file(request, file, 99, UINT64_MAX, "text/plain");

                memset(copy, 'x', 10);
                CU_ASSERT_EQUAL(r, 0);
                ask(request, &seen, OK_WORD, sent);
                HAS(sent, "Content-Type: text/plain\r\n");
                CU_ASSERT_STRING_EQUAL(strstr(sent, "\r\n\r\n"), expected[i]);
                SEES(seen, 0, 200, "word");
        }
        end();
        close(file);
}

static void
a_large_body_goes_out_as_the_server_takes_it(void)
{
        size_t size = (size_t)20 << 20;
        char *bytes = malloc(size);
        struct seen seen = {0};

        for (size_t i = 0; i < size; i++)
                bytes[i] = (char)(i * 7 >> 3);
        begin(NULL);
        weir_task *request = request_new("PUT", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_lend_body(request, bytes, size, NULL), 0);
        start(request);
        const char *sent = accept_request();
        CU_ASSERT_EQUAL(memcmp(strstr(sent, "\r\n\r\n") + 4, bytes, size), 0);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        end();
        free(bytes);
}

static void
the_last_body_counts(void)
{
        struct seen seen = {0};
        char sent[4096];

        begin(NULL);
        weir_task *request = request_new("POST", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "first", 5, "text/plain"), 0);
        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "2nd", 3, "text/html"), 0);
        ask(request, &seen, OK_WORD, sent);
        HAS(sent, "Content-Type: text/html\r\n");
        HAS_NOT(sent, "text/plain");
        HAS(sent, "\r\n\r\n2nd");
        end();
}

/* A body without a type leaves the field as it is, whatever has set it, and when. */
static void
a_body_without_a_type_leaves_the_field(void)
{
        static char text[] = "body", path[] = "/tmp/weir_client_XXXXXX";
        int file = mkstemp(path);

        CU_ASSERT_EQUAL(write(file, text, 4), 4);
        unlink(path);
        for (int i = 0; i < 12; i++) {
                struct seen seen = {0};
                char sent[4096];

                begin(NULL);
                weir_task *request = request_new("POST", "/", &seen);
                if (i / 3 == 1)
                        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "first", 5, "text/plain"), 0);
                if (i / 3 == 2)
                        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Content-Type", "text/plain"), 0);
                int r = i % 3 == 0   ? weir_http_request_set_body(request, text, 4, NULL)
                        : i % 3 == 1 ? weir_http_request_lend_body(request, text, 4, NULL)
                                     : weir_http_request_set_body_file(request, file, 0, 4, NULL);
                CU_ASSERT_EQUAL(r, 0);
                if (i / 3 == 3)
                        CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Content-Type", "text/plain"), 0);
                ask(request, &seen, OK_WORD, sent);
                HAS(sent, "\r\n\r\nbody");
                CU_ASSERT_EQUAL(strstr(sent, "Content-Type: text/plain\r\n") != NULL, i / 3 > 0);
                CU_ASSERT_EQUAL(strstr(sent, "Content-Type") != NULL, i / 3 > 0);
                end();
        }
        close(file);
}

/* -- responses -- */

struct reply {
        const char *method, *bytes;
        int code;
        const char *body;
        bool closes; /* the server, to end the body */
};

static const struct reply replies[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 003\r\n\r\nabc", 200, "abc", false},
        {"GET", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", false},
        {"GET", "HTTP/1.1 200 \r\ncontent-length:3\r\n\r\nabc", 200, "abc", false},
        {"GET", "HTTP/1.1 599 \xe4\xf6\r\nX: \xff\r\nContent-Length: \t 3 \t\r\n\r\nabc", 599, "abc", false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n02;x=y\r\nde\r\n0\r\nTrailer: z\r\n\r\n", 200,
         "abcde", false},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 200, "", false},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nup to the end", 200, "up to the end", true},
        {"GET", "HTTP/1.0 200 OK\r\n\r\nold", 200, "old", true},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc", 200, "abc", false},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", false},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n", 304, "", false},
        {"GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304, "", false},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 200, "", false},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", false},
        {"HEAD", "HTTP/1.1 404 No\r\n\r\n", 404, "", false},
        {"GET",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200,
         "abc", false},
        {"GET",
         "HTTP/1.1 200 OK\r\nX:\r\nX: "
         "\r\nContent-Length: 1\r\n\r\na",
         200, "a", false},
};

/* At once, and byte by byte.  The connection serves all that do not end it. */
static void
responses_end_where_they_say(void)
{
        begin(NULL);
        for (size_t i = 0; i < 2 * (sizeof replies / sizeof *replies); i++) {
                const struct reply *reply = &replies[i / 2];
                struct seen seen = {0};

                start(request_new(reply->method, "/", &seen));
                if (peer.fd < 0)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                if (i % 2)
                        send_slowly(reply->bytes);
                else
                        http_peer_send(&peer, reply->bytes);
                settle();
                CU_ASSERT_EQUAL(seen.calls, !reply->closes);
                if (reply->closes)
                        http_peer_close(&peer);
                settle();
                SEES(seen, 0, reply->code, reply->body);
                CU_ASSERT_EQUAL(stats().idle, !reply->closes);
        }
        end();
}

static void
look_at_fields(weir_task *request, void *context)
{
        const char *name, *value;
        size_t size;

        CU_ASSERT_STRING_EQUAL(weir_http_response_header(request, "x-A"), "1");
        CU_ASSERT_PTR_NULL(weir_http_response_header(request, "X-C"));
        CU_ASSERT_EQUAL(weir_http_response_field(request, 1, &name, &value), 0);
        CU_ASSERT_STRING_EQUAL(name, "x-a");
        CU_ASSERT_STRING_EQUAL(value, "2");
        CU_ASSERT_EQUAL(weir_http_response_field(request, 2, NULL, NULL), 0);
        CU_ASSERT_EQUAL(weir_http_response_field(request, 3, &name, &value), -ENOENT);
        CU_ASSERT_STRING_EQUAL(weir_http_response_body(request, NULL), "word");
        char *body = weir_http_response_take_body(request, &size);
        CU_ASSERT_STRING_EQUAL(body, "word");
        CU_ASSERT_EQUAL(size, 4);
        free(body);
        CU_ASSERT_PTR_NULL(weir_http_response_take_body(request, &size));
        CU_ASSERT_EQUAL(size, 0);
        CU_ASSERT_STRING_EQUAL(weir_http_response_body(request, &size), "");
        CU_ASSERT_EQUAL(size, 0);
        see(request, context);
}

static void
fields_and_the_body_are_read_and_taken(void)
{
        struct seen seen = {0};
        char sent[4096];

        begin(NULL);
        ask(weir_client_request_new(client, "GET", url_of("/"), look_at_fields, &seen), &seen,
            "HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 4\r\n\r\nword", sent);
        end();
}

static void
other_tasks_have_no_response(void)
{
        weir_task *other = weir_empty_new(NULL, NULL);
        size_t size = 1;

        CU_ASSERT_EQUAL(weir_http_response_status(other), -EINVAL);
        CU_ASSERT_PTR_NULL(weir_http_response_header(other, "A"));
        CU_ASSERT_EQUAL(weir_http_response_field(other, 0, NULL, NULL), -EINVAL);
        CU_ASSERT_PTR_NULL(weir_http_response_body(other, &size));
        CU_ASSERT_EQUAL(size, 0);
        CU_ASSERT_PTR_NULL(weir_http_response_take_body(other, NULL));
        CU_ASSERT_PTR_NULL(weir_http_response_url(other));
        CU_ASSERT_EQUAL(weir_http_stage(other), WEIR_HTTP_QUEUED);
        CU_ASSERT_PTR_NULL(weir_http_problem(other));
        CU_ASSERT_EQUAL(weir_http_request_set_header(other, "A", "b"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_body(other, "a", 1, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_lend_body(other, "a", 1, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_body_file(other, 0, 0, 0, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_limit(other, WEIR_HTTP_LIMIT_WHOLE, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_redirects(other, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_max_body(other, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_idempotent(other, true), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_response_status(NULL), -EINVAL);
        weir_task_dismiss(other);
}

/* -- codings -- */

static size_t
deflate_into(char *out, size_t room, const char *data, size_t size, int window)
{
        z_stream stream = {0};

        CU_ASSERT_EQUAL_FATAL(deflateInit2(&stream, 9, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (Bytef *)data;
        stream.avail_in = (uInt)size;
        stream.next_out = (Bytef *)out;
        stream.avail_out = (uInt)room;
        CU_ASSERT_EQUAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
        size_t made = room - stream.avail_out;
        deflateEnd(&stream);
        return made;
}

static void
codings_are_taken_off(void)
{
        static const struct {
                const char *name;
                int window;
        } codings[] = {{"gzip", 15 + 16}, {"x-gzip", 15 + 16}, {"GZIP", 15 + 16}, {"deflate", 15}, {"deflate", -15}};

        begin(NULL);
        for (size_t i = 0; i < 2 * (sizeof codings / sizeof *codings); i++) {
                struct seen seen = {0};
                char coded[256], head[256];
                size_t size = deflate_into(coded, sizeof coded, "a body, a body, a body", 22, codings[i / 2].window);

                get("/", &seen);
                if (peer.fd < 0)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %zu\r\n\r\n",
                         codings[i / 2].name, size);
                http_peer_send(&peer, head);
                for (size_t at = 0; i % 2 && at + 1 < size; at++) {
                        http_peer_send_bytes(&peer, coded + at, 1);
                        settle();
                }
                http_peer_send_bytes(&peer, i % 2 ? coded + size - 1 : coded, i % 2 ? 1 : size);
                settle();
                SEES(seen, 0, 200, "a body, a body, a body");
                CU_ASSERT_EQUAL(seen.size, 22);
        }
        CU_ASSERT_EQUAL(stats().reused, 9);
        end();
}

/* -- https -- */

static void
https_is_the_same_and_kept(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        char url[64];

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1"});
        trust.ca_file = tls_path("server.pem");
        config.tls = weir_tls_client_new(&trust);
        CU_ASSERT_PTR_NOT_NULL_FATAL(config.tls);
        SSL_CTX *context = http_peer_tls("server");
        weir_test_begin_real(1);
        begin_with(&config);
        weir_tls_unref(config.tls);
        snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
        for (int i = 0; i < 3; i++) {
                struct seen seen = {0};

                start(weir_client_request_new(client, "GET", url, see, &seen));
                if (i == 0)
                        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, context));
                HAS(http_peer_request(&peer), "GET / HTTP/1.1\r\n");
                http_peer_send(&peer, OK_WORD);
                wait_for(&seen);
                SEES(seen, 0, 200, "word");
        }
        CU_ASSERT_EQUAL(stats().reused, 2);
        end();
        SSL_CTX_free(context);
        tls_files_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_get_is_a_line_and_few_fields),
                WEIR_TEST(methods_go_out_as_they_are),
                WEIR_TEST(fields_are_set_and_added),
                WEIR_TEST(a_program_may_choose_the_codings),
                WEIR_TEST(a_range_is_asked_for_without_coding),
                WEIR_TEST(userinfo_becomes_a_field_and_is_shown_nowhere),
                WEIR_TEST(settings_of_a_client_choose_fields),
                WEIR_TEST(bodies_are_copied_lent_and_of_files),
                WEIR_TEST(a_large_body_goes_out_as_the_server_takes_it),
                WEIR_TEST(the_last_body_counts),
                WEIR_TEST(a_body_without_a_type_leaves_the_field),
                WEIR_TEST(responses_end_where_they_say),
                WEIR_TEST(fields_and_the_body_are_read_and_taken),
                WEIR_TEST(other_tasks_have_no_response),
                WEIR_TEST(codings_are_taken_off),
                WEIR_TEST(https_is_the_same_and_kept),
        };

        return weir_test_main("client", tests, sizeof tests / sizeof *tests);
}
