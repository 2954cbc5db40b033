/* test/udp_joined_test.c: datagrams that the system has joined into one message (UDP_GRO) come one by one.
 *
 * A socket of the system sends them as segments (UDP_SEGMENT), so they are joined on loopback as those of a network card are. */
#include "test/udp_fixture.h"

#include <netinet/udp.h>
#include <sys/uio.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define SEGMENTS_MOST 64 /* of a message */

/* -- what the library calls instead of the system -- */

static _Atomic bool may_not_join, is_memory_short;
static _Atomic unsigned messages;    /* that were read */
static _Atomic size_t refused_bytes; /* of a block; the first one of that size is refused while memory is short */

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int
__wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
        if (level != SOL_UDP || !may_not_join)
                return __real_setsockopt(fd, level, option, value, size);
        errno = ENOPROTOOPT;
        return -1;
}

int __real_recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *limit);
int __wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *limit);
int
__wrap_recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *limit)
{
        int got = __real_recvmmsg(fd, headers, count, flags, limit);

        atomic_fetch_add(&messages, got > 0 ? (unsigned)got : 0);
        return got;
}

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);
void *
__wrap_weir__alloc(size_t size)
{
        if (is_memory_short && size > refused_bytes && atomic_exchange(&is_memory_short, false))
                return NULL;
        return __real_weir__alloc(size);
}

/* -- what the tests share -- */

static int plain;
static weir_udp *udp;

static void
begin(void)
{
        int port;

        plain = weir_test_plain_socket(&port);
        weir_test_begin_virtual();
        udp = weir_udp_open("127.0.0.1:0");
        CU_ASSERT_PTR_NOT_NULL_FATAL(udp);
        messages = 0;
}

static void
end(void)
{
        weir_udp_unref(udp);
        weir_test_end();
        close(plain);
}

/* Sends one message: datagrams of `segment` bytes, the last one of the rest. */
static void
send_joined(const char *data, size_t size, size_t segment)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = "";
        struct iovec part = {.iov_base = (char *)data, .iov_len = size};
        struct msghdr header = {.msg_name = &to,
                                .msg_namelen = sizeof to,
                                .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control,
                                .msg_controllen = sizeof control};
        struct cmsghdr *option = CMSG_FIRSTHDR(&header);
        uint16_t bytes = (uint16_t)segment;

        to.sin_port = htons((in_port_t)weir_udp_port(udp));
        option->cmsg_level = SOL_UDP;
        option->cmsg_type = UDP_SEGMENT;
        option->cmsg_len = CMSG_LEN(sizeof bytes);
        memcpy(CMSG_DATA(option), &bytes, sizeof bytes);
        CU_ASSERT_EQUAL(sendmsg(plain, &header, 0), (ssize_t)size);
}

/* Sends one message of `count` numbers of four digits, from `first` on. */
static void
send_numbers(unsigned first, unsigned count)
{
        char text[4 * SEGMENTS_MOST + 1];

        CU_ASSERT_FATAL(count <= SEGMENTS_MOST);
        for (unsigned i = 0; i < count; i++)
                snprintf(text + (size_t)4 * i, 5, "%04u", first + i);
        send_joined(text, (size_t)4 * count, 4);
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static unsigned expected; /* the next number */

static void
take_numbers(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
        if (!weir_udp_data(task, NULL))
                return;
        do {
                size_t size;
                const char *data = weir_udp_data(task, &size);

                CU_ASSERT_EQUAL(size, 4);
                CU_ASSERT_EQUAL((unsigned)atoi(data), expected);
                expected++;
        } while (weir_udp_next(task));
}

/* Receives until nothing is there, at most so many at once. */
static void
take_all(unsigned most)
{
        int status;

        do {
                status = 1;
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series, weir_udp_receive_many_new(udp, most, take_numbers, &status));
                weir_series_start(series);
                weir_test_pass(0);
                if (status == 1) {
                        weir_series_cancel(series);
                        weir_test_pass(0);
                }
                weir_series_unref(series);
        } while (status == 0);
        CU_ASSERT_EQUAL(status, -ECANCELED);
}

