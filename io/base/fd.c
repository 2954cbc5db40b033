/* io/base/fd.c: descriptors of the program that tasks wait for.
 *
 * Threads: made, forgotten and woken on any thread.  Tasks are tried and end on the owner of the descriptor's poller.
 * Locks:   the descriptor's, a leaf, for what a thread that forgets it must know at once: whether epoll watches it, and where.
 *
 * Each wait asks epoll anew, once (EPOLLONESHOT): epoll looks whether the descriptor is ready at that time, so it does not matter
 * what the program has read or left.  The same call finds out that the number belongs to another file now.
 *
 * One that is kept is watched level-triggered while tasks wait to read it and nothing else.  That goes on when they have ended.
 * An event that no task waits for ends it. */
#include "io/base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "factory/sync/waitable.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

#define TROUBLE (EPOLLERR | EPOLLHUP) /* both a read and a write would report it */
#define READING (EPOLLIN | EPOLLRDHUP)

enum order { ORDER_FORGET = 1, ORDER_WAKE = 2 };

struct fd_task {
        struct weir__io_task io; /* first */
        struct weir__link link;  /* in the descriptor's `waits` */
        struct weir_fd *fd;      /* a reference; NULL: the task is poisoned */
        uint32_t events;         /* that it waits for */
};

static void
unref(struct weir_fd *fd)
{
        if (atomic_fetch_sub_explicit(&fd->references, 1, memory_order_acq_rel) == 1)
                weir__free(fd, sizeof *fd);
}

static struct weir_fd *
ref(struct weir_fd *fd)
{
        atomic_fetch_add_explicit(&fd->references, 1, memory_order_relaxed);
        return fd;
}

static struct weir__poller *
poller_of(const struct weir_fd *fd)
{
        return weir__poller_at(atomic_load_explicit(&fd->poller, memory_order_relaxed));
}

static bool
is_over(const struct weir_fd *fd)
{
        return atomic_load_explicit(&fd->is_over, memory_order_acquire);
}

/* Under the lock. */
static void
set_over(struct weir_fd *fd)
{
        atomic_store_explicit(&fd->is_over, true, memory_order_release);
}

/* -- the owner of the poller -- */

static void ready(struct weir__source *source, uint32_t events);
static void shut_down(struct weir__source *source);

static const struct weir__source_ops source_ops = {.ready = ready, .shutdown = shut_down, .destroy = shut_down};

/* Ends the tasks that wait for one of the events.  Returns the events that the others wait for. */
static uint32_t
end_some(struct weir_fd *fd, uint32_t events, int status)
{
        struct weir__link *link = weir__list_first(&fd->waits);
        uint32_t left = 0;

        while (link) {
                struct fd_task *task = weir__container_of(link, struct fd_task, link);

                link = weir__list_next(&fd->waits, link);
                if (task->events & events) {
                        weir__link_remove(&task->link);
                        weir__io_complete(&task->io, status);
                } else {
                        left |= task->events;
                }
        }
        if (!left)
                weir__fd_end_looks(fd);
        return left;
}

static void
end_waits(struct weir_fd *fd, int status)
{
        (void)end_some(fd, UINT32_MAX, status);
}

/* Under the lock.  It is registered. */
static void
unregister(struct weir_fd *fd)
{
        fd->is_registered = false;
        fd->armed = 0;
        fd->is_lasting = false;
        weir__source_remove(poller_of(fd), &fd->source);
}

/* Epoll does not watch it any more.  May free it. */
static void
leave_poller(struct weir_fd *fd, int status)
{
        end_waits(fd, status);
        weir__lock(&fd->lock);
        bool was_registered = fd->is_registered, is_last = was_registered && fd->is_forgotten;
        if (was_registered)
                unregister(fd);
        weir__unlock(&fd->lock);
        if (is_last)
                unref(fd);
}

/* The program has closed the descriptor without a word. */
static void
was_closed(struct weir_fd *fd)
{
        weir__log(WEIR_LOG_ERROR, "descriptor %d was closed while a task waited for it: expected weir_fd_forget before close",
                  fd->source.fd);
        leave_poller(fd, -EBADF);
}

