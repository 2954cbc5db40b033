/* test/process_pipe_test.c: pipes to programs, as streams. */
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <weir/pump.h>

#define WHOLE (WEIR_TEST_SANITIZED ? (size_t)20 << 20 : (size_t)100 << 20)
#define PIECE ((size_t)64 * 1024)

static void
begin(void)
{
        weir_test_begin_real(2);
}

static void
end(void)
{
        siginfo_t info;

        weir_test_end();
        CU_ASSERT(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD);
}

static weir_task *
shell(struct weir_test_record *record, const char *line)
{
        return weir_test_recorded(weir_command_new(weir_test_done, record, "sh", "-c", line, NULL));
}

static weir_series *
start(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, task);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

/* -- bytes that can be told apart -- */

struct bytes {
        weir_stream *stream;
        size_t size;   /* read or written so far */
        size_t wrong;  /* bytes that were not what was expected */
        int status;    /* of the last one */
        char *piece;   /* to be written */
        size_t target; /* to be written in all */
};

static char
byte_at(size_t at)
{
        return (char)('a' + at % 23 + at / PIECE % 3);
}

static void
read_on(weir_task *read, void *context)
{
        struct bytes *bytes = context;
        size_t size;
        const char *data = weir_stream_data(read, &size);

        bytes->status = weir_task_status(read);
        for (size_t i = 0; i < size; i++)
                bytes->wrong += data[i] != byte_at(bytes->size + i);
        bytes->size += size;
        if (bytes->status == 0)
                weir_series_push(weir_series_of(read), weir_stream_read_new(bytes->stream, 1, PIECE, read_on, bytes));
}

static weir_task *
read_all(struct bytes *bytes, weir_stream *stream)
{
        *bytes = (struct bytes){.stream = stream};
        return weir_stream_read_new(stream, 1, PIECE, read_on, bytes);
}

static void write_on(weir_task *write, void *context);

static weir_task *
next_write(struct bytes *bytes)
{
        size_t left = bytes->target - bytes->size, size = left < PIECE ? left : PIECE;

        for (size_t i = 0; i < size; i++)
                bytes->piece[i] = byte_at(bytes->size + i);
        bytes->size += size;
        return weir_stream_write_lent_new(bytes->stream, bytes->piece, size, write_on, bytes);
}

static void
write_on(weir_task *write, void *context)
{
        struct bytes *bytes = context;

        bytes->status = weir_task_status(write);
        if (bytes->status)
                return;
        weir_series_push(weir_series_of(write),
                         bytes->size < bytes->target ? next_write(bytes) : weir_stream_finish_new(bytes->stream, NULL, NULL));
}

static weir_task *
write_all(struct bytes *bytes, weir_stream *stream, size_t size)
{
        *bytes = (struct bytes){.stream = stream, .piece = malloc(PIECE), .target = size};
        return next_write(bytes);
}

static void
expect_whole(struct bytes *written, struct bytes *got)
{
        CU_ASSERT_EQUAL(written->status, 0);
        CU_ASSERT_EQUAL(written->size, WHOLE);
        CU_ASSERT_EQUAL(got->status, -EPIPE);
        CU_ASSERT_EQUAL(got->size, WHOLE);
        CU_ASSERT_EQUAL(got->wrong, 0);
        free(written->piece);
}

/* -- filters -- */

static void
a_filter_reads_and_writes_while_it_runs(void)
{
        struct weir_test_record record = {0};
        struct bytes written, got;

        begin();
        weir_task *cat = weir_test_recorded(weir_command_new(weir_test_done, &record, "cat", NULL));
        weir_stream *input = weir_process_open_pipe(cat, 0), *output = weir_process_open_pipe(cat, 1);
        weir_task *all = weir_parallel_new(NULL, NULL);
        weir_parallel_add(all, cat);
        weir_parallel_add(all, write_all(&written, input, WHOLE));
        weir_parallel_add(all, read_all(&got, output));
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        WEIR_TEST_CALLED(&record, 0);
        expect_whole(&written, &got);
        weir_stream_unref(input);
        weir_stream_unref(output);
        end();
}

static void
take_moved(weir_task *pump, void *moved)
{
        CU_ASSERT_EQUAL(weir_task_status(pump), 0);
        *(uint64_t *)moved = weir_pump_moved(pump);
}

