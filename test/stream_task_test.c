/* test/stream_task_test.c: tasks that read and write streams. */
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "factory/task/task.h"

static int peer; /* the other end of `stream`, of the test */
static weir_stream *stream;

static void
begin(void)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_begin_virtual();
        peer = ends[1];
        CU_ASSERT_EQUAL(fcntl(peer, F_SETFL, O_NONBLOCK), 0);
        stream = weir_stream_of(ends[0]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
}

static void
end(void)
{
        weir_stream_unref(stream);
        weir_test_end();
        close(peer);
}

static void
put(const char *text)
{
        CU_ASSERT_EQUAL(write(peer, text, strlen(text)), (ssize_t)strlen(text));
}

/* What has come at the other end by now; "" when there is nothing, "<end>" at the end. */
static const char *
got(void)
{
        static char text[65536];
        ssize_t count = read(peer, text, sizeof text - 1);

        if (count <= 0)
                return count == 0 ? "<end>" : "";
        text[count] = '\0';
        return text;
}

/* -- tasks that record what they saw -- */

struct seen {
        struct weir_test_record record;
        char text[4096];
        size_t size;
};

static void
see(weir_task *read, void *context)
{
        struct seen *seen = context;
        const char *data = weir_stream_data(read, &seen->size);

        CU_ASSERT_EQUAL(data[seen->size], '\0');
        snprintf(seen->text, sizeof seen->text, "%s", data);
        weir_test_note(&seen->record, weir_task_status(read));
}

static weir_task *
read_into(struct seen *seen, size_t least, size_t most)
{
        return weir_test_recorded(weir_stream_read_new(stream, least, most, see, seen));
}

static weir_task *
line_into(struct seen *seen, size_t most)
{
        return weir_test_recorded(weir_stream_read_until_new(stream, "\r\n", 2, most, see, seen));
}

static weir_task *
write_of(const char *text, struct weir_test_record *record)
{
        return weir_test_recorded(weir_stream_write_new(stream, text, strlen(text), weir_test_done, record));
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static void
go(weir_task *task)
{
        start(task);
        weir_test_pass(0);
}

#define SAW(seen, status_, text_)                              \
        do {                                                   \
                WEIR_TEST_CALLED(&(seen)->record, status_);    \
                CU_ASSERT_STRING_EQUAL((seen)->text, (text_)); \
        } while (0)

/* -- reading -- */

static void
a_read_ends_as_soon_as_there_is_the_least(void)
{
        struct seen first = {0}, second = {0}, third = {0};

        begin();
        go(read_into(&first, 3, 5));
        put("ab");
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(first.record.calls, 0);
        put("cdefg");
        weir_test_pass(0);
        SAW(&first, 0, "abcde");
        go(read_into(&second, 1, 100));
        SAW(&second, 0, "fg");
        put("hi");
        weir_test_pass(0);
        go(read_into(&third, 1, 1));
        SAW(&third, 0, "h");
        end();
}

static void
reset_behind_bytes(void *unused)
{
        const struct linger reset = {.l_onoff = 1};

        (void)unused;
        put("abc");
        CU_ASSERT_EQUAL(setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        close(peer);
}

/* The event says so once, and the bytes before it come first. */
static void
a_reset_behind_bytes_is_seen_by_the_next_read(void)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        struct seen first = {0}, second = {0};
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&name, size), 0);
        peer = accept(listener, NULL, NULL);
        close(listener);
        weir_test_begin_virtual();
        stream = weir_stream_of(fd);
        go(read_into(&first, 1, 100));
        weir_test_act(0, reset_behind_bytes, NULL); /* so that the poller sees both at once */
        weir_test_pass(0);
        SAW(&first, 0, "abc");
        go(read_into(&second, 1, 100));
        SAW(&second, -ECONNRESET, "");
        peer = dup(0);
        end();
}

static void
what_no_task_wants_stays_in_the_socket(void)
{
        struct seen seen = {0};
        int left = -1;

        begin();
        put("0123456789");
        go(read_into(&seen, 1, 4));
        SAW(&seen, 0, "0123");
        CU_ASSERT_EQUAL(ioctl(peer, TIOCOUTQ, &left), 0); /* Unix sockets count by buffers: some is left */
        CU_ASSERT(left > 0);
        end();
}

static void
reads_go_in_the_order_of_their_starts(void)
{
        struct seen seen[3] = {{.size = 0}};

        begin();
        for (unsigned i = 0; i < 3; i++)
                start(read_into(&seen[i], 2, 2));
        weir_test_pass(0);
        put("abcde");
        weir_test_pass(0);
        SAW(&seen[0], 0, "ab");
        SAW(&seen[1], 0, "cd");
        CU_ASSERT_EQUAL(seen[2].record.calls, 0);
        put("f");
        weir_test_pass(0);
        SAW(&seen[2], 0, "ef");
        end();
}