/* -- the tests -- */

static void
joined_ones_come_one_by_one(void)
{
        struct weir_test_taken all = {0};

        begin();
        send_joined("one...two...six...end", 21, 6);
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &all));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&all, "one... two... six... end ");
        CU_ASSERT_EQUAL(all.count, 4);
        CU_ASSERT_EQUAL(all.size, 3);
        CU_ASSERT_STRING_NOT_EQUAL(all.from, "");
        CU_ASSERT_EQUAL(messages, 1);
        end();
}

static void
each_receiver_gets_one(void)
{
        struct weir_test_taken taken[5] = {{0}};

        begin();
        for (unsigned i = 0; i < 2; i++)
                start(weir_udp_receive_new(udp, weir_test_take, &taken[i]));
        send_joined("one.two.six.end", 15, 4);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken[0], "one. ");
        WEIR_TEST_TOOK(&taken[1], "two. ");
        for (unsigned i = 2; i < 5; i++)
                start(weir_udp_receive_new(udp, weir_test_take, &taken[i]));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken[2], "six. ");
        WEIR_TEST_TOOK(&taken[3], "end ");
        CU_ASSERT_EQUAL(taken[4].calls, 0);
        CU_ASSERT_EQUAL(messages, 1);
        weir_udp_close(udp);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(taken[4].status, -EBADF);
        end();
}

/* A read brings many more than are wanted. */
static void
none_is_dropped_however_many_a_read_brings(void)
{
        begin();
        for (unsigned i = 0; i < 20; i++)
                send_numbers(i * SEGMENTS_MOST, SEGMENTS_MOST);
        expected = 0;
        take_all(10);
        CU_ASSERT_EQUAL(expected, 20 * SEGMENTS_MOST);
        CU_ASSERT_EQUAL(messages, 20);
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 0);
        end();
}

/* An ask makes the library read on while nobody receives: what was kept already is the bound. */
static void
strangers_are_bounded_by_the_read(void)
{
        struct weir_test_taken asked = {0};
        int port, deaf = weir_test_plain_socket(&port);

        begin();
        start(weir_udp_ask_new(udp, weir_test_at(port), "aa", 2, NULL, weir_test_take, &asked));
        weir_test_pass(0);
        send_numbers(0, 63);
        weir_test_pass(0);
        send_numbers(63, SEGMENTS_MOST); /* the bound is not reached before */
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 0);
        send_numbers(5000, SEGMENTS_MOST);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), SEGMENTS_MOST);
        expected = 0;
        take_all(0);
        CU_ASSERT_EQUAL(expected, 63 + SEGMENTS_MOST);
        CU_ASSERT_EQUAL(asked.calls, 0);
        weir_udp_close(udp);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(asked.status, -EBADF);
        end();
        close(deaf);
}

static void
each_one_is_cut(void)
{
        struct weir_test_taken all = {0};

        begin();
        CU_ASSERT_EQUAL(weir_udp_set_max(udp, 4), 0);
        send_joined("one...two...six...end", 21, 6);
        start(weir_udp_receive_many_new(udp, 3, weir_test_take, &all));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&all, "one. two. six. ");
        CU_ASSERT_TRUE(all.is_truncated);
        struct weir_test_taken last = {0};
        start(weir_udp_receive_new(udp, weir_test_take, &last));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&last, "end ");
        CU_ASSERT_FALSE(last.is_truncated);
        end();
}

static void
cancel(weir_task *receive, void *series)
{
        CU_ASSERT_EQUAL(weir_task_status(receive), 0);
        weir_series_cancel(series);
}

static void
cancel_both(weir_task *receive, void *all)
{
        CU_ASSERT_EQUAL(weir_task_status(receive), 0);
        for (unsigned i = 0; i < 2; i++)
                weir_series_cancel(((weir_series **)all)[i]);
}

/* Two tasks wait.  The callback of the first one, which gets one datagram, cancels the second, which may get `most`. */
static weir_series *
wait_to_be_cancelled(unsigned most, int *status)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, weir_udp_receive_many_new(udp, most, take_numbers, status));
        start(weir_udp_receive_new(udp, cancel, series));
        weir_test_pass(0);
        weir_series_start(series);
        weir_test_pass(0);
        return series;
}

