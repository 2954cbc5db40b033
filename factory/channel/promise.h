/* factory/channel/promise.h: what promises are, and the parts that have those which wait.  promise.c has their states. */
#ifndef WEIR_FACTORY_PROMISE_H
#define WEIR_FACTORY_PROMISE_H

#include <weir/promise.h>

#include "factory/task/task.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"

struct weir__promise {
        struct weir_task task; /* first */

        struct weir__link link; /* guarded by the part's lock */
        _Atomic size_t references;

        uint8_t part;    /* constant */
        bool is_unbegun; /* its kind has a `begin`, and the task has the reference of the work.  The task's owner's */

        _Atomic bool is_linked; /* written under the part's lock */

        /* Guarded by the part's lock until the task is READY, then its worker's.  An end that comes later does not write. */
        bool is_decided : 1; /* an end has come, or the task will never start */
        bool is_held : 1;    /* a cancel comes too late */
        bool is_given : 1;   /* the task has the reference of the call that ended it */
        int outcome;
        void *value;
        weir_free_fn *drop; /* may be NULL */

        struct weir__promise_trace *traced; /* the task's; NULL: no trace ran at its start */

        /* Constant; the label once the task is consumed.  It is rare, so it is last. */
        const struct weir_promise_kind *kind; /* NULL: none */
        union {
                void *own;                      /* of a kind */
                weir_promise_cancel_fn *cancel; /* may be NULL */
        };
        uint8_t label_size; /* 0: none; the text lies behind it */
        char label[WEIR_PROMISE_LABEL_MAX + 1];
};

/* -- the parts: lists of promises, each with a lock -- */

#define WEIR__PROMISE_PARTS 16

/* Where a dump stands among the promises that wait.  All zero at first. */
struct weir__promise_walk {
        unsigned part;
        bool is_within; /* that part */

        /* Guarded by the part's lock. */
        struct weir__promise_walk *next; /* of the same part */
        struct weir__link *at;           /* to be looked at next; NULL: none */
        size_t left;                     /* to be looked at: those that come meanwhile are left out, so that it comes to an end */
};

struct weir__promise_part {
        _Alignas(64) struct weir__lock lock; /* a leaf */

        /* Guarded by lock. */
        struct weir__list pending; /* the oldest first; also some that a cancel has claimed */
        size_t count;              /* of these */
        struct weir__promise_walk *walks;
};

extern struct weir__promise_part weir__promise_parts[WEIR__PROMISE_PARTS];

static inline struct weir__promise_part *
weir__promise_lock(const struct weir__promise *self)
{
        struct weir__promise_part *part = &weir__promise_parts[self->part];

        weir__lock(&part->lock);
        return part;
}

/* Under the lock. */
static inline void
weir__promise_link(struct weir__promise_part *part, struct weir__promise *self)
{
        weir__list_append(&part->pending, &self->link);
        part->count++;
        atomic_store_explicit(&self->is_linked, true, memory_order_relaxed);
}

/* The walks of dumps that stand there go on.  Under the lock.  Unless the caller has claimed it, it may be gone behind that. */
static inline void
weir__promise_unlink(struct weir__promise_part *part, struct weir__promise *self)
{
        for (struct weir__promise_walk *walk = part->walks; walk; walk = walk->next)
                if (walk->at == &self->link)
                        walk->at = weir__list_next(&part->pending, &self->link);
        weir__link_remove(&self->link);
        part->count--;
        atomic_store_explicit(&self->is_linked, false, memory_order_release); /* its worker looks without the lock */
}

/* On its worker: unlinks it, if that was not done. */
static inline void
weir__promise_leave(struct weir__promise *self)
{
        if (!atomic_load_explicit(&self->is_linked, memory_order_acquire))
                return; /* an end or a shutdown was the claimer */
        struct weir__promise_part *part = weir__promise_lock(self);
        if (atomic_load_explicit(&self->is_linked, memory_order_relaxed))
                weir__promise_unlink(part, self);
        weir__unlock(&part->lock);
}

/* -- dumps -- */

struct weir__promise_view {
        const void *promise; /* its address: it may be gone */
        bool is_lone;        /* in no series, and not cancelled */
        char text[160];      /* its label, and what its kind says of it */
};

/* Looks at the next promise that waits.  Returns false when there is none, and the walk is over. */
bool weir__promise_walk_on(struct weir__promise_walk *walk, struct weir__promise_view *view);

/* Ends a walk that may not be over. */
void weir__promise_walk_end(struct weir__promise_walk *walk);

/* The label, and what the kind says of it.  The label is cut so that all has at most `most` bytes, where it is long enough. */
void weir__promise_write(const struct weir__promise *self, size_t most, char *text, size_t room);

/* -- traces: the stage in which it waits -- */

/* The task starts. */
void weir__promise_trace_start(struct weir__promise *self) __attribute__((cold));

/* It has begun, and is named by its label and by its kind.  Under the part's lock. */
void weir__promise_trace_name(struct weir__promise *self) __attribute__((cold));

/* It waits no more. */
void weir__promise_trace_end(struct weir__promise *self) __attribute__((cold));

#endif
