/* test/processes_guide_test.c: what docs/processes.md shows. */
#include "test/fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <weir/pump.h>

/* -- a line -- */

static struct {
        int status, code, signal;
        char output[256], errors[256];
} seen;

static void
note(weir_task *process, void *context)
{
        const char *output = weir_process_output(process, NULL);
        const char *errors = weir_process_errors(process, NULL);

        (void)context;
        seen.status = weir_task_status(process);
        seen.code = weir_process_exit_code(process);
        seen.signal = weir_process_signal(process);
        snprintf(seen.output, sizeof seen.output, "%s", output ? output : "");
        snprintf(seen.errors, sizeof seen.errors, "%s", errors ? errors : "");
}

static void
a_command_is_a_line(void)
{
        weir_task_run(weir_command_new(note, NULL, "wc", "-c", "/dev/null", NULL));
        CU_ASSERT(seen.status == 0 && strcmp(seen.output, "0 /dev/null\n") == 0);
}

static void
each_end_has_its_status(void)
{
        weir_task_run(weir_command_new(note, NULL, "false", NULL));
        CU_ASSERT(seen.status == WEIR_EPROCESS_EXIT && seen.code == 1);
        weir_task_run(weir_command_new(note, NULL, "sh", "-c", "kill -KILL $$", NULL));
        CU_ASSERT(seen.status == WEIR_EPROCESS_SIGNAL && seen.signal == SIGKILL);
        weir_task_run(weir_command_new(note, NULL, "no-such-program", NULL));
        CU_ASSERT(seen.status == -ENOENT && seen.code == -ENODATA);
}

/* -- what it gets -- */

static void
a_program_gets_what_was_set(void)
{
        const char *line = "pwd; echo $GREETING; ulimit -n; sort; echo oh >&2";
        const char *const argv[] = {"sh", "-c", line, NULL};

        weir_task *process = weir_process_new(argv, note, NULL);
        weir_process_set_directory(process, "/usr");
        weir_process_set_environment(process, "GREETING", "hello");
        weir_process_set_environment(process, "LC_ALL", "C");
        weir_process_set_environment(process, "LD_PRELOAD", NULL);
        weir_process_set_rlimit(process, RLIMIT_NOFILE, 64, 64);
        weir_process_set_input(process, "b\na\n", 4);
        weir_process_collect(process, 1, 4096);
        weir_process_collect(process, 2, 4096);
        weir_task_run(process);
        CU_ASSERT(strcmp(seen.output, "/usr\nhello\n64\na\nb\n") == 0);
        CU_ASSERT(strcmp(seen.errors, "oh\n") == 0);
}

static void
output_goes_where_it_shall(void)
{
        int log = memfd_create("log", MFD_CLOEXEC);
        char text[64] = "";

        weir_task *process = weir_command_new(note, NULL, "sh", "-c", "echo out; pwd >&2", NULL);
        weir_process_set_fd(process, 0, WEIR_PROCESS_NOTHING);
        weir_process_set_fd(process, 1, log);
        weir_process_merge_errors(process);
        weir_task_run(process);
        CU_ASSERT(pread(log, text, sizeof text - 1, 0) > 4 && strncmp(text, "out\n/", 5) == 0);
        close(log);
}

static void
a_bare_environment(void)
{
        weir_task *process = weir_command_new(note, NULL, "/usr/bin/env", NULL);
        weir_process_clear_environment(process);
        weir_process_set_environment(process, "PATH", "/bin:/usr/bin");
        weir_task_run(process);
        CU_ASSERT(strcmp(seen.output, "PATH=/bin:/usr/bin\n") == 0);
}

static void
more_output_than_expected_ends_it(void)
{
        weir_task *process = weir_command_new(note, NULL, "yes", NULL);
        weir_process_collect(process, 1, 10);
        weir_task_run(process);
        CU_ASSERT(seen.status == -EMSGSIZE && strcmp(seen.output, "y\ny\ny\ny\ny\n") == 0);
}

/* -- pipes -- */

static char heard[64];

static void
keep_line(weir_task *read, void *context)
{
        (void)context;
        snprintf(heard, sizeof heard, "%s", (const char *)weir_stream_data(read, NULL));
}

