/* bench/cases.c: cases that are asked for by name, and callbacks that are counted.
 *
 * Threads: a counter is written by one thread (relaxed) and read by any; what was asked for belongs to the main thread. */
#include "cases.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define THREADS_MAX 64

struct bench_size
bench_size_of(int argc, char *argv[])
{
        struct bench_size size = {0};

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "quick") == 0)
                        size.quick = true;
                else if (strcmp(argv[i], "full") == 0)
                        size.full = true;
                else
                        size.only = argv[i];
        }
        return size;
}

bool
bench_wanted(const struct bench_size *size, const char *name)
{
        const char *found = size->only ? strstr(name, size->only) : name;

        while (found && found > name && isalnum((unsigned char)found[-1])) /* "named" is not in "unnamed" */
                found = strstr(found + 1, size->only);
        return found && !bench_interrupted();
}

/* -- counting -- */

static struct {
        _Alignas(64) _Atomic size_t count; /* written by one thread (relaxed), read by who waits */
} counters[THREADS_MAX];

static _Atomic unsigned counter_count;
static _Thread_local _Atomic size_t *counter;

void
bench_count(void)
{
        if (!counter)
                counter = &counters[atomic_fetch_add(&counter_count, 1) % THREADS_MAX].count;
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_release);
}

size_t
bench_counted(void)
{
        size_t sum = 0;

        for (unsigned i = 0; i < atomic_load(&counter_count) && i < THREADS_MAX; i++)
                sum += atomic_load_explicit(&counters[i].count, memory_order_acquire);
        return sum;
}

bool
bench_wait_counted(size_t count, unsigned seconds)
{
        int64_t until = bench_now() + seconds * BENCH_NSEC_PER_SEC;

        while (bench_counted() < count) {
                if (bench_now() > until) {
                        fprintf(stderr, "bench: %zu callbacks of %zu\n", bench_counted(), count);
                        return false;
                }
                bench_sleep(1000000); /* a look is CPU time of the program: some microseconds */
        }
        return true;
}
