/* test/files_test.c: file tasks.  The suite runs twice: WEIR_TEST_FILES=queue has the executor do what io_uring does else. */
#include "test/fixture.h"

#include <errno.h>
#include <malloc.h>
#include <sys/stat.h>

#include "factory/task/series.h"
#include "io/file/ring.h"

static char directory[] = "/tmp/weir-files-XXXXXX";

static bool
is_queue(void)
{
        const char *said = getenv("WEIR_TEST_FILES");

        return said && strcmp(said, "queue") == 0;
}

/* Whether a ring works; without io_uring both runs use the queue. */
static bool
has_ring(void)
{
        return strcmp(weir_file_backend(), "io_uring") == 0;
}

static void
begin(int pollers, enum weir_clock clock)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        config.clock = clock;
        config.files = is_queue() ? WEIR_FILES_QUEUE : WEIR_FILES_AUTO;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* A path in the directory of the suite; valid until the fourth next call. */
static const char *
path_of(const char *name)
{
        static char paths[4][300];
        static unsigned next;
        char *path = paths[next++ % 4];

        snprintf(path, sizeof paths[0], "%s/%s", directory, name);
        return path;
}

/* -- one task, and what its callback sees -- */

struct seen {
        _Atomic int calls;
        int status;
        size_t count;
        bool has_data;
        char data[64]; /* the first bytes */
        size_t data_size;
        bool has_stat;
        struct stat stat;
        weir_file *file;
        weir_nsec at;
};

static void
see(weir_task *task, void *context)
{
        struct seen *seen = context;
        const char *data = weir_file_data(task, &seen->data_size);
        const struct stat *found = weir_file_stat(task);

        seen->status = weir_task_status(task);
        seen->count = weir_file_count(task);
        seen->has_data = data;
        if (data)
                memcpy(seen->data, data, seen->data_size < sizeof seen->data ? seen->data_size : sizeof seen->data);
        seen->has_stat = found;
        if (found)
                seen->stat = *found;
        seen->file = weir_file_open_take(task);
        seen->at = weir_now();
        atomic_fetch_add(&seen->calls, 1);
}

static struct seen seen;

static int
run(weir_task *task)
{
        int status = weir_task_run(task);

        CU_ASSERT_EQUAL(seen.calls, 1);
        CU_ASSERT_EQUAL(seen.status, status);
        return status;
}

/* Where the callback of a task that RUN runs writes to. */
static struct seen *
anew(void)
{
        seen = (struct seen){0};
        return &seen;
}

#define RUN(call, ...) run(weir_file_##call##_new(__VA_ARGS__, see, anew()))

static weir_file *
open_file(const char *name, int flags)
{
        CU_ASSERT_EQUAL(RUN(open, path_of(name), flags, 0600), 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(seen.file);
        return seen.file;
}

/* -- reads and writes -- */

static void
what_was_written_is_read(void)
{
        char one[4], two[6], more[16];
        struct iovec into[] = {{one, sizeof one}, {NULL, 0}, {two, sizeof two}};
        const struct iovec from[] = {{"ab", 2}, {NULL, 0}, {"cdef", 4}};

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("roundtrip", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 0, "0123456789", 10), 0);
        CU_ASSERT_EQUAL(seen.count, 10);
        CU_ASSERT_EQUAL(RUN(write_from, file, 10, "xyz", 3), 0);
        CU_ASSERT_EQUAL(RUN(writev, file, 13, from, 3), 0);
        CU_ASSERT_EQUAL(seen.count, 6);
        CU_ASSERT_EQUAL(RUN(read, file, 8, 8), 0);
        CU_ASSERT(seen.data_size == 8 && memcmp(seen.data, "89xyzabc", 8) == 0);
        CU_ASSERT_EQUAL(RUN(read_into, file, 0, more, sizeof more), 0);
        CU_ASSERT(seen.count == 16 && memcmp(more, "0123456789xyzabc", 16) == 0);
        CU_ASSERT_FALSE(seen.has_data);
        CU_ASSERT_EQUAL(RUN(readv, file, 0, into, 3), 0);
        CU_ASSERT(seen.count == 10 && memcmp(one, "0123", 4) == 0 && memcmp(two, "456789", 6) == 0);
        weir_file_unref(file);
        weir_test_end();
}

