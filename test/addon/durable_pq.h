/* test/addon/durable_pq.h: a server of PostgreSQL for suites of durable timers, and stores of it on the virtual clock.
 *
 * The server has a time of its own.  A store of pq_open_as_if tells each operation what time it is on the clock of the test, which
 * stands still until the server has answered.  Rings come by calls then, and not by NOTIFY. */
#ifndef WEIR_TEST_DURABLE_PQ_H
#define WEIR_TEST_DURABLE_PQ_H

#include "test/support.h"

#include "test/addon/pq_server.h"

#include <weir/clock.h>
#include <weir/durable.h>

#include "durable/store.h"

/* Starts the server.  Result: false: PostgreSQL is not installed. */
static inline bool
pq_start(void)
{
        return server.keeper >= 0 || server_make();
}

/* The URL of tables that are not there yet: of a schema of their own. */
static inline const char *
pq_url(void)
{
        static char url[160];
        static int number;
        char sql[60];

        snprintf(sql, sizeof sql, "CREATE SCHEMA s%d", number);
        server_ask(sql);
        snprintf(url, sizeof url, "postgresql://weir@/postgres?host=%s&port=%d&options=-csearch_path%%3Ds%d", server.directory,
                 server.port, number++);
        return url;
}

/* -- the clock -- */

static struct {
        pthread_mutex_t lock;
        weir_durable *attending[8];
        struct pq_held {
                struct pq_held *next;
                struct weir__durable_op *op;
                void (*ended)(struct weir__durable_op *op);
        } * held;
} pq_stores = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void
pq_ring_others(const weir_durable *store)
{
        weir_durable *others[8];
        int count = 0;

        pthread_mutex_lock(&pq_stores.lock);
        for (int i = 0; i < 8; i++)
                if (pq_stores.attending[i] && pq_stores.attending[i] != store)
                        others[count++] = weir__durable_ref(pq_stores.attending[i]);
        pthread_mutex_unlock(&pq_stores.lock);
        while (count > 0) {
                weir__durable_ring(others[--count]);
                weir__durable_unref(others[count]);
        }
}

static inline void
pq_on_ended(struct weir__durable_op *op)
{
        pthread_mutex_lock(&pq_stores.lock);
        struct pq_held **at = &pq_stores.held;
        while ((*at)->op != op)
                at = &(*at)->next;
        struct pq_held *held = *at;
        *at = held->next;
        pthread_mutex_unlock(&pq_stores.lock);
        if (!op->status && op->is_earliest)
                pq_ring_others(op->store);
        held->ended(op);
        free(held);
        weir_clock_release();
}

static inline void
pq_submit(weir_task *task, void *context)
{
        struct weir__durable_op *op = context;

        if (weir_task_status(task) == 0) {
                struct pq_held *held = malloc(sizeof *held);

                weir_clock_hold();
                pthread_mutex_lock(&pq_stores.lock);
                *held = (struct pq_held){pq_stores.held, op, op->ended};
                pq_stores.held = held;
                pthread_mutex_unlock(&pq_stores.lock);
                op->ended = pq_on_ended;
        }
        op->as_if_now = op->as_if_now ? op->as_if_now : weir_wall_now();
        weir__durable_pq.submit(op->store->engine, op);
}

static inline void
pq_submit_held(struct weir__durable_engine *engine, struct weir__durable_op *op)
{
        if (weir_task_start(weir_empty_new(pq_submit, op)) != 0)
                weir__durable_pq.submit(engine, op);
}

/* Puts `to` in the place of `from`. */
static inline void
pq_replace(const weir_durable *from, weir_durable *to)
{
        pthread_mutex_lock(&pq_stores.lock);
        for (int i = 0; i < 8; i++)
                if (pq_stores.attending[i] == from) {
                        pq_stores.attending[i] = to;
                        break;
                }
        pthread_mutex_unlock(&pq_stores.lock);
}

static inline void
pq_attend(struct weir__durable_engine *engine)
{
        pq_replace(NULL, engine->store);
}

static inline void
pq_neglect(struct weir__durable_engine *engine)
{
        pq_replace(engine->store, NULL);
}

static inline weir_durable *
pq_as_if(weir_durable *store)
{
        static struct weir__durable_engine_kind as_if;

        as_if = weir__durable_pq;
        as_if.submit = pq_submit_held;
        as_if.attend = pq_attend;
        as_if.neglect = pq_neglect;
        if (store)
                store->engine->kind = &as_if;
        return store;
}

static inline weir_durable *
pq_open_as_if(const char *url)
{
        return pq_as_if(weir_durable_open(url));
}

#endif
