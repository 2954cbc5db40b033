/* test/trace_test.c: traces. */
#include "test/trace_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "kernel/observe/trace_ring.h"
#include "test/blocking_fixture.h"

static char path[64];

static void
begin_trace(enum weir_clock clock, int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = clock;
        config.pollers = pollers;
        config.compute_threads = 2;
        snprintf(path, sizeof path, "/tmp/weir-trace-%d.json", (int)getpid());
        CU_ASSERT_EQUAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
}

/* Reads the trace, and checks the rules that hold for each one. */
static struct weir_test_trace
read_trace(void)
{
        struct weir_test_trace trace = weir_test_trace_read(path);

        weir_test_trace_nests(&trace);
        weir_test_trace_arrows(&trace);
        unlink(path);
        return trace;
}

static struct weir_test_trace
end_trace(void)
{
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        return read_trace();
}

static void
nothing(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

static void
nothing_of_a_series(weir_series *series, void *context)
{
        (void)series;
        (void)context;
}

static void
nothing_of_a_function(void *context)
{
        (void)context;
}

static void
sleep_for_a_while(weir_task *task, void *context)
{
        (void)task;
        usleep((useconds_t)(uintptr_t)context);
}

/* -- slices -- */

static void
each_callback_has_a_slice_with_kind_name_status_and_lateness(void)
{
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        weir_task_run(weir_timer_new_named("tea", WEIR_MSEC(5), nothing, NULL));
        weir_task_run(weir_empty_new(nothing, NULL));
        weir_series *series = weir_series_new(nothing_of_a_series, NULL);
        weir_series_push(series, weir_timer_new_named("gone", WEIR_SEC(5), nothing, NULL));
        weir_series_ref(series);
        weir_series_start(series);
        weir_series_cancel(series);
        weir_series_unref(series);
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *tea = weir_test_trace_find(&trace, 'X', "timer \"tea\"", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(tea);
        CU_ASSERT_STRING_EQUAL(tea->category, "callback");
        CU_ASSERT(tea->has_status && tea->status == 0 && tea->has_late && tea->late == 0);
        CU_ASSERT_EQUAL(tea->at, WEIR_SEC(1) + WEIR_MSEC(5)); /* where the virtual clock starts */
        CU_ASSERT_STRING_EQUAL(weir_test_track_name(&trace, tea->track), "weir/0");
        struct weir_test_event *gone = weir_test_trace_find(&trace, 'X', "timer \"gone\"", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(gone);
        CU_ASSERT(gone->has_status && gone->status == -ECANCELED && !gone->has_late);
        struct weir_test_event *end = weir_test_trace_find(&trace, 'X', "series", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        CU_ASSERT(end->series == gone->series && end->series > 0 && end->status == -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "empty task"), 1);
        weir_test_trace_free(&trace);
}

static void
how_long_a_callback_takes_is_the_length_of_its_slice(void)
{
        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_task_run(weir_timer_new_named("sleeps", WEIR_MSEC(50), sleep_for_a_while, (void *)(uintptr_t)3000));
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *sleeps = weir_test_trace_find(&trace, 'X', "timer \"sleeps\"", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(sleeps);
        CU_ASSERT(sleeps->lasts >= WEIR_MSEC(3) && sleeps->lasts < WEIR_TEST_TOLERANCE);
        CU_ASSERT(weir_test_trace_count(&trace, 'X', "sleeps") > 0);
        weir_test_trace_free(&trace);
}

static void
a_function_and_its_callback_have_slices_on_the_executor(void)
{
        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_go_new("sums", nothing_of_a_function, nothing, NULL));
        weir_series_run(series);
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *body = weir_test_trace_find(&trace, 'X', "function's body \"sums\"", 0);
        struct weir_test_event *callback = weir_test_trace_find(&trace, 'X', "function", 0);
        CU_ASSERT_FATAL(body && callback);
        CU_ASSERT(body->series > 0 && body->series == callback->series && body->track == callback->track);
        CU_ASSERT_EQUAL(strncmp(weir_test_track_name(&trace, body->track), "weir/go", 7), 0);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 1);
        weir_test_trace_free(&trace);
}

static void
outlive(void *context)
{
        weir_test_latch_wait(context);
}

static void
a_function_that_outlives_its_task_has_a_slice_and_leaves_the_series_alone(void)
{
        struct weir_test_latch latch = WEIR_TEST_LATCH(1);

        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_go_new_timed("slow", WEIR_MSEC(300), outlive, nothing, &latch));
        weir_series_run(series);
        weir_test_latch_count_down(&latch);
        weir_shutdown();
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = read_trace();

        struct weir_test_event *callback = weir_test_trace_find(&trace, 'X', "function", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(callback);
        CU_ASSERT_EQUAL(callback->status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "function's body \"slow\""), 1);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 0);
        weir_test_trace_free(&trace);
}

