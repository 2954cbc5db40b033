/* test/client_refused_test.c: the client of HTTP where a program asks for what cannot be, and where no connection can be made. */
#include <weir/log.h>
#include <weir/resolve.h>
#include <weir/runtime.h>

#include "test/client_fixture.h"
#include "test/dns_server.h"

#define HEAD_OK "HTTP/1.1 200 OK\r\n"

/* -- what is refused at the start -- */

static void
what_cannot_be_asked_is_refused_at_the_start(void)
{
        static const char *const methods[] = {"", "G ET", "GET\r\n", "G\tET", "GET\x7f", "G@T", "CONNECT", "\xc3\xa4"};
        static const char *const urls[] = {"",
                                           "127.0.0.1",
                                           "/path",
                                           "ftp://127.0.0.1/",
                                           "http://",
                                           "http:///",
                                           "http://127.0.0.1:0/",
                                           "http://127.0.0.1:65536/",
                                           "http://127.0.0.1:x/",
                                           "http://127.0.0.1/a b",
                                           "http://127.0.0.1/a\r\nX: y",
                                           "http://127.0.0.1/\t",
                                           "http://127.0.0.1/%0",
                                           "http://\xc3\xa4.example/",
                                           "http://[::1/"};

        begin(NULL);
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(client, methods[i], url_of("/"), NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(client, NULL, url_of("/"), NULL, NULL)), -EINVAL);
        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(client, "GET", urls[i], NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(client, "GET", NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(NULL, "GET", url_of("/"), NULL, NULL)), -ENOMEM);
        CU_ASSERT_FALSE(http_peer_has_caller(listener));
        end();
}

static char logged[512];

static void
keep(enum weir_log_level level, const char *text, void *context)
{
        (void)level, (void)context;
        snprintf(logged, sizeof logged, "%s", text);
}

/* The log says where, and shows no secret; test/url_test.c has other places. */
static void
a_bad_url_is_told_with_its_place(void)
{
        begin(NULL);
        CU_ASSERT_EQUAL(weir_log_set(keep, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_start(request_new("G ET", "/", NULL)), -EINVAL);
        HAS(logged, "the method: expected a token");
        weir_task *get = weir_client_request_new(client, "GET", "http://user:secret@127.0.0.1/a b", NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_start(get), -EINVAL);
        HAS(logged, "the URL, at byte 30");
        HAS_NOT(logged, "secret");
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        end();
}

static void
changes_that_cannot_be_are_refused(void)
{
        static const struct {
                const char *name, *value;
        } fields[] = {{"", "x"},
                      {"A B", "x"},
                      {"A:", "x"},
                      {"A\r\n", "x"},
                      {"A", "x\r\nB: y"},
                      {"A", "x\ny"},
                      {"A", "x\ry"},
                      {"A", "x\001"},
                      {NULL, "x"},
                      {"A", NULL},
                      {"Connection", "x"},
                      {"connection", "x"},
                      {"TE", "trailers"},
                      {"Keep-Alive", "x"},
                      {"Upgrade", "x"},
                      {"Expect", "100-continue"},
                      {"Trailer", "X"},
                      {"Content-Length", "1"},
                      {"Transfer-Encoding", "chunked"}};

        begin(NULL);
        for (size_t i = 0; i < 2 * (sizeof fields / sizeof *fields); i++) {
                weir_task *request = request_new("GET", "/", NULL);
                int r = i % 2 ? weir_http_request_set_header(request, fields[i / 2].name, fields[i / 2].value)
                              : weir_http_request_add_header(request, fields[i / 2].name, fields[i / 2].value);

                CU_ASSERT_EQUAL(r, -EINVAL);
                CU_ASSERT_EQUAL(weir_task_start(request), -EINVAL);
        }
        weir_task *request = request_new("POST", "/", NULL);
        CU_ASSERT_EQUAL(weir_http_request_set_body(request, NULL, 1, NULL), -EINVAL);
        weir_task_dismiss(request);
        request = request_new("POST", "/", NULL);
        CU_ASSERT_EQUAL(weir_http_request_lend_body(request, "x", 1, "a\nb"), -EINVAL);
        weir_task_dismiss(request);
        request = request_new("POST", "/", NULL);
        CU_ASSERT_EQUAL(weir_http_request_set_body_file(request, -1, 0, 1, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(request), -EINVAL);
        int pipes[2]; /* what has no size of its own has no "all": an empty body would look like it */
        CU_ASSERT_EQUAL(pipe(pipes), 0);
        CU_ASSERT_EQUAL(write(pipes[1], "body", 4), 4);
        request = request_new("POST", "/", NULL);
        CU_ASSERT_EQUAL(weir_http_request_set_body_file(request, pipes[0], 0, UINT64_MAX, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(request), -EINVAL);
        close(pipes[0]);
        close(pipes[1]);
        request = request_new("POST", "/", NULL);
        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, (enum weir_http_limit)99, 1), -EINVAL);
        weir_task_dismiss(request);
        CU_ASSERT_FALSE(http_peer_has_caller(listener));
        end();
}

static void
settings_that_cannot_be_are_refused(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.size--;
        CU_ASSERT_PTR_NULL(weir_client_new(&config));
        CU_ASSERT_EQUAL(errno, EINVAL);
        config.size++;
        config.user_agent = "a\r\nb";
        CU_ASSERT_PTR_NULL(weir_client_new(&config));
        CU_ASSERT_EQUAL(errno, EINVAL);
        config.user_agent = NULL;
        config.idle_limit = -1;
        CU_ASSERT_PTR_NULL(weir_client_new(&config));
        CU_ASSERT_EQUAL(weir_client_stats(NULL, NULL), -EINVAL);
        weir_client_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_client_ref(NULL));
        weir_client_close_idle(NULL);
}

