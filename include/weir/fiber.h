/* weir/fiber.h: flows written as they are read.
 *
 * A fiber is a task whose work is a function on a stack of its own.  The function awaits other
 * tasks, one after the other, and goes on with their results:
 *
 *     static int
 *     fetch(void *context)
 *     {
 *             weir_task *get = weir_http_get_new("http://127.0.0.1:8080/", NULL, NULL);
 *             int err = weir_await(get);        other work runs meanwhile on this thread
 *
 *             if (!err)
 *                     err = weir_fiber_sleep(WEIR_SEC(1));
 *             return err;                       the status of the fiber
 *     }
 *
 *     int err = weir_task_run(weir_fiber_new(fetch, NULL, NULL));
 *
 * A fiber is a task like any other: it stands in series, parallels, races and graphs, under retries
 * and timeouts.  The tasks that it awaits run within the fiber's series.  So a cancel, a deadline and
 * a shutdown that end the fiber also end these tasks.  After that each await of the fiber returns
 * -ECANCELED, -ETIMEDOUT or -ESHUTDOWN at once, until the function returns.
 *
 * The most frequent tasks have calls of their own: below, for streams in weir/stream.h (weir_fiber_read,
 * weir_fiber_write), for files in weir/file.h (weir_fiber_pread, weir_fiber_pwrite) and for HTTP in
 * weir/http_client.h (weir_fiber_http_get).
 *
 * Between two awaits a fiber runs as a callback does: on a worker, or on a thread of the executor
 * after a function.  It must not block there, or it announces that by weir_blocking_begin, and ends
 * the announcement before the next await.  It may go on on another thread after each await.  So it
 * holds no mutex of the system over an await, and keeps no address of a thread-local variable, unless
 * it is pinned to a thread.  This header replaces errno by a call that finds the errno of the present
 * thread. */
#ifndef WEIR_FIBER_H
#define WEIR_FIBER_H

#include <errno.h>
#include <stdbool.h>

#include <weir/channel.h>
#include <weir/counter.h>
#include <weir/go.h>
#include <weir/guard.h>
#include <weir/pool.h>
#include <weir/select.h>
#include <weir/semaphore.h>
#include <weir/task.h>
#include <weir/time.h>
#include <weir/waitgroup.h>

WEIR_BEGIN

/* The function of a fiber.  Its result is the status of the fiber: 0, or a negative errno. */
typedef int weir_fiber_fn(void *context);

/* Makes a fiber.  `name` is shown in dumps, traces and messages; it is not copied.  weir_fiber_new
 * gives the name of the function.
 *
 * The stack is taken when the fiber begins, and given back when the function has returned.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without a function the task
 *          reports -EINVAL when it is started or pushed.  The task's status: what the function has
 *          returned; -ERANGE, if that was above 0; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN, if the
 *          fiber ended early and the function has returned 0 or was not called; the same whatever it
 *          has returned, if a series around the fiber was cancelled or is over its deadline.  Without
 *          a stack, so that the function was not called: -ENOMEM; -EAGAIN, the kernel allows no more
 *          guards; -ENOTSUP, the thread has a shadow stack.  The log has said the last two.
 * Threads: any. */
WEIR_API weir_task *weir_fiber_new_as(const char *name, weir_fiber_fn *function, weir_task_fn *done, void *context);
#define weir_fiber_new(function, done, context) weir_fiber_new_as(#function, function, done, context)

/* Inside the callback of a task, as the last thing that it does: the rest of the callback is a
 * fiber.  It goes on in the series of the task, before all that is queued there.  In the handler of
 * a server the series is the exchange's: the reply waits for the fiber, which may use the exchange.
 *
 * The function begins before the call returns, if the task has no series yet, and the call returns
 * when the function first waits or ends.  Otherwise it begins behind the callback.
 *
 * Owner:   the task stays borrowed; an exchange as long as the fiber runs.
 * Result:  0; -ENOMEM, also for NULL; -EINVAL without a function; -EAGAIN or -ENOTSUP when there is
 *          no stack; an error of weir_series_push.  Then the function is not called.
 * Threads: inside the callback of the task. */
