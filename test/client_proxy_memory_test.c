/* test/client_proxy_memory_test.c: the client of HTTP through proxies, when memory is refused at each point. */
#include <signal.h>

#include "test/client_fixture.h"
#include "test/memory_faults.h"

static SSL_CTX *server_tls;
static weir_tls *trust;

/* How far the test, which is the proxy and the server, has come with the connection. */
enum { NOBODY, ACCEPTED, ASKED, OPEN, GONE };

/* What the proxy says at that step, as the texts of both kinds. */
static void
answer(bool is_socks, int step)
{
        if (!is_socks)
                http_peer_send(&peer, "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
        else if (step == ACCEPTED)
                http_peer_send_bytes(&peer, "\005\000", 2);
        else
                http_peer_send_bytes(&peer, "\005\000\000\001\000\000\000\000\000\000", 10);
}

/* Goes on as far as the client lets it, without waiting.  Returns the next step. */
static int
go_on(const char *scheme, int step)
{
        bool is_socks = strcmp(scheme, "socks5") == 0;

        if (step == NOBODY) {
                if (!http_peer_has_caller(listener))
                        return step;
                return http_peer_accept(&peer, listener, strcmp(scheme, "https") == 0 ? server_tls : NULL) ? ACCEPTED : GONE;
        }
        const char *said = step == GONE ? "" : http_peer_has(&peer);
        if (!said[0])
                return step;
        if (said[0] == '<')
                return GONE;
        if (step == OPEN) {
                http_peer_send(&peer, OK_CLOSES);
                return GONE;
        }
        answer(is_socks, step);
        if (is_socks && step == ACCEPTED)
                return ASKED;
        if (strcmp(scheme, "https") == 0) {
                BIO *outer = BIO_new(BIO_f_ssl());

                BIO_set_ssl(outer, peer.tls, BIO_CLOSE);
                peer.tls = SSL_new(server_tls);
                SSL_set_bio(peer.tls, outer, outer);
        } else {
                peer.tls = SSL_new(server_tls);
                SSL_set_fd(peer.tls, peer.fd);
        }
        return SSL_accept(peer.tls) == 1 ? OPEN : GONE;
}

/* One request of a new client, of which the allocation with that number is refused.  Returns whether there was one. */
static bool
fetch(const char *scheme, int64_t number)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};
        char proxy[64];
        int step = NOBODY;

        snprintf(proxy, sizeof proxy, "%s://127.0.0.1:%d", scheme, port);
        config.proxy = proxy;
        config.tls = config.proxy_tls = trust;
        client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        weir_task *request = weir_client_request_new(client, "GET", "https://server.example/", see, &seen);
        left = number;
        refused = false;
        armed = true;
        CU_ASSERT_EQUAL(weir_task_start(request), 0);
        int64_t began = weir_test_now();
        while (!seen.calls && weir_test_now() - began < WEIR_TEST_PATIENCE) {
                step = go_on(scheme, step);
                settle();
        }
        armed = false;
        CU_ASSERT_EQUAL(seen.calls, 1);
        CU_ASSERT(seen.status == -ENOMEM || (seen.status == 0 && seen.code == 200));
        if (!refused)
                CU_ASSERT_EQUAL(seen.status, 0);
        WEIR_TEST_EVENTUALLY((settle(), stats().connections == 0));
        weir_client_unref(client);
        if (step != NOBODY)
                http_peer_close(&peer);
        else if (http_peer_has_caller(listener))
                close(accept(listener, NULL, NULL));
        settle();
        return refused;
}

static void
each_refusal_is_told_and_leaves_nothing(void)
{
        static const char *const schemes[] = {"http", "socks5", "https"};

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "DNS:server.example,IP:127.0.0.1"});
        server_tls = http_peer_tls("server");
        struct weir_tls_config trusting = WEIR_TLS_CONFIG_DEFAULT;
        trusting.ca_file = tls_path("server.pem");
        for (int i = 0; i < 3; i++) {
                int64_t number = 0, blocks;

                trust = weir_tls_client_new(&trusting);
                weir_test_begin_virtual();
                listener = http_peer_listen(&port);
                peer = (struct http_peer){.fd = -1};
                for (int j = 0; j < 3; j++) /* what is made once */
                        (void)fetch(schemes[i], INT64_MAX);
                blocks = live;
                while (fetch(schemes[i], number))
                        number++;
                CU_ASSERT(number > 10);
                CU_ASSERT(live - blocks <= 2); /* sessions of TLS, which come and go */
                weir_test_end();
                close(listener);
                weir_tls_unref(trust);
        }
        SSL_CTX_free(server_tls);
        tls_files_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_refusal_is_told_and_leaves_nothing),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the test to a client that has left */
        return weir_test_main("client_proxy_memory", tests, sizeof tests / sizeof *tests);
}
