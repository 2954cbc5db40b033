/* test/signal_test.c: tasks that wait for a signal of the process.
 *
 * raise() runs the handler before it returns.  So on the virtual clock each test says what happens at which instant. */
#include <errno.h>
#include <limits.h>

#include "test/timer_fixture.h"

static weir_task *
signal_task(int signo, struct weir_test_record *record)
{
        return weir_test_recorded(weir_signal_new(signo, weir_test_done, record));
}

static void
start(int signo, struct weir_test_record *record)
{
        CU_ASSERT_EQUAL(weir_task_start(signal_task(signo, record)), 0);
}

static void
send(int signo)
{
        CU_ASSERT_EQUAL(raise(signo), 0);
}

typedef void handler(int signo);

static handler *
action_of(int signo)
{
        struct sigaction action;

        CU_ASSERT_EQUAL(sigaction(signo, NULL, &action), 0);
        return action.sa_handler;
}

/* -- a signal comes -- */

static void
a_task_ends_at_the_instant_of_its_signal(void)
{
        struct weir_test_record record = {0}, other = {0}, timer = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        start(SIGUSR1, &record);
        start(SIGUSR2, &other);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_SEC(1), &timer)), 0);
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_EQUAL(record.calls, 0);
        send(SIGUSR1);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_MSEC(500));
        CU_ASSERT_EQUAL(timer.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(other.calls, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&other, -ESHUTDOWN);
}

static void
all_tasks_of_a_signal_end_with_it(void)
{
        enum { COUNT = 1000 };
        static struct weir_test_record records[COUNT];

        memset(records, 0, sizeof records);
        weir_test_begin_virtual();
        for (unsigned i = 0; i < COUNT; i++) {
                start(SIGUSR1, &records[i]);
        }
        send(SIGUSR1);
        weir_test_pass(0);
        for (unsigned i = 0; i < COUNT; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
        }
        weir_test_end();
}

static void
a_task_counts_signals_from_its_making(void)
{
        struct weir_test_record before = {0}, after = {0}, waiting = {0};

        weir_test_begin_virtual();
        start(SIGUSR1, &waiting);
        weir_task *made = signal_task(SIGUSR1, &before);
        send(SIGUSR1);
        weir_task *later = signal_task(SIGUSR1, &after);
        CU_ASSERT_EQUAL(weir_task_start(later), 0);
        CU_ASSERT_EQUAL(weir_task_run(made), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&waiting, 0);
        CU_ASSERT_EQUAL(after.calls, 0);
        send(SIGUSR1);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&after, 0);
        weir_test_end();
}

/* -- again and again -- */

static unsigned reloads;

static void
read_configuration(void)
{
        if (++reloads == 3) {
                kill(getpid(), SIGHUP); /* to the main thread, as this one blocks it */
        }
}

static void
reload(weir_task *signal, void *context)
{
        if (weir_task_status(signal) != 0)
                return; /* cancelled, or shut down */
        weir_task_start(weir_signal_new(SIGHUP, reload, context)); /* the next one, first */
        read_configuration();
}

static void
a_callback_that_makes_the_next_task_first_misses_nothing(void)
{
        reloads = 0;
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_signal_new(SIGHUP, reload, NULL)), 0);
        for (unsigned i = 1; i <= 3; i++) {
                send(SIGHUP);
                weir_test_pass(WEIR_SEC(1));
        }
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), reloads == 4));
        weir_test_end();
}

/* -- other ends -- */

static void
cancel_deadline_and_shutdown_end_it_as_any_task(void)
{
        struct weir_test_record cancelled = {0}, late = {0}, unstarted = {0}, dismissed = {0}, shut = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL), *limited = weir_series_new(NULL, NULL);
        weir_series_push(series, signal_task(SIGUSR1, &cancelled));
        weir_series_push(series, signal_task(SIGUSR1, &unstarted));
        weir_series_ref(series);
        weir_series_push(limited, signal_task(SIGUSR1, &late));
        weir_series_set_deadline(limited, WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_series_start(series) + weir_series_start(limited), 0);
        start(SIGUSR1, &shut);
        weir_task_dismiss(signal_task(SIGUSR1, &dismissed));
        weir_test_pass(WEIR_SEC(2));
        weir_series_cancel(series);
        send(SIGCONT); /* another one */
        weir_test_pass(0);
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        WEIR_TEST_CALLED(&late, -ETIMEDOUT);
        WEIR_TEST_NOT_CALLED(&unstarted);
        WEIR_TEST_NOT_CALLED(&dismissed);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&shut, -ESHUTDOWN);
        CU_ASSERT(action_of(SIGUSR1) == SIG_DFL);
}

