/* weir/udp.h: datagrams: UDP, and Unix sockets of datagrams.
 *
 *     weir_udp *udp = weir_udp_open("127.0.0.1:0");
 *     struct weir_udp_ask_config how = WEIR_UDP_ASK_CONFIG_DEFAULT;
 *     how.id_size = 2;                              the first two bytes of a reply are the request's
 *     weir_task_start(weir_udp_ask_new(udp, "127.0.0.1:53", query, size, &how, take, NULL));
 *
 *     static void
 *     take(weir_task *ask, void *context)
 *     {
 *             size_t size;
 *             const void *reply = weir_udp_data(ask, &size);      NULL: see weir_task_status
 *     }
 *
 * A server has a handler, which runs for each datagram, and the tasks that the handler pushes:
 *
 *     weir_udp_server *server = weir_udp_serve("[::]:5353", answer, NULL);
 *
 *     static void
 *     answer(weir_task *request, void *context)
 *     {
 *             size_t size;
 *             const void *data = weir_udp_data(request, &size);
 *
 *             weir_udp_reply(request, data, size);
 *     }
 *
 * Datagrams get lost, come twice, come in another order, and come from anybody who writes a false
 * sender on them.  A server that sends more bytes than it was asked with helps to attack others.
 *
 * Addresses are "127.0.0.1:53", "[::1]:53", "[fe80::1%eth0]:53", "unix:/run/x" and "unix:@x".  Names
 * of hosts are not looked up. */
#ifndef WEIR_UDP_H
#define WEIR_UDP_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* A socket of datagrams, and a server of them. */
typedef struct weir_udp weir_udp;
typedef struct weir_udp_server weir_udp_server;

/* -- addresses -- */

/* The address of a socket.  `name` is a struct sockaddr of the system, of `size` bytes.  The program
 * may copy it, and may fill it in itself. */
struct weir_udp_address {
        unsigned size;           /* of the struct sockaddr; 0: there is none */
        unsigned reserved;       /* 0 */
        unsigned char name[112]; /* the struct sockaddr */
};

/* Room for the text of any address, with its NUL. */
#define WEIR_UDP_ADDRESS_TEXT 128

/* Reads the text of an address.
 *
 * Result:  0; -EINVAL: it is no address, for example the name of a host; -ENAMETOOLONG: a path is too
 *          long.
 * Threads: any. */
WEIR_API int weir_udp_address_read(struct weir_udp_address *address, const char *text);

/* Writes an address as weir_udp_address_read reads it, cut off at `room` bytes with the NUL.  "" for
 * one that has none, and for NULL.
 *
 * Threads: any. */
WEIR_API void weir_udp_address_write(const struct weir_udp_address *address, char *text, size_t room);

/* Compares two addresses, in an order that serves for sorting: by family, host, port.
 *
 * Result:  0: they are the same; below 0, above 0.
 * Threads: any. */
WEIR_API int weir_udp_address_compare(const struct weir_udp_address *one, const struct weir_udp_address *other);

/* -- sockets -- */

/* Opens a socket at an address.  Port 0 is a free one.  ":53" are all IPv4 addresses of this host;
 * "[::]:53" are all of both families.  The file of a Unix socket is removed when it is closed; one that
 * a killed process has left is EADDRINUSE.
 *
 * Owner:   the caller has a reference, for weir_udp_unref.
 * Result:  NULL with errno EINVAL or ENAMETOOLONG: no address; ECHILD in a forked child; ENOMEM; or an
 *          error of socket(2) and bind(2), such as EADDRINUSE, EACCES and EMFILE.  Tasks of a NULL
 *          socket fail at their start.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_udp *weir_udp_open(const char *address);

/* Opens a socket that talks to one peer.  Datagrams of others are not received, and the system says
 * when nobody listens there: -ECONNREFUSED.
 *
 * Owner:   the caller has a reference, for weir_udp_unref.
 * Result:  as weir_udp_open, with the errors of connect(2).
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_udp *weir_udp_connect(const char *peer);

/* Adds a reference.  Accepts NULL.  Returns `udp`.
 *
 * Threads: any that owns, borrows or has a reference. */
WEIR_API weir_udp *weir_udp_ref(weir_udp *udp);

/* Gives a reference up.  The socket is closed when the last one is gone and all tasks have ended.
 * Accepts NULL.
 *
 * Owner:   consumes one reference.
 * Threads: any, also inside callbacks of its tasks.  Never blocks. */
WEIR_API void weir_udp_unref(weir_udp *udp);

/* Closes the socket: tasks that wait end with -EBADF, and so do tasks that are started later.  What
 * was received and not taken is lost.  Accepts NULL.
 *
 * Owner:   the references stay.
 * Threads: any, also inside callbacks of its tasks.  Never blocks. */
