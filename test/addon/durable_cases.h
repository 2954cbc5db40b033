/* test/addon/durable_cases.h: durable timers on the virtual clock, for each engine: the states of a timer, leases, retries, dead
 * timers and schedules.  A suite defines ENGINE_URL(number), which writes the URL of a fresh database to `url`, and
 * includes this.  It may have tests of its own: MORE_TESTS. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>

#include "test/support.h"

#define HOUR WEIR_SEC(3600)

static char url[240];

#ifndef MORE_TESTS
#define MORE_TESTS
#endif

static void
begin(void)
{
        static int number;
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        ENGINE_URL(number++);
}

static weir_durable *
open_store(void)
{
        weir_durable *store = weir_durable_open(url);

        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        return store;
}

static void
end(weir_durable *store)
{
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* What the callback of an operation has seen. */
static struct seen {
        int status;
        int cancelled;
        uint64_t generation;
        uint64_t counted[3];
        char names[1000];
        char problem[100];
        struct weir_durable_info info;
} seen;

static void
look(weir_task *task, void *context)
{
        const struct weir_durable_info *info;

        (void)context;
        memset(&seen, 0, sizeof seen);
        seen.status = weir_task_status(task);
        seen.cancelled = weir_durable_cancelled(task);
        seen.generation = weir_durable_generation(task);
        for (int state = 0; state < 3; state++)
                seen.counted[state] = weir_durable_counted(task, (enum weir_durable_state)state);
        for (size_t i = 0; (info = weir_durable_info(task, i)) != NULL; i++) {
                strcat(strcat(seen.names, i ? " " : ""), info->name);
                if (i == 0) {
                        seen.info = *info;
                        snprintf(seen.problem, sizeof seen.problem, "%s", info->problem);
                }
        }
}

static int
set(weir_durable *store, const char *name, weir_nsec after, const char *payload)
{
        return weir_task_run(weir_durable_set_after_new(store, name, after, "topic", payload, strlen(payload), look, NULL));
}

static int
cancel(weir_durable *store, const char *name)
{
        weir_task_run(weir_durable_cancel_new(store, name, look, NULL));
        CU_ASSERT(seen.status == 0);
        return seen.cancelled;
}

static int
get(weir_durable *store, const char *name)
{
        return weir_task_run(weir_durable_get_new(store, name, look, NULL));
}

/* What a handler has got. */
static struct deliveries {
        int count;
        int failures;     /* so many attempts fail */
        weir_nsec takes;  /* how long each one takes */
        weir_nsec at[64]; /* on the wall */
        weir_nsec due[64];
        unsigned attempt[64], missed[64];
        uint64_t token[64], generation[64];
        char payload[64][16];
        int ended;
        int status[64];
} got;

static void
on_end(weir_task *timer, void *context)
{
        (void)context;
        got.status[got.ended++] = weir_task_status(timer);
}

static void
take(weir_task *delivery, void *context)
{
        int i = got.count++;
        size_t size;

        CU_ASSERT(context == &got && weir_task_status(delivery) == 0);
        CU_ASSERT_STRING_EQUAL(weir_durable_topic(delivery), "topic");
        got.at[i] = weir_wall_now();
        got.due[i] = weir_durable_due(delivery);
        got.attempt[i] = weir_durable_attempt(delivery);
        got.missed[i] = weir_durable_missed(delivery);
        got.token[i] = weir_durable_token(delivery);
        got.generation[i] = weir_durable_generation(delivery);
        snprintf(got.payload[i], sizeof got.payload[i], "%s", (const char *)weir_durable_payload(delivery, &size));
        CU_ASSERT(size == strlen(got.payload[i]));
        if (i < got.failures)
                weir_series_fail(weir_series_of(delivery), -EIO);
        else if (got.takes)
                weir_series_push(weir_series_of(delivery), weir_timer_new(got.takes, on_end, NULL));
}

static void
listen(weir_durable *store)
{
        memset(&got, 0, sizeof got);
        CU_ASSERT(weir_durable_on(store, "topic", take, &got) == 0);
        CU_ASSERT(weir_durable_on(store, "topic", take, &got) == -EEXIST);
}

