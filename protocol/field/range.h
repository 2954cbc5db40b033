/* protocol/field/range.h: the Range field of a request and its answer.  Pure functions.
 *
 * Source: RFC 9110 section 14. */
#ifndef WEIR_PROTOCOL_RANGE_H
#define WEIR_PROTOCOL_RANGE_H

#include <stdint.h>

struct weir__range {
        uint64_t at, size; /* in bytes */
};

enum weir__range_kind {
        WEIR__RANGE_NONE = 0,      /* all of it */
        WEIR__RANGE_PART,          /* 206 */
        WEIR__RANGE_UNSATISFIABLE, /* 416 */
};

/* Reads a Range field (NULL: there is none) for `size` bytes: "bytes=a-b", "bytes=a-" or "bytes=-n".  Several ranges, another
 * unit and an invalid range are answered with all bytes, as section 14.2 allows or demands.  So are the last n of 0 bytes,
 * because no Content-Range can say that.
 *
 * Result: *range is what to send, all of it unless it is a part. */
enum weir__range_kind weir__range_read(const char *field, uint64_t size, struct weir__range *range);

#define WEIR__CONTENT_RANGE_SIZE 69 /* "bytes ", three numbers of 20 digits, '-', '/', NUL */

/* Writes the Content-Range of a part (NULL: of none, for 416) of `size` bytes. */
void weir__range_print(char out[WEIR__CONTENT_RANGE_SIZE], const struct weir__range *range, uint64_t size);

#endif
