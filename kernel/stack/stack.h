/* kernel/stack/stack.h: stacks for fibers. */
#ifndef WEIR_KERNEL_STACK_H
#define WEIR_KERNEL_STACK_H

#include <stddef.h>

/* A stack.  It lies outside of the memory of the stack, so that a stack that is not used touches nothing there. */
struct weir__stack {
        struct weir__stack *next; /* in a list of free ones */
        char *top;                /* the address behind its highest byte */
        size_t size;              /* usable bytes below `top` */
};

/* Takes a stack.
 *
 * Result:  0; -ENOMEM; -EAGAIN: the kernel allows no more mappings, which the log has said once.
 * Threads: any. */
int weir__stack_take(struct weir__stack **stack);

/* Gives it back.  Nothing on it is needed any more, and nobody runs on it.  Any thread. */
void weir__stack_give(struct weir__stack *stack);

#endif
