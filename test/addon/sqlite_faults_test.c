/* test/addon/sqlite_faults_test.c: files that are locked, damaged, read-only or on a full disk; disks that fail. */
#include "test/addon/sqlite.h"

static weir_sqlite *db;
static char problem[300];

static void
keep_problem(weir_task *task, void *context)
{
        const char *words = weir_sqlite_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
}

static int
exec(const char *sql)
{
        return weir_task_run(weir_sqlite_exec_new(db, sql, keep_problem, NULL));
}

/* -- locks -- */

static sqlite3 *
lock_file(void)
{
        sqlite3 *other = NULL;

        CU_ASSERT_EQUAL_FATAL(sqlite3_open(sqlite_path, &other), SQLITE_OK);
        CU_ASSERT_EQUAL(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        return other;
}

static void *
unlock_soon(void *other)
{
        weir_test_sleep(30000000);
        CU_ASSERT_EQUAL(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        return NULL;
}

static void
a_locked_file_is_waited_for(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        pthread_t thread;

        config.busy_limit = WEIR_MSEC(20);
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        sqlite3 *other = lock_file();
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), -EBUSY);
        CU_ASSERT_PTR_NOT_NULL(strstr(problem, "database is locked"));
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0); /* readers do not wait */
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, "INSERT INTO t VALUES (1)", NULL, NULL)), -EBUSY);
        sqlite_end(db);
        sqlite3_close(other);

        config.busy_limit = WEIR_FOREVER;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        other = lock_file();
        pthread_create(&thread, NULL, unlock_soon, other);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), 0);
        pthread_join(thread, NULL);
        sqlite3_close(other);
        sqlite_end(db);
}

static void
all_that_have_waited_as_long_fail_together(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.busy_limit = WEIR_MSEC(100);
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        sqlite3 *other = lock_file();
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < 100; i++)
                weir_parallel_add(all, weir_sqlite_exec_new(db, "INSERT INTO t VALUES (1)", NULL, NULL));
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), -EBUSY);
        weir_nsec one = weir_now() - began;
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(all), -EBUSY);
        CU_ASSERT(weir_now() - began < 50 * one); /* not each after the other */
        sqlite3_close(other);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), 0);
        sqlite_end(db);
}

static void
a_wait_for_a_lock_is_cancelled(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.busy_limit = WEIR_FOREVER;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        sqlite3 *other = lock_file();
        weir_task *insert = weir_sqlite_exec_new(db, "INSERT INTO t VALUES (1)", NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(insert, WEIR_MSEC(20))), -ETIMEDOUT);
        insert = weir_sqlite_exec_alone_new(db, "INSERT INTO t VALUES (1)", NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(insert, WEIR_MSEC(20))), -ETIMEDOUT);
        sqlite3_close(other);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (2)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(a) FROM t"), 2);
        sqlite_end(db);
}

/* -- files -- */

static void
write_file(const char *text, size_t size, long at)
{
        FILE *file = fopen(sqlite_path, at ? "r+" : "w");

        fseek(file, at, SEEK_SET);
        for (size_t i = 0; i < size; i++)
                fputc(text[i % strlen(text)], file);
        fclose(file);
}

static void
a_damaged_file_is_said_to_be_so(void)
{
        db = sqlite_begin(NULL);
        write_file("this is no database ", 5000, 0);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), -EUCLEAN);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: CREATE TABLE t(a): file is not a database");
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT 1 FROM sqlite_schema"), -EUCLEAN);
        unlink(sqlite_path);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0); /* the next task tries again */
        CU_ASSERT_EQUAL(
                exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) INSERT INTO t SELECT i FROM n"),
                0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(db, NULL, NULL)), 0);
        weir_sqlite_unref(db);
        write_file("garbage", 20000, 20000);
        db = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(a) FROM t"), -EUCLEAN);
        CU_ASSERT_EQUAL(exec("DELETE FROM t"), -EUCLEAN);
        sqlite_end(db);
}

static void
put_another_file_there(void)
{
        char other[120];
        sqlite3 *handle;

        snprintf(other, sizeof other, "%s-other", sqlite_path);
        CU_ASSERT(sqlite3_open(other, &handle) == SQLITE_OK);
        CU_ASSERT(sqlite3_exec(handle, "CREATE TABLE t(a); INSERT INTO t VALUES (2)", NULL, NULL, NULL) == SQLITE_OK);
        sqlite3_close(handle);
        CU_ASSERT(rename(other, sqlite_path) == 0);
}

