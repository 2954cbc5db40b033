/* test/addon/reference_pq_guide_test.c: examples for the reference of weir/pq.h, and for docs/pq.md. */
#include "test/addon/pq_server.h"

/* -- weir/pq.h -- */

static weir_pq *pool;

static void
show(weir_task *query, void *total)
{
        if (weir_task_status(query) != 0) {
                fprintf(stderr, "%s\n", weir_pq_problem(query));
                return;
        }
        for (size_t row = 0; row < weir_pq_rows(query); row++) {
                int64_t price = 0;

                weir_pq_int(query, row, 1, &price);
                printf("%s: %lld\n", weir_pq_value(query, row, 0, NULL), (long long)price);
                *(int64_t *)total += price;
        }
}

static void
orders_are_inserted_and_shown(void)
{
        int64_t total = 0;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *put = weir_pq_query_new(pool, "INSERT INTO orders VALUES ($1, $2)", NULL, NULL);

        weir_pq_add_text(put, "tea");
        weir_pq_add_int(put, 350);
        weir_series_stop_on_failure(series); /* no query if the insert fails */
        weir_series_push(series, put);
        weir_series_push(series, weir_pq_query_new(pool, "SELECT * FROM orders", show, &total));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(total == 350);
}

static void
a_pool_has_a_config(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        config.name = "orders";
        config.connections = 20;
        config.limit = WEIR_SEC(5);
        weir_pq *orders = weir_pq_new(server_conninfo(false), &config);
        weir_pq *same = weir_pq_ref(orders);
        struct weir_pq_stats stats = WEIR_PQ_STATS_DEFAULT;
        CU_ASSERT(weir_pq_stats(orders, &stats) == 0 && stats.connections == 0); /* it connects when there is a query */
        weir_pq_close(orders);
        CU_ASSERT(weir_task_run(weir_pq_query_new(same, "SELECT 1", NULL, NULL)) == -EPIPE);
        weir_pq_unref(same);
        weir_pq_unref(orders);
}

