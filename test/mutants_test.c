/* test/mutants_test.c: heads made from good ones by random changes, through gate, parser and request.
 *
 * The verdict on each head must not depend on how its bytes are cut, and must be that of a grammar written in another way.  The
 * parser must accept all that the gate accepts, with every slice inside the head.  The same seed gives the same heads. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message/gate.h"
#include "protocol/message/http_parser_backend.h"
#include "protocol/message/request.h"
#include "test/support.h"

#define MAX_BODY 1000

static const struct weir__gate_limits usual = {.max_line = 8192, .max_head = 32768, .max_fields = 256};

static const char *const good_heads[] = {
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nPOST /a/b?c=d HTTP/1.1\r\nHost: example.org:8080\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\nhello, world",
        "GET http://b/c HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.2\r\nHost: [::1]\r\nX:\r\nY: \xc3\xa4\t\"z\" \r\n\r\n",
        "PUT /%41%2f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\nAccept: */*;q=0.8, text/html\r\n\r\n",
        "M-SEARCH / HTTP/1.1\r\nHost:a\r\nContent-Length:\t5\t\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello",
};

#define GOOD_HEADS (sizeof good_heads / sizeof *good_heads)
#define MUTANT_MAX 1000

struct mutant {
        char data[MUTANT_MAX];
        size_t size;
};

static char
random_byte(struct weir_test_random *random)
{
        static const char usual_ones[] = "\r\n\r\n  \t::;,/?%#*@[]\"\x7f\x80\xff\x01\x0b"
                                         "0123456789aAzZHTTP.-_";

        if (weir_test_random_below(random, 4) == 0) {
                return (char)weir_test_random_below(random, 256);
        }
        return usual_ones[weir_test_random_below(random, sizeof usual_ones)]; /* its NUL is one of them */
}

/* Puts `size` bytes in the place of `removed` ones at `at`. */
static void
replace(struct mutant *mutant, size_t at, size_t removed, const char *bytes, size_t size)
{
        if (at + removed > mutant->size || mutant->size - removed + size > MUTANT_MAX) {
                return;
        }
        memmove(mutant->data + at + size, mutant->data + at + removed, mutant->size - at - removed);
        if (size > 0) {
                memcpy(mutant->data + at, bytes, size);
        }
        mutant->size += size - removed;
}

static void
change(struct mutant *mutant, struct weir_test_random *random)
{
        size_t at = weir_test_random_below(random, mutant->size + 1), size = 1 + weir_test_random_below(random, 30);
        char byte = random_byte(random), copy[30];
        const char *other;

        switch (weir_test_random_below(random, 6)) {
        case 0: replace(mutant, at, 1, &byte, 1); break;
        case 1: replace(mutant, at, 0, &byte, 1); break;
        case 2: replace(mutant, at, 1, NULL, 0); break;
        case 3: replace(mutant, at, size, NULL, 0); break;
        case 4: /* a piece of it once more, elsewhere */
                if (size <= mutant->size) {
                        memcpy(copy, mutant->data + weir_test_random_below(random, mutant->size - size + 1), size);
                        replace(mutant, at, 0, copy, size);
                }
                break;
        default: /* a line of another head, where a line ends */
                other = strchr(good_heads[weir_test_random_below(random, GOOD_HEADS)] + 2, '\n') + 1;
                for (; at > 0 && (at == mutant->size || mutant->data[at - 1] != '\n'); at--) {
                        continue;
                }
                replace(mutant, at, 0, other, (size_t)(strchr(other, '\n') + 1 - other));
                break;
        }
}

static void
mutate(struct mutant *mutant, struct weir_test_random *random)
{
        const char *head = good_heads[weir_test_random_below(random, GOOD_HEADS)];

        mutant->size = strlen(head);
        memcpy(mutant->data, head, mutant->size);
        for (uint64_t changes = weir_test_random_below(random, 4); changes > 0; changes--) {
                change(mutant, random);
        }
}

/* How the gate judges the mutant when its bytes come in pieces of at most `piece` bytes. */
static int
judge(const struct mutant *mutant, size_t piece, struct weir_test_random *random, struct weir__gate *gate, size_t *head_size)
{
        int r = WEIR__GATE_MORE;

        *gate = (struct weir__gate){.scanned = 0};
        for (size_t size = 0; r == WEIR__GATE_MORE && size < mutant->size;) {
                char *copy;

                size += 1 + weir_test_random_below(random, piece);
                size = size < mutant->size ? size : mutant->size;
                copy = malloc(size);
                memcpy(copy, mutant->data, size);
                r = weir__gate_feed(gate, &usual, copy, size, head_size);
                free(copy);
        }
        return r;
}

/* The language of the gate once more, as a regular expression.  Bytes above 127 match negated classes only. */
static const char grammar_text[] = "^(\r\n)?([!#$%&'*+.^_`|~0-9A-Za-z-]+) [!-\"$-~]+ HTTP/1\\.[0-9]\r\n"
                                   "([!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x01-\x08\x0a-\x1f\x7f]*\r\n)*\r\n";

static bool
verdict_is_the_grammars(const struct mutant *mutant, const regex_t *grammar, int verdict, size_t head_size)
{
        static const char known[] = " GET POST OPTIONS PUT M-SEARCH HEAD ";
        regmatch_t match[3];
        char text[MUTANT_MAX + 1], method[MUTANT_MAX + 3];

        if (memchr(mutant->data, '\0', mutant->size)) {
                return verdict != WEIR__GATE_HEAD || !memchr(mutant->data, '\0', head_size);
        }
        memcpy(text, mutant->data, mutant->size);
        text[mutant->size] = '\0';
        if (regexec(grammar, text, 3, match, 0) != 0) {
                return verdict != WEIR__GATE_HEAD;
        }
        snprintf(method, sizeof method, " %.*s ", (int)(match[2].rm_eo - match[2].rm_so), text + match[2].rm_so);
        return verdict == 501 ? !strstr(known, method) : verdict == WEIR__GATE_HEAD && head_size == (size_t)match[0].rm_eo;
}

