/* test/addon/redis_cluster_test.c: a cluster of three servers: slots, redirections, a slot that moves, a server that dies; and
 * sentinels that name another master. */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "test/addon/redis_fixture.h"

#include "database/redis/redis.h"

#define SERVERS 3

static struct redis_server servers[SERVERS + 1];
static char address[256];
static weir_redis *redis;

/* -- slots -- */

static int
slot_of(const char *command)
{
        const char *words[16];
        char copy[128];
        size_t count = 0;

        strcpy(copy, command);
        for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
                words[count++] = word;
        return weir__redis_slot(count, words, NULL);
}

static void
a_command_has_the_slot_of_its_key(void)
{
        CU_ASSERT_EQUAL(weir__redis_slot_of("123456789", 9), 0x31c3);
        CU_ASSERT_EQUAL(weir__redis_slot_of("foo", 3), 12182);
        CU_ASSERT_EQUAL(slot_of("GET foo"), 12182);
        CU_ASSERT_EQUAL(slot_of("GET a{foo}b"), 12182);
        CU_ASSERT_EQUAL(slot_of("get {foo}{bar}"), 12182);
        CU_ASSERT_EQUAL(slot_of("GET {}foo"), weir__redis_slot_of("{}foo", 5));
        CU_ASSERT_EQUAL(slot_of("GET {foo"), weir__redis_slot_of("{foo", 4));
        CU_ASSERT_EQUAL(slot_of("EVAL x 1 foo bar"), 12182);
        CU_ASSERT_EQUAL(slot_of("EVALSHA x 0 foo"), -1);
        CU_ASSERT_EQUAL(slot_of("EVALSHA x"), -1);
        CU_ASSERT_EQUAL(slot_of("XREAD COUNT 2 streams foo bar 0 0"), 12182);
        CU_ASSERT_EQUAL(slot_of("XREAD COUNT 2"), -1);
        CU_ASSERT_EQUAL(slot_of("ZUNION 1 foo"), 12182);
        CU_ASSERT_EQUAL(slot_of("OBJECT ENCODING foo"), 12182);
        CU_ASSERT_EQUAL(slot_of("BLMPOP 0 1 foo LEFT"), 12182);
        CU_ASSERT_EQUAL(slot_of("PING"), -1);
        CU_ASSERT_EQUAL(slot_of("PUBLISH foo x"), -1);
        CU_ASSERT_EQUAL(slot_of("UNKNOWN foo"), 12182);
}

/* -- a cluster -- */

static const char *
say(unsigned server, const char *format, ...)
{
        char line[256];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        return redis_say(servers[server].port, line);
}

