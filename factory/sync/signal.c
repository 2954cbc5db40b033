/* factory/sync/signal.c: tasks that wait for a signal of the process.
 *
 *     handler: counts, writes an eventfd --> poller 0: `dispatch` --> the tasks that wait for that signal are claimed
 *
 * Threads: any; the listener in the handler, on any thread of the program; `dispatch` on the owner of poller 0.
 * Locks:   the object's; `lock`, a leaf, guards the eventfd.
 *
 * All tasks of a signal wait at one object, which has the name of the signal and lives while any of them does.  The library
 * listens to the signal for so long.  A task remembers how many signals there were at its making, and ends when there are more.
 *
 * The eventfd is registered with the epoll of poller 0 by the start of a task, which keeps the runtime up.  It is never closed
 * nor read, because a handler may still write to it; epoll is edge-triggered, so each write is an event.  On the virtual clock an
 * event is seen before time goes on. */
#include <weir/signal.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "factory/sync/waitable.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/loop/pollers.h"
#include "kernel/runtime/signals.h"

struct signal_object {
        struct weir__waitable object; /* first */
        struct weir__list waits;      /* guarded by the object's lock */

        /* Constant once others know the object. */
        int signo;
        bool is_listening;
};

static _Atomic uint64_t counts[WEIR__SIGNALS + 1]; /* signals that have come */
static _Atomic uint64_t due;                       /* a bit for each signal that was not dispatched yet */
static _Atomic int event_fd = -1;

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);

/* Guarded by lock. */
static pid_t maker;         /* of the eventfd: a child makes its own */
static unsigned generation; /* of the runtime whose poller has it */

/* -- from the handler to the tasks -- */

static void
note(int signo)
{
        atomic_fetch_add(&counts[signo], 1);
        atomic_fetch_or(&due, UINT64_C(1) << (signo - 1));
        /* After the count: a task that begins to wait sees the count, or this sees its descriptor. */
        int fd = atomic_load(&event_fd);
        if (fd >= 0)
                eventfd_write(fd, 1);
}

static const struct weir__signal_listener listener = {.fn = note};

static bool
has_come(int signo, const struct weir__wait *wait)
{
        return wait->amount < atomic_load(&counts[signo]);
}

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        (void)claimed;
        return has_come(((struct signal_object *)wait->object)->signo, wait) ? 0 : -EAGAIN;
}

static void
clear(struct weir__waitable *object)
{
        if (((struct signal_object *)object)->is_listening)
                weir__signals_unlisten(((struct signal_object *)object)->signo, &listener);
}

static const struct weir__waitable_ops signal_ops = {
        .kind = WEIR__SIGNAL, .noun = "signal", .size = sizeof(struct signal_object), .queues = 1, .try = try, .clear = clear};

/* Claims some tasks.  Those that were made after the signal are behind the others, and stay.  Returns whether there may be more.
 * Under the object's lock. */
static bool
serve_some(struct weir__waitable *waitable, struct weir__work_list *claimed)
{
        struct signal_object *object = (struct signal_object *)waitable;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest_pending(&object->waits);

                if (!wait || !has_come(object->signo, wait))
                        return false;
                weir__wait_claim_oldest(&object->waits, claimed);
        }
        return true;
}

static void
serve(struct signal_object *object)
{
        weir__waitable_lock(&object->object);
        weir__wait_serve_and_unlock(&object->object, serve_some);
}

/* -- names -- */

#define SIGNAL_NAME_ROOM 16 /* bytes, with the NUL */

static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGUSR1] = "SIGUSR1",
        [SIGUSR2] = "SIGUSR2", [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM",
        [SIGCHLD] = "SIGCHLD", [SIGCONT] = "SIGCONT", [SIGTSTP] = "SIGTSTP", [SIGWINCH] = "SIGWINCH",
};

static const char *
name_of(int signo, char room[SIGNAL_NAME_ROOM])
{
        if ((size_t)signo < sizeof names / sizeof *names && names[signo])
                return names[signo];
        snprintf(room, SIGNAL_NAME_ROOM, "%d", signo);
        return room;
}

