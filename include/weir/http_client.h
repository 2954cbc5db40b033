/* weir/http_client.h: requests to HTTP servers, as tasks.
 *
 *     static void
 *     show(weir_task *get, void *context)
 *     {
 *             if (weir_task_status(get))
 *                     fprintf(stderr, "%s\n", weir_http_problem(get));
 *             else
 *                     printf("%d: %s", weir_http_response_status(get), weir_http_response_body(get, NULL));
 *     }
 *
 *     weir_task_start(weir_http_get_new("https://example.com/", show, NULL));
 *
 * A request is a task whose status is 0 when the whole response is there, whatever that says: a 404 is
 * a response.  Bodies that do not fit into memory are for weir/http_call.h.
 *
 * Connections are kept and used again.  The certificate of a server with https is checked, against the
 * system's roots and with the name of the host.  Nothing is sent twice, but for one case: a server may
 * close a connection that it kept, just when a request goes out.  If no byte of a response has come, a
 * request without effect (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) then goes out once more by itself, on a
 * new connection. */
#ifndef WEIR_HTTP_CLIENT_H
#define WEIR_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/cookie_jar.h>
#include <weir/task.h>
#include <weir/time.h>
#include <weir/tls.h>

WEIR_BEGIN

/* -- clients -- */

/* Settings, and the connections that requests share.  Most programs need none: requests have a client by
 * default. */
typedef struct weir_client weir_client;

/* Begins with WEIR_CLIENT_CONFIG_DEFAULT.  0 in a field means its default; WEIR_FOREVER and SIZE_MAX
 * mean no limit.  Texts are copied. */
struct weir_client_config {
        size_t size;            /* of this struct; set by WEIR_CLIENT_CONFIG_DEFAULT */
        weir_tls *tls;          /* for https; a reference is taken; default: the system's roots (weir/tls.h) */
        weir_cookie_jar *cookies; /* sent with requests and taken from responses (weir/cookie_jar.h); a reference is taken;
                                     default: none */
        const char *user_agent; /* the field User-Agent; "": none; default: "weir/" and the version */
        unsigned connections;   /* to one origin, that is scheme, host and port; default: 256 */
        unsigned redirects;     /* that are followed; default: none, and the response is the redirect */
        bool keep_coding;       /* bodies stay as they come, and no coding is asked for.  By default gzip is asked for and
                                   taken off, and so are br and zstd if the library was built with them; but not with
                                   the field Range, as a part of a coded body cannot be decoded */

        /* Proxies. */
        const char *proxy;    /* "http://[user:password@]host:port", https:// for TLS to the proxy, or socks5://; default: none */
        const char *no_proxy; /* the hosts that are reached without one: "localhost, .example.com, 10.0.0.0/8"; "*": all */
        bool proxy_from_environment; /* what is NULL above comes from http_proxy, https_proxy, all_proxy and no_proxy, as they are
                                        when the client is made; but not http_proxy where REQUEST_METHOD is set: in CGI */
        weir_tls *proxy_tls;         /* to a proxy with https; a reference is taken; default: the system's roots */

        /* Time limits, each of one stage.  A request that is too late ends with -ETIMEDOUT, and weir_http_problem says in which
         * stage. */
        weir_nsec resolve_limit;    /* to look a name up; default: 10 s */
        weir_nsec connect_limit;    /* until one of its addresses is connected; default: 10 s */
        weir_nsec proxy_limit;      /* until a proxy has opened the way to the server; default: 10 s */
        weir_nsec handshake_limit;  /* of TLS, with a proxy and with the server; default: 10 s */
        weir_nsec send_limit;       /* while the server takes nothing of the request; default: 30 s */
        weir_nsec first_byte_limit; /* from the end of the request to the head of the response; default: 60 s */
        weir_nsec between_limit;    /* in the response, between bytes; default: 60 s */
        weir_nsec limit;            /* of the whole, from the start, redirects included; default: none but those above */

        weir_nsec idle_limit; /* a connection is kept unused for so long, or until a second before the server closes it, as
                                 its field Keep-Alive says; default: 50 s */
        weir_nsec age_limit;  /* no new request goes to a connection that is older, so that other addresses of a name are
                                 noticed; default: 10 min */

