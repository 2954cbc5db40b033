/* server/observe/metrics.h: the counts of the library, in the text format of Prometheus. */
#ifndef WEIR_SERVER_METRICS_H
#define WEIR_SERVER_METRICS_H

#include <stddef.h>

#include <weir/time.h>

#include "kernel/observe/sink.h"

#define WEIR__METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes all of it to the sink, which keeps errors of its own.  Result: 0 or -ENOMEM.  Any thread. */
int weir__metrics_write(struct weir__sink *sink);

/* What weir_metrics_add has added.  Any thread, with no lock held. */
void weir__metrics_write_added(struct weir__sink *sink);

/* Sets how exchanges that the program holds are counted, which lie above this room.  Once, before the first use. */
typedef size_t weir__metrics_held_fn(weir_nsec *oldest); /* sets the greatest age, or 0 */
void weir__metrics_on_held(weir__metrics_held_fn *count);

#endif
