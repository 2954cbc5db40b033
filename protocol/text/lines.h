/* protocol/text/lines.h: field lines as they go out: "Name: value\r\n", one behind the other.
 *
 * A field with a byte that could end a line is refused when it is added.  So no field can smuggle another field or a body.
 *
 * Threads: lines belong to one thread at a time.  No locks. */
#ifndef WEIR_PROTOCOL_LINES_H
#define WEIR_PROTOCOL_LINES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "protocol/text/bytes.h"

/* All zero is none. */
struct weir__lines {
        char *data;
        size_t size, room;
};

/* Memory beside lines, for those that are short; NULL and 0: none. */
struct weir__beside {
        char *data;
        size_t size;
};

/* weir__lines_make_room, where neither has room for them. */
int weir__lines_grow(char **buffer, size_t size, size_t *room, size_t more, struct weir__beside beside);

/* Makes room for `more` bytes behind `size` in a buffer.  A first piece that fits lies in the memory beside it; everything else
 * in memory of its own, for free.  Result: 0; -ENOMEM, nothing changed. */
static inline int
weir__lines_make_room(char **buffer, size_t size, size_t *room, size_t more, struct weir__beside beside)
{
        if (more <= *room - size)
                return 0;
        if (*room || more > beside.size)
                return weir__lines_grow(buffer, size, room, more, beside);
        *buffer = beside.data;
        *room = beside.size;
        return 0;
}

void weir__lines_remove(struct weir__lines *lines, const char *name); /* all of that name */

static inline void
weir__lines_append(struct weir__lines *lines, const char *name, size_t name_size, const char *value, size_t value_size)
{
        char *out = lines->data + lines->size;

        memcpy(out, name, name_size);
        memcpy(out + name_size, ": ", 2);
        memcpy(out + name_size + 2, value, value_size);
        memcpy(out + name_size + 2 + value_size, "\r\n", 2);
        lines->size += name_size + value_size + 4;
}

/* Adds a field (removing those of that name first, when `should_replace`).  White space around the value does not go out.
 * Inline, for each reply of a server has some.
 *
 * Result: 0; -EINVAL for a bad name or value; -ENOMEM.  Nothing has changed on failure.
 * Source: RFC 9110 sections 5.1 and 5.5. */
static inline int
weir__lines_add(struct weir__lines *lines, const char *name, size_t name_size, const char *value, bool should_replace,
                struct weir__beside beside)
{
        if (!name || !value)
                return -EINVAL;
        size_t value_size = strlen(value);
        if (name_size == 0 || weir__bytes_span(name, name_size, WEIR__BYTE_TOKEN) < name_size ||
            weir__bytes_span(value, value_size, WEIR__BYTE_VALUE) < value_size)
                return -EINVAL;
        weir__bytes_trim(&value, &value_size);
        int r = weir__lines_make_room(&lines->data, lines->size, &lines->room, name_size + value_size + 4, beside);
        if (r < 0)
                return r;
        if (should_replace)
                weir__lines_remove(lines, name);
        weir__lines_append(lines, name, name_size, value, value_size);
        return 0;
}

/* The value of the next field of that name: *at is 0 before the first.  The value has no NUL behind it.  Returns false when
 * none is left. */
bool weir__lines_next(const struct weir__lines *lines, const char *name, size_t *at, const char **value, size_t *size);
bool weir__lines_have(const struct weir__lines *lines, const char *name);

/* Frees them, unless they lie beside. */
void weir__lines_done(struct weir__lines *lines, struct weir__beside beside);

#endif
