/* test/transport_test.c: transports whose owner knows no protocol: what any user of net/transport may rely on. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "net/transport/input.h"
#include "net/transport/output.h"
#include "test/timer_fixture.h"

#define WRITERS 8

/* Belongs to the only worker while a test lets time pass, and to the test otherwise. */
static struct {
        struct weir__transport transport;
        struct weir__limit limit_behind;
        int peer; /* the other end of the socket */

        /* Atomic: the worker may write one while the test looks at its neighbour. */
        _Atomic unsigned readable, ended, hung_up, requeued, time_is_up, closed, unused; /* calls */
        struct weir__writer *written[WRITERS];                                           /* in order */
        _Atomic unsigned written_count;
        char read[256]; /* what was read */
        _Atomic size_t read_size, at_once;
        _Atomic bool has_read_end;

        _Atomic bool reads, closes_when_readable, requeues_first, requeues_last, may_close;
        _Atomic unsigned unused_at_return; /* calls when an operation that closes returns */
        weir_nsec limit, longest;
        _Atomic int flushed;
} talk;

/* -- the owner -- */

static void
read_on(void)
{
        while (talk.reads && weir__transport_may_read(&talk.transport)) {
                ssize_t count = weir__input_read(&talk.transport, talk.read + talk.read_size, talk.at_once);

                talk.has_read_end |= count == 0;
                if (count <= 0)
                        return;
                talk.read_size += (size_t)count;
        }
}

static void
flush(void *unused)
{
        (void)unused;
        talk.flushed = weir__output_flush(&talk.transport);
}

static void
readable(struct weir__transport *transport)
{
        talk.readable++;
        if (talk.requeues_first)
                weir__transport_requeue(transport);
        if (talk.closes_when_readable) {
                weir__transport_close(transport);
                weir__transport_close(transport);
        }
        if (talk.requeues_last) /* such as a loop that reads on */
                weir__transport_requeue(transport);
        talk.unused_at_return = talk.unused;
        read_on();
}

static void
writable(struct weir__transport *transport)
{
        (void)transport;
        flush(NULL);
}

static void
ended(struct weir__transport *transport)
{
        (void)transport;
        talk.ended++;
}

static void
hung_up(struct weir__transport *transport)
{
        talk.hung_up++;
        read_on();
        weir__transport_close(transport);
}

static void
requeued(struct weir__transport *transport)
{
        (void)transport;
        talk.requeued++;
        read_on();
}

static void
time_is_up(struct weir__transport *transport)
{
        (void)transport;
        talk.time_is_up++;
}

static void
written(struct weir__transport *transport, struct weir__writer *writer)
{
        (void)transport;
        CU_ASSERT(!weir__link_is_used(&writer->link) && !writer->left);
        talk.written[talk.written_count++ % WRITERS] = writer;
}

static void
closed(struct weir__transport *transport)
{
        CU_ASSERT(weir__transport_is_closed(transport) && !weir__transport_is_unused(transport));
        talk.closed++;
}

static void
unused(struct weir__transport *transport)
{
        CU_ASSERT(talk.closed == 1 && weir__transport_is_unused(transport));
        talk.unused++;
        weir__transport_done(transport);
}

static const struct weir__transport_ops ops = {
        .source = WEIR__TRANSPORT_SOURCE,
        .readable = readable,
        .writable = writable,
        .ended = ended,
        .hung_up = hung_up,
        .requeued = requeued,
        .time_is_up = time_is_up,
        .written = written,
        .shutdown = weir__transport_close,
        .closed = closed,
        .unused = unused,
};

/* -- on the worker -- */

static void
open_transport(void *fd)
{
        weir__transport_init(&talk.transport, &ops, 0, *(int *)fd);
        CU_ASSERT_EQUAL(weir__transport_open(&talk.transport), 0);
}

static void
set_limit(void *unused)
{
        (void)unused;
        (void)weir__transport_set_limit(&talk.transport, weir__clock_now(), talk.limit);
}

static void
end_talk(void *unused)
{
        (void)unused;
        talk.may_close = weir__transport_may_close(&talk.transport, false);
        if (talk.may_close)
                weir__transport_close(&talk.transport);
        else
                weir__transport_linger(&talk.transport, talk.longest);
}

/* -- the test -- */

/* Has the function called, with all that follows from it. */
static void
on_worker(void (*act)(void *argument), void *argument)
{
        weir_test_act(0, act, argument);
        weir_test_pass(0);
}

