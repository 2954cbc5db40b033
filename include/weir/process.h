/* weir/process.h: tasks that run another program.
 *
 *     weir_task_start(weir_command_new(done, NULL, "gzip", "-c", path, NULL));
 *
 *     static void
 *     done(weir_task *process, void *context)
 *     {
 *             size_t size;
 *             const char *packed = weir_process_output(process, &size);
 *
 *             if (weir_task_status(process) != 0)
 *                     complain(weir_strerror(weir_task_status(process)));
 *             ...
 *     }
 *
 * No shell is involved: each argument reaches the program as it is.  The task ends when the program
 * has ended.  Setters change what the program gets; they come before the task is consumed:
 *
 *     const char *const argv[] = {"sort", "-u", NULL};
 *     weir_task *sort = weir_process_new(argv, done, context);
 *     weir_process_set_input(sort, text, size);
 *     weir_process_set_environment(sort, "LC_ALL", "C");
 *     weir_process_set_directory(sort, "/tmp");
 *     weir_task_start(sort);
 *
 * By default the program reads nothing (/dev/null), its output is collected, up to a megabyte, and it
 * has the caller's standard error and environment.  It has no other descriptor.  Pipes that are read
 * and written while it runs are streams: weir_process_open_pipe.
 *
 * A setter that is given a wrong value, or that runs out of memory, leaves it to the start to report
 * that.  So a process is built in a straight line.  docs/processes.md explains it all. */
#ifndef WEIR_PROCESS_H
#define WEIR_PROCESS_H

#include <sys/types.h>

#include <weir/runtime.h>
#include <weir/stream.h>
#include <weir/task.h>

WEIR_BEGIN

/* How much output is collected by default, in bytes. */
#define WEIR_PROCESS_OUTPUT (1024 * 1024)

/* The grace period by default: so long after SIGTERM comes SIGKILL. */
#define WEIR_PROCESS_GRACE WEIR_SEC(5)

/* For weir_process_set_fd: /dev/null. */
#define WEIR_PROCESS_NOTHING (-1)

/* The process group of the program. */
enum weir_process_group {
        WEIR_PROCESS_GROUP_OWN = 0,     /* its own, which a cancel ends as a whole: the default */
        WEIR_PROCESS_GROUP_SESSION = 1, /* its own, in a session of its own: it has no terminal */
        WEIR_PROCESS_GROUP_SHARED = 2,  /* the caller's; a cancel ends the program alone */
};

/* Makes a task that runs a program.  `argv` ends with NULL and is copied.  A program without a slash is
 * looked for in the directories of PATH, as the program will have it in its environment.
 *
 * - The program is started by a thread of the executor (weir/go.h).
 * - An early end of the task's series, and a shutdown, send SIGTERM to the program's process group, and
 *   SIGKILL after the grace period.  The callback comes when the program has ended.  The rest of
 *   its group gets SIGKILL just before.
 * - A program that ends by itself leaves the rest of its group alone.  The task does not wait for
 *   others that have inherited its output.
 * - No signal is blocked in the program, and each has its default action.  But one that the caller
 *   ignores is ignored by the program as well, except SIGPIPE.
 * - The library never waits for children of the caller.  A program that waits for all of its children
 *   (wait(2), waitpid(-1)), or ignores SIGCHLD, takes away how this one has ended.
 * - On the virtual clock time stands until the program has ended; the grace period is in real time.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push reports
 *          -EINVAL for a NULL or empty `argv`, and what a setter has found; -EAGAIN or -ENOMEM if the
 *          executor has no thread.  The task's status: 0: the program has exited with 0;
 *          WEIR_EPROCESS_EXIT: with another code; WEIR_EPROCESS_SIGNAL: a signal has ended it;
 *          WEIR_EPROCESS_LOST: it has ended, and somebody else has taken how; -ENOENT, -EACCES,
 *          -ENOEXEC or another error of execve(2), chdir(2), setrlimit(2), with which the program could
 *          not be started; -EAGAIN: there are too many processes; -EMFILE, -ENFILE, -ENOMEM, -ENOSPC:
 *          the system lacks descriptors, memory or room to watch one; -EMSGSIZE: there was more output
 *          than is collected, and the program was ended; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its
 *          series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_process_new(const char *const argv[], weir_task_fn *done, void *context);

/* The same, with the program and its arguments in the call.  The last argument is NULL.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_process_new.
 * Threads: any. */
WEIR_API weir_task *weir_command_new(weir_task_fn *done, void *context, const char *program, ...)
        __attribute__((sentinel));

/* -- what the program gets; before the task is consumed --
 *
 * Each accepts a NULL task, and aborts for a task that is no process or that was consumed. */

/* The directory in which the program starts.  A relative path of the program itself is relative to it.
 * The start reports -EINVAL for NULL or an empty path, -ENOMEM.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_set_directory(weir_task *process, const char *path);

/* Adds or replaces a variable of the environment.  NULL as its value removes it.  All others are those
 * of the caller when the program is started; no thread may change them just then (setenv(3)).  The
 * start reports -EINVAL for a NULL or empty name, or one with '='; -ENOMEM.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_set_environment(weir_task *process, const char *name, const char *value);

/* The program gets no variable but those that are set after this call.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_clear_environment(weir_task *process);

/* A limit of resources, as of setrlimit(2): `resource` is RLIMIT_CPU or the like.  RLIM_INFINITY is no
 * limit.  The start reports -EINVAL for a resource that does not exist, or soft above hard; -ENOMEM.
 *
 * Threads: the task's owner.
 * Units:   those of the resource. */
