/* kernel/clock.c: the clock of the process.
 *
 * Threads: any may read.  The maker is chosen by weir_init while no worker runs; the virtual instant is advanced by the worker of
 * the only poller (kernel/worker.c). */
#include "kernel/clock.h"

struct weir__clock weir__clock;

weir_nsec
weir_now(void)
{
        return weir__clock_now();
}
