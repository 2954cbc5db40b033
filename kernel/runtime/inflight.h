/* kernel/runtime/inflight.h: what is on its way between the connections of a poller and their other ends on this machine. */
#ifndef WEIR_KERNEL_INFLIGHT_H
#define WEIR_KERNEL_INFLIGHT_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

/* Whether the virtual clock has to wait: bytes are on their way, or, if `unread` counts, the other end has some that it has not
 * read.  For a second of real time only, when nothing changes any more.  Owner only. */
bool weir__inflight(const struct weir__poller *poller, bool unread);

/* Closes what it has opened. */
void weir__inflight_close(void);

#endif