static void
a_read_is_short_at_the_end_only_and_empty_behind_it(void)
{
        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("short", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), 0);
        CU_ASSERT_EQUAL(RUN(read, file, 1, 100), 0);
        CU_ASSERT(seen.data_size == 2 && memcmp(seen.data, "bc", 2) == 0);
        CU_ASSERT_EQUAL(RUN(read, file, 100, 100), 0);
        CU_ASSERT(seen.has_data && seen.data_size == 0);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 0), 0);
        CU_ASSERT(seen.has_data && seen.data_size == 0);
        CU_ASSERT_EQUAL(RUN(write, file, 3, NULL, 0), 0);
        CU_ASSERT_EQUAL(RUN(writev, file, 3, NULL, 0), 0);
        CU_ASSERT_EQUAL(RUN(stat_open, file), 0);
        CU_ASSERT(seen.has_stat && seen.stat.st_size == 3);
        weir_file_unref(file);
        weir_test_end();
}

/* The rest behind a short read would begin at an offset that is no multiple of a block. */
static void
a_direct_read_ends_at_the_end_of_the_file(void)
{
        char *memory = aligned_alloc(4096, 8192);

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("direct", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(truncate, file, 5000), 0);
        weir_file_unref(file);
        if (RUN(open, path_of("direct"), O_RDONLY | O_DIRECT, 0) == 0) { /* not every file system has it */
                file = seen.file;
                CU_ASSERT_EQUAL(RUN(read_into, file, 0, memory, 8192), 0);
                CU_ASSERT_EQUAL(seen.count, 5000);
                weir_file_unref(file);
        }
        weir_test_end();
        free(memory);
}

static void
megabytes_are_written_and_read_whole(void)
{
        const size_t size = 5 * 1024 * 1024 + 17;
        char *from = malloc(size), *into = malloc(size);

        for (size_t i = 0; i < size; i++)
                from[i] = (char)(i * 7 >> 3);
        begin(2, WEIR_CLOCK_REAL);
        weir_file *file = open_file("large", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 1, from, size), 0);
        CU_ASSERT_EQUAL(seen.count, size);
        CU_ASSERT_EQUAL(RUN(read_into, file, 1, into, size), 0);
        CU_ASSERT(seen.count == size && memcmp(from, into, size) == 0);
        weir_file_unref(file);
        weir_test_end();
        free(from);
        free(into);
}

static void
appends_go_to_the_end_wherever_that_is(void)
{
        const struct iovec parts[] = {{"de", 2}, {"f", 1}};

        begin(1, WEIR_CLOCK_REAL);
        for (int flags = 0; flags <= O_APPEND; flags += O_APPEND) {
                weir_file *file = open_file("append", O_RDWR | O_CREAT | O_TRUNC | flags);

                CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), 0);
                CU_ASSERT_EQUAL(RUN(appendv, file, parts, 2), 0);
                CU_ASSERT_EQUAL(seen.count, 3);
                CU_ASSERT_EQUAL(RUN(append, file, "g", 1), 0);
                CU_ASSERT_EQUAL(RUN(read, file, 0, 100), 0);
                CU_ASSERT(seen.data_size == 7 && memcmp(seen.data, "abcdefg", 7) == 0);
                weir_file_unref(file);
        }
        weir_test_end();
}

static void
files_are_synced_cut_and_lengthened(void)
{
        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("cut", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 0, "abcdef", 6), 0);
        CU_ASSERT_EQUAL(RUN(sync, file), 0);
        CU_ASSERT_EQUAL(RUN(sync_data, file), 0);
        CU_ASSERT_EQUAL(RUN(truncate, file, 2), 0);
        CU_ASSERT_EQUAL(RUN(truncate, file, 4), 0);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 100), 0);
        CU_ASSERT(seen.data_size == 4 && memcmp(seen.data, "ab\0\0", 4) == 0);
        weir_file_unref(file);
        weir_test_end();
}

/* -- names -- */

static void
note_list(weir_task *task, void *context)
{
        unsigned char type = 77;

        see(task, context);
        for (size_t i = 0; weir_file_entry(task, i, NULL); i++) {
                const char *name = weir_file_entry(task, i, &type);

                CU_ASSERT(strncmp(name, "entry", 5) == 0 || strcmp(name, "within") == 0);
                CU_ASSERT(type == DT_UNKNOWN || type == (*name == 'w' ? DT_DIR : DT_REG));
        }
        CU_ASSERT_PTR_NULL(weir_file_entry(task, weir_file_count(task), &type));
}

