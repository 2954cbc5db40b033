/* weir/http_server.h: an HTTP/1.1 server.  Its handler is a callback.
 *
 * The handler runs once per request, with the exchange as its task.  The reply goes out when the
 * exchange's series has nothing left to run.  To delay a reply, push a timer into
 * weir_series_of(exchange).  To drop it, cancel that series; the connection is closed then.
 *
 *     weir_http_server *server = weir_http_server_new(NULL, on_request, NULL);
 *     int err = weir_http_server_start(server, ":8080");
 *     ...
 *     weir_http_server_stop(server, WEIR_SEC(30));
 *     weir_http_server_free(server);
 *
 * Replies that are delayed on purpose are coalesced, within a window of 1 ms, which costs much less
 * (weir_http_server_set_coalescing).  Timers in the series of an exchange, and in parallels within
 * it, end on a grid of that window, and never early.  All other timers are exact. */
#ifndef WEIR_HTTP_SERVER_H
#define WEIR_HTTP_SERVER_H

#include <weir/http.h>
#include <weir/http_access.h>
#include <weir/series.h>

WEIR_BEGIN

/* A server.  The program frees it. */
typedef struct weir_http_server weir_http_server;

/* Whether a client must show a certificate. */
enum weir_http_client_check {
        WEIR_HTTP_CLIENT_UNCHECKED = 0, /* it is not asked for one */
        WEIR_HTTP_CLIENT_REQUESTED = 1, /* it may show one, which must be valid */
        WEIR_HTTP_CLIENT_REQUIRED = 2,  /* it must show a valid one */
};

/* Limits and options of a server.  Start from WEIR_HTTP_SERVER_CONFIG_DEFAULT. 0 in a field means
 * its default; SIZE_MAX or WEIR_FOREVER means no limit. */
struct weir_http_server_config {
        size_t size;            /* of this struct; set by WEIR_HTTP_SERVER_CONFIG_DEFAULT */
        size_t max_connections; /* at the limit, the connection that has been idle longest is closed; if none is idle, the new
                                   one gets a 503 and is closed; default: only the process's limit of descriptors */
        size_t max_head;        /* bytes of request line and fields; 431 above; default 32 KiB, at most 16 MiB */
        size_t max_body;        /* bytes of a request's body; 413 above; default 1 MiB */
        weir_nsec head_timeout; /* from the first byte of a request to the end of its head: 408, then close; default 10 s */
        weir_nsec body_timeout; /* from there to the end of its body, however much comes: 408, then close; default 30 s */
        weir_nsec idle_timeout; /* between requests: close; default 60 s */
        size_t max_line;        /* bytes of the request line; 414 above; default 8 KiB */
        size_t max_fields;      /* field lines of a request; 431 above; default 256 */
        weir_nsec write_timeout; /* while the peer takes nothing of its reply: close; default 60 s */
        int stream_bodies;       /* not 0: the handler runs at the end of the head and reads the body (weir/http_body.h) */
        int ignore_departure;    /* not 0: the series of an exchange runs on when its client has gone; by default it is cancelled.
                                    A client that has only finished sending gets an interim 100, which tells the two cases
                                    apart, and is served */
        weir_nsec shed_lateness; /* requests get a 503 while everything is later than this; default: never */
        size_t max_pairs;       /* of a query, a form, or cookies that are parsed (weir/http_fields.h); default 1,000 */
        const char *trusted_proxies; /* proxies that the server believes about their clients: addresses, networks and "unix:",
                                        separated by commas, such as "127.0.0.1, 10.0.0.0/8, ::1"; default: none */
        const char *forwarded_field; /* the field in which proxies name their client: "Forwarded" as in RFC 7239, or a field
                                        with a list of addresses; default: X-Forwarded-For.  The proxies must write this field:
                                        they pass on other fields as they came */

        /* TLS, at all addresses of the server, when there is a certificate or an SSL_CTX.  Without one, ocsp_file,
         * client_ca_file, client_check and tls_groups make the start fail with -EINVAL.  So does any other contradiction; the log
         * says what was expected. */
        const char *certificate_file;   /* PEM: a chain, the server's own certificate first */
        const char *private_key_file;   /* PEM: its key, without a passphrase */
        void *ssl_ctx;                  /* an SSL_CTX of OpenSSL instead of files; it is used as it is, and kept by the server */
        const char *ocsp_file;          /* an OCSP response in DER, sent with the certificate; default: none */
        const char *client_ca_file;     /* PEM: the authorities that may sign clients' certificates */
        enum weir_http_client_check client_check; /* default: clients are not asked for certificates */
        int reserved;                   /* 0 */
        weir_nsec handshake_timeout; /* from accept to the end of the handshake: close; default 10 s */

