/* test/client_proxy_test.c: the client of HTTP through proxies that the test plays: CONNECT, absolute form, SOCKS5, TLS. */
#include <signal.h>
#include <stdlib.h>

#include <openssl/bio.h>

#include <weir/http_call.h>
#include <weir/log.h>
#include <weir/upstream.h>

#include "client/tunnel/proxies.h"
#include "test/client_fixture.h"

#define OPENED "HTTP/1.1 200 Connection established\r\n\r\n"
#define SECRET "sesame"
#define BASIC  "Basic dTpzZXNhbWU=" /* u:sesame */

static char proxy_text[128], logged[8192]; /* the log's is read when nobody is busy */
static SSL_CTX *server_tls;
static weir_tls *trust;

static void
note_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)context;
        strncat(logged, message, sizeof logged - strlen(logged) - 1);
        strncat(logged, "\n", sizeof logged - strlen(logged) - 1);
}

/* Everything that people see is free of the password. */
static void
keeps_secret(const struct seen *seen)
{
        HAS_NOT(seen->problem, SECRET);
        HAS_NOT(seen->problem, "dTpzZXNhbWU");
        HAS_NOT(logged, SECRET);
        HAS_NOT(logged, "dTpzZXNhbWU");
}

/* The settings of TLS are given up by `over`. */
static void
begin_by(const char *scheme, const char *user, struct weir_client_config *config)
{
        struct weir_tls_config trusting = WEIR_TLS_CONFIG_DEFAULT;

        tls_files_begin();
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example,DNS:other.example,IP:127.0.0.1"});
        server_tls = http_peer_tls("server");
        trusting.ca_file = tls_path("server.pem");
        trust = weir_tls_client_new(&trusting);
        logged[0] = '\0';
        weir_log_set(note_log, NULL);
        weir_test_begin_virtual();
        listener = http_peer_listen(&port);
        peer = (struct http_peer){.fd = -1};
        snprintf(proxy_text, sizeof proxy_text, "%s://%s127.0.0.1:%d", scheme, user, port);
        config->proxy = config->proxy_from_environment ? NULL : proxy_text;
        config->tls = config->proxy_tls = trust;
        client = weir_client_new(config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
}

static void
begin_proxied(const char *scheme, const char *user)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        begin_by(scheme, user, &config);
}

static void
over(void)
{
        end();
        weir_log_set(NULL, NULL);
        weir_tls_unref(trust);
        SSL_CTX_free(server_tls);
        tls_files_end();
}

static void
ask_url(const char *url, struct seen *seen)
{
        start(weir_client_request_new(client, "GET", url, see, seen));
}

/* The server behind the tunnel begins to speak TLS. */
static bool
secure(struct http_peer *at)
{
        at->tls = SSL_new(server_tls);
        SSL_set_fd(at->tls, at->fd);
        return SSL_accept(at->tls) == 1;
}

/* The same within the TLS to the proxy. */
static bool
secure_within(struct http_peer *at)
{
        BIO *outer = BIO_new(BIO_f_ssl());

        BIO_set_ssl(outer, at->tls, BIO_CLOSE);
        at->tls = SSL_new(server_tls);
        SSL_set_bio(at->tls, outer, outer);
        return SSL_accept(at->tls) == 1;
}

static void
wait_settled(struct seen *seen)
{
        WEIR_TEST_EVENTUALLY((settle(), seen->calls));
}

/* -- absolute form -- */

