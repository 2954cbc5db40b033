/* server/base/shed.h: requests that are refused while the server is late. */
#ifndef WEIR_SERVER_SHED_H
#define WEIR_SERVER_SHED_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

struct weir__branch;

/* The lateness of one poller.  Owner of the poller only. */
struct weir__shed {
        struct weir__alarm probe;
        bool is_probing; /* `probe` is set, or its work is on its way */
        weir_nsec due, lateness, measured_at;
};

bool weir__shed_admits(struct weir__branch *branch); /* false: this poller is too late; refuse the request */
void weir__shed_close(struct weir__branch *branch);

#endif
