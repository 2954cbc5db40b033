/* client/form/part.h: one part of a multipart body: its head, and where its content is. */
#ifndef WEIR_CLIENT_PART_H
#define WEIR_CLIENT_PART_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/base/list.h"

#define WEIR__PART_IN_MEMORY (-1)

struct weir__form_part {
        struct weir__link link;

        /* Constant after creation. */
        int fd;           /* of the content; WEIR__PART_IN_MEMORY */
        int owned_fd;     /* is closed with the part; -1: none */
        int64_t offset;   /* of the content in the file */
        int64_t size;     /* of the content */
        const char *data; /* the content, if it is in memory */
        size_t head_size;
        char head[]; /* from the boundary to the empty line */
};

/* What a part is made of. */
struct weir__form_part_of {
        const char *boundary, *name;
        const char *filename, *type; /* or NULL */
        const void *data;            /* is copied; NULL: it is in a file */
        int fd;
        int64_t offset, size;
};

/* Owner:  the caller: weir__form_part_free.
 * Result: NULL when out of memory. */
struct weir__form_part *weir__form_part_new(const struct weir__form_part_of *of);
void weir__form_part_free(struct weir__form_part *part);

#endif
