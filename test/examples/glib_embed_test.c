/* test/examples/glib_embed_test.c: what the program prints. */
#include "test/examples/program.h"

#include "examples/glib-embed.c"
#undef main

static void
the_loop_shows_each_part_and_the_flow_waits_for_its_answer(void)
{
        program_catch();
        int status = program_main();
        program_release();
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_STRING_EQUAL(program_output.text, "1 of 4 parts\n2 of 4 parts\n3 of 4 parts\n4 of 4 parts\n"
                                                    "print the sum?\nthe user says yes\n7998000\n");
}

/* The loop alone runs its functions: while no thread runs the loop, they wait. */
static void
nothing_of_the_loop_runs_before_the_loop_does(void)
{
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0); /* after the shutdown of the test before */
        shown = 0;
        attach();
        program_catch();
        CU_ASSERT_EQUAL(weir_series_start(part_new(&sums[0])), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_MSEC(20), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(shown, 0);
        WEIR_TEST_EVENTUALLY((g_main_context_iteration(NULL, FALSE), shown == 1));
        program_release();
        detach();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_loop_shows_each_part_and_the_flow_waits_for_its_answer),
                WEIR_TEST(nothing_of_the_loop_runs_before_the_loop_does),
        };

        return weir_test_main("example_glib_embed", tests, sizeof tests / sizeof *tests);
}