static void
begin(void)
{
        int fds[2];

        memset(&talk, 0, sizeof talk);
        talk.at_once = 1;
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        talk.peer = fds[1];
        on_worker(open_transport, &fds[0]);
}

/* The peer acts on the worker: the event must not come while the test still has `talk`. */
static void
send_text(void *text)
{
        CU_ASSERT_EQUAL(send(talk.peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void
peer_sends(const char *text)
{
        on_worker(send_text, (void *)text);
}

static void
close_peer(void *unused)
{
        (void)unused;
        close(talk.peer);
        talk.peer = -1;
}

static void
peer_closes(void)
{
        on_worker(close_peer, NULL);
}

static void
end(void)
{
        if (talk.peer >= 0)
                peer_closes();
        weir_test_end();
        CU_ASSERT_EQUAL(talk.closed, 1);
        CU_ASSERT_EQUAL(talk.unused, 1);
}

static void
finish_peer(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(shutdown(talk.peer, SHUT_WR), 0);
}

/* -- input -- */

static void
kept_input_grows_and_loses_its_front(void)
{
        struct weir__transport transport = {0};

        CU_ASSERT_TRUE(weir__input_keep(&transport, "abcdef", 6));
        CU_ASSERT_EQUAL(transport.input.room, 6);
        CU_ASSERT_TRUE(weir__input_append(&transport, "ghi", 3));
        CU_ASSERT_TRUE(weir__input_keep(&transport, transport.input.data + 3, 6));
        CU_ASSERT(transport.input.size == 6 && memcmp(transport.input.data, "defghi", 6) == 0);
        CU_ASSERT_FALSE(weir__input_append(&transport, "", SIZE_MAX / 8));
        CU_ASSERT_EQUAL(transport.input.size, 6);
        CU_ASSERT_TRUE(weir__input_keep(&transport, "", 0));
        CU_ASSERT(!transport.input.data && !transport.input.size && !transport.input.room);
}

static void
a_transport_that_reads_on_takes_turns(void)
{
        begin();
        talk.reads = true;
        peer_sends("0123456789012345678901234567890123456789");
        CU_ASSERT_EQUAL(talk.read_size, 40);
        CU_ASSERT_EQUAL(talk.readable, 2); /* a first event says that the socket has room */
        CU_ASSERT_EQUAL(talk.requeued, 2);
        CU_ASSERT_PTR_NULL(talk.transport.input.data);
        end();
}

static void
the_end_of_the_peers_side_is_told_once(void)
{
        begin();
        talk.reads = true;
        peer_sends("a");
        on_worker(finish_peer, NULL);
        CU_ASSERT(talk.ended == 1 && talk.hung_up == 0 && talk.read_size == 1);
        end();
}

static void
input_before_a_hang_up_can_be_read(void)
{
        begin();
        peer_sends("last");
        talk.reads = true;
        talk.at_once = 100;
        peer_closes();
        CU_ASSERT_EQUAL(talk.hung_up, 1);
        CU_ASSERT(talk.read_size == 4 && memcmp(talk.read, "last", 4) == 0 && talk.has_read_end);
        CU_ASSERT_EQUAL(talk.unused, 1);
        end();
}

/* -- output -- */

static void
queue(struct weir__writer *writer)
{
        weir__output_append(&talk.transport, writer);
}

static void
writers_of_all_kinds_go_out_in_order(void)
{
        char one[] = "one ", two[] = "two ", three[] = "three ", end_text[] = "end", received[64];
        int file = memfd_create("weir-test", MFD_CLOEXEC);
        struct iovec pieces[] = {{two, 4}, {NULL, 0}, {three, 6}};
        struct weir__writer writers[] = {
                {.data = one, .left = 4},
                {.kind = WEIR__WRITER_PIECES, .pieces = pieces, .count = 3, .left = 10},
                {.data = one},
                {.kind = WEIR__WRITER_FILE, .file = file, .at = 2, .left = 5},
                {.data = end_text, .left = 3},
        };

        begin();
        CU_ASSERT_EQUAL(write(file, "a file, and more", 16), 16);
        for (size_t i = 0; i < 5; i++)
                queue(&writers[i]);
        CU_ASSERT_EQUAL(weir__output_left(&talk.transport), 22);
        on_worker(flush, NULL);
        CU_ASSERT_EQUAL(talk.flushed, 1);
        CU_ASSERT_EQUAL(talk.written_count, 5);
        for (size_t i = 0; i < 5; i++)
                CU_ASSERT_PTR_EQUAL(talk.written[i], &writers[i]);
        CU_ASSERT_EQUAL(recv(talk.peer, received, sizeof received, 0), 22);
        CU_ASSERT_EQUAL(memcmp(received, "one two three file,end", 22), 0);
        CU_ASSERT(weir__output_is_empty(&talk.transport) && talk.transport.sent == 22);
        close(file);
        end();
}

#define PIECE  10007
#define PIECES 40 /* more than go out with one write, and more bytes than a socket takes */

/* The peer reads little by little.  Each byte comes once and in order. */
static void
a_full_socket_cuts_gathered_pieces_anywhere(void)
{
        static char data[PIECES * PIECE], received[PIECES * PIECE + 1];
        struct iovec pieces[PIECES];
        struct weir__writer gathered = {.kind = WEIR__WRITER_PIECES, .pieces = pieces, .count = PIECES, .left = sizeof data};
        struct weir__writer last = {.data = data, .left = 1};
        size_t size = 0;

        begin();
        for (size_t i = 0; i < sizeof data; i++)
                data[i] = (char)(i * 31 + i / 251);
        for (size_t i = 0; i < PIECES; i++)
                pieces[i] = (struct iovec){data + i * PIECE, PIECE};
        queue(&gathered);
        queue(&last);
        CU_ASSERT_FALSE(weir__output_is_on_its_way(&talk.transport, &gathered));
        on_worker(flush, NULL);
        CU_ASSERT_EQUAL_FATAL(talk.flushed, 0);
        CU_ASSERT_TRUE(weir__output_is_on_its_way(&talk.transport, &gathered));
        CU_ASSERT_FALSE(weir__output_is_on_its_way(&talk.transport, &last));
        weir_test_pass(0); /* what the test has looked at is the worker's again: it writes as soon as there is room */
        for (ssize_t count; size <= sizeof data && (count = recv(talk.peer, received + size, 30011, 0)) > 0;
             size += (size_t)count)
                weir_test_pass(0);
        CU_ASSERT_EQUAL(size, sizeof data + 1);
        CU_ASSERT(memcmp(data, received, sizeof data) == 0 && received[sizeof data] == data[0]);
        CU_ASSERT(talk.written_count == 2 && talk.written[0] == &gathered && talk.written[1] == &last);
        end();
}

static void
a_file_that_became_shorter_is_an_error(void)
{
        int file = memfd_create("weir-test", MFD_CLOEXEC);
        struct weir__writer writer = {.kind = WEIR__WRITER_FILE, .file = file, .left = 5};

        begin();
        CU_ASSERT_EQUAL(write(file, "four", 4), 4);
        queue(&writer);
        on_worker(flush, NULL);
        CU_ASSERT_EQUAL(talk.flushed, -ENODATA);
        CU_ASSERT(talk.written_count == 0 && writer.left == 1);
        close(file);
        end();
}

/* -- time -- */

static void
only_the_last_time_limit_counts(void)
{
        begin();
        talk.limit = WEIR_SEC(10);
        on_worker(set_limit, NULL);
        weir_test_pass(WEIR_SEC(5));
        talk.limit = WEIR_SEC(20);
        on_worker(set_limit, NULL);
        weir_test_pass(WEIR_SEC(20) - 1);
        CU_ASSERT_EQUAL(talk.time_is_up, 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(talk.time_is_up, 1);
        talk.limit = WEIR_SEC(1);
        on_worker(set_limit, NULL);
        talk.limit = WEIR_FOREVER;
        on_worker(set_limit, NULL);
        weir_test_pass(WEIR_SEC(1000));
        CU_ASSERT_EQUAL(talk.time_is_up, 1);
        end();
}

static void
set_past_limit(void *unused)
{
        (void)unused;
        CU_ASSERT_TRUE(weir__transport_set_limit(&talk.transport, 0, 1));
}

/* The alarm would come a second time, perhaps when the transport is gone. */
static void
an_alarm_on_its_way_is_not_set_again(void)
{
        begin();
        weir_test_act(WEIR_SEC(10), set_past_limit, NULL); /* before the work of the alarm, which is due then, too */
        talk.limit = WEIR_SEC(10);
        on_worker(set_limit, NULL);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(talk.time_is_up, 1);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(talk.time_is_up, 1);
        end();
}

/* -- the end -- */

static void
a_transport_that_closes_in_its_own_operation_is_freed_later(void)
{
        begin();
        talk.closes_when_readable = true;
        peer_sends("a");
        CU_ASSERT(talk.closed == 1 && talk.unused_at_return == 0 && talk.unused == 1);
        end();
}

static void
a_requeued_transport_is_freed_when_its_turn_has_come(void)
{
        for (int i = 0; i < 2; i++) {
                begin();
                talk.closes_when_readable = true;
                talk.requeues_first = i == 0;
                talk.requeues_last = i == 1;
                peer_sends("a");
                CU_ASSERT(talk.closed == 1 && talk.requeued == 0 && talk.unused == 1);
                end();
        }
}

static void
a_time_limit_does_not_outlive_the_close(void)
{
        begin();
        talk.limit = WEIR_SEC(10);
        on_worker(set_limit, NULL);
        talk.closes_when_readable = true;
        peer_sends("a");
        CU_ASSERT_EQUAL(talk.unused, 1);
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT(talk.unused == 1 && talk.time_is_up == 0);
        end();
}

static void
without_input_it_closes_at_once(void)
{
        begin();
        on_worker(end_talk, NULL);
        CU_ASSERT(talk.may_close && talk.closed == 1);
        end();
}

static void
behind_the_end_of_the_peer_it_closes_at_once(void)
{
        begin();
        on_worker(finish_peer, NULL);
        on_worker(end_talk, NULL);
        CU_ASSERT(talk.may_close && talk.closed == 1);
        end();
}

static void
input_is_thrown_away_until_the_peer_ends(void)
{
        begin();
        peer_sends("unread");
        talk.longest = WEIR_SEC(30);
        on_worker(end_talk, NULL);
        CU_ASSERT(!talk.may_close && talk.closed == 0 && talk.transport.input.size == 6);
        peer_sends("more");
        CU_ASSERT(talk.transport.input.size == 10 && !talk.transport.input.data);
        peer_closes();
        CU_ASSERT(talk.closed == 1 && talk.hung_up == 0);
        end();
}

static void
a_silent_peer_is_left_after_five_seconds(void)
{
        begin();
        peer_sends("unread");
        talk.longest = WEIR_SEC(30);
        on_worker(end_talk, NULL);
        weir_test_pass(WEIR_SEC(5) - 1);
        CU_ASSERT_EQUAL(talk.closed, 0);
        weir_test_pass(1);
        CU_ASSERT(talk.closed == 1 && talk.time_is_up == 0);
        end();
}

static void
a_peer_that_goes_on_is_left_in_the_end(void)
{
        begin();
        peer_sends("unread");
        talk.longest = WEIR_SEC(30);
        on_worker(end_talk, NULL);
        for (int i = 0; i < 7; i++) {
                weir_test_pass(WEIR_SEC(4));
                peer_sends("a");
        }
        weir_test_pass(WEIR_SEC(2) - 1);
        CU_ASSERT_EQUAL(talk.closed, 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(talk.closed, 1);
        end();
}

/* The bytes that an idle one has, for docs/decisions/506. */
static void
an_idle_transport_is_small(void)
{
        CU_ASSERT(sizeof(void *) != 8 || sizeof(struct weir__transport) <= 168);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(kept_input_grows_and_loses_its_front),
                WEIR_TEST(a_transport_that_reads_on_takes_turns),
                WEIR_TEST(the_end_of_the_peers_side_is_told_once),
                WEIR_TEST(input_before_a_hang_up_can_be_read),
                WEIR_TEST(writers_of_all_kinds_go_out_in_order),
                WEIR_TEST(a_full_socket_cuts_gathered_pieces_anywhere),
                WEIR_TEST(a_file_that_became_shorter_is_an_error),
                WEIR_TEST(only_the_last_time_limit_counts),
                WEIR_TEST(an_alarm_on_its_way_is_not_set_again),
                WEIR_TEST(a_transport_that_closes_in_its_own_operation_is_freed_later),
                WEIR_TEST(a_requeued_transport_is_freed_when_its_turn_has_come),
                WEIR_TEST(a_time_limit_does_not_outlive_the_close),
                WEIR_TEST(without_input_it_closes_at_once),
                WEIR_TEST(behind_the_end_of_the_peer_it_closes_at_once),
                WEIR_TEST(input_is_thrown_away_until_the_peer_ends),
                WEIR_TEST(a_silent_peer_is_left_after_five_seconds),
                WEIR_TEST(a_peer_that_goes_on_is_left_in_the_end),
                WEIR_TEST(an_idle_transport_is_small),
        };

        return weir_test_main("transport", tests, sizeof tests / sizeof *tests);
}
