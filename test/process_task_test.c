/* test/process_task_test.c: tasks that run a program. */
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* How a process has gone, as its callback saw it. */
struct outcome {
        struct weir_test_record record; /* first */
        int code, signal;
        pid_t pid;
        bool is_there; /* the process was not yet waited for */
        size_t size, errors_size;
        char output[8192], errors[256];
};

static size_t
take(const char *text, size_t size, char *out, size_t room)
{
        snprintf(out, room, "%s", text ? text : "(none)");
        return size;
}

static void
note(weir_task *process, void *context)
{
        struct outcome *outcome = context;
        size_t size, errors_size;
        const char *output = weir_process_output(process, &size), *errors = weir_process_errors(process, &errors_size);

        outcome->code = weir_process_exit_code(process);
        outcome->signal = weir_process_signal(process);
        outcome->pid = weir_process_pid(process);
        outcome->is_there = outcome->pid > 0 && kill(outcome->pid, 0) == 0;
        outcome->size = take(output, size, outcome->output, sizeof outcome->output);
        outcome->errors_size = take(errors, errors_size, outcome->errors, sizeof outcome->errors);
        weir_test_done(process, context);
}

#define COMMAND(outcome, ...) weir_test_recorded(weir_command_new(note, outcome, __VA_ARGS__, NULL))
#define SHELL(outcome, line)  COMMAND(outcome, "sh", "-c", line)

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

/* Runs it to its end; nothing of it is left. */
static void
run(weir_task *task, const struct outcome *outcome)
{
        (void)!weir_task_run(task);
        CU_ASSERT_EQUAL(outcome->record.calls, 1);
        CU_ASSERT_EQUAL(outcome->record.frees, 1);
        CU_ASSERT(!outcome->is_there);
}

#define ENDED(outcome, status_, code_, signal_)                     \
        do {                                                        \
                CU_ASSERT_EQUAL((outcome)->record.status, status_); \
                CU_ASSERT_EQUAL((outcome)->code, code_);            \
                CU_ASSERT_EQUAL((outcome)->signal, signal_);        \
        } while (0)

