/* durable/delivery.c: handlers, and their ends.
 *
 * A delivery runs in an outer series, whose deadline is the end of the lease.  In it a module runs the series that the handler
 * sees.
 *
 *   claimed --> handler --> end of the outer series --> END, repeated while the engine fails --> freed
 *
 * While the handler runs its lease is renewed: lease.c.
 *
 * Threads: any.  The list and the marks of deliveries are guarded by the lock of the store. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>
#include <weir/promise.h>
#include <weir/runtime.h>

#include "durable/delivery.h"

#define END_RETRY WEIR_MSEC(200) /* after an error */

struct weir__durable_delivery *
weir__durable_delivery_ref(struct weir__durable_delivery *delivery)
{
        atomic_fetch_add_explicit(&delivery->references, 1, memory_order_relaxed);
        return delivery;
}

void
weir__durable_delivery_unref(struct weir__durable_delivery *delivery)
{
        if (atomic_fetch_sub_explicit(&delivery->references, 1, memory_order_acq_rel) > 1)
                return;
        weir_series_unref(delivery->outer);
        free(delivery->row);
        weir__durable_unref(delivery->store);
        free(delivery);
}

/* -- the end -- */

/* It does not run any more, and its reference is dropped. */
static void
leave(struct weir__durable_delivery *delivery)
{
        weir_durable *store = weir__durable_ref(delivery->store);

        pthread_mutex_lock(&store->lock);
        weir__durable_lease_end(delivery);
        store->running--;
        bool should_look = store->is_full;
        pthread_mutex_unlock(&store->lock);
        weir__durable_delivery_unref(delivery);
        if (should_look)
                weir__durable_look(store);
        weir_waitgroup_done(store->group);
        weir__durable_unref(store);
}

static void
note(weir_durable *store, const struct weir__durable_op *op, const struct weir__durable_delivery *delivery)
{
        struct weir_durable_stats *stats = &store->stats;

        pthread_mutex_lock(&store->lock);
        if (op->status || !op->is_done)
                stats->lost++;
        else if (op->outcome == WEIR__DURABLE_GIVE_BACK || (op->outcome == WEIR__DURABLE_RETRY && op->at == 0))
                stats->put_back++; /* by a close, or for lack of memory */
        else if (op->outcome == WEIR__DURABLE_RETRY)
                stats->retried++;
        else if (op->outcome == WEIR__DURABLE_MARK_DEAD || *op->problem)
                stats->dead++;
        else
                stats->acknowledged += delivery->has_begun;
        stats->skipped += !op->status && op->is_done && op->outcome == WEIR__DURABLE_MOVE_ON ? delivery->due.missed : 0;
        pthread_mutex_unlock(&store->lock);
}

static void
end_now(weir_task *timer, void *context)
{
        struct weir__durable_delivery *delivery = ((struct weir__durable_op *)context)->owner;
        weir_durable *store = weir__durable_ref(delivery->store);

        (void)timer;
        weir__durable_submit(store, context); /* both may be over when it returns */
        weir_waitgroup_done(store->group);
        weir__durable_unref(store);
}

/* Result: false: no memory, or the runtime is down. */
static bool
submit_later(weir_durable *store, struct weir__durable_op *op)
{
        weir_waitgroup_add(store->group, 1);
        if (weir_task_start(weir_timer_new(END_RETRY, end_now, op)) == 0)
                return true;
        weir_waitgroup_done(store->group);
        return false;
}

/* Whether the end is tried again: the engine may be back, and the lease may still hold. */
static bool
tries_again(struct weir__durable_op *op, struct weir__durable_delivery *delivery)
{
        weir_durable *store = op->store;

        if (!op->status || op->status == -ESHUTDOWN || op->status == -EPIPE)
                return false;
        pthread_mutex_lock(&store->lock);
        weir_nsec until = store->is_closing && store->patience < delivery->lease_end ? store->patience : delivery->lease_end;
        bool is_worth = weir_now() < until;
        pthread_mutex_unlock(&store->lock);
        return is_worth && submit_later(store, op);
}

static void
on_ended(struct weir__durable_op *op)
{
        struct weir__durable_delivery *delivery = op->owner;

        if (tries_again(op, delivery))
                return;
        note(op->store, op, delivery);
        if (!op->status && op->is_done && op->outcome != WEIR__DURABLE_ACKNOWLEDGE && op->outcome != WEIR__DURABLE_MARK_DEAD)
                weir__durable_expect(op->store, delivery->row->info.topic, weir__durable_add(op->ready, -op->now));
        weir__durable_op_free(op);
        leave(delivery);
}

