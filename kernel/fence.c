/* kernel/fence.c: the half of the fence that is done for others.
 *
 * Threads: any.  The registration runs when the library is loaded, before anybody calls it. */
#include "kernel/fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/panic.h"

bool weir__fence_is_asymmetric;

static bool
membarrier(int command)
{
        return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* Before the constructors of a program that has the static library in it. */
__attribute__((constructor(101))) static void
prepare(void)
{
        weir__fence_is_asymmetric = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void
weir__fence_heavy(void)
{
        if (!weir__fence_is_asymmetric) {
                __sync_synchronize();
                return;
        }
        /* A child of fork may have to register anew. */
        if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
            (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) || !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
                weir__panic("membarrier: %s, but it could be registered at the start", strerrorname_np(errno));
}