        /* Sizes, in bytes.  A larger response ends with -EMSGSIZE. */
        size_t max_head;       /* of status line and fields, those of interim responses included; default: 64 KiB */
        size_t max_body;       /* of a body in memory; default: 16 MiB */
        uint64_t max_inflated; /* of a body without its coding; default: 64 MiB */
        unsigned max_ratio;    /* bytes without coding for each byte with it, above 1 MiB; default: 100 */
};

/* The initializer of a config. */
#define WEIR_CLIENT_CONFIG_DEFAULT {.size = sizeof(struct weir_client_config)}

/* Makes a client.  NULL as config is the default.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL for a config of a wrong size, a user_agent that is no value of a
 *          field, or a text of a proxy that cannot be read (the log says at which byte); ENOMEM.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_client *weir_client_new(const struct weir_client_config *config);

/* Takes and drops a reference.  Requests have their own.  Without a reference idle connections are
 * closed.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_client *weir_client_ref(weir_client *client);
WEIR_API void weir_client_unref(weir_client *client);

/* Closes the connections that are idle now.  Those in use are closed after their requests.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_client_close_idle(weir_client *client);

/* What a client has and has done.  All are sums over its origins.  Start from WEIR_CLIENT_STATS_DEFAULT. */
struct weir_client_stats {
        size_t size;          /* of this struct; set by WEIR_CLIENT_STATS_DEFAULT */
        unsigned connections; /* that are open, or being made */
        unsigned idle;        /* of them */
        unsigned waiting;     /* requests that wait for a connection */
        uint64_t requests;    /* that were sent */
        uint64_t reused;      /* of them on a connection that was used before */
        uint64_t replayed;    /* that went out once more by themselves */
        uint64_t failed;      /* that ended without a response */
};

/* The initial value of a struct weir_client_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_CLIENT_STATS_DEFAULT {sizeof(struct weir_client_stats), 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_CLIENT_STATS_DEFAULT {.size = sizeof(struct weir_client_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size.
 * Threads: any, also inside a callback.  The numbers are of about one instant. */
WEIR_API int weir_client_stats(const weir_client *client, struct weir_client_stats *stats);

/* The client of requests that name none.  It has the default config.
 *
 * Owner:   the library; it lives as long as the process.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_client *weir_client_default(void);

/* -- requests -- */

/* Makes a task that sends a request and receives the whole response.
 *
 * A cancel is decisive: until the callback begins it sees -ECANCELED, or -ETIMEDOUT at the deadline of its
 * series.  A request that was sent then closes its connection, unless all of the response is there.
 *
 * Owner:   the caller, until the task is consumed.  The texts are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push reports
 *          -EINVAL, and the log says why: a method that is no token, a URL that is invalid or has another
 *          scheme than http and https; -ENOMEM for a NULL client; the failure of
 *          a function below that has changed the request.  The task's status:
 *
 *          0: the response is there;
 *          those of weir_connect_new and weir_connect_tls_new (weir/stream.h, weir/tls.h) when no
 *            connection could be made, to the proxy if there is one.  -EPROTO and WEIR_ETLS_REFUSED may come later, too: a
 *            server with TLS 1.3 sees the client's certificate only when its handshake is over for the client;
 *          -EACCES: the proxy wants another user or password, or its rules forbid the host (401, 403, 407);
 *            -ECONNREFUSED: it has refused otherwise, or could not reach the server; a SOCKS proxy also
 *            -EHOSTUNREACH, -ENETUNREACH; -ETIMEDOUT: it was too late; -EBADMSG, -EMSGSIZE: it is none.
 *            For http a proxy of HTTP answers in the place of the server, and that is the response;
 *          -ECONNRESET: the server has closed the connection without a response; -ECONNABORTED: in the
 *            middle of it, also without a close_notify of TLS where only the end of the connection ends
 *            the body; weir_http_response_body has the part that came;
 *          -EBADMSG: what came is no HTTP/1 response, or its coding is damaged; -EMSGSIZE: larger than a limit; -E2BIG: the
 *            coding grows beyond max_inflated or max_ratio; -ENOTSUP: a coding that is not known, or too many;
 *          -ELOOP: more redirects than allowed; -ENOLINK: a redirect without a valid Location;
 *            -EACCES: one from https to http;
 *          -ETIMEDOUT: a limit has passed;
 *          -ENODATA: the file of the body has become shorter; others of recv(2), send(2) and sendfile(2), such as -EIO and
 *            -ENOBUFS: the system has failed, or that file;
 *          -ENOMEM; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_http_get_new(const char *url, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_http_request_new(const char *method, const char *url, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_client_request_new(weir_client *client, const char *method, const char *url, weir_task_fn *done,
                                            void *context);

/* Sets a field of the request; the second function adds a line beside others of that name.  Host may be
 * set.  Content-Length, Transfer-Encoding, Connection, Keep-Alive, TE, Trailer, Upgrade and Expect are the library's.
 *
 * Owner:   the texts are copied.
 * Result:  0; -EINVAL: another task, a name that is no token or the library's, or a value with a byte that
 *          could end the line; -ENOMEM.  The task's start reports the failure, too: so nobody has to look.
 * Threads: any, before the task is consumed, as all functions that change a request. */