WEIR_API int weir_fiber_begin_as(const char *name, weir_task *task, weir_fiber_fn *function, void *context);
#define weir_fiber_begin(task, function, context) weir_fiber_begin_as(#function, task, function, context)

/* Awaits a task: starts it within the fiber's series, and returns at its end, behind its callback.
 * Tasks that this callback has pushed into its series run before the next task that the fiber awaits.
 * Of a ticker the end is awaited, and not a tick.
 *
 * On a thread of the program it is weir_task_run.
 *
 * Owner:   consumes the task, also on failure.  In a fiber it is borrowed until the next await, or
 *          until the fiber ends, so its results can be read; also after a failure.  NULL is not.
 * Result:  the status of the task; -ENOMEM for NULL; the error that the task was made with;
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN when the fiber ends early: then the task was not
 *          started, or it has ended early.  On a thread of the program as weir_task_run.  -EDEADLK
 *          where nothing can be awaited: in a callback, and in a function that the library calls
 *          before it returns to the fiber, such as a free function, a visitor or a log function.
 *          The task is dismissed then.
 * Threads: any; in a fiber, outside of weir_blocking_begin and weir_blocking_end. */
WEIR_API int weir_await(weir_task *task);

/* Awaits a task for at most `limit`.  When the limit comes the task ends early, as by the deadline
 * of its series; the fiber goes on.  With a limit of 0 or less that is at once.  weir_series_time_left
 * within the task does not count the limit; weir_timeout_new around the task is a deadline that it counts.
 *
 * Owner:   as for weir_await.
 * Result:  as for weir_await; -ETIMEDOUT at the limit.  With a limit of 0 or less the error that the
 *          task was made with, and why the fiber ends early, come before -ETIMEDOUT.
 * Units:   nanoseconds.
 * Threads: a fiber; elsewhere -EDEADLK, and the task is dismissed. */
WEIR_API int weir_await_within(weir_task *task, weir_nsec limit);

/* Sleeps.
 *
 * Result:  0; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN when the fiber ends early; -ENOMEM, at the first
 *          wait of a fiber of weir_fiber_begin; -EDEADLK outside of a fiber.
 * Units:   nanoseconds.
 * Threads: a fiber. */
WEIR_API int weir_fiber_sleep(weir_nsec duration);

/* Lets other work of this worker run first.  A fiber that was cancelled, or is over its deadline,
 * goes on at once.
 *
 * Result:  as for weir_fiber_sleep.
 * Threads: a fiber. */
WEIR_API int weir_fiber_yield(void);

/* Receives a message from a channel, or sends one, and waits as long as that takes: as
 * weir_channel_receive_new and weir_channel_send_new do, without a task.
 *
 * Owner:   receive: the caller, the message.  send: the channel, the message, if the result is 0;
 *          else it is the caller's still.
 * Result:  0; -EPIPE when the channel is closed, and for receive also empty; -ENOMEM; -ENOMEM for a
 *          NULL channel; -ECHILD in a forked child; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN when the
 *          fiber ends early; -EDEADLK outside of a fiber.
 * Threads: a fiber. */
WEIR_API int weir_fiber_receive(weir_channel *channel, void **message);
WEIR_API int weir_fiber_send(weir_channel *channel, void *message);

/* A case of weir_fiber_select: one of the two channels is set.
 *
 *     struct weir_case cases[] = {{.receive = stop}, {.receive = input, .is_off = is_full}};
 *     int winner = weir_fiber_select(cases, 2); */
struct weir_case {
        weir_channel *receive; /* the channel from which it receives */
        weir_channel *send;    /* the channel to which it sends */
        void *message;         /* to be sent; of a winner that receives: what it has received, or NULL */
        bool is_off;           /* it never wins, so the others keep their indexes */
        int status;            /* of the winner: 0; -EPIPE: its channel is closed; -ENOMEM: no memory to store its message */
};

