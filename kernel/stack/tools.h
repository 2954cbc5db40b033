/* kernel/stack/tools.h: what valgrind is told about stacks.  switch.c tells sanitizers. */
#ifndef WEIR_KERNEL_STACK_TOOLS_H
#define WEIR_KERNEL_STACK_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

struct weir__stack;

/* Whether a sanitizer or a tool of valgrind watches the program.  It looks at the environment: not for hot paths. */
bool weir__tools_are_there(void);

/* A stack is used for the first time; its arena is about to be unmapped. */
void weir__tools_note_stack(struct weir__stack *stack);
void weir__tools_forget_stack(struct weir__stack *stack);

#endif
