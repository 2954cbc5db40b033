/* test/process_faults_test.c: tasks that run a program, where the system refuses what they need. */
#include "test/fixture.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "kernel/memory/memory.h"
#include "kernel/memory/sanitized.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* -- what is refused -- */

enum call {
        CALL_NONE,
        CALL_MEMORY,
        CALL_CLONE,
        CALL_PIPE,
        CALL_DUP,
        CALL_MEMFD,
        CALL_WRITE,
        CALL_READ,
        CALL_TIMERFD,
        CALL_EPOLL_PIDFD,
        CALL_EPOLL_PIPE,
        CALL_WAITID,
        CALLS
};

static _Atomic int refused;       /* enum call: that call, */
static _Atomic int error;         /* with that errno, */
static _Atomic int calls_left;    /* after so many that are not refused, */
static _Atomic int times;         /* so often */
static _Atomic bool is_old;       /* Linux has no pidfd, */
static _Atomic bool has_no_range; /* and no close_range */
static _Atomic int signal_error;  /* of signals by pidfd; 0: none */
static _Atomic bool holds_starts; /* a clone returns only when exit() waits, */
static _Atomic unsigned kills;    /* signals by number */
static _Atomic unsigned sleeps;   /* as these show */
static _Atomic size_t blocks;
static _Atomic unsigned looks; /* whether a program has ended */

static void
refuse(enum call call, int code, int after, int often)
{
        error = code;
        calls_left = after;
        times = often;
        refused = call;
}

static bool
is_refused(enum call call)
{
        if (refused != (int)call || atomic_fetch_sub(&calls_left, 1) > 0 || atomic_fetch_sub(&times, 1) <= 0)
                return false;
        errno = error;
        return true;
}

void *__real_malloc(size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
void *__real_weir__alloc(size_t size);
void __real_weir__free(void *block, size_t size);
int __real_pipe2(int ends[2], int flags);
int __real_fcntl(int fd, int command, ...);
int __real_memfd_create(const char *name, unsigned flags);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __real_read(int fd, void *bytes, size_t size);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __real_timerfd_create(int clock, int flags);
int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);
int __real_usleep(useconds_t microseconds);
int __wrap_usleep(useconds_t microseconds);
int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __real_clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd);
int __real___clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd);
long __real_syscall(long number, ...);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);
int __wrap_pipe2(int ends[2], int flags);
int __wrap_fcntl(int fd, int command, long argument);
int __wrap_memfd_create(const char *name, unsigned flags);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd);
int __wrap___clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

void *
__wrap_malloc(size_t size)
{
        return is_refused(CALL_MEMORY) ? NULL : __real_malloc(size);
}

void *
__wrap_realloc(void *block, size_t size)
{
        return is_refused(CALL_MEMORY) ? NULL : __real_realloc(block, size);
}

char *
__wrap_strdup(const char *text)
{
        return is_refused(CALL_MEMORY) ? NULL : __real_strdup(text);
}

void *
__wrap_weir__alloc(size_t size)
{
        void *block = is_refused(CALL_MEMORY) ? NULL : __real_weir__alloc(size);

        blocks += block != NULL;
        return block;
}

void
__wrap_weir__free(void *block, size_t size)
{
        blocks--;
        __real_weir__free(block, size);
}

int
__wrap_pipe2(int ends[2], int flags)
{
        return is_refused(CALL_PIPE) ? -1 : __real_pipe2(ends, flags);
}

int
__wrap_fcntl(int fd, int command, long argument)
{
        return command == F_DUPFD_CLOEXEC && is_refused(CALL_DUP) ? -1 : __real_fcntl(fd, command, argument);
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
        return is_refused(CALL_MEMFD) ? -1 : __real_memfd_create(name, flags);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t size)
{
        return size > 8 && is_refused(CALL_WRITE) ? -1 : __real_write(fd, bytes, size); /* 8 bytes wake a poller */
}

ssize_t
__wrap_read(int fd, void *bytes, size_t size)
{
        return size > 8 && is_refused(CALL_READ) ? -1 : __real_read(fd, bytes, size);
}

int
__wrap_timerfd_create(int clock, int flags)
{
        return is_refused(CALL_TIMERFD) ? -1 : __real_timerfd_create(clock, flags);
}

int
__wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
        looks++;
        return is_refused(CALL_WAITID) ? -1 : __real_waitid(type, id, info, options);
}

static bool
is_pidfd(int fd)
{
        char path[64], to[64] = "";

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        return readlink(path, to, sizeof to - 1) > 0 && strstr(to, "pidfd");
}

