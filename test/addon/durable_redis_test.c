/* Durable timers in Redis: the cases of all engines on the virtual clock, and what only a server can do, on the real one. */
#include <stdatomic.h>

#include <weir/channel.h>
#include <weir/redis.h>

#include "test/addon/durable_outside.h"
#include "test/addon/redis_server.h"

static void fresh_database(void);

#define ENGINE_URL(number) ((void)(number), fresh_database())
#define NOWHERE_URL        "unix:///nonexistent/redis.sock"
#define MORE_TESTS                                                                                                        \
        WEIR_TEST(bytes_of_all_kinds_are_kept), WEIR_TEST(instants_are_exact), WEIR_TEST(a_long_list_comes_in_pages),     \
                WEIR_TEST(keys_of_others_are_told), WEIR_TEST(a_full_server_takes_no_more_but_gives),                     \
                WEIR_TEST(a_replica_is_told), WEIR_TEST(a_server_that_forgets_scripts_gets_them_again),                   \
                WEIR_TEST(a_server_that_is_not_there_is_told), WEIR_TEST(other_stores_are_rung_also_after_a_reconnect),   \
                WEIR_TEST(rings_that_could_not_be_heard_are_heard_later), WEIR_TEST(numbers_grow_also_when_all_was_lost), \
                WEIR_TEST(a_killed_server_loses_nothing)

static void bytes_of_all_kinds_are_kept(void);
static void instants_are_exact(void);
static void a_long_list_comes_in_pages(void);
static void keys_of_others_are_told(void);
static void a_full_server_takes_no_more_but_gives(void);
static void a_replica_is_told(void);
static void a_server_that_forgets_scripts_gets_them_again(void);
static void a_server_that_is_not_there_is_told(void);
static void other_stores_are_rung_also_after_a_reconnect(void);
static void rings_that_could_not_be_heard_are_heard_later(void);
static void numbers_grow_also_when_all_was_lost(void);
static void a_killed_server_loses_nothing(void);

#define listen                 listen_to /* that of sockets has the name */
#define weir_durable_open(url) outside(weir_durable_open(url))
#include "test/addon/durable_cases.h"
#undef weir_durable_open

static struct redis_server server;

static void
stop_server(void)
{
        redis_stop(&server);
}

/* The server of the suite, without keys. */
static void
fresh_database(void)
{
        if (!redis_is_installed() || !outside_is_built("redis://127.0.0.1"))
                exit(77);
        if (!server.port) {
                redis_start(&server, "appendonly yes\nappendfsync always\n");
                atexit(stop_server);
        }
        redis_say(server.port, "FLUSHALL");
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
}

static weir_durable *
begin_really(const struct weir_durable_config *config)
{
        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        fresh_database();
        weir_durable *store = weir_durable_open_with(config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        return store;
}

static char problem[300];

static void
note_problem(weir_task *task, void *context)
{
        const char *words = weir_durable_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
}

static int
put(weir_durable *store, const char *name, weir_nsec after)
{
        return weir_task_run(weir_durable_set_after_new(store, name, after, "topic", "x", 1, note_problem, NULL));
}

static void
compare_bytes(weir_task *task, void *context)
{
        const struct weir_durable_info *info = weir_durable_info(task, 0);

        (void)context;
        CU_ASSERT_PTR_NOT_NULL_FATAL(info);
        CU_ASSERT(info->payload_size == 8 && memcmp(info->payload, "a\0b\r\n\xff\xfe", 9) == 0);
        CU_ASSERT_STRING_EQUAL(info->name, "\xff\r\n {x} \\");
        CU_ASSERT_STRING_EQUAL(info->topic, "\xfe \"t\"\n");
}

static void
bytes_of_all_kinds_are_kept(void)
{
        const char *name = "\xff\r\n {x} \\", *topic = "\xfe \"t\"\n";
        weir_durable *store = begin_really(NULL);

        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, name, HOUR, topic, "a\0b\r\n\xff\xfe", 8, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_get_new(store, name, compare_bytes, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "\xff", NULL, 10, compare_bytes, NULL)) == 0);
        CU_ASSERT(cancel(store, name) == 1);
        CU_ASSERT_STRING_EQUAL(redis_say(server.port, "DBSIZE"), ":1\r\n"); /* the sequence */
        end(store);
}

