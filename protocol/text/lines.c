/* protocol/text/lines.c: field lines as they go out. */
#include "protocol/text/lines.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"

int
weir__lines_grow(char **buffer, size_t size, size_t *room, size_t more, struct weir__beside beside)
{
        size_t wanted = *room > SIZE_MAX / 2 ? SIZE_MAX : 2 * *room;
        bool is_beside = *buffer && *buffer == beside.data;
        char *grown;

        if (more > SIZE_MAX - size)
                return -ENOMEM;
        wanted = wanted < size + more ? size + more : wanted;
        grown = realloc(is_beside ? NULL : *buffer, wanted);
        if (!grown)
                return -ENOMEM;
        if (is_beside)
                memcpy(grown, beside.data, size);
        *buffer = grown;
        *room = wanted;
        return 0;
}

/* The next line of a field from *at on, and its size; NULL when none is left.  *at is then behind it. */
static char *
next_line(const struct weir__lines *lines, const char *name, size_t *at, size_t *size)
{
        size_t name_size = strlen(name);

        while (*at < lines->size) {
                char *line = lines->data + *at;

                *size = (size_t)((char *)memchr(line, '\n', lines->size - *at) - line) + 1;
                *at += *size;
                if (*size > name_size && line[name_size] == ':' && weir__bytes_equal(line, name, name_size))
                        return line;
        }
        return NULL;
}

void
weir__lines_remove(struct weir__lines *lines, const char *name)
{
        size_t at = 0, size;
        char *line;

        while ((line = next_line(lines, name, &at, &size))) {
                memmove(line, line + size, lines->size - at);
                lines->size -= size;
                at -= size;
        }
}

bool
weir__lines_have(const struct weir__lines *lines, const char *name)
{
        size_t at = 0, size;

        return next_line(lines, name, &at, &size);
}

bool
weir__lines_next(const struct weir__lines *lines, const char *name, size_t *at, const char **value, size_t *size)
{
        size_t line_size, before = strlen(name) + 2;
        const char *line = next_line(lines, name, at, &line_size);

        if (!line)
                return false;
        *value = line + before;
        *size = line_size - before - 2;
        return true;
}

void
weir__lines_done(struct weir__lines *lines, struct weir__beside beside)
{
        if (lines->data != beside.data)
                free(lines->data);
        *lines = (struct weir__lines){.data = NULL};
}
