/* test/addon/reference_durable_guide_test.c: the examples of the reference for weir/durable.h, and those of docs/durable.md.
 *
 * They run on the virtual clock, with the engine in memory. */
#include "test/fixture.h"

#include <errno.h>
#include <inttypes.h>

#include <weir/durable.h>
#include <weir/weir.h>

static void
note_status(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
        if (weir_task_status(task))
                fprintf(stderr, "%s\n", weir_durable_problem(task));
}

/* -- weir/durable.h -- */

#define LIFETIME WEIR_SEC(1800)

/* What the program keeps of a session, in a database of its own. */
struct session {
        const char *name;
        bool has_ended;
        uint64_t token; /* of the delivery that has written it */
};

static struct session *
find_session(struct session *sessions, const char *name)
{
        while (strcmp(sessions->name, name) != 0)
                sessions++;
        return sessions;
}

static void
end_session(weir_task *delivery, void *context)
{
        struct session *session = find_session(context, weir_durable_name(delivery));
        size_t size;
        const char *user = weir_durable_payload(delivery, &size);

        if (weir_durable_token(delivery) <= session->token) { /* a later delivery has written */
                weir_series_fail(weir_series_of(delivery), -ESTALE);
                return;
        }
        printf("%s, of user %.*s, ends\n", session->name, (int)size, user);
        session->has_ended = true;
        session->token = weir_durable_token(delivery);
}

static weir_task *
begin_new(weir_durable *store, const char *session, const char *user)
{
        const char *topic = "session";
        size_t size = strlen(user);

        return weir_durable_set_after_new(store, session, LIFETIME, topic, user, size, NULL, NULL);
}

/* It has been used: its end is moved.  -ENOENT: it is over. */
static weir_task *
touch_new(weir_durable *store, const char *session)
{
        return weir_durable_reset_new(store, session, LIFETIME, NULL, NULL);
}

static void
a_session_ends_after_half_an_hour(void)
{
        struct session sessions[] = {{.name = "session/16"}, {.name = "session/17"}};

        weir_test_begin_virtual();
        weir_durable *store = weir_durable_open("memory:sessions");
        CU_ASSERT(weir_durable_on(store, "session", end_session, sessions) == 0);
        weir_task_start(begin_new(store, "session/17", "ann"));
        weir_clock_advance(WEIR_SEC(1000));
        CU_ASSERT(weir_task_run(touch_new(store, "session/17")) == 0);
        weir_clock_advance(WEIR_SEC(1799));
        CU_ASSERT(!sessions[1].has_ended);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(sessions[1].has_ended && !sessions[0].has_ended);
        CU_ASSERT(weir_task_run(touch_new(store, "session/17")) == -ENOENT);
        weir_durable_close(store);
        weir_test_end();
}

static void
note_cancel(weir_task *cancel, void *cancelled)
{
        *(int *)cancelled = weir_durable_cancelled(cancel); /* 1: it will not be delivered */
}

static void
a_timer_is_set_moved_and_cancelled(void)
{
        int status = 1, cancelled = 0;

        weir_test_begin_virtual();
        weir_durable *store = weir_durable_open("memory:");
        CU_ASSERT(store == NULL && errno == EINVAL); /* the name is missing */
        store = weir_durable_open("memory:timers");
        weir_task_run(
                weir_durable_set_new(store, "reminder", WEIR_WALL_EPOCH + WEIR_SEC(3600), "mail", NULL, 0, note_status, &status));
        CU_ASSERT(status == 0);
        weir_task_run(weir_durable_extend_new(store, "reminder", WEIR_SEC(600), note_status, &status));
        CU_ASSERT(status == 0);
        weir_task_run(weir_durable_reset_new(store, "reminder", WEIR_SEC(60), note_status, &status));
        CU_ASSERT(status == 0);
        weir_task_run(weir_durable_cancel_new(store, "reminder", note_cancel, &cancelled));
        CU_ASSERT(cancelled == 1);
        weir_durable_close(store);
        weir_test_end();
}

static void
print_timers(weir_task *list, void *count)
{
        const struct weir_durable_info *info;

        for (size_t i = 0; (info = weir_durable_info(list, i)) != NULL; i++) {
                printf("%s: generation %" PRIu64 ", attempt %u, %s\n", info->name, info->generation, info->attempt,
                       info->problem);
                ++*(int *)count;
        }
}

static void
note_count(weir_task *task, void *count)
{
        *(uint64_t *)count = weir_durable_counted(task, WEIR_DURABLE_PENDING);
}

static int attempts;

static void
fail(weir_task *delivery, void *context)
{
        (void)context;
        attempts = (int)weir_durable_attempt(delivery);
        weir_series_fail(weir_series_of(delivery), -EIO);
}

