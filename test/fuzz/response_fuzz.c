/* test/fuzz/response_fuzz.c: a response from the gate to the end of its body, as a client reads it.
 *
 * The first three bytes of an input choose: what was asked and the limits, where the stream is cut (one byte), and nothing, so
 * that a seed may begin with a line.  The stream is fed whole, byte by byte, and in two pieces.  What must hold:
 *
 * - All three ways come to the same head, field by field, to the same verdict, on the same byte, and to the same body.
 * - Of a response that we accept, http-parser, run over the raw bytes, finds the same status, the same end and the same body.  It
 *   takes a HTAB around Content-Length and Transfer-Encoding for a part of them, and a name that begins with "Transfer-Encoding"
 *   for that, so it gets the head without these. */
#include <http_parser.h>

#include <strings.h>

#include "protocol/message/chunked.h"
#include "protocol/message/gate.h"
#include "protocol/message/received.h"
#include "test/fuzz/fuzz.h"

static const struct weir__gate_limits some_limits[] = {{8192, 65536, 1000}, {24, 100, 4}};
static const struct weir__chunked_limits chunked_limits = {16384, 16384, 128};

/* The result of a stream. */
struct reading {
        int verdict;                     /* of the gate, or of the decoder of chunks; MORE: it has ended before */
        int failed;                      /* of weir__received_new */
        size_t at;                       /* behind the byte on which the verdict fell, or the body ended */
        size_t head_size;                /* 0: it is not complete */
        struct weir__received *received; /* or NULL */
        bool is_complete;                /* with its body */
        char *body;
        size_t body_size;
};

static void
read_head(struct reading *reading, const char *data, size_t size, enum weir__received_for what)
{
        char *head = fuzz_copy(data, size);

        reading->head_size = size;
        reading->failed = weir__received_new(head, size, what, malloc, &reading->received);
        FUZZ_CHECK(!reading->failed || (reading->failed == -EBADMSG && !reading->received));
        free(head);
}

/* Takes bytes of the body that begins at `at`.  Result: how many are used. */
static size_t
read_body(struct reading *reading, struct weir__chunked *chunked, char *data, size_t size)
{
        const struct weir__received *received = reading->received;
        size_t used = size, payload = size;

        if (received->end == WEIR__RECEIVED_CHUNKED) {
                int verdict = weir__chunked_feed(chunked, &chunked_limits, data, size, &used, &payload);

                reading->is_complete = verdict == WEIR__CHUNKED_END;
                if (verdict != WEIR__CHUNKED_MORE && verdict != WEIR__CHUNKED_END)
                        reading->verdict = verdict;
        } else if (received->end == WEIR__RECEIVED_LENGTH) {
                uint64_t left = received->content_length - reading->body_size;

                used = payload = size < left ? size : (size_t)left;
                reading->is_complete = left == used;
        }
        memcpy(reading->body + reading->body_size, data, payload);
        reading->body_size += payload;
        return used;
}

/* Reads the stream in pieces of `piece` bytes, but for the first one of `first`. */
static void
read_stream(struct reading *reading, struct fuzz_input stream, unsigned limits, enum weir__received_for what, size_t first,
            size_t piece)
{
        struct weir__gate gate;
        struct weir__chunked chunked = {0};
        char *data = fuzz_copy(stream.at, stream.size);

        *reading = (struct reading){.body = malloc(stream.size + 1)};
        weir__gate_begin_response(&gate);
        for (size_t available = 0; available < stream.size;) {
                size_t next = available == 0 && first > 0 ? first : piece;

                available = next < stream.size - available ? available + next : stream.size;
                if (!reading->head_size) {
                        size_t head_size = 0;

                        reading->verdict = weir__gate_feed(&gate, &some_limits[limits], data, available, &head_size);
                        reading->at = gate.scanned;
                        if (reading->verdict == WEIR__GATE_MORE)
                                continue;
                        if (reading->verdict != WEIR__GATE_HEAD)
                                break;
                        FUZZ_CHECK(head_size == gate.scanned);
                        reading->verdict = 0;
                        read_head(reading, data, head_size, what);
                        if (reading->failed)
                                break;
                        uint8_t end = reading->received->end;
                        reading->is_complete = end == WEIR__RECEIVED_NOTHING || end == WEIR__RECEIVED_TUNNEL;
                        if (reading->is_complete)
                                break;
                }
                reading->at += read_body(reading, &chunked, data + reading->at, available - reading->at);
                if (reading->is_complete || reading->verdict)
                        break;
        }
        free(data);
}

