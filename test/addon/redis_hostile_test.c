/* test/addon/redis_hostile_test.c: servers that misbehave, on the virtual clock. */
#include "test/addon/redis_fixture.h"

#include <poll.h>
#include <sys/un.h>

static int listener;
static weir_redis *redis;
static char path[64];

static void
begin_with(struct weir_redis_config config)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        char address[96];

        snprintf(path, sizeof path, "/tmp/weir-redis-%d.sock", getpid());
        unlink(path);
        strcpy(name.sun_path, path);
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 64), 0);
        weir_test_begin_virtual();
        snprintf(address, sizeof address, "unix://%s", path);
        redis = weir_redis_new(address, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(redis);
}

/* Without a greeting. */
static struct weir_redis_config
plain(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        config.version = 2;
        return config;
}

static void
end(void)
{
        weir_redis_unref(redis);
        weir_test_pass(0);
        weir_test_end();
        close(listener);
        unlink(path);
}

static int
take(void)
{
        return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static int
must_take(void)
{
        int fd = take();

        CU_ASSERT_FATAL(fd >= 0);
        return fd;
}

static const char *
got(int peer)
{
        static char text[65536];
        ssize_t size = recv(peer, text, sizeof text - 1, MSG_DONTWAIT);

        if (size <= 0)
                return size == 0 ? "<end>" : errno == ECONNRESET ? "<reset>" : "";
        text[size] = '\0';
        return text;
}

#define GOT(peer, expected) CU_ASSERT_STRING_EQUAL(got(peer), expected)

static void
put(int peer, const char *text)
{
        (void)send(peer, text, strlen(text), MSG_NOSIGNAL);
        weir_test_pass(0);
}

static weir_series *series; /* of the last command */

static void
start(struct seen *seen, const char *command)
{
        *seen = (struct seen){0};
        series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_redis_format_new(redis, see, seen, command));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_unref(series);
}

static void
cancel(struct seen *seen)
{
        CU_ASSERT_EQUAL(seen->calls, 0);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(seen->status, -ECANCELED);
}

#define SAW(seen, status_, text_)                           \
        do {                                                \
                CU_ASSERT_EQUAL((seen).calls, 1);           \
                CU_ASSERT_EQUAL((seen).status, status_);    \
                CU_ASSERT_STRING_EQUAL((seen).text, text_); \
        } while (0)
#define WAITS(seen) CU_ASSERT_EQUAL((seen).calls, 0)

#define GET   "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n"
#define INCR  "*2\r\n$4\r\nINCR\r\n$1\r\nx\r\n"
#define HELLO "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"

/* -- greetings -- */

static void
a_greeting_is_read_in_any_pieces(void)
{
        struct seen seen;

        begin_with((struct weir_redis_config)WEIR_REDIS_CONFIG_DEFAULT);
        start(&seen, "GET x");
        int peer = must_take();
        GOT(peer, HELLO);
        for (const char *each = "%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n"; *each; each++) {
                GOT(peer, "");
                put(peer, (char[]){*each, '\0'});
        }
        GOT(peer, GET);
        put(peer, "+y\r\n");
        SAW(seen, 0, "y");
        close(peer);
        end();
}

static void
an_old_server_is_spoken_to_in_its_version(void)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        struct seen seen;

        config.password = "p";
        config.user = "u";
        config.name = "n";
        begin_with(config);
        start(&seen, "GET x");
        int peer = must_take();
        GOT(peer, "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n");
        put(peer, "-ERR unknown command `HELLO`\r\n");
        GOT(peer, "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n");
        put(peer, "+OK\r\n");
        GOT(peer, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n");
        put(peer, "+OK\r\n");
        GOT(peer, GET);
        put(peer, "$-1\r\n");
        SAW(seen, 0, "nil");
        close(peer);
        end();
}

static void
a_greeting_that_fails_is_told(void)
{
        static const struct {
                const char *reply;
                int status;
        } all[] = {{"-WRONGPASS no\r\n", -EACCES},
                   {"junk\r\n", -EBADMSG},
                   {"+OK\r\n+more\r\n", -EPROTO},
                   {"$100000\r\n", -EMSGSIZE},
                   {"", -EPIPE}};
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        struct seen seen;

        config.retries = UINT32_MAX;
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
                begin_with(config);
                start(&seen, "GET x");
                int peer = must_take();
                GOT(peer, HELLO);
                put(peer, all[i].reply);
                close(peer);
                weir_test_pass(0);
                SAW(seen, all[i].status, "none");
                CU_ASSERT_EQUAL(strncmp(seen.problem, "greet redis unix:", 17), 0);
                CU_ASSERT(i || strstr(seen.problem, "WRONGPASS no"));
                end();
        }
        begin_with(config);
        start(&seen, "GET x");
        int peer = must_take();
        weir_test_pass(WEIR_SEC(9));
        WAITS(seen);
        weir_test_pass(WEIR_SEC(2));
        SAW(seen, -ETIMEDOUT, "none");
        close(peer);
        end();
}

