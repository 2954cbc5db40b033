/* test/protocol_server_test.c: the server's side of own protocols: framing, replies, limits and hostile peers. */
#include "test/protocol_fixture.h"

#include <netinet/in.h>
#include <poll.h>

#include "net/stream/stream.h"

static int peer, its_fd; /* both ends: of the test, of the stream */
static weir_stream *stream;
static struct weir_test_record served;

/* A message ends behind the digit that says how many letters follow: "3abc". */
static _Atomic unsigned frame_calls;

static ssize_t
frame_by_digit(const void *data, size_t size, void *context)
{
        const char *text = data;

        (void)context;
        atomic_fetch_add(&frame_calls, 1);
        CU_ASSERT(size > 0);
        return *text < '0' || *text > '9' ? -EILSEQ : 1 + (*text - '0');
}

/* The same, but it does not know before all is there. */
static ssize_t
frame_by_semicolon(const void *data, size_t size, void *context)
{
        const char *found = memchr(data, ';', size);

        (void)context;
        return found ? found - (const char *)data + 1 : 0;
}

static const struct weir_protocol lines = {
        .size = sizeof lines, .delimiter = "\r\n", .delimiter_size = 2, .bare = true, .depth = 4};

static void
serve(weir_series *series, const int ends[2], const struct weir_protocol *protocol, weir_task_fn *handler)
{
        forget_heard();
        served = (struct weir_test_record){0};
        peer = ends[1];
        its_fd = ends[0];
        stream = weir_stream_of(its_fd);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
        weir_task *task = weir_protocol_serve_new(stream, protocol, handler, weir_test_done, &served);
        if (series)
                CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
        CU_ASSERT_EQUAL_FATAL(series ? weir_series_start(series) : weir_task_start(task), 0);
        weir_test_pass(0);
}

static void
begin_in(weir_series *series, const struct weir_protocol *protocol, weir_task_fn *handler)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        serve(series, ends, protocol, handler);
}

static void
begin_with(const struct weir_protocol *protocol, weir_task_fn *handler)
{
        begin_in(NULL, protocol, handler);
}

