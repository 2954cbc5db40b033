/* test/examples/hung_flow_test.c: the dump names what hangs, and a cancel by name frees it, on the virtual clock.
 * test/e2e/hung_flow_test.sh goes through docs/debugging.md with the program itself. */
#include "test/examples/program.h"

#include "examples/hung-flow.c"
#undef main

/* Prints into the caught output. */
static const char *
dump(void)
{
        fflush(stdout);
        CU_ASSERT_EQUAL(weir_debug_dump(STDOUT_FILENO), 0);
        return program_printed();
}

static void
the_dump_names_what_hangs_and_a_cancel_frees_it(void)
{
        program_catch();
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(start_export(), 0);
        CU_ASSERT_EQUAL(start_month_end(), 0);
        CU_ASSERT_EQUAL(start_uploads(), 0);
        weir_test_pass(WEIR_SEC(3600));
        const char *said = dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "guard \"ledger\", at which 1 waits, held by series \"nightly export\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "counter \"uploads\", at which 1 waits, 1 to be counted"));
        CU_ASSERT_PTR_NULL(strstr(said, "month end: "));

        CU_ASSERT_EQUAL(weir_series_cancel_named("nightly export", WEIR_ALL), 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_PTR_NOT_NULL(strstr(program_printed(), "nightly export: cancelled\nmonth end: Success\n"));
        weir_test_end();
        program_release();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_dump_names_what_hangs_and_a_cancel_frees_it),
        };

        return weir_test_main("example_hung_flow", tests, sizeof tests / sizeof *tests);
}
