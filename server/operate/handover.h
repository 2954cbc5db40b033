/* server/operate/handover.h: listening sockets that go to another process. */
#ifndef WEIR_SERVER_HANDOVER_H
#define WEIR_SERVER_HANDOVER_H

#include <weir/http_server.h>

struct weir__handover {
        weir_http_server *const *servers;
        unsigned count;
};

/* Starts this program anew, with its arguments and the sockets of those servers.  Waits until the new process serves, or one of
 * `impatient` is readable.  Then the sockets are handed over.
 *
 * Result: the new process; negative as weir_http_server_inherit. */
int weir__handover_restart(const struct weir__handover *handover, weir_nsec within, const int impatient[2]);

#endif
