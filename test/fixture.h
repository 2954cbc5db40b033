/* test/fixture.h: the resources of the process, a runtime for one test, records of the life of a task, children that must die.
 *
 * A test that begins the runtime ends it, so that none depends on another. */
#ifndef WEIR_TEST_FIXTURE_H
#define WEIR_TEST_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- resources of the process -- */

static inline unsigned weir_test_entries_of(const char *directory)
{
        DIR *entries = opendir(directory);
        unsigned count = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(entries);
        for (struct dirent *entry; (entry = readdir(entries));) {
                count += entry->d_name[0] != '.';
        }
        closedir(entries);
        return count;
}

/* Bytes of memory that the process has by now. */
static inline size_t weir_test_resident_bytes(void)
{
        FILE *file = fopen("/proc/self/statm", "re");
        unsigned long size, resident;

        CU_ASSERT_EQUAL_FATAL(fscanf(file, "%lu %lu", &size, &resident), 2);
        fclose(file);
        return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#define WEIR_TEST_EXITING 4 /* the kernel's PF_EXITING: set before a join returns */

/* Whether the thread of that number is there: one that has ended, even one that was joined, is listed for a moment longer. */
static inline bool weir_test_thread_lives(const char *number)
{
        char path[300], line[512] = "";
        unsigned flags = WEIR_TEST_EXITING;

        snprintf(path, sizeof path, "/proc/self/task/%s/stat", number);
        FILE *file = fopen(path, "re");
        if (!file) {
                return false;
        }
        char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        fclose(file);
        return name_end && sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && !(flags & WEIR_TEST_EXITING);
}

/* How many there are. */
static inline unsigned weir_test_threads(void)
{
        DIR *tasks = opendir("/proc/self/task");
        unsigned count = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(tasks);
        for (struct dirent *entry; (entry = readdir(tasks));) {
                count += entry->d_name[0] != '.' && weir_test_thread_lives(entry->d_name);
        }
        closedir(tasks);
        return count;
}

/* Waits until there are that many. */
static inline bool weir_test_threads_become(unsigned count)
{
        for (unsigned i = 0; i < 30000; i++) {
                if (weir_test_threads() == count) {
                        return true;
                }
                weir_test_sleep(1000000);
        }
        return false;
}

/* -- a runtime -- */

/* A callback may hold its worker: nobody takes over its poller. */
static inline void weir_test_begin_real(int pollers)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static inline void weir_test_begin_virtual(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static inline void weir_test_end(void)
{
        CU_ASSERT_EQUAL_FATAL(weir_shutdown(), 0);
}

/* Lets that much time pass on the virtual clock, with all that happens meanwhile, and at its end. */
static inline void weir_test_pass(weir_nsec duration)
{
        CU_ASSERT_EQUAL(weir_clock_advance(duration), 0);
}

/* What weir_debug_dump prints now; to be freed. */
static inline char *weir_test_dump(void)
{
        int file = memfd_create("dump", MFD_CLOEXEC);

        CU_ASSERT_EQUAL(weir_debug_dump(file), 0);
        size_t size = (size_t)lseek(file, 0, SEEK_END);
        char *text = calloc(1, size + 1);
        CU_ASSERT_EQUAL(pread(file, text, size, 0), (ssize_t)size);
        close(file);
        return text;
}

#define WEIR_TEST_DUMPS(text_)                                  \
        do {                                                    \
                char *dump_ = weir_test_dump();                 \
                                                                \
                CU_ASSERT_PTR_NOT_NULL(strstr(dump_, (text_))); \
                if (!strstr(dump_, (text_)))                    \
                        fprintf(stderr, "\n%s", dump_);         \
                free(dump_);                                    \
        } while (0)

/* -- records -- */

/* The life of a task, or of a series.  The counts may be read at any time, the other fields once the counts show that they are
 * set. */
struct weir_test_record {
        _Atomic int calls, frees;
        int status;         /* which the callback saw */
        weir_nsec at;       /* when */
        pthread_t on;       /* where */
        pthread_t freed_on;
        unsigned order;     /* calls of others before it, if `counter` is set */
        _Atomic unsigned *counter;
};

static inline void weir_test_note(struct weir_test_record *record, int status)
{
        record->status = status;
        record->at = weir_now();
        record->on = pthread_self();
        if (record->counter) {
                record->order = atomic_fetch_add(record->counter, 1);
        }
        atomic_fetch_add(&record->calls, 1);
}

static inline void weir_test_done(weir_task *task, void *context)
{
        weir_test_note(context, weir_task_status(task));
}

static inline void weir_test_series_done(weir_series *series, void *context)
{
        weir_test_note(context, weir_series_status(series));
}

static inline void weir_test_freed(void *context)
{
        struct weir_test_record *record = context;

        record->freed_on = pthread_self();
        atomic_fetch_add(&record->frees, 1);
}

/* The task, with its on_free recorded as well. */
static inline weir_task *weir_test_recorded(weir_task *task)
{
        weir_task_on_free(task, weir_test_freed);
        return task;
}

static inline weir_task *weir_test_timer(weir_nsec after, struct weir_test_record *record)
{
        return weir_test_recorded(weir_timer_new(after, weir_test_done, record));
}

static inline weir_task *weir_test_named(const char *name, weir_nsec after, struct weir_test_record *record)
{
        return weir_test_recorded(weir_timer_new_named(name, after, weir_test_done, record));
}

static inline weir_task *weir_test_empty(struct weir_test_record *record)
{
        return weir_test_recorded(weir_empty_new(weir_test_done, record));
}

/* For events that come within microseconds: WEIR_TEST_EVENTUALLY looks once a millisecond. */
static inline void weir_test_wait_freed(const struct weir_test_record *record)
{
        for (unsigned i = 0; i < 1000 && record->frees == 0; i++) {
                sched_yield();
        }
        WEIR_TEST_EVENTUALLY(record->frees > 0);
}

#define WEIR_TEST_CALLED(record, status_)                                                                                        \
        do {                                                                                                                     \
                CU_ASSERT_EQUAL((record)->calls, 1);                                                                             \
                CU_ASSERT_EQUAL((record)->status, (status_));                                                                    \
                CU_ASSERT_EQUAL((record)->frees, 1);                                                                             \
        } while (0)

#define WEIR_TEST_NOT_CALLED(record)                                                                                             \
        do {                                                                                                                     \
                CU_ASSERT_EQUAL((record)->calls, 0);                                                                             \
                CU_ASSERT_EQUAL((record)->frees, 1);                                                                             \
        } while (0)

#define WEIR_TEST_FREED_HERE(record)      CU_ASSERT((record)->frees == 1 && pthread_equal((record)->freed_on, pthread_self()))
#define WEIR_TEST_FREED_ELSEWHERE(record) CU_ASSERT((record)->frees == 1 && !pthread_equal((record)->freed_on, pthread_self()))

/* -- children -- */

/* Runs the function in a child process whose standard error is read into `said`.
 * Result: its status, as of waitpid. */
static inline int weir_test_child(void (*function)(void), char *said, size_t size)
{
        int ends[2], status = 0;
        size_t length = 0;

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        CU_ASSERT_FATAL(child >= 0);
        if (child == 0) {
                const struct rlimit no_core = {0, 0};

                setrlimit(RLIMIT_CORE, &no_core);
                dup2(ends[1], STDERR_FILENO);
                function();
                _exit(0);
        }
        close(ends[1]);
        for (ssize_t got; length + 1 < size && (got = read(ends[0], said + length, size - 1 - length)) > 0;) {
                length += (size_t)got;
        }
        said[length] = '\0';
        close(ends[0]);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        return status;
}

/* Whether a process runs: one that has ended may wait for a parent that does not come. */
static inline bool weir_test_lives(pid_t pid)
{
        char path[64], line[256] = "";

        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *file = fopen(path, "re");
        if (!file) {
                return false;
        }
        const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        fclose(file);
        return name_end && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* Waits until a file has a line, which is a number. */
static inline int weir_test_number_in(int fd)
{
        char text[64];
        ssize_t size = 0;

        WEIR_TEST_EVENTUALLY((size = pread(fd, text, sizeof text - 1, 0)) > 0 && text[size - 1] == '\n');
        text[size] = '\0';
        return atoi(text);
}

/* The function has to abort, with the reason on standard error. */
static inline void weir_test_aborts(void (*function)(void), const char *reason)
{
        char said[1024];
        int status = weir_test_child(function, said, sizeof said);

        CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, reason));
        if (!strstr(said, reason)) {
                fprintf(stderr, "expected \"%s\", got \"%s\"\n", reason, said);
        }
}

/* How often the threads whose names begin so have gone to sleep, all together; and how many they are. */
static inline unsigned long weir_test_sleeps(const char *prefix, unsigned *threads)
{
        DIR *tasks = opendir("/proc/self/task");
        unsigned long sum = 0;

        *threads = 0;
        for (struct dirent *entry; (entry = readdir(tasks));) {
                char path[300], line[200];
                bool is_meant = false;

                snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
                FILE *status = fopen(path, "r");
                while (status && fgets(line, sizeof line, status)) {
                        unsigned long count;

                        if (strncmp(line, "Name:\t", 6) == 0 && strncmp(line + 6, prefix, strlen(prefix)) == 0) {
                                is_meant = true;
                                ++*threads;
                        } else if (is_meant && sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1) {
                                sum += count;
                        }
                }
                if (status) {
                        fclose(status);
                }
        }
        closedir(tasks);
        return sum;
}

#endif
