/* test/stream_states_test.c: what tasks of a stream end with in each of its states: never used, finished, ended, failed,
 * broken. */
#include "test/stream_fixture.h"

/* Starts the task, which ends by itself.  Returns its status. */
static int
status_of(weir_task *(*make)(struct weir_test_record *record))
{
        struct weir_test_record record = {0};

        start(weir_test_recorded(make(&record)));
        BECOMES(record.frees);
        CU_ASSERT_EQUAL(record.calls, 1);
        return record.status;
}

static weir_task *
make_read(struct weir_test_record *record)
{
        return weir_stream_read_new(stream, 1, 10, weir_test_done, record);
}

static weir_task *
make_line(struct weir_test_record *record)
{
        return weir_stream_read_until_new(stream, "\n", 1, 10, weir_test_done, record);
}

static weir_task *
make_write(struct weir_test_record *record)
{
        return weir_stream_write_new(stream, "x", 1, weir_test_done, record);
}

static weir_task *
make_empty_write(struct weir_test_record *record)
{
        return weir_stream_write_new(stream, NULL, 0, weir_test_done, record);
}

static weir_task *
make_file(struct weir_test_record *record)
{
        return weir_stream_write_file_new(stream, STDERR_FILENO, 0, 0, weir_test_done, record);
}

static weir_task *
make_finish(struct weir_test_record *record)
{
        return weir_stream_finish_new(stream, weir_test_done, record);
}

static weir_task *
make_tls(struct weir_test_record *record)
{
        weir_tls *tls = weir_tls_client_new(NULL);
        weir_task *task = weir_stream_start_tls_new(stream, tls, "any.example", weir_test_done, record);

        weir_tls_unref(tls);
        return task;
}

static void
all_are_refused(int reading, int writing)
{
        CU_ASSERT_EQUAL(status_of(make_read), reading);
        CU_ASSERT_EQUAL(status_of(make_line), reading);
        CU_ASSERT_EQUAL(status_of(make_write), writing);
        CU_ASSERT_EQUAL(status_of(make_empty_write), writing);
        CU_ASSERT_EQUAL(status_of(make_file), writing);
        CU_ASSERT_EQUAL(status_of(make_finish), writing);
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), 0);
}

static void
has_no_addresses(void)
{
        char text[64];

        CU_ASSERT_EQUAL(weir_stream_peer(stream, text, sizeof text), -ENOTCONN);
        CU_ASSERT_EQUAL(weir_stream_local(stream, text, sizeof text), -ENOTCONN);
}

/* -- broken on this side -- */

static void
a_stream_that_no_task_has_used_is_broken_at_once(void)
{
        begin();
        weir_stream_break(stream);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(peer_sees(), -ECONNRESET);
        has_no_addresses();
        weir_stream_break(stream); /* again */
        all_are_refused(-ECONNABORTED, -ECONNABORTED);
        CU_ASSERT_EQUAL(status_of(make_tls), -ECONNABORTED);
        end();
}

/* The last reference goes before the owner has seen the order. */
static void
a_break_behind_which_nobody_uses_it_is_a_reset_all_the_same(void)
{
        begin();
        weir_stream_break(stream);
        weir_stream_unref(stream);
        stream = NULL;
        weir_test_pass(0);
        CU_ASSERT_EQUAL(peer_sees(), -ECONNRESET);
        end();
        begin();
        CU_ASSERT_EQUAL(status_of(make_write), 0);
        CU_ASSERT_EQUAL(peer_sees(), 1);
        weir_stream_break(stream);
        weir_stream_unref(stream);
        stream = NULL;
        weir_test_pass(0);
        CU_ASSERT_EQUAL(peer_sees(), -ECONNRESET);
        end();
}

static void
it_is_broken_before_the_runtime_has_started(void)
{
        make_stream();
        weir_stream_break(stream);
        CU_ASSERT_EQUAL(peer_sees(), -ECONNRESET);
        has_no_addresses();
        weir_stream_break(stream);
        weir_test_begin_virtual();
        all_are_refused(-ECONNABORTED, -ECONNABORTED);
        weir_stream_break(stream);
        end();
}

static void
a_break_ends_a_start_of_tls(void)
{
        struct weir_test_record record = {0};

        begin();
        start(weir_test_recorded(make_tls(&record)));
        BECOMES(peer_sees() > 0); /* its first words */
        CU_ASSERT_EQUAL(status_of(make_read), -EBUSY);
        weir_stream_break(stream);
        BECOMES(record.frees);
        WEIR_TEST_CALLED(&record, -ECONNABORTED);
        all_are_refused(-ECONNABORTED, -ECONNABORTED);
        end();
}

/* -- ended, on either side -- */

