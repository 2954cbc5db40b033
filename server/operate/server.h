/* server/operate/server.h: starts and stops. */
#ifndef WEIR_SERVER_OPERATE_SERVER_H
#define WEIR_SERVER_OPERATE_SERVER_H

#include <weir/http_server.h>

/* Whether this thread may wait for a stop: 0; -EDEADLK on a worker, and where an access log calls the program; -ECHILD in a
 * forked child. */
int weir__server_may_stop(void);

/* Stops; cuts as soon as `impatient_fd` (-1: none) becomes readable. */
int weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd);

#endif
