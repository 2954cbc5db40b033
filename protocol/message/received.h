/* protocol/message/received.h: a response that was received: its head in one piece of memory, checked as a whole.
 *
 * No I/O.  It is written once, by weir__received_new.  Then the owner may let any thread read it. */
#ifndef WEIR_PROTOCOL_RECEIVED_H
#define WEIR_PROTOCOL_RECEIVED_H

#include <errno.h>

#include "protocol/message/fields.h"

/* Where the body ends. */
enum weir__received_end {
        WEIR__RECEIVED_NOTHING = 0, /* there is none */
        WEIR__RECEIVED_LENGTH,      /* behind content_length bytes */
        WEIR__RECEIVED_CHUNKED,     /* protocol/message/chunked.h knows */
        WEIR__RECEIVED_CLOSE,       /* at the end of the connection */
        WEIR__RECEIVED_TUNNEL,      /* what follows is not HTTP: after 101, or a CONNECT that has succeeded */
};

struct weir__received {
        const char *reason;      /* NUL-terminated; "" when it has none */
        uint64_t content_length; /* as the head says it, also if no body follows; 0: it does not */
        uint32_t size;           /* bytes of the whole memory */
        uint32_t field_count;
        uint16_t status;                  /* 100 to 999 */
        uint8_t minor;                    /* of HTTP/1.minor */
        uint8_t end;                      /* enum weir__received_end */
        bool has_length;                  /* Content-Length is there */
        bool is_persistent;               /* the connection may be kept for another request, once the body is read */
        uint16_t keep_seconds;            /* for so long it keeps an idle connection, from 1 on; 0: it does not say */
        const struct weir__field *fields; /* in order of arrival */
};

/* What was asked: the end of a response depends on it. */
enum weir__received_for { WEIR__RECEIVED_FOR_OTHER, WEIR__RECEIVED_FOR_HEAD, WEIR__RECEIVED_FOR_CONNECT };

/* Builds the response from a complete head that the gate has passed: one allocation, exactly sized (and a second one for the
 * time of the call when it has more than 256 fields).
 *
 * Owner:  the caller, which has given `alloc` and frees the memory accordingly.
 * Result: 0 and *ret_received; else a negative errno, after which the connection must be closed: -EBADMSG for a length that is no
 *         number, for two of them or one beside a Transfer-Encoding, and for a Transfer-Encoding that is not just `chunked`, or
 *         is of HTTP/1.0; -EMSGSIZE for a head above WEIR__HEAD_MAX; -ENOMEM.
 * Source: RFC 9112 sections 6.1 and 6.3, stricter: we have asked for no other transfer coding, and a message that ends in two
 *         places is a way to slip in another one. */
int weir__received_new(const char *head, size_t size, enum weir__received_for what, weir__message_alloc *alloc,
                       struct weir__received **ret_received);

/* The value of the first field of that name; NULL when absent.  weir__fields_next knows all. */
const char *weir__received_field(const struct weir__received *received, const char *name);

/* The negative errno for a verdict of the gate or of the decoder of chunks, which is an HTTP status for servers. */
static inline int
weir__received_error(int status)
{
        return status == 413 || status == 414 || status == 431 ? -EMSGSIZE : status == 500 ? -ENOMEM : -EBADMSG;
}

#endif
