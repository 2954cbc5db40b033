/* net/datagram/table.c: questions that were asked at a socket, found by the sender and the id of a reply.
 *
 * Threads: the owner of the socket's poller.
 * Locks:   none.
 *
 * Where the id is in a reply depends on the question.  Most sockets have questions of one shape, so a datagram is looked up once
 * for each shape. */
#include "net/datagram/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/runtime/random.h"

/* FNV-1a, begun with a number that no peer knows.  Ids are chosen by this program; a peer can only repeat them. */
static uint32_t
hash_on(uint32_t hash, const void *data, size_t size)
{
        for (const unsigned char *byte = data; size--; byte++)
                hash = (hash ^ *byte) * UINT32_C(16777619);
        return hash;
}

static uint32_t
hash_of(const struct weir__table *table, unsigned shape, const void *id, size_t id_size)
{
        return hash_on(hash_on(table->seed, &shape, sizeof shape), id, id_size);
}

static struct weir__list *
slot_of(struct weir__table *table, uint32_t hash)
{
        return &table->slots[(hash ^ hash >> 16) % WEIR__TABLE_SLOTS];
}

struct weir__table *
weir__table_new(void)
{
        struct weir__table *table = calloc(1, sizeof *table);

        if (!table)
                return NULL;
        for (unsigned i = 0; i < WEIR__TABLE_SLOTS; i++)
                weir__list_prepare(&table->slots[i]);
        table->seed = (uint32_t)weir__random();
        weir__list_prepare(&table->live);
        weir__list_prepare(&table->over);
        return table;
}

void
weir__question_free(struct weir__question *question)
{
        weir__free(question, sizeof *question);
}

static void
forget(struct weir__table *table, struct weir__question *question)
{
        weir__link_remove(&question->link);
        weir__link_remove(&question->order);
        table->shapes[question->shape].users--;
        table->over_count--;
        question->is_gone = true;
        if (!question->is_alarm_out)
                weir__question_free(question);
}

static struct weir__question *
oldest_over(const struct weir__table *table)
{
        struct weir__link *link = weir__list_first(&table->over);

        return link ? weir__container_of(link, struct weir__question, order) : NULL;
}

void
weir__table_free(struct weir__table *table)
{
        struct weir__question *question;

        if (!table)
                return;
        while ((question = oldest_over(table)))
                forget(table, question);
        free(table);
}

static void
forget_old(struct weir__table *table, weir_nsec now)
{
        struct weir__question *question;

        while ((question = oldest_over(table)) && (question->until <= now || table->over_count > WEIR__OVER_MOST))
                forget(table, question);
}

/* Result: its number, or -ENOSPC. */
static int
shape_for(const struct weir__table *table, const struct weir__question *question)
{
        int unused = -ENOSPC;

        for (int i = 0; i < WEIR__ID_SHAPES; i++) {
                if (!table->shapes[i].users)
                        unused = i;
                else if (table->shapes[i].id_at == question->id_at && table->shapes[i].id_size == question->id_size)
                        return i;
        }
        return unused;
}

static struct weir__question *
find(struct weir__table *table, unsigned shape, uint32_t hash, const struct weir_udp_address *peer, const void *id,
     size_t id_size)
{
        struct weir__list *slot = slot_of(table, hash);

        for (struct weir__link *link = weir__list_first(slot); link; link = weir__list_next(slot, link)) {
                struct weir__question *question = weir__container_of(link, struct weir__question, link);

                if (question->hash == hash && question->shape == shape && memcmp(question->id, id, id_size) == 0 &&
                    weir_udp_address_compare(&question->peer, peer) == 0)
                        return question;
        }
        return NULL;
}

int
weir__table_add(struct weir__table *table, struct weir__question *question)
{
        int shape = shape_for(table, question);

        if (shape < 0)
                return shape;
        question->shape = (uint8_t)shape;
        question->hash = hash_of(table, (unsigned)shape, question->id, question->id_size);
        if (table->shapes[shape].users) {
                struct weir__question *other = find(table, (unsigned)shape, question->hash, &question->peer, question->id,
                                                    question->id_size);

                if (other && other->asker)
                        return -EEXIST;
                if (other)
                        forget(table, other);
        }
        table->shapes[shape].users++;
        table->shapes[shape].id_at = question->id_at;
        table->shapes[shape].id_size = question->id_size;
        weir__list_append(slot_of(table, question->hash), &question->link);
        weir__list_append(&table->live, &question->order);
        table->live_count++;
        return 0;
}

void
weir__table_retire(struct weir__table *table, struct weir__question *question, weir_nsec now)
{
        weir__link_remove(&question->order);
        weir__list_append(&table->over, &question->order);
        table->live_count--;
        table->over_count++;
        question->asker = NULL;
        question->until = now + WEIR__OVER_TIME;
        forget_old(table, now);
}

struct weir__question *
weir__table_find(struct weir__table *table, const struct weir__datagram *datagram, weir_nsec now)
{
        struct weir__question *found = NULL;

        forget_old(table, now);
        for (unsigned i = 0; i < WEIR__ID_SHAPES; i++) {
                const size_t at = table->shapes[i].id_at, size = table->shapes[i].id_size;

                if (!table->shapes[i].users || datagram->size < at + size)
                        continue;
                struct weir__question *question = find(table, i, hash_of(table, i, datagram->data + at, size), &datagram->name,
                                                       datagram->data + at, size);
                if (question && question->asker)
                        return question;
                found = found ? found : question;
        }
        return found;
}
