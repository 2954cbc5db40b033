/* test/fd_test.c: tasks that wait for a descriptor. */
#include "test/blocks_fixture.h"
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "factory/task/task.h"

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

static weir_task *
readable(weir_fd *fd, struct weir_test_record *record)
{
        return weir_test_recorded(weir_fd_readable_new(fd, weir_test_done, record));
}

static weir_task *
writable(weir_fd *fd, struct weir_test_record *record)
{
        return weir_test_recorded(weir_fd_writable_new(fd, weir_test_done, record));
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static void
put(int fd, const char *text)
{
        CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Fills the socket, so that it is not writable. */
static void
fill(int fd)
{
        static const char zeros[4096];

        while (write(fd, zeros, sizeof zeros) > 0) {
        }
}

/* -- ready -- */

static void
a_task_ends_when_there_is_something_to_read(void)
{
        struct weir_test_record record = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        start(readable(fd, &record));
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(record.calls, 0);
        put(ends[1], "x");
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        weir_fd_forget(fd);
        end();
}

static void
a_reader_that_leaves_bytes_is_called_again(void)
{
        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        put(ends[1], "abc");
        for (unsigned i = 0; i < 3; i++) {
                struct weir_test_record record = {0};
                char byte;

                start(readable(fd, &record));
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, 0);
                CU_ASSERT_EQUAL(read(ends[0], &byte, 1), 1);
        }
        struct weir_test_record last = {0};
        start(readable(fd, &last));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(last.calls, 0);
        weir_fd_forget(fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&last, -EBADF);
        end();
}

static void
a_task_ends_when_there_is_room_to_write(void)
{
        struct weir_test_record at_once = {0}, later = {0};
        char room[65536];

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        start(writable(fd, &at_once));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&at_once, 0);
        fill(ends[0]);
        start(writable(fd, &later));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(later.calls, 0);
        while (read(ends[1], room, sizeof room) > 0) {
        }
        weir_test_pass(0);
        WEIR_TEST_CALLED(&later, 0);
        weir_fd_forget(fd);
        end();
}

static void
readers_and_writers_wait_side_by_side(void)
{
        struct weir_test_record readers[3] = {{0}}, writer = {0};
        char room[65536];

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        fill(ends[0]);
        start(writable(fd, &writer));
        for (unsigned i = 0; i < 3; i++) {
                start(readable(fd, &readers[i]));
        }
        weir_test_pass(0);
        put(ends[1], "x");
        weir_test_pass(0);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&readers[i], 0);
        }
        CU_ASSERT_EQUAL(writer.calls, 0);
        while (read(ends[1], room, sizeof room) > 0) {
        }
        weir_test_pass(0);
        WEIR_TEST_CALLED(&writer, 0);
        weir_fd_forget(fd);
        end();
}

static void
the_end_of_the_peer_is_readable(void)
{
        struct weir_test_record reader = {0}, writer = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        fill(ends[0]);
        start(readable(fd, &reader));
        start(writable(fd, &writer));
        weir_test_pass(0);
        close(ends[1]);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&reader, 0);
        WEIR_TEST_CALLED(&writer, 0);
        weir_fd_forget(fd);
        weir_test_end();
        close(ends[0]);
}

static void
urgent_data_is_seen_apart(void)
{
        struct weir_test_record urgent = {0}, reader = {0};
        struct sockaddr_storage name;
        socklen_t size = sizeof name;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        CU_ASSERT_EQUAL_FATAL(connect(client, (struct sockaddr *)&name, size), 0);
        int server = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        weir_test_begin_virtual();
        weir_fd *fd = weir_fd_new(server);
        start(weir_test_recorded(weir_fd_urgent_new(fd, weir_test_done, &urgent)));
        start(readable(fd, &reader));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(send(client, "!", 1, MSG_OOB), 1);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), urgent.calls == 1));
        WEIR_TEST_CALLED(&urgent, 0);
        weir_fd_forget(fd);
        weir_test_end();
        close(server);
        close(client);
        close(listener);
}

/* -- given up -- */

