/* kernel/data/duration.h: durations for people. */
#ifndef WEIR_KERNEL_DURATION_H
#define WEIR_KERNEL_DURATION_H

#include <weir/time.h>

#define WEIR__DURATION_SIZE 32 /* of the text, with its NUL */

/* "350 us", "12 ms", "4.2 s", "3 min 20 s", "2 h 5 min", "40 d 3 h", cut and not rounded; "for ever" for
 * WEIR_FOREVER.  A sign is left out.  Returns `out`. */
const char *weir__duration(char out[WEIR__DURATION_SIZE], weir_nsec duration);

#endif
