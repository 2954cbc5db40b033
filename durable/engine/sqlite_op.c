/* durable/engine/sqlite_op.c: operations as statements of SQLite.
 *
 * Each function runs within a transaction, on the thread of the executor that has the connection.  Numbers of the sequence are
 * given away in memory, and the end of the transaction writes the last one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "durable/engine/sqlite_op.h"

#define BESIDE      "generation, state, attempt, token, due, ready, node, problem, cron, zone, policy"
#define COLUMNS     "name, topic, payload, " BESIDE
#define TOPICS_MOST 1000                        /* of a list in the order of `ready` */
#define SUMMARY     "name, topic, x'', " BESIDE /* it does not read large payloads */

/* A timer has its row in the tree of names: there is no other index for names.  The index of `ready` leaves the dead ones out. */
const char weir__durable_sqlite_tables[] =
        "CREATE TABLE IF NOT EXISTS weir_durable_sequence(id INTEGER PRIMARY KEY CHECK(id = 1), value INTEGER NOT NULL);"
        "INSERT OR IGNORE INTO weir_durable_sequence VALUES(1, 0);"
        "CREATE TABLE IF NOT EXISTS weir_durable("
        " name TEXT NOT NULL PRIMARY KEY,"
        " topic TEXT NOT NULL,"
        " payload BLOB NOT NULL,"
        " generation INTEGER NOT NULL,"
        " state INTEGER NOT NULL,"
        " attempt INTEGER NOT NULL,"
        " token INTEGER NOT NULL,"
        " due INTEGER NOT NULL,"
        " ready INTEGER NOT NULL,"
        " node TEXT NOT NULL,"
        " problem TEXT NOT NULL,"
        " cron TEXT NOT NULL,"
        " zone TEXT NOT NULL,"
        " policy INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE INDEX IF NOT EXISTS weir_durable_ready ON weir_durable(topic, ready) WHERE state < 2;";

/* The code of SQLite for a call that has failed. */
static int
failure(const struct weir__durable_sqlite_run *run)
{
        int code = sqlite3_extended_errcode(weir_sqlite_handle(run->connection));

        return code ? code : SQLITE_ERROR;
}

static sqlite3_stmt *
prepare(const struct weir__durable_sqlite_run *run, const char *sql)
{
        return weir_sqlite_prepare(run->connection, sql);
}

