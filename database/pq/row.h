/* database/pq/row.h: what a row is. */
#ifndef WEIR_DATABASE_PQ_ROW_H
#define WEIR_DATABASE_PQ_ROW_H

#include "database/pq/pq.h"

struct weir_pq_row {
        PGresult *result; /* of one row; NULL: `bytes` */
        size_t size;
        char bytes[]; /* with a NUL behind them */
};

/* Takes over the result.  NULL when out of memory. */
weir_pq_row *weir__pq_row_of(PGresult *result);

#endif
