/* test/udp_test.c: sockets of datagrams, and the tasks that receive and send there. */
#include "test/blocks_fixture.h"
#include "test/udp_fixture.h"
#include "test/timer_fixture.h"

static int plain, plain_port; /* a socket of the system */
static weir_udp *udp;

static void
begin(void)
{
        plain = weir_test_plain_socket(&plain_port);
        weir_test_begin_virtual();
        udp = weir_udp_open("127.0.0.1:0");
        CU_ASSERT_PTR_NOT_NULL_FATAL(udp);
}

static void
end(void)
{
        weir_udp_unref(udp);
        weir_test_end();
        close(plain);
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static void
receive(struct weir_test_taken *taken)
{
        start(weir_udp_receive_new(udp, weir_test_take, taken));
}

static void
put(const char *text)
{
        weir_test_send_to(plain, weir_udp_port(udp), text, strlen(text));
}

/* -- addresses -- */

static void
addresses_are_read_written_and_compared(void)
{
        static const char *const in_order[] = {"unix:/a",      "unix:/b",      "unix:/aa",    "unix:@x/yz",
                                               "127.0.0.1:53", "127.0.0.1:54", "127.0.0.2:1", "200.0.0.1:1",
                                               "[::1]:53",     "[::1]:54",     "[fe80::1]:1"};
        struct weir_udp_address addresses[sizeof in_order / sizeof *in_order], wrong;
        char text[WEIR_UDP_ADDRESS_TEXT];

        for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++) {
                CU_ASSERT_EQUAL(weir_udp_address_read(&addresses[i], in_order[i]), 0);
                weir_udp_address_write(&addresses[i], text, sizeof text);
                CU_ASSERT_STRING_EQUAL(text, in_order[i]);
                CU_ASSERT_EQUAL(weir_udp_address_compare(&addresses[i], &addresses[i]), 0);
                if (i > 0) {
                        CU_ASSERT(weir_udp_address_compare(&addresses[i - 1], &addresses[i]) < 0);
                        CU_ASSERT(weir_udp_address_compare(&addresses[i], &addresses[i - 1]) > 0);
                }
        }
        CU_ASSERT_EQUAL(weir_udp_address_read(&wrong, "localhost:53"), -EINVAL);
        CU_ASSERT_EQUAL(wrong.size, 0);
        CU_ASSERT_EQUAL(weir_udp_address_read(&wrong, "127.0.0.1"), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_address_read(&wrong, NULL), -EINVAL);
        memset(text, 'a', sizeof text - 1);
        memcpy(text, "unix:/", 6);
        text[sizeof text - 1] = '\0';
        CU_ASSERT_EQUAL(weir_udp_address_read(&wrong, text), -ENAMETOOLONG);
        weir_udp_address_write(&wrong, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, "");
        weir_udp_address_write(NULL, text, 0);
        weir_udp_address_write(&addresses[4], text, 5);
        CU_ASSERT_STRING_EQUAL(text, "127.");
}

/* -- receiving -- */

static void
a_task_ends_with_the_next_datagram(void)
{
        struct weir_test_taken taken = {0};

        begin();
        receive(&taken);
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(taken.calls, 0);
        put("hello");
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken, "hello ");
        CU_ASSERT_EQUAL(taken.count, 1);
        CU_ASSERT_EQUAL(taken.attempts, -EDOM);
        CU_ASSERT_STRING_EQUAL(taken.from, weir_test_at(plain_port));
        end();
}

static void
several_receivers_get_one_each_in_order(void)
{
        struct weir_test_taken taken[5] = {{0}};

        begin();
        for (unsigned i = 0; i < 3; i++) {
                receive(&taken[i]);
        }
        weir_test_pass(0);
        put("1");
        put("2");
        put("3");
        put("4");
        put("5");
        weir_test_pass(0);
        receive(&taken[3]);
        receive(&taken[4]);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken[0], "1 ");
        WEIR_TEST_TOOK(&taken[1], "2 ");
        WEIR_TEST_TOOK(&taken[2], "3 ");
        WEIR_TEST_TOOK(&taken[3], "4 ");
        WEIR_TEST_TOOK(&taken[4], "5 ");
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 0);
        end();
}

