/* test/channel_test.c: tasks that send and receive. */
#include "test/fixture.h"

#include <errno.h>
#include <pthread.h>

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

static void
note(const char *what, int status)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", what, status);
}

static void
sent(weir_task *task, void *message)
{
        note(message, weir_task_status(task));
}

static void
received(weir_task *task, void *context)
{
        const char *message = weir_channel_message(task);
        char text[64];

        (void)context;
        snprintf(text, sizeof text, "got %s", message ? message : "nothing");
        note(text, weir_task_status(task));
}

static void
drop(void *message)
{
        (void)message;
        dropped++;
}

static weir_task *
send(weir_channel *channel, char *message)
{
        return weir_channel_send_new(channel, message, sent, message);
}

static weir_task *
receive(weir_channel *channel)
{
        return weir_channel_receive_new(channel, received, NULL);
}

/* -- in order -- */

static void
full_channel_holds_the_sender_up_and_the_order_stays(void)
{
        static char *const texts[] = {"a", "b", "c", "d"};
        weir_channel *channel = weir_channel_new(2, NULL);

        begin();
        for (int i = 0; i < 4; i++)
                weir_task_start(send(channel, texts[i]));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0");
        CU_ASSERT_EQUAL(weir_channel_length(channel), 2);
        for (int i = 0; i < 5; i++)
                weir_task_start(receive(channel));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c:0 got a:0 d:0 got b:0 got c:0 got d:0");
        weir_channel_unref(channel); /* one still waits, and has a reference */
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen + strlen(seen) - strlen("got nothing:-108"), "got nothing:-108");
}

static void
without_capacity_a_send_ends_when_its_message_is_received(void)
{
        weir_channel *channel = weir_channel_new(0, NULL);

        begin();
        CU_ASSERT_EQUAL(weir_channel_post(channel, "x"), -EAGAIN);
        weir_task_start(send(channel, "a"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_task_start(receive(channel));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 got a:0");
        weir_task_start(receive(channel));
        CU_ASSERT_EQUAL(weir_channel_post(channel, "b"), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 got a:0 got b:0");
        weir_channel_unref(channel);
        weir_test_end();
}

static void
unbounded_channel_is_a_queue_that_never_waits(void)
{
        weir_channel *queue = weir_channel_new(WEIR_UNBOUNDED, NULL);
        void *message = NULL;

        begin();
        for (uintptr_t i = 1; i <= 100000; i++)
                CU_ASSERT_EQUAL_FATAL(weir_channel_post(queue, (void *)i), 0);
        CU_ASSERT_EQUAL(weir_channel_length(queue), 100000);
        for (uintptr_t i = 1; i <= 100000; i++) {
                CU_ASSERT_EQUAL_FATAL(weir_channel_poll(queue, &message), 0);
                CU_ASSERT_EQUAL_FATAL((uintptr_t)message, i);
        }
        CU_ASSERT_EQUAL(weir_channel_poll(queue, &message), -EAGAIN);
        weir_channel_unref(queue);
        weir_test_end();
}

/* -- ends -- */

static void
closed_channel_takes_nothing_and_gives_what_it_holds(void)
{
        weir_channel *channel = weir_channel_new(1, drop);
        void *message;

        begin();
        weir_task_start(send(channel, "a"));
        weir_task_start(send(channel, "b"));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_channel_close(channel), 0);
        CU_ASSERT_EQUAL(weir_channel_close(channel), -EALREADY);
        weir_task_start(send(channel, "c"));
        weir_task_start(receive(channel));
        weir_task_start(receive(channel));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-32 c:-32 got a:0 got nothing:-32");
        CU_ASSERT_EQUAL(dropped, 3);
        CU_ASSERT_EQUAL(weir_channel_post(channel, "d"), -EPIPE);
        CU_ASSERT_EQUAL(weir_channel_poll(channel, &message), -EPIPE);
        weir_channel_unref(channel);
        weir_test_end();
}

static void
cancel_and_deadline_end_a_wait_and_the_next_in_line_is_served(void)
{
        weir_channel *channel = weir_channel_new(0, drop);
        weir_series *cancelled = weir_series_new(NULL, NULL), *late = weir_series_new(NULL, NULL);

        begin();
        weir_series_push(cancelled, receive(channel));
        weir_series_push(late, receive(channel));
        weir_series_set_deadline(late, WEIR_SEC(1));
        weir_series_ref(cancelled);
        weir_series_start(cancelled);
        weir_series_start(late);
        weir_task_start(receive(channel));
        weir_series_cancel(cancelled);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "got nothing:-125 got nothing:-110");
        CU_ASSERT_EQUAL(weir_channel_post(channel, "a"), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "got nothing:-125 got nothing:-110 got a:0");
        CU_ASSERT_EQUAL(dropped, 1);
        weir_series_unref(cancelled);
        weir_channel_unref(channel);
        weir_test_end();
}

static weir_channel *posted_to;

static void
posts_and_cancels(weir_task *task, void *series)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_channel_post(posted_to, "a"), 0);
        weir_series_cancel(series);
}

