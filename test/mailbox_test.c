/* test/mailbox_test.c: one message each, with and without names. */
#include "test/fixture.h"

#include <errno.h>

/* -- the events, as a text -- */

static char seen[512];
static atomic_int dropped;

static void
begin(void)
{
        seen[0] = '\0';
        dropped = 0;
        weir_test_begin_virtual();
}

static void
received(weir_task *task, void *name)
{
        const char *message = weir_mailbox_message(task);
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d:%s", size ? " " : "", (const char *)name, weir_task_status(task),
                 message ? message : "-");
}

static void
drop(void *message)
{
        (void)message;
        dropped++;
}

static weir_task *
receive(weir_mailbox *mailbox, char *name)
{
        return weir_mailbox_receive_new(mailbox, received, name);
}

static weir_task *
named(char *name)
{
        return weir_mailbox_new_named("news", received, name);
}

/* -- without a name -- */

static void
message_reaches_the_first_who_waits_and_the_others_wait_no_more(void)
{
        weir_mailbox *mailbox = weir_mailbox_new(drop);

        begin();
        weir_task_start(receive(mailbox, "a"));
        weir_task_start(receive(mailbox, "b"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "x"), 0);
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "y"), -EALREADY);
        weir_task_start(receive(mailbox, "c"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0:x b:-32:- c:-32:-");
        CU_ASSERT_EQUAL(dropped, 1);
        weir_mailbox_unref(mailbox);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

static void
message_is_kept_until_somebody_receives_it(void)
{
        weir_mailbox *mailbox = weir_mailbox_new(drop);

        begin();
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "x"), 0);
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "y"), -EALREADY);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_task_run(receive(mailbox, "a")), 0);
        CU_ASSERT_EQUAL(weir_task_run(receive(mailbox, "b")), -EPIPE);
        CU_ASSERT_STRING_EQUAL(seen, "a:0:x b:-32:-");
        weir_mailbox_unref(mailbox);
        weir_test_end();
}

static void
takes(weir_task *task, void *context)
{
        *(void **)context = weir_mailbox_take_message(task);
        CU_ASSERT_PTR_NULL(weir_mailbox_message(task));
}

static void
message_that_nobody_takes_is_dropped_once(void)
{
        weir_mailbox *never = weir_mailbox_new(drop), *taken = weir_mailbox_new(drop), *plain = weir_mailbox_new(NULL);
        void *message = NULL;

        begin();
        weir_mailbox_send(never, "never received");
        weir_task_dismiss(receive(never, "dismissed"));
        weir_mailbox_unref(never);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_mailbox_send(taken, "taken");
        CU_ASSERT_EQUAL(weir_task_run(weir_mailbox_receive_new(taken, takes, &message)), 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(message);
        CU_ASSERT_STRING_EQUAL(message, "taken");
        weir_mailbox_unref(taken);
        weir_mailbox_send(plain, NULL);
        weir_mailbox_unref(plain);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

static void
cancel_deadline_and_shutdown_leave_the_message_to_the_next(void)
{
        weir_mailbox *mailbox = weir_mailbox_new(drop), *empty = weir_mailbox_new(drop);
        weir_series *cancelled = weir_series_ref(weir_series_new(NULL, NULL)), *late = weir_series_new(NULL, NULL);

        begin();
        weir_series_push(cancelled, receive(mailbox, "cancelled"));
        weir_series_push(late, receive(mailbox, "late"));
        weir_series_set_deadline(late, WEIR_SEC(1));
        weir_series_start(cancelled);
        weir_series_start(late);
        weir_task_start(receive(mailbox, "next"));
        weir_series_cancel(cancelled);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "x"), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125:- late:-110:- next:0:x");
        seen[0] = '\0';
        weir_task_start(receive(empty, "left"));
        weir_mailbox_unref(empty);
        weir_mailbox_unref(mailbox);
        weir_series_unref(cancelled);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "left:-108:-");
}

static weir_mailbox *sent_to;

static void
sends_and_cancels(weir_task *task, void *series)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_mailbox_send(sent_to, "x"), 0);
        weir_series_cancel(series);
}

/* Both happen in one callback of the only worker. */
static void
received_message_stays_received_when_its_series_is_cancelled(void)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        sent_to = weir_mailbox_new(drop);
        weir_series_push(series, receive(sent_to, "a"));
        weir_series_start(series);
        weir_task_start(weir_empty_new(sends_and_cancels, series));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0:x");
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        weir_mailbox_unref(sent_to);
        weir_test_end();
}

/* -- with a name -- */

