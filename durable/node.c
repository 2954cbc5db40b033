/* durable/node.c: when a node looks for due timers.
 *
 * At most one look is under way.  What happens meanwhile, a ring or a set, is noted and makes another look or an earlier alarm
 * behind it.  The alarm is a ticker with the period config.look, which needs no memory once it runs.  Its next tick is moved to
 * the earliest due time that the engine has reported.  The tick after a moved one comes a period later: the phase follows the
 * move.  With a fixed phase, moves at every look would put the ticks off by a period each time.
 *
 * Threads: any.  The lock of the store is held for the decisions, and not while the engine is called. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/ticker.h>

#include "durable/store.h"

#define LOOK_MOST  256         /* timers */
#define LOOK_RETRY WEIR_SEC(1) /* after an error */

/* The next tick is a regular one.  The lock is held. */
static void
expect_regular(weir_durable *store)
{
        store->alarm_at = weir__durable_add(weir_now(), store->config.look);
}

static void
on_alarm(weir_task *ticker, void *context)
{
        weir_durable *store = context;

        if (!weir_ticker_is_tick(ticker))
                return;
        pthread_mutex_lock(&store->lock);
        expect_regular(store);
        pthread_mutex_unlock(&store->lock);
        weir__durable_look(store);
}

static void
unref(void *store)
{
        weir__durable_unref(store);
}

/* Starts the ticker.  The lock is held.  Result: 0, or an error of weir_task_start. */
static int
start_alarm(weir_durable *store)
{
        weir_task *ticker = weir_ticker_new(store->config.look, WEIR_TICK_DELAY, on_alarm, store);

        if (!ticker)
                return -ENOMEM;
        weir_task_on_free(ticker, unref);
        weir__durable_ref(store);
        store->alarm = weir_timer_id_of(ticker);
        expect_regular(store);
        return store->alarm ? weir_task_start(ticker) : (weir_task_dismiss(ticker), -ENOMEM);
}

/* Moves the next tick, if that is sooner than the regular one.  The lock is held. */
static void
arm(weir_durable *store, weir_nsec after)
{
        weir_nsec at = weir__durable_add(weir_now(), after < 0 ? 0 : after);

        if (store->is_closing || after >= store->config.look || at == store->alarm_at)
                return;
        if (weir_ticker_move_next_id(store->alarm, after < 0 ? 0 : after))
                store->alarm_at = at;
}

static void
on_looked(struct weir__durable_op *op)
{
        weir_durable *store = op->store;
        size_t count = op->row_count;

        pthread_mutex_lock(&store->lock);
        store->is_looking = false;
        store->running += (unsigned)count;
        store->stats.claimed += count;
        store->is_full = store->is_full || count == op->most;
        bool should_look = !op->status && (store->should_look_again || count == op->most);
        weir_nsec next = op->next_ready == WEIR_FOREVER ? WEIR_FOREVER : weir__durable_add(op->next_ready, -op->now);
        weir_nsec wanted = store->wanted == WEIR_FOREVER ? WEIR_FOREVER : store->wanted - weir_now();
        weir_nsec after_error = store->config.look < LOOK_RETRY ? store->config.look : LOOK_RETRY;
        weir_nsec soonest = next < wanted ? next : wanted;
        arm(store, op->status && after_error < soonest ? after_error : soonest);
        pthread_mutex_unlock(&store->lock);

        weir__durable_deliver(store, op);
        if (should_look)
                weir__durable_look(store);
        weir__durable_op_free(op);
}

/* The operation of a look; NULL when there is nothing to look for, or no memory.  The lock is held. */
static struct weir__durable_op *
make_look(weir_durable *store)
{
        struct weir__durable_op *op = weir__durable_op_new(WEIR__DURABLE_CLAIM, &(struct weir__durable_texts){0});
        unsigned room = store->config.running - store->running;

        if (!op)
                return NULL;
        op->topics = malloc(store->topic_count * sizeof *op->topics);
        if (!op->topics) {
                weir__durable_op_free(op);
                return NULL;
        }
        for (struct weir__durable_topic *topic = store->topics; topic; topic = topic->next)
                op->topics[op->topic_count++] = topic->name;
        op->most = room < LOOK_MOST ? room : LOOK_MOST;
        op->lease = store->config.lease;
        op->ended = on_looked;
        return op;
}

