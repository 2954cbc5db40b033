/* test/timer_list_test.c: timers by the beginning of their name: cancel and list.
 *
 * The entries of the list are checked on the virtual clock, which has one worker.  The list must show each timer that is there
 * all the time exactly once: that is checked while other threads make and cancel further ones. */
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* -- cancel by prefix -- */

static void
prefix_takes_all_names_that_begin_so_and_no_others(void)
{
        static const char *const with[] = {"user/7", "user/7/", "user/77", "user/7/a", "user/7\xff", "user/7\x01"};
        static const char *const without[] = {"user/", "user/8", "user", "User/7", "x/user/7", "\xffuser/7", "u"};
        struct weir_test_record records[6] = {0}, others[7] = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 7; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(without[i], FAR, &others[i])), 0);
        }
        for (unsigned i = 0; i < 6; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(with[i], FAR, &records[i])), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("user/7", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("user/7/and longer", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("user/7", WEIR_ALL), 6);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("user/7", WEIR_ALL), 0);
        weir_test_pass(WEIR_SEC(1));
        for (unsigned i = 0; i < 6; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
                CU_ASSERT_EQUAL(weir_timer_count(with[i]), 0);
        }
        for (unsigned i = 0; i < 7; i++) {
                CU_ASSERT_EQUAL(others[i].calls, 0);
                CU_ASSERT_EQUAL(weir_timer_count(without[i]), 1);
        }
        weir_test_end();
}

static void
empty_prefix_takes_all_that_have_a_name_and_null_nothing(void)
{
        struct weir_test_record named[20] = {0}, unnamed = {0};
        char name[32];

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(FAR, &unnamed)), 0);
        weir_task *kept = NULL;
        for (unsigned i = 0; i < 20; i++) {
                sprintf(name, "%u", i);
                kept = weir_test_named(name, FAR, &named[i]);
                if (i < 19) {
                        CU_ASSERT_EQUAL(weir_task_start(kept), 0);
                }
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix(NULL, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("", WEIR_ALL), 20);
        CU_ASSERT_EQUAL(weir_task_run(kept), -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(unnamed.calls, 0);
        weir_test_end();
        for (unsigned i = 0; i < 20; i++) {
                WEIR_TEST_CALLED(&named[i], -ECANCELED);
        }
        WEIR_TEST_CALLED(&unnamed, -ESHUTDOWN);
}

static void
prefix_with_a_max_takes_no_more_and_of_each_name_the_oldest(void)
{
        enum { NAMES = 10, EACH = 10 };
        static struct weir_test_record records[NAMES][EACH];
        size_t left = NAMES * EACH;
        char name[32];

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < NAMES * EACH; i++) {
                sprintf(name, "max/%u", i % NAMES);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, FAR, &records[i % NAMES][i / NAMES])), 0);
        }
        for (size_t max = 1; left > 0; max += 6) {
                size_t taken = weir_timer_cancel_prefix("max/", max), called = 0;

                CU_ASSERT_EQUAL(taken, max < left ? max : left);
                left -= taken;
                weir_test_pass(WEIR_SEC(1));
                for (unsigned i = 0; i < NAMES; i++) {
                        for (unsigned k = 0; k < EACH; k++) {
                                called += (size_t)records[i][k].calls;
                                CU_ASSERT(k == 0 || records[i][k].calls <= records[i][k - 1].calls);
                        }
                }
                CU_ASSERT_EQUAL(called, NAMES * EACH - left);
                CU_ASSERT_FATAL(taken > 0);
        }
        weir_test_end();
}

static struct {
        struct weir_test_record running, ready, pending, other;
        size_t counted;
} inside;

static void
cancel_prefix_inside(weir_task *task, void *context)
{
        inside.counted = weir_timer_cancel_prefix("inside/", WEIR_ALL);
        weir_test_done(task, context);
}

