/* test/fiber_io_calls_test.c: input and output as fibers call it. */
#include "test/fiber_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>

#define FAR WEIR_SEC(100000)

/* -- streams -- */

static weir_stream *ends[2];

static void
begin_streams(void)
{
        int pair[2];

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (unsigned i = 0; i < 2; i++)
                ends[i] = weir_stream_of(pair[i]);
}

static void
end_streams(void)
{
        for (unsigned i = 0; i < 2; i++)
                weir_stream_unref(ends[i]);
        weir_test_end();
}

static void
run(weir_fiber_fn *function, int expected)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new_as("test", function, NULL, NULL)), expected);
}

static int
write_and_end(void *context)
{
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "word", 4), 0);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "", 0), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(1)), 0);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], context, 3), 0);
        CU_ASSERT_EQUAL(weir_await(weir_stream_finish_new(ends[1], NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "late", 4), -EPIPE);
        return 0;
}

static int
read_to_the_end(void *context)
{
        weir_group *group = weir_group_open();
        char got[8] = "";

        (void)context;
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(write_and_end, NULL, "end")), 0);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 2), 2);
        CU_ASSERT_EQUAL(memcmp(got, "wo", 2), 0);
        CU_ASSERT_EQUAL(weir_fiber_read_full(ends[0], got, 3), 3); /* over two writes */
        CU_ASSERT_EQUAL(memcmp(got, "rde", 3), 0);
        CU_ASSERT_EQUAL(weir_fiber_read_full(ends[0], got, 8), 2);
        CU_ASSERT_EQUAL(memcmp(got, "nd", 2), 0);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 8), 0);
        CU_ASSERT_EQUAL(weir_fiber_read_full(ends[0], got, 8), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        return 0;
}

static int
use_wrongly(void *context)
{
        char got[8];

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_read(NULL, got, 8), -ENOMEM);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], NULL, 8), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_write(NULL, "word", 4), -ENOMEM);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[0], NULL, 4), -EINVAL);
        weir_stream_break(ends[0]);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 8), -ECONNABORTED);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[0], "word", 4), -ECONNABORTED);
        return 0;
}

static void
streams_are_read_and_written(void)
{
        begin_streams();
        run(read_to_the_end, 0);
        end_streams();
        begin_streams();
        run(use_wrongly, 0);
        end_streams();
}

/* What has come before the early end is there for the next read. */
static int
read_at_a_deadline(void *context)
{
        char got[8];

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "word", 4), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_MSEC(10)), 0);
        CU_ASSERT_EQUAL(weir_fiber_read_full(ends[0], got, 8), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 8), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "late", 4), -ETIMEDOUT);
        return 0;
}

static int
write_what_nobody_reads(void *context)
{
        static char large[4 << 20];

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], large, sizeof large), -ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "late", 4), -ECANCELED);
        return 0;
}

static int
read_what_nobody_writes(void *context)
{
        char got[8] = "";

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_read(ends[1], got, sizeof got), -ECANCELED);
        CU_ASSERT_EQUAL(got[0], 0);
        return 0;
}

static int
cancel_child(void *context)
{
        weir_group *group = weir_group_open();

        CU_ASSERT_EQUAL(weir_group_start(group, context), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(5)), 0);
        weir_group_cancel(group);
        return weir_group_close(group);
}

static void
cancel(weir_fiber_fn *function)
{
        begin_streams();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(cancel_child, NULL, weir_fiber_new_as("child", function, NULL, NULL))),
                        -ECANCELED);
        end_streams();
}

static void
reads_and_writes_end_early(void)
{
        char got[8];

        begin_streams();
        run(read_at_a_deadline, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 8), 4); /* on a thread */
        CU_ASSERT_EQUAL(memcmp(got, "word", 4), 0);
        end_streams();
        cancel(write_what_nobody_reads);
        cancel(read_what_nobody_writes);
}

static int callback_status;

static void
read_in_a_callback(weir_task *task, void *context)
{
        char got[8];

        (void)task;
        (void)context;
        callback_status = (int)weir_fiber_read(ends[0], got, 8);
}