static void
nobody_listens_is_told_in_words(void)
{
        struct seen seen = {0};

        begin(NULL);
        close(listener);
        get("/", &seen);
        WEIR_TEST_EVENTUALLY((settle(), seen.calls));
        SEES(seen, -ECONNREFUSED, 0, "");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_CONNECTING);
        HAS(seen.problem, "refused");
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_EQUAL(stats().failed, 1);
        listener = http_peer_listen(&port);
        end();
}

static void
names_without_addresses_have_codes_of_their_own(void)
{
        static const struct {
                const char *url;
                int status;
                const char *words;
        } rows[] = {{"http://nx.test/", -ENOENT, "no such name \"nx.test\": NXDOMAIN"},
                    {"http://fail.test/", -EIO, "SERVFAIL"},
                    {"http://refused.test/", -EIO, "REFUSED"},
                    {"http://silent.test/", -EAGAIN, "silent.test"}};
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;

        dns_start();
        names.mode = WEIR_RESOLVER_DNS;
        names.servers = dns.servers;
        names.tries = 1;
        begin(NULL);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct seen seen = {0};

                names.timeout = rows[i].status == -EAGAIN ? WEIR_MSEC(50) : WEIR_SEC(100); /* only silence is waited for */
                CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
                start(weir_client_request_new(client, "GET", rows[i].url, see, &seen));
                WEIR_TEST_EVENTUALLY((settle(), seen.calls));
                SEES(seen, rows[i].status, 0, "");
                CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_RESOLVING);
                HAS(seen.problem, rows[i].words);
                HAS(seen.problem, "GET http://");
        }
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        dns_stop();
}

/* -- TLS -- */

static void
ask_https_with(const struct weir_tls_config *settings, SSL_CTX *context, const char *reply, bool cuts, struct seen *seen)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        char url[64];

        config.tls = weir_tls_client_new(settings);
        weir_test_begin_real(1);
        begin_with(&config);
        weir_tls_unref(config.tls);
        snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
        start(weir_client_request_new(client, "GET", url, see, seen));
        if (http_peer_accept(&peer, listener, context) && reply) {
                if (context)
                        (void)http_peer_request(&peer);
                http_peer_send(&peer, reply);
                if (cuts)
                        http_peer_cut(&peer);
                else
                        http_peer_close(&peer);
        }
        if (peer.fd >= 0)
                http_peer_cut(&peer);
        wait_for(seen);
        end();
}

