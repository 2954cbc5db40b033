/* test/stream_test.c: streams that are no sockets, and the SIGPIPE of writes that nobody reads. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/sendfile.h>

#include <weir/runtime.h>
#include <weir/timer.h>

#include "kernel/socket/stream.h"
#include "test/support.h"

static char buffer[4096];

/* -- system calls, which the linker replaces (test/CMakeLists.txt) -- */

static _Thread_local int refusal; /* errno of the thread's next call; 0: it is the system's */

ssize_t __real_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __wrap_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);
ssize_t __real_writev(int fd, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int fd, const struct iovec *pieces, int count);

static bool
fails(void)
{
        errno = refusal;
        refusal = 0;
        return errno != 0;
}

ssize_t
__wrap_sendfile(int to, int from, off_t *offset, size_t size)
{
        return fails() ? -1 : __real_sendfile(to, from, offset, size);
}

ssize_t
__wrap_read(int fd, void *data, size_t size)
{
        return fails() ? -1 : __real_read(fd, data, size);
}

ssize_t
__wrap_writev(int fd, const struct iovec *pieces, int count)
{
        return fails() ? -1 : __real_writev(fd, pieces, count);
}

/* -- streams -- */

struct ends {
        struct weir__stream in, out;
};

static struct ends
make_pipe(void)
{
        struct ends ends = {0};
        int fds[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
        weir__stream_adopt(&ends.in, fds[0]);
        weir__stream_adopt(&ends.out, fds[1]);
        CU_ASSERT_TRUE(ends.in.source.is_pipe && ends.out.source.is_pipe);
        return ends;
}

static ssize_t
write_text(struct weir__stream *stream, const char *text)
{
        struct iovec pieces[2] = {{(char *)text, 1}, {(char *)text + 1, strlen(text) - 1}};

        return weir__stream_write(stream, pieces, 2);
}

static int
text_file(const char *text)
{
        char path[] = "/tmp/weir-stream-XXXXXX";
        int file = mkstemp(path);

        CU_ASSERT_FATAL(file >= 0);
        unlink(path);
        CU_ASSERT_EQUAL(write(file, text, strlen(text)), (ssize_t)strlen(text));
        return file;
}

static void
a_pipe_is_read_and_written(void)
{
        struct ends ends = make_pipe();

        CU_ASSERT_EQUAL(weir__stream_handshake(&ends.in), 0);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), -EAGAIN);
        CU_ASSERT_EQUAL(weir__stream_peek(&ends.in), -EAGAIN);
        CU_ASSERT_EQUAL(write_text(&ends.out, "hello"), 5);
        CU_ASSERT(weir__stream_peek(&ends.in) > 0);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, 3), 3);
        CU_ASSERT_TRUE(weir__stream_may_have_more(&ends.in, 3, 3));
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer + 3, 10), 2);
        CU_ASSERT_EQUAL(memcmp(buffer, "hello", 5), 0);
        weir__stream_probe(&ends.out);
        CU_ASSERT_EQUAL(weir__stream_untaken(&ends.out) + weir__stream_unsent(&ends.out) + weir__stream_held(&ends.out), 0);
        weir__stream_finish(&ends.out); /* a pipe has one direction, and ends with its close */
        CU_ASSERT_EQUAL(weir__stream_peek(&ends.in), -EAGAIN);
        CU_ASSERT_EQUAL(write_text(&ends.out, "last"), 4);
        weir__stream_close(&ends.out);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 4);
        CU_ASSERT_EQUAL(weir__stream_peek(&ends.in), 0);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 0);
        weir__stream_break(&ends.in);
        CU_ASSERT_EQUAL(ends.in.source.fd, -1);
        ends.in.source.fd = 1000000;
        CU_ASSERT_EQUAL(weir__stream_peek(&ends.in), -EBADF);
}

static void
a_full_pipe_takes_no_more(void)
{
        struct ends ends = make_pipe();
        static char block[300000];
        struct iovec piece = {block, sizeof block};
        ssize_t written = weir__stream_write(&ends.out, &piece, 1);

        CU_ASSERT(written > 0 && written < (ssize_t)sizeof block);
        CU_ASSERT_EQUAL(weir__stream_write(&ends.out, &piece, 1), -EAGAIN);
        weir__stream_close(&ends.in);
        weir__stream_close(&ends.out);
}

static void
a_file_goes_into_a_pipe(void)
{
        int file = text_file("0123456789");
        struct ends ends = make_pipe();

        for (unsigned i = 0; i < 2; i++) {
                refusal = i ? EINVAL : 0; /* as some terminals say */
                CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 2, 5), 5);
                CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 5);
                CU_ASSERT_EQUAL(memcmp(buffer, "23456", 5), 0);
        }
        CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 10, 5), 0);
        close(file);
        weir__stream_close(&ends.in);
        weir__stream_close(&ends.out);
}