static void
a_timer_is_delivered_when_it_is_due(void)
{
        begin();
        weir_durable *store = open_store();
        weir_nsec began = weir_wall_now();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "hello") == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(generation > 0);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "b", began + 2 * HOUR, "topic", NULL, 0, look, NULL)) == 0);
        CU_ASSERT(seen.generation > generation);
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.at[0] == began + HOUR && got.due[0] == began + HOUR);
        CU_ASSERT(got.attempt[0] == 1 && got.token[0] > generation && got.generation[0] == generation);
        CU_ASSERT_STRING_EQUAL(got.payload[0], "hello");
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 2 && got.at[1] == began + 2 * HOUR);
        CU_ASSERT_STRING_EQUAL(got.payload[1], "");
        CU_ASSERT(get(store, "a") == -ENOENT && get(store, "b") == -ENOENT);
        end(store);
}

static void
a_timer_of_the_past_is_due_at_once(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", -HOUR, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(set(store, "b", WEIR_FOREVER, "x") == 0);
        weir_clock_advance(24 * HOUR);
        CU_ASSERT(got.count == 1 && cancel(store, "b") == 1);
        end(store);
}

static void
a_cancel_before_the_claim_decides(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(cancel(store, "a") == 0);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(cancel(store, "a") == 1 && seen.generation == generation);
        CU_ASSERT(cancel(store, "a") == 0 && seen.generation == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 0);
        end(store);
}

static void
a_cancel_behind_the_claim_changes_nothing(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && cancel(store, "a") == 0);
        CU_ASSERT(get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_LEASED && seen.info.attempt == 1);
        weir_clock_advance(HOUR);
        CU_ASSERT(got.ended == 1 && got.status[0] == 0 && get(store, "a") == -ENOENT);

        got.takes = 0;
        got.failures = 2; /* the next one */
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 2 && cancel(store, "a") == 0); /* it waits for its next attempt */
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 3 && got.attempt[2] == 2);
        end(store);
}

static void
a_set_makes_a_new_generation(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "old") == 0);
        uint64_t former = seen.generation;
        CU_ASSERT(set(store, "a", 2 * HOUR, "new") == 0);
        CU_ASSERT(seen.generation > former);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.generation[0] > former);
        CU_ASSERT_STRING_EQUAL(got.payload[0], "new");
        end(store);
}

static void
a_handler_of_a_former_generation_ends_nothing(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        begin();
        weir_durable *store = open_store();
        listen(store);
        got.takes = WEIR_SEC(5);
        CU_ASSERT(set(store, "a", 1, "old") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(set(store, "a", WEIR_SEC(60), "new") == 0);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT(got.ended == 1 && get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 2);
        CU_ASSERT_STRING_EQUAL(got.payload[1], "new");
        weir_clock_advance(WEIR_SEC(5));
        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        CU_ASSERT(stats.claimed == 2 && stats.acknowledged == 1 && stats.lost == 1 && stats.running == 0);
        end(store);
}

static void
a_renewal_that_is_refused_ends_the_flow(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "old") == 0);
        weir_clock_advance(1);
        CU_ASSERT(set(store, "a", WEIR_FOREVER, "new") == 0);
        weir_clock_advance(WEIR_SEC(11)); /* a third of the lease */
        CU_ASSERT(got.ended == 1 && got.status[0] == -ECANCELED);
        CU_ASSERT(cancel(store, "a") == 1);
        end(store);
}

static void
a_lease_is_renewed_while_the_handler_runs(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);

        listen(store);
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 1 && got.ended == 0);
        weir_clock_advance(2);
        CU_ASSERT(got.count == 1 && got.ended == 1 && got.status[0] == 0 && get(store, "a") == -ENOENT);
        weir_durable_close(other);
        end(store);
}

