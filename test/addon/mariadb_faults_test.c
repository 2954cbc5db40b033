/* test/addon/mariadb_faults_test.c: servers that end, that do not answer, that answer nonsense, and that cannot be reached. */
#include "test/addon/mariadb_fake.h"

#define FAKE_BYTES     "\x0a\xff\xfe\x00\xfb\x01\x05\x4a"
#define SQL_CONNECTION "SELECT connection_id()"

#include "test/addon/sql_faults.h"

/* -- connections that cannot be made -- */

static void
refusals_have_a_status(void)
{
        char url[256];

        begin(1);
        int nobody = free_port();
        snprintf(url, sizeof url, "mariadb://weir:secret@127.0.0.1:%d/test", nobody);
        weir_mariadb *pool = pool_of(url, WEIR_SEC(10));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ECONNREFUSED);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "127.0.0.1"));
        CU_ASSERT_EQUAL(server_stats(pool).refused, 1);
        weir_mariadb_unref(pool);
        pool = pool_of("mariadb:///?socket=/nowhere/socket", WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -ENOENT);
        weir_mariadb_unref(pool);
        pool = pool_of("mariadb://no-such-host.invalid/", WEIR_SEC(1));
        end = ask(pool, "SELECT 1");
        CU_ASSERT(end.status == -ENOENT || end.status == -ETIMEDOUT);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "mariadb://weir:secret@127.0.0.1:%d/missing", server.port);
        pool = pool_of(url, WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ENOENT);
        CU_ASSERT_STRING_EQUAL(end.problem, "Unknown database 'missing'");
        CU_ASSERT_STRING_EQUAL(end.sqlstate, "42000");
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "mariadb://weir:wrong@127.0.0.1:%d/test", server.port);
        pool = pool_of(url, WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -EACCES);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "Access denied"));
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_config_says_what_the_url_does_not(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;
        char path[96];

        begin(1);
        snprintf(path, sizeof path, "%s/socket", server.directory);
        config.socket = path;
        config.user = "weir";
        config.password = "secret";
        config.database = "test";
        config.session = "SET @greeting = 'hello'";
        weir_mariadb *pool = weir_mariadb_new(NULL, &config);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT @greeting").value, "hello");
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- servers that end -- */

static void
a_server_may_be_killed_under_load(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        a_server_is_killed_and_started_under_load(server_url(false), &config);
        a_server_is_killed_and_started_under_load(server_url(true), &config);
}

/* -- deadlines and shutdowns -- */

static void
a_deadline_of_the_flow_holds(void)
{
        struct end end = fresh();

        begin(2);
        weir_mariadb *pool = pool_of(server_url(true), WEIR_SEC(10));
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_set_deadline(series, WEIR_MSEC(50));
        weir_series_push(series, weir_mariadb_query_new(pool, "SELECT sleep(610)", note_end, &end));
        weir_series_start(series);
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(server_runs("sleep(610)") == 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_shutdown_ends_what_is_under_way(void)
{
        struct fake fake;
        struct end running = fresh(), waiting = fresh(), connecting = fresh();

        begin(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT sleep(611)", note_end, &running));
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &waiting));
        fake_begin(&fake, NULL);
        weir_mariadb *silent = pool_of(fake.url, WEIR_FOREVER);
        weir_task_start(weir_mariadb_query_new(silent, "SELECT 1", note_end, &connecting));
        WEIR_TEST_EVENTUALLY(server_runs("sleep(611)") == 1 && server_stats(silent).connecting == 1);
        weir_test_sleep(10000000); /* so that it is most likely in the client library */
        weir_test_end();
        CU_ASSERT(running.status == -ESHUTDOWN && waiting.status == -ESHUTDOWN && connecting.status == -ESHUTDOWN);
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_mariadb_unref(silent);
        fake_end(&fake);
        weir_test_end();
}

/* A server that is stopped answers nothing, also no KILL. */
static void
a_server_that_stands_still_holds_nobody_up(void)
{
        struct end end = fresh();

        begin(2);
        weir_mariadb *pool = pool_of(server_url(true), WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        server_pause();
        for (uint64_t sent = server_stats(pool).queries; server_stats(pool).queries == sent;) { /* it may be too late for that */
                weir_task *query = weir_mariadb_query_new(pool, "SELECT 1", note_end, &end);
                weir_mariadb_set_limit(query, WEIR_MSEC(50));
                CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0); /* the attempt to kill it was given up */
        server_go_on();
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- TLS -- */

static void
connections_may_be_encrypted(void)
{
        char command[512], url[512];
        static char file[96];

        snprintf(file, sizeof file, "%s/tls.pem", server.directory);
        snprintf(command, sizeof command,
                 "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
                 "subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.crt >/dev/null 2>&1 && cat tls.crt tls.key >tls.pem && "
                 "chmod 644 tls.pem && chown --reference=. tls.pem",
                 server.directory);
        CU_ASSERT_EQUAL_FATAL(system(command), 0);
        server_stop();
        snprintf(command, sizeof command,
                 "printf '[mysqld]\\nssl-cert=%s/tls.pem\\nssl-key=%s/tls.pem\\n' >%s/tls.cnf && chmod 644 %s/tls.cnf",
                 server.directory, server.directory, server.directory, server.directory);
        CU_ASSERT_EQUAL_FATAL(system(command), 0);
        server_start();
        begin(2);
        snprintf(url, sizeof url, "%s?tls=yes", server_url(true));
        weir_mariadb *pool = pool_of(url, WEIR_SEC(10));
        const char *sql = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_version'";
        CU_ASSERT_EQUAL(strncmp(ask(pool, sql).value, "TLS", 3), 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        struct end end = fresh();
        weir_task *query = weir_mariadb_query_new(pool, "SELECT sleep(612)", note_end, &end);
        weir_mariadb_set_limit(query, WEIR_MSEC(100));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_runs("sleep(612)") == 0);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "%s?tls=verify&ca=%s/tls.crt", server_url(true), server.directory);
        pool = pool_of(url, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "%s?tls=verify", server_url(true)); /* nobody has signed for it */
        pool = pool_of(url, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -EPROTO);
        weir_mariadb_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(refusals_have_a_status),
                WEIR_TEST(a_config_says_what_the_url_does_not),
                WEIR_TEST(one_that_does_not_answer_is_too_late),
                WEIR_TEST(nonsense_ends_the_connection),
                WEIR_TEST(a_server_that_falls_silent_loses_its_connection),
                WEIR_TEST(a_server_may_be_killed_under_load),
                WEIR_TEST(a_deadline_of_the_flow_holds),
                WEIR_TEST(a_shutdown_ends_what_is_under_way),
                WEIR_TEST(a_server_that_stands_still_holds_nobody_up),
                WEIR_TEST(connections_may_be_encrypted),
                WEIR_TEST(a_child_leaves_the_connections_alone),
                WEIR_TEST(a_child_has_no_figures_of_its_parent),
        };

        return server_main("mariadb_faults", tests, sizeof tests / sizeof *tests);
}
