/* kernel/stack/frame.h: what a processor needs for a switch: what lies on a stack that does not run. */
#ifndef WEIR_KERNEL_STACK_FRAME_H
#define WEIR_KERNEL_STACK_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* The assembly is that of these processors.  A test takes the other way on them. */
#if !defined(WEIR_SWITCH_BY_UCONTEXT) && !(defined(__x86_64__) && defined(__LP64__)) && !defined(__aarch64__)
#define WEIR_SWITCH_BY_UCONTEXT 1
#endif

/* Stores the registers on the stack that runs, exchanges the stack pointer with *sp, and loads the registers that are there. */
void weir__context_swap(void **sp);

/* The same for a stack that never runs again: it may be used as soon as the other one runs.  It does not return, but is not
 * declared so: a compiler calls it by a jump then, which leaves no call open. */
void weir__context_go(void **sp);

/* Puts a frame onto a stack that does not run, below `top`, so that the first swap calls `body` with `argument`.  `low` is the
 * lowest address of the stack.  Returns the stack pointer. */
void *weir__frame_make(char *low, char *top, void (*body)(void *argument), void *argument);

#endif