static void
a_failure_is_retried_later_each_time(void)
{
        begin();
        weir_durable *store = open_store();
        weir_nsec began = weir_wall_now();

        listen(store);
        got.failures = 3;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 1);
        CU_ASSERT_STRING_EQUAL(seen.problem, weir_strerror(-EIO));
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 4 && got.attempt[3] == 4);
        CU_ASSERT(got.at[1] == began + WEIR_SEC(1) && got.at[2] == began + WEIR_SEC(3) && got.at[3] == began + WEIR_SEC(7));
        CU_ASSERT(got.token[3] > got.token[2] && got.token[2] > got.token[1] && got.generation[3] == got.generation[0]);
        CU_ASSERT(get(store, "a") == -ENOENT);
        end(store);
}

static void
a_timer_is_dead_after_its_attempts(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        begin();
        weir_durable *store = open_store();
        listen(store);
        got.failures = 11;
        CU_ASSERT(set(store, "a/1", 0, "x") == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 10);
        CU_ASSERT(set(store, "a/2", HOUR, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_dead_new(store, "a/", NULL, 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/1");
        CU_ASSERT(weir_task_run(weir_durable_count_new(store, "a/", look, NULL)) == 0);
        CU_ASSERT(seen.counted[WEIR_DURABLE_PENDING] == 1 && seen.counted[WEIR_DURABLE_DEAD] == 1);
        CU_ASSERT(cancel(store, "a/1") == 0);
        CU_ASSERT(weir_task_run(weir_durable_put_back_new(store, "a/2", look, NULL)) == -ENOENT && seen.generation == 0);
        CU_ASSERT(weir_task_run(weir_durable_put_back_new(store, "a/1", look, NULL)) == 0);
        uint64_t generation = seen.generation;
        weir_clock_advance(0);
        CU_ASSERT(got.count == 11 && got.attempt[10] == 1 && generation > got.generation[9] && got.generation[10] == generation);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 12 && get(store, "a/1") == -ENOENT);
        CU_ASSERT(weir_durable_stats(store, &stats) == 0 && stats.dead == 1 && stats.retried == 10 && stats.acknowledged == 1);

        got.failures = 100;
        CU_ASSERT(set(store, "a/1", 0, "x") == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(weir_task_run(weir_durable_forget_new(store, "a/1", look, NULL)) == 0);
        CU_ASSERT(get(store, "a/1") == -ENOENT);
        CU_ASSERT(weir_task_run(weir_durable_forget_new(store, "a/1", look, NULL)) == -ENOENT);
        end(store);
}

static void
an_extension_moves_the_due_time(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == 0);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", -HOUR / 2, look, NULL)) == 0);
        weir_clock_advance(HOUR / 2);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == -ENOENT);
        CU_ASSERT(weir_task_run(weir_durable_reset_new(store, "a", HOUR, look, NULL)) == -ENOENT);
        end(store);
}

static void
a_reset_begins_the_time_anew(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t generation = seen.generation;
        for (int i = 0; i < 10; i++) {
                weir_clock_advance(HOUR - 1);
                CU_ASSERT(weir_task_run(weir_durable_reset_new(store, "a", HOUR, look, NULL)) == 0);
                CU_ASSERT_STRING_EQUAL(seen.names, "a");
                CU_ASSERT(seen.info.generation == generation && seen.info.due == weir_wall_now() + HOUR);
        }
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.generation[0] == generation);
        end(store);
}

static void
a_list_has_the_order_of_the_names_and_goes_on_behind_one(void)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT(set(store, "b", HOUR, "x") == 0 && set(store, "a/2", HOUR, "x") == 0 && set(store, "a/1", HOUR, "x") == 0);
        CU_ASSERT(set(store, "a0", HOUR, "x") == 0 && set(store, "a", HOUR, "x") == 0 && set(store, "\xff\xff", 1, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "", NULL, 100, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a a/1 a/2 a0 b \xff\xff");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "a/", NULL, 1, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/1");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "a/", "a/1", 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/2");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "\xff", NULL, 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "\xff\xff");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, NULL, NULL, 10, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "", NULL, 0, look, NULL)) == -EINVAL);
        end(store);
}

