/* test/interleave_fiber_test.c: fibers that begin, wait at channels and waitgroups, await with a limit, open groups and end,
 * while they are cancelled, served and started, and their deadline comes, in hundreds of orders that seeds make
 * (interleave.h). */
#include <errno.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/task/series.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 300 : 1500) /* of a scenario */

static struct {
        weir_series *series;
        weir_channel *channel;
        weir_mailbox *mailbox;
        weir_waitgroup *group;
        _Atomic bool is_cancelled; /* a cancel has returned */
        bool has_deadline;
        _Atomic unsigned ended, received, posted, children;
} run;

/* -- actors -- */

static void
start(void *unused)
{
        (void)unused;
        weir_series_start(run.series);
}

static void
cancel(void *unused)
{
        (void)unused;
        weir_series_cancel(run.series);
        run.is_cancelled = true;
}

static void
set_deadline(void *unused)
{
        (void)unused;
        weir_series_set_deadline(run.series, 1);
}

static void
post(void *unused)
{
        (void)unused;
        run.posted += weir_channel_post(run.channel, "x") == 0;
}

static void
send(void *unused)
{
        (void)unused;
        run.posted += weir_mailbox_send(run.mailbox, "x") == 0;
}

static void
be_done(void *unused)
{
        (void)unused;
        weir_waitgroup_done(run.group);
}

/* -- fibers -- */

/* A cancel that has returned before the await began decides. */
#define AWAITS(call)                           \
        do {                                   \
                bool must_ = run.is_cancelled; \
                note_await(must_, (call));     \
        } while (0)

static void
note_await(bool must, int status)
{
        if (must && status != -ECANCELED)
                interleave_fail("an await behind a cancel has returned %d", status);
        if (status && status != -ECANCELED && status != -ETIMEDOUT && status != -ESHUTDOWN && status != -EPIPE)
                interleave_fail("an await has returned %d", status);
        INTERLEAVE_EXPECT(weir_series_status(weir_fiber_series()) != -ETIMEDOUT || run.has_deadline); /* a limit is taken back */
}

static int
awaits_with_limits(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < 3; i++)
                AWAITS(weir_await_within(weir_mailbox_receive_new(run.mailbox, NULL, NULL), 1));
        AWAITS(weir_fiber_yield());
        AWAITS(weir_fiber_sleep(1));
        return 0;
}

static int
receive(void)
{
        void *message;
        int status = weir_fiber_receive(run.channel, &message);

        INTERLEAVE_EXPECT(!message == (status != 0));
        run.received += status == 0;
        return status;
}

/* Its own task serves for a wait, and then for others. */
static int
waits(void *unused)
{
        (void)unused;
        AWAITS(receive());
        AWAITS(interleave_random(2) ? weir_fiber_yield() : weir_fiber_sleep(1));
        AWAITS(receive());
        return 0;
}

/* Who has waited to the end may free the group. */
static int
waits_for_group(void *unused)
{
        (void)unused;
        bool must = run.is_cancelled;
        int status = weir_fiber_wait_done(run.group, interleave_random(2) ? WEIR_FOREVER : 1);
        note_await(must, status);
        if (status == 0) {
                weir_waitgroup_free(run.group);
                run.group = NULL;
        }
        return status;
}

static int
is_child(void *unused)
{
        (void)unused;
        int status = interleave_random(2) ? weir_fiber_yield() : weir_fiber_sleep(1);
        run.children++;
        return status ? status : interleave_random(2) ? -EIO : 0;
}

static int
has_children(void *unused)
{
        (void)unused;
        weir_group *group = weir_group_open();
        unsigned started = 0;

        if (interleave_random(2))
                weir_group_stop_on_failure(group);
        for (unsigned i = 0; i < 2; i++)
                started += weir_group_start(group, weir_fiber_new(is_child, NULL, NULL)) == 0;
        int status = weir_group_close(group);
        INTERLEAVE_EXPECT(status == 0 || status == -EIO || status == -ECANCELED || status == -ETIMEDOUT || status == -ESHUTDOWN);
        INTERLEAVE_EXPECT(run.children <= started);
        return 0;
}