/* Both happen in one callback of the only worker. */
static void
received_message_stays_received_when_its_series_is_cancelled(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        posted_to = weir_channel_new(0, drop);
        weir_series_push(series, receive(posted_to));
        weir_series_push(series, receive(posted_to));
        weir_series_ref(series);
        weir_series_start(series);
        weir_task_start(weir_empty_new(posts_and_cancels, series));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(strncmp(seen, "got a:0", strlen("got a:0")), 0); /* the second may have begun before the cancel */
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        weir_channel_unref(posted_to);
        weir_test_end();
}

/* -- the free of a message -- */

static void
takes(weir_task *task, void *context)
{
        *(void **)context = weir_channel_take_message(task);
        CU_ASSERT_PTR_NULL(weir_channel_message(task));
}

static void
message_that_nobody_takes_is_dropped_once(void)
{
        weir_channel *channel = weir_channel_new(4, drop);
        void *message = NULL;

        begin();
        weir_task_dismiss(send(channel, "dismissed"));
        CU_ASSERT_EQUAL(dropped, 1);
        weir_channel_post(channel, "left");
        weir_channel_post(channel, "taken");
        weir_channel_post(channel, "kept");
        weir_task_start(receive(channel));
        weir_task_start(weir_channel_receive_new(channel, takes, &message));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(dropped, 2);
        CU_ASSERT_PTR_NOT_NULL_FATAL(message);
        CU_ASSERT_STRING_EQUAL(message, "taken");
        weir_channel_unref(channel);
        CU_ASSERT_EQUAL(dropped, 3);
        weir_test_end();
}

struct taker {
        weir_channel *channel;
        int left;
};

/* In turn by a task of each kind, and now and then by two. */
static void
takes_on(weir_task *task, void *context)
{
        struct taker *taker = context;
        weir_series *series = weir_series_of(task);
        weir_task *select = weir_select_new(takes_on, taker);

        CU_ASSERT_EQUAL(weir_task_status(task), 0);
        CU_ASSERT_EQUAL(weir_channel_length(taker->channel), 10);
        if (taker->left-- == 0) {
                weir_task_dismiss(select);
                return;
        }
        weir_select_receive(select, taker->channel);
        weir_select_receive(select, taker->channel);
        weir_series_push(series, weir_channel_send_new(taker->channel, "more", NULL, NULL));
        if (taker->left % 3 == 0) {
                weir_series_push(series, weir_channel_receive_new(taker->channel, takes_on, taker));
                weir_task_dismiss(select);
        } else if (taker->left % 3 == 1) {
                weir_series_push(series, select);
        } else {
                weir_task_dismiss(weir_channel_receive_new(taker->channel, takes_on, taker));
                weir_series_push(series, weir_channel_receive_new(taker->channel, takes_on, taker));
                weir_task_dismiss(select);
        }
}

static void
channel_that_only_its_flow_has_lives_as_long_as_that(void)
{
        struct taker taker = {weir_channel_new(11, drop), 1000};

        begin();
        for (int i = 0; i < 11; i++)
                weir_channel_post(taker.channel, "message");
        weir_task *first = weir_channel_receive_new(taker.channel, takes_on, &taker);
        weir_channel_unref(taker.channel);
        CU_ASSERT_EQUAL(weir_task_run(first), 0);
        weir_test_end();
        CU_ASSERT_EQUAL(taker.left, -1);
        CU_ASSERT_EQUAL(dropped, 1011);
}

/* -- names -- */