static void
free_functions_have_slices(void)
{
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        weir_task *task = weir_empty_new(nothing, NULL);
        weir_task_on_free(task, nothing_of_a_function);
        weir_task_run(task);
        task = weir_empty_new(NULL, NULL); /* on this thread, which has no track */
        weir_task_on_free(task, nothing_of_a_function);
        weir_task_dismiss(task);
        struct weir_test_trace trace = end_trace();

        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "free function"), 1);
        weir_test_trace_free(&trace);
}

/* -- names -- */

static void
names_of_any_bytes_become_strings(void)
{
        static const char *const names[][2] = {
                {"a \"b\" \\ / c", "timer \"a \"b\" \\ / c\""},
                {"\x01\n\x1b[31m\x7f", "timer \"\x01\n\x1b[31m\x7f\""},
                {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
                 "timer \"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\""},
                {"\xff", "timer \"\xef\xbf\xbd\""},
                {"\xc3", "timer \"\xef\xbf\xbd\""},
                {"\xc0\xaf", "timer \"\xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xe0\x80\x80", "timer \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xed\xa0\x80", "timer \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xf4\x90\x80\x80", "timer \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xf0\x80\x80\x80", "timer \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
                {"\xe2\x82x", "timer \"\xef\xbf\xbd\xef\xbf\xbdx\""},
        };
        const size_t count = sizeof names / sizeof *names;

        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        for (size_t i = 0; i < count; i++)
                weir_task_run(weir_timer_new_named(names[i][0], 1, nothing, NULL));
        struct weir_test_trace trace = end_trace();
        for (size_t i = 0; i < count; i++)
                CU_ASSERT_PTR_NOT_NULL(weir_test_trace_find(&trace, 'X', names[i][1], 0));
        weir_test_trace_free(&trace);
}

static void
long_names_are_cut_between_characters(void)
{
        char whole[WEIR__TRACE_NAME + 1] = "", longer[WEIR_NAME_MAX + 1] = "", wanted[128];

        memset(whole, 'w', WEIR__TRACE_NAME);
        memset(longer, 'l', WEIR__TRACE_NAME - 1);
        strcat(longer, "\xe2\x82\xac and more");
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        weir_task_run(weir_timer_new_named(whole, 1, nothing, NULL));
        weir_task_run(weir_timer_new_named(longer, 1, nothing, NULL));
        struct weir_test_trace trace = end_trace();
        snprintf(wanted, sizeof wanted, "timer \"%s\"", whole);
        CU_ASSERT_PTR_NOT_NULL(weir_test_trace_find(&trace, 'X', wanted, 0));
        snprintf(wanted, sizeof wanted, "timer \"%.*s...\"", WEIR__TRACE_NAME - 1, longer);
        CU_ASSERT_PTR_NOT_NULL(weir_test_trace_find(&trace, 'X', wanted, 0));
        weir_test_trace_free(&trace);
}

/* -- arrows -- */

static void
arrows_lead_along_a_series(void)
{
        begin_trace(WEIR_CLOCK_REAL, 2);
        weir_series *series = weir_series_new(nothing_of_a_series, NULL);
        weir_series_push(series, weir_timer_new_named("1", 1, nothing, NULL));
        weir_series_push(series, weir_go_new(NULL, nothing_of_a_function, NULL, NULL));
        weir_series_push(series, weir_timer_new_named("2", 1, nothing, NULL));
        weir_series_run(series);
        struct weir_test_trace trace = end_trace();

        static const char *const path_of_it[] = {"timer \"1\"", "function's body", "timer \"2\"", "series"};
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 3);
        for (size_t i = 0; i < 3; i++) {
                struct weir_test_event *to = weir_test_trace_find(&trace, 'X', path_of_it[i + 1], 0), *end = NULL, *start = NULL;

                for (size_t n = 0; (end = weir_test_trace_find(&trace, 'f', "next", n)); n++)
                        if (to && end->at == to->at && end->track == to->track)
                                break;
                CU_ASSERT_PTR_NOT_NULL_FATAL(end);
                for (size_t n = 0; (start = weir_test_trace_find(&trace, 's', "next", n)) && start->id != end->id; n++)
                        ;
                CU_ASSERT_PTR_NOT_NULL_FATAL(start);
                CU_ASSERT(weir_test_slice_at(&trace, start) == weir_test_trace_find(&trace, 'X', path_of_it[i], 0));
        }
        weir_test_trace_free(&trace);
}