/* The library has left no child that nobody has waited for. */
static bool
has_children(void)
{
        siginfo_t info;

        return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

static void
begin(void)
{
        weir_test_begin_real(2);
}

static void
end(void)
{
        weir_test_end();
        CU_ASSERT(!has_children());
}

/* -- how it ends -- */

static void
the_output_is_there_when_it_has_ended(void)
{
        struct outcome outcome = {0};

        begin();
        run(COMMAND(&outcome, "echo", "hello"), &outcome);
        ENDED(&outcome, 0, 0, -ENODATA);
        CU_ASSERT_STRING_EQUAL(outcome.output, "hello\n");
        CU_ASSERT_EQUAL(outcome.size, 6);
        CU_ASSERT_STRING_EQUAL(outcome.errors, "(none)");
        CU_ASSERT(outcome.pid > 0);
        struct outcome silent = {0};
        run(COMMAND(&silent, "true"), &silent);
        CU_ASSERT_STRING_EQUAL(silent.output, "");
        CU_ASSERT_EQUAL(silent.size, 0);
        end();
}

static void
another_code_and_a_signal_are_told_apart(void)
{
        struct outcome code = {0}, signal = {0};

        begin();
        run(SHELL(&code, "echo half; exit 7"), &code);
        ENDED(&code, WEIR_EPROCESS_EXIT, 7, -ENODATA);
        CU_ASSERT_STRING_EQUAL(code.output, "half\n");
        run(SHELL(&signal, "kill -USR1 $$"), &signal);
        ENDED(&signal, WEIR_EPROCESS_SIGNAL, -ENODATA, SIGUSR1);
        end();
}

static void
write_file(const char *path, const char *text, mode_t mode)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

        CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void
what_exec_says_is_the_status(void)
{
        static char directory[] = "/tmp/weir-process-XXXXXX";
        struct outcome outcome = {0};
        char path[64];

        begin();
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        run(COMMAND(&outcome, "weir-there-is-no-such-program"), &outcome);
        ENDED(&outcome, -ENOENT, -ENODATA, -ENODATA);
        CU_ASSERT_EQUAL(outcome.pid, -EAGAIN);
        outcome = (struct outcome){0};
        run(COMMAND(&outcome, "/bin/weir-there-is-no-such-program"), &outcome);
        ENDED(&outcome, -ENOENT, -ENODATA, -ENODATA);
        outcome = (struct outcome){0};
        run(COMMAND(&outcome, directory), &outcome);
        ENDED(&outcome, -EACCES, -ENODATA, -ENODATA);
        snprintf(path, sizeof path, "%s/junk", directory);
        write_file(path, "no program\n", 0755);
        outcome = (struct outcome){0};
        run(COMMAND(&outcome, path), &outcome);
        ENDED(&outcome, -ENOEXEC, -ENODATA, -ENODATA);
        outcome = (struct outcome){0};
        strcat(path, "/x");
        run(COMMAND(&outcome, path), &outcome);
        ENDED(&outcome, -ENOTDIR, -ENODATA, -ENODATA);
        outcome = (struct outcome){0};
        weir_task *lost = COMMAND(&outcome, "true");
        weir_process_set_directory(lost, "/tmp/weir-there-is-no-such-directory");
        run(lost, &outcome);
        ENDED(&outcome, -ENOENT, -ENODATA, -ENODATA);
        char *large = malloc(8 << 20);
        memset(large, 'x', (8 << 20) - 1);
        large[(8 << 20) - 1] = '\0';
        outcome = (struct outcome){0};
        run(COMMAND(&outcome, "true", large), &outcome);
        ENDED(&outcome, -E2BIG, -ENODATA, -ENODATA);
        free(large);
        end();
        path[strlen(path) - 2] = '\0';
        unlink(path);
        rmdir(directory);
}

/* A candidate in PATH that may not be executed does not hide a later one; if there is no other, it is the reason. */
static void
a_search_goes_on_behind_what_cannot_be_executed(void)
{
        static char directory[] = "/tmp/weir-process-XXXXXX";
        struct outcome outcome = {0};
        char path[128];

        begin();
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(path, sizeof path, "%s/weir-own", directory);
        write_file(path, "#!/bin/sh\necho own\n", 0644);
        snprintf(path, sizeof path, "/nowhere:%s:/bin", directory);
        weir_task *own = COMMAND(&outcome, "weir-own");
        weir_process_set_environment(own, "PATH", path);
        run(own, &outcome);
        ENDED(&outcome, -EACCES, -ENODATA, -ENODATA);
        snprintf(path, sizeof path, "%s/weir-own", directory);
        CU_ASSERT_EQUAL(chmod(path, 0755), 0);
        snprintf(path, sizeof path, "/nowhere:%s:/bin", directory);
        outcome = (struct outcome){0};
        own = COMMAND(&outcome, "weir-own");
        weir_process_set_environment(own, "PATH", path);
        run(own, &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "own\n");
        outcome = (struct outcome){0};
        own = COMMAND(&outcome, "weir-own"); /* an empty element is the present directory, the one that is set */
        weir_process_set_environment(own, "PATH", "/nowhere::/bin");
        weir_process_set_directory(own, directory);
        run(own, &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "own\n");
        outcome = (struct outcome){0};
        own = COMMAND(&outcome, "echo", "found"); /* without a PATH */
        weir_process_clear_environment(own);
        run(own, &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "found\n");
        end();
        snprintf(path, sizeof path, "%s/weir-own", directory);
        unlink(path);
        rmdir(directory);
}

/* -- what it gets -- */

static void
arguments_reach_the_program_as_they_are(void)
{
        const char *const argv[] = {"printf", "<%s>", "a b", "$HOME", "*", "", "\"'`;|", NULL};
        struct outcome outcome = {0};

        begin();
        run(weir_test_recorded(weir_process_new(argv, note, &outcome)), &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "<a b><$HOME><*><><\"'`;|>");
        end();
}

static void
the_environment_is_changed_for_the_program_alone(void)
{
        struct outcome outcome = {0}, bare = {0};

        begin();
        setenv("WEIR_TEST_KEPT", "kept", 1);
        setenv("WEIR_TEST_CHANGED", "before", 1);
        setenv("WEIR_TEST_GONE", "there", 1);
        weir_task *task = SHELL(&outcome, "echo $WEIR_TEST_KEPT $WEIR_TEST_CHANGED ${WEIR_TEST_GONE-gone} $WEIR_TEST_NEW "
                                          "${WEIR_TEST_BRIEF-gone}");
        weir_process_set_environment(task, "WEIR_TEST_CHANGED", "first");
        weir_process_set_environment(task, "WEIR_TEST_CHANGED", "a=b");
        weir_process_set_environment(task, "WEIR_TEST_GONE", NULL);
        weir_process_set_environment(task, "WEIR_TEST_NEVER", NULL);
        weir_process_set_environment(task, "WEIR_TEST_NEW", "new");
        weir_process_set_environment(task, "WEIR_TEST_BRIEF", "brief");
        weir_process_set_environment(task, "WEIR_TEST_BRIEF", NULL);
        run(task, &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "kept a=b gone new gone\n");
        CU_ASSERT_STRING_EQUAL(getenv("WEIR_TEST_CHANGED"), "before");
        task = COMMAND(&bare, "env");
        weir_process_set_environment(task, "LOST", "lost");
        weir_process_clear_environment(task);
        weir_process_set_environment(task, "ONLY", "one");
        run(task, &bare);
        CU_ASSERT_STRING_EQUAL(bare.output, "ONLY=one\n");
        end();
}

static void
directory_and_limits_are_the_programs_own(void)
{
        struct outcome outcome = {0};
        struct rlimit before, after;

        begin();
        getrlimit(RLIMIT_NOFILE, &before);
        weir_task *task = SHELL(&outcome, "pwd; ulimit -n; ulimit -Hn; ulimit -c");
        weir_process_set_directory(task, "/tmp");
        weir_process_set_directory(task, "/usr");
        weir_process_set_rlimit(task, RLIMIT_NOFILE, 50, 60);
        weir_process_set_rlimit(task, RLIMIT_NOFILE, 40, 50);
        weir_process_set_rlimit(task, RLIMIT_CORE, 0, RLIM_INFINITY);
        run(task, &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "/usr\n40\n50\n0\n");
        getrlimit(RLIMIT_NOFILE, &after);
        CU_ASSERT_EQUAL(after.rlim_cur, before.rlim_cur);
        end();
}

/* Fields 1, 5 and 6 of stat are the numbers of process, group and session. */
static void
it_has_a_group_as_it_was_set(void)
{
        for (int group = WEIR_PROCESS_GROUP_OWN; group <= WEIR_PROCESS_GROUP_SHARED; group++) {
                struct outcome outcome = {0};
                int pid = 0, its_group = 0, session = 0;

                begin();
                weir_task *task = COMMAND(&outcome, "cat", "/proc/self/stat");
                weir_process_set_group(task, (enum weir_process_group)group);
                run(task, &outcome);
                CU_ASSERT_EQUAL(sscanf(outcome.output, "%d (cat) %*c %*d %d %d", &pid, &its_group, &session), 3);
                CU_ASSERT_EQUAL(pid, outcome.pid);
                CU_ASSERT_EQUAL(its_group, group == WEIR_PROCESS_GROUP_SHARED ? getpgrp() : pid);
                CU_ASSERT_EQUAL(session, group == WEIR_PROCESS_GROUP_SESSION ? pid : getsid(0));
                end();
        }
}

static void
do_nothing(int signo)
{
        (void)signo;
}

static unsigned long long
mask_in(const char *text, const char *name)
{
        const char *line = strstr(text, name);

        return line ? strtoull(line + strlen(name), NULL, 16) : 1;
}

#define BIT(signo) (1ULL << ((signo)-1))

static void
signals_are_as_for_a_new_program(void)
{
        struct outcome outcome = {0};
        sigset_t some;

        begin();
        signal(SIGPIPE, SIG_IGN);
        signal(SIGUSR2, SIG_IGN);
        signal(SIGUSR1, do_nothing);
        sigemptyset(&some);
        sigaddset(&some, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &some, NULL);
        run(COMMAND(&outcome, "cat", "/proc/self/status"), &outcome);
        CU_ASSERT_EQUAL(mask_in(outcome.output, "SigBlk:\t"), 0);
        CU_ASSERT_EQUAL(mask_in(outcome.output, "SigCgt:\t"), 0);
        CU_ASSERT_EQUAL(mask_in(outcome.output, "SigIgn:\t") & (BIT(SIGPIPE) | BIT(SIGUSR1) | BIT(SIGUSR2)), BIT(SIGUSR2));
        pthread_sigmask(SIG_UNBLOCK, &some, NULL);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGUSR1, SIG_DFL);
        signal(SIGUSR2, SIG_DFL);
        end();
}

