/* test/addon/redis_command_test.c: commands to a real server: replies, errors, accounts, databases, and what comes after a
 * cancel. */
#include "test/addon/redis_fixture.h"
#include "test/metrics_form.h"
#include "test/trace_fixture.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include <weir/debug.h>

static struct redis_server server;
static weir_redis *redis;
static char address[128];

static void
begin_with(const struct weir_redis_config *config, const char *text)
{
        weir_test_begin_real(2);
        redis = weir_redis_new(text, config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(redis);
        SAYS(redis, "OK", "FLUSHALL");
}

static void
begin(void)
{
        begin_with(NULL, address);
}

static void
end(void)
{
        weir_redis_unref(redis);
        redis = NULL;
        weir_test_end();
}

/* -- replies -- */

static void
commands_have_replies_of_all_types(void)
{
        begin();
        SAYS(redis, "nil", "GET nothing");
        SAYS(redis, "OK", "SET key %s", "a value with spaces");
        SAYS(redis, "a value with spaces", "GET key");
        SAYS(redis, "1", "INCR count");
        SAYS(redis, "2", "HSET hash a 1 b 2");
        SAYS(redis, "{a 1 b 2}", "HGETALL hash");
        SAYS(redis, "1.5", "ZADD sorted INCR 1.5 one");
        SAYS(redis, "[[a [b]] c 3]", "EVAL %s 0", "return {{'a', {'b'}}, 'c', 3}");
        SAYS(redis, "true", "EVAL %s 0", "redis.setresp(3); return true");
        SAYS(redis, "PONG", "PING");
        end();
}

static void
with_version_2_there_are_arrays(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.version = 2;
        config.name = "old";
        begin_with(&config, address);
        SAYS(redis, "2", "HSET hash a 1 b 2");
        SAYS(redis, "[a 1 b 2]", "HGETALL hash");
        SAYS(redis, "old", "CLIENT GETNAME");
        end();
}

static void
bytes_are_bytes(void)
{
        static const char odd[] = "\0\r\n$5\r\n\377 %s";
        const char *arguments[] = {"SET", "bin", odd};
        size_t sizes[] = {3, 3, sizeof odd};

        begin();
        CU_ASSERT_STRING_EQUAL(run(weir_redis_command_new(redis, 3, arguments, sizes, see, &last)), "OK");
        SAYS(redis, "12", "STRLEN bin");
        SAYS(redis, "1", "EVAL %s 1 bin %b", "return redis.call('get', KEYS[1]) == ARGV[1] and 1 or 0", odd, sizeof odd);
        SAYS(redis, "-7 8 9 10 0.1 % x1y", "ECHO %s", "-7 8 9 10 0.1 % x1y");
        SAYS(redis, "[-7 8 -9 10 11 0.5 % x1y ]", "EVAL %s 0 %d %u %lld %llu %zu %g %% x%dy %s", "return ARGV", -7, 8u, -9ll,
             10ull, (size_t)11, 0.5, 1, "");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_words_new(redis, see, &last, "ECHO", "one word", NULL)), "one word");
        CU_ASSERT_STRING_EQUAL(
                run(weir_redis_words_new(redis, see, &last, "RPUSH", "list", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
                                         "11", "12", "13", "14", "15", "16", "17", "18", "19", NULL)),
                "19");
        end();
}

/* The file of a locale that has a comma, as localedef writes it: where its parts are, and the parts. */
static const char comma[] = "\x14\x11\x03\x20\6\0\0\0\40\0\0\0\42\0\0\0\43\0\0\0\44\0\0\0\50\0\0\0\54\0\0\0"
                            ",\0\0\0,\0\0\0\0\0\0\0ANSI_X3.4-1968";

static void
begin_comma(void)
{
        char directory[] = "/tmp/weir-locale-XXXXXX", inner[64], path[96];

        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(inner, sizeof inner, "%s/comma", directory);
        snprintf(path, sizeof path, "%s/LC_NUMERIC", inner);
        CU_ASSERT_EQUAL_FATAL(mkdir(inner, 0700), 0);
        FILE *file = fopen(path, "w");
        fwrite(comma, 1, sizeof comma, file);
        fclose(file);
        setenv("LOCPATH", directory, 1);
        CU_ASSERT_PTR_NOT_NULL(setlocale(LC_NUMERIC, "comma"));
        unlink(path);
        rmdir(inner);
        rmdir(directory);
}

