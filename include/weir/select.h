/* weir/select.h: a task that waits at several channels and does one operation, the first that is
 * possible. */
#ifndef WEIR_SELECT_H
#define WEIR_SELECT_H

#include <weir/channel.h>

WEIR_BEGIN

/* How many cases a select may have. */
#define WEIR_SELECT_MAX 64

/* Makes a select without cases.  It ends when one of its cases is done: a message was received or
 * sent there, or the channel is closed.  This case is the winner.  Nothing happens at the others:
 * nothing is received from them and nothing is sent.
 *
 * If several cases are possible at its start, the one that was added first wins.  Put the most
 * important case first, for example a channel that is closed to stop the flow.  A case that is
 * always possible starves the cases behind it; to let them take turns, add them in another order
 * each time.  While the select waits, it has a place in the queue of each of its channels, and the
 * first case that becomes possible wins.
 *
 * A case on a closed channel is possible.  Receive wins with a message that is left in the channel,
 * then with -EPIPE.  Send wins with -EPIPE.  So leave a closed channel out of the next select.
 *
 * Owner:   the caller, until the select is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without cases that can win its
 *          start, run or push reports -EINVAL.  The task's status: 0; -EPIPE: the winner's channel
 *          is closed; -ENOMEM: no memory to store the winner's message; -ECANCELED, -ETIMEDOUT or
 *          -ESHUTDOWN if its series ended before.  Once a case has won, the status is that of the
 *          case, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_select_new(weir_task_fn *done, void *context);

/* Adds a case.  A channel may be in several cases.
 *
 * One message may be in several cases that send.  It is sent once; if it is not sent, it is dropped
 * once.
 *
 * Owner:   the message is given away if the result is an index.  Otherwise it stays the caller's,
 *          unless another case of the select has it.
 * Result:  the index of the case, from 0; or an error, which the start, run or push reports too:
 *          -ENOMEM, also for NULL; -E2BIG for more than WEIR_SELECT_MAX cases.
 * Threads: where the select is yours, before its start.  Later, or on another kind of task, it
 *          aborts with the reason. */
WEIR_API int weir_select_receive(weir_task *select, weir_channel *channel);
WEIR_API int weir_select_send(weir_task *select, weir_channel *channel, void *message);

/* Adds a case that never wins.  It takes the place of a case that is switched off, so that the
 * others keep their indexes:
 *
 *     weir_select_receive(select, stop);                                   case 0
 *     is_full ? weir_select_never(select) : weir_select_receive(select, input);      case 1
 *
 * Result:  as for weir_select_receive.  The start, run or push of a select in which nothing can win
 *          reports -EINVAL.
 * Threads: as for weir_select_receive. */
WEIR_API int weir_select_never(weir_task *select);

/* Adds the default case.  It wins at the start of the select when no other case is possible,
 * wherever it stands.  Such a select never waits.  Its status is 0 then.
 *
 * Result:  as for weir_select_receive; -EEXIST for a second default case.
 * Threads: as for weir_select_receive. */
WEIR_API int weir_select_default(weir_task *select);

/* Which case has won.  weir_channel_message(select) is the message that the winner received or
 * could not send.
 *
 * Result:  the index; -ENOENT when none has won (the select was cancelled or shut down, or has not
 *          ended); -EINVAL for NULL; -EDOM for a task that is no select.
 * Threads: inside its callback. */
WEIR_API int weir_select_winner(const weir_task *select);

/* The message of a case: the one that it has received, or has not sent.  An unsent message can so
 * be sent again.  A message that nobody takes is dropped after the callback.
 *
 * Owner:   the message is yours.
 * Result:  NULL when there is none or it was taken, for an invalid index, and for a task that is no
 *          select.
 * Threads: inside its callback. */
WEIR_API void *weir_select_take_message(weir_task *select, int index);

WEIR_END

#endif
