/* test/decoder_test.c: compressed content that is decoded as it comes: all codings, every division, bounds, damage. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#if WEIR_HAS_BROTLI
#include <brotli/decode.h>
#include <brotli/encode.h>
#endif
#if WEIR_HAS_ZSTD
#include <zstd.h>
#endif

#include "protocol/coding/decoder.h"
#include "test/support.h"

#define GZIP (15 + 16)
#define ZLIB 15
#define BARE (-15)

static const struct weir__decoder_limits usual = {.max_size = (uint64_t)64 << 20, .max_ratio = 100};

struct bytes {
        char *data;
        size_t size;
};

/* -- memory is refused -- */

static int refused = -1; /* calls until the refused one */

static bool
refuse(void)
{
        return refused >= 0 && refused-- == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __real_inflateInit2_(z_streamp stream, int window, const char *version, int size);
int __wrap_inflateInit2_(z_streamp stream, int window, const char *version, int size);

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : __real_calloc(count, size);
}

int
__wrap_inflateInit2_(z_streamp stream, int window, const char *version, int size)
{
        return refuse() ? Z_MEM_ERROR : __real_inflateInit2_(stream, window, version, size);
}

#if WEIR_HAS_BROTLI
BrotliDecoderState *__real_BrotliDecoderCreateInstance(brotli_alloc_func alloc, brotli_free_func release, void *context);
BrotliDecoderState *__wrap_BrotliDecoderCreateInstance(brotli_alloc_func alloc, brotli_free_func release, void *context);

BrotliDecoderState *
__wrap_BrotliDecoderCreateInstance(brotli_alloc_func alloc, brotli_free_func release, void *context)
{
        return refuse() ? NULL : __real_BrotliDecoderCreateInstance(alloc, release, context);
}
#endif
#if WEIR_HAS_ZSTD
ZSTD_DCtx *__real_ZSTD_createDCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);

ZSTD_DCtx *
__wrap_ZSTD_createDCtx(void)
{
        return refuse() ? NULL : __real_ZSTD_createDCtx();
}
#endif

/* -- content -- */

