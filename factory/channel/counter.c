/* factory/channel/counter.c: counters: tasks go on once so much was counted (factory/channel/oneshot.h).
 *
 * Threads: any. */
#include <weir/counter.h>

#include <inttypes.h>
#include <stdio.h>

#include "factory/channel/oneshot.h"

struct weir_counter {
        struct weir__oneshot oneshot; /* all there is */
};

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        if (wait)
                snprintf(out, room, "%" PRIu64 " to be counted", object->amount);
}

static const struct weir__waitable_ops counter_ops = WEIR__ONESHOT_OPS(WEIR__COUNTER, "counter", describe);

weir_counter *
weir_counter_new(uint64_t target)
{
        return (weir_counter *)weir__waitable_new(&counter_ops, target, 0, NULL);
}

WEIR__WAITABLE_REFERENCES(weir_counter, weir_counter_ref, weir_counter_unref)

uint64_t
weir_counter_count(weir_counter *counter, uint64_t n)
{
        return weir__oneshot_count((struct weir__oneshot *)counter, n);
}

uint64_t
weir_counter_left(weir_counter *counter)
{
        return weir__waitable_amount((struct weir__waitable *)counter);
}

uint64_t
weir_counter_count_named(const char *name, uint64_t n)
{
        return weir__oneshot_count_named(&counter_ops, name, n, NULL);
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a counter", weir__wait_run, weir__wait_release);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a counter", weir__wait_run, weir__oneshot_release);

weir_task *
weir_counter_wait_new(weir_counter *counter, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__wait_task_new(&wait_ops, (struct weir__waitable *)counter, 0, done, context);
}

weir_task *
weir_counter_new_named(const char *name, uint64_t target, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__oneshot_new_named(&named_ops, &counter_ops, name, target, done, context);
}
