/* database/pq/query.c: queries: how they are made, and what their callbacks see; database/sql/promise.c has their tasks.
 *
 * Threads: setters where the task is the caller's; getters inside the callback; the rest any. */
#include "database/pq/pq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#define MAX_PARAMETERS 65535 /* the protocol counts them in 16 bits */

/* -- the task -- */

void
weir__pq_close_channels(struct weir__sql_query *base)
{
        struct weir__pq_query *query = weir__pq_of(base);

        if (query->rows)
                weir_channel_close(query->rows);
        if (query->input)
                weir_channel_close(query->input);
}

/* Whether a parameter lies in the query itself. */
static bool
is_within(const struct weir__pq_query *query, const char *value)
{
        return (uintptr_t)value - (uintptr_t)query->few.bytes < sizeof query->few.bytes;
}

void
weir__pq_free_query(struct weir__sql_query *base)
{
        struct weir__pq_query *query = weir__pq_of(base);

        weir_channel_unref(query->rows);
        weir_channel_unref(query->input);
        for (int i = 0; i < query->count; i++)
                if (!is_within(query, query->values[i]))
                        free(query->values[i]);
        if (query->values != query->few.values) {
                free(query->values);
                free(query->types);
                free(query->sizes);
                free(query->formats);
        }
        PQclear(query->outcome.result);
        PQclear(query->outcome.rows);
        free(query->outcome.problem);
        free(query);
}

static weir_task *
query_new(struct weir__sql_pool *where, enum weir__pq_kind kind, const char *sql, weir_task_fn *done, void *context)
{
        struct weir__pq_query *query = weir__pq_of(
                weir__sql_query_new(&weir__pq_kind, sizeof *query, where, sql, kind != WEIR__PQ_LEASE));

        if (!query)
                return NULL;
        query->kind = kind;
        query->room = WEIR__PQ_FEW;
        query->values = query->few.values;
        query->types = query->few.types;
        query->sizes = query->few.sizes;
        query->formats = query->few.formats;
        return weir__sql_query_task(&query->base, done, context);
}

weir_task *
weir__pq_make(struct weir__sql_pool *where, bool is_lease, const char *sql, weir_task_fn *done, void *context)
{
        return query_new(where, is_lease ? WEIR__PQ_LEASE : WEIR__PQ_STATEMENT, sql, done, context);
}

weir_task *
weir_pq_query_new(weir_pq *pool, const char *sql, weir_task_fn *done, void *context)
{
        return query_new((struct weir__sql_pool *)pool, WEIR__PQ_STATEMENT, sql, done, context);
}

weir_task *
weir_pq_script_new(weir_pq *pool, const char *sql, weir_task_fn *done, void *context)
{
        return query_new((struct weir__sql_pool *)pool, WEIR__PQ_SCRIPT, sql, done, context);
}

/* -- the end -- */

const char *
weir__pq_over(struct weir__sql_query *base, int status, const char *problem)
{
        struct weir__pq_outcome *outcome = &weir__pq_of(base)->outcome;

        outcome->status = status;
        if (status && problem && !outcome->problem)
                outcome->problem = strdup(problem);
        return outcome->problem;
}

void
weir__pq_end_query(struct weir__sql_query *base)
{
        struct weir__pq_outcome *outcome = &weir__pq_of(base)->outcome;

        weir_promise_finish(base->task, outcome->status, outcome, NULL);
}

/* -- parameters -- */

/* A query that can be changed; NULL: it cannot. */
static struct weir__pq_query *
changeable(const weir_task *task)
{
        struct weir__pq_query *query = weir__pq_query_of(task);

        return query && query->kind <= WEIR__PQ_STREAM && !query->base.task ? query : NULL;
}

size_t
weir__pq_write_number(char out[WEIR__PQ_DIGITS], uint64_t number)
{
        char digits[WEIR__PQ_DIGITS];
        size_t at = sizeof digits, size;

        do
                digits[--at] = (char)('0' + number % 10);
        while (number /= 10);
        size = sizeof digits - at;
        memcpy(out, digits + at, size);
        out[size] = '\0';
        return size;
}

/* A longer array with the same beginning; NULL when out of memory. */
static void *
lengthen(const void *array, size_t size, int count, int room)
{
        void *longer = malloc((size_t)room * size);

        return longer ? memcpy(longer, array, (size_t)count * size) : NULL;
}

