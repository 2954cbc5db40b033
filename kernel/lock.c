/* kernel/lock.c: the assertion behind the lock ranks.
 *
 * Threads: each thread keeps its own record of the ranks it holds, a bit a rank. */
#include "kernel/lock.h"

#ifdef WEIR_DEBUG

#include "kernel/panic.h"

static _Thread_local unsigned held;

void
weir__rank_enter(int rank)
{
        if (held >> rank)
                weir__panic("lock of rank %d taken while ranks %#x are held: ranks must ascend", rank, held);
        held |= 1u << rank;
}

void
weir__rank_leave(int rank)
{
        held &= ~(1u << rank);
}

#else

/* ISO C forbids an empty translation unit. */
extern int weir__lock_ranks_are_not_asserted;

#endif
