/* kernel/sched/worker_loop.h: the loop of a worker. */
#ifndef WEIR_KERNEL_WORKER_LOOP_H
#define WEIR_KERNEL_WORKER_LOOP_H

/* The main function of the thread of a worker.  Returns when the worker is called to leave. */
void *weir__worker_loop(void *worker);

#endif
