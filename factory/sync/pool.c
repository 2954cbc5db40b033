/* factory/sync/pool.c: pools of objects.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * The objects that are there are a stack.  One that a task was given and that its callback leaves goes back by itself, and
 * that must not fail: so there is always a place for each of those, `lent` of them, besides the places of those that are
 * there. */
#include <weir/pool.h>

#include <errno.h>
#include <stdlib.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/sched/user.h"

#define FEWEST_PLACES 8

struct weir_pool {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits; /* only while no object is there */
        void **objects;
        size_t length, places; /* length + lent <= places */
        size_t lent;           /* objects of tasks, which come back unless they are taken */

        weir_free_fn *drop; /* constant */
};

static void
drop_all(struct weir__waitable *object)
{
        weir_pool *pool = (weir_pool *)object;

        while (pool->length > 0 && pool->drop)
                weir__user_call(pool->drop, pool->objects[--pool->length]);
        free(pool->objects);
}

static const struct weir__waitable_ops pool_ops = {
        .kind = WEIR__POOL, .noun = "pool", .size = sizeof(struct weir_pool), .lists = 1, .drop = drop_all};

weir_pool *
weir_pool_new(weir_free_fn *drop)
{
        weir_pool *pool = (weir_pool *)weir__waitable_new(&pool_ops);

        if (pool)
                pool->drop = drop;
        return pool;
}

weir_pool *
weir_pool_open(const char *name, weir_free_fn *drop)
{
        weir_pool *pool = (weir_pool *)weir__waitable_new_named(&pool_ops, name);

        if (pool)
                pool->drop = drop;
        pool = (weir_pool *)weir__waitable_unique((struct weir__waitable *)pool);
        if (!pool || pool->drop == drop)
                return pool;
        weir_pool_unref(pool);
        errno = EEXIST;
        return NULL;
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

/* -- objects; under the lock -- */

static bool
make_place(weir_pool *pool)
{
        if (pool->length + pool->lent < pool->places)
                return true;
        size_t places = pool->places ? 2 * pool->places : FEWEST_PLACES;
        void **objects = realloc(pool->objects, places * sizeof *objects);
        if (!objects)
                return false;
        pool->objects = objects;
        pool->places = places;
        return true;
}

/* Into a place that is there.  Returns who has the object now, whom the caller delivers; NULL: the pool. */
static struct weir__wait *
give(weir_pool *pool, void *object)
{
        struct weir__wait *taker = weir__wait_pop(&pool->waits);

        if (taker) {
                taker->message = object;
                pool->lent++;
        } else {
                pool->objects[pool->length++] = object;
        }
        return taker;
}

static void *
take(weir_pool *pool)
{
        return pool->length > 0 ? pool->objects[--pool->length] : NULL;
}

/* -- and without -- */

static bool
is_usable(const weir_pool *pool)
{
        return pool && !weir__phase_is_forked();
}

static void
deliver(struct weir__wait *taker)
{
        if (taker)
                weir__wait_deliver(taker->task);
}

int
weir_pool_put(weir_pool *pool, void *object)
{
        struct weir__wait *taker = NULL;

        if (!is_usable(pool) || !object)
                return !pool ? -ENOMEM : !object ? -EINVAL : -ECHILD;
        weir__waitable_lock(&pool->object);
        bool has_place = make_place(pool);
        if (has_place)
                taker = give(pool, object);
        weir__unlock(&pool->object.lock);
        deliver(taker);
        return has_place ? 0 : -ENOMEM;
}

void *
weir_pool_try_take(weir_pool *pool)
{
        if (!is_usable(pool))
                return NULL;
        weir__lock(&pool->object.lock);
        void *object = take(pool);
        weir__unlock(&pool->object.lock);
        return object;
}

size_t
weir_pool_available(weir_pool *pool)
{
        if (!is_usable(pool))
                return 0;
        weir__lock(&pool->object.lock);
        size_t length = pool->length;
        weir__unlock(&pool->object.lock);
        return length;
}

/* -- the task -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        weir_pool *pool = (weir_pool *)self->wait.object;

        weir__lock(&pool->object.lock);
        bool granted = pool->length > 0 && !weir__wait_is_over(self);
        if (granted) {
                self->wait.message = take(pool);
                pool->lent++;
        }
        enum weir__wait_begun begun = weir__wait_begin(self, &pool->waits, granted, 0);
        weir__unlock(&pool->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
}

/* Ends that the task has an object: which it leaves to the pool, or to the caller. */
static void *
part(struct weir__wait *wait, bool leaves)
{
        weir_pool *pool = (weir_pool *)wait->object;
        struct weir__wait *taker = NULL;
        void *object = wait->message;

        if (!object)
                return NULL;
        wait->message = NULL;
        if (weir__phase_is_forked()) /* a thread that held the lock at the fork is not there to let it go */
                return object;
        weir__waitable_lock(&pool->object);
        pool->lent--;
        if (leaves)
                taker = give(pool, object);
        weir__unlock(&pool->object.lock);
        deliver(taker);
        return object;
}

static void
release(struct weir_task *task, bool discarded)
{
        part(&((struct weir__wait_task *)task)->wait, true);
        weir__wait_release(task, discarded);
}

static const struct weir__task_ops take_ops = WEIR__WAIT_TASK_OPS("a take", start, release, .describe = weir__wait_describe);

weir_task *
weir_pool_take_new(weir_pool *pool, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__wait_task_init(self, &take_ops, sizeof *self, (struct weir__waitable *)pool, done, context);
        self->wait.message = NULL;
        return &self->task;
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

        return wait ? wait->message : NULL;
}

void *
weir_pool_take_object(weir_task *task)
{
        struct weir__wait *wait = wait_of(task);

        return wait ? part(wait, false) : NULL;
}
