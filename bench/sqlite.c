/* bench/sqlite.c: writes and reads of SQLite as tasks, beside the same statements in a bare loop.
 *
 *     sqlite [quick|full] [beginning of a word of a case's name]
 *
 * The file is in the directory that TMPDIR names, or in /var/tmp: one whose disk has fsync.
 *
 * Threads: the main thread starts tasks and waits; callbacks start the next ones. */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/sqlite.h>
#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS        5
#define PATIENCE      120 /* seconds for a case */
#define ROWS          10000
#define PER_SECOND    "a second"
#define CPU           "CPU us each"
#define PER_SECOND_OF "a second of CPU"
#define SINGLE        "writes, a commit each"
#define TOGETHER      "writes, 1000 together"
#define SHARE         "ratio to a commit each, time"
#define TIMES         20.0 /* as many writes together as with a commit each: the goal */

static char path[200];

static void
name_file(void)
{
        const char *directory = getenv("TMPDIR");

        snprintf(path, sizeof path, "%s/weir-bench-%d.db", directory ? directory : "/var/tmp", (int)getpid());
}

static void
remove_files(void)
{
        static const char *const ends[] = {"", "-wal", "-shm"};
        char name[220];

        for (int i = 0; i < 3; i++) {
                snprintf(name, sizeof name, "%s%s", path, ends[i]);
                unlink(name);
        }
}

struct job {
        const char *name, *peer;
        int count;    /* of statements */
        int together; /* tasks under way, or statements in a transaction */
        bool reads;
};

static void
fill_values(double values[BENCH_VALUES], int count, int64_t wall, int64_t cpu)
{
        values[0] = count * 1e9 / (double)wall;
        values[1] = (double)cpu / count / 1e3;
        values[2] = count * 1e9 / (double)cpu;
}

/* -- the bare loop -- */

static sqlite3 *
open_plainly(void)
{
        sqlite3 *handle;

        if (sqlite3_open(path, &handle) || sqlite3_exec(handle,
                                                        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                                                        "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT)",
                                                        NULL, NULL, NULL))
                exit(1);
        return handle;
}

static void
fill_table(sqlite3 *handle)
{
        char sql[200];

        snprintf(sql, sizeof sql,
                 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT %d) "
                 "INSERT INTO t SELECT i, 'some text' FROM n",
                 ROWS);
        sqlite3_exec(handle, sql, NULL, NULL, NULL);
}

static bool
measure_plain(const void *argument, double values[BENCH_VALUES])
{
        const struct job *job = argument;
        sqlite3_stmt *statement;
        uint64_t state = 1;

        name_file();
        sqlite3 *handle = open_plainly();
        if (job->reads)
                fill_table(handle);
        sqlite3_prepare_v2(handle, job->reads ? "SELECT b FROM t WHERE a = ?" : "INSERT INTO t(b) VALUES (?)", -1, &statement,
                           NULL);
        int64_t wall = bench_now(), cpu = bench_cpu();
        for (int i = 0; i < job->count; i++) {
                if (!job->reads && job->together > 1 && i % job->together == 0)
                        sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
                if (job->reads)
                        sqlite3_bind_int64(statement, 1, (int64_t)bench_random_below(&state, ROWS));
                else
                        sqlite3_bind_text(statement, 1, "some text", -1, SQLITE_STATIC);
                int code = sqlite3_step(statement);
                sqlite3_reset(statement);
                if (code != (job->reads ? SQLITE_ROW : SQLITE_DONE))
                        return false;
                if (!job->reads && job->together > 1 && (i % job->together == job->together - 1 || i == job->count - 1))
                        sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
        }
        fill_values(values, job->count, bench_now() - wall, bench_cpu() - cpu);
        sqlite3_finalize(statement);
        sqlite3_close(handle);
        remove_files();
        return true;
}

/* -- tasks -- */

static weir_sqlite *db;
static const struct job *job;
static _Atomic int started, failures;
static _Thread_local uint64_t state;

static void start_one(void);

static void
on_end(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) || (job->reads && weir_sqlite_rows(task) != 1))
                failures++;
        start_one();
        bench_count();
}

static void
start_one(void)
{
        weir_task *task;

        if (started++ >= job->count)
                return;
        if (job->reads) {
                task = weir_sqlite_query_new(db, "SELECT b FROM t WHERE a = ?", on_end, NULL);
                weir_sqlite_bind_int64(task, 1, (int64_t)bench_random_below(&state, ROWS));
        } else {
                task = weir_sqlite_exec_new(db, "INSERT INTO t(b) VALUES (?)", on_end, NULL);
                weir_sqlite_bind_text(task, 1, "some text", SIZE_MAX);
        }
        if (weir_task_start(task))
                failures++;
}

static bool
measure_tasks(const void *argument, double values[BENCH_VALUES])
{
        name_file();
        sqlite3 *handle = open_plainly();
        job = argument;
        if (job->reads)
                fill_table(handle);
        sqlite3_close(handle);
        db = weir_sqlite_new(path, NULL);
        if (weir_task_run(weir_sqlite_exec_new(db, "DELETE FROM t WHERE a < 0", NULL, NULL)))
                return false;
        int64_t wall = bench_now(), cpu = bench_cpu();
        for (int i = 0; i < job->together; i++)
                start_one();
        bool is_over = bench_wait_counted((size_t)job->count, PATIENCE);
        fill_values(values, job->count, bench_now() - wall, bench_cpu() - cpu);
        weir_task_run(weir_sqlite_close_new(db, NULL, NULL));
        weir_sqlite_unref(db);
        weir_shutdown();
        remove_files();
        return is_over && failures == 0;
}

/* Of writes of weir, in the same round. */
static void
compare_commits(const struct job *one, double per_second)
{
        static double single;

        if (one->together == 1)
                single = per_second;
        else if (single > 0)
                bench_sample("weir", TOGETHER, SHARE, single / per_second);
}

static void
measure(const struct bench_size *size, const struct job *one)
{
        bool is_plain = one->peer[0] == 's';
        struct job smaller = *one;
        double values[BENCH_VALUES];

        if (size->quick)
                smaller.count /= 10;
        if (!bench_wanted(size, one->name) ||
            !bench_isolated(one->name, is_plain ? measure_plain : measure_tasks, &smaller, values, PATIENCE))
                return;
        bench_sample(one->peer, one->name, PER_SECOND, values[0]);
        bench_sample(one->peer, one->name, CPU, values[1]);
        if (one->reads)
                bench_sample(one->peer, one->name, PER_SECOND_OF, values[2]);
        else if (!is_plain)
                compare_commits(one, values[0]);
}

int
main(int argc, char *argv[])
{
        static const struct job jobs[] = {
                {SINGLE, "sqlite3", 1000, 1, false},
                {SINGLE, "weir", 1000, 1, false},
                {TOGETHER, "sqlite3", 100000, 1000, false},
                {TOGETHER, "weir", 100000, 1000, false},
                {"reads, one at a time", "sqlite3", 100000, 1, true},
                {"reads, one at a time", "weir", 20000, 1, true},
                {"reads, 64 at a time", "weir", 200000, 64, true},
        };
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
                        measure(&size, &jobs[i]);
        bench_goal("weir", TOGETHER, SHARE, 1 / TIMES);
        bench_sample("machine", "sqlite", "CPU used by others, percent of one", bench_others());
        bench_print("sqlite");
        return bench_interrupted();
}
