/* test/fd_faults_test.c: waits for descriptors when the system or the program makes a mistake: calls that fail, descriptors that
 * are closed too early, numbers that belong to another file.
 *
 * The linker puts the functions below in front of the library's and the system's (test/CMakeLists.txt). */
#include "test/blocks_fixture.h"
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "io/base/fd.h"
#include "kernel/base/clock.h"
#include "kernel/observe/log.h"

/* -- faults -- */

static _Atomic int control_fault; /* of the next call of epoll_ctl that counts; 0: none */
static _Atomic int faulty_operation;
static _Atomic unsigned controls; /* calls of epoll_ctl so far */

int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
bool __real_weir__alarm_set(struct weir__poller *poller, struct weir__alarm *alarm, weir_nsec deadline);
bool __wrap_weir__alarm_set(struct weir__poller *poller, struct weir__alarm *alarm, weir_nsec deadline);

int
__wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
        controls++;
        int error = operation == faulty_operation ? atomic_exchange(&control_fault, 0) : 0;

        if (!error)
                return __real_epoll_ctl(epoll, operation, fd, event);
        errno = error;
        return -1;
}

/* Alarms of more than a second come 10,000 times as early.  Only looks at descriptors set such ones here. */
static _Atomic unsigned looks_after_10, looks_after_100, looks_later;

bool
__wrap_weir__alarm_set(struct weir__poller *poller, struct weir__alarm *alarm, weir_nsec deadline)
{
        weir_nsec now = weir__clock_monotonic(), after = deadline - now;

        if (after <= WEIR_SEC(1))
                return __real_weir__alarm_set(poller, alarm, deadline);
        atomic_fetch_add(after <= WEIR_SEC(10) ? &looks_after_10 : after <= WEIR_SEC(100) ? &looks_after_100 : &looks_later, 1);
        return __real_weir__alarm_set(poller, alarm, now + after / 10000);
}

static void
fail_next(int operation, int error)
{
        faulty_operation = operation;
        control_fault = error;
}

/* -- the log: no message is left out because another one has just come -- */

static char logged[WEIR__LOG_SIZE]; /* the last message */

void __real_weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level, const char *format, ...);
void __wrap_weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

void
__wrap_weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level, const char *format, ...)
{
        char text[WEIR__LOG_SIZE];
        va_list arguments;

        (void)limit;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        __real_weir__log_limited(NULL, level, "%s", text);
}

static void
note_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)context;
        snprintf(logged, sizeof logged, "%s", message);
}

/* -- what the tests share -- */

static int ends[2]; /* of a pair of sockets: what one writes the other reads */

static void
open_ends(void)
{
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
}

static void
close_ends(void)
{
        close(ends[0]);
        close(ends[1]);
}

static void
begin(void)
{
        open_ends();
        weir_test_begin_virtual();
}

static void
end(void)
{
        weir_test_end();
        close_ends();
}

static void
start_readable(weir_fd *fd, struct weir_test_record *record)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_fd_readable_new(fd, weir_test_done, record))), 0);
}

static void
start_writable(weir_fd *fd, struct weir_test_record *record)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_fd_writable_new(fd, weir_test_done, record))), 0);
}

static void
put(void)
{
        CU_ASSERT_EQUAL(write(ends[1], "x", 1), 1);
}

static void
fill(int fd)
{
        static const char zeros[4096];

        while (write(fd, zeros, sizeof zeros) > 0) {
        }
}

/* -- a watch that goes on -- */

static void
take_byte(weir_task *readable, void *context)
{
        char byte;

        CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
        weir_test_done(readable, context);
}

/* Waits for a byte, which comes behind the start or is there already.  Returns how often epoll was asked. */
static unsigned
asked_for_a_byte(weir_fd *fd, bool is_there)
{
        static struct weir_test_record record;
        unsigned before = controls;

        record = (struct weir_test_record){0};
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_fd_readable_new(fd, take_byte, &record))), 0);
        if (!is_there) {
                weir_test_pass(0);
                CU_ASSERT_EQUAL(record.calls, 0);
                put();
        }
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        return controls - before;
}

/* One wait behind another.  A step of the virtual clock may look twice before the callback runs; then the watch is ended. */
static bool
needs_no_call(weir_fd *fd)
{
        for (int i = 0; i < 100; i++)
                if (asked_for_a_byte(fd, false) == 0)
                        return true;
        return false;
}

