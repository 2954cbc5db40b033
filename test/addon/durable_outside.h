/* test/addon/durable_outside.h: an engine outside the process, on the virtual clock.
 *
 * The clock stands while an operation is under way, and the engine takes the time of the wall clock for its own.  Its rings are
 * calls of this file instead of messages, for which no clock would wait.
 *
 * The clock also stands while the engine connects (OUTSIDE_CONNECTS): one more connection may be wanted by an operation that ends
 * without it.  Its limit is on the clock, so a leap would end the attempt, and the next leap the next attempt.  Hundreds of them
 * are more than a server takes at a time. */
#ifndef WEIR_TEST_DURABLE_OUTSIDE_H
#define WEIR_TEST_DURABLE_OUTSIDE_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/go.h>

#include "durable/store.h"

struct outside_op {
        struct outside_op *next;
        struct weir__durable_op *op;
        void (*ended)(struct weir__durable_op *op);
};

struct outside_store {
        weir_durable *store;
        bool is_attending;
};

static pthread_mutex_t outside_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct weir__durable_engine_kind *outside_real;
static struct weir__durable_engine_kind outside_kind;
static struct outside_op *outside_ops;         /* guarded by the lock, as the rest */
static struct outside_store outside_stores[8]; /* those that are open */

static inline struct outside_store *
outside_find(const weir_durable *store)
{
        for (size_t i = 0; i < sizeof outside_stores / sizeof *outside_stores; i++)
                if (outside_stores[i].store == store)
                        return &outside_stores[i];
        abort();
}

static inline void
outside_ring(const weir_durable *from)
{
        weir_durable *rung[8];
        size_t count = 0;

        pthread_mutex_lock(&outside_lock);
        for (size_t i = 0; i < 8; i++)
                if (outside_stores[i].is_attending && outside_stores[i].store != from)
                        rung[count++] = weir__durable_ref(outside_stores[i].store);
        pthread_mutex_unlock(&outside_lock);
        for (size_t i = 0; i < count; i++) {
                weir__durable_ring(rung[i]);
                weir__durable_unref(rung[i]);
        }
}

#ifndef OUTSIDE_CONNECTS
#define OUTSIDE_CONNECTS(engine) false
#endif

/* On a thread of the executor. */
static inline void
outside_release(void *context)
{
        weir_durable *store = context;

        while (OUTSIDE_CONNECTS(store->engine))
                usleep(1000);
        weir_clock_release();
        weir__durable_unref(store);
}

static inline void
outside_ended(struct weir__durable_op *op)
{
        weir_durable *store = OUTSIDE_CONNECTS(op->store->engine) ? weir__durable_ref(op->store) : NULL;

        struct outside_op **at = &outside_ops;

        pthread_mutex_lock(&outside_lock);
        while ((*at)->op != op)
                at = &(*at)->next;
        struct outside_op *mine = *at;
        *at = mine->next;
        pthread_mutex_unlock(&outside_lock);
        op->ended = mine->ended;
        if (!op->status && op->is_earliest)
                outside_ring(op->store);
        free(mine);
        op->ended(op);
        if (!store)
                weir_clock_release();
        else if (weir_task_start(weir_go_new("outside", outside_release, NULL, store)))
                outside_release(store); /* while the runtime ends */
}

static inline void
outside_begin(weir_task *task, void *context)
{
        struct outside_op *mine = context;
        struct weir__durable_op *op = mine->op;

        if (weir_task_status(task)) {
                free(mine);
                weir__durable_op_end(op, weir_task_status(task));
                return;
        }
        weir_clock_hold();
        op->as_if_now = op->as_if_now ? op->as_if_now : weir_wall_now();
        op->ended = outside_ended;
        pthread_mutex_lock(&outside_lock);
        mine->next = outside_ops;
        outside_ops = mine;
        pthread_mutex_unlock(&outside_lock);
        outside_real->submit(op->store->engine, op);
}

static inline void
outside_submit(struct weir__durable_engine *engine, struct weir__durable_op *op)
{
        struct outside_op *mine = malloc(sizeof *mine);

        (void)engine;
        *mine = (struct outside_op){NULL, op, op->ended};
        int failed = weir_task_start(weir_empty_new(outside_begin, mine));
        if (failed) {
                free(mine);
                weir__durable_op_end(op, failed);
        }
}

static inline void
outside_set_attending(const weir_durable *store, bool is_attending)
{
        pthread_mutex_lock(&outside_lock);
        outside_find(store)->is_attending = is_attending;
        pthread_mutex_unlock(&outside_lock);
}

static inline void
outside_attend(struct weir__durable_engine *engine)
{
        outside_set_attending(engine->store, true);
}

static inline void
outside_neglect(struct weir__durable_engine *engine)
{
        outside_set_attending(engine->store, false);
}

static inline void
outside_free(struct weir__durable_engine *engine)
{
        pthread_mutex_lock(&outside_lock);
        outside_find(engine->store)->store = NULL;
        pthread_mutex_unlock(&outside_lock);
        outside_real->free(engine);
}

/* Whether the library has the engine of a URL. */
static inline bool
outside_is_built(const char *some_url)
{
        weir_durable *store = weir_durable_open(some_url);
        bool is_built = store || errno != EPROTONOSUPPORT;

        weir_durable_close(store);
        return is_built;
}

/* Puts itself before the engine of a store; NULL is left alone. */
static inline weir_durable *
outside(weir_durable *store)
{
        if (!store)
                return NULL;
        outside_real = store->engine->kind;
        outside_kind = *outside_real;
        outside_kind.submit = outside_submit;
        outside_kind.attend = outside_attend;
        outside_kind.neglect = outside_neglect;
        outside_kind.free = outside_free;
        store->engine->kind = &outside_kind;
        pthread_mutex_lock(&outside_lock);
        *outside_find(NULL) = (struct outside_store){store, false};
        pthread_mutex_unlock(&outside_lock);
        return store;
}

#endif