static struct bytes
pack_zlib(const char *text, size_t size, int window, int level)
{
        z_stream stream = {.next_in = (Bytef *)text, .avail_in = (uInt)size};

        CU_ASSERT_EQUAL_FATAL(deflateInit2(&stream, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
        size_t room = deflateBound(&stream, size) + 32;
        struct bytes packed = {.data = malloc(room)};
        stream.next_out = (Bytef *)packed.data;
        stream.avail_out = (uInt)room;
        CU_ASSERT_EQUAL_FATAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
        packed.size = stream.total_out;
        deflateEnd(&stream);
        return packed;
}

static struct bytes
pack_gzip(const char *text, size_t size, int level)
{
        return pack_zlib(text, size, GZIP, level);
}

static struct bytes
pack_deflate(const char *text, size_t size, int level)
{
        return pack_zlib(text, size, ZLIB, level);
}

static struct bytes
pack_bare(const char *text, size_t size, int level)
{
        return pack_zlib(text, size, BARE, level);
}

#if WEIR_HAS_BROTLI
static struct bytes
pack_brotli(const char *text, size_t size, int level)
{
        struct bytes packed = {malloc(size + 1024), size + 1024};

        CU_ASSERT_TRUE_FATAL(BrotliEncoderCompress(level < 5 ? level : 5, 22, BROTLI_MODE_GENERIC, size, (const uint8_t *)text,
                                                   &packed.size, (uint8_t *)packed.data));
        return packed;
}
#endif

#if WEIR_HAS_ZSTD
static struct bytes
pack_zstd(const char *text, size_t size, int level)
{
        struct bytes packed = {malloc(ZSTD_compressBound(size)), 0};

        packed.size = ZSTD_compress(packed.data, ZSTD_compressBound(size), text, size, level + 1);
        CU_ASSERT_FALSE_FATAL(ZSTD_isError(packed.size));
        return packed;
}
#endif

static const struct format {
        const char *name;
        struct bytes (*pack)(const char *text, size_t size, int level);
        bool has_frames; /* several may follow each other */
        bool has_sum;    /* all damage is noticed */
} formats[] = {
        {"gzip", pack_gzip, true, true},        {"X-GZip", pack_gzip, true, true},
        {"deflate", pack_deflate, false, true}, {"deflate", pack_bare, false, false},
#if WEIR_HAS_BROTLI
        {"br", pack_brotli, false, false},
#endif
#if WEIR_HAS_ZSTD
        {"zstd", pack_zstd, true, false},
#endif
};

#define FORMATS (sizeof formats / sizeof *formats)

static char *
text_of(size_t size)
{
        struct weir_test_random random = {weir_test_seed()};
        char *text = malloc(size + 1);

        for (size_t i = 0; i < size; i++)
                text[i] = (char)(i % 3 ? 'a' + (i / 5) % 26 : 'a' + weir_test_random_below(&random, 26));
        text[size] = '\0';
        return text;
}

/* Decodes all, `piece` bytes at a time, into pieces of `room` bytes.  Result: as weir__decoder_feed; -ECONNABORTED when it
 * may not end there. */
static int
unpack(const char *codings, const struct weir__decoder_limits *limits, const char *data, size_t size, size_t piece, size_t room,
       struct bytes *out)
{
        struct weir__decoder_plan plan = {.count = 0};
        struct weir__decoder *decoder;
        size_t reached = 0, capacity = 0;

        *out = (struct bytes){0};
        int failed = weir__decoder_plan(&plan, codings);
        failed = failed ? failed : weir__decoder_new(&plan, limits, &decoder);
        if (failed)
                return failed;
        for (size_t at = 0; at < size && !failed; at += reached) {
                size_t given = size - at < piece ? size - at : piece, used, made = room;
                char *copy = malloc(given);

                memcpy(copy, data + at, given);
                for (reached = 0; made == room && !failed; reached += used) {
                        if (capacity - out->size < room)
                                out->data = realloc(out->data, capacity = 2 * capacity + room);
                        failed = weir__decoder_feed(decoder, copy + reached, given - reached, &used, out->data + out->size, room,
                                                    &made);
                        out->size += failed ? 0 : made;
                }
                if (!failed && reached < given)
                        failed = -EPROTO; /* it has left room and input */
                free(copy);
        }
        if (!failed && !weir__decoder_may_end(decoder))
                failed = -ECONNABORTED;
        weir__decoder_free(decoder);
        return failed;
}

/* The same, without what comes out. */
static int
result_of(const char *codings, const struct weir__decoder_limits *limits, const char *data, size_t size, size_t piece,
          size_t room)
{
        struct bytes out;
        int result = unpack(codings, limits, data, size, piece, room, &out);

        free(out.data);
        return result;
}

static bool
comes_back(const char *codings, struct bytes packed, const char *text, size_t size, size_t piece, size_t room)
{
        struct bytes out;
        int failed = unpack(codings, &usual, packed.data, packed.size, piece, room, &out);
        bool is_same = !failed && out.size == size && (size == 0 || memcmp(out.data, text, size) == 0);

        if (!is_same)
                printf("%s, %zu bytes, pieces of %zu and %zu: %d\n", codings, size, piece, room, failed);
        free(out.data);
        return is_same;
}

static struct bytes
both(struct bytes one, struct bytes other)
{
        struct bytes all = {malloc(one.size + other.size), one.size + other.size};

        memcpy(all.data, one.data, one.size);
        memcpy(all.data + one.size, other.data, other.size);
        return all;
}

/* -- tests -- */

static void
each_coding_comes_back_in_any_pieces(void)
{
        static const size_t sizes[] = {0, 1, 2, 100, 5000, WEIR_TEST_SANITIZED ? 20000 : 200000};

        for (size_t i = 0; i < FORMATS; i++)
                for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
                        for (int level = 0; level <= 9; level += 3) {
                                char *text = text_of(sizes[j]);
                                struct bytes packed = formats[i].pack(text, sizes[j], level);
                                const char *name = formats[i].name;

                                CU_ASSERT_TRUE(comes_back(name, packed, text, sizes[j], packed.size, sizes[j] + 1));
                                CU_ASSERT_TRUE(comes_back(name, packed, text, sizes[j], 1, 4096));
                                CU_ASSERT_TRUE(comes_back(name, packed, text, sizes[j], 1000, 7));
                                CU_ASSERT_TRUE(comes_back(name, packed, text, sizes[j], packed.size, sizes[j] ? sizes[j] : 1));
                                free(text);
                                free(packed.data);
                        }
}

static void
codings_lie_one_on_top_of_the_other(void)
{
        static const size_t sizes[] = {0, 1, 100, 20000};

        for (size_t i = 0; i < FORMATS; i++)
                for (size_t j = 0; j < FORMATS; j++)
                        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                                char *text = text_of(sizes[k]), names[64];
                                struct bytes once = formats[i].pack(text, sizes[k], 6);
                                struct bytes twice = formats[j].pack(once.data, once.size, 6);
                                struct bytes thrice = pack_gzip(twice.data, twice.size, 1);

                                snprintf(names, sizeof names, "%s,, identity ,%s", formats[i].name, formats[j].name);
                                for (size_t piece = 1; piece < 100; piece += 7)
                                        CU_ASSERT_TRUE(comes_back(names, twice, text, sizes[k], piece, 5000 / piece));
                                CU_ASSERT_TRUE(comes_back(names, twice, text, sizes[k], twice.size, 100000));
                                strcat(names, ", x-gzip");
                                CU_ASSERT_TRUE(comes_back(names, thrice, text, sizes[k], 100, 100));
                                CU_ASSERT_EQUAL(result_of(names, &usual, thrice.data, thrice.size - 1, 100, 100), -ECONNABORTED);
                                free(text);
                                free(once.data);
                                free(twice.data);
                                free(thrice.data);
                        }
}

/* The inner content is cut off, the outer one is whole. */
static void
an_inner_coding_may_not_be_cut_off(void)
{
        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes once = formats[i].pack("Hello", 5, 6), twice = pack_gzip(once.data, once.size - 1, 6);
                char names[32];

                snprintf(names, sizeof names, "%s, gzip", formats[i].name);
                CU_ASSERT_EQUAL(result_of(names, &usual, twice.data, twice.size, 100, 100), -ECONNABORTED);
                free(twice.data);
                twice = pack_gzip("", 0, 6);
                CU_ASSERT_EQUAL(result_of(names, &usual, twice.data, twice.size, 100, 100), -ECONNABORTED);
                free(once.data);
                free(twice.data);
        }
}

