/* test/addon/sql_stream.h: what the suites of rows one by one share. */
#ifndef WEIR_TEST_SQL_STREAM_H
#define WEIR_TEST_SQL_STREAM_H

#include "test/addon/sql_server.h"

#ifdef __SANITIZE_ADDRESS__
#define MOST_BYTES 1000000000 /* what was freed is kept for a while */
#else
#define MOST_BYTES 20000000
#endif

struct end {
        _Atomic int ends;
        int status;
        uint64_t affected;
        size_t rows, columns;
        char problem[256];
};

static void
note_end(weir_task *query, void *context)
{
        struct end *end = context;
        const char *problem = SQL(problem)(query);

        end->status = weir_task_status(query);
        end->affected = SQL(affected)(query);
        end->rows = SQL(rows)(query);
        end->columns = SQL(columns)(query);
        snprintf(end->problem, sizeof end->problem, "%s", problem ? problem : "");
        end->ends++;
}

static weir_task *
rows_new(SQL_POOL *pool, const char *sql, weir_channel *rows, struct end *end)
{
        weir_task *query = SQL(query_new)(pool, sql, note_end, end);

        CU_ASSERT_EQUAL(SQL(set_rows)(query, rows), 0);
        return query;
}

/* The next row; NULL: the channel is closed and empty. */
static SQL(row) * take(weir_channel *rows)
{
        void *row = NULL;
        int polled;

        WEIR_TEST_EVENTUALLY((polled = weir_channel_poll(rows, &row)) != -EAGAIN);
        CU_ASSERT(polled == 0 || polled == -EPIPE);
        return row;
}

/* A consumer that is a series: counts rows whose numbers follow each other. */
struct consumer {
        weir_channel *rows;
        int64_t count, wrong;
        _Atomic int ends;
};

static void
on_row(weir_task *receive, void *context)
{
        struct consumer *consumer = context;
        int64_t number = -1;

        if (weir_task_status(receive) != 0) {
                consumer->ends++;
                return;
        }
        SQL(row_int)(weir_channel_message(receive), 0, &number);
        consumer->wrong += number != ++consumer->count;
        weir_series_push(weir_series_of(receive), weir_channel_receive_new(consumer->rows, on_row, consumer));
}

#endif
