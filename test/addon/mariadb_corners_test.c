/* test/addon/mariadb_corners_test.c: what hardly ever happens: a query that counts on a connection which is cleaned, one that
 * begins within an attempt that fails, a limit of weeks, a transaction that is rolled back behind a lock; and settings that
 * cannot be.
 *
 * The linker puts the function below in front of that of weir (test/CMakeLists.txt). */
#include <poll.h>

#include "test/addon/mariadb_fake.h"

#include <weir/promise.h>

int __real_weir_promise_finish(weir_task *promise, int status, void *value, weir_free_fn *drop);
int __wrap_weir_promise_finish(weir_task *promise, int status, void *value, weir_free_fn *drop);

static _Atomic bool should_wait, may_go_on;

/* Behind the end of a query, the function that has its connection goes on when the test lets it. */
int
__wrap_weir_promise_finish(weir_task *promise, int status, void *value, weir_free_fn *drop)
{
        int ended = __real_weir_promise_finish(promise, status, value, drop);

        if (atomic_exchange(&should_wait, false))
                WEIR_TEST_EVENTUALLY(may_go_on);
        return ended;
}

struct end {
        _Atomic int calls;
        int status;
        unsigned code;
};

static void
note_end(weir_task *query, void *context)
{
        struct end *end = context;

        end->status = weir_task_status(query);
        end->code = weir_mariadb_code(query);
        end->calls++;
}

static weir_mariadb *
pool_of(const char *url, unsigned connections, weir_nsec connect_limit)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        config.connections = connections;
        config.connect_limit = connect_limit;
        config.clean_limit = WEIR_SEC(60);
        weir_mariadb *pool = weir_mariadb_new(url, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

/* -- a connection that is cleaned -- */

static _Atomic int served, left_open = -1;

/* The first connection says that it is within a transaction, and does not answer to ROLLBACK. */
static void
serve_once(int fd)
{
        static const unsigned char within[] = "\x07\0\0\x01\0\0\0\x03\0\0", done[] = "\x07\0\0\x01\0\0\0\x02\0\0";
        bool is_first = served++ == 0;

        if (!fake_greet(fd) || !fake_read(fd))
                return;
        fake_send(fd, is_first ? within : done, sizeof done);
        if (is_first)
                left_open = dup(fd);
        else
                while (fake_read(fd))
                        continue;
}

static void
one_that_counts_on_a_connection_that_is_cleaned_gets_another(void)
{
        struct fake fake;
        struct end first = {0}, second = {0};

        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        fake_begin(&fake, serve_once);
        weir_mariadb *pool = pool_of(fake.url, 2, WEIR_SEC(60));
        should_wait = true;
        weir_task_start(weir_mariadb_query_new(pool, "BEGIN", note_end, &first));
        WEIR_TEST_EVENTUALLY(first.calls == 1);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &second));
        may_go_on = true;
        WEIR_TEST_EVENTUALLY(second.calls == 1);
        CU_ASSERT(first.status == 0 && second.status == 0);
        shutdown(left_open, SHUT_RDWR);
        close(left_open);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- attempts to connect -- */

static void
the_code_of_an_attempt_is_for_those_that_it_ends(void)
{
        struct fake fake;
        struct end first = {0}, second = {0};

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        fake_begin(&fake, NULL);
        weir_mariadb *pool = pool_of(fake.url, 1, WEIR_MSEC(200));
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &first));
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 1);
        weir_test_sleep(WEIR_MSEC(5)); /* the attempt has its time */
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &second));
        WEIR_TEST_EVENTUALLY(first.calls == 1);
        weir_mariadb_close(pool);
        WEIR_TEST_EVENTUALLY(second.calls == 1);
        CU_ASSERT(first.status == -ETIMEDOUT && first.code != 0);
        CU_ASSERT(second.status == -EPIPE ? second.code == 0 : second.status == -ETIMEDOUT); /* on a slow machine */
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* 2 to the power of 32 milliseconds, and a little more. */
static void
a_limit_may_be_weeks(void)
{
        struct fake fake;
        struct end end = {0};

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        fake_begin(&fake, NULL);
        weir_mariadb *pool = pool_of(fake.url, 1, WEIR_MSEC(4294967296 + 30));
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &end));
        weir_test_sleep(WEIR_MSEC(150));
        CU_ASSERT_EQUAL(end.calls, 0);
        CU_ASSERT_EQUAL(server_stats(pool).refused, 0);
        weir_mariadb_close(pool);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