WEIR_API void weir_process_set_rlimit(weir_task *process, int resource, uint64_t soft, uint64_t hard);

/* The process group.  The start reports -EINVAL for another value.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_set_group(weir_task *process, enum weir_process_group group);

/* How long after SIGTERM comes SIGKILL.  0: SIGKILL at once, without SIGTERM.  WEIR_FOREVER: no
 * SIGKILL, but at exit().  A negative one is 0.
 *
 * Threads: the task's owner.
 * Units:   nanoseconds, in real time. */
WEIR_API void weir_process_set_grace(weir_task *process, weir_nsec grace);

/* The program's descriptor `which` (0, 1 or 2) is a duplicate of `fd`, or /dev/null for
 * WEIR_PROCESS_NOTHING.  So weir_process_set_fd(process, 1, 1) gives it the output of the caller.  The
 * start reports -EINVAL for another `which`, -EBADF, -EMFILE.
 *
 * Owner:   `fd` stays the caller's, and may be closed after the call.
 * Threads: the task's owner. */
WEIR_API void weir_process_set_fd(weir_task *process, int which, int fd);

/* The program reads these bytes as its input, and then the end.  They are copied.  The input is a file
 * in memory, so a program that does not read all of it does no harm.  The start reports -EINVAL for
 * NULL with a size, -ENOMEM.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_set_input(weir_task *process, const void *data, size_t size);

/* Collects what the program writes to its descriptor `which` (1 or 2), up to `limit` bytes.  More ends
 * the program, as a cancel does, and the task's status is -EMSGSIZE.  The start reports -EINVAL for
 * another `which`.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_collect(weir_task *process, int which, size_t limit);

/* Makes a pipe to the program.  The stream is the caller's end of it, and works before the program is
 * started.  `which` is 0: a write to the stream is input of the program, which ends by
 * weir_stream_finish_new or a close of the stream.  1 and 2: the stream reads the program's output
 * or errors.
 *
 * - Use it while the program runs, in another flow.  A program whose output is not read stops when
 *   the pipe is full, and then its task does not end.
 * - A read ends with -EPIPE when neither the program nor another one that has inherited it has the
 *   other end any more.  All that was written before is read first.
 * - A write ends with -EPIPE, without a signal, when no process has the reading end any more.
 * - If the program is never started, or cannot be, the stream is at its end.  The same holds when a
 *   later setter or pipe takes the place of this one.
 * - A cancel of the program's series leaves the stream alone.
 *
 * Owner:   the caller has a reference to the stream: weir_stream_unref.
 * Result:  NULL for a NULL task, or if there is no pipe: the start of the process reports why, -EINVAL
 *          for a `which` that is not 0, 1 or 2, -EMFILE, -ENFILE, -ENOMEM, -ECHILD in a forked child.
 *          Tasks of a NULL stream report that at their start.
 * Threads: the task's owner. */
WEIR_API weir_stream *weir_process_open_pipe(weir_task *process, int which);

/* The program's errors go where its output goes.
 *
 * Threads: the task's owner. */
WEIR_API void weir_process_merge_errors(weir_task *process);

/* -- how it went; in the callback -- */

/* The code with which the program has exited.
 *
 * Result:  0 to 255; -ENODATA if it has not ended so, or nobody knows; -EDOM for another kind of task;
 *          -EINVAL for NULL.
 * Threads: in its callback. */
WEIR_API int weir_process_exit_code(const weir_task *process);

/* The signal that has ended the program.
 *
 * Result:  its number; -ENODATA if none has, or nobody knows; -EDOM for another kind of task; -EINVAL
 *          for NULL.
 * Threads: in its callback. */
WEIR_API int weir_process_signal(const weir_task *process);

/* What was collected of its output, whatever its status.  A NUL follows.  `size` may be NULL.
 *
 * Owner:   the task; valid until its callback returns.
 * Result:  NULL if it is not collected, for another kind of task, and for NULL; *size is 0 then.
 * Threads: in its callback. */
WEIR_API const char *weir_process_output(const weir_task *process, size_t *size);

/* The same of its errors.
 *
 * Owner:   the task; valid until its callback returns.
 * Result:  as weir_process_output.
 * Threads: in its callback. */
WEIR_API const char *weir_process_errors(const weir_task *process, size_t *size);

/* -- while it runs -- */

/* The number of the process, also after its end.
 *
 * Result:  -EAGAIN: it is not started yet, or could not be; -EDOM for another kind of task; -EINVAL for
 *          NULL; -ECHILD in a forked child.
 * Threads: any, while the task is there: until its callback returns. */
WEIR_API pid_t weir_process_pid(const weir_task *process);

/* Sends a signal to the program alone.  It never reaches another process that has got the same number.
 * 0 sends nothing, and tells whether the program runs.
 *
 * Result:  0; -EAGAIN: it is not started yet, or could not be; -ESTALE: it has ended; -EINVAL for a
 *          number that is no signal, and for NULL; -EPERM: the program has another user now; -EDOM for
 *          another kind of task; -ECHILD in a forked child.
 * Threads: any, while the task is there: until its callback returns.  Never blocks. */
WEIR_API int weir_process_kill(weir_task *process, int signal);

WEIR_END

#endif
