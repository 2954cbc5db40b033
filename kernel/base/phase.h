/* kernel/base/phase.h: whether the runtime is up.
 *
 *     DOWN --init, or first use--> UP --shutdown--> STOPPING --> ENDED --init--> UP
 *      any --fork, in the child, unless DOWN or ENDED--> FORKED
 *
 * kernel/runtime/runtime.c sets the phase.  All other modules only read it, so it lies below them. */
#ifndef WEIR_KERNEL_PHASE_H
#define WEIR_KERNEL_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/time.h>

enum weir__phase {
        WEIR__PHASE_DOWN = 0, /* never started: the first use starts it */
        WEIR__PHASE_UP,
        WEIR__PHASE_STOPPING, /* shutdown has begun */
        WEIR__PHASE_ENDED,    /* shutdown is over; weir_init may start it again */
        WEIR__PHASE_FORKED,   /* a child of fork: for ever */
};

extern _Atomic int weir__phase;         /* enum weir__phase; sequentially consistent where it is compared with counts of roots */
extern unsigned weir__phase_generation; /* counts the starts; written before the phase becomes UP, constant while it is */

/* How long exit() waits for what runs: config.exit_wait of the last start.  Read by exit() without a lock. */
#define WEIR__PHASE_EXIT_WAIT WEIR_SEC(2) /* the default */
extern _Atomic weir_nsec weir__phase_exit_wait;

static inline bool
weir__phase_is_stopping(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_STOPPING;
}

static inline bool
weir__phase_is_up(void)
{
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);

        return phase == WEIR__PHASE_UP || phase == WEIR__PHASE_STOPPING;
}

static inline bool
weir__phase_is_forked(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_FORKED;
}

#endif