static void
instants_are_exact(void)
{
        static const weir_nsec instants[] = {
                INT64_MIN,        -WEIR_FOREVER,       -WEIR_SEC(1) - 1, -1,          0, 1, 999999999, 1000000000,
                9007199254740993, 1795726800123456789, WEIR_FOREVER - 1, WEIR_FOREVER};
        weir_durable *store = begin_really(NULL);

        for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
                CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", instants[i], "topic", NULL, 0, NULL, NULL)) == 0);
                CU_ASSERT(get(store, "a") == 0 && seen.info.due == instants[i] && seen.info.ready == instants[i]);
                CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", 7, look, NULL)) == 0);
                CU_ASSERT(seen.info.due == weir__durable_add(instants[i], 7));
                CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", -WEIR_SEC(3) - 8, look, NULL)) == 0);
                CU_ASSERT(seen.info.due == weir__durable_add(weir__durable_add(instants[i], 7), -WEIR_SEC(3) - 8));
        }
        end(store);
}

static void
count_rows(weir_task *task, void *context)
{
        int *count = context;
        char name[20];

        for (*count = 0; weir_durable_info(task, (size_t)*count); ++*count) {
                snprintf(name, sizeof name, "b/%05d", *count);
                CU_ASSERT_STRING_EQUAL(weir_durable_info(task, (size_t)*count)->name, name);
        }
}

static void
a_long_list_comes_in_pages(void)
{
        weir_durable *store = begin_really(NULL);
        int count = 0;

        for (int i = 0; i < 1700; i++) {
                char name[20];

                snprintf(name, sizeof name, "b/%05d", i);
                weir_task *task = weir_durable_set_after_new(store, name, HOUR, "topic", NULL, 0, NULL, NULL);
                CU_ASSERT((i == 1699 ? weir_task_run(task) : weir_task_start(task)) == 0);
        }
        CU_ASSERT(put(store, "a", HOUR) == 0 && put(store, "c", HOUR) == 0);
        WEIR_TEST_EVENTUALLY(weir_task_run(weir_durable_count_new(store, "b/", look, NULL)) == 0 && seen.counted[0] == 1700);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "b/", NULL, 10000, count_rows, &count)) == 0 && count == 1700);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "b/", NULL, 1234, count_rows, &count)) == 0 && count == 1234);
        CU_ASSERT(weir_task_run(weir_durable_count_new(store, "", look, NULL)) == 0 && seen.counted[0] == 1702);
        end(store);
}

static void
keys_of_others_are_told(void)
{
        weir_durable *store = begin_really(NULL);

        redis_say(server.port, "SET {weir-durable} x");
        CU_ASSERT(put(store, "a", HOUR) == -EREMOTEIO && strstr(problem, "WRONGTYPE"));
        redis_say(server.port, "FLUSHALL");
        redis_say(server.port, "HSET {weir-durable} format 9");
        CU_ASSERT(put(store, "a", HOUR) == -EREMOTEIO && strstr(problem, "not those of this version"));
        redis_say(server.port, "FLUSHALL");
        redis_say(server.port, "SADD {weir-durable}:timer:a x");
        CU_ASSERT(put(store, "a", HOUR) == -EREMOTEIO && strstr(problem, "WRONGTYPE"));
        CU_ASSERT(put(store, "b", HOUR) == 0 && cancel(store, "b") == 1);
        redis_say(server.port, "DEL {weir-durable}:timer:a");
        redis_say(server.port, "HSET {weir-durable}:timer:a x never t t p p");
        CU_ASSERT(get(store, "a") == -EBADMSG);
        end(store);
}

static void
a_full_server_takes_no_more_but_gives(void)
{
        weir_durable *store = begin_really(NULL);

        CU_ASSERT(put(store, "a", HOUR) == 0 && put(store, "b", 0) == 0);
        redis_say(server.port, "CONFIG SET maxmemory 1");
        CU_ASSERT(put(store, "c", HOUR) == -EREMOTEIO && strstr(problem, "OOM"));
        CU_ASSERT(put(store, "a", 2 * HOUR) == -EREMOTEIO && get(store, "a") == 0);
        CU_ASSERT(cancel(store, "a") == 1);
        listen(store);
        WEIR_TEST_EVENTUALLY(get(store, "b") == -ENOENT); /* it is claimed and acknowledged all the same */
        redis_say(server.port, "CONFIG SET maxmemory 0");
        CU_ASSERT(put(store, "c", HOUR) == 0);
        end(store);
}

