/* net/protocol/server.c: the task that serves a stream.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none.
 *
 * The session outlives the task if that is cancelled while messages are under way.  So it keeps the runtime up by itself. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "net/protocol/session.h"

#define MESSAGE_LIMIT WEIR_SEC(30)

struct serve {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_stream *stream; /* a use; NULL: the task is poisoned */
        const struct weir_protocol *protocol;
        weir_task_fn *handler;

        struct server *server; /* the owner's, while it waits */
};

struct server {
        struct weir_session session; /* first */
        struct serve *task;          /* NULL: it was cancelled */
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
        struct serve *task = server_of(session)->task;

        if (task)
                weir__io_complete(&task->io, session->status);
        weir__runtime_leave();
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
        int failed = weir__runtime_enter();

        if (failed)
                return failed;
        memset(server, 0, sizeof *server);
        weir__session_init(&server->session, &server_side, serve->protocol);
        server->session.handler = serve->handler;
        server->session.handler_context = serve->io.task.context;
        server->task = serve;
        failed = weir__session_open(&server->session, serve->stream);
        if (failed)
                weir__runtime_leave();
        return failed;
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
        io->is_linked = true;
        weir__session_receive(&server->session);
        return 0;
}

static void
withdraw(struct weir__io_task *io)
{
        struct server *server = ((struct serve *)io)->server;

        server->task = NULL;
        weir__session_end(&server->session, -ECANCELED);
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
        .task = WEIR__IO_TASK_OPS("a protocol's server", start, release, describe), .try = try, .withdraw = withdraw};

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
        weir__task_init(&serve->io.task, &serve_ops.task, sizeof *serve, done, context);
        if (!stream || fault)
                weir__task_poison(&serve->io.task, stream ? fault : -ENOMEM);
        return &serve->io.task;
}
