/* protocol/coding/inflate.c: gzip and deflate, decoded by zlib.
 *
 * Threads: a codec belongs to one caller at a time.  No locks.
 * Source:  RFC 1952: gzip, also with several members.  RFC 9110 section 8.4.1.2: deflate is the format of RFC 1950; some servers
 *          send RFC 1951 without it, which the first byte tells. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include <zlib.h>

#include "protocol/coding/codec.h"

/* For inflateInit2: the largest window, and which head and tail are around the data. */
#define WINDOW      15
#define GZIP_WINDOW (WINDOW + 16)
#define ZLIB_WINDOW WINDOW
#define BARE_WINDOW (-WINDOW)

struct inflater {
        struct weir__codec codec; /* the first field */
        z_stream stream;
        bool is_gzip;
        bool has_begun; /* the stream has memory: 40 KiB */
};

/* Which format begins with that byte.  The low half of zlib's first byte is the method, 8.  A bare stream would begin so only
 * with a block that is not compressed, whose unused bits are set. */
static int
format(const struct inflater *inflater, char first)
{
        return inflater->is_gzip ? GZIP_WINDOW : (first & 0xf) == 8 ? ZLIB_WINDOW : BARE_WINDOW;
}

static int
begin(struct weir__codec *codec, char first)
{
        struct inflater *inflater = (struct inflater *)codec;

        if (inflater->has_begun)
                return inflater->is_gzip && inflateReset(&inflater->stream) == Z_OK ? 0 : -EBADMSG;
        if (inflateInit2(&inflater->stream, format(inflater, first)) != Z_OK)
                return -ENOMEM;
        inflater->has_begun = true;
        return 0;
}

static int
step(struct weir__codec *codec, const char *data, size_t size, size_t *used, char *out, size_t room, size_t *made)
{
        z_stream *stream = &((struct inflater *)codec)->stream;
        uInt in = size < UINT_MAX ? (uInt)size : UINT_MAX, space = room < UINT_MAX ? (uInt)room : UINT_MAX;

        stream->next_in = (Bytef *)data;
        stream->avail_in = in;
        stream->next_out = (Bytef *)out;
        stream->avail_out = space;
        int result = inflate(stream, Z_NO_FLUSH);
        *used = in - stream->avail_in;
        *made = space - stream->avail_out;
        switch (result) {
        case Z_OK:
        case Z_BUF_ERROR: /* no progress */ return 0;
        case Z_STREAM_END: return WEIR__CODEC_END;
        default: return result == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        }
}

static void
free_inflater(struct weir__codec *codec)
{
        struct inflater *inflater = (struct inflater *)codec;

        if (inflater->has_begun)
                inflateEnd(&inflater->stream);
        free(inflater);
}

static struct weir__codec *
new_inflater(bool is_gzip)
{
        struct inflater *inflater = calloc(1, sizeof *inflater);

        if (!inflater)
                return NULL;
        inflater->codec = (struct weir__codec){.begin = begin, .step = step, .free = free_inflater};
        inflater->is_gzip = is_gzip;
        return &inflater->codec;
}

struct weir__codec *
weir__codec_gzip(void)
{
        return new_inflater(true);
}

struct weir__codec *
weir__codec_deflate(void)
{
        return new_inflater(false);
}
