/* server/exchange/exchange.c: one request and its reply, as a task.
 *
 *     made by its connection -> READY -> handler -> its series, if the handler has called weir_series_of -> the connection
 *
 * Threads: the handler and the callbacks of the series run on any worker.  At its end the exchange is delivered to the poller of
 *          its connection, which alone frees it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "kernel/worker/worker.h"
#include "protocol/coding/compress.h"
#include "server/base/error_pages.h"
#include "server/base/server.h"
#include "server/exchange/exchange.h"

static void
free_escaped(struct weir__escaped *first)
{
        while (first) {
                struct weir__escaped *next = first->next;

                free(first);
                first = next;
        }
}

void
weir__exchange_free(struct weir__exchange *exchange)
{
        if (!weir__exchange_is_detached(exchange))
                weir__count(&exchange->client->branch->counts, WEIR__COUNT_EXCHANGES, -1);
        weir__exchange_free_request(exchange->request);
        weir__response_done(&exchange->response);
        weir__file_close(&exchange->file);
        weir__file_close(&exchange->withheld);
        free(exchange->upgrade);
        free(exchange->parameters);
        for (unsigned i = 0; exchange->fields && i < WEIR__LISTS; i++)
                free(exchange->fields->lists[i]);
        if (exchange->fields)
                free_escaped(exchange->fields->escaped);
        free(exchange->fields);
        free(exchange->body);
        if (exchange->task.series)
                weir_series_unref(exchange->task.series);
        weir__free(exchange, sizeof *exchange);
}

/* -- the way back -- */

static void
reply_run(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)work;

        exchange->ops->reply(exchange);
}

static const struct weir__work_ops reply_ops = {.run = reply_run};

static const struct weir_http_server_config *
config_of(const struct weir__exchange *exchange)
{
        return &exchange->client->branch->server->config; /* constant, and there as long as the exchange */
}

/* Only whole replies are compressed, and none that is dropped or becomes an error.  A reply of another length than announced is
 * an error too; compressed, it might have that length by chance. */
static bool
should_compress(const struct weir__exchange *exchange)
{
        if (exchange->reply_left != UINT64_MAX && exchange->reply_left != exchange->response.body_size)
                return false;
        return exchange->response.body_size && config_of(exchange)->compress && !exchange->result && !exchange->has_failed &&
               !exchange->upgrade && !exchange->file && !weir__exchange_has_begun(exchange);
}

static void
compress(void *argument)
{
        struct weir__exchange *exchange = argument;

        exchange->reply_left = UINT64_MAX; /* the announced length was right, and is another one from now on */
        weir__compress_response(&exchange->response, exchange->request, config_of(exchange)->compress,
                                config_of(exchange)->compress_least);
}

bool
weir__exchange_is_of_other_length(const struct weir__exchange *exchange)
{
        uint64_t size = exchange->file ? exchange->file->whole : exchange->response.body_size;
        bool is_without = !exchange->file && !size && !weir__exchange_carries_body(exchange);

        return exchange->reply_left != UINT64_MAX && exchange->reply_left != size && !is_without;
}

/* The reply is not what the handler has made: a push into its series has failed, or it has announced another length. */
static void
say_fault(void *argument)
{
        static struct weir__log_limit limit, limit_of_length;
        const struct weir__exchange *exchange = argument;
        char peer[WEIR__PEER_ROOM + 32];

        weir__exchange_describe_peer(exchange, peer, sizeof peer);
        if (!exchange->result) {
                weir__log_limited(
                        &limit_of_length, WEIR_LOG_ERROR,
                        "%s %.200s by %s: its body has another length than weir_http_reply_length has said; the reply is a 500",
                        exchange->request->method, exchange->request->target, peer);
                return;
        }
        weir__log_limited(&limit, WEIR_LOG_ERROR, "%s %.200s by %s: a push into its series has failed: %s; the reply is %s",
                          exchange->request->method, exchange->request->target, peer, weir_strerror(exchange->result),
                          weir__exchange_has_begun(exchange) ? "cut" : "a 500");
}

static bool
has_fault_to_say(const struct weir__exchange *exchange)
{
        if (__builtin_expect(exchange->result, 0))
                return weir_series_cause(exchange->task.series) == WEIR_CAUSE_POISONED;
        return __builtin_expect(exchange->reply_left != UINT64_MAX, 0) && !weir__exchange_has_begun(exchange) &&
               weir__exchange_is_of_other_length(exchange);
}

static const struct weir__callee on_free_callee = {"the on_free of", "an exchange", "a free function"};
static const struct weir__callee log_callee = {"a log function, called for", "an exchange", "a log function"};
static const struct weir__callee compression = {"the compression of", "an exchange", "a compression"};

/* Nobody refers to the exchange any more.  Runs on a worker, in no callback.  The compression of a large body takes long, so it
 * counts as a callback: the poller may be retaken meanwhile. */
