/* protocol/coding/zstd.c: Zstandard, decoded by libzstd, if that was there at the build.  Only this file uses it.
 *
 * While libzstd reads the header of a frame, it also looks at what one call hands over: all of a frame with all the room is
 * decoded in one go, and its window is not looked at; four bytes that are the mark of a former format, even in the middle of a
 * header, change the format.  So a header is handed over byte by byte: the bytes alone decide what is refused, and not how they
 * come.
 *
 * Formats before RFC 8878, which libzstd may know, are refused.
 *
 * Threads: a codec belongs to one caller at a time.  No locks.
 * Source:  RFC 8878; RFC 9659 for the window. */
#if WEIR_HAS_ZSTD
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "protocol/coding/codec.h"

#define WINDOW_LOG     23   /* 8 MiB */
#define MAX_HEADER     18   /* bytes, the magic number with them (RFC 8878, 3.1.1) */
#define FRAME_FIRST    0x28 /* byte of its magic number */
#define FIRST_SKIPPED  0x50 /* of one to be skipped, but for the lowest four bits */
#define SKIPPED_LOWEST 0x0f

struct zstd {
        struct weir__codec codec; /* the first field */
        ZSTD_DCtx *decoder;       /* NULL: the first frame has not begun */
        int header_left;          /* so many bytes at most of a frame's header are to come */
        char header[MAX_HEADER];  /* those that have come */
        uint64_t made;            /* bytes that came out of the frame */
};

static int
begin(struct weir__codec *codec, char first)
{
        struct zstd *zstd = (struct zstd *)codec;

        if (first != FRAME_FIRST && (first & ~SKIPPED_LOWEST) != FIRST_SKIPPED)
                return -EBADMSG;
        zstd->header_left = MAX_HEADER;
        zstd->made = 0;
        if (zstd->decoder)
                return 0;
        zstd->decoder = ZSTD_createDCtx();
        if (!zstd->decoder)
                return -ENOMEM;
        ZSTD_DCtx_setParameter(zstd->decoder, ZSTD_d_windowLogMax, WINDOW_LOG);
        return 0;
}

static int
failure(size_t result)
{
        switch (ZSTD_getErrorCode(result)) {
        case ZSTD_error_memory_allocation: return -ENOMEM;
        case ZSTD_error_frameParameter_windowTooLarge: return -EMSGSIZE;
        default: return -EBADMSG;
        }
}

/* Whether as much came out of a frame as its header says.  libzstd does not look behind an empty last block. */
static bool
has_its_size(const struct zstd *zstd)
{
        unsigned long long size = ZSTD_getFrameContentSize(zstd->header, (size_t)(MAX_HEADER - zstd->header_left));

        return size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size == zstd->made;
}

static int
step(struct weir__codec *codec, const char *data, size_t size, size_t *used, char *out, size_t room, size_t *made)
{
        struct zstd *zstd = (struct zstd *)codec;
        ZSTD_inBuffer in = {.src = data, .size = zstd->header_left > 0 && size > 0 ? 1 : size};
        ZSTD_outBuffer to = {.dst = out, .size = room};
        size_t result = ZSTD_decompressStream(zstd->decoder, &to, &in);

        if (zstd->header_left > 0 && in.pos > 0)
                zstd->header[MAX_HEADER - zstd->header_left--] = *data;
        zstd->made += to.pos;
        *used = in.pos;
        *made = to.pos;
        if (ZSTD_isError(result))
                return failure(result);
        return result > 0 ? 0 : has_its_size(zstd) ? WEIR__CODEC_END : -EBADMSG;
}

static void
free_zstd(struct weir__codec *codec)
{
        struct zstd *zstd = (struct zstd *)codec;

        ZSTD_freeDCtx(zstd->decoder);
        free(zstd);
}

struct weir__codec *
weir__codec_zstd(void)
{
        struct zstd *zstd = calloc(1, sizeof *zstd);

        if (!zstd)
                return NULL;
        zstd->codec = (struct weir__codec){.begin = begin, .step = step, .free = free_zstd};
        return &zstd->codec;
}
#endif
