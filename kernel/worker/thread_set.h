/* kernel/worker/thread_set.h: the life cycle of worker threads, for pollers and for the executor.
 *
 *     of a slot:  UNUSED --add--> HERE --leave--> ENDED --the next thread that leaves joins it--> UNUSED
 *
 * A thread of the set has a slot, and in it a struct that begins with a struct weir__worker.  The struct stays until the end of
 * the runtime, because other threads may look at it without a lock.  A new thread uses the first free slot. */
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
        void *(*main)(void *worker);                    /* a thread runs it; its last call is weir__thread_set_exit */
        size_t size;                                    /* of a struct */
        void (*prepare)(struct weir__worker *worker);   /* sets the fields of a new struct that are not zero */

        /* Guarded by lock. */
        unsigned structs;           /* slots that have a struct */
        unsigned here;              /* threads, with those that are about to be made */
        unsigned most;              /* bound of `here` */
        struct weir__worker *ended; /* the thread that has left last, until it is joined */
        bool is_closing;            /* no thread is added, and none leaves by itself */
        int64_t freed_roots;        /* what the freed structs had counted in `roots` */

        /* Any thread reads these.  A struct stays in its slot until weir__thread_set_free. */
        _Atomic unsigned count; /* of slots up to the last one with a thread; written under the lock */
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
 * Result:  0; -EAGAIN when there are as many threads as are allowed; the error of the system; -ENOMEM.
 * Threads: any, without the lock. */
int weir__thread_set_add(struct weir__thread_set *set, struct weir__worker **added);

/* The calling thread leaves the set by itself, and then must end.  Returns the thread that has left before it, for
 * weir__thread_set_join_one.  Under the lock. */
struct weir__worker *weir__thread_set_leave(struct weir__thread_set *set, struct weir__worker *worker);

/* Joins a thread that has left, and frees its slot.  With NULL it does nothing.  Without the lock. */
void weir__thread_set_join_one(struct weir__thread_set *set, struct weir__worker *ended);

/* The last call of a thread of the set. */
void weir__thread_set_exit(struct weir__worker *worker);

/* Waits for all threads, until that instant.  Returns whether all have ended; false if the calling thread is in the set. */
bool weir__thread_set_join(struct weir__thread_set *set, weir_nsec until);

/* The sum of what all threads of the set have counted in `roots` since the process began.  Any thread. */
int64_t weir__thread_set_roots(const struct weir__thread_set *set);

/* Frees all structs when all threads were joined. */
void weir__thread_set_free(struct weir__thread_set *set);

/* In the child of a fork that may use the library anew: no thread of the set is there. */
void weir__thread_set_forked(struct weir__thread_set *set);

#endif
