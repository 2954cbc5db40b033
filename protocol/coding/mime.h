/* protocol/coding/mime.h: the media types of files.  Pure functions.
 *
 * Source: RFC 9110 section 8.3; the types are as IANA has registered them, where it has. */
#ifndef WEIR_PROTOCOL_MIME_H
#define WEIR_PROTOCOL_MIME_H

#include <stdbool.h>
#include <stddef.h>

/* The Content-Type of a file by the extension of its name, upper or lower case; text has the charset UTF-8.  An unknown
 * extension, or none, gives application/octet-stream.  The dot that hides a file begins no extension. */
const char *weir__mime_type(const char *path);

/* Whether gzip makes content of this type much smaller.  The type may have parameters; case is ignored.  An event stream is
 * excluded: its events would wait in the compressor. */
bool weir__mime_is_compressible(const char *type, size_t size);

#endif
