/* database/sqlite/connection.c: a connection: how it is opened, waits for locks and is interrupted, and what it has prepared.
 *
 * Threads: the function on the executor that has the connection. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

#define STEPS_BETWEEN_LOOKS 1000          /* of SQLite's machine, between two looks at whether the request goes on */
#define LONG                WEIR_MSEC(10) /* then another thread of the executor takes over other functions */
#define BUSY_PAUSE          WEIR_MSEC(1)
#define BUSY_PAUSE_MOST     WEIR_MSEC(20)

#define OWN_NAMES "weir__" /* the beginning of names of savepoints */

static const char *const own_sql[WEIR__SQLITE_OWN] = {
        [WEIR__SQLITE_BEGIN] = "BEGIN",
        [WEIR__SQLITE_BEGIN_WRITE] = "BEGIN IMMEDIATE",
        [WEIR__SQLITE_COMMIT] = "COMMIT",
        [WEIR__SQLITE_ROLLBACK] = "ROLLBACK",
        [WEIR__SQLITE_SAVEPOINT] = "SAVEPOINT weir__write",
        [WEIR__SQLITE_RELEASE] = "RELEASE weir__write",
        [WEIR__SQLITE_UNDO] = "ROLLBACK TO weir__write",
};

weir_nsec
weir__sqlite_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return WEIR_SEC(now.tv_sec) + now.tv_nsec;
}

static void
pause_for(weir_nsec duration)
{
        struct timespec pause = {.tv_nsec = duration};

        weir_blocking_begin();
        nanosleep(&pause, NULL);
        weir_blocking_end();
}

/* Another connection has a lock.  Whether to try again. */
static int
on_busy(void *context, int tries)
{
        weir_sqlite_connection *connection = context;
        weir_nsec now = weir__sqlite_now(), limit = connection->db->config.busy_limit;
        weir_nsec pause = BUSY_PAUSE * (tries < 20 ? tries + 1 : 20);

        if (tries == 0 || connection->busy_since == 0)
                connection->busy_since = now;
        if (now - connection->busy_since >= limit || (connection->request && weir__sqlite_cause(connection->request)))
                return 0;
        pause_for(pause < BUSY_PAUSE_MOST ? pause : BUSY_PAUSE_MOST);
        return 1;
}

/* Whether to interrupt. */
static int
on_progress(void *context)
{
        weir_sqlite_connection *connection = context;

        if (!connection->request || connection->is_own)
                return 0;
        if (connection->began == 0)
                connection->began = weir__sqlite_now();
        if (!connection->is_long && weir__sqlite_now() - connection->began >= LONG) {
                connection->is_long = true;
                weir_blocking_begin();
        }
        return weir__sqlite_cause(connection->request) != 0;
}

/* Whether the library relies on another value.  PRAGMA busy_timeout would replace on_busy. */
static bool
is_ours(const char *pragma, const char *value, const char *schema)
{
        if (sqlite3_stricmp(pragma, "busy_timeout") == 0 || sqlite3_stricmp(pragma, "query_only") == 0)
                return true;
        if (schema && sqlite3_stricmp(schema, "main") != 0)
                return false;
        if (sqlite3_stricmp(pragma, "journal_mode") == 0)
                return sqlite3_stricmp(value, "WAL") != 0;
        return sqlite3_stricmp(pragma, "locking_mode") == 0 && sqlite3_stricmp(value, "NORMAL") != 0;
}

/* Why the statement is refused, or NULL.  A function may have savepoints, but not those of the library: with them a write that
 * fails would not be undone alone. */
static const char *
refusal_of(const weir_sqlite_connection *connection, int action, const char *first, const char *second, const char *third)
{
        bool is_function = connection->request && connection->request->function;

        if (action == SQLITE_PRAGMA)
                return second && is_ours(first, second, third) ? "it would set a PRAGMA that is the library's" : NULL;
        if ((action != SQLITE_TRANSACTION && action != SQLITE_SAVEPOINT) || connection->is_alone)
                return NULL;
        if (action == SQLITE_SAVEPOINT && is_function && sqlite3_strnicmp(second, OWN_NAMES, strlen(OWN_NAMES)) != 0)
                return NULL;
        return "it would begin or end a transaction, which the library does";
}

