/* test/reference_udp_guide_test.c: the examples of the reference for weir/udp.h.
 *
 * They run on the virtual clock. */
#include "test/fixture.h"

#include <errno.h>

static void
note_status(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
}

/* -- weir/udp.h -- */

static void
addresses_are_compared(void)
{
        struct weir_udp_address one, other;
        char text[WEIR_UDP_ADDRESS_TEXT];

        CU_ASSERT(weir_udp_address_read(&one, "[::1]:53") == 0);
        CU_ASSERT(weir_udp_address_read(&other, "[0:0::1]:53") == 0);
        CU_ASSERT(weir_udp_address_compare(&one, &other) == 0);
        weir_udp_address_write(&other, text, sizeof text);
        CU_ASSERT(strcmp(text, "[::1]:53") == 0);
        CU_ASSERT(weir_udp_address_read(&one, "example.org:53") == -EINVAL); /* names are not looked up */
}

static void
greet_back(weir_task *receive, void *status)
{
        size_t size;
        const char *data = weir_udp_data(receive, &size);

        if (data && size == 5 && memcmp(data, "hello", 5) == 0 && !weir_udp_is_truncated(receive) &&
            weir_udp_from(receive)->size > 0)
                weir_task_start(weir_udp_reply_new(receive, "good day", 8, note_status, status));
}

static void
two_sockets_talk(void)
{
        weir_udp *one = weir_udp_open("127.0.0.1:0"), *other = weir_udp_open("127.0.0.1:0");
        struct weir_udp_address address = weir_udp_local(other);
        char text[WEIR_UDP_ADDRESS_TEXT];
        int replied = 1, received = 1;

        CU_ASSERT(weir_udp_port(other) > 0 && weir_udp_descriptor(other) >= 0);
        CU_ASSERT(weir_udp_set_max(other, 1500) == 0); /* what is longer is cut */
        weir_udp_address_write(&address, text, sizeof text);
        weir_task_start(weir_udp_receive_new(other, greet_back, &replied));
        weir_task_start(weir_udp_receive_new(one, note_status, &received));
        weir_task_start(weir_udp_send_new(one, text, "hello", 5, NULL, NULL));
        weir_clock_advance(0);
        CU_ASSERT(replied == 0 && received == 0);
        CU_ASSERT(weir_udp_dropped(one) == 0);
        weir_udp_unref(one);
        weir_udp_close(other); /* what waits there would end with -EBADF */
        weir_udp_unref(other);
}

static void
add_sizes(weir_task *receive, void *context)
{
        size_t *sum = context, size;

        do {
                weir_udp_data(receive, &size);
                *sum += size;
        } while (weir_udp_next(receive));
        *sum += 100 * weir_udp_count(receive);
}

static void
many_go_at_once(void)
{
        weir_udp *to = weir_udp_open("127.0.0.1:0"), *from = weir_udp_open("127.0.0.1:0");
        struct weir_udp_address address = weir_udp_local(to);
        weir_task *send = weir_udp_send_many_new(from, NULL, NULL);
        size_t sum = 0;

        CU_ASSERT(weir_udp_send_add(send, &address, "one", 3) == 0);
        CU_ASSERT(weir_udp_send_add(send, &address, "three", 5) == 0);
        weir_task_start(send);
        weir_clock_advance(0);
        weir_task_start(weir_udp_receive_many_new(to, 0, add_sizes, &sum));
        weir_clock_advance(0);
        CU_ASSERT(sum == 208);
        weir_udp_unref(from);
        weir_udp_unref(to);
}

static void
a_group_is_joined(void)
{
        weir_udp *udp = weir_udp_open("0.0.0.0:0"), *again = weir_udp_ref(udp);

        CU_ASSERT(weir_udp_join(udp, "224.0.0.251", "lo") == 0);
        CU_ASSERT(weir_udp_join(udp, "192.0.2.1", "lo") == -EINVAL); /* no group */
        weir_udp_unref(again);
        weir_udp_unref(udp);
}