static void
directories_are_made_listed_and_removed(void)
{
        char name[64];

        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL(RUN(mkdir, path_of("dir"), 0700), 0);
        CU_ASSERT_EQUAL(RUN(mkdir, path_of("dir"), 0700), -EEXIST);
        CU_ASSERT_EQUAL(run(weir_file_list_new(path_of("dir"), note_list, anew())), 0);
        CU_ASSERT_EQUAL(seen.count, 0);
        CU_ASSERT_EQUAL(RUN(mkdir, path_of("dir/within"), 0700), 0);
        for (unsigned i = 0; i < 500; i++) {
                snprintf(name, sizeof name, "dir/entry%u", i);
                weir_file_unref(open_file(name, O_WRONLY | O_CREAT));
        }
        CU_ASSERT_EQUAL(run(weir_file_list_new(path_of("dir"), note_list, anew())), 0);
        CU_ASSERT_EQUAL(seen.count, 501);
        CU_ASSERT_EQUAL(RUN(rmdir, path_of("dir")), -ENOTEMPTY);
        for (unsigned i = 0; i < 500; i++) {
                snprintf(name, sizeof name, "dir/entry%u", i);
                CU_ASSERT_EQUAL(RUN(unlink, path_of(name)), 0);
        }
        CU_ASSERT_EQUAL(RUN(rmdir, path_of("dir/within")), 0);
        CU_ASSERT_EQUAL(RUN(rmdir, path_of("dir")), 0);
        CU_ASSERT_EQUAL(run(weir_file_list_new(path_of("dir"), note_list, anew())), -ENOENT);
        CU_ASSERT_EQUAL(seen.count, 0);
        weir_test_end();
}

static void
a_rename_replaces_and_links_are_followed_or_not(void)
{
        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("old", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), 0);
        weir_file_unref(file);
        weir_file_unref(open_file("new", O_RDWR | O_CREAT | O_TRUNC));
        CU_ASSERT_EQUAL(RUN(rename, path_of("old"), path_of("new")), 0);
        CU_ASSERT_EQUAL(RUN(rename, path_of("old"), path_of("new")), -ENOENT);
        CU_ASSERT_EQUAL(symlink("new", path_of("link")), 0);
        CU_ASSERT_EQUAL(RUN(stat, path_of("link"), true), 0);
        CU_ASSERT(S_ISREG(seen.stat.st_mode) && seen.stat.st_size == 3);
        CU_ASSERT_EQUAL(RUN(stat, path_of("link"), false), 0);
        CU_ASSERT(S_ISLNK(seen.stat.st_mode));
        CU_ASSERT_EQUAL(RUN(stat, path_of("old"), true), -ENOENT);
        CU_ASSERT_FALSE(seen.has_stat);
        weir_test_end();
}

/* -- what goes wrong -- */

static void
files_that_are_missing_or_of_another_kind_are_errors(void)
{
        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL(RUN(open, path_of("missing"), O_RDONLY, 0), -ENOENT);
        CU_ASSERT_PTR_NULL(seen.file);
        CU_ASSERT_EQUAL(RUN(open, directory, O_RDWR, 0), -EISDIR);
        CU_ASSERT_EQUAL(RUN(open, directory, O_RDONLY | O_DIRECTORY, 0), 0);
        weir_file *file = seen.file;
        CU_ASSERT_EQUAL(RUN(read, file, 0, 10), -EISDIR);
        CU_ASSERT_EQUAL(RUN(sync, file), 0); /* brings names to the disk */
        weir_file_unref(file);
        file = open_file("old", O_WRONLY | O_CREAT);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 10), -EBADF);
        weir_file_unref(file);
        weir_test_end();
}

