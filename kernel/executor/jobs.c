/* kernel/executor/jobs.c: the jobs that threads of the executor share: a list, and a line of queues.
 *
 * Threads: any, one at a time.
 * Locks:   the caller's. */
#include "kernel/executor/jobs.h"

static void
join_line(struct weir__jobs *jobs, struct weir__job_queue *queue)
{
        queue->next = NULL;
        queue->previous = jobs->line_end;
        *(jobs->line_end ? &jobs->line_end->next : &jobs->line) = queue;
        jobs->line_end = queue;
}

static void
leave_line(struct weir__jobs *jobs, struct weir__job_queue *queue)
{
        *(queue->previous ? &queue->previous->next : &jobs->line) = queue->next;
        *(queue->next ? &queue->next->previous : &jobs->line_end) = queue->previous;
}

void
weir__jobs_append(struct weir__jobs *jobs, struct weir__job *job)
{
        struct weir__job_queue *queue = job->queue;
        struct weir__job **last = queue ? &queue->last : &jobs->last;

        job->next = NULL;
        job->previous = *last;
        *(*last ? &(*last)->next : queue ? &queue->first : &jobs->first) = job;
        *last = job;
        job->place = WEIR__JOB_LISTED;
        if (!queue) {
                jobs->listed++;
        } else if (queue->queued++ == 0) {
                atomic_fetch_add_explicit(&jobs->queues, 1, memory_order_relaxed);
                join_line(jobs, queue);
        }
        jobs->queued += queue != NULL;
}

void
weir__jobs_remove(struct weir__jobs *jobs, struct weir__job *job)
{
        struct weir__job_queue *queue = job->queue;

        *(job->previous ? &job->previous->next : queue ? &queue->first : &jobs->first) = job->next;
        *(job->next ? &job->next->previous : queue ? &queue->last : &jobs->last) = job->previous;
        job->place = WEIR__JOB_ELSEWHERE;
        jobs->queued -= queue != NULL;
        if (!queue) {
                jobs->listed--;
        } else if (--queue->queued == 0) {
                atomic_fetch_sub_explicit(&jobs->queues, 1, memory_order_relaxed);
                leave_line(jobs, queue);
        }
}

struct weir__job *
weir__jobs_take_queued(struct weir__jobs *jobs)
{
        struct weir__job_queue *queue = jobs->line;

        if (!queue)
                return NULL;
        struct weir__job *job = queue->first;
        weir__jobs_remove(jobs, job);
        if (queue->queued > 0) {
                leave_line(jobs, queue);
                join_line(jobs, queue);
        }
        return job;
}

unsigned
weir__jobs_take_listed(struct weir__jobs *jobs, struct weir__job *taken[], unsigned most)
{
        unsigned count = 0;

        for (; count < most && jobs->first; count++) {
                taken[count] = jobs->first;
                weir__jobs_remove(jobs, jobs->first);
        }
        return count;
}
