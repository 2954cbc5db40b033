/* database/mariadb/result.c: rows: how they are kept, and what the program reads of them.
 *
 * Threads: those that have the table; getters inside the callback. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

/* -- columns -- */

struct weir__mariadb_columns *
weir__mariadb_columns_new(const MYSQL_FIELD *fields, unsigned count)
{
        size_t size = sizeof(struct weir__mariadb_columns);
        struct weir__mariadb_columns *columns;

        for (unsigned i = 0; i < count; i++)
                size += sizeof columns->of[0] + strlen(fields[i].name) + 1;
        columns = malloc(size);
        if (!columns)
                return NULL;
        atomic_init(&columns->references, 1);
        columns->count = count;
        char *name = (char *)&columns->of[count];
        for (unsigned i = 0; i < count; i++) {
                columns->of[i].name = name;
                columns->of[i].type = (int)fields[i].type;
                name = stpcpy(name, fields[i].name) + 1;
        }
        return columns;
}

static struct weir__mariadb_columns *
ref(struct weir__mariadb_columns *columns)
{
        atomic_fetch_add_explicit(&columns->references, 1, memory_order_relaxed);
        return columns;
}

void
weir__mariadb_columns_unref(struct weir__mariadb_columns *columns)
{
        if (columns && atomic_fetch_sub_explicit(&columns->references, 1, memory_order_acq_rel) == 1)
                free(columns);
}

/* -- tables -- */

void
weir__mariadb_table_clear(struct weir__mariadb_table *table)
{
        weir__mariadb_columns_unref(table->columns);
        free(table->cells);
        free(table->data);
        *table = (struct weir__mariadb_table){.rows = 0};
}

/* Room for `more` elements behind those that are used.  0 or -ENOMEM. */
static int
grow(void **array, size_t element, size_t used, size_t more, size_t *room)
{
        size_t wanted = used + more;

        if (wanted <= *room)
                return 0;
        wanted = *room > 0 && wanted < 2 * *room ? 2 * *room : wanted; /* the first row has what it needs */
        void *longer = realloc(*array, wanted * element);
        if (!longer)
                return -ENOMEM;
        *array = longer;
        *room = wanted;
        return 0;
}

int
weir__mariadb_table_add(struct weir__mariadb_table *table, const char *const *values, const unsigned long *sizes)
{
        unsigned count = table->columns->count;
        size_t size = 0;

        for (unsigned i = 0; i < count; i++)
                size += values[i] ? sizes[i] + 1 : 0;
        if (grow((void **)&table->cells, sizeof *table->cells, table->rows * count, count, &table->room) != 0 ||
            grow((void **)&table->data, 1, table->used, size, &table->data_room) != 0)
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                struct weir__mariadb_cell *cell = &table->cells[table->rows * count + i];

                *cell = (struct weir__mariadb_cell){table->used, values[i] ? sizes[i] : WEIR__MARIADB_NULL};
                if (!values[i])
                        continue;
                memcpy(table->data + table->used, values[i], sizes[i]);
                table->used += sizes[i];
                table->data[table->used++] = '\0';
        }
        table->rows++;
        return 0;
}

static size_t
columns_of(const struct weir__mariadb_table *table)
{
        return table && table->columns ? table->columns->count : 0;
}

static const char *
name_of(const struct weir__mariadb_table *table, size_t column)
{
        return column < columns_of(table) ? table->columns->of[column].name : NULL;
}

static const char *
value_of(const struct weir__mariadb_table *table, size_t row, size_t column, size_t *size)
{
        size_t count = columns_of(table);
        const struct weir__mariadb_cell *cell = column < count && row < table->rows ? &table->cells[row * count + column] : NULL;
        bool is_there = cell && cell->size != WEIR__MARIADB_NULL;

        if (size)
                *size = is_there ? cell->size : 0;
        return is_there ? table->data + cell->at : NULL;
}

static int
int_of(const char *value, int64_t *ret_value)
{
        int before = errno;
        char *end;

        if (!value)
                return -ENOENT;
        errno = 0;
        long long number = strtoll(value, &end, 10);
        int failed = end == value || *end ? -EINVAL : errno == ERANGE ? -ERANGE : 0;
        errno = before;
        if (!failed)
                *ret_value = number;
        return failed;
}

/* -- results of tasks -- */

static const struct weir__mariadb_outcome *
outcome_of(const weir_task *task)
{
        return weir__mariadb_query_of(task) ? weir_promise_value(task) : NULL;
}

