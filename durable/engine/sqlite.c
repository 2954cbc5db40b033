/* durable/engine/sqlite.c: timers in a file of SQLite.
 *
 * Operations wait in a queue.  While one transaction is being committed the next operations gather, and the next transaction
 * carries all of them out.  So a commit, with its fsync, serves as many operations as come while it takes.  A failure of SQLite
 * fails the operations of its transaction together, and none of them has happened.  Operations that only read have connections of
 * their own as soon as the tables are there.
 *
 * Threads: submit, and the end of a batch, any; the queue is guarded by `lock`.  A batch is that of the thread of the executor
 * while it runs. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/sqlite.h>

#include "durable/engine/bell.h"
#include "durable/engine/sqlite_op.h"

#define BATCH_MOST 500

struct sqlite_engine {
        struct weir__durable_engine base;
        weir_sqlite *db;
        struct weir__durable_bell *bell;
        atomic_bool has_tables;

        /* Guarded by `lock`. */
        pthread_mutex_t lock;
        struct weir__durable_op *first, **last;
        bool is_writing;
        uint64_t turn;
};

struct batch {
        struct sqlite_engine *engine;
        struct weir__durable_op *first;
        uint64_t turn;
};

static int
make_tables(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, weir__durable_sqlite_tables);
}

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
        engine->last = &engine->first;
        pthread_mutex_init(&engine->lock, NULL);
        engine->bell = weir__durable_bell_new(where, store);
        engine->db = engine->bell ? weir_sqlite_open(where, &config) : NULL;
        if (engine->db)
                return &engine->base;
        int failed = errno;
        weir__durable_bell_free(engine->bell);
        pthread_mutex_destroy(&engine->lock);
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
        pthread_mutex_destroy(&engine->lock);
        free(engine);
}

/* -- batches -- */

static int
carry_out_all(weir_sqlite_connection *connection, void *context)
{
        struct batch *batch = context;
        struct weir__durable_sqlite_run run = {.connection = connection, .now = weir_wall_now(), .turn = batch->turn};
        int failed = weir__durable_sqlite_begin(&run);

        for (struct weir__durable_op *op = batch->first; op && !failed; op = op->next)
                failed = weir__durable_sqlite_carry_out(&run, op);
        return failed ? failed : weir__durable_sqlite_end(&run);
}

static void
end_all(struct weir__durable_op *op, int status, const char *reason)
{
        while (op) {
                struct weir__durable_op *next = op->next;

                snprintf(op->reason, sizeof op->reason, "%s", status ? reason : "");
                weir__durable_op_end(op, status);
                op = next;
        }
}

static void write_next(struct sqlite_engine *engine);

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
        write_next(engine); /* it is under way while the callbacks of this one run */
        if (should_ring)
                weir__durable_bell_ring(engine->bell);
        end_all(batch->first, status, weir_sqlite_problem(task));
        weir__durable_unref(store);
}

/* Takes up to BATCH_MOST operations out of the queue. */
static struct weir__durable_op *
take_some(struct sqlite_engine *engine, uint64_t *turn)
{
        pthread_mutex_lock(&engine->lock);
        struct weir__durable_op *first = engine->first, **end = &engine->first;
        for (unsigned count = 0; *end && count < BATCH_MOST; count++)
                end = &(*end)->next;
        struct weir__durable_op *rest = *end;
        *end = NULL;
        engine->first = rest;
        if (!rest)
                engine->last = &engine->first;
        engine->is_writing = first != NULL;
        *turn = engine->turn++;
        pthread_mutex_unlock(&engine->lock);
        return first;
}

static int
start_batch(struct sqlite_engine *engine, struct weir__durable_op *first, uint64_t turn)
{
        struct batch *batch = malloc(sizeof *batch);

        if (!batch)
                return -ENOMEM;
        *batch = (struct batch){engine, first, turn};
        weir_task *task = weir_sqlite_write_new(engine->db, carry_out_all, on_batch, batch);
        weir_task_set_context(task, batch, free);
        return weir_task_start(task);
}

/* Starts a batch of what waits, if there is something. */
static void
write_next(struct sqlite_engine *engine)
{
        uint64_t turn;

        for (;;) {
                struct weir__durable_op *first = take_some(engine, &turn);
                int failed = first ? start_batch(engine, first, turn) : 0;

                if (!failed)
                        return;
                end_all(first, failed, "");
        }
}

/* -- reads -- */

static int
carry_out_one(weir_sqlite_connection *connection, void *context)
{
        struct weir__durable_sqlite_run run = {.connection = connection, .now = weir_wall_now()};

        return weir__durable_sqlite_carry_out(&run, context);
}

static void
on_read(weir_task *task, void *op)
{
        ((struct weir__durable_op *)op)->next = NULL;
        end_all(op, weir_task_status(task), weir_sqlite_problem(task));
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
        weir_durable *store = weir__durable_ref(base->store);

        op->next = NULL;
        if (is_read(op->kind) && atomic_load_explicit(&engine->has_tables, memory_order_acquire)) {
                int failed = weir_task_start(weir_sqlite_read_new(engine->db, carry_out_one, on_read, op));

                if (failed)
                        end_all(op, failed, "");
                weir__durable_unref(store);
                return;
        }
        pthread_mutex_lock(&engine->lock);
        *engine->last = op;
        engine->last = &op->next;
        bool should_write = !engine->is_writing;
        engine->is_writing = true;
        pthread_mutex_unlock(&engine->lock);
        if (should_write)
                write_next(engine);
        weir__durable_unref(store);
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
};
