/* test/examples/hash_pipeline_test.c: the program prints what sha256sum(1) prints, in any order. */
#include "test/examples/program.h"

#include "examples/hash-pipeline.c"
#undef main

#define FILES 40

static char directory[] = "/tmp/weir-hash-XXXXXX";
static char paths[FILES][64];

static void
write_files(void)
{
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        for (int i = 0; i < FILES; i++) {
                snprintf(paths[i], sizeof paths[i], "%s/%d", directory, i);
                FILE *file = fopen(paths[i], "w");
                for (int line = 0; line < 1000 * i; line++)
                        fprintf(file, "%d\n", line);
                fclose(file);
        }
}

static void
remove_files(void)
{
        for (int i = 0; i < FILES; i++)
                unlink(paths[i]);
        rmdir(directory);
}

static int
by_text(const void *one, const void *other)
{
        return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The same lines in the order of their text. */
static void
sort_lines(char *text)
{
        char *lines[FILES + 2], copy[8192];
        size_t count = 0;

        snprintf(copy, sizeof copy, "%s", text);
        for (char *line = strtok(copy, "\n"); line && count < FILES + 2; line = strtok(NULL, "\n"))
                lines[count++] = line;
        qsort(lines, count, sizeof *lines, by_text);
        *text = '\0';
        for (size_t i = 0; i < count; i++)
                strcat(strcat(text, lines[i]), "\n");
}

static void
sums_are_those_of_sha256sum(void)
{
        char *arguments[FILES + 2] = {"hash-pipeline"}, expected[8192] = "", command[128];

        write_files();
        for (int i = 0; i < FILES; i++)
                arguments[i + 1] = paths[i];
        snprintf(command, sizeof command, "sha256sum %s/*", directory);
        FILE *pipe = popen(command, "r");
        expected[fread(expected, 1, sizeof expected - 1, pipe)] = '\0';
        pclose(pipe);

        program_catch();
        int status = program_main(FILES + 1, arguments);
        program_release();
        CU_ASSERT_EQUAL(status, 0);
        sort_lines(expected);
        sort_lines(program_output.text);
        CU_ASSERT_STRING_EQUAL(program_output.text, expected);
        remove_files();
}

static void
a_file_that_is_not_there_is_reported_and_the_others_are_hashed(void)
{
        char *arguments[] = {"hash-pipeline", "/no/such/file", "/dev/null", NULL};

        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0); /* after the shutdown of the test before */
        failed = 0;
        program_catch();
        int status = program_main(3, arguments);
        program_release();
        CU_ASSERT_EQUAL(status, 1);
        CU_ASSERT_EQUAL(failed, 1);
        CU_ASSERT_STRING_EQUAL(program_output.text,
                               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  /dev/null\n");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(sums_are_those_of_sha256sum),
                WEIR_TEST(a_file_that_is_not_there_is_reported_and_the_others_are_hashed),
        };

        return weir_test_main("example_hash_pipeline", tests, sizeof tests / sizeof *tests);
}
