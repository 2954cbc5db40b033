/* watch.h: a socket of a library that says itself, again and again, what it waits for.
 *
 * The library's calls do not block, so one mutex keeps them apart.  All functions but watch_on_event are called with it held. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <weir/weir.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct watch {
        weir_fd *fd; /* NULL: the library has let the socket go */
        int socket;
        bool reads, writes; /* what the library waits for */
        unsigned waits;     /* tasks */
        void (*ready)(struct watch *watch, bool reads, bool writes); /* may set and end the watch */
        void *context;
        struct watch *next; /* in a list of the library's, if it needs one */
};

static void watch_on_event(weir_task *task, void *context);

static void watch_await(struct watch *watch)
{
        if (watch->fd && watch->reads)
                watch->waits += weir_task_start(weir_fd_readable_new(watch->fd, watch_on_event,
                                                                     watch)) == 0;
        if (watch->fd && watch->writes)
                watch->waits += weir_task_start(weir_fd_writable_new(watch->fd, watch_on_event,
                                                                     watch)) == 0;
        if (!watch->fd)
                free(watch);
}

/* On a worker.  A failure is the library's to find: it reads and writes. */
static void watch_on_event(weir_task *task, void *context)
{
        struct watch *watch = context;

        pthread_mutex_lock(&mutex);
        if (watch->fd && weir_task_status(task) != -EINTR && weir_task_status(task) != -ESHUTDOWN)
                watch->ready(watch, watch->reads, watch->writes);
        if (--watch->waits == 0)
                watch_await(watch);
        else
                weir_fd_wake(watch->fd); /* the other one begins anew as well */
        pthread_mutex_unlock(&mutex);
}

static struct watch *watch_new(int socket,
                               void (*ready)(struct watch *watch, bool reads, bool writes),
                               void *context)
{
        struct watch *watch = calloc(1, sizeof *watch);

        if (!watch || !(watch->fd = weir_fd_new(socket)))
                abort();
        watch->socket = socket;
        watch->ready = ready;
        watch->context = context;
        return watch;
}

static void watch_set(struct watch *watch, bool reads, bool writes)
{
        if (watch->reads == reads && watch->writes == writes)
                return;
        watch->reads = reads;
        watch->writes = writes;
        if (watch->waits > 0)
                weir_fd_wake(watch->fd);
        else
                watch_await(watch);
}

static void watch_end(struct watch *watch)
{
        weir_fd_forget(watch->fd);
        watch->fd = NULL;
        if (watch->waits == 0)
                watch_await(watch);
}
