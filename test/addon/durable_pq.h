/* test/addon/durable_pq.h: a server of PostgreSQL for suites of durable timers. */
#ifndef WEIR_TEST_DURABLE_PQ_H
#define WEIR_TEST_DURABLE_PQ_H

#include "test/support.h"

#include "test/addon/pq_server.h"

#include <weir/durable.h>

/* Starts the server.  Result: false: PostgreSQL is not installed. */
static inline bool
pq_start(void)
{
        return server.keeper >= 0 || server_make();
}

/* The URL of tables that are not there yet: of a schema of their own. */
static inline const char *
pq_url(void)
{
        static char url[160];
        static int number;
        char sql[60];

        snprintf(sql, sizeof sql, "CREATE SCHEMA s%d", number);
        server_ask(sql);
        snprintf(url, sizeof url, "postgresql://weir@/postgres?host=%s&port=%d&options=-csearch_path%%3Ds%d", server.directory,
                 server.port, number++);
        return url;
}

#endif
