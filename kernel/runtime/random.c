/* kernel/runtime/random.c: splitmix64, one state for the process.
 *
 * Threads: any.  Its numbers are asked for before waits, so they may cost a lock.
 * Source:  Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014. */
#include "kernel/runtime/random.h"

#include <stdbool.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        uint64_t state;
        unsigned generation; /* of the runtime that it was seeded for */
        bool is_seeded;
} generator = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

static uint64_t
seed(void)
{
        uint64_t number;

        if (weir__clock_is_virtual())
                return 1;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number)
                return number;
        return (uint64_t)weir__clock_read(CLOCK_REALTIME) ^ (uintptr_t)&number << 24;
}

static bool
is_seeded(void)
{
        return generator.is_seeded && generator.generation == weir__phase_generation;
}

uint64_t
weir__random(void)
{
        weir__lock(&generator.lock);
        if (!is_seeded()) {
                generator.state = seed();
                generator.generation = weir__phase_generation;
                generator.is_seeded = true;
        }
        uint64_t number = generator.state += 0x9e3779b97f4a7c15;
        weir__unlock(&generator.lock);
        number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
        number = (number ^ number >> 27) * 0x94d049bb133111eb;
        return number ^ number >> 31;
}

uint64_t
weir__random_up_to(uint64_t most)
{
        return most == UINT64_MAX ? weir__random() : weir__random() % (most + 1);
}
