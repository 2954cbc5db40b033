/* test/protocol_direct_test.c: direct requests of own protocols. */
#include <malloc.h>

#include "test/protocol_client_fixture.h"

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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(direct_requests_and_tasks_keep_their_order),
                WEIR_TEST(what_the_owner_asks_keeps_its_order),
                WEIR_TEST(a_direct_request_needs_no_frame_function),
                WEIR_TEST(the_rest_of_a_direct_request_goes_out),
                WEIR_TEST(a_shutdown_ends_direct_requests),
        };

        return weir_test_main("protocol_direct", tests, sizeof tests / sizeof *tests);
}