static void
begin_cluster(void)
{
        static bool is_made;

        if (!is_made) {
                for (unsigned i = 0; i < SERVERS; i++) {
                        redis_start(&servers[i],
                                    "cluster-enabled yes\ncluster-node-timeout 60000\ncluster-require-full-coverage no\n");
                        say(i, "CLUSTER ADDSLOTSRANGE %u %u", i * 16384 / SERVERS, (i + 1) * 16384 / SERVERS - 1);
                        say(i, "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
                        if (i)
                                say(0, "CLUSTER MEET 127.0.0.1 %d", servers[i].port);
                }
                is_made = true;
        }
        for (unsigned i = 0; i < SERVERS; i++)
                WEIR_TEST_EVENTUALLY(strstr(say(i, "CLUSTER INFO"), "cluster_state:ok") &&
                                     strstr(say(i, "CLUSTER INFO"), "cluster_slots_assigned:16384") &&
                                     strstr(say(i, "CLUSTER INFO"), "cluster_known_nodes:3"));
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", servers[0].port, servers[1].port);
        redis = weir_redis_new(address, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(redis);
}

static void
end(void)
{
        weir_redis_unref(redis);
        weir_test_end();
}

static unsigned
nodes_with_slots(void)
{
        unsigned count = 0;
        struct weir__redis_node *last_node = NULL;

        for (unsigned i = 0; i < WEIR__REDIS_SLOTS; i++) {
                struct weir__redis_node *node = atomic_load(&redis->topology->slots[i]);

                count += node && node != last_node;
                last_node = node;
        }
        return count;
}

static void
each_key_is_at_its_server(void)
{
        begin_cluster();
        for (unsigned i = 0; i < 200; i++) {
                SAYS(redis, "OK", "SET key:%u %u", i, i);
                if (last.status)
                        printf("%u: %s\n", i, last.problem);
        }
        WEIR_TEST_EVENTUALLY(nodes_with_slots() == SERVERS);
        SAYS(redis, "OK", "CONFIG RESETSTAT");
        for (unsigned i = 0; i < 200; i++) {
                char expected[16];

                snprintf(expected, sizeof expected, "%u", i);
                SAYS(redis, expected, "GET key:%u", i);
        }
        SAY(redis, "MGET key:1 key:2"); /* of two servers */
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        CU_ASSERT_EQUAL(strncmp(last.problem, "CROSSSLOT", 9), 0);
        end();
}

static void
scripts_transactions_and_sessions_go_there_too(void)
{
        begin_cluster();
        weir_redis_script *script = weir_redis_script_new("return redis.call('incr', KEYS[1])");
        for (unsigned i = 0; i < 30; i++) {
                SAY(redis, "DEL s:%u", i);
                CU_ASSERT_STRING_EQUAL(run(weir_redis_call_format_new(redis, script, 1, see, &last, "s:%u", i)), "1");
                weir_redis_batch *batch = weir_redis_batch_new();
                weir_redis_batch_format(batch, "INCR s:%u", i);
                weir_redis_batch_format(batch, "GET s:%u", i);
                CU_ASSERT_STRING_EQUAL(run(weir_redis_exec_new(redis, NULL, batch, see, &last)), "[2 2]");
                char key[16];
                snprintf(key, sizeof key, "s:%u", i);
                weir_redis_session *session = weir_redis_session_new(redis, key);
                CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WATCH %s", key)), "OK");
                weir_redis_session_unref(session);
        }
        weir_redis_script_unref(script);
        end();
}

/* Nobody knows the slots yet: a command of the key's slot is sent on, and another one waits until they are known. */
static void
a_session_may_be_the_first_of_all(void)
{
        for (unsigned i = 0; i < 12; i++) {
                char key[16];

                snprintf(key, sizeof key, "first:%u", i / 3);
                begin_cluster();
                weir_redis_session *session = weir_redis_session_new(redis, key);
                weir_redis_batch *batch = weir_redis_batch_new();
                weir_redis_batch_format(batch, "SET %s %u", key, i);
                if (i % 3 == 0)
                        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WATCH %s", key)), "OK");
                if (i % 3 == 1)
                        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "UNWATCH")), "OK");
                CU_ASSERT_STRING_EQUAL(run(weir_redis_exec_new(NULL, session, batch, see, &last)), "[OK]");
                CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "STRLEN %s", key)),
                                       i < 10 ? "1" : "2");
                weir_redis_session_unref(session);
                end();
        }
}

/* What was said on the connection would be lost on another one. */
static void
a_session_that_was_used_moves_no_more(void)
{
        begin_cluster();
        weir_redis_session *session = weir_redis_session_new(redis, NULL);
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "SET foo x")), "OK");
        run(weir_redis_session_format_new(session, see, &last, "GET bar")); /* of another server */
        CU_ASSERT_EQUAL(last.status, -EREMOTEIO);
        CU_ASSERT_EQUAL(strncmp(last.problem, "MOVED ", 6), 0);
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "GET foo")), "x");
        weir_redis_session_unref(session);
        end();
}

/* -- slots that move -- */

static unsigned long long
epoch(unsigned server, const char *which)
{
        const char *found = strstr(say(server, "CLUSTER INFO"), which);

        return found ? strtoull(found + strlen(which), NULL, 10) : 0;
}

/* The id of a server. */
static void
name_of(unsigned server, char id[41])
{
        snprintf(id, 41, "%.40s", strchr(say(server, "CLUSTER MYID"), '\n') + 1);
}

/* A server that gets a slot takes an epoch above all that it knows of.  It has to know all: else it loses the slot again when a
 * message of the former owner comes that was on its way, and each of the two names the other one for ever. */
