/* database/mariadb/stream.c: rows that go into a channel.
 *
 * A row that the channel has no room for makes a pause: the function on the executor ends, and another one goes on when a task of
 * the channel has sent the row.  Nothing is read meanwhile, so TCP holds up the server.  A cancel closes the channel, which ends
 * the pause.
 *
 *     SERVED: fetch --post--> channel      no room: PAUSED --send--> SERVED
 *
 * Threads: the function that serves the link; pauses end on workers. */
#include "database/mariadb/mariadb.h"

weir_channel *
weir_mariadb_rows_new(size_t capacity)
{
        return weir_channel_new(capacity, weir_mariadb_row_free);
}

int
weir__mariadb_stream_row(struct weir__mariadb_query *query, weir_mariadb_row *row)
{
        int posted = row ? weir_channel_post(query->rows, row) : -ENOMEM;

        if (posted && posted != -EAGAIN)
                weir_mariadb_row_free(row);
        return posted;
}

/* A pause has ended. */
static void
go_on(struct weir__mariadb_link *link, int status)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        link->paused = status;
        weir__mariadb_wake(link, &after);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
}

static void
on_sent(weir_task *send, void *context)
{
        go_on(context, weir_task_status(send));
}

void
weir__mariadb_stream_pause(struct weir__mariadb_link *link, weir_channel *rows, weir_mariadb_row *row)
{
        int failed = weir_task_start(weir_channel_send_new(rows, row, on_sent, link));

        if (failed)
                go_on(link, failed);
}
