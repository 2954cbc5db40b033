/* database/redis/encode.c: the bytes of commands, and words that are put together by a format. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

/* -- bytes -- */

static size_t
digits_of(size_t value)
{
        size_t digits = 1;

        while (value >= 10) {
                value /= 10;
                digits++;
        }
        return digits;
}

static char *
write_head(char *out, char type, size_t value)
{
        size_t digits = digits_of(value);

        *out++ = type;
        for (size_t at = digits; at--; value /= 10)
                out[at] = (char)('0' + value % 10);
        memcpy(out + digits, "\r\n", 2);
        return out + digits + 2;
}

static size_t
size_of(const char *const *arguments, const size_t *sizes, size_t index)
{
        return sizes ? sizes[index] : strlen(arguments[index]);
}

size_t
weir__redis_encoded_size(size_t count, const char *const *arguments, const size_t *sizes)
{
        size_t whole = 3 + digits_of(count);

        for (size_t i = 0; i < count; i++) {
                size_t size = size_of(arguments, sizes, i);

                whole += 5 + digits_of(size) + size;
        }
        return whole;
}

void
weir__redis_encode(char *out, size_t count, const char *const *arguments, const size_t *sizes)
{
        out = write_head(out, '*', count);
        for (size_t i = 0; i < count; i++) {
                size_t size = size_of(arguments, sizes, i);

                out = write_head(out, '$', size);
                if (size)
                        memcpy(out, arguments[i], size);
                memcpy(out + size, "\r\n", 2);
                out += size + 2;
        }
}

/* -- words -- */

void
weir__redis_words_add(struct weir__redis_words *words, const void *bytes, size_t size)
{
        if (words->fault)
                return;
        if (size > words->room - words->used) {
                size_t room = words->used + size + 256 + words->room / 2;
                char *text = room > size ? realloc(words->text, room) : NULL;

                if (!text) {
                        words->fault = -ENOMEM;
                        return;
                }
                words->text = text;
                words->room = room;
        }
        if (size)
                memcpy(words->text + words->used, bytes, size);
        words->used += size;
}

void
weir__redis_words_end(struct weir__redis_words *words)
{
        weir__redis_words_add(words, "", 1); /* its text ends with a NUL that is not counted */
        if (words->fault)
                return;
        if (words->count == words->ends_room) {
                size_t room = 8 + 2 * words->ends_room;
                size_t *ends = realloc(words->ends, room * sizeof *ends);

                if (!ends) {
                        words->fault = -ENOMEM;
                        return;
                }
                words->ends = ends;
                words->ends_room = room;
        }
        words->ends[words->count++] = words->used - 1;
}

/* Puts in what a conversion stands for.  Returns what is behind it; NULL: it is none. */
static const char *
convert(struct weir__redis_words *words, const char *at, va_list *arguments)
{
        char number[64];
        const void *bytes = number;
        size_t size;
        int written = 0;

        if (*at == '%') {
                weir__redis_words_add(words, "%", 1);
                return at + 1;
        }
        if (*at == 's') {
                const char *text = va_arg(*arguments, const char *);

                weir__redis_words_add(words, text ? text : "", text ? strlen(text) : 0);
                return at + 1;
        }
        if (*at == 'b') {
                bytes = va_arg(*arguments, const void *);
                size = va_arg(*arguments, size_t);
                weir__redis_words_add(words, bytes, size);
                return at + 1;
        }
        if (*at == 'd')
                written = snprintf(number, sizeof number, "%d", va_arg(*arguments, int));
        else if (*at == 'u')
                written = snprintf(number, sizeof number, "%u", va_arg(*arguments, unsigned));
        else if (*at == 'g')
                written = snprintf(number, sizeof number, "%.17g", va_arg(*arguments, double));
        else if (strncmp(at, "zu", 2) == 0)
                written = snprintf(number, sizeof number, "%zu", va_arg(*arguments, size_t)), at += 1;
        else if (strncmp(at, "lld", 3) == 0)
                written = snprintf(number, sizeof number, "%lld", va_arg(*arguments, long long)), at += 2;
        else if (strncmp(at, "llu", 3) == 0)
                written = snprintf(number, sizeof number, "%llu", va_arg(*arguments, unsigned long long)), at += 2;
        else
                return NULL;
        weir__redis_words_add(words, number, (size_t)written);
        return at + 1;
}

void
weir__redis_words_format(struct weir__redis_words *words, const char *format, va_list arguments)
{
        bool is_in_word = false;
        va_list rest;

        va_copy(rest, arguments);
        for (const char *at = format; *at && !words->fault;) {
                if (*at == ' ') {
                        if (is_in_word)
                                weir__redis_words_end(words);
                        is_in_word = false;
                        at++;
                        continue;
                }
                is_in_word = true;
                size_t plain = strcspn(at, " %");
                weir__redis_words_add(words, at, plain);
                at += plain;
                if (*at != '%')
                        continue;
                at = convert(words, at + 1, &rest);
                if (!at) {
                        words->fault = -EINVAL;
                        break;
                }
        }
        va_end(rest);
        if (is_in_word)
                weir__redis_words_end(words);
}

void
weir__redis_words_split(struct weir__redis_words *words, const char **texts)
{
        for (size_t i = 0, at = 0; i < words->count; i++) {
                size_t end = words->ends[i];

                texts[i] = words->text + at;
                words->ends[i] = end - at;
                at = end + 1;
        }
}

void
weir__redis_words_free(struct weir__redis_words *words)
{
        free(words->text);
        free(words->ends);
}
