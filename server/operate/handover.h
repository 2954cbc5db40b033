/* server/operate/handover.h: listening sockets that go to another process. */
#ifndef WEIR_SERVER_HANDOVER_H
#define WEIR_SERVER_HANDOVER_H

#include <weir/http_server.h>

struct weir__handover {
        weir_http_server *const *servers;
        unsigned count;
};

/* Starts a program with the sockets of those servers, and waits until it serves, or one of `impatient` is readable.  Then the
 * sockets are handed over.
 *
 * Result: its process; negative as weir_http_server_inherit. */
int weir__handover_start(const struct weir__handover *handover, const char *path, char *const arguments[], weir_nsec within,
                         const int impatient[2]);

/* Starts this program anew, with its arguments.  Result: as weir__handover_start. */
int weir__handover_restart(const struct weir__handover *handover, weir_nsec within, const int impatient[2]);

#endif
