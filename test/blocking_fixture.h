/* test/blocking_fixture.h: the common part of the suites about callbacks that block: a runtime whose watchdog is quick,
 * callbacks that go on when they have lost their poller, and the threads of the process.
 *
 * No test measures with a clock how long something blocks: a callback that must lose its poller waits until the ownership word
 * says so. */
#ifndef WEIR_TEST_BLOCKING_FIXTURE_H
#define WEIR_TEST_BLOCKING_FIXTURE_H

#include "kernel/worker/worker_pool.h"
#include "kernel/worker/worker.h"
#include "test/timer_fixture.h"

#define WEIR_TEST_LIMIT_OF_CALLBACKS WEIR_USEC(500)

static inline struct weir_config weir_test_blocking_config(int pollers, int spares)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        config.spare_workers = spares;
        config.blocking_limit = WEIR_TEST_LIMIT_OF_CALLBACKS;
        return config;
}

/* One poller; `spares`: 0 is the default.  Nothing is said of it. */
static inline void weir_test_begin_blocking(int spares)
{
        struct weir_config config = weir_test_blocking_config(1, spares);

        CU_ASSERT_EQUAL_FATAL(weir_log_set(NULL, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* The same without a watchdog: only weir_blocking_begin hands over. */
static inline void weir_test_begin_unwatched(int spares)
{
        struct weir_config config = weir_test_blocking_config(1, spares);

        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_log_set(NULL, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* -- inside a callback -- */

/* Whether the worker whose callback this is does not own the first poller. */
static inline bool weir_test_has_lost_poller(void)
{
        return (atomic_load(&weir__poller_at(0)->owner) & ~WEIR__RETAKING) != (uintptr_t)weir__worker_self();
}

/* Blocks until it was taken away. */
static inline void weir_test_lose_poller(void)
{
        WEIR_TEST_EVENTUALLY(weir_test_has_lost_poller());
}

/* Callbacks that are lost by their poller before they are noted. */
static inline void weir_test_lose_and_note(weir_task *task, void *context)
{
        weir_test_lose_poller();
        weir_test_done(task, context);
}

static inline void weir_test_lose_and_note_free(void *context)
{
        weir_test_lose_poller();
        weir_test_freed(context);
}

static inline void weir_test_lose_and_note_series(weir_series *series, void *context)
{
        weir_test_lose_poller();
        weir_test_series_done(series, context);
}

/* -- threads -- */

/* Waits until all workers but so many are spares.  A worker that has lost its poller becomes a spare soon after its task ends. */
static inline bool weir_test_are_spares(unsigned but)
{
        unsigned workers, spares;

        weir__worker_pool_count(&workers, &spares);
        return workers == spares + but;
}

static inline void weir_test_await_spares(unsigned but)
{
        WEIR_TEST_EVENTUALLY(weir_test_are_spares(but));
}

/* How many have a name that begins so; the greatest number behind it, if `greatest` is not NULL. */
static inline unsigned weir_test_threads_named(const char *prefix, unsigned long *greatest)
{
        DIR *tasks = opendir("/proc/self/task");
        char path[300], name[32];
        unsigned count = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(tasks);
        for (struct dirent *entry; (entry = readdir(tasks));) {
                snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
                FILE *file = fopen(path, "re");

                if (!file) {
                        continue; /* . and .., or it has just ended */
                }
                bool is_named = fgets(name, sizeof name, file) && strncmp(name, prefix, strlen(prefix)) == 0;
                if (is_named && weir_test_thread_lives(entry->d_name)) {
                        unsigned long number = strtoul(name + strlen(prefix), NULL, 10);

                        count++;
                        if (greatest && number > *greatest) {
                                *greatest = number;
                        }
                }
                fclose(file);
        }
        closedir(tasks);
        return count;
}

#endif
