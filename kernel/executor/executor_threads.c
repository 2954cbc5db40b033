/* kernel/executor/executor_threads.c: threads of the executor are made, also in place of those that block.
 *
 * Threads: use on any; blocking_begin and blocking_end on a thread of the executor, in a job.
 * Locks:   executor.growth, a mutex of the system, is held while threads are started; under it only executor.lock. */
#include <errno.h>

#include "kernel/executor/executor_state.h"

#define GROWTH_RETRY WEIR_SEC(1) /* after a thread could not be made */

/* With growth held. */
static int
add_thread(void)
{
        struct weir__worker *added;
        int failed = weir__thread_set_add(&weir__executor.set, &added);

        weir__lock(&weir__executor.lock);
        weir__executor_note_overfull();
        weir__unlock(&weir__executor.lock);
        return failed;
}

/* With growth held. */
static int
grow(void)
{
        int failed = 0;

        while (weir__executor_slots() < weir__executor.wanted && !failed)
                failed = add_thread();
        if (failed)
                weir__executor.retry_at = weir__clock_monotonic() + GROWTH_RETRY;
        return weir__executor_slots() > 0 ? 0 : failed;
}

int
weir__executor_use(void)
{
        unsigned count = weir__executor_slots();

        if (__builtin_expect(count >= weir__executor.wanted, 1))
                return 0;
        if (count == 0)
                pthread_mutex_lock(&weir__executor.growth);
        else if (pthread_mutex_trylock(&weir__executor.growth))
                return 0;
        int failed = count > 0 && weir__clock_monotonic() < weir__executor.retry_at ? 0 : grow();
        pthread_mutex_unlock(&weir__executor.growth);
        return failed;
}

/* Whether another thread has to be made that runs jobs instead.  Under the lock. */
static bool
lacks_thread(void)
{
        return weir__executor.asleep_count == 0 && weir__executor_awake() < weir__executor.wanted;
}

int
weir__executor_blocking_begin(void)
{
        int failed = 0;

        weir__lock(&weir__executor.lock);
        weir__executor.blocked_count++;
        bool lacks = lacks_thread();
        weir__unlock(&weir__executor.lock);
        if (lacks) {
                pthread_mutex_lock(&weir__executor.growth);
                failed = add_thread();
                pthread_mutex_unlock(&weir__executor.growth);
        }
        if (failed) {
                weir__executor_blocking_end(); /* a thread that was woken meanwhile gives way */
                return -EAGAIN;
        }
        weir__executor_wake();
        return 0;
}

void
weir__executor_blocking_end(void)
{
        weir__lock(&weir__executor.lock);
        weir__executor.blocked_count--;
        weir__executor_note_overfull();
        weir__unlock(&weir__executor.lock);
}