static void
prefix_cancelled_in_a_callback_of_its_own_leaves_that_alone(void)
{
        weir_test_begin_virtual();
        memset(&inside, 0, sizeof inside);
        weir_task *running = weir_timer_new_named("inside/running", WEIR_SEC(1), cancel_prefix_inside, &inside.running);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(running)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("inside/ready", WEIR_SEC(1), &inside.ready)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("inside/pending", FAR, &inside.pending)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("inside", FAR, &inside.other)), 0);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(inside.counted, 2);
        WEIR_TEST_CALLED(&inside.running, 0);
        WEIR_TEST_CALLED(&inside.ready, -ECANCELED);
        WEIR_TEST_CALLED(&inside.pending, -ECANCELED);
        CU_ASSERT_EQUAL(inside.other.calls, 0);
        weir_test_end();
}

static void
hundreds_of_thousands_of_names_are_taken_by_their_prefix(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 50000 : 400000, OTHERS = 5000 };
        struct weir_test_random random = {weir_test_seed()};
        char name[64];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(name, "session/%u/%llx", i, (unsigned long long)weir_test_random(&random));
                weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL));
                if (i % (COUNT / OTHERS) == 0) {
                        name[0] = 'S';
                        weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL));
                }
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("session/", WEIR_ALL), COUNT);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("session/", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("", WEIR_ALL), OTHERS);
        weir_test_end();
}

/* -- while callbacks make new ones -- */

static struct {
        _Atomic bool on;
        _Atomic unsigned begun, called;
} again;

/* Under another name that begins so. */
static void
make_again(weir_task *task, void *context)
{
        char name[32];

        (void)context;
        if (weir_task_status(task) == -ECANCELED && again.on) {
                sprintf(name, "again/%u", again.begun++);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, FAR, make_again, NULL)), 0);
        }
        again.called++;
}

static void
prefix_ends_though_what_it_cancels_makes_new_ones(void)
{
        char name[32];
        size_t cancelled = 0, last;

        weir_test_begin_real(2);
        again.on = true;
        again.begun = again.called = 0;
        for (unsigned i = 0; i < 1000; i++) {
                sprintf(name, "again/first %u", i);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, FAR, make_again, NULL)), 0);
        }
        for (unsigned i = 0; i < 20; i++) {
                size_t counted = weir_timer_cancel_prefix("again/", WEIR_ALL);

                CU_ASSERT(i > 0 || counted >= 1000);
                cancelled += counted;
        }
        WEIR_TEST_EVENTUALLY(again.called == cancelled);
        again.on = false;
        last = weir_timer_cancel_prefix("again/", WEIR_ALL);
        CU_ASSERT_EQUAL(last, 1000); /* each has made one in its place */
        weir_test_end();
        CU_ASSERT_EQUAL(again.called, cancelled + last);
}

/* As before, but under one name, so that there are never more of it than now. */
static void
make_same_again(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == -ECANCELED && again.on) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("again", FAR, make_same_again, NULL)), 0);
        }
}

static void
prefix_takes_no_more_of_a_name_than_there_are_when_it_comes_there(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 5000 : 50000 };

        weir_test_begin_real(2);
        again.on = true;
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("again", FAR, make_same_again, NULL)), 0);
        }
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT(weir_timer_cancel_prefix("aga", WEIR_ALL) <= COUNT);
                CU_ASSERT(weir_timer_cancel("again", WEIR_ALL) <= COUNT);
        }
        again.on = false;
        while (weir_timer_cancel_wait("again", WEIR_ALL) > 0 || weir_timer_count("again") > 0) {
                continue; /* a callback may have been about to make one more */
        }
        weir_test_end();
}

/* -- the entries of the list -- */

static struct {
        weir_nsec began;
        struct weir_test_record running, ready, reset, pending, forever, longer, ended, cancelled;
        weir_series *series;
} listed;

/* The list is exact to 128 ns.  Timers that start at the same instant get instants of their own, so a few of them are a little
 * later. */
#define SINCE_EXACT WEIR_USEC(10)