        int compress;            /* level of gzip for whole replies of compressible types, for clients that accept it: 1, fast,
                                    to 9, small; default 0: off.  It costs CPU.  It also leaks secrets in a body that contains
                                    text chosen by a stranger */
        unsigned compress_least; /* bytes of a body; a smaller one is not compressed; default 1 KiB */
        size_t max_connections_per_address; /* of one IPv4 address, or of the same first 64 bits of IPv6 addresses; a further
                                               connection gets a 503 and is closed; trusted proxies have no limit; default: no
                                               limit */
        const char *access_log; /* a file to which lines in the Combined Log Format are appended; "-" is the standard output; a
                                   pipe must already have its reader; default: none */
        weir_http_access_fn *on_access; /* receives each finished request, independently of the file; default: none */
        void *access_context;   /* what `on_access` gets */
        const char *tls_groups; /* for the exchange of keys, best first; default: "X25519:P-256:P-384".  Large finite fields, such
                                   as ffdhe8192, cost 100 ms of CPU for each ClientHello */
        weir_nsec stop_within;  /* the limit of the stop in weir_http_serve_with; default 30 s */
};

/* The initial value of a struct weir_http_server_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT \
        {sizeof(struct weir_http_server_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
         0, 0, 0, 0, 0, WEIR_HTTP_CLIENT_UNCHECKED, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT {.size = sizeof(struct weir_http_server_config)}
#endif

/* Serves until SIGINT or SIGTERM, then stops within 30 s (stop_within) and delivers the replies that
 * are due.  A second signal cuts them.  While it runs it owns the handlers of these signals, also if they were
 * ignored, and restores them at its end.  It raises the soft limit of open files to the hard one.
 * `address` is as for weir_http_server_start.
 *
 * SIGUSR2 restarts the program, unless the program has a handler of its own for that signal or
 * ignores it.  A task of weir_signal_new is no such handler: both get the signal.  The new process
 * gets the same arguments and the listening sockets, as with weir_http_server_inherit.  When it serves,
 * this process stops as after SIGTERM.  If it does not serve within 60 s, this process goes on and
 * logs why.  The program that is started is argv[0] if that is an absolute path; otherwise the file
 * of the running program, or the file that has replaced it.
 *
 * SIGHUP opens the access log again and reads the certificates again, as weir_http_server_reopen_log
 * and weir_http_server_reload do, if the server has such files, under the same conditions.  After a
 * failure, which the log tells, the old files stay in use.
 *
 * Result:  0 after a stop, or how many exchanges were cut; errors of weir_http_server_start;
 *          -ESHUTDOWN when another thread ended the runtime.
 * Threads: any but workers and the threads of access functions (-EDEADLK). */
WEIR_API int weir_http_serve(const char *address, weir_task_fn *handler, void *context);

/* The same with a configuration, which may be NULL: TLS, an access log, limits, and a router as the
 * handler.
 *
 *     struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
 *     config.access_log = "-";
 *     int err = weir_http_serve_with(&config, ":8080", weir_http_router_handle, router);
 *
 * Result:  as for weir_http_serve.
 * Threads: as for weir_http_serve. */
WEIR_API int weir_http_serve_with(const struct weir_http_server_config *config, const char *address, weir_task_fn *handler,
                                  void *context);

/* Makes a server that is not started.  `config` may be NULL.
 *
 * Owner:   the caller frees it by weir_http_server_free.
 * Result:  NULL when out of memory.  Other errors (a NULL handler, a limit out of range) are
 *          reported by its start.
 * Threads: any. */
WEIR_API weir_http_server *weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler,
                                                void *context);

/* Sets the body of the server's own replies with that status: refusals of requests that are
 * malformed, too large or too slow; 500 for a reply that could not be built; 503; and the replies
 * of a router and of weir_http_reply_file.  The body is copied.  A connection that is turned away
 * gets a body of at most some 8,000 bytes, otherwise the line of text.  Call it before the start.
 * A second call replaces the first.
 *
 * Result:  0; -EINVAL for a status outside 400 to 599, a NULL or invalid type, NULL with a size, or
 *          a body of 2 GiB or more; -EBUSY once the start has begun, unless it has failed; -ENOMEM,
 *          also for a NULL server; -ECHILD in a forked child.
 * Threads: any.  Never waits for a start or stop. */
