/* test/blocking_process_test.c: callbacks that block: the messages about them, and the effect of exit and fork.
 *
 * The rate of messages is limited for the whole process, so each test expects its message in a child of its own.  The child
 * reports its failures on standard error.  This file replaces pthread_create, so that it can fail. */
#include "test/blocking_fixture.h"

#include "test/http_client.h"

/* -- pthread_create, which fails on request -- */

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

/* As in test/process_test.c. */
const char *__tsan_default_options(void);

const char *
__tsan_default_options(void)
{
        return "report_thread_leaks=0";
}

/* -- children -- */

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
lose(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_lose_poller();
}

/* -- messages -- */

#define HEARD 64

static struct {
        pthread_mutex_t lock;
        unsigned count;
        enum weir_log_level levels[HEARD];
        char messages[HEARD][600];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        pthread_mutex_lock(&heard.lock);
        if (heard.count < HEARD) {
                heard.levels[heard.count] = level;
                snprintf(heard.messages[heard.count++], sizeof *heard.messages, "%s", message);
        }
        pthread_mutex_unlock(&heard.lock);
}

/* How many messages of that level contain both. */
static unsigned
count_heard_with(enum weir_log_level level, const char *part, const char *other)
{
        unsigned count = 0;

        pthread_mutex_lock(&heard.lock);
        for (unsigned i = 0; i < heard.count; i++) {
                count += heard.levels[i] == level && strstr(heard.messages[i], part) && strstr(heard.messages[i], other);
        }
        pthread_mutex_unlock(&heard.lock);
        return count;
}

static unsigned
count_heard(enum weir_log_level level, const char *part)
{
        return count_heard_with(level, part, "");
}

static void
begin_listening(int spares)
{
        struct weir_config config = weir_test_blocking_config(1, spares);

        EXPECT(weir_log_set(hear, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
}

#define BLOCKS  ") blocks poller 0, which another worker has now"
#define HAS_RUN " ms: another worker has taken over what waited behind it"

/* Ends the runtime and the process.  Both messages of a minute that are warnings begin so. */
static void
expect_warnings(const char *beginning)
{
        long long milliseconds = -1;

        EXPECT(weir_shutdown() == 0);
        EXPECT(count_heard_with(WEIR_LOG_WARNING, beginning, BLOCKS) == 1);
        EXPECT(count_heard_with(WEIR_LOG_WARNING, beginning, HAS_RUN) == 1);
        for (unsigned i = 0; i < heard.count; i++) {
                const char *ran = strstr(heard.messages[i], " ran for ");

                if (ran) {
                        sscanf(ran, " ran for %lld ms", &milliseconds);
                }
        }
        EXPECT(milliseconds >= 20 && milliseconds <= WEIR_TEST_TOLERANCE / 1000000);
        _exit(5);
}

static void
expect_message(const char *whole)
{
        char expected[200];

        snprintf(expected, sizeof expected, "the callback of %s (blocking_process_test+0x", whole);
        expect_warnings(expected);
}

static void
block(void)
{
        weir_test_lose_poller();
        weir_test_sleep(WEIR_MSEC(20));
}

static void
lose_and_sleep(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        block();
}

static void
listen_to_a_timer(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new(0, lose_and_sleep, NULL)) == 0);
        expect_message("a timer");
}

static void
listen_to_a_named_timer(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new_named("its name", 0, lose_and_sleep, NULL)) == 0);
        expect_message("a timer \"its name\"");
}

static void
listen_to_a_ticker(void)
{
        begin_listening(0);
        weir_task *ticker = weir_ticker_new_named("ticks", 1, WEIR_TICK_SKIP, lose_and_sleep, NULL);
        weir_ticker_set_limit(ticker, 1);
        EXPECT(weir_task_run(ticker) == 0);
        expect_message("a ticker \"ticks\"");
}

static void
listen_to_an_empty_task(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_empty_new(lose_and_sleep, NULL)) == 0);
        expect_message("an empty task");
}

static void
listen_to_a_parallel(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_parallel_new(lose_and_sleep, NULL)) == 0);
        expect_message("a parallel");
}

