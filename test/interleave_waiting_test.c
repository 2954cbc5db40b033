/* test/interleave_waiting_test.c: mailboxes, counters, conditionals, channels, barriers and promises while tasks start, are
 * served, are cancelled and time out, in hundreds of orders that seeds make (interleave.h).
 *
 * The waits there have no limit.  So a lost notification is seen: no thread can go on then.  A use of freed memory is seen, too,
 * and so is memory that is not given back. */
#include <errno.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/task/series.h"
#include "factory/sync/waitable.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 300 : 1500) /* of a scenario */

enum { MOST = 6 };

static struct {
        weir_series *series[MOST]; /* of one task each */
        unsigned count;
        weir_mailbox *mailbox;
        weir_channel *channel;
        weir_barrier *barrier;
        weir_guard *guard;
        weir_watch *watch;
        weir_subscriber *subscriber[2];
        _Atomic unsigned alone, sharing;

        _Atomic unsigned freed, well, messages, last, ran;
        _Atomic unsigned counted, sent, dropped;

        struct {
                weir_task *task;
                _Atomic unsigned decided, cancelled, called;
        } promise[2];
} run;

static void
note(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        INTERLEAVE_EXPECT(status == 0 || status == -ECANCELED || status == -ETIMEDOUT || status == -EPIPE ||
                          status == -ESHUTDOWN);
        run.well += status == 0;
        run.messages += weir_mailbox_message(task) || weir_channel_message(task);
        run.last += weir_barrier_is_last(task);
}

static void
note_run(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        run.ran++;
}

static void
note_free(void *context)
{
        (void)context;
        run.freed++;
}

static void
note_drop(void *message)
{
        (void)message;
        run.dropped++;
}

/* -- actors -- */

static void
start(void *index)
{
        weir_series_start(run.series[(uintptr_t)index]);
}

static void
cancel(void *index)
{
        weir_series_cancel(run.series[(uintptr_t)index]);
}

static void
start_and_cancel(void *index)
{
        start(index);
        cancel(index);
}

static void
time_out(void *index)
{
        weir_series_set_deadline(run.series[(uintptr_t)index], 1);
}

static void
send_named(void *max)
{
        run.counted += (unsigned)weir_mailbox_send_named("n", "x", (uintptr_t)max);
}

static void
count_named(void *n)
{
        run.counted += (unsigned)weir_counter_count_named("n", (uintptr_t)n);
}

static void
signal_named(void *max)
{
        run.counted += (unsigned)weir_condition_signal_named("n", (uintptr_t)max);
}

static void
send(void *unused)
{
        (void)unused;
        run.sent += weir_mailbox_send(run.mailbox, "x") == 0;
}

static void
post(void *unused)
{
        (void)unused;
        run.sent += weir_channel_post(run.channel, "x") == 0;
}

static void
end_promise(void *index)
{
        weir_task *promise = run.promise[(uintptr_t)index].task;

        run.promise[(uintptr_t)index].decided += weir_promise_end_with(promise, 0, "x", note_drop) == 0;
        weir_promise_unref(promise);
}

static void
send_and_go(void *unused)
{
        (void)unused;
        run.sent += weir_mailbox_send(run.mailbox, "x") == 0;
        weir_mailbox_sender_unref(run.mailbox);
}

static void
go_away(void *unused)
{
        (void)unused;
        weir_mailbox_sender_unref(run.mailbox);
}

static void
set_watch(void *unused)
{
        (void)unused;
        run.sent += weir_watch_set(run.watch, "x") == 0;
}

static void
close_watch(void *unused)
{
        (void)unused;
        INTERLEAVE_EXPECT(weir_watch_close(run.watch) == 0);
}

static void
publish(void *unused)
{
        (void)unused;
        run.sent += weir_topic_publish("n", "x", 1) > 0;
}

/* Another subscriber comes, with more room, and goes. */
static void
visit_topic(void *unused)
{
        (void)unused;
        weir_subscriber_unref(weir_topic_subscribe("n", 3));
}

