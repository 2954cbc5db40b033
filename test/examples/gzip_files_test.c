/* test/examples/gzip_files_test.c: what is packed, and what is left of what cannot be. */
#include "test/examples/program.h"

#include "examples/gzip-files.c"
#undef main

static char directory[] = "/tmp/weir-gzip-XXXXXX";
static char names[10][64];

static const char *
name(unsigned at, const char *text)
{
        snprintf(names[at], sizeof names[at], "%s/%s", directory, text);
        return names[at];
}

static void
write_file(const char *path, const char *text)
{
        FILE *file = fopen(path, "we");

        fputs(text, file);
        fclose(file);
}

static int
run(const char *first, const char *second)
{
        char *argv[] = {"gzip-files", (char *)first, (char *)second, NULL};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        packed = failed = 0;
        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        program_catch();
        int result = program_main(second ? 3 : 2, argv);
        program_release();
        return result;
}

static void
files_are_packed(void)
{
        struct stat status;

        write_file(name(0, "one"), "text text text text text text text text text text\n");
        write_file(name(1, "two"), "");
        CU_ASSERT_EQUAL(run(names[0], names[1]), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "2 packed, 0 failed\n"));
        CU_ASSERT(stat(name(2, "one.gz"), &status) == 0 && status.st_size > 0);
        CU_ASSERT(stat(name(3, "two.gz"), &status) == 0 && status.st_size > 0);
        unlink(names[3]);
        CU_ASSERT_EQUAL(run(names[0], NULL), 1); /* it is there already, and is not touched */
        CU_ASSERT(stat(names[2], &status) == 0);
}

static void
what_cannot_be_packed_leaves_nothing(void)
{
        struct stat status;

        CU_ASSERT_EQUAL(run(name(4, "nothing"), NULL), 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "0 packed, 1 failed\n"));
        CU_ASSERT(stat(name(5, "nothing.gz"), &status) < 0);
}

/* A gzip that says that it has begun, and never ends. */
static void
put_slow_gzip(void)
{
        char script[256];

        snprintf(script, sizeof script, "#!/bin/sh\n: >%s\nexec /bin/sleep 1000\n", name(6, "begun"));
        write_file(name(7, "gzip"), script);
        CU_ASSERT_EQUAL(chmod(names[7], 0755), 0);
}

static void *
interrupt(void *unused)
{
        WEIR_TEST_EVENTUALLY(access(names[6], F_OK) == 0);
        raise(SIGINT); /* here, where it is handled at once: ThreadSanitizer puts off that of a thread which waits */
        return unused;
}

static void
an_interrupt_ends_what_runs(void)
{
        char *path = strdup(getenv("PATH"));
        struct stat status;
        pthread_t thread;

        put_slow_gzip();
        setenv("PATH", directory, 1);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, interrupt, NULL), 0);
        CU_ASSERT_EQUAL(run(names[1], NULL), 1);
        pthread_join(thread, NULL);
        setenv("PATH", path, 1);
        free(path);
        CU_ASSERT(stat(names[3], &status) < 0); /* what was half done */
}

static const struct weir_test tests[] = {
        WEIR_TEST(files_are_packed),
        WEIR_TEST(what_cannot_be_packed_leaves_nothing),
        WEIR_TEST(an_interrupt_ends_what_runs),
};

int
main(void)
{
        if (!mkdtemp(directory))
                return 1;
        int result = weir_test_main("gzip_files", tests, sizeof tests / sizeof *tests);
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
                unlink(names[i]);
        rmdir(directory);
        return result;
}
