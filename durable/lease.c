/* durable/lease.c: the deliveries that run, and the renewals of their leases.
 *
 * A renewal for all deliveries that run comes every third of the lease, and soon behind one that has failed.  It moves their
 * deadlines, and fails those outer series whose token is refused.  So a handler is over when its lease is, as far as this process
 * runs.
 *
 * Threads: any.  The list is guarded by the lock of the store. */
#include <errno.h>
#include <stdlib.h>

#include "durable/delivery.h"

#define RENEWAL_RETRY WEIR_MSEC(200) /* after an error */

/* The lock is held. */
static void
list(struct weir__durable_delivery *delivery)
{
        weir_durable *store = delivery->store;

        delivery->next = store->deliveries;
        delivery->former = NULL;
        if (delivery->next)
                delivery->next->former = delivery;
        store->deliveries = delivery;
        delivery->is_listed = true;
}

void
weir__durable_lease_end(struct weir__durable_delivery *delivery)
{
        if (!delivery->is_listed)
                return;
        if (delivery->former)
                delivery->former->next = delivery->next;
        else
                delivery->store->deliveries = delivery->next;
        if (delivery->next)
                delivery->next->former = delivery->former;
        delivery->is_listed = false;
}

/* -- renewals -- */

static void arm_renewal(weir_durable *store, weir_nsec after);

static void
renewed(struct weir__durable_op *op, const struct weir__durable_claim *claim)
{
        struct weir__durable_delivery *delivery = claim->delivery;
        weir_nsec lease_end = weir__durable_add(op->sent, op->lease);

        pthread_mutex_lock(&op->store->lock);
        bool is_listed = delivery->is_listed;
        if (is_listed && claim->is_held)
                delivery->lease_end = lease_end;
        pthread_mutex_unlock(&op->store->lock);
        if (is_listed && claim->is_held)
                weir_series_set_deadline(delivery->outer, lease_end - weir_now());
        else if (is_listed)
                weir_series_fail(delivery->outer, -ESTALE);
}

static void
on_renewed(struct weir__durable_op *op)
{
        weir_durable *store = op->store;

        for (size_t i = 0; i < op->claim_count; i++) {
                if (!op->status)
                        renewed(op, &op->claims[i]);
                weir__durable_delivery_unref(op->claims[i].delivery);
        }
        pthread_mutex_lock(&store->lock);
        store->has_renewal = false;
        arm_renewal(store, op->status ? RENEWAL_RETRY : op->lease / 3);
        pthread_mutex_unlock(&store->lock);
        weir__durable_op_free(op);
}

/* The lock is held. */
static struct weir__durable_op *
make_renewal(weir_durable *store)
{
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_RENEW, &(struct weir__durable_texts){0});

        if (!op)
                return NULL;
        op->claims = calloc(store->config.running, sizeof *op->claims);
        if (!op->claims) {
                weir__durable_op_free(op);
                return NULL;
        }
        for (struct weir__durable_delivery *delivery = store->deliveries; delivery; delivery = delivery->next)
                op->claims[op->claim_count++] = (struct weir__durable_claim){.name = delivery->row->info.name,
                                                                             .token = delivery->row->info.token,
                                                                             .delivery = weir__durable_delivery_ref(delivery)};
        op->lease = store->config.lease;
        op->ended = on_renewed;
        return op;
}

static void
on_renewal(weir_task *timer, void *context)
{
        weir_durable *store = context;
        struct weir__durable_op *op = NULL;

        pthread_mutex_lock(&store->lock);
        if (store->deliveries && weir_task_status(timer) == 0)
                op = make_renewal(store);
        if (op) {
                weir_waitgroup_add(store->group, 1);
        } else {
                store->has_renewal = false;
                if (weir_task_status(timer) == 0)
                        arm_renewal(store, RENEWAL_RETRY);
        }
        pthread_mutex_unlock(&store->lock);
        if (op) {
                weir__durable_submit(store, op);
                weir_waitgroup_done(store->group);
        }
}

static void
unref_store(void *store)
{
        weir__durable_unref(store);
}

/* The lock is held. */
static void
arm_renewal(weir_durable *store, weir_nsec after)
{
        if (store->has_renewal || !store->deliveries)
                return;
        weir_nsec third = store->config.lease / 3;
        weir_task *timer = weir_timer_new(after < third ? after : third, on_renewal, store);
        store->renewal = weir_timer_id_of(timer);
        if (!timer)
                return;
        weir__durable_ref(store);
        weir_task_on_free(timer, unref_store);
        store->has_renewal = weir_task_start(timer) == 0;
}

void
weir__durable_lease_begin(struct weir__durable_delivery *delivery)
{
        weir_durable *store = delivery->store;

        pthread_mutex_lock(&store->lock);
        list(delivery);
        arm_renewal(store, store->config.lease / 3);
        pthread_mutex_unlock(&store->lock);
}

void
weir__durable_cancel_all(weir_durable *store)
{
        pthread_mutex_lock(&store->lock);
        for (struct weir__durable_delivery *delivery = store->deliveries; delivery; delivery = delivery->next)
                weir_series_cancel(delivery->outer);
        pthread_mutex_unlock(&store->lock);
}
