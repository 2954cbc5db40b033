/* client/wire/dial.c: a connection that is being made.
 *
 *     connect --a proxy that is no relay--> tunnel --https--> handshake     a series, whose tasks push the next one
 *        \------------------------------------\-----------------\--its end, by a work item--> a connection, or a failure
 *
 * Threads: the owner of the branch's poller.  The callbacks of the series, on any worker, note what they saw, and push: the dial
 *          is theirs until the work item gives it back.
 * Locks:   none. */
#include "client/wire/dial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/series.h>

#include "client/tunnel/tunnel.h"
#include "client/wire/wire.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "net/connect/connect.h"

enum phase { PHASE_CONNECT, PHASE_TUNNEL, PHASE_HANDSHAKE };

#define TRIES 3 /* while descriptors run out */

struct dial {
        struct weir__link link;             /* in the branch's dials */
        struct weir__client_branch *branch; /* with a reference to the origin */
        struct weir_series *series;         /* a reference */
        struct weir__work work;
        uint64_t ticket;
        uint8_t tries;
        unsigned pollers_left; /* that `work` runs on before it begins again */

        /* The series', then the owner's. */
        struct weir_stream *stream;
        int status;
        char *problem;

        _Atomic uint8_t phase; /* relaxed */
        _Atomic uint8_t stage; /* enum weir__connect_stage; the connect's, relaxed */
};

/* -- the callbacks of the series -- */

static void
series_ended(weir_series *series, void *context)
{
        struct dial *dial = context;
        int status = weir_series_status(series);

        if (!dial->status)
                dial->status = status;
        weir__deliver(weir__poller_at(dial->branch->poller), &dial->work);
}

static const struct weir__origin *
origin_of(const struct dial *dial)
{
        return dial->branch->origin;
}

/* Keeps what a connect has said.  A proxy says its name, because the URL of the request does not. */
static void
note_problem(struct dial *dial, const char *problem)
{
        bool is_of_proxy = origin_of(dial)->proxy && dial->phase == PHASE_CONNECT;

        if (!problem)
                dial->problem = NULL;
        else if (!is_of_proxy)
                dial->problem = strdup(problem);
        else if (asprintf(&dial->problem, "the proxy %s: %s", origin_of(dial)->proxy->name, problem) < 0)
                dial->problem = NULL;
}

/* The series has another task. */
static void
push(struct dial *dial, enum phase phase, weir_task *task)
{
        atomic_store_explicit(&dial->phase, (uint8_t)phase, memory_order_relaxed);
        dial->status = weir_series_push(dial->series, task);
}

static weir_task *wish(struct dial *dial, weir_task *connect);

static void
shaken(weir_task *connect, void *context)
{
        struct dial *dial = context;

        dial->status = weir_task_status(connect);
        dial->stream = weir_connect_take_stream(connect);
        note_problem(dial, weir_connect_problem(connect));
}

/* The host that the certificate must have; malloc. */
static char *
host_of(const struct weir__origin *origin)
{
        const char *address = origin->address, *colon = strrchr(address, ':');
        bool is_bracketed = address[0] == '[';

        if (origin->tls_name)
                return strdup(origin->tls_name);
        return strndup(address + is_bracketed, (size_t)(colon - address) - (is_bracketed ? 2 : 0));
}

static void
open_way(struct dial *dial)
{
        const struct weir__origin *origin = origin_of(dial);
        char *host = origin->is_secure ? host_of(origin) : NULL;
        struct weir_stream *stream = dial->stream;

        if (!origin->is_secure)
                return;
        dial->stream = NULL;
        if (!host) {
                weir_stream_unref(stream);
                dial->status = -ENOMEM;
                return;
        }
        weir_task *handshake = weir__connect_over_new(stream, origin->address, origin->client->config.tls, host, shaken, dial);
        free(host);
        atomic_store_explicit(&dial->stage, WEIR__CONNECT_HANDSHAKE, memory_order_relaxed);
        push(dial, PHASE_HANDSHAKE, wish(dial, handshake));
}

