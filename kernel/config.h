/* kernel/config.h: reading a struct that a program filled, which may be older or newer than this library.
 *
 * Such a struct begins with `size_t size`: how much of it the program knows. */
#ifndef WEIR_KERNEL_CONFIG_H
#define WEIR_KERNEL_CONFIG_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define WEIR__CONFIG_MAX 4096 /* no struct of ours will ever be larger: what claims to be was not initialised */

/* Copies to `to`, whose `to_size` bytes are zero, what the program knows of it.  What it knows and we do not must be zero.
 * Result:  0 or -EINVAL. */
static inline int
weir__config_read(void *to, size_t to_size, const void *from)
{
        size_t size;

        memcpy(&size, from, sizeof size);
        if (size < sizeof size || size > WEIR__CONFIG_MAX)
                return -EINVAL;
        for (size_t i = to_size; i < size; i++)
                if (((const char *)from)[i])
                        return -EINVAL;
        memcpy(to, from, size < to_size ? size : to_size);
        return 0;
}

#endif