static void
a_number_has_as_many_digits_as_it_needs_and_a_point(void)
{
        static const double all[] = {0.1, 0.5, -2.5e-7, 1e22, 1.0 / 3, 0.1 + 0.2, 3, 5e-324, 1.7976931348623157e308};

        begin();
        SAYS(redis, "[0.1 -2.5e-07 1e+22 0.30000000000000004 3 inf -inf]", "EVAL %s 0 %g %g %g %g %g %g %g", "return ARGV", 0.1,
             -2.5e-7, 1e22, 0.1 + 0.2, 3.0, HUGE_VAL, -HUGE_VAL);
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
                CU_ASSERT_EQUAL(strtod(SAY(redis, "ECHO %g", all[i]), NULL), all[i]);
        begin_comma();
        char text[8];
        snprintf(text, sizeof text, "%g", 0.5);
        CU_ASSERT_STRING_EQUAL(text, "0,5");
        SAYS(redis, "[0.1 -2.5e-07 1e+22 0.30000000000000004]", "EVAL %s 0 %g %g %g %g", "return ARGV", 0.1, -2.5e-7, 1e22,
             0.1 + 0.2);
        setlocale(LC_NUMERIC, "C");
        unsetenv("LOCPATH");
        end();
}

static void
a_large_value_comes_whole(void)
{
        size_t size = (size_t)8 << 20;
        char *value = malloc(size);

        begin();
        for (size_t i = 0; i < size; i++)
                value[i] = (char)(i * 7 >> 3);
        SAYS(redis, "OK", "SET large %b", value, size);
        SAYS(redis, "8388608", "STRLEN large");
        SAYS(redis, "1", "EVAL %s 1 large %b", "return redis.call('get', KEYS[1]) == ARGV[1] and 1 or 0", value, size);
        SAY(redis, "GET large");
        CU_ASSERT_EQUAL(last.status, 0);
        free(value);
        end();
}

static void
errors_have_a_status_and_the_text_of_the_server(void)
{
        begin();
        SAYS(redis, "OK", "SET text x");
        SAY(redis, "LPUSH text y");
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        CU_ASSERT_EQUAL(strncmp(last.problem, "WRONGTYPE ", 10), 0);
        CU_ASSERT_EQUAL(*last.text, '!');
        SAY(redis, "NONSENSE");
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        SAY(redis, "EVALSHA 0123456789012345678901234567890123456789 0");
        CU_ASSERT_EQUAL(last.status, -ENOENT);
        SAYS(redis, "PONG", "PING"); /* it goes on */
        CU_ASSERT_STRING_EQUAL(last.problem, "");
        end();
}

static void
what_is_made_wrongly_says_so(void)
{
        static const char *const changing[] = {
                "SELECT 1",         "multi",           "Watch x",  "SUBSCRIBE x",      "QUIT",
                "HELLO 2",          "RESET",           "WAIT 0 1", "CLIENT REPLY OFF", "client tracking on",
                "CLIENT SETNAME x", "SCRIPT DEBUG YES"};

        begin();
        for (unsigned i = 0; i < sizeof changing / sizeof *changing; i++) {
                SAY(redis, changing[i]);
                CU_ASSERT_EQUAL(last.status, -EOPNOTSUPP);
        }
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "CLIENT SETNAME x")), "OK");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WAIT 0 1")), "0");
        run(weir_redis_session_format_new(session, see, &last, "CLIENT REPLY OFF"));
        CU_ASSERT_EQUAL(last.status, -EOPNOTSUPP);
        weir_redis_session_unref(session);
        SAY(redis, "GET %q", 1);
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        SAY(redis, " ");
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        run(weir_redis_command_new(redis, 0, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        run(weir_redis_command_new(redis, 1, NULL, NULL, see, &last));
        CU_ASSERT_EQUAL(last.status, -EINVAL);
        SAY(NULL, "PING");
        CU_ASSERT_EQUAL(last.status, -ENOMEM);
        CU_ASSERT_EQUAL(weir_redis_set_repeatable(NULL), -EINVAL);
        CU_ASSERT_PTR_NULL(weir_redis_reply(NULL));
        CU_ASSERT_PTR_NULL(weir_redis_problem(NULL));
        weir_task_dismiss(weir_redis_format_new(redis, see, &last, "PING"));
        weir_redis_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_redis_ref(NULL));
        end();
}