static _Atomic bool may_serve;

static void
serve_all(int fd)
{
        static const unsigned char done[] = "\x07\0\0\x01\0\0\0\x02\0\0";

        served++;
        WEIR_TEST_EVENTUALLY(may_serve);
        if (!fake_greet(fd))
                return;
        while (fake_read(fd))
                fake_send(fd, done, sizeof done);
}

/* Another connection waits to be accepted. */
static bool
is_dialled(const struct fake *fake)
{
        struct pollfd wait = {.fd = fake->listener, .events = POLLIN};

        return poll(&wait, 1, 0) == 1;
}

/* The fake serves one connection at a time, so the second one is never made. */
static void
an_idle_connection_is_taken_though_another_one_is_being_made(void)
{
        struct fake fake;
        struct end ends[4] = {0};

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        served = 0;
        fake_begin(&fake, serve_all);
        weir_mariadb *pool = pool_of(fake.url, 2, WEIR_SEC(60));
        for (unsigned i = 0; i < 2; i++)
                weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &ends[i]));
        WEIR_TEST_EVENTUALLY(served == 1 && is_dialled(&fake));
        may_serve = true;
        WEIR_TEST_EVENTUALLY(ends[0].calls == 1 && ends[1].calls == 1);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 1 && server_stats(pool).idle == 1);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &ends[2]));
        WEIR_TEST_EVENTUALLY(ends[2].calls == 1);
        CU_ASSERT_EQUAL(ends[2].status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connecting, 1);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- a transaction that is rolled back behind a lock -- */

/* What a lock does that is waited for in vain, and the server of these tests has innodb_rollback_on_timeout. */
static void
ignore_the_lock(weir_mariadb *transaction, weir_series *series, void *context)
{
        weir_series *careless = weir_series_new(NULL, NULL);

        (void)context;
        weir_series_push(careless,
                         weir_mariadb_query_new(transaction, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205", NULL, NULL));
        weir_series_push(series, weir_module_new(careless, NULL, NULL));
}

static void
a_lock_that_is_waited_for_in_vain_may_roll_back(void)
{
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new(pool, ignore_the_lock, NULL, NULL)), -ENOTRECOVERABLE);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- what cannot be -- */

static void
push_nothing(weir_mariadb *transaction, weir_series *series, void *context)
{
        (void)transaction, (void)series, (void)context;
}

static void
settings_without_effect_are_refused(void)
{
        struct weir_mariadb_transaction_config config = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        CU_ASSERT(weir_mariadb_new("mariadb://127.0.0.1/?ca=/tmp/ca.pem", NULL) == NULL && errno == EINVAL);
        CU_ASSERT(weir_mariadb_new("mariadb://127.0.0.1/?tls=no&key=/tmp/key.pem", NULL) == NULL && errno == EINVAL);
        weir_mariadb *pool = weir_mariadb_new("mariadb://127.0.0.1/?tls=verify&ca=/tmp/ca.pem", NULL);
        CU_ASSERT_PTR_NOT_NULL(pool);
        weir_mariadb_unref(pool);
        pool = server_pool(1, false);
        config.reserved = 1;
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new_with(pool, &config, push_nothing, NULL, NULL)), -EINVAL);
        weir_task *script = weir_mariadb_script_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_mariadb_add_int(script, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(script), -EINVAL); /* nobody has to look */
        script = weir_mariadb_script_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_mariadb_add_text(script, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(script), -EINVAL);
        weir_mariadb_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_that_counts_on_a_connection_that_is_cleaned_gets_another),
                WEIR_TEST(the_code_of_an_attempt_is_for_those_that_it_ends),
                WEIR_TEST(a_limit_may_be_weeks),
                WEIR_TEST(an_idle_connection_is_taken_though_another_one_is_being_made),
                WEIR_TEST(a_lock_that_is_waited_for_in_vain_may_roll_back),
                WEIR_TEST(settings_without_effect_are_refused),
        };

        return server_main("mariadb_corners", tests, sizeof tests / sizeof *tests);
}
