/* durable/engine/pq_op.c: parameters and results of the functions of pq_sql.c.
 *
 * Parameters are arrays in the server's binary form, with an element for each operation, in the order of the names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "durable/engine/pq_op.h"

#define OID_BYTEA  17
#define OID_BYTEAS 1001
#define OID_INT8   20
#define OID_INT8S  1016

enum weir__durable_pq_call
weir__durable_pq_call_of(const struct weir__durable_op *op)
{
        switch (op->kind) {
        case WEIR__DURABLE_SET: return WEIR__DURABLE_PQ_SET;
        case WEIR__DURABLE_CANCEL:
        case WEIR__DURABLE_FORGET: return WEIR__DURABLE_PQ_REMOVE;
        case WEIR__DURABLE_END:
                return op->outcome == WEIR__DURABLE_ACKNOWLEDGE ? WEIR__DURABLE_PQ_REMOVE : WEIR__DURABLE_PQ_CHANGE;
        case WEIR__DURABLE_GET: return WEIR__DURABLE_PQ_GET;
        case WEIR__DURABLE_LIST: return WEIR__DURABLE_PQ_LIST;
        case WEIR__DURABLE_COUNT: return WEIR__DURABLE_PQ_COUNT;
        case WEIR__DURABLE_CLAIM: return WEIR__DURABLE_PQ_CLAIM;
        case WEIR__DURABLE_RENEW: return WEIR__DURABLE_PQ_RENEW;
        default: return WEIR__DURABLE_PQ_CHANGE;
        }
}

/* -- parameters -- */

/* The binary form of an array: dimensions, flags, the type, the count, the first index; and each element behind its size. */
struct array {
        char *data;
        size_t size, room;
        uint32_t count;
        bool has_failed;
};

static void
put(struct array *array, const void *data, size_t size)
{
        if (array->size + size > array->room) {
                size_t room = 2 * (array->size + size) + 500;
                char *larger = array->has_failed ? NULL : realloc(array->data, room);

                if (!larger) {
                        array->has_failed = true;
                        return;
                }
                array->data = larger;
                array->room = room;
        }
        if (size)
                memcpy(array->data + array->size, data, size);
        array->size += size;
}

static void
put_number(struct array *array, uint32_t value)
{
        const unsigned char bytes[] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16), (unsigned char)(value >> 8),
                                       (unsigned char)value};

        put(array, bytes, sizeof bytes);
}

static void
begin_array(struct array *array, uint32_t type)
{
        *array = (struct array){0};
        put_number(array, 1);
        put_number(array, 0);
        put_number(array, type);
        put_number(array, 0);
        put_number(array, 1);
}

static void
put_bytes(struct array *array, const void *data, size_t size)
{
        put_number(array, (uint32_t)size);
        put(array, data, size);
        array->count++;
}

static void
put_text(struct array *array, const char *text)
{
        put_bytes(array, text, strlen(text));
}

static void
put_int(struct array *array, int64_t value)
{
        put_number(array, 8);
        put_number(array, (uint32_t)((uint64_t)value >> 32));
        put_number(array, (uint32_t)value);
        array->count++;
}

/* Adds it as a parameter.  A query that is refused memory fails by itself, and so does one without its parameters. */
static void
add_array(weir_task *query, struct array *array, unsigned type)
{
        if (!array->has_failed) {
                for (int i = 0; i < 4; i++)
                        array->data[12 + i] = (char)(array->count >> (24 - 8 * i));
                weir_pq_add_binary(query, type, array->data, array->size);
        }
        free(array->data);
}

static void
add_bytes(weir_task *query, const char *text)
{
        weir_pq_add_binary(query, OID_BYTEA, text, strlen(text));
}

typedef const char *text_fn(const struct weir__durable_op *op);
typedef int64_t int_fn(const struct weir__durable_op *op);

