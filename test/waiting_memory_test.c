/* test/waiting_memory_test.c: objects that tasks wait at, and those tasks, each with every one of its allocations refused, one
 * after another.
 *
 * A task that does not end because something is missing ends at the shutdown. */
#include "test/fixture.h"

#include <errno.h>
#include <malloc.h>

#include "test/blocks_fixture.h"

/* The blocks in which a channel keeps messages come from malloc. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static _Atomic bool armed;
static _Atomic unsigned mallocs;

void *
__wrap_malloc(size_t size)
{
        int before = atomic_load(&allocations_left);

        atomic_fetch_add(&mallocs, 1);
        if (!armed || before < 0)
                return __real_malloc(size);
        atomic_store(&allocations_left, before - 1);
        return before == 0 ? NULL : __real_malloc(size);
}

/* -- parts of scenarios -- */

static atomic_uint made, freed, well;        /* tasks */
static atomic_uint messages, dropped, taken; /* that were given away, and got back */

static void
note(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(&well, weir_task_status(task) == 0);
}

static void
takes(weir_task *task, void *context)
{
        note(task, context);
        if (weir_mailbox_take_message(task) || weir_channel_take_message(task))
                atomic_fetch_add(&taken, 1);
}

static void
count_free(void *context)
{
        (void)context;
        atomic_fetch_add(&freed, 1);
}

static void
drop(void *message)
{
        (void)message;
        atomic_fetch_add(&dropped, 1);
}

/* The task, counted. */
static weir_task *
counted(weir_task *task)
{
        atomic_fetch_add(&made, task != NULL);
        weir_task_on_free(task, count_free);
        return task;
}

/* Starts it in a series of its own. */
static void
go(weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, counted(task));
        weir_series_start(series);
}

/* -- scenarios; each returns how many callbacks and posts go well when nothing is refused -- */

static unsigned
counters(void)
{
        weir_counter *counter = weir_counter_new(2);

        go(weir_counter_wait_new(counter, note, NULL));
        go(weir_counter_wait_new(counter, note, NULL));
        go(weir_counter_new_named("n", 1, note, NULL));
        go(weir_counter_new_named("n", 1, note, NULL));
        weir_counter_count(counter, 2);
        weir_counter_count_named("n", 2);
        weir_counter_unref(counter);
        return 4;
}

static unsigned
mailboxes(void)
{
        weir_mailbox *mailbox = weir_mailbox_new(drop), *full = weir_mailbox_new(drop);

        messages += weir_mailbox_send(full, "x") == 0;
        go(weir_mailbox_receive_new(mailbox, takes, NULL));
        messages += weir_mailbox_send(mailbox, "x") == 0;
        go(weir_mailbox_receive_new(full, note, NULL));
        go(weir_mailbox_new_named("n", note, NULL));
        weir_mailbox_send_named("n", "x", WEIR_ALL);
        weir_mailbox_unref(mailbox);
        weir_mailbox_unref(full);
        return 3;
}

/* A send without a channel leaves the message where it was. */
static unsigned
channels(void)
{
        weir_channel *channel = weir_channel_open("n", 300, drop), *narrow = weir_channel_new(1, drop);

        for (unsigned i = 0; i < 300; i++) {
                bool posted = weir_channel_post(channel, "x") == 0;

                messages += posted;
                well += posted;
        }
        messages += channel != NULL;
        go(weir_channel_send_new(channel, "x", note, NULL));
        for (unsigned i = 0; i < 2; i++) {
                messages += narrow != NULL;
                go(weir_channel_send_new(narrow, "x", note, NULL));
        }
        go(weir_channel_receive_new(narrow, takes, NULL));
        go(weir_channel_receive_new(channel, takes, NULL));
        go(weir_channel_receive_new(channel, note, NULL));
        weir_channel_unref(channel);
        weir_channel_unref(narrow);
        return 300 + 6;
}

static unsigned
conditionals(void)
{
        weir_condition *condition = weir_condition_new();

        go(weir_conditional_new(condition, counted(weir_timer_new(1, note, NULL)), note, NULL));
        weir_condition_signal(condition);
        go(weir_conditional_new_named("n", counted(weir_timer_new(1, note, NULL)), note, NULL));
        weir_condition_signal_named("n", 1);
        weir_condition_unref(condition);
        return 4;
}

static unsigned
barriers(void)
{
        weir_barrier *barrier = weir_barrier_new(2), *named = weir_barrier_open("n", 1);

        go(weir_barrier_arrive_new(barrier, note, NULL));
        go(weir_barrier_arrive_new(barrier, note, NULL));
        go(weir_barrier_arrive_new(named, note, NULL));
        weir_barrier_unref(barrier);
        weir_barrier_unref(named);
        return 3;
}

/* The value stays the caller's where there is no promise. */
static unsigned
promises(void)
{
        for (unsigned i = 0; i < 2; i++) {
                weir_task *promise = weir_promise_ref(weir_promise_new(NULL, note, NULL));

                go(promise);
                messages += weir_promise_end_with(promise, 0, "x", drop) == 0;
                weir_promise_unref(promise);
        }
        return 2;
}

static void
takes_value(weir_task *task, void *context)
{
        note(task, context);
        if (weir_task_status(task) == 0 && !weir_watch_value(task))
                abort();
}

/* A value that is not set stays where it was. */
static unsigned
watches(void)
{
        weir_watch *watch = weir_watch_open("n", drop);

        go(weir_watch_wait_new(watch, 0, takes_value, NULL));
        for (unsigned i = 0; i < 2; i++) {
                bool set = weir_watch_set(watch, "x") == 0;

                messages += set;
                well += set;
        }
        weir_watch_unref(watch);
        return 3;
}