static void
epoll_is_asked_once_for_one_that_is_kept(void)
{
        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        CU_ASSERT_EQUAL(weir_fd_keep(NULL), -EBADF);
        CU_ASSERT_EQUAL(weir_fd_keep(fd), 0);
        CU_ASSERT(asked_for_a_byte(fd, false) >= 1);
        CU_ASSERT_EQUAL(weir_fd_keep(fd), -EBUSY);
        for (int i = 0; i < 5; i++)
                CU_ASSERT(needs_no_call(fd));
        weir_fd_forget(fd);
        end();
}

/* Else a poller would not sleep any more. */
static void
a_watch_ends_when_something_comes_and_no_task_waits(void)
{
        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_keep(fd);
        CU_ASSERT(needs_no_call(fd));
        unsigned before = controls;
        for (int i = 0; i < 4; i++) {
                put();
                weir_test_pass(0);
                CU_ASSERT_EQUAL(controls, before + 1);
        }
        for (int i = 0; i < 4; i++) /* what one leaves behind the next one finds */
                (void)asked_for_a_byte(fd, true);
        CU_ASSERT(needs_no_call(fd));
        weir_fd_forget(fd);
        end();
}

static void
one_that_is_kept_has_room_and_ends_as_others(void)
{
        struct weir_test_record readable = {0}, writable = {0}, cancelled = {0}, late = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_keep(fd);
        asked_for_a_byte(fd, false);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_test_recorded(weir_fd_readable_new(fd, weir_test_done, &cancelled)));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        weir_series_unref(series);
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        start_readable(fd, &readable);
        start_writable(fd, &writable);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&writable, 0);
        CU_ASSERT_EQUAL(readable.calls, 0);
        put();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&readable, 0);
        (void)asked_for_a_byte(fd, true);
        CU_ASSERT(needs_no_call(fd));
        weir_task *made = weir_test_recorded(weir_fd_readable_new(fd, weir_test_done, &late));
        weir_fd_forget(fd);
        weir_task_start(made);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&late, -EBADF);
        end();
}

/* The peer has closed its end: a wait reports that each time, and nobody is woken for it without one. */
static void
one_that_is_kept_reports_the_end(void)
{
        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_keep(fd);
        asked_for_a_byte(fd, false);
        shutdown(ends[1], SHUT_RDWR);
        for (int i = 0; i < 3; i++) {
                struct weir_test_record record = {0};

                start_readable(fd, &record);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, 0);
        }
        weir_test_pass(0);
        unsigned before = controls;
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(controls, before);
        weir_fd_forget(fd);
        end();
}

/* -- calls that fail -- */

static void
a_wait_that_epoll_refuses_says_so_and_the_next_one_works(void)
{
        static const int errors[] = {ENOMEM, ENOSPC, EPERM};

        begin();
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                struct weir_test_record refused = {0}, next = {0}, again = {0};
                weir_fd *fd = weir_fd_new(ends[0]);

                fail_next(EPOLL_CTL_ADD, errors[i]);
                start_readable(fd, &refused);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&refused, -errors[i]);
                start_writable(fd, &next);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&next, 0);
                fail_next(EPOLL_CTL_MOD, ENOMEM);
                start_writable(fd, &again);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&again, -ENOMEM);
                weir_fd_forget(fd);
        }
        end();
}

/* Epoll watches it on.  What it reports reaches nobody, and the next object has the descriptor for itself. */
static void
a_descriptor_that_epoll_does_not_let_go_is_watched_anew(void)
{
        static const int errors[] = {ENOENT, ENOMEM, EBADF};

        begin();
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                struct weir_test_record first = {0}, next = {0}, other = {0};
                char byte;

                weir_fd *fd = weir_fd_new(ends[0]);
                put();
                start_readable(fd, &first);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&first, 0);
                fail_next(EPOLL_CTL_DEL, errors[i]);
                weir_fd_forget(fd);
                CU_ASSERT_EQUAL(control_fault, 0);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
                fd = weir_fd_new(ends[0]);
                start_readable(fd, &next);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(next.calls, 0);
                put();
                weir_test_pass(0);
                WEIR_TEST_CALLED(&next, 0);
                CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
                weir_fd *twice = weir_fd_new(ends[0]); /* that of another one is not taken away */
                start_readable(twice, &other);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&other, -EEXIST);
                weir_fd_forget(twice);
                weir_fd_forget(fd);
        }
        end();
}

