/* protocol/text/bytes.h: classes of bytes in HTTP, comparison without case, and lists between commas.  Pure functions. */
#ifndef WEIR_PROTOCOL_BYTES_H
#define WEIR_PROTOCOL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        WEIR__BYTE_TOKEN = 1,      /* tchar.  Source: RFC 9110 section 5.6.2 */
        WEIR__BYTE_TARGET = 2,     /* visible ASCII but '#': accepted in a request target */
        WEIR__BYTE_VALUE = 4,      /* field-vchar, SP and HTAB.  Source: RFC 9110 section 5.5 */
        WEIR__BYTE_NAME = 8,       /* reg-name but '%': unreserved and sub-delims.  Source: RFC 3986 section 3.2.2 */
        WEIR__BYTE_HEX = 16,       /* HEXDIG, in both cases */
        WEIR__BYTE_DIGIT = 32,     /* DIGIT */
        WEIR__BYTE_DELIMITER = 64, /* gen-delims.  Source: RFC 3986 section 2.2 */
};

/* For each byte the classes it is in. */
extern const unsigned char weir__byte_classes[256] __attribute__((visibility("hidden")));

static inline bool weir__byte_is(char byte, unsigned classes)
{
        return (weir__byte_classes[(unsigned char)byte] & classes) != 0;
}

static inline bool weir__byte_is_space(char byte) /* SP or HTAB */
{
        return byte == ' ' || byte == '\t';
}

/* The size of a part at the beginning in which all bytes are WEIR__BYTE_VALUE.  Eight bytes are tested at once, so the part may
 * end early: at a HTAB, or before the last seven bytes. */
size_t weir__bytes_value_part(const char *text, size_t size);

/* The number of leading bytes that are in one of the classes. */
static inline size_t weir__bytes_span(const char *text, size_t size, unsigned classes)
{
        size_t span = classes & WEIR__BYTE_VALUE ? weir__bytes_value_part(text, size) : 0;

        while (span < size && weir__byte_is(text[span], classes))
                span++;
        return span;
}

/* Whether two runs of `size` bytes are equal when A is a. */
bool weir__bytes_equal(const char *one, const char *other, size_t size);

/* Whether the run is that word, a string literal. */
#define WEIR__BYTES_ARE(text, size, word) ((size) == sizeof(word) - 1 && weir__bytes_equal((text), (word), sizeof(word) - 1))

/* Whether the text begins with a percent sign and two hexadecimal digits. */
static inline bool weir__bytes_are_escape(const char *text, size_t size)
{
        return size >= 3 && text[0] == '%' && weir__byte_is(text[1], WEIR__BYTE_HEX) && weir__byte_is(text[2], WEIR__BYTE_HEX);
}

/* The byte that such an escape stands for. */
char weir__bytes_unescape(const char *escape);

/* Removes SP and HTAB at both ends. */
void weir__bytes_trim(const char **text, size_t *size);

/* Reads leading digits as a number, which is UINT64_MAX on overflow.  Returns how many there are. */
size_t weir__bytes_number(const char *text, size_t size, uint64_t *ret_number);

/* Takes the next part that is not empty off a text whose parts are between separators.  Returns false when none is left. */
bool weir__bytes_next_part(const char **text, size_t *text_size, char separator, const char **part, size_t *part_size);

/* Takes the next member off a list between commas, without the white space around it; empty members are skipped.
 *
 * Result: false when none is left.
 * Source: RFC 9110 section 5.6.1.  A comma inside a quoted string divides, too: no caller reads a list whose members may have
 *         one. */
bool weir__bytes_next_member(const char **list, size_t *list_size, const char **member, size_t *member_size);

/* Writes the bytes in base 64, with a NUL: WEIR__BASE64_SIZE of them in all.
 * Source: RFC 4648 section 4. */
#define WEIR__BASE64_SIZE(size) (((size) + 2) / 3 * 4 + 1)
void weir__bytes_base64(char *out, const void *data, size_t size);

/* Whether the word is a member of such a list, compared without case. */
bool weir__bytes_list_has(const char *list, size_t size, const char *word);

#endif
