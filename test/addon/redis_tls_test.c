/* test/addon/redis_tls_test.c: a server with TLS: commands, sessions and subscriptions; certificates that are refused. */
#include "test/addon/redis_fixture.h"
#include "test/tls_peer.h"

static struct redis_server server;
static char address[128];

static void
what_is_secret_is_secret(void)
{
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        trust.ca_file = tls_path("ca.pem");
        trust.certificate_file = tls_path("client.pem");
        trust.private_key_file = tls_path("client.key");
        weir_test_begin_real(2);
        config.tls = weir_tls_client_new(&trust);
        weir_redis *redis = weir_redis_new(address, &config);
        weir_tls_unref(config.tls);
        SAYS(redis, "OK", "SET key %s", "value");
        SAYS(redis, "value", "GET key");
        SAYS(redis, "1", "RPUSH queue job");
        SAYS(redis, "[queue job]", "BLPOP queue 0");
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WATCH key")), "OK");
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "GET key");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_exec_new(redis, session, batch, see, &last)), "[value]");
        weir_redis_session_unref(session);
        weir_redis_subscription *subscription = weir_redis_subscription_new(redis, NULL);
        weir_redis_subscribe(subscription, "news");
        CU_ASSERT_EQUAL(weir_task_run(weir_channel_receive_new(weir_redis_subscription_channel(subscription), NULL, NULL)), 0);
        SAYS(redis, "1", "PUBLISH news x");
        weir_redis_subscription_close(subscription);
        weir_redis_unref(redis);
        weir_test_end();
}

static void
a_certificate_that_nobody_trusts_is_refused(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        weir_redis *redis = weir_redis_new(address, &config); /* the system's roots */
        SAY(redis, "GET key");
        CU_ASSERT_EQUAL(last.status, WEIR_ETLS_UNTRUSTED);
        CU_ASSERT_EQUAL(strncmp(last.problem, "connect to redis ", 17), 0);
        weir_redis_unref(redis);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_is_secret_is_secret),
                WEIR_TEST(a_certificate_that_nobody_trusts_is_refused),
        };
        struct tls_wish names = {.alternative_names = "DNS:localhost,IP:127.0.0.1", .issuer = "ca"}, client = {.issuer = "ca"};
        char more[1024];

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.common_name = "ca"});
        tls_make_certificate("server", &names);
        tls_make_certificate("client", &client);
        server.tls_port = redis_free_port();
        snprintf(more, sizeof more, "tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients yes\n",
                 server.tls_port, tls_path("server.pem"), tls_path("server.key"), tls_path("ca.pem"));
        redis_start(&server, more);
        snprintf(address, sizeof address, "rediss://localhost:%d", server.tls_port);
        int failed = weir_test_main("redis_tls", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        tls_files_end();
        return failed;
}
