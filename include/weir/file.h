/* weir/file.h: files: each operation is a task, and no callback waits for a disk.
 *
 * An operation runs in the kernel by io_uring, or on a thread of the executor where the kernel
 * refuses io_uring (weir_config.files).  Both do the same.
 *
 *     weir_file_open_new("log", O_RDONLY, 0, on_open, context)
 *     weir_file *file = weir_file_open_take(task);                      inside on_open
 *     weir_file_read_new(file, 0, 4096, on_read, context)
 *     const char *data = weir_file_data(task, &size);                   inside on_read
 *
 * Every task here has one of these as its status: 0; an error of the system, as -ENOENT, -EIO or
 * -ENOSPC; -EBADF for a NULL file, and for one that was closed; -ENOMEM; -ECANCELED, -ETIMEDOUT or
 * -ESHUTDOWN if its series, the deadline or the runtime ended first.  -EAGAIN is reported when
 * there is no thread of the executor and none can be made.
 *
 * A task that is cancelled calls back when the kernel has let go of its memory, and not before.
 * An operation that has not begun does not begin.  One that has begun may be completed first:
 * weir_file_count says how much of it was done.  A disk cannot be hurried, so that may take as long
 * as the operation.  docs/files.md has more. */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/task.h>

WEIR_BEGIN

/* An open file.  It lives as long as anybody has a reference.  The last one closes it. */
typedef struct weir_file weir_file;

/* -- open and close -- */

/* Makes a task that opens a file, as open(2) does.  `mode` matters when a file is made.  The
 * descriptor gets O_CLOEXEC.  It is opened with O_NONBLOCK, which is cleared afterwards.  So a FIFO
 * does not wait for its other end: -ENXIO if nobody reads what is to be written.
 *
 * Owner:   the caller, until the task is consumed.  The path is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL path the start reports
 *          -EINVAL.
 * Threads: any. */
WEIR_API weir_task *weir_file_open_new(const char *path, int flags, unsigned mode, weir_task_fn *done, void *context);

/* The file that such a task has opened.
 *
 * Owner:   the reference is the caller's.  A file that nobody takes is closed.
 * Result:  NULL if the status is not 0, when it was taken, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API weir_file *weir_file_open_take(weir_task *open);

/* Makes a file of a descriptor: a file, a directory, a pipe, a terminal.  Tasks wait for a pipe also
 * if the descriptor has O_NONBLOCK.
 *
 * Owner:   the caller has a reference.  The descriptor belongs to the file, unless the result is
 *          NULL.
 * Result:  NULL with errno EBADF or ENOMEM.
 * Threads: any. */
WEIR_API weir_file *weir_file_of(int descriptor);

/* Takes and drops a reference.  Tasks have their own.  The last unref closes the descriptor: at
 * once on a thread of the program, soon on a thread of the library.  An error of close(2) is lost
 * then; weir_file_close_new reports it.  Both accept NULL.
 *
 * Threads: any.  unref may block on a thread of the program. */
WEIR_API weir_file *weir_file_ref(weir_file *file);
WEIR_API void weir_file_unref(weir_file *file);

/* Makes a task that closes the descriptor, also while others have references.  Once it has begun, other tasks of
 * the file end with -EBADF.  A task that is started just behind it may still be first.
 *
 * Owner:   the caller, until the task is consumed.  The references stay.
 * Result:  NULL when out of memory.  The start reports -EBADF for a NULL file.  The task's status:
 *          -EBUSY while another task of the file is under way: nothing is closed then.
 *          After -EIO, -EDQUOT and the like it is closed.  Once it has begun the close is not
 *          cancelled.
 * Threads: any. */
WEIR_API weir_task *weir_file_close_new(weir_file *file, weir_task_fn *done, void *context);

/* The descriptor, for other calls of the system.
 *
 * Owner:   the file; do not close it.
 * Result:  -EBADF for NULL, and once the file was closed.
 * Threads: any that owns or borrows the file. */
WEIR_API int weir_file_descriptor(const weir_file *file);

/* -- read -- */

