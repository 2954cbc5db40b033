/* protocol/coding/mime.h: the media types of files.  Pure functions.
 *
 * Source: RFC 9110 section 8.3; the types are as IANA has registered them, where it has. */
#ifndef WEIR_PROTOCOL_MIME_H
#define WEIR_PROTOCOL_MIME_H

#include <stdbool.h>

/* The Content-Type of a file by the extension of its name, in any case; of text it says that it is UTF-8.  What is not known, or
 * has no extension (the dot that hides a file begins none), is application/octet-stream. */
const char *weir__mime_type(const char *path);

/* Whether what is of this type (with or without parameters, in any case) becomes much smaller by gzip.  An event stream would,
 * but its events would wait in the compressor. */
bool weir__mime_is_compressible(const char *type);

#endif