static void
give_back(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)work;

        if (exchange->task.on_free)
                weir__user_call_as(&on_free_callee, &exchange->task.work, exchange->task.on_free, exchange->task.context);
        if (has_fault_to_say(exchange))
                weir__user_call_as(&log_callee, &exchange->task.work, say_fault, exchange);
        if (should_compress(exchange))
                weir__user_call_as(&compression, &exchange->task.work, compress, exchange);
        struct weir__worker *worker = weir__worker_self();
        struct weir__poller *poller = weir__poller_at(exchange->task.poller);

        exchange->task.work.ops = &reply_ops;
        if (worker->poller == poller)
                exchange->ops->reply(exchange);
        else
                weir__deliver(poller, &exchange->task.work);
}

static const struct weir__work_ops give_back_ops = {.run = give_back, .is_migratable = true};

void
weir__exchange_ref(struct weir__exchange *exchange)
{
        atomic_fetch_add_explicit(&exchange->references, 1, memory_order_relaxed);
}

/* The last reference of a detached one is gone: this thread frees it. */
static void
forget(struct weir__exchange *exchange)
{
        if (exchange->task.on_free)
                weir__user_call_as(&on_free_callee, &exchange->task.work, exchange->task.on_free, exchange->task.context);
        exchange->ops->forget(exchange);
}

void
weir__exchange_unref(struct weir__exchange *exchange)
{
        if (atomic_fetch_sub_explicit(&exchange->references, 1, memory_order_acq_rel) != 1)
                return;
        if (weir__exchange_is_detached(exchange)) {
                forget(exchange);
                return;
        }
        exchange->task.work.ops = &give_back_ops;
        weir__deliver(weir__poller_at(exchange->task.poller), &exchange->task.work);
}

/* -- held by the program alone --
 *
 *     ENDED, held --disown--> the owner takes a reference -> release -> detach --the last reference--> freed by any thread
 *     disowned --end--> the series' reference goes to the owner -> release ...
 *
 * Of the end and the disowning the second one sees the bit of the first, and only that one releases.  While the owner has its
 * reference nothing can give the exchange back to the connection. */

/* The work of the exchange runs for a second time.  It may have been given to another poller, as the first time. */
static void
release(struct weir__exchange *exchange)
{
        struct weir__poller *poller = weir__poller_at(exchange->task.poller);

        if (weir__worker_self()->poller == poller)
                exchange->ops->release(exchange);
        else
                weir__deliver(poller, &exchange->task.work);
}

/* Unless none is left: then it is on its way back already. */
static bool
take_reference(struct weir__exchange *exchange)
{
        uint32_t count = atomic_load_explicit(&exchange->references, memory_order_relaxed);

        while (count && !atomic_compare_exchange_weak_explicit(&exchange->references, &count, count + 1, memory_order_acq_rel,
                                                               memory_order_relaxed))
                ;
        return count;
}

void
weir__exchange_disown(struct weir__exchange *exchange)
{
        uint8_t before = atomic_fetch_or_explicit(&exchange->phase, WEIR__EXCHANGE_DISOWNED, memory_order_acq_rel);

        /* Once it has ended each reference is dropped by an atomic operation, so another may be taken while there are any. */
        if (before == WEIR__EXCHANGE_ENDED && take_reference(exchange))
                exchange->ops->release(exchange);
}

void
weir__exchange_detach(struct weir__exchange *exchange)
{
        weir__count(&exchange->client->branch->counts, WEIR__COUNT_EXCHANGES, -1);
        atomic_store_explicit(&exchange->is_detached, true, memory_order_release);
        weir__exchange_unref(exchange);
}

/* The handler has returned, or the series that it asked for has ended.  Only the owner of a reference can make another.  So the
 * only one is the last one, and needs no atomic operation. */
static void
ended(struct weir__exchange *exchange, int result)
{
        exchange->result = result;
        if (atomic_load_explicit(&exchange->references, memory_order_acquire) == 1)
                give_back(&exchange->task.work);
        else if (atomic_fetch_or_explicit(&exchange->phase, WEIR__EXCHANGE_ENDED, memory_order_acq_rel))
                weir__deliver(weir__poller_at(exchange->task.poller), &exchange->task.work); /* its ops stay: holders read them */
        else
                weir__exchange_unref(exchange);
}

static void
series_made(struct weir_series *series)
{
        struct weir__exchange *exchange = (struct weir__exchange *)series->owner;

        series->granularity = exchange->client->branch->server->coalescing;
        if (atomic_exchange_explicit(&exchange->series_or_cut, (uintptr_t)series, memory_order_acq_rel) == WEIR__CUT)
                weir_series_cancel(series);
}

void
weir__exchange_cut(struct weir__exchange *exchange)
{
        uintptr_t before = atomic_exchange_explicit(&exchange->series_or_cut, WEIR__CUT, memory_order_acq_rel);

        if (before && before != WEIR__CUT)
                weir_series_cancel((struct weir_series *)before);
}

/* Its series is kept until it is freed, so that this may look at it. */
void
weir__exchange_describe_wait(const struct weir__exchange *exchange, char *out, size_t room)
{
        uintptr_t series = atomic_load_explicit(&exchange->series_or_cut, memory_order_acquire);
        bool is_cut = series == WEIR__CUT;
        char what[240] = "";

        if (series && !is_cut)
                weir__series_describe((struct weir_series *)series, what, sizeof what);
        if (*what)
                snprintf(out, room, "waiting for %s", what);
        else
                snprintf(out, room, "%s", is_cut ? "whose client has gone" : "which waits for nothing that could be ended");
}