/* Adds an array with something of each operation.  Result: false: no memory. */
static bool
add_texts(weir_task *query, const struct weir__durable_pq_batch *batch, text_fn *text)
{
        struct array array;

        begin_array(&array, OID_BYTEA);
        for (size_t i = 0; i < batch->count; i++)
                if (!batch->items[i].is_superseded)
                        put_text(&array, text(batch->items[i].op));
        add_array(query, &array, OID_BYTEAS);
        return !array.has_failed;
}

static bool
add_ints(weir_task *query, const struct weir__durable_pq_batch *batch, int_fn *number)
{
        struct array array;

        begin_array(&array, OID_INT8);
        for (size_t i = 0; i < batch->count; i++)
                if (!batch->items[i].is_superseded)
                        put_int(&array, number(batch->items[i].op));
        add_array(query, &array, OID_INT8S);
        return !array.has_failed;
}

static bool
add_payloads(weir_task *query, const struct weir__durable_pq_batch *batch)
{
        struct array array;

        begin_array(&array, OID_BYTEA);
        for (size_t i = 0; i < batch->count; i++)
                if (!batch->items[i].is_superseded)
                        put_bytes(&array, batch->items[i].op->payload, batch->items[i].op->payload_size);
        add_array(query, &array, OID_BYTEAS);
        return !array.has_failed;
}

static const char *
name_of(const struct weir__durable_op *op)
{
        return op->name;
}

static const char *
topic_of(const struct weir__durable_op *op)
{
        return op->topic;
}

static const char *
cron_of(const struct weir__durable_op *op)
{
        return op->keeps_same ? op->cron : "";
}

static const char *
zone_of(const struct weir__durable_op *op)
{
        return op->zone;
}

static const char *
problem_of(const struct weir__durable_op *op)
{
        return op->problem;
}

static int64_t
at_of(const struct weir__durable_op *op)
{
        return op->at;
}

static int64_t
token_of(const struct weir__durable_op *op)
{
        return (int64_t)op->token;
}

static int64_t
flags_of(const struct weir__durable_op *op)
{
        return op->is_relative | op->policy << 1;
}

static int64_t
removal_of(const struct weir__durable_op *op)
{
        return op->kind == WEIR__DURABLE_CANCEL ? 0 : op->kind == WEIR__DURABLE_FORGET ? 1 : 2;
}

static int64_t
change_of(const struct weir__durable_op *op)
{
        if (op->kind == WEIR__DURABLE_EXTEND)
                return op->is_relative;
        if (op->kind == WEIR__DURABLE_PUT_BACK)
                return 2;
        return op->outcome == WEIR__DURABLE_MOVE_ON     ? 3
               : op->outcome == WEIR__DURABLE_RETRY     ? 4
               : op->outcome == WEIR__DURABLE_MARK_DEAD ? 5
                                                        : 6;
}

static bool
add_set(weir_task *query, const struct weir__durable_pq_batch *batch)
{
        const struct weir__durable_pq_batch none = {.count = 0};
        bool has_schedule = false;

        for (size_t i = 0; i < batch->count; i++)
                has_schedule = has_schedule || *batch->items[i].op->cron;
        weir_pq_add_text(query, batch->sender);
        weir_pq_add_int(query, (int64_t)batch->superseded);
        return add_texts(query, batch, name_of) && add_texts(query, batch, topic_of) && add_payloads(query, batch) &&
               add_ints(query, batch, at_of) && add_ints(query, batch, flags_of) &&
               add_texts(query, has_schedule ? batch : &none, cron_of) && add_texts(query, has_schedule ? batch : &none, zone_of);
}

static bool
add_change(weir_task *query, const struct weir__durable_pq_batch *batch)
{
        weir_pq_add_text(query, batch->sender);
        return add_ints(query, batch, change_of) && add_texts(query, batch, name_of) && add_ints(query, batch, token_of) &&
               add_ints(query, batch, at_of) && add_texts(query, batch, problem_of);
}

