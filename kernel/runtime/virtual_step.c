/* kernel/runtime/virtual_step.c: letting virtual time pass from a thread of the program.
 *
 * Threads: any but workers, one at a time.  The thread is a root meanwhile, for which a shutdown waits.
 * Locks:   none. */
#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/runtime/virtual.h"

static int
begin_steps(void)
{
        int failed = weir__runtime_may_stop();

        if (!failed && atomic_load(&weir__phase) == WEIR__PHASE_DOWN)
                failed = -ENOTSUP; /* a start would have the real clock */
        if (!failed)
                failed = weir__runtime_enter();
        if (failed)
                return failed;
        failed = weir__virtual_begin_steps();
        if (failed)
                weir__runtime_leave();
        return failed;
}

static int
end_steps(int result)
{
        weir__virtual_end_steps();
        weir__runtime_leave();
        return result;
}

int
weir_clock_run_until(weir_nsec instant)
{
        int failed = begin_steps();

        if (!failed)
                failed = end_steps(weir__virtual_step_to(instant));
        if (failed == -EINVAL)
                weir__log_refusal("weir_clock_run_until: %lld: expected an instant that has not passed, before WEIR_FOREVER",
                                  (long long)instant);
        return failed;
}

int
weir_clock_advance(weir_nsec by)
{
        int failed = begin_steps();

        if (!failed)
                failed = end_steps(by < 0 ? -EINVAL : weir__virtual_step_to(weir__clock_after(weir__clock_now(), by)));
        if (failed == -EINVAL)
                weir__log_refusal("weir_clock_advance: %lld: expected 0 or more, and to end before WEIR_FOREVER", (long long)by);
        return failed;
}

int
weir_clock_set_wall(weir_nsec wall)
{
        int failed = weir__clock_set_wall(wall);

        if (failed == -EINVAL)
                weir__log_refusal("weir_clock_set_wall: %lld: expected 0 or more, before WEIR_FOREVER", (long long)wall);
        return failed;
}