static void
check_info(const char *name, enum weir_timer_state state, weir_nsec since, weir_nsec due_in)
{
        struct weir_timer_info info = weir_test_info(name);

        CU_ASSERT_EQUAL(info.state, state);
        CU_ASSERT(info.since <= since + SINCE_EXACT && info.since >= since - SINCE_EXACT);
        CU_ASSERT_EQUAL(info.due_in, due_in);
}

/* One second after the beginning. */
static void
check_list(weir_task *task, void *context)
{
        check_info("running", WEIR_TIMER_RUNNING, listed.began, 0);
        check_info("ready", WEIR_TIMER_READY, listed.began, 0);
        check_info("pending", WEIR_TIMER_PENDING, listed.began, WEIR_SEC(9));
        check_info("forever", WEIR_TIMER_PENDING, listed.began, WEIR_FOREVER);
        check_info("new", WEIR_TIMER_NEW, 0, WEIR_SEC(7));
        check_info("endless", WEIR_TIMER_NEW, 0, WEIR_FOREVER);
        check_info("minus", WEIR_TIMER_NEW, 0, -WEIR_SEC(3));

        CU_ASSERT_EQUAL(weir_timer_reset("reset", WEIR_SEC(4)), 1); /* it was ready */
        check_info("reset", WEIR_TIMER_PENDING, listed.began + WEIR_SEC(1), WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_timer_reset("pending", WEIR_SEC(6)), 1);
        check_info("pending", WEIR_TIMER_PENDING, listed.began + WEIR_SEC(1), WEIR_SEC(6));
        CU_ASSERT_EQUAL(weir_timer_extend("longer", WEIR_SEC(5)), 1);
        CU_ASSERT_EQUAL(weir_test_info("longer").due_in, WEIR_SEC(14));
        CU_ASSERT_EQUAL(weir_timer_reset("new", WEIR_SEC(8)), 1);
        check_info("new", WEIR_TIMER_NEW, 0, WEIR_SEC(8));

        weir_series_cancel(listed.series);
        CU_ASSERT_EQUAL(weir_test_info("ended").state, WEIR_TIMER_READY);
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_list("cancelled", weir_test_keep_info, &(struct weir_timer_info){0}), 0);
        weir_test_done(task, context);
}

static void
list_tells_the_state_since_when_and_the_time_to_the_deadline(void)
{
        struct weir_test_record ignored = {0};

        weir_test_begin_virtual();
        memset(&listed, 0, sizeof listed);
        listed.began = weir_now();
        weir_task *unstarted[] = {weir_test_named("new", WEIR_SEC(7), &ignored),
                                  weir_test_named("endless", WEIR_FOREVER, &ignored),
                                  weir_test_named("minus", -WEIR_SEC(3), &ignored)};
        weir_task *running = weir_timer_new_named("running", WEIR_SEC(1), check_list, &listed.running);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(running)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", WEIR_SEC(1), &listed.ready)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("reset", WEIR_SEC(1), &listed.reset)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("pending", WEIR_SEC(10), &listed.pending)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("longer", WEIR_SEC(10), &listed.longer)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("forever", WEIR_FOREVER, &listed.forever)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("cancelled", FAR, &listed.cancelled)), 0);
        listed.series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(listed.series, weir_test_named("ended", FAR, &listed.ended));
        CU_ASSERT_EQUAL(weir_series_start(listed.series), 0);
        weir_test_pass(WEIR_SEC(2));
        WEIR_TEST_CALLED(&listed.running, 0);
        WEIR_TEST_CALLED(&listed.ready, 0);
        weir_test_pass(FAR);
        CU_ASSERT_EQUAL(listed.pending.at, listed.began + WEIR_SEC(7));
        CU_ASSERT_EQUAL(listed.reset.at, listed.began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(listed.longer.at, listed.began + WEIR_SEC(15));
        for (unsigned i = 0; i < 3; i++) {
                weir_task_dismiss(unstarted[i]);
        }
        weir_series_unref(listed.series);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_timer_list("", weir_test_keep_info, &(struct weir_timer_info){0}), 0);
}

