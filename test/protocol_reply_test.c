/* test/protocol_reply_test.c: replies of own protocols: too early, bad, without an end, cut by a function. */
#include "test/protocol_client_fixture.h"

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

/* -- bad ones -- */

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

/* -- a frame function -- */

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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_early_reply_is_given_and_the_rest_goes_out),
                WEIR_TEST(a_rest_that_is_never_taken_fails_nobody),
                WEIR_TEST(a_peer_that_refuses_the_rest_has_said_why),
                WEIR_TEST(a_reply_before_its_request_is_refused),
                WEIR_TEST(a_bad_reply_is_told),
                WEIR_TEST(a_reply_that_is_endless_is_not_kept),
                WEIR_TEST(a_frame_function_goes_on_where_it_was),
        };

        return weir_test_main("protocol_reply", tests, sizeof tests / sizeof *tests);
}
