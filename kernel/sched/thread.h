/* kernel/sched/thread.h: how threads of the library are made. */
#ifndef WEIR_KERNEL_THREAD_H
#define WEIR_KERNEL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Sets what later threads get: the size of the stack (0: the system's), and whether workers stay on one CPU.  At the start of the
 * runtime. */
void weir__thread_configure(size_t stack_size, bool has_affinity);

/* Makes a thread with the configured stack, on which all signals are blocked.
 *
 * Result:  0 or a negative errno.
 * Threads: any. */
int weir__thread_make(pthread_t *thread, void *(*main)(void *), void *argument);

/* Keeps the calling thread on the CPU that belongs to that index, or lets it run on every CPU again.  Both do nothing without
 * affinity. */
void weir__thread_keep_on_cpu(unsigned index);
void weir__thread_release_cpu(void);

#endif