static void
listen_to_an_exchange(void)
{
        struct http_reply reply = {0};
        struct http_client client;

        begin_listening(0);
        weir_http_server *server = http_server(NULL, lose_and_sleep, NULL);
        http_open(&client, weir_http_server_port(server));
        EXPECT(http_ask(&client, "GET /its/target HTTP/1.1\r\nHost: a\r\n\r\n", &reply));
        weir_http_server_free(server);
        http_reply_done(&reply);
        expect_message("an exchange \"/its/target\"");
}

static void
message_tells_kind_and_name_of_a_callback_that_has_blocked_and_for_how_long(void)
{
        expect_exit(listen_to_a_timer, 5);
        expect_exit(listen_to_a_named_timer, 5);
        expect_exit(listen_to_a_ticker, 5);
        expect_exit(listen_to_an_empty_task, 5);
        expect_exit(listen_to_a_parallel, 5);
        expect_exit(listen_to_an_exchange, 5);
}

/* Exported by the program, so that the loader knows its name. */
void blocking_process_test_exported(weir_task *task, void *context);
void
blocking_process_test_exported(weir_task *task, void *context)
{
        lose_and_sleep(task, context);
}

static void
listen_to_an_exported_function(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new_named("its name", 0, blocking_process_test_exported, NULL)) == 0);
        expect_warnings("the callback of a timer \"its name\" (blocking_process_test_exported)");
}

static void
message_has_the_symbol_of_an_exported_function(void)
{
        expect_exit(listen_to_an_exported_function, 5);
}

/* -- fibers -- */

int blocking_process_test_fiber(void *context);
int
blocking_process_test_fiber(void *context)
{
        switch (*(const char *)context) {
        case 't': weir_await(weir_timer_new_named("its name", 1, NULL, NULL)); break;
        case 's': weir_fiber_sleep(1); break;
        case 'y': weir_fiber_yield(); break;
        case 'c': weir_await(weir_timer_new_named("its name", 1, blocking_process_test_exported, NULL)); return 0;
        default: break;
        }
        block();
        if (*(const char *)context == 'e')
                weir_fiber_sleep(1);
        return 0;
}

static void
listen_to_a_fiber(const char *how, const char *beginning)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_fiber_new_as("its own name", blocking_process_test_fiber, NULL, (void *)how)) == 0);
        expect_warnings(beginning);
}

#define FIBER "the function of a fiber \"its own name\" (blocking_process_test_fiber)"

static void
listen_to_a_fiber_at_its_beginning(void)
{
        listen_to_a_fiber("begins", FIBER);
}

static void
listen_to_a_fiber_before_an_await(void)
{
        listen_to_a_fiber("early", FIBER);
}

static void
listen_to_a_fiber_behind_a_timer(void)
{
        listen_to_a_fiber("timer", FIBER);
}

static void
listen_to_a_fiber_behind_a_sleep(void)
{
        listen_to_a_fiber("sleep", FIBER);
}

static void
listen_to_a_fiber_behind_a_yield(void)
{
        listen_to_a_fiber("yield", FIBER);
}

static void
listen_to_the_callback_of_what_a_fiber_awaits(void)
{
        listen_to_a_fiber("callback", "the callback of a timer \"its name\" (blocking_process_test_exported)");
}

static void
messages_about_a_fiber_name_it_and_its_function(void)
{
        expect_exit(listen_to_a_fiber_at_its_beginning, 5);
        expect_exit(listen_to_a_fiber_before_an_await, 5);
        expect_exit(listen_to_a_fiber_behind_a_timer, 5);
        expect_exit(listen_to_a_fiber_behind_a_sleep, 5);
        expect_exit(listen_to_a_fiber_behind_a_yield, 5);
        expect_exit(listen_to_the_callback_of_what_a_fiber_awaits, 5);
}

/* -- functions of the program that are no callbacks of tasks -- */

static void
block_at_the_end(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        block();
}

static void
block_in_a_free(void *context)
{
        if (context) {
                block();
        }
}

