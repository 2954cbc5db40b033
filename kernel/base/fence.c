/* kernel/base/fence.c: the half of the fence that is done for others.
 *
 * Threads: any.  The registration runs when the library is loaded, before anybody calls it. */
#include "kernel/base/fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/base/panic.h"
#include "kernel/base/phase.h"

_Alignas(64) bool weir__fence_is_asymmetric;

static bool
membarrier(int command)
{
        return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void
prepare(void)
{
        weir__fence_is_asymmetric = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

WEIR__STEPS_OF(WEIR__MODULE_FENCE, [WEIR__STEP_LOAD] = prepare);

/* Out of memory it may be for a while; a process that was restored from an image has to register anew. */
static bool
run_everywhere(void)
{
        bool may_register = true;

        while (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
                if (errno == ENOMEM)
                        continue;
                if (errno != EPERM || !may_register || !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
                        return false;
                may_register = false;
        }
        return true;
}

void
weir__fence_heavy(void)
{
        int before = errno;

        if (!weir__fence_is_asymmetric)
                __sync_synchronize();
        else if (!run_everywhere())
                weir__panic("membarrier: %s, but it was allowed when the library was loaded", strerrorname_np(errno));
        errno = before;
}