static void
names_of_codings_are_known_or_refused(void)
{
        static const char *const refused_names[] = {"compress", "gzip2", "gzi", "gzip;q=1", "*", "br gzip", "\"gzip\"", "none"};
        struct weir__decoder_plan plan = {.count = 0};
        struct weir__decoder *decoder = (struct weir__decoder *)&plan;

        for (size_t i = 0; i < sizeof refused_names / sizeof *refused_names; i++)
                CU_ASSERT_EQUAL(weir__decoder_plan(&(struct weir__decoder_plan){.count = 0}, refused_names[i]), -ENOTSUP);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, ""), 0);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, "identity, , Identity"), 0);
        CU_ASSERT_EQUAL(plan.count, 0);
        CU_ASSERT_EQUAL(weir__decoder_new(&plan, &usual, &decoder), 0);
        CU_ASSERT_PTR_NULL(decoder);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, "gzip"), 0);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, " GZIP ,DEFLATE\t"), 0);
        CU_ASSERT_EQUAL(plan.count, 3);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, "identity"), 0);
        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, "gzip"), -ENOTSUP);
        CU_ASSERT_EQUAL(weir__decoder_plan(&(struct weir__decoder_plan){.count = 0}, "br"), WEIR_HAS_BROTLI ? 0 : -ENOTSUP);
        CU_ASSERT_EQUAL(weir__decoder_plan(&(struct weir__decoder_plan){.count = 0}, "zstd"), WEIR_HAS_ZSTD ? 0 : -ENOTSUP);
        weir__decoder_free(NULL);
}

static void
what_is_accepted_is_decoded(void)
{
        struct weir__decoder_plan plan = {.count = 0};
        const char *accept = weir__decoder_accept();

        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, accept), 0);
        CU_ASSERT_EQUAL(plan.count, 1 + WEIR_HAS_BROTLI + WEIR_HAS_ZSTD);
        CU_ASSERT_EQUAL(strncmp(accept, "gzip", 4), 0);
}

