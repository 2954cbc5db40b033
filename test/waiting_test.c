/* test/waiting_test.c: what holds for all objects that tasks wait at: very many waits; shutdowns and forks while objects come and
 * go. */
#include "test/fixture.h"

#include <errno.h>

/* -- very many waits at one object -- */

#define MANY 100000

static atomic_uint ended, well, freed;
static int last_status;
static unsigned in_order;

static void
count_end(weir_task *task, void *context)
{
        in_order += (uintptr_t)context == in_order;
        last_status = weir_task_status(task);
        well += last_status == 0;
        ended++;
}

static void
begin(void)
{
        ended = well = freed = in_order = 0;
        last_status = 1;
        weir_test_begin_virtual();
}

static void
start_many(weir_counter *counter)
{
        for (uintptr_t i = 0; i < MANY; i++)
                CU_ASSERT_EQUAL_FATAL(weir_task_start(weir_counter_wait_new(counter, count_end, (void *)i)), 0);
}

static void
very_many_go_on_in_order_at_one_count(void)
{
        weir_counter *counter = weir_counter_new(1);

        begin();
        start_many(counter);
        weir_counter_count(counter, 1);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(well, MANY);
        CU_ASSERT_EQUAL(in_order, MANY);
        weir_counter_unref(counter);
        weir_test_end();
}

static void
very_many_end_at_one_cancel_and_the_next_is_served(void)
{
        weir_channel *channel = weir_channel_new(0, NULL);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        begin();
        for (uintptr_t i = 0; i < MANY; i++)
                weir_parallel_add(parallel, weir_channel_receive_new(channel, count_end, (void *)i));
        weir_series_push(series, parallel);
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(ended, MANY);
        CU_ASSERT_EQUAL(last_status, -ECANCELED);
        weir_task_start(weir_channel_receive_new(channel, count_end, NULL));
        CU_ASSERT_EQUAL(weir_channel_post(channel, "x"), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(well, 1);
        weir_series_unref(series);
        weir_channel_unref(channel);
        weir_test_end();
}

static weir_series *backlog[MANY];
static weir_channel *backlogged;

/* The only worker is here, so all whom this cancels are still linked when the post comes upon them. */
static void
cancel_the_backlog_and_post(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        for (unsigned i = 0; i < MANY; i++) {
                weir_series_cancel(backlog[i]);
                weir_series_unref(backlog[i]);
        }
        weir_task_start(weir_channel_receive_new(backlogged, count_end, NULL));
        CU_ASSERT_EQUAL(weir_channel_post(backlogged, "x"), 0);
}

static void
very_many_that_were_cancelled_just_now_are_passed_over(void)
{
        begin();
        backlogged = weir_channel_new(0, NULL);
        for (unsigned i = 0; i < MANY; i++) {
                backlog[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(backlog[i], weir_channel_receive_new(backlogged, count_end, NULL));
                weir_series_start(backlog[i]);
        }
        weir_task_run(weir_empty_new(cancel_the_backlog_and_post, NULL));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(ended, MANY + 1);
        CU_ASSERT_EQUAL(well, 1);
        weir_channel_unref(backlogged);
        weir_test_end();
}

static void
very_many_end_at_the_shutdown(void)
{
        weir_counter *counter = weir_counter_new(1);

        begin();
        start_many(counter);
        weir_counter_unref(counter);
        weir_test_end();
        CU_ASSERT_EQUAL(ended, MANY);
        CU_ASSERT_EQUAL(last_status, -ESHUTDOWN);
}

static void
very_many_meet_at_one_barrier(void)
{
        weir_barrier *barrier = weir_barrier_new(MANY);
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        begin();
        for (uintptr_t i = 0; i < MANY; i++)
                weir_parallel_add(parallel, weir_barrier_arrive_new(barrier, count_end, (void *)i));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(well, MANY);
        CU_ASSERT_EQUAL(in_order, MANY);
        weir_barrier_unref(barrier);
        weir_test_end();
}

/* -- shutdowns while objects are made, waited at and counted to -- */

static atomic_bool over;
static atomic_uint made;

static void
note_freed(void *context)
{
        (void)context;
        atomic_fetch_add(&freed, 1);
}

static void
go(weir_task *task)
{
        atomic_fetch_add(&made, 1);
        weir_task_on_free(task, note_freed);
        weir_task_start(task);
}

static void *
churn(void *argument)
{
        (void)argument;
        while (!over) {
                weir_counter *counter = weir_counter_new(1);
                weir_channel *channel = weir_channel_open("churn", 1, NULL);
                weir_barrier *barrier = weir_barrier_new(2);
                weir_mailbox *mailbox = weir_mailbox_new(NULL);

                go(weir_counter_wait_new(counter, NULL, NULL));
                go(weir_counter_new_named("churn", 1, NULL, NULL));
                go(weir_channel_receive_new(channel, NULL, NULL));
                go(weir_barrier_arrive_new(barrier, NULL, NULL));
                go(weir_mailbox_receive_new(mailbox, NULL, NULL));
                go(weir_mailbox_new_named("churn", NULL, NULL));
                go(weir_conditional_new_named("churn", weir_timer_new(0, NULL, NULL), NULL, NULL));
                if (made % 2)
                        weir_counter_count(counter, 1);
                weir_counter_count_named("churn", 1);
                weir_condition_signal_named("churn", 1);
                weir_counter_unref(counter);
                weir_channel_unref(channel);
                weir_barrier_unref(barrier);
                weir_mailbox_unref(mailbox);
        }
        return NULL;
}

static void
shutdown_ends_all_waits_whatever_is_made_meanwhile(void)
{
        ended = made = freed = 0;
        for (unsigned round = 0; round < 20; round++) {
                pthread_t thread;

                over = false;
                weir_test_begin_real(2);
                CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, churn, NULL), 0);
                unsigned before = made;
                WEIR_TEST_EVENTUALLY(made > before + 500);
                weir_test_end();
                over = true;
                pthread_join(thread, NULL);
                CU_ASSERT_EQUAL(made, freed);
        }
}

