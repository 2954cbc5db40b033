/* test/protocol_client_test.c: the client's side of own protocols: endpoints, their connections and requests. */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <malloc.h>

#include "test/protocol_fixture.h"

#define MOST 64

static int listener;
static weir_endpoint *endpoint;
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

static void
begin_with_pollers(const struct weir_protocol *protocol, int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        char text[64];
        static unsigned number;

        forget_heard();
        int size = snprintf(text, sizeof text, "unix:@weir-protocol-%d-%u", getpid(), number++);
        memcpy(name.sun_path + 1, text + 6, (size_t)size - 6);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name,
                                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size - 6)),
                              0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, MOST), 0);
        config.clock = WEIR_CLOCK_VIRTUAL;
        config.pollers = pollers;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        endpoint = weir_endpoint_new(text, protocol);
        CU_ASSERT_PTR_NOT_NULL_FATAL(endpoint);
        weir_test_pass(0);
        fds_before = weir_test_entries_of("/proc/self/fd");
}

static void
begin(const struct weir_protocol *protocol)
{
        begin_with_pollers(protocol, 0);
}

static void
end(void)
{
        weir_endpoint_unref(endpoint);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds_before);
        weir_test_end();
        close(listener);
}

/* The next connection; -1: there is none. */
static int
take(void)
{
        return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static int
must_take(void)
{
        int fd = take();

        CU_ASSERT_FATAL(fd >= 0);
        return fd;
}

/* -- requests that record what they saw -- */

struct asked {
        struct weir_test_record record;
        char reply[64];
        enum weir_ask_stage stage;
        weir_series *series;
};

static void
see(weir_task *ask, void *context)
{
        struct asked *asked = context;
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);

        CU_ASSERT_EQUAL(reply[size], '\0');
        snprintf(asked->reply, sizeof asked->reply, "%s", reply);
        asked->stage = weir_ask_stage(ask);
        weir_test_note(&asked->record, weir_task_status(ask));
}

static void
start_to_ask(struct asked *asked, const void *bytes, size_t size)
{
        *asked = (struct asked){0};
        asked->series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(asked->series, weir_test_recorded(weir_ask_new(endpoint, bytes, size, see, asked)));
        CU_ASSERT_EQUAL(weir_series_start(asked->series), 0);
}

static void
ask_bytes(struct asked *asked, const void *bytes, size_t size)
{
        start_to_ask(asked, bytes, size);
        weir_test_pass(0);
}

static void
ask(struct asked *asked, const char *text)
{
        ask_bytes(asked, text, strlen(text));
}

#define LARGE ((1 << 20) - 8) /* bytes: the socket takes a part of them */

static void
ask_large(struct asked *asked)
{
        static char bytes[LARGE];

        memset(bytes, 'x', sizeof bytes);
        ask_bytes(asked, bytes, sizeof bytes);
}

/* The peer takes the large request, the end of its line, and what follows. */
static void
take_large(int peer, const char *behind)
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

static void
cancel(struct asked *asked)
{
        weir_series_cancel(asked->series);
        weir_test_pass(0);
}

static void
answer(int peer, const char *text)
{
        put(peer, text);
        weir_test_pass(0);
}

static void
hang_up(int peer)
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

/* -- the pool -- */

static void
a_request_gets_its_reply(void)
{
        struct asked asked;

        begin(&lines);
        ask(&asked, "hello");
        CU_ASSERT_EQUAL(weir_endpoint_requests(endpoint), 1);
        int peer = must_take();
        GOT(peer, "hello\n");
        WAITS(&asked);
        answer(peer, "wor");
        WAITS(&asked);
        answer(peer, "ld\n");
        ANSWERED(&asked, "world");
        CU_ASSERT_EQUAL(weir_endpoint_requests(endpoint), 0);
        ask(&asked, "again");
        CU_ASSERT_EQUAL(take(), -1); /* on the same connection */
        GOT(peer, "again\n");
        answer(peer, "\n");
        ANSWERED(&asked, "");
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 1);
        close(peer);
        end();
}

static void
requests_wait_in_order_for_few_connections(void)
{
        struct asked asked[8];
        char text[2] = "0";

        begin(&lines);
        for (unsigned i = 0; i < 8; i++, text[0]++)
                ask(&asked[i], text);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 2);
        int first = must_take(), second = must_take();
        CU_ASSERT_EQUAL(take(), -1);
        GOT(first, "0\n");
        GOT(second, "1\n");
        for (unsigned i = 0; i < 6; i++) {
                char expected[3] = {(char)('2' + i), '\n', '\0'};
                int peer = i % 2 ? second : first;

                answer(peer, "x\n");
                GOT(peer, expected);
        }
        answer(first, "x\n");
        answer(second, "x\n");
        for (unsigned i = 0; i < 8; i++)
                ANSWERED(&asked[i], "x");
        close(first);
        close(second);
        end();
}

static void
an_idle_connection_is_closed_after_a_time(void)
{
        struct asked asked;

        begin(&lines);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        weir_test_pass(WEIR_SEC(49));
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "<end>");
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        close(peer);
        weir_test_pass(WEIR_SEC(10));
        end();
}

static void
a_byte_or_an_end_closes_an_idle_connection(void)
{
        struct asked asked;

        begin(&lines);
        for (unsigned i = 0; i < 3; i++) {
                ask(&asked, "x");
                int peer = must_take();
                if (i < 2)
                        GOT(peer, "x\n");
                answer(peer, i < 2 ? "y\n" : "y\nz"); /* the last: behind the reply */
                ANSWERED(&asked, "y");
                if (i == 0)
                        answer(peer, "z");
                else if (i == 1)
                        shutdown(peer, SHUT_WR);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
                close(peer);
                weir_test_pass(WEIR_SEC(60));
        }
        end();
}

