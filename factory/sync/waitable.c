/* factory/sync/waitable.c: objects that tasks wait at: their lives, their names, their registry.
 *
 * Threads: any.
 * Locks:   the object's (rank WAITABLE), under that of the shard of its name at most; a part of the registry's (a leaf), alone.  No
 *          user code runs under them. */
#include "factory/sync/waitable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/runtime.h"
#include "kernel/data/visible.h"
#include "kernel/sched/worker.h"

#define PARTS 16 /* of the registry */

#define TITLE_NAME 64 /* bytes of a name in a title */

static struct weir__names names[WEIR__WAITABLE_KINDS] = {[0 ... WEIR__WAITABLE_KINDS - 1] = WEIR__NAMES_INITIALIZER};

static struct part {
        _Alignas(64) struct weir__lock lock;
        struct weir__waitable *first; /* guarded by lock */
} registry[PARTS] = {[0 ... PARTS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)}};

/* -- the registry -- */

static struct part *
part_of(const struct weir__waitable *object)
{
        return &registry[object->part];
}

static void
enlist(struct weir__waitable *object)
{
        static atomic_uint turn;
        struct part *part;

        /* On the virtual clock one list serves, so that a shutdown ends all in the same order each time. */
        object->part = weir__clock_is_virtual() ? 0 : atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % PARTS;
        part = part_of(object);
        weir__lock(&part->lock);
        object->next = part->first;
        if (object->next)
                object->next->previous = object;
        part->first = object;
        weir__unlock(&part->lock);
}

static void
delist(struct weir__waitable *object)
{
        struct part *part = part_of(object);

        weir__lock(&part->lock);
        *(object->previous ? &object->previous->next : &part->first) = object->next;
        if (object->next)
                object->next->previous = object->previous;
        weir__unlock(&part->lock);
}

/* Unless it is about to be freed; then what was done with it happens before what is done with another of its name.  Where something
 * keeps its memory: the registry's lock, or a shard's. */
static bool
try_ref(struct weir__waitable *object)
{
        size_t references = atomic_load_explicit(&object->references, memory_order_acquire);

        while (references > 0)
                if (atomic_compare_exchange_weak_explicit(&object->references, &references, references + 1, memory_order_acquire,
                                                          memory_order_acquire))
                        return true;
        return false;
}

struct weir__waitable *
weir__waitable_next(struct weir__waitable *object)
{
        size_t at = object ? (size_t)(part_of(object) - registry) : 0;
        struct weir__waitable *before = object, *next = NULL;

        for (; at < PARTS && !next; at++, object = NULL) {
                weir__lock(&registry[at].lock);
                next = object ? object->next : registry[at].first;
                while (next && !try_ref(next))
                        next = next->next;
                weir__unlock(&registry[at].lock);
        }
        weir__waitable_unref(before);
        return next;
}

/* -- forks: as for timers; the lock of an object is its users' own business, as that of a series is -- */

static void
before_fork(void)
{
        for (unsigned kind = 0; kind < WEIR__WAITABLE_KINDS; kind++)
                weir__names_hold(&names[kind]);
        for (unsigned i = 0; i < PARTS; i++)
                weir__lock_hold(&registry[i].lock);
}

static void
after_fork(void)
{
        for (unsigned i = 0; i < PARTS; i++)
                weir__unlock(&registry[i].lock);
        for (unsigned kind = 0; kind < WEIR__WAITABLE_KINDS; kind++)
                weir__names_let_go(&names[kind]);
}

/* -- the shutdown: nothing that is never fulfilled is left -- */

static void
end_all(void)
{
        for (struct weir__waitable *object = NULL; (object = weir__waitable_next(object));) {
                for (unsigned i = 0; i < object->ops->lists; i++) {
                        weir__lock(&object->lock);
                        weir__wait_end_all(object, &weir__waitable_lists(object)[i], -ESHUTDOWN);
                        weir__unlock(&object->lock);
                }
        }
}

WEIR__STEPS_OF(WEIR__MODULE_WAITABLES, [WEIR__STEP_SHUTDOWN] = end_all, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);

/* -- objects -- */

static size_t
size_of(const struct weir__waitable_ops *ops, size_t name_size)
{
        return name_size > 0 ? WEIR__NAME_SIZE(ops->size, name_size) : ops->size;
}

static struct weir__waitable *
make(const struct weir__waitable_ops *ops, const char *name, size_t name_size)
{
        struct weir__waitable *object = weir__alloc(size_of(ops, name_size));

        if (!object) {
                errno = ENOMEM;
                return NULL;
        }
        memset(object, 0, ops->size);
        object->ops = ops;
        object->name = NULL;
        atomic_init(&object->references, 1);
        weir__lock_init(&object->lock, WEIR__RANK_WAITABLE);
        if (name_size > 0) {
                object->name = (struct weir__name *)((char *)object + ops->size);
                struct weir__name_key key = weir__name_key(name, name_size);

                weir__names_init(object->name, &key);
        }
        enlist(object);
        return object;
}

struct weir__waitable *
weir__waitable_new(const struct weir__waitable_ops *ops)
{
        return make(ops, NULL, 0);
}

