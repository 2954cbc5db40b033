/* test/protocol_blocked_test.c: reply functions of direct requests that block: a worker takes the poller over, and all that the
 * call has nothing to do with goes on. */
#include "test/blocking_fixture.h"
#include "test/protocol_fixture.h"
#include "test/stream_fixture.h"

static weir_endpoint *endpoint;
static int listener;

static ssize_t
frame_of_lines(const void *data, size_t size, void *context)
{
        const char *end = memchr(data, '\n', size);

        (void)context;
        return end ? end + 1 - (const char *)data : 0;
}

static const struct weir_protocol framed = {.size = sizeof framed, .frame = frame_of_lines, .connections = 2, .depth = 2};
static const struct weir_protocol delimited = {
        .size = sizeof delimited, .delimiter = "\n", .delimiter_size = 1, .connections = 2, .depth = 2};

/* -- requests -- */

struct direct {
        struct weir_direct_ask ask; /* first */
        bool blocks;
        _Atomic bool is_in, may_go;
        _Atomic int status; /* 1: not over */
        char reply[16];
};

static void
see(struct weir_direct_ask *ask, int status, const void *reply, size_t size)
{
        struct direct *direct = (struct direct *)ask;

        snprintf(direct->reply, sizeof direct->reply, "%.*s", (int)size, size ? (const char *)reply : "");
        atomic_store(&direct->is_in, true);
        if (direct->blocks) {
                weir_test_lose_poller();
                WEIR_TEST_EVENTUALLY(direct->may_go);
        }
        atomic_store(&direct->status, status);
}

static void
ask(struct direct *direct, const char *text)
{
        memset(direct, 0, sizeof *direct);
        direct->ask = (struct weir_direct_ask){.data = text, .size = strlen(text), .done = see};
        direct->status = 1;
        CU_ASSERT_EQUAL(weir_ask_directly(endpoint, &direct->ask), 0);
}

#define ANSWERED(direct, text)                                 \
        do {                                                   \
                WEIR_TEST_EVENTUALLY((direct)->status != 1);   \
                CU_ASSERT_EQUAL((direct)->status, 0);          \
                CU_ASSERT_STRING_EQUAL((direct)->reply, text); \
        } while (0)

static void
expect(int fd, const char *text)
{
        char bytes[64] = "";

        CU_ASSERT_EQUAL(recv(fd, bytes, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
        CU_ASSERT_STRING_EQUAL(bytes, text);
}

/* -- the tests -- */

static void
begin_with(const struct weir_protocol *protocol)
{
        char address[64];

        weir_test_begin_blocking(0);
        listener = listen_here(address);
        endpoint = weir_endpoint_new(address, protocol);
        CU_ASSERT_PTR_NOT_NULL_FATAL(endpoint);
}

static void
end_of(int one, int other)
{
        weir_endpoint_unref(endpoint);
        weir_test_end();
        close(one);
        if (other >= 0)
                close(other);
        close(listener);
}

/* Both replies come at once. */
static void
begin_to_block(const struct weir_protocol *protocol, struct direct *blocked, struct direct *same, int *fd)
{
        begin_with(protocol);
        ask(same, "warm\n");
        *fd = accept(listener, NULL, NULL);
        expect(*fd, "warm\n");
        put(*fd, "0\n");
        ANSWERED(same, "0\n");
        ask(blocked, "a\n");
        blocked->blocks = true;
        ask(same, "b\n");
        expect(*fd, "a\nb\n");
        put(*fd, "1\n2\n");
        WEIR_TEST_EVENTUALLY(blocked->is_in);
}

static void
release(struct direct *blocked)
{
        CU_ASSERT_EQUAL(blocked->status, 1);
        blocked->may_go = true;
        ANSWERED(blocked, "1\n");
}

/* With a frame function all replies of a read are given in one call.  Later requests do not go where that blocks. */
static void
a_reply_function_that_blocks_holds_up_its_connection_alone(void)
{
        struct direct blocked, same, other, more[4];
        int one, two;

        begin_to_block(&framed, &blocked, &same, &one);
        ask(&other, "c\n");
        two = accept(listener, NULL, NULL);
        expect(two, "c\n");
        put(two, "3\n");
        ANSWERED(&other, "3\n");
        CU_ASSERT_EQUAL(same.status, 1);
        release(&blocked);
        ANSWERED(&same, "2\n");
        for (unsigned i = 0; i < 4; i++) /* both have room for two */
                ask(&more[i], "d\n");
        expect(one, "d\nd\n");
        expect(two, "d\nd\n");
        put(one, "4\n4\n");
        put(two, "4\n4\n");
        for (unsigned i = 0; i < 4; i++)
                ANSWERED(&more[i], "4\n");
        end_of(one, two);
}

/* Without it each has a call of its own. */
static void
a_reply_function_that_blocks_holds_up_nobody(void)
{
        struct direct blocked, same, other;
        int one;

        begin_to_block(&delimited, &blocked, &same, &one);
        ANSWERED(&same, "2\n");
        ask(&other, "c\n");
        expect(one, "c\n");
        put(one, "3\n");
        ANSWERED(&other, "3\n");
        release(&blocked);
        end_of(one, -1);
}

/* The request waits, as there may be no other connection. */
static void
a_request_waits_for_a_connection_that_is_not_blocked(void)
{
        struct weir_protocol single = framed;
        struct direct blocked, same, other;
        int one;

        single.connections = 1;
        begin_to_block(&single, &blocked, &same, &one);
        ask(&other, "c\n");
        release(&blocked);
        ANSWERED(&same, "2\n");
        expect(one, "c\n");
        put(one, "3\n");
        ANSWERED(&other, "3\n");
        end_of(one, -1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_reply_function_that_blocks_holds_up_its_connection_alone),
                WEIR_TEST(a_reply_function_that_blocks_holds_up_nobody),
                WEIR_TEST(a_request_waits_for_a_connection_that_is_not_blocked),
        };

        return weir_test_main("protocol_blocked", tests, sizeof tests / sizeof *tests);
}