/* -- pipelining and matching -- */

static void
replies_come_in_the_order_of_a_pipeline(void)
{
        struct asked asked[6];

        begin(&piped);
        for (unsigned i = 0; i < 6; i++)
                ask(&asked[i], "x");
        int peer = must_take();
        GOT(peer, "x\nx\nx\nx\n");
        answer(peer, "1\n2\n3");
        GOT(peer, "x\nx\n");
        answer(peer, "\n4\n5\n6\n");
        for (unsigned i = 0; i < 6; i++) {
                char expected[2] = {(char)('1' + i), '\0'};

                ANSWERED(&asked[i], expected);
        }
        close(peer);
        end();
}

static void
numbers_match_replies_in_any_order(void)
{
        struct asked asked[3], refused;

        begin(&numbered);
        for (unsigned i = 0; i < 3; i++)
                ask(&asked[i], "?x");
        int peer = must_take();
        GOT(peer, "\1x\n\2x\n\3x\n");
        answer(peer, "\2b\n");
        ANSWERED(&asked[1], "\2b");
        answer(peer, "\3c\n\1a\n");
        ANSWERED(&asked[0], "\1a");
        ANSWERED(&asked[2], "\3c");
        CU_ASSERT_EQUAL(weir_task_start(weir_ask_new(endpoint, "", 0, NULL, NULL)), 0); /* the delimiter is its number */
        weir_test_pass(0);
        got(peer, NULL);
        ask(&refused, "?y");
        answer(peer, "\11x\n"); /* nobody waits for that */
        SAW(&refused, -EPROTO, "", WEIR_ASK_WAITING);
        close(peer);
        end();
}

static uint64_t
match_letter(const void *message, size_t size, void *context)
{
        const char *text = message;

        (void)context;
        return !size || *text == '+' ? WEIR_MATCH_NONE : *text == '.' ? WEIR_MATCH_OLDEST : (uint64_t)*text;
}

static void
a_function_matches_and_tells_pushes(void)
{
        struct weir_protocol own = {.size = sizeof own,
                                    .delimiter = "\n",
                                    .delimiter_size = 1,
                                    .bare = true,
                                    .connections = 1,
                                    .depth = 4,
                                    .match = match_letter,
                                    .unsolicited = echo_later};
        struct asked asked[3];

        begin(&own);
        ask(&asked[0], "a");
        ask(&asked[1], "b");
        int peer = must_take();
        GOT(peer, "a\nb\n");
        answer(peer, "b1\n+p-\n+q\n.2\n");
        ANSWERED(&asked[1], "b1");
        ANSWERED(&asked[0], ".2");
        HEARD("+p-|+q|");
        GOT(peer, "+q\n"); /* a push may be answered */
        ask(&asked[0], "a");
        ask(&asked[1], "a");
        SAW(&asked[1], -EEXIST, "", WEIR_ASK_QUEUED);
        answer(peer, "+r-\n");
        HEARD("+r-|");
        answer(peer, "a\n");
        ANSWERED(&asked[0], "a");
        close(peer);
        weir_test_pass(0);
        end();
}

/* -- what goes out together -- */

/* How many segments with data have come: on the loopback network each write of some bytes is one. */
static unsigned
segments_of(int peer)
{
        struct tcp_info info;
        socklen_t size = sizeof info;

        CU_ASSERT_EQUAL(getsockopt(peer, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
        return info.tcpi_data_segs_in;
}

#define STARTS 4

static struct asked together[STARTS];

/* Two ask at once, and two some turns of the poller later. */
static void
start_together(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        for (unsigned i = 0; i < STARTS; i++) {
                together[i] = (struct asked){.series = weir_series_new(NULL, NULL)};
                for (unsigned turns = 0; turns < i / 2; turns++)
                        weir_series_push(together[i].series, weir_empty_new(NULL, NULL));
                weir_series_push(together[i].series, weir_test_recorded(weir_ask_new(endpoint, "x", 1, see, &together[i])));
                CU_ASSERT_EQUAL(weir_series_start(together[i].series), 0);
        }
}

static void
requests_of_some_turns_are_one_write(void)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        struct asked first;
        char address[32], seen[16];

        begin(&piped);
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(server, (struct sockaddr *)&name, size) + listen(server, 1), 0);
        getsockname(server, (struct sockaddr *)&name, &size);
        snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(name.sin_port));
        weir_endpoint_unref(endpoint);
        endpoint = weir_endpoint_new(address, &piped);
        ask(&first, "x");
        int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        CU_ASSERT_EQUAL(recv(peer, seen, sizeof seen, 0), 2);
        answer(peer, "y\n");
        ANSWERED(&first, "y");
        unsigned before = segments_of(peer);
        weir_task_start(weir_empty_new(start_together, NULL));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(recv(peer, seen, sizeof seen, MSG_WAITALL | MSG_DONTWAIT), 2 * STARTS);
        CU_ASSERT_EQUAL(segments_of(peer), before + 1);
        answer(peer, "a\nb\nc\nd\n");
        for (unsigned i = 0; i < STARTS; i++)
                WEIR_TEST_CALLED(&together[i].record, 0);
        close(peer);
        close(server);
        weir_test_pass(0);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), weir_endpoint_connections(endpoint) == 0));
        fds_before = weir_test_entries_of("/proc/self/fd"); /* with what connects of TCP need */
        end();
}

/* -- messages that nobody has asked for -- */

static weir_session *pushing;

static void
echo_and_keep(weir_task *message, void *context)
{
        if (!pushing)
                pushing = weir_session_ref(weir_message_session(message));
        echo_later(message, context);
}

static const struct weir_protocol pushed = {.size = sizeof pushed,
                                            .delimiter = "\n",
                                            .delimiter_size = 1,
                                            .bare = true,
                                            .connections = 1,
                                            .depth = 4,
                                            .idle_limit = WEIR_SEC(5),
                                            .unsolicited = echo_and_keep};

