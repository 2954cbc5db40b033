/* test/fiber_io_test.c: what fibers await of the system, and fibers in the handlers of servers. */
#include "test/fiber_fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FAR WEIR_SEC(100000)

static struct weir_test_record record;

/* -- descriptors, signals, processes, files -- */

static int pipe_ends[2];

static void
write_a_byte(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(write(pipe_ends[1], "x", 1), 1);
}

static int
await_the_system(void *context)
{
        weir_group *group = weir_group_open();
        size_t size = 0;

        (void)context;
        CU_ASSERT_EQUAL(pipe(pipe_ends), 0);
        weir_fd *fd = weir_fd_new(pipe_ends[0]);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(WEIR_MSEC(1), write_a_byte, NULL)), 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_fd_readable_new(fd, weir_test_done, &record), &record, 0);
        weir_fd_forget(fd);
        close(pipe_ends[0]);
        close(pipe_ends[1]);

        weir_task *task = weir_command_new(weir_test_done, &record, "echo", "word", NULL);
        weir_process_collect(task, 1, 100);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_STRING_EQUAL(weir_process_output(task, &size), "word\n");
        CU_ASSERT_EQUAL(weir_process_exit_code(task), 0);
        WEIR_TEST_GIVEN_BACK(&record);
        CU_ASSERT_EQUAL(weir_await(weir_command_new(NULL, NULL, "false", NULL)), WEIR_EPROCESS_EXIT);
        task = weir_command_new(NULL, NULL, "sleep", "1000", NULL);
        weir_process_set_grace(task, WEIR_MSEC(1));
        CU_ASSERT_EQUAL(weir_await_within(task, WEIR_MSEC(10)), -ETIMEDOUT);

        task = weir_file_open_new("/proc/self/cmdline", O_RDONLY, 0, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        weir_file *file = weir_file_open_take(task);
        WEIR_TEST_GIVEN_BACK(&record);
        task = weir_file_read_new(file, 0, 100, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_file_data(task, &size), "fiber_io"));
        WEIR_TEST_GIVEN_BACK(&record);
        CU_ASSERT_EQUAL(weir_await(weir_file_close_new(file, NULL, NULL)), 0);
        weir_file_unref(file);
        task = weir_file_stat_new("/", true, NULL, NULL);
        CU_ASSERT_EQUAL(weir_await(task), 0);
        CU_ASSERT(S_ISDIR(weir_file_stat(task)->st_mode));
        CU_ASSERT_EQUAL(weir_await(weir_file_open_new("/no/such/file", O_RDONLY, 0, NULL, NULL)), -ENOENT);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        return 0;
}

static void
the_system_is_awaited(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, await_the_system, NULL), 0);
}

static _Atomic bool is_made;

static int
await_a_signal(void *context)
{
        weir_task *task = weir_signal_new(SIGUSR1, weir_test_done, &record); /* it counts signals from here */

        (void)context;
        is_made = true;
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(task, &record, 0);
        return 0;
}

static void
a_signal_is_awaited(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_fiber_new(await_a_signal, NULL, NULL), group), 0);
        WEIR_TEST_EVENTUALLY(is_made);
        raise(SIGUSR1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_free(group);
        weir_test_end();
}

/* -- datagrams -- */

static int
answer_datagrams(void *context)
{
        weir_udp *udp = context;

        for (;;) {
                weir_task *receive = weir_udp_receive_new(udp, NULL, NULL);
                int status = weir_await(receive);
                size_t size;

                if (status)
                        return status == -ECANCELED ? 0 : status;
                char copy[100];
                const void *data = weir_udp_data(receive, &size);
                memcpy(copy, data, size);
                CU_ASSERT_EQUAL(weir_await(weir_udp_reply_new(receive, copy, size, NULL, NULL)), 0);
        }
}

