/* server/observe/outlet.h: an outlet of the access log: a file or a function of the program, with rings and a thread of its
 * own. */
#ifndef WEIR_SERVER_OUTLET_H
#define WEIR_SERVER_OUTLET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/http_server.h>

#include "protocol/field/peer.h"

enum weir__outlet_text {
        WEIR__TEXT_METHOD,
        WEIR__TEXT_TARGET,
        WEIR__TEXT_HOST,
        WEIR__TEXT_REFERER,
        WEIR__TEXT_AGENT,
        WEIR__TEXTS,
};

/* Bytes of each text, with a NUL. */
enum { WEIR__METHOD_MAX = 32, WEIR__TARGET_MAX = 4096, WEIR__HOST_MAX = 256, WEIR__REFERER_MAX = 2048, WEIR__AGENT_MAX = 1024 };

/* A record in a ring.  Its texts follow, each with a NUL.  It does not cross the end of the ring. */
struct weir__outlet_record {
        uint32_t size; /* with texts, a multiple of 8; 0: the ring is empty from here to its end */
        uint16_t status;
        uint8_t minor;
        bool is_complete;
        uint64_t body_sent;
        weir_nsec ended, duration;
        struct weir__peer client;
        uint16_t sizes[WEIR__TEXTS]; /* with the NUL; 0: there is no such text */
};

/* Positions count bytes since the start. */
struct weir__outlet_ring {
        char *bytes;

        _Alignas(64) _Atomic size_t written; /* by the owner of the poller, with release */
        _Alignas(64) _Atomic size_t taken;   /* by the outlet's thread, with release: the room may be used again */
};

struct weir__outlet {
        /* Constant. */
        char *path;                    /* of the file; or NULL */
        weir_http_access_fn *function; /* used without a file */
        void *context;
        int wake_fd; /* eventfd */

        /* Written by the thread that starts and stops it; constant while the outlet runs. */
        pthread_t thread;
        unsigned ring_count;
        struct weir__outlet_ring *rings; /* NULL: it does not run */
        char *memory;                    /* of the rings and of `out` */

        /* Of the outlet's thread, while it runs. */
        int fd;
        bool may_block; /* the standard output: other processes share its mode */
        bool was_given_up;
        char *out; /* lines; OUT_SIZE bytes */
        size_t out_size, out_done;
        int64_t date_second; /* the time in `date` */
        char date[32];
        size_t lost_said;
        weir_nsec stop_began; /* when a stop first failed to write; 0: not yet */

        _Atomic unsigned call; /* enum call */
        _Atomic bool is_stopping;    /* release and acquire */
        _Atomic bool has_file;   /* relaxed: there is a file that can be opened again */
        _Atomic int next_fd;   /* opened to replace the file; -1: none.  The thread that exchanges it closes it */
        _Atomic size_t lost;   /* relaxed */
};

/* An outlet to the file, or, if `path` is NULL, to the function.  Result: 0, -ENOMEM, or errors of eventfd; call _done in any
 * case. */
int weir__outlet_init(struct weir__outlet *outlet, const char *path, weir_http_access_fn *function, void *context);
void weir__outlet_done(struct weir__outlet *outlet);

/* Opens the file and makes the thread, with rings for `count` pollers.  Result: 0, errors of open, -ENOMEM, -EAGAIN. */
int weir__outlet_start(struct weir__outlet *outlet, unsigned count);
void weir__outlet_stop(struct weir__outlet *outlet);     /* waits until all is written; accepts one that is not started */
int weir__outlet_reopen(struct weir__outlet *outlet);    /* any thread.  Result: 0, -EDOM without a file, errors of open */

/* Adds a copy of the record with its texts to the ring at `index`.  A record that does not fit is lost and counted.  Called by
 * the owner of that poller. */
void weir__outlet_add(struct weir__outlet *outlet, unsigned index, const struct weir__outlet_record *made,
                      const char *const texts[WEIR__TEXTS]);

bool weir__outlet_is_own_thread(void); /* whether this is the thread of an outlet */

#endif
