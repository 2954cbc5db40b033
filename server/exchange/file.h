/* server/exchange/file.h: files as bodies of replies. */
#ifndef WEIR_SERVER_FILE_H
#define WEIR_SERVER_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct weir__exchange;

/* A piece of a file that is the body of a reply. */
struct weir__file_part {
        int fd;
        uint64_t at, size;
        uint64_t whole;   /* the size of the file */
        const char *type; /* of its name; constant */
};

static inline void weir__file_close(struct weir__file_part **file)
{
        if (!*file)
                return;
        close((*file)->fd);
        free(*file);
        *file = NULL;
}

/* The reply changes after weir_http_reply_file has set it: `said_by_file` is not 0. */
void weir__file_take_back(struct weir__exchange *exchange); /* all that file.c has set */
void weir__file_other_status(struct weir__exchange *exchange, int status); /* before that is set: the whole file is the body */
/* The reply stays so: a withheld file is replaced by the server's page. */
void weir__file_withhold(struct weir__exchange *exchange);
bool weir__file_leave_field(struct weir__exchange *exchange, const char *name); /* to the handler: whether it was the file's */

#endif
