/* server/connection/http1.h: connections of HTTP/1: made, driven by events and time, stopped. */
#ifndef WEIR_SERVER_HTTP1_H
#define WEIR_SERVER_HTTP1_H

#include <stdbool.h>

struct weir__connection;
struct weir__peer;
struct weir__shard;

/* Takes the descriptor.  Returns false when out of memory. */
bool weir__http1_new(struct weir__shard *shard, int fd, const struct weir__peer *peer, bool is_admitted);
void weir__http1_stop(struct weir__connection *connection);

extern const struct weir__exchange_ops weir__http1_ops;

#endif