static weir_task *
block_in_a_make(void *context)
{
        if (context) {
                block();
        }
        return weir_empty_new(NULL, NULL);
}

static void
block_in_a_cancel(weir_task *promise, void *context)
{
        (void)promise;
        (void)context;
        block();
}

static int
block_in_a_retry_if(int status, void *context)
{
        (void)status;
        (void)context;
        block();
        return 0;
}

static weir_nsec
block_in_a_delay_of(int status, weir_nsec planned, void *context)
{
        (void)status;
        (void)planned;
        (void)context;
        block();
        return 1;
}

static bool
block_in_a_condition(const weir_node *node, void *context)
{
        (void)node;
        (void)context;
        block();
        return true;
}

static weir_task *
make_one_that_fails(void *context)
{
        (void)context;
        return weir_timeout_new(weir_timer_new(WEIR_TEST_FAR, NULL, NULL), 1);
}

static void
run_an_end_callback(void)
{
        weir_series *series = weir_series_new(block_at_the_end, NULL);

        EXPECT(weir_series_set_name(series, "checkout") == 0);
        EXPECT(weir_series_run(series) == 0);
        EXPECT(weir_series_count("checkout") == 0);
}

static void
run_an_end_callback_of_a_series_without_a_name(void)
{
        EXPECT(weir_series_run(weir_series_new(block_at_the_end, NULL)) == 0);
}

static void
run_a_free_function_of_a_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_context(series, series, block_in_a_free);
        EXPECT(weir_series_run(series) == 0);
}

static void
run_an_on_free(void)
{
        weir_task *timer = weir_timer_new_named("its name", 0, NULL, &heard);

        weir_task_on_free(timer, block_in_a_free);
        EXPECT(weir_task_run(timer) == 0);
}

static void
run_a_make_function(void)
{
        EXPECT(weir_task_run(weir_dynamic_new(block_in_a_make, NULL, &heard)) == 0);
}

static void
run_a_make_function_of_a_retry(void)
{
        EXPECT(weir_task_run(weir_retry_new(NULL, block_in_a_make, NULL, &heard)) == 0);
}

static void
run_a_retry_if(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.retry_if = block_in_a_retry_if;
        EXPECT(weir_task_run(weir_retry_new(&config, make_one_that_fails, NULL, NULL)) == -ETIMEDOUT);
}

static void
run_a_delay_of(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.attempts = 2;
        config.delay_of = block_in_a_delay_of;
        EXPECT(weir_task_run(weir_retry_new(&config, make_one_that_fails, NULL, NULL)) == -ETIMEDOUT);
}

static void
run_a_condition(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *before = weir_graph_add(graph, weir_empty_new(NULL, NULL), NULL);
        weir_node *after = weir_graph_add(graph, weir_empty_new(NULL, NULL), NULL);

        EXPECT(weir_graph_precede_if(before, after, block_in_a_condition, NULL) == 0);
        EXPECT(weir_task_run(graph) == 0);
}

static void
run_a_cancel_function(void)
{
        weir_task *race = weir_race_new(NULL, NULL), *promise = weir_promise_new(block_in_a_cancel, NULL, NULL);

        EXPECT(weir_promise_set_label(promise, "answer") == 0);
        weir_race_add(race, promise);
        weir_race_add(race, weir_empty_new(NULL, NULL));
        EXPECT(weir_task_run(race) == 0);
}

static void
run_a_free_function_of_a_value(void)
{
        weir_task *promise = weir_promise_new(NULL, NULL, NULL);

        EXPECT(weir_promise_end_with(promise, 0, &heard, block_in_a_free) == 0);
        EXPECT(weir_task_run(promise) == 0);
}

