/* weir/channel.h: messages from task to task, in order: tasks that send and tasks that receive wait for each other.
 *
 * A message is a pointer.  Who sends gives it away; `drop`, which the channel was made with, gets each message in the end that
 * nobody has taken: whose send failed, who received it and left it, or that lay in a channel which nobody uses any more.
 *
 * A channel of WEIR_UNBOUNDED is a message queue: weir_channel_post never waits. */
#ifndef WEIR_CHANNEL_H
#define WEIR_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_channel weir_channel;

#define WEIR_UNBOUNDED SIZE_MAX

/* A channel that holds at most `capacity` messages; with 0 a send waits until its message is received.  `drop` may be NULL; it is
 * not called for messages that are NULL.  It runs on a worker, or on the thread whose call gave the message up.
 *
 * A channel may be a message, with weir_channel_unref for `drop`: what it holds is dropped inside that call, so a chain of
 * channels, each in the next, is freed as deep on the stack as it is long.  Build no long ones.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a channel accepts.
 * Threads: any. */
WEIR_API weir_channel *weir_channel_new(size_t capacity, weir_free_fn *drop);

/* The channel of that name (bytes other than NUL, 1 to WEIR_NAME_MAX of them), which is made if there is none.  It exists as long
 * as somebody has a reference, messages and all.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL (no name), ENAMETOOLONG, EEXIST (there is one with another capacity or drop), ENOMEM.
 * Threads: any. */
WEIR_API weir_channel *weir_channel_open(const char *name, size_t capacity, weir_free_fn *drop);

/* Another reference, and one less; tasks of a channel have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_channel *weir_channel_ref(weir_channel *channel);
WEIR_API void weir_channel_unref(weir_channel *channel);

/* Closes it: nothing more can be sent, and those who wait to send end with -EPIPE.  What it holds can still be received; behind
 * that, receivers end with -EPIPE.
 *
 * Result:  0; -EALREADY when it was closed; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_channel_close(weir_channel *channel);

/* A task that sends, waiting for a place or for a receiver behind those who came before.
 *
 * Owner:   the caller, until it is consumed.  The message is given away, also when this fails; but for a channel that is NULL,
 *          which cannot drop it, it stays the caller's.
 * Result:  NULL when out of memory, which every consumer accepts; for a channel that is NULL the task's start, run or push reports
 *          -ENOMEM.  The task's status: 0: the message is in the channel, or received; -EPIPE: the channel is closed; -ENOMEM: no
 *          memory for a place; or why its series ended before: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  Once it is sent the status is
 *          0, though the series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_channel_send_new(weir_channel *channel, void *message, weir_task_fn *done, void *context);

/* A task that receives a message, waiting for one behind those who came before.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  as above; -EPIPE: the channel is closed and empty.  Once a message was received the status is 0.
 * Threads: any. */
WEIR_API weir_task *weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context);

/* The message that a task has received; or of one that sends, that was not sent.  Of a select (weir/select.h): that of the winner.
 *
 * Owner:   of the first: borrowed until the callback returns, then it is dropped; of the second: yours.
 * Result:  NULL when there is none, or it was taken, and for a task of another kind.
 * Threads: inside the task's callback. */
WEIR_API void *weir_channel_message(const weir_task *task);
WEIR_API void *weir_channel_take_message(weir_task *task);

/* Sends at once or not at all.
 *
 * Owner:   the message is given away if the result is 0, else it stays the caller's.
 * Result:  0; -EAGAIN when the channel is full, or holds nothing and nobody waits to receive; -EPIPE when it is closed; -ENOMEM,
 *          also for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_channel_post(weir_channel *channel, void *message);

/* Receives at once or not at all.
 *
 * Owner:   the message is the caller's.
 * Result:  0; -EAGAIN when there is none; -EPIPE when the channel is closed and empty; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_channel_poll(weir_channel *channel, void **message);

/* How many messages it holds.  Out of date at once where others send and receive.
 *
 * Threads: any. */
WEIR_API size_t weir_channel_length(weir_channel *channel);

WEIR_END

#endif
