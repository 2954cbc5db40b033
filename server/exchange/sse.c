/* server/exchange/sse.c: Server-Sent Events: the task that keeps a stream open, and events as they go over the wire.
 *
 * Threads: any, until the task is started; transfer.c has its work.
 * Locks:   none.
 *
 * The connection knows the stream by its exchange.  It ends the stream when the client has gone, when the server stops, and
 * when it is cut.  Heartbeats are a matter of the connection's time limit: there is no timer that could outlive the stream. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/http_sse.h>

#include "kernel/loop/pollers.h"
#include "kernel/runtime/config.h"
#include "kernel/sched/deliver.h"
#include "server/exchange/transfer.h"

#define HEARTBEAT WEIR_SEC(15)

/* -- the stream -- */

static int
default_field(struct weir__exchange *exchange, const char *name, const char *value)
{
        return weir__response_has_field(&exchange->response, name) ? 0 : weir_http_reply_header(&exchange->task, name, value);
}

/* Makes the head that of a stream, and seals it. */
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
        struct weir__transfer *stream = weir__transfer_new(WEIR__TRANSFER_STREAM, exchange, done, context);
        int failed = stream ? prepare(stream->exchange, heartbeat) : 0;

        if (!stream)
                return NULL;
        stream->heartbeat = heartbeat ? heartbeat : HEARTBEAT;
        if (failed)
                weir__task_poison(&stream->task, failed);
        return &stream->task;
}

/* On the poller of the connection. */
static void
end_run(struct weir__work *work)
{
        struct weir__exchange *exchange = weir__container_of(work, struct weir__exchange, end_events);

        if (exchange->stream)
                weir__transfer_complete(exchange->stream, 0);
        weir__exchange_drop(exchange);
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
        weir__exchange_hold(known);
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

static int
fault_of(const struct weir_http_event *event)
{
        if (event->retry < 0 || !is_one_line(event->id) || !is_one_line(event->event))
                return -EINVAL;
        return event->data || event->id || event->event || event->retry ? 0 : -EINVAL;
}

/* Appends `name: value` and a line's end; `out` is NULL when only the size is asked for.  Returns that. */
static size_t
put_line(char *out, const char *name, const char *value, size_t size)
{
        size_t name_size = strlen(name);

        if (out) {
                memcpy(out, name, name_size);
                memcpy(out + name_size, ": ", 2);
                memcpy(out + name_size + 2, value, size);
                out[name_size + 2 + size] = '\n';
        }
        return name_size + size + 3;
}

/* A line for each line of the data, of which the last one may be empty. */
static size_t
put_data(char *out, const char *data)
{
        size_t total = 0;

        for (;;) {
                size_t size = strcspn(data, "\r\n");

                total += put_line(out ? out + total : NULL, "data", data, size);
                data += size;
                if (!*data)
                        return total;
                data += data[0] == '\r' && data[1] == '\n' ? 2 : 1;
        }
}

static size_t
put_event(char *out, const struct weir_http_event *event)
{
        const weir_nsec unit = WEIR_MSEC(1);
        size_t total = 0;
        char retry[24];

        if (event->id)
                total += put_line(out, "id", event->id, strlen(event->id));
        if (event->event)
                total += put_line(out ? out + total : NULL, "event", event->event, strlen(event->event));
        if (event->retry) {
                int size = snprintf(retry, sizeof retry, "%" PRId64, event->retry / unit + (event->retry % unit != 0));

                total += put_line(out ? out + total : NULL, "retry", retry, (size_t)size);
        }
        if (event->data)
                total += put_data(out ? out + total : NULL, event->data);
        if (out)
                out[total] = '\n';
        return total + 1;
}

static int
read_event(struct weir_http_event *to, const struct weir_http_event *from)
{
        int failed = from ? weir__config_read(to, sizeof *to, from) : -EINVAL;

        return failed ? failed : fault_of(to);
}

weir_task *
weir_http_sse_event_new(weir_task *exchange, const struct weir_http_event *event, weir_task_fn *done, void *context)
{
        struct weir__exchange *known = weir__exchange_of(exchange);
        uint8_t state = known ? atomic_load_explicit(&known->events, memory_order_relaxed) : WEIR__EVENTS_NONE;
        struct weir_http_event copy = {0};
        int failed = read_event(&copy, event);

        if (!known)
                failed = -EDOM;
        else if (state != WEIR__EVENTS_OPEN && !failed)
                failed = state == WEIR__EVENTS_NONE ? -EINVAL : -EPIPE;
        struct weir__transfer *transfer = weir__transfer_new_write(exchange, failed ? 0 : put_event(NULL, &copy), failed, done,
                                                                   context);

        if (!transfer)
                return NULL;
        if (!failed)
                put_event(transfer->data, &copy);
        return &transfer->task;
}
