/* protocol/coding/brotli.c: brotli, decoded by libbrotlidec, if that was there at the build.  Only this file uses it.
 *
 * A stream chooses its window: 16 MiB at most.  The large windows that RFC 7932 does not have are refused.
 *
 * Threads: a codec belongs to one caller at a time.  No locks.
 * Source:  RFC 7932. */
#if WEIR_HAS_BROTLI
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <brotli/decode.h>

#include "protocol/coding/codec.h"

struct brotli {
        struct weir__codec codec;    /* the first field */
        BrotliDecoderState *decoder; /* NULL: the stream has not begun */
};

static int
begin(struct weir__codec *codec, char first)
{
        struct brotli *brotli = (struct brotli *)codec;

        (void)first;
        if (brotli->decoder)
                return -EBADMSG;
        brotli->decoder = BrotliDecoderCreateInstance(NULL, NULL, NULL);
        return brotli->decoder ? 0 : -ENOMEM;
}

static int
failure(const BrotliDecoderState *decoder)
{
        BrotliDecoderErrorCode code = BrotliDecoderGetErrorCode(decoder);
        bool is_memory = code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES && code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;

        return is_memory ? -ENOMEM : -EBADMSG;
}

static int
step(struct weir__codec *codec, const char *data, size_t size, size_t *used, char *out, size_t room, size_t *made)
{
        struct brotli *brotli = (struct brotli *)codec;
        const uint8_t *in = (const uint8_t *)data;
        uint8_t *to = (uint8_t *)out;
        size_t left = size, space = room;
        BrotliDecoderResult result = BrotliDecoderDecompressStream(brotli->decoder, &left, &in, &space, &to, NULL);

        *used = size - left;
        *made = room - space;
        if (result == BROTLI_DECODER_RESULT_ERROR)
                return failure(brotli->decoder);
        return result == BROTLI_DECODER_RESULT_SUCCESS ? WEIR__CODEC_END : 0;
}

static void
free_brotli(struct weir__codec *codec)
{
        struct brotli *brotli = (struct brotli *)codec;

        BrotliDecoderDestroyInstance(brotli->decoder);
        free(brotli);
}

struct weir__codec *
weir__codec_brotli(void)
{
        struct brotli *brotli = calloc(1, sizeof *brotli);

        if (!brotli)
                return NULL;
        brotli->codec = (struct weir__codec){.begin = begin, .step = step, .free = free_brotli};
        return &brotli->codec;
}
#endif
