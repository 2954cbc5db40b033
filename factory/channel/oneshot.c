/* factory/channel/oneshot.c: what comes once, unnamed and named.
 *
 * Threads: any.
 * Locks:   the object's; for named ones under that of the shard of the name. */
#include "factory/channel/oneshot.h"

#include <errno.h>

#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"

struct weir__oneshot *
weir__oneshot_new(const struct weir__waitable_ops *ops, uint64_t left)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)weir__waitable_new(ops);

        if (oneshot)
                oneshot->left = left;
        return oneshot;
}

/* Under the lock. */
static uint64_t
take_off(struct weir__oneshot *oneshot, uint64_t n)
{
        uint64_t counted = n < oneshot->left ? n : oneshot->left;

        oneshot->left -= counted;
        return counted;
}

uint64_t
weir__oneshot_count(struct weir__oneshot *oneshot, uint64_t n)
{
        if (!oneshot || weir__phase_is_forked())
                return 0;
        weir__lock(&oneshot->object.lock);
        uint64_t counted = take_off(oneshot, n);
        if (oneshot->left == 0)
                weir__wait_end_all(&oneshot->object, &oneshot->waits, 0);
        weir__unlock(&oneshot->object.lock);
        return counted;
}

/* -- by name -- */

struct spread {
        uint64_t left, counted;
        void *message;
};

/* Its task gets it, at once or when it is started.  Returns false when that was cancelled just now: it gets nothing, and nothing
 * is counted.  Under the lock. */
static bool
come(struct weir__oneshot *oneshot, void *message, struct weir__work_list *claimed)
{
        struct weir__wait *wait = weir__wait_pop(&oneshot->waits);

        if (wait) {
                wait->message = message;
                weir__work_append(claimed, &wait->task->task.work);
        } else if (weir__wait_is_over(oneshot->sole)) {
                return false;
        }
        oneshot->message = message;
        return true;
}

static bool
visit(struct weir__waitable *object, void *context, struct weir__work_list *claimed, bool *enough)
{
        struct weir__oneshot *oneshot = (struct weir__oneshot *)object;
        struct spread *spread = context;

        *enough = spread->left == 0;
        if (*enough || !oneshot->sole || weir__wait_is_over(oneshot->sole))
                return false;
        bool comes = spread->left >= oneshot->left;
        if (comes && !come(oneshot, spread->message, claimed))
                return false;
        uint64_t counted = take_off(oneshot, spread->left);
        spread->left -= counted;
        spread->counted += counted;
        *enough = spread->left == 0;
        return comes;
}

uint64_t
weir__oneshot_count_named(const struct weir__waitable_ops *ops, const char *name, uint64_t n, void *message)
{
        struct spread spread = {.left = n, .message = message};

        weir__waitable_visit_named(ops, name, visit, &spread);
        return spread.counted;
}

/* -- tasks -- */

/* What came before the start was granted then, and stays so, as if the task had waited. */
void
weir__oneshot_start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir__oneshot *oneshot = (struct weir__oneshot *)self->wait.object;

        weir__lock(&oneshot->object.lock);
        bool granted = oneshot->left == 0;
        if (granted)
                self->wait.message = oneshot->message;
        enum weir__wait_begun begun = weir__wait_begin(self, &oneshot->waits, granted, 0);
        weir__unlock(&oneshot->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
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
weir__oneshot_wait_new(const struct weir__task_ops *task_ops, struct weir__oneshot *oneshot, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (self)
                weir__wait_task_init(self, task_ops, sizeof *self, (struct weir__waitable *)oneshot, done, context);
        return self;
}

struct weir__wait_task *
weir__oneshot_new_named(const struct weir__task_ops *task_ops, const struct weir__waitable_ops *ops, const char *name,
                        uint64_t left, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        struct weir__oneshot *oneshot = (struct weir__oneshot *)weir__waitable_new_named(ops, name);
        int failed = oneshot ? 0 : -errno;
        weir__wait_task_init(self, task_ops, sizeof *self, (struct weir__waitable *)oneshot, done, context);
        if (oneshot) {
                oneshot->left = left;
                oneshot->sole = self;
                failed = weir__waitable_publish(&oneshot->object);
                weir__waitable_unref(&oneshot->object); /* the task has its own */
        }
        if (failed)
                weir__wait_task_spoil(self, failed);
        return self;
}
