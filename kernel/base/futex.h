/* kernel/base/futex.h: sleeping until a word changes.
 *
 * The word is private to the process.  A sleep may end for no reason, so callers look at the word again.  errno stays as it
 * is. */
#ifndef WEIR_KERNEL_FUTEX_H
#define WEIR_KERNEL_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir/time.h>

#define WEIR__FUTEX_ALL INT_MAX

static inline int
weir__futex_call(_Atomic unsigned *word, int operation, unsigned value, const struct timespec *limit)
{
        int before = errno;
        int failed = syscall(SYS_futex, (unsigned *)word, operation, value, limit, NULL, FUTEX_BITSET_MATCH_ANY) < 0 ? -errno : 0;

        errno = before;
        return failed;
}

/* Sleeps while the word has that value, until somebody wakes the word.  Returns 0, -EAGAIN or -EINTR. */
static inline int
weir__futex_wait(_Atomic unsigned *word, unsigned value)
{
        return weir__futex_call(word, FUTEX_WAIT_PRIVATE, value, NULL);
}

/* The same for at most that long; -ETIMEDOUT when the time is over. */
static inline int
weir__futex_wait_for(_Atomic unsigned *word, unsigned value, weir_nsec duration)
{
        struct timespec limit = {.tv_sec = duration / WEIR_SEC(1), .tv_nsec = duration % WEIR_SEC(1)};

        return weir__futex_call(word, FUTEX_WAIT_PRIVATE, value, &limit);
}

/* The same until that instant of CLOCK_MONOTONIC. */
static inline int
weir__futex_wait_until(_Atomic unsigned *word, unsigned value, weir_nsec instant)
{
        struct timespec limit = {.tv_sec = instant / WEIR_SEC(1), .tv_nsec = instant % WEIR_SEC(1)};

        return weir__futex_call(word, FUTEX_WAIT_BITSET_PRIVATE, value, &limit);
}

/* Wakes at most that many sleepers.  Only the address is used: the word may be gone. */
static inline void
weir__futex_wake(_Atomic unsigned *word, int count)
{
        weir__futex_call(word, FUTEX_WAKE_PRIVATE, (unsigned)count, NULL);
}

#endif
