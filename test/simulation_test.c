/* test/simulation_test.c: the simulation: random flows against a plain model; and that it would say so if they differed. */
#include "test/fixture.h"
#include "test/simulation.h"

#define STEPS (WEIR_TEST_SANITIZED ? 50000 : 1000000)

static void
a_million_steps_are_as_the_contract_says(void)
{
        struct simulation_setup setup = {.seed = weir_test_seed(), .steps = STEPS, .trace = 100};
        struct simulation_result result;

        simulation_run(&setup, &result);
        CU_ASSERT(result.steps >= STEPS);
        CU_ASSERT(result.ticks > 0);
        CU_ASSERT(result.lives > 1);
}

static void
the_same_seed_does_the_same(void)
{
        struct simulation_setup setup = {.seed = weir_test_seed() + 1, .steps = STEPS / 20};
        struct simulation_result first, second, other;

        simulation_run(&setup, &first);
        simulation_run(&setup, &second);
        CU_ASSERT_EQUAL(first.hash, second.hash);
        CU_ASSERT_EQUAL(first.steps, second.steps);
        setup.seed++;
        simulation_run(&setup, &other);
        CU_ASSERT_NOT_EQUAL(first.hash, other.hash);
}

static void
run_with_a_lie(void)
{
        struct simulation_result result;

        simulation_run(&(struct simulation_setup){.seed = 1, .steps = STEPS, .trace = 5, .lie_at = 1000}, &result);
}

static void
a_difference_is_said_with_its_seed_and_step(void)
{
        char said[4096];
        int status = weir_test_child(run_with_a_lie, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "simulation: seed 1, step "));
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "should be"));
        CU_ASSERT_PTR_NOT_NULL(strstr(said, " tick "));
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_difference_is_said_with_its_seed_and_step), /* first: a child needs a runtime that never was */
                WEIR_TEST(a_million_steps_are_as_the_contract_says),
                WEIR_TEST(the_same_seed_does_the_same),
        };

        return weir_test_main("simulation", tests, sizeof tests / sizeof *tests);
}
