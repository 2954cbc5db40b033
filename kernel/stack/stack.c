/* kernel/stack/stack.c: stacks for fibers: where they come from and where they wait.
 *
 * Threads: any.
 * Locks:   a leaf for the list of free stacks. */
#include "kernel/stack/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernel/base/lock.h"

#define SLOT  (256 * 1024) /* bytes of a stack with its guard */
#define GUARD (64 * 1024)  /* bytes below it that fault */

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir__stack *free_stacks;

static int
map(struct weir__stack **made)
{
        struct weir__stack *stack = malloc(sizeof *stack);
        char *slot;

        if (!stack)
                return -ENOMEM;
        slot = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (slot == MAP_FAILED) {
                free(stack);
                return -ENOMEM;
        }
        mprotect(slot, GUARD, PROT_NONE);
        *stack = (struct weir__stack){.top = slot + SLOT, .size = SLOT - GUARD};
        *made = stack;
        return 0;
}

int
weir__stack_take(struct weir__stack **stack)
{
        weir__lock(&lock);
        *stack = free_stacks;
        if (*stack)
                free_stacks = (*stack)->next;
        weir__unlock(&lock);
        return *stack ? 0 : map(stack);
}

void
weir__stack_give(struct weir__stack *stack)
{
        weir__lock(&lock);
        stack->next = free_stacks;
        free_stacks = stack;
        weir__unlock(&lock);
}
