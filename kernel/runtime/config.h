/* kernel/runtime/config.h: structs that a program fills, or has the library fill.  The program may have been built for an older
 * or a newer library.
 *
 * Such a struct begins with `size_t size`: how much of it the program knows. */
#ifndef WEIR_KERNEL_CONFIG_H
#define WEIR_KERNEL_CONFIG_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What a message says when weir__config_read fails. */
#define WEIR__CONFIG_EXPECTED(type, initializer) \
        "the size of the config is wrong, or it has unknown fields: expected struct " type " config = " initializer

/* The same for a struct that the library fills. */
#define WEIR__SIZE_EXPECTED(type) "the struct is NULL, or its size is wrong: expected struct " type " with its `size`"

#define WEIR__CONFIG_MAX 4096 /* none of our structs will ever be larger: a larger size was not initialised */

static inline bool
weir__config_has_size(const void *config)
{
        size_t size;

        memcpy(&size, config, sizeof size);
        return size >= sizeof size && size <= WEIR__CONFIG_MAX;
}

/* Copies the part that the program knows to `to`, whose `to_size` bytes are zero.  A part that only the program knows must be
 * zero.  Result:  0 or -EINVAL. */
static inline int
weir__config_read(void *to, size_t to_size, const void *from)
{
        size_t size;

        if (!weir__config_has_size(from))
                return -EINVAL;
        memcpy(&size, from, sizeof size);
        for (size_t i = to_size; i < size; i++)
                if (((const char *)from)[i])
                        return -EINVAL;
        memcpy(to, from, size < to_size ? size : to_size);
        return 0;
}

/* The other way: copies the part of `from` that the program knows to `to`, behind its size.  A part that only the program knows
 * becomes zero.  weir__config_has_size was true. */
static inline void
weir__config_write(void *to, size_t from_size, const void *from)
{
        size_t size, known;

        memcpy(&size, to, sizeof size);
        known = size < from_size ? size : from_size;
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size, known - sizeof size);
        memset((char *)to + known, 0, size - known);
}

#endif
