/* protocol/field/conditional.h: the preconditions of a request, evaluated.  Pure functions.
 *
 * Source: RFC 9110 section 13. */
#ifndef WEIR_PROTOCOL_CONDITIONAL_H
#define WEIR_PROTOCOL_CONDITIONAL_H

#include <stdint.h>

#include "protocol/message/request.h"

/* The present representation, which a request's conditions are compared with. */
struct weir__validators {
        const char *tag;  /* its entity tag, a strong one */
        int64_t modified; /* its Last-Modified, in Unix seconds; WEIR__NOT_DATED when none is said */
        int64_t now;      /* in Unix seconds, for dates whose year has two digits */
};

#define WEIR__NOT_DATED INT64_MIN

/* If-Match, or without it If-Unmodified-Since; then If-None-Match, or without it If-Modified-Since, which is for GET and HEAD.
 * An invalid date is ignored, as is any date when the representation has none.  An invalid list of tags matches nothing.
 *
 * Result: 200: go on; 304, to GET and HEAD; 412.
 * Source: RFC 9110 section 13.2.2, the order of precedence. */
int weir__conditional_status(const struct weir__request *request, const struct weir__validators *validators);

/* The Range field that counts; NULL when there is none, or several, or If-Range does not hold, or the method is not GET.
 * If-Range holds with the exact date of Last-Modified, or with the tag.
 *
 * Source: RFC 9110 sections 13.1.5 and 14.2. */
const char *weir__conditional_range(const struct weir__request *request, const struct weir__validators *validators);

#endif
