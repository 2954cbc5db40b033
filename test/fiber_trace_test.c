/* test/fiber_trace_test.c: fibers in traces, on the virtual clock. */
#include "test/trace_fixture.h"

#include <errno.h>

static char path[64];

static void
begin_trace(void)
{
        snprintf(path, sizeof path, "/tmp/weir-fiber-trace-%d.json", (int)getpid());
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
}

static struct weir_test_trace
end_trace(void)
{
        weir_test_end();
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = weir_test_trace_read(path);
        weir_test_trace_nests(&trace);
        unlink(path);
        return trace;
}

static void
nothing(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

static weir_channel *channel;

static void
send(weir_task *task, void *context)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_channel_post(channel, context), 0);
}

static int
fetch(void *context)
{
        weir_group *group;

        weir_await(weir_timer_new_named("reply", WEIR_MSEC(1), nothing, NULL));
        weir_fiber_sleep(WEIR_MSEC(1));
        weir_fiber_yield();
        group = weir_group_open();
        weir_group_start(group, weir_timer_new_named("child", WEIR_MSEC(1), send, context));
        weir_fiber_receive(channel, &context);
        weir_group_start(group, weir_timer_new_named("child", WEIR_MSEC(1), NULL, NULL));
        weir_group_close(group);
        weir_await(weir_timer_new_named("silent", WEIR_MSEC(1), NULL, NULL));
        return -EIO;
}

/* Whether the arrow to that slice begins inside the other one. */
static bool
is_reached_from(const struct weir_test_trace *trace, const struct weir_test_event *slice, const struct weir_test_event *before)
{
        struct weir_test_event *end = NULL, *start = NULL;

        for (size_t n = 0; (end = weir_test_trace_find(trace, 'f', "next", n)); n++) {
                for (size_t i = 0; (start = weir_test_trace_find(trace, 's', "next", i)) && start->id != end->id; i++)
                        continue;
                if (start && end->track == slice->track && end->at == slice->at && start->track == before->track &&
                    before->at <= start->at && start->at <= before->at + before->lasts)
                        return true;
        }
        return false;
}

static const char *const awaited[] = {"", "timer", "sleep", "yield", "receive", "group", "timer"};

#define STRETCHES (sizeof awaited / sizeof *awaited)

static struct weir_test_trace
trace_fetch(int done)
{
        begin_trace();
        channel = weir_channel_new(1, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(fetch, done ? nothing : NULL, "message")), -EIO);
        weir_channel_unref(channel);
        return end_trace();
}

static void
each_stretch_has_a_slice_that_says_what_was_awaited(void)
{
        struct weir_test_trace trace = trace_fetch(0);

        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "fiber \"fetch\""), STRETCHES);
        for (size_t i = 0; i < STRETCHES; i++) {
                struct weir_test_event *stretch = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", i);

                CU_ASSERT_PTR_NOT_NULL_FATAL(stretch);
                CU_ASSERT_STRING_EQUAL(stretch->awaited, awaited[i]);
                CU_ASSERT_STRING_EQUAL(stretch->category, "callback");
                CU_ASSERT(stretch->series > 0 &&
                          stretch->series == weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", 0)->series);
                CU_ASSERT(stretch->has_status == (i == STRETCHES - 1) && stretch->status == (i == STRETCHES - 1 ? -EIO : 0));
        }
        weir_test_trace_free(&trace);
}

/* -- the same flow has the same trace -- */

static int
talk(void *context)
{
        weir_channel *talks = context;
        void *message;
        int err = 0;

        for (unsigned i = 0; i < 3 && !err; i++) {
                err = weir_fiber_sleep(WEIR_MSEC(1));
                if (!err)
                        err = weir_fiber_send(talks, talks);
                if (!err)
                        err = weir_fiber_receive(talks, &message);
                weir_fiber_yield();
        }
        return err;
}

