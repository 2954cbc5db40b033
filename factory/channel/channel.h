/* factory/channel/channel.h: channels, as a select sees them. */
#ifndef WEIR_FACTORY_CHANNEL_H
#define WEIR_FACTORY_CHANNEL_H

#include <weir/channel.h>

#include "factory/sync/waitable.h"

/* The queues of a channel. */
enum {
        WEIR__CHANNEL_SENDERS = 0,   /* their waits have the messages, until they are sent */
        WEIR__CHANNEL_RECEIVERS = 1, /* their waits are given messages */
};

/* weir_channel_post and weir_channel_poll.  If that is not possible now `waiter`, a task of the right queue, is armed under the
 * same hold of the lock, and is to be parked, but behind a shutdown: then it stays RUNNING.  NULL: nothing is armed. */
int weir__channel_send(weir_channel *channel, void *message, struct weir__wait_task *waiter);
int weir__channel_receive(weir_channel *channel, void **message, struct weir__wait_task *waiter);

/* The operation of a wait at a channel, as weir__waitable_ops.try. */
int weir__channel_try(struct weir__wait *wait, struct weir__work_list *claimed);

#endif