static int
on_authorize(void *context, int action, const char *first, const char *second, const char *third, const char *fourth)
{
        weir_sqlite_connection *connection = context;
        const char *refusal = connection->is_own ? NULL : refusal_of(connection, action, first, second, third);

        (void)fourth;
        if (!refusal)
                return SQLITE_OK;
        connection->refusal = refusal;
        return SQLITE_DENY;
}

/* Whether to refuse a commit.  A function that goes on behind a rollback is in no transaction any more: what it wrote then would
 * be committed alone, although it fails. */
static int
on_commit(void *context)
{
        const weir_sqlite_connection *connection = context;

        return !connection->is_own && !connection->is_alone;
}

/* SQLite has rolled the transaction back: not to a savepoint, but all of it. */
static void
on_rollback(void *context)
{
        weir_sqlite_connection *connection = context;

        connection->is_undone |= !connection->is_own;
}

/* -- opening -- */

static int
run_sql(weir_sqlite_connection *connection, const char *sql)
{
        int code = SQLITE_BUSY;

        /* The handler is not asked while another process changes the journal. */
        connection->busy_since = 0;
        for (int tries = 0; (code & 0xff) == SQLITE_BUSY; tries++) {
                code = sqlite3_exec(connection->handle, sql, NULL, NULL, NULL);
                if ((code & 0xff) == SQLITE_BUSY && !on_busy(connection, tries > 0))
                        break;
        }
        return code;
}

static int
note_journal(void *has_wal, int count, char **values, char **names)
{
        (void)count, (void)names;
        *(bool *)has_wal = strcmp(values[0], "wal") == 0 || strcmp(values[0], "memory") == 0;
        return 0;
}

/* On a file system without shared memory SQLite stays with another journal, in which readers and the writer wait for each other,
 * and says SQLITE_OK. */
static int
use_wal(weir_sqlite_connection *connection)
{
        bool has_wal = false;
        int code = run_sql(connection, "PRAGMA journal_mode=WAL");

        if (!code)
                code = sqlite3_exec(connection->handle, "PRAGMA journal_mode", note_journal, &has_wal, NULL);
        return code || has_wal ? code : SQLITE_NOLFS;
}

