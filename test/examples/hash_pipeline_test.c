/* test/examples/hash_pipeline_test.c: the program prints what sha256sum(1) prints, in any order. */
#include <openssl/evp.h>

#include "test/examples/program.h"

/* -- what fails when a test wants it -- */

static const char *failing;            /* a function of OpenSSL */
static _Atomic int calls_to_come = -1; /* of calloc, until one fails; below 0: none does */

#define WORKS(function) (!failing || strcmp(failing, #function) != 0)

static void *
allocate(size_t count, size_t size)
{
        return calls_to_come >= 0 && calls_to_come-- == 0 ? NULL : calloc(count, size);
}

#define calloc                                  allocate
#define EVP_DigestInit_ex(digest, type, engine) (WORKS(EVP_DigestInit_ex) && (EVP_DigestInit_ex)(digest, type, engine))
#define EVP_DigestUpdate(digest, bytes, size)   (WORKS(EVP_DigestUpdate) && (EVP_DigestUpdate)(digest, bytes, size))
#define EVP_DigestFinal_ex(digest, sum, size)   (WORKS(EVP_DigestFinal_ex) && (EVP_DigestFinal_ex)(digest, sum, size))
#include "examples/hash-pipeline.c"
#undef calloc
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

/* What the program prints for these files, and with which status it ends. */
static int
hash_files(int count, char *arguments[])
{
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0); /* after the shutdown of the test before */
        printed = 0;
        program_catch();
        int status = program_main(count, arguments);
        program_release();
        return status;
}

static void
a_file_that_is_not_there_is_reported_and_the_others_are_hashed(void)
{
        char *arguments[] = {"hash-pipeline", "/no/such/file", "/dev/null", NULL};

        CU_ASSERT_EQUAL(hash_files(3, arguments), 1);
        CU_ASSERT_EQUAL(printed, 1);
        CU_ASSERT_STRING_EQUAL(program_output.text,
                               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  /dev/null\n");
}

static void
a_directory_is_reported(void)
{
        char *arguments[] = {"hash-pipeline", "/", NULL};

        CU_ASSERT_EQUAL(hash_files(2, arguments), 1);
        CU_ASSERT_STRING_EQUAL(program_output.text, "");
}

static void
a_hash_that_fails_is_not_printed(void)
{
        static const char *const functions[] = {"EVP_DigestInit_ex", "EVP_DigestUpdate", "EVP_DigestFinal_ex"};
        char *arguments[] = {"hash-pipeline", "/proc/self/exe", NULL};

        for (int i = 0; i < 3; i++) {
                failing = functions[i];
                CU_ASSERT_EQUAL(hash_files(2, arguments), 1);
                CU_ASSERT_STRING_EQUAL(program_output.text, "");
        }
        failing = NULL;
}

/* A fiber that has ended early hashes nothing. */
static int
pass_on_after_a_cancel(void *context)
{
        struct file *file = context;

        weir_series_cancel(weir_fiber_series());
        CU_ASSERT_EQUAL(weir_fiber_go(hash, file), -ECANCELED);
        return pass_on(file);
}

static void
a_file_whose_function_was_never_called_goes_no_further(void)
{
        struct file *file = calloc(1, sizeof *file);
        void *message = NULL;

        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        sums = weir_channel_new(2, free);
        file->name = "/dev/null";
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(pass_on_after_a_cancel, NULL, file)), -ECANCELED);
        CU_ASSERT_EQUAL(weir_channel_poll(sums, &message), -EAGAIN);
        weir_channel_unref(sums);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
files_that_are_left_out_are_a_failure(void)
{
        char *arguments[] = {"hash-pipeline", "/dev/null", "/dev/null", "/dev/null", NULL};

        calls_to_come = 1;
        CU_ASSERT_EQUAL(hash_files(4, arguments), 1);
        CU_ASSERT_EQUAL(printed, 1);
        calls_to_come = -1;
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(sums_are_those_of_sha256sum),
                WEIR_TEST(a_file_that_is_not_there_is_reported_and_the_others_are_hashed),
                WEIR_TEST(a_directory_is_reported),
                WEIR_TEST(a_hash_that_fails_is_not_printed),
                WEIR_TEST(a_file_whose_function_was_never_called_goes_no_further),
                WEIR_TEST(files_that_are_left_out_are_a_failure),
        };

        return weir_test_main("example_hash_pipeline", tests, sizeof tests / sizeof *tests);
}