static void
begin_move(int slot, unsigned from, unsigned to)
{
        char id[41];

        for (unsigned i = 0; i < SERVERS; i++)
                WEIR_TEST_EVENTUALLY(epoch(to, "cluster_current_epoch:") >= epoch(i, "cluster_my_epoch:"));
        name_of(from, id);
        say(to, "CLUSTER SETSLOT %d IMPORTING %s", slot, id);
        name_of(to, id);
        say(from, "CLUSTER SETSLOT %d MIGRATING %s", slot, id);
}

static void
end_move(int slot, unsigned to)
{
        char id[41];

        name_of(to, id);
        for (unsigned i = 0; i < SERVERS; i++) /* the new owner first, which takes its epoch */
                CU_ASSERT_EQUAL(strncmp(say((to + i) % SERVERS, "CLUSTER SETSLOT %d NODE %s", slot, id), "+OK", 3), 0);
}

/* A slot that is on its way: ASK for keys that are there already. */
static void
a_slot_moves(void)
{
        unsigned from = 2, to = 0;
        int slot = weir__redis_slot_of("foo", 3); /* of the third server */

        begin_cluster();
        SAYS(redis, "OK", "SET foo old");
        SAYS(redis, "OK", "SET {foo}2 moved");
        begin_move(slot, from, to);
        CU_ASSERT_EQUAL(strncmp(say(from, "MIGRATE 127.0.0.1 %d {foo}2 0 1000", servers[to].port), "+OK", 3), 0);
        SAYS(redis, "old", "GET foo");
        SAYS(redis, "moved", "GET {foo}2");
        SAYS(redis, "nil", "GET {foo}3");
        SAYS(redis, "OK", "SET {foo}3 new");
        SAYS(redis, "new", "GET {foo}3");
        weir_redis_script *script = weir_redis_script_new("return redis.call('get', KEYS[1])"); /* nobody knows it */
        CU_ASSERT_STRING_EQUAL(run(weir_redis_call_format_new(redis, script, 1, see, &last, "{foo}3")), "new");
        weir_redis_script_unref(script);
        SAYS(redis, "old", "GET foo");
        CU_ASSERT_EQUAL(strncmp(say(from, "MIGRATE 127.0.0.1 %d foo 0 1000", servers[to].port), "+OK", 3), 0);
        end_move(slot, to);
        SAYS(redis, "old", "GET foo"); /* MOVED */
        char expected[32];
        snprintf(expected, sizeof expected, "127.0.0.1:%d", servers[to].port);
        CU_ASSERT_STRING_EQUAL(atomic_load(&redis->topology->slots[slot])->address, expected);
        end();
}

static void
give_slot(int slot, unsigned from, unsigned to)
{
        begin_move(slot, from, to);
        end_move(slot, to);
}

/* Keys of the slot may be at either server, and a session has one connection. */
static void
a_session_waits_for_a_slot_that_moves(void)
{
        unsigned from = 0, to = 1;
        int slot = weir__redis_slot_of("bar", 3); /* of the first server */

        begin_cluster();
        SAYS(redis, "OK", "SET bar x");
        begin_move(slot, from, to);
        CU_ASSERT_EQUAL(strncmp(say(from, "MIGRATE 127.0.0.1 %d bar 0 1000", servers[to].port), "+OK", 3), 0);
        weir_redis_session *session = weir_redis_session_new(redis, "bar");
        run(weir_redis_session_format_new(session, see, &last, "WATCH bar"));
        CU_ASSERT_EQUAL(last.status, -EAGAIN);
        CU_ASSERT_EQUAL(strncmp(last.problem, "ASK ", 4), 0);
        end_move(slot, to);
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WATCH bar")), "OK"); /* it moves there */
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "GET bar")), "x");
        weir_redis_session_unref(session);
        SAYS(redis, "1", "DEL bar");
        give_slot(slot, to, from);
        end();
}

static const char *
exec_of(const char *first, const char *second)
{
        weir_redis_batch *batch = weir_redis_batch_new();

        weir_redis_batch_format(batch, first);
        weir_redis_batch_format(batch, second);
        return run(weir_redis_exec_new(redis, NULL, batch, see, &last));
}

