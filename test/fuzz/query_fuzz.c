/* test/fuzz/query_fuzz.c: queries and forms, against a reader that decodes one part at a time; and written again.
 *
 * The first byte of an input is the limit of pairs.  What must hold:
 *
 * - The pairs, and whether there are more, are those that the second reader finds, and are found by index and by name.
 * - Each pair, encoded as a stranger might do it and read again, is itself.
 * - Whether the text, taken for a Content-Type, is that of a form. */
#include <errno.h>

#include "protocol/route/query.h"
#include "test/fuzz/fuzz.h"

/* Decodes a text.  Returns false when there is a NUL in it. */
static bool
decode(struct fuzz_input text, char *out)
{
        while (text.size > 0) {
                int escape = fuzz_escape(text);
                size_t taken = escape >= 0 ? 3 : 1;

                *out = (char)(escape >= 0 ? escape : *text.at == '+' ? ' ' : *text.at);
                if (*out++ == '\0') {
                        return false;
                }
                text.at += taken;
                text.size -= taken;
        }
        *out = '\0';
        return true;
}

static void
check_pair(const struct weir__pairs *pairs, size_t index, const char *name, const char *value)
{
        const char *found_name = NULL, *found_value = NULL;
        size_t first = 0;

        FUZZ_CHECK(weir__pairs_at(pairs, index, &found_name, &found_value) == 0);
        FUZZ_CHECK(strcmp(found_name, name) == 0 && strcmp(found_value, value) == 0);
        while (strcmp(pairs->pairs[first].name, name) != 0) {
                first++;
        }
        FUZZ_CHECK(weir__pairs_value(pairs, name) == pairs->pairs[first].value);
}

/* Reads the text part by part beside what the library made of it. */
static void
check_pairs(const struct weir__pairs *pairs, struct fuzz_input text, size_t max)
{
        char *name = malloc(text.size + 1), *value = malloc(text.size + 1);
        size_t parts = 0, index = 0;

        while (text.size > 0) {
                struct fuzz_input part = fuzz_take_until(&text, '&');

                if (part.size == 0 || parts++ >= max) {
                        continue;
                }
                struct fuzz_input its_name = fuzz_take_until(&part, '=');
                if (decode(its_name, name) && decode(part, value)) {
                        check_pair(pairs, index++, name, value);
                }
        }
        FUZZ_CHECK(pairs->count == index && pairs->has_more == (parts > max));
        FUZZ_CHECK(weir__pairs_at(pairs, index, NULL, NULL) == (parts > max ? -E2BIG : -ENOENT));
        free(name);
        free(value);
}

/* Encodes what has to be, and some of what need not. */
static char *
encode(char *out, const char *text, unsigned taste)
{
        for (; *text; text++) {
                unsigned char byte = (unsigned char)*text;

                if (byte == ' ' && taste % 2) {
                        *out++ = '+';
                } else if (strchr("%+&=", byte) || (byte ^ taste) % 5 == 0) {
                        out += sprintf(out, taste % 3 ? "%%%02x" : "%%%02X", byte);
                } else {
                        *out++ = (char)byte;
                }
        }
        return out;
}

static void
check_again(const struct weir__pairs *pairs, size_t size, unsigned taste)
{
        char *text = malloc(3 * size + 2 * pairs->count + 1), *out = text, *exact;
        struct weir__pairs *again;

        for (size_t i = 0; i < pairs->count; i++) {
                out = encode(out, pairs->pairs[i].name, taste);
                *out++ = '=';
                out = encode(out, pairs->pairs[i].value, taste);
                *out++ = '&';
        }
        exact = fuzz_copy(text, (size_t)(out - text));
        FUZZ_CHECK(weir__query_parse(exact, (size_t)(out - text), SIZE_MAX, &again) == 0);
        FUZZ_CHECK(again->count == pairs->count && !again->has_more);
        for (size_t i = 0; i < pairs->count; i++) {
                FUZZ_CHECK(strcmp(again->pairs[i].name, pairs->pairs[i].name) == 0);
                FUZZ_CHECK(strcmp(again->pairs[i].value, pairs->pairs[i].value) == 0);
        }
        free(again);
        free(exact);
        free(text);
}

static void
check_type(struct fuzz_input text)
{
        char *string = fuzz_string(text);
        struct fuzz_input type = {string, strlen(string)};
        bool expected = fuzz_is_in_any_case(fuzz_trim(fuzz_take_until(&type, ';')), "application/x-www-form-urlencoded");

        FUZZ_CHECK(weir__query_is_type(string) == expected);
        free(string);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input text = fuzz_input(data, size);
        unsigned char first = fuzz_take_byte(&text);
        size_t max = first >= 'a' ? SIZE_MAX : first % 16;
        struct weir__pairs *pairs;
        char *copy = fuzz_copy(text.at, text.size);

        FUZZ_CHECK(weir__query_parse(copy, text.size, max, &pairs) == 0);
        free(copy);
        check_pairs(pairs, text, max);
        check_again(pairs, text.size, first);
        check_type(text);
        free(pairs);
        return 0;
}
