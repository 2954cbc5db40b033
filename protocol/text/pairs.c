/* protocol/text/pairs.c: names and their values, in one piece of memory.
 *
 * Threads: written by the thread that makes them and only read after.  No locks. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/pairs.h"

struct weir__pairs *
weir__pairs_new(size_t room, size_t text_size, char **ret_text)
{
        struct weir__pairs *pairs;
        size_t size;

        if (__builtin_mul_overflow(room, sizeof *pairs->pairs, &size) || __builtin_add_overflow(size, sizeof *pairs, &size) ||
            text_size > SIZE_MAX - size)
                return NULL;
        pairs = malloc(size + text_size);
        if (!pairs)
                return NULL;
        *pairs = (struct weir__pairs){.count = 0};
        *ret_text = (char *)pairs + size;
        return pairs;
}

const char *
weir__pairs_value(const struct weir__pairs *pairs, const char *name)
{
        for (size_t i = 0; pairs && i < pairs->count; i++)
                if (strcmp(pairs->pairs[i].name, name) == 0)
                        return pairs->pairs[i].value;
        return NULL;
}

int
weir__pairs_at(const struct weir__pairs *pairs, size_t index, const char **ret_name, const char **ret_value)
{
        if (!pairs || index >= pairs->count)
                return pairs && pairs->has_more ? -E2BIG : -ENOENT;
        if (ret_name)
                *ret_name = pairs->pairs[index].name;
        if (ret_value)
                *ret_value = pairs->pairs[index].value;
        return 0;
}
