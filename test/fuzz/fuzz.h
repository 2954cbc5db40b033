/* test/fuzz/fuzz.h: the common part of the fuzz targets: their entry point, an assertion, and readers of the input.
 *
 * A target is handed bytes that nobody has chosen with care.  What it takes out of them lies in memory of its own, exactly as
 * large, so that a sanitizer sees an access beyond the end. */
#ifndef WEIR_TEST_FUZZ_H
#define WEIR_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Judges one input; does not come back when something is wrong.  Result: 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the build: a condition that must hold. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline _Noreturn void fuzz_fail(const char *condition, const char *file, int line)
{
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
        abort();
}

/* The rest of an input, or a piece of it. */
struct fuzz_input {
        const char *at;
        size_t size;
};

static inline struct fuzz_input fuzz_input(const uint8_t *data, size_t size)
{
        return (struct fuzz_input){.at = (const char *)data, .size = size};
}

/* The next byte; 0 when none is left. */
static inline unsigned char fuzz_take_byte(struct fuzz_input *input)
{
        if (input->size == 0) {
                return 0;
        }
        input->size--;
        return (unsigned char)*input->at++;
}

/* Takes the bytes before the next `byte`, and that one as well; all the rest if there is none. */
static inline struct fuzz_input fuzz_take_until(struct fuzz_input *input, char byte)
{
        const char *end = input->size ? memchr(input->at, byte, input->size) : NULL;
        struct fuzz_input part = {.at = input->at, .size = end ? (size_t)(end - input->at) : input->size};

        input->at += part.size + (end != NULL);
        input->size -= part.size + (end != NULL);
        return part;
}

static inline struct fuzz_input fuzz_take_line(struct fuzz_input *input)
{
        return fuzz_take_until(input, '\n');
}

/* Owner: the caller; free. */
static inline char *fuzz_copy(const char *data, size_t size)
{
        char *copy = calloc(1, size);

        FUZZ_CHECK(copy || size == 0);
        if (size > 0) {
                memcpy(copy, data, size);
        }
        return copy;
}

/* A copy that ends with a NUL, and at the first one. */
static inline char *fuzz_string(struct fuzz_input text)
{
        size_t size = strnlen(text.at, text.size);
        char *copy = malloc(size + 1);

        FUZZ_CHECK(copy);
        if (size > 0) {
                memcpy(copy, text.at, size);
        }
        copy[size] = '\0';
        return copy;
}

/* -- rules of HTTP for several oracles, written in another way than in the library -- */

static inline bool fuzz_is_token_byte(char byte)
{
        return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
               (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte));
}

static inline bool fuzz_is_token(struct fuzz_input text)
{
        for (size_t i = 0; i < text.size; i++) {
                if (!fuzz_is_token_byte(text.at[i])) {
                        return false;
                }
        }
        return text.size > 0;
}

static inline struct fuzz_input fuzz_trim(struct fuzz_input text)
{
        while (text.size > 0 && (*text.at == ' ' || *text.at == '\t')) {
                text.at++;
                text.size--;
        }
        while (text.size > 0 && (text.at[text.size - 1] == ' ' || text.at[text.size - 1] == '\t')) {
                text.size--;
        }
        return text;
}

/* Whether the text is that one, which has a NUL behind it. */
static inline bool fuzz_is(struct fuzz_input text, const char *other)
{
        return text.size == strlen(other) && (text.size == 0 || memcmp(text.at, other, text.size) == 0);
}

/* The same, A being a. */
static inline bool fuzz_is_in_any_case(struct fuzz_input text, const char *lower)
{
        if (text.size != strlen(lower)) {
                return false;
        }
        for (size_t i = 0; i < text.size; i++) {
                char byte = text.at[i];

                if ((byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte) != lower[i]) {
                        return false;
                }
        }
        return true;
}

/* The value of a hexadecimal digit; -1 for any other byte. */
static inline int fuzz_hex(char digit)
{
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *found = digit == '\0' ? NULL : strchr(digits, digit);

        return found ? (int)((found - digits) % 16) : -1;
}

/* The byte that an escape at the beginning of the text stands for; -1 when there is none. */
static inline int fuzz_escape(struct fuzz_input text)
{
        if (text.size < 3 || text.at[0] != '%' || fuzz_hex(text.at[1]) < 0 || fuzz_hex(text.at[2]) < 0) {
                return -1;
        }
        return 16 * fuzz_hex(text.at[1]) + fuzz_hex(text.at[2]);
}

#endif