/* Makes a task that reads at most `size` bytes at an offset.  It reads fewer only at the end of the
 * file.  A pipe, a terminal or a socket has no offsets: the task reads what is there, and waits for
 * the first byte.
 *
 * Owner:   the caller, until the task is consumed.  The task has the memory, from its start on, and
 *          lends it to its callback: weir_file_data.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The start reports -EBADF for a
 *          NULL file and -EINVAL for a negative offset.  0 bytes with the status 0 is the end of
 *          the file.
 * Threads: any.
 * Units:   bytes. */
WEIR_API weir_task *weir_file_read_new(weir_file *file, int64_t offset, size_t size, weir_task_fn *done, void *context);

/* The same into memory of the caller, and into several parts of it.
 *
 * Owner:   the task borrows the memory until its callback begins.  The array of parts is copied; it
 *          has 0 to 1024.
 * Result, Threads, Units: as for weir_file_read_new.  The start reports -EINVAL for NULL with a
 *          size, and for a wrong number of parts. */
WEIR_API weir_task *weir_file_read_into_new(weir_file *file, int64_t offset, void *memory, size_t size, weir_task_fn *done,
                                            void *context);
WEIR_API weir_task *weir_file_readv_new(weir_file *file, int64_t offset, const struct iovec *parts, size_t count,
                                        weir_task_fn *done, void *context);

/* What a weir_file_read_new has read, of that many bytes.  It may be changed in place.
 *
 * Owner:   borrowed until the callback returns.
 * Result:  not NULL, also for 0 bytes; NULL for another kind of task.  *size is unchanged then.
 * Threads: inside the task's callback. */
WEIR_API void *weir_file_data(const weir_task *read, size_t *size);

/* How many bytes a task has read or written, whatever its status is; how many entries a list has.
 *
 * Result:  0 for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API size_t weir_file_count(const weir_task *task);

/* -- write -- */

/* Makes a task that writes all of the data at an offset.  It goes on after a short write, until all
 * is written or a write fails: weir_file_count says how much was written before.  The data is in
 * the page cache then.  weir_file_sync_new brings it to the disk.
 *
 * weir_file_write_new copies the data.  The other two borrow it, which pays from some kilobytes on.
 *
 * Owner:   the caller, until the task is consumed.  Data that is not copied is borrowed until the
 *          callback begins.  The array of parts is copied; it has 0 to 1024.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The start reports -EBADF for a
 *          NULL file; -EINVAL for a negative offset, for NULL with a size, and for a wrong number
 *          of parts.
 * Threads: any.  Two tasks that write the same bytes write them in no particular order, unless they
 *          are in one series.
 * Units:   bytes. */
WEIR_API weir_task *weir_file_write_new(weir_file *file, int64_t offset, const void *data, size_t size, weir_task_fn *done,
                                        void *context);