/* Two tasks wait for different events.  One comes, and the owner has to ask for the other once more. */
static void
a_task_that_cannot_be_waited_for_any_more_ends(void)
{
        struct weir_test_record reader = {0}, writer = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        fill(ends[0]);
        start_readable(fd, &reader);
        start_writable(fd, &writer);
        weir_test_pass(0);
        fail_next(EPOLL_CTL_MOD, ENOMEM);
        put();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&reader, 0);
        WEIR_TEST_CALLED(&writer, -ENOMEM);
        weir_fd_forget(fd);
        end();
}

static void
shortage_of_memory_is_reported(void)
{
        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        errno = 0;
        allocations_left = 0; /* one is refused */
        CU_ASSERT(!weir_fd_new(ends[0]) && errno == ENOMEM);
        allocations_left = 0;
        CU_ASSERT_PTR_NULL(weir_fd_readable_new(fd, NULL, NULL));
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_task_start(weir_fd_writable_new(fd, NULL, NULL)), -ENOMEM);
        weir_fd_forget(fd);
        end();
}

static void
files_and_closed_numbers_are_refused_by_the_first_wait(void)
{
        const struct {
                const char *path;
                int flags;
                const char *what;
        } files[] = {
                {"/proc/self/exe", O_RDONLY, "it is a regular file, which the tasks of weir/file.h read"},
                {"/", O_RDONLY | O_DIRECTORY, "it is a directory"},
                {"/dev/null", O_RDWR, "it is a file that is always ready"},
        };
        const int numbers[] = {1 << 16, 1 << 24, INT_MAX};

        begin();
        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                struct weir_test_record record = {0};
                char expected[256];
                int file = open(files[i].path, files[i].flags | O_CLOEXEC);
                weir_fd *fd = weir_fd_new(file);

                start_readable(fd, &record);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, -EPERM);
                snprintf(expected, sizeof expected,
                         "descriptor %d cannot be waited for: %s: expected a socket, pipe, terminal or the like", file,
                         files[i].what);
                CU_ASSERT_STRING_EQUAL(logged, expected);
                weir_fd_forget(fd);
                close(file);
        }
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                struct weir_test_record record = {0};
                weir_fd *fd = weir_fd_new(numbers[i]);

                start_readable(fd, &record);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, -EBADF);
                weir_fd_forget(fd);
        }
        end();
}

/* -- numbers -- */

/* The first object was closed without a word.  Its number belongs to another file, which another object waits for. */
static void
an_object_whose_descriptor_was_closed_leaves_the_next_one_alone(void)
{
        struct weir_test_record old = {0}, new = {0}, late = {0}, last = {0};
        char byte;

        begin();
        weir_fd *first = weir_fd_new(ends[0]);
        int number = ends[0];
        start_readable(first, &old);
        weir_test_pass(0);
        close_ends();
        open_ends();
        CU_ASSERT_EQUAL(ends[0], number);
        weir_fd *second = weir_fd_new(ends[0]);
        start_readable(second, &new);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&old, -EBADF); /* the object for the same number has told it */
        start_readable(first, &late);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&late, -EBADF);
        put();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&new, 0);
        CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
        start_readable(second, &last);
        weir_test_pass(0);
        weir_fd_forget(first);
        put();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&last, 0);
        weir_fd_forget(second);
        end();
}

/* The same with a source of the library's own: it is no weir_fd. */
static struct source {
        struct weir__source source; /* first */
        unsigned events;
} other;
static uint32_t other_flags; /* 0, or WEIR__EVENT_STEADY */

static void
count_event(struct weir__source *source, uint32_t events)
{
        (void)events;
        ((struct source *)source)->events++;
}

static void
remove_source(struct weir__source *source)
{
        weir__source_remove(weir__poller_at(0), source);
}

static const struct weir__source_ops other_ops = {.ready = count_event, .shutdown = remove_source, .destroy = remove_source};

/* On the owner of the poller. */
static void
add_other(void *unused)
{
        (void)unused;
        other = (struct source){.source = {.ops = &other_ops, .fd = ends[0]}};
        CU_ASSERT_EQUAL(weir__source_add(weir__poller_at(0), &other.source, EPOLLIN | other_flags), 0);
}