static void
a_second_finish_says_that_there_was_one(void)
{
        begin();
        CU_ASSERT_EQUAL(status_of(make_finish), 0); /* its first task */
        CU_ASSERT_EQUAL(peer_sees(), 0);
        CU_ASSERT_EQUAL(status_of(make_finish), -EPIPE);
        CU_ASSERT_EQUAL(status_of(make_write), -EPIPE);
        CU_ASSERT_EQUAL(status_of(make_empty_write), -EPIPE);
        CU_ASSERT_EQUAL(write(peer, "y\n", 2), 2);
        CU_ASSERT_EQUAL(status_of(make_line), 0);
        weir_stream_break(stream);
        all_are_refused(-ECONNABORTED, -ECONNABORTED);
        CU_ASSERT(send(peer, "z", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
        end();
}

static void
a_peer_that_has_ended_its_side_can_be_written_to(void)
{
        begin();
        CU_ASSERT_EQUAL(shutdown(peer, SHUT_WR), 0);
        CU_ASSERT_EQUAL(status_of(make_read), -EPIPE);
        CU_ASSERT_EQUAL(status_of(make_line), -EPIPE); /* as often as one asks */
        CU_ASSERT_EQUAL(status_of(make_write), 0);
        CU_ASSERT_EQUAL(status_of(make_finish), 0);
        CU_ASSERT_EQUAL(peer_sees(), 1);
        CU_ASSERT_EQUAL(peer_sees(), 0);
        all_are_refused(-EPIPE, -EPIPE);
        weir_stream_break(stream); /* both ends are over, so the peer sees nothing of it */
        all_are_refused(-ECONNABORTED, -ECONNABORTED);
        end();
}

/* -- failed -- */

static void
a_stream_that_has_failed_keeps_its_error(void)
{
        begin();
        reset_by_peer();
        CU_ASSERT_EQUAL(status_of(make_read), -ECONNRESET);
        all_are_refused(-ECONNRESET, -ECONNRESET);
        has_no_addresses();
        weir_stream_break(stream);
        all_are_refused(-ECONNRESET, -ECONNRESET);
        end();
}

/* Its own failure is no end of the input: a read must not take what has come for the whole. */
static void
a_finish_to_a_peer_that_has_gone_says_so(void)
{
        begin();
        CU_ASSERT_EQUAL(status_of(make_write), 0);
        reset_by_peer();
        CU_ASSERT_EQUAL(status_of(make_finish), -EPIPE);
        all_are_refused(-ECONNRESET, -EPIPE);
        end();
}

static char logged[512]; /* the last message */

static void
note_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)context;
        snprintf(logged, sizeof logged, "%s", message);
}

#define LOGGED(...)                                                 \
        do {                                                        \
                char expected_[sizeof logged];                      \
                                                                    \
                snprintf(expected_, sizeof expected_, __VA_ARGS__); \
                CU_ASSERT_STRING_EQUAL(logged, expected_);          \
        } while (0)

static void
files_are_refused_with_a_word_about_file_tasks(void)
{
        int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        CU_ASSERT(!weir_stream_of(file) && errno == EPERM);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        LOGGED("weir_stream_of: descriptor %d is a regular file: expected a connected socket, pipe or terminal; the tasks of "
               "weir/file.h read files",
               file);
        CU_ASSERT_EQUAL(close(file), 0); /* it is still the program's */
}

static void
a_stream_that_cannot_be_waited_for_keeps_its_error(void)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        weir_test_begin_virtual();
        stream = weir_stream_of(null);
        peer = -1;
        all_are_refused(-EPERM, -EPERM);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        LOGGED("a stream of descriptor %d: it is a file that is always ready: expected a socket, pipe or terminal; the tasks of "
               "weir/file.h read files",
               null);
        weir_stream_break(stream);
        all_are_refused(-EPERM, -EPERM);
        CU_ASSERT(fcntl(null, F_GETFD) < 0);
        end();
}

/* -- a connect that has failed has no stream -- */

static void
use_what_there_is(weir_task *connect, void *record)
{
        weir_stream *none = weir_connect_take_stream(connect);
        char text[64];

        CU_ASSERT_PTR_NULL(none);
        weir_stream_break(none);
        weir_stream_unref(none);
        CU_ASSERT_EQUAL(weir_stream_unsent(none), 0);
        CU_ASSERT_EQUAL(weir_stream_peer(none, text, sizeof text), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(none, 1, 1, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_until_new(none, "\n", 1, 1, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_new(none, "x", 1, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_file_new(none, STDERR_FILENO, 0, 0, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_finish_new(none, NULL, NULL)), -ENOMEM);
        weir_test_done(connect, record);
}

static void
tasks_of_no_stream_are_refused_by_their_start(void)
{
        struct weir_test_record record = {0};
        char address[64];

        weir_test_begin_virtual();
        close(listen_here(address));
        start(weir_test_recorded(weir_connect_new(address, use_what_there_is, &record)));
        BECOMES(record.frees);
        WEIR_TEST_CALLED(&record, -ECONNREFUSED);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_stream_that_no_task_has_used_is_broken_at_once),
                WEIR_TEST(a_break_behind_which_nobody_uses_it_is_a_reset_all_the_same),
                WEIR_TEST(it_is_broken_before_the_runtime_has_started),
                WEIR_TEST(a_break_ends_a_start_of_tls),
                WEIR_TEST(a_second_finish_says_that_there_was_one),
                WEIR_TEST(a_peer_that_has_ended_its_side_can_be_written_to),
                WEIR_TEST(a_stream_that_has_failed_keeps_its_error),
                WEIR_TEST(a_finish_to_a_peer_that_has_gone_says_so),
                WEIR_TEST(files_are_refused_with_a_word_about_file_tasks),
                WEIR_TEST(a_stream_that_cannot_be_waited_for_keeps_its_error),
                WEIR_TEST(tasks_of_no_stream_are_refused_by_their_start),
        };

        return weir_test_main("stream_states", tests, sizeof tests / sizeof *tests);
}
