/* test/gzip_test.c: compressed bytes, the clients that get them, and the fields of such a response. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "protocol/coding/compress.h"
#include "protocol/coding/gzip.h"
#include "test/support.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof *(array))
#define LEAST             1024

/* -- bytes -- */

/* Unpacks all of it into memory of `size` bytes.  Returns whether it is one whole member of gzip, of just that size. */
static bool
unpack(const char *data, size_t data_size, char *out, size_t size)
{
        z_stream stream = {
                .next_in = (Bytef *)data, .avail_in = (uInt)data_size, .next_out = (Bytef *)out, .avail_out = (uInt)size};

        CU_ASSERT_EQUAL_FATAL(inflateInit2(&stream, 15 + 16), Z_OK);
        int result = inflate(&stream, Z_FINISH);
        bool is_whole = result == Z_STREAM_END && stream.avail_in == 0 && stream.total_out == size;
        inflateEnd(&stream);
        return is_whole;
}

static char *
text_of(size_t size)
{
        static const char words[] = "the quick brown fox jumps over the lazy dog and does it again; ";
        struct weir_test_random random = {weir_test_seed()};
        char *text = malloc(size + 1);

        for (size_t i = 0; i < size; i++) {
                text[i] = i % 7 ? words[(i + i / 97) % (sizeof words - 1)] : (char)('a' + weir_test_random_below(&random, 26));
        }
        text[size] = '\0';
        return text;
}

static void
compressed_data_come_back_whatever_their_size(void)
{
        static const size_t sizes[] = {400,  761,  762,   763,   1023,  1024,  1025,    2000,
                                       4096, 7930, 16122, 16123, 32768, 65536, 1000000, 5000000};

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                for (int level = 1; level <= WEIR__GZIP_LEVEL_MAX; level += 4) {
                        char *text = text_of(sizes[i]), *packed = malloc(sizes[i]), *back = malloc(sizes[i]);
                        size_t size = weir__gzip(text, sizes[i], level, packed);

                        CU_ASSERT(size > 0 && size < sizes[i]);
                        CU_ASSERT(unpack(packed, size, back, sizes[i]));
                        CU_ASSERT_EQUAL(memcmp(text, back, sizes[i]), 0);
                        free(text);
                        free(packed);
                        free(back);
                }
        }
}

static void
data_that_do_not_get_smaller_are_not_compressed(void)
{
        struct weir_test_random random = {weir_test_seed()};
        static const size_t sizes[] = {0, 1, 2, 3, 19, 20, 1000, 10000, 100000};

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                char *noise = malloc(sizes[i] + 1), *packed = malloc(sizes[i] + 1);

                for (size_t n = 0; n < sizes[i]; n++) {
                        noise[n] = (char)weir_test_random(&random);
                }
                packed[sizes[i]] = 'x';
                CU_ASSERT_EQUAL(weir__gzip(noise, sizes[i], 6, packed), 0);
                CU_ASSERT_EQUAL(packed[sizes[i]], 'x');
                free(noise);
                free(packed);
        }
}

static void
a_higher_level_is_smaller(void)
{
        char *text = text_of(200000), *packed = malloc(200000);

        CU_ASSERT(weir__gzip(text, 200000, 9, packed) < weir__gzip(text, 200000, 1, packed));
        free(text);
        free(packed);
}

static void
a_small_window_costs_no_bytes_worth_mentioning(void)
{
        for (size_t size = 1024; size <= 16384; size *= 2) {
                char *text = text_of(size), *packed = malloc(2 * size);
                uLongf whole = 2 * size;

                CU_ASSERT_EQUAL_FATAL(compress2((Bytef *)packed, &whole, (const Bytef *)text, size, 6), Z_OK);
                whole += 12; /* the frame of gzip for that of zlib */
                CU_ASSERT(weir__gzip(text, size, 6, packed) <= whole + whole / 50);
                free(text);
                free(packed);
        }
}

/* -- clients that accept it -- */

static struct weir__request *
request_of(const char *method, const char *fields)
{
        struct weir__request *request = NULL;
        char head[1024];
        int size = snprintf(head, sizeof head, "%s / HTTP/1.1\r\nHost: a\r\n%s\r\n", method, fields);

        CU_ASSERT_EQUAL_FATAL(weir__request_new(head, (size_t)size, 0, malloc, &request), 0);
        return request;
}

