/* test/addon/sql_faults.h: what the suites of servers that end, are silent or talk nonsense share. */
#ifndef WEIR_TEST_SQL_FAULTS_H
#define WEIR_TEST_SQL_FAULTS_H

#include "test/addon/sql_fake.h"

struct end {
        struct weir_test_latch latch;
        int status;
        char problem[512], sqlstate[8], value[64];
};

static void
note_end(weir_task *query, void *context)
{
        struct end *end = context;
        const char *problem = SQL(problem)(query), *value = SQL(value)(query, 0, 0, NULL);

        end->status = weir_task_status(query);
        snprintf(end->problem, sizeof end->problem, "%s", problem ? problem : "");
        snprintf(end->sqlstate, sizeof end->sqlstate, "%s", SQL(sqlstate)(query));
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
ask(SQL_POOL *pool, const char *sql)
{
        struct end end = fresh();

        weir_task_run(SQL(query_new)(pool, sql, note_end, &end));
        return end;
}

static SQL_POOL *
pool_of(const char *url, weir_nsec connect_limit)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;

        config.connect_limit = connect_limit;
        config.clean_limit = WEIR_MSEC(200);
        config.name = "test";
        SQL_POOL *pool = SQL(new)(url, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

static void
begin(unsigned pollers)
{
        weir_test_begin_real((int)pollers);
        weir_log_set(NULL, NULL);
}

/* -- silence and nonsense -- */

static void
one_that_does_not_answer_is_too_late(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, NULL);
        SQL_POOL *pool = pool_of(fake.url, WEIR_MSEC(50));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        SQL(unref)(pool);
        pool = pool_of(fake.url, WEIR_FOREVER);
        struct end late = fresh();
        weir_task *query = SQL(query_new)(pool, "SELECT 1", note_end, &late);
        SQL(set_limit)(query, WEIR_MSEC(30));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(late.problem,
                               "too late while it waited for a connection (pool test, 0 busy, 1 being made, 1 wait)");
        struct end closed = fresh();
        weir_task_start(SQL(query_new)(pool, "SELECT 1", note_end, &closed));
        SQL(close)(pool);
        weir_test_latch_wait(&closed.latch);
        CU_ASSERT_EQUAL(closed.status, -EPIPE);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        SQL(unref)(pool);
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
                bytes[0] = FAKE_BYTES[weir_test_random_below(&random, 8)];
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
        SQL_POOL *pool = pool_of(fake.url, WEIR_MSEC(100));
        for (int i = 0; i < 100; i++) {
                struct end end = fresh();
                weir_task *query = SQL(query_new)(pool, "SELECT 1", note_end, &end);

                SQL(set_limit)(query, WEIR_MSEC(50));
                weir_task_run(query);
                successes += end.status == 0;
                CU_ASSERT_NOT_EQUAL(end.problem[0], '\0');
        }
        CU_ASSERT_EQUAL(successes, 0);
        SQL(unref)(pool);
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

/* Also what would end the query at the server gets no answer. */
static void
a_server_that_falls_silent_loses_its_connection(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, serve_silence);
        SQL_POOL *pool = pool_of(fake.url, WEIR_SEC(10));
        struct end end = fresh();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, SQL(query_new)(pool, "SELECT 1", note_end, &end));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        WEIR_TEST_EVENTUALLY(server_stats(pool).lost == 1);
        SQL(unref)(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- a server that ends under load -- */

enum { FLOWS = 16 };

static struct {
        SQL_POOL *pool;
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
        weir_task *query = SQL(query_new)(load.pool, SQL_ECHO, note_load, context);
        SQL(add_int)(query, 5);
        SQL(set_prepared)(query);
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
a_server_is_killed_and_started_under_load(const char *url, struct SQL(config) * config)
{
        begin(2);
        config->connections = 5;
        memset(&load, 0, sizeof load);
        load.pool = SQL(new)(url, config);
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
        struct SQL(stats) stats = server_stats(load.pool); /* how long the server is away depends on the machine */
        CU_ASSERT(load.lost <= FLOWS * (stats.refused + stats.lost + 2));
        printf("%u queries, and %u when the server was not there\n", load.right, load.lost);
        SQL(unref)(load.pool);
        weir_test_end();
}

/* -- forks -- */

static void
a_child_leaves_the_connections_alone(void)
{
        begin(1);
        SQL_POOL *pool = pool_of(server_url(true), WEIR_SEC(10));
        char pid[64];
        snprintf(pid, sizeof pid, "%s", ask(pool, SQL_CONNECTION).value);
        pid_t child = fork();
        if (child == 0) {
                weir_test_leaks_do_not_count = 1;
                int refused = weir_task_start(SQL(query_new)(pool, "SELECT 1", NULL, NULL));
                SQL(close)(pool);
                SQL(unref)(pool);
                _exit(refused == -ECHILD || refused == -ENOMEM ? 0 : 1);
        }
        int status;
        CU_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, SQL_CONNECTION).value, pid);
        SQL(unref)(pool);
        weir_test_end();
}

static _Atomic bool should_write;

static void *
write_figures(void *context)
{
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)context;
        while (should_write)
                SQL(metrics_write)(null);
        close(null);
        return NULL;
}

/* A thread of the parent may be within the list of pools at that time; but AddressSanitizer's malloc has locks that a child would
 * wait for. */
static void
a_child_has_no_figures_of_its_parent(void)
{
        pthread_t writer;
        int status;
#ifdef __SANITIZE_ADDRESS__
        bool is_within = false;
#else
        bool is_within = true;
#endif

        weir_test_begin_real(1);
        SQL_POOL *pool = sql_pool(1, false);
        should_write = is_within;
        pthread_create(&writer, NULL, write_figures, NULL);
        for (int i = 0; i < 50; i++) {
                pid_t child = fork();
                if (child == 0) {
                        weir_test_leaks_do_not_count = 1;
                        alarm(20);
                        int refused = SQL(metrics_write)(STDOUT_FILENO);
                        SQL_POOL *own = SQL(new)(server_url(true), NULL);
                        _exit(refused == -ECHILD && own && SQL(metrics_write)(open("/dev/null", O_WRONLY | O_CLOEXEC)) == 0 ? 0
                                                                                                                            : 1);
                }
                CU_ASSERT_FATAL(waitpid(child, &status, 0) == child);
                CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        should_write = false;
        pthread_join(writer, NULL);
        SQL(unref)(pool);
        weir_test_end();
}

#endif
