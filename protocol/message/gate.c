/* protocol/message/gate.c: the byte-level gate in front of the HTTP parser.
 *
 *      BEGIN --CR--> BEGIN_LF --LF--> METHOD          one empty line before the request line is let through
 *      BEGIN ------> METHOD --SP--> TARGET --SP--> VERSION --CR LF--> FIELD
 *      FIELD ------> NAME --":"--> VALUE --CR--> VALUE_LF --LF--> FIELD
 *      FIELD --CR--> END_LF --LF--> the head is complete
 *
 * Each state accepts its own class of bytes and the byte on its arrow; any other byte is a 400.  So a bare LF or CR, a space
 * before a colon and a folded line are refused at their position.  A limit is a position at which reading stops.
 *
 * Threads: a gate belongs to the owner of its connection.  No locks. */
#include <stdbool.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/message/gate.h"

enum state { BEGIN, BEGIN_LF, METHOD, TARGET, VERSION, FIELD, NAME, VALUE, VALUE_LF, END_LF };

/* A reader returns this beside the gate's verdicts: its part of the head is complete. */
#define DONE (-1)

struct reader {
        const char *data; /* the head so far */
        const char *at, *end;
};

/* http-parser's list.  CONNECT is in it because its target decides between 400 and 501, in protocol/message/request.c.
 * Source: RFC 9110, 5789, 4918, 3253, 3744, 4791, 5323, 5842 and 2068; what UPnP, caches and icecast have added. */
static const char methods[][12] = {
        "GET",      "POST",      "HEAD",   "PUT",    "DELETE", "OPTIONS",     "PATCH",      "TRACE",  "CONNECT",
        "COPY",     "LOCK",      "MKCOL",  "MOVE",   "SEARCH", "UNLOCK",      "PROPFIND",   "ACL",    "PROPPATCH",
        "BIND",     "REBIND",    "UNBIND", "REPORT", "MERGE",  "LINK",        "MKACTIVITY", "UNLINK", "CHECKOUT",
        "M-SEARCH", "SUBSCRIBE", "NOTIFY", "PURGE",  "SOURCE", "UNSUBSCRIBE", "MKCALENDAR",
};

static bool
method_is_known(const char *method, size_t size)
{
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
                if (size < sizeof *methods && methods[i][size] == '\0' && memcmp(methods[i], method, size) == 0)
                        return true;
        return false;
}

static inline const char *
skip(const char *at, const char *end, unsigned classes)
{
        if (classes & WEIR__BYTE_VALUE)
                at += weir__bytes_value_part(at, (size_t)(end - at));
        while (at < end && weir__byte_is(*at, classes))
                at++;
        return at;
}

static inline uint32_t
offset(const struct reader *reader)
{
        return (uint32_t)(reader->at - reader->data);
}

/* "HTTP/1.1" and the line's end, from gate->mark on. */
static int
read_version(struct weir__gate *gate, struct reader *reader)
{
        static const char pattern[] = "HTTP/0.0\r\n"; /* 0: any digit */
        const char *version = reader->data + gate->mark;

        for (; reader->at < reader->end; reader->at++) {
                size_t index = (size_t)(reader->at - version);

                if (pattern[index] == '0' ? !weir__byte_is(*reader->at, WEIR__BYTE_DIGIT) : *reader->at != pattern[index])
                        return 400;
                if (pattern[index] == '\n') {
                        reader->at++;
                        return version[5] != '1' ? 505 : gate->method_known ? DONE : 501;
                }
        }
        return WEIR__GATE_MORE;
}

/* A method or a target: a run of `classes`, which is not empty, and one SP. */
static inline int
read_word(struct weir__gate *gate, struct reader *reader, unsigned classes)
{
        reader->at = skip(reader->at, reader->end, classes);
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        if (*reader->at != ' ' || offset(reader) == gate->mark)
                return 400;
        reader->at++;
        return DONE;
}

/* The first byte of the request, or the one behind an empty line before it; `gate->state` says which. */
static inline int
read_empty_line(struct weir__gate *gate, struct reader *reader)
{
        if (gate->state == BEGIN && reader->at < reader->end && *reader->at == '\r') {
                gate->state = BEGIN_LF;
                reader->at++;
        }
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        if (gate->state == BEGIN_LF && *reader->at++ != '\n')
                return 400;
        return DONE;
}

