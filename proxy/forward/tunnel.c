/* proxy/forward/tunnel.c: after a switch of protocols: bytes both ways.
 *
 * Threads: callbacks of two series, one for each way.
 *
 * The end of what one side sends goes on when all of it is written, and the other way stays open. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include <weir/http_body.h>
#include <weir/parallel.h>

#include "proxy/forward/forward.h"

#define TUNNEL_PIECE ((size_t)64 * 1024) /* bytes */

/* -- from the other server -- */

static void take_from_server(weir_task *read, void *context);

static void
read_server(struct weir__forward *forward, weir_series *series)
{
        weir_task *read = weir_stream_read_new(forward->stream, 1, TUNNEL_PIECE, take_from_server, forward);

        weir_series_push(series, weir__forward_task(forward, read));
}

static void
written_to_client(weir_task *write, void *context)
{
        struct weir__forward *forward = context;

        if (weir_task_status(write))
                weir_series_cancel(forward->series);
        else
                read_server(forward, weir_series_of(write));
}

static void
take_from_server(weir_task *read, void *context)
{
        struct weir__forward *forward = context;
        size_t size;
        const void *data = weir_stream_data(read, &size);
        int status = weir_task_status(read);

        if (status == -EPIPE) {
                forward->has_server_ended = true;
                weir_series_push(weir_series_of(read), weir_http_finish_new(forward->exchange, NULL, NULL));
        } else if (status) {
                weir_series_cancel(forward->series);
        } else {
                weir_task *write = weir_http_write_new(forward->exchange, data, size, written_to_client, forward);

                weir_series_push(weir_series_of(read), weir__forward_task(forward, write));
        }
}

/* -- from the client -- */

static void take_from_client(weir_task *read, void *context);

static void
read_client(struct weir__forward *forward, weir_series *series)
{
        weir_task *read = weir_http_read_new(forward->exchange, take_from_client, forward);

        weir_series_push(series, weir__forward_task(forward, read));
}

/* If the other server reads no more, it may still have something to say. */
static void
written_to_server(weir_task *write, void *context)
{
        if (weir_task_status(write) == 0)
                read_client(context, weir_series_of(write));
}

static void
finished(weir_task *finish, void *context)
{
        struct weir__forward *forward = context;

        forward->has_client_ended = weir_task_status(finish) == 0;
}

static void
take_from_client(weir_task *read, void *context)
{
        struct weir__forward *forward = context;
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read)) {
                weir_stream_break(forward->stream);
        } else if (size) {
                weir_task *write = weir_stream_write_new(forward->stream, data, size, written_to_server, forward);

                weir_series_push(series, weir__forward_task(forward, write));
        } else {
                weir_task *finish = weir_stream_finish_new(forward->stream, finished, forward);

                weir_series_push(series, weir__forward_task(forward, finish));
        }
}

/* -- the switch -- */

/* The client has its 101. */
static void
carry(weir_task *write, void *context)
{
        struct weir__forward *forward = context;
        weir_series *down = weir_series_new(NULL, NULL), *up = weir_series_new(NULL, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        if (weir_task_status(write) || !down || !up || !both) {
                weir_series_dismiss(down);
                weir_series_dismiss(up);
                weir_task_dismiss(both);
                weir_series_cancel(forward->series);
                return;
        }
        forward->upload = weir_series_ref(up);
        read_server(forward, down);
        read_client(forward, up);
        weir_parallel_add_series(both, down);
        weir_parallel_add_series(both, up);
        weir_series_push(weir_series_of(write), both);
}

void
weir__forward_switch(struct weir__forward *forward)
{
        const char *protocol = weir_http_call_header(forward->call, "Upgrade");

        forward->is_complete = true;
        forward->stream = weir_http_call_take_stream(forward->call);
        if (!forward->stream || !protocol || weir_http_reply_upgrade(forward->exchange, protocol)) {
                weir__forward_fail(forward, -EBADMSG);
                return;
        }
        forward->has_begun = true;
        weir_task *begin = weir_http_write_new(forward->exchange, NULL, 0, carry, forward);
        weir_series_push(forward->series, weir__forward_task(forward, begin));
}
