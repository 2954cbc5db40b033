/* test/guard_test.c: guards, held by series. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/task.h"

static char seen[2048];

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
}

static void
note(const char *what, int status)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", what, status);
}

static void
noted(weir_task *task, void *name)
{
        note(name, weir_task_status(task));
}

static void
ended(weir_series *series, void *name)
{
        char text[64];

        snprintf(text, sizeof text, "%s ends", (const char *)name);
        note(text, weir_series_status(series));
}

/* A series that acquires the guard "g", waits, and ends. */
static weir_series *
holder(const char *name, weir_nsec how_long)
{
        weir_series *series = weir_series_new(ended, (void *)name);

        weir_series_push(series, weir_guard_acquire_new_named("g", noted, (void *)name));
        weir_series_push(series, weir_timer_new(how_long, NULL, NULL));
        return series;
}

/* Whether anybody holds the guard of that name. */
static bool
is_held(const char *name)
{
        weir_guard *guard = weir_guard_open(name);
        bool held = weir_guard_is_held(guard, NULL);

        weir_guard_unref(guard);
        return held;
}

/* -- in order -- */

static void
guard_goes_from_series_to_series_in_the_order_of_coming(void)
{
        begin();
        weir_series_start(holder("a", WEIR_SEC(1)));
        weir_series_start(holder("b", WEIR_SEC(1)));
        weir_series_start(holder("c", WEIR_SEC(1)));
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_STRING_EQUAL(seen, "a:0");
        CU_ASSERT(is_held("g"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 a ends:0 b:0");
        weir_test_pass(WEIR_SEC(3));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 a ends:0 b:0 b ends:0 c:0 c ends:0");
        CU_ASSERT(!is_held("g"));
        weir_test_end();
}

static void
releases(weir_task *task, void *name)
{
        weir_series *series = weir_series_of(task);

        note(name, weir_guard_release_named("g", series));
        note("again", weir_guard_release_named("g", series));
}

static void
released_guard_is_the_next_ones_at_once(void)
{
        weir_series *series = holder("a", WEIR_SEC(1));

        begin();
        weir_series_push(series, weir_empty_new(releases, "release"));
        weir_series_push(series, weir_timer_new(WEIR_SEC(5), noted, "later"));
        weir_series_push(series, weir_guard_acquire_new_named("g", noted, "a again"));
        weir_series_start(series);
        weir_series_start(holder("b", WEIR_SEC(10)));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 release:0 again:-1 b:0");
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 release:0 again:-1 b:0 later:0 b ends:0 a again:0 a ends:0");
        weir_test_end();
}

static void
acquires_again(weir_task *task, void *guard)
{
        weir_series *series = weir_series_of(task);

        CU_ASSERT_EQUAL(weir_guard_release(guard, series), 0);
        weir_series_push(series, weir_guard_acquire_new(guard, noted, "greedy"));
}

static void
a_task_that_releases_and_acquires_again_waits_behind_the_others(void)
{
        weir_guard *guard = weir_guard_open("g");

        begin();
        weir_series_start(holder("a", WEIR_SEC(1)));
        weir_task_start(weir_guard_acquire_new(guard, acquires_again, guard));
        weir_task_start(weir_guard_acquire_new(guard, noted, "b"));
        weir_task_start(weir_guard_acquire_new(guard, noted, "c"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 a ends:0 b:0 c:0 greedy:0");
        weir_guard_unref(guard);
        weir_test_end();
}

/* -- the series that holds it -- */

static void
holds(weir_task *task, void *guard)
{
        weir_series *series = weir_series_of(task);

        note("holds", weir_guard_is_held(guard, series));
        note("anybody", weir_guard_is_held(guard, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), noted, "pushed"));
}

static void
lone_task_holds_it_until_what_its_callback_pushed_has_ended(void)
{
        weir_guard *guard = weir_guard_new();

        begin();
        weir_task_start(weir_guard_acquire_new(guard, holds, guard));
        weir_task_start(weir_guard_acquire_new(guard, noted, "next"));
        weir_test_pass(WEIR_MSEC(999));
        CU_ASSERT_STRING_EQUAL(seen, "holds:1 anybody:1");
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "holds:1 anybody:1 pushed:0 next:0");
        CU_ASSERT(!weir_guard_is_held(guard, NULL));
        weir_guard_unref(guard);
        weir_test_end();
}

static void
lone_task_without_a_callback_gives_it_back(void)
{
        begin();
        weir_task_start(weir_guard_acquire_new_named("g", NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(weir_guard_acquire_new_named("g", noted, "run")), 0);
        weir_task_start(weir_guard_acquire_new_named("g", noted, "next"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "run:0 next:0");
        weir_test_end();
}

static void
says_whether_held(weir_series *series, void *context)
{
        (void)context;
        note("held", weir_guard_release_named("g", series));
}

static void
free_says_whether_held(void *context)
{
        (void)context;
        note("free", is_held("h"));
}

static void
callback_and_free_function_of_the_series_run_while_it_is_held(void)
{
        weir_series *series = weir_series_new(says_whether_held, NULL);

        begin();
        weir_series_set_context(series, series, free_says_whether_held);
        weir_series_push(series, weir_guard_acquire_new_named("g", NULL, NULL));
        weir_series_push(series, weir_guard_acquire_new_named("h", NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_start(series);
        weir_test_pass(0);
        weir_task_start(weir_guard_acquire_new_named("h", noted, "h"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "held:0 free:1 h:0");
        weir_test_end();
}

static void
many_guards_of_one_series_are_given_back_at_its_end(void)
{
        enum { GUARDS = 1000 };
        weir_series *series = weir_series_new(NULL, NULL);
        weir_guard *guards[GUARDS];

        begin();
        for (unsigned i = 0; i < GUARDS; i++) {
                guards[i] = weir_guard_new();
                weir_series_push(series, weir_guard_acquire_new(guards[i], NULL, NULL));
        }
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_start(series);
        weir_test_pass(0);
        for (unsigned i = 0; i < GUARDS; i++)
                CU_ASSERT_FATAL(weir_guard_is_held(guards[i], NULL));
        weir_test_pass(WEIR_SEC(1));
        for (unsigned i = 0; i < GUARDS; i++) {
                CU_ASSERT_FATAL(!weir_guard_is_held(guards[i], NULL));
                weir_guard_unref(guards[i]);
        }
        weir_test_end();
}

/* -- ends -- */

static void
series_that_ends_early_gives_it_back(void)
{
        weir_series *cancelled = weir_series_ref(holder("a", WEIR_FOREVER)), *late = holder("b", WEIR_FOREVER);

        begin();
        weir_series_set_deadline(late, WEIR_SEC(2));
        weir_series_start(cancelled);
        weir_series_start(late);
        weir_series_start(holder("c", WEIR_FOREVER));
        weir_task_start(weir_guard_acquire_new_named("g", noted, "d"));
        weir_test_pass(WEIR_SEC(1));
        weir_series_cancel(cancelled);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 a ends:-125 b:0 b ends:-110 c:0");
        weir_series_unref(cancelled);
        weir_test_end();
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "d:-108"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "c ends:-108"));
}

static void
cancelled_wait_is_passed_over(void)
{
        weir_series *series = weir_series_ref(holder("b", WEIR_SEC(1)));

        begin();
        weir_series_start(holder("a", WEIR_SEC(2)));
        weir_series_start(series);
        weir_series_start(holder("c", WEIR_SEC(1)));
        weir_test_pass(WEIR_SEC(1));
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-125 b ends:-125");
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-125 b ends:-125 a ends:0 c:0 c ends:0");
        weir_series_unref(series);
        weir_test_end();
}

static weir_series *granted;

static void
cancels_who_was_granted(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_guard_release_named("g", weir_series_of(task)), 0); /* and so it is the next one's */
        weir_series_cancel(granted);
}

static void
granted_stays_granted_though_its_series_is_cancelled_meanwhile(void)
{
        weir_series *series = holder("a", WEIR_SEC(1));

        begin();
        granted = weir_series_ref(holder("b", WEIR_FOREVER));
        weir_series_push(series, weir_empty_new(cancels_who_was_granted, NULL));
        weir_series_start(series);
        weir_series_start(granted);
        weir_task_start(weir_guard_acquire_new_named("g", noted, "c"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 a ends:0 b:0 b ends:-125 c:0");
        weir_series_unref(granted);
        weir_test_end();
}

static void
dismissed_or_refused_task_holds_nothing(void)
{
        weir_series *series = holder("a", 0), *cancelled = holder("b", 0);

        begin();
        weir_task_dismiss(weir_guard_acquire_new_named("g", noted, "x"));
        weir_series_dismiss(series);
        weir_series_cancel(cancelled);
        weir_series_start(cancelled);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b ends:-125");
        CU_ASSERT(!is_held("g"));
        weir_test_end();
}

/* -- a wait for itself -- */

static void
acquiring_what_the_series_holds_is_a_deadlock(void)
{
        weir_series *series = holder("a", 0), *child = weir_series_new(NULL, NULL);

        begin();
        weir_series_push(series, weir_guard_acquire_new_named("g", noted, "same"));
        weir_series_push(child, weir_guard_acquire_new_named("h", noted, "other"));
        weir_series_push(child, weir_guard_acquire_new_named("g", noted, "child"));
        weir_series_push(series, weir_module_new(child, noted, "module"));
        weir_series_push(series, weir_guard_acquire_new_named("h", noted, "the child has ended"));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 same:-35 other:0 child:-35 module:0 the child has ended:0 a ends:0");
        weir_test_end();
}

static void
task_of_a_timeout_holds_it_as_long_as_its_own_series(void)
{
        weir_series *series = weir_series_new(ended, "a");

        begin();
        weir_series_push(series, weir_timeout_new(weir_guard_acquire_new_named("g", noted, "in time"), WEIR_SEC(1)));
        weir_series_push(series, weir_guard_acquire_new_named("g", noted, "a"));
        weir_series_push(series, weir_timer_new(WEIR_SEC(5), NULL, NULL));
        weir_series_start(series);
        weir_test_pass(0);
        weir_task_start(weir_timeout_new(weir_guard_acquire_new_named("g", noted, "too late"), WEIR_SEC(2)));
        weir_test_pass(WEIR_SEC(3));
        CU_ASSERT_STRING_EQUAL(seen, "in time:0 a:0 too late:-110");
        weir_test_end();
}

/* The description of what a task waits for, under the lock of its series in the library; here time stands still. */
static void
describe(const weir_task *task, char *out, size_t room)
{
        weir__task_ops(task)->describe(task, out, room);
}

static void
a_holder_of_the_guard_that_the_other_waits_for_is_seen(void)
{
        weir_series *a = weir_series_new(ended, "a"), *b = weir_series_new(ended, "b");
        weir_task *waits_a = weir_guard_acquire_new_named("h", noted, "a has both"),
                  *waits_b = weir_guard_acquire_new_named("g", noted, "b has both");
        char text[256], expected[256];

        begin();
        weir_series_set_name(a, "alice");
        weir_series_push(a, weir_guard_acquire_new_named("g", noted, "a"));
        weir_series_push(a, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(a, waits_a);
        weir_series_push(b, weir_guard_acquire_new_named("h", noted, "b"));
        weir_series_push(b, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        weir_series_push(b, waits_b);
        weir_series_ref(b);
        weir_series_start(a);
        weir_series_start(b);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0");
        describe(waits_b, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, "guard \"g\", at which 1 waits, held by series \"alice\" for 10.0 s");
        describe(waits_a, text, sizeof text);
        snprintf(expected, sizeof expected, "guard \"h\", at which 1 waits, held by series %p for 10.0 s", (void *)b);
        CU_ASSERT_STRING_EQUAL(text, expected);
        char cut[20];
        describe(waits_a, cut, sizeof cut);
        CU_ASSERT_NSTRING_EQUAL(cut, text, sizeof cut - 1);
        weir_series_cancel(b);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 b has both:-125 b ends:-125 a has both:0 a ends:0");
        weir_series_unref(b);
        weir_test_end();
}

/* -- misuse -- */

static char *
long_name(void)
{
        char *name = calloc(1, WEIR_NAME_MAX + 2);

        memset(name, 'x', WEIR_NAME_MAX + 1);
        return name;
}

static void
a_wrong_guard_series_or_name_is_refused(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_guard *guard = weir_guard_new();
        char *name = long_name();

        begin();
        CU_ASSERT_EQUAL(weir_guard_release(guard, series), -EPERM);
        CU_ASSERT_EQUAL(weir_guard_release(NULL, series), -ENOMEM);
        CU_ASSERT_EQUAL(weir_guard_release(guard, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_guard_release_named("g", series), -EPERM);
        CU_ASSERT_EQUAL(weir_guard_release_named("g", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_guard_release_named("", series), -EINVAL);
        CU_ASSERT_EQUAL(weir_guard_release_named(NULL, series), -EINVAL);
        CU_ASSERT(!weir_guard_is_held(NULL, series));
        CU_ASSERT(!weir_guard_is_held(guard, series));
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_new(NULL, noted, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_new_named(NULL, noted, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_new_named("", noted, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_new_named(name, noted, "x")), -ENAMETOOLONG);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_guard_open(name));
        CU_ASSERT_EQUAL(errno, ENAMETOOLONG);
        CU_ASSERT_PTR_NULL(weir_guard_open(NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_guard_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_guard_ref(NULL));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_guard_unref(guard);
        weir_series_dismiss(series);
        free(name);
        weir_test_end();
}

static void
only_who_holds_it_can_release_it(void)
{
        weir_series *a = weir_series_ref(holder("a", WEIR_SEC(1))), *b = weir_series_ref(holder("b", WEIR_SEC(1)));
        weir_guard *guard = weir_guard_open("g");

        begin();
        weir_series_start(a);
        weir_series_start(b);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_guard_release(guard, b), -EPERM);
        CU_ASSERT(weir_guard_is_held(guard, a));
        CU_ASSERT(!weir_guard_is_held(guard, b));
        CU_ASSERT_EQUAL(weir_guard_release(guard, a), 0); /* by the holder of a reference */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0");
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_guard_release(guard, a), -EPERM); /* after its end */
        weir_series_unref(a);
        weir_series_unref(b);
        weir_guard_unref(guard);
        weir_test_end();
}

static void
asks_in_a_child(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_guard *guard = weir_guard_new();

        if (weir_guard_release(guard, series) == -ECHILD && weir_guard_release_named("g", series) == -ECHILD &&
            !weir_guard_is_held(guard, NULL))
                fputs("refused", stderr);
}

static void
forked_child_is_refused(void)
{
        char said[64];

        weir_test_begin_real(1);
        weir_test_child(asks_in_a_child, said, sizeof said);
        CU_ASSERT_STRING_EQUAL(said, "refused");
        weir_test_end();
}

/* -- many threads -- */

#define STORM_GUARDS 3
#define STORM_SERIES 6000

static const char *const storm_names[STORM_GUARDS] = {"s0", "s1", "s2"};
static unsigned storm_inside[STORM_GUARDS], storm_plain[STORM_GUARDS]; /* guarded by the guards: a race would be seen */
static atomic_uint storm_acquired, storm_ended, storm_broken, storm_starved;

struct storm {
        unsigned guard;
        bool inside, releases;
};

static void
storm_leaves(weir_task *task, void *context)
{
        struct storm *storm = context;

        storm_inside[storm->guard]--;
        storm->inside = false;
        if (storm->releases && weir_guard_release_named(storm_names[storm->guard], weir_series_of(task)))
                atomic_fetch_add(&storm_broken, 1);
}

static void
storm_enters(weir_task *task, void *context)
{
        struct storm *storm = context;

        if (weir_task_status(task)) {
                atomic_fetch_add(&storm_starved, 1);
                return;
        }
        atomic_fetch_add(&storm_acquired, 1);
        if (storm_inside[storm->guard]++)
                atomic_fetch_add(&storm_broken, 1);
        storm_plain[storm->guard]++;
        storm->inside = true;
        weir_series_push_front(weir_series_of(task), weir_timer_new(WEIR_USEC(5), storm_leaves, storm));
}

static void
storm_ends(weir_series *series, void *context)
{
        struct storm *storm = context;

        (void)series;
        if (storm->inside) /* its series was cancelled before the timer was started */
                storm_inside[storm->guard]--;
        free(storm);
        atomic_fetch_add(&storm_ended, 1);
}

static weir_series *
storm_series(unsigned i)
{
        struct storm *storm = calloc(1, sizeof *storm);
        weir_series *series = weir_series_new(storm_ends, storm);

        *storm = (struct storm){.guard = i % STORM_GUARDS, .releases = i % 2};
        weir_series_push(series, weir_guard_acquire_new_named(storm_names[storm->guard], storm_enters, storm));
        if (i % 7 == 0)
                weir_series_set_deadline(series, WEIR_USEC(200 + i % 1000));
        return series;
}

static void *
storm_starts(void *argument)
{
        for (unsigned i = 0; i < STORM_SERIES; i++) {
                weir_series *series = weir_series_ref(storm_series(i));

                if (i % 11 == 0) {
                        struct storm *storm = argument; /* a task that is dismissed, in between */
                        weir_task_dismiss(weir_guard_acquire_new_named("s0", NULL, storm));
                }
                weir_series_start(series);
                if (i % 4 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
storm(bool waits)
{
        pthread_t threads[2];

        storm_acquired = storm_ended = storm_broken = storm_starved = 0;
        memset(storm_plain, 0, sizeof storm_plain);
        weir_test_begin_real(3);
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_starts, NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        if (waits)
                WEIR_TEST_EVENTUALLY(storm_ended == 2 * STORM_SERIES);
        weir_test_end(); /* which otherwise ends all that is left */
        CU_ASSERT_EQUAL(storm_ended, 2 * STORM_SERIES);
        CU_ASSERT_EQUAL(storm_broken, 0);
        unsigned plain = 0;
        for (unsigned i = 0; i < STORM_GUARDS; i++) {
                CU_ASSERT_EQUAL(storm_inside[i], 0);
                CU_ASSERT(!is_held(storm_names[i]));
                plain += storm_plain[i];
        }
        CU_ASSERT_EQUAL(plain, storm_acquired);
        CU_ASSERT(storm_acquired > 0);
}

static void
one_at_a_time_is_inside_whatever_ends_the_others(void)
{
        storm(true);
}

static void
shutdown_amid_that_leaves_nothing_held(void)
{
        storm(false);
}

/* -- a release by others meets the end -- */

struct meeting {
        weir_series *series;
        atomic_bool ended;
};

static atomic_uint released;

static void
meeting_ended(weir_series *series, void *meeting)
{
        (void)series;
        ((struct meeting *)meeting)->ended = true;
}

/* Until it has, or the series is at its end. */
static void *
releases_what_others_hold(void *context)
{
        struct meeting *meeting = context;
        int result;

        while ((result = weir_guard_release_named("r", meeting->series)) != 0 && !meeting->ended)
                weir_test_sleep(2000);
        atomic_fetch_add(&released, result == 0);
        return NULL;
}

static void
release_from_another_thread_meets_the_end_of_the_series(void)
{
        released = 0;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < 300; i++) {
                struct meeting meeting = {0};
                weir_series *series = weir_series_ref(weir_series_new(meeting_ended, &meeting));
                pthread_t thread;

                meeting.series = series;
                weir_series_push(series, weir_guard_acquire_new_named("r", NULL, NULL));
                weir_series_push(series, weir_timer_new(WEIR_USEC(100), NULL, NULL));
                CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, releases_what_others_hold, &meeting), 0);
                weir_test_sleep(1000 * (i % 50));
                weir_series_start(series);
                if (i % 2)
                        weir_series_cancel(series);
                pthread_join(thread, NULL);
                WEIR_TEST_EVENTUALLY(meeting.ended);
                weir_series_unref(series);
        }
        CU_ASSERT(released > 0);
        weir_test_end();
        CU_ASSERT(!is_held("r"));
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(guard_goes_from_series_to_series_in_the_order_of_coming),
                WEIR_TEST(released_guard_is_the_next_ones_at_once),
                WEIR_TEST(a_task_that_releases_and_acquires_again_waits_behind_the_others),
                WEIR_TEST(lone_task_holds_it_until_what_its_callback_pushed_has_ended),
                WEIR_TEST(lone_task_without_a_callback_gives_it_back),
                WEIR_TEST(callback_and_free_function_of_the_series_run_while_it_is_held),
                WEIR_TEST(many_guards_of_one_series_are_given_back_at_its_end),
                WEIR_TEST(series_that_ends_early_gives_it_back),
                WEIR_TEST(cancelled_wait_is_passed_over),
                WEIR_TEST(granted_stays_granted_though_its_series_is_cancelled_meanwhile),
                WEIR_TEST(dismissed_or_refused_task_holds_nothing),
                WEIR_TEST(acquiring_what_the_series_holds_is_a_deadlock),
                WEIR_TEST(task_of_a_timeout_holds_it_as_long_as_its_own_series),
                WEIR_TEST(a_holder_of_the_guard_that_the_other_waits_for_is_seen),
                WEIR_TEST(a_wrong_guard_series_or_name_is_refused),
                WEIR_TEST(only_who_holds_it_can_release_it),
                WEIR_TEST(forked_child_is_refused),
                WEIR_TEST(one_at_a_time_is_inside_whatever_ends_the_others),
                WEIR_TEST(shutdown_amid_that_leaves_nothing_held),
                WEIR_TEST(release_from_another_thread_meets_the_end_of_the_series),
        };

        return weir_test_main("guard", tests, sizeof tests / sizeof *tests);
}