/* -- the action of the signal -- */

static void
the_action_from_before_is_back_with_the_end_of_the_last_task(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        signal(SIGUSR1, SIG_IGN);
        weir_task *first = signal_task(SIGUSR1, &record), *second = weir_signal_new(SIGUSR1, NULL, NULL);
        CU_ASSERT(action_of(SIGUSR1) != SIG_IGN);
        CU_ASSERT_EQUAL(weir_task_start(first), 0);
        send(SIGUSR1);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT(action_of(SIGUSR1) != SIG_IGN);
        weir_task_dismiss(second);
        CU_ASSERT(action_of(SIGUSR1) == SIG_IGN);
        signal(SIGUSR1, SIG_DFL);
        weir_test_end();
}

static void
own_handler(int signo)
{
        (void)signo;
}

static void
a_signal_that_the_program_handles_is_refused(void)
{
        weir_test_begin_virtual();
        signal(SIGUSR1, own_handler);
        CU_ASSERT_EQUAL(weir_task_start(weir_signal_new(SIGUSR1, NULL, NULL)), -EBUSY);
        CU_ASSERT(action_of(SIGUSR1) == own_handler);
        signal(SIGUSR1, SIG_DFL);
        weir_task *task = weir_signal_new(SIGUSR1, NULL, NULL);
        signal(SIGUSR1, own_handler); /* it takes the signal away, and keeps it */
        weir_task_dismiss(task);
        CU_ASSERT(action_of(SIGUSR1) == own_handler);
        signal(SIGUSR1, SIG_DFL);
        weir_test_end();
}

static void
numbers_that_are_no_signal_and_faults_are_refused(void)
{
        static const int bad[] = {-1,     0,      65,     INT_MAX, INT_MIN, 32,      SIGKILL, SIGSTOP,
                                  SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGSYS};
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_EQUAL(weir_task_start(signal_task(bad[i], &record)), -EINVAL);
        }
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(record.frees, sizeof bad / sizeof *bad);
        start(SIGRTMIN + 3, &record);
        send(SIGRTMIN + 3);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.calls, 1);
        weir_test_end();
}

static void
a_dump_on_the_same_signal_gets_it_as_well(void)
{
        struct weir_test_record record = {0};
        char text[64];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_debug_dump_on(SIGUSR1, ends[1]), 0);
        start(SIGUSR1, &record);
        send(SIGUSR1);
        CU_ASSERT(read(ends[0], text, sizeof text) > 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT(action_of(SIGUSR1) != SIG_DFL);
        CU_ASSERT_EQUAL(weir_debug_dump_on(0, -1), 0);
        CU_ASSERT(action_of(SIGUSR1) == SIG_DFL);
        weir_test_end();
        close(ends[0]);
        close(ends[1]);
}

/* -- runtimes and processes -- */

static void
each_runtime_gets_its_signals(void)
{
        for (unsigned i = 0; i < 3; i++) {
                struct weir_test_record record = {0};

                if (i == 1) {
                        weir_test_begin_real(2);
                } else {
                        weir_test_begin_virtual();
                }
                start(SIGUSR1, &record);
                send(SIGUSR1);
                WEIR_TEST_EVENTUALLY(record.frees == 1);
                WEIR_TEST_CALLED(&record, 0);
                weir_test_end();
        }
}

static void
die_by_the_signal(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_real(1);
        start(SIGTERM, &record);
        pid_t child = fork();
        if (child == 0) {
                raise(SIGTERM); /* has its former action here */
                _exit(3);
        }
        int status;
        waitpid(child, &status, 0);
        bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
        weir_test_sleep(WEIR_MSEC(2));
        bool parent_was_left_alone = record.calls == 0;
        raise(SIGTERM);
        while (!record.frees) {
                weir_test_sleep(WEIR_MSEC(1));
        }
        fprintf(stderr, died ? "" : "did not die");
        fprintf(stderr, parent_was_left_alone ? "" : "the parent heard it");
        _exit(record.status == 0 ? 0 : 1);
}

static void
a_forked_child_has_the_former_action(void)
{
        char said[256];

        if (WEIR_TEST_SANITIZED) { /* the sanitizers allow no threads in such a child */
                return;
        }
        CU_ASSERT_EQUAL(weir_test_child(die_by_the_signal, said, sizeof said), 0);
        CU_ASSERT_STRING_EQUAL(said, "");
}

/* -- a server that runs until a signal -- */

static _Atomic bool has_died, is_serving = true;
static struct weir_test_record heard;

static void
handle_nothing(weir_task *exchange, void *context)
{
        (void)exchange;
        (void)context;
}