WEIR_API int weir_http_server_set_error(weir_http_server *server, int status, const char *type, const void *body, size_t size);

/* Sets the coalescing window, before the start; default: 1 ms; 0: none.  Deadlines in the series of an
 * exchange are rounded up to a multiple of the window, so that replies leave together.  While all
 * replies come 100 ms after their requests or later, a request may wait for up to a window to be
 * read, so that requests are read together.
 *
 * Result:  0; -EINVAL for a negative window or one above 100 ms; -EBUSY once its start has begun,
 *          unless that has failed; -ENOMEM for a NULL server; -ECHILD in a forked child.
 * Threads: any; never waits for a start or stop. */
WEIR_API int weir_http_server_set_coalescing(weir_http_server *server, weir_nsec window);

/* Adds another certificate, before the start.  It is for clients that ask for one of its
 * alternative names or wildcards.  Other clients get the first certificate.
 *
 * Owner:   the names of the files are copied.
 * Result:  0; -EINVAL for NULL, and for a server that has an SSL_CTX; -EALREADY once a start was
 *          tried; -ENOMEM; -ECHILD in a forked child.  The start reads the files and reports what
 *          is wrong with them.
 * Threads: any.  Never waits for a start or stop. */
WEIR_API int weir_http_server_add_certificate(weir_http_server *server, const char *certificate_file,
                                              const char *private_key_file);

/* Reads all files of TLS again.  New connections use them.  Existing connections stay as they are,
 * and sessions are resumed as before.
 *
 * Result:  0; or an error, and nothing has changed: the errors that a start reports for such files,
 *          with the reason in the log; -EDOM for a server without such files, and before a start
 *          was tried (the start reads them); -EINVAL for NULL; -ENOMEM; -ECHILD in a forked child.
 * Threads: any; reads files. */
WEIR_API int weir_http_server_reload(weir_http_server *server);

/* Starts to serve at one address or several, separated by commas or spaces:
 *
 *     "host:port", "[v6]:port"   port 0 takes a free one; an empty host is every IPv4 address.  The name
 *                                of a host is looked up first, which may block; of several addresses the
 *                                first one is used
 *     "unix:path"                a Unix socket.  The file of a server that is gone is replaced; it is
 *                                removed at the stop; the umask says who may connect
 *     "unix:@name"               a Unix socket without a file
 *     "fd:5"                     a socket that listens already; the server closes it, unless the start fails
 *     "listen:"                  all sockets that the process was started with (LISTEN_FDS, see
 *                                sd_listen_fds(3)) and whose addresses are not named here
 *
 * Sockets that the process was started with are used for their addresses, wherever those are named.
 * So a program that was started by weir_http_server_inherit, or by systemd, needs no other
 * arguments.  The first start removes LISTEN_FDS and the related variables from the environment, if
 * they are meant for this process.
 *
 * The start does not raise the soft limit of open files, as weir_http_serve does: see setrlimit(2).
 *
 * Result:  0: it serves at all addresses.  Otherwise it serves at none, and the log says what is
 *          wrong with which address:
 *          -EADDRINUSE, -EADDRNOTAVAIL, -EACCES and other errors of bind; -ENAMETOOLONG for the
 *            path of a socket;
 *          -EBADF, -ENOTSOCK, and -EINVAL when it does not listen, for a descriptor; -ENOENT for
 *            "listen:" without sockets;
 *          -EINVAL for an invalid address; -EAGAIN when a name cannot be looked up now;
 *          an error of the making of the server; -ENOMEM for NULL;
 *          -EALREADY when the server has an address or another start is under way; -ESTALE once a
 *            stop has begun;
 *          -ENOENT, -EACCES, WEIR_ETLS_KEY and the like for a file of TLS that cannot be used;
 *            errors of open for the access log;
 *          -ESHUTDOWN, -ECHILD and errors of weir_init.
 * Threads: any but workers (-EDEADLK).  A stop that comes meanwhile waits for the start, and then
 *          stops. */
WEIR_API int weir_http_server_start(weir_http_server *server, const char *address);

/* The port of the first address that has one.
 *
 * Result:  the port; -EDOM when no address has one, before the start is over, and after the stop;
 *          -EINVAL for NULL.
 * Threads: any.  Never waits for a start or stop. */
