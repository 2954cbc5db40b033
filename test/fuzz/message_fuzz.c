/* test/fuzz/message_fuzz.c: requests one behind the other, from the gate to the end of their bodies, as
 * server/connection/receive.c reads them.
 *
 * The first four bytes of an input choose: the limits, where the stream is cut (two bytes), and nothing, so that a seed may begin
 * with a line.  The stream is fed whole, byte by byte, and in two pieces.  What must hold:
 *
 * - All three ways come to the same messages, field by field, to the same verdict, on the same byte.
 * - plain_message.h, which sees a head or a body as a whole, must think so too, whether it is to be served or to be refused.
 * - Of a message that we serve, http-parser, run over the raw bytes from there on, finds the same end and the same body.  It may
 *   accept more than we do, so of what we refuse its opinion is not asked.  It may not accept less, but where we know better: it
 *   takes a HTAB around Content-Length and Transfer-Encoding for a part of them, and a name that begins with "Transfer-Encoding"
 *   for that.  So what it refuses it gets again, spaces for the tabs and such names called otherwise, and has to accept then.
 *
 * The bytes that have not arrived are poisoned where there is a sanitizer for it. */
#include "protocol/message/request.h"
#include "test/fuzz/plain_message.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_POISON 1
#endif
#endif

#ifdef HAS_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

static const struct plain_limits some_limits[] = {
        {{8192, 65536, 1000}, {16384, 16384, 128}, UINT64_MAX},
        {{24, 100, 4}, {8, 24, 2}, 5},
};

struct message {
        size_t begin, body, end; /* in the stream; end 0: not all of it was there */
        struct weir__request *request;
        size_t payload_at, payload_size; /* in the reading's payload */
};

/* The result of a stream. */
struct reading {
        int status; /* 0: it ended before anything was wrong */
        size_t at;  /* behind the byte on which the verdict fell */
        struct message *messages;
        size_t count;
        char *payload; /* of all messages */
        size_t payload_size;
};

/* Reads a stream as it arrives. */
struct reader {
        struct fuzz_input stream;
        const struct plain_limits *limits;
        char *data;      /* a copy of the stream, in which payload is moved */
        size_t at, part; /* what is behind us; of it the last piece that arrived begins at `part` */
        enum { IN_HEAD, IN_SIZED, IN_CHUNKED, OVER } state;
        struct weir__gate gate;
        struct weir__chunked chunked;
        uint64_t left;
        struct reading *reading;
};

static struct message *
current(struct reader *reader)
{
        return &reader->reading->messages[reader->reading->count - 1];
}

static void
refuse(struct reader *reader, int status, size_t at)
{
        reader->reading->status = status;
        reader->reading->at = at;
        reader->state = OVER;
}

static void
end_message(struct reader *reader)
{
        current(reader)->end = reader->at;
        reader->state = IN_HEAD;
        reader->gate = (struct weir__gate){0};
}

static void
take_payload(struct reader *reader, size_t size)
{
        struct reading *reading = reader->reading;

        memcpy(reading->payload + reading->payload_size, reader->data + reader->at, size);
        reading->payload_size += size;
        current(reader)->payload_size += size;
}

static void
begin_message(struct reader *reader, size_t head_size)
{
        char *head = fuzz_copy(reader->data + reader->at, head_size);
        struct weir__request *request;
        int status = weir__request_new(head, head_size, reader->limits->max_body, malloc, &request);
        size_t begin = reader->at;

        free(head);
        reader->at += head_size;
        if (status) {
                FUZZ_CHECK(status >= 400 && status <= 505);
                refuse(reader, status, reader->at);
                return;
        }
        reader->reading->messages[reader->reading->count++] = (struct message){
                .begin = begin, .body = reader->at, .request = request, .payload_at = reader->reading->payload_size};
        reader->left = request->content_length;
        reader->chunked = (struct weir__chunked){0};
        reader->state = request->is_chunked ? IN_CHUNKED : IN_SIZED;
        if (!request->is_chunked && reader->left == 0) {
                end_message(reader);
        }
}

static void
read_head(struct reader *reader, size_t available)
{
        size_t head_size = SIZE_MAX, seen = reader->gate.scanned;
        int verdict = weir__gate_feed(&reader->gate, &reader->limits->gate, reader->data + reader->at, available - reader->at,
                                      &head_size);

        FUZZ_CHECK(reader->gate.scanned >= seen && reader->gate.scanned <= available - reader->at);
        FUZZ_CHECK(reader->gate.scanned + reader->at + 1 >= reader->part); /* what it has seen before was not wrong yet */
        if (verdict == WEIR__GATE_MORE) {
                FUZZ_CHECK(reader->gate.scanned == available - reader->at);
                reader->part = available;
        } else if (verdict == WEIR__GATE_HEAD) {
                FUZZ_CHECK(head_size == reader->gate.scanned && reader->at + head_size > reader->part);
                begin_message(reader, head_size);
        } else {
                FUZZ_CHECK(verdict >= 400 && verdict <= 505);
                refuse(reader, verdict, reader->at + reader->gate.scanned);
        }
}