static void
a_replica_is_told(void)
{
        weir_durable *store = begin_really(NULL);

        CU_ASSERT(put(store, "a", HOUR) == 0);
        redis_say(server.port, "REPLICAOF 127.0.0.1 1");
        CU_ASSERT(put(store, "b", HOUR) == -EROFS && strstr(problem, "READONLY"));
        CU_ASSERT(get(store, "a") == 0);
        CU_ASSERT(weir_task_run(weir_durable_cancel_new(store, "b", NULL, NULL)) == -EROFS); /* its master may have it */
        CU_ASSERT(weir_task_run(weir_durable_reset_new(store, "b", HOUR, NULL, NULL)) == -EROFS);
        CU_ASSERT(weir_task_run(weir_durable_put_back_new(store, "b", NULL, NULL)) == -EROFS);
        CU_ASSERT(weir_task_run(weir_durable_forget_new(store, "b", NULL, NULL)) == -EROFS);
        redis_say(server.port, "REPLICAOF NO ONE");
        CU_ASSERT(put(store, "b", HOUR) == 0);
        end(store);
}

static void
a_server_that_forgets_scripts_gets_them_again(void)
{
        weir_durable *store = begin_really(NULL);
        atomic_int failed = 0;

        for (int round = 0; round < 20; round++) {
                for (int i = 0; i < 50; i++)
                        CU_ASSERT(weir_task_start(weir_durable_set_after_new(store, "a", HOUR, "topic", NULL, 0, NULL, NULL)) ==
                                  0);
                redis_say(server.port, "SCRIPT FLUSH");
                failed += put(store, "b", HOUR) != 0;
        }
        CU_ASSERT(failed == 0);
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

static void
a_server_that_is_not_there_is_told(void)
{
        weir_durable *store = begin_really(NULL);
        char nowhere[60];

        snprintf(nowhere, sizeof nowhere, "redis://127.0.0.1:%d", redis_free_port());
        weir_durable *other = weir_durable_open(nowhere);
        CU_ASSERT(put(other, "a", 0) == -ECONNREFUSED && strlen(problem) > 0);
        weir_durable_close(other);
        other = weir_durable_open("unix:///nowhere/redis.sock");
        CU_ASSERT(get(other, "a") == -ECONNREFUSED);
        weir_durable_close(other);
        CU_ASSERT(weir_durable_open("redis://") == NULL && errno == EINVAL);
        end(store);
}

/* -- rings -- */

static _Atomic int delivered;

static void
count_delivery(weir_task *delivery, void *context)
{
        (void)delivery;
        (void)context;
        delivered++;
}

/* The nodes look once in an hour, so only a ring can wake them. */
static void
other_stores_are_rung_also_after_a_reconnect(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.look = HOUR;
        weir_durable *store = begin_really(&config);
        weir_durable *other = weir_durable_open_with(&config, url);
        delivered = 0;
        CU_ASSERT(weir_durable_on(other, "topic", count_delivery, NULL) == 0);
        CU_ASSERT(weir_durable_on(store, "another", count_delivery, NULL) == 0);
        WEIR_TEST_EVENTUALLY(rings_of(other) == 1 && rings_of(store) == 1); /* they listen */
        CU_ASSERT(put(store, "a", 0) == 0);
        WEIR_TEST_EVENTUALLY(delivered == 1 && rings_of(other) == 2); /* its first look may be late, and find the timer before */
        CU_ASSERT(rings_of(store) == 1);                              /* nobody rings for itself */
        redis_say(server.port, "CLIENT KILL TYPE pubsub");
        CU_ASSERT(put(store, "b", 0) == 0);
        WEIR_TEST_EVENTUALLY(delivered == 2 && rings_of(store) >= 2);
        weir_durable_close(other);
        end(store);
}

static atomic_int refused; /* bits: subscriptions, receives */

int __real_weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel);
int __wrap_weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel);
weir_task *__real_weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context);
weir_task *__wrap_weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context);

int
__wrap_weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel)
{
        return atomic_load(&refused) & 1 ? -ENOMEM : __real_weir_redis_subscribe(subscription, channel);
}

weir_task *
__wrap_weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context)
{
        return atomic_load(&refused) & 2 ? NULL : __real_weir_channel_receive_new(channel, done, context);
}

