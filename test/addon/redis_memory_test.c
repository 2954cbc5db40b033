/* test/addon/redis_memory_test.c: each allocation of a worker is refused once, and then all after it: what was asked for ends,
 * with -ENOMEM or as ever; nothing is lost; and the next command is answered. */
#include "test/memory_faults.h"

#include "test/addon/redis_fixture.h"

static struct redis_server server;
static weir_redis *redis;
static weir_redis_session *session;
static weir_redis_subscription *subscription;
static weir_redis_script *script;
static char address[128];
static _Atomic unsigned begun, ended, wrong;

static void
note_end(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        if (status && status != -ENOMEM && status != -ENOTCONN && status != -ECONNRESET && status != -ECONNABORTED)
                wrong++;
        if (!status && !weir_redis_reply(task))
                wrong++;
        if (status && !weir_redis_problem(task))
                wrong++;
        ended++;
}

static void
start(weir_task *task)
{
        if (weir_task_start(task) == 0)
                begun++;
}

/* On a worker. */
static void
start_all(weir_task *task, void *context)
{
        const char *words[] = {"key", "value"};

        (void)task;
        (void)context;
        start(weir_redis_format_new(redis, note_end, NULL, "SET key %s", "value"));
        start(weir_redis_words_new(redis, note_end, NULL, "GET", "key", NULL));
        start(weir_redis_call_new(redis, script, 1, 2, words, NULL, note_end, NULL));
        start(weir_redis_call_format_new(redis, script, 1, note_end, NULL, "key value"));
        start(weir_redis_format_new(redis, note_end, NULL, "BLPOP queue 0.001"));
        start(weir_redis_session_format_new(session, note_end, NULL, "WATCH watched"));
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "SET mine x");
        weir_redis_batch_format(batch, "MGET a b c d e f g h i j k l");
        start(weir_redis_exec_new(redis, session, batch, note_end, NULL));
        batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "INCR count");
        start(weir_redis_exec_new(redis, NULL, batch, note_end, NULL));
        weir_redis_subscribe(subscription, "news");
        weir_redis_subscribe_pattern(subscription, "n*");
}

/* Returns whether an allocation was refused. */
static bool
play(int64_t number, bool is_for_good)
{
        weir_test_begin_real(2);
        redis = weir_redis_new(address, NULL);
        session = weir_redis_session_new(redis, NULL);
        script = weir_redis_script_new("return redis.call('set', KEYS[1], ARGV[1])");
        subscription = weir_redis_subscription_new(redis, NULL);
        begun = ended = wrong = 0;
        SAY(redis, "SCRIPT FLUSH");
        if (number >= 0)
                refuse_from(number, is_for_good);
        weir_task_run(weir_empty_new(start_all, NULL));
        WEIR_TEST_EVENTUALLY(ended == begun);
        armed = false;
        CU_ASSERT_EQUAL(wrong, 0);
        if (wrong)
                printf("refused from %d on\n", (int)number);
        SAYS(redis, "PONG", "PING");
        weir_redis_subscription_close(subscription);
        weir_redis_session_unref(session);
        weir_redis_script_unref(script);
        weir_redis_unref(redis);
        weir_test_end();
        return refused;
}

static void
refuse_each(bool is_for_good)
{
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        for (int i = 0; i < 3; i++)
                play(-1, false);
        int64_t before = live;
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        bool was_refused = true;
        int64_t number;
        for (number = 0; was_refused && number < 2000; number++) {
                was_refused = play(number, is_for_good);
                CU_ASSERT(live <= before + 8);
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                if (live > before + 8) {
                        printf("%d: %d blocks more\n", (int)number, (int)(live - before));
                        before = live;
                }
        }
        printf("%d allocations\n", (int)number);
        CU_ASSERT(number > 50);
        CU_ASSERT(live <= before + 8); /* of all rounds together */
}

static void
each_allocation_may_be_refused(void)
{
        refuse_each(false);
}

static void
no_memory_may_be_left(void)
{
        refuse_each(true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_be_refused),
                WEIR_TEST(no_memory_may_be_left),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        int failed = weir_test_main("redis_memory", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        return failed;
}
