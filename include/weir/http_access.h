/* weir/http_access.h: what a server tells about each request that it is done with. */
#ifndef WEIR_HTTP_ACCESS_H
#define WEIR_HTTP_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/time.h>

WEIR_BEGIN

#define WEIR_HTTP_NO_REPLY 499 /* the status of a request to which not a byte was sent: its client had gone, its series was
                                  cancelled, or a stop has cut it.  nginx writes the same number */

/* A request that is over.  Strings are as the client has sent them, which may hold anything but NUL, CR and LF: who writes them to
 * a file or a terminal escapes them.  Those that are too long end in three dots: a target of more than 4,095 bytes, a referrer of
 * 2,047, a user agent of 1,023, a host of 255. */
struct weir_http_access {
        size_t size;            /* of this struct */
        const char *client;     /* as weir_http_client_address: the other end, or whom a trusted proxy names there */
        const char *method;     /* this, the target and the host are NULL for what was refused before it was taken for a request */
        const char *target;
        const char *host;       /* "" when empty or absent */
        const char *referer;    /* NULL: none was sent */
        const char *user_agent; /* NULL: none was sent */
        int minor;              /* of HTTP/1.minor */
        int status;
        int is_complete;        /* not 0: the system has taken all of the reply */
        uint64_t body_sent;     /* bytes of the reply behind its head that it has taken, with the frame of chunks */
        weir_nsec ended;        /* when it was over, on the wall clock */
        weir_nsec duration;     /* from the end of its head to the last byte that was handed to the system; 0 for what was refused
                                   before it was taken for a request */
};

/* Is told of one.
 *
 * Owner:   the server: borrowed until the function returns.
 * Threads: one that the server has for this: it is called for one request at a time, in no callback, and may block.  As long as it
 *          does nothing is told, and when the buffers are full what comes is lost and counted; a log file is written all the same.
 *          A stop waits for it: so it must neither stop a server nor call weir_http_serve (-EDEADLK), nor free one (that aborts).
 *          All else that may be asked of a server has its answer, also while that starts or stops. */
typedef void weir_http_access_fn(const struct weir_http_access *access, void *context);

WEIR_END

#endif
