/* protocol/message/gate.c: the byte-level gate in front of the HTTP parser.
 *
 *      BEGIN --CR--> BEGIN_LF --LF--> METHOD          one empty line before the request line is let through
 *      BEGIN ------> METHOD --SP--> TARGET --SP--> VERSION --CR LF--> FIELD          a request
 *      STATUS --"HTTP/1.1 200"--> REASON --CR--> REASON_LF --LF--> FIELD              a response
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

enum state { BEGIN, BEGIN_LF, METHOD, TARGET, VERSION, STATUS, REASON, REASON_LF, FIELD, NAME, VALUE, VALUE_LF, END_LF };

struct reader {
        const char *data; /* the head so far */
        const char *at, *end;
};

/* http-parser's list.  CONNECT is in it because its target decides between 400 and 501, in protocol/message/request.c.
 * Source: RFC 9110, 5789, 4918, 3253, 3744, 4791, 5323, 5842 and 2068; methods of UPnP, caches and icecast. */
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

static inline void
enter(struct weir__gate *gate, const struct reader *reader, unsigned char state)
{
        gate->state = state;
        gate->mark = offset(reader);
}

/* "HTTP/1.1" and the line's end, from gate->mark on. */
static inline int
read_version(struct weir__gate *gate, struct reader *reader)
{
        static const char pattern[] = "HTTP/0.0\r\n"; /* 0: any digit */
        const char *version = reader->data + gate->mark;
        const size_t last = sizeof pattern - 2;

        if (reader->end - version > (ptrdiff_t)last && memcmp(version, "HTTP/1.1\r\n", last + 1) == 0)
                reader->at = version + last; /* the usual one is not compared byte by byte */
        for (; reader->at < reader->end; reader->at++) {
                char expected = pattern[reader->at - version];

                if (expected == '0' ? !weir__byte_is(*reader->at, WEIR__BYTE_DIGIT) : *reader->at != expected)
                        return 400;
                if (expected == '\n') {
                        reader->at++;
                        enter(gate, reader, FIELD);
                        return version[5] != '1' ? 505 : gate->is_method_known ? WEIR__GATE_MORE : 501;
                }
        }
        return WEIR__GATE_MORE;
}

/* "HTTP/1.1 200", and the SP behind it, which some servers leave out when there is no reason.
 *
 * Source: RFC 9112 section 4; RFC 9110 section 15: a status has three digits, and the first is not 0. */
static int
read_status(struct weir__gate *gate, struct reader *reader)
{
        static const char pattern[] = "HTTP/0.0 000"; /* 0: any digit */
        const size_t last = sizeof pattern - 1;

        for (; reader->at < reader->end; reader->at++) {
                size_t at = (size_t)(reader->at - reader->data);

                if (at == last) {
                        if (*reader->at != ' ' && *reader->at != '\r')
                                return 400;
                        reader->at += *reader->at == ' ';
                        enter(gate, reader, REASON);
                        return reader->data[5] != '1' ? 505 : WEIR__GATE_MORE;
                }
                if (pattern[at] == '0' ? !weir__byte_is(*reader->at, WEIR__BYTE_DIGIT) : *reader->at != pattern[at])
                        return 400;
                if (at == last - 3 && *reader->at == '0')
                        return 400;
        }
        return WEIR__GATE_MORE;
}

/* The first byte of a line behind the first one: of a field's name, or of the end. */
static inline int
begin_line(struct weir__gate *gate, struct reader *reader, size_t max_fields)
{
        bool is_end = *reader->at == '\r';

        if (!is_end && gate->fields >= max_fields)
                return 431;
        gate->fields += !is_end;
        reader->at += is_end;
        enter(gate, reader, is_end ? END_LF : NAME);
        return WEIR__GATE_MORE;
}

/* A run of `classes`, and behind it `last`, which leads to the next state. */
static inline int
read_run(struct weir__gate *gate, struct reader *reader, unsigned classes, char last, enum state next)
{
        reader->at = skip(reader->at, reader->end, classes);
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        if (*reader->at++ != last)
                return 400;
        enter(gate, reader, next);
        return WEIR__GATE_MORE;
}