/* What reads would see another database than what writes. */
static void
a_file_that_was_replaced_gets_no_more_connections(void)
{
        char moved[200];

        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), 0);
        put_another_file_there();
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_query_new(db, "SELECT a FROM t", keep_problem, NULL)), -ESTALE);
        snprintf(moved, sizeof moved, "test.db: SELECT a FROM t: %s was moved, deleted or replaced since it was opened",
                 sqlite_path);
        CU_ASSERT_STRING_EQUAL(problem, moved);
        sqlite_end(db);
}

static void
a_file_that_was_deleted_is_not_made_again_by_a_read(void)
{
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(unlink(sqlite_path), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t"), -ESTALE);
        CU_ASSERT(access(sqlite_path, F_OK) == -1);
        sqlite_end(db);
}

static void
what_cannot_be_opened_says_why(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.read_only = true;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT 1"), -ENOENT);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), -EROFS);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, NULL, NULL, NULL)), -EINVAL);
        weir_sqlite *nowhere = weir_sqlite_new("/nowhere/test.db", NULL);
        CU_ASSERT_EQUAL(sqlite_number(nowhere, "SELECT 1"), -ENOENT);
        weir_sqlite_unref(nowhere);
        weir_sqlite *folder = weir_sqlite_new(sqlite_directory, NULL);
        CU_ASSERT_EQUAL(sqlite_number(folder, "SELECT 1"), -EISDIR);
        weir_sqlite_unref(folder);

        weir_sqlite *writer = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_exec(writer, "CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(sqlite_exec(writer, "INSERT INTO t VALUES (3)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t"), 3);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(writer, NULL, NULL)), 0);
        weir_sqlite_unref(writer);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t"), 3);
        sqlite_end(db);
}

static void
a_file_that_may_not_grow_is_a_failed_disk(void)
{
        struct rlimit before, small;

        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before);
        small = before;
        small.rlim_cur = 300000;
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), 0);
        setrlimit(RLIMIT_FSIZE, &small);
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < 50; i++)
                weir_parallel_add(all, weir_sqlite_exec_new(db, "INSERT INTO t VALUES (zeroblob(20000))", NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(all), -EIO); /* SQLite keeps the reason to itself */
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (zeroblob(1000000))"), -EIO);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t LIMIT 1"), 1);
        setrlimit(RLIMIT_FSIZE, &before);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (zeroblob(1000000))"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t WHERE a = zeroblob(1000000)"), 1);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
        sqlite_end(db);
}

/* -- a disk that fails: a VFS in front of SQLite's -- */

static struct {
        sqlite3_vfs vfs;
        sqlite3_vfs *real;
        sqlite3_io_methods methods[4]; /* SQLite has others for journals than for databases */
        const sqlite3_io_methods *real_methods[4];
        _Atomic int syncs, writes; /* until one fails; below 0: none does */
        bool has_no_memory;        /* shared by processes */
        int code;                  /* with which a write fails */
} disk;

static const sqlite3_io_methods *
real_methods(const sqlite3_file *file)
{
        return disk.real_methods[file->pMethods - disk.methods];
}

static int
failing_sync(sqlite3_file *file, int flags)
{
        return disk.syncs-- == 0 ? SQLITE_IOERR_FSYNC : real_methods(file)->xSync(file, flags);
}

static int
failing_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
        return disk.writes-- == 0 ? disk.code : real_methods(file)->xWrite(file, data, size, at);
}

static int
open_on_disk(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
        int code = disk.real->xOpen(disk.real, name, file, flags, out);

        (void)vfs;
        for (unsigned i = 0; i < 4 && !code && file->pMethods; i++)
                if (!disk.real_methods[i] || disk.real_methods[i] == file->pMethods) {
                        disk.real_methods[i] = file->pMethods;
                        disk.methods[i] = *file->pMethods;
                        disk.methods[i].xSync = failing_sync;
                        disk.methods[i].xWrite = failing_write;
                        disk.methods[i].iVersion = disk.has_no_memory ? 1 : disk.methods[i].iVersion;
                        file->pMethods = &disk.methods[i];
                        break;
                }
        return code;
}

static void
plug_in_disk(void)
{
        disk.real = sqlite3_vfs_find(NULL);
        disk.vfs = *disk.real;
        disk.vfs.zName = "weir-failing";
        disk.vfs.xOpen = open_on_disk;
        disk.syncs = disk.writes = -1;
        sqlite3_vfs_register(&disk.vfs, 1);
}

