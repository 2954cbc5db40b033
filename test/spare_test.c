/* test/spare_test.c: the workers that take pollers over: their number, their ends, and their properties.
 *
 * This file replaces pthread_create, so that it can fail, and syscall, so that spares linger for as long as a test wants. */
#include "kernel/worker/worker.h"
#include "test/blocking_fixture.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

#define BLOCKERS 300
#define BOUND    257 /* of one poller and the default of spare_workers */
#define BURST    20
#define LINGER   10 /* seconds; kernel/worker/worker_pool.c */

/* -- replaced functions -- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic int threads_left = INT32_MAX; /* before it fails */

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        if (atomic_load(&threads_left) == 0) {
                return EAGAIN;
        }
        atomic_fetch_sub(&threads_left, 1);
        return __real_pthread_create(thread, attributes, function, argument);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static _Atomic bool lingers = true; /* until it is false; then hardly */

long
__wrap_syscall(long number, ...)
{
        static const struct timespec hardly = {.tv_nsec = 1000000};
        long arguments[6];
        va_list list;

        va_start(list, number);
        for (unsigned i = 0; i < 6; i++) {
                arguments[i] = va_arg(list, long);
        }
        va_end(list);
        const struct timespec *timeout = (const struct timespec *)arguments[3];
        bool is_linger = number == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && timeout &&
                         timeout->tv_sec == LINGER;
        if (is_linger) {
                arguments[3] = (long)&hardly;
        }
        long result;
        do {
                result = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                                        arguments[5]);
        } while (is_linger && lingers && result < 0 && errno == ETIMEDOUT);
        return result;
}

/* -- the number of spares -- */

static void
lose(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_lose_poller();
}

static void
spares_are_used_again(void)
{
        unsigned long greatest = 0;

        weir_test_begin_blocking(0);
        for (unsigned i = 0; i < 50; i++) {
                CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(lose, NULL)), 0);
                weir_test_await_spares(1);
        }
        /* A watchdog that stood still may have called one for nothing, and then another. */
        CU_ASSERT(weir_test_threads_named("weir/", &greatest) <= 5);
        CU_ASSERT(greatest <= 4);
        weir_test_end();
}

static struct weir_test_latch all_begun;

static void
wait_for_the_others(weir_task *task, void *context)
{
        weir_test_latch_count_down(&all_begun);
        weir_test_latch_wait(&all_begun);
        weir_test_done(task, context);
}

static void
run_a_burst(struct weir_test_record records[BURST])
{
        weir_test_latch_init(&all_begun, BURST);
        for (unsigned i = 0; i < BURST; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_empty_new(wait_for_the_others, &records[i]))), 0);
        }
        for (unsigned i = 0; i < BURST; i++) {
                weir_test_wait_freed(&records[i]);
                WEIR_TEST_CALLED(&records[i], 0);
        }
}

static bool
are_workers(unsigned count)
{
        unsigned workers, spares;

        weir__worker_pool_count(&workers, &spares);
        return workers == count && spares == count - 1;
}

static void
spares_end_when_they_have_been_idle_for_long(void)
{
        weir_test_begin_blocking(BURST);
        for (unsigned round = 0; round < 5; round++) {
                struct weir_test_record records[2][BURST] = {{{0}}};

                lingers = true;
                run_a_burst(records[0]); /* none of which ends before all have begun */
                weir_test_await_spares(1);
                CU_ASSERT(!are_workers(1));
                lingers = false;
                run_a_burst(records[1]);
                WEIR_TEST_EVENTUALLY(are_workers(1));
        }
        lingers = true;
        weir_test_end();
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/", NULL), 0);
}

static struct weir_test_latch many_begun, many_opened;
static _Atomic unsigned begun_count;

static void
block_among_many(weir_task *task, void *context)
{
        if (atomic_fetch_add(&begun_count, 1) < BOUND) {
                weir_test_latch_count_down(&many_begun);
        }
        weir_test_latch_wait(&many_opened);
        weir_test_done(task, context);
}