static void
no_bytes_are_an_empty_content(void)
{
        for (size_t i = 0; i < FORMATS; i++)
                CU_ASSERT_EQUAL(result_of(formats[i].name, &usual, "", 0, 1, 1), 0);
        CU_ASSERT_EQUAL(result_of("deflate, gzip", &usual, "", 0, 1, 1), 0);
}

static void
frames_follow_each_other(void)
{
        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes one = formats[i].pack("Hello, ", 7, 6), other = formats[i].pack("world", 5, 6);
                struct bytes two = both(one, other);

                for (size_t piece = 1; piece <= two.size; piece++) {
                        if (formats[i].has_frames) {
                                CU_ASSERT_TRUE(comes_back(formats[i].name, two, "Hello, world", 12, piece, 5));
                        } else {
                                CU_ASSERT_EQUAL(result_of(formats[i].name, &usual, two.data, two.size, piece, 5), -EBADMSG);
                        }
                }
                free(one.data);
                free(other.data);
                free(two.data);
        }
}

static void
thousands_of_frames_follow_each_other(void)
{
        enum { COUNT = 5000 };
        char text[COUNT];

        memset(text, 'x', sizeof text);
        for (size_t i = 0; i < FORMATS; i++) {
                if (!formats[i].has_frames)
                        continue;
                struct bytes one = formats[i].pack("x", 1, 6), empty = formats[i].pack("", 0, 6), pair = both(one, empty);
                struct bytes all = {malloc(COUNT * pair.size), COUNT * pair.size};

                for (size_t j = 0; j < COUNT; j++)
                        memcpy(all.data + j * pair.size, pair.data, pair.size);
                CU_ASSERT_TRUE(comes_back(formats[i].name, all, text, COUNT, all.size, COUNT + 1));
                CU_ASSERT_TRUE(comes_back(formats[i].name, all, text, COUNT, 7, 1));
                free(one.data);
                free(empty.data);
                free(pair.data);
                free(all.data);
        }
}

/* What is cut off, at any byte, is not the whole; anything behind the end is refused, in any division. */
static void
a_cut_and_a_rest_are_noticed(void)
{
        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes packed = formats[i].pack("Hello, world; hello, hello, world", 33, 6);
                struct bytes rest = both(packed, (struct bytes){(char[]){'x', 'y', 'z'}, 3});
                const char *name = formats[i].name;

                for (size_t size = 1; size < packed.size; size++)
                        for (size_t piece = 1; piece <= size; piece += 5)
                                CU_ASSERT_EQUAL(result_of(name, &usual, packed.data, size, piece, 100), -ECONNABORTED);
                for (size_t piece = 1; piece <= rest.size; piece++)
                        for (size_t room = 1; room < 50; room += 8)
                                CU_ASSERT_EQUAL(result_of(name, &usual, rest.data, rest.size, piece, room), -EBADMSG);
                free(packed.data);
                free(rest.data);
        }
}

static void
damage_is_noticed(void)
{
        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes packed = formats[i].pack("Hello, world; hello, hello, world", 33, 6);
                unsigned unnoticed = 0;

                for (size_t at = formats[i].pack == pack_gzip ? 10 : 0; at < packed.size; at++) { /* its head may say anything */
                        packed.data[at] ^= 0x10;
                        unnoticed += result_of(formats[i].name, &usual, packed.data, packed.size, packed.size, 100) == 0;
                        packed.data[at] ^= 0x10;
                }
                CU_ASSERT(unnoticed == 0 || !formats[i].has_sum);
                CU_ASSERT_EQUAL(result_of("gzip", &usual, packed.data, packed.size, 100, 100),
                                formats[i].pack == pack_gzip ? 0 : -EBADMSG);
                free(packed.data);
        }
        CU_ASSERT_EQUAL(result_of("gzip", &usual, "plain text", 10, 100, 100), -EBADMSG);
}