/* gzip | gzip -d, with a pump between them. */
static void
a_pump_carries_from_one_program_to_another(void)
{
        struct weir_test_record packing = {0}, unpacking = {0};
        struct bytes written, got;
        uint64_t packed = 0;

        begin();
        weir_task *pack = weir_test_recorded(weir_command_new(weir_test_done, &packing, "gzip", "-1", "-c", NULL));
        weir_task *unpack = weir_test_recorded(weir_command_new(weir_test_done, &unpacking, "gzip", "-d", "-c", NULL));
        weir_stream *pipes[] = {weir_process_open_pipe(pack, 0), weir_process_open_pipe(pack, 1),
                                weir_process_open_pipe(unpack, 0), weir_process_open_pipe(unpack, 1)};
        weir_series *between = weir_series_new(NULL, NULL);
        weir_series_push(between, weir_pump_new(pipes[1], pipes[2], take_moved, &packed));
        weir_series_push(between, weir_stream_finish_new(pipes[2], NULL, NULL));
        weir_task *all = weir_parallel_new(NULL, NULL);
        weir_parallel_add(all, pack);
        weir_parallel_add(all, unpack);
        weir_parallel_add(all, write_all(&written, pipes[0], WHOLE));
        weir_parallel_add_series(all, between);
        weir_parallel_add(all, read_all(&got, pipes[3]));
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        WEIR_TEST_CALLED(&packing, 0);
        WEIR_TEST_CALLED(&unpacking, 0);
        expect_whole(&written, &got);
        CU_ASSERT(packed > 0 && packed < WHOLE);
        for (unsigned i = 0; i < 4; i++)
                weir_stream_unref(pipes[i]);
        end();
}

/* A connection, a program and back. */
static void
a_pump_carries_between_a_connection_and_a_program(void)
{
        struct weir_test_record record = {0};
        int ends[2];
        char text[64] = "";

        begin();
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_stream *connection = weir_stream_of(ends[0]);
        weir_task *tr = weir_test_recorded(weir_command_new(weir_test_done, &record, "tr", "a-z", "A-Z", NULL));
        weir_stream *input = weir_process_open_pipe(tr, 0), *output = weir_process_open_pipe(tr, 1);
        weir_series *in = weir_series_new(NULL, NULL), *out = weir_series_new(NULL, NULL);
        weir_series_push(in, weir_pump_new(connection, input, NULL, NULL));
        weir_series_push(in, weir_stream_finish_new(input, NULL, NULL));
        weir_series_push(out, weir_pump_new(output, connection, NULL, NULL));
        weir_series_push(out, weir_stream_finish_new(connection, NULL, NULL));
        weir_task *all = weir_parallel_new(NULL, NULL);
        weir_parallel_add(all, tr);
        weir_parallel_add_series(all, in);
        weir_parallel_add_series(all, out);
        CU_ASSERT_EQUAL(write(ends[1], "spoken", 6), 6);
        shutdown(ends[1], SHUT_WR);
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        CU_ASSERT_EQUAL(recv(ends[1], text, sizeof text, MSG_WAITALL), 6);
        CU_ASSERT_STRING_EQUAL(text, "SPOKEN");
        weir_stream_unref(connection);
        weir_stream_unref(input);
        weir_stream_unref(output);
        end();
        close(ends[1]);
}

static void
a_close_ends_the_input_as_well(void)
{
        struct weir_test_record record = {0};
        struct bytes got;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "wc", "-c", NULL));
        weir_stream *input = weir_process_open_pipe(task, 0), *output = weir_process_open_pipe(task, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_new(input, "xyz", 3, NULL, NULL)), 0); /* before the program is there */
        weir_stream_unref(input);
        weir_task *all = weir_parallel_new(NULL, NULL);
        weir_parallel_add(all, task);
        weir_parallel_add(all, read_all(&got, output));
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(got.size, 2);
        weir_stream_unref(output);
        end();
}

static void
errors_have_a_pipe_of_their_own(void)
{
        struct weir_test_record record = {0}, merged = {0};
        struct bytes out, err;

        begin();
        weir_task *task = shell(&record, "echo out; echo errors >&2");
        weir_stream *output = weir_process_open_pipe(task, 1), *errors = weir_process_open_pipe(task, 2);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        (void)!weir_task_run(read_all(&out, output));
        (void)!weir_task_run(read_all(&err, errors));
        CU_ASSERT_EQUAL(out.size, 4);
        CU_ASSERT_EQUAL(err.size, 7);
        weir_stream_unref(output);
        weir_stream_unref(errors);
        task = shell(&merged, "echo out; echo errors >&2");
        output = weir_process_open_pipe(task, 1);
        weir_process_merge_errors(task);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        (void)!weir_task_run(read_all(&out, output));
        CU_ASSERT_EQUAL(out.size, 11);
        weir_stream_unref(output);
        end();
}