/* Whatever fails, the task says so, what reported success before is there, and the next write succeeds. */
static void
fail_at(int syncs, int writes, int code, int status)
{
        static const char *const insert = "INSERT INTO t VALUES (zeroblob(3000))";
        int failures = 0, successes = 0;

        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        disk.code = code;
        disk.syncs = syncs;
        disk.writes = writes;
        for (int i = 0; i < 8; i++) {
                int outcome = exec(insert);

                CU_ASSERT(outcome == 0 || outcome == status);
                failures += outcome != 0;
                successes += outcome == 0;
        }
        disk.syncs = disk.writes = -1;
        CU_ASSERT_EQUAL(failures, 1);
        CU_ASSERT_EQUAL(exec(insert), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), successes + 1);
        sqlite_end(db);
}

static void
a_disk_that_fails_is_an_error_of_the_writes_of_that_transaction(void)
{
        plug_in_disk();
        for (int at = 0; at < 7; at++) {
                fail_at(at, -1, 0, -EIO);
                fail_at(-1, at, SQLITE_IOERR_WRITE, -EIO);
                fail_at(-1, at, SQLITE_FULL, -ENOSPC);
        }
        sqlite3_vfs_unregister(&disk.vfs);
}

static void
without_shared_memory_there_is_no_wal(void)
{
        disk.has_no_memory = true;
        plug_in_disk();
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), -ENOTSUP);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: CREATE TABLE t(a): the file system has no shared memory for a WAL");
        sqlite_end(db);
        sqlite3_vfs_unregister(&disk.vfs);
        disk.has_no_memory = false;
}

static void
a_full_disk_is_an_error_of_what_finds_no_room(void)
{
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(exec("PRAGMA max_page_count = 50"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (zeroblob(100000))"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (zeroblob(200000))"), -ENOSPC);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: INSERT INTO t VALUES (zeroblob(200000)): database or disk is full");
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 2);
        sqlite_end(db);
}

/* -- two processes -- */

static int
write_plainly(const char *path)
{
        sqlite3 *other;
        int failures = sqlite3_open(path, &other) != SQLITE_OK;

        sqlite3_busy_timeout(other, 10000);
        for (int i = 0; i < 100; i++)
                failures += sqlite3_exec(other, "INSERT INTO t VALUES ('theirs')", NULL, NULL, NULL) != SQLITE_OK;
        sqlite3_close(other);
        return failures;
}

static void
two_processes_write_the_same_file(void)
{
        int status = -1;

        sqlite_make_directory();
        sqlite3 *first;
        sqlite3_open(sqlite_path, &first);
        sqlite3_exec(first, "PRAGMA journal_mode=WAL; CREATE TABLE t(a)", NULL, NULL, NULL);
        sqlite3_close(first);
        pid_t child = fork(); /* before the runtime and the connections */
        if (child == 0)
                _exit(write_plainly(sqlite_path));
        weir_test_begin_real(2);
        db = weir_sqlite_new(sqlite_path, NULL);
        for (int i = 0; i < 10; i++) {
                weir_task *all = weir_parallel_new(NULL, NULL);
                for (int j = 0; j < 20; j++)
                        weir_parallel_add(all, weir_sqlite_exec_new(db, "INSERT INTO t VALUES ('ours')", NULL, NULL));
                CU_ASSERT_EQUAL(weir_task_run(all), 0);
        }
        waitpid(child, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t WHERE a = 'ours'"), 200);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t WHERE a = 'theirs'"), 100);
        sqlite_end(db);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(two_processes_write_the_same_file),
                WEIR_TEST(a_locked_file_is_waited_for),
                WEIR_TEST(all_that_have_waited_as_long_fail_together),
                WEIR_TEST(a_wait_for_a_lock_is_cancelled),
                WEIR_TEST(a_damaged_file_is_said_to_be_so),
                WEIR_TEST(what_cannot_be_opened_says_why),
                WEIR_TEST(a_file_that_was_replaced_gets_no_more_connections),
                WEIR_TEST(a_file_that_was_deleted_is_not_made_again_by_a_read),
                WEIR_TEST(a_file_that_may_not_grow_is_a_failed_disk),
                WEIR_TEST(without_shared_memory_there_is_no_wal),
                WEIR_TEST(a_full_disk_is_an_error_of_what_finds_no_room),
                WEIR_TEST(a_disk_that_fails_is_an_error_of_the_writes_of_that_transaction),
        };

        return weir_test_main("sqlite faults", tests, sizeof tests / sizeof *tests);
}
