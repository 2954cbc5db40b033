/* factory/sync/waitable.c: objects that tasks wait at: their lives, their names, their registry.
 *
 * Threads: any.
 * Locks:   the object's (rank WAITABLE), under that of its name's shard at most; that of a part of the registry (a leaf), alone.
 *          No user code runs under them. */
#include "factory/sync/waitable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/data/count.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/runtime.h"
#include "kernel/data/visible.h"
#include "kernel/worker/worker.h"

#define REGISTRY_PARTS 16

#define TITLE_NAME 64 /* bytes of a name in a title */

static struct part {
        _Alignas(64) struct weir__lock lock;
        struct weir__hidden_link ends; /* its `older` is the newest object; zero: there never was one.  Guarded by lock */
} registry[REGISTRY_PARTS] = {[0 ... REGISTRY_PARTS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)}};

static atomic_uint cursors; /* of all objects */

static struct weir__names *
map_of(const struct weir__waitable *object)
{
        return &weir__waitable_names[object->ops->kind];
}

/* -- the registry -- */

static struct weir__hidden_link *
shown(uintptr_t link)
{
        return (struct weir__hidden_link *)~link;
}

static uintptr_t
hidden(const struct weir__hidden_link *link)
{
        return ~(uintptr_t)link;
}

/* The next older object; the newest one for the ends of a part; NULL: there is none.  Under the part's lock. */
static struct weir__waitable *
next_older(const struct part *part, const struct weir__hidden_link *link)
{
        struct weir__hidden_link *older = link->older ? shown(link->older) : NULL;

        return older && older != &part->ends ? weir__container_of(older, struct weir__waitable, link) : NULL;
}

static void
enlist(struct weir__waitable *object)
{
        static _Thread_local unsigned next_part;

        /* On the virtual clock one list serves, so that a shutdown ends all in the same order each time. */
        object->part = weir__clock_is_virtual() ? 0 : next_part++ % REGISTRY_PARTS;
        struct part *part = &registry[object->part];
        struct weir__hidden_link *ends = &part->ends;
        weir__lock(&part->lock);
        if (!ends->older)
                ends->older = ends->newer = hidden(ends);
        object->link = (struct weir__hidden_link){.newer = hidden(ends), .older = ends->older};
        ends->older = shown(ends->older)->newer = hidden(&object->link);
        weir__unlock(&part->lock);
}

static void
delist(struct weir__waitable *object)
{
        struct part *part = &registry[object->part];

        weir__lock(&part->lock);
        shown(object->link.newer)->older = object->link.older;
        shown(object->link.older)->newer = object->link.newer;
        weir__unlock(&part->lock);
}

/* Fails for an object that is about to be freed.  Then its last use happens before the first use of the next object of its name.
 * The lock of the registry or of a shard keeps the memory. */
static bool
try_ref(struct weir__waitable *object)
{
        return weir__count_add_unless_zero(&object->references);
}

/* The first of these objects which is not about to be freed.  Under the part's lock. */
static struct weir__waitable *
first_referenced(const struct part *part, struct weir__waitable *object)
{
        while (object && !try_ref(object))
                object = next_older(part, &object->link);
        return object;
}

struct weir__waitable *
weir__waitable_next(struct weir__waitable *object)
{
        struct weir__waitable *before = object, *next = NULL;

        for (unsigned at = object ? object->part : 0; at < REGISTRY_PARTS && !next; at++, object = NULL) {
                weir__lock(&registry[at].lock);
                next = first_referenced(&registry[at], next_older(&registry[at], object ? &object->link : &registry[at].ends));
                weir__unlock(&registry[at].lock);
        }
        weir__waitable_unref(before);
        return next;
}

/* -- forks: the locks of objects are not taken, for there may be a million -- */

static void
before_fork(void)
{
        for (unsigned i = 0; i < REGISTRY_PARTS; i++)
                weir__lock_hold(&registry[i].lock);
}

static void
after_fork(void)
{
        for (unsigned i = 0; i < REGISTRY_PARTS; i++)
                weir__unlock(&registry[i].lock);
}

/* The threads that had locks, and cursors of dumps, are not there.  A shutdown and a dump look at all objects.  They find no task
 * there: nothing ran at the fork, or the child may not use the library. */
