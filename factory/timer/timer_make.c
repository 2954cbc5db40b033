/* factory/timer/timer_make.c: makes timers, also those that follow a clock, and tickers from a plan.
 *
 * Threads: any; a timer belongs to the thread that makes it until it is consumed.
 * Locks:   that of the name's shard (rank NAMES), to add the name.
 *
 * A timer is one block of memory with these parts, of which it has those that it needs: the timer, its name, the part that
 * follows a clock, the ticker. */
#include "factory/timer/timer.h"

#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"

#define OPS(is_named, is_clock) WEIR__TIMER_OPS("a timer", is_named, is_clock, NULL)

/* By: whether it is a clock timer; whether it has a name. */
static const struct weir__timer_ops timer_ops[2][2] = {{OPS(false, false), OPS(true, false)},
                                                       {OPS(false, true), OPS(true, true)}};

#define UNTIL(is_named) WEIR__TIMER_OPS_STARTED("a timer", is_named, false, NULL, weir__timer_start_until, true)

/* By whether it has a name. */
static const struct weir__timer_ops until_ops[2] = {UNTIL(false), UNTIL(true)};

struct weir__timer *
weir__timer_of_task(struct weir_task *task)
{
        return task && task->work.ops->run == weir__timer_run ? (struct weir__timer *)task : NULL;
}

static void
init(struct weir__timer *timer, const struct weir__timer_ops *ops, size_t size, weir_nsec after, weir_task_fn *done,
     void *context)
{
        weir__task_init(&timer->task, &ops->task, size, done, context);
        timer->task.slack = weir__pollers.timer_slack;
        timer->node = (struct weir__timerq_node){.deadline = after, .kind = WEIR__DEADLINE_TASK};
}

static size_t
size_of(const struct weir__timer_plan *plan)
{
        return plan ? (plan->is_clock_timer ? sizeof(struct weir__clock_timer) : 0) + plan->ticker_size : 0;
}

static void
init_parts(struct weir__timer *timer, char *behind, const struct weir__timer_plan *plan)
{
        if (plan->is_clock_timer) {
                *(struct weir__clock_timer *)behind = (struct weir__clock_timer){
                        .ops = &weir__timer_clock_ops, .node = &timer->node, .clock = plan->clock, .target = plan->target};
                behind += sizeof(struct weir__clock_timer);
        }
        if (plan->ticker)
                memcpy(behind, plan->ticker, plan->ticker_size);
}

weir_task *
weir__timer_new_poisoned(int fault, weir_task_fn *done, void *context)
{
        weir_task *task = weir_timer_new(0, done, context);

        if (task)
                weir__task_poison(task, fault);
        return task;
}

/* `name` is as the program gives it; NULL: the timer has none.  The making of the two common kinds has no plan. */
static inline __attribute__((__always_inline__)) weir_task *
make(const struct weir__timer_ops *ops, const char *name, const struct weir__timer_plan *plan, weir_nsec after,
     weir_task_fn *done, void *context)
{
        struct weir__name_key key = {0};
        int fault = name ? weir__name_read(name, &key) : 0;

        if (fault)
                return weir__timer_new_poisoned(weir__name_refuse(ops->task.work.kind, fault), done, context);
        size_t before = name ? weir__named_timer_size(key.size) : sizeof(struct weir__timer), size = before + size_of(plan);
        struct weir__named_timer *named = weir__alloc(size);
        if (!named)
                return NULL;
        init(&named->timer, ops, size, after, done, context);
        if (name)
                named->name.size = (uint16_t)key.size; /* locates the parts behind the name, also in a forked child */
        if (plan)
                init_parts(&named->timer, (char *)named + before, plan);
        if (!name || weir__phase_is_forked() || weir__names_add(&weir__timer_names, &named->name, &key))
                return &named->timer.task;
        weir__free(named, size);
        return NULL;
}

weir_task *
weir_timer_new(weir_nsec after, weir_task_fn *done, void *context)
{
        return make(&timer_ops[false][false], NULL, NULL, after, done, context);
}

weir_task *
weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make(&timer_ops[false][true], weir__timer_given_name(name), NULL, after, done, context);
}

