/* server/operate/debug.c: the handler of /metrics and /debug/flows: the right to read, and the choice of the page.
 *
 * Threads: callbacks of the exchange's series.
 *
 * The page is made in the callback, and not by a function on the executor.  If all functions of a program hang, the executor has
 * no thread left, and that is when somebody needs the page.  Here another worker takes the poller.  If there is none, the page
 * delays its neighbours, but it comes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include <weir/http_debug.h>
#include <weir/http_fields.h>
#include <weir/runtime.h>

#include "kernel/runtime/config.h"
#include "kernel/observe/log.h"
#include "server/observe/debug_page.h"
#include "server/observe/metrics.h"
#include "server/exchange/exchange.h"

/* -- the right to read -- */

static bool
is_local(const struct weir__peer *peer)
{
        static const uint8_t v6[16] = {[15] = 1};

        switch ((enum weir__peer_family)peer->family) {
        case WEIR__PEER_UNIX: return true;
        case WEIR__PEER_V4: return peer->address[12] == 127;
        case WEIR__PEER_V6: return memcmp(peer->address, v6, sizeof v6) == 0;
        case WEIR__PEER_UNKNOWN: break;
        }
        return false;
}

/* "localhost", or a name below it. */
static bool
is_localhost(const char *name, size_t size)
{
        static const char localhost[] = "localhost";
        size_t before = size - (sizeof localhost - 1);

        if (size < sizeof localhost - 1 || strncasecmp(name + before, localhost, sizeof localhost - 1) != 0)
                return false;
        return before == 0 || name[before - 1] == '.';
}

/* Whether a Host is this machine.  It may have a port, and brackets around an IPv6 address. */
static bool
is_local_host(const char *host)
{
        bool has_brackets = *host == '[';
        size_t size = strcspn(host, has_brackets ? "]" : ":");
        struct weir__peer address;

        if (has_brackets)
                return weir__peer_read(&address, host + 1, size - 1) && is_local(&address);
        if (size == 0 || is_localhost(host, size))
                return true;
        return weir__peer_read(&address, host, size) && address.family == WEIR__PEER_V4 && is_local(&address);
}

static bool
was_passed_on(const struct weir__exchange *exchange)
{
        static const char *const fields[] = {"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"};
        const char *own = weir__proxies_field(exchange->client->branch->server->proxies);

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (weir__request_header(exchange->request, fields[i]))
                        return true;
        return own && weir__request_header(exchange->request, own);
}

static struct weir__log_limit complaints;

/* Whether the list has the client.  An invalid list is logged. */
static bool
is_allowed(const struct weir_http_debug_config *config, const struct weir__peer *client)
{
        struct weir_http_debug_config known = {0};
        struct weir__proxies *allowed = NULL;
        const char *text = "", *expected = NULL;
        size_t size = 0;

        if (!config)
                return false;
        int failed = weir__config_read(&known, sizeof known, config);
        failed = failed || !known.allowed ? failed : weir__proxies_new(known.allowed, NULL, &allowed);
        bool is_found = allowed && weir__proxies_have(allowed, client);
        free(allowed);
        if (failed == -EINVAL && known.allowed)
                expected = weir__proxies_expected(known.allowed, NULL, &text, &size);
        if (expected)
                weir__log_limited(&complaints, WEIR_LOG_ERROR,
                                  "weir_http_debug lets nobody else in: its configuration: allowed: \"%.*s\": expected %s",
                                  size < 100 ? (int)size : 100, text, expected);
        else if (failed)
                weir__log_limited(&complaints, WEIR_LOG_ERROR, "weir_http_debug lets nobody else in: its configuration: %s",
                                  weir_strerror(failed));
        return is_found;
}

static bool
may_read(const struct weir__exchange *exchange, const struct weir_http_debug_config *config)
{
        const struct weir__peer *peer = &exchange->client->peer;
        const struct weir__proxies *proxies = exchange->client->branch->server->proxies;
        const struct weir__peer client = weir__forwarded_client(proxies, exchange->request, peer);

        if (is_allowed(config, &client))
                return true;
        return is_local(peer) && !was_passed_on(exchange) && is_local_host(exchange->request->host);
}

