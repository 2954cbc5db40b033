/* server/exchange/file.h: files as bodies of replies. */
#ifndef WEIR_SERVER_FILE_H
#define WEIR_SERVER_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/transport/output.h"

struct weir__exchange;

/* A piece of a file that is the body of a reply. */
struct weir__file_part {
        int fd;
        uint64_t at, size;
        uint64_t whole;   /* the size of the file */
        const char *type; /* of its name; constant */
        struct weir__writer writer; /* in the output of the connection: the part that is left */
};

static inline void weir__file_close(struct weir__file_part **file)
{
        if (!*file)
                return;
        if (weir__link_is_used(&(*file)->writer.link))
                weir__link_remove(&(*file)->writer.link);
        close((*file)->fd);
        free(*file);
        *file = NULL;
}

/* The handler changes a reply that weir_http_reply_file has made: `said_by_file` is not 0. */
void weir__file_take_back(struct weir__exchange *exchange); /* undoes everything that file.c has set */
void weir__file_other_status(struct weir__exchange *exchange, int status); /* called before the status is set */
bool weir__file_leave_field(struct weir__exchange *exchange, const char *name); /* true: the field was set by file.c until now */

/* The reply goes out: the server's page replaces a withheld file. */
void weir__file_withhold(struct weir__exchange *exchange);

#endif