static void
a_transaction_asks_where_its_slot_goes(void)
{
        unsigned from = 1, to = 2;
        int slot = weir__redis_slot_of("user", 4); /* of the second server */
        static struct seen both, transaction;
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;

        begin_cluster();
        weir_redis_unref(redis);
        config.retries = 100;
        redis = weir_redis_new(address, &config);
        SAYS(redis, "OK", "MSET user old {user}2 moved");
        begin_move(slot, from, to);
        CU_ASSERT_EQUAL(strncmp(say(from, "MIGRATE 127.0.0.1 %d {user}2 0 1000", servers[to].port), "+OK", 3), 0);
        for (unsigned i = 0; i < 10; i++) { /* also on a link that was used for that before */
                CU_ASSERT_STRING_EQUAL(exec_of("GET user", "STRLEN user"), "[old 3]");
                CU_ASSERT_STRING_EQUAL(exec_of("GET {user}2", "STRLEN {user}2"), "[moved 5]");
                CU_ASSERT_STRING_EQUAL(exec_of("SET {user}3 new", "GET {user}3"), "[OK new]");
                SAYS(redis, "nil", "GET {user}4");
        }

        /* The new server does not do it before it has all keys, for the old one may have them. */
        say(to, "CONFIG RESETSTAT");
        weir_redis_batch *batch = weir_redis_batch_new();
        weir_redis_batch_format(batch, "MGET {user}2 {user}5");
        both = transaction = (struct seen){0};
        weir_task_start(weir_redis_format_new(redis, see, &both, "MGET {user}2 {user}5"));
        weir_task_start(weir_redis_exec_new(redis, NULL, batch, see, &transaction));
        WEIR_TEST_EVENTUALLY(strstr(say(to, "INFO errorstats"), "errorstat_TRYAGAIN:count="));
        CU_ASSERT_EQUAL(both.calls, 0);
        CU_ASSERT_EQUAL(transaction.calls, 0);
        SAYS(redis, "OK", "SET {user}5 late");
        WEIR_TEST_EVENTUALLY(both.calls && transaction.calls);
        CU_ASSERT_STRING_EQUAL(both.text, "[moved late]");
        CU_ASSERT_STRING_EQUAL(transaction.text, "[[moved late]]");
        CU_ASSERT_EQUAL(strncmp(say(from, "MIGRATE 127.0.0.1 %d user 0 1000", servers[to].port), "+OK", 3), 0);
        end_move(slot, to);
        CU_ASSERT_STRING_EQUAL(exec_of("GET user", "GET {user}2"), "[old moved]"); /* MOVED */
        end();
}

/* -- sharded channels -- */

static weir_redis_subscription *subscription;
static char heard[128];

static void
hear(weir_task *receive, void *context)
{
        static const char *const kinds[] = {"message", "subscribed", "unsubscribed", "lost", "refused"};
        const struct weir_redis_message *message = weir_channel_message(receive);

        (void)context;
        snprintf(heard, sizeof heard, "%s %s %.*s", message ? kinds[message->kind] : "-",
                 message && message->channel ? message->channel : "-", message ? (int)message->size : 0,
                 message && message->data ? message->data : "");
}

#define HEARS(expected)                                                                                                      \
        do {                                                                                                                 \
                weir_task_run(weir_timeout_new(                                                                              \
                        weir_channel_receive_new(weir_redis_subscription_channel(subscription), hear, NULL), WEIR_SEC(20))); \
                CU_ASSERT_STRING_EQUAL(heard, expected);                                                                     \
        } while (0)

