/* weir/protocol.h: own protocols: one description makes a client and a server.
 *
 *     static const struct weir_protocol numbers = {
 *             .size = sizeof numbers, .length_width = 4, .length_adjust = 4, .bare = true};
 *
 *     the server, on each stream, for example those of weir_stream_serve:
 *
 *     weir_series_push(series, weir_protocol_serve_new(stream, &numbers, answer, NULL, NULL));
 *
 *     static void
 *     answer(weir_task *message, void *context)
 *     {
 *             size_t size;
 *             const char *data = weir_message_data(message, &size);
 *
 *             weir_message_reply(message, data, size);
 *     }
 *
 *     the client:
 *
 *     weir_endpoint *server = weir_endpoint_new("127.0.0.1:7777", &numbers);
 *     weir_task_start(weir_ask_new(server, "hello", 5, take, NULL));
 *
 * Both sides send messages.  A request is a message that wants a reply, which is another one. */
#ifndef WEIR_PROTOCOL_H
#define WEIR_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/series.h>
#include <weir/stream.h>
#include <weir/task.h>
#include <weir/time.h>
#include <weir/tls.h>

WEIR_BEGIN

/* -- the description -- */

/* Finds the end of the first message in what has come so far, which is at least a byte.
 *
 * Result:  its size; if that is more than what has come, the function is called again when that much
 *          has come.  0: the size is not known yet; the function is called again with the next bytes.
 *          A negative errno: this is no message, and the connection is broken with that.
 * Threads: a worker, in a call of its own: it may take long, and other connections go on. */
typedef ssize_t weir_protocol_frame_fn(const void *data, size_t size, void *context);

/* Inside a frame function: words for what it has found out about the first message so far, such as how
 * much of it was read.  They are 0 when the function is called for a message for the first time, and
 * keep what it writes until it is called for that message again.  So a long message that comes in
 * small pieces is not read from its beginning each time.
 *
 * Owner:   borrowed until the function returns.
 * Result:  WEIR_FRAME_WORDS of them; NULL outside a frame function.
 * Threads: that of the function. */
#define WEIR_FRAME_WORDS 4
WEIR_API uint64_t *weir_frame_words(void);

/* Returns the number that a reply has in common with its request.
 *
 * Threads: as weir_protocol_frame_fn for what has come; for a request also the thread that makes it. */
typedef uint64_t weir_protocol_match_fn(const void *message, size_t size, void *context);

/* Returned in place of a number: the message is the reply to the oldest request of its connection; it is
 * no reply, but unsolicited. */
#define WEIR_MATCH_OLDEST (UINT64_MAX - 1)
#define WEIR_MATCH_NONE   UINT64_MAX

/* Pushes the tasks that a fresh connection begins with, such as a log-in.  Its series fails with the
 * first task that fails, or by weir_series_fail; then so has the connection.
 *
 * Threads: a worker. */
typedef void weir_protocol_hello_fn(weir_stream *stream, weir_series *series, void *context);

/* A protocol.  A member that is 0 has its default.  It must stay as it is while anything uses it: make it static.
 *
 * The end of a message is found by a length field, a delimiter, a fixed size or a function: by exactly
 * one of them. */
struct weir_protocol {
        size_t size; /* sizeof(struct weir_protocol) */

        /* The length field.  The library checks it, and writes it into what is sent. */
        uint32_t length_at;     /* where it begins in a message */
        uint8_t length_width;   /* its bytes: 1 to 8 */
        bool length_is_little;  /* its lowest byte comes first; else its highest */
        int32_t length_adjust;  /* what is added to it for the size of the whole message: 4, if a field of 4
                                   bytes counts only what follows it; 0, if it counts all */

        const void *delimiter;  /* the last bytes of a message */
        size_t delimiter_size;  /* 1 to 255 */

        size_t fixed_size;      /* of each message */

        weir_protocol_frame_fn *frame; /* a function finds the end */

        bool bare;              /* the program gives and gets messages without the length field, which begins
                                   them then, or without the delimiter; the library adds it */
        size_t max_message;     /* bytes of a whole message, 1 GiB at most; a larger one breaks the connection; 1 MiB */