enum { STORM_TIMERS = 20, STORM_RESETS = WEIR_TEST_SANITIZED ? 100000 : 2000000 };

static void
reset_millions_of_times(void *began)
{
        *(weir_nsec *)began = weir_now();
        for (unsigned i = 0; i < STORM_RESETS / STORM_TIMERS; i++) {
                CU_ASSERT_EQUAL(weir_timer_reset("storm", FAR + i), STORM_TIMERS);
        }
}

/* The first and the last `since`. */
struct span {
        weir_nsec first, last;
};

static int
widen_span(const struct weir_timer_info *info, void *context)
{
        struct span *span = context;

        span->first = info->since < span->first ? info->since : span->first;
        span->last = info->since > span->last ? info->since : span->last;
        return 0;
}

static struct span
span_of_storm(void)
{
        struct span span = {.first = WEIR_FOREVER};

        CU_ASSERT_EQUAL(weir_timer_list("storm", widen_span, &span), STORM_TIMERS);
        return span;
}

/* They come in no time at all, while each takes 32 ns of what `since` is told by: it runs ahead by so much, and no longer than
 * until the clock has come there. */
static void
since_is_right_after_millions_of_resets(void)
{
        weir_nsec began = 0;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < STORM_TIMERS; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("storm", FAR, NULL, NULL)), 0);
        }
        weir_test_act(WEIR_SEC(1), reset_millions_of_times, &began);
        weir_test_pass(WEIR_SEC(2)); /* a second longer */
        struct span span = span_of_storm();
        CU_ASSERT(span.first >= began - SINCE_EXACT && span.last <= began + STORM_RESETS * INT64_C(32) + SINCE_EXACT);
        CU_ASSERT_EQUAL(weir_timer_reset("storm", FAR), STORM_TIMERS);
        weir_test_pass(WEIR_SEC(1));
        span = span_of_storm();
        CU_ASSERT(span.first >= began + WEIR_SEC(1) - WEIR_MSEC(1) && span.last <= began + WEIR_SEC(1) + WEIR_MSEC(1));
        weir_test_end();
}

/* -- the timers that it shows -- */

/* Every timer that is shown here has a duration of its own, which is the time to its deadline before the start. */
struct seen {
        unsigned *times; /* by duration */
        weir_nsec last;
        size_t count, disordered;
        size_t stop_at; /* 0: not at all */
        const char *name;
};

static int
see(const struct weir_timer_info *timer, void *context)
{
        struct seen *seen = context;

        if (seen->name) {
                CU_ASSERT_STRING_EQUAL(timer->name, seen->name);
        }
        seen->times[timer->due_in]++;
        seen->disordered += seen->count > 0 && timer->due_in <= seen->last;
        seen->last = timer->due_in;
        return ++seen->count == seen->stop_at;
}

static void
list_shows_those_of_a_name_from_the_oldest_on_each_once(void)
{
        enum { COUNT = 3000 };
        static weir_task *timers[COUNT];
        static unsigned times[COUNT];
        struct seen seen = {.times = times, .name = "order"};

        weir_test_begin_virtual();
        memset(times, 0, sizeof times);
        for (unsigned i = 0; i < COUNT; i++) {
                timers[i] = weir_timer_new_named("order", i, NULL, NULL);
        }
        CU_ASSERT_EQUAL(weir_timer_list("ord", see, &seen), COUNT);
        CU_ASSERT_EQUAL(seen.count, COUNT);
        CU_ASSERT_EQUAL(seen.disordered, 0);
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(times[i], 1);
                weir_task_dismiss(timers[i]);
        }
        weir_test_end();
}

