/* server/sse.c: Server-Sent Events: the task that keeps a stream open, and events as they go over the wire.
 *
 *     NEW --start--> READY --owner begins the reply--> PENDING --ended, gone--> READY --> the callback
 *                        \--ended already, no body--> the callback    \--cancel--> READY --> the callback, -ECANCELED
 *
 * Threads: started and cancelled on any thread; its work always runs on the poller of the connection, as that of a transfer does
 *          (transfer.c), and with the same rule: who takes it out of PENDING delivers it, once.
 * Locks:   none.
 *
 * The owner of the poller knows the stream by its connection, which tells it that the client has gone, that the server stops, or
 * that it is cut.  Heartbeats are a matter of the connection's time limit: there is no timer that could outlive the stream. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/http_sse.h>

#include "kernel/runtime/config.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "server/server.h"

#define HEARTBEAT WEIR_SEC(15)

/* -- the owner of the connection's poller -- */

static void
leave(struct weir__event_stream *stream)
{
        stream->linked = false;
        stream->exchange->connection->events = NULL;
        atomic_store_explicit(&stream->exchange->events, WEIR__EVENTS_ENDED, memory_order_relaxed);
}

void
weir__event_stream_complete(struct weir__event_stream *stream, int status)
{
        uint32_t pending = WEIR__PENDING;

        leave(stream);
        stream->task.status = status;
        if (atomic_compare_exchange_strong_explicit(&stream->task.word, &pending, WEIR__READY, memory_order_acq_rel,
                                                    memory_order_acquire))
                weir__poller_deliver(stream->exchange->connection->shard->poller, &stream->task.work);
}

static bool
is_over(const struct weir__event_stream *stream)
{
        const struct weir__exchange *exchange = stream->exchange;

        return atomic_load_explicit(&exchange->events, memory_order_relaxed) == WEIR__EVENTS_ENDED ||
               exchange->connection->shard->stopping || !weir__exchange_carries_body(exchange);
}

/* Begins the reply, and stays with the connection unless it is over already. */
static int
try_it(struct weir__event_stream *stream)
{
        struct weir__connection *connection = stream->exchange->connection;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        if (connection->state == WEIR__GONE)
                return -EPIPE;
        connection->events = stream;
        stream->linked = true;
        int failed = weir__connection_begin_reply(connection);
        if (!stream->linked) /* the connection has broken */
                return stream->task.status;
        if (failed || is_over(stream))
                leave(stream);
        return failed;
}

/* Whether it waits from now on, unless it was cancelled just now. */
static bool
has_to_wait(struct weir__event_stream *stream)
{
        uint32_t ready = WEIR__READY;

        return atomic_compare_exchange_strong_explicit(&stream->task.word, &ready, WEIR__PENDING, memory_order_acq_rel,
                                                       memory_order_acquire);
}

static void
run(struct weir__work *work)
{
        struct weir__event_stream *stream = (struct weir__event_stream *)work;

        if (!stream->tried) {
                stream->tried = true;
                if (atomic_load_explicit(&stream->task.word, memory_order_acquire) & WEIR__CANCELLED)
                        stream->task.status = weir__series_cause(stream->task.series);
                else
                        stream->task.status = try_it(stream);
                if (stream->linked && has_to_wait(stream))
                        return;
        }
        if (stream->linked) { /* cancelled */
                leave(stream);
                stream->task.status = weir__series_cause(stream->task.series);
        }
        atomic_store_explicit(&stream->exchange->events, WEIR__EVENTS_ENDED, memory_order_relaxed);
        weir__task_run(work);
}

static void
end_run(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)((char *)work - offsetof(struct weir__exchange, end_events));

        if (exchange->connection->events)
                weir__event_stream_complete(exchange->connection->events, 0);
        weir__exchange_drop(exchange);
}

static const struct weir__work_ops end_ops = {.run = end_run};

/* -- any thread -- */

static void
start(struct weir_task *task)
{
        uint8_t poller = task->poller;

        atomic_fetch_add_explicit(&task->word, WEIR__READY, memory_order_release); /* NEW is 0; a cancel may have left its flag */
        weir__poller_deliver(weir__poller_at(poller), &task->work);
}

static struct weir_task *
cancel(struct weir_task *task)
{
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        return before == WEIR__PENDING ? task : NULL;
}

static void
release(struct weir_task *task, bool discarded)
{
        struct weir__exchange *exchange = ((struct weir__event_stream *)task)->exchange;

        if (!exchange)
                return;
        if (discarded)
                atomic_store_explicit(&exchange->events, WEIR__EVENTS_ENDED, memory_order_relaxed);
        weir__exchange_drop(exchange);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__event_stream *stream = (const struct weir__event_stream *)task;
        char peer[WEIR__PEER_ROOM + 32];

        weir__exchange_describe_peer(stream->exchange, peer, sizeof peer);
        snprintf(out, room, "open to %s", peer);
}

static const struct weir__task_ops stream_ops = {
        .work = {.run = run, .kind = "an event stream", .calls = weir__task_calls},
        .start = start,
        .cancel = cancel,
        .release = release,
        .describe = describe,
};

/* -- the stream's public face -- */

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
        struct weir__event_stream *stream = weir__alloc(sizeof *stream);
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!stream)
                return NULL;
        *stream = (struct weir__event_stream){.heartbeat = heartbeat ? heartbeat : HEARTBEAT};
        weir__task_init(&stream->task, &stream_ops, sizeof *stream, done, context);
        stream->task.status = prepare(known, heartbeat);
        if (stream->task.status) {
                stream->task.flags |= WEIR__TASK_WRONG;
                return &stream->task;
        }
        stream->exchange = known;
        stream->task.poller = known->task.poller;
        weir__exchange_hold(known);
        return &stream->task;
}

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
        weir__poller_deliver(weir__poller_at(known->task.poller), &known->end_events);
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
        struct weir__transfer *transfer = weir__write_new(exchange, failed ? 0 : put_event(NULL, &copy), failed, done, context);

        if (!transfer)
                return NULL;
        if (!failed)
                put_event(transfer->data, &copy);
        return &transfer->task;
}