static void
it_has_no_other_descriptor(void)
{
        struct outcome outcome = {0};
        int leaks[10];

        for (unsigned i = 0; i < 10; i++)
                leaks[i] = dup(STDERR_FILENO); /* they would survive exec */
        begin();
        run(COMMAND(&outcome, "ls", "/proc/self/fd"), &outcome);
        CU_ASSERT_STRING_EQUAL(outcome.output, "0\n1\n2\n3\n"); /* the last one is the directory */
        end();
        for (unsigned i = 0; i < 10; i++)
                close(leaks[i]);
}

/* -- input and output -- */

static void
input_is_nothing_or_a_text(void)
{
        size_t large = (WEIR_PROCESS_OUTPUT)-1;
        char *text = malloc(large + 1);
        struct outcome nothing = {0}, brief = {0}, whole = {0}, unread = {0}, empty = {0};

        memset(text, 'x', large);
        text[large] = '\0';
        begin();
        run(COMMAND(&nothing, "cat"), &nothing);
        ENDED(&nothing, 0, 0, -ENODATA);
        CU_ASSERT_EQUAL(nothing.size, 0);
        weir_task *task = COMMAND(&brief, "tr", "a-z", "A-Z");
        weir_process_set_input(task, "lost", 4);
        weir_process_set_input(task, "abc", 3);
        run(task, &brief);
        CU_ASSERT_STRING_EQUAL(brief.output, "ABC");
        task = COMMAND(&whole, "cat");
        weir_process_set_input(task, text, large);
        run(task, &whole);
        CU_ASSERT_EQUAL(whole.size, large);
        task = COMMAND(&unread, "true");
        weir_process_set_input(task, text, large);
        run(task, &unread);
        ENDED(&unread, 0, 0, -ENODATA);
        task = COMMAND(&empty, "cat");
        weir_process_set_input(task, NULL, 0);
        run(task, &empty);
        ENDED(&empty, 0, 0, -ENODATA);
        end();
        free(text);
}

static void
descriptors_of_the_caller_are_duplicated(void)
{
        int file = memfd_create("output", MFD_CLOEXEC), input = memfd_create("input", MFD_CLOEXEC);
        struct outcome outcome = {0}, closed = {0};
        char text[64] = "";

        begin();
        CU_ASSERT_EQUAL(write(input, "given", 5), 5);
        lseek(input, 0, SEEK_SET);
        weir_task *task = SHELL(&outcome, "cat; echo e >&2");
        weir_process_set_fd(task, 0, input);
        weir_process_set_fd(task, 1, file);
        weir_process_set_fd(task, 2, file);
        close(input);
        run(task, &outcome);
        CU_ASSERT(pread(file, text, sizeof text - 1, 0) > 0);
        CU_ASSERT_STRING_EQUAL(text, "givene\n");
        CU_ASSERT_STRING_EQUAL(outcome.output, "(none)");
        close(file);
        task = COMMAND(&closed, "true");
        weir_process_set_fd(task, 1, file); /* not open */
        CU_ASSERT_EQUAL(weir_task_run(task), -EBADF);
        WEIR_TEST_NOT_CALLED(&closed.record);
        struct outcome quiet = {0};
        task = SHELL(&quiet, "echo x; echo y >&2");
        weir_process_set_fd(task, 1, WEIR_PROCESS_NOTHING);
        weir_process_set_fd(task, 2, WEIR_PROCESS_NOTHING);
        run(task, &quiet);
        ENDED(&quiet, 0, 0, -ENODATA);
        end();
}

/* Each of 0, 1 and 2 may be closed in the caller, and then gets the number of something else. */
static void
run_without_standard_descriptors(void)
{
        struct outcome outcome = {0};

        if (weir_init(NULL) || weir_task_run(weir_command_new(NULL, NULL, "true", NULL)))
                _exit(9);
        close(0); /* from now on, of what the library opens for the program */
        close(1);
        weir_task *task = SHELL(&outcome, "cat; echo out; echo err >&2");
        weir_process_set_input(task, "in ", 3);
        weir_process_merge_errors(task);
        if (weir_task_run(task) != 0 || strcmp(outcome.output, "in out\nerr\n") != 0)
                _exit(1);
        struct outcome inherited = {0};
        close(2);
        task = SHELL(&inherited, "ls /proc/self/fd");
        if (weir_task_run(task) != 0 || strcmp(inherited.output, "0\n1\n2\n3\n") != 0)
                _exit(2);
        _exit(weir_shutdown() == 0 ? 0 : 3);
}

static void
standard_descriptors_may_be_closed_in_the_caller(void)
{
        char said[256];

        CU_ASSERT_EQUAL(weir_test_child(run_without_standard_descriptors, said, sizeof said), 0);
}

static void
errors_are_collected_apart_or_merged(void)
{
        struct outcome apart = {0}, merged = {0};

        begin();
        weir_task *task = SHELL(&apart, "echo out; echo err >&2");
        weir_process_collect(task, 2, 100);
        run(task, &apart);
        CU_ASSERT_STRING_EQUAL(apart.output, "out\n");
        CU_ASSERT_STRING_EQUAL(apart.errors, "err\n");
        CU_ASSERT_EQUAL(apart.errors_size, 4);
        task = SHELL(&merged, "echo out; echo err >&2");
        weir_process_merge_errors(task);
        run(task, &merged);
        CU_ASSERT_STRING_EQUAL(merged.output, "out\nerr\n");
        end();
}

