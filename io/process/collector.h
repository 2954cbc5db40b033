/* io/process/collector.h: output of a program that is collected. */
#ifndef WEIR_IO_COLLECTOR_H
#define WEIR_IO_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/loop/poller.h"

/* The reading end of a pipe, and what has come.  The owner of the poller's, but for the making. */
struct weir__collector {
        struct weir__source source; /* its fd is -1 when nothing more is read */
        bool is_watched;
        char *text; /* NULL: nothing has come; else a NUL follows */
        size_t size, room, limit;
};

void weir__collector_init(struct weir__collector *collector, const struct weir__source_ops *ops);

/* Begins to read.  The collector owns the descriptor from now on.  Result: 0; or -ENOMEM, -ENOSPC: nothing is read. */
int weir__collector_begin(struct weir__collector *collector, struct weir__poller *poller, int fd, size_t limit);

/* Reads what is there.  Result: 0; -EMSGSIZE: there is more than the limit; -ENOMEM; -EIO.  After an error nothing more is
 * read. */
int weir__collector_read(struct weir__collector *collector, struct weir__poller *poller);

/* The program has ended: reads what it has written, and nothing that others write later.  Result: as weir__collector_read. */
int weir__collector_finish(struct weir__collector *collector, struct weir__poller *poller);

void weir__collector_free(struct weir__collector *collector);

#endif
