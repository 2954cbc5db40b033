/* test/proxy_fixture.h: a client, a proxy, and a server behind it that the test plays (http_client.h, http_peer.h). */
#ifndef WEIR_TEST_PROXY_FIXTURE_H
#define WEIR_TEST_PROXY_FIXTURE_H

#include <errno.h>

#include <weir/http_body.h>
#include <weir/http_proxy.h>

#include "test/fixture.h"
#include "test/http_client.h"
#include "test/http_peer.h"

#define OK_WORD "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nword"
#define SSE     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

static weir_http_server *proxy;
static weir_client *client;
static struct weir_http_proxy_config config;
static char base[256]; /* of the URL */
static int listener = -1, backend_port, proxy_port;
static struct http_client asker;
static struct http_peer peer;
static struct http_reply reply;
static _Atomic int result, calls;
static char said[4096]; /* the log, as much as has room */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void
note_log(enum weir_log_level level, const char *text, void *context)
{
        (void)level, (void)context;
        pthread_mutex_lock(&log_lock);
        if (strlen(said) + strlen(text) + 2 < sizeof said)
                strcat(strcat(said, text), "\n");
        pthread_mutex_unlock(&log_lock);
}

static inline bool
log_has(const char *text)
{
        pthread_mutex_lock(&log_lock);
        bool has = strstr(said, text);
        pthread_mutex_unlock(&log_lock);
        return has;
}

static inline void
forward(weir_task *exchange, void *context)
{
        (void)context;
        result = weir_http_proxy_with(&config, exchange, client, base);
        calls++;
}

/* `settings` and `limits` may be NULL. */
static inline void
begin_with(const struct weir_http_server_config *settings, const struct weir_client_config *limits, weir_task_fn *handler)
{
        struct weir_client_config own = WEIR_CLIENT_CONFIG_DEFAULT;

        said[0] = '\0';
        result = calls = 0;
        weir_log_set(note_log, NULL);
        weir_test_begin_real(2);
        config = (struct weir_http_proxy_config)WEIR_HTTP_PROXY_CONFIG_DEFAULT;
        own = limits ? *limits : own;
        own.user_agent = "";
        client = weir_client_new(&own);
        listener = http_peer_listen(&backend_port);
        peer = (struct http_peer){.fd = -1};
        snprintf(base, sizeof base, "http://127.0.0.1:%d", backend_port);
        proxy = http_server(settings, handler, NULL);
        proxy_port = weir_http_server_port(proxy);
        http_open(&asker, proxy_port);
}

static inline void
begin(void)
{
        begin_with(NULL, NULL, forward);
}

static inline void
begin_streaming(void)
{
        struct weir_http_server_config settings = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        settings.stream_bodies = 1;
        begin_with(&settings, NULL, forward);
}

static inline unsigned
busy_connections(void)
{
        struct weir_client_stats stats = WEIR_CLIENT_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_client_stats(client, &stats), 0);
        return stats.connections - stats.idle;
}

/* No connection to the other server is in use any more: the calls are over. */
static inline void
end(void)
{
        if (asker.fd >= 0)
                http_close(&asker);
        WEIR_TEST_EVENTUALLY(busy_connections() == 0);
        CU_ASSERT_EQUAL(weir_http_server_stop(proxy, WEIR_SEC(30)), 0);
        weir_http_server_free(proxy);
        weir_client_unref(client);
        http_reply_done(&reply);
        if (peer.fd >= 0)
                http_peer_close(&peer);
        weir_test_end();
        close(listener);
        weir_log_set(NULL, NULL);
}

/* Sends a request, and has it at the other server. */
static inline const char *
pass(const char *request)
{
        CU_ASSERT_TRUE(http_send_text(&asker, request));
        if (peer.fd < 0)
                (void)http_peer_accept(&peer, listener, NULL);
        return http_peer_request(&peer);
}

static inline bool
come_back(const char *response)
{
        CU_ASSERT_TRUE(http_peer_send(&peer, response));
        return http_receive(&asker, &reply, false);
}

/* The same with a new connection behind the proxy for the next one. */
static inline void
hang_up(void)
{
        http_peer_close(&peer);
        peer.fd = -1;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: front\r\n\r\n"

#define HAS(text, part)     CU_ASSERT_PTR_NOT_NULL(strstr((text), (part)))
#define HAS_NOT(text, part) CU_ASSERT_PTR_NULL(strstr((text), (part)))
#define GETS(status_, body_)                                                   \
        do {                                                                   \
                CU_ASSERT_EQUAL(reply.status, (status_));                      \
                CU_ASSERT_STRING_EQUAL(reply.body ? reply.body : "", (body_)); \
        } while (0)

#endif