static void
output_beyond_the_bound_ends_the_program(void)
{
        struct outcome fits = {0}, larger = {0}, endless = {0}, errors = {0};

        begin();
        weir_task *task = COMMAND(&fits, "printf", "12345");
        weir_process_collect(task, 1, 5);
        run(task, &fits);
        ENDED(&fits, 0, 0, -ENODATA);
        CU_ASSERT_STRING_EQUAL(fits.output, "12345");
        task = COMMAND(&larger, "printf", "123456");
        weir_process_collect(task, 1, 5);
        run(task, &larger);
        CU_ASSERT_EQUAL(larger.record.status, -EMSGSIZE);
        CU_ASSERT_STRING_EQUAL(larger.output, "12345");
        task = COMMAND(&endless, "yes");
        run(task, &endless);
        CU_ASSERT_EQUAL(endless.record.status, -EMSGSIZE);
        CU_ASSERT_EQUAL(endless.size, WEIR_PROCESS_OUTPUT);
        task = SHELL(&errors, "trap '' PIPE; yes >&2; sleep 1000"); /* it does not end by itself */
        weir_process_collect(task, 2, 10);
        run(task, &errors);
        CU_ASSERT_EQUAL(errors.record.status, -EMSGSIZE);
        CU_ASSERT_EQUAL(errors.errors_size, 10);
        end();
}

/* What it has written before its end is there, all of it; what others write is not waited for. */
static void
others_that_keep_its_output_are_not_waited_for(void)
{
        struct outcome silent = {0}, loud = {0};

        begin();
        run(SHELL(&silent, "sleep 1000 & echo $!"), &silent);
        ENDED(&silent, 0, 0, -ENODATA);
        pid_t sleeper = atoi(silent.output);
        CU_ASSERT(sleeper > 0 && weir_test_lives(sleeper)); /* a program that ends by itself leaves its group alone */
        kill(sleeper, SIGKILL);
        run(SHELL(&loud, "echo $$; yes & exit 3"), &loud);
        CU_ASSERT(loud.record.status == WEIR_EPROCESS_EXIT || loud.record.status == -EMSGSIZE);
        CU_ASSERT_EQUAL(loud.code, 3);
        CU_ASSERT_EQUAL(atoi(loud.output), loud.pid);
        end();
}

static void
nothing_of_the_output_is_lost(void)
{
        begin();
        for (unsigned i = 0; i < 30; i++) {
                struct outcome outcome = {0};

                run(COMMAND(&outcome, "head", "-c", "300000", "/dev/zero"), &outcome);
                CU_ASSERT_EQUAL(outcome.size, 300000);
        }
        end();
}

/* -- ended before -- */

static weir_series *
in_series(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, task);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
cancel(weir_series *series)
{
        weir_series_cancel(series);
        weir_series_unref(series);
}

static int64_t cancelled_at;

/* Cancels a shell whose line writes a number when it is ready.  Not dash: see below.  Returns the number, in the same runtime. */
static pid_t
cancel_when_ready(struct outcome *outcome, const char *line, weir_nsec grace)
{
        int file = memfd_create("pid", MFD_CLOEXEC);

        begin();
        weir_task *task = COMMAND(outcome, "bash", "-c", line);
        weir_process_set_fd(task, 1, file);
        weir_process_set_grace(task, grace);
        weir_series *series = in_series(task);
        pid_t number = weir_test_number_in(file);
        CU_ASSERT(number > 0);
        cancelled_at = weir_test_now();
        cancel(series);
        weir_test_wait_freed(&outcome->record);
        CU_ASSERT(!outcome->is_there);
        close(file);
        return number;
}

/* The process that it has started is in its group. */
static void
a_cancel_ends_the_group(void)
{
        struct outcome outcome = {0};
        pid_t sleeper = cancel_when_ready(&outcome, "sleep 1000 & echo $!; wait", WEIR_PROCESS_GRACE);

        ENDED(&outcome, -ECANCELED, -ENODATA, SIGTERM);
        WEIR_TEST_EVENTUALLY(!weir_test_lives(sleeper));
        end();
}

/* The leader ends at SIGTERM; its child does not. */
static void
nothing_of_a_cancelled_group_survives(void)
{
        static const char line[] = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & wait";
        struct outcome outcome = {0};
        pid_t stubborn = cancel_when_ready(&outcome, line, WEIR_PROCESS_GRACE);

        ENDED(&outcome, -ECANCELED, -ENODATA, SIGTERM);
        WEIR_TEST_EVENTUALLY(!weir_test_lives(stubborn));
        end();
}

static void
one_that_ignores_sigterm_is_killed_after_the_grace_period(void)
{
        struct outcome outcome = {0};

        cancel_when_ready(&outcome, "trap '' TERM; echo $$; while :; do sleep 0.01; done", WEIR_MSEC(100));
        ENDED(&outcome, -ECANCELED, -ENODATA, SIGKILL);
        CU_ASSERT(weir_test_now() - cancelled_at >= WEIR_MSEC(100));
        end();
}

/* It ends as it likes, and has its code. */
static void
one_that_ends_in_the_grace_period_has_its_code(void)
{
        struct outcome outcome = {0};

        cancel_when_ready(&outcome, "trap 'exit 9' TERM; echo $$; while :; do sleep 0.01; done", WEIR_FOREVER);
        ENDED(&outcome, -ECANCELED, 9, -ENODATA);
        end();
}

static void
without_a_grace_period_it_is_killed_at_once(void)
{
        struct outcome outcome = {0};

        cancel_when_ready(&outcome, "trap 'exit 9' TERM; echo $$; while :; do sleep 0.01; done", -1);
        ENDED(&outcome, -ECANCELED, -ENODATA, SIGKILL);
        end();
}

