/* protocol/message/gate.h: the byte-level gate in front of the HTTP parser.
 *
 * http-parser as Debian builds it is lenient.  The gate sees the raw bytes of a head first, as they arrive.  It refuses bytes
 * that RFC 9112 forbids and the parser accepts.  It checks bytes and grammar; protocol/message/request.c and received.c check the
 * meaning of target and fields.  No I/O, no allocation. */
#ifndef WEIR_PROTOCOL_GATE_H
#define WEIR_PROTOCOL_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No head is longer, whatever the limits say: offsets into it are 32 bits wide. */
#define WEIR__HEAD_MAX ((size_t)16 << 20)

struct weir__gate_limits {
        size_t max_line;   /* bytes of the first line, without its CRLF: 414 above */
        size_t max_head;   /* bytes of the whole head, with all its line ends: 431 above (414 while in the first line) */
        size_t max_fields; /* field lines: 431 above */
};

/* Where the gate stands in the head of one message.  All zero is the beginning of a request. */
struct weir__gate {
        uint32_t scanned;              /* bytes already seen */
        uint32_t fields;               /* field lines that have begun */
        uint32_t mark;                 /* where the method, target, version or field name that is being read begins */
        uint8_t state;                 /* gate.c's */
        bool is_method_known, is_head; /* set when the method has been read */
};

enum weir__gate_verdict {
        WEIR__GATE_MORE = 0, /* fine so far; the head is not complete */
        WEIR__GATE_HEAD = 1, /* complete: *head_size says how long it is, with the empty line before it and the one behind it */
        /* else an HTTP status (400, 414, 431, 501, 505): a server replies with it and closes; a client: weir__received_error */
};

/* Instead of all zero: the head of a response follows.  No empty line may be before it. */
void weir__gate_begin_response(struct weir__gate *gate);

/* Looks at bytes [gate->scanned, size) of `data`, which begins where the message begins and holds all of it so far.
 *
 * Every verdict falls on one certain byte, the first that proves it.  It does not depend on how the bytes were divided into
 * reads.  After a verdict other than MORE the gate is spent: make it all zero before the next message. */
int weir__gate_feed(struct weir__gate *gate, const struct weir__gate_limits *limits, const char *data, size_t size,
                    size_t *head_size);

/* Whether a byte of the message itself was seen: more than an empty line before it.  For a gate that has said MORE. */
bool weir__gate_has_begun(const struct weir__gate *gate);

#endif
