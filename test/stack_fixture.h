/* test/stack_fixture.h: stacks that a test takes, and the memory that they have. */
#ifndef WEIR_TEST_STACK_FIXTURE_H
#define WEIR_TEST_STACK_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "kernel/stack/stack.h"
#include "test/support.h"

#define MANY (WEIR_TEST_SANITIZED ? 2000 : 20000)

static inline struct weir__stack *
take(void)
{
        struct weir__stack *stack = NULL;

        CU_ASSERT_EQUAL(weir__stack_take(&stack), 0);
        return stack;
}

static inline char *
low(const struct weir__stack *stack)
{
        return stack->top - stack->size;
}

static inline void
touch(struct weir__stack *stack, size_t depth)
{
        for (size_t at = 64; at < depth; at += 4096)
                *(volatile char *)(stack->top - at) = 1;
}

static inline size_t
resident(void)
{
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");

        if (!file || fscanf(file, "%*u %lu", &pages) != 1)
                abort();
        fclose(file);
        return pages * 4096;
}

static inline struct weir__stack **
take_many(size_t count, size_t depth)
{
        struct weir__stack **stacks = malloc(count * sizeof *stacks);

        for (size_t i = 0; i < count; i++)
                touch(stacks[i] = take(), depth);
        return stacks;
}

static inline void
shuffle(struct weir__stack **stacks, size_t count)
{
        struct weir_test_random random = {weir_test_seed()};

        for (size_t i = count - 1; i > 0; i--) {
                size_t other = weir_test_random_below(&random, i + 1);
                struct weir__stack *stack = stacks[i];

                stacks[i] = stacks[other];
                stacks[other] = stack;
        }
}

static inline void
expect_near(size_t start, size_t more)
{
        size_t now = resident();

        if (WEIR_TEST_SANITIZED)
                return;
        CU_ASSERT(now < start + more);
        if (now >= start + more)
                printf("%zu KiB at the start, %zu now ", start >> 10, now >> 10);
}

#endif