static void
fork_and_wait(void)
{
        sigset_t none;
        int status;
        pid_t child = fork();

        if (child == 0) {
                sigemptyset(&none);
                pthread_sigmask(SIG_SETMASK, &none, NULL); /* a worker blocks all */
                raise(SIGTERM);
                _exit(3);
        }
        waitpid(child, &status, 0);
        has_died = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
        weir_test_sleep(WEIR_MSEC(5));
}

/* When the server listens to the signal, a child of it gets the signal, and then the server itself. */
static void
send_to_a_child_first(weir_task *timer, void *context)
{
        if (action_of(SIGTERM) == SIG_DFL) {
                weir_task_start(weir_timer_new(WEIR_MSEC(1), send_to_a_child_first, context));
                return;
        }
        (void)timer;
        fork_and_wait();
        weir_task_start(signal_task(SIGTERM, &heard));
        CU_ASSERT(is_serving);
        kill(getpid(), SIGTERM);
}

static void
serve_with_a_child(void)
{
        weir_test_begin_real(1);
        weir_task_start(weir_timer_new(0, send_to_a_child_first, NULL));
        int result = weir_http_serve("127.0.0.1:0", handle_nothing, NULL);
        is_serving = false;
        while (!heard.frees) {
                weir_test_sleep(WEIR_MSEC(1));
        }
        _exit(result == 0 && has_died && heard.status == 0 ? 0 : 1);
}

static void
a_signal_to_a_child_of_a_server_is_not_the_servers_and_its_own_is_everybodys(void)
{
        char said[1024];

        if (WEIR_TEST_SANITIZED) { /* the sanitizers allow no threads in such a child */
                return;
        }
        CU_ASSERT_EQUAL(weir_test_child(serve_with_a_child, said, sizeof said), 0);
}

/* -- threads -- */

enum { ROUNDS = WEIR_TEST_SANITIZED ? 500 : 3000 };

static _Atomic bool stop;
static _Atomic unsigned ended;

static void
count_end(weir_task *task, void *unused)
{
        (void)unused;
        CU_ASSERT(weir_task_status(task) == 0 || weir_task_status(task) == -ECANCELED);
        ended++;
}

static void
keep_sending(void *unused)
{
        (void)unused;
        while (!stop) {
                kill(getpid(), SIGUSR1);
                weir_test_sleep(WEIR_USEC(20));
        }
}

static void
start_and_cancel(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_signal_new(SIGUSR1, count_end, NULL));
                weir_series_ref(series);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                if (i % 2) {
                        weir_series_cancel(series);
                }
                weir_series_unref(series);
        }
}

static void
signals_race_with_starts_and_cancels(void)
{
        struct weir_test_thread sender, starters[2];
        struct weir_test_record last = {0};

        stop = false;
        weir_test_begin_real(2);
        weir_task *keeper = weir_signal_new(SIGUSR1, NULL, NULL); /* so the action stays */
        weir_test_thread_start(&sender, keep_sending, NULL);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_start(&starters[i], start_and_cancel, NULL);
        }
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&starters[i]);
        }
        start(SIGUSR1, &last);
        WEIR_TEST_EVENTUALLY(last.frees == 1);
        stop = true;
        weir_test_thread_join(&sender);
        weir_test_end();
        CU_ASSERT_EQUAL(ended, 2 * ROUNDS);
        weir_task_dismiss(keeper);
        CU_ASSERT(action_of(SIGUSR1) == SIG_DFL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_task_ends_at_the_instant_of_its_signal),
                WEIR_TEST(all_tasks_of_a_signal_end_with_it),
                WEIR_TEST(a_task_counts_signals_from_its_making),
                WEIR_TEST(a_callback_that_makes_the_next_task_first_misses_nothing),
                WEIR_TEST(cancel_deadline_and_shutdown_end_it_as_any_task),
                WEIR_TEST(the_action_from_before_is_back_with_the_end_of_the_last_task),
                WEIR_TEST(a_signal_that_the_program_handles_is_refused),
                WEIR_TEST(numbers_that_are_no_signal_and_faults_are_refused),
                WEIR_TEST(a_dump_on_the_same_signal_gets_it_as_well),
                WEIR_TEST(each_runtime_gets_its_signals),
                WEIR_TEST(a_forked_child_has_the_former_action),
                WEIR_TEST(a_signal_to_a_child_of_a_server_is_not_the_servers_and_its_own_is_everybodys),
                WEIR_TEST(signals_race_with_starts_and_cancels),
        };

        return weir_test_main("signal", tests, sizeof tests / sizeof *tests);
}
