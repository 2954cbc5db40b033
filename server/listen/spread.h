/* server/listen/spread.h: the listeners of a server, spread over its shards. */
#ifndef WEIR_SERVER_SPREAD_H
#define WEIR_SERVER_SPREAD_H

#include <weir/http_server.h>

int weir__spread_listeners(weir_http_server *server);       /* gives each shard its listeners.  Result: 0 or -ENOMEM */
void weir__spread_take_back(weir_http_server *server); /* with the uses of those that are not open */

#endif