static void
a_connection_with_the_number_of_a_closed_descriptor_keeps_its_events(void)
{
        for (unsigned i = 0; i < 4; i++) {
                bool is_forgotten = i % 2;
                struct weir_test_record old = {0}, late = {0};

                other_flags = i / 2 * WEIR__EVENT_STEADY;
                begin();
                weir_fd *first = weir_fd_new(ends[0]);
                start_readable(first, &old);
                weir_test_pass(0);
                close_ends();
                open_ends();
                weir_test_act(0, add_other, NULL);
                weir_test_pass(0);
                if (is_forgotten) {
                        weir_fd_forget(first);
                        weir_test_pass(0);
                } else {
                        start_readable(first, &late);
                        weir_test_pass(0);
                        WEIR_TEST_CALLED(&late, -EBADF);
                }
                WEIR_TEST_CALLED(&old, -EBADF);
                put();
                weir_test_pass(0);
                CU_ASSERT_EQUAL(other.events, 1);
                if (!is_forgotten) {
                        weir_fd_forget(first);
                }
                end();
        }
}

static void
a_descriptor_that_a_connection_has_is_refused(void)
{
        for (unsigned is_steady = 0; is_steady < 2; is_steady++) {
                struct weir_test_record record = {0};

                other_flags = is_steady * WEIR__EVENT_STEADY;
                begin();
                weir_test_act(0, add_other, NULL);
                weir_test_pass(0);
                weir_fd *fd = weir_fd_new(ends[0]);
                start_readable(fd, &record);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, -EEXIST);
                put();
                weir_test_pass(0);
                CU_ASSERT_EQUAL(other.events, 1);
                weir_fd_forget(fd);
                end();
        }
}

/* A cancelled task leaves epoll armed.  The next one asks again all the same, and so finds out. */
static void
a_number_that_was_closed_behind_a_cancelled_task_is_found(void)
{
        struct weir_test_record cancelled = {0}, next = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_test_recorded(weir_fd_readable_new(fd, weir_test_done, &cancelled)));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        close_ends();
        open_ends();
        start_readable(fd, &next);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&next, -EBADF);
        weir_fd_forget(fd);
        end();
}

/* After one second, ten more, and then each hundred. */
static void
one_that_is_waited_for_is_looked_at_again_and_again(void)
{
        struct weir_test_record record = {0};

        open_ends();
        weir_test_begin_real(1);
        weir_fd *fd = weir_fd_new(ends[0]);
        start_readable(fd, &record);
        WEIR_TEST_EVENTUALLY(looks_after_100 >= 5);
        CU_ASSERT_EQUAL(looks_after_10, 1);
        CU_ASSERT_EQUAL(looks_later, 0);
        CU_ASSERT_EQUAL(record.calls, 0);
        syscall(SYS_close, ends[0]); /* ThreadSanitizer would say what the program does wrong here */
        close(ends[1]);
        weir_test_wait_freed(&record);
        WEIR_TEST_CALLED(&record, -EBADF);
        weir_fd_forget(fd);
        weir_test_end();
}

/* -- forgotten by the owner of the poller, in a callback -- */

static weir_fd *of_callback;
static unsigned rounds;

static void
forget_and_wait_for_the_next(weir_task *task, void *unused)
{
        int number = ends[0];

        (void)unused;
        CU_ASSERT_EQUAL(weir_task_status(task), 0);
        weir_fd_forget(of_callback);
        of_callback = NULL;
        close_ends();
        open_ends();
        CU_ASSERT_EQUAL(ends[0], number);
        if (++rounds == 100)
                return;
        put();
        of_callback = weir_fd_new(ends[0]);
        CU_ASSERT_EQUAL(weir_task_start(weir_fd_readable_new(of_callback, forget_and_wait_for_the_next, NULL)), 0);
}