static void
an_address_is_checked(void)
{
        static const char *const wrong[] = {"",
                                            "http://x",
                                            "redis:x",
                                            "redis://",
                                            "redis://:x",
                                            "redis://h:99999",
                                            "redis://h/x",
                                            "redis://h/-1",
                                            "redis://h/65536",
                                            "redis://a,b",
                                            "redis://h%",
                                            "redis://%zz@h",
                                            "unix://x",
                                            "unix:///x?y=1",
                                            "redis+sentinel://h",
                                            "redis+sentinel://h/",
                                            "redis+cluster://h/1",
                                            "redis://h:1/0/1",
                                            "redis://u:p@",
                                            "redis://u@h",
                                            "redis://u:@h",
                                            "unix://u@/a",
                                            "redis+cluster://u@h"};
        static const char *const right[] = {"redis://h",    "redis://h:1/15",   "redis://u:p%20w@[::1]:7/",
                                            "redis://:p@h", "unix:///a/b?db=2", "redis+sentinel://a,b:1,c/master/3"};

        for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                weir_redis *made = weir_redis_new(wrong[i], NULL);

                if (made)
                        printf("%s\n", wrong[i]);
                CU_ASSERT_PTR_NULL(made);
                CU_ASSERT_EQUAL(errno, EINVAL);
        }
        for (unsigned i = 0; i < sizeof right / sizeof *right; i++) {
                weir_redis *made = weir_redis_new(right[i], NULL);

                if (!made)
                        printf("%s\n", right[i]);
                CU_ASSERT_PTR_NOT_NULL(made);
                weir_redis_unref(made);
        }
        CU_ASSERT_PTR_NULL(weir_redis_new(NULL, NULL));
}

static void
a_config_is_checked_with_its_address(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.version = 1;
        CU_ASSERT_PTR_NULL(weir_redis_new("redis://h", &config));
        config.version = 0;
        config.user = "u";
        CU_ASSERT_PTR_NULL(weir_redis_new("redis://h", &config));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_redis *made = weir_redis_new("redis://:p@h", &config);
        CU_ASSERT_PTR_NOT_NULL(made);
        weir_redis_unref(made);
        config.password = "p";
        made = weir_redis_new("redis://v@h", &config);
        CU_ASSERT_PTR_NOT_NULL(made);
        weir_redis_unref(made);
        config.size = 1;
        CU_ASSERT_PTR_NULL(weir_redis_new("redis://h", &config));
}

static void
tls_needs_an_address_with_tls(void)
{
        static const char *const plain[] = {"redis://h", "unix:///s", "redis+cluster://h", "redis+sentinel://h/master"};
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.tls = weir_tls_client_new(NULL);
        for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) {
                errno = 0;
                CU_ASSERT_PTR_NULL(weir_redis_new(plain[i], &config));
                CU_ASSERT_EQUAL(errno, EINVAL);
        }
        weir_redis *made = weir_redis_new("rediss://h", &config);
        CU_ASSERT_PTR_NOT_NULL(made);
        weir_redis_unref(made);
        weir_tls_unref(config.tls);
}

/* -- accounts and databases -- */

