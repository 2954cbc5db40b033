/* test/process_test.c: the first use of the library in a process, and the effect of exit and fork.
 *
 * Most tests run in children, which report failures on standard error.  This file replaces pthread_create, in this program and in
 * the library linked into it, so that it can fail. */
#include "test/fixture.h"

#include <errno.h>

#include "kernel/runtime/random.h"
#include "kernel/loop/pollers.h"

#define FAR WEIR_SEC(1000)

/* -- pthread_create, which fails on request -- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic int threads_left = INT32_MAX; /* before it fails; workers make threads as well */

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        if (threads_left == 0) {
                return EAGAIN;
        }
        threads_left--;
        return __real_pthread_create(thread, attributes, function, argument);
}

/* ThreadSanitizer, if it is there, calls this.  It does not know the join with a clock that exit() makes. */
const char *__tsan_default_options(void);

const char *
__tsan_default_options(void)
{
        return "report_thread_leaks=0";
}

/* -- the first use -- */

#define EXPECT(condition)                                                                             \
        do {                                                                                          \
                if (!(condition)) {                                                                   \
                        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
                        _exit(99);                                                                    \
                }                                                                                     \
        } while (0)

static void
expect_exit(void (*function)(void), int code)
{
        char said[4096];
        int status = weir_test_child(function, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == code);
        CU_ASSERT_STRING_EQUAL(said, "");
        if (said[0] || !WIFEXITED(status) || WEXITSTATUS(status) != code) {
                fprintf(stderr, "status %#x, said: %s\n", (unsigned)status, said);
        }
}

static void
use_lazily(void)
{
        EXPECT(weir_shutdown() == 0); /* nothing runs yet, and that is no shutdown */
        EXPECT(weir_timer_cancel("nobody", WEIR_ALL) == 0);
        weir_task *task = weir_timer_new(0, NULL, NULL);
        EXPECT(WEIR_TEST_SANITIZED || weir_test_threads() == 1); /* a sanitizer may have its own */
        EXPECT(weir_task_run(task) == 0);
        EXPECT(weir_init(NULL) == -EBUSY);
        EXPECT(weir_shutdown() == 0);
        exit(7);
}

static void
first_start_starts_the_runtime(void)
{
        expect_exit(use_lazily, 7);
}

static void
use_lazily_without_threads(void)
{
        struct weir_test_record record = {0};

        threads_left = 0;
        EXPECT(weir_task_start(weir_test_empty(&record)) == -EAGAIN);
        EXPECT(record.calls == 0 && record.frees == 1);
        EXPECT(weir_series_run(weir_series_new(weir_test_series_done, &record)) == -EAGAIN);
        EXPECT(record.calls == 0);
        threads_left = INT32_MAX;
        EXPECT(weir_task_run(weir_test_empty(&record)) == 0);
        EXPECT(record.calls == 1 && record.frees == 2);
        exit(8);
}

static void
first_start_reports_why_the_runtime_cannot_start_and_the_next_one_tries_again(void)
{
        expect_exit(use_lazily_without_threads, 8);
}

static void
run_out_of_descriptors(void)
{
        struct rlimit limit = {8, 1024};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 4;
        EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        unsigned before = weir_test_entries_of("/proc/self/fd");
        EXPECT(weir_init(&config) == -EMFILE);
        unsigned between = weir_test_entries_of("/proc/self/fd"); /* a poller that was made keeps its eventfd for the next try */
        EXPECT(between <= before + 4);
        EXPECT(weir_init(&config) == -EMFILE);
        EXPECT(weir_test_entries_of("/proc/self/fd") == between);
        limit.rlim_cur = 256;
        EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        EXPECT(weir_init(&config) == 0);
        EXPECT(weir_task_run(weir_timer_new(0, NULL, NULL)) == 0);
        exit(9);
}

static void
init_reports_emfile_and_leaves_nothing_open(void)
{
        expect_exit(run_out_of_descriptors, 9);
}

/* -- exit -- */

static void
exit_in_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        exit(3);
}

static void
call_exit_on_a_worker(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 3;
        config.exit_wait = WEIR_TEST_TOLERANCE;
        EXPECT(weir_init(&config) == 0);
        for (unsigned i = 0; i < 1000; i++) {
                weir_task_start(weir_timer_new(FAR, NULL, NULL));
        }
        weir_task_run(weir_timer_new(WEIR_MSEC(1), exit_in_callback, NULL));
        _exit(98);
}

static void
exit_in_third_tick(weir_task *ticker, void *context)
{
        if (weir_ticker_count(ticker) == 3)
                exit_in_callback(ticker, context);
}

static void
call_exit_in_a_tick(void)
{
        EXPECT(weir_init(NULL) == 0);
        weir_task_start(weir_ticker_new(1, WEIR_TICK_DELAY, NULL, NULL));
        weir_task_run(weir_ticker_new_named("ticker", 1000, WEIR_TICK_SKIP, exit_in_third_tick, NULL));
        _exit(98);
}

