/* test/select_test.c: tasks that wait at several channels. */
#include "test/fixture.h"

#include <errno.h>

#include "kernel/base/lock.h"
#include "test/blocks_fixture.h"

/* -- the events, as a text -- */

static char seen[1024];
static atomic_int dropped;

static void
begin(void)
{
        seen[0] = '\0';
        dropped = 0;
        weir_test_begin_virtual();
}

/* "winner:message:status" */
static void
selected(weir_task *task, void *context)
{
        size_t size = strlen(seen);
        const char *message = weir_channel_message(task);

        (void)context;
        snprintf(seen + size, sizeof seen - size, "%s%d:%s:%d", size ? " " : "", weir_select_winner(task), message ? message : "",
                 weir_task_status(task));
}

static void
drop(void *message)
{
        (void)message;
        dropped++;
}

static weir_task *
select_of(weir_channel *a, weir_channel *b)
{
        weir_task *select = weir_select_new(selected, NULL);

        CU_ASSERT_EQUAL(weir_select_receive(select, a), 0);
        CU_ASSERT_EQUAL(weir_select_receive(select, b), 1);
        return select;
}

static struct pair {
        weir_channel *a, *b;
} pair;

static void
make_pair(size_t capacity)
{
        pair = (struct pair){weir_channel_new(capacity, drop), weir_channel_new(capacity, drop)};
}

static void
free_pair(void)
{
        weir_channel_unref(pair.a);
        weir_channel_unref(pair.b);
}

/* -- the winner -- */

static void
first_added_of_those_that_are_possible_wins(void)
{
        begin();
        make_pair(1);
        weir_channel_post(pair.a, "a");
        weir_channel_post(pair.b, "b");
        weir_task_start(select_of(pair.b, pair.a));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "0:b:0");
        CU_ASSERT_EQUAL(weir_channel_length(pair.a), 1);
        weir_task_start(select_of(pair.b, pair.a));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "0:b:0 1:a:0");
        CU_ASSERT_EQUAL(dropped, 2);
        free_pair();
        weir_test_end();
}

static void
it_waits_until_one_is_possible_and_leaves_the_others(void)
{
        begin();
        make_pair(0);
        weir_task_start(select_of(pair.a, pair.b));
        weir_task_start(select_of(pair.a, pair.b));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_channel_post(pair.b, "b"), 0);
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "a"), 0); /* passes over the first one, which is not unlinked yet */
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "x"), -EAGAIN);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1:b:0 0:a:0");
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "x"), -EAGAIN);
        free_pair();
        weir_test_end();
}

static void
it_sends_to_one_and_what_was_not_sent_is_dropped_or_taken(void)
{
        void *message = NULL;
        weir_task *select = weir_select_new(selected, NULL);

        begin();
        make_pair(0);
        CU_ASSERT_EQUAL(weir_select_send(select, pair.a, "a"), 0);
        CU_ASSERT_EQUAL(weir_select_send(select, pair.b, "b"), 1);
        weir_task_start(select);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_channel_poll(pair.b, &message), 0);
        CU_ASSERT_STRING_EQUAL(message, "b");
        CU_ASSERT_EQUAL(weir_channel_poll(pair.a, &message), -EAGAIN);
        CU_ASSERT_EQUAL(weir_channel_poll(pair.b, &message), -EAGAIN);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1::0");
        CU_ASSERT_EQUAL(dropped, 1);
        free_pair();
        weir_test_end();
}

static void
takes_unsent(weir_task *select, void *context)
{
        *(void **)context = weir_select_take_message(select, 0);
        CU_ASSERT_PTR_NULL(weir_select_take_message(select, 0));
        CU_ASSERT_PTR_NULL(weir_select_take_message(select, 1));
        CU_ASSERT_PTR_NULL(weir_select_take_message(select, -1));
        CU_ASSERT_PTR_NULL(weir_select_take_message(select, 2));
}