static void
a_program_is_spoken_with_while_it_runs(void)
{
        weir_task *sed = weir_command_new(note, NULL, "sed", "-u", "s/^/you said /", NULL);
        weir_stream *input = weir_process_open_pipe(sed, 0);
        weir_stream *output = weir_process_open_pipe(sed, 1);

        weir_series *talk = weir_series_new(NULL, NULL);
        weir_series_push(talk, weir_stream_write_new(input, "hello\n", 6, NULL, NULL));
        weir_series_push(talk, weir_stream_read_until_new(output, "\n", 1, 100, keep_line, NULL));
        weir_series_push(talk, weir_stream_finish_new(input, NULL, NULL)); /* so the program ends */

        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add(both, sed);
        weir_parallel_add_series(both, talk);
        weir_task_run(both);
        weir_stream_unref(input);
        weir_stream_unref(output);
        CU_ASSERT(strcmp(heard, "you said hello\n") == 0);
}

static void
a_filter_between_two_streams(void)
{
        int ends[2];
        char text[64] = "";

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_stream *connection = weir_stream_of(ends[0]);
        CU_ASSERT(write(ends[1], "b\na\n", 4) == 4 && shutdown(ends[1], SHUT_WR) == 0);
        weir_task *sort = weir_command_new(note, NULL, "sort", NULL);
        weir_stream *input = weir_process_open_pipe(sort, 0);
        weir_stream *output = weir_process_open_pipe(sort, 1);

        weir_series *in = weir_series_new(NULL, NULL);
        weir_series_push(in, weir_pump_new(connection, input, NULL, NULL));
        weir_series_push(in, weir_stream_finish_new(input, NULL, NULL));

        weir_task *filter = weir_parallel_new(NULL, NULL);
        weir_parallel_add(filter, sort);
        weir_parallel_add_series(filter, in);
        weir_parallel_add(filter, weir_pump_new(output, connection, NULL, NULL));
        weir_task_run(filter);
        weir_stream_unref(connection);
        weir_stream_unref(input);
        weir_stream_unref(output);
        CU_ASSERT(recv(ends[1], text, sizeof text, MSG_WAITALL) == 4 && strcmp(text, "a\nb\n") == 0);
        close(ends[1]);
}

/* -- ending it -- */

static void
a_limit_ends_the_whole_group(void)
{
        weir_task *process = weir_command_new(note, NULL, "sh", "-c", "sleep 9999 | cat", NULL);
        weir_process_set_grace(process, WEIR_SEC(2));
        weir_task_run(weir_timeout_new(process, WEIR_MSEC(20)));
        CU_ASSERT(seen.status == -ETIMEDOUT);
}

static void
a_signal_is_sent_while_it_runs(void)
{
        weir_task *process = weir_command_new(note, NULL, "sleep", "1000", NULL);
        weir_process_set_group(process, WEIR_PROCESS_GROUP_SHARED);
        CU_ASSERT(weir_process_kill(process, SIGINT) == -EAGAIN); /* not started */
        weir_task_start(process);
        WEIR_TEST_EVENTUALLY(weir_process_pid(process) > 0);
        CU_ASSERT(weir_process_kill(process, SIGINT) == 0);
}

#define EXAMPLE(name)                          \
        static void run_##name(void)           \
        {                                      \
                memset(&seen, 0, sizeof seen); \
                weir_test_begin_real(1);       \
                name();                        \
                weir_test_end();               \
        }

EXAMPLE(a_command_is_a_line)
EXAMPLE(each_end_has_its_status)
EXAMPLE(a_program_gets_what_was_set)
EXAMPLE(output_goes_where_it_shall)
EXAMPLE(a_bare_environment)
EXAMPLE(more_output_than_expected_ends_it)
EXAMPLE(a_program_is_spoken_with_while_it_runs)
EXAMPLE(a_filter_between_two_streams)
EXAMPLE(a_limit_ends_the_whole_group)
EXAMPLE(a_signal_is_sent_while_it_runs)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_command_is_a_line),
        WEIR_TEST(run_each_end_has_its_status),
        WEIR_TEST(run_a_program_gets_what_was_set),
        WEIR_TEST(run_output_goes_where_it_shall),
        WEIR_TEST(run_a_bare_environment),
        WEIR_TEST(run_more_output_than_expected_ends_it),
        WEIR_TEST(run_a_program_is_spoken_with_while_it_runs),
        WEIR_TEST(run_a_filter_between_two_streams),
        WEIR_TEST(run_a_limit_ends_the_whole_group),
        WEIR_TEST(run_a_signal_is_sent_while_it_runs),
};

int
main(void)
{
        return weir_test_main("processes_guide", tests, sizeof tests / sizeof *tests);
}
