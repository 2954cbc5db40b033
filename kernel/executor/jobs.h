/* kernel/executor/jobs.h: jobs that wait: those of each queue, those without a queue, and the line of queues that have some.
 *
 * A pure data structure, guarded by the lock of the executor. */
#ifndef WEIR_KERNEL_JOBS_H
#define WEIR_KERNEL_JOBS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/list.h"

struct weir__job;

struct weir__job_ops {
        /* On a thread of the executor, with no lock held; the job may be gone afterwards. */
        void (*run)(struct weir__job *job);

        /* The job is not run, because the runtime ends.  On the thread that ends the runtime, with no lock held. */
        void (*refuse)(struct weir__job *job);
};

/* A first-in first-out queue of jobs. */
struct weir__job_queue {
        /* Guarded by the executor's lock. */
        struct weir__list jobs;
        size_t queued;
        struct weir__link in_line; /* unused while the queue has no jobs */
};

/* Embedded in whatever is to be run. */
struct weir__job {
        /* Constant once submitted. */
        const struct weir__job_ops *ops;
        struct weir__job_queue *queue; /* NULL: none; else it must be there as long as the job */

        struct weir__link link; /* guarded by the executor's lock; in the inbox only `next` is used */

        uint32_t since; /* when it was submitted, in units of 2^20 ns; constant then */

        /* Guarded by the executor's lock.  It is in its queue, or in the list of those that have none.  False before it is
         * submitted. */
        bool is_listed;

        _Atomic uint8_t references; /* its owner's, untouched here */
};

/* All zero is empty. */
struct weir__jobs {
        struct weir__job_queue list; /* the jobs that have no queue; it is never in the line */
        size_t queued;               /* in all queues */
        struct weir__list line;      /* the queues that have jobs; the next job is taken from the first one */
        _Atomic unsigned queues;     /* in the line; also read without the lock, relaxed */
};

static inline bool weir__jobs_are_any(const struct weir__jobs *jobs)
{
        return jobs->list.queued + jobs->queued > 0;
}

/* The oldest job of a queue; NULL: it has none. */
static inline struct weir__job *weir__jobs_oldest(const struct weir__job_queue *queue)
{
        struct weir__link *first = weir__list_first(&queue->jobs);

        return first ? weir__container_of(first, struct weir__job, link) : NULL;
}

/* Behind the others of its queue, or of the list. */
void weir__jobs_append(struct weir__jobs *jobs, struct weir__job *job);

/* Takes out a job that is listed. */
void weir__jobs_remove(struct weir__jobs *jobs, struct weir__job *job);

/* Takes the oldest job of the first queue, which goes to the end of the line.  NULL: no queue has jobs. */
struct weir__job *weir__jobs_take_queued(struct weir__jobs *jobs);

/* Takes the oldest of the list, `most` at most.  Returns how many. */
unsigned weir__jobs_take_listed(struct weir__jobs *jobs, struct weir__job *taken[], unsigned most);

#endif
