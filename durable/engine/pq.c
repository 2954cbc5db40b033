/* durable/engine/pq.c: timers in a database of PostgreSQL.
 *
 * Operations of a kind gather while a call of that kind is under way, and one call carries all of them out.  A call is a
 * statement, and so a transaction.  Calls of several kinds are under way at once, on connections of their own.  They lock rows in
 * the order of the names.
 *
 * Tables and functions are made when a call has not found them.  A call that the server has undone because of others is repeated.
 * Of one whose connection breaks nobody knows whether it counts, so its operations fail.
 *
 * NOTIFY of the set wakes other nodes, which listen on a connection of their own.
 *
 * Threads: any.  `lock` guards what listens. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/clock.h>

#include "durable/batch.h"
#include "durable/engine/pq_op.h"

#define ENGINE_CONNECTIONS 4
#define ATTEMPTS           20
#define QUERY_LIMIT        WEIR_SEC(10)

struct pq_engine {
        struct weir__durable_engine base;
        weir_pq *pool;
        char sender[20]; /* of what it notifies: it need not look itself */
        struct weir__durable_queue queues[WEIR__DURABLE_PQ_BATCHED];
        _Atomic uint64_t rotation;

        /* Guarded by `lock`. */
        pthread_mutex_t lock;
        bool is_attending, is_receiving;
        weir_channel *events;
        weir_pq_listener *listener;
};

struct call {
        struct pq_engine *engine;
        unsigned attempts;
        bool has_made_tables;
        struct weir__durable_pq_batch batch; /* the last: it has items behind it */
};

static bool start_batch(struct weir__durable_queue *queue, struct weir__durable_op *first, uint64_t number);

static bool
takes(const char *url)
{
        return strncmp(url, "postgresql://", 13) == 0 || strncmp(url, "postgres://", 11) == 0;
}

static struct weir__durable_engine *
open_engine(const char *url, weir_durable *store)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        struct pq_engine *engine = calloc(1, sizeof *engine);
        uint64_t sender = 0;

        if (!engine)
                return NULL;
        config.connections = ENGINE_CONNECTIONS;
        config.limit = QUERY_LIMIT;
        engine->pool = weir_pq_new(url, &config);
        if (!engine->pool) {
                int failed = errno;

                free(engine);
                errno = failed;
                return NULL;
        }
        if (getrandom(&sender, sizeof sender, GRND_NONBLOCK) != sizeof sender)
                sender = (uint64_t)weir_wall_now() ^ (uintptr_t)engine;
        snprintf(engine->sender, sizeof engine->sender, "%016llx", (unsigned long long)sender);
        engine->base = (struct weir__durable_engine){&weir__durable_pq, store};
        for (size_t i = 0; i < WEIR__DURABLE_PQ_BATCHED; i++)
                weir__durable_queue_init(&engine->queues[i], store, engine, start_batch);
        pthread_mutex_init(&engine->lock, NULL);
        return &engine->base;
}

static void
free_engine(struct weir__durable_engine *base)
{
        struct pq_engine *engine = (struct pq_engine *)base;

        for (size_t i = 0; i < WEIR__DURABLE_PQ_BATCHED; i++)
                weir__durable_queue_destroy(&engine->queues[i]);
        weir_pq_unref(engine->pool);
        pthread_mutex_destroy(&engine->lock);
        free(engine);
}

/* -- rings -- */

static void listen_for_rings(struct pq_engine *engine);

static void
on_event(weir_task *task, void *context)
{
        struct pq_engine *engine = context;
        const weir_pq_event *event = weir_task_status(task) == 0 ? weir_channel_message(task) : NULL;
        const char *sender = event ? weir_pq_event_payload(event) : NULL;

        pthread_mutex_lock(&engine->lock);
        engine->is_receiving = false;
        bool is_rung = engine->is_attending && event &&
                       (!sender || weir_pq_event_missed(event) || strcmp(sender, engine->sender) != 0);
        if (event)
                listen_for_rings(engine); /* before the look: what comes from now on rings again */
        pthread_mutex_unlock(&engine->lock);
        if (is_rung)
                weir__durable_ring(engine->base.store);
}