/* Both tasks get their datagrams by one message. */
static void
a_cancel_leaves_them_in_their_order(void)
{
        int status = 1;

        begin();
        weir_series *series = wait_to_be_cancelled(20, &status);
        expected = 1;
        send_numbers(0, 30);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(status, -ECANCELED);
        CU_ASSERT_EQUAL(expected, 1);
        weir_series_unref(series);
        take_all(0);
        CU_ASSERT_EQUAL(expected, 30);
        CU_ASSERT_EQUAL(messages, 1);
        end();
}

/* Two tasks that have got datagrams of one message are cancelled before they call back. */
static void
two_cancels_leave_them_in_their_order(void)
{
        int status[2] = {1, 1};
        weir_series *all[2];

        begin();
        for (unsigned i = 0; i < 2; i++) {
                all[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(all[i], weir_udp_receive_many_new(udp, 10, take_numbers, &status[i]));
        }
        start(weir_udp_receive_new(udp, cancel_both, all));
        weir_test_pass(0);
        for (unsigned i = 0; i < 2; i++)
                weir_series_start(all[i]);
        weir_test_pass(0);
        expected = 1;
        send_numbers(0, 30);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(expected, 1);
        for (unsigned i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL(status[i], -ECANCELED);
                weir_series_unref(all[i]);
        }
        take_all(0);
        CU_ASSERT_EQUAL(expected, 30);
        CU_ASSERT_EQUAL(messages, 1);
        end();
}

/* A receive that waits gets them from the first one on. */
static void
a_cancel_leaves_them_to_who_waits(void)
{
        int status = 1, waits = 1;

        begin();
        weir_series *series = wait_to_be_cancelled(10, &status);
        start(weir_udp_receive_many_new(udp, 20, take_numbers, &waits));
        weir_test_pass(0);
        expected = 1;
        send_numbers(0, 11);
        weir_test_pass(0);
        CU_ASSERT(status == -ECANCELED && waits == 0);
        CU_ASSERT_EQUAL(expected, 11);
        weir_series_unref(series);
        end();
}

/* A task that has got some is not told of the one that is lost: the next one is, also if it comes later. */
static void
a_lost_one_does_not_hide_those_that_came(void)
{
        static char data[3 * 1400];
        struct weir_test_taken many = {0}, next = {0}, last = {0}, late = {0};

        begin();
        for (unsigned i = 0; i < sizeof data; i++)
                data[i] = (char)('a' + i / 1400);
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &many));
        start(weir_udp_receive_new(udp, weir_test_take, &next));
        weir_test_pass(0);
        refused_bytes = 1400;
        is_memory_short = true;
        send_joined(data, sizeof data, 1400);
        weir_test_pass(0);
        CU_ASSERT_FALSE(is_memory_short);
        CU_ASSERT(many.status == 0 && many.count == 2 && many.data[0] == 'b');
        CU_ASSERT_EQUAL(next.status, -ENOMEM);
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &last));
        weir_test_pass(0);
        is_memory_short = true;
        send_joined(data, sizeof data, 1400);
        weir_test_pass(0);
        CU_ASSERT(last.status == 0 && last.count == 2);
        start(weir_udp_receive_new(udp, weir_test_take, &late));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(late.status, -ENOMEM);
        end();
}

static void
kept_ones_are_there_in_the_next_runtime(void)
{
        struct weir_test_taken first = {0};

        begin();
        send_numbers(0, SEGMENTS_MOST);
        send_numbers(SEGMENTS_MOST, SEGMENTS_MOST);
        start(weir_udp_receive_new(udp, weir_test_take, &first));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&first, "0000 ");
        weir_test_end();
        weir_test_begin_virtual();
        send_numbers(2 * SEGMENTS_MOST, 5);
        expected = 1;
        take_all(50);
        CU_ASSERT_EQUAL(expected, 2 * SEGMENTS_MOST + 5);
        end();
}