static void
forgotten_ones_end_with_ebadf(void)
{
        struct weir_test_record waiting = {0}, later = {0}, first = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_task *made = readable(fd, &later);
        start(readable(fd, &waiting));
        weir_test_pass(0);
        weir_fd_forget(fd);
        start(made);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&waiting, -EBADF);
        WEIR_TEST_CALLED(&later, -EBADF);
        fd = weir_fd_new(ends[0]);
        weir_fd_forget(fd); /* nobody has waited */
        fd = weir_fd_new(ends[0]);
        start(readable(fd, &first)); /* on its way */
        weir_fd_forget(fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&first, -EBADF);
        weir_fd_forget(NULL);
        weir_fd_wake(NULL);
        end();
}

/* The number of a descriptor that was forgotten and closed may be another file's at once.  Its events are its own. */
static void
a_number_that_is_used_again_has_no_events_of_the_other_file(void)
{
        begin();
        for (unsigned i = 0; i < 100; i++) {
                struct weir_test_record old = {0}, new = {0};
                weir_fd *fd = weir_fd_new(ends[0]);
                int number = ends[0];

                start(readable(fd, &old));
                weir_test_pass(0);
                put(ends[1], "x"); /* perhaps its event is on its way */
                weir_fd_forget(fd);
                close_ends();
                open_ends();
                CU_ASSERT_EQUAL(ends[0], number);
                fd = weir_fd_new(ends[0]);
                start(readable(fd, &new));
                weir_test_pass(0);
                CU_ASSERT_EQUAL(old.calls, 1);
                CU_ASSERT_EQUAL(new.calls, 0);
                put(ends[1], "y");
                weir_test_pass(0);
                WEIR_TEST_CALLED(&new, 0);
                weir_fd_forget(fd);
        }
        end();
}

/* Closed without a word: the next task finds out, also when the number is another file's now. */
static void
a_number_that_was_closed_is_found_by_the_next_task(void)
{
        for (unsigned is_used_again = 0; is_used_again < 2; is_used_again++) {
                struct weir_test_record first = {0}, second = {0}, third = {0};

                begin();
                weir_fd *fd = weir_fd_new(ends[0]);
                start(readable(fd, &first));
                weir_test_pass(0);
                close_ends();
                if (is_used_again) {
                        open_ends();
                }
                start(writable(fd, &second));
                weir_test_pass(0);
                WEIR_TEST_CALLED(&first, -EBADF);
                WEIR_TEST_CALLED(&second, -EBADF);
                start(readable(fd, &third));
                weir_test_pass(0);
                WEIR_TEST_CALLED(&third, -EBADF);
                weir_fd_forget(fd);
                weir_test_end();
                if (is_used_again) {
                        close_ends();
                }
        }
}

/* On the real clock a task that waits is looked after. */
static void
one_that_is_closed_under_a_task_ends_it_within_a_second_or_so(void)
{
        struct weir_test_record record = {0};
        weir_nsec began = weir_test_now();

        open_ends();
        weir_test_begin_real(2);
        weir_fd *fd = weir_fd_new(ends[0]);
        start(readable(fd, &record));
        weir_test_sleep(1000000);
        syscall(SYS_close, ends[0]); /* ThreadSanitizer would say what the program does wrong here */
        close(ends[1]);
        weir_test_wait_freed(&record);
        WEIR_TEST_CALLED(&record, -EBADF);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        weir_fd_forget(fd);
        weir_test_end();
}

static void
woken_ones_end_with_eintr(void)
{
        struct weir_test_record reader = {0}, writer = {0}, again = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_wake(fd);
        fill(ends[0]);
        start(readable(fd, &reader));
        start(writable(fd, &writer));
        weir_test_pass(0);
        weir_fd_wake(fd);
        weir_fd_wake(fd);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&reader, -EINTR);
        WEIR_TEST_CALLED(&writer, -EINTR);
        put(ends[1], "x");
        start(readable(fd, &again));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&again, 0);
        weir_fd_forget(fd);
        end();
}

/* -- early ends -- */

