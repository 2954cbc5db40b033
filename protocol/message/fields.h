/* protocol/message/fields.h: the fields of a head that was received: their strings, and what they say about the message.
 *
 * What requests and responses have in common.  Pure functions. */
#ifndef WEIR_PROTOCOL_FIELDS_H
#define WEIR_PROTOCOL_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message/http_parser_backend.h"
#include "protocol/text/bytes.h"

struct weir__field {
        const char *name, *value; /* NUL-terminated, OWS around the value removed, in the message's own memory */
};

/* malloc, or another like it. */
typedef void *weir__message_alloc(size_t size);

/* Parsers differ on lengths near the end of the range; http-parser refuses the last six. */
#define WEIR__CONTENT_LENGTH_MAX (UINT64_MAX - 15)

/* The fields that concern the message itself. */
struct weir__control {
        const struct weir__parsed_field *host, *keep_alive; /* the last of each */
        uint32_t hosts, lengths, codings;                   /* lines of Host, of Content-Length and of Transfer-Encoding */
        uint64_t length;                /* Content-Length; above WEIR__CONTENT_LENGTH_MAX for an invalid one */
        bool is_chunked;                /* Transfer-Encoding is chunked, without an empty member beside it */
        bool is_chunked_last;           /* the last member of Transfer-Encoding is chunked, and ... */
        bool is_chunked_before;         /* ... one before it is */
        bool has_other_coding;          /* any member that is not chunked */
        bool has_close, has_keep_alive; /* options of Connection */
        bool is_continue_expected;      /* in Expect, and ... */
        bool has_other_expectation;     /* ... anything else */
};

/* Fields that are parsed without a second allocation: on the stack, 4 KiB of it. */
#define WEIR__USUAL_FIELDS 256

/* Makes a string of a slice in a copy of the head: a NUL replaces the byte behind it, which is a SP, a colon, white space or a
 * CR. */
static inline const char *
weir__fields_terminate(char *head, struct weir__slice slice)
{
        head[slice.at + slice.size] = '\0';
        return head + slice.at;
}

/* -- inline: both readers of heads get a copy, which saves one percent of a request -- */

static inline void
weir__fields_read_length(struct weir__control *control, const char *value, size_t size)
{
        size_t digits = weir__bytes_number(value, size, &control->length);

        control->lengths++;
        if (digits == 0 || digits < size)
                control->length = UINT64_MAX;
}

static inline void
weir__fields_read_connection(struct weir__control *control, const char *option, size_t size)
{
        control->has_close |= WEIR__BYTES_ARE(option, size, "close");
        control->has_keep_alive |= WEIR__BYTES_ARE(option, size, "keep-alive");
}

static inline void
weir__fields_read_coding(struct weir__control *control, const char *coding, size_t size)
{
        control->is_chunked_before |= control->is_chunked_last;
        control->is_chunked_last = WEIR__BYTES_ARE(coding, size, "chunked");
        control->has_other_coding |= !control->is_chunked_last;
}

static inline void
weir__fields_read_expectation(struct weir__control *control, const char *expectation, size_t size)
{
        bool is_continue = WEIR__BYTES_ARE(expectation, size, "100-continue");

        control->is_continue_expected |= is_continue;
        control->has_other_expectation |= !is_continue;
}

static inline void
weir__fields_read_members(struct weir__control *control, const char *value, size_t size,
                          void (*read)(struct weir__control *control, const char *member, size_t member_size))
{
        const char *member;
        size_t member_size;

        while (weir__bytes_next_member(&value, &size, &member, &member_size))
                read(control, member, member_size);
}

/* Names usually come in this case: then one comparison of constant size is enough. */
static inline bool
weir__fields_is_name(const char *name, const char *usual, size_t size)
{
        return memcmp(name, usual, size) == 0 || weir__bytes_equal(name, usual, size);
}

static inline void
weir__fields_read_one(struct weir__control *control, const char *head, const struct weir__parsed_field *field)
{
        const char *name = head + field->name.at, *value = head + field->value.at;
        size_t size = field->value.size;

        switch (field->name.size) {
        case 4:
                if (weir__fields_is_name(name, "Host", 4)) {
                        control->host = field;
                        control->hosts++;
                }
                break;
        case 6:
                if (weir__fields_is_name(name, "Expect", 6))
                        weir__fields_read_members(control, value, size, weir__fields_read_expectation);
                break;
        case 10:
                if (weir__fields_is_name(name, "Connection", 10))
                        weir__fields_read_members(control, value, size, weir__fields_read_connection);
                else if ((name[0] | 0x20) == 'k' && weir__fields_is_name(name, "Keep-Alive", 10))
                        control->keep_alive = field;
                break;
        case 14:
                if (weir__fields_is_name(name, "Content-Length", 14))
                        weir__fields_read_length(control, value, size);
                break;
        case 17:
                if (weir__fields_is_name(name, "Transfer-Encoding", 17)) {
                        control->codings++;
                        control->is_chunked = WEIR__BYTES_ARE(value, size, "chunked");
                        weir__fields_read_members(control, value, size, weir__fields_read_coding);
                }
                break;
        default: break;
        }
}

/* Reads the control fields of a parsed head.  `control` is all zero before. */
static inline void
weir__fields_read_control(struct weir__control *control, const char *head, const struct weir__parsed_head *parsed)
{
        for (uint32_t i = 0; i < parsed->field_count; i++)
                weir__fields_read_one(control, head, &parsed->fields[i]);
}

/* Parses a head into slices, of which the caller has given room for WEIR__USUAL_FIELDS.  A longer head gets room of its own.
 *
 * Result: 0, or the HTTP status to refuse it with; 500 when out of memory.  *ret_more is that room, for the caller to free, or
 *         NULL. */
static inline int
weir__fields_parse(enum weir__message_kind kind, struct weir__parsed_head *parsed, const char *head, size_t size,
                   struct weir__parsed_field **ret_more)
{
        int r = weir__http_parse_head(kind, parsed, head, size);

        *ret_more = NULL;
        if (r != 431 || parsed->field_count <= parsed->field_room)
                return r;
        *ret_more = calloc(parsed->field_count, sizeof **ret_more);
        if (!*ret_more)
                return 500;
        parsed->fields = *ret_more;
        parsed->field_room = parsed->field_count;
        return weir__http_parse_head(kind, parsed, head, size);
}

/* Makes strings of all fields. */
static inline void
weir__fields_fill(struct weir__field *fields, char *head, const struct weir__parsed_head *parsed)
{
        for (uint32_t i = 0; i < parsed->field_count; i++) {
                fields[i].name = weir__fields_terminate(head, parsed->fields[i].name);
                fields[i].value = weir__fields_terminate(head, parsed->fields[i].value);
        }
}

/* -- fields.c -- */

/* The value of the next field of that name, compared without case; NULL when none is left.  *at is 0 before the first call. */
const char *weir__fields_next(const struct weir__field *fields, uint32_t count, const char *name, uint32_t *at);

#endif