static void
http_goes_to_the_proxy_in_absolute_form(void)
{
        struct seen one = {0}, two = {0}, three = {0};

        begin_proxied("http", "u:" SECRET "@");
        ask_url("http://server.example/a?b=c", &one);
        const char *sent = accept_request();
        HAS(sent, "GET http://server.example/a?b=c HTTP/1.1\r\nHost: server.example\r\n");
        HAS(sent, "\r\nProxy-Authorization: " BASIC "\r\n");
        http_peer_send(&peer, OK_WORD);
        wait_for(&one);
        SEES(one, 0, 200, "word");
        CU_ASSERT_STRING_EQUAL(one.url, "http://server.example/a?b=c");
        ask_url("http://other.example:81", &two);
        HAS(http_peer_request(&peer), "GET http://other.example:81/ HTTP/1.1\r\nHost: other.example:81\r\n");
        http_peer_send(&peer, "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
        wait_for(&two);
        SEES(two, 0, 407, "");
        CU_ASSERT_EQUAL(stats().reused, 1);
        ask_url("http://third.example/", &three);
        (void)http_peer_request(&peer);
        http_peer_send(&peer, "nonsense\r\n\r\n");
        wait_for(&three);
        SEES(three, -EBADMSG, 0, "");
        keeps_secret(&three);
        over();
}

/* What the program says itself goes before; a server that is reached otherwise does not see it. */
static void
a_field_of_the_program_goes_to_the_proxy_only(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen plain = {0}, direct = {0}, secured = {0};
        const char *sent;

        config.no_proxy = "127.0.0.1";
        begin_by("http", "u:" SECRET "@", &config);
        const char *urls[] = {"http://server.example/", url_of("/"), "https://server.example/"};
        struct seen *seen[] = {&plain, &direct, &secured};
        for (int i = 0; i < 3; i++) {
                weir_task *request = weir_client_request_new(client, "GET", urls[i], see, seen[i]);

                CU_ASSERT_EQUAL(weir_http_request_set_header(request, "Proxy-Authorization", "Mine"), 0);
                start(request);
                sent = accept_request();
                if (i == 2) {
                        HAS(sent, "Proxy-Authorization: " BASIC "\r\n");
                        HAS_NOT(sent, "Mine");
                        http_peer_send(&peer, OPENED);
                        CU_ASSERT_TRUE_FATAL(secure(&peer));
                        sent = http_peer_request(&peer);
                }
                CU_ASSERT_EQUAL(strstr(sent, "Mine") != NULL, i == 0);
                HAS_NOT(sent, BASIC);
                http_peer_send(&peer, OK_CLOSES);
                http_peer_close(&peer);
                wait_settled(seen[i]);
                SEES(*seen[i], 0, 200, "word");
        }
        over();
}

/* -- CONNECT -- */

static void
https_goes_through_a_tunnel(void)
{
        struct seen one = {0}, two = {0}, other = {0};
        struct http_peer first;

        begin_proxied("http", "u:" SECRET "@");
        ask_url("https://server.example/a", &one);
        const char *sent = accept_request();
        CU_ASSERT_STRING_EQUAL(sent, "CONNECT server.example:443 HTTP/1.1\r\nHost: server.example:443\r\n"
                                     "Proxy-Authorization: " BASIC "\r\n\r\n");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure(&peer));
        CU_ASSERT_STRING_EQUAL(SSL_get_servername(peer.tls, TLSEXT_NAMETYPE_host_name), "server.example");
        sent = http_peer_request(&peer);
        HAS(sent, "GET /a HTTP/1.1\r\nHost: server.example\r\n");
        HAS_NOT(sent, "Proxy");
        http_peer_send(&peer, OK_WORD);
        wait_for(&one);
        SEES(one, 0, 200, "word");
        ask_url("https://server.example/b", &two);
        HAS(http_peer_request(&peer), "GET /b HTTP/1.1\r\n");
        http_peer_send(&peer, OK_WORD);
        wait_for(&two);
        SEES(two, 0, 200, "word");
        first = peer;
        ask_url("https://other.example/", &other);
        HAS(accept_request(), "CONNECT other.example:443 ");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure(&peer));
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        wait_for(&other);
        SEES(other, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().connections, 2);
        CU_ASSERT_EQUAL(stats().reused, 1);
        http_peer_close(&first);
        over();
}

/* A session is resumed through the tunnel, too. */
static void
sessions_of_tls_are_resumed(void)
{
        begin_proxied("http", "");
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};

                ask_url("https://server.example/", &seen);
                (void)accept_request();
                http_peer_send(&peer, OPENED);
                CU_ASSERT_TRUE_FATAL(secure(&peer));
                CU_ASSERT_EQUAL(SSL_session_reused(peer.tls), i);
                (void)http_peer_request(&peer);
                http_peer_send(&peer, OK_CLOSES);
                wait_settled(&seen);
                SEES(seen, 0, 200, "word");
                http_peer_close(&peer);
        }
        over();
}

static void
an_answer_may_come_slowly_and_behind_others(void)
{
        static const char *const answers[] = {
                OPENED, "HTTP/1.0 299\r\nContent-Length: 7\r\nX: y\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"};

        begin_proxied("http", "");
        for (size_t i = 0; i < 2 * (sizeof answers / sizeof *answers); i++) {
                struct seen seen = {0};

                ask_url("https://server.example/", &seen);
                HAS_NOT(accept_request(), "Proxy-");
                if (i % 2)
                        send_slowly(answers[i / 2]);
                else
                        http_peer_send(&peer, answers[i / 2]);
                CU_ASSERT_TRUE_FATAL(secure(&peer));
                (void)http_peer_request(&peer);
                http_peer_send(&peer, OK_CLOSES);
                wait_settled(&seen);
                SEES(seen, 0, 200, "word");
                http_peer_close(&peer);
        }
        over();
}

static void
refusals_have_codes_and_words(void)
{
        static const struct {
                const char *answer, *words;
                int status;
        } answers[] = {
                {"HTTP/1.1 403 Forbidden\r\n\r\n", "refused CONNECT server.example:443: 403 Forbidden", -EACCES},
                {"HTTP/1.1 407 Proxy\tlogin \xff\r\nProxy-Authenticate: Basic\r\n\r\nbody", ": 407 Proxy?login ?", -EACCES},
                {"HTTP/1.1 401\r\nContent-Length: 3\r\n\r\nabc", ": 401", -EACCES},
                {"HTTP/1.1 502 Bad Gateway\r\n\r\n", ": 502 Bad Gateway", -ECONNREFUSED},
                {"HTTP/1.0 302 Found\r\nLocation: http://x/\r\n\r\n", ": 302 Found", -ECONNREFUSED},
                {"HTTP/1.1 101 Switch\r\n\r\n", "no valid head", -EBADMSG},
                {"HTTP/1.1 200 OK\n\n", "no valid head", -EBADMSG},
                {"SSH-2.0-x\r\n\r\n", "no valid head", -EBADMSG},
                {"HTTP/1.1 2000 OK\r\n\r\n", "no valid head", -EBADMSG},
                {OPENED "x", "bytes behind", -EBADMSG},
                {"HTTP/1.1 100 C\r\n\r\n", "closed the connection", -ECONNRESET},
                {"HTTP/1.1 20", "closed the connection", -ECONNRESET},
                {"", "closed the connection", -ECONNRESET},
        };

        begin_proxied("http", "u:" SECRET "@");
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
                struct seen seen = {0};
                char name[64];

                ask_url("https://server.example/", &seen);
                (void)accept_request();
                http_peer_send(&peer, answers[i].answer);
                http_peer_finish(&peer);
                wait_settled(&seen);
                SEES(seen, answers[i].status, 0, "");
                CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_PROXY);
                snprintf(name, sizeof name, "GET https://server.example/: the proxy http://127.0.0.1:%d ", port);
                CU_ASSERT_NSTRING_EQUAL(seen.problem, name, strlen(name));
                HAS(seen.problem, answers[i].words);
                keeps_secret(&seen);
                http_peer_close(&peer);
        }
        CU_ASSERT_EQUAL(stats().connections, 0);
        over();
}

