/* factory/sync/rate.c: token buckets.
 *
 *     of the alarm:   none --tokens are missing--> set --due, shutdown--> its work is on its way --runs--> set, or none
 *                                                  ^ '-- an earlier instant is wanted
 *
 * Threads: any; the work of the alarm on a worker.
 * Locks:   the object's; under it that of the alarm's poller.
 *
 * The level is counted in shares.  A share comes `speed` times in each nanosecond, and a token is `cost` shares.  Both are whole
 * numbers, so nothing is ever rounded: what comes between two instants does not depend on who looks in between.
 *
 * The alarm is set while tokens are missing: to the instant at which the first waiting task has its tokens, or else to the one at
 * which the bucket is full.  It has a reference to the bucket.  So a bucket without other references lives until it is full.  A
 * bucket that is taken from meanwhile does not move its alarm, which comes too early then and is set again. */
#include <weir/rate.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "factory/sync/waitable.h"
#include "kernel/base/clock.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"

#define SHARES_MOST (UINT64_C(1) << 62)

struct weir_rate {
        struct weir__waitable object; /* first; its limit is the burst */

        /* Guarded by the object's lock. */
        struct weir__list waits; /* the first of them wants more than there is */
        uint64_t level;          /* shares at `as_of` */
        weir_nsec as_of;
        weir_nsec armed_for;
        bool is_armed; /* the alarm is set, or its work is on its way */

        /* Constant. */
        uint64_t speed, cost;

        struct weir__alarm alarm;
};

/* -- the level; under the lock -- */

static uint64_t
capacity(const struct weir_rate *rate)
{
        return rate->object.limit * rate->cost;
}

/* Nanoseconds from as_of until there are so many shares. */
static uint64_t
time_until(const struct weir_rate *rate, uint64_t shares)
{
        uint64_t missing = shares > rate->level ? shares - rate->level : 0;

        return missing / rate->speed + (missing % rate->speed != 0);
}

/* While a task waits what comes is for it, and the bucket cannot be full.  So nothing is cut then, however late the alarm is. */
static void
refill(struct weir_rate *rate)
{
        weir_nsec now = weir__clock_now();
        uint64_t passed = now > rate->as_of ? (uint64_t)(now - rate->as_of) : 0; /* the next runtime may have another clock */
        uint64_t most = weir__wait_oldest_pending(&rate->waits) ? SHARES_MOST : capacity(rate);

        rate->level = passed >= time_until(rate, most) ? most : rate->level + passed * rate->speed;
        rate->as_of = now;
}

static bool
has(const struct weir_rate *rate, uint64_t tokens)
{
        return tokens * rate->cost <= rate->level;
}

/* Gives tokens to the first tasks.  Returns whether there may be more tasks for which there are enough. */
static bool
serve_some(struct weir_rate *rate, struct weir__work_list *claimed)
{
        refill(rate);
        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest_pending(&rate->waits);

                if (!wait)
                        refill(rate); /* cuts what is above the capacity now */
                if (!wait || !has(rate, wait->amount))
                        return false;
                wait = weir__wait_claim_oldest(&rate->waits, claimed);
                if (wait)
                        rate->level -= wait->amount * rate->cost;
        }
        return true;
}

/* Nobody overtakes a task that waits.  Those that are due are served first: what came for them is not for this one. */
static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct weir_rate *rate = (struct weir_rate *)wait->object;

        if (wait->amount > rate->object.limit)
                return -EINVAL;
        serve_some(rate, claimed);
        if (wait->amount > 0 && (!has(rate, wait->amount) || weir__wait_oldest_pending(&rate->waits)))
                return -EAGAIN;
        rate->level -= wait->amount * rate->cost;
        return 0;
}

/* -- the alarm -- */

static void alarm_run(struct weir__work *work);

static const struct weir__work_ops alarm_ops = {.run = alarm_run, .kind = "a rate", .is_migratable = true};

static struct weir__poller *
home(const struct weir_rate *rate)
{
        return weir__poller_at(rate->object.part);
}

