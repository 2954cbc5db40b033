/* kernel/base/clock.c: the clock of the process, and the one on the wall.
 *
 * Threads: any may read.  The maker is chosen by weir_init while no worker runs; the virtual instant is advanced by the worker of
 *          the only poller (kernel/runtime/virtual.c).
 * Locks:   none. */
#include "kernel/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "kernel/base/panic.h"
#include "kernel/base/phase.h"

struct weir__clock weir__clock;

static _Atomic(weir__wall_change_fn *) on_wall_change;

void
weir__clock_start(bool is_virtual)
{
        atomic_store(&weir__clock.virtual_instant, WEIR__VIRTUAL_ORIGIN);
        atomic_store(&weir__clock.wall_offset, WEIR_WALL_EPOCH - WEIR__VIRTUAL_ORIGIN);
        atomic_store(&weir__clock.is_virtual, is_virtual);
}

weir_nsec
weir_now(void)
{
        return weir__clock_now();
}

/* An offset may be negative, if the wall clock was set to before the virtual one; the sum is not. */
static weir_nsec
virtual_wall(void)
{
        weir_nsec offset = atomic_load(&weir__clock.wall_offset), wall;

        return __builtin_add_overflow(weir__clock_now(), offset, &wall) ? WEIR_FOREVER : wall;
}

weir_nsec
weir_wall_now(void)
{
        return weir__clock_is_virtual() ? virtual_wall() : weir__clock_read(CLOCK_REALTIME);
}

weir_nsec
weir__clock_wall_coarse(void)
{
        return weir__clock_is_virtual() ? virtual_wall() : weir__clock_read(CLOCK_REALTIME_COARSE);
}

void
weir__clock_set_timer(int timer_fd, weir_nsec instant)
{
        struct itimerspec setting = {0};

        if (instant != WEIR_FOREVER)
                setting.it_value = (struct timespec){.tv_sec = instant / 1000000000, .tv_nsec = instant % 1000000000};
        if (instant <= 0)
                setting.it_value = (struct timespec){.tv_nsec = 1};
        if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &setting, NULL) < 0)
                weir__panic("timerfd_settime to %lld: %s", (long long)instant, strerrorname_np(errno));
}

void
weir__clock_on_wall_change(weir__wall_change_fn *fn)
{
        atomic_store(&on_wall_change, fn);
}

int
weir__clock_set_wall(weir_nsec wall)
{
        weir__wall_change_fn *fn = atomic_load(&on_wall_change);

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!weir__clock_is_virtual())
                return -ENOTSUP;
        if (wall < 0 || wall == WEIR_FOREVER)
                return -EINVAL;
        atomic_store(&weir__clock.wall_offset, wall - weir__clock_now());
        if (fn)
                fn();
        return 0;
}