static int
await_datagrams(void *context)
{
        weir_udp *server = weir_udp_open("127.0.0.1:0"), *client = weir_udp_open("127.0.0.1:0");
        weir_group *group = weir_group_open();
        char to[40];
        size_t size;

        (void)context;
        snprintf(to, sizeof to, "127.0.0.1:%d", weir_udp_port(server));
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(answer_datagrams, NULL, server)), 0);
        for (unsigned i = 0; i < 10; i++) {
                WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_udp_send_new(client, to, "word", 4, weir_test_done, &record), &record, 0);
                weir_task *receive = weir_udp_receive_new(client, weir_test_done, &record);
                WEIR_TEST_AWAITED(receive, &record, 0);
                CU_ASSERT(memcmp(weir_udp_data(receive, &size), "word", 4) == 0 && size == 4);
                WEIR_TEST_GIVEN_BACK(&record);
        }
        weir_task *ask = weir_udp_ask_new(client, to, "ask", 3, NULL, weir_test_done, &record);
        WEIR_TEST_AWAITED(ask, &record, 0);
        CU_ASSERT(memcmp(weir_udp_data(ask, &size), "ask", 3) == 0 && size == 3);
        WEIR_TEST_GIVEN_BACK(&record);
        weir_group_cancel(group);
        int status = weir_group_close(group);
        weir_udp_unref(server);
        weir_udp_unref(client);
        return status == -ECANCELED ? 0 : status;
}

static void
datagrams_are_awaited(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, await_datagrams, NULL), 0);
}

/* -- a server of streams: a fiber a connection -- */

static _Atomic int begun, ended, end_status; /* `begun`: waits for ever */

static int
echo(void *context)
{
        weir_stream *stream = context;
        int status = 0;

        while (!status) {
                weir_task *read = weir_stream_read_new(stream, 1, 4096, NULL, NULL);

                status = weir_await(read);
                if (status)
                        break;
                size_t size;
                char copy[4096];
                const void *data = weir_stream_data(read, &size);
                memcpy(copy, data, size);
                bool waits = size == 4 && memcmp(copy, "wait", 4) == 0;
                begun += waits;
                status = waits ? weir_fiber_sleep(FAR) : weir_await(weir_stream_write_new(stream, copy, size, NULL, NULL));
        }
        end_status = status;
        ended++;
        return 0;
}

static void
serve_echo(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push(series, weir_fiber_new(echo, NULL, stream)), 0);
}

/* The protocol has the stream; each message is answered by a fiber. */
static int
answer_message(void *context)
{
        weir_task *message = context;
        size_t size;
        char copy[100];

        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(1)), 0);
        const void *data = weir_message_data(message, &size);
        memcpy(copy, data, size);
        return weir_message_reply(message, copy, size);
}

static void
begin_an_answer(weir_task *message, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_begin(message, answer_message, message), 0);
}

static const struct weir_protocol lines = {.size = sizeof lines, .delimiter = "\n", .delimiter_size = 1};

static void
serve_lines(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push(series, weir_protocol_serve_new(stream, &lines, begin_an_answer, NULL, NULL)), 0);
}

static weir_stream_server *
start(weir_stream_fn *handler, char address[40])
{
        weir_stream_server *server = weir_stream_server_new(NULL, handler, NULL);

        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        snprintf(address, 40, "127.0.0.1:%d", weir_stream_server_port(server));
        return server;
}

static int
talk(void *context)
{
        weir_task *connect = weir_connect_new(context, NULL, NULL);
        size_t size;

        CU_ASSERT_EQUAL(weir_await(connect), 0);
        weir_stream *stream = weir_connect_take_stream(connect);
        for (unsigned i = 0; i < 20; i++) {
                int length = 0;
                char text[32];

                length = snprintf(text, sizeof text, "message %u\n", i);
                WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_stream_write_new(stream, text, (size_t)length, weir_test_done, &record),
                                                 &record, 0);
                weir_task *read = weir_stream_read_until_new(stream, "\n", 1, 100, weir_test_done, &record);
                WEIR_TEST_AWAITED(read, &record, 0);
                CU_ASSERT(memcmp(weir_stream_data(read, &size), text, (size_t)length) == 0 && size == (size_t)length);
                WEIR_TEST_GIVEN_BACK(&record);
        }
        CU_ASSERT_EQUAL(weir_await_within(weir_stream_read_new(stream, 1, 1, NULL, NULL), WEIR_MSEC(1)), -ETIMEDOUT);
        weir_stream_unref(stream);
        return 0;
}