static void
wrong_arguments_are_reported_by_the_start(void)
{
        struct iovec none = {NULL, 5};

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("wrong", O_RDWR | O_CREAT);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_open_new(NULL, O_RDONLY, 0, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_stat_new(NULL, true, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_rename_new(NULL, "x", NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_rename_new("x", NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_mkdir_new(NULL, 0, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(file, -1, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_into_new(file, 0, NULL, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_write_new(file, 0, NULL, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_writev_new(file, 0, &none, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_appendv_new(file, NULL, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_readv_new(file, 0, &none, 1025, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_truncate_new(file, -1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(NULL, 0, 1, NULL, NULL)), -EBADF);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_close_new(NULL, NULL, NULL)), -EBADF);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_stat_open_new(NULL, NULL, NULL)), -EBADF);
        CU_ASSERT(!weir_file_of(-1) && errno == EBADF);
        CU_ASSERT_EQUAL(weir_file_descriptor(NULL), -EBADF);
        weir_task *empty = weir_empty_new(NULL, NULL);
        CU_ASSERT(!weir_file_data(empty, NULL) && !weir_file_count(empty) && !weir_file_stat(empty) &&
                  !weir_file_entry(empty, 0, NULL) && !weir_file_open_take(empty) && !weir_file_data(NULL, NULL));
        weir_task_dismiss(empty);
        weir_task_dismiss(weir_file_write_new(file, 0, "x", 1, NULL, NULL));
        weir_file_unref(file);
        weir_file_unref(NULL);
        weir_test_end();
}

static void
a_full_disk_and_a_limit_of_sizes_are_errors_that_say_how_far_it_went(void)
{
        struct rlimit limit, before;
        char *data = calloc(1, 64 * 1024);

        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL(RUN(open, "/dev/full", O_WRONLY, 0), 0);
        weir_file *file = seen.file;
        CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), -ENOSPC);
        CU_ASSERT_EQUAL(seen.count, 0);
        CU_ASSERT_EQUAL(RUN(append, file, "abc", 3), -ENOSPC);
        weir_file_unref(file);
        getrlimit(RLIMIT_FSIZE, &before);
        limit = (struct rlimit){.rlim_cur = 20000, .rlim_max = before.rlim_max};
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
        file = open_file("limited", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(RUN(write, file, 0, data, 64 * 1024), -EFBIG);
        CU_ASSERT_EQUAL(seen.count, 20000);
        CU_ASSERT_EQUAL(RUN(append, file, "x", 1), -EFBIG);
        CU_ASSERT_EQUAL(RUN(truncate, file, 30000), -EFBIG);
        setrlimit(RLIMIT_FSIZE, &before);
        weir_file_unref(file);
        weir_test_end();
        free(data);
}

/* All descriptors below the limit are in use. */
static void
without_descriptors_opens_fail_and_what_is_open_works(void)
{
        struct rlimit limit, before;

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = weir_file_of(open(path_of("roundtrip"), O_RDONLY));
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        getrlimit(RLIMIT_NOFILE, &before);
        limit = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        CU_ASSERT_EQUAL(RUN(open, path_of("roundtrip"), O_RDONLY, 0), -EMFILE);
        CU_ASSERT_EQUAL(run(weir_file_list_new(directory, see, anew())), -EMFILE);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 4), 0); /* if there can be no ring, by the queue */
        CU_ASSERT(seen.data_size == 4 && memcmp(seen.data, "0123", 4) == 0);
        setrlimit(RLIMIT_NOFILE, &before);
        weir_file_unref(file);
        weir_test_end();
}

/* -- close -- */

static void
a_close_refuses_while_others_work_and_ends_the_file(void)
{
        struct seen reading = {0};
        int ends[2];

        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *file = weir_file_of(ends[0]);
        CU_ASSERT_EQUAL(weir_file_descriptor(file), ends[0]);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(file, 0, 10, see, &reading)), 0);
        CU_ASSERT_EQUAL(RUN(close, file), -EBUSY);
        CU_ASSERT_EQUAL(write(ends[1], "abc", 3), 3);
        WEIR_TEST_EVENTUALLY(reading.calls == 1);
        CU_ASSERT(reading.status == 0 && reading.data_size == 3);
        CU_ASSERT_EQUAL(RUN(close, file), 0);
        CU_ASSERT(fcntl(ends[0], F_GETFD) < 0 && errno == EBADF);
        CU_ASSERT_EQUAL(RUN(close, file), -EBADF);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 10), -EBADF);
        CU_ASSERT_EQUAL(weir_file_descriptor(file), -EBADF);
        weir_file_unref(file);
        close(ends[1]);
        weir_test_end();
}

static void
unref_in_callback(weir_task *task, void *context)
{
        (void)task;
        weir_file_unref(context);
}

static void
the_last_reference_and_an_open_that_nobody_takes_close(void)
{
        unsigned before = weir_test_entries_of("/proc/self/fd");

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("last", O_RDWR | O_CREAT);
        int descriptor = weir_file_descriptor(file);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(unref_in_callback, file)), 0);
        WEIR_TEST_EVENTUALLY(fcntl(descriptor, F_GETFD) < 0);
        file = open_file("last", O_RDWR | O_CREAT);
        descriptor = weir_file_descriptor(file);
        weir_file_unref(weir_file_ref(file));
        CU_ASSERT(fcntl(descriptor, F_GETFD) >= 0);
        weir_file_unref(file);
        CU_ASSERT(fcntl(descriptor, F_GETFD) < 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_file_open_new(path_of("last"), O_RDONLY, 0, NULL, NULL)), 0);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

/* -- pipes -- */

static void
a_pipe_gives_what_is_there_and_takes_all(void)
{
        static char much[300 * 1024];
        char some[1000];
        int ends[2];

        begin(1, WEIR_CLOCK_REAL);
        for (int flags = 0; flags <= O_NONBLOCK; flags += O_NONBLOCK) {
                struct seen reading = {0}, writing = {0};

                CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC | flags), 0);
                weir_file *out = weir_file_of(ends[1]), *in = weir_file_of(ends[0]);
                CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(in, 0, 100, see, &reading)), 0);
                CU_ASSERT_EQUAL(RUN(write, out, 0, "abc", 3), 0);
                WEIR_TEST_EVENTUALLY(reading.calls == 1);
                CU_ASSERT(reading.status == 0 && reading.data_size == 3 && memcmp(reading.data, "abc", 3) == 0);
                CU_ASSERT_EQUAL(weir_task_start(weir_file_write_from_new(out, 0, much, sizeof much, see, &writing)), 0);
                for (size_t got = 0; got < sizeof much; got += seen.count) {
                        CU_ASSERT_EQUAL(RUN(read_into, in, 12345, some, sizeof some), 0);
                        CU_ASSERT_FATAL(seen.count > 0);
                }
                WEIR_TEST_EVENTUALLY(writing.calls == 1);
                CU_ASSERT(writing.status == 0 && writing.count == sizeof much);
                weir_file_unref(out);
                CU_ASSERT_EQUAL(RUN(read, in, 0, 100), 0);
                CU_ASSERT_EQUAL(seen.data_size, 0);
                weir_file_unref(in);
        }
        weir_test_end();
}

