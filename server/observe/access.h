/* server/observe/access.h: the access log: records of finished requests, for a file or a function of the program.
 *
 * The owner of a connection's poller records.  It never blocks, allocates or formats here. */
#ifndef WEIR_SERVER_ACCESS_H
#define WEIR_SERVER_ACCESS_H

#include <stdbool.h>

#include <weir/http_server.h>

#include "protocol/message/request.h"
#include "server/observe/outlet.h"

struct weir__access;

/* Makes a log, which copies the strings of the configuration that it needs.
 *
 * Owner:  the caller; weir__access_free, when it is stopped.
 * Result: 0, and in *ret_access a log, or NULL if the configuration has none; -ENOMEM; errors of eventfd. */
int weir__access_new(const struct weir_http_server_config *config, struct weir__access **ret_access);
void weir__access_free(struct weir__access *access); /* accepts NULL */

/* Opens the file, if there is one, and makes the threads, with rings for `count` pollers.  Accepts NULL.
 * Result: 0, errors of open, -ENOMEM, -EAGAIN. */
int weir__access_start(struct weir__access *access, unsigned count);

/* Writes all records and ends the threads.  Accepts NULL and a log that is not started. */
void weir__access_stop(struct weir__access *access);

/* Completes the record, in which the caller has set status, is_complete, body_sent and client, and adds it to the rings at
 * `index`. `request` may be NULL; `came_at` is 0 if unknown.  A full ring loses the record and counts it.  Called by the owner of
 * that poller. */
void weir__access_record(struct weir__access *access, unsigned index, struct weir__outlet_record *record,
                         const struct weir__request *request, weir_nsec came_at);

#endif
