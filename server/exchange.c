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
#include <strings.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/data/prefetch.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/worker.h"
#include "protocol/bytes.h"
#include "protocol/compress.h"
#include "server/server.h"

static void series_made(struct weir_series *series);
static void series_failed(struct weir_task *task);
static void series_ended(struct weir_series *series);
static void run(struct weir__work *work);
static void prefetch(const struct weir_task *task);
static const char *name(const struct weir_task *task, int *size);

static void describe(const struct weir_task *task, char *out, size_t room);

static const struct weir__task_ops exchange_ops = {
        .work = {.run = run, .kind = "an exchange", .roams = true, .calls = weir__task_calls},
        .name = name,
        .describe = describe,
        .series_made = series_made,
        .series_failed = series_failed,
        .series_ended = series_ended,
        .series_ends_soon = prefetch,
};

struct weir__exchange *
weir__exchange_new(struct weir__connection *connection, struct weir__request *request)
{
        struct weir__exchange *exchange = weir__alloc(sizeof *exchange);
        const weir_http_server *server = connection->shard->server;

        if (!exchange) {
                weir__server_free_request(request);
                return NULL;
        }
        *exchange = (struct weir__exchange){
                .connection = connection,
                .fd = connection->stream.source.fd,
                .request = request,
                .body_left = request->chunked ? UINT64_MAX : request->content_length,
                .reply_left = UINT64_MAX,
                .holds = 1,
                .has_fine_grain = weir__poller_grain(connection->shard->poller) == WEIR__FINE_GRAIN,
                .began = connection->shard->log ? weir__clock_now() : connection->shard->poller->woke_at,
        };
        weir__task_init(&exchange->task, &exchange_ops, sizeof *exchange, server->handler, server->context);
        exchange->task.flags |= WEIR__TASK_CONSUMED;
        weir__count(&connection->shard->counts, WEIR__COUNT_EXCHANGES, 1);
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
        weir__count(&exchange->connection->shard->counts, WEIR__COUNT_EXCHANGES, -1);
        weir__server_free_request(exchange->request);
        weir__response_done(&exchange->response);
        weir__file_close(&exchange->file);
        weir__file_close(&exchange->withheld);
        free(exchange->upgrade);
        weir__route_match_free(exchange->route);
        weir__fields_free(exchange->fields);
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

static const struct weir_http_server_config *
config_of(const struct weir__exchange *exchange)
{
        return &exchange->connection->shard->server->config; /* constant, and there as long as the exchange */
}

/* Whole replies only: of those that were dropped, or have become an error, nothing is sent.  One of another length than was said is
 * an error, too, and must not come to have that length by chance. */
static bool
is_to_be_compressed(const struct weir__exchange *exchange)
{
        if (exchange->reply_left != UINT64_MAX && exchange->reply_left != exchange->response.body_size)
                return false;
        return exchange->response.body_size && config_of(exchange)->compress && !exchange->result && !exchange->failed &&
               !exchange->upgrade && !exchange->file && !atomic_load_explicit(&exchange->begun, memory_order_relaxed);
}

static void
compress(void *argument)
{
        struct weir__exchange *exchange = argument;

        exchange->reply_left = UINT64_MAX; /* it was kept to, and the length is another one from now on */
        weir__response_compress(&exchange->response, exchange->request, config_of(exchange)->compress,
                                config_of(exchange)->compress_least);
}

/* Nobody holds it any more.  On a worker, in no callback.  Compression takes as long as the body is large: it counts as code of
 * the user, from which the poller can be taken away. */
static void
give_back(struct weir__exchange *exchange)
{
        if (exchange->task.on_free)
                weir__user_call(exchange->task.on_free, exchange->task.context);
        if (is_to_be_compressed(exchange))
                weir__user_call_as("a compression", compress, exchange);
        struct weir__worker *worker = weir__worker_self();
        struct weir__poller *poller = weir__poller_at(exchange->task.poller);

        exchange->task.work.ops = &answer_ops;
        if (worker->poller == poller)
                weir__connection_answer(exchange);
        else
                weir__poller_deliver(poller, &exchange->task.work);
}

static void
over_run(struct weir__work *work)
{
        give_back((struct weir__exchange *)work);
}

static const struct weir__work_ops over_ops = {.run = over_run, .roams = true};

void
weir__exchange_hold(struct weir__exchange *exchange)
{
        atomic_fetch_add_explicit(&exchange->holds, 1, memory_order_relaxed);
}

/* The last one is nobody else's, and only who has one can make another: that costs no atomic operation. */
static bool
let_go(struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->holds, memory_order_acquire) == 1 ||
               atomic_fetch_sub_explicit(&exchange->holds, 1, memory_order_acq_rel) == 1;
}

