/* net/datagram/socket.c: sockets of datagrams.
 *
 *     made --the first task--> registered with epoll --close, or the runtime ends--> it has left --the last reference--> freed
 *
 * Threads: made, held, released and closed on any thread.  The rest on the owner of the socket's poller.
 * Locks:   the socket's, a leaf, for what a thread that closes it must know: whether the owner of a poller may be using it.
 *
 * Epoll is asked for input alone.  Each datagram that leaves would be an event if it were asked for room all the time. */
#include "net/datagram/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/inflight.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/sockets.h"
#include "kernel/worker/deliver.h"

/* -- references -- */

static void
remove_file(const struct weir_udp *udp)
{
        struct stat found;

        if (udp->has_file && lstat(udp->local.un.sun_path, &found) == 0 && found.st_dev == udp->device &&
            found.st_ino == udp->inode)
                unlink(udp->local.un.sun_path);
}

static void
unref(struct weir_udp *udp)
{
        if (atomic_fetch_sub_explicit(&udp->references, 1, memory_order_acq_rel) != 1)
                return;
        if (udp->source.fd >= 0)
                close(udp->source.fd);
        weir__datagrams_free(&udp->kept);
        weir__table_free(udp->asks);
        weir__free(udp, sizeof *udp);
}

static void
ref(struct weir_udp *udp)
{
        atomic_fetch_add_explicit(&udp->references, 1, memory_order_relaxed);
}

struct weir_udp *
weir__udp_hold(struct weir_udp *udp)
{
        atomic_fetch_add_explicit(&udp->handles, 1, memory_order_relaxed);
        return udp;
}

void
weir__udp_release(struct weir_udp *udp)
{
        if (atomic_fetch_sub_explicit(&udp->handles, 1, memory_order_acq_rel) != 1)
                return;
        weir__udp_close(udp);
        unref(udp);
}

/* -- the owner of the poller -- */

static void
close_descriptor(struct weir_udp *udp)
{
        weir__lock(&udp->lock);
        int fd = udp->source.fd;
        udp->source.fd = -1;
        weir__unlock(&udp->lock);
        close(fd);
}

/* The descriptor is closed before the tasks hear of the end.  May free it. */
static void
leave_poller(struct weir_udp *udp, int status, bool should_close)
{
        weir__lock(&udp->lock);
        bool was_registered = udp->is_registered;
        udp->is_registered = false;
        weir__unlock(&udp->lock);
        if (was_registered && should_close)
                weir__source_withdraw(weir__udp_poller(udp), &udp->source);
        else if (was_registered)
                weir__source_remove(weir__udp_poller(udp), &udp->source);
        if (should_close)
                close_descriptor(udp);
        if (!was_registered)
                return;
        udp->may_read = udp->wants_room = false;
        weir__datagram_room_leave(weir__udp_poller(udp)->index);
        udp->ops->ended(udp, status);
        unref(udp);
}

static void
close_now(struct weir__work *work)
{
        struct weir_udp *udp = weir__container_of(work, struct weir_udp, close);

        remove_file(udp);
        leave_poller(udp, -EBADF, true);
        unref(udp);
        weir__runtime_leave();
}

static const struct weir__work_ops close_ops = {.run = close_now};

static void
run_turn(struct weir__work *work)
{
        struct weir_udp *udp = weir__container_of(work, struct weir_udp, turn);

        udp->has_turn = false;
        if (udp->is_registered)
                udp->ops->read(udp);
        unref(udp);
        weir__runtime_leave();
}

static const struct weir__work_ops turn_ops = {.run = run_turn};

void
weir__udp_take_turn(struct weir_udp *udp)
{
        if (udp->has_turn || weir__runtime_enter() != 0) /* a runtime that ends takes it from its poller */
                return;
        udp->has_turn = true;
        ref(udp);
        weir__deliver_requeued(weir__udp_poller(udp), &udp->turn);
}

/* Asks epoll for room as long as a task waits for it. */
static void
ask_for_room(struct weir_udp *udp)
{
        bool wants = !weir__list_is_empty(&udp->senders);

        if (!udp->is_registered || wants == udp->wants_room)
                return;
        if (weir__source_rearm(weir__udp_poller(udp), &udp->source, wants ? EPOLLIN | EPOLLOUT : EPOLLIN) == 0)
                udp->wants_room = wants;
}

void
weir__udp_await_room(struct weir__udp_task *task)
{
        weir__list_append(&task->udp->senders, &task->link);
        ask_for_room(task->udp);
}

