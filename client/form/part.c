/* client/form/part.c: one part of a multipart body: its head, and where its content is.
 *
 *      --BOUNDARY
 *      Content-Disposition: form-data; name="NAME"; filename="FILENAME"
 *      Content-Type: TYPE
 *
 * A part and its content in memory are one block.
 *
 * Threads: a part belongs to its form.  No locks. */
#include "client/form/part.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Text that is measured if `at` is NULL, and written otherwise. */
struct output {
        char *at;
        size_t size;
};

static void
put_bytes(struct output *output, const void *data, size_t size)
{
        if (output->at && size > 0)
                memcpy(output->at + output->size, data, size);
        output->size += size;
}

static void
put(struct output *output, const char *text)
{
        put_bytes(output, text, strlen(text));
}

/* Writes a name or a filename.  In a name each CR and LF is a part of a line break, and that is CR LF.
 *
 * Source: WHATWG HTML standard, "escape a multipart form data name" and "multipart/form-data encoding algorithm". */
static void
put_quoted(struct output *output, const char *text, bool is_name)
{
        put(output, "\"");
        for (; *text; text++) {
                bool is_break = is_name && (*text == '\r' || *text == '\n');

                if (is_break && text[0] == '\r' && text[1] == '\n')
                        text++;
                if (is_break)
                        put(output, "%0D%0A");
                else if (*text == '"')
                        put(output, "%22");
                else if (*text == '\r')
                        put(output, "%0D");
                else if (*text == '\n')
                        put(output, "%0A");
                else
                        put_bytes(output, text, 1);
        }
        put(output, "\"");
}

static void
put_head(struct output *output, const struct weir__form_part_of *of)
{
        put(output, "--");
        put(output, of->boundary);
        put(output, "\r\nContent-Disposition: form-data; name=");
        put_quoted(output, of->name, true);
        if (of->filename) {
                put(output, "; filename=");
                put_quoted(output, of->filename, false);
        }
        if (of->type) {
                put(output, "\r\nContent-Type: ");
                put(output, of->type);
        }
        put(output, "\r\n\r\n");
}

struct weir__form_part *
weir__form_part_new(const struct weir__form_part_of *of)
{
        struct output output = {.at = NULL};
        size_t size = of->data ? (size_t)of->size : 0;

        put_head(&output, of);
        if (size > SIZE_MAX - sizeof(struct weir__form_part) - output.size)
                return NULL;
        struct weir__form_part *part = malloc(sizeof *part + output.size + size);
        if (!part)
                return NULL;
        *part = (struct weir__form_part){
                .fd = of->data ? WEIR__PART_IN_MEMORY : of->fd, .owned_fd = -1, .offset = of->offset, .size = of->size};
        output = (struct output){.at = part->head};
        put_head(&output, of);
        part->head_size = output.size;
        part->data = part->head + output.size;
        put_bytes(&output, of->data, size);
        return part;
}

void
weir__form_part_free(struct weir__form_part *part)
{
        if (part->owned_fd >= 0)
                close(part->owned_fd);
        free(part);
}
