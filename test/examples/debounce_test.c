/* test/examples/debounce_test.c: what is saved, and when, on the virtual clock. */
#include "test/examples/program.h"

#include "examples/debounce.c"
#undef main

static void
begin(void)
{
        saves = 0;
        weir_test_begin_virtual();
        program_catch();
}

static void
end(void)
{
        weir_test_end();
        program_release();
}

static void
a_document_is_saved_once_it_was_quiet_for_a_second(void)
{
        begin();
        CU_ASSERT(changed("letter") == 0);
        weir_test_pass(QUIET - 1);
        CU_ASSERT(changed("letter") == 0);
        weir_test_pass(QUIET - 1);
        CU_ASSERT_EQUAL(saves, 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(saves, 1);
        weir_test_pass(WEIR_SEC(60));
        end();
        CU_ASSERT_STRING_EQUAL(program_output.text, "saved letter, when it was quiet\n");
}

static void
a_document_that_never_rests_is_saved_every_five_seconds(void)
{
        begin();
        for (int i = 0; i < 24; i++) {
                CU_ASSERT(changed("letter") == 0);
                weir_test_pass(WEIR_MSEC(500));
        }
        CU_ASSERT_EQUAL(saves, 2); /* after 5 and 10 of 12 seconds */
        CU_ASSERT(strstr(program_printed(), "quiet") == NULL);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(saves, 3);
        end();
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "quiet"));
}

static void
documents_do_not_disturb_each_other(void)
{
        begin();
        CU_ASSERT(changed("letter") == 0);
        weir_test_pass(WEIR_MSEC(600));
        CU_ASSERT(changed("bill") == 0);
        weir_test_pass(WEIR_MSEC(400));
        CU_ASSERT_STRING_EQUAL(program_printed(), "saved letter, when it was quiet\n");
        end();
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "saved bill, at the end\n"));
}

static void
a_document_without_a_name_is_refused(void)
{
        begin();
        CU_ASSERT(changed("") == -EINVAL);
        end();
        CU_ASSERT_EQUAL(saves, 0);
}

static void
a_save_that_an_error_causes_says_which(void)
{
        begin();
        CU_ASSERT(changed("letter") == 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("letter", 1), 1);
        weir_test_pass(0);
        end();
        CU_ASSERT_STRING_EQUAL(program_output.text, "saved letter, cancelled\n");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_document_is_saved_once_it_was_quiet_for_a_second),
                WEIR_TEST(a_document_that_never_rests_is_saved_every_five_seconds),
                WEIR_TEST(documents_do_not_disturb_each_other),
                WEIR_TEST(a_document_without_a_name_is_refused),
                WEIR_TEST(a_save_that_an_error_causes_says_which),
        };

        return weir_test_main("example_debounce", tests, sizeof tests / sizeof *tests);
}