static void
what_is_wrong_is_told(void)
{
        char large[WEIR_DURABLE_NAME_MAX + 2] = "";

        begin();
        weir_durable *store = open_store();
        memset(large, 'x', sizeof large - 1);
        CU_ASSERT(weir_durable_open("nonsense") == NULL && errno == EINVAL);
        CU_ASSERT(weir_durable_open(NULL) == NULL && errno == EINVAL);
        CU_ASSERT(weir_durable_open("oracle:x") == NULL && errno == EPROTONOSUPPORT);
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        config.lease = 1;
        CU_ASSERT(weir_durable_open_with(&config, url) == NULL && errno == EINVAL);
        config.lease = 0;
        config.look = 1; /* it would look all the time */
        CU_ASSERT(weir_durable_open_with(&config, url) == NULL && errno == EINVAL);
        CU_ASSERT(set(store, "", 0, "x") == -EINVAL);
        CU_ASSERT(set(store, large, 0, "x") == -ENAMETOOLONG);
        CU_ASSERT(set(NULL, "a", 0, "x") == -ENOMEM);
        CU_ASSERT(set(store, "y", WEIR_FOREVER, "x") == 0); /* behind the prefix that is too long */
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, large, NULL, 9, look, NULL)) == -ENAMETOOLONG);
        CU_ASSERT_STRING_EQUAL(seen.names, "");
        CU_ASSERT(weir_task_run(weir_durable_count_new(store, large, look, NULL)) == -ENAMETOOLONG);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, large + 1, NULL, 9, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "");
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, NULL, NULL, 0, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, "t", NULL, 1, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, "t", "", WEIR_DURABLE_PAYLOAD_MAX + 1, look, NULL)) ==
                  -EMSGSIZE);
        CU_ASSERT(weir_durable_on(store, "", take, NULL) == -EINVAL && weir_durable_on(store, "t", NULL, NULL) == -EINVAL);
        CU_ASSERT(weir_durable_on(NULL, "t", take, NULL) == -ENOMEM &&
                  weir_durable_on(store, large, take, NULL) == -ENAMETOOLONG);
        weir_task *task = weir_timer_new(0, NULL, NULL);
        CU_ASSERT(weir_durable_cancelled(task) == 0 && weir_durable_info(task, 0) == NULL && weir_durable_name(task) == NULL);
        CU_ASSERT(weir_durable_generation(task) == 0 && weir_durable_payload(task, NULL) == NULL);
        CU_ASSERT_STRING_EQUAL(weir_durable_problem(task), "");
        weir_task_dismiss(task);
        weir_task_dismiss(weir_durable_cancel_new(store, "a", look, NULL));
        weir_durable_close(NULL);
        end(store);
}

#ifdef NOWHERE_URL
static void
note_status(weir_task *task, void *status)
{
        atomic_store((atomic_int *)status, weir_task_status(task));
}

/* An engine that is not there is another thing than a timer that is not.  On the real clock: it tries for a while. */
static void
no_engine_is_not_no_timer(void)
{
        static atomic_int status[6];

        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        weir_durable *store = weir_durable_open_with(NULL, NOWHERE_URL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT(weir_task_start(weir_durable_get_new(store, "a", note_status, &status[0])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_reset_new(store, "a", 0, note_status, &status[1])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_extend_new(store, "a", 0, note_status, &status[2])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_put_back_new(store, "a", note_status, &status[3])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_forget_new(store, "a", note_status, &status[4])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_cancel_new(store, "a", note_status, &status[5])) == 0);
        for (int i = 0; i < 6; i++) {
                WEIR_TEST_EVENTUALLY(atomic_load(&status[i]) != 0);
                CU_ASSERT(atomic_load(&status[i]) == -ECONNREFUSED);
        }
        end(store);
}
#endif

static void
a_cancel_of_the_task_ends_it_at_once(void)
{
        begin();
        weir_durable *store = open_store();
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_durable_set_after_new(store, "a", HOUR, "topic", NULL, 0, look, NULL));
        weir_series_cancel(series);
        CU_ASSERT(weir_series_run(series) == -ECANCELED);
        end(store);
}