static void
visitor_that_returns_something_is_not_called_again(void)
{
        enum { COUNT = 1000 };
        static weir_task *timers[COUNT];
        static unsigned times[COUNT];
        static const size_t stops[] = {1, 2, 255, 256, 257, 999, 1000, 1001};
        char name[32];

        weir_test_begin_virtual();
        for (unsigned kind = 0; kind < 2; kind++) { /* all of one name, or each of another */
                for (unsigned i = 0; i < COUNT; i++) {
                        sprintf(name, "stop %u", kind ? i : 0);
                        timers[i] = weir_timer_new_named(name, i, NULL, NULL);
                }
                for (unsigned i = 0; i < sizeof stops / sizeof *stops; i++) {
                        struct seen seen = {.times = times, .stop_at = stops[i]};

                        CU_ASSERT_EQUAL(weir_timer_list("stop", see, &seen), stops[i] < COUNT ? (int64_t)stops[i] : COUNT);
                        CU_ASSERT_EQUAL(seen.count, stops[i] < COUNT ? stops[i] : COUNT);
                }
                for (unsigned i = 0; i < COUNT; i++) {
                        weir_task_dismiss(timers[i]);
                }
        }
        weir_test_end();
}

static int
compare_names(const void *one, const void *other)
{
        return strcmp(*(char *const *)one, *(char *const *)other);
}

static struct {
        char *names[64];
        unsigned count;
} shown;

static int
keep_name(const struct weir_timer_info *timer, void *context)
{
        (void)context;
        if (shown.count < 64) {
                shown.names[shown.count++] = strdup(timer->name);
        }
        return 0;
}

/* Of all lengths, up to the longest; they differ in the last byte only. */
static void
names_of_any_length_are_shown_whole(void)
{
        static const size_t sizes[] = {1, 2, 100, 255, 256, 4096, 60000, WEIR_NAME_MAX - 1, WEIR_NAME_MAX};
        enum { SIZES = sizeof sizes / sizeof *sizes };
        char *names[SIZES * 2];
        weir_task *timers[SIZES * 2];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < SIZES * 2; i++) {
                size_t size = sizes[i / 2];

                names[i] = malloc(size + 1);
                memset(names[i], '\xfe', size);
                names[i][size - 1] = i % 2 ? 'a' : '\xff';
                names[i][size] = '\0';
                timers[i] = weir_timer_new_named(names[i], FAR, NULL, NULL);
        }
        shown.count = 0;
        CU_ASSERT_EQUAL(weir_timer_list("", keep_name, NULL), SIZES * 2);
        CU_ASSERT_EQUAL_FATAL(shown.count, SIZES * 2);
        qsort(names, SIZES * 2, sizeof *names, compare_names);
        qsort(shown.names, SIZES * 2, sizeof *names, compare_names);
        for (unsigned i = 0; i < SIZES * 2; i++) {
                CU_ASSERT_STRING_EQUAL(shown.names[i], names[i]);
                CU_ASSERT_EQUAL(weir_test_info(names[i]).state, WEIR_TIMER_NEW);
                free(shown.names[i]);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("\xfe\xfe\xfe", WEIR_ALL), (SIZES - 2) * 2);
        for (unsigned i = 0; i < SIZES * 2; i++) {
                free(names[i]);
                weir_task_dismiss(timers[i]);
        }
        CU_ASSERT_EQUAL(weir_timer_list("", keep_name, NULL), 0);
        weir_test_end();
}

/* -- calls inside the callback of the list -- */

static int
cancel_it(const struct weir_timer_info *timer, void *context)
{
        *(size_t *)context += weir_timer_cancel(timer->name, 1);
        return 0;
}

static void
visitor_may_cancel_what_it_is_shown(void)
{
        enum { COUNT = 2000 };
        size_t cancelled = 0;
        char name[32];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(name, "cancel %u", i % 700); /* some names several times */
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL)), 0);
        }
        int64_t count = weir_timer_list("cancel ", cancel_it, &cancelled);
        CU_ASSERT_EQUAL(count, COUNT); /* it cancels the oldest, which have been shown */
        CU_ASSERT_EQUAL(cancelled, COUNT);
        CU_ASSERT_EQUAL(weir_timer_list("cancel ", weir_test_keep_info, &(struct weir_timer_info){0}), 0);
        weir_test_end();
}