static void
many_are_received_by_one_task(void)
{
        struct weir_test_taken all = {0}, two = {0}, rest = {0}, later = {0};

        begin();
        put("1");
        put("2");
        put("3");
        put("4");
        start(weir_udp_receive_many_new(udp, 2, weir_test_take, &two));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&two, "1 2 ");
        CU_ASSERT_EQUAL(two.count, 2);
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &rest));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&rest, "3 4 ");
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &all));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(all.calls, 0);
        put("5");
        weir_test_pass(0);
        WEIR_TEST_TOOK(&all, "5 ");
        start(weir_udp_receive_many_new(udp, 0, weir_test_take, &later));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(later.calls, 0);
        weir_udp_close(udp);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(later.status, -EBADF);
        end();
}

static void
the_smallest_and_the_largest_arrive(void)
{
        static char largest[65507];
        struct weir_test_taken none = {0}, all = {0}, cut = {0};

        memset(largest, 'x', sizeof largest);
        begin();
        receive(&none);
        receive(&all);
        weir_test_pass(0);
        weir_test_send_to(plain, weir_udp_port(udp), "", 0);
        weir_test_send_to(plain, weir_udp_port(udp), largest, sizeof largest);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&none, " ");
        CU_ASSERT_EQUAL(none.size, 0);
        CU_ASSERT_EQUAL(all.calls, 1);
        CU_ASSERT_EQUAL(all.size, sizeof largest);
        CU_ASSERT_EQUAL(all.is_truncated, 0);
        end();
        begin();
        CU_ASSERT_EQUAL(weir_udp_set_max(udp, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_set_max(udp, 65537), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_set_max(NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_set_max(udp, 3), 0);
        receive(&cut);
        put("abcdef");
        weir_test_pass(0);
        WEIR_TEST_TOOK(&cut, "abc ");
        CU_ASSERT_EQUAL(cut.is_truncated, 1);
        end();
}

static void
a_socket_that_nobody_reads_keeps_nothing(void)
{
        struct weir_test_taken taken = {0};

        begin();
        receive(&taken);
        weir_test_pass(0);
        for (unsigned i = 0; i < 1000; i++) {
                put("x");
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(taken.calls, 1);
        CU_ASSERT(weir_test_drain(weir_udp_descriptor(udp)) >=
                  100); /* those that have room in the kernel, without a read-ahead */
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 0);
        end();
}

/* -- early ends -- */

static void
a_cancel_and_a_deadline_reach_it(void)
{
        struct weir_test_taken taken[3] = {{0}}, last = {0};

        begin();
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 3; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_udp_receive_new(udp, weir_test_take, &taken[i]));
                if (i == 0) {
                        weir_series_cancel(series);
                } else if (i == 1) {
                        weir_series_set_deadline(series, WEIR_SEC(1));
                }
                weir_series_start(series);
                weir_test_pass(0);
                if (i == 2) {
                        weir_series_cancel(series);
                }
                weir_test_pass(WEIR_SEC(1));
                weir_series_unref(series);
        }
        CU_ASSERT_EQUAL(taken[0].calls, 0);
        CU_ASSERT_EQUAL(taken[1].status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(taken[1].at - began, WEIR_SEC(2));
        CU_ASSERT_EQUAL(taken[2].status, -ECANCELED);
        CU_ASSERT_EQUAL(taken[2].calls, 1);
        put("x");
        receive(&last);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&last, "x ");
        end();
}

static void
cancel(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
}

/* In a callback, so that all are there when the poller looks. */
static void
put_three(void *unused)
{
        (void)unused;
        put("first");
        put("kept");
        put("too");
}

/* Both tasks get their datagrams by the same read.  The callback of the first one cancels the second. */
static void
what_a_cancelled_task_has_taken_waits_for_the_next(void)
{
        struct weir_test_taken cancelled = {0}, second = {0}, third = {0};

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_udp_receive_many_new(udp, 0, weir_test_take, &cancelled));
        start(weir_udp_receive_new(udp, cancel, series));
        weir_test_pass(0);
        weir_series_start(series);
        weir_test_pass(0);
        weir_test_act(0, put_three, NULL);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(cancelled.status, -ECANCELED);
        CU_ASSERT_EQUAL(cancelled.count, 0);
        receive(&second);
        receive(&third);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&second, "kept ");
        WEIR_TEST_TOOK(&third, "too ");
        weir_series_unref(series);
        end();
}