static void
a_connection_begins_with_its_account_and_database(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        char text[160];

        begin();
        SAYS(redis, "OK", "ACL SETUSER alice on %s ~* +@all", ">se:cret/1");
        SAYS(redis, "OK", "ACL SETUSER bob on >b ~b* +get +ping");
        for (unsigned version = 2; version <= 3; version++) {
                config.version = version;
                config.name = "its-name";
                snprintf(text, sizeof text, "redis://alice:se%%3Acret%%2F1@127.0.0.1:%d/3", server.port);
                weir_redis *alice = weir_redis_new(text, &config);
                SAYS(alice, "alice", "ACL WHOAMI");
                SAYS(alice, "its-name", "CLIENT GETNAME");
                SAYS(alice, "OK", "SET in-three x");
                SAYS(redis, "0", "EXISTS in-three");
                weir_redis_unref(alice);

                snprintf(text, sizeof text, "redis://bob:wrong@127.0.0.1:%d", server.port);
                weir_redis *bob = weir_redis_new(text, &config);
                SAY(bob, "GET b");
                CU_ASSERT_EQUAL(last.status, -EACCES);
                CU_ASSERT_PTR_NOT_NULL(strstr(last.problem, "WRONGPASS"));
                CU_ASSERT_PTR_NOT_NULL(strstr(last.problem, "greet redis 127.0.0.1"));
                weir_redis_unref(bob);
                config.password = "b";
                config.name = NULL;
                bob = weir_redis_new(text, &config);
                SAYS(bob, "nil", "GET b");
                SAY(bob, "GET a");
                CU_ASSERT_EQUAL(last.status, -EACCES);
                weir_redis_unref(bob);
                config.password = NULL;
        }
        end();
}

static void
a_unix_socket_is_a_server(void)
{
        char text[160];

        snprintf(text, sizeof text, "unix://%s?db=1", server.path);
        begin_with(NULL, text);
        SAYS(redis, "OK", "SET x y");
        SAYS(redis, "[1 0]", "EVAL %s 0",
             "local own = redis.call('exists', 'x') redis.call('select', 0) return {own, redis.call('exists', 'x')}");
        end();
}

/* -- many at once -- */

#define MANY 2000

static _Atomic unsigned answered;
static unsigned wrong;

static void
take_echo(weir_task *task, void *context)
{
        const struct weir_redis_reply *reply = weir_redis_reply(task);

        if (weir_task_status(task) != 0 || strtoul(weir_redis_text(reply), NULL, 10) != (uintptr_t)context)
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        answered++;
}

static void
many_share_one_connection(void)
{
        begin();
        answered = wrong = 0;
        SAYS(redis, "OK", "CONFIG RESETSTAT");
        for (uintptr_t i = 0; i < MANY; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_redis_format_new(redis, take_echo, (void *)i, "ECHO %zu", (size_t)i)), 0);
        WEIR_TEST_EVENTUALLY(answered == MANY);
        CU_ASSERT_EQUAL(wrong, 0);
        SAYS(redis, "0", "EVAL %s 0",
             "return tonumber(string.match(redis.call('info', 'stats'), 'total_connections_received:(%d+)'))");
        end();
}

static void
cancelled_commands_leave_the_others_in_step(void)
{
        struct weir_test_random random = {weir_test_seed()};

        begin();
        for (unsigned round = 0; round < 20; round++) {
                weir_series *series[200];

                answered = wrong = 0;
                for (uintptr_t i = 0; i < 200; i++) {
                        series[i] = weir_series_ref(weir_series_new(NULL, NULL));
                        weir_series_push(series[i], weir_redis_format_new(redis, i % 3 ? take_echo : NULL, (void *)i, "ECHO %zu",
                                                                          (size_t)i));
                        weir_series_start(series[i]);
                        if (i % 3 == 0 && weir_test_random_below(&random, 2))
                                weir_series_cancel(series[i]);
                }
                for (unsigned i = 0; i < 200; i += 3)
                        weir_series_cancel(series[i]);
                WEIR_TEST_EVENTUALLY(answered == 133);
                CU_ASSERT_EQUAL(wrong, 0);
                for (unsigned i = 0; i < 200; i++)
                        weir_series_unref(series[i]);
        }
        until_connected(redis, "1");
        end();
}

/* -- blocking -- */

static struct seen waits;

static weir_series *
start_waiting(const char *command)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        waits = (struct seen){0};
        weir_series_push(series, weir_redis_format_new(redis, see, &waits, command));
        weir_series_start(series);
        return series;
}

