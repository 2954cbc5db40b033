/* protocol/coding/inflate.c: gzip and deflate, taken apart by zlib as the bytes come, within bounds.
 *
 *      BEGIN --the first byte--> INSIDE --the end of a member--> BETWEEN --gzip: another byte--> INSIDE
 *
 * Threads: it belongs to one caller at a time.  No locks. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#include "protocol/coding/inflate.h"

/* For inflateInit2: the largest window, and which head and tail are around the data. */
#define WINDOW 15
#define GZIP   (WINDOW + 16)
#define ZLIB   WINDOW
#define BARE   (-WINDOW)

enum state { BEGIN, INSIDE, BETWEEN };

struct weir__inflater {
        z_stream stream;
        struct weir__inflate_limits limits;
        uint64_t taken, given; /* bytes, of all members */
        uint8_t coding;        /* enum weir__inflate_coding */
        uint8_t state;         /* enum state */
};

struct weir__inflater *
weir__inflater_new(enum weir__inflate_coding coding, const struct weir__inflate_limits *limits)
{
        struct weir__inflater *inflater = calloc(1, sizeof *inflater);

        if (inflater) {
                inflater->coding = (uint8_t)coding;
                inflater->limits = *limits;
        }
        return inflater;
}

void
weir__inflater_free(struct weir__inflater *inflater)
{
        if (inflater && inflater->state != BEGIN)
                inflateEnd(&inflater->stream);
        free(inflater);
}

/* Which format begins with that byte.  The low half of zlib's first byte is the method, 8.  A bare stream would begin so only
 * with a block that is not compressed, whose unused bits are set. */
static int
format(const struct weir__inflater *inflater, char first)
{
        return inflater->coding == WEIR__INFLATE_GZIP ? GZIP : (first & 0xf) == 8 ? ZLIB : BARE;
}

/* There is a first byte, of all or of another member. */
static int
begin(struct weir__inflater *inflater, char first)
{
        int result;

        if (inflater->state == BEGIN)
                result = inflateInit2(&inflater->stream, format(inflater, first));
        else if (inflater->coding == WEIR__INFLATE_GZIP)
                result = inflateReset(&inflater->stream);
        else
                return -EBADMSG;
        if (result != Z_OK)
                return -ENOMEM;
        inflater->state = INSIDE;
        return 0;
}

static bool
is_too_much(const struct weir__inflater *inflater)
{
        const struct weir__inflate_limits *limits = &inflater->limits;

        return inflater->given > limits->max_size || (limits->max_ratio && inflater->given > WEIR__INFLATE_FREE &&
                                                      inflater->given / limits->max_ratio > inflater->taken);
}

/* How much zlib may write: one byte above the limit, which proves that there is more. */
static uInt
space(const struct weir__inflater *inflater, size_t room)
{
        uint64_t left = inflater->limits.max_size - inflater->given;

        if (left < room)
                room = (size_t)left + 1;
        return room < UINT_MAX ? (uInt)room : UINT_MAX;
}

/* One call of zlib. */
static int
step(struct weir__inflater *inflater, const char *data, size_t size, size_t *used, char *out, size_t room, size_t *made)
{
        z_stream *stream = &inflater->stream;
        uInt in = size < UINT_MAX ? (uInt)size : UINT_MAX, space_out = space(inflater, room);

        stream->next_in = (Bytef *)data;
        stream->avail_in = in;
        stream->next_out = (Bytef *)out;
        stream->avail_out = space_out;
        int result = inflate(stream, Z_NO_FLUSH);
        *used += in - stream->avail_in;
        *made += space_out - stream->avail_out;
        inflater->taken += in - stream->avail_in;
        inflater->given += space_out - stream->avail_out;
        if (is_too_much(inflater))
                return -EMSGSIZE;
        if (result == Z_STREAM_END)
                inflater->state = BETWEEN;
        return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? 0 : result == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

int
weir__inflater_feed(struct weir__inflater *inflater, const char *data, size_t size, size_t *used, char *out, size_t room,
                    size_t *made)
{
        int failed = 0;

        *used = *made = 0;
        while (!failed && *made < room && (*used < size || inflater->state == INSIDE)) {
                size_t used_before = *used, made_before = *made;

                if (inflater->state != INSIDE && (failed = begin(inflater, data[*used])) != 0)
                        break;
                failed = step(inflater, data + *used, size - *used, used, out + *made, room - *made, made);
                if (*used == used_before && *made == made_before)
                        break;
        }
        return failed;
}

bool
weir__inflater_may_end(const struct weir__inflater *inflater)
{
        return inflater->state == BETWEEN;
}
