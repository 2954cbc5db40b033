/* client/form/multipart.h: bodies of multipart/form-data, as the client sends them. */
#ifndef WEIR_CLIENT_MULTIPART_H
#define WEIR_CLIENT_MULTIPART_H

#include <stdbool.h>

#include <weir/multipart.h>

#include "client/form/part.h"

#define WEIR__BOUNDARY_BYTES 18 /* random ones, of 144 bits */
#define WEIR__BOUNDARY_SIZE  (sizeof "weir" - 1 + WEIR__BOUNDARY_BYTES / 3 * 4)
#define WEIR__MULTIPART_TYPE "multipart/form-data; boundary="

enum weir__multipart_stage { WEIR__MULTIPART_HEAD, WEIR__MULTIPART_CONTENT, WEIR__MULTIPART_BREAK };

/* A position in a body.  All zero is its beginning. */
struct weir__multipart_position {
        const struct weir__link *part; /* NULL: the first one */
        int64_t at;                    /* bytes of the stage */
        uint8_t stage;                 /* enum weir__multipart_stage */
        bool is_last;                  /* behind all parts, in the last line */
};

struct weir_multipart {
        struct weir__list parts;
        struct weir__multipart_position position;
        int64_t size;
        char type[sizeof WEIR__MULTIPART_TYPE + WEIR__BOUNDARY_SIZE];
        char end[sizeof "----\r\n" + WEIR__BOUNDARY_SIZE]; /* the last line */
};

static inline const char *
weir__multipart_boundary(const weir_multipart *form)
{
        return form->type + sizeof WEIR__MULTIPART_TYPE - 1;
}

#endif