/* A connection that has answered a request, and is idle. */
static int
begin_pushed(void)
{
        struct asked asked;

        pushing = NULL;
        begin(&pushed);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        return peer;
}

static void
end_pushed(int peer)
{
        weir_test_pass(WEIR_SEC(9)); /* handlers end */
        weir_session_unref(pushing);
        pushing = NULL;
        close(peer);
        end();
}

static void
a_connection_on_which_a_push_is_handled_is_not_idle(void)
{
        int peer = begin_pushed();

        weir_test_pass(WEIR_SEC(4));
        answer(peer, "p9\n");
        weir_test_pass(WEIR_SEC(8));
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(1));
        GOT(peer, "p9\n");
        weir_test_pass(WEIR_SEC(4));
        answer(peer, "p-\n"); /* to which there is no reply */
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(pushing, "q", 1, NULL, NULL)), 0);
        weir_test_pass(WEIR_SEC(4));
        GOT(peer, "q\n");
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "<end>");
        end_pushed(peer);
}

static void
the_last_reference_waits_for_the_reply_to_a_push(void)
{
        int peer = begin_pushed();

        answer(peer, "p2\n");
        weir_endpoint_unref(endpoint);
        endpoint = NULL;
        weir_test_pass(WEIR_SEC(1));
        answer(peer, "q-\n"); /* too late */
        weir_test_pass(WEIR_SEC(1));
        HEARD("p2|");
        GOT(peer, "p2\n");
        CU_ASSERT(strcmp(got(peer, NULL), "<end>") == 0 || errno == ECONNRESET);
        end_pushed(peer);
}

static void
a_cancel_waits_for_the_reply_to_a_push(void)
{
        struct asked asked;
        int peer = begin_pushed();

        answer(peer, "p2\n");
        ask(&asked, "x");
        GOT(peer, "x\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_WAITING);
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "p2\n");
        GOT(peer, "<end>");
        end_pushed(peer);
}

static void
a_close_waits_for_the_reply_to_a_push(void)
{
        int peer = begin_pushed();

        answer(peer, "p2\n");
        weir_session_close(pushing);
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "p2\n");
        GOT(peer, "<end>");
        end_pushed(peer);
}

static void
answer_often(int peer, const char *text, unsigned times)
{
        while (times--)
                put(peer, text);
        weir_test_pass(0);
}

/* Handlers of pushes that have not ended are many: `asked` waits behind them. */
static int
begin_full(struct weir_protocol *matched, struct asked *asked, unsigned depth)
{
        matched->match = match_letter;
        matched->depth = depth;
        matched->idle_limit = WEIR_SEC(100);
        pushing = NULL;
        begin(matched);
        ask(asked, ".");
        int peer = must_take();
        GOT(peer, ".\n");
        answer_often(peer, "+9\n", 64);
        WAITS(asked);
        return peer;
}

static void
a_reply_passes_pushes_that_are_not_handled(void)
{
        for (unsigned depth = 1; depth <= 4; depth += 3) {
                struct weir_protocol matched = pushed;
                struct asked asked;
                int peer = begin_full(&matched, &asked, depth);

                answer(peer, "+9\n.y\n");
                ANSWERED(&asked, ".y");
                CU_ASSERT_EQUAL(heard_count, 65);
                answer_often(peer, "+9\n", 10); /* nobody waits: they stay where they are */
                CU_ASSERT_EQUAL(heard_count, 65);
                ask(&asked, ".");
                CU_ASSERT_EQUAL(heard_count, 75);
                answer(peer, ".z\n");
                ANSWERED(&asked, ".z");
                end_pushed(peer);
        }
}

static void
wait_long(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        weir_series_push(weir_series_of(message), weir_timer_new(WEIR_SEC(100), NULL, NULL));
}

static void
a_flood_of_pushes_is_not_taken_in(void)
{
        struct weir_protocol matched = pushed;
        struct asked asked;
        int peer = begin_full(&matched, &asked, 1);

        answer_often(peer, "+9\n", 1020 - 64);
        answer_often(peer, "+1\n", 10);
        answer(peer, ".y\n");
        CU_ASSERT_EQUAL(heard_count, 1024);
        WAITS(&asked);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(heard_count, 1028);
        weir_test_pass(WEIR_SEC(1));
        ANSWERED(&asked, ".y");
        CU_ASSERT_EQUAL(heard_count, 1030);
        end_pushed(peer);
        matched.max_message = 2; /* in bytes, these are all that it takes */
        matched.delimiter = "9";
        matched.bare = false;
        matched.match = match_letter;
        matched.unsolicited = wait_long;
        begin(&matched);
        ask(&asked, ".9");
        peer = must_take();
        answer_often(peer, "+9", 64);
        answer(peer, "+9.9");
        CU_ASSERT_EQUAL(heard_count, 64);
        weir_test_pass(WEIR_SEC(60));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        weir_test_pass(WEIR_SEC(40));
        end_pushed(peer);
}

/* The library's end of the only connection to the listener. */
static int
other_end(void)
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

/* The first is cancelled when it is out, the second while nothing of it is. */
static void
nothing_is_left_of_a_pipeline_that_is_cancelled(void)
{
        struct asked first, second;

        begin(&piped);
        ask(&first, "x");
        int peer = must_take();
        fill(other_end());
        ask(&second, "x");
        cancel(&first);
        SAW(&first, -ECANCELED, "", WEIR_ASK_WAITING);
        WAITS(&second);
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_SENDING);
        weir_test_pass(WEIR_SEC(100));
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        end();
}

/* -- hello -- */

static void
log_in(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "USER\n", 5, NULL, NULL));
        weir_series_push(series, weir_stream_read_until_new(stream, "\n", 1, 100, NULL, NULL));
}

