/* test/sink_test.c: text that is made piece by piece, and where it goes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/observe/sink.h"
#include "test/support.h"

#define BUFFER WEIR__SINK_SIZE

static void
check_holds(const struct weir__memory_sink *sink, const char *text)
{
        CU_ASSERT_EQUAL(sink->size, strlen(text));
        CU_ASSERT_PTR_NOT_NULL_FATAL(sink->bytes);
        CU_ASSERT_STRING_EQUAL(sink->bytes, text);
}

static void
text_goes_to_memory_in_order(void)
{
        struct weir__memory_sink memory;

        weir__memory_sink_init(&memory);
        weir__sink_text(&memory.sink, "one ");
        weir__sink_printf(&memory.sink, "%d %s", 2, "three");
        weir__sink_write(&memory.sink, " four five", 5);
        CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), 0);
        check_holds(&memory, "one 2 three four");
        weir__memory_sink_done(&memory);
}

static void
a_text_longer_than_the_buffer_goes_through_in_parts(void)
{
        struct weir__memory_sink memory;
        char *text = malloc(3 * BUFFER + 2);

        memset(text, 'x', 3 * BUFFER + 1);
        text[3 * BUFFER + 1] = '\0';
        text[BUFFER] = text[2 * BUFFER - 1] = 'y';
        weir__memory_sink_init(&memory);
        weir__sink_text(&memory.sink, text);
        CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), 0);
        check_holds(&memory, text);
        weir__memory_sink_done(&memory);
        free(text);
}

static void
text_printed_at_the_end_of_the_buffer_is_whole(void)
{
        for (size_t before = BUFFER - 8; before <= BUFFER; before++) {
                struct weir__memory_sink memory;
                char text[BUFFER + 8] = {0};

                memset(text, '-', before);
                weir__memory_sink_init(&memory);
                weir__sink_text(&memory.sink, text);
                weir__sink_printf(&memory.sink, "%s%d", "abc", 45);
                strcat(text, "abc45");
                CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), 0);
                check_holds(&memory, text);
                weir__memory_sink_done(&memory);
        }
}

static void
printed_text_may_be_as_long_as_the_buffer_and_no_longer(void)
{
        struct weir__memory_sink memory;
        char text[BUFFER + 1] = {0};

        memset(text, 'x', BUFFER - 1);
        weir__memory_sink_init(&memory);
        weir__sink_text(&memory.sink, "a");
        weir__sink_printf(&memory.sink, "%s", text);
        CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), 0);
        CU_ASSERT_EQUAL(memory.size, BUFFER);
        text[BUFFER - 1] = 'x';
        weir__sink_printf(&memory.sink, "%s", text);
        CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), -EMSGSIZE);
        CU_ASSERT_EQUAL(memory.size, BUFFER);
        weir__memory_sink_done(&memory);
}

static void
any_bytes_become_visible(void)
{
        static const char bytes[] = "a\\b\n\x1b[1m\xff\xc3\xa9\xe2\x82";
        struct weir__memory_sink memory;

        weir__memory_sink_init(&memory);
        weir__sink_visibly(&memory.sink, bytes, sizeof bytes - 1);
        weir__sink_visibly(&memory.sink, "\0", 1);
        CU_ASSERT_EQUAL(weir__sink_flush(&memory.sink), 0);
        check_holds(&memory, "a\\\\b\\x0a\\x1b[1m\\xff\xc3\xa9\\xe2\\x82\\x00");
        weir__memory_sink_done(&memory);
}

static int calls;

static int
fails_twice(struct weir__sink *sink, const char *bytes, size_t size)
{
        (void)sink, (void)bytes, (void)size;
        return calls++ == 0 ? -EIO : -ENOSPC;
}

static void
the_first_error_is_kept_and_ends_it(void)
{
        struct weir__sink sink;

        calls = 0;
        weir__sink_init(&sink, fails_twice);
        weir__sink_text(&sink, "lost");
        CU_ASSERT_EQUAL(weir__sink_flush(&sink), -EIO);
        weir__sink_printf(&sink, "%s", "more");
        weir__sink_text(&sink, "and more");
        CU_ASSERT_EQUAL(weir__sink_flush(&sink), -EIO);
        CU_ASSERT_EQUAL(calls, 1);
}

static void
text_goes_to_a_descriptor(void)
{
        struct weir__fd_sink out;
        int ends[2];
        char read_back[16] = {0};

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        weir__fd_sink_init(&out, ends[1]);
        weir__sink_text(&out.sink, "hello");
        CU_ASSERT_EQUAL(weir__sink_flush(&out.sink), 0);
        CU_ASSERT_EQUAL(read(ends[0], read_back, sizeof read_back - 1), 5);
        CU_ASSERT_STRING_EQUAL(read_back, "hello");
        close(ends[0]);
        close(ends[1]);
}

static void
a_bad_descriptor_is_reported(void)
{
        struct weir__fd_sink out;

        weir__fd_sink_init(&out, -1);
        weir__sink_text(&out.sink, "lost");
        CU_ASSERT_EQUAL(weir__sink_flush(&out.sink), -EBADF);
}

static void
a_pipe_that_nobody_reads_is_an_error_and_no_signal(void)
{
        struct weir__fd_sink out;
        sigset_t pending;
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        close(ends[0]);
        weir__fd_sink_init(&out, ends[1]);
        weir__sink_text(&out.sink, "lost");
        CU_ASSERT_EQUAL(weir__sink_flush(&out.sink), -EPIPE);
        sigpending(&pending);
        CU_ASSERT_FALSE(sigismember(&pending, SIGPIPE));
        close(ends[1]);
}

struct reader {
        int fd;
        size_t count;
        pthread_t thread;
};

static void *
read_all(void *argument)
{
        struct reader *reader = argument;
        char bytes[4096];
        ssize_t count;

        while ((count = read(reader->fd, bytes, sizeof bytes)) > 0)
                reader->count += (size_t)count;
        return NULL;
}

static void
a_full_pipe_that_does_not_block_is_waited_for(void)
{
        struct weir__fd_sink out;
        struct reader reader = {0};
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_NONBLOCK), 0);
        CU_ASSERT_EQUAL_FATAL(fcntl(ends[0], F_SETFL, 0), 0);
        reader.fd = ends[0];
        weir__fd_sink_init(&out, ends[1]);
        for (int i = 0; i < 16; i++) /* 65536 bytes fill it */
                weir__sink_printf(&out.sink, "%*d", BUFFER - 1, i);
        pthread_create(&reader.thread, NULL, read_all, &reader);
        for (int i = 0; i < 240; i++)
                weir__sink_printf(&out.sink, "%*d", BUFFER - 1, i);
        CU_ASSERT_EQUAL(weir__sink_flush(&out.sink), 0);
        close(ends[1]);
        pthread_join(reader.thread, NULL);
        CU_ASSERT_EQUAL(reader.count, 256 * (BUFFER - 1));
        close(ends[0]);
}

