/* test/topic_test.c: publish and subscribe: who gets what, in which order, what is lost, what lives how long. */
#include "test/fixture.h"

#include <errno.h>
#include <inttypes.h>

static char seen[2048];

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
}

/* "name:message", with "(n)" for n lost ones before it; or "name:status". */
static void
received(weir_task *task, void *name)
{
        size_t size = strlen(seen), bytes;
        const char *message = weir_topic_message(task, &bytes);
        char lost[24] = "";

        if (weir_topic_lost(task) > 0)
                snprintf(lost, sizeof lost, "(%" PRIu64 ")", weir_topic_lost(task));
        CU_ASSERT_EQUAL(bytes, message ? strlen(message) : 0);
        if (message)
                snprintf(seen + size, sizeof seen - size, "%s%s:%s%s", size ? " " : "", (const char *)name, lost, message);
        else
                snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", (const char *)name, weir_task_status(task));
}

static void
receive(weir_subscriber *subscriber, const char *name)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_topic_receive_new(subscriber, received, (void *)name)), 0);
        weir_test_pass(0);
}

static int64_t
publish(const char *text)
{
        int64_t subscribers = weir_topic_publish("t", text, strlen(text));

        weir_test_pass(0);
        return subscribers;
}

static void
see(const char *expected)
{
        CU_ASSERT_STRING_EQUAL(seen, expected);
        if (strcmp(seen, expected))
                fprintf(stderr, "expected \"%s\", got \"%s\"\n", expected, seen);
        seen[0] = '\0';
}

/* -- messages -- */

static void
every_subscriber_gets_every_message_in_order(void)
{
        begin();
        weir_subscriber *a = weir_topic_subscribe("t", 10), *b = weir_topic_subscribe("t", 10);
        receive(a, "a");
        see("");
        CU_ASSERT_EQUAL(publish("1"), 2);
        see("a:1");
        publish("2");
        see("");
        receive(b, "b");
        receive(b, "b");
        receive(a, "a");
        see("b:1 b:2 a:2");
        receive(a, "a");
        receive(b, "b");
        publish("3");
        see("a:3 b:3");
        weir_subscriber_unref(a);
        weir_subscriber_unref(b);
        weir_test_end();
}

static void
a_late_subscriber_gets_what_comes_after_it(void)
{
        begin();
        CU_ASSERT_EQUAL(publish("0"), 0);
        weir_subscriber *a = weir_topic_subscribe("t", 10);
        publish("1");
        weir_subscriber *b = weir_topic_subscribe("t", 10);
        publish("2");
        receive(a, "a");
        receive(a, "a");
        receive(b, "b");
        see("a:1 a:2 b:2");
        weir_subscriber_unref(a);
        weir_subscriber_unref(b);
        CU_ASSERT_EQUAL(publish("3"), 0);
        weir_test_end();
}

static void
a_slow_subscriber_loses_the_oldest_and_is_told_how_many(void)
{
        begin();
        weir_subscriber *fast = weir_topic_subscribe("t", 5), *slow = weir_topic_subscribe("t", 2);
        publish("1");
        publish("2");
        publish("3");
        publish("4");
        receive(slow, "s");
        receive(slow, "s");
        receive(fast, "f");
        see("s:(2)3 s:4 f:1");
        for (char text[] = "5"; *text <= '9'; ++*text)
                publish(text);
        receive(fast, "f");
        receive(slow, "s");
        see("f:(3)5 s:(3)8");
        receive(slow, "s");
        receive(fast, "f");
        see("s:9 f:6");
        weir_subscriber_unref(fast);
        weir_subscriber_unref(slow);
        weir_test_end();
}

static void
a_subscriber_with_more_room_makes_the_topic_larger(void)
{
        begin();
        weir_subscriber *small = weir_topic_subscribe("t", 1);
        publish("1");
        publish("2");
        publish("3");
        weir_subscriber *large = weir_topic_subscribe("t", 3);
        for (char text[] = "4"; *text <= '6'; ++*text)
                publish(text);
        receive(small, "s");
        for (unsigned i = 0; i < 3; i++)
                receive(large, "l");
        see("s:(5)6 l:4 l:5 l:6");
        weir_subscriber_unref(small);
        weir_subscriber_unref(large);
        weir_test_end();
}

