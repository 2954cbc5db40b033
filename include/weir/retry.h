/* weir/retry.h: a task that tries again, later each time, until it succeeds or another attempt is
 * not worth it. */
#ifndef WEIR_RETRY_H
#define WEIR_RETRY_H

#include <weir/flow.h>

WEIR_BEGIN

/* How much of each wait is random.  Randomness keeps many tasks that failed together from retrying
 * together.
 *
 * Source:  Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015. */
enum weir_retry_jitter {
        WEIR_JITTER_FULL = 0,  /* anything from 0 to the delay */
        WEIR_JITTER_EQUAL = 1, /* half of the delay, and anything from 0 to the other half */
        WEIR_JITTER_NONE = 2,  /* the delay */
};

/* A budget that several retries share. */
typedef struct weir_retry_budget weir_retry_budget;

/* Decides whether to try again after an attempt that ended with `status`, which is not 0.  Returns
 * non-zero for yes. */
typedef int weir_retry_if_fn(int status, void *context);

/* The wait before the next attempt, after one that ended with `status`.  `planned` is the wait that
 * the config gives, with its jitter.  A server may have asked for another one (Retry-After), which
 * the callback of the attempt has noted in the context.  A value below 0 means `planned`. */
typedef weir_nsec weir_retry_delay_fn(int status, weir_nsec planned, void *context);

/* When to try again.  Start from WEIR_RETRY_CONFIG_DEFAULT; 0 in a field means its default.  The
 * wait before the second attempt is `delay`. Each later wait is `factor` percent of the one before,
 * but at most `max_delay`. */
struct weir_retry_config {
        size_t size;                   /* of this struct when the program was compiled; set by WEIR_RETRY_CONFIG_DEFAULT */
        int attempts;                  /* all attempts, the first included; default: 3; INT_MAX: no limit */
        int factor;                    /* percent, 100 or more; default: 200 */
        weir_nsec delay;               /* default: 100 ms; 1 is practically no delay */
        weir_nsec max_delay;           /* default: 30 seconds */
        enum weir_retry_jitter jitter; /* default: WEIR_JITTER_FULL */
        int reserved;                  /* 0.  It takes the place of padding, so that `size` says which fields a program knows */
        weir_nsec attempt_limit;       /* a longer attempt ends with -ETIMEDOUT; default and WEIR_FOREVER: none.  A function
                                          that has begun (weir/go.h) is not interrupted: the retry waits until it returns.
                                          weir_go_new_timed in `make` does not wait */
        weir_nsec limit;               /* of the whole task, from its start, with the same rule; default and WEIR_FOREVER: none */
        weir_retry_budget *budget;     /* where its retries come from; default: none */
        weir_retry_if_fn *retry_if;    /* whether to try again; called on a worker with the context of the task.  Default:
                                          yes, except after -ECANCELED, -ESHUTDOWN, -ECHILD, and after errors that do not
                                          change: -EINVAL, -EDOM, -ENAMETOOLONG, -ELOOP, -EDEADLK and -ENOMEM */
        weir_retry_delay_fn *delay_of; /* how long to wait; called after `retry_if`, in the same way.  Its wait may be above
                                          `max_delay`, and has no jitter.  Default: as planned */
};

/* The initial value of a struct weir_retry_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_RETRY_CONFIG_DEFAULT {sizeof(struct weir_retry_config), 0, 0, 0, 0, WEIR_JITTER_FULL, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_RETRY_CONFIG_DEFAULT {.size = sizeof(struct weir_retry_config)}
#endif

/* Makes a task that runs the task which `make` makes.  If that fails, it waits and makes another
 * one, as the config says (NULL: the default config).  It ends
 *
 * - when an attempt ends with 0;
 * - when the attempts or the budget are used up, or the status is not worth another attempt;
 * - at its limit, which also ends the running attempt;
 * - instead of waiting, when its limit or the deadline of its series would come before the next
 *   attempt;
 * - when its series is cancelled, also during a wait.
 *
 * `make`, `retry_if`, `delay_of` and `done` share `context`; no two of them run at once.
 *
 * Owner:   the caller, until the task is consumed.  The config is copied; the budget is referred to
 *          until the task is freed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without a `make`, or with an
 *          invalid config, it reports -EINVAL when it is started or pushed.  The task's status:
 *          that of the last attempt, which is -ETIMEDOUT when the limit has ended it; -ENOMEM when
 *          `make` returned NULL or there is no memory for a wait; the error of a task that was made
 *          wrongly; or why its series ends early.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_retry_new(const struct weir_retry_config *config, weir_make_fn *make, weir_task_fn *done, void *context);

/* How many attempts have begun.
 *
 * Result:  0 or more; -EINVAL for NULL; -EDOM for a task that is no retry.
 * Threads: where the task is yours, and inside its callback. */
WEIR_API int weir_retry_attempts(const weir_task *retry);

/* Makes a budget.  The retries of all tasks that share it are at most `percent` of their first
 * attempts, plus `burst`.  So if everything fails, the server behind them has only a little more
 * work, not `attempts` times as much.  At most `burst` retries can be saved up; 0 counts as 1.  A
 * task that gets no retry from the budget ends with the status of its last attempt.
 *
 * Owner:   the caller, until it is freed.  Tasks keep the part of it that they need, so it may be
 *          freed before they end.
 * Result:  NULL when out of memory; a config with a NULL budget has no such limit.
 * Threads: any.
 * Source:  Beyer et al., Site Reliability Engineering, 2016, chapters 21 and 22; the RetryBudget of
 *          Finagle. */
WEIR_API weir_retry_budget *weir_retry_budget_new(unsigned percent, unsigned burst);

/* Frees a budget.  Accepts NULL. */
WEIR_API void weir_retry_budget_free(weir_retry_budget *budget);

WEIR_END

#endif
