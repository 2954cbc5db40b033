/* kernel/stack/tools.h: what sanitizers and valgrind are told about stacks. */
#ifndef WEIR_KERNEL_STACK_TOOLS_H
#define WEIR_KERNEL_STACK_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

struct weir__stack;

/* Whether a tool watches the program.  It looks at the environment: not for hot paths. */
bool weir__tools_are_there(void);

/* An arena is mapped from now on, or no longer.  What only a stack refers to is no leak. */
void weir__tools_note_arena(const void *memory, size_t size, bool is_mapped);

/* A stack is used for the first time; its arena is about to be unmapped. */
void weir__tools_note_stack(struct weir__stack *stack);
void weir__tools_forget_stack(struct weir__stack *stack);

#endif