/* -- forks -- */

#define KEPT 64

static weir_counter *kept_counter, *kept[KEPT];
static weir_channel *kept_channel;
static weir_task *kept_task;

/* Nothing works, nothing hangs, and what the child has can be given up. */
static void
in_the_child(void)
{
        alarm(20); /* if it hangs */
        weir_task *wait = weir_counter_wait_new(kept_counter, NULL, NULL);
        if (weir_counter_count(kept_counter, 1) != 0 || weir_channel_post(kept_channel, "x") != -ECHILD ||
            weir_condition_signal_named("churn", WEIR_ALL) != 0 || weir_task_start(wait) != -ECHILD)
                abort();
        for (unsigned i = 0; i < KEPT; i++)
                weir_counter_unref(kept[i]);
        weir_task_dismiss(kept_task);
        weir_task_dismiss(weir_mailbox_new_named("churn", NULL, NULL));
        weir_channel_unref(weir_channel_open("churn", 1, NULL));
        weir_counter_unref(kept_counter);
        weir_channel_unref(kept_channel);
}

static void *
make_and_unmake(void *argument)
{
        (void)argument;
        while (!over)
                weir_counter_unref(weir_counter_new(1));
        return NULL;
}

static void
child_of_a_fork_gives_up_what_it_has_while_others_had_all_locks(void)
{
        pthread_t threads[2];
        char said[256];

        if (WEIR_TEST_SANITIZED)
                return; /* the allocator of AddressSanitizer may be locked for ever in the child of a process with threads */
        over = false;
        weir_test_begin_real(2);
        kept_counter = weir_counter_new(1);
        kept_channel = weir_channel_new(1, NULL);
        kept_task = weir_counter_new_named("churn", 1000, NULL, NULL);
        for (unsigned i = 0; i < KEPT; i++)
                kept[i] = weir_counter_new(1);
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, i ? make_and_unmake : churn, NULL), 0);
        for (unsigned i = 0; i < 30; i++)
                CU_ASSERT_EQUAL(weir_test_child(in_the_child, said, sizeof said), 0);
        over = true;
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < KEPT; i++)
                weir_counter_unref(kept[i]);
        weir_task_dismiss(kept_task);
        weir_counter_unref(kept_counter);
        weir_channel_unref(kept_channel);
        weir_test_end();
}

/* -- by name in a child that may not use them -- */

static void
open_all_in_a_child(void)
{
        weir_test_leaks_do_not_count = 1;
        for (unsigned i = 0; i < 2; i++) { /* those of the parent; new ones */
                const char *name = i == 0 ? "open" : "new";

#define IS_REFUSED(call) (errno = 0, (call) == NULL && errno == ECHILD)
                if (!IS_REFUSED(weir_watch_open(name, NULL)) || !IS_REFUSED(weir_rate_open(name, 1, 1, 1)) ||
                    !IS_REFUSED(weir_guard_open(name)) || !IS_REFUSED(weir_semaphore_open(name, 1)) ||
                    !IS_REFUSED(weir_barrier_open(name, 1)) || !IS_REFUSED(weir_channel_open(name, 1, NULL)) ||
                    !IS_REFUSED(weir_pool_open(name, NULL)) || !IS_REFUSED(weir_topic_subscribe(name, 1)))
                        abort();
        }
}

static void
no_object_is_opened_by_name_in_a_forked_child(void)
{
        char said[256];

        weir_test_begin_real(1);
        weir_watch *watch = weir_watch_open("open", NULL);
        weir_rate *rate = weir_rate_open("open", 1, 1, 1);
        weir_guard *guard = weir_guard_open("open");
        weir_semaphore *semaphore = weir_semaphore_open("open", 1);
        weir_barrier *barrier = weir_barrier_open("open", 1);
        weir_channel *channel = weir_channel_open("open", 1, NULL);
        weir_pool *pool = weir_pool_open("open", NULL);
        weir_subscriber *subscriber = weir_topic_subscribe("open", 1);
        CU_ASSERT_EQUAL(weir_test_child(open_all_in_a_child, said, sizeof said), 0);
        weir_watch_unref(watch);
        weir_rate_unref(rate);
        weir_guard_unref(guard);
        weir_semaphore_unref(semaphore);
        weir_barrier_unref(barrier);
        weir_channel_unref(channel);
        weir_pool_unref(pool);
        weir_subscriber_unref(subscriber);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(very_many_go_on_in_order_at_one_count),
                WEIR_TEST(very_many_end_at_one_cancel_and_the_next_is_served),
                WEIR_TEST(very_many_that_were_cancelled_just_now_are_passed_over),
                WEIR_TEST(very_many_end_at_the_shutdown),
                WEIR_TEST(very_many_meet_at_one_barrier),
                WEIR_TEST(shutdown_ends_all_waits_whatever_is_made_meanwhile),
                WEIR_TEST(no_object_is_opened_by_name_in_a_forked_child),
                WEIR_TEST(child_of_a_fork_gives_up_what_it_has_while_others_had_all_locks),
        };

        return weir_test_main("waiting", tests, sizeof tests / sizeof *tests);
}
