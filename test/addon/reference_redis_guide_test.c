/* test/addon/reference_redis_guide_test.c: what docs/redis.md shows, and an example for each function of weir/redis.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/redis.h>
#include <weir/weir.h>

#include "test/addon/redis_server.h"
#include "test/fixture.h"

static weir_redis *redis;
static char said[512];

/* -- weir/redis.h -- */

static void
show(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) != 0)
                snprintf(said, sizeof said, "%s", weir_redis_problem(task));
        else
                snprintf(said, sizeof said, "%s", weir_redis_text(weir_redis_reply(task)));
}

static void
a_value_is_set_and_read(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        const char *who = "alice and bob";

        weir_task *set = weir_redis_format_new(redis, NULL, NULL, "SET session:%d %s EX 9", 7, who);
        weir_task *get = weir_redis_words_new(redis, show, NULL, "GET", "session:7", NULL);
        weir_series_push(series, set);
        weir_series_push(series, get);
        weir_series_run(series);
        CU_ASSERT_STRING_EQUAL(said, who);
}

static void
bytes_have_sizes(void)
{
        const char *arguments[] = {"SET", "picture", "\x89PNG\0\1"};
        size_t sizes[] = {3, 7, 6};

        weir_task_run(weir_redis_command_new(redis, 3, arguments, sizes, show, NULL));
        CU_ASSERT_STRING_EQUAL(said, "OK");
}

static void
add_up(weir_task *task, void *context)
{
        const struct weir_redis_reply *reply = weir_redis_reply(task);
        const struct weir_redis_reply *first = weir_redis_item(reply, 0);

        (void)first;
        *(int64_t *)context = weir_redis_integer(weir_redis_find(reply, "apples"), 0) +
                              weir_redis_integer(weir_redis_find(reply, "pears"), 0);
}

static void
a_map_is_asked_by_keys(void)
{
        int64_t fruit = 0;

        weir_task_run(weir_redis_format_new(redis, NULL, NULL, "HSET basket apples 3 pears 4"));
        weir_task_run(weir_redis_format_new(redis, add_up, &fruit, "HGETALL basket"));
        CU_ASSERT(fruit == 7);
}

static void
keep(weir_task *task, void *context)
{
        *(struct weir_redis_reply **)context = weir_redis_reply_copy(weir_redis_reply(task));
}

static void
a_reply_is_kept(void)
{
        struct weir_redis_reply *kept = NULL;

        weir_task_run(weir_redis_format_new(redis, keep, &kept, "ECHO %s", "keep me"));
        CU_ASSERT_STRING_EQUAL(weir_redis_text(kept), "keep me");
        weir_redis_reply_free(kept);
}

/* A wrapper with a prefix. */
static weir_task *
logged(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        weir_task *task = weir_redis_vformat_new(redis, show, NULL, format, arguments);
        va_end(arguments);
        return task;
}

static void
a_command_may_be_sent_twice(void)
{
        weir_task *set = logged("SET state %s", "ready"); /* twice is as good as once */

        weir_redis_set_repeatable(set);
        weir_task_run(set);
        CU_ASSERT_STRING_EQUAL(said, "OK");
}

/* -- scripts -- */

static void
note(weir_task *task, void *context)
{
        *(int64_t *)context = weir_redis_integer(weir_redis_reply(task), -1);
}

static void
what_is_due_is_taken_by_the_clock_of_the_server(void)
{
        static const char source[] = "local now = redis.call('TIME')[1]\n"
                                     "local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])\n"
                                     "for _, name in ipairs(due) do redis.call('ZREM', KEYS[1], name) end\n"
                                     "return #due";
        weir_redis_script *take = weir_redis_script_new(source);
        const char *arguments[] = {"due", "10"};
        int64_t taken = -1;

        weir_task_run(weir_redis_format_new(redis, NULL, NULL, "ZADD due 1 old 2 older 99999999999 later"));
        weir_task *call = weir_redis_call_format_new(redis, take, 1, note, &taken, "due %d", 10);
        weir_task_run(call);
        CU_ASSERT(taken == 2);
        weir_task_run(weir_redis_call_new(redis, take, 1, 2, arguments, NULL, note, &taken));
        CU_ASSERT(taken == 0);
        CU_ASSERT(strlen(weir_redis_script_sha(take)) == 40);
        weir_redis_script_unref(weir_redis_script_ref(take));
        weir_redis_script_unref(take);
}

/* -- transactions -- */

static void
both_or_none(void)
{
        weir_redis_batch *batch = weir_redis_batch_new();
        const char *words[] = {"DECRBY", "alice", "10"};
        int64_t total = -1;

        weir_redis_batch_add(batch, 3, words, NULL);
        weir_redis_batch_format(batch, "INCRBY bob %d", 10);
        CU_ASSERT(weir_task_run(weir_redis_exec_new(redis, NULL, batch, NULL, NULL)) == 0);
        weir_task_run(weir_redis_format_new(redis, note, &total, "GET bob"));
        CU_ASSERT(total == 10);
        weir_redis_batch_free(weir_redis_batch_new());
}

struct payment {
        weir_redis_session *session;
        int status;
};

static void
note_payment(weir_task *exec, void *context)
{
        struct payment *payment = context;

        payment->status = weir_task_status(exec); /* -EAGAIN: somebody else has changed it: once more */
}

