/* weir/time.h: durations, and the clock that they are measured by. */
#ifndef WEIR_TIME_H
#define WEIR_TIME_H

#include <weir/export.h>

WEIR_BEGIN

/* A duration or an instant in signed nanoseconds.  Instants count from an arbitrary origin and
 * never run backwards. */
typedef int64_t weir_nsec;

/* Longer than any other duration.  A timer with it ends only by cancel or shutdown; a limit with it
 * is no limit. */
#define WEIR_FOREVER INT64_MAX

/* A whole number `n` of units.  The result saturates at WEIR_FOREVER and at its negative.  Usable
 * in constant expressions; a variable is evaluated once. */
#define WEIR_NSEC(n) ((weir_nsec)(n))
#define WEIR_USEC(n) WEIR_SCALE_(n, INT64_C(1000))
#define WEIR_MSEC(n) WEIR_SCALE_(n, INT64_C(1000000))
#define WEIR_SEC(n)  WEIR_SCALE_(n, INT64_C(1000000000))

/* Helpers of the macros above.  The quotient is 0 unless `n` does not fit. */
#define WEIR_SCALE_(n, unit) (__builtin_constant_p(n) ? WEIR_SCALE_CONSTANT_((int64_t)(n), unit) : weir_scale_(n, unit))
#define WEIR_SCALE_CONSTANT_(n, unit) \
        ((n) / (INT64_MAX / (unit) + 1) > 0 ? INT64_MAX : (n) / (INT64_MAX / (unit) + 1) < 0 ? -INT64_MAX : (n) * (unit))

static inline weir_nsec weir_scale_(int64_t n, int64_t unit)
{
        return WEIR_SCALE_CONSTANT_(n, unit);
}

/* The present instant on the library's clock: CLOCK_MONOTONIC, or the virtual time while the
 * runtime runs on WEIR_CLOCK_VIRTUAL.
 *
 * Units:   nanoseconds since an arbitrary origin.
 * Threads: any. */
WEIR_API weir_nsec weir_now(void);

WEIR_END

#endif
