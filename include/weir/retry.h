/* weir/retry.h: a task that tries again, later each time, until it succeeds or it is not worth trying. */
#ifndef WEIR_RETRY_H
#define WEIR_RETRY_H

#include <weir/flow.h>

WEIR_BEGIN

/* How much of each wait is left to chance, so that many who failed together do not all come again together.
 * Source: Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015. */
enum weir_retry_jitter {
        WEIR_JITTER_FULL = 0,  /* anything from 0 to the delay */
        WEIR_JITTER_EQUAL = 1, /* half of the delay, and anything from 0 to the other half */
        WEIR_JITTER_NONE = 2,  /* the delay */
};

/* A budget that retries share. */
typedef struct weir_retry_budget weir_retry_budget;

/* Whether what ended with that status, which is not 0, is worth another attempt: not 0 if so. */
typedef int weir_retry_if_fn(int status, void *context);

/* When to try again.  Start from WEIR_RETRY_CONFIG_DEFAULT; 0 in a field means its default.  The delay before the second
 * attempt is `delay`, each later one is `factor` percent of the one before; none is longer than `max_delay`. */
struct weir_retry_config {
        size_t size;                   /* of this struct, as the program was compiled: set by WEIR_RETRY_CONFIG_DEFAULT */
        int attempts;                  /* at most so many in all; default: 3; INT_MAX: no limit */
        int factor;                    /* percent, 100 or more; default: 200 */
        weir_nsec delay;               /* default: 100 ms; 1 is as good as none */
        weir_nsec max_delay;           /* default: 30 seconds */
        enum weir_retry_jitter jitter; /* default: WEIR_JITTER_FULL */
        int reserved;                  /* 0: no padding, so that `size` says which fields a program knows */
        weir_nsec attempt_limit;       /* an attempt that takes longer ends with -ETIMEDOUT; default and WEIR_FOREVER: none */
        weir_nsec limit;               /* of it all, from its start; default and WEIR_FOREVER: none */
        weir_retry_budget *budget;     /* which it takes its retries from; default: none */
        weir_retry_if_fn *retry_if;    /* what to try again after, called on a worker with the context of the task; default: all
                                          but -ECANCELED, -ESHUTDOWN and -ECHILD, and what is no better the next time: -EINVAL,
                                          -EDOM, -ENAMETOOLONG, -ELOOP, -EDEADLK and -ENOMEM */
};

#ifdef __cplusplus
#define WEIR_RETRY_CONFIG_DEFAULT {sizeof(struct weir_retry_config), 0, 0, 0, 0, WEIR_JITTER_FULL, 0, 0, 0, 0, 0}
#else
#define WEIR_RETRY_CONFIG_DEFAULT {.size = sizeof(struct weir_retry_config)}
#endif

/* Runs the task that `make` makes; when that fails, waits and runs another one, as the config (NULL: the default) has it.  It
 * ends when an attempt ends with 0; when the attempts or the budget are used up or the status is not worth another one; at its
 * limit, which ends the attempt that runs then; and at once, instead of waiting, when its limit, or the deadline of its series,
 * would come before the next attempt.  A cancel of its series ends it, in a wait too.
 *
 * `context` is for `make`, `retry_if` and `done`, of which no two run at once.
 *
 * Owner:   the caller, until it is consumed.  The config is copied; the budget is referred to until the task is freed.
 * Result:  NULL when out of memory, which every consumer accepts.  Without a `make`, or with a config that is none, it reports
 *          -EINVAL when it is started or pushed.  The task's status: that of the last attempt, which is -ETIMEDOUT when its
 *          limit has ended that; -ENOMEM when `make` returned NULL, or without the memory for a wait; what was wrong with the
 *          task made; why its series ends early.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_retry_new(const struct weir_retry_config *config, weir_make_fn *make, weir_task_fn *done, void *context);

/* How many attempts were begun.
 *
 * Result:  0 or more; -EINVAL for NULL, -EDOM for what is no retry.
 * Threads: where the task is yours, and inside its callback. */
WEIR_API int weir_retry_attempts(const weir_task *retry);

/* A budget: of all tasks that share it, the retries are at most `percent` of the first attempts, and `burst` more.  So when
 * everything fails, what serves them all has hardly more to do than before, and not `attempts` times as much.  No more than
 * `burst` (0 counts as 1) can be saved up.  A task that the budget refuses a retry ends with the status of its last attempt.
 *
 * Source: Beyer et al., Site Reliability Engineering, 2016, chapters 21 and 22; the RetryBudget of Finagle.
 *
 * Owner:   the caller, until it is freed; tasks keep what they need of it, so that it may be freed before they end.
 * Result:  NULL when out of memory; a config without a budget is one without that limit.
 * Threads: any. */
WEIR_API weir_retry_budget *weir_retry_budget_new(unsigned percent, unsigned burst);

/* Accepts NULL. */
WEIR_API void weir_retry_budget_free(weir_retry_budget *budget);

WEIR_END

#endif
