/* durable/engine/redis.c: timers in Redis.
 *
 * Operations wait in a queue.  A call of the script takes what waits, up to BATCH_MOST timers.  While it is under way the next
 * operations gather, because a call costs the server more than an operation.  When WAITING_LEAST wait, another call begins
 * beside it, so the server works on one while the replies to the other are read.  Each operation
 * of a call succeeds or fails by itself; if no reply comes, all of them fail, and nobody knows whether they have happened.  Calls
 * that change something are therefore never repeated once they are out.
 *
 * The script rings by PUBLISH, with the name of the store, which does not listen to itself.
 *
 * Threads: any; `lock` guards the queue and the subscription. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/channel.h>
#include <weir/redis.h>

#include "durable/engine/redis_op.h"

#define BATCH_MOST    128
#define CALLS_MOST    2
#define WAITING_LEAST 64 /* operations that wait, for a second call */
#define RING          WEIR__DURABLE_REDIS_BASE ":ring"

struct redis_engine {
        struct weir__durable_engine base;

        /* Constant. */
        weir_redis *redis;
        weir_redis_script *script;
        char id[40]; /* of the store, for rings */

        /* Guarded by `lock`. */
        pthread_mutex_t lock;
        struct weir__durable_op *first, **last;
        size_t waiting;                        /* how many */
        unsigned calls;                        /* that are under way */
        weir_redis_subscription *subscription; /* NULL: no handler yet, or no more */
        bool is_subscribed;                    /* to the rings */
        bool is_receiving;                     /* a task waits for the next one */
        bool is_attending;                     /* between attend and neglect */
};

struct batch {
        struct redis_engine *engine;
        struct weir__durable_op *first;
};

/* -- life -- */

static bool
takes(const char *url)
{
        static const char *const beginnings[] = {"redis://", "rediss://", "redis+", "rediss+", "unix://"};

        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
                if (strncmp(url, beginnings[i], strlen(beginnings[i])) == 0)
                        return true;
        return false;
}

/* Stores of one name may be many, so the pid and the address make them different, and a random number those of other machines. */
static void
name_store(struct redis_engine *engine)
{
        uint64_t random = (uintptr_t)engine;

        if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
                random = (uint64_t)weir_now();
        snprintf(engine->id, sizeof engine->id, "%016llx%p", (unsigned long long)random, (void *)engine);
}

static void
free_engine(struct weir__durable_engine *base)
{
        struct redis_engine *engine = (struct redis_engine *)base;

        weir_redis_script_unref(engine->script);
        weir_redis_unref(engine->redis);
        pthread_mutex_destroy(&engine->lock);
        free(engine);
}

static struct weir__durable_engine *
open_engine(const char *url, weir_durable *store)
{
        struct weir_redis_config config = WEIR_REDIS_CONFIG_DEFAULT;
        struct redis_engine *engine = calloc(1, sizeof *engine);

        if (!engine)
                return NULL;
        config.name = "weir-durable";
        config.max_reply = (size_t)1 << 30;
        config.command_limit = WEIR_SEC(10); /* so that a renewal that got no answer can be repeated within the lease */
        engine->base = (struct weir__durable_engine){&weir__durable_redis, store};
        engine->last = &engine->first;
        pthread_mutex_init(&engine->lock, NULL);
        name_store(engine);
        engine->script = weir_redis_script_new(weir__durable_redis_script);
        if (!engine->script)
                errno = ENOMEM;
        engine->redis = engine->script ? weir_redis_new(url, &config) : NULL;
        if (engine->redis)
                return &engine->base;
        int failed = errno;
        free_engine(&engine->base);
        errno = failed;
        return NULL;
}

/* -- calls -- */

static void send_waiting(struct redis_engine *engine);

/* Ends those of a list.  Without a text they keep the reasons that they have. */
static void
end_all(struct weir__durable_op *op, int status, const char *text)
{
        while (op) {
                struct weir__durable_op *next = op->next;

                if (text)
                        snprintf(op->reason, sizeof op->reason, "%s", text);
                weir__durable_op_end(op, status);
                op = next;
        }
}

/* Reads the results.  Those of which a part is left go back into the queue, in front. */
static void
end_each(struct redis_engine *engine, struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        const struct weir_redis_reply *time = weir_redis_item(reply, 0), *replies = weir_redis_item(reply, 1);

        for (size_t i = 0; op; i++) {
                struct weir__durable_op *next = op->next;
                int status = weir__durable_redis_read(op, time, weir_redis_item(replies, i));

                if (status == WEIR__DURABLE_REDIS_AGAIN) {
                        pthread_mutex_lock(&engine->lock);
                        op->next = engine->first;
                        if (!op->next)
                                engine->last = &op->next;
                        engine->first = op;
                        engine->waiting++;
                        pthread_mutex_unlock(&engine->lock);
                } else {
                        weir__durable_op_end(op, status);
                }
                op = next;
        }
}