static void
read_sized(struct reader *reader, size_t available)
{
        size_t size = available - reader->at < reader->left ? available - reader->at : (size_t)reader->left;

        take_payload(reader, size);
        reader->at += size;
        reader->left -= size;
        if (reader->left == 0) {
                end_message(reader);
        }
}

static void
read_chunked(struct reader *reader, size_t available)
{
        size_t size = available - reader->at, used = SIZE_MAX, payload = SIZE_MAX;
        int verdict = weir__chunked_feed(&reader->chunked, &reader->limits->chunked, reader->data + reader->at, size, &used,
                                         &payload);

        FUZZ_CHECK(used <= size && payload <= used && (verdict != WEIR__CHUNKED_MORE || used == size));
        FUZZ_CHECK(memcmp(reader->data + reader->at + used, reader->stream.at + reader->at + used, size - used) == 0);
        take_payload(reader, payload);
        reader->at += used;
        if (verdict == WEIR__CHUNKED_END) {
                end_message(reader);
        } else if (verdict != WEIR__CHUNKED_MORE) {
                FUZZ_CHECK(verdict >= 400 && verdict <= 431);
                refuse(reader, verdict, reader->at);
        }
}

/* Takes what has arrived. */
static void
advance(struct reader *reader, size_t available)
{
        size_t arrived = available - reader->at;

        while (reader->state != OVER && arrived > 0) {
                switch (reader->state) {
                case IN_HEAD: read_head(reader, available); break;
                case IN_SIZED: read_sized(reader, available); break;
                default: read_chunked(reader, available); break;
                }
                if (reader->state == IN_HEAD && reader->gate.scanned > 0) {
                        break; /* the gate wants more */
                }
                arrived = available - reader->at;
        }
}

/* Reads the stream in pieces of `piece` bytes, but for the first one of `first`. */
static void
read_stream(struct reading *reading, struct fuzz_input stream, const struct plain_limits *limits, size_t first, size_t piece)
{
        struct reader reader = {
                .stream = stream, .limits = limits, .data = fuzz_copy(stream.at, stream.size), .reading = reading};
        size_t available = 0;

        *reading = (struct reading){.messages = calloc(stream.size / 16 + 1, sizeof *reading->messages),
                                    .payload = malloc(stream.size)};
        FUZZ_CHECK(reading->messages && (reading->payload || stream.size == 0));
        ASAN_POISON_MEMORY_REGION(reader.data, stream.size);
        while (available < stream.size && reader.state != OVER) {
                size_t next = available == 0 && first > 0 ? first : piece;

                next = next < stream.size - available ? next : stream.size - available;
                ASAN_UNPOISON_MEMORY_REGION(reader.data + available, next);
                available += next;
                advance(&reader, available);
        }
        if (reader.state != OVER) {
                reading->at = stream.size;
        }
        ASAN_UNPOISON_MEMORY_REGION(reader.data, stream.size);
        free(reader.data);
}

static void
free_reading(struct reading *reading)
{
        for (size_t i = 0; i < reading->count; i++) {
                free(reading->messages[i].request);
        }
        free(reading->messages);
        free(reading->payload);
}

/* -- the three ways agree -- */

static void
check_same_text(const char *one, const char *other)
{
        FUZZ_CHECK(!one == !other);
        FUZZ_CHECK(!one || strcmp(one, other) == 0);
}

static void
check_same_request(const struct weir__request *one, const struct weir__request *other)
{
        check_same_text(one->method, other->method);
        check_same_text(one->target, other->target);
        check_same_text(one->path, other->path);
        check_same_text(one->query, other->query);
        check_same_text(one->host, other->host);
        FUZZ_CHECK(one->content_length == other->content_length && one->field_count == other->field_count);
        FUZZ_CHECK(one->minor == other->minor && one->is_persistent == other->is_persistent && one->is_head == other->is_head);
        FUZZ_CHECK(one->is_chunked == other->is_chunked && one->is_continue_expected == other->is_continue_expected);
        for (uint32_t i = 0; i < one->field_count; i++) {
                check_same_text(one->fields[i].name, other->fields[i].name);
                check_same_text(one->fields[i].value, other->fields[i].value);
        }
}