static struct weir__durable_op *
make_end(struct weir__durable_delivery *delivery, enum weir__durable_outcome outcome, weir_nsec at, const char *problem)
{
        const struct weir_durable_info *info = &delivery->row->info;
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_END,
                                                           &(struct weir__durable_texts){.name = info->name, .problem = problem});

        if (!op)
                return NULL;
        op->token = info->token;
        op->outcome = outcome;
        op->at = at;
        op->owner = delivery;
        op->ended = on_ended;
        return op;
}

static void
submit_end(struct weir__durable_delivery *delivery, enum weir__durable_outcome outcome, weir_nsec at, const char *problem)
{
        struct weir__durable_op *op = make_end(delivery, outcome, at, problem);

        if (op)
                weir__durable_submit(delivery->store, op);
        else /* its lease ends by itself */
                leave(delivery);
}

/* Gives back a delivery that could not begin for lack of memory.  It waits before that, or the timer would be claimed at once. */
static void
give_back_later(struct weir__durable_delivery *delivery)
{
        struct weir__durable_op *op = make_end(delivery, WEIR__DURABLE_GIVE_BACK, 0, "");

        if (op && submit_later(delivery->store, op))
                return;
        if (op)
                weir__durable_op_free(op);
        leave(delivery); /* its lease ends by itself */
}

static weir_nsec
wait_before_retry(const weir_durable *store, unsigned attempt)
{
        weir_nsec wait = store->config.delay;

        while (--attempt && wait < store->config.max_delay)
                wait = weir__durable_add(wait, wait);
        return wait < store->config.max_delay ? wait : store->config.max_delay;
}

static void
fail(struct weir__durable_delivery *delivery, const char *problem)
{
        const struct weir_durable_info *info = &delivery->row->info;
        weir_durable *store = delivery->store;

        if (info->attempt < store->config.attempts)
                submit_end(delivery, WEIR__DURABLE_RETRY, wait_before_retry(store, info->attempt), problem);
        else if (*info->cron)
                submit_end(delivery, WEIR__DURABLE_MOVE_ON, delivery->due.next, problem);
        else
                submit_end(delivery, WEIR__DURABLE_MARK_DEAD, 0, problem);
}

static void
on_over(weir_series *outer, void *context)
{
        struct weir__durable_delivery *delivery = context;
        weir_durable *store = delivery->store;
        int status = weir_series_status(outer);

        if (!status)
                status = delivery->status;
        pthread_mutex_lock(&store->lock);
        weir__durable_lease_end(delivery);
        bool is_closing = store->is_closing;
        pthread_mutex_unlock(&store->lock);
        if (!delivery->has_begun && is_closing)
                submit_end(delivery, WEIR__DURABLE_GIVE_BACK, 0, "");
        else if (!delivery->has_begun)
                give_back_later(delivery);
        else if (!status && *delivery->row->info.cron)
                submit_end(delivery, WEIR__DURABLE_MOVE_ON, delivery->due.next, "");
        else if (!status)
                submit_end(delivery, WEIR__DURABLE_ACKNOWLEDGE, 0, "");
        else if (is_closing && status == -ECANCELED)
                submit_end(delivery, WEIR__DURABLE_RETRY, 0, "the node has closed the store");
        else
                fail(delivery, weir_strerror(status));
}

/* -- the begin -- */

static void
begin(weir_task *promise, void *own)
{
        (void)own;
        weir_promise_finish(promise, 0, NULL, NULL);
}

static void
describe(const void *own, char *text, size_t room)
{
        const struct weir__durable_delivery *delivery = own;

        if (room) {
                text[0] = '\0';
                strncat(text, delivery->row->info.name, room - 1);
        }
}

static void
unref(void *delivery)
{
        weir__durable_delivery_unref(delivery);
}

static const struct weir_promise_kind delivered = {
        .size = sizeof delivered,
        .begin = begin,
        .describe = describe,
        .free = unref,
};

static void
on_deliver(weir_task *task, void *context)
{
        struct weir__durable_delivery *delivery = weir_promise_own(task, &delivered);

        pthread_mutex_lock(&delivery->store->lock);
        bool is_held = weir_now() < delivery->lease_end;
        pthread_mutex_unlock(&delivery->store->lock);
        if (!is_held || weir_task_status(task))
                return; /* it is given back */
        delivery->has_begun = true;
        delivery->topic->handler(task, context);
}

