/* protocol/message/chunked.c: the chunked coding of a request's body, decoded where it lies.
 *
 *      SIZE --CR LF, not 0--> DATA --CR LF--> SIZE
 *      SIZE --CR LF, 0------> LINE --CR--> END_LF --LF--> the body is complete
 *      LINE ----> FIELD_NAME --":"--> FIELD_VALUE --CR LF--> LINE                 the trailer section
 *
 *      SIZE --";"--> BEFORE_NAME --> NAME --"="--> BEFORE_VALUE --> VALUE, or '"' QUOTED '"'      extensions
 *      and from the end of a name or of a value: --";"--> BEFORE_NAME, --CR LF--> as from SIZE
 *
 * Each state accepts the bytes on its arrows and its own class.  Any other byte is a 400 at its position.
 *
 * Extensions and trailers are checked and dropped.  A trailer is never merged into the head, because it could contradict what the
 * server has already acted on.  For that reason the two fields that frame a message are refused as trailers.
 *
 * White space in extensions (BWS in the grammar) is accepted around "=", behind ";", and before the second and later ";".  It is
 * refused directly behind the size: recipients differ on where the size ends then, no client sends it, and the grammar before RFC
 * 9112 did not have it.
 *
 * Source: RFC 9112 section 7.1; RFC 9110 sections 5.6.3 (BWS), 5.6.4 (quoted-string) and 6.5.1 (trailers); RFC 6585 section 5
 *         for 431, since a trailer is a field like one of the head.
 *
 * Threads: a decoder belongs to the owner of its connection.  No locks. */
#include <stdbool.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/message/chunked.h"

enum state {
        SIZE,
        BEFORE_NAME, /* white space, then the first byte of an extension's name */
        NAME,
        BEHIND_NAME,  /* white space, then "=" or ";" */
        BEFORE_VALUE, /* white space, then the first byte of a value */
        VALUE,
        QUOTED,
        ESCAPED,      /* the byte behind a backslash in a quoted string */
        BEHIND_QUOTE, /* the byte behind a quoted string */
        BEHIND_VALUE, /* white space, then ";" */
        SIZE_LF,
        DATA,
        DATA_CR,
        DATA_LF,
        LINE, /* the first byte of a line of the trailer section */
        FIELD_NAME,
        FIELD_VALUE,
        FIELD_LF,
        END_LF,
        WRONG, /* where no byte may lead */
};

/* More digits than these are valid only as leading zeros.  They count against the limit on extensions, so that they end. */
#define FREE_DIGITS 16

/* Names that a trailer must not have.  Source: RFC 9110 section 6.5.1, on fields that frame the message. */
static const char forbidden[][18] = {"content-length", "transfer-encoding"};

#define FORBIDDEN (sizeof forbidden / sizeof *forbidden)

/* Counts one more, unless `max` are counted already.  Returns whether it did. */
static inline bool
count(uint32_t *counter, size_t max)
{
        if (*counter >= max)
                return false;
        *counter += *counter < UINT32_MAX;
        return true;
}

static inline int
enter(struct weir__chunked *chunked, enum state state)
{
        chunked->state = (uint8_t)state;
        return WEIR__CHUNKED_MORE;
}

static inline int
expect(struct weir__chunked *chunked, char byte, char expected, enum state next)
{
        return byte == expected ? enter(chunked, next) : 400;
}

/* The state behind an extension's name or value, for a `byte` that does not belong to it. */
static inline enum state
behind(char byte, enum state behind_space)
{
        return byte == '\r' ? SIZE_LF : byte == ';' ? BEFORE_NAME : weir__byte_is_space(byte) ? behind_space : WRONG;
}

/* The state that `byte` leads to from `state`, which is SIZE or one of the extensions'. */
static enum state
next_in_extension(enum state state, char byte)
{
        bool is_token = weir__byte_is(byte, WEIR__BYTE_TOKEN);

        switch (state) {
        case SIZE: return behind(byte, WRONG);
        case BEFORE_NAME: return is_token ? NAME : weir__byte_is_space(byte) ? BEFORE_NAME : WRONG;
        case NAME: return is_token ? NAME : byte == '=' ? BEFORE_VALUE : behind(byte, BEHIND_NAME);
        case BEHIND_NAME: return byte == '=' ? BEFORE_VALUE : byte == '\r' ? WRONG : behind(byte, BEHIND_NAME);
        case BEFORE_VALUE: return is_token ? VALUE : byte == '"' ? QUOTED : weir__byte_is_space(byte) ? BEFORE_VALUE : WRONG;
        case VALUE: return is_token ? VALUE : behind(byte, BEHIND_VALUE);
        case ESCAPED: return weir__byte_is(byte, WEIR__BYTE_VALUE) ? QUOTED : WRONG;
        case BEHIND_QUOTE: return behind(byte, BEHIND_VALUE);
        case BEHIND_VALUE: return byte == '\r' ? WRONG : behind(byte, BEHIND_VALUE);
        default: /* QUOTED */
                if (byte == '"' || byte == '\\')
                        return byte == '"' ? BEHIND_QUOTE : ESCAPED;
                return weir__byte_is(byte, WEIR__BYTE_VALUE) ? QUOTED : WRONG;
        }
}

