/* database/redis/subscribe.c: subscriptions, as the program has them, and their messages.
 *
 * Locks: the subscription's.  Tasks are started under it, so that what is said of topics goes out in the order of the calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

#define CAPACITY 1024

/* -- life -- */

weir_redis_subscription *
weir_redis_subscription_new(weir_redis *redis, const struct weir_redis_subscription_config *config)
{
        weir_redis_subscription *subscription = redis ? calloc(1, sizeof *subscription) : NULL;

        if (config && (config->size != sizeof *config || config->overflow > WEIR_REDIS_OVERFLOW_NEWEST)) {
                free(subscription);
                errno = EINVAL;
                return NULL;
        }
        if (subscription)
                subscription->channel = weir_channel_new(config && config->capacity ? config->capacity : CAPACITY, free);
        if (!subscription || !subscription->channel) {
                free(subscription);
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&subscription->references, 1);
        subscription->slot = -1;
        subscription->redis = weir_redis_ref(redis);
        subscription->overflow = config ? config->overflow : WEIR_REDIS_OVERFLOW_WAIT;
        pthread_mutex_init(&subscription->lock, NULL);
        return subscription;
}

void
weir__redis_subscription_unref(void *context)
{
        weir_redis_subscription *subscription = context;

        if (atomic_fetch_sub_explicit(&subscription->references, 1, memory_order_acq_rel) != 1)
                return;
        for (struct weir__redis_topic *topic; (topic = subscription->topics);) {
                subscription->topics = topic->next;
                free(topic);
        }
        weir_channel_unref(subscription->channel);
        weir_redis_unref(subscription->redis);
        pthread_mutex_destroy(&subscription->lock);
        free(subscription->input);
        free(subscription);
}

void
weir_redis_subscription_close(weir_redis_subscription *subscription)
{
        if (!subscription)
                return;
        pthread_mutex_lock(&subscription->lock);
        subscription->is_closed = true;
        weir_series_cancel(subscription->series);
        pthread_mutex_unlock(&subscription->lock);
        weir_channel_close(subscription->channel);
        weir__redis_subscription_unref(subscription);
}

weir_channel *
weir_redis_subscription_channel(const weir_redis_subscription *subscription)
{
        return subscription ? subscription->channel : NULL;
}

uint64_t
weir_redis_subscription_dropped(const weir_redis_subscription *subscription)
{
        return subscription ? atomic_load_explicit(&subscription->dropped, memory_order_relaxed) : 0;
}

/* -- topics -- */

/* The next connection says all. */
static void
leave(weir_redis_subscription *subscription)
{
        subscription->is_left = true;
        weir_stream_break(subscription->stream);
}

static void
say(weir_redis_subscription *subscription, const char *verb, const char *name)
{
        const char *words[] = {verb, name};
        size_t size = weir__redis_encoded_size(2, words, NULL);
        char *bytes = malloc(size);

        if (bytes)
                weir__redis_encode(bytes, 2, words, NULL);
        if (!bytes || weir_task_start(weir_stream_write_new(subscription->stream, bytes, size, NULL, NULL)) != 0)
                leave(subscription);
        free(bytes);
}

static const char *const begins[] = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}, *const ends[] = {"UNSUBSCRIBE", "PUNSUBSCRIBE",
                                                                                                "SUNSUBSCRIBE"};

void
weir__redis_subscribe_all(weir_redis_subscription *subscription)
{
        subscription->ended = 0;
        for (struct weir__redis_topic *topic = subscription->topics; topic; topic = topic->next)
                say(subscription, begins[topic->kind], topic->name);
}

/* Where the topic is in the list, or its end. */
static struct weir__redis_topic **
find(weir_redis_subscription *subscription, const char *name, enum weir__redis_topic_kind kind)
{
        struct weir__redis_topic **at = &subscription->topics;

        while (*at && ((*at)->kind != kind || strcmp((*at)->name, name) != 0))
                at = &(*at)->next;
        return at;
}