WEIR_API void weir_udp_close(weir_udp *udp);

/* The address at which the socket is.  `size` 0 for NULL, and for a Unix socket without a name.
 *
 * Threads: any that has a reference. */
WEIR_API struct weir_udp_address weir_udp_local(const weir_udp *udp);

/* Its port.
 *
 * Result:  the port; -EDOM: it is a Unix socket; -EINVAL for NULL.
 * Threads: any that has a reference. */
WEIR_API int weir_udp_port(const weir_udp *udp);

/* Its descriptor, for options such as IP_MULTICAST_TTL, SO_BROADCAST and SO_RCVBUF.  The program must
 * not read, write or close it.
 *
 * Result:  the descriptor; -EBADF: it was closed; -EINVAL for NULL.
 * Threads: any that has a reference. */
WEIR_API int weir_udp_descriptor(const weir_udp *udp);

/* Receives what is sent to a group, such as "224.0.0.251" or "ff02::fb".  `interface` is the name of
 * a network interface; NULL: the system chooses.
 *
 * Result:  0; -EINVAL: no group, no such interface, or NULL; -EBADF: the socket was closed;
 *          -EAFNOSUPPORT: the socket has another family; the errors of setsockopt(2), such as
 *          -EADDRINUSE: it is joined already.
 * Threads: any that has a reference. */
WEIR_API int weir_udp_join(weir_udp *udp, const char *group, const char *interface);

/* A datagram of more than `max` bytes is cut, and marked (weir_udp_is_truncated).  Default: 65,536,
 * which no datagram of UDP exceeds.
 *
 * Result:  0; -EINVAL for NULL, and unless it is 1 to 65,536.
 * Units:   bytes.
 * Threads: any that has a reference; before the first task of the socket is started. */
WEIR_API int weir_udp_set_max(weir_udp *udp, size_t max);

/* How many datagrams the library has read and dropped: late and repeated replies to asks, and what
 * nobody received (weir_udp_ask_new).  The kernel counts those that found its queue full.
 *
 * Threads: any that has a reference. */
WEIR_API unsigned long long weir_udp_dropped(const weir_udp *udp);

/* -- receiving -- */

/* Makes a task that ends with the next datagram.
 *
 * Several tasks may wait at a socket: each gets one datagram, in the order of their starts.  While no
 * task waits, the library reads nothing, and the queue of the kernel fills up to its limit.  It may
 * have read datagrams before, together with others, 2 MiB a read; later tasks get them first.
 *
 * Owner:   the caller, until the task is consumed.  The task has the datagram.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL socket the task's start,
 *          run or push reports -EBADF.  The task's status: 0; -EBADF: the socket was closed;
 *          -ECONNREFUSED or another error that the peer's host has reported, on a connected socket;
 *          -ENOMEM or -ENOSPC: the system has no room to watch the socket, or there was no memory for
 *          a datagram, which is lost; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended
 *          before.  Then a datagram that has come already waits for the next task.
 * Threads: any. */
WEIR_API weir_task *weir_udp_receive_new(weir_udp *udp, weir_task_fn *done, void *context);

/* The same with all datagrams that are there, at least one, and at most `most` (0: 64).
 *
 *     do {
 *             data = weir_udp_data(receive, &size);
 *     } while (weir_udp_next(receive));
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_udp_receive_new.  A task that has got a datagram ends with 0 although a later one is
 *          lost or an error is reported; the next task has that error.
 * Threads: any. */
WEIR_API weir_task *weir_udp_receive_many_new(weir_udp *udp, unsigned most, weir_task_fn *done, void *context);

/* The datagram of a task: of a receive, the reply of an ask, the request of a server.  A NUL follows
 * it.
 *
 * Owner:   the task's; it is there until the callback of a receive or an ask returns, or the series of
 *          a request ends.
 * Result:  NULL: the task has none; `*size` is 0 then.  An empty datagram is "".
 * Threads: inside the task's callback; for a request also in the callbacks of its series. */
WEIR_API const void *weir_udp_data(const weir_task *task, size_t *size);

/* The sender of the datagram.  On a socket of both families an IPv4 sender has its IPv4 address.
 *
 * Result:  NULL: the task has no datagram.  `size` 0: a Unix socket without a name.
 * Threads: as weir_udp_data. */
WEIR_API const struct weir_udp_address *weir_udp_from(const weir_task *task);

/* Whether the datagram was longer than weir_udp_set_max allows.
 *
 * Threads: as weir_udp_data. */
WEIR_API int weir_udp_is_truncated(const weir_task *task);

/* Moves on to the next datagram of weir_udp_receive_many_new.
 *
 * Result:  1; 0: there is no other.
 * Threads: as weir_udp_data. */
