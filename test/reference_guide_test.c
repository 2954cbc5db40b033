/* test/reference_guide_test.c: the examples of the manual pages: the part behind the name of a header stands in its page. */
#include "test/fixture.h"
#include "test/http_client.h"

#include <errno.h>

/* -- weir/barrier.h -- */

static void
arrived(weir_task *task, void *count)
{
        *(int *)count += weir_task_status(task) == 0;
}

static void
a_barrier_with_a_name_is_opened_by_each_party(void)
{
        weir_barrier *barrier = weir_barrier_open("round", 2);
        weir_barrier *same = weir_barrier_open("round", 2);
        weir_barrier *third = weir_barrier_ref(barrier);
        int count = 0;

        CU_ASSERT(same == barrier && third == barrier);
        weir_task_start(weir_barrier_arrive_new(barrier, arrived, &count));
        weir_clock_advance(0);
        CU_ASSERT(count == 0);
        weir_task_start(weir_barrier_arrive_new(same, arrived, &count));
        weir_clock_advance(0);
        CU_ASSERT(count == 2);
        weir_barrier_unref(barrier);
        weir_barrier_unref(same);
        weir_barrier_unref(third);
}

/* -- weir/channel.h -- */

static void
a_channel_with_a_name_keeps_its_messages(void)
{
        weir_channel *channel = weir_channel_open("mail", 16, free);
        weir_channel *same = weir_channel_ref(channel);
        void *message = NULL;

        CU_ASSERT(weir_channel_post(channel, strdup("hello")) == 0);
        CU_ASSERT(weir_channel_length(same) == 1);
        CU_ASSERT(weir_channel_poll(same, &message) == 0);
        CU_ASSERT_STRING_EQUAL(message, "hello");
        free(message);
        weir_channel_unref(channel);
        weir_channel_unref(same);
}

/* -- weir/conditional.h -- */

static void
a_task_starts_at_the_signal(void)
{
        weir_condition *opened = weir_condition_new();
        weir_condition *key = weir_condition_ref(opened);
        int count = 0;

        weir_task_start(weir_conditional_new(opened, weir_empty_new(arrived, &count), NULL, NULL));
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(count == 0);
        CU_ASSERT(weir_condition_signal(key) == 0);
        weir_clock_advance(0);
        CU_ASSERT(count == 1);
        CU_ASSERT(weir_condition_signal(key) == -EALREADY);
        weir_condition_unref(opened);
        weir_condition_unref(key);
}

/* -- weir/counter.h -- */

static void
a_task_waits_until_three_are_counted(void)
{
        weir_counter *parts = weir_counter_new(3);
        weir_counter *same = weir_counter_ref(parts);
        int count = 0;

        weir_task_start(weir_counter_wait_new(parts, arrived, &count));
        CU_ASSERT(weir_counter_count(same, 2) == 2);
        CU_ASSERT(weir_counter_left(same) == 1);
        CU_ASSERT(weir_counter_count(same, 5) == 1);
        weir_clock_advance(0);
        CU_ASSERT(count == 1);
        weir_counter_unref(parts);
        weir_counter_unref(same);
}

/* -- weir/guard.h -- */

static void
write_balance(weir_task *task, void *guard)
{
        weir_series *series = weir_series_of(task);

        CU_ASSERT(weir_guard_is_held(guard, series));
        CU_ASSERT(weir_guard_release(guard, series) == 0); /* early: the end of the series would do it */
}

static void
read_balance(weir_task *task, void *guard)
{
        weir_guard *other = weir_guard_open("another account");
        weir_series *series = weir_series_of(task);

        CU_ASSERT(weir_guard_is_held(guard, series));
        CU_ASSERT(weir_guard_try_acquire_shared(other, series) == 0);
        CU_ASSERT(weir_guard_try_acquire(guard, series) == -EDEADLK);
        weir_guard_unref(other);
}