static void
tunnelled(weir_task *tunnel, void *context)
{
        struct dial *dial = context;
        const char *problem = weir__tunnel_problem(tunnel);

        dial->status = weir_task_status(tunnel);
        if (dial->status)
                dial->problem = problem ? strdup(problem) : NULL;
        else
                open_way(dial);
}

static void
connected(weir_task *connect, void *context)
{
        struct dial *dial = context;
        const struct weir__origin *origin = origin_of(dial);

        dial->status = weir_task_status(connect);
        dial->stream = weir_connect_take_stream(connect);
        note_problem(dial, weir_connect_problem(connect));
        if (!dial->status && origin->proxy && !origin->is_relay)
                push(dial, PHASE_TUNNEL,
                     weir__tunnel_new(dial->stream, origin->proxy, origin->address, origin->client->config.proxy_limit, tunnelled,
                                      dial));
}

/* -- the owner -- */

/* The stages of a connect are stages of requests.  A handshake with a proxy is a part of its way. */
static uint8_t
stage_of(const struct dial *dial)
{
        static const uint8_t stages[] = {[WEIR__CONNECT_RESOLVING] = WEIR_HTTP_RESOLVING,
                                         [WEIR__CONNECT_CONNECTING] = WEIR_HTTP_CONNECTING,
                                         [WEIR__CONNECT_HANDSHAKE] = WEIR_HTTP_HANDSHAKE};
        _Static_assert(sizeof stages == WEIR__CONNECT_STAGES, "each has one");
        uint8_t phase = atomic_load_explicit(&dial->phase, memory_order_relaxed),
                stage = atomic_load_explicit(&dial->stage, memory_order_relaxed);
        bool is_proxys = phase == PHASE_TUNNEL ||
                         (phase == PHASE_CONNECT && origin_of(dial)->proxy && stage == WEIR__CONNECT_HANDSHAKE);

        return is_proxys ? WEIR_HTTP_PROXY : stages[stage];
}

static void
dial_free(struct dial *dial)
{
        struct weir__origin *origin = dial->branch->origin;

        if (weir__link_is_used(&dial->link))
                weir__link_remove(&dial->link);
        if (dial->series)
                weir_series_unref(dial->series);
        weir_stream_unref(dial->stream);
        free(dial->problem);
        free(dial);
        weir__origin_drop(origin);
        weir__runtime_leave();
}

static void
finish(struct dial *dial)
{
        struct weir__client_branch *branch = dial->branch;
        int failed = dial->status;
        struct weir__wire *wire = failed ? NULL : weir__wire_new(branch, dial->stream, &failed);

        if (wire) {
                dial->stream = NULL;
                weir__link_remove(&dial->link);
                weir__pool_dialled(&wire->pooled);
        } else {
                char *problem = dial->problem;

                dial->problem = NULL;
                weir__link_remove(&dial->link);
                weir__pool_dial_failed(branch, dial->ticket, failed, stage_of(dial), problem);
        }
        dial_free(dial);
}

static const struct weir__work_ops dial_ops;

/* Makes the task that connects with TLS.  If `tls` is NULL, the default settings apply. */
static weir_task *
new_secure(struct dial *dial, const char *to, struct weir_tls *tls, const char *name)
{
        char *address;

        if (tls)
                return weir_connect_tls_new(to, tls, name, connected, dial);
        if (asprintf(&address, "tls:%s", to) < 0)
                return NULL;
        weir_task *connect = weir_connect_new(address, connected, dial);
        free(address);
        return connect;
}

/* To the proxy, if there is one. */
static weir_task *
new_connect(struct dial *dial)
{
        const struct weir__origin *origin = origin_of(dial);
        const struct weir_client_config *config = &origin->client->config;
        const struct weir__proxy *proxy = origin->proxy;

        if (proxy)
                return proxy->is_secure ? new_secure(dial, proxy->address, config->proxy_tls, NULL)
                                        : weir_connect_new(proxy->address, connected, dial);
        return origin->is_secure ? new_secure(dial, origin->address, config->tls, origin->tls_name)
                                 : weir_connect_new(origin->address, connected, dial);
}

