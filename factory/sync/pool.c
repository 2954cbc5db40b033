/* factory/sync/pool.c: pools of objects.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * Each object lies in a slot.  The slots of the objects that are there are a stack.  A task is given the object with its slot,
 * so putting it back needs no memory.  An object that is taken leaves its slot behind as a spare one, for the next object that is
 * put. */
#include <weir/pool.h>

#include <errno.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"

struct slot {
        struct slot *below;
        void *object;
};

struct weir_pool {
        struct weir__waitable waitable; /* first */

        /* Guarded by the lock of `waitable`. */
        struct weir__list waits; /* tasks wait only while there is no object */
        struct slot *top, *spare;
};

/* -- the slots; under the lock -- */

static void
push(struct slot **stack, struct slot *slot)
{
        slot->below = *stack;
        *stack = slot;
}

static struct slot *
pop(struct slot **stack)
{
        struct slot *slot = *stack;

        if (slot)
                *stack = slot->below;
        return slot;
}

/* The object that was put last, in its slot.  NULL: there is none. */
static struct slot *
take(weir_pool *pool)
{
        struct slot *slot = pop(&pool->top);

        if (slot)
                pool->waitable.amount--;
        return slot;
}

/* Makes the slot a spare one.  Returns its object.  Accepts NULL. */
static void *
empty(weir_pool *pool, struct slot *slot)
{
        if (!slot)
                return NULL;
        push(&pool->spare, slot);
        return slot->object;
}

/* Gives the slot to the task that has waited longest, or to the pool. */
static void
give(weir_pool *pool, struct slot *slot, struct weir__work_list *claimed)
{
        struct weir__wait *taker = weir__wait_pop(&pool->waits, claimed);

        if (taker) {
                taker->message = slot;
                return;
        }
        push(&pool->top, slot);
        pool->waitable.amount++;
}

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        (void)claimed;
        wait->message = take((weir_pool *)wait->object);
        return wait->message ? 0 : -EAGAIN;
}

/* -- pools -- */

static void
clear(struct weir__waitable *waitable)
{
        weir_pool *pool = (weir_pool *)waitable;
        struct slot *slot;

        while ((slot = take(pool)))
                weir__waitable_drop(waitable, empty(pool, slot));
        while ((slot = pop(&pool->spare)))
                weir__free(slot, sizeof *slot);
}

static const struct weir__waitable_ops pool_ops = {
        .kind = WEIR__POOL, .noun = "pool", .size = sizeof(struct weir_pool), .queues = 1, .try = try, .clear = clear};

weir_pool *
weir_pool_new(weir_free_fn *drop)
{
        return (weir_pool *)weir__waitable_new(&pool_ops, 0, 0, drop);
}

weir_pool *
weir_pool_open(const char *name, weir_free_fn *drop)
{
        return (weir_pool *)weir__waitable_unique(weir__waitable_new_named(&pool_ops, name, 0, 0, drop));
}

WEIR__WAITABLE_REFERENCES(weir_pool, weir_pool_ref, weir_pool_unref)

/* Without a slot the object gets a spare one, or a new one.  Returns false without memory for it. */
static bool
put(weir_pool *pool, struct slot *slot, void *object)
{
        struct weir__work_list claimed = {0};

        weir__waitable_lock(&pool->waitable);
        if (!slot)
                slot = pop(&pool->spare);
        if (!slot) {
                weir__unlock(&pool->waitable.lock);
                slot = weir__alloc(sizeof *slot);
                if (!slot)
                        return false;
                weir__waitable_lock(&pool->waitable);
        }
        slot->object = object;
        give(pool, slot, &claimed);
        weir__unlock(&pool->waitable.lock);
        weir__wait_deliver_all(&claimed);
        return true;
}

int
weir_pool_put(weir_pool *pool, void *object)
{
        weir__memory_expect(pool);
        if (!pool)
                return -ENOMEM;
        if (!object)
                return weir__log_refusal("weir_pool_put: the object is NULL: expected one");
        if (weir__phase_is_forked())
                return -ECHILD;
        return put(pool, NULL, object) ? 0 : -ENOMEM;
}

void *
weir_pool_try_take(weir_pool *pool)
{
        if (weir__waitable_fault((struct weir__waitable *)pool))
                return NULL;
        weir__waitable_lock(&pool->waitable);
        void *object = empty(pool, take(pool));
        weir__unlock(&pool->waitable.lock);
        return object;
}

size_t
weir_pool_available(weir_pool *pool)
{
        return weir__waitable_amount((struct weir__waitable *)pool);
}

/* -- the task; the message of its wait is the slot of its object -- */

/* In a forked child the object stays where it is: a thread that had the lock at the fork is not there to let it go. */
static void
release(struct weir_task *task, bool discarded)
{
        struct weir__wait *wait = &((struct weir__wait_task *)task)->wait;
        struct slot *slot = wait->message;

        if (slot && !weir__phase_is_forked())
                put((weir_pool *)wait->object, slot, slot->object);
        wait->message = NULL;
        weir__wait_release(task, discarded);
}

static const struct weir__task_ops take_ops = WEIR__WAIT_TASK_OPS("a take", weir__wait_run, release);

weir_task *
weir_pool_take_new(weir_pool *pool, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__wait_task_new(&take_ops, (struct weir__waitable *)pool, 0, done, context);
}

static struct weir__wait *
wait_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && weir__task_ops(task) == &take_ops ? &((struct weir__wait_task *)task)->wait : NULL;
}

void *
weir_pool_object(const weir_task *task)
{
        const struct weir__wait *wait = wait_of(task);

        return wait && wait->message ? ((struct slot *)wait->message)->object : NULL;
}

void *
weir_pool_take_object(weir_task *task)
{
        struct weir__wait *wait = wait_of(task);
        struct slot *slot = weir__wait_take_message(wait);

        if (!slot || weir__phase_is_forked())
                return slot ? slot->object : NULL;
        weir__lock(&wait->object->lock);
        void *object = empty((weir_pool *)wait->object, slot);
        weir__unlock(&wait->object->lock);
        return object;
}