static void
close_ends_tasks_and_the_last_reference_closes(void)
{
        struct weir_test_taken waiting = {0}, later = {0}, alone = {0};
        unsigned before = weir_test_entries_of("/proc/self/fd");

        begin();
        weir_task *made = weir_udp_receive_new(udp, weir_test_take, &later);
        receive(&waiting);
        weir_test_pass(0);
        weir_udp_close(udp);
        weir_udp_close(udp);
        start(made);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(waiting.status, -EBADF);
        CU_ASSERT_EQUAL(later.status, -EBADF);
        CU_ASSERT_EQUAL(weir_udp_descriptor(udp), -EBADF);
        CU_ASSERT_EQUAL(weir_udp_join(udp, "224.0.0.251", NULL), -EBADF);
        weir_udp *other = weir_udp_open("127.0.0.1:0");
        int port = weir_udp_port(other);
        start(weir_udp_receive_new(other, weir_test_take, &alone));
        weir_udp_unref(weir_udp_ref(other));
        weir_udp_unref(other); /* the task has a reference */
        weir_test_pass(0);
        weir_test_send_to(plain, port, "x", 1);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&alone, "x ");
        weir_udp_unref(weir_udp_open("127.0.0.1:0")); /* that no task has used */
        weir_udp *closed = weir_udp_open("127.0.0.1:0");
        weir_udp_close(closed);
        CU_ASSERT_EQUAL(weir_udp_descriptor(closed), -EBADF);
        weir_udp_unref(closed);
        weir_udp_unref(NULL);
        weir_udp_close(NULL);
        CU_ASSERT_PTR_NULL(weir_udp_ref(NULL));
        end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

static void
unref_twice(void)
{
        weir_udp *own = weir_udp_open("127.0.0.1:0");
        weir_task *task = weir_udp_receive_new(own, NULL, NULL);

        weir_udp_unref(own);
        weir_task_dismiss(task);
        weir_udp_unref(own);
}

static void
one_reference_too_few_aborts(void)
{
        if (!WEIR_TEST_SANITIZED) { /* which reports it in its own way */
                weir_test_aborts(unref_twice, "weir_udp_unref: no reference is left");
        }
}

static void
shutdown_ends_it_and_the_socket_serves_the_next_runtime(void)
{
        struct weir_test_taken first = {0}, second = {0};
        int port;
        int fd = weir_test_plain_socket(&port);
        weir_udp *own = weir_udp_open("127.0.0.1:0"); /* before the runtime */

        weir_test_begin_real(2);
        start(weir_udp_receive_new(own, weir_test_take, &first));
        weir_test_sleep(1000000);
        weir_test_end();
        CU_ASSERT_EQUAL(first.status, -ESHUTDOWN);
        weir_test_send_to(fd, weir_udp_port(own), "x", 1);
        weir_test_begin_virtual();
        start(weir_udp_receive_new(own, weir_test_take, &second));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&second, "x ");
        weir_test_end();
        weir_udp_unref(own); /* behind the runtime */
        close(fd);
}

static void
open_in_a_child(void)
{
        CU_ASSERT(!weir_udp_open("127.0.0.1:0") && errno == ECHILD);
        CU_ASSERT(!weir_udp_serve("127.0.0.1:0", weir_test_done, NULL) && errno == ECHILD);
        weir_test_leaks_do_not_count = 1;
        weir_udp_close(udp);
        weir_udp_unref(udp);
}

static void
a_child_takes_nothing_from_its_parent(void)
{
        struct weir_test_taken taken = {0};
        char said[256];

        begin();
        receive(&taken);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_child(open_in_a_child, said, sizeof said), 0);
        put("x");
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken, "x ");
        end();
}

/* -- sending -- */

