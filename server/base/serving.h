/* server/base/serving.h: the servers that serve, and reports on their counts. */
#ifndef WEIR_SERVER_SERVING_H
#define WEIR_SERVER_SERVING_H

#include <stdint.h>

#include <weir/http_server.h>

#include "kernel/base/list.h"
#include "server/base/shard.h"

#define WEIR__SERVER_NAME 160 /* bytes of the name of a server, with the NUL */

/* A server in the list of those that serve. */
struct weir__serving {
        struct weir__link link;
        unsigned ordinal; /* among those that serve at the same address, from 1 on */
        char name[WEIR__SERVER_NAME];
};

/* Between these two calls the shards of the server must exist. */
void weir__serving_begin(weir_http_server *server);
void weir__serving_end(weir_http_server *server);

/* The counts of a server. */
struct weir__serving_report {
        struct weir__serving_report *next;
        /* Its first address, such as "127.0.0.1:8080" or "unix:/run/s", with "#2" and so on for a second server there. */
        char name[WEIR__SERVER_NAME + 16];
        int64_t counts[WEIR__COUNTS];
};

/* Reports on all servers that serve, in the order of their starts.
 *
 * Owner:  the caller: weir__serving_reports_free.
 * Result: NULL also when there is none; *failed says -ENOMEM or 0. */
struct weir__serving_report *weir__serving_reports(int *failed);
void weir__serving_reports_free(struct weir__serving_report *reports); /* accepts NULL */

#endif