/* -- ends -- */

static void
note_status(weir_task *task, void *status)
{
        *(_Atomic int *)status = weir_task_status(task);
}

static _Atomic unsigned signals;

static void
count_signal(int signo)
{
        (void)signo;
        signals++;
}

static void
input_that_nobody_reads_is_an_error_without_a_signal(void)
{
        struct weir_test_record record = {0};
        struct sigaction action = {.sa_handler = count_signal}, before;
        struct bytes written;

        sigaction(SIGPIPE, &action, &before);
        signals = 0;
        begin();
        weir_task *task = shell(&record, "exec <&-; sleep 1000");
        weir_stream *input = weir_process_open_pipe(task, 0);
        weir_series *series = start(task);
        (void)!weir_task_run(write_all(&written, input, WHOLE));
        CU_ASSERT_EQUAL(written.status, -EPIPE);
        CU_ASSERT(written.size < WHOLE);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_stream_unref(input);
        end();
        CU_ASSERT_EQUAL(signals, 0);
        sigaction(SIGPIPE, &before, NULL);
        free(written.piece);
}

static void
all_output_comes_before_the_end(void)
{
        struct weir_test_record record = {0};
        struct bytes got;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "head", "-c", "50000", "/dev/zero", NULL));
        weir_stream *output = weir_process_open_pipe(task, 1);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        WEIR_TEST_CALLED(&record, 0); /* it has ended, and nobody has read yet */
        (void)!weir_task_run(read_all(&got, output));
        CU_ASSERT_EQUAL(got.size, 50000);
        CU_ASSERT_EQUAL(got.status, -EPIPE);
        weir_stream_unref(output);
        end();
}

static void
take_number(weir_task *read, void *number)
{
        *(_Atomic pid_t *)number = atoi(weir_stream_data(read, NULL));
}

/* The task of the program ends with it.  The pipe ends when the last one has closed it. */
static void
others_keep_the_pipe_open(void)
{
        struct weir_test_record record = {0};
        _Atomic pid_t sleeper = 0;
        _Atomic int late = 1, last = 1;

        begin();
        weir_task *task = shell(&record, "sleep 1000 & echo $!");
        weir_stream *output = weir_process_open_pipe(task, 1);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        WEIR_TEST_CALLED(&record, 0);
        (void)!weir_task_run(weir_stream_read_until_new(output, "\n", 1, 100, take_number, &sleeper));
        CU_ASSERT_FATAL(sleeper > 1);
        (void)!weir_task_run(weir_timeout_new(weir_stream_read_new(output, 1, 1, note_status, &late), WEIR_MSEC(5)));
        CU_ASSERT_EQUAL(late, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(output, 1, 1, note_status, &last)), 0);
        kill(sleeper, SIGKILL);
        WEIR_TEST_EVENTUALLY(last == -EPIPE);
        weir_stream_unref(output);
        end();
}

/* A cancel of the program's series ends the program; by that the pipes end. */
static void
a_cancel_ends_the_program_and_so_its_pipes(void)
{
        struct weir_test_record record = {0};
        _Atomic int reading = 1, writing = 1;
        static char block[300000];

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "sleep", "1000", NULL));
        weir_stream *input = weir_process_open_pipe(task, 0), *output = weir_process_open_pipe(task, 1);
        weir_series *series = start(task);
        weir_series *reader = start(weir_stream_read_new(output, 1, 100, note_status, &reading));
        weir_series *writer = start(weir_stream_write_lent_new(input, block, sizeof block, note_status, &writing));
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
        CU_ASSERT_EQUAL(reading, 1);
        CU_ASSERT_EQUAL(writing, 1);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(reading == -EPIPE);
        WEIR_TEST_EVENTUALLY(writing == -EPIPE);
        weir_test_wait_freed(&record);
        CU_ASSERT_EQUAL(record.status, -ECANCELED);
        weir_series_unref(series);
        weir_series_unref(reader);
        weir_series_unref(writer);
        weir_stream_unref(input);
        weir_stream_unref(output);
        end();
}

