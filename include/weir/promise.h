/* weir/promise.h: a task of one's own: code outside the library says when it ends.
 *
 * A library that calls back becomes a task so.  Its callback, on any thread, ends the promise.  The
 * promise ends once: by weir_promise_end, by a cancel or a deadline of its series, or by shutdown.
 * The first of these decides, and the others learn that they came too late.
 *
 *     weir_task *promise = weir_promise_new(stop_asking, done, context);
 *     if (ask(question, on_answer, weir_promise_ref(promise)) < 0)   a library that calls back
 *             ...                                                    docs/own-tasks.md
 *
 *     weir_promise_end(promise, status);                             inside on_answer
 *     weir_promise_unref(promise); */
#ifndef WEIR_PROMISE_H
#define WEIR_PROMISE_H

#include <weir/task.h>

WEIR_BEGIN

/* Tells the other code that nobody waits for it any more.  It is called at most once, on a worker,
 * with the context of the promise: if the promise was started, and a cancel, a deadline or a
 * shutdown has decided its end.  weir_task_status(promise) says which one.
 *
 * It returns before the callback of the promise begins.  So the context is there as long as it
 * runs.  A function that waits until the other code has let the context go makes the callback and
 * weir_task_on_free a safe place to free it.  As any callback, it should not block for long.
 *
 * A promise that never starts has no cancel function and no callback.  Only its free function is
 * called. */
typedef void weir_promise_cancel_fn(weir_task *promise, void *context);

/* Makes a task that ends when weir_promise_end is called for it.  `cancel` may be NULL.
 *
 * Owner:   the caller, until the task is consumed.  weir_promise_ref keeps it for the other code.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: that of
 *          weir_promise_end; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once
 *          weir_promise_end has decided, the status stays, even if the series is cancelled before
 *          the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_promise_new(weir_promise_cancel_fn *cancel, weir_task_fn *done, void *context);

/* Ends the promise.  Its callback runs on a worker, never inside this call.  An end before the
 * start counts: the task ends as soon as it is started.  Everything before the call happens before
 * the callback.
 *
 * Result:  0: this call has decided, and the callback will see the status, unless the task is never
 *          started;
 *          -EALREADY: another call, a cancel, a deadline or a shutdown was first, or the task was
 *            dismissed, refused or dropped;
 *          -EINVAL for NULL and for a status above 0; -EDOM for a task of another kind; -ECHILD in
 *            a forked child.
 * Threads: any that owns or borrows the promise or has a reference, also inside its cancel function
 *          and after its callback.  Never blocks. */
WEIR_API int weir_promise_end(weir_task *promise, int status);

/* The same with a value for the callback.  `drop` gets the value if nobody takes it; it may be NULL
 * and is not called for a NULL value.  It runs behind the callback, or on the thread that drops the
 * promise.
 *
 * Owner:   the value is given away if the result is 0; otherwise it stays the caller's.
 * Result, Threads: as for weir_promise_end. */
WEIR_API int weir_promise_end_with(weir_task *promise, int status, void *value, weir_free_fn *drop);

/* The same for work that is done with the promise: its reference goes with the end, which costs less
 * than a weir_promise_unref behind it.  The promise, and what it has of its own, may be gone then.
 *
 * Owner:   the reference is given up, unless the result is -EINVAL or -EDOM; the value as above.
 * Result:  as for weir_promise_end.
 * Threads: any that has a reference.  Never blocks. */
WEIR_API int weir_promise_finish(weir_task *promise, int status, void *value, weir_free_fn *drop);

/* The value that the promise was ended with.
 *
 * Owner:   weir_promise_value: borrowed until the callback returns; then the value is dropped.
 *          weir_promise_take_value: the value is yours.
 * Result:  NULL when there is none or it was taken, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API void *weir_promise_value(const weir_task *promise);
WEIR_API void *weir_promise_take_value(weir_task *promise);

/* Takes and drops a reference.  With a reference weir_promise_end may be called also after the end
 * of the task.  A reference keeps the memory of the task, not its context.  Both accept NULL.
 *
 * Result:  the promise.  Another kind of task aborts with the reason.
 * Threads: ref: any that owns or borrows the promise or has a reference.  unref: any. */