/* Over TCP, where a close without linger is a reset. */
static void
begin_over_tcp(const struct weir_protocol *protocol, weir_task_fn *handler)
{
        const struct linger none = {.l_onoff = 1};
        const int small = 4096;
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        CU_ASSERT_EQUAL_FATAL(connect(client, (struct sockaddr *)&name, size), 0);
        CU_ASSERT_EQUAL(setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
        CU_ASSERT_EQUAL(setsockopt(client, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
        const int ends[2] = {accept4(listener, NULL, NULL, SOCK_CLOEXEC), client};
        CU_ASSERT_EQUAL(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        close(listener);
        serve(NULL, ends, protocol, handler);
}

static void
begin(const struct weir_protocol *protocol, weir_task_fn *handler)
{
        weir_test_begin_virtual();
        begin_with(protocol, handler);
}

static void
end_peer(void)
{
        weir_stream_unref(stream);
        stream = NULL;
        weir_test_pass(0);
        close(peer);
}

static void
end(void)
{
        weir_stream_unref(stream);
        stream = NULL;
        weir_test_end();
        close(peer);
}

#define SERVED(status_)                                    \
        do {                                               \
                CU_ASSERT_EQUAL(served.calls, 1);          \
                CU_ASSERT_EQUAL(served.status, (status_)); \
        } while (0)

/* -- framing -- */

struct framing {
        struct weir_protocol protocol;
        const char *wire; /* three messages */
        size_t size;
        const char *seen;
};

#define WIRE(text) (text), sizeof(text) - 1

static const struct framing framings[] = {
        {{.length_width = 4, .length_adjust = 4, .bare = true}, WIRE("\0\0\0\3one\0\0\0\0\0\0\0\5three"), "one||three|"},
        {{.length_width = 1}, WIRE("\4one\4two\2x"), "\4one|\4two|\2x|"},
        {{.length_width = 2, .length_is_little = true, .length_adjust = 2, .bare = true},
         WIRE("\3\0one\3\0two\1\0x"),
         "one|two|x|"},
        {{.length_width = 1, .length_at = 2, .length_adjust = 3}, WIRE("ab\1ccd\1eef\1g"), "ab\1c|cd\1e|ef\1g|"},
        {{.length_width = 8, .length_adjust = -1, .bare = true},
         WIRE("\0\0\0\0\0\0\0\013ab\0\0\0\0\0\0\0\011\0\0\0\0\0\0\0\012c"),
         "ab||c|"},
        {{.delimiter = "\n", .delimiter_size = 1, .bare = true}, WIRE("one\n\nthree\n"), "one||three|"},
        {{.delimiter = "\r\n", .delimiter_size = 2, .bare = true}, WIRE("one\r\n\r\r\nthree\n\r\n"), "one|\r|three\n|"},
        {{.delimiter = "aab", .delimiter_size = 3}, WIRE("aaabaabaxaab"), "aaab|aab|axaab|"},
        {{.fixed_size = 3}, WIRE("onetwosix"), "one|two|six|"},
        {{.frame = frame_by_digit}, WIRE("3one05three"), "3one|0|5three|"},
        {{.frame = frame_by_semicolon}, WIRE("one;;three;"), "one;|;|three;|"},
};

/* Feeds the wire in pieces that end at `cut`; 0: each byte alone.  The echo is the wire again. */
static void
feed(const struct framing *framing, size_t depth, size_t cut)
{
        struct weir_protocol protocol = framing->protocol;
        char back[256];
        size_t size = 0, part;

        protocol.size = sizeof protocol;
        protocol.depth = (unsigned)depth;
        begin_with(&protocol, echo);
        for (size_t at = 0; at < framing->size; at += part) {
                part = !cut ? 1 : at < cut ? cut - at : framing->size - at;
                put_bytes(peer, framing->wire + at, part);
                weir_test_pass(0);
        }
        const char *text = got(peer, &size);
        memcpy(back, text, size < sizeof back ? size : sizeof back);
        CU_ASSERT_EQUAL(size, framing->size);
        CU_ASSERT_EQUAL(memcmp(back, framing->wire, size), 0);
        HEARD(framing->seen);
        shutdown(peer, SHUT_WR);
        weir_test_pass(0);
        SERVED(0);
        end_peer();
}

static void
each_framing_is_read_in_any_pieces(void)
{
        weir_test_begin_virtual();
        for (size_t i = 0; i < sizeof framings / sizeof *framings; i++)
                for (size_t depth = 1; depth <= 4; depth += 3)
                        for (size_t cut = 0; cut <= framings[i].size; cut++)
                                feed(&framings[i], depth, cut);
        weir_test_end();
}

/* It has said how large the message is: it is asked again when that much has come. */
static void
a_function_is_not_asked_for_each_piece(void)
{
        static const char wire[] = "9abcdefghi3abc0";
        struct weir_protocol own = PROTOCOL(.frame = frame_by_digit, .message_limit = WEIR_SEC(30));

        begin(&own, echo);
        frame_calls = 0;
        for (size_t at = 0; at < sizeof wire - 1; at++) {
                put_bytes(peer, wire + at, 1);
                weir_test_pass(0);
        }
        HEARD("9abcdefghi|3abc|0|");
        CU_ASSERT_EQUAL(frame_calls, 5);
        put(peer, "9abc");
        weir_test_pass(WEIR_SEC(20));
        put(peer, "d");
        weir_test_pass(WEIR_SEC(10)); /* from its first byte on */
        SERVED(-ETIMEDOUT);
        end();
}

/* The wire breaks the connection with that. */
static void
breaks(struct weir_protocol protocol, const char *wire, size_t size, int status)
{
        protocol.size = sizeof protocol;
        begin_with(&protocol, echo);
        put_bytes(peer, wire, size);
        weir_test_pass(0);
        SERVED(status);
        HEARD("");
        end_peer();
}

static void
what_is_no_message_breaks_the_connection(void)
{
        struct weir_protocol length = {.length_width = 4, .length_adjust = 4, .bare = true}, whole = {.length_width = 2},
                             wide = {.length_width = 8, .length_adjust = 8, .max_message = 100},
                             line = {.delimiter = "\n", .delimiter_size = 1, .max_message = 10},
                             numbered = {.length_width = 2, .length_adjust = 2, .id_at = 4, .id_width = 4},
                             own = {.frame = frame_by_digit, .max_message = 8},
                             own_numbered = {.frame = frame_by_digit, .max_message = 8, .id_at = 1, .id_width = 2},
                             endless = {.frame = frame_by_semicolon, .max_message = 8};

        weir_test_begin_virtual();
        size_t before = weir_test_resident_bytes();
        breaks(length, WIRE("\377\377\377\377"), -EMSGSIZE); /* 4 GB */
        breaks(length, WIRE("\0\020\0\0"), -EMSGSIZE);
        breaks(wide, WIRE("\377\377\377\377\377\377\377\377"), -EMSGSIZE);
        breaks(wide, WIRE("\177\377\377\377\377\377\377\377"), -EMSGSIZE);
        breaks(wide, WIRE("\0\0\0\0\0\0\0\135"), -EMSGSIZE);
        breaks(whole, WIRE("\0\1"), -EBADMSG);
        breaks(numbered, WIRE("\0\5abcde"), -EBADMSG); /* its number ends at 8 */
        breaks(own_numbered, WIRE("1a"), -EBADMSG);
        breaks(line, WIRE("0123456789"), -EMSGSIZE);
        breaks(line, WIRE("0123456789\n"), -EMSGSIZE);
        breaks(own, WIRE("x"), -EILSEQ);
        breaks(own, WIRE("8"), -EMSGSIZE);
        breaks(endless, WIRE("01234567"), -EMSGSIZE);
        CU_ASSERT(weir_test_resident_bytes() < before + (64 << 20));
        weir_test_end();
}

/* -- replies -- */

static void
replies_go_out_in_the_order_of_requests(void)
{
        begin(&lines, echo_later);
        put(peer, "a3\r\nb1\r\nc-\r\nd\r\n");
        weir_test_pass(0);
        HEARD("a3|b1|c-|d|");
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(1));
        GOT(peer, "a3\r\nb1\r\nd\r\n");
        end();
}

static void
replies_with_numbers_go_out_at_once(void)
{
        struct weir_protocol numbered = {.size = sizeof numbered, .fixed_size = 2, .id_width = 1, .depth = 3};

        begin(&numbered, echo_later);
        put(peer, "a3b1c-");
        weir_test_pass(0);
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(1));
        GOT(peer, "b1");
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "a3");
        end();
}

static void
no_more_than_the_depth_are_under_way(void)
{
        begin(&lines, echo_later);
        for (unsigned i = 0; i < 10; i++)
                put(peer, "x2\r\n");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(heard_count, 4);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(heard_count, 8);
        put(peer, "y\r\n");
        shutdown(peer, SHUT_WR);
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(heard_count, 11);
        SERVED(0);
        GOT(peer, "x2\r\nx2\r\nx2\r\nx2\r\nx2\r\nx2\r\nx2\r\nx2\r\nx2\r\nx2\r\ny\r\n");
        GOT(peer, "");
        end();
}

static void
fail_it(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        weir_series_fail(weir_series_of(message), -EIO);
}

static void
a_series_that_fails_without_a_reply_breaks_the_connection(void)
{
        begin(&lines, fail_it);
        put(peer, "x\r\ny\r\n");
        weir_test_pass(0);
        SERVED(-EIO);
        end();
}

static void
reply_wrongly(weir_task *message, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_message_reply(message, "a\r\nb", 4), -EINVAL);
        CU_ASSERT_EQUAL(weir_message_reply(message, NULL, 4), -EINVAL);
        CU_ASSERT_EQUAL(weir_message_reply(message, heard, 2 << 20), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir_message_reply(NULL, "x", 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_message_reply(message, "first", 5), 0);
        CU_ASSERT_EQUAL(weir_message_reply(message, "second", 6), 0);
        CU_ASSERT_PTR_NULL(weir_message_data(NULL, NULL));
        CU_ASSERT_PTR_NULL(weir_message_session(NULL));
}

static void
replies_that_are_no_messages_are_refused(void)
{
        begin(&lines, reply_wrongly);
        put(peer, "x\r\n");
        weir_test_pass(0);
        GOT(peer, "second\r\n");
        end();
}

static void
refuse_the_first(weir_task *message, void *context)
{
        size_t size;
        const char *text = weir_message_data(message, &size);

        (void)context;
        bool is_first = *text == 'a';
        CU_ASSERT_EQUAL(weir_message_reply(message, is_first ? heard : text, is_first ? 2 << 20 : size),
                        is_first ? -EMSGSIZE : 0);
}

/* Else the peer would take the reply to b for the one to a. */
static void
a_refused_reply_is_no_place_for_the_next(void)
{
        begin(&lines, refuse_the_first);
        put(peer, "x\r\na\r\nb\r\n");
        weir_test_pass(0);
        SERVED(-EIO);
        char room[64];
        ssize_t count = recv(peer, room, sizeof room, MSG_DONTWAIT);
        CU_ASSERT(count <= 0 || (count == 3 && memcmp(room, "x\r\n", 3) == 0));
        end();
}

/* -- the end -- */

static void
an_end_within_a_message_is_told(void)
{
        begin(&lines, echo);
        put(peer, "one\r\ntw");
        shutdown(peer, SHUT_WR);
        weir_test_pass(0);
        SERVED(-EPIPE);
        end();
}

static struct weir_test_record within;

static void
wait_within(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        weir_series_push(weir_series_of(message), weir_test_recorded(weir_timer_new(WEIR_SEC(100), weir_test_done, &within)));
}

static void
a_broken_connection_cancels_what_is_under_way(void)
{
        within = (struct weir_test_record){0};
        begin(&lines, wait_within);
        put(peer, "x\r\n");
        weir_test_pass(0);
        weir_stream_break(stream);
        weir_test_pass(0);
        SERVED(-ECONNABORTED);
        WEIR_TEST_CALLED(&within, -ECANCELED);
        end();
}

static void
a_cancel_ends_the_serving_at_once(void)
{
        int ends[2];

        static _Atomic unsigned order;

        order = 0;
        within = served = (struct weir_test_record){.counter = &order};
        forget_heard();
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        stream = weir_stream_of(ends[0]);
        peer = ends[1];
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_protocol_serve_new(stream, &lines, wait_within, weir_test_done, &served));
        weir_series_start(series);
        put(peer, "x\r\n");
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_pass(0);
        SERVED(-ECANCELED);
        WEIR_TEST_CALLED(&within, -ECANCELED);
        CU_ASSERT(within.order < served.order);
        CU_ASSERT(strcmp(got(peer, NULL), "<end>") == 0 || errno == ECONNRESET);
        end();
}