struct weir__waitable *
weir__waitable_new_named(const struct weir__waitable_ops *ops, const char *name)
{
        size_t size = name ? strlen(name) : 0;

        if (size == 0 || size > WEIR_NAME_MAX) {
                errno = size == 0 ? EINVAL : ENAMETOOLONG;
                return NULL;
        }
        return make(ops, name, size);
}

static struct weir__names *
map_of(const struct weir__waitable *object)
{
        return &names[object->ops->kind];
}

int
weir__waitable_publish(struct weir__waitable *object)
{
        struct weir__names_shard *shard = weir__names_lock(map_of(object), object->name->hash);
        bool put = weir__names_put(shard, object->name);

        weir__names_unlock(shard);
        return put ? 0 : -ENOMEM;
}

static struct weir__waitable *
bearer_of(struct weir__name *name, const struct weir__waitable_ops *ops)
{
        return (struct weir__waitable *)((char *)name - ops->size);
}

/* The oldest of that name that is not about to be freed.  Under the shard's lock. */
static struct weir__waitable *
find(struct weir__names_shard *shard, const struct weir__name_key *key, const struct weir__waitable_ops *ops)
{
        for (struct weir__name *name = weir__names_find(shard, key); name; name = name->newer)
                if (try_ref(bearer_of(name, ops)))
                        return bearer_of(name, ops);
        return NULL;
}

struct weir__waitable *
weir__waitable_unique(struct weir__waitable *made)
{
        if (!made)
                return NULL;
        struct weir__name_key key = weir__name_key_of(made->name);
        struct weir__names_shard *shard = weir__names_lock(map_of(made), key.hash);
        struct weir__waitable *found = find(shard, &key, made->ops);
        bool put = !found && weir__names_put(shard, made->name);
        weir__names_unlock(shard);
        if (put)
                return made;
        weir__waitable_unref(made);
        if (!found)
                errno = ENOMEM;
        return found;
}

void
weir__waitable_ref_more(struct weir__waitable *object, unsigned count)
{
        if (object)
                atomic_fetch_add_explicit(&object->references, count, memory_order_relaxed);
}

struct weir__waitable *
weir__waitable_ref(struct weir__waitable *object)
{
        weir__waitable_ref_more(object, 1);
        return object;
}

void
weir__waitable_unref_more(struct weir__waitable *object, unsigned count)
{
        if (!object || atomic_fetch_sub_explicit(&object->references, count, memory_order_acq_rel) > count)
                return;
        if (object->name)
                weir__names_remove(map_of(object), object->name);
        delist(object);
        if (object->ops->drop)
                object->ops->drop(object);
        weir__free(object, size_of(object->ops, object->name ? object->name->size : 0));
}

void
weir__waitable_unref(struct weir__waitable *object)
{
        weir__waitable_unref_more(object, 1);
}

int
weir__waitable_title(const struct weir__waitable *object, char *out, size_t room)
{
        if (!object->name)
                return snprintf(out, room, "%s", object->ops->noun);
        size_t shown = weir__utf8_cut(object->name->text, object->name->size, TITLE_NAME);
        return snprintf(out, room, "%s \"%.*s%s\"", object->ops->noun, (int)shown, object->name->text,
                        shown < object->name->size ? "..." : "");
}

bool
weir__waitable_prune(struct weir__waitable *object)
{
        unsigned left = WEIR__WAITS_AT_ONCE;

        for (unsigned i = 0; i < object->ops->lists; i++) {
                struct weir__wait_list *list = &weir__waitable_lists(object)[i];

                while (list->first && weir__wait_is_over(list->first->task)) {
                        if (left-- == 0)
                                return false;
                        weir__wait_unlink(list->first);
                }
        }
        return true;
}

void
weir__waitable_prune_all(struct weir__waitable *object)
{
        while (!weir__waitable_prune(object)) {
                weir__unlock(&object->lock);
                weir__lock(&object->lock);
        }
}

/* -- all of one name -- */

/* From where the walk is on, for one hold of the shard's lock.  Returns whether it goes on. */
static bool
visit_some(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__waitable_ops *ops,
           weir__waitable_visit *visit, void *context, struct weir__work_list *claimed)
{
        bool enough = false;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE && !enough; i++) {
                struct weir__name *name = weir__names_walk_at(walk);

                if (!name)
                        return false;
                struct weir__waitable *object = bearer_of(name, ops);
                weir__lock(&object->lock);
                bool leaves = visit(object, context, claimed, &enough);
                weir__unlock(&object->lock);
                weir__names_walk_on(walk);
                if (leaves)
                        weir__names_unlink(shard, name);
        }
        return !enough;
}

void
weir__waitable_visit_named(const struct weir__waitable_ops *ops, const char *name, weir__waitable_visit *visit, void *context)
{
        struct weir__work_list claimed = {0};
        struct weir__names_walk walk;
        struct weir__name_key key;
        bool more = true;

        if (weir__phase_is_forked() || weir__name_read(name, &key))
                return;
        struct weir__names_shard *shard = weir__names_lock(&names[ops->kind], key.hash);
        weir__names_walk_begin(shard, &walk, &key, false);
        while (more) {
                more = visit_some(shard, &walk, ops, visit, context, &claimed);
                if (!more)
                        weir__names_walk_end(shard, &walk);
                weir__names_unlock(shard);
                weir__wait_deliver_all(&claimed);
                if (more)
                        weir__names_lock(&names[ops->kind], key.hash);
        }
}
