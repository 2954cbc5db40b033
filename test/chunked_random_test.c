/* test/chunked_random_test.c: random chunked bodies, and good ones with random changes, in random pieces.
 *
 * Two others judge the same bytes: a decoder written another way, with regular expressions over whole lines, and the HTTP
 * parser, which has to agree on payload and end of each body that both accept.  The same seed gives the same bodies. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <http_parser.h>

#include "test/chunked_fixture.h"

/* A text that grows, with room enough. */
struct text {
        char data[20000];
        size_t size;
};

static void
append(struct text *text, const void *data, size_t size)
{
        memcpy(text->data + text->size, data, size);
        text->size += size;
}

#define APPEND(text, ...) ((text)->size += (size_t)sprintf((text)->data + (text)->size, __VA_ARGS__))

static void
append_random_extensions(struct text *text, struct weir_test_random *random)
{
        static const char *const extensions[] = {";a", ";bcd=e", ";f=\"\\\";\"", ";h=\"\" ;i", ";\tj\t=\tk"};
        uint64_t which = weir_test_random_below(random, 12);

        if (which < sizeof extensions / sizeof *extensions) {
                APPEND(text, "%s", extensions[which]);
        }
}

static void
append_random_chunk(struct text *text, struct text *payload, struct weir_test_random *random)
{
        size_t size = 1 + weir_test_random_below(random, weir_test_random_below(random, 4) ? 12 : 600);

        APPEND(text, weir_test_random_below(random, 2) ? "%0*zx" : "%0*zX", (int)weir_test_random_below(random, 6), size);
        append_random_extensions(text, random);
        APPEND(text, "\r\n");
        for (size_t i = 0; i < size; i++) {
                char byte = (char)weir_test_random_below(random, 256);

                append(text, &byte, 1);
                append(payload, &byte, 1);
        }
        APPEND(text, "\r\n");
}

static void
append_random_end(struct text *text, struct weir_test_random *random)
{
        static const char *const fields[] = {"A: b\r\n", "Content-Lengths:\r\n", "Host: \xe4\t\"c\"\r\n", "transfer: x \r\n"};

        APPEND(text, "%0*d", (int)weir_test_random_below(random, 4), 0);
        append_random_extensions(text, random);
        APPEND(text, "\r\n");
        for (uint64_t count = weir_test_random_below(random, MAX_FIELDS + 1); count > 0; count--) {
                APPEND(text, "%s", fields[weir_test_random_below(random, sizeof fields / sizeof *fields)]);
        }
        APPEND(text, "\r\n");
}

/* The result of the parser for the same body. */
struct parsed {
        struct text payload;
        bool complete;
};

static int
on_body(http_parser *parser, const char *at, size_t size)
{
        append(&((struct parsed *)parser->data)->payload, at, size);
        return 0;
}

static int
on_end(http_parser *parser)
{
        ((struct parsed *)parser->data)->complete = true;
        http_parser_pause(parser, 1); /* so that it says where the message ends */
        return 0;
}

/* Whether the parser, which is lenient, finds the same end and the same payload in a body that the decoder has accepted. */
static bool
the_parser_agrees(const struct text *text, const struct outcome *outcome)
{
        static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        static const http_parser_settings settings = {.on_body = on_body, .on_message_complete = on_end};
        static struct parsed parsed;
        http_parser parser;
        size_t used;

        parsed.payload.size = 0;
        parsed.complete = false;
        http_parser_init(&parser, HTTP_REQUEST);
        parser.data = &parsed;
        if (http_parser_execute(&parser, &settings, head, sizeof head - 1) != sizeof head - 1) {
                return false;
        }
        used = http_parser_execute(&parser, &settings, text->data, text->size);
        return parsed.complete && used == outcome->used && parsed.payload.size == outcome->payload_size &&
               memcmp(parsed.payload.data, outcome->payload, outcome->payload_size) == 0;
}