static void
push_all(struct weir_udp *udp)
{
        struct weir__link *link;

        while ((link = weir__list_pop(&udp->senders))) {
                if (weir__udp_task_of(link)->push(weir__udp_task_of(link)))
                        continue;
                weir__list_prepend(&udp->senders, link);
                break;
        }
        ask_for_room(udp);
}

static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir_udp *udp = (struct weir_udp *)source;

        if (weir__udp_is_closed(udp)) /* the order is on its way */
                return;
        ref(udp); /* a task that ends may have the last handle */
        if (events & EPOLLERR && udp->reports)
                udp->ops->failed(udp, 0);
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                udp->may_read = true;
                udp->ops->read(udp);
        }
        if (events & (EPOLLOUT | EPOLLERR))
                push_all(udp);
        unref(udp);
}

static void
shut_down(struct weir__source *source)
{
        leave_poller((struct weir_udp *)source, -ESHUTDOWN, false);
}

static const struct weir__source_ops source_ops = {.ready = ready, .shutdown = shut_down, .destroy = shut_down};

static bool
far(const struct weir__source *source, unsigned index, struct sockaddr_storage *to)
{
        const struct weir_udp *udp = (const struct weir_udp *)source;

        if (source->ops != &source_ops || index >= sizeof udp->far / sizeof *udp->far || !udp->far[index].size)
                return false;
        memcpy(to, udp->far[index].name, udp->far[index].size);
        return true;
}

static int
enter_poller(struct weir_udp *udp)
{
        unsigned poller = weir__udp_poller(udp)->index;
        int failed = weir__datagram_room_join(poller);

        if (failed)
                return failed;
        weir__lock(&udp->lock);
        failed = weir__source_add(weir__udp_poller(udp), &udp->source, EPOLLIN);
        udp->is_registered = !failed;
        weir__unlock(&udp->lock);
        if (failed)
                weir__datagram_room_leave(poller);
        else
                ref(udp);
        return failed;
}

int
weir__udp_register(struct weir_udp *udp)
{
        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        if (weir__udp_is_closed(udp))
                return -EBADF;
        return udp->is_registered ? 0 : enter_poller(udp);
}

/* -- sending -- */

/* An error of an earlier datagram, which the system reports at the next call.  It may also be about this one. */
static bool
may_be_old(int error)
{
        return error == -ECONNREFUSED || error == -EHOSTUNREACH || error == -ENETUNREACH || error == -EHOSTDOWN ||
               error == -ENOPROTOOPT || error == -EPROTO || error == -EACCES;
}

/* Time must not pass before they have been read (kernel/runtime/inflight.c). */
static void
note_far(struct weir_udp *udp, const struct weir_udp_address *to)
{
        struct weir_udp_address peer;

        if (weir__udp_family(udp) == AF_UNIX)
                return;
        if (!to->size) {
                weir__udp_address_set(&peer, &udp->peer);
                to = &peer;
        }
        if (!to->size)
                return;
        for (unsigned i = 0; i < sizeof udp->far / sizeof *udp->far; i++)
                if (udp->far[i].size && weir_udp_address_compare(&udp->far[i], to) == 0)
                        return;
        udp->far[udp->far_next++ % (sizeof udp->far / sizeof *udp->far)] = *to;
}

int
weir__udp_send_one(struct weir_udp *udp, const struct weir__datagram *datagram)
{
        if (__builtin_expect(weir__clock_is_virtual(), 0))
                note_far(udp, &datagram->name);
        int result = weir__datagram_send(udp->source.fd, weir__udp_family(udp), datagram);
        if (!may_be_old(result) || weir__udp_family(udp) == AF_UNIX)
                return result;
        udp->ops->failed(udp, result);
        return weir__datagram_send(udp->source.fd, weir__udp_family(udp), datagram);
}

int
weir__udp_send(struct weir_udp *udp, struct weir__datagrams *list)
{
        if (__builtin_expect(weir__clock_is_virtual(), 0))
                for (const struct weir__datagram *each = list->first; each; each = each->next)
                        note_far(udp, &each->name);
        int result = weir__datagrams_send(udp->source.fd, weir__udp_family(udp), list);
        if (!may_be_old(result) || weir__udp_family(udp) == AF_UNIX)
                return result;
        udp->ops->failed(udp, result);
        return weir__datagrams_send(udp->source.fd, weir__udp_family(udp), list);
}

/* -- any thread -- */

