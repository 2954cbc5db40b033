/* server/connection/record.h: counts and the access log.
 *
 *     exchange --a reply begins--> its request belongs to the connection --the reply ends--> recorded
 *     exchange --ends without----> recorded
 *
 * Without an access log each call only looks at one word.  But a reply that the client has not read yet always keeps its request,
 * for the report of a stop that cuts it. */
#ifndef WEIR_SERVER_RECORD_H
#define WEIR_SERVER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

struct weir__connection;
struct weir__exchange;
struct weir__request;

/* The request of a reply that is being written.  The status is set with an access log only.  Without one, request and time are
 * set only for a reply that is not written at once, or without an exchange. */
struct weir__replied {
        struct weir__request *request; /* NULL: none */
        weir_nsec came_at;
        uint16_t status; /* 0: none */
};

/* The reply with that status goes out.  `exchange` may be NULL. */
void weir__record_reply(struct weir__connection *connection, struct weir__exchange *exchange, int status);
/* The request is answered without an exchange. */
void weir__record_request(struct weir__connection *connection, struct weir__request *request);
void weir__record_keep_request(struct weir__connection *connection, struct weir__exchange *exchange);
void weir__record_written(struct weir__connection *connection, bool is_complete); /* the reply has ended */
void weir__record_end(struct weir__exchange *exchange); /* the exchange is about to be freed */

#endif