/* -- clocks -- */

/* The clock of the engine: here it is the wall clock.  A node looks at it each ten seconds at least. */
static void
a_clock_that_is_set_forward_makes_timers_due(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_clock_set_wall(weir_wall_now() + 2 * HOUR) == 0);
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(got.count == 1);
        end(store);
}

static void
a_clock_that_is_set_back_makes_timers_late(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_clock_set_wall(weir_wall_now() - HOUR) == 0);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        end(store);
}

/* -- closing -- */

static void
a_close_waits_for_handlers(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_now();

        listen(store);
        got.takes = WEIR_SEC(20);
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        weir_durable_close(store);
        CU_ASSERT(weir_now() == began + WEIR_SEC(20) && got.ended == 1 && got.status[0] == 0);
        CU_ASSERT(get(other, "a") == -ENOENT);
        end(other);
}

static void
a_close_puts_back_what_takes_too_long(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_now();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        weir_durable_close(store);
        CU_ASSERT(weir_now() == began + WEIR_SEC(30) && got.ended == 1 && got.status[0] == -ECANCELED);
        CU_ASSERT(get(other, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 1);
        got.takes = 0;
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 2 && got.attempt[1] == 2);
        end(other);
}

static void
a_shutdown_leaves_the_timers_of_its_handlers(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(weir_shutdown() == 0);
        CU_ASSERT(got.ended == 1 && got.status[0] == -ESHUTDOWN);
        weir_durable_close(store);
}

/* A child of fork opens nothing, and what it has of its parent does nothing. */
static void
a_forked_child_is_told(void)
{
        int status = 1;

        begin();
        weir_durable *store = open_store();
        listen(store);
        pid_t child = fork();
        if (child == 0) {
                bool is_told = weir_durable_open(url) == NULL && errno == ECHILD;
                int failed = weir_task_run(weir_durable_set_after_new(store, "a", 0, "topic", NULL, 0, NULL, NULL));

                _exit(!is_told || failed != -ECHILD || weir_durable_on(store, "other", take, &got) != -ECHILD);
        }
        CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 0 && get(store, "a") == -ENOENT);
        end(store);
}

/* -- several nodes -- */

static void
another_node_is_woken_by_an_earlier_timer(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_wall_now();

        listen(other);
        CU_ASSERT(set(store, "late", HOUR, "late") == 0);
        CU_ASSERT(set(store, "soon", WEIR_SEC(1), "soon") == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && got.at[0] == began + WEIR_SEC(1));
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 2);
        weir_durable_close(other);
        end(store);
}

static uint64_t
looks_of(weir_durable *store)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        return stats.looks;
}

/* Each look that a due time has brought is one, and the next regular one comes config.look later, not behind as many periods. */
static void
looks_go_on_behind_many_that_were_moved(void)
{
        begin();
        weir_durable *store = open_store();
        listen(store);
        for (int i = 0; i < 30; i++) {
                CU_ASSERT(set(store, "a", WEIR_MSEC(100), "x") == 0);
                weir_clock_advance(WEIR_MSEC(200));
        }
        CU_ASSERT(got.count == 30);
        uint64_t looks = looks_of(store);
        weir_clock_advance(WEIR_SEC(21));
        CU_ASSERT(looks_of(store) >= looks + 2);
        end(store);
}