/* -- the poller -- */

/* Notifies those who wait for the signals that have come.  Only the owner of poller 0 calls it. */
static void
dispatch(void)
{
        char room[SIGNAL_NAME_ROOM];

        for (uint64_t left = atomic_exchange(&due, 0); left; left &= left - 1) {
                const char *name = name_of(__builtin_ctzll(left) + 1, room);
                const struct weir__name_key key = weir__name_key(name, strlen(name));
                struct weir__waitable *object = weir__waitable_find(&signal_ops, &key);

                if (object)
                        serve((struct signal_object *)object);
                weir__waitable_unref(object);
        }
}

static void
prepare(void)
{
        weir__sources_on_signal(dispatch);
}

WEIR__STEPS_OF(WEIR__MODULE_SIGNAL_TASKS, [WEIR__STEP_LOAD] = prepare);

/* Under the lock. */
static int
have_eventfd(void)
{
        if (maker == getpid())
                return 0;
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), former = fd < 0 ? -1 : atomic_exchange(&event_fd, fd);

        if (fd < 0)
                return -errno;
        if (former >= 0)
                close(former); /* of the process that has forked this one */
        maker = getpid();
        generation = 0;
        return 0;
}

/* Has poller 0 see the eventfd.  The runtime is up, and stays so.  Result: 0 or a negative errno. */
static int
watch(void)
{
        weir__lock(&lock);
        int failed = have_eventfd();
        if (!failed && generation != weir__phase_generation)
                failed = weir__sources_register(weir__pollers.at[0], event_fd, EPOLLIN, WEIR__SLOT_SIGNAL);
        if (!failed)
                generation = weir__phase_generation;
        weir__unlock(&lock);
        return failed;
}

/* -- the task -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        int failed = watch();

        if (!failed) {
                weir__wait_start(task);
                return;
        }
        weir__waitable_lock(self->wait.object);
        weir__wait_finish_start(self, failed);
        weir__unlock(&self->wait.object->lock);
        weir__task_deliver(task);
}

static const struct weir__task_ops task_ops = {
        .work = {.run = weir__wait_run,
                 .kind = "a signal",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = start,
        .end_early = weir__wait_end_early,
        .release = weir__wait_release,
        .describe = weir__wait_describe,
};

/* A signal that cannot be caught, or that the thread has caused which gets it. */
static bool
is_refused(int signo)
{
        switch (signo) {
        case SIGKILL:
        case SIGSTOP:
        case SIGABRT:
        case SIGBUS:
        case SIGFPE:
        case SIGILL:
        case SIGSEGV:
        case SIGSYS:
        case SIGTRAP: return true;
        default: return signo < 1 || signo > WEIR__SIGNALS;
        }
}

/* The object of the signal, with a reference.  NULL with errno. */
static struct weir__waitable *
object_of(int signo)
{
        char room[SIGNAL_NAME_ROOM];
        struct weir__waitable *made = weir__waitable_new_named(&signal_ops, name_of(signo, room), 0, 0, NULL);
        struct signal_object *object = (struct signal_object *)made;

        if (!made)
                return NULL;
        object->signo = signo;
        int failed = weir__signals_listen(signo, &listener);
        object->is_listening = !failed;
        if (!failed)
                return weir__waitable_unique(made);
        weir__waitable_unref(made);
        errno = -failed;
        return NULL;
}

weir_task *
weir_signal_new(int signo, weir_task_fn *done, void *context)
{
        bool is_forked = weir__phase_is_forked(), refused = is_refused(signo);
        struct weir__waitable *object = is_forked || refused ? NULL : object_of(signo);
        int fault = is_forked ? -ECHILD : object ? 0 : -errno;

        if (refused)
                fault = weir__log_refusal(
                        "weir_signal_new: the signal %d: expected one that can be caught, and is none of a fault", signo);
        struct weir__wait_task *self = weir__wait_task_new_with(&task_ops, object, fault, done, context);

        if (self && !fault)
                self->wait.amount = atomic_load(&counts[signo]);
        return (weir_task *)self;
}
