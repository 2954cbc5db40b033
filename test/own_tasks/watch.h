/* watch.h: the sockets and the time limit of a library that says itself, again and again, what it
 * waits for.
 *
 * The library's calls do not block, so one mutex keeps them apart.  It is held in go_on, and by
 * those who call watch_set and watch_limit. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <weir/weir.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The program's: has the library look at a socket, or at its time limits if that is -1. */
static void go_on(int socket, bool is_readable, bool is_writable);

struct watch {
        weir_fd *fd; /* NULL: the library has let the socket go */
        int socket;
        bool reads, writes; /* what the library waits for */
        unsigned waits;     /* tasks */
        struct watch *next;
};

static struct watch *watches;
static weir_timer_id watch_timer;

static void watch_on_event(weir_task *task, void *context);

static void watch_await(struct watch *watch)
{
        if (watch->reads)
                watch->waits += weir_task_start(weir_fd_readable_new(watch->fd, watch_on_event,
                                                                     watch)) == 0;
        if (watch->writes)
                watch->waits += weir_task_start(weir_fd_writable_new(watch->fd, watch_on_event,
                                                                     watch)) == 0;
}

/* On a worker.  A failure is the library's to find: it reads and writes. */
static void watch_on_event(weir_task *task, void *context)
{
        struct watch *watch = context;

        pthread_mutex_lock(&mutex);
        if (watch->fd && weir_task_status(task) != -EINTR && weir_task_status(task) != -ESHUTDOWN)
                go_on(watch->socket, watch->reads, watch->writes);
        if (--watch->waits > 0)
                weir_fd_wake(watch->fd); /* the other one begins anew as well */
        else if (watch->fd)
                watch_await(watch);
        else
                free(watch);
        pthread_mutex_unlock(&mutex);
}

static struct watch *watch_new(int socket)
{
        struct watch *watch = calloc(1, sizeof *watch);

        if (!watch || !(watch->fd = weir_fd_new(socket)))
                abort();
        watch->socket = socket;
        return watch;
}

/* From now on the library waits for this.  Neither: it may close the socket behind the call. */
static void watch_set(int socket, bool reads, bool writes)
{
        struct watch **at = &watches, *watch;

        while ((watch = *at) && watch->socket != socket)
                at = &watch->next;
        if (watch ? watch->reads == reads && watch->writes == writes : !reads && !writes)
                return;
        if (!watch)
                watch = *at = watch_new(socket);
        watch->reads = reads;
        watch->writes = writes;
        if (!reads && !writes) {
                *at = watch->next;
                weir_fd_forget(watch->fd);
                watch->fd = NULL;
        }
        if (watch->waits > 0)
                weir_fd_wake(watch->fd);
        else if (watch->fd)
                watch_await(watch);
        else
                free(watch);
}

static inline void watch_on_timer(weir_task *timer, void *unused)
{
        (void)unused;
        pthread_mutex_lock(&mutex);
        if (weir_task_status(timer) == 0)
                go_on(-1, false, false);
        pthread_mutex_unlock(&mutex);
}

/* In place of the limit of before.  Below 0: none. */
static inline void watch_limit(weir_nsec after)
{
        weir_task *timer = after < 0 ? NULL : weir_timer_new(after, watch_on_timer, NULL);

        weir_timer_cancel_id(watch_timer);
        watch_timer = weir_timer_id_of(timer);
        weir_task_start(timer);
}