static void
a_pipe_that_nobody_reads_is_an_error_and_no_signal(void)
{
        int ends[2];

        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        close(ends[0]);
        weir_file *out = weir_file_of(ends[1]);
        CU_ASSERT_EQUAL(RUN(write, out, 0, "abc", 3), -EPIPE);
        CU_ASSERT_EQUAL(RUN(sync, out), -EINVAL);
        weir_file_unref(out);
        weir_test_end();
}

static void
the_open_of_a_fifo_does_not_wait_for_the_other_end(void)
{
        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(mkfifo(path_of("fifo"), 0600), 0);
        CU_ASSERT_EQUAL(RUN(open, path_of("fifo"), O_WRONLY, 0), -ENXIO);
        weir_file *in = open_file("fifo", O_RDONLY), *out = open_file("fifo", O_WRONLY);
        CU_ASSERT_EQUAL(fcntl(weir_file_descriptor(in), F_GETFL) & O_NONBLOCK, 0);
        CU_ASSERT_EQUAL(RUN(write, out, 0, "abc", 3), 0);
        CU_ASSERT_EQUAL(RUN(read, in, 0, 2), 0);
        CU_ASSERT(seen.data_size == 2 && memcmp(seen.data, "ab", 2) == 0);
        weir_file_unref(in);
        weir_file_unref(out);
        weir_test_end();
}

/* -- ends -- */

/* The task in a series, which is started. */
static weir_series *
series_with(weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, task);
        weir_series_ref(series);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
a_cancel_of_a_read_that_never_comes_lets_the_memory_go_first(void)
{
        char memory[8] = "";
        int ends[2];

        begin(2, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *in = weir_file_of(ends[0]);
        for (unsigned i = 0; i < 20; i++) {
                struct seen reading = {0};
                weir_series *series = series_with(weir_file_read_into_new(in, 0, memory, sizeof memory, see, &reading));

                if (i % 2)
                        weir_test_sleep(1000000); /* the kernel has it */
                weir_series_cancel(series);
                WEIR_TEST_EVENTUALLY(reading.calls == 1);
                CU_ASSERT(reading.status == -ECANCELED && reading.count == 0);
                weir_series_unref(series);
        }
        CU_ASSERT_EQUAL(write(ends[1], "abc", 3), 3);
        CU_ASSERT_EQUAL(RUN(read, in, 0, 10), 0); /* no earlier one has taken it */
        CU_ASSERT_EQUAL(seen.data_size, 3);
        CU_ASSERT_EQUAL(memory[0], '\0');
        weir_file_unref(in);
        close(ends[1]);
        weir_test_end();
}

/* The kernel has more to say at once than the ring has room for. */
static void
five_thousand_reads_that_wait_are_cancelled_together(void)
{
        static struct seen all[5000];
        static weir_series *series[5000];
        int ends[2];

        memset(all, 0, sizeof all);
        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *in = weir_file_of(ends[0]);
        for (unsigned i = 0; i < 5000; i++)
                series[i] = series_with(weir_file_read_new(in, 0, 10, see, &all[i]));
        if (has_ring()) /* without one they have all threads, and this would wait for one */
                CU_ASSERT_EQUAL(RUN(stat, directory, true), 0);
        for (unsigned i = 0; i < 5000; i++) {
                weir_series_cancel(series[i]);
                weir_series_unref(series[i]);
        }
        for (unsigned i = 0; i < 5000; i++) {
                WEIR_TEST_EVENTUALLY(all[i].calls == 1);
                CU_ASSERT_EQUAL(all[i].status, -ECANCELED);
        }
        weir_file_unref(in);
        close(ends[1]);
        weir_test_end();
}

static void
a_deadline_ends_a_read_that_never_comes(void)
{
        struct seen reading = {0};
        int ends[2];

        begin(1, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *in = weir_file_of(ends[0]);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_file_read_new(in, 0, 10, see, &reading));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_MSEC(5)), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT(reading.calls == 1 && reading.status == -ETIMEDOUT);
        weir_file_unref(in);
        close(ends[1]);
        weir_test_end();
}