static bool
is_pipe(int fd)
{
        char path[64], to[64] = "";

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        return readlink(path, to, sizeof to - 1) > 0 && strncmp(to, "pipe:", 5) == 0;
}

int
__wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
        bool is_add = operation == EPOLL_CTL_ADD;

        if (is_add && refused == CALL_EPOLL_PIDFD && is_pidfd(fd) && is_refused(CALL_EPOLL_PIDFD))
                return -1;
        if (is_add && refused == CALL_EPOLL_PIPE && is_pipe(fd) && is_refused(CALL_EPOLL_PIPE))
                return -1;
        return __real_epoll_ctl(epoll, operation, fd, event);
}

/* Linux below 5.2 takes no notice of the flag. */
static int
flags_of(int flags)
{
        return is_old ? flags & ~CLONE_PIDFD : flags;
}

static int
after_clone(int pid)
{
        while (holds_starts && !sleeps)
                sched_yield();
        return pid;
}

int
__wrap_kill(pid_t pid, int signo)
{
        kills++;
        return __real_kill(pid, signo);
}

int
__wrap_usleep(useconds_t microseconds)
{
        sleeps++;
        return __real_usleep(microseconds);
}

int
__wrap_clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd)
{
        return is_refused(CALL_CLONE) ? -1 : after_clone(__real_clone(main, stack, flags_of(flags), argument, pidfd));
}

int
__wrap___clone(int (*main)(void *), void *stack, int flags, void *argument, int *pidfd)
{
        return is_refused(CALL_CLONE) ? -1 : after_clone(__real___clone(main, stack, flags_of(flags), argument, pidfd));
}

/* Also in the child, in the memory of its parent: so it is as bare as io/process/child.c. */
__attribute__((no_sanitize("thread"), no_sanitize("address"), no_sanitize("undefined"))) long
__wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
        if ((number == SYS_close_range && has_no_range) || (number == SYS_pidfd_send_signal && is_old)) {
                errno = ENOSYS;
                return -1;
        }
        if (number == SYS_pidfd_send_signal && signal_error) {
                errno = signal_error;
                return -1;
        }
        return __real_syscall(number, a, b, c, d, e, f);
}

/* -- running -- */

struct outcome {
        struct weir_test_record record; /* first */
        int code, signal;
        size_t size;
        char output[256];
};

static void
note(weir_task *process, void *context)
{
        struct outcome *outcome = context;
        const char *output = weir_process_output(process, &outcome->size);

        outcome->code = weir_process_exit_code(process);
        outcome->signal = weir_process_signal(process);
        snprintf(outcome->output, sizeof outcome->output, "%s", output ? output : "(none)");
        weir_test_done(process, context);
}

static weir_task *
command(struct outcome *outcome, const char *line)
{
        return weir_test_recorded(weir_command_new(note, outcome, "/bin/sh", "-c", line, NULL));
}

static weir_series *
in_series(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, task);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static unsigned descriptors;

static void
begin(void)
{
        descriptors = weir_test_entries_of("/proc/self/fd");
        weir_test_begin_real(1);
        /* The executor has its threads, and the poller its tables. */
        CU_ASSERT_EQUAL_FATAL(weir_task_run(weir_command_new(NULL, NULL, "true", NULL)), 0);
}

static void
end(void)
{
        siginfo_t info;
        unsigned kept = 1; /* the eventfd of the poller */

        refused = CALL_NONE;
        weir_test_end();
        CU_ASSERT(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD);
        CU_ASSERT(weir_test_entries_of("/proc/self/fd") <= descriptors + kept);
}

/* One that needs all that there is. */
static weir_task *
elaborate(struct outcome *outcome)
{
        weir_task *task = command(outcome, "cat; echo $A; pwd; echo e >&2");

        weir_process_set_environment(task, "A", "a");
        weir_process_set_directory(task, "/");
        weir_process_set_rlimit(task, RLIMIT_CORE, 0, 0);
        weir_process_set_fd(task, 2, 2);
        weir_process_set_input(task, "text that is read\n", 18);
        weir_process_collect(task, 2, 100);
        return task;
}

/* -- what is refused is the status -- */

