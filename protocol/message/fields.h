/* protocol/message/fields.h: the fields of a head that was received: their strings, and what they say about the message.
 *
 * What requests and responses have in common.  Pure functions. */
#ifndef WEIR_PROTOCOL_FIELDS_H
#define WEIR_PROTOCOL_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message/http_parser_backend.h"

struct weir__field {
        const char *name, *value; /* NUL-terminated, OWS around the value removed, in the message's own memory */
};

/* malloc, or another like it. */
typedef void *weir__message_alloc(size_t size);

/* Parsers differ on lengths near the end of the range; http-parser refuses the last six. */
#define WEIR__CONTENT_LENGTH_MAX (UINT64_MAX - 15)

/* The fields that concern the message itself. */
struct weir__control {
        const struct weir__parsed_field *host;
        uint32_t hosts, lengths, codings; /* lines of Host, of Content-Length and of Transfer-Encoding */
        uint64_t length;                  /* Content-Length; above WEIR__CONTENT_LENGTH_MAX for an invalid one */
        bool is_chunked;                  /* Transfer-Encoding is chunked, without an empty member beside it */
        bool is_chunked_last;             /* the last member of Transfer-Encoding is chunked, and ... */
        bool is_chunked_before;           /* ... one before it is */
        bool has_other_coding;            /* any member that is not chunked */
        bool has_close, has_keep_alive;   /* options of Connection */
        bool is_continue_expected;        /* in Expect, and ... */
        bool has_other_expectation;       /* ... anything else */
};

/* Fields that are parsed without a second allocation: on the stack, 4 KiB of it. */
#define WEIR__USUAL_FIELDS 256

/* Parses a head into slices, of which the caller has given room for WEIR__USUAL_FIELDS.  A longer head gets room of its own.
 *
 * Result: 0, or the HTTP status to refuse it with; 500 when out of memory.  *ret_more is that room, for the caller to free, or
 *         NULL. */
int weir__fields_parse(enum weir__message_kind kind, struct weir__parsed_head *parsed, const char *head, size_t size,
                       struct weir__parsed_field **ret_more);

/* Reads the control fields of a parsed head.  `control` is all zero before. */
void weir__fields_read_control(struct weir__control *control, const char *head, const struct weir__parsed_head *parsed);

/* Makes a string of a slice in a copy of the head: a NUL replaces the byte behind it, which is a SP, a colon, white space or a
 * CR. */
static inline const char *
weir__fields_terminate(char *head, struct weir__slice slice)
{
        head[slice.at + slice.size] = '\0';
        return head + slice.at;
}

/* Makes strings of all fields. */
void weir__fields_fill(struct weir__field *fields, char *head, const struct weir__parsed_head *parsed);

/* The value of the next field of that name, compared without case; NULL when none is left.  *at is 0 before the first call. */
const char *weir__fields_next(const struct weir__field *fields, uint32_t count, const char *name, uint32_t *at);

#endif