static void
on_called(weir_task *task, void *context)
{
        struct batch *batch = context;
        struct redis_engine *engine = batch->engine;
        weir_durable *store = weir__durable_ref(engine->base.store);
        int status = weir_task_status(task);

        pthread_mutex_lock(&engine->lock);
        engine->calls--;
        pthread_mutex_unlock(&engine->lock);
        send_waiting(engine); /* it is under way while the callbacks of this one run */
        if (status)
                end_all(batch->first, status, weir_redis_problem(task));
        else
                end_each(engine, batch->first, weir_redis_reply(task));
        send_waiting(engine);
        weir__durable_unref(store);
}

/* Sets come first, and then ends: the script gathers what is alike.  What overlaps may be carried out in any order. */
static struct weir__durable_op *
sort(struct weir__durable_op *op)
{
        struct weir__durable_op *sorted[3], **ends[3] = {&sorted[0], &sorted[1], &sorted[2]};

        while (op) {
                size_t which = op->kind == WEIR__DURABLE_SET ? 0 : op->kind == WEIR__DURABLE_END ? 1 : 2;

                *ends[which] = op;
                ends[which] = &op->next;
                op = op->next;
        }
        *ends[2] = NULL;
        *ends[1] = sorted[2];
        *ends[0] = sorted[1];
        return sorted[0];
}

/* Takes some operations out of the queue, and counts a call, if one may begin. */
static struct weir__durable_op *
take_some(struct redis_engine *engine)
{
        struct weir__durable_op *first = NULL, **end = &engine->first;

        pthread_mutex_lock(&engine->lock);
        if (engine->first && (!engine->calls || (engine->calls < CALLS_MOST && engine->waiting >= WAITING_LEAST))) {
                size_t weight = 0;

                for (; *end && (!weight || weight + weir__durable_redis_weight(*end) <= BATCH_MOST); end = &(*end)->next) {
                        weight += weir__durable_redis_weight(*end);
                        engine->waiting--;
                }
                first = engine->first;
                engine->first = *end;
                if (!engine->first)
                        engine->last = &engine->first;
                *end = NULL;
                engine->calls++;
        }
        pthread_mutex_unlock(&engine->lock);
        return sort(first);
}

/* Whether all of them may be carried out twice. */
static bool
is_repeatable(const struct weir__durable_op *op)
{
        for (; op; op = op->next)
                if (op->kind != WEIR__DURABLE_GET && op->kind != WEIR__DURABLE_LIST && op->kind != WEIR__DURABLE_COUNT &&
                    op->kind != WEIR__DURABLE_RENEW)
                        return false;
        return true;
}

/* The task of a call, or NULL when out of memory. */
static weir_task *
make_call(struct redis_engine *engine, struct weir__durable_op *first, void *batch)
{
        struct weir__durable_redis_words words = {0};
        size_t room = 3;

        for (struct weir__durable_op *op = first; op; op = op->next)
                room += weir__durable_redis_room(op);
        char *block = malloc(room * (sizeof *words.texts + sizeof *words.sizes + sizeof *words.numbers));
        if (!block)
                return NULL;
        words.texts = (const char **)block;
        words.sizes = (size_t *)(block + room * sizeof *words.texts);
        words.numbers = (char(*)[24])(block + room * (sizeof *words.texts + sizeof *words.sizes));
        weir__durable_redis_add(&words, WEIR__DURABLE_REDIS_BASE, strlen(WEIR__DURABLE_REDIS_BASE));
        weir__durable_redis_add(&words, first->node, strlen(first->node));
        weir__durable_redis_add(&words, engine->id, strlen(engine->id));
        for (struct weir__durable_op *op = first; op; op = op->next)
                weir__durable_redis_write(&words, op);
        weir_task *task = weir_redis_call_new(engine->redis, engine->script, 1, words.count, words.texts, words.sizes, on_called,
                                              batch);
        free(block);
        return task;
}