/* The balance is known, and watched: pay if there is enough. */
static void
pay(weir_task *get, void *context)
{
        struct payment *payment = context;
        int64_t balance = weir_redis_integer(weir_redis_reply(get), 0);

        if (balance < 5)
                return;
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "SET balance %lld", (long long)balance - 5);
        weir_task *exec = weir_redis_exec_new(NULL, payment->session, batch, note_payment, payment);
        weir_series_push(weir_series_of(get), exec);
}

static void
a_watched_key_is_changed_by_one_alone(void)
{
        weir_redis_session *session = weir_redis_session_new(redis, "balance");
        struct payment payment = {.session = session, .status = -1};
        weir_series *series = weir_series_new(NULL, NULL);
        const char *words[] = {"GET", "balance"};

        weir_task_run(weir_redis_format_new(redis, NULL, NULL, "SET balance 20"));
        weir_task *watch = weir_redis_session_format_new(session, NULL, NULL, "WATCH balance");
        weir_task *get = weir_redis_session_command_new(session, 2, words, NULL, pay, &payment);
        weir_series_push(series, watch);
        weir_series_push(series, get);
        weir_series_run(series);
        CU_ASSERT(payment.status == 0);
        weir_redis_session_unref(weir_redis_session_ref(session));
        weir_redis_session_unref(session);
}

/* -- subscriptions -- */

static void
on_message(weir_task *receive, void *context)
{
        struct weir_redis_message *message = weir_channel_take_message(receive);

        (void)context;
        if (message->kind == WEIR_REDIS_MESSAGE)
                snprintf(said, sizeof said, "%s: %.*s", message->channel, (int)message->size, message->data);
        else if (message->kind == WEIR_REDIS_SUBSCRIBED)
                snprintf(said, sizeof said, "listening to %s", message->channel);
        weir_redis_message_free(message);
}

static void
what_is_published_comes_into_a_channel(void)
{
        struct weir_redis_subscription_config config = WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT;

        config.capacity = 100;
        config.overflow = WEIR_REDIS_OVERFLOW_OLDEST;
        weir_redis_subscription *subscription = weir_redis_subscription_new(redis, &config);
        weir_channel *channel = weir_redis_subscription_channel(subscription);
        weir_redis_subscribe(subscription, "wake");
        weir_task_run(weir_channel_receive_new(channel, on_message, NULL));
        CU_ASSERT_STRING_EQUAL(said, "listening to wake");
        weir_task_run(weir_redis_format_new(redis, NULL, NULL, "PUBLISH wake %s", "up"));
        weir_task_run(weir_channel_receive_new(channel, on_message, NULL));
        CU_ASSERT_STRING_EQUAL(said, "wake: up");
        CU_ASSERT(weir_redis_subscription_dropped(subscription) == 0);
        weir_redis_subscribe_pattern(subscription, "w*");
        weir_redis_unsubscribe_pattern(subscription, "w*");
        weir_redis_unsubscribe(subscription, "wake");
        weir_redis_subscribe_sharded(subscription, "{user:7}:wake");
        weir_redis_unsubscribe_sharded(subscription, "{user:7}:wake");
        weir_redis_subscription_close(subscription);
}

static void
a_client_has_figures(void)
{
        struct weir_redis_stats stats = WEIR_REDIS_STATS_DEFAULT;

        weir_task_run(weir_redis_words_new(redis, NULL, NULL, "PING", NULL));
        CU_ASSERT(weir_redis_stats(redis, &stats) == 0 && stats.connections == 1 && stats.commands > 0);
        CU_ASSERT(weir_redis_metrics_write(STDOUT_FILENO) == 0);
        weir_metrics_add(weir_redis_metrics_write); /* once; then they are on /metrics */
}

#define EXAMPLE(name)                    \
        static void run_##name(void)     \
        {                                \
                weir_redis_ref(redis);   \
                weir_test_begin_real(2); \
                name();                  \
                weir_test_end();         \
                weir_redis_unref(redis); \
        }

EXAMPLE(a_value_is_set_and_read)
EXAMPLE(bytes_have_sizes)
EXAMPLE(a_map_is_asked_by_keys)
EXAMPLE(a_reply_is_kept)
EXAMPLE(a_command_may_be_sent_twice)
EXAMPLE(what_is_due_is_taken_by_the_clock_of_the_server)
EXAMPLE(both_or_none)
EXAMPLE(a_watched_key_is_changed_by_one_alone)
EXAMPLE(what_is_published_comes_into_a_channel)
EXAMPLE(a_client_has_figures)

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(run_a_value_is_set_and_read),
                WEIR_TEST(run_bytes_have_sizes),
                WEIR_TEST(run_a_map_is_asked_by_keys),
                WEIR_TEST(run_a_reply_is_kept),
                WEIR_TEST(run_a_command_may_be_sent_twice),
                WEIR_TEST(run_what_is_due_is_taken_by_the_clock_of_the_server),
                WEIR_TEST(run_both_or_none),
                WEIR_TEST(run_a_watched_key_is_changed_by_one_alone),
                WEIR_TEST(run_what_is_published_comes_into_a_channel),
                WEIR_TEST(run_a_client_has_figures),
        };
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        struct redis_server server = {0};
        char address[64];

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        config.name = "guide";
        config.command_limit = WEIR_SEC(5);
        redis = weir_redis_new(address, &config);
        int failed = weir_test_main("reference_redis_guide", tests, sizeof tests / sizeof *tests);
        weir_redis_unref(redis);
        redis_stop(&server);
        return failed;
}
