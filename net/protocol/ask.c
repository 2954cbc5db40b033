/* net/protocol/ask.c: a request and its reply: as a task, and direct, in memory of the program.
 *
 *     weir_ask_directly --work item--> a place on a connection --the reply, in a call of the cut--> done
 *                                                \--the reply, or a failure, otherwise: work item--> done
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the endpoint's poller.  `done` of a direct request
 *          is called by a worker, which may lose the poller then.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "net/protocol/endpoint.h"

struct weir__ask {
        struct weir__io_task io;     /* first */
        struct weir__asking request; /* with a use of its endpoint */

        /* The owner's, then the callback's. */
        char *reply; /* with a NUL behind the body; or NULL */
        struct weir__part body;
};

static int
try(struct weir__io_task *io)
{
        struct weir__ask *ask = (struct weir__ask *)io;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        io->task.is_linked = true;
        ask->request.endpoint->put(ask->request.endpoint, &ask->request);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__asking *request = &((struct weir__ask *)io)->request;
        struct weir_endpoint *endpoint = request->endpoint;

        weir__endpoint_count_requests(endpoint, -1);
        if (request->lane) {
                weir__lane_leave(request);
        } else {
                weir__asking_unqueue(request);
                weir__dial_leave(request);
                if (weir__list_is_empty(&endpoint->waiting))
                        weir__dials_cancel(endpoint);
        }
        endpoint->go_on(endpoint);
}

static void
answered(struct weir__asking *request, struct weir_session *session, const char *data, size_t size)
{
        struct weir__ask *ask = weir__container_of(request, struct weir__ask, request);

        ask->body = weir__frame_body(session->protocol, size);
        ask->reply = weir__alloc(ask->body.size + 1);
        if (ask->reply) {
                memcpy(ask->reply, data + ask->body.at, ask->body.size);
                ask->reply[ask->body.size] = '\0';
                weir__asking_set_stage(request, WEIR_ASK_ANSWERED);
        }
        weir__io_complete(&ask->io, ask->reply ? 0 : -ENOMEM);
}

static void
failed(struct weir__asking *request, int status)
{
        weir__io_complete(&weir__container_of(request, struct weir__ask, request)->io, status);
}

static const struct weir__asking_ops request_ops = {.answered = answered, .failed = failed};

/* Whether this thread is the owner of the poller, and stays it until weir__unpin. */
static inline bool
pin(const struct weir__poller *poller)
{
        const struct weir__worker *worker = weir__worker_self();

        return worker && worker->poller == poller && (weir__pin() || weir__pin_in_doubt());
}

static void
start(struct weir_task *task)
{
        struct weir_endpoint *endpoint = ((struct weir__ask *)task)->request.endpoint;

        weir__task_set_poller(task, weir__endpoint_poller(endpoint));
        if (pin(weir__poller_at(task->poller))) {
                endpoint->begun = NULL; /* direct requests that begin later go out later */
                weir__unpin();
        }
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__ask *ask = (struct weir__ask *)task;

        (void)is_discarded;
        if (ask->reply)
                weir__free(ask->reply, ask->body.size + 1);
        if (ask->request.packed)
                weir__free(ask->request.packed, ask->request.size);
        weir_endpoint_unref(ask->request.endpoint);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        static const char *const stages[] = {"a connection to", "a new connection to", "the hello of",
                                             "a send to",       "a reply of",          "a reply of"};
        const struct weir__ask *ask = (const struct weir__ask *)task;
        const struct weir_endpoint *endpoint = ask->request.endpoint;
        uint8_t stage = __atomic_load_n(&ask->request.stage, __ATOMIC_RELAXED);

        if (stage == WEIR_ASK_QUEUED)
                snprintf(out, room, "%s %s (%u busy, %u wait)", stages[stage], endpoint->address,
                         atomic_load_explicit(&endpoint->connections, memory_order_relaxed),
                         atomic_load_explicit(&endpoint->waits, memory_order_relaxed));
        else
                snprintf(out, room, "%s %s", stages[stage], endpoint->address);
}

static const struct weir__io_ops ask_ops = {
        .task = WEIR__IO_TASK_OPS("a request", start, release, describe), .try = try, .withdraw = withdraw};

/* -- the public face -- */