static int
cancel_all(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        *(size_t *)context += weir_timer_cancel_prefix("", WEIR_ALL);
        return 0;
}

static void
visitor_may_cancel_all_there_are(void)
{
        size_t cancelled = 0;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5000; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("all", FAR, NULL, NULL)), 0);
        }
        int64_t count = weir_timer_list("all", cancel_all, &cancelled);
        CU_ASSERT(count >= 1 && count <= 5000);
        CU_ASSERT_EQUAL(cancelled, 5000);
        weir_test_end();
}

static struct {
        unsigned visits, names;
} more;

static int
make_more(const struct weir_timer_info *timer, void *context)
{
        char name[64];

        (void)timer;
        (void)context;
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("more", FAR, NULL, NULL)), 0);
        if (++more.visits % 2) {
                sprintf(name, "more %u", more.names++);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL)), 0);
        }
        return more.visits == 100000; /* it would go on for ever */
}

/* Each time one of the name that is shown first, and every second time one of a new name: such a one may be shown. */
static void
visitor_may_make_new_ones(void)
{
        more.visits = more.names = 0;
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 1000; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("more", FAR, NULL, NULL)), 0);
        }
        int64_t count = weir_timer_list("more", make_more, NULL);
        CU_ASSERT(count >= 1000);
        CU_ASSERT(count < 100000);
        CU_ASSERT_EQUAL(count, more.visits);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("more", WEIR_ALL), 1000 + more.visits + more.names);
        weir_test_end();
}

static struct {
        weir_timer_id ids[20000];
        unsigned visits, made;
} moving;

/* Makes two, and cancels the oldest of those that were made so. */
static int
make_two_and_cancel_one(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        (void)context;
        for (unsigned i = 0; i < 2; i++) {
                weir_task *made = weir_timer_new_named("moving", FAR, NULL, NULL);

                moving.ids[moving.made++] = weir_timer_id_of(made);
                CU_ASSERT_EQUAL(weir_task_start(made), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(moving.ids[moving.visits++]), 1);
        return moving.visits == 10000; /* it would go on for ever */
}

/* A name is gone through up to the first timer that came later; when that goes, up to the next one. */
static void
list_ends_before_what_came_later_though_the_first_of_that_is_gone(void)
{
        enum { COUNT = 1000 };

        moving.visits = moving.made = 0;
        weir_test_begin_virtual();
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("moving", FAR, NULL, NULL)), 0);
        }
        int64_t count = weir_timer_list("moving", make_two_and_cancel_one, NULL);
        CU_ASSERT(count >= COUNT && count < 2 * COUNT); /* the first few hundred at least are seen before the first visit */
        CU_ASSERT_EQUAL(weir_timer_cancel("moving", WEIR_ALL), COUNT + (size_t)count);
        weir_test_end();
}

static int
list_again(const struct weir_timer_info *timer, void *context)
{
        unsigned *depth = context;

        CU_ASSERT_EQUAL(timer->state, WEIR_TIMER_NEW);
        if (*depth == 3) {
                return 0;
        }
        ++*depth;
        CU_ASSERT_EQUAL(weir_timer_list("again", list_again, depth), 10);
        --*depth;
        return 0;
}

static void
visitor_may_list_again(void)
{
        weir_task *timers[10];
        unsigned depth = 0;
        char name[32];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 10; i++) {
                sprintf(name, "again %u", i / 3);
                timers[i] = weir_timer_new_named(name, FAR, NULL, NULL);
        }
        CU_ASSERT_EQUAL(weir_timer_list("again", list_again, &depth), 10);
        for (unsigned i = 0; i < 10; i++) {
                weir_task_dismiss(timers[i]);
        }
        weir_test_end();
}