static void
leave_topic(void *index)
{
        weir_subscriber_unref(run.subscriber[(uintptr_t)index]);
}

static void
try_guard(void *index)
{
        int status = weir_guard_try_acquire_shared(run.guard, run.series[(uintptr_t)index]);

        INTERLEAVE_EXPECT(status == 0 || status == -EAGAIN || status == -EDEADLK || status == -ESTALE);
}

static void
close_channel(void *unused)
{
        (void)unused;
        INTERLEAVE_EXPECT(weir_channel_close(run.channel) == 0);
}

/* Like the printer of all. */
static void
look_at_all(void *unused)
{
        (void)unused;
        for (struct weir__waitable *object = NULL; (object = weir__waitable_next(object));)
                INTERLEAVE_EXPECT(object->ops);
}

static void
dismiss(void *task)
{
        weir_task_dismiss(task);
}

static void
shut_down(void *unused)
{
        (void)unused;
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

/* -- scenarios -- */

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        memset(&run, 0, sizeof run);
        config.pollers = 2;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
}

/* In a series of its own, whose steps are made anywhere. */
static void
add(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        series->poller = (uint16_t)interleave_random(2);
        task->poller = (uint8_t)interleave_random(2);
        weir_task_on_free(task, note_free);
        weir_series_push(series, task);
        run.series[run.count++] = series;
}

/* Each is started at once, or by an actor; some are cancelled or time out. */
static void
act_on_all(void)
{
        for (uintptr_t i = 0; i < run.count; i++) {
                if (interleave_random(2)) {
                        start((void *)i);
                        if (interleave_random(2))
                                interleave_act(interleave_random(2) ? cancel : time_out, (void *)i);
                } else {
                        interleave_act(interleave_random(2) ? start : start_and_cancel, (void *)i);
                }
        }
}

/* A task that nobody serves ends at the shutdown. */
static void
play(void)
{
        interleave_join_actors();
        interleave_explore(false);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        INTERLEAVE_EXPECT(run.freed == run.count);
        for (unsigned i = 0; i < run.count; i++)
                weir_series_unref(run.series[i]);
}

static void
named_mailboxes(void)
{
        begin();
        for (unsigned i = 0; i < 3; i++)
                add(weir_mailbox_new_named("n", note, NULL));
        for (uintptr_t i = 0; i < run.count; i++) {
                start((void *)i);
                if (interleave_random(3))
                        interleave_act(interleave_random(2) ? cancel : time_out, (void *)i);
        }
        interleave_act(send_named, (void *)1);
        interleave_act(send_named, (void *)(uintptr_t)(1 + interleave_random(2)));
        play();
        INTERLEAVE_EXPECT(run.counted == run.messages && run.well == run.messages);
}

/* Whose message comes before its start as well: it gets it, unless its series was cancelled before it started anything. */
static void
named_mailboxes_that_start(void)
{
        begin();
        for (unsigned i = 0; i < 3; i++)
                add(weir_mailbox_new_named("n", note, NULL));
        for (uintptr_t i = 0; i < run.count; i++)
                interleave_act(interleave_random(2) ? start : start_and_cancel, (void *)i);
        interleave_act(send_named, (void *)(uintptr_t)(1 + interleave_random(3)));
        interleave_act(send_named, (void *)1);
        play();
        INTERLEAVE_EXPECT(run.counted == run.messages && run.well == run.messages);
}

/* Each needs two: a unit that was counted is in a task that has completed, or still in one that has not. */
static void
named_counters(void)
{
        begin();
        for (unsigned i = 0; i < 3; i++)
                add(weir_counter_new_named("n", 2, note, NULL));
        act_on_all();
        interleave_act(count_named, (void *)1);
        interleave_act(count_named, (void *)3);
        play();
        INTERLEAVE_EXPECT(2 * run.well <= run.counted && run.counted <= 4);
}

