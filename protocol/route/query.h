/* protocol/route/query.h: application/x-www-form-urlencoded, as in queries and forms.  No I/O.
 *
 * Source: WHATWG URL standard, section 5.1. */
#ifndef WEIR_PROTOCOL_QUERY_H
#define WEIR_PROTOCOL_QUERY_H

#include "protocol/text/pairs.h"

/* Decodes at most `max` pairs.  Those with a NUL in them are left out, but count.
 *
 * Owner:  the caller; free.
 * Result: 0; -ENOMEM.  Every text is valid. */
int weir__query_parse(const char *text, size_t size, size_t max, struct weir__pairs **ret_pairs);

/* Whether this Content-Type, with or without parameters, is application/x-www-form-urlencoded. */
bool weir__query_is_type(const char *content_type);

#endif