static void
message_that_was_not_sent_can_be_taken(void)
{
        void *message = NULL;
        weir_task *select = weir_select_new(takes_unsent, &message);

        begin();
        make_pair(1);
        weir_channel_post(pair.a, "full");
        weir_select_send(select, pair.a, "a");
        weir_select_send(select, pair.b, "b");
        weir_task_start(select);
        weir_test_pass(0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(message);
        CU_ASSERT_STRING_EQUAL(message, "a");
        CU_ASSERT_EQUAL(dropped, 0);
        free_pair();
        CU_ASSERT_EQUAL(dropped, 2);
        weir_test_end();
}

static weir_task *
anywhere(char *message)
{
        weir_task *select = weir_select_new(selected, NULL);

        weir_select_send(select, pair.a, message);
        weir_select_send(select, pair.b, message);
        return select;
}

static void
one_message_in_several_cases_is_sent_once_or_dropped_once(void)
{
        void *message;

        begin();
        make_pair(1);
        weir_task_start(anywhere("x")); /* at once */
        weir_test_pass(0);
        CU_ASSERT_EQUAL(dropped, 0);
        weir_channel_post(pair.b, "full");
        weir_task_start(anywhere("y")); /* later */
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_channel_poll(pair.b, &message), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(dropped, 0);
        CU_ASSERT_STRING_EQUAL(seen, "0::0 1::0");
        weir_task_dismiss(anywhere("z"));
        CU_ASSERT_EQUAL(dropped, 1);
        weir_task *select = weir_select_new(takes_unsent, &message);
        weir_select_send(select, pair.a, "w");
        weir_select_send(select, pair.a, "w");
        weir_channel_close(pair.a);
        weir_task_start(select);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(dropped, 1);
        select = weir_select_new(NULL, NULL);
        weir_select_send(select, pair.b, "v");
        for (int i = 1; i < WEIR_SELECT_MAX; i++)
                weir_select_send(select, pair.b, "v");
        CU_ASSERT_EQUAL(weir_select_send(select, pair.b, "v"), -E2BIG);
        CU_ASSERT_EQUAL(dropped, 1); /* the other cases have it */
        weir_task_dismiss(select);
        CU_ASSERT_EQUAL(dropped, 2);
        free_pair();
        CU_ASSERT_EQUAL(dropped, 4);
        weir_test_end();
}

/* -- one channel in several cases, and selects that meet -- */

static void
select_that_sends_and_receives_does_not_deal_with_itself(void)
{
        weir_task *select = weir_select_new(selected, NULL);

        begin();
        make_pair(0);
        weir_select_send(select, pair.a, "a");
        weir_select_receive(select, pair.a);
        weir_select_receive(select, pair.a);
        weir_task_start(select);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "b"), 0);
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "c"), -EAGAIN);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1:b:0");
        CU_ASSERT_EQUAL(dropped, 2);
        free_pair();
        weir_test_end();
}

static weir_task *
exchange(weir_channel *to, weir_channel *from, char *message)
{
        weir_task *select = weir_select_new(selected, NULL);

        weir_select_send(select, to, message);
        weir_select_receive(select, from);
        return select;
}

