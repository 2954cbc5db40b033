/* net/datagram/serve.c: servers of datagrams.
 *
 *     read -> request -> handler -> its series, if the handler has called weir_series_of -> back on the poller -> replies go
 *
 * Threads: handlers and the callbacks of their series run on any worker.  A branch, which is the part of a server on one poller,
 *          is the owner's of that poller.
 * Locks:   none.
 *
 * A server ends when all its branches have: a branch has left its poller, has no request, and no order is on its way to it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/data/count.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/sockets.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "net/datagram/socket.h"

#define DEFAULT_IN_FLIGHT 1024
#define READS_AT_ONCE     2 /* until other work has its turn */
#define CUT               ((uintptr_t)1)

struct branch {
        struct weir_udp_server *server; /* constant */
        struct weir_udp *udp;           /* a handle, until the branch is over */
        unsigned most;                  /* requests at once; constant */
        unsigned poller;                /* constant */

        /* Owner of the poller only. */
        unsigned in_flight;
        struct weir__list requests;
        bool is_stopping; /* it reads nothing more */
        bool is_gone;     /* it has left its poller */
        bool is_over;
        bool is_blocked;              /* there was no room to send: it reads nothing meanwhile */
        bool is_flushing;             /* `flush` is on its way */
        struct weir__udp_task sender; /* for weir__udp_await_room; it is no task */
        struct weir__datagrams replies;
        struct weir__work flush;

        /* Of the thread that starts or stops the server, then the owner's. */
        struct weir__work start, stop, cut;
};

struct weir_udp_server {
        /* Constant. */
        weir_task_fn *handler;
        void *context;
        unsigned count;
        int port; /* or -EDOM */

        _Atomic size_t users; /* branches, orders that are on their way, and the program until it stops the server */
        _Atomic int cut_count;
        struct weir__latch over; /* no user is left */
        struct branch branches[];
};

struct request {
        struct weir__udp_task base; /* first; only `io.task` of its io task is used.  `udp` is the branch's handle */
        struct branch *branch;
        struct weir__link link; /* in `requests` */
        struct weir__datagrams replies;
        _Atomic uintptr_t series_or_cut; /* its series, once it has one; or CUT */
        bool has_failed;
};

/* -- the end of a server -- */

/* The last one wakes the thread that stops the server, which frees it.  The wait ends before, so that the virtual clock does not
 * advance until that thread is awake. */
static void
leave(struct weir_udp_server *server)
{
        if (atomic_fetch_sub_explicit(&server->users, 1, memory_order_acq_rel) != 1)
                return;
        weir__runtime_wait_end(false);
        weir__latch_open(&server->over);
}

static void
end_if_over(struct branch *branch)
{
        if (branch->is_over || branch->in_flight || branch->is_flushing)
                return;
        if (branch->is_stopping && !branch->is_gone && !branch->replies.count)
                weir__udp_close(branch->udp); /* `ended` is next */
        if (!branch->is_gone)
                return;
        branch->is_over = true;
        weir__datagrams_free(&branch->replies);
        weir__udp_release(branch->udp);
        leave(branch->server);
}

/* -- replies -- */

static void read_some(struct weir_udp *udp);

/* Requests that end one after another have their replies sent together.  Returns whether the caller's root is the flush's now, so
 * that a shutdown waits for it. */
static bool
flush_later(struct branch *branch)
{
        if (branch->is_flushing)
                return false;
        branch->is_flushing = true;
        weir__deliver(weir__poller_at(branch->poller), &branch->flush);
        return true;
}

/* A datagram that the system does not take is lost. */
static bool
push(struct weir__udp_task *sender)
{
        struct branch *branch = weir__container_of(sender, struct branch, sender);
        struct weir__datagrams *replies = &branch->replies;

        while (replies->count) {
                int sent = weir__udp_send(branch->udp, replies);

                branch->is_blocked = sent == -EAGAIN && weir__udp_family(branch->udp) != AF_UNIX;
                if (branch->is_blocked)
                        return false;
                if (sent < 0)
                        weir__datagram_free(weir__datagrams_pop(replies));
        }
        branch->is_blocked = false;
        return true;
}

/* There is room again. */
static bool
push_on(struct weir__udp_task *sender)
{
        struct branch *branch = weir__container_of(sender, struct branch, sender);

        if (!push(sender))
                return false;
        if (weir__runtime_enter() == 0 && !flush_later(branch)) /* a runtime that ends ends the branch, too */
                weir__runtime_leave();
        return true;
}

static void
flush(struct weir__work *work)
{
        struct branch *branch = weir__container_of(work, struct branch, flush);

        branch->is_flushing = false;
        if (!branch->is_blocked && !branch->is_gone && !push(&branch->sender))
                weir__udp_await_room(&branch->sender);
        if (!branch->is_gone)
                read_some(branch->udp);
        end_if_over(branch);
        weir__runtime_leave();
}

