/* weir/topic.h: publish and subscribe, by name.
 *
 * A topic exists as long as it has subscribers.  Any thread publishes by the name of the topic.
 * Each subscriber gets each message that comes after it has subscribed, and all subscribers get
 * them in the same order.  A message is stored once, however many subscribers there are.
 *
 * A subscriber has room for some messages that it has not received yet.  If more come, it loses the
 * oldest ones, and the next message that it receives says how many.  So a slow subscriber holds up
 * nobody.  A topic keeps at most as many messages as its largest subscriber has room for, rounded up
 * to a power of two; when that one leaves it drops the rest.
 *
 *     subscriber = weir_topic_subscribe("room 7", 100);
 *     weir_task_start(weir_topic_receive_new(subscriber, on_message, subscriber));
 *     weir_topic_publish("room 7", "hello", 5); */
#ifndef WEIR_TOPIC_H
#define WEIR_TOPIC_H

#include <stddef.h>
#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A subscriber of one topic.  It lives as long as anybody has a reference. */
typedef struct weir_subscriber weir_subscriber;

/* The largest room of a subscriber: how many messages may wait for it. */
#define WEIR_TOPIC_ROOM_MAX 65536

/* Subscribes to the topic of that name, which is made if there is none.  A name has 1 to
 * WEIR_NAME_MAX bytes, none of them NUL.  `room` is how many messages may wait for the subscriber: 1
 * to WEIR_TOPIC_ROOM_MAX.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name, invalid room), ENAMETOOLONG, ENOMEM, ECHILD in a
 *          forked child.
 * Threads: any. */
WEIR_API weir_subscriber *weir_topic_subscribe(const char *name, size_t room);

/* Takes and drops a reference.  Tasks that receive have their own.  With the last reference the
 * subscriber is unsubscribed and freed.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_subscriber *weir_subscriber_ref(weir_subscriber *subscriber);
WEIR_API void weir_subscriber_unref(weir_subscriber *subscriber);

/* How many subscribers the topic of that name has.
 *
 * Result:  0 also for a topic that does not exist, an invalid name, and in a forked child.
 * Threads: any. */
WEIR_API size_t weir_topic_subscribers(const char *name);

/* Publishes a message, of which it makes a copy.  Everything before the call happens before the
 * callbacks of those that receive it.
 *
 * Result:  how many subscribers the topic has; 0 also for a topic that does not exist.  -EINVAL for
 *          an invalid name, and for NULL data with a size; -ENAMETOOLONG; -ENOMEM; -ECHILD in a
 *          forked child: then nobody gets it.
 * Threads: any.  Never blocks. */
WEIR_API int64_t weir_topic_publish(const char *name, const void *data, size_t size);

/* Makes a task that receives the next message of the subscriber.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL subscriber the task's
 *          start, run or push reports -ENOMEM.  The task's status: 0: it has a message; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once it has a message the status
 *          is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_topic_receive_new(weir_subscriber *subscriber, weir_task_fn *done, void *context);

/* The message that a task has received, with a NUL behind it, and its size if `size` is not NULL.
 * Many tasks look at one message.
 *
 * Owner:   borrowed until the callback returns.
 * Result:  NULL and a size of 0 when there is none, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API const void *weir_topic_message(const weir_task *task, size_t *size);

/* How many messages the subscriber has lost right before this one.
 *
 * Result:  0 also when there is none, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API uint64_t weir_topic_lost(const weir_task *task);

WEIR_END

#endif