/* NULL without success. */
static const struct weir__mariadb_outcome *
success_of(const weir_task *task)
{
        const struct weir__mariadb_outcome *outcome = outcome_of(task);

        return outcome && !outcome->status ? outcome : NULL;
}

static const struct weir__mariadb_table *
table_of(const weir_task *task)
{
        const struct weir__mariadb_outcome *outcome = success_of(task);

        return outcome ? &outcome->table : NULL;
}

size_t
weir_mariadb_rows(const weir_task *query)
{
        const struct weir__mariadb_table *table = table_of(query);

        return table ? table->rows : 0;
}

size_t
weir_mariadb_columns(const weir_task *query)
{
        return columns_of(table_of(query));
}

uint64_t
weir_mariadb_affected(const weir_task *query)
{
        const struct weir__mariadb_outcome *outcome = success_of(query);

        return outcome ? outcome->affected : 0;
}

uint64_t
weir_mariadb_inserted(const weir_task *query)
{
        const struct weir__mariadb_outcome *outcome = success_of(query);

        return outcome ? outcome->inserted : 0;
}

unsigned
weir_mariadb_warnings(const weir_task *query)
{
        const struct weir__mariadb_outcome *outcome = success_of(query);

        return outcome ? outcome->warnings : 0;
}

const char *
weir_mariadb_name(const weir_task *query, size_t column)
{
        return name_of(table_of(query), column);
}

int
weir_mariadb_column(const weir_task *query, const char *name)
{
        const struct weir__mariadb_table *table = table_of(query);
        size_t count = columns_of(table);

        if (!weir__mariadb_query_of(query) || !name)
                return -EINVAL;
        for (size_t i = 0; i < count; i++)
                if (strcmp(name_of(table, i), name) == 0)
                        return (int)i;
        return -ENOENT;
}

int
weir_mariadb_type(const weir_task *query, size_t column)
{
        const struct weir__mariadb_table *table = table_of(query);

        return column < columns_of(table) ? table->columns->of[column].type : -ENOENT;
}

const char *
weir_mariadb_value(const weir_task *query, size_t row, size_t column, size_t *size)
{
        return value_of(table_of(query), row, column, size);
}

int
weir_mariadb_int(const weir_task *query, size_t row, size_t column, int64_t *ret_value)
{
        return int_of(value_of(table_of(query), row, column, NULL), ret_value);
}

const char *
weir_mariadb_sqlstate(const weir_task *query)
{
        const struct weir__mariadb_outcome *outcome = outcome_of(query);

        return outcome ? outcome->sqlstate : "";
}

unsigned
weir_mariadb_code(const weir_task *query)
{
        const struct weir__mariadb_outcome *outcome = outcome_of(query);

        return outcome ? outcome->code : 0;
}

const char *
weir_mariadb_problem(const weir_task *query)
{
        const struct weir__mariadb_query *self = weir__mariadb_query_of(query);
        const struct weir__mariadb_outcome *outcome = outcome_of(query);
        int status = weir_task_status(query);

        if (!self || !status)
                return NULL;
        if (outcome && outcome->problem)
                return outcome->problem;
        return !outcome && self->base.late ? self->base.late : weir_strerror(status);
}

/* -- rows that came alone -- */

void
weir_mariadb_row_free(void *context)
{
        weir_mariadb_row *row = context;

        if (row)
                weir__mariadb_table_clear(&row->table);
        free(row);
}

size_t
weir_mariadb_row_columns(const weir_mariadb_row *row)
{
        return row ? columns_of(&row->table) : 0;
}

const char *
weir_mariadb_row_name(const weir_mariadb_row *row, size_t column)
{
        return row ? name_of(&row->table, column) : NULL;
}

const char *
weir_mariadb_row_value(const weir_mariadb_row *row, size_t column, size_t *size)
{
        return value_of(row ? &row->table : NULL, 0, column, size);
}

int
weir_mariadb_row_int(const weir_mariadb_row *row, size_t column, int64_t *ret_value)
{
        return int_of(value_of(row ? &row->table : NULL, 0, column, NULL), ret_value);
}

weir_mariadb_row *
weir__mariadb_row_new(struct weir__mariadb_columns *columns, const char *const *values, const unsigned long *sizes)
{
        weir_mariadb_row *row = calloc(1, sizeof *row);

        if (!row)
                return NULL;
        row->table.columns = ref(columns);
        if (weir__mariadb_table_add(&row->table, values, sizes) == 0)
                return row;
        weir_mariadb_row_free(row);
        return NULL;
}