static const struct weir__work_ops flush_ops = {.run = flush};

/* -- requests -- */

static void
come_back(struct weir__work *work)
{
        struct request *request = (struct request *)work;
        struct branch *branch = request->branch;
        struct weir_series *series = request->base.io.task.series;
        struct weir__datagram *reply;

        if (request->has_failed || (series && weir_series_status(series)))
                weir__datagrams_free(&request->replies);
        while ((reply = weir__datagrams_pop(&request->replies)))
                weir__datagrams_append(&branch->replies, reply);
        weir__link_remove(&request->link);
        weir__datagrams_free(&request->base.datagrams);
        if (series)
                weir_series_unref(series);
        weir__free(request, sizeof *request);
        branch->in_flight--;
        if (!flush_later(branch)) /* also if there is no reply: there is room for another request */
                weir__runtime_leave();
}

static const struct weir__work_ops back_ops = {.run = come_back};

static void
request_ended(struct request *request)
{
        struct weir_task *task = &request->base.io.task;
        struct weir__poller *poller = weir__poller_at(task->poller);

        weir__task_call_on_free(task);
        task->work.ops = &back_ops;
        if (weir__worker_self()->poller == poller)
                come_back(&task->work);
        else
                weir__deliver(poller, &task->work);
}

static void
series_made(struct weir_series *series)
{
        struct request *request = series->owner;

        if (atomic_exchange_explicit(&request->series_or_cut, (uintptr_t)series, memory_order_acq_rel) == CUT)
                weir_series_cancel(series);
}

/* Without a series the reply would go before the tasks of the handler: it does not go at all. */
static void
series_failed(struct weir_task *task)
{
        ((struct request *)task)->has_failed = true;
}

/* The reference lasts until the request is freed: a cut may look at the series until then. */
static void
series_ended(struct weir_series *series)
{
        request_ended(weir_series_ref(series)->owner);
}

static const struct weir__series_ops series_ops = {.work = WEIR__SERIES_WORK, .ended = series_ended, .is_shown_as_owner = true};

static void
run(struct weir__work *work)
{
        struct request *request = (struct request *)work;
        struct weir_task *task = &request->base.io.task;

        if (atomic_load_explicit(&request->series_or_cut, memory_order_relaxed) == CUT)
                weir__task_make_series(task); /* it is cancelled at once: the handler sees -ECANCELED */
        weir__task_call(task);
        struct weir_series *series = task->series;
        if (!series) {
                request_ended(request);
                return;
        }
        weir__series_leave_task(series, task);
        weir__series_go_on(series);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct request *request = (const struct request *)task;
        char address[WEIR_UDP_ADDRESS_TEXT];

        weir_udp_address_write(&request->base.datagrams.first->name, address, sizeof address);
        snprintf(out, room, "a datagram from %s", *address ? address : "a socket without a name");
}

