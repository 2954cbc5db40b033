/* kernel/sched/worker_loop.h: the loop of a worker. */
#ifndef WEIR_KERNEL_WORKER_LOOP_H
#define WEIR_KERNEL_WORKER_LOOP_H

#include <weir/time.h>

/* What the thread of a worker does; ends when it is called to leave. */
void *weir__worker_main(void *worker);

/* By a worker that has lost its poller in the callback that has just returned: for how long that has run, about.  0: not to the
 * watchdog, or after one that blocked and not for long itself. */
weir_nsec weir__worker_blocked(void);

#endif