/* A cancel or a deadline of a read is that of any stream: nothing is lost, and the program runs on. */
static void
a_cancelled_read_leaves_the_program_alone(void)
{
        struct weir_test_record record = {0};
        _Atomic int cancelled = 1;
        struct bytes got;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "cat", NULL));
        weir_stream *input = weir_process_open_pipe(task, 0), *output = weir_process_open_pipe(task, 1);
        weir_series *series = start(task);
        (void)!weir_task_run(weir_timeout_new(weir_stream_read_new(output, 9, 9, note_status, &cancelled), WEIR_MSEC(1)));
        CU_ASSERT_EQUAL(cancelled, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_write_new(input, "abc", 3, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_finish_new(input, NULL, NULL)), 0);
        (void)!weir_task_run(read_all(&got, output));
        CU_ASSERT_EQUAL(got.size, 3);
        CU_ASSERT_EQUAL(got.wrong, 0);
        weir_test_wait_freed(&record);
        CU_ASSERT_EQUAL(record.status, 0);
        weir_series_unref(series);
        weir_stream_unref(input);
        weir_stream_unref(output);
        end();
}

static void
behind_the_end_of_input_nothing_is_written(void)
{
        struct weir_test_record record = {0};
        _Atomic int behind = 1, again = 1;
        struct bytes got;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "cat", NULL));
        weir_stream *input = weir_process_open_pipe(task, 0), *output = weir_process_open_pipe(task, 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_finish_new(input, NULL, NULL)), 0);
        (void)!weir_task_run(weir_stream_write_new(input, "x", 1, note_status, &behind));
        CU_ASSERT_EQUAL(behind, -EPIPE);
        (void)!weir_task_run(weir_stream_finish_new(input, note_status, &again));
        CU_ASSERT_EQUAL(again, -EPIPE);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        (void)!weir_task_run(read_all(&got, output));
        CU_ASSERT_EQUAL(got.size, 0);
        weir_stream_break(input);
        weir_stream_unref(input);
        weir_stream_unref(output);
        end();
}

/* -- a program that never runs -- */

static void
expect_ends(weir_stream *input, weir_stream *output)
{
        _Atomic int writing = 1;
        struct bytes got;

        (void)!weir_task_run(weir_stream_write_new(input, "x", 1, note_status, &writing));
        CU_ASSERT_EQUAL(writing, -EPIPE);
        (void)!weir_task_run(read_all(&got, output));
        CU_ASSERT_EQUAL(got.status, -EPIPE);
        CU_ASSERT_EQUAL(got.size, 0);
        weir_stream_unref(input);
        weir_stream_unref(output);
}

static void
without_a_program_the_pipes_are_at_their_ends(void)
{
        struct weir_test_record lost = {0};
        weir_stream *input, *output;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &lost, "weir-there-is-no-such-program", NULL));
        input = weir_process_open_pipe(task, 0), output = weir_process_open_pipe(task, 1);
        (void)!weir_task_run(task);
        WEIR_TEST_CALLED(&lost, -ENOENT);
        expect_ends(input, output);
        task = weir_command_new(NULL, NULL, "true", NULL);
        input = weir_process_open_pipe(task, 0), output = weir_process_open_pipe(task, 1);
        weir_task_dismiss(task);
        expect_ends(input, output);
        task = weir_command_new(NULL, NULL, "true", NULL); /* a later setter takes the place of the pipe */
        input = weir_process_open_pipe(task, 0), output = weir_process_open_pipe(task, 1);
        weir_process_set_fd(task, 0, WEIR_PROCESS_NOTHING);
        weir_process_collect(task, 1, 100);
        expect_ends(input, output);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        end();
}

static void
open_after_the_start(void)
{
        weir_task *task = weir_command_new(NULL, NULL, "/bin/true", NULL);

        weir_series_push(weir_series_new(NULL, NULL), task);
        weir_process_open_pipe(task, 1);
}

static void
open_for_another_task(void)
{
        weir_process_open_pipe(weir_empty_new(NULL, NULL), 1);
}

static void
wrong_calls_are_told(void)
{
        begin();
        for (int which = -1; which < 4; which += 4) {
                weir_task *task = weir_command_new(NULL, NULL, "true", NULL);

                CU_ASSERT_PTR_NULL(weir_process_open_pipe(task, which));
                CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
        }
        CU_ASSERT_PTR_NULL(weir_process_open_pipe(NULL, 0));
        end();
        weir_test_aborts(open_after_the_start, "weir_process_open_pipe: process \"true\" was already consumed");
        weir_test_aborts(open_for_another_task, "weir_process_open_pipe: expected a process, and was given empty task");
}

/* -- many -- */

#define MANY 200

static void
limit_descriptors(rlim_t most, struct rlimit *before)
{
        getrlimit(RLIMIT_NOFILE, before);
        struct rlimit other = {before->rlim_max < most ? before->rlim_max : most, before->rlim_max};
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &other), 0);
}

