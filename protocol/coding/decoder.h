/* protocol/coding/decoder.h: the content of a response, decoded as it comes, within bounds.
 *
 * A few kilobytes can become gigabytes: the bounds are part of the decoder, not of its callers.  No I/O. */
#ifndef WEIR_PROTOCOL_DECODER_H
#define WEIR_PROTOCOL_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that may come out before the ratio counts: short texts of one letter are no attack. */
#define WEIR__DECODER_FREE ((uint64_t)1 << 20)

#define WEIR__DECODER_CODINGS 3 /* one on top of the other, at most */

struct weir__decoder_limits {
        uint64_t max_size;  /* bytes that come out in all */
        uint32_t max_ratio; /* bytes out for each byte in, above WEIR__DECODER_FREE; 0: any */
};

/* The codings of a content, in the order in which they were applied.  All zero is none. */
struct weir__decoder_plan {
        uint8_t codings[WEIR__DECODER_CODINGS];
        uint8_t count;
};

struct weir__decoder;

/* The value for Accept-Encoding: what this build decodes, such as "gzip, br, zstd".  Deflate is decoded, but not asked for:
 * servers disagree about its format. */
const char *weir__decoder_accept(void);

/* Adds what one value of Content-Encoding says.  It is called for each of them, in their order.
 *
 * Result: 0; -ENOTSUP: a coding that this build does not know, or too many.  Then the plan is worth nothing.
 * Source: RFC 9110 section 8.4.  "identity" is skipped. */
int weir__decoder_plan(struct weir__decoder_plan *plan, const char *content_encoding);

/* Owner:  the caller: weir__decoder_free.
 * Result: 0; -ENOMEM.  *ret_decoder is NULL for a plan of no codings: the content is what it is.  Libraries take their memory
 *         once bytes come: gzip and deflate 40 KiB, br up to 16 MiB, zstd up to 8 MiB, as the content wants. */
int weir__decoder_new(const struct weir__decoder_plan *plan, const struct weir__decoder_limits *limits,
                      struct weir__decoder **ret_decoder);
void weir__decoder_free(struct weir__decoder *decoder); /* accepts NULL */

/* Takes bytes that follow those before: *used says how many, and *made how many it has written to `out`.  When the room is full
 * there may be more: it is called again with the rest of the input, which may be empty, until it leaves room.
 *
 * Result: 0; -EBADMSG: it is damaged, or something follows it; -EMSGSIZE: above a limit, or a window above that of RFC 9659;
 *         -ENOMEM.  After a failure it is spent, and what it has made in that call is worth nothing. */
int weir__decoder_feed(struct weir__decoder *decoder, const char *data, size_t size, size_t *used, char *out, size_t room,
                       size_t *made);

/* Whether the input may end here, once the last call has left room: all that has come was complete.  No bytes at all are an
 * empty content. */
bool weir__decoder_may_end(const struct weir__decoder *decoder);

#endif
