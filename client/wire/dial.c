/* client/wire/dial.c: a connection that is being made.
 *
 *     a series of one connect --its end, by a work item--> a connection in the pool, or a failure
 *
 * Threads: the owner of the branch's poller.  The callbacks of the series, on any worker, only note what they saw: the dial is
 *          theirs until the work item gives it back.
 * Locks:   none. */
#include "client/wire/dial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/series.h>

#include "client/wire/wire.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "net/connect/connect.h"

struct dial {
        struct weir__link link;      /* in the branch's dials */
        struct weir__branch *branch; /* with a reference to the origin */
        struct weir_series *series;  /* a reference */
        struct weir__work work;
        uint64_t ticket;

        /* The series', then the owner's. */
        struct weir_stream *stream;
        int status;
        char *problem;

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

static void
connected(weir_task *connect, void *context)
{
        struct dial *dial = context;
        const char *problem = weir_connect_problem(connect);

        dial->status = weir_task_status(connect);
        dial->stream = weir_connect_take_stream(connect);
        dial->problem = problem ? strdup(problem) : NULL;
}

/* -- the owner -- */

/* The stages of a connect are stages of requests. */
static uint8_t
stage_of(const struct dial *dial)
{
        _Static_assert(WEIR_HTTP_RESOLVING + WEIR__CONNECT_CONNECTING == WEIR_HTTP_CONNECTING, "in the same order");
        _Static_assert(WEIR_HTTP_RESOLVING + WEIR__CONNECT_HANDSHAKE == WEIR_HTTP_HANDSHAKE, "in the same order");
        return (uint8_t)(WEIR_HTTP_RESOLVING + atomic_load_explicit(&dial->stage, memory_order_relaxed));
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
run(struct weir__work *work)
{
        struct dial *dial = weir__container_of(work, struct dial, work);
        struct weir__branch *branch = dial->branch;
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

static const struct weir__work_ops dial_ops = {.run = run};

static weir_task *
new_connect(struct dial *dial)
{
        const struct weir__origin *origin = dial->branch->origin;
        struct weir_tls *tls = origin->client->config.tls;
        char *address;

        if (!origin->is_secure)
                return weir_connect_new(origin->address, connected, dial);
        if (tls)
                return weir_connect_tls_new(origin->address, tls, origin->tls_name, connected, dial);
        if (asprintf(&address, "tls:%s", origin->address) < 0)
                return NULL;
        weir_task *connect = weir_connect_new(address, connected, dial);
        free(address);
        return connect;
}

static weir_task *
make_connect(struct dial *dial)
{
        const struct weir_client_config *config = &dial->branch->origin->client->config;
        const struct weir__connect_wishes wishes = {.limits = {[WEIR__CONNECT_RESOLVING] = config->resolve_limit,
                                                               [WEIR__CONNECT_CONNECTING] = config->connect_limit,
                                                               [WEIR__CONNECT_HANDSHAKE] = config->handshake_limit},
                                                    .stage = &dial->stage,
                                                    .name = dial->branch->origin->tls_name,
                                                    .offers_http = true};
        weir_task *connect = new_connect(dial);

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
        int failed = weir_series_push(series, make_connect(dial));
        if (failed) {
                weir_series_dismiss(series);
                return failed;
        }
        dial->series = weir_series_ref(series);
        return weir_series_start(series);
}

int
weir__client_dial(struct weir__branch *branch, uint64_t ticket)
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
weir__client_cancel_dials(struct weir__branch *branch)
{
        for (struct weir__link *link = weir__list_first(&branch->dials); link; link = weir__list_next(&branch->dials, link))
                weir_series_cancel(weir__container_of(link, struct dial, link)->series);
}

uint8_t
weir__client_dial_stage(const struct weir__branch *branch)
{
        const struct weir__link *link = weir__list_first(&branch->dials);

        return link ? stage_of(weir__container_of(link, struct dial, link)) : WEIR_HTTP_QUEUED;
}
