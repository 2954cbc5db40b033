/* test/chunked_fixture.h: for suites about chunked bodies: decodes bytes in any pieces and returns the result. */
#ifndef WEIR_TEST_CHUNKED_FIXTURE_H
#define WEIR_TEST_CHUNKED_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "protocol/message/chunked.h"
#include "test/support.h"

#define MAX_EXTENSIONS 100
#define MAX_TRAILERS   200
#define MAX_FIELDS     4

static const struct weir__chunked_limits usual = {
        .max_extensions = MAX_EXTENSIONS, .max_trailers = MAX_TRAILERS, .max_trailer_fields = MAX_FIELDS};

/* The result of decoding some bytes. */
struct outcome {
        int verdict;
        size_t used, payload_size;
        char *payload;
};

/* Gives `size` bytes at `data` to the decoder, in memory of their own, so that a sanitizer sees an access beyond the end.
 * Returns whether the call kept its promises. */
static inline bool feed(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, const char *data, size_t size,
                        struct outcome *outcome)
{
        char *copy = malloc(size + (size == 0));
        size_t used = SIZE_MAX, payload = SIZE_MAX;
        bool is_right;

        if (size > 0) {
                memcpy(copy, data, size);
        }
        outcome->verdict = weir__chunked_feed(chunked, limits, copy, size, &used, &payload);
        is_right = used <= size && payload <= used && (outcome->verdict != WEIR__CHUNKED_MORE || used == size) &&
                   memcmp(copy + used, data + used, size - used) == 0;
        if (is_right && payload > 0) {
                memcpy(outcome->payload + outcome->payload_size, copy, payload);
        }
        if (is_right) {
                outcome->payload_size += payload;
                outcome->used += used;
        }
        free(copy);
        return is_right;
}

/* In two pieces.  `outcome->payload` has room for `size` bytes, here and below. */
static inline bool decode_in_two(const struct weir__chunked_limits *limits, const char *data, size_t size, size_t cut,
                                 struct outcome *outcome)
{
        struct weir__chunked chunked = {.left = 0};

        *outcome = (struct outcome){.payload = outcome->payload};
        return feed(&chunked, limits, data, cut, outcome) &&
               (outcome->verdict != WEIR__CHUNKED_MORE || feed(&chunked, limits, data + cut, size - cut, outcome));
}

/* In random pieces of at most `piece` bytes, some of them empty; byte by byte when that is 1. */
static inline bool decode_in_pieces(const struct weir__chunked_limits *limits, const char *data, size_t size, size_t piece,
                                    struct weir_test_random *random, struct outcome *outcome)
{
        struct weir__chunked chunked = {.left = 0};

        *outcome = (struct outcome){.payload = outcome->payload};
        for (size_t at = 0; at < size && outcome->verdict == WEIR__CHUNKED_MORE;) {
                size_t next = piece == 1 ? 1 : weir_test_random_below(random, piece + 1);

                next = next < size - at ? next : size - at;
                if (!feed(&chunked, limits, data + at, next, outcome)) {
                        return false;
                }
                at += next;
        }
        return true;
}

static inline bool same(const struct outcome *one, const struct outcome *other)
{
        return one->verdict == other->verdict && one->used == other->used && one->payload_size == other->payload_size &&
               memcmp(one->payload, other->payload, one->payload_size) == 0;
}

#endif