static void
an_endless_answer_is_bounded(void)
{
        static const char *const parts[] = {"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
                                            "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
                                            "\r\nHTTP/1.1 100 Continue\r\n"};
        static const char *const begins[] = {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 100 C\r\n"};

        begin_proxied("http", "");
        for (int i = 0; i < 3; i++) {
                struct seen seen = {0};

                ask_url("https://server.example/", &seen);
                (void)accept_request();
                http_peer_send(&peer, begins[i]);
                for (int j = 0; j < 1000 && !seen.calls && http_peer_send(&peer, parts[i]); j++)
                        if (j % 50 == 0)
                                settle();
                wait_settled(&seen);
                SEES(seen, -EMSGSIZE, 0, "");
                HAS(seen.problem, "too large");
                http_peer_close(&peer);
        }
        over();
}

static void
a_reset_and_a_fault_of_tls_behind_the_proxy(void)
{
        struct seen seen = {0}, wrong = {0};

        begin_proxied("http", "");
        ask_url("https://server.example/", &seen);
        (void)accept_request();
        http_peer_reset(&peer);
        wait_settled(&seen);
        SEES(seen, -ECONNRESET, 0, "");
        HAS(seen.problem, "closed the connection, when it was asked for server.example:443");
        ask_url("https://wrong.example/", &wrong);
        (void)accept_request();
        http_peer_send(&peer, OPENED);
        CU_ASSERT_FALSE(secure(&peer) && http_peer_request(&peer)[0] != '<');
        wait_settled(&wrong);
        CU_ASSERT_EQUAL(wrong.status, WEIR_ETLS_NAME);
        CU_ASSERT_EQUAL(wrong.stage, WEIR_HTTP_HANDSHAKE);
        over();
}

static void
a_proxy_that_cannot_be_reached_is_named(void)
{
        struct seen seen = {0};
        char name[64];

        begin_proxied("http", "u:" SECRET "@");
        close(listener);
        ask_url("https://server.example/", &seen);
        wait_settled(&seen);
        SEES(seen, -ECONNREFUSED, 0, "");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_CONNECTING);
        snprintf(name, sizeof name, ": the proxy http://127.0.0.1:%d: ", port);
        HAS(seen.problem, name);
        keeps_secret(&seen);
        listener = http_peer_listen(&port);
        over();
}

/* -- limits and cancels -- */

#define LIMIT WEIR_SEC(3)

static void
each_stage_has_its_limit(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        static const char *const schemes[] = {"http", "socks5", "https"};

        config.proxy_limit = LIMIT;
        config.handshake_limit = 2 * LIMIT;
        for (int i = 0; i < 3; i++) {
                struct seen early = {0}, late = {0}, whole = {0}, shaking = {0};
                bool is_secure = i == 2;

                begin_by(schemes[i], "", &config);
                weir_nsec began = weir_now();
                ask_url("https://server.example/", &early);
                CU_ASSERT_TRUE(http_peer_accept(&peer, listener, is_secure ? server_tls : NULL));
                settle();
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_EQUAL(early.calls, 0);
                weir_test_pass(1);
                wait_settled(&early);
                SEES(early, -ETIMEDOUT, 0, "");
                CU_ASSERT_EQUAL(early.at - began, LIMIT);
                CU_ASSERT_EQUAL(early.stage, WEIR_HTTP_PROXY);
                HAS(early.problem, "was too late with its answer");
                http_peer_close(&peer);

                /* Bytes that come do not prolong it. */
                began = weir_now();
                ask_url("https://server.example/", &late);
                CU_ASSERT_TRUE(http_peer_accept(&peer, listener, is_secure ? server_tls : NULL));
                settle();
                weir_test_pass(LIMIT - 1);
                http_peer_send_bytes(&peer, i == 1 ? "\005" : "H", 1);
                settle();
                CU_ASSERT_EQUAL(late.calls, 0);
                weir_test_pass(1);
                wait_settled(&late);
                CU_ASSERT_EQUAL(late.at - began, LIMIT);
                http_peer_close(&peer);

                began = weir_now();
                weir_task *request = weir_client_request_new(client, "GET", "https://server.example/", see, &whole);
                CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, LIMIT / 2), 0);
                start(request);
                CU_ASSERT_TRUE(http_peer_accept(&peer, listener, is_secure ? server_tls : NULL));
                settle();
                weir_test_pass(LIMIT / 2);
                wait_settled(&whole);
                SEES(whole, -ETIMEDOUT, 0, "");
                CU_ASSERT_EQUAL(whole.at - began, LIMIT / 2);
                CU_ASSERT_EQUAL(whole.stage, WEIR_HTTP_PROXY);
                HAS(whole.problem, "too late while the proxy opened the way");
                http_peer_close(&peer);

                if (i == 0) {
                        ask_url("https://server.example/", &shaking);
                        (void)accept_request();
                        http_peer_send(&peer, OPENED);
                        settle();
                        began = weir_now();
                        weir_test_pass(2 * LIMIT);
                        wait_settled(&shaking);
                        SEES(shaking, -ETIMEDOUT, 0, "");
                        CU_ASSERT_EQUAL(shaking.at - began, 2 * LIMIT);
                        CU_ASSERT_EQUAL(shaking.stage, WEIR_HTTP_HANDSHAKE);
                        HAS(shaking.problem, "server.example:443");
                }
                over();
        }
}