/* A set moves the next look, but never to later than it would have been. */
static void
a_set_does_not_put_off_the_next_look(void)
{
        begin();
        weir_durable *store = open_store();
        listen(store);
        CU_ASSERT(get(store, "a") == -ENOENT); /* the first look is over */
        weir_clock_advance(WEIR_SEC(9));
        uint64_t looks = looks_of(store);
        CU_ASSERT(set(store, "a", WEIR_SEC(9), "x") == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(looks_of(store) > looks);
        weir_clock_advance(WEIR_SEC(8));
        CU_ASSERT(got.count == 1);
        end(store);
}

static void
many_timers_are_shared_and_each_comes_once(void)
{
        static int times[1000];

        begin();
        weir_durable *stores[3] = {open_store(), open_store(), open_store()};
        memset(&got, 0, sizeof got);
        memset(times, 0, sizeof times);
        for (int i = 0; i < 1000; i++) {
                char name[20];

                snprintf(name, sizeof name, "%d", i);
                CU_ASSERT(weir_task_start(weir_durable_set_after_new(stores[i % 3], name, WEIR_SEC(i % 10), "many", name,
                                                                     strlen(name), NULL, NULL)) == 0);
        }
        weir_clock_advance(0);
        extern void count_one(weir_task *, void *);
        for (int i = 0; i < 3; i++)
                CU_ASSERT(weir_durable_on(stores[i], "many", count_one, times) == 0);
        weir_clock_advance(WEIR_SEC(20));
        int right = 0;
        for (int i = 0; i < 1000; i++)
                right += times[i] == 1;
        CU_ASSERT(right == 1000);
        CU_ASSERT(weir_task_run(weir_durable_count_new(stores[0], "", look, NULL)) == 0 &&
                  seen.counted[0] + seen.counted[1] == 0);
        weir_durable_close(stores[1]);
        weir_durable_close(stores[2]);
        end(stores[0]);
}

void count_one(weir_task *delivery, void *times);
void
count_one(weir_task *delivery, void *times)
{
        ((int *)times)[atoi(weir_durable_payload(delivery, NULL))]++;
}

/* -- schedules -- */

static int
schedule(weir_durable *store, const char *cron, enum weir_durable_missed_policy policy)
{
        return weir_task_run(weir_durable_schedule_new(store, "job", cron, "UTC", policy, "topic", NULL, 0, look, NULL));
}

static void
a_schedule_comes_at_its_times_once_in_all_nodes(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);

        listen(store);
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        CU_ASSERT(schedule(store, "0 * * * *", WEIR_DURABLE_ALL) == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(schedule(other, "0 * * * *", WEIR_DURABLE_ALL) == 0 && seen.generation == generation);
        weir_clock_advance(10 * HOUR + 1);
        CU_ASSERT(got.count == 10);
        for (int i = 0; i < 10; i++)
                CU_ASSERT(got.due[i] == WEIR_WALL_EPOCH + (i + 1) * HOUR && got.at[i] == got.due[i] && got.missed[i] == 0);
        CU_ASSERT(got.generation[1] > got.generation[0] && got.attempt[9] == 1);
        CU_ASSERT(schedule(other, "30 * * * *", WEIR_DURABLE_ALL) == 0 && seen.generation > got.generation[9]);
        weir_clock_advance(HOUR / 2);
        CU_ASSERT(got.count == 11);
        CU_ASSERT(cancel(store, "job") == 1);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 11);
        CU_ASSERT(schedule(store, "0 0 30 feb *", WEIR_DURABLE_ALL) == 0);
        CU_ASSERT(schedule(store, "0 0 nonsense", WEIR_DURABLE_ALL) == -EINVAL);
        CU_ASSERT(schedule(store, "0 * * * *", (enum weir_durable_missed_policy)7) == -EINVAL);
        weir_durable_close(other);
        end(store);
}

/* Sets a schedule of every ten minutes, lets an hour pass without handlers, and then listens for 25 minutes. */
static weir_durable *
miss_an_hour(enum weir_durable_missed_policy policy)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT(schedule(store, "*/10 * * * *", policy) == 0);
        weir_clock_advance(HOUR + WEIR_SEC(120));
        listen(store);
        weir_clock_advance(WEIR_SEC(1500));
        return store;
}

static void
missed_times_are_all_made_up_for(void)
{
        weir_durable *store = miss_an_hour(WEIR_DURABLE_ALL);

        CU_ASSERT(got.count == 8 && got.due[0] == WEIR_WALL_EPOCH + HOUR / 6 && got.due[7] == WEIR_WALL_EPOCH + 8 * HOUR / 6);
        CU_ASSERT(got.at[5] == WEIR_WALL_EPOCH + HOUR + WEIR_SEC(120) && got.at[6] == got.due[6]);
        end(store);
}

