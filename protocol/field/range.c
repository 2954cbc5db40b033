/* protocol/field/range.c: the Range field of a request.
 *
 * Threads: any; pure functions.  No locks. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/field/range.h"

/* One member of the set: "first-", "first-last" or "-last". */
struct spec {
        uint64_t first, last;
        bool has_first;
};

static bool
read_spec(const char *text, size_t size, struct spec *spec)
{
        size_t digits = weir__bytes_number(text, size, &spec->first), last_digits;

        if (digits == size || text[digits] != '-')
                return false;
        last_digits = weir__bytes_number(text + digits + 1, size - digits - 1, &spec->last);
        spec->has_first = digits > 0;
        if (last_digits == 0)
                spec->last = UINT64_MAX;
        return digits + 1 + last_digits == size && (spec->has_first ? spec->first <= spec->last : last_digits > 0);
}

/* The last bytes, as many as are wanted. */
static enum weir__range_kind
select_last(uint64_t wanted, uint64_t size, struct weir__range *range)
{
        if (wanted == 0)
                return WEIR__RANGE_UNSATISFIABLE;
        if (size == 0)
                return WEIR__RANGE_NONE;
        range->size = wanted < size ? wanted : size;
        range->at = size - range->size;
        return WEIR__RANGE_PART;
}

static enum weir__range_kind
select_bytes(const struct spec *spec, uint64_t size, struct weir__range *range)
{
        if (!spec->has_first)
                return select_last(spec->last, size, range);
        if (spec->first >= size)
                return WEIR__RANGE_UNSATISFIABLE;
        range->at = spec->first;
        range->size = (spec->last < size ? spec->last + 1 : size) - spec->first;
        return WEIR__RANGE_PART;
}

enum weir__range_kind
weir__range_read(const char *field, uint64_t size, struct weir__range *range)
{
        static const char unit[] = "bytes=";
        const char *member;
        size_t left = field ? strlen(field) : 0, member_size;
        struct spec spec;

        *range = (struct weir__range){.at = 0, .size = size};
        if (left < sizeof unit || !weir__bytes_equal(field, unit, sizeof unit - 1))
                return WEIR__RANGE_NONE;
        field += sizeof unit - 1;
        left -= sizeof unit - 1;
        if (!weir__bytes_next_member(&field, &left, &member, &member_size) || !read_spec(member, member_size, &spec) ||
            weir__bytes_next_member(&field, &left, &member, &member_size))
                return WEIR__RANGE_NONE;
        return select_bytes(&spec, size, range);
}

void
weir__range_print(char out[WEIR__CONTENT_RANGE_SIZE], const struct weir__range *range, uint64_t size)
{
        if (range)
                snprintf(out, WEIR__CONTENT_RANGE_SIZE, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->at,
                         range->at + range->size - 1, size);
        else
                snprintf(out, WEIR__CONTENT_RANGE_SIZE, "bytes */%" PRIu64, size);
}
