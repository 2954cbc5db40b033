/* test/addon/pq_faults_test.c: servers that end, that do not answer, that answer nonsense, and that cannot be reached. */
#include "test/addon/pq_fake.h"

#define FAKE_BYTES     "NRESZTDC"
#define SQL_CONNECTION "SELECT pg_backend_pid()"

#include "test/addon/sql_faults.h"

/* -- connections that cannot be made -- */

static void
refusals_have_a_status(void)
{
        char conninfo[256];

        begin(1);
        int nobody = free_port();
        snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=weir dbname=postgres", nobody);
        weir_pq *pool = pool_of(conninfo, WEIR_SEC(10));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ECONNREFUSED);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "Connection refused"));
        CU_ASSERT_EQUAL(server_stats(pool).refused, 1);
        weir_pq_unref(pool);
        pool = pool_of("host=/nowhere user=weir", WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -ENOENT);
        weir_pq_unref(pool);
        snprintf(conninfo, sizeof conninfo, "%s dbname=missing", server_conninfo(true));
        pool = pool_of(conninfo, WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ENOENT);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "\"missing\" does not exist"));
        CU_ASSERT_PTR_NULL(strstr(end.problem, "LOCATION"));
        weir_pq_unref(pool);
        snprintf(conninfo, sizeof conninfo, "%s user=stranger", server_conninfo(true));
        pool = pool_of(conninfo, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -EACCES);
        weir_pq_unref(pool);
        weir_test_end();
}

/* So many queries at once; those behind the first one would have connections of their own.  The clock is held. */
static void
ask_at_once(weir_pq *pool, unsigned count)
{
        struct end ends[2] = {fresh(), fresh()};

        for (unsigned i = 0; i < count; i++)
                weir_task_start(weir_pq_query_new(pool, "SELECT pg_sleep(0.02)", note_end, &ends[i]));
        for (unsigned i = 0; i < count; i++) {
                weir_test_latch_wait(&ends[i].latch);
                CU_ASSERT_EQUAL(ends[i].status, 0);
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 0);
}

/* The pause behind attempts to have more connections does not hold up the only one.  It would last as long as the clock is
 * held. */
static void
the_last_connection_is_made_anew_at_once(void)
{
        char conninfo[200];

        weir_test_begin_virtual();
        weir_log_set(NULL, NULL);
        server_ask("CREATE ROLE limited LOGIN CONNECTION LIMIT 1");
        snprintf(conninfo, sizeof conninfo, "%s user=limited", server_conninfo(true));
        weir_pq *pool = pool_of(conninfo, WEIR_SEC(10));
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        ask_at_once(pool, 1);
        ask_at_once(pool, 2);
        ask_at_once(pool, 2);
        CU_ASSERT_EQUAL(server_stats(pool).refused, 2); /* and behind the second attempt there is a pause */
        server_ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'limited'");
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        ask_at_once(pool, 1);
        weir_clock_release();
        weir_pq_unref(pool);
        weir_test_end();
}

/* Attempts that were under way together are one failure: behind the first one there is no pause, which would last as long as the
 * clock is held. */
static void
attempts_that_fail_together_are_one_failure(void)
{
        struct end ends[5];
        struct fake silent;

        weir_test_begin_virtual();
        weir_log_set(NULL, NULL);
        fake_begin(&silent, NULL);
        weir_pq *pool = pool_of(silent.url, WEIR_SEC(10));
        for (unsigned i = 0; i < 5; i++) {
                ends[i] = fresh();
                weir_task_start(weir_pq_query_new(pool, "SELECT 1", note_end, &ends[i]));
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 5);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(10)), 0);
        for (unsigned i = 0; i < 5; i++) {
                weir_test_latch_wait(&ends[i].latch);
                CU_ASSERT_EQUAL(ends[i].status, -ETIMEDOUT);
        }
        CU_ASSERT_EQUAL(server_stats(pool).refused, 5);
        fake_end(&silent);
        struct end next = fresh();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_task_start(weir_pq_query_new(pool, "SELECT 1", note_end, &next));
        WEIR_TEST_EVENTUALLY(server_stats(pool).refused == 6);
        weir_clock_release();
        weir_test_latch_wait(&next.latch);
        CU_ASSERT_EQUAL(next.status, -ECONNREFUSED);
        weir_pq_unref(pool);
        weir_test_end();
}

static int
answer_names(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)family, (void)context;
        if (strcmp(host, "db.test") != 0)
                return -ENOENT;
        weir_resolver_reply_add(reply, "127.0.0.2"); /* nobody listens there */
        return weir_resolver_reply_add(reply, "127.0.0.1");
}

static void
names_are_looked_up_by_weir(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;
        char conninfo[256];

        begin(2);
        config.answer = answer_names;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        snprintf(conninfo, sizeof conninfo, "host=nobody.test,db.test port=%d user=weir dbname=postgres", server.port);
        weir_pq *pool = pool_of(conninfo, WEIR_SEC(10));
        struct end end = ask(pool, "SELECT host(inet_server_addr())");
        CU_ASSERT_EQUAL(end.status, 0);
        CU_ASSERT_STRING_EQUAL(end.value, "127.0.0.1");
        weir_pq_unref(pool);
        snprintf(conninfo, sizeof conninfo, "postgresql://weir@db.test:%d/postgres?connect_timeout=7", server.port);
        pool = pool_of(conninfo, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_pq_unref(pool);
        pool = pool_of("host=nobody.test", WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ENOENT);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "nobody.test"));
        weir_pq_unref(pool);
        weir_resolver_configure(NULL);
        weir_test_end();
}