static int
dial(const char *address)
{
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        return fd;
}

static void
a_connection_is_a_fiber(void)
{
        char address[40];

        weir_test_begin_real(2);
        weir_stream_server *server = start(serve_echo, address);
        begun = ended = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(talk, NULL, address)), 0);
        WEIR_TEST_EVENTUALLY(ended == 1);

        int fd = dial(address);
        close(fd); /* while it reads */
        WEIR_TEST_EVENTUALLY(ended == 2);
        CU_ASSERT(end_status != 0);

        /* The client of one that does not look at its stream is not missed; a stop ends it. */
        fd = dial(address);
        CU_ASSERT_EQUAL(send(fd, "wait", 4, MSG_NOSIGNAL), 4);
        WEIR_TEST_EVENTUALLY(begun == 1);
        CU_ASSERT_EQUAL(ended, 2);
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, 0), 1);
        CU_ASSERT_EQUAL(ended, 3);
        CU_ASSERT_EQUAL(end_status, -ECANCELED);
        close(fd);
        weir_stream_server_free(server);
        weir_test_end();
}

static int
ask_lines(void *context)
{
        weir_endpoint *endpoint = weir_endpoint_new(context, &lines);
        size_t size;

        for (unsigned i = 0; i < 10; i++) {
                weir_task *ask = weir_ask_new(endpoint, "question\n", 9, weir_test_done, &record);
                WEIR_TEST_AWAITED(ask, &record, 0);
                CU_ASSERT(memcmp(weir_ask_reply(ask, &size), "question\n", 9) == 0 && size == 9);
                WEIR_TEST_GIVEN_BACK(&record);
        }
        weir_endpoint_unref(endpoint);
        return 0;
}

static void
a_message_is_answered_by_a_fiber(void)
{
        char address[40];

        weir_test_begin_real(2);
        weir_stream_server *server = start(serve_lines, address);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(ask_lines, NULL, address)), 0);
        weir_stream_server_free(server);
        weir_test_end();
}

/* -- a server of HTTP: a fiber an exchange -- */

static char url[64];

static void
compute(void *context)
{
        ++*(int *)context;
}

static int
answer(void *context)
{
        weir_task *exchange = context;
        int computed = 0;

        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(1)), 0);
        CU_ASSERT_EQUAL(weir_fiber_go(compute, &computed), 0);
        CU_ASSERT_EQUAL(computed, 1);
        if (strcmp(weir_http_path(exchange), "/nested") == 0) {
                char inner[80];

                snprintf(inner, sizeof inner, "%s/plain", url);
                weir_task *get = weir_http_get_new(inner, NULL, NULL);
                CU_ASSERT_EQUAL(weir_await(get), 0);
                return weir_http_reply_printf(exchange, "nested %s", (const char *)weir_http_response_body(get, NULL));
        }
        if (strcmp(weir_http_path(exchange), "/stream") == 0) {
                for (unsigned i = 0; i < 5; i++) {
                        weir_task *write = weir_http_write_new(exchange, "piece ", 6, NULL, NULL);
                        CU_ASSERT_EQUAL(weir_await(write), 0);
                }
                return 0;
        }
        return weir_http_reply_text(exchange, 200, "word");
}