static void
one_that_is_stopped_by_a_signal_can_end(void)
{
        struct outcome outcome = {0};

        cancel_when_ready(&outcome, "echo $$; kill -STOP $$; sleep 1000", WEIR_FOREVER);
        ENDED(&outcome, -ECANCELED, -ENODATA, SIGTERM);
        end();
}

static void
a_cancel_in_a_shared_group_ends_the_program_alone(void)
{
        struct outcome outcome = {0};

        begin();
        weir_task *task = COMMAND(&outcome, "sleep", "1000");
        weir_process_set_group(task, WEIR_PROCESS_GROUP_SHARED);
        weir_series *series = in_series(task);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
        cancel(series);
        weir_test_wait_freed(&outcome.record);
        CU_ASSERT_EQUAL(outcome.record.status, -ECANCELED); /* and this test lives */
        end();
}

static void
a_deadline_ends_it(void)
{
        struct outcome outcome = {0};

        begin();
        (void)!weir_task_run(weir_timeout_new(COMMAND(&outcome, "sleep", "1000"), WEIR_MSEC(20)));
        WEIR_TEST_CALLED(&outcome.record, -ETIMEDOUT);
        end();
}

static void
block(void *gate)
{
        struct weir_test_gate *held = gate;

        weir_test_latch_count_down(&held->begun);
        weir_test_latch_wait(&held->opened);
}

/* The only thread that starts programs is inside a function. */
static void
one_that_was_not_started_ends_at_once(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct outcome waiting = {0}, early = {0}, shut = {0};
        struct weir_test_gate gate;
        struct weir_test_thread thread;

        config.pollers = 2;
        config.compute_threads = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        weir_test_gate_init(&gate);
        start(weir_go_new(NULL, block, NULL, &gate));
        weir_test_latch_wait(&gate.begun);
        weir_series *series = in_series(COMMAND(&waiting, "true"));
        cancel(series);
        weir_test_wait_freed(&waiting.record);
        ENDED(&waiting, -ECANCELED, -ENODATA, -ENODATA);
        series = weir_series_new(NULL, NULL);
        weir_series_push(series, COMMAND(&early, "true"));
        weir_series_cancel(series);
        (void)!weir_series_start(series);
        WEIR_TEST_EVENTUALLY(early.record.frees);
        CU_ASSERT_EQUAL(early.record.calls, 0);
        start(COMMAND(&shut, "true"));
        weir_test_shutdown_begin(&thread);
        weir_test_wait_freed(&shut.record);
        ENDED(&shut, -ESHUTDOWN, -ENODATA, -ENODATA);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        CU_ASSERT(!has_children());
}

static void
a_shutdown_ends_what_runs(void)
{
        struct outcome meek = {0}, stubborn = {0};
        int file = memfd_create("pid", MFD_CLOEXEC);

        begin();
        start(COMMAND(&meek, "sleep", "1000"));
        weir_task *task = SHELL(&stubborn, "trap '' TERM; echo $$; while :; do sleep 0.01; done");
        weir_process_set_fd(task, 1, file);
        weir_process_set_grace(task, WEIR_MSEC(50));
        start(task);
        CU_ASSERT(weir_test_number_in(file) > 0);
        end();
        CU_ASSERT_EQUAL(meek.record.status, -ESHUTDOWN);
        ENDED(&stubborn, -ESHUTDOWN, -ENODATA, SIGKILL);
        close(file);
        CU_ASSERT_EQUAL(weir_task_start(COMMAND(&meek, "true")), -ESHUTDOWN);
}

/* The only poller is held, so nothing of it is known when the shutdown comes. */
static void
one_that_has_ended_before_a_shutdown_keeps_its_status(void)
{
        struct outcome outcome = {0};
        struct weir_test_thread thread;
        struct weir_test_gate gate;

        weir_test_begin_real(1);
        weir_task *task = SHELL(&outcome, "exit 4");
        weir_test_gate_hold(&gate, NULL);
        start(task);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0 && !weir_test_lives(weir_process_pid(task)));
        weir_test_shutdown_begin_behind_gate(&thread);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        ENDED(&outcome, WEIR_EPROCESS_EXIT, 4, -ENODATA);
        CU_ASSERT(!has_children());
}

/* -- signals to it -- */

static void
a_signal_reaches_the_program_alone(void)
{
        struct outcome outcome = {0};
        int file = memfd_create("pid", MFD_CLOEXEC);

        begin();
        /* Not dash: it loses a signal that comes while it starts a program, or begins to wait. */
        weir_task *task = weir_test_recorded(weir_command_new(
                note, &outcome, "bash", "-c", "trap 'exit 5' USR1; sleep 1000 & echo $!; while :; do sleep 0.01; done", NULL));
        weir_process_set_fd(task, 1, file);
        CU_ASSERT_EQUAL(weir_process_pid(task), -EAGAIN);
        CU_ASSERT_EQUAL(weir_process_kill(task, SIGUSR1), -EAGAIN);
        start(task);
        pid_t sleeper = weir_test_number_in(file);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0); /* it runs a little before its task knows */
        CU_ASSERT_EQUAL(weir_process_kill(task, 0), 0);
        CU_ASSERT_EQUAL(weir_process_kill(task, -1), -EINVAL);
        CU_ASSERT_EQUAL(weir_process_kill(task, 1000), -EINVAL);
        pid_t shell = weir_process_pid(task);
        CU_ASSERT_EQUAL(weir_process_kill(task, SIGUSR1), 0);
        /* Again, in case that it comes too early. */
        WEIR_TEST_EVENTUALLY(outcome.record.frees > 0 || (kill(shell, SIGUSR1), false));
        ENDED(&outcome, WEIR_EPROCESS_EXIT, 5, -ENODATA);
        CU_ASSERT(weir_test_lives(sleeper));
        kill(sleeper, SIGKILL);
        end();
        close(file);
}

static void
kill_again(weir_task *process, void *context)
{
        CU_ASSERT_EQUAL(weir_process_kill(process, SIGKILL), -ESTALE);
        note(process, context);
}