/* Objects outlive their tasks while somebody looks at them. */
static void
counters_that_go(void)
{
        begin();
        add(weir_counter_new_named("n", 1, note, NULL));
        start(0);
        interleave_act(dismiss, weir_counter_new_named("n", 1, NULL, NULL));
        interleave_act(look_at_all, NULL);
        interleave_act(count_named, (void *)1);
        interleave_act(count_named, (void *)1);
        play();
        INTERLEAVE_EXPECT(run.well <= 1 && run.counted <= 2);
}

/* A task that is started at the same time is refused, or ends with the others. */
static void
starts_and_a_shutdown(void)
{
        begin();
        run.barrier = weir_barrier_new(2);
        add(weir_barrier_arrive_new(run.barrier, note, NULL));
        add(weir_counter_new_named("n", 1, note, NULL));
        add(weir_conditional_new_named("n", weir_empty_new(note_run, NULL), note, NULL));
        weir_barrier_unref(run.barrier);
        for (uintptr_t i = 0; i < run.count; i++)
                interleave_act(interleave_random(3) ? start : start_and_cancel, (void *)i);
        interleave_act(shut_down, NULL);
        play();
        INTERLEAVE_EXPECT(run.well == 0 && run.ran == 0);
}

static void
conditionals(void)
{
        begin();
        for (unsigned i = 0; i < 2; i++)
                add(weir_conditional_new_named("n", weir_empty_new(note_run, NULL), note, NULL));
        act_on_all();
        interleave_act(signal_named, (void *)1);
        interleave_act(signal_named, (void *)2);
        play();
        INTERLEAVE_EXPECT(run.well <= run.ran && run.ran <= run.counted && run.counted <= 2);
}

static void
unnamed_mailbox(void)
{
        begin();
        run.mailbox = weir_mailbox_new(note_drop);
        for (unsigned i = 0; i < 3; i++)
                add(weir_mailbox_receive_new(run.mailbox, note, NULL));
        act_on_all();
        interleave_act(send, NULL);
        interleave_act(send, NULL);
        play();
        weir_mailbox_unref(run.mailbox);
        INTERLEAVE_EXPECT(run.sent == 1 && run.dropped == 1 && run.messages == run.well && run.well <= 1);
}

static void
channel(void)
{
        begin();
        run.channel = weir_channel_new(interleave_random(2), note_drop);
        for (unsigned i = 0; i < 2; i++) {
                add(weir_channel_receive_new(run.channel, note, NULL));
                add(weir_channel_send_new(run.channel, "x", NULL, NULL));
        }
        act_on_all();
        interleave_act(post, NULL);
        interleave_act(interleave_random(2) ? post : close_channel, NULL);
        play();
        weir_channel_unref(run.channel);
        INTERLEAVE_EXPECT(run.dropped == 2 + run.sent);
}

static void
barrier(void)
{
        begin();
        run.barrier = weir_barrier_new(2);
        for (unsigned i = 0; i < 4; i++)
                add(weir_barrier_arrive_new(run.barrier, note, NULL));
        act_on_all();
        play();
        weir_barrier_unref(run.barrier);
        INTERLEAVE_EXPECT(run.well == 2 * run.last && run.last <= 2);
}

static void
note_promise(weir_task *task, void *index)
{
        note(task, NULL);
        run.promise[(uintptr_t)index].called++;
}

static void
note_cancel(weir_task *task, void *index)
{
        INTERLEAVE_EXPECT(weir_task_status(task) < 0 && weir_promise_end(task, 0) == -EALREADY);
        INTERLEAVE_EXPECT(run.promise[(uintptr_t)index].called == 0);
        run.promise[(uintptr_t)index].cancelled++;
}

static void
make_promise(uintptr_t index, unsigned references)
{
        weir_task *task = weir_promise_new(note_cancel, note_promise, (void *)index);

        run.promise[index].task = task;
        while (references-- > 0)
                weir_promise_ref(task);
}

/* Somebody has decided for each that was called; memory and values go in the end, whoever is the last. */
static void
judge_promises(void)
{
        for (unsigned i = 0; i < 2; i++) {
                unsigned decided = run.promise[i].decided, cancelled = run.promise[i].cancelled;

                INTERLEAVE_EXPECT(run.promise[i].called <= 1 && decided <= 1);
                INTERLEAVE_EXPECT(run.promise[i].called ? decided + cancelled == 1 : cancelled == 0);
        }
        INTERLEAVE_EXPECT(run.dropped == run.promise[0].decided + run.promise[1].decided);
}