static void
a_guard_has_one_writer_or_many_readers(void)
{
        weir_guard *guard = weir_guard_new();
        weir_guard *same = weir_guard_ref(guard);

        weir_task_start(weir_guard_acquire_new(guard, write_balance, guard));
        weir_task_start(weir_guard_acquire_shared_new(guard, read_balance, guard));
        weir_task_start(weir_guard_acquire_shared_new_named("another account", NULL, NULL));
        weir_clock_advance(0);
        CU_ASSERT(!weir_guard_is_held(same, NULL));
        weir_guard_unref(guard);
        weir_guard_unref(same);
}

/* -- weir/pool.h -- */

static void
query(weir_task *task, void *pool)
{
        CU_ASSERT_STRING_EQUAL(weir_pool_object(task), "connection"); /* it goes back behind the callback */
        CU_ASSERT(weir_pool_available(pool) == 0);
}

static void
keep(weir_task *task, void *pool)
{
        char *connection = weir_pool_take_object(task);

        CU_ASSERT(weir_pool_put(pool, connection) == 0); /* whenever it is needed no more */
}

static void
connections_go_back_into_their_pool(void)
{
        weir_pool *pool = weir_pool_new(free);
        weir_pool *same = weir_pool_ref(pool);

        CU_ASSERT(weir_pool_try_take(pool) == NULL);
        CU_ASSERT(weir_pool_put(pool, strdup("connection")) == 0);
        weir_task_start(weir_pool_take_new(pool, query, pool));
        weir_task_start(weir_pool_take_new(pool, keep, pool));
        weir_clock_advance(0);
        CU_ASSERT(weir_pool_available(pool) == 1);
        weir_pool_unref(pool);
        weir_pool_unref(same);

        weir_pool_unref(weir_pool_open("connections", free)); /* by name: as long as anybody has it */
}

/* -- weir/rate.h -- */