static void
a_task_sends_a_datagram(void)
{
        struct weir_test_record record = {0};
        char data[16];
        int port = 0;

        begin();
        start(weir_test_recorded(weir_udp_send_new(udp, weir_test_at(plain_port), "hello", 5, weir_test_done, &record)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(weir_test_receive(plain, data, sizeof data, &port), 5);
        CU_ASSERT(memcmp(data, "hello", 5) == 0);
        CU_ASSERT_EQUAL(port, weir_udp_port(udp));
        start(weir_udp_send_new(udp, weir_test_at(plain_port), NULL, 0, NULL, NULL));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_receive(plain, data, sizeof data, NULL), 0);
        end();
}

static void
reply_to(weir_task *received, void *record)
{
        size_t size;
        const void *data = weir_udp_data(received, &size);

        weir_task_start(weir_udp_reply_new(received, data, size, weir_test_done, record));
}

static void
a_reply_goes_to_the_sender(void)
{
        struct weir_test_record record = {0};
        char data[16];

        begin();
        start(weir_udp_receive_new(udp, reply_to, &record));
        put("ping");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.status, 0);
        CU_ASSERT_EQUAL(weir_test_receive(plain, data, sizeof data, NULL), 4);
        weir_task *receive = weir_udp_receive_new(udp, NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_reply_new(receive, "x", 1, NULL, NULL)), -EDOM); /* it has received nothing */
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_reply_new(NULL, "x", 1, NULL, NULL)), -EDOM);
        weir_task_dismiss(receive);
        end();
}

/* Runs of one size and destination are one message of the system; the receiver sees no difference. */
static void
many_are_sent_by_one_task_in_their_order(void)
{
        struct weir_test_taken sent = {0};
        struct weir_udp_address to;
        char data[65536], expected[2000];
        int other_port;
        int other = weir_test_plain_socket(&other_port);

        begin();
        weir_task *send = weir_udp_send_many_new(udp, weir_test_take, &sent);
        for (unsigned i = 0; i < 100; i++) {
                size_t size = i < 60 ? 1000 : i == 60 ? 10 : i < 80 ? 1 + i : 1400;

                CU_ASSERT_EQUAL(weir_udp_address_read(&to, weir_test_at(i % 10 == 9 ? other_port : plain_port)), 0);
                memset(data, (char)i, size);
                CU_ASSERT_EQUAL(weir_udp_send_add(send, &to, data, size), 0);
        }
        CU_ASSERT_EQUAL(weir_udp_send_add(send, &to, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_send_add(NULL, &to, "x", 1), -ENOMEM);
        to.size = 3;
        CU_ASSERT_EQUAL(weir_udp_send_add(send, &to, "x", 1), -EINVAL);
        start(send);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.status, 0);
        CU_ASSERT_EQUAL(sent.count, 100);
        for (unsigned i = 0; i < 100; i++) {
                ssize_t size = i < 60 ? 1000 : i == 60 ? 10 : i < 80 ? 1 + (int)i : 1400;

                memset(expected, (char)i, (size_t)size);
                CU_ASSERT_EQUAL(weir_test_receive(i % 10 == 9 ? other : plain, data, sizeof data, NULL), size);
                CU_ASSERT(memcmp(data, expected, (size_t)size) == 0);
        }
        end();
        close(other);
}

