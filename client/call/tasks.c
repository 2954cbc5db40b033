/* client/call/tasks.c: the tasks of a call.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the call's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/call/call.h"
#include "client/wire/wire.h"
#include "kernel/memory/piece.h"
#include "kernel/observe/log.h"

static struct weir__call_task *
task_of(struct weir__link *link)
{
        return weir__container_of(link, struct weir__call_task, waiting);
}

/* -- the end -- */

void
weir__call_complete(struct weir__call_task *task, int status)
{
        weir__io_complete(&task->io, status);
}

void
weir__call_end_tasks(struct weir_http_call *self)
{
        struct weir__call_task *reader = self->reader;
        struct weir__link *link;

        self->reader = NULL;
        while ((link = weir__list_pop(&self->heads)))
                weir__call_complete(task_of(link), self->status);
        while ((link = weir__list_pop(&self->writers)))
                weir__call_complete(task_of(link), self->status ? self->status : -EPIPE);
        if (!reader)
                return;
        reader->is_last = !self->status;
        weir__call_complete(reader, self->status);
}

/* -- trying -- */

/* The first task begins the call.  Result: 0; the status of a task that comes too late. */
static int
begin(struct weir_http_call *self, enum weir__draft_framing framing)
{
        if (self->fault)
                return self->fault;
        if (self->state != WEIR__CALL_NEW)
                return 0;
        if (!self->is_framed)
                self->framing = (uint8_t)framing;
        return weir__call_begin(self);
}

static int
wait(struct weir__call_task *task)
{
        return task->io.task.is_linked ? 0 : task->io.task.status;
}

/* The program has seen the interim response. */
static void
seek_head(struct weir_http_call *self)
{
        self->call.is_shown = false;
        if (self->state == WEIR__CALL_WIRED)
                weir__wire_go_on(self->call.wire);
}

static int
try_head(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;

        if (self->state == WEIR__CALL_NEW) { /* it may be over at once */
                task->io.task.is_linked = true;
                weir__list_append(&self->heads, &task->waiting);
                int failed = begin(self, WEIR__DRAFT_NO_BODY);
                if (failed && task->io.task.is_linked) {
                        weir__link_remove(&task->waiting);
                        task->io.task.is_linked = false;
                        return failed;
                }
                return wait(task);
        }
        if (self->has_head && (self->state == WEIR__CALL_OVER || self->call.received->end != WEIR__RECEIVED_TUNNEL))
                return 0;
        if (self->state == WEIR__CALL_OVER)
                return self->status;
        task->io.task.is_linked = true;
        weir__list_append(&self->heads, &task->waiting);
        if (self->call.is_shown)
                seek_head(self);
        return wait(task);
}

static int
try_read(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;
        int failed = begin(self, WEIR__DRAFT_NO_BODY);

        task->is_last = self->state == WEIR__CALL_OVER && !self->status;
        if (failed || self->state == WEIR__CALL_OVER)
                return failed ? failed : self->status;
        if (self->reader)
                return -EBUSY;
        self->reader = task;
        self->call.is_shown = false;
        task->io.task.is_linked = true;
        if (self->state == WEIR__CALL_WIRED)
                weir__wire_go_on(self->call.wire);
        return wait(task);
}

/* Puts the writer behind the others. */
static int
queue(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;

        weir__list_append(&self->writers, &task->waiting);
        task->io.task.is_linked = true;
        if (self->state == WEIR__CALL_WIRED) {
                weir__wire_put(&self->call, &task->writer);
                weir__wire_go_on(self->call.wire);
        }
        return wait(task);
}

/* Source: RFC 9112 section 7.1. */
static void
frame(struct weir__call_task *task, bool is_chunked)
{
        static char line_end[] = "\r\n";
        int size = is_chunked ? snprintf(task->line, sizeof task->line, "%zx\r\n", task->size) : 0;

        task->pieces[0] = (struct iovec){task->line, (size_t)size};
        task->pieces[1] = (struct iovec){task->data, task->size};
        task->pieces[2] = (struct iovec){line_end, is_chunked ? 2 : 0};
        task->writer = (struct weir__writer){.kind = WEIR__WRITER_PIECES,
                                             .pieces = task->pieces,
                                             .count = 3,
                                             .left = (uint64_t)size + task->size + (is_chunked ? 2 : 0)};
}

