/* test/addon/redis_subscribe_test.c: subscriptions with a real server: what comes, a full channel, a connection that is lost. */
#include "test/addon/redis_fixture.h"

static struct redis_server server;
static weir_redis *redis;
static weir_redis_subscription *subscription;
static char address[128];

static void
begin_with(unsigned version, size_t capacity, enum weir_redis_overflow overflow)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        struct weir_redis_subscription_config how = WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.version = version;
        redis = weir_redis_new(address, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(redis);
        how.capacity = capacity;
        how.overflow = overflow;
        subscription = weir_redis_subscription_new(redis, &how);
        CU_ASSERT_PTR_NOT_NULL_FATAL(subscription);
}

static void
begin(void)
{
        begin_with(0, 0, WEIR_REDIS_OVERFLOW_WAIT);
}

static void
end(void)
{
        weir_redis_subscription_close(subscription);
        weir_redis_unref(redis);
        weir_test_end();
}

static char text[256];

static void
on_message(weir_task *receive, void *context)
{
        static const char *const kinds[] = {"message", "subscribed", "unsubscribed", "lost", "refused"};
        const struct weir_redis_message *message = weir_channel_message(receive);

        (void)context;
        if (!message)
                snprintf(text, sizeof text, "%d", weir_task_status(receive));
        else
                snprintf(text, sizeof text, "%s %s%s%s%s%.*s", kinds[message->kind], message->channel ? message->channel : "",
                         message->pattern ? " as " : "", message->pattern ? message->pattern : "", message->data ? ": " : "",
                         (int)message->size, message->data ? message->data : "");
}

/* The next message. */
static const char *
next(void)
{
        weir_task_run(weir_timeout_new(weir_channel_receive_new(weir_redis_subscription_channel(subscription), on_message, NULL),
                                       WEIR_SEC(20)));
        return text;
}

#define NEXT(expected) CU_ASSERT_STRING_EQUAL(next(), expected)

static void
what_is_published_comes(void)
{
        for (unsigned version = 2; version <= 3; version++) {
                begin_with(version, 0, WEIR_REDIS_OVERFLOW_WAIT);
                CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "news"), 0);
                NEXT("subscribed news");
                CU_ASSERT_EQUAL(weir_redis_subscribe_pattern(subscription, "n*"), 0);
                NEXT("subscribed n*");
                SAYS(redis, "2", "PUBLISH news %s", "it rains");
                NEXT("message news: it rains");
                NEXT("message news as n*: it rains");
                SAYS(redis, "1", "PUBLISH nothing %b", "a\0b", (size_t)3);
                next();
                CU_ASSERT_EQUAL(strncmp(text, "message nothing as n*: a", 24), 0);
                CU_ASSERT_EQUAL(weir_redis_unsubscribe_pattern(subscription, "n*"), 0);
                NEXT("unsubscribed n*");
                CU_ASSERT_EQUAL(weir_redis_unsubscribe(subscription, "news"), 0);
                NEXT("unsubscribed news");
                SAYS(redis, "0", "PUBLISH news x");
                CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "news"), 0);
                NEXT("subscribed news");
                end();
        }
}

static void
a_sharded_channel_is_another_one(void)
{
        for (unsigned version = 2; version <= 3; version++) {
                begin_with(version, 0, WEIR_REDIS_OVERFLOW_WAIT);
                CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "news"), 0);
                CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "news"), -EALREADY);
                NEXT("subscribed news");
                SAYS(redis, "0", "PUBLISH news no");
                SAYS(redis, "1", "SPUBLISH news yes");
                NEXT("message news: yes");
                CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "news"), 0);
                NEXT("subscribed news");
                SAYS(redis, "1", "PUBLISH news 1");
                NEXT("message news: 1");
                CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "more"), 0);
                NEXT("subscribed more");
                CU_ASSERT_EQUAL(weir_redis_unsubscribe_sharded(subscription, "news"), 0);
                CU_ASSERT_EQUAL(weir_redis_unsubscribe_sharded(subscription, "news"), -EALREADY);
                CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "news"), 0); /* before its end is confirmed */
                NEXT("unsubscribed news");
                NEXT("subscribed news");
                SAYS(redis, "1", "CLIENT KILL TYPE pubsub");
                NEXT("lost ");
                NEXT("subscribed news");
                NEXT("subscribed more");
                NEXT("subscribed news");
                end();
        }
}

static void
what_is_asked_wrongly_says_so(void)
{
        struct weir_redis_subscription_config how = {.size = 1};

        begin();
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "a"), 0);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "a"), -EALREADY);
        CU_ASSERT_EQUAL(weir_redis_unsubscribe(subscription, "b"), -EALREADY);
        CU_ASSERT_EQUAL(weir_redis_unsubscribe_pattern(subscription, "a"), -EALREADY);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, ""), -EINVAL);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_redis_subscribe(NULL, "a"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(NULL, "a"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_redis_unsubscribe_sharded(subscription, "a"), -EALREADY);
        CU_ASSERT_PTR_NULL(weir_redis_subscription_new(NULL, NULL));
        CU_ASSERT_PTR_NULL(weir_redis_subscription_new(redis, &how));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_redis_subscription_channel(NULL));
        CU_ASSERT_EQUAL(weir_redis_subscription_dropped(NULL), 0);
        weir_redis_subscription_close(NULL);
        weir_redis_message_free(NULL);
        end();
}

