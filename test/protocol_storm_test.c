/* test/protocol_storm_test.c: own protocols on several threads: requests, cancels, pushes, closes; and memory that runs out. */
#include "test/blocks_fixture.h"
#include "test/protocol_fixture.h"

#define THREADS 3

static const struct weir_protocol *protocol;
static weir_stream_server *server;
static weir_endpoint *endpoint;
static _Atomic unsigned answered, cancelled, failed, under_way, serving;

/* -- the server -- */

/* Some replies come late, some are pushes, and some connections are closed. */
static void
answer(weir_task *message, void *context)
{
        size_t size;
        const char *data = weir_message_data(message, &size);
        unsigned what = (unsigned char)data[size - 1];

        (void)context;
        if (weir_task_status(message) != 0)
                return;
        CU_ASSERT_EQUAL(weir_message_reply(message, data, size), 0);
        if (what % 8 == 0)
                weir_series_push(weir_series_of(message), weir_timer_new(WEIR_USEC(what * 10), NULL, NULL));
        if (what % 32 == 1 && protocol->id_width)
                weir_task_start(weir_session_send_new(weir_message_session(message), data, size, NULL, NULL));
        if (what % 64 == 2)
                weir_session_close(weir_message_session(message));
}

static void
served(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_sub(&serving, 1);
}

static void
on_connection(weir_stream *stream, weir_series *series, void *context)
{
        atomic_fetch_add(&serving, 1);
        weir_series_push(series, weir_protocol_serve_new(stream, protocol, answer, served, context));
}

/* -- clients -- */

static void
note(weir_task *ask, void *context)
{
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);
        int status = weir_task_status(ask);

        if (status == 0)
                CU_ASSERT(size == (size_t)(uintptr_t)context && reply[size - 1] == (char)(uintptr_t)context);
        atomic_fetch_add(status == 0 ? &answered : status == -ECANCELED ? &cancelled : &failed, 1);
        atomic_fetch_sub(&under_way, 1);
}

static void
see_push(weir_task *message, void *context)
{
        size_t size;

        (void)context;
        weir_message_data(message, &size);
        CU_ASSERT(size >= 2);
}

static void *
ask_many(void *seed)
{
        struct weir_test_random random;
        char text[300] = "";

        random = (struct weir_test_random){.state = weir_test_seed() + (uintptr_t)seed};
        for (unsigned i = 0; i < 20000; i++) {
                unsigned size = 2 + (unsigned)weir_test_random_below(&random, 250);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                text[size - 1] = (char)size;
                while (atomic_load(&under_way) > 200)
                        weir_test_sleep(10000);
                atomic_fetch_add(&under_way, 1);
                weir_series_push(series, weir_ask_new(endpoint, text, size, note, (void *)(uintptr_t)size));
                weir_series_start(series);
                if (weir_test_random_below(&random, 8) == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
begin(const struct weir_protocol *with)
{
        char address[64];

        protocol = with;
        answered = cancelled = failed = under_way = serving = 0;
        weir_test_begin_real(2);
        server = weir_stream_server_new(NULL, on_connection, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        endpoint = weir_endpoint_new(address, protocol);
        CU_ASSERT_PTR_NOT_NULL_FATAL(endpoint);
}

static void
end(void)
{
        weir_endpoint_unref(endpoint);
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, WEIR_TEST_TOLERANCE), 0);
        CU_ASSERT_EQUAL(atomic_load(&serving), 0); /* all connections are closed */
        weir_stream_server_free(server);
        weir_test_end();
        weir_test_free_kept();
}

static void
storm(const struct weir_protocol *with)
{
        pthread_t threads[THREADS];

        begin(with); /* what the library opens once, it has open from here on */
        end();
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t bytes = bytes_out;
        begin(with);
        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, ask_many, (void *)(i + 1));
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < 30000 && atomic_load(&under_way); i++)
                weir_test_sleep(1000000);
        CU_ASSERT_EQUAL(atomic_load(&under_way), 0);
        CU_ASSERT(atomic_load(&answered) > atomic_load(&cancelled));
        end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(bytes_out, bytes);
}

static const struct weir_protocol in_order = {
        .size = sizeof in_order, .length_width = 2, .length_adjust = 2, .bare = true, .depth = 8, .connections = 4};
static const struct weir_protocol numbered = {.size = sizeof numbered,
                                              .length_width = 2,
                                              .length_adjust = 2,
                                              .bare = true,
                                              .id_at = 2,
                                              .id_width = 1,
                                              .depth = 16,
                                              .connections = 3,
                                              .unsolicited = see_push};

static void
note_status(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
}

static void
a_storm_in_order_leaves_nothing_behind(void)
{
        storm(&in_order);
}

