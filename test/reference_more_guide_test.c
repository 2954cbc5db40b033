/* test/reference_more_guide_test.c: more examples of the manual pages, as in test/reference_guide_test.c. */
#include "test/fixture.h"
#include "test/http_client.h"

#include <errno.h>

/* -- weir/clock.h -- */

static void
note_hour(weir_task *timer, void *hour)
{
        *(weir_nsec *)hour = weir_task_status(timer) == 0 ? weir_now() : 0;
}

static void
an_hour_takes_no_time(void)
{
        weir_nsec start = weir_now(), hour = 0;

        weir_task_start(weir_timer_new(WEIR_SEC(3600), note_hour, &hour));
        CU_ASSERT(weir_clock_advance(WEIR_SEC(3599)) == 0);
        CU_ASSERT(hour == 0);
        CU_ASSERT(weir_clock_run_until(start + WEIR_SEC(3600)) == 0);
        CU_ASSERT(hour == start + WEIR_SEC(3600));
        CU_ASSERT(weir_clock_set_wall(WEIR_WALL_EPOCH) == 0); /* somebody sets the wall clock back */
        CU_ASSERT(weir_wall_now() == WEIR_WALL_EPOCH);
}

/* -- weir/time.h -- */

static void
durations_are_nanoseconds(void)
{
        weir_nsec start = weir_now();

        weir_clock_advance(WEIR_MSEC(1500));
        CU_ASSERT(weir_now() - start == WEIR_SEC(1) + WEIR_USEC(500000));
        CU_ASSERT(WEIR_SEC(INT64_MAX) == WEIR_FOREVER);
}

/* -- weir/flow.h -- */

struct pages {
        int fetched, all;
};

static weir_task *
fetch_next(void *context)
{
        struct pages *pages = context;

        return pages->fetched++ < pages->all ? weir_timer_new(WEIR_SEC(1), NULL, NULL) : NULL;
}

static void
pages_are_fetched_within_a_limit(void)
{
        struct pages few = {.all = 3}, many = {.all = 100};

        CU_ASSERT(weir_task_run(weir_timeout_new(weir_repeater_new(fetch_next, NULL, &few), WEIR_SEC(10))) == 0);
        CU_ASSERT(weir_task_run(weir_timeout_new(weir_repeater_new(fetch_next, NULL, &many), WEIR_SEC(10))) == -ETIMEDOUT);
}

/* -- weir/parallel.h -- */

static void
a_parallel_waits_for_the_slowest(void)
{
        weir_nsec start = weir_now();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        weir_parallel_add_series(parallel, series);
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        weir_parallel_stop_on_failure(parallel); /* the first failure would cancel the others */
        CU_ASSERT(weir_task_run(parallel) == 0);
        CU_ASSERT(weir_now() - start == WEIR_SEC(3));
}

/* -- weir/race.h -- */

static void
see_winner(weir_task *race, void *winner)
{
        *(int *)winner = weir_race_winner(race);
}