static void
promises(void)
{
        begin();
        for (uintptr_t i = 0; i < 2; i++) {
                make_promise(i, 2);
                add(run.promise[i].task);
        }
        act_on_all();
        for (uintptr_t i = 0; i < 2; i++) {
                interleave_act(end_promise, (void *)i);
                interleave_act(end_promise, (void *)i);
        }
        play();
        judge_promises();
}

/* One is dismissed, the other one is started while the runtime shuts down. */
static void
promises_that_go(void)
{
        begin();
        make_promise(0, 1);
        add(run.promise[0].task);
        make_promise(1, 2);
        interleave_act(interleave_random(2) ? start : start_and_cancel, 0);
        interleave_act(end_promise, 0);
        interleave_act(shut_down, NULL);
        interleave_act(dismiss, run.promise[1].task);
        interleave_act(end_promise, (void *)1);
        interleave_act(end_promise, (void *)1);
        play();
        judge_promises();
        INTERLEAVE_EXPECT(run.promise[1].called == 0);
}

static void
note_guard(weir_task *task, void *is_shared)
{
        if (weir_task_status(task) == -EDEADLK) /* a try has come first */
                return;
        note(task, NULL);
        if (weir_task_status(task))
                return;
        *(is_shared ? &run.sharing : &run.alone) += 1;
        INTERLEAVE_EXPECT(run.alone + (run.sharing > 0) == 1);
        *(is_shared ? &run.sharing : &run.alone) -= 1;
}

/* Nobody waits for ever, and in the end nobody has it. */
static void
shared_guard(void)
{
        begin();
        run.guard = weir_guard_new();
        for (unsigned i = 0; i < 4; i++)
                add(interleave_random(2) ? weir_guard_acquire_shared_new(run.guard, note_guard, &run)
                                         : weir_guard_acquire_new(run.guard, note_guard, NULL));
        act_on_all();
        interleave_act(try_guard, (void *)(uintptr_t)interleave_random(4));
        play();
        INTERLEAVE_EXPECT(!weir_guard_is_held(run.guard, NULL));
        weir_guard_unref(run.guard);
}

static void
watch(void)
{
        begin();
        run.watch = weir_watch_new(note_drop);
        for (unsigned i = 0; i < 3; i++)
                add(weir_watch_wait_new(run.watch, interleave_random(3), note, NULL));
        act_on_all();
        interleave_act(set_watch, NULL);
        interleave_act(set_watch, NULL);
        interleave_act(interleave_random(2) ? set_watch : close_watch, NULL);
        play();
        weir_watch_unref(run.watch);
        INTERLEAVE_EXPECT(run.dropped == run.sent);
}

static void
note_topic(weir_task *task, void *context)
{
        note(task, context);
        INTERLEAVE_EXPECT((weir_task_status(task) == 0) == (weir_topic_message(task, NULL) != NULL));
}

/* Two receives of one subscriber and one of another, which may have gone otherwise. */
static void
topic(void)
{
        begin();
        run.subscriber[0] = weir_topic_subscribe("n", 1 + interleave_random(2));
        run.subscriber[1] = weir_topic_subscribe("n", 1);
        for (unsigned i = 0; i < 3; i++)
                add(weir_topic_receive_new(run.subscriber[i / 2], note_topic, NULL));
        act_on_all();
        interleave_act(publish, NULL);
        interleave_act(publish, NULL);
        interleave_act(visit_topic, NULL);
        interleave_act(leave_topic, NULL);
        interleave_act(leave_topic, (void *)1);
        play();
        INTERLEAVE_EXPECT(run.well <= 2 * run.sent && weir_topic_publish("n", "x", 1) == 0);
}