/* The topics, beginning with another one each time. */
static bool
add_claim(weir_task *query, const struct weir__durable_op *op, uint64_t rotation)
{
        struct array array;

        begin_array(&array, OID_BYTEA);
        for (size_t i = 0; i < op->topic_count; i++)
                put_text(&array, op->topics[(i + rotation) % op->topic_count]);
        add_array(query, &array, OID_BYTEAS);
        weir_pq_add_int(query, (int64_t)op->most);
        weir_pq_add_int(query, op->lease);
        add_bytes(query, op->node);
        return !array.has_failed;
}

static int
compare_claims(const void *a, const void *b)
{
        return strcmp((*(struct weir__durable_claim *const *)a)->name, (*(struct weir__durable_claim *const *)b)->name);
}

/* Claims in the order of their names; NULL: no memory. */
static struct weir__durable_claim **
sort_claims(const struct weir__durable_op *op)
{
        struct weir__durable_claim **claims = malloc((op->claim_count + 1) * sizeof *claims);

        for (size_t i = 0; claims && i < op->claim_count; i++)
                claims[i] = &op->claims[i];
        if (claims)
                qsort(claims, op->claim_count, sizeof *claims, compare_claims);
        return claims;
}

static bool
add_renew(weir_task *query, const struct weir__durable_op *op)
{
        struct weir__durable_claim **claims = sort_claims(op);
        struct array names, tokens;

        if (!claims)
                return false;
        begin_array(&names, OID_BYTEA);
        begin_array(&tokens, OID_INT8);
        for (size_t i = 0; i < op->claim_count; i++) {
                put_text(&names, claims[i]->name);
                put_int(&tokens, (int64_t)claims[i]->token);
        }
        free(claims);
        add_array(query, &names, OID_BYTEAS);
        add_array(query, &tokens, OID_INT8S);
        weir_pq_add_int(query, op->lease);
        return !names.has_failed && !tokens.has_failed;
}

/* The least bytes above all that begin with the prefix.  They need not be a name. */
static void
add_below(weir_task *query, const char *prefix)
{
        char end[WEIR_DURABLE_NAME_MAX + 1];
        size_t size = strnlen(prefix, sizeof end - 1);

        memcpy(end, prefix, size);
        while (size && (unsigned char)end[size - 1] == 0xff)
                size--;
        if (size)
                end[size - 1] = (char)((unsigned char)end[size - 1] + 1);
        else
                memset(end, 0xff, size = sizeof end); /* longer than any name */
        weir_pq_add_binary(query, OID_BYTEA, end, size);
}

static bool
add_list(weir_task *query, const struct weir__durable_op *op)
{
        add_bytes(query, op->prefix);
        add_bytes(query, op->behind);
        add_below(query, op->prefix);
        weir_pq_add_int(query, op->only_dead);
        weir_pq_add_int(query, (int64_t)op->most);
        return true;
}

static bool
add_count(weir_task *query, const struct weir__durable_op *op)
{
        add_bytes(query, op->prefix);
        add_below(query, op->prefix);
        return true;
}

static bool
add_remove(weir_task *query, const struct weir__durable_pq_batch *batch)
{
        return add_ints(query, batch, removal_of) && add_texts(query, batch, name_of) && add_ints(query, batch, token_of);
}

static bool
add_parameters(weir_task *query, const struct weir__durable_pq_batch *batch)
{
        const struct weir__durable_op *op = batch->items[0].op;

        weir_pq_add_int(query, op->as_if_now);
        switch (batch->call) {
        case WEIR__DURABLE_PQ_SET: return add_set(query, batch);
        case WEIR__DURABLE_PQ_REMOVE: return add_remove(query, batch);
        case WEIR__DURABLE_PQ_CHANGE: return add_change(query, batch);
        case WEIR__DURABLE_PQ_GET: return add_texts(query, batch, name_of);
        case WEIR__DURABLE_PQ_LIST: return add_list(query, op);
        case WEIR__DURABLE_PQ_COUNT: return add_count(query, op);
        case WEIR__DURABLE_PQ_CLAIM: return add_claim(query, op, batch->rotation);
        case WEIR__DURABLE_PQ_RENEW: return add_renew(query, op);
        }
        return false;
}