static void
a_full_pipe_that_does_not_block_and_stays_full_is_given_up(void)
{
        struct weir__fd_sink out;
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_NONBLOCK), 0);
        weir__fd_sink_init(&out, ends[1]);
        for (int i = 0; i < 32; i++)
                weir__sink_printf(&out.sink, "%*d", BUFFER - 1, i);
        CU_ASSERT_EQUAL(weir__sink_flush(&out.sink), -EAGAIN);
        close(ends[0]);
        close(ends[1]);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(text_goes_to_memory_in_order),
                WEIR_TEST(a_text_longer_than_the_buffer_goes_through_in_parts),
                WEIR_TEST(text_printed_at_the_end_of_the_buffer_is_whole),
                WEIR_TEST(printed_text_may_be_as_long_as_the_buffer_and_no_longer),
                WEIR_TEST(any_bytes_become_visible),
                WEIR_TEST(the_first_error_is_kept_and_ends_it),
                WEIR_TEST(text_goes_to_a_descriptor),
                WEIR_TEST(a_bad_descriptor_is_reported),
                WEIR_TEST(a_pipe_that_nobody_reads_is_an_error_and_no_signal),
                WEIR_TEST(a_full_pipe_that_does_not_block_is_waited_for),
                WEIR_TEST(a_full_pipe_that_does_not_block_and_stays_full_is_given_up),
        };

        return weir_test_main("sink", tests, sizeof tests / sizeof tests[0]);
}