static void
ask_https(SSL_CTX *context, const char *reply, bool cuts, struct seen *seen)
{
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;

        trust.ca_file = tls_path("authority.pem");
        ask_https_with(&trust, context, reply, cuts, seen);
}

static void
faults_of_tls_have_codes_of_their_own(void)
{
        static const struct {
                const char *name;
                struct tls_wish wish;
                int status;
                const char *words;
        } servers[] = {
                {"wrong",
                 {.alternative_names = "DNS:other.example", .issuer = "authority"},
                 WEIR_ETLS_NAME,
                 "the certificate is for \"other.example\""},
                {"expired",
                 {.alternative_names = "IP:127.0.0.1", .issuer = "authority", .begins_in = -9000, .ends_in = -3600},
                 WEIR_ETLS_EXPIRED,
                 "expired at 20"},
                {"self", {.alternative_names = "IP:127.0.0.1"}, WEIR_ETLS_SELF_SIGNED, "is signed by itself"},
                {"stranger",
                 {.alternative_names = "IP:127.0.0.1", .issuer = "unknown"},
                 WEIR_ETLS_UNTRUSTED,
                 "which is not trusted"},
        };

        tls_files_begin();
        tls_make_certificate("authority", &(struct tls_wish){.is_authority = true});
        tls_make_certificate("unknown", &(struct tls_wish){.is_authority = true});
        for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
                struct seen seen = {0};

                tls_make_certificate(servers[i].name, &servers[i].wish);
                SSL_CTX *context = http_peer_tls(servers[i].name);
                ask_https(context, NULL, false, &seen);
                SEES(seen, servers[i].status, 0, "");
                CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_HANDSHAKE);
                HAS(seen.problem, "GET https://127.0.0.1:");
                HAS(seen.problem, servers[i].words);
                SSL_CTX_free(context);
        }
        struct seen seen = {0};
        ask_https(NULL, "HTTP/1.1 400 Bad\r\n\r\n", false, &seen);
        SEES(seen, WEIR_ETLS_PLAIN, 0, "");
        HAS(seen.problem, "the server does not speak TLS");
        tls_files_end();
}

/* The log says which file or pin has the fault. */
static void
settings_of_tls_bind_requests(void)
{
        struct weir_tls_config settings = WEIR_TLS_CONFIG_DEFAULT;
        struct seen unpinned = {0}, faulty = {0}, trusting = {0};

        tls_files_begin();
        tls_make_certificate("authority", &(struct tls_wish){.is_authority = true});
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1", .issuer = "authority"});
        SSL_CTX *context = http_peer_tls("server");
        settings.ca_file = tls_path("authority.pem");
        settings.pins = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        ask_https_with(&settings, context, NULL, false, &unpinned);
        SEES(unpinned, WEIR_ETLS_PIN, 0, "");
        HAS(unpinned.problem, "which is not pinned");
        settings.pins = "sha256/none";
        ask_https_with(&settings, NULL, NULL, false, &faulty);
        SEES(faulty, -EINVAL, 0, "");
        HAS(faulty.problem, "the settings of TLS have a fault");
        settings = (struct weir_tls_config)WEIR_TLS_CONFIG_DEFAULT;
        settings.insecure = true;
        ask_https_with(&settings, context, OK_WORD, false, &trusting);
        SEES(trusting, 0, 200, "word");
        SSL_CTX_free(context);
        tls_files_end();
}

/* With TLS 1.3 the request may be on its way before the server has refused, and then it resets the connection: what it has said
 * before that counts. */
