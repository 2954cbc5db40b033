/* factory/flow/retry.c: a task that tries again, with a longer wait each time.
 *
 *     NEW --start--> TRYING --failed, worth it--> WAITING --> TRYING ... --> READY
 *
 * Attempts and waits are children of a combinator (factory/flow/combinator.h), one at a time.  Fields that its lock does not
 * guard belong to the worker that has ended the last child.  Limits are deadlines of the series of the attempts.  A wait that
 * would last beyond a limit is not begun. */
#include <weir/retry.h>

#include <errno.h>
#include <limits.h>

#include <weir/timer.h>

#include "factory/flow/budget.h"
#include "factory/flow/combinator.h"
#include "kernel/base/clock.h"
#include "kernel/runtime/config.h"
#include "kernel/runtime/random.h"
#include "kernel/worker/user.h"
#include "kernel/observe/log.h"

struct retry {
        struct weir__combinator combinator; /* first */

        /* Constant. */
        struct weir_retry_config config; /* zeros are replaced by the defaults */
        weir_make_fn *make;

        /* Of the worker that makes the next child. */
        int attempts;       /* 0: it is NEW */
        bool is_waiting;    /* WAITING */
        weir_nsec delay;    /* of the next wait, without jitter */
        weir_nsec deadline; /* of all attempts together */
};

/* -- whether there is another attempt -- */

static int
default_retries(int status, void *context)
{
        (void)context;
        switch (status) {
        case -ECANCELED:
        case -ESHUTDOWN:
        case -ECHILD:
        case -EINVAL:
        case -EDOM:
        case -ENAMETOOLONG:
        case -ELOOP:
        case -EDEADLK:
        case -ENOMEM: return 0;
        default: return 1;
        }
}

static bool
is_worth_it(const struct retry *retry, int status)
{
        weir_retry_if_fn *retries = retry->config.retry_if;
        static const struct weir__callee callee = {"the retry_if of", "a retry", "a retry_if"};
        const struct weir_task *task = &retry->combinator.task;
        struct weir__user_call call = weir__user_begin_as(&callee, &task->work, (weir__function *)retries);
        bool worth = retries(status, task->context);

        weir__user_end_as(call);
        return worth;
}

static weir_nsec
shorter(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

static weir_nsec
own_time_left(const struct retry *retry)
{
        return retry->deadline == WEIR_FOREVER ? WEIR_FOREVER : retry->deadline - weir__clock_now();
}

static weir_nsec
time_left(const struct retry *retry)
{
        return shorter(own_time_left(retry), weir_series_time_left(retry->combinator.task.series));
}

static weir_nsec
planned_delay(struct retry *retry)
{
        const struct weir_retry_config *config = &retry->config;
        weir_nsec delay = shorter(retry->delay, config->max_delay), product;

        retry->delay = __builtin_mul_overflow(delay, config->factor, &product) ? WEIR_FOREVER : product / 100;
        if (config->jitter == WEIR_JITTER_NONE)
                return delay;
        weir_nsec chance = config->jitter == WEIR_JITTER_EQUAL ? delay / 2 : delay;
        return delay - chance + (weir_nsec)weir__random_up_to((uint64_t)chance);
}

static weir_nsec
next_delay(struct retry *retry)
{
        static const struct weir__callee callee = {"the delay_of of", "a retry", "a delay_of"};
        weir_nsec planned = planned_delay(retry), wanted;
        weir_retry_delay_fn *delay_of = retry->config.delay_of;
        const struct weir_task *task = &retry->combinator.task;

        if (!delay_of)
                return planned;
        struct weir__user_call call = weir__user_begin_as(&callee, &task->work, (weir__function *)delay_of);
        wanted = delay_of(task->status, planned, task->context);
        weir__user_end_as(call);
        return wanted < 0 ? planned : wanted;
}

/* -- children, one at a time -- */

/* The wait before the next attempt; NULL: there is none. */
static struct weir_series *
make_wait(struct retry *retry)
{
        struct weir_task *task = &retry->combinator.task;

        if (task->status == 0)
                return NULL;
        if ((retry->config.attempts != INT_MAX && retry->attempts >= retry->config.attempts) || !is_worth_it(retry, task->status))
                return NULL;
        weir_nsec delay = next_delay(retry);
        if (delay >= time_left(retry) || !weir__budget_withdraw(retry->config.budget))
                return NULL;
        struct weir_task *timer = weir_timer_new(delay, NULL, NULL);
        struct weir_series *series = NULL;
        if (timer) {
                weir__task_consume(timer, WEIR__ACT_RETRY);
                series = weir__series_wrap(timer);
        }
        if (!series)
                task->status = -ENOMEM;
        retry->is_waiting = true;
        return series;
}

static struct weir_series *
make_attempt(struct retry *retry)
{
        int fault;
        struct weir_series *series = weir__combinator_make_child(&retry->combinator, retry->make, &fault);
        weir_nsec limit = shorter(retry->config.attempt_limit, own_time_left(retry));

        if (!series) {
                retry->combinator.task.status = fault ? fault : -ENOMEM;
                return NULL;
        }
        fault = limit == WEIR_FOREVER ? 0 : weir_series_set_deadline(series, limit);
        if (fault) {
                weir_series_dismiss(series);
                retry->combinator.task.status = fault;
                return NULL;
        }
        retry->is_waiting = false;
        if (retry->attempts < INT_MAX)
                retry->attempts++;
        return series;
}

static struct weir_series *
next(struct weir__combinator *combinator)
{
        struct retry *retry = (struct retry *)combinator;

        if (retry->attempts > 0 && !retry->is_waiting)
                return make_wait(retry);
        if (retry->attempts == 0) {
                weir__budget_deposit(retry->config.budget);
                retry->deadline = weir__clock_after(weir__clock_now(), retry->config.limit);
        }
        return make_attempt(retry);
}

/* The status of an attempt.  That of a wait is replaced by the next attempt's. */
static bool
child_ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        combinator->task.status = result ? result : weir__series_effective_cause(child);
        return false;
}