        /* Which request a reply belongs to.  Without these: replies come in the order of the requests. */
        uint32_t id_at;         /* where a message, with all that the library adds, has its number */
        uint8_t id_width;       /* its bytes, 1 to 8, as those of the length; 0: it has none.  The library numbers
                                   requests from 1 on, and gives a reply the number of its request.  A message
                                   with 0 is unsolicited; one that ends before its number is -EBADMSG */
        weir_protocol_match_fn *match; /* the numbers are the program's */

        weir_task_fn *unsolicited;     /* of a client: called with each message that is no reply; NULL: it breaks the
                                          connection.  Of one connection 64 at a time; 1024 while a request waits,
                                          whose reply may be behind them */
        weir_protocol_hello_fn *hello; /* of a client; NULL: none */
        void *context;                 /* of these functions */

        bool is_idempotent;     /* a request may be sent twice: if a connection that was used before is closed
                                   before a byte of the reply has come, the request is sent once more */
        unsigned depth;         /* requests that are under way on one connection, at most 65535; 1 */
        unsigned connections;   /* of one endpoint; 16 */

        /* Time limits, each of one stage.  WEIR_FOREVER: none. */
        weir_nsec connect_limit; /* until a connection stands; 10 s */
        weir_nsec hello_limit;   /* the hello; 10 s */
        weir_nsec send_limit;    /* until the peer takes more of what waits for it; 30 s */
        weir_nsec reply_limit;   /* of a client: from then until the reply is there; 60 s */
        weir_nsec message_limit; /* of a server: from the first byte of a message to its last; 30 s */
        weir_nsec idle_limit;    /* nothing comes, goes or is handled for that long: the connection is closed; a client's:
                                    50 s, a server's: none */
};

/* The initializer of a description. */
#define WEIR_PROTOCOL_DEFAULT {.size = sizeof(struct weir_protocol)}

/* -- messages that have come -- */

/* The bytes of a message, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  NULL and 0 bytes for another task.
 * Threads: until the end of its series, within it. */
WEIR_API const void *weir_message_data(const weir_task *message, size_t *size);

/* Sets the reply to a message.  It goes out when the callback has returned, or when the series that the
 * callback has asked for (weir_series_of) has ended.  Another call replaces it.  Without a reply
 * nothing is sent.  If a call has failed and none has succeeded, the connection is broken at the end of
 * the message: a peer that gets replies in order would take the next one for this one.
 *
 * Owner:   the bytes are copied.
 * Result:  0; -EINVAL for another task, NULL data with a size, or bytes that are no message: too few for
 *          its fields, of another size than the fixed one, or, if it is bare, with the delimiter inside;
 *          -EMSGSIZE: more than max_message, or than the length field can say; -ENOMEM.
 * Threads: until the end of its series, within it. */
WEIR_API int weir_message_reply(weir_task *message, const void *data, size_t size);

/* One connection that speaks a protocol. */
typedef struct weir_session weir_session;

/* The connection of a message.
 *
 * Owner:   the task, until the end of its series; weir_session_ref for longer.
 * Result:  NULL for another task.
 * Threads: until the end of its series, within it. */
WEIR_API weir_session *weir_message_session(const weir_task *message);

/* -- connections -- */

/* Takes and drops a reference, which keeps the object, not the connection.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_session *weir_session_ref(weir_session *session);
WEIR_API void weir_session_unref(weir_session *session);

/* What the program keeps with a connection.  The first call sets it; NULL before.
 *
 * Owner:   `fn` is called with the context when the last reference to the connection is gone; NULL:
 *          nothing is.
 * Result:  -EEXIST: there is one; -ENOMEM for a NULL session.
 * Threads: any. */
WEIR_API int weir_session_set_context(weir_session *session, void *context, weir_free_fn *fn);
WEIR_API void *weir_session_context(const weir_session *session);

/* Makes a task that sends a message which is no reply: a push.  It ends when the system has the bytes,
 * so a program that starts the next one in its callback never has more in memory than that.
 *
 * Owner:   the caller, until the task is consumed.  The bytes are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL session, -EINVAL and -EMSGSIZE as weir_message_reply.  The
 *          task's status: 0; -EPIPE: the connection is closed; those of weir_stream_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_session_send_new(weir_session *session, const void *data, size_t size, weir_task_fn *done,
                                          void *context);

/* Closes the connection when all messages that have come so far are answered, and the replies are out.
 * No more are taken in.  Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_session_close(weir_session *session);

/* -- the server -- */