/* Returns the fault of the bytes. */
static int
pack(struct weir__ask *ask, const struct weir_protocol *protocol, const void *data, size_t size)
{
        ssize_t whole;

        ask->request.packed = weir__message_pack(protocol, data, size, &whole, NULL, 0, "weir_ask_new");
        if (!ask->request.packed)
                return (int)whole;
        ask->request.size = (size_t)whole;
        void *fiber = weir__user_hide_fiber();
        ask->request.id = protocol->match ? protocol->match(data, size, protocol->context) : 0;
        weir__user_show_fiber(fiber);
        return 0;
}

weir_task *
weir_ask_new(weir_endpoint *endpoint, const void *data, size_t size, weir_task_fn *done, void *context)
{
        struct weir__ask *ask = weir__alloc(sizeof *ask);

        if (!ask)
                return NULL;
        *ask = (struct weir__ask){.request = {.ops = &request_ops, .endpoint = weir_endpoint_ref(endpoint)}};
        weir__task_init(&ask->io.task, &ask_ops.task, sizeof *ask, done, context);
        int fault = endpoint ? pack(ask, endpoint->protocol, data, size) : -ENOMEM;
        if (fault == -ENOMEM && endpoint) {
                weir_task_dismiss(&ask->io.task);
                return NULL;
        }
        if (fault)
                weir__task_poison(&ask->io.task, fault);
        return &ask->io.task;
}

static const struct weir__ask *
ask_of(const weir_task *task)
{
        return task && task->work.ops == &ask_ops.task.work ? (const struct weir__ask *)task : NULL;
}

const void *
weir_ask_reply(const weir_task *task, size_t *size)
{
        const struct weir__ask *ask = ask_of(task);

        if (size)
                *size = ask && ask->reply ? ask->body.size : 0;
        return !ask ? NULL : ask->reply ? ask->reply : "";
}

enum weir_ask_stage
weir_ask_stage(const weir_task *task)
{
        const struct weir__ask *ask = ask_of(task);

        return ask ? (enum weir_ask_stage)ask->request.stage : WEIR_ASK_QUEUED;
}

/* -- direct requests -- */

/* What lies in the room of a request. */
struct direct {
        struct weir__work work; /* first */
        struct weir__asking request;
        struct weir__work_list with; /* others that begin with it */
        int status;
        const char *reply;
        size_t size;
        bool is_copy; /* the reply is ours */
};

_Static_assert(sizeof(struct direct) <= sizeof((struct weir_direct_ask *)NULL)->room, "there is room for it");

static struct weir_direct_ask *
asked_by(struct direct *direct)
{
        return (struct weir_direct_ask *)(void *)((char *)direct - offsetof(struct weir_direct_ask, room));
}

static struct direct *
direct_of(const struct weir_direct_ask *ask)
{
        return (struct direct *)(void *)ask->room;
}

static const struct weir__callee reply_callee = {"the reply function of", "a protocol", "a reply function"};

static void
call(struct weir__work *work)
{
        struct direct *direct = (struct direct *)work;
        char *copy = direct->is_copy ? (char *)direct->reply : NULL;
        size_t size = direct->size;
        struct weir_direct_ask *ask = asked_by(direct);

        ask->done(ask, direct->status, direct->reply, size); /* its memory may be gone */
        if (copy)
                weir__free(copy, size + 1);
        weir__runtime_leave();
}

static void
call_alone(void *work)
{
        call(work);
}

static void
run_end(struct weir__work *work)
{
        weir__user_call_as(&reply_callee, NULL, call_alone, work);
}

static const struct weir__work_ops end_ops = {.run = run_end}, call_ops = {.run = call}; /* `call`: within a call */

static void
end(struct direct *direct, int status)
{
        direct->status = status;
        direct->work.ops = &end_ops;
        weir__deliver(weir__poller_at(direct->request.endpoint->poller), &direct->work);
}

static void
direct_failed(struct weir__asking *request, int status)
{
        end(weir__container_of(request, struct direct, request), status);
}