static int
set_up(weir_sqlite_connection *connection)
{
        static const char *const synchronous[] = {
                [WEIR_SQLITE_SYNC_FULL] = "PRAGMA synchronous=FULL",
                [WEIR_SQLITE_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
                [WEIR_SQLITE_SYNC_OFF] = "PRAGMA synchronous=OFF",
        };
        weir_sqlite *db = connection->db;
        int code = db->config.read_only ? run_sql(connection, "SELECT count(*) FROM sqlite_schema") : use_wal(connection);

        if (!code)
                code = run_sql(connection, synchronous[db->config.synchronous]);
        if (!code && !connection->is_writer)
                code = weir__sqlite_set_query_only(connection, true);
        for (unsigned i = 0; i < WEIR__SQLITE_OWN && !code; i++)
                code = sqlite3_prepare_v3(connection->handle, own_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &connection->own[i],
                                          NULL);
        return code;
}

/* All connections have one file.  Somebody may have put another one into its place since the first of them was opened. */
static int
check_file(weir_sqlite_connection *connection, bool is_first)
{
        const char *path = sqlite3_db_filename(connection->handle, "main");
        weir_sqlite *db = connection->db;
        struct stat file;
        int has_moved = 0;

        if (!path || !*path)
                return SQLITE_OK; /* in memory */
        bool is_there = stat(path, &file) == 0;
        sqlite3_file_control(connection->handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
        if (!is_there || has_moved || (!is_first && (file.st_dev != db->device || file.st_ino != db->inode)))
                return SQLITE_READONLY_DBMOVED;
        db->device = file.st_dev;
        db->inode = file.st_ino;
        return SQLITE_OK;
}

/* Only the first connection makes the file. */
static int
open_file(weir_sqlite_connection *connection)
{
        weir_sqlite *db = connection->db;
        bool is_first = atomic_load(&db->connections) == 1; /* this one is counted */
        int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;

        flags |= db->config.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
        flags |= is_first && !db->config.read_only ? SQLITE_OPEN_CREATE : 0;
        int code = sqlite3_open_v2(db->path, &connection->handle, flags, NULL);
        if (code == SQLITE_CANTOPEN && !is_first && sqlite3_system_errno(connection->handle) == ENOENT)
                return SQLITE_READONLY_DBMOVED;
        return code ? code : check_file(connection, is_first);
}

static int
open_handle(weir_sqlite_connection *connection)
{
        int code = open_file(connection);

        if (code)
                return code;
        sqlite3_extended_result_codes(connection->handle, 1);
        sqlite3_busy_handler(connection->handle, on_busy, connection);
        sqlite3_progress_handler(connection->handle, STEPS_BETWEEN_LOOKS, on_progress, connection);
        sqlite3_commit_hook(connection->handle, on_commit, connection);
        sqlite3_rollback_hook(connection->handle, on_rollback, connection);
        code = set_up(connection);
        if (!code)
                code = sqlite3_set_authorizer(connection->handle, on_authorize, connection);
        return code;
}

/* The status of a failure.  The request, which may be NULL, has the text then. */
static int
fail(weir_sqlite_connection *connection, struct weir__sqlite_request *request, int code)
{
        const char *text = code == SQLITE_NOLFS ? "the file system has no shared memory for a WAL" : NULL;

        return request ? weir__sqlite_fail(request, connection->handle, code, text)
                       : weir__sqlite_status(connection->handle, code);
}

/* 0, or the status. */
static int
prepare_for_program(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        const struct weir_sqlite_config *config = &connection->db->config;
        weir_sqlite_open_fn *on_open = connection->is_writer ? config->on_writer : config->on_reader;
        int status = 0, code = 0;

        if (!on_open)
                return 0;
        if (!connection->is_writer)
                weir__sqlite_set_query_only(connection, false); /* its tables are its own, as temporary ones */
        connection->is_own = false;
        connection->is_alone = true;
        status = on_open(connection, config->context);
        if (status > 0) /* before other statements replace what SQLite has to say */
                status = weir__sqlite_status_of_call(connection, request, status);
        connection->is_alone = false;
        connection->is_own = true;
        weir__sqlite_tidy(connection);
        if (!sqlite3_get_autocommit(connection->handle))
                run_sql(connection, "ROLLBACK");
        if (!connection->is_writer)
                code = weir__sqlite_set_query_only(connection, true);
        return status || !code ? status : fail(connection, request, code);
}

weir_sqlite_connection *
weir__sqlite_connect(weir_sqlite *db, bool is_writer, struct weir__sqlite_request *request, int *status)
{
        weir_sqlite_connection *connection = calloc(1, sizeof *connection);

        *status = -ENOMEM;
        if (!connection)
                return NULL;
        connection->db = db;
        connection->is_writer = is_writer;
        connection->request = request;
        connection->is_own = true;
        weir_blocking_begin();
        atomic_fetch_add(&db->connections, 1);
        int code = open_handle(connection);
        if (code)
                *status = fail(connection, request, code);
        connection->request = NULL;
        if (!code)
                *status = prepare_for_program(connection, request);
        connection->is_own = false;
        if (*status) {
                weir__sqlite_disconnect(connection);
                connection = NULL;
        }
        weir_blocking_end();
        return connection;
}

void
weir__sqlite_disconnect(weir_sqlite_connection *connection)
{
        if (!connection)
                return;
        for (unsigned i = 0; i < WEIR__SQLITE_OWN; i++)
                sqlite3_finalize(connection->own[i]);
        while (connection->prepared) {
                struct weir__sqlite_prepared *first = connection->prepared;

                connection->prepared = first->next;
                sqlite3_finalize(first->statement);
                free(first);
        }
        connection->request = NULL;
        sqlite3_close_v2(connection->handle);
        atomic_fetch_sub(&connection->db->connections, 1);
        free(connection);
}

/* -- statements -- */

int
weir__sqlite_run_own(weir_sqlite_connection *connection, enum weir__sqlite_own which)
{
        sqlite3_stmt *statement = connection->own[which];

        connection->is_own = true;
        connection->busy_since = 0;
        int code = sqlite3_step(statement);
        int reset = sqlite3_reset(statement);
        connection->is_own = false;
        return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : reset ? reset : code;
}

int
weir__sqlite_set_query_only(weir_sqlite_connection *connection, bool is_on)
{
        bool was_own = connection->is_own;

        connection->is_own = true;
        int code = sqlite3_exec(connection->handle, is_on ? "PRAGMA query_only=ON" : "PRAGMA query_only=OFF", NULL, NULL, NULL);
        connection->is_own = was_own;
        return code;
}

static uint64_t
hash_of(const char *sql, size_t size)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)sql[i]) * UINT64_C(1099511628211);
        return hash;
}

