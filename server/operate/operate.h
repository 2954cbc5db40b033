/* server/operate/operate.h: starts, stops and restarts of servers. */
#ifndef WEIR_SERVER_OPERATE_H
#define WEIR_SERVER_OPERATE_H

#include <stdbool.h>

#include <weir/http_server.h>

#include "kernel/base/list.h"
#include "protocol/field/forwarded.h"

struct weir__connection;

/* Copies the configuration and fills in the defaults; NULL: all defaults.  Returns 0, or the error that the start reports. */
int weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from);

/* Reads trusted_proxies and forwarded_field; logs what was expected of them.  Result: as weir__proxies_new. */
int weir__server_config_proxies(const struct weir_http_server_config *config, struct weir__proxies **ret_proxies);

/* Whether this thread may wait for a stop: 0; -EDEADLK on a worker and in an access function; -ECHILD in a forked child. */
int weir__server_may_stop(void);

/* Stops the server.  Cuts as soon as `impatient_fd` (-1: none) becomes readable. */
int weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd);

/* -- cut.c: when the time of a stop is over -- */

/* Cuts the connection, and adds a report on its exchange to the server's list.  Owner of the poller. */
void weir__cut_connection(struct weir__connection *connection);

/* Logs the reports of a server, frees them, and says how many are missing.  With no lock held. */
void weir__cut_log(struct weir__list *reports, unsigned missing);

/* -- waits.c: what a stop waits for -- */

void weir__stop_name_holders(const weir_http_server *server);    /* logs the exchanges that the program holds */
void weir__stop_count_callbacks(const weir_http_server *server); /* logs how many exchanges still run, when all were cut */

/* -- successor.c: listening sockets for another process -- */

/* Servers whose sockets another process gets. */
struct weir__givers {
        weir_http_server *const *servers;
        unsigned count;
};

/* Starts this program anew, with its arguments and the sockets of those servers.  Waits until the new process serves, or one of
 * `impatient` is readable.  Then the new process has the sockets.
 *
 * Result: the new process; negative as weir_http_server_inherit. */
int weir__server_restart(const struct weir__givers *givers, weir_nsec within, const int impatient[2]);

#endif