static void
check_same(const struct reading *one, const struct reading *other)
{
        FUZZ_CHECK(one->status == other->status && one->at == other->at && one->count == other->count);
        FUZZ_CHECK(one->payload_size == other->payload_size);
        FUZZ_CHECK(one->payload_size == 0 || memcmp(one->payload, other->payload, one->payload_size) == 0);
        for (size_t i = 0; i < one->count; i++) {
                const struct message *mine = &one->messages[i], *others = &other->messages[i];

                FUZZ_CHECK(mine->begin == others->begin && mine->body == others->body && mine->end == others->end);
                FUZZ_CHECK(mine->payload_at == others->payload_at && mine->payload_size == others->payload_size);
                check_same_request(mine->request, others->request);
        }
}

/* -- http-parser agrees -- */

struct parsed {
        const char *payload; /* expected */
        size_t payload_size, expected_size;
        bool complete;
};

static int
on_body(http_parser *parser, const char *at, size_t size)
{
        struct parsed *parsed = parser->data;

        FUZZ_CHECK(size <= parsed->expected_size - parsed->payload_size);
        FUZZ_CHECK(memcmp(parsed->payload + parsed->payload_size, at, size) == 0);
        parsed->payload_size += size;
        return 0;
}

static int
on_complete(http_parser *parser)
{
        ((struct parsed *)parser->data)->complete = true;
        http_parser_pause(parser, 1); /* so that it says where the message ends */
        return 0;
}

/* Whether the parser accepts it; where it does it must agree. */
static bool
parser_agrees(const struct reading *reading, const struct message *message, const char *data, size_t size)
{
        static const http_parser_settings settings = {.on_body = on_body, .on_message_complete = on_complete};
        struct parsed parsed = {.payload = reading->payload + message->payload_at, .expected_size = message->payload_size};
        http_parser parser;
        size_t used;

        http_parser_init(&parser, HTTP_REQUEST);
        parser.data = &parsed;
        used = http_parser_execute(&parser, &settings, data, size);
        if (HTTP_PARSER_ERRNO(&parser) != HPE_OK && HTTP_PARSER_ERRNO(&parser) != HPE_PAUSED) {
                return false;
        }
        FUZZ_CHECK(parsed.complete == (message->end > 0));
        FUZZ_CHECK(used == (message->end > 0 ? message->end - message->begin : size));
        FUZZ_CHECK(parsed.payload_size == parsed.expected_size);
        return true;
}

/* Takes out of the head what the parser is known to misunderstand. */
static void
make_plain(char *head, size_t size)
{
        static const char name[] = "\ntransfer-encoding";

        for (size_t i = 0; i < size; i++) {
                head[i] = head[i] == '\t' ? ' ' : head[i];
        }
        for (size_t i = 0; i + sizeof name < size; i++) {
                if (strncasecmp(head + i, name, sizeof name - 1) == 0 && head[i + sizeof name - 1] != ':') {
                        head[i + 1] = 'x';
                }
        }
}

static void
ask_parser(const struct reading *reading, const struct message *message, struct fuzz_input stream)
{
        size_t size = stream.size - message->begin;
        char *copy = fuzz_copy(stream.at + message->begin, size);

        if (!parser_agrees(reading, message, copy, size)) {
                make_plain(copy, message->body - message->begin);
                FUZZ_CHECK(parser_agrees(reading, message, copy, size));
        }
        free(copy);
}

/* -- the plain reader agrees -- */

static bool
is_string(struct fuzz_input text, const char *string)
{
        return string && fuzz_is(text, string);
}

static void
check_path(const char *decoded, struct fuzz_input path)
{
        while (path.size > 0) {
                int escape = fuzz_escape(path);
                size_t taken = escape >= 0 ? 3 : 1;

                FUZZ_CHECK(*decoded++ == (char)(escape >= 0 ? escape : *path.at));
                path.at += taken;
                path.size -= taken;
        }
        FUZZ_CHECK(*decoded == '\0');
}

/* Path, query and host are those of the target, or the host that of the field. */
static void
check_target(const struct weir__request *request, const struct plain_head *head)
{
        const char *end = head->target.at + head->target.size;
        struct weir__target target;

        FUZZ_CHECK(weir__target_read(&target, head->method.at, head->method.size, head->target.at, head->target.size) == 0);
        check_path(request->path, (struct fuzz_input){target.path, target.path_size});
        FUZZ_CHECK(!request->query == !target.query);
        FUZZ_CHECK(!target.query || is_string((struct fuzz_input){target.query, (size_t)(end - target.query)}, request->query));
        FUZZ_CHECK(is_string(target.authority ? (struct fuzz_input){target.authority, target.authority_size} : head->host,
                             request->host));
}

