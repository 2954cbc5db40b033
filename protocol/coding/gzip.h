/* protocol/coding/gzip.h: gzip, made by zlib.  Only gzip.c and inflate.c include zlib.h.  Pure functions. */
#ifndef WEIR_PROTOCOL_GZIP_H
#define WEIR_PROTOCOL_GZIP_H

#include <stddef.h>

#define WEIR__GZIP_LEVEL_MAX 9

/* Compresses `size` bytes into `out`, which has room for as many.
 *
 * Result:  the bytes written, fewer than `size`; 0 when there would not be fewer, when out of memory, and for 4 GiB or more.
 * Units:   `level` from 1, fast, to WEIR__GZIP_LEVEL_MAX, small.
 * Source:  RFC 1952. */
size_t weir__gzip(const char *data, size_t size, int level, char *out);

#endif