static void
random_bodies_are_decoded_in_random_pieces(void)
{
        static struct text text, payload, decoded;
        struct weir_test_random random = {weir_test_seed()};
        struct outcome outcome = {.payload = decoded.data};
        unsigned wrong = 0;

        for (unsigned round = 0; round < 5000; round++) {
                size_t end;

                text.size = payload.size = 0;
                for (uint64_t chunks = weir_test_random_below(&random, 12); chunks > 0; chunks--) {
                        append_random_chunk(&text, &payload, &random);
                }
                append_random_end(&text, &random);
                end = text.size;
                APPEND(&text, "GET /next HTTP/1.1\r\n");
                for (size_t piece = 1; piece <= 4096; piece *= 8) {
                        struct outcome expected = {WEIR__CHUNKED_END, end, payload.size, payload.data};

                        wrong += !decode_in_pieces(&usual, text.data, text.size, piece, &random, &outcome) ||
                                 !same(&outcome, &expected);
                }
                wrong += !the_parser_agrees(&text, &outcome);
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

/* The grammar once more, as regular expressions.  Bytes above 127 only meet classes that say what is not in them. */
#define TOKEN     "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
#define BWS       "[ \t]*"
#define QUOTED    "\"([^\x01-\x08\x0a-\x1f\x7f\"\\]|\\\\[^\x01-\x08\x0a-\x1f\x7f])*\""
#define EXTENSION ";" BWS TOKEN "(" BWS "=" BWS "(" TOKEN "|" QUOTED "))?"

static const char size_line_text[] = "^([0-9A-Fa-f]+)(" EXTENSION "(" BWS EXTENSION ")*)?$";
static const char field_line_text[] = "^(" TOKEN "):[^\x01-\x08\x0a-\x1f\x7f]*$";

/* A decoder that takes whole lines of a whole body. */
struct other {
        regex_t size_line, field_line;
        const char *at, *end;
        size_t extensions, trailers, fields;
        struct text payload;
};

/* The line at other->at, without its CRLF, as a string.  Returns false when its end is not there. */
static bool
take_line(struct other *other, char *line)
{
        const char *crlf = memmem(other->at, (size_t)(other->end - other->at), "\r\n", 2);
        size_t size = crlf ? (size_t)(crlf - other->at) : 0;

        if (!crlf) {
                return false;
        }
        memcpy(line, other->at, size);
        line[size] = '\0';
        if (strlen(line) < size) {
                strcpy(line, "\n"); /* a NUL: as wrong as this */
        }
        other->at = crlf + 2;
        return true;
}

static int
take_trailers(struct other *other, char *line)
{
        regmatch_t match[2];

        while (take_line(other, line)) {
                if (!*line) {
                        return WEIR__CHUNKED_END;
                }
                other->trailers += strlen(line) + 2;
                if (++other->fields > MAX_FIELDS || other->trailers > MAX_TRAILERS ||
                    regexec(&other->field_line, line, 2, match, 0) != 0) {
                        return 400;
                }
                line[match[1].rm_eo] = '\0';
                if (strcasecmp(line, "content-length") == 0 || strcasecmp(line, "transfer-encoding") == 0) {
                        return 400;
                }
        }
        return WEIR__CHUNKED_MORE;
}

/* END, MORE when the body is not complete by its lines, or 400 for all that is wrong. */
static int
decode_otherwise(struct other *other, char *line)
{
        while (take_line(other, line)) {
                regmatch_t match[2];
                unsigned long long size;
                size_t digits;

                if (regexec(&other->size_line, line, 2, match, 0) != 0) {
                        return 400;
                }
                digits = (size_t)match[1].rm_eo;
                other->extensions += strlen(line) - (digits < 16 ? digits : 16);
                size = strtoull(line, NULL, 16); /* ULLONG_MAX when it is too large */
                if (other->extensions > MAX_EXTENSIONS || size > INT64_MAX) {
                        return 400;
                }
                if (size == 0) {
                        return take_trailers(other, line);
                }
                if ((size_t)(other->end - other->at) < size) {
                        return WEIR__CHUNKED_MORE;
                }
                append(&other->payload, other->at, size);
                other->at += size;
                if (other->end - other->at < 2 || memcmp(other->at, "\r\n", 2) != 0) {
                        return other->end - other->at < 2 ? WEIR__CHUNKED_MORE : 400;
                }
                other->at += 2;
        }
        return WEIR__CHUNKED_MORE;
}

/* Whether the two verdicts agree.  The other decoder does not see an error in a line that is not complete. */
static bool
the_other_agrees(struct other *other, const struct text *text, const struct outcome *outcome)
{
        static char line[sizeof text->data];
        int verdict;

        other->at = text->data;
        other->end = text->data + text->size;
        other->extensions = other->trailers = other->fields = other->payload.size = 0;
        verdict = decode_otherwise(other, line);
        if (verdict != WEIR__CHUNKED_END || outcome->verdict != WEIR__CHUNKED_END) {
                return verdict == WEIR__CHUNKED_MORE ? outcome->verdict != WEIR__CHUNKED_END
                                                     : verdict == 400 && outcome->verdict >= 400;
        }
        return outcome->used == (size_t)(other->at - text->data) && outcome->payload_size == other->payload.size &&
               memcmp(outcome->payload, other->payload.data, other->payload.size) == 0;
}

static void
replace(struct text *text, size_t at, size_t removed, const char *bytes, size_t size)
{
        if (at + removed > text->size) {
                return;
        }
        memmove(text->data + at + size, text->data + at + removed, text->size - at - removed);
        memcpy(text->data + at, bytes, size);
        text->size += size - removed;
}

static void
change(struct text *text, struct weir_test_random *random)
{
        static const char usual_ones[] = "\r\n\r\n\r\n  \t;;==\"\"\\::,00011237fFaAgx-\x7f\x80\xff\x01"; /* and its NUL */
        size_t at = weir_test_random_below(random, text->size + 1), size = 1 + weir_test_random_below(random, 20);
        char byte = usual_ones[weir_test_random_below(random, sizeof usual_ones)], copy[20];

        switch (weir_test_random_below(random, 5)) {
        case 0: replace(text, at, 1, &byte, 1); break;
        case 1: replace(text, at, 0, &byte, 1); break;
        case 2: replace(text, at, 1, &byte, 0); break;
        case 3: replace(text, at, size, copy, 0); break;
        default: /* a piece of it once more, elsewhere */
                if (size <= text->size) {
                        memcpy(copy, text->data + weir_test_random_below(random, text->size - size + 1), size);
                        replace(text, at, 0, copy, size);
                }
                break;
        }
}

static const char *const good_bodies[] = {
        "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "5;a=b\r\n0\r\n\r\n\r\n0;c;d=\"e\\\"\"\r\n\r\n",
        "2 \r\nab\r\n0\r\n\r\n",
        "0a; b = c ; d = \"e;f\"\t;\tg\r\n0123456789\r\n000\r\nX: y\r\nZ:\xe4\t\r\n\r\n0\r\n\r\n",
        "000000000000000000000001\r\na\r\n0\r\nContent-Length: 3\r\nTransfer-Encodings: x\r\n\r\n",
        "1\r\n\r\r\n1\r\n\n\r\n2\r\n\r\n\r\n00;h\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n",
        "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\na\r\n0;b\r\n\r\n",
};

static void
changed_bodies_get_one_verdict_however_they_are_cut(void)
{
        static struct text text;
        static struct other other;
        static char whole_payload[sizeof text.data], payload[sizeof text.data];
        struct weir_test_random random = {weir_test_seed()};
        unsigned wrong = 0, complete = 0, refused = 0;

        CU_ASSERT_EQUAL_FATAL(regcomp(&other.size_line, size_line_text, REG_EXTENDED), 0);
        CU_ASSERT_EQUAL_FATAL(regcomp(&other.field_line, field_line_text, REG_EXTENDED), 0);
        for (unsigned round = 0; round < 30000; round++) {
                struct outcome whole = {.payload = whole_payload}, outcome = {.payload = payload};

                text.size = 0;
                APPEND(&text, "%s", good_bodies[weir_test_random_below(&random, sizeof good_bodies / sizeof *good_bodies)]);
                for (uint64_t changes = weir_test_random_below(&random, 4); changes > 0; changes--) {
                        change(&text, &random);
                }
                wrong += !decode_in_two(&usual, text.data, text.size, text.size, &whole);
                for (size_t piece = 1; piece <= 25; piece += 8) {
                        wrong += !decode_in_pieces(&usual, text.data, text.size, piece, &random, &outcome) ||
                                 !same(&outcome, &whole);
                }
                wrong += !the_other_agrees(&other, &text, &whole);
                wrong += whole.verdict == WEIR__CHUNKED_END && !the_parser_agrees(&text, &whole);
                complete += whole.verdict == WEIR__CHUNKED_END;
                refused += whole.verdict >= 400;
        }
        regfree(&other.size_line);
        regfree(&other.field_line);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(complete > 3000);
        CU_ASSERT(refused > 3000);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(random_bodies_are_decoded_in_random_pieces),
                WEIR_TEST(changed_bodies_get_one_verdict_however_they_are_cut),
        };

        return weir_test_main("chunked_random", tests, sizeof tests / sizeof *tests);
}
