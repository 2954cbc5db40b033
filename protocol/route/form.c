/* protocol/route/form.c: percent-coding, and application/x-www-form-urlencoded, which query.c reads.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/route/form.h"
#include "protocol/route/query.h"
#include "protocol/text/bytes.h"

/* Adds to a size, which stays SIZE_MAX when it is too large. */
static void
grow(size_t *size, size_t more)
{
        if (__builtin_add_overflow(*size, more, size))
                *size = SIZE_MAX;
}

/* -- percent-coding -- */

static bool
is_plain(unsigned char byte, bool is_form)
{
        if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9'))
                return true;
        return byte == '-' || byte == '.' || byte == '_' || byte == (is_form ? '*' : '~');
}

/* The form of a byte.  Returns its size. */
static size_t
escape(char piece[3], unsigned char byte, bool is_form)
{
        static const char digits[] = "0123456789ABCDEF";

        piece[0] = is_form && byte == ' ' ? '+' : (char)byte;
        if (piece[0] == '+' && byte == ' ')
                return 1;
        if (is_plain(byte, is_form))
                return 1;
        piece[0] = '%';
        piece[1] = digits[byte >> 4];
        piece[2] = digits[byte & 15];
        return 3;
}

/* Writes what fits before `room`, and a NUL.  Returns the length of the whole. */
static size_t
encode(char *out, size_t room, const unsigned char *data, size_t size, bool is_form)
{
        size_t whole = 0, written = 0;

        for (size_t i = 0; i < size; i++) {
                char piece[3];
                size_t more = escape(piece, data[i], is_form);

                if (written == whole && written < room && more < room - written) {
                        memcpy(out + written, piece, more);
                        written += more;
                }
                grow(&whole, more);
        }
        if (room > 0)
                out[written] = '\0';
        return whole;
}

/* Memory for a text of that length and its NUL. */
static char *
new_text(size_t size)
{
        char *text = size < SIZE_MAX ? malloc(size + 1) : NULL;

        if (!text)
                errno = ENOMEM;
        return text;
}

char *
weir_percent_encode(const void *data, size_t size)
{
        size_t whole = encode(NULL, 0, data, size, false);
        char *text = new_text(whole);

        if (text)
                encode(text, whole + 1, data, size, false);
        return text;
}

size_t
weir_percent_encode_to(char *buffer, size_t room, const void *data, size_t size)
{
        return encode(buffer, room, data, size, false);
}

/* The length of a text when it is decoded; -EINVAL for an invalid escape. */
static ssize_t
decoded_size(const char *text, size_t size)
{
        size_t whole = 0;

        for (size_t i = 0; i < size; i++, whole++) {
                if (text[i] != '%')
                        continue;
                if (!weir__bytes_are_escape(text + i, size - i))
                        return -EINVAL;
                i += 2;
        }
        return (ssize_t)whole;
}

ssize_t
weir_percent_decode_to(char *buffer, size_t room, const char *text, size_t size)
{
        ssize_t whole = decoded_size(text, size);
        size_t written = 0;

        if (whole < 0 || room == 0)
                return whole;
        for (size_t i = 0; i < size && written < room - 1; i++) {
                bool is_escape = text[i] == '%';

                buffer[written++] = is_escape ? weir__bytes_unescape(text + i) : text[i];
                i += is_escape ? 2 : 0;
        }
        buffer[written] = '\0';
        return whole;
}

char *
weir_percent_decode(const char *text, size_t size, size_t *ret_size)
{
        ssize_t whole = decoded_size(text, size);

        if (whole < 0) {
                errno = EINVAL;
                return NULL;
        }
        char *decoded = new_text((size_t)whole);
        if (!decoded)
                return NULL;
        weir_percent_decode_to(decoded, (size_t)whole + 1, text, size);
        if (!ret_size && memchr(decoded, '\0', (size_t)whole)) {
                free(decoded);
                errno = EINVAL;
                return NULL;
        }
        if (ret_size)
                *ret_size = (size_t)whole;
        return decoded;
}

/* -- forms -- */

static void
add_text(char *out, size_t *size, const char *text)
{
        grow(size, encode(out ? out + *size : NULL, out ? SIZE_MAX : 0, (const unsigned char *)text, strlen(text), true));
}

static void
add_mark(char *out, size_t *size, char mark)
{
        if (out)
                out[*size] = mark;
        grow(size, 1);
}

size_t
weir__form_write(char *out, const struct weir_form_pair *pairs)
{
        size_t size = 0;

        if (out)
                *out = '\0';
        for (const struct weir_form_pair *pair = pairs; pair->name; pair++) {
                if (pair > pairs)
                        add_mark(out, &size, '&');
                add_text(out, &size, pair->name);
                if (!pair->value)
                        continue;
                add_mark(out, &size, '=');
                add_text(out, &size, pair->value);
        }
        return size;
}

char *
weir_form_encode(const struct weir_form_pair *pairs)
{
        char *text = new_text(weir__form_write(NULL, pairs));

        if (text)
                weir__form_write(text, pairs);
        return text;
}

/* A weir_form is a struct weir__pairs. */
static const struct weir__pairs *
pairs_of(const weir_form *form)
{
        return (const struct weir__pairs *)form;
}

weir_form *
weir_form_parse(const char *text, size_t size, size_t max)
{
        struct weir__pairs *pairs = NULL;

        if (weir__query_parse(text, size, max, &pairs) != 0)
                errno = ENOMEM;
        return (weir_form *)pairs;
}

const char *
weir_form_value(const weir_form *form, const char *name)
{
        return name ? weir__pairs_value(pairs_of(form), name) : NULL;
}

int
weir_form_at(const weir_form *form, size_t index, const char **ret_name, const char **ret_value)
{
        return weir__pairs_at(pairs_of(form), index, ret_name, ret_value);
}

void
weir_form_free(weir_form *form)
{
        free(form);
}
