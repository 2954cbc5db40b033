/* net/protocol/dial.c: a connection that is being made, and its hello.
 *
 *     connect, a series --its end, by a work item--> hello, a series of the program's tasks --its end--> a lane
 *
 * Threads: the owner of the endpoint's poller.  The callbacks of the series, on any worker, only note what they saw: the dial is
 *          theirs until the work item gives it back.
 *
 * A dial is for a request, whose failure its own is.  If the request gets another connection meanwhile, the dial goes to the
 * next one that waits.  If none does, it goes on for those to come; but when requests are cancelled, it ends with the last. */
#include <errno.h>
#include <stdlib.h>

#include <weir/flow.h>

#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "net/protocol/endpoint.h"

#define CONNECT_LIMIT WEIR_SEC(10)
#define HELLO_LIMIT   WEIR_SEC(10)

struct weir__dial {
        struct weir__link link;         /* in the endpoint's dials */
        struct weir_endpoint *endpoint; /* a reference */
        struct weir__asking *request;   /* or NULL */
        struct weir_series *series;     /* a reference */
        struct weir__work work;
        uint8_t stage; /* CONNECTING or HELLO */

        /* The series', then the owner's. */
        struct weir_stream *stream;
        int status;
};

static void run(struct weir__work *work);

static const struct weir__work_ops dial_ops = {.run = run};

/* -- the callbacks of the series -- */

static void
series_ended(weir_series *series, void *context)
{
        struct weir__dial *dial = context;
        int status = weir_series_status(series);

        if (!dial->status)
                dial->status = status;
        weir__deliver(weir__poller_at(dial->endpoint->poller), &dial->work);
}

static void
connected(weir_task *connect, void *context)
{
        struct weir__dial *dial = context;

        dial->status = weir_task_status(connect);
        dial->stream = weir_connect_take_stream(connect);
}

static void
say_hello(weir_task *task, void *context)
{
        const struct weir__dial *dial = context;
        const struct weir_protocol *protocol = dial->endpoint->protocol;

        if (weir_task_status(task) == 0)
                protocol->hello(dial->stream, weir_series_of(task), protocol->context);
}

/* -- the owner -- */

/* Starts a series of that task.  Result: 0 or a negative errno. */
static int
begin_stage(struct weir__dial *dial, enum weir_ask_stage stage, weir_task *task, weir_nsec limit)
{
        struct weir_series *series = weir_series_new(series_ended, dial);

        dial->stage = stage;
        if (dial->request)
                weir__asking_set_stage(dial->request, stage);
        if (!series) {
                weir_task_dismiss(task);
                return -ENOMEM;
        }
        weir_series_stop_on_failure(series);
        int failed = limit == WEIR_FOREVER ? 0 : weir_series_set_deadline(series, limit);
        if (failed)
                weir_task_dismiss(task);
        else
                failed = weir_series_push(series, task);
        if (failed) {
                weir_series_dismiss(series);
                return failed;
        }
        dial->series = weir_series_ref(series);
        failed = weir_series_start(series);
        if (!failed)
                return 0;
        weir_series_unref(dial->series);
        dial->series = NULL;
        return failed;
}

static weir_task *
make_connect(struct weir__dial *dial)
{
        const struct weir_endpoint *endpoint = dial->endpoint;

        return endpoint->tls ? weir_connect_tls_new(endpoint->address, endpoint->tls, endpoint->name, connected, dial)
                             : weir_connect_new(endpoint->address, connected, dial);
}

static void
set_request(struct weir__dial *dial, struct weir__asking *request)
{
        dial->request = request;
        if (!request)
                return;
        request->dial = dial;
        weir__asking_set_stage(request, dial->stage);
}

