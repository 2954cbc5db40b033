/* kernel/loop/pollers.c: the pollers of the process.
 *
 * Threads: any.
 * Locks:   none. */
#include "kernel/loop/pollers.h"

static struct weir__poller none = {.index = WEIR__POLLER_NONE, .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_POLLER)};

struct weir__pollers weir__pollers = {.at = {[WEIR__POLLER_NONE] = &none}};
