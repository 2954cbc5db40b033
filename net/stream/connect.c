/* net/stream/connect.c: tasks that connect.
 *
 *     a name: resolve, on the executor --> attempt at the first address --fails--> at the next one ... --> done
 *     another address: ---------------------/
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the task's poller, but for the look-up of a name,
 *          which may block: a thread of the executor does that.
 * Locks:   none.
 *
 * A look-up cannot be taken back.  It belongs to no task: one that is cancelled meanwhile leaves it, and it ends by itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/executor/executor.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/address.h"
#include "kernel/socket/connect.h"
#include "kernel/worker/deliver.h"
#include "net/stream/secure.h"
#include "net/stream/stream.h"

#define NAMES_MAX   16           /* addresses of a name that are tried */
#define AGAIN_FIRST WEIR_MSEC(1) /* while a Unix socket has no room for a connection; then twice as long each time */
#define AGAIN_LAST  WEIR_MSEC(64)

struct look_up {
        struct weir__job job;
        struct weir__work work;        /* the result, on its way to the poller */
        struct weir__connect *connect; /* who waits for it; NULL: nobody any more.  Owner of the poller */
        uint8_t poller;

        /* The executor's, then the owner's. */
        int count; /* of `names`; or a negative errno */
        bool needs_tls;
        struct weir_tls *tls; /* a reference; the default settings */
        struct weir__address address;
        struct weir__socket_address names[NAMES_MAX];
};

/* Another attempt at a Unix socket that had no room. */
struct retry {
        struct weir__alarm alarm;
        struct weir__connect *connect; /* NULL: it has ended.  Owner of the poller */
};

struct weir__connect {
        struct weir__io_task io; /* first */

        struct weir__address *address; /* what was asked for, until the look-up has it */
        char *text;                    /* as it was written */
        bool is_secure;                /* with TLS */
        char *name;                    /* which the peer's certificate must have; NULL: the host */
        struct weir_tls *tls;          /* a reference; NULL: none, or the default settings, which the look-up gets */

        /* The owner's, then the callback's. */
        struct look_up *look_up; /* while it is under way */
        struct weir__socket_address *names;
        unsigned count, next; /* of the names */
        int failed;           /* the last attempt */
        weir_nsec again_after;
        struct retry *retry;        /* while it waits for that */
        bool is_shaking;            /* TCP is connected, and the handshake under way */
        char *problem;              /* in words; or NULL */
        struct weir_stream *stream; /* the attempt, or what it has come to; a use */
};

static struct weir__poller *
poller_of(const struct weir__connect *connect)
{
        return weir__poller_at(connect->io.task.poller);
}

/* -- the end -- */

static void
drop_stream(struct weir__connect *connect)
{
        struct weir_stream *stream = connect->stream;

        connect->stream = NULL;
        if (!stream)
                return;
        if (stream->has_holder) {
                weir__stream_give_back(stream);
                weir__stream_fail(stream, -ECONNABORTED);
        }
        weir_stream_unref(stream);
}

/* -- attempts -- */

static void go_on(void *holder);

static const struct weir__holder_ops holder_ops = {.go_on = go_on};

/* The handshake has made a step. */
static int
shake(struct weir__connect *connect)
{
        struct weir__stream *stream = &connect->stream->transport.stream;
        int result = weir__stream_handshake(stream);

        if (result == -EAGAIN)
                return -EINPROGRESS;
        if (result && weir__tls_problem(stream->tls))
                connect->problem = strdup(weir__tls_problem(stream->tls));
        return result;
}

/* TCP is connected.  Returns as attempt. */
static int
connected(struct weir__connect *connect)
{
        if (!connect->tls)
                return 0;
        int failed = weir__stream_secure(connect->stream, connect->tls, connect->name, connect->text);
        connect->is_shaking = !failed;
        return failed ? failed : shake(connect);
}