static int
bind_text(sqlite3_stmt *statement, int at, const char *text)
{
        return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

/* Runs a statement whose values are bound, and which returns no row.  Result: 0, or SQLite's code. */
static int
run_bound(const struct weir__durable_sqlite_run *run, sqlite3_stmt *statement)
{
        int code = sqlite3_step(statement);
        int failed = code == SQLITE_DONE ? 0 : failure(run);

        sqlite3_reset(statement);
        return failed;
}

static bool
has_changed(const struct weir__durable_sqlite_run *run)
{
        return sqlite3_changes(weir_sqlite_handle(run->connection)) > 0;
}

/* The text of a column; NULL only when out of memory. */
static const char *
text(sqlite3_stmt *statement, int column)
{
        const char *found = (const char *)sqlite3_column_text(statement, column);

        return found ? found : "";
}

/* The row of COLUMNS at which a statement is.  The texts live until its next step. */
static struct weir_durable_info
read_row(sqlite3_stmt *statement)
{
        return (struct weir_durable_info){
                .name = text(statement, 0),
                .topic = text(statement, 1),
                .payload = sqlite3_column_blob(statement, 2),
                .payload_size = (size_t)sqlite3_column_bytes(statement, 2),
                .generation = (uint64_t)sqlite3_column_int64(statement, 3),
                .state = (enum weir_durable_state)sqlite3_column_int(statement, 4),
                .attempt = (unsigned)sqlite3_column_int64(statement, 5),
                .token = (uint64_t)sqlite3_column_int64(statement, 6),
                .due = sqlite3_column_int64(statement, 7),
                .ready = sqlite3_column_int64(statement, 8),
                .node = text(statement, 9),
                .problem = text(statement, 10),
                .cron = text(statement, 11),
                .zone = text(statement, 12),
                .policy = (enum weir_durable_missed_policy)sqlite3_column_int(statement, 13),
        };
}

/* Adds the rows of a statement of COLUMNS to the results. */
static int
add_rows(const struct weir__durable_sqlite_run *run, sqlite3_stmt *statement, struct weir__durable_op *op)
{
        int code, failed = 0;

        while (!failed && (code = sqlite3_step(statement)) == SQLITE_ROW) {
                struct weir_durable_info info = read_row(statement);

                failed = weir__durable_op_add(op, &info);
        }
        if (!failed && code != SQLITE_DONE)
                failed = failure(run);
        sqlite3_reset(statement);
        return failed;
}

int
weir__durable_sqlite_begin(struct weir__durable_sqlite_run *run)
{
        sqlite3_stmt *statement = prepare(run, "SELECT value FROM weir_durable_sequence");

        if (!statement || sqlite3_step(statement) != SQLITE_ROW)
                return failure(run);
        run->sequence = run->was = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
        return 0;
}

int
weir__durable_sqlite_end(struct weir__durable_sqlite_run *run)
{
        if (run->sequence == run->was)
                return 0;
        sqlite3_stmt *statement = prepare(run, "UPDATE weir_durable_sequence SET value = ?");
        if (!statement)
                return failure(run);
        sqlite3_bind_int64(statement, 1, run->sequence);
        return run_bound(run, statement);
}

/* -- rows -- */

/* The row of a name becomes the only result; there may be none. */
static int
load(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        sqlite3_stmt *statement = prepare(run, "SELECT " COLUMNS " FROM weir_durable WHERE name = ?");

        if (!statement)
                return failure(run);
        bind_text(statement, 1, op->name);
        return add_rows(run, statement, op);
}

/* Writes what an operation may change of a row. */
static int
save(const struct weir__durable_sqlite_run *run, const struct weir_durable_info *info)
{
        sqlite3_stmt *statement = prepare(run,
                                          "UPDATE weir_durable SET generation = ?, state = ?, attempt = ?, token = ?, due = ?,"
                                          " ready = ?, problem = ? WHERE name = ?");

        if (!statement)
                return failure(run);
        sqlite3_bind_int64(statement, 1, (int64_t)info->generation);
        sqlite3_bind_int64(statement, 2, info->state);
        sqlite3_bind_int64(statement, 3, info->attempt);
        sqlite3_bind_int64(statement, 4, (int64_t)info->token);
        sqlite3_bind_int64(statement, 5, info->due);
        sqlite3_bind_int64(statement, 6, info->ready);
        bind_text(statement, 7, info->problem);
        bind_text(statement, 8, info->name);
        return run_bound(run, statement);
}

/* The earliest `ready` of a topic; WEIR_FOREVER: none. */
static int
find_first(struct weir__durable_sqlite_run *run, const char *topic, weir_nsec *first)
{
        sqlite3_stmt *statement = prepare(run,
                                          "SELECT ready FROM weir_durable WHERE topic = ? AND state < 2 ORDER BY ready LIMIT 1");
        int code;

        if (!statement)
                return failure(run);
        bind_text(statement, 1, topic);
        code = sqlite3_step(statement);
        *first = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : WEIR_FOREVER;
        int failed = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : failure(run);
        sqlite3_reset(statement);
        return failed;
}

/* Whether a row that is ready then is the first one of its topic.  Sets in a row ask the table once. */
static int
note_earliest(struct weir__durable_sqlite_run *run, struct weir__durable_op *op, const char *topic, weir_nsec ready)
{
        int failed = 0;

        if (!run->knows_first || strcmp(run->first_topic, topic) != 0)
                failed = find_first(run, topic, &run->first);
        run->knows_first = op->kind == WEIR__DURABLE_SET && !failed;
        run->first_topic = topic;
        op->is_earliest = ready < run->first;
        if (op->is_earliest)
                run->first = ready;
        return failed;
}

/* -- operations -- */

static bool
is_same(const struct weir_durable_info *info, const struct weir__durable_op *op)
{
        return info->state != WEIR_DURABLE_DEAD && strcmp(info->cron, op->cron) == 0 && strcmp(info->zone, op->zone) == 0 &&
               info->policy == op->policy && strcmp(info->topic, op->topic) == 0 && info->payload_size == op->payload_size &&
               memcmp(info->payload, op->payload, op->payload_size) == 0;
}

static int
insert(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        sqlite3_stmt *statement = prepare(run, "REPLACE INTO weir_durable(" COLUMNS
                                               ") VALUES(?, ?, ?, ?, 0, 0, 0, ?, ?, '', '', ?, ?, ?)");

        if (!statement)
                return failure(run);
        bind_text(statement, 1, op->name);
        bind_text(statement, 2, op->topic);
        sqlite3_bind_blob(statement, 3, op->payload, (int)op->payload_size, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 4, (int64_t)op->generation);
        sqlite3_bind_int64(statement, 5, op->ready);
        sqlite3_bind_int64(statement, 6, op->ready);
        bind_text(statement, 7, op->cron);
        bind_text(statement, 8, op->zone);
        sqlite3_bind_int64(statement, 9, op->policy);
        return run_bound(run, statement);
}

static int
set(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        int failed = op->keeps_same ? load(run, op) : 0;

        if (failed)
                return failed;
        if (op->row_count && is_same(&op->rows[0]->info, op)) {
                op->generation = op->rows[0]->info.generation;
                op->ready = op->rows[0]->info.ready;
                return 0;
        }
        weir__durable_op_clear(op);
        op->generation = (uint64_t)++run->sequence;
        op->ready = op->is_relative ? weir__durable_add(run->now, op->at) : op->at;
        failed = note_earliest(run, op, op->topic, op->ready);
        return failed ? failed : insert(run, op);
}

/* A statement that deletes the row of the name, and returns its generation. */
static int
delete_row(struct weir__durable_sqlite_run *run, struct weir__durable_op *op, const char *sql)
{
        sqlite3_stmt *statement = prepare(run, sql);
        int code;

        if (!statement)
                return failure(run);
        bind_text(statement, 1, op->name);
        while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
                op->is_done = true;
                op->generation = (uint64_t)sqlite3_column_int64(statement, 0);
        }
        int failed = code == SQLITE_DONE ? 0 : failure(run);
        sqlite3_reset(statement);
        return failed;
}

