/* database/pq/row.c: rows that are messages of channels.
 *
 * Threads: any; a row is its owner's. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

weir_channel *
weir_pq_rows_new(size_t capacity)
{
        return weir_channel_new(capacity, weir_pq_row_free);
}

weir_pq_row *
weir__pq_row_of(PGresult *result)
{
        weir_pq_row *row = malloc(sizeof *row);

        if (!row) {
                PQclear(result);
                return NULL;
        }
        row->result = result;
        row->size = 0;
        return row;
}

weir_pq_row *
weir_pq_row_new(const void *data, size_t size)
{
        weir_pq_row *row = malloc(sizeof *row + size + 1);

        if (!row)
                return NULL;
        row->result = NULL;
        row->size = size;
        if (size > 0)
                memcpy(row->bytes, data, size);
        row->bytes[size] = '\0';
        return row;
}

void
weir_pq_row_free(void *context)
{
        weir_pq_row *row = context;

        if (row)
                PQclear(row->result);
        free(row);
}

size_t
weir_pq_row_columns(const weir_pq_row *row)
{
        return !row ? 0 : row->result ? (size_t)PQnfields(row->result) : 1;
}

const char *
weir_pq_row_name(const weir_pq_row *row, size_t column)
{
        return column < weir_pq_row_columns(row) && row->result ? PQfname(row->result, (int)column) : NULL;
}

const char *
weir_pq_row_value(const weir_pq_row *row, size_t column, size_t *size)
{
        bool is_there = column < weir_pq_row_columns(row) && (!row->result || !PQgetisnull(row->result, 0, (int)column));

        if (size)
                *size = !is_there ? 0 : row->result ? (size_t)PQgetlength(row->result, 0, (int)column) : row->size;
        return !is_there ? NULL : row->result ? PQgetvalue(row->result, 0, (int)column) : row->bytes;
}

int
weir_pq_row_int(const weir_pq_row *row, size_t column, int64_t *ret_value)
{
        size_t size;
        const char *value = weir_pq_row_value(row, column, &size);

        if (!value)
                return -ENOENT;
        return weir__pq_int_of(value, size, row->result && PQfformat(row->result, (int)column) == 1, ret_value);
}