static void
mailbox_with_senders(void)
{
        begin();
        run.mailbox = weir_mailbox_new(note_drop);
        weir_mailbox_sender_ref(run.mailbox);
        weir_mailbox_sender_ref(run.mailbox);
        for (unsigned i = 0; i < 3; i++)
                add(weir_mailbox_receive_new(run.mailbox, note, NULL));
        act_on_all();
        interleave_act(go_away, NULL);
        interleave_act(interleave_random(2) ? send_and_go : go_away, NULL);
        play();
        weir_mailbox_unref(run.mailbox);
        INTERLEAVE_EXPECT(run.dropped == run.sent && run.messages == run.well && run.well <= run.sent);
}

/* -- the suite -- */

static void
messages_by_name_meet_cancels(void)
{
        interleave_try(__func__, named_mailboxes, SEEDS);
}

static void
messages_by_name_meet_starts(void)
{
        interleave_try(__func__, named_mailboxes_that_start, SEEDS);
}

static void
counts_by_name_meet_starts_and_cancels(void)
{
        interleave_try(__func__, named_counters, SEEDS);
}

static void
counts_by_name_meet_counters_that_go_and_who_looks_at_them(void)
{
        interleave_try(__func__, counters_that_go, SEEDS);
}

static void
starts_meet_a_shutdown(void)
{
        interleave_try(__func__, starts_and_a_shutdown, SEEDS);
}

static void
signals_meet_starts_and_cancels_of_conditionals(void)
{
        interleave_try(__func__, conditionals, SEEDS);
}

static void
two_sends_to_a_mailbox_meet_its_receivers(void)
{
        interleave_try(__func__, unnamed_mailbox, SEEDS);
}

static void
close_of_a_channel_meets_those_who_send_and_receive(void)
{
        interleave_try(__func__, channel, SEEDS);
}

static void
arrivals_meet_cancels_at_a_barrier(void)
{
        interleave_try(__func__, barrier, SEEDS);
}

static void
ends_of_promises_meet_starts_and_cancels(void)
{
        interleave_try(__func__, promises, SEEDS);
}

static void
ends_of_promises_meet_a_shutdown_and_a_dismiss(void)
{
        interleave_try(__func__, promises_that_go, SEEDS);
}

static void
shares_of_a_guard_meet_those_who_want_it_alone(void)
{
        interleave_try(__func__, shared_guard, SEEDS);
}

static void
values_of_a_watch_meet_starts_cancels_and_its_close(void)
{
        interleave_try(__func__, watch, SEEDS);
}

static void
messages_of_a_topic_meet_subscribers_that_come_and_go(void)
{
        interleave_try(__func__, topic, SEEDS);
}

static void
senders_of_a_mailbox_go_while_tasks_wait(void)
{
        interleave_try(__func__, mailbox_with_senders, SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(messages_by_name_meet_cancels),
                WEIR_TEST(messages_by_name_meet_starts),
                WEIR_TEST(counts_by_name_meet_starts_and_cancels),
                WEIR_TEST(counts_by_name_meet_counters_that_go_and_who_looks_at_them),
                WEIR_TEST(starts_meet_a_shutdown),
                WEIR_TEST(signals_meet_starts_and_cancels_of_conditionals),
                WEIR_TEST(two_sends_to_a_mailbox_meet_its_receivers),
                WEIR_TEST(close_of_a_channel_meets_those_who_send_and_receive),
                WEIR_TEST(arrivals_meet_cancels_at_a_barrier),
                WEIR_TEST(ends_of_promises_meet_starts_and_cancels),
                WEIR_TEST(ends_of_promises_meet_a_shutdown_and_a_dismiss),
                WEIR_TEST(shares_of_a_guard_meet_those_who_want_it_alone),
                WEIR_TEST(values_of_a_watch_meet_starts_cancels_and_its_close),
                WEIR_TEST(messages_of_a_topic_meet_subscribers_that_come_and_go),
                WEIR_TEST(senders_of_a_mailbox_go_while_tasks_wait),
        };

        return weir_test_main("interleave_waiting", tests, sizeof tests / sizeof *tests);
}