static void
shutdown_ends_it(void)
{
        within = (struct weir_test_record){0};
        begin(&lines, wait_within);
        put(peer, "x\r\n");
        weir_test_pass(0);
        end();
        SERVED(-ESHUTDOWN);
        CU_ASSERT_EQUAL(within.calls, 1);
}

static void
it_must_have_the_stream_for_itself(void)
{
        struct weir_test_record read = {0}, second = {0};

        begin(&lines, echo);
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(stream, 1, 1, weir_test_done, &read)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_protocol_serve_new(stream, &lines, echo, weir_test_done, &second)), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(read.status, -EBUSY);
        CU_ASSERT_EQUAL(second.status, -EBUSY);
        end();
}

/* -- sessions -- */

static weir_session *kept;
static struct weir_test_record pushed;
static unsigned freed;

static void
count_freed(void *context)
{
        (void)context;
        freed++;
}

static void
keep_session(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        if (!kept)
                kept = weir_session_ref(weir_message_session(message));
        int failed = weir_session_set_context(kept, &freed, count_freed);
        CU_ASSERT(failed == 0 || failed == -EEXIST);
        CU_ASSERT_PTR_EQUAL(weir_session_context(kept), &freed);
}

static void
push(const char *text)
{
        pushed = (struct weir_test_record){0};
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(kept, text, strlen(text), weir_test_done, &pushed)), 0);
        weir_test_pass(0);
}