static void
a_hello_comes_before_the_first_request(void)
{
        struct weir_protocol polite = lines;
        struct asked asked, failed, late;

        polite.hello = log_in;
        polite.connections = 1;
        begin(&polite);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "USER\n");
        answer(peer, "OK\n");
        GOT(peer, "x\n");
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        hang_up(peer);
        ask(&failed, "x");
        peer = must_take();
        GOT(peer, "USER\n");
        hang_up(peer);
        SAW(&failed, -EPIPE, "", WEIR_ASK_HELLO);
        ask(&late, "x");
        peer = must_take();
        weir_test_pass(WEIR_SEC(10));
        SAW(&late, -ETIMEDOUT, "", WEIR_ASK_HELLO);
        hang_up(peer);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        end();
}

/* Lost connections put four requests before one whose connection is then there.  It goes to two of them. */
static void
a_request_whose_connection_another_gets_is_queued_again(void)
{
        static const char *const texts[] = {"a", "b", "c", "d", "e", "f"};
        struct weir_protocol own = lines;
        struct asked asked[6], last;
        int peers[5];

        own.hello = log_in;
        own.connections = 3;
        own.depth = 2;
        own.is_idempotent = true;
        begin(&own);
        for (unsigned i = 0; i < 6; i++) { /* two connections are full, and have answered once */
                ask(&asked[i], texts[i]);
                if (i % 2 || i > 3)
                        continue;
                peers[i / 2] = must_take();
                GOT(peers[i / 2], "USER\n");
                answer(peers[i / 2], "OK\n");
                if (i == 2) {
                        answer(peers[0], "A\n");
                        answer(peers[1], "C\n");
                        ANSWERED(&asked[0], "A");
                        ANSWERED(&asked[2], "C");
                }
        }
        ask(&last, "g");
        peers[2] = must_take();
        GOT(peers[2], "USER\n");
        hang_up(peers[0]);
        hang_up(peers[1]);
        peers[3] = must_take();
        peers[4] = must_take();
        CU_ASSERT_EQUAL(take(), -1);
        answer(peers[2], "OK\n");
        cancel(&last);
        SAW(&last, -ECANCELED, "", WEIR_ASK_QUEUED);
        answer(peers[3], "OK\n");
        answer(peers[2], "1\n2\n");
        answer(peers[3], "3\n4\n");
        ANSWERED(&asked[1], asked[1].reply);
        for (unsigned i = 3; i < 6; i++)
                ANSWERED(&asked[i], asked[i].reply);
        hang_up(peers[4]);
        hang_up(peers[3]);
        hang_up(peers[2]);
        end();
}

/* -- cancel, in each stage -- */

static void
a_cancel_while_it_waits_leaves_the_queue(void)
{
        struct weir_protocol single = lines;
        struct asked first, second, third;

        single.connections = 1;
        begin(&single);
        ask(&first, "1");
        ask(&second, "2");
        ask(&third, "3");
        int peer = must_take();
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_QUEUED);
        GOT(peer, "1\n");
        answer(peer, "x\n");
        ANSWERED(&first, "x");
        GOT(peer, "3\n");
        answer(peer, "y\n");
        ANSWERED(&third, "y");
        close(peer);
        end();
}

static void
a_cancel_in_the_hello_closes_it(void)
{
        struct weir_protocol polite = lines;
        struct asked asked;

        polite.hello = log_in;
        begin(&polite);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "USER\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_HELLO);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        end();
}

static void
a_cancel_of_what_was_sent_closes_its_connection(void)
{
        struct asked asked, other;

        begin(&lines);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_WAITING);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        ask(&other, "y");
        peer = must_take();
        GOT(peer, "y\n");
        answer(peer, "z\n");
        ANSWERED(&other, "z");
        close(peer);
        end();
}

static void
a_cancel_in_a_pipeline_lets_the_others_live(void)
{
        struct asked first, second, third, later;

        begin(&piped);
        ask(&first, "1");
        ask(&second, "2");
        ask(&third, "3");
        int peer = must_take();
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_WAITING);
        ask(&later, "4"); /* waits for another connection, and there may be no other */
        GOT(peer, "1\n2\n3\n");
        answer(peer, "a\nb\nc\n");
        ANSWERED(&first, "a");
        ANSWERED(&third, "c");
        GOT(peer, "<end>");
        close(peer);
        peer = must_take();
        GOT(peer, "4\n");
        answer(peer, "d\n");
        ANSWERED(&later, "d");
        close(peer);
        end();
}

static void
with_numbers_a_late_reply_is_thrown_away(void)
{
        struct asked first, second;

        begin(&numbered);
        ask(&first, "?1");
        int peer = must_take();
        cancel(&first);
        SAW(&first, -ECANCELED, "", WEIR_ASK_WAITING);
        ask(&second, "?2");
        GOT(peer, "\0011\n\0022\n");
        answer(peer, "\1a\n\2b\n");
        ANSWERED(&second, "\2b");
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 1);
        close(peer);
        end();
}

static void
late_replies_that_never_come_give_their_places_back(void)
{
        struct asked asked[4], other;

        begin(&numbered);
        for (unsigned i = 0; i < 4; i++)
                ask(&asked[i], "?x");
        int peer = must_take();
        for (unsigned i = 0; i < 4; i++) {
                cancel(&asked[i]);
                SAW(&asked[i], -ECANCELED, "", WEIR_ASK_WAITING);
        }
        ask(&other, "?y"); /* all places are taken */
        weir_test_pass(WEIR_SEC(59));
        WAITS(&other);
        CU_ASSERT_EQUAL(take(), -1);
        weir_test_pass(WEIR_SEC(2));
        close(peer);
        peer = must_take();
        GOT(peer, "\1y\n");
        answer(peer, "\1z\n");
        ANSWERED(&other, "\1z");
        close(peer);
        end();
}

