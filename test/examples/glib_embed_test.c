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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_loop_shows_each_part_and_the_flow_waits_for_its_answer),
        };

        return weir_test_main("example_glib_embed", tests, sizeof tests / sizeof *tests);
}
