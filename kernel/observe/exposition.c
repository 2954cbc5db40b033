/* kernel/observe/exposition.c: counts in the text format of Prometheus.
 *
 * Threads: any.
 * Locks:   none; parts are added, and never removed. */
#include "kernel/observe/exposition.h"

#include <stdatomic.h>

#include "kernel/base/panic.h"

static _Atomic(weir__expose_fn *) parts[WEIR__EXPOSED_PARTS];

void
weir__expose_name(struct weir__sink *sink, const char *name, const char *type, const char *help)
{
        weir__sink_printf(sink, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
weir__expose_single(struct weir__sink *sink, const char *name, const char *type, const char *help, int64_t value)
{
        weir__expose_name(sink, name, type, help);
        weir__sink_printf(sink, "%s %lld\n", name, (long long)value);
}

void
weir__expose_label(struct weir__sink *sink, const char *name, const char *value)
{
        weir__sink_printf(sink, "%s=\"", name);
        for (; *value; value++) {
                if (*value == '\n')
                        weir__sink_text(sink, "\\n");
                else if (*value == '\\' || *value == '"')
                        weir__sink_printf(sink, "\\%c", *value);
                else
                        weir__sink_write(sink, value, 1);
        }
        weir__sink_text(sink, "\"");
}

void
weir__expose_add(weir__expose_fn *fn)
{
        for (unsigned i = 0; i < WEIR__EXPOSED_PARTS; i++) {
                weir__expose_fn *none = NULL;

                if (atomic_compare_exchange_strong(&parts[i], &none, fn) || none == fn)
                        return;
        }
        weir__panic("weir__expose_add: there are more parts than WEIR__EXPOSED_PARTS");
}

void
weir__expose_parts(struct weir__sink *sink)
{
        for (unsigned i = 0; i < WEIR__EXPOSED_PARTS; i++) {
                weir__expose_fn *fn = atomic_load(&parts[i]);

                if (fn)
                        fn(sink);
        }
}
