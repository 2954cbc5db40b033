/* kernel/runtime/inflight.h: what is on its way between the connections of a poller and their other ends on this machine. */
#ifndef WEIR_KERNEL_INFLIGHT_H
#define WEIR_KERNEL_INFLIGHT_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

/* Whether the virtual clock has to wait, because bytes are on their way.  `unread`: bytes that the other end has not read count
 * as well.  After a second of real time without any change the clock need not wait.  Owner only. */
bool weir__inflight_has_bytes(const struct weir__poller *poller, bool unread);

/* Closes what it has opened. */
void weir__inflight_close(void);

#endif