/* A node without memory for its subscription is deaf until its next look. */
static void
rings_that_could_not_be_heard_are_heard_later(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.look = HOUR;
        for (int what = 1; what <= 2; what++) {
                weir_durable *store = begin_really(&config);
                weir_durable *other = weir_durable_open_with(&config, url);

                delivered = 0;
                atomic_store(&refused, what);
                CU_ASSERT(weir_durable_on(other, "topic", count_delivery, NULL) == 0);
                CU_ASSERT(put(other, "a", 0) == 0);
                WEIR_TEST_EVENTUALLY(delivered == 1);
                CU_ASSERT(rings_of(other) == 0);
                atomic_store(&refused, 0);
                CU_ASSERT(put(other, "b", 0) == 0);
                WEIR_TEST_EVENTUALLY(delivered == 2 && rings_of(other) == 1);
                CU_ASSERT(put(store, "c", 0) == 0);
                WEIR_TEST_EVENTUALLY(delivered == 3);
                weir_durable_close(other);
                end(store);
        }
}

static void
numbers_grow_also_when_all_was_lost(void)
{
        weir_durable *store = begin_really(NULL);

        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t former = seen.generation;
        redis_say(server.port, "FLUSHALL");
        CU_ASSERT(set(store, "a", HOUR, "x") == 0 && seen.generation > former);
        end(store);
}

/* -- kills -- */

#define MANY 3000

static struct life {
        _Atomic int set, cancelled; /* 1: so it was told */
        _Atomic int times;          /* delivered */
} lives[MANY];
static _Atomic int over, broken;

static void
note_set(weir_task *task, void *life)
{
        ((struct life *)life)->set = weir_task_status(task) == 0;
        broken += weir_task_status(task) != 0;
}

static void
note_cancel(weir_task *task, void *life)
{
        ((struct life *)life)->cancelled = weir_task_status(task) == 0 ? weir_durable_cancelled(task) : -1;
}

static void
note_over(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        over++;
}

static void
live(weir_task *delivery, void *context)
{
        (void)context;
        lives[atoi(weir_durable_payload(delivery, NULL))].times++;
}

/* A set and, for each third timer, a cancel that races with the delivery. */
static void
begin_life(weir_durable *store, int number)
{
        weir_series *series = weir_series_new(note_over, NULL);
        char name[20], text[20];

        snprintf(name, sizeof name, "life/%d", number);
        int size = snprintf(text, sizeof text, "%d", number);
        weir_series_push(series, weir_durable_set_after_new(store, name, WEIR_MSEC(number % 7), "life", text, (size_t)size,
                                                            note_set, &lives[number]));
        if (number % 3 == 0)
                weir_series_push(series, weir_durable_cancel_new(store, name, note_cancel, &lives[number]));
        CU_ASSERT(weir_series_start(series) == 0);
}

static bool
are_all_delivered(void)
{
        for (int i = 0; i < MANY; i++)
                if (lives[i].set && lives[i].cancelled == 0 && !lives[i].times)
                        return false;
        return true;
}

/* Each write is synced, so what was told is true after a kill. */
static void
a_killed_server_loses_nothing(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.lease = WEIR_SEC(1);
        config.look = WEIR_MSEC(200);
        config.attempts = 1000;
        weir_durable *stores[2] = {begin_really(&config), weir_durable_open_with(&config, url)};
        memset(lives, 0, sizeof lives);
        over = broken = 0;
        for (int i = 0; i < 2; i++)
                CU_ASSERT(weir_durable_on(stores[i], "life", live, NULL) == 0);
        for (int number = 0, before = 0; number < MANY; number++) {
                begin_life(stores[number % 2], number);
                if (number % 1000 == 500) {
                        WEIR_TEST_EVENTUALLY(over >= before + 300); /* the server is there, and has done something */
                        before = over;
                        redis_kill(&server, SIGKILL);
                        redis_restart(&server);
                }
        }
        WEIR_TEST_EVENTUALLY(over == MANY);
        WEIR_TEST_EVENTUALLY(are_all_delivered());
        int sets = 0, cancels = 0, both = 0;
        for (int i = 0; i < MANY; i++) {
                sets += lives[i].set;
                cancels += lives[i].cancelled == 1;
                both += lives[i].cancelled == 1 && lives[i].times;
        }
        CU_ASSERT(sets > MANY / 4 && cancels > 0 && both == 0);
        printf("%d sets, %d broken, %d cancels ", sets, broken, cancels);
        weir_durable_close(stores[1]);
        end(stores[0]);
}