static void
threads_read_and_write(void)
{
        char got[8];

        begin_streams();
        CU_ASSERT_EQUAL(weir_fiber_write(ends[1], "word", 4), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(read_in_a_callback, NULL)), 0);
        CU_ASSERT_EQUAL(callback_status, -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_read_full(ends[0], got, 4), 4);
        CU_ASSERT_EQUAL(memcmp(got, "word", 4), 0);
        weir_stream_unref(ends[1]);
        ends[1] = NULL;
        CU_ASSERT_EQUAL(weir_fiber_read(ends[0], got, 4), 0);
        end_streams();
}

/* -- connect -- */

static void
greet(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "hello", 5, NULL, NULL));
}

static int
connect_and_read(void *context)
{
        weir_stream *stream = context;
        char got[8];

        CU_ASSERT_EQUAL(weir_fiber_connect(context, &stream), 0);
        CU_ASSERT_EQUAL(weir_fiber_read_full(stream, got, 8), 5);
        CU_ASSERT_EQUAL(memcmp(got, "hello", 5), 0);
        weir_stream_unref(stream);
        CU_ASSERT_EQUAL(weir_fiber_connect("nothing", &stream), -EINVAL);
        CU_ASSERT_PTR_NULL(stream);
        CU_ASSERT_EQUAL(weir_fiber_connect("unix:@weir/fiber/nobody", &stream), -ECONNREFUSED);
        CU_ASSERT_PTR_NULL(stream);
        return 0;
}

static void
fibers_connect(void)
{
        char address[40];

        weir_test_begin_real(2);
        weir_stream_server *server = weir_stream_server_new(NULL, greet, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(connect_and_read, NULL, address)), 0);
        CU_ASSERT_EQUAL(connect_and_read(address), 0); /* on a thread */
        weir_stream_server_stop(server, WEIR_SEC(10));
        weir_stream_server_free(server);
        weir_test_end();
}

/* -- files -- */

static char path[64];

static int
write_and_read(void *context)
{
        weir_file *file = NULL;
        char got[16] = "";

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_open("/nowhere/at/all", O_RDONLY, 0, &file), -ENOENT);
        CU_ASSERT_PTR_NULL(file);
        CU_ASSERT_EQUAL(weir_fiber_open(NULL, O_RDONLY, 0, &file), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600, &file), 0);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, sizeof got), 0);
        CU_ASSERT_EQUAL(weir_fiber_pwrite(file, 0, "hello, world", 12), 0);
        CU_ASSERT_EQUAL(weir_fiber_pwrite(file, 7, "files", 5), 0);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, 5), 5);
        CU_ASSERT_STRING_EQUAL(got, "hello");
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 7, got, sizeof got), 5);
        CU_ASSERT_STRING_EQUAL(got, "files");
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 12, got, sizeof got), 0);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, -1, got, sizeof got), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, NULL, sizeof got), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_pread(NULL, 0, got, sizeof got), -EBADF);
        CU_ASSERT_EQUAL(weir_fiber_pwrite(NULL, 0, got, sizeof got), -EBADF);
        CU_ASSERT_EQUAL(weir_await(weir_file_close_new(file, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, sizeof got), -EBADF);
        weir_file_unref(file);
        return 0;
}

static int
read_an_empty_pipe(void *context)
{
        weir_file *file = context;
        char got[8] = "";

        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, sizeof got), -ECANCELED);
        CU_ASSERT_EQUAL(got[0], 0);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, sizeof got), -ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_open("/dev/null", O_RDONLY, 0, &file), -ECANCELED);
        CU_ASSERT_PTR_NULL(file);
        return 0;
}

static void
files_are_read_and_written(void)
{
        int pair[2];
        char got[8] = "";

        snprintf(path, sizeof path, "/tmp/weir-fiber-calls-%d", (int)getpid());
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(write_and_read, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(write_and_read(NULL), 0); /* on a thread */
        unlink(path);

        CU_ASSERT_EQUAL_FATAL(pipe(pair), 0);
        weir_file *file = weir_file_of(pair[0]);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(cancel_child, NULL, weir_fiber_new(read_an_empty_pipe, NULL, file))),
                        -ECANCELED);
        CU_ASSERT_EQUAL(write(pair[1], "word", 4), 4);
        CU_ASSERT_EQUAL(weir_fiber_pread(file, 0, got, sizeof got), 4);
        CU_ASSERT_STRING_EQUAL(got, "word"); /* the read that was cancelled took nothing */
        weir_file_unref(file);
        close(pair[1]);
        weir_test_end();
}