/* Begins an attempt at an address.  Returns 0 when it is connected, -EINPROGRESS, or what has failed; -EAGAIN: later. */
static int
attempt(struct weir__connect *connect, const struct weir__socket_address *name)
{
        bool is_under_way;
        int fd = weir__connect(name, &is_under_way);

        if (fd < 0)
                return fd;
        connect->stream = weir__stream_new(fd, connect->io.task.poller);
        if (!connect->stream) {
                struct weir__stream stream = {.source.fd = fd};

                weir__stream_close(&stream);
                return -ENOMEM;
        }
        weir__stream_hold(connect->stream, &holder_ops, connect);
        int failed = weir__stream_open(connect->stream);
        return failed ? failed : is_under_way ? -EINPROGRESS : connected(connect);
}

static void retry_run(struct weir__work *work);

static const struct weir__work_ops retry_ops = {.run = retry_run};

/* Returns -EINPROGRESS, or why there is no other attempt. */
static int
try_again(struct weir__connect *connect)
{
        struct retry *retry = calloc(1, sizeof *retry);
        weir_nsec after = connect->again_after;

        if (!retry)
                return -ENOMEM;
        retry->alarm.work.ops = &retry_ops;
        retry->connect = connect;
        if (!weir__alarm_set(poller_of(connect), &retry->alarm, weir__clock_after(weir__clock_now(), after))) {
                free(retry);
                return -ESHUTDOWN;
        }
        connect->again_after = after < AGAIN_LAST ? 2 * after : after;
        connect->retry = retry;
        return -EINPROGRESS;
}

static void
forget_retry(struct weir__connect *connect)
{
        struct retry *retry = connect->retry;

        connect->retry = NULL;
        if (retry)
                retry->connect = NULL;
        if (retry && weir__alarm_clear(poller_of(connect), &retry->alarm))
                free(retry); /* else its work is on its way */
}

/* Returns the result. */
static int
finish(struct weir__connect *connect, int result)
{
        if (result == 0)
                weir__stream_give_back(connect->stream);
        else
                drop_stream(connect);
        return result;
}

/* Goes through the addresses.  Returns 0, -EINPROGRESS while it has to wait, or how the last attempt has failed. */
static int
go_through(struct weir__connect *connect)
{
        while (connect->next < connect->count) {
                int result = weir__phase_is_stopping() ? -ESHUTDOWN : attempt(connect, &connect->names[connect->next]);

                if (result == -EINPROGRESS)
                        return result;
                if (result == 0 || connect->is_shaking) /* another address would not help a certificate that is refused */
                        return finish(connect, result);
                drop_stream(connect);
                if (result == -EAGAIN && connect->names[connect->next].any.sa_family == AF_UNIX)
                        return try_again(connect);
                connect->failed = result;
                connect->next++;
        }
        return connect->failed;
}

static void
complete(struct weir__connect *connect, int status)
{
        if (status)
                drop_stream(connect);
        weir__io_complete(&connect->io, status);
}

/* Its socket has had an event. */
static void
go_on(void *holder)
{
        struct weir__connect *connect = holder;
        struct weir_stream *stream = connect->stream;
        int result = stream->failure       ? stream->failure
                     : connect->is_shaking ? shake(connect)
                                           : weir__connect_result(stream->transport.stream.source.fd);

        if (result == 0 && !connect->is_shaking)
                result = connected(connect);
        if (result == -EINPROGRESS)
                return;
        if (result == 0 || connect->is_shaking) {
                result = finish(connect, result);
        } else {
                drop_stream(connect);
                connect->failed = result;
                connect->next++;
                result = go_through(connect);
        }
        if (result != -EINPROGRESS)
                complete(connect, result);
}

static void
retry_run(struct weir__work *work)
{
        struct retry *retry = weir__container_of(work, struct retry, alarm.work);
        struct weir__connect *connect = retry->connect;

        free(retry);
        if (!connect)
                return;
        connect->retry = NULL;
        int result = go_through(connect);
        if (result != -EINPROGRESS)
                complete(connect, result);
}

/* -- names -- */

