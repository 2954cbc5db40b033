/* test/addon/reference_mariadb_guide_test.c: examples for the reference of weir/mariadb.h, and for docs/mariadb.md. */
#include "test/addon/mariadb_server.h"

/* -- weir/mariadb.h -- */

static weir_mariadb *db;

static void
show(weir_task *query, void *total)
{
        if (weir_task_status(query) != 0) {
                fprintf(stderr, "%s\n", weir_mariadb_problem(query));
                return;
        }
        for (size_t row = 0; row < weir_mariadb_rows(query); row++) {
                int64_t price = 0;

                weir_mariadb_int(query, row, 1, &price);
                printf("%s: %lld\n", weir_mariadb_value(query, row, 0, NULL), (long long)price);
                *(int64_t *)total += price;
        }
}

static void
orders_are_inserted_and_shown(void)
{
        int64_t total = 0;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *put = weir_mariadb_query_new(db, "INSERT INTO orders VALUES (?, ?)", NULL, NULL);

        weir_mariadb_add_text(put, "tea");
        weir_mariadb_add_int(put, 350);
        weir_series_stop_on_failure(series); /* no query if the insert fails */
        weir_series_push(series, put);
        weir_series_push(series, weir_mariadb_query_new(db, "SELECT * FROM orders", show, &total));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(total == 350);
}

static void
a_pool_has_a_config(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        config.name = "orders";
        config.connections = 20;
        config.limit = WEIR_SEC(5);
        weir_mariadb *orders = weir_mariadb_new(server_url(false), &config);
        weir_mariadb *same = weir_mariadb_ref(orders);
        struct weir_mariadb_stats stats = WEIR_MARIADB_STATS_DEFAULT;
        CU_ASSERT(weir_mariadb_stats(orders, &stats) == 0 && stats.connections == 0); /* it connects when there is a query */
        weir_mariadb_close(orders);
        CU_ASSERT(weir_task_run(weir_mariadb_query_new(same, "SELECT 1", NULL, NULL)) == -EPIPE);
        weir_mariadb_unref(same);
        weir_mariadb_unref(orders);
}

