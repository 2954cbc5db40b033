/* database/redis/listen.c: the connection of a subscription.
 *
 *     a series: LOST, pause, if it has failed before --> connect --> greeting --> SUBSCRIBE, read --> messages, read ...
 *       \--its end--> another one, unless the subscription is closed
 *
 * Threads: callbacks of one series; what others use is under the lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>
#include <weir/timer.h>

#include "database/redis/redis.h"

#define SUBSCRIBE_PAUSE_FIRST WEIR_MSEC(50)
#define SUBSCRIBE_PAUSE_LAST  WEIR_SEC(5)
#define PROBE                 WEIR_SEC(20)
#define MESSAGES_READ_MOST    65536 /* bytes */

static void on_read(weir_task *read, void *context);

/* -- messages -- */

static void
drop(weir_redis_subscription *subscription, void *message)
{
        atomic_fetch_add_explicit(&subscription->dropped, 1, memory_order_relaxed);
        free(message);
}

/* Puts it into the channel, or has the series wait for room.  `*waits`: those before it wait. */
static void
put(weir_redis_subscription *subscription, weir_series *series, struct weir_redis_message *message, bool *waits)
{
        weir_channel *channel = subscription->channel;
        int result = *waits ? -EAGAIN : weir_channel_post(channel, message);
        void *oldest;

        if (!result)
                return;
        if (result == -EAGAIN && subscription->overflow == WEIR_REDIS_OVERFLOW_WAIT) {
                *waits = true;
                weir_series_push(series, weir_channel_send_new(channel, message, NULL, NULL));
                return;
        }
        while (result == -EAGAIN && subscription->overflow == WEIR_REDIS_OVERFLOW_OLDEST) {
                if (weir_channel_poll(channel, &oldest) == 0)
                        drop(subscription, oldest);
                result = weir_channel_post(channel, message);
        }
        if (result)
                drop(subscription, message);
}

/* -- reading -- */

static void
push_read(weir_redis_subscription *subscription, weir_series *series)
{
        weir_task *read = weir_stream_read_new(subscription->fresh, 1, MESSAGES_READ_MOST, on_read, subscription);

        weir_series_push(series, weir_timeout_new(read, PROBE));
}

static bool
keep(weir_redis_subscription *subscription, const char *data, size_t size)
{
        if (size > subscription->room - subscription->used) {
                size_t room = subscription->used + size + MESSAGES_READ_MOST;
                char *input = realloc(subscription->input, room);

                if (!input)
                        return false;
                subscription->input = input;
                subscription->room = room;
        }
        memcpy(subscription->input + subscription->used, data, size);
        subscription->used += size;
        return true;
}

#define MOVES 5 /* that are followed at once */

/* Whether the server cannot listen to something now, or no longer: a server of a cluster that has not the slot of a sharded
 * channel, or one that is loading.  Another connection may. */
static bool
is_passing(weir_redis_subscription *subscription, const struct weir_redis_message *message, bool ends_shard)
{
        bool is_moved;

        if (message->kind == WEIR_REDIS_SUBSCRIBED) {
                subscription->has_listened = true;
                subscription->moves = 0;
        }
        if (ends_shard && weir__redis_lost_topic(subscription, message->channel))
                return true;
        if (message->kind != WEIR_REDIS_REFUSED || message->status == -EAGAIN)
                return message->kind == WEIR_REDIS_REFUSED;
        if (strncmp(message->data, "MOVED ", 6) != 0 ||
            !weir__redis_redirect(subscription->redis, subscription->node, message->data, &is_moved))
                return false;
        subscription->moves++;
        return true;
}

