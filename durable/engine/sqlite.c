/* durable/engine/sqlite.c: timers in a file of SQLite.
 *
 * Operations wait in a queue.  While one transaction is being committed the next operations gather, and the next transaction
 * carries all of them out.  So a commit, with its fsync, serves as many operations as come while it takes.  A failure of SQLite
 * fails the operations of its transaction together, and none of them has happened.  Operations that only read have connections of
 * their own as soon as the tables are there.
 *
 * What is written to a file that was moved or deleted is lost with it, and SQLite does not say so.  So each transaction asks.
 *
 * Threads: submit, and the end of a batch, any.  A batch is that of the thread of the executor while it runs. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include <weir/clock.h>
#include <weir/sqlite.h>

#include "durable/batch.h"
#include "durable/engine/bell.h"
#include "durable/engine/sqlite_op.h"

struct sqlite_engine {
        struct weir__durable_engine base;
        weir_sqlite *db;
        struct weir__durable_bell *bell;
        atomic_bool has_tables;
        struct weir__durable_queue writes;
};

struct batch {
        struct sqlite_engine *engine;
        struct weir__durable_op *first;
        uint64_t number;
};

static int
make_tables(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, weir__durable_sqlite_tables);
}

static bool start_batch(struct weir__durable_queue *writes, struct weir__durable_op *first, uint64_t number);

static struct weir__durable_engine *
open_engine(const char *where, weir_durable *store)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        if (strcmp(where, ":memory:") == 0) { /* no other node could see it: memory:NAME is for that */
                errno = EINVAL;
                return NULL;
        }
        struct sqlite_engine *engine = calloc(1, sizeof *engine);
        if (!engine)
                return NULL;
        config.on_writer = make_tables;
        config.busy_limit = WEIR_SEC(10);
        engine->base = (struct weir__durable_engine){&weir__durable_sqlite, store};
        weir__durable_queue_init(&engine->writes, store, engine, start_batch);
        engine->bell = weir__durable_bell_new(where, store);
        engine->db = engine->bell ? weir_sqlite_new(where, &config) : NULL;
        if (engine->db)
                return &engine->base;
        int failed = errno;
        weir__durable_bell_free(engine->bell);
        weir__durable_queue_destroy(&engine->writes);
        free(engine);
        errno = failed;
        return NULL;
}

static void
free_engine(struct weir__durable_engine *base)
{
        struct sqlite_engine *engine = (struct sqlite_engine *)base;

        weir__durable_bell_free(engine->bell);
        weir_sqlite_unref(engine->db);
        weir__durable_queue_destroy(&engine->writes);
        free(engine);
}

/* Whether the file is another one than that of the path. */
static bool
is_moved(weir_sqlite_connection *connection)
{
        int moved = 0;

        return sqlite3_file_control(weir_sqlite_handle(connection), "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

/* -- batches -- */

static int
carry_out_all(weir_sqlite_connection *connection, void *context)
{
        struct batch *batch = context;
        struct weir__durable_sqlite_run run = {.connection = connection, .now = weir_wall_now(), .rotation = batch->number};
        int failed = is_moved(connection) ? SQLITE_READONLY_DBMOVED : weir__durable_sqlite_begin(&run);

        for (struct weir__durable_op *op = batch->first; op && !failed; op = op->next)
                failed = weir__durable_sqlite_carry_out(&run, op);
        return failed ? failed : weir__durable_sqlite_end(&run);
}

static void
on_batch(weir_task *task, void *context)
{
        struct batch *batch = context;
        struct sqlite_engine *engine = batch->engine;
        weir_durable *store = weir__durable_ref(engine->base.store);
        int status = weir_task_status(task);
        bool should_ring = false;

        for (struct weir__durable_op *op = batch->first; op && !status; op = op->next)
                should_ring = should_ring || op->is_earliest;
        if (!status)
                atomic_store_explicit(&engine->has_tables, true, memory_order_release);
        weir__durable_queue_next(&engine->writes); /* it is under way while the callbacks of this one run */
        if (should_ring)
                weir__durable_bell_ring(engine->bell);
        weir__durable_end_in_pieces(batch->first, status, weir_sqlite_problem(task));
        weir__durable_unref(store);
}

static bool
start_batch(struct weir__durable_queue *writes, struct weir__durable_op *first, uint64_t number)
{
        struct sqlite_engine *engine = writes->owner;
        struct batch *batch = malloc(sizeof *batch);
        int failed = -ENOMEM;

        if (batch) {
                *batch = (struct batch){engine, first, number};
                weir_task *task = weir_sqlite_write_new(engine->db, carry_out_all, on_batch, batch);
                weir_task_set_context(task, batch, free);
                failed = weir_task_start(task);
        }
        if (failed)
                weir__durable_end_all(first, failed, "");
        return !failed;
}

/* -- reads -- */

static int
carry_out_one(weir_sqlite_connection *connection, void *context)
{
        struct weir__durable_sqlite_run run = {.connection = connection, .now = weir_wall_now()};

        return is_moved(connection) ? SQLITE_READONLY_DBMOVED : weir__durable_sqlite_carry_out(&run, context);
}

static void
on_read(weir_task *task, void *op)
{
        ((struct weir__durable_op *)op)->next = NULL;
        weir__durable_end_all(op, weir_task_status(task), weir_sqlite_problem(task));
}

static bool
is_read(enum weir__durable_kind kind)
{
        return kind == WEIR__DURABLE_GET || kind == WEIR__DURABLE_LIST || kind == WEIR__DURABLE_COUNT;
}

static void
submit(struct weir__durable_engine *base, struct weir__durable_op *op)
{
        struct sqlite_engine *engine = (struct sqlite_engine *)base;

        if (op->kind == WEIR__DURABLE_CLAIM)
                weir__durable_bell_repair(engine->bell);
        if (!is_read(op->kind) || !atomic_load_explicit(&engine->has_tables, memory_order_acquire)) {
                weir__durable_queue_submit(&engine->writes, op);
                return;
        }
        op->next = NULL;
        int failed = weir_task_start(weir_sqlite_read_new(engine->db, carry_out_one, on_read, op));
        if (failed)
                weir__durable_end_all(op, failed, "");
}

static void
attend(struct weir__durable_engine *base)
{
        weir__durable_bell_watch(((struct sqlite_engine *)base)->bell);
}

static void
neglect(struct weir__durable_engine *base)
{
        weir__durable_bell_leave(((struct sqlite_engine *)base)->bell);
}

const struct weir__durable_engine_kind weir__durable_sqlite = {
        .scheme = "sqlite",
        .open = open_engine,
        .submit = submit,
        .attend = attend,
        .neglect = neglect,
        .free = free_engine,
        .lists_by_ready = true,
};
