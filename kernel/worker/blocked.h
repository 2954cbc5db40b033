/* kernel/worker/blocked.h: messages about functions of the program that block a poller. */
#ifndef WEIR_KERNEL_BLOCKED_H
#define WEIR_KERNEL_BLOCKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

#include "kernel/data/work.h"

struct weir__worker;

#define WEIR__BLOCKED_TITLE 192 /* with its NUL */

/* How long a function may run until it blocks.  Written while there are no workers. */
extern weir_nsec weir__blocked_limit;

/* Writes whose function a worker runs: 'the callback of a timer "report"'.  The work item is there; NULL: it is not known.  The
 * function is that of its callee, or a callback. */
void weir__blocked_write_title(const struct weir__worker *worker, const struct weir__work *object, char *out, size_t room);

/* The function of the calling worker has returned, and the worker has lost its poller meanwhile.  Logs that it has blocked,
 * unless it was short, or was announced.  The object is as above. */
void weir__blocked_report(struct weir__worker *worker, const struct weir__work *object) __attribute__((cold, noinline));

/* -- notices: the watchdog leaves them, a worker logs them -- */

enum weir__notice { WEIR__NO_IDLE_WORKER, WEIR__TAKEN, WEIR__NOTICES };

/* By the watchdog's thread alone.  A notice that was not logged yet stays, and the new one is forgotten. */
void weir__blocked_leave_notice(enum weir__notice notice, unsigned poller, const char *title, weir__function *function);

/* Logs what was left.  By a worker between two work items: it may lose its poller in the log function. */
extern _Atomic bool weir__blocked_has_notice;
void weir__blocked_log_notices(void);

#endif
