/* net/connect/connect.c: tasks that connect.
 *
 *     the default settings of TLS, if they are wanted --> the addresses of a name --> attempts --> a handshake --> done
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the task's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/address.h"
#include "net/resolve/resolve.h"
#include "net/connect/attempts.h"
#include "net/connect/stages.h"
#include "net/stream/secure.h"
#include "net/stream/stream.h"

/* What was asked for. */
struct target {
        struct weir__socket_address name; /* unless is_name */
        in_port_t port;                   /* in the host's order */
        uint32_t size;                    /* of the block */
        bool is_name;                     /* of a host, which must be resolved */
        const char *host;                 /* is_name: behind the text */
        char text[];                      /* as it was written */
};

struct weir__connect {
        struct weir__io_task io; /* first */

        struct target *to; /* NULL: there was no memory, or no text */
        bool is_secure;    /* with TLS */
        bool offers_http;  /* as weir__connect_wishes says */
        bool is_over;      /* its stream was connected before */
        struct weir__stages stages;
        char *name;           /* which the peer's certificate must have; NULL: the host */
        struct weir_tls *tls; /* a reference; NULL: none, or the default settings, which are to be read */

        /* The owner's, then the callback's. */
        struct weir__roots_wait roots;
        struct weir__resolving resolving;
        struct weir__attempts attempts;
        bool is_shaking;            /* TCP is connected, and the handshake under way */
        char *problem;              /* in words; or NULL */
        struct weir_stream *stream; /* that is connected; a use */
        struct weir__holder holder; /* of that, in the handshake */
};

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

/* Says at which address it has failed, and how. */
static void
explain(struct weir__connect *connect, int status)
{
        const struct weir__socket_address *name = weir__attempts_last(&connect->attempts);
        const char *reason = weir_strerror(status);
        char text[WEIR__ADDRESS_TEXT] = "";

        if (connect->problem)
                return;
        if (!name) {
                if (connect->is_over && asprintf(&connect->problem, "handshake with %s: %s", connect->to->text, reason) < 0)
                        connect->problem = NULL;
                return;
        }
        bool is_name = connect->to->is_name;
        if (is_name)
                weir__address_print_host(name, text, sizeof text);
        size_t room = sizeof "connect to  (): " + strlen(connect->to->text) + strlen(text) + strlen(reason);
        connect->problem = malloc(room);
        if (connect->problem)
                snprintf(connect->problem, room, "connect to %s%s%s%s: %s", connect->to->text, is_name ? " (" : "", text,
                         is_name ? ")" : "", reason);
}

/* Returns the status. */
static int
finish(struct weir__connect *connect, int status)
{
        if (status) {
                explain(connect, status);
                drop_stream(connect);
        }
        weir__attempts_end(&connect->attempts);
        weir__stages_end(&connect->stages);
        return status;
}

static void
complete(struct weir__connect *connect, int result)
{
        if (result != -EINPROGRESS)
                weir__io_complete(&connect->io, finish(connect, result));
}

/* -- the handshake.  Results: 0: it is done; -EINPROGRESS; what has failed -- */

static void go_on(struct weir__holder *holder);

static const struct weir__holder_ops holder_ops = {.go_on = go_on};

static int
shake(struct weir__connect *connect)
{
        struct weir__stream *stream = &connect->stream->transport.stream;
        int result = weir__stream_handshake(stream);

        if (result == -EAGAIN)
                return -EINPROGRESS;
        if (result && weir__tls_problem(stream->tls))
                connect->problem = strdup(weir__tls_problem(stream->tls));
        if (!result)
                weir__stream_give_back(connect->stream);
        return result;
}

static void
go_on(struct weir__holder *holder)
{
        struct weir__connect *connect = weir__container_of(holder, struct weir__connect, holder);

        complete(connect, connect->stream->failure ? connect->stream->failure : shake(connect));
}

/* TCP is connected. */
static int
connected(struct weir__connect *connect)
{
        if (!connect->is_over)
                connect->stream = connect->attempts.stream;
        connect->attempts.stream = NULL;
        if (!connect->tls)
                return 0;
        connect->is_shaking = true;
        weir__stream_hold(connect->stream, &holder_ops, &connect->holder);
        int failed = weir__stages_enter(&connect->stages, WEIR__CONNECT_HANDSHAKE, connect->io.task.poller);
        if (connect->tls->fault && asprintf(&connect->problem, "the settings of TLS have a fault, which the log has told: %s",
                                            weir_strerror(connect->tls->fault)) < 0)
                connect->problem = NULL;
        failed = failed ? failed : weir__stream_secure(connect->stream, connect->tls, connect->name, connect->to->text);
        if (!failed && connect->offers_http)
                weir__tls_offer_http(connect->stream->transport.stream.tls);
        return failed ? failed : shake(connect);
}