static void
the_limit_of_bytes_is_exact(void)
{
        for (size_t i = 0; i < FORMATS; i++) {
                char *text = text_of(5000);
                struct bytes packed = formats[i].pack(text, 5000, 6), out;
                struct weir__decoder_limits limits = {.max_size = 5000};
                const char *name = formats[i].name;

                for (size_t room = 1; room <= 6000; room += room < 10 ? 1 : 499) {
                        limits.max_size = 5000;
                        CU_ASSERT_EQUAL(unpack(name, &limits, packed.data, packed.size, 100, room, &out), 0);
                        CU_ASSERT_EQUAL(out.size, 5000);
                        free(out.data);
                        limits.max_size = 4999;
                        CU_ASSERT_EQUAL(unpack(name, &limits, packed.data, packed.size, 100, room, &out), -EMSGSIZE);
                        CU_ASSERT(out.size <= 4999);
                        free(out.data);
                }
                free(packed.data);
                free(text);
                packed = formats[i].pack("", 0, 6);
                limits.max_size = 0;
                CU_ASSERT_EQUAL(result_of(name, &limits, packed.data, packed.size, 100, 10), 0);
                free(packed.data);
        }
}

/* 8 MB of zeros in some hundred bytes: the decoder stops long before they are out. */
static void
a_bomb_goes_out(void)
{
        static char zeros[8 << 20];
        struct weir__decoder_limits no_ratio = {.max_size = usual.max_size};

        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes packed = formats[i].pack(zeros, sizeof zeros, 9), out;
                const char *name = formats[i].name;

                CU_ASSERT(packed.size < 10000);
                CU_ASSERT_EQUAL(unpack(name, &usual, packed.data, packed.size, 512, 65536, &out), -EMSGSIZE);
                CU_ASSERT(out.size < (2 << 20));
                free(out.data);
                CU_ASSERT_EQUAL(unpack(name, &usual, packed.data, packed.size, packed.size, sizeof zeros, &out), -EMSGSIZE);
                free(out.data);
                CU_ASSERT_EQUAL(unpack(name, &no_ratio, packed.data, packed.size, 512, 65536, &out), 0);
                CU_ASSERT_EQUAL(out.size, sizeof zeros);
                free(out.data);
                free(packed.data);
                packed = formats[i].pack(zeros, WEIR__DECODER_FREE / 2, 9); /* short texts may be as simple as they like */
                CU_ASSERT_EQUAL(result_of(name, &usual, packed.data, packed.size, 512, 65536), 0);
                free(packed.data);
        }
}

/* Its ratio is that of both codings. */
static void
a_bomb_in_a_bomb_goes_out(void)
{
        static char zeros[32 << 20];

        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes once = pack_gzip(zeros, sizeof zeros, 9), twice = formats[i].pack(once.data, once.size, 9), out;
                char names[32];

                snprintf(names, sizeof names, "gzip, %s", formats[i].name);
                CU_ASSERT(twice.size < 1000);
                CU_ASSERT_EQUAL(unpack(names, &usual, twice.data, twice.size, 512, 65536, &out), -EMSGSIZE);
                CU_ASSERT(out.size < (2 << 20));
                free(out.data);
                free(once.data);
                free(twice.data);
        }
}

#if WEIR_HAS_ZSTD
static void
the_window_of_zstd_is_bounded(void)
{
        /* A frame of five empty bytes: its window, then one raw block of nothing, the last one. */
        char frame[] = {0x28, (char)0xb5, 0x2f, (char)0xfd, 0, 0, 1, 0, 0};

        for (int log = 10; log <= 41; log++) {
                frame[5] = (char)((log - 10) << 3);
                for (size_t piece = 1; piece <= sizeof frame; piece++)
                        CU_ASSERT_EQUAL(result_of("zstd", &usual, frame, sizeof frame, piece, 100), log <= 23 ? 0 : -EMSGSIZE);
        }
        frame[5] = ((23 - 10) << 3) + 1; /* an eighth more */
        CU_ASSERT_EQUAL(result_of("zstd", &usual, frame, sizeof frame, 100, 100), -EMSGSIZE);
}

/* libzstd would decode it in one go, without a look at the window. */
static void
a_window_is_bounded_in_whatever_pieces_it_comes(void)
{
        enum { HEAD = 11, CONTENT = 256 };
        char frame[HEAD + CONTENT] = {0x28, (char)0xb5, 0x2f, (char)0xfd, 0x40, 0, 0, 0, 0x01, 0x08, 0}; /* one raw block */

        for (int log = 23; log <= 24; log++) {
                frame[5] = (char)((log - 10) << 3);
                for (size_t piece = 1; piece <= sizeof frame; piece++)
                        CU_ASSERT_EQUAL(result_of("zstd", &usual, frame, sizeof frame, piece, 1000), log <= 23 ? 0 : -EMSGSIZE);
        }
}