/* The same with a run that is not empty. */
static inline int
read_word(struct weir__gate *gate, struct reader *reader, unsigned classes, char last, enum state next)
{
        const char *word = reader->data + gate->mark;

        if (reader->at == word && *word == last)
                return 400;
        return read_run(gate, reader, classes, last, next);
}

static inline int
read_method(struct weir__gate *gate, struct reader *reader)
{
        const char *method = reader->data + gate->mark;
        int r = read_word(gate, reader, WEIR__BYTE_TOKEN, ' ', TARGET);

        if (gate->state == TARGET) {
                gate->is_method_known = method_is_known(method, (size_t)(reader->at - method) - 1);
                gate->is_head = reader->at - method == 5 && memcmp(method, "HEAD", 4) == 0;
        }
        return r;
}

void
weir__gate_begin_response(struct weir__gate *gate)
{
        *gate = (struct weir__gate){.state = STATUS};
}

bool
weir__gate_has_begun(const struct weir__gate *gate)
{
        return gate->state > METHOD ? gate->scanned > 0 : gate->state == METHOD && gate->scanned > gate->mark;
}

/* Reads one byte at least, in the state where the gate is. */
static inline int
read_part(struct weir__gate *gate, struct reader *reader, size_t max_fields)
{
        switch (gate->state) {
        case BEGIN:
                gate->state = *reader->at == '\r' ? BEGIN_LF : METHOD;
                reader->at += gate->state == BEGIN_LF;
                return WEIR__GATE_MORE;
        case BEGIN_LF: return read_run(gate, reader, 0, '\n', METHOD);
        case METHOD: return read_method(gate, reader);
        case TARGET: return read_word(gate, reader, WEIR__BYTE_TARGET, ' ', VERSION);
        case VERSION: return read_version(gate, reader);
        case STATUS: return read_status(gate, reader);
        case REASON: return read_run(gate, reader, WEIR__BYTE_VALUE, '\r', REASON_LF);
        case REASON_LF: return read_run(gate, reader, 0, '\n', FIELD);
        case FIELD: return begin_line(gate, reader, max_fields);
        case NAME: return read_word(gate, reader, WEIR__BYTE_TOKEN, ':', VALUE);
        case VALUE: return read_run(gate, reader, WEIR__BYTE_VALUE, '\r', VALUE_LF);
        case VALUE_LF: return read_run(gate, reader, 0, '\n', FIELD);
        default: return *reader->at++ == '\n' ? WEIR__GATE_HEAD : 400; /* END_LF */
        }
}

static inline size_t
smaller(size_t one, size_t other)
{
        return one < other ? one : other;
}

/* The position at which the first line must have ended: behind the CRLF of the longest permitted one. */
static inline size_t
line_limit(const struct weir__gate_limits *limits, size_t head_limit, const char *data, size_t size)
{
        size_t around = size > 0 && data[0] == '\r' ? 4 : 2;

        return smaller(smaller(limits->max_line, head_limit) + around, head_limit);
}

int
weir__gate_feed(struct weir__gate *gate, const struct weir__gate_limits *limits, const char *data, size_t size, size_t *head_size)
{
        size_t head_limit = smaller(limits->max_head, WEIR__HEAD_MAX), limit = line_limit(limits, head_limit, data, size);
        struct reader reader = {.data = data, .at = data + gate->scanned, .end = data + smaller(size, limit)};
        struct weir__gate now = *gate; /* in registers */
        int r = WEIR__GATE_MORE;

        while (r == WEIR__GATE_MORE) {
                if (reader.at < reader.end) {
                        r = read_part(&now, &reader, limits->max_fields);
                } else if (offset(&reader) < limit) {
                        break;
                } else if (now.state < FIELD || limit == head_limit) {
                        r = now.state < FIELD ? 414 : 431;
                } else {
                        limit = head_limit;
                        reader.end = data + smaller(size, limit);
                }
        }
        now.scanned = offset(&reader);
        if (r == WEIR__GATE_HEAD)
                *head_size = now.scanned;
        *gate = now;
        return r;
}