/* Waits at several channels, and does the first operation that is possible, as weir_select_new does:
 * if several are possible, the first in the array.  An operation that is possible at once needs no
 * task.  The second function waits for at most `limit`.  With 0 or less it only looks, as with a default case.
 *
 * Owner:   the array is borrowed during the call.  The message of a winner with status 0 is the
 *          channel's if it was sent, and the caller's if it was received.  All other messages that
 *          were to be sent stay the caller's.  A message may be in several cases, and is sent once.
 * Result:  the index of the winner, whose case has its status; -EINVAL: no case that can win, or
 *          one with two channels; -E2BIG for more than WEIR_SELECT_MAX cases; -ENOMEM, also for a
 *          case that has no channel and is not off; -ETIMEDOUT at the limit; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN when the fiber ends early; -ECHILD in a forked child; -EDEADLK
 *          outside of a fiber.  Without a winner no case has changed.
 * Units:   nanoseconds.
 * Threads: a fiber. */
WEIR_API int weir_fiber_select(struct weir_case *cases, size_t count);
WEIR_API int weir_fiber_select_within(struct weir_case *cases, size_t count, weir_nsec limit);

/* Acquires a guard for the fiber, which holds it until weir_fiber_release or until the fiber ends.
 *
 * Result:  acquire: the status of weir_guard_acquire_new; -EDEADLK also outside of a fiber.
 *          release: as weir_guard_release; -EDEADLK outside of a fiber.
 * Threads: a fiber. */
WEIR_API int weir_fiber_acquire(weir_guard *guard);
WEIR_API int weir_fiber_release(weir_guard *guard);

/* Acquires tokens of a semaphore.  Those that are free are taken without a task.  Unlike a guard they
 * are not the fiber's: the program gives them back by weir_semaphore_release.
 *
 * Owner:   if the result is 0, the tokens must be given back.  Otherwise none were taken.
 * Result:  as the start and the status of weir_semaphore_acquire_new; -ECHILD in a forked child;
 *          -EDEADLK outside of a fiber.
 * Threads: a fiber. */
WEIR_API int weir_fiber_acquire_tokens(weir_semaphore *semaphore, uint64_t tokens);

/* Takes an object out of a pool.  One that is there is taken without a task.
 *
 * Owner:   if the result is 0, the object is the caller's; weir_pool_put puts it back.
 *          Otherwise it is NULL.
 * Result:  as the start and the status of weir_pool_take_new; -EDEADLK outside of a fiber.
 * Threads: a fiber. */
WEIR_API int weir_fiber_take(weir_pool *pool, void **object);

/* Waits until a counter has reached its target.
 *
 * Result:  as the start and the status of weir_counter_wait_new; -EDEADLK outside of a fiber.
 * Threads: a fiber. */
WEIR_API int weir_fiber_wait(weir_counter *counter);

/* Waits until the count of a waitgroup comes to zero, for at most `limit`, as weir_waitgroup_wait does.
 * In a fiber the thread does other work meanwhile.  On a thread of the program it is weir_waitgroup_wait.
 * For children of the fiber a weir_group needs no count.
 *
 * Owner:   when it has returned 0, the group may be freed, as after weir_waitgroup_wait.
 * Result:  as weir_waitgroup_wait; in a fiber also -ENOMEM, there is no memory to wait, and -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN when the fiber ends early.
 * Units:   nanoseconds; WEIR_FOREVER is no limit.
 * Threads: any but workers, and fibers. */
WEIR_API int weir_fiber_wait_done(weir_waitgroup *group, weir_nsec limit);

/* Runs a function on the executor and awaits its end.
 *
 * Result:  0, or the status of weir_go_fail; as weir_go_new.
 * Threads: a fiber; on a thread of the program the function runs on the executor, too. */
WEIR_API int weir_fiber_go(weir_go_fn *function, void *context);

/* The series of the fiber: what it awaits runs in it.  By it the fiber gets a name, a deadline, and
 * a look at its status; by its name the fiber can be cancelled.
 *
 * Owner:   borrowed until the function returns; weir_series_ref keeps it.
 * Result:  NULL outside of a fiber.
 * Threads: a fiber. */
WEIR_API weir_series *weir_fiber_series(void);

/* Between shield(true) and shield(false) the awaits of the fiber ignore its cancel and its deadline:
 * for what must be cleaned up.  A shutdown they do not ignore.  Shields may be nested.
 *
 * Result:  0; -ENOMEM: there is no shield; -EOVERFLOW: 255 were begun and not ended; -EDEADLK outside
 *          of a fiber, and for an end without a begin.
 * Threads: a fiber. */
