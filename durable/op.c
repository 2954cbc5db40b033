/* durable/op.c: the memory of operations and of rows.
 *
 * An operation and its texts are one block; so are a row and its texts.  An operation of the program belongs to its promise,
 * which the engine keeps by a reference. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "durable/store.h"

static size_t
room_of(const char *text)
{
        return text ? strlen(text) + 1 : 0;
}

/* Copies a text to `*end`, and moves that behind it. */
static const char *
put(char **end, const char *text, size_t size)
{
        char *begin = *end;

        if (size)
                memcpy(begin, text, size);
        *end = begin + size;
        return begin;
}

static const char *
put_text(char **end, const char *text)
{
        return text ? put(end, text, strlen(text) + 1) : "";
}

static const void *
put_payload(char **end, const void *payload, size_t size)
{
        const char *begin = put(end, payload, size);

        *(*end)++ = '\0';
        return begin;
}

struct weir__durable_op *
weir__durable_op_new(enum weir__durable_kind kind, const struct weir__durable_texts *texts)
{
        size_t size = room_of(texts->name) + room_of(texts->topic) + room_of(texts->cron) + room_of(texts->zone) +
                      room_of(texts->prefix) + room_of(texts->behind) + room_of(texts->problem) + texts->payload_size + 1;
        struct weir__durable_op *op = malloc(sizeof *op + size);

        if (!op)
                return NULL;
        memset(op, 0, sizeof *op);
        op->kind = kind;
        op->next_ready = WEIR_FOREVER;
        char *end = op->text;
        op->payload = put_payload(&end, texts->payload, texts->payload_size);
        op->payload_size = texts->payload_size;
        op->name = put_text(&end, texts->name);
        op->topic = put_text(&end, texts->topic);
        op->cron = put_text(&end, texts->cron);
        op->zone = put_text(&end, texts->zone);
        op->prefix = put_text(&end, texts->prefix);
        op->behind = put_text(&end, texts->behind);
        op->problem = put_text(&end, texts->problem);
        return op;
}

void
weir__durable_op_clear(struct weir__durable_op *op)
{
        for (size_t i = 0; i < op->row_count; i++)
                free(op->rows[i]);
        op->row_count = 0;
}

void
weir__durable_op_free(void *data)
{
        struct weir__durable_op *op = data;

        weir__durable_op_clear(op);
        free(op->rows);
        free(op->topics);
        free(op->claims);
        if (op->store)
                weir__durable_unref(op->store);
        free(op);
}

struct weir__durable_row *
weir__durable_row_new(const struct weir_durable_info *info)
{
        size_t size = room_of(info->name) + room_of(info->topic) + room_of(info->node) + room_of(info->problem) +
                      room_of(info->cron) + room_of(info->zone) + info->payload_size + 1;
        struct weir__durable_row *row = malloc(sizeof *row + size);

        if (!row)
                return NULL;
        char *end = row->text;
        row->info = *info;
        row->info.payload = put_payload(&end, info->payload, info->payload_size);
        row->info.name = put_text(&end, info->name);
        row->info.topic = put_text(&end, info->topic);
        row->info.node = put_text(&end, info->node);
        row->info.problem = put_text(&end, info->problem);
        row->info.cron = put_text(&end, info->cron);
        row->info.zone = put_text(&end, info->zone);
        return row;
}

int
weir__durable_op_add(struct weir__durable_op *op, const struct weir_durable_info *info)
{
        if (op->row_count == op->row_room) {
                size_t room = op->row_room ? 2 * op->row_room : 8;
                struct weir__durable_row **rows = realloc(op->rows, room * sizeof *rows);

                if (!rows)
                        return -ENOMEM;
                op->rows = rows;
                op->row_room = room;
        }
        struct weir__durable_row *row = weir__durable_row_new(info);
        if (!row)
                return -ENOMEM;
        op->rows[op->row_count++] = row;
        return 0;
}

int
weir__durable_op_add_by_ready(struct weir__durable_op *op, const struct weir_durable_info *info)
{
        size_t at = op->row_count;

        if (info->ready == WEIR_FOREVER || (at >= op->most && op->rows[at - 1]->info.ready <= info->ready))
                return 0;
        int failed = weir__durable_op_add(op, info);
        if (failed)
                return failed;
        struct weir__durable_row *row = op->rows[at];
        for (; at > 0 && op->rows[at - 1]->info.ready > row->info.ready; at--)
                op->rows[at] = op->rows[at - 1];
        op->rows[at] = row;
        if (op->row_count > op->most)
                free(op->rows[--op->row_count]);
        return 0;
}

void
weir__durable_submit(weir_durable *store, struct weir__durable_op *op)
{
        if (!op->store)
                op->store = weir__durable_ref(store);
        op->node = store->node;
        op->sent = weir_now();
        weir_waitgroup_add(store->group, 1);
        store->engine->kind->submit(store->engine, op);
}

void
weir__durable_op_end(struct weir__durable_op *op, int status)
{
        weir_durable *store = weir__durable_ref(op->store);

        op->status = status == -ENOENT ? -ECONNREFUSED : status; /* the former says of an operation that there is no such timer */
        if (status)
                weir__durable_op_clear(op);
        op->ended(op);
        weir_waitgroup_done(store->group);
        weir__durable_unref(store);
}
