/* kernel/observe/status.c: tables of the page of flows that rooms beside the server have.
 *
 * Threads: any.
 * Locks:   none; tables are added, and never removed. */
#include "kernel/observe/status.h"

#include <stdatomic.h>
#include <stddef.h>

#include "kernel/base/panic.h"

static _Atomic(const struct weir__status_table *) tables[WEIR__STATUS_TABLES];

void
weir__status_add(const struct weir__status_table *table)
{
        for (unsigned i = 0; i < WEIR__STATUS_TABLES; i++) {
                const struct weir__status_table *none = NULL;

                if (atomic_compare_exchange_strong(&tables[i], &none, table) || none == table)
                        return;
        }
        weir__panic("weir__status_add: there are more tables than WEIR__STATUS_TABLES");
}

const struct weir__status_table *
weir__status_at(unsigned index)
{
        return index < WEIR__STATUS_TABLES ? atomic_load(&tables[index]) : NULL;
}