WEIR_API int weir_fiber_shield(bool on);

/* Between pin(true) and pin(false) the fiber runs on a thread of its own: the same one behind each
 * await, and the same one in each such part of the fiber.  It is for libraries that keep something in
 * thread-local variables, or that want to be called by one thread.  On that thread nothing else runs.
 * So what belongs to it stays as it was left.  It ends with the fiber.  Pins may be nested.
 *
 * The call changes the thread at once, and is no await.  A stretch of a pinned fiber costs two switches
 * of threads, and a pinned fiber the memory of a thread.
 *
 * Result:  0; -ENOMEM, or -EAGAIN: there is no other thread, and the fiber is not pinned; -EDEADLK
 *          outside of a fiber, and for an end without a begin.
 * Threads: a fiber, outside of weir_blocking_begin and weir_blocking_end. */
WEIR_API int weir_fiber_pin(bool on);

/* -- groups: children beside the fiber -- */

/* A group of tasks that a fiber runs beside itself.  They are within the series of the fiber: they
 * have its deadline, and end early with it.  No child outlives its group, and no group its fiber.
 *
 *     weir_group *group = weir_group_open();
 *     for (int i = 0; i < 3; i++)
 *             weir_group_start(group, weir_fiber_new(ask, NULL, &backends[i]));
 *     int err = weir_group_close(group);        waits for all three */
typedef struct weir_group weir_group;

/* Opens a group.  A fiber may have several.
 *
 * Owner:   the fiber closes it.  When its function returns, the children of a group that is still
 *          open are cancelled, and the fiber ends when they have ended.
 * Result:  NULL with errno ENOMEM, or EDEADLK outside of a fiber.  The functions below accept NULL.
 * Threads: a fiber. */
WEIR_API weir_group *weir_group_open(void);

/* Starts a child.  The call does not wait.
 *
 * Owner:   consumes the task, also on failure.
 * Result:  0: the task will call back; -ENOMEM, also for a NULL group or task; the error that the
 *          task was made with; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN when the group or the fiber
 *          ends early: the task was dismissed.
 * Threads: the fiber that has opened it, and its children. */
WEIR_API int weir_group_start(weir_group *group, weir_task *task);

/* The first child that fails cancels the others.  Accepts NULL.
 *
 * Threads: as weir_group_start. */
WEIR_API void weir_group_stop_on_failure(weir_group *group);

/* Cancels all children, and refuses more.  Accepts NULL.
 *
 * Threads: as weir_group_start. */
WEIR_API void weir_group_cancel(weir_group *group);

/* Waits until all children have ended, and frees the group.  It waits for them also if the fiber
 * ends early; they end early, too, then.
 *
 * Owner:   consumes the group, unless the result is -EPERM.
 * Result:  0, or the status of the child that failed first; -ENOMEM for NULL; -EPERM on anything but
 *          the fiber that has opened it.
 * Threads: the fiber that has opened it. */
WEIR_API int weir_group_close(weir_group *group);

/* Whether this is a fiber.  A function that the library calls before it returns to a fiber is none. */
WEIR_API bool weir_fiber_is_running(void);

/* Where errno is on the thread that runs now.  Unlike the function of the C library it is not
 * declared as one whose result stays the same, so the compiler asks again after an await.
 *
 * Result:  never NULL.
 * Threads: any. */
WEIR_API int *weir_errno_location(void);
#undef errno
#define errno (*weir_errno_location())

/* Statistics of fibers and their stacks. */
struct weir_fiber_stats {
        size_t running;      /* fibers that have begun and not ended */
        size_t stacks;       /* stacks there are, in use and free ones */
        size_t stack_size;   /* usable bytes of each */
        size_t stacks_most;  /* the limit of the kernel without guard installation; 0: there is none */
};

/* Fills in the statistics.
 *
 * Result:  0; -EINVAL for NULL.
 * Threads: any. */
WEIR_API int weir_fiber_stats(struct weir_fiber_stats *stats);

WEIR_END

#endif
