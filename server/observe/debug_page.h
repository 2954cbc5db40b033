/* server/observe/debug_page.h: the page of /debug/flows. */
#ifndef WEIR_SERVER_DEBUG_PAGE_H
#define WEIR_SERVER_DEBUG_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/observe/sink.h"

#define WEIR__DEBUG_ROWS     500
#define WEIR__DEBUG_ROWS_MAX 10000

struct weir__debug_question {
        size_t limit;     /* about how many rows of each section */
        const char *find; /* the text that a flow must have; "": any flow */
        uint64_t nonce;   /* of its style and script */
};

/* Writes the page, which may take long when there is much.
 * Result:  0; -ENOMEM, -ECHILD.  The sink keeps errors of its own.
 * Threads: any, with no lock held. */
int weir__debug_page(struct weir__sink *sink, const struct weir__debug_question *question);

#endif
