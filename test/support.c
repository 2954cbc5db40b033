/* test/support.c: the foundation of every suite.
 *
 * Threads: assertions, latches and the clock are for any thread; the rest is for the main thread.
 * Locks:   `assertions` guards CUnit's counts and its list of failures; each latch has its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/support.h"

/* Connections on several threads share a session of TLS.  OpenSSL counts its references by atomics that ThreadSanitizer does not
 * see, but it sees the free behind the last one, and reports a race with a copy of the session's chain before that. */
const char *__tsan_default_suppressions(void);

const char *
__tsan_default_suppressions(void)
{
        return "race:OPENSSL_sk_dup\n";
}

#undef CU_assertImplementation

#define LIMIT_SECONDS (WEIR_TEST_SANITIZED ? 235 : 115) /* just below CTest's: the last test printed is the one that hangs */

static pthread_mutex_t assertions = PTHREAD_MUTEX_INITIALIZER;
static pthread_t main_thread; /* constant once weir_test_main began */

int weir_test_leaks_do_not_count;

/* AddressSanitizer, if it is there, calls this at the end of each process. */
int __lsan_is_turned_off(void);

int
__lsan_is_turned_off(void)
{
        return weir_test_leaks_do_not_count;
}

CU_BOOL
weir_test_assert(CU_BOOL value, unsigned line, const char *condition, const char *file, const char *function, CU_BOOL fatal)
{
        if (fatal && !value && !pthread_equal(pthread_self(), main_thread)) {
                fprintf(stderr, "%s:%u: %s does not hold on another thread than main\n", file, line, condition);
                abort();
        }
        if (fatal && !value) {
                return CU_assertImplementation(value, line, condition, file, function, fatal); /* jumps: no lock may be held */
        }
        pthread_mutex_lock(&assertions);
        CU_assertImplementation(value, line, condition, file, function, fatal);
        pthread_mutex_unlock(&assertions);
        return value;
}

/* The default action of SIGALRM ends the process; the test that hangs is the last one printed.  A handler of ours could say more,
 * but under a sanitizer it runs late or never. */
static void
limit_time(void)
{
        const char *limit = getenv("WEIR_TEST_LIMIT");

        alarm(limit ? (unsigned)strtoul(limit, NULL, 10) : LIMIT_SECONDS);
}

/* A shell lets what it runs in the background ignore these, and so would all programs that a suite starts. */
static void
heed_signals(void)
{
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
}

static bool
add_tests(const char *suite_name, const struct weir_test *tests, size_t count)
{
        const char *filter = getenv("WEIR_TEST_FILTER");
        CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);

        for (size_t i = 0; suite && i < count; i++) {
                if ((!filter || strstr(tests[i].name, filter)) && !CU_add_test(suite, tests[i].name, tests[i].run)) {
                        return false;
                }
        }
        return suite != NULL;
}

int
weir_test_main(const char *suite, const struct weir_test *tests, size_t count)
{
        bool passed;

        main_thread = pthread_self();
        setvbuf(stdout, NULL, _IONBF, 0);
        limit_time();
        heed_signals();
        if (CU_initialize_registry() != CUE_SUCCESS || !add_tests(suite, tests, count)) {
                fprintf(stderr, "%s: %s\n", suite, CU_get_error_msg());
                return EXIT_FAILURE;
        }
        CU_basic_set_mode(CU_BRM_VERBOSE);
        CU_basic_run_tests();
        passed = CU_get_number_of_tests_run() > 0 && CU_get_number_of_tests_failed() == 0 && CU_get_number_of_failures() == 0;
        if (CU_get_number_of_tests_run() == 0) {
                fprintf(stderr, "%s: no test ran\n", suite);
        } else if (!passed) {
                fprintf(stderr, "%s: failed with WEIR_TEST_SEED=%llu\n", suite, (unsigned long long)weir_test_seed());
        }
        CU_cleanup_registry();
        return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int64_t
time_of(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t
weir_test_now(void)
{
        return time_of(CLOCK_MONOTONIC);
}

int64_t
weir_test_cpu_time(void)
{
        return time_of(CLOCK_PROCESS_CPUTIME_ID);
}

static struct timespec
to_timespec(int64_t nanoseconds)
{
        return (struct timespec){.tv_sec = nanoseconds / INT64_C(1000000000), .tv_nsec = nanoseconds % INT64_C(1000000000)};
}

void
weir_test_latch_init(struct weir_test_latch *latch, unsigned count)
{
        *latch = (struct weir_test_latch)WEIR_TEST_LATCH(count);
}

void
weir_test_latch_count_down(struct weir_test_latch *latch)
{
        pthread_mutex_lock(&latch->lock);
        if (latch->count == 0) {
                fprintf(stderr, "a latch was counted down below 0: something happened more often than it should\n");
                abort();
        }
        if (--latch->count == 0) {
                pthread_cond_broadcast(&latch->open); /* under the lock: the waiter may leave the latch's frame at once */
        }
        pthread_mutex_unlock(&latch->lock);
}

unsigned
weir_test_latch_count(struct weir_test_latch *latch)
{
        unsigned count;

        pthread_mutex_lock(&latch->lock);
        count = latch->count;
        pthread_mutex_unlock(&latch->lock);
        return count;
}

bool
weir_test_latch_wait_for(struct weir_test_latch *latch, int64_t nanoseconds)
{
        struct timespec until = to_timespec(weir_test_now() + nanoseconds);
        bool is_open;
        int r = 0;

        pthread_mutex_lock(&latch->lock);
        while (latch->count != 0 && r == 0) {
                r = pthread_cond_clockwait(&latch->open, &latch->lock, CLOCK_MONOTONIC, &until);
        }
        is_open = latch->count == 0;
        pthread_mutex_unlock(&latch->lock);
        return is_open;
}

void
weir_test_latch_wait_at(struct weir_test_latch *latch, const char *what, const char *file, int line)
{
        if (weir_test_latch_wait_for(latch, WEIR_TEST_PATIENCE)) {
                return;
        }
        fprintf(stderr, "%s:%d: %s did not open in time: still %u to go\n", file, line, what, weir_test_latch_count(latch));
        abort();
}

void
weir_test_pause(int64_t began, const char *what, const char *file, int line)
{
        if (weir_test_now() - began > WEIR_TEST_PATIENCE) {
                fprintf(stderr, "%s:%d: %s did not come true in time\n", file, line, what);
                abort();
        }
        weir_test_sleep(INT64_C(1000000));
}

void
weir_test_sleep(int64_t nanoseconds)
{
        struct timespec until = to_timespec(weir_test_now() + nanoseconds);

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
                continue;
        }
}

uint64_t
weir_test_seed(void)
{
        const char *seed = getenv("WEIR_TEST_SEED");

        return seed ? strtoull(seed, NULL, 0) : UINT64_C(20240229);
}

uint64_t
weir_test_random(struct weir_test_random *random)
{
        uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);

        mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
        return mixed ^ (mixed >> 31);
}

uint64_t
weir_test_random_below(struct weir_test_random *random, uint64_t limit)
{
        return weir_test_random(random) % limit; /* as even as a test needs it */
}