/* When the alarm has to look; WEIR_FOREVER: nothing is missing. */
static weir_nsec
wanted(struct weir_rate *rate)
{
        const struct weir__wait *wait = weir__wait_oldest_pending(&rate->waits);
        uint64_t left = time_until(rate, wait ? wait->amount * rate->cost : capacity(rate));

        return left == 0 ? WEIR_FOREVER : weir__clock_after(rate->as_of, left < WEIR_FOREVER ? (weir_nsec)left : WEIR_FOREVER);
}

/* Sets the alarm, unless it comes early enough.  The caller has a reference.  A closing poller takes no alarm: shutdown ends the
 * tasks.  Returns whether the poller must be woken.  Under the lock. */
static bool
arm(struct weir_rate *rate)
{
        weir_nsec when = wanted(rate);

        if (!weir__phase_is_up() || when == WEIR_FOREVER || (rate->is_armed && rate->armed_for <= when))
                return false;
        if (rate->is_armed && !weir__alarm_clear(home(rate), &rate->alarm))
                return false; /* its work is on its way, and will look */
        bool had_reference = rate->is_armed;
        rate->alarm.work.ops = &alarm_ops;
        rate->armed_for = when;
        rate->is_armed = weir__alarm_set(home(rate), &rate->alarm, when);
        if (rate->is_armed && !had_reference)
                weir__waitable_ref(&rate->object);
        else if (!rate->is_armed && had_reference)
                weir__waitable_unref(&rate->object); /* not the last one */
        return rate->is_armed;
}

/* Sets the alarm anew, and lets the lock go. */
static void
arm_and_unlock(struct weir_rate *rate)
{
        struct weir__poller *poller = arm(rate) ? home(rate) : NULL;

        weir__unlock(&rate->object.lock);
        if (poller)
                weir__poller_wake(poller);
}

static void
serve(struct weir_rate *rate)
{
        for (bool more = true; more;) {
                struct weir__work_list claimed = {0};

                weir__waitable_lock(&rate->object);
                more = serve_some(rate, &claimed);
                arm_and_unlock(rate);
                weir__wait_deliver_all(&claimed);
        }
}

static void
alarm_run(struct weir__work *work)
{
        struct weir_rate *rate = weir__container_of(work, struct weir_rate, alarm.work);

        weir__lock(&rate->object.lock);
        rate->is_armed = false;
        weir__unlock(&rate->object.lock);
        serve(rate); /* may set the alarm again, with a reference of its own */
        weir__waitable_unref(&rate->object);
}

/* -- buckets -- */

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct weir_rate *rate = (const struct weir_rate *)object;

        if (wait)
                snprintf(out, room, "for %" PRIu64 " of which %" PRIu64 " are there", wait->amount, rate->level / rate->cost);
}

static const struct weir__waitable_ops rate_ops = {
        .kind = WEIR__RATE, .noun = "rate", .size = sizeof(struct weir_rate), .queues = 1, .try = try, .describe = describe};

static uint64_t
greatest_common_divisor(uint64_t a, uint64_t b)
{
        while (b > 0) {
                uint64_t rest = a % b;

                a = b;
                b = rest;
        }
        return a;
}

/* More than the burst. */
static int
refuse(const weir_rate *rate, uint64_t tokens)
{
        return weir__log_refusal("%" PRIu64 " tokens of a rate: expected %" PRIu64 " at most", tokens, rate->object.limit);
}

/* Result: 0 or -EINVAL. */
static int
read_speed(uint64_t tokens, weir_nsec per, uint64_t burst, uint64_t *speed, uint64_t *cost)
{
        if (tokens == 0 || per <= 0 || burst == 0)
                return weir__log_refusal("a rate of %" PRIu64 " tokens in %lld ns, %" PRIu64
                                         " at once: expected 1 or more of each",
                                         tokens, (long long)per, burst);
        uint64_t divisor = greatest_common_divisor(tokens, (uint64_t)per);
        *speed = tokens / divisor;
        *cost = (uint64_t)per / divisor;
        if (burst > SHARES_MOST / *cost)
                return weir__log_refusal("a rate with %" PRIu64 " tokens at once: expected %" PRIu64 " or less for this rate",
                                         burst, SHARES_MOST / *cost);
        return 0;
}