static void
receives_of_one_subscriber_get_one_message_each_and_hold_up_nobody(void)
{
        begin();
        weir_subscriber *a = weir_topic_subscribe("t", 10), *b = weir_topic_subscribe("t", 10);
        receive(a, "a1");
        receive(a, "a2");
        receive(a, "a3");
        receive(b, "b");
        publish("1");
        see("a1:1 b:1");
        receive(b, "b");
        publish("2");
        see("a2:2 b:2");
        publish("3");
        see("a3:3");
        weir_subscriber_unref(a);
        weir_subscriber_unref(b);
        weir_test_end();
}

static void
a_thousand_wait_and_all_get_it(void)
{
        static weir_subscriber *many[1000];

        begin();
        for (unsigned i = 0; i < 1000; i++) {
                many[i] = weir_topic_subscribe("t", 1);
                weir_task_start(weir_topic_receive_new(many[i], NULL, NULL));
        }
        receive(many[0], "second");
        weir_test_pass(0);
        CU_ASSERT_EQUAL(publish("1"), 1000);
        publish("2");
        see("second:2");
        for (unsigned i = 1; i < 1000; i++)
                weir_subscriber_unref(many[i]);
        CU_ASSERT_EQUAL(publish("3"), 1);
        weir_subscriber_unref(many[0]);
        weir_test_end();
}

static void
bytes_may_be_anything(void)
{
        begin();
        weir_subscriber *a = weir_topic_subscribe("t", 10);
        CU_ASSERT_EQUAL(weir_topic_publish("t", NULL, 0), 1);
        receive(a, "a");
        see("a:");
        weir_subscriber_unref(a);
        weir_test_end();
}

/* -- early ends -- */

static void
cancel_deadline_and_shutdown_lose_no_message(void)
{
        begin();
        weir_subscriber *a = weir_topic_subscribe("t", 10);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_topic_receive_new(a, received, "a"));
        weir_series_start(series);
        weir_series_cancel(series);
        weir_test_pass(0);
        see("a:-125");
        weir_series_unref(series);
        weir_task_start(weir_timeout_new(weir_topic_receive_new(a, received, "a"), WEIR_SEC(1)));
        weir_test_pass(WEIR_SEC(1));
        see("a:-110");
        weir_task_dismiss(weir_topic_receive_new(a, received, "a"));
        publish("1");
        receive(a, "a");
        see("a:1");
        receive(a, "a");
        weir_test_end();
        see("a:-108");
        weir_subscriber_unref(a);
}

static void
a_receive_keeps_its_subscriber(void)
{
        begin();
        weir_subscriber *a = weir_topic_subscribe("t", 10);
        receive(a, "a");
        weir_subscriber_unref(a);
        CU_ASSERT_EQUAL(publish("1"), 1);
        see("a:1");
        CU_ASSERT_EQUAL(publish("2"), 0);
        weir_test_end();
}

/* -- bad input, forks, dumps -- */

static void
expect_errno(weir_subscriber *subscriber, int expected)
{
        int error = errno;

        CU_ASSERT_PTR_NULL(subscriber);
        CU_ASSERT_EQUAL(error, expected);
}

