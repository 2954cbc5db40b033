/* kernel/observe/exposition.h: counts in the text format of Prometheus, and the parts of it that rooms above the metrics add.
 *
 * Source: Prometheus, "Exposition formats", text format 0.0.4. */
#ifndef WEIR_KERNEL_EXPOSITION_H
#define WEIR_KERNEL_EXPOSITION_H

#include <stdint.h>

#include "kernel/observe/sink.h"

/* HELP and TYPE of a name; its samples follow. */
void weir__expose_name(struct weir__sink *sink, const char *name, const char *type, const char *help);
/* A name with one sample. */
void weir__expose_single(struct weir__sink *sink, const char *name, const char *type, const char *help, int64_t value);
/* name="value", with what must be escaped. */
void weir__expose_label(struct weir__sink *sink, const char *name, const char *value);

/* Writes a part: whole names.  Any thread, with no lock held. */
typedef void weir__expose_fn(struct weir__sink *sink);

/* The part is written from now on.  Once for each part; there is room for WEIR__EXPOSED_PARTS.  Any thread. */
#define WEIR__EXPOSED_PARTS 4
void weir__expose_add(weir__expose_fn *fn);
void weir__expose_parts(struct weir__sink *sink);

#endif