WEIR_API int weir_http_request_set_header(weir_task *request, const char *name, const char *value);
WEIR_API int weir_http_request_add_header(weir_task *request, const char *name, const char *value);

/* Gives the request a body, in place of another.  `type` is its Content-Type; NULL: that field is left as
 * it is, absent or as it was set before.
 *
 * Owner:   the bytes are copied; of the second function they are lent until the callback; of the third
 *          the descriptor must stay open until then.
 * Result:  0; -EINVAL: another task, a bad type, NULL data with a size, a descriptor that is not
 *          open, or a size of UINT64_MAX for what is no regular file; -ENOMEM; others of fstat(2).
 * Units:   bytes; a file's size of UINT64_MAX is all up to its present end. */
WEIR_API int weir_http_request_set_body(weir_task *request, const void *data, size_t size, const char *type);
WEIR_API int weir_http_request_lend_body(weir_task *request, const void *data, size_t size, const char *type);
WEIR_API int weir_http_request_set_body_file(weir_task *request, int file, uint64_t offset, uint64_t size, const char *type);

/* Which limit.  Those of making a connection belong to the client: what is made for one request may serve
 * another. */
enum weir_http_limit {
        WEIR_HTTP_LIMIT_SEND = 0,   /* send_limit of struct weir_client_config */
        WEIR_HTTP_LIMIT_FIRST_BYTE, /* first_byte_limit */
        WEIR_HTTP_LIMIT_BETWEEN,    /* between_limit */
        WEIR_HTTP_LIMIT_WHOLE,      /* limit */
};

/* Sets a limit of this request.
 *
 * Result:  0; -EINVAL: another task, no limit of that number, or 0 or less. */
WEIR_API int weir_http_request_set_limit(weir_task *request, enum weir_http_limit which, weir_nsec limit);

/* How many redirects of this request are followed.  A POST becomes a GET after 301 and 302, and any method
 * but HEAD after 303; 307 and 308 repeat the request with its body.  When the origin changes, the fields
 * Authorization, Proxy-Authorization, Cookie and Host go, and do not come back.
 *
 * Result:  0; -EINVAL for another task.
 * Source:  RFC 9110 section 15.4. */
WEIR_API int weir_http_request_set_redirects(weir_task *request, unsigned most);

/* The most bytes of the response's body.
 *
 * Result:  0; -EINVAL for another task.
 * Units:   bytes; SIZE_MAX: no limit. */
WEIR_API int weir_http_request_set_max_body(weir_task *request, size_t max);

/* Whether the request may be sent again by itself, whatever its method.
 *
 * Result:  0; -EINVAL for another task. */
WEIR_API int weir_http_request_set_idempotent(weir_task *request, bool is_idempotent);

/* Makes a response of an error a failure of the task: of 408, 425, 429, 502, 503 and 504, which may be over soon, -EBUSY, and of
 * all others from 400 on -EREMOTEIO.  The response is there all the same.
 *
 * Result:  0; -EINVAL for another task. */
WEIR_API int weir_http_request_fail_on_error(weir_task *request);

/* What chooses the member of an upstream with the policy WEIR_UPSTREAM_HASH (weir/upstream.h).  Others do not look at
 * it, unless a function of the program does.
 *
 * Owner:   the bytes are copied.
 * Result:  0; -EINVAL: another task, or no bytes; -ENOMEM. */
