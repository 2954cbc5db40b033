/* protocol/message/chunked.h: the chunked coding of a request's body, decoded where it lies.
 *
 * Strict, byte by byte, as the bytes arrive.  No I/O, no allocation. */
#ifndef WEIR_PROTOCOL_CHUNKED_H
#define WEIR_PROTOCOL_CHUNKED_H

#include <stddef.h>
#include <stdint.h>

struct weir__chunked_limits {
        size_t max_extensions;     /* bytes of chunk extensions in the whole body, with their semicolons and white space, and
                                    * digits of chunk sizes beyond 16: 413 above */
        size_t max_trailers;       /* bytes of all trailer field lines, with their CRLFs: 431 above */
        size_t max_trailer_fields; /* trailer field lines: 431 above */
};

/* Where the decoder stands in one body.  All zero is the beginning. */
struct weir__chunked {
        uint64_t left;       /* the size that is being read, then the bytes of the chunk that are still to come */
        uint32_t extensions; /* bytes counted against max_extensions; counters stay at UINT32_MAX, larger limits do not limit */
        uint32_t trailers;   /* bytes counted against max_trailers, and ... */
        uint32_t fields;     /* ... lines against max_trailer_fields */
        uint8_t state;       /* chunked.c's, as are the next two */
        uint8_t length;      /* of the size or of the trailer's name that is being read, as far as it matters */
        uint8_t candidates;  /* forbidden names that begin like the trailer's name that is being read */
};

enum weir__chunked_verdict {
        WEIR__CHUNKED_MORE = 0, /* fine so far; the body is not complete */
        WEIR__CHUNKED_END = 1,  /* complete, with its trailer section: the next request begins at data[*used] */
        /* else an HTTP status (400, 413, 431): reply with it and close */
};

/* Decodes data[0, size), the bytes that follow those of the call before, and moves the payload among them to the front.
 *
 * Result: the verdict.  In each case *used is how many bytes were looked at (all of them when there is more to come, else the
 *         last one is that on which the verdict fell), and *payload how many bytes of payload are now at `data`.  The bytes in
 *         data[*payload, *used) are undefined; data[*used, size) is unchanged.
 *         Every verdict falls on one certain byte, the first that proves it.  It does not depend on how the bytes were divided
 *         into reads.
 *         After a verdict other than MORE the decoder is spent: make it all zero before the next body.
 *         Payload is not limited here: the caller that keeps it counts it. */
int weir__chunked_feed(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char *data, size_t size,
                       size_t *used, size_t *payload);

#endif
