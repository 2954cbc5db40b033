/* kernel/stack/tools.c: calls into the tools that watch the program.
 *
 * The loader finds these functions where the program was built with -fsanitize, by gcc or by clang; else they are NULL.
 *
 * Threads: any.  No locks. */
#include "kernel/stack/tools.h"

#include "kernel/memory/watched.h"
#include "kernel/stack/stack.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND                0
#define VALGRIND_STACK_REGISTER(low, high) 0
#define VALGRIND_STACK_DEREGISTER(id)      (void)(id)
#endif

extern void __lsan_do_leak_check(void) __attribute__((weak));

/* All tools of valgrind count, also those that do not look at blocks: none of them knows the guards of the kernel. */
bool
weir__tools_are_there(void)
{
        return __lsan_do_leak_check || RUNNING_ON_VALGRIND || weir__watched_find();
}

void
weir__tools_note_stack(struct weir__stack *stack)
{
        stack->valgrind_id = ((unsigned)VALGRIND_STACK_REGISTER(stack->top - stack->size, stack->top - 1) + 1) & 0x3fffffff;
}

void
weir__tools_forget_stack(struct weir__stack *stack)
{
        if (stack->valgrind_id)
                VALGRIND_STACK_DEREGISTER(stack->valgrind_id - 1);
        stack->valgrind_id = 0;
}