static void
exit_inside_a_callback_ends_the_process_soon(void)
{
        int64_t began = weir_test_now();

        expect_exit(call_exit_on_a_worker, 3);
        expect_exit(call_exit_in_a_tick, 3);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE); /* so it did not wait for itself */
}

static struct weir_test_latch begun;

static void
block_for_ever(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_latch_count_down(&begun);
        for (;;) {
                pause();
        }
}

static void
block_a_worker(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.exit_wait = WEIR_MSEC(300);
        EXPECT(weir_log_set(NULL, NULL) == 0); /* the callback is a warning */
        EXPECT(weir_init(&config) == 0);
        weir_test_latch_init(&begun, 1);
        EXPECT(weir_task_start(weir_timer_new(0, block_for_ever, NULL)) == 0);
        weir_test_latch_wait(&begun);
}

static void
exit_with_a_blocked_callback(void)
{
        block_a_worker();
        exit(4);
}

static void
exit_waits_for_a_blocked_callback_no_longer_than_exit_wait(void)
{
        int64_t began = weir_test_now();

        expect_exit(exit_with_a_blocked_callback, 4);
        CU_ASSERT(weir_test_now() - began >= 300000000);
        CU_ASSERT(weir_test_now() - began < 300000000 + WEIR_TEST_TOLERANCE);
}

/* Both workers are in callbacks: one blocks, the other exits. */
static void
exit_on_a_worker_beside_a_blocked_one(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.exit_wait = WEIR_MSEC(300);
        EXPECT(weir_log_set(NULL, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
        weir_test_latch_init(&begun, 1);
        for (unsigned i = 0; i <= 64; i++) { /* a thread's tasks come to the pollers 64 at a time */
                weir_task_fn *done = i == 0 ? block_for_ever : i == 64 ? exit_in_callback : NULL;

                EXPECT(weir_task_start(weir_timer_new(i == 0 ? 0 : WEIR_MSEC(50), done, NULL)) == 0);
        }
        for (;;) {
                pause(); /* what this thread waited for could end before the process does */
        }
}

static void
exit_inside_a_callback_beside_a_blocked_one_is_bounded_too(void)
{
        int64_t began = weir_test_now();

        expect_exit(exit_on_a_worker_beside_a_blocked_one, 3);
        CU_ASSERT(weir_test_now() - began < 350000000 + WEIR_TEST_TOLERANCE);
}

static void
end_slowly(weir_task *task, void *context)
{
        struct weir_test_record *record = context;

        if (weir_task_status(task) == 0) {
                weir_test_latch_count_down(&begun);
                weir_test_sleep(100000000);
        }
        record->status = weir_task_status(task);
        atomic_fetch_add(&record->calls, 1);
}

static struct weir_test_record slow, pending;

static void
look_after_exit(void)
{
        if (slow.calls != 1 || pending.calls != 1 || pending.status != -ESHUTDOWN || slow.frees != 1) {
                _exit(96);
        }
}

static void
exit_during_a_callback(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        atexit(look_after_exit); /* runs after the library's own, which is registered later */
        config.exit_wait = WEIR_FOREVER;
        weir_log_set(NULL, NULL); /* that the callback is slow need not be said */
        EXPECT(weir_init(&config) == 0);
        weir_test_latch_init(&begun, 1);
        EXPECT(weir_task_start(weir_test_recorded(weir_timer_new(0, end_slowly, &slow))) == 0);
        EXPECT(weir_task_start(weir_test_recorded(weir_timer_new(FAR, end_slowly, &pending))) == 0);
        weir_test_latch_wait(&begun);
        exit(5);
}

static void
exit_waits_for_running_callbacks_and_ends_what_is_pending(void)
{
        expect_exit(exit_during_a_callback, 5);
}

/* -- fork -- */

static weir_series *before_fork;

/* A sanitizer's allocator does not survive a fork while another thread allocates, so the workers shall sleep by then. */
static void
begin_and_wait_for_sleep(void)
{
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, NULL, NULL)), 0);
        for (unsigned i = 0; i < 2; i++) {
                WEIR_TEST_EVENTUALLY(atomic_load(&weir__poller_at(i)->inbox.head)); /* SLEEPING: nothing was pushed */
        }
        weir_test_sleep(20000000);
}