static void
a_rate_has_ten_tokens_a_second_and_two_at_once(void)
{
        weir_rate *rate = weir_rate_new(10, WEIR_SEC(1), 2);
        weir_rate *same = weir_rate_ref(rate);
        int count = 0;

        CU_ASSERT(weir_rate_try_take(rate, 2) == 0);
        CU_ASSERT(weir_rate_try_take(rate, 1) == -EAGAIN && weir_rate_delay(rate, 1) == WEIR_MSEC(100));
        weir_task_start(weir_rate_take_new(same, 1, arrived, &count)); /* this one waits */
        weir_clock_advance(WEIR_MSEC(100));
        CU_ASSERT(count == 1 && weir_rate_available(rate) == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(weir_rate_available(rate) == 2); /* never more */
        weir_rate_unref(rate);
        weir_rate_unref(same);
}

static void
a_rate_with_a_name_stays_until_it_is_full(void)
{
        weir_rate *rate = weir_rate_open("client/192.0.2.1", 10, WEIR_SEC(1), 2);

        CU_ASSERT(weir_rate_try_take(rate, 2) == 0);
        weir_rate_unref(rate);
        rate = weir_rate_open("client/192.0.2.1", 10, WEIR_SEC(1), 2);
        CU_ASSERT(weir_rate_try_take(rate, 1) == -EAGAIN); /* the same bucket */
        weir_rate_unref(rate);
}

/* -- weir/semaphore.h -- */

static void
tokens_are_given_back(void)
{
        weir_semaphore *semaphore = weir_semaphore_open("uploads", 4);
        weir_semaphore *same = weir_semaphore_ref(semaphore);
        int count = 0;

        CU_ASSERT(weir_semaphore_try_acquire(semaphore, 3) == 0);
        weir_task_start(weir_semaphore_acquire_new(semaphore, 2, arrived, &count));
        weir_clock_advance(0);
        CU_ASSERT(count == 0 && weir_semaphore_available(semaphore) == 1);
        CU_ASSERT(weir_semaphore_release(semaphore, 3) == 0);
        weir_clock_advance(0);
        CU_ASSERT(count == 1 && weir_semaphore_available(semaphore) == 2);
        CU_ASSERT(weir_semaphore_close(semaphore) == 0);
        CU_ASSERT(weir_semaphore_try_acquire(semaphore, 1) == -EPIPE);
        weir_semaphore_unref(semaphore);
        weir_semaphore_unref(same);
}

/* -- weir/select.h -- */

static void
take_what_won(weir_task *select, void *seen)
{
        int winner = weir_select_winner(select);
        char *message = weir_select_take_message(select, winner);

        *(int *)seen = winner;
        free(message);
}

static void
a_select_can_send_be_switched_off_and_not_wait(void)
{
        weir_channel *empty = weir_channel_new(1, free), *room = weir_channel_new(1, free);
        int seen = -1;
        weir_task *select = weir_select_new(take_what_won, &seen);

        CU_ASSERT(weir_select_never(select) == 0); /* a case that is off keeps its index */
        CU_ASSERT(weir_select_receive(select, empty) == 1);
        CU_ASSERT(weir_select_send(select, room, strdup("sent")) == 2);
        weir_task_start(select);
        weir_clock_advance(0);
        CU_ASSERT(seen == 2);

        select = weir_select_new(take_what_won, &seen);
        CU_ASSERT(weir_select_receive(select, empty) == 0);
        CU_ASSERT(weir_select_default(select) == 1);
        weir_task_start(select);
        weir_clock_advance(0);
        CU_ASSERT(seen == 1);
        weir_channel_unref(empty);
        weir_channel_unref(room);
}

/* -- weir/series.h -- */

static void
look_at_the_cause(weir_series *series, void *context)
{
        CU_ASSERT(weir_series_context(series) == context);
        *(int *)context = weir_series_cause(series);
}

static void
a_series_knows_why_it_ended(void)
{
        int cause = -1, count = 0;
        weir_series *series = weir_series_new(look_at_the_cause, &cause);

        weir_series_push(series, weir_timer_new(WEIR_SEC(10), NULL, NULL));
        weir_series_push_front(series, weir_empty_new(arrived, &count)); /* before the timer */
        weir_series_set_deadline(series, WEIR_SEC(1));
        weir_series_start(series);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(count == 1 && cause == WEIR_CAUSE_TIMED_OUT);

        weir_series_dismiss(weir_series_new(NULL, NULL)); /* one that is not needed after all */
}

static void
fail_the_flow(weir_task *task, void *context)
{
        weir_series *child = weir_series_of(task);

        (void)context;
        CU_ASSERT(weir_series_fail(weir_series_parent(child), -EIO) == 0); /* the series with the parallel */
}

static void
a_child_fails_the_series_around_it(void)
{
        int cause = -1, count = 0;
        weir_series *series = weir_series_new(look_at_the_cause, &cause);
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, weir_empty_new(fail_the_flow, NULL));
        weir_series_push(series, parallel);
        weir_series_push(series, weir_empty_new(arrived, &count)); /* it is dropped */
        weir_series_start(series);
        weir_clock_advance(0);
        CU_ASSERT(count == 0 && cause == WEIR_CAUSE_FAILED);
}

/* -- weir/signal.h -- */

static void
reload(weir_task *task, void *count)
{
        if (weir_task_status(task) != 0) {
                return;
        }
        weir_task_start(weir_signal_new(SIGHUP, reload, count)); /* the next one first: no signal is missed */
        *(int *)count += 1;
}

static void
each_signal_reloads(void)
{
        int count = 0;

        weir_task_start(weir_signal_new(SIGHUP, reload, &count));
        raise(SIGHUP);
        weir_clock_advance(0);
        CU_ASSERT(count == 1);
        raise(SIGHUP);
        weir_clock_advance(0);
        CU_ASSERT(count == 2);
}

/* -- weir/task.h -- */

