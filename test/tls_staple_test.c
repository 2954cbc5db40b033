/* test/tls_staple_test.c: the HTTP server sends an OCSP response, a staple, along with its certificate. */
#include <errno.h>

#include <openssl/ocsp.h>

#include "test/fixture.h"
#include "test/http_client.h"
#include "test/tls_peer.h"

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static struct {
        weir_http_server *server;
        int port;
} at;

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "served");
}

static void
begin(const char *ocsp_file)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        config.ocsp_file = ocsp_file ? tls_path(ocsp_file) : NULL;
        weir_test_begin_real(2);
        at.server = http_server(&config, handle, NULL);
        at.port = weir_http_server_port(at.server);
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* A client that has asked for the staple or not, and was served. */
static SSL *
connect_served(int version, bool wants_staple)
{
        static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){.version = version, .wants_staple = wants_staple});
        char *reply;

        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        CU_ASSERT_EQUAL(SSL_version(client), version);
        CU_ASSERT_TRUE(tls_send(client, request, sizeof request - 1));
        CU_ASSERT_TRUE(tls_receive(client, &reply, NULL));
        CU_ASSERT_PTR_NOT_NULL(strstr(reply, "served"));
        free(reply);
        return client;
}

/* Returns the status of the certificate in the staple, such as V_OCSP_CERTSTATUS_GOOD; -1: no staple, or none of use. */
static int
status_in(SSL *client)
{
        const unsigned char *der;
        long size = SSL_get_tlsext_status_ocsp_resp(client, &der);
        OCSP_RESPONSE *response = size > 0 ? d2i_OCSP_RESPONSE(NULL, &der, size) : NULL;
        OCSP_BASICRESP *basic = response ? OCSP_response_get1_basic(response) : NULL;
        OCSP_SINGLERESP *single = basic ? OCSP_resp_get0(basic, 0) : NULL;
        int status = single ? OCSP_single_get0_status(single, NULL, NULL, NULL, NULL) : -1;

        OCSP_BASICRESP_free(basic);
        OCSP_RESPONSE_free(response);
        return status;
}

static void
expect_status(int expected)
{
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
                SSL *client = connect_served(versions[i], true);

                CU_ASSERT_EQUAL(status_in(client), expected);
                tls_hang_up(client);
        }
}

static void
a_staple_comes_with_the_certificate_in_both_versions(void)
{
        tls_make_staple("staple.der", "server", true);
        begin("staple.der");
        expect_status(V_OCSP_CERTSTATUS_GOOD);
        expect_status(V_OCSP_CERTSTATUS_GOOD); /* and again: it was not given away */
        end();
}

static void
a_client_that_does_not_ask_gets_none(void)
{
        tls_make_staple("staple.der", "server", true);
        begin("staple.der");
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
                SSL *client = connect_served(versions[i], false);

                CU_ASSERT_EQUAL(status_in(client), -1);
                tls_hang_up(client);
        }
        end();
}

static void
a_server_without_one_serves_who_asks(void)
{
        begin(NULL);
        expect_status(-1);
        end();
}

static void
a_reload_brings_the_new_staple(void)
{
        tls_make_staple("staple.der", "server", true);
        begin("staple.der");
        tls_make_staple("staple.der", "server", false);
        expect_status(V_OCSP_CERTSTATUS_GOOD); /* it is read when it is told */
        for (int i = 0; i < 4; i++) {
                tls_make_staple("staple.der", "server", i % 2);
                CU_ASSERT_EQUAL(weir_http_server_reload(at.server), 0);
                expect_status(i % 2 ? V_OCSP_CERTSTATUS_GOOD : V_OCSP_CERTSTATUS_REVOKED);
        }
        end();
}

static void
say_nothing(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)message, (void)context;
}

static void
a_staple_of_no_use_leaves_the_old_one(void)
{
        tls_make_staple("staple.der", "server", true);
        begin("staple.der");
        CU_ASSERT_EQUAL(weir_log_set(say_nothing, NULL), 0);
        tls_write_file("staple.der", "nonsense", 8);
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), WEIR_ETLS_OCSP);
        unlink(tls_path("staple.der"));
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -ENOENT);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        expect_status(V_OCSP_CERTSTATUS_GOOD);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_staple_comes_with_the_certificate_in_both_versions),
                WEIR_TEST(a_client_that_does_not_ask_gets_none),
                WEIR_TEST(a_server_without_one_serves_who_asks),
                WEIR_TEST(a_reload_brings_the_new_staple),
                WEIR_TEST(a_staple_of_no_use_leaves_the_old_one),
        };
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        int failed = weir_test_main("tls staple", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
