/* server/exchange.c: one request and its reply: the task, and what a handler may ask of it.
 *
 *     made by its connection -> READY -> handler -> its series, if weir_series_of was asked for it -> back to the connection
 *
 * Threads: the handler and the series' callbacks run on any worker; the connection is handed the exchange back through its
 *          poller, and alone frees it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory.h"
#include "kernel/runtime.h"
#include "kernel/worker.h"
#include "server/server.h"

static void series_made(struct weir_series *series);
static void series_ended(struct weir_series *series);
static void run(struct weir__work *work);
static const char *name(const struct weir_task *task, int *size);

static const struct weir__task_ops exchange_ops = {
        .work = {.run = run, .kind = "an exchange", .roams = true, .calls = weir__task_calls},
        .name = name,
        .series_made = series_made,
        .series_ended = series_ended,
        .grain = WEIR_MSEC(1),
};

struct weir__exchange *
weir__exchange_new(struct weir__connection *connection, struct weir__request *request)
{
        struct weir__exchange *exchange = weir__alloc(sizeof *exchange);
        const weir_http_server *server = connection->shard->server;

        if (!exchange) {
                weir__request_free(request);
                return NULL;
        }
        *exchange = (struct weir__exchange){
                .connection = connection, .request = request, .body_size = (size_t)request->content_length};
        weir__task_init(&exchange->task, &exchange_ops, sizeof *exchange, server->handler, server->context);
        exchange->task.flags |= WEIR__TASK_CONSUMED;
        if (!exchange->body_size)
                return exchange;
        exchange->body = malloc(exchange->body_size + 1);
        if (!exchange->body) {
                weir__exchange_free(exchange);
                return NULL;
        }
        exchange->body[exchange->body_size] = '\0';
        return exchange;
}

void
weir__exchange_start(struct weir__exchange *exchange)
{
        weir__task_ready(&exchange->task);
}

void
weir__exchange_free(struct weir__exchange *exchange)
{
        weir__request_free(exchange->request);
        weir__response_done(&exchange->response);
        free(exchange->body);
        if (exchange->task.series)
                weir_series_unref(exchange->task.series);
        weir__free(exchange, sizeof *exchange);
}

/* -- the way back -- */

static void
answer_run(struct weir__work *work)
{
        weir__connection_answer((struct weir__exchange *)work);
}

static const struct weir__work_ops answer_ops = {.run = answer_run};

static void
give_back(struct weir__exchange *exchange, int result)
{
        if (exchange->task.on_free)
                weir__user_call(exchange->task.on_free, exchange->task.context);
        struct weir__worker *worker = weir__worker_self();
        struct weir__poller *poller = weir__runtime_poller(exchange->task.poller);

        exchange->result = result;
        exchange->task.work.ops = &answer_ops;
        if (worker->poller == poller)
                weir__connection_answer(exchange);
        else
                weir__poller_deliver(poller, &exchange->task.work);
}

static void
series_made(struct weir_series *series)
{
        struct weir__exchange *exchange = (struct weir__exchange *)series->owner;

        if (atomic_exchange_explicit(&exchange->reach, (uintptr_t)series, memory_order_acq_rel) == WEIR__CUT)
                weir_series_cancel(series);
}

void
weir__exchange_cut(struct weir__exchange *exchange)
{
        uintptr_t reach = atomic_exchange_explicit(&exchange->reach, WEIR__CUT, memory_order_acq_rel);

        if (reach && reach != WEIR__CUT)
                weir_series_cancel((struct weir_series *)reach);
}

static void
series_ended(struct weir_series *series)
{
        /* Kept until the exchange is freed: weir__connection_cut may look at it until then. */
        give_back(weir_series_ref(series)->owner, weir_series_status(series));
}

static void
run(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)work;

        if (atomic_load_explicit(&exchange->reach, memory_order_relaxed) == WEIR__CUT)
                weir__series_make_for(&exchange->task); /* a cancelled one: so the handler sees -ECANCELED, what it pushes is dropped */
        weir__task_call(&exchange->task);
        struct weir_series *series = exchange->task.series;
        if (!series) {
                give_back(exchange, 0);
                return;
        }
        weir__series_leave_task(series, &exchange->task);
        weir__series_go_on(series);
}

static const char *
name(const struct weir_task *task, int *size)
{
        const struct weir__exchange *exchange = (const struct weir__exchange *)task;

        *size = (int)strlen(exchange->request->target);
        return exchange->request->target;
}

/* -- what a handler asks -- */

static struct weir__exchange *
exchange_of(const struct weir_task *task)
{
        return task && task->work.ops == &exchange_ops.work ? (struct weir__exchange *)task : NULL;
}

const char *
weir_http_method(const weir_task *exchange)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known ? known->request->method : NULL;
}

const char *
weir_http_target(const weir_task *exchange)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known ? known->request->target : NULL;
}

const char *
weir_http_path(const weir_task *exchange)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known ? known->request->path : NULL;
}

const char *
weir_http_query(const weir_task *exchange)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known ? known->request->query : NULL;
}

const char *
weir_http_host(const weir_task *exchange)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known ? known->request->host : NULL;
}

const char *
weir_http_request_header(const weir_task *exchange, const char *name)
{
        struct weir__exchange *known = exchange_of(exchange);

        return known && name ? weir__request_header(known->request, name) : NULL;
}

int
weir_http_request_field(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (index >= known->request->field_count)
                return -ENOENT;
        if (name)
                *name = known->request->fields[index].name;
        if (value)
                *value = known->request->fields[index].value;
        return 0;
}

const void *
weir_http_request_body(const weir_task *exchange, size_t *size)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return NULL;
        if (size)
                *size = known->body_size;
        return known->body ? known->body : "";
}

/* -- the reply -- */

/* Out of memory while the reply was built: half of one must not go out. */
static int
remember(struct weir__exchange *exchange, int result)
{
        if (result == -ENOMEM)
                exchange->failed = true;
        return result;
}

int
weir_http_reply_status(weir_task *exchange, int status)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (status < 200 || status > 599)
                return -EINVAL;
        known->response.status = status;
        return 0;
}

int
weir_http_reply_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        return name && value ? remember(known, weir__response_field(&known->response, name, value, false)) : -EINVAL;
}

int
weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        return name && value ? remember(known, weir__response_field(&known->response, name, value, true)) : -EINVAL;
}

int
weir_http_reply_append(weir_task *exchange, const void *data, size_t size)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        return remember(known, weir__response_append(&known->response, data, size));
}

static int
reply_text(struct weir__exchange *exchange, int status, const char *text)
{
        struct weir__response *response = &exchange->response;
        int failed = weir__response_has_field(response, "Content-Type")
                             ? 0
                             : weir__response_field(response, "Content-Type", "text/plain; charset=utf-8", false);

        response->status = status;
        response->body_size = 0;
        if (!failed)
                failed = weir__response_append(response, text, strlen(text));
        return remember(exchange, failed);
}

int
weir_http_reply_text(weir_task *exchange, int status, const char *text)
{
        struct weir__exchange *known = exchange_of(exchange);

        if (!known)
                return -EDOM;
        return text && status >= 200 && status <= 599 ? reply_text(known, status, text) : -EINVAL;
}

int
weir__exchange_error(struct weir__exchange *exchange, int status)
{
        char text[64];

        weir__response_done(&exchange->response);
        snprintf(text, sizeof text, "%d %s\n", status, weir__http_reason(status));
        return reply_text(exchange, status, text);
}
