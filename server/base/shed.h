/* server/base/shed.h: requests that are refused while the server is late. */
#ifndef WEIR_SERVER_SHED_H
#define WEIR_SERVER_SHED_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

struct weir__http_branch;

/* The lateness of one poller.  Owner of the poller only. */
struct weir__shed {
        struct weir__alarm alarm;
        bool is_alarm_set;     /* or its work is on its way */
        weir_nsec due;         /* when the alarm should come */
        weir_nsec lateness;    /* of the last alarm that has come, */
        weir_nsec measured_at; /* and when that was */
};

bool weir__shed_admits(struct weir__http_branch *branch); /* false: this poller is too late; refuse the request */
void weir__shed_close(struct weir__http_branch *branch);

#endif
