/* factory/sync/barrier.c: barriers.
 *
 * Threads: any.
 * Locks:   the object's.  A cancel takes it, too, under the lock of the series: the last task to arrive must know which ones are
 *          there.  So here, unlike at other objects, every linked task waits, and `linked` is their number.
 *
 * The last task to arrive takes the whole queue, however long, and begins the next generation.  From then on a cancel of a task
 * of an older generation comes too late, and no other thread touches these waits.  They are delivered without the lock.
 *
 * The limit of the object is how many tasks go on together.  The amount of a wait is the generation in which its task has
 * arrived, or one of the values below. */
#include <weir/barrier.h>

#include <errno.h>
#include <stdio.h>

#include "factory/task/series.h"
#include "factory/sync/waitable.h"
#include "kernel/observe/log.h"

#define NOT_YET      UINT64_MAX       /* it has not arrived */
#define LAST_ARRIVAL (UINT64_MAX - 1) /* it was the last of its generation */

struct weir_barrier {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits; /* of this generation */
        uint64_t generation;
};

/* -- barriers -- */

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        if (wait)
                snprintf(out, room, "of %llu", (unsigned long long)object->limit);
}

static const struct weir__waitable_ops barrier_ops = {
        .kind = WEIR__BARRIER, .noun = "barrier", .size = sizeof(struct weir_barrier), .queues = 1, .describe = describe};

static int
refuse(void)
{
        return weir__log_refusal("a barrier for 0 tasks: expected 1 or more");
}

weir_barrier *
weir_barrier_new(size_t n)
{
        if (n > 0)
                return (weir_barrier *)weir__waitable_new(&barrier_ops, 0, n, NULL);
        errno = -refuse();
        return NULL;
}

weir_barrier *
weir_barrier_open(const char *name, size_t n)
{
        if (n > 0)
                return (weir_barrier *)weir__waitable_unique(weir__waitable_new_named(&barrier_ops, name, 0, n, NULL));
        errno = -refuse();
        return NULL;
}

WEIR__WAITABLE_REFERENCES(weir_barrier, weir_barrier_ref, weir_barrier_unref)

/* -- arriving -- */

/* Ends the generation: moves all waits to `others`, where dumps do not follow them.  Under the lock. */
static void
take_all(struct weir_barrier *barrier, struct weir__list *others)
{
        for (struct weir__wait_cursor *cursor = barrier->object.cursors; cursor; cursor = cursor->next)
                cursor->at = NULL;
        weir__list_concat(others, &barrier->waits);
        barrier->object.linked = 0;
        barrier->generation++;
}

/* Delivers tasks that were taken off with their queue.  Each belongs to its worker from then on. */
static void
let_through(struct weir__list *others)
{
        for (struct weir__link *link; (link = weir__list_pop(others));) {
                struct weir__wait *wait = weir__container_of(link, struct weir__wait, link);

                atomic_store_explicit(&wait->is_linked, false, memory_order_relaxed);
                weir__task_make_ready(&wait->task->task);
        }
}

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir_barrier *barrier = (struct weir_barrier *)self->wait.object;
        struct weir__list others = {0};

        weir__lock(&barrier->object.lock);
        bool is_last = barrier->object.linked + 1 == barrier->object.limit && !weir__wait_is_over(self);
        if (is_last)
                take_all(barrier, &others);
        self->wait.amount = is_last ? LAST_ARRIVAL : barrier->generation;
        bool waits = weir__wait_finish_start(self, is_last ? 0 : -EAGAIN);
        weir__unlock(&barrier->object.lock);
        let_through(&others);
        if (!waits)
                weir__task_deliver(task);
}

/* A task that has arrived leaves the queue at once. */
static struct weir_task *
end_early(struct weir_task *task)
{
        struct weir__wait *wait = &((struct weir__wait_task *)task)->wait;
        struct weir_barrier *barrier = (struct weir_barrier *)wait->object;
        struct weir_task *ended = NULL;

        weir__lock(&barrier->object.lock);
        if (wait->amount == NOT_YET || wait->amount == barrier->generation)
                ended = weir__wait_end_early(task);
        if (ended)
                weir__wait_unlink(wait);
        weir__unlock(&barrier->object.lock);
        return ended;
}

static const struct weir__task_ops arrive_ops = {
        .work = {.run = weir__wait_run,
                 .kind = "an arrival",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = start,
        .end_early = end_early,
        .release = weir__wait_release,
        .describe = weir__wait_describe,
};

weir_task *
weir_barrier_arrive_new(weir_barrier *barrier, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__wait_task_new(&arrive_ops, (struct weir__waitable *)barrier, 0, done, context);

        if (!self)
                return NULL;
        self->wait.amount = NOT_YET;
        return &self->task;
}

bool
weir_barrier_is_last(const weir_task *task)
{
        weir__memory_expect(task);
        return task && weir__task_ops(task) == &arrive_ops && ((const struct weir__wait_task *)task)->wait.amount == LAST_ARRIVAL;
}
