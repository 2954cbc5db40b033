/* durable/text.h: which characters of a name may be shown: it may have been chosen by a stranger. */
#ifndef WEIR_DURABLE_TEXT_H
#define WEIR_DURABLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes of the character at the beginning of a text; 0: they are no UTF-8. */
static inline unsigned
weir__durable_read_character(const char *text, uint32_t *code)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        const unsigned char *byte = (const unsigned char *)text;
        unsigned size = *byte < 0x80 ? 1 : *byte < 0xc2 ? 0 : *byte < 0xe0 ? 2 : *byte < 0xf0 ? 3 : *byte < 0xf5 ? 4 : 0;

        *code = size == 1 ? *byte : *byte & (0xffu >> (size + 1));
        for (unsigned i = 1; i < size; i++) {
                if ((byte[i] & 0xc0) != 0x80)
                        return 0;
                *code = *code << 6 | (byte[i] & 0x3f);
        }
        return size && *code >= least[size] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff) ? size : 0;
}

/* Controls, and what turns the direction of a line or stands for nothing, are not. */
static inline bool
weir__durable_is_visible(uint32_t code)
{
        return code >= ' ' && (code < 0x7f || code > 0x9f) && (code < 0x200b || code > 0x200f) &&
               (code < 0x2028 || code > 0x202e) && (code < 0x2060 || code > 0x206f) && code != 0xfeff && code != 0xad;
}

#endif
