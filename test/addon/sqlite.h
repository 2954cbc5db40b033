/* test/addon/sqlite.h: a database for one test, in a directory that goes with it. */
#ifndef WEIR_TEST_ADDON_SQLITE_H
#define WEIR_TEST_ADDON_SQLITE_H

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>

#include <weir/sqlite.h>

#include "test/fixture.h"

static char sqlite_directory[64], sqlite_path[96];

static inline void
sqlite_make_directory(void)
{
        snprintf(sqlite_directory, sizeof sqlite_directory, "/tmp/weir-sqlite-XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(sqlite_directory));
        snprintf(sqlite_path, sizeof sqlite_path, "%s/test.db", sqlite_directory);
}

static inline void
sqlite_remove_directory(void)
{
        DIR *entries = opendir(sqlite_directory);
        char path[400];

        for (struct dirent *entry; entries && (entry = readdir(entries));) {
                snprintf(path, sizeof path, "%s/%s", sqlite_directory, entry->d_name);
                if (entry->d_name[0] != '.') {
                        unlink(path);
                }
        }
        closedir(entries);
        CU_ASSERT_EQUAL(rmdir(sqlite_directory), 0);
}

/* The runtime, a directory, and the database in it. */
static inline weir_sqlite *
sqlite_begin(const struct weir_sqlite_config *config)
{
        weir_test_begin_real(2);
        sqlite_make_directory();
        weir_sqlite *db = weir_sqlite_new(sqlite_path, config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(db);
        return db;
}

static inline void
sqlite_end(weir_sqlite *db)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(db, NULL, NULL)), 0);
        weir_sqlite_unref(db);
        weir_test_end();
        sqlite_remove_directory();
}

static inline int
sqlite_exec(weir_sqlite *db, const char *sql)
{
        return weir_task_run(weir_sqlite_exec_new(db, sql, NULL, NULL));
}

static inline void
sqlite_keep_number(weir_task *query, void *context)
{
        *(int64_t *)context = weir_task_status(query) ? weir_task_status(query) : weir_sqlite_int64(query, 0, 0);
}

/* The only value of a query, or its failure. */
static inline int64_t
sqlite_number(weir_sqlite *db, const char *sql)
{
        int64_t number = 0;

        weir_task_run(weir_sqlite_query_new(db, sql, sqlite_keep_number, &number));
        return number;
}

#endif
