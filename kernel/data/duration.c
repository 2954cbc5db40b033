/* kernel/data/duration.c: durations for people. */
#include "kernel/data/duration.h"

#include <inttypes.h>
#include <stdio.h>

/* Two units, of which the second is left out when there is none of it. */
static void
print_two(char *out, int64_t first, const char *first_unit, int64_t second, const char *second_unit)
{
        if (second)
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 " %s %" PRId64 " %s", first, first_unit, second, second_unit);
        else
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 " %s", first, first_unit);
}

const char *
weir__duration(char out[WEIR__DURATION_SIZE], weir_nsec duration)
{
        const int64_t magnitude = duration == INT64_MIN ? INT64_MAX : duration < 0 ? -duration : duration;
        const int64_t seconds = magnitude / WEIR_SEC(1);

        if (duration == WEIR_FOREVER)
                snprintf(out, WEIR__DURATION_SIZE, "for ever");
        else if (magnitude < WEIR_USEC(1))
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 " ns", magnitude);
        else if (magnitude < WEIR_MSEC(1))
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 " us", magnitude / WEIR_USEC(1));
        else if (magnitude < WEIR_SEC(1))
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 " ms", magnitude / WEIR_MSEC(1));
        else if (seconds < 60)
                snprintf(out, WEIR__DURATION_SIZE, "%" PRId64 ".%" PRId64 " s", seconds,
                         magnitude % WEIR_SEC(1) / WEIR_MSEC(100));
        else if (seconds < 3600)
                print_two(out, seconds / 60, "min", seconds % 60, "s");
        else if (seconds < 86400)
                print_two(out, seconds / 3600, "h", seconds % 3600 / 60, "min");
        else
                print_two(out, seconds / 86400, "d", seconds % 86400 / 3600, "h");
        return out;
}
