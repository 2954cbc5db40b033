/* factory/counter.c: counters, unnamed and named.
 *
 * Threads: any.
 * Locks:   the object's; for named ones under that of the shard of the name.
 *
 * One with a name belongs to a single task, and may be counted to before that is started: `sole` is that task, as long as it is there. */
#include <weir/counter.h>

#include <errno.h>

#include "factory/waitable.h"
#include "kernel/memory.h"
#include "kernel/runtime.h"

struct weir_counter {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits;
        uint64_t left;
        struct weir__wait_task *sole; /* of a named one; NULL: it is gone */
};

static const struct weir__waitable_ops counter_ops = {
        .kind = WEIR__COUNTER, .noun = "counter", .size = sizeof(struct weir_counter), .lists = 1};

weir_counter *
weir_counter_new(uint64_t target)
{
        struct weir_counter *counter = (struct weir_counter *)weir__waitable_new(&counter_ops);

        if (counter)
                counter->left = target;
        return counter;
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

/* Under the lock. */
static uint64_t
take_off(struct weir_counter *counter, uint64_t n)
{
        uint64_t counted = n < counter->left ? n : counter->left;

        counter->left -= counted;
        return counted;
}

uint64_t
weir_counter_count(weir_counter *counter, uint64_t n)
{
        if (!counter || weir__runtime_forked())
                return 0;
        weir__lock(&counter->object.lock);
        uint64_t counted = take_off(counter, n);
        if (counter->left == 0)
                weir__wait_end_all(&counter->object, &counter->waits, 0);
        weir__unlock(&counter->object.lock);
        return counted;
}

uint64_t
weir_counter_left(weir_counter *counter)
{
        if (!counter || weir__runtime_forked())
                return 0;
        weir__lock(&counter->object.lock);
        uint64_t left = counter->left;
        weir__unlock(&counter->object.lock);
        return left;
}

/* -- named -- */

struct count {
        uint64_t left, counted;
};

static bool
count_one(struct weir__waitable *object, void *context, struct weir__work_list *claimed, bool *enough)
{
        struct weir_counter *counter = (struct weir_counter *)object;
        struct count *count = context;

        *enough = count->left == 0;
        if (*enough || !counter->sole || weir__wait_is_over(counter->sole))
                return false;
        uint64_t counted = take_off(counter, count->left);
        count->left -= counted;
        count->counted += counted;
        *enough = count->left == 0;
        if (counter->left > 0)
                return false;
        struct weir__wait *wait = weir__wait_pop(&counter->waits);
        if (wait)
                weir__work_append(claimed, &wait->task->task.work);
        return true;
}

uint64_t
weir_counter_count_named(const char *name, uint64_t n)
{
        struct count count = {.left = n};

        weir__waitable_visit_named(&counter_ops, name, count_one, &count);
        return count.counted;
}

/* -- the task -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir_counter *counter = (struct weir_counter *)self->wait.object;

        weir__lock(&counter->object.lock);
        bool granted = counter->left == 0 && !weir__wait_is_over(self);
        enum weir__wait_begun begun = weir__wait_begin(self, &counter->waits, granted, 0);
        weir__unlock(&counter->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
}

static void
named_release(struct weir_task *task, bool discarded)
{
        struct weir_counter *counter = (struct weir_counter *)((struct weir__wait_task *)task)->wait.object;

        if (counter) {
                weir__lock(&counter->object.lock);
                counter->sole = NULL;
                weir__unlock(&counter->object.lock);
        }
        weir__wait_release(task, discarded);
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a counter", start, weir__wait_release);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a counter", start, named_release);

weir_task *
weir_counter_wait_new(weir_counter *counter, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (self)
                weir__wait_task_init(self, &wait_ops, sizeof *self, (struct weir__waitable *)counter, done, context);
        return self ? &self->task : NULL;
}

weir_task *
weir_counter_new_named(const char *name, uint64_t target, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        struct weir_counter *counter = (struct weir_counter *)weir__waitable_new_named(&counter_ops, name);
        int failed = counter ? 0 : -errno;
        weir__wait_task_init(self, &named_ops, sizeof *self, (struct weir__waitable *)counter, done, context);
        if (counter) {
                counter->left = target;
                counter->sole = self;
                failed = weir__waitable_publish(&counter->object);
                weir__waitable_unref(&counter->object); /* the task has its own */
        }
        if (failed)
                weir__wait_task_spoil(self, failed);
        return &self->task;
}
