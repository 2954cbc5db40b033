/* net/serve/serve.h: starts, stops and restarts of servers. */
#ifndef WEIR_NET_SERVE_H
#define WEIR_NET_SERVE_H

#include <stdbool.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "net/listen/server.h"

/* The public functions of each protocol say what these promise: weir/http_server.h. */

/* -- server.c -- */

/* All other fields are zero, but for those that its protocol sets.  It is NEW; `fault` is what its start reports. */
void weir__server_init(struct weir__server *server, const struct weir__server_ops *ops, const struct weir__secure_config *secure,
                       int fault);
/* After a stop: frees what it has, and then the struct, unless something detached keeps it. */
void weir__server_done(struct weir__server *server);

int weir__server_start(struct weir__server *server, const char *address);
int weir__server_port(const struct weir__server *server);

/* Whether this thread may wait for a stop: 0; -EDEADLK on a worker and on a thread of the protocol; -ECHILD in a forked child. */
int weir__server_may_stop(const struct weir__server_ops *ops);

/* Stops the server.  Cuts as soon as `impatient_fd` (-1: none) becomes readable. */
int weir__server_stop(struct weir__server *server, weir_nsec within, int impatient_fd);

/* Stops the server before it is freed.  In a forked child the stop goes on in the parent alone. */
void weir__server_stop_at_end(struct weir__server *server);

/* -- signals.c -- */

/* Starts the server and serves until a signal comes, or the runtime ends; then stops it.  Result: as weir_http_serve. */
int weir__server_serve(struct weir__server *server, const char *address);

/* -- reports.c: on what a stop cuts -- */

struct weir__cut_report {
        struct weir__link link;
        char text[512]; /* "GET /, 12 ms old, waiting for ..." */
};

/* One thing more was cut.  Owner: consumes the report; NULL: there is no memory for one.  Owner of the poller. */
void weir__cut_add(struct weir__server *server, struct weir__cut_report *report);

/* Logs the reports of a server, frees them, and says how many are missing.  With no lock held. */
void weir__cut_log(struct weir__list *reports, unsigned missing);

/* -- successor.c: listening sockets for another process -- */

/* Servers that give their sockets to another process. */
struct weir__givers {
        struct weir__server *const *servers;
        unsigned count;
};

/* Starts this program anew, with its arguments and the sockets of those servers.  Waits until the new process serves, or one of
 * `impatient` is readable.  Then the new process has the sockets.
 *
 * Result: the new process; negative as weir_http_server_inherit. */
int weir__server_restart(const struct weir__givers *givers, weir_nsec within, const int impatient[2]);

int weir__server_fds(struct weir__server *server, int *fds, size_t room);
int weir__server_inherit(struct weir__server *server, const char *path, char *const arguments[], weir_nsec within);

#endif