static int
wait_for_ever(void *context)
{
        (void)context;
        begun++;
        end_status = weir_fiber_sleep(FAR);
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, NULL, NULL)), end_status);
        ended++;
        return 0;
}

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        weir_fiber_fn *function = strcmp(weir_http_path(exchange), "/wait") == 0 ? wait_for_ever : answer;

        CU_ASSERT_EQUAL(weir_fiber_begin(exchange, function, exchange), 0);
}

static void
get(const char *path, const char *body)
{
        char whole[80];
        size_t size;

        snprintf(whole, sizeof whole, "%s%s", url, path);
        weir_task *request = weir_http_request_new("GET", whole, weir_test_done, &record);
        WEIR_TEST_AWAITED(request, &record, 0);
        CU_ASSERT_EQUAL(weir_http_response_status(request), 200);
        CU_ASSERT_STRING_EQUAL(weir_http_response_body(request, &size), body);
        WEIR_TEST_GIVEN_BACK(&record);
}

static int
see_it_begun(void *context)
{
        (void)context;
        while (begun == 0)
                CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(1)), 0);
        return 0;
}

static int
call_pieces(void *context)
{
        char whole[80], got[100] = "";

        (void)context;
        get("/plain", "word");
        get("/plain", "word");
        get("/nested", "nested word");
        get("/stream", "piece piece piece piece piece ");

        snprintf(whole, sizeof whole, "%s/stream", url);
        weir_http_call *call = weir_http_call_new(NULL, "GET", whole);
        CU_ASSERT_EQUAL(weir_await(weir_http_call_head_new(call, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_http_call_status(call), 200);
        for (bool is_last = false; !is_last;) {
                size_t size;
                weir_task *read = weir_http_call_read_new(call, NULL, NULL);

                CU_ASSERT_EQUAL(weir_await(read), 0);
                const char *data = weir_http_call_data(read, &size);
                strncat(got, data, size);
                is_last = weir_http_call_is_last(read);
        }
        CU_ASSERT_STRING_EQUAL(got, "piece piece piece piece piece ");
        weir_http_call_unref(call);
        snprintf(whole, sizeof whole, "%s/wait", url);
        weir_task *race = weir_race_new(NULL, NULL);
        weir_race_add(race, weir_http_get_new(whole, NULL, NULL));
        weir_race_add(race, weir_fiber_new(see_it_begun, NULL, NULL));
        CU_ASSERT_EQUAL(weir_await(race), 0);
        CU_ASSERT_EQUAL(weir_race_winner(race), 1);
        return 0;
}

static void
an_exchange_is_a_fiber(void)
{
        weir_test_begin_real(2);
        weir_http_server *server = weir_http_server_new(NULL, handle, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d", weir_http_server_port(server));
        begun = ended = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(call_pieces, NULL, NULL)), 0);
        WEIR_TEST_EVENTUALLY(ended == 1); /* its client has given up */
        CU_ASSERT_EQUAL(end_status, -ECANCELED);

        int fd = dial(url);
        CU_ASSERT_EQUAL(send(fd, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", 32, MSG_NOSIGNAL), 32);
        WEIR_TEST_EVENTUALLY(begun == 2);
        close(fd);
        WEIR_TEST_EVENTUALLY(ended == 2);
        CU_ASSERT_EQUAL(end_status, -ECANCELED);

        fd = dial(url);
        CU_ASSERT_EQUAL(send(fd, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", 32, MSG_NOSIGNAL), 32);
        WEIR_TEST_EVENTUALLY(begun == 3);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, 0), 1);
        CU_ASSERT_EQUAL(ended, 3);
        close(fd);
        weir_http_server_free(server);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_system_is_awaited),
                WEIR_TEST(a_signal_is_awaited),
                WEIR_TEST(datagrams_are_awaited),
                WEIR_TEST(a_connection_is_a_fiber),
                WEIR_TEST(a_message_is_answered_by_a_fiber),
                WEIR_TEST(an_exchange_is_a_fiber),
        };

        return weir_test_main("fiber_io", tests, sizeof tests / sizeof *tests);
}