static void
a_server_may_want_a_certificate(void)
{
        struct weir_tls_config settings = WEIR_TLS_CONFIG_DEFAULT;

        tls_files_begin();
        tls_make_certificate("authority", &(struct tls_wish){.is_authority = true});
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1", .issuer = "authority"});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "authority"});
        tls_make_certificate("mallory", &(struct tls_wish){.alternative_names = "DNS:x"});
        for (int i = 0; i < 30; i++) { /* none, one that is refused, a good one; by TLS 1.3 and 1.2 */
                SSL_CTX *context = http_peer_tls("server");
                struct seen seen = {0};

                SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
                CU_ASSERT_EQUAL(SSL_CTX_load_verify_locations(context, tls_path("authority.pem"), NULL), 1);
                CU_ASSERT_EQUAL(SSL_CTX_set_max_proto_version(context, i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION), 1);
                settings.ca_file = tls_path("authority.pem");
                settings.certificate_file = i % 3 ? tls_path(i % 3 == 1 ? "mallory.pem" : "alice.pem") : NULL;
                settings.private_key_file = i % 3 ? tls_path(i % 3 == 1 ? "mallory.key" : "alice.key") : NULL;
                ask_https_with(&settings, context, OK_WORD, false, &seen);
                SEES(seen, i % 3 == 2 ? 0 : WEIR_ETLS_REFUSED, i % 3 == 2 ? 200 : 0, i % 3 == 2 ? "word" : "");
                HAS(seen.problem, i % 3 == 2   ? ""
                                  : i % 2 == 0 ? "refuses the own certificate, or wants one"
                                  : i % 3      ? "refuses the client's certificate"
                                               : "wants a certificate of the client, which has none");
                SSL_CTX_free(context);
        }
        tls_files_end();
}

static void
a_record_that_is_none_is_a_fault_of_tls(void)
{
        tls_files_begin();
        tls_make_certificate("authority", &(struct tls_wish){.is_authority = true});
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1", .issuer = "authority"});
        SSL_CTX *context = http_peer_tls("server");
        for (int i = 0; i < 2; i++) { /* before the response, and in the middle */
                struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                char url[64];

                trust.ca_file = tls_path("authority.pem");
                config.tls = weir_tls_client_new(&trust);
                weir_test_begin_real(1);
                begin_with(&config);
                weir_tls_unref(config.tls);
                snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
                start(weir_client_request_new(client, "GET", url, see, &seen));
                CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, context));
                (void)http_peer_request(&peer);
                if (i)
                        http_peer_send(&peer, HEAD_OK "Content-Length: 100\r\n\r\npart");
                CU_ASSERT_EQUAL(send(peer.fd, "nonsense", 8, MSG_NOSIGNAL), 8);
                wait_for(&seen);
                SEES(seen, -EPROTO, i ? 200 : 0, i ? "part" : "");
                HAS(seen.problem, weir_strerror(-EPROTO));
                end();
        }
        SSL_CTX_free(context);
        tls_files_end();
}

static void
an_end_of_tls_without_a_word_is_no_end_of_a_body(void)
{
        tls_files_begin();
        tls_make_certificate("authority", &(struct tls_wish){.is_authority = true});
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1", .issuer = "authority"});
        SSL_CTX *context = http_peer_tls("server");
        for (int i = 0; i < 4; i++) {
                struct seen seen = {0};

                ask_https(context, i < 2 ? HEAD_OK "\r\npart" : OK_WORD, i % 2, &seen);
                SEES(seen, i == 1 ? -ECONNABORTED : 0, 200, i < 2 ? "part" : "word");
        }
        SSL_CTX_free(context);
        tls_files_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_bad_url_is_told_with_its_place), /* first: the log has a limit for each place */
                WEIR_TEST(what_cannot_be_asked_is_refused_at_the_start),
                WEIR_TEST(changes_that_cannot_be_are_refused),
                WEIR_TEST(settings_that_cannot_be_are_refused),
                WEIR_TEST(nobody_listens_is_told_in_words),
                WEIR_TEST(names_without_addresses_have_codes_of_their_own),
                WEIR_TEST(faults_of_tls_have_codes_of_their_own),
                WEIR_TEST(settings_of_tls_bind_requests),
                WEIR_TEST(a_server_may_want_a_certificate),
                WEIR_TEST(a_record_that_is_none_is_a_fault_of_tls),
                WEIR_TEST(an_end_of_tls_without_a_word_is_no_end_of_a_body),
        };

        weir_log_set(NULL, NULL);
        return weir_test_main("client_refused", tests, sizeof tests / sizeof *tests);
}
