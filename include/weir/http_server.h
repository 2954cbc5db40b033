/* weir/http_server.h: an HTTP/1.1 server whose handler is a callback.
 *
 * The handler runs once per request, with the exchange as its task.  The reply goes out when the exchange's series runs dry: to
 * delay it, push a timer into weir_series_of(exchange); to drop it, cancel that series (the connection is closed).
 *
 * Timers in the series of an exchange, and in parallels within it, end on a grid of one millisecond, never early: so replies that
 * are due within a millisecond leave together, which costs much less.  All other timers are exact. */
#ifndef WEIR_HTTP_SERVER_H
#define WEIR_HTTP_SERVER_H

#include <weir/http.h>
#include <weir/series.h>

WEIR_BEGIN

typedef struct weir_http_server weir_http_server;

/* Limits of a server.  Start from WEIR_HTTP_SERVER_CONFIG_DEFAULT; 0 in a field means its default, SIZE_MAX or WEIR_FOREVER
 * none. */
struct weir_http_server_config {
        size_t size;            /* of this struct: set by WEIR_HTTP_SERVER_CONFIG_DEFAULT */
        size_t max_connections; /* further ones are answered 503 and closed; default: no limit but the process's descriptors */
        size_t max_head;        /* bytes of request line and fields: 431 above; default 32 KiB, at most 16 MiB */
        size_t max_body;        /* bytes of a request's body: 413 above; default 1 MiB */
        weir_nsec head_timeout; /* from the first byte of a request to the end of its head: 408, then close; default 10 s */
        weir_nsec body_timeout; /* from there to the end of its body: 408, then close; default 30 s */
        weir_nsec idle_timeout; /* between requests, and for a peer that does not read its reply: close; default 60 s */
        size_t max_line;        /* bytes of the request line: 414 above; default 8 KiB */
        size_t max_fields;      /* field lines of a request: 431 above; default 256 */
};

#ifdef __cplusplus
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT {sizeof(struct weir_http_server_config), 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT {.size = sizeof(struct weir_http_server_config)}
#endif

/* Serves until SIGINT or SIGTERM; then stops within 30 s, delivering the replies that are due; a second signal cuts
 * them.  While it runs it owns the handling of these signals (also when they were ignored) and puts it back at its end; the
 * soft limit of open files is raised to the hard one.  `address` as for weir_http_server_start.
 *
 * Result:  0 after a stop, or how many exchanges were cut; negative as weir_http_server_start reports; -ESHUTDOWN when another
 *          thread ended the runtime.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_serve(const char *address, weir_task_fn *handler, void *context);

/* A server that is not yet started.  `config` may be NULL.
 *
 * Owner:   the caller: weir_http_server_free.
 * Result:  NULL when out of memory; what else is wrong (a NULL handler, a limit out of range) is reported by its start.
 * Threads: any. */
WEIR_API weir_http_server *weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler,
                                                void *context);

/* Starts to serve at "host:port" or "[v6]:port"; port 0 takes a free one, an empty host is every IPv4 address.  A host that is a
 * name is looked up first, which may block.
 *
 * Result:  0; -EADDRINUSE, -EADDRNOTAVAIL, -EACCES and what else bind reports; -EINVAL for an address that is none, or what was
 *          wrong with the server's making; -ENOMEM for NULL; -EALREADY when it has an address; -ESTALE once it was stopped;
 *          -EAGAIN when a name cannot be looked up now; -ESHUTDOWN, -ECHILD and what weir_init reports.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_server_start(weir_http_server *server, const char *address);

/* The port it serves at; -EDOM when it serves at none; -EINVAL for NULL. */
WEIR_API int weir_http_server_port(const weir_http_server *server);

/* Stops: no new connections, idle ones closed, exchanges that run are finished and their replies sent with `Connection: close`.
 * What is left after `within` is cut: its connection closed, its series cancelled.  Returns when no callback of the server
 * runs or will run.
 *
 * Result:  0, or how many exchanges were cut; -EINVAL for NULL; -EDEADLK on a worker; -ECHILD in a forked child.
 * Units:   nanoseconds.  0 or less cuts at once.
 * Threads: any but workers. */
WEIR_API int weir_http_server_stop(weir_http_server *server, weir_nsec within);

/* Frees the server; one that still serves is stopped within 0 first.  Accepts NULL.
 *
 * Threads: any but workers: there it aborts with the reason. */
WEIR_API void weir_http_server_free(weir_http_server *server);

WEIR_END

#endif
