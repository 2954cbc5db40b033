/* test/stack_memory_test.c: when the memory of stacks goes back to the system. */
#include <stdatomic.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "test/stack_fixture.h"

static void
begin(void)
{
        struct weir__stack_stats stats;

        weir__stack_trim();
        weir__stack_stats(&stats);
        CU_ASSERT_EQUAL(stats.made, 0);
}

static void
memory_of_many_stacks_goes_back(void)
{
        for (int is_random = 0; is_random < 2; is_random++) {
                begin();
                size_t start = resident();
                struct weir__stack **stacks = take_many(MANY, 4096);
                if (!WEIR_TEST_SANITIZED)
                        CU_ASSERT(resident() > start + (size_t)MANY * 4096);
                if (is_random)
                        shuffle(stacks, MANY);
                for (size_t i = 0; i < MANY; i++)
                        weir__stack_give(stacks[i]);
                free(stacks);
                expect_near(start, 6 << 20); /* structs of the arenas, and one arena */
                begin();
        }
}

static void
memory_goes_back_although_one_stack_in_fifty_stays(void)
{
        begin();
        size_t start = resident();
        struct weir__stack **stacks = take_many(MANY, 8192), *kept[MANY / 50];
        shuffle(stacks, MANY);
        for (size_t i = 0; i < MANY / 50; i++)
                kept[i] = stacks[i];
        for (size_t i = MANY / 50; i < MANY; i++)
                weir__stack_give(stacks[i]);
        expect_near(start, (size_t)MANY * 8192 / 4); /* of 160 MB */
        for (size_t i = 0; i < MANY / 50; i++)
                weir__stack_give(kept[i]);
        free(stacks);
        begin();
}

/* -- memory that waits for a second -- */

static unsigned calls;
static weir_nsec called_for; /* the tender must come then */
static bool has_tender;

static bool
call_tender(weir_nsec due)
{
        calls++;
        called_for = due;
        return has_tender;
}

static void
begin_with_tender(bool there_is_one)
{
        begin();
        calls = 0;
        has_tender = there_is_one;
        weir__stack_call_tender = call_tender;
}

/* All that waits is given back. */
static void
end_with_tender(void)
{
        while (weir__stack_tend(WEIR_FOREVER))
                continue;
        weir__stack_call_tender = NULL;
        begin();
}

static size_t
made(void)
{
        struct weir__stack_stats stats;

        weir__stack_stats(&stats);
        return stats.made;
}

static void
give_many(struct weir__stack **stacks, size_t count)
{
        for (size_t i = 0; i < count; i++)
                weir__stack_give(stacks[i]);
}

static void
memory_that_is_free_too_much_stays_for_a_second(void)
{
        begin_with_tender(true);
        size_t start = resident();
        struct weir__stack **stacks = take_many(MANY, 4096);
        weir_nsec before = weir__clock_monotonic();
        give_many(stacks, MANY);
        CU_ASSERT_EQUAL(calls, 1); /* one tender is asked for, whatever comes */
        CU_ASSERT(called_for >= before + WEIR_SEC(1) && called_for <= weir__clock_monotonic() + WEIR_SEC(1));
        CU_ASSERT(made() >= MANY);
        if (!WEIR_TEST_SANITIZED)
                CU_ASSERT(resident() > start + (size_t)MANY * 4096 * 9 / 10);

        CU_ASSERT_EQUAL(weir__stack_tend(called_for - 1), called_for); /* too early */
        CU_ASSERT(made() >= MANY);
        weir_nsec next = weir__stack_tend(called_for); /* one arena in a turn */
        CU_ASSERT(next >= called_for);
        CU_ASSERT(made() > MANY / 2);
        while ((next = weir__stack_tend(WEIR_FOREVER)))
                continue;
        expect_near(start, 6 << 20);
        CU_ASSERT(made() < 2000);

        free(stacks);
        stacks = take_many(MANY, 1); /* the next one is asked for anew */
        give_many(stacks, MANY);
        CU_ASSERT_EQUAL(calls, 2);
        free(stacks);
        end_with_tender();
}

static void
memory_that_is_used_again_within_a_second_does_not_go(void)
{
        begin_with_tender(true);
        struct weir__stack **stacks = take_many(MANY, 4096);
        give_many(stacks, MANY);
        size_t most = made(), there = resident();
        for (int round = 0; round < 3; round++) {
                free(stacks);
                stacks = take_many(MANY, 1);
                while (weir__stack_tend(WEIR_FOREVER)) /* nothing is free any more */
                        continue;
                CU_ASSERT(made() + 512 > most); /* but for an arena, which others with fresh slots have made needless */
                if (!WEIR_TEST_SANITIZED)
                        CU_ASSERT(resident() + (2 << 20) > there);
                give_many(stacks, MANY);
        }
        free(stacks);
        end_with_tender();
}

static void
without_a_tender_memory_goes_back_at_once(void)
{
        begin_with_tender(false);
        size_t start = resident();
        struct weir__stack **stacks = take_many(MANY, 4096);
        give_many(stacks, MANY);
        CU_ASSERT(calls > 1);
        expect_near(start, 6 << 20);
        free(stacks);
        end_with_tender();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(memory_of_many_stacks_goes_back),
                WEIR_TEST(memory_goes_back_although_one_stack_in_fifty_stays),
                WEIR_TEST(memory_that_is_free_too_much_stays_for_a_second),
                WEIR_TEST(memory_that_is_used_again_within_a_second_does_not_go),
                WEIR_TEST(without_a_tender_memory_goes_back_at_once),
        };

        atomic_store(&weir__phase, WEIR__PHASE_UP); /* memory is worth keeping, as in a program that runs */
        int failed = weir_test_main("stack memory", tests, sizeof tests / sizeof *tests);
        atomic_store(&weir__phase, WEIR__PHASE_DOWN);
        return failed;
}
