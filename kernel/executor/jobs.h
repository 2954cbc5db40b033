/* kernel/executor/jobs.h: jobs that wait: a list of those without a queue, and a line of the queues that have some.
 *
 * A pure data structure, guarded by the lock of the executor. */
#ifndef WEIR_KERNEL_JOBS_H
#define WEIR_KERNEL_JOBS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__job;

struct weir__job_ops {
        /* On a thread of the executor, with no lock held; the job may be gone afterwards. */
        void (*run)(struct weir__job *job);

        /* The job is not run, because the runtime ends.  On the thread that ends the runtime, with no lock held. */
        void (*refuse)(struct weir__job *job);
};

/* A first-in first-out queue of jobs that takes turns with the others. */
struct weir__job_queue {
        /* Guarded by the executor's lock. */
        struct weir__job *first, *last;
        size_t queued;
        struct weir__job_queue *next, *previous; /* in the line of those that have jobs */
};

enum weir__job_place {
        WEIR__JOB_ELSEWHERE = 0, /* not submitted, in the deque of a thread, or taken */
        WEIR__JOB_LISTED,        /* in its queue, or in the list of those that have none */
};

/* Embedded in whatever is to be run. */
struct weir__job {
        /* Constant once submitted. */
        const struct weir__job_ops *ops;
        struct weir__job_queue *queue; /* NULL: none; else it must be there as long as the job */

        /* Guarded by the executor's lock. */
        struct weir__job *next, *previous;
        uint32_t since; /* when it was submitted, in units of 2^20 ns */
        uint8_t place;  /* enum weir__job_place; 0 before it is submitted */

        _Atomic uint8_t references; /* its owner's, untouched here */
};

/* All zero is empty. */
struct weir__jobs {
        struct weir__job *first, *last; /* of no queue */
        size_t listed;
        size_t queued;                           /* in all queues */
        struct weir__job_queue *line, *line_end; /* those that have jobs; the first one's turn is next */
        _Atomic unsigned queues;                 /* in the line; also read without the lock, relaxed */
};

static inline bool weir__jobs_are_any(const struct weir__jobs *jobs)
{
        return jobs->first || jobs->line;
}

/* Behind the others of its queue, or of the list. */
void weir__jobs_append(struct weir__jobs *jobs, struct weir__job *job);

/* Takes out one that is there. */
void weir__jobs_remove(struct weir__jobs *jobs, struct weir__job *job);

/* The oldest of the queue whose turn it is, which goes to the end of the line; NULL when there is none. */
struct weir__job *weir__jobs_take_queued(struct weir__jobs *jobs);

/* The oldest of the list, `most` at most; returns how many. */
unsigned weir__jobs_take_listed(struct weir__jobs *jobs, struct weir__job *taken[], unsigned most);

#endif