static void
a_cancel_and_a_deadline_reach_it(void)
{
        struct weir_test_record records[3] = {{0}};

        begin();
        weir_nsec began = weir_now();
        weir_fd *fd = weir_fd_new(ends[0]);
        for (unsigned i = 0; i < 3; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, readable(fd, &records[i]));
                if (i == 0) {
                        weir_series_cancel(series); /* before the start */
                } else if (i == 1) {
                        weir_series_set_deadline(series, WEIR_SEC(1));
                }
                weir_series_start(series);
                weir_test_pass(0);
                if (i == 2) {
                        weir_series_cancel(series);
                }
                weir_test_pass(WEIR_SEC(1));
                weir_series_unref(series);
        }
        WEIR_TEST_NOT_CALLED(&records[0]); /* it never began */
        WEIR_TEST_CALLED(&records[1], -ETIMEDOUT);
        CU_ASSERT_EQUAL(records[1].at - began, WEIR_SEC(2));
        WEIR_TEST_CALLED(&records[2], -ECANCELED);
        put(ends[1], "x"); /* nobody waits */
        weir_test_pass(0);
        weir_fd_forget(fd);
        end();
}

/* In a callback, so that the event is behind it. */
static void
put_and_cancel(void *series)
{
        put(ends[1], "x");
        weir_series_cancel(series);
}

static void
a_cancel_that_comes_with_the_event_is_decisive(void)
{
        struct weir_test_record record = {0};

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, readable(fd, &record));
        weir_series_start(series);
        weir_test_pass(0);
        weir_test_act(0, put_and_cancel, series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        weir_series_unref(series);
        weir_fd_forget(fd);
        end();
}

static void
shutdown_ends_it_and_the_object_serves_the_next_runtime(void)
{
        struct weir_test_record first = {0}, second = {0};

        open_ends();
        weir_fd *fd = weir_fd_new(ends[0]); /* before the runtime */
        weir_test_begin_real(2);
        start(readable(fd, &first));
        weir_test_sleep(1000000);
        weir_test_end();
        WEIR_TEST_CALLED(&first, -ESHUTDOWN);
        weir_test_begin_real(1);
        start(readable(fd, &second));
        put(ends[1], "x");
        weir_test_wait_freed(&second);
        WEIR_TEST_CALLED(&second, 0);
        weir_test_end();
        weir_fd_forget(fd); /* behind the runtime */
        close_ends();
}

/* -- refused -- */

static void
what_is_no_descriptor_is_refused(void)
{
        struct weir_test_record record = {0};

        begin();
        CU_ASSERT(!weir_fd_new(-1) && errno == EBADF);
        CU_ASSERT_EQUAL(weir_task_start(readable(NULL, &record)), -EBADF);
        WEIR_TEST_NOT_CALLED(&record);
        end();
}

static void
a_second_object_is_refused_on_the_same_poller(void)
{
        struct weir_test_record first = {0}, second = {0};

        begin(); /* it has one poller */
        weir_fd *one = weir_fd_new(ends[0]), *other = weir_fd_new(ends[0]);
        start(readable(one, &first));
        start(readable(other, &second));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(first.calls, 0);
        WEIR_TEST_CALLED(&second, -EEXIST);
        weir_fd_forget(other);
        put(ends[1], "x");
        weir_test_pass(0);
        WEIR_TEST_CALLED(&first, 0);
        weir_fd_forget(one);
        end();
}

static void
forget_twice(void)
{
        weir_fd *fd = weir_fd_new(STDERR_FILENO);
        weir_task *task = weir_fd_readable_new(fd, NULL, NULL);

        weir_fd_forget(fd);
        weir_task_dismiss(task);
        weir_fd_forget(fd);
}

static void
forgetting_twice_aborts(void)
{
        if (!WEIR_TEST_SANITIZED) { /* which reports it in its own way */
                weir_test_aborts(forget_twice, "weir_fd_forget: no reference is left");
        }
}

/* -- a child of fork -- */

static void
forget_in_a_child(void)
{
        CU_ASSERT(!weir_fd_new(ends[0]) && errno == ECHILD);
}

static weir_fd *inherited;

static void
forget_the_parents(void)
{
        weir_test_leaks_do_not_count = 1;
        forget_in_a_child();
        weir_fd_forget(inherited);
}

/* Parent and child share the epoll: what the child forgets the parent still waits for. */
static void
a_child_takes_nothing_from_its_parent(void)
{
        struct weir_test_record record = {0};
        char said[256];

        begin();
        inherited = weir_fd_new(ends[0]);
        start(readable(inherited, &record));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_child(forget_the_parents, said, sizeof said), 0);
        put(ends[1], "x");
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        weir_fd_forget(inherited);
        end();
}

/* -- seen -- */

