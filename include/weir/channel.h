/* weir/channel.h: messages from task to task, in order.  Tasks that send and tasks that receive
 * wait for each other.
 *
 * A message is a pointer.  A send gives the message away.  The channel's function `drop` gets each
 * message that nobody takes: its send failed, its receiver left it, or it lay in a channel that
 * nobody uses any more.
 *
 * A channel of WEIR_UNBOUNDED is a message queue: weir_channel_post never waits.
 *
 *     weir_channel_send_new(channel, message, on_sent, NULL)         a task of the producer's series
 *     weir_channel_receive_new(channel, on_received, NULL)           a task of the consumer's series
 *     message = weir_channel_take_message(task);                     inside on_received */
#ifndef WEIR_CHANNEL_H
#define WEIR_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

/* A channel.  It lives as long as anybody has a reference. */
typedef struct weir_channel weir_channel;

/* The capacity of a channel that always has room, as far as there is memory. */
#define WEIR_UNBOUNDED SIZE_MAX

/* Makes a channel that holds at most `capacity` messages.  With 0 a send waits until its message is
 * received.  `drop` may be NULL; it is not called for NULL messages.  It runs on a worker, or on
 * the thread whose call gave up the message.
 *
 * A channel may be a message, with weir_channel_unref as `drop`.  That call drops the messages that it
 * holds.  A long chain of channels, each inside the next, therefore needs a deep stack when it
 * is freed.  Do not build long ones.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a channel accepts NULL.
 * Threads: any. */
WEIR_API weir_channel *weir_channel_new(size_t capacity, weir_free_fn *drop);

/* Opens the channel of that name, or makes it if there is none.  A name has 1 to WEIR_NAME_MAX
 * bytes, none of them NUL.  The channel exists, with its messages, as long as anybody has a
 * reference.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (invalid name), ENAMETOOLONG, EEXIST (it exists with another
 *          capacity or drop), ENOMEM, ECHILD in a forked child.
 * Threads: any. */
WEIR_API weir_channel *weir_channel_open(const char *name, size_t capacity, weir_free_fn *drop);

/* Takes and drops a reference.  Tasks of a channel have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_channel *weir_channel_ref(weir_channel *channel);
WEIR_API void weir_channel_unref(weir_channel *channel);

/* Closes the channel.  Nothing more can be sent, and tasks that wait to send end with -EPIPE.
 * Messages in the channel can still be received; after the last one, receivers end with -EPIPE.
 *
 * Result:  0; -EALREADY when it was closed before; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_channel_close(weir_channel *channel);

/* Makes a task that sends.  It waits for room or for a receiver, behind the tasks that came before.
 *
 * Owner:   the caller, until the task is consumed.  The message is given away, also on failure.
 *          Only for a NULL channel, which cannot drop it, the message stays the caller's.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL channel the task's
 *          start, run or push reports -ENOMEM. The task's status: 0: the message is in the channel,
 *          or received; -EPIPE: the channel is closed; -ENOMEM: no memory to store the message;
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once the message is
 *          sent the status is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_channel_send_new(weir_channel *channel, void *message, weir_task_fn *done, void *context);

/* Makes a task that receives a message.  It waits for one, behind the tasks that came before.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as for weir_channel_send_new; -EPIPE: the channel is closed and empty.  Once a message
 *          is received the status is 0.
 * Threads: any. */
WEIR_API weir_task *weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context);

/* The message that a task has received, or the message that a sending task could not send.  For a
 * select (weir/select.h): the message of the winner.
 *
 * Owner:   weir_channel_message: borrowed until the callback returns; then the message is dropped.
 *          weir_channel_take_message: the message is yours.
 * Result:  NULL when there is none or it was taken, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API void *weir_channel_message(const weir_task *task);
WEIR_API void *weir_channel_take_message(weir_task *task);

/* Sends at once or not at all.
 *
 * Owner:   the message is given away if the result is 0; otherwise it stays the caller's.
 * Result:  0; -EAGAIN when there is no room and no task waits to receive; -EPIPE when the channel
 *          is closed; -ENOMEM, also for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_channel_post(weir_channel *channel, void *message);

/* Receives at once or not at all.
 *
 * Owner:   the message is the caller's.
 * Result:  0; -EAGAIN when there is none; -EPIPE when the channel is closed and empty; -ENOMEM for
 *          NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_channel_poll(weir_channel *channel, void **message);

/* How many messages the channel holds.  The number is out of date at once while others send and
 * receive.
 *
 * Result:  0 for NULL, and in a forked child.
 * Threads: any. */
WEIR_API size_t weir_channel_length(weir_channel *channel);

WEIR_END

#endif
