/* test/addon/redis_session_test.c: scripts, sessions and transactions, with a real server. */
#include "test/addon/redis_fixture.h"

static struct redis_server server;
static weir_redis *redis;
static char address[128];

static void
begin(void)
{
        weir_test_begin_real(2);
        redis = weir_redis_new(address, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(redis);
        SAYS(redis, "OK", "FLUSHALL");
}

static void
end(void)
{
        weir_redis_unref(redis);
        weir_test_end();
}

/* -- scripts -- */

static void
a_script_is_sent_once(void)
{
        weir_redis_script *script = weir_redis_script_new("return {KEYS[1], ARGV[1], #ARGV}");
        const char *arguments[] = {"key", "value"};

        begin();
        CU_ASSERT_STRING_EQUAL(weir_redis_script_sha(script), "8dc2818ba1623288be206a9b42ace2bc5a8f2fd5");
        SAYS(redis, "OK", "SCRIPT FLUSH");
        SAYS(redis, "OK", "CONFIG RESETSTAT");
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_STRING_EQUAL(run(weir_redis_call_new(redis, script, 1, 2, arguments, NULL, see, &last)),
                                       "[key value 1]");
        SAYS(redis, "1", "EVAL %s 0",
             "return tonumber(string.match(redis.call('info', 'commandstats'), 'cmdstat_eval:calls=(%d+)'))");
        SAYS(redis, "OK", "SCRIPT FLUSH");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_call_format_new(redis, script, 1, see, &last, "k:%d %s x", 7, "a value")),
                               "[k:7 a value 2]");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_call_format_new(redis, script, 0, see, &last, NULL)), "[]");
        weir_redis_script_unref(script);
        end();
}

static void
what_is_called_wrongly_says_so(void)
{
        weir_redis_script *script = weir_redis_script_new("return redis.error_reply('MINE not now')"),
                          *broken = weir_redis_script_new("not Lua");

        begin();
        run(weir_redis_call_new(redis, script, 0, 0, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        CU_ASSERT_STRING_EQUAL(last.problem, "MINE not now");
        run(weir_redis_call_new(redis, broken, 0, 0, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        run(weir_redis_call_new(redis, script, 1, 0, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        run(weir_redis_call_new(redis, NULL, 0, 0, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        run(weir_redis_call_format_new(redis, NULL, 0, see, &last, "a"));
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        run(weir_redis_call_format_new(redis, script, 2, see, &last, "a"));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        weir_redis_script_unref(weir_redis_script_ref(script));
        weir_redis_script_unref(script);
        weir_redis_script_unref(broken);
        weir_redis_script_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_redis_script_ref(NULL));
        CU_ASSERT_PTR_NULL(weir_redis_script_sha(NULL));
        end();
}

/* -- transactions -- */

static void
a_batch_is_executed_as_a_whole(void)
{
        begin();
        for (unsigned i = 0; i < 3; i++) {
                weir_redis_batch *batch = weir_redis_batch_new();
                const char *words[] = {"INCR", "count"};

                CU_ASSERT_EQUAL(weir_redis_batch_add(batch, 2, words, NULL), 0);
                CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "SET key %s", "a value"), 0);
                CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "GET key"), 0);
                CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "LPUSH key x"), 0);
                run(weir_redis_exec_new(redis, NULL, batch, see, &last));
                CU_ASSERT_EQUAL(last.status, 0);
                char expected[128];
                snprintf(expected, sizeof expected,
                         "[%u OK a value !WRONGTYPE Operation against a key holding the wrong kind of value]", i + 1);
                CU_ASSERT_STRING_EQUAL(last.text, expected);
        }
        until_connected(redis, "2");
        end();
}

/* Its connection is closed between two transactions.  The next one has another, unless it was out before that was noticed. */
static void
a_transaction_survives_an_idle_connection(void)
{
        begin();
        for (unsigned i = 0; i < 50; i++) {
                weir_redis_batch *batch = weir_redis_batch_new();

                weir_redis_batch_format(batch, "SET key %u", i);
                run(weir_redis_exec_new(redis, NULL, batch, see, &last));
                CU_ASSERT(last.status == 0 || last.status == -ECONNRESET || last.status == -EPIPE);
                SAY(redis, "CLIENT KILL TYPE normal SKIPME yes");
        }
        end();
}

static void
a_batch_with_a_wrong_command_does_nothing(void)
{
        begin();
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "SET key x");
        weir_redis_batch_format(batch, "NONSENSE");
        weir_redis_batch_format(batch, "GET");
        run(weir_redis_exec_new(redis, NULL, batch, see, &last));
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        CU_ASSERT_EQUAL(strncmp(last.problem, "ERR unknown command 'NONSENSE'", 30), 0);
        SAYS(redis, "nil", "GET key");
        run(weir_redis_exec_new(redis, NULL, weir_redis_batch_new(), see, &last));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        batch = weir_redis_batch_new();
        CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "SELECT 1"), -EOPNOTSUPP);
        CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "GET key"), 0);
        run(weir_redis_exec_new(redis, NULL, batch, see, &last));
        CU_ASSERT_EQUAL(last.status, -EOPNOTSUPP);
        batch = weir_redis_batch_new();
        CU_ASSERT_EQUAL(weir_redis_batch_format(batch, "%y"), -EINVAL);
        CU_ASSERT_EQUAL(weir_redis_batch_add(batch, 0, NULL, NULL), -EINVAL);
        weir_redis_batch_free(batch);
        weir_redis_batch_free(NULL);
        CU_ASSERT_EQUAL(weir_redis_batch_format(NULL, "GET x"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_redis_batch_add(NULL, 0, NULL, NULL), -ENOMEM);
        run(weir_redis_exec_new(redis, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        run(weir_redis_exec_new(NULL, NULL, weir_redis_batch_new(), see, &last));
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        end();
}

static void
a_watched_key_that_changes_stops_it(void)
{
        begin();
        weir_redis_session *session = weir_redis_session_new(redis, "key");
        for (unsigned i = 0; i < 2; i++) {
                CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WATCH key")), "OK");
                if (!i)
                        SAYS(redis, "OK", "SET key theirs");
                weir_redis_batch *batch = weir_redis_batch_new();
                weir_redis_batch_format(batch, "SET key ours");
                run(weir_redis_exec_new(redis, session, batch, see, &last));
                CU_ASSERT_EQUAL(last.status, i ? 0 : -EAGAIN);
                CU_ASSERT_STRING_EQUAL(last.text, i ? "[OK]" : "nil");
                CU_ASSERT_STRING_EQUAL(last.problem, i ? "" : "a key that is watched has changed");
                SAYS(redis, i ? "ours" : "theirs", "GET key");
        }
        weir_redis_session_unref(session);
        end();
}

/* -- sessions -- */

static struct seen seen[8];

static void
the_commands_of_a_session_go_out_one_after_another(void)
{
        static const char *const commands[] = {"SELECT 2", "MULTI",     "INCR count", "GET count",
                                               "EXEC",     "CLIENT ID", "GET count",  "PING"};

        begin();
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        memset(seen, 0, sizeof seen);
        for (unsigned i = 0; i < 8; i++)
                weir_task_start(weir_redis_session_format_new(session, see, &seen[i], commands[i]));
        for (unsigned i = 0; i < 8; i++)
                WEIR_TEST_EVENTUALLY(seen[i].calls);
        CU_ASSERT_STRING_EQUAL(seen[0].text, "OK");
        CU_ASSERT_STRING_EQUAL(seen[2].text, "QUEUED");
        CU_ASSERT_STRING_EQUAL(seen[4].text, "[1 1]");
        CU_ASSERT_STRING_EQUAL(seen[6].text, "1");
        SAYS(redis, "0", "EXISTS count"); /* another database */
        const char *words[] = {"PING"};
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_command_new(session, 1, words, NULL, see, &last)), "PONG");
        weir_redis_session_unref(weir_redis_session_ref(session));
        weir_redis_session_unref(session);
        weir_redis_session_unref(NULL);
        end();
}

