/* protocol/date.h: the date of a response.  A pure function. */
#ifndef WEIR_PROTOCOL_DATE_H
#define WEIR_PROTOCOL_DATE_H

#include <stdint.h>

#define WEIR__HTTP_DATE_SIZE 29 /* without the NUL */

/* Writes the IMF-fixdate of `unix_seconds`, such as "Sun, 06 Nov 1994 08:49:37 GMT", and a NUL.  An instant before 1970 or after
 * 9999 becomes the first or the last one between.
 *
 * Source: RFC 9110 section 5.6.7. */
void weir__http_date(int64_t unix_seconds, char out[WEIR__HTTP_DATE_SIZE + 1]);

#endif
