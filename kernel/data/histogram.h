/* kernel/data/histogram.h: how often which duration was seen, counted by one thread and read by any.
 *
 * Log-linear: up to 15 ns each value has a bucket of its own, from there on each power of two has sixteen.  So what is read is at
 * most 1/16 too large, never too small.  Durations above 34 s share the last bucket.  The greatest value is kept as it is.
 *
 * The owner only ever adds one to a bucket.  A reader that starts anew notes the counts, and subtracts them from then on.  So the
 * owner has nothing to do for that, and each value is counted exactly once, before or after. */
#ifndef WEIR_KERNEL_HISTOGRAM_H
#define WEIR_KERNEL_HISTOGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#define WEIR__HISTOGRAM_FINE_BITS 4 /* a power of two has 2^4 buckets */
#define WEIR__HISTOGRAM_BUCKETS   512

/* All zero is empty. */
struct weir__histogram {
        /* Written by the owner (release, behind `max`), read by others (acquire).  They only grow. */
        _Atomic uint64_t counts[WEIR__HISTOGRAM_BUCKETS];

        /* The greatest value.  The owner raises it by plain loads and stores, and a reader that starts anew takes it.  When they
         * meet, one of the two is lost.  A reader corrects that to within a bucket.  Relaxed. */
        _Atomic weir_nsec max;

        /* Of all values since the process began.  Written by the owner, relaxed. */
        _Atomic uint64_t total;

        /* Guarded by the readers' lock: the counts when it was started anew. */
        uint64_t former[WEIR__HISTOGRAM_BUCKETS];
};

/* The counts that were read, of one histogram or of several.  All zero is empty. */
struct weir__histogram_sum {
        uint64_t counts[WEIR__HISTOGRAM_BUCKETS];
        uint64_t count; /* of all */
        weir_nsec max;
};

static inline unsigned weir__histogram_bucket(weir_nsec value)
{
        if (value >> WEIR__HISTOGRAM_FINE_BITS <= 0)
                return value > 0 ? (unsigned)value : 0;
        unsigned shift = 63 - WEIR__HISTOGRAM_FINE_BITS - (unsigned)__builtin_clzll((unsigned long long)value);
        unsigned bucket = (shift << WEIR__HISTOGRAM_FINE_BITS) + (unsigned)(value >> shift);
        return bucket < WEIR__HISTOGRAM_BUCKETS ? bucket : WEIR__HISTOGRAM_BUCKETS - 1;
}

/* Counts a value.  Owner only. */
static inline void weir__histogram_add(struct weir__histogram *histogram, weir_nsec value)
{
        _Atomic uint64_t *count = &histogram->counts[weir__histogram_bucket(value)];

        if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
                atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
        if (value > 0)
                atomic_store_explicit(&histogram->total,
                                      atomic_load_explicit(&histogram->total, memory_order_relaxed) + (uint64_t)value,
                                      memory_order_relaxed);
        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_release);
}

/* The least and the greatest value that a bucket counts. */
weir_nsec weir__histogram_least(unsigned bucket);
weir_nsec weir__histogram_greatest(unsigned bucket);

/* Adds to *sum what was counted since the histogram was started anew, and starts it anew if `restart`.  Any thread, under a lock
 * that all callers hold. */
void weir__histogram_collect(struct weir__histogram *histogram, struct weir__histogram_sum *sum, bool restart);

/* The value that `per_mille` of a thousand values do not exceed, rounded up to the end of its bucket; 0 when empty. */
weir_nsec weir__histogram_quantile(const struct weir__histogram_sum *sum, unsigned per_mille);

#endif
