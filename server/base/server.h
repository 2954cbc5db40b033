/* server/base/server.h: the struct of a server: what its branches share.  operate/server.c has its states. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/http_server.h>

#include "kernel/base/latch.h"
#include "kernel/base/lock.h"
#include "kernel/socket/listen.h"
#include "protocol/field/forwarded.h"
#include "protocol/message/gate.h"
#include "server/base/addresses.h"
#include "server/base/branch.h"
#include "server/base/secure.h"
#include "server/base/serving.h"
#include "server/base/users.h"

enum weir__server_state {
        WEIR__SERVER_NEW = 0,
        WEIR__SERVER_STARTING,
        WEIR__SERVER_SERVING,
        WEIR__SERVER_STOPPING,
        WEIR__SERVER_STOPPED,
};

/* A thread that waits until a start or stop is over, to stop the server; on its stack. */
struct weir__server_waiter {
        struct weir__server_waiter *next;
        pthread_t thread;
        bool should_stop; /* this thread has to stop the server; else another has stopped it, and the server may be gone */
        struct weir__latch over;
};

struct weir_http_server {
        /* Constant. */
        struct weir_http_server_config config; /* defaults filled in */
        struct weir__gate_limits gate_limits;
        struct weir__error_page *error_pages; /* from the start on; before that guarded by lock */
        uint32_t coalescing; /* ns; from the start on; before that guarded by lock */
        struct weir__proxies *proxies;
        struct weir__access *access;       /* the access log; or NULL */
        weir_task_fn *handler;
        void *context;
        int fault;    /* an error that its start reports; 0: none */
        bool has_files; /* of TLS or of the access log, which can be opened again */
        int ended_fd; /* eventfd: written when the end of the runtime closes a listener */

        struct weir__secure secure;

        struct weir__lock lock; /* a leaf: no thread waits with it held */

        /* Guarded by lock. */
        uint8_t state;                       /* enum weir__server_state */
        pthread_t changer;                   /* STARTING, STOPPING: the thread that starts or stops it */
        pid_t changer_process;               /* and its process: a forked child has no such thread */
        struct weir__server_waiter *waiters; /* STARTING, STOPPING */
        int successors;                      /* processes that are starting with the sockets */
        struct weir__list cut_reports;       /* of operate/cut.c */
        unsigned reported, unreported;       /* exchanges that were cut, with a report in that list or without */
        bool has_successor;  /* another process has the sockets, or may have them soon; constant once a stop has begun */

        /* Written by the thread that starts or stops the server; constant while it serves.  Other threads read the sockets then,
         * with the lock. */
        unsigned branch_count;
        unsigned generation; /* of the runtime that the branches belong to */
        struct weir__branch *branches;
        struct weir__sockets sockets; /* that listen */

        struct weir__serving serving; /* while it serves; guarded by the lock of serving.c */

        struct weir__users users;
        _Atomic unsigned keepers; /* acq_rel: the program, until it frees the server, and detached exchanges */
        struct weir__branch *dropped; /* branches of the past, of which detached exchanges know: freed with the server */
        struct weir__addresses addresses; /* used if the connections of one address are limited */
        _Atomic int port;           /* relaxed; -EDOM: none */
        _Atomic size_t connections; /* with a place; seq_cst where it may pass the limit: listen/admission.c */
        _Atomic bool has_deficit;   /* too many connections and none idle: the next one that becomes idle is closed; seq_cst */

        void (*order)(struct weir__branch *branch); /* the order that each branch carries out */
        _Atomic unsigned orders_left; /* branches that have not carried it out; acq_rel */
        struct weir__latch *ordered;  /* of the thread that gave the order: opened when all have carried it out */
};

#endif
