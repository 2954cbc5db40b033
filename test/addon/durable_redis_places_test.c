/* Durable timers in all that the URL of Redis can name: TLS, a cluster, sentinels. */
#include <stdatomic.h>

#include <weir/durable.h>
#include <weir/weir.h>

#include "test/addon/redis_server.h"
#include "test/tls_peer.h"

#define HOUR WEIR_SEC(3600)

static char url[256], problem[300];
static atomic_uint delivered;

static void
note(weir_task *task, void *context)
{
        const char *words = weir_durable_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
}

static int cancelled;

static void
note_cancel(weir_task *task, void *context)
{
        (void)context;
        cancelled = weir_durable_cancelled(task);
}

static void
take(weir_task *delivery, void *context)
{
        (void)delivery;
        (void)context;
        atomic_fetch_add(&delivered, 1);
}

static int
set(weir_durable *store, const char *name, weir_nsec after)
{
        int status = weir_task_run(weir_durable_set_after_new(store, name, after, "topic", "x", 1, note, NULL));

        if (status)
                printf("%d: %s\n", status, problem);
        return status;
}

static weir_durable *
begin(void)
{
        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        atomic_store(&delivered, 0);
        weir_durable *store = weir_durable_open(url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT(weir_durable_on(store, "topic", take, NULL) == 0);
        return store;
}

static void
end(weir_durable *store)
{
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* Two nodes: one sets, and both listen. */
static void
use(void)
{
        weir_durable *store = begin(), *other = weir_durable_open(url);

        CU_ASSERT_PTR_NOT_NULL_FATAL(other);
        CU_ASSERT_FATAL(set(store, "far", HOUR) == 0);
        CU_ASSERT(set(store, "near", 1) == 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&delivered) == 1);
        CU_ASSERT(weir_task_run(weir_durable_get_new(other, "far", note, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_cancel_new(other, "far", note_cancel, NULL)) == 0 && cancelled == 1);
        CU_ASSERT(weir_task_run(weir_durable_get_new(store, "far", note, NULL)) == -ENOENT);
        CU_ASSERT(set(other, "rings", 1) == 0); /* the first node hears of it */
        WEIR_TEST_EVENTUALLY(atomic_load(&delivered) == 2);
        weir_durable_close(other);
        end(store);
}

static void
a_server_with_tls_is_used(void)
{
        struct redis_server server = {.tls_port = redis_free_port()};
        struct tls_wish names = {.alternative_names = "DNS:localhost", .issuer = "ca"};
        char more[512];

        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.common_name = "ca"});
        tls_make_certificate("server", &names);
        snprintf(more, sizeof more, "tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients no\n",
                 server.tls_port, tls_path("server.pem"), tls_path("server.key"), tls_path("ca.pem"));
        redis_start(&server, more);
        snprintf(url, sizeof url, "rediss://localhost:%d", server.tls_port);
        weir_durable *store = begin(); /* nobody trusts it */
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "a", HOUR, "topic", "x", 1, note, NULL)) ==
                  WEIR_ETLS_UNTRUSTED);
        CU_ASSERT(strstr(problem, "localhost") != NULL);
        end(store);
        setenv("SSL_CERT_FILE", tls_path("ca.pem"), 1);
        use();
        unsetenv("SSL_CERT_FILE");
        redis_stop(&server);
        tls_files_end();
}

/* Of two servers, the second of which has the slot of the timers. */
static void
a_cluster_is_used(void)
{
        struct redis_server servers[2] = {{0}};
        char line[128];

        for (unsigned i = 0; i < 2; i++)
                redis_start(&servers[i], "cluster-enabled yes\ncluster-node-timeout 60000\ncluster-require-full-coverage no\n");
        redis_say(servers[0].port, "CLUSTER ADDSLOTSRANGE 0 100");
        redis_say(servers[1].port, "CLUSTER ADDSLOTSRANGE 101 16383");
        redis_say(servers[1].port, "CLUSTER SET-CONFIG-EPOCH 1");
        snprintf(line, sizeof line, "CLUSTER MEET 127.0.0.1 %d", servers[1].port);
        redis_say(servers[0].port, line);
        for (unsigned i = 0; i < 2; i++)
                WEIR_TEST_EVENTUALLY(strstr(redis_say(servers[i].port, "CLUSTER INFO"), "cluster_state:ok") &&
                                     strstr(redis_say(servers[i].port, "CLUSTER INFO"), "cluster_slots_assigned:16384"));
        snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", servers[0].port);
        use();
        CU_ASSERT_STRING_EQUAL(redis_say(servers[0].port, "DBSIZE"), ":0\r\n");
        for (unsigned i = 0; i < 2; i++)
                redis_stop(&servers[i]);
}

/* The master dies, and the other one has what was set. */
static void
sentinels_are_asked(void)
{
        struct redis_server master = {0}, replica = {0}, sentinel = {0};
        char more[512];

        redis_start(&master, "");
        snprintf(more, sizeof more, "replicaof 127.0.0.1 %d\nrepl-diskless-sync-delay 0\n", master.port);
        redis_start(&replica, more);
        WEIR_TEST_EVENTUALLY(strstr(redis_say(replica.port, "INFO replication"), "master_link_status:up"));
        redis_configure(&sentinel,
                        "sentinel monitor mine 127.0.0.1 %d 1\nsentinel down-after-milliseconds mine 1000\n"
                        "sentinel failover-timeout mine 2000\n",
                        master.port);
        redis_begin(&sentinel, "--sentinel");
        WEIR_TEST_EVENTUALLY(strstr(redis_say(sentinel.port, "SENTINEL REPLICAS mine"), "slave"));
        snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mine", sentinel.port);
        use();
        weir_durable *store = begin();
        CU_ASSERT_FATAL(set(store, "kept", HOUR) == 0);
        /* What a master has acknowledged but not replicated dies with it. */
        WEIR_TEST_EVENTUALLY(strstr(redis_say(replica.port, "EXISTS {weir-durable}:timer:kept"), ":1"));
        redis_kill(&master, SIGKILL);
        WEIR_TEST_EVENTUALLY(weir_task_run(weir_durable_get_new(store, "kept", note, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(weir_task_run(weir_durable_set_after_new(store, "near", 1, "topic", "x", 1, note, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&delivered) == 1);
        end(store);
        redis_stop(&sentinel);
        redis_stop(&replica);
        redis_stop(&master);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_server_with_tls_is_used),
                WEIR_TEST(a_cluster_is_used),
                WEIR_TEST(sentinels_are_asked),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        return weir_test_main("durable_redis_places", tests, sizeof tests / sizeof *tests);
}
