/* net/protocol/message.c: a message that has come, as a task, and its reply.
 *
 * Threads: the handler and the callbacks of the series run on any worker.  At its end a message is delivered to the poller of its
 *          session, which alone frees it.
 * Locks:   none. */
#include "net/protocol/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/observe/log.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

#define SPARE      16 /* bytes by which a reply may be larger than its message, and lie in one block with it */
#define SPARE_MOST 256

static struct weir__message *
message_of_link(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__message, link) : NULL;
}

/* -- the owner -- */

static char *
spare_of(struct weir__message *message)
{
        return (char *)message + message->whole - message->spare;
}

static void
drop_packed(struct weir__message *message)
{
        if (message->packed && message->packed != spare_of(message))
                weir__free(message->packed, message->packed_size);
        message->packed = NULL;
}

static void
message_free(struct weir__message *message)
{
        struct weir_session *session = message->session;

        if (message->task.series)
                weir_series_unref(message->task.series);
        drop_packed(message);
        session->message_bytes -= message->size;
        weir__free(message, message->whole);
        if (!session->side->is_server)
                weir__runtime_leave();
        if (--session->messages)
                return;
        weir__session_note_use(session);
        if (session->has_ended)
                weir__session_note_gone(session);
}

static void
reply_done(struct weir__outgoing *outgoing, struct weir_session *session, int status)
{
        (void)session;
        (void)status;
        message_free(weir__container_of(outgoing, struct weir__message, reply));
}

/* The next one that may go out. */
static void
reply(struct weir__message *message)
{
        struct weir_session *session = message->session;

        weir__link_remove(&message->link);
        if (!message->packed) {
                message_free(message);
                return;
        }
        if (session->protocol->id_width)
                weir__frame_set_id(session->protocol, message->packed, message->packed_size, message->id);
        message->reply = (struct weir__outgoing){.writer = {.data = message->packed, .left = message->packed_size},
                                                 .done = reply_done};
        weir__session_put(session, &message->reply);
}

/* Replies leave in the order in which the requests came, unless the messages have numbers. */
static void
reply_in_order(struct weir__message *message)
{
        struct weir_session *session = message->session;

        if (weir__protocol_has_numbers(session->protocol) || !session->side->is_server) {
                reply(message);
                return;
        }
        for (struct weir__message *first; (first = message_of_link(weir__list_first(&session->replies))) && first->is_answered;)
                reply(first);
}

/* Replies of several messages go out together: behind those that are ready, or when all are answered. */
static void
take_back(struct weir__message *message)
{
        struct weir_session *session = message->session;

        session->unanswered--;
        if ((message->result || message->is_refused) && !message->packed)
                weir__session_end(session, weir__phase_is_stopping()
                                                   ? -ESHUTDOWN
                                                   : -EIO); /* in place of a reply that the peer would wait for */
        if (session->is_over) {
                weir__link_remove(&message->link);
                message_free(message); /* the session may be gone */
                return;
        }
        message->is_answered = true;
        reply_in_order(message);
        if (session->unanswered)
                weir__session_flush_later(session);
        else
                weir__session_flush(session);
}

static void
take_back_run(struct weir__work *work)
{
        take_back((struct weir__message *)work);
}

static const struct weir__work_ops take_back_ops = {.run = take_back_run};

static void
cut(struct weir__message *message)
{
        uintptr_t before = atomic_exchange_explicit(&message->series_or_cut, WEIR__MESSAGE_CUT, memory_order_acq_rel);

        if (before && before != WEIR__MESSAGE_CUT)
                weir_series_cancel((struct weir_series *)before);
}

void
weir__messages_cut(struct weir_session *session)
{
        for (struct weir__link *link = weir__list_first(&session->replies), *next; link; link = next) {
                struct weir__message *message = message_of_link(link);

                next = weir__list_next(&session->replies, link);
                if (message->is_answered) {
                        weir__link_remove(link);
                        message_free(message);
                } else {
                        cut(message);
                }
        }
}

/* -- a worker -- */

static void
ended(struct weir__message *message, int result)
{
        struct weir__poller *poller = weir__poller_at(message->task.poller);

        message->result = result;
        weir__task_call_on_free(&message->task);
        message->task.work.ops = &take_back_ops;
        if (weir__worker_self()->poller == poller)
                take_back(message);
        else
                weir__deliver(poller, &message->task.work);
}