static void
the_handshake_with_a_proxy_is_a_part_of_its_way(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0}, plain = {0};

        config.handshake_limit = LIMIT;
        begin_by("https", "", &config);
        ask_url("https://server.example/", &seen);
        (void)http_peer_accept(&peer, listener, NULL);
        settle();
        weir_test_pass(LIMIT);
        wait_settled(&seen);
        SEES(seen, -ETIMEDOUT, 0, "");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_PROXY);
        HAS(seen.problem, "the proxy https://127.0.0.1");
        http_peer_close(&peer);
        ask_url("http://server.example/", &plain);
        (void)http_peer_accept(&peer, listener, NULL);
        http_peer_send(&peer, "HTTP/1.1 400 Plain\r\n\r\n");
        wait_settled(&plain);
        SEES(plain, WEIR_ETLS_PLAIN, 0, "");
        HAS(plain.problem, "the proxy https://127.0.0.1");
        over();
}

/* How far the proxy and the server go before the cancel. */
enum { ACCEPTED, ASKED, HALF, OPEN, SHAKEN, STEPS };

static void
a_cancel_closes_the_way(void)
{
        for (int step = ACCEPTED; step < STEPS; step++)
                for (int is_socks = 0; is_socks < 2; is_socks++) {
                        struct seen seen = {0};

                        begin_proxied(is_socks ? "socks5" : "http", "");
                        weir_series *series = start_in_series(
                                weir_client_request_new(client, "GET", "https://server.example/", see, &seen));
                        (void)http_peer_accept(&peer, listener, NULL);
                        if (step >= ASKED)
                                (void)http_peer_sees(&peer);
                        if (step >= HALF)
                                http_peer_send_bytes(&peer, is_socks ? "\005\000" : "HT", 2);
                        if (step >= HALF && is_socks)
                                (void)http_peer_sees(&peer);
                        if (step >= OPEN && is_socks)
                                http_peer_send_bytes(&peer, "\005\000\000\001\000\000\000\000\000\000", 10);
                        else if (step >= OPEN)
                                http_peer_send(&peer, &OPENED[2]);
                        if (step >= SHAKEN)
                                CU_ASSERT_TRUE(secure(&peer));
                        settle();
                        weir_series_cancel(series);
                        wait_settled(&seen);
                        SEES(seen, -ECANCELED, 0, "");
                        CU_ASSERT_EQUAL(http_peer_ends(&peer)[0], '<');
                        WEIR_TEST_EVENTUALLY((settle(), stats().connections == 0));
                        weir_series_unref(series);
                        over();
                }
}

/* -- SOCKS5 -- */

/* What the client sends next, which is just that. */
static void
says(const char *expected, size_t size)
{
        char bytes[600];
        size_t have = 0;

        while (have < size) {
                ssize_t got = recv(peer.fd, bytes + have, size - have, 0);

                if (got <= 0)
                        break;
                have += (size_t)got;
        }
        CU_ASSERT_EQUAL(have, size);
        CU_ASSERT_EQUAL(memcmp(bytes, expected, have), 0);
        settle();
        CU_ASSERT_STRING_EQUAL(http_peer_has(&peer), "");
}

#define SAYS(literal)  says(literal, sizeof(literal) - 1)
#define SENDS(literal) CU_ASSERT_TRUE(http_peer_send_bytes(&peer, literal, sizeof(literal) - 1))