static void
bad_input_is_answered(void)
{
        char longest[WEIR_NAME_MAX + 2];
        size_t size = 7;

        memset(longest, 'x', sizeof longest - 1);
        longest[sizeof longest - 1] = '\0';
        begin();
        expect_errno(weir_topic_subscribe(NULL, 1), EINVAL);
        expect_errno(weir_topic_subscribe("", 1), EINVAL);
        expect_errno(weir_topic_subscribe("t", 0), EINVAL);
        expect_errno(weir_topic_subscribe("t", WEIR_TOPIC_ROOM_MAX + 1), EINVAL);
        expect_errno(weir_topic_subscribe(longest, 1), ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_topic_publish(NULL, "x", 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_topic_publish("", "x", 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_topic_publish("t", NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_topic_publish(longest, "x", 1), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_start(weir_topic_receive_new(NULL, NULL, NULL)), -ENOMEM);
        weir_subscriber *a = weir_topic_subscribe("t", WEIR_TOPIC_ROOM_MAX);
        CU_ASSERT_EQUAL(weir_topic_publish("t", "x", SIZE_MAX), -ENOMEM);
        weir_task *waiting = weir_topic_receive_new(a, NULL, NULL), *timer = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_PTR_NULL(weir_topic_message(waiting, &size));
        CU_ASSERT_EQUAL(size, 0);
        CU_ASSERT_PTR_NULL(weir_topic_message(timer, NULL));
        CU_ASSERT_PTR_NULL(weir_topic_message(NULL, NULL));
        CU_ASSERT_EQUAL(weir_topic_lost(timer), 0);
        CU_ASSERT_PTR_NULL(weir_subscriber_ref(NULL));
        weir_subscriber_unref(NULL);
        weir_task_dismiss(waiting);
        weir_task_dismiss(timer);
        weir_subscriber_unref(a);
        weir_test_end();
}

static void
a_topic_says_how_many_have_subscribed(void)
{
        char name[WEIR_NAME_MAX + 2] = "";

        begin();
        memset(name, 'n', sizeof name - 1);
        CU_ASSERT_EQUAL(weir_topic_subscribers("t"), 0);
        weir_subscriber *a = weir_topic_subscribe("t", 1), *b = weir_topic_subscribe("t", 3);
        CU_ASSERT_EQUAL(weir_topic_subscribers("t"), 2);
        CU_ASSERT_EQUAL(weir_topic_subscribers("other"), 0);
        CU_ASSERT_EQUAL(weir_topic_subscribers(NULL) + weir_topic_subscribers("") + weir_topic_subscribers(name), 0);
        weir_subscriber_unref(b);
        CU_ASSERT_EQUAL(weir_topic_subscribers("t"), 1);
        weir_subscriber_unref(a);
        CU_ASSERT_EQUAL(weir_topic_subscribers("t"), 0);
        weir_test_end();
}

/* Rooms of all sizes come and go; each subscriber finds what it has room for. */
static void
a_subscriber_with_more_room_comes_and_goes_and_nothing_else_is_lost(void)
{
        static const size_t rooms[] = {1, 2, 3, 4, 5, 8, 9, 300, 1000, 7, 1, 600, 16, 2000};

        begin();
        weir_subscriber *three = weir_topic_subscribe("t", 3);
        for (unsigned i = 0; i < sizeof rooms / sizeof *rooms; i++) {
                weir_subscriber *other = weir_topic_subscribe("t", rooms[i]);

                for (unsigned n = 0; n < 2500; n++)
                        CU_ASSERT_EQUAL(weir_topic_publish("t", n < 2497 ? "x" : (const char *[]){"1", "2", "3"}[n - 2497], 1),
                                        2);
                weir_subscriber_unref(other);
                receive(three, "t");
                receive(three, "t");
                receive(three, "t");
                see("t:(2497)1 t:2 t:3");
        }
        weir_subscriber_unref(three);
        weir_test_end();
}

static weir_subscriber *inherited;

static void
use_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        if (weir_topic_publish("t", "x", 1) != -ECHILD || weir_topic_subscribers("t") || weir_topic_subscribe("t", 1) ||
            errno != ECHILD)
                abort();
        weir_subscriber_unref(inherited);
}

static void
a_forked_child_is_refused(void)
{
        char said[256];

        begin();
        inherited = weir_topic_subscribe("t", 1);
        receive(inherited, "a");
        CU_ASSERT_EQUAL(weir_test_child(use_in_child, said, sizeof said), 0);
        publish("1");
        see("a:1");
        weir_subscriber_unref(inherited);
        weir_test_end();
}

static void
a_dump_says_how_many_have_subscribed(void)
{
        char dump[8192];
        int ends[2];

        begin();
        weir_subscriber *a = weir_topic_subscribe("room 7", 10), *b = weir_topic_subscribe("room 7", 10);
        weir_topic_publish("room 7", "x", 1);
        receive(a, "a");
        receive(a, "a");
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        close(ends[1]);
        ssize_t size = read(ends[0], dump, sizeof dump - 1);
        dump[size > 0 ? size : 0] = '\0';
        close(ends[0]);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, "topic \"room 7\": 1 waits; 2 subscribers, 1 published\n"));
        weir_subscriber_unref(a);
        weir_subscriber_unref(b);
        weir_test_end();
}

/* -- many threads -- */

#define MESSAGES    (WEIR_TEST_SANITIZED ? 2000 : 10000) /* of each publisher */
#define PUBLISHERS  2
#define SUBSCRIBERS 4

struct reader {
        weir_subscriber *subscriber;
        uint64_t count, lost, order; /* `order`: a hash of all that it has seen */
        bool is_slow;
};

static struct {
        struct reader readers[SUBSCRIBERS];
        _Atomic unsigned wrong;
        struct weir_test_latch over;
} storm;