static int
extend(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        int failed = load(run, op);

        if (failed || !op->row_count)
                return failed;
        struct weir_durable_info *info = &op->rows[0]->info;
        op->is_done = info->state == WEIR_DURABLE_PENDING && info->attempt == 0;
        if (!op->is_done)
                return 0;
        op->ready = info->due = info->ready = weir__durable_add(op->is_relative ? run->now : info->due, op->at);
        failed = note_earliest(run, op, info->topic, info->ready);
        return failed ? failed : save(run, info);
}

static int
put_back(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        int failed = load(run, op);

        if (failed || !op->row_count)
                return failed;
        struct weir_durable_info *info = &op->rows[0]->info;
        op->is_done = info->state == WEIR_DURABLE_DEAD;
        if (!op->is_done)
                return 0;
        info->state = WEIR_DURABLE_PENDING;
        info->generation = (uint64_t)++run->sequence;
        info->attempt = 0;
        info->token = 0;
        op->ready = info->ready = run->now;
        failed = note_earliest(run, op, info->topic, info->ready);
        return failed ? failed : save(run, info);
}

/* The least text above all that begin with the prefix, in `end`.  Result: false: there is none. */
static bool
end_of_prefix(const char *prefix, char end[WEIR_DURABLE_NAME_MAX + 1])
{
        size_t size = strlen(prefix);

        while (size && (unsigned char)prefix[size - 1] == 0xff)
                size--;
        if (!size || size > WEIR_DURABLE_NAME_MAX)
                return false;
        memcpy(end, prefix, size);
        end[size - 1] = (char)((unsigned char)end[size - 1] + 1);
        end[size] = '\0';
        return true;
}

/* Binds the bounds of a prefix to the parameters 1 and 2: name >= ?1, and name < ?2 unless that is NULL.  Result: 0, or SQLite's
 * code: without the second bound the statement would find more than was asked for. */
static int
bind_prefix(sqlite3_stmt *statement, const char *prefix)
{
        char end[WEIR_DURABLE_NAME_MAX + 1];

        bind_text(statement, 1, prefix);
        return end_of_prefix(prefix, end) ? sqlite3_bind_text(statement, 2, end, -1, SQLITE_TRANSIENT) : 0;
}

/* Adds the rows of a topic that are among the first. */
static int
list_topic(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op, const char *topic)
{
        sqlite3_stmt *statement = prepare(
                run, "SELECT " SUMMARY " FROM weir_durable WHERE topic = ? AND state < 2 AND ready < ? ORDER BY ready LIMIT ?");
        int code, failed = 0;

        if (!statement)
                return failure(run);
        bind_text(statement, 1, topic);
        sqlite3_bind_int64(statement, 2, op->row_count < op->most ? INT64_MAX : op->rows[op->row_count - 1]->info.ready);
        sqlite3_bind_int64(statement, 3, (int64_t)op->most);
        while (!failed && (code = sqlite3_step(statement)) == SQLITE_ROW) {
                struct weir_durable_info info = read_row(statement);

                failed = weir__durable_op_add_by_ready(op, &info);
        }
        if (!failed && code != SQLITE_DONE)
                failed = failure(run);
        sqlite3_reset(statement);
        return failed;
}

