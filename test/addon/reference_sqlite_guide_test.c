/* test/addon/reference_sqlite_guide_test.c: examples for the reference of weir/sqlite.h, and for docs/sqlite.md. */
#include "test/addon/sqlite.h"

/* -- weir/sqlite.h -- */

static weir_sqlite *db;

static void
show(weir_task *query, void *total)
{
        if (weir_task_status(query)) {
                fprintf(stderr, "%s\n", weir_sqlite_problem(query));
                return;
        }
        for (size_t row = 0; row < weir_sqlite_rows(query); row++) {
                int64_t price = weir_sqlite_int64(query, row, 1);

                printf("%s: %" PRId64 "\n", weir_sqlite_text(query, row, 0, NULL), price);
                *(int64_t *)total += price;
        }
}

static void
orders_are_inserted_and_shown(void)
{
        int64_t total = 0;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *put = weir_sqlite_exec_new(db, "INSERT INTO orders VALUES (?, ?)", NULL, NULL);

        weir_sqlite_bind_text(put, 1, "tea", SIZE_MAX);
        weir_sqlite_bind_int64(put, 2, 350);
        weir_series_stop_on_failure(series); /* no query if the insert fails */
        weir_series_push(series, put);
        weir_series_push(series, weir_sqlite_query_new(db, "SELECT * FROM orders", show, &total));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(total == 350);
}

/* One order, or none: both rows are written, or neither is. */
struct transfer {
        const char *from, *to;
        int64_t amount;
};

static int
add(weir_sqlite_connection *connection, const char *name, int64_t amount)
{
        struct sqlite3_stmt *update = weir_sqlite_prepare(connection, "UPDATE orders SET price = price + ? WHERE name = ?");

        if (!update)
                return sqlite3_extended_errcode(weir_sqlite_handle(connection));
        sqlite3_bind_int64(update, 1, amount);
        sqlite3_bind_text(update, 2, name, -1, SQLITE_STATIC);
        int code = sqlite3_step(update);
        return code == SQLITE_DONE && sqlite3_changes(weir_sqlite_handle(connection)) == 0 ? -ENOENT : code;
}

static int
transfer(weir_sqlite_connection *connection, void *context)
{
        const struct transfer *transfer = context;
        int failed = add(connection, transfer->from, -transfer->amount);

        return failed == SQLITE_DONE ? add(connection, transfer->to, transfer->amount) : failed;
}

static void
a_function_has_a_transaction(void)
{
        struct transfer to_nobody = {"tea", "nobody", 50};

        CU_ASSERT(weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO orders VALUES ('tea', 350)", NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_sqlite_write_new(db, transfer, NULL, &to_nobody)) == -ENOENT);
        CU_ASSERT(sqlite_number(db, "SELECT price FROM orders WHERE name = 'tea'") == 350);
}

static int
sum_prices(weir_sqlite_connection *connection, void *sum)
{
        struct sqlite3_stmt *each = weir_sqlite_prepare(connection, "SELECT price FROM orders");
        int code;

        while ((code = sqlite3_step(each)) == SQLITE_ROW && !weir_sqlite_cancelled(connection))
                *(int64_t *)sum += sqlite3_column_int64(each, 0); /* row by row, however many there are */
        return code;
}

static void
a_function_reads_a_large_result(void)
{
        int64_t sum = 0;

        CU_ASSERT(weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO orders VALUES ('a', 1), ('b', 2)", NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_sqlite_read_new(db, sum_prices, NULL, &sum)) == 0);
        CU_ASSERT(sum == 3);
}

static int
make_tables(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "CREATE TABLE IF NOT EXISTS orders(name TEXT UNIQUE, price)");
}

static void
open_orders(const char *path)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.on_writer = make_tables;
        config.busy_limit = WEIR_SEC(1);
        db = weir_sqlite_new(path, &config);
}

static void
show_types(weir_task *query, void *context)
{
        size_t size;

        (void)context;
        CU_ASSERT_EQUAL(weir_sqlite_column(query, weir_sqlite_name(query, 1)), 1);
        for (size_t column = 0; column < weir_sqlite_columns(query); column++)
                printf("%s is of type %d\n", weir_sqlite_name(query, column), weir_sqlite_type(query, 0, column));
        printf("%f, ", weir_sqlite_double(query, 0, 0));
        if (weir_sqlite_blob(query, 0, 1, &size))
                printf("%zu bytes\n", size);
}

static void
values_have_types(void)
{
        weir_task *query = weir_sqlite_query_new(db, "SELECT ? AS price, ? AS picture, ? AS note", show_types, NULL);

        weir_sqlite_bind_double(query, 1, 3.5);
        weir_sqlite_bind_blob(query, 2, "\x89PNG", 4);
        weir_sqlite_bind_null(query, 3);
        CU_ASSERT(weir_task_run(query) == 0);
}

static void
keep_id(weir_task *insert, void *id)
{
        if (weir_sqlite_affected(insert) == 1)
                *(int64_t *)id = weir_sqlite_inserted(insert);
        else if (weir_sqlite_code(insert) == SQLITE_CONSTRAINT_UNIQUE)
                *(int64_t *)id = -1; /* it is there already */
}

static void
an_insert_says_its_id(void)
{
        int64_t ids[2];

        for (int i = 0; i < 2; i++)
                weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO orders VALUES ('tea', 350)", keep_id, &ids[i]));
        CU_ASSERT(ids[0] == 1 && ids[1] == -1);
}

static void
a_program_closes_its_database(void)
{
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
        weir_sqlite *same = weir_sqlite_ref(db);

        CU_ASSERT(weir_task_run(weir_sqlite_exec_alone_new(same, "VACUUM", NULL, NULL)) == 0);
        CU_ASSERT(weir_sqlite_stats(same, &stats) == 0 && stats.commits == 1);
        CU_ASSERT(weir_sqlite_metrics_write(STDOUT_FILENO) == 0);
        weir_metrics_add(weir_sqlite_metrics_write); /* once; then they are on /metrics */
        CU_ASSERT(weir_task_run(weir_sqlite_close_new(same, NULL, NULL)) == 0);
        weir_sqlite_unref(same);
}

/* -- the suite -- */

#define EXAMPLE(name)                                                                     \
        static void run_##name(void)                                                      \
        {                                                                                 \
                weir_test_begin_real(2);                                                  \
                sqlite_make_directory();                                                  \
                open_orders(sqlite_path);                                                 \
                name();                                                                   \
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(db, NULL, NULL)), 0); \
                weir_sqlite_unref(db);                                                    \
                weir_test_end();                                                          \
                sqlite_remove_directory();                                                \
        }

EXAMPLE(orders_are_inserted_and_shown)
EXAMPLE(a_function_has_a_transaction)
EXAMPLE(a_function_reads_a_large_result)
EXAMPLE(values_have_types)
EXAMPLE(an_insert_says_its_id)
EXAMPLE(a_program_closes_its_database)

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(run_orders_are_inserted_and_shown),   WEIR_TEST(run_a_function_has_a_transaction),
                WEIR_TEST(run_a_function_reads_a_large_result), WEIR_TEST(run_values_have_types),
                WEIR_TEST(run_an_insert_says_its_id),           WEIR_TEST(run_a_program_closes_its_database),
        };

        return weir_test_main("sqlite guide", tests, sizeof tests / sizeof *tests);
}
