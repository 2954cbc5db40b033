/* test/reference_files_guide_test.c: the example of the manual page of weir/file.h. */
#include "test/fixture.h"

#include <errno.h>

/* -- weir/file.h -- */

/* Reads the first line of a file, and calls back with it. */
struct line {
        weir_file *file;
        char text[80];
};

static void
on_line(weir_task *task, void *context)
{
        struct line *line = context;
        size_t size = 0;
        const char *data = weir_file_data(task, &size);
        const char *end = weir_task_status(task) == 0 ? memchr(data, '\n', size) : NULL;

        if (end)
                memcpy(line->text, data, (size_t)(end - data));
        weir_file_unref(line->file);
}

static void
on_opened(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);
        struct line *line = context;

        line->file = weir_file_open_take(task); /* NULL: the status says why */
        if (line->file)
                weir_series_push(series, weir_file_read_new(line->file, 0, 79, on_line, line));
}

static void
the_first_line_is_read(void)
{
        struct line line = {NULL, ""};

        CU_ASSERT(weir_task_run(weir_file_open_new("/proc/self/status", O_RDONLY, 0, on_opened, &line)) == 0);
        CU_ASSERT(strncmp(line.text, "Name:", 5) == 0);
}

/* -- the suite -- */

static void
run_the_first_line_is_read(void)
{
        weir_test_begin_real(1);
        the_first_line_is_read();
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(run_the_first_line_is_read),
};

int
main(void)
{
        return weir_test_main("reference_files_guide", tests, sizeof tests / sizeof *tests);
}