static void
lines_are_read_one_by_one(void)
{
        struct seen seen[4] = {{.size = 0}};

        begin();
        put("one\r\ntwo\r\nthr");
        go(line_into(&seen[0], 100));
        SAW(&seen[0], 0, "one\r\n");
        go(line_into(&seen[1], 100));
        SAW(&seen[1], 0, "two\r\n");
        go(line_into(&seen[2], 100));
        CU_ASSERT_EQUAL(seen[2].record.calls, 0);
        put("ee\r");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(seen[2].record.calls, 0);
        put("\nfour");
        weir_test_pass(0);
        SAW(&seen[2], 0, "three\r\n");
        go(read_into(&seen[3], 1, 100));
        SAW(&seen[3], 0, "four");
        end();
}

#define LONG 4000

static _Atomic size_t looked_at; /* bytes, for delimiters */

void *__real_memmem(const void *bytes, size_t size, const void *part, size_t part_size);
void *__wrap_memmem(const void *bytes, size_t size, const void *part, size_t part_size);

void *
__wrap_memmem(const void *bytes, size_t size, const void *part, size_t part_size)
{
        looked_at += size;
        return __real_memmem(bytes, size, part, part_size);
}

/* Else each byte would cost as much as all before it. */
static void
bytes_are_searched_once_however_they_come(void)
{
        struct seen line = {0}, rest = {0};

        begin();
        looked_at = 0;
        start(line_into(&line, 2 * LONG));
        for (unsigned i = 0; i < LONG; i++) {
                put(i % 2 ? "a" : "\r");
                weir_test_pass(0);
        }
        put("\r");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(line.record.calls, 0);
        CU_ASSERT(looked_at >= LONG && looked_at <= 6 * LONG);
        put("\nrest");
        weir_test_pass(0);
        WEIR_TEST_CALLED(&line.record, 0);
        CU_ASSERT_EQUAL(line.size, LONG + 2);
        go(read_into(&rest, 4, 4));
        SAW(&rest, 0, "rest");
        end();
}

/* What is behind a delimiter is moved for each line, so it must be little. */
static void
many_lines_are_left_in_the_socket(void)
{
        struct seen line = {0};
        int number = -1, left = 0;
        char text[4000];

        begin();
        int ends[2];
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        number = dup(ends[0]);
        weir_stream *own = weir_stream_of(ends[0]);
        for (size_t i = 0; i < sizeof text; i++)
                text[i] = i % 4 < 2 ? 'x' : i % 4 == 2 ? '\r' : '\n';
        for (unsigned i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(write(ends[1], text, sizeof text), (ssize_t)sizeof text);
        go(weir_test_recorded(weir_stream_read_until_new(own, "\r\n", 2, 100, see, &line)));
        SAW(&line, 0, "xx\r\n");
        CU_ASSERT_EQUAL(ioctl(number, FIONREAD, &left), 0);
        CU_ASSERT(left >= 30000);
        weir_stream_unref(own);
        close(ends[1]);
        close(number);
        end();
}

static void
a_delimiter_that_does_not_come_is_an_error_and_nothing_is_lost(void)
{
        struct seen line = {0}, exact = {0}, rest = {0};

        begin();
        go(line_into(&line, 8));
        put("01234567");
        weir_test_pass(0);
        SAW(&line, -EMSGSIZE, "");
        go(read_into(&rest, 8, 8));
        SAW(&rest, 0, "01234567");
        put("012345\r\n");
        go(line_into(&exact, 8));
        SAW(&exact, 0, "012345\r\n");
        end();
}

static void
the_end_is_epipe_with_what_came_before(void)
{
        struct seen part = {0}, later = {0}, line = {0};

        begin();
        go(read_into(&part, 10, 10));
        put("abc");
        CU_ASSERT_EQUAL(shutdown(peer, SHUT_WR), 0);
        weir_test_pass(0);
        SAW(&part, -EPIPE, "abc");
        go(read_into(&later, 1, 10));
        SAW(&later, -EPIPE, "");
        go(line_into(&line, 10));
        SAW(&line, -EPIPE, "");
        struct weir_test_record written = {0};
        go(write_of("still", &written)); /* our side goes on */
        WEIR_TEST_CALLED(&written, 0);
        CU_ASSERT_STRING_EQUAL(got(), "still");
        end();
}

static void
a_megabyte_comes_whole(void)
{
        enum { SIZE = 1 << 20 };
        struct seen seen = {0};
        char *bytes = malloc(SIZE);

        begin();
        for (size_t i = 0; i < SIZE; i++)
                bytes[i] = (char)('a' + i % 26);
        go(read_into(&seen, SIZE, SIZE));
        for (size_t sent = 0; sent < SIZE;) {
                ssize_t count = write(peer, bytes + sent, SIZE - sent);

                sent += count > 0 ? (size_t)count : 0;
                weir_test_pass(0);
        }
        WEIR_TEST_CALLED(&seen.record, 0);
        CU_ASSERT_EQUAL(seen.size, SIZE);
        CU_ASSERT_NSTRING_EQUAL(seen.text, bytes, sizeof seen.text - 1);
        free(bytes);
        end();
}

/* -- writing -- */

static void
writes_go_out_in_the_order_of_their_starts(void)
{
        struct weir_test_record records[4] = {{0}};
        const struct iovec pieces[] = {{(void *)"x", 1}, {NULL, 0}, {(void *)"yz", 2}};

        begin();
        start(write_of("a", &records[0]));
        start(write_of("", &records[1]));
        start(weir_test_recorded(weir_stream_write_pieces_new(stream, pieces, 3, weir_test_done, &records[2])));
        start(weir_test_recorded(weir_stream_write_lent_new(stream, "lent", 4, weir_test_done, &records[3])));
        weir_test_pass(0);
        for (unsigned i = 0; i < 4; i++)
                WEIR_TEST_CALLED(&records[i], 0);
        CU_ASSERT_STRING_EQUAL(got(), "axyzlent");
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), 0);
        end();
}

