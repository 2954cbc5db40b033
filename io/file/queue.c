/* io/file/queue.c: file tasks as jobs of the executor, where there is no ring, and for what rings do not do.
 *
 * Threads: start on any; jobs run on threads of the executor.
 * Locks:   those of the executor. */
#include "io/file/queue.h"

#include <errno.h>

#include "kernel/executor/executor.h"

/* They take turns with the functions of the program, however many they are. */
static struct weir__job_queue jobs;

static void
run(struct weir__job *job)
{
        struct weir__file_task *task = weir__container_of(job, struct weir__file_task, job);
        int obstacle = weir__file_obstacle(task);

        if (obstacle)
                task->task.status = obstacle;
        else
                weir__file_perform(task);
        weir__file_end(task, task->task.status);
}

static void
refuse(struct weir__job *job)
{
        weir__file_end(weir__container_of(job, struct weir__file_task, job), -ESHUTDOWN);
}

static const struct weir__job_ops job_ops = {run, refuse};

int
weir__file_queue_start(struct weir__file_task *task, uint32_t from)
{
        int failed = weir__executor_use();

        if (failed)
                return failed;
        task->stage = WEIR__FILE_IN_QUEUE;
        task->job = (struct weir__job){.ops = &job_ops, .queue = &jobs};
        if (!atomic_compare_exchange_strong_explicit(&task->task.word, &from, WEIR__PENDING, memory_order_acq_rel,
                                                     memory_order_acquire))
                return weir__file_obstacle(task);
        weir__executor_submit(&task->job);
        return 0;
}

bool
weir__file_queue_take_back(struct weir__file_task *task)
{
        return weir__executor_remove(&task->job);
}