static int
grow(struct weir__pq_query *query)
{
        int room = 4 * query->room;
        char **values = lengthen(query->values, sizeof *values, query->count, room);
        Oid *types = lengthen(query->types, sizeof *types, query->count, room);
        int *sizes = lengthen(query->sizes, sizeof *sizes, query->count, room);
        int *formats = lengthen(query->formats, sizeof *formats, query->count, room);
        bool is_there = values && types && sizes && formats;
        bool is_inside = query->values == query->few.values;

        free(!is_there ? (void *)values : is_inside ? NULL : (void *)query->values);
        free(!is_there ? types : is_inside ? NULL : query->types);
        free(!is_there ? sizes : is_inside ? NULL : query->sizes);
        free(!is_there ? formats : is_inside ? NULL : query->formats);
        if (!is_there)
                return -ENOMEM;
        query->values = values;
        query->types = types;
        query->sizes = sizes;
        query->formats = formats;
        query->room = room;
        return 0;
}

/* NULL when out of memory. */
static char *
room_for(struct weir__pq_query *query, size_t size)
{
        if (size > sizeof query->few.bytes - query->few.used)
                return malloc(size);
        char *room = query->few.bytes + query->few.used;
        query->few.used += size;
        return room;
}

/* `data` NULL: SQL's NULL. */
static int
add(weir_task *task, Oid type, int format, const void *data, size_t size)
{
        struct weir__pq_query *query = changeable(task);

        if (!query)
                return weir__sql_query_refuse(task, &weir__pq_kind);
        if (query->count == MAX_PARAMETERS || size > INT32_MAX - 1)
                return weir__sql_query_fail(&query->base, -EINVAL);
        if (query->count == query->room && grow(query) != 0)
                return weir__sql_query_fail(&query->base, -ENOMEM);
        char *value = data ? room_for(query, size + 1) : NULL;
        if (data && !value)
                return weir__sql_query_fail(&query->base, -ENOMEM);
        if (value) {
                memcpy(value, data, size);
                value[size] = '\0';
        }
        query->values[query->count] = value;
        query->types[query->count] = type;
        query->sizes[query->count] = (int)size;
        query->formats[query->count] = format;
        query->count++;
        return 0;
}

int
weir_pq_add_text(weir_task *query, const char *value)
{
        return add(query, 0, 0, value, value ? strlen(value) : 0);
}

int
weir_pq_add_int(weir_task *query, int64_t value)
{
        char text[1 + WEIR__PQ_DIGITS] = "-";
        bool is_negative = value < 0;
        size_t size = weir__pq_write_number(text + is_negative, is_negative ? 0 - (uint64_t)value : (uint64_t)value);

        return add(query, 0, 0, text, is_negative + size);
}

int
weir_pq_add_binary(weir_task *query, unsigned type, const void *data, size_t size)
{
        struct weir__pq_query *self = changeable(query);

        if (self && !data && size > 0)
                return weir__sql_query_fail(&self->base, -EINVAL);
        return add(query, type, 1, data, size);
}

int
weir_pq_set_prepared(weir_task *query)
{
        struct weir__pq_query *self = changeable(query);

        if (!self)
                return -EINVAL;
        self->is_prepared = true;
        return 0;
}

int
weir_pq_set_binary(weir_task *query)
{
        struct weir__pq_query *self = changeable(query);

        if (!self)
                return -EINVAL;
        self->is_binary = true;
        return 0;
}

static int
set_channel(weir_task *task, bool is_input, weir_channel *channel)
{
        struct weir__pq_query *query = changeable(task);

        if (!query || !channel)
                return -EINVAL;
        weir_channel **at = is_input ? &query->input : &query->rows;
        weir_channel_ref(channel);
        weir_channel_unref(*at);
        *at = channel;
        query->kind = WEIR__PQ_STREAM;
        return 0;
}

int
weir_pq_set_rows(weir_task *query, weir_channel *rows)
{
        return set_channel(query, false, rows);
}

int
weir_pq_set_input(weir_task *query, weir_channel *input)
{
        return set_channel(query, true, input);
}

int
weir_pq_set_limit(weir_task *query, weir_nsec limit)
{
        return weir__sql_query_set_limit(weir__sql_query_of(query, &weir__pq_kind), limit);
}

/* -- results -- */

static const struct weir__pq_outcome *
outcome_of(const weir_task *task)
{
        return weir__pq_query_of(task) ? weir_promise_value(task) : NULL;
}

