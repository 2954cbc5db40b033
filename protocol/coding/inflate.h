/* protocol/coding/inflate.h: gzip and deflate, taken apart by zlib as the bytes come, within bounds.
 *
 * A few kilobytes can become gigabytes: the bounds are part of the reader, not of its callers.  No I/O. */
#ifndef WEIR_PROTOCOL_INFLATE_H
#define WEIR_PROTOCOL_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that may come out before the ratio counts: short texts of one letter are no attack. */
#define WEIR__INFLATE_FREE ((uint64_t)1 << 20)

struct weir__inflate_limits {
        uint64_t max_size;  /* bytes that come out in all */
        uint32_t max_ratio; /* bytes out for each byte in, above WEIR__INFLATE_FREE; 0: any */
};

enum weir__inflate_coding { WEIR__INFLATE_GZIP, WEIR__INFLATE_DEFLATE };

struct weir__inflater;

/* Owner:   the caller: weir__inflater_free.
 * Result:  NULL when out of memory.  It takes 40 KiB once bytes come. */
struct weir__inflater *weir__inflater_new(enum weir__inflate_coding coding, const struct weir__inflate_limits *limits);
void weir__inflater_free(struct weir__inflater *inflater); /* accepts NULL */

/* Takes bytes that follow those before: *used says how many, and *made how many it has written to `out`.  When the room is full
 * there may be more: it is called again with the rest of the input, which may be empty, until it leaves room.
 *
 * Result: 0; -EBADMSG: it is damaged, or something follows it; -EMSGSIZE: above a limit; -ENOMEM.  After a failure it is spent,
 *         and what it has made in that call is worth nothing.
 * Source: RFC 1952: gzip, several members one behind the other as well.  RFC 9110 section 8.4.1.2: deflate is the format of
 *         RFC 1950; some servers send RFC 1951 without it, which the first byte tells. */
int weir__inflater_feed(struct weir__inflater *inflater, const char *data, size_t size, size_t *used, char *out, size_t room,
                        size_t *made);

/* Whether the input may end here: all that has come was complete. */
bool weir__inflater_may_end(const struct weir__inflater *inflater);

#endif