/* Reads what has come.  Result: 0; why the connection is given up. */
static int
digest(weir_redis_subscription *subscription, weir_series *series)
{
        size_t at = 0, most = subscription->redis->settings->config.max_reply;
        bool waits = false;
        int failed = 0;

        while (at < subscription->used && !failed) {
                ssize_t end = weir__redis_frame(subscription->input + at, subscription->used - at, subscription->words, most);
                struct weir_redis_message *message;

                if (end < 0)
                        return (int)end;
                if (!end || (size_t)end > subscription->used - at)
                        break;
                memset(subscription->words, 0, sizeof subscription->words);
                int result = weir__redis_message_read(subscription->input + at, (size_t)end, &message);
                bool ends_shard = result > 0 && weir__redis_is_end_of_shard(subscription->input + at, (size_t)end);
                at += (size_t)end;
                if (result > 0 && is_passing(subscription, message, ends_shard)) {
                        weir_redis_message_free(message);
                        failed = -EAGAIN;
                } else if (result > 0) {
                        put(subscription, series, message, &waits);
                } else if (result == -ENOMEM) {
                        atomic_fetch_add_explicit(&subscription->dropped, 1, memory_order_relaxed);
                } else {
                        failed = result;
                }
        }
        memmove(subscription->input, subscription->input + at, subscription->used - at);
        subscription->used -= at;
        return failed;
}

static void
give_up(weir_redis_subscription *subscription, weir_series *series, int status)
{
        subscription->status = status;
        weir_series_fail(series, status);
}

/* Nothing has come for a while: asks with a PING, or gives up if that was done before. */
static void
probe(weir_redis_subscription *subscription, weir_series *series)
{
        static const char ping[] = "*1\r\n$4\r\nPING\r\n";

        if (subscription->is_probed) {
                give_up(subscription, series, -ETIMEDOUT);
                return;
        }
        subscription->is_probed = true;
        weir_task_start(weir_stream_write_new(subscription->fresh, ping, sizeof ping - 1, NULL, NULL));
        push_read(subscription, series);
}

static void
on_read(weir_task *read, void *context)
{
        weir_redis_subscription *subscription = context;
        weir_series *series = weir_series_parent(weir_series_of(read));
        int status = weir_task_status(read);
        size_t size;
        const char *data = weir_stream_data(read, &size);

        if (status == -ETIMEDOUT) {
                probe(subscription, series);
                return;
        }
        if (!status) {
                subscription->is_probed = false;
                status = keep(subscription, data, size) ? digest(subscription, series) : -ENOMEM;
        }
        if (status)
                give_up(subscription, series, status);
        else
                push_read(subscription, series);
}

/* -- connecting -- */

static void
on_greeted(weir_task *task, void *context)
{
        weir_redis_subscription *subscription = context;
        weir_series *series = weir_series_parent(weir_series_of(task));
        int status = weir_task_status(task);

        if (status) {
                give_up(subscription, series, status);
                return;
        }
        subscription->failures = 0;
        pthread_mutex_lock(&subscription->lock);
        subscription->stream = weir_stream_ref(subscription->fresh);
        weir__redis_subscribe_all(subscription);
        pthread_mutex_unlock(&subscription->lock);
        push_read(subscription, series);
}

static void
on_connected(weir_task *connect, void *context)
{
        weir_redis_subscription *subscription = context;
        weir_series *series = weir_series_parent(weir_series_of(connect)), *greeting = weir_series_new(NULL, NULL);
        int status = weir_task_status(connect);

        if (status) {
                weir_series_dismiss(greeting);
                give_up(subscription, series, status);
                return;
        }
        subscription->fresh = weir_connect_take_stream(connect);
        weir_series_stop_on_failure(greeting);
        weir__redis_hello(subscription->fresh, greeting, subscription->node);
        weir_series_push(series, weir_timeout_new(weir_module_new(greeting, on_greeted, subscription),
                                                  subscription->redis->settings->config.connect_limit));
}

static weir_task *
connect_to(weir_redis_subscription *subscription)
{
        const struct weir__redis_settings *settings = subscription->redis->settings;
        const char *address = subscription->node->address;
        weir_task *connect = settings->tls ? weir_connect_tls_new(address, settings->tls, NULL, on_connected, subscription)
                                           : weir_connect_new(address, on_connected, subscription);

        return weir_timeout_new(connect, settings->config.connect_limit);
}

