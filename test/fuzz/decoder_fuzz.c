/* test/fuzz/decoder_fuzz.c: content codings, damaged and whole; beside the libraries' own decoders, which get all at once.
 *
 * The first three bytes of an input choose: the codings, and whether the rest is encoded here first; where the content is cut
 * (one byte); and the room for what comes out.  What must hold:
 *
 * - Content that comes whole, byte by byte and in two pieces has the same result and gives the same bytes.
 * - Of one coding, that result is the one of its library, but for what lies behind the end, windows and limits.  libzstd takes
 *   blocks larger than a frame's window when it gets all at once, and refuses them as a stream (RFC 8878, 3.1.1.2.4): there, only
 *   what is whole here must be whole.
 * - What was encoded here comes back. */
#include <errno.h>

#include <zlib.h>
#if WEIR_HAS_BROTLI
#include <brotli/decode.h>
#include <brotli/encode.h>
#endif
#if WEIR_HAS_ZSTD
#include <zstd.h>
#endif

#include "protocol/coding/decoder.h"
#include "test/fuzz/fuzz.h"

#define MAX_SIZE (1 << 16)
#define ENCODED  64 /* of the first byte */

static const struct weir__decoder_limits limits = {.max_size = MAX_SIZE};

struct bytes {
        char *data;
        size_t size;
};

/* -- the library, all at once: whether the content is whole; what comes out, up to one byte more than MAX_SIZE -- */

static bool
unpack_zlib(struct fuzz_input input, int window, bool has_members, struct bytes *out)
{
        z_stream stream = {.next_in = (Bytef *)input.at, .avail_in = (uInt)input.size};
        bool is_whole;

        FUZZ_CHECK(inflateInit2(&stream, window) == Z_OK);
        do {
                stream.next_out = (Bytef *)out->data + out->size;
                stream.avail_out = (uInt)(MAX_SIZE + 1 - out->size);
                int result = inflate(&stream, Z_FINISH);
                out->size = MAX_SIZE + 1 - stream.avail_out;
                is_whole = result == Z_STREAM_END;
        } while (is_whole && has_members && stream.avail_in > 0 && inflateReset(&stream) == Z_OK);
        inflateEnd(&stream);
        return is_whole && stream.avail_in == 0;
}

static bool
unpack_gzip(struct fuzz_input input, struct bytes *out)
{
        return unpack_zlib(input, 15 + 16, true, out);
}

static bool
unpack_deflate(struct fuzz_input input, struct bytes *out)
{
        return unpack_zlib(input, (*input.at & 0xf) == 8 ? 15 : -15, false, out);
}

#if WEIR_HAS_BROTLI
static bool
unpack_brotli(struct fuzz_input input, struct bytes *out)
{
        BrotliDecoderState *decoder = BrotliDecoderCreateInstance(NULL, NULL, NULL);
        const uint8_t *in = (const uint8_t *)input.at;
        uint8_t *to = (uint8_t *)out->data;
        size_t left = input.size, room = MAX_SIZE + 1;
        BrotliDecoderResult result = BrotliDecoderDecompressStream(decoder, &left, &in, &room, &to, NULL);

        BrotliDecoderDestroyInstance(decoder);
        out->size = MAX_SIZE + 1 - room;
        return result == BROTLI_DECODER_RESULT_SUCCESS && left == 0;
}
#endif

#if WEIR_HAS_ZSTD
/* Formats of former years are refused. */
static bool
is_old(struct fuzz_input input)
{
        while (input.size > 0) {
                size_t size = ZSTD_findFrameCompressedSize(input.at, input.size);

                if (ZSTD_isError(size))
                        return false;
                if (*input.at != 0x28 && (*input.at & 0xf0) != 0x50)
                        return true;
                input.at += size;
                input.size -= size;
        }
        return false;
}

static bool
unpack_zstd(struct fuzz_input input, struct bytes *out)
{
        size_t size = ZSTD_decompress(out->data, MAX_SIZE + 1, input.at, input.size);

        if (ZSTD_isError(size) || is_old(input))
                return false;
        out->size = size;
        return true;
}
#endif

/* -- encoders: the result is in memory that the caller frees -- */

static struct bytes
pack_zlib(const char *data, size_t size, int window)
{
        z_stream stream = {.next_in = (Bytef *)data, .avail_in = (uInt)size};

        FUZZ_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK);
        struct bytes packed = {malloc(size + 1024), 0};
        stream.next_out = (Bytef *)packed.data;
        stream.avail_out = (uInt)(size + 1024);
        FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
        packed.size = stream.total_out;
        deflateEnd(&stream);
        return packed;
}

static struct bytes
pack_gzip(const char *data, size_t size)
{
        return pack_zlib(data, size, 15 + 16);
}

static struct bytes
pack_deflate(const char *data, size_t size)
{
        return pack_zlib(data, size, size % 2 ? 15 : -15);
}

#if WEIR_HAS_BROTLI
static struct bytes
pack_brotli(const char *data, size_t size)
{
        struct bytes packed = {malloc(size + 1024), size + 1024};

        FUZZ_CHECK(BrotliEncoderCompress(3, 18, BROTLI_MODE_GENERIC, size, (const uint8_t *)data, &packed.size,
                                         (uint8_t *)packed.data));
        return packed;
}
#endif

#if WEIR_HAS_ZSTD
static struct bytes
pack_zstd(const char *data, size_t size)
{
        struct bytes packed = {malloc(size + 1024), 0};

        packed.size = ZSTD_compress(packed.data, size + 1024, data, size, 1);
        FUZZ_CHECK(!ZSTD_isError(packed.size));
        return packed;
}
#endif