static void
clients_that_accept_gzip(void)
{
        static const struct {
                const char *fields;
                bool accepts;
        } table[] = {
                {"", false},
                {"Accept-Encoding:\r\n", false},
                {"Accept-Encoding: gzip\r\n", true},
                {"accept-encoding: GZip\r\n", true},
                {"Accept-Encoding: x-gzip\r\n", true},
                {"Accept-Encoding: gzip, deflate, br, zstd\r\n", true},
                {"Accept-Encoding: deflate , gzip\r\n", true},
                {"Accept-Encoding: deflate, br\r\n", false},
                {"Accept-Encoding: gzipped\r\n", false},
                {"Accept-Encoding: *\r\n", true},
                {"Accept-Encoding: *;q=0\r\n", false},
                {"Accept-Encoding: *;q=0, gzip\r\n", true},
                {"Accept-Encoding: *, gzip;q=0\r\n", false},
                {"Accept-Encoding: gzip;q=0\r\n", false},
                {"Accept-Encoding: gzip;q=0.0\r\n", false},
                {"Accept-Encoding: gzip;q=0.000\r\n", false},
                {"Accept-Encoding: gzip;q=0.001\r\n", true},
                {"Accept-Encoding: gzip;q=1\r\n", true},
                {"Accept-Encoding: gzip;q=1.000\r\n", true},
                {"Accept-Encoding: gzip;Q=0.5\r\n", true},
                {"Accept-Encoding: gzip ; q=0.5\r\n", true},
                {"Accept-Encoding: gzip\t;\tq=0\r\n", false},
                {"Accept-Encoding: gzip;q=1.001\r\n", false},
                {"Accept-Encoding: gzip;q=2\r\n", false},
                {"Accept-Encoding: gzip;q=\r\n", false},
                {"Accept-Encoding: gzip;q=0.0001\r\n", false},
                {"Accept-Encoding: gzip;q=x\r\n", false},
                {"Accept-Encoding: gzip;q=0x1\r\n", false},
                {"Accept-Encoding: gzip;q=-1\r\n", false},
                {"Accept-Encoding: gzip;\r\n", false},
                {"Accept-Encoding: gzip;level=1\r\n", false},
                {"Accept-Encoding: identity\r\n", false},
                {"Accept-Encoding: identity, gzip\r\n", true},
                {"Accept-Encoding: identity, gzip;q=0.9\r\n", false},
                {"Accept-Encoding: identity;q=0.5, gzip;q=0.9\r\n", true},
                {"Accept-Encoding: identity;q=0, *\r\n", true},
                {"Accept-Encoding: identity;q=1, *;q=0.5\r\n", false},
                {"Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", true},
                {"Accept-Encoding: gzip\r\nX: y\r\nAccept-Encoding: identity;q=0.5\r\n", true},
                {"Accept: gzip\r\n", false},
                {"TE: gzip\r\n", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct weir__request *request = request_of("GET", table[i].fields);

                if (weir__compress_accepts_gzip(request) != table[i].accepts) {
                        printf("\n  %s", table[i].fields);
                        CU_FAIL("accepts gzip, or not");
                }
                free(request);
        }
}

/* -- responses -- */

struct field {
        const char *name, *value;
};

static void
fill_response(struct weir__response *response, int status, size_t size, const struct field *fields)
{
        char *text = text_of(size);

        *response = (struct weir__response){.status = status};
        CU_ASSERT_EQUAL_FATAL(weir__response_append(response, text, size), 0);
        free(text);
        for (; fields->name; fields++) {
                CU_ASSERT_EQUAL_FATAL(weir__response_field(response, fields->name, fields->value, false), 0);
        }
}

static void
compress_for(struct weir__response *response, const char *method, const char *fields)
{
        struct weir__request *request = request_of(method, fields);

        weir__compress_response(response, request, 6, LEAST);
        free(request);
}

/* Whether the lines of its fields are these, and nothing else. */
static bool
fields_are(const struct weir__response *response, const char *expected)
{
        bool is_same = response->fields.size == strlen(expected) &&
                       memcmp(response->fields.data, expected, response->fields.size) == 0;

        if (!is_same) {
                printf("\n  %.*s", (int)response->fields.size, response->fields.data);
        }
        return is_same;
}

static bool
body_is_text(const struct weir__response *response, size_t size)
{
        char *text = text_of(size), *back = malloc(size);
        bool is_same = unpack(response->body, response->body_size, back, size) && memcmp(text, back, size) == 0;

        free(text);
        free(back);
        return is_same;
}

#define GZIP "Accept-Encoding: gzip\r\n"
#define TYPE                                                \
        {                                                   \
                "Content-Type", "text/plain; charset=utf-8" \
        }
#define LINE "Content-Type: text/plain; charset=utf-8\r\n"

static void
text_is_compressed_for_who_takes_it(void)
{
        struct weir__response response;
        fill_response(&response, 0, 3000, (struct field[]){TYPE, {NULL, NULL}});

        compress_for(&response, "GET", GZIP);
        CU_ASSERT(response.body_size < 3000);
        CU_ASSERT(body_is_text(&response, 3000));
        CU_ASSERT(fields_are(&response, LINE "Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n"));
        weir__response_done(&response);
}

static void
head_has_the_fields_of_get(void)
{
        struct weir__response get;
        fill_response(&get, 200, 3000, (struct field[]){TYPE, {"ETag", "\"a\""}, {NULL, NULL}});
        struct weir__response head;
        fill_response(&head, 200, 3000, (struct field[]){TYPE, {"ETag", "\"a\""}, {NULL, NULL}});

        compress_for(&get, "GET", GZIP);
        compress_for(&head, "HEAD", GZIP);
        CU_ASSERT_EQUAL(get.body_size, head.body_size);
        CU_ASSERT_EQUAL(get.fields.size, head.fields.size);
        CU_ASSERT_EQUAL(memcmp(get.fields.data, head.fields.data, get.fields.size), 0);
        weir__response_done(&get);
        weir__response_done(&head);
}

static void
a_client_that_does_not_take_it_gets_vary(void)
{
        struct weir__response response;
        fill_response(&response, 200, 3000, (struct field[]){TYPE, {"ETag", "\"a\""}, {NULL, NULL}});

        compress_for(&response, "GET", "");
        CU_ASSERT_EQUAL(response.body_size, 3000);
        CU_ASSERT(fields_are(&response, LINE "ETag: \"a\"\r\nVary: Accept-Encoding\r\n"));
        weir__response_done(&response);
}

static void
vary_is_merged_with_the_one_that_is_there(void)
{
        static const struct {
                struct field given[3];
                const char *expected;
        } table[] = {
                {{{"Vary", "Origin"}}, "Vary: Origin, Accept-Encoding\r\n"},
                {{{"vary", "Origin, Accept"}}, "vary: Origin, Accept, Accept-Encoding\r\n"},
                {{{"Vary", "accept-encoding"}}, "Vary: accept-encoding\r\n"},
                {{{"Vary", "Origin ,Accept-Encoding"}}, "Vary: Origin ,Accept-Encoding\r\n"},
                {{{"Vary", "*"}}, "Vary: *\r\n"},
                {{{"Vary", "Origin"}, {"Vary", "Accept-Encoding"}}, "Vary: Origin\r\nVary: Accept-Encoding\r\n"},
                {{{"Vary", "Origin"}, {"Vary", "Accept"}}, "Vary: Origin, Accept-Encoding\r\nVary: Accept\r\n"},
                {{{"Vary", "Accept-Encoding-2"}}, "Vary: Accept-Encoding-2, Accept-Encoding\r\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct weir__response response;
                fill_response(&response, 200, 3000, table[i].given);
                char expected[256];

                CU_ASSERT_EQUAL_FATAL(weir__response_field(&response, "Content-Type", "text/css", false), 0);
                compress_for(&response, "GET", GZIP);
                snprintf(expected, sizeof expected, "%sContent-Type: text/css\r\nContent-Encoding: gzip\r\n", table[i].expected);
                CU_ASSERT(fields_are(&response, expected));
                weir__response_done(&response);
        }
}

static void
a_strong_etag_becomes_a_weak_one(void)
{
        static const struct field etags[] = {
                {"\"abc\"", "W/\"abc\""}, {"W/\"abc\"", "W/\"abc\""}, {"\"\"", "W/\"\""}, {"abc", "abc"}, {"", ""}};

        for (size_t i = 0; i < ARRAY_SIZE(etags); i++) {
                struct weir__response response;
                fill_response(&response, 200, 3000, (struct field[]){{"ETag", etags[i].name}, TYPE, {NULL, NULL}});
                char expected[256];

                compress_for(&response, "GET", GZIP);
                snprintf(expected, sizeof expected, "ETag: %s\r\n" LINE "Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n",
                         etags[i].value);
                CU_ASSERT(fields_are(&response, expected));
                weir__response_done(&response);
        }
}

static void
which_types_are_compressed(void)
{
        static const struct {
                const char *type;
                bool is_compressed;
        } table[] = {
                {"text/html", true},
                {"Text/HTML ;charset=utf-8", true},
                {"text/css", true},
                {"text/event-stream", false},
                {"text/", false},
                {"text", false},
                {"application/json", true},
                {"application/javascript", true},
                {"application/xml;q", true},
                {"application/problem+json", true},
                {"image/svg+xml", true},
                {"+xml", false},
                {"application/wasm", true},
                {"application/octet-stream", false},
                {"application/zip", false},
                {"text/html; a=01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                 "012345678901234567890123456789012345678901234567890123456789",
                 true},
                {"application/jsonp", false},
                {"image/png", false},
                {"image/png; a=text/html", false},
                {"", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct weir__response response;
                fill_response(&response, 200, 3000, (struct field[]){{"Content-Type", table[i].type}, {NULL, NULL}});

                compress_for(&response, "GET", GZIP);
                if ((response.body_size < 3000) != table[i].is_compressed) {
                        printf("\n  %s", table[i].type);
                        CU_FAIL("compressed, or not");
                }
                CU_ASSERT_EQUAL(weir__response_has_field(&response, "Vary"), table[i].is_compressed);
                weir__response_done(&response);
        }
}

static void
replies_that_must_not_change_stay_uncompressed(void)
{
        static const struct {
                int status;
                size_t size;
                struct field fields[4];
        } table[] = {
                {204, 3000, {TYPE}},
                {205, 3000, {TYPE}},
                {206, 3000, {TYPE, {"Content-Range", "bytes 0-2999/5000"}}},
                {200, 3000, {TYPE, {"Content-Range", "bytes 0-2999/5000"}}},
                {304, 3000, {TYPE}},
                {404, 3000, {TYPE}},
                {500, 3000, {TYPE}},
                {200, LEAST - 1, {TYPE}},
                {200, 3000, {TYPE, {"Content-Encoding", "br"}}},
                {200, 3000, {TYPE, {"content-encoding", "identity"}}},
                {200, 3000, {TYPE, {"Cache-Control", "private, No-Transform"}}},
                {200, 3000, {{NULL, NULL}}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct weir__response response;
                fill_response(&response, table[i].status, table[i].size, table[i].fields);
                size_t fields_size = response.fields.size;

                compress_for(&response, "GET", GZIP);
                CU_ASSERT_EQUAL(response.body_size, table[i].size);
                CU_ASSERT_EQUAL(response.fields.size, fields_size);
                weir__response_done(&response);
        }
}

static void
the_least_size_is_compressed(void)
{
        struct weir__response response;
        fill_response(&response, 200, LEAST, (struct field[]){TYPE, {NULL, NULL}});

        compress_for(&response, "GET", GZIP);
        CU_ASSERT(body_is_text(&response, LEAST));
        weir__response_done(&response);
}

static void
a_body_that_does_not_get_smaller_goes_out_as_it_is(void)
{
        struct weir__response response;
        fill_response(&response, 200, 1, (struct field[]){TYPE, {"ETag", "\"a\""}, {NULL, NULL}});
        struct weir_test_random random = {weir_test_seed()};

        for (int i = 0; i < 1000; i++) {
                uint64_t noise = weir_test_random(&random);

                CU_ASSERT_EQUAL_FATAL(weir__response_append(&response, &noise, sizeof noise), 0);
        }
        compress_for(&response, "GET", GZIP);
        CU_ASSERT_EQUAL(response.body_size, 8001);
        CU_ASSERT(fields_are(&response, LINE "ETag: \"a\"\r\nVary: Accept-Encoding\r\n"));
        weir__response_done(&response);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(compressed_data_come_back_whatever_their_size),
                WEIR_TEST(data_that_do_not_get_smaller_are_not_compressed),
                WEIR_TEST(a_higher_level_is_smaller),
                WEIR_TEST(a_small_window_costs_no_bytes_worth_mentioning),
                WEIR_TEST(clients_that_accept_gzip),
                WEIR_TEST(text_is_compressed_for_who_takes_it),
                WEIR_TEST(head_has_the_fields_of_get),
                WEIR_TEST(a_client_that_does_not_take_it_gets_vary),
                WEIR_TEST(vary_is_merged_with_the_one_that_is_there),
                WEIR_TEST(a_strong_etag_becomes_a_weak_one),
                WEIR_TEST(which_types_are_compressed),
                WEIR_TEST(replies_that_must_not_change_stay_uncompressed),
                WEIR_TEST(the_least_size_is_compressed),
                WEIR_TEST(a_body_that_does_not_get_smaller_goes_out_as_it_is),
        };

        return weir_test_main("gzip", tests, sizeof tests / sizeof *tests);
}