/* Of all sorts: groups, channels, limits, an early end, what has a callback, a pin. */
static int
do_much(void *context)
{
        weir_channel *talks = weir_channel_new(2, NULL);
        weir_group *group = weir_group_open();

        (void)context;
        for (unsigned i = 0; i < 20; i++)
                weir_group_start(group, weir_fiber_new(talk, nothing, talks));
        for (unsigned i = 0; i < 5; i++) {
                weir_await(weir_timer_new_named("timer", WEIR_MSEC(i % 3), nothing, NULL));
                weir_await_within(weir_fiber_new(talk, NULL, talks), WEIR_MSEC(1));
        }
        weir_fiber_pin(true);
        weir_fiber_sleep(WEIR_MSEC(2));
        weir_fiber_pin(false);
        weir_group_cancel(group);
        int err = weir_group_close(group);
        weir_channel_unref(talks);
        return err == -ECANCELED ? 0 : err;
}

/* What a worker does besides, such as to sleep, is a matter of real time. */
static bool
is_of_a_flow(const struct weir_test_event *event)
{
        return event->phase != 'M' && strcmp(event->name, "sleeps");
}

/* Numbers of series and arrows are those of the process, and only go on. */
static struct weir_test_trace
trace_much(void)
{
        begin_trace();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(do_much, NULL, NULL)), 0);
        struct weir_test_trace trace = end_trace();
        int64_t series = INT64_MAX, id = INT64_MAX;
        size_t count = 0;
        for (size_t i = 0; i < trace.count; i++)
                if (is_of_a_flow(&trace.events[i]))
                        trace.events[count++] = trace.events[i];
        trace.count = count;
        for (size_t i = 0; i < trace.count; i++) {
                series = trace.events[i].series && trace.events[i].series < series ? trace.events[i].series : series;
                id = trace.events[i].id && trace.events[i].id < id ? trace.events[i].id : id;
        }
        for (size_t i = 0; i < trace.count; i++) {
                trace.events[i].series -= trace.events[i].series ? series : 0;
                trace.events[i].id -= trace.events[i].id ? id : 0;
        }
        return trace;
}

static bool
are_alike(const struct weir_test_event *one, const struct weir_test_event *two)
{
        return one->phase == two->phase && !strcmp(one->name, two->name) && !strcmp(one->category, two->category) &&
               !strcmp(one->awaited, two->awaited) && one->series == two->series && one->id == two->id &&
               one->status == two->status && one->has_status == two->has_status && one->at == two->at &&
               one->lasts == two->lasts && one->late == two->late;
}

static void
the_same_flow_has_the_same_trace(void)
{
        struct weir_test_trace first = trace_much(), second = trace_much();

        CU_ASSERT(first.count > 200);
        CU_ASSERT_EQUAL_FATAL(first.count, second.count);
        for (size_t i = 0; i < first.count; i++) {
                const struct weir_test_event *one = &first.events[i], *two = &second.events[i];

                if (!are_alike(one, two))
                        fprintf(stderr, "%zu: %c %s %s %ld %ld %ld, %c %s %s %ld %ld %ld\n", i, one->phase, one->name,
                                one->awaited, (long)one->at, (long)one->series, (long)one->id, two->phase, two->name,
                                two->awaited, (long)two->at, (long)two->series, (long)two->id);
                CU_ASSERT(are_alike(one, two));
        }
        weir_test_trace_free(&first);
        weir_test_trace_free(&second);
}

static int
be_pinned(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_pin(true), 0);
        weir_fiber_sleep(WEIR_MSEC(1));
        CU_ASSERT_EQUAL(weir_fiber_pin(false), 0);
        return weir_fiber_yield();
}