/* Under the lock.  Asks epoll for these events, from now on.  *before: as weir__source_add_over. */
static inline __attribute__((__always_inline__)) int
arm(struct weir_fd *fd, uint32_t events, struct weir__source **before)
{
        int failed;

        if (is_over(fd))
                return -EBADF;
        bool is_lasting = fd->is_kept && events == READING;
        uint32_t flags = events | (is_lasting ? WEIR__EVENT_LEVEL : EPOLLONESHOT);
        if (fd->is_registered)
                failed = weir__source_rearm(poller_of(fd), &fd->source, flags);
        else
                failed = weir__source_add_over(poller_of(fd), &fd->source, flags, before);
        if (failed == -ENOENT || (failed == -EBADF && fd->is_registered)) {
                set_over(fd);
                return -ESTALE;
        }
        if (failed)
                return failed;
        fd->armed = events;
        fd->is_lasting = is_lasting;
        fd->is_registered = true;
        return 0;
}

static const char *
what_is(int fd)
{
        struct stat status;
        int failed = fstat(fd, &status);

        return !failed && S_ISREG(status.st_mode)   ? "it is a regular file, which the tasks of weir/file.h read"
               : !failed && S_ISDIR(status.st_mode) ? "it is a directory"
                                                    : "it is a file that is always ready";
}

/* Says why epoll does not take it, if that is the program's mistake.  Returns the status. */
static int
say_refused(const struct weir_fd *fd, int failed)
{
        static struct weir__log_limit limit;
        int number = fd->source.fd;

        if (failed == -EPERM)
                weir__log_limited(&limit, WEIR_LOG_ERROR,
                                  "descriptor %d cannot be waited for: %s: expected a socket, pipe, terminal or the like", number,
                                  what_is(number));
        else if (failed == -EEXIST)
                weir__log_limited(&limit, WEIR_LOG_ERROR,
                                  "descriptor %d cannot be waited for: it has another weir_fd: expected one for all its tasks",
                                  number);
        return failed;
}

/* Another source was registered for the number since: this one was closed before that.  From now on nobody takes the number out
 * of epoll for this one. */
static __attribute__((cold, noinline)) void
was_displaced(struct weir_fd *fd)
{
        weir__lock(&fd->lock);
        bool was_over = is_over(fd);
        set_over(fd);
        weir__unlock(&fd->lock);
        if (!was_over)
                was_closed(fd);
}

/* Returns the status of the task that has asked.  Ends the others if the descriptor was closed. */
static __attribute__((cold, noinline)) int
cannot_ask(struct weir_fd *fd, int failed)
{
        if (failed != -ESTALE)
                return say_refused(fd, failed);
        was_closed(fd);
        return -EBADF;
}

/* As arm; the lock is not held.  Each wait comes here. */
static inline __attribute__((__always_inline__)) int
ask(struct weir_fd *fd, uint32_t events)
{
        struct weir__source *before = NULL;

        weir__lock(&fd->lock);
        int failed = arm(fd, events, &before);
        weir__unlock(&fd->lock);
        if (__builtin_expect(before != NULL, 0)) /* told here, because the lock is held in `arm` */
                before->ops->ready(before, WEIR__EVENT_DISPLACED);
        return failed ? cannot_ask(fd, failed) : 0;
}

/* Asks once more for what tasks wait for already.  They end if that fails. */
static bool
ask_again(struct weir_fd *fd, uint32_t events)
{
        int failed = ask(fd, events);

        if (failed)
                end_waits(fd, failed);
        return !failed;
}

static bool
check(struct weir_fd *fd)
{
        return ask_again(fd, fd->armed);
}

/* Nobody waits for what epoll goes on to report. */
static void
stop_watching(struct weir_fd *fd)
{
        weir__lock(&fd->lock);
        if (!is_over(fd))
                (void)weir__source_rearm(poller_of(fd), &fd->source, EPOLLONESHOT);
        weir__unlock(&fd->lock);
        fd->armed = 0;
        fd->is_lasting = false;
}

static int
try(struct weir__io_task *io)
{
        struct fd_task *task = (struct fd_task *)io;
        struct weir_fd *fd = task->fd;
        bool is_first = !fd->is_registered;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        bool is_watched = fd->is_lasting && task->events == READING && !is_over(fd);
        int failed = is_watched ? 0 : ask(fd, fd->armed | task->events);
        if (failed)
                return failed;
        weir__list_append(&fd->waits, &task->link);
        io->task.is_linked = true;
        weir__fd_begin_looks(fd, poller_of(fd), is_first, check);
        return 0;
}