static const struct coding {
        const char *name;
        bool (*unpack)(struct fuzz_input input, struct bytes *out);
        struct bytes (*pack)(const char *data, size_t size);
        bool takes_more; /* the library, all at once */
} codings[] = {
        {"gzip", unpack_gzip, pack_gzip, false},
        {"deflate", unpack_deflate, pack_deflate, false},
#if WEIR_HAS_BROTLI
        {"br", unpack_brotli, pack_brotli, false},
#endif
#if WEIR_HAS_ZSTD
        {"zstd", unpack_zstd, pack_zstd, true},
#endif
};

#define CODINGS (sizeof codings / sizeof *codings)

/* -- ours -- */

struct decoded {
        int failed; /* -ECONNABORTED: it is not whole */
        struct bytes out;
};

/* Feeds one piece, and has all come out. */
static int
feed(struct weir__decoder *decoder, struct fuzz_input piece, size_t room, struct bytes *out)
{
        size_t used, made = room;
        char *copy = fuzz_copy(piece.at, piece.size);
        struct fuzz_input rest = {copy, piece.size};
        int failed = 0;

        while (!failed && made == room) {
                char *part = malloc(room);

                failed = weir__decoder_feed(decoder, rest.at, rest.size, &used, part, room, &made);
                FUZZ_CHECK(used <= rest.size && made <= room);
                if (!failed) {
                        FUZZ_CHECK(out->size + made <= MAX_SIZE);
                        memcpy(out->data + out->size, part, made);
                        out->size += made;
                        rest.at += used;
                        rest.size -= used;
                }
                free(part);
        }
        FUZZ_CHECK(failed || rest.size == 0);
        free(copy);
        return failed;
}

static struct decoded
decode(const struct weir__decoder_plan *plan, struct fuzz_input input, size_t first, size_t piece, size_t room)
{
        struct decoded decoded = {.out.data = malloc(MAX_SIZE + 1)};
        struct weir__decoder *decoder;

        FUZZ_CHECK(weir__decoder_new(plan, &limits, &decoder) == 0);
        for (size_t at = 0; at < input.size && !decoded.failed;) {
                size_t size = at == 0 && first > 0 ? first : piece;

                size = size < input.size - at ? size : input.size - at;
                decoded.failed = feed(decoder, (struct fuzz_input){input.at + at, size}, room, &decoded.out);
                at += size;
        }
        if (!decoded.failed && !weir__decoder_may_end(decoder))
                decoded.failed = -ECONNABORTED;
        weir__decoder_free(decoder);
        return decoded;
}

/* Damage behind the limit may be seen first or last. */
static int
kind(int failed)
{
        return failed == -EMSGSIZE ? -EBADMSG : failed;
}

static void
check_same(const struct decoded *one, const struct decoded *other)
{
        FUZZ_CHECK(kind(one->failed) == kind(other->failed));
        FUZZ_CHECK(one->failed || one->out.size == other->out.size);
        FUZZ_CHECK(one->failed || memcmp(one->out.data, other->out.data, one->out.size) == 0);
}

static void
check_library(const struct coding *coding, struct fuzz_input input, const struct decoded *ours)
{
        struct decoded theirs = {.out.data = malloc(MAX_SIZE + 1)};

        if (input.size > 0 && ours->failed != -EMSGSIZE) {
                bool is_whole = coding->unpack(input, &theirs.out);

                FUZZ_CHECK(is_whole == !ours->failed || (is_whole && coding->takes_more));
                FUZZ_CHECK(ours->failed || theirs.out.size == ours->out.size);
                FUZZ_CHECK(ours->failed || memcmp(theirs.out.data, ours->out.data, ours->out.size) == 0);
        }
        free(theirs.out.data);
}

/* Wraps the content into one coding, or two. */
static struct bytes
encode(struct fuzz_input input, const struct coding *inner, const struct coding *outer)
{
        struct bytes once = inner->pack(input.at, input.size);

        if (!outer)
                return once;
        struct bytes twice = outer->pack(once.data, once.size);
        free(once.data);
        return twice;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);
        unsigned char choice = fuzz_take_byte(&input), cut = fuzz_take_byte(&input);
        size_t room = (size_t)1 << fuzz_take_byte(&input) % 17;
        const struct coding *inner = &codings[choice % CODINGS];
        const struct coding *outer = choice / CODINGS % 2 ? &codings[choice / CODINGS / 2 % CODINGS] : NULL;
        struct weir__decoder_plan plan = {.count = 0};
        struct bytes encoded = {NULL, 0};
        struct fuzz_input content = input;

        FUZZ_CHECK(weir__decoder_plan(&plan, inner->name) == 0);
        FUZZ_CHECK(!outer || weir__decoder_plan(&plan, outer->name) == 0);
        if (choice & ENCODED) {
                encoded = encode(input, inner, outer);
                content = (struct fuzz_input){encoded.data, encoded.size};
        }
        struct decoded whole = decode(&plan, content, 0, content.size, MAX_SIZE);
        struct decoded bytes = decode(&plan, content, 0, 1, 4096);
        struct decoded two = decode(&plan, content, cut, content.size, room < 64 && whole.out.size > 4096 ? 64 : room);
        check_same(&whole, &bytes);
        check_same(&whole, &two);
        if (!outer)
                check_library(inner, content, &whole);
        if (choice & ENCODED)
                FUZZ_CHECK(!whole.failed && whole.out.size == input.size &&
                           (input.size == 0 || memcmp(whole.out.data, input.at, input.size) == 0));
        free(whole.out.data);
        free(bytes.out.data);
        free(two.out.data);
        free(encoded.data);
        return 0;
}
