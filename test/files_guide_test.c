/* test/files_guide_test.c: the examples of docs/files.md. */
#include "test/fixture.h"

#include <errno.h>

static char directory[] = "/tmp/weir-files-guide-XXXXXX";

static void
begin(void)
{
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL_FATAL(chdir(directory), 0);
}

struct copy {
        weir_file *file;
        char text[16];
        size_t size;
};

static void
on_read(weir_task *task, void *context)
{
        struct copy *copy = context;
        const char *data = weir_file_data(task, &copy->size); /* lent until this returns */

        if (weir_task_status(task) == 0)
                memcpy(copy->text, data, copy->size);
}

static void
on_open(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);
        struct copy *copy = context;

        copy->file = weir_file_open_take(task);
        if (copy->file)
                weir_series_push(series, weir_file_read_new(copy->file, 2, 10, on_read, copy));
}

static void
take_file(weir_task *open, void *context)
{
        *(weir_file **)context = weir_file_open_take(open);
}

static void
a_file_is_opened_read_and_written(void)
{
        weir_file *file = NULL;
        struct copy copy = {0};

        begin();
        weir_task_run(weir_file_open_new("greeting", O_RDWR | O_CREAT, 0644, take_file, &file));
        CU_ASSERT(weir_task_run(weir_file_write_new(file, 0, "hello", 5, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_file_open_new("greeting", O_RDONLY, 0, on_open, &copy)) == 0);
        CU_ASSERT(copy.size == 3 && memcmp(copy.text, "llo", 3) == 0); /* fewer than 10: the end of the file */
        CU_ASSERT(weir_task_run(weir_file_close_new(copy.file, NULL, NULL)) == 0);
        weir_file_unref(copy.file);
        weir_file_unref(file);
        weir_test_end();
}

static void
memory_of_the_program_is_borrowed(void)
{
        static const char line[] = "a line\n";
        char head[2], tail[5];
        struct iovec into[] = {{head, sizeof head}, {tail, sizeof tail}};
        const struct iovec from[] = {{(char *)line, 2}, {(char *)line + 2, 5}};
        weir_file *file = NULL;

        begin();
        weir_task_run(weir_file_open_new("lines", O_RDWR | O_CREAT, 0644, take_file, &file));
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_file_write_from_new(file, 0, line, 7, NULL, NULL));
        weir_series_push(series, weir_file_writev_new(file, 7, from, 2, NULL, NULL));
        weir_series_push(series, weir_file_append_new(file, line, 7, NULL, NULL));
        weir_series_push(series, weir_file_appendv_new(file, from, 2, NULL, NULL));
        weir_series_push(series, weir_file_readv_new(file, 21, into, 2, NULL, NULL));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(memcmp(head, "a ", 2) == 0 && memcmp(tail, "line\n", 5) == 0);
        CU_ASSERT(weir_task_run(weir_file_read_into_new(file, 7, head, 2, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_file_truncate_new(file, 7, NULL, NULL)) == 0);
        weir_file_unref(file);
        weir_test_end();
}

static weir_series *
replace(weir_file *fresh, weir_file *folder, const char *text)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_file_write_new(fresh, 0, text, strlen(text), NULL, NULL));
        weir_series_push(series, weir_file_sync_new(fresh, NULL, NULL)); /* first the bytes */
        weir_series_push(series, weir_file_rename_new("config.new", "config", NULL, NULL));
        weir_series_push(series, weir_file_sync_new(folder, NULL, NULL)); /* then the name */
        return series;
}

static void
a_file_is_replaced_so_that_a_crash_leaves_the_old_or_the_new_one(void)
{
        weir_file *fresh = NULL, *folder = NULL;

        begin();
        weir_task_run(weir_file_open_new("config.new", O_WRONLY | O_CREAT | O_TRUNC, 0644, take_file, &fresh));
        weir_task_run(weir_file_open_new(".", O_RDONLY | O_DIRECTORY, 0, take_file, &folder));
        CU_ASSERT(weir_series_run(replace(fresh, folder, "limit 5\n")) == 0);
        CU_ASSERT(weir_task_run(weir_file_sync_data_new(fresh, NULL, NULL)) == 0);
        weir_file_unref(fresh);
        weir_file_unref(folder);
        weir_test_end();
}

static void
on_list(weir_task *task, void *context)
{
        unsigned *directories = context;
        unsigned char type;

        for (size_t i = 0; i < weir_file_count(task); i++) {
                const char *name = weir_file_entry(task, i, &type);

                *directories += type == DT_DIR && strcmp(name, "logs") == 0;
        }
}

static void
on_stat(weir_task *task, void *context)
{
        const struct stat *found = weir_file_stat(task); /* NULL: there is no such file */

        *(int64_t *)context = found ? (int64_t)found->st_size : -1;
}

static void
directories_are_listed_and_files_looked_at(void)
{
        unsigned directories = 0;
        int64_t size = 0;

        begin();
        weir_task_run(weir_file_mkdir_new("logs", 0755, NULL, NULL));
        CU_ASSERT(weir_task_run(weir_file_list_new(".", on_list, &directories)) == 0);
        CU_ASSERT(directories == 1);
        CU_ASSERT(weir_task_run(weir_file_stat_new("config", true, on_stat, &size)) == 0 && size == 8);
        CU_ASSERT(weir_task_run(weir_file_stat_new("missing", true, on_stat, &size)) == -ENOENT && size == -1);
        weir_file *file = weir_file_of(open("config", O_RDONLY));
        CU_ASSERT(weir_task_run(weir_file_stat_open_new(file, on_stat, &size)) == 0 && size == 8);
        weir_file_unref(file);
        weir_task_run(weir_file_rmdir_new("logs", NULL, NULL));
        weir_task_run(weir_file_unlink_new("config", NULL, NULL));
        weir_test_end();
}

static void
on_end(weir_task *task, void *context)
{
        struct copy *copy = context;

        CU_ASSERT(weir_task_status(task) == -ETIMEDOUT);
        copy->size = weir_file_count(task); /* bytes that have come all the same */
        copy->text[0] = 'x';                /* nobody writes here any more */
}

static void
a_pipe_is_read_with_a_limit_of_time(void)
{
        struct copy copy = {.size = 5};
        int ends[2];

        begin();
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        weir_file *file = weir_file_of(ends[0]); /* has the descriptor from now on */
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_file_read_into_new(file, 0, copy.text, 16, on_end, &copy));
        weir_series_set_deadline(series, WEIR_MSEC(1));
        CU_ASSERT(weir_series_run(series) == -ETIMEDOUT && copy.size == 0);
        CU_ASSERT(fcntl(weir_file_descriptor(file), F_GETFD) >= 0);
        weir_file_unref(weir_file_ref(file));
        weir_file_unref(file);
        close(ends[1]);
        CU_ASSERT(strcmp(weir_file_backend(), "io_uring") == 0 || strcmp(weir_file_backend(), "queue") == 0);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_file_is_opened_read_and_written),
        WEIR_TEST(memory_of_the_program_is_borrowed),
        WEIR_TEST(a_file_is_replaced_so_that_a_crash_leaves_the_old_or_the_new_one),
        WEIR_TEST(directories_are_listed_and_files_looked_at),
        WEIR_TEST(a_pipe_is_read_with_a_limit_of_time),
};

int
main(void)
{
        if (!mkdtemp(directory))
                return 1;
        int failed = weir_test_main("files, guide", tests, sizeof tests / sizeof *tests);
        char command[100];

        snprintf(command, sizeof command, "rm -rf %s", directory);
        return system(command) || failed;
}
