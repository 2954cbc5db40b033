/* protocol/text/bytes.c: classes of bytes in HTTP, comparison without case, and lists between commas.
 *
 * Threads: any; constant data and pure functions.  No locks. */
#include "protocol/text/bytes.h"

#include <string.h>

/* One letter for each combination of classes that occurs. */
#define o 0                                                                           /* CTL but HTAB: nowhere */
#define V WEIR__BYTE_VALUE                                                            /* HTAB, SP, obs-text */
#define P (WEIR__BYTE_VALUE | WEIR__BYTE_TARGET)                                      /* " < > \ { } */
#define U (P | WEIR__BYTE_DELIMITER)                                                  /* / : ? @ [ ] */
#define S (WEIR__BYTE_VALUE | WEIR__BYTE_TARGET | WEIR__BYTE_NAME)                    /* ( ) , ; = */
#define H (WEIR__BYTE_VALUE | WEIR__BYTE_TOKEN | WEIR__BYTE_DELIMITER)                /* # */
#define T (WEIR__BYTE_VALUE | WEIR__BYTE_TOKEN | WEIR__BYTE_TARGET)                   /* % ^ ` | */
#define N (WEIR__BYTE_VALUE | WEIR__BYTE_TOKEN | WEIR__BYTE_TARGET | WEIR__BYTE_NAME) /* G-Z g-z ! $ & ' * + - . _ ~ */
#define X (N | WEIR__BYTE_HEX)                                                        /* A-F a-f */
#define D (N | WEIR__BYTE_HEX | WEIR__BYTE_DIGIT)                                     /* 0-9 */

const unsigned char weir__byte_classes[256] = {
        o, o, o, o, o, o, o, o, o, V, o, o, o, o, o, o, /* 00: HTAB */
        o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, /* 10 */
        V, N, P, H, N, T, N, N, S, S, N, N, S, N, N, U, /* 20: SP ! " # $ % & ' ( ) * + , - . / */
        D, D, D, D, D, D, D, D, D, D, U, S, P, S, P, U, /* 30: 0-9 : ; < = > ? */
        U, X, X, X, X, X, X, N, N, N, N, N, N, N, N, N, /* 40: @ A-O */
        N, N, N, N, N, N, N, N, N, N, N, U, P, U, T, N, /* 50: P-Z [ \ ] ^ _ */
        T, X, X, X, X, X, X, N, N, N, N, N, N, N, N, N, /* 60: ` a-o */
        N, N, N, N, N, N, N, N, N, N, N, P, T, P, N, o, /* 70: p-z { | } ~ DEL */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 80: obs-text from here on */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* 90 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* a0 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* b0 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* c0 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* d0 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* e0 */
        V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, V, /* f0 */
};

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether any of the eight bytes is a CTL.  Source: Alan Mycroft's test for a zero byte, as in "Bit Twiddling Hacks". */
static inline bool
has_control(uint64_t bytes)
{
        uint64_t below_space = (bytes - EACH(0x20)) & ~bytes, no_delete = bytes ^ EACH(0x7f);

        return ((below_space | ((no_delete - EACH(1)) & ~no_delete)) & EACH(0x80)) != 0;
}

size_t
weir__bytes_value_part(const char *text, size_t size)
{
        size_t part = 0;

        for (uint64_t bytes; size - part >= sizeof bytes; part += sizeof bytes) {
                memcpy(&bytes, text + part, sizeof bytes);
                if (has_control(bytes))
                        break;
        }
        return part;
}

static inline unsigned char
lower(char byte)
{
        return (unsigned char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
}

bool
weir__bytes_equal(const char *one, const char *other, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (one[i] != other[i] && lower(one[i]) != lower(other[i]))
                        return false;
        return true;
}

static unsigned
hex_value(char digit)
{
        return (unsigned)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

char
weir__bytes_unescape(const char *escape)
{
        return (char)(hex_value(escape[1]) << 4 | hex_value(escape[2]));
}

void
weir__bytes_trim(const char **text, size_t *size)
{
        while (*size > 0 && weir__byte_is_space((*text)[*size - 1]))
                --*size;
        while (*size > 0 && weir__byte_is_space(**text)) {
                ++*text;
                --*size;
        }
}

size_t
weir__bytes_number(const char *text, size_t size, uint64_t *ret_number)
{
        size_t digits = weir__bytes_span(text, size, WEIR__BYTE_DIGIT);
        uint64_t number = 0;

        for (size_t i = 0; i < digits; i++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number)) {
                        number = UINT64_MAX;
                        break;
                }
        *ret_number = number;
        return digits;
}

bool
weir__bytes_next_part(const char **text, size_t *text_size, char separator, const char **part, size_t *part_size)
{
        while (*text_size > 0) {
                const char *end = memchr(*text, separator, *text_size);

                *part = *text;
                *part_size = end ? (size_t)(end - *text) : *text_size;
                *text += *part_size + (end != NULL);
                *text_size -= *part_size + (end != NULL);
                if (*part_size > 0)
                        return true;
        }
        return false;
}

bool
weir__bytes_next_member(const char **list, size_t *list_size, const char **member, size_t *member_size)
{
        while (weir__bytes_next_part(list, list_size, ',', member, member_size)) {
                weir__bytes_trim(member, member_size);
                if (*member_size > 0)
                        return true;
        }
        return false;
}

bool
weir__bytes_list_has(const char *list, size_t size, const char *word)
{
        size_t member_size, word_size = strlen(word);
        const char *member;

        while (weir__bytes_next_member(&list, &size, &member, &member_size))
                if (member_size == word_size && weir__bytes_equal(member, word, word_size))
                        return true;
        return false;
}

void
weir__bytes_base64(char *out, const void *data, size_t size)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const unsigned char *at = data;

        for (; size > 0; at += 3, size -= size < 3 ? size : 3, out += 4) {
                uint32_t group = (uint32_t)at[0] << 16 | (size > 1 ? (uint32_t)at[1] << 8 : 0) | (size > 2 ? at[2] : 0U);

                out[0] = digits[group >> 18];
                out[1] = digits[group >> 12 & 63];
                out[2] = size > 1 ? digits[group >> 6 & 63] : '=';
                out[3] = size > 2 ? digits[group & 63] : '=';
        }
        *out = '\0';
}