static void
mistakes_are_reported(void)
{
        struct weir_test_taken big = {0}, nowhere = {0};
        static char large[65508];

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_send_new(udp, "localhost:1", "x", 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_send_new(udp, "127.0.0.1:1", NULL, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_send_new(NULL, "127.0.0.1:1", "x", 1, NULL, NULL)), -EBADF);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_receive_new(NULL, NULL, NULL)), -EBADF);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_receive_many_new(NULL, 1, NULL, NULL)), -EBADF);
        start(weir_udp_send_new(udp, weir_test_at(plain_port), large, sizeof large, weir_test_take, &big));
        start(weir_udp_send_new(udp, NULL, "x", 1, weir_test_take, &nowhere));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(big.status, -EMSGSIZE);
        CU_ASSERT_EQUAL(nowhere.status, -EDESTADDRREQ);
        CU_ASSERT(!weir_udp_open(weir_test_at(plain_port)) && errno == EADDRINUSE);
        CU_ASSERT(!weir_udp_open("nonsense") && errno == EINVAL);
        CU_ASSERT(!weir_udp_open(NULL) && errno == EINVAL);
        CU_ASSERT_EQUAL(weir_udp_port(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_descriptor(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_local(NULL).size, 0);
        CU_ASSERT_EQUAL(weir_udp_dropped(NULL), 0);
        size_t size = 1;
        weir_task *timer = weir_timer_new(0, NULL, NULL);
        CU_ASSERT(!weir_udp_data(timer, &size) && size == 0);
        CU_ASSERT(!weir_udp_data(NULL, NULL) && !weir_udp_from(timer) && !weir_udp_is_truncated(timer) && !weir_udp_next(timer));
        CU_ASSERT_EQUAL(weir_udp_count(timer), 0);
        CU_ASSERT_EQUAL(weir_udp_send_add(timer, NULL, "x", 1), -EDOM);
        CU_ASSERT_EQUAL(weir_udp_reply(timer, "x", 1), -EDOM);
        weir_task_dismiss(timer);
        end();
}

/* -- families and peers -- */

static void
a_socket_of_both_families_shows_addresses_of_each(void)
{
        struct weir_test_taken taken = {0};
        char data[16], name[32];

        plain = weir_test_plain_socket(&plain_port);
        weir_test_begin_virtual();
        udp = weir_udp_open("[::]:0");
        if (udp) { /* there is IPv6 */
                receive(&taken);
                weir_test_pass(0);
                put("four");
                weir_test_pass(0);
                WEIR_TEST_TOOK(&taken, "four ");
                CU_ASSERT_STRING_EQUAL(taken.from, weir_test_at(plain_port));
                start(weir_udp_send_new(udp, taken.from, "back", 4, NULL, NULL));
                weir_test_pass(0);
                CU_ASSERT_EQUAL(weir_test_receive(plain, data, sizeof data, NULL), 4);
                CU_ASSERT_EQUAL(weir_udp_join(udp, "224.0.0.251", NULL), -EAFNOSUPPORT);
                struct weir_udp_address local = weir_udp_local(udp);
                char text[WEIR_UDP_ADDRESS_TEXT];
                weir_udp_address_write(&local, text, sizeof text);
                snprintf(name, sizeof name, "[::]:%d", weir_udp_port(udp));
                CU_ASSERT_STRING_EQUAL(text, name);
        }
        end();
}

static void
a_connected_socket_reports_that_nobody_listens(void)
{
        struct weir_test_taken waiting = {0}, sent = {0}, again = {0}, later = {0};

        begin();
        weir_udp *own = weir_udp_connect(weir_test_at(plain_port));
        close(plain);
        start(weir_udp_receive_new(own, weir_test_take, &waiting));
        weir_test_pass(0);
        start(weir_udp_send_new(own, NULL, "x", 1, weir_test_take, &sent));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.status, 0);
        CU_ASSERT_EQUAL(waiting.status, -ECONNREFUSED);
        start(weir_udp_send_new(own, NULL, "x", 1, weir_test_take, &later));
        weir_test_pass(0);
        start(weir_udp_send_new(own, NULL, "x", 1, weir_test_take, &again)); /* the error of the one before is no error of this */
        weir_test_pass(0);
        CU_ASSERT_EQUAL(again.status, 0);
        memset(&waiting, 0, sizeof waiting);
        start(weir_udp_receive_new(own, weir_test_take, &waiting));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(waiting.status, -ECONNREFUSED); /* kept for the next receiver */
        weir_udp_unref(own);
        plain = weir_test_plain_socket(&plain_port);
        end();
}

