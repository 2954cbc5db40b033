/* server/exchange/held.h: the exchanges that the program holds by references (weir_http_ref). */
#ifndef WEIR_SERVER_HELD_H
#define WEIR_SERVER_HELD_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/http_server.h>

#include "protocol/field/peer.h"

struct weir__exchange;

/* Copies: valid until the function that gets them returns. */
struct weir__held_report {
        char method[24], target[208]; /* a longer target ends in three dots */
        char peer[WEIR__PEER_ROOM + 32];
        unsigned references;
        weir_nsec age; /* since its head had come */
};

/* The program has one more reference, or one less: before the reference is dropped.  Any thread.
 *
 * weir__held_remove aborts if it has none. */
void weir__held_add(struct weir__exchange *exchange);
void weir__held_remove(struct weir__exchange *exchange);

/* How many references the program has.  Any thread that keeps the exchange. */
unsigned weir__held_references(const struct weir__exchange *exchange);

/* Calls `show` for each exchange that is held, of that server or (NULL) of all, until it returns true.  No lock is held then.
 * The oldest come first.  Any thread.
 *
 * A walk has no reference to what it shows: the exchange may be gone when `show` sees the report. */
void weir__held_walk(const weir_http_server *server, bool (*show)(const struct weir__held_report *report, void *context),
                     void *context);

#endif