/* -- servers that end -- */

static void
a_backend_that_ends_while_idle_harms_nobody(void)
{
        begin(2);
        weir_pq *pool = pool_of(server_conninfo(false), WEIR_SEC(10));
        for (int i = 0; i < 20; i++) {
                struct end end = ask(pool, "SELECT pg_backend_pid()");
                char sql[128];

                CU_ASSERT_EQUAL(end.status, 0);
                snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%s, 10000)", end.value);
                CU_ASSERT_EQUAL(server_ask(sql)[0], 't');
                WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        }
        CU_ASSERT_EQUAL(server_stats(pool).lost, 20);
        CU_ASSERT_EQUAL(server_stats(pool).failed, 0);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_backend_that_ends_within_a_query_is_told(void)
{
        struct end end = fresh();

        begin(2);
        weir_pq *pool = pool_of(server_conninfo(true), WEIR_SEC(10));
        weir_task_start(weir_pq_query_new(pool, "SELECT pg_sleep(602)", note_end, &end));
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                                        "query = 'SELECT pg_sleep(602)' AND state = 'active'")[0] == '1');
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ECONNRESET);
        CU_ASSERT_STRING_EQUAL(end.sqlstate, "57P01");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT pg_terminate_backend(pg_backend_pid())").status, -ECONNRESET);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_server_may_be_killed_under_load(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        a_server_is_killed_and_started_under_load(server_conninfo(false), &config);
}

static void
and_with_a_pipeline(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        config.pipeline = 8;
        a_server_is_killed_and_started_under_load(server_conninfo(true), &config);
}

/* -- a server that stands still -- */

static pid_t postmaster; /* that stands still */

/* The shutdown hangs. */
static void
give_up(int signal)
{
        (void)signal;
        kill(postmaster, SIGCONT);
        abort();
}

/* The request to cancel waits for an answer of the server.  Nobody waits for the request. */
static void
a_shutdown_does_not_wait_for_a_server_that_stands_still(void)
{
        begin(2);
        weir_pq *pool = server_pool(1, 0, false);
        postmaster = atoi(server_ask("SELECT pg_read_file('postmaster.pid', 0, 12)"));
        CU_ASSERT_FATAL(postmaster > 1);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_query_new(pool, "SELECT pg_sleep(600)", NULL, NULL));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 1);
        CU_ASSERT_EQUAL_FATAL(kill(postmaster, SIGSTOP), 0);
        weir_series_cancel(series);
        weir_test_sleep(WEIR_MSEC(50)); /* the request may be on its way */
        weir_series_unref(series);
        weir_pq_unref(pool);
        signal(SIGALRM, give_up);
        alarm(20);
        weir_test_end();
        alarm(0);
        signal(SIGALRM, SIG_DFL);
        CU_ASSERT_EQUAL(kill(postmaster, SIGCONT), 0);
        server_await();
}

static _Atomic unsigned notices, breaks;

static void
count_messages(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)context;
        notices += strncmp(message, "FATAL: pool test: terminating", 29) == 0;
        breaks += strstr(message, "a connection broke: server closed the connection") != NULL;
}

/* libpq adds to the text of the last failure. */
static void
the_log_says_why_a_connection_broke_and_not_what_failed_before(void)
{
        notices = breaks = 0;
        begin(1);
        weir_log_set(count_messages, NULL);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1/0", NULL, NULL)), -EINVAL);
        server_ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pq_faults_test'");
        WEIR_TEST_EVENTUALLY(notices == 1 && breaks == 1);
        weir_log_set(NULL, NULL);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
serve_nothing(int fd)
{
        static const char ready[] = "Z\0\0\0\x05I";
        char bytes[1024];

        if (fake_greet(fd) && recv(fd, bytes, sizeof bytes, 0) > 0)
                fake_send(fd, ready, sizeof ready - 1);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
                continue;
}

static void
a_query_without_a_result_has_failed(void)
{
        struct fake fake;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        fake_begin(&fake, serve_nothing);
        weir_pq *pool = weir_pq_new(fake.url, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), -EPROTO);
        weir_pq_unref(pool);
        weir_test_end();
        fake_end(&fake);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(refusals_have_a_status),
                WEIR_TEST(the_last_connection_is_made_anew_at_once),
                WEIR_TEST(attempts_that_fail_together_are_one_failure),
                WEIR_TEST(names_are_looked_up_by_weir),
                WEIR_TEST(one_that_does_not_answer_is_too_late),
                WEIR_TEST(nonsense_ends_the_connection),
                WEIR_TEST(a_query_without_a_result_has_failed),
                WEIR_TEST(a_server_that_falls_silent_loses_its_connection),
                WEIR_TEST(a_backend_that_ends_while_idle_harms_nobody),
                WEIR_TEST(a_shutdown_does_not_wait_for_a_server_that_stands_still),
                WEIR_TEST(the_log_says_why_a_connection_broke_and_not_what_failed_before),
                WEIR_TEST(a_backend_that_ends_within_a_query_is_told),
                WEIR_TEST(a_server_may_be_killed_under_load),
                WEIR_TEST(and_with_a_pipeline),
                WEIR_TEST(a_child_leaves_the_connections_alone),
                WEIR_TEST(a_child_has_no_figures_of_its_parent),
        };

        return server_main("pq_faults", tests, sizeof tests / sizeof *tests);
}