/* The index has the topics in order, so each one is found by one step, and its rows are not read. */
static int
list_by_ready(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        char topic[WEIR_DURABLE_TOPIC_MAX + 1] = "";

        for (int topics = 0; topics < TOPICS_MOST; topics++) {
                sqlite3_stmt *next = prepare(
                        run, "SELECT topic FROM weir_durable WHERE topic > ? AND state < 2 ORDER BY topic LIMIT 1");

                if (!next)
                        return failure(run);
                bind_text(next, 1, topic);
                int code = sqlite3_step(next);
                int failed = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : failure(run);
                snprintf(topic, sizeof topic, "%s", code == SQLITE_ROW ? text(next, 0) : "");
                sqlite3_reset(next);
                failed = failed || code == SQLITE_DONE ? failed : list_topic(run, op, topic);
                if (failed || code == SQLITE_DONE)
                        return failed;
        }
        return 0;
}

static int
list(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        if (op->by_ready)
                return list_by_ready(run, op);
        sqlite3_stmt *statement = prepare(
                run, op->only_dead && op->is_summary ? "SELECT " SUMMARY
                                                       " FROM weir_durable WHERE name >= ?1 AND (?2 IS NULL OR name < ?2)"
                                                       " AND name > ?3 AND state = 2 ORDER BY name LIMIT ?4"
                     : op->only_dead ? "SELECT " COLUMNS " FROM weir_durable WHERE name >= ?1 AND (?2 IS NULL OR name < ?2)"
                                       " AND name > ?3 AND state = 2 ORDER BY name LIMIT ?4"
                                     : "SELECT " COLUMNS " FROM weir_durable WHERE name >= ?1 AND (?2 IS NULL OR name < ?2)"
                                       " AND name > ?3 ORDER BY name LIMIT ?4");

        if (!statement || bind_prefix(statement, op->prefix))
                return failure(run);
        bind_text(statement, 3, op->behind);
        sqlite3_bind_int64(statement, 4, (int64_t)op->most);
        return add_rows(run, statement, op);
}

static int
count(const struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        sqlite3_stmt *statement = prepare(run, "SELECT state, count(*) FROM weir_durable WHERE name >= ?1"
                                               " AND (?2 IS NULL OR name < ?2) GROUP BY state");
        int code;

        if (!statement || bind_prefix(statement, op->prefix))
                return failure(run);
        memset(op->counts, 0, sizeof op->counts);
        while ((code = sqlite3_step(statement)) == SQLITE_ROW)
                if (sqlite3_column_int(statement, 0) >= 0 && sqlite3_column_int(statement, 0) <= WEIR_DURABLE_DEAD)
                        op->counts[sqlite3_column_int(statement, 0)] = (uint64_t)sqlite3_column_int64(statement, 1);
        int failed = code == SQLITE_DONE ? 0 : failure(run);
        sqlite3_reset(statement);
        return failed;
}

/* Adds the rows of a topic that are ready, up to op->most in all. */
static int
find_ready(struct weir__durable_sqlite_run *run, struct weir__durable_op *op, const char *topic)
{
        sqlite3_stmt *statement = prepare(run, "SELECT " COLUMNS " FROM weir_durable WHERE topic = ? AND state < 2 AND ready <= ?"
                                               " ORDER BY ready LIMIT ?");

        if (!statement)
                return failure(run);
        bind_text(statement, 1, topic);
        sqlite3_bind_int64(statement, 2, run->now);
        sqlite3_bind_int64(statement, 3, (int64_t)(op->most - op->row_count));
        return add_rows(run, statement, op);
}

static int
lease(struct weir__durable_sqlite_run *run, struct weir__durable_op *op, struct weir_durable_info *info)
{
        sqlite3_stmt *statement = prepare(
                run, "UPDATE weir_durable SET state = 1, attempt = ?, token = ?, ready = ?, node = ? WHERE name = ?");

        if (!statement)
                return failure(run);
        info->state = WEIR_DURABLE_LEASED;
        info->node = op->node;
        info->attempt++;
        info->token = (uint64_t)++run->sequence;
        info->ready = weir__durable_add(run->now, op->lease);
        sqlite3_bind_int64(statement, 1, info->attempt);
        sqlite3_bind_int64(statement, 2, (int64_t)info->token);
        sqlite3_bind_int64(statement, 3, info->ready);
        bind_text(statement, 4, op->node);
        bind_text(statement, 5, info->name);
        return run_bound(run, statement);
}

