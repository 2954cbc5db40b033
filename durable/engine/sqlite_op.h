/* durable/engine/sqlite_op.h: operations as statements of SQLite, within a transaction. */
#ifndef WEIR_DURABLE_SQLITE_OP_H
#define WEIR_DURABLE_SQLITE_OP_H

#include <weir/sqlite.h>

#include "durable/engine/engine.h"

extern const char weir__durable_sqlite_tables[];

/* What the operations of one transaction share.  It begins with the connection, the time and the rotation. */
struct weir__durable_sqlite_run {
        weir_sqlite_connection *connection;
        weir_nsec now;
        uint64_t rotation; /* another one each time: the topic that a claim begins with */
        int64_t sequence;  /* the last number that was given away */
        int64_t was;       /* that of the table */
        bool knows_first;  /* `first` is the earliest `ready` of the topic `first_topic` */
        weir_nsec first;
        const char *first_topic;
};

/* Each result: 0, a negative errno, or a code of SQLite: the transaction must be undone. */
int weir__durable_sqlite_begin(struct weir__durable_sqlite_run *run);
int weir__durable_sqlite_carry_out(struct weir__durable_sqlite_run *run, struct weir__durable_op *op);
int weir__durable_sqlite_end(struct weir__durable_sqlite_run *run);

#endif