/* -- replies -- */

static void
what_is_no_reply_breaks_the_connection_alone(void)
{
        static const struct {
                const char *reply;
                int status;
        } all[] = {{"junk\r\n", -EBADMSG}, {"$99999999\r\n", -EMSGSIZE}, {"*99999999\r\n", -EMSGSIZE}, {"$1\r\nabc", -EBADMSG}};
        struct weir_redis_config config = plain();
        struct seen seen;

        config.max_reply = 1000000;
        begin_with(config);
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
                start(&seen, "INCR x");
                int peer = must_take();
                GOT(peer, INCR);
                put(peer, all[i].reply);
                SAW(seen, all[i].status, "none");
                GOT(peer, "<end>");
                close(peer);
        }
        start(&seen, "GET x");
        int peer = must_take();
        put(peer, ":1x\r\n");
        SAW(seen, -EBADMSG, "none");
        CU_ASSERT_STRING_EQUAL(seen.problem, "the reply is no valid one");
        start(&seen, "GET x");
        put(peer, ":7\r\n"); /* the end of a reply was clear, so the connection is in step */
        SAW(seen, 0, "7");
        close(peer);
        end();
}

static void
a_byte_a_second_is_no_reply_in_time(void)
{
        struct seen slow, next;

        begin_with(plain());
        start(&slow, "GET x");
        int peer = must_take();
        GOT(peer, GET);
        const char *reply = "$3\r\nabc\r\n";
        for (unsigned i = 0; i < 9; i++) {
                WAITS(slow);
                put(peer, (char[]){reply[i], '\0'});
                weir_test_pass(WEIR_SEC(1));
        }
        SAW(slow, 0, "abc");
        start(&slow, "INCR x");
        GOT(peer, INCR);
        start(&next, "INCR x");
        GOT(peer, INCR);
        put(peer, "$50\r\n");
        for (unsigned i = 0; i < 29; i++) {
                put(peer, "x");
                weir_test_pass(WEIR_SEC(1));
        }
        WAITS(slow);
        weir_test_pass(WEIR_SEC(2));
        SAW(slow, -ETIMEDOUT, "none");
        close(peer);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(next.calls, 1);
        end();
}

static void
a_reply_that_nobody_waits_for_closes_the_connection(void)
{
        struct seen seen;

        begin_with(plain());
        start(&seen, "INCR x");
        int peer = must_take();
        GOT(peer, INCR);
        put(peer, ":1\r\n:2\r\n");
        SAW(seen, 0, "1");
        GOT(peer, "<end>");
        close(peer);
        start(&seen, "INCR x"); /* it is not given that reply */
        peer = must_take();
        GOT(peer, INCR);
        WAITS(seen);
        put(peer, ":3\r\n");
        SAW(seen, 0, "3");
        put(peer, "+late\r\n");
        GOT(peer, "<end>");
        close(peer);
        end();
}

static void
pushes_are_no_replies(void)
{
        struct seen seen;

        begin_with(plain());
        start(&seen, "INCR x");
        int peer = must_take();
        GOT(peer, INCR);
        put(peer, ">2\r\n+invalidate\r\n*1\r\n+x\r\n");
        WAITS(seen);
        put(peer, ":1\r\n>1\r\n+more\r\n");
        SAW(seen, 0, "1");
        start(&seen, "INCR x");
        GOT(peer, INCR);
        put(peer, ":2\r\n");
        SAW(seen, 0, "2");
        close(peer);
        end();
}

static void
the_reply_to_a_cancelled_command_is_thrown_away(void)
{
        struct seen first, second, third;

        begin_with(plain());
        for (unsigned round = 0; round < 2; round++) { /* the first with a series, the second without */
                start(&first, "INCR x");
                int peer = round ? -1 : must_take();
                static int kept;
                peer = round ? kept : peer;
                kept = peer;
                start(&second, "INCR x");
                cancel(&second);
                start(&third, "INCR x");
                GOT(peer, INCR INCR INCR);
                put(peer, ":1\r\n:2\r\n");
                SAW(first, 0, "1");
                WAITS(third);
                put(peer, ":3\r\n");
                SAW(third, 0, "3");
                if (round)
                        close(peer);
        }
        end();
}

/* -- what is sent again -- */

