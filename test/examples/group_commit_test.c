/* test/examples/group_commit_test.c: all records are in the log, few syncs bring them to the disk, and a disk that is full is
 * noticed by each writer. */
#include "test/examples/program.h"

#include <errno.h>

#include "examples/group-commit.c"
#undef main

static char path[] = "/tmp/weir-group-commit-XXXXXX";

static void
begin(void)
{
        weir_test_begin_real(2);
}

/* How many lines the log has, each of them whole and of one of the writers. */
static unsigned
count_lines(unsigned writers, unsigned records)
{
        FILE *file = fopen(path, "re");
        unsigned lines = 0, writer, left;
        char line[200];

        while (fgets(line, sizeof line, file)) {
                CU_ASSERT_EQUAL(sscanf(line, "writer %u, %u to go\n", &writer, &left), 2);
                CU_ASSERT(writer < writers && left < records && line[strlen(line) - 1] == '\n');
                lines++;
        }
        fclose(file);
        return lines;
}

static void
all_records_of_all_writers_are_there_after_fewer_syncs(void)
{
        begin();
        CU_ASSERT_EQUAL(run(path, 50, 40), 0);
        CU_ASSERT_EQUAL(log_.committed, 50 * 40);
        CU_ASSERT(log_.commits >= 40 && log_.commits < 50 * 40);
        CU_ASSERT_EQUAL(count_lines(50, 40), 50 * 40);
        weir_test_end();
}

static void
a_second_run_appends(void)
{
        begin();
        CU_ASSERT_EQUAL(run(path, 3, 7), 0);
        CU_ASSERT_EQUAL(count_lines(50, 40), 50 * 40 + 3 * 7);
        weir_test_end();
}

static void
a_full_disk_ends_all_writers_with_the_reason(void)
{
        begin();
        CU_ASSERT_EQUAL(run("/dev/full", 20, 20), -ENOSPC);
        CU_ASSERT_EQUAL(log_.committed, 0);
        CU_ASSERT_EQUAL(run("/nonexistent/log", 20, 20), -ENOENT);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(all_records_of_all_writers_are_there_after_fewer_syncs),
        WEIR_TEST(a_second_run_appends),
        WEIR_TEST(a_full_disk_ends_all_writers_with_the_reason),
};

int
main(void)
{
        int fd = mkstemp(path);

        if (fd < 0)
                return 1;
        close(fd);
        int failed = weir_test_main("group-commit", tests, sizeof tests / sizeof *tests);
        unlink(path);
        return failed;
}