static void
unref_store(void *engine)
{
        weir__durable_unref(((struct pq_engine *)engine)->base.store);
}

/* Does what is missing of it; what fails is tried again with the next look.  The lock is held. */
static void
listen_for_rings(struct pq_engine *engine)
{
        if (!engine->is_attending || engine->is_receiving)
                return;
        if (!engine->events)
                engine->events = weir_pq_events_new(16);
        if (engine->events && !engine->listener)
                engine->listener = weir_pq_listen(engine->pool, "weir_durable", engine->events);
        weir_task *task = engine->listener ? weir_channel_receive_new(engine->events, on_event, engine) : NULL;
        if (!task)
                return;
        weir__durable_ref(engine->base.store);
        weir_task_on_free(task, unref_store);
        engine->is_receiving = true;
        if (weir_task_start(task))
                engine->is_receiving = false;
}

static void
attend(struct weir__durable_engine *base)
{
        struct pq_engine *engine = (struct pq_engine *)base;

        pthread_mutex_lock(&engine->lock);
        engine->is_attending = true;
        listen_for_rings(engine);
        pthread_mutex_unlock(&engine->lock);
}

static void
neglect(struct weir__durable_engine *base)
{
        struct pq_engine *engine = (struct pq_engine *)base;

        pthread_mutex_lock(&engine->lock);
        weir_channel *events = engine->events;
        weir_pq_listener *listener = engine->listener;
        engine->is_attending = false;
        engine->events = NULL;
        engine->listener = NULL;
        pthread_mutex_unlock(&engine->lock);
        weir_pq_unlisten(listener);
        if (events)
                weir_channel_close(events);
        weir_channel_unref(events);
}

/* -- calls -- */

static void
end_call(struct call *call, int status, const char *reason)
{
        struct weir__durable_pq_batch *batch = &call->batch;

        for (size_t i = 0; i < batch->count; i++) {
                struct weir__durable_op *op = batch->items[i].op;
                int failed = status ? status : op->status;

                snprintf(op->reason, sizeof op->reason, "%s", failed && reason ? reason : "");
                weir__durable_op_end(op, failed);
        }
        free(call);
}

static int run_call(struct call *call);

/* A call is over.  The caller has a reference of the store. */
static void
leave_call(struct call *call, int status, const char *reason)
{
        struct pq_engine *engine = call->engine;
        enum weir__durable_pq_call kind = call->batch.call;

        if (kind < WEIR__DURABLE_PQ_BATCHED)
                weir__durable_queue_next(&engine->queues[kind]); /* it is under way while the callbacks of this one run */
        end_call(call, status, reason);
        if ((status == -ECONNRESET || status == -ETIMEDOUT) && kind <= WEIR__DURABLE_PQ_CHANGE)
                weir__durable_ring(engine->base.store); /* it may count, and nobody was told */
}

static void
on_tables(weir_task *script, void *context)
{
        struct call *call = context;
        weir_durable *store = weir__durable_ref(call->engine->base.store);
        int status = weir_task_status(script);
        const char *reason = weir_pq_problem(script);

        if (!status) {
                status = run_call(call);
                reason = NULL;
        }
        if (status)
                leave_call(call, status, reason);
        weir__durable_unref(store);
}

/* What a failure of the server leads to.  Result: 0: the call goes on; or its status. */
static int
go_on(struct call *call, const weir_task *query)
{
        const char *state = weir_pq_sqlstate(query);
        int status = weir_task_status(query);

        if ((strcmp(state, "42883") == 0 || strcmp(state, "42P01") == 0) &&
            !call->has_made_tables) { /* no such function, table */
                call->has_made_tables = true;
                return weir_task_start(weir_pq_script_new(call->engine->pool, weir__durable_pq_tables, on_tables, call));
        }
        if (strncmp(state, "40", 2) == 0 && ++call->attempts < ATTEMPTS) /* undone: a deadlock, or others were first */
                return run_call(call);
        return status;
}

static void
on_call(weir_task *query, void *context)
{
        struct call *call = context;
        weir_durable *store = weir__durable_ref(call->engine->base.store);
        int status = weir_task_status(query);
        const char *reason = weir_pq_problem(query);
        bool is_over = true;

        if (!status) {
                status = weir__durable_pq_read(&call->batch, query);
        } else {
                status = go_on(call, query);
                is_over = status != 0;
        }
        if (is_over)
                leave_call(call, status, reason);
        weir__durable_unref(store);
}