WEIR_API int weir_http_request_set_key(weir_task *request, const void *key, size_t size);

/* -- responses; inside the task's callback -- */

/* The status code, 200 to 599 as a rule.
 *
 * Result:  0 when no response has come; -EINVAL for another task. */
WEIR_API int weir_http_response_status(const weir_task *request);

/* The value of the first field of that name, compared without case.
 *
 * Owner:   borrowed until the callback returns, as all texts of a response.
 * Result:  NULL when there is none, and for another task. */
WEIR_API const char *weir_http_response_header(const weir_task *request, const char *name);

/* The field at `index`, from 0 on, in order of arrival.  The outputs may be NULL.
 *
 * Result:  0; -ENOENT past the last field; -EINVAL for another task. */
WEIR_API int weir_http_response_field(const weir_task *request, size_t index, const char **name, const char **value);

/* The body, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Result:  "" and 0 bytes when there is none; NULL for another task. */
WEIR_API const void *weir_http_response_body(const weir_task *request, size_t *size);

/* The same, and the body is the caller's from now on.
 *
 * Owner:   the caller; free.
 * Result:  NULL and 0 bytes when there is none, or it was taken. */
WEIR_API void *weir_http_response_take_body(weir_task *request, size_t *size);

/* The URL that the response is from: after redirects, another one than that of the request.  It has no
 * userinfo.
 *
 * Result:  NULL for another task, and if the URL was invalid. */
WEIR_API const char *weir_http_response_url(const weir_task *request);

/* How long the server wants the next request to wait: its field Retry-After.
 *
 * Result:  -1: it does not say so, or has said it wrongly; for another task, too.
 * Source:  RFC 9110 section 10.2.3. */
WEIR_API weir_nsec weir_http_response_retry_after(const weir_task *request);

/* Whether a request is worth another try, as retry_if of weir/retry.h: yes, if no connection could be
 * made, it broke, a limit has passed, or the status is -EBUSY (weir_http_request_fail_on_error).  A
 * request with an effect may then have it twice.
 *
 * Result:  1 or 0.  The context is not used.
 * Threads: any. */
WEIR_API int weir_http_retry_if(int status, void *context);

/* -- in a fiber (weir/fiber.h) -- */

/* Gets what is at a URL, and waits for all of it:
 *
 *     int status = weir_fiber_http_get("https://example.com/", &body, &size);
 *     if (status == 200)
 *             use(body, size);
 *     free(body);
 *
 * For fields, other methods and other limits, await a request: its response is there until the next
 * await.
 *
 * Owner:   the body is the caller's; free.  It is followed by a NUL that is not counted.  NULL and 0
 *          bytes: there is none.  Both outputs may be NULL.
 * Result:  the status code of the response, 200 to 599 as a rule; or below 0, and then there is no
 *          body: as weir_http_get_new and its status, and as weir_await.
 * Threads: as weir_await: a fiber, or a thread of the program, which waits. */
WEIR_API int weir_fiber_http_get(const char *url, void **body, size_t *size);

/* -- how it went -- */

/* How far a request has come. */
enum weir_http_stage {
        WEIR_HTTP_QUEUED = 0, /* it waits for a connection */
        WEIR_HTTP_RESOLVING,  /* the addresses of a name are looked up */
        WEIR_HTTP_CONNECTING, /* a connection is being made */
        WEIR_HTTP_PROXY,      /* a proxy opens the way to the server */
        WEIR_HTTP_HANDSHAKE,  /* of TLS */
        WEIR_HTTP_SENDING,    /* not all of the request is out */
        WEIR_HTTP_WAITING,    /* for the head of the response */
        WEIR_HTTP_RECEIVING,  /* its body */
        WEIR_HTTP_COMPLETE,   /* the response is there */
};

/* The stage that the request has reached.
 *
 * Result:  WEIR_HTTP_QUEUED for another task.
 * Threads: inside the task's callback. */
WEIR_API enum weir_http_stage weir_http_stage(const weir_task *request);

/* Why a request has failed, for people: "GET https://example.com/: the certificate has expired ...".  It
 * shows no userinfo and no query.
 *
 * Owner:   the task.
 * Result:  NULL for another task, and if it has not failed.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_http_problem(const weir_task *request);

WEIR_END

#endif