static void
use_in_child(void)
{
        struct weir_test_record record = {0};

        weir_test_leaks_do_not_count = 1;
        EXPECT(weir_task_start(weir_test_timer(0, &record)) == -ECHILD);
        EXPECT(record.frees == 1 && record.calls == 0);
        EXPECT(weir_task_start(weir_test_named("fork", 0, &record)) == -ECHILD);
        EXPECT(record.frees == 2);
        EXPECT(weir_task_run(weir_empty_new(NULL, NULL)) == -ECHILD);
        EXPECT(weir_series_run(weir_series_new(NULL, NULL)) == -ECHILD);
        EXPECT(weir_series_start(weir_series_new(NULL, NULL)) == -ECHILD);
        EXPECT(weir_series_push(before_fork, weir_test_empty(&record)) == -ECHILD);
        EXPECT(record.frees == 3);
        weir_series_cancel(before_fork);
        EXPECT(weir_series_status(before_fork) == -ECHILD);
        EXPECT(weir_timer_cancel("parent", WEIR_ALL) == 0);
        EXPECT(weir_timer_count("parent") == 0);
        EXPECT(weir_init(NULL) == -ECHILD);
        EXPECT(weir_shutdown() == -ECHILD);
        weir_task_dismiss(weir_timer_new(0, NULL, NULL));
        weir_task_dismiss(weir_timer_new_named("fork", 0, NULL, NULL));
        weir_task *ticker = weir_ticker_new_named("fork", 1, WEIR_TICK_SKIP, NULL, NULL);
        EXPECT(weir_ticker_set_first(ticker, 1) == -ECHILD);
        EXPECT(weir_ticker_set_limit(ticker, 1) == -ECHILD);
        EXPECT(weir_timer_set_slack(ticker, 1) == -ECHILD);
        EXPECT(weir_ticker_count(ticker) == 0);
        EXPECT(weir_task_start(ticker) == -ECHILD);
        weir_task_dismiss(weir_ticker_new(1, WEIR_TICK_SKIP, NULL, NULL));
        weir_series_dismiss(weir_series_new(NULL, NULL));
        exit(6);
}

static void
forked_child_is_refused_with_echild_exits_quietly_and_leaves_the_parent_alone(void)
{
        struct weir_test_record record = {0}, end = {0};

        begin_and_wait_for_sleep();
        before_fork = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(before_fork, weir_test_named("parent", WEIR_FOREVER, &record));
        CU_ASSERT_EQUAL(weir_series_start(before_fork), 0);
        expect_exit(use_in_child, 6);
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("parent", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_MSEC(1), NULL, NULL)), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(end.calls, 1);
        weir_series_unref(before_fork);
}

static void
fork_in_callback(weir_task *task, void *context)
{
        int *status = context;
        pid_t child = fork();

        (void)task;
        if (child == 0) {
                weir_test_leaks_do_not_count = 1;
                exit(weir_task_start(weir_empty_new(NULL, NULL)) == -ECHILD ? 11 : 12);
        }
        waitpid(child, status, 0);
}

static void
child_forked_inside_a_callback_exits_quietly(void)
{
        int status = -1;

        begin_and_wait_for_sleep();
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, fork_in_callback, &status)), 0);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 11);
        weir_test_end();
}

/* -- no threads; here the runtime is started and ended in this process, so no test that needs the first use may follow -- */

static void
thread_that_cannot_be_made_is_reported_and_nothing_is_left_running(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        unsigned threads = weir_test_threads(), descriptors = 0;

        config.pollers = 4;
        for (int left = 0; left < 4; left++) {
                threads_left = left;
                CU_ASSERT_EQUAL(weir_init(&config), -EAGAIN);
                CU_ASSERT(weir_test_threads_become(threads));
                if (left == 0) {
                        descriptors = weir_test_entries_of("/proc/self/fd");
                }
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                threads_left = INT32_MAX;
                CU_ASSERT_EQUAL(weir_init(&config), 0);
                CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(1, NULL, NULL)), 0);
                weir_test_end();
        }
}

static _Atomic bool forks_are_over;

static void *
make_and_dismiss(void *name)
{
        while (!forks_are_over)
                weir_task_dismiss(weir_timer_new_named(name, 1, NULL, NULL));
        return NULL;
}

