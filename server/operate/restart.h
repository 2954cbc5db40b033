/* server/operate/restart.h: this program, started anew with the sockets of its servers. */
#ifndef WEIR_SERVER_RESTART_H
#define WEIR_SERVER_RESTART_H

#include "server/operate/handover.h"

/* With its arguments.  Result: as weir__handover_start. */
int weir__restart(const struct weir__handover *handover, weir_nsec within, const int impatient[2]);

#endif
