/* protocol/message/http_parser_backend.c: the only file that knows http-parser (2.9.4).
 *
 * The parser runs once over the whole head, which ends with the empty line.  So it never sees bytes of a body.  It only divides
 * the head: protocol/message/fields.c reads framing and Connection, because the parser misreads them.  It does not accept HTAB
 * around Content-Length and Transfer-Encoding, it takes a name that begins with "Transfer-Encoding" for that field, it reads
 * Proxy-Connection as Connection, and it stops after an Upgrade.
 *
 * Threads: any; the state is on the stack.  No locks. */
#include <string.h>

#include <http_parser.h>

#include "protocol/text/bytes.h"
#include "protocol/message/gate.h"
#include "protocol/message/http_parser_backend.h"

/* The parser counts the bytes of a head, in `nread`, against one limit for the whole process: 80 KiB unless somebody has set
 * another one.  Our limits are a server's own, kept by the gate.  So a long head goes to the parser in pieces, each counted from
 * 0, and the limit of the process stays as it is.  Raising the limit would take it away from other users of the parser, and
 * another library could set it back.  Only a limit below this size has an effect: a 431. */
#define HEAD_PIECE ((size_t)4096) /* bytes */

/* The parser's mark for a field that has no meaning to it. */
#define GENERAL_FIELD 0 /* h_general of http_parser.c */

struct parse {
        struct weir__parsed_head *parsed;
        const char *head;
        bool has_value;                 /* of the field that is being read: the next name begins another field */
        bool is_complete;               /* the empty line was read */
        struct weir__slice name, value; /* of the field that is being read */
};

/* Extends the slice to the end of the `size` bytes at `at`, which follow it directly. */
static inline void
extend(struct weir__slice *slice, const struct parse *parse, const char *at, size_t size)
{
        uint32_t begin = (uint32_t)(at - parse->head);

        if (slice->size == 0)
                slice->at = begin;
        slice->size = begin + (uint32_t)size - slice->at;
}

static inline void
finish_field(struct parse *parse)
{
        struct weir__parsed_head *parsed = parse->parsed;

        if (!parse->has_value)
                return;
        if (parsed->field_count < parsed->field_room) {
                const char *value = parse->head + parse->value.at;
                size_t size = parse->value.size;

                weir__bytes_trim(&value, &size);
                parsed->fields[parsed->field_count] = (struct weir__parsed_field){
                        .name = parse->name,
                        .value = {size ? (uint32_t)(value - parse->head) : parse->name.at + parse->name.size, (uint32_t)size},
                };
        }
        parsed->field_count++;
        parse->name.size = parse->value.size = 0;
        parse->has_value = false;
}

static int
on_target(http_parser *parser, const char *at, size_t size)
{
        struct parse *parse = parser->data;

        extend(&parse->parsed->target, parse, at, size);
        return 0;
}

static int
on_reason(http_parser *parser, const char *at, size_t size)
{
        struct parse *parse = parser->data;

        extend(&parse->parsed->reason, parse, at, size);
        return 0;
}

static int
on_name(http_parser *parser, const char *at, size_t size)
{
        struct parse *parse = parser->data;

        finish_field(parse);
        extend(&parse->name, parse, at, size);
        parser->header_state = GENERAL_FIELD;
        parser->uses_transfer_encoding = 0;
        return 0;
}

static int
on_value(http_parser *parser, const char *at, size_t size)
{
        struct parse *parse = parser->data;

        extend(&parse->value, parse, at, size);
        parse->has_value = true;
        return 0;
}

static int
on_complete(http_parser *parser)
{
        struct parse *parse = parser->data;

        finish_field(parse);
        parse->parsed->minor = parser->http_minor;
        parse->parsed->status = parser->status_code;
        parse->is_complete = true;
        return 0;
}

static const http_parser_settings settings = {
        .on_url = on_target,
        .on_status = on_reason,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_complete,
};

int
weir__http_parse_head(enum weir__message_kind kind, struct weir__parsed_head *parsed, const char *head, size_t size)
{
        bool is_request = kind == WEIR__MESSAGE_REQUEST;
        uint32_t begin = is_request && size > 0 && head[0] == '\r' ? 2 : 0; /* behind the empty line */
        struct parse parse = {.parsed = parsed, .head = head};
        enum http_errno error = HPE_OK;
        http_parser parser;

        if (size > WEIR__HEAD_MAX)
                return 431;
        http_parser_init(&parser, is_request ? HTTP_REQUEST : HTTP_RESPONSE);
        parser.data = &parse;
        parsed->target = parsed->reason = (struct weir__slice){0, 0};
        parsed->field_count = 0;
        for (size_t at = 0, piece; at < size && error == HPE_OK; at += piece) {
                piece = size - at < HEAD_PIECE ? size - at : HEAD_PIECE;
                parser.nread = 0;
                http_parser_execute(&parser, &settings, head + at, piece);
                error = HTTP_PARSER_ERRNO(&parser);
        }
        if (error != HPE_OK || !parse.is_complete || (is_request && parsed->target.at <= begin))
                return error == HPE_HEADER_OVERFLOW ? 431 : 400;
        if (is_request)
                parsed->method = (struct weir__slice){begin, parsed->target.at - 1 - begin};
        return parsed->field_count > parsed->field_room ? 431 : 0;
}