static void
push_one_more(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), weir_timer_new_named("pushed", 1, nothing, NULL));
}

static void
a_series_made_inside_a_callback_begins_there(void)
{
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        weir_task_run(weir_timer_new_named("in a series", 1, push_one_more, NULL));
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("lone", 1, push_one_more, NULL)), 0);
        weir_clock_advance(WEIR_SEC(1));
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *lone = weir_test_trace_find(&trace, 'X', "timer \"lone\"", 0);
        struct weir_test_event *pushed = weir_test_trace_find(&trace, 'X', "timer \"pushed\"", 1);
        CU_ASSERT_FATAL(lone && pushed);
        CU_ASSERT(lone->series > 0 && lone->series == pushed->series);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 2);
        weir_test_trace_free(&trace);
}

static void
each_series_of_a_parallel_is_reached_from_the_callback_before_it(void)
{
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(nothing, NULL);
        for (int i = 0; i < 3; i++)
                weir_parallel_add(parallel, weir_timer_new_named("child", WEIR_MSEC(i + 1), nothing, NULL));
        weir_series_push(series, weir_timer_new_named("before", WEIR_MSEC(1), nothing, NULL));
        weir_series_push(series, parallel);
        weir_series_run(series);
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *before = weir_test_trace_find(&trace, 'X', "timer \"before\"", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(before);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 4); /* three in, and to the callback of the parallel */
        for (size_t i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(weir_test_trace_find(&trace, 's', "next", i)->at, before->at);
        weir_test_trace_free(&trace);
}

/* -- marks -- */

static void
block(weir_task *task, void *context)
{
        (void)task;
        while (!weir_test_has_lost_poller())
                usleep(100);
        weir_test_latch_count_down(context);
}

static void
give(weir_task *task, void *context)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        weir_blocking_end();
        weir_test_latch_count_down(context);
}

