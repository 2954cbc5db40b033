/* factory/sync/waitable.h: what tasks wait at (a counter, a channel, a guard, ...), and how they do.
 *
 * An object lives as long as somebody has a reference: the program, or a task that is to wait there.  Its lock guards its state and
 * its queues of waits, first in first out.
 *
 * A task that waits:
 *
 *     NEW --start--> PENDING, linked into a queue --claimed--> READY --> RUNNING --> freed
 *      \--start, and what it wants is there ------------------/
 *
 * Who changes PENDING to READY has claimed it, and delivers it, once: who fulfils the wait, under the object's lock, and takes it off the
 * queue; or a cancel, or the shutdown, without that lock.  A wait that was claimed and is still linked is passed over and unlinked by whoever
 * comes upon it under the lock; its worker sees to that as well, before the callback.  A cancel that comes before the start leaves CANCELLED in the
 * word, for start to find.
 *
 * What was granted stays granted: such a task calls back with 0 although its series was cancelled in between, so that no message is
 * lost and no token. */
#ifndef WEIR_FACTORY_WAITABLE_H
#define WEIR_FACTORY_WAITABLE_H

#include "factory/names/names.h"
#include "factory/task/task.h"

#define WEIR__WAITS_AT_ONCE 256 /* that are fulfilled under one hold of the lock */

struct weir__waitable;
struct weir__wait_task;

/* Which map of names; each kind has its own. */
enum weir__waitable_kind {
        WEIR__COUNTER = 0,
        WEIR__MAILBOX,
        WEIR__CONDITION,
        WEIR__CHANNEL,
        WEIR__GUARD,
        WEIR__SEMAPHORE,
        WEIR__POOL,
        WEIR__BARRIER,
        WEIR__WAITABLE_KINDS,
};

struct weir__waitable_ops {
        enum weir__waitable_kind kind;
        const char *noun; /* "channel" */
        size_t size;      /* of the object, without its name */
        unsigned lists;   /* queues; the first follows struct weir__waitable, the others that one */

        /* Gives up what it holds besides its memory; with the last reference, no lock held; may call user code.  NULL: nothing. */
        void (*drop)(struct weir__waitable *object);

        /* What there is to say of it besides how many wait, "held by ..." or the like, or nothing.  Under its lock.  NULL: nothing. */
        void (*describe)(const struct weir__waitable *object, char *out, size_t room);
};

struct weir__wait {
        struct weir__wait *previous, *next;     /* guarded by the object's lock */
        _Atomic(struct weir__wait_list *) list; /* that it is linked into, or NULL; written under the lock */
        struct weir__waitable *object;          /* constant; with a reference; NULL: its making failed */
        struct weir__wait_task *task;           /* constant */

        /* What is wanted or given: its task's until it is linked, then guarded by the object's lock, then of who has claimed it. */
        union {
                void *message;
                uint64_t amount;
        };
};

/* All zero is empty. */
struct weir__wait_list {
        struct weir__wait *first, *last;
        _Atomic size_t length; /* with those that were claimed meanwhile; read without the lock for people (relaxed) */
};

struct weir__waitable {
        /* Constant. */
        const struct weir__waitable_ops *ops;
        struct weir__name *name; /* behind the object; NULL: none */
        unsigned part;           /* of the registry */

        _Atomic size_t references; /* once 0, it is about to be freed */

        struct weir__lock lock; /* rank WAITABLE */

        struct weir__waitable *previous, *next; /* all there are: guarded by the lock of their part of the registry */
};

/* A task that waits at one object; kinds add what they need. */
struct weir__wait_task {
        struct weir_task task;  /* first */
        struct weir__wait wait; /* one that waits at several objects has others: factory/channel/select.c */
        struct weir__wait *won; /* which was fulfilled, by weir__wait_pop; NULL: none, or at once */
};

/* -- objects -- */

