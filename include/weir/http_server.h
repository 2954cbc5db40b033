/* weir/http_server.h: an HTTP/1.1 server whose handler is a callback.
 *
 * The handler runs once per request, with the exchange as its task.  The reply goes out when the exchange's series runs dry: to
 * delay it, push a timer into weir_series_of(exchange); to drop it, cancel that series (the connection is closed).
 *
 * Timers in the series of an exchange, and in parallels within it, end on a grid of one millisecond, never early: so replies that
 * are due within a millisecond leave together, which costs much less.  While all requests are answered 100 ms later and more
 * any timer of their poller may be late by 0.8 ms, besides.  All other timers are exact. */
#ifndef WEIR_HTTP_SERVER_H
#define WEIR_HTTP_SERVER_H

#include <weir/http.h>
#include <weir/http_access.h>
#include <weir/series.h>

WEIR_BEGIN

typedef struct weir_http_server weir_http_server;

/* Whether a client has to show a certificate. */
enum weir_http_client_check {
        WEIR_HTTP_CLIENT_UNCHECKED = 0,
        WEIR_HTTP_CLIENT_REQUESTED = 1, /* it may; one that is shown must be good */
        WEIR_HTTP_CLIENT_REQUIRED = 2,
};

/* Limits of a server.  Start from WEIR_HTTP_SERVER_CONFIG_DEFAULT; 0 in a field means its default, SIZE_MAX or WEIR_FOREVER
 * none. */
struct weir_http_server_config {
        size_t size;            /* of this struct: set by WEIR_HTTP_SERVER_CONFIG_DEFAULT */
        size_t max_connections; /* for a further one that which is idle longest is closed, or else it is answered 503 and closed;
                                   default: no limit but the process's descriptors */
        size_t max_head;        /* bytes of request line and fields: 431 above; default 32 KiB, at most 16 MiB */
        size_t max_body;        /* bytes of a request's body: 413 above; default 1 MiB */
        weir_nsec head_timeout; /* from the first byte of a request to the end of its head: 408, then close; default 10 s */
        weir_nsec body_timeout; /* from there to the end of its body: 408, then close; default 30 s */
        weir_nsec idle_timeout; /* between requests: close; default 60 s */
        size_t max_line;        /* bytes of the request line: 414 above; default 8 KiB */
        size_t max_fields;      /* field lines of a request: 431 above; default 256 */
        weir_nsec write_timeout; /* for a peer that takes nothing of its reply: close; default 60 s */
        int stream_bodies;       /* not 0: the handler runs at the end of the head, and reads the body (weir/http_body.h) */
        int ignore_departure;    /* not 0: the series of an exchange runs on when its client has gone; by default it is cancelled.  A
                                    client that has only finished its side is sent an interim 100 to find that out, and served */
        weir_nsec shed_lateness; /* requests are answered 503 while everything is later than this; default: never */
        size_t max_pairs;       /* of a query, a form, or cookies that are read (weir/http_fields.h); default 1,000 */
        const char *trusted_proxies; /* whose word is taken for who their clients are: addresses, networks and "unix:" between
                                        commas, such as "127.0.0.1, 10.0.0.0/8, ::1"; default: nobody's */
        const char *forwarded_field; /* the field in which they say it: "Forwarded" as in RFC 7239, or one with a list of
                                        addresses; default: X-Forwarded-For.  They must write that one: others they pass on
                                        as they came */

        /* TLS, at all addresses of the server, when there is a certificate or an SSL_CTX.  ocsp_file, client_ca_file and client_check
         * without one are -EINVAL at the start, as is whatever does not go together: the log says what was expected. */
        const char *certificate_file;   /* PEM: a chain, the server's own first */
        const char *private_key_file;   /* PEM: its key, without a passphrase */
        void *ssl_ctx;                  /* an SSL_CTX of OpenSSL in place of files, used as it is and kept by the server */
        const char *ocsp_file;          /* an OCSP response in DER, sent along with the certificate; default: none */
        const char *client_ca_file;     /* PEM: who may sign clients' certificates */
        enum weir_http_client_check client_check; /* default: clients are not asked for certificates */
        int reserved;                   /* 0 */
        weir_nsec handshake_timeout; /* from accept to the end of the handshake: close; default 10 s */

        int compress;            /* whole replies of compressible types go out as gzip to who accepts it: 1, fast, to 9, small;
                                    default 0: not.  It costs CPU, and gives away secrets in a body beside what a stranger has
                                    chosen */
        unsigned compress_least; /* bytes of a body: a smaller one goes out as it is; default 1 KiB */
        size_t max_connections_per_address; /* a further one of the same IPv4 address, or of the same first 64 bits of an IPv6 one, is
                                               answered 503 and closed; a trusted proxy may have any number; default: no limit */
        const char *access_log; /* a file, which lines in the Combined Log Format are appended to; "-" is the standard output; a
                                   pipe has to have its reader already; default: none */
        weir_http_access_fn *on_access; /* is told of each request that is over, whatever becomes of the file; default: none */
        void *access_context;
};

