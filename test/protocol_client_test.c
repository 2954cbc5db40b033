/* test/protocol_client_test.c: the client's side of own protocols: endpoints, their connections, and the order of requests. */
#include <arpa/inet.h>
#include <linux/tcp.h>

#include "test/protocol_client_fixture.h"

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

/* "%s" in the text is the address. */
static void
dump_says(const char *text)
{
        char expected[256];

        snprintf(expected, sizeof expected, text, endpoint_address);
        WEIR_TEST_DUMPS(expected);
}

static void
a_dump_counts_those_that_wait_for_a_connection(void)
{
        struct asked asked[5];

        begin(&lines);
        for (unsigned i = 0; i < 3; i++)
                ask(&asked[i], "x");
        dump_says("request pending: a connection to %s (2 busy, 1 wait)");
        dump_says("request pending: a reply of %s\n");
        ask(&asked[3], "x");
        ask(&asked[4], "x");
        dump_says("request pending: a connection to %s (2 busy, 3 wait)");
        cancel(&asked[3]);
        SAW(&asked[3], -ECANCELED, "", WEIR_ASK_QUEUED);
        dump_says("request pending: a connection to %s (2 busy, 2 wait)");
        int first = must_take(), second = must_take();
        answer(first, "y\n");
        dump_says("request pending: a connection to %s (2 busy, 1 wait)");
        hang_up(second); /* another connection is made, for the last one */
        hang_up(first);
        SAW(&asked[1], -ECONNRESET, "", WEIR_ASK_WAITING);
        SAW(&asked[2], -ECONNRESET, "", WEIR_ASK_WAITING);
        ANSWERED(&asked[0], "y");
        first = must_take();
        answer(first, "y\n");
        ANSWERED(&asked[4], "y");
        close(first);
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

/* -- pipelining and numbers -- */

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

/* -- hello -- */

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
                WEIR_TEST(a_dump_counts_those_that_wait_for_a_connection),
                WEIR_TEST(an_idle_connection_is_closed_after_a_time),
                WEIR_TEST(a_byte_or_an_end_closes_an_idle_connection),
                WEIR_TEST(replies_come_in_the_order_of_a_pipeline),
                WEIR_TEST(numbers_match_replies_in_any_order),
                WEIR_TEST(requests_of_some_turns_are_one_write),
                WEIR_TEST(a_hello_comes_before_the_first_request),
                WEIR_TEST(a_request_whose_connection_another_gets_is_queued_again),
                WEIR_TEST(a_request_is_replayed_once_on_another_connection),
                WEIR_TEST(a_description_may_be_freed_with_its_endpoint),
                WEIR_TEST(shutdown_ends_each_stage),
                WEIR_TEST(the_last_reference_closes_what_is_idle),
        };

        return weir_test_main("protocol_client", tests, sizeof tests / sizeof *tests);
}