/* An arrow leads from inside that slice to one where a worker gets the poller. */
static void
hands_over(weir_task_fn *callback, const char *mark)
{
        struct weir_test_latch latch = WEIR_TEST_LATCH(1);

        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_task_run(weir_timer_new_named("who loses it", 0, callback, &latch));
        weir_test_latch_wait(&latch);
        struct weir_test_trace trace = end_trace();

        struct weir_test_event *slice = weir_test_trace_find(&trace, 'X', "timer \"who loses it\"", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(slice);
        CU_ASSERT(slice->lost_poller);
        CU_ASSERT(weir_test_trace_count(&trace, 'i', mark) > 0);
        struct weir_test_event *start = weir_test_trace_find(&trace, 's', "hand-over", 0);
        struct weir_test_event *end = weir_test_trace_find(&trace, 'f', "hand-over", 0);
        CU_ASSERT_FATAL(start && end);
        CU_ASSERT(weir_test_slice_at(&trace, start) == slice);
        CU_ASSERT(end->track != start->track);
        struct weir_test_event *taken = weir_test_trace_find(&trace, 'X', "takes over", 0);
        CU_ASSERT(taken && taken->track == end->track && taken->at == end->at);
        weir_test_trace_free(&trace);
}

static void
a_poller_that_the_watchdog_takes_away_is_marked(void)
{
        hands_over(block, "takes a poller away");
}

static void
a_poller_that_a_callback_gives_away_is_marked(void)
{
        hands_over(give, "gives its poller away");
}

static void
start_functions(void *context)
{
        (void)context;
        for (int i = 0; i < 64; i++)
                weir_task_start(weir_go_new(NULL, nothing_of_a_function, NULL, NULL));
        usleep(20000);
}

static void
steals_are_marked(void)
{
        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_task_run(weir_go_new(NULL, start_functions, NULL, NULL));
        struct weir_test_trace trace = end_trace();

        CU_ASSERT(weir_test_trace_count(&trace, 'i', "steals") > 0);
        weir_test_trace_free(&trace);
}

/* -- start and stop -- */

static void
wrong_calls_are_refused(void)
{
        CU_ASSERT_EQUAL(weir_trace_stop(), -EALREADY);
        CU_ASSERT_EQUAL(weir_trace_start(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_trace_start("/nowhere/at/all"), -ENOENT);
        CU_ASSERT_EQUAL(weir_trace_start("/tmp"), -EISDIR);
        CU_ASSERT_EQUAL(weir_trace_stop(), -EALREADY);
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        CU_ASSERT_EQUAL(weir_trace_start(path), -EBUSY);
        CU_ASSERT_EQUAL(weir_trace_start("/nowhere/at/all"), -EBUSY);
        weir_task_run(weir_timer_new(1, nothing, NULL));
        struct weir_test_trace trace = end_trace();
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer"), 1);
        CU_ASSERT_EQUAL(weir_trace_stop(), -EALREADY);
        weir_test_trace_free(&trace);
}

static bool
has_records(void)
{
        for (struct weir__trace_ring *ring = weir__trace_rings.first; ring; ring = ring->next)
                if (ring->records)
                        return true;
        return false;
}

static void
without_a_trace_there_is_no_file_and_no_memory(void)
{
        unsigned open = weir_test_entries_of("/proc/self/fd"), threads = weir_test_threads();

        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        weir_task_run(weir_timer_new(1, nothing, NULL));
        CU_ASSERT(!has_records());
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_task_run(weir_timer_new(1, nothing, NULL));
        CU_ASSERT(has_records());
        struct weir_test_trace trace = end_trace();
        CU_ASSERT(!has_records());
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), open);
        CU_ASSERT_EQUAL(weir_test_threads(), threads);
        weir_test_trace_free(&trace);
}

static void
traces_follow_each_other_with_one_runtime(void)
{
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        for (int i = 0; i < 20; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                CU_ASSERT_EQUAL(weir_trace_start(path), 0);
                weir_series_push(series, weir_timer_new_named("a", 1, nothing, NULL));
                weir_series_push(series, weir_timer_new_named("b", 1, nothing, NULL));
                weir_series_run(series);
                CU_ASSERT_EQUAL(weir_trace_stop(), 0);
                struct weir_test_trace trace = read_trace();
                CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"a\""), 1);
                CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"b\""), 1);
                CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 1);
                weir_test_trace_free(&trace);
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
a_trace_goes_on_across_shutdown_and_init(void)
{
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        for (int i = 0; i < 3; i++) {
                struct weir_config config = WEIR_CONFIG_DEFAULT;

                config.clock = i == 1 ? WEIR_CLOCK_VIRTUAL : WEIR_CLOCK_REAL;
                CU_ASSERT_EQUAL(weir_init(&config), 0);
                weir_task_start(weir_timer_new_named("for ever", WEIR_FOREVER, nothing, NULL));
                weir_series *series = weir_series_new(nothing_of_a_series, NULL);
                weir_series_push(series, weir_timer_new_named("here", 1, nothing, NULL));
                weir_series_run(series);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = read_trace();
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"here\""), 3);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"for ever\""), 3);
        CU_ASSERT_EQUAL(weir_test_trace_find(&trace, 'X', "timer \"for ever\"", 1)->status, -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 3);
        weir_test_trace_free(&trace);
}

static void
start_here(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
}

static void
stop_here(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
}

static void
callbacks_may_start_and_stop_it(void)
{
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        weir_series *series = weir_series_new(nothing_of_a_series, NULL);
        weir_series_push(series, weir_timer_new_named("before", 1, nothing, NULL));
        weir_series_push(series, weir_timer_new_named("start", 1, start_here, NULL));
        weir_series_push(series, weir_timer_new_named("inside", 1, nothing, NULL));
        weir_series_push(series, weir_timer_new_named("stop", 1, stop_here, NULL));
        weir_series_push(series, weir_timer_new_named("behind", 1, nothing, NULL));
        weir_series_run(series);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        struct weir_test_trace trace = read_trace();
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"inside\""), 1);
        for (size_t i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X',
                                                      ((const char *[]){"timer \"before\"", "timer \"start\"", "timer \"stop\"",
                                                                        "timer \"behind\""})[i]),
                                0);
        CU_ASSERT_EQUAL(weir_test_trace_arrows(&trace), 0);
        weir_test_trace_free(&trace);
}

