/* weir/fd.h: tasks that wait until a descriptor is readable or writable.
 *
 *     weir_fd *input = weir_fd_new(fd);
 *     weir_task_start(weir_fd_readable_new(input, take, NULL));
 *
 *     static void
 *     take(weir_task *readable, void *context)
 *     {
 *             if (weir_task_status(readable) != 0)
 *                     return;
 *             ... read(fd, ...), one time or until EAGAIN ...
 *             weir_task_start(weir_fd_readable_new(input, take, context));      the next time
 *     }
 *
 * So a library that has descriptors of its own becomes a part of a flow: libpq, libcurl, c-ares, and
 * inotify, a serial line or a socket that the program reads itself.  The program reads and writes;
 * weir says when.  Streams (weir/stream.h) do both.
 *
 * Each task looks anew.  If the descriptor is ready at its start, the task ends at once: so a reader
 * that leaves bytes behind is called again.  As with poll(2), a task may end although nothing is
 * there any more, for example if another thread was faster: make the descriptor non-blocking. */
#ifndef WEIR_FD_H
#define WEIR_FD_H

#include <weir/task.h>

WEIR_BEGIN

/* A descriptor that tasks wait for. */
typedef struct weir_fd weir_fd;

/* Makes the object for a descriptor, which stays the program's: the library never reads, writes or
 * closes it.  One object serves all tasks of a descriptor.
 *
 * Owner:   the caller, until weir_fd_forget.
 * Result:  NULL with errno EBADF: the number is negative; ENOMEM; ECHILD in a forked child.  Tasks
 *          of a NULL object fail at their start.  Whether the descriptor is open, and can be waited
 *          for, the first task finds out.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_fd *weir_fd_new(int fd);

/* Gives the object up: call it before close(2).  Tasks that wait end with -EBADF, and so do tasks
 * that were made and are started later.  From the return on, the descriptor may be closed, and its
 * number may be used again.  Accepts NULL.
 *
 * A descriptor that is closed without this call is noticed when another task begins to wait for it,
 * when the same poller begins to watch another file of its number, about 1 second after it was
 * waited for first, and else within 100 seconds.  The tasks end with -EBADF, and the log has an error.
 * On the virtual clock, which has one poller, only the first two happen.  Another file that has got
 * the number is not disturbed.
 *
 * Owner:   takes the object over.
 * Threads: any, also inside callbacks of its tasks.  Never blocks. */
WEIR_API void weir_fd_forget(weir_fd *fd);

/* Has the system go on watching between two waits to read.  It saves a system call for each wait of a
 * program that waits, reads what there is and waits again, as a client of a server does.  The program
 * promises to call weir_fd_forget before it closes the descriptor: no wait finds out any more whether
 * the number belongs to another file by now.  If something comes while no task waits, the system
 * stops watching until the next wait.
 *
 * Result:  0; -EBADF for NULL; -EBUSY: a task was started already.
 * Threads: any. */
WEIR_API int weir_fd_keep(weir_fd *fd);

/* Makes a task that ends when the descriptor has something to read, or when a read would report the
 * end or an error.
 *
 * Several tasks may wait for the same: all of them end when it comes.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL object the task's
 *          start, run or push reports -EBADF.  The task's status: 0: it is readable; -EBADF: the
 *          object was given up, or the descriptor is not open; -EINTR: weir_fd_wake; -EPERM: it
 *          is a regular file, a directory or another file that is always ready (the tasks of
 *          weir/file.h read files); -EEXIST: the descriptor has another weir_fd;
 *          -ENOMEM or -ENOSPC: the system has no room to watch another descriptor; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_fd_readable_new(weir_fd *fd, weir_task_fn *done, void *context);

/* The same for room to write, or for a write that would report an error.  A socket that connects is
 * writable when it has connected or failed.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_fd_readable_new.
 * Threads: any. */
WEIR_API weir_task *weir_fd_writable_new(weir_fd *fd, weir_task_fn *done, void *context);

/* The same for what poll(2) calls POLLPRI: urgent data of a socket, a change of a file in /sys or
 * /proc.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_fd_readable_new.
 * Threads: any. */
WEIR_API weir_task *weir_fd_urgent_new(weir_fd *fd, weir_task_fn *done, void *context);

/* Ends the tasks that wait for the descriptor now, with -EINTR: for example because a library wants
 * to wait for something else.  Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_fd_wake(weir_fd *fd);

WEIR_END

#endif
