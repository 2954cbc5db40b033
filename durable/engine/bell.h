/* durable/engine/bell.h: a file that wakes the other nodes of a file of SQLite. */
#ifndef WEIR_DURABLE_BELL_H
#define WEIR_DURABLE_BELL_H

#include <weir/durable.h>

struct weir__durable_bell;

/* The bell of a file: FILE-bell.  Result: NULL with errno ENOMEM. */
struct weir__durable_bell *weir__durable_bell_new(const char *file, weir_durable *store);
void weir__durable_bell_free(struct weir__durable_bell *bell); /* takes NULL */

/* Wakes all nodes that watch.  Never fails: a node that misses it looks later. */
void weir__durable_bell_ring(struct weir__durable_bell *bell);

/* From now on each ring of another node is a weir__durable_ring of the store. */
void weir__durable_bell_watch(struct weir__durable_bell *bell);

/* Does what was not possible of a watch, if there is one. */
void weir__durable_bell_repair(struct weir__durable_bell *bell);

/* No ring any more. */
void weir__durable_bell_leave(struct weir__durable_bell *bell);

#endif
