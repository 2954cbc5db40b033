/* kernel/base/thread.h: making, pinning and joining the library's threads. */
#ifndef WEIR_KERNEL_THREAD_H
#define WEIR_KERNEL_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

#include "kernel/base/latch.h"

/* Sets the stack size of threads that are made from now on, 0 for the system's, and whether workers stay on one CPU.  While no
 * thread runs. */
void weir__thread_configure(size_t stack_size, bool has_affinity);

/* The number of CPUs that the process may use, `most` at most. */
unsigned weir__thread_cpu_count(unsigned most);

/* Makes a thread with all signals blocked.  Result: 0 or a negative errno.  Any thread. */
int weir__thread_make(pthread_t *thread, void *(*main)(void *), void *argument);

/* Keeps the calling thread on the CPU that belongs to an index, or lets it run on any CPU again.  Without affinity they do
 * nothing. */
void weir__thread_keep_on_cpu(unsigned index);
void weir__thread_release_cpu(void);

/* Waits until a thread has opened its latch, which it does last, and joins it.  Returns false when that instant of
 * CLOCK_MONOTONIC comes first. */
bool weir__thread_join(pthread_t thread, struct weir__latch *gone, weir_nsec until);

#endif