static void
look_up_run(struct weir__job *job)
{
        struct look_up *look_up = weir__container_of(job, struct look_up, job);
        const char *reason;

        weir__executor_begin(job->queue);
        bool has_other = weir__executor_blocking_begin() == 0;
        if (look_up->needs_tls)
                look_up->tls = weir__tls_default();
        look_up->count = look_up->needs_tls && !look_up->tls
                                 ? -ENOMEM
                                 : weir__address_resolve(&look_up->address, false, look_up->names, NAMES_MAX, &reason);
        if (has_other)
                weir__executor_blocking_end();
        weir__executor_end();
        weir__deliver(weir__poller_at(look_up->poller), &look_up->work);
}

static void
look_up_refuse(struct weir__job *job)
{
        struct look_up *look_up = weir__container_of(job, struct look_up, job);

        look_up->count = -ESHUTDOWN;
        weir__deliver(weir__poller_at(look_up->poller), &look_up->work);
}

static const struct weir__job_ops look_up_ops = {look_up_run, look_up_refuse};

static void
looked_up(struct weir__work *work)
{
        struct look_up *look_up = weir__container_of(work, struct look_up, work);
        struct weir__connect *connect = look_up->connect;

        if (connect) {
                connect->names = look_up->count > 0 ? malloc((size_t)look_up->count * sizeof *connect->names) : NULL;
                connect->failed = look_up->count < 0 ? look_up->count : connect->names ? 0 : -ENOMEM;
                connect->count = connect->names ? (unsigned)look_up->count : 0;
                for (unsigned i = 0; i < connect->count; i++)
                        connect->names[i] = look_up->names[i];
                connect->look_up = NULL;
                if (!connect->tls)
                        connect->tls = weir_tls_ref(look_up->tls);
                int result = go_through(connect);
                if (result != -EINPROGRESS)
                        complete(connect, result);
        }
        weir_tls_unref(look_up->tls);
        free(look_up);
        weir__runtime_leave();
}

static const struct weir__work_ops looked_up_ops = {.run = looked_up};

static int
begin_look_up(struct weir__connect *connect)
{
        int failed = weir__executor_use();
        struct look_up *look_up = failed ? NULL : calloc(1, sizeof *look_up);

        if (!look_up)
                return failed ? failed : -ENOMEM;
        failed = weir__runtime_enter();
        if (failed) {
                free(look_up);
                return failed;
        }
        look_up->job.ops = &look_up_ops;
        look_up->work.ops = &looked_up_ops;
        look_up->connect = connect;
        look_up->poller = connect->io.task.poller;
        look_up->address = *connect->address;
        look_up->needs_tls = connect->is_secure && !connect->tls;
        connect->look_up = look_up;
        weir__executor_submit(&look_up->job);
        return -EINPROGRESS;
}

/* -- the task -- */

static int
begin(struct weir__connect *connect)
{
        if (connect->is_secure && !connect->tls)
                connect->tls = weir__tls_default_now();
        if (connect->address->kind == WEIR__ADDRESS_NAME || (connect->is_secure && !connect->tls))
                return begin_look_up(connect);
        connect->names = malloc(sizeof *connect->names);
        if (!connect->names)
                return -ENOMEM;
        connect->names[0] = connect->address->name;
        connect->count = 1;
        return go_through(connect);
}

static int
try(struct weir__io_task *io)
{
        struct weir__connect *connect = (struct weir__connect *)io;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        int result = begin(connect);
        io->is_linked = result == -EINPROGRESS;
        return io->is_linked ? 0 : result;
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__connect *connect = (struct weir__connect *)io;

        if (connect->look_up)
                connect->look_up->connect = NULL;
        connect->look_up = NULL;
        forget_retry(connect);
        drop_stream(connect);
}

