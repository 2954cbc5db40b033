/* kernel/stack/frame.c: the first frame of a context.
 *
 * Threads: any.  No locks. */
#include "kernel/stack/frame.h"

#ifndef WEIR_SWITCH_BY_UCONTEXT

/* In assembly: where a new context begins. */
void weir__context_start(void);

/* What weir__context_swap loads, in the order of rising addresses. */
#if defined(__x86_64__)
struct frame {
        uint32_t mxcsr;
        uint16_t x87, unused;
        void *r15, *r14, *r13, *r12, *rbx, *rbp;
        void (*start)(void);
};

#define MXCSR_DEFAULT 0x1f80
#define X87_DEFAULT   0x037f

/* What the beginning does not need is left as it is, but for the end of the chain of frames. */
static void
fill(struct frame *frame, void (*body)(void *argument), void *argument)
{
        frame->mxcsr = MXCSR_DEFAULT;
        frame->x87 = X87_DEFAULT;
        frame->r12 = (void *)body;
        frame->r13 = argument;
        frame->rbp = NULL;
}
#else
struct frame {
        uint64_t fpcr, unused;
        void *x19, *x20, *x21, *x22, *x23, *x24, *x25, *x26, *x27, *x28, *x29;
        void (*start)(void); /* x30 */
        uint64_t d8, d9, d10, d11, d12, d13, d14, d15;
};

static void
fill(struct frame *frame, void (*body)(void *argument), void *argument)
{
        frame->fpcr = 0;
        frame->x19 = (void *)body;
        frame->x20 = argument;
        frame->x29 = NULL;
}
#endif

_Static_assert(sizeof(struct frame) % 16 == 0, "behind the frame the stack is aligned as before a call");

void *
weir__frame_make(char *low, char *top, void (*body)(void *argument), void *argument)
{
        struct frame *frame = (struct frame *)((uintptr_t)top & ~(uintptr_t)15) - 1;

        (void)low;
        frame->start = weir__context_start;
        fill(frame, body, argument);
        return frame;
}

#else

#include <stdlib.h>
#include <ucontext.h>

/* What swapcontext loads, with the beginning. */
struct frame {
        ucontext_t context;
        void (*body)(void *argument);
        void *argument;
};

/* makecontext passes numbers of the size of an int. */
static void
start(unsigned high, unsigned low)
{
        struct frame *frame = (struct frame *)((uintptr_t)high << 16 << 16 | low);

        frame->body(frame->argument);
}

void *
weir__frame_make(char *low, char *top, void (*body)(void *argument), void *argument)
{
        struct frame *frame = (struct frame *)((uintptr_t)(top - sizeof *frame) & ~(uintptr_t)63);

        getcontext(&frame->context);
        frame->context.uc_stack = (stack_t){.ss_sp = low, .ss_size = (size_t)((char *)frame - low)};
        frame->context.uc_link = NULL;
        frame->body = body;
        frame->argument = argument;
        makecontext(&frame->context, (void (*)(void))start, 2, (unsigned)((uintptr_t)frame >> 16 >> 16),
                    (unsigned)(uintptr_t)frame);
        return frame;
}

/* The mask of signals belongs to the context here: swapcontext sets it.  All threads that enter have the same one. */
void
weir__context_swap(void **sp)
{
        ucontext_t own, *other = *sp;

        *sp = &own;
        swapcontext(&own, other);
}

void
weir__context_go(void **sp)
{
        setcontext(*sp);
        abort();
}

#endif