static void
on_module(weir_task *module, void *context)
{
        struct weir__durable_delivery *delivery = context;

        delivery->status = weir_task_status(module);
}

/* Its own reference of the delivery is that of the outer series, until `leave`. */
static void
start(struct weir__durable_delivery *delivery)
{
        weir_series *inner = weir_series_new(NULL, NULL);
        weir_series *outer = weir_series_new(on_over, delivery);
        weir_durable *store = delivery->store;

        weir_series_push(inner, weir_promise_new_of(&delivered, weir__durable_delivery_ref(delivery), on_deliver,
                                                    delivery->topic->context));
        weir_series_push(outer, weir_module_new(inner, on_module, delivery));
        weir_series_set_deadline(outer, delivery->lease_end - weir_now());
        delivery->outer = weir_series_ref(outer);
        if (outer)
                weir__durable_lease_begin(delivery);
        if (weir_series_start(outer) == 0)
                return;
        pthread_mutex_lock(&store->lock);
        weir__durable_lease_end(delivery);
        pthread_mutex_unlock(&store->lock);
        give_back_later(delivery);
}

static const struct weir__durable_topic *
find_topic(weir_durable *store, const char *name)
{
        pthread_mutex_lock(&store->lock);
        const struct weir__durable_topic *topic = store->topics;
        while (topic && strcmp(topic->name, name) != 0)
                topic = topic->next;
        pthread_mutex_unlock(&store->lock);
        return topic;
}

static void
deliver_one(struct weir__durable_delivery *delivery, weir_nsec now)
{
        const struct weir_durable_info *info = &delivery->row->info;
        weir_durable *store = delivery->store;
        int failed = 0;

        pthread_mutex_lock(&store->lock);
        bool is_closing = store->is_closing;
        pthread_mutex_unlock(&store->lock);
        if (*info->cron)
                failed = weir__durable_decide(info, now, store->config.missed, &delivery->due);
        else
                delivery->due.due = info->due;
        if (is_closing)
                submit_end(delivery, WEIR__DURABLE_GIVE_BACK, 0, "");
        else if (failed)
                submit_end(delivery, WEIR__DURABLE_RETRY, wait_before_retry(store, 1), weir_strerror(failed));
        else if (info->attempt > store->config.attempts)
                fail(delivery, *info->problem ? info->problem : "its nodes have died");
        else if (delivery->due.is_skipped)
                submit_end(delivery, WEIR__DURABLE_MOVE_ON, delivery->due.next, "");
        else
                start(delivery);
}

void
weir__durable_deliver(weir_durable *store, struct weir__durable_op *claim)
{
        for (size_t i = 0; i < claim->row_count; i++) {
                struct weir__durable_row *row = claim->rows[i];
                struct weir__durable_delivery *delivery = calloc(1, sizeof *delivery);

                if (!delivery) { /* its lease ends by itself */
                        pthread_mutex_lock(&store->lock);
                        store->running--;
                        pthread_mutex_unlock(&store->lock);
                        continue;
                }
                claim->rows[i] = NULL;
                delivery->references = 1;
                delivery->store = weir__durable_ref(store);
                delivery->row = row;
                delivery->topic = find_topic(store, row->info.topic);
                delivery->lease_end = weir__durable_add(claim->sent, claim->lease);
                weir_waitgroup_add(store->group, 1);
                deliver_one(delivery, claim->now);
        }
}

/* -- getters -- */

static const struct weir__durable_delivery *
delivery_of(const weir_task *task)
{
        return weir_promise_own(task, &delivered);
}

const struct weir_durable_info *
weir__durable_delivered(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? &delivery->row->info : NULL;
}

const char *
weir_durable_name(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->row->info.name : NULL;
}

const char *
weir_durable_topic(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->row->info.topic : NULL;
}

const void *
weir_durable_payload(const weir_task *task, size_t *size)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        if (size)
                *size = delivery ? delivery->row->info.payload_size : 0;
        return delivery ? delivery->row->info.payload : NULL;
}

unsigned
weir_durable_attempt(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->row->info.attempt : 0;
}

uint64_t
weir_durable_token(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->row->info.token : 0;
}

weir_nsec
weir_durable_due(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->due.due : 0;
}

unsigned
weir_durable_missed(const weir_task *task)
{
        const struct weir__durable_delivery *delivery = delivery_of(task);

        return delivery ? delivery->due.missed : 0;
}