static void
a_refusal_is_a_message(void)
{
        char account[128];

        begin();
        SAYS(redis, "OK", "ACL SETUSER listener on >p resetchannels &open +subscribe +hello +ping");
        snprintf(account, sizeof account, "redis://listener:p@127.0.0.1:%d", server.port);
        weir_redis *other = weir_redis_new(account, NULL);
        weir_redis_subscription_close(subscription);
        subscription = weir_redis_subscription_new(other, NULL);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "closed"), 0);
        next();
        CU_ASSERT_EQUAL(strncmp(text, "refused : NOPERM", 16), 0);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "open"), 0);
        NEXT("subscribed open");
        weir_redis_unref(other);
        end();
}

/* -- a full channel -- */

static void
publish(unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++)
                SAYS(redis, "1", "PUBLISH news %u", i);
}

static void
a_full_channel_makes_the_server_wait(void)
{
        begin_with(0, 2, WEIR_REDIS_OVERFLOW_WAIT);
        weir_redis_subscribe(subscription, "news");
        NEXT("subscribed news");
        publish(0, 100);
        for (unsigned i = 0; i < 100; i++) {
                char expected[64];

                snprintf(expected, sizeof expected, "message news: %u", i);
                NEXT(expected);
        }
        CU_ASSERT_EQUAL(weir_redis_subscription_dropped(subscription), 0);
        end();
}

static void
a_full_channel_drops_the_oldest_or_the_newest(void)
{
        for (unsigned is_newest = 0; is_newest < 2; is_newest++) {
                begin_with(0, 2, is_newest ? WEIR_REDIS_OVERFLOW_NEWEST : WEIR_REDIS_OVERFLOW_OLDEST);
                weir_redis_subscribe(subscription, "news");
                NEXT("subscribed news");
                publish(0, 10);
                WEIR_TEST_EVENTUALLY(weir_redis_subscription_dropped(subscription) == 8);
                NEXT(is_newest ? "message news: 0" : "message news: 8");
                NEXT(is_newest ? "message news: 1" : "message news: 9");
                end();
        }
}

/* -- the connection -- */

static void
a_lost_connection_is_told_and_made_again(void)
{
        begin();
        weir_redis_subscribe(subscription, "news");
        NEXT("subscribed news");
        weir_redis_subscribe_pattern(subscription, "p*");
        NEXT("subscribed p*");
        for (unsigned i = 0; i < 3; i++) {
                SAYS(redis, "1", "CLIENT KILL TYPE pubsub");
                NEXT("lost ");
                NEXT("subscribed news");
                NEXT("subscribed p*");
                publish(7, 8);
                NEXT("message news: 7");
        }
        end();
}

static void
a_server_that_comes_back_is_found(void)
{
        begin();
        weir_redis_subscribe(subscription, "news");
        NEXT("subscribed news");
        redis_kill(&server, SIGKILL);
        NEXT("lost ");
        NEXT("lost "); /* nobody listens */
        weir_redis_subscribe(subscription, "more");
        redis_restart(&server);
        do
                next();
        while (strcmp(text, "lost ") == 0);
        CU_ASSERT_STRING_EQUAL(text, "subscribed news");
        NEXT("subscribed more");
        publish(1, 2);
        NEXT("message news: 1");
        end();
}

static void
a_close_ends_receivers(void)
{
        begin();
        weir_channel *channel = weir_channel_ref(weir_redis_subscription_channel(subscription));
        weir_redis_subscribe(subscription, "news");
        NEXT("subscribed news");
        publish(1, 2);
        WEIR_TEST_EVENTUALLY(weir_channel_length(channel) == 1);
        weir_redis_subscription_close(subscription);
        subscription = NULL;
        weir_task_run(weir_channel_receive_new(channel, on_message, NULL));
        CU_ASSERT_STRING_EQUAL(text, "message news: 1");
        CU_ASSERT_EQUAL(weir_task_run(weir_channel_receive_new(channel, on_message, NULL)), -EPIPE);
        weir_channel_unref(channel);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_is_published_comes),
                WEIR_TEST(a_sharded_channel_is_another_one),
                WEIR_TEST(what_is_asked_wrongly_says_so),
                WEIR_TEST(a_refusal_is_a_message),
                WEIR_TEST(a_full_channel_makes_the_server_wait),
                WEIR_TEST(a_full_channel_drops_the_oldest_or_the_newest),
                WEIR_TEST(a_lost_connection_is_told_and_made_again),
                WEIR_TEST(a_server_that_comes_back_is_found),
                WEIR_TEST(a_close_ends_receivers),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        int failed = weir_test_main("redis_subscribe", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        return failed;
}
