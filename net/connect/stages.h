/* net/connect/stages.h: the stages of a connect, and their time limits.  Owner of the poller. */
#ifndef WEIR_NET_STAGES_H
#define WEIR_NET_STAGES_H

#include <stdbool.h>

#include "kernel/observe/trace.h"
#include "net/connect/connect.h"

struct weir__stage_limit;

/* All fields are zero at first, but `late` and `name`. */
struct weir__stages {
        void (*late)(struct weir__stages *stages); /* the limit of the stage has passed: -ETIMEDOUT.  Or the runtime ends */
        bool has_limits;
        weir_nsec limits[WEIR__CONNECT_STAGES];
        _Atomic uint8_t *stage;
        const char *name; /* for traces */
        struct weir__trace_stage traced;
        uint8_t now;                     /* enum weir__connect_stage */
        struct weir__stage_limit *limit; /* or NULL */
};

/* Another stage begins.  Result: 0; -ENOMEM; -ESHUTDOWN. */
int weir__stages_enter(struct weir__stages *stages, enum weir__connect_stage stage, unsigned poller);
void weir__stages_end(struct weir__stages *stages); /* there are no more */

#endif