static int
claim(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        weir_nsec first;
        int failed = 0;

        op->next_ready = WEIR_FOREVER;
        for (size_t i = 0; i < op->topic_count && op->row_count < op->most && !failed; i++)
                failed = find_ready(run, op, op->topics[(i + run->rotation) % op->topic_count]);
        for (size_t i = 0; i < op->row_count && !failed; i++)
                failed = lease(run, op, &op->rows[i]->info);
        for (size_t i = 0; i < op->topic_count && !failed; i++) {
                failed = find_first(run, op->topics[i], &first);
                if (!failed && first < op->next_ready)
                        op->next_ready = first;
        }
        return failed;
}

static int
acknowledge(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        sqlite3_stmt *statement = prepare(run, "DELETE FROM weir_durable WHERE name = ? AND token = ? AND state = 1");

        if (!statement)
                return failure(run);
        bind_text(statement, 1, op->name);
        sqlite3_bind_int64(statement, 2, (int64_t)op->token);
        int failed = run_bound(run, statement);
        op->is_done = !failed && has_changed(run);
        return failed;
}

static int
end(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        if (op->outcome == WEIR__DURABLE_ACKNOWLEDGE)
                return acknowledge(run, op);
        int failed = load(run, op);
        if (failed || !op->row_count)
                return failed;
        struct weir_durable_info *info = &op->rows[0]->info;
        op->is_done = info->state == WEIR_DURABLE_LEASED && info->token == op->token;
        if (!op->is_done)
                return 0;
        info->state = op->outcome == WEIR__DURABLE_MARK_DEAD ? WEIR_DURABLE_DEAD : WEIR_DURABLE_PENDING;
        info->ready = run->now;
        if (op->outcome != WEIR__DURABLE_GIVE_BACK)
                info->problem = op->problem;
        if (op->outcome == WEIR__DURABLE_RETRY) {
                info->ready = weir__durable_add(run->now, op->at);
        } else if (op->outcome == WEIR__DURABLE_GIVE_BACK) {
                info->attempt--;
        } else if (op->outcome == WEIR__DURABLE_MOVE_ON) {
                info->generation = (uint64_t)++run->sequence;
                info->attempt = 0;
                info->token = 0;
                info->due = info->ready = op->at;
        }
        op->ready = info->ready;
        if (info->state == WEIR_DURABLE_PENDING)
                failed = note_earliest(run, op, info->topic, info->ready);
        return failed ? failed : save(run, info);
}

static int
renew(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        int failed = 0;

        for (size_t i = 0; i < op->claim_count && !failed; i++) {
                sqlite3_stmt *statement = prepare(run,
                                                  "UPDATE weir_durable SET ready = ? WHERE name = ? AND token = ? AND state = 1");

                if (!statement)
                        return failure(run);
                sqlite3_bind_int64(statement, 1, weir__durable_add(run->now, op->lease));
                bind_text(statement, 2, op->claims[i].name);
                sqlite3_bind_int64(statement, 3, (int64_t)op->claims[i].token);
                failed = run_bound(run, statement);
                op->claims[i].is_held = !failed && has_changed(run);
        }
        return failed;
}

static int
change(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        switch (op->kind) {
        case WEIR__DURABLE_CANCEL:
                return delete_row(run, op,
                                  "DELETE FROM weir_durable WHERE name = ? AND state = 0 AND attempt = 0"
                                  " RETURNING generation");
        case WEIR__DURABLE_FORGET:
                return delete_row(run, op, "DELETE FROM weir_durable WHERE name = ? AND state = 2 RETURNING generation");
        case WEIR__DURABLE_EXTEND: return extend(run, op);
        case WEIR__DURABLE_PUT_BACK: return put_back(run, op);
        case WEIR__DURABLE_CLAIM: return claim(run, op);
        case WEIR__DURABLE_END: return end(run, op);
        case WEIR__DURABLE_RENEW: return renew(run, op);
        default: return -EINVAL;
        }
}

int
weir__durable_sqlite_carry_out(struct weir__durable_sqlite_run *run, struct weir__durable_op *op)
{
        weir__durable_op_clear(op);
        op->now = run->now;
        op->is_done = op->is_earliest = false;
        switch (op->kind) {
        case WEIR__DURABLE_SET: return set(run, op);
        case WEIR__DURABLE_GET: return load(run, op);
        case WEIR__DURABLE_LIST: return list(run, op);
        case WEIR__DURABLE_COUNT: return count(run, op);
        default: run->knows_first = false; return change(run, op);
        }
}