/* The peer reads nothing: a write waits, and is taken back by a cancel if none of it is out. */
static void
a_peer_that_does_not_read_makes_writes_wait(void)
{
        struct weir_test_record large = {0}, behind = {0}, last = {0};
        size_t size = 4 << 20, seen = 0;
        char *bytes = calloc(1, size);

        begin();
        start(weir_test_recorded(weir_stream_write_new(stream, bytes, size, weir_test_done, &large)));
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, write_of("behind", &behind));
        weir_series_start(series);
        start(write_of("last", &last));
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(large.calls + behind.calls + last.calls, 0);
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), size + 10);
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&behind, -ECANCELED);
        weir_series_unref(series);
        while (large.calls == 0 || last.calls == 0) {
                ssize_t count = read(peer, bytes, size);

                seen += count > 0 ? (size_t)count : 0;
                weir_test_pass(0);
        }
        WEIR_TEST_CALLED(&large, 0);
        WEIR_TEST_CALLED(&last, 0);
        for (ssize_t count; (count = read(peer, bytes, size)) > 0;)
                seen += (size_t)count;
        CU_ASSERT_EQUAL(seen, size + 4);
        free(bytes);
        end();
}

static void
a_write_that_is_half_out_breaks_the_stream_when_it_is_cancelled(void)
{
        struct weir_test_record large = {0}, behind = {0};
        struct seen seen = {0};
        size_t size = 4 << 20;
        char *bytes = calloc(1, size);

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_test_recorded(weir_stream_write_new(stream, bytes, size, weir_test_done, &large)));
        weir_series_start(series);
        start(write_of("behind", &behind));
        start(read_into(&seen, 1, 1));
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&large, -ECANCELED);
        WEIR_TEST_CALLED(&behind, -ECONNABORTED);
        SAW(&seen, -ECONNABORTED, "");
        weir_series_unref(series);
        free(bytes);
        end();
}

static void
a_finish_ends_our_side_behind_what_was_written(void)
{
        struct weir_test_record written = {0}, finished = {0}, late = {0};
        struct seen seen = {0};

        begin();
        start(write_of("bye", &written));
        start(weir_test_recorded(weir_stream_finish_new(stream, weir_test_done, &finished)));
        start(write_of("late", &late));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&written, 0);
        WEIR_TEST_CALLED(&finished, 0);
        WEIR_TEST_CALLED(&late, -EPIPE);
        CU_ASSERT_STRING_EQUAL(got(), "bye");
        CU_ASSERT_STRING_EQUAL(got(), "<end>");
        put("answer");
        go(read_into(&seen, 6, 6));
        SAW(&seen, 0, "answer");
        end();
}

static void
a_peer_that_has_gone_ends_writes_with_epipe(void)
{
        struct weir_test_record records[2] = {{0}};

        begin();
        close(peer);
        go(write_of("x", &records[0]));
        go(write_of("y", &records[1]));
        CU_ASSERT(records[0].status == -EPIPE || records[0].status == -ECONNRESET);
        CU_ASSERT(records[1].status == -EPIPE || records[1].status == -ECONNRESET);
        end();
}

static void
a_file_is_sent(void)
{
        struct weir_test_record part = {0}, whole = {0}, beyond = {0}, wrong = {0};
        int file = memfd_create("file", MFD_CLOEXEC);

        begin();
        CU_ASSERT_EQUAL(write(file, "0123456789", 10), 10);
        go(weir_test_recorded(weir_stream_write_file_new(stream, file, 2, 3, weir_test_done, &part)));
        WEIR_TEST_CALLED(&part, 0);
        go(weir_test_recorded(weir_stream_write_file_new(stream, file, 5, UINT64_MAX, weir_test_done, &whole)));
        WEIR_TEST_CALLED(&whole, 0);
        CU_ASSERT_STRING_EQUAL(got(), "23456789");
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_file_new(stream, -1, 0, 1, weir_test_done, &wrong)), -EINVAL);
        int pipes[2]; /* it has no size of its own, so "all of it" is unknown */
        CU_ASSERT_EQUAL(pipe(pipes), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_file_new(stream, pipes[0], 0, UINT64_MAX, weir_test_done, &wrong)),
                        -EINVAL);
        close(pipes[0]);
        close(pipes[1]);
        go(weir_test_recorded(weir_stream_write_file_new(stream, file, 8, 5, weir_test_done, &beyond)));
        WEIR_TEST_CALLED(&beyond, -ENODATA);
        end();
        struct weir_test_record unreadable = {0};
        int closed_for_reading = open("/dev/null", O_WRONLY | O_CLOEXEC);
        begin();
        go(weir_test_recorded(weir_stream_write_file_new(stream, closed_for_reading, 0, 5, weir_test_done, &unreadable)));
        WEIR_TEST_CALLED(&unreadable, -EBADF);
        close(closed_for_reading);
        close(file);
        end();
}