static const struct {
        const char *title;
        void (*run)(void);
} functions[] = {
        {"the end callback of a series \"checkout\"", run_an_end_callback},
        {"the end callback of a series", run_an_end_callback_of_a_series_without_a_name},
        {"the free function of a series", run_a_free_function_of_a_series},
        {"the on_free of a timer \"its name\"", run_an_on_free},
        {"the make function of a dynamic task", run_a_make_function},
        {"the make function of a retry", run_a_make_function_of_a_retry},
        {"the retry_if of a retry", run_a_retry_if},
        {"the delay_of of a retry", run_a_delay_of},
        {"a condition of a graph", run_a_condition},
        {"the cancel function of a promise \"answer\"", run_a_cancel_function},
        {"a free function", run_a_free_function_of_a_value},
};

static unsigned chosen;

static void
listen_to_the_chosen_function(void)
{
        char expected[200];

        begin_listening(0);
        functions[chosen].run();
        snprintf(expected, sizeof expected, "%s (blocking_process_test+0x", functions[chosen].title);
        expect_warnings(expected);
}

static void
message_says_which_function_of_the_program_has_blocked_if_it_is_no_callback_of_a_task(void)
{
        for (chosen = 0; chosen < sizeof functions / sizeof *functions; chosen++) {
                expect_exit(listen_to_the_chosen_function, 5);
        }
}

/* -- callbacks that do not return -- */

static void
never_return(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        for (;;) {
                pause();
        }
}

#define STUCK " a timer \"stuck\" (blocking_process_test+0x"

/* A poller from which one was taken is degraded for a while, and nothing is said of the next one until then.  So more are
 * started, as long as it takes. */