/* -- attempts -- */

static void
attempts_ended(struct weir__attempts *attempts, int status)
{
        struct weir__connect *connect = weir__container_of(attempts, struct weir__connect, attempts);

        complete(connect, status ? status : connected(connect));
}

/* Result: as weir__attempts_set. */
static int
set_names(struct weir__connect *connect, const struct weir__answer *answer)
{
        if (answer)
                return weir__attempts_set(&connect->attempts, answer->at, answer->count, connect->to->port);
        weir__attempts_lend(&connect->attempts, &connect->to->name);
        return 0;
}

/* NULL as answer: the address was known. */
static int
attempt(struct weir__connect *connect, const struct weir__answer *answer)
{
        connect->attempts.poller = connect->io.task.poller;
        connect->attempts.ended = attempts_ended;
        int result = set_names(connect, answer);
        if (!result)
                result = weir__stages_enter(&connect->stages, WEIR__CONNECT_CONNECTING, connect->io.task.poller);
        if (!result)
                result = weir__attempts_begin(&connect->attempts);
        return result ? result : connected(connect);
}

/* -- the addresses -- */

/* Takes the answer. */
static int
take_answer(struct weir__connect *connect, struct weir__answer *answer)
{
        int result = answer->status;

        if (result)
                connect->problem = strdup(answer->problem);
        else
                result = attempt(connect, answer);
        weir__answer_unref(answer);
        return result;
}

static void
answered(struct weir__resolving *resolving, struct weir__answer *answer)
{
        struct weir__connect *connect = weir__container_of(resolving, struct weir__connect, resolving);

        complete(connect, take_answer(connect, answer));
}

static int
resolve(struct weir__connect *connect)
{
        if (!connect->to->is_name)
                return attempt(connect, NULL);
        connect->resolving.answered = answered;
        int failed = weir__stages_enter(&connect->stages, WEIR__CONNECT_RESOLVING, connect->io.task.poller);
        if (failed)
                return failed;
        struct weir__answer *answer = weir__resolve_start(&connect->resolving, weir__poller_at(connect->io.task.poller),
                                                          connect->to->host, 0, true);
        return answer ? take_answer(connect, answer) : -EINPROGRESS;
}

/* -- the default settings of TLS -- */

/* TLS, if it is wanted, has its settings. */
static int
go_to_peer(struct weir__connect *connect)
{
        if (!connect->is_over)
                return resolve(connect);
        int failed = weir__stream_try(connect->stream);
        return failed ? failed : connected(connect);
}

static void
roots_are_read(struct weir__roots_wait *wait, struct weir_tls *tls, int failed)
{
        struct weir__connect *connect = weir__container_of(wait, struct weir__connect, roots);

        connect->tls = tls;
        complete(connect, failed ? failed : go_to_peer(connect));
}

static int
begin(struct weir__connect *connect)
{
        if (connect->is_secure && !connect->tls)
                connect->tls = weir__tls_default_now();
        if (!connect->is_secure || connect->tls)
                return go_to_peer(connect);
        connect->roots.read = roots_are_read;
        int failed = weir__roots_begin(&connect->roots, connect->io.task.poller);
        return failed ? failed : -EINPROGRESS;
}

/* -- the task -- */

static int
try(struct weir__io_task *io)
{
        struct weir__connect *connect = (struct weir__connect *)io;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        int result = begin(connect);
        io->task.is_linked = result == -EINPROGRESS;
        return io->task.is_linked ? 0 : finish(connect, result);
}

/* It waits no longer for what it waits for. */
static void
leave(struct weir__connect *connect)
{
        weir__roots_leave(&connect->roots);
        weir__resolve_leave(&connect->resolving);
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__connect *connect = (struct weir__connect *)io;

        leave(connect);
        weir__attempts_end(&connect->attempts);
        weir__stages_end(&connect->stages);
        drop_stream(connect);
}

static void
late(struct weir__stages *stages)
{
        struct weir__connect *connect = weir__container_of(stages, struct weir__connect, stages);

        leave(connect);
        complete(connect, weir__phase_is_stopping() ? -ESHUTDOWN : -ETIMEDOUT);
}

static void
start(struct weir_task *task)
{
        const struct weir__connect *connect = (const struct weir__connect *)task;

        weir__task_set_poller(task, connect->is_over ? connect->stream->transport.poller : weir__worker_home_poller());
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__connect *connect = (struct weir__connect *)task;

        (void)is_discarded;
        weir_stream_unref(connect->stream);
        free(connect->attempts.own_names);
        if (connect->to)
                weir__free(connect->to, connect->to->size);
        free(connect->name);
        free(connect->problem);
        weir_tls_unref(connect->tls);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct target *to = ((const struct weir__connect *)task)->to;

        snprintf(out, room, "a connection to %s", to ? to->text : "(no address)");
}

