/* net/protocol/server.c: the task that serves a stream.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none.
 *
 * The callback of the task is the last thing: a cancel ends the session, and the task waits for the handlers of the messages that
 * have come. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "factory/task/series.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/worker/deliver.h"
#include "net/protocol/session.h"

#define MESSAGE_LIMIT WEIR_SEC(30)

struct serve {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_stream *stream; /* a use; NULL: the task is poisoned */
        const struct weir_protocol *protocol;
        weir_task_fn *handler;

        /* The owner's, while it waits. */
        struct server *server;
        bool is_cancelled; /* and its session has ended for that */
};

struct server {
        struct weir_session session; /* first */
        struct serve *task;
};

static struct server *
server_of(const struct weir_session *session)
{
        return (struct server *)session;
}

/* -- the side -- */

static bool
expects(const struct weir_session *session)
{
        (void)session;
        return true;
}

static void
settled(struct weir_session *session)
{
        (void)session;
}

static weir_nsec
limit(struct weir_session *session)
{
        const struct weir_protocol *protocol = session->protocol;

        if (session->is_partial)
                return weir__clock_after(session->partial_since, weir__protocol_limit(protocol->message_limit, MESSAGE_LIMIT));
        return weir__session_idle_until(session);
}

static void
late(struct weir_session *session)
{
        if (limit(session) <= weir__clock_now())
                weir__session_end(session, -ETIMEDOUT);
}

static void
gone(struct weir_session *session)
{
        struct serve *serve = server_of(session)->task;

        if (!serve->is_cancelled) {
                weir__io_complete(&serve->io, session->status);
                return;
        }
        serve->io.task.is_linked = false;
        serve->io.task.status = weir__series_effective_cause(serve->io.task.series);
        weir__deliver(weir__poller_at(serve->io.task.poller), &serve->io.task.work);
}

static void
free_server(struct weir_session *session)
{
        weir__free(server_of(session), sizeof(struct server));
}

static const struct weir__side server_side = {
        .is_server = true,
        .idle_limit = WEIR_FOREVER,
        .receive = weir__message_deliver,
        .expects = expects,
        .settled = settled,
        .limit = limit,
        .late = late,
        .gone = gone,
        .free = free_server,
        .cut = weir__session_cut,
        .cut_messages = weir__messages_cut,
};

/* -- the task -- */

static int
open_session(struct server *server, struct serve *serve)
{
        memset(server, 0, sizeof *server);
        weir__session_init(&server->session, &server_side, serve->protocol);
        server->session.handler = serve->handler;
        server->session.handler_context = serve->io.task.context;
        server->task = serve;
        return weir__session_open(&server->session, serve->stream);
}

static int
try(struct weir__io_task *io)
{
        struct serve *serve = (struct serve *)io;
        struct server *server = weir__alloc(sizeof *server);
        int failed = server ? open_session(server, serve) : -ENOMEM;

        if (failed) {
                if (server)
                        weir__free(server, sizeof *server);
                return failed;
        }
        serve->server = server;
        io->task.is_linked = true;
        weir__session_receive(&server->session);
        return 0;
}

/* After a cancel its work comes once more: from `gone`. */
static void
run(struct weir__work *work)
{
        struct serve *serve = (struct serve *)work;

        if (!serve->io.task.is_linked || serve->is_cancelled) {
                weir__io_run(work);
                return;
        }
        serve->is_cancelled = true;
        weir__session_end(&serve->server->session, -ECANCELED);
}

static void
start(struct weir_task *task)
{
        weir__stream_start_task(task, ((struct serve *)task)->stream);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        (void)is_discarded;
        weir_stream_unref(((struct serve *)task)->stream);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        char peer[WEIR__ADDRESS_TEXT];

        weir__stream_describe(((const struct serve *)task)->stream, peer, sizeof peer);
        snprintf(out, room, "messages from %s", peer);
}

static const struct weir__io_ops serve_ops = {
        .task = {.work = {.run = run, .kind = "a protocol's server", .function = weir__io_function, .name = weir__task_name},
                 .start = start,
                 .end_early = weir__io_end_early,
                 .release = release,
                 .describe = describe},
        .try = try};

/* In place of NULL: a task without a callback could not wait behind a cancel that meets its start. */
static void
no_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

weir_task *
weir_protocol_serve_new(weir_stream *stream, const struct weir_protocol *protocol, weir_task_fn *handler, weir_task_fn *done,
                        void *context)
{
        struct serve *serve = weir__alloc(sizeof *serve);
        int fault = weir__protocol_check(protocol, "weir_protocol_serve_new");

        if (!serve)
                return NULL;
        if (!fault && !handler)
                fault = weir__log_refusal("weir_protocol_serve_new: no handler: expected a function that replies");
        *serve = (struct serve){.stream = weir__stream_use(stream), .protocol = protocol, .handler = handler};
        weir__task_init(&serve->io.task, &serve_ops.task, sizeof *serve, done ? done : no_callback, context);
        if (!stream || fault)
                weir__task_poison(&serve->io.task, stream ? fault : -ENOMEM);
        return &serve->io.task;
}