static void
a_sharded_channel_is_at_the_server_of_its_slot(void)
{
        int slot = weir__redis_slot_of("bar", 3); /* of the first server */

        begin_cluster();
        give_slot(slot, 0, 1); /* the client knows nothing yet: the first server sends it on */
        subscription = weir_redis_subscription_new(redis, NULL);
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "bar"), 0);
        HEARS("subscribed bar ");
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "hello"), -EXDEV);
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "{bar}2"), 0);
        HEARS("subscribed {bar}2 ");
        SAYS(redis, "1", "SPUBLISH bar 1");
        HEARS("message bar 1");
        SAYS(redis, "1", "SPUBLISH {bar}2 2");
        HEARS("message {bar}2 2");
        CU_ASSERT_EQUAL(weir_redis_unsubscribe_sharded(subscription, "{bar}2"), 0);
        HEARS("unsubscribed {bar}2 ");
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "all"), 0);
        HEARS("subscribed all ");
        give_slot(slot, 1, 2); /* it follows */
        do
                HEARS(heard);
        while (strncmp(heard, "lost", 4) == 0);
        CU_ASSERT_STRING_EQUAL(heard, "subscribed bar ");
        HEARS("subscribed all ");
        SAYS(redis, "1", "SPUBLISH bar 3");
        HEARS("message bar 3");
        CU_ASSERT_EQUAL(weir_redis_unsubscribe_sharded(subscription, "bar"), 0);
        HEARS("unsubscribed bar ");
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "hello"), 0); /* elsewhere */
        HEARS("lost - ");
        HEARS("subscribed all ");
        HEARS("subscribed hello ");
        SAYS(redis, "1", "SPUBLISH hello 4");
        HEARS("message hello 4");
        weir_redis_subscription_close(subscription);
        give_slot(slot, 2, 0);
        end();
}

/* It goes to the server of the slot, and the other one is as good as it was. */
static void
a_subscription_that_moves_says_nothing_against_its_server(void)
{
        begin_cluster();
        struct weir__redis_node *first = atomic_load(&redis->topology->main);
        subscription = weir_redis_subscription_new(redis, NULL);
        CU_ASSERT_EQUAL(weir_redis_subscribe(subscription, "all"), 0); /* at the first server */
        HEARS("subscribed all ");
        CU_ASSERT_EQUAL(weir_redis_subscribe_sharded(subscription, "hello"), 0);
        HEARS("lost - ");
        CU_ASSERT_PTR_EQUAL(atomic_load(&redis->topology->main), first);
        HEARS("subscribed all ");
        HEARS("subscribed hello ");
        weir_redis_subscription_close(subscription);
        end();
}

static void *
add_nodes(void *context)
{
        char text[32];

        for (unsigned i = 2; i < 52; i++) {
                snprintf(text, sizeof text, "127.0.0.1:%u", i);
                CU_ASSERT_PTR_NOT_NULL(weir__redis_node_at(context, text));
        }
        return NULL;
}

/* ThreadSanitizer sees it. */
static void
a_look_up_goes_on_while_servers_are_added(void)
{
        for (unsigned i = 0; i < 30; i++) {
                pthread_t thread;

                weir_test_begin_real(2);
                redis = weir_redis_new("redis+cluster://127.0.0.1:1", NULL);
                CU_ASSERT_FATAL(pthread_create(&thread, NULL, add_nodes, redis->topology) == 0);
                weir__redis_look(redis);
                pthread_join(thread, NULL);
                end();
        }
}

static void
many_at_once(void)
{
        static struct seen all[300];

        begin_cluster();
        memset(all, 0, sizeof all);
        for (unsigned i = 0; i < 300; i++)
                weir_task_start(weir_redis_format_new(redis, see, &all[i], "SET many:%u %u", i, i));
        for (unsigned i = 0; i < 300; i++) {
                WEIR_TEST_EVENTUALLY(all[i].calls);
                CU_ASSERT_STRING_EQUAL(all[i].text, "OK");
        }
        end();
}

static void
a_server_that_is_away_takes_its_slots_along_only(void)
{
        unsigned well = 0, failed = 0;

        begin_cluster();
        for (unsigned i = 0; i < 30; i++)
                SAYS(redis, "OK", "SET key:%u x", i);
        redis_kill(&servers[1], SIGKILL);
        for (unsigned i = 0; i < 30; i++) {
                SAY(redis, "GET key:%u", i);
                well += last.status == 0;
                failed += last.status != 0;
        }
        CU_ASSERT(well > 5 && failed > 5);
        redis_restart(&servers[1]);
        for (unsigned i = 0; i < 30; i++)
                WEIR_TEST_EVENTUALLY((SAY(redis, "GET key:%u", i), last.status == 0));
        end();
}

