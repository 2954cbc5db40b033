/* factory/channel/counter.c: counters: what comes once so much was counted (factory/channel/oneshot.h).
 *
 * Threads: any. */
#include <weir/counter.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "factory/channel/oneshot.h"
#include "kernel/base/phase.h"

struct weir_counter {
        struct weir__oneshot oneshot; /* all there is */
};

static const struct weir__waitable_ops counter_ops = WEIR__ONESHOT_OPS(WEIR__COUNTER, "counter");

weir_counter *
weir_counter_new(uint64_t target)
{
        return (weir_counter *)weir__oneshot_new(&counter_ops, target);
}

weir_counter *
weir_counter_ref(weir_counter *counter)
{
        return (weir_counter *)weir__waitable_ref((struct weir__waitable *)counter);
}

void
weir_counter_unref(weir_counter *counter)
{
        weir__waitable_unref((struct weir__waitable *)counter);
}

uint64_t
weir_counter_count(weir_counter *counter, uint64_t n)
{
        return weir__oneshot_count((struct weir__oneshot *)counter, n);
}

uint64_t
weir_counter_left(weir_counter *counter)
{
        if (!counter || weir__phase_is_forked())
                return 0;
        weir__lock(&counter->oneshot.object.lock);
        uint64_t left = counter->oneshot.left;
        weir__unlock(&counter->oneshot.object.lock);
        return left;
}

uint64_t
weir_counter_count_named(const char *name, uint64_t n)
{
        return weir__oneshot_count_named(&counter_ops, name, n, NULL);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        weir_counter *counter = (weir_counter *)((const struct weir__wait_task *)task)->wait.object;

        weir__wait_describe(task, out, room);
        size_t size = strlen(out);
        if (size > 0)
                snprintf(out + size, room - size, ", %" PRIu64 " to be counted", weir_counter_left(counter));
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a counter", weir__oneshot_start, weir__wait_release,
                                                                  .describe = describe);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a counter", weir__oneshot_start, weir__oneshot_release,
                                                                   .describe = describe);

weir_task *
weir_counter_wait_new(weir_counter *counter, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__oneshot_wait_new(&wait_ops, (struct weir__oneshot *)counter, done, context);
}

weir_task *
weir_counter_new_named(const char *name, uint64_t target, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__oneshot_new_named(&named_ops, &counter_ops, name, target, done, context);
}
