/* protocol/coding/compress.h: compresses a response, if its type and the client allow it.  Pure functions. */
#ifndef WEIR_PROTOCOL_COMPRESS_H
#define WEIR_PROTOCOL_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/message/request.h"
#include "protocol/message/response.h"

/* Whether the client takes gzip, with a weight not below that of an uncompressed body.  A client that names no codings gets none.
 *
 * Source: RFC 9110 section 12.5.3. */
bool weir__compress_accepts_gzip(const struct weir__request *request);

/* Compresses the body of a response if its type is compressible, it has `least` bytes or more, and the client takes gzip.  Then
 * it adds Content-Encoding and makes a strong ETag weak.  `Vary: Accept-Encoding` is added whenever another client could get
 * another body.  HEAD gets the fields of GET.  A body that cannot be compressed, also when out of memory, stays as it is.
 *
 * Source: RFC 9110 sections 8.4, 8.8.1 and 12.5.5. */
void weir__compress_response(struct weir__response *response, const struct weir__request *request, int level, size_t least);

#endif
