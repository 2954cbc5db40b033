/* kernel/data/histogram.c: reading a histogram while its owner adds to it.
 *
 * Threads: any.
 * Locks:   the caller's, which guards `former`; the owner takes none. */
#include "kernel/data/histogram.h"

#define LAST_BUCKET (WEIR__HISTOGRAM_BUCKETS - 1)

weir_nsec
weir__histogram_least(unsigned bucket)
{
        unsigned fine = 1U << WEIR__HISTOGRAM_FINE_BITS, shift = bucket < fine ? 0 : bucket / fine - 1;

        return (weir_nsec)(bucket - shift * fine) << shift;
}

weir_nsec
weir__histogram_greatest(unsigned bucket)
{
        return bucket < LAST_BUCKET ? weir__histogram_least(bucket + 1) - 1 : INT64_MAX;
}

/* Adds what each bucket has counted.  Returns the highest that has counted any; -1: none has. */
static int
collect_counts(struct weir__histogram *histogram, struct weir__histogram_sum *sum, bool restart)
{
        int highest = -1;

        for (int i = 0; i <= LAST_BUCKET; i++) {
                uint64_t count = atomic_load_explicit(&histogram->counts[i], memory_order_acquire),
                         added = count - histogram->former[i];

                if (added)
                        highest = i;
                sum->counts[i] += added;
                sum->count += added;
                if (restart)
                        histogram->former[i] = count;
        }
        return highest;
}

void
weir__histogram_collect(struct weir__histogram *histogram, struct weir__histogram_sum *sum, bool restart)
{
        int highest = collect_counts(histogram, sum, restart);
        weir_nsec max = restart ? atomic_exchange_explicit(&histogram->max, 0, memory_order_relaxed)
                                : atomic_load_explicit(&histogram->max, memory_order_relaxed);

        if (highest < 0)
                return;
        weir_nsec least = weir__histogram_least((unsigned)highest), greatest = weir__histogram_greatest((unsigned)highest);
        if (max < least || max > greatest) /* of a value that is not in these counts: a reader started anew meanwhile */
                max = highest < LAST_BUCKET ? greatest : least;
        if (max > sum->max)
                sum->max = max;
}

weir_nsec
weir__histogram_quantile(const struct weir__histogram_sum *sum, unsigned per_mille)
{
        uint64_t rank = sum->count / 1000 * per_mille + (sum->count % 1000 * per_mille + 999) / 1000, seen = 0;

        for (unsigned i = 0; i <= LAST_BUCKET && sum->count; i++) {
                weir_nsec greatest = weir__histogram_greatest(i);

                seen += sum->counts[i];
                if (seen && seen >= rank)
                        return greatest < sum->max ? greatest : sum->max;
        }
        return 0;
}