/* The dial is over: gives up all it has. */
static void
dial_free(struct weir__dial *dial)
{
        struct weir_endpoint *endpoint = dial->endpoint;

        weir__link_remove(&dial->link);
        if (dial->request)
                dial->request->dial = NULL;
        if (dial->series)
                weir_series_unref(dial->series);
        weir_stream_unref(dial->stream);
        weir__endpoint_count(endpoint, -1);
        weir__endpoint_change(&endpoint->connecting, -1);
        free(dial);
}

int
weir__dial_begin(struct weir_endpoint *endpoint, struct weir__asking *request)
{
        struct weir__dial *dial = calloc(1, sizeof *dial);
        int failed = dial ? weir__runtime_enter() : -ENOMEM;

        if (failed) {
                free(dial);
                return failed;
        }
        dial->endpoint = endpoint;
        dial->work.ops = &dial_ops;
        weir__endpoint_count(endpoint, 1);
        weir__endpoint_change(&endpoint->connecting, 1);
        weir__endpoint_keep(endpoint);
        weir__list_append(&endpoint->dials, &dial->link);
        dial->stage = WEIR_ASK_CONNECTING;
        set_request(dial, request);
        failed = begin_stage(dial, WEIR_ASK_CONNECTING, make_connect(dial),
                             weir__protocol_limit(endpoint->protocol->connect_limit, CONNECT_LIMIT));
        if (!failed)
                return 0;
        dial_free(dial);
        weir__endpoint_drop(endpoint); /* the request has a use of it */
        weir__runtime_leave();
        return failed;
}

/* The next that waits without a dial gets it. */
static void
pass_on(struct weir__dial *dial)
{
        struct weir_endpoint *endpoint = dial->endpoint;

        for (struct weir__link *link = weir__list_first(&endpoint->waiting); link && !dial->request;
             link = weir__list_next(&endpoint->waiting, link)) {
                struct weir__asking *request = weir__container_of(link, struct weir__asking, waiting);

                if (!request->dial)
                        set_request(dial, request);
        }
}

void
weir__dial_leave(struct weir__asking *request)
{
        struct weir__dial *dial = request->dial;

        request->dial = NULL;
        if (!dial)
                return;
        dial->request = NULL;
        pass_on(dial);
}

void
weir__dials_cancel(struct weir_endpoint *endpoint)
{
        for (struct weir__link *link = weir__list_first(&endpoint->dials); link; link = weir__list_next(&endpoint->dials, link)) {
                const struct weir__dial *dial = weir__container_of(link, struct weir__dial, link);

                if (!dial->request && dial->series)
                        weir_series_cancel(dial->series);
        }
}

/* A stage has ended well.  Returns 0 if another has begun, 1 if the connection is there; or a negative errno. */
static int
go_on(struct weir__dial *dial)
{
        const struct weir_protocol *protocol = dial->endpoint->protocol;

        if (dial->stage == WEIR_ASK_CONNECTING && protocol->hello)
                return begin_stage(dial, WEIR_ASK_HELLO, weir_empty_new(say_hello, dial),
                                   weir__protocol_limit(protocol->hello_limit, HELLO_LIMIT));
        int failed = weir__lane_begin(dial->endpoint, dial->stream);
        return failed ? failed : 1;
}

static void
run(struct weir__work *work)
{
        struct weir__dial *dial = weir__container_of(work, struct weir__dial, work);
        struct weir_endpoint *endpoint = dial->endpoint;

        weir_series_unref(dial->series);
        dial->series = NULL;
        int result = dial->status ? dial->status : go_on(dial);
        if (result == 0)
                return;
        struct weir__asking *request = dial->request;
        if (result < 0 && result != -ECANCELED && result != -ESHUTDOWN)
                weir__endpoint_add(&endpoint->refused);
        dial_free(dial);
        if (result < 0 && request) {
                weir__asking_unqueue(request);
                weir__asking_end(request, result);
        } else if (request) {
                weir__asking_set_stage(request, WEIR_ASK_QUEUED); /* others may wait longer for the connection */
        }
        endpoint->go_on(endpoint);
        weir__endpoint_drop(endpoint);
        weir__runtime_leave();
}