static void
double_it(weir_task *task, void *number)
{
        CU_ASSERT(weir_task_context(task) == number);
        *(int *)number *= 2;
}

static void
a_task_has_its_context(void)
{
        int number = 21;

        weir_task_start(weir_empty_new(double_it, &number));
        weir_clock_advance(0);
        CU_ASSERT(number == 42);
}

/* -- weir/ticker.h -- */

static void
ticked(weir_task *ticker, void *count)
{
        *(int *)count += weir_ticker_is_tick(ticker);
}

static void
a_schedule_is_checked_before_it_is_used(void)
{
        const char *expected = NULL;
        size_t position = 0;
        int count = 0;

        CU_ASSERT(weir_ticker_check("*/5 * * * *", "UTC", &position, &expected) == 0);
        CU_ASSERT(weir_ticker_check("*/5 * * 13 *", "UTC", &position, &expected) == -EINVAL && expected && position > 0);
        CU_ASSERT(weir_ticker_next("*/5 * * * *", "UTC", WEIR_SEC(301)) == WEIR_SEC(600));

        weir_task *ticker = weir_ticker_new_at("*/5 * * * *", "UTC", ticked, &count);
        weir_timer_id id = weir_timer_id_of(ticker);
        weir_task_start(ticker);
        weir_clock_advance(WEIR_SEC(300));
        CU_ASSERT(count == 1);
        weir_timer_cancel_id(id);
        weir_clock_advance(0);
}

static void
the_next_tick_alone_is_moved(void)
{
        int count = 0;
        weir_task *ticker = weir_ticker_new_named("poll", WEIR_SEC(10), WEIR_TICK_SKIP, ticked, &count);
        weir_timer_id id = weir_timer_id_of(ticker);

        weir_task_start(ticker);
        CU_ASSERT(weir_ticker_move_next("poll", WEIR_SEC(1)) == 1);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(count == 1);
        CU_ASSERT(weir_ticker_move_next_id(id, WEIR_SEC(2)) == 1);
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT(count == 2);
        weir_timer_cancel("poll", WEIR_ALL);
        weir_clock_advance(0);
}

/* -- weir/timer.h -- */

static void
timers_of_each_clock_have_names(void)
{
        int count = 0;

        weir_task_start(weir_timer_new_at_named("by the wall", weir_wall_now() + WEIR_SEC(1), arrived, &count));
        weir_task_start(weir_timer_new_boottime(WEIR_SEC(1), arrived, &count));
        weir_task_start(weir_timer_new_boottime_named("suspended or not", WEIR_SEC(1), arrived, &count));
        weir_task_start(weir_timer_new_until_named("until", weir_now() + WEIR_SEC(1), arrived, &count));
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(count == 4);
}

static void
a_timer_without_a_name_has_an_id(void)
{
        int count = 0;
        weir_task *timer = weir_timer_new(WEIR_SEC(1), arrived, &count);
        weir_timer_id id = weir_timer_id_of(timer);

        weir_task_start(timer);
        CU_ASSERT(weir_timer_extend_id(id, WEIR_SEC(1)) == 1);
        CU_ASSERT(weir_timer_due_id(id) == weir_now() + WEIR_SEC(2));
        CU_ASSERT(weir_timer_cancel_wait_id(id) == 1); /* its callback has returned */
        CU_ASSERT(count == 0);
}

/* -- weir/graph.h -- */

static void
note_node(weir_task *task, void *seen)
{
        weir_node_set_result(weir_graph_node_of(task), seen, NULL);
}

static void
look_at_nodes(weir_task *graph, void *node)
{
        weir_node *package = *(weir_node **)node;

        CU_ASSERT(weir_task_status(graph) == 0);
        CU_ASSERT(weir_node_state(package) == WEIR_NODE_ENDED && weir_node_status(package) == 0);
        CU_ASSERT_STRING_EQUAL(weir_node_result(package), "package");
}

