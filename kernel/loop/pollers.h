/* kernel/loop/pollers.h: the pollers of the process. */
#ifndef WEIR_KERNEL_POLLERS_H
#define WEIR_KERNEL_POLLERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernel/loop/poller.h"

/* The index in tasks that are made before the first start.  The poller with that index has a lock and nothing else. */
#define WEIR__POLLER_NONE WEIR__POLLERS_MAX

struct weir__pollers {
        /* Written by weir_init under the runtime's lock before the phase becomes UP, constant then. */
        _Atomic unsigned count;      /* 0 until the first start; any thread may read it at any time */
        _Atomic uint8_t timer_slack; /* of timers that are made from now on: the power of two of a duration */

        /* Grows only: an index stays good for ever. */
        _Atomic(struct weir__poller *) at[WEIR__POLLERS_MAX + 1];
};

extern struct weir__pollers weir__pollers;

static inline unsigned
weir__pollers_count(void)
{
        return atomic_load_explicit(&weir__pollers.count, memory_order_acquire);
}

/* The poller of an index, the same one each time while the runtime is up. */
static inline struct weir__poller *
weir__poller_at(unsigned index)
{
        unsigned count = weir__pollers_count();

        return weir__pollers.at[__builtin_expect(index < count, 1) ? index : index % count];
}

#endif
