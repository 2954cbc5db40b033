/* factory/sync/waitable.h: objects that tasks wait at (counters, channels, guards and so on), and how tasks wait there.
 *
 * An object lives as long as somebody has a reference: the program, or a task that is to wait there.  Its lock guards its state
 * and its queues of waits, first in, first out.
 *
 * A task that waits:
 *
 *     NEW --start--> PENDING, linked into a queue --claimed--> READY --> RUNNING --> freed
 *      |--start, and what it wants is there ------------------/
 *      \--arm--> NEW, linked --park--> PENDING
 *                           \--claimed, and then park-------/
 *
 * The thread that changes PENDING to READY has claimed the task.  It delivers the task, once.  A task that is armed is delivered
 * by the thread that parks it.
 *
 * A fulfilment claims under the object's lock, and unlinks the wait.  A cancel claims without that lock, so the wait stays linked
 * for a while.  The next thread that meets it under the lock unlinks it; at the latest the worker of the task does, before the
 * callback.  A cancel that comes before the start leaves CANCELLED in the word, where the start finds it.
 *
 * What was granted stays granted: the callback sees 0, although the series was cancelled in between.  So no message is lost, and
 * no token. */
#ifndef WEIR_FACTORY_WAITABLE_H
#define WEIR_FACTORY_WAITABLE_H

#include "factory/names/names.h"
#include "factory/task/task.h"
#include "kernel/base/list.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"

#define WEIR__WAITS_AT_ONCE 256 /* are handled under one hold of the lock */

struct weir__wait;
struct weir__wait_task;
struct weir__waitable;

struct weir__waitable_ops {
        enum weir__waitable_kind kind;
        const char *noun;       /* "channel" */
        size_t size;            /* of the object, without its name */
        unsigned queues;        /* how many lists of waits there are, right behind struct weir__waitable */
        bool should_keep_grant; /* `try` is asked for a task that was cancelled before its start, too */

        /* Does at once what the wait wants.  Tasks that it claims for that are appended to `claimed`.  Under the lock.  NULL: the
         * tasks have a start of their own.
         *
         * Result:  0; -EAGAIN: the task has to wait; another error: the task ends with it. */
        int (*try)(struct weir__wait *wait, struct weir__work_list *claimed);

        /* Gives up what the object holds besides its memory.  The last reference is gone; no lock is held; user code may run.
         * NULL: nothing. */
        void (*clear)(struct weir__waitable *object);

        /* Writes what there is to say besides how many wait, such as "held by ...", or nothing.  Under the lock.  `wait`: the
         * task is described that waits so; NULL: the object is.  NULL: there is nothing to say. */
        void (*describe)(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room);
};

struct weir__wait {
        /* Constant. */
        struct weir__waitable *object; /* with a reference of the task; NULL: there is none, and the task is poisoned */
        struct weir__wait_task *task;
        uint8_t queue; /* which of the object's */

        _Atomic bool is_linked; /* written under the object's lock */

        /* These belong to the task until the wait is linked.  Then the object's lock guards them.  After the claim they belong
         * to the claimer, then to the worker. */
        bool has_won; /* a select ends by this wait; nobody else reads that */
        union {       /* what is wanted or given */
                void *message;
                uint64_t amount;
        };

        struct weir__link link; /* guarded by the object's lock */
};

/* Where a dump stands in a queue.  Others change the queue between its looks.  Guarded by the object's lock. */
struct weir__wait_cursor {
        struct weir__wait_cursor *next; /* of the same object */
        struct weir__link *at;          /* the wait to be looked at next; NULL: none */
};

/* The complements of the addresses of two others, in a ring of them.  So a leak detector does not see objects that are linked by
 * these alone, and finds those that the program has lost.  kernel/memory/watched.c does the same. */
struct weir__hidden_link {
        uintptr_t newer, older;
};

struct weir__waitable {
        /* Constant. */
        const struct weir__waitable_ops *ops;
        struct weir__name *name; /* behind the object; NULL: none */
        uint64_t limit;          /* capacity of a channel, size of a barrier and so on */
        weir_free_fn *drop;      /* for messages that nobody takes; may be NULL */
        unsigned part;           /* of the registry */

        struct weir__lock lock; /* rank WAITABLE */