/* -- sentinels -- */

static void
sentinels_name_the_master(void)
{
        struct redis_server master = {0}, replica = {0}, sentinel = {0};
        char more[512];

        redis_start(&master, "");
        snprintf(more, sizeof more, "replicaof 127.0.0.1 %d\nrepl-diskless-sync-delay 0\n", master.port);
        redis_start(&replica, more);
        WEIR_TEST_EVENTUALLY(strstr(redis_say(replica.port, "INFO replication"), "master_link_status:up"));
        redis_configure(&sentinel,
                        "sentinel monitor mine 127.0.0.1 %d 1\nsentinel down-after-milliseconds mine 200\n"
                        "sentinel failover-timeout mine 2000\n",
                        master.port);
        redis_begin(&sentinel, "--sentinel");
        WEIR_TEST_EVENTUALLY(strstr(redis_say(sentinel.port, "SENTINEL REPLICAS mine"), "slave"));

        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        config.retries = 100;
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/mine", sentinel.port);
        redis = weir_redis_new(address, &config);
        weir_redis_session *session = weir_redis_session_new(redis, NULL); /* it waits for what the sentinels say */
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "SET key x")), "OK");
        SAYS(redis, "x", "GET key");
        CU_ASSERT_STRING_EQUAL(run(weir_redis_session_format_new(session, see, &last, "WAIT 1 60000")), "1");
        weir_redis_session_unref(session);
        redis_kill(&master, SIGKILL);
        SAYS(redis, "x", "GET key"); /* of the other one, when that is the master */
        SAYS(redis, "OK", "SET key y");
        CU_ASSERT_EQUAL(strncmp(redis_say(replica.port, "GET key"), "$1\r\ny", 5), 0);
        subscription = weir_redis_subscription_new(redis, NULL);
        weir_redis_subscribe(subscription, "news");
        CU_ASSERT_EQUAL(weir_task_run(weir_channel_receive_new(weir_redis_subscription_channel(subscription), NULL, NULL)), 0);
        redis_kill(&sentinel, SIGKILL);
        weir_redis_subscription_close(subscription); /* which is no reason to doubt the master */
        for (unsigned i = 0; i < 50; i++)
                SAYS(redis, "y", "GET key");
        end();
        redis_begin(&sentinel, "--sentinel");
        WEIR_TEST_EVENTUALLY(*redis_say(sentinel.port, "PING") == '+');

        config.retries = 2;
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d/other", sentinel.port);
        redis = weir_redis_new(address, &config);
        SAY(redis, "GET key"); /* nobody knows it */
        CU_ASSERT_EQUAL(last.status, -EHOSTUNREACH);
        end();
        redis_stop(&sentinel);
        redis_stop(&replica);
        redis_stop(&master);
}

/* A sentinel of this suite: it names the first port once, and the second one from then on. */
struct sentinel {
        int fd, ports[2];
        _Atomic int peer; /* -1: none */
        _Atomic unsigned asked;
};