static const char count_blocked[] = "return tonumber(string.match(redis.call('info', 'clients'), 'blocked_clients:(%d+)'))";

static void
until_blocked(const char *count)
{
        WEIR_TEST_EVENTUALLY(strcmp(SAY(redis, "EVAL %s 0", count_blocked), count) == 0);
}

static void
a_command_that_waits_has_a_connection_of_its_own(void)
{
        begin();
        weir_series *series = start_waiting("BLPOP queue 0");
        until_blocked("1");
        SAYS(redis, "PONG", "PING");
        SAYS(redis, "1", "RPUSH queue job");
        WEIR_TEST_EVENTUALLY(waits.calls);
        CU_ASSERT_STRING_EQUAL(waits.text, "[queue job]");
        weir_series_unref(series);
        series = start_waiting("XREAD BLOCK 0 STREAMS stream $");
        until_blocked("1");
        SAYS(redis, "7-1", "XADD stream 7-1 a b");
        WEIR_TEST_EVENTUALLY(waits.calls);
        CU_ASSERT_STRING_EQUAL(waits.text, "{stream [[7-1 [a b]]]}");
        weir_series_unref(series);
        end();
}

static void
a_cancel_of_one_that_waits_takes_nothing(void)
{
        begin();
        weir_series *series = start_waiting("BLPOP queue 0");
        until_blocked("1");
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(waits.calls);
        CU_ASSERT_EQUAL(waits.status, -ECANCELED);
        until_blocked("0");
        SAYS(redis, "1", "RPUSH queue job");
        SAYS(redis, "1", "LLEN queue");
        weir_series_unref(series);
        series = start_waiting("BLPOP queue 0"); /* and the next one gets its own reply */
        WEIR_TEST_EVENTUALLY(waits.calls);
        CU_ASSERT_STRING_EQUAL(waits.text, "[queue job]");
        weir_series_unref(series);
        end();
}

/* -- limits -- */

static void
a_deadline_of_the_series_counts(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.command_limit = WEIR_MSEC(100);
        begin_with(&config, address);
        CU_ASSERT_EQUAL(strncmp(redis_say(server.port, "CLIENT PAUSE 600000 WRITE"), "+OK", 3), 0);
        SAY(redis, "SET a b");
        CU_ASSERT_EQUAL(last.status, -ETIMEDOUT);
        CU_ASSERT_PTR_NOT_NULL(strstr(last.problem, "wait for the reply of redis 127.0.0.1"));
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_deadline(series, WEIR_MSEC(20));
        last = (struct seen){0};
        weir_series_push(series, weir_redis_format_new(redis, see, &last, "SET a b"));
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT_EQUAL(last.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(strncmp(redis_say(server.port, "CLIENT UNPAUSE"), "+OK", 3), 0);
        WEIR_TEST_EVENTUALLY((SAY(redis, "PING"), last.status == 0));
        end();
}

static void
a_reply_that_is_too_large_fails(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.max_reply = 1000;
        config.retries = UINT32_MAX;
        begin_with(&config, address);
        SAYS(redis, "1000", "SETRANGE x 999 y");
        SAY(redis, "GET x");
        CU_ASSERT_EQUAL(last.status, -EMSGSIZE);
        SAYS(redis, "PONG", "PING");
        SAY(redis, "SET x %b", address, sizeof address);
        CU_ASSERT_EQUAL(last.status, 0);
        end();
}

/* -- a dump -- */

static void
a_dump_names_the_command(void)
{
        char dump[8192] = "";
        int ends[2];

        begin();
        weir_series *series = start_waiting("BLPOP queue 0");
        until_blocked("1");
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        weir_debug_dump(ends[1]);
        CU_ASSERT(read(ends[0], dump, sizeof dump - 1) > 0);
        close(ends[0]);
        close(ends[1]);
        char expected[128];
        snprintf(expected, sizeof expected, "BLPOP queue (redis 127.0.0.1:%d, 1 under way)", server.port);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, expected));
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(waits.calls);
        weir_series_unref(series);
        end();
}

static void
say_get(void *unused)
{
        (void)unused;
        SAY(redis, "GET key");
}