        /* Guarded by lock. */
        uint64_t amount; /* messages, objects or tokens that are there; what a counter has left to count */
        size_t linked;   /* waits in the queues, with those that were claimed and are still linked */
        struct weir__wait_cursor *cursors;

        _Atomic size_t references; /* at 0 the object is about to be freed */

        /* Guarded by the lock of its part of the registry. */
        struct weir__hidden_link link;
};

/* A task that waits at one object. */
struct weir__wait_task {
        struct weir_task task;  /* first */
        struct weir__wait wait; /* unused by a select, which has others: factory/channel/select.c */
};

/* -- objects -- */

/* Makes an object.  Everything behind struct weir__waitable is zero.  NULL with errno ENOMEM. */
struct weir__waitable *weir__waitable_new(const struct weir__waitable_ops *ops, uint64_t amount, uint64_t limit,
                                          weir_free_fn *drop);

/* The same with a name, which nobody finds yet.  NULL with errno EINVAL, ENAMETOOLONG, ENOMEM. */
struct weir__waitable *weir__waitable_new_named(const struct weir__waitable_ops *ops, const char *name, uint64_t amount,
                                                uint64_t limit, weir_free_fn *drop);

/* Adds the object as the newest of its name.  0, or -ENOMEM. */
int weir__waitable_publish(struct weir__waitable *object);

/* The only object of its name, with a reference: `made`, or the one that was there before; then `made` is given up.  For NULL it
 * returns NULL and leaves errno.  NULL with errno EEXIST (the other has another limit or drop), ENOMEM, ECHILD. */
struct weir__waitable *weir__waitable_unique(struct weir__waitable *made);

/* The oldest object of that name, with a reference; NULL: there is none. */
struct weir__waitable *weir__waitable_find(const struct weir__waitable_ops *ops, const struct weir__name_key *key);

/* Accept NULL. */
struct weir__waitable *weir__waitable_ref(struct weir__waitable *object);
void weir__waitable_unref(struct weir__waitable *object);

/* Checks a reference that the program drops.  It finds an object that is gone, as long as its memory is not used again. */
static inline void
weir__references_expect(const void *object, const _Atomic size_t *references, const char *call)
{
        weir__memory_expect(object);
        if (__builtin_expect(atomic_load_explicit(references, memory_order_relaxed) == 0, 0))
                weir__panic("%s: no reference is left: it was called once too often", call);
}

