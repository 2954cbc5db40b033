/* protocol/coding/compress.h: which responses are compressed for whom, and what that changes in their fields.  Pure functions. */
#ifndef WEIR_PROTOCOL_COMPRESS_H
#define WEIR_PROTOCOL_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/message/request.h"
#include "protocol/message/response.h"

/* Whether the client takes gzip, and not less gladly than what is not compressed.  A client that names no codings is sent none.
 *
 * Source: RFC 9110 section 12.5.3. */
bool weir__accepts_gzip(const struct weir__request *request);

/* Compresses the body of a response, if it is of a kind that is worth it, of `least` bytes or more, and if the client takes it:
 * with Content-Encoding, and a strong ETag becomes a weak one.  `Vary: Accept-Encoding` is added for every client when it
 * depends on that.  To HEAD the fields are those of GET.  What cannot be compressed, also when out of memory, stays as it is.
 *
 * Source: RFC 9110 sections 8.4, 8.8.1 and 12.5.5. */
void weir__response_compress(struct weir__response *response, const struct weir__request *request, int level, size_t least);

#endif
