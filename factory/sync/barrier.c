/* factory/sync/barrier.c: barriers.
 *
 * Threads: any.
 * Locks:   the object's, which a cancel takes as well, under the lock of the series: the last to arrive must know who is there.
 *          So all that is linked waits, unlike at other objects, and the length of the list is how many are there.
 *
 * The last to arrive takes the whole list, however long, and begins the next generation: from then on a cancel of one of an older
 * one comes too late, and nobody else touches these waits.  They are delivered without the lock. */
#include <weir/barrier.h>

#include <errno.h>
#include <stdio.h>

#include "factory/sync/cursor.h"
#include "factory/task/series.h"
#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"

#define NOT_YET UINT64_MAX /* for a generation */

struct weir_barrier {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits; /* of this generation */
        uint64_t generation;

        size_t n; /* constant */
};

struct arrival {
        struct weir__wait_task wait; /* first */
        uint64_t generation;         /* in which it has arrived; guarded by the object's lock */
        bool last;                   /* its owner's */
};

/* -- barriers -- */

static const struct weir__waitable_ops barrier_ops = {
        .kind = WEIR__BARRIER, .noun = "barrier", .size = sizeof(struct weir_barrier), .lists = 1};

weir_barrier *
weir_barrier_new(size_t n)
{
        if (n == 0) {
                errno = EINVAL;
                return NULL;
        }
        struct weir_barrier *barrier = (struct weir_barrier *)weir__waitable_new(&barrier_ops);
        if (barrier)
                barrier->n = n;
        return barrier;
}

weir_barrier *
weir_barrier_open(const char *name, size_t n)
{
        if (n == 0) {
                errno = EINVAL;
                return NULL;
        }
        struct weir_barrier *barrier = (struct weir_barrier *)weir__waitable_new_named(&barrier_ops, name);
        if (barrier)
                barrier->n = n;
        barrier = (struct weir_barrier *)weir__waitable_unique((struct weir__waitable *)barrier);
        if (!barrier || barrier->n == n)
                return barrier;
        weir_barrier_unref(barrier);
        errno = EEXIST;
        return NULL;
}

weir_barrier *
weir_barrier_ref(weir_barrier *barrier)
{
        return (weir_barrier *)weir__waitable_ref((struct weir__waitable *)barrier);
}

void
weir_barrier_unref(weir_barrier *barrier)
{
        weir__waitable_unref((struct weir__waitable *)barrier);
}

/* -- arriving -- */

/* Takes the whole list; those who look on leave it.  Under the lock. */
static struct weir__wait *
take_all(struct weir_barrier *barrier)
{
        struct weir__wait *first = barrier->waits.first;

        barrier->waits.first = barrier->waits.last = NULL;
        atomic_store_explicit(&barrier->waits.length, 0, memory_order_relaxed);
        weir__cursors_forget(barrier);
        return first;
}

/* Those who were taken off with their list.  Each is its worker's from its delivery on. */
static void
let_through(struct weir__wait *wait)
{
        while (wait) {
                struct weir__wait *next = wait->next;
                struct weir__wait_task *self = wait->task;

                atomic_store_explicit(&wait->list, NULL, memory_order_relaxed);
                atomic_store_explicit(&self->task.word, WEIR__READY, memory_order_release);
                weir__wait_deliver(self);
                wait = next;
        }
}

static void
start(struct weir_task *task)
{
        struct arrival *self = (struct arrival *)task;
        struct weir_barrier *barrier = (struct weir_barrier *)self->wait.wait.object;
        struct weir__wait *others = NULL;

        weir__lock(&barrier->object.lock);
        self->last = barrier->waits.length + 1 == barrier->n && !weir__wait_is_over(&self->wait);
        if (self->last) {
                others = take_all(barrier);
                barrier->generation++;
        }
        self->generation = barrier->generation;
        enum weir__wait_begun begun = weir__wait_begin(&self->wait, &barrier->waits, self->last, 0);
        weir__unlock(&barrier->object.lock);
        let_through(others);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(&self->wait);
}

/* One that has arrived leaves the list at once. */
static struct weir_task *
cancel(struct weir_task *task)
{
        struct arrival *self = (struct arrival *)task;
        struct weir_barrier *barrier = (struct weir_barrier *)self->wait.wait.object;
        struct weir_task *ended = NULL;

        weir__lock(&barrier->object.lock);
        if (self->generation == NOT_YET || self->generation == barrier->generation)
                ended = weir__wait_cancel(task);
        if (ended)
                weir__wait_unlink(&self->wait.wait);
        weir__unlock(&barrier->object.lock);
        return ended;
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir_barrier *barrier = (struct weir_barrier *)((const struct weir__wait_task *)task)->wait.object;

        weir__lock(&barrier->object.lock);
        size_t there = barrier->waits.length;
        weir__unlock(&barrier->object.lock);
        int size = weir__waitable_title(&barrier->object, out, room);
        if (size >= 0 && (size_t)size < room)
                snprintf(out + size, room - (size_t)size, ", at which %zu of %zu are", there, barrier->n);
}

static const struct weir__task_ops arrive_ops = {
        .work = {.run = weir__wait_run, .kind = "an arrival", .is_migratable = true, .calls = weir__task_calls},
        .start = start,
        .cancel = cancel,
        .release = weir__wait_release,
        .describe = describe,
};

weir_task *
weir_barrier_arrive_new(weir_barrier *barrier, weir_task_fn *done, void *context)
{
        struct arrival *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__wait_task_init(&self->wait, &arrive_ops, sizeof *self, (struct weir__waitable *)barrier, done, context);
        self->generation = NOT_YET;
        self->last = false;
        return &self->wait.task;
}

bool
weir_barrier_is_last(const weir_task *task)
{
        return task && weir__task_ops(task) == &arrive_ops && ((const struct arrival *)task)->last;
}