/* The request describes itself as its head does. */
static void
check_request(const struct weir__request *request, struct fuzz_input text, const struct plain_head *head)
{
        struct fuzz_input rest = text, line, name, value;
        uint32_t field = 0;

        FUZZ_CHECK(is_string(head->method, request->method) && is_string(head->target, request->target));
        FUZZ_CHECK(request->minor == head->minor && request->is_chunked == head->is_chunked);
        FUZZ_CHECK(request->content_length == head->content_length && request->field_count == head->fields);
        FUZZ_CHECK(request->is_persistent == (!head->close && (head->minor > 0 || head->keep_alive)));
        FUZZ_CHECK(request->is_head == fuzz_is(head->method, "HEAD"));
        check_target(request, head);
        if (plain_begins_with_empty_line(text)) {
                plain_take_line(&rest);
        }
        for (plain_take_line(&rest); (line = plain_take_line(&rest)).size > 0; field++) {
                FUZZ_CHECK(plain_is_field(line, &name, &value));
                FUZZ_CHECK(is_string(name, request->fields[field].name) && is_string(value, request->fields[field].value));
        }
        FUZZ_CHECK(field == request->field_count && rest.size == 0);
}

static void
check_chunked(const struct reading *reading, const struct message *message, struct fuzz_input stream,
              const struct plain_limits *limits, bool refused)
{
        struct plain_body body = {.rest = {stream.at + message->body, stream.size - message->body},
                                  .payload = malloc(stream.size)};
        enum plain_verdict verdict = plain_read_chunked(&body, limits);
        size_t end = (size_t)(body.rest.at - stream.at);

        FUZZ_CHECK((verdict == PLAIN_GOOD) == (message->end > 0));
        FUZZ_CHECK(verdict != PLAIN_BAD || refused);
        if (message->end > 0) {
                FUZZ_CHECK(end == message->end && body.payload_size == message->payload_size);
                FUZZ_CHECK(memcmp(reading->payload + message->payload_at, body.payload, body.payload_size) == 0);
        }
        free(body.payload);
}

static void
check_message(const struct reading *reading, size_t index, struct fuzz_input stream, const struct plain_limits *limits)
{
        const struct message *message = &reading->messages[index];
        struct fuzz_input head = {stream.at + message->begin, message->body - message->begin};
        struct fuzz_input rest = {stream.at + message->begin, stream.size - message->begin};
        bool refused = message->end == 0 && reading->status != 0;
        struct plain_head plain;

        FUZZ_CHECK(plain_head_size(rest) == head.size);
        FUZZ_CHECK(plain_judge_head(head, limits, &plain) != PLAIN_BAD);
        check_request(message->request, head, &plain);
        if (message->request->is_chunked) {
                check_chunked(reading, message, stream, limits, refused);
        } else {
                FUZZ_CHECK(!refused && message->payload_size <= message->request->content_length);
                FUZZ_CHECK((message->end > 0) == (message->payload_size == message->request->content_length));
                FUZZ_CHECK(message->payload_size == 0 ||
                           memcmp(stream.at + message->body, reading->payload + message->payload_at, message->payload_size) == 0);
        }
        if (!refused) {
                ask_parser(reading, message, stream);
        }
}

/* Behind the last message there is nothing, a head that is not complete, or one that was refused. */
static void
check_rest(const struct reading *reading, struct fuzz_input stream, const struct plain_limits *limits)
{
        const struct message *last = reading->count ? &reading->messages[reading->count - 1] : NULL;
        struct fuzz_input rest = stream;
        struct plain_head plain;

        if (last && last->end == 0) {
                return;
        }
        rest.at += last ? last->end : 0;
        rest.size -= last ? last->end : 0;
        rest.size = plain_head_size(rest);
        FUZZ_CHECK(rest.size == 0 || reading->status != 0);
        FUZZ_CHECK(rest.size == 0 || plain_judge_head(rest, limits, &plain) != PLAIN_GOOD);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input stream = fuzz_input(data, size);
        const struct plain_limits *limits = &some_limits[fuzz_take_byte(&stream) % 2];
        size_t high = fuzz_take_byte(&stream), cut = (high << 8 | fuzz_take_byte(&stream)) % (size + 1);
        struct reading whole, bytes, pieces;

        fuzz_take_byte(&stream);
        read_stream(&whole, stream, limits, 0, SIZE_MAX);
        read_stream(&bytes, stream, limits, 0, 1);
        read_stream(&pieces, stream, limits, cut, SIZE_MAX);
        check_same(&whole, &bytes);
        check_same(&whole, &pieces);
        for (size_t i = 0; i < whole.count; i++) {
                check_message(&whole, i, stream, limits);
        }
        check_rest(&whole, stream, limits);
        free_reading(&whole);
        free_reading(&bytes);
        free_reading(&pieces);
        return 0;
}
