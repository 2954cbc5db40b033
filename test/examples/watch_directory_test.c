/* test/examples/watch_directory_test.c: what the program tells about files, and when there were too many events. */
#include <fcntl.h>
#include <sys/stat.h>

#include "test/examples/program.h"

#include "examples/watch-directory.c"
#undef main

static char directory[] = "/tmp/weir-watch-XXXXXX";
static char path[64], moved[64];

/* Watches the directory, and one flow tells. */
static void
begin(void)
{
        char *directories[] = {directory, NULL};

        strcpy(directory + sizeof directory - sizeof "XXXXXX", "XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(path, sizeof path, "%s/file", directory);
        snprintf(moved, sizeof moved, "%s/moved", directory);
        weir_test_begin_real(1);
        program_catch();
        CU_ASSERT_EQUAL_FATAL(weir_series_start(watch_new(directories)), 0);
}

static void
end(void)
{
        weir_test_end();
        watch_end();
        program_release();
        rmdir(directory);
}

static void
write_file(void)
{
        int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        CU_ASSERT_EQUAL(write(file, "x", 1), 1);
        close(file);
}

static void
each_change_is_told(void)
{
        begin();
        write_file();
        rename(path, moved);
        unlink(moved);
        WEIR_TEST_EVENTUALLY(strstr(program_printed(), "moved: deleted\n"));
        end();
        CU_ASSERT_STRING_EQUAL(program_output.text,
                               "file: made\nfile: written\nfile: moved away\nmoved: moved here\nmoved: deleted\n");
}

static void
a_directory_that_goes_is_told(void)
{
        begin();
        rmdir(directory);
        WEIR_TEST_EVENTUALLY(strstr(program_printed(), "a directory is gone\n"));
        end();
}

/* The flow is started late, so the queue of the system is full. */
static void
lost_events_are_told_once(void)
{
        char *directories[] = {directory, NULL}, text[32] = "";
        int limit = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC), output;

        CU_ASSERT(read(limit, text, sizeof text - 1) > 0);
        close(limit);
        strcpy(directory + sizeof directory - sizeof "XXXXXX", "XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(path, sizeof path, "%s/file", directory);
        weir_series *series = watch_new(directories);
        for (long i = 0; i <= atol(text) / 3; i++) {
                write_file();
                unlink(path);
        }
        weir_test_begin_real(1);
        fflush(stdout);
        output = dup(STDOUT_FILENO);
        int all = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* more than program_catch has room for */
        dup2(all, STDOUT_FILENO);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        char last[64] = "";
        WEIR_TEST_EVENTUALLY((lseek(all, 0, SEEK_END) > 40 && pread(all, last, 35, lseek(all, 0, SEEK_END) - 35) == 35 &&
                              strstr(last, "look at everything\n")));
        weir_test_end();
        watch_end();
        dup2(output, STDOUT_FILENO);
        close(output);
        close(all);
        unlink(path);
        rmdir(directory);
}

static void
what_is_no_directory_is_refused(void)
{
        char *files[] = {"/proc/self/exe", NULL}, *none[] = {"/none", NULL};

        CU_ASSERT(!watch_new(files) && errno == ENOTDIR);
        close(inotify);
        CU_ASSERT(!watch_new(none) && errno == ENOENT);
        close(inotify);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_change_is_told),
                WEIR_TEST(a_directory_that_goes_is_told),
                WEIR_TEST(lost_events_are_told_once),
                WEIR_TEST(what_is_no_directory_is_refused),
        };

        return weir_test_main("example_watch_directory", tests, sizeof tests / sizeof *tests);
}