/* -- replies -- */

/* Makes the reply of the sink's text, or an error. */
static void
send_text(struct weir__exchange *exchange, const char *type, struct weir__memory_sink *sink, int failed)
{
        weir_task *task = &exchange->task;

        failed = failed ? failed : weir__sink_flush(&sink->sink);
        failed = failed ? failed : weir_http_reply_set_header(task, "Content-Type", type);
        failed = failed ? failed : weir_http_reply_set_header(task, "Cache-Control", "no-store");
        failed = failed ? failed : weir_http_reply_set_header(task, "X-Content-Type-Options", "nosniff");
        failed = failed ? failed : weir_http_reply_append(task, sink->bytes, sink->size);
        if (failed)
                exchange->has_failed = true;
        weir__memory_sink_done(sink);
}

static void
reply_metrics(struct weir__exchange *exchange)
{
        struct weir__memory_sink sink;

        weir__memory_sink_init(&sink);
        int failed = weir__metrics_write(&sink.sink);
        send_text(exchange, WEIR__METRICS_TYPE, &sink, failed);
}

static size_t
limit_of(const char *text)
{
        long limit = text ? strtol(text, NULL, 10) : 0;

        return limit < 1 ? WEIR__DEBUG_ROWS : limit < WEIR__DEBUG_ROWS_MAX ? (size_t)limit : WEIR__DEBUG_ROWS_MAX;
}

/* Only the page's own style and script run, and nothing is fetched, even if a name got into the page as markup. */
static int
set_policy(weir_task *exchange, uint64_t nonce)
{
        char policy[256];

        snprintf(
                policy, sizeof policy,
                "default-src 'none'; style-src 'nonce-%016llx'; script-src 'nonce-%016llx'; form-action 'self'; base-uri 'none'; "
                "frame-ancestors 'none'",
                (unsigned long long)nonce, (unsigned long long)nonce);
        return weir_http_reply_set_header(exchange, "Content-Security-Policy", policy);
}

static void
reply_flows(struct weir__exchange *exchange)
{
        const char *find = weir_http_query_value(&exchange->task, "find");
        struct weir__debug_question question = {
                .limit = limit_of(weir_http_query_value(&exchange->task, "limit")),
                .find = find ? find : "",
        };
        struct weir__memory_sink sink;

        weir__memory_sink_init(&sink);
        (void)weir_blocking_begin(); /* without an idle worker the page is made all the same */
        int failed = getrandom(&question.nonce, sizeof question.nonce, 0) < 0 ? -errno : 0;
        failed = failed ? failed : weir__debug_page(&sink.sink, &question);
        weir_blocking_end();
        failed = failed ? failed : set_policy(&exchange->task, question.nonce);
        send_text(exchange, "text/html; charset=utf-8", &sink, failed);
}

/* If the reply has begun already, it is cut. */
static void
refuse(struct weir__exchange *exchange, int status)
{
        if (weir__exchange_is_fixed(exchange) || weir__exchange_refuse_anew(exchange, status) ||
            (status == 405 && weir_http_reply_set_header(&exchange->task, "Allow", "GET, HEAD")))
                exchange->has_failed = true;
}

static bool
ends_in(const char *path, const char *end)
{
        size_t size = strlen(path), length = strlen(end);

        return size >= length && strcmp(path + size - length, end) == 0;
}

void
weir_http_debug(weir_task *exchange, void *context)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return;
        const char *path = known->request->path, *method = known->request->method;
        bool wants_metrics = ends_in(path, "/metrics"), wants_flows = ends_in(path, "/debug/flows");

        if (!may_read(known, context))
                refuse(known, 403);
        else if (!wants_metrics && !wants_flows)
                refuse(known, 404);
        else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
                refuse(known, 405);
        else
                (wants_metrics ? reply_metrics : reply_flows)(known);
}