/* Result: 0, or why it has not begun. */
static int
run_call(struct call *call)
{
        return weir_task_start(weir__durable_pq_call_new(call->engine->pool, &call->batch, on_call, call));
}

static int
compare_items(const void *a, const void *b)
{
        const struct weir__durable_pq_item *one = a, *other = b;
        int order = strcmp(one->op->name, other->op->name);

        return order ? order : one->number < other->number ? -1 : 1;
}

/* A call has at most one operation of each name.  A set is left out if another one follows; other operations wait. */
static void
part_names(struct weir__durable_queue *queue, struct weir__durable_pq_batch *batch)
{
        struct weir__durable_pq_item *items = batch->items;
        struct weir__durable_op *again = NULL;
        size_t count = 0;

        for (size_t i = 0; i < batch->count; i++) {
                bool is_again = count > 0 && strcmp(items[count - 1].op->name, items[i].op->name) == 0;

                if (is_again && batch->call == WEIR__DURABLE_PQ_SET && !items[count - 1].op->keeps_same &&
                    !items[i].op->keeps_same) {
                        items[count - 1].is_superseded = true;
                        batch->superseded++;
                } else if (is_again) {
                        items[i].op->next = again;
                        again = items[i].op;
                        continue;
                }
                items[count++] = items[i];
        }
        batch->count = count;
        while (again) { /* each one to the head of the queue, the last one first */
                struct weir__durable_op *next = again->next;

                weir__durable_queue_put_back(queue, again);
                again = next;
        }
}

static struct call *
make_call(struct pq_engine *engine, struct weir__durable_op *first, size_t count)
{
        struct call *call = malloc(sizeof *call + count * sizeof *call->batch.items);

        if (!call)
                return NULL;
        *call = (struct call){.engine = engine};
        call->batch.call = weir__durable_pq_call_of(first);
        call->batch.sender = engine->sender;
        call->batch.rotation = atomic_fetch_add(&engine->rotation, 1);
        for (struct weir__durable_op *op = first; op; op = op->next) {
                size_t i = call->batch.count++;

                call->batch.items[i] = (struct weir__durable_pq_item){.op = op, .number = i};
        }
        return call;
}

static bool
start_batch(struct weir__durable_queue *queue, struct weir__durable_op *first, uint64_t number)
{
        size_t count = 0;

        (void)number;
        for (struct weir__durable_op *op = first; op; op = op->next)
                count++;
        struct call *call = make_call(queue->owner, first, count);
        if (!call) {
                weir__durable_end_all(first, -ENOMEM, NULL);
                return false;
        }
        qsort(call->batch.items, count, sizeof *call->batch.items, compare_items);
        part_names(queue, &call->batch);
        int failed = run_call(call);
        if (failed)
                end_call(call, failed, NULL);
        return !failed;
}

static void
submit(struct weir__durable_engine *base, struct weir__durable_op *op)
{
        struct pq_engine *engine = (struct pq_engine *)base;
        enum weir__durable_pq_call kind = weir__durable_pq_call_of(op);

        if (kind < WEIR__DURABLE_PQ_BATCHED) {
                weir__durable_queue_submit(&engine->queues[kind], op);
                return;
        }
        op->next = NULL;
        if (kind == WEIR__DURABLE_PQ_CLAIM) {
                pthread_mutex_lock(&engine->lock);
                listen_for_rings(engine);
                pthread_mutex_unlock(&engine->lock);
        }
        struct call *call = make_call(engine, op, 1);
        int failed = call ? run_call(call) : -ENOMEM;
        if (call && failed)
                end_call(call, failed, NULL);
        else if (failed)
                weir__durable_end_all(op, failed, NULL);
}

const struct weir__durable_engine_kind weir__durable_pq = {
        .scheme = "postgresql",
        .takes = takes,
        .open = open_engine,
        .submit = submit,
        .attend = attend,
        .neglect = neglect,
        .free = free_engine,
};