static void
a_trace_names_the_command(void)
{
        char place[64];

        begin();
        snprintf(place, sizeof place, "(redis 127.0.0.1:%d, ", server.port); /* its reply may have come by now */
        CU_ASSERT_TRUE(weir_test_waits_in_trace(say_get, NULL, "GET key", place));
        end();
}

/* -- figures -- */

static struct weir_redis_stats
stats_of(const weir_redis *client)
{
        struct weir_redis_stats stats = WEIR_REDIS_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_redis_stats(client, &stats), 0);
        return stats;
}

static void
a_client_counts_what_it_does(void)
{
        struct weir_redis_stats stats = {.size = 1};
        static struct seen blocked;

        begin();
        CU_ASSERT_EQUAL(weir_redis_stats(redis, &stats), -EINVAL);
        CU_ASSERT_EQUAL(weir_redis_stats(redis, NULL), -EINVAL);
        stats = (struct weir_redis_stats)WEIR_REDIS_STATS_DEFAULT;
        CU_ASSERT_EQUAL(weir_redis_stats(NULL, &stats), -ENOMEM);
        struct weir_redis_stats first = stats_of(redis);
        CU_ASSERT_EQUAL(first.servers, 1);
        CU_ASSERT_EQUAL(first.connections, 1);
        CU_ASSERT_EQUAL(first.connects, 1);
        for (unsigned i = 0; i < 10; i++)
                SAYS(redis, "OK", "SET key x");
        SAY(redis, "LPUSH key x");
        SAY(redis, "SELECT 1"); /* is not sent */
        WEIR_TEST_EVENTUALLY(stats_of(redis).failed == first.failed + 1);
        CU_ASSERT_EQUAL(stats_of(redis).commands, first.commands + 11);
        CU_ASSERT_EQUAL(stats_of(redis).under_way, 0);
        CU_ASSERT_EQUAL(stats_of(redis).connecting, 0);

        blocked = (struct seen){0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_redis_format_new(redis, see, &blocked, "BLPOP nothing 0"));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(strstr(redis_say(server.port, "INFO clients"), "blocked_clients:1\r"));
        CU_ASSERT_EQUAL(stats_of(redis).under_way, 1);
        CU_ASSERT_EQUAL(stats_of(redis).connections, 2);
        weir_series_cancel(series);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(blocked.calls && stats_of(redis).connections == 1);
        CU_ASSERT_EQUAL(stats_of(redis).cancelled, 1);
        CU_ASSERT_EQUAL(stats_of(redis).under_way, 0);
        CU_ASSERT_EQUAL(stats_of(redis).lost, 0); /* it was closed on this side */

        redis_say(server.port, "CLIENT KILL TYPE normal");
        WEIR_TEST_EVENTUALLY(stats_of(redis).lost == 1);
        SAYS(redis, "x", "GET key");
        CU_ASSERT_EQUAL(stats_of(redis).connects, 3);
        CU_ASSERT_EQUAL(stats_of(redis).repeated, 0);
        CU_ASSERT_EQUAL(stats_of(redis).refused, 0);
        end();
}

static void
attempts_that_make_no_connection_are_counted(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.retries = 2;
        weir_test_begin_real(2);
        redis = weir_redis_new("redis://127.0.0.1:1", &config);
        SAY(redis, "GET key");
        CU_ASSERT_EQUAL(last.status, -ECONNREFUSED);
        WEIR_TEST_EVENTUALLY(stats_of(redis).failed == 1);
        CU_ASSERT_EQUAL(stats_of(redis).refused, 3);
        CU_ASSERT_EQUAL(stats_of(redis).repeated, 2);
        CU_ASSERT_EQUAL(stats_of(redis).commands, 3);
        CU_ASSERT_EQUAL(stats_of(redis).connects, 0);
        CU_ASSERT_EQUAL(stats_of(redis).connections, 0);
        end();
}

static double
figure(const char *name, const char *client)
{
        char sample[128];

        snprintf(sample, sizeof sample, "weir_redis_%s{client=\"%s\"}", name, client);
        return seen(sample);
}

