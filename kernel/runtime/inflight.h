/* kernel/runtime/inflight.h: what is on its way between the connections of a poller and their other ends on this machine. */
#ifndef WEIR_KERNEL_INFLIGHT_H
#define WEIR_KERNEL_INFLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "kernel/loop/poller.h"

/* Whether the virtual clock has to wait, because bytes are on their way.  `unread`: bytes that the other end has not read count
 * as well.  After a second of real time without any change the clock need not wait.  Owner only. */
bool weir__inflight_has_bytes(const struct weir__poller *poller, bool unread);

/* Of a socket that sends datagrams: the address of one to which it has sent not long ago, the first being 0.  Returns false when
 * there is no other, and for sources of another kind.  NULL until there is such a socket; relaxed.  Owner only. */
typedef bool weir__inflight_far_fn(const struct weir__source *source, unsigned index, struct sockaddr_storage *far);
extern _Atomic(weir__inflight_far_fn *) weir__inflight_far;

/* Closes what it has opened. */
void weir__inflight_close(void);

#endif