/* -- early ends -- */

static void
a_cancelled_read_loses_nothing(void)
{
        struct seen cancelled = {0}, next = {0};

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, read_into(&cancelled, 10, 10));
        weir_series_start(series);
        weir_test_pass(0);
        put("abc");
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        SAW(&cancelled, -ECANCELED, "");
        go(read_into(&next, 3, 3));
        SAW(&next, 0, "abc");
        weir_series_unref(series);
        end();
}

static void
put_and_cancel(void *series)
{
        put("abc");
        weir_stream_ref(stream);
        weir_stream_unref(stream);
        weir_series_cancel(series);
}

static weir_series *to_cancel;

/* Before the read's callback, behind its bytes. */
static void
cancel_before_the_callback(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        weir_series_cancel(to_cancel);
}

/* Behind a read of one byte, whose callback cancels it.  One event serves both. */
static void
read_to_be_cancelled(struct seen *cancelled, size_t size)
{
        to_cancel = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(to_cancel, read_into(cancelled, size, size));
        start(weir_stream_read_new(stream, 1, 1, cancel_before_the_callback, NULL));
        weir_test_pass(0);
        weir_series_start(to_cancel);
        weir_test_pass(0);
}

static void
a_read_that_was_given_bytes_gives_them_back_when_it_is_cancelled(void)
{
        struct seen cancelled = {0}, next = {0};
        struct seen other = {0};

        begin();
        read_to_be_cancelled(&cancelled, 3);
        put("xabc");
        weir_test_pass(0);
        SAW(&cancelled, -ECANCELED, "");
        put("def");
        go(read_into(&next, 6, 6));
        SAW(&next, 0, "abcdef");
        weir_series_unref(to_cancel);
        to_cancel = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(to_cancel, read_into(&other, 3, 3));
        weir_series_start(to_cancel);
        weir_test_pass(0);
        weir_test_act(0, put_and_cancel, to_cancel);
        weir_test_pass(0);
        SAW(&other, -ECANCELED, "");
        weir_series_unref(to_cancel);
        end();
}

/* Bytes that are kept at the end of the input are not the end. */
static void
a_delimiter_that_does_not_come_leaves_the_bytes_at_the_end_as_well(void)
{
        struct seen cancelled = {0}, line = {0}, rest = {0}, last = {0};

        begin();
        read_to_be_cancelled(&cancelled, 100);
        put("x0123456789abcdef");
        CU_ASSERT_EQUAL(shutdown(peer, SHUT_WR), 0);
        weir_test_pass(0);
        SAW(&cancelled, -ECANCELED, "");
        go(line_into(&line, 10));
        SAW(&line, -EMSGSIZE, "");
        go(read_into(&rest, 16, 16));
        SAW(&rest, 0, "0123456789abcdef");
        go(read_into(&last, 1, 16));
        SAW(&last, -EPIPE, "");
        weir_series_unref(to_cancel);
        end();
}

/* The last one has looked at what came behind these bytes already. */
static void
a_delimiter_that_is_given_back_is_found(void)
{
        struct seen cancelled = {0}, line = {0};

        begin();
        read_to_be_cancelled(&cancelled, 3);
        start(line_into(&line, 100));
        weir_test_pass(0);
        put("xa\r\nbcdefg");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(cancelled.record.status, -ECANCELED);
        SAW(&line, 0, "a\r\n");
        weir_series_unref(to_cancel);
        end();
}

/* What a cancelled read gives back is for the one that waits already, also if no more comes. */
static void
what_is_given_back_is_for_the_next_that_waits(void)
{
        struct seen cancelled = {0}, waiting = {0};

        begin();
        read_to_be_cancelled(&cancelled, 3);
        start(read_into(&waiting, 1, 10));
        weir_test_pass(0);
        put("xabc");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(cancelled.record.status, -ECANCELED);
        SAW(&waiting, 0, "abc");
        weir_series_unref(to_cancel);
        end();
}

static struct weir_test_record refused;

static void
say_why_and_go(void *unused)
{
        (void)unused;
        put("too busy");
        close(peer);
        weir_task_start(write_of("x", &refused));
}

/* A write that fails does not destroy what the peer has sent before it went. */
static void
the_last_words_of_a_peer_are_read(void)
{
        struct seen words = {0}, later = {0};

        begin();
        start(read_into(&words, 1, 100));
        weir_test_pass(0);
        weir_test_act(0, say_why_and_go, NULL);
        weir_test_pass(0);
        SAW(&words, 0, "too busy");
        CU_ASSERT(refused.status == -EPIPE || refused.status == -ECONNRESET);
        go(read_into(&later, 1, 1));
        CU_ASSERT(later.record.calls == 1 && later.record.status < 0);
        peer = open("/dev/null", O_RDONLY | O_CLOEXEC);
        end();
}

static void
a_deadline_reaches_it(void)
{
        struct seen seen = {0};

        begin();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, read_into(&seen, 1, 1));
        weir_series_set_deadline(series, WEIR_SEC(3));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(5));
        SAW(&seen, -ETIMEDOUT, "");
        CU_ASSERT_EQUAL(seen.record.at - began, WEIR_SEC(3));
        end();
}