static void
what_the_server_may_have_executed_is_not_sent_again(void)
{
        struct seen incr, get, marked;

        begin_with(plain());
        start(&incr, "INCR x");
        int peer = must_take();
        start(&get, "GET x");
        marked = (struct seen){0};
        weir_task *task = weir_redis_format_new(redis, see, &marked, "SET x 1");
        CU_ASSERT_EQUAL(weir_redis_set_repeatable(task), 0);
        weir_task_start(task);
        weir_test_pass(0);
        GOT(peer, INCR GET "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\n1\r\n");
        close(peer);
        weir_test_pass(0);
        SAW(incr, -ECONNRESET, "none");
        CU_ASSERT_EQUAL(strncmp(incr.problem, "wait for the reply of redis unix:", 33), 0);
        WAITS(get);
        WAITS(marked);
        weir_test_pass(WEIR_MSEC(100));
        peer = must_take();
        GOT(peer, GET "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\n1\r\n");
        put(peer, ":1\r\n+OK\r\n");
        SAW(get, 0, "1");
        SAW(marked, 0, "OK");
        close(peer);
        end();
}

static void
a_server_that_is_away_is_tried_some_times(void)
{
        struct seen seen;

        begin_with(plain());
        unlink(path);
        start(&seen, "INCR x");
        weir_test_pass(WEIR_MSEC(200));
        WAITS(seen);
        weir_test_pass(WEIR_SEC(10));
        SAW(seen, -ENOENT, "none");
        CU_ASSERT_EQUAL(strncmp(seen.problem, "connect to redis unix:", 22), 0);
        start(&seen, "INCR x");
        cancel(&seen);
        end();
}

static void
a_server_that_loads_is_asked_again(void)
{
        struct seen seen;

        begin_with(plain());
        start(&seen, "INCR x");
        int peer = must_take();
        for (unsigned i = 0; i < 4; i++) {
                GOT(peer, INCR);
                put(peer, "-LOADING Redis is loading the dataset in memory\r\n");
                WAITS(seen);
                GOT(peer, "");
                weir_test_pass(WEIR_SEC(1));
        }
        GOT(peer, INCR);
        put(peer, "-LOADING still\r\n");
        SAW(seen, -EAGAIN, "!LOADING still");
        start(&seen, "INCR x");
        GOT(peer, INCR);
        put(peer, "-LOADING\r\n");
        SAW(seen, -EAGAIN, "!LOADING");
        close(peer);
        end();
}

static void
other_servers_that_cannot_answer_now_are_asked_again(void)
{
        static const char *const errors[] = {"-MASTERDOWN Link with MASTER is down\r\n", "-CLUSTERDOWN The cluster is down\r\n",
                                             "-TRYAGAIN Multiple keys\r\n"};
        struct seen seen;

        begin_with(plain());
        start(&seen, "INCR x");
        int peer = must_take();
        for (unsigned i = 0; i < 3; i++) {
                GOT(peer, INCR);
                put(peer, errors[i]);
                WAITS(seen);
                weir_test_pass(WEIR_SEC(1));
        }
        GOT(peer, INCR);
        put(peer, ":1\r\n");
        SAW(seen, 0, "1");
        start(&seen, "INCR x"); /* it may be a replica for ever */
        GOT(peer, INCR);
        put(peer, "-READONLY You can't write against a read only replica.\r\n");
        SAW(seen, -EROFS, "!READONLY You can't write against a read only replica.");
        close(peer);
        end();
}

#define EXEC "*1\r\n$5\r\nMULTI\r\n" INCR "*1\r\n$4\r\nEXEC\r\n"

static void
a_transaction_is_sent_again_if_nothing_was_executed(void)
{
        struct seen seen = {0};

        begin_with(plain());
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "INCR x");
        weir_task_start(weir_redis_exec_new(redis, NULL, batch, see, &seen));
        weir_test_pass(0);
        int peer = must_take();
        GOT(peer, EXEC);
        put(peer, "+OK\r\n-LOADING Redis is loading\r\n-EXECABORT Transaction discarded\r\n");
        WAITS(seen);
        weir_test_pass(WEIR_SEC(1));
        GOT(peer, EXEC);
        put(peer, "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
        SAW(seen, 0, "[1]");
        close(peer);
        end();
}

static void
a_session_tells_what_the_server_cannot_do_now(void)
{
        struct seen seen = {0};

        begin_with(plain());
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        weir_task_start(weir_redis_session_format_new(session, see, &seen, "INCR x"));
        weir_test_pass(0);
        int peer = must_take();
        GOT(peer, INCR);
        put(peer, "-LOADING Redis is loading\r\n");
        SAW(seen, -EAGAIN, "!LOADING Redis is loading");
        weir_redis_session_unref(session);
        close(peer);
        end();
}