static bool
has_sharded(const weir_redis_subscription *subscription)
{
        for (const struct weir__redis_topic *topic = subscription->topics; topic; topic = topic->next)
                if (topic->kind == WEIR__REDIS_SHARDED)
                        return true;
        return false;
}

bool
weir__redis_lost_topic(weir_redis_subscription *subscription, const char *name)
{
        pthread_mutex_lock(&subscription->lock);
        bool is_answer = subscription->ended > 0;
        subscription->ended -= is_answer;
        bool is_lost = !is_answer && *find(subscription, name, WEIR__REDIS_SHARDED);
        pthread_mutex_unlock(&subscription->lock);
        return is_lost;
}

/* The slot in which the subscription is with that channel: the connection moves there.  Returns -EXDEV if it is in another. */
static int
enter_slot(weir_redis_subscription *subscription, const char *name)
{
        int slot = subscription->redis->settings->mode == WEIR__REDIS_CLUSTER ? weir__redis_slot_of(name, strlen(name)) : -1;

        if (slot == subscription->slot)
                return 0;
        if (has_sharded(subscription))
                return -EXDEV;
        subscription->slot = slot;
        if (subscription->stream)
                leave(subscription);
        return 0;
}

static int
add(weir_redis_subscription *subscription, const char *name, enum weir__redis_topic_kind kind)
{
        struct weir__redis_topic **at = find(subscription, name, kind), *topic;
        size_t size = strlen(name) + 1;

        if (*at)
                return -EALREADY;
        topic = malloc(sizeof *topic + size);
        if (!topic)
                return -ENOMEM;
        topic->next = NULL;
        topic->kind = kind;
        memcpy(topic->name, name, size);
        int failed = kind == WEIR__REDIS_SHARDED ? enter_slot(subscription, name) : 0;
        *at = topic;
        if (!failed && !subscription->series)
                failed = weir__redis_listen(subscription);
        if (!failed) {
                if (subscription->stream)
                        say(subscription, begins[kind], name);
                return 0;
        }
        *at = NULL;
        free(topic);
        return failed;
}

static int
take_out(weir_redis_subscription *subscription, const char *name, enum weir__redis_topic_kind kind)
{
        struct weir__redis_topic **at = find(subscription, name, kind), *topic = *at;

        if (!topic)
                return -EALREADY;
        *at = topic->next;
        if (subscription->stream) {
                subscription->ended += kind == WEIR__REDIS_SHARDED;
                say(subscription, ends[kind], name);
        }
        free(topic);
        return 0;
}

static int
change(weir_redis_subscription *subscription, const char *name, enum weir__redis_topic_kind kind,
       int (*how)(weir_redis_subscription *subscription, const char *name, enum weir__redis_topic_kind kind))
{
        if (!subscription)
                return -ENOMEM;
        if (!name || !*name)
                return -EINVAL;
        pthread_mutex_lock(&subscription->lock);
        int result = how(subscription, name, kind);
        pthread_mutex_unlock(&subscription->lock);
        return result;
}

int
weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, WEIR__REDIS_CHANNEL, add);
}

int
weir_redis_subscribe_pattern(weir_redis_subscription *subscription, const char *pattern)
{
        return change(subscription, pattern, WEIR__REDIS_PATTERN, add);
}

int
weir_redis_subscribe_sharded(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, WEIR__REDIS_SHARDED, add);
}

int
weir_redis_unsubscribe(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, WEIR__REDIS_CHANNEL, take_out);
}

int
weir_redis_unsubscribe_pattern(weir_redis_subscription *subscription, const char *pattern)
{
        return change(subscription, pattern, WEIR__REDIS_PATTERN, take_out);
}

int
weir_redis_unsubscribe_sharded(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, WEIR__REDIS_SHARDED, take_out);
}

/* -- messages -- */

