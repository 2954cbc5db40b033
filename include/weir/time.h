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

/* So many units.  The result saturates at WEIR_FOREVER and at its negative.  Usable in constant
 * expressions; a variable is evaluated once.  Of WEIR_USEC, WEIR_MSEC and WEIR_SEC `n` may be a
 * floating number, such as WEIR_SEC(0.5): the result is rounded to the nearest nanosecond. */
#define WEIR_NSEC(n) ((weir_nsec)(n))
#define WEIR_USEC(n) WEIR_SCALE_(n, INT64_C(1000))
#define WEIR_MSEC(n) WEIR_SCALE_(n, INT64_C(1000000))
#define WEIR_SEC(n)  WEIR_SCALE_(n, INT64_C(1000000000))

/* Helpers of the macros above.  A NaN gives any duration.  In C only the selected part makes a constant expression; C++ has no
 * _Generic, and needs none.  A half is 0 in every type of integers. */
#ifdef __cplusplus
#define WEIR_SCALE_(n, unit) \
        (static_cast<__typeof__((n) + 0)>(1) / 2 > 0 ? WEIR_SCALE_REAL_(n, unit) : WEIR_SCALE_WHOLE_(n, unit))
#else
#define WEIR_SCALE_(n, unit)                                                                                           \
        __extension__ _Generic((n), float: WEIR_SCALE_REAL_(n, unit), double: WEIR_SCALE_REAL_(n, unit),               \
                               long double: WEIR_SCALE_REAL_(n, unit), default: WEIR_SCALE_WHOLE_(n, unit))
#endif
#define WEIR_SCALE_WHOLE_(n, unit) \
        (__builtin_constant_p((int64_t)(n)) ? WEIR_SCALE_CONSTANT_((int64_t)(n), unit) : weir_scale_((int64_t)(n), unit))
#define WEIR_SCALE_REAL_(n, unit) \
        (__builtin_constant_p((double)(n)) ? WEIR_ROUND_((double)(n) * (double)(unit)) : weir_scale_real_((double)(n), unit))

/* The quotient is 0 unless `n` does not fit. */
#define WEIR_SCALE_CONSTANT_(n, unit) \
        ((n) / (INT64_MAX / (unit) + 1) > 0 ? INT64_MAX : (n) / (INT64_MAX / (unit) + 1) < 0 ? -INT64_MAX : (n) * (unit))
#define WEIR_ROUND_(x) \
        ((x) >= 9223372036854775807.0 ? INT64_MAX : (x) <= -9223372036854775807.0 ? -INT64_MAX : \
         (x) < 0 ? (int64_t)((x) - 0.5) : (int64_t)((x) + 0.5))

static inline weir_nsec weir_scale_(int64_t n, int64_t unit)
{
        return WEIR_SCALE_CONSTANT_(n, unit);
}

static inline weir_nsec weir_scale_real_(double n, int64_t unit)
{
        return WEIR_ROUND_(n * (double)unit);
}

/* The present instant on the library's clock: CLOCK_MONOTONIC, or the virtual time while the
 * runtime runs on WEIR_CLOCK_VIRTUAL.
 *
 * Units:   nanoseconds since an arbitrary origin.
 * Threads: any. */
WEIR_API weir_nsec weir_now(void);

WEIR_END

#endif
