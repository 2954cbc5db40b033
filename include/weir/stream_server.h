/* weir/stream_server.h: servers of TCP, TLS and Unix sockets: a handler, and a series for each
 * connection.
 *
 *     static void
 *     echo(weir_stream *stream, weir_series *series, void *context)
 *     {
 *             weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
 *     }
 *
 *     weir_stream_serve("127.0.0.1:7777", echo, NULL);      weir/stream.h has write_back
 *
 * The series has a reference to the stream.  When the series ends, the stream is closed.  All written
 * bytes still go out.  A program that needs the stream longer takes a reference of its own. */
#ifndef WEIR_STREAM_SERVER_H
#define WEIR_STREAM_SERVER_H

#include <stddef.h>

#include <weir/stream.h>
#include <weir/time.h>

WEIR_BEGIN

/* A server of streams. */
typedef struct weir_stream_server weir_stream_server;

/* The handler: the function that is called for each new connection, after the handshake of TLS.  It
 * pushes tasks onto the series, which starts when the handler returns.  A handler that pushes nothing
 * closes the connection.
 *
 * Owner:   the stream and the series are the server's.  The series is neither started nor dismissed
 *          by the handler.
 * Threads: it runs on a worker, as a callback does. */
typedef void weir_stream_fn(weir_stream *stream, weir_series *series, void *context);

/* Begins with WEIR_STREAM_SERVER_CONFIG_DEFAULT.  0 and NULL stand for the default.  Texts are copied.
 * A time limit of WEIR_FOREVER is none.
 *
 * A limit that has passed ends the connection: its tasks end with -ETIMEDOUT.  The two limits after
 * the handshake count by themselves, and neither changes the other:
 *
 * - write_timeout begins when a write has to wait, because the system has no room.  It begins anew
 *   with each byte that goes, and ends when no byte waits.  Bytes that come do not matter.
 * - idle_timeout begins with the handler, and anew with each byte that comes or goes.
 *
 * The peer sees a reset if bytes still wait to go out, as always after write_timeout, or if the tasks
 * have not read all that came.  Else it sees an end of the stream, as if the server had closed it.
 *
 * A byte comes when a task reads it from the system.  It goes when the system takes it from a task.
 * While bytes wait for room, a byte that the peer's system takes goes as well.  The library looks for
 * such bytes when a limit would end, and then begins it anew: the limit of a slow peer may last twice
 * as long.  Bytes that the system holds for the peer do not wait.
 *
 * A start of TLS is silence until it ends.  While weir_protocol_serve_new has the stream, the limits of
 * the protocol hold in place of these; idle_timeout begins anew behind it. */
struct weir_stream_server_config {
        size_t size; /* sizeof(struct weir_stream_server_config) */

        size_t max_connections; /* further ones wait in the system until there is room; default: no limit */
        size_t max_connections_per_address; /* of one IPv4 address, or of the same first 64 bits of IPv6 addresses; further
                                               ones are closed at once; default: no limit */

        const char *certificate_file; /* PEM: a chain, the server's own certificate first; default: no TLS */
        const char *private_key_file; /* PEM: its key, without a passphrase */
        const char *client_ca_file;   /* PEM: the authorities that may have signed the certificates of clients, which are
                                         required then; default: clients are asked for no certificate */

        weir_nsec handshake_timeout; /* from accept to the end of the handshake of TLS; default 10 s */
        weir_nsec write_timeout;     /* bytes wait to go out, and none goes for that long; default 60 s */
        weir_nsec idle_timeout;      /* no byte comes and none goes for that long, whatever the series does; default: none */
        weir_nsec stop_within;       /* the limit of the stop in weir_stream_serve_with; default 30 s */
};

