/* net/datagram/table.h: questions that were asked at a socket, found by the sender and the id of a reply.
 *
 *     LIVE --retire--> OVER: it knows a late or repeated reply --30 s, or 256 others--> freed
 *
 * Owner of the socket's poller only. */
#ifndef WEIR_NET_DATAGRAM_TABLE_H
#define WEIR_NET_DATAGRAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/list.h"
#include "kernel/loop/deadlines.h"
#include "net/datagram/datagram.h"

#define WEIR__ID_MAX      32 /* bytes */
#define WEIR__ID_SHAPES   8  /* places of ids that questions of one socket may have at once */
#define WEIR__TABLE_SLOTS 256
#define WEIR__OVER_MOST   256
#define WEIR__OVER_TIME   WEIR_SEC(30)

struct weir__question {
        struct weir__alarm alarm; /* of who asks; the question stays in memory while its work is on its way */
        bool is_alarm_out;

        struct weir__link link;  /* in its slot */
        struct weir__link order; /* in `live` or `over` */
        struct weir_udp_address peer;
        uint32_t hash;
        uint8_t shape;
        uint8_t id_size;
        uint16_t id_at; /* in a reply */
        unsigned char id[WEIR__ID_MAX];
        void *asker; /* NULL: OVER */
        weir_nsec until; /* OVER: when it is forgotten */
        bool is_gone;    /* it is in no table; freed when its alarm is not on its way */
};

struct weir__table {
        struct weir__list slots[WEIR__TABLE_SLOTS];
        struct weir__list live, over; /* the oldest first */
        size_t live_count, over_count;
        uint32_t seed; /* of hashes */
        struct {
                size_t users;
                uint16_t id_at;
                uint8_t id_size;
        } shapes[WEIR__ID_SHAPES];
};

/* NULL when out of memory. */
struct weir__table *weir__table_new(void);
void weir__table_free(struct weir__table *table); /* all questions are OVER */

/* Adds a question whose peer and id are set.  One of the same that is OVER is forgotten.
 *
 * Result:  0; -EEXIST: there is one that is LIVE; -ENOSPC: there are too many places of ids. */
int weir__table_add(struct weir__table *table, struct weir__question *question);

/* It is OVER from now on, and belongs to the table. */
void weir__table_retire(struct weir__table *table, struct weir__question *question, weir_nsec now);

/* The question to which the datagram replies, LIVE or OVER; NULL: none. */
struct weir__question *weir__table_find(struct weir__table *table, const struct weir__datagram *datagram, weir_nsec now);

/* The oldest that is LIVE; NULL: there is none. */
static inline struct weir__question *
weir__table_first(const struct weir__table *table)
{
        struct weir__link *link = weir__list_first(&table->live);

        return link ? weir__container_of(link, struct weir__question, order) : NULL;
}

static inline struct weir__question *
weir__table_next(const struct weir__table *table, const struct weir__question *question)
{
        struct weir__link *link = weir__list_next(&table->live, &question->order);

        return link ? weir__container_of(link, struct weir__question, order) : NULL;
}

/* The work of its alarm has come, and it is_gone. */
void weir__question_free(struct weir__question *question);

#endif