static void
two_selects_that_meet_at_two_channels_deal_once(void)
{
        begin();
        make_pair(0);
        weir_task_start(exchange(pair.a, pair.b, "x"));
        weir_task_start(exchange(pair.b, pair.a, "y"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1:y:0 0::0"); /* the first case of the second one */
        CU_ASSERT_EQUAL(dropped, 2);                /* x, which was not sent, and y, which was */
        free_pair();
        weir_test_end();
}

/* -- ends -- */

static void
closed_channel_wins_with_what_it_holds_and_then_with_epipe(void)
{
        weir_task *select = weir_select_new(selected, NULL);

        begin();
        make_pair(1);
        weir_task_start(select_of(pair.b, pair.a));
        weir_channel_close(pair.a); /* one waits */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1::-32");
        weir_channel_post(pair.b, "b");
        weir_channel_close(pair.b);
        weir_task_start(select_of(pair.b, pair.a));
        weir_test_pass(0);
        weir_task_start(select_of(pair.b, pair.a));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1::-32 0:b:0 0::-32");
        weir_select_send(select, pair.b, "c");
        weir_task_start(select);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "1::-32 0:b:0 0::-32 0:c:-32");
        CU_ASSERT_EQUAL(dropped, 2);
        free_pair();
        weir_test_end();
}

static void
time_limit_and_deadline_end_it_and_its_places_are_free(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        make_pair(0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(select_of(pair.a, pair.b), WEIR_SEC(1))), -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(seen, "-2::-110");
        weir_series_set_deadline(series, WEIR_SEC(2));
        weir_series_push(series, select_of(pair.a, pair.b));
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(seen, "-2::-110 -2::-110");
        CU_ASSERT_EQUAL(weir_channel_post(pair.a, "a"), -EAGAIN);
        CU_ASSERT_EQUAL(weir_channel_post(pair.b, "b"), -EAGAIN);
        free_pair();
        weir_test_end();
}

static void
cancel_ends_it_before_and_not_after_it_has_won(void)
{
        weir_series *series[2] = {weir_series_new(NULL, NULL), weir_series_new(NULL, NULL)};

        begin();
        make_pair(0);
        for (int i = 0; i < 2; i++) {
                weir_series_push(weir_series_ref(series[i]), select_of(pair.a, pair.b));
                weir_series_start(series[i]);
        }
        weir_series_cancel(series[0]);
        CU_ASSERT_EQUAL(weir_channel_post(pair.b, "b"), 0);
        weir_series_cancel(series[1]);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "-2::-125 1:b:0");
        CU_ASSERT_EQUAL(dropped, 1);
        for (int i = 0; i < 2; i++)
                weir_series_unref(series[i]);
        free_pair();
        weir_test_end();
}

static void
cancel_before_its_start_takes_nothing(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        make_pair(1);
        weir_channel_post(pair.a, "a");
        weir_series_push(weir_series_ref(series), select_of(pair.a, pair.b));
        weir_series_cancel(series);
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_channel_length(pair.a), 1);
        weir_series_unref(series);
        free_pair();
        weir_test_end();
}

static void
shutdown_ends_it_and_nobody_has_won(void)
{
        begin();
        make_pair(0);
        weir_task_start(select_of(pair.a, pair.b));
        free_pair(); /* it has references */
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "-2::-108");
}

/* -- errors -- */

