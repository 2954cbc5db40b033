/* protocol/text/date.h: dates of HTTP, written and read.  Pure functions. */
#ifndef WEIR_PROTOCOL_DATE_H
#define WEIR_PROTOCOL_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__HTTP_DATE_SIZE 29 /* without the NUL */

/* Writes the IMF-fixdate of `unix_seconds`, such as "Sun, 06 Nov 1994 08:49:37 GMT", and a NUL.  An instant before 1970 or after
 * 9999 becomes the first or the last valid one.
 *
 * Source: RFC 9110 section 5.6.7. */
void weir__http_date(int64_t unix_seconds, char out[WEIR__HTTP_DATE_SIZE + 1]);

/* Reads a date in any of the three formats of HTTP, with nothing around it.  A year with two digits is the latest one at most 50
 * years after `now`, in Unix seconds.  The day of the week may be wrong.
 *
 * Result: whether it is one, and if so *ret_seconds, which may be negative.
 * Source: RFC 9110 section 5.6.7. */
bool weir__http_date_read(const char *text, int64_t now, int64_t *ret_seconds);

#endif