static int
refuse_write(const struct weir_http_call *self)
{
        static struct weir__log_limit limit;

        if (!self->is_finished)
                weir__log_limited(&limit, WEIR_LOG_WARNING,
                                  "weir_http_call_write_new: the request has begun without a body: expected "
                                  "weir_http_call_set_length before its first task");
        return -EPIPE;
}

static int
try_write(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;
        int failed = begin(self, WEIR__DRAFT_CHUNKED);

        if (failed)
                return failed;
        if (self->state == WEIR__CALL_OVER)
                return self->status ? self->status : -EPIPE;
        if (self->is_cut)
                return -EPIPE;
        if (self->is_finished || self->framing == WEIR__DRAFT_NO_BODY)
                return refuse_write(self);
        bool is_chunked = self->framing == WEIR__DRAFT_CHUNKED;
        if (!is_chunked && task->size > self->length)
                return -EMSGSIZE;
        if (!task->size)
                return 0; /* a chunk without bytes would be the last */
        if (!is_chunked)
                self->length -= task->size;
        frame(task, is_chunked);
        return queue(task);
}

static int
try_finish(struct weir__call_task *task)
{
        static char last[] = "0\r\n\r\n";
        struct weir_http_call *self = task->owner;
        int failed = begin(self, WEIR__DRAFT_NO_BODY);

        if (failed)
                return failed;
        if (self->state == WEIR__CALL_OVER && (self->status || !self->call.is_sent))
                return self->status ? self->status : -EPIPE;
        if (self->is_cut)
                return -EPIPE;
        if (self->framing == WEIR__DRAFT_NO_BODY || self->is_finished || self->state == WEIR__CALL_OVER)
                return 0;
        if (self->framing == WEIR__DRAFT_LENGTH && self->length) {
                weir__call_end(self, -ECONNABORTED);
                return -ENODATA;
        }
        self->is_finished = true;
        if (self->framing == WEIR__DRAFT_LENGTH)
                task->writer = (struct weir__writer){.data = last, .left = 0};
        else
                task->writer = (struct weir__writer){.data = last, .left = sizeof last - 1};
        return queue(task);
}

static int
try(struct weir__io_task *io)
{
        struct weir__call_task *task = (struct weir__call_task *)io;

        switch ((enum weir__call_kind)task->kind) {
        case WEIR__CALL_HEAD: return try_head(task);
        case WEIR__CALL_FIRST:
        case WEIR__CALL_READ: return try_read(task);
        case WEIR__CALL_WRITE: return try_write(task);
        default: return try_finish(task);
        }
}

/* -- cancelling -- */

/* Returns false if a part of it is out. */
static bool
take_back(struct weir__call_task *task)
{
        struct weir_http_call *self = task->owner;

        if (self->state == WEIR__CALL_WIRED && !weir__wire_take_back(&self->call, &task->writer))
                return false;
        if (task->kind == WEIR__CALL_FINISH)
                self->is_finished = false;
        else if (self->framing == WEIR__DRAFT_LENGTH)
                self->length += task->size;
        return true;
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__call_task *task = (struct weir__call_task *)io;
        struct weir_http_call *self = task->owner;

        if (task->kind == WEIR__CALL_FIRST || task->kind == WEIR__CALL_READ) {
                self->reader = NULL;
                return;
        }
        bool is_broken = task->kind != WEIR__CALL_HEAD && !take_back(task);
        weir__link_remove(&task->waiting);
        if (is_broken)
                weir__call_end(self, -ECONNABORTED);
}

/* -- the kind -- */