weir_task *
weir__durable_pq_call_new(weir_pq *pool, const struct weir__durable_pq_batch *batch, weir_task_fn *done, void *context)
{
        static const char *const calls[] = {
                "SELECT * FROM weir_durable_set_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                "SELECT * FROM weir_durable_remove_1($1, $2, $3, $4)",
                "SELECT * FROM weir_durable_change_1($1, $2, $3, $4, $5, $6, $7)",
                "SELECT * FROM weir_durable_get_1($1, $2)",
                "SELECT * FROM weir_durable_list_1($1, $2, $3, $4, $5, $6)",
                "SELECT * FROM weir_durable_count_1($1, $2, $3)",
                "SELECT * FROM weir_durable_claim_1($1, $2, $3, $4, $5)",
                "SELECT * FROM weir_durable_renew_1($1, $2, $3, $4)",
        };
        weir_task *query = weir_pq_query_new(pool, calls[batch->call], done, context);

        if (!query)
                return NULL;
        weir_pq_set_prepared(query);
        weir_pq_set_binary(query);
        if (batch->call == WEIR__DURABLE_PQ_LIST || batch->call == WEIR__DURABLE_PQ_COUNT)
                weir_pq_set_limit(query, WEIR_SEC(60)); /* the server may have to look at all rows */
        if (add_parameters(query, batch))
                return query;
        weir_task_dismiss(query);
        return NULL;
}

/* -- results -- */

/* The columns of a whole row. */
enum { GENERATION, TOKEN, DUE, READY, STATE, ATTEMPT, POLICY, NAME, TOPIC, PAYLOAD, NODE, PROBLEM, CRON, ZONE, ROW_COLUMNS };

/* The columns of a short one. */
enum { SHORT_NAME, SHORT_GENERATION, SHORT_READY };

static int64_t
int_at(const weir_task *call, size_t row, size_t column)
{
        int64_t value = 0;

        weir_pq_int(call, row, column, &value);
        return value;
}

static const char *
text_at(const weir_task *call, size_t row, size_t column)
{
        const char *text = weir_pq_value(call, row, column, NULL);

        return text ? text : "";
}

static struct weir_durable_info
read_row(const weir_task *call, size_t row)
{
        struct weir_durable_info info = {
                .name = text_at(call, row, NAME),
                .topic = text_at(call, row, TOPIC),
                .generation = (uint64_t)int_at(call, row, GENERATION),
                .state = (enum weir_durable_state)int_at(call, row, STATE),
                .attempt = (unsigned)int_at(call, row, ATTEMPT),
                .token = (uint64_t)int_at(call, row, TOKEN),
                .due = int_at(call, row, DUE),
                .ready = int_at(call, row, READY),
                .node = text_at(call, row, NODE),
                .problem = text_at(call, row, PROBLEM),
                .cron = text_at(call, row, CRON),
                .zone = text_at(call, row, ZONE),
                .policy = (enum weir_durable_missed_policy)int_at(call, row, POLICY),
        };

        info.payload = weir_pq_value(call, row, PAYLOAD, &info.payload_size);
        return info;
}

