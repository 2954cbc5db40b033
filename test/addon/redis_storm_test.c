/* test/addon/redis_storm_test.c: many threads, cancels at every moment, and a server that is killed and started again in the
 * middle.
 *
 * Each command has its own number in it, so a reply that goes to another one is found. */
#include "test/addon/redis_fixture.h"

#include <pthread.h>

#define THREADS 3
#define ROUNDS  (WEIR_TEST_SANITIZED ? 200 : 1500)

static struct redis_server server;
static weir_redis *redis;
static weir_redis_script *script;
static char address[128];
static _Atomic unsigned made, freed, ended, done_well, cancelled, failed, wrong;

struct one {
        unsigned number;
        int kind;
        _Atomic int calls;
};

static bool
is_right(const struct one *one, const struct weir_redis_reply *reply)
{
        const struct weir_redis_reply *text = one->kind == 2 ? weir_redis_item(reply, 0) : reply;

        return one->kind == 3 ? reply->type == WEIR_REDIS_NULL : weir_redis_integer(text, -1) == one->number;
}

static void
note_end(weir_task *task, void *context)
{
        struct one *one = context;
        int status = weir_task_status(task);

        if (one->calls++)
                wrong++;
        if (status == 0) {
                if (is_right(one, weir_redis_reply(task)))
                        done_well++;
                else
                        wrong++;
        } else if (status == -ECANCELED) {
                cancelled++;
                if (weir_redis_reply(task))
                        wrong++;
        } else {
                failed++;
        }
        ended++;
}

static weir_task *
make(struct one *one)
{
        weir_redis_batch *batch;

        switch (one->kind) {
        case 0: return weir_redis_format_new(redis, note_end, one, "ECHO %u", one->number);
        case 1: return weir_redis_call_format_new(redis, script, 0, note_end, one, "%u", one->number);
        case 2:
                batch = weir_redis_batch_new();
                weir_redis_batch_format(batch, "ECHO %u", one->number);
                return weir_redis_exec_new(redis, NULL, batch, note_end, one);
        default: return weir_redis_format_new(redis, note_end, one, "BLPOP nothing 0.01");
        }
}

static void
free_one(void *one)
{
        free(one);
        freed++;
}

static void *
storm(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};

        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                unsigned length = 1 + (unsigned)weir_test_random_below(&random, 8);

                for (unsigned j = 0; j < length; j++) {
                        struct one *one = calloc(1, sizeof *one);
                        unsigned kind = (unsigned)weir_test_random_below(&random, 20);

                        one->number = (unsigned)(weir_test_random(&random) >> 34);
                        one->kind = kind < 12 ? 0 : kind < 17 ? 1 : kind < 19 ? 2 : 3;
                        weir_task *task = make(one);
                        made++;
                        weir_task_set_context(task, one, free_one);
                        weir_series_push(series, task);
                }
                weir_series_start(series);
                for (unsigned spins = (unsigned)weir_test_random_below(&random, 2000); spins--;)
                        __asm__ volatile("");
                if (weir_test_random_below(&random, 3) == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
run_storm(bool has_kills)
{
        pthread_t threads[THREADS];

        weir_test_begin_real(3);
        redis = weir_redis_new(address, NULL);
        script = weir_redis_script_new("return ARGV[1]");
        made = freed = done_well = cancelled = failed = wrong = 0;
        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, storm, (void *)i);
        for (unsigned i = 0; has_kills && i < 3; i++) {
                weir_test_sleep(WEIR_MSEC(30));
                redis_kill(&server, i == 1 ? SIGTERM : SIGKILL);
                redis_restart(&server);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_redis_script_unref(script);
        SAYS(redis, "PONG", "PING");
        weir_redis_unref(redis);
        WEIR_TEST_EVENTUALLY(freed == made);
        weir_test_end();
        printf("%u done, %u cancelled, %u failed\n", done_well, cancelled, failed);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(done_well > 0 && cancelled > 0);
        CU_ASSERT(has_kills || failed == 0);
}

static void
cancels_at_every_moment(void)
{
        run_storm(false);
}

static void
a_server_that_is_killed_in_the_middle(void)
{
        run_storm(true);
}

/* -- what is executed twice or never -- */

static void
note_status(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == 0)
                done_well++;
        else
                failed++;
        ended++;
}

#define STEPS 3000

/* Appends to a file which the server keeps on its disk: so what it has executed survives its end. */
static void
no_command_is_executed_twice(void)
{
        weir_test_begin_real(2);
        redis = weir_redis_new(address, NULL);
        ended = done_well = failed = 0;
        SAYS(redis, "OK", "CONFIG SET appendonly yes");
        SAYS(redis, "OK", "CONFIG SET appendfsync always");
        SAYS(redis, "OK", "CONFIG REWRITE");
        SAYS(redis, "OK", "SET count 0");
        WEIR_TEST_EVENTUALLY(!strstr(redis_say(server.port, "INFO persistence"), "aof_rewrite_in_progress:1"));
        for (unsigned i = 0; i < STEPS; i++) {
                weir_task_start(weir_redis_words_new(redis, note_status, NULL, "INCR", "count", NULL));
                if (i % 1000 == 500) {
                        redis_kill(&server, SIGKILL);
                        redis_restart(&server);
                }
                if (i % 100 == 0)
                        weir_test_sleep(WEIR_MSEC(1));
        }
        WEIR_TEST_EVENTUALLY(ended == STEPS);
        int64_t count = -1;
        for (unsigned i = 0; i < 100 && count < 0; i++)
                count = strtoll(SAY(redis, "GET count"), NULL, 10);
        printf("%u well, %u failed, %lld executed\n", done_well, failed, (long long)count);
        CU_ASSERT(count >= (int64_t)done_well);          /* none is lost that was acknowledged */
        CU_ASSERT(count <= (int64_t)done_well + failed); /* none is executed twice */
        weir_redis_unref(redis);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(cancels_at_every_moment),
                WEIR_TEST(a_server_that_is_killed_in_the_middle),
                WEIR_TEST(no_command_is_executed_twice),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        int result = weir_test_main("redis_storm", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        return result;
}