/* Makes a task that serves a stream: calls `handler` with a task for each message that comes, until the
 * peer ends the connection, weir_session_close does, or the server that the stream is of stops.  No
 * other task of the stream can run meanwhile.
 *
 * At most `depth` messages are under way.  If that is above 1, their handlers may run at the same
 * time.  The peer waits for the others.  If the connection breaks, the series of those that are under
 * way are cancelled.  The same happens after a cancel or a deadline of this task.  `done` is called when
 * the last of these series has ended, so it may free what handlers use.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL stream, -EINVAL for a wrong description or a NULL handler.  The
 *          task's status: 0: the connection was ended after a whole message; -EPIPE: within one;
 *          -EMSGSIZE: a message was too large; -EBADMSG: its length makes no sense; -ETIMEDOUT: a
 *          limit has passed; -EBUSY: another task of the stream waits; those of the frame function, of
 *          weir_stream_read_new and weir_stream_write_new; -ECHILD in a forked child; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any.  `handler` and `done` run on workers, and get the context. */
WEIR_API weir_task *weir_protocol_serve_new(weir_stream *stream, const struct weir_protocol *protocol, weir_task_fn *handler,
                                            weir_task_fn *done, void *context);

/* -- the client -- */

/* A server's address, with the connections to it. */
typedef struct weir_endpoint weir_endpoint;

/* Makes an endpoint.  It connects when there is something to ask.  The addresses are those of
 * weir_connect_new, and with settings of TLS those of weir_connect_tls_new.  All of its connections
 * are on one poller.
 *
 * Owner:   the caller has a reference.  The address is copied.
 * Result:  NULL with errno EINVAL for a wrong description, ENOMEM.  Tasks of a NULL endpoint fail at
 *          their start.  A wrong address is the failure of what is asked.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_endpoint *weir_endpoint_new(const char *address, const struct weir_protocol *protocol);
WEIR_API weir_endpoint *weir_endpoint_tls_new(const char *address, weir_tls *tls, const char *name,
                                              const struct weir_protocol *protocol);

/* Takes and drops a reference.  Tasks have their own.  Without a reference its connections are closed.
 * Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_endpoint *weir_endpoint_ref(weir_endpoint *endpoint);
WEIR_API void weir_endpoint_unref(weir_endpoint *endpoint);

/* Sets a function that is called once, with the context, when the endpoint, its connections and all that
 * handlers do with their messages are gone: nothing uses the description any more, so the function may
 * free it.  A later call replaces it.  For a NULL endpoint it is called at once.
 *
 * Threads: where the endpoint is yours, before anything is asked.  The function runs on any thread, and
 *          must not block. */
WEIR_API void weir_endpoint_on_free(weir_endpoint *endpoint, weir_free_fn *fn, void *context);

/* How many connections there are, with those that are being made.  0 for NULL.
 *
 * Threads: any. */
WEIR_API unsigned weir_endpoint_connections(const weir_endpoint *endpoint);

/* How many requests wait for a connection or for their reply.  0 for NULL.
 *
 * Threads: any. */
WEIR_API unsigned weir_endpoint_requests(const weir_endpoint *endpoint);

/* What an endpoint has and has done.  Start from WEIR_ENDPOINT_STATS_DEFAULT. */
struct weir_endpoint_stats {
        size_t size;          /* of this struct; set by WEIR_ENDPOINT_STATS_DEFAULT */
        unsigned connections; /* that are open, or being made */
        unsigned connecting;  /* of them */
        unsigned requests;    /* that wait for a connection or for their reply */
        uint64_t asked;       /* requests, with those */
        uint64_t connects;    /* connections that were made */
        uint64_t refused;     /* attempts that made none */
        uint64_t lost;        /* connections that broke, or that the peer has closed */
};

/* The initial value of a struct weir_endpoint_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_ENDPOINT_STATS_DEFAULT {sizeof(struct weir_endpoint_stats), 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_ENDPOINT_STATS_DEFAULT {.size = sizeof(struct weir_endpoint_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL endpoint.
 * Threads: any, also inside a callback.  Each number is of an instant of its own. */