static inline int
read_request_line(struct weir__gate *gate, struct reader *reader)
{
        int r;

        switch (gate->state) {
        case BEGIN:
        case BEGIN_LF:
                if ((r = read_empty_line(gate, reader)) != DONE)
                        return r;
                gate->mark = offset(reader);
                gate->state = METHOD;
                /* fallthrough */
        case METHOD:
                if ((r = read_word(gate, reader, WEIR__BYTE_TOKEN)) != DONE)
                        return r;
                gate->method_known = method_is_known(reader->data + gate->mark, offset(reader) - gate->mark - 1);
                gate->mark = offset(reader);
                gate->state = TARGET;
                /* fallthrough */
        case TARGET:
                if ((r = read_word(gate, reader, WEIR__BYTE_TARGET)) != DONE)
                        return r;
                gate->mark = offset(reader);
                gate->state = VERSION;
                /* fallthrough */
        default:
                if ((r = read_version(gate, reader)) != DONE)
                        return r;
                gate->state = FIELD;
                return DONE;
        }
}

/* The first byte of a line behind the request line: of a field's name, or of the end. */
static inline int
begin_line(struct weir__gate *gate, struct reader *reader, size_t max_fields)
{
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        if (*reader->at == '\r') {
                reader->at++;
                gate->state = END_LF;
                return DONE;
        }
        if (gate->fields >= max_fields)
                return 431;
        gate->mark = offset(reader);
        gate->state = NAME;
        return DONE;
}

/* A byte that has to be `byte`, behind a run of `classes`. */
static inline int
read_until(struct reader *reader, unsigned classes, char byte)
{
        reader->at = skip(reader->at, reader->end, classes);
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        return *reader->at++ == byte ? DONE : 400;
}

/* A field line from anywhere in it to its end. */
static inline int
read_field(struct weir__gate *gate, struct reader *reader)
{
        int r;

        switch (gate->state) {
        case NAME:
                if ((r = read_until(reader, WEIR__BYTE_TOKEN, ':')) != DONE)
                        return r;
                if (offset(reader) == gate->mark + 1)
                        return 400; /* a name of no bytes */
                gate->state = VALUE;
                /* fallthrough */
        case VALUE:
                if ((r = read_until(reader, WEIR__BYTE_VALUE, '\r')) != DONE)
                        return r;
                gate->state = VALUE_LF;
                /* fallthrough */
        default:
                if ((r = read_until(reader, 0, '\n')) != DONE)
                        return r;
                gate->fields++;
                gate->state = FIELD;
                return DONE;
        }
}

static inline int
read_fields(struct weir__gate *gate, struct reader *reader, size_t max_fields)
{
        int r = DONE;

        while (r == DONE) {
                if (gate->state == FIELD && (r = begin_line(gate, reader, max_fields)) != DONE)
                        return r;
                if (gate->state == END_LF) {
                        r = read_until(reader, 0, '\n');
                        return r == DONE ? WEIR__GATE_HEAD : r;
                }
                r = read_field(gate, reader);
        }
        return r;
}

static inline size_t
smaller(size_t one, size_t other)
{
        return one < other ? one : other;
}

/* The position at which reading the request line must have ended: behind the CRLF of the longest permitted one. */
static inline size_t
line_limit(const struct weir__gate_limits *limits, size_t head_limit, const char *data, size_t size)
{
        size_t around = size > 0 && data[0] == '\r' ? 4 : 2;

        return smaller(smaller(limits->max_line, head_limit) + around, head_limit);
}

int
weir__gate_feed(struct weir__gate *gate, const struct weir__gate_limits *limits, const char *data, size_t size, size_t *head_size)
{
        size_t head_limit = smaller(limits->max_head, WEIR__HEAD_MAX);
        struct reader reader = {.data = data, .at = data + gate->scanned};
        int r = DONE;

        if (gate->state < FIELD) {
                size_t limit = line_limit(limits, head_limit, data, size);

                reader.end = data + smaller(size, limit);
                r = read_request_line(gate, &reader);
                if (r == WEIR__GATE_MORE && offset(&reader) == limit)
                        r = 414;
        }
        if (r == DONE) {
                reader.end = data + smaller(size, head_limit);
                r = read_fields(gate, &reader, limits->max_fields);
                if (r == WEIR__GATE_MORE && offset(&reader) == head_limit)
                        r = 431;
        }
        gate->scanned = offset(&reader);
        if (r == WEIR__GATE_HEAD)
                *head_size = gate->scanned;
        return r;
}