static void *
name_masters(void *context)
{
        struct sentinel *sentinel = context;
        char question[256], answer[128], port[16];
        int fd;

        while ((fd = accept(sentinel->fd, NULL, NULL)) >= 0) {
                sentinel->peer = fd;
                while (recv(fd, question, sizeof question, 0) > 0) {
                        snprintf(port, sizeof port, "%d", sentinel->ports[sentinel->asked++ > 0]);
                        snprintf(answer, sizeof answer, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
                        if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
                                break;
                }
                sentinel->peer = -1;
                close(fd);
        }
        return NULL;
}

static struct sentinel sentinel;
static pthread_t sentinel_thread;

/* Returns its port. */
static int
begin_sentinel(int first, int second)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;

        sentinel.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sentinel.ports[0] = first;
        sentinel.ports[1] = second;
        sentinel.asked = 0;
        sentinel.peer = -1;
        CU_ASSERT_FATAL(bind(sentinel.fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(sentinel.fd, 5) == 0);
        CU_ASSERT_FATAL(getsockname(sentinel.fd, (struct sockaddr *)&name, &size) == 0);
        CU_ASSERT_FATAL(pthread_create(&sentinel_thread, NULL, name_masters, &sentinel) == 0);
        return ntohs(name.sin_port);
}

static void
end_sentinel(void)
{
        shutdown(sentinel.fd, SHUT_RDWR);
        if (sentinel.peer >= 0)
                shutdown(sentinel.peer, SHUT_RDWR);
        pthread_join(sentinel_thread, NULL);
        close(sentinel.fd);
}

static void
a_master_that_was_demoted_is_left_at_once(void)
{
        struct redis_server master = {0}, demoted = {0};

        redis_start(&master, "");
        redis_start(&demoted, "");
        redis_say(demoted.port, "SET key old");
        redis_say(demoted.port, "REPLICAOF 127.0.0.1 1"); /* it serves what it has */
        redis_say(master.port, "SET key new");
        int port = begin_sentinel(demoted.port, master.port);

        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        config.retries = 100;
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d/mine/1", port);
        redis = weir_redis_new(address, &config);
        SAYS(redis, "OK", "SET key x");
        end();
        sentinel.asked = 0;
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d/mine", port);
        redis = weir_redis_new(address, &config);
        SAYS(redis, "new", "GET key");
        CU_ASSERT(sentinel.asked > 1);
        end();
        end_sentinel();
        redis_stop(&demoted);
        redis_stop(&master);
}

/* The server is as good as it was.  So the client does not ask the sentinels again, which may be away. */
static void
a_subscription_that_is_closed_says_nothing_against_its_server(void)
{
        struct redis_server master = {0};

        redis_start(&master, "");
        int port = begin_sentinel(master.port, master.port);
        weir_test_begin_real(2);
        snprintf(address, sizeof address, "redis+sentinel://127.0.0.1:%d/mine", port);
        redis = weir_redis_new(address, NULL);
        SAYS(redis, "OK", "SET key x");
        subscription = weir_redis_subscription_new(redis, NULL);
        weir_redis_subscribe(subscription, "news");
        HEARS("subscribed news ");
        WEIR_TEST_EVENTUALLY(atomic_load(&redis->references) == 2); /* the test's and the subscription's: no look-up */
        end_sentinel();
        weir_redis_subscription_close(subscription);
        WEIR_TEST_EVENTUALLY(atomic_load(&redis->references) == 1);
        CU_ASSERT_PTR_NOT_NULL(atomic_load(&redis->topology->main));
        SAYS(redis, "x", "GET key");
        end();
        redis_stop(&master);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_command_has_the_slot_of_its_key),
                WEIR_TEST(each_key_is_at_its_server),
                WEIR_TEST(scripts_transactions_and_sessions_go_there_too),
                WEIR_TEST(a_session_may_be_the_first_of_all),
                WEIR_TEST(a_session_that_was_used_moves_no_more),
                WEIR_TEST(a_slot_moves),
                WEIR_TEST(a_session_waits_for_a_slot_that_moves),
                WEIR_TEST(a_transaction_asks_where_its_slot_goes),
                WEIR_TEST(a_sharded_channel_is_at_the_server_of_its_slot),
                WEIR_TEST(a_subscription_that_moves_says_nothing_against_its_server),
                WEIR_TEST(a_look_up_goes_on_while_servers_are_added),
                WEIR_TEST(many_at_once),
                WEIR_TEST(a_server_that_is_away_takes_its_slots_along_only),
                WEIR_TEST(sentinels_name_the_master),
                WEIR_TEST(a_master_that_was_demoted_is_left_at_once),
                WEIR_TEST(a_subscription_that_is_closed_says_nothing_against_its_server),
        };

        if (!redis_is_installed()) {
                printf("redis-server is not installed\n");
                return 77;
        }
        int failed = weir_test_main("redis_cluster", tests, sizeof tests / sizeof *tests);
        for (unsigned i = 0; i < SERVERS; i++)
                redis_stop(&servers[i]);
        return failed;
}
