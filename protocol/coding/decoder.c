/* protocol/coding/decoder.c: the content of a response, decoded as it comes, within bounds.
 *
 * Each coding is a stage.  The first stage undoes the coding that was applied last, and reads the input.  Each further stage
 * reads what the one before has written to a buffer.  A stage:
 *
 *      BEGIN --the first byte--> INSIDE --the end of a frame--> BETWEEN --another byte--> INSIDE
 *
 * What any stage has made is compared with the bytes of the input: otherwise the ratio of two stages would be the square.
 *
 * Threads: it belongs to one caller at a time.  No locks. */
#include "protocol/coding/decoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/coding/codec.h"
#include "protocol/text/bytes.h"

#define BUFFER    4096  /* bytes, between two stages */
#define STEP_MOST 65536 /* bytes that one step makes: then the ratio is looked at */

enum coding { GZIP, DEFLATE, BROTLI, ZSTD };

enum state { BEGIN, INSIDE, BETWEEN };

struct stage {
        struct weir__codec *codec;
        uint64_t given;      /* bytes that have come out */
        uint8_t state;       /* enum state */
        bool is_full;        /* the last step has filled its room: there may be more */
        uint16_t begin, end; /* what lies in the buffer */
        char buffer[];       /* of BUFFER bytes: its input; absent from the first stage */
};

struct weir__decoder {
        struct weir__decoder_limits limits;
        uint64_t taken; /* bytes of the input */
        unsigned count;
        struct stage *stages[WEIR__DECODER_CODINGS];
};

/* -- what is there -- */

const char *
weir__decoder_accept(void)
{
        return "gzip"
#if WEIR_HAS_BROTLI
               ", br"
#endif
#if WEIR_HAS_ZSTD
               ", zstd"
#endif
                ;
}

static struct weir__codec *
new_codec(enum coding coding)
{
        switch (coding) {
#if WEIR_HAS_BROTLI
        case BROTLI: return weir__codec_brotli();
#endif
#if WEIR_HAS_ZSTD
        case ZSTD: return weir__codec_zstd();
#endif
        case DEFLATE: return weir__codec_deflate();
        default: return weir__codec_gzip();
        }
}

/* The coding of that name; -ENOTSUP. */
static int
coding_named(const char *name, size_t size)
{
        if (WEIR__BYTES_ARE(name, size, "gzip") || WEIR__BYTES_ARE(name, size, "x-gzip"))
                return GZIP;
        if (WEIR__BYTES_ARE(name, size, "deflate"))
                return DEFLATE;
        if (WEIR_HAS_BROTLI && WEIR__BYTES_ARE(name, size, "br"))
                return BROTLI;
        if (WEIR_HAS_ZSTD && WEIR__BYTES_ARE(name, size, "zstd"))
                return ZSTD;
        return -ENOTSUP;
}

int
weir__decoder_plan(struct weir__decoder_plan *plan, const char *content_encoding)
{
        size_t list_size = strlen(content_encoding), size;
        const char *name;

        while (weir__bytes_next_member(&content_encoding, &list_size, &name, &size)) {
                if (WEIR__BYTES_ARE(name, size, "identity"))
                        continue;
                int coding = coding_named(name, size);
                if (coding < 0 || plan->count == WEIR__DECODER_CODINGS)
                        return -ENOTSUP;
                plan->codings[plan->count++] = (uint8_t)coding;
        }
        return 0;
}

/* -- made and freed -- */

static struct stage *
new_stage(enum coding coding, bool is_first)
{
        struct stage *stage = calloc(1, sizeof *stage + (is_first ? 0 : BUFFER));

        if (!stage)
                return NULL;
        stage->codec = new_codec(coding);
        if (stage->codec)
                return stage;
        free(stage);
        return NULL;
}

int
weir__decoder_new(const struct weir__decoder_plan *plan, const struct weir__decoder_limits *limits,
                  struct weir__decoder **ret_decoder)
{
        *ret_decoder = NULL;
        if (plan->count == 0)
                return 0;
        struct weir__decoder *decoder = calloc(1, sizeof *decoder);
        if (!decoder)
                return -ENOMEM;
        decoder->limits = *limits;
        for (unsigned left = plan->count; left > 0; left--) {
                struct stage *stage = new_stage((enum coding)plan->codings[left - 1], left == plan->count);

                if (!stage) {
                        weir__decoder_free(decoder);
                        return -ENOMEM;
                }
                decoder->stages[decoder->count++] = stage;
        }
        *ret_decoder = decoder;
        return 0;
}

