/* test/fiber_limits_test.c: very many fibers, and fibers at the limits of the system: memory that goes back, stacks of which
 * there are no more, stacks that are used up; and what belongs to a fiber and not to its thread. */
#include "test/fiber_fixture.h"

#include <fenv.h>

#include "kernel/stack/guard.h"
#include "kernel/stack/stack.h"

/* -- stacks that are used up: in children, in which no runtime was before -- */

static bool is_pinned;

static WEIR_TEST_OUTLINE int
recurse(volatile int *depth)
{
        volatile char frame[256];

        frame[0] = (char)++*depth;
        return *depth ? recurse(depth) + frame[0] : 0;
}

static int
crawl(void *context)
{
        volatile int depth = 0;

        (void)context;
        if (is_pinned)
                weir_fiber_pin(true);
        weir_fiber_yield();
        return recurse(&depth);
}

/* The frame before is looked at, so that no compiler makes a loop of it. */
static WEIR_TEST_OUTLINE int
use_50_kb(int depth, volatile char *before)
{
        volatile char frame[50000];

        frame[0] = (char)(depth + before[0]);
        int sum = depth < 1000 ? use_50_kb(depth + 1, frame) : 0;
        return sum + frame[0];
}

static int
parse(void *context)
{
        volatile char none[1] = {0};

        (void)context;
        weir_fiber_sleep(1);
        return use_50_kb(0, none);
}

/* The handler of before is that of nobody: a sanitizer has one. */
static void
run_to_its_end(weir_task *fiber)
{
        signal(SIGSEGV, SIG_DFL);
        weir_test_begin_real(2);
        weir_task_run(fiber);
}

static void
overflow_by_recursion(void)
{
        run_to_its_end(weir_fiber_new(crawl, NULL, NULL));
}

static void
overflow_by_a_large_frame(void)
{
        run_to_its_end(weir_fiber_new(parse, NULL, NULL));
}

static void
expect_overflow(void (*overflow)(void), const char *message)
{
        char said[4096];
        int status = weir_test_child(overflow, said, sizeof said);

        CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, message));
}

static void
an_overflow_names_the_fiber(void)
{
        expect_overflow(overflow_by_recursion, "weir: stack overflow in fiber \"crawl\" at 0x");
        is_pinned = true;
        expect_overflow(overflow_by_recursion, "weir: stack overflow in fiber \"crawl\" at 0x");
        is_pinned = false;
        expect_overflow(overflow_by_a_large_frame, "weir: stack overflow in fiber \"parse\" at 0x");
}

static volatile int *volatile nowhere = (volatile int *)8;

static int
write_to_nowhere(void *context)
{
        (void)context;
        weir_fiber_yield();
        *nowhere = 1;
        return 0;
}

static void
end_with_seven(int signo)
{
        (void)signo;
        _exit(7);
}

static void
fault_elsewhere(void)
{
        signal(SIGSEGV, end_with_seven);
        weir_test_begin_real(1);
        weir_task_run(weir_fiber_new(write_to_nowhere, NULL, NULL));
}

static void
other_faults_reach_the_handler_of_the_program(void)
{
        char said[4096];
        int status = weir_test_child(fault_elsewhere, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        CU_ASSERT_PTR_NULL(strstr(said, "stack overflow"));
}

/* -- no guards in the kernel -- */

static _Atomic unsigned refused, slept, told;

static void
note_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)context;
        told += strstr(message, "vm.max_map_count") != NULL;
}

static int
sleep_a_little(void *context)
{
        (void)context;
        slept++;
        return weir_fiber_sleep(WEIR_SEC(1));
}

static void
note_refusal(weir_task *fiber, void *context)
{
        (void)context;
        refused += weir_task_status(fiber) == -EAGAIN;
}

static void
without_a_guard_a_fiber_ends_with_eagain(void)
{
        refused = slept = told = 0;
        weir__stack_trim();
        weir__guard_pretend(5);
        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 20; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(sleep_a_little, note_refusal, NULL)), 0);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(slept, 5);
        CU_ASSERT_EQUAL(refused, 15);
        CU_ASSERT_EQUAL(told, 1);

        /* The stacks of those serve others. */
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(sleep_a_little, NULL, NULL)), 0);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir__guard_pretend(0);
}

/* -- fibers without a stack -- */

static void
fibers_that_do_not_begin_have_no_stack(void)
{
        struct weir_fiber_stats before, after;
        weir_task *made[500];

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(sleep_a_little, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_stats(&before), 0);
        for (unsigned i = 0; i < 500; i++)
                made[i] = weir_fiber_new(sleep_a_little, NULL, NULL);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        for (unsigned i = 0; i < 500; i++)
                weir_series_push(series, weir_fiber_new(sleep_a_little, NULL, NULL));
        weir_series_start(series);
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_EQUAL(weir_fiber_stats(&after), 0);
        CU_ASSERT_EQUAL(after.stacks, before.stacks);
        CU_ASSERT_EQUAL(after.running, 0);
        for (unsigned i = 0; i < 500; i++)
                weir_task_dismiss(made[i]);
        weir_series_cancel(series);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_fiber_stats(&after), 0);
        CU_ASSERT_EQUAL(after.stacks, before.stacks);
        weir_series_unref(series);
        weir_test_end();
}