static void
one_that_has_ended_gets_no_signal(void)
{
        struct outcome outcome = {0};

        begin();
        run(weir_test_recorded(weir_command_new(kill_again, &outcome, "true", NULL)), &outcome);
        CU_ASSERT_EQUAL(outcome.record.status, 0);
        end();
}

static void
other_tasks_are_told_apart(void)
{
        weir_task *other = weir_empty_new(NULL, NULL);
        size_t size = 1;

        begin();
        CU_ASSERT_EQUAL(weir_process_exit_code(other), -EDOM);
        CU_ASSERT_EQUAL(weir_process_signal(other), -EDOM);
        CU_ASSERT_EQUAL(weir_process_pid(other), -EDOM);
        CU_ASSERT_EQUAL(weir_process_kill(other, SIGTERM), -EDOM);
        CU_ASSERT(!weir_process_output(other, &size) && size == 0);
        weir_task_dismiss(other);
        CU_ASSERT_EQUAL(weir_process_exit_code(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_process_signal(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_process_pid(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_process_kill(NULL, SIGTERM), -EINVAL);
        CU_ASSERT(!weir_process_errors(NULL, NULL));
        end();
}

/* -- wrong values -- */

static void
expect_refused(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
}

static void
wrong_values_are_reported_by_the_start(void)
{
        const char *const none[] = {NULL}, *const empty[] = {"", NULL};
        weir_task *task;

        begin();
        expect_refused(weir_process_new(NULL, NULL, NULL));
        expect_refused(weir_process_new(none, NULL, NULL));
        expect_refused(weir_process_new(empty, NULL, NULL));
        expect_refused(weir_command_new(NULL, NULL, NULL, NULL));
#define REFUSED(call)                                      \
        task = weir_command_new(NULL, NULL, "true", NULL); \
        call;                                              \
        expect_refused(task)
        REFUSED(weir_process_set_directory(task, NULL));
        REFUSED(weir_process_set_directory(task, ""));
        REFUSED(weir_process_set_environment(task, NULL, "x"));
        REFUSED(weir_process_set_environment(task, "", "x"));
        REFUSED(weir_process_set_environment(task, "a=b", "x"));
        REFUSED(weir_process_set_rlimit(task, -1, 0, 0));
        REFUSED(weir_process_set_rlimit(task, 1000, 0, 0));
        REFUSED(weir_process_set_rlimit(task, RLIMIT_CORE, 1, 0));
        REFUSED(weir_process_set_group(task, (enum weir_process_group)3));
        REFUSED(weir_process_set_fd(task, -1, 0));
        REFUSED(weir_process_set_fd(task, 3, 0));
        REFUSED(weir_process_set_input(task, NULL, 1));
        REFUSED(weir_process_collect(task, 0, 1));
        REFUSED(weir_process_collect(task, 3, 1));
        end();
}

static void
no_task_is_no_fault(void)
{
        weir_process_set_directory(NULL, "/");
        weir_process_set_environment(NULL, "x", "x");
        weir_process_clear_environment(NULL);
        weir_process_set_rlimit(NULL, 0, 0, 0);
        weir_process_set_group(NULL, WEIR_PROCESS_GROUP_OWN);
        weir_process_set_grace(NULL, 0);
        weir_process_set_fd(NULL, 0, 0);
        weir_process_set_input(NULL, "x", 1);
        weir_process_collect(NULL, 1, 1);
        weir_process_merge_errors(NULL);
}

static void
change_after_the_start(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *task = weir_command_new(NULL, NULL, "/bin/true", NULL);

        weir_series_push(series, task);
        weir_process_set_grace(task, 0);
}

static void
change_another_task(void)
{
        weir_process_set_grace(weir_empty_new(NULL, NULL), 0);
}

static void
a_change_that_comes_too_late_aborts(void)
{
        weir_test_aborts(change_after_the_start, "weir_process_set_grace: process \"true\" was already consumed");
        weir_test_aborts(change_another_task, "weir_process_set_grace: expected a process, and was given empty task");
}

/* -- children of the program -- */

/* Nobody takes the program's own children away from it. */
static void
the_programs_own_children_stay_its_own(void)
{
        struct outcome outcome = {0};
        int status = 0;

        begin();
        pid_t own = fork();
        if (own == 0)
                _exit(3);
        run(COMMAND(&outcome, "true"), &outcome);
        CU_ASSERT_EQUAL(waitpid(own, &status, 0), own);
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 3);
        end();
}

static void
what_the_program_takes_away_is_not_known(void)
{
        struct outcome ignored = {0}, taken = {0};
        struct sigaction action = {.sa_handler = SIG_IGN}, before;

        begin();
        sigaction(SIGCHLD, &action, &before);
        run(SHELL(&ignored, "echo said; exit 3"), &ignored);
        ENDED(&ignored, WEIR_EPROCESS_LOST, -ENODATA, -ENODATA);
        CU_ASSERT_STRING_EQUAL(ignored.output, "said\n");
        sigaction(SIGCHLD, &before, NULL);
        /* The poller is held, so the program is faster. */
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER;
        weir_test_end();
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        struct weir_test_gate gate;
        weir_test_gate_hold(&gate, NULL);
        start(COMMAND(&taken, "true"));
        WEIR_TEST_EVENTUALLY(waitpid(-1, NULL, WNOHANG) > 0);
        weir_test_gate_open(&gate);
        weir_test_wait_freed(&taken.record);
        ENDED(&taken, WEIR_EPROCESS_LOST, -ENODATA, -ENODATA);
        end();
}

/* -- many -- */

#define MANY (WEIR_TEST_SANITIZED ? 300 : 1000)

static _Atomic unsigned good;

static void
count_good(weir_task *process, void *unused)
{
        (void)unused;
        if (weir_task_status(process) == -ECANCELED)
                atomic_fetch_add(&good, 1);
}

/* They all run until the last one was started. */
static void
a_thousand_at_once_leave_no_zombie(void)
{
        struct rlimit files, more;
        unsigned descriptors = weir_test_entries_of("/proc/self/fd"), threads;

        getrlimit(RLIMIT_NOFILE, &files);
        more = (struct rlimit){files.rlim_max < 4096 ? files.rlim_max : 4096, files.rlim_max};
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &more), 0);
        begin();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        good = 0;
        for (unsigned i = 0; i < MANY; i++) {
                weir_parallel_add(parallel, weir_command_new(count_good, NULL, "sleep", "1000", NULL));
        }
        weir_series_push(series, parallel);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        WEIR_TEST_EVENTUALLY(weir_test_entries_of("/proc/self/fd") >= descriptors + 2 * MANY);
        threads = weir_test_threads();
        CU_ASSERT(threads < 40);
        weir_series_cancel(series);
        weir_series_unref(series);
        end();
        CU_ASSERT_EQUAL(good, MANY);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        setrlimit(RLIMIT_NOFILE, &files);
}