static bool
is_inside(struct weir__slice slice, size_t begin, size_t end)
{
        return slice.at >= begin && slice.at <= end && slice.size <= end - slice.at;
}

/* Whether the slices lie in the head, in order and apart. */
static bool
slices_are_in_order(const struct weir__parsed_head *parsed, size_t size)
{
        size_t begin = 0;

        if (!is_inside(parsed->method, 0, size) || parsed->target.at != parsed->method.at + parsed->method.size + 1 ||
            !is_inside(parsed->target, 0, size)) {
                return false;
        }
        begin = parsed->target.at + parsed->target.size + sizeof " HTTP/1.1\r";
        for (uint32_t i = 0; i < parsed->field_count; i++) {
                const struct weir__parsed_field *field = &parsed->fields[i];

                if (field->name.size == 0 || !is_inside(field->name, begin, size) ||
                    !is_inside(field->value, field->name.at + field->name.size, size - 4)) {
                        return false;
                }
                begin = field->value.at + field->value.size + 2;
        }
        return true;
}

/* The parser has reasons of its own only in the framing and in targets that are not paths. */
static bool
may_be_refused(const char *head, size_t size)
{
        char lower[MUTANT_MAX + 1];
        const char *target;

        for (size_t i = 0; i < size; i++) {
                lower[i] = (char)(head[i] >= 'A' && head[i] <= 'Z' ? head[i] + 32 : head[i]);
        }
        lower[size] = '\0';
        target = strchr(lower, ' ') + 1;
        return *target != '/' || strstr(lower, "content-length:") || strstr(lower, "transfer-encoding:");
}

/* A head that the gate has passed, in memory of just its size, is parsed and made a request.  Returns whether all holds
 * together. */
static bool
parses(const char *head, size_t size, const struct weir__gate *gate, unsigned *served)
{
        struct weir__parsed_field fields[MUTANT_MAX];
        struct weir__parsed_head parsed = {.fields = fields, .field_room = gate->fields};
        struct weir__request *request = NULL;
        bool is_right;
        int r = weir__http_parse_head(WEIR__MESSAGE_REQUEST, &parsed, head, size);

        if (r != 0) {
                return r == 400 && may_be_refused(head, size) && weir__request_new(head, size, MAX_BODY, malloc, &request) == 400;
        }
        is_right = parsed.field_count == gate->fields && slices_are_in_order(&parsed, size);
        r = weir__request_new(head, size, MAX_BODY, malloc, &request);
        if (r != 0) {
                return is_right && (r == 400 || r == 413 || r == 417 || r == 501) && !request;
        }
        ++*served;
        is_right = is_right && request->field_count == gate->fields && strlen(request->target) == parsed.target.size &&
                   strlen(request->method) == parsed.method.size && strlen(request->path) <= parsed.target.size &&
                   request->content_length <= MAX_BODY && !memchr(request->host, ' ', strlen(request->host));
        for (uint32_t i = 0; is_right && i < request->field_count; i++) {
                is_right = strlen(request->fields[i].name) == fields[i].name.size &&
                           strlen(request->fields[i].value) == fields[i].value.size;
        }
        free(request);
        return is_right;
}

static void
print_mutant(const struct mutant *mutant)
{
        printf("\n  ");
        for (size_t i = 0; i < mutant->size; i++) {
                unsigned char byte = (unsigned char)mutant->data[i];

                printf(byte >= 0x20 && byte < 0x7f && byte != '\\' ? "%c" : "\\x%02x", byte);
        }
        printf("\n");
}

static bool
mutant_is_judged_well(const struct mutant *mutant, const regex_t *grammar, struct weir_test_random *random, unsigned *served)
{
        struct weir__gate gate, another;
        size_t head_size = 0, other_size = 0;
        int verdict = judge(mutant, 1, random, &gate, &head_size);
        char *head;
        bool is_right;

        for (size_t piece = 2; piece <= 2048; piece *= 8) {
                if (judge(mutant, piece, random, &another, &other_size) != verdict || other_size != head_size) {
                        return false;
                }
        }
        if (!verdict_is_the_grammars(mutant, grammar, verdict, head_size)) {
                return false;
        }
        if (verdict != WEIR__GATE_HEAD) {
                return head_size == 0;
        }
        head = malloc(head_size);
        memcpy(head, mutant->data, head_size);
        is_right = parses(head, head_size, &gate, served);
        free(head);
        return is_right;
}

static void
random_heads_get_one_verdict_however_they_are_cut(void)
{
        unsigned rounds = WEIR_TEST_SANITIZED ? 20000 : 100000, wrong = 0, served = 0;
        struct weir_test_random random = {.state = weir_test_seed()};
        struct mutant mutant;
        regex_t grammar;

        CU_ASSERT_EQUAL_FATAL(regcomp(&grammar, grammar_text, REG_EXTENDED), 0);
        for (unsigned round = 0; round < rounds && wrong == 0; round++) {
                mutate(&mutant, &random);
                if (!mutant_is_judged_well(&mutant, &grammar, &random, &served)) {
                        wrong++;
                        print_mutant(&mutant);
                }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(served > rounds / 10); /* else the changes are too wild to say anything */
        CU_ASSERT(served < rounds / 2);
        regfree(&grammar);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(random_heads_get_one_verdict_however_they_are_cut),
        };

        return weir_test_main("mutants", tests, sizeof tests / sizeof *tests);
}