/* Without a series the reply would go out before the tasks of the handler: it becomes a 500. */
static void
series_failed(struct weir_task *task)
{
        ((struct weir__exchange *)task)->has_failed = true;
}

/* A step that was cancelled, or came too late, may be the failure of the series.  That is no end of the exchange from outside. */
static int
result_of(const struct weir_series *series)
{
        return weir_series_cause(series) == WEIR_CAUSE_FAILED ? -EIO : weir_series_status(series);
}

static void
series_ended(struct weir_series *series)
{
        /* The reference lasts until the exchange is freed: weir__exchange_cut may look at the series until then. */
        ended(weir_series_ref(series)->owner, result_of(series));
}

static const struct weir__series_ops series_ops = {
        .work = WEIR__SERIES_WORK,
        .ended = series_ended,
        .is_shown_as_owner = true,
};

static void
run(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)work;

        if (__builtin_expect(weir__exchange_has_ended(exchange), 0)) {
                release(exchange);
                return;
        }
        if (atomic_load_explicit(&exchange->series_or_cut, memory_order_relaxed) == WEIR__CUT)
                weir__task_make_series(
                        &exchange->task); /* it is cancelled at once: the handler sees -ECANCELED, and its tasks are dropped */
        weir__task_call(&exchange->task);
        struct weir_series *series = exchange->task.series;
        if (!series) {
                ended(exchange, 0);
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

void
weir__exchange_describe_peer(const struct weir__exchange *exchange, char *out, size_t room)
{
        char peer[WEIR__PEER_ROOM];

        weir__peer_write(&exchange->client->peer, true, peer);
        snprintf(out, room, "%s, fd %d%s", peer, exchange->fd,
                 atomic_load_explicit(&exchange->series_or_cut, memory_order_relaxed) == WEIR__CUT ? ", which has gone" : "");
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__exchange *exchange = (const struct weir__exchange *)task;
        char peer[WEIR__PEER_ROOM + 32];

        weir__exchange_describe_peer(exchange, peer, sizeof peer);
        snprintf(out, room, "%s by %s", exchange->request->method, peer);
}

static const struct weir__task_ops exchange_ops = {
        .work = {.run = run,
                 .kind = "an exchange",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .name = name,
        .describe = describe,
        .series_made = series_made,
        .series_failed = series_failed,
        .series_ops = &series_ops,
};

struct weir__exchange *
weir__exchange_new(const struct weir__exchange_ops *ops, const struct weir__client *client, int fd, struct weir__request *request)
{
        struct weir__exchange *exchange = weir__alloc(sizeof *exchange);
        struct weir__http_branch *branch = client->branch;

        if (!exchange) {
                weir__exchange_free_request(request);
                return NULL;
        }
        *exchange = (struct weir__exchange){
                .ops = ops,
                .client = client,
                .fd = fd,
                .request = request,
                .body_left = request->is_chunked ? UINT64_MAX : request->content_length,
                .reply_left = UINT64_MAX,
                .references = 1,
                .came_at = branch->access ? weir__clock_now() : branch->base.poller->sleep.woke_at,
        };
        weir__task_init(&exchange->task, &exchange_ops, sizeof *exchange, branch->server->handler, branch->server->context);
        exchange->task.flags |= WEIR__TASK_CONSUMED;
        weir__count(&branch->counts, WEIR__COUNT_EXCHANGES, 1);
        return exchange;
}

struct weir__exchange *
weir__exchange_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && task->work.ops == &exchange_ops.work ? (struct weir__exchange *)task : NULL;
}

/* -- the reply -- */

bool
weir__exchange_is_fixed(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->has_begun, memory_order_acquire) ||
               atomic_load_explicit(&exchange->events, memory_order_relaxed) != WEIR__EVENTS_NONE;
}

/* Any status but that of the upgrade itself takes it back. */
void
weir__exchange_set_status(struct weir__exchange *exchange, int status)
{
        if (exchange->upgrade) { /* NULL is not written again: the owner of the poller may be reading it */
                free(exchange->upgrade);
                exchange->upgrade = NULL;
        }
        exchange->is_misused = false;
        exchange->response.status = status;
}

int
weir__exchange_refuse(struct weir__exchange *exchange, int status)
{
        weir__exchange_set_status(exchange, status);
        exchange->reply_left = UINT64_MAX;
        weir_http_server *server = exchange->client->branch->server;
        return weir__exchange_check(exchange, weir__error_pages_fill(server, status, SIZE_MAX, &exchange->response));
}

bool
weir__exchange_carries_body(const struct weir__exchange *exchange)
{
        struct weir__framing framing = {.is_head = exchange->request->is_head,
                                        .end = exchange->upgrade ? WEIR__END_OF_HTTP : WEIR__END_OF_BODY};

        return weir__response_may_have_body(&exchange->response, &framing);
}