/* -- disks -- */

static void
a_full_disk_is_reported_by_stop(void)
{
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        CU_ASSERT_EQUAL(weir_trace_start("/dev/full"), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(1, nothing, NULL)), 0);
        CU_ASSERT_EQUAL(weir_trace_stop(), -ENOSPC);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
the_part_that_fits_on_a_full_disk_is_a_whole_trace(void)
{
        struct rlimit before, limit;
        weir_series *series = weir_series_new(NULL, NULL);

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before);
        limit = (struct rlimit){50000, before.rlim_max};
        begin_trace(WEIR_CLOCK_VIRTUAL, 1);
        setrlimit(RLIMIT_FSIZE, &limit);
        for (int i = 0; i < 2000; i++)
                weir_series_push(series, weir_empty_new(nothing, NULL));
        weir_series_run(series);
        CU_ASSERT_EQUAL(weir_trace_stop(), -EFBIG);
        setrlimit(RLIMIT_FSIZE, &before);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        struct weir_test_trace trace = read_trace();
        CU_ASSERT(trace.count > 100 && weir_test_trace_count(&trace, 'X', "empty task") < 2000);
        weir_test_trace_free(&trace);
}

/* Copies what comes out of the FIFO, once it may. */
struct drain {
        char from[80], to[80];
        struct weir_test_latch may, opened;
};

static void *
drain(void *argument)
{
        struct drain *drain = argument;
        int from = open(drain->from, O_RDONLY | O_CLOEXEC), to = open(drain->to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        char bytes[4096];
        ssize_t size;

        weir_test_latch_wait(&drain->may);
        while ((size = read(from, bytes, sizeof bytes)) > 0)
                CU_ASSERT_EQUAL(write(to, bytes, (size_t)size), size);
        close(from);
        close(to);
        return NULL;
}

static unsigned warnings;

static void
count_warnings(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        warnings += level == WEIR_LOG_WARNING && strstr(message, "the trace lacks") != NULL;
}

static void
events_that_find_a_buffer_full_are_counted(void)
{
        struct drain fifo = {.may = WEIR_TEST_LATCH(1)};
        const int count = 2 * WEIR__TRACE_RECORDS;
        weir_series *series = weir_series_new(NULL, NULL);
        pthread_t thread;

        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        weir_log_set(count_warnings, NULL);
        warnings = 0;
        snprintf(fifo.from, sizeof fifo.from, "%s.fifo", path);
        strcpy(fifo.to, path);
        CU_ASSERT_EQUAL(mkfifo(fifo.from, 0600), 0);
        CU_ASSERT_EQUAL(pthread_create(&thread, NULL, drain, &fifo), 0);
        CU_ASSERT_EQUAL(weir_trace_start(fifo.from), 0);
        for (int i = 0; i < count; i++)
                weir_series_push(series, weir_empty_new(nothing, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0); /* although nothing is read: no callback waits for the file */
        weir_test_latch_count_down(&fifo.may);
        int lost = weir_trace_stop();
        pthread_join(thread, NULL);
        unlink(fifo.from);
        CU_ASSERT(lost > 0 && lost < count);
        CU_ASSERT_EQUAL(warnings, 1);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);

        struct weir_test_trace trace = read_trace();
        struct weir_test_event *note = weir_test_trace_find(&trace, 'i', "events were left out: a buffer was full", 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(note);
        CU_ASSERT_EQUAL(note->number, lost);
        int there = 0;
        for (size_t i = 0; i < trace.count; i++)
                there += trace.events[i].phase == 'X' && strcmp(trace.events[i].name, "empty task") == 0;
        CU_ASSERT(there + lost >= count && there + lost <= count + 64); /* sleeps may be among what was lost */
        weir_test_trace_free(&trace);
}

/* -- processes -- */

static int
fork_and(int (*run)(void))
{
        int status = 0;
        pid_t pid = fork();

        if (pid == 0)
                exit(run());
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
trace_and_exit(void)
{
        if (weir_trace_start(path) || weir_init(NULL))
                return 1;
        weir_task_run(weir_timer_new_named("done", 1, nothing, NULL));
        weir_task_start(weir_timer_new_named("not done", WEIR_FOREVER, nothing, NULL));
        return 7;
}

static int
init_trace_and_exit(void)
{
        return weir_init(NULL) ? 1 : trace_and_exit() == 1 ? 8 : 1; /* it is up already */
}

static int
trace_after_init_and_exit(void)
{
        if (weir_init(NULL) || weir_trace_start(path))
                return 1;
        weir_task_run(weir_timer_new_named("done", 1, nothing, NULL));
        weir_task_start(weir_timer_new_named("not done", WEIR_FOREVER, nothing, NULL));
        return 7;
}

static void
exit_closes_it(void)
{
        static int (*const ways[])(void) = {trace_and_exit, trace_after_init_and_exit};

        for (size_t i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL(fork_and(ways[i]), 7);
                struct weir_test_trace trace = read_trace();
                CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"done\""), 1);
                CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"not done\""),
                                1); /* which the shutdown at exit ends */
                weir_test_trace_free(&trace);
        }
        CU_ASSERT_EQUAL(fork_and(init_trace_and_exit), 8);
        unlink(path);
}