#ifdef __cplusplus
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT \
        {sizeof(struct weir_http_server_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
         0, 0, 0, 0, 0, WEIR_HTTP_CLIENT_UNCHECKED, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_HTTP_SERVER_CONFIG_DEFAULT {.size = sizeof(struct weir_http_server_config)}
#endif

/* Serves until SIGINT or SIGTERM; then stops within 30 s, delivering the replies that are due; a second signal cuts
 * them.  While it runs it owns the handling of these signals (also when they were ignored) and puts it back at its end; the
 * soft limit of open files is raised to the hard one.  `address` as for weir_http_server_start.
 *
 * SIGUSR2, unless the program has its own use for it, starts the program anew with the same arguments and the listening
 * sockets, as weir_http_server_inherit does; when the new process serves, this one stops as after SIGTERM.  When it does not
 * within 60 s, this one goes on, and says why.  An absolute argv[0] is what is started, otherwise the file that runs, or has
 * replaced it.
 *
 * Result:  0 after a stop, or how many exchanges were cut; negative as weir_http_server_start reports; -ESHUTDOWN when another
 *          thread ended the runtime.
 * Threads: any but workers, and those that are told of an access log (-EDEADLK). */
WEIR_API int weir_http_serve(const char *address, weir_task_fn *handler, void *context);

/* A server that is not yet started.  `config` may be NULL.
 *
 * Owner:   the caller: weir_http_server_free.
 * Result:  NULL when out of memory; what else is wrong (a NULL handler, a limit out of range) is reported by its start.
 * Threads: any. */
WEIR_API weir_http_server *weir_http_server_new(const struct weir_http_server_config *config, weir_task_fn *handler,
                                                void *context);

/* Makes a copy of `body` the body of the replies that are the server's own, with that status: refusals of what is malformed, too
 * large or too slow, 500 for a reply that could not be built, 503; and what a router or weir_http_reply_file says.  A connection
 * that is turned away gets one of at most some 8,000 bytes, else the line of text.  Before the start; a second one replaces the
 * first.
 *
 * Result:  0; -EINVAL for a status outside 400 to 599, a NULL or wrong type, NULL with a size, a body of 2 GiB or more; -EBUSY once
 *          its start has begun, unless that has failed; -ENOMEM, also for a NULL server; -ECHILD in a forked child.
 * Threads: any; never waits for a start or stop. */
WEIR_API int weir_http_server_set_error(weir_http_server *server, int status, const char *type, const void *body, size_t size);

/* A further certificate, before the start: for clients that ask for a name which it is for, by its alternative names or
 * wildcards.  Others get the first.
 *
 * Owner:   the names of the files are copied.
 * Result:  0; -EINVAL for NULL, and for a server that has an SSL_CTX; -EALREADY once a start was tried; -ENOMEM; -ECHILD in a
 *          forked child.  The files are read, and complained about, by the start.
 * Threads: any; never waits for a start or stop. */
WEIR_API int weir_http_server_add_certificate(weir_http_server *server, const char *certificate_file,
                                              const char *private_key_file);

/* Reads all files of TLS again, for connections that come from now on; those that there are stay as they are, and sessions are
 * resumed as before.
 *
 * Result:  0; what the start reports of such files: then nothing has changed, and what was wrong is in the log; -EDOM for a server
 *          without such files, and before a start was tried, which reads them; -EINVAL for NULL; -ECHILD in a forked child.
 * Threads: any; reads files. */
WEIR_API int weir_http_server_reload(weir_http_server *server);

/* Starts to serve at one address or several, which commas or spaces separate:
 *
 *     "host:port", "[v6]:port"   port 0 takes a free one, an empty host is every IPv4 address.  A host that is a name is
 *                                looked up first, which may block; of several addresses it is the first one that the system
 *                                names.
 *     "unix:path"                a Unix socket.  The file of a server that is no more is replaced; it is removed at the stop;
 *                                who may connect is the umask's matter.
 *     "unix:@name"               one without a file
 *     "fd:5"                     a socket that listens already; the server closes it, unless the start fails
 *     "listen:"                  all that the process was started with (LISTEN_FDS, see sd_listen_fds(3)) and that has no address
 *                                which is named here
 *
 * Sockets that the process was started with are used for their addresses, wherever those are named: so a program that was
 * started by weir_http_server_inherit, or by systemd, needs no other arguments.  The first start takes LISTEN_FDS and what
 * belongs to it out of the environment, if it is meant for this process.
 *
 * Result:  0; then it serves at all of them.  Otherwise at none, and what is wrong with which address is logged: -EADDRINUSE,
 *          -EADDRNOTAVAIL, -EACCES and what else bind reports; -ENAMETOOLONG for the path of a socket; -EBADF, -ENOTSOCK, and
 *          -EINVAL when it does not listen, for a descriptor; -ENOENT for "listen:" when there is nothing; -EINVAL for an
 *          address that is none, or what was wrong with the server's making; -ENOMEM for NULL; -EALREADY when it has an
 *          address, or another start is under way; -ESTALE once a stop has begun; -EAGAIN when a name cannot be looked up
 *          now; -ENOENT, -EACCES, WEIR_ETLS_KEY and the like for a file of TLS that is of no use; what open
 *          reports of the access log; -ESHUTDOWN, -ECHILD and what weir_init reports.
 * Threads: any but workers (-EDEADLK).  A stop that comes meanwhile waits, and then stops. */
WEIR_API int weir_http_server_start(weir_http_server *server, const char *address);

/* The port of the first address that has one; -EDOM when none has, before the start is over, and after the stop; -EINVAL for
 * NULL. */
WEIR_API int weir_http_server_port(const weir_http_server *server);

/* The descriptors that it listens at, of which `room` are written to `fds`: several for each address.
 *
 * Owner:   the server, until it stops or the runtime ends.
 * Result:  how many there are; -EDOM when it does not serve: before the start is over, and once a stop has begun; -EINVAL for
 *          NULL.
 * Threads: any but workers (-EDEADLK); never waits for a start or stop. */
WEIR_API int weir_http_server_fds(weir_http_server *server, int *fds, size_t room);

/* Starts the program at `path` as a new process that listens at the same sockets, and waits until it serves.  Then this server
 * may be stopped: no connection is refused or reset, each is served by one process or the other.  A connection that has not
 * brought its first request when the stop comes has a second for it; files of Unix sockets stay.
 *
 * The new process has this one's environment, with the sockets as descriptors from 3 on (LISTEN_FDS, LISTEN_PID,
 * LISTEN_FDNAMES), and WEIR_READY_FD.  It serves when its servers have taken over all sockets, or when it calls
 * weir_http_server_ready; a program that is not of weir writes a byte 0 to that descriptor.
 *
 * Result:  the new process's number, a child of this one.  Otherwise it was ended, and this server goes on: -EPIPE when it
 *          ended before; -ETIMEDOUT; -ENOENT, -EACCES and what else execve reports; -EDOM when the server does not serve,
 *          as weir_http_server_fds; -EINVAL for NULL; -ENOMEM, -EMFILE, -EAGAIN.
 * Units:   nanoseconds; WEIR_FOREVER is no limit.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within);

/* Tells the process that started this one that it may stop, and closes the sockets that no server has taken over.  For programs
 * that do not serve at all addresses any more; otherwise that is done by the start of the last server.  weir_http_serve does it
 * after one second.
 *
 * Result:  how many were closed; -ENOMEM.
 * Threads: any but workers (-EDEADLK). */
WEIR_API int weir_http_server_ready(void);

/* Stops: no new connections, idle ones closed, exchanges that run are finished and their replies sent with `Connection: close`.
 * What is left after `within` is cut: its connection closed, its series cancelled.  Returns when no callback of the server
 * runs or will run.
 *
 * Result:  0, or how many exchanges were cut; 0 when another thread has stopped it, or does: then it returns when that is over,
 *          whose limit holds;
 *          -EINVAL for NULL; -EDEADLK on a worker, where an access log is told, and inside a log function that this
 *          server's own start or stop has called; -ECHILD in a forked child.
 * Units:   nanoseconds.  0 or less cuts at once.
 * Threads: any but workers. */
WEIR_API int weir_http_server_stop(weir_http_server *server, weir_nsec within);

/* Opens the file of the access log anew, also when it was renamed or removed: what is logged from now on, and perhaps some of
 * what was logged just before, goes there.  The old file is closed as soon as no line is half written; one that does not take
 * what is written is left at once.
 *
 * Result:  0; what open reports, and the old file stays in use; -EDOM when there is none or only the standard output, or before the
 *          start or after the stop; -EINVAL for NULL; -ECHILD in a forked child.
 * Threads: any; it waits for the disk, as open does. */
WEIR_API int weir_http_server_reopen_log(weir_http_server *server);

/* How many requests could not be logged since the start, because file or function was too slow, or failed: with both, those that
 * the file has missed and those that the function has.
 *
 * Threads: any. */
WEIR_API size_t weir_http_server_access_lost(const weir_http_server *server);

/* Frees the server; one that still serves is stopped within 0 first.  Accepts NULL.
 *
 * Threads: any but workers: where a stop reports -EDEADLK it aborts with the reason.  It waits for a start or stop that has begun
 *          on another thread; no call may begin any more.  In a forked child it stops nothing, and what the pollers have of it
 *          stays. */
WEIR_API void weir_http_server_free(weir_http_server *server);

WEIR_END

#endif