static void
become_child(void)
{
        for (unsigned i = 0; i < REGISTRY_PARTS && !weir__phase_is_forked(); i++)
                for (struct weir__waitable *object = next_older(&registry[i], &registry[i].ends); object;
                     object = next_older(&registry[i], &object->link)) {
                        weir__lock_init(&object->lock, WEIR__RANK_WAITABLE);
                        object->cursors = NULL;
                }
        atomic_store(&cursors, 0);
        after_fork();
}

/* -- the shutdown: tasks whose wait nobody fulfils end -- */

static void
end_all(void)
{
        for (struct weir__waitable *object = NULL; (object = weir__waitable_next(object));) {
                for (unsigned i = 0; i < object->ops->queues; i++) {
                        weir__lock(&object->lock);
                        weir__wait_end_all(object, &weir__waitable_queues(object)[i], -ESHUTDOWN);
                        weir__unlock(&object->lock);
                }
        }
}

WEIR__STEPS_OF(WEIR__MODULE_WAITABLES, [WEIR__STEP_SHUTDOWN] = end_all, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = become_child);

/* -- objects -- */

static size_t
size_of(const struct weir__waitable_ops *ops, size_t name_size)
{
        return name_size > 0 ? WEIR__NAME_SIZE(ops->size, name_size) : ops->size;
}

/* Without a name for NULL. */
static struct weir__waitable *
make(const struct weir__waitable_ops *ops, const struct weir__name_key *key, uint64_t amount, uint64_t limit, weir_free_fn *drop)
{
        struct weir__waitable *object = weir__alloc(size_of(ops, key ? key->size : 0));

        if (!object) {
                errno = ENOMEM;
                return NULL;
        }
        memset(object, 0, ops->size);
        object->ops = ops;
        object->amount = amount;
        object->limit = limit;
        object->drop = drop;
        atomic_init(&object->references, 1);
        weir__lock_init(&object->lock, WEIR__RANK_WAITABLE);
        if (key) {
                object->name = (struct weir__name *)((char *)object + ops->size);
                weir__names_init(object->name, key);
        }
        enlist(object);
        return object;
}

struct weir__waitable *
weir__waitable_new(const struct weir__waitable_ops *ops, uint64_t amount, uint64_t limit, weir_free_fn *drop)
{
        return make(ops, NULL, amount, limit, drop);
}

struct weir__waitable *
weir__waitable_new_named(const struct weir__waitable_ops *ops, const char *name, uint64_t amount, uint64_t limit,
                         weir_free_fn *drop)
{
        struct weir__name_key key;
        int fault = weir__name_read(name, &key);

        if (!fault)
                return make(ops, &key, amount, limit, drop);
        errno = -weir__name_refuse(ops->noun, fault);
        return NULL;
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

/* The oldest object of that name which is not about to be freed.  Under the shard's lock. */
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
        if (weir__phase_is_forked()) {
                weir__waitable_unref(made);
                errno = ECHILD;
                return NULL;
        }
        struct weir__name_key key = weir__name_key_of(made->name);
        struct weir__names_shard *shard = weir__names_lock(map_of(made), key.hash);
        struct weir__waitable *found = find(shard, &key, made->ops);
        bool put = !found && weir__names_put(shard, made->name);
        weir__names_unlock(shard);
        if (put)
                return made;
        bool is_alike = found && found->limit == made->limit && found->drop == made->drop;
        weir__waitable_unref(made);
        if (is_alike)
                return found;
        weir__waitable_unref(found);
        errno = found ? EEXIST : ENOMEM;
        return NULL;
}

struct weir__waitable *
weir__waitable_find(const struct weir__waitable_ops *ops, const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__waitable_names[ops->kind], key->hash);
        struct weir__waitable *found = find(shard, key, ops);

        weir__names_unlock(shard);
        return found;
}

struct weir__waitable *
weir__waitable_ref(struct weir__waitable *object)
{
        weir__memory_expect(object);
        if (object)
                atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
        return object;
}