static void
a_break_ends_all(void)
{
        struct seen seen = {0}, late = {0};
        struct weir_test_record large = {0};
        size_t size = 4 << 20;
        char *bytes = calloc(1, size);

        begin();
        start(read_into(&seen, 1, 1));
        start(weir_test_recorded(weir_stream_write_new(stream, bytes, size, weir_test_done, &large)));
        weir_test_pass(0);
        weir_stream_break(stream);
        weir_test_pass(0);
        SAW(&seen, -ECONNABORTED, "");
        WEIR_TEST_CALLED(&large, -ECONNABORTED);
        go(read_into(&late, 1, 1));
        SAW(&late, -ECONNABORTED, "");
        CU_ASSERT_EQUAL(weir_stream_peer(stream, NULL, 0), -ENOTCONN);
        weir_stream_break(NULL);
        free(bytes);
        end();
}

static void
shutdown_ends_it(void)
{
        struct seen seen = {0}, unopened = {0};
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        stream = weir_stream_of(ends[0]); /* before the runtime */
        weir_test_begin_real(2);
        start(read_into(&seen, 1, 1));
        weir_test_sleep(1000000);
        weir_test_end();
        SAW(&seen, -ESHUTDOWN, "");
        CU_ASSERT_EQUAL(weir_task_start(read_into(&unopened, 1, 1)), -ESHUTDOWN);
        weir_stream_unref(stream);
        stream = weir_stream_of(ends[1]); /* which nobody uses */
        weir_stream_unref(stream);
        CU_ASSERT(fcntl(ends[0], F_GETFD) < 0 && fcntl(ends[1], F_GETFD) < 0);
}

static void
the_last_user_closes_it_behind_what_was_written(void)
{
        struct weir_test_record record = {0};

        begin();
        start(write_of("last words", &record));
        weir_stream_unref(stream);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_STRING_EQUAL(got(), "last words");
        CU_ASSERT_STRING_EQUAL(got(), "<end>");
        stream = NULL;
        end();
}

/* -- refused -- */