WEIR_API int weir_http_server_port(const weir_http_server *server);

/* The descriptors that the server listens at, several for each address.  The first `room` of them
 * are written to `fds`.
 *
 * Owner:   the server, until it stops or the runtime ends.
 * Result:  how many there are; -EDOM when it does not serve: before the start is over, and once a
 *          stop has begun; -EINVAL for NULL; -ECHILD in a forked child.
 * Threads: any but workers (-EDEADLK).  Never waits for a start or stop. */
WEIR_API int weir_http_server_fds(weir_http_server *server, int *fds, size_t room);

/* Starts the program at `path` as a new process that listens at the same sockets, and waits until
 * it serves.  Then this server may be stopped: no connection is refused or reset, because one of
 * the two processes serves each of them.  A connection that has not sent its first request when the
 * stop comes has one second to do so.  Files of Unix sockets stay.
 *
 *     pid_t pid = weir_http_server_inherit(server, path, arguments, WEIR_SEC(60));
 *     if (pid > 0)
 *             weir_http_server_stop(server, WEIR_SEC(30));
 *
 * The new process has this environment, with the sockets as descriptors from 3 on (LISTEN_FDS,
 * LISTEN_PID, LISTEN_FDNAMES), and WEIR_READY_FD.  It serves when its servers have taken over all
 * sockets, or when it calls weir_http_server_ready.  A program without this library writes a byte 0
 * to that descriptor.
 *
 * Result:  the number of the new process, a child of this one.  Otherwise the new process was
 *          ended, and this server goes on: -EPIPE when it ended before it served; -ETIMEDOUT;
 *          -ENOENT, -EACCES and other errors of execve; -EDOM when the server does not serve, as
 *          for weir_http_server_fds; -EINVAL for NULL; -ENOMEM, -EMFILE, -EAGAIN; -ECHILD in a
 *          forked child.
 * Units:   nanoseconds; WEIR_FOREVER is no limit.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within);

/* Tells the process that started this one that it may stop, and closes the sockets that no server
 * has taken over.  It is for programs that no longer serve at all of the addresses; otherwise the
 * start of the last server does it.  weir_http_serve does it after one second.
 *
 * Result:  how many were closed; -ENOMEM; -ECHILD in a forked child.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_server_ready(void);

/* Stops the server.  It accepts no new connections, closes idle ones, and lets running exchanges
 * finish; their replies have `Connection: close`.  After `within`, the rest is cut: the connections
 * are closed, the series cancelled.  When the call returns, no callback of the server runs or will
 * run.
 *
 * Result:  0, or how many exchanges were cut; 0 also when another thread stops or has stopped it:
 *          the call returns when that stop is over, and the limit of that stop holds; -EINVAL for
 *          NULL; -ECHILD in a forked child; -EDEADLK on a worker, inside an access function, and
 *          inside a log function that this server's own start or stop has called.
 * Units:   nanoseconds.  0 or less cuts at once.
 * Threads: any but workers. */
WEIR_API int weir_http_server_stop(weir_http_server *server, weir_nsec within);

/* Opens the file of the access log again, for example after it was renamed or removed.  New lines,
 * and perhaps some of the lines just before, go to the new file.  The old file is closed as soon as
 * no line is half written.  If it takes no data, it is closed at once.
 *
 * Result:  0; -EDOM when there is no file, for the standard output, before the start and after the
 *          stop; -EINVAL for NULL; -ECHILD in a forked child; errors of open, and the old file
 *          stays in use.
 * Threads: any.  Waits for the disk, as open does. */
WEIR_API int weir_http_server_reopen_log(weir_http_server *server);

/* How many requests could not be logged since the start, because the file or the function was too
 * slow or failed.  With both, the requests that the file has missed and those that the function has
 * missed are added.
 *
 * Threads: any. */
WEIR_API size_t weir_http_server_access_lost(const weir_http_server *server);

/* Frees the server.  If it still serves, it is stopped first, with a limit of 0.  Accepts NULL.
 *
 * In a forked child it stops nothing, and memory that the pollers use is not freed.
 *
 * Threads: any but workers.  Where a stop reports -EDEADLK it aborts with the reason.  It waits for
 *          a start or stop that has begun on another thread; no other call may begin any more. */
WEIR_API void weir_http_server_free(weir_http_server *server);

WEIR_END

#endif