static void
a_cancel_of_half_a_request_breaks_its_connection(void)
{
        struct asked large, small;

        begin(&piped);
        ask_large(&large);
        int peer = must_take();
        ask(&small, "s");
        cancel(&small); /* of which nothing is out */
        SAW(&small, -ECANCELED, "", WEIR_ASK_SENDING);
        WAITS(&large);
        ask(&small, "s");
        cancel(&large);
        SAW(&large, -ECANCELED, "", WEIR_ASK_SENDING);
        SAW(&small, -ECONNABORTED, "", WEIR_ASK_SENDING);
        hang_up(peer);
        end();
}

/* -- a reply before all of its request is out -- */

static void
an_early_reply_is_given_and_the_rest_goes_out(void)
{
        struct asked large, small, next;

        begin(&piped);
        ask_large(&large);
        ask(&small, "s");
        int peer = must_take();
        answer(peer, "no\n");
        ANSWERED(&large, "no");
        ask(&next, "n"); /* no more behind it */
        weir_test_pass(WEIR_SEC(29));
        WAITS(&next);
        take_large(peer, "s\nn\n");
        answer(peer, "1\n2\n");
        ANSWERED(&small, "1");
        ANSWERED(&next, "2");
        close(peer);
        end();
}

static void
a_rest_that_is_never_taken_fails_nobody(void)
{
        struct asked large, next;

        begin(&piped);
        ask_large(&large);
        int peer = must_take();
        answer(peer, "no\n");
        ANSWERED(&large, "no");
        ask(&next, "n");
        weir_test_pass(WEIR_SEC(31));
        WAITS(&next);
        close(peer);
        peer = must_take();
        GOT(peer, "n\n");
        answer(peer, "1\n");
        ANSWERED(&next, "1");
        ask_large(&large);
        answer(peer, "no\n");
        hang_up(peer);
        ANSWERED(&large, "no");
        weir_endpoint_unref(endpoint); /* while the rest waits */
        endpoint = NULL;
        end();
}

/* Within a callback: the library's poller sees both at once. */
static void
refuse(weir_task *task, void *peer)
{
        (void)task;
        put(*(int *)peer, "too large\n");
        shutdown(*(int *)peer, SHUT_RDWR);
}

static void
a_peer_that_refuses_the_rest_has_said_why(void)
{
        struct asked large;

        begin_with_pollers(&piped, 1);
        ask_large(&large);
        int peer = must_take();
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(refuse, &peer)), 0);
        weir_test_pass(0);
        ANSWERED(&large, "too large");
        close(peer);
        end();
}

static void
a_reply_before_its_request_is_refused(void)
{
        struct asked first, second;

        begin(&piped);
        ask(&first, "x");
        int peer = must_take();
        fill(other_end());
        answer(peer, "y\n");
        ANSWERED(&first, "y");
        ask(&second, "x");
        answer(peer, "y\n");
        SAW(&second, -EPROTO, "", WEIR_ASK_SENDING);
        close(peer);
        end();
}

/* -- limits -- */

static void
limits_tell_their_stage(void)
{
        struct asked asked, queued;

        begin(&lines);
        ask(&asked, "x");
        weir_series_set_deadline(asked.series, WEIR_SEC(3));
        weir_test_pass(WEIR_SEC(4));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        hang_up(must_take());
        ask(&asked, "x");
        int peer = must_take();
        weir_test_pass(WEIR_SEC(59));
        WAITS(&asked);
        weir_test_pass(WEIR_SEC(2));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        hang_up(peer);
        ask_large(&asked);
        weir_test_pass(WEIR_SEC(31));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_SENDING);
        hang_up(must_take());
        struct asked busy[2];
        ask(&busy[0], "x");
        ask(&busy[1], "x");
        ask(&queued, "x");
        weir_series_set_deadline(queued.series, WEIR_SEC(1));
        weir_test_pass(WEIR_SEC(1));
        SAW(&queued, -ETIMEDOUT, "", WEIR_ASK_QUEUED);
        cancel(&busy[0]);
        cancel(&busy[1]);
        SAW(&busy[0], -ECANCELED, "", WEIR_ASK_WAITING);
        SAW(&busy[1], -ECANCELED, "", WEIR_ASK_WAITING);
        hang_up(must_take());
        hang_up(must_take());
        end();
}

