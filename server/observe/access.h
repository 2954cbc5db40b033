/* server/observe/access.h: the access log: records of requests that are over, on their way to a file or a function of the
 * program's.
 *
 * The owner of a connection's poller records.  It never blocks, allocates or formats anything here. */
#ifndef WEIR_SERVER_ACCESS_H
#define WEIR_SERVER_ACCESS_H

#include <stdbool.h>

#include <weir/http_server.h>

#include "protocol/message/request.h"
#include "server/observe/outlet.h"

struct weir__access;

/* Has copies of what it needs of the configuration.
 *
 * Owner:  the caller; weir__access_free, when it is stopped.
 * Result: 0 and in *ret_access a log, or NULL when none is wanted; -ENOMEM and what eventfd reports. */
int weir__access_new(const struct weir_http_server_config *config, struct weir__access **ret_access);
void weir__access_free(struct weir__access *access); /* accepts NULL */

/* Opens the file, if there is one, and makes the threads, while the runtime runs; rings for `count` pollers.  All three accept
 * NULL, and do nothing.
 * Result: 0, what open reports, or -ENOMEM, -EAGAIN. */
int weir__access_start(struct weir__access *access, unsigned count);

/* Has all that was recorded written, and ends the threads; one that is not started stays so. */
void weir__access_stop(struct weir__access *access);

/* Adds what is known of the request (NULL: it is not known) to a record that its maker has begun: with status, is_complete,
 * body_sent and client.  It began at that time; 0: nobody knows.  Drops the record, and counts it, wherever a ring is full.  By
 * the owner of the poller of that index. */
void weir__access_record(struct weir__access *access, unsigned index, struct weir__outlet_record *record,
                         const struct weir__request *request, weir_nsec began);

#endif