static void
figures_are_written(void)
{
        char text[32768];
        int ends[2];

        CU_ASSERT_FATAL(pipe(ends) == 0);
        CU_ASSERT(weir_pq_metrics_write(ends[1]) == 0);
        weir_metrics_add(weir_pq_metrics_write); /* once; then they are on /metrics */
        CU_ASSERT(weir_metrics_write(ends[1]) == 0);
        ssize_t size = read(ends[0], text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        CU_ASSERT(strstr(text, "weir_pq_connects_total{pool=\"postgres\"} 1\n") != NULL);
        close(ends[0]);
        close(ends[1]);
}

static void
look_at_all(weir_task *query, void *is_right)
{
        size_t size;
        const char *picture = weir_pq_value(query, 0, 1, &size);

        *(bool *)is_right = weir_pq_columns(query) == 2 && strcmp(weir_pq_name(query, 1), "picture") == 0 &&
                            weir_pq_column(query, "picture") == 1 && weir_pq_type(query, 1) == 17 && /* bytea */
                            weir_pq_affected(query) == 1 && size == 3 && memcmp(picture, "\xff\0\x01", 3) == 0;
}

static void
values_may_be_binary(void)
{
        bool is_right = false;
        weir_task *query = weir_pq_query_new(pool, "SELECT 'x' AS name, $1 AS picture", look_at_all, &is_right);

        weir_pq_add_binary(query, 17, "\xff\0\x01", 3);
        weir_pq_set_binary(query);
        weir_pq_set_prepared(query); /* once for each connection */
        weir_pq_set_limit(query, WEIR_SEC(1));
        CU_ASSERT(weir_task_run(query) == 0);
        CU_ASSERT(is_right);
}

static void
note_failure(weir_task *query, void *is_taken)
{
        if (weir_task_status(query) == -EEXIST) /* unique_violation */
                *(bool *)is_taken = strcmp(weir_pq_field(query, 'n'), "one_name") == 0 &&
                                    strcmp(weir_pq_sqlstate(query), "23505") == 0;
}

static void
a_name_is_taken(void)
{
        bool is_taken = false;
        weir_task *table = weir_pq_script_new(pool,
                                              "CREATE TABLE people (name text CONSTRAINT one_name UNIQUE);"
                                              "INSERT INTO people VALUES ('ada')",
                                              NULL, NULL);

        CU_ASSERT(weir_task_run(table) == 0);
        weir_task *put = weir_pq_query_new(pool, "INSERT INTO people VALUES ('ada')", note_failure, &is_taken);
        CU_ASSERT(weir_task_run(put) == -EEXIST);
        CU_ASSERT(is_taken);
}

/* -- transactions -- */

struct transfer {
        const char *from, *to;
        int64_t amount;
        weir_pq *transaction; /* to ask for the problem */
};

static weir_task *
change_new(weir_pq *transaction, const char *name, int64_t amount)
{
        weir_task *change = weir_pq_query_new(transaction, "UPDATE orders SET price = price + $2 WHERE name = $1", NULL, NULL);

        weir_pq_add_text(change, name);
        weir_pq_add_int(change, amount);
        return change;
}

static void
push_changes(weir_pq *transaction, weir_series *series, void *context)
{
        struct transfer *transfer = context;

        if (!transfer->transaction)
                transfer->transaction = weir_pq_ref(transaction);
        weir_series_push(series, change_new(transaction, transfer->from, -transfer->amount));
        weir_series_push(series, change_new(transaction, transfer->to, transfer->amount));
}

static void
both_change_or_none_does(void)
{
        struct transfer transfer = {"tea", "cake", 100, NULL}, wrong = {"tea", "cake", -INT64_MAX, NULL};
        struct weir_pq_transaction_config config = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;

        CU_ASSERT(weir_task_run(weir_pq_transaction_new(pool, push_changes, NULL, &transfer)) == 0);
        CU_ASSERT(weir_pq_transaction_committed(transfer.transaction) == 1);
        config.begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
        config.attempts = 5; /* if others have changed the same */
        CU_ASSERT(weir_task_run(weir_pq_transaction_new_with(pool, &config, push_changes, NULL, &wrong)) == -ERANGE);
        CU_ASSERT(strstr(weir_pq_transaction_problem(wrong.transaction), "out of range") != NULL);
        weir_pq_unref(transfer.transaction);
        weir_pq_unref(wrong.transaction);
}

static void
push_gift(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO orders VALUES ('gift', 0)", NULL, NULL));
        weir_series_push(series, weir_pq_query_new(transaction, "UPDATE gifts SET sent = true", NULL, NULL));
}

/* There is no table of gifts.  The order goes on without one. */
static void
on_gift(weir_task *gift, void *context)
{
        (void)context;
        if (weir_task_status(gift) == -ENOENT)
                return;
        if (weir_task_status(gift))
                weir_series_fail(weir_series_of(gift), weir_task_status(gift)); /* the transaction ends, too */
}

static void
push_order(weir_pq *transaction, weir_series *series, void *context)
{
        weir_task_fn *done = on_gift;

        (void)context;
        weir_series_push(series, change_new(transaction, "tea", 1));
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_gift, done, NULL));
        weir_series_push(series, change_new(transaction, "cake", 1));
}

static void
a_part_that_fails_is_undone_alone(void)
{
        CU_ASSERT(weir_task_run(weir_pq_transaction_new(pool, push_order, NULL, NULL)) == 0);
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
        const weir_pq_row *row = weir_channel_message(receive);
        int64_t value = 0;

        if (weir_task_status(receive) != 0)
                return; /* -EPIPE: that was the last one */
        weir_pq_row_int(row, 0, &value);
        sum->value += value;
        weir_series_push(weir_series_of(receive), weir_channel_receive_new(sum->rows, add_row, sum));
}