static void
missed_times_are_merged_into_one(void)
{
        weir_durable *store = miss_an_hour(WEIR_DURABLE_ONCE);

        CU_ASSERT(got.count == 3 && got.due[0] == WEIR_WALL_EPOCH + HOUR && got.missed[0] == 5 && got.missed[1] == 0);
        CU_ASSERT(got.due[1] == WEIR_WALL_EPOCH + 7 * HOUR / 6 && got.at[2] == got.due[2]);
        end(store);
}

static void
missed_times_are_skipped(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;
        weir_durable *store = miss_an_hour(WEIR_DURABLE_SKIP);

        CU_ASSERT(got.count == 2 && got.due[0] == WEIR_WALL_EPOCH + 7 * HOUR / 6 && got.at[0] == got.due[0]);
        CU_ASSERT(weir_durable_stats(store, &stats) == 0 && stats.skipped == 6);
        end(store);
}

static void
a_firing_that_always_fails_is_given_up(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.failures = 10;
        CU_ASSERT(schedule(store, "0 0 * * *", WEIR_DURABLE_SKIP) == 0);
        weir_clock_advance(47 * HOUR);
        CU_ASSERT(got.count == 10 && got.attempt[9] == 10);
        CU_ASSERT(get(store, "job") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 0);
        CU_ASSERT_STRING_EQUAL(seen.problem, weir_strerror(-EIO));
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 11 && got.attempt[10] == 1);
        end(store);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_timer_is_delivered_when_it_is_due),
                WEIR_TEST(a_timer_of_the_past_is_due_at_once),
                WEIR_TEST(a_cancel_before_the_claim_decides),
                WEIR_TEST(a_cancel_behind_the_claim_changes_nothing),
                WEIR_TEST(a_set_makes_a_new_generation),
                WEIR_TEST(a_handler_of_a_former_generation_ends_nothing),
                WEIR_TEST(a_renewal_that_is_refused_ends_the_flow),
                WEIR_TEST(a_lease_is_renewed_while_the_handler_runs),
                WEIR_TEST(a_failure_is_retried_later_each_time),
                WEIR_TEST(a_timer_is_dead_after_its_attempts),
                WEIR_TEST(an_extension_moves_the_due_time),
                WEIR_TEST(a_reset_begins_the_time_anew),
                WEIR_TEST(a_list_has_the_order_of_the_names_and_goes_on_behind_one),
                WEIR_TEST(what_is_wrong_is_told),
#ifdef NOWHERE_URL
                WEIR_TEST(no_engine_is_not_no_timer),
#endif
                WEIR_TEST(a_cancel_of_the_task_ends_it_at_once),
                WEIR_TEST(a_clock_that_is_set_forward_makes_timers_due),
                WEIR_TEST(a_clock_that_is_set_back_makes_timers_late),
                WEIR_TEST(a_close_waits_for_handlers),
                WEIR_TEST(a_close_puts_back_what_takes_too_long),
                WEIR_TEST(a_shutdown_leaves_the_timers_of_its_handlers),
                WEIR_TEST(a_forked_child_is_told),
                WEIR_TEST(another_node_is_woken_by_an_earlier_timer),
                WEIR_TEST(a_set_does_not_put_off_the_next_look),
                WEIR_TEST(looks_go_on_behind_many_that_were_moved),
                WEIR_TEST(many_timers_are_shared_and_each_comes_once),
                WEIR_TEST(a_schedule_comes_at_its_times_once_in_all_nodes),
                WEIR_TEST(missed_times_are_all_made_up_for),
                WEIR_TEST(missed_times_are_merged_into_one),
                WEIR_TEST(missed_times_are_skipped),
                WEIR_TEST(a_firing_that_always_fails_is_given_up),
                MORE_TESTS
        };

        return weir_test_main("durable timers", tests, sizeof tests / sizeof *tests);
}