static void
each_refusal_is_its_status(void)
{
        static const struct {
                enum call call;
                int error, after;
        } refusals[] = {
                {CALL_PIPE, EMFILE, 0},        {CALL_PIPE, ENFILE, 1},        {CALL_MEMFD, EMFILE, 0},
                {CALL_WRITE, ENOSPC, 0},       {CALL_CLONE, EAGAIN, 0},       {CALL_CLONE, ENOMEM, 0},
                {CALL_CLONE, EMFILE, 0},       {CALL_EPOLL_PIPE, ENOSPC, 0},  {CALL_EPOLL_PIPE, ENOMEM, 1},
                {CALL_EPOLL_PIDFD, ENOSPC, 0}, {CALL_EPOLL_PIDFD, ENOMEM, 0}, {CALL_READ, EIO, 0},
        };

        begin();
        for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
                struct outcome outcome = {0};
                weir_task *task = elaborate(&outcome);

                refuse(refusals[i].call, refusals[i].error, refusals[i].after, 1);
                CU_ASSERT_EQUAL(weir_task_run(task), -refusals[i].error);
                CU_ASSERT_EQUAL(refused == (int)refusals[i].call && times <= 0, true);
                refused = CALL_NONE;
                WEIR_TEST_CALLED(&outcome.record, -refusals[i].error);
        }
        end();
}

static void
no_descriptor_for_a_duplicate_is_found_by_the_start(void)
{
        struct outcome outcome = {0};

        begin();
        weir_task *task = command(&outcome, "true");
        refuse(CALL_DUP, EMFILE, 0, 1);
        weir_process_set_fd(task, 2, 2);
        refused = CALL_NONE;
        CU_ASSERT_EQUAL(weir_task_run(task), -EMFILE);
        WEIR_TEST_NOT_CALLED(&outcome.record);
        end();
}

/* Neither is there a stream. */
static void
a_pipe_that_cannot_be_made_is_found_by_the_start(void)
{
        static const struct {
                enum call call;
                int error;
        } refusals[] = {{CALL_PIPE, EMFILE}, {CALL_PIPE, ENFILE}, {CALL_MEMORY, ENOMEM}};

        begin();
        for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
                struct outcome outcome = {0};
                weir_task *task = command(&outcome, "true");

                refuse(refusals[i].call, refusals[i].error, 0, 1);
                CU_ASSERT_PTR_NULL(weir_process_open_pipe(task, 1));
                refused = CALL_NONE;
                CU_ASSERT_EQUAL(weir_task_run(task), -refusals[i].error);
                WEIR_TEST_NOT_CALLED(&outcome.record);
        }
        end();
}

/* Interrupted calls are made again. */
static void
interruptions_are_not_seen(void)
{
        static const enum call calls[] = {CALL_WRITE, CALL_READ, CALL_WAITID};

        begin();
        for (unsigned i = 0; i < 3; i++) {
                struct outcome outcome = {0};
                weir_task *task = weir_test_recorded(weir_command_new(note, &outcome, "/nowhere", NULL));

                if (calls[i] != CALL_WAITID) {
                        weir_task_dismiss(task);
                        outcome = (struct outcome){0};
                        task = elaborate(&outcome);
                }
                refuse(calls[i], EINTR, 0, 3);
                (void)!weir_task_run(task);
                CU_ASSERT(times <= 0);
                refused = CALL_NONE;
                CU_ASSERT_EQUAL(outcome.record.status, calls[i] == CALL_WAITID ? -ENOENT : 0);
                if (calls[i] != CALL_WAITID)
                        CU_ASSERT_STRING_EQUAL(outcome.output, "text that is read\na\n/\n");
        }
        end();
}

/* Each allocation in turn fails, until there is none left.  What is out of memory says so, and leaves nothing behind. */
static void
each_allocation_may_fail(void)
{
        unsigned failures = 0;
        bool has_succeeded = false;

        begin();
        for (int after = 0; !has_succeeded && after < 200; after++) {
                struct outcome outcome = {0};
                size_t before = blocks;

                refuse(CALL_MEMORY, ENOMEM, after, 1);
                weir_task *task = elaborate(&outcome);
                int status = weir_task_start(task);
                if (status == 0)
                        weir_test_wait_freed(&outcome.record);
                bool was_refused = times <= 0;
                refused = CALL_NONE;
                CU_ASSERT(status == 0 || status == -ENOMEM);
                CU_ASSERT(outcome.record.calls == (status == 0) && outcome.record.frees == (task != NULL));
                CU_ASSERT(status || outcome.record.status == 0 || outcome.record.status == -ENOMEM);
                failures += was_refused;
                has_succeeded = !was_refused;
                WEIR_TEST_EVENTUALLY(blocks <= before);
        }
        CU_ASSERT(has_succeeded && failures >= 8);
        end();
}