static const struct weir__io_ops connect_ops = {
        .task = WEIR__IO_TASK_OPS("a connect", start, release, describe), .try = try, .withdraw = withdraw};

/* -- the public face -- */

#define EXPECTED "expected host:port, [v6]:port or unix:path"

/* Keeps the text, and the address if it is not NULL.  Result: 0 or -ENOMEM. */
static int
keep_target(struct weir__connect *connect, const char *text, const struct weir__address *address)
{
        bool is_name = address && address->kind == WEIR__ADDRESS_NAME;
        size_t text_size = strlen(text) + 1, host_size = is_name ? strlen(address->host) + 1 : 0;
        size_t size = sizeof *connect->to + text_size + host_size;
        struct target *to = size <= UINT32_MAX ? weir__alloc(size) : NULL;

        if (!to)
                return -ENOMEM;
        to->size = (uint32_t)size;
        to->is_name = is_name;
        to->host = NULL;
        memcpy(to->text, text, text_size);
        if (is_name)
                to->host = memcpy(to->text + text_size, address->host, host_size);
        else if (address)
                to->name = address->name;
        to->port = address ? address->port : 0;
        connect->to = to;
        connect->stages.name = to->text;
        return 0;
}

/* Reads the address, with "tls:" before it perhaps.  Returns its fault. */
static int
read_address(struct weir__connect *connect, const char *text, struct weir__address *address)
{
        const char *reason = NULL, *rest = text;

        if (!text)
                return weir__log_refusal("weir_connect_new: the address is NULL: " EXPECTED);
        size_t size = strlen(text);
        connect->is_secure |= weir__address_take_tls(&rest, &size);
        int failed = weir__address_parse_peer(rest, size, address, &reason);
        if (failed)
                weir__log_refusal("weir_connect_new: \"%s\": %s", text, reason ? reason : EXPECTED);
        return keep_target(connect, text, failed ? NULL : address) ? -ENOMEM : failed;
}

/* Which name the certificate must have.  Returns its fault. */
static int
set_name(struct weir__connect *connect, const struct weir__address *address, const char *name)
{
        if (!connect->is_secure)
                return 0;
        if (!name && !address->host[0])
                return weir__log_refusal(
                        "weir_connect_tls_new: \"%s\" has no host: expected the name that the certificate must have",
                        connect->to->text);
        connect->name = strdup(name ? name : address->host);
        return connect->name ? 0 : -ENOMEM;
}

static weir_task *
new_connect(const char *address, weir_tls *tls, const char *name, int fault, weir_task_fn *done, void *context)
{
        struct weir__connect *connect = weir__alloc(sizeof *connect);
        struct weir__address parsed;

        if (!connect)
                return NULL;
        memset(connect, 0, sizeof *connect);
        weir__task_init(&connect->io.task, &connect_ops.task, sizeof *connect, done, context);
        connect->tls = weir_tls_ref(tls);
        connect->is_secure = tls;
        int wrong = read_address(connect, address, &parsed);
        wrong = wrong ? wrong : set_name(connect, &parsed, name);
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

weir_task *
weir__connect_over_new(weir_stream *stream, const char *address, weir_tls *tls, const char *name, weir_task_fn *done,
                       void *context)
{
        struct weir__connect *connect = weir__alloc(sizeof *connect);

        if (!connect) {
                weir_stream_unref(stream);
                return NULL;
        }
        memset(connect, 0, sizeof *connect);
        weir__task_init(&connect->io.task, &connect_ops.task, sizeof *connect, done, context);
        connect->stream = stream;
        connect->is_over = connect->is_secure = true;
        connect->tls = weir_tls_ref(tls);
        connect->name = strdup(name);
        if (connect->name && keep_target(connect, address, NULL) == 0)
                return &connect->io.task;
        weir_task_dismiss(&connect->io.task);
        return NULL;
}

int
weir__connect_wish(weir_task *task, const struct weir__connect_wishes *wishes)
{
        struct weir__connect *connect = (struct weir__connect *)task;

        if (!connect)
                return 0;
        connect->offers_http = wishes->offers_http;
        connect->stages.late = late;
        connect->stages.has_limits = true;
        memcpy(connect->stages.limits, wishes->limits, sizeof wishes->limits);
        connect->stages.stage = wishes->stage;
        if (!wishes->name || !connect->is_secure)
                return 0;
        free(connect->name);
        connect->name = strdup(wishes->name);
        return connect->name ? 0 : -ENOMEM;
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