static void
a_dump_says_what_it_waits_for(void)
{
        struct weir_test_record record = {0};
        char text[4096] = "", expected[64];
        int file = memfd_create("dump", MFD_CLOEXEC);

        begin();
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, readable(fd, &record));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(file), 0);
        CU_ASSERT(pread(file, text, sizeof text - 1, 0) > 0);
        close(file);
        snprintf(expected, sizeof expected, "descriptor %d to be readable", ends[0]);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        weir_fd_forget(fd);
        end();
        WEIR_TEST_CALLED(&record, -EBADF);
}

/* -- many, on many threads -- */

#define PAIRS   16
#define THREADS 4
#define ROUNDS  25000

static int pairs[PAIRS][2];
static weir_fd *objects[PAIRS];
static _Atomic unsigned started, ended;

static void
count_end(weir_task *task, void *unused)
{
        int status = weir_task_status(task);

        (void)unused;
        CU_ASSERT(status == 0 || status == -EINTR || status == -EBADF || status == -ECANCELED || status == -ESHUTDOWN);
        atomic_fetch_add(&ended, 1);
}

static void *
meddle(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < ROUNDS; i++) {
                unsigned pair = (unsigned)rand_r(&state) % PAIRS;
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                char byte = 0;

                weir_series_push(series, rand_r(&state) % 4 ? weir_fd_readable_new(objects[pair], count_end, NULL)
                                                            : weir_fd_writable_new(objects[pair], count_end, NULL));
                atomic_fetch_add(&started, 1);
                weir_series_start(series);
                switch (rand_r(&state) % 4) {
                case 0: weir_series_cancel(series); break;
                case 1: (void)!write(pairs[pair][1], &byte, 1); break;
                case 2: (void)!read(pairs[pair][0], &byte, 1); break;
                case 3: weir_fd_wake(objects[pair]); break;
                }
                weir_series_unref(series);
        }
        return NULL;
}

static void
a_storm_leaves_nothing_behind(void)
{
        pthread_t threads[THREADS];

        weir_test_begin_real(2);
        weir_test_end(); /* the eventfds of two pollers stay */
        weir_test_free_kept();
        unsigned before = weir_test_entries_of("/proc/self/fd");
        int64_t bytes = bytes_out;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < PAIRS; i++) {
                CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pairs[i]), 0);
                objects[i] = weir_fd_new(pairs[i][0]);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, meddle, (void *)(uintptr_t)(i + 1)), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
        for (unsigned i = 0; i < PAIRS; i++) {
                weir_fd_forget(objects[i]);
                close(pairs[i][0]);
                close(pairs[i][1]);
        }
        weir_test_end();
        weir_test_free_kept();
        CU_ASSERT_EQUAL(started, THREADS * ROUNDS);
        CU_ASSERT_EQUAL(ended, started);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_task_ends_when_there_is_something_to_read),
                WEIR_TEST(a_reader_that_leaves_bytes_is_called_again),
                WEIR_TEST(a_task_ends_when_there_is_room_to_write),
                WEIR_TEST(readers_and_writers_wait_side_by_side),
                WEIR_TEST(the_end_of_the_peer_is_readable),
                WEIR_TEST(urgent_data_is_seen_apart),
                WEIR_TEST(forgotten_ones_end_with_ebadf),
                WEIR_TEST(a_number_that_is_used_again_has_no_events_of_the_other_file),
                WEIR_TEST(a_number_that_was_closed_is_found_by_the_next_task),
                WEIR_TEST(one_that_is_closed_under_a_task_ends_it_within_a_second_or_so),
                WEIR_TEST(woken_ones_end_with_eintr),
                WEIR_TEST(a_cancel_and_a_deadline_reach_it),
                WEIR_TEST(a_cancel_that_comes_with_the_event_is_decisive),
                WEIR_TEST(shutdown_ends_it_and_the_object_serves_the_next_runtime),
                WEIR_TEST(what_is_no_descriptor_is_refused),
                WEIR_TEST(a_second_object_is_refused_on_the_same_poller),
                WEIR_TEST(forgetting_twice_aborts),
                WEIR_TEST(a_child_takes_nothing_from_its_parent),
                WEIR_TEST(a_dump_says_what_it_waits_for),
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        return weir_test_main("fd", tests, sizeof tests / sizeof *tests);
}