static void
start(struct weir_task *task)
{
        weir__call_start_task((struct weir__call_task *)task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__call_task *self = (struct weir__call_task *)task;

        (void)is_discarded;
        weir__piece_free(self->data);
        weir_http_call_unref(self->owner);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        static const char *const what[] = {"the first byte of", "the first byte of", "the body of", "a send to", "a send to"};
        const struct weir__call_task *self = (const struct weir__call_task *)task;
        const struct weir__origin *origin = self->owner->origin;
        char text[WEIR__ORIGIN_TEXT] = "an origin";

        if (origin && __atomic_load_n(&self->owner->call.stage, __ATOMIC_RELAXED) < WEIR_HTTP_SENDING) {
                weir__origin_describe(origin, text);
                snprintf(out, room, "a connection to %s", text);
                return;
        }
        if (origin)
                weir__origin_print(origin, text);
        snprintf(out, room, "%s %s %s", what[self->kind], self->owner->draft.method, text);
}

static char *
take(struct weir__io_task *io, size_t *size)
{
        struct weir__call_task *task = (struct weir__call_task *)io;
        char *data = task->data;

        *size = task->size;
        task->data = NULL;
        task->size = 0;
        return data;
}

#define OPS(name, its_take)                                                                                                   \
        {                                                                                                                     \
                .task = WEIR__IO_TASK_OPS(name, start, release, describe), .try = try, .withdraw = withdraw, .take = its_take \
        }

static const struct weir__io_ops task_ops[] = {
        [WEIR__CALL_HEAD] = OPS("a head of a response", NULL),  [WEIR__CALL_FIRST] = OPS("a first read of a response", take),
        [WEIR__CALL_READ] = OPS("a read of a response", take),  [WEIR__CALL_WRITE] = OPS("a write of a request", NULL),
        [WEIR__CALL_FINISH] = OPS("an end of a request", NULL),
};

/* -- the public face -- */

static struct weir__call_task *
new_task(weir_http_call *call, enum weir__call_kind kind, weir_task_fn *done, void *context)
{
        struct weir__call_task *task = weir__alloc(sizeof *task);

        if (!task)
                return NULL;
        memset(task, 0, sizeof *task);
        weir__task_init(&task->io.task, &task_ops[kind].task, sizeof *task, done, context);
        task->kind = (uint8_t)kind;
        task->owner = weir_http_call_ref(call);
        if (!call)
                weir__task_poison(&task->io.task, -ENOMEM);
        return task;
}

weir_task *
weir_http_call_head_new(weir_http_call *call, weir_task_fn *done, void *context)
{
        return (weir_task *)new_task(call, WEIR__CALL_HEAD, done, context);
}

weir_task *
weir_http_call_first_new(weir_http_call *call, weir_task_fn *done, void *context)
{
        return (weir_task *)new_task(call, WEIR__CALL_FIRST, done, context);
}

weir_task *
weir_http_call_read_new(weir_http_call *call, weir_task_fn *done, void *context)
{
        return (weir_task *)new_task(call, WEIR__CALL_READ, done, context);
}

weir_task *
weir_http_call_finish_new(weir_http_call *call, weir_task_fn *done, void *context)
{
        return (weir_task *)new_task(call, WEIR__CALL_FINISH, done, context);
}

weir_task *
weir_http_call_write_new(weir_http_call *call, const void *data, size_t size, weir_task_fn *done, void *context)
{
        struct weir__call_task *task = new_task(call, WEIR__CALL_WRITE, done, context);

        if (!task)
                return NULL;
        if (size && !data) {
                weir__task_poison(&task->io.task, -EINVAL);
                return &task->io.task;
        }
        task->data = size ? weir__piece_copy(data, size) : NULL;
        if (size && !task->data) {
                weir_task_dismiss(&task->io.task);
                return NULL;
        }
        task->size = size;
        return &task->io.task;
}

weir_task *
weir_http_call_write_from_new(weir_http_call *call, weir_task *read, weir_task_fn *done, void *context)
{
        struct weir__call_task *task = new_task(call, WEIR__CALL_WRITE, done, context);

        if (!task)
                return NULL;
        int failed = weir__io_take(read, &task->data, &task->size);
        if (failed)
                weir__task_poison(&task->io.task, failed);
        return &task->io.task;
}

/* NULL: it is another task. */
static const struct weir__call_task *
read_of(const weir_task *task)
{
        bool is_read = task && (task->work.ops == &task_ops[WEIR__CALL_FIRST].task.work ||
                                task->work.ops == &task_ops[WEIR__CALL_READ].task.work);

        return is_read ? (const struct weir__call_task *)task : NULL;
}

int
weir_http_call_is_last(const weir_task *read)
{
        const struct weir__call_task *task = read_of(read);

        return task ? task->is_last : -EINVAL;
}

const void *
weir_http_call_data(const weir_task *read, size_t *size)
{
        const struct weir__call_task *task = read_of(read);

        if (size)
                *size = task ? task->size : 0;
        return !task ? NULL : task->data ? task->data : "";
}
