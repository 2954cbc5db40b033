/* test/client_fixture.h: requests of the client to a server that the test plays (http_peer.h).
 *
 * On the virtual clock the test's thread is the server.  `settle` returns when the client has done all that it can. */
#ifndef WEIR_TEST_CLIENT_FIXTURE_H
#define WEIR_TEST_CLIENT_FIXTURE_H

#include <errno.h>
#include <netinet/in.h>

#include <weir/http_client.h>

#include "test/fixture.h"
#include "test/http_peer.h"
#include "test/tls_peer.h"

#define OK_WORD   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nword"
#define OK_CLOSES "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nword"

/* What the callback of a request saw.  The other fields are set once `calls` says so. */
struct seen {
        _Atomic int calls;
        int status, code;
        enum weir_http_stage stage;
        size_t size;
        char body[1024], problem[256], url[256]; /* as much as has room */
        char field[128];                         /* of the name in `wants` */
        const char *wants;
        unsigned order;
        weir_nsec at;
        pthread_t on;
        _Atomic unsigned *counter; /* for `order`; or NULL */
};

static int listener = -1, port;
static weir_client *client;
static struct http_peer peer;

/* The client of most tests: its callbacks run where the test's thread looks only afterwards. */
static inline void
see(weir_task *request, void *context)
{
        struct seen *seen = context;
        const char *problem = weir_http_problem(request), *url = weir_http_response_url(request),
                   *field = seen->wants ? weir_http_response_header(request, seen->wants) : NULL;
        const void *body = weir_http_response_body(request, &seen->size);

        seen->status = weir_task_status(request);
        seen->code = weir_http_response_status(request);
        seen->stage = weir_http_stage(request);
        snprintf(seen->body, sizeof seen->body, "%s", (const char *)body);
        snprintf(seen->problem, sizeof seen->problem, "%s", problem ? problem : "");
        snprintf(seen->url, sizeof seen->url, "%s", url ? url : "");
        snprintf(seen->field, sizeof seen->field, "%s", field ? field : "");
        seen->at = weir_now();
        seen->on = pthread_self();
        seen->order = seen->counter ? atomic_fetch_add(seen->counter, 1) : 0;
        atomic_fetch_add(&seen->calls, 1);
}

static inline void
wait_for(const struct seen *seen)
{
        for (unsigned i = 0; i < 1000 && !seen->calls; i++)
                sched_yield();
        WEIR_TEST_EVENTUALLY(seen->calls > 0);
}

static inline void
settle(void)
{
        weir_test_pass(0);
}

/* "http://127.0.0.1:port" and the path; valid for the next seven calls.  For one thread. */
static inline const char *
url_of(const char *path)
{
        static char urls[8][512];
        static unsigned next;
        char *url = urls[next++ % 8];

        snprintf(url, sizeof urls[0], "http://127.0.0.1:%d%s", port, path);
        return url;
}

static inline weir_task *
request_new(const char *method, const char *path, struct seen *seen)
{
        return weir_client_request_new(client, method, url_of(path), see, seen);
}

static inline void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

static inline void
get(const char *path, struct seen *seen)
{
        start(request_new("GET", path, seen));
}

/* In a series, by which it is cancelled.  The caller has a reference. */
static inline weir_series *
start_in_series(weir_task *request)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        CU_ASSERT_EQUAL(weir_series_push(series, request), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static inline struct weir_client_stats
stats(void)
{
        struct weir_client_stats numbers = {.size = sizeof numbers};

        CU_ASSERT_EQUAL(weir_client_stats(client, &numbers), 0);
        return numbers;
}

static inline void
begin_with(const struct weir_client_config *config)
{
        listener = http_peer_listen(&port);
        peer = (struct http_peer){.fd = -1};
        client = weir_client_new(config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
}

static inline void
begin(const struct weir_client_config *config)
{
        weir_test_begin_virtual();
        begin_with(config);
}

static inline void
end(void)
{
        weir_client_unref(client);
        client = NULL;
        weir_test_end();
        if (peer.fd >= 0)
                http_peer_close(&peer);
        close(listener);
}

/* The next connection, and the first request on it. */
static inline const char *
accept_request(void)
{
        (void)http_peer_accept(&peer, listener, NULL);
        return http_peer_request(&peer);
}

/* Byte by byte: the client reads each of them for itself. */
static inline void
send_slowly(const char *text)
{
        for (; *text; text++) {
                (void)http_peer_send_bytes(&peer, text, 1);
                settle();
        }
}

#define HAS(text, part)     CU_ASSERT_PTR_NOT_NULL(strstr((text), (part)))
#define HAS_NOT(text, part) CU_ASSERT_PTR_NULL(strstr((text), (part)))
#define SEES(seen, status_, code_, body_)                     \
        do {                                                  \
                CU_ASSERT_EQUAL((seen).calls, 1);             \
                CU_ASSERT_EQUAL((seen).status, (status_));    \
                CU_ASSERT_EQUAL((seen).code, (code_));        \
                CU_ASSERT_STRING_EQUAL((seen).body, (body_)); \
        } while (0)

#endif