static void
figures_of_clients_are_among_all_others(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        char without[32], text[160];

        config.name = "carts";
        snprintf(without, sizeof without, "127.0.0.1:%d", server.port);
        snprintf(text, sizeof text, "redis://who:secret@%s", without);
        weir_test_begin_real(2);
        redis = weir_redis_new(address, &config);
        weir_redis *second = weir_redis_new(address, &config), *third = weir_redis_new(text, NULL);
        CU_ASSERT_EQUAL(weir_metrics_add(weir_redis_metrics_write), 0);
        look();
        check_form(100);
        CU_ASSERT(seen("weir_pollers") == 2);
        CU_ASSERT(figure("commands_total", "carts") == 0 && figure("connections", "carts") == 0);
        for (unsigned i = 0; i < 10; i++)
                SAYS(redis, "OK", "SET key x");
        SAY(redis, "LPUSH key x");
        SAY(third, "GET key");
        WEIR_TEST_EVENTUALLY(stats_of(redis).failed == 1 && stats_of(third).failed == 1);
        look();
        check_form(100);
        CU_ASSERT(figure("commands_total", "carts") == 11 && figure("failed_total", "carts") == 1);
        CU_ASSERT(figure("connections", "carts") == 1 && figure("connects_total", "carts") == 1);
        CU_ASSERT(figure("servers", "carts") == 1 && figure("under_way", "carts") == 0);
        CU_ASSERT(figure("commands_total", "carts#2") == 0);
        CU_ASSERT(figure("failed_total", without) == 1);
        CU_ASSERT_PTR_NULL(strstr(metrics_text, "secret"));
        weir_redis_unref(third);
        weir_redis_unref(second);
        end();
        look();
        check_form(60);
        CU_ASSERT(figure("commands_total", "carts") == -1);
        free(metrics_text);
        metrics_text = NULL;
}

/* -- the servers of the tests -- */

/* Suites run at the same time, and one may be faster with a port. */
static void
a_server_whose_port_is_taken_gets_another_one(void)
{
        struct redis_server second = {.port = server.port};
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");

        redis_start(&second, "");
        CU_ASSERT_NOT_EQUAL(second.port, server.port);
        redis_kill(&second, SIGKILL);
        redis_restart(&second);
        CU_ASSERT_STRING_EQUAL(redis_say(second.port, "PING"), "+PONG\r\n");
        redis_stop(&second);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(commands_have_replies_of_all_types),
                WEIR_TEST(with_version_2_there_are_arrays),
                WEIR_TEST(bytes_are_bytes),
                WEIR_TEST(a_number_has_as_many_digits_as_it_needs_and_a_point),
                WEIR_TEST(a_large_value_comes_whole),
                WEIR_TEST(errors_have_a_status_and_the_text_of_the_server),
                WEIR_TEST(what_is_made_wrongly_says_so),
                WEIR_TEST(an_address_is_checked),
                WEIR_TEST(a_config_is_checked_with_its_address),
                WEIR_TEST(tls_needs_an_address_with_tls),
                WEIR_TEST(a_connection_begins_with_its_account_and_database),
                WEIR_TEST(a_unix_socket_is_a_server),
                WEIR_TEST(many_share_one_connection),
                WEIR_TEST(cancelled_commands_leave_the_others_in_step),
                WEIR_TEST(a_command_that_waits_has_a_connection_of_its_own),
                WEIR_TEST(a_cancel_of_one_that_waits_takes_nothing),
                WEIR_TEST(a_deadline_of_the_series_counts),
                WEIR_TEST(a_reply_that_is_too_large_fails),
                WEIR_TEST(a_dump_names_the_command),
                WEIR_TEST(a_trace_names_the_command),
                WEIR_TEST(a_client_counts_what_it_does),
                WEIR_TEST(attempts_that_make_no_connection_are_counted),
                WEIR_TEST(figures_of_clients_are_among_all_others),
                WEIR_TEST(a_server_whose_port_is_taken_gets_another_one),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        redis_start(&server, "");
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", server.port);
        int failed = weir_test_main("redis_command", tests, sizeof tests / sizeof *tests);
        redis_stop(&server);
        return failed;
}
