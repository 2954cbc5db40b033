/* bench/durable_server.h: a server of PostgreSQL for bench/durable.c, with fsync as a server has it.  Without libweir-pq there is
 * none. */
#ifndef BENCH_DURABLE_SERVER_H
#define BENCH_DURABLE_SERVER_H

#include <stdbool.h>

/* Result: false: it is not installed, or does not start. */
bool bench_server_start(void);

/* The URL of its database, and a database without tables. */
const char *bench_server_url(void);
void bench_server_clear(void);

/* Stops it, if it runs, and removes its files. */
void bench_server_stop(void);

#endif
