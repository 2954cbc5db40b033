/* kernel/sched/progress.c: how far a shutdown has come, for the thread that waits for its end.
 *
 * Threads: any.
 * Locks:   progress.mutex, a leaf. */
#include "kernel/sched/progress.h"

#include <pthread.h>

static struct {
        pthread_mutex_t mutex;
        pthread_cond_t changed; /* on CLOCK_MONOTONIC */
        unsigned drained;       /* pollers; guarded by mutex */
} progress = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void
weir__progress_prepare(void)
{
        pthread_condattr_t attributes;

        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&progress.changed, &attributes);
        pthread_condattr_destroy(&attributes);
}

void
weir__progress_begin(void)
{
        progress.drained = 0;
}

static void
notify(unsigned drained)
{
        pthread_mutex_lock(&progress.mutex);
        progress.drained += drained;
        pthread_cond_broadcast(&progress.changed);
        pthread_mutex_unlock(&progress.mutex);
}

void
weir__progress_notify(void)
{
        notify(0);
}

void
weir__progress_note_drained(void)
{
        notify(1);
}

bool
weir__progress_wait(unsigned pollers, bool (*are_roots_left)(void), weir_nsec until)
{
        struct timespec limit = {.tv_sec = until / WEIR_SEC(1), .tv_nsec = until % WEIR_SEC(1)};
        bool is_over = false;
        int failed = 0;

        pthread_mutex_lock(&progress.mutex);
        while (!(is_over = progress.drained >= pollers && !(are_roots_left && are_roots_left())) && !failed)
                failed = until == WEIR_FOREVER ? pthread_cond_wait(&progress.changed, &progress.mutex)
                                               : pthread_cond_timedwait(&progress.changed, &progress.mutex, &limit);
        pthread_mutex_unlock(&progress.mutex);
        return is_over;
}