/* A new one, all behind struct weir__waitable being zero.  NULL with errno ENOMEM. */
struct weir__waitable *weir__waitable_new(const struct weir__waitable_ops *ops);

/* The same with a name, where others may have it already; the caller adds it by weir__waitable_publish once it is whole.  NULL with errno
 * EINVAL, ENAMETOOLONG, ENOMEM. */
struct weir__waitable *weir__waitable_new_named(const struct weir__waitable_ops *ops, const char *name);

/* Adds it as the newest of its name.  0, or -ENOMEM. */
int weir__waitable_publish(struct weir__waitable *object);

/* The only one of its name, with a reference: `made`, or the one that was there before, and then `made` is given up.  Accepts NULL, with
 * errno set.  NULL with errno ENOMEM. */
struct weir__waitable *weir__waitable_unique(struct weir__waitable *made);

/* Accept NULL. */
struct weir__waitable *weir__waitable_ref(struct weir__waitable *object);
void weir__waitable_unref(struct weir__waitable *object);
void weir__waitable_ref_more(struct weir__waitable *object, unsigned count);
void weir__waitable_unref_more(struct weir__waitable *object, unsigned count);

/* Writes what it is, 'channel "orders"' or the like, as snprintf does.  Of a name that is long the beginning: it comes to less
 * than WEIR__TITLE_SIZE, so that there is room for what is said behind it. */
#define WEIR__TITLE_SIZE 96
int weir__waitable_title(const struct weir__waitable *object, char *out, size_t room);

/* Under the lock: takes off waits at the heads of its lists that were claimed meanwhile, as by a cancel of very many series; some of them.
 * Returns whether there are no more. */
bool weir__waitable_prune(struct weir__waitable *object);

/* Under the lock: whether its lists are so long that there could be too many of those to be passed over under one hold. */
static inline bool
weir__waitable_is_crowded(struct weir__waitable *object)
{
        const struct weir__wait_list *lists = (const struct weir__wait_list *)(object + 1);
        size_t most = 0;

        for (unsigned i = 0; i < object->ops->lists; i++)
                most += atomic_load_explicit(&lists[i].length, memory_order_relaxed);
        return most > WEIR__WAITS_AT_ONCE;
}

/* Lets the lock go for a moment, so that who waits for it comes first, as often as it takes to prune it. */
void weir__waitable_prune_all(struct weir__waitable *object);

/* Takes the object's lock for what may then take waits off its lists. */
static inline void
weir__waitable_lock(struct weir__waitable *object)
{
        weir__lock(&object->lock);
        if (__builtin_expect(weir__waitable_is_crowded(object), 0))
                weir__waitable_prune_all(object);
}

/* Called for objects of one name, from the oldest, under the lock of the object and the shard's; one may be about to be freed.  What is
 * to be delivered is put onto `claimed`; *enough ends the visits.  Returns whether the object leaves its name. */
typedef bool weir__waitable_visit(struct weir__waitable *object, void *context, struct weir__work_list *claimed, bool *enough);

/* Visits those of a kind, and delivers what was claimed; a name that is none is that of no object. */
void weir__waitable_visit_named(const struct weir__waitable_ops *ops, const char *name, weir__waitable_visit *visit,
                                void *context);

/* One after the other of all objects, each with a reference, which the call for the next gives up: begin with NULL.  Those that
 * are made meanwhile may be left out. */
struct weir__waitable *weir__waitable_next(struct weir__waitable *object);

/* Its queues, one behind the other. */
static inline struct weir__wait_list *
weir__waitable_lists(struct weir__waitable *object)
{
        return (struct weir__wait_list *)(object + 1);
}

/* -- waiting -- */

/* Initialises a task of `size` bytes from weir__alloc that will wait there; makes it wrong for NULL, with -ENOMEM. */
void weir__wait_task_init(struct weir__wait_task *self, const struct weir__task_ops *ops, size_t size,
                          struct weir__waitable *object, weir_task_fn *done, void *context);