WEIR_API int weir_udp_next(weir_task *task);

/* How many datagrams a task has received, or has handed to the system.
 *
 * Threads: as weir_udp_data. */
WEIR_API size_t weir_udp_count(const weir_task *task);

/* -- sending -- */

/* Makes a task that sends a datagram.  `to` is an address; NULL: the peer of weir_udp_connect.  The
 * task ends when the system has taken the datagram.
 *
 * Owner:   the caller, until the task is consumed.  The data is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EBADF for a NULL socket, and -EINVAL or -ENAMETOOLONG for an invalid address.
 *          The task's status: 0; -EBADF: the socket was closed; -EMSGSIZE: it is too long, for UDP
 *          above 65,507 bytes; -EDESTADDRREQ: no `to`, and no peer; -ENOBUFS: the queue of a network
 *          interface is full; -EAGAIN: the queue of the Unix socket `to` is full; -ENOMEM or -ENOSPC:
 *          the system has no room to watch the socket; another error of sendmsg(2); -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.  A datagram that was sent stays sent.
 * Threads: any. */
WEIR_API weir_task *weir_udp_send_new(weir_udp *udp, const char *to, const void *data, size_t size, weir_task_fn *done,
                                      void *context);

/* Makes a task that sends the datagrams that are added to it, in their order.  The first that the
 * system does not take ends the task; weir_udp_count says how many went before.
 *
 * Neighbours of one size and destination are one call of the system, where it can (UDP_SEGMENT).
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as weir_udp_send_new.
 * Threads: any. */
WEIR_API weir_task *weir_udp_send_many_new(weir_udp *udp, weir_task_fn *done, void *context);

/* Adds a datagram to weir_udp_send_many_new.  NULL, or an address without a size: the peer of
 * weir_udp_connect.
 *
 * Owner:   the data is copied.
 * Result:  0; -ENOMEM, also for a NULL task; -EINVAL: the address cannot be one, or there is a size
 *          and no data; -EDOM for another task, or one that was consumed.
 * Threads: where the task is yours. */
WEIR_API int weir_udp_send_add(weir_task *send, const struct weir_udp_address *to, const void *data, size_t size);

/* Makes a task that sends a datagram back, to the sender of the one that the task `received` has now,
 * from the socket that has received it.
 *
 * Owner:   the caller, until the task is consumed.  The data is copied.
 * Result:  as weir_udp_send_new; the start reports -EDOM if `received` has no datagram, or was NULL.
 * Threads: where weir_udp_data may be called. */
WEIR_API weir_task *weir_udp_reply_new(const weir_task *received, const void *data, size_t size, weir_task_fn *done,
                                       void *context);

/* -- asking -- */

/* How to ask, and which datagram is the reply.  Start from WEIR_UDP_ASK_CONFIG_DEFAULT; 0 in a field
 * means its default.
 *
 * A reply comes from the address that was asked, and has the id of the request: the `id_size` bytes at
 * `reply_id_at` of the reply are those at `id_at` of the request. */
struct weir_udp_ask_config {
        size_t size;         /* of this struct when the program was compiled; set by WEIR_UDP_ASK_CONFIG_DEFAULT */
        unsigned id_at;      /* where the id is in the request */
        unsigned reply_id_at; /* where it is in the reply */
        unsigned id_size;    /* at most 32; default: none, so any datagram from that address is the reply */
        int attempts;        /* datagrams that are sent at most; default 4 */
        weir_nsec wait;      /* after the first one; default 1 s.  Each later wait is twice the one before */
        weir_nsec max_wait;  /* a wait is not longer than this, without its jitter; default 60 s */
        int jitter;          /* each wait is longer by a random share up to so many percent; default 50; -1: none */
        int reserved;        /* 0 */
        weir_nsec limit;     /* of the whole ask, from its start; default and WEIR_FOREVER: the sum of the waits */
};

/* The initial value of a struct weir_udp_ask_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_UDP_ASK_CONFIG_DEFAULT {sizeof(struct weir_udp_ask_config), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_UDP_ASK_CONFIG_DEFAULT {.size = sizeof(struct weir_udp_ask_config)}
#endif

/* Makes a task that sends a request, again and again with growing waits, until the reply comes.  The
 * config may be NULL: the default one.
 *
 * Several asks may be in flight on a socket.  Each takes its own reply.  A reply that comes late or
 * twice is dropped for 30 seconds after its ask has ended; the last 256 asks are remembered.  Other
 * datagrams go to receivers.  If none waits, 64 of them are kept and what came with the last one in
 * the same read, at most 2 MiB.  The rest is dropped.
 *
 * Owner:   the caller, until the task is consumed.  The request and the config are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EBADF for a NULL socket, -EINVAL or -ENAMETOOLONG for what is no address, and
 *          -EINVAL for an invalid config, or a request that ends before its id.  The task's status:
 *          0: weir_udp_data has the reply; -ETIMEDOUT: none has come (weir_udp_attempts); -EEXIST: an
 *          ask with that id is in flight to that address; -ECONNREFUSED: nobody listens there, as its
 *          host says; -EBADF, -EMSGSIZE, -EDESTADDRREQ, -ENOMEM, -ENOSPC and others as
 *          weir_udp_send_new; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Units:   nanoseconds.
 * Threads: any.
 * Source:  RFC 7252, section 4.2; RFC 8085, section 3.1. */
