/* database/pq/stream.c: rows that come one by one, and COPY both ways.
 *
 * What a channel has no room for, or does not have yet, makes a pause: a task waits at the channel, and until its end nothing is
 * read from the server, or nothing more is sent to it.  TCP holds up the other side then.
 *
 *     row, or data of COPY --post--> channel     no room: pause, send
 *     input channel --poll--> PQputCopyData      none there: pause, receive; libpq has bytes left: until the socket takes them
 *
 * Threads: those that hold the link's lock; the pauses end on workers. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define COPY_PIECE  ((size_t)1 << 20) /* bytes of a message; libpq takes an int */
#define COPY_FAILED (-2)              /* of PQgetCopyData; -1 is the end */

/* -- rows -- */

weir_channel *
weir_pq_rows_new(size_t capacity)
{
        return weir_channel_new(capacity, weir_pq_row_free);
}

/* Takes over the result.  NULL when out of memory. */
static weir_pq_row *
row_of(PGresult *result)
{
        weir_pq_row *row = malloc(sizeof *row);

        if (!row) {
                PQclear(result);
                return NULL;
        }
        row->result = result;
        row->size = 0;
        return row;
}

weir_pq_row *
weir_pq_row_new(const void *data, size_t size)
{
        weir_pq_row *row = malloc(sizeof *row + size + 1);

        if (!row)
                return NULL;
        row->result = NULL;
        row->size = size;
        if (size > 0)
                memcpy(row->bytes, data, size);
        row->bytes[size] = '\0';
        return row;
}

void
weir_pq_row_free(void *context)
{
        weir_pq_row *row = context;

        if (row)
                PQclear(row->result);
        free(row);
}

size_t
weir_pq_row_columns(const weir_pq_row *row)
{
        return !row ? 0 : row->result ? (size_t)PQnfields(row->result) : 1;
}

const char *
weir_pq_row_name(const weir_pq_row *row, size_t column)
{
        return column < weir_pq_row_columns(row) && row->result ? PQfname(row->result, (int)column) : NULL;
}

const char *
weir_pq_row_value(const weir_pq_row *row, size_t column, size_t *size)
{
        bool is_there = column < weir_pq_row_columns(row) && (!row->result || !PQgetisnull(row->result, 0, (int)column));

        if (size)
                *size = !is_there ? 0 : row->result ? (size_t)PQgetlength(row->result, 0, (int)column) : row->size;
        return !is_there ? NULL : row->result ? PQgetvalue(row->result, 0, (int)column) : row->bytes;
}

int
weir_pq_row_int(const weir_pq_row *row, size_t column, int64_t *ret_value)
{
        size_t size;
        const char *value = weir_pq_row_value(row, column, &size);

        if (!value)
                return -ENOENT;
        return weir__pq_int_of(value, size, row->result && PQfformat(row->result, (int)column) == 1, ret_value);
}

/* -- pauses -- */

static void put(struct weir__pq_link *link, weir_pq_row *row);
static void take_back(struct weir__pq_link *link, int status, struct weir__pq_after *after);

static void
unref_link(void *link)
{
        weir__pq_link_unref(link);
}

/* A pause has ended.  `row`: what was received, or NULL. */
static void
go_on(struct weir__pq_link *link, weir_series *series, int status, weir_pq_row *row)
{
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        bool is_ours = link->pause == series;
        if (is_ours) {
                weir_series_unref(link->pause);
                link->pause = NULL;
        }
        if (is_ours && link->state == WEIR__PQ_READY) {
                if (row)
                        put(link, row);
                else if (status)
                        take_back(link, status, &after);
                weir__pq_link_go_on(link, &after);
        }
        weir__pq_link_unlock(link);
        weir_pq_row_free(row);
        weir__pq_after(&after);
}

static void
on_sent(weir_task *send, void *context)
{
        go_on(context, weir_series_of(send), weir_task_status(send), NULL);
}

static void
on_received(weir_task *receive, void *context)
{
        go_on(context, weir_series_of(receive), weir_task_status(receive), weir_channel_take_message(receive));
}

/* The task is one of a channel, whose callback goes on. */
static void
begin_pause(struct weir__pq_link *link, weir_task *task, struct weir__pq_after *after)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_task_set_context(task, weir__pq_link_ref(link), unref_link);
        link->pause = weir_series_ref(series);
        weir_series_push(series, task);
        int failed = weir_series_start(series);
        if (!failed)
                return;
        weir_series_unref(link->pause);
        link->pause = NULL;
        weir__pq_link_fail(link, failed, NULL, after);
}

