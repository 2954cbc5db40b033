/* protocol/route/query.c: application/x-www-form-urlencoded, as in queries and forms.
 *
 * Decoded text is never longer than its source, with a NUL for each '=' and '&'.  So one pass that counts pairs finds the memory
 * that all of them need.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/route/query.h"

/* Writes the text, decoded, and a NUL.  Returns the end of that; NULL when there is another NUL in it. */
static char *
decode(char *out, const char *text, size_t size)
{
        for (size_t at = 0; at < size; at++) {
                char byte = text[at] == '+' ? ' ' : text[at];

                if (weir__bytes_are_escape(text + at, size - at)) {
                        byte = weir__bytes_unescape(text + at);
                        at += 2;
                }
                if (byte == '\0')
                        return NULL;
                *out++ = byte;
        }
        *out++ = '\0';
        return out;
}

/* Adds a part as a pair, its text at `out`.  Returns the end of that; `out` when the pair is left out. */
static char *
add(struct weir__pairs *pairs, char *out, const char *part, size_t size)
{
        const char *equals = memchr(part, '=', size);
        size_t name_size = equals ? (size_t)(equals - part) : size;
        char *value = decode(out, part, name_size), *end = value;

        if (value && equals)
                end = decode(value, equals + 1, size - name_size - 1);
        if (!end)
                return out;
        pairs->pairs[pairs->count++] = (struct weir__pair){out, equals ? value : value - 1};
        return end;
}

int
weir__query_parse(const char *text, size_t size, size_t max, struct weir__pairs **ret_pairs)
{
        const char *rest = text, *part;
        size_t rest_size = size, room = 0, part_size;
        char *out;

        while (room < max && weir__bytes_next_part(&rest, &rest_size, '&', &part, &part_size))
                room++;
        struct weir__pairs *pairs = weir__pairs_new(room, size + 1, &out);
        if (!pairs)
                return -ENOMEM;
        for (size_t i = 0; i < room && weir__bytes_next_part(&text, &size, '&', &part, &part_size); i++)
                out = add(pairs, out, part, part_size);
        pairs->has_more = weir__bytes_next_part(&text, &size, '&', &part, &part_size);
        *ret_pairs = pairs;
        return 0;
}

bool
weir__query_is_type(const char *content_type)
{
        size_t size = strcspn(content_type, ";");

        weir__bytes_trim(&content_type, &size);
        return WEIR__BYTES_ARE(content_type, size, "application/x-www-form-urlencoded");
}