static int
wait_for_it(const struct weir_timer_info *timer, void *context)
{
        *(int64_t *)context += weir_timer_cancel_wait(timer->name, WEIR_ALL);
        return 0;
}

static void
visitor_may_wait(void)
{
        int64_t cancelled = 0;
        char name[32];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < 1000; i++) {
                sprintf(name, "wait %u", i % 10);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL)), 0);
        }
        CU_ASSERT(weir_timer_list("wait ", wait_for_it, &cancelled) >= 10);
        CU_ASSERT_EQUAL(cancelled, 1000);
        weir_test_end();
}

/* -- while other threads make and cancel -- */

#define STABLE 3000

static struct {
        weir_task *timers[STABLE];
        unsigned times[STABLE];
        _Atomic bool over;
} stable;

/* Those of the others have durations of STABLE and more. */
static int
see_stable(const struct weir_timer_info *timer, void *context)
{
        size_t *wrong = context;

        if (timer->due_in >= STABLE || timer->state != WEIR_TIMER_NEW) {
                return 0;
        }
        *wrong += ++stable.times[timer->due_in] > 1;
        return 0;
}

/* Lists while `meddle` runs, until it says that it is over. */
static void
list_while(void (*meddle)(void *argument), const char *prefix)
{
        struct weir_test_thread threads[2];
        size_t wrong = 0;
        unsigned lists = 0;

        stable.over = false;
        for (uintptr_t i = 0; i < 2; i++) {
                weir_test_thread_start(&threads[i], meddle, (void *)i);
        }
        for (bool over = false; !over || lists < 10; lists++) {
                over = stable.over;
                memset(stable.times, 0, sizeof stable.times);
                weir_timer_list(prefix, see_stable, &wrong);
                for (unsigned i = 0; i < STABLE; i++) {
                        wrong += stable.times[i] != 1;
                }
        }
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&threads[i]);
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

/* In waves, so that the tables grow and shrink. */
static void
make_and_cancel_names(void *number)
{
        char name[64];

        for (unsigned wave = 0; wave < (WEIR_TEST_SANITIZED ? 4 : 20); wave++) {
                unsigned count = wave % 2 ? 1000 : WEIR_TEST_SANITIZED ? 5000 : 40000;

                for (unsigned i = 0; i < count; i++) {
                        sprintf(name, "s/wave %u %u", (unsigned)(uintptr_t)number, i);
                        weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL));
                }
                for (unsigned i = 0; i < count; i++) {
                        sprintf(name, "s/wave %u %u", (unsigned)(uintptr_t)number, wave % 3 ? i : count - 1 - i);
                        CU_ASSERT_EQUAL(weir_timer_cancel(name, WEIR_ALL), 1);
                }
        }
        stable.over = true;
}

static void
names_that_stay_are_shown_once_while_others_come_and_go(void)
{
        char name[32];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < STABLE; i++) {
                sprintf(name, "s/%u", i % (STABLE / 3)); /* each thrice */
                stable.timers[i] = weir_timer_new_named(name, i, NULL, NULL);
        }
        list_while(make_and_cancel_names, "s/");
        for (unsigned i = 0; i < STABLE; i++) {
                weir_task_dismiss(stable.timers[i]);
        }
        weir_test_end();
}

/* Before, between and behind the ones that stay: the first are made before any of those. */
static void
make_and_cancel_of_one_name(void *number)
{
        weir_timer_id ids[500] = {0};
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)number};

        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 10000 : 100000); i++) {
                weir_timer_id *id = &ids[weir_test_random_below(&random, 500)];
                weir_task *timer = weir_timer_new_named("one", FAR, NULL, NULL);

                CU_ASSERT_EQUAL(weir_timer_cancel_id(*id), *id != 0);
                *id = weir_timer_id_of(timer);
                weir_task_start(timer);
        }
        for (unsigned i = 0; i < 500; i++) {
                weir_timer_cancel_id(ids[i]);
        }
        stable.over = true;
}