static void
a_subscription_leaves_a_server_that_loads(void)
{
        begin_with(plain());
        weir_redis_subscription *subscription = weir_redis_subscription_new(redis, NULL);
        weir_channel *channel = weir_redis_subscription_channel(subscription);
        void *message;
        weir_redis_subscribe(subscription, "x");
        weir_test_pass(0);
        int peer = must_take();
        GOT(peer, "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nx\r\n");
        put(peer, "-LOADING Redis is loading\r\n");
        CU_ASSERT_FATAL(weir_channel_poll(channel, &message) == 0);
        CU_ASSERT(((struct weir_redis_message *)message)->kind == WEIR_REDIS_LOST);
        CU_ASSERT(((struct weir_redis_message *)message)->status == -EAGAIN);
        weir_redis_message_free(message);
        GOT(peer, "<end>");
        close(peer);
        weir_test_pass(WEIR_SEC(1));
        peer = must_take();
        GOT(peer, "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nx\r\n");
        weir_redis_subscription_close(subscription);
        weir_test_pass(0);
        close(peer);
        end();
}

static void
a_session_has_limits_but_for_what_waits_at_the_server(void)
{
        struct seen waits = {0}, seen = {0};

        begin_with(plain());
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        weir_task_start(weir_redis_session_format_new(session, see, &waits, "BLPOP x 0"));
        weir_task_start(weir_redis_session_format_new(session, see, &seen, "INCR x"));
        weir_test_pass(WEIR_SEC(1000));
        int peer = must_take();
        WAITS(waits);
        GOT(peer, "*3\r\n$5\r\nBLPOP\r\n$1\r\nx\r\n$1\r\n0\r\n");
        put(peer, "*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
        SAW(waits, 0, "[x y]");
        GOT(peer, INCR);
        weir_test_pass(WEIR_SEC(29));
        WAITS(seen);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(seen.calls, 1);
        CU_ASSERT_EQUAL(seen.status, -ETIMEDOUT);
        weir_redis_session_unref(session);
        close(peer);
        end();
}

/* -- the end -- */

static void
shutdown_ends_what_waits(void)
{
        struct seen seen, waits;

        begin_with(plain());
        start(&seen, "INCR x");
        start(&waits, "BLPOP x 0");
        weir_test_end();
        SAW(seen, -ESHUTDOWN, "none");
        SAW(waits, -ESHUTDOWN, "none");
        weir_redis_unref(redis);
        close(listener);
        unlink(path);
}

static void
a_connection_that_waits_is_closed_by_a_cancel(void)
{
        struct seen waits, next;

        begin_with(plain());
        start(&waits, "BLPOP x 0");
        int peer = must_take();
        GOT(peer, "*3\r\n$5\r\nBLPOP\r\n$1\r\nx\r\n$1\r\n0\r\n");
        cancel(&waits);
        GOT(peer, "<end>");
        start(&next, "BLPOP x 0");
        int second = must_take();
        put(peer, "+for the first\r\n");
        WAITS(next);
        put(second, "+for the second\r\n");
        SAW(next, 0, "for the second");
        close(peer);
        close(second);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_greeting_is_read_in_any_pieces),
                WEIR_TEST(an_old_server_is_spoken_to_in_its_version),
                WEIR_TEST(a_greeting_that_fails_is_told),
                WEIR_TEST(what_is_no_reply_breaks_the_connection_alone),
                WEIR_TEST(a_byte_a_second_is_no_reply_in_time),
                WEIR_TEST(a_reply_that_nobody_waits_for_closes_the_connection),
                WEIR_TEST(pushes_are_no_replies),
                WEIR_TEST(the_reply_to_a_cancelled_command_is_thrown_away),
                WEIR_TEST(what_the_server_may_have_executed_is_not_sent_again),
                WEIR_TEST(a_server_that_is_away_is_tried_some_times),
                WEIR_TEST(a_server_that_loads_is_asked_again),
                WEIR_TEST(other_servers_that_cannot_answer_now_are_asked_again),
                WEIR_TEST(a_transaction_is_sent_again_if_nothing_was_executed),
                WEIR_TEST(a_session_tells_what_the_server_cannot_do_now),
                WEIR_TEST(a_subscription_leaves_a_server_that_loads),
                WEIR_TEST(a_session_has_limits_but_for_what_waits_at_the_server),
                WEIR_TEST(shutdown_ends_what_waits),
                WEIR_TEST(a_connection_that_waits_is_closed_by_a_cancel),
        };

        return weir_test_main("redis_hostile", tests, sizeof tests / sizeof *tests);
}
