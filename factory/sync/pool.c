/* factory/sync/pool.c: pools of objects.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * The objects are a stack of places.  A task is given the object with its place, so putting the object back needs no memory and
 * cannot fail. */
#include <weir/pool.h>

#include <errno.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"

struct place {
        struct place *below;
        void *object;
};

struct weir_pool {
        struct weir__waitable waitable; /* first */

        /* Guarded by the lock of `waitable`. */
        struct weir__list waits; /* tasks wait only while there is no object */
        struct place *top;
};

/* Frees the place.  Returns its object.  Accepts NULL. */
static void *
free_place(struct place *place)
{
        void *object = place ? place->object : NULL;

        if (place)
                weir__free(place, sizeof *place);
        return object;
}

/* -- the stack; under the lock -- */

static struct place *
pop(weir_pool *pool)
{
        struct place *place = pool->top;

        if (place) {
                pool->top = place->below;
                pool->waitable.amount--;
        }
        return place;
}

/* Gives the place to the task that has waited longest, or to the pool. */
static void
push(weir_pool *pool, struct place *place, struct weir__work_list *claimed)
{
        struct weir__wait *taker = weir__wait_pop(&pool->waits, claimed);

        if (taker) {
                taker->message = place;
                return;
        }
        place->below = pool->top;
        pool->top = place;
        pool->waitable.amount++;
}

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        (void)claimed;
        wait->message = pop((weir_pool *)wait->object);
        return wait->message ? 0 : -EAGAIN;
}

/* -- pools -- */

static void
clear(struct weir__waitable *waitable)
{
        for (struct place *place; (place = pop((weir_pool *)waitable));)
                weir__waitable_drop(waitable, free_place(place));
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

weir_pool *
weir_pool_ref(weir_pool *pool)
{
        return (weir_pool *)weir__waitable_ref((struct weir__waitable *)pool);
}

void
weir_pool_unref(weir_pool *pool)
{
        weir__waitable_unref((struct weir__waitable *)pool);
}

static void
put(weir_pool *pool, struct place *place)
{
        struct weir__work_list claimed = {0};

        weir__waitable_lock(&pool->waitable);
        push(pool, place, &claimed);
        weir__unlock(&pool->waitable.lock);
        weir__wait_deliver_all(&claimed);
}

int
weir_pool_put(weir_pool *pool, void *object)
{
        if (!pool || !object)
                return pool ? -EINVAL : -ENOMEM;
        if (weir__phase_is_forked())
                return -ECHILD;
        struct place *place = weir__alloc(sizeof *place);
        if (!place)
                return -ENOMEM;
        place->object = object;
        put(pool, place);
        return 0;
}

void *
weir_pool_try_take(weir_pool *pool)
{
        struct weir__wait wait = {.object = (struct weir__waitable *)pool};

        return weir__wait_at_once(&wait) == 0 ? free_place(wait.message) : NULL;
}

size_t
weir_pool_available(weir_pool *pool)
{
        return weir__waitable_amount((struct weir__waitable *)pool);
}

/* -- the task; the message of its wait is the place of its object -- */

/* In a forked child the object stays where it is: a thread that had the lock at the fork is not there to let it go. */
static void
release(struct weir_task *task, bool discarded)
{
        struct weir__wait *wait = &((struct weir__wait_task *)task)->wait;

        if (wait->message && !weir__phase_is_forked())
                put((weir_pool *)wait->object, wait->message);
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
        return task && weir__task_ops(task) == &take_ops ? &((struct weir__wait_task *)task)->wait : NULL;
}

void *
weir_pool_object(const weir_task *task)
{
        const struct weir__wait *wait = wait_of(task);

        return wait && wait->message ? ((struct place *)wait->message)->object : NULL;
}

void *
weir_pool_take_object(weir_task *task)
{
        struct weir__wait *wait = wait_of(task);

        return wait ? free_place(weir__wait_take_message(wait)) : NULL;
}