static void
a_graph_has_nodes_of_series_and_results(void)
{
        weir_node *package = NULL;
        weir_task *graph = weir_graph_new(look_at_nodes, &package);
        weir_series *checks = weir_series_new(NULL, NULL);

        weir_series_push(checks, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_node *first = weir_graph_add_series(graph, checks, "checks");
        package = weir_graph_add(graph, weir_empty_new(note_node, "package"), "package");
        CU_ASSERT(weir_node_set_policy(first, WEIR_NODE_CANCEL) == 0); /* no package if a check fails */
        CU_ASSERT(weir_graph_precede(first, package) == 0);
        weir_task_start(graph);
        weir_clock_advance(WEIR_SEC(1));
}

static void
fail_check(weir_task *task, void *context)
{
        (void)context;
        weir_series_fail(weir_series_of(task), -EIO);
}

static void
keep_status(weir_task *graph, void *status)
{
        *(int *)status = weir_task_status(graph);
}

static void
a_graph_ends_at_its_first_failure(void)
{
        int status = 0;
        weir_task *graph = weir_graph_new(keep_status, &status);

        weir_graph_stop_on_failure(graph);
        weir_graph_add(graph, weir_timer_new(WEIR_SEC(3600), NULL, NULL), "long check"); /* it is cancelled */
        weir_graph_add(graph, weir_timer_new(WEIR_SEC(1), fail_check, NULL), "short check");
        weir_task_start(graph);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(status == -EIO);
}

/* -- weir/mailbox.h -- */

static void
keep_letter(weir_task *task, void *letter)
{
        *(char **)letter = weir_mailbox_take_message(task); /* ours now */
}

static void
a_letter_is_kept(void)
{
        weir_mailbox *mailbox = weir_mailbox_new(free);
        weir_mailbox *sender = weir_mailbox_sender_ref(mailbox); /* without a sender, a receiver would wait in vain */
        char *letter = NULL;

        weir_task_start(weir_mailbox_receive_new(mailbox, keep_letter, &letter));
        CU_ASSERT(weir_mailbox_send(sender, strdup("a letter")) >= 0);
        weir_mailbox_sender_unref(sender);
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(letter, "a letter");
        free(letter);
        weir_mailbox_unref(mailbox);
}

/* -- weir/promise.h -- */

static void
keep_value(weir_task *promise, void *value)
{
        *(char **)value = weir_promise_take_value(promise);
}

static void
a_promise_ends_with_a_value(void)
{
        char *value = NULL;
        weir_task *promise = weir_promise_ref(weir_promise_new(NULL, keep_value, &value));

        weir_task_start(promise);
        CU_ASSERT(weir_promise_end_with(promise, 0, strdup("found"), free) == 0);
        weir_promise_unref(promise);
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(value, "found");
        free(value);
}

/* What an errand has of its own. */
struct errand {
        int wanted, result;
};

static void
begin_errand(weir_task *promise, void *own)
{
        struct errand *errand = own;

        errand->result = 2 * errand->wanted;
        weir_promise_hold(promise); /* nothing takes the result back any more */
        weir_promise_finish(promise, weir_promise_cancelled(promise), NULL, NULL);
}

static const struct weir_promise_kind errands = {sizeof errands, begin_errand, NULL, NULL, free};

static weir_task *
errand_new(int wanted, weir_task_fn *done, void *context)
{
        struct errand *errand = calloc(1, sizeof *errand);

        if (!errand)
                return NULL;
        errand->wanted = wanted;
        return weir_promise_new_of(&errands, errand, done, context);
}

static void
keep_result(weir_task *task, void *result)
{
        *(int *)result = ((struct errand *)weir_promise_own(task, &errands))->result;
}

static void
a_task_of_a_library_begins_with_its_start(void)
{
        int result = 0;
        weir_task *errand = errand_new(21, keep_result, &result);

        CU_ASSERT(result == 0);
        weir_task_start(errand);
        weir_clock_advance(0);
        CU_ASSERT(result == 42);
}

/* -- weir/topic.h -- */

static void
read_news(weir_task *task, void *news)
{
        size_t size;
        const void *message = weir_topic_message(task, &size);

        memcpy(news, message, size);
}

static void
a_subscriber_is_shared(void)
{
        weir_subscriber *subscriber = weir_topic_subscribe("news", 10);
        weir_subscriber *same = weir_subscriber_ref(subscriber); /* for another thread */
        char news[8] = "";

        weir_task_start(weir_topic_receive_new(subscriber, read_news, news));
        CU_ASSERT(weir_topic_subscribers("news") == 1);
        CU_ASSERT(weir_topic_publish("news", "rain", 5) == 1);
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(news, "rain");
        weir_subscriber_unref(subscriber);
        weir_subscriber_unref(same);
}

/* -- weir/watch.h -- */

static void
read_value(weir_task *task, void *value)
{
        strcpy(value, weir_watch_value(task));
}

static void
a_watch_with_a_name_counts_its_values(void)
{
        weir_watch *watch = weir_watch_open("configuration", free);
        weir_watch *same = weir_watch_ref(watch);
        uint64_t seen = weir_watch_version(watch);
        char value[8] = "";

        weir_task_start(weir_watch_wait_new(watch, seen, read_value, value));
        CU_ASSERT(weir_watch_set(same, strdup("new")) == 0);
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(value, "new");
        CU_ASSERT(weir_watch_version(watch) == seen + 1);
        weir_watch_unref(watch);
        weir_watch_unref(same);
}

/* -- weir/debug.h -- */

static void
a_dump_goes_to_a_file(void)
{
        FILE *file = tmpfile();

        weir_task_start(weir_timer_new_named("session/7", WEIR_SEC(60), NULL, NULL));
        CU_ASSERT(weir_debug_dump(fileno(file)) == 0);
        fclose(file);
}

/* -- weir/metrics.h -- */

static int
write_cups(int fd)
{
        static const char *const text = "# HELP cups_total Cups of tea.\n# TYPE cups_total counter\ncups_total 3\n";

        return dprintf(fd, "%s", text) > 0 ? 0 : -errno;
}

static void
metrics_go_to_a_file(void)
{
        FILE *file = tmpfile();

        CU_ASSERT(weir_metrics_add(write_cups) == 0);
        CU_ASSERT(weir_metrics_write(fileno(file)) == 0);
        fclose(file);
}

/* -- weir/runtime.h -- */

static void
the_version_is_that_of_the_headers(void)
{
        CU_ASSERT(strncmp(weir_version(), "0.1", 3) == 0);
}

/* -- weir/http.h -- */

static void
describe(weir_task *exchange, void *context)
{
        const char *name, *value, *agent = weir_http_request_header(exchange, "User-Agent");
        char text[256];
        int fields = 0;

        (void)context;
        while (weir_http_request_field(exchange, (size_t)fields, &name, &value) == 0) {
                fields++;
        }
        snprintf(text, sizeof text, "%s of %s: query %s, %s, %d fields, %s", weir_http_target(exchange), weir_http_host(exchange),
                 weir_http_escape_json(exchange, weir_http_query(exchange)), agent ? agent : "no agent", fields,
                 weir_http_client_certificate(exchange) ? "known" : "unknown");
        weir_http_reply_text(exchange, 200, text);
}

static void
a_request_describes_itself(void)
{
        weir_http_server *server = http_server(NULL, describe, NULL);
        struct http_client client;
        struct http_reply reply = {0};

        http_open(&client, weir_http_server_port(server));
        http_ask(&client, "GET /a?b=c HTTP/1.1\r\nHost: here\r\nUser-Agent: me\r\n\r\n", &reply);
        CU_ASSERT_STRING_EQUAL(reply.body, "/a?b=c of here: query b=c, me, 2 fields, unknown");
        http_reply_done(&reply);
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
}

/* -- weir/http_fields.h -- */

static void
count_parts(weir_task *exchange, void *context)
{
        const char *name, *value;
        size_t query = 0, form = 0, cookies = 0;
        char text[128];

        (void)context;
        while (weir_http_query_at(exchange, query, &name, &value) == 0) {
                query++;
        }
        while (weir_http_form_at(exchange, form, &name, &value) == 0) {
                form++;
        }
        while (weir_http_cookie_at(exchange, cookies, &name, &value) == 0) {
                cookies++;
        }
        snprintf(text, sizeof text, "%zu %zu %zu from %s", query, form, cookies, weir_http_peer_address(exchange));
        weir_http_reply_length(exchange, strlen(text));
        weir_http_reply_append(exchange, text, strlen(text));
}

static void
parts_of_a_request_are_counted(void)
{
        weir_http_server *server = http_server(NULL, count_parts, NULL);
        struct http_client client;
        struct http_reply reply = {0};

        http_open(&client, weir_http_server_port(server));
        http_ask(&client,
                 "POST /?a=1&b=2 HTTP/1.1\r\nHost: h\r\nCookie: c=3; d=4; e=5\r\nContent-Length: 3\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n\r\nf=6",
                 &reply);
        CU_ASSERT(strncmp(reply.body, "2 1 3 from 127.0.0.1", 20) == 0);
        http_reply_done(&reply);
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
}

/* -- weir/http_server.h -- */

static void
a_server_is_set_up_before_its_start(void)
{
        static const char page[] = "<!DOCTYPE html><title>Gone</title><p>Gone.\n";
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int fds[4];

        config.access_log = "/dev/null";
        weir_http_server *server = weir_http_server_new(&config, describe, NULL);
        CU_ASSERT(weir_http_server_set_error(server, 404, "text/html; charset=utf-8", page, sizeof page - 1) == 0);
        CU_ASSERT(weir_http_server_set_coalescing(server, 0) == 0); /* replies are not gathered */
        CU_ASSERT(weir_http_server_start(server, "127.0.0.1:0") == 0);
        CU_ASSERT(weir_http_server_fds(server, fds, 4) >= 1);
        CU_ASSERT(weir_http_server_ready() >= 0);            /* no further server will take over inherited sockets */
        CU_ASSERT(weir_http_server_reopen_log(server) == 0); /* after logrotate has renamed the file */
        CU_ASSERT(weir_http_server_access_lost(server) == 0);
        CU_ASSERT(weir_http_server_stop(server, WEIR_SEC(30)) == 0);
        weir_http_server_free(server);
}

/* -- weir/http_sse.h -- */

static void
go_on_behind_last(weir_task *exchange, void *context)
{
        const char *last = weir_http_sse_last_id(exchange); /* what an EventSource saw before it came again */

        (void)context;
        weir_http_reply_text(exchange, 200, last ? last : "from the beginning");
}

static void
an_event_source_says_what_it_saw(void)
{
        weir_http_server *server = http_server(NULL, go_on_behind_last, NULL);
        struct http_client client;
        struct http_reply reply = {0};

        http_open(&client, weir_http_server_port(server));
        http_ask(&client, "GET / HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 17\r\n\r\n", &reply);
        CU_ASSERT_STRING_EQUAL(reply.body, "17");
        http_reply_done(&reply);
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
}

/* -- the suite -- */

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(a_barrier_with_a_name_is_opened_by_each_party)
EXAMPLE(a_channel_with_a_name_keeps_its_messages)
EXAMPLE(a_task_starts_at_the_signal)
EXAMPLE(a_task_waits_until_three_are_counted)
EXAMPLE(a_guard_has_one_writer_or_many_readers)
EXAMPLE(connections_go_back_into_their_pool)
EXAMPLE(a_rate_has_ten_tokens_a_second_and_two_at_once)
EXAMPLE(a_rate_with_a_name_stays_until_it_is_full)
EXAMPLE(tokens_are_given_back)
EXAMPLE(a_select_can_send_be_switched_off_and_not_wait)
EXAMPLE(a_series_knows_why_it_ended)
EXAMPLE(a_child_fails_the_series_around_it)
EXAMPLE(each_signal_reloads)
EXAMPLE(a_task_has_its_context)
EXAMPLE(a_schedule_is_checked_before_it_is_used)
EXAMPLE(the_next_tick_alone_is_moved)
EXAMPLE(timers_of_each_clock_have_names)
EXAMPLE(a_timer_without_a_name_has_an_id)
EXAMPLE(a_graph_has_nodes_of_series_and_results)
EXAMPLE(a_graph_ends_at_its_first_failure)
EXAMPLE(a_letter_is_kept)
EXAMPLE(a_promise_ends_with_a_value)
EXAMPLE(a_task_of_a_library_begins_with_its_start)
EXAMPLE(a_subscriber_is_shared)
EXAMPLE(a_watch_with_a_name_counts_its_values)
EXAMPLE(a_dump_goes_to_a_file)
EXAMPLE(metrics_go_to_a_file)
EXAMPLE(the_version_is_that_of_the_headers)
EXAMPLE(a_request_describes_itself)
EXAMPLE(parts_of_a_request_are_counted)
EXAMPLE(a_server_is_set_up_before_its_start)
EXAMPLE(an_event_source_says_what_it_saw)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_barrier_with_a_name_is_opened_by_each_party),
        WEIR_TEST(run_a_channel_with_a_name_keeps_its_messages),
        WEIR_TEST(run_a_task_starts_at_the_signal),
        WEIR_TEST(run_a_task_waits_until_three_are_counted),
        WEIR_TEST(run_a_guard_has_one_writer_or_many_readers),
        WEIR_TEST(run_connections_go_back_into_their_pool),
        WEIR_TEST(run_a_rate_has_ten_tokens_a_second_and_two_at_once),
        WEIR_TEST(run_a_rate_with_a_name_stays_until_it_is_full),
        WEIR_TEST(run_tokens_are_given_back),
        WEIR_TEST(run_a_select_can_send_be_switched_off_and_not_wait),
        WEIR_TEST(run_a_series_knows_why_it_ended),
        WEIR_TEST(run_a_child_fails_the_series_around_it),
        WEIR_TEST(run_each_signal_reloads),
        WEIR_TEST(run_a_task_has_its_context),
        WEIR_TEST(run_a_schedule_is_checked_before_it_is_used),
        WEIR_TEST(run_the_next_tick_alone_is_moved),
        WEIR_TEST(run_timers_of_each_clock_have_names),
        WEIR_TEST(run_a_timer_without_a_name_has_an_id),
        WEIR_TEST(run_a_graph_has_nodes_of_series_and_results),
        WEIR_TEST(run_a_graph_ends_at_its_first_failure),
        WEIR_TEST(run_a_letter_is_kept),
        WEIR_TEST(run_a_promise_ends_with_a_value),
        WEIR_TEST(run_a_task_of_a_library_begins_with_its_start),
        WEIR_TEST(run_a_subscriber_is_shared),
        WEIR_TEST(run_a_watch_with_a_name_counts_its_values),
        WEIR_TEST(run_a_dump_goes_to_a_file),
        WEIR_TEST(run_metrics_go_to_a_file),
        WEIR_TEST(run_the_version_is_that_of_the_headers),
        WEIR_TEST(run_a_request_describes_itself),
        WEIR_TEST(run_parts_of_a_request_are_counted),
        WEIR_TEST(run_a_server_is_set_up_before_its_start),
        WEIR_TEST(run_an_event_source_says_what_it_saw),
};

int
main(void)
{
        return weir_test_main("reference_guide", tests, sizeof tests / sizeof *tests);
}