static void
socks_is_asked_for_names_and_addresses(void)
{
        struct seen named = {0}, v4 = {0}, v6 = {0};

        begin_proxied("socks5", "");
        ask_url("http://server.example/a", &named);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\001\000");
        SENDS("\005\000");
        SAYS("\005\001\000\003\016server.example\000\120");
        SENDS("\005\000\000\003\003abc\000\000");
        HAS(http_peer_request(&peer), "GET /a HTTP/1.1\r\nHost: server.example\r\n");
        http_peer_send(&peer, OK_CLOSES);
        wait_settled(&named);
        SEES(named, 0, 200, "word");
        http_peer_close(&peer);

        ask_url("http://192.0.2.7:8080/", &v4);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\001\000");
        SENDS("\005\000");
        SAYS("\005\001\000\001\300\000\002\007\037\220");
        SENDS("\005\000\000\004\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000");
        HAS(http_peer_request(&peer), "GET / HTTP/1.1\r\n");
        http_peer_send(&peer, OK_CLOSES);
        wait_settled(&v4);
        SEES(v4, 0, 200, "word");
        http_peer_close(&peer);

        ask_url("https://[2001:db8::1]/", &v6);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\001\000");
        SENDS("\005\000");
        SAYS("\005\001\000\004\040\001\015\270\000\000\000\000\000\000\000\000\000\000\000\001\001\273");
        SENDS("\005\000\000\001\000\000\000\000\000\000");
        CU_ASSERT_FALSE(secure(&peer) && http_peer_request(&peer)[0] != '<');
        wait_settled(&v6);
        SEES(v6, WEIR_ETLS_NAME, 0, "");
        over();
}

static void
socks_is_shown_a_user(void)
{
        struct seen seen = {0};

        begin_proxied("socks5h", "u%3a:" SECRET "@");
        ask_url("http://server.example/", &seen);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\002\000\002");
        send_slowly("\005\002");
        SAYS("\001\002u:\006" SECRET);
        SENDS("\001");
        settle();
        SENDS("\000");
        SAYS("\005\001\000\003\016server.example\000\120");
        for (int i = 0; i < 10; i++) {
                http_peer_send_bytes(&peer, &"\005\000\000\001\001\002\003\004\000\000"[i], 1);
                settle();
        }
        HAS(http_peer_request(&peer), "GET / HTTP/1.1\r\n");
        http_peer_send(&peer, OK_WORD);
        wait_for(&seen);
        SEES(seen, 0, 200, "word");
        over();
}

/* What the server says at once stays in the socket: nobody has asked for it, so the connection is not used. */
static void
no_byte_behind_the_reply_is_taken(void)
{
        struct seen seen = {0};

        begin_proxied("socks5", "");
        ask_url("http://server.example/", &seen);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\001\000");
        SENDS("\005\000");
        (void)http_peer_sees(&peer);
        SENDS("\005\000\000\001\000\000\000\000\000\000HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nword");
        wait_settled(&seen);
        CU_ASSERT(seen.status == 0 || seen.status == -EPROTO);
        over();
}

static void
refusals_of_socks_have_codes_and_words(void)
{
        static const struct {
                const char *method, *user, *reply;
                int status;
                const char *words;
        } cases[] = {
                {"\005\377", NULL, NULL, -EACCES, "another proof"},
                {"\005\001", NULL, NULL, -EBADMSG, "not SOCKS5"},
                {"\004\000", NULL, NULL, -EBADMSG, "not SOCKS5"},
                {"HT", NULL, NULL, -EBADMSG, "not SOCKS5"},
                {"\005\002", "\001\001", NULL, -EACCES, "refused the user"},
                {"\005\002", "\005\000", NULL, -EBADMSG, "not SOCKS5"},
                {"\005\002", "\001\000", "\005\001\000\001\000", -ECONNREFUSED, "failed (reply 1)"},
                {"\005\000", NULL, "\005\002\000\001\000", -EACCES, "forbid"},
                {"\005\000", NULL, "\005\003\000\001\000", -ENETUNREACH, "network"},
                {"\005\000", NULL, "\005\004\000\001\000", -EHOSTUNREACH, "host"},
                {"\005\000", NULL, "\005\005\000\001\000", -ECONNREFUSED, "refused server.example:80: the server has refused"},
                {"\005\000", NULL, "\005\006\000\001\000", -EHOSTUNREACH, "too long"},
                {"\005\000", NULL, "\005\007\000\001\000", -ECONNREFUSED, "does not make"},
                {"\005\000", NULL, "\005\010\000\001\000", -ECONNREFUSED, "kind of address"},
                {"\005\000", NULL, "\005\377\000\001\000", -ECONNREFUSED, "(reply 255)"},
                {"\005\000", NULL, "\004\000\000\001\000", -EBADMSG, "not SOCKS5"},
                {"\005\000", NULL, "\005\000\001\001\000", -EBADMSG, "not SOCKS5"},
                {"\005\000", NULL, "\005\000\000\002\000", -EBADMSG, "not SOCKS5"},
                {"\005\000", NULL, "", -ECONNRESET, "closed the connection"},
        };

        begin_proxied("socks5", "u:" SECRET "@");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct seen seen = {0};

                ask_url("http://server.example/", &seen);
                (void)http_peer_accept(&peer, listener, NULL);
                SAYS("\005\002\000\002");
                http_peer_send_bytes(&peer, cases[i].method, 2);
                if (cases[i].user) {
                        SAYS("\001\001u\006" SECRET);
                        http_peer_send_bytes(&peer, cases[i].user, 2);
                }
                if (cases[i].reply) {
                        SAYS("\005\001\000\003\016server.example\000\120");
                        http_peer_send_bytes(&peer, cases[i].reply, cases[i].reply[0] ? 5 : 0);
                }
                http_peer_finish(&peer);
                wait_settled(&seen);
                SEES(seen, cases[i].status, 0, "");
                CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_PROXY);
                HAS(seen.problem, "the proxy socks5://127.0.0.1:");
                HAS(seen.problem, cases[i].words);
                keeps_secret(&seen);
                http_peer_close(&peer);
        }
        over();
}

