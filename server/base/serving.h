/* server/base/serving.h: the servers that serve, and reports on their counts. */
#ifndef WEIR_SERVER_SERVING_H
#define WEIR_SERVER_SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/http_server.h>

#include "kernel/base/list.h"
#include "server/base/branch.h"

#define WEIR__SERVER_NAME 160 /* bytes of the name of a server, with the NUL */

/* A server in the list of those that serve. */
struct weir__serving {
        struct weir__link link;
        bool is_disowned; /* the runtime ends: the branches disown their exchanges */
        unsigned ordinal; /* among those that serve at the same address, from 1 on */
        char name[WEIR__SERVER_NAME];
};

/* Between these two calls the branches of the server must exist. */
/* At the end of the runtime all branches of the servers between disown their exchanges. */
void weir__serving_begin(weir_http_server *server);
void weir__serving_end(weir_http_server *server);

/* The counts of a server. */
struct weir__serving_report {
        /* Its first address, such as "127.0.0.1:8080" or "unix:/run/s", with "#2" and so on for a second server there. */
        char name[WEIR__SERVER_NAME + 16];
        int64_t counts[WEIR__COUNTS];
};

/* Reports on the servers that serve, in the order of their starts.  One that starts during the call may be missing.
 *
 * Owner:  the caller: free.
 * Result: an array of *ret_count reports; NULL when out of memory. */
struct weir__serving_report *weir__serving_reports(size_t *ret_count);

#endif
