/* factory/fiber/pin.c: fibers that stay on one thread.
 *
 * A worker's thread cannot be the one: a fiber would wait behind whatever blocks there, and a worker may lose its poller or end.
 * So a pinned fiber has a thread of its own, a partner (partner.h).  A worker runs its stretches as ever, but hands each to that
 * thread, and waits (stretch.c).
 *
 *     on its worker --pin--> MOVE, on its own thread --awaits--> ... on its own thread --unpin--> MOVE, on its worker
 *
 * A MOVE is no await: the worker goes on with the fiber at once, within the same callback.  The thread is kept until the fiber
 * ends, so that the next pin finds what was left there.
 *
 * Threads: a fiber.
 * Locks:   none. */
#include <errno.h>

#include "factory/fiber/fiber.h"
#include "factory/fiber/hop.h"
#include "factory/fiber/partner.h"
#include "kernel/memory/memory.h"

static int
make_partner(struct weir__fiber *fiber)
{
        struct weir__partner *partner = weir__alloc(sizeof *partner);
        int failed = partner ? weir__partner_begin(partner, "weir/fiber") : -ENOMEM;

        if (failed) {
                if (partner)
                        weir__free(partner, sizeof *partner);
                return failed;
        }
        fiber->partner = partner;
        atomic_store_explicit(&weir__stretches_move, true, memory_order_relaxed);
        return 0;
}

static int
pin(struct weir__fiber *fiber, void *at)
{
        int failed = fiber->partner ? 0 : make_partner(fiber);

        if (!failed && fiber->partner->pins++ == 0)
                weir__fiber_leave(fiber, WEIR__FIBER_MOVE, at);
        return failed;
}

static int
unpin(struct weir__fiber *fiber, void *at)
{
        if (!fiber->partner || fiber->partner->pins == 0)
                return -EDEADLK;
        if (--fiber->partner->pins == 0)
                weir__fiber_leave(fiber, WEIR__FIBER_MOVE, at);
        return 0;
}

int
weir_fiber_pin(bool on)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return !fiber ? -EDEADLK : on ? pin(fiber, WEIR__FIBER_AT) : unpin(fiber, WEIR__FIBER_AT);
}