static void
unix_sockets_talk(void)
{
        struct weir_test_taken request = {0}, reply = {0}, from_file = {0};
        struct weir_test_record record = {0};
        char directory[] = "/tmp/weir-udp-XXXXXX", path[64], address[80];

        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(path, sizeof path, "%s/socket", directory);
        snprintf(address, sizeof address, "unix:%s", path);
        begin();
        weir_udp *server = weir_udp_open(address);
        CU_ASSERT_PTR_NOT_NULL_FATAL(server);
        CU_ASSERT_EQUAL(weir_udp_port(server), -EDOM);
        weir_udp *client = weir_udp_connect(address);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        start(weir_udp_receive_new(server, weir_test_take, &request));
        start(weir_udp_receive_new(client, weir_test_take, &reply));
        start(weir_udp_send_new(client, NULL, "ask", 3, NULL, NULL));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&request, "ask ");
        CU_ASSERT(strncmp(request.from, "unix:@", 6) == 0);
        start(weir_test_recorded(weir_udp_send_new(server, request.from, "answer", 6, weir_test_done, &record)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        WEIR_TEST_TOOK(&reply, "answer ");
        CU_ASSERT_STRING_EQUAL(reply.from, address);
        start(weir_udp_send_new(server, "unix:/nowhere/x", "x", 1, weir_test_take, &from_file));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(from_file.status, -ENOENT);
        CU_ASSERT_EQUAL(access(path, F_OK), 0);
        weir_udp_unref(client);
        weir_udp_unref(server);
        end();
        CU_ASSERT_EQUAL(access(path, F_OK), -1);
        rmdir(directory);
}

/* A queue that is full: a connected sender waits for room, another one is told. */
static void
a_full_queue_is_waited_for(void)
{
        struct weir_test_taken sent[600] = {{0}};
        unsigned done = 0, waiting = 0, again = 0;
        char full[64], name[64];

        begin();
        snprintf(full, sizeof full, "unix:@weir-udp-test-full-%d", getpid());
        snprintf(name, sizeof name, "unix:@weir-udp-test-stranger-%d", getpid());
        weir_udp *receiver = weir_udp_open(full), *sender = weir_udp_connect(full);
        for (unsigned i = 0; i < 600; i++) {
                start(weir_udp_send_new(sender, NULL, "x", 1, weir_test_take, &sent[i]));
        }
        weir_test_pass(0);
        for (unsigned i = 0; i < 600; i++) {
                done += sent[i].calls == 1 && sent[i].status == 0;
                waiting += sent[i].calls == 0;
        }
        CU_ASSERT(done > 0 && waiting > 0 && done + waiting == 600);
        struct weir_test_taken other = {0};
        start(weir_udp_send_new(udp, "unix:@x", "x", 1, weir_test_take, &other)); /* of another family */
        weir_udp *stranger = weir_udp_open(name);
        struct weir_test_taken refused = {0};
        start(weir_udp_send_new(stranger, full, "x", 1, weir_test_take, &refused));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(refused.status, -EAGAIN);
        CU_ASSERT(other.status < 0);
        while (weir_test_drain(weir_udp_descriptor(receiver)) > 0) {
                weir_test_pass(0);
        }
        for (unsigned i = 0; i < 600; i++) {
                again += sent[i].calls == 1 && sent[i].status == 0;
        }
        CU_ASSERT_EQUAL(again, 600);
        weir_udp_unref(stranger);
        weir_udp_unref(sender);
        weir_udp_unref(receiver);
        end();
}

static void
a_group_is_joined(void)
{
        struct weir_test_taken taken = {0};

        begin();
        weir_udp *member = weir_udp_open("0.0.0.0:0");
        CU_ASSERT_EQUAL(weir_udp_join(member, "239.255.77.77", "lo"), 0);
        CU_ASSERT_EQUAL(weir_udp_join(member, "239.255.77.77", "lo"), -EADDRINUSE);
        CU_ASSERT_EQUAL(weir_udp_join(member, "nonsense", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_join(member, "239.255.77.77", "no-such-interface"), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_join(member, "ff02::fb", NULL), -EAFNOSUPPORT);
        CU_ASSERT_EQUAL(weir_udp_join(NULL, "239.255.77.77", NULL), -EINVAL);
        struct in_addr interface = {htonl(INADDR_LOOPBACK)};
        CU_ASSERT_EQUAL(setsockopt(plain, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
        struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons((in_port_t)weir_udp_port(member))};
        inet_pton(AF_INET, "239.255.77.77", &group.sin_addr);
        if (sendto(plain, "all", 3, 0, (struct sockaddr *)&group, sizeof group) == 3) {
                start(weir_udp_receive_new(member, weir_test_take, &taken));
                weir_test_pass(0);
                WEIR_TEST_TOOK(&taken, "all ");
        }
        weir_udp_unref(member);
        end();
}

/* -- seen -- */

static void
a_dump_says_what_it_waits_for(void)
{
        char text[4096] = "", expected[64];
        struct weir_test_taken taken = {0};
        FILE *file = tmpfile();

        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_udp_receive_new(udp, weir_test_take, &taken));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(fileno(file)), 0);
        CU_ASSERT(pread(fileno(file), text, sizeof text - 1, 0) > 0);
        fclose(file);
        snprintf(expected, sizeof expected, "a datagram at 127.0.0.1:%d", weir_udp_port(udp));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        weir_udp_close(udp);
        end();
        CU_ASSERT_EQUAL(taken.status, -EBADF);
}

/* -- many, on many threads -- */

#define SOCKETS 8
#define THREADS 4
#define ROUNDS  25000 /* of each thread */

static weir_udp *sockets[SOCKETS];
static int ports[SOCKETS];
static _Atomic unsigned started, ended;

/* A socket that an ask has sent to may be closed by then. */
static void
count_end(weir_task *task, void *unused)
{
        static const int expected[] = {0, -EBADF, -ECANCELED, -ESHUTDOWN, -ETIMEDOUT, -EEXIST, -ENOBUFS};
        int status = weir_task_status(task);
        bool is_expected = status == -ECONNREFUSED && weir_udp_attempts(task) > 0;

        (void)unused;
        for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++) {
                is_expected |= status == expected[i];
        }
        CU_ASSERT(is_expected);
        atomic_fetch_add(&ended, 1);
}

