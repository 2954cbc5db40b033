/* io/file/perform.c: the system calls of file tasks, on a thread of the executor.
 *
 * Threads: that of the executor which has the task.
 * Locks:   none.
 *
 * A call that may wait for a disk is announced as blocking, so another thread of the executor takes its place.  A read that finds
 * its bytes in the page cache needs no such announcement. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/runtime.h>

#include "io/file/queue.h"

#define CANCEL_LATENCY 20 /* milliseconds from a cancel to its notice by a task that waits for a pipe */

/* Waits until a stream is ready.  Result: 0, or why the task ends: the series, the runtime. */
static int
wait_for_stream(const struct weir__file_task *task)
{
        struct pollfd wanted = {.fd = task->file->descriptor, .events = task->kind == WEIR__FILE_READ ? POLLIN : POLLOUT};

        for (;;) {
                int obstacle = weir__file_obstacle(task);

                if (obstacle)
                        return obstacle;
                if (poll(&wanted, 1, CANCEL_LATENCY) > 0)
                        return 0;
        }
}

/* -- reads and writes -- */

/* A call without RWF_NOWAIT writes so much to a stream that is ready: a pipe has room for it. */
#define STREAM_PART 4096

static int64_t
answer(ssize_t result)
{
        return result < 0 ? -errno : result;
}

/* From or to where the task has come; `offset` is -1 for a stream. */
static int64_t
transfer(const struct weir__file_task *task, struct iovec *parts, size_t count, off_t offset, int flags)
{
        int fd = task->file->descriptor;

        if (task->kind == WEIR__FILE_READ)
                return answer(preadv2(fd, parts, (int)count, offset, flags));
        return answer(pwritev2(fd, parts, (int)count, offset, flags));
}

static bool
would_wait(int64_t result)
{
        return result == -EAGAIN || result == -EOPNOTSUPP || result == -EINVAL;
}

/* The first bytes that are left, for a stream that knows no RWF_NOWAIT. */
static struct iovec
first_of(const struct iovec *parts, size_t count, size_t most)
{
        size_t i = 0;

        while (i + 1 < count && parts[i].iov_len == 0)
                i++;
        struct iovec first = count ? parts[i] : (struct iovec){NULL, 0};
        if (first.iov_len > most)
                first.iov_len = most;
        return first;
}

static int64_t
transfer_stream(const struct weir__file_task *task, struct iovec *parts, size_t count)
{
        for (;;) {
                int failed = wait_for_stream(task);

                if (failed)
                        return failed;
                int64_t result = transfer(task, parts, count, -1, RWF_NOWAIT);
                if (result != -EAGAIN && result != -EOPNOTSUPP)
                        return result;
                struct iovec first = first_of(parts, count, task->kind == WEIR__FILE_READ ? SIZE_MAX : STREAM_PART);
                if (result == -EOPNOTSUPP)
                        result = transfer(task, &first, 1, -1, 0);
                if (result != -EAGAIN)
                        return result;
        }
}

static int64_t
read_or_write(struct weir__file_task *task)
{
        struct iovec one = {task->data ? weir__file_at(task) : NULL, weir__file_left(task)};
        struct iovec *parts = task->parts ? task->parts : &one;
        size_t count = task->parts ? task->part_count : 1;
        bool appends = task->kind == WEIR__FILE_APPEND;
        off_t offset = appends ? 0 : (off_t)(task->offset + (int64_t)task->count);

        if (task->kind == WEIR__FILE_READ && !task->file->is_stream) {
                int64_t result = transfer(task, parts, count, offset, RWF_NOWAIT); /* from the page cache */
                if (!would_wait(result))
                        return result;
        }
        weir_blocking_begin();
        int64_t result = task->file->is_stream ? transfer_stream(task, parts, count)
                                               : transfer(task, parts, count, offset, appends ? RWF_APPEND : 0);
        if (result == -EOPNOTSUPP && appends) /* a device, which has no end */
                result = transfer(task, parts, count, offset, 0);
        weir_blocking_end();
        return result;
}

/* -- the others -- */

static int
look(struct weir__file_task *task)
{
        if (task->file)
                return fstat(task->file->descriptor, task->stat);
        return task->follows_links ? stat(task->path, task->stat) : lstat(task->path, task->stat);
}

static int
call(struct weir__file_task *task)
{
        switch (task->kind) {
        case WEIR__FILE_OPEN: return open(task->path, task->flags | O_CLOEXEC | O_NONBLOCK, (mode_t)task->mode);
        case WEIR__FILE_SYNC: return task->is_data_only ? fdatasync(task->file->descriptor) : fsync(task->file->descriptor);
        case WEIR__FILE_TRUNCATE: return ftruncate(task->file->descriptor, (off_t)task->offset);
        case WEIR__FILE_STAT: return look(task);
        case WEIR__FILE_RENAME: return rename(task->path, task->other);
        case WEIR__FILE_UNLINK: return unlink(task->path);
        case WEIR__FILE_MKDIR: return mkdir(task->path, (mode_t)task->mode);
        default: return rmdir(task->path);
        }
}

static int64_t
do_another(struct weir__file_task *task)
{
        weir_blocking_begin();
        int64_t result = task->kind == WEIR__FILE_CLOSE  ? weir__file_close(task->file)
                         : task->kind == WEIR__FILE_LIST ? weir__file_read_directory(task)
                                                         : answer(call(task));
        weir_blocking_end();
        return result;
}

void
weir__file_perform(struct weir__file_task *task)
{
        int failed = weir__file_prepare(task);

        if (failed) {
                task->task.status = failed;
                return;
        }
        while (!weir__file_note(task, task->kind <= WEIR__FILE_APPEND ? read_or_write(task) : do_another(task)))
                ;
}