/* The initial value of a struct weir_stream_server_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_STREAM_SERVER_CONFIG_DEFAULT {sizeof(struct weir_stream_server_config), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_STREAM_SERVER_CONFIG_DEFAULT {.size = sizeof(struct weir_stream_server_config)}
#endif

/* Serves until SIGINT or SIGTERM, then stops within 30 s (stop_within).  A second signal cancels the
 * series that are left.  SIGUSR2 restarts the program, and SIGHUP reads the certificates again, if the
 * server has such files, all as in weir_http_serve (weir/http_server.h), which may run beside it in
 * another thread.  Without such files SIGHUP ends the program, unless that uses the signal itself.
 *
 * Result:  0 after a stop, or how many series were cancelled; errors of weir_stream_server_start;
 *          -ESHUTDOWN when another thread ended the runtime; -ENOMEM.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_stream_serve(const char *address, weir_stream_fn *handler, void *context);

/* The same with a configuration, which may be NULL.
 *
 * Result:  as weir_stream_serve.
 * Threads: as weir_stream_serve. */
WEIR_API int weir_stream_serve_with(const struct weir_stream_server_config *config, const char *address, weir_stream_fn *handler,
                                    void *context);

/* Makes a server that is not started.  `config` may be NULL.
 *
 * Owner:   the caller frees it by weir_stream_server_free.
 * Result:  NULL when out of memory.  Other errors (a NULL handler, a limit out of range) are reported
 *          by its start.
 * Threads: any. */
WEIR_API weir_stream_server *weir_stream_server_new(const struct weir_stream_server_config *config, weir_stream_fn *handler,
                                                    void *context);

/* Starts a server.  The address has the forms of weir_http_server_start: "host:port", "[v6]:port",
 * ":port" for all addresses, port 0 for any free one, "unix:path", "unix:@name", "listen:" and "fd:5"
 * for sockets from outside, and several with commas between them.
 *
 * Result:  0: it serves; -EINVAL for a bad config or address (the log says why); -ENOMEM,
 *          also for NULL; -EALREADY when it serves, -ESTALE after its stop; -EADDRINUSE, -EACCES and
 *          other errors of bind(2); errors of files and TLS as weir_http_server_start; -EDEADLK on a
 *          worker; -ESHUTDOWN; -ECHILD in a forked child.  After a failure another start may follow.
 * Threads: any but workers. */
WEIR_API int weir_stream_server_start(weir_stream_server *server, const char *address);

/* The port of its first address.
 *
 * Result:  -EDOM: it does not serve, or at a Unix socket; -EINVAL for NULL.
 * Threads: any. */
WEIR_API int weir_stream_server_port(const weir_stream_server *server);

/* Stops a server.  No connection is accepted any more; those that the system has accepted already get
 * their handler.  Series go on for `within`.  Then those that are left are cancelled, the log names
 * them, and their connections are broken.  Connections that the program has references to are broken as
 * well.  Returns when all callbacks of its series have returned.
 *
 * Result:  0, or how many series were cancelled; -EINVAL for NULL; -EDEADLK on a worker, or within its
 *          own start or stop; -ECHILD in a forked child.
 * Threads: any but workers.
 * Units:   nanoseconds of real time; WEIR_FOREVER: no limit. */
WEIR_API int weir_stream_server_stop(weir_stream_server *server, weir_nsec within);

/* Stops a server at once, if it serves, and frees it.  Accepts NULL.  Aborts on a worker.
 *
 * Owner:   consumes the server.
 * Threads: any but workers. */
WEIR_API void weir_stream_server_free(weir_stream_server *server);

/* Reads the files of TLS again, for new connections.  After a failure the former ones stay in use.
 *
 * Result:  0; -EDOM: it has no such files, or was not started; -EINVAL for NULL; errors of files and
 *          TLS as weir_stream_server_start; -ECHILD in a forked child.
 * Threads: any.  Reads files: on a worker, between weir_blocking_begin and weir_blocking_end. */
WEIR_API int weir_stream_server_reload(weir_stream_server *server);

/* Starts another program, which inherits the listening sockets, and waits until it serves: as
 * weir_http_server_inherit.
 *
 * Result:  the process; negative as weir_http_server_inherit.
 * Threads: any but workers. */
WEIR_API int weir_stream_server_inherit(weir_stream_server *server, const char *path, char *const arguments[], weir_nsec within);

WEIR_END

#endif