/* A message with its texts in one block. */
static struct weir_redis_message *
make(enum weir_redis_message_kind kind, const struct weir_redis_reply *channel, const struct weir_redis_reply *pattern,
     const struct weir_redis_reply *data)
{
        const struct weir_redis_reply *parts[3] = {channel, pattern, data};
        const char *texts[3] = {NULL, NULL, NULL};
        size_t size = sizeof(struct weir_redis_message);

        for (unsigned i = 0; i < 3; i++)
                size += parts[i] ? parts[i]->size + 1 : 0;
        struct weir_redis_message *message = malloc(size);
        if (!message)
                return NULL;
        char *at = (char *)(message + 1);
        for (unsigned i = 0; i < 3; i++) {
                if (!parts[i])
                        continue;
                memcpy(at, parts[i]->text, parts[i]->size + 1);
                texts[i] = at;
                at += parts[i]->size + 1;
        }
        *message = (struct weir_redis_message){
                .kind = kind, .channel = texts[0], .pattern = texts[1], .data = texts[2], .size = data ? data->size : 0};
        return message;
}

void
weir_redis_message_free(struct weir_redis_message *message)
{
        free(message);
}

struct weir_redis_message *
weir__redis_message_lost(int status)
{
        struct weir_redis_message *message = make(WEIR_REDIS_LOST, NULL, NULL, NULL);

        if (message)
                message->status = status;
        return message;
}

bool
weir__redis_is_end_of_shard(const char *data, size_t size)
{
        static const char behind[] = "3\r\n$12\r\nsunsubscribe\r\n$"; /* and a channel: a null is none */

        return size > sizeof behind && (*data == '*' || *data == '>') && memcmp(data + 1, behind, sizeof behind - 1) == 0;
}

static bool
is_text(const struct weir_redis_reply *reply)
{
        return reply && reply->type == WEIR_REDIS_STRING;
}

/* Of an array or a push.  Result: as weir__redis_message_read. */
static int
read_items(const struct weir_redis_reply *root, struct weir_redis_message **out)
{
        const struct weir_redis_reply *channel = weir_redis_item(root, 1), *data = weir_redis_item(root, 2),
                                      *matched = weir_redis_item(root, 3);
        const char *kind = weir_redis_text(weir_redis_item(root, 0));

        if (strcmp(kind, "pong") == 0 || strcmp(kind, "invalidate") == 0)
                return 0;
        if (strcmp(kind, "unsubscribe") == 0 || strcmp(kind, "punsubscribe") == 0 || strcmp(kind, "sunsubscribe") == 0) {
                if (!is_text(channel)) /* there was nothing to end */
                        return 0;
                *out = make(WEIR_REDIS_UNSUBSCRIBED, channel, NULL, NULL);
        } else if (!is_text(channel)) {
                return -EPROTO;
        } else if (strcmp(kind, "subscribe") == 0 || strcmp(kind, "psubscribe") == 0 || strcmp(kind, "ssubscribe") == 0) {
                *out = make(WEIR_REDIS_SUBSCRIBED, channel, NULL, NULL);
        } else if ((strcmp(kind, "message") == 0 || strcmp(kind, "smessage") == 0) && is_text(data)) {
                *out = make(WEIR_REDIS_MESSAGE, channel, NULL, data);
        } else if (strcmp(kind, "pmessage") == 0 && is_text(data) && is_text(matched)) {
                *out = make(WEIR_REDIS_MESSAGE, data, channel, matched);
        } else {
                return -EPROTO;
        }
        return *out ? 1 : -ENOMEM;
}

int
weir__redis_message_read(const char *data, size_t size, struct weir_redis_message **out)
{
        struct weir__redis_tree tree;
        int result = weir__redis_build(data, size, NULL, 0, &tree);

        if (result)
                return result;
        if (tree.root->type == WEIR_REDIS_ARRAY || tree.root->type == WEIR_REDIS_PUSH) {
                result = read_items(tree.root, out);
        } else if (tree.root->type == WEIR_REDIS_ERROR) {
                *out = make(WEIR_REDIS_REFUSED, NULL, NULL, tree.root);
                result = *out ? 1 : -ENOMEM;
                if (*out)
                        (*out)->status = weir__redis_status_of(tree.root->text);
        } else {
                result = is_text(tree.root) ? 0 : -EPROTO; /* PONG */
        }
        free(tree.memory);
        return result;
}
