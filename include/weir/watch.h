/* weir/watch.h: a value that changes, for many tasks that want to know.
 *
 * A watch has one value, the newest, and its version: 1, 2, 3 and so on.  A task waits for a value
 * that is newer than the version that it knows.  A task that comes late sees the newest value and
 * misses those in between.  With NULL values a watch is a notification that works again and again.
 *
 *     weir_watch_wait_new(watch, seen, on_change, context)     `seen` is 0 at first
 *     config = weir_watch_value(task);                         inside on_change
 *     seen = weir_watch_seen(task); */
#ifndef WEIR_WATCH_H
#define WEIR_WATCH_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A watch.  It lives as long as anybody has a reference. */
typedef struct weir_watch weir_watch;

/* Makes a watch without a value.  `drop` gets each value once, when a newer one has come and no
 * task uses it any more, or when nobody uses the watch.  It may be NULL and is not called for NULL
 * values.  It runs on a worker, or on the thread whose call gave up the value.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a watch accepts NULL.
 * Threads: any. */
WEIR_API weir_watch *weir_watch_new(weir_free_fn *drop);

/* Opens the watch of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX bytes,
 * none of them NUL.  The watch exists, with its value, as long as anybody has a reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name), ENAMETOOLONG, EEXIST (it exists with another
 *          drop), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_watch *weir_watch_open(const char *name, weir_free_fn *drop);

/* Takes and drops a reference.  Tasks that wait have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_watch *weir_watch_ref(weir_watch *watch);
WEIR_API void weir_watch_unref(weir_watch *watch);

/* Sets the value.  All tasks that wait get it, or one that is set soon after it.  Everything before
 * the call happens before their callbacks.
 *
 * Owner:   the value is given away if the result is 0; otherwise it stays the caller's.
 * Result:  0; -EPIPE when the watch is closed; -ENOMEM, also for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_watch_set(weir_watch *watch, void *value);

/* Closes the watch: no other value will come.  Tasks that know the newest one end with -EPIPE, also
 * later ones.  Tasks that do not know it still get it.
 *
 * Result:  0; -EALREADY when it was closed before; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_watch_close(weir_watch *watch);

/* The version of the newest value.  It is out of date at once while others set values.
 *
 * Result:  0 when there is no value, for NULL, and in a forked child.
 * Threads: any. */
WEIR_API uint64_t weir_watch_version(weir_watch *watch);

/* Makes a task that waits for a version above `seen`.  With 0 any value does.  A `seen` above the
 * present version counts as the present one.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL watch the task's
 *          start, run or push reports -ENOMEM.  The task's status: 0: it has a value; -EPIPE: the
 *          watch is closed; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once
 *          it has a value the status is 0, even if the series is cancelled before the callback
 *          begins.
 * Threads: any. */
WEIR_API weir_task *weir_watch_wait_new(weir_watch *watch, uint64_t seen, weir_task_fn *done, void *context);

/* The value that a task was given, and its version.  Many tasks look at one value, so do not change
 * it.
 *
 * Owner:   the value is borrowed until the callback returns.
 * Result:  NULL and 0 when there is none, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API void *weir_watch_value(const weir_task *task);
WEIR_API uint64_t weir_watch_seen(const weir_task *task);

WEIR_END

#endif