/* -- TLS to the proxy -- */

static void
a_proxy_may_speak_tls(void)
{
        struct seen plain = {0}, secured = {0};
        size_t size = (size_t)3 << 20;
        char *large = malloc(size + 1), head[128];

        begin_proxied("https", "u:" SECRET "@");
        ask_url("http://server.example/", &plain);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, server_tls));
        const char *sent = http_peer_request(&peer);
        HAS(sent, "GET http://server.example/ HTTP/1.1\r\n");
        HAS(sent, BASIC);
        http_peer_send(&peer, OK_CLOSES);
        wait_settled(&plain);
        SEES(plain, 0, 200, "word");
        http_peer_close(&peer);

        memset(large, 'x', size);
        large[size] = '\0';
        weir_task *request = weir_client_request_new(client, "POST", "https://server.example/", see, &secured);
        CU_ASSERT_EQUAL(weir_http_request_set_body(request, large, size, NULL), 0);
        start(request);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, server_tls));
        HAS(http_peer_request(&peer), "CONNECT server.example:443 ");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure_within(&peer));
        sent = http_peer_request(&peer);
        HAS_NOT(sent, "Proxy-");
        HAS(sent, "\r\n\r\nxxx");
        CU_ASSERT_TRUE(strlen(sent) > size);
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
        http_peer_send(&peer, head);
        CU_ASSERT_TRUE(http_peer_send_bytes(&peer, large, size));
        wait_for(&secured);
        CU_ASSERT_EQUAL(secured.status, 0);
        CU_ASSERT_EQUAL(secured.size, size);
        free(large);
        over();
}

/* -- ways -- */

static void
ways_to_one_host_are_kept_apart(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen direct = {0}, proxied = {0}, secured = {0};
        struct http_peer first, second;

        config.no_proxy = "127.0.0.0/8";
        begin_by("http", "", &config);
        ask_url(url_of("/"), &direct);
        HAS(accept_request(), "GET / HTTP/1.1\r\n");
        http_peer_send(&peer, OK_WORD);
        wait_for(&direct);
        first = peer;
        ask_url("http://server.example/", &proxied);
        HAS(accept_request(), "GET http://server.example/ ");
        http_peer_send(&peer, OK_WORD);
        wait_for(&proxied);
        second = peer;
        ask_url("https://server.example:80/", &secured);
        HAS(accept_request(), "CONNECT server.example:80 ");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure(&peer));
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        wait_for(&secured);
        CU_ASSERT_EQUAL(stats().connections, 3);
        CU_ASSERT_EQUAL(stats().reused, 0);
        http_peer_close(&first);
        http_peer_close(&second);
        over();
}

/* It is asked directly, and one address is then two places. */
static void
members_of_upstreams_need_no_proxy(void)
{
        struct seen direct = {0}, proxied = {0};
        struct http_peer first;
        char member[64];

        begin_proxied("socks5", "");
        weir_upstream *upstream = weir_upstream_new("backend", NULL);
        snprintf(member, sizeof member, "127.0.0.1:%d", port);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, member, NULL), 0);
        ask_url("http://backend/", &direct);
        HAS(accept_request(), "GET / HTTP/1.1\r\n");
        http_peer_send(&peer, OK_WORD);
        wait_for(&direct);
        SEES(direct, 0, 200, "word");
        first = peer;
        ask_url(url_of("/"), &proxied);
        (void)http_peer_accept(&peer, listener, NULL);
        SAYS("\005\001\000");
        SENDS("\005\377");
        wait_settled(&proxied);
        SEES(proxied, -EACCES, 0, "");
        http_peer_close(&first);
        weir_upstream_unref(upstream);
        over();
}

static void
a_redirect_finds_its_own_way(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};
        const char *sent;
        char location[512];

        config.redirects = 5;
        config.no_proxy = "127.0.0.1";
        begin_by("http", "u:" SECRET "@", &config);
        ask_url(url_of("/direct"), &seen);
        HAS_NOT(accept_request(), "Proxy-");
        http_peer_send(&peer,
                       "HTTP/1.1 302 F\r\nLocation: http://server.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        http_peer_close(&peer);
        sent = accept_request();
        HAS(sent, "GET http://server.example/ HTTP/1.1\r\n");
        HAS(sent, BASIC);
        snprintf(location, sizeof location,
                 "HTTP/1.1 302 F\r\nLocation: https://server.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        http_peer_send(&peer, location);
        http_peer_close(&peer);
        HAS(accept_request(), "CONNECT server.example:443 ");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure(&peer));
        sent = http_peer_request(&peer);
        HAS(sent, "GET / HTTP/1.1\r\n");
        HAS_NOT(sent, "Proxy-");
        http_peer_send(&peer, OK_WORD);
        wait_for(&seen);
        SEES(seen, 0, 200, "word");
        over();
}

static void
note_head(weir_task *task, void *context)
{
        *(_Atomic int *)context = 1 + (weir_task_status(task) == 0);
}