static void
a_storm_with_numbers_leaves_nothing_behind(void)
{
        storm(&numbered);
}

/* -- a server that stops -- */

static int
ask_once(void)
{
        int status = 1;
        int result = weir_task_run(weir_ask_new(endpoint, "??x", 3, note_status, &status));

        CU_ASSERT_EQUAL(result, status);
        return status;
}

/* Idle connections do not hold it up. */
static void
a_stop_closes_what_is_idle(void)
{
        begin(&in_order);
        CU_ASSERT_EQUAL(ask_once(), 0);
        int64_t began = weir_test_now();
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, WEIR_TEST_TOLERANCE), 0);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        int late = ask_once();
        CU_ASSERT(late == -ECONNREFUSED || late == -ECONNRESET); /* the client may not have seen the end */
        end();
}

/* -- a frame function that blocks -- */

static _Atomic bool blocks;
static struct weir_test_latch frame_began, frame_opened;

static ssize_t
frame_that_blocks(const void *data, size_t size, void *context)
{
        (void)data;
        (void)context;
        if (atomic_exchange(&blocks, false)) {
                weir_test_latch_count_down(&frame_began);
                weir_test_latch_wait(&frame_opened);
        }
        return size < 4 ? 0 : 4;
}

static const struct weir_protocol blocking = {.size = sizeof blocking, .frame = frame_that_blocks};

/* Of one poller: without the watchdog the timer could not run. */
static void
a_frame_function_that_blocks_loses_the_poller(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct weir_test_record timer = {0}, serve = {0};
        int ends[2];
        char back[8];

        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_latch_init(&frame_began, 1);
        weir_test_latch_init(&frame_opened, 1);
        blocks = true;
        forget_heard();
        weir_stream *stream = weir_stream_of(ends[0]);
        weir_task_start(weir_protocol_serve_new(stream, &blocking, echo, weir_test_done, &serve));
        weir_stream_unref(stream);
        put(ends[1], "abcdefgh");
        weir_test_latch_wait(&frame_began);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_MSEC(1), weir_test_done, &timer)), 0);
        CU_ASSERT_EQUAL(timer.calls, 1);
        weir_test_latch_count_down(&frame_opened);
        CU_ASSERT_EQUAL(recv(ends[1], back, sizeof back, MSG_WAITALL), 8);
        CU_ASSERT_EQUAL(memcmp(back, "abcdefgh", 8), 0);
        close(ends[1]);
        weir_test_end();
        CU_ASSERT_EQUAL(serve.calls, 1);
}

static weir_session *kept;
static struct weir_test_latch handled;

static void
keep_session(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        kept = weir_session_ref(weir_message_session(message));
        weir_test_latch_count_down(&handled);
}

static void
see_bytes(weir_task *read, void *context)
{
        size_t size;
        const void *data = weir_stream_data(read, &size);

        CU_ASSERT_EQUAL(weir_task_status(read), 0);
        CU_ASSERT_EQUAL(size, 4);
        memcpy(context, data, 4);
}

/* The session is closed while the function looks at a message: that stays in the stream, which the program has again. */
static void
a_close_loses_no_byte_that_a_function_looks_at(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct weir_test_record serve = {0};
        int ends[2], status = 1;
        char left[5] = "";

        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_latch_init(&frame_began, 1);
        weir_test_latch_init(&frame_opened, 1);
        weir_test_latch_init(&handled, 1);
        forget_heard();
        weir_stream *stream = weir_stream_of(ends[0]);
        weir_task_start(weir_protocol_serve_new(stream, &blocking, keep_session, weir_test_done, &serve));
        put(ends[1], "abcd");
        weir_test_latch_wait(&handled);
        blocks = true;
        put(ends[1], "efgh");
        weir_test_latch_wait(&frame_began);
        weir_session_close(kept);
        CU_ASSERT_EQUAL(weir_task_run(weir_session_send_new(kept, "push", 4, note_status, &status)), 0); /* behind the close */
        weir_test_latch_count_down(&frame_opened);
        WEIR_TEST_EVENTUALLY(serve.calls == 1);
        CU_ASSERT_EQUAL(serve.status, 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_read_new(stream, 4, 4, see_bytes, left)), 0);
        CU_ASSERT_STRING_EQUAL(left, "efgh");
        HEARD("abcd|");
        GOT(ends[1], "push");
        weir_session_unref(kept);
        weir_stream_unref(stream);
        close(ends[1]);
        weir_test_end();
}

static struct weir_test_latch handler_opened;
static _Atomic unsigned handlers_done;

static void
block(weir_task *message, void *context)
{
        keep_session(message, context);
        weir_test_latch_wait(&handler_opened);
        atomic_fetch_add(&handlers_done, 1);
}

static void
see_served(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(handlers_done, 1);
        weir_test_done(task, context);
}