static void
what_fails_is_tried_again_and_then_dead(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;
        uint64_t pending = 0;
        int count = 0, dead = 0, status = 1;

        weir_test_begin_virtual();
        config.attempts = 3;
        config.node = "a node";
        weir_durable *store = weir_durable_open_with(&config, "memory:mails");
        weir_task_run(weir_durable_set_after_new(store, "mail/1", 0, "mail", NULL, 0, NULL, NULL));
        weir_task_run(weir_durable_set_after_new(store, "mail/2", WEIR_SEC(3600), "mail", NULL, 0, NULL, NULL));
        weir_durable_on(store, "mail", fail, NULL);
        weir_clock_advance(WEIR_SEC(60));
        CU_ASSERT(attempts == 3);

        weir_task_run(weir_durable_list_new(store, "mail/", NULL, 100, print_timers, &count));
        weir_task_run(weir_durable_dead_new(store, "", NULL, 100, print_timers, &dead));
        weir_task_run(weir_durable_count_new(store, "mail/", note_count, &pending));
        CU_ASSERT(count == 2 && dead == 1 && pending == 1);
        CU_ASSERT(weir_durable_stats(store, &stats) == 0 && stats.retried == 2 && stats.dead == 1);
        CU_ASSERT(weir_durable_metrics_write(STDOUT_FILENO) == 0);
        weir_metrics_add(weir_durable_metrics_write); /* once; then they are on /metrics */

        weir_task_run(weir_durable_put_back_new(store, "mail/1", note_status, &status));
        weir_clock_advance(0);
        CU_ASSERT(status == 0 && attempts == 1);
        weir_clock_advance(WEIR_SEC(60));
        weir_task_run(weir_durable_forget_new(store, "mail/1", note_status, &status));
        CU_ASSERT(status == 0);
        count = 0;
        weir_task_run(weir_durable_get_new(store, "mail/2", print_timers, &count));
        CU_ASSERT(count == 1);
        weir_durable_close(store);
        weir_test_end();
}

static void
write_report(weir_task *delivery, void *reports)
{
        printf("%s of topic %s, generation %" PRIu64 ", was due at %" PRId64 ", %u were missed\n", weir_durable_name(delivery),
               weir_durable_topic(delivery), weir_durable_generation(delivery), weir_durable_due(delivery),
               weir_durable_missed(delivery));
        ++*(int *)reports;
}

static weir_task *
nightly_new(weir_durable *store, enum weir_durable_missed_policy missed, weir_task_fn *done, void *context)
{
        const char *cron = "30 4 * * *", *zone = "Europe/Berlin", *topic = "report";

        return weir_durable_schedule_new(store, "nightly", cron, zone, missed, topic, NULL, 0, done, context);
}

static void
a_report_is_written_each_night(void)
{
        int status = 1, reports = 0;

        weir_test_begin_virtual();
        weir_durable *store = weir_durable_open("memory:reports");
        weir_durable_on(store, "report", write_report, &reports);
        weir_task_run(nightly_new(store, WEIR_DURABLE_ONCE, note_status, &status));
        CU_ASSERT(status == 0);
        weir_clock_advance(WEIR_SEC(3 * 86400));
        CU_ASSERT(reports == 3);
        weir_durable_close(store);
        weir_test_end();
}

/* A client that shows the right word may read the timers from elsewhere, too. */
static void
on_timers(weir_task *exchange, void *store)
{
        const char *word = weir_http_query_value(exchange, "word");

        if (word && strcmp(word, "sesame") == 0)
                weir_durable_page_trusted(exchange, store);
        else
                weir_http_reply_status(exchange, 403);
}

static void
note_reply(weir_task *get, void *status)
{
        *(int *)status = weir_http_response_status(get);
}

static void
the_timers_are_on_a_page(void)
{
        int local = 0, elsewhere = 0;
        char url[60];

        weir_test_begin_real(2);
        weir_durable *store = weir_durable_open("memory:timers");
        weir_http_router *router = weir_http_router_new();
        weir_http_router_add(router, "GET", "/debug/timers", weir_durable_page, store);
        weir_http_router_add(router, "GET", "/timers", on_timers, store);
        weir_http_server *server = weir_http_server_new(NULL, weir_http_router_handle, router);
        CU_ASSERT(weir_http_server_start(server, "127.0.0.1:0") == 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/debug/timers", weir_http_server_port(server));
        weir_task_run(weir_http_get_new(url, note_reply, &local));
        snprintf(url, sizeof url, "http://127.0.0.1:%d/timers?word=sesame", weir_http_server_port(server));
        weir_task_run(weir_http_get_new(url, note_reply, &elsewhere));
        CU_ASSERT(local == 200 && elsewhere == 200);
        weir_http_server_stop(server, WEIR_SEC(1)); /* before the store is closed */
        weir_http_server_free(server);
        weir_http_router_free(router);
        weir_durable_close(store);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_session_ends_after_half_an_hour),
                WEIR_TEST(a_timer_is_set_moved_and_cancelled),
                WEIR_TEST(what_fails_is_tried_again_and_then_dead),
                WEIR_TEST(a_report_is_written_each_night),
                WEIR_TEST(the_timers_are_on_a_page),
        };

        return weir_test_main("reference: durable timers", tests, sizeof tests / sizeof *tests);
}
