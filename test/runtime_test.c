/* test/runtime_test.c: the runtime from init to shutdown, and again; its workers; the virtual clock. */
#include "test/fixture.h"

#include <errno.h>
#include <stddef.h>

#include "kernel/loop/pollers.h"

#define FAR WEIR_SEC(1000)

/* -- init -- */

static void
init_while_it_runs_is_busy(void)
{
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_init(NULL), -EBUSY);
        CU_ASSERT_EQUAL(weir_init(&(struct weir_config)WEIR_CONFIG_DEFAULT), -EBUSY);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        weir_test_end();
}

static void
config_with_a_bad_value_is_refused_whichever_field_it_is(void)
{
        struct weir_config bad[] = {
                {.size = 0},
                {.size = 4},
                {.size = 1000000},
                {.size = sizeof(struct weir_config), .pollers = -1},
                {.size = sizeof(struct weir_config), .pollers = 65},
                {.size = sizeof(struct weir_config), .spare_workers = -1},
                {.size = sizeof(struct weir_config), .compute_threads = -1},
                {.size = sizeof(struct weir_config), .blocking_limit = -1},
                {.size = sizeof(struct weir_config), .affinity = 2},
                {.size = sizeof(struct weir_config), .files = (enum weir_files)2},
                {.size = sizeof(struct weir_config), .exit_wait = -1},
                {.size = sizeof(struct weir_config), .clock = (enum weir_clock)2},
        };

        for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_EQUAL(weir_init(&bad[i]), -EINVAL);
        }
        struct weir_config most = WEIR_CONFIG_DEFAULT;
        most.pollers = 64;
        most.spare_workers = 1000;
        most.compute_threads = 1000;
        most.blocking_limit = most.exit_wait = WEIR_FOREVER;
        CU_ASSERT_EQUAL(weir_init(&most), 0);
        CU_ASSERT_EQUAL(weir__pollers.count, 64);
        weir_test_end();
}

/* A program that was compiled with an older or a newer header. */
static void
config_of_another_version_is_read_as_far_as_both_know_it(void)
{
        struct {
                struct weir_config known;
                char newer[24];
        } config = {.known = WEIR_CONFIG_DEFAULT};

        config.known.pollers = 3;
        config.known.clock = (enum weir_clock)77; /* beyond what the older one has */
        config.known.size = offsetof(struct weir_config, spare_workers);
        CU_ASSERT_EQUAL(weir_init(&config.known), 0);
        CU_ASSERT_EQUAL(weir__pollers.count, 3);
        weir_test_end();

        config.known.clock = WEIR_CLOCK_REAL;
        config.known.pollers = 2;
        config.known.size = sizeof config;
        CU_ASSERT_EQUAL(weir_init(&config.known), 0);
        CU_ASSERT_EQUAL(weir__pollers.count, 2);
        weir_test_end();

        config.newer[23] = 1;
        CU_ASSERT_EQUAL(weir_init(&config.known), -EINVAL);
}

/* -- shutdown, and again -- */

static void
runtime_may_be_started_again_with_other_pollers(void)
{
        struct weir_test_record kept[200] = {0}, started[4] = {0};
        weir_task *tasks[200];

        for (unsigned i = 0; i < 200; i++) {
                tasks[i] = weir_test_named("kept", WEIR_MSEC(1), &kept[i]);
        }
        for (unsigned round = 0; round < 4; round++) {
                static const int pollers[4] = {4, 1, 3, 2};
                unsigned threads = weir_test_threads();

                weir_test_begin_real(pollers[round]);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(FAR, &started[round])), 0);
                for (unsigned i = round * 50; i < round * 50 + 50; i++) {
                        CU_ASSERT_EQUAL(weir_task_start(tasks[i]), 0);
                }
                for (unsigned i = round * 50; i < round * 50 + 50; i++) {
                        WEIR_TEST_EVENTUALLY(kept[i].frees == 1);
                }
                weir_test_end();
                CU_ASSERT(weir_test_threads_become(threads));
                WEIR_TEST_CALLED(&started[round], -ESHUTDOWN);
        }
        for (unsigned i = 0; i < 200; i++) {
                WEIR_TEST_CALLED(&kept[i], 0);
        }
        CU_ASSERT_EQUAL(weir_timer_count("kept"), 0);
}

static void
start_after_shutdown_is_refused_until_init(void)
{
        struct weir_test_record tasks[3] = {0}, end = {0};

        weir_test_begin_real(1);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&tasks[0])), -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&tasks[1])), -ESHUTDOWN);
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_series_push(series, weir_test_empty(&tasks[2]));
        CU_ASSERT_EQUAL(weir_series_run(series), -ESHUTDOWN);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_NOT_CALLED(&tasks[i]);
                WEIR_TEST_FREED_HERE(&tasks[i]);
        }
        CU_ASSERT_EQUAL(end.calls, 0);
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        weir_test_end();
}

static struct weir_test_latch begun;

static void
end_late(weir_task *task, void *context)
{
        weir_test_latch_count_down(&begun);
        weir_test_sleep(50000000);
        weir_test_done(task, context);
}