static void
sent_by_name_the_oldest_get_it_first_and_once_each(void)
{
        static char x[] = "x", y[] = "y";

        begin();
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", x, WEIR_ALL), 0); /* nobody is there: it is lost */
        weir_task *a = named("a"), *b = named("b"), *c = named("c");
        weir_task_start(c);
        weir_task_start(b);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", x, 0), 0);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", x, 2), 2); /* a has not been started yet */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b:0:x");
        weir_task_start(a);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b:0:x a:0:x");
        weir_task_start(named("d"));
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", y, WEIR_ALL), 2);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", y, WEIR_ALL), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b:0:x a:0:x c:0:y d:0:y");
        weir_test_end();
}

static void
one_that_has_its_message_before_its_start_gets_no_other(void)
{
        begin();
        weir_task *task = named("a");
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", "x", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", "y", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0:x");
        weir_test_end();
}

static void
a_cancelled_or_dismissed_task_gets_nothing_and_is_not_counted(void)
{
        weir_series *cancelled = weir_series_ref(weir_series_new(NULL, NULL));
        void *message = NULL;

        begin();
        weir_series_push(cancelled, named("cancelled"));
        weir_series_start(cancelled);
        weir_task_dismiss(named("dismissed"));
        weir_task_start(weir_mailbox_new_named("news", takes, &message));
        weir_series_cancel(cancelled);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", "x", WEIR_ALL), 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125:-");
        CU_ASSERT_PTR_NOT_NULL_FATAL(message);
        CU_ASSERT_STRING_EQUAL(message, "x");
        weir_task_start(named("left"));
        weir_series_unref(cancelled);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125:- left:-108:-");
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", "x", WEIR_ALL), 0);
}

