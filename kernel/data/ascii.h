/* kernel/data/ascii.h: letters and digits, whatever the locale of the process. */
#ifndef WEIR_KERNEL_ASCII_H
#define WEIR_KERNEL_ASCII_H

#include <stdbool.h>

static inline bool weir__is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static inline bool weir__is_letter(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline char weir__to_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

#endif
