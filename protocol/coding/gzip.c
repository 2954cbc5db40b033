/* protocol/coding/gzip.c: gzip, made by zlib.
 *
 * Threads: any; nothing is kept from one call to the next.
 *
 * zlib takes 4 << window bytes and 512 << memory for its tables, 256 KiB by default, and clears and touches much of that: 50 us a
 * call.  A body of a few KiB needs less.  A window as large as the body finds every repetition.  Tables for as many symbols as it
 * has bytes make one block of it. */
#include <limits.h>
#include <stdbool.h>

#include <zlib.h>

#include "protocol/coding/gzip.h"

#define WINDOW_LEAST 10
#define WINDOW_MOST  15
#define MEMORY_MOST  8   /* zlib's default */
#define AROUND_GZIP  16  /* added to the window: head and tail of gzip instead of zlib's own */
#define LOOK_AHEAD   262 /* of the window, which does not reach back so far: zlib's MIN_LOOKAHEAD */

static int
window_for(size_t size)
{
        int bits = WINDOW_LEAST;

        while (bits < WINDOW_MOST && ((size_t)1 << bits) < size + LOOK_AHEAD)
                bits++;
        return bits;
}

static bool
begin(z_stream *stream, size_t size, int level)
{
        int window = window_for(size), memory = window - 6 < MEMORY_MOST ? window - 6 : MEMORY_MOST;

        return deflateInit2(stream, level, Z_DEFLATED, window + AROUND_GZIP, memory, Z_DEFAULT_STRATEGY) == Z_OK;
}

size_t
weir__gzip(const char *data, size_t size, int level, char *out)
{
        z_stream stream = {.next_in = (Bytef *)data, .next_out = (Bytef *)out};

        if (size < 2 || size > UINT_MAX || !begin(&stream, size, level))
                return 0;
        stream.avail_in = (uInt)size;
        stream.avail_out = (uInt)size - 1;
        int result = deflate(&stream, Z_FINISH);
        size_t written = result == Z_STREAM_END ? stream.total_out : 0;
        deflateEnd(&stream);
        return written;
}