/* Before Linux 5.0. */
static void
a_system_that_joins_nothing_is_read_as_well(void)
{
        may_not_join = true;
        begin();
        send_numbers(0, 50);
        expected = 0;
        take_all(7);
        CU_ASSERT_EQUAL(expected, 50);
        CU_ASSERT_EQUAL(messages, 50);
        end();
        may_not_join = false;
}

static void
without_memory_for_one_the_others_come(void)
{
        static char data[3 * 1400];
        struct weir_test_taken taken[2] = {{0}};

        begin();
        for (unsigned i = 0; i < sizeof data; i++)
                data[i] = (char)('a' + i / 1400);
        start(weir_udp_receive_new(udp, weir_test_take, &taken[0]));
        start(weir_udp_receive_new(udp, weir_test_take, &taken[1]));
        weir_test_pass(0);
        refused_bytes = 1400;
        is_memory_short = true;
        send_joined(data, sizeof data, 1400);
        weir_test_pass(0);
        CU_ASSERT_FALSE(is_memory_short);
        CU_ASSERT(taken[0].status == 0 && taken[0].size == 1400 && taken[0].data[0] == 'b');
        CU_ASSERT(taken[1].status == 0 && taken[1].size == 1400 && taken[1].data[0] == 'c');
        end();
}

/* What other options of the socket report comes before. */
static void
other_reports_do_not_hide_it(void)
{
        struct weir_test_taken all = {0};
        const int on = 1;

        begin();
        CU_ASSERT_EQUAL(setsockopt(weir_udp_descriptor(udp), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), 0);
        CU_ASSERT_EQUAL(setsockopt(weir_udp_descriptor(udp), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on), 0);
        CU_ASSERT_EQUAL(setsockopt(weir_udp_descriptor(udp), IPPROTO_IP, IP_PKTINFO, &on, sizeof on), 0);
        send_joined("one.two.six.end", 15, 4);
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &all));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&all, "one. two. six. end ");
        CU_ASSERT_EQUAL(messages, 1);
        end();
}

/* What one socket of the library sends in one task, another one takes as one message; also by IPv6. */
static void
sockets_of_the_library_join_and_split(void)
{
        char text[5];
        int sent = 1;

        begin();
        weir_udp_unref(udp);
        udp = weir_udp_open("[::1]:0");
        weir_udp *sender = weir_udp_open("[::1]:0");
        CU_ASSERT_PTR_NOT_NULL_FATAL(udp && sender ? udp : NULL);
        struct weir_udp_address to = weir_udp_local(udp);
        weir_task *send = weir_udp_send_many_new(sender, take_numbers, &sent);
        for (unsigned i = 0; i < 32; i++) {
                snprintf(text, sizeof text, "%04u", i);
                CU_ASSERT_EQUAL(weir_udp_send_add(send, &to, text, 4), 0);
        }
        start(send);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent, 0);
        expected = 0;
        take_all(0);
        CU_ASSERT_EQUAL(expected, 32);
        CU_ASSERT_EQUAL(messages, 1);
        weir_udp_unref(sender);
        end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(joined_ones_come_one_by_one),
        WEIR_TEST(each_receiver_gets_one),
        WEIR_TEST(none_is_dropped_however_many_a_read_brings),
        WEIR_TEST(strangers_are_bounded_by_the_read),
        WEIR_TEST(each_one_is_cut),
        WEIR_TEST(a_cancel_leaves_them_in_their_order),
        WEIR_TEST(two_cancels_leave_them_in_their_order),
        WEIR_TEST(a_cancel_leaves_them_to_who_waits),
        WEIR_TEST(a_lost_one_does_not_hide_those_that_came),
        WEIR_TEST(kept_ones_are_there_in_the_next_runtime),
        WEIR_TEST(a_system_that_joins_nothing_is_read_as_well),
        WEIR_TEST(without_memory_for_one_the_others_come),
        WEIR_TEST(other_reports_do_not_hide_it),
        WEIR_TEST(sockets_of_the_library_join_and_split),
};

int
main(void)
{
        return weir_test_main("udp_joined", tests, sizeof tests / sizeof *tests);
}
