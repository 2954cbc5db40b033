/* test/udp_ask_test.c: questions and their replies, on the virtual clock. */
#include "test/udp_fixture.h"
#include "test/timer_fixture.h"

static int peer, peer_port; /* a socket of the system, which is asked */
static weir_udp *udp;
static struct weir_udp_ask_config how;

static void
begin(void)
{
        peer = weir_test_plain_socket(&peer_port);
        weir_test_begin_virtual();
        udp = weir_udp_open("127.0.0.1:0");
        how = (struct weir_udp_ask_config)WEIR_UDP_ASK_CONFIG_DEFAULT;
        how.id_size = 2;
        how.jitter = -1;
}

static void
end(void)
{
        weir_udp_unref(udp);
        weir_test_end();
        close(peer);
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static void
ask_at(int port, const char *text, struct weir_test_taken *taken)
{
        start(weir_udp_ask_new(udp, weir_test_at(port), text, strlen(text), &how, weir_test_take, taken));
}

static void
ask(const char *text, struct weir_test_taken *taken)
{
        ask_at(peer_port, text, taken);
}

static void
reply(const char *text)
{
        weir_test_send_to(peer, weir_udp_port(udp), text, strlen(text));
        weir_test_pass(0);
}

static void
a_reply_is_matched_by_its_id(void)
{
        struct weir_test_taken taken[3] = {{0}}, other = {0};

        begin();
        start(weir_udp_receive_new(udp, weir_test_take, &other));
        ask("aa?", &taken[0]);
        ask("bb?", &taken[1]);
        ask("cc?", &taken[2]);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_drain(peer), 3);
        reply("cc!");
        reply("xx!");
        reply("aa!");
        WEIR_TEST_TOOK(&taken[2], "cc! ");
        CU_ASSERT_EQUAL(taken[2].attempts, 1);
        CU_ASSERT_STRING_EQUAL(taken[2].from, weir_test_at(peer_port));
        WEIR_TEST_TOOK(&taken[0], "aa! ");
        WEIR_TEST_TOOK(&other, "xx! ");
        CU_ASSERT_EQUAL(taken[1].calls, 0);
        reply("b");
        reply("bb");
        WEIR_TEST_TOOK(&taken[1], "bb ");
        end();
}

static void
the_id_may_be_at_other_places(void)
{
        struct weir_test_taken first = {0}, second = {0}, none = {0};

        begin();
        how.id_at = 1;
        how.reply_id_at = 3;
        ask("?12", &first);
        how.id_at = 0;
        how.reply_id_at = 0;
        how.id_size = 1;
        ask("x?", &second);
        weir_test_pass(0);
        reply("...12");
        reply("x");
        WEIR_TEST_TOOK(&first, "...12 ");
        WEIR_TEST_TOOK(&second, "x ");
        how.id_size = 0; /* whatever comes from there */
        ask("anything", &none);
        weir_test_pass(0);
        reply("some");
        WEIR_TEST_TOOK(&none, "some ");
        end();
}