static void
read_on(weir_task *task, void *context)
{
        struct reader *reader = context;
        const char *text = weir_topic_message(task, NULL);

        if (!text || strcmp(text, "end") == 0) {
                reader->lost += weir_topic_lost(task);
                storm.wrong += !text;
                weir_test_latch_count_down(&storm.over);
                return;
        }
        reader->count++;
        reader->lost += weir_topic_lost(task);
        for (; *text; text++)
                reader->order = reader->order * 1099511628211u + (unsigned char)*text;
        if (reader->is_slow)
                sched_yield();
        weir_series_push(weir_series_of(task), weir_topic_receive_new(reader->subscriber, read_on, reader));
}

static void *
publish_many(void *number)
{
        for (unsigned i = 0; i < MESSAGES; i++) {
                char text[32];

                snprintf(text, sizeof text, "%u.%u", (unsigned)(uintptr_t)number, i);
                storm.wrong += weir_topic_publish("storm", text, strlen(text)) != SUBSCRIBERS;
        }
        return NULL;
}

static void
all_see_one_order_and_nothing_is_lost_untold(void)
{
        pthread_t threads[PUBLISHERS];

        weir_test_begin_real(2);
        weir_test_latch_init(&storm.over, SUBSCRIBERS);
        for (unsigned i = 0; i < SUBSCRIBERS; i++) {
                struct reader *reader = &storm.readers[i];

                *reader = (struct reader){.is_slow = i == 0};
                reader->subscriber = weir_topic_subscribe("storm", i == 0 ? 10 : PUBLISHERS * MESSAGES + 1);
                weir_task_start(weir_topic_receive_new(reader->subscriber, read_on, reader));
        }
        for (uintptr_t i = 0; i < PUBLISHERS; i++)
                pthread_create(&threads[i], NULL, publish_many, (void *)i);
        for (unsigned i = 0; i < PUBLISHERS; i++)
                pthread_join(threads[i], NULL);
        weir_topic_publish("storm", "end", 3);
        weir_test_latch_wait(&storm.over);
        for (unsigned i = 0; i < SUBSCRIBERS; i++) {
                CU_ASSERT_EQUAL(storm.readers[i].count + storm.readers[i].lost, PUBLISHERS * MESSAGES);
                CU_ASSERT(i == 0 || storm.readers[i].lost == 0);
                CU_ASSERT(i == 0 || storm.readers[i].order == storm.readers[1].order);
                weir_subscriber_unref(storm.readers[i].subscriber);
        }
        CU_ASSERT_EQUAL(storm.wrong, 0);
        weir_test_end();
}

static void *
come_and_go(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < MESSAGES; i++) {
                weir_subscriber *subscriber = weir_topic_subscribe("storm", 1 + i % 50);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_topic_receive_new(subscriber, NULL, NULL));
                weir_series_start(series);
                weir_topic_publish("storm", "x", 1);
                weir_series_cancel(series);
                weir_series_unref(series);
                weir_subscriber_unref(subscriber);
        }
        return NULL;
}

static void
topics_come_and_go_while_others_publish(void)
{
        pthread_t threads[3];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < 3; i++)
                pthread_create(&threads[i], NULL, come_and_go, NULL);
        for (unsigned i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_topic_publish("storm", "x", 1), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(every_subscriber_gets_every_message_in_order),
                WEIR_TEST(a_late_subscriber_gets_what_comes_after_it),
                WEIR_TEST(a_slow_subscriber_loses_the_oldest_and_is_told_how_many),
                WEIR_TEST(a_subscriber_with_more_room_makes_the_topic_larger),
                WEIR_TEST(receives_of_one_subscriber_get_one_message_each_and_hold_up_nobody),
                WEIR_TEST(a_thousand_wait_and_all_get_it),
                WEIR_TEST(bytes_may_be_anything),
                WEIR_TEST(cancel_deadline_and_shutdown_lose_no_message),
                WEIR_TEST(a_receive_keeps_its_subscriber),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(a_topic_says_how_many_have_subscribed),
                WEIR_TEST(a_subscriber_with_more_room_comes_and_goes_and_nothing_else_is_lost),
                WEIR_TEST(a_forked_child_is_refused),
                WEIR_TEST(a_dump_says_how_many_have_subscribed),
                WEIR_TEST(all_see_one_order_and_nothing_is_lost_untold),
                WEIR_TEST(topics_come_and_go_while_others_publish),
        };

        return weir_test_main("topic", tests, sizeof tests / sizeof *tests);
}
