/* Durable timers in a file of SQLite. */
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/addon/durable_url.h"

#define ENGINE_URL(number) snprintf(url, sizeof url, "%.*s", (number) < 0 ? 0 : 150, sqlite_url())
#define NOWHERE_URL        "sqlite:/nonexistent/timers.db"
#define MORE_TESTS                                                                                                              \
        WEIR_TEST(a_file_that_cannot_be_opened_fails_the_operation), WEIR_TEST(timers_are_there_when_the_file_is_opened_again), \
                WEIR_TEST(a_file_without_a_bell_is_looked_at), WEIR_TEST(a_bell_that_was_removed_is_made_again),                \
                WEIR_TEST(a_file_that_was_deleted_takes_nothing), WEIR_TEST(each_of_many_operations_at_once_has_its_end),

static void a_file_that_cannot_be_opened_fails_the_operation(void);
static void timers_are_there_when_the_file_is_opened_again(void);
static void a_file_without_a_bell_is_looked_at(void);
static void a_bell_that_was_removed_is_made_again(void);
static void a_file_that_was_deleted_takes_nothing(void);
static void each_of_many_operations_at_once_has_its_end(void);

#include "test/addon/durable_cases.h"

static void
note_problem(weir_task *task, void *context)
{
        const char *words = weir_durable_problem(task);

        (void)context;
        seen.status = weir_task_status(task);
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(seen.problem, sizeof seen.problem, "%s", words ? words : "");
}

static void
a_file_that_cannot_be_opened_fails_the_operation(void)
{
        char directory[200];

        begin();
        snprintf(directory, sizeof directory, "%s.d", durable_path());
        snprintf(url, sizeof url, "sqlite:%s/timers.db", directory);
        weir_durable *store = open_store();
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "a", 0, "topic", NULL, 0, note_problem, NULL)) ==
                  -ECONNREFUSED);
        CU_ASSERT(strlen(seen.problem) > 0);
        listen(store);
        weir_clock_advance(WEIR_SEC(5));
        CU_ASSERT(mkdir(directory, 0700) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "a", 0, "topic", NULL, 0, note_problem, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.problem, "");
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(got.count == 1);
        end(store);
}

static void
timers_are_there_when_the_file_is_opened_again(void)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t generation = seen.generation;
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);

        struct weir_config config = WEIR_CONFIG_DEFAULT;
        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        store = open_store();
        listen(store);
        CU_ASSERT(get(store, "a") == 0 && seen.info.generation == generation);
        CU_ASSERT(set(store, "b", HOUR, "x") == 0 && seen.generation > generation);
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 2);
        end(store);
}

/* The bell cannot be made, because a directory has its name.  The other node is late, by a look.  When the bell can be made, that
 * look makes it. */
static void
a_file_without_a_bell_is_looked_at(void)
{
        char bell[250];

        begin();
        snprintf(bell, sizeof bell, "%s-bell", url + strlen("sqlite:"));
        CU_ASSERT(mkdir(bell, 0700) == 0);
        weir_durable *store = open_store();
        weir_durable *other = open_store();
        weir_nsec began = weir_wall_now();
        listen(other);
        weir_clock_advance(WEIR_SEC(3));
        CU_ASSERT(set(store, "a", WEIR_SEC(1), "x") == 0);
        weir_clock_advance(WEIR_SEC(6));
        CU_ASSERT(got.count == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && got.at[0] == began + WEIR_SEC(10));
        CU_ASSERT(rmdir(bell) == 0);
        weir_clock_advance(WEIR_SEC(12));
        CU_ASSERT(set(store, "b", WEIR_SEC(1), "x") == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 2);
        weir_durable_close(other);
        end(store);
}

/* By somebody who takes it for a left-over.  Nodes that have it open and those that come later ring each other. */
static void
a_bell_that_was_removed_is_made_again(void)
{
        char bell[250];

        begin();
        snprintf(bell, sizeof bell, "%s-bell", url + strlen("sqlite:"));
        weir_durable *store = open_store();
        weir_durable *other = open_store();
        listen(other);
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        for (int i = 0; i < 3; i++) {
                weir_durable *third = open_store();

                CU_ASSERT(unlink(bell) == 0);
                CU_ASSERT(set(i % 2 ? store : third, "b", WEIR_SEC(1), "x") == 0);
                weir_clock_advance(WEIR_SEC(1));
                CU_ASSERT(got.count == 2 * i + 2);
                CU_ASSERT(set(i % 2 ? third : store, "c", WEIR_SEC(1), "x") == 0);
                weir_clock_advance(WEIR_SEC(1));
                CU_ASSERT(got.count == 2 * i + 3);
                weir_durable_close(third);
        }
        weir_durable_close(other);
        end(store);
}

/* It would be told that it is there, and nobody would ever find it. */
static void
a_file_that_was_deleted_takes_nothing(void)
{
        char command[800];
        const char *file = url + strlen("sqlite:");

        begin();
        weir_durable *store = open_store();
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        snprintf(command, sizeof command, "rm %s %s-wal %s-shm", file, file, file);
        CU_ASSERT(system(command) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "b", HOUR, "topic", NULL, 0, note_problem, NULL)) == -ESTALE);
        CU_ASSERT_PTR_NOT_NULL(strstr(seen.problem, file));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen.problem, "was moved, deleted or replaced since it was opened"));
        weir_durable *other = open_store();
        CU_ASSERT(set(other, "b", HOUR, "x") == 0 && get(other, "a") == -ENOENT);
        CU_ASSERT(set(store, "c", HOUR, "x") == -ESTALE);
        weir_durable_close(other);
        end(store);
}

#define MANY 1500 /* more than a transaction carries out, and far more than end in one callback */

static struct {
        atomic_int ends, right;
        const char *problem;
} many;

static void
note_one_of_many(weir_task *task, void *status)
{
        const char *problem = weir_durable_problem(task);
        bool is_right = problem ? many.problem && strstr(problem, many.problem) : !many.problem;

        atomic_fetch_add(&many.right, weir_task_status(task) == *(int *)status && is_right);
        atomic_fetch_add(&many.ends, 1);
}

/* They wait while the first one is carried out, and fail or succeed together. */
static void
set_many(weir_durable *store, int status, const char *problem)
{
        char name[20];

        atomic_store(&many.ends, 0);
        atomic_store(&many.right, 0);
        many.problem = problem;
        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof name, "%d", i);
                CU_ASSERT(weir_task_start(weir_durable_set_after_new(store, name, HOUR, "topic", NULL, 0, note_one_of_many,
                                                                     &status)) == 0);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&many.ends) == MANY);
        CU_ASSERT(atomic_load(&many.right) == MANY);
}

static void
each_of_many_operations_at_once_has_its_end(void)
{
        char directory[200];

        begin();
        snprintf(directory, sizeof directory, "%s.d", durable_path());
        snprintf(url, sizeof url, "sqlite:%s/timers.db", directory);
        weir_durable *store = open_store();
        set_many(store, -ECONNREFUSED, "timers.db");
        CU_ASSERT(mkdir(directory, 0700) == 0);
        set_many(store, 0, NULL);
        end(store);
}