static void
direct_answered(struct weir__asking *request, struct weir_session *session, const char *data, size_t size)
{
        struct direct *direct = weir__container_of(request, struct direct, request);

        direct->size = size;
        if (session->answered) {
                weir__asking_set_stage(request, WEIR_ASK_ANSWERED);
                direct->reply = data;
                direct->work.ops = &call_ops;
                weir__work_append(session->answered, &direct->work);
                return;
        }
        char *copy = weir__alloc(size + 1);
        if (copy) {
                weir__asking_set_stage(request, WEIR_ASK_ANSWERED);
                memcpy(copy, data, size);
                copy[size] = '\0';
                direct->reply = copy;
                direct->is_copy = true;
        }
        end(direct, copy ? 0 : -ENOMEM);
}

static const struct weir__asking_ops direct_ops = {.is_borrowed = true, .answered = direct_answered, .failed = direct_failed};

static void
begin(struct direct *direct)
{
        if (weir__phase_is_stopping())
                end(direct, -ESHUTDOWN);
        else
                direct->request.endpoint->put(direct->request.endpoint, &direct->request);
}

static void
run_begin(struct weir__work *work)
{
        struct direct *direct = (struct direct *)work;
        struct weir__work_list with = direct->with;

        if (direct->request.endpoint->begun == work)
                direct->request.endpoint->begun = NULL;
        begin(direct);
        while ((work = weir__work_pop(&with)))
                begin((struct direct *)work);
}

static const struct weir__work_ops begin_ops = {.run = run_begin};

#define BEGUN_AT_ONCE 64 /* requests, before other work has its turn */

/* Under a pin: those that begin one after another on the owner are one work item. */
static inline void
begin_together(struct weir_endpoint *endpoint, struct weir__poller *poller, struct direct *direct)
{
        if (endpoint->begun && endpoint->begun_with < BEGUN_AT_ONCE) {
                endpoint->begun_with++;
                weir__work_append(&((struct direct *)endpoint->begun)->with, &direct->work);
                return;
        }
        endpoint->begun = &direct->work;
        endpoint->begun_with = 1;
        weir__work_append(&poller->ready.items, &direct->work);
        weir__ready_note(&poller->ready, 1);
}

static inline void
deliver(struct weir_endpoint *endpoint, struct direct *direct)
{
        struct weir__poller *poller = weir__poller_at(weir__endpoint_poller(endpoint));

        if (!pin(poller)) {
                weir__deliver(poller, &direct->work);
                return;
        }
        begin_together(endpoint, poller, direct);
        weir__unpin();
}

/* The bytes of a message that is sent as it is, or their fault. */
static inline ssize_t
size_of(const struct weir_protocol *protocol, const struct weir_direct_ask *ask)
{
        if (protocol->delimiter || protocol->fixed_size || !ask->data || !ask->size)
                return weir__frame_whole(protocol, ask->data, ask->size);
        return ask->size <= weir__protocol_max(protocol) ? (ssize_t)ask->size : -EMSGSIZE;
}

int
weir_ask_directly(weir_endpoint *endpoint, struct weir_direct_ask *ask)
{
        if (!endpoint)
                return -ENOMEM;
        const struct weir_protocol *protocol = endpoint->protocol;
        if (!ask || !ask->done || protocol->bare || protocol->id_width || protocol->length_width)
                return weir__log_refusal("weir_ask_directly: expected a function, and a protocol whose messages are sent as they "
                                         "are");
        ssize_t whole = size_of(protocol, ask);
        int failed = whole < 0 ? (int)whole : weir__runtime_enter();
        if (failed)
                return failed;
        struct direct *direct = direct_of(ask);
        direct->work.ops = &begin_ops;
        direct->with = (struct weir__work_list){0};
        direct->status = 0;
        direct->is_copy = false;
        direct->request.ops = &direct_ops;
        direct->request.endpoint = endpoint;
        direct->request.packed = (char *)(uintptr_t)ask->data;
        direct->request.size = ask->size;
        direct->request.id = protocol->match ? protocol->match(ask->data, ask->size, protocol->context) : 0;
        direct->request.stage = WEIR_ASK_QUEUED;
        direct->request.is_replayed = false;
        direct->request.waiting = (struct weir__link){0};
        direct->request.dial = NULL;
        direct->request.lane = NULL;
        direct->request.place.link = direct->request.outgoing.writer.link = (struct weir__link){0};
        deliver(endpoint, direct);
        return 0;
}

enum weir_ask_stage
weir_direct_stage(const struct weir_direct_ask *ask)
{
        return (enum weir_ask_stage)__atomic_load_n(&direct_of(ask)->request.stage, __ATOMIC_RELAXED);
}