void
weir__pq_stream_wake(struct weir__pq_link *link)
{
        if (!link->pause)
                return;
        weir_series_cancel(link->pause);
        weir_series_unref(link->pause);
        link->pause = NULL;
}

/* -- out -- */

/* The first query ends with that, unless it has failed before. */
static void
fail_query(struct weir__pq_link *link, int status, const char *problem)
{
        struct weir__pq_outcome *outcome = &link->first->outcome;

        if (outcome->status)
                return;
        outcome->status = status;
        outcome->problem = problem ? strdup(problem) : NULL;
}

/* The first query fails with that, unless it has failed before.  Rows that still come are dropped, and the server is asked to
 * stop. */
static void
stop_stream(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after)
{
        fail_query(link, status, problem);
        weir__pq_link_set_limit(link, link->pool->config.clean_limit);
        weir__pq_link_ask_to_cancel(link, after);
}

/* Nobody takes rows any more. */
static void
take_back(struct weir__pq_link *link, int status, struct weir__pq_after *after)
{
        bool is_input = link->copy == WEIR__PQ_COPY_IN;

        if (!link->first || (is_input && status == -EPIPE)) /* a closed channel is the end of the input */
                return;
        const char *problem = status == -EPIPE ? "the channel is closed" : NULL;
        if (is_input)
                fail_query(link, status, problem);
        else
                stop_stream(link, status, problem, after);
}

static bool
is_dropped(const struct weir__pq_link *link)
{
        return link->first->outcome.status || !weir__pq_is_wanted(link->first);
}

/* Takes over the row; NULL: out of memory. */
static void
pass_on(struct weir__pq_link *link, weir_pq_row *row, struct weir__pq_after *after)
{
        weir_channel *rows = link->first->rows;
        int posted = row ? weir_channel_post(rows, row) : -ENOMEM;

        if (posted == 0)
                return;
        if (posted == -EAGAIN) {
                begin_pause(link, weir_channel_send_new(rows, row, on_sent, NULL), after);
                return;
        }
        weir_pq_row_free(row);
        take_back(link, posted, after);
}

/* -- rows that stay in memory -- */

static size_t
bytes_of(const PGresult *row)
{
        size_t bytes = 0;

        for (int i = 0; i < PQnfields(row); i++)
                bytes += sizeof(int) + sizeof(char *) + (size_t)PQgetlength(row, 0, i) + 1;
        return bytes;
}

/* Returns whether there was memory for it. */
static bool
append_row(PGresult *rows, const PGresult *row)
{
        bool is_kept = true;
        int at = PQntuples(rows);

        for (int i = 0; i < PQnfields(row) && is_kept; i++)
                is_kept = PQsetvalue(rows, at, i, PQgetvalue(row, 0, i), PQgetisnull(row, 0, i) ? -1 : PQgetlength(row, 0, i));
        return is_kept;
}

static void
stop_keeping(struct weir__pq_link *link, int status, const char *bound, size_t most, struct weir__pq_after *after)
{
        struct weir__pq_outcome *outcome = &link->first->outcome;
        char text[96];

        PQclear(outcome->rows);
        outcome->rows = NULL;
        snprintf(text, sizeof text, "the result has more than %zu %s (max_%s)", most, bound, bound);
        stop_stream(link, status, status == -EMSGSIZE ? text : NULL, after);
}

void
weir__pq_keep_row(struct weir__pq_link *link, PGresult *row, struct weir__pq_after *after)
{
        struct weir__pq_outcome *outcome = &link->first->outcome;
        const struct weir_pq_config *config = &link->pool->config;

        if (is_dropped(link)) {
                PQclear(row);
                return;
        }
        if (outcome->result) { /* of the statement before it in a script */
                PQclear(outcome->result);
                PQclear(outcome->rows);
                outcome->result = outcome->rows = NULL;
                outcome->row_count = outcome->bytes = 0;
        }
        outcome->row_count++;
        outcome->bytes += bytes_of(row);
        bool is_first = !outcome->rows, is_kept = is_first || append_row(outcome->rows, row);
        if (is_first)
                outcome->rows = row;
        else
                PQclear(row);
        if (!is_kept)
                stop_keeping(link, -ENOMEM, "", 0, after);
        else if (outcome->row_count > config->max_rows)
                stop_keeping(link, -EMSGSIZE, "rows", config->max_rows, after);
        else if (outcome->bytes > config->max_bytes)
                stop_keeping(link, -EMSGSIZE, "bytes", config->max_bytes, after);
}

/* -- rows that go into a channel -- */

void
weir__pq_stream_row(struct weir__pq_link *link, PGresult *result, struct weir__pq_after *after)
{
        if (is_dropped(link))
                PQclear(result);
        else
                pass_on(link, row_of(result), after);
}