static void
as_many_callbacks_as_may_be_block_at_once_and_the_others_follow(void)
{
        static struct weir_test_record records[BLOCKERS];
        unsigned workers, spares;

        memset(records, 0, sizeof records);
        begun_count = 0;
        weir_test_latch_init(&many_begun, BOUND);
        weir_test_latch_init(&many_opened, 1);
        weir_test_begin_blocking(0);
        for (unsigned i = 0; i < BLOCKERS; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_empty_new(block_among_many, &records[i]))), 0);
        }
        weir_test_latch_wait(&many_begun);
        weir__worker_pool_count(&workers, &spares);
        CU_ASSERT_EQUAL(workers, BOUND);
        CU_ASSERT_EQUAL(begun_count, BOUND);
        weir_test_latch_count_down(&many_opened);
        weir_test_end();
        for (unsigned i = 0; i < BLOCKERS; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
        }
}

/* -- properties of spares -- */

struct seen {
        size_t stack_size;
        int cpus, cpu;
        bool signals_are_blocked;
        char name[16];
};

static void
look_around(struct seen *seen)
{
        pthread_attr_t attributes;
        cpu_set_t set;
        sigset_t blocked;
        int signals = 0;

        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstacksize(&attributes, &seen->stack_size);
        pthread_attr_destroy(&attributes);
        sched_getaffinity(0, sizeof set, &set);
        seen->cpus = CPU_COUNT(&set);
        for (seen->cpu = 0; !CPU_ISSET(seen->cpu, &set);) {
                seen->cpu++;
        }
        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        for (int signal = 1; signal < 32; signal++) {
                signals += signal != SIGKILL && signal != SIGSTOP && !sigismember(&blocked, signal);
        }
        seen->signals_are_blocked = signals == 6; /* those of faults are not */
        pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
}

static void
look_around_and_lose(weir_task *task, void *context)
{
        (void)task;
        look_around(context);
        weir_test_lose_poller();
}

/* By the first worker, and by two spares. */
static void
look_at_three(struct seen seen[3])
{
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(look_around_and_lose, &seen[i])), 0);
        }
}

static void
spares_have_names_and_the_stack_that_is_configured_and_block_all_signals(void)
{
        struct weir_config config = weir_test_blocking_config(1, 0);
        struct seen seen[3];

        config.stack_size = 1536 * 1024;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        WEIR_TEST_EVENTUALLY(weir_test_threads_named("weir/watchdog", NULL) == 1); /* it names itself */
        look_at_three(seen);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT(seen[i].stack_size >= config.stack_size && seen[i].stack_size < 2 * config.stack_size);
                CU_ASSERT(seen[i].signals_are_blocked);
                CU_ASSERT_EQUAL(strncmp(seen[i].name, "weir/", 5), 0);
        }
        CU_ASSERT_STRING_EQUAL(seen[0].name, "weir/0");
        CU_ASSERT_STRING_NOT_EQUAL(seen[0].name, seen[1].name);
        weir_test_end();
}

static void
no_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

static struct seen both[2];

static void
look_around_together(weir_task *task, void *context)
{
        (void)task;
        look_around(context);
        weir_test_latch_count_down(&all_begun);
        weir_test_latch_wait(&all_begun); /* so that both pollers have one */
}

static void
threads_of_pollers_are_kept_on_cpus_of_their_own_if_that_is_configured(void)
{
        struct weir_config config = weir_test_blocking_config(1, 0);
        struct seen seen[3], here;

        look_around(&here);
        config.affinity = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        look_at_three(seen);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(seen[i].cpus, 1);
                CU_ASSERT_EQUAL(seen[i].cpu, seen[0].cpu);
        }
        weir_test_end();
        config.affinity = 0;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        look_at_three(seen);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(seen[i].cpus, here.cpus);
        }
        weir_test_end();
        if (here.cpus < 2) {
                return;
        }
        config.affinity = 1;
        config.pollers = 2;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        weir_test_latch_init(&all_begun, 2);
        for (unsigned i = 0; i < 65; i++) { /* a thread's tasks come to the pollers 64 at a time */
                weir_task_fn *done = i % 64 ? no_callback : look_around_together;

                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(done, &both[i / 64])), 0);
        }
        weir_test_latch_wait(&all_begun);
        weir_test_end();
        CU_ASSERT_EQUAL(both[0].cpus, 1);
        CU_ASSERT_EQUAL(both[1].cpus, 1);
        CU_ASSERT_NOT_EQUAL(both[0].cpu, both[1].cpu);
}

