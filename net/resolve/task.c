/* net/resolve/task.c: tasks that look names up.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the task's poller.
 * Locks:   none. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/base/io_task.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/worker.h"
#include "net/resolve/resolve.h"

struct resolve {
        struct weir__io_task io; /* first */

        int family;                  /* constant */
        char *host;                  /* constant */
        struct weir__resolving wait; /* owner */
        struct weir__answer *answer; /* the owner's, then the callback's; a reference, or NULL */
};

static void
answered(struct weir__resolving *wait, struct weir__answer *answer)
{
        struct resolve *resolve = weir__container_of(wait, struct resolve, wait);

        resolve->answer = answer;
        weir__io_complete(&resolve->io, answer->status);
}

static int
try(struct weir__io_task *io)
{
        struct resolve *resolve = (struct resolve *)io;

        resolve->wait.answered = answered;
        resolve->answer = weir__resolve_start(&resolve->wait, weir__poller_at(io->task.poller), resolve->host, resolve->family,
                                              false);
        io->task.is_linked = !resolve->answer;
        return resolve->answer ? resolve->answer->status : 0;
}

static void
withdraw(struct weir__io_task *io)
{
        weir__resolve_leave(&((struct resolve *)io)->wait);
}

/* Whoever was cancelled sees no answer. */
static void
settle(struct weir__io_task *io, int verdict)
{
        struct resolve *resolve = (struct resolve *)io;

        if (!verdict)
                return;
        weir__answer_unref(resolve->answer);
        resolve->answer = NULL;
}

static void
start(struct weir_task *task)
{
        weir__task_set_poller(task, weir__worker_home_poller());
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct resolve *resolve = (struct resolve *)task;

        (void)is_discarded;
        weir__answer_unref(resolve->answer);
        free(resolve->host);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        snprintf(out, room, "the addresses of \"%s\"", ((const struct resolve *)task)->host);
}

static const struct weir__io_ops resolve_ops = {
        .task = WEIR__IO_TASK_OPS("a resolve", start, release, describe), .try = try, .withdraw = withdraw, .settle = settle};

/* -- the public face -- */

static int
fault_of(const char *host, int family)
{
        if (!host)
                return weir__log_refusal("weir_resolve_new: the host is NULL: expected a name");
        if (family != 0 && family != AF_INET && family != AF_INET6)
                return weir__log_refusal("weir_resolve_new: the family is %d: expected AF_INET, AF_INET6 or 0", family);
        return 0;
}

weir_task *
weir_resolve_new(const char *host, int family, weir_task_fn *done, void *context)
{
        int fault = fault_of(host, family);
        struct resolve *resolve = weir__alloc(sizeof *resolve);

        if (!resolve)
                return NULL;
        memset(resolve, 0, sizeof *resolve);
        weir__task_init(&resolve->io.task, &resolve_ops.task, sizeof *resolve, done, context);
        resolve->family = family;
        resolve->host = strdup(host ? host : "");
        if (!resolve->host) {
                weir_task_dismiss(&resolve->io.task);
                return NULL;
        }
        if (fault)
                weir__task_poison(&resolve->io.task, fault);
        return &resolve->io.task;
}

static const struct weir__answer *
answer_of(const weir_task *task)
{
        return task && task->work.ops == &resolve_ops.task.work ? ((const struct resolve *)task)->answer : NULL;
}

unsigned
weir_resolve_count(const weir_task *task)
{
        const struct weir__answer *answer = answer_of(task);

        return answer ? answer->count : 0;
}

static const struct weir__socket_address *
address_at(const weir_task *task, unsigned index)
{
        return index < weir_resolve_count(task) ? &answer_of(task)->at[index] : NULL;
}

const struct sockaddr *
weir_resolve_address(const weir_task *task, unsigned index, unsigned *size)
{
        const struct weir__socket_address *address = address_at(task, index);

        if (size)
                *size = address ? address->size : 0;
        return address ? &address->any : NULL;
}

int
weir_resolve_write(const weir_task *task, unsigned index, char *out, size_t room)
{
        const struct weir__socket_address *address = address_at(task, index);
        char text[WEIR__ADDRESS_TEXT];

        if (address)
                weir__address_print_host(address, text, sizeof text);
        return snprintf(out, room, "%s", address ? text : "");
}

const char *
weir_resolve_problem(const weir_task *task)
{
        const struct weir__answer *answer = answer_of(task);

        if (!task || task->work.ops != &resolve_ops.task.work || !task->status)
                return NULL;
        return answer && answer->problem ? answer->problem : weir_strerror(task->status);
}