static void
note_attempts(weir_task *ask, void *attempts)
{
        *(int *)attempts = weir_task_status(ask) == -ETIMEDOUT ? weir_udp_attempts(ask) : -1;
}

static void
a_question_is_asked_three_times(void)
{
        weir_udp *deaf = weir_udp_open("127.0.0.1:0"), *udp = weir_udp_open("127.0.0.1:0");
        struct weir_udp_address address = weir_udp_local(deaf);
        struct weir_udp_ask_config how = WEIR_UDP_ASK_CONFIG_DEFAULT;
        char text[WEIR_UDP_ADDRESS_TEXT];
        int attempts = 0, refused = 0;

        weir_udp_address_write(&address, text, sizeof text);
        how.id_size = 2; /* the first two bytes of a reply are those of the request */
        how.attempts = 3;
        how.wait = WEIR_MSEC(200); /* 200, 400 and 800 ms, each a little longer */
        weir_task_start(weir_udp_ask_new(udp, text, "\1\2 it?", 6, &how, note_attempts, &attempts));
        weir_clock_advance(WEIR_SEC(3));
        CU_ASSERT(attempts == 3);
        weir_udp *connected = weir_udp_connect(text);
        weir_udp_close(deaf); /* nobody listens there any more */
        weir_clock_advance(0);
        weir_task_start(weir_udp_ask_new(connected, NULL, "\1\3question", 10, &how, note_status, &refused));
        weir_clock_advance(0);
        CU_ASSERT(refused == -ECONNREFUSED);
        weir_udp_unref(connected);
        weir_udp_unref(udp);
        weir_udp_unref(deaf);
}

static void
answer(weir_task *request, void *prefix)
{
        size_t size;
        const char *data = weir_udp_data(request, &size);
        char reply[64];
        int length = snprintf(reply, sizeof reply, "%s%.*s", (const char *)prefix, (int)size, data);

        weir_udp_reply(request, reply, (size_t)length);
}

static void
note_size(weir_task *ask, void *size)
{
        weir_udp_data(ask, size);
}

static void
a_server_answers(void)
{
        struct weir_udp_server_config config = WEIR_UDP_SERVER_CONFIG_DEFAULT;
        char address[32];
        size_t sizes[2] = {0};

        config.max_size = 512;
        config.in_flight = 16;
        weir_udp_server *servers[] = {
                weir_udp_serve("127.0.0.1:0", answer, "echo: "),
                weir_udp_serve_with(&config, "127.0.0.1:0", answer, "echoes: "),
        };
        weir_udp *udp = weir_udp_open("127.0.0.1:0");
        for (int i = 0; i < 2; i++) {
                snprintf(address, sizeof address, "127.0.0.1:%d", weir_udp_server_port(servers[i]));
                weir_task_run(weir_udp_ask_new(udp, address, "hello", 5, NULL, note_size, &sizes[i]));
                CU_ASSERT(weir_udp_server_stop(servers[i], WEIR_SEC(1)) == 0);
        }
        CU_ASSERT(sizes[0] == 11 && sizes[1] == 13);
        weir_udp_unref(udp);
}

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(addresses_are_compared)
EXAMPLE(two_sockets_talk)
EXAMPLE(many_go_at_once)
EXAMPLE(a_group_is_joined)
EXAMPLE(a_question_is_asked_three_times)
EXAMPLE(a_server_answers)

static const struct weir_test tests[] = {
        WEIR_TEST(run_addresses_are_compared),
        WEIR_TEST(run_two_sockets_talk),
        WEIR_TEST(run_many_go_at_once),
        WEIR_TEST(run_a_group_is_joined),
        WEIR_TEST(run_a_question_is_asked_three_times),
        WEIR_TEST(run_a_server_answers),
};

int
main(void)
{
        return weir_test_main("reference_udp_guide", tests, sizeof tests / sizeof *tests);
}
