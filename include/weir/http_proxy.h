/* weir/http_proxy.h: a reverse proxy: a handler gives its exchange to another server.
 *
 *     static weir_upstream *backend;    its members are the servers behind the proxy (weir/upstream.h)
 *
 *     static void
 *     on_request(weir_task *exchange, void *context)
 *     {
 *             weir_http_proxy_to(exchange, NULL, "http://backend");
 *     }
 *
 * The request goes on with its method, path, query, fields and body; the response comes back with its
 * status, fields and body.  Bodies pass piece by piece, each as fast as the slower side takes it.  With
 * `stream_bodies` (weir/http_server.h) that holds for requests, too; otherwise they are collected first.
 * Fields of one connection (Connection, Transfer-Encoding and others) stay behind.
 *
 * If the client goes, the call is broken at once.  If the other server breaks off, so does the reply:
 * half a response never looks like a whole one. */
#ifndef WEIR_HTTP_PROXY_H
#define WEIR_HTTP_PROXY_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/http.h>
#include <weir/http_call.h>
#include <weir/http_client.h>

WEIR_BEGIN

/* What a proxy does with a field that tells the other server about the client.  A proxy is trusted if it is one of the server's
 * trusted_proxies and has named its client (weir_http_client_address). */
enum weir_http_forwarding {
        WEIR_HTTP_FORWARDING_DEFAULT = 0, /* see struct weir_http_proxy_config */
        WEIR_HTTP_FORWARDING_TRUSTED, /* goes on from what a trusted proxy has sent; what others have sent is replaced */
        WEIR_HTTP_FORWARDING_APPEND,  /* goes on from what anybody has sent */
        WEIR_HTTP_FORWARDING_REPLACE, /* what was sent is replaced */
        WEIR_HTTP_FORWARDING_PASS,    /* what was sent goes on as it is */
        WEIR_HTTP_FORWARDING_REMOVE,  /* nothing goes on */
};

/* Changes a request, or a reply, before it goes out.  The functions weir_http_call_... add fields to the
 * request, and show the response.  The functions weir_http_reply_... change the reply, which has the
 * status and the fields of the response already.  Interim responses pass without them.
 *
 * Result:  0: it goes on.  Otherwise the call is broken off, and the reply is what the function has made of it.
 * Threads: inside a callback of the exchange's series. */
typedef int weir_http_proxy_fn(weir_task *exchange, weir_http_call *call, void *context);

/* Begins with WEIR_HTTP_PROXY_CONFIG_DEFAULT.  0 in a field means its default. */
struct weir_http_proxy_config {
        size_t size;     /* of this struct; set by WEIR_HTTP_PROXY_CONFIG_DEFAULT */
        const char *via; /* the proxy's name in the field Via, at most 32 characters of a token; "": none; default: "weir" */
        enum weir_http_forwarding x_forwarded; /* X-Forwarded-For, -Proto and -Host; default: TRUSTED */
        enum weir_http_forwarding forwarded;   /* the field Forwarded; default: REMOVE */
        bool keep_host;       /* the other server gets the client's Host; by default that of the URL */
        const char *upgrades; /* protocols that may take over a connection, separated by commas; "": none; default:
                                 "websocket" */
        weir_nsec limit;      /* of the whole, from here to the end of the response; default: that of the client */
        weir_http_proxy_fn *on_request;  /* default: none */
        weir_http_proxy_fn *on_response; /* default: none */
        void *context;                   /* of both */
};

/* The initializer of a config. */
#define WEIR_HTTP_PROXY_CONFIG_DEFAULT {.size = sizeof(struct weir_http_proxy_config)}

/* Sends the request of an exchange to another server, and makes the reply of what that answers.  NULL as client is
 * weir_client_default().  It should have an empty user_agent and no cookies.
 *
 * `url` has a scheme and a host, which may be the name of an upstream, and perhaps a path, which then goes before that
 * of the request.
 *
 * If there is no response, the reply is a line of text, and the log says why: 504 if a limit has passed;
 * 503 if no member of the upstream may be used, or no connection was free within the limit; else 502.
 * 400: the URL has a path other than "/", and that of the request a segment ".."; 501: the method CONNECT.  OPTIONS and
 * TRACE with a Max-Forwards of 0 are answered by the proxy itself.
 *
 * Owner:   the texts are copied.
 * Result:  0: the reply will be made.  Otherwise nothing was sent, and the reply is a 500 unless the handler makes
 *          another one: -EINVAL: the URL is invalid, has a query, or another scheme than http and https; or what
 *          weir_http_proxy_with says; -EALREADY: the reply has begun; -EDOM: the task is no exchange; -ENOMEM.
 * Threads: inside callbacks of the exchange's series.  The program must not build the reply then, and not read the body. */
WEIR_API int weir_http_proxy_to(weir_task *exchange, weir_client *client, const char *url);

/* The same with a configuration, which may be NULL.
 *
 * Owner:   the config and its texts are copied.
 * Result:  as weir_http_proxy_to; -EINVAL also for a config of a wrong size, a wrong `via`, a negative limit, a forwarding
 *          of no known number.
 * Threads: as weir_http_proxy_to. */
WEIR_API int weir_http_proxy_with(const struct weir_http_proxy_config *config, weir_task *exchange, weir_client *client,
                                  const char *url);

WEIR_END

#endif
