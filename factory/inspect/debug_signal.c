/* factory/inspect/debug_signal.c: a dump for each signal.
 *
 *     of the thread:  made by the first binding -> waits -> prints -> waits ...
 *                                                              \--another one waits--> ended
 *
 * Threads: the handler runs on any.  The printing has threads of its own.  Mostly there is one, which sleeps.  A binding makes a
 *          new one while all of them print, because printing may take long.
 * Locks:   bound.mutex, one of the system.  The handler takes none: it only posts a semaphore. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include <weir/debug.h>

#include "kernel/base/thread.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/signals.h"

static sem_t wanted; /* by signals */

static struct {
        pthread_mutex_t mutex;

        /* Guarded by mutex. */
        int signal; /* 0: none */
        int fd;
        unsigned waiting; /* threads */
} bound = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
prepare(void)
{
        sem_init(&wanted, 0, 0);
}

/* -- forks: the threads are not there; that a signal was bound is forgotten, and the handler does nothing -- */

static void
before_fork(void)
{
        pthread_mutex_lock(&bound.mutex);
}

static void
after_fork(void)
{
        pthread_mutex_unlock(&bound.mutex);
}

static void
become_child(void)
{
        bound.signal = 0;
        bound.waiting = 0;
        pthread_mutex_unlock(&bound.mutex);
}

WEIR__STEPS_OF(WEIR__MODULE_DUMPS, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = become_child);

/* -- the threads -- */

static void
handle(int signal)
{
        (void)signal;
        sem_post(&wanted);
}

static const struct weir__signal_listener listener = {.fn = handle, .should_replace = true, .is_deaf_in_a_child = true};

/* Signals that came until now count as one. */
static void
wait_until_wanted(void)
{
        while (sem_wait(&wanted) < 0)
                continue;
        while (sem_trywait(&wanted) == 0)
                continue;
}

/* Returns whether this thread goes on: one thread waits at a time. */
static bool
stays(void)
{
        pthread_mutex_lock(&bound.mutex);
        bool is_alone = bound.waiting == 0;
        bound.waiting += is_alone;
        pthread_mutex_unlock(&bound.mutex);
        return is_alone;
}

static void *
print_when_wanted(void *unused)
{
        (void)unused;
        pthread_setname_np(pthread_self(), "weir/debug");
        do {
                wait_until_wanted();
                pthread_mutex_lock(&bound.mutex);
                int fd = bound.signal ? bound.fd : -1;
                bound.waiting--;
                pthread_mutex_unlock(&bound.mutex);
                if (fd >= 0)
                        weir_debug_dump(fd);
        } while (stays());
        return NULL;
}

/* -- binding; with the mutex held -- */

static int
have_thread(void)
{
        pthread_t thread;

        if (bound.waiting > 0)
                return 0;
        int failed = weir__thread_make(&thread, print_when_wanted, NULL);
        if (failed)
                return failed;
        pthread_detach(thread);
        bound.waiting++;
        return 0;
}

static void
unbind(void)
{
        if (bound.signal)
                weir__signals_unlisten(bound.signal, &listener);
        bound.signal = 0;
}

static int
bind_to(int signal, int fd)
{
        int failed = have_thread();

        if (!failed)
                failed = weir__signals_listen(signal, &listener);
        if (failed)
                return failed;
        unbind(); /* afterwards: for the same signal the action stays */
        bound.signal = signal;
        bound.fd = fd;
        return 0;
}

int
weir_debug_dump_on(int signal, int fd)
{
        int failed = signal < 0 ? -EINVAL : 0;

        if (weir__phase_is_forked())
                return -ECHILD;
        pthread_mutex_lock(&bound.mutex);
        if (signal == 0 || (signal > 0 && fd < 0))
                unbind();
        else if (signal > 0)
                failed = bind_to(signal, fd);
        pthread_mutex_unlock(&bound.mutex);
        if (failed == -EINVAL)
                weir__log_refusal("weir_debug_dump_on: the signal %d: expected one that can be caught, or 0", signal);
        return failed;
}