static void
note(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        run.ended++;
}

/* -- scenarios -- */

static void
begin_with(weir_fiber_fn *function, weir_waitgroup *group)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        memset(&run, 0, sizeof run);
        config.pollers = 2;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
        run.series = weir_series_ref(weir_series_new(NULL, NULL));
        run.channel = weir_channel_new(2, NULL);
        run.mailbox = weir_mailbox_new(NULL);
        run.group = group;
        weir_series_push(run.series, weir_fiber_new(function, note, NULL));
        if (interleave_random(2))
                start(NULL);
        else
                interleave_act(start, NULL);
        run.has_deadline = interleave_random(3) == 0;
        interleave_act(run.has_deadline ? set_deadline : cancel, NULL);
}

static void
begin(weir_fiber_fn *function)
{
        begin_with(function, NULL);
}

/* Of a series that was cancelled before its start no task is started. */
static void
play(void)
{
        interleave_join_actors();
        interleave_explore(false);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        INTERLEAVE_EXPECT(run.ended <= 1 && run.received <= run.posted);
        weir_series_unref(run.series);
        weir_channel_unref(run.channel);
        weir_mailbox_unref(run.mailbox);
}

static void
limits(void)
{
        begin(awaits_with_limits);
        interleave_act(send, NULL);
        play();
}

static void
own_waits(void)
{
        begin(waits);
        interleave_act(post, NULL);
        interleave_act(post, NULL);
        play();
}

static void
waitgroup(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        unsigned count = 1 + interleave_random(2);

        weir_waitgroup_add(group, count);
        begin_with(waits_for_group, group);
        for (unsigned i = 0; i < count; i++)
                interleave_act(be_done, NULL);
        play();
        INTERLEAVE_EXPECT(weir_waitgroup_wait(run.group, 0) == (run.group ? 0 : -ENOMEM));
        weir_waitgroup_free(run.group);
}

static void
groups(void)
{
        begin(has_children);
        play();
}

/* -- a cause that makes room for another one -- */

static void
find_cause(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < 3; i++)
                INTERLEAVE_EXPECT(weir__series_effective_cause(run.series) != 0);
}

static void
replaced_cause(void)
{
        memset(&run, 0, sizeof run);
        run.series = weir_series_ref(weir_series_new(NULL, NULL));
        weir__series_set_cause(run.series, WEIR__CAUSE_OF_AWAIT);
        interleave_act(cancel, NULL);
        interleave_act(find_cause, NULL);
        interleave_join_actors();
        INTERLEAVE_EXPECT(weir_series_status(run.series) == -ECANCELED);
        weir_series_dismiss(run.series);
        weir_series_unref(run.series);
}

/* -- the suite -- */

static void
limits_meet_cancels_and_messages(void)
{
        interleave_try(__func__, limits, SEEDS);
}

static void
waits_of_a_fiber_meet_cancels_and_messages(void)
{
        interleave_try(__func__, own_waits, SEEDS);
}

static void
a_fiber_may_free_the_group_that_it_has_waited_for(void)
{
        interleave_try(__func__, waitgroup, SEEDS);
}

static void
groups_meet_cancels_and_failures(void)
{
        interleave_try(__func__, groups, SEEDS);
}

static void
a_cause_that_replaces_a_limit_is_seen_throughout(void)
{
        interleave_try(__func__, replaced_cause, SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_cause_that_replaces_a_limit_is_seen_throughout),
                WEIR_TEST(limits_meet_cancels_and_messages),
                WEIR_TEST(waits_of_a_fiber_meet_cancels_and_messages),
                WEIR_TEST(a_fiber_may_free_the_group_that_it_has_waited_for),
                WEIR_TEST(groups_meet_cancels_and_failures),
        };

        return weir_test_main("interleave_fiber", tests, sizeof tests / sizeof *tests);
}
