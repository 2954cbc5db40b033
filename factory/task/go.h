/* factory/task/go.h: the named queues of functions, for who looks on. */
#ifndef WEIR_FACTORY_GO_H
#define WEIR_FACTORY_GO_H

#include <weir/timer.h>

#include "factory/names/names.h"
#include "kernel/executor/executor.h"

/* All zero at first. */
struct weir__go_look {
        unsigned shard;
        struct weir__names_scan scan;
        bool begun;
        char name[WEIR_NAME_MAX]; /* of the queue that was come to, `size` bytes */
        size_t size;
        struct weir__executor_stats stats;
};

/* Comes to the next queue; returns false when that was all.  Any thread, no lock held. */
bool weir__go_look_on(struct weir__go_look *look);

#endif
