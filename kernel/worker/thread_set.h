/* kernel/worker/thread_set.h: the life cycle of worker threads, for pollers and for the executor.
 *
 *     of a slot:  UNUSED --add--> HERE --leave--> ENDED --the next one that leaves joins it--> UNUSED
 *
 * A thread of the set has a slot, and in it a struct that begins with a struct weir__worker.  The struct stays until the end of
 * the runtime, because other threads may look at it without a lock.  A new thread uses the first slot that is free. */
#ifndef WEIR_KERNEL_THREAD_SET_H
#define WEIR_KERNEL_THREAD_SET_H

#include "kernel/worker/worker.h"

enum weir__presence {
        WEIR__THREAD_UNUSED = 0,
        WEIR__THREAD_HERE,
        WEIR__THREAD_ENDED, /* it is to be joined */
};

struct weir__thread_set {
        /* Constant. */
        struct weir__lock *lock;                        /* of the owner of the set, a leaf */
        void *(*main)(void *worker);                    /* what a thread does; it ends by weir__thread_set_exit */
        size_t size;                                    /* of a struct */
        void (*prepare)(struct weir__worker *worker);   /* sets the rest of a new struct, which is all zero */

        /* Guarded by lock. */
        unsigned structs;           /* slots that have a struct */
        unsigned here;              /* threads; those about to be made count */
        unsigned most;              /* bound of `here` */
        struct weir__worker *ended; /* the last one that has left, until it is joined */
        bool is_closing;            /* no thread is added or leaves by itself any more */
        int64_t freed_live;         /* what the freed structs had counted in `live` */

        /* Any thread reads these: a struct that is in its slot stays there until weir__thread_set_free. */
        _Atomic unsigned count; /* behind the last slot with a thread; written under the lock */
        _Atomic(struct weir__worker *) slots[WEIR__THREAD_SLOTS];
};

static inline unsigned
weir__thread_set_count(const struct weir__thread_set *set)
{
        return atomic_load_explicit(&set->count, memory_order_acquire);
}

static inline struct weir__worker *
weir__thread_set_at(const struct weir__thread_set *set, unsigned slot)
{
        return atomic_load_explicit(&set->slots[slot], memory_order_acquire);
}

/* Opens the set at the start of the runtime. */
void weir__thread_set_open(struct weir__thread_set *set, unsigned most);

/* Makes one more thread.
 *
 * Result:  0; -EAGAIN when there are as many as may be, or what the system says; -ENOMEM.
 * Threads: any, without the lock. */
int weir__thread_set_add(struct weir__thread_set *set, struct weir__worker **added);

/* A thread of the set leaves by itself: it must end.  Returns the one that has left before, for weir__thread_set_join_one.  Under
 * the lock. */
struct weir__worker *weir__thread_set_leave(struct weir__thread_set *set, struct weir__worker *worker);

/* Joins a thread that has left, and frees its slot.  NULL is nothing.  Without the lock. */
void weir__thread_set_join_one(struct weir__thread_set *set, struct weir__worker *ended);

/* The last call of a thread of the set. */
void weir__thread_set_exit(struct weir__worker *worker);

/* Waits until then for all threads.  Returns whether all have ended; the calling thread, if it is one of them, has not. */
bool weir__thread_set_join(struct weir__thread_set *set, weir_nsec until);

/* The sum of what all threads of the set have counted in `live` since the process began.  Any thread. */
int64_t weir__thread_set_live(const struct weir__thread_set *set);

/* Frees all structs when all threads were joined. */
void weir__thread_set_free(struct weir__thread_set *set);

/* In the child of a fork that may use the library anew: no thread of the set is there. */
void weir__thread_set_forked(struct weir__thread_set *set);

#endif