static void
with_numbers_a_late_request_ends_alone(void)
{
        struct asked first, second;

        begin(&numbered);
        ask(&first, "?1");
        int peer = must_take();
        weir_test_pass(WEIR_SEC(30));
        ask(&second, "?2");
        weir_test_pass(WEIR_SEC(30));
        SAW(&first, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        WAITS(&second);
        answer(peer, "\1a\n\2b\n");
        ANSWERED(&second, "\2b");
        close(peer);
        end();
}

static void
nobody_listens(void)
{
        struct asked asked;
        weir_endpoint *other = weir_endpoint_new("unix:/nowhere/at/all", &lines), *wrong = weir_endpoint_new("!", &lines);

        begin(&lines);
        weir_endpoint *own = endpoint;
        endpoint = other;
        ask(&asked, "x");
        SAW(&asked, -ENOENT, "", WEIR_ASK_CONNECTING);
        CU_ASSERT_EQUAL(weir_endpoint_connections(other), 0);
        endpoint = wrong;
        ask(&asked, "x");
        SAW(&asked, -EINVAL, "", WEIR_ASK_CONNECTING);
        weir_endpoint_unref(other);
        weir_endpoint_unref(wrong);
        endpoint = own;
        end();
}

/* -- a connection that is lost -- */

static void
a_request_is_replayed_once_on_another_connection(void)
{
        struct weir_protocol again = lines;
        struct asked asked;

        again.is_idempotent = true;
        begin(&again);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        hang_up(peer); /* not on a fresh connection */
        SAW(&asked, -ECONNRESET, "", WEIR_ASK_WAITING);
        ask(&asked, "x");
        peer = must_take();
        GOT(peer, "x\n");
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        ask(&asked, "z");
        GOT(peer, "z\n");
        hang_up(peer);
        WAITS(&asked);
        peer = must_take();
        GOT(peer, "z\n");
        answer(peer, "w\n");
        ANSWERED(&asked, "w");
        ask(&asked, "z");
        GOT(peer, "z\n");
        answer(peer, "a byte of the reply");
        hang_up(peer);
        SAW(&asked, -ECONNRESET, "", WEIR_ASK_WAITING);
        end();
}

static void
a_bad_reply_is_told(void)
{
        struct weir_protocol tight = lines;
        struct asked asked;

        tight.max_message = 8;
        begin(&tight);
        ask(&asked, "x");
        int peer = must_take();
        answer(peer, "0123456789");
        SAW(&asked, -EMSGSIZE, "", WEIR_ASK_WAITING);
        hang_up(peer);
        CU_ASSERT_EQUAL(weir_task_start(weir_ask_new(endpoint, "0123456789", 10, NULL, NULL)), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir_task_start(weir_ask_new(endpoint, "0\n1", 3, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ask_new(NULL, "0", 1, NULL, NULL)), -ENOMEM);
        CU_ASSERT_PTR_NULL(weir_ask_reply(NULL, NULL));
        CU_ASSERT_EQUAL(weir_ask_stage(NULL), WEIR_ASK_QUEUED);
        end();
}

static ssize_t
frame_of_a_terabyte(const void *data, size_t size, void *context)
{
        (void)data;
        (void)context;
        return size < 4 ? 0 : (ssize_t)1 << 40;
}

/* The reply breaks the connection; what has come again and again until then. */
static void
breaks(struct weir_protocol protocol, const char *wire, size_t size, unsigned times, int status)
{
        static const char request[100];
        struct asked asked;

        protocol.size = sizeof protocol;
        protocol.connections = 1;
        begin(&protocol);
        ask_bytes(&asked, protocol.delimiter ? "x" : request, protocol.delimiter ? 1 : 100);
        int peer = must_take();
        for (unsigned i = 0; i < times; i++) {
                WAITS(&asked);
                (void)send(peer, wire, size, MSG_NOSIGNAL);
                weir_test_pass(0);
        }
        SAW(&asked, status, "", WEIR_ASK_WAITING);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        close(peer);
        end();
}

static void
a_reply_that_is_endless_is_not_kept(void)
{
        static char filled[1 << 16];
        struct weir_protocol length = {.length_width = 4, .length_adjust = 4, .bare = true}, wide = {.length_width = 8},
                             own = {.frame = frame_of_a_terabyte},
                             line = {.delimiter = "\r\n", .delimiter_size = 2, .bare = true};

        size_t before = weir_test_resident_bytes();
        breaks(length, "\377\377\377\377", 4, 1, -EMSGSIZE); /* 4 GB */
        breaks(length, "\377", 1, 4, -EMSGSIZE);
        breaks(length, "\0\020\0\0", 4, 1, -EMSGSIZE); /* the field is not counted */
        breaks(wide, "\177\377\377\377\377\377\377\377", 8, 1, -EMSGSIZE);
        breaks(wide, "\0\0\0\0\0\0\0\7", 8, 1, -EBADMSG);
        breaks(own, "x", 1, 4, -EMSGSIZE);
        memset(filled, '\r', sizeof filled);
        breaks(line, filled, sizeof filled, 16, -EMSGSIZE);
        CU_ASSERT(weir_test_resident_bytes() < before + (64 << 20));
}

/* A message is a digit and that many lines.  It notes how many bytes it has looked at. */
static size_t looked;

static ssize_t
frame_of_lines(const void *data, size_t size, void *context)
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

static void
a_frame_function_goes_on_where_it_was(void)
{
        struct weir_protocol own = {.size = sizeof own, .frame = frame_of_lines, .connections = 1, .depth = 4};
        struct asked asked[3];

        looked = 0;
        CU_ASSERT_PTR_NULL(weir_frame_words());
        begin(&own);
        for (unsigned i = 0; i < 3; i++)
                ask(&asked[i], "x");
        int peer = must_take();
        for (const char *each = "2ab\nc\n1d\n3\ne"; *each; each++)
                answer(peer, (char[]){*each, '\0'});
        ANSWERED(&asked[0], "2ab\nc\n");
        ANSWERED(&asked[1], "1d\n");
        WAITS(&asked[2]);
        answer(peer, "\n\n");
        ANSWERED(&asked[2], "3\ne\n\n");
        CU_ASSERT_EQUAL(looked, strlen("2ab\nc\n1d\n3\ne\n\n"));
        close(peer);
        weir_test_pass(0);
        end();
}

/* -- direct requests -- */

struct direct {
        struct weir_direct_ask ask; /* first */
        char reply[64];
        int status;
        unsigned calls;
        enum weir_ask_stage stage;
        bool asks_again;
};

static void
see_direct(struct weir_direct_ask *ask, int status, const void *reply, size_t size)
{
        struct direct *direct = (struct direct *)ask;

        direct->calls++;
        direct->status = status;
        direct->stage = weir_direct_stage(ask);
        snprintf(direct->reply, sizeof direct->reply, "%.*s", (int)size, size ? (const char *)reply : "");
        if (direct->asks_again) {
                direct->asks_again = false;
                CU_ASSERT_EQUAL(weir_ask_directly(endpoint, ask), 0);
        }
}

static void
ask_directly(struct direct *direct, const char *text)
{
        *direct = (struct direct){.ask = {.data = text, .size = strlen(text), .done = see_direct}};
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, &direct->ask), 0);
}