/* Another protocol is not for the proxy to read. */
static void
an_upgrade_goes_through_a_tunnel(void)
{
        _Atomic int seen = 0;

        begin_proxied("http", "");
        weir_http_call *call = weir_http_call_new(client, "GET", "http://server.example/chat");
        CU_ASSERT_EQUAL(weir_http_call_set_upgrade(call, "websocket"), 0);
        start(weir_http_call_head_new(call, note_head, (void *)&seen));
        HAS(accept_request(), "CONNECT server.example:80 ");
        http_peer_send(&peer, OPENED);
        HAS(http_peer_request(&peer), "GET /chat HTTP/1.1\r\n");
        http_peer_send(&peer, "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        WEIR_TEST_EVENTUALLY((settle(), seen));
        CU_ASSERT_EQUAL(seen, 2);
        weir_stream_unref(weir_http_call_take_stream(call));
        weir_http_call_unref(call);
        over();
}

/* The certificate of a stream is the server's, also within the TLS to the proxy. */
static void
the_stream_of_an_upgrade_knows_the_server(void)
{
        _Atomic int seen = 0;
        char subject[64];

        begin_proxied("https", "");
        weir_http_call *call = weir_http_call_new(client, "GET", "https://server.example/chat");
        CU_ASSERT_EQUAL(weir_http_call_set_upgrade(call, "websocket"), 0);
        start(weir_http_call_head_new(call, note_head, (void *)&seen));
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, server_tls));
        HAS(http_peer_request(&peer), "CONNECT server.example:443 ");
        http_peer_send(&peer, OPENED);
        CU_ASSERT_TRUE_FATAL(secure_within(&peer));
        (void)http_peer_request(&peer);
        http_peer_send(&peer, "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        WEIR_TEST_EVENTUALLY((settle(), seen));
        CU_ASSERT_EQUAL(seen, 2);
        weir_stream *stream = weir_http_call_take_stream(call);
        CU_ASSERT(weir_stream_peer_certificate(stream, subject, sizeof subject) > 0);
        weir_stream_unref(stream);
        weir_http_call_unref(call);
        over();
}

/* -- texts -- */

static int
try_client(const char *proxy, const char *no_proxy, bool from_environment)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.proxy = proxy;
        config.no_proxy = no_proxy;
        config.proxy_from_environment = from_environment;
        logged[0] = '\0';
        errno = 0;
        weir_client *made = weir_client_new(&config);
        int result = made ? 0 : errno;
        weir_client_unref(made);
        HAS_NOT(logged, SECRET);
        return result;
}

static void
texts_that_cannot_be_read_are_refused(void)
{
        static const struct {
                const char *text, *words;
        } bad[] = {{"ftp://p:1", "byte 0: the scheme"},
                   {"socks4://p", "byte 0: the scheme"},
                   {"http://", "byte 7"},
                   {"http://p:0", "the port is 0"},
                   {"http://p:65536", "byte 9"},
                   {"http://p:1/path", "byte 10: there is more"},
                   {"http://p:1?q", "byte 10: there is more"},
                   {"p:1#f", "byte 3: there is more"},
                   {"http://p p:1", "byte 8"},
                   {"http://u%0:" SECRET "@p:1", "byte 8"},
                   {"http://u%00:" SECRET "@p:1", "the user"},
                   {"http://u%3a:" SECRET "@p:1", "without a colon"},
                   {"socks5://u:@p:1", "the user"},
                   {"socks5://:" SECRET "@p:1", "the user"},
                   {"http://[::1:1", "byte"}};
        static const char *const good[] = {"",
                                           "http://p",
                                           "p:3128",
                                           "127.0.0.1:1",
                                           "HTTPS://p:1/",
                                           "http://[::1]:1",
                                           "socks5://u:" SECRET "@p",
                                           "socks5h://[::1]",
                                           "http://u@p:1",
                                           "http://p:"};
        static const char *const bad_lists[] = {"a/b", "10.0.0.0/33", "::1/129", "10.0.0.0/", "a:80", "a,*.b", ".", "a,\"b\""};

        weir_log_set(note_log, NULL);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                struct weir__proxy_fault fault = {0, ""};
                struct weir__proxy *proxy;
                char words[256];

                CU_ASSERT_EQUAL(try_client(bad[i].text, NULL, false), EINVAL);
                CU_ASSERT_EQUAL(weir__proxy_parse(bad[i].text, &proxy, &fault), -EINVAL);
                snprintf(words, sizeof words, "byte %zu: %s", fault.at, fault.text);
                HAS(words, bad[i].words);
        }
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                CU_ASSERT_EQUAL(try_client(good[i], NULL, false), 0);
        for (size_t i = 0; i < sizeof bad_lists / sizeof *bad_lists; i++)
                CU_ASSERT_EQUAL(try_client("p:1", bad_lists[i], false), EINVAL);
        weir_log_set(NULL, NULL);
}