static void
the_faster_of_two_wins(void)
{
        int winner = -1;
        weir_task *race = weir_race_new(see_winner, &winner);

        weir_race_add(race, weir_timer_new(WEIR_SEC(60), NULL, NULL)); /* is cancelled after a second */
        weir_race_add(race, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        CU_ASSERT(weir_task_run(race) == 0);
        CU_ASSERT(winner == 1);
}

/* -- weir/retry.h -- */

struct request {
        int failures; /* how many attempts fail */
        int attempts;
};

static void
ask(void *context)
{
        struct request *request = context;

        if (request->failures-- > 0) {
                weir_go_fail(-EIO);
        }
}

static weir_task *
make_attempt(void *context)
{
        return weir_go_new(NULL, ask, NULL, context);
}

static void
count_attempts(weir_task *retry, void *context)
{
        ((struct request *)context)->attempts = weir_retry_attempts(retry);
}

static void
the_third_attempt_succeeds(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;
        struct request request = {.failures = 2};

        config.attempts = 5;
        config.limit = WEIR_SEC(60);
        config.budget = weir_retry_budget_new(10, 3);
        CU_ASSERT(weir_task_run(weir_retry_new(&config, make_attempt, count_attempts, &request)) == 0);
        CU_ASSERT(request.attempts == 3);
        weir_retry_budget_free(config.budget);
}

/* -- weir/go.h -- */

static void
count_to_ten(void *count)
{
        while (*(int *)count < 10 && weir_go_cancelled() == 0) {
                *(int *)count += 1;
        }
}

static void
functions_of_a_queue_run_on_the_executor(void)
{
        struct weir_go_stats stats = WEIR_GO_STATS_DEFAULT;
        int first = 0, second = 0;

        CU_ASSERT(weir_task_run(weir_go_new("hashes", count_to_ten, NULL, &first)) == 0);
        CU_ASSERT(weir_task_run(weir_go_new_timed("hashes", WEIR_SEC(1), count_to_ten, NULL, &second)) == 0);
        CU_ASSERT(first == 10 && second == 10);
        CU_ASSERT(weir_go_queue_stats("hashes", &stats) == 0 && stats.queued == 0);
}

/* -- weir/waitgroup.h -- */

static void
one_is_done(weir_task *task, void *group)
{
        (void)task;
        weir_waitgroup_done(group);
}

static void
a_thread_waits_for_all(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        for (int i = 1; i <= 3; i++) {
                weir_waitgroup_add(group, 1); /* before the start */
                weir_task_start(weir_timer_new(WEIR_SEC(i), one_is_done, group));
        }
        CU_ASSERT(weir_waitgroup_wait(group, WEIR_SEC(2)) == -ETIMEDOUT);
        CU_ASSERT(weir_waitgroup_wait(group, WEIR_FOREVER) == 0);
        weir_waitgroup_free(group);
}

/* -- weir/log.h -- */

static void
keep_level(enum weir_log_level level, const char *message, void *context)
{
        (void)message; /* syslog(LOG_ERR + level, "%s", message), for example */
        *(enum weir_log_level *)context = level;
}

static void
messages_go_to_the_program(void)
{
        enum weir_log_level level = WEIR_LOG_INFO;

        CU_ASSERT(weir_log_set(keep_level, &level) == 0);
        CU_ASSERT(weir_task_start(weir_go_new(NULL, NULL, NULL, NULL)) == -EINVAL); /* without a function: the log says so */
        CU_ASSERT(level == WEIR_LOG_ERROR);
        weir_log_write(WEIR_LOG_INFO, "the pool has %d connections", 3);
        CU_ASSERT(level == WEIR_LOG_INFO);
        CU_ASSERT(weir_log_set(NULL, NULL) == 0); /* no call for `level` runs any more */
}

/* -- weir/stats.h -- */

static void
timers_were_punctual(void)
{
        struct weir_stats stats = WEIR_STATS_DEFAULT;
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        CU_ASSERT(weir_lateness_reset(WEIR_ALL_POLLERS, NULL) == 0);
        CU_ASSERT(weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL)) == 0);
        CU_ASSERT(weir_lateness(WEIR_ALL_POLLERS, &lateness) == 0);
        CU_ASSERT(lateness.count == 1 && lateness.p99 >= 0);
        CU_ASSERT(weir_stats(&stats) == 0 && stats.workers >= stats.pollers);
}

/* -- weir/trace.h -- */

static void
a_second_is_traced(void)
{
        CU_ASSERT(weir_trace_start("/dev/null") == 0); /* a file for https://ui.perfetto.dev */
        CU_ASSERT(weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL)) == 0);
        CU_ASSERT(weir_trace_stop() == 0); /* no event was left out */
}

/* -- weir/http_body.h -- */

static void
answer_in_two_pieces(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        weir_http_reply_length(exchange, 12);
        weir_series_push(series, weir_http_write_new(exchange, "hello ", 6, NULL, NULL));  /* begins the reply */
        weir_series_push(series, weir_http_write_new(exchange, "world\n", 6, NULL, NULL)); /* when that was taken */
}

/* -- weir/http_cookie.h -- */

static void
log_in(weir_task *exchange, void *context)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;

        (void)context;
        cookie.name = "__Host-session";
        cookie.value = "c2Vzc2lvbg";
        cookie.secure = 1;
        cookie.http_only = 1;
        cookie.max_age = WEIR_SEC(3600);
        CU_ASSERT(weir_http_reply_cookie(exchange, &cookie) == 0);
        weir_http_reply_text(exchange, 200, "welcome\n");
}