#define SAW_DIRECTLY(direct, calls_, status_, reply_, stage_)      \
        do {                                                       \
                CU_ASSERT_EQUAL((direct)->calls, (calls_));        \
                CU_ASSERT_EQUAL((direct)->status, (status_));      \
                CU_ASSERT_STRING_EQUAL((direct)->reply, (reply_)); \
                CU_ASSERT_EQUAL((direct)->stage, (stage_));        \
        } while (0)

static void
direct_requests_and_tasks_keep_their_order(void)
{
        struct weir_protocol own = {.size = sizeof own, .frame = frame_of_lines, .connections = 1, .depth = 4};
        struct direct first, third;
        struct asked second;

        begin(&own);
        ask_directly(&first, "1");
        ask(&second, "2");
        ask_directly(&third, "3");
        third.asks_again = true;
        weir_test_pass(0);
        int peer = must_take();
        GOT(peer, "123");
        answer(peer, "1a\n1b\n1c\n");
        SAW_DIRECTLY(&first, 1, 0, "1a\n", WEIR_ASK_ANSWERED);
        ANSWERED(&second, "1b\n");
        SAW_DIRECTLY(&third, 1, 0, "1c\n", WEIR_ASK_ANSWERED);
        GOT(peer, "3");
        answer(peer, "1d\n");
        SAW_DIRECTLY(&third, 2, 0, "1d\n", WEIR_ASK_ANSWERED);
        ask_directly(&first, "4");
        weir_test_pass(0);
        GOT(peer, "4");
        hang_up(peer);
        SAW_DIRECTLY(&first, 1, -ECONNRESET, "", WEIR_ASK_WAITING);
        end();
}

#define MANY 70 /* more than begin together */

static struct direct many[MANY], last;
static struct asked between;

static void
ask_in_turn(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        for (unsigned i = 0; i < MANY; i++)
                ask_directly(&many[i], "1");
        start_to_ask(&between, "2", 1);
        ask_directly(&last, "3");
}

static void
what_the_owner_asks_keeps_its_order(void)
{
        struct weir_protocol own = {.size = sizeof own, .frame = frame_of_lines, .connections = 1, .depth = MANY + 2};
        char expected[MANY + 3] = "";

        begin_with_pollers(&own, 1);
        memset(expected, '1', MANY);
        strcat(expected, "23");
        weir_task_start(weir_empty_new(ask_in_turn, NULL));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_endpoint_requests(endpoint), MANY + 2);
        int peer = must_take();
        GOT(peer, expected);
        for (unsigned i = 0; i < MANY; i++)
                answer(peer, "1a\n");
        answer(peer, "1b\n1c\n");
        for (unsigned i = 0; i < MANY; i++)
                SAW_DIRECTLY(&many[i], 1, 0, "1a\n", WEIR_ASK_ANSWERED);
        ANSWERED(&between, "1b\n");
        SAW_DIRECTLY(&last, 1, 0, "1c\n", WEIR_ASK_ANSWERED);
        CU_ASSERT_EQUAL(weir_endpoint_requests(endpoint), 0);
        close(peer);
        end();
}

/* Without a function that reads what comes, the reply is copied. */
static void
a_direct_request_needs_no_frame_function(void)
{
        struct weir_protocol own = {.size = sizeof own, .delimiter = "\n", .delimiter_size = 1, .connections = 1};
        struct direct direct, next;

        begin(&own);
        ask_directly(&direct, "hello\n");
        ask_directly(&next, "next\n");
        weir_test_pass(0);
        int peer = must_take();
        GOT(peer, "hello\n");
        answer(peer, "wor");
        answer(peer, "ld\n");
        SAW_DIRECTLY(&direct, 1, 0, "world\n", WEIR_ASK_ANSWERED);
        GOT(peer, "next\n");
        weir_test_pass(WEIR_SEC(61));
        SAW_DIRECTLY(&next, 1, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        close(peer);
        weir_test_pass(0);
        end();
}

static size_t
bytes_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* The rest is a copy, and no more than that: the bytes are the program's again. */
static void
the_rest_of_a_direct_request_goes_out(void)
{
        struct weir_protocol own = {.size = sizeof own, .delimiter = "\n", .delimiter_size = 1, .connections = 1, .depth = 4};
        char *bytes = malloc(LARGE + 2);
        struct direct large;

        memset(bytes, 'x', LARGE);
        memcpy(bytes + LARGE, "\n", 2);
        begin(&own);
        ask_directly(&large, bytes);
        weir_test_pass(0);
        int peer = must_take();
        size_t in_use = bytes_in_use();
        answer(peer, "no\n");
        CU_ASSERT(bytes_in_use() <= in_use + LARGE - (64 << 10)); /* the socket has taken more */
        SAW_DIRECTLY(&large, 1, 0, "no\n", WEIR_ASK_ANSWERED);
        memset(bytes, '\n', LARGE);
        free(bytes);
        take_large(peer, "");
        close(peer);
        weir_test_pass(0);
        end();
}

static void
a_shutdown_ends_direct_requests(void)
{
        struct weir_protocol own = {.size = sizeof own, .frame = frame_of_lines, .connections = 1, .depth = 2};
        struct direct direct[3];

        begin(&own);
        CU_ASSERT_EQUAL(weir_ask_directly(NULL, &direct[0].ask), -ENOMEM);
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, NULL), -EINVAL);
        direct[0].ask = (struct weir_direct_ask){.done = see_direct};
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, &direct[0].ask), -EINVAL);
        direct[0].ask = (struct weir_direct_ask){.data = "x", .size = (1 << 20) + 1, .done = see_direct};
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, &direct[0].ask), -EMSGSIZE);
        for (unsigned i = 0; i < 3; i++) {
                ask_directly(&direct[i], "x");
                weir_test_pass(0);
        }
        weir_test_end();
        for (unsigned i = 0; i < 3; i++)
                SAW_DIRECTLY(&direct[i], 1, -ESHUTDOWN, "", i < 2 ? WEIR_ASK_WAITING : WEIR_ASK_QUEUED);
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, &direct[0].ask), -ESHUTDOWN);
        CU_ASSERT_EQUAL(direct[0].calls, 1);
        weir_endpoint_unref(endpoint);
        close(listener);
}

