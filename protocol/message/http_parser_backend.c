/* protocol/message/http_parser_backend.c: the only file that knows http-parser (2.9.4).
 *
 * The parser runs once over the whole head, which ends with the empty line.  So it never sees bytes of a body.  It stops after an
 * Upgrade, but the head ends there anyway.  Its result for Connection is not used: it reads Proxy-Connection as Connection, and
 * misses an option with a HTAB behind it.
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
#define PIECE ((size_t)4096)

struct parse {
        struct weir__parsed_head *parsed;
        const char *head;
        const char *piece;              /* what the parser reads just now, and ... */
        uint32_t offset;                /* ... where that is in the head */
        bool has_value;                 /* of the field that is being read: the next name begins another field */
        bool complete;                  /* the empty line was read */
        struct weir__slice name, value; /* of the field that is being read */
};

/* Extends the slice to the end of the `size` bytes at `at`, which follow it directly. */
static inline void
extend(struct weir__slice *slice, const struct parse *parse, const char *at, size_t size)
{
        uint32_t begin = (uint32_t)(at - parse->piece) + parse->offset;

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
on_name(http_parser *parser, const char *at, size_t size)
{
        struct parse *parse = parser->data;

        finish_field(parse);
        extend(&parse->name, parse, at, size);
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
        parse->parsed->chunked = (parser->flags & F_CHUNKED) != 0;
        parse->parsed->content_length = parser->content_length;
        parse->complete = true;
        return 0;
}

static const http_parser_settings settings = {
        .on_url = on_target,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_complete,
};

/* Whether a field name begins here that the parser would take for Transfer-Encoding although it is longer: the parser does not
 * look at the bytes behind.  The head ends `left` bytes behind `at`. */
static bool
is_mistaken(const char *at, size_t left)
{
        static const char coding[] = "transfer-encoding";

        return at[-1] == '\n' && left > sizeof coding && weir__bytes_equal(at, coding, sizeof coding - 1) &&
               at[sizeof coding - 1] != ':';
}

/* The piece of the head at `offset`, which has `*size` bytes at most.  With `plainly`, each HTAB is replaced by a SP, and a name
 * that the parser could mistake is altered. */
static const char *
next_piece(const char *head, size_t offset, size_t *size, bool plainly)
{
        const char *piece = head + offset;
        size_t left = *size, at = 0;

        *size = left < PIECE ? left : PIECE;
        if (!plainly)
                return piece;
        while (at < *size && piece[at] != '\t' && (offset + at == 0 || !is_mistaken(piece + at, left - at)))
                at++;
        if (at > 0) {
                *size = at;
                return piece;
        }
        *size = 1;
        return *piece == '\t' ? " " : "x";
}

static enum http_errno
run(struct weir__parsed_head *parsed, const char *head, size_t size, bool plainly)
{
        struct parse parse = {.parsed = parsed, .head = head};
        http_parser parser;
        size_t offset, length;

        http_parser_init(&parser, HTTP_REQUEST);
        parser.data = &parse;
        parsed->target = (struct weir__slice){0, 0};
        parsed->field_count = 0;
        for (offset = 0; offset < size; offset += length) {
                length = size - offset;
                parse.piece = next_piece(head, offset, &length, plainly);
                parse.offset = (uint32_t)offset;
                parser.nread = 0;
                if (http_parser_execute(&parser, &settings, parse.piece, length) != length)
                        break;
        }
        if (HTTP_PARSER_ERRNO(&parser) == HPE_OK && (offset < size || !parse.complete))
                return HPE_INVALID_EOF_STATE; /* the gate and the parser do not agree on where the head ends */
        return HTTP_PARSER_ERRNO(&parser);
}

/* Whether the parser may have refused a valid head.  It does not accept HTAB as white space around the values of Content-Length
 * and Transfer-Encoding.  It takes each name that begins with "Transfer-Encoding" for that field. */
static bool
may_be_wrong(enum http_errno error)
{
        return error == HPE_INVALID_CONTENT_LENGTH || error == HPE_INVALID_TRANSFER_ENCODING ||
               error == HPE_UNEXPECTED_CONTENT_LENGTH;
}

int
weir__http_parse_head(struct weir__parsed_head *parsed, const char *head, size_t size)
{
        uint32_t begin = size > 0 && head[0] == '\r' ? 2 : 0; /* behind the empty line */
        enum http_errno error;

        if (size > WEIR__HEAD_MAX)
                return 431;
        error = run(parsed, head, size, false);
        if (may_be_wrong(error))
                error = run(parsed, head, size, true);
        if (error != HPE_OK || parsed->target.at <= begin)
                return error == HPE_HEADER_OVERFLOW ? 431 : 400;
        parsed->method = (struct weir__slice){begin, parsed->target.at - 1 - begin};
        return parsed->field_count > parsed->field_room ? 431 : 0;
}
