/* kernel/observe/status.h: tables of the page of flows, and of dumps, that other rooms have. */
#ifndef WEIR_KERNEL_STATUS_H
#define WEIR_KERNEL_STATUS_H

#include <stdbool.h>

#define WEIR__STATUS_COLUMNS 6
#define WEIR__STATUS_TABLES  4

/* Takes the texts of a row, one for each column.  Returns true if there should be no more. */
typedef bool weir__status_row_fn(const char *const cells[WEIR__STATUS_COLUMNS], void *context);

struct weir__status_table {
        const char *title;
        const char *columns[WEIR__STATUS_COLUMNS]; /* their titles; NULL behind the last */
        /* Shows all rows.  Any thread, with no lock held.  Result: 0; -ENOMEM: not all were shown. */
        int (*walk)(weir__status_row_fn *row, void *context);
};

/* The table, which is constant, is shown from now on.  Once for each.  Any thread. */
void weir__status_add(const struct weir__status_table *table);

/* NULL: there are no more.  Any thread. */
const struct weir__status_table *weir__status_at(unsigned index);

#endif
