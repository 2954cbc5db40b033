/* kernel/executor/jobs.c: the jobs that threads of the executor share: a list, and a line of queues.
 *
 * Threads: any, one at a time.
 * Locks:   the caller's. */
#include "kernel/executor/jobs.h"

void
weir__jobs_append(struct weir__jobs *jobs, struct weir__job *job)
{
        struct weir__job_queue *queue = job->queue ? job->queue : &jobs->list;

        weir__list_append(&queue->jobs, &job->link);
        job->is_listed = true;
        queue->queued++;
        if (!job->queue)
                return;
        jobs->queued++;
        if (queue->queued == 1) {
                atomic_fetch_add_explicit(&jobs->queues, 1, memory_order_relaxed);
                weir__list_append(&jobs->line, &queue->in_line);
        }
}

void
weir__jobs_remove(struct weir__jobs *jobs, struct weir__job *job)
{
        struct weir__job_queue *queue = job->queue ? job->queue : &jobs->list;

        weir__link_remove(&job->link);
        job->is_listed = false;
        queue->queued--;
        if (!job->queue)
                return;
        jobs->queued--;
        if (queue->queued == 0) {
                atomic_fetch_sub_explicit(&jobs->queues, 1, memory_order_relaxed);
                weir__link_remove(&queue->in_line);
        }
}

struct weir__job *
weir__jobs_take_queued(struct weir__jobs *jobs)
{
        struct weir__link *first = weir__list_first(&jobs->line);

        if (!first)
                return NULL;
        if (weir__list_next(&jobs->line, first)) {
                weir__link_remove(first);
                weir__list_append(&jobs->line, first);
        }
        struct weir__job *job = weir__jobs_oldest(weir__container_of(first, struct weir__job_queue, in_line));
        weir__jobs_remove(jobs, job);
        return job;
}

unsigned
weir__jobs_take_listed(struct weir__jobs *jobs, struct weir__job *taken[], unsigned most)
{
        unsigned count = 0;

        for (; count < most && jobs->list.queued > 0; count++) {
                taken[count] = weir__jobs_oldest(&jobs->list);
                weir__jobs_remove(jobs, taken[count]);
        }
        return count;
}