static void
figures_are_written(void)
{
        char text[32768];
        int ends[2];

        CU_ASSERT_FATAL(pipe(ends) == 0);
        CU_ASSERT(weir_mariadb_metrics_write(ends[1]) == 0);
        weir_metrics_add(weir_mariadb_metrics_write); /* once; then they are on /metrics */
        CU_ASSERT(weir_metrics_write(ends[1]) == 0);
        ssize_t size = read(ends[0], text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        CU_ASSERT(strstr(text, "weir_mariadb_connects_total{pool=\"test\"} 1\n") != NULL);
        close(ends[0]);
        close(ends[1]);
}

static void
look_at_all(weir_task *query, void *is_right)
{
        size_t size;
        const char *picture = weir_mariadb_value(query, 0, 1, &size);

        *(bool *)is_right = weir_mariadb_columns(query) == 2 && strcmp(weir_mariadb_name(query, 1), "picture") == 0 &&
                            weir_mariadb_column(query, "picture") == 1 && weir_mariadb_type(query, 1) > 0 && size == 3 &&
                            memcmp(picture, "\xff\0\x01", 3) == 0;
}

static void
values_may_be_binary(void)
{
        bool is_right = false;
        weir_task *query = weir_mariadb_query_new(db, "SELECT 'x' AS name, ? AS picture", look_at_all, &is_right);

        weir_mariadb_add_binary(query, "\xff\0\x01", 3);
        weir_mariadb_set_limit(query, WEIR_SEC(1));
        CU_ASSERT(weir_task_run(query) == 0);
        CU_ASSERT(is_right);
}

static void
note_number(weir_task *query, void *number)
{
        *(uint64_t *)number = weir_mariadb_affected(query) == 1 ? weir_mariadb_inserted(query) : 0;
}

static void
a_row_has_a_number(void)
{
        uint64_t number = 0;
        weir_task *insert = weir_mariadb_query_new(db, "INSERT INTO tickets VALUES ()", note_number, &number);

        weir_mariadb_set_prepared(insert); /* it comes often */
        CU_ASSERT(weir_task_run(insert) == 0);
        CU_ASSERT(number == 1);
}

static void
note_failure(weir_task *query, void *is_taken)
{
        if (weir_task_status(query) == -EEXIST) /* a duplicate key */
                *(bool *)is_taken = weir_mariadb_code(query) == 1062 && strcmp(weir_mariadb_sqlstate(query), "23000") == 0 &&
                                    weir_mariadb_warnings(query) == 0;
}

static void
a_name_is_taken(void)
{
        bool is_taken = false;
        weir_task *table = weir_mariadb_script_new(db,
                                                   "CREATE TABLE people (name VARCHAR(50) UNIQUE);"
                                                   "INSERT INTO people VALUES ('ada')",
                                                   NULL, NULL);

        CU_ASSERT(weir_task_run(table) == 0);
        weir_task *put = weir_mariadb_query_new(db, "INSERT INTO people VALUES ('ada')", note_failure, &is_taken);
        CU_ASSERT(weir_task_run(put) == -EEXIST);
        CU_ASSERT(is_taken);
}

/* -- transactions -- */

struct transfer {
        const char *from, *to;
        int64_t amount;
        weir_mariadb *transaction; /* to ask for the problem */
};

static weir_task *
change_new(weir_mariadb *transaction, const char *name, int64_t amount)
{
        weir_task *change = weir_mariadb_query_new(transaction, "UPDATE orders SET price = price + ? WHERE name = ?", NULL, NULL);

        weir_mariadb_add_int(change, amount);
        weir_mariadb_add_text(change, name);
        return change;
}

static void
push_changes(weir_mariadb *transaction, weir_series *series, void *context)
{
        struct transfer *transfer = context;

        if (!transfer->transaction)
                transfer->transaction = weir_mariadb_ref(transaction);
        weir_series_push(series, change_new(transaction, transfer->from, -transfer->amount));
        weir_series_push(series, change_new(transaction, transfer->to, transfer->amount));
}

static void
both_change_or_none_does(void)
{
        struct transfer transfer = {"tea", "cake", 100, NULL}, wrong = {"tea", "cake", -INT64_MAX, NULL};
        struct weir_mariadb_transaction_config config = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;

        CU_ASSERT(weir_task_run(weir_mariadb_transaction_new(db, push_changes, NULL, &transfer)) == 0);
        CU_ASSERT(weir_mariadb_transaction_committed(transfer.transaction) == 1);
        config.begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
        config.attempts = 5; /* if there is a deadlock with others */
        CU_ASSERT(weir_task_run(weir_mariadb_transaction_new_with(db, &config, push_changes, NULL, &wrong)) == -ERANGE);
        CU_ASSERT(strstr(weir_mariadb_transaction_problem(wrong.transaction), "out of range") != NULL);
        weir_mariadb_unref(transfer.transaction);
        weir_mariadb_unref(wrong.transaction);
}

/* -- rows one by one -- */

struct sum {
        weir_channel *rows;
        int64_t value;
};

static void
add_row(weir_task *receive, void *context)
{
        struct sum *sum = context;
        const weir_mariadb_row *row = weir_channel_message(receive);
        int64_t value = 0;

        if (weir_task_status(receive) != 0)
                return; /* -EPIPE: that was the last one */
        weir_mariadb_row_int(row, 0, &value);
        sum->value += value;
        weir_series_push(weir_series_of(receive), weir_channel_receive_new(sum->rows, add_row, sum));
}

static void
a_large_table_is_summed_up(void)
{
        struct sum sum = {weir_mariadb_rows_new(100), 0};
        weir_task *query = weir_mariadb_query_new(db, "SELECT seq FROM seq_1_to_10000", NULL, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        weir_mariadb_set_rows(query, sum.rows);
        weir_parallel_add(both, query);
        weir_parallel_add(both, weir_channel_receive_new(sum.rows, add_row, &sum));
        CU_ASSERT(weir_task_run(both) == 0);
        CU_ASSERT(sum.value == 50005000);
        weir_channel_unref(sum.rows);
}

static void
a_row_has_columns(void)
{
        weir_channel *rows = weir_mariadb_rows_new(1);
        weir_task *query = weir_mariadb_query_new(db, "SELECT 'x' AS a", NULL, NULL);
        void *message = NULL;

        weir_mariadb_set_rows(query, rows);
        CU_ASSERT(weir_task_run(query) == 0);
        CU_ASSERT(weir_channel_poll(rows, &message) == 0);
        weir_mariadb_row *row = message;
        CU_ASSERT(weir_mariadb_row_columns(row) == 1 && strcmp(weir_mariadb_row_name(row, 0), "a") == 0);
        CU_ASSERT(strcmp(weir_mariadb_row_value(row, 0, NULL), "x") == 0);
        weir_mariadb_row_free(row); /* it was taken out of the channel */
        weir_channel_unref(rows);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(orders_are_inserted_and_shown), WEIR_TEST(a_pool_has_a_config),        WEIR_TEST(figures_are_written),
                WEIR_TEST(values_may_be_binary),          WEIR_TEST(a_row_has_a_number),         WEIR_TEST(a_name_is_taken),
                WEIR_TEST(both_change_or_none_does),      WEIR_TEST(a_large_table_is_summed_up), WEIR_TEST(a_row_has_columns),
        };

        if (!server_make()) {
                printf("MariaDB is not installed: the examples are skipped\n");
                return 77;
        }
        server_ask("CREATE TABLE test.orders (name VARCHAR(50), price BIGINT)");
        server_ask("CREATE TABLE test.tickets (id BIGINT PRIMARY KEY AUTO_INCREMENT)");
        db = weir_mariadb_new(server_url(false), NULL);
        int outcome = weir_test_main("reference_mariadb_guide", tests, sizeof tests / sizeof *tests);
        weir_mariadb_unref(db);
        weir_shutdown();
        close(server.keeper);
        return outcome;
}
