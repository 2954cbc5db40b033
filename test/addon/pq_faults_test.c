/* test/addon/pq_faults_test.c: servers that end, that do not answer, that answer nonsense, and that cannot be reached. */
#include "test/addon/pq_fake.h"

struct end {
        struct weir_test_latch latch;
        int status;
        char problem[512], sqlstate[8], value[64];
};

static void
note_end(weir_task *query, void *context)
{
        struct end *end = context;
        const char *problem = weir_pq_problem(query), *value = weir_pq_value(query, 0, 0, NULL);

        end->status = weir_task_status(query);
        snprintf(end->problem, sizeof end->problem, "%s", problem ? problem : "");
        snprintf(end->sqlstate, sizeof end->sqlstate, "%s", weir_pq_sqlstate(query));
        snprintf(end->value, sizeof end->value, "%s", value ? value : "");
        weir_test_latch_count_down(&end->latch);
}

static struct end
fresh(void)
{
        struct end end = {.status = 1};

        weir_test_latch_init(&end.latch, 1);
        return end;
}

static struct end
ask(weir_pq *pool, const char *sql)
{
        struct end end = fresh();

        weir_task_run(weir_pq_query_new(pool, sql, note_end, &end));
        return end;
}

static weir_pq *
pool_of(const char *conninfo, weir_nsec connect_limit)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        config.connect_limit = connect_limit;
        config.clean_limit = WEIR_MSEC(200);
        config.name = "test";
        weir_pq *pool = weir_pq_new(conninfo, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

static void
begin(unsigned pollers)
{
        weir_test_begin_real((int)pollers);
        weir_log_set(NULL, NULL);
}

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

static void
one_that_does_not_answer_is_too_late(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, NULL);
        weir_pq *pool = pool_of(fake.conninfo, WEIR_MSEC(50));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(server_stats(pool).connections, 0);
        weir_pq_unref(pool);
        pool = pool_of(fake.conninfo, WEIR_FOREVER);
        struct end late = fresh();
        weir_task *query = weir_pq_query_new(pool, "SELECT 1", note_end, &late);
        weir_pq_set_limit(query, WEIR_MSEC(30));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(late.problem,
                               "too late while it waited for a connection (pool test, 0 busy, 1 being made, 1 wait)");
        struct end closed = fresh();
        weir_task_start(weir_pq_query_new(pool, "SELECT 1", note_end, &closed));
        weir_pq_close(pool);
        weir_test_latch_wait(&closed.latch);
        CU_ASSERT_EQUAL(closed.status, -EPIPE);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        weir_pq_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- nonsense -- */

static _Atomic unsigned seed;

static void
serve_garbage(int fd)
{
        struct weir_test_random random = {seed++};
        unsigned char bytes[300];
        size_t size = 1 + weir_test_random_below(&random, sizeof bytes);

        for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)weir_test_random(&random);
        if (weir_test_random_below(&random, 4) == 0)
                bytes[0] = "NRESZTDC"[weir_test_random_below(&random, 8)];
        if (weir_test_random_below(&random, 3) > 0 && !fake_greet(fd))
                return;
        fake_send(fd, bytes, size);
        shutdown(fd, SHUT_WR);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
                continue;
}

static void
nonsense_ends_the_connection(void)
{
        struct fake fake;
        unsigned successes = 0;

        begin(2);
        seed = (unsigned)weir_test_seed();
        fake_begin(&fake, serve_garbage);
        weir_pq *pool = pool_of(fake.conninfo, WEIR_MSEC(100));
        for (int i = 0; i < 100; i++) {
                struct end end = fresh();
                weir_task *query = weir_pq_query_new(pool, "SELECT 1", note_end, &end);

                weir_pq_set_limit(query, WEIR_MSEC(50));
                weir_task_run(query);
                successes += end.status == 0;
                CU_ASSERT_NOT_EQUAL(end.problem[0], '\0');
        }
        CU_ASSERT_EQUAL(successes, 0);
        weir_pq_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

static void
serve_silence(int fd)
{
        char byte;

        if (fake_greet(fd))
                while (recv(fd, &byte, 1, 0) > 0)
                        continue;
}

/* Also the request to cancel gets no answer but the end of its connection. */
static void
a_server_that_falls_silent_loses_its_connection(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, serve_silence);
        weir_pq *pool = pool_of(fake.conninfo, WEIR_SEC(10));
        struct end end = fresh();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_query_new(pool, "SELECT 1", note_end, &end));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 1);
        weir_pq_unref(pool);
        fake_end(&fake);
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

