/* test/inflate_test.c: compressed content that is taken apart as it comes: all formats, every division, bounds, damage. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "protocol/coding/inflate.h"
#include "test/support.h"

#define GZIP (15 + 16)
#define ZLIB 15
#define BARE (-15)

static const struct weir__inflate_limits usual = {.max_size = (uint64_t)64 << 20, .max_ratio = 100};

struct bytes {
        char *data;
        size_t size;
};

static struct bytes
pack(const char *text, size_t size, int window, int level)
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

/* Takes all apart, `piece` bytes at a time, into pieces of `room` bytes.  Result: as weir__inflater_feed; -ECONNABORTED when it
 * may not end there. */
static int
unpack(enum weir__inflate_coding coding, const struct weir__inflate_limits *limits, const char *data, size_t size, size_t piece,
       size_t room, struct bytes *out)
{
        struct weir__inflater *inflater = weir__inflater_new(coding, limits);
        size_t reached = 0, capacity = 0;
        int failed = 0;

        *out = (struct bytes){0};
        for (size_t at = 0; at < size && !failed; at += reached) {
                size_t given = size - at < piece ? size - at : piece, used, made = room;
                char *copy = malloc(given);

                memcpy(copy, data + at, given);
                for (reached = 0; made == room && !failed; reached += used) {
                        if (capacity - out->size < room)
                                out->data = realloc(out->data, capacity = 2 * capacity + room);
                        failed = weir__inflater_feed(inflater, copy + reached, given - reached, &used, out->data + out->size,
                                                     room, &made);
                        out->size += failed ? 0 : made;
                }
                if (!failed && reached < given)
                        failed = -EPROTO; /* it has left room and input */
                free(copy);
        }
        if (!failed && !weir__inflater_may_end(inflater))
                failed = -ECONNABORTED;
        weir__inflater_free(inflater);
        return failed;
}

static bool
comes_back(enum weir__inflate_coding coding, struct bytes packed, const char *text, size_t size, size_t piece, size_t room)
{
        struct bytes out;
        int failed = unpack(coding, &usual, packed.data, packed.size, piece, room, &out);
        bool is_same = !failed && out.size == size && memcmp(out.data, text, size) == 0;

        free(out.data);
        return is_same;
}

static void
each_format_comes_back_in_any_pieces(void)
{
        static const struct {
                enum weir__inflate_coding coding;
                int window;
        } formats[] = {{WEIR__INFLATE_GZIP, GZIP}, {WEIR__INFLATE_DEFLATE, ZLIB}, {WEIR__INFLATE_DEFLATE, BARE}};
        static const size_t sizes[] = {0, 1, 2, 100, 5000, WEIR_TEST_SANITIZED ? 20000 : 200000};

        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
                for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
                        for (int level = 0; level <= 9; level += 3) {
                                char *text = text_of(sizes[j]);
                                struct bytes packed = pack(text, sizes[j], formats[i].window, level);
                                enum weir__inflate_coding coding = formats[i].coding;

                                CU_ASSERT_TRUE(comes_back(coding, packed, text, sizes[j], packed.size, sizes[j] + 1));
                                CU_ASSERT_TRUE(comes_back(coding, packed, text, sizes[j], 1, 4096));
                                CU_ASSERT_TRUE(comes_back(coding, packed, text, sizes[j], 1000, 7));
                                CU_ASSERT_TRUE(comes_back(coding, packed, text, sizes[j], packed.size, sizes[j] ? sizes[j] : 1));
                                free(text);
                                free(packed.data);
                        }
}

static void
members_of_gzip_follow_each_other(void)
{
        struct bytes one = pack("Hello, ", 7, GZIP, 6), other = pack("world", 5, GZIP, 6);
        struct bytes both = {malloc(one.size + other.size), one.size + other.size};

        memcpy(both.data, one.data, one.size);
        memcpy(both.data + one.size, other.data, other.size);
        for (size_t piece = 1; piece <= both.size; piece++)
                CU_ASSERT_TRUE(comes_back(WEIR__INFLATE_GZIP, both, "Hello, world", 12, piece, 5));
        free(one.data);
        free(other.data);
        free(both.data);
}

