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

/* How many messages of that level contain it. */
static unsigned
count_heard(enum weir_log_level level, const char *part)
{
        unsigned count = 0;

        pthread_mutex_lock(&heard.lock);
        for (unsigned i = 0; i < heard.count; i++) {
                count += heard.levels[i] == level && strstr(heard.messages[i], part);
        }
        pthread_mutex_unlock(&heard.lock);
        return count;
}

static void
begin_listening(int spares)
{
        struct weir_config config = weir_test_blocking_config(1, spares);

        EXPECT(weir_log_set(hear, NULL) == 0);
        EXPECT(weir_init(&config) == 0);
}

/* Ends the runtime and the process. */
static void
expect_message(const char *kind, const char *whole)
{
        char expected[200];
        long long milliseconds = -1;

        EXPECT(weir_shutdown() == 0);
        snprintf(expected, sizeof expected, "a callback of %s blocks poller 0, which another worker has now", kind);
        EXPECT(count_heard(WEIR_LOG_INFO, expected) > 0);
        snprintf(expected, sizeof expected, "the callback of %s (blocking_process_test+0x", whole);
        EXPECT(count_heard(WEIR_LOG_WARNING, expected) == 1); /* the first in a minute */
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
lose_and_sleep(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_lose_poller();
        weir_test_sleep(WEIR_MSEC(20));
}

static void
listen_to_a_timer(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new(0, lose_and_sleep, NULL)) == 0);
        expect_message("a timer", "a timer");
}

static void
listen_to_a_named_timer(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_timer_new_named("its name", 0, lose_and_sleep, NULL)) == 0);
        expect_message("a timer", "a timer \"its name\"");
}

static void
listen_to_a_ticker(void)
{
        begin_listening(0);
        weir_task *ticker = weir_ticker_new_named("ticks", 1, WEIR_TICK_SKIP, lose_and_sleep, NULL);
        weir_ticker_set_limit(ticker, 1);
        EXPECT(weir_task_run(ticker) == 0);
        expect_message("a ticker", "a ticker \"ticks\"");
}

static void
listen_to_an_empty_task(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_empty_new(lose_and_sleep, NULL)) == 0);
        expect_message("an empty task", "an empty task");
}

static void
listen_to_a_parallel(void)
{
        begin_listening(0);
        EXPECT(weir_task_run(weir_parallel_new(lose_and_sleep, NULL)) == 0);
        expect_message("a parallel", "a parallel");
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
        expect_message("an exchange", "an exchange \"/its/target\"");
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
        EXPECT(count_heard(WEIR_LOG_WARNING, "empty task blocks poller 0, and no spare worker is to be had") <=
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
                WEIR_TEST(nothing_is_said_of_a_callback_that_said_itself_that_it_blocks),
                WEIR_TEST(message_says_when_there_is_no_worker_for_what_waits_but_not_all_the_time),
                WEIR_TEST(runtime_starts_without_a_watchdog_when_no_thread_can_be_had_for_it),
                WEIR_TEST(exit_inside_a_callback_that_has_lost_its_poller_ends_what_is_pending),
                WEIR_TEST(exit_on_a_worker_waits_no_longer_than_exit_wait_for_others_that_block),
                WEIR_TEST(fork_inside_a_callback_that_has_lost_its_poller_leaves_both_sound),
        };

        return weir_test_main("blocking_process", tests, sizeof tests / sizeof *tests);
}