/* The operation of a name, of those that are not superseded. */
static struct weir__durable_op *
find(const struct weir__durable_pq_batch *batch, const char *name)
{
        size_t low = 0, high = batch->count;

        while (low < high) {
                size_t middle = (low + high) / 2;
                int order = strcmp(batch->items[middle].op->name, name);

                if (order == 0 && !batch->items[middle].is_superseded)
                        return batch->items[middle].op;
                if (order <= 0) /* those that are superseded stand before the one that counts */
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

/* The sets behind which the batch has another one of the same name get the generations that the server has drawn before it. */
static void
read_superseded(struct weir__durable_pq_batch *batch, const weir_task *call)
{
        size_t row = 0;

        for (size_t i = 0; i < batch->count; i++) {
                struct weir__durable_op *op = batch->items[i].op;

                if (!batch->items[i].is_superseded)
                        continue;
                op->generation = (uint64_t)int_at(call, row++, SHORT_GENERATION);
                op->ready = op->is_relative ? weir__durable_add(op->now, op->at) : op->at;
        }
}

static void
read_short(struct weir__durable_pq_batch *batch, const weir_task *call, size_t rows)
{
        for (size_t row = batch->superseded; row < rows; row++) {
                struct weir__durable_op *op = find(batch, text_at(call, row, SHORT_NAME));

                if (!op)
                        continue;
                op->is_done = op->kind != WEIR__DURABLE_SET;
                if (op->kind == WEIR__DURABLE_SET)
                        op->ready = int_at(call, row, SHORT_READY);
                if (op->kind != WEIR__DURABLE_END)
                        op->generation = (uint64_t)int_at(call, row, SHORT_GENERATION);
        }
}

static void
read_renewed(struct weir__durable_op *op, const weir_task *call, size_t rows)
{
        for (size_t row = 0; row < rows; row++) {
                const char *name = text_at(call, row, SHORT_NAME);
                uint64_t token = (uint64_t)int_at(call, row, SHORT_GENERATION);

                for (size_t i = 0; i < op->claim_count; i++)
                        if (op->claims[i].token == token && strcmp(op->claims[i].name, name) == 0)
                                op->claims[i].is_held = true;
        }
}

/* Rows of many operations, by their names. */
static void
read_rows(struct weir__durable_pq_batch *batch, const weir_task *call, size_t rows)
{
        for (size_t row = 0; row < rows; row++) {
                struct weir_durable_info info = read_row(call, row);
                struct weir__durable_op *op = find(batch, info.name);

                if (!op)
                        continue;
                op->is_done = op->kind != WEIR__DURABLE_GET;
                op->ready = info.ready;
                if (op->kind != WEIR__DURABLE_END)
                        op->status = weir__durable_op_add(op, &info);
        }
}

/* Rows of one operation. */
static int
read_all(struct weir__durable_op *op, const weir_task *call, size_t rows)
{
        int failed = 0;

        for (size_t row = 0; row < rows && !failed; row++) {
                struct weir_durable_info info = read_row(call, row);

                failed = weir__durable_op_add(op, &info);
        }
        return failed;
}

/* The header of whole rows has more. */
static int
read_one(struct weir__durable_op *op, const weir_task *call, size_t rows)
{
        switch (op->kind) {
        case WEIR__DURABLE_COUNT:
                op->counts[WEIR_DURABLE_PENDING] = (uint64_t)int_at(call, rows, GENERATION);
                op->counts[WEIR_DURABLE_LEASED] = (uint64_t)int_at(call, rows, TOKEN);
                op->counts[WEIR_DURABLE_DEAD] = (uint64_t)int_at(call, rows, DUE);
                return 0;
        case WEIR__DURABLE_RENEW: read_renewed(op, call, rows); return 0;
        case WEIR__DURABLE_CLAIM: op->next_ready = int_at(call, rows, DUE); return read_all(op, call, rows);
        default: return read_all(op, call, rows);
        }
}

int
weir__durable_pq_read(struct weir__durable_pq_batch *batch, const weir_task *call)
{
        bool is_short = weir_pq_columns(call) != ROW_COLUMNS;
        size_t rows = weir_pq_rows(call);

        if (rows <= batch->superseded)
                return -EPROTO;
        rows--; /* the last one is the header */
        weir_nsec now = int_at(call, rows, is_short ? SHORT_READY : READY);
        bool is_earliest = int_at(call, rows, is_short ? SHORT_GENERATION : GENERATION) > 0;
        for (size_t i = 0; i < batch->count; i++) {
                struct weir__durable_op *op = batch->items[i].op;

                weir__durable_op_clear(op);
                op->status = 0;
                op->is_done = false;
                op->now = now;
                op->is_earliest = is_earliest && batch->call < WEIR__DURABLE_PQ_GET;
        }
        if (batch->call >= WEIR__DURABLE_PQ_BATCHED)
                return read_one(batch->items[0].op, call, rows);
        read_superseded(batch, call);
        if (is_short)
                read_short(batch, call, rows);
        else
                read_rows(batch, call, rows);
        return 0;
}
