/* net/protocol/send.c: messages that go out without being asked for.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the session's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>

#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "net/protocol/session.h"

struct send {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_session *session; /* a reference; NULL: the task is poisoned */
        char *packed;                 /* or NULL */
        size_t size;

        struct weir__outgoing outgoing; /* the owner's, while it waits */
};

char *
weir__message_pack(const struct weir_protocol *protocol, const void *data, size_t size, ssize_t *whole, char *room,
                   size_t room_size, const char *call)
{
        *whole = weir__frame_whole(protocol, data, size);
        if (*whole < 0) {
                static struct weir__log_limit limit;

                weir__log_limited(&limit, WEIR_LOG_ERROR, "%s: these %zu bytes %s", call, data ? size : 0,
                                  *whole == -EMSGSIZE ? "are more than a message of the protocol may have"
                                                      : "are no message of the protocol");
                return NULL;
        }
        char *packed = (size_t)*whole <= room_size ? room : weir__alloc((size_t)*whole);
        if (packed)
                weir__frame_write(protocol, packed, (size_t)*whole, data, size);
        else
                *whole = -ENOMEM;
        return packed;
}

static void
sent(struct weir__outgoing *outgoing, struct weir_session *session, int status)
{
        weir__session_note_use(session);
        weir__io_complete(&weir__container_of(outgoing, struct send, outgoing)->io, status);
}

static int
try(struct weir__io_task *io)
{
        struct send *send = (struct send *)io;
        struct weir_session *session = send->session;

        if (session->is_over || session->has_end)
                return -EPIPE;
        send->outgoing = (struct weir__outgoing){.writer = {.data = send->packed, .left = send->size}, .done = sent};
        weir__session_put(session, &send->outgoing);
        io->task.is_linked = true;
        weir__session_send(session);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        struct send *send = (struct send *)io;
        struct weir_session *session = send->session;
        bool is_lost = weir__output_is_on_its_way(&session->stream->transport, &send->outgoing.writer);

        weir__link_remove(&send->outgoing.writer.link);
        if (is_lost)
                weir__session_end(session, -ECONNABORTED);
        weir__session_flush(session); /* perhaps it waited only for this one to be out */
}

static void
start(struct weir_task *task)
{
        unsigned poller = ((struct send *)task)->session->poller;
        bool is_there = poller < weir__pollers_count(); /* else it is over, in another runtime */

        weir__task_set_poller(task, is_there ? poller : weir__worker_home_poller());
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct send *send = (struct send *)task;

        (void)is_discarded;
        if (send->packed)
                weir__free(send->packed, send->size);
        if (send->session)
                weir__session_drop(send->session);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        snprintf(out, room, "a peer to take %zu bytes", ((const struct send *)task)->size);
}

static const struct weir__io_ops send_ops = {
        .task = WEIR__IO_TASK_OPS("a push", start, release, describe), .try = try, .withdraw = withdraw};

weir_task *
weir_session_send_new(weir_session *session, const void *data, size_t size, weir_task_fn *done, void *context)
{
        struct send *send = weir__alloc(sizeof *send);
        ssize_t whole = 0;

        if (!send)
                return NULL;
        *send = (struct send){.session = weir_session_ref(session)};
        weir__task_init(&send->io.task, &send_ops.task, sizeof *send, done, context);
        if (session)
                send->packed = weir__message_pack(session->protocol, data, size, &whole, NULL, 0, "weir_session_send_new");
        if (whole == -ENOMEM) {
                weir_task_dismiss(&send->io.task);
                return NULL;
        }
        if (!session || whole < 0)
                weir__task_poison(&send->io.task, session ? (int)whole : -ENOMEM);
        if (send->packed) {
                send->size = (size_t)whole;
                if (session->protocol->id_width)
                        weir__frame_set_id(session->protocol, send->packed, send->size, 0);
        }
        return &send->io.task;
}
