/* test/reference_protocol_guide_test.c: the examples of the reference for weir/protocol.h.
 *
 * They run on the virtual clock. */
#include "test/fixture.h"

#include <errno.h>
#include <sys/socket.h>

static void
note_status(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
}

/* -- weir/protocol.h -- */

static const struct weir_protocol words = {
        .size = sizeof(struct weir_protocol), .length_width = 1, .length_adjust = 1, .bare = true};

static weir_session *subscriber; /* who gets news */

static void
forget(void *count)
{
        ++*(int *)count;
}

static void
answer(weir_task *message, void *count)
{
        size_t size;
        const char *word = weir_message_data(message, &size);
        weir_session *session = weir_message_session(message);

        if (strcmp(word, "subscribe") == 0)
                subscriber = weir_session_ref(session);
        if (!weir_session_context(session))
                weir_session_set_context(session, count, forget);
        weir_message_reply(message, word, size);
}

static void
a_protocol_is_served(void)
{
        static const char subscribe[] = "\011subscribe", news[] = "\011subscribe\4news";
        char seen[64] = "";
        int ends[2], status = 1, sent = 1, forgotten = 0;

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        weir_stream *stream = weir_stream_of(ends[0]);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_protocol_serve_new(stream, &words, answer, NULL, &forgotten));
        weir_series_push(series, weir_empty_new(note_status, &status));
        weir_series_start(series);
        weir_stream_unref(stream);
        CU_ASSERT(write(ends[1], subscribe, sizeof subscribe - 1) == sizeof subscribe - 1);
        weir_clock_advance(0);
        weir_task_start(weir_session_send_new(subscriber, "news", 4, note_status, &sent));
        weir_session_close(subscriber);
        weir_clock_advance(0);
        CU_ASSERT(status == 0 && sent == 0);
        CU_ASSERT(read(ends[1], seen, sizeof seen) == sizeof news - 1 && memcmp(seen, news, sizeof news - 1) == 0);
        weir_session_unref(subscriber);
        CU_ASSERT(forgotten == 1);
        close(ends[1]);
}

static void
note_reply(weir_task *ask, void *text)
{
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);

        snprintf(text, 64, "%d %d %.*s", weir_task_status(ask), (int)weir_ask_stage(ask), (int)size, reply);
}

static void
a_server_is_asked(void)
{
        weir_endpoint *endpoint = weir_endpoint_new("unix:@nobody-listens-here", &words);
        weir_tls *tls = weir_tls_client_new(&(struct weir_tls_config){.size = sizeof(struct weir_tls_config), .insecure = true});
        weir_endpoint *secure = weir_endpoint_tls_new("unix:@nobody-listens-here", tls, "server.example", &words);
        char seen[64] = "", expected[64];

        snprintf(expected, sizeof expected, "%d %d ", -ECONNREFUSED, WEIR_ASK_CONNECTING);
        weir_task_start(weir_ask_new(weir_endpoint_ref(endpoint), "hello", 5, note_reply, seen));
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(seen, expected);
        CU_ASSERT(weir_endpoint_connections(endpoint) == 0 && weir_endpoint_requests(endpoint) == 0);
        struct weir_endpoint_stats stats = WEIR_ENDPOINT_STATS_DEFAULT;
        CU_ASSERT(weir_endpoint_stats(endpoint, &stats) == 0 && stats.asked == 1 && stats.refused == 1);
        weir_task_start(weir_ask_new(secure, "hello", 5, note_reply, seen));
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(seen, expected);
        weir_tls_unref(tls);
        weir_endpoint_unref(secure);
        weir_endpoint_unref(endpoint);
        weir_endpoint_unref(endpoint);
}

/* A library's own task is a promise, of which the request is a part. */
static void
note_direct(struct weir_direct_ask *ask, int status, const void *reply, size_t size)
{
        (void)reply;
        CU_ASSERT(size == 0 && weir_direct_stage(ask) == WEIR_ASK_CONNECTING);
        weir_promise_end(*(weir_task **)(ask + 1), status);
}

static void
a_request_is_a_part_of_a_promise(void)
{
        static const struct weir_protocol lines = {.size = sizeof lines, .delimiter = "\n", .delimiter_size = 1};
        weir_endpoint *endpoint = weir_endpoint_new("unix:@nobody-listens-here", &lines);
        int status = 1;
        struct {
                struct weir_direct_ask ask;
                weir_task *promise;
        } own = {{.data = "hello\n", .size = 6, .done = note_direct}, weir_promise_new(NULL, note_status, &status)};

        weir_promise_ref(own.promise);
        weir_task_start(own.promise);
        CU_ASSERT(weir_ask_directly(endpoint, &own.ask) == 0);
        weir_clock_advance(0);
        CU_ASSERT(status == -ECONNREFUSED);
        weir_promise_unref(own.promise);
        weir_endpoint_unref(endpoint);
}

/* Pairs of lines.  A long one that comes in pieces is read once. */
static ssize_t
end_of_pair(const void *data, size_t size, void *context)
{
        uint64_t *seen = weir_frame_words(); /* bytes looked at, lines found */

        (void)context;
        while (seen[0] < size)
                if (((const char *)data)[seen[0]++] == '\n' && ++seen[1] == 2)
                        return (ssize_t)seen[0];
        return 0;
}

static void
a_description_is_made_while_the_program_runs(void)
{
        struct weir_protocol *pairs = malloc(sizeof *pairs);

        *pairs = (struct weir_protocol){.size = sizeof *pairs, .frame = end_of_pair};
        weir_endpoint *endpoint = weir_endpoint_new("unix:@nobody-listens-here", pairs);
        weir_endpoint_on_free(endpoint, free, pairs);
        weir_endpoint_unref(endpoint);
}

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(a_protocol_is_served)
EXAMPLE(a_server_is_asked)
EXAMPLE(a_request_is_a_part_of_a_promise)
EXAMPLE(a_description_is_made_while_the_program_runs)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_protocol_is_served),
        WEIR_TEST(run_a_server_is_asked),
        WEIR_TEST(run_a_request_is_a_part_of_a_promise),
        WEIR_TEST(run_a_description_is_made_while_the_program_runs),
};

int
main(void)
{
        return weir_test_main("reference_protocol_guide", tests, sizeof tests / sizeof *tests);
}