static void
release(struct weir__combinator *combinator)
{
        weir_retry_budget_free(((struct retry *)combinator)->config.budget);
}

static const struct weir__combinator_ops retry_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a retry"),
        .ended = child_ended,
        .next = next,
        .release = release,
};

/* -- making -- */

/* What the first field that is not allowed should have been; NULL: all are. */
static const char *
wrong_field(const struct weir_retry_config *config)
{
        const struct {
                bool is_wrong;
                const char *expected;
        } fields[] = {
                {config->attempts < 0, "attempts: expected 0 or more"},
                {config->factor < 0 || (config->factor > 0 && config->factor < 100), "factor: expected 100 or more, or 0"},
                {config->delay < 0, "delay: expected 0 or more"},
                {config->max_delay < 0, "max_delay: expected 0 or more"},
                {(int)config->jitter < WEIR_JITTER_FULL || config->jitter > WEIR_JITTER_NONE,
                 "jitter: expected an enum weir_retry_jitter"},
                {config->reserved, "reserved: expected 0"},
                {config->attempt_limit < 0, "attempt_limit: expected 0 or more"},
                {config->limit < 0, "limit: expected 0 or more"},
        };

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (fields[i].is_wrong)
                        return fields[i].expected;
        return NULL;
}

static int
read_config(struct weir_retry_config *to, const struct weir_retry_config *from)
{
        *to = (struct weir_retry_config)WEIR_RETRY_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        const char *expected = failed ? WEIR__CONFIG_EXPECTED("weir_retry_config", "WEIR_RETRY_CONFIG_DEFAULT") : wrong_field(to);
        if (expected)
                return weir__log_refusal("weir_retry_new: %s", expected);
        to->attempts = to->attempts ? to->attempts : 3;
        to->factor = to->factor ? to->factor : 200;
        to->delay = to->delay ? to->delay : WEIR_MSEC(100);
        to->max_delay = to->max_delay ? to->max_delay : WEIR_SEC(30);
        to->attempt_limit = to->attempt_limit ? to->attempt_limit : WEIR_FOREVER;
        to->limit = to->limit ? to->limit : WEIR_FOREVER;
        to->retry_if = to->retry_if ? to->retry_if : default_retries;
        return 0;
}

weir_task *
weir_retry_new(const struct weir_retry_config *config, weir_make_fn *make, weir_task_fn *done, void *context)
{
        struct retry *retry = weir__combinator_new(&retry_ops, sizeof *retry, done, context);

        if (!retry)
                return NULL;
        retry->make = make;
        retry->attempts = 0;
        retry->is_waiting = false;
        int failed = read_config(&retry->config, config);
        if (!failed && !make)
                failed = weir__log_refusal("weir_retry_new: the function is NULL: expected one that makes tasks");
        if (failed)
                weir__task_poison(&retry->combinator.task, failed);
        retry->config.budget = failed ? NULL : weir__budget_ref(retry->config.budget);
        retry->delay = retry->config.delay;
        return &retry->combinator.task;
}

int
weir_retry_attempts(const weir_task *retry)
{
        weir__memory_expect(retry);
        if (!retry)
                return -EINVAL;
        return weir__task_ops(retry) == &retry_ops.task ? ((const struct retry *)retry)->attempts : -EDOM;
}