static void
a_session_is_lost_with_its_connection(void)
{
        begin();
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        run(weir_redis_session_format_new(session, see, &last, "CLIENT ID"));
        char id[32];
        snprintf(id, sizeof id, "%.20s", last.text);
        SAYS(redis, "1", "CLIENT KILL ID %s", id);
        for (unsigned i = 0; i < 3; i++) {
                run(weir_redis_session_format_new(session, see, &last, "GET x"));
                if (last.status == -ECONNRESET) /* it had not noticed yet */
                        continue;
                CU_ASSERT_EQUAL(last.status, -ENOTCONN);
                CU_ASSERT_PTR_NOT_NULL(strstr(last.problem, "the connection was lost before"));
        }
        CU_ASSERT_EQUAL(last.status, -ENOTCONN);
        weir_redis_session_unref(session);
        run(weir_redis_session_format_new(NULL, see, &last, "GET x"));
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        session = weir_redis_session_new(redis, NULL);
        run(weir_redis_session_format_new(session, see, &last, "SUBSCRIBE x"));
        CU_ASSERT_EQUAL(last.status, -EOPNOTSUPP);
        run(weir_redis_session_command_new(session, 1, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        weir_redis_session_unref(session);
        CU_ASSERT_PTR_NULL(weir_redis_session_new(NULL, NULL));
        end();
}

/* Cancelled before its turn it is not sent; cancelled when it was sent it takes the connection along. */
static void
a_cancel_in_a_session(void)
{
        begin();
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        memset(seen, 0, sizeof seen);
        weir_task_start(weir_redis_session_format_new(session, see, &seen[0], "BLPOP queue 0"));
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_redis_session_format_new(session, see, &seen[1], "SET key x"));
        weir_series_start(series);
        weir_task_start(weir_redis_session_format_new(session, see, &seen[2], "GET key"));
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(seen[1].calls);
        CU_ASSERT_EQUAL(seen[1].status, -ECANCELED);
        SAYS(redis, "1", "RPUSH queue job");
        WEIR_TEST_EVENTUALLY(seen[2].calls);
        CU_ASSERT_STRING_EQUAL(seen[0].text, "[queue job]");
        CU_ASSERT_STRING_EQUAL(seen[2].text, "nil");
        weir_series_unref(series);

        series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_redis_session_format_new(session, see, &seen[3], "BLPOP queue 0"));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(strcmp(SAY(redis, "EVAL %s 0",
                                        "return tonumber(string.match(redis.call('info', 'clients'), 'blocked_clients:(%d+)'))"),
                                    "1") == 0);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(seen[3].calls);
        run(weir_redis_session_format_new(session, see, &last, "GET key"));
        CU_ASSERT_EQUAL(last.status, -ENOTCONN);
        weir_series_unref(series);
        weir_redis_session_unref(session);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_script_is_sent_once),
                WEIR_TEST(what_is_called_wrongly_says_so),
                WEIR_TEST(a_batch_is_executed_as_a_whole),
                WEIR_TEST(a_transaction_survives_an_idle_connection),
                WEIR_TEST(a_batch_with_a_wrong_command_does_nothing),
                WEIR_TEST(a_watched_key_that_changes_stops_it),
                WEIR_TEST(the_commands_of_a_session_go_out_one_after_another),
                WEIR_TEST(a_session_is_lost_with_its_connection),
                WEIR_TEST(a_cancel_in_a_session),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        int failed = weir_test_main("redis_session", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        return failed;
}