/* 1 + 2 + 4 + 8 seconds. */
static void
it_is_sent_again_with_growing_waits(void)
{
        struct weir_test_taken taken = {0}, short_ones = {0};

        begin();
        weir_nsec began = weir_now();
        ask("aa", &taken);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_drain(peer), 1);
        weir_test_pass(WEIR_SEC(1) - 1);
        CU_ASSERT_EQUAL(weir_test_drain(peer), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(weir_test_drain(peer), 1);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_test_drain(peer), 1);
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_test_drain(peer), 1);
        weir_test_pass(WEIR_SEC(8) - 1);
        CU_ASSERT_EQUAL(taken.calls, 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(taken.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(taken.attempts, 4);
        CU_ASSERT_EQUAL(taken.at - began, WEIR_SEC(15));
        CU_ASSERT_EQUAL(weir_test_drain(peer), 0);
        how.max_wait = WEIR_SEC(3); /* 1 + 2 + 3 + 3 + 3 */
        how.attempts = 5;
        began = weir_now();
        ask("bb", &short_ones);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(short_ones.at - began, WEIR_SEC(12));
        CU_ASSERT_EQUAL(short_ones.attempts, 5);
        end();
}

static void
a_limit_and_the_series_end_it_exactly(void)
{
        struct weir_test_taken taken = {0}, cut = {0};

        begin();
        how.limit = WEIR_MSEC(3500);
        weir_nsec began = weir_now();
        ask("aa", &taken);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(taken.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(taken.attempts, 3);
        CU_ASSERT_EQUAL(taken.at - began, WEIR_MSEC(3500));
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_udp_ask_new(udp, weir_test_at(peer_port), "bb", 2, NULL, weir_test_take, &cut));
        weir_series_set_deadline(series, WEIR_MSEC(700));
        began = weir_now();
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(cut.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(cut.attempts, 1);
        CU_ASSERT_EQUAL(cut.at - began, WEIR_MSEC(700));
        end();
}

static void
jitter_lengthens_waits(void)
{
        struct weir_test_taken taken[16] = {{0}};
        unsigned different = 0;

        begin();
        how.jitter = 50;
        how.attempts = 1;
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 16; i++) {
                char id[3] = {'a', (char)('a' + i), '\0'};

                ask(id, &taken[i]);
        }
        weir_test_pass(WEIR_SEC(60));
        for (unsigned i = 0; i < 16; i++) {
                CU_ASSERT(taken[i].at - began >= WEIR_SEC(1) && taken[i].at - began <= WEIR_MSEC(1500));
                different += taken[i].at != taken[0].at;
        }
        CU_ASSERT(different > 0);
        end();
}

static void
late_and_repeated_replies_are_dropped(void)
{
        struct weir_test_taken taken = {0}, again = {0}, receiver = {0};

        begin();
        start(weir_udp_receive_new(udp, weir_test_take, &receiver));
        ask("aa", &taken);
        weir_test_pass(0);
        reply("aa1");
        reply("aa2");
        WEIR_TEST_TOOK(&taken, "aa1 ");
        CU_ASSERT_EQUAL(receiver.calls, 0);
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 1);
        ask("aa", &again); /* an id that is used again */
        weir_test_pass(0);
        reply("aa3");
        WEIR_TEST_TOOK(&again, "aa3 ");
        weir_test_pass(WEIR_SEC(29));
        reply("aa4");
        CU_ASSERT_EQUAL(receiver.calls, 0);
        weir_test_pass(WEIR_SEC(1)); /* forgotten */
        reply("aa5");
        WEIR_TEST_TOOK(&receiver, "aa5 ");
        end();
}

static void
the_same_id_twice_is_refused(void)
{
        struct weir_test_taken first = {0}, second = {0}, elsewhere = {0};
        int other_port;
        int other = weir_test_plain_socket(&other_port);

        begin();
        ask("aa", &first);
        ask("aa", &second);
        ask_at(other_port, "aa", &elsewhere);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(second.status, -EEXIST);
        weir_test_send_to(other, weir_udp_port(udp), "aa1", 3);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&elsewhere, "aa1 ");
        CU_ASSERT_EQUAL(first.calls, 0);
        reply("aa2");
        WEIR_TEST_TOOK(&first, "aa2 ");
        end();
        close(other);
}

static void
a_reply_from_another_address_is_no_reply(void)
{
        struct weir_test_taken taken = {0}, receiver = {0};
        int other_port;
        int other = weir_test_plain_socket(&other_port);

        begin();
        ask("aa", &taken);
        weir_test_pass(0);
        weir_test_send_to(other, weir_udp_port(udp), "aa spoofed", 10);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(taken.calls, 0);
        start(weir_udp_receive_new(udp, weir_test_take, &receiver));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&receiver, "aa spoofed ");
        reply("aa true");
        WEIR_TEST_TOOK(&taken, "aa true ");
        end();
        close(other);
}

static void
strangers_fill_no_memory(void)
{
        struct weir_test_taken taken = {0}, all = {0};

        begin();
        ask("aa", &taken);
        weir_test_pass(0);
        for (unsigned i = 0; i < 200; i++) {
                reply("zz");
        }
        CU_ASSERT_EQUAL(weir_udp_dropped(udp), 200 - 64);
        reply("aa");
        WEIR_TEST_TOOK(&taken, "aa ");
        start(weir_udp_receive_many_new(udp, 1000, weir_test_take, &all));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(all.count, 64);
        end();
}

