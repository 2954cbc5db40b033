/* kernel/stack/switch.h: from one stack to another, on the same thread.
 *
 * A context is a stack that may run.  A thread enters it, and so leaves its own stack; when the context leaves, the thread goes
 * on behind the call that entered.  Another thread may enter it the next time.
 *
 * What belongs to the context and not to the thread: the registers that a call preserves, with the rounding mode and the
 * exception masks of floating point, and in C++ the exceptions that are being handled.
 *
 * A thread-local variable is the one of the thread that runs.  A compiler may keep its address over a call, so a function that
 * leaves a context must not touch one; it calls functions that are not inlined for that.
 *
 * Sanitizers know each context as a thread of its own with its own stack. */
#ifndef WEIR_KERNEL_SWITCH_H
#define WEIR_KERNEL_SWITCH_H

#include <stddef.h>

struct weir__stack;
struct weir__context_extra;

struct weir__context {
        void *sp;                          /* of the side that does not run: the context, or the thread that has entered it */
        struct weir__context_extra *extra; /* for sanitizers and C++; on the stack; NULL: the program has neither */
};

/* Prepares a context: the first enter calls `body` with `argument` on that stack.  It must end by weir__context_end. */
void weir__context_make(struct weir__context *context, struct weir__stack *stack, void (*body)(void *argument), void *argument);

/* Runs the context until it leaves or ends.  On a thread's own stack. */
void weir__context_enter(struct weir__context *context);

/* Returns when the context is entered again, perhaps on another thread.  On its stack. */
void weir__context_leave(struct weir__context *context);

/* Leaves for good.  The stack may be used again as soon as the thread goes on.  It does not return, and it is the last call of
 * its caller, as weir__context_go (frame.h). */
void weir__context_end(struct weir__context *context);

#endif
