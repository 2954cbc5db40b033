/* protocol/text/lines.h: field lines as they go out: "Name: value\r\n", one behind the other.
 *
 * A field with a byte that could end a line is refused when it is added.  So no field can smuggle another field or a body.
 *
 * Threads: lines belong to one thread at a time.  No locks. */
#ifndef WEIR_PROTOCOL_LINES_H
#define WEIR_PROTOCOL_LINES_H

#include <stdbool.h>
#include <stddef.h>

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

/* Makes room for `more` bytes behind `size` in a buffer.  A first piece that fits lies in the memory beside it; everything else
 * in memory of its own, for free.  Result: 0; -ENOMEM, nothing changed. */
int weir__lines_make_room(char **buffer, size_t size, size_t *room, size_t more, struct weir__beside beside);

/* Adds a field (removing those of that name first, when `should_replace`).  White space around the value does not go out.
 *
 * Result: 0; -EINVAL for a bad name or value; -ENOMEM.  Nothing has changed on failure.
 * Source: RFC 9110 sections 5.1 and 5.5. */
int weir__lines_add(struct weir__lines *lines, const char *name, const char *value, bool should_replace,
                    struct weir__beside beside);
void weir__lines_remove(struct weir__lines *lines, const char *name); /* all of that name */

/* The value of the next field of that name: *at is 0 before the first.  The value has no NUL behind it.  Returns false when
 * none is left. */
bool weir__lines_next(const struct weir__lines *lines, const char *name, size_t *at, const char **value, size_t *size);
bool weir__lines_have(const struct weir__lines *lines, const char *name);

/* Frees them, unless they lie beside. */
void weir__lines_done(struct weir__lines *lines, struct weir__beside beside);

#endif