/* `made` is NULL, with errno, or is nobody else's yet. */
static struct weir_rate *
fill(struct weir__waitable *made, uint64_t speed, uint64_t cost)
{
        struct weir_rate *rate = (struct weir_rate *)made;

        if (!rate)
                return NULL;
        rate->speed = speed;
        rate->cost = cost;
        rate->level = capacity(rate);
        rate->as_of = weir__clock_now();
        return rate;
}

weir_rate *
weir_rate_new(uint64_t tokens, weir_nsec per, uint64_t burst)
{
        uint64_t speed, cost;

        if (!read_speed(tokens, per, burst, &speed, &cost))
                return fill(weir__waitable_new(&rate_ops, 0, burst, NULL), speed, cost);
        errno = EINVAL;
        return NULL;
}

weir_rate *
weir_rate_open(const char *name, uint64_t tokens, weir_nsec per, uint64_t burst)
{
        uint64_t speed, cost;

        if (read_speed(tokens, per, burst, &speed, &cost)) {
                errno = EINVAL;
                return NULL;
        }
        struct weir_rate *made = fill(weir__waitable_new_named(&rate_ops, name, 0, burst, NULL), speed, cost);
        struct weir_rate *rate = made ? (struct weir_rate *)weir__waitable_unique(&made->object) : NULL;
        if (!rate || (rate->speed == speed && rate->cost == cost))
                return rate;
        weir__waitable_unref(&rate->object);
        errno = EEXIST;
        return NULL;
}

WEIR__WAITABLE_REFERENCES(weir_rate, weir_rate_ref, weir_rate_unref)

int
weir_rate_try_take(weir_rate *rate, uint64_t tokens)
{
        int fault = weir__waitable_fault((struct weir__waitable *)rate);

        if (fault)
                return fault;
        weir__runtime_use(); /* for the alarm; without a runtime the tokens come all the same */
        struct weir__wait wait = {.object = &rate->object, .amount = tokens};
        struct weir__work_list claimed = {0};
        weir__waitable_lock(&rate->object);
        int outcome = try(&wait, &claimed);
        arm_and_unlock(rate);
        weir__wait_deliver_all(&claimed);
        return outcome == -EINVAL ? refuse(rate, tokens) : outcome;
}

weir_nsec
weir_rate_delay(weir_rate *rate, uint64_t tokens)
{
        int fault = weir__waitable_fault((struct weir__waitable *)rate);

        if (fault)
                return fault;
        if (tokens > rate->object.limit)
                return refuse(rate, tokens);
        weir__waitable_lock(&rate->object);
        refill(rate);
        uint64_t left = time_until(rate, tokens * rate->cost);
        weir__unlock(&rate->object.lock);
        return (weir_nsec)left;
}

uint64_t
weir_rate_available(weir_rate *rate)
{
        if (weir__waitable_fault((struct weir__waitable *)rate))
                return 0;
        weir__waitable_lock(&rate->object);
        refill(rate);
        uint64_t level = rate->level < capacity(rate) ? rate->level : capacity(rate), available = level / rate->cost;
        weir__unlock(&rate->object.lock);
        return available;
}

/* -- the task -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir_rate *rate = (struct weir_rate *)self->wait.object;

        struct weir__work_list claimed = {0};

        weir__waitable_lock(&rate->object);
        bool waits = weir__wait_finish_start(self, weir__wait_is_over(self) ? -EAGAIN : try(&self->wait, &claimed));
        arm_and_unlock(rate);
        weir__wait_deliver_all(&claimed);
        if (!waits)
                weir__task_deliver(task);
}

static void
run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;

        weir__wait_set_running(self);
        if (self->task.status) /* it has held up those behind it */
                serve((struct weir_rate *)self->wait.object);
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

static const struct weir__task_ops take_ops = {
        .work = {.run = run,
                 .kind = "tokens of a rate",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = start,
        .end_early = weir__wait_end_early,
        .release = weir__wait_release,
        .describe = weir__wait_describe,
};

weir_task *
weir_rate_take_new(weir_rate *rate, uint64_t tokens, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__wait_task_new(&take_ops, (struct weir__waitable *)rate, 0, done, context);

        if (!self)
                return NULL;
        self->wait.amount = tokens;
        if (rate && tokens > rate->object.limit)
                weir__task_poison(&self->task, refuse(rate, tokens));
        return &self->task;
}