/* The one that was kept, which becomes the first; NULL: there is none. */
static struct weir__sqlite_prepared *
kept(weir_sqlite_connection *connection, uint64_t hash, const char *sql, size_t size)
{
        for (struct weir__sqlite_prepared **at = &connection->prepared; *at; at = &(*at)->next) {
                struct weir__sqlite_prepared *found = *at;

                if (found->hash != hash || found->size != size || memcmp(found->sql, sql, size))
                        continue;
                *at = found->next;
                found->next = connection->prepared;
                connection->prepared = found;
                return found;
        }
        return NULL;
}

/* Whether there is a statement in the text, or one that is wrong. */
static bool
has_statement(weir_sqlite_connection *connection, const char *sql)
{
        sqlite3_stmt *statement = NULL;
        int code = *sql ? sqlite3_prepare_v2(connection->handle, sql, -1, &statement, NULL) : SQLITE_OK;

        sqlite3_finalize(statement);
        return code || statement;
}

static int
prepare(weir_sqlite_connection *connection, struct weir__sqlite_prepared *fresh, bool *more)
{
        const char *rest = "";
        int code = sqlite3_prepare_v3(connection->handle, fresh->sql, -1, SQLITE_PREPARE_PERSISTENT, &fresh->statement, &rest);

        if (code)
                return code;
        *more = fresh->statement && has_statement(connection, rest);
        if (!*more)
                return SQLITE_OK;
        sqlite3_finalize(fresh->statement);
        fresh->statement = NULL;
        return SQLITE_OK;
}

int
weir__sqlite_find(weir_sqlite_connection *connection, const char *sql, size_t size, sqlite3_stmt **statement, bool *more)
{
        uint64_t hash = hash_of(sql, size);
        struct weir__sqlite_prepared *found = kept(connection, hash, sql, size);

        *statement = NULL;
        *more = false;
        if (!found) {
                found = malloc(sizeof *found + size + 1);
                if (!found)
                        return SQLITE_NOMEM;
                *found = (struct weir__sqlite_prepared){.hash = hash, .size = size};
                memcpy(found->sql, sql, size);
                found->sql[size] = '\0';
                int code = prepare(connection, found, more);
                if (code || !found->statement) {
                        free(found);
                        return code;
                }
                atomic_fetch_add(&connection->db->prepared, 1);
                found->next = connection->prepared;
                connection->prepared = found;
                connection->count++;
        } else {
                atomic_fetch_add(&connection->db->reused, 1);
                sqlite3_reset(found->statement);
                sqlite3_clear_bindings(found->statement);
        }
        found->is_used = true;
        *statement = found->statement;
        return SQLITE_OK;
}

void
weir__sqlite_tidy(weir_sqlite_connection *connection)
{
        unsigned most = connection->db->config.statements, number = 0;
        struct weir__sqlite_prepared **at = &connection->prepared;

        if (connection->is_long)
                weir_blocking_end();
        connection->is_long = false;
        connection->began = 0;
        for (struct weir__sqlite_prepared *one = *at; one && one->is_used; one = one->next) { /* these are in front */
                sqlite3_reset(one->statement);
                sqlite3_clear_bindings(one->statement);
                one->is_used = false;
        }
        if (connection->count <= most)
                return;
        for (; number < most; number++)
                at = &(*at)->next;
        while (*at) {
                struct weir__sqlite_prepared *one = *at;

                *at = one->next;
                sqlite3_finalize(one->statement);
                free(one);
        }
        connection->count = most;
}