/* Epoll may still be asked for its events: an answer that nobody waits for is ignored. */
static void
withdraw(struct weir__io_task *io)
{
        struct fd_task *task = (struct fd_task *)io;

        weir__link_remove(&task->link);
        if (weir__list_is_empty(&task->fd->waits))
                weir__fd_end_looks(task->fd);
}

static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir_fd *fd = (struct weir_fd *)source;

        if (events == WEIR__EVENT_DISPLACED) {
                was_displaced(fd);
                return;
        }
        if (is_over(fd)) /* an order to end the tasks is on its way */
                return;
        if (fd->is_lasting && weir__list_is_empty(&fd->waits)) {
                stop_watching(fd);
                return;
        }
        if (!fd->is_lasting)
                fd->armed = 0;
        uint32_t left = end_some(fd, events & TROUBLE ? UINT32_MAX : events, 0);
        if (left)
                (void)ask_again(fd, left);
}

static void
shut_down(struct weir__source *source)
{
        leave_poller((struct weir_fd *)source, -ESHUTDOWN);
}

static void
carry_out(struct weir__work *work)
{
        struct weir_fd *fd = weir__container_of(work, struct weir_fd, work);

        weir__lock(&fd->lock);
        unsigned orders = fd->orders;
        fd->orders = 0;
        weir__unlock(&fd->lock);
        if (orders & ORDER_WAKE)
                end_waits(fd, -EINTR);
        if (orders & ORDER_FORGET)
                leave_poller(fd, -EBADF);
        unref(fd);
        weir__runtime_leave();
}

static const struct weir__work_ops order_ops = {.run = carry_out};

/* -- any thread -- */

static bool
has_home(const struct weir_fd *fd)
{
        return atomic_load_explicit(&fd->poller, memory_order_relaxed) < weir__pollers_count();
}

/* Under the lock.  It may have been made before the start, or in an earlier runtime. */
static void
find_home(struct weir_fd *fd)
{
        if (!has_home(fd))
                atomic_store_explicit(&fd->poller, (uint8_t)weir__worker_home_poller(), memory_order_relaxed);
}

/* Under the lock.  Returns whether the caller has to deliver `work`.  While the runtime ends there is nothing to do: it ends the
 * tasks itself. */
static bool
give_order(struct weir_fd *fd, enum order order)
{
        if (!fd->orders && weir__runtime_enter() != 0)
                return false;
        find_home(fd);
        bool is_first = !fd->orders;
        fd->orders |= (uint8_t)order;
        if (is_first)
                ref(fd);
        return is_first;
}

static void
start(struct weir_task *task)
{
        struct weir_fd *fd = ((struct fd_task *)task)->fd;

        atomic_store_explicit(&fd->is_used, true, memory_order_relaxed);
        if (__builtin_expect(!has_home(fd), 0)) {
                weir__lock(&fd->lock);
                find_home(fd);
                weir__unlock(&fd->lock);
        }
        weir__task_set_poller(task, atomic_load_explicit(&fd->poller, memory_order_relaxed));
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct fd_task *self = (struct fd_task *)task;

        (void)is_discarded;
        if (self->fd)
                unref(self->fd);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct fd_task *self = (const struct fd_task *)task;
        const char *what = self->events & EPOLLIN ? "readable" : self->events & EPOLLOUT ? "writable" : "urgent";

        snprintf(out, room, "descriptor %d to be %s", self->fd->source.fd, what);
}

static const struct weir__io_ops fd_ops = {
        .task = WEIR__IO_TASK_OPS("a wait for a descriptor", start, release, describe), .try = try, .withdraw = withdraw};

/* -- the public face -- */

/* Whether the number is an open one, and what it is, only the first wait finds out: each look would be a system call more. */
static int
fault_of(int fd)
{
        if (weir__phase_is_forked())
                return ECHILD;
        if (fd >= 0)
                return 0;
        weir__log_refusal("weir_fd_new: descriptor %d: expected an open one", fd);
        return EBADF;
}