enum { FLOWS = 16 };

static struct {
        weir_pq *pool;
        _Atomic bool should_stop;
        _Atomic unsigned right, lost, other, running;
        _Atomic int other_status;
} load;

static weir_task *next_query(void *context);

static void
note_load(weir_task *query, void *context)
{
        int status = weir_task_status(query);

        (void)context;
        if (status == 0)
                load.right++;
        else if (status == -ECONNRESET || status == -ECONNREFUSED || status == -ENOENT)
                load.lost++;
        else {
                load.other++;
                load.other_status = status;
        }
}

static weir_task *
next_query(void *context)
{
        if (load.should_stop)
                return NULL;
        weir_task *query = weir_pq_query_new(load.pool, "SELECT $1::int", note_load, context);
        weir_pq_add_int(query, 5);
        weir_pq_set_prepared(query);
        return query;
}

static void
note_flow(weir_task *task, void *context)
{
        (void)task, (void)context;
        load.running--;
}

static void
load_passes(unsigned count)
{
        unsigned before = load.right;

        WEIR_TEST_EVENTUALLY(load.right >= before + count);
}

static void
a_server_is_killed_and_started_under_load(unsigned pipeline)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        begin(2);
        config.connections = 5;
        config.pipeline = pipeline;
        memset(&load, 0, sizeof load);
        load.pool = weir_pq_new(server_conninfo(pipeline > 1), &config);
        load.running = FLOWS;
        for (unsigned i = 0; i < FLOWS; i++)
                weir_task_start(weir_repeater_new(next_query, note_flow, NULL));
        for (unsigned round = 0; round < 2; round++) {
                load_passes(500);
                unsigned lost = load.lost;
                if (round == 0)
                        server_kill();
                else
                        server_stop();
                WEIR_TEST_EVENTUALLY(load.lost >= lost + 2 * FLOWS);
                server_start();
        }
        load_passes(500);
        load.should_stop = true;
        WEIR_TEST_EVENTUALLY(load.running == 0);
        CU_ASSERT_EQUAL(load.other, 0);
        if (load.other)
                printf("status %d\n", load.other_status);
        struct weir_pq_stats stats = server_stats(load.pool); /* how long the server is away depends on the machine */
        CU_ASSERT(load.lost <= FLOWS * (stats.refused + stats.lost + 2));
        printf("%u queries, and %u when the server was not there\n", load.right, load.lost);
        weir_pq_unref(load.pool);
        weir_test_end();
}

static void
a_server_may_be_killed_under_load(void)
{
        a_server_is_killed_and_started_under_load(1);
}

static void
and_with_a_pipeline(void)
{
        a_server_is_killed_and_started_under_load(8);
}

/* -- forks -- */

static void
a_child_leaves_the_connections_alone(void)
{
        begin(1);
        weir_pq *pool = pool_of(server_conninfo(true), WEIR_SEC(10));
        char pid[64];
        snprintf(pid, sizeof pid, "%s", ask(pool, "SELECT pg_backend_pid()").value);
        pid_t child = fork();
        if (child == 0) {
                weir_test_leaks_do_not_count = 1;
                int refused = weir_task_start(weir_pq_query_new(pool, "SELECT 1", NULL, NULL));
                weir_pq_close(pool);
                weir_pq_unref(pool);
                _exit(refused == -ECHILD || refused == -ENOMEM ? 0 : 1);
        }
        int status;
        CU_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT pg_backend_pid()").value, pid);
        weir_pq_unref(pool);
        weir_test_end();
}

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
        notices += strncmp(message, "FATAL: pool test: FATAL:  terminating", 37) == 0;
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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(refusals_have_a_status),
                WEIR_TEST(names_are_looked_up_by_weir),
                WEIR_TEST(one_that_does_not_answer_is_too_late),
                WEIR_TEST(nonsense_ends_the_connection),
                WEIR_TEST(a_server_that_falls_silent_loses_its_connection),
                WEIR_TEST(a_backend_that_ends_while_idle_harms_nobody),
                WEIR_TEST(a_shutdown_does_not_wait_for_a_server_that_stands_still),
                WEIR_TEST(the_log_says_why_a_connection_broke_and_not_what_failed_before),
                WEIR_TEST(a_backend_that_ends_within_a_query_is_told),
                WEIR_TEST(a_server_may_be_killed_under_load),
                WEIR_TEST(and_with_a_pipeline),
                WEIR_TEST(a_child_leaves_the_connections_alone),
        };

        return server_main("pq_faults", tests, sizeof tests / sizeof *tests);
}