static void
start(struct weir_task *task)
{
        task->poller = (uint8_t)weir__worker_home_poller();
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__connect *connect = (struct weir__connect *)task;

        (void)is_discarded;
        weir_stream_unref(connect->stream);
        free(connect->names);
        free(connect->address);
        free(connect->text);
        free(connect->name);
        free(connect->problem);
        weir_tls_unref(connect->tls);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        snprintf(out, room, "a connection to %s", ((const struct weir__connect *)task)->text);
}

static const struct weir__io_ops connect_ops = {
        .task = WEIR__IO_TASK_OPS("a connect", start, release, describe), .try = try, .withdraw = withdraw};

/* -- the public face -- */

#define EXPECTED "expected host:port, [v6]:port or unix:path"

/* Reads the address, with "tls:" before it perhaps.  Returns its fault. */
static int
read_address(struct weir__connect *connect, const char *text)
{
        const char *reason = NULL, *rest = text;

        if (!text)
                return weir__log_refusal("weir_connect_new: the address is NULL: " EXPECTED);
        size_t size = strlen(text);
        connect->text = strdup(text);
        connect->address = malloc(sizeof *connect->address);
        if (!connect->text || !connect->address)
                return -ENOMEM;
        connect->is_secure |= weir__address_take_tls(&rest, &size);
        int failed = weir__address_parse_peer(rest, size, connect->address, &reason);
        if (failed)
                weir__log_refusal("weir_connect_new: \"%s\": %s", text, reason ? reason : EXPECTED);
        return failed;
}

/* Which name the certificate must have.  Returns its fault. */
static int
set_name(struct weir__connect *connect, const char *name)
{
        if (!connect->is_secure)
                return 0;
        if (!name && !connect->address->host[0])
                return weir__log_refusal(
                        "weir_connect_tls_new: \"%s\" has no host: expected the name that the certificate must have",
                        connect->text);
        connect->name = strdup(name ? name : connect->address->host);
        return connect->name ? 0 : -ENOMEM;
}

static weir_task *
new_connect(const char *address, weir_tls *tls, const char *name, int fault, weir_task_fn *done, void *context)
{
        struct weir__connect *connect = weir__alloc(sizeof *connect);

        if (!connect)
                return NULL;
        memset(connect, 0, sizeof *connect);
        weir__task_init(&connect->io.task, &connect_ops.task, sizeof *connect, done, context);
        connect->again_after = AGAIN_FIRST;
        connect->tls = weir_tls_ref(tls);
        connect->is_secure = tls;
        int wrong = read_address(connect, address);
        wrong = wrong ? wrong : set_name(connect, name);
        if (wrong == -ENOMEM) {
                weir_task_dismiss(&connect->io.task);
                return NULL;
        }
        if (wrong || fault)
                weir__task_poison(&connect->io.task, wrong ? wrong : fault);
        return &connect->io.task;
}

weir_task *
weir_connect_new(const char *address, weir_task_fn *done, void *context)
{
        return new_connect(address, NULL, NULL, 0, done, context);
}

weir_task *
weir_connect_tls_new(const char *address, weir_tls *tls, const char *name, weir_task_fn *done, void *context)
{
        int fault = !tls             ? -ENOMEM
                    : tls->is_client ? 0
                                     : weir__log_refusal(
                                               "weir_connect_tls_new: the settings are a server's: expected weir_tls_client_new");

        return new_connect(address, tls, name, fault, done, context);
}

static const struct weir__connect *
connect_of(const weir_task *task)
{
        return task && task->work.ops == &connect_ops.task.work ? (const struct weir__connect *)task : NULL;
}

weir_stream *
weir_connect_take_stream(weir_task *task)
{
        struct weir__connect *connect = (struct weir__connect *)connect_of(task);
        weir_stream *stream = connect && task->status == 0 ? connect->stream : NULL;

        if (stream)
                connect->stream = NULL;
        return stream;
}

const char *
weir_connect_problem(const weir_task *task)
{
        const struct weir__connect *connect = connect_of(task);

        if (!connect || !task->status)
                return NULL;
        return connect->problem ? connect->problem : weir_strerror(task->status);
}