static void
a_session_takes_pushes_and_a_context(void)
{
        kept = NULL;
        freed = 0;
        begin(&lines, keep_session);
        put(peer, "x\r\ny\r\n");
        weir_test_pass(0);
        HEARD("x|y|");
        push("news");
        CU_ASSERT_EQUAL(pushed.status, 0);
        GOT(peer, "news\r\n");
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(kept, "a\r\nb", 4, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(NULL, "a", 1, NULL, NULL)), -ENOMEM);
        weir_session_close(kept);
        weir_session_close(kept);
        weir_session_close(NULL);
        weir_test_pass(0);
        SERVED(0);
        push("late");
        CU_ASSERT_EQUAL(pushed.status, -EPIPE);
        CU_ASSERT_EQUAL(freed, 0);
        weir_session_unref(kept);
        CU_ASSERT_EQUAL(freed, 1);
        CU_ASSERT_EQUAL(weir_session_set_context(NULL, NULL, NULL), -ENOMEM);
        end();
}

static void
close_it(weir_task *message, void *context)
{
        echo_later(message, context);
        weir_session_close(weir_message_session(message));
}

static void
a_close_lets_replies_out(void)
{
        begin(&lines, close_it);
        put(peer, "x2\r\n");
        weir_test_pass(WEIR_SEC(1));
        put(peer, "never heard\r\n");
        weir_test_pass(WEIR_SEC(1));
        HEARD("x2|");
        GOT(peer, "x2\r\n");
        SERVED(0);
        end();
        struct weir_protocol one = lines;
        one.depth = 1;
        begin(&one, close_it); /* the next one is there already */
        put(peer, "x\r\nnever heard\r\n");
        weir_test_pass(0);
        HEARD("x|");
        GOT(peer, "x\r\n");
        SERVED(0);
        end();
}

