/* kernel/data/histogram.h: how often which duration was seen, counted by one thread and read by any.
 *
 * Log-linear: up to 15 ns each value has a bucket of its own, from there on each power of two has sixteen.  So what is read is at
 * most 1/16 too large, never too small.  What is longer than 34 s shares the last bucket; the greatest value is kept as it is.
 *
 * The owner only ever adds one to a bucket.  Who starts anew notes what there is, and subtracts it from then on: so the owner
 * need not be asked, and each value is counted before or after, not twice, not never. */
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

        /* The greatest value.  Raised by the owner with plain loads and stores, taken by who starts anew: one of the two may be
         * lost when they meet, which who reads mends to within a bucket.  Relaxed. */
        _Atomic weir_nsec max;

        /* Of all values since the process began.  Written by the owner, relaxed. */
        _Atomic uint64_t total;

        /* Guarded by the readers' lock: the counts when it was started anew. */
        uint64_t former[WEIR__HISTOGRAM_BUCKETS];
};

/* What was read, of one histogram or of several.  All zero is empty. */
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
 * that all who call this hold. */
void weir__histogram_collect(struct weir__histogram *histogram, struct weir__histogram_sum *sum, bool restart);

/* The value that so many of a thousand do not exceed, rounded up to the end of its bucket; 0 when empty. */
weir_nsec weir__histogram_quantile(const struct weir__histogram_sum *sum, unsigned per_mille);

#endif