/* -- HTTP -- */

static char url[64];
static _Atomic int waiting;

static void
answer(weir_task *exchange, void *context)
{
        const char *place = weir_http_path(exchange);

        (void)context;
        if (strcmp(place, "/wait") == 0) {
                waiting++;
                weir_series_push(weir_series_of(exchange), weir_timer_new(FAR, NULL, NULL));
        } else if (strcmp(place, "/nothing") == 0) {
                weir_http_reply_text(exchange, 204, "");
        } else if (strcmp(place, "/word") == 0) {
                weir_http_reply_text(exchange, 200, "word");
        } else {
                weir_http_reply_text(exchange, 404, "not here");
        }
}

static const char *
at(const char *place)
{
        static _Thread_local char whole[80];

        snprintf(whole, sizeof whole, "%s%s", url, place);
        return whole;
}

static int
get_all(void *context)
{
        void *body = context;
        size_t size = 99;

        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/word"), &body, &size), 200);
        CU_ASSERT_EQUAL(size, 4);
        CU_ASSERT_STRING_EQUAL(body, "word");
        free(body);
        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/other"), &body, NULL), 404);
        CU_ASSERT_STRING_EQUAL(body, "not here");
        free(body);
        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/word"), NULL, &size), 200);
        CU_ASSERT_EQUAL(size, 4);
        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/nothing"), &body, &size), 204);
        CU_ASSERT(body == NULL && size == 0);
        body = &size;
        size = 99;
        CU_ASSERT_EQUAL(weir_fiber_http_get("nothing", &body, &size), -EINVAL);
        CU_ASSERT(body == NULL && size == 0);
        CU_ASSERT_EQUAL(weir_fiber_http_get("http://127.0.0.1:1/", &body, &size), -ECONNREFUSED);
        CU_ASSERT(body == NULL && size == 0);
        return 0;
}

static int
get_what_does_not_come(void *context)
{
        void *body = context;
        size_t size = 99;

        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/wait"), &body, &size), -ECANCELED);
        CU_ASSERT(body == NULL && size == 0);
        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/word"), &body, &size), -ECANCELED);
        CU_ASSERT(body == NULL && size == 0);
        return 0;
}

static int
cancel_when_it_waits(void *context)
{
        weir_group *group = weir_group_open();

        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(get_what_does_not_come, NULL, context)), 0);
        while (waiting == 0)
                CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(1)), 0);
        weir_group_cancel(group);
        return weir_group_close(group);
}

static int
get_until_the_deadline(void *context)
{
        void *body = context;

        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_MSEC(20)), 0);
        CU_ASSERT_EQUAL(weir_fiber_http_get(at("/wait"), &body, NULL), -ETIMEDOUT);
        CU_ASSERT_PTR_NULL(body);
        return 0;
}

static void
get_in_a_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        callback_status = weir_fiber_http_get(at("/word"), NULL, NULL);
}

static void
fibers_get(void)
{
        weir_test_begin_real(2);
        weir_http_server *server = weir_http_server_new(NULL, answer, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d", weir_http_server_port(server));
        waiting = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(get_all, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(get_all(NULL), 0); /* on a thread */
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(cancel_when_it_waits, NULL, url)), -ECANCELED);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(get_until_the_deadline, NULL, url)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(get_in_a_callback, NULL)), 0);
        CU_ASSERT_EQUAL(callback_status, -EDEADLK);
        weir_http_server_stop(server, WEIR_SEC(10));
        weir_http_server_free(server);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(streams_are_read_and_written), WEIR_TEST(reads_and_writes_end_early),
                WEIR_TEST(threads_read_and_write),       WEIR_TEST(fibers_connect),
                WEIR_TEST(files_are_read_and_written),   WEIR_TEST(fibers_get),
        };

        return weir_test_main("fiber_io_calls", tests, sizeof tests / sizeof *tests);
}
