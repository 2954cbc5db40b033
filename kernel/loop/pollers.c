/* kernel/loop/pollers.c: the pollers of the process.
 *
 * Threads: any.
 * Locks:   none. */
#include "kernel/loop/pollers.h"

#include "kernel/sched/worker.h"

#define HOME_BATCH 64 /* objects that a thread which is no worker makes in a row for one poller */

static struct weir__poller none = {.index = WEIR__POLLER_NONE, .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_POLLER)};

struct weir__pollers weir__pollers = {.at = {[WEIR__POLLER_NONE] = &none}};

unsigned
weir__poller_home(void)
{
        static _Thread_local unsigned made;
        struct weir__worker *worker = weir__worker_self();

        if (worker && worker->poller)
                return worker->poller->index;
        unsigned count = weir__pollers_count();
        return count ? made++ / HOME_BATCH % count : WEIR__POLLER_NONE;
}
