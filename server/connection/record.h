/* server/connection/record.h: what is counted and logged in the life of a request.
 *
 *     exchange --a reply begins--> its request belongs to the connection --the reply ends--> recorded
 *     exchange --ends without----> recorded
 *
 * Without an access log each of these is a look at one word.  A reply that the client has not read yet keeps its request in any
 * case, for the report of a stop that cuts it. */
#ifndef WEIR_SERVER_RECORD_H
#define WEIR_SERVER_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

struct weir__connection;
struct weir__exchange;
struct weir__request;

/* From the beginning of the end of a reply until all of it is written.  The status is set with an access log only; the others,
 * too, unless the reply is written at once. */
struct weir__replied {
        struct weir__request *request; /* NULL: none */
        weir_nsec began;
        uint16_t status; /* 0: none */
};

/* The reply with that status goes out.  The exchange, unless it is NULL, is not seen again. */
void weir__record_reply(struct weir__connection *connection, struct weir__exchange *exchange, int status);
/* It is answered without an exchange. */
void weir__record_request(struct weir__connection *connection, struct weir__request *request);
void weir__record_keep_request(struct weir__connection *connection, struct weir__exchange *exchange);
void weir__record_written(struct weir__connection *connection, bool is_complete); /* all of the reply is out, or never will be */
void weir__record_end(struct weir__exchange *exchange); /* it is about to be freed */

#endif
