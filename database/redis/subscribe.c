/* database/redis/subscribe.c: subscriptions, as the program has them.
 *
 * Locks: the subscription's.  Tasks are started under it, so that what is said of topics goes out in the order of the calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/subscribe.h"

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
                subscription->channel = weir_channel_new(config && config->capacity ? config->capacity : CAPACITY,
                                                         weir__redis_message_drop);
        if (!subscription || !subscription->channel) {
                free(subscription);
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&subscription->references, 1);
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

static void
say(weir_redis_subscription *subscription, const char *verb, const char *name)
{
        const char *words[] = {verb, name};
        size_t size = weir__redis_encoded_size(2, words, NULL);
        char *bytes = malloc(size);

        if (bytes)
                weir__redis_encode(bytes, 2, words, NULL);
        if (!bytes || weir_task_start(weir_stream_write_new(subscription->stream, bytes, size, NULL, NULL)) != 0)
                weir_stream_break(subscription->stream); /* the next connection says it */
        free(bytes);
}

void
weir__redis_tell(weir_redis_subscription *subscription, const char *verb, const struct weir__redis_topic *topic)
{
        if (!subscription->stream)
                return;
        if (verb) {
                say(subscription, verb, topic->name);
                return;
        }
        for (topic = subscription->topics; topic; topic = topic->next)
                say(subscription, topic->is_pattern ? "PSUBSCRIBE" : "SUBSCRIBE", topic->name);
}

/* Where the topic is in the list, or its end. */
static struct weir__redis_topic **
find(weir_redis_subscription *subscription, const char *name, bool is_pattern)
{
        struct weir__redis_topic **at = &subscription->topics;

        while (*at && ((*at)->is_pattern != is_pattern || strcmp((*at)->name, name) != 0))
                at = &(*at)->next;
        return at;
}

static int
add(weir_redis_subscription *subscription, const char *name, bool is_pattern)
{
        struct weir__redis_topic **at = find(subscription, name, is_pattern), *topic;
        size_t size = strlen(name) + 1;

        if (*at)
                return -EALREADY;
        topic = malloc(sizeof *topic + size);
        if (!topic)
                return -ENOMEM;
        topic->next = NULL;
        topic->is_pattern = is_pattern;
        memcpy(topic->name, name, size);
        *at = topic;
        int failed = subscription->series ? 0 : weir__redis_listen(subscription);
        if (!failed) {
                weir__redis_tell(subscription, is_pattern ? "PSUBSCRIBE" : "SUBSCRIBE", topic);
                return 0;
        }
        *at = NULL;
        free(topic);
        return failed;
}

static int
take_out(weir_redis_subscription *subscription, const char *name, bool is_pattern)
{
        struct weir__redis_topic **at = find(subscription, name, is_pattern), *topic = *at;

        if (!topic)
                return -EALREADY;
        *at = topic->next;
        weir__redis_tell(subscription, is_pattern ? "PUNSUBSCRIBE" : "UNSUBSCRIBE", topic);
        free(topic);
        return 0;
}

static int
change(weir_redis_subscription *subscription, const char *name, bool is_pattern,
       int (*how)(weir_redis_subscription *subscription, const char *name, bool is_pattern))
{
        if (!subscription)
                return -ENOMEM;
        if (!name || !*name)
                return -EINVAL;
        pthread_mutex_lock(&subscription->lock);
        int result = how(subscription, name, is_pattern);
        pthread_mutex_unlock(&subscription->lock);
        return result;
}

int
weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, false, add);
}

int
weir_redis_subscribe_pattern(weir_redis_subscription *subscription, const char *pattern)
{
        return change(subscription, pattern, true, add);
}

int
weir_redis_unsubscribe(weir_redis_subscription *subscription, const char *channel)
{
        return change(subscription, channel, false, take_out);
}

int
weir_redis_unsubscribe_pattern(weir_redis_subscription *subscription, const char *pattern)
{
        return change(subscription, pattern, true, take_out);
}