static int
start_call(struct redis_engine *engine, struct weir__durable_op *first)
{
        struct batch *batch = malloc(sizeof *batch);

        if (!batch)
                return -ENOMEM;
        *batch = (struct batch){engine, first};
        weir_task *task = make_call(engine, first, batch);
        if (is_repeatable(first))
                weir_redis_set_repeatable(task);
        weir_task_set_context(task, batch, free);
        return weir_task_start(task);
}

/* Starts calls of what waits. */
static void
send_waiting(struct redis_engine *engine)
{
        struct weir__durable_op *first;

        while ((first = take_some(engine)) != NULL) {
                int failed = start_call(engine, first);

                if (!failed)
                        continue;
                pthread_mutex_lock(&engine->lock);
                engine->calls--;
                pthread_mutex_unlock(&engine->lock);
                end_all(first, failed, "");
        }
}

static void listen_for_rings(struct redis_engine *engine);

static void
submit(struct weir__durable_engine *base, struct weir__durable_op *op)
{
        struct redis_engine *engine = (struct redis_engine *)base;
        weir_durable *store = weir__durable_ref(base->store);

        op->next = NULL;
        *op->reason = '\0';
        op->claims_done = 0;
        pthread_mutex_lock(&engine->lock);
        if (op->kind == WEIR__DURABLE_CLAIM)
                listen_for_rings(engine);
        *engine->last = op;
        engine->last = &op->next;
        engine->waiting++;
        pthread_mutex_unlock(&engine->lock);
        send_waiting(engine);
        weir__durable_unref(store);
}

/* -- rings -- */

static void on_message(weir_task *task, void *context);

static void
unref(void *engine)
{
        weir__durable_unref(((struct redis_engine *)engine)->base.store);
}

/* The lock is held. */
static void
receive_next(struct redis_engine *engine)
{
        weir_task *task = weir_channel_receive_new(weir_redis_subscription_channel(engine->subscription), on_message, engine);

        if (!task)
                return;
        weir__durable_ref(engine->base.store);
        weir_task_on_free(task, unref);
        engine->is_receiving = true;
        if (weir_task_start(task))
                engine->is_receiving = false;
}

/* Another store has rung; or what was published until now may have been missed. */
static bool
is_ring(const struct redis_engine *engine, const struct weir_redis_message *message)
{
        if (!message || message->kind != WEIR_REDIS_MESSAGE)
                return message && message->kind == WEIR_REDIS_SUBSCRIBED;
        return message->size != strlen(engine->id) || memcmp(message->data, engine->id, message->size) != 0;
}

static void
on_message(weir_task *task, void *context)
{
        struct redis_engine *engine = context;
        bool is_rung = false;

        pthread_mutex_lock(&engine->lock);
        engine->is_receiving = false;
        if (weir_task_status(task) == 0 && engine->subscription) {
                receive_next(engine); /* before the look: what is published from now on rings again */
                is_rung = is_ring(engine, weir_channel_message(task));
        }
        pthread_mutex_unlock(&engine->lock);
        if (is_rung)
                weir__durable_ring(engine->base.store);
}

/* Does what is missing of it; what fails is tried again with the next look.  The lock is held. */
static void
listen_for_rings(struct redis_engine *engine)
{
        const struct weir_redis_subscription_config config = {
                .size = sizeof config, .capacity = 16, .overflow = WEIR_REDIS_OVERFLOW_OLDEST};

        if (!engine->is_attending || engine->is_receiving)
                return;
        if (!engine->subscription)
                engine->subscription = weir_redis_subscription_new(engine->redis, &config);
        if (engine->subscription && !engine->is_subscribed)
                engine->is_subscribed = weir_redis_subscribe(engine->subscription, RING) == 0;
        if (engine->subscription && engine->is_subscribed)
                receive_next(engine);
}

static void
attend(struct weir__durable_engine *base)
{
        struct redis_engine *engine = (struct redis_engine *)base;

        pthread_mutex_lock(&engine->lock);
        engine->is_attending = true;
        listen_for_rings(engine);
        pthread_mutex_unlock(&engine->lock);
}

static void
neglect(struct weir__durable_engine *base)
{
        struct redis_engine *engine = (struct redis_engine *)base;

        pthread_mutex_lock(&engine->lock);
        weir_redis_subscription *subscription = engine->subscription;
        engine->subscription = NULL;
        engine->is_attending = false;
        pthread_mutex_unlock(&engine->lock);
        weir_redis_subscription_close(subscription);
}

const struct weir__durable_engine_kind weir__durable_redis = {
        .scheme = "redis",
        .takes = takes,
        .open = open_engine,
        .submit = submit,
        .attend = attend,
        .neglect = neglect,
        .free = free_engine,
};
