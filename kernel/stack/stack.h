/* kernel/stack/stack.h: stacks for fibers.
 *
 * A stack is the upper part of a slot of an arena (arena.h).  The lower part is its guard: a touch there is
 * reported, and the process ends (overflow.h). */
#ifndef WEIR_KERNEL_STACK_H
#define WEIR_KERNEL_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/time.h>

#define WEIR__STACK_SIZE_MIN ((size_t)16 << 10) /* bytes */
#define WEIR__STACK_SIZE_MAX ((size_t)16 << 20)

/* A stack.  It lies outside of the memory of the stack, so that a stack that is not used touches nothing there. */
struct weir__stack {
        struct weir__stack *next; /* in a list of free ones */
        char *top;                /* the address behind its highest byte; a multiple of 128 */
        const void *owner;        /* for weir__stack_describe; of the one that has taken the stack */
        uint32_t size;            /* usable bytes below `top` */

        /* Of this room, and of the thread that has it; while it is free, guarded by the lock of the arenas. */
        uint32_t valgrind_id : 30; /* 0: valgrind does not know it */
        bool is_guarded : 1;
        bool is_deep : 1; /* many of its pages are in memory */
};

/* Takes a stack.
 *
 * Result:  0; -ENOMEM; -EAGAIN: the kernel allows no more mappings, which the log has said; -ENOTSUP: the thread has a shadow
 *          stack, which the log has said.
 * Threads: any.  Not under a lock of rank LEAF. */
int weir__stack_take(struct weir__stack **stack);

/* Gives it back.  Nothing on it is needed any more, and nobody runs on it.  Any thread.  Not under a lock of rank LEAF. */
void weir__stack_give(struct weir__stack *stack);

/* Stacks that are made from now on have so many usable bytes, or up to 1 KiB less; 0: the default, which is larger under a
 * sanitizer.  Else from WEIR__STACK_SIZE_MIN to WEIR__STACK_SIZE_MAX.  Free stacks of another size go.  Any thread. */
void weir__stack_configure(size_t size);

/* The name of what runs on a stack that was taken; NULL: unknown.  A signal handler calls it, on the thread that has used up the
 * stack.  Set once, before the first stack is taken. */
extern const char *(*weir__stack_describe)(const struct weir__stack *stack);

/* Stacks that are free too many keep their memory for a second.  The first of them to come asks for somebody who calls
 * weir__stack_tend then.
 *
 * Result:  false: nobody will; the memory goes back at once.
 * Threads: any, with no lock held.  Set once, before the first stack is taken; NULL: nobody ever will. */
extern bool (*weir__stack_call_tender)(weir_nsec due);

/* Gives back the memory of one arena, if one is due.  Returns the time, of the monotonic clock, for the next call; 0: nothing
 * waits, and somebody will be asked again. */
weir_nsec weir__stack_tend(weir_nsec now);

struct weir__stack_stats {
        size_t made;   /* stacks whose memory was ever used and is still mapped */
        size_t in_use; /* of them */
        size_t free;
        size_t size; /* usable bytes of a new one, or up to 1 KiB less */
        size_t cap;  /* so many may be made; SIZE_MAX: no limit but memory */
};

/* The counts of threads that take and give meanwhile are of about this moment.  Any thread. */
void weir__stack_stats(struct weir__stack_stats *stats);

/* Unmaps what is free, but for what other threads keep for themselves.  Any thread. */
void weir__stack_trim(void);

#endif