WEIR_API int weir_endpoint_stats(const weir_endpoint *endpoint, struct weir_endpoint_stats *stats);

/* How far a request has come. */
enum weir_ask_stage {
        WEIR_ASK_QUEUED = 0, /* it waits for a connection */
        WEIR_ASK_CONNECTING, /* one is being made for it */
        WEIR_ASK_HELLO,      /* which is in its hello */
        WEIR_ASK_SENDING,    /* it has a connection, which has not taken all of it */
        WEIR_ASK_WAITING,    /* for the reply */
        WEIR_ASK_ANSWERED,   /* the reply is there */
};

/* Makes a task that sends a request and gets its reply.  Requests get connections in the order of their
 * starts.
 *
 * A cancel before the callback is decisive: the callback sees -ECANCELED.  The connection gets no
 * more requests, and is closed when the others on it are answered; but if replies have numbers, the
 * late one is thrown away, and the connection goes on.
 *
 * A reply that comes while a part of the request is still to be sent is given at once.  The rest goes
 * out before other requests.
 *
 * Owner:   the caller, until the task is consumed.  The bytes are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL endpoint, -EINVAL and -EMSGSIZE as weir_message_reply.  The
 *          task's status: 0; those of weir_connect_new, of the hello, of weir_stream_read_new and
 *          weir_stream_write_new; -ECONNRESET: the peer has closed the connection before the reply;
 *          -EMSGSIZE: the reply is too large; -EBADMSG: it is no message; -EPROTO: a message came that nobody
 *          waits for, or the reply before any of the request was out; -EEXIST: a request with that
 *          number is under way; -ETIMEDOUT: a limit has passed, and the stage says which; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_ask_new(weir_endpoint *endpoint, const void *data, size_t size, weir_task_fn *done, void *context);

/* The reply, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  "" and 0 bytes if there is none; NULL for another task.
 * Threads: inside the task's callback. */
WEIR_API const void *weir_ask_reply(const weir_task *ask, size_t *size);

/* How far it has come; if it has failed, in which stage.  QUEUED for another task.
 *
 * Threads: inside the task's callback. */
WEIR_API enum weir_ask_stage weir_ask_stage(const weir_task *ask);

/* -- direct requests: for libraries whose own tasks stand for them -- */

struct weir_direct_ask;

/* The request is over.  `status` is 0 with the reply, or that of weir_ask_new without one.
 *
 * Owner:   the request and its bytes are the program's again.  The reply, which no NUL follows, is borrowed until
 *          the function returns.
 * Threads: a worker, in a call that may give other requests their replies, too: it should only note the
 *          reply, as by the end of a promise. */
typedef void weir_direct_fn(struct weir_direct_ask *ask, int status, const void *reply, size_t size);

/* A request in memory of the program. */
struct weir_direct_ask {
        const void *data;     /* a whole message; it stays as it is until `done` is called */
        size_t size;          /* in bytes */
        weir_direct_fn *done; /* called once */
        uint64_t room[30];    /* the library's */
};

/* Sends a request that is no task: nothing is allocated and nothing is copied.  It goes out and gets its
 * reply as weir_ask_new says.  It has no cancel and no deadline: a program that does not need
 * the reply any more throws it away.
 *
 * Owner:   the library has the request until `done` is called.  The caller keeps the endpoint until then.
 * Result:  0; `done` is not called otherwise: -ENOMEM for a NULL endpoint; -EINVAL: there is no function, the
 *          description has numbers, a length field or `bare`, so that messages are not sent as they are,
 *          or the bytes are no message; -EMSGSIZE; -ESHUTDOWN: a shutdown has begun; -ECHILD in a forked
 *          child; those of weir_init.
 * Threads: any. */
WEIR_API int weir_ask_directly(weir_endpoint *endpoint, struct weir_direct_ask *ask);

/* How far it has come; if it has failed, in which stage.
 *
 * Threads: inside `done`. */
WEIR_API enum weir_ask_stage weir_direct_stage(const struct weir_direct_ask *ask);

WEIR_END

#endif