static void
wrong_values_are_refused(void)
{
        struct seen seen = {0};
        struct weir_test_record record = {0};
        int file = memfd_create("file", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
        const struct iovec piece = {NULL, 1};
        size_t size = 7;

        begin();
        CU_ASSERT_EQUAL(weir_task_start(read_into(&seen, 0, 1)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(read_into(&seen, 2, 1)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_until_new(stream, "", 0, 10, see, &seen)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_until_new(stream, NULL, 1, 10, see, &seen)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_until_new(stream, "abc", 3, 2, see, &seen)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(NULL, 1, 1, see, &seen)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_new(stream, NULL, 1, weir_test_done, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_lent_new(stream, NULL, 1, weir_test_done, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_pieces_new(stream, &piece, 1, weir_test_done, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_pieces_new(stream, NULL, 1, weir_test_done, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_finish_new(NULL, weir_test_done, &record)), -ENOMEM);
        CU_ASSERT_EQUAL(seen.record.calls + record.calls, 0);
        CU_ASSERT(!weir_stream_of(-1) && errno == EBADF);
        CU_ASSERT(!weir_stream_of(file) && errno == EPERM);
        CU_ASSERT_PTR_NULL(weir_stream_ref(NULL));
        weir_stream_unref(NULL);
        CU_ASSERT_EQUAL(weir_stream_peer(NULL, NULL, 0), -ENOMEM);
        CU_ASSERT_EQUAL(weir_stream_unsent(NULL), 0);
        weir_task *other = weir_empty_new(NULL, NULL);
        CU_ASSERT(!weir_stream_data(other, &size) && size == 0);
        CU_ASSERT_PTR_NULL(weir_connect_take_stream(other));
        weir_task_dismiss(other);
        weir_stream *odd = weir_stream_of(null); /* only epoll knows */
        seen = (struct seen){.size = 0};
        go(weir_test_recorded(weir_stream_read_new(odd, 1, 1, see, &seen)));
        SAW(&seen, -EPERM, "");
        weir_stream_unref(odd);
        CU_ASSERT(fcntl(null, F_GETFD) < 0);
        close(file);
        end();
}

static void
unref_once_too_often(void)
{
        int ends[2];

        CU_ASSERT_EQUAL(pipe2(ends, O_CLOEXEC), 0);
        weir_stream *one = weir_stream_of(ends[0]);
        weir_task *task = weir_stream_read_new(one, 1, 1, NULL, NULL);
        weir_stream_unref(one);
        weir_task_dismiss(task);
        weir_stream_unref(one);
}

static void
one_unref_too_many_aborts(void)
{
        if (!WEIR_TEST_SANITIZED) /* which reports it in its own way */
                weir_test_aborts(unref_once_too_often, "weir_stream_unref: no reference is left");
}

/* -- pipes -- */

static void
a_pipe_is_read_to_its_end(void)
{
        struct seen seen = {0}, last = {0};
        struct weir_test_record record = {0}, broken = {0};
        int in[2];

        begin();
        CU_ASSERT_EQUAL_FATAL(pipe2(in, O_CLOEXEC), 0);
        weir_stream *reader = weir_stream_of(in[0]), *writer = weir_stream_of(in[1]);
        go(weir_test_recorded(weir_stream_read_new(reader, 5, 5, see, &seen)));
        go(weir_test_recorded(weir_stream_write_new(writer, "pipes", 5, weir_test_done, &record)));
        WEIR_TEST_CALLED(&record, 0);
        SAW(&seen, 0, "pipes");
        start(weir_test_recorded(weir_stream_read_new(reader, 1, 5, see, &last)));
        weir_stream_unref(writer);
        weir_test_pass(0);
        SAW(&last, -EPIPE, "");
        weir_stream_unref(reader);
        CU_ASSERT_EQUAL_FATAL(pipe2(in, O_CLOEXEC), 0);
        writer = weir_stream_of(in[1]);
        close(in[0]);
        go(weir_test_recorded(weir_stream_write_new(writer, "x", 1, weir_test_done, &broken)));
        WEIR_TEST_CALLED(&broken, -EPIPE);
        weir_stream_unref(writer);
        end();
}

/* -- connect -- */

static int listener;
static char address[128];

static void
listen_at(int family)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof in;

        listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&in, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 16), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&in, &size), 0);
        snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(in.sin_port));
}

struct connected {
        struct weir_test_record record;
        weir_stream *stream;
};

static void
take(weir_task *connect, void *context)
{
        struct connected *connected = context;

        connected->stream = weir_connect_take_stream(connect);
        CU_ASSERT_PTR_NULL(weir_connect_take_stream(connect));
        weir_test_note(&connected->record, weir_task_status(connect));
}

static weir_task *
connect_to(const char *where, struct connected *connected)
{
        return weir_test_recorded(weir_connect_new(where, take, connected));
}

static void
a_connect_reaches_a_listener(void)
{
        struct connected connected = {0}, by_name = {0};
        struct seen seen = {0};
        char text[128], name[160];

        begin();
        listen_at(AF_INET);
        start(connect_to(address, &connected));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), connected.record.frees == 1));
        WEIR_TEST_CALLED(&connected.record, 0);
        int server = accept(listener, NULL, NULL);
        CU_ASSERT(weir_stream_peer(connected.stream, text, sizeof text) == (int)strlen(address));
        CU_ASSERT_STRING_EQUAL(text, address);
        CU_ASSERT(weir_stream_local(connected.stream, text, sizeof text) > 0);
        CU_ASSERT_EQUAL(write(server, "hello", 5), 5);
        start(weir_test_recorded(weir_stream_read_new(connected.stream, 5, 5, see, &seen)));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), seen.record.frees == 1));
        SAW(&seen, 0, "hello");
        weir_stream_unref(connected.stream);
        close(server);
        snprintf(name, sizeof name, "localhost%s", strchr(address, ':'));
        start(connect_to(name, &by_name));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), by_name.record.frees == 1));
        WEIR_TEST_CALLED(&by_name.record, 0);
        weir_stream_unref(by_name.stream);
        close(listener);
        end();
}

static void
a_connect_that_nobody_takes_is_closed(void)
{
        struct weir_test_record record = {0};
        char byte;

        begin();
        listen_at(AF_INET);
        start(weir_test_recorded(weir_connect_new(address, weir_test_done, &record)));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), record.frees == 1));
        WEIR_TEST_CALLED(&record, 0);
        int server = accept(listener, NULL, NULL);
        CU_ASSERT_EQUAL(read(server, &byte, 1), 0);
        close(server);
        close(listener);
        end();
}

static void
a_refused_connect_says_so(void)
{
        struct connected tcp = {0}, unixes = {0}, nameless = {0}, wrong = {0};

        begin();
        listen_at(AF_INET);
        close(listener);
        start(connect_to(address, &tcp));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), tcp.record.frees == 1));
        WEIR_TEST_CALLED(&tcp.record, -ECONNREFUSED);
        CU_ASSERT_PTR_NULL(tcp.stream);
        go(connect_to("unix:/nowhere/at/all", &unixes));
        WEIR_TEST_CALLED(&unixes.record, -ENOENT);
        go(connect_to("unix:@nobody-listens-here", &nameless));
        WEIR_TEST_CALLED(&nameless.record, -ECONNREFUSED);
        static const char *const bad[] = {"", "host", "1.2.3.4:99999", ":80", "[::1", "1.2.3.4:0", "unix:"};
        for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
                CU_ASSERT_EQUAL(weir_task_start(connect_to(bad[i], &wrong)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(connect_to(NULL, &wrong)), -EINVAL);
        CU_ASSERT_EQUAL(wrong.record.calls, 0);
        end();
}