static int
read_extension(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char byte)
{
        enum state next = next_in_extension(chunked->state, byte);

        if (next == WRONG)
                return 400;
        if (next != SIZE_LF && !count(&chunked->extensions, limits->max_extensions))
                return 413;
        return enter(chunked, next);
}

/* A size is below 2^63, so that its sum with the bytes in memory cannot overflow. */
static int
read_size(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char byte)
{
        if (!weir__byte_is(byte, WEIR__BYTE_HEX))
                return chunked->length > 0 ? read_extension(chunked, limits, byte) : 400;
        if (chunked->left >> 59)
                return 400;
        if (chunked->length < FREE_DIGITS)
                chunked->length++;
        else if (!count(&chunked->extensions, limits->max_extensions))
                return 413;
        chunked->left = chunked->left << 4 | (uint64_t)((byte & 0xf) + (byte > '9' ? 9 : 0));
        return WEIR__CHUNKED_MORE;
}

/* Takes one more byte of a trailer's name, and drops the forbidden names that it rules out. */
static void
rule_out(struct weir__chunked *chunked, char byte)
{
        for (unsigned i = 0; i < FORBIDDEN; i++)
                if (chunked->candidates & 1U << i && !weir__bytes_equal(&byte, &forbidden[i][chunked->length], 1))
                        chunked->candidates &= (uint8_t) ~(1U << i);
        chunked->length++; /* it wraps only when no candidate is left */
}

static bool
is_forbidden(const struct weir__chunked *chunked)
{
        for (unsigned i = 0; i < FORBIDDEN; i++)
                if (chunked->candidates & 1U << i && forbidden[i][chunked->length] == '\0')
                        return true;
        return false;
}

static enum state
next_in_trailer(const struct weir__chunked *chunked, char byte)
{
        bool is_token = weir__byte_is(byte, WEIR__BYTE_TOKEN);

        switch (chunked->state) {
        case LINE: return is_token ? FIELD_NAME : WRONG;
        case FIELD_NAME: return is_token ? FIELD_NAME : byte == ':' && !is_forbidden(chunked) ? FIELD_VALUE : WRONG;
        case FIELD_VALUE: return byte == '\r' ? FIELD_LF : weir__byte_is(byte, WEIR__BYTE_VALUE) ? FIELD_VALUE : WRONG;
        default: /* FIELD_LF */ return byte == '\n' ? LINE : WRONG;
        }
}

/* A byte of a field line. */
static int
read_trailer(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char byte)
{
        enum state next = next_in_trailer(chunked, byte);

        if (next == WRONG)
                return 400;
        if (chunked->state == LINE) {
                if (!count(&chunked->fields, limits->max_trailer_fields))
                        return 431;
                chunked->length = 0;
                chunked->candidates = (1U << FORBIDDEN) - 1;
        }
        if (!count(&chunked->trailers, limits->max_trailers))
                return 431;
        if (next == FIELD_NAME)
                rule_out(chunked, byte);
        return enter(chunked, next);
}

/* Any byte that is not payload. */
static int
read_byte(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char byte)
{
        switch (chunked->state) {
        case SIZE: return read_size(chunked, limits, byte);
        case SIZE_LF: chunked->length = 0; return expect(chunked, byte, '\n', chunked->left > 0 ? DATA : LINE);
        case DATA_CR: return expect(chunked, byte, '\r', DATA_LF);
        case DATA_LF: return expect(chunked, byte, '\n', SIZE);
        case END_LF: return byte == '\n' ? WEIR__CHUNKED_END : 400;
        case LINE:
                if (byte == '\r')
                        return enter(chunked, END_LF);
                return read_trailer(chunked, limits, byte);
        case FIELD_NAME:
        case FIELD_VALUE:
        case FIELD_LF: return read_trailer(chunked, limits, byte);
        default: return read_extension(chunked, limits, byte);
        }
}

/* How many of the next `size` bytes are payload of this chunk. */
static inline size_t
take_payload(struct weir__chunked *chunked, size_t size)
{
        size_t run = chunked->left < size ? (size_t)chunked->left : size;

        chunked->left -= run;
        if (chunked->left == 0)
                enter(chunked, DATA_CR);
        return run;
}

int
weir__chunked_feed(struct weir__chunked *chunked, const struct weir__chunked_limits *limits, char *data, size_t size,
                   size_t *used, size_t *payload)
{
        size_t from = 0, to = 0;
        int r = WEIR__CHUNKED_MORE;

        while (r == WEIR__CHUNKED_MORE && from < size) {
                if (chunked->state == DATA) {
                        size_t run = take_payload(chunked, size - from);

                        if (from != to)
                                memmove(data + to, data + from, run);
                        from += run;
                        to += run;
                } else {
                        r = read_byte(chunked, limits, data[from++]);
                }
        }
        *used = from;
        *payload = to;
        return r;
}
