/* proxy/forward/proxy.c: the public face: an exchange becomes a call.
 *
 * Threads: callbacks of the exchange's series. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_body.h>
#include <weir/parallel.h>
#include <weir/url.h>

#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"
#include "proxy/forward/forward.h"
#include "proxy/forward/names.h"
#include "proxy/forward/outgoing.h"

#define VIA_MAX 32

/* -- the config -- */

static bool
is_token(const char *text)
{
        static const char others[] = "!#$%&'*+-.^_`|~";

        for (; *text; text++)
                if (!(*text >= '0' && *text <= '9') && !((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z') &&
                    !strchr(others, *text))
                        return false;
        return true;
}

static int
read_config(struct weir_http_proxy_config *known, const struct weir_http_proxy_config *config)
{
        memset(known, 0, sizeof *known);
        if (config && weir__config_read(known, sizeof *known, config))
                return weir__log_refusal("weir_http_proxy_with: %s",
                                         WEIR__CONFIG_EXPECTED("weir_http_proxy_config", "WEIR_HTTP_PROXY_CONFIG_DEFAULT"));
        known->via = known->via ? known->via : "weir";
        known->upgrades = known->upgrades ? known->upgrades : "websocket";
        if (strlen(known->via) > VIA_MAX || !is_token(known->via))
                return weir__log_refusal("weir_http_proxy_with: via: expected a token of at most %d characters", VIA_MAX);
        if (known->limit < 0 || (unsigned)known->x_forwarded > WEIR_HTTP_FORWARDING_REMOVE ||
            (unsigned)known->forwarded > WEIR_HTTP_FORWARDING_REMOVE)
                return weir__log_refusal("weir_http_proxy_with: expected a limit that is not negative, and forwardings of "
                                         "enum weir_http_forwarding");
        return 0;
}

/* -- the call -- */

/* The first protocol that the client asks for and that may take over.  Source: RFC 9110 section 7.8. */
static void
ask_upgrade(weir_http_call *call, const weir_task *exchange, const char *allowed)
{
        const char *wanted = weir_http_request_header(exchange, "Upgrade"), *token;
        const char *connection = weir_http_request_header(exchange, "Connection");
        size_t size;

        if (!wanted || !connection || !weir__names_has(connection, "upgrade"))
                return;
        while ((size = weir__names_next(&wanted, &token))) {
                char protocol[64];

                if (size >= sizeof protocol)
                        continue;
                memcpy(protocol, token, size);
                protocol[size] = '\0';
                if (weir__names_has(allowed, protocol)) {
                        (void)weir_http_call_set_upgrade(call, protocol);
                        return;
                }
        }
}

/* How the body of a request goes on. */
struct body {
        bool is_there, is_stream, is_expecting;
        const void *whole;
        size_t size;
};

static struct body
frame_body(weir_http_call *call, const weir_task *exchange)
{
        const char *length = weir_http_request_header(exchange, "Content-Length");
        bool is_chunked = weir_http_request_header(exchange, "Transfer-Encoding");
        struct body body = {.is_there = length || is_chunked};

        if (!body.is_there)
                return body;
        body.whole = weir_http_request_body(exchange, &body.size);
        uint64_t announced = is_chunked ? UINT64_MAX : strtoull(length, NULL, 10); /* the server has looked at it */
        body.is_stream = is_chunked ? !body.size : body.size < announced;
        body.is_expecting = body.is_stream && weir_http_minor(exchange) > 0 && weir_http_request_header(exchange, "Expect");
        (void)weir_http_call_set_length(call, body.is_stream ? announced : body.size);
        return body;
}

static int
prepare(weir_http_call *call, const weir_task *exchange, const struct weir_http_proxy_config *config, const char *via,
        struct body *body)
{
        bool has_forwarded;
        int failed = weir__fields_copy(call, exchange, config->keep_host, &has_forwarded);

        failed = failed ? failed : weir__identity_add(call, exchange, config, has_forwarded, via);
        if (failed)
                return failed;
        long long hops = weir__hops_left(exchange);
        if (hops > 0 && weir__hops_set(call, hops - 1) == -ENOMEM)
                return -ENOMEM;
        if (config->limit)
                (void)weir_http_call_set_limit(call, WEIR_HTTP_LIMIT_WHOLE, config->limit);
        *body = frame_body(call, exchange);
        if (weir_http_minor(exchange) > 0) /* HTTP/1.0 has no interim responses */
                (void)(body->is_expecting ? weir_http_call_set_expect(call) : weir_http_call_set_interim(call));
        if (!body->is_there)
                ask_upgrade(call, exchange, config->upgrades);
        return 0;
}

/* -- its start -- */

static void
start_both(struct weir__forward *forward, bool is_expecting)
{
        weir_series *down = weir_series_new(NULL, NULL), *up = weir_series_new(NULL, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        forward->expects_continue = is_expecting;
        forward->upload = weir_series_ref(up);
        weir_series_push(down, weir__forward_first(forward));
        if (up)
                weir__forward_upload(forward, up);
        if (both) {
                weir_parallel_add_series(both, down);
                weir_parallel_add_series(both, up);
        } else {
                weir_series_dismiss(down);
                weir_series_dismiss(up);
        }
        weir_series_push(forward->series, both); /* out of memory, the series has that as its status */
}

/* A body that is there is written beside the series: if the other server answers early, nobody waits for it. */
static void
begin(struct weir__forward *forward, const struct body *body)
{
        if (body->is_stream) {
                start_both(forward, body->is_expecting);
                return;
        }
        if (body->size)
                (void)weir_task_start(weir_http_call_write_new(forward->call, body->whole, body->size, NULL, NULL));
        weir_series_push(forward->series, weir__forward_first(forward));
}

static int
forward(const struct weir_http_proxy_config *config, weir_task *exchange, weir_client *client, const char *url)
{
        struct weir__forward *forward = weir__forward_new(exchange);
        struct body body = {.is_there = false};

        if (!forward)
                return -ENOMEM;
        if (config->via[0]) /* read_config has looked at its size */
                strcpy(stpcpy(forward->via, "1.1 "), config->via);
        weir__forward_note_version(forward, weir_http_minor(exchange));
        forward->on_response = config->on_response;
        forward->context = config->context;
        forward->is_head = strcmp(weir_http_method(exchange), "HEAD") == 0;
        forward->call = weir_http_call_new(client, weir_http_method(exchange), url);
        int failed = forward->call ? prepare(forward->call, exchange, config, forward->via, &body) : -errno;
        if (!failed && (!config->on_request || config->on_request(exchange, forward->call, config->context) == 0))
                begin(forward, &body);
        weir__forward_drop(forward);
        return failed;
}

/* -- the public face -- */

/* Whether the program's URL is at fault, and not the client's target. */
static int
refuse_url(void)
{
        return weir__log_refusal("weir_http_proxy_to: the URL: expected http://host, https://host, or the same with a path");
}

static int
proxy(const struct weir_http_proxy_config *config, weir_task *exchange, weir_client *client, const char *base)
{
        struct weir_http_proxy_config known;
        int failed = read_config(&known, config);

        if (failed)
                return failed;
        if (strcmp(weir_http_method(exchange), "CONNECT") == 0)
                return weir_http_reply_text(exchange, 501, "Not Implemented\n");
        if (weir__hops_left(exchange) == 0)
                return weir__hops_answer(exchange);
        char *url = weir__target_url(exchange, base, &failed);
        if (failed == -EACCES)
                return weir_http_reply_text(exchange, 400, "Bad Request\n");
        if (url)
                failed = forward(&known, exchange, client, url);
        free(url);
        return failed == -EINVAL ? refuse_url() : failed;
}

int
weir_http_proxy_with(const struct weir_http_proxy_config *config, weir_task *exchange, weir_client *client, const char *url)
{
        int failed = weir_http_reply_length(exchange, UINT64_MAX); /* whether the reply can be made */

        if (failed)
                return failed;
        failed = proxy(config, exchange, client, url);
        if (failed)
                (void)weir_http_reply_text(exchange, 500, "Internal Server Error\n");
        return failed;
}

int
weir_http_proxy_to(weir_task *exchange, weir_client *client, const char *url)
{
        return weir_http_proxy_with(NULL, exchange, client, url);
}