static void
a_large_table_is_summed_up(void)
{
        struct sum sum = {weir_pq_rows_new(100), 0};
        weir_task *query = weir_pq_query_new(pool, "SELECT generate_series(1, 10000)", NULL, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        weir_pq_set_rows(query, sum.rows);
        weir_parallel_add(both, query);
        weir_parallel_add(both, weir_channel_receive_new(sum.rows, add_row, &sum));
        CU_ASSERT(weir_task_run(both) == 0);
        CU_ASSERT(sum.value == 50005000);
        weir_channel_unref(sum.rows);
}

static void
a_row_has_columns(void)
{
        weir_channel *rows = weir_pq_rows_new(1);
        weir_task *query = weir_pq_query_new(pool, "SELECT 'x' AS a", NULL, NULL);
        void *message = NULL;

        weir_pq_set_rows(query, rows);
        CU_ASSERT(weir_task_run(query) == 0);
        CU_ASSERT(weir_channel_poll(rows, &message) == 0);
        weir_pq_row *row = message;
        CU_ASSERT(weir_pq_row_columns(row) == 1 && strcmp(weir_pq_row_name(row, 0), "a") == 0);
        CU_ASSERT(strcmp(weir_pq_row_value(row, 0, NULL), "x") == 0);
        weir_pq_row_free(row); /* it was taken out of the channel */
        weir_channel_unref(rows);
}

static void
copy_takes_lines(void)
{
        weir_channel *input = weir_pq_rows_new(WEIR_UNBOUNDED);
        weir_task *copy = weir_pq_query_new(pool, "COPY orders FROM STDIN", NULL, NULL);

        weir_channel_post(input, weir_pq_row_new("milk\t120\n", 9));
        weir_channel_post(input, weir_pq_row_new("bread\t410\n", 10));
        weir_channel_close(input); /* that was all */
        weir_pq_set_input(copy, input);
        CU_ASSERT(weir_task_run(copy) == 0);
        weir_channel_unref(input);
}

static void
one_table_goes_into_another(void)
{
        weir_channel *between = weir_pq_rows_new(100);
        weir_task *out = weir_pq_query_new(pool, "COPY orders TO STDOUT", NULL, NULL);
        weir_task *in = weir_pq_query_new(pool, "COPY old_orders FROM STDIN", NULL, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        weir_pq_set_rows(out, between);
        weir_pq_set_input(in, between);
        weir_parallel_add(both, out);
        weir_parallel_add(both, in);
        CU_ASSERT(weir_task_run(both) == 0);
        weir_channel_unref(between);
}

/* -- notifications -- */

static void
on_event(weir_task *receive, void *number)
{
        const weir_pq_event *event = weir_channel_message(receive);

        if (!event)
                return;
        if (!weir_pq_event_payload(event) || weir_pq_event_missed(event))
                *(int *)number = 0; /* it listens now, or has missed some: look at all */
        else
                *(int *)number = atoi(weir_pq_event_payload(event));
}

static void
an_order_is_told(void)
{
        int number = -1;
        weir_channel *events = weir_pq_events_new(1000);
        weir_pq_listener *listener = weir_pq_listen(pool, "new_order", events);

        CU_ASSERT(weir_task_run(weir_channel_receive_new(events, on_event, &number)) == 0 && number == 0);
        CU_ASSERT(weir_task_run(weir_pq_query_new(pool, "NOTIFY new_order, '17'", NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_channel_receive_new(events, on_event, &number)) == 0 && number == 17);
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
}

static void
an_event_says_who_has_notified(void)
{
        void *message;
        weir_channel *events = weir_pq_events_new(10);
        weir_pq_listener *listener = weir_pq_listen(pool, "x", events);

        WEIR_TEST_EVENTUALLY(weir_channel_poll(events, &message) == 0);
        weir_pq_event *event = message;
        CU_ASSERT(strcmp(weir_pq_event_name(event), "x") == 0 && weir_pq_event_process(event) == 0);
        weir_pq_event_free(event);
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(orders_are_inserted_and_shown),
                WEIR_TEST(a_pool_has_a_config),
                WEIR_TEST(figures_are_written),
                WEIR_TEST(values_may_be_binary),
                WEIR_TEST(a_name_is_taken),
                WEIR_TEST(both_change_or_none_does),
                WEIR_TEST(a_part_that_fails_is_undone_alone),
                WEIR_TEST(a_large_table_is_summed_up),
                WEIR_TEST(a_row_has_columns),
                WEIR_TEST(copy_takes_lines),
                WEIR_TEST(one_table_goes_into_another),
                WEIR_TEST(an_order_is_told),
                WEIR_TEST(an_event_says_who_has_notified),
        };

        if (!server_make()) {
                printf("PostgreSQL is not installed: the examples are skipped\n");
                return 77;
        }
        server_ask("CREATE TABLE orders (name text, price bigint)");
        server_ask("CREATE TABLE old_orders (name text, price bigint)");
        pool = weir_pq_new(server_conninfo(false), NULL);
        int outcome = weir_test_main("reference_pq_guide", tests, sizeof tests / sizeof *tests);
        weir_pq_unref(pool);
        weir_shutdown();
        close(server.keeper);
        return outcome;
}
