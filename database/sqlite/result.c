/* database/sqlite/result.c: the rows of a statement, and what the program reads of them.
 *
 * Threads: the function on the executor that runs the statement; then the callback. */
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

struct weir__sqlite_result *
weir__sqlite_result_new(void)
{
        return calloc(1, sizeof(struct weir__sqlite_result));
}

void
weir__sqlite_result_clear(struct weir__sqlite_result *result)
{
        free(result->problem);
        free(result->values);
        free(result->data);
        *result = (struct weir__sqlite_result){0};
}

void
weir__sqlite_result_free(void *result)
{
        if (!result)
                return;
        weir__sqlite_result_clear(result);
        free(result);
}

/* -- how it is filled -- */

/* Appends bytes and a NUL to the data.  0, or -ENOMEM. */
static int
append(struct weir__sqlite_result *result, const void *bytes, size_t size)
{
        if (result->data_room - result->used <= size) {
                size_t room = 2 * result->data_room + size + 64;
                char *data = realloc(result->data, room);

                if (!data)
                        return -ENOMEM;
                result->data = data;
                result->data_room = room;
        }
        if (size > 0)
                memcpy(result->data + result->used, bytes, size);
        result->data[result->used + size] = '\0';
        result->used += size + 1;
        return 0;
}

int
weir__sqlite_result_begin(struct weir__sqlite_result *result, sqlite3_stmt *statement)
{
        int failed = 0;

        weir__sqlite_result_clear(result);
        result->columns = (size_t)sqlite3_column_count(statement);
        for (size_t i = 0; i < result->columns && !failed; i++) {
                const char *name = sqlite3_column_name(statement, (int)i);

                failed = name ? append(result, name, strlen(name)) : -ENOMEM;
        }
        return failed;
}

/* There is room for one more row.  0, or -ENOMEM. */
static int
make_room(struct weir__sqlite_result *result)
{
        size_t wanted = (result->rows + 1) * result->columns;

        if (wanted <= result->room)
                return 0;
        size_t room = 2 * result->room + 4 * result->columns;
        struct weir__sqlite_value *values = realloc(result->values, room * sizeof *values);
        if (!values)
                return -ENOMEM;
        result->values = values;
        result->room = room;
        return 0;
}

static bool
is_within(const struct weir__sqlite_result *result, size_t more, size_t most)
{
        size_t used = result->used + (result->rows + 1) * result->columns * sizeof *result->values;

        return used <= most && more < most - used;
}

/* Copies one value.  0, -ENOMEM or -EMSGSIZE. */
static int
take(struct weir__sqlite_result *result, struct weir__sqlite_value *value, sqlite3_stmt *statement, int column, size_t most)
{
        int type = sqlite3_column_type(statement, column);
        const void *data = NULL;

        *value = (struct weir__sqlite_value){0};
        if (type == SQLITE_INTEGER) {
                value->type = WEIR_SQLITE_INT64;
                value->integer = sqlite3_column_int64(statement, column);
        } else if (type == SQLITE_FLOAT) {
                value->type = WEIR_SQLITE_DOUBLE;
                value->real = sqlite3_column_double(statement, column);
        } else if (type != SQLITE_NULL) {
                value->type = type == SQLITE_TEXT ? WEIR_SQLITE_TEXT : WEIR_SQLITE_BLOB;
                data = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(statement, column)
                                           : sqlite3_column_blob(statement, column);
                value->size = (size_t)sqlite3_column_bytes(statement, column);
                value->at = result->used;
                if (!data && value->size > 0)
                        return -ENOMEM;
                if (!is_within(result, value->size, most))
                        return -EMSGSIZE;
                return append(result, data, value->size);
        }
        return is_within(result, 0, most) ? 0 : -EMSGSIZE;
}

int
weir__sqlite_result_add_row(struct weir__sqlite_result *result, sqlite3_stmt *statement, const struct weir_sqlite_config *config)
{
        int failed = result->rows >= config->max_rows ? -EMSGSIZE : make_room(result);

        for (size_t i = 0; i < result->columns && !failed; i++)
                failed = take(result, &result->values[result->rows * result->columns + i], statement, (int)i, config->max_bytes);
        if (!failed)
                result->rows++;
        return failed;
}