/* Of two destinations one refuses: its ask ends at once, whether the socket is connected or not. */
static void
a_refusal_reaches_the_ask(void)
{
        struct weir_test_taken refused = {0}, waiting = {0}, connected = {0}, receiver = {0};
        int gone_port;

        begin();
        close(weir_test_plain_socket(&gone_port));
        ask("aa", &waiting);
        start(weir_udp_receive_new(udp, weir_test_take, &receiver));
        weir_test_pass(0);
        ask_at(gone_port, "bb", &refused);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(refused.status, -ECONNREFUSED);
        CU_ASSERT_EQUAL(refused.attempts, 1);
        CU_ASSERT_EQUAL(waiting.calls, 0);
        CU_ASSERT_EQUAL(receiver.calls, 0);
        weir_udp *own = weir_udp_connect(weir_test_at(gone_port));
        start(weir_udp_ask_new(own, NULL, "cc", 2, &how, weir_test_take, &connected));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(connected.status, -ECONNREFUSED);
        weir_udp_unref(own);
        reply("aa");
        WEIR_TEST_TOOK(&waiting, "aa ");
        weir_udp_close(udp);
        weir_test_pass(0);
        end();
}

static void
cancel_close_and_shutdown_end_it(void)
{
        struct weir_test_taken cancelled = {0}, closed = {0}, cut = {0};

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_udp_ask_new(udp, weir_test_at(peer_port), "aa", 2, &how, weir_test_take, &cancelled));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(cancelled.status, -ECANCELED);
        reply("aa"); /* late */
        ask("bb", &closed);
        weir_test_pass(0);
        weir_udp_close(udp);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(closed.status, -EBADF);
        weir_series_unref(series);
        end();
        begin();
        ask("cc", &cut);
        weir_test_pass(0);
        end();
        CU_ASSERT_EQUAL(cut.status, -ESHUTDOWN);
}

static void
mistakes_are_reported(void)
{
        struct weir_test_taken nowhere = {0}, shapes[10] = {{0}};
        weir_task *timer = weir_timer_new(0, NULL, NULL);

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_ask_new(NULL, "127.0.0.1:1", "aa", 2, &how, NULL, NULL)), -EBADF);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_ask_new(udp, "here", "aa", 2, &how, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_ask_new(udp, "127.0.0.1:1", "a", 1, &how, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_udp_ask_new(udp, "127.0.0.1:1", NULL, 2, &how, NULL, NULL)), -EINVAL);
        for (unsigned i = 0; i < 6; i++) {
                struct weir_udp_ask_config wrong = how;

                switch (i) {
                case 0: wrong.size = 4; break;
                case 1: wrong.id_size = 33; break;
                case 2: wrong.attempts = -1; break;
                case 3: wrong.jitter = -2; break;
                case 4: wrong.id_at = UINT32_MAX; break;
                case 5: wrong.wait = -1; break;
                }
                CU_ASSERT_EQUAL(weir_task_start(weir_udp_ask_new(udp, "127.0.0.1:1", "aa", 2, &wrong, NULL, NULL)), -EINVAL);
        }
        start(weir_udp_ask_new(udp, NULL, "aa", 2, &how, weir_test_take, &nowhere));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(nowhere.status, -EDESTADDRREQ);
        CU_ASSERT_EQUAL(weir_udp_attempts(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_attempts(timer), -EDOM);
        weir_task_dismiss(timer);
        for (unsigned i = 0; i < 10; i++) {
                how.reply_id_at = i;
                ask("aa", &shapes[i]);
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(shapes[7].calls, 0);
        CU_ASSERT_EQUAL(shapes[8].status, -ENOSPC);
        CU_ASSERT_EQUAL(shapes[9].status, -ENOSPC);
        weir_udp_close(udp);
        weir_test_pass(0);
        end();
}

/* -- time -- */

static void *
answer_slowly(void *unused)
{
        char data[64];
        int port;

        (void)unused;
        for (unsigned i = 0; i < 20; i++) {
                struct pollfd wait = {.fd = peer, .events = POLLIN};

                CU_ASSERT_EQUAL(poll(&wait, 1, (int)(WEIR_TEST_PATIENCE / 1000000)), 1);
                weir_test_sleep(1000000);
                weir_clock_hold(); /* nobody sees what it does between reading and sending */
                ssize_t size = weir_test_receive(peer, data, sizeof data, &port);
                if (size > 0) {
                        weir_test_send_to(peer, port, data, (size_t)size);
                }
                weir_clock_release();
        }
        return NULL;
}

/* A thread with a socket of its own takes real time to read.  No virtual time passes meanwhile, so nothing is sent twice. */
static void
time_stands_still_until_a_datagram_was_read(void)
{
        pthread_t thread;

        begin();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, answer_slowly, NULL), 0);
        for (unsigned i = 0; i < 20; i++) {
                struct weir_test_taken taken = {0};
                char id[3] = {'a', (char)('a' + i), '\0'};

                weir_task_run(weir_udp_ask_new(udp, weir_test_at(peer_port), id, 2, &how, weir_test_take, &taken));
                CU_ASSERT_EQUAL(taken.status, 0);
        }
        pthread_join(thread, NULL);
        end();
}