/* Both ends of a FIFO that takes no byte more; so what is written to it waits for ever. */
static void
fill_fifo(void)
{
        static const char bytes[4096];
        int fd;

        unlink(path);
        if (mkfifo(path, 0600) || (fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
                _exit(2);
        while (write(fd, bytes, sizeof bytes) > 0)
                continue;
}

static int
trace_into_a_full_fifo_and_exit(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.exit_wait = WEIR_MSEC(100);
        fill_fifo();
        if (weir_init(&config) || weir_trace_start(path))
                return 1;
        weir_task_run(weir_timer_new_named("done", 1, nothing, NULL));
        return 7;
}

static void *
stop_for_ever(void *unused)
{
        (void)unused;
        weir_trace_stop();
        return NULL;
}

static int
exit_while_another_thread_stops_it(void)
{
        pthread_t thread;
        int result = trace_into_a_full_fifo_and_exit();

        pthread_create(&thread, NULL, stop_for_ever, NULL);
        while (weir__trace_is_on()) /* it has the lock from then on */
                sched_yield();
        return result;
}

static void
a_trace_that_nobody_reads_keeps_exit_no_longer_than_exit_wait(void)
{
        static int (*const ways[])(void) = {trace_into_a_full_fifo_and_exit, exit_while_another_thread_stops_it};

        for (size_t i = 0; i < 2; i++) {
                weir_nsec before = weir_test_now();

                CU_ASSERT_EQUAL(fork_and(ways[i]), 7);
                weir_nsec took = weir_test_now() - before;
                CU_ASSERT(took >= WEIR_MSEC(100) && took < WEIR_MSEC(100) + WEIR_TEST_TOLERANCE);
        }
        unlink(path);
}

static int
call_both(void)
{
        weir_test_leaks_do_not_count = 1;
        return weir_trace_start("/tmp/weir-never") == -ECHILD && weir_trace_stop() == -ECHILD ? 3 : 1;
}

static int
stop_then_trace(void)
{
        char own[80];

        snprintf(own, sizeof own, "%s.child", path);
        if (weir_trace_stop() != -EALREADY || weir_trace_start(own) || weir_init(NULL))
                return 1;
        weir_task_run(weir_timer_new(1, nothing, NULL));
        if (weir_trace_stop() || unlink(own))
                return 2;
        return weir_shutdown() ? 4 : 5;
}

static void
a_forked_child_has_none(void)
{
        begin_trace(WEIR_CLOCK_REAL, 1);
        weir_task_run(weir_timer_new_named("before", 1, nothing, NULL));
        CU_ASSERT_EQUAL(fork_and(call_both), 3);
        weir_task_run(weir_timer_new_named("behind", 1, nothing, NULL));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        if (!WEIR_TEST_SANITIZED)                              /* ThreadSanitizer allows no threads there */
                CU_ASSERT_EQUAL(fork_and(stop_then_trace), 5); /* nothing runs, so it may use the library */
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = read_trace();
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"before\""), 1);
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'X', "timer \"behind\""), 1);
        weir_test_trace_free(&trace);
}