static void
a_callback_forgets_closes_and_waits_for_the_same_number(void)
{
        begin();
        put();
        of_callback = weir_fd_new(ends[0]);
        CU_ASSERT_EQUAL(weir_task_start(weir_fd_readable_new(of_callback, forget_and_wait_for_the_next, NULL)), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(rounds, 100);
        end();
}

static void
forget_it(void *fd)
{
        weir_fd_forget(fd);
        close_ends();
        open_ends();
}

static void
a_callback_ends_the_waits_of_others(void)
{
        struct weir_test_record reader = {0}, writer = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        fill(ends[0]);
        start_readable(fd, &reader);
        start_writable(fd, &writer);
        weir_test_pass(0);
        weir_test_act(0, forget_it, fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&reader, -EBADF);
        WEIR_TEST_CALLED(&writer, -EBADF);
        end();
}

/* -- wakes -- */

/* The poller has not seen the task yet. */
static void
a_wake_reaches_a_task_that_is_on_its_way(void)
{
        struct weir_test_record record = {0}, later = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_wake(fd); /* nobody waits, and nobody ever has */
        start_readable(fd, &record);
        weir_fd_wake(fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, -EINTR);
        start_readable(fd, &later);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(later.calls, 0);
        weir_fd_forget(fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&later, -EBADF);
        end();
}

/* -- a child of fork -- */

static weir_fd *inherited;

static void
wake_and_forget(void)
{
        weir_test_leaks_do_not_count = 1;
        weir_fd_wake(inherited);
        weir_fd_forget(inherited);
}

/* Another thread may have been inside a call at the fork. */
static void
a_child_does_not_wait_for_a_lock_that_its_parent_held(void)
{
        struct weir_test_record record = {0};
        char said[256];

        begin();
        inherited = weir_fd_new(ends[0]);
        start_readable(inherited, &record);
        weir_test_pass(0);
        CU_ASSERT(weir__lock_take(&inherited->lock)); /* as if by another thread: the ranks of this one do not know it */
        CU_ASSERT_EQUAL(weir_test_child(wake_and_forget, said, sizeof said), 0);
        atomic_store(&inherited->lock.is_held, 0);
        put();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        weir_fd_forget(inherited);
        end();
}

/* -- many, made and forgotten by many threads, which use their numbers again at once -- */

#define THREADS 4
#define ROUNDS  25000

static _Atomic unsigned ended, wrong;

static void
count_end(weir_task *task, void *unused)
{
        int status = weir_task_status(task);

        (void)unused;
        if (status != 0 && status != -EBADF && status != -ECANCELED && status != -EINTR && status != -ESHUTDOWN)
                atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&ended, 1);
}

static void *
open_and_close(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < ROUNDS; i++) {
                int number = eventfd(rand_r(&state) % 2, EFD_NONBLOCK | EFD_CLOEXEC);
                weir_fd *fd = weir_fd_new(number);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_fd_readable_new(fd, count_end, NULL));
                weir_series_push(series, weir_fd_readable_new(fd, NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                switch (rand_r(&state) % 4) {
                case 0: weir_series_cancel(series); break;
                case 1: eventfd_write(number, 1); break;
                case 2: weir_fd_wake(fd); break;
                }
                weir_fd_forget(fd);
                close(number);
                weir_series_unref(series);
        }
        return NULL;
}

static void
a_storm_of_opens_and_closes_leaves_nothing_behind(void)
{
        pthread_t threads[THREADS];

        weir_test_begin_real(2); /* each poller keeps a descriptor for the next runtime */
        weir_test_end();
        weir_test_free_kept();
        unsigned before = weir_test_entries_of("/proc/self/fd");
        int64_t bytes = bytes_out;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, open_and_close, (void *)(uintptr_t)(i + 1)), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        weir_test_free_kept();
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(ended > 0);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(epoll_is_asked_once_for_one_that_is_kept),
                WEIR_TEST(a_watch_ends_when_something_comes_and_no_task_waits),
                WEIR_TEST(one_that_is_kept_has_room_and_ends_as_others),
                WEIR_TEST(one_that_is_kept_reports_the_end),
                WEIR_TEST(a_wait_that_epoll_refuses_says_so_and_the_next_one_works),
                WEIR_TEST(a_descriptor_that_epoll_does_not_let_go_is_watched_anew),
                WEIR_TEST(a_task_that_cannot_be_waited_for_any_more_ends),
                WEIR_TEST(shortage_of_memory_is_reported),
                WEIR_TEST(files_and_closed_numbers_are_refused_by_the_first_wait),
                WEIR_TEST(an_object_whose_descriptor_was_closed_leaves_the_next_one_alone),
                WEIR_TEST(a_connection_with_the_number_of_a_closed_descriptor_keeps_its_events),
                WEIR_TEST(a_descriptor_that_a_connection_has_is_refused),
                WEIR_TEST(a_number_that_was_closed_behind_a_cancelled_task_is_found),
                WEIR_TEST(one_that_is_waited_for_is_looked_at_again_and_again),
                WEIR_TEST(a_callback_forgets_closes_and_waits_for_the_same_number),
                WEIR_TEST(a_callback_ends_the_waits_of_others),
                WEIR_TEST(a_wake_reaches_a_task_that_is_on_its_way),
                WEIR_TEST(a_child_does_not_wait_for_a_lock_that_its_parent_held),
                WEIR_TEST(a_storm_of_opens_and_closes_leaves_nothing_behind),
        };

        return weir_test_main("fd_faults", tests, sizeof tests / sizeof *tests);
}