static void
fork_beside_timers(void)
{
        pthread_t thread;

        EXPECT(pthread_create(&thread, NULL, make_and_dismiss, (void *)"name") == 0);
        for (unsigned i = 0; i < 100; i++) {
                pid_t child = fork();
                int status;

                if (child == 0) {
                        alarm(20); /* which ends it, should it hang */
                        weir_task_dismiss(weir_timer_new_named("name", 1, NULL, NULL));
                        _exit(weir_timer_cancel("name", WEIR_ALL) > 1);
                }
                EXPECT(waitpid(child, &status, 0) == child);
                EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        forks_are_over = true;
        pthread_join(thread, NULL);
        _exit(13);
}

/* Nothing runs, so a child may use the library; whose locks the other thread takes all the time. */
static void
child_forked_while_a_thread_makes_timers_can_make_some(void)
{
        expect_exit(fork_beside_timers, 13);
}

static void *
post_and_poll(void *channel)
{
        void *message;

        while (!forks_are_over) {
                EXPECT(weir_channel_post(channel, channel) == 0);
                EXPECT(weir_channel_poll(channel, &message) == 0);
        }
        return NULL;
}

static void
fork_beside_a_channel(void)
{
        weir_channel *channel = weir_channel_new(5, NULL);
        pthread_t thread;

        EXPECT(pthread_create(&thread, NULL, post_and_poll, channel) == 0);
        for (unsigned i = 0; i < 100; i++) {
                pid_t child = fork();
                int status;

                if (child == 0) {
                        alarm(20); /* which ends it, should it hang */
                        EXPECT(weir_init(NULL) == 0);
                        EXPECT(weir_shutdown() == 0); /* which looks at all objects */
                        _exit(0);
                }
                EXPECT(waitpid(child, &status, 0) == child);
                EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        forks_are_over = true;
        pthread_join(thread, NULL);
        weir_channel_unref(channel);
        _exit(13);
}

static void
child_forked_while_a_thread_uses_an_object_is_not_held_up_by_its_lock(void)
{
        if (!WEIR_TEST_SANITIZED) /* the sanitizers allow no threads in such a child */
                expect_exit(fork_beside_a_channel, 13);
}

static void
begin_and_draw(int to)
{
        EXPECT(weir_init(NULL) == 0);
        uint64_t number = weir__random();
        EXPECT(weir_shutdown() == 0);
        EXPECT(to < 0 || write(to, &number, sizeof number) == sizeof number);
}

static void
fork_behind_a_shutdown(void)
{
        uint64_t numbers[2];

        begin_and_draw(-1);
        for (unsigned i = 0; i < 2; i++) {
                int ends[2], status;

                EXPECT(pipe(ends) == 0);
                pid_t child = fork();
                if (child == 0) {
                        begin_and_draw(ends[1]);
                        _exit(0);
                }
                EXPECT(waitpid(child, &status, 0) == child);
                EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                EXPECT(read(ends[0], &numbers[i], sizeof numbers[i]) == sizeof numbers[i]);
        }
        EXPECT(numbers[0] != numbers[1]);
        _exit(13);
}

/* So that their next attempts do not come all at once. */
static void
children_forked_behind_a_shutdown_draw_different_numbers(void)
{
        expect_exit(fork_behind_a_shutdown, 13);
}

/* Parent and child would wake each other. */
static void
fork_between_two_runtimes(void)
{
        int status = 0, before;

        EXPECT(weir_init(NULL) == 0 && weir_task_run(weir_empty_new(NULL, NULL)) == 0 && weir_shutdown() == 0);
        before = weir__poller_at(0)->inbox.event_fd;
        pid_t child = fork();
        if (child == 0) {
                EXPECT(weir_init(NULL) == 0 && weir_task_run(weir_empty_new(NULL, NULL)) == 0);
                EXPECT(weir__poller_at(0)->inbox.event_fd != before);
                EXPECT(weir_shutdown() == 0);
                _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        EXPECT(weir_init(NULL) == 0 && weir_task_run(weir_empty_new(NULL, NULL)) == 0);
        EXPECT(weir__poller_at(0)->inbox.event_fd == before);
        EXPECT(weir_shutdown() == 0);
        exit(14);
}

static void
the_runtime_of_a_child_has_descriptors_of_its_own(void)
{
        expect_exit(fork_between_two_runtimes, 14);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(first_start_starts_the_runtime),
                WEIR_TEST(first_start_reports_why_the_runtime_cannot_start_and_the_next_one_tries_again),
                WEIR_TEST(init_reports_emfile_and_leaves_nothing_open),
                WEIR_TEST(exit_inside_a_callback_ends_the_process_soon),
                WEIR_TEST(exit_waits_for_a_blocked_callback_no_longer_than_exit_wait),
                WEIR_TEST(exit_inside_a_callback_beside_a_blocked_one_is_bounded_too),
                WEIR_TEST(exit_waits_for_running_callbacks_and_ends_what_is_pending),
                WEIR_TEST(forked_child_is_refused_with_echild_exits_quietly_and_leaves_the_parent_alone),
                WEIR_TEST(child_forked_inside_a_callback_exits_quietly),
                WEIR_TEST(child_forked_while_a_thread_makes_timers_can_make_some),
                WEIR_TEST(child_forked_while_a_thread_uses_an_object_is_not_held_up_by_its_lock),
                WEIR_TEST(children_forked_behind_a_shutdown_draw_different_numbers),
                WEIR_TEST(the_runtime_of_a_child_has_descriptors_of_its_own),
                WEIR_TEST(thread_that_cannot_be_made_is_reported_and_nothing_is_left_running),
        };

        return weir_test_main("process", tests, sizeof tests / sizeof *tests);
}