/* The same for one that takes a reference over, which somebody else had. */
void weir__wait_task_init_owner(struct weir__wait_task *self, const struct weir__task_ops *ops, size_t size,
                                struct weir__waitable *object, weir_task_fn *done, void *context);

/* Makes it wrong, for what its start, run or push is to report. */
void weir__wait_task_spoil(struct weir__wait_task *self, int fault);

/* Whether it will not wait any more: it was claimed, or cancelled before its start. */
static inline bool
weir__wait_is_over(const struct weir__wait_task *self)
{
        uint32_t word = atomic_load_explicit(&self->task.word, memory_order_relaxed);

        return word != WEIR__NEW && word != WEIR__PENDING;
}

enum weir__wait_begun {
        WEIR__WAIT_GRANTED, /* it is READY: the caller gives it what it wants, unlocks and delivers it */
        WEIR__WAIT_REFUSED, /* it is READY with a status: the caller unlocks and delivers it */
        WEIR__WAIT_LINKED,  /* it waits: the caller unlocks, and touches it no more */
};

/* The start, under the object's lock.  `granted`: what it wants is there, and taken already; that must not be tried for one that
 * weir__wait_is_over.  `refused`: a status to end with at once, or 0. */
enum weir__wait_begun weir__wait_begin(struct weir__wait_task *self, struct weir__wait_list *list, bool granted, int refused);

/* The same in parts, for one that waits at several objects, with the locks of all: LINKED says that it is to be linked at each; then it
 * becomes PENDING, or is READY with a status and is to be unlinked everywhere. */
enum weir__wait_begun weir__wait_decide(struct weir__wait_task *self, bool granted, int refused);
bool weir__wait_pend(struct weir__wait_task *self);

/* PENDING -> READY.  Returns false when somebody else has done that. */
bool weir__wait_claim(struct weir__wait_task *self);

/* Takes off waits until one is claimed, the oldest: it is the caller's, to be fulfilled and delivered.  NULL: there is none.  Under the
 * lock. */
struct weir__wait *weir__wait_pop(struct weir__wait_list *list);

/* The one that weir__wait_pop would claim, unless somebody else claims it just then.  Under the lock. */
struct weir__wait *weir__wait_first(struct weir__wait_list *list);

/* Under the lock. */
void weir__wait_link(struct weir__wait_list *list, struct weir__wait *wait);
void weir__wait_unlink(struct weir__wait *wait);

/* On its worker, before the callback: takes it off its queue, if it is there still.  No lock held. */
void weir__wait_leave(struct weir__wait *wait);

/* Delivers a task that was claimed, and all of those.  No lock held. */
void weir__wait_deliver(struct weir__wait_task *self);
void weir__wait_deliver_all(struct weir__work_list *claimed);

/* Claims all of a list, which then has that status, and delivers them, some at a time; the lock, which is held, is let go meanwhile. */
void weir__wait_end_all(struct weir__waitable *object, struct weir__wait_list *list, int status);

/* The beginning of weir__wait_run, for kinds that have something to do before the callback: the task is off its queue, and
 * RUNNING; its status is 0 if its wait was fulfilled. */
void weir__wait_arrive(struct weir__wait_task *self);

/* For the ops of kinds. */
void weir__wait_run(struct weir__work *work);
struct weir_task *weir__wait_cancel(struct weir_task *task);
void weir__wait_release(struct weir_task *task, bool discarded);
void weir__wait_describe(const struct weir_task *task, char *out, size_t room);

/* Of a kind such as "a counter"; its `start` and the rest are the kind's.  Behind them comes what the kind has besides. */
#define WEIR__WAIT_TASK_OPS(a_kind, its_start, its_release, ...)                                                               \
        {                                                                                                                      \
                .work = {.run = weir__wait_run, .kind = a_kind, .is_migratable = true, .calls = weir__task_calls}, .start = its_start, \
                .cancel = weir__wait_cancel, .release = its_release, __VA_ARGS__                                               \
        }

#endif