static void
check_same(const struct reading *one, const struct reading *other)
{
        FUZZ_CHECK(one->verdict == other->verdict && one->failed == other->failed && one->at == other->at);
        FUZZ_CHECK(one->head_size == other->head_size && one->is_complete == other->is_complete);
        FUZZ_CHECK(one->body_size == other->body_size && memcmp(one->body, other->body, one->body_size) == 0);
        FUZZ_CHECK(!one->received == !other->received);
        if (!one->received)
                return;
        FUZZ_CHECK(one->received->status == other->received->status && one->received->end == other->received->end);
        FUZZ_CHECK(one->received->is_persistent == other->received->is_persistent);
        FUZZ_CHECK(one->received->field_count == other->received->field_count);
        FUZZ_CHECK(strcmp(one->received->reason, other->received->reason) == 0);
        for (uint32_t i = 0; i < one->received->field_count; i++) {
                FUZZ_CHECK(strcmp(one->received->fields[i].name, other->received->fields[i].name) == 0);
                FUZZ_CHECK(strcmp(one->received->fields[i].value, other->received->fields[i].value) == 0);
        }
}

/* -- http-parser agrees -- */

struct parsed {
        const struct reading *reading;
        enum weir__received_for what;
        size_t body_size;
        bool has_head, is_complete;
};

static int
on_head(http_parser *parser)
{
        struct parsed *parsed = parser->data;

        parsed->has_head = true;
        FUZZ_CHECK(parser->status_code == parsed->reading->received->status);
        return parsed->what == WEIR__RECEIVED_FOR_HEAD; /* no body follows */
}

static int
on_body(http_parser *parser, const char *at, size_t size)
{
        struct parsed *parsed = parser->data;

        FUZZ_CHECK(size <= parsed->reading->body_size - parsed->body_size);
        FUZZ_CHECK(memcmp(parsed->reading->body + parsed->body_size, at, size) == 0);
        parsed->body_size += size;
        return 0;
}

static int
on_complete(http_parser *parser)
{
        ((struct parsed *)parser->data)->is_complete = true;
        http_parser_pause(parser, 1); /* so that it says where the message ends */
        return 0;
}

/* Whether the parser accepts it; where it does it must agree. */
static bool
parser_agrees(const struct reading *reading, enum weir__received_for what, const char *data, size_t size)
{
        static const http_parser_settings settings = {
                .on_headers_complete = on_head, .on_body = on_body, .on_message_complete = on_complete};
        struct parsed parsed = {.reading = reading, .what = what};
        http_parser parser;

        http_parser_init(&parser, HTTP_RESPONSE);
        parser.data = &parsed;
        size_t used = http_parser_execute(&parser, &settings, data, size);
        if (HTTP_PARSER_ERRNO(&parser) != HPE_OK && HTTP_PARSER_ERRNO(&parser) != HPE_PAUSED)
                return false;
        FUZZ_CHECK(parsed.has_head && parsed.body_size == reading->body_size);
        FUZZ_CHECK(parsed.is_complete == reading->is_complete);
        FUZZ_CHECK(used == reading->at);
        return true;
}

/* Takes out of the head what the parser is known to misunderstand. */
static void
make_plain(char *head, size_t size)
{
        static const char name[] = "\ntransfer-encoding";

        for (size_t i = 0; i < size; i++)
                head[i] = head[i] == '\t' ? ' ' : head[i];
        for (size_t i = 0; i + sizeof name < size; i++)
                if (strncasecmp(head + i, name, sizeof name - 1) == 0 && head[i + sizeof name - 1] != ':')
                        head[i + 1] = 'x';
}

/* It is not asked about what it knows nothing of: a CONNECT, an upgrade, and framing fields where no body may be. */
static void
ask_parser(const struct reading *reading, enum weir__received_for what, struct fuzz_input stream)
{
        const struct weir__received *received = reading->received;
        bool is_bare = received->status / 100 == 1 || received->status == 204 || received->status == 304;

        if (what == WEIR__RECEIVED_FOR_CONNECT || received->end == WEIR__RECEIVED_TUNNEL || is_bare)
                return;
        char *copy = fuzz_copy(stream.at, stream.size);
        make_plain(copy, reading->head_size);
        FUZZ_CHECK(parser_agrees(reading, what, copy, stream.size));
        free(copy);
}

static void
done_with(struct reading *reading)
{
        free(reading->received);
        free(reading->body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);
        unsigned char choice = fuzz_take_byte(&input), cut = fuzz_take_byte(&input);
        enum weir__received_for what = (enum weir__received_for)(choice / 2 % 3);
        struct reading whole, bytes, two;

        (void)fuzz_take_byte(&input);
        read_stream(&whole, input, choice % 2, what, 0, input.size);
        read_stream(&bytes, input, choice % 2, what, 0, 1);
        read_stream(&two, input, choice % 2, what, cut, input.size);
        check_same(&whole, &bytes);
        check_same(&whole, &two);
        if (whole.received && !whole.verdict)
                ask_parser(&whole, what, input);
        done_with(&whole);
        done_with(&bytes);
        done_with(&two);
        return 0;
}
