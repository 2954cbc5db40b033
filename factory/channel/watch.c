/* factory/channel/watch.c: values that many watch: tasks wait for one that is newer than the one that they know.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * A value lies in a cell with a count: the watch has a reference to the newest one, and each task that was given it.  The last
 * one drops the value.
 *
 * The amount of the object is the version of the newest value.  The amount of a wait that is linked is the version that its task
 * knows, which is the present one then.  So the waits lie in the order of these, and those that a new value concerns are in
 * front.  The message of a wait that was fulfilled is the cell. */
#include <weir/watch.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"

struct cell {
        atomic_size_t references;
        uint64_t version; /* the rest is constant */
        void *value;
};

struct weir_watch {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits;
        struct cell *newest; /* NULL: there is none */
        bool is_closed;
};

/* -- cells -- */

static struct cell *
cell_ref(struct cell *cell)
{
        atomic_fetch_add_explicit(&cell->references, 1, memory_order_relaxed);
        return cell;
}

/* Accepts NULL.  No lock is held. */
static void
cell_unref(const struct weir__waitable *object, struct cell *cell)
{
        if (!cell || atomic_fetch_sub_explicit(&cell->references, 1, memory_order_acq_rel) > 1)
                return;
        weir__waitable_drop(object, cell->value);
        weir__free(cell, sizeof *cell);
}

/* -- the watch -- */

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct weir_watch *watch = (struct weir_watch *)wait->object;

        (void)claimed;
        if (watch->newest && watch->object.amount > wait->amount) {
                wait->message = cell_ref(watch->newest);
                return 0;
        }
        wait->amount = watch->object.amount; /* it may have come from another watch of that name */
        return watch->is_closed ? -EPIPE : -EAGAIN;
}

/* Gives the newest value to some of those that know an older one.  Returns whether there may be more. */
static bool
serve_some(struct weir__waitable *object, struct weir__work_list *claimed)
{
        struct weir_watch *watch = (struct weir_watch *)object;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest(&watch->waits);

                if (!wait || wait->amount >= watch->object.amount)
                        return false;
                wait = weir__wait_claim_oldest(&watch->waits, claimed);
                if (wait)
                        wait->message = cell_ref(watch->newest);
        }
        return true;
}

static void
clear(struct weir__waitable *object)
{
        cell_unref(object, ((struct weir_watch *)object)->newest);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        (void)wait;
        snprintf(out, room, "for a version above %" PRIu64, object->amount);
}

static const struct weir__waitable_ops watch_ops = {.kind = WEIR__WATCH,
                                                    .noun = "watch",
                                                    .size = sizeof(struct weir_watch),
                                                    .queues = 1,
                                                    .try = try,
                                                    .clear = clear,
                                                    .describe = describe};

weir_watch *
weir_watch_new(weir_free_fn *drop)
{
        return (weir_watch *)weir__waitable_new(&watch_ops, 0, 0, drop);
}

weir_watch *
weir_watch_open(const char *name, weir_free_fn *drop)
{
        return (weir_watch *)weir__waitable_unique(weir__waitable_new_named(&watch_ops, name, 0, 0, drop));
}

WEIR__WAITABLE_REFERENCES(weir_watch, weir_watch_ref, weir_watch_unref)

/* Lets the lock go. */
static void
serve_and_unlock(struct weir_watch *watch)
{
        weir__wait_serve_and_unlock(&watch->object, serve_some);
}

static int
set(struct weir_watch *watch, struct cell *cell)
{
        weir__waitable_lock(&watch->object);
        if (watch->is_closed) {
                weir__unlock(&watch->object.lock);
                weir__free(cell, sizeof *cell);
                return -EPIPE;
        }
        struct cell *before = watch->newest;
        cell->version = ++watch->object.amount;
        watch->newest = cell;
        serve_and_unlock(watch);
        cell_unref(&watch->object, before);
        return 0;
}

int
weir_watch_set(weir_watch *watch, void *value)
{
        int fault = weir__waitable_fault((struct weir__waitable *)watch);
        struct cell *cell = fault ? NULL : weir__alloc(sizeof *cell);

        if (!cell)
                return fault ? fault : -ENOMEM;
        atomic_init(&cell->references, 1);
        cell->value = value;
        return set(watch, cell);
}

int
weir_watch_close(weir_watch *watch)
{
        int failed = weir__waitable_fault((struct weir__waitable *)watch);

        if (failed)
                return failed;
        weir__waitable_lock(&watch->object);
        if (watch->is_closed)
                failed = -EALREADY;
        watch->is_closed = true;
        serve_and_unlock(watch); /* a set may be at it */
        weir__waitable_lock(&watch->object);
        weir__wait_end_all(&watch->object, &watch->waits, -EPIPE);
        weir__unlock(&watch->object.lock);
        return failed;
}

uint64_t
weir_watch_version(weir_watch *watch)
{
        return weir__waitable_amount((struct weir__waitable *)watch);
}

/* -- tasks -- */

/* The cell that the task was given; NULL: none, or it does not run yet. */
static struct cell *
cell_of(const struct weir_task *task)
{
        bool runs = atomic_load_explicit(&task->word, memory_order_relaxed) == WEIR__RUNNING;

        return !runs || task->status ? NULL : ((const struct weir__wait_task *)task)->wait.message;
}

static void
release(struct weir_task *task, bool discarded)
{
        struct weir__waitable *object = ((struct weir__wait_task *)task)->wait.object;

        (void)discarded;
        cell_unref(object, cell_of(task));
        weir__waitable_unref(object);
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a watch", weir__wait_run, release);

weir_task *
weir_watch_wait_new(weir_watch *watch, uint64_t seen, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__wait_task_new(&wait_ops, (struct weir__waitable *)watch, 0, done, context);

        if (!self)
                return NULL;
        self->wait.amount = seen;
        return &self->task;
}

static const struct cell *
cell_of_watch(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && weir__task_ops(task) == &wait_ops ? cell_of(task) : NULL;
}

void *
weir_watch_value(const weir_task *task)
{
        const struct cell *cell = cell_of_watch(task);

        return cell ? cell->value : NULL;
}

uint64_t
weir_watch_seen(const weir_task *task)
{
        const struct cell *cell = cell_of_watch(task);

        return cell ? cell->version : 0;
}
