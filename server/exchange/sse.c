/* server/exchange/sse.c: Server-Sent Events: the task that keeps a stream open, and the text of events.
 *
 * Threads: any, until the task is started; transfer.c has its work.
 * Locks:   none.
 *
 * The connection finds the stream in its exchange.  It ends the stream when the client has gone, when the server stops, and when
 * it is cut.  Heartbeats come by the connection's time limit, so no timer can outlive the stream. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/http_sse.h>

#include "kernel/loop/pollers.h"
#include "kernel/observe/sink.h"
#include "kernel/runtime/config.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "server/exchange/transfer.h"

#define HEARTBEAT WEIR_SEC(15)

/* -- the stream -- */

static int
default_field(struct weir__exchange *exchange, const char *name, const char *value)
{
        return weir__response_has_field(&exchange->response, name) ? 0 : weir_http_reply_header(&exchange->task, name, value);
}

/* Sets the fields of a stream.  From then on the reply cannot be changed. */
static int
prepare(struct weir__exchange *exchange, weir_nsec heartbeat)
{
        if (!exchange)
                return -EDOM;
        if (heartbeat < 0 || exchange->upgrade || exchange->file || exchange->withheld)
                return -EINVAL;
        int failed = weir_http_reply_set_header(&exchange->task, "Content-Type", "text/event-stream");

        failed = failed ? failed : default_field(exchange, "Cache-Control", "no-cache");
        failed = failed ? failed : default_field(exchange, "X-Accel-Buffering", "no");
        failed = failed ? failed : weir_http_reply_length(&exchange->task, UINT64_MAX); /* none */
        if (!failed)
                atomic_store_explicit(&exchange->events, WEIR__EVENTS_OPEN, memory_order_relaxed);
        return failed;
}

weir_task *
weir_http_sse_new(weir_task *exchange, weir_nsec heartbeat, weir_task_fn *done, void *context)
{
        struct weir__transfer *stream = weir__transfer_new(WEIR__TRANSFER_EVENTS, exchange, done, context);
        int failed = stream ? prepare(stream->exchange, heartbeat) : 0;

        if (!stream)
                return NULL;
        stream->heartbeat = heartbeat ? heartbeat : HEARTBEAT;
        if (failed)
                weir__task_poison(&stream->io.task, failed);
        return &stream->io.task;
}

/* On the poller of the connection. */
static void
end_run(struct weir__work *work)
{
        struct weir__exchange *exchange = weir__container_of(work, struct weir__exchange, end_events);

        if (exchange->event_stream)
                weir__transfer_complete(exchange->event_stream, 0);
        weir__exchange_unref(exchange);
        weir__runtime_leave();
}

static const struct weir__work_ops end_ops = {.run = end_run};

int
weir_http_sse_end(weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);
        uint8_t open = WEIR__EVENTS_OPEN;

        if (!known)
                return -EDOM;
        if (!atomic_compare_exchange_strong_explicit(&known->events, &open, WEIR__EVENTS_ENDED, memory_order_relaxed,
                                                     memory_order_relaxed))
                return open == WEIR__EVENTS_NONE ? -EINVAL : 0;
        if (weir__exchange_is_detached(known) || weir__runtime_enter()) /* the stream has ended, or does so with the runtime */
                return 0;
        weir__exchange_ref(known);
        known->end_events.ops = &end_ops;
        weir__deliver(weir__poller_at(known->task.poller), &known->end_events);
        return 0;
}

const char *
weir_http_sse_last_id(const weir_task *exchange)
{
        return weir_http_request_header(exchange, "Last-Event-ID");
}

/* -- events -- */

static bool
is_one_line(const char *text)
{
        return !text || !text[strcspn(text, "\r\n")];
}

static void
put_line(struct weir__sink *sink, const char *name, const char *value, size_t size)
{
        weir__sink_printf(sink, "%s: ", name);
        weir__sink_write(sink, value, size);
        weir__sink_text(sink, "\n");
}

/* Writes a line for each line of the data.  The last one may be empty. */
static void
put_data(struct weir__sink *sink, const char *data)
{
        for (;;) {
                size_t size = strcspn(data, "\r\n");

                put_line(sink, "data", data, size);
                data += size;
                if (!*data)
                        return;
                data += data[0] == '\r' && data[1] == '\n' ? 2 : 1;
        }
}

static void
put_event(struct weir__sink *sink, const struct weir_http_event *event)
{
        const weir_nsec unit = WEIR_MSEC(1);

        if (event->id)
                put_line(sink, "id", event->id, strlen(event->id));
        if (event->event)
                put_line(sink, "event", event->event, strlen(event->event));
        if (event->retry)
                weir__sink_printf(sink, "retry: %" PRId64 "\n", event->retry / unit + (event->retry % unit != 0));
        if (event->data)
                put_data(sink, event->data);
        weir__sink_text(sink, "\n");
}

static int
read_event(struct weir_http_event *to, const struct weir_http_event *from)
{
        int failed = from ? weir__config_read(to, sizeof *to, from) : -EINVAL;

        if (failed || to->retry < 0 || !is_one_line(to->id) || !is_one_line(to->event))
                return failed ? failed : -EINVAL;
        return to->data || to->id || to->event || to->retry ? 0 : -EINVAL;
}

weir_task *
weir_http_sse_event_new(weir_task *exchange, const struct weir_http_event *event, weir_task_fn *done, void *context)
{
        struct weir__exchange *known = weir__exchange_of(exchange);
        uint8_t state = known ? atomic_load_explicit(&known->events, memory_order_relaxed) : WEIR__EVENTS_NONE;
        struct weir_http_event copy = {0};
        struct weir__memory_sink text;
        int failed = read_event(&copy, event);

        if (!known)
                failed = -EDOM;
        else if (state != WEIR__EVENTS_OPEN && !failed)
                failed = state == WEIR__EVENTS_NONE ? -EINVAL : -EPIPE;
        weir__memory_sink_init(&text);
        if (!failed)
                put_event(&text.sink, &copy);
        weir_task *task = weir__sink_flush(&text.sink)
                                  ? NULL
                                  : weir__transfer_new_write(exchange, text.bytes, text.size, failed, done, context);
        weir__memory_sink_done(&text);
        return task;
}
