/* weir/rate.h: token buckets, which bound how often something happens.
 *
 * A bucket has room for `burst` tokens, and is full at first.  `tokens` tokens come in each period of
 * `per`, evenly, until it is full.  A flow that has taken tokens goes on.  So in any span of time at most
 * `burst` tokens are taken, and those that come in it.
 *
 *     weir_rate *rate = weir_rate_open(client, 10, WEIR_SEC(1), 20);      10 a second, 20 at once
 *     int refused = weir_rate_try_take(rate, 1);
 *     weir_rate_unref(rate);
 *
 * A bucket with a name outlives its references until it is full.  Then it is like a new one, and is
 * forgotten.  So a program need not remember which names it has used. */
#ifndef WEIR_RATE_H
#define WEIR_RATE_H

#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A bucket.  It lives as long as anybody has a reference; with a name, also until it is full. */
typedef struct weir_rate weir_rate;

/* Makes a bucket that is full.  `tokens`, `per` and `burst` are 1 or more.  The arithmetic is exact:
 * 3 tokens per second are 3,000 in 1,000 seconds.  It needs numbers of 62 bits: `burst` times `per`,
 * divided by the greatest common divisor of `tokens` and `per`, is at most 2^62.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (one of the numbers), ENOMEM.  Every function that takes a bucket
 *          accepts NULL.
 * Units:   nanoseconds for `per`.
 * Threads: any. */
WEIR_API weir_rate *weir_rate_new(uint64_t tokens, weir_nsec per, uint64_t burst);

/* Opens the bucket of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX bytes,
 * none of them NUL.  The bucket exists as long as anybody has a reference, and until it is full.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (also an invalid name), ENAMETOOLONG, EEXIST (it exists and was
 *          made with other numbers), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_rate *weir_rate_open(const char *name, uint64_t tokens, weir_nsec per, uint64_t burst);

/* Takes and drops a reference.  Tasks of a bucket have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_rate *weir_rate_ref(weir_rate *rate);
WEIR_API void weir_rate_unref(weir_rate *rate);

/* Makes a task that takes `tokens` tokens, all at once, behind the tasks that came before.  It ends
 * at the instant at which they are there.  A task that wants many is not passed by later tasks that
 * want few.  0 tokens are taken at once.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL bucket the task's start,
 *          run or push reports -ENOMEM, for more tokens than `burst` -EINVAL.  The task's status: 0:
 *          it has the tokens; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once
 *          it has them the status is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_rate_take_new(weir_rate *rate, uint64_t tokens, weir_task_fn *done, void *context);

/* Takes the tokens now or not at all.
 *
 * Result:  0; -EAGAIN when there are too few or a task waits; -EINVAL for more than `burst`; -ENOMEM
 *          for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks.  The first call may start the library. */
WEIR_API int weir_rate_try_take(weir_rate *rate, uint64_t tokens);

/* How long it takes until there are so many tokens, if nobody takes any meanwhile: for the header
 * Retry-After, for example.  Tasks that wait are not taken into account.  They get their tokens
 * first, so with such tasks it takes longer than that.
 *
 * Result:  0 or more; -EINVAL for more than `burst`; -ENOMEM for NULL; -ECHILD in a forked child.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_nsec weir_rate_delay(weir_rate *rate, uint64_t tokens);

/* How many tokens are there.  The number is out of date at once.
 *
 * Result:  0 for NULL, and in a forked child.
 * Threads: any. */
WEIR_API uint64_t weir_rate_available(weir_rate *rate);

WEIR_END

#endif