void
weir__udp_close(struct weir_udp *udp)
{
        int fd = -1;

        weir__lock(&udp->lock);
        bool was_closed = weir__udp_is_closed(udp);
        atomic_store_explicit(&udp->is_closed, true, memory_order_release);
        bool should_order = !was_closed && udp->is_used && weir__runtime_enter() == 0;
        if (should_order)
                ref(udp);
        if (!was_closed && !udp->is_used) {
                fd = udp->source.fd;
                udp->source.fd = -1;
        }
        weir__unlock(&udp->lock);
        if (should_order)
                weir__deliver(weir__udp_poller(udp), &udp->close);
        if (!was_closed && !should_order && !weir__phase_is_forked())
                remove_file(udp);
        if (fd >= 0)
                close(fd);
}

void
weir__udp_start(struct weir_task *task)
{
        struct weir_udp *udp = ((struct weir__udp_task *)task)->udp;

        weir__lock(&udp->lock);
        if (udp->poller >= weir__pollers_count()) /* it was made before the start, or in an earlier runtime */
                udp->poller = (uint8_t)weir__worker_home_poller();
        udp->is_used = true;
        weir__task_set_poller(task, udp->poller);
        weir__unlock(&udp->lock);
        weir__io_start(task);
}

struct weir__udp_task *
weir__udp_task_new(const struct weir__io_ops *ops, struct weir_udp *udp, size_t size, int fault, weir_task_fn *done,
                   void *context)
{
        struct weir__udp_task *task = weir__alloc(size);

        if (!task)
                return NULL;
        memset(task, 0, size);
        task->udp = udp ? weir__udp_hold(udp) : NULL;
        weir__task_init(&task->io.task, &ops->task, size, done, context);
        if (!udp || fault)
                weir__task_poison(&task->io.task, fault ? fault : -EBADF);
        return task;
}

void
weir__udp_task_release(struct weir_task *task, bool is_discarded)
{
        struct weir__udp_task *self = (struct weir__udp_task *)task;

        (void)is_discarded;
        weir__datagrams_free(&self->datagrams);
        if (self->udp)
                weir__udp_release(self->udp);
}

/* -- opening -- */

static int
bind_to(struct weir_udp *udp, int fd, const struct weir_udp_address *address, bool should_share)
{
        const int off = 0;
        struct stat found;

        if (((const struct sockaddr *)address->name)->sa_family == AF_INET6)
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* "[::]:53" is for both families */
        if (should_share)
                weir__socket_enable(fd, SOL_SOCKET, SO_REUSEPORT);
        if (bind(fd, (const struct sockaddr *)address->name, address->size) < 0)
                return -errno;
        const struct sockaddr_un *un = (const struct sockaddr_un *)address->name;
        if (un->sun_family == AF_UNIX && *un->sun_path && lstat(un->sun_path, &found) == 0) {
                udp->has_file = true;
                udp->device = found.st_dev;
                udp->inode = found.st_ino;
        }
        return 0;
}

/* A Unix socket without a name gets no reply. */
static int
connect_to(struct weir_udp *udp, int fd, const struct weir_udp_address *peer)
{
        const struct sockaddr none = {.sa_family = AF_UNIX};

        if (((const struct sockaddr *)peer->name)->sa_family == AF_UNIX && bind(fd, &none, sizeof none.sa_family) < 0)
                return -errno;
        if (connect(fd, (const struct sockaddr *)peer->name, peer->size) < 0)
                return -errno;
        udp->peer.size = peer->size;
        memcpy(&udp->peer.storage, peer->name, peer->size);
        return 0;
}

struct weir_udp *
weir__udp_new(const struct weir__udp_ops *ops, void *owner, const struct weir_udp_address *address, bool peer, bool should_share)
{
        struct weir_udp *udp = weir__alloc(sizeof *udp);

        if (!udp) {
                errno = ENOMEM;
                return NULL;
        }
        atomic_store_explicit(&weir__inflight_far, far, memory_order_relaxed);
        memset(udp, 0, sizeof *udp);
        udp->source = (struct weir__source){.ops = &source_ops, .fd = -1};
        udp->ops = ops;
        udp->owner = owner;
        udp->handles = udp->references = 1;
        udp->max = WEIR__DATAGRAM_MAX;
        udp->poller = (uint8_t)weir__worker_home_poller();
        weir__lock_init(&udp->lock, WEIR__RANK_LEAF);
        udp->close.ops = &close_ops;
        udp->turn.ops = &turn_ops;
        weir__list_prepare(&udp->receivers);
        weir__list_prepare(&udp->senders);
        int fd = socket(((const struct sockaddr *)address->name)->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int failed = fd < 0 ? -errno : peer ? connect_to(udp, fd, address) : bind_to(udp, fd, address, should_share);
        udp->source.fd = fd;
        if (!failed && !weir__socket_name(fd, &udp->local))
                failed = -errno;
        if (failed) {
                unref(udp);
                errno = -failed;
                return NULL;
        }
        return udp;
}
