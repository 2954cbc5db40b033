/* protocol/route/pattern.c: segments of paths, and patterns for them.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/route/pattern.h"
#include "protocol/route/target.h"

static const char whole_segment[] = "braces only around a whole segment, as {name} or {name...}";
static const char too_many[] = "64 segments at most";

_Static_assert(WEIR__PATTERN_SEGMENTS == 64, "as the text says");

static char
next_byte(const char **text)
{
        char byte = **text;

        if (byte != '%') {
                ++*text;
                return byte;
        }
        weir__path_decode(&byte, *text, 3);
        *text += 3;
        return byte;
}

/* The hash is FNV-1a. */
void
weir__segment_read(struct weir__segment *segment, const char *text, const char *end)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        const char *at = text;
        size_t decoded = 0;

        for (; at < end && *at != '/'; decoded++)
                hash = (hash ^ (unsigned char)next_byte(&at)) * UINT64_C(0x100000001b3);
        *segment = (struct weir__segment){
                .text = text, .size = (size_t)(at - text), .decoded = decoded, .hash = hash, .is_last = at == end};
}

bool
weir__segment_is(const struct weir__segment *segment, const char *text, size_t size)
{
        const char *at = segment->text;

        if (segment->decoded != size || segment->size == size)
                return segment->decoded == size && memcmp(at, text, size) == 0;
        for (size_t i = 0; i < size; i++)
                if (next_byte(&at) != text[i])
                        return false;
        return true;
}

/* Whether all escapes are valid, and all other bytes may be in a path. */
static bool
is_text(const char *text)
{
        for (; *text; text++) {
                unsigned char byte = (unsigned char)*text;

                if (byte < ' ' || byte == 127 || byte == '?' || byte == '#')
                        return false;
                if (byte == '%' && (!weir__bytes_are_escape(text, 3) || (text[1] == '0' && text[2] == '0')))
                        return false;
        }
        return true;
}

static bool
is_name(const char *name, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                char lower = (char)(name[i] | 0x20);
                bool is_letter = (lower >= 'a' && lower <= 'z') || name[i] == '_';

                if (!is_letter && (i == 0 || !weir__byte_is(name[i], WEIR__BYTE_DIGIT)))
                        return false;
        }
        return size > 0;
}

static bool
has_name(const struct weir__pattern *pattern, const struct weir__segment *name)
{
        for (unsigned i = 0; i < pattern->count; i++) {
                const struct weir__segment *other = &pattern->segments[i];

                if (pattern->parameters >> i & 1 && other->size == name->size && memcmp(other->text, name->text, name->size) == 0)
                        return true;
        }
        return false;
}

/* Reads "{name}" or "{name...}", leaves the name.  Returns NULL, or what was expected. */
static const char *
read_parameter(struct weir__pattern *pattern, struct weir__segment *segment)
{
        if (segment->size < 2 || segment->text[segment->size - 1] != '}')
                return whole_segment;
        segment->text++;
        segment->size -= 2;
        if (segment->size > 3 && memcmp(segment->text + segment->size - 3, "...", 3) == 0) {
                segment->size -= 3;
                pattern->is_prefix = true;
        }
        if (!is_name(segment->text, segment->size))
                return "a name of letters, digits and underscores within {}, which does not begin with a digit";
        if (has_name(pattern, segment))
                return "each name once";
        if (pattern->is_prefix && !segment->is_last)
                return "{name...} only at the end";
        pattern->parameters |= UINT64_C(1) << pattern->count;
        pattern->names_size += segment->size + 1;
        return NULL;
}

/* Returns NULL, or what was expected. */
static const char *
check_literal(const struct weir__segment *segment)
{
        if (segment->size == 0 && !segment->is_last)
                return "no empty segment before the last one";
        return memchr(segment->text, '{', segment->size) || memchr(segment->text, '}', segment->size) ? whole_segment : NULL;
}

static const char *
read_segments(struct weir__pattern *pattern, const char *at)
{
        const char *end = at + strlen(at), *expected = NULL;

        for (; at < end && !expected; pattern->count++) {
                if (pattern->count == WEIR__PATTERN_SEGMENTS)
                        return too_many;
                struct weir__segment *segment = &pattern->segments[pattern->count];
                weir__segment_read(segment, at + 1, end);
                at = segment->text + segment->size;
                bool is_parameter = segment->size > 0 && segment->text[0] == '{';
                expected = is_parameter ? read_parameter(pattern, segment) : check_literal(segment);
        }
        return expected;
}

int
weir__pattern_read(struct weir__pattern *pattern, const char *text)
{
        pattern->parameters = 0;
        pattern->count = 0;
        pattern->names_size = 0;
        pattern->is_prefix = false;
        pattern->expected = NULL;
        if (strcmp(text, "*") == 0)
                return 0;
        if (text[0] != '/')
                pattern->expected = "a slash at the beginning";
        else if (!is_text(text))
                pattern->expected = "no '?', no '#', no control byte, and only valid escapes other than %00";
        else
                pattern->expected = read_segments(pattern, text);
        return pattern->expected ? -EINVAL : 0;
}
