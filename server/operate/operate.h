/* server/operate/operate.h: what HTTP does for the starts and stops of its servers. */
#ifndef WEIR_SERVER_OPERATE_H
#define WEIR_SERVER_OPERATE_H

#include <stdbool.h>

#include <weir/http_server.h>

#include "net/listen/certificates.h"
#include "protocol/field/forwarded.h"
#include "protocol/field/peer.h"

struct weir__branch;
struct weir__connection;
struct weir__server;

/* -- config.c -- */

/* Copies the configuration and fills in the defaults; NULL: all defaults.  Returns 0, or the error that the start reports. */
int weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from);

/* Reads trusted_proxies and forwarded_field; logs what was expected of them.  Result: as weir__proxies_new. */
int weir__server_config_proxies(const struct weir_http_server_config *config, struct weir__proxies **ret_proxies);

/* Its settings of TLS. */
struct weir__secure_config weir__http_config_secure(const struct weir_http_server_config *config);

/* -- accept.c: weir__server_ops -- */

void weir__http_accepted(struct weir__branch *branch, int fd, const struct weir__peer *peer, bool is_admitted);
void *weir__http_longest_idle(struct weir__branch *branch, weir_nsec *since);
void weir__http_evict(void *connection, bool has_permit);
size_t weir__http_count_idle(const struct weir__branch *branch);
bool weir__http_is_exempt(const struct weir__server *server, const struct weir__peer *peer);

/* -- cut.c: when the time of a stop is over -- */

/* Cuts the connection, and adds a report on its exchange to the server's list.  Owner of the poller. */
void weir__cut_connection(struct weir__connection *connection);

/* -- waits.c: what a stop waits for -- */

void weir__stop_name_holders(const struct weir__server *server);    /* logs the exchanges that the program holds */
void weir__stop_count_callbacks(const struct weir__server *server); /* logs how many exchanges still run, when all were cut */

#endif
