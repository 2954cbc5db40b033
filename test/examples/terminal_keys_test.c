/* test/examples/terminal_keys_test.c: keys of a pseudo-terminal. */
#include <fcntl.h>

#include "test/examples/program.h"

#include "examples/terminal-keys.c"
#undef main

static int master, slave, input; /* `input`: the standard input of the test */

static void
open_terminal(void)
{
        master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        CU_ASSERT_FATAL(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        CU_ASSERT_FATAL(slave >= 0);
        input = dup(STDIN_FILENO);
        dup2(slave, STDIN_FILENO);
        program_catch();
}

static void
close_terminal(void)
{
        program_release();
        dup2(input, STDIN_FILENO);
        close(input);
        close(slave);
        close(master);
}

static bool
has_lines(void)
{
        struct termios now;

        return tcgetattr(slave, &now) == 0 && now.c_lflag & ICANON;
}

static void *
run_program(void *status)
{
        *(int *)status = program_main();
        return NULL;
}

static void
each_key_is_told_at_once_and_the_terminal_is_given_back(void)
{
        pthread_t thread;
        int status = -1;

        weir_init(NULL);
        open_terminal();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_program, &status), 0);
        WEIR_TEST_EVENTUALLY(!has_lines());
        CU_ASSERT_EQUAL(write(master, "a", 1), 1);
        WEIR_TEST_EVENTUALLY(strstr(program_printed(), "key 61\n"));
        CU_ASSERT_EQUAL(write(master, "\033[", 2), 2);
        WEIR_TEST_EVENTUALLY(strstr(program_printed(), "key 1b\nkey 5b\n"));
        CU_ASSERT_EQUAL(write(master, "q", 1), 1);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT(has_lines());
        close_terminal();
        CU_ASSERT_STRING_EQUAL(program_output.text, "key 61\nkey 1b\nkey 5b\nthe end\n");
}

static void
a_terminal_that_goes_ends_it(void)
{
        pthread_t thread;
        int status = -1;

        weir_init(NULL);
        open_terminal();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_program, &status), 0);
        WEIR_TEST_EVENTUALLY(!has_lines());
        close(master);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(status, 0);
        master = dup(slave);
        close_terminal();
        CU_ASSERT_STRING_EQUAL(program_output.text, "the end\n");
}

static void
no_key_for_long_ends_it(void)
{
        weir_test_begin_virtual();
        open_terminal();
        CU_ASSERT_EQUAL(program_main(), 0);
        close_terminal();
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(program_output.text, "no key came\n");
}

static void
what_is_no_terminal_is_refused(void)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        open_terminal();
        dup2(null, STDIN_FILENO);
        CU_ASSERT_EQUAL(program_main(), 1);
        close_terminal();
        close(null);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_key_is_told_at_once_and_the_terminal_is_given_back),
                WEIR_TEST(a_terminal_that_goes_ends_it),
                WEIR_TEST(no_key_for_long_ends_it),
                WEIR_TEST(what_is_no_terminal_is_refused),
        };

        return weir_test_main("example_terminal_keys", tests, sizeof tests / sizeof *tests);
}