/* -- the end -- */

static void
free_description(void *description)
{
        free(description);
        looked++;
}

static void
a_description_may_be_freed_with_its_endpoint(void)
{
        struct weir_protocol *own = calloc(1, sizeof *own);
        struct asked asked;

        looked = 0;
        *own = (struct weir_protocol){.size = sizeof *own, .frame = frame_of_lines};
        begin(own);
        weir_endpoint_on_free(endpoint, free_description, own);
        ask(&asked, "x");
        int peer = must_take();
        weir_endpoint_unref(endpoint);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(looked, 0);
        answer(peer, "1\n");
        ANSWERED(&asked, "1\n");
        CU_ASSERT_EQUAL(looked, 3); /* two bytes, and the function */
        hang_up(peer);
        weir_endpoint_on_free(NULL, free_description, NULL);
        CU_ASSERT_EQUAL(looked, 4);
        endpoint = NULL;
        end();
}

static void
shutdown_ends_each_stage(void)
{
        struct asked asked[3];

        begin(&lines);
        for (unsigned i = 0; i < 3; i++)
                ask(&asked[i], "x");
        weir_test_end();
        for (unsigned i = 0; i < 3; i++)
                SAW(&asked[i], -ESHUTDOWN, "", i < 2 ? WEIR_ASK_WAITING : WEIR_ASK_QUEUED);
        weir_endpoint_unref(endpoint);
        CU_ASSERT_PTR_NULL(weir_endpoint_new("x", NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_endpoint_tls_new("x", NULL, NULL, &lines));
        CU_ASSERT_EQUAL(weir_endpoint_connections(NULL), 0);
        CU_ASSERT_EQUAL(weir_endpoint_requests(NULL), 0);
        close(listener);
}

static void
the_last_reference_closes_what_is_idle(void)
{
        struct asked asked;

        begin(&lines);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        weir_endpoint_ref(endpoint);
        weir_endpoint_unref(endpoint);
        weir_endpoint_unref(endpoint); /* the request has its own */
        weir_test_pass(0);
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        GOT(peer, "<end>");
        hang_up(peer);
        endpoint = NULL;
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_request_gets_its_reply),
                WEIR_TEST(requests_wait_in_order_for_few_connections),
                WEIR_TEST(an_idle_connection_is_closed_after_a_time),
                WEIR_TEST(a_byte_or_an_end_closes_an_idle_connection),
                WEIR_TEST(replies_come_in_the_order_of_a_pipeline),
                WEIR_TEST(numbers_match_replies_in_any_order),
                WEIR_TEST(direct_requests_and_tasks_keep_their_order),
                WEIR_TEST(what_the_owner_asks_keeps_its_order),
                WEIR_TEST(a_direct_request_needs_no_frame_function),
                WEIR_TEST(the_rest_of_a_direct_request_goes_out),
                WEIR_TEST(a_shutdown_ends_direct_requests),
                WEIR_TEST(a_function_matches_and_tells_pushes),
                WEIR_TEST(requests_of_some_turns_are_one_write),
                WEIR_TEST(a_connection_on_which_a_push_is_handled_is_not_idle),
                WEIR_TEST(the_last_reference_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_cancel_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_close_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_reply_passes_pushes_that_are_not_handled),
                WEIR_TEST(a_flood_of_pushes_is_not_taken_in),
                WEIR_TEST(nothing_is_left_of_a_pipeline_that_is_cancelled),
                WEIR_TEST(a_hello_comes_before_the_first_request),
                WEIR_TEST(a_request_whose_connection_another_gets_is_queued_again),
                WEIR_TEST(a_cancel_while_it_waits_leaves_the_queue),
                WEIR_TEST(a_cancel_in_the_hello_closes_it),
                WEIR_TEST(a_cancel_of_what_was_sent_closes_its_connection),
                WEIR_TEST(a_cancel_in_a_pipeline_lets_the_others_live),
                WEIR_TEST(with_numbers_a_late_reply_is_thrown_away),
                WEIR_TEST(late_replies_that_never_come_give_their_places_back),
                WEIR_TEST(a_cancel_of_half_a_request_breaks_its_connection),
                WEIR_TEST(an_early_reply_is_given_and_the_rest_goes_out),
                WEIR_TEST(a_rest_that_is_never_taken_fails_nobody),
                WEIR_TEST(a_peer_that_refuses_the_rest_has_said_why),
                WEIR_TEST(a_reply_before_its_request_is_refused),
                WEIR_TEST(limits_tell_their_stage),
                WEIR_TEST(with_numbers_a_late_request_ends_alone),
                WEIR_TEST(nobody_listens),
                WEIR_TEST(a_request_is_replayed_once_on_another_connection),
                WEIR_TEST(a_bad_reply_is_told),
                WEIR_TEST(a_reply_that_is_endless_is_not_kept),
                WEIR_TEST(a_frame_function_goes_on_where_it_was),
                WEIR_TEST(a_description_may_be_freed_with_its_endpoint),
                WEIR_TEST(shutdown_ends_each_stage),
                WEIR_TEST(the_last_reference_closes_what_is_idle),
        };

        return weir_test_main("protocol_client", tests, sizeof tests / sizeof *tests);
}
