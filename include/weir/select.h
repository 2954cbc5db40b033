/* weir/select.h: a task that waits at several channels, and does what is possible first: once, at one of them. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include <weir/channel.h>

WEIR_BEGIN

#define WEIR_SELECT_MAX 64 /* cases of a select */

/* A select without cases.  It ends when one of its cases is fulfilled, the winner: a message was received or sent there, or the
 * channel is closed.  Nothing happens at the others: what they would have received stays where it is, what they would have sent was
 * not sent.
 *
 * When several are possible at its start, the one that was added first wins: put what matters most, such as a channel that is
 * closed to stop the flow, in front.  A case that is always possible keeps those behind it waiting; who wants them to take turns
 * adds them in another order each time.  While it waits it has its place in the line of each of its channels, and the first that is
 * possible wins.
 *
 * A closed channel is possible: receive wins with what the channel still holds, then with -EPIPE; send wins with -EPIPE.  So leave
 * out of the next select what has ended.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  Without cases its start, run or push reports -EINVAL.  The
 *          task's status: 0; -EPIPE: the winner's channel is closed; -ENOMEM: no memory for the place that the winner had; or why
 *          its series ended before: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  Once a case is fulfilled the status is that, though the
 *          series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_select_new(weir_task_fn *done, void *context);

/* Adds a case.  A channel may be in several.
 *
 * One message may be in several cases that send: it is sent once, and dropped once if it is not.
 *
 * Owner:   the message is given away if the result is an index.  Else it stays the caller's, unless another case of the select has
 *          it.
 * Result:  the index of the case, from 0; or a negative errno, which the start, run or push reports as well: -ENOMEM, also for what
 *          is NULL; -E2BIG beyond WEIR_SELECT_MAX.
 * Threads: where the select is yours: before it is started.  Later, or on a task of another kind, it aborts with the reason. */
WEIR_API int weir_select_receive(weir_task *select, weir_channel *channel);
WEIR_API int weir_select_send(weir_task *select, weir_channel *channel, void *message);

/* Which case has won.  The message that it has received is weir_channel_message(select), as is one that it could not send.
 *
 * Result:  its index; -ENOENT when none has: it was cancelled, shut down, or is not over; -EINVAL for NULL, -EDOM for what is no
 *          select.
 * Threads: inside its callback. */
WEIR_API int weir_select_winner(const weir_task *select);

/* The message of a case: which it has received, or has not sent; so what was not sent can be sent again.  What nobody takes is
 * dropped after the callback.
 *
 * Owner:   yours.
 * Result:  NULL when there is none, or it was taken; for an index that is none, and for what is no select.
 * Threads: inside its callback. */
WEIR_API void *weir_select_take_message(weir_task *select, int index);

WEIR_END

#endif