WEIR_API weir_task *weir_udp_ask_new(weir_udp *udp, const char *to, const void *data, size_t size,
                                     const struct weir_udp_ask_config *config, weir_task_fn *done, void *context);

/* How many datagrams an ask has sent.
 *
 * Result:  0 or more; -EINVAL for NULL; -EDOM for a task that is no ask.
 * Threads: inside its callback. */
WEIR_API int weir_udp_attempts(const weir_task *ask);

/* -- servers -- */

/* Limits of a server.  Start from WEIR_UDP_SERVER_CONFIG_DEFAULT; 0 in a field means its default. */
struct weir_udp_server_config {
        size_t size;        /* of this struct; set by WEIR_UDP_SERVER_CONFIG_DEFAULT */
        size_t max_size;    /* bytes of a request; a longer one is cut and marked; default 65,536, which is also the most */
        unsigned in_flight; /* requests that are handled at once, by all pollers together; default 1,024.  Beyond it the
                               server does not read: requests wait in the kernel's queue, which drops those that come when
                               it is full */
        unsigned reserved;  /* 0 */
};

/* The initial value of a struct weir_udp_server_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_UDP_SERVER_CONFIG_DEFAULT {sizeof(struct weir_udp_server_config), 0, 0, 0}
#else
#define WEIR_UDP_SERVER_CONFIG_DEFAULT {.size = sizeof(struct weir_udp_server_config)}
#endif

/* Starts a server: `handler` runs for each datagram that comes to the address, on any worker.  Each
 * request has a series of its own once the handler calls weir_series_of.  The request ends when the
 * handler has returned and this series has ended.  Then its replies are sent, unless the series was
 * cancelled or has failed.
 *
 * Each poller has a socket at the address (SO_REUSEPORT), and the kernel spreads the senders over
 * them.  A Unix socket is one.
 *
 * Owner:   the caller, until weir_udp_server_stop.
 * Result:  NULL with errno as weir_udp_open; EINVAL also without a handler and for an invalid config;
 *          ESHUTDOWN once a shutdown has begun; or what weir_init reports.
 * Threads: any.  Never blocks. */
WEIR_API weir_udp_server *weir_udp_serve(const char *address, weir_task_fn *handler, void *context);

/* The same with limits.  The config may be NULL.
 *
 * Owner:   the caller, until weir_udp_server_stop.  The config is copied.
 * Result:  as weir_udp_serve.
 * Threads: any.  Never blocks. */
WEIR_API weir_udp_server *weir_udp_serve_with(const struct weir_udp_server_config *config, const char *address,
                                              weir_task_fn *handler, void *context);

/* The port of a server.
 *
 * Result:  the port; -EDOM: it is a Unix socket; -EINVAL for NULL.
 * Threads: any, until the stop. */
WEIR_API int weir_udp_server_port(const weir_udp_server *server);

/* Adds a reply to a request.  It is sent when the request ends.  A reply that the system does not take
 * is lost, as datagrams may be.
 *
 * Owner:   the data is copied.
 * Result:  0; -ENOMEM; -EINVAL: there is a size and no data; -EDESTADDRREQ: the sender is a Unix
 *          socket without a name; -EDOM: the task is no request of a server.
 * Threads: inside the handler and the callbacks of the request's series. */
WEIR_API int weir_udp_reply(weir_task *request, const void *data, size_t size);

/* Stops a server.  It reads nothing more, and waits until its requests have ended and their replies
 * were sent.  After `within`, in real time, their series are cancelled, and the stop waits for their
 * callbacks.
 *
 * Owner:   frees the server, unless it returns -EDEADLK or -ECHILD.
 * Result:  how many requests were cancelled; -EINVAL for NULL; -EDEADLK on a worker; -ECHILD in a
 *          forked child.
 * Units:   nanoseconds; WEIR_FOREVER: they are not cancelled.
 * Threads: any but workers.  Blocks. */
WEIR_API int weir_udp_server_stop(weir_udp_server *server, weir_nsec within);

WEIR_END

#endif