void
weir__exchange_drop(struct weir__exchange *exchange)
{
        if (!let_go(exchange))
                return;
        exchange->task.work.ops = &over_ops;
        weir__poller_deliver(weir__poller_at(exchange->task.poller), &exchange->task.work);
}

/* The handler has returned, or the series that it asked for has ended. */
static void
ended(struct weir__exchange *exchange, int result)
{
        exchange->result = result;
        if (let_go(exchange))
                give_back(exchange);
}

static void
series_made(struct weir_series *series)
{
        struct weir__exchange *exchange = (struct weir__exchange *)series->owner;

        series->grain = exchange->has_fine_grain ? WEIR__FINE_GRAIN : WEIR__GRAIN;
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

/* Its series is kept until it is freed, so that this may look at it. */
void
weir__exchange_describe_wait(const struct weir__exchange *exchange, char *out, size_t room)
{
        static const char waiting[] = "waiting for ";
        const size_t before = sizeof waiting - 1;
        uintptr_t reach = atomic_load_explicit(&exchange->reach, memory_order_acquire);

        snprintf(out, room, "%s", waiting);
        if (reach && reach != WEIR__CUT)
                weir__series_describe((struct weir_series *)reach, out + before, room - before);
        if (!out[before])
                snprintf(out, room, "%s",
                         reach == WEIR__CUT ? "whose client has gone" : "which waits for nothing that could be ended");
}

/* The reply would go out at once, without what the handler wants to happen before. */
static void
series_failed(struct weir_task *task)
{
        ((struct weir__exchange *)task)->failed = true;
}

/* After a delay all of it is out of the caches. */
static void
prefetch(const struct weir_task *task)
{
        const struct weir__exchange *exchange = (const struct weir__exchange *)task;

        _Static_assert(sizeof *exchange <= WEIR__KEEPER_WANTED, "else its end is not fetched");
        weir__prefetch(exchange->connection, sizeof *exchange->connection);
        weir__prefetch(exchange->request, sizeof *exchange->request);
}

static void
series_ended(struct weir_series *series)
{
        prefetch(series->owner); /* it may have waited for something else than a timer */
        /* Kept until the exchange is freed: weir__connection_cut may look at it until then. */
        ended(weir_series_ref(series)->owner, weir_series_status(series));
}

static void
run(struct weir__work *work)
{
        struct weir__exchange *exchange = (struct weir__exchange *)work;

        if (atomic_load_explicit(&exchange->reach, memory_order_relaxed) == WEIR__CUT)
                weir__series_make_for(
                        &exchange->task); /* a cancelled one: so the handler sees -ECANCELED, what it pushes is dropped */
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

        weir__peer_write(&exchange->connection->peer, true, peer);
        snprintf(out, room, "%s, fd %d%s", peer, exchange->fd,
                 atomic_load_explicit(&exchange->reach, memory_order_relaxed) == WEIR__CUT ? ", which has gone" : "");
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__exchange *exchange = (const struct weir__exchange *)task;
        char peer[WEIR__PEER_ROOM + 32];

        weir__exchange_describe_peer(exchange, peer, sizeof peer);
        snprintf(out, room, "%s by %s", exchange->request->method, peer);
}

/* -- what a handler asks -- */

struct weir__exchange *
weir__exchange_of(const struct weir_task *task)
{
        return task && task->work.ops == &exchange_ops.work ? (struct weir__exchange *)task : NULL;
}

const char *
weir_http_method(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->method : NULL;
}

const char *
weir_http_target(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->target : NULL;
}

const char *
weir_http_path(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->path : NULL;
}

const char *
weir_http_query(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->query : NULL;
}

const char *
weir_http_host(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->host : NULL;
}

int
weir_http_is_secure(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? weir__secure_is_on(known->connection->shard->server) : -EDOM;
}

const char *
weir_http_client_certificate(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->connection->client : NULL;
}

const char *
weir_http_request_header(const weir_task *exchange, const char *name)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known && name ? weir__request_header(known->request, name) : NULL;
}

int
weir_http_request_field(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

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
        struct weir__exchange *known = weir__exchange_of(exchange);

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

bool
weir__exchange_has_begun(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->begun, memory_order_acquire) ||
               atomic_load_explicit(&exchange->events, memory_order_relaxed) != WEIR__EVENTS_NONE;
}