/* The one that tries finds memory for all of it, or has nothing. */
static void
tries(weir_task *task, void *context)
{
        weir_guard *guard = weir_guard_new();
        bool has = weir_guard_try_acquire(guard, weir_series_of(task)) == 0;

        (void)context;
        well += has;
        if (guard && weir_guard_is_held(guard, NULL) != has)
                abort();
        weir_guard_unref(guard);
}

static unsigned
guards(void)
{
        weir_guard *guard = weir_guard_new();

        go(weir_guard_acquire_shared_new(guard, note, NULL));
        go(weir_guard_acquire_shared_new(guard, note, NULL));
        go(weir_guard_acquire_new(guard, note, NULL));
        weir_guard_unref(guard);
        go(weir_empty_new(tries, NULL));
        return 4;
}

static unsigned
topics(void)
{
        weir_subscriber *subscriber = weir_topic_subscribe("n", 2);

        for (unsigned i = 0; i < 2; i++)
                well += weir_topic_publish("n", "x", 1) > 0;
        go(weir_topic_receive_new(subscriber, note, NULL));
        weir_subscriber *larger = weir_topic_subscribe("n", 4);
        go(weir_topic_receive_new(larger, note, NULL));
        well += weir_topic_publish("n", "x", 1) > 0;
        weir_subscriber_unref(subscriber);
        weir_subscriber_unref(larger);
        return 5;
}

/* -- one after another -- */

/* Runs it with the nth allocation refused.  Returns whether it came to that. */
static bool
came_to(unsigned scenario(void), int nth)
{
        made = freed = well = messages = dropped = taken = 0;
        weir_test_begin_virtual();
        int64_t before = bytes_out;
        allocations_left = nth;
        armed = true;
        unsigned expected = scenario();
        weir_test_pass(WEIR_SEC(1));
        armed = false;
        bool refused = allocations_left < 0;
        allocations_left = -1;
        weir_test_end();
        CU_ASSERT(refused ? well < expected : well == expected);
        CU_ASSERT_EQUAL(made, freed);
        CU_ASSERT_EQUAL(messages, dropped + taken);
        CU_ASSERT_EQUAL(bytes_out, before);
        CU_ASSERT_EQUAL(
                weir_counter_count_named("n", 1) + weir_mailbox_send_named("n", "x", 1) + weir_condition_signal_named("n", 1), 0);
        return refused;
}

static void
each_refused(unsigned scenario(void), int at_least)
{
        int nth = 0;

        while (came_to(scenario, nth))
                nth++;
        CU_ASSERT(nth >= at_least);
}

static void
counters_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(counters, 1 + 4 * 2 + 2);
}

static void
mailboxes_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(mailboxes, 2 + 3 * 2 + 1);
}

static void
channels_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(channels, 2 + 3 + 6 * 2);
}

static void
conditionals_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(conditionals, 1 + 2 * 5 + 1);
}

static void
barriers_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(barriers, 2 + 3 * 2);
}

static void
promises_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(promises, 2 * 2);
}

static void
watches_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(watches, 1 + 2 + 2);
}

static void
shared_guards_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(guards, 1 + 3 * 4 + 2 + 3);
}

static void
topics_without_memory_report_it_and_leave_nothing(void)
{
        each_refused(topics, 3 + 2 + 2 + 3 + 2 + 1);
}

/* -- what a topic keeps -- */

static void
a_topic_grows_in_few_steps(void)
{
        weir_subscriber *subscribers[1000];

        weir_test_begin_virtual();
        unsigned before = mallocs;
        for (size_t i = 0; i < 1000; i++)
                subscribers[i] = weir_topic_subscribe("t", i + 1);
        CU_ASSERT(WEIR_TEST_SANITIZED || mallocs - before < 100); /* there each block is one */
        for (size_t i = 0; i < 1000; i++)
                weir_subscriber_unref(subscribers[i]);
        weir_test_end();
}

static size_t
bytes_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

static void
a_topic_drops_what_only_a_subscriber_that_left_had_room_for(void)
{
        static const char message[1000];

        weir_test_begin_virtual();
        weir_subscriber *small = weir_topic_subscribe("t", 1);
        size_t before = bytes_in_use();
        weir_subscriber *large = weir_topic_subscribe("t", WEIR_TOPIC_ROOM_MAX);
        for (unsigned i = 0; i < 2000; i++)
                CU_ASSERT_EQUAL(weir_topic_publish("t", message, sizeof message), 2);
        size_t with = bytes_in_use();
        weir_subscriber_unref(large);
        size_t after = bytes_in_use();
        if (!WEIR_TEST_SANITIZED) { /* sanitizers have a malloc of their own */
                CU_ASSERT(with > before + 2000 * sizeof message + WEIR_TOPIC_ROOM_MAX * sizeof(void *));
                CU_ASSERT(after < before + 100 * sizeof message);
        }
        weir_subscriber_unref(small);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(counters_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(mailboxes_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(channels_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(conditionals_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(barriers_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(promises_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(watches_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(topics_without_memory_report_it_and_leave_nothing),
                WEIR_TEST(a_topic_grows_in_few_steps),
                WEIR_TEST(a_topic_drops_what_only_a_subscriber_that_left_had_room_for),
                WEIR_TEST(shared_guards_without_memory_report_it_and_leave_nothing),
        };

        return weir_test_main("waiting_memory", tests, sizeof tests / sizeof *tests);
}
