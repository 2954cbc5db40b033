/* server/exchange/pending.h: how the tasks of an exchange wait in its connection.
 *
 *     NEW --start--> READY --the owner tries--> done: the callback
 *                                  \--wait--> PENDING --end--> READY --> the callback
 *                                                 \---cancel--> READY --> the callback, -ECANCELED
 *
 * While a task is PENDING its work is in no list.  The thread that takes it out of PENDING, by end or cancel, delivers the
 * work, once. A cancel at any other time only leaves its flag, which the work finds.  The work always runs on the poller of the
 * connection. */
#ifndef WEIR_SERVER_PENDING_H
#define WEIR_SERVER_PENDING_H

#include <stdbool.h>

#include "factory/task/task.h"

void weir__pending_start(struct weir_task *task);                /* any thread */
struct weir_task *weir__pending_cancel(struct weir_task *task);  /* any thread; weir__task_ops.cancel */
bool weir__pending_wait(struct weir_task *task);                 /* owner; false: it was cancelled just now */
void weir__pending_end(struct weir_task *task, int status);      /* owner; unless it was cancelled: then its work is on its way */
bool weir__pending_is_cancelled(const struct weir_task *task);   /* before it waits */

#endif
