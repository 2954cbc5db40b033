/* protocol/route/pattern.h: segments of paths, and patterns for them, taken apart.  Pure functions; nothing is copied. */
#ifndef WEIR_PROTOCOL_PATTERN_H
#define WEIR_PROTOCOL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most segments that a pattern may have: a mask has a bit for each. */
#define WEIR__PATTERN_SEGMENTS 64

struct weir__segment {
        const char *text;     /* as it came */
        size_t size, decoded; /* its bytes, as they came and percent-decoded */
        uint64_t hash;        /* of the decoded bytes */
        bool is_last;
};

/* Reads the segment that begins at `text`: up to a slash or the end of the path.  The escapes must be valid. */
void weir__segment_read(struct weir__segment *segment, const char *text, const char *end);

/* Whether it is, decoded, that text. */
bool weir__segment_is(const struct weir__segment *segment, const char *text, size_t size);

/* A pattern of weir/http_router.h.  Without a segment: "*". */
struct weir__pattern {
        uint64_t parameters;
        unsigned count; /* of the segments */
        bool is_prefix;
        const char *expected;                          /* what was expected, if the text is no pattern; or NULL */
        size_t names_size;                             /* of all names, with a NUL each */
        struct weir__segment segments[WEIR__PATTERN_SEGMENTS]; /* of a parameter: its name */
};

/* Result: 0; -EINVAL for a text that is no pattern. */
int weir__pattern_read(struct weir__pattern *pattern, const char *text);

#endif