#define STORM_THREADS 3
#define STORM_ROUNDS  (WEIR_TEST_SANITIZED ? 60 : 250)

static _Atomic unsigned storm_started, storm_ended;

static void
count_end(weir_task *process, void *unused)
{
        int status = weir_task_status(process);

        (void)unused;
        CU_ASSERT(status == 0 || status == -ECANCELED || status == -ETIMEDOUT || status == WEIR_EPROCESS_EXIT ||
                  status == -EMSGSIZE || status == -ENOENT);
        CU_ASSERT(weir_process_kill(process, SIGKILL) < 0);
        atomic_fetch_add(&storm_ended, 1);
}

static weir_task *
any_process(unsigned *state)
{
        weir_task *task = NULL;

        switch (rand_r(state) % 5) {
        case 0: return weir_command_new(count_end, NULL, "true", NULL);
        case 1: return weir_command_new(count_end, NULL, "sleep", "1000", NULL);
        case 2: return weir_command_new(count_end, NULL, "weir-no-such-program", NULL);
        case 3:
                task = weir_command_new(count_end, NULL, "sh", "-c", "trap '' TERM; cat; sleep 1000", NULL);
                weir_process_set_grace(task, WEIR_MSEC(2));
                weir_process_set_input(task, "abc", 3);
                return task;
        default:
                task = weir_command_new(count_end, NULL, "yes", NULL);
                weir_process_collect(task, 1, 1000);
                return task;
        }
}

static void *
storm(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < STORM_ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, any_process(&state));
                if (rand_r(&state) % 2)
                        weir_series_set_deadline(series, WEIR_USEC(rand_r(&state) % 3000));
                atomic_fetch_add(&storm_started, 1);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                for (unsigned spins = (unsigned)rand_r(&state) % 20; spins > 0; spins--)
                        sched_yield();
                weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
a_storm_leaves_nothing_behind(void)
{
        pthread_t threads[STORM_THREADS];
        unsigned before = weir_test_entries_of("/proc/self/fd");
        struct rlimit files, more;

        getrlimit(RLIMIT_NOFILE, &files);
        more = (struct rlimit){files.rlim_max < 8192 ? files.rlim_max : 8192, files.rlim_max};
        setrlimit(RLIMIT_NOFILE, &more);
        begin();
        for (unsigned i = 0; i < STORM_THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm, (void *)(uintptr_t)(i + 1)), 0);
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_join(threads[i], NULL);
        end();
        CU_ASSERT_EQUAL(storm_started, STORM_THREADS * STORM_ROUNDS);
        CU_ASSERT(storm_ended <= storm_started); /* one that is cancelled before its start has no callback */
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        setrlimit(RLIMIT_NOFILE, &files);
}

/* -- exit and fork -- */

static int pid_file;

static weir_task *
stubborn_one(struct outcome *outcome)
{
        weir_task *task = SHELL(outcome, "trap '' TERM; echo $$; while :; do sleep 0.01; done");

        weir_process_set_fd(task, 1, pid_file);
        return task;
}

static void
init_for_exit(weir_nsec wait)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        weir_test_leaks_do_not_count = 1;
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER;
        config.exit_wait = wait;
        if (weir_init(&config))
                _exit(9);
}

static struct outcome of_child;

static void
exit_while_it_runs(void)
{
        init_for_exit(WEIR_MSEC(100));
        weir_task_start(stubborn_one(&of_child));
        weir_test_number_in(pid_file);
        exit(0);
}

static void
leave(weir_task *timer, void *unused)
{
        (void)timer;
        (void)unused;
        exit(0);
}

static void
exit_in_a_callback_while_it_runs(void)
{
        init_for_exit(WEIR_MSEC(100));
        weir_task_start(stubborn_one(&of_child));
        weir_test_number_in(pid_file);
        weir_task_start(weir_empty_new(leave, NULL));
        for (;;)
                pause();
}

/* At exit the grace period is no longer than exit_wait. */
static void
nothing_runs_on_behind_exit(void)
{
        void (*const exits[])(void) = {exit_while_it_runs, exit_in_a_callback_while_it_runs};

        for (unsigned i = 0; i < 2; i++) {
                char said[512];

                pid_file = memfd_create("pid", MFD_CLOEXEC);
                CU_ASSERT_EQUAL(weir_test_child(exits[i], said, sizeof said), 0);
                pid_t pid = weir_test_number_in(pid_file);
                WEIR_TEST_EVENTUALLY(!weir_test_lives(pid));
                close(pid_file);
        }
}

static weir_task *of_parent;

static void
meddle_in_a_child(void)
{
        weir_test_leaks_do_not_count = 1;
        if (weir_process_kill(of_parent, SIGKILL) != -ECHILD || weir_process_pid(of_parent) != -ECHILD)
                _exit(1);
        if (weir_task_start(weir_command_new(NULL, NULL, "true", NULL)) != -ECHILD)
                _exit(2);
        exit(0);
}

