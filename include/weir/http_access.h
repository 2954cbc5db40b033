/* weir/http_access.h: what a server reports about each finished request. */
#ifndef WEIR_HTTP_ACCESS_H
#define WEIR_HTTP_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/time.h>

WEIR_BEGIN

/* The status of a request without a single byte of reply: its client had gone, its series was
 * cancelled, or a stop has cut it.  nginx writes the same number. */
#define WEIR_HTTP_NO_REPLY 499

/* A finished request.  Strings are as the client has sent them.  They may hold anything but NUL, CR
 * and LF, so escape them before writing them to a file or a terminal.  Strings that are too long
 * are cut and end in three dots: a target above 4,095 bytes, a referrer above 2,047, a user agent
 * above 1,023, a host above 255. */
struct weir_http_access {
        size_t size;            /* of this struct */
        const char *client;     /* as weir_http_client_address: the peer, or the client that a trusted proxy names */
        const char *method;     /* method, target and host are NULL if the input was refused before it was a request */
        const char *target;     /* as it was sent: path and query, not decoded */
        const char *host;       /* "" when empty or absent */
        const char *referer;    /* NULL: none was sent */
        const char *user_agent; /* NULL: none was sent */
        int minor;              /* of HTTP/1.minor */
        int status;             /* of the reply; WEIR_HTTP_NO_REPLY: there was none */
        int is_complete;        /* not 0: the system has taken the whole reply */
        uint64_t body_sent;     /* bytes of the reply after its head that the system has taken, chunk framing included */
        weir_nsec ended;        /* when the request was finished, on the wall clock */
        weir_nsec duration;     /* from the end of the request's head to the last byte that the system has taken; 0 if the
                                   input was refused before it was a request */
};

/* Receives a finished request.
 *
 * The function must not stop a server or call weir_http_serve (-EDEADLK), because a stop waits for
 * it.  It must not free a server (that aborts).  All other calls for a server are allowed, also
 * while that server starts or stops.
 *
 * Owner:   the struct belongs to the server and is borrowed until the function returns.
 * Threads: one thread that the server has for this.  It calls the function for one request at a
 *          time, outside of callbacks, and the function may block.  While it blocks nothing else is
 *          reported; when the buffers are full, further requests are lost and counted.  A log file
 *          is still written. */
typedef void weir_http_access_fn(const struct weir_http_access *access, void *context);

WEIR_END

#endif