static void
echo(weir_task *received, void *count)
{
        size_t size;
        const void *data = weir_udp_data(received, &size);

        if (weir_task_status(received)) {
                return;
        }
        ++*(unsigned *)count;
        weir_task_start(weir_udp_reply_new(received, data, size, NULL, NULL));
        weir_task_start(weir_udp_receive_new(udp, echo, count));
}

/* Both ends are of this process: no ask is ever sent twice, however busy the system is. */
static void
no_time_passes_between_two_sockets_of_the_process(void)
{
        unsigned count = 0;

        begin();
        weir_nsec began = weir_now();
        weir_udp *client = weir_udp_open("127.0.0.1:0");
        start(weir_udp_receive_new(udp, echo, &count));
        how.wait = 1000;
        for (unsigned i = 0; i < 1000; i++) {
                struct weir_test_taken taken = {0};

                weir_task_run(
                        weir_udp_ask_new(client, weir_test_at(weir_udp_port(udp)), &i, sizeof i, &how, weir_test_take, &taken));
                CU_ASSERT_EQUAL(taken.status, 0);
                CU_ASSERT_EQUAL(taken.attempts, 1);
        }
        CU_ASSERT_EQUAL(count, 1000);
        CU_ASSERT_EQUAL(weir_now(), began);
        weir_udp_unref(client);
        weir_udp_close(udp);
        weir_test_pass(0);
        end();
}

static void
a_dump_says_whom_it_waits_for(void)
{
        char text[4096] = "", expected[64];
        struct weir_test_taken taken = {0};
        FILE *file = tmpfile();

        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_udp_ask_new(udp, weir_test_at(peer_port), "aa", 2, &how, weir_test_take, &taken));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(fileno(file)), 0);
        CU_ASSERT(pread(fileno(file), text, sizeof text - 1, 0) > 0);
        fclose(file);
        snprintf(expected, sizeof expected, "a reply from 127.0.0.1:%d", peer_port);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        weir_udp_close(udp);
        weir_test_pass(0);
        end();
}

/* More than the table has slots, and more than it remembers. */
static void
thousands_are_in_flight(void)
{
        enum { MANY = 3000 };
        static struct weir_test_taken taken[MANY];

        begin();
        CU_ASSERT_EQUAL(setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &(int){8 << 20}, sizeof(int)), 0);
        how.attempts = 20;
        for (unsigned i = 0; i < MANY; i++) {
                uint16_t id = (uint16_t)i;

                start(weir_udp_ask_new(udp, weir_test_at(peer_port), &id, sizeof id, &how, weir_test_take, &taken[i]));
        }
        for (unsigned round = 0; round < 60; round++) {
                uint16_t id;

                weir_test_pass(0);
                while (recv(peer, &id, sizeof id, MSG_DONTWAIT) == sizeof id) {
                        weir_test_send_to(peer, weir_udp_port(udp), &id, sizeof id);
                        if (id % 32 == 0) {
                                weir_test_pass(0);
                        }
                }
                weir_test_pass(WEIR_SEC(1));
        }
        unsigned ended = 0;
        for (unsigned i = 0; i < MANY; i++) {
                ended += taken[i].calls == 1 && taken[i].status == 0;
        }
        CU_ASSERT_EQUAL(ended, MANY);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_reply_is_matched_by_its_id),
                WEIR_TEST(the_id_may_be_at_other_places),
                WEIR_TEST(it_is_sent_again_with_growing_waits),
                WEIR_TEST(a_limit_and_the_series_end_it_exactly),
                WEIR_TEST(jitter_lengthens_waits),
                WEIR_TEST(late_and_repeated_replies_are_dropped),
                WEIR_TEST(the_same_id_twice_is_refused),
                WEIR_TEST(a_reply_from_another_address_is_no_reply),
                WEIR_TEST(strangers_fill_no_memory),
                WEIR_TEST(a_refusal_reaches_the_ask),
                WEIR_TEST(cancel_close_and_shutdown_end_it),
                WEIR_TEST(mistakes_are_reported),
                WEIR_TEST(time_stands_still_until_a_datagram_was_read),
                WEIR_TEST(no_time_passes_between_two_sockets_of_the_process),
                WEIR_TEST(a_dump_says_whom_it_waits_for),
                WEIR_TEST(thousands_are_in_flight),
        };

        return weir_test_main("udp_ask", tests, sizeof tests / sizeof *tests);
}