/* What is cut off, at any byte, is not the whole; damage, and anything behind the end, is refused. */
static void
damage_is_noticed(void)
{
        struct bytes packed = pack("Hello, world; hello, hello, world", 33, GZIP, 6), out;
        unsigned unnoticed = 0;

        for (size_t size = 0; size < packed.size; size++) {
                CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, packed.data, size, size + 1, 100, &out), -ECONNABORTED);
                free(out.data);
        }
        for (size_t at = 10; at < packed.size; at++) { /* the head has fields that mean nothing */
                packed.data[at] ^= 0x10;
                unnoticed += unpack(WEIR__INFLATE_GZIP, &usual, packed.data, packed.size, packed.size, 100, &out) == 0;
                free(out.data);
                packed.data[at] ^= 0x10;
        }
        CU_ASSERT_EQUAL(unnoticed, 0);
        packed.data = realloc(packed.data, packed.size + 3);
        memcpy(packed.data + packed.size, "xyz", 3);
        for (size_t piece = 1; piece <= packed.size + 3; piece++) {
                CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, packed.data, packed.size + 3, piece, 100, &out), -EBADMSG);
                free(out.data);
        }
        free(packed.data);
        packed = pack("Hello", 5, ZLIB, 6);
        packed.data = realloc(packed.data, packed.size + 1);
        packed.data[packed.size] = 'x';
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_DEFLATE, &usual, packed.data, packed.size + 1, 100, 100, &out), -EBADMSG);
        free(out.data);
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, packed.data, packed.size, 100, 100, &out), -EBADMSG);
        free(out.data);
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, "plain text", 10, 100, 100, &out), -EBADMSG);
        free(out.data);
        free(packed.data);
}

static void
the_limit_of_bytes_is_exact(void)
{
        char *text = text_of(5000);
        struct bytes packed = pack(text, 5000, GZIP, 6), out;
        struct weir__inflate_limits limits = {.max_size = 5000};

        for (size_t room = 1; room <= 6000; room += room < 10 ? 1 : 499) {
                limits.max_size = 5000;
                CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &limits, packed.data, packed.size, 100, room, &out), 0);
                CU_ASSERT_EQUAL(out.size, 5000);
                free(out.data);
                limits.max_size = 4999;
                CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &limits, packed.data, packed.size, 100, room, &out), -EMSGSIZE);
                CU_ASSERT(out.size <= 4999);
                free(out.data);
        }
        free(packed.data);
        free(text);
        packed = pack("", 0, GZIP, 6);
        limits.max_size = 0;
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &limits, packed.data, packed.size, 100, 10, &out), 0);
        free(out.data);
        free(packed.data);
}

/* 1 GB of zeros in 1 MB, and in members of that kind: it stops long before they are out. */
static void
a_bomb_goes_out(void)
{
        static char zeros[8 << 20];
        struct bytes packed = pack(zeros, sizeof zeros, GZIP, 9), out;
        struct weir__inflate_limits no_ratio = {.max_size = usual.max_size};

        CU_ASSERT(packed.size < 10000);
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, packed.data, packed.size, 512, 65536, &out), -EMSGSIZE);
        CU_ASSERT(out.size < (2 << 20));
        free(out.data);
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &no_ratio, packed.data, packed.size, 512, 65536, &out), 0);
        CU_ASSERT_EQUAL(out.size, sizeof zeros);
        free(out.data);
        free(packed.data);
        packed = pack(zeros, WEIR__INFLATE_FREE / 2, GZIP, 9); /* short texts may be as simple as they like */
        CU_ASSERT_EQUAL(unpack(WEIR__INFLATE_GZIP, &usual, packed.data, packed.size, 512, 65536, &out), 0);
        free(out.data);
        free(packed.data);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_format_comes_back_in_any_pieces),
                WEIR_TEST(members_of_gzip_follow_each_other),
                WEIR_TEST(damage_is_noticed),
                WEIR_TEST(the_limit_of_bytes_is_exact),
                WEIR_TEST(a_bomb_goes_out),
        };

        return weir_test_main("inflate", tests, sizeof tests / sizeof *tests);
}