static void
series_made(struct weir_series *series)
{
        struct weir__message *message = (struct weir__message *)series->owner;

        if (atomic_exchange_explicit(&message->series_or_cut, (uintptr_t)series, memory_order_acq_rel) == WEIR__MESSAGE_CUT)
                weir_series_cancel(series);
}

static void
series_failed(struct weir_task *task)
{
        ((struct weir__message *)task)->result = -ENOMEM;
}

static void
series_ended(struct weir_series *series)
{
        /* The reference lasts until the message is freed: weir__messages_cut may look at the series until then. */
        ended(weir_series_ref(series)->owner, weir_series_status(series));
}

static const struct weir__series_ops series_ops = {.work = WEIR__SERIES_WORK, .ended = series_ended, .is_shown_as_owner = true};

static void
run(struct weir__work *work)
{
        struct weir__message *message = (struct weir__message *)work;

        if (atomic_load_explicit(&message->series_or_cut, memory_order_relaxed) == WEIR__MESSAGE_CUT)
                weir__task_make_series(&message->task); /* it is cancelled at once: the handler sees -ECANCELED */
        weir__task_call(&message->task);
        struct weir_series *series = message->task.series;
        if (!series) {
                ended(message, message->result);
                return;
        }
        weir__series_leave_task(series, &message->task);
        weir__series_go_on(series);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__message *message = (const struct weir__message *)task;

        snprintf(out, room, "%" PRIu32 " bytes", message->size);
}

static const struct weir__task_ops message_ops = {
        .work = {.run = run,
                 .kind = "a message",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .describe = describe,
        .series_made = series_made,
        .series_failed = series_failed,
        .series_ops = &series_ops,
};

int
weir__message_deliver(struct weir_session *session, const char *data, size_t size, uint64_t id)
{
        size_t spare = size + SPARE < SPARE_MOST ? size + SPARE : SPARE_MOST,
               whole = sizeof(struct weir__message) + size + 1 + spare;
        struct weir__message *message = weir__alloc(whole);
        struct weir__part body = weir__frame_body(session->protocol, size);

        if (!message)
                return -ENOMEM;
        message->is_answered = false; /* each field alone: to clear so much memory at once takes longer */
        message->is_refused = false;
        message->result = 0;
        message->packed = NULL;
        message->packed_size = 0;
        atomic_init(&message->series_or_cut, 0);
        message->session = session;
        message->id = id;
        message->whole = (uint32_t)whole;
        message->size = (uint32_t)body.size;
        message->at = (uint16_t)body.at;
        message->spare = (uint16_t)spare;
        weir__task_init(&message->task, &message_ops, whole, session->handler, session->handler_context);
        message->task.flags |= WEIR__TASK_CONSUMED;
        weir__task_set_poller(&message->task, session->poller);
        memcpy(message->data, data, size);
        message->data[body.at + body.size] = '\0';
        weir__list_append(&session->replies, &message->link);
        session->messages++;
        session->message_bytes += body.size;
        session->unanswered++;
        weir__deliver(weir__poller_at(session->poller), &message->task.work);
        return 0;
}

/* -- the public face -- */

/* Its operations change when it is answered. */
static struct weir__message *
message_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && task->work.ops == &message_ops.work ? (struct weir__message *)task : NULL;
}

const void *
weir_message_data(const weir_task *task, size_t *size)
{
        const struct weir__message *message = message_of(task);

        if (size)
                *size = message ? message->size : 0;
        return message ? message->data + message->at : NULL;
}

int
weir_message_reply(weir_task *task, const void *data, size_t size)
{
        struct weir__message *message = message_of(task);
        ssize_t whole;

        if (!message)
                return weir__log_refusal("weir_message_reply: the task is no message");
        char *packed = weir__message_pack(message->session->protocol, data, size, &whole, spare_of(message), message->spare,
                                          "weir_message_reply");
        if (!packed) {
                message->is_refused = true;
                return (int)whole;
        }
        if (message->packed != packed)
                drop_packed(message);
        message->packed = packed;
        message->packed_size = (uint32_t)whole;
        return 0;
}

weir_session *
weir_message_session(const weir_task *task)
{
        const struct weir__message *message = message_of(task);

        return message ? message->session : NULL;
}
