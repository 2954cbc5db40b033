/* kernel/stack/switch.c: the first frame of a context, and what a switch carries besides registers.
 *
 * Threads: a context is run by one at a time.  No locks. */
#include "kernel/stack/switch.h"

#include <stdint.h>
#include <string.h>

#include "kernel/base/panic.h"
#include "kernel/stack/stack.h"

/* In assembly: stores the registers on the stack that runs, exchanges the stack pointer with *sp, and loads the registers there. */
void weir__context_swap(void **sp);

/* In assembly: where a new context begins.  It calls `body` with `argument`, as the frame says. */
void weir__context_start(void);

/* What weir__context_swap loads, in the order of rising addresses. */
#if defined(__x86_64__)
struct frame {
        uint32_t mxcsr;
        uint16_t x87, unused;
        void *r15, *r14, *r13, *r12, *rbx, *rbp;
        void (*start)(void);
};
#elif defined(__aarch64__)
struct frame {
        uint64_t fpcr, unused;
        void *x19, *x20, *x21, *x22, *x23, *x24, *x25, *x26, *x27, *x28, *x29;
        void (*start)(void); /* x30 */
        uint64_t d8, d9, d10, d11, d12, d13, d14, d15;
};
#else
#error "weir has a switch of stacks for x86-64 and aarch64 only"
#endif

void
weir__context_make(struct weir__context *context, struct weir__stack *stack, void (*body)(void *argument), void *argument)
{
        struct frame *frame = (struct frame *)((uintptr_t)stack->top & ~(uintptr_t)15) - 1;

        memset(frame, 0, sizeof *frame);
        frame->start = weir__context_start;
#if defined(__x86_64__)
        frame->mxcsr = 0x1f80;
        frame->x87 = 0x037f;
        frame->r12 = (void *)body;
        frame->r13 = argument;
#else
        frame->x19 = (void *)body;
        frame->x20 = argument;
#endif
        context->sp = frame;
}

void
weir__context_enter(struct weir__context *context)
{
        weir__context_swap(&context->sp);
}

void
weir__context_leave(struct weir__context *context)
{
        weir__context_swap(&context->sp);
}

void
weir__context_end(struct weir__context *context)
{
        weir__context_swap(&context->sp);
        weir__panic("a context was entered after its end");
}