static void
a_terminal_is_read_and_written(void)
{
        struct ends ends = {0};
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

        CU_ASSERT_FATAL(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
        weir__stream_adopt(&ends.in, master);
        weir__stream_adopt(&ends.out, open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
        CU_ASSERT_TRUE(ends.in.source.is_pipe && ends.out.source.is_pipe);
        CU_ASSERT_EQUAL(write_text(&ends.out, "prompt"), 6);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 6);
        CU_ASSERT_EQUAL(memcmp(buffer, "prompt", 6), 0);
        CU_ASSERT_EQUAL(write_text(&ends.in, "answer\n"), 7);
        CU_ASSERT(weir__stream_peek(&ends.out) > 0);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.out, buffer, sizeof buffer), 7);
        CU_ASSERT_EQUAL(memcmp(buffer, "answer\n", 7), 0);
        while (weir__stream_read(&ends.in, buffer, sizeof buffer) > 0) {
        }
        weir__stream_close(&ends.out);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), -EIO);
        weir__stream_close(&ends.in);
}

static void
a_socket_is_none(void)
{
        struct ends ends = {0};
        int fds[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        weir__stream_adopt(&ends.in, fds[0]);
        weir__stream_adopt(&ends.out, fds[1]);
        CU_ASSERT_FALSE(ends.in.source.is_pipe || ends.out.source.is_pipe);
        CU_ASSERT_EQUAL(write_text(&ends.out, "hello"), 5);
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 5);
        weir__stream_close(&ends.in);
        weir__stream_close(&ends.out);
}

static void
calls_that_fail_are_reported_or_repeated(void)
{
        static const int errors[] = {EIO, ENOMEM, ENOSPC};
        struct ends ends = make_pipe();
        int file = text_file("text");

        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                refusal = errors[i];
                CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, 1), -errors[i]);
                refusal = errors[i];
                CU_ASSERT_EQUAL(write_text(&ends.out, "text"), -errors[i]);
                refusal = errors[i];
                CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 0, 4), -errors[i]);
        }
        refusal = EINTR;
        CU_ASSERT_EQUAL(write_text(&ends.out, "text"), 4);
        refusal = EINTR;
        CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 0, 4), 4);
        refusal = EINTR;
        CU_ASSERT_EQUAL(weir__stream_read(&ends.in, buffer, sizeof buffer), 8);
        close(file);
        weir__stream_close(&ends.in);
        weir__stream_close(&ends.out);
}

/* -- SIGPIPE, on a thread of the library, which blocks it -- */

static bool
is_pending(void)
{
        sigset_t pending;

        return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE);
}

static void
write_to_nobody(void)
{
        struct ends ends = make_pipe();
        int file = text_file("text"), fds[2];

        weir__stream_close(&ends.in);
        CU_ASSERT_EQUAL(write_text(&ends.out, "lost"), -EPIPE);
        CU_ASSERT_FALSE(is_pending());
        CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 0, 4), -EPIPE);
        CU_ASSERT_FALSE(is_pending());
        weir__stream_close(&ends.out);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        close(fds[0]);
        weir__stream_adopt(&ends.out, fds[1]);
        CU_ASSERT_EQUAL(write_text(&ends.out, "lost"), -EPIPE);
        CU_ASSERT_EQUAL(weir__stream_write_file(&ends.out, file, 0, 4), -EPIPE);
        CU_ASSERT_FALSE(is_pending());
        weir__stream_close(&ends.out);
        close(file);
}

static void
write_on_worker(weir_task *task, void *done)
{
        sigset_t blocked;

        (void)task;
        CU_ASSERT_EQUAL(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
        CU_ASSERT(sigismember(&blocked, SIGPIPE));
        write_to_nobody();
        weir_test_latch_count_down(done);
}

static void
a_write_that_nobody_reads_leaves_no_signal(void)
{
        struct weir_test_latch done = WEIR_TEST_LATCH(1);

        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, write_on_worker, &done)), 0);
        weir_test_latch_wait(&done);
        weir_shutdown();
}

/* The program's own SIGPIPE, which it waits for, is not taken for ours. */
static void
a_signal_of_the_program_stays(void)
{
        const struct timespec at_once = {0};
        sigset_t pipe, before;

        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, &before);
        kill(getpid(), SIGPIPE);
        struct ends ends = make_pipe();
        weir__stream_close(&ends.in);
        CU_ASSERT_EQUAL(write_text(&ends.out, "lost"), -EPIPE);
        CU_ASSERT_TRUE(is_pending());
        CU_ASSERT_EQUAL(sigtimedwait(&pipe, NULL, &at_once), SIGPIPE);
        CU_ASSERT_FALSE(is_pending());
        weir__stream_close(&ends.out);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_pipe_is_read_and_written),
                WEIR_TEST(a_full_pipe_takes_no_more),
                WEIR_TEST(a_file_goes_into_a_pipe),
                WEIR_TEST(a_terminal_is_read_and_written),
                WEIR_TEST(a_socket_is_none),
                WEIR_TEST(calls_that_fail_are_reported_or_repeated),
                WEIR_TEST(a_write_that_nobody_reads_leaves_no_signal),
                WEIR_TEST(a_signal_of_the_program_stays),
        };

        return weir_test_main("stream", tests, sizeof tests / sizeof *tests);
}