static void *
shut_down(void *context)
{
        struct weir_test_record *record = context;

        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(record->calls, 1); /* over, for each caller */
        return NULL;
}

static void
shutdown_from_several_threads_returns_on_each_when_it_is_over(void)
{
        struct weir_test_record record = {0};
        pthread_t threads[4];

        weir_test_begin_real(2);
        weir_test_latch_init(&begun, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, end_late, &record)), 0);
        weir_test_latch_wait(&begun);
        for (unsigned i = 0; i < 4; i++) {
                pthread_create(&threads[i], NULL, shut_down, &record);
        }
        for (unsigned i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
        }
        CU_ASSERT_EQUAL(record.status, 0);
}

static void *
run_again_and_again(void *context)
{
        _Atomic unsigned *ended = context;

        for (int status = 0; status == 0;) {
                status = weir_task_run(weir_timer_new(0, NULL, NULL));
                CU_ASSERT(status == 0 || status == -ESHUTDOWN);
                atomic_fetch_add(ended, 1);
        }
        return NULL;
}

/* A thread that waits in a run is let go by shutdown; no start is lost between the two. */
static void
shutdown_at_any_moment_of_threads_that_start_and_wait_returns(void)
{
        unsigned rounds = WEIR_TEST_SANITIZED ? 20 : 100;

        for (unsigned round = 0; round < rounds; round++) {
                _Atomic unsigned ended = 0;
                pthread_t threads[3];

                weir_test_begin_real(1 + (int)round % 3);
                for (unsigned i = 0; i < 3; i++) {
                        pthread_create(&threads[i], NULL, run_again_and_again, &ended);
                }
                while (ended < round) {
                        sched_yield();
                }
                weir_test_end();
                for (unsigned i = 0; i < 3; i++) {
                        pthread_join(threads[i], NULL);
                }
        }
}

static void
init_and_shutdown_a_hundred_times_leave_no_descriptor_behind(void)
{
        unsigned descriptors = 0;

        for (unsigned i = 0; i < 100; i++) {
                weir_test_begin_real(2);
                weir_test_end();
                if (i == 0) {
                        descriptors = weir_test_entries_of("/proc/self/fd");
                }
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
}

/* -- workers -- */

static void
look_at_signals(weir_task *task, void *context)
{
        unsigned *blocked = context;
        sigset_t set;

        (void)task;
        pthread_sigmask(SIG_BLOCK, NULL, &set);
        for (int number = 1; number < 32; number++) {
                *blocked += number != SIGKILL && number != SIGSTOP && sigismember(&set, number);
        }
}

static atomic_int faults;

static void
on_fault(int number)
{
        faults += number == SIGSEGV;
}

static void
fail_there(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        raise(SIGSEGV);
}

/* Otherwise no sanitizer and no handler of the program could report a crash in a callback. */
static void
a_fault_in_a_callback_reaches_the_handler_of_the_program(void)
{
        struct sigaction ours = {.sa_handler = on_fault}, before;

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(sigaction(SIGSEGV, &ours, &before), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(fail_there, NULL)), 0);
        CU_ASSERT_EQUAL(sigaction(SIGSEGV, &before, NULL), 0);
        CU_ASSERT_EQUAL(faults, 1);
        weir_test_end();
}

static void
workers_block_signals_but_faults_and_the_program_keeps_its_mask(void)
{
        sigset_t before, after;
        unsigned blocked = 0;

        pthread_sigmask(SIG_BLOCK, NULL, &before);
        weir_test_begin_real(1);
        pthread_sigmask(SIG_BLOCK, NULL, &after);
        for (int number = 1; number < 32; number++) {
                CU_ASSERT_EQUAL(sigismember(&before, number), sigismember(&after, number));
        }
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, look_at_signals, &blocked)), 0);
        CU_ASSERT_EQUAL(blocked, 23); /* of 31: not KILL, STOP, SEGV, BUS, FPE, ILL, TRAP, SYS */
        weir_test_end();
}

/* Two have pollers, one is the watchdog; and on a machine that has stood still there may be spares. */
static bool
no_worker_wakes_up_for_a_while(void)
{
        unsigned workers;
        unsigned long before = weir_test_sleeps("weir/", &workers);

        if (workers < 3) {
                return false; /* the watchdog has not even named itself */
        }
        CU_ASSERT(before > 0);
        weir_test_sleep(200000000);
        return weir_test_sleeps("weir/", &workers) == before;
}

/* With a timer pending far away, and after work on every poller, lest idleness be that of the unborn. */
static void
idle_process_makes_no_wake_ups(void)
{
        struct weir_test_record records[256] = {0};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        for (unsigned i = 0; i < 256; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(i % 2 ? WEIR_USEC(i) : FAR, &records[i])), 0);
        }
        for (unsigned i = 1; i < 256; i += 2) {
                WEIR_TEST_EVENTUALLY(records[i].frees == 1);
        }
        WEIR_TEST_EVENTUALLY(no_worker_wakes_up_for_a_while());
        weir_test_end();
}

/* -- the virtual clock -- */

#define STRANDS 5
#define STEPS   60