static void
two_hundred_at_once_leave_no_descriptor(void)
{
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        static struct bytes got[MANY];
        static weir_stream *inputs[MANY], *outputs[MANY];
        struct rlimit before;

        limit_descriptors(4096, &before);
        begin();
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < MANY; i++) {
                weir_task *task = weir_command_new(NULL, NULL, "cat", NULL);
                weir_series *feed = weir_series_new(NULL, NULL);

                inputs[i] = weir_process_open_pipe(task, 0);
                outputs[i] = weir_process_open_pipe(task, 1);
                weir_series_push(feed, weir_stream_write_new(inputs[i], "abc", 3, NULL, NULL));
                weir_series_push(feed, weir_stream_finish_new(inputs[i], NULL, NULL));
                weir_parallel_add(all, task);
                weir_parallel_add_series(all, feed);
                weir_parallel_add(all, read_all(&got[i], outputs[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        for (unsigned i = 0; i < MANY; i++) {
                CU_ASSERT(got[i].size == 3 && got[i].wrong == 0 && got[i].status == -EPIPE);
                weir_stream_unref(inputs[i]);
                weir_stream_unref(outputs[i]);
        }
        end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        setrlimit(RLIMIT_NOFILE, &before);
}

/* The start of a process says why there is no pipe, and so do the tasks of a stream that is none. */
static void
a_lack_of_descriptors_is_reported(void)
{
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        struct rlimit before;
        weir_stream *pipes[64];
        weir_task *tasks[64];
        unsigned count = 0, refused = 0;

        begin();
        limit_descriptors(weir_test_entries_of("/proc/self/fd") + 40, &before);
        for (; count < 64; count++) {
                tasks[count] = weir_command_new(NULL, NULL, "true", NULL);
                pipes[count] = weir_process_open_pipe(tasks[count], 1);
                refused += !pipes[count];
        }
        CU_ASSERT(refused > 0 && refused < 64);
        setrlimit(RLIMIT_NOFILE, &before);
        CU_ASSERT_PTR_NULL(pipes[63]);
        CU_ASSERT_EQUAL(weir_task_start(tasks[63]), -EMFILE);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(NULL, 1, 1, NULL, NULL)), -ENOMEM);
        for (unsigned i = 0; i < 63; i++) {
                weir_task_dismiss(tasks[i]);
                weir_stream_unref(pipes[i]);
        }
        end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
}

/* A shutdown ends programs and streams. */
static void
a_shutdown_ends_both(void)
{
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        struct weir_test_record record = {0};
        _Atomic int reading = 1;

        begin();
        weir_task *task = weir_test_recorded(weir_command_new(weir_test_done, &record, "cat", NULL));
        weir_stream *input = weir_process_open_pipe(task, 0), *output = weir_process_open_pipe(task, 1);
        weir_series *series = start(task);
        weir_series *reader = start(weir_stream_read_new(output, 1, 100, note_status, &reading));
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
        end();
        CU_ASSERT_EQUAL(record.status, -ESHUTDOWN);
        CU_ASSERT(reading == -ESHUTDOWN || reading == -EPIPE);
        weir_series_unref(series);
        weir_series_unref(reader);
        weir_stream_unref(input);
        weir_stream_unref(output);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_filter_reads_and_writes_while_it_runs),
                WEIR_TEST(a_pump_carries_from_one_program_to_another),
                WEIR_TEST(a_pump_carries_between_a_connection_and_a_program),
                WEIR_TEST(a_close_ends_the_input_as_well),
                WEIR_TEST(errors_have_a_pipe_of_their_own),
                WEIR_TEST(input_that_nobody_reads_is_an_error_without_a_signal),
                WEIR_TEST(all_output_comes_before_the_end),
                WEIR_TEST(others_keep_the_pipe_open),
                WEIR_TEST(a_cancel_ends_the_program_and_so_its_pipes),
                WEIR_TEST(a_cancelled_read_leaves_the_program_alone),
                WEIR_TEST(behind_the_end_of_input_nothing_is_written),
                WEIR_TEST(without_a_program_the_pipes_are_at_their_ends),
                WEIR_TEST(wrong_calls_are_told),
                WEIR_TEST(two_hundred_at_once_leave_no_descriptor),
                WEIR_TEST(a_lack_of_descriptors_is_reported),
                WEIR_TEST(a_shutdown_ends_both),
        };

        return weir_test_main("process_pipe", tests, sizeof tests / sizeof *tests);
}