static void
frames_of_zstd_may_be_skipped(void)
{
        static const char skipped[] = {0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
        struct bytes one = pack_zstd("Hello", 5, 3), two = both((struct bytes){(char *)skipped, sizeof skipped}, one);

        for (size_t piece = 1; piece <= two.size; piece++)
                CU_ASSERT_TRUE(comes_back("zstd", two, "Hello", 5, piece, 3));
        one.data[0] = 0x27; /* a format of 2016 */
        CU_ASSERT_EQUAL(result_of("zstd", &usual, one.data, one.size, 100, 100), -EBADMSG);
        free(one.data);
        free(two.data);
}

/* libzstd counts calls that bring nothing, and fails at the sixteenth. */
static void
calls_without_bytes_do_no_harm(void)
{
        struct weir__decoder_plan plan = {.count = 0};
        struct weir__decoder *decoder;
        struct bytes packed = pack_zstd("Hello", 5, 3);
        char out[10];
        size_t used, made;

        CU_ASSERT_EQUAL(weir__decoder_plan(&plan, "zstd"), 0);
        CU_ASSERT_EQUAL_FATAL(weir__decoder_new(&plan, &usual, &decoder), 0);
        CU_ASSERT_EQUAL(weir__decoder_feed(decoder, packed.data, 7, &used, out, sizeof out, &made), 0);
        for (int i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(weir__decoder_feed(decoder, NULL, 0, &used, out, sizeof out, &made), 0);
        CU_ASSERT_EQUAL(weir__decoder_feed(decoder, packed.data + 7, packed.size - 7, &used, out, sizeof out, &made), 0);
        CU_ASSERT_EQUAL(made, 5);
        CU_ASSERT_TRUE(weir__decoder_may_end(decoder));
        weir__decoder_free(decoder);
        free(packed.data);
}
#endif

static void
memory_is_refused_at_each_point(void)
{
        char *text = text_of(3000);

        for (size_t i = 0; i < FORMATS; i++) {
                struct bytes once = formats[i].pack(text, 3000, 6), twice = pack_gzip(once.data, once.size, 6);
                char names[32];
                int result = -ENOMEM;

                snprintf(names, sizeof names, "%s, gzip", formats[i].name);
                for (int at = 0; result == -ENOMEM; at++) {
                        refused = at;
                        result = result_of(names, &usual, twice.data, twice.size, 100, 100);
                        CU_ASSERT(result == -ENOMEM || (result == 0 && at >= 6));
                }
                CU_ASSERT_EQUAL(refused, 0); /* as many were not called */
                refused = -1;
                free(once.data);
                free(twice.data);
        }
        free(text);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_coding_comes_back_in_any_pieces),
                WEIR_TEST(codings_lie_one_on_top_of_the_other),
                WEIR_TEST(an_inner_coding_may_not_be_cut_off),
                WEIR_TEST(names_of_codings_are_known_or_refused),
                WEIR_TEST(what_is_accepted_is_decoded),
                WEIR_TEST(no_bytes_are_an_empty_content),
                WEIR_TEST(frames_follow_each_other),
                WEIR_TEST(thousands_of_frames_follow_each_other),
                WEIR_TEST(a_cut_and_a_rest_are_noticed),
                WEIR_TEST(damage_is_noticed),
                WEIR_TEST(the_limit_of_bytes_is_exact),
                WEIR_TEST(a_bomb_goes_out),
                WEIR_TEST(a_bomb_in_a_bomb_goes_out),
#if WEIR_HAS_ZSTD
                WEIR_TEST(the_window_of_zstd_is_bounded),
                WEIR_TEST(a_window_is_bounded_in_whatever_pieces_it_comes),
                WEIR_TEST(frames_of_zstd_may_be_skipped),
                WEIR_TEST(calls_without_bytes_do_no_harm),
#endif
                WEIR_TEST(memory_is_refused_at_each_point),
        };

        return weir_test_main("decoder", tests, sizeof tests / sizeof *tests);
}
