/* protocol/message/http_parser_backend.h: the only interface to the HTTP parser, so that another parser can replace it.
 *
 * Parses the complete head of one message, which the gate has passed, into slices of it.  No I/O, no allocation, no state between
 * calls, no state of the process changed. */
#ifndef WEIR_PROTOCOL_HTTP_PARSER_BACKEND_H
#define WEIR_PROTOCOL_HTTP_PARSER_BACKEND_H

#include <stddef.h>
#include <stdint.h>

struct weir__slice {
        uint32_t at, size; /* in the head given */
};

struct weir__parsed_field {
        struct weir__slice name, value; /* the value without the white space around it; an empty one is at the end of the name */
};

enum weir__message_kind { WEIR__MESSAGE_REQUEST, WEIR__MESSAGE_RESPONSE };

struct weir__parsed_head {
        struct weir__slice method, target; /* of a request */
        struct weir__slice reason;         /* of a response; it may be empty */
        unsigned status;                   /* of a response */
        unsigned minor;                    /* of HTTP/1.minor */
        uint32_t field_count;              /* of the head, also when there was not room for all */
        struct weir__parsed_field *fields; /* the caller's, with room for `field_room` */
        uint32_t field_room;
};

/* Fills `parsed`, in which the caller has set `fields` and `field_room`.
 *
 * Result: 0, or the HTTP status to refuse the head with: 400; 431 when only `fields` is too small or the head longer than
 *         WEIR__HEAD_MAX. */
int weir__http_parse_head(enum weir__message_kind kind, struct weir__parsed_head *parsed, const char *head, size_t size);

#endif