static void
a_task_that_is_cancelled_before_its_start_does_nothing(void)
{
        struct seen writing = {0};

        begin(1, WEIR_CLOCK_REAL);
        weir_file *file = open_file("nothing", O_RDWR | O_CREAT | O_TRUNC);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(3600), NULL, NULL));
        weir_series_push(series, weir_file_write_new(file, 0, "abc", 3, see, &writing));
        weir_series_ref(series);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(RUN(stat_open, file), 0);
        CU_ASSERT_EQUAL(seen.stat.st_size, 0);
        CU_ASSERT_EQUAL(writing.calls, 0);
        weir_file_unref(file);
        weir_test_end();
}

static void
shutdown_ends_what_waits_and_lets_the_rest_complete(void)
{
        static char much[1024 * 1024];
        struct seen reading = {0}, writing[32] = {{0}};
        unsigned before = weir_test_entries_of("/proc/self/fd");
        int ends[2];

        begin(2, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *in = weir_file_of(ends[0]), *file = open_file("shutdown", O_RDWR | O_CREAT | O_TRUNC);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(in, 0, 10, see, &reading)), 0);
        for (unsigned i = 0; i < 32; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_file_write_from_new(file, 0, much, sizeof much, see, &writing[i])), 0);
        weir_test_end();
        CU_ASSERT(reading.calls == 1 && reading.status == -ESHUTDOWN);
        for (unsigned i = 0; i < 32; i++) {
                CU_ASSERT_EQUAL(writing[i].calls, 1);
                CU_ASSERT(writing[i].status == -ESHUTDOWN || (writing[i].status == 0 && writing[i].count == sizeof much));
        }
        weir_file_unref(in);
        weir_file_unref(file);
        close(ends[1]);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

/* -- the clock, other workers, processes -- */

static void
virtual_time_stands_while_a_file_works(void)
{
        struct seen synced = {0};
        struct weir_test_record timer = {0};

        begin(1, WEIR_CLOCK_VIRTUAL);
        weir_file *file = open_file("virtual", O_RDWR | O_CREAT | O_TRUNC);
        weir_nsec from = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_file_append_new(file, "abc", 3, NULL, NULL));
        weir_series_push(series, weir_file_sync_new(file, NULL, NULL));
        weir_series_push(series, weir_file_stat_open_new(file, NULL, NULL));
        weir_series_push(series, weir_file_sync_data_new(file, see, &synced));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_SEC(1), &timer)), 0);
        weir_test_pass(WEIR_SEC(2));
        WEIR_TEST_CALLED(&timer, 0);
        CU_ASSERT(synced.calls == 1 && synced.status == 0 && synced.at == from);
        weir_file_unref(file);
        weir_test_end();
}

/* In the queue it does, as any function that runs. */
static void
a_pipe_does_not_keep_the_virtual_clock(void)
{
        struct seen reading = {0};
        int ends[2];

        begin(1, WEIR_CLOCK_VIRTUAL);
        if (has_ring()) {
                CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
                weir_file *in = weir_file_of(ends[0]);
                CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(in, 0, 10, see, &reading)), 0);
                weir_test_pass(WEIR_SEC(1));
                CU_ASSERT_EQUAL(reading.calls, 0);
                weir_file_unref(in);
                close(ends[1]);
        }
        weir_test_end();
}

struct blocking {
        weir_file *file;
        struct weir_test_latch read, blocks;
        unsigned left;
};

static void
wait_for_reads(weir_task *task, void *context)
{
        struct blocking *blocking = context;

        (void)task;
        weir_test_latch_count_down(&blocking->blocks);
        weir_test_latch_wait(&blocking->read); /* blocks its worker, which loses its poller */
}

static void
read_again(weir_task *task, void *context)
{
        struct blocking *blocking = context;

        CU_ASSERT(weir_task_status(task) == 0 && weir_file_count(task) == 4);
        if (--blocking->left > 0)
                weir_series_push(weir_series_of(task), weir_file_read_new(blocking->file, 0, 4, read_again, blocking));
        else
                weir_test_latch_count_down(&blocking->read);
}

