/* kernel/sched/worker_loop.h: the loop of a worker. */
#ifndef WEIR_KERNEL_WORKER_LOOP_H
#define WEIR_KERNEL_WORKER_LOOP_H

#include <weir/time.h>

/* The main function of the thread of a worker.  Returns when the worker is called to leave. */
void *weir__worker_main(void *worker);

/* The calling worker has lost its poller in the callback that has just returned.  Returns about how long the callback has run.
 * 0: the callback has given the poller away; or it was short, and lost a degraded poller. */
weir_nsec weir__worker_blocked(void);

#endif
