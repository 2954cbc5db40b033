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

/* The operation of a wait at a channel, as weir__waitable_ops.try. */
int weir__channel_try(struct weir__wait *wait, struct weir__work_list *claimed);

#endif