/* libpq goes no further, mostly without memory: the server waits for what does not come. */
static void
fail_link(struct weir__pq_link *link, struct weir__pq_after *after)
{
        weir__pq_link_fail(link, PQstatus(link->connection) == CONNECTION_BAD ? -ECONNRESET : -ENOMEM,
                           PQerrorMessage(link->connection), after);
}

/* The data of COPY TO, row by row. */
static void
take_data(struct weir__pq_link *link, struct weir__pq_after *after)
{
        char *data;
        int size;

        while (link->state == WEIR__PQ_READY && !link->pause && (size = PQgetCopyData(link->connection, &data, true)) != 0) {
                if (size == COPY_FAILED)
                        fail_link(link, after);
                else if (size < 0)
                        link->copy = WEIR__PQ_NO_COPY; /* the result says how it ended */
                if (size < 0)
                        return;
                if (!is_dropped(link))
                        pass_on(link, weir_pq_row_new(data, (size_t)size), after);
                PQfreemem(data);
        }
}

/* -- in -- */

static void
end_input(struct weir__pq_link *link, const char *problem, struct weir__pq_after *after)
{
        if (PQputCopyEnd(link->connection, problem) == 1)
                link->copy = WEIR__PQ_NO_COPY;
        else
                fail_link(link, after);
}

static void
put(struct weir__pq_link *link, weir_pq_row *row)
{
        size_t size;
        const char *data = weir_pq_row_value(row, 0, &size);

        while (link->copy == WEIR__PQ_COPY_IN && data && size > 0) {
                size_t some = size < COPY_PIECE ? size : COPY_PIECE;

                if (PQputCopyData(link->connection, data, (int)some) != 1) {
                        fail_query(link, -ENOMEM, PQerrorMessage(link->connection));
                        return;
                }
                data += some;
                size -= some;
        }
}

/* libpq does not look before the end of the input whether there is an error.  With TLS it is not to be seen here either. */
void
weir__pq_stream_look(struct weir__pq_link *link, struct weir__pq_after *after)
{
        char type;

        if (PQsslInUse(link->connection) || recv(link->watched, &type, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || type != 'E')
                return;
        weir__pq_stream_wake(link);
        end_input(link, NULL, after);
}

static void
feed(struct weir__pq_link *link, struct weir__pq_after *after)
{
        weir_channel *input = link->first->input;
        void *row;
        int polled;

        while (link->copy == WEIR__PQ_COPY_IN && link->state == WEIR__PQ_READY && !link->pause) {
                if (is_dropped(link)) {
                        end_input(link, "cancelled", after);
                        return;
                }
                if (PQflush(link->connection) != 0)
                        return;
                polled = weir_channel_poll(input, &row);
                if (polled == -EAGAIN) {
                        begin_pause(link, weir_channel_receive_new(input, on_received, NULL), after);
                } else if (polled == 0) {
                        put(link, row);
                        weir_pq_row_free(row);
                } else {
                        end_input(link, NULL, after);
                }
        }
}

void
weir__pq_stream_go_on(struct weir__pq_link *link, struct weir__pq_after *after)
{
        if (link->copy == WEIR__PQ_COPY_OUT)
                take_data(link, after);
        else if (link->copy == WEIR__PQ_COPY_IN)
                feed(link, after);
}

void
weir__pq_stream_begin(struct weir__pq_link *link, ExecStatusType what, struct weir__pq_after *after)
{
        const struct weir__pq_query *query = link->first;

        if (what == PGRES_COPY_BOTH) {
                weir__pq_link_fail(link, -ENOTSUP, "COPY BOTH is for replication", after);
                return;
        }
        link->copy = what == PGRES_COPY_IN ? WEIR__PQ_COPY_IN : WEIR__PQ_COPY_OUT;
        if (what == PGRES_COPY_OUT && !query->rows) {
                fail_query(link, -EINVAL, "COPY TO STDOUT needs a channel: weir_pq_set_rows");
                take_back(link, -EINVAL, after);
        }
        if (what == PGRES_COPY_IN && !query->input)
                fail_query(link, -EINVAL, "COPY FROM STDIN needs a channel: weir_pq_set_input");
        weir__pq_stream_go_on(link, after);
}

bool
weir__pq_stream_abandon(struct weir__pq_link *link, struct weir__pq_after *after)
{
        bool is_input = link->copy == WEIR__PQ_COPY_IN;

        weir__pq_stream_wake(link);
        if (is_input)
                end_input(link, "cancelled", after);
        return is_input;
}