/* Defines the public functions of a kind that do the same. */
#define WEIR__WAITABLE_REFERENCES(type, type_ref, type_unref)                                         \
        type *type_ref(type *object)                                                                  \
        {                                                                                             \
                return (type *)weir__waitable_ref((struct weir__waitable *)object);                   \
        }                                                                                             \
        void type_unref(type *object)                                                                 \
        {                                                                                             \
                struct weir__waitable *waitable = (struct weir__waitable *)object;                    \
                                                                                                      \
                if (waitable)                                                                         \
                        weir__references_expect(waitable, &waitable->references, #type_unref);        \
                weir__waitable_unref(waitable);                                                       \
        }

/* -ENOMEM for NULL, -ECHILD in a forked child, else 0. */
static inline int
weir__waitable_fault(const struct weir__waitable *object)
{
        weir__memory_expect(object);
        return !object ? -ENOMEM : weir__phase_is_forked() ? -ECHILD : 0;
}

/* Drops a message.  Accepts NULL for both.  No lock is held. */
static inline void
weir__waitable_drop(const struct weir__waitable *object, void *message)
{
        if (message && object && object->drop)
                weir__user_call(object->drop, message);
}

/* Under the lock: unlinks the waits at the heads of the queues that were claimed.  It lets the lock go in between. */
void weir__waitable_prune(struct weir__waitable *object);

/* Takes the lock.  There are few claimed waits at the heads of the queues then, also after a cancel of very many series. */
static inline void
weir__waitable_lock(struct weir__waitable *object)
{
        weir__lock(&object->lock);
        if (__builtin_expect(object->linked > WEIR__WAITS_AT_ONCE, 0))
                weir__waitable_prune(object);
}

/* 0 for NULL, and in a forked child.  No lock of an object is held. */
uint64_t weir__waitable_amount(struct weir__waitable *object);

/* Writes what the object is, such as 'channel "orders"' or 'channel 0x60b0', as snprintf does.  A long name is cut, so that there
 * is room for more behind it. */
#define WEIR__TITLE_SIZE 96
int weir__waitable_title(const struct weir__waitable *object, char *out, size_t room);

/* Writes as ops->describe does, or nothing where nobody waits.  Returns how many wait.  No lock of an object is held. */
size_t weir__waitable_describe(struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room);

/* Is called for objects of one name, the oldest first, under the locks of the shard and the object.  The object may be about to
 * be freed.  Tasks that it claims are appended to `claimed`.  *enough ends the calls.  Returns whether the object leaves its
 * name. */
typedef bool weir__waitable_each_fn(struct weir__waitable *object, void *context, struct weir__work_list *claimed, bool *enough);

/* Calls it for the objects of a kind.  No object has an invalid name. */
void weir__waitable_for_each_named(const struct weir__waitable_ops *ops, const char *name, weir__waitable_each_fn *each,
                                   void *context);

/* Goes through all objects: begin with NULL.  The returned object has a reference, which the next call gives up.  Objects that
 * are made meanwhile may be left out. */
struct weir__waitable *weir__waitable_next(struct weir__waitable *object);

static inline struct weir__list *
weir__waitable_queues(const struct weir__waitable *object)
{
        return (struct weir__list *)(object + 1);
}

/* -- waits; all of this under the object's lock -- */

/* The oldest wait, also one that was claimed; NULL: the queue is empty. */
static inline struct weir__wait *
weir__wait_oldest(const struct weir__list *queue)
{
        struct weir__link *link = weir__list_first(queue);

        return link ? weir__container_of(link, struct weir__wait, link) : NULL;
}

/* Adds a cursor that is at the oldest wait of the queue, or removes it. */
void weir__waitable_add_cursor(struct weir__waitable *object, const struct weir__list *queue, struct weir__wait_cursor *cursor);
void weir__waitable_remove_cursor(struct weir__waitable *object, const struct weir__wait_cursor *cursor);

void weir__wait_link(struct weir__wait *wait);
void weir__wait_unlink(struct weir__wait *wait);

/* Moves a wait that is linked to the end of its queue. */
void weir__wait_requeue(struct weir__wait *wait);

/* Unlinks the oldest wait, and claims its task.  Returns it, its task being appended to `claimed` unless it is armed; NULL:
 * somebody else has claimed the task. */
struct weir__wait *weir__wait_claim_oldest(struct weir__list *queue, struct weir__work_list *claimed);

/* The oldest wait that was not claimed; older ones are unlinked.  NULL: there is none. */
struct weir__wait *weir__wait_oldest_pending(struct weir__list *queue);

/* Takes waits until a task is claimed.  The caller fulfils the wait.  NULL: the queue is empty. */
struct weir__wait *weir__wait_pop(struct weir__list *queue, struct weir__work_list *claimed);

/* Delivers all of them.  No lock is held.  Inline, for there are none in most calls, and one in most others. */
static inline void
weir__wait_deliver_all(struct weir__work_list *claimed)
{
        for (struct weir__work *work; (work = weir__work_pop(claimed));)
                weir__task_deliver((struct weir_task *)work);
}

/* Serves waits some at a time, as long as `serve_some` says that there may be more, and delivers the tasks that it has claimed.
 * Lets the lock go.  Inline, so that there is no call through a pointer. */
static inline __attribute__((__always_inline__)) void
weir__wait_serve_and_unlock(struct weir__waitable *object,
                            bool serve_some(struct weir__waitable *object, struct weir__work_list *claimed))
{
        for (bool more = true; more;) {
                struct weir__work_list claimed = {0};

                more = serve_some(object, &claimed);
                weir__unlock(&object->lock);
                weir__wait_deliver_all(&claimed);
                if (more)
                        weir__waitable_lock(object);
        }
}

/* Claims all tasks of a queue, which end with that status, and delivers them, some at a time.  It lets the lock go in between. */
void weir__wait_end_all(struct weir__waitable *object, struct weir__list *queue, int status);

/* -- tasks -- */

/* Makes a task that waits in that queue of the object.  It has its own reference.  For a NULL object it is poisoned with
 * -ENOMEM.  NULL when out of memory. */
struct weir__wait_task *weir__wait_task_new(const struct weir__task_ops *ops, struct weir__waitable *object, unsigned queue,
                                            weir_task_fn *done, void *context);

/* The same for an object that was made or opened for it: it takes over the reference, also when out of memory.  If there is none
 * it is poisoned with that fault. */
struct weir__wait_task *weir__wait_task_new_with(const struct weir__task_ops *ops, struct weir__waitable *object, int fault,
                                                 weir_task_fn *done, void *context);

/* Initialises such a task, of `size` bytes, in other memory.  It takes over a reference to the object. */
void weir__wait_task_init(struct weir__wait_task *self, size_t size, const struct weir__task_ops *ops,
                          struct weir__waitable *object, unsigned queue, weir_task_fn *done, void *context);

/* Whether the task will not wait any more: it was claimed, or cancelled before its start. */
static inline bool
weir__wait_is_over(const struct weir__wait_task *self)
{
        uint32_t word = atomic_load_explicit(&self->task.word, memory_order_relaxed);

        return word != WEIR__NEW && word != WEIR__PENDING;
}

/* Takes the message of a wait.  Accepts NULL. */
static inline void *
weir__wait_take_message(struct weir__wait *wait)
{
        void *message = wait ? wait->message : NULL;

        if (wait)
                wait->message = NULL;
        return message;
}

/* PENDING -> READY, of any task that waits.  Returns false when somebody else has done that. */
bool weir__wait_claim(struct weir_task *task);

/* NEW -> that state.  Returns false when a cancel came first: the task is READY, with the cause as its status. */
bool weir__wait_leave_new(struct weir_task *task, uint32_t state);

/* Does what the wait wants without a task that could wait.
 *
 * Result:  as ops->try; -ENOMEM, -ECHILD. */
int weir__wait_at_once(struct weir__wait *wait);

/* The second half of a start, under the object's lock; `outcome` is that of ops->try.  Returns whether the task waits, so that it
 * must not be touched any more.  Otherwise it is READY, and the caller delivers it after unlocking. */
bool weir__wait_finish_start(struct weir__wait_task *self, int outcome);

/* The same in parts, for a task that waits at several objects, under the locks of all.  decide: whether all waits are to be
 * linked now.  pend: whether the task waits; otherwise they are to be unlinked again. */
bool weir__wait_decide(struct weir__wait_task *self, int outcome);
bool weir__wait_pend(struct weir__wait_task *self);

/* The start in two halves, for a task that begins to wait while nobody may deliver it yet: a fiber on its stack.  arm: under the
 * lock of the object, whose `try` has said -EAGAIN, the wait is linked.  Whoever claims the task meanwhile does not deliver it.
 * park: from now on the claimer delivers it; if there was one, this does.  No lock is held.  Only a cancel may touch the word of
 * the task before.  Behind a shutdown nothing is armed. */
void weir__wait_arm(struct weir__wait_task *self, struct weir__waitable *object, void *message);
void weir__wait_park(struct weir__wait_task *self);

/* On the task's worker, before the callback: the wait is unlinked, if it is still linked.  No lock is held. */
void weir__wait_leave(struct weir__wait *wait);

/* The first half of weir__wait_run, for kinds that do something before the callback: unlinks the wait, and sets RUNNING.  The
 * status of the task is 0 if its wait was fulfilled. */
void weir__wait_set_running(struct weir__wait_task *self);

/* For the ops of kinds.  The release drops the message that the wait has, if the object has a `drop`. */
void weir__wait_start(struct weir_task *task);
void weir__wait_run(struct weir__work *work);
struct weir_task *weir__wait_end_early(struct weir_task *task);
void weir__wait_release(struct weir_task *task, bool discarded);
void weir__wait_describe(const struct weir_task *task, char *out, size_t room);

/* How many threads look at the object of a wait, each under the lock of the series of the task. */
extern _Atomic unsigned weir__wait_looks;

/* Of a kind such as "a counter", whose `run` and `release` may be its own. */
#define WEIR__WAIT_TASK_OPS(a_kind, its_run, its_release)                                                           \
        {                                                                                                           \
                .work = {.run = (its_run), .kind = a_kind, .is_migratable = true,                                   \
                         .function = weir__task_function, .name = weir__task_name},                                 \
                .start = weir__wait_start, .end_early = weir__wait_end_early, .release = (its_release),             \
                .describe = weir__wait_describe,                                                                    \
        }

#endif