/* NULL: there is none. */
static const PGresult *
result_of(const weir_task *task)
{
        const struct weir__pq_outcome *outcome = outcome_of(task);

        return outcome ? outcome->result : NULL;
}

/* What has its rows. */
static const PGresult *
rows_of(const weir_task *task)
{
        const struct weir__pq_outcome *outcome = outcome_of(task);

        return !outcome ? NULL : outcome->rows ? outcome->rows : outcome->result;
}

size_t
weir_pq_rows(const weir_task *query)
{
        const struct weir__pq_outcome *outcome = outcome_of(query);

        return outcome && outcome->rows ? outcome->row_count : (size_t)PQntuples(result_of(query));
}

size_t
weir_pq_columns(const weir_task *query)
{
        return (size_t)PQnfields(result_of(query));
}

uint64_t
weir_pq_affected(const weir_task *query)
{
        const PGresult *result = result_of(query);

        return result ? strtoull(PQcmdTuples((PGresult *)result), NULL, 10) : 0;
}

const char *
weir_pq_name(const weir_task *query, size_t column)
{
        return column < weir_pq_columns(query) ? PQfname(result_of(query), (int)column) : NULL;
}

int
weir_pq_column(const weir_task *query, const char *name)
{
        size_t count = weir_pq_columns(query);

        if (!weir__pq_query_of(query) || !name)
                return -EINVAL;
        for (size_t i = 0; i < count; i++)
                if (strcmp(PQfname(result_of(query), (int)i), name) == 0)
                        return (int)i;
        return -ENOENT;
}

unsigned
weir_pq_type(const weir_task *query, size_t column)
{
        return column < weir_pq_columns(query) ? PQftype(result_of(query), (int)column) : 0;
}

static const char *
value_of(const PGresult *result, size_t row, size_t column, size_t *size)
{
        bool is_there = row < (size_t)PQntuples(result) && column < (size_t)PQnfields(result) &&
                        !PQgetisnull(result, (int)row, (int)column);

        if (size)
                *size = is_there ? (size_t)PQgetlength(result, (int)row, (int)column) : 0;
        return is_there ? PQgetvalue(result, (int)row, (int)column) : NULL;
}

const char *
weir_pq_value(const weir_task *query, size_t row, size_t column, size_t *size)
{
        return value_of(rows_of(query), row, column, size);
}

static int
int_of_binary(const char *value, size_t size, int64_t *ret_value)
{
        uint64_t bits = 0;

        if (size != 2 && size != 4 && size != 8)
                return -EINVAL;
        for (size_t i = 0; i < size; i++)
                bits = bits << 8 | (unsigned char)value[i];
        *ret_value = size == 2 ? (int16_t)bits : size == 4 ? (int32_t)bits : (int64_t)bits;
        return 0;
}

static int
int_of_text(const char *value, int64_t *ret_value)
{
        char *end;
        int before = errno;

        errno = 0;
        long long number = strtoll(value, &end, 10);
        int failed = end == value || *end ? -EINVAL : errno == ERANGE ? -ERANGE : 0;
        errno = before;
        if (!failed)
                *ret_value = number;
        return failed;
}

int
weir__pq_int_of(const char *value, size_t size, bool is_binary, int64_t *ret_value)
{
        return is_binary ? int_of_binary(value, size, ret_value) : int_of_text(value, ret_value);
}

int
weir_pq_int(const weir_task *query, size_t row, size_t column, int64_t *ret_value)
{
        size_t size;
        const PGresult *result = rows_of(query);
        const char *value = value_of(result, row, column, &size);

        if (!value)
                return -ENOENT;
        return PQfformat(result, (int)column) == 1 ? int_of_binary(value, size, ret_value) : int_of_text(value, ret_value);
}

/* -- failures -- */

const char *
weir_pq_field(const weir_task *query, int letter)
{
        const PGresult *result = result_of(query);

        return result ? PQresultErrorField(result, letter) : NULL;
}

const char *
weir_pq_sqlstate(const weir_task *query)
{
        const char *code = weir_pq_field(query, PG_DIAG_SQLSTATE);

        return code ? code : "";
}

const char *
weir_pq_problem(const weir_task *query)
{
        const struct weir__pq_query *self = weir__pq_query_of(query);
        const struct weir__pq_outcome *outcome = outcome_of(query);
        int status = weir_task_status(query);

        if (!self || !status)
                return NULL;
        if (outcome && outcome->problem)
                return outcome->problem;
        return !outcome && self->base.late ? self->base.late : weir_strerror(status);
}