static void
reads_go_on_when_their_poller_changes_hands(void)
{
        struct blocking blocking = {.left = 1000, .read = WEIR_TEST_LATCH(1), .blocks = WEIR_TEST_LATCH(1)};
        int ends[2];
        struct seen reading = {0};

        begin(1, WEIR_CLOCK_REAL);
        blocking.file = open_file("roundtrip", O_RDONLY);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_file *in = weir_file_of(ends[0]);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(in, 0, 10, see, &reading)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(wait_for_reads, &blocking)), 0);
        weir_test_latch_wait(&blocking.blocks);
        CU_ASSERT_EQUAL(weir_task_start(weir_file_read_new(blocking.file, 0, 4, read_again, &blocking)), 0);
        weir_test_latch_wait(&blocking.read);
        CU_ASSERT_EQUAL(write(ends[1], "abc", 3), 3); /* the thread that has asked for it may be idle by now */
        WEIR_TEST_EVENTUALLY(reading.calls == 1);
        CU_ASSERT(reading.status == 0 && reading.data_size == 3);
        weir_file_unref(blocking.file);
        weir_file_unref(in);
        close(ends[1]);
        weir_test_end();
}

static weir_file *inherited;

static void
use_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        if (weir_task_start(weir_file_read_new(inherited, 0, 4, NULL, NULL)) != -ECHILD)
                _exit(1);
        weir_file_unref(inherited);
        _exit(7);
}

static void
read_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        begin(1, WEIR_CLOCK_REAL);
        if (RUN(read, inherited, 0, 4) != 0 || memcmp(seen.data, "0123", 4) != 0)
                _exit(1);
        weir_file_unref(inherited);
        _exit(weir_shutdown() == 0 ? 7 : 1);
}

