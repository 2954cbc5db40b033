/* protocol/message/request.h: a request's head in one piece of memory, checked as a whole.
 *
 * No I/O.  A request is written once, by weir__request_new.  Then the owner may let any thread read it. */
#ifndef WEIR_PROTOCOL_REQUEST_H
#define WEIR_PROTOCOL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message/fields.h"

struct weir__request {
        const char *method, *target, *path; /* NUL-terminated; path is decoded and has no query */
        const char *query;                  /* behind the '?' of target, not decoded; or NULL */
        const char *host;                   /* of an absolute-form target, else of Host; "" when empty or absent */
        uint64_t content_length;            /* of the body that follows; 0 when there is none, or a chunked one */
        uint32_t size;                      /* bytes of the whole memory */
        uint32_t field_count;
        uint8_t minor; /* of HTTP/1.minor */
        bool is_head;
        bool is_persistent;               /* the connection may be kept for another request */
        bool has_keep_alive;              /* Connection has the option keep-alive */
        bool is_chunked;                  /* a body follows, for protocol/message/chunked.h, of unknown length */
        bool is_continue_expected;        /* a body follows, and its sender may wait for WEIR__HTTP_CONTINUE before it sends it */
        const struct weir__field *fields; /* in order of arrival */
};

/* Builds the request from a complete head that the gate has passed: one allocation, exactly sized (and a second one for the time
 * of the call when it has more than 256 fields).
 *
 * Owner:  the caller, which has given `alloc` and frees the memory accordingly.
 * Result: 0 and *ret_request; else the HTTP status to refuse it with: 400, 413, 417, 431, 501, 500 when out of memory.  Then the
 *         connection must be closed, because the beginning of the next request is unknown or cannot be trusted.  *ret_request is
 *         untouched then.  A body above `max_body` is 413, when its length is said; a chunked one is not measured here.  Codings
 *         beside chunked are 501. */
int weir__request_new(const char *head, size_t size, uint64_t max_body, weir__message_alloc *alloc,
                      struct weir__request **ret_request);

/* The value of the next field of that name, compared without case; NULL when none is left.  *at is 0 before the first call. */
const char *weir__request_next(const struct weir__request *request, const char *name, uint32_t *at);

/* The value of the first field of that name; NULL when absent. */
const char *weir__request_header(const struct weir__request *request, const char *name);

#endif
