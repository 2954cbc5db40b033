/* durable/engine/bell.c: a file that wakes the other nodes of a file of SQLite.
 *
 * A node rings by a byte that it writes into the file; nodes that watch have an inotify instance for it.  If somebody removes the
 * file, those that watch are told, and whoever comes first makes another one.
 *
 * Threads: any; `lock` guards all but what is constant. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/fd.h>

#include "durable/engine/bell.h"
#include "durable/engine/engine.h"

struct weir__durable_bell {
        weir_durable *store; /* constant */

        pthread_mutex_t lock;
        int file;        /* to ring by; -1: not opened yet */
        int watch;       /* of inotify; -1: none */
        weir_fd *fd;     /* of `watch`; NULL: none */
        bool is_wanted;  /* between watch and leave */
        bool is_waiting; /* a task waits for `fd` */
        char path[];     /* constant */
};

struct weir__durable_bell *
weir__durable_bell_new(const char *file, weir_durable *store)
{
        size_t size = strlen(file) + sizeof "-bell";
        struct weir__durable_bell *bell = calloc(1, sizeof *bell + size);

        if (!bell)
                return NULL;
        bell->store = store;
        bell->file = bell->watch = -1;
        pthread_mutex_init(&bell->lock, NULL);
        snprintf(bell->path, size, "%s-bell", file);
        return bell;
}

void
weir__durable_bell_free(struct weir__durable_bell *bell)
{
        if (!bell)
                return;
        if (bell->file >= 0)
                close(bell->file);
        pthread_mutex_destroy(&bell->lock);
        free(bell);
}

/* The lock is held. */
static bool
is_open(struct weir__durable_bell *bell)
{
        if (bell->file < 0)
                bell->file = open(bell->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        return bell->file >= 0;
}

/* A watch that is no more. */
struct old {
        weir_fd *fd;
        int watch;
};

/* The lock is held. */
static struct old
take_watch(struct weir__durable_bell *bell)
{
        struct old old = {bell->fd, bell->watch};

        bell->fd = NULL;
        bell->watch = -1;
        return old;
}

/* A task that waits for it ends.  The lock is not held. */
static void
drop(struct old old)
{
        weir_fd_forget(old.fd);
        if (old.watch >= 0)
                close(old.watch);
}

/* Leaves a file that somebody has removed.  The lock is held. */
static struct old
leave_removed(struct weir__durable_bell *bell)
{
        struct stat found;

        if (bell->file < 0 || (fstat(bell->file, &found) == 0 && found.st_nlink > 0))
                return (struct old){NULL, -1};
        close(bell->file);
        bell->file = -1;
        return take_watch(bell);
}

void
weir__durable_bell_ring(struct weir__durable_bell *bell)
{
        pthread_mutex_lock(&bell->lock);
        struct old old = leave_removed(bell);
        if (is_open(bell) && pwrite(bell->file, "!", 1, 0) != 1) {
                close(bell->file);
                bell->file = -1;
        }
        pthread_mutex_unlock(&bell->lock);
        drop(old);
}

static struct old repair(struct weir__durable_bell *bell);

/* Reads away what inotify has to say. */
static void
drain(int watch)
{
        char events[4096];

        while (read(watch, events, sizeof events) > 0) {
        }
}

static void
on_ring(weir_task *task, void *context)
{
        struct weir__durable_bell *bell = context;
        weir_durable *store = bell->store;
        bool is_rung = false;

        pthread_mutex_lock(&bell->lock);
        bell->is_waiting = false;
        if (weir_task_status(task) == 0 && bell->fd) {
                drain(bell->watch);
                is_rung = true;
        }
        struct old old = repair(bell); /* before the look: what is written from now on rings again */
        pthread_mutex_unlock(&bell->lock);
        drop(old);
        if (is_rung)
                weir__durable_ring(store);
}

static void
unref(void *bell)
{
        weir__durable_unref(((struct weir__durable_bell *)bell)->store);
}

/* The lock is held. */
static void
wait_for_ring(struct weir__durable_bell *bell)
{
        weir_task *task = weir_fd_readable_new(bell->fd, on_ring, bell);

        if (!task)
                return;
        weir__durable_ref(bell->store);
        weir_task_on_free(task, unref);
        bell->is_waiting = true;
        if (weir_task_start(task))
                bell->is_waiting = false;
}

/* The lock is held. */
static void
open_watch(struct weir__durable_bell *bell)
{
        if (!is_open(bell))
                return;
        bell->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (bell->watch < 0)
                return;
        if (inotify_add_watch(bell->watch, bell->path, IN_MODIFY | IN_ATTRIB) >= 0)
                bell->fd = weir_fd_new(bell->watch);
        if (!bell->fd) {
                close(bell->watch);
                bell->watch = -1;
        }
}

/* Does what is missing of a watch that is wanted.  The lock is held.  Result: to be dropped without it; the task that waits for
 * that calls again. */
static struct old
repair(struct weir__durable_bell *bell)
{
        struct old old = leave_removed(bell);

        if (bell->is_wanted && !bell->fd && !bell->is_waiting)
                open_watch(bell);
        if (bell->fd && !bell->is_waiting)
                wait_for_ring(bell);
        return old;
}

void
weir__durable_bell_repair(struct weir__durable_bell *bell)
{
        pthread_mutex_lock(&bell->lock);
        struct old old = repair(bell);
        pthread_mutex_unlock(&bell->lock);
        drop(old);
}

void
weir__durable_bell_watch(struct weir__durable_bell *bell)
{
        pthread_mutex_lock(&bell->lock);
        bell->is_wanted = true;
        pthread_mutex_unlock(&bell->lock);
        weir__durable_bell_repair(bell);
}

void
weir__durable_bell_leave(struct weir__durable_bell *bell)
{
        pthread_mutex_lock(&bell->lock);
        bell->is_wanted = false;
        struct old old = take_watch(bell);
        pthread_mutex_unlock(&bell->lock);
        drop(old);
}
