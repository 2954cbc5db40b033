/* weir/waitgroup.h: a thread waits until others have done what was to be done.
 *
 * Add what begins, before it can be done; call done where it has ended; wait until as many are done as were added.  A group that
 * has come to zero may be used again. */
#ifndef WEIR_WAITGROUP_H
#define WEIR_WAITGROUP_H

#include <weir/time.h>

WEIR_BEGIN

typedef struct weir_waitgroup weir_waitgroup;

/* A group of nothing.
 *
 * Owner:   the caller, to be freed.
 * Result:  NULL when out of memory, which add, done and free ignore, and wait reports as -ENOMEM.
 * Threads: any. */
WEIR_API weir_waitgroup *weir_waitgroup_new(void);

/* Frees it.  A thread may do so as soon as its wait has returned 0, even if those whose wait the same done has ended have not
 * returned yet.  While a thread waits for what is not done it aborts with the reason.  Accepts NULL.
 *
 * Threads: any. */
WEIR_API void weir_waitgroup_free(weir_waitgroup *group);

/* `n` more are to be done.  A group that would count more than 2^62 - 1 aborts with the reason.  Accepts NULL.
 *
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API void weir_waitgroup_add(weir_waitgroup *group, size_t n);

/* One is done: what happened before it happens before the return of a wait that it ends.  When all are, those who wait go on.
 * One more than were added aborts with the reason.  Accepts NULL.
 *
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API void weir_waitgroup_done(weir_waitgroup *group);

/* Waits until all are done: at once when nothing is to be done, and else until the count comes to zero, even if more is added
 * just then.  A limit of 0 or less only looks; WEIR_FOREVER is none.
 *
 * On the virtual clock this is like a `_run`: meanwhile time jumps from deadline to deadline, and the limit is one of them;
 * threads of the program that are busy with what is to be done hold the clock.  When a done comes at the instant of the limit,
 * the one of which the deadline was there first is decisive.  A shutdown does not end a wait, but its callbacks may be the dones;
 * it does end one with a limit of virtual time, which goes on no more.
 *
 * Result:  0; -ETIMEDOUT; -ENOMEM for NULL; -EDEADLK on a worker, where only a look is allowed, unless between weir_blocking_begin
 *          and weir_blocking_end; -ECHILD in a forked child.  On the virtual clock: -ESHUTDOWN, with a limit; -EBUSY while another
 *          thread lets time pass; -EDEADLK on a thread that holds the clock.
 * Units:   nanoseconds from now, on the clock of weir_now.
 * Threads: any but workers; several may wait. */
WEIR_API int weir_waitgroup_wait(weir_waitgroup *group, weir_nsec limit);

WEIR_END

#endif