/* -- what belongs to the fiber -- */

static int
round_so(void *context)
{
        const int *direction = context;

        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        CU_ASSERT_EQUAL(fesetround(*direction), 0);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(i % 2 ? weir_fiber_yield() : weir_fiber_sleep(1), 0);
                CU_ASSERT_EQUAL(fegetround(), *direction);
        }
        return 0;
}

static int
look_at_rounding(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        return 0;
}

static int
round_in_each_way(void *context)
{
        static int directions[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
        weir_group *group = weir_group_open();

        (void)context;
        for (unsigned i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(round_so, NULL, &directions[i]));
        for (unsigned i = 0; i < 50; i++)
                CU_ASSERT_EQUAL(weir_await(weir_fiber_new(look_at_rounding, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        return weir_group_close(group);
}

static void
rounding_stays_with_its_fiber(void)
{
        WEIR_TEST_IN_FIBER(round_in_each_way);
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, round_in_each_way, NULL), 0);
}

/* -- very many that sleep -- */

static size_t
read_kib(const char *path, const char *what)
{
        char line[256];
        size_t kib = 0;
        FILE *file = fopen(path, "re");

        while (file && fgets(line, sizeof line, file))
                if (strncmp(line, what, strlen(what)) == 0)
                        kib = strtoul(line + strlen(what), NULL, 10);
        if (file)
                fclose(file);
        return kib;
}

static size_t
resident_mib(void)
{
        return read_kib("/proc/self/status", "VmRSS:") >> 10;
}

static size_t
mappings(void)
{
        size_t count = 0;
        FILE *file = fopen("/proc/self/maps", "re");

        for (int byte; file && (byte = getc(file)) != EOF;)
                count += byte == '\n';
        if (file)
                fclose(file);
        return count;
}

static _Atomic size_t awake;

static int
sleep_long(void *context)
{
        (void)context;
        int status = weir_fiber_sleep(WEIR_SEC(100000));
        awake++;
        return status;
}

struct crowd {
        size_t count, mappings, mib;
};

static int
put_to_sleep(void *context)
{
        struct crowd *crowd = context;
        struct weir_fiber_stats stats = {0};
        weir_group *group = weir_group_open();
        size_t started = 0;

        while (started < crowd->count && weir_group_start(group, weir_fiber_new(sleep_long, NULL, NULL)) == 0)
                started++;
        CU_ASSERT_EQUAL(started, crowd->count);
        while (stats.running < crowd->count + 1) {
                CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_MSEC(10)), 0);
                CU_ASSERT_EQUAL(weir_fiber_stats(&stats), 0);
        }
        CU_ASSERT_EQUAL(awake, 0);
        crowd->mappings = mappings();
        crowd->mib = resident_mib();
        weir_group_cancel(group);
        CU_ASSERT_EQUAL(weir_group_close(group), -ECANCELED);
        CU_ASSERT_EQUAL(awake, crowd->count);
        return 0;
}

/* A million takes 5 GB.  Where the kernel has no guards for stacks, it limits how many there are. */
static size_t
draw_count(void)
{
        size_t gib = read_kib("/proc/meminfo", "MemAvailable:") >> 20;
        bool is_slow = getenv("WEIR_FIBER_HOP") || gib < 4;
        size_t count = WEIR_TEST_SANITIZED ? 2000 : is_slow ? 20000 : gib < 12 ? 200000 : 1000000;
        struct weir_fiber_stats stats;

        CU_ASSERT_EQUAL(weir_fiber_stats(&stats), 0);
        return stats.stacks_most && stats.stacks_most / 2 < count ? stats.stacks_most / 2 : count;
}

static void
very_many_sleep_and_are_cancelled_and_their_memory_goes_back(void)
{
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(look_at_rounding, NULL, NULL)), 0);
        struct crowd crowd = {.count = draw_count()};
        size_t before = resident_mib();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(put_to_sleep, NULL, &crowd)), 0);
        printf("(%zu fibers in %zu mappings and %zu MiB) ", crowd.count, crowd.mappings, crowd.mib - before);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(crowd.mappings < 65530);
                WEIR_TEST_EVENTUALLY(resident_mib() < before + 64 + (crowd.mib - before) / 8);
        }
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_overflow_names_the_fiber), /* first: a child needs a runtime that never was */
                WEIR_TEST(other_faults_reach_the_handler_of_the_program),
                WEIR_TEST(without_a_guard_a_fiber_ends_with_eagain),
                WEIR_TEST(fibers_that_do_not_begin_have_no_stack),
                WEIR_TEST(rounding_stays_with_its_fiber),
                WEIR_TEST(very_many_sleep_and_are_cancelled_and_their_memory_goes_back),
        };

        return weir_test_main("fibers at their limits", tests, sizeof tests / sizeof *tests);
}
