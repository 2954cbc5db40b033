/* durable/delivery.h: a delivery, for delivery.c and lease.c. */
#ifndef WEIR_DURABLE_DELIVERY_H
#define WEIR_DURABLE_DELIVERY_H

#include "durable/store.h"

struct weir__durable_delivery {
        /* Constant after creation. */
        weir_durable *store;
        struct weir__durable_row *row;
        const struct weir__durable_topic *topic;
        struct weir__durable_due due;
        weir_series *outer; /* a reference; NULL: no handler */

        _Atomic unsigned references;

        /* Guarded by the lock of the store. */
        struct weir__durable_delivery *next, *former;
        weir_nsec lease_end; /* on the clock of weir_now */
        bool is_listed;      /* it is renewed */

        /* Of the callbacks of the outer series. */
        bool has_begun;
        int status;
};

struct weir__durable_delivery *weir__durable_delivery_ref(struct weir__durable_delivery *delivery);
void weir__durable_delivery_unref(struct weir__durable_delivery *delivery);

/* -- lease.c -- */

/* From now on its lease is renewed. */
void weir__durable_lease_begin(struct weir__durable_delivery *delivery);

/* It is not renewed any more.  It may be called for a delivery that never was.  The lock of the store is held. */
void weir__durable_lease_end(struct weir__durable_delivery *delivery);

#endif
