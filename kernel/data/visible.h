/* kernel/data/visible.h: characters in a text of any bytes, and which of them can be shown to people as they are. */
#ifndef WEIR_KERNEL_VISIBLE_H
#define WEIR_KERNEL_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The length of the character of UTF-8 (RFC 3629) with which a text of `size` bytes begins, at least one byte.  0: there is none.
 * More than `size`: it may have been cut off. */
static inline unsigned
weir__utf8_character(const char *text, size_t size)
{
        static const unsigned char lowest[5] = {0, 0, 0x80, 0xa0, 0x90}; /* of the second byte, behind the least first one */
        const unsigned char *byte = (const unsigned char *)text;
        unsigned char lead = byte[0];
        unsigned length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;

        for (unsigned i = 1; i < length && i < size; i++)
                if ((byte[i] & 0xc0) != 0x80)
                        return 0;
        if (length > 2 && size > 1 &&
            (((lead & 0x0f) == 0 && byte[1] < lowest[length]) || (lead == 0xed && byte[1] >= 0xa0) ||
             (lead == 0xf4 && byte[1] >= 0x90)))
                return 0;
        return length;
}

/* Whether the character can do more than be shown: steer a terminal, end a line, or turn its direction.  These are the control
 * characters, U+2028 and U+2029, U+202A to U+202E, and U+2066 to U+2069. */
static inline bool
weir__character_steers(const char *text, unsigned length)
{
        const unsigned char *byte = (const unsigned char *)text;

        if (length == 3 && byte[0] == 0xe2)
                return (byte[1] == 0x80 && byte[2] >= 0xa8 && byte[2] <= 0xae) ||
                       (byte[1] == 0x81 && byte[2] >= 0xa6 && byte[2] <= 0xa9);
        return byte[0] < ' ' || byte[0] == 0x7f || (length == 2 && byte[0] == 0xc2 && byte[1] < 0xa0);
}

/* The length of the character with which a text of `size` bytes begins.  0: there is none, or one of those. */
static inline unsigned
weir__visible_character(const char *text, size_t size)
{
        unsigned length = size ? weir__utf8_character(text, size) : 0;

        return length > size || (length && weir__character_steers(text, length)) ? 0 : length;
}

#define WEIR__VISIBLE_PIECE 5 /* bytes, with the NUL */

/* Writes to `piece` the first character of the text from `*at` on as it is shown on a line: itself, a doubled backslash, or \x1b
 * and the like.  At least one byte of `size` is left.  Moves `*at` behind it and returns the length of the piece. */
static inline unsigned
weir__visible_piece(const char *text, size_t size, size_t *at, char piece[WEIR__VISIBLE_PIECE])
{
        const char *from = text + *at;
        unsigned length = *from == '\\' ? 0 : weir__visible_character(from, size - *at);

        *at += length ? length : 1;
        if (length)
                memcpy(piece, from, length);
        else if (*from == '\\')
                length = (unsigned)sprintf(piece, "\\\\");
        else
                length = (unsigned)sprintf(piece, "\\x%02x", (unsigned char)*from);
        return length;
}

/* How many of the bytes of a text of `size` to keep, at most `most`, so that no character is cut. */
static inline size_t
weir__utf8_cut(const char *text, size_t size, size_t most)
{
        if (size <= most)
                return size;
        for (size_t back = 1; back < 4 && back <= most; back++)
                if (weir__utf8_character(text + most - back, back) > back)
                        return most - back;
        return most;
}

#endif