/* -- weir/http_file.h -- */

static void
send_file(weir_task *exchange, void *root)
{
        const char *path = weir_http_router_parameter(exchange, "path");

        CU_ASSERT(weir_http_reply_file(exchange, root, path) == -ENOENT); /* the reply is a 404 */
}

/* -- weir/http_debug.h, weir/http_router.h -- */

static void
route(weir_http_router *router)
{
        static struct weir_http_debug_config config = WEIR_HTTP_DEBUG_CONFIG_DEFAULT;

        config.allowed = "10.0.0.0/8"; /* besides this machine */
        weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, &config);
        weir_http_router_add(router, "GET", "/metrics", weir_http_debug, &config);
        weir_http_router_add(router, "GET", "/pieces", answer_in_two_pieces, NULL);
        weir_http_router_add(router, "POST", "/login", log_in, NULL);
        weir_http_router_add(router, "GET", "/files/{path...}", send_file, (void *)"/nonexistent");
}

/* -- weir/http_access.h -- */

static void
count_status(const struct weir_http_access *access, void *counts)
{
        atomic_fetch_add(&((_Atomic int *)counts)[access->status / 100], 1); /* on a thread of the server */
}

/* -- a server with all of these -- */

static int
status_of(struct http_client *client, const char *request, const char *body)
{
        struct http_reply reply = {0};

        http_ask(client, request, &reply);
        if (body) {
                CU_ASSERT_STRING_EQUAL(reply.body, body);
        }
        int status = reply.status;
        http_reply_done(&reply);
        return status;
}

static void
a_server_has_routes(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        weir_http_router *router = weir_http_router_new();
        struct http_client client;
        _Atomic int counts[6] = {0};

        route(router);
        config.on_access = count_status;
        config.access_context = counts;
        weir_http_server *server = http_server(&config, weir_http_router_handle, router);
        http_open(&client, weir_http_server_port(server));
        CU_ASSERT(status_of(&client, "GET /pieces HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello world\n") == 200);
        CU_ASSERT(status_of(&client, "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "welcome\n") == 200);
        CU_ASSERT(status_of(&client, "GET /files/a/b HTTP/1.1\r\nHost: localhost\r\n\r\n", NULL) == 404);
        CU_ASSERT(status_of(&client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", NULL) == 200);
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
        weir_http_router_free(router);
        CU_ASSERT(counts[2] == 3 && counts[4] == 1);
}

/* -- the suite -- */

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(an_hour_takes_no_time)
EXAMPLE(durations_are_nanoseconds)
EXAMPLE(pages_are_fetched_within_a_limit)
EXAMPLE(a_parallel_waits_for_the_slowest)
EXAMPLE(the_faster_of_two_wins)
EXAMPLE(the_third_attempt_succeeds)
EXAMPLE(functions_of_a_queue_run_on_the_executor)
EXAMPLE(a_thread_waits_for_all)
EXAMPLE(messages_go_to_the_program)
EXAMPLE(timers_were_punctual)
EXAMPLE(a_second_is_traced)
EXAMPLE(a_server_has_routes)

static const struct weir_test tests[] = {
        WEIR_TEST(run_an_hour_takes_no_time),
        WEIR_TEST(run_durations_are_nanoseconds),
        WEIR_TEST(run_pages_are_fetched_within_a_limit),
        WEIR_TEST(run_a_parallel_waits_for_the_slowest),
        WEIR_TEST(run_the_faster_of_two_wins),
        WEIR_TEST(run_the_third_attempt_succeeds),
        WEIR_TEST(run_functions_of_a_queue_run_on_the_executor),
        WEIR_TEST(run_a_thread_waits_for_all),
        WEIR_TEST(run_messages_go_to_the_program),
        WEIR_TEST(run_timers_were_punctual),
        WEIR_TEST(run_a_second_is_traced),
        WEIR_TEST(run_a_server_has_routes),
};

int
main(void)
{
        return weir_test_main("reference_more_guide", tests, sizeof tests / sizeof *tests);
}
