/* test/addon/pq_corners_test.c: what hardly ever happens: an answer too late, an end of COPY that libpq does not take, a
 * limit without end.
 *
 * The linker puts the functions below in front of those of libpq and of the library (test/CMakeLists.txt). */
#include "test/addon/pq_fake.h"

#include <weir/promise.h>

int __real_PQputCopyData(PGconn *connection, const char *data, int size);
int __wrap_PQputCopyData(PGconn *connection, const char *data, int size);
int __real_PQputCopyEnd(PGconn *connection, const char *problem);
int __wrap_PQputCopyEnd(PGconn *connection, const char *problem);
int __real_PQsetvalue(PGresult *result, int row, int column, char *value, int size);
int __wrap_PQsetvalue(PGresult *result, int row, int column, char *value, int size);
const char *__real_weir_pq_sqlstate(const weir_task *query);
const char *__wrap_weir_pq_sqlstate(const weir_task *query);

/* -- an answer that comes too late -- */

static _Atomic unsigned greeted;                   /* connections */
static _Atomic bool should_wait, waits, may_go_on; /* of the callback that sees the loss */

/* The first thing that the library asks for in the callback of LISTEN. */
const char *
__wrap_weir_pq_sqlstate(const weir_task *query)
{
        if (weir_task_status(query) != 0 && atomic_exchange(&should_wait, false)) {
                CU_ASSERT_EQUAL(weir_blocking_begin(), 0); /* others go on with what waits behind it */
                waits = true;
                WEIR_TEST_EVENTUALLY(may_go_on);
                weir_blocking_end();
        }
        return __real_weir_pq_sqlstate(query);
}

static void
await_message(int fd)
{
        struct pollfd wait = {.fd = fd, .events = POLLIN};

        (void)poll(&wait, 1, -1);
}

/* The first connection is lost when LISTEN has come, and the callback of that goes on when the second one has got a LISTEN. */
static void
lose_the_first(int fd)
{
        static const char listening[] = "1\0\0\0\x04"
                                        "2\0\0\0\x04"
                                        "n\0\0\0\x04"
                                        "C\0\0\0\x0bLISTEN\0Z\0\0\0\x05I";
        char bytes[512];

        if (!fake_greet(fd))
                return;
        unsigned number = ++greeted;
        if (number == 1) {
                await_message(fd);
                return;
        }
        if (number == 2) {
                await_message(fd);
                weir_test_sleep(WEIR_MSEC(50)); /* both are to be asked for by then */
                may_go_on = true;
                weir_test_sleep(WEIR_MSEC(50));
        }
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
                fake_send(fd, listening, sizeof listening - 1);
}

