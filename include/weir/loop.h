/* weir/loop.h: weir inside a program that has a loop of its own, such as that of GLib or libuv.
 *
 * The workers of weir run beside the loop.  A call is a task whose function runs on the thread of
 * the loop, where it may touch what belongs to that: widgets, handles.  The descriptor of the object
 * is readable while calls wait.  The loop watches it, and then lets them run:
 *
 *     weir_loop *calls = weir_loop_new();
 *     watch(weir_loop_fd(calls), on_calls);                        whatever the loop has for that
 *
 *     void on_calls(void) { weir_loop_run(calls, WEIR_ALL); }
 *
 *     weir_series_push(series, weir_go_new(NULL, compute, NULL, work));       on the executor
 *     weir_series_push(series, weir_loop_call_new(calls, show, NULL, work));  on the thread of the loop
 *
 * The thread of the loop may start, push, cancel and post, as any thread.  It must not wait for a
 * flow, because nothing else happens in the loop then. */
#ifndef WEIR_LOOP_H
#define WEIR_LOOP_H

#include <stddef.h>

#include <weir/go.h>
#include <weir/task.h>

WEIR_BEGIN

/* Where calls wait for the thread of a loop. */
typedef struct weir_loop weir_loop;

/* Makes one.  It has a descriptor.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno ENOMEM, EMFILE or ENFILE (no descriptor is left), ECHILD in a forked
 *          child.  Every function that takes a loop accepts NULL.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_loop *weir_loop_new(void);

/* Takes and drops a reference.  Calls have their own.  The last one closes the descriptor: so the
 * loop stops watching it before.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_loop *weir_loop_ref(weir_loop *loop);
WEIR_API void weir_loop_unref(weir_loop *loop);

/* The descriptor that is readable while calls wait.  It may be readable once although all of them
 * were cancelled.  It suits loops that watch levels, and those that watch edges.
 *
 * Owner:   the object's: nobody else reads, writes or closes it.
 * Result:  the descriptor; -ENOMEM for NULL.
 * Threads: any. */
WEIR_API int weir_loop_fd(const weir_loop *loop);

/* Runs the functions of calls that wait now, at most `most` of them, in the order of their starts;
 * WEIR_ALL is no limit.  Calls that come meanwhile are left for the next time, and so are those
 * beyond `most`: the descriptor stays readable.
 *
 * Result:  how many have run; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: that of the loop.  One call of it runs at a time, or one inside a function of another. */
WEIR_API int weir_loop_run(weir_loop *loop, size_t most);

/* Makes a task that calls `function` with the context inside weir_loop_run.  The task ends when the
 * function has returned.  Its callback runs on a worker, as that of any task.
 *
 * A loop that stands still delays its calls, and no other task.  On the virtual clock time does not
 * wait for calls: a test runs the loop between its steps, or holds the clock.
 *
 * The function may call most of the library, but not functions that wait (-EDEADLK).
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL loop the task's start,
 *          run or push reports -ENOMEM, without a function -EINVAL.  The task's status: 0;
 *          -ECANCELED when its series was cancelled, -ETIMEDOUT at the deadline of its series: the
 *          function was not called, unless it had begun; -ESHUTDOWN when a shutdown found it
 *          waiting.
 * Threads: any. */
WEIR_API weir_task *weir_loop_call_new(weir_loop *loop, weir_go_fn *function, weir_task_fn *done, void *context);

WEIR_END

#endif