void
weir__decoder_free(struct weir__decoder *decoder)
{
        if (!decoder)
                return;
        for (unsigned i = 0; i < decoder->count; i++) {
                decoder->stages[i]->codec->free(decoder->stages[i]->codec);
                free(decoder->stages[i]);
        }
        free(decoder);
}

/* -- bounds -- */

/* Between two stages are compressed bytes, which may be a few more than those that come out. */
static uint64_t
max_size(const struct weir__decoder *decoder, bool is_last)
{
        uint64_t max = decoder->limits.max_size;

        return is_last || max > UINT64_MAX - WEIR__DECODER_FREE ? max : max + WEIR__DECODER_FREE;
}

static bool
is_too_much(const struct weir__decoder *decoder, const struct stage *stage, bool is_last)
{
        uint32_t ratio = decoder->limits.max_ratio;

        return stage->given > max_size(decoder, is_last) ||
               (ratio && stage->given > WEIR__DECODER_FREE && stage->given / ratio > decoder->taken);
}

/* How much a step may write: one byte above the limit, which proves that there is more. */
static size_t
space(const struct weir__decoder *decoder, const struct stage *stage, bool is_last, size_t room)
{
        uint64_t left = max_size(decoder, is_last) - stage->given;

        if (room > STEP_MOST)
                room = STEP_MOST;
        return left < room ? (size_t)left + 1 : room;
}

/* -- the steps -- */

/* The bytes of one step. */
struct move {
        const char *data;
        size_t size, used;
        char *out;
        size_t room, made;
};

/* Has the stage take and make what it can in one step, which may be nothing. */
static int
step(struct stage *stage, struct move *move)
{
        int result;

        move->used = move->made = 0;
        if (move->room == 0 || (move->size == 0 && !stage->is_full))
                return 0;
        if (stage->state != INSIDE) {
                if (move->size == 0)
                        return 0;
                result = stage->codec->begin(stage->codec, *move->data);
                if (result)
                        return result;
                stage->state = INSIDE;
        }
        result = stage->codec->step(stage->codec, move->data, move->size, &move->used, move->out, move->room, &move->made);
        stage->is_full = result == 0 && move->made == move->room;
        if (result == WEIR__CODEC_END)
                stage->state = BETWEEN;
        stage->given += move->made;
        return result < 0 ? result : 0;
}

/* Where the stage reads and writes: the input or its buffer, the output or the buffer of the next one. */
static void
lay_move(const struct weir__decoder *decoder, unsigned at, struct move *move)
{
        struct stage *stage = decoder->stages[at];
        bool is_last = at + 1 == decoder->count;

        if (at > 0) {
                move->data = stage->buffer + stage->begin;
                move->size = (size_t)(stage->end - stage->begin);
        }
        if (!is_last) {
                struct stage *next = decoder->stages[at + 1];

                if (next->begin == next->end)
                        next->begin = next->end = 0;
                move->out = next->buffer + next->end;
                move->room = (size_t)(BUFFER - next->end);
        }
        if (move->room > 0)
                move->room = space(decoder, stage, is_last, move->room);
}

static void
note_move(struct weir__decoder *decoder, unsigned at, const struct move *move)
{
        if (at > 0)
                decoder->stages[at]->begin = (uint16_t)(decoder->stages[at]->begin + move->used);
        else
                decoder->taken += move->used;
        if (at + 1 < decoder->count)
                decoder->stages[at + 1]->end = (uint16_t)(decoder->stages[at + 1]->end + move->made);
}

int
weir__decoder_feed(struct weir__decoder *decoder, const char *data, size_t size, size_t *used, char *out, size_t room,
                   size_t *made)
{
        bool moves = true;

        *used = *made = 0;
        while (moves) {
                moves = false;
                for (unsigned at = 0; at < decoder->count; at++) {
                        struct move move = {.data = data + *used, .size = size - *used, .out = out + *made, .room = room - *made};

                        lay_move(decoder, at, &move);
                        int failed = step(decoder->stages[at], &move);
                        note_move(decoder, at, &move);
                        *used += at == 0 ? move.used : 0;
                        *made += at + 1 == decoder->count ? move.made : 0;
                        moves |= move.used > 0 || move.made > 0;
                        if (is_too_much(decoder, decoder->stages[at], at + 1 == decoder->count))
                                return -EMSGSIZE;
                        if (failed)
                                return failed;
                }
        }
        return 0;
}

bool
weir__decoder_may_end(const struct weir__decoder *decoder)
{
        for (unsigned at = 0; at < decoder->count; at++)
                if (decoder->stages[at]->state != BETWEEN)
                        return decoder->taken == 0;
        return true;
}