static void
select_on_nothing_is_refused(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_select_new(selected, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_select_new(selected, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_select_new(selected, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_start(series), -EINVAL);
        weir_task_dismiss(weir_select_new(selected, NULL));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_test_end();
}

static void
sixty_four_cases_are_the_most(void)
{
        weir_channel *channels[WEIR_SELECT_MAX];
        weir_task *select = weir_select_new(selected, NULL);

        begin();
        for (int i = 0; i < WEIR_SELECT_MAX; i++) {
                channels[i] = weir_channel_new(0, drop);
                CU_ASSERT_EQUAL(weir_select_receive(select, channels[i]), i);
        }
        weir_task_start(select);
        CU_ASSERT_EQUAL(weir_channel_post(channels[WEIR_SELECT_MAX - 1], "last"), 0);
        CU_ASSERT_EQUAL(weir_channel_post(channels[0], "first"), -EAGAIN);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "63:last:0");
        select = weir_select_new(selected, NULL);
        for (int i = 0; i < WEIR_SELECT_MAX; i++)
                weir_select_receive(select, channels[i]);
        CU_ASSERT_EQUAL(weir_select_send(select, channels[0], "more"), -E2BIG);
        CU_ASSERT_EQUAL(dropped, 1); /* "last": a refused message stays the caller's */
        CU_ASSERT_EQUAL(weir_task_start(select), -E2BIG);
        for (int i = 0; i < WEIR_SELECT_MAX; i++)
                weir_channel_unref(channels[i]);
        CU_ASSERT_STRING_EQUAL(seen, "63:last:0");
        weir_test_end();
}

static void
null_and_other_tasks_are_refused(void)
{
        weir_task *select = weir_select_new(selected, NULL), *timer = weir_timer_new(0, NULL, NULL);

        begin();
        make_pair(0);
        CU_ASSERT_EQUAL(weir_select_receive(NULL, pair.a), -ENOMEM);
        CU_ASSERT_EQUAL(weir_select_send(NULL, pair.a, "a"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_select_send(NULL, pair.b, "a"), -ENOMEM);
        CU_ASSERT_EQUAL(dropped, 0);
        CU_ASSERT_EQUAL(weir_select_receive(select, pair.a), 0);
        CU_ASSERT_EQUAL(weir_select_send(select, NULL, "b"), -ENOMEM);
        CU_ASSERT_EQUAL(dropped, 0);
        CU_ASSERT_EQUAL(weir_select_winner(select), -ENOENT);
        CU_ASSERT_EQUAL(weir_task_start(select), -ENOMEM);
        CU_ASSERT_EQUAL(weir_select_winner(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_select_winner(timer), -EDOM);
        CU_ASSERT_PTR_NULL(weir_select_take_message(timer, 0));
        CU_ASSERT_PTR_NULL(weir_select_take_message(NULL, 0));
        weir_task_dismiss(timer);
        free_pair();
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_test_end();
}

static void
add_to_a_timer(void)
{
        weir_select_receive(weir_timer_new(0, NULL, NULL), weir_channel_new(0, NULL));
}

static void
add_when_it_was_pushed(void)
{
        weir_channel *channel = weir_channel_new(0, NULL);
        weir_task *select = weir_select_new(NULL, NULL);

        weir_select_receive(select, channel);
        weir_series_push(weir_series_new(NULL, NULL), select);
        weir_select_send(select, channel, NULL);
}

static void
case_for_what_is_no_select_or_is_consumed_aborts(void)
{
        weir_test_aborts(add_to_a_timer, "weir_select_receive: expected a select, and was given timer");
        weir_test_aborts(add_when_it_was_pushed, "weir_select_send: select was already pushed (by weir_series_push)");
}

/* Debug builds see to that. */
#ifdef WEIR_DEBUG
static struct weir__lock locks[2];

static void
lock_downwards(void)
{
        weir__lock(&locks[1]);
        weir__lock(&locks[0]);
}

static void
lock_a_rank_below(void)
{
        struct weir__lock series;

        weir__lock_init(&series, WEIR__RANK_SERIES);
        weir__lock(&locks[0]);
        weir__lock(&locks[1]);
        weir__unlock(&locks[1]);
        weir__lock(&series);
}

static void
only_locks_of_what_is_waited_at_are_held_together_and_those_upwards(void)
{
        weir__lock_init(&locks[0], WEIR__RANK_WAITABLE);
        weir__lock_init(&locks[1], WEIR__RANK_WAITABLE);
        weir__lock(&locks[0]);
        weir__lock(&locks[1]);
        weir__unlock(&locks[0]);
        weir__unlock(&locks[1]);
        weir__lock_expect_none("the end");
        weir_test_aborts(lock_downwards, "while one is held at an address that is not below its own");
        weir_test_aborts(lock_a_rank_below, "ranks must ascend");
}
#endif

/* -- out of memory -- */

/* Makes a select of many cases, of which the last sends, with the nth allocation refused.  Returns whether it came to that. */
static bool
came_to(int nth)
{
        begin();
        int64_t before = bytes_out;
        make_pair(0);
        weir_task_start(weir_channel_send_new(pair.a, "a", NULL, NULL));
        allocations_left = nth;
        weir_task *select = weir_select_new(selected, NULL);
        for (int i = 0; i < 20; i++)
                weir_select_receive(select, i == 19 ? pair.a : pair.b);
        bool given = weir_select_send(select, pair.b, "b") >= 0;
        int failed = weir_task_start(select);
        bool refused = allocations_left < 0;
        allocations_left = -1;
        weir_test_pass(0);
        CU_ASSERT_EQUAL(failed, refused ? -ENOMEM : 0);
        CU_ASSERT_STRING_EQUAL(seen, refused ? "" : "19:a:0");
        CU_ASSERT_EQUAL(dropped, given + !refused);
        free_pair();
        weir_test_end();
        CU_ASSERT_EQUAL(dropped, given + 1);
        CU_ASSERT_EQUAL(bytes_out, before);
        return refused;
}

static void
select_without_memory_reports_it_and_loses_nothing(void)
{
        int nth = 0;

        while (came_to(nth))
                nth++;
        CU_ASSERT_EQUAL(nth, 4); /* the task, and room for 8, 16, 32 */
}

/* -- many threads -- */

#define STORM_THREADS  4
#define STORM_ROUNDS   1500
#define STORM_CHANNELS 3
#define STORM_MESSAGES (STORM_THREADS * STORM_ROUNDS * 4)

#define DROPPED  1
#define RECEIVED 1000

static struct storm {
        weir_channel *channels[STORM_CHANNELS];
        _Atomic unsigned fates[STORM_MESSAGES];
        _Atomic unsigned given, started, ended, received, sent;
        bool closes;
} storm;

static void
storm_drop(void *message)
{
        atomic_fetch_add((_Atomic unsigned *)message, DROPPED);
}

static void *
storm_message(void)
{
        return &storm.fates[atomic_fetch_add(&storm.given, 1)];
}

/* A send has given its message away, unless it has not. */
static void
storm_ended(weir_task *task, void *context)
{
        bool sends = context != NULL;
        _Atomic unsigned *message = weir_channel_message(task);

        atomic_fetch_add(&storm.ended, 1);
        if (weir_task_status(task))
                return;
        CU_ASSERT_EQUAL(message == NULL, sends);
        if (sends) {
                atomic_fetch_add(&storm.sent, 1);
                return;
        }
        atomic_fetch_add(&storm.received, 1);
        if ((message - storm.fates) % 2) /* the others are left to be dropped, and that is all that happens to them */
                atomic_fetch_add((_Atomic unsigned *)weir_channel_take_message(task), RECEIVED);
}

static void
storm_selected(weir_task *task, void *context)
{
        unsigned sends = (unsigned)(uintptr_t)context; /* a bit for each case */
        int winner = weir_select_winner(task);

        CU_ASSERT_EQUAL(winner < 0, weir_task_status(task) != 0 && weir_task_status(task) != -EPIPE);
        storm_ended(task, winner >= 0 && sends >> winner & 1 ? &storm : NULL);
}

static weir_task *
storm_select(uint64_t random)
{
        unsigned count = 1 + random % 4, sends = random >> 8 & 15;
        weir_task *select = weir_select_new(storm_selected, (void *)(uintptr_t)sends);

        for (unsigned i = 0; i < count; i++) {
                weir_channel *channel = storm.channels[(random >> (16 + 4 * i)) % STORM_CHANNELS];

                if (sends >> i & 1)
                        weir_select_send(select, channel, storm_message());
                else
                        weir_select_receive(select, channel);
        }
        return select;
}

static weir_task *
storm_task(uint64_t random)
{
        weir_channel *channel = storm.channels[(random >> 16) % STORM_CHANNELS];

        if (random >> 40 & 1)
                return storm_select(random);
        if (random >> 41 & 1)
                return weir_channel_send_new(channel, storm_message(), storm_ended, &storm);
        return weir_channel_receive_new(channel, storm_ended, NULL);
}

static void *
storm_thread(void *argument)
{
        uint64_t random = (uintptr_t)argument + 1;

        for (unsigned i = 0; i < STORM_ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                weir_series_push(series, storm_task(random >> 12));
                atomic_fetch_add(&storm.started, 1);
                weir_series_start(series);
                if (i % 4 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
                if (storm.closes && i == STORM_ROUNDS / 2)
                        weir_channel_close(storm.channels[(uintptr_t)argument % STORM_CHANNELS]);
        }
        return NULL;
}

static void
storm_on(size_t capacity, bool closes)
{
        pthread_t threads[STORM_THREADS];
        size_t left = 0;

        memset(&storm, 0, sizeof storm);
        storm.closes = closes;
        for (unsigned i = 0; i < STORM_CHANNELS; i++)
                storm.channels[i] = weir_channel_new(capacity, storm_drop);
        weir_test_begin_real(2);
        for (uintptr_t i = 0; i < STORM_THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_thread, (void *)i), 0);
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        for (unsigned i = 0; i < STORM_CHANNELS; i++) {
                left += weir_channel_length(storm.channels[i]);
                weir_channel_unref(storm.channels[i]);
        }
        CU_ASSERT_EQUAL(storm.ended, storm.started);
        CU_ASSERT_EQUAL(storm.received + left, storm.sent);
        CU_ASSERT(storm.received > 0);
        for (unsigned i = 0; i < storm.given; i++)
                CU_ASSERT(storm.fates[i] == DROPPED || storm.fates[i] == RECEIVED);
}

static void
no_message_is_lost_or_doubled_while_selects_meet_each_other_and_all_else(void)
{
        storm_on(0, false);
        storm_on(1, false);
        storm_on(5, true);
        storm_on(0, true);
}

/* -- cases without a channel -- */

static void
case_that_is_off_never_wins_and_keeps_its_index(void)
{
        begin();
        make_pair(1);
        weir_task *select = weir_select_new(selected, NULL);
        CU_ASSERT_EQUAL(weir_select_never(select), 0);
        CU_ASSERT_EQUAL(weir_select_receive(select, pair.a), 1);
        CU_ASSERT_EQUAL(weir_select_never(select), 2);
        CU_ASSERT_EQUAL(weir_select_receive(select, pair.b), 3);
        weir_task_start(select);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_channel_post(pair.b, "x");
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "3:x:0");
        CU_ASSERT_PTR_NULL(weir_select_take_message(NULL, 0));
        weir_channel_unref(pair.a);
        weir_channel_unref(pair.b);
        weir_test_end();
}

static void
select_in_which_nothing_can_win_is_refused(void)
{
        begin();
        weir_task *select = weir_select_new(selected, NULL);
        weir_select_never(select);
        weir_select_never(select);
        CU_ASSERT_EQUAL(weir_task_start(select), -EINVAL);
        CU_ASSERT_EQUAL(weir_select_never(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_select_default(NULL), -ENOMEM);
        weir_test_end();
}

static weir_task *
with_default(void)
{
        weir_task *select = weir_select_new(selected, NULL);

        CU_ASSERT_EQUAL(weir_select_default(select), 0); /* wherever it stands */
        CU_ASSERT_EQUAL(weir_select_receive(select, pair.a), 1);
        CU_ASSERT_EQUAL(weir_select_send(select, pair.b, "y"), 2);
        return select;
}

static void
default_wins_when_nothing_else_is_possible_at_the_start(void)
{
        begin();
        make_pair(0);
        weir_task_start(with_default());
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "0::0");
        CU_ASSERT_EQUAL(dropped, 1);
        weir_task_start(weir_channel_send_new(pair.a, "x", NULL, NULL));
        weir_task_start(with_default());
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "0::0 1:x:0");
        weir_task *alone = weir_select_new(selected, NULL);
        weir_select_default(alone);
        weir_task_start(alone);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "0::0 1:x:0 0::0");
        weir_channel_unref(pair.a);
        weir_channel_unref(pair.b);
        weir_test_end();
}