/* -- all at once -- */

static _Atomic bool is_over;
static _Atomic unsigned flows_run;

static void
begin_and_end(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_blocking_begin();
        weir_blocking_end();
}

static void *
run_flows(void *unused)
{
        (void)unused;
        while (!is_over) {
                weir_series *series = weir_series_new(nothing_of_a_series, NULL);
                weir_task *parallel = weir_parallel_new(nothing, NULL);

                for (int i = 0; i < 4; i++)
                        weir_parallel_add(parallel, i % 2 ? weir_timer_new_named("timer", i, nothing, NULL)
                                                          : weir_go_new("queue", nothing_of_a_function, nothing, NULL));
                weir_series_push(series, weir_empty_new(nothing, NULL));
                weir_series_push(series, parallel);
                weir_series_push(series, weir_timer_new(1, begin_and_end, NULL));
                weir_series_push(series, weir_go_new_timed("limited", WEIR_USEC(30), nothing_of_a_function, nothing, NULL));
                weir_series_run(series);
                flows_run++;
        }
        return NULL;
}

static void *
run_traces(void *unused)
{
        (void)unused;
        while (!is_over) {
                int failed = weir_trace_start("/dev/null");

                CU_ASSERT(failed == 0 || failed == -EBUSY);
                usleep(300);
                int stopped = weir_trace_stop();
                CU_ASSERT(stopped >= 0 || stopped == -EALREADY);
        }
        return NULL;
}

static void
traces_start_and_stop_while_all_goes_on(void)
{
        pthread_t threads[4];
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.compute_threads = 2;
        CU_ASSERT_EQUAL(weir_init(&config), 0);
        weir_log_set(NULL, NULL);
        is_over = false;
        for (int i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, i < 2 ? run_flows : run_traces, NULL);
        usleep(1500000);
        is_over = true;
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(weir_trace_stop(), -EALREADY);
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        is_over = false;
        flows_run = 0;
        for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, run_flows, NULL);
        WEIR_TEST_EVENTUALLY(flows_run > 20); /* each has more than five callbacks */
        is_over = true;
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        CU_ASSERT(weir_trace_stop() >= 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        struct weir_test_trace trace = read_trace();
        CU_ASSERT(trace.count > 100);
        weir_test_trace_free(&trace);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_callback_has_a_slice_with_kind_name_status_and_lateness),
                WEIR_TEST(how_long_a_callback_takes_is_the_length_of_its_slice),
                WEIR_TEST(a_function_and_its_callback_have_slices_on_the_executor),
                WEIR_TEST(a_function_that_outlives_its_task_has_a_slice_and_leaves_the_series_alone),
                WEIR_TEST(free_functions_have_slices),
                WEIR_TEST(names_of_any_bytes_become_strings),
                WEIR_TEST(long_names_are_cut_between_characters),
                WEIR_TEST(arrows_lead_along_a_series),
                WEIR_TEST(a_series_made_inside_a_callback_begins_there),
                WEIR_TEST(each_series_of_a_parallel_is_reached_from_the_callback_before_it),
                WEIR_TEST(a_poller_that_the_watchdog_takes_away_is_marked),
                WEIR_TEST(a_poller_that_a_callback_gives_away_is_marked),
                WEIR_TEST(steals_are_marked),
                WEIR_TEST(wrong_calls_are_refused),
                WEIR_TEST(without_a_trace_there_is_no_file_and_no_memory),
                WEIR_TEST(traces_follow_each_other_with_one_runtime),
                WEIR_TEST(a_trace_goes_on_across_shutdown_and_init),
                WEIR_TEST(callbacks_may_start_and_stop_it),
                WEIR_TEST(a_full_disk_is_reported_by_stop),
                WEIR_TEST(the_part_that_fits_on_a_full_disk_is_a_whole_trace),
                WEIR_TEST(events_that_find_a_buffer_full_are_counted),
                WEIR_TEST(exit_closes_it),
                WEIR_TEST(a_trace_that_nobody_reads_keeps_exit_no_longer_than_exit_wait),
                WEIR_TEST(a_forked_child_has_none),
                WEIR_TEST(traces_start_and_stop_while_all_goes_on),
        };

        return weir_test_main("trace", tests, sizeof tests / sizeof *tests);
}