static void
timers_of_one_name_that_stay_are_shown_once_while_others_come_and_go(void)
{
        static weir_timer_id between[STABLE];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < STABLE; i++) {
                weir_task *timer = weir_timer_new_named("one", STABLE + FAR, NULL, NULL);

                between[i] = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
                stable.timers[i] = weir_timer_new_named("one", i, NULL, NULL);
        }
        for (unsigned i = 0; i < STABLE; i += 3) {
                CU_ASSERT_EQUAL(weir_timer_cancel_id(between[i]), 1);
        }
        list_while(make_and_cancel_of_one_name, "one");
        for (unsigned i = 0; i < STABLE; i++) {
                CU_ASSERT_EQUAL(weir_timer_cancel_id(between[i]), i % 3 != 0);
                weir_task_dismiss(stable.timers[i]);
        }
        weir_test_end();
}

/* -- arguments -- */

static void
list_without_a_prefix_or_a_visitor_is_refused(void)
{
        weir_test_begin_virtual();
        weir_task *timer = weir_timer_new_named("refused", FAR, NULL, NULL);
        struct weir_timer_info info = {.since = 77};
        CU_ASSERT_EQUAL(weir_timer_list(NULL, weir_test_keep_info, &info), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_list("refused", NULL, &info), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_list(NULL, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_list("refused by", weir_test_keep_info, &info), 0);
        CU_ASSERT_EQUAL(info.since, 77);
        weir_task_dismiss(timer);
        weir_test_end();
}

static void
timers_are_listed_and_cancelled_by_prefix_when_nothing_runs_any_more(void)
{
        weir_test_begin_virtual();
        weir_task *timer = weir_timer_new_named("left", FAR, NULL, NULL);
        weir_test_end();
        check_info("left", WEIR_TIMER_NEW, 0, FAR);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("le", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_list("", weir_test_keep_info, &(struct weir_timer_info){0}), 0);
        CU_ASSERT_EQUAL(weir_task_start(timer), -ESHUTDOWN);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(prefix_takes_all_names_that_begin_so_and_no_others),
                WEIR_TEST(empty_prefix_takes_all_that_have_a_name_and_null_nothing),
                WEIR_TEST(prefix_with_a_max_takes_no_more_and_of_each_name_the_oldest),
                WEIR_TEST(prefix_cancelled_in_a_callback_of_its_own_leaves_that_alone),
                WEIR_TEST(hundreds_of_thousands_of_names_are_taken_by_their_prefix),
                WEIR_TEST(prefix_ends_though_what_it_cancels_makes_new_ones),
                WEIR_TEST(prefix_takes_no_more_of_a_name_than_there_are_when_it_comes_there),
                WEIR_TEST(list_tells_the_state_since_when_and_the_time_to_the_deadline),
                WEIR_TEST(since_is_right_after_millions_of_resets),
                WEIR_TEST(list_shows_those_of_a_name_from_the_oldest_on_each_once),
                WEIR_TEST(visitor_that_returns_something_is_not_called_again),
                WEIR_TEST(names_of_any_length_are_shown_whole),
                WEIR_TEST(visitor_may_cancel_what_it_is_shown),
                WEIR_TEST(visitor_may_cancel_all_there_are),
                WEIR_TEST(visitor_may_make_new_ones),
                WEIR_TEST(list_ends_before_what_came_later_though_the_first_of_that_is_gone),
                WEIR_TEST(visitor_may_list_again),
                WEIR_TEST(visitor_may_wait),
                WEIR_TEST(names_that_stay_are_shown_once_while_others_come_and_go),
                WEIR_TEST(timers_of_one_name_that_stay_are_shown_once_while_others_come_and_go),
                WEIR_TEST(list_without_a_prefix_or_a_visitor_is_refused),
                WEIR_TEST(timers_are_listed_and_cancelled_by_prefix_when_nothing_runs_any_more),
        };

        return weir_test_main("timer list", tests, sizeof tests / sizeof *tests);
}