static void
a_wrong_mailbox_or_name_is_refused(void)
{
        weir_task *timer = weir_timer_new(0, NULL, NULL), *counter = weir_counter_new_named("news", 1, NULL, NULL);
        char *name = malloc(WEIR_NAME_MAX + 2);

        begin();
        memset(name, 'x', WEIR_NAME_MAX + 1);
        name[WEIR_NAME_MAX + 1] = '\0';
        CU_ASSERT_EQUAL(weir_mailbox_send(NULL, "x"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(receive(NULL, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("news", "x", WEIR_ALL), 0); /* a counter's name is no mailbox's */
        CU_ASSERT_EQUAL(weir_mailbox_send_named(NULL, "x", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_mailbox_send_named("", "x", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_mailbox_send_named(name, "x", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_mailbox_new_named(NULL, received, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_mailbox_new_named("", received, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_mailbox_new_named(name, received, "x")), -ENAMETOOLONG);
        CU_ASSERT_PTR_NULL(weir_mailbox_message(NULL));
        CU_ASSERT_PTR_NULL(weir_mailbox_message(timer));
        CU_ASSERT_PTR_NULL(weir_mailbox_take_message(timer));
        CU_ASSERT_PTR_NULL(weir_mailbox_take_message(counter));
        weir_mailbox_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_mailbox_ref(NULL));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_task_dismiss(timer);
        weir_task_dismiss(counter);
        free(name);
        weir_test_end();
}

/* -- many threads -- */

#define STORM_ROUNDS    500
#define STORM_RECEIVERS 4
#define STORM_TASKS     4000

static struct storm {
        weir_mailbox *mailbox;
        atomic_uint sent, received, ended, counted;
        atomic_bool over;
} storm;

static void
storm_received(weir_task *task, void *context)
{
        (void)context;
        bool got = weir_mailbox_message(task);

        CU_ASSERT_EQUAL(got, weir_task_status(task) == 0);
        atomic_fetch_add(&storm.received, got);
}

/* It is not called back when its series ended before it was started. */
static void
storm_gone(void *context)
{
        (void)context;
        atomic_fetch_add(&storm.ended, 1);
}

static void *
storm_sends(void *argument)
{
        (void)argument;
        if (weir_mailbox_send(storm.mailbox, "x") == 0)
                atomic_fetch_add(&storm.sent, 1);
        return NULL;
}

/* Two send to one mailbox while four receive, one of whom is cancelled. */
static void
each_message_is_received_or_dropped_once_while_threads_send_receive_and_cancel(void)
{
        storm = (struct storm){0};
        dropped = 0;
        weir_test_begin_real(2);
        for (unsigned round = 0; round < STORM_ROUNDS; round++) {
                pthread_t threads[2];

                storm.mailbox = weir_mailbox_new(drop);
                for (unsigned i = 0; i < 2; i++)
                        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_sends, NULL), 0);
                for (unsigned i = 0; i < STORM_RECEIVERS; i++) {
                        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                        weir_task *task = weir_mailbox_receive_new(storm.mailbox, storm_received, NULL);

                        weir_task_on_free(task, storm_gone);
                        weir_series_push(series, task);
                        weir_series_start(series);
                        if (i == round % STORM_RECEIVERS)
                                weir_series_cancel(series);
                        weir_series_unref(series);
                }
                for (unsigned i = 0; i < 2; i++)
                        pthread_join(threads[i], NULL);
                WEIR_TEST_EVENTUALLY(storm.ended == (round + 1) * STORM_RECEIVERS);
                weir_mailbox_unref(storm.mailbox);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(storm.sent, STORM_ROUNDS);
        CU_ASSERT_EQUAL(storm.received, STORM_ROUNDS);
        CU_ASSERT_EQUAL((unsigned)dropped, STORM_ROUNDS);
}

static void *
storm_sends_by_name(void *argument)
{
        while (!storm.over)
                atomic_fetch_add(&storm.counted, (unsigned)weir_mailbox_send_named("storm", "x", (size_t)(uintptr_t)argument));
        return NULL;
}

/* A task that is dismissed or dropped before its start may have got a message, so no task here is. */
static void
sent_by_name_is_counted_exactly_as_often_as_received(void)
{
        pthread_t threads[2];

        storm = (struct storm){0};
        weir_test_begin_real(2);
        for (uintptr_t i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_sends_by_name, (void *)(i ? WEIR_ALL : 1)), 0);
        for (unsigned i = 0; i < STORM_TASKS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *task = weir_mailbox_new_named("storm", storm_received, NULL);

                weir_task_on_free(task, storm_gone);
                weir_series_push(series, task);
                weir_series_start(series);
                if (i % 3 == 1)
                        weir_series_set_deadline(series, WEIR_USEC(50));
                if (i % 3 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        WEIR_TEST_EVENTUALLY(storm.ended == STORM_TASKS);
        storm.over = true;
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(storm.counted, storm.received);
}

/* -- senders -- */

static void
receivers_learn_that_the_last_sender_has_gone(void)
{
        begin();
        weir_mailbox *mailbox = weir_mailbox_new(drop);
        CU_ASSERT_PTR_EQUAL(weir_mailbox_sender_ref(mailbox), mailbox);
        weir_mailbox_sender_ref(mailbox);
        weir_task_start(receive(mailbox, "a"));
        weir_task_start(receive(mailbox, "b"));
        weir_mailbox_sender_unref(mailbox);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_mailbox_sender_unref(mailbox);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:-32:- b:-32:-");
        weir_task_start(receive(mailbox, "c"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:-32:- b:-32:- c:-32:-");
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "x"), -EPIPE);
        weir_mailbox_unref(mailbox);
        weir_test_end();
        CU_ASSERT_EQUAL(dropped, 0);
}

static void
message_of_a_sender_that_has_gone_is_still_received(void)
{
        begin();
        weir_mailbox *mailbox = weir_mailbox_sender_ref(weir_mailbox_new(drop));
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "x"), 0);
        weir_mailbox_sender_unref(mailbox);
        weir_task_start(receive(mailbox, "a"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0:x");
        weir_mailbox_sender_ref(mailbox);
        CU_ASSERT_EQUAL(weir_mailbox_send(mailbox, "y"), -EALREADY);
        weir_mailbox_sender_unref(mailbox);
        weir_mailbox_unref(mailbox);
        CU_ASSERT_PTR_NULL(weir_mailbox_sender_ref(NULL));
        weir_mailbox_sender_unref(NULL);
        weir_test_end();
}

static void
drop_a_sender_too_many(void)
{
        weir_mailbox_sender_unref(weir_mailbox_new(NULL));
}

static void
dropping_a_sender_that_is_none_aborts(void)
{
        weir_test_aborts(drop_a_sender_too_many, "weir_mailbox_sender_unref: the mailbox has no sender");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(message_reaches_the_first_who_waits_and_the_others_wait_no_more),
                WEIR_TEST(message_is_kept_until_somebody_receives_it),
                WEIR_TEST(receivers_learn_that_the_last_sender_has_gone),
                WEIR_TEST(message_of_a_sender_that_has_gone_is_still_received),
                WEIR_TEST(dropping_a_sender_that_is_none_aborts),
                WEIR_TEST(message_that_nobody_takes_is_dropped_once),
                WEIR_TEST(cancel_deadline_and_shutdown_leave_the_message_to_the_next),
                WEIR_TEST(received_message_stays_received_when_its_series_is_cancelled),
                WEIR_TEST(sent_by_name_the_oldest_get_it_first_and_once_each),
                WEIR_TEST(one_that_has_its_message_before_its_start_gets_no_other),
                WEIR_TEST(a_cancelled_or_dismissed_task_gets_nothing_and_is_not_counted),
                WEIR_TEST(a_wrong_mailbox_or_name_is_refused),
                WEIR_TEST(each_message_is_received_or_dropped_once_while_threads_send_receive_and_cancel),
                WEIR_TEST(sent_by_name_is_counted_exactly_as_often_as_received),
        };

        return weir_test_main("mailbox", tests, sizeof tests / sizeof *tests);
}