/* Without a timer the grace period is over at once. */
static void
without_a_timer_there_is_no_grace_period(void)
{
        struct outcome outcome = {0};
        int file = __real_memfd_create("pid", MFD_CLOEXEC);
        char byte;

        begin();
        weir_task *task = command(&outcome, "trap '' TERM; echo; while :; do sleep 0.01; done");
        weir_process_set_fd(task, 1, file);
        weir_process_set_grace(task, WEIR_FOREVER - 1);
        weir_series *series = in_series(task);
        WEIR_TEST_EVENTUALLY(pread(file, &byte, 1, 0) == 1);
        refuse(CALL_TIMERFD, EMFILE, 0, 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_wait_freed(&outcome.record);
        WEIR_TEST_CALLED(&outcome.record, -ECANCELED);
        CU_ASSERT_EQUAL(outcome.signal, SIGKILL);
        end();
        close(file);
}

/* -- older systems -- */

static void
run_on_an_old_system(void)
{
        struct outcome brief = {0}, longer = {0}, cancelled = {0}, killed = {0};
        int file = __real_memfd_create("pid", MFD_CLOEXEC);
        char byte;

        begin();
        CU_ASSERT_EQUAL(weir_task_run(command(&brief, "echo x; exit 3")), WEIR_EPROCESS_EXIT);
        CU_ASSERT_EQUAL(brief.code, 3);
        CU_ASSERT_STRING_EQUAL(brief.output, "x\n");
        CU_ASSERT_EQUAL(weir_task_run(command(&longer, "sleep 0.3")), 0);
        weir_task *task = command(&cancelled, "trap '' TERM; echo; while :; do sleep 0.01; done");
        weir_process_set_fd(task, 1, file);
        weir_process_set_grace(task, WEIR_MSEC(20));
        weir_series *series = in_series(task);
        WEIR_TEST_EVENTUALLY(pread(file, &byte, 1, 0) == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_wait_freed(&cancelled.record);
        WEIR_TEST_CALLED(&cancelled.record, -ECANCELED);
        CU_ASSERT_EQUAL(cancelled.signal, SIGKILL);
        task = command(&killed, "while :; do sleep 0.01; done");
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
        CU_ASSERT_EQUAL(weir_process_kill(task, SIGINT), 0);
        weir_test_wait_freed(&killed.record);
        WEIR_TEST_CALLED(&killed.record, WEIR_EPROCESS_SIGNAL);
        CU_ASSERT_EQUAL(killed.signal, SIGINT);
        end();
        close(file);
}

/* It is looked whether a program has ended: often at first, and seldom later. */
static void
without_pidfds_it_is_looked_now_and_then(void)
{
        is_old = true;
        looks = 0;
        run_on_an_old_system();
        CU_ASSERT(looks < 1000);
        is_old = false;
}

/* Linux 5.2 has pidfds for which epoll cannot wait. */
static void
a_pidfd_that_epoll_refuses_is_no_fault(void)
{
        struct outcome outcome = {0};

        begin();
        refuse(CALL_EPOLL_PIDFD, EPERM, 0, 1);
        CU_ASSERT_EQUAL(weir_task_run(command(&outcome, "sleep 0.05; echo x")), 0);
        CU_ASSERT_STRING_EQUAL(outcome.output, "x\n");
        CU_ASSERT(times <= 0);
        refused = CALL_NONE;
        struct outcome untimed = {0};
        is_old = true;
        refuse(CALL_TIMERFD, EMFILE, 0, 1); /* neither: it is ended, and waited for elsewhere */
        CU_ASSERT_EQUAL(weir_task_run(command(&untimed, "sleep 1000")), -EMFILE);
        CU_ASSERT_EQUAL(untimed.signal, SIGKILL);
        is_old = false;
        end();
}

/* A filter of system calls does that. */
static void
without_signals_by_pidfd_the_number_serves(void)
{
        static const int errors[] = {EPERM, ENOSYS, EACCES};

        for (unsigned i = 0; i < 3; i++) {
                struct outcome killed = {0}, cancelled = {0};

                begin();
                signal_error = errors[i];
                weir_task *task = weir_test_recorded(weir_command_new(note, &killed, "sleep", "1000", NULL));
                weir_series *series = in_series(task);
                WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
                CU_ASSERT_EQUAL(weir_process_kill(task, 0), 0);
                CU_ASSERT_EQUAL(weir_process_kill(task, SIGINT), 0);
                weir_test_wait_freed(&killed.record);
                WEIR_TEST_CALLED(&killed.record, WEIR_EPROCESS_SIGNAL);
                weir_series_unref(series);
                task = weir_test_recorded(weir_command_new(note, &cancelled, "sleep", "1000", NULL));
                weir_process_set_group(task, WEIR_PROCESS_GROUP_SHARED);
                series = in_series(task);
                WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
                weir_series_cancel(series);
                weir_test_wait_freed(&cancelled.record);
                WEIR_TEST_CALLED(&cancelled.record, -ECANCELED);
                CU_ASSERT_EQUAL(cancelled.signal, SIGTERM);
                weir_series_unref(series);
                end();
                signal_error = 0;
        }
}

static _Atomic bool may_go_on;

static void
wait_until_it_may_go_on(weir_task *task, void *unused)
{
        (void)task, (void)unused;
        while (!may_go_on)
                sched_yield();
}

/* The number may be that of another process by now.  The poller is held, so it does not know. */
static void
no_signal_goes_to_a_number_that_was_waited_for(void)
{
        struct outcome taken = {0};

        begin();
        signal_error = EPERM;
        may_go_on = false;
        weir_task *task = command(&taken, "exit 3");
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(wait_until_it_may_go_on, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        WEIR_TEST_EVENTUALLY(weir_process_pid(task) > 0);
        WEIR_TEST_EVENTUALLY(waitpid(weir_process_pid(task), NULL, WNOHANG) > 0);
        kills = 0;
        CU_ASSERT_EQUAL(weir_process_kill(task, SIGKILL), -ESTALE);
        CU_ASSERT_EQUAL(kills, 0);
        may_go_on = true;
        weir_test_wait_freed(&taken.record);
        WEIR_TEST_CALLED(&taken.record, WEIR_EPROCESS_LOST);
        signal_error = 0;
        end();
}

/* -- exit -- */

static int pid_file;

static struct outcome of_child;

/* It runs already, and the thread that has started it is not back yet. */
static void
exit_while_it_starts(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        weir_test_leaks_do_not_count = 1;
        config.pollers = 1;
        config.exit_wait = 1;
        if (weir_init(&config))
                _exit(9);
        holds_starts = true;
        sleeps = 0;
        weir_task *task = command(&of_child, "echo $$; exec sleep 1000");
        weir_process_set_fd(task, 1, pid_file);
        weir_task_start(task);
        weir_test_number_in(pid_file);
        sleeps = 0;
        exit(0);
}

static void
what_starts_during_exit_does_not_survive(void)
{
        char said[512];

        pid_file = __real_memfd_create("pid", MFD_CLOEXEC);
        CU_ASSERT_EQUAL(weir_test_child(exit_while_it_starts, said, sizeof said), 0);
        pid_t pid = weir_test_number_in(pid_file);
        CU_ASSERT_FATAL(pid > 1);
        WEIR_TEST_EVENTUALLY(!weir_test_lives(pid));
        close(pid_file);
}

static void
without_close_range_descriptors_are_closed_one_by_one(void)
{
        struct outcome outcome = {0};
        int leaks[200];

        for (unsigned i = 0; i < 200; i++)
                leaks[i] = dup(2);
        has_no_range = true;
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_command_new(note, &outcome, "ls", "/proc/self/fd", NULL))), 0);
        CU_ASSERT_STRING_EQUAL(outcome.output, "0\n1\n2\n3\n");
        weir_test_end();
        has_no_range = false;
        for (unsigned i = 0; i < 200; i++)
                close(leaks[i]);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_refusal_is_its_status),
                WEIR_TEST(no_descriptor_for_a_duplicate_is_found_by_the_start),
                WEIR_TEST(a_pipe_that_cannot_be_made_is_found_by_the_start),
                WEIR_TEST(interruptions_are_not_seen),
                WEIR_TEST(each_allocation_may_fail),
                WEIR_TEST(without_a_timer_there_is_no_grace_period),
                WEIR_TEST(without_pidfds_it_is_looked_now_and_then),
                WEIR_TEST(a_pidfd_that_epoll_refuses_is_no_fault),
                WEIR_TEST(without_signals_by_pidfd_the_number_serves),
                WEIR_TEST(no_signal_goes_to_a_number_that_was_waited_for),
                WEIR_TEST(what_starts_during_exit_does_not_survive),
                WEIR_TEST(without_close_range_descriptors_are_closed_one_by_one),
        };

        return weir_test_main("process_faults", tests, sizeof tests / sizeof *tests);
}