static void
a_child_of_fork_is_refused_and_one_after_a_shutdown_has_rings_of_its_own(void)
{
        char said[1024];

        begin(1, WEIR_CLOCK_REAL);
        inherited = open_file("roundtrip", O_RDONLY);
        CU_ASSERT_EQUAL(RUN(read, inherited, 0, 4), 0); /* there is a ring */
        int status = weir_test_child(use_in_child, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        CU_ASSERT_EQUAL(RUN(read, inherited, 0, 4), 0);
        weir_test_end();
        status = weir_test_child(read_in_child, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        weir_file_unref(inherited);
}

static void
exit_with_7(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        exit(7);
}

static void
exit_in_callback(void)
{
        int ends[2];

        weir_test_leaks_do_not_count = 1;
        begin(2, WEIR_CLOCK_REAL);
        if (pipe2(ends, O_CLOEXEC) < 0)
                _exit(1);
        weir_file *in = weir_file_of(ends[0]);
        for (unsigned i = 0; i < 100; i++)
                weir_task_start(weir_file_read_new(in, 0, 10, NULL, NULL));
        weir_task_start(weir_file_stat_new(directory, true, exit_with_7, NULL));
        weir_test_sleep(WEIR_TEST_PATIENCE);
}

static void
exit_inside_a_callback_does_not_wait_for_reads(void)
{
        char said[1024];
        int status = weir_test_child(exit_in_callback, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* -- what a dump says -- */

static void
a_dump_says_what_a_task_waits_for(void)
{
        char text[300], wanted[400];

        begin(1, WEIR_CLOCK_REAL);
        weir_file *in = open_file("fifo", O_RDONLY), *out = open_file("fifo", O_WRONLY);
        weir_series *series = series_with(weir_file_read_new(in, 8192, 4096, NULL, NULL));
        weir__series_describe(series, text, sizeof text);
        snprintf(wanted, sizeof wanted, "a read of a file (4096 bytes at 8192 of %s)", path_of("fifo"));
        WEIR_TEST_EVENTUALLY((weir__series_describe(series, text, sizeof text), strcmp(text, wanted) == 0));
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_file_unref(in);
        weir_file_unref(out);
        weir_test_end();
}

/* -- a storm -- */

#define STORM_SERIES 200
#define STORM_READS  (100 * 1000)

static struct {
        weir_file *file, *pipe;
        _Atomic int left;
        _Atomic unsigned calls, cancelled, wrong;
} storm;

static void storm_read(weir_task *task, void *context);

static weir_task *
next_of_storm(void)
{
        static _Thread_local struct weir_test_random random;
        uint64_t kind = weir_test_random_below(&random, 20);

        if (kind == 0)
                return weir_file_read_new(storm.pipe, 0, 64, storm_read, NULL);
        if (kind == 1)
                return weir_file_sync_data_new(storm.file, storm_read, NULL);
        return weir_file_read_new(storm.file, (int64_t)weir_test_random_below(&random, 5 * 1024 * 1024),
                                  weir_test_random_below(&random, 8192), storm_read, NULL);
}

static void
storm_read(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        atomic_fetch_add(&storm.calls, 1);
        atomic_fetch_add(&storm.cancelled, status == -ECANCELED);
        atomic_fetch_add(&storm.wrong, status != 0 && status != -ECANCELED);
        if (status == 0 && atomic_fetch_sub(&storm.left, 1) > 0)
                weir_series_push(weir_series_of(task), next_of_storm());
}

/* Series of random reads, some of them of a pipe that gives nothing.  Each is cancelled at a random time, and another comes. */
static void
storm_once(void)
{
        weir_series *all[STORM_SERIES] = {NULL};
        struct weir_test_random random = {weir_test_seed()};
        weir_waitgroup *group = weir_waitgroup_new();
        struct seen opened = {0};
        int ends[2];

        begin(2, WEIR_CLOCK_REAL);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_file_open_new(path_of("large"), O_RDONLY, 0, see, &opened)), 0);
        storm.file = opened.file;
        storm.pipe = weir_file_of(ends[0]);
        storm.left = STORM_READS;
        storm.calls = storm.cancelled = storm.wrong = 0;
        while (atomic_load(&storm.left) > 0) {
                unsigned i = (unsigned)weir_test_random_below(&random, STORM_SERIES);

                if (all[i]) {
                        weir_series_cancel(all[i]);
                        weir_series_unref(all[i]);
                        weir_waitgroup_wait(group, WEIR_USEC(weir_test_random_below(&random, 100)));
                        atomic_fetch_sub(&storm.left, 1);
                }
                all[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(all[i], next_of_storm());
                CU_ASSERT_EQUAL(weir_series_start_waited(all[i], group), 0);
        }
        for (unsigned i = 0; i < STORM_SERIES; i++) {
                weir_series_cancel(all[i]);
                weir_series_unref(all[i]);
        }
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_free(group);
        weir_file_unref(storm.file);
        weir_file_unref(storm.pipe);
        close(ends[1]);
        weir_test_end();
        CU_ASSERT_EQUAL(storm.wrong, 0);
        CU_ASSERT(storm.cancelled > 0);
}

static void
after_a_storm_of_reads_and_cancels_all_is_as_before(void)
{
        unsigned before = weir_test_entries_of("/proc/self/fd");

        storm_once();
        size_t bytes = mallinfo2().uordblks;
        storm_once();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT(WEIR_TEST_SANITIZED || mallinfo2().uordblks <= bytes + 4096);
}

static const struct weir_test tests[] = {
        WEIR_TEST(what_was_written_is_read),
        WEIR_TEST(a_read_is_short_at_the_end_only_and_empty_behind_it),
        WEIR_TEST(a_direct_read_ends_at_the_end_of_the_file),
        WEIR_TEST(megabytes_are_written_and_read_whole),
        WEIR_TEST(appends_go_to_the_end_wherever_that_is),
        WEIR_TEST(files_are_synced_cut_and_lengthened),
        WEIR_TEST(directories_are_made_listed_and_removed),
        WEIR_TEST(a_rename_replaces_and_links_are_followed_or_not),
        WEIR_TEST(files_that_are_missing_or_of_another_kind_are_errors),
        WEIR_TEST(wrong_arguments_are_reported_by_the_start),
        WEIR_TEST(a_full_disk_and_a_limit_of_sizes_are_errors_that_say_how_far_it_went),
        WEIR_TEST(without_descriptors_opens_fail_and_what_is_open_works),
        WEIR_TEST(a_close_refuses_while_others_work_and_ends_the_file),
        WEIR_TEST(the_last_reference_and_an_open_that_nobody_takes_close),
        WEIR_TEST(a_pipe_gives_what_is_there_and_takes_all),
        WEIR_TEST(a_pipe_that_nobody_reads_is_an_error_and_no_signal),
        WEIR_TEST(the_open_of_a_fifo_does_not_wait_for_the_other_end),
        WEIR_TEST(a_cancel_of_a_read_that_never_comes_lets_the_memory_go_first),
        WEIR_TEST(five_thousand_reads_that_wait_are_cancelled_together),
        WEIR_TEST(a_deadline_ends_a_read_that_never_comes),
        WEIR_TEST(a_task_that_is_cancelled_before_its_start_does_nothing),
        WEIR_TEST(shutdown_ends_what_waits_and_lets_the_rest_complete),
        WEIR_TEST(virtual_time_stands_while_a_file_works),
        WEIR_TEST(a_pipe_does_not_keep_the_virtual_clock),
        WEIR_TEST(reads_go_on_when_their_poller_changes_hands),
        WEIR_TEST(a_child_of_fork_is_refused_and_one_after_a_shutdown_has_rings_of_its_own),
        WEIR_TEST(exit_inside_a_callback_does_not_wait_for_reads),
        WEIR_TEST(a_dump_says_what_a_task_waits_for),
        WEIR_TEST(after_a_storm_of_reads_and_cancels_all_is_as_before),
};

int
main(void)
{
        if (!mkdtemp(directory))
                return 1;
        int failed = weir_test_main(is_queue() ? "files, queue" : "files", tests, sizeof tests / sizeof *tests);
        char command[100];

        snprintf(command, sizeof command, "rm -rf %s", directory);
        return system(command) || failed;
}