static void
name_leads_to_one_channel_as_long_as_it_is_used(void)
{
        begin();
        weir_channel *channel = weir_channel_open("orders", 1, NULL), *same = weir_channel_open("orders", 1, NULL);
        CU_ASSERT_PTR_EQUAL(channel, same);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_channel_open("orders", 2, NULL));
        CU_ASSERT_EQUAL(errno, EEXIST);
        CU_ASSERT_PTR_NULL(weir_channel_open("", 1, NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_channel_unref(channel);
        weir_channel_unref(same);
        channel = weir_channel_open("orders", 2, NULL);
        CU_ASSERT_PTR_NOT_NULL(channel);
        weir_channel_unref(channel);
        weir_test_end();
}

static void
null_channel_and_other_tasks_are_refused(void)
{
        weir_task *timer = weir_timer_new(0, NULL, NULL);

        begin();
        CU_ASSERT_EQUAL(weir_task_start(send(NULL, "a")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(receive(NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_channel_post(NULL, "a"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_channel_close(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_channel_length(NULL), 0);
        CU_ASSERT_PTR_NULL(weir_channel_message(timer));
        CU_ASSERT_PTR_NULL(weir_channel_take_message(timer));
        weir_task_dismiss(timer);
        weir_channel_unref(NULL);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_test_end();
}

/* -- many threads -- */

#define STORM_THREADS  4
#define STORM_MESSAGES 2000

static struct storm {
        weir_channel *channel;
        atomic_uint sent, received, cancelled;
} storm;

static void
storm_sent(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(weir_task_status(task) == 0 ? &storm.sent : &storm.cancelled, 1);
}

static void
storm_received(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == 0)
                atomic_fetch_add(&storm.received, 1);
}

/* Some of what it starts it cancels at once. */
static void *
storm_thread(void *argument)
{
        bool sends = (uintptr_t)argument % 2;

        for (unsigned i = 0; i < STORM_MESSAGES; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, sends ? weir_channel_send_new(storm.channel, "x", storm_sent, NULL)
                                               : weir_channel_receive_new(storm.channel, storm_received, NULL));
                weir_series_start(series);
                if (i % 3 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
storm_on(size_t capacity)
{
        pthread_t threads[STORM_THREADS];

        storm.sent = storm.received = storm.cancelled = 0;
        dropped = 0;
        storm.channel = weir_channel_new(capacity, drop);
        weir_test_begin_real(2);
        for (uintptr_t i = 0; i < STORM_THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_thread, (void *)i), 0);
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        size_t left = weir_channel_length(storm.channel);
        weir_channel_unref(storm.channel);
        CU_ASSERT_EQUAL(storm.sent + storm.cancelled, STORM_MESSAGES * STORM_THREADS / 2);
        CU_ASSERT_EQUAL(storm.received + left, storm.sent);
        CU_ASSERT_EQUAL((unsigned)dropped, STORM_MESSAGES * STORM_THREADS / 2);
}

static void
no_message_is_lost_or_doubled_while_threads_send_receive_and_cancel(void)
{
        storm_on(0);
        storm_on(1);
        storm_on(1000);
}

/* -- owners of references -- */

/* How a callback disposes of a task that it has made for its own channel.  The task whose callback it is has the only reference
 * to the channel. */
enum use {
        DISMISSED,
        BY_ANOTHER_THREAD,
        IN_ANOTHER_SERIES,
        IN_A_PARALLEL,
        KEPT,
        PUSHED,
        PUSHED_BEHIND, /* one that has to take the lock of the series */
        USES,
};

struct owner {
        weir_channel *channel; /* no reference */
        weir_task *kept;
        enum use use;
};

static void *
dismiss(void *task)
{
        weir_task_dismiss(task);
        return NULL;
}

static void
make_another(struct owner *owner, weir_series *series)
{
        weir_task *task = weir_channel_receive_new(owner->channel, NULL, NULL);
        weir_series *other = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        pthread_t thread;

        switch (owner->use) {
        case DISMISSED: weir_task_dismiss(task); break;
        case BY_ANOTHER_THREAD:
                pthread_create(&thread, NULL, dismiss, task);
                pthread_join(thread, NULL);
                break;
        case IN_ANOTHER_SERIES: weir_series_push(other, task); break;
        case IN_A_PARALLEL: weir_parallel_add(parallel, task); break;
        case KEPT: owner->kept = task; break;
        case PUSHED: weir_series_push(series, task); break;
        case PUSHED_BEHIND:
                weir_series_push_front(series, weir_empty_new(NULL, NULL));
                weir_series_push(series, task);
                break;
        case USES: break;
        }
        weir_series_dismiss(other);
        weir_task_dismiss(parallel);
}

static void
uses_its_channel(weir_task *task, void *context)
{
        struct owner *owner = context;
        void *message = NULL;

        make_another(owner, weir_series_of(task));
        CU_ASSERT_EQUAL(dropped, 0);
        CU_ASSERT_EQUAL(weir_channel_poll(owner->channel, &message), 0);
        CU_ASSERT_EQUAL(weir_channel_post(owner->channel, message), 0);
        weir_task_dismiss(weir_channel_receive_new(owner->channel, NULL, NULL));
        CU_ASSERT_EQUAL(weir_channel_length(owner->channel), 1);
        CU_ASSERT_EQUAL(dropped, 0);
}

static void
channel_is_there_for_the_whole_callback_of_a_task_and_for_those_it_has_made(void)
{
        for (enum use use = DISMISSED; use < USES; use++) {
                begin();
                struct owner owner = {.channel = weir_channel_new(2, drop), .use = use};
                weir_channel_post(owner.channel, "first");
                weir_channel_post(owner.channel, "second");
                weir_task *task = weir_channel_receive_new(owner.channel, uses_its_channel, &owner);
                weir_channel_unref(owner.channel);
                CU_ASSERT_EQUAL(weir_task_run(task), 0);
                if (owner.kept) {
                        CU_ASSERT_EQUAL(dropped, 1);
                        CU_ASSERT_EQUAL(weir_channel_length(owner.channel), 1);
                }
                weir_task_dismiss(owner.kept);
                weir_test_end();
                CU_ASSERT_EQUAL(dropped, 2); /* one received, one left or received by the other */
        }
}

static _Atomic(weir_task *) handed; /* to a thread that dismisses it, whatever the callback is at; NULL: none */
static atomic_bool all_handed;

static void *
dismiss_all(void *unused)
{
        (void)unused;
        while (!all_handed)
                weir_task_dismiss(atomic_exchange(&handed, NULL));
        return NULL;
}

static void
hands_over(weir_task *task, void *channel)
{
        (void)task;
        weir_task_dismiss(atomic_exchange(&handed, weir_channel_receive_new(channel, NULL, NULL)));
}

static void
task_may_be_taken_over_by_another_thread_while_the_callback_that_made_it_ends(void)
{
        enum { ROUNDS = 3000 };
        pthread_t thread;

        dropped = 0;
        all_handed = false;
        weir_test_begin_real(2);
        pthread_create(&thread, NULL, dismiss_all, NULL);
        for (int i = 0; i < ROUNDS; i++) {
                weir_channel *channel = weir_channel_new(2, drop);

                weir_channel_post(channel, "received");
                weir_channel_post(channel, "left");
                weir_task *task = weir_channel_receive_new(channel, hands_over, channel);
                weir_channel_unref(channel);
                CU_ASSERT_EQUAL(weir_task_run(task), 0);
        }
        all_handed = true;
        pthread_join(thread, NULL);
        weir_task_dismiss(atomic_exchange(&handed, NULL));
        weir_test_end();
        CU_ASSERT_EQUAL(dropped, 2 * ROUNDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(full_channel_holds_the_sender_up_and_the_order_stays),
                WEIR_TEST(without_capacity_a_send_ends_when_its_message_is_received),
                WEIR_TEST(unbounded_channel_is_a_queue_that_never_waits),
                WEIR_TEST(closed_channel_takes_nothing_and_gives_what_it_holds),
                WEIR_TEST(cancel_and_deadline_end_a_wait_and_the_next_in_line_is_served),
                WEIR_TEST(received_message_stays_received_when_its_series_is_cancelled),
                WEIR_TEST(message_that_nobody_takes_is_dropped_once),
                WEIR_TEST(channel_that_only_its_flow_has_lives_as_long_as_that),
                WEIR_TEST(name_leads_to_one_channel_as_long_as_it_is_used),
                WEIR_TEST(channel_is_there_for_the_whole_callback_of_a_task_and_for_those_it_has_made),
                WEIR_TEST(task_may_be_taken_over_by_another_thread_while_the_callback_that_made_it_ends),
                WEIR_TEST(null_channel_and_other_tasks_are_refused),
                WEIR_TEST(no_message_is_lost_or_doubled_while_threads_send_receive_and_cancel),
        };

        return weir_test_main("channel", tests, sizeof tests / sizeof *tests);
}