static void
a_push_that_waits_can_be_cancelled(void)
{
        static char bytes[1 << 20];
        struct weir_test_record large = {0}, small = {0};

        kept = NULL;
        begin(&lines, keep_session);
        put(peer, "x\r\n");
        weir_test_pass(0);
        memset(bytes, 'x', sizeof bytes);
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(kept, bytes, sizeof bytes - 2, weir_test_done, &large)), 0);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_session_send_new(kept, "x", 1, weir_test_done, &small));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(small.status, -ECANCELED);
        CU_ASSERT_EQUAL(large.calls, 0);
        weir_test_pass(WEIR_SEC(31)); /* and the peer never reads */
        CU_ASSERT_EQUAL(large.status, -ETIMEDOUT);
        SERVED(-ETIMEDOUT);
        weir_session_unref(kept);
        end();
}

static void
a_dump_says_what_each_waits_for(void)
{
        struct weir_test_record push = {0};
        const struct weir_protocol protocol = {.size = sizeof protocol, .delimiter = "\n", .delimiter_size = 1, .bare = true};

        kept = NULL;
        weir_test_begin_virtual();
        begin_in(weir_series_new(NULL, NULL), &protocol, keep_session);
        WEIR_TEST_DUMPS("protocol's server pending: messages from unix:");
        put(peer, "x\n");
        weir_test_pass(0);
        fill(its_fd);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_session_send_new(kept, "four", 4, weir_test_done, &push));
        weir_series_start(series);
        weir_test_pass(0);
        WEIR_TEST_DUMPS("push pending: a peer to take 5 bytes");
        weir_session_unref(kept);
        end();
        CU_ASSERT_EQUAL(push.status, -ESHUTDOWN);
        begin(&protocol, echo_later);
        put(peer, "four9\n");
        weir_test_pass(0);
        WEIR_TEST_DUMPS("message running, ");
        WEIR_TEST_DUMPS(" old: 5 bytes");
        end();
}

static void
a_close_does_not_wait_for_a_push_that_is_taken_back(void)
{
        struct weir_test_record small = {0};

        kept = NULL;
        begin(&lines, keep_session);
        put(peer, "x\r\n");
        weir_test_pass(0);
        fill(its_fd);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_session_send_new(kept, "x", 1, weir_test_done, &small));
        weir_series_start(series);
        weir_session_close(kept);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(served.calls, 0);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(small.status, -ECANCELED);
        SERVED(0);
        weir_session_unref(kept);
        end();
}

