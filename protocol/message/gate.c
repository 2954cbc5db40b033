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

enum state { BEGIN, BEGIN_LF, METHOD, TARGET, VERSION, FIELD, NAME, VALUE, VALUE_LF, END_LF, END };

/* A state accepts a run of `classes`, and then `last`, which leads to `next`.  A word has at least one byte. */
static const struct {
        unsigned char classes;
        char last;
        unsigned char next;
        bool is_word;
} runs[] = {
        [BEGIN_LF] = {0, '\n', METHOD, false},
        [METHOD] = {WEIR__BYTE_TOKEN, ' ', TARGET, true},
        [TARGET] = {WEIR__BYTE_TARGET, ' ', VERSION, true},
        [NAME] = {WEIR__BYTE_TOKEN, ':', VALUE, true},
        [VALUE] = {WEIR__BYTE_VALUE, '\r', VALUE_LF, false},
        [VALUE_LF] = {0, '\n', FIELD, false},
        [END_LF] = {0, '\n', END, false},
};

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

static inline void
enter(struct weir__gate *gate, const struct reader *reader, unsigned char state)
{
        gate->state = state;
        gate->mark = offset(reader);
}

/* "HTTP/1.1" and the line's end, from gate->mark on. */
static int
read_version(struct weir__gate *gate, struct reader *reader)
{
        static const char pattern[] = "HTTP/0.0\r\n"; /* 0: any digit */
        const char *version = reader->data + gate->mark;

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

/* The first byte of a line behind the request line: of a field's name, or of the end. */
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

static inline int
read_run(struct weir__gate *gate, struct reader *reader)
{
        unsigned char next = runs[gate->state].next;

        reader->at = skip(reader->at, reader->end, runs[gate->state].classes);
        if (reader->at == reader->end)
                return WEIR__GATE_MORE;
        if (*reader->at != runs[gate->state].last || (runs[gate->state].is_word && offset(reader) == gate->mark))
                return 400;
        if (gate->state == METHOD)
                gate->is_method_known = method_is_known(reader->data + gate->mark, offset(reader) - gate->mark);
        reader->at++;
        enter(gate, reader, next);
        return next == END ? WEIR__GATE_HEAD : WEIR__GATE_MORE;
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
        case VERSION: return read_version(gate, reader);
        case FIELD: return begin_line(gate, reader, max_fields);
        default: return read_run(gate, reader);
        }
}

static inline size_t
smaller(size_t one, size_t other)
{
        return one < other ? one : other;
}

/* The position at which the request line must have ended: behind the CRLF of the longest permitted one. */
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
        struct reader reader = {.data = data, .at = data + gate->scanned};
        int r = WEIR__GATE_MORE;

        while (r == WEIR__GATE_MORE) {
                bool is_in_line = gate->state < FIELD;

                limit = is_in_line ? limit : head_limit;
                reader.end = data + smaller(size, limit);
                if (reader.at < reader.end)
                        r = read_part(gate, &reader, limits->max_fields);
                else if (offset(&reader) < limit)
                        break;
                else
                        r = is_in_line ? 414 : 431;
        }
        gate->scanned = offset(&reader);
        if (r == WEIR__GATE_HEAD)
                *head_size = gate->scanned;
        return r;
}