/* The backlog of a Unix socket is full: the connect comes back until there is room, or until it is cancelled. */
static void
a_full_unix_socket_is_waited_for(void)
{
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        struct connected connected[4] = {{.stream = NULL}};
        weir_series *last = weir_series_ref(weir_series_new(NULL, NULL));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        begin();
        int length = snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "weir-test-%d", getpid());
        CU_ASSERT_EQUAL_FATAL(
                bind(fd, (struct sockaddr *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)), 0);
        CU_ASSERT_EQUAL_FATAL(listen(fd, 0), 0);
        snprintf(address, sizeof address, "unix:@weir-test-%d", getpid());
        for (unsigned i = 0; i < 3; i++)
                start(connect_to(address, &connected[i]));
        weir_series_push(last, connect_to(address, &connected[3]));
        weir_series_start(last);
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_EQUAL(connected[0].record.calls, 1);
        CU_ASSERT_EQUAL(connected[3].record.calls, 0);
        weir_series_cancel(last);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&connected[3].record, -ECANCELED);
        for (unsigned i = 0; i < 3; i++) {
                close(accept(fd, NULL, NULL));
                weir_test_pass(WEIR_SEC(1));
        }
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&connected[i].record, 0);
                weir_stream_unref(connected[i].stream);
        }
        weir_series_unref(last);
        close(fd);
        end();
}

/* -- pumps -- */

static int far_peer; /* the other end of `far` */
static weir_stream *far;

static void
begin_pair(void)
{
        int ends[2];

        begin();
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        far = weir_stream_of(ends[0]);
        far_peer = ends[1];
        CU_ASSERT_EQUAL(fcntl(far_peer, F_SETFL, O_NONBLOCK), 0);
}

static void
end_pair(void)
{
        weir_stream_unref(far);
        end();
        close(far_peer);
}

struct pumped {
        struct weir_test_record record;
        uint64_t moved;
};

static void
note_pumped(weir_task *pump, void *context)
{
        struct pumped *pumped = context;

        pumped->moved = weir_pump_moved(pump);
        weir_test_note(&pumped->record, weir_task_status(pump));
}

static weir_task *
pump_into(struct pumped *pumped)
{
        return weir_test_recorded(weir_pump_new(stream, far, note_pumped, pumped));
}

static void
a_pump_carries_all_to_the_end(void)
{
        struct pumped pumped = {0};
        size_t size = 1 << 20, sent = 0, seen = 0;
        char *bytes = malloc(size), *room = malloc(size);

        begin_pair();
        for (size_t i = 0; i < size; i++)
                bytes[i] = (char)(i * 7);
        start(pump_into(&pumped));
        while (seen < size) {
                ssize_t count = sent < size ? write(peer, bytes + sent, size - sent) : 0;

                sent += count > 0 ? (size_t)count : 0;
                weir_test_pass(0);
                count = read(far_peer, room + seen, size - seen);
                seen += count > 0 ? (size_t)count : 0;
        }
        CU_ASSERT(memcmp(bytes, room, size) == 0);
        CU_ASSERT_EQUAL(pumped.record.calls, 0);
        CU_ASSERT_EQUAL(shutdown(peer, SHUT_WR), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&pumped.record, 0);
        CU_ASSERT_EQUAL(pumped.moved, size);
        CU_ASSERT(read(far_peer, room, 1) < 0 && errno == EAGAIN); /* the other side was not ended */
        free(bytes);
        free(room);
        end_pair();
}

static void
a_pump_that_is_cancelled_leaves_no_gap(void)
{
        struct pumped idle = {0}, full = {0};
        struct seen seen = {0};
        static char zeros[65536];

        begin_pair();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, pump_into(&idle));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series); /* nothing is in hand: both streams go on */
        weir_test_pass(0);
        WEIR_TEST_CALLED(&idle.record, -ECANCELED);
        weir_series_unref(series);
        put("x");
        go(read_into(&seen, 1, 1));
        SAW(&seen, 0, "x");
        series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, pump_into(&full));
        weir_series_start(series);
        for (int idle_rounds = 0; idle_rounds < 3; weir_test_pass(0))
                idle_rounds = write(peer, zeros, sizeof zeros) > 0 ? 0 : idle_rounds + 1;
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&full.record, -ECANCELED);
        CU_ASSERT(full.moved > 0);
        weir_series_unref(series);
        struct seen broken = {0};
        go(read_into(&broken, 1, 1));
        SAW(&broken, -ECONNABORTED, "");
        end_pair();
}