static void
pushes_keep_a_connection_from_being_idle(void)
{
        struct weir_protocol short_lived = lines;

        kept = NULL;
        short_lived.idle_limit = WEIR_SEC(5);
        begin(&short_lived, keep_session);
        put(peer, "x\r\n");
        for (unsigned i = 0; i < 4; i++) {
                weir_test_pass(WEIR_SEC(4));
                push("news");
                CU_ASSERT_EQUAL(pushed.status, 0);
                GOT(peer, "news\r\n");
        }
        weir_test_pass(WEIR_SEC(6));
        SERVED(-ETIMEDOUT);
        weir_session_unref(kept);
        end();
}

/* -- hostile peers -- */

static void
a_byte_a_second_is_too_slow(void)
{
        begin(&lines, echo);
        for (unsigned i = 0; i < 40 && !served.calls; i++) {
                put(peer, "x");
                weir_test_pass(WEIR_SEC(1));
        }
        SERVED(-ETIMEDOUT);
        end();
}

static void
reply_large(weir_task *message, void *context)
{
        static char bytes[1 << 16];

        (void)context;
        hear(message);
        memset(bytes, 'x', sizeof bytes);
        CU_ASSERT_EQUAL(weir_message_reply(message, bytes, sizeof bytes), 0);
}

static void
a_peer_that_never_reads_is_cut_off(void)
{
        begin(&lines, reply_large);
        for (unsigned i = 0; i < 100; i++)
                put(peer, "x\r\n");
        weir_test_pass(WEIR_SEC(29));
        CU_ASSERT(heard_count < 20);
        CU_ASSERT_EQUAL(served.calls, 0);
        weir_test_pass(WEIR_SEC(2));
        SERVED(-ETIMEDOUT);
        end();
}

static void
a_slow_reader_gets_all(void)
{
        size_t size, all = 0;

        begin(&lines, reply_large);
        for (unsigned i = 0; i < 20; i++)
                put(peer, "x\r\n");
        for (unsigned i = 0; i < 200 && !served.calls; i++) {
                weir_test_pass(WEIR_SEC(10));
                got(peer, &size);
                all += size;
        }
        CU_ASSERT_EQUAL(all, 20 * ((1 << 16) + 2));
        CU_ASSERT_EQUAL(served.calls, 0);
        end();
}

static void
an_idle_connection_is_closed_if_that_is_asked_for(void)
{
        struct weir_protocol short_lived = lines;

        short_lived.idle_limit = WEIR_SEC(5);
        begin(&short_lived, echo_later);
        weir_test_pass(WEIR_SEC(4));
        put(peer, "x9\r\n");
        weir_test_pass(WEIR_SEC(9));
        GOT(peer, "x9\r\n");
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(served.calls, 0);
        weir_test_pass(WEIR_SEC(2));
        SERVED(-ETIMEDOUT);
        end();
}

static void
a_reset_in_any_state_ends_it(void)
{
        const struct {
                const char *wire;
                weir_task_fn *handler;
                const char *heard;
                weir_nsec when; /* behind the reset */
                bool is_full;
                int status;
        } states[] = {
                {"", echo, "", 0, false, -ECONNRESET},                        /* idle */
                {"x", echo, "", 0, false, -ECONNRESET},                       /* within a message */
                {"x\r\n", echo, "x|", 0, false, -ECONNRESET},                 /* behind a reply */
                {"x9\r\n", echo_later, "x9|", 0, false, -ECONNRESET},         /* a reply is due */
                {"x9\r\ny\r\nz", echo_later, "x9|y|", 0, false, -ECONNRESET}, /* the next message has begun */
                {"x\r\n", reply_large, "x|", 0, true, -ECONNRESET},           /* a reply waits for room */
                /* It does not read before the replies are out. */
                {"1\r\n1\r\n1\r\n1\r\n1\r\n", echo_later, "1|1|1|1|", WEIR_SEC(1), false, -ECONNRESET},
        };

        weir_test_begin_virtual();
        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
                begin_over_tcp(&lines, states[i].handler);
                put(peer, states[i].wire);
                weir_test_pass(0);
                HEARD(states[i].heard);
                CU_ASSERT_EQUAL(served.calls, 0);
                CU_ASSERT_EQUAL(poll(&(struct pollfd){.fd = its_fd, .events = POLLOUT}, 1, 0) == 0, states[i].is_full);
                close(peer);
                peer = dup(0);
                weir_nsec began = weir_now();
                weir_test_pass(WEIR_SEC(20));
                SERVED(states[i].status);
                CU_ASSERT_EQUAL(served.at - began, states[i].when);
                end_peer();
        }
        weir_test_end();
}