static void
without_a_limit_there_is_no_watchdog(void)
{
        struct weir_test_gate gate;
        struct weir_test_record behind = {0};

        weir_test_begin_unwatched(0);
        weir_test_gate_hold(&gate, NULL);
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/", NULL), 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&behind)), 0);
        weir_test_sleep(20000000); /* two default limits */
        CU_ASSERT_EQUAL(behind.calls, 0);
        weir_test_gate_open(&gate);
        weir_test_end();
        WEIR_TEST_CALLED(&behind, 0);
        CU_ASSERT(pthread_equal(behind.on, gate.record.on));
}

static _Atomic bool has_asked;
static _Atomic int waited, shut_down;

/* The successor says that it has taken over, and the callback later how long it ran, unless that was said a second ago. */
static void
wait_in_the_log_function(enum weir_log_level level, const char *message, void *context)
{
        (void)message;
        if (level == WEIR_LOG_INFO && !atomic_exchange(&has_asked, true)) {
                waited = weir_task_run(weir_test_empty(context));
                shut_down = weir_shutdown();
        }
}

/* In a runtime of its own, whose poller is above suspicion: else the watchdog says nothing. */
static void
block_once(struct weir_test_record *refused)
{
        uint64_t retakes = weir__worker_counts.retaken;
        struct weir_test_gate gate;

        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_log_set(wait_in_the_log_function, refused), 0);
        weir_test_gate_hold(&gate, NULL);
        WEIR_TEST_EVENTUALLY(weir__worker_counts.retaken > retakes);
        weir_test_gate_open(&gate);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
log_function_must_not_wait_on_a_worker(void)
{
        struct weir_test_record refused = {0};

        has_asked = false;
        waited = shut_down = 1;
        while (shut_down == 1) { /* it says so once a second at most, and an earlier test may have had that */
                block_once(&refused);
        }
        CU_ASSERT_EQUAL(waited, -EDEADLK);
        CU_ASSERT_EQUAL(shut_down, -EDEADLK);
        CU_ASSERT_EQUAL(refused.calls, 0);
        CU_ASSERT_EQUAL(refused.frees, 1);
}

/* -- no thread to be had -- */

static void
work_behind_a_callback_that_blocks_is_run_by_its_worker_when_no_thread_can_be_had(void)
{
        struct weir_test_record behind = {0}, after = {0};
        struct weir_test_gate gate;

        weir_test_begin_blocking(0);
        threads_left = 0;
        weir_test_gate_hold(&gate, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&behind)), 0);
        weir_test_sleep(5000000); /* 10 limits: the watchdog has tried, unless the machine stands still */
        CU_ASSERT_EQUAL(behind.calls, 0);
        threads_left = INT32_MAX;
        weir_test_wait_freed(&behind); /* it tries again */
        CU_ASSERT_EQUAL(gate.record.calls, 0);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&after)), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
        WEIR_TEST_CALLED(&behind, 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(spares_are_used_again),
                WEIR_TEST(spares_end_when_they_have_been_idle_for_long),
                WEIR_TEST(as_many_callbacks_as_may_be_block_at_once_and_the_others_follow),
                WEIR_TEST(spares_have_names_and_the_stack_that_is_configured_and_block_all_signals),
                WEIR_TEST(threads_of_pollers_are_kept_on_cpus_of_their_own_if_that_is_configured),
                WEIR_TEST(without_a_limit_there_is_no_watchdog),
                WEIR_TEST(log_function_must_not_wait_on_a_worker),
                WEIR_TEST(work_behind_a_callback_that_blocks_is_run_by_its_worker_when_no_thread_can_be_had),
        };

        return weir_test_main("spare", tests, sizeof tests / sizeof *tests);
}
