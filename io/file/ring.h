/* io/file/ring.h: an io_uring for each poller.  Without liburing there is none, and all goes to the queue. */
#ifndef WEIR_IO_FILE_RING_H
#define WEIR_IO_FILE_RING_H

#include "io/file/file.h"

/* Whether file tasks may use rings: the program does not object, and the kernel permits it.  Any thread. */
bool weir__ring_is_permitted(void);

/* -- the owner of the poller -- */

/* The ring of the poller, which is made if there is none.  NULL: it cannot be made. */
struct weir__batch *weir__ring_of(struct weir__poller *poller);

/* Takes a task that is PENDING.  Its request is handed over at the end of the round.  It ends by weir__file_end_in_ring.  Also
 * inside a callback, while the poller is pinned. */
void weir__ring_add(struct weir__batch *ring, struct weir__file_task *task);

/* The task is not wanted any more.  It ends when the kernel has let go of it. */
void weir__ring_cancel(struct weir__batch *ring, struct weir__file_task *task);

#endif