/* -- refused -- */

static void
wrong_descriptions_are_refused(void)
{
        const struct weir_protocol wrong[] = {
                PROTOCOL(.bare = true),
                PROTOCOL(.fixed_size = 1, .frame = frame_by_digit),
                PROTOCOL(.length_width = 9),
                PROTOCOL(.length_width = 4, .length_at = 1, .bare = true),
                PROTOCOL(.length_width = 4, .length_at = 1 << 21),
                PROTOCOL(.length_width = 4, .max_message = 2),
                PROTOCOL(.delimiter = "x"),
                PROTOCOL(.delimiter_size = 1, .fixed_size = 1),
                PROTOCOL(.delimiter = "x", .delimiter_size = 256),
                PROTOCOL(.fixed_size = 2 << 20),
                PROTOCOL(.fixed_size = 2, .bare = true),
                PROTOCOL(.fixed_size = 2, .max_message = (size_t)2 << 30),
                PROTOCOL(.fixed_size = 2, .depth = 65536),
                PROTOCOL(.fixed_size = 2, .idle_limit = -1),
                PROTOCOL(.fixed_size = 2, .id_width = 9),
                {.size = 1, .fixed_size = 2},
        };

        begin(&lines, echo);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_protocol_serve_new(stream, &wrong[i], echo, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_protocol_serve_new(stream, NULL, echo, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_protocol_serve_new(stream, &lines, NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_protocol_serve_new(NULL, &lines, echo, NULL, NULL)), -ENOMEM);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_framing_is_read_in_any_pieces),
                WEIR_TEST(a_function_is_not_asked_for_each_piece),
                WEIR_TEST(what_is_no_message_breaks_the_connection),
                WEIR_TEST(replies_go_out_in_the_order_of_requests),
                WEIR_TEST(replies_with_numbers_go_out_at_once),
                WEIR_TEST(no_more_than_the_depth_are_under_way),
                WEIR_TEST(a_series_that_fails_without_a_reply_breaks_the_connection),
                WEIR_TEST(a_refused_reply_is_no_place_for_the_next),
                WEIR_TEST(replies_that_are_no_messages_are_refused),
                WEIR_TEST(an_end_within_a_message_is_told),
                WEIR_TEST(a_broken_connection_cancels_what_is_under_way),
                WEIR_TEST(a_cancel_ends_the_serving_at_once),
                WEIR_TEST(shutdown_ends_it),
                WEIR_TEST(it_must_have_the_stream_for_itself),
                WEIR_TEST(a_session_takes_pushes_and_a_context),
                WEIR_TEST(a_close_lets_replies_out),
                WEIR_TEST(a_push_that_waits_can_be_cancelled),
                WEIR_TEST(a_dump_says_what_each_waits_for),
                WEIR_TEST(a_close_does_not_wait_for_a_push_that_is_taken_back),
                WEIR_TEST(pushes_keep_a_connection_from_being_idle),
                WEIR_TEST(a_byte_a_second_is_too_slow),
                WEIR_TEST(a_peer_that_never_reads_is_cut_off),
                WEIR_TEST(a_slow_reader_gets_all),
                WEIR_TEST(an_idle_connection_is_closed_if_that_is_asked_for),
                WEIR_TEST(a_reset_in_any_state_ends_it),
                WEIR_TEST(wrong_descriptions_are_refused),
        };

        return weir_test_main("protocol_server", tests, sizeof tests / sizeof *tests);
}