/* Any status but that of the upgrade itself takes it back. */
void
weir__exchange_set_status(struct weir__exchange *exchange, int status)
{
        if (exchange->upgrade) { /* only then it is written: the owner of the poller may be looking at it for a read */
                free(exchange->upgrade);
                exchange->upgrade = NULL;
        }
        exchange->response.status = status;
}

int
weir_http_reply_status(weir_task *exchange, int status)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (status < 200 || status > 599)
                return -EINVAL;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        if (known->file_said)
                weir__file_other_status(known, status);
        weir__exchange_set_status(known, status);
        return 0;
}

int
weir__exchange_set_field(struct weir__exchange *exchange, const char *name, const char *value)
{
        return remember(exchange, weir__response_field(&exchange->response, name, value, true));
}

/* What the handler says itself takes the place of what the file said. */
static int
add_field(struct weir__exchange *exchange, const char *name, const char *value, bool replace)
{
        if (!name || !value)
                return -EINVAL;
        bool was_of_file = exchange->file_said && weir__file_leave_field(exchange, name);
        return remember(exchange, weir__response_field(&exchange->response, name, value, replace || was_of_file));
}

int
weir_http_reply_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        return add_field(known, name, value, false);
}

int
weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        return add_field(known, name, value, true);
}

int
weir_http_reply_append(weir_task *exchange, const void *data, size_t size)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_has_begun(known) || known->file || known->withheld)
                return -EALREADY;
        return remember(known, weir__response_append(&known->response, data, size));
}

static int
reply_text(struct weir__exchange *exchange, int status, const char *text)
{
        struct weir__response *response = &exchange->response;
        int failed = weir__response_has_field(response, "Content-Type")
                             ? 0
                             : weir__response_field(response, "Content-Type", "text/plain; charset=utf-8", false);

        weir__exchange_set_status(exchange, status);
        exchange->reply_left = UINT64_MAX;
        response->body_size = 0;
        if (!failed)
                failed = weir__response_append(response, text, strlen(text));
        return remember(exchange, failed);
}

int
weir_http_reply_text(weir_task *exchange, int status, const char *text)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (!text || status < 200 || status > 599)
                return -EINVAL;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        if (known->file_said)
                weir__file_take_back(known);
        return reply_text(known, status, text);
}

int
weir_http_reply_length(weir_task *exchange, uint64_t length)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        known->reply_left = length;
        return 0;
}

/* Whether a field of the request names the word among its members. */
static bool
request_lists(const struct weir__exchange *exchange, const char *name, const char *word)
{
        const struct weir__request *request = exchange->request;
        size_t word_size = strlen(word);

        for (uint32_t i = 0; i < request->field_count; i++) {
                const char *list = request->fields[i].value, *member;
                size_t size = strlen(list), member_size;

                if (strcasecmp(request->fields[i].name, name))
                        continue;
                while (weir__bytes_next_member(&list, &size, &member, &member_size))
                        if (member_size == word_size && weir__bytes_equal(member, word, word_size))
                                return true;
        }
        return false;
}

/* Switching needs HTTP/1.1, and no body that would be in the way. */
int
weir_http_reply_upgrade(weir_task *exchange, const char *protocol)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_has_begun(known))
                return -EALREADY;
        if (!protocol || !*protocol || strlen(protocol) > WEIR__UPGRADE_MAX || known->request->minor == 0 ||
            known->request->content_length || known->request->chunked || !request_lists(known, "Upgrade", protocol) ||
            !request_lists(known, "Connection", "upgrade"))
                return -EINVAL;
        if (known->file_said)
                weir__file_take_back(known);
        weir__exchange_set_status(known, 101);
        known->upgrade = strdup(protocol);
        if (!known->upgrade)
                return remember(known, -ENOMEM);
        return 0;
}

int
weir__exchange_refuse(struct weir__exchange *exchange, int status)
{
        weir__exchange_set_status(exchange, status);
        exchange->reply_left = UINT64_MAX;
        return remember(exchange, weir__error_response(exchange->connection->shard->server, status, &exchange->response));
}

int
weir__exchange_error(struct weir__exchange *exchange, int status)
{
        exchange->page_size = 0; /* with all that there is */
        if (exchange->file_said)
                weir__file_take_back(exchange);
        weir__response_done(&exchange->response);
        return weir__exchange_refuse(exchange, status);
}