static void
a_forked_child_leaves_the_parents_programs_alone(void)
{
        struct outcome outcome = {0};
        char said[512];

        pid_file = memfd_create("pid", MFD_CLOEXEC);
        begin();
        of_parent = stubborn_one(&outcome);
        start(of_parent);
        pid_t pid = weir_test_number_in(pid_file);
        CU_ASSERT_EQUAL(weir_test_child(meddle_in_a_child, said, sizeof said), 0);
        CU_ASSERT(weir_test_lives(pid));
        WEIR_TEST_EVENTUALLY(weir_process_pid(of_parent) == pid); /* it runs a little before its task knows */
        CU_ASSERT_EQUAL(weir_process_kill(of_parent, SIGKILL), 0);
        weir_test_wait_freed(&outcome.record);
        ENDED(&outcome, WEIR_EPROCESS_SIGNAL, -ENODATA, SIGKILL);
        end();
        close(pid_file);
}

/* -- the virtual clock, and what is seen -- */

static void
virtual_time_stands_while_it_runs(void)
{
        struct outcome outcome = {0};
        struct weir_test_record timer = {0};

        weir_test_begin_virtual();
        start(COMMAND(&outcome, "sleep", "0.1"));
        weir_nsec began = weir_now();
        start(weir_test_timer(WEIR_SEC(3600), &timer));
        weir_test_pass(WEIR_SEC(3600));
        WEIR_TEST_CALLED(&outcome.record, 0);
        CU_ASSERT_EQUAL(outcome.record.at, began);
        CU_ASSERT_EQUAL(timer.at, began + WEIR_SEC(3600));
        end();
}

/* The grace period is in real time there, or it would never end. */
static void
a_shutdown_on_the_virtual_clock_ends_what_runs(void)
{
        struct outcome outcome = {0};

        pid_file = memfd_create("pid", MFD_CLOEXEC);
        weir_test_begin_virtual();
        weir_task *task = stubborn_one(&outcome);
        weir_process_set_grace(task, WEIR_MSEC(20));
        start(task);
        CU_ASSERT(weir_test_number_in(pid_file) > 0);
        end();
        ENDED(&outcome, -ESHUTDOWN, -ENODATA, SIGKILL);
        close(pid_file);
}

static void
a_dump_says_which_program_runs(void)
{
        struct outcome outcome = {0};
        char text[8192] = "", expected[64];
        int file = memfd_create("dump", MFD_CLOEXEC);

        pid_file = memfd_create("pid", MFD_CLOEXEC);
        begin();
        weir_task *task = weir_test_recorded(weir_command_new(note, &outcome, "/bin/sh", "-c", "echo $$\n\nsleep 1000", NULL));
        weir_process_set_fd(task, 1, pid_file);
        weir_series *series = in_series(task);
        pid_t pid = weir_test_number_in(pid_file);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) == pid); /* it runs a little before its task knows */
        CU_ASSERT_EQUAL(weir_debug_dump(file), 0);
        CU_ASSERT(pread(file, text, sizeof text - 1, 0) > 0);
        snprintf(expected, sizeof expected, "/bin/sh -c echo $$\\x0a\\x0asleep 1000, pid %d, for ", (int)pid);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "process \"sh\""));
        if (!strstr(text, expected))
                fprintf(stderr, "%s\n", text);
        cancel(series);
        end();
        close(file);
        close(pid_file);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_output_is_there_when_it_has_ended),
                WEIR_TEST(another_code_and_a_signal_are_told_apart),
                WEIR_TEST(what_exec_says_is_the_status),
                WEIR_TEST(a_search_goes_on_behind_what_cannot_be_executed),
                WEIR_TEST(arguments_reach_the_program_as_they_are),
                WEIR_TEST(the_environment_is_changed_for_the_program_alone),
                WEIR_TEST(directory_and_limits_are_the_programs_own),
                WEIR_TEST(it_has_a_group_as_it_was_set),
                WEIR_TEST(signals_are_as_for_a_new_program),
                WEIR_TEST(it_has_no_other_descriptor),
                WEIR_TEST(input_is_nothing_or_a_text),
                WEIR_TEST(descriptors_of_the_caller_are_duplicated),
                WEIR_TEST(standard_descriptors_may_be_closed_in_the_caller),
                WEIR_TEST(errors_are_collected_apart_or_merged),
                WEIR_TEST(output_beyond_the_bound_ends_the_program),
                WEIR_TEST(others_that_keep_its_output_are_not_waited_for),
                WEIR_TEST(nothing_of_the_output_is_lost),
                WEIR_TEST(a_cancel_ends_the_group),
                WEIR_TEST(nothing_of_a_cancelled_group_survives),
                WEIR_TEST(one_that_ignores_sigterm_is_killed_after_the_grace_period),
                WEIR_TEST(one_that_ends_in_the_grace_period_has_its_code),
                WEIR_TEST(without_a_grace_period_it_is_killed_at_once),
                WEIR_TEST(one_that_is_stopped_by_a_signal_can_end),
                WEIR_TEST(a_cancel_in_a_shared_group_ends_the_program_alone),
                WEIR_TEST(a_deadline_ends_it),
                WEIR_TEST(one_that_was_not_started_ends_at_once),
                WEIR_TEST(a_shutdown_ends_what_runs),
                WEIR_TEST(one_that_has_ended_before_a_shutdown_keeps_its_status),
                WEIR_TEST(a_signal_reaches_the_program_alone),
                WEIR_TEST(one_that_has_ended_gets_no_signal),
                WEIR_TEST(other_tasks_are_told_apart),
                WEIR_TEST(wrong_values_are_reported_by_the_start),
                WEIR_TEST(no_task_is_no_fault),
                WEIR_TEST(a_change_that_comes_too_late_aborts),
                WEIR_TEST(the_programs_own_children_stay_its_own),
                WEIR_TEST(what_the_program_takes_away_is_not_known),
                WEIR_TEST(a_thousand_at_once_leave_no_zombie),
                WEIR_TEST(a_storm_leaves_nothing_behind),
                WEIR_TEST(nothing_runs_on_behind_exit),
                WEIR_TEST(a_forked_child_leaves_the_parents_programs_alone),
                WEIR_TEST(virtual_time_stands_while_it_runs),
                WEIR_TEST(a_shutdown_on_the_virtual_clock_ends_what_runs),
                WEIR_TEST(a_dump_says_which_program_runs),
        };

        return weir_test_main("process_task", tests, sizeof tests / sizeof *tests);
}