/* Returns NULL when out of memory. */
static weir_task *
wish(struct dial *dial, weir_task *connect)
{
        const struct weir__origin *origin = origin_of(dial);
        const struct weir_client_config *config = &origin->client->config;
        const struct weir__connect_wishes wishes = {.limits = {[WEIR__CONNECT_RESOLVING] = config->resolve_limit,
                                                               [WEIR__CONNECT_CONNECTING] = config->connect_limit,
                                                               [WEIR__CONNECT_HANDSHAKE] = config->handshake_limit},
                                                    .stage = &dial->stage,
                                                    .name = origin->proxy ? NULL : origin->tls_name,
                                                    .offers_http = true};

        if (weir__connect_wish(connect, &wishes) == 0)
                return connect;
        weir_task_dismiss(connect);
        return NULL;
}

/* Starts the series.  Result: 0 or a negative errno. */
static int
start(struct dial *dial)
{
        weir_series *series = weir_series_new(series_ended, dial);

        if (!series)
                return -ENOMEM;
        int failed = weir_series_push(series, wish(dial, new_connect(dial)));
        if (failed) {
                weir_series_dismiss(series);
                return failed;
        }
        dial->series = weir_series_ref(series);
        return weir_series_start(series);
}

/* -- while descriptors run out -- */

static void run_again(struct weir__work *work);

static const struct weir__work_ops again_ops = {.run = run_again};

static void
begin_again(struct dial *dial)
{
        weir_series_unref(dial->series);
        dial->series = NULL;
        dial->work.ops = &dial_ops;
        dial->status = 0;
        free(dial->problem);
        dial->problem = NULL;
        dial->stage = WEIR__CONNECT_RESOLVING;
        int failed = start(dial);
        if (failed) {
                dial->status = failed;
                finish(dial);
        }
}

/* Each poller has closed what it was asked to before it gets to this. */
static void
run_again(struct weir__work *work)
{
        struct dial *dial = weir__container_of(work, struct dial, work);
        unsigned left = dial->pollers_left;

        if (left == 0) {
                begin_again(dial);
                return;
        }
        dial->pollers_left--;
        weir__deliver(weir__poller_at((dial->branch->poller + left - 1) % weir__pollers_count()), &dial->work);
}

/* Connections that nobody uses may have the descriptors: a program that asks many servers has one for each of them. */
static bool
makes_room(struct dial *dial)
{
        struct weir__origin *origin = dial->branch->origin;

        if ((dial->status != -EMFILE && dial->status != -ENFILE) || ++dial->tries == TRIES || weir__phase_is_stopping() ||
            !atomic_load(&origin->waiting))
                return false;
        weir_client_close_idle(origin->client);
        dial->work.ops = &again_ops;
        dial->pollers_left = 2 * weir__pollers_count();
        run_again(&dial->work);
        return true;
}

static void
run(struct weir__work *work)
{
        struct dial *dial = weir__container_of(work, struct dial, work);

        if (!makes_room(dial))
                finish(dial);
}

static const struct weir__work_ops dial_ops = {.run = run};

/* -- from outside -- */

int
weir__client_dial(struct weir__client_branch *branch, uint64_t ticket)
{
        struct dial *dial = calloc(1, sizeof *dial);
        int failed = dial ? weir__runtime_enter() : -ENOMEM;

        if (failed) {
                free(dial);
                return failed;
        }
        dial->branch = branch;
        dial->work.ops = &dial_ops;
        dial->ticket = ticket;
        weir__origin_keep(branch->origin);
        weir__list_append(&branch->dials, &dial->link);
        failed = start(dial);
        if (failed)
                dial_free(dial);
        return failed;
}

/* The series of a dial is the caller's while the dial is in the list: its end comes by a work item of this poller. */
void
weir__client_cancel_dials(struct weir__client_branch *branch)
{
        for (struct weir__link *link = weir__list_first(&branch->dials); link; link = weir__list_next(&branch->dials, link))
                weir_series_cancel(weir__container_of(link, struct dial, link)->series);
}

uint8_t
weir__client_dial_stage(const struct weir__client_branch *branch)
{
        const struct weir__link *link = weir__list_first(&branch->dials);

        return link ? stage_of(weir__container_of(link, struct dial, link)) : WEIR_HTTP_QUEUED;
}