struct flow {
        unsigned count; /* the clock has one worker, so callbacks of the flow never meet */
        struct step {
                unsigned strand;
                weir_nsec at;
        } steps[STRANDS * STEPS];
        struct strand {
                struct flow *flow;
                unsigned number, steps;
        } strands[STRANDS];
};

static void
take_step(weir_task *task, void *context)
{
        struct strand *strand = context;
        struct flow *flow = strand->flow;

        flow->steps[flow->count++] = (struct step){strand->number, weir_now()};
        if (++strand->steps < STEPS) {
                weir_series_push(weir_series_of(task), weir_timer_new(WEIR_SEC(60) - strand->number % 2, take_step, strand));
        }
}

/* Strands of sixty steps, a step a minute, some a nanosecond faster; beside them timers that lie behind the end. */
static void
run_flow(struct flow *flow)
{
        struct weir_test_record behind[50] = {0};
        weir_nsec began;

        memset(flow, 0, sizeof *flow);
        weir_test_begin_virtual();
        began = weir_now();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < 50; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_SEC(3600) + 1 + i, &behind[i])), 0);
        }
        for (unsigned i = 0; i < STRANDS; i++) {
                flow->strands[i] = (struct strand){.flow = flow, .number = i};
                weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(60) - i % 2, take_step, &flow->strands[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(3600));
        weir_test_end();
        for (unsigned i = 0; i < 50; i++) {
                WEIR_TEST_CALLED(&behind[i], -ESHUTDOWN); /* time stood still when nobody waited any more */
        }
        for (unsigned i = 0; i < STRANDS * STEPS; i++) {
                flow->steps[i].at -= began;
        }
}

static void
flow_of_an_hour_takes_milliseconds_and_the_same_course_each_time(void)
{
        static struct flow first, other;
        int64_t began = weir_test_now();

        run_flow(&first);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        CU_ASSERT_EQUAL(first.count, STRANDS * STEPS);
        for (unsigned i = 0; i < STEPS; i++) {
                for (unsigned k = 0; k < STRANDS; k++) {
                        const struct step *step = &first.steps[i * STRANDS + k];

                        CU_ASSERT_EQUAL(step->at, (i + 1) * (WEIR_SEC(60) - step->strand % 2));
                }
        }
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 10 : 50); round++) {
                run_flow(&other);
                CU_ASSERT_EQUAL(memcmp(first.steps, other.steps, sizeof first.steps), 0);
        }
}

static void
virtual_time_stands_still_while_nobody_waits(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(1, &record)), 0);
        weir_test_sleep(20000000);
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(weir_now(), began);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(record.calls, 1);
        CU_ASSERT_EQUAL(weir_now(), began + 1);
        weir_test_end();
}

static void
clock_is_the_real_one_again_after_a_virtual_runtime(void)
{
        weir_test_begin_virtual();
        weir_test_pass(WEIR_SEC(86400) * 1000);
        weir_test_end();
        int64_t before = weir_test_now();
        weir_nsec now = weir_now();
        CU_ASSERT(before <= now && now <= weir_test_now());
}

/* -- small things -- */

static void
statuses_have_descriptions(void)
{
        CU_ASSERT_STRING_EQUAL(weir_strerror(0), "Success");
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_strerror(-ECANCELED), "ancel"));
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_strerror(-ENOMEM), "memory"));
        CU_ASSERT_PTR_NOT_NULL(weir_strerror(-999999));
        CU_ASSERT_PTR_NOT_NULL(weir_strerror(12));
        CU_ASSERT_PTR_NOT_NULL(weir_strerror(INT32_MIN));
        CU_ASSERT_STRING_EQUAL(weir_strerror(-ESHUTDOWN), "the library was shut down");
        CU_ASSERT_STRING_EQUAL(weir_strerror(12), "unknown status");
        CU_ASSERT(strlen(weir_version()) >= 5);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(init_while_it_runs_is_busy),
                WEIR_TEST(config_with_a_bad_value_is_refused_whichever_field_it_is),
                WEIR_TEST(config_of_another_version_is_read_as_far_as_both_know_it),
                WEIR_TEST(runtime_may_be_started_again_with_other_pollers),
                WEIR_TEST(start_after_shutdown_is_refused_until_init),
                WEIR_TEST(shutdown_from_several_threads_returns_on_each_when_it_is_over),
                WEIR_TEST(shutdown_at_any_moment_of_threads_that_start_and_wait_returns),
                WEIR_TEST(init_and_shutdown_a_hundred_times_leave_no_descriptor_behind),
                WEIR_TEST(workers_block_signals_but_faults_and_the_program_keeps_its_mask),
                WEIR_TEST(a_fault_in_a_callback_reaches_the_handler_of_the_program),
                WEIR_TEST(idle_process_makes_no_wake_ups),
                WEIR_TEST(flow_of_an_hour_takes_milliseconds_and_the_same_course_each_time),
                WEIR_TEST(virtual_time_stands_still_while_nobody_waits),
                WEIR_TEST(clock_is_the_real_one_again_after_a_virtual_runtime),
                WEIR_TEST(statuses_have_descriptions),
        };

        return weir_test_main("runtime", tests, sizeof tests / sizeof *tests);
}