static weir_task *
some_task(unsigned *state, unsigned at)
{
        struct weir_udp_ask_config how = WEIR_UDP_ASK_CONFIG_DEFAULT;
        unsigned kind = (unsigned)rand_r(state) % 8, to = (unsigned)rand_r(state) % SOCKETS, id = (unsigned)rand_r(state) % 64;

        how.id_size = sizeof id;
        how.wait = WEIR_MSEC(1);
        how.attempts = 2;
        if (kind < 2)
                return weir_udp_receive_new(sockets[at], count_end, NULL);
        if (kind < 3)
                return weir_udp_receive_many_new(sockets[at], 3, count_end, NULL);
        if (kind < 5)
                return weir_udp_ask_new(sockets[at], weir_test_at(ports[to]), &id, sizeof id, &how, count_end, NULL);
        return weir_udp_send_new(sockets[at], weir_test_at(ports[to]), &id, sizeof id, count_end, NULL);
}

static void *
meddle(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, some_task(&state, (unsigned)rand_r(&state) % SOCKETS));
                atomic_fetch_add(&started, 1);
                weir_series_start(series);
                if (rand_r(&state) % 3 == 0) {
                        weir_series_cancel(series);
                }
                weir_series_unref(series);
                if (i % 64 == 0) {
                        weir_test_sleep(200000); /* what was started is to come to something */
                }
        }
        return NULL;
}

static void
a_storm_leaves_nothing_behind(void)
{
        pthread_t threads[THREADS];
        unsigned before = weir_test_entries_of("/proc/self/fd");

        weir_test_free_kept();
        int64_t bytes = bytes_out;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < SOCKETS; i++) {
                sockets[i] = weir_udp_open("127.0.0.1:0");
                ports[i] = weir_udp_port(sockets[i]);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, meddle, (void *)(uintptr_t)(i + 1)), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
        for (unsigned i = 0; i < SOCKETS; i++) {
                if (i % 2) {
                        weir_udp_close(sockets[i]);
                }
                weir_udp_unref(sockets[i]);
        }
        weir_test_end();
        weir_test_free_kept();
        CU_ASSERT_EQUAL(started, THREADS * ROUNDS);
        CU_ASSERT_EQUAL(ended, started);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(addresses_are_read_written_and_compared),
                WEIR_TEST(a_task_ends_with_the_next_datagram),
                WEIR_TEST(several_receivers_get_one_each_in_order),
                WEIR_TEST(many_are_received_by_one_task),
                WEIR_TEST(the_smallest_and_the_largest_arrive),
                WEIR_TEST(a_socket_that_nobody_reads_keeps_nothing),
                WEIR_TEST(a_cancel_and_a_deadline_reach_it),
                WEIR_TEST(what_a_cancelled_task_has_taken_waits_for_the_next),
                WEIR_TEST(close_ends_tasks_and_the_last_reference_closes),
                WEIR_TEST(one_reference_too_few_aborts),
                WEIR_TEST(shutdown_ends_it_and_the_socket_serves_the_next_runtime),
                WEIR_TEST(a_child_takes_nothing_from_its_parent),
                WEIR_TEST(a_task_sends_a_datagram),
                WEIR_TEST(a_reply_goes_to_the_sender),
                WEIR_TEST(many_are_sent_by_one_task_in_their_order),
                WEIR_TEST(mistakes_are_reported),
                WEIR_TEST(a_socket_of_both_families_shows_addresses_of_each),
                WEIR_TEST(a_connected_socket_reports_that_nobody_listens),
                WEIR_TEST(unix_sockets_talk),
                WEIR_TEST(a_full_queue_is_waited_for),
                WEIR_TEST(a_group_is_joined),
                WEIR_TEST(a_dump_says_what_it_waits_for),
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        return weir_test_main("udp", tests, sizeof tests / sizeof *tests);
}
