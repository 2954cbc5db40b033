/* test/addon/sqlite_memory_test.c: each allocation on a worker is refused once, SQLite's own too: tasks report it, what reports
 * success is there, and nothing is lost. */
#include "test/addon/sqlite.h"
#include "test/memory_faults.h"

#define ALLOCATIONS_MOST 5000

/* -- SQLite's memory -- */

union header {
        int size;
        max_align_t alignment;
};

static void *
give(int size)
{
        union header *block = __wrap_malloc(sizeof *block + (size_t)size);

        if (!block)
                return NULL;
        block->size = size;
        return block + 1;
}

static void
take_back(void *block)
{
        if (block)
                __wrap_free((union header *)block - 1);
}

static void *
resize(void *block, int size)
{
        union header *moved = __wrap_realloc((union header *)block - 1, sizeof *moved + (size_t)size);

        if (!moved)
                return NULL;
        moved->size = size;
        return moved + 1;
}

static int
size_of(void *block)
{
        return block ? ((union header *)block - 1)->size : 0;
}

static int
round_up(int size)
{
        return (size + 7) & ~7;
}

static int
start(void *unused)
{
        (void)unused;
        return SQLITE_OK;
}

static void
stop(void *unused)
{
        (void)unused;
}

/* -- one run -- */

static weir_sqlite *db;

enum { TASKS = 6 };

static _Atomic int statuses[TASKS];
static _Atomic int wrong;

/* Rows of the writes that have reported success. */
static int64_t
written(void)
{
        return (statuses[0] == 0 ? 2 : 0) + (statuses[1] == 0) + (statuses[2] == 0);
}

static void
keep_status(weir_task *task, void *context)
{
        int which = (int)(intptr_t)context;

        statuses[which] = weir_task_status(task);
        wrong += statuses[which] != 0 && *weir_sqlite_problem(task) == '\0';
        if (which == 3 && statuses[which] == 0)
                wrong += weir_sqlite_rows(task) != (size_t)(written() < 3 ? written() : 3);
}

static int
insert_four(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "INSERT INTO t VALUES (4)");
}

static int
look(weir_sqlite_connection *connection, void *context)
{
        sqlite3_stmt *count = weir_sqlite_prepare(connection, "SELECT count(*) FROM t");

        (void)context;
        return count ? sqlite3_step(count) : SQLITE_NOMEM;
}

static void
push_all(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);
        weir_task *insert = weir_sqlite_exec_new(db, "INSERT INTO t VALUES (?), (?)", keep_status, (void *)0);

        (void)context;
        weir_sqlite_bind_int64(insert, 1, 1);
        weir_sqlite_bind_int64(insert, 2, 2);
        weir_series_push(series, insert);
        weir_series_push(series, weir_sqlite_exec_alone_new(db, "INSERT INTO t VALUES (3)", keep_status, (void *)1));
        weir_series_push(series, weir_sqlite_write_new(db, insert_four, keep_status, (void *)2));
        weir_series_push(series,
                         weir_sqlite_query_new(db, "SELECT a, 'a text that is long enough to need memory' || a FROM t LIMIT 3",
                                               keep_status, (void *)3));
        weir_series_push(series, weir_sqlite_read_new(db, look, keep_status, (void *)4));
        weir_series_push(series, weir_sqlite_close_new(db, keep_status, (void *)5));
}

/* Whether an allocation was refused. */
static bool
run(int64_t nth, bool all_after_it)
{
        for (int i = 0; i < TASKS; i++)
                statuses[i] = -ENOMEM; /* of one that was not even made */
        sqlite_make_directory();
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, (weir_go_fn *)(void *)abs, NULL, NULL)), 0); /* its thread is there */
        weir_sqlite *setup = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_exec(setup, "CREATE TABLE t(a INTEGER PRIMARY KEY)"), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(setup, NULL, NULL)), 0);
        weir_sqlite_unref(setup);
        db = weir_sqlite_new(sqlite_path, NULL);
        refuse_from(nth, all_after_it);
        weir_task_run(weir_empty_new(push_all, NULL));
        atomic_store(&armed, false);
        bool was_refused = atomic_load(&refused);
        for (int i = 0; i < TASKS; i++)
                wrong += statuses[i] != 0 && statuses[i] != -ENOMEM;
        weir_sqlite_unref(db);
        weir_test_end();
        sqlite3 *other;
        sqlite3_stmt *count;
        CU_ASSERT_EQUAL(sqlite3_open(sqlite_path, &other), SQLITE_OK);
        CU_ASSERT_EQUAL(sqlite3_prepare_v2(other, "SELECT count(*) FROM t", -1, &count, NULL), SQLITE_OK);
        CU_ASSERT_EQUAL(sqlite3_step(count), SQLITE_ROW);
        CU_ASSERT_EQUAL(sqlite3_column_int64(count, 0), written());
        sqlite3_finalize(count);
        sqlite3_close(other);
        sqlite_remove_directory();
        return was_refused;
}

static void
each_allocation_is_refused_once(void)
{
        for (int all_after_it = 0; all_after_it < 2; all_after_it++) {
                int64_t nth = 0;

                run(ALLOCATIONS_MOST, false); /* what stays for good is there */
                int64_t before = atomic_load(&live);
                while (nth < ALLOCATIONS_MOST && run(nth, all_after_it))
                        nth += 1 + nth / 50;
                CU_ASSERT(nth > 50 && nth < ALLOCATIONS_MOST);
                CU_ASSERT_EQUAL(atomic_load(&live), before);
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

/* -- a database in memory: what reads and what writes share a connection -- */

static bool
read_in_memory(int64_t nth)
{
        weir_test_begin_real(1);
        db = weir_sqlite_new(":memory:", NULL);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a)"), 0);
        refuse_from(nth, false);
        int64_t number = sqlite_number(db, "SELECT count(*) FROM t");
        atomic_store(&armed, false);
        CU_ASSERT(number == 0 || number == -ENOMEM);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (1)"), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, "INSERT INTO t VALUES (2)", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 2);
        weir_sqlite_unref(db);
        weir_test_end();
        return atomic_load(&refused);
}

static void
a_database_in_memory_is_written_behind_a_refused_read(void)
{
        int64_t nth = 0;

        while (nth < ALLOCATIONS_MOST && read_in_memory(nth))
                nth++;
        CU_ASSERT(nth > 10 && nth < ALLOCATIONS_MOST);
}

int
main(void)
{
        static const sqlite3_mem_methods methods = {give, take_back, resize, size_of, round_up, start, stop, NULL};
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_is_refused_once),
                WEIR_TEST(a_database_in_memory_is_written_behind_a_refused_read),
        };

        sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
        return weir_test_main("sqlite memory", tests, sizeof tests / sizeof *tests);
}