static void
a_pump_reports_what_fails(void)
{
        struct pumped pumped = {0};

        begin_pair();
        close(far_peer);
        start(pump_into(&pumped));
        put("x");
        weir_test_pass(0);
        CU_ASSERT(pumped.record.status == -EPIPE || pumped.record.status == -ECONNRESET);
        CU_ASSERT_EQUAL(weir_task_start(weir_pump_new(NULL, far, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_pump_moved(NULL), 0);
        far_peer = open("/dev/null", O_RDONLY | O_CLOEXEC);
        end_pair();
}

/* -- seen -- */

static void
a_dump_says_what_a_task_waits_for(void)
{
        struct seen seen = {0}, line = {0};
        char text[4096] = "";
        int file = memfd_create("dump", MFD_CLOEXEC);

        begin();
        weir_series *series = weir_series_new(NULL, NULL), *other = weir_series_new(NULL, NULL);
        weir_series_push(series, read_into(&seen, 7, 9));
        weir_series_push(other, line_into(&line, 9));
        weir_series_start(series);
        weir_series_start(other);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(file), 0);
        CU_ASSERT(pread(file, text, sizeof text - 1, 0) > 0);
        close(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "7 bytes from unix:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "a delimiter from unix:"));
        weir_stream_break(stream);
        weir_test_pass(0);
        SAW(&seen, -ECONNABORTED, "");
        SAW(&line, -ECONNABORTED, "");
        end();
}

/* -- a storm -- */

#define THREADS 4
#define ROUNDS  (WEIR_TEST_SANITIZED ? 1500 : 12000)

static _Atomic unsigned started, ended;

static void
count_end(weir_task *task, void *unused)
{
        (void)unused;
        weir_stream_unref(weir_connect_take_stream(task));
        atomic_fetch_add(&ended, 1);
}

static void
push_counted(weir_series *series, weir_task *task)
{
        atomic_fetch_add(&started, 1);
        weir_series_push(series, task);
}

static void *
meddle(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                int ends[2];

                while (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
                        if (errno != EMFILE)
                                abort();
                        sched_yield(); /* streams are closed by their pollers, which may be behind */
                }
                weir_stream *one = weir_stream_of(ends[0]), *other = weir_stream_of(ends[1]);
                push_counted(series, weir_stream_write_new(one, "0123456789", 10, count_end, NULL));
                push_counted(series, weir_stream_read_new(other, 1 + (unsigned)rand_r(&state) % 12, 16, count_end, NULL));
                push_counted(series, weir_stream_finish_new(other, count_end, NULL));
                push_counted(series, weir_stream_read_until_new(one, "\n", 1, 5, count_end, NULL));
                if (rand_r(&state) % 4 == 0)
                        push_counted(series, weir_connect_new(rand_r(&state) % 2 ? address : "localhost:1", count_end, NULL));
                weir_series_start(series);
                switch (rand_r(&state) % 4) {
                case 0: weir_series_cancel(series); break;
                case 1: weir_stream_break(other); break;
                case 2: sched_yield(); break;
                case 3: break;
                }
                weir_stream_unref(one);
                if (rand_r(&state) % 2)
                        weir_series_cancel(series);
                else
                        weir_stream_break(other);
                weir_stream_unref(other);
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
        unsigned before = weir_test_entries_of("/proc/self/fd");
        weir_test_begin_real(2);
        listen_at(AF_INET);
        for (unsigned i = 0; i < THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, meddle, (void *)(uintptr_t)(i + 1)), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        close(listener);
        weir_test_end();
        CU_ASSERT(ended <= started && ended > 0);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_read_ends_as_soon_as_there_is_the_least),
                WEIR_TEST(a_reset_behind_bytes_is_seen_by_the_next_read),
                WEIR_TEST(what_no_task_wants_stays_in_the_socket),
                WEIR_TEST(reads_go_in_the_order_of_their_starts),
                WEIR_TEST(bytes_are_searched_once_however_they_come),
                WEIR_TEST(a_delimiter_that_does_not_come_leaves_the_bytes_at_the_end_as_well),
                WEIR_TEST(a_delimiter_that_is_given_back_is_found),
                WEIR_TEST(many_lines_are_left_in_the_socket),
                WEIR_TEST(lines_are_read_one_by_one),
                WEIR_TEST(a_delimiter_that_does_not_come_is_an_error_and_nothing_is_lost),
                WEIR_TEST(the_end_is_epipe_with_what_came_before),
                WEIR_TEST(a_megabyte_comes_whole),
                WEIR_TEST(writes_go_out_in_the_order_of_their_starts),
                WEIR_TEST(a_peer_that_does_not_read_makes_writes_wait),
                WEIR_TEST(a_write_that_is_half_out_breaks_the_stream_when_it_is_cancelled),
                WEIR_TEST(a_finish_ends_our_side_behind_what_was_written),
                WEIR_TEST(a_peer_that_has_gone_ends_writes_with_epipe),
                WEIR_TEST(a_file_is_sent),
                WEIR_TEST(a_cancelled_read_loses_nothing),
                WEIR_TEST(a_read_that_was_given_bytes_gives_them_back_when_it_is_cancelled),
                WEIR_TEST(what_is_given_back_is_for_the_next_that_waits),
                WEIR_TEST(the_last_words_of_a_peer_are_read),
                WEIR_TEST(a_deadline_reaches_it),
                WEIR_TEST(a_break_ends_all),
                WEIR_TEST(shutdown_ends_it),
                WEIR_TEST(the_last_user_closes_it_behind_what_was_written),
                WEIR_TEST(wrong_values_are_refused),
                WEIR_TEST(one_unref_too_many_aborts),
                WEIR_TEST(a_pipe_is_read_to_its_end),
                WEIR_TEST(a_connect_reaches_a_listener),
                WEIR_TEST(a_connect_that_nobody_takes_is_closed),
                WEIR_TEST(a_refused_connect_says_so),
                WEIR_TEST(a_full_unix_socket_is_waited_for),
                WEIR_TEST(a_pump_carries_all_to_the_end),
                WEIR_TEST(a_pump_that_is_cancelled_leaves_no_gap),
                WEIR_TEST(a_pump_reports_what_fails),
                WEIR_TEST(a_dump_says_what_a_task_waits_for),
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        return weir_test_main("stream_task", tests, sizeof tests / sizeof *tests);
}