weir_fd *
weir_fd_new(int fd)
{
        int fault = fault_of(fd);
        struct weir_fd *self = fault ? NULL : weir__alloc(sizeof *self);

        if (!self) {
                errno = fault ? fault : ENOMEM;
                return NULL;
        }
        *self = (struct weir_fd){.source = {.ops = &source_ops, .fd = fd},
                                 .references = 1,
                                 .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF),
                                 .poller = (uint8_t)weir__worker_home_poller(),
                                 .work = {.ops = &order_ops}};
        return self;
}

/* Keeps the poller of the descriptor, if the calling thread owns that now. */
static bool
pin_owner(const struct weir_fd *fd)
{
        const struct weir__worker *worker = weir__worker_self();

        return worker && worker->poller == poller_of(fd) && (weir__pin() || weir__pin_in_doubt());
}

/* On the owner, without tasks that wait: nobody else has to do anything. */
static bool
forget_at_once(struct weir_fd *fd)
{
        if (!weir__list_is_empty(&fd->waits))
                return false;
        unregister(fd);
        return true;
}

/* Under the lock.  Returns whether the caller has to deliver `work`.  Sets *is_last if its reference is no registration's. */
static bool
forget(struct weir_fd *fd, bool is_owner, bool *is_last)
{
        bool was_registered = fd->is_registered;

        if (was_registered && !is_over(fd))
                epoll_ctl(poller_of(fd)->epoll_fd, EPOLL_CTL_DEL, fd->source.fd, NULL);
        set_over(fd);
        fd->is_forgotten = true;
        *is_last = !was_registered || (is_owner && forget_at_once(fd));
        return !*is_last && give_order(fd, ORDER_FORGET);
}

/* A child has the parent's epoll, and perhaps the lock of a thread that it has not: it changes nothing. */
void
weir_fd_forget(weir_fd *fd)
{
        bool is_last = true; /* of the program and the registration */

        if (!fd)
                return;
        weir__references_expect(fd, &fd->references, "weir_fd_forget");
        if (!weir__phase_is_forked()) {
                bool is_owner = pin_owner(fd); /* before the lock is held: it may wait for the watchdog */

                weir__lock(&fd->lock);
                bool is_first = forget(fd, is_owner, &is_last);
                weir__unlock(&fd->lock);
                if (is_owner)
                        weir__unpin();
                if (is_first)
                        weir__deliver(poller_of(fd), &fd->work);
        } else {
                is_last = !fd->is_registered;
        }
        if (is_last)
                unref(fd);
}

/* A task that was started before may be on its way, so the order is for all that were ever used. */
void
weir_fd_wake(weir_fd *fd)
{
        if (!fd)
                return;
        weir__references_expect(fd, &fd->references, "weir_fd_wake");
        if (weir__phase_is_forked())
                return;
        weir__lock(&fd->lock);
        bool is_first = atomic_load_explicit(&fd->is_used, memory_order_relaxed) && give_order(fd, ORDER_WAKE);
        weir__unlock(&fd->lock);
        if (is_first)
                weir__deliver(poller_of(fd), &fd->work);
}

static weir_task *
new_task(weir_fd *fd, uint32_t events, weir_task_fn *done, void *context)
{
        struct fd_task *task = weir__alloc(sizeof *task);

        if (!task)
                return NULL;
        weir__task_init(&task->io.task, &fd_ops.task, sizeof *task, done, context);
        task->link = (struct weir__link){NULL, NULL};
        task->fd = fd ? ref(fd) : NULL;
        task->events = events;
        if (!fd)
                weir__task_poison(&task->io.task, -EBADF);
        return &task->io.task;
}

int
weir_fd_keep(weir_fd *fd)
{
        if (!fd)
                return -EBADF;
        weir__references_expect(fd, &fd->references, "weir_fd_keep");
        weir__lock(&fd->lock);
        int failed = atomic_load_explicit(&fd->is_used, memory_order_relaxed) ? -EBUSY : 0;
        if (!failed)
                fd->is_kept = true;
        weir__unlock(&fd->lock);
        return failed;
}

weir_task *
weir_fd_readable_new(weir_fd *fd, weir_task_fn *done, void *context)
{
        return new_task(fd, READING, done, context);
}

weir_task *
weir_fd_writable_new(weir_fd *fd, weir_task_fn *done, void *context)
{
        return new_task(fd, EPOLLOUT, done, context);
}

weir_task *
weir_fd_urgent_new(weir_fd *fd, weir_task_fn *done, void *context)
{
        return new_task(fd, EPOLLPRI, done, context);
}