WEIR_API weir_task *weir_file_write_from_new(weir_file *file, int64_t offset, const void *data, size_t size,
                                             weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_writev_new(weir_file *file, int64_t offset, const struct iovec *parts, size_t count,
                                         weir_task_fn *done, void *context);

/* The same at the end of the file, wherever that is, also if the file was opened without O_APPEND.
 * The bytes of one task stay together, unless the system writes only a part of them, as on a full
 * disk.
 *
 * Owner, Result, Threads, Units: as for weir_file_write_new, which copies, and
 *          weir_file_writev_new. */
WEIR_API weir_task *weir_file_append_new(weir_file *file, const void *data, size_t size, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_appendv_new(weir_file *file, const struct iovec *parts, size_t count, weir_task_fn *done,
                                          void *context);

/* -- in a fiber (weir/fiber.h) -- */

/* Opens a file, as weir_file_open_new does, and waits until that is done.
 *
 * Owner:   the reference is the caller's; NULL if the result is not 0.
 * Result:  0; as weir_file_open_new and its status, and as weir_await.
 * Threads: as weir_await: a fiber, or a thread of the program, which waits. */
WEIR_API int weir_fiber_open(const char *path, int flags, unsigned mode, weir_file **file);

/* Reads at an offset, as pread(2) does, and writes all of the data there.
 *
 * Owner:   the memory and the data are borrowed during the call, and not copied.
 * Result:  of the read: how many bytes were read, fewer than `size` only at the end of the file, and
 *          with a pipe and the like; of the write 0.  Otherwise as weir_file_read_into_new,
 *          weir_file_write_from_new and their status, and as weir_await.
 * Threads: as weir_fiber_open.
 * Units:   bytes. */
WEIR_API ssize_t weir_fiber_pread(weir_file *file, int64_t offset, void *memory, size_t size);
WEIR_API int weir_fiber_pwrite(weir_file *file, int64_t offset, const void *data, size_t size);

/* -- sync and size -- */

/* Makes a task that brings to the disk what was written before its start.  The second one leaves
 * out what is not needed to read the data again, such as times.  After an error the data may be
 * lost, and a later sync may succeed all the same.
 *
 * Owner, Threads: as for weir_file_write_new.
 * Result:  NULL when out of memory.  The start reports -EBADF for a NULL file.  The task's status is
 *          -EINVAL for a pipe and the like.
 * Source:  fsync(2), fdatasync(2). */
WEIR_API weir_task *weir_file_sync_new(weir_file *file, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_sync_data_new(weir_file *file, weir_task_fn *done, void *context);

/* Makes a task that cuts the file, or lengthens it by zeros.
 *
 * Owner, Threads, Units: as for weir_file_write_new.
 * Result:  NULL when out of memory.  The start reports -EBADF for a NULL file and -EINVAL for a
 *          negative size. */
WEIR_API weir_task *weir_file_truncate_new(weir_file *file, int64_t size, weir_task_fn *done, void *context);

/* -- names and directories -- */

/* Makes a task that looks at a file: by its path or as it is open.  With `follow` false a symbolic
 * link is looked at itself.
 *
 * Owner:   the caller, until the task is consumed.  Paths are copied, here and below.
 * Result:  NULL when out of memory.  The start reports -EBADF for a NULL file, and -EINVAL for a NULL
 *          path, here and below.
 * Threads: any. */
WEIR_API weir_task *weir_file_stat_new(const char *path, bool follow, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_stat_open_new(weir_file *file, weir_task_fn *done, void *context);

/* What such a task has seen.
 *
 * Owner:   borrowed until the callback returns.
 * Result:  NULL if the status is not 0, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API const struct stat *weir_file_stat(const weir_task *task);

/* Makes a task that lists a directory, without "." and "..", in the order of the file system.
 *
 * Owner, Result, Threads: as for weir_file_stat_new. */
WEIR_API weir_task *weir_file_list_new(const char *path, weir_task_fn *done, void *context);

/* The name of an entry of the list; weir_file_count says how many there are.  *type is DT_REG,
 * DT_DIR and so on, or DT_UNKNOWN (readdir(3)); `type` may be NULL.
 *
 * Owner:   borrowed until the callback returns.
 * Result:  NULL if there is no such entry, if the status is not 0, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_file_entry(const weir_task *list, size_t index, unsigned char *type);

/* Make tasks that rename a file, over another one if need be; remove a file; make a directory; and
 * remove an empty one.
 *
 * Owner, Result, Threads: as for weir_file_stat_new.
 * Source:  rename(2), unlink(2), mkdir(2), rmdir(2). */
WEIR_API weir_task *weir_file_rename_new(const char *from, const char *to, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_unlink_new(const char *path, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_mkdir_new(const char *path, unsigned mode, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_file_rmdir_new(const char *path, weir_task_fn *done, void *context);

/* -- how -- */

/* How file tasks reach the system, for logs: "io_uring" or "queue".  A poller that cannot make a
 * ring, because there is no descriptor for instance, uses the queue all the same, and a warning is
 * logged.
 *
 * Owner:   the library; valid for ever.
 * Threads: any.  The first call may ask the system. */
WEIR_API const char *weir_file_backend(void);

WEIR_END

#endif
