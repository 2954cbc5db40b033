/* test/support.h: the foundation of every suite: its main, a latch, a seeded generator, clock and tolerance.
 *
 * The environment steers a run: WEIR_TEST_FILTER (only tests whose name contains it), WEIR_TEST_SEED (another seed for the
 * randomized tests), WEIR_TEST_LIMIT (seconds until a suite gives itself up). */
#ifndef WEIR_TEST_SUPPORT_H
#define WEIR_TEST_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <CUnit/Basic.h>

/* Whether the suite runs under a sanitizer, for tests that must be smaller there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_TEST_SANITIZED 1
#endif
#endif
#ifndef WEIR_TEST_SANITIZED
#define WEIR_TEST_SANITIZED 0
#endif

struct weir_test {
        const char *name;
        void (*run)(void);
};

#define WEIR_TEST(function) {#function, function}

/* Runs the tests in order, verbosely, and gives the process up with the reason when its time is over.
 *
 * Result: for main to return: 0 when at least one test ran and none failed. */
int weir_test_main(const char *suite, const struct weir_test *tests, size_t count);

/* CUnit's assertions count without a lock.  Here they go through one, so that callbacks on workers may use them too; all but
 * the _FATAL ones, which jump out of the test and abort anywhere but on the main thread. */
CU_BOOL weir_test_assert(CU_BOOL value, unsigned line, const char *condition, const char *file, const char *function,
                         CU_BOOL fatal);
#define CU_assertImplementation weir_test_assert

/* Is set to 1 in a child that is forked while other threads run: to AddressSanitizer the memory of those threads looks like
 * leaks there. */
extern int weir_test_leaks_do_not_count;

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t weir_test_now(void);

/* Nanoseconds of CPU time of all threads, for work that must be short or cost nothing, on any machine. */
int64_t weir_test_cpu_time(void);

/* How late something may be, in nanoseconds.  A machine that stands still for some seconds stays below this; only an event that
 * never comes exceeds it.  Nothing may ever be early. */
#define WEIR_TEST_TOLERANCE INT64_C(30000000000)

/* How long a test waits for an event that must happen, in nanoseconds, before it aborts with the reason. */
#define WEIR_TEST_PATIENCE INT64_C(30000000000)

/* Opens once it was counted down to 0. */
struct weir_test_latch {
        pthread_mutex_t lock;
        pthread_cond_t open;
        unsigned count; /* guarded by lock */
};

#define WEIR_TEST_LATCH(count_) {.lock = PTHREAD_MUTEX_INITIALIZER, .open = PTHREAD_COND_INITIALIZER, .count = (count_)}

void weir_test_latch_init(struct weir_test_latch *latch, unsigned count);
void weir_test_latch_count_down(struct weir_test_latch *latch);
unsigned weir_test_latch_count(struct weir_test_latch *latch);

/* Waits until the latch is open, at most `nanoseconds`.  Returns whether it is. */
bool weir_test_latch_wait_for(struct weir_test_latch *latch, int64_t nanoseconds);

/* Waits until the latch is open; aborts with the reason when that takes longer than WEIR_TEST_PATIENCE. */
#define weir_test_latch_wait(latch) weir_test_latch_wait_at((latch), #latch, __FILE__, __LINE__)
void weir_test_latch_wait_at(struct weir_test_latch *latch, const char *what, const char *file, int line);

/* Waits until the condition holds, for events without a latch; aborts with the reason after WEIR_TEST_PATIENCE. */
#define WEIR_TEST_EVENTUALLY(condition)                                                          \
        do {                                                                                     \
                int64_t weir_test_began_ = weir_test_now();                                      \
                while (!(condition)) {                                                           \
                        weir_test_pause(weir_test_began_, #condition, __FILE__, __LINE__);       \
                }                                                                                \
        } while (0)
void weir_test_pause(int64_t began, const char *what, const char *file, int line);

/* For the one real sleep that a test cannot do without. */
void weir_test_sleep(int64_t nanoseconds);

/* The seed of the randomized tests: WEIR_TEST_SEED, or the same every time.  It is printed when a test of the suite failed. */
uint64_t weir_test_seed(void);

/* A small generator (splitmix64).  Any state is a good one; one generator is for one thread. */
struct weir_test_random {
        uint64_t state;
};

uint64_t weir_test_random(struct weir_test_random *random);

/* A number below `limit`, which is not 0. */
uint64_t weir_test_random_below(struct weir_test_random *random, uint64_t limit);

#endif