void
weir__waitable_unref(struct weir__waitable *object)
{
        if (!object || atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) > 1)
                return;
        if (object->name)
                weir__names_remove(map_of(object), object->name);
        delist(object);
        if (object->ops->clear)
                object->ops->clear(object);
        weir__free(object, size_of(object->ops, object->name ? object->name->size : 0));
}

/* Unlinks some of them.  Returns whether there are no more. */
static bool
prune_some(struct weir__waitable *object)
{
        unsigned left = WEIR__WAITS_AT_ONCE;

        for (unsigned i = 0; i < object->ops->queues; i++) {
                struct weir__wait *wait;

                while ((wait = weir__wait_oldest(&weir__waitable_queues(object)[i])) && weir__wait_is_over(wait->task)) {
                        if (left-- == 0)
                                return false;
                        weir__wait_unlink(wait);
                }
        }
        return true;
}

void
weir__waitable_prune(struct weir__waitable *object)
{
        while (!prune_some(object)) {
                weir__unlock(&object->lock);
                weir__lock(&object->lock);
        }
}

uint64_t
weir__waitable_amount(struct weir__waitable *object)
{
        if (weir__waitable_fault(object))
                return 0;
        weir__lock(&object->lock);
        uint64_t amount = object->amount;
        weir__unlock(&object->lock);
        return amount;
}

/* -- for people -- */

void
weir__waitable_add_cursor(struct weir__waitable *object, const struct weir__list *queue, struct weir__wait_cursor *cursor)
{
        *cursor = (struct weir__wait_cursor){.next = object->cursors, .at = weir__list_first(queue)};
        object->cursors = cursor;
        atomic_fetch_add(&cursors, 1);
}

void
weir__waitable_remove_cursor(struct weir__waitable *object, const struct weir__wait_cursor *cursor)
{
        struct weir__wait_cursor **at = &object->cursors;

        while (*at != cursor)
                at = &(*at)->next;
        *at = cursor->next;
        atomic_fetch_sub(&cursors, 1);
}

int
weir__waitable_title(const struct weir__waitable *object, char *out, size_t room)
{
        if (!object->name)
                return snprintf(out, room, "%s %p", object->ops->noun, (const void *)object);
        size_t shown = weir__utf8_cut(object->name->text, object->name->size, TITLE_NAME);
        return snprintf(out, room, "%s \"%.*s%s\"", object->ops->noun, (int)shown, object->name->text,
                        shown < object->name->size ? "..." : "");
}

size_t
weir__waitable_describe(struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        *out = '\0';
        weir__lock(&object->lock);
        size_t waiting = object->linked;
        if (object->ops->describe && (wait || waiting > 0)) /* its maker may still write to one at which nobody waits */
                object->ops->describe(object, wait, out, room);
        weir__unlock(&object->lock);
        return waiting;
}

/* -- all of one name -- */

/* Goes on with the walk for one hold of the shard's lock.  Returns whether there is more. */
static bool
some_named(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__waitable_ops *ops,
           weir__waitable_each_fn *each, void *context, struct weir__work_list *claimed)
{
        bool enough = false;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE && !enough; i++) {
                struct weir__name *name = weir__names_walk_at(walk);

                if (!name)
                        return false;
                struct weir__waitable *object = bearer_of(name, ops);
                weir__lock(&object->lock);
                bool leaves = each(object, context, claimed, &enough);
                weir__unlock(&object->lock);
                weir__names_walk_on(walk);
                if (leaves)
                        weir__names_unlink(shard, name);
        }
        return !enough;
}

void
weir__waitable_for_each_named(const struct weir__waitable_ops *ops, const char *name, weir__waitable_each_fn *each, void *context)
{
        struct weir__work_list claimed = {0};
        struct weir__names_walk walk;
        struct weir__name_key key;
        bool more = true;

        if (weir__phase_is_forked() || weir__name_read(name, &key))
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__waitable_names[ops->kind], key.hash);
        weir__names_walk_begin(shard, &walk, &key, false);
        while (more) {
                more = some_named(shard, &walk, ops, each, context, &claimed);
                if (!more)
                        weir__names_walk_end(shard, &walk);
                weir__names_unlock(shard);
                weir__wait_deliver_all(&claimed);
                if (more)
                        weir__names_lock(&weir__waitable_names[ops->kind], key.hash);
        }
}