const struct weir__task_ops weir__udp_request_ops = {
        .work = {.run = run,
                 .kind = "a request",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .describe = describe,
        .series_made = series_made,
        .series_failed = series_failed,
        .series_ops = &series_ops,
};

/* Returns false when out of memory, or when the runtime ends: the datagram is lost. */
static bool
begin(struct branch *branch, struct weir__datagram *datagram)
{
        struct request *request = weir__alloc(sizeof *request);

        if (!request)
                return false;
        if (weir__runtime_enter() != 0) {
                weir__free(request, sizeof *request);
                return false;
        }
        struct weir_task *task = &request->base.io.task;
        memset(request, 0, sizeof *request);
        request->base.udp = branch->udp;
        request->base.at = datagram;
        request->base.count = 1;
        request->branch = branch;
        weir__datagrams_append(&request->base.datagrams, datagram);
        weir__task_init(task, &weir__udp_request_ops, sizeof *request, branch->server->handler, branch->server->context);
        task->flags |= WEIR__TASK_CONSUMED;
        weir__task_set_poller(task, branch->udp->poller);
        weir__list_append(&branch->requests, &request->link);
        branch->in_flight++;
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        weir__deliver(weir__udp_poller(branch->udp), &task->work);
        return true;
}

/* -- what happens at the socket; the owner of the poller -- */

static void
read_once(struct branch *branch)
{
        struct weir_udp *udp = branch->udp;
        struct weir__datagrams list = {0};
        struct weir__datagram *datagram;
        unsigned lost = 0, most = branch->most - branch->in_flight;

        most = most < WEIR__DATAGRAMS_ONCE ? most : WEIR__DATAGRAMS_ONCE;
        /* Joined datagrams would be more requests than it has room for. */
        const struct weir__datagrams_wanted wanted = {.max = udp->max, .most = most};
        int count = weir__datagrams_receive(weir__udp_poller(udp)->index, udp->source.fd, &wanted, &list, &lost);
        if (count < (int)most && (count >= 0 || count == -EAGAIN)) /* one that comes from now on is an event */
                udp->may_read = false;
        while ((datagram = weir__datagrams_pop(&list)))
                if (!begin(branch, datagram))
                        weir__datagram_free(datagram);
}

static void
read_some(struct weir_udp *udp)
{
        struct branch *branch = udp->owner;

        for (unsigned i = 0; udp->may_read && !branch->is_stopping && !branch->is_blocked && branch->in_flight < branch->most;
             i++) {
                if (i == READS_AT_ONCE) {
                        weir__udp_take_turn(udp);
                        break;
                }
                read_once(branch);
        }
}

/* A client that has gone. */
static void
failed(struct weir_udp *udp, int error)
{
        (void)udp;
        (void)error;
}

static void
ended(struct weir_udp *udp, int status)
{
        struct branch *branch = udp->owner;

        (void)status;
        if (branch->is_blocked)
                weir__link_remove(&branch->sender.link);
        branch->is_blocked = false;
        branch->is_gone = branch->is_stopping = true;
        end_if_over(branch);
}

static const struct weir__udp_ops udp_ops = {.read = read_some, .failed = failed, .ended = ended};

/* -- orders -- */

static void
order_over(struct branch *branch)
{
        leave(branch->server);
        weir__runtime_leave();
}

/* No poller has it: it is over. */
static void
never_begins(struct branch *branch)
{
        branch->is_gone = branch->is_stopping = true;
        end_if_over(branch);
}

static void
start(struct weir__work *work)
{
        struct branch *branch = weir__container_of(work, struct branch, start);
        int failure = weir__udp_register(branch->udp);

        if (failure && failure != -ESHUTDOWN)
                weir__log(WEIR_LOG_ERROR, "weir_udp_serve: a socket cannot be watched: %s", weir_strerror(failure));
        if (failure)
                never_begins(branch);
        order_over(branch);
}

static void
stop(struct weir__work *work)
{
        struct branch *branch = weir__container_of(work, struct branch, stop);

        branch->is_stopping = true;
        end_if_over(branch);
        order_over(branch);
}

static void
cut(struct weir__work *work)
{
        struct branch *branch = weir__container_of(work, struct branch, cut);
        struct weir__list *requests = &branch->requests;

        for (struct weir__link *link = weir__list_first(requests); link; link = weir__list_next(requests, link)) {
                struct request *request = weir__container_of(link, struct request, link);
                uintptr_t before = atomic_exchange_explicit(&request->series_or_cut, CUT, memory_order_acq_rel);

                if (before && before != CUT)
                        weir_series_cancel((struct weir_series *)before);
                atomic_fetch_add_explicit(&branch->server->cut_count, 1, memory_order_relaxed);
        }
        order_over(branch);
}

static const struct weir__work_ops start_ops = {.run = start}, stop_ops = {.run = stop}, cut_ops = {.run = cut};

/* A runtime that ends gets no orders: its branches have ended, or are about to.  Returns whether the order was given. */
static bool
give_order(struct branch *branch, struct weir__work *order)
{
        if (weir__runtime_enter() != 0)
                return false;
        bool is_there = weir__count_add_unless_zero(&branch->server->users);
        if (is_there)
                weir__deliver(weir__poller_at(branch->poller), order);
        else
                weir__runtime_leave();
        return is_there;
}

/* -- any thread -- */

static const char *
fault_of(const struct weir_udp_server_config *config)
{
        if (config->size < offsetof(struct weir_udp_server_config, in_flight) || config->size > sizeof *config)
                return "to start from WEIR_UDP_SERVER_CONFIG_DEFAULT";
        return config->max_size > WEIR__DATAGRAM_MAX ? "a max_size of at most 65,536" : NULL;
}

/* Opens the socket of a branch, the first one at `address`, the others where the first one is.  Result: 0 or a negative errno.
 *
 * The first one is bound without SO_REUSEPORT, so a second server at the same address fails. */
static int
open_branch(struct weir_udp_server *server, unsigned index, const struct weir_udp_address *address)
{
        struct branch *branch = &server->branches[index];

        branch->udp = weir__udp_new(&udp_ops, branch, address, false, index > 0);
        if (!branch->udp)
                return -errno;
        if (index == 0 && server->count > 1)
                weir__socket_enable(branch->udp->source.fd, SOL_SOCKET, SO_REUSEPORT);
        branch->server = server;
        branch->poller = index;
        branch->udp->poller = (uint8_t)index;
        branch->udp->is_used = true;
        branch->sender = (struct weir__udp_task){.udp = branch->udp, .push = push_on};
        weir__list_prepare(&branch->requests);
        branch->flush.ops = &flush_ops;
        branch->start.ops = &start_ops;
        branch->stop.ops = &stop_ops;
        branch->cut.ops = &cut_ops;
        return 0;
}

static void
drop(struct weir_udp_server *server)
{
        for (unsigned i = 0; i < server->count; i++) {
                if (!server->branches[i].udp)
                        continue;
                server->branches[i].udp->is_used = false; /* no poller knows it */
                weir__udp_release(server->branches[i].udp);
        }
        free(server);
}

/* NULL with errno. */
static struct weir_udp_server *
open_all(const struct weir_udp_server_config *config, const struct weir_udp_address *address)
{
        bool is_unix = ((const struct sockaddr *)address->name)->sa_family == AF_UNIX;
        unsigned count = is_unix ? 1 : weir__pollers_count(), most = config->in_flight ? config->in_flight : DEFAULT_IN_FLIGHT;
        struct weir_udp_server *server = calloc(1, sizeof *server + count * sizeof *server->branches);
        struct weir_udp_address at = *address;

        if (!server) {
                errno = ENOMEM;
                return NULL;
        }
        server->count = count;
        server->users = count + 1;
        for (unsigned i = 0; i < count; i++) {
                int failure = open_branch(server, i, &at);

                if (failure) {
                        drop(server);
                        errno = -failure;
                        return NULL;
                }
                server->branches[i].most = most > count ? most / count : 1;
                server->branches[i].udp->max = config->max_size ? config->max_size : WEIR__DATAGRAM_MAX;
                weir__udp_address_set(&at, &server->branches[0].udp->local);
        }
        server->port = weir_udp_port(server->branches[0].udp);
        return server;
}

weir_udp_server *
weir_udp_serve_with(const struct weir_udp_server_config *config, const char *address, weir_task_fn *handler, void *context)
{
        struct weir_udp_server_config used = WEIR_UDP_SERVER_CONFIG_DEFAULT;
        struct weir_udp_address name;
        const char *expected = !handler ? "a handler" : config ? fault_of(config) : NULL;
        int failure = expected ? weir__log_refusal("weir_udp_serve: expected %s", expected)
                               : weir__udp_address_parse(&name, address, "weir_udp_serve");

        failure = failure ? failure : weir__runtime_enter();
        if (failure) {
                errno = -failure;
                return NULL;
        }
        if (config)
                memcpy(&used, config, config->size);
        struct weir_udp_server *server = open_all(&used, &name);
        for (unsigned i = 0; server && i < server->count; i++) {
                server->handler = handler;
                server->context = context;
                if (!give_order(&server->branches[i], &server->branches[i].start))
                        never_begins(&server->branches[i]);
        }
        int kept = errno;
        weir__runtime_leave();
        errno = kept;
        return server;
}

weir_udp_server *
weir_udp_serve(const char *address, weir_task_fn *handler, void *context)
{
        return weir_udp_serve_with(NULL, address, handler, context);
}

int
weir_udp_server_port(const weir_udp_server *server)
{
        return server ? server->port : -EINVAL;
}

int
weir_udp_reply(weir_task *task, const void *data, size_t size)
{
        struct request *request = (struct request *)task;

        weir__memory_expect(task);
        if (!task || task->work.ops != &weir__udp_request_ops.work)
                return -EDOM;
        if (size && !data)
                return -EINVAL;
        if (!request->base.at->name.size)
                return -EDESTADDRREQ;
        struct weir__datagram *reply = weir__datagram_new(&request->base.at->name, size ? data : "", size);
        if (!reply)
                return -ENOMEM;
        weir__datagrams_append(&request->replies, reply);
        return 0;
}

static void
order_all(struct weir_udp_server *server, size_t order_at)
{
        for (unsigned i = 0; i < server->count; i++)
                (void)give_order(&server->branches[i], (struct weir__work *)((char *)&server->branches[i] + order_at));
}

int
weir_udp_server_stop(weir_udp_server *server, weir_nsec within)
{
        int failure = weir__runtime_may_stop();

        if (!server || failure)
                return server ? failure : -EINVAL;
        order_all(server, offsetof(struct branch, stop));
        weir__runtime_wait_begin(false); /* not before the orders are on their way: time would not wait for them */
        leave(server);
        if (!weir__latch_wait_until(&server->over, weir__clock_after(weir__clock_monotonic(), within))) {
                order_all(server, offsetof(struct branch, cut));
                weir__latch_wait(&server->over);
        }
        int count = atomic_load_explicit(&server->cut_count, memory_order_relaxed);
        free(server);
        return count;
}