static void
a_pin_begins_a_slice(void)
{
        static const char *const before[] = {"", "pin", "sleep", "pin", "yield"};

        begin_trace();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(be_pinned, NULL, NULL)), 0);
        struct weir_test_trace trace = end_trace();
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "fiber \"be_pinned\""), 5);
        for (size_t i = 0; i < 5; i++) {
                struct weir_test_event *stretch = weir_test_trace_find(&trace, 'X', "fiber \"be_pinned\"", i);

                CU_ASSERT_PTR_NOT_NULL_FATAL(stretch);
                CU_ASSERT_STRING_EQUAL(stretch->awaited, before[i]);
        }
        weir_test_trace_free(&trace);
}

static void
arrows_lead_from_stretch_to_stretch(void)
{
        struct weir_test_trace trace = trace_fetch(0);
        struct weir_test_event *before = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", 0);

        for (size_t i = 1; i < STRETCHES; i++) {
                struct weir_test_event *stretch = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", i);

                CU_ASSERT_FATAL(before && stretch);
                CU_ASSERT(is_reached_from(&trace, stretch, before));
                before = stretch;
        }
        /* And to the child that has a callback. */
        struct weir_test_event *child = weir_test_trace_find(&trace, 'X', "timer \"child\"", 0);
        struct weir_test_event *starts_it = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", 3);
        CU_ASSERT_FATAL(child && starts_it);
        CU_ASSERT(is_reached_from(&trace, child, starts_it));
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), STRETCHES);
        weir_test_trace_free(&trace);
}

static void
a_stretch_lies_in_the_callback_of_what_was_awaited(void)
{
        struct weir_test_trace trace = trace_fetch(0);
        struct weir_test_event *reply = weir_test_trace_find(&trace, 'X', "timer \"reply\"", 0);
        struct weir_test_event *stretch = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", 1);

        CU_ASSERT_FATAL(reply && stretch);
        CU_ASSERT(reply->at <= stretch->at && reply->at + reply->lasts >= stretch->at + stretch->lasts);
        CU_ASSERT(reply->series == stretch->series && reply->has_late);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "sleep"), 1);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "yield"), 0);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "receive"), 0);
        weir_test_trace_free(&trace);
}

static void
a_fiber_in_a_series_is_reached_from_the_callback_before_it(void)
{
        begin_trace();
        channel = weir_channel_new(1, NULL);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new_named("before", WEIR_MSEC(1), nothing, NULL));
        weir_series_push(series, weir_fiber_new(fetch, nothing, "message"));
        weir_series_run(series);
        weir_channel_unref(channel);
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *before = weir_test_trace_find(&trace, 'X', "timer \"before\"", 0);
        struct weir_test_event *first = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", 0);
        struct weir_test_event *callback = weir_test_trace_find(&trace, 'X', "fiber \"fetch\"", STRETCHES);
        CU_ASSERT_FATAL(before && first && callback);
        CU_ASSERT(is_reached_from(&trace, first, before));
        CU_ASSERT(callback->series == before->series && callback->series != first->series);
        CU_ASSERT(callback->has_status && callback->status == -EIO);
        weir_test_trace_free(&trace);
}

static int
stop_trace(void *context)
{
        (void)context;
        weir_fiber_yield();
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        weir_fiber_yield();
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        return 0;
}

static void
a_stretch_may_end_a_trace_and_begin_one(void)
{
        begin_trace();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(stop_trace, nothing, NULL)), 0);
        struct weir_test_trace trace = end_trace();

        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "fiber \"stop_trace\""), 1); /* its callback */
        weir_test_trace_free(&trace);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_stretch_has_a_slice_that_says_what_was_awaited),
                WEIR_TEST(the_same_flow_has_the_same_trace),
                WEIR_TEST(a_pin_begins_a_slice),
                WEIR_TEST(arrows_lead_from_stretch_to_stretch),
                WEIR_TEST(a_stretch_lies_in_the_callback_of_what_was_awaited),
                WEIR_TEST(a_fiber_in_a_series_is_reached_from_the_callback_before_it),
                WEIR_TEST(a_stretch_may_end_a_trace_and_begin_one),
        };

        return weir_test_main("fibers in traces", tests, sizeof tests / sizeof *tests);
}