static void
hosts_are_found_in_the_list(void)
{
        static const struct {
                const char *list, *hosts, *others;
        } cases[] = {
                {"", "", "a 127.0.0.1"},
                {"*", "a 127.0.0.1 ::1", ""},
                {"example.com", "example.com www.example.com example.com. a.b.example.com", "badexample.com com example.com.org"},
                {" .example.com,\tlocalhost,,", "example.com www.example.com localhost x.localhost", "notlocalhost other"},
                {"EXAMPLE.com.", "www.example.com", "example.org"},
                {"192.0.2.1", "192.0.2.1", "192.0.2.10 1.192.0.2.1 ::1"},
                {"10.0.0.0/8 172.16.0.0/12 192.0.2.129/25", "10.255.0.1 172.31.255.255 192.0.2.200",
                 "11.0.0.1 172.32.0.0 192.0.2.1"},
                {"0.0.0.0/0", "1.2.3.4", "::1 a"},
                {"[::1],fd00::/7,2001:db8::1", "::1 fc00::1 2001:db8:0:0::1", "::2 2001:db8::2 127.0.0.1"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir__bypass bypass = {0};
                const char *expected;
                size_t at;

                CU_ASSERT_EQUAL_FATAL(weir__bypass_parse(&bypass, cases[i].list, &at, &expected), 0);
                for (int is_other = 0; is_other < 2; is_other++) {
                        char copy[256], *rest = copy, *host;

                        snprintf(copy, sizeof copy, "%s", is_other ? cases[i].others : cases[i].hosts);
                        while ((host = strsep(&rest, " ")))
                                if (host[0])
                                        CU_ASSERT_EQUAL(weir__bypass_has(&bypass, host), !is_other);
                }
                weir__bypass_done(&bypass);
        }
}

static void
the_environment_is_read_when_it_is_asked_for(void)
{
        static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD", "HTTP_PROXY"};
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                unsetenv(names[i]);
        weir_log_set(note_log, NULL);
        setenv("HTTPS_PROXY", "nonsense://", 1);
        CU_ASSERT_EQUAL(try_client(NULL, NULL, true), 0);
        unsetenv("HTTPS_PROXY");
        setenv("http_proxy", "bad host", 1);
        CU_ASSERT_EQUAL(try_client(NULL, NULL, false), 0);
        CU_ASSERT_EQUAL(try_client("p:1", NULL, true), 0);
        CU_ASSERT_EQUAL(try_client(NULL, NULL, true), EINVAL);
        HAS(logged, "http_proxy, at byte 3");
        setenv("REQUEST_METHOD", "GET", 1);
        CU_ASSERT_EQUAL(try_client(NULL, NULL, true), 0);
        unsetenv("REQUEST_METHOD");
        unsetenv("http_proxy");

        int proxy_port, held = http_peer_listen(&proxy_port);
        char text[64];
        snprintf(text, sizeof text, "127.0.0.1:%d", proxy_port);
        setenv("all_proxy", text, 1);
        setenv("no_proxy", "direct.example, 127.0.0.1", 1);
        config.proxy_from_environment = true;
        begin_by("http", "", &config);
        unsetenv("all_proxy");
        unsetenv("no_proxy");
        struct seen one = {0}, two = {0};
        ask_url("http://server.example/", &one);
        (void)http_peer_accept(&peer, held, NULL);
        HAS(http_peer_request(&peer), "GET http://server.example/ ");
        http_peer_send(&peer, OK_CLOSES);
        wait_settled(&one);
        http_peer_close(&peer);
        ask_url(url_of("/"), &two);
        HAS(accept_request(), "GET / ");
        http_peer_send(&peer, OK_CLOSES);
        wait_settled(&two);
        SEES(two, 0, 200, "word");
        close(held);
        over();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(http_goes_to_the_proxy_in_absolute_form),
                WEIR_TEST(a_field_of_the_program_goes_to_the_proxy_only),
                WEIR_TEST(https_goes_through_a_tunnel),
                WEIR_TEST(sessions_of_tls_are_resumed),
                WEIR_TEST(an_answer_may_come_slowly_and_behind_others),
                WEIR_TEST(refusals_have_codes_and_words),
                WEIR_TEST(an_endless_answer_is_bounded),
                WEIR_TEST(a_reset_and_a_fault_of_tls_behind_the_proxy),
                WEIR_TEST(a_proxy_that_cannot_be_reached_is_named),
                WEIR_TEST(each_stage_has_its_limit),
                WEIR_TEST(the_handshake_with_a_proxy_is_a_part_of_its_way),
                WEIR_TEST(a_cancel_closes_the_way),
                WEIR_TEST(socks_is_asked_for_names_and_addresses),
                WEIR_TEST(socks_is_shown_a_user),
                WEIR_TEST(no_byte_behind_the_reply_is_taken),
                WEIR_TEST(refusals_of_socks_have_codes_and_words),
                WEIR_TEST(a_proxy_may_speak_tls),
                WEIR_TEST(ways_to_one_host_are_kept_apart),
                WEIR_TEST(members_of_upstreams_need_no_proxy),
                WEIR_TEST(a_redirect_finds_its_own_way),
                WEIR_TEST(an_upgrade_goes_through_a_tunnel),
                WEIR_TEST(the_stream_of_an_upgrade_knows_the_server),
                WEIR_TEST(the_environment_is_read_when_it_is_asked_for), /* first: the log has a limit for each place */
                WEIR_TEST(texts_that_cannot_be_read_are_refused),
                WEIR_TEST(hosts_are_found_in_the_list),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the test to a client that has left */
        return weir_test_main("client_proxy", tests, sizeof tests / sizeof *tests);
}