WEIR_API weir_task *weir_promise_ref(weir_task *promise);
WEIR_API void weir_promise_unref(weir_task *promise);

/* Says what the promise waits for, in dumps and traces, such as "GET https://example.org/".  The
 * text is copied; behind WEIR_PROMISE_LABEL_MAX bytes it is cut.
 *
 * Result:  0; -EINVAL for NULL; -EBUSY once the task was consumed; -EDOM for a task of another
 *          kind; -ECHILD in a forked child.
 * Threads: where the promise is yours. */
#define WEIR_PROMISE_LABEL_MAX 60
WEIR_API int weir_promise_set_label(weir_task *promise, const char *label);

/* -- kinds: for libraries whose tasks begin something when they start -- */

/* A function of a kind.  `own` is what the promise has of its own: its arguments, its state, its result. */
typedef void weir_promise_fn(weir_task *promise, void *own);

/* Writes what dumps and traces say behind the label, in less than `room` bytes with the NUL.  It is called behind
 * the begin function, on any thread, while the work goes on or has just ended the promise.  Locks of the library
 * are held: it calls no function of it, and waits for nothing. */
typedef void weir_promise_describe_fn(const void *own, char *text, size_t room);

/* What the tasks of a library have in common.  It must stay as it is while there are such tasks: make it
 * static.  All but the size may be NULL. */
struct weir_promise_kind {
        size_t size;                        /* sizeof(struct weir_promise_kind) */
        weir_promise_fn *begin;             /* the task starts: called once by the thread that starts it, before the task
                                               can end, also if it was cancelled just before.  It must not block: it gives
                                               the work to another thread.  It gets a reference, for the work, which drops
                                               it by weir_promise_finish or weir_promise_unref */
        weir_promise_fn *cancel;            /* nobody waits any more; as weir_promise_cancel_fn, with `own` */
        weir_promise_describe_fn *describe; /* for dumps and traces */
        weir_free_fn *free;                 /* the last reference is gone: frees `own` */
};

/* Makes a promise of a kind.
 *
 * Owner:   the caller, until the task is consumed.  It takes `own`, also when it returns NULL.
 * Result:  NULL when out of memory: `own` is freed.  For a wrong kind the task's start, run or push
 *          reports -EINVAL.  The task's status: as for weir_promise_new.
 * Threads: any. */
WEIR_API weir_task *weir_promise_new_of(const struct weir_promise_kind *kind, void *own, weir_task_fn *done, void *context);

/* What a task of that kind has of its own.
 *
 * Owner:   borrowed as long as the task is, or a reference is there.
 * Result:  NULL for NULL, and for any other task.
 * Threads: where the task is yours or borrowed, or with a reference. */
WEIR_API void *weir_promise_own(const weir_task *task, const struct weir_promise_kind *kind);

/* The work comes to a point of no return, such as a commit: from now on only weir_promise_end ends the
 * promise.  A cancel, a deadline and a shutdown wait for that end, and the callback sees its status.
 *
 * Owner:   a promise that is held must be ended: its series and a shutdown wait for it.  One that was
 *          not started can still be dismissed, or dropped with its series; then its end is -EALREADY.
 * Result:  0: this call has decided; -EALREADY: it was held or ended before, or a cancel, a deadline or a
 *          shutdown was first, or it was dismissed, refused or dropped: the work must be undone;
 *          -EINVAL for NULL; -EDOM for a task of another kind; -ECHILD in a forked child.
 * Threads: any that has a reference, from the begin function on.  Never blocks. */
WEIR_API int weir_promise_hold(weir_task *promise);

/* Whether a promise that is held should end soon.
 *
 * Result:  0; -ECANCELED, -ETIMEDOUT or another status: why its series ends early; -ECANCELED also if
 *          it was dismissed or dropped before its start; -ESHUTDOWN during a shutdown; -EINVAL, -EDOM
 *          and -ECHILD as weir_promise_hold.
 * Threads: between weir_promise_hold and weir_promise_end. */
WEIR_API int weir_promise_cancelled(const weir_task *promise);

WEIR_END

#endif
