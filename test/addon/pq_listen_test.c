/* test/addon/pq_listen_test.c: notifications: what a listener gets, what it may have missed, and how it listens again. */
#include "test/addon/pq_server.h"

static int
backends(void)
{
        return atoi(server_ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pq_listen_test'"));
}

static void
end_backends(void)
{
        server_ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pq_listen_test'");
}

/* The next event, after at most the patience of tests. */
static weir_pq_event *
take(weir_channel *events)
{
        void *event = NULL;

        WEIR_TEST_EVENTUALLY(weir_channel_poll(events, &event) == 0);
        return event;
}

/* "name=payload", with "+" for NULL, and "!" behind it if something was missed. */
static const char *
next(weir_channel *events)
{
        static char text[256];
        weir_pq_event *event = take(events);
        const char *payload = weir_pq_event_payload(event);

        snprintf(text, sizeof text, "%s=%s%s", weir_pq_event_name(event), payload ? payload : "+",
                 weir_pq_event_missed(event) ? "!" : "");
        CU_ASSERT_EQUAL(weir_pq_event_process(event) > 0, payload != NULL);
        weir_pq_event_free(event);
        return text;
}

static void
a_listener_gets_notifications(void)
{
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(10);
        weir_pq_listener *listener = weir_pq_listen(pool, "Orders \"of\" today", events);
        CU_ASSERT_PTR_NOT_NULL_FATAL(listener);
        CU_ASSERT_STRING_EQUAL(next(events), "Orders \"of\" today=+");
        server_ask("NOTIFY \"Orders \"\"of\"\" today\", 'seven'");
        CU_ASSERT_STRING_EQUAL(next(events), "Orders \"of\" today=seven");
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "NOTIFY \"Orders \"\"of\"\" today\"", NULL, NULL)), 0);
        CU_ASSERT_STRING_EQUAL(next(events), "Orders \"of\" today=");
        weir_pq_unlisten(listener);
        CU_ASSERT_EQUAL(weir_channel_length(events), 0);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