weir_task *
weir__timer_make(const struct weir__timer_plan *plan, weir_nsec after, weir_task_fn *done, void *context)
{
        const struct weir__timer_ops(*tables)[2] = plan->ticks ? plan->ticks : timer_ops;
        const struct weir__timer_ops *table = plan->is_until ? until_ops : tables[plan->is_clock_timer];

        return make(&table[plan->name != NULL], plan->name, plan, after, done, context);
}

weir_task *
weir_timer_new_until(weir_nsec instant, weir_task_fn *done, void *context)
{
        const struct weir__timer_plan plan = {.is_until = true};

        return weir__timer_make(&plan, instant, done, context);
}

weir_task *
weir_timer_new_until_named(const char *name, weir_nsec instant, weir_task_fn *done, void *context)
{
        const struct weir__timer_plan plan = {.name = weir__timer_given_name(name), .is_until = true};

        return weir__timer_make(&plan, instant, done, context);
}

/* -- timers that follow a clock: kernel/loop/clock_timer.c -- */

/* `when` is an instant or a duration, as the clock has it.  `name` is NULL for a timer without one. */
static weir_task *
make_clock_timer(const char *name, clockid_t clock, weir_nsec when, weir_task_fn *done, void *context)
{
        const struct weir__timer_plan plan = {.name = name, .is_clock_timer = true, .clock = clock, .target = when};

        return weir__timer_make(&plan, when, done, context);
}

weir_task *
weir_timer_new_at(weir_nsec wall, weir_task_fn *done, void *context)
{
        return make_clock_timer(NULL, CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_at_named(const char *name, weir_nsec wall, weir_task_fn *done, void *context)
{
        return make_clock_timer(weir__timer_given_name(name), CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_boottime(weir_nsec after, weir_task_fn *done, void *context)
{
        return make_clock_timer(NULL, CLOCK_BOOTTIME, after, done, context);
}

weir_task *
weir_timer_new_boottime_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make_clock_timer(weir__timer_given_name(name), CLOCK_BOOTTIME, after, done, context);
}

int
weir_timer_set_slack(weir_task *task, weir_nsec slack)
{
        weir__memory_expect(task);
        struct weir__timer *timer = weir__timer_of_task(task);

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!task)
                return -EINVAL;
        if (slack < 0 || (timer && task->flags & WEIR__TASK_CONSUMED))
                return weir__log_refusal("weir_timer_set_slack: expected 0 or more, and a timer that was not started or pushed");
        if (!timer)
                return -EDOM;
        task->slack = weir__clock_slack(slack);
        return 0;
}

/* -- what was never started -- */

/* Only a timer with a long name is larger than the blocks of the caches.  Its name is in the map. */
static bool
is_large(const struct weir_task *task)
{
        return task->size_class == 0 || 8 * (size_t)task->size_class > WEIR__BLOCK_MAX;
}

/* Those of one name.  Under the lock of the shard. */
static void
count_large(struct weir__name *oldest, struct weir__census *census)
{
        for (struct weir__name *name = oldest; name; name = weir__name_alive(name->newer)) {
                const struct weir_task *task = &weir__timer_of_name(name)->task;

                if (is_large(task) && weir__task_is_new(task))
                        weir__census_count(census, task);
        }
}

static void
find_unstarted(struct weir__census *census)
{
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                struct weir__names_shard *shard = &weir__timer_names.shards[i];
                struct weir__names_scan scan = weir__names_scan_begin(i);
                char text[WEIR_NAME_MAX]; /* of the last name, which may be gone when the lock is taken again */

                for (bool done = false; !done;) {
                        unsigned budget = WEIR__TIMERS_AT_ONCE;

                        weir__lock(&shard->lock);
                        struct weir__name *oldest = weir__names_scan(shard, &scan, &budget, &done);
                        if (oldest) {
                                count_large(oldest, census);
                                scan.key.text = memcpy(text, scan.key.text, scan.key.size);
                        }
                        weir__unlock(&shard->lock);
                }
        }
}

static void
prepare(void)
{
        weir__census_add_finder(find_unstarted);
}

WEIR__STEPS_OF(WEIR__MODULE_NAMED_TIMERS, [WEIR__STEP_LOAD] = prepare);