void
weir__durable_look(weir_durable *store)
{
        struct weir__durable_op *op = NULL;

        pthread_mutex_lock(&store->lock);
        bool may_look = !store->is_closing && store->topics;
        if (may_look && store->running >= store->config.running) {
                store->is_full = true; /* the end of a delivery looks */
        } else if (may_look && store->is_looking) {
                store->should_look_again = true;
        } else if (may_look) {
                op = make_look(store);
                if (op) {
                        store->is_looking = true;
                        store->should_look_again = false;
                        store->is_full = false;
                        store->wanted = WEIR_FOREVER;
                        store->stats.looks++;
                        weir_waitgroup_add(store->group, 1); /* before a close can begin */
                } else {
                        arm(store, LOOK_RETRY);
                }
        }
        pthread_mutex_unlock(&store->lock);
        if (!op)
                return;
        weir__durable_submit(store, op);
        weir_waitgroup_done(store->group);
}

static bool
has_topic(weir_durable *store, const char *name)
{
        struct weir__durable_topic *topic = store->topics;

        while (topic && strcmp(topic->name, name) != 0)
                topic = topic->next;
        return topic != NULL;
}

void
weir__durable_expect(weir_durable *store, const char *topic, weir_nsec after)
{
        bool should_look = false;

        pthread_mutex_lock(&store->lock);
        if (!store->is_closing && has_topic(store, topic)) {
                weir_nsec at = weir__durable_add(weir_now(), after);

                if (store->is_looking)
                        store->wanted = at < store->wanted ? at : store->wanted;
                else if (after <= 0)
                        should_look = true;
                else if (at < store->alarm_at)
                        arm(store, after);
        }
        pthread_mutex_unlock(&store->lock);
        if (should_look)
                weir__durable_look(store);
}

void
weir__durable_ring(weir_durable *store)
{
        pthread_mutex_lock(&store->lock);
        store->stats.rings++;
        pthread_mutex_unlock(&store->lock);
        weir__durable_look(store);
}

/* The first handler starts the alarm.  Another one that comes meanwhile waits, and starts it if the first one could not.
 * Result: 0, or an error of weir_task_start. */
static int
begin_to_look(weir_durable *store)
{
        pthread_mutex_lock(&store->lock);
        bool is_first = !store->has_alarm;
        int failed = is_first ? start_alarm(store) : 0;
        store->has_alarm = !failed;
        pthread_mutex_unlock(&store->lock);
        if (is_first && !failed)
                store->engine->kind->attend(store->engine);
        return failed;
}

/* Topics are never removed, so looks may point at their names.  Result: 0 or -EEXIST. */
static int
add_topic(weir_durable *store, struct weir__durable_topic *topic)
{
        pthread_mutex_lock(&store->lock);
        bool is_there = has_topic(store, topic->name);
        if (!is_there) {
                topic->next = store->topics;
                store->topics = topic;
                store->topic_count++;
        }
        pthread_mutex_unlock(&store->lock);
        return is_there ? -EEXIST : 0;
}

int
weir_durable_on(weir_durable *store, const char *name, weir_task_fn *handler, void *context)
{
        size_t size = name ? strlen(name) : 0;

        if (!store)
                return -ENOMEM;
        if (!size || !handler)
                return -EINVAL;
        if (size > WEIR_DURABLE_TOPIC_MAX)
                return -ENAMETOOLONG;
        if (weir_waitgroup_wait(store->group, 0) == -ECHILD)
                return -ECHILD; /* also if the parent has a handler */
        struct weir__durable_topic *topic = malloc(sizeof *topic + size + 1);
        if (!topic)
                return -ENOMEM;
        topic->handler = handler;
        topic->context = context;
        memcpy(topic->name, name, size + 1);
        int failed = begin_to_look(store);
        if (!failed)
                failed = add_topic(store, topic);
        if (failed)
                free(topic);
        else
                weir__durable_look(store);
        return failed;
}
