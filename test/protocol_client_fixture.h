/* test/protocol_client_fixture.h: an endpoint whose peers are the test's, and requests that record what they saw. */
#ifndef WEIR_TEST_PROTOCOL_CLIENT_FIXTURE_H
#define WEIR_TEST_PROTOCOL_CLIENT_FIXTURE_H

#include "net/protocol/endpoint.h"
#include "test/protocol_fixture.h"

#define MOST 64

static int listener;
static weir_endpoint *endpoint;
static char endpoint_address[64];
static unsigned fds_before;

static const struct weir_protocol lines = {
        .size = sizeof lines, .delimiter = "\n", .delimiter_size = 1, .bare = true, .connections = 2};
static const struct weir_protocol piped = {
        .size = sizeof piped, .delimiter = "\n", .delimiter_size = 1, .bare = true, .connections = 1, .depth = 4};
static const struct weir_protocol numbered = {.size = sizeof numbered,
                                              .delimiter = "\n",
                                              .delimiter_size = 1,
                                              .bare = true,
                                              .connections = 1,
                                              .depth = 4,
                                              .id_width = 1};

static inline void begin_with_pollers(const struct weir_protocol *protocol, int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        static unsigned number;

        forget_heard();
        int size = snprintf(endpoint_address, sizeof endpoint_address, "unix:@weir-protocol-%d-%u", getpid(), number++);
        memcpy(name.sun_path + 1, endpoint_address + 6, (size_t)size - 6);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name,
                                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size - 6)),
                              0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, MOST), 0);
        config.clock = WEIR_CLOCK_VIRTUAL;
        config.pollers = pollers;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        endpoint = weir_endpoint_new(endpoint_address, protocol);
        CU_ASSERT_PTR_NOT_NULL_FATAL(endpoint);
        weir_test_pass(0);
        fds_before = weir_test_entries_of("/proc/self/fd");
}

static inline void begin(const struct weir_protocol *protocol)
{
        begin_with_pollers(protocol, 0);
}

static inline void end(void)
{
        if (endpoint)
                CU_ASSERT_EQUAL(atomic_load(&endpoint->waits), 0);
        weir_endpoint_unref(endpoint);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds_before);
        weir_test_end();
        close(listener);
}

/* The next connection; -1: there is none. */
static inline int take(void)
{
        return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static inline int must_take(void)
{
        int fd = take();

        CU_ASSERT_FATAL(fd >= 0);
        return fd;
}

/* The library's end of the only connection to the listener. */
static inline int other_end(void)
{
        struct sockaddr_un name, its;
        socklen_t size = sizeof name;

        getsockname(listener, (struct sockaddr *)&name, &size);
        for (int fd = 0; fd < 1024; fd++) {
                socklen_t its_size = sizeof its;

                if (getpeername(fd, (struct sockaddr *)&its, &its_size) == 0 && its_size == size &&
                    memcmp(&its, &name, size) == 0)
                        return fd;
        }
        CU_FAIL_FATAL("no connection");
        return -1;
}

static inline void log_in(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "USER\n", 5, NULL, NULL));
        weir_series_push(series, weir_stream_read_until_new(stream, "\n", 1, 100, NULL, NULL));
}

static inline uint64_t match_letter(const void *message, size_t size, void *context)
{
        const char *text = message;

        (void)context;
        return !size || *text == '+' ? WEIR_MATCH_NONE : *text == '.' ? WEIR_MATCH_OLDEST : (uint64_t)*text;
}

/* A message is a digit and that many lines.  It notes how many bytes it has looked at. */
static size_t looked;

static inline ssize_t frame_of_lines(const void *data, size_t size, void *context)
{
        const char *bytes = data;
        uint64_t *words = weir_frame_words(); /* how far it has looked; lines so far */

        (void)context;
        while (words[0] < size) {
                looked++;
                if (bytes[words[0]++] == '\n' && ++words[1] == (uint64_t)(bytes[0] - '0'))
                        return (ssize_t)words[0];
        }
        return 0;
}

/* -- requests that record what they saw -- */

struct asked {
        struct weir_test_record record;
        char reply[64];
        enum weir_ask_stage stage;
        weir_series *series;
};

static inline void see(weir_task *ask, void *context)
{
        struct asked *asked = context;
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);

        CU_ASSERT_EQUAL(reply[size], '\0');
        snprintf(asked->reply, sizeof asked->reply, "%s", reply);
        asked->stage = weir_ask_stage(ask);
        weir_test_note(&asked->record, weir_task_status(ask));
}

static inline void start_to_ask(struct asked *asked, const void *bytes, size_t size)
{
        *asked = (struct asked){0};
        asked->series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(asked->series, weir_test_recorded(weir_ask_new(endpoint, bytes, size, see, asked)));
        CU_ASSERT_EQUAL(weir_series_start(asked->series), 0);
}

static inline void ask_bytes(struct asked *asked, const void *bytes, size_t size)
{
        start_to_ask(asked, bytes, size);
        weir_test_pass(0);
}

static inline void ask(struct asked *asked, const char *text)
{
        ask_bytes(asked, text, strlen(text));
}

#define LARGE ((1 << 20) - 8) /* bytes: the socket takes a part of them */

static inline void ask_large(struct asked *asked)
{
        static char bytes[LARGE];

        memset(bytes, 'x', sizeof bytes);
        ask_bytes(asked, bytes, sizeof bytes);
}

/* The peer takes the large request, the end of its line, and what follows. */
static inline void take_large(int peer, const char *behind)
{
        size_t size = 0, all = 0, whole = LARGE + 1 + strlen(behind);
        const char *text = "";

        for (unsigned i = 0; i < 100 && all < whole; i++, all += size) {
                text = got(peer, &size);
                weir_test_pass(0);
        }
        CU_ASSERT_EQUAL(all, whole);
        CU_ASSERT_STRING_EQUAL(text + (size < strlen(behind) ? 0 : size - strlen(behind)), behind);
}

static inline void cancel(struct asked *asked)
{
        weir_series_cancel(asked->series);
        weir_test_pass(0);
}

static inline void answer(int peer, const char *text)
{
        put(peer, text);
        weir_test_pass(0);
}

static inline void hang_up(int peer)
{
        close(peer);
        weir_test_pass(0);
}

#define SAW(asked, status_, reply_, stage_)                       \
        do {                                                      \
                WEIR_TEST_CALLED(&(asked)->record, (status_));    \
                CU_ASSERT_STRING_EQUAL((asked)->reply, (reply_)); \
                CU_ASSERT_EQUAL((asked)->stage, (stage_));        \
                weir_series_unref((asked)->series);               \
        } while (0)
#define ANSWERED(asked, reply_) SAW(asked, 0, reply_, WEIR_ASK_ANSWERED)
#define WAITS(asked)            CU_ASSERT_EQUAL((asked)->record.calls, 0)

#endif