listeners_share_a_connection(void)
{
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(10), *others = weir_pq_events_new(10);
        weir_pq_listener *one = weir_pq_listen(pool, "a", events);
        CU_ASSERT_STRING_EQUAL(next(events), "a=+");
        weir_pq_listener *second = weir_pq_listen(pool, "a", others), *third = weir_pq_listen(pool, "b", events);
        CU_ASSERT_STRING_EQUAL(next(others), "a=+");
        CU_ASSERT_STRING_EQUAL(next(events), "b=+");
        server_ask("NOTIFY a, '1'");
        server_ask("NOTIFY b, '2'");
        CU_ASSERT_STRING_EQUAL(next(events), "a=1");
        CU_ASSERT_STRING_EQUAL(next(events), "b=2");
        CU_ASSERT_STRING_EQUAL(next(others), "a=1");
        weir_pq_unlisten(one);
        server_ask("NOTIFY a, '3'");
        CU_ASSERT_STRING_EQUAL(next(others), "a=3");
        weir_pq_unlisten(second);
        second = weir_pq_listen(pool, "a", others); /* while UNLISTEN is on its way */
        CU_ASSERT_PTR_NOT_NULL(strstr(next(others), "a=+"));
        weir_pq_unlisten(third);
        WEIR_TEST_EVENTUALLY(backends() == 1);
        weir_pq_unlisten(second);
        WEIR_TEST_EVENTUALLY(backends() == 0);
        weir_channel_unref(events);
        weir_channel_unref(others);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
it_listens_again_behind_a_lost_connection(void)
{
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(1, 0, true);
        weir_channel *events = weir_pq_events_new(10);
        weir_pq_listener *listener = weir_pq_listen(pool, "a", events);
        CU_ASSERT_STRING_EQUAL(next(events), "a=+");
        end_backends();
        CU_ASSERT_STRING_EQUAL(next(events), "a=+!");
        server_ask("NOTIFY a, '1'");
        CU_ASSERT_STRING_EQUAL(next(events), "a=1");
        server_kill();
        server_start();
        CU_ASSERT_STRING_EQUAL(next(events), "a=+!");
        server_ask("NOTIFY a, '2'");
        CU_ASSERT_STRING_EQUAL(next(events), "a=2");
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
it_listens_when_the_server_comes(void)
{
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        server_stop();
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(10);
        weir_pq_listener *listener = weir_pq_listen(pool, "a", events);
        struct weir_pq_stats stats = WEIR_PQ_STATS_DEFAULT;
        WEIR_TEST_EVENTUALLY(weir_pq_stats(pool, &stats) == 0 && stats.refused >= 2);
        server_start();
        CU_ASSERT_STRING_EQUAL(next(events), "a=+");
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_full_channel_loses_events_and_says_so(void)
{
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(2), *others = weir_pq_events_new(WEIR_UNBOUNDED);
        weir_pq_listener *listener = weir_pq_listen(pool, "a", events), *other = weir_pq_listen(pool, "a", others);
        CU_ASSERT_STRING_EQUAL(next(others), "a=+");
        CU_ASSERT_STRING_EQUAL(next(events), "a=+");
        for (int i = 0; i < 5; i++) {
                char sql[64];

                snprintf(sql, sizeof sql, "NOTIFY a, '%d'", i);
                server_ask(sql);
                next(others);
        }
        WEIR_TEST_EVENTUALLY(weir_channel_length(events) == 2);
        CU_ASSERT_STRING_EQUAL(next(events), "a=0");
        CU_ASSERT_STRING_EQUAL(next(events), "a=1");
        server_ask("NOTIFY a, 'x'");
        CU_ASSERT_STRING_EQUAL(next(events), "a=x!");
        server_ask("NOTIFY a, 'y'");
        CU_ASSERT_STRING_EQUAL(next(events), "a=y");
        weir_channel_close(events);
        server_ask("NOTIFY a, 'z'");
        weir_pq_unlisten(listener);
        weir_pq_unlisten(other);
        weir_channel_unref(events);
        weir_channel_unref(others);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
many_notifications_come_in_order(void)
{
        enum { COUNT = 20000 };

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, true);
        weir_channel *events = weir_pq_events_new(WEIR_UNBOUNDED);
        weir_pq_listener *listener = weir_pq_listen(pool, "a", events);
        CU_ASSERT_STRING_EQUAL(next(events), "a=+");
        server_ask("SELECT count(pg_notify('a', n::text)) FROM generate_series(1, 20000) AS n");
        unsigned wrong = 0;
        for (int i = 1; i <= COUNT; i++) {
                weir_pq_event *event = take(events);

                wrong += atoi(weir_pq_event_payload(event)) != i;
                weir_pq_event_free(event);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

/* Listeners that come and go while the connection does. */
static void
listeners_come_and_go(void)
{
        struct weir_test_random random = {weir_test_seed()};
        weir_pq_listener *listeners[8] = {NULL};

        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(100);
        for (unsigned i = 0; i < 400; i++) {
                unsigned at = (unsigned)weir_test_random_below(&random, 8);
                char name[8];

                snprintf(name, sizeof name, "n%u", at % 3);
                weir_pq_unlisten(listeners[at]);
                listeners[at] = weir_test_random_below(&random, 3) > 0 ? weir_pq_listen(pool, name, events) : NULL;
                if (i % 50 == 0)
                        end_backends();
                weir_task_start(weir_pq_query_new(pool, "NOTIFY n1", NULL, NULL));
        }
        for (unsigned i = 0; i < 8; i++)
                weir_pq_unlisten(listeners[i]);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
bad_input_is_answered(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(1);
        CU_ASSERT_PTR_NULL(weir_pq_listen(NULL, "a", events));
        CU_ASSERT_EQUAL(errno, ENOMEM);
        CU_ASSERT_PTR_NULL(weir_pq_listen(pool, "", events));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_pq_listen(pool, NULL, events));
        CU_ASSERT_PTR_NULL(weir_pq_listen(pool, "a", NULL));
        weir_pq_listener *listener = weir_pq_listen(pool, "a", events);
        weir_pq_close(pool);
        CU_ASSERT_PTR_NULL(weir_pq_listen(pool, "a", events));
        CU_ASSERT_EQUAL(errno, EPIPE);
        weir_pq_unlisten(listener);
        weir_pq_unlisten(NULL);
        CU_ASSERT(!weir_pq_event_name(NULL) && !weir_pq_event_payload(NULL));
        CU_ASSERT(weir_pq_event_process(NULL) == 0 && weir_pq_event_missed(NULL) == 0);
        weir_pq_event_free(NULL);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- names that are odd -- */

static _Atomic unsigned warnings;

static void
count_warnings(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        warnings += level == WEIR_LOG_WARNING && strstr(message, "invalid byte sequence");
}

static void
the_server_would_cut_a_long_name(void)
{
        char name[65] = "";

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(10);
        memset(name, 'n', 64);
        CU_ASSERT_PTR_NULL(weir_pq_listen(pool, name, events));
        CU_ASSERT_EQUAL(errno, ENAMETOOLONG);
        name[63] = '\0';
        weir_pq_listener *listener = weir_pq_listen(pool, name, events);
        weir_pq_event_free(take(events)); /* it listens */
        char notify[80];
        snprintf(notify, sizeof notify, "NOTIFY %s, 'long'", name);
        server_ask(notify);
        weir_pq_event *event = take(events);
        CU_ASSERT_STRING_EQUAL(weir_pq_event_payload(event), "long");
        weir_pq_event_free(event);
        weir_pq_unlisten(listener);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_test_end();
}

/* The server is asked once for each connection, and the log has its words. */
static void
a_name_that_the_server_refuses_is_in_the_log(void)
{
        warnings = 0;
        weir_test_begin_real(2);
        weir_log_set(count_warnings, NULL);
        weir_pq *pool = server_pool(1, 0, false);
        weir_channel *events = weir_pq_events_new(10);
        weir_pq_listener *refused = weir_pq_listen(pool, "\xff", events), *other = weir_pq_listen(pool, "other", events);
        CU_ASSERT_STRING_EQUAL(next(events), "other=+");
        WEIR_TEST_EVENTUALLY(warnings == 1);
        for (int i = 0; i < 3; i++) {
                weir_waitgroup *group = weir_waitgroup_new();

                for (int j = 0; j < 10; j++)
                        weir_task_start_waited(weir_pq_query_new(pool, "SELECT 1", NULL, NULL), group);
                weir_waitgroup_wait(group, WEIR_FOREVER);
                weir_waitgroup_free(group);
        }
        CU_ASSERT_EQUAL(server_stats(pool).queries, 32);
        CU_ASSERT_EQUAL(warnings, 1);
        end_backends();
        CU_ASSERT_STRING_EQUAL(next(events), "other=+!");
        WEIR_TEST_EVENTUALLY(warnings == 2);
        weir_pq_unlisten(refused);
        weir_pq_unlisten(other);
        weir_channel_unref(events);
        weir_pq_unref(pool);
        weir_log_set(NULL, NULL);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_listener_gets_notifications),
                WEIR_TEST(listeners_share_a_connection),
                WEIR_TEST(it_listens_again_behind_a_lost_connection),
                WEIR_TEST(it_listens_when_the_server_comes),
                WEIR_TEST(a_full_channel_loses_events_and_says_so),
                WEIR_TEST(many_notifications_come_in_order),
                WEIR_TEST(listeners_come_and_go),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(the_server_would_cut_a_long_name),
                WEIR_TEST(a_name_that_the_server_refuses_is_in_the_log),
        };

        return server_main("pq_listen", tests, sizeof tests / sizeof *tests);
}