static void
listen_to_some_that_never_return(void)
{
        begin_listening(0);
        EXPECT(weir_task_start(weir_timer_new_named("stuck", 0, never_return, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(count_heard_with(WEIR_LOG_WARNING, "the callback of" STUCK, BLOCKS) == 1);
        for (unsigned i = 0; i < 40 && !count_heard_with(WEIR_LOG_INFO, "the callback of" STUCK, BLOCKS); i++) {
                EXPECT(weir_task_start(weir_timer_new_named("stuck", 0, never_return, NULL)) == 0);
                weir_test_sleep(WEIR_MSEC(150));
        }
        EXPECT(count_heard_with(WEIR_LOG_INFO, "the callback of" STUCK, BLOCKS) >= 1);
        EXPECT(count_heard(WEIR_LOG_WARNING, STUCK) == 1);
        _exit(5);
}

static void
message_comes_while_a_callback_blocks_and_the_second_in_a_minute_is_no_warning(void)
{
        expect_exit(listen_to_some_that_never_return, 5);
}

static void
listen_to_two_that_return(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new(0, lose_and_sleep, NULL)) == 0);
        EXPECT(weir_task_run(weir_timer_new(0, lose_and_sleep, NULL)) == 0);
        EXPECT(weir_shutdown() == 0);
        EXPECT(count_heard(WEIR_LOG_WARNING, HAS_RUN) == 1);
        EXPECT(count_heard(WEIR_LOG_INFO, HAS_RUN) == 1);
        _exit(5);
}

static void
second_message_of_a_minute_is_no_warning(void)
{
        expect_exit(listen_to_two_that_return, 5);
}

static void
begin_and_sleep(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        EXPECT(weir_blocking_begin() == 0);
        weir_test_sleep(WEIR_MSEC(5));
}

static void
listen_to_one_that_says_so_itself(void)
{
        struct weir_config config = weir_test_blocking_config(1, 0);

        config.blocking_limit = WEIR_TEST_TOLERANCE; /* but there is a watchdog */
        EXPECT(weir_log_set(hear, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
        EXPECT(weir_task_run(weir_empty_new(begin_and_sleep, NULL)) == 0);
        EXPECT(weir_shutdown() == 0);
        EXPECT(heard.count == 0);
        _exit(5);
}

static void
nothing_is_said_of_a_callback_that_said_itself_that_it_blocks(void)
{
        expect_exit(listen_to_one_that_says_so_itself, 5);
}

static struct weir_test_latch two_begun, opened;
static _Atomic unsigned begun_count;

static void
block_beside_others(weir_task *task, void *context)
{
        if (atomic_fetch_add(&begun_count, 1) < 2) {
                weir_test_latch_count_down(&two_begun);
        }
        weir_test_latch_wait(&opened);
        weir_test_done(task, context);
}

static void
block_beyond_the_bound(void)
{
        struct weir_test_record records[3] = {{0}};
        int64_t began = weir_test_now();

        begin_listening(1);
        weir_test_latch_init(&two_begun, 2);
        weir_test_latch_init(&opened, 1);
        for (unsigned i = 0; i < 3; i++) {
                EXPECT(weir_task_start(weir_test_recorded(weir_empty_new(block_beside_others, &records[i]))) == 0);
        }
        weir_test_latch_wait(&two_begun); /* by two: there is nobody for the third */
        WEIR_TEST_EVENTUALLY(count_heard(WEIR_LOG_WARNING, "no spare worker is to be had") > 0);
        weir_test_sleep(20000000); /* 40 limits, after each of which it could be said */
        EXPECT(begun_count == 2);
        weir_test_latch_count_down(&opened);
        EXPECT(weir_shutdown() == 0);
        EXPECT(records[0].frees == 1 && records[1].frees == 1 && records[2].frees == 1);
        EXPECT(count_heard(WEIR_LOG_WARNING, "the callback of an empty task (blocking_process_test+0x") > 0);
        EXPECT(count_heard(WEIR_LOG_WARNING, ") blocks poller 0, and no spare worker is to be had") <=
               1 + (weir_test_now() - began) / 1000000000);
        _exit(5);
}

static void
message_says_when_there_is_no_worker_for_what_waits_but_not_all_the_time(void)
{
        expect_exit(block_beyond_the_bound, 5);
}

static void
start_without_a_watchdog(void)
{
        struct weir_config config = weir_test_blocking_config(2, 0);

        EXPECT(weir_log_set(hear, NULL) == 0);
        threads_left = 2;
        EXPECT(weir_init(&config) == 0);
        EXPECT(count_heard(WEIR_LOG_WARNING, "the watchdog could not be started") == 1);
        threads_left = INT32_MAX;
        EXPECT(weir_task_run(weir_timer_new(0, NULL, NULL)) == 0);
        EXPECT(weir_shutdown() == 0);
        threads_left = 1; /* for two pollers */
        EXPECT(weir_init(&config) == -EAGAIN);
        threads_left = INT32_MAX;
        EXPECT(weir_init(&config) == 0);
        WEIR_TEST_EVENTUALLY(weir_test_threads_named("weir/watchdog", NULL) == 1);
        EXPECT(weir_task_run(weir_empty_new(lose, NULL)) == 0);
        EXPECT(weir_shutdown() == 0);
        _exit(5);
}

static void
runtime_starts_without_a_watchdog_when_no_thread_can_be_had_for_it(void)
{
        expect_exit(start_without_a_watchdog, 5);
}

/* -- exit -- */

static struct weir_test_latch all_begun;

static struct weir_test_record pending;

static void
look_after_exit(void)
{
        if (pending.calls != 1 || pending.status != -ESHUTDOWN || pending.frees != 1) {
                _exit(96);
        }
}

static void
exit_without_poller(weir_task *task, void *context)
{
        (void)task;
        if (context) {
                EXPECT(weir_blocking_begin() == 0);
        }
        weir_test_lose_poller();
        exit(3);
}

static void
exit_without_poller_in_child(void *context)
{
        struct weir_config config = weir_test_blocking_config(1, 0);

        atexit(look_after_exit); /* runs after the library's own, which is registered later */
        config.exit_wait = WEIR_TEST_TOLERANCE;
        EXPECT(weir_log_set(NULL, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
        EXPECT(weir_task_start(weir_test_timer(WEIR_TEST_FAR, &pending)) == 0);
        weir_task_start(weir_empty_new(exit_without_poller, context));
        for (;;) {
                pause();
        }
}

static void
exit_after_loss(void)
{
        exit_without_poller_in_child(NULL);
}

static void
exit_after_begin(void)
{
        exit_without_poller_in_child(&pending);
}

static void
exit_inside_a_callback_that_has_lost_its_poller_ends_what_is_pending(void)
{
        int64_t began = weir_test_now();

        expect_exit(exit_after_loss, 3);
        expect_exit(exit_after_begin, 3);
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE); /* so it did not wait for itself */
}

static void
block_for_ever(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_latch_count_down(&all_begun);
        for (;;) {
                pause();
        }
}

static void
exit_on_owner(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        exit(4);
}

static void
exit_beside_others(void)
{
        struct weir_config config = weir_test_blocking_config(1, 0);

        config.exit_wait = WEIR_MSEC(300);
        EXPECT(weir_log_set(NULL, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
        weir_test_latch_init(&all_begun, 3);
        for (unsigned i = 0; i < 3; i++) {
                EXPECT(weir_task_start(weir_empty_new(block_for_ever, NULL)) == 0);
        }
        weir_test_latch_wait(&all_begun);
        weir_task_start(weir_empty_new(exit_on_owner, NULL));
        for (;;) {
                pause();
        }
}

static void
exit_on_a_worker_waits_no_longer_than_exit_wait_for_others_that_block(void)
{
        int64_t began = weir_test_now();

        expect_exit(exit_beside_others, 4);
        CU_ASSERT(weir_test_now() - began >= 300000000);
        CU_ASSERT(weir_test_now() - began < 300000000 + WEIR_TEST_TOLERANCE);
}

/* -- fork -- */

static void
use_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        EXPECT(weir_blocking_begin() == -ECHILD);
        weir_blocking_end();
        EXPECT(weir_task_start(weir_empty_new(NULL, NULL)) == -ECHILD);
        EXPECT(weir_task_run(weir_empty_new(NULL, NULL)) == -ECHILD);
        EXPECT(weir_timer_cancel("nobody", WEIR_ALL) == 0);
        EXPECT(weir_shutdown() == -ECHILD);
        exit(6);
}

/* In a callback that has lost its poller, whose new owner sleeps: a sanitizer's allocator does not survive a fork while another
 * thread allocates. */
static void
fork_without_poller(weir_task *task, void *context)
{
        int status = 0;

        if (context) {
                CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        }
        weir_test_lose_poller();
        WEIR_TEST_EVENTUALLY(weir__poller_is_asleep(weir__poller_at(0)));
        weir_test_sleep(20000000);
        pid_t child = fork();
        if (child == 0) {
                use_in_child();
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 6);
        (void)task;
}

static void
fork_inside_a_callback_that_has_lost_its_poller_leaves_both_sound(void)
{
        struct weir_test_record after = {0};

        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(fork_without_poller, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(fork_without_poller, &after)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(0, &after)), 0);
        WEIR_TEST_CALLED(&after, 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                /* The last one first has the library register something with atexit() here, which then comes before theirs. */
                WEIR_TEST(message_tells_kind_and_name_of_a_callback_that_has_blocked_and_for_how_long),
                WEIR_TEST(message_has_the_symbol_of_an_exported_function),
                WEIR_TEST(messages_about_a_fiber_name_it_and_its_function),
                WEIR_TEST(message_says_which_function_of_the_program_has_blocked_if_it_is_no_callback_of_a_task),
                WEIR_TEST(message_comes_while_a_callback_blocks_and_the_second_in_a_minute_is_no_warning),
                WEIR_TEST(second_message_of_a_minute_is_no_warning),
                WEIR_TEST(nothing_is_said_of_a_callback_that_said_itself_that_it_blocks),
                WEIR_TEST(message_says_when_there_is_no_worker_for_what_waits_but_not_all_the_time),
                WEIR_TEST(runtime_starts_without_a_watchdog_when_no_thread_can_be_had_for_it),
                WEIR_TEST(exit_inside_a_callback_that_has_lost_its_poller_ends_what_is_pending),
                WEIR_TEST(exit_on_a_worker_waits_no_longer_than_exit_wait_for_others_that_block),
                WEIR_TEST(fork_inside_a_callback_that_has_lost_its_poller_leaves_both_sound),
        };

        return weir_test_main("blocking_process", tests, sizeof tests / sizeof *tests);
}