/* -- what the program reads -- */

static const struct weir__sqlite_result *
result_of(const weir_task *task)
{
        return weir__sqlite_request_of(task) ? weir_promise_value(task) : NULL;
}

size_t
weir_sqlite_rows(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        return result ? result->rows : 0;
}

size_t
weir_sqlite_columns(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        return result ? result->columns : 0;
}

const char *
weir_sqlite_name(const weir_task *task, size_t column)
{
        const struct weir__sqlite_result *result = result_of(task);

        if (!result || column >= result->columns)
                return NULL;
        const char *name = result->data;
        for (size_t i = 0; i < column; i++)
                name += strlen(name) + 1;
        return name;
}

int
weir_sqlite_column(const weir_task *task, const char *name)
{
        const struct weir__sqlite_result *result = result_of(task);

        if (!weir__sqlite_request_of(task) || !name)
                return -EINVAL;
        const char *found = result ? result->data : NULL;
        for (size_t column = 0; result && column < result->columns; column++) {
                if (strcmp(found, name) == 0)
                        return (int)column;
                found += strlen(found) + 1;
        }
        return -ENOENT;
}

/* NULL: there is none. */
static const struct weir__sqlite_value *
value_of(const weir_task *task, size_t row, size_t column, const char **data)
{
        const struct weir__sqlite_result *result = result_of(task);

        if (!result || row >= result->rows || column >= result->columns)
                return NULL;
        *data = result->data;
        return &result->values[row * result->columns + column];
}

enum weir_sqlite_type
weir_sqlite_type(const weir_task *task, size_t row, size_t column)
{
        const char *data;
        const struct weir__sqlite_value *value = value_of(task, row, column, &data);

        return value ? value->type : WEIR_SQLITE_NULL;
}

/* A double that no integer has would be undefined. */
static int64_t
cut(double real)
{
        if (real >= 9223372036854775808.0)
                return INT64_MAX;
        return real >= -9223372036854775808.0 ? (int64_t)real : real < 0 ? INT64_MIN : 0;
}

int64_t
weir_sqlite_int64(const weir_task *task, size_t row, size_t column)
{
        const char *data;
        const struct weir__sqlite_value *value = value_of(task, row, column, &data);

        if (!value)
                return 0;
        return value->type == WEIR_SQLITE_INT64 ? value->integer : value->type == WEIR_SQLITE_DOUBLE ? cut(value->real) : 0;
}

double
weir_sqlite_double(const weir_task *task, size_t row, size_t column)
{
        const char *data;
        const struct weir__sqlite_value *value = value_of(task, row, column, &data);

        if (!value)
                return 0;
        return value->type == WEIR_SQLITE_DOUBLE ? value->real : value->type == WEIR_SQLITE_INT64 ? (double)value->integer : 0;
}

const char *
weir_sqlite_text(const weir_task *task, size_t row, size_t column, size_t *size)
{
        const char *data;
        const struct weir__sqlite_value *value = value_of(task, row, column, &data);
        bool has_data = value && (value->type == WEIR_SQLITE_TEXT || value->type == WEIR_SQLITE_BLOB);

        if (size)
                *size = has_data ? value->size : 0;
        return has_data ? data + value->at : NULL;
}

const void *
weir_sqlite_blob(const weir_task *task, size_t row, size_t column, size_t *size)
{
        return weir_sqlite_text(task, row, column, size);
}

uint64_t
weir_sqlite_affected(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        return result ? (uint64_t)result->affected : 0;
}

int64_t
weir_sqlite_inserted(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        return result ? result->inserted : 0;
}

const char *
weir_sqlite_problem(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        if (!weir__sqlite_request_of(task) || weir_task_status(task) == 0)
                return NULL;
        return result && result->problem ? result->problem : weir_strerror(weir_task_status(task));
}

int
weir_sqlite_code(const weir_task *task)
{
        const struct weir__sqlite_result *result = result_of(task);

        return result ? result->code : 0;
}