/* With a callback, and without one: then the series tells. */
static void
cancel_while_a_handler_runs(weir_task_fn *done)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct weir_test_record serve = {0}, all = {0};
        int ends[2], status = 1;

        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_latch_init(&handled, 1);
        weir_test_latch_init(&handler_opened, 1);
        handlers_done = 0;
        forget_heard();
        weir_stream *stream = weir_stream_of(ends[0]);
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &all));
        weir_series_push(series, weir_protocol_serve_new(stream, &blocking, block, done, &serve));
        weir_series_start(series);
        weir_stream_unref(stream);
        put(ends[1], "abcd");
        weir_test_latch_wait(&handled);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_task_run(weir_session_send_new(kept, "push", 4, note_status, &status)), -EPIPE); /* behind it */
        CU_ASSERT_EQUAL(serve.calls, 0);
        CU_ASSERT_EQUAL(all.calls, 0);
        weir_test_latch_count_down(&handler_opened);
        WEIR_TEST_EVENTUALLY(all.calls == 1);
        CU_ASSERT_EQUAL(serve.calls, done != NULL);
        CU_ASSERT(!done || serve.status == -ECANCELED);
        weir_session_unref(kept);
        weir_series_unref(series);
        close(ends[1]);
        weir_test_end();
}

static void
a_cancelled_server_waits_for_its_handlers(void)
{
        cancel_while_a_handler_runs(see_served);
        cancel_while_a_handler_runs(NULL);
}

static weir_stream *gate;
static _Atomic unsigned at_gate;

static void
wait_at_gate(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        weir_series_push(weir_series_of(message), weir_stream_read_new(gate, 1, 1, NULL, NULL));
        atomic_fetch_add(&at_gate, 1);
}

/* It blocks at the first "+a". */
static uint64_t
match_that_blocks(const void *message, size_t size, void *context)
{
        const char *text = message;

        (void)context;
        if (size == 2 && text[1] == 'a' && atomic_exchange(&blocks, false)) {
                weir_test_latch_count_down(&frame_began);
                weir_test_latch_wait(&frame_opened);
        }
        return size && *text == '+' ? WEIR_MATCH_NONE : WEIR_MATCH_OLDEST;
}

static const struct weir_protocol matched = {.size = sizeof matched,
                                             .delimiter = "\n",
                                             .delimiter_size = 1,
                                             .bare = true,
                                             .depth = 4,
                                             .connections = 1,
                                             .match = match_that_blocks,
                                             .unsolicited = wait_at_gate};

/* A request lets more messages in; it is cancelled while a function looks at them. */
static void
messages_that_found_no_room_are_looked_at_again(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        struct weir_test_record all = {0};
        socklen_t size = sizeof name;
        char address[128], bytes[70] = "";
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ends[2];

        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        snprintf(address, sizeof address, "unix:@%.*s", (int)(size - offsetof(struct sockaddr_un, sun_path) - 1),
                 name.sun_path + 1);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_latch_init(&frame_began, 1);
        weir_test_latch_init(&frame_opened, 1);
        blocks = true;
        forget_heard();
        gate = weir_stream_of(ends[0]);
        weir_endpoint *client = weir_endpoint_new(address, &matched);
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &all));
        weir_series_push(series, weir_ask_new(client, ".", 1, NULL, NULL));
        weir_series_start(series);
        int peer = accept(listener, NULL, NULL);
        for (unsigned i = 0; i < 64; i++)
                put(peer, "+\n");
        put(peer, "+a\n+b\n+cc");
        weir_test_latch_wait(&frame_began);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(all.calls == 1);
        weir_test_latch_count_down(&frame_opened);
        put_bytes(ends[1], bytes, 64);
        put(peer, "\n");
        put_bytes(ends[1], bytes, 3);
        WEIR_TEST_EVENTUALLY(at_gate == 67);
        CU_ASSERT_STRING_EQUAL(heard + strlen(heard) - 10, "+a|+b|+cc|");
        weir_series_unref(series);
        weir_endpoint_unref(client);
        close(peer);
        close(listener);
        weir_stream_unref(gate);
        close(ends[1]);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_in_order_leaves_nothing_behind),
                WEIR_TEST(a_storm_with_numbers_leaves_nothing_behind),
                WEIR_TEST(a_stop_closes_what_is_idle),
                WEIR_TEST(a_frame_function_that_blocks_loses_the_poller),
                WEIR_TEST(a_close_loses_no_byte_that_a_function_looks_at),
                WEIR_TEST(a_cancelled_server_waits_for_its_handlers),
                WEIR_TEST(messages_that_found_no_room_are_looked_at_again),
        };

        return weir_test_main("protocol_storm", tests, sizeof tests / sizeof *tests);
}
