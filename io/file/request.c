/* io/file/request.c: what the system's answers mean, and how a task ends: the same for a ring and for the queue.
 *
 * Threads: whoever has the task: the owner of its poller, or a thread of the executor.
 * Locks:   none. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "io/file/file.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/deliver.h"

int
weir__file_obstacle(const struct weir__file_task *task)
{
        int cause = task->task.series ? weir__series_effective_cause(task->task.series) : 0;

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

int
weir__file_prepare(struct weir__file_task *task)
{
        if (task->lends && !task->data && task->size > 0 && !(task->data = malloc(task->size)))
                return -ENOMEM;
        return 0;
}

/* The first parts were done. */
static void
advance_parts(struct weir__file_task *task, size_t done)
{
        for (size_t i = 0; i < task->part_count && done > 0; i++) {
                size_t most = task->parts[i].iov_len < done ? task->parts[i].iov_len : done;

                task->parts[i].iov_base = (char *)task->parts[i].iov_base + most;
                task->parts[i].iov_len -= most;
                done -= most;
        }
}

static bool
set_status(struct weir__file_task *task, int status)
{
        task->task.status = status;
        return true;
}

static bool
note_bytes(struct weir__file_task *task, size_t done)
{
        bool reads = task->kind == WEIR__FILE_READ;

        task->count += done;
        if (task->parts)
                advance_parts(task, done);
        if (task->count == task->size || (reads && (done == 0 || task->file->is_stream)))
                return set_status(task, 0);
        if (done == 0)
                return set_status(task, -EIO); /* nothing is written, and no reason is given */
        int obstacle = weir__file_obstacle(task);
        return obstacle ? set_status(task, obstacle) : false;
}

/* The kernel asks for O_NONBLOCK until a file is open: see weir_file_open_new. */
static bool
note_open(struct weir__file_task *task, int descriptor)
{
        int flags = fcntl(descriptor, F_GETFL);

        if (flags >= 0)
                fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
        weir__file_set_open(task->file, descriptor);
        return set_status(task, 0);
}

/* A read with O_DIRECT was short, and the rest would begin between two blocks: that was the end of the file. */
static bool
is_direct_end(const struct weir__file_task *task, int64_t result)
{
        return result == -EINVAL && task->kind == WEIR__FILE_READ && task->count > 0;
}

bool
weir__file_note(struct weir__file_task *task, int64_t result)
{
        if (is_direct_end(task, result))
                return set_status(task, 0);
        if (result < 0) {
                int obstacle = result == -EINTR || result == -ECANCELED ? weir__file_obstacle(task) : 0;

                return result == -EINTR && !obstacle ? false : set_status(task, obstacle ? obstacle : (int)result);
        }
        switch (task->kind) {
        case WEIR__FILE_READ:
        case WEIR__FILE_WRITE:
        case WEIR__FILE_APPEND: return note_bytes(task, (size_t)result);
        case WEIR__FILE_OPEN: return note_open(task, (int)result);
        default: return set_status(task, 0);
        }
}

/* -- the end -- */

static void
deliver(struct weir__file_task *task)
{
        atomic_store_explicit(&task->task.word, WEIR__READY, memory_order_release);
        weir__deliver(weir__poller_at(task->task.poller), &task->task.work);
}

/* Its work may be demoted from then on, as it calls back. */
void
weir__file_end(struct weir__file_task *task, int status)
{
        task->stage = WEIR__FILE_ENDED;
        task->task.status = status;
        deliver(task);
}

void
weir__file_end_in_ring(struct weir__file_task *task, int status)
{
        uint32_t pending = WEIR__PENDING;

        task->task.status = status;
        task->stage = WEIR__FILE_ENDED;
        if (atomic_compare_exchange_strong_explicit(&task->task.word, &pending, WEIR__READY, memory_order_acq_rel,
                                                    memory_order_acquire) ||
            task->is_notified)
                deliver(task);
}
