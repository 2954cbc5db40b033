/* protocol/text/reason.h: statuses and their reason phrases.  Constant data. */
#ifndef WEIR_PROTOCOL_REASON_H
#define WEIR_PROTOCOL_REASON_H

#include <stddef.h>

#define WEIR__STATUS_LINE_ROOM 51

/* The status line up to its CRLF, such as "HTTP/1.1 200 OK", and in *size its length; NULL for a status without a phrase here.
 * It lies in WEIR__STATUS_LINE_ROOM bytes, all of which may be read. */
const char *weir__http_status_line(int status, size_t *size);

/* The reason phrase of a status; "" for an unknown one.
 *
 * Source: RFC 9110 section 15; RFC 4918, 5842, 6585, 7725, 8297, 8470 for those that are not in it. */
const char *weir__http_reason(int status);

#endif
