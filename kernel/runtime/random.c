/* kernel/runtime/random.c: splitmix64, one state for the process.
 *
 * Threads: any.
 * Locks:   none.
 * Source:  Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014. */
#include "kernel/runtime/random.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/base/clock.h"

static _Atomic uint64_t state;

void
weir__random_start(void)
{
        uint64_t seed = 1;

        if (!weir__clock_is_virtual() && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
                seed = (uint64_t)weir__clock_read(CLOCK_REALTIME) ^ (uintptr_t)&seed << 24;
        atomic_store(&state, seed);
}

uint64_t
weir__random(void)
{
        const uint64_t step = 0x9e3779b97f4a7c15;
        uint64_t number = atomic_fetch_add_explicit(&state, step, memory_order_relaxed) + step;

        number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
        number = (number ^ number >> 27) * 0x94d049bb133111eb;
        return number ^ number >> 31;
}

uint64_t
weir__random_up_to(uint64_t most)
{
        return most == UINT64_MAX ? weir__random() : weir__random() % (most + 1);
}