/* Chooses a server: after a failure perhaps another one. */
static void
choose(weir_task *task, void *context)
{
        weir_redis_subscription *subscription = context;
        weir_series *series = weir_series_of(task);

        if (weir_task_status(task) != 0)
                return;
        pthread_mutex_lock(&subscription->lock);
        int slot = subscription->slot;
        pthread_mutex_unlock(&subscription->lock);
        subscription->node = slot >= 0 ? weir__redis_route(subscription->redis->topology, slot)
                                       : weir__redis_any(subscription->redis->topology, subscription->attempt);
        if (subscription->node) {
                weir_series_push(series, connect_to(subscription));
        } else {
                weir__redis_look(subscription->redis);
                give_up(subscription, series, -EHOSTUNREACH);
        }
}

/* -- the end -- */

/* Whether the connection has failed, and not this program. */
static bool
is_of_the_server(const weir_redis_subscription *subscription)
{
        switch (subscription->status) {
        case -ENOMEM:
        case -EMFILE:
        case -ENFILE:
        case -ECANCELED:
        case -ESHUTDOWN: return false;
        default: return !subscription->is_left;
        }
}

static void
on_end(weir_series *series, void *context)
{
        weir_redis_subscription *subscription = context;
        int status = weir_series_status(series);

        weir_stream_unref(subscription->fresh);
        subscription->fresh = NULL;
        subscription->used = 0;
        subscription->is_probed = false;
        memset(subscription->words, 0, sizeof subscription->words);
        pthread_mutex_lock(&subscription->lock);
        weir_stream_unref(subscription->stream);
        weir_series_unref(subscription->series);
        subscription->stream = NULL;
        subscription->series = NULL;
        if (!subscription->status)
                subscription->status = status ? status : -ENOMEM;
        bool is_led_on = subscription->moves && subscription->moves <= MOVES && !subscription->has_listened;
        if (!is_led_on)
                subscription->failures++;
        subscription->has_listened = false;
        subscription->attempt++;
        bool is_wanted = !subscription->is_closed && status != -ESHUTDOWN; /* or the program has ended it, not the server */
        if (is_wanted && subscription->node && !is_led_on && is_of_the_server(subscription))
                weir__redis_doubt(subscription->redis, subscription->node);
        subscription->is_left = false;
        if (is_wanted)
                weir__redis_listen(subscription); /* without memory the next weir_redis_subscribe does it */
        pthread_mutex_unlock(&subscription->lock);
        weir__redis_subscription_unref(subscription);
}

int
weir__redis_listen(weir_redis_subscription *subscription)
{
        unsigned failures = subscription->failures < 8 ? subscription->failures : 8;
        weir_nsec pause = SUBSCRIBE_PAUSE_FIRST << failures;
        weir_series *series = weir_series_new(on_end, subscription);
        bool waits = false;

        if (failures) {
                struct weir_redis_message *lost = weir__redis_message_lost(subscription->status);

                if (lost)
                        put(subscription, series, lost, &waits);
                weir_series_push(series, weir_timer_new(pause < SUBSCRIBE_PAUSE_LAST ? pause : SUBSCRIBE_PAUSE_LAST, NULL, NULL));
        }
        subscription->status = 0;
        weir_series_push(series, weir_empty_new(choose, subscription));
        subscription->series = weir_series_ref(series);
        atomic_fetch_add_explicit(&subscription->references, 1, memory_order_relaxed);
        int failed = weir_series_start(series);
        if (!failed)
                return 0;
        weir_series_unref(subscription->series);
        subscription->series = NULL;
        atomic_fetch_sub_explicit(&subscription->references, 1, memory_order_relaxed); /* the caller has one */
        return failed;
}