static void
an_answer_of_a_lost_connection_is_not_taken_for_one_of_the_next(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        struct fake fake;
        void *event = NULL;

        greeted = 0;
        should_wait = true;
        waits = may_go_on = false;
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        fake_begin(&fake, lose_the_first);
        config.connect_limit = WEIR_SEC(3600); /* at a limit the pool would ask again */
        weir_pq *pool = weir_pq_new(fake.url, &config);
        weir_channel *events = weir_pq_events_new(10), *others = weir_pq_events_new(10);
        weir_pq_listener *listener = weir_pq_listen(pool, "orders", events);
        WEIR_TEST_EVENTUALLY(waits);
        weir_pq_listener *other = weir_pq_listen(pool, "others", others); /* it makes the second connection */
        WEIR_TEST_EVENTUALLY(weir_channel_poll(events, &event) == 0);
        CU_ASSERT(event && !weir_pq_event_payload(event));
        weir_pq_event_free(event);
        weir_pq_unlisten(listener);
        weir_pq_unlisten(other);
        weir_channel_unref(events);
        weir_channel_unref(others);
        weir_pq_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- an end of COPY that libpq does not take -- */

static _Atomic unsigned refusals; /* that are still to come */

int
__wrap_PQputCopyEnd(PGconn *connection, const char *problem)
{
        if (refusals > 0) {
                refusals--;
                return -1;
        }
        return __real_PQputCopyEnd(connection, problem);
}

static void
a_copy_whose_end_is_refused_fails(void)
{
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(1, 0, false);
        server_ask("CREATE TABLE copied (word text)");
        for (int i = 0; i < 3; i++) {
                weir_channel *input = weir_pq_rows_new(10);
                weir_task *copy = weir_pq_query_new(pool, "COPY copied FROM STDIN", NULL, NULL);

                refusals = i < 2 ? 1000000 : 0;
                weir_channel_post(input, weir_pq_row_new("tea\n", 4));
                if (i != 1)
                        weir_channel_close(input);
                weir_pq_set_input(copy, input);
                if (i == 1)
                        weir_pq_set_limit(copy, WEIR_MSEC(100));
                CU_ASSERT_EQUAL(weir_task_run(copy), i == 0 ? -ENOMEM : i == 1 ? -ETIMEDOUT : 0);
                weir_channel_unref(input);
        }
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT count(*) FROM copied"), "1");
        CU_ASSERT_EQUAL(server_stats(pool).lost, 2);
        weir_pq_unref(pool);
        weir_test_end();
}

static _Atomic size_t largest; /* piece that libpq got */

int
__wrap_PQputCopyData(PGconn *connection, const char *data, int size)
{
        largest = largest > (size_t)size ? largest : (size_t)size;
        return __real_PQputCopyData(connection, data, size);
}

/* libpq takes the size as an int, so more than 2 GiB would be lost. */
static void
a_large_message_goes_in_pieces(void)
{
        enum { SIZE = 3000000 };
        char *bytes = malloc(SIZE);

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *input = weir_pq_rows_new(10);
        server_ask("CREATE TABLE pieces (word text)");
        memset(bytes, 'x', SIZE);
        bytes[SIZE - 1] = '\n';
        weir_channel_post(input, weir_pq_row_new(bytes, SIZE));
        weir_channel_close(input);
        free(bytes);
        weir_task *copy = weir_pq_query_new(pool, "COPY pieces FROM STDIN", NULL, NULL);
        weir_pq_set_input(copy, input);
        largest = 0;
        CU_ASSERT_EQUAL(weir_task_run(copy), 0);
        CU_ASSERT(largest > 0 && largest <= 1 << 20);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT length(word) FROM pieces"), "2999999");
        weir_channel_unref(input);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- a pipeline of which only what was cancelled is left -- */

static void
what_was_cancelled_behind_others_holds_no_connection(void)
{
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 8, false);
        weir_series *all[3];
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        for (int i = 0; i < 3; i++) {
                all[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(all[i],
                                 weir_pq_query_new(pool, i == 0 ? "SELECT pg_sleep(0.3)" : "SELECT pg_sleep(600)", NULL, NULL));
                weir_series_start(all[i]);
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 4);
        weir_series_cancel(all[1]);
        weir_series_cancel(all[2]);
        WEIR_TEST_EVENTUALLY(server_stats(pool).cancelled == 2); /* else the next one may be sent behind them */
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 2", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        for (int i = 0; i < 3; i++)
                weir_series_unref(all[i]);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- notices, and what is reserved -- */

static _Atomic unsigned notices, warnings;

static void
count_notices(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        notices += level == WEIR_LOG_INFO && strcmp(message, "NOTICE: pool test: own words") == 0;
        warnings += level == WEIR_LOG_WARNING && strcmp(message, "WARNING: pool test: own words") == 0;
}

static void
the_log_has_what_the_server_says(void)
{
        weir_test_begin_real(1);
        weir_log_set(count_notices, NULL);
        weir_pq *pool = server_pool(1, 0, false);
        weir_task_run(weir_pq_query_new(pool, "DO $$ BEGIN RAISE NOTICE 'own words'; END $$", NULL, NULL));
        weir_task_run(weir_pq_query_new(pool, "DO $$ BEGIN RAISE WARNING 'own words'; END $$", NULL, NULL));
        WEIR_TEST_EVENTUALLY(notices == 1 && warnings == 1);
        weir_pq_unref(pool);
        weir_log_set(NULL, NULL);
        weir_test_end();
}

static void
push_nothing(weir_pq *transaction, weir_series *series, void *context)
{
        (void)transaction, (void)series, (void)context;
}

static void
what_is_reserved_is_refused(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        struct weir_pq_transaction_config with = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        config.reserved = with.reserved = 1;
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_pq_new(server_conninfo(false), &config));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new_with(pool, &with, push_nothing, NULL, NULL)), -EINVAL);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- limits without end -- */

static void
a_limit_may_be_nearly_for_ever(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.connections = 1;
        config.connect_limit = config.limit = config.idle_limit = config.age_limit = WEIR_FOREVER - 1;
        config.clean_limit = config.check_after = WEIR_FOREVER - 1;
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_query_new(pool, "SELECT pg_sleep(60)", NULL, NULL));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")[0] == '1');
        pid_t backend = atoi(server_ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"));
        CU_ASSERT_TRUE_FATAL(backend > 1 && kill(backend, SIGSTOP) == 0); /* it sees no cancel */
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_task *late = weir_pq_query_new(pool, "SELECT 1", NULL, NULL); /* the pool looks at its limits meanwhile */
        weir_pq_set_limit(late, WEIR_MSEC(30));
        CU_ASSERT_EQUAL(weir_task_run(late), -ETIMEDOUT);
        CU_ASSERT_EQUAL(kill(backend, SIGCONT), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- rows of a result with bounds, for which libpq has no memory -- */

static _Atomic int rows_left; /* that it takes */

int
__wrap_PQsetvalue(PGresult *result, int row, int column, char *value, int size)
{
        return rows_left-- > 0 ? __real_PQsetvalue(result, row, column, value, size) : 0;
}

static void
note_rows(weir_task *query, void *rows)
{
        *(size_t *)rows = weir_pq_rows(query);
}

static void
a_row_that_cannot_be_kept_fails_the_query(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        size_t rows = 9;

        weir_test_begin_real(1);
        config.connections = 1;
        config.max_rows = 100;
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        rows_left = 2;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, SQL_COUNT_TO(50), note_rows, &rows)), -ENOMEM);
        CU_ASSERT_EQUAL(rows, 0);
        rows_left = 49;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, SQL_COUNT_TO(50), note_rows, &rows)), 0);
        CU_ASSERT_EQUAL(rows, 50);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_answer_of_a_lost_connection_is_not_taken_for_one_of_the_next),
                WEIR_TEST(a_copy_whose_end_is_refused_fails),
                WEIR_TEST(a_large_message_goes_in_pieces),
                WEIR_TEST(what_was_cancelled_behind_others_holds_no_connection),
                WEIR_TEST(the_log_has_what_the_server_says),
                WEIR_TEST(what_is_reserved_is_refused),
                WEIR_TEST(a_limit_may_be_nearly_for_ever),
                WEIR_TEST(a_row_that_cannot_be_kept_fails_the_query),
        };

        return server_main("pq_corners", tests, sizeof tests / sizeof *tests);
}
