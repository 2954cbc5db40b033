/* factory/channel/oneshot.c: events that come once, unnamed and named.
 *
 * Threads: any.
 * Locks:   the object's; for named ones under that of the shard of the name. */
#include "factory/channel/oneshot.h"

#include <errno.h>

#include "kernel/base/phase.h"

/* Under the lock. */
static uint64_t
take_off(struct weir__oneshot *oneshot, uint64_t n)
{
        uint64_t counted = n < oneshot->object.amount ? n : oneshot->object.amount;

        oneshot->object.amount -= counted;
        return counted;
}

uint64_t
weir__oneshot_count(struct weir__oneshot *oneshot, uint64_t n)
{
        if (weir__waitable_fault((struct weir__waitable *)oneshot))
                return 0;
        weir__lock(&oneshot->object.lock);
        uint64_t counted = take_off(oneshot, n);
        if (oneshot->object.amount == 0)
                weir__wait_end_all(&oneshot->object, &oneshot->waits, 0);
        weir__unlock(&oneshot->object.lock);
        return counted;
}

/* -- by name -- */

struct spread {
        uint64_t left; /* to be counted */
        void *message;
};

/* Gives the message to the task, at once or when it is started.  Returns false when the task was cancelled just now: it gets
 * nothing, and nothing is counted.  Under the lock. */
static bool
come(struct weir__oneshot *oneshot, void *message, struct weir__work_list *claimed)
{
        struct weir__wait *wait = weir__wait_pop(&oneshot->waits, claimed);

        if (wait)
                wait->message = message;
        else if (weir__wait_is_over(oneshot->sole))
                return false;
        oneshot->message = message;
        return true;
}

static bool
spread_over(struct weir__waitable *object, void *context, struct weir__work_list *claimed, bool *enough)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)object;
        struct spread *spread = context;

        *enough = spread->left == 0;
        if (*enough || !oneshot->sole || weir__wait_is_over(oneshot->sole))
                return false;
        bool comes = spread->left >= oneshot->object.amount;
        if (comes && !come(oneshot, spread->message, claimed))
                return false;
        spread->left -= take_off(oneshot, spread->left);
        *enough = spread->left == 0;
        return comes;
}

uint64_t
weir__oneshot_count_named(const struct weir__waitable_ops *ops, const char *name, uint64_t n, void *message)
{
        struct spread spread = {.left = n, .message = message};

        weir__waitable_for_each_named(ops, name, spread_over, &spread);
        return n - spread.left;
}

/* -- tasks -- */

int
weir__oneshot_try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)wait->object;

        (void)claimed;
        if (oneshot->object.amount > 0)
                return -EAGAIN;
        wait->message = oneshot->message;
        return 0;
}

void
weir__oneshot_release(struct weir_task *task, bool discarded)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)((struct weir__wait_task *)task)->wait.object;

        if (oneshot && !weir__phase_is_forked()) { /* a thread that held the lock at the fork is not there to let it go */
                weir__lock(&oneshot->object.lock);
                oneshot->sole = NULL;
                weir__unlock(&oneshot->object.lock);
        }
        weir__wait_release(task, discarded);
}

struct weir__wait_task *
weir__oneshot_new_named(const struct weir__task_ops *task_ops, const struct weir__waitable_ops *ops, const char *name,
                        uint64_t target, weir_task_fn *done, void *context)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)weir__waitable_new_named(ops, name, target, 0, NULL);
        struct weir__wait_task *self = weir__wait_task_new_with(task_ops, (struct weir__waitable *)oneshot, oneshot ? 0 : -errno,
                                                                done, context);

        if (!self || !oneshot)
                return self;
        oneshot->sole = self;
        int failed = weir__waitable_publish(&oneshot->object);
        if (failed)
                weir__task_poison(&self->task, failed);
        return self;
}