static void
second_default_is_refused(void)
{
        begin();
        weir_task *select = weir_select_new(selected, NULL);
        CU_ASSERT_EQUAL(weir_select_default(select), 0);
        CU_ASSERT_EQUAL(weir_select_default(select), -EEXIST);
        CU_ASSERT_EQUAL(weir_task_start(select), -EEXIST);
        weir_test_end();
}

static void
cases_without_a_channel_count_for_the_limit_and_need_memory(void)
{
        begin();
        weir_task *select = weir_select_new(selected, NULL);
        for (int i = 0; i < WEIR_SELECT_MAX; i++)
                CU_ASSERT_EQUAL(weir_select_never(select), i);
        CU_ASSERT_EQUAL(weir_select_default(select), -E2BIG);
        weir_task_dismiss(select);
        select = weir_select_new(selected, NULL);
        for (int i = 0; i < 4; i++)
                weir_select_never(select);
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_select_default(select), -ENOMEM);
        allocations_left = -1;
        CU_ASSERT_EQUAL(weir_task_start(select), -ENOMEM);
        weir_test_end();
}

static void
select_with_cases_that_are_off_is_described(void)
{
        char dump[4096];
        int ends[2];

        begin();
        make_pair(0);
        weir_task *select = weir_select_new(selected, NULL);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_select_never(select);
        weir_select_receive(select, pair.a);
        weir_series_push(series, select);
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_debug_dump(ends[1]);
        close(ends[1]);
        ssize_t size = read(ends[0], dump, sizeof dump - 1);
        dump[size > 0 ? size : 0] = '\0';
        close(ends[0]);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, "select pending: to receive from a channel\n"));
        weir_channel_unref(pair.a);
        weir_channel_unref(pair.b);
        weir_test_end(); /* ends it */
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(first_added_of_those_that_are_possible_wins),
                WEIR_TEST(case_that_is_off_never_wins_and_keeps_its_index),
                WEIR_TEST(select_in_which_nothing_can_win_is_refused),
                WEIR_TEST(default_wins_when_nothing_else_is_possible_at_the_start),
                WEIR_TEST(second_default_is_refused),
                WEIR_TEST(cases_without_a_channel_count_for_the_limit_and_need_memory),
                WEIR_TEST(select_with_cases_that_are_off_is_described),
                WEIR_TEST(it_waits_until_one_is_possible_and_leaves_the_others),
                WEIR_TEST(it_sends_to_one_and_what_was_not_sent_is_dropped_or_taken),
                WEIR_TEST(message_that_was_not_sent_can_be_taken),
                WEIR_TEST(one_message_in_several_cases_is_sent_once_or_dropped_once),
                WEIR_TEST(select_that_sends_and_receives_does_not_deal_with_itself),
                WEIR_TEST(two_selects_that_meet_at_two_channels_deal_once),
                WEIR_TEST(closed_channel_wins_with_what_it_holds_and_then_with_epipe),
                WEIR_TEST(time_limit_and_deadline_end_it_and_its_places_are_free),
                WEIR_TEST(cancel_ends_it_before_and_not_after_it_has_won),
                WEIR_TEST(cancel_before_its_start_takes_nothing),
                WEIR_TEST(shutdown_ends_it_and_nobody_has_won),
                WEIR_TEST(select_on_nothing_is_refused),
                WEIR_TEST(sixty_four_cases_are_the_most),
                WEIR_TEST(null_and_other_tasks_are_refused),
                WEIR_TEST(case_for_what_is_no_select_or_is_consumed_aborts),
#ifdef WEIR_DEBUG
                WEIR_TEST(only_locks_of_what_is_waited_at_are_held_together_and_those_upwards),
#endif
                WEIR_TEST(select_without_memory_reports_it_and_loses_nothing),
                WEIR_TEST(no_message_is_lost_or_doubled_while_selects_meet_each_other_and_all_else),
        };

        return weir_test_main("select", tests, sizeof tests / sizeof *tests);
}
